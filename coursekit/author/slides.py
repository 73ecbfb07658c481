"""A chapter as slides: what learners see, with the speaker notes, in one HTML file that needs no network.

Cells show what `make record` kept of them. The page's own script breaks into pages what is taller than one: only the browser
knows how tall that is.
"""

import base64
import os
import re
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

from coursekit.author import recordings, slide_prose
from coursekit.basics.cards import plural
from coursekit.basics.cells import judged_by, prediction
from coursekit.basics.errors import CommandError, existing_chapter
from coursekit.basics.paths import ROOT, STATIC
from coursekit.basics.translated_cells import MARK, in_language, in_picture, is_translated
from coursekit.basics.translations import BOARD, SOURCE, Translations, flowing, translated
from coursekit.judging import exercise
from coursekit.judging.exercise import Exercise, Quiz

STYLES = [
    "look.css",
    "vendor/reveal/reveal.css",
    "vendor/reveal/simple.css",
    "vendor/katex/katex.min.css",
    "slides/slides.css",
]
SCRIPTS = [
    "vendor/katex/katex.min.js",
    "vendor/katex/auto-render.min.js",
    "vendor/reveal/reveal.js",
    "vendor/reveal/notes.js",
    "slides/slides.js",
]
NOT_RECORDED = (
    "No output: this cell has changed since the chapter was recorded.\n"
    "make record name={name} records it again; make slides name={name} RUN=1 runs it now.\n"
)
OF_QUIZ = "{minutes} · the answer is {key}"
OF_EXERCISE = "{minutes} for `{name}`."
VOTES = {"first": "first (grey) vote: {count} in", "second": "second (blue) vote: {count} in"}  # as the board says it
_HERE = "author/slides"  # the context of these
THE_PLAN = "The plan"
PICTURE = "What the cell draws"  # for a screen reader, where no sentence of the text describes it
Plan = Sequence[
    tuple[str, Sequence[str], str]
]  # lines of a run sheet: words, exercises and sections, what to do in the room
_SECTION = re.compile(r"^## (.*)", re.MULTILINE)
_PICTURE = re.compile(r"\.\./img/(\w+)\.svg")
_DRAWS = re.compile(r"figure\b.*=|timeline\(")  # how a cell begins that only draws
_ANSWER = re.compile(r"### BEGIN SOLUTION\n(.*?)\n\s*### END SOLUTION", re.DOTALL)


def write_slides(name: str, root: Path = ROOT, run: bool = False, plan: Plan = (), language: str = SOURCE) -> Path:
    """Write build/slides/NAME.slides.html and return its path; raises CommandError for an unknown chapter."""
    existing_chapter(name, root)
    path = root / "build" / "slides" / f"{name}.slides.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(as_html(deck(name, root, run, plan, language), name, root), encoding="utf-8")
    return path


def deck(name: str, root: Path = ROOT, run: bool = False, plan: Plan = (), language: str = SOURCE) -> NotebookNode:
    """Return the chapter as slides: cells with what they showed when it was recorded, answers as the learner's stubs, and notes.

    With `run`, cells have the outputs that the solved chapter has on this machine. The plan comes in the language that is wanted, with English
    names of sections; a chapter of which nothing is translated stays English.
    """
    from coursekit.author.build import learner_notebook, solved_notebook

    notebook = solved_notebook(root / "chapters" / f"{name}.py")
    language = language if is_translated(notebook.cells, translated(name, language, root)) else SOURCE
    notebook.metadata.text_language, say = language, translated(name, language, root)
    stubs = {cell.id: cell.source for cell in learner_notebook(notebook).cells}
    if run:
        _run(notebook, root / "solutions")
    else:
        _put_recorded(notebook, name, root, say)
    cells = in_language(notebook.cells, name, language, root, a_line_each=True)
    sections = {_plain(old): _plain(new) for old, new in zip(_sections(notebook.cells), _sections(cells), strict=True)}
    plan = [(words, [sections.get(each, each) for each in names], todo) for words, names, todo in plan]
    notebook.cells = _with_plan(list(_cells(cells, stubs, exercise.load(name), say)), plan, say)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = _PICTURE.sub(lambda path: _picture(root / f"img/{path[1]}.svg", say), flowing(cell.source))
    return notebook


def _picture(path: Path, say: Translations) -> str:
    """Return a diagram as an address that has it inside."""
    svg = in_picture(path.read_text(encoding="utf-8"), path.stem, say)
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


def _sections(cells: list[NotebookNode]) -> list[str]:
    return [heading for cell in cells if cell.cell_type == "markdown" for heading in _SECTION.findall(cell.source)]


def _plain(heading: str) -> str:
    return re.sub("[`*]", "", heading)


def _put_recorded(notebook: NotebookNode, name: str, root: Path, say: Translations) -> None:
    """Give each demonstration what it showed when the chapter was recorded; one that has changed since then says so."""
    outputs = recordings.load(name, root).get("outputs", {})
    missing = [new_output("stream", text=say(_HERE, NOT_RECORDED).text.format(name=name))]
    for cell in recordings.demonstrations(notebook):
        cell.outputs = nbformat.from_dict(outputs.get(cell.id, missing))


def _run(notebook: NotebookNode, folder: Path) -> None:
    """Run a notebook, but leave the reader's own progress as they are; raises CommandError where a cell fails."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    client = NotebookClient(notebook, timeout=None, resources={"metadata": {"path": str(folder)}})
    with tempfile.TemporaryDirectory() as home, client.setup_kernel(env=os.environ | {"COURSEKIT_HOME": home}):
        for index, cell in enumerate(notebook.cells):
            try:
                client.execute_cell(cell, index)
            except CellExecutionError as error:
                raise CommandError(f"A cell of the solved chapter failed, so there are no slides:\n{error}") from None


def _cells(
    cells: list[NotebookNode], stubs: dict[str, str], items: dict[str, Exercise | Quiz], say: Translations
) -> Iterator[NotebookNode]:
    """Yield the cells of the slides, each with its notes: a claim, a picture, a cell, a question or a task on a slide of its own."""
    demonstrations = {cell.id for cell in recordings.demonstrations(NotebookNode(cells=cells))}
    introduction, answers, above, caption = cells[0], list[str](), "", ""
    for cell, following in zip(cells, [*cells[1:], new_markdown_cell("#")], strict=True):
        if _is_notes(cell) or cell.id not in stubs:
            yield _notes(cell.source if cell.cell_type == "markdown" else f"```python\n{cell.source}\n```")
        elif cell.cell_type == "markdown" and slide_prose.TASK.match(cell.source):
            introduction = cell
            yield cell
        elif cell.cell_type == "markdown":
            yield from _text(cell.source, caption)
            above, caption = cell.source, ""
        elif judged := judged_by(cell.source):
            item = items[judged[1]]
            introduction.metadata["slideshow"] = {"slide_type": "subslide", "data": {"timing": 60 * item.minutes}}
            if isinstance(item, Quiz):
                votes = "".join(f' data-{round}="{say(BOARD, text).text}"' for round, text in VOTES.items())
                introduction.source += f'\n\n<div data-quiz="{item.chapter} {item.name}"{votes}></div>'
            else:
                introduction.source = f"{slide_prose.task(above, item.name)}\n\n{introduction.source}".lstrip()
            yield _notes(_answer(item, answers, say))
            answers = []
        elif stubs[cell.id] != cell.source:
            answers += _ANSWER.findall(cell.source)
            cell.source, cell.outputs = stubs[cell.id], []
            if _exercise(introduction):
                yield cell
        elif prediction(cell.source):
            cell.outputs = []
            yield cell
        elif cell.id in demonstrations:
            plain = following.cell_type == "markdown" and following.id in stubs and not _is_notes(following)
            caption = slide_prose.caption(following.source) if plain else ""
            yield from _demonstration(cell, slide_prose.lead(above), caption, say)
            above = ""


def _text(source: str, caption: str) -> Iterator[NotebookNode]:
    """Yield the slides of a text cell, each with its notes; where its first sentence is the caption above, its notes go there."""
    kind = "slide" if source.startswith(("# ", "## ")) else "subslide"
    for number, part in enumerate(slide_prose.parts(source, caption)):
        if part.shown and not (caption and number == 0):
            yield new_markdown_cell("\n\n".join(part.shown), metadata={"slideshow": {"slide_type": kind}})
            kind = "subslide"
        if part.said:
            yield _notes("\n\n".join(part.said))


def _demonstration(cell: NotebookNode, lead: str, caption: str, say: Translations) -> Iterator[NotebookNode]:
    """Yield a cell with its printed output, and then, on a slide of its own, what it draws; a cell that only draws isn't shown."""
    outputs = cell.outputs
    first = next((number for number, output in enumerate(outputs) if _is_picture(output)), len(outputs))
    pictures, cell.outputs = outputs[first:], outputs[:first]
    if not (pictures and _DRAWS.match(cell.source)):
        shown = [new_markdown_cell(lead)] if lead else []
        shown += [cell, *([new_markdown_cell(caption)] if caption and not pictures else [])]
        shown[0].metadata["slideshow"] = {"slide_type": "subslide"}
        yield from shown
    if pictures:
        for picture in filter(_is_picture, pictures):
            picture.metadata["alt"] = caption or say(_HERE, PICTURE).text
        drawing = new_code_cell(outputs=pictures, metadata={"transient": {"remove_source": True}})
        shown = [new_markdown_cell(caption), drawing] if caption else [drawing]
        shown[0].metadata["slideshow"] = {"slide_type": "subslide"}
        yield from shown


def _is_picture(output: NotebookNode) -> bool:
    return any(mime.startswith("image/") for mime in output.get("data", {}))


def _answer(item: Exercise | Quiz, answers: list[str], say: Translations) -> str:
    """Return what the speaker should know of a task: its minutes, the answer, and what speaks for and against each option."""
    number, _, noun = plural(item.minutes, "minute").partition(" ")
    minutes = f"{number} {say('noun', noun).text}"
    if isinstance(item, Quiz):
        replies = {letter: say(f"quiz {item.name} {letter} reply", text) for letter, (_, text) in item.options.items()}
        feedback = "\n".join(f"- **{letter}** {text}{MARK * stale}" for letter, (text, stale) in replies.items())
        return f"**{say(_HERE, OF_QUIZ).text.format(minutes=minutes, key=item.key)}**\n\n{feedback}"
    code = "\n\n".join(textwrap.dedent(answer) for answer in answers)
    idea = say.markdown(item.idea, f"idea {item.name}", MARK)
    return (
        f"**{say(_HERE, OF_EXERCISE).text.format(minutes=minutes, name=item.name)}** {idea}\n\n```python\n{code}\n```"
    )


def _with_plan(cells: list[NotebookNode], plan: Plan, say: Translations) -> list[NotebookNode]:
    """Return the cells with the plan at the end of each slide's notes: its line of now in bold, with what to do in the room."""
    found, end = list[NotebookNode](), 0  # found from the last cell to the first
    for cell, now in reversed(list(zip(cells, _lines_of_now(cells, plan), strict=True))):
        found.append(cell)
        if plan and cell.metadata.get("slideshow", {}).get("slide_type") in ("slide", "subslide"):
            lines = [f"- {words}" for words, _, _ in plan]
            lines[now] = f"- **{plan[now][0]}** {plan[now][2]}".rstrip()
            found.insert(end, _notes(f"**{say(_HERE, THE_PLAN).text}**\n\n" + "\n".join(lines)))
            end = len(found)
    return found[::-1]


def _lines_of_now(cells: list[NotebookNode], plan: Plan) -> list[int]:
    """Return for each cell the number of its line in the plan: that of its section, else that of the exercise to come."""
    line = {name: number for number, (_, names, _) in reversed(list(enumerate(plan))) for name in names}
    found, section, coming = list[int | None](), None, max(len(plan) - 1, 0)
    for cell in cells:
        if heading := _SECTION.match(cell.source):
            section = line.get(_plain(heading[1]))
        found.append(section)
    for number, cell in reversed(list(enumerate(cells))):
        coming = line.get(_exercise(cell), coming)
        if found[number] is None:
            found[number] = coming
    return [number or 0 for number in found]


def _exercise(cell: NotebookNode) -> str:
    """Return the exercise that a cell introduces, "" if none."""
    found = [task[1] for task in map(slide_prose.TASK.match, cell.source.split("\n\n")) if task and task[1]]
    return found[0] if found else ""


def _notes(text: str) -> NotebookNode:
    return new_markdown_cell(text, metadata={"tags": ["notes"], "slideshow": {"slide_type": "notes"}})


def _is_notes(cell: NotebookNode) -> bool:
    return "notes" in cell.metadata.get("tags", [])


def as_html(notebook: NotebookNode, name: str, root: Path) -> str:
    """Return the page: pictures, styles, fonts and scripts inside."""
    from nbconvert.exporters import SlidesExporter

    exporter = SlidesExporter(
        template_name="slides",
        extra_template_basedirs=[str(STATIC)],
        embed_images=True,
        exclude_input_prompt=True,
        exclude_output_prompt=True,
    )
    first = "\n".join(cell.source for cell in notebook.cells[:2])  # the opening, and its notes
    title = next((line[2:] for line in first.splitlines() if line.startswith("# ")), name)
    minutes = re.search(r"^\*\w+ (\d+) (?:[Mm]inut|分钟)", first, re.MULTILINE)
    resources = {
        "metadata": {"name": name, "path": str(root)},
        "title": title,
        "language": notebook.metadata.text_language,
        "seconds": 60 * int(minutes[1]) if minutes else "null",
        "styles": [_style(STATIC / file) for file in STYLES],
        "scripts": [_script(STATIC / file) for file in SCRIPTS],
    }
    html, _ = exporter.from_notebook_node(nbformat.from_dict(notebook), resources=resources)
    return html


def _style(path: Path) -> str:
    """Return a style sheet without imports from elsewhere, and with its WOFF2 fonts as data."""

    def inline(match: re.Match[str]) -> str:
        font = path.parent / match[1]
        if font.suffix != ".woff2":  # older forms, which do not lie here
            return "url()"
        return f"url(data:font/woff2;base64,{base64.b64encode(font.read_bytes()).decode()})"

    css = re.sub(r"@import [^;]*;", "", path.read_text(encoding="utf-8"))
    return re.sub(r"url\((fonts/[^)]+)\)", inline, css)


def _script(path: Path) -> str:
    """Return a script that can stand inside a page: no string in it ends or reopens the script element."""
    return path.read_text(encoding="utf-8").replace("</script", r"<\/script").replace("<!--", r"<\!--")
