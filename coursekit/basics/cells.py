"""What a cell of a chapter says by itself: what it checks, asks to predict or defines, and its content in 8 digits."""

import ast
import hashlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from coursekit.basics.syntax import parse

if TYPE_CHECKING:
    from nbformat import NotebookNode

ANSWER = "answer_"  # begins the name of an answer cell; that of its check is the exercise's
PREDICT = "predict_"  # begins the name of a cell in which a learner predicts something
JUDGES = {"check": "exercise", "quiz": "quiz"}  # what a check cell calls, and for what
_DEFINITION = re.compile(r"^(?:(?:async )?def|class) +(\w+)|^(\w+) *=(?!=)", re.MULTILINE)


class Prediction(NamedTuple):
    """What a cell asks a learner to predict: under which name, as one of which words (a number if there are none), answered or not."""

    name: str
    options: tuple[str, ...]
    is_open: bool


def prediction(source: str) -> Prediction | None:
    """Return what is predicted in a cell that holds `predict("name", value)` or `predict("name", value, [words])` and nothing else."""
    match _body(source):
        case [ast.Expr(ast.Call(ast.Name("predict"), [ast.Constant(str(name)), value, *rest], []))] if len(rest) < 2:
            options = [each.value for each in ast.walk(rest[0]) if isinstance(each, ast.Constant)] if rest else []
            return Prediction(name, tuple(map(str, options)), isinstance(value, ast.Constant) and value.value is ...)
    return None


def judged_by(source: str) -> tuple[str, str] | None:
    """Return function and name of a check cell: it holds `check("name", name)`, or the same of `quiz`, and nothing else."""
    body = _body(source)
    if not body or len(body) > 1 or not isinstance(body[0], ast.Expr):
        return None
    called = _call(body[0].value)
    return called if called and ast.unparse(body[0]) == f"{called[0]}({called[1]!r}, {called[1]})" else None


def calls(source: str) -> list[tuple[str, str]]:
    """Return function and name of every `check("name", …)` and `quiz("name", …)` in a cell, wherever it stands."""
    found = (_call(node) for statement in _body(source) or [] for node in ast.walk(statement))
    return [call for call in found if call]


def defined_names(source: str) -> list[str]:
    """Return the names that a cell defines at its top level: functions, classes and assignments, in order.

    In what is no Python, a magic or a mistake, they are what begins a line.
    """
    body = _body(source)
    if body is None:
        return [match[1] or match[2] for match in _DEFINITION.finditer(source)]
    return [name for statement in body for name in _defined(statement)]


def content_digest(cell: "NotebookNode") -> str:
    """Return what the builder names a cell after: 8 digits from its content; in text, line breaks do not count."""
    content = cell.source if cell.cell_type == "code" else _words(cell.source)
    return hashlib.sha256(f"{cell.cell_type}\n{content}".encode()).hexdigest()[:8]


def _words(text: str) -> str:
    """Return a text without its line breaks, and without the signs of a quotation, one on each line."""
    return " ".join(word for word in text.split() if word != ">")


def _body(source: str) -> list[ast.stmt] | None:
    try:
        return parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # whatever a learner may have written
        return None


def _call(node: ast.AST) -> tuple[str, str] | None:
    match node:
        case ast.Call(func=ast.Name(id=function), args=[ast.Constant(value=str(name)), *_]) if function in JUDGES:
            return function, name
    return None


def _defined(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign() | ast.AnnAssign():
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            leaves = [leaf for target in targets for leaf in ast.walk(target)]
            yield from (leaf.id for leaf in leaves if isinstance(leaf, ast.Name) and isinstance(leaf.ctx, ast.Store))
