"""Exercises that can be written again in a cell of any notebook: they take at most ten minutes and need no other cell.

Of Ray they need no more than CPUs.
"""

import ast
import builtins
import re
import symtable
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import nbformat

from coursekit.basics.cells import defined_names
from coursekit.basics.paths import NOTEBOOKS, PACKAGE
from coursekit.basics.syntax import parse
from coursekit.judging.declared import declared
from coursekit.learner import shell

MOST_MINUTES = 10
BOUND = {"read_once"}  # to its own chapter's Ray, which has a small store
_MARKS = re.compile(r"!?\[(.+?)\]\(.+?\)|^#+ |\*\*", re.MULTILINE)  # links and pictures with their text, headings, bold


@dataclass(frozen=True)
class SmallExercise:
    """What an exercise asks, as Markdown, its stub, and what both need: the names they bind, each with its import, "" for the answer's own.

    `needs` is what the check needs of Ray.
    """

    task: str
    stub: str
    binds: dict[str, str]
    needs: dict[str, int]

    def cell(self) -> str:
        """Return the stub below its imports."""
        return "\n".join([*sorted(filter(None, self.binds.values())), "", self.stub]).lstrip()

    def fits(self, chapter: str) -> bool:
        """Return whether its cell leaves the names of a chapter's notebook as they are."""
        known, words = _imports(chapter), _words(chapter)
        return not any(name in words and known.get(name) != line for name, line in self.binds.items())


@cache
def small_exercises(chapter: str) -> dict[str, SmallExercise]:
    """Return those of a chapter by name; none where this copy of the course has no solutions, which show what they need."""
    checks = PACKAGE / f"exercises/{chapter}.py"
    found = declared(checks) if checks.exists() else {}
    small = {name: said.needs for name, said in found.items() if said.minutes <= MOST_MINUTES}
    return {
        name: item
        for name, needs in small.items()
        if needs.keys() <= {"CPU"} and name not in BOUND and (item := _small(chapter, name, needs))
    }


def _small(chapter: str, name: str, needs: dict[str, int]) -> SmallExercise | None:
    source, imports, cells = shell.answer_cell(chapter, name), _imports(chapter), _cells(chapter)
    needed = _needed(source) if source else set()
    place = next((at for at, cell in enumerate(cells) if _answers(cell) and name in defined_names(cell.source)), 0)
    if not source or not place or not needed <= imports.keys() or f"`{name}`" not in cells[place - 2].source:
        return None  # the last: what is to be written stands further above, beside what it is about
    binds = {each: imports[each] for each in needed} | dict.fromkeys(defined_names(cells[place].source), "")
    return SmallExercise(cells[place - 2].source, cells[place].source, binds, needs)


def plain(markdown: str) -> str:
    """Return a text without the marks that only a rendered cell hides."""
    return _MARKS.sub(lambda mark: mark[1] or "", markdown)


def _answers(cell: nbformat.NotebookNode) -> bool:
    return bool(cell.metadata.get("nbgrader", {}).get("solution"))


def _needed(source: str) -> set[str]:
    """Return the names that a cell uses and neither defines nor imports."""
    tables = [symtable.symtable(source, "<cell>", "exec")]
    own = {each.get_name() for each in tables[0].get_symbols() if each.is_assigned() or each.is_imported()}
    used = set()
    for table in tables:
        tables += table.get_children()
        used |= {each.get_name() for each in table.get_symbols() if each.is_global() or table is tables[0]}
    return used - own - vars(builtins).keys()


@cache
def _cells(chapter: str) -> list[nbformat.NotebookNode]:
    path = NOTEBOOKS / f"{chapter}.ipynb"
    return nbformat.read(path, as_version=4).cells if path.exists() else []


def _code(chapter: str) -> Iterator[str]:
    yield from (cell.source for cell in _cells(chapter) if cell.cell_type == "code")


@cache
def _words(chapter: str) -> set[str]:
    return {word for source in _code(chapter) for word in re.findall(r"\w+", source)}


@cache
def _imports(chapter: str) -> dict[str, str]:
    """Return the names that a notebook imports, each with a line that imports it alone."""
    found = {}
    for source in _code(chapter):
        try:
            statements = parse(source).body
        except SyntaxError:  # a magic
            continue
        for statement in statements:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                for alias in statement.names:
                    line: ast.stmt = ast.Import([alias])
                    if isinstance(statement, ast.ImportFrom):
                        line = ast.ImportFrom(statement.module, [alias], statement.level)
                    found[alias.asname or alias.name.partition(".")[0]] = ast.unparse(line)
    return found
