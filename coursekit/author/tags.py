"""What an author writes into a chapter, and what the builder reads from it: answer cells, check cells, tags."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from nbformat import NotebookNode

from coursekit.basics.cells import JUDGES, calls, defined_names, judged_by, prediction
from coursekit.judging.exercise import AuthorError, Exercise, Quiz
from coursekit.judging.failure import STUB

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
TAGS = {"solution", "notes", "demo"}
ANSWER = "...  # your answer"
Items = dict[str, Exercise | Quiz]


class Role(NamedTuple):
    """What a code cell is for: the learner's answer to an exercise or a quiz, or its locked test cell."""

    item: Exercise | Quiz
    answer: bool

    def metadata(self) -> dict:
        """Return the cell metadata that nbgrader reads."""
        name = f"answer_{self.item.name}" if self.answer else self.item.name
        common = {"grade_id": name, "schema_version": 3, "task": False, "cell_type": "code"}
        flags = {"grade": not self.answer, "solution": self.answer, "locked": not self.answer}
        return {"nbgrader": common | flags | ({} if self.answer else {"points": self.item.points})}


def roles_of_cells(chapter: Path, cells: list[NotebookNode], items: Items) -> list[Role | None]:
    """Return the role of each cell, None for text and for code that is not graded; raises AuthorError that lists every mistake with file and line."""
    place = f"chapters/{chapter.name}"
    lines = [n for n, line in enumerate(chapter.read_text(encoding="utf-8").splitlines(), 1) if line.startswith("# %%")]
    if len(lines) != len(cells):
        raise AuthorError(f"{place}:1: every cell begins with `# %%`, and nothing comes before the first.")
    called_in = [calls(cell.source) if cell.cell_type == "code" else [] for cell in cells]
    problems = [
        (line, problem)
        for line, cell, called in zip(lines, cells, called_in, strict=True)
        for problem in _problems_of_cell(cell, called, items)
    ]
    problems = problems or [
        *_problems_of_order(lines, cells, called_in, items),
        *_problems_of_predictions(lines, cells),
    ]
    if problems:
        raise AuthorError("\n".join(f"{place}:{line}: {problem}" for line, problem in problems))
    return [_role(cell, called, items) for cell, called in zip(cells, called_in, strict=True)]


def _role(cell: NotebookNode, called: list[tuple[str, str]], items: Items) -> Role | None:
    if called:
        return Role(items[called[0][1]], answer=False)
    if cell.cell_type == "code" and BEGIN in cell.source:
        return Role(items[next(name for name in defined_names(cell.source) if name in items)], answer=True)
    return None


def _problems_of_cell(cell: NotebookNode, called: list[tuple[str, str]], items: Items) -> Iterator[str]:
    """Yield what is wrong inside one cell."""
    tags = set(cell.metadata.get("tags", []))
    if tags - TAGS:
        yield f"unknown tag {sorted(tags - TAGS)}: the tags are {sorted(TAGS)}."
    if "notes" in tags and cell.cell_type != "markdown":
        yield 'speaker notes are Markdown: write `# %% [markdown] tags=["notes"]`.'
    if cell.cell_type != "code":
        return
    try:
        ast.parse(cell.source)
    except SyntaxError as error:
        yield f"this cell is not valid Python. Line {error.lineno}: {error.msg}."
        return
    yield from _problems_of_delimiters(cell.source, called, items)
    if "demo" in tags and (called or BEGIN in cell.source):
        yield 'the tag "demo" is for cells that only show something: remove it from answers and checks.'
    if len(called) > 1:
        yield f"put each check in a cell of its own: this one has {[name for _, name in called]}."
    for function, name in called:
        kind = JUDGES[function]
        if name not in items:
            yield f'{function}("{name}", …) has no {kind} {name!r} in coursekit/exercises.'
        elif items[name].kind != kind:
            yield f"{name!r} is a {items[name].kind}, not a{'n' if kind == 'exercise' else ''} {kind}."
        elif len(called) == 1 and not judged_by(cell.source):
            yield f'put a check in a cell of its own: `{function}("{name}", {name})` and nothing else.'


def _problems_of_delimiters(source: str, called: list[tuple[str, str]], items: Items) -> Iterator[str]:
    """Yield what is wrong with the solution delimiters of a code cell."""
    found = re.findall(r"^ *### (BEGIN|END) SOLUTION$", source, re.MULTILINE)
    if found != ["BEGIN", "END"] * (len(found) // 2) or source.count("SOLUTION") != len(found):
        yield f"solution delimiters come in pairs, each on its own line: `{BEGIN}` … `{END}`."
        return
    if not found:
        return
    if called:
        yield "this cell has a solution delimiter and a check: move the check to the next cell."
    elif not set(defined_names(source)) & set(items):
        yield f"this answer cell defines {defined_names(source) or 'nothing'}, none of which is an exercise or a quiz."
    try:
        without_solutions(source)
    except AuthorError as error:
        yield str(error)


def _problems_of_order(
    lines: list[int], cells: list[NotebookNode], called_in: list[list[tuple[str, str]]], items: Items
) -> Iterator[tuple[int, str]]:
    """Yield what is wrong between cells: checks before their answer, twice, or never."""
    answered: set[str] = set()
    checked: dict[str, int] = {}
    for line, cell, called in zip(lines, cells, called_in, strict=True):
        if cell.cell_type == "code" and BEGIN in cell.source:
            answered.update(defined_names(cell.source))
        for _, name in called:
            if name in checked:
                yield line, f"{name!r} is checked twice; the first check is at line {checked[name]}."
            elif name not in answered:
                yield line, f"no answer cell above defines {name!r}."
            checked.setdefault(name, line)
    for name in items.keys() - checked.keys():
        where = f"of coursekit/exercises (line {items[name].line})"
        yield 1, f"{items[name].kind} {name!r} {where} is never checked here."


def _problems_of_predictions(lines: list[int], cells: list[NotebookNode]) -> Iterator[tuple[int, str]]:
    """Yield what is wrong with predictions: filled in, beside other code, twice, or never compared with what was measured."""
    asked: dict[str, int] = {}
    for line, cell in zip(lines, cells, strict=True):
        if cell.cell_type != "code" or not re.search(r"^predict\(", cell.source, re.MULTILINE):
            continue
        found = prediction(cell.source)
        if not found or not found.is_open:
            yield (
                line,
                'put a prediction in a cell of its own, not filled in: `predict("name", ...)`, or `predict("name", ..., ["a word", "another"])`.',
            )
        elif found.name in asked:
            yield line, f"{found.name!r} is predicted twice; the first prediction is at line {asked[found.name]}."
        else:
            asked[found.name] = line
    later = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    for name, line in asked.items():
        if f'measured("{name}",' not in later:
            yield (
                line,
                f'nothing is compared with this prediction: call `measured("{name}", …)` where the result is known.',
            )


def without_solutions(source: str) -> str:
    """Return a cell as learners get it: a stub in each function, `name = ...  # your answer` at top level."""
    lines: list[str] = []
    hidden: list[str] | None = None
    for line in source.splitlines():
        if line.strip() == BEGIN:
            hidden, indent = [], line[: len(line) - len(line.lstrip())]
        elif line.strip() == END and hidden is not None:
            lines += [indent + STUB] if indent else _assignments(hidden)
            hidden = None
        else:
            (lines if hidden is None else hidden).append(line)
    return "\n".join(lines)


def _assignments(hidden: list[str]) -> list[str]:
    """Return `name = ...  # your answer` for each name that top-level solution lines assign."""
    tree = ast.parse("\n".join(hidden))
    if not tree.body or any(not isinstance(node, ast.Assign | ast.AnnAssign) for node in tree.body):
        raise AuthorError(
            "at top level, put solution delimiters around assignments only; inside a function, around its body."
        )
    return [f"{name} = {ANSWER}" for name in dict.fromkeys(defined_names("\n".join(hidden)))]
