"""What there is to translate: the texts of a chapter, of the interface, and of the pages, each with the context that a lookup needs."""

import ast
import calendar
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from coursekit.basics.cells import JUDGES
from coursekit.basics.errors import CommandError, chapter_names
from coursekit.basics.html_page import SAID, WORDS
from coursekit.basics.markdown_blocks import PLACEHOLDER, blocks, has_words
from coursekit.basics.paths import ROOT
from coursekit.basics.syntax import parse
from coursekit.basics.translated_cells import PICTURE_TEXT
from coursekit.basics.translations import BOARD, INTERFACE, PAGES, context_of, place_of
from coursekit.judging import message_ids, quiz_text, result  # nothing that needs NumPy: the site has none

LEARNERS_PAGES: tuple[str, ...] = (
    "README.md",
    *(f"docs/{name}.md" for name in ("setup", "glossary", "old_names", "capstone")),
)
LEARNERS_PAGES += (
    "docs/untaught.md",
    "docs/handout.md",
    "site/en/index.md",
    "site/en/exercises.md",
    "site/en/translations.md",
)
# Whose sentences a learner reads; a sentence is found by its look until the program asks for its translation itself.
SPEAKING: tuple[str, ...] = (
    "cli.py",
    "author/build.py",
    "author/slides.py",
    "basics/cards.py",
    "basics/progress_bar.py",
)
SPEAKING += ("room/live_board.py", "room/before_and_after.py", "room/mistake_words.py", "room/run_sheet.py")
SPEAKING += ("grading/student_page.py", "grading/desk/class_page.py")
SPEAKING += ("basics/translations.py", "basics/versions.py", "basics/dates.py", "learner/**/*.py", "machine/*.py")
SPEAKING += (
    "judging/result.py",
    "judging/expect.py",
    "judging/answer.py",
    "judging/exercise.py",
    "ray_bridge/timeline.py",
)
# Whose strings with several words are parts of sentences.
FRAGMENTS: tuple[str, ...] = ("judging/failure.py", "judging/form.py", "ray_bridge/rendezvous.py")
FRAGMENTS += ("machine/preflight.py", "machine/update.py", "room/sections.py", "room/votes.py")
FRAGMENTS += (
    "basics/files.py",
    *(f"grading/{name}.py" for name in ("submission", "submission_grader", "grading_plan", "outcome", "file_kinds")),
    *(f"sandbox/{name}.py" for name in ("accounts", "conversation", "sandbox", "replies", "limits")),
)
_SENTENCE = re.compile(r"(?:# )?[A-Z`{*][^<\\]*|[^<\\]+[.:?!]")
_BESIDE_VALUES = re.compile(r"(?:^|[ (·*])[A-Za-z]{2,}[ .,:;?!)]|[ ·][a-z]{2,}$")
_TWO_WORDS = re.compile(r"[A-Za-z']{2,}[,:;]? [A-Za-z`]")


class Text(NamedTuple):
    """A text, and where it stands."""

    context: str
    source: str
    note: str = ""  # for the translator


def names(root: Path = ROOT) -> list[str]:
    """Return what has a file of translations: each chapter, the interface, and the pages."""
    if not (chapters := chapter_names(root)):
        raise CommandError(f"There are no chapters in {root}: clone the course, and translate it there.")
    return [*chapters, INTERFACE, PAGES]


def texts(name: str, root: Path = ROOT) -> list[Text]:
    """Return the texts of a chapter, of `interface` or of `pages`, in the source's order; equal ones in one context are one."""
    sources = {INTERFACE: _interface, PAGES: _pages}
    if name not in names(root):
        raise CommandError(f"There is nothing to translate named {name!r}. There are: {', '.join(names(root))}.")
    found = sources[name](root) if name in sources else _chapter(name, root)
    return list({(text.context, text.source): text for text in found if has_words(text.source)}.values())


def _chapter(name: str, root: Path) -> Iterator[Text]:
    import jupytext

    for cell in jupytext.read(root / f"chapters/{name}.py", fmt="py:percent").cells:
        if cell.cell_type == "markdown":
            yield from _markdown(cell.source, place_of(cell.metadata.get("tags", [])))
    yield from _checks(root / f"coursekit/exercises/{name}.py")
    hints = root / f"coursekit/exercises/hints/{name}.md"
    for entry in message_ids.MISTAKE_HINT.finditer(hints.read_text(encoding="utf-8")) if hints.exists() else []:
        yield from _markdown(entry["text"].strip(), f"mistake {entry['exercise']}", entry["begins"])
    yield from _pictures(root, f"{name[:4]}_*.svg")
    yield from _run_sheets(root / f"docs/run_sheets/{name}.md")


def _run_sheets(path: Path) -> Iterator[Text]:
    """Yield of a page's run sheets their titles, what comes when, most of which are headings of chapters, and what happens in the room."""
    title = ""
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        if line.startswith("#"):
            title = line.lstrip("# ")
        elif re.match(r"\| *\d", line):
            _, _, what, _, *in_the_room = (cell.strip() for cell in line.strip("|").split("|"))
            yield Text("heading", title)
            yield from (Text("heading", part) for part in what.split(" · "))
            yield from (Text("run sheet", each) for each in in_the_room)


def _markdown(source: str, place: str, note: str = "") -> Iterator[Text]:
    for block in blocks(source):
        if block.kind:
            yield Text(context_of(block, place), block.text, note)


def _checks(path: Path) -> Iterator[Text]:
    """Yield what a module of checks says: hints, ideas, messages, and questions."""
    questions, said = quiz_text.read(path), message_ids.literals_of(str(path))
    for node in parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            yield from _of_exercise(node)
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
        for line in range(first, (node.end_lineno or first) + 1):
            for literal in said.get(line, []):
                yield Text(
                    f"message {message_ids.id_of(literal.template)}", literal.template, getattr(node, "name", "")
                )
        if isinstance(node, ast.FunctionDef):
            yield from _words(
                node, f"exercises/{path.stem}", {each.template for found in said.values() for each in found}
            )
        match node:
            case ast.Expr(ast.Call(ast.Name("question"), [ast.Constant(str(name)), *_])):
                yield from _question(name, questions[name])


def _words(function: ast.FunctionDef, place: str, messages: set[str]) -> Iterator[Text]:
    """Yield what a check says beside its messages: what it has tried, and words that stand for a value."""
    for said in (said for node in function.body for said in _strings(node)):
        if " " in said and said not in messages:
            yield Text(place, said, function.name)


def _of_exercise(function: ast.FunctionDef) -> Iterator[Text]:
    """Yield the hints of an exercise, and the idea that comes with its solution."""
    for call in function.decorator_list:
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "exercise":
            declared = {each.arg: each.value for each in call.keywords}
            for hint in ast.literal_eval(declared["hints"]):
                yield from _markdown(hint, f"hint {function.name}")
            yield from _markdown(ast.get_docstring(function) or "", f"idea {function.name}")


def _question(name: str, question: quiz_text.Question) -> Iterator[Text]:
    asked, options, _ = question
    yield from _markdown(asked, f"quiz {name}")
    for letter, (option, reply) in options.items():
        yield Text(f"quiz {name} {letter}", option)
        yield Text(f"quiz {name} {letter} reply", reply)


def _pictures(root: Path, pattern: str) -> Iterator[Text]:
    """Yield what stands in diagrams, as it stands in their XML."""
    for path in sorted(root.glob(f"img/{pattern}")):
        for found in PICTURE_TEXT.findall(path.read_text(encoding="utf-8")):
            yield Text(f"picture {path.stem}", found)


def _pages(root: Path) -> Iterator[Text]:
    for page in LEARNERS_PAGES:
        yield from _markdown((root / page).read_text(encoding="utf-8"), page)
    yield from _pictures(root, "learners_map.svg")
    yield from _run_sheets(root / "docs/workshop.md")


def _interface(root: Path) -> Iterator[Text]:
    for kind, template in message_ids.FRAMEWORK.items():
        yield Text(f"message {kind}", template)
    for path in sorted(root.glob("coursekit/exercises/_*.py")):
        if path.stem != "_template":
            yield from _checks(path)
    for pattern in SPEAKING:
        for path in sorted(root.glob(f"coursekit/{pattern}")):
            yield from _sentences(path, root)
            yield from _nouns(path)
    for name in FRAGMENTS:
        yield from _fragments(root / f"coursekit/{name}", name.removesuffix(".py"))
        yield from _nouns(root / f"coursekit/{name}")
    for said in _strings(parse((root / "coursekit/judging/wire.py").read_text(encoding="utf-8"))):
        if said.startswith("it "):  # what came back; the others speak to authors
            yield Text("judging/wire", said)
    for word in (
        *result.WORDS.values(),
        result.INTERRUPTED,
        result.NOT_COUNTED,
        *_values_of("CALLED", root / "coursekit/judging/exercise.py"),
        *JUDGES.values(),
    ):
        yield Text("judging/result", word)
    yield from _board(root / "coursekit/static/room/board.html")
    for word in _values_of("COMMON", root / "coursekit/room/mistake_words.py"):
        yield Text("room/mistake_words", word)
    for word in ("values", *_values_of("TYPES", root / "coursekit/judging/form.py")):
        if word != "None":
            yield Text("judging/form", word)
    for word in (*calendar.day_name, *calendar.month_name[1:]):
        yield Text("basics/dates", word)
    for path in sorted(root.glob("coursekit/given/*.py")):
        yield from _waits(path)
    for key, text in tomllib.loads((root / "site/en/texts.toml").read_text(encoding="utf-8")).items():
        if key != "language":
            yield Text(f"site {key}", text)


def _board(path: Path) -> Iterator[Text]:
    """Yield the words of the room's page: of its HTML, and of its script."""
    html, _, script = path.read_text(encoding="utf-8").partition("<script>")
    for words in (*map(str.strip, WORDS.findall(html)), *SAID.findall(script)):
        yield Text(BOARD, words)


def _sentences(path: Path, root: Path) -> Iterator[Text]:
    """Yield what a program's strings say to its user, found by their look, and the help of its commands."""
    place = str(path.relative_to(root / "coursekit").with_suffix(""))
    module = parse(path.read_text(encoding="utf-8"))
    for said in _strings(module):
        if _SENTENCE.fullmatch(said) and (_TWO_WORDS if "{" not in said else _BESIDE_VALUES).search(
            PLACEHOLDER.sub("0", said)
        ):
            yield Text(place, said)
    for said in _asked_for(module):
        yield Text(place, said)


def _asked_for(module: ast.Module) -> Iterator[str]:
    """Yield what a program asks `told` for by itself, as a string or by a constant's name, and the names of findings."""
    constants: dict[str, ast.expr] = {}
    for statement in module.body:
        match statement:
            case ast.Assign([ast.Name(name)], value):
                constants[name] = value
            case ast.Assign([ast.Tuple(names)], ast.Tuple(values)):
                constants |= dict(zip(map(ast.unparse, names), values, strict=True))
    for node in ast.walk(module):
        match node:
            case ast.Call(ast.Name("told" | "told_in_plot"), [ast.IfExp(_, first, second), *_]):
                asked = [first, second]
            case ast.Call(ast.Name("told" | "told_in_plot"), [ast.Call(ast.Attribute(first, "format")) | first, *_]):
                asked = [first]
            case ast.Call(ast.Name("Finding"), [first, *_]):
                asked = [first]
            case _:
                continue
        for value in asked:
            if literal := message_ids.literal_of(constants.get(value.id) if isinstance(value, ast.Name) else value):
                yield literal.template


def _fragments(path: Path, place: str) -> Iterator[Text]:
    for said in _strings(parse(path.read_text(encoding="utf-8"))):
        if " " in said and not re.search(r"[\\|]|STUB_TEXT", said) and said != "your answer goes here":
            yield Text(place, said)


def _waits(path: Path) -> Iterator[Text]:
    """Yield for what a rendezvous waits."""
    for node in ast.walk(parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Call(ast.Attribute(attr="wait_for"), keywords=keywords):
                for each in keywords:
                    if each.arg == "what" and (literal := message_ids.literal_of(each.value)):
                        yield Text("ray_bridge/rendezvous", literal.template)


def _nouns(path: Path) -> Iterator[Text]:
    """Yield what a program counts, as one and as several."""
    for node in ast.walk(parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Call(ast.Name("plural"), [_, ast.Constant(str(noun))]):
                yield Text("noun", noun)
                yield Text("noun", f"{noun}s")


def _values_of(name: str, path: Path) -> Iterator[str]:
    """Yield the strings in the values of a module's dict."""
    for node in parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.Assign([ast.Name(found)], ast.Dict(values=values)) if found == name:
                yield from (text for value in values for text in _strings(value))
            case ast.AnnAssign(ast.Name(found), value=ast.Dict(values=values)) if found == name:
                yield from (text for value in values for text in _strings(value))


def _strings(node: ast.AST) -> Iterator[str]:
    """Yield the strings and f-strings below a node, in order, without docstrings, patterns, and what only authors read."""
    match node:
        case ast.FunctionDef(decorator_list=[ast.Call(ast.Name("command")), *_]):
            yield ast.get_docstring(node) or ""
        case ast.Expr(ast.Constant()) | ast.Call(ast.Attribute(ast.Name("re"))) | ast.Call(ast.Name("AuthorError")):
            return
    if literal := message_ids.literal_of(node):  # type: ignore[arg-type]
        yield literal.template
        return
    for child in ast.iter_child_nodes(node):
        yield from _strings(child)
