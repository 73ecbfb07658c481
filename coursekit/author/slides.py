"""A chapter as slides: what learners see, with the speaker notes, in one HTML file that needs no network.

A paragraph shows how it begins; the notes have all of it, to say. The page's own script breaks into pages what is
taller than one: only the browser knows how tall that is.
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
from nbformat.v4 import new_markdown_cell

from coursekit.basics.cards import plural
from coursekit.basics.cells import judged_by
from coursekit.basics.errors import CommandError, existing_chapter
from coursekit.basics.paths import ROOT, STATIC
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
SHOWN = 60  # letters: a paragraph shows its sentences until they have as many
Plan = Sequence[tuple[str, Sequence[str]]]  # lines of a run sheet, each with the exercises that belong to it
_PARAGRAPH = re.compile(r"(?!#|>|\||!\[|\$\$|```|[-*] |\d+\. |\*\*Predict)")
_ANSWER = re.compile(r"### BEGIN SOLUTION\n(.*?)\n\s*### END SOLUTION", re.DOTALL)
_UNSPOKEN = re.compile(r"^#+ .*\n?|!\[[^]]*\]\(.*?\)\n?", re.MULTILINE)


def write_slides(name: str, root: Path = ROOT, run: bool = False, plan: Plan = ()) -> Path:
    """Write build/slides/NAME.slides.html and return its path; raises CommandError for an unknown chapter."""
    existing_chapter(name, root)
    path = root / "build" / "slides" / f"{name}.slides.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(as_html(deck(name, root, run, plan), name, root), encoding="utf-8")
    return path


def deck(name: str, root: Path = ROOT, run: bool = False, plan: Plan = ()) -> NotebookNode:
    """Return the chapter with speaker notes, answers as the learner's stubs, and the type of each slide.

    With `run`, cells have the outputs that the solved chapter has on this machine.
    """
    from coursekit.author.build import learner_notebook, solved_notebook

    notebook = solved_notebook(root / "chapters" / f"{name}.py")
    stubs = {cell.id: cell.source for cell in learner_notebook(notebook).cells}
    if run:
        _run(notebook, root / "solutions")
    cells = list(_cells(notebook.cells, stubs, exercise.load(name)))
    _break_thoughts([cell for cell in cells if not _is_notes(cell)])
    notebook.cells = _with_plan(cells, plan)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":  # nbconvert embeds no picture from outside the folder it works in
            cell.source = cell.source.replace("../img/", "img/")
    return notebook


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
    cells: list[NotebookNode], stubs: dict[str, str], items: dict[str, Exercise | Quiz]
) -> Iterator[NotebookNode]:
    """Yield the cells of the slides: prose cut short and its whole in notes, answers in notes, each task on a slide of its own."""
    introduction, answers = cells[0], list[str]()
    for cell, following in zip(cells, [*cells[1:], None], strict=True):
        if _is_notes(cell) or cell.id not in stubs:
            yield _notes(cell.source if cell.cell_type == "markdown" else f"```python\n{cell.source}\n```")
        elif cell.cell_type == "code":
            answers += _ANSWER.findall(cell.source) if stubs[cell.id] != cell.source else []
            cell.source = stubs[cell.id]
            yield cell
            if judged := judged_by(cell.source):
                item = items[judged[1]]
                cell.outputs = []  # what a right answer gets
                introduction.metadata["slideshow"] = {"slide_type": "subslide", "data": {"timing": 60 * item.minutes}}
                if isinstance(item, Quiz):
                    introduction.source += f'\n\n<div data-quiz="{item.chapter} {item.name}"></div>'
                yield _notes(_answer(item, answers))
                answers = []
        elif cell.source.startswith(("**Exercise `", "**Quiz ·")):
            introduction = cell
            yield cell
        else:
            said = _UNSPOKEN.sub("", cell.source).strip()
            task = following is not None and following.source.startswith("**Exercise `")
            cell.source = _shown(cell.source, task)
            yield cell
            if said:
                yield _notes(said)


def _shown(source: str, task: bool) -> str:
    """Return prose with each paragraph cut after its first sentence or two; before an exercise, the last one is whole."""
    blocks = source.split("\n\n")
    plain = [number for number, block in enumerate(blocks) if _PARAGRAPH.match(block)]
    for number in plain:
        if task and number == plain[-1]:
            continue
        lines = blocks[number].splitlines()
        count = next((count for count in range(1, len(lines)) if len(" ".join(lines[:count])) >= SHOWN), len(lines))
        leads = lines[-1:] if count < len(lines) and lines[-1].endswith(":") else []  # to the code below
        blocks[number] = "\n".join(lines[:count] + leads)
    return "\n\n".join(blocks)


def _answer(item: Exercise | Quiz, answers: list[str]) -> str:
    """Return what the speaker should know of a task: its minutes, the answer, and what speaks for and against each option."""
    if isinstance(item, Quiz):
        feedback = "\n".join(f"- **{letter}** {text}" for letter, (_, text) in item.options.items())
        return f"**{plural(item.minutes, 'minute')} · the answer is {item.key}**\n\n{feedback}"
    code = "\n\n".join(textwrap.dedent(answer) for answer in answers)
    return f"**{plural(item.minutes, 'minute')} for `{item.name}`.** {item.idea}\n\n```python\n{code}\n```"


def _break_thoughts(cells: list[NotebookNode]) -> None:
    """Begin a slide where a new thought begins: with the text after code."""
    for before, cell in zip(cells, cells[1:], strict=False):
        if "slideshow" not in cell.metadata and before.cell_type == "code" and cell.cell_type == "markdown":
            cell.metadata["slideshow"] = {"slide_type": "subslide"}


def _with_plan(cells: list[NotebookNode], plan: Plan) -> list[NotebookNode]:
    """Return the cells with the plan at the end of each slide's notes, its line of now in bold: that of the exercise to come."""
    found, now, end = list[NotebookNode](), "", 0  # found from the last cell to the first
    for cell in reversed(cells):
        judged = judged_by(cell.source) if cell.cell_type == "code" else None
        if judged and any(judged[1] in names for _, names in plan):
            now = judged[1]
        found.append(cell)
        if plan and cell.metadata.get("slideshow", {}).get("slide_type") in ("slide", "subslide"):
            there = next((number for number, (_, names) in enumerate(plan) if now in names), len(plan) - 1)
            lines = [f"- **{line}**" if number == there else f"- {line}" for number, (line, _) in enumerate(plan)]
            found.insert(end, _notes("**The plan**\n\n" + "\n".join(lines)))
            end = len(found)
    return found[::-1]


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
    first = notebook.cells[0].source
    title = next((line[2:] for line in first.splitlines() if line.startswith("# ")), name)
    minutes = re.search(r"About (\d+) minutes", first)
    resources = {
        "metadata": {"name": name, "path": str(root)},
        "title": title,
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
