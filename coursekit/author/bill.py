"""What an exercise costs its author: lines of its check, of all that judges it (probes and what is shared, too), of the solution.

Lines of code count; docstrings, comments, empty lines and decorators do not.
"""

import ast
from typing import NamedTuple

from coursekit.judging import exercise
from coursekit.judging.reached_code import Place, file_of, reached
from coursekit.learner.shell import solution_code

LONG = 40  # lines of a check, with the helpers in its file; one with more says why, in a comment that begins with `# Long:`


class Bill(NamedTuple):
    """The lines of one exercise."""

    chapter: str
    name: str
    check: int
    judging: int
    solution: int
    why_long: str

    def __str__(self) -> str:
        why = f"  {self.why_long}" if self.why_long else ""
        return f"{self.chapter:20} {self.name:24} {self.check:6} {self.judging:7} {self.solution:8}{why}"


def bills(chapter: str) -> list[Bill]:
    """Return the bill of each exercise of a chapter."""
    items = [item for item in exercise.load(chapter).values() if item.kind == "exercise"]
    return [_bill(chapter, item.name) for item in items]


def _bill(chapter: str, name: str) -> Bill:
    module = f"coursekit.exercises.{chapter}"
    lines = {place: _lines(place, statements) for place, statements in reached(module, name).items()}
    own = sum(count for (owner, part), count in lines.items() if owner == module and (part == name or part[0] == "_"))
    text = _source((module, name), reached(module, name)[module, name])
    why = next((line.split("# Long:")[1].strip() for line in text.splitlines() if "# Long:" in line), "")
    return Bill(chapter, name, own, sum(lines.values()), _lines_of_code(solution_code(chapter, name)), why)


def _lines(place: Place, statements: list[ast.stmt]) -> int:
    return _lines_of_code(_source(place, statements))


def _source(place: Place, statements: list[ast.stmt]) -> str:
    """Return the lines of a definition, without its decorators."""
    lines = file_of(place[0]).read_text(encoding="utf-8").splitlines()
    return "\n".join(line for statement in statements for line in lines[statement.lineno - 1 : statement.end_lineno])


def _lines_of_code(source: str) -> int:
    """Return how many lines of a source are neither empty nor a comment nor a docstring."""
    documented = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, documented) and ast.get_docstring(node)]
    docstrings = {line for node in nodes for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)}
    lines = enumerate(source.splitlines(), 1)
    return sum(number not in docstrings and bool(line.partition("#")[0].strip()) for number, line in lines)
