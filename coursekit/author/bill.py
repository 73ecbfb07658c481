"""What an exercise costs its author: lines of the solution, and lines that judge it (check, helpers, probes).

Lines of code count; docstrings, comments, empty lines and decorators do not.
"""

import ast
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from coursekit import exercise
from coursekit.notebook import solution_code

LONG = 80  # judging lines; an exercise with more says why, in a comment that begins with `# Long:`


class Bill(NamedTuple):
    """The lines of one exercise."""

    chapter: str
    name: str
    judging: int
    solution: int
    why_long: str

    def __str__(self) -> str:
        why = f"  {self.why_long}" if self.why_long else ""
        return f"{self.chapter:20} {self.name:24} {self.judging:7} {self.solution:8}{why}"


def bills(chapter: str) -> list[Bill]:
    """Return the bill of each exercise of a chapter."""
    items = [item for item in exercise.load(chapter).values() if item.kind == "exercise"]
    return [_bill(chapter, item.name) for item in items]


def _bill(chapter: str, name: str) -> Bill:
    reached = _reached(f"coursekit.exercises.{chapter}", name)
    sources = [(module, part) for module, parts in reached.items() for part in parts]
    judging = sum(_lines_of_code(_source(module, part)) for module, part in sources)
    own = _source(f"coursekit.exercises.{chapter}", name)
    why = next((line.split("# Long:")[1].strip() for line in own.splitlines() if "# Long:" in line), "")
    return Bill(chapter, name, judging, _lines_of_code(solution_code(chapter, name)), why)


def _lines_of_code(source: str) -> int:
    """Return how many lines of a source are neither empty nor a comment nor a docstring."""
    documented = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, documented) and ast.get_docstring(node)]
    docstrings = {line for node in nodes for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)}
    lines = enumerate(source.splitlines(), 1)
    return sum(number not in docstrings and bool(line.partition("#")[0].strip()) for number, line in lines)


def _reached(module: str, name: str) -> dict[str, set[str]]:
    """Return which functions, classes and constants of the chapter's modules, and of what they share, a check reaches."""
    found: dict[str, set[str]] = {}
    left = [(module, name)]
    while left:
        module, name = left.pop()
        if name not in _module(module)[0] or name in found.setdefault(module, set()):
            continue
        found[module].add(name)
        definitions, imported = _module(module)
        for node in ast.walk(definitions[name]):
            if isinstance(node, ast.Name):
                left.append(imported.get(node.id, (module, node.id)))
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported:
                package, base = imported[node.value.id]
                left.append((f"{package}.{base}", node.attr))
    return found


@cache
def _module(name: str) -> tuple[dict[str, ast.stmt], dict[str, tuple[str, str]]]:
    """Return what a module of given/ or exercises/ defines, and what it imports: module and name by the name used; nothing of others."""
    if not name.startswith(("coursekit.given.", "coursekit.exercises.")):
        return {}, {}
    definitions: dict[str, ast.stmt] = {}
    imported: dict[str, tuple[str, str]] = {}
    for node in ast.parse(_text(name)).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            definitions[node.name] = node
        elif isinstance(node, ast.Assign):
            definitions |= {target.id: node for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.ImportFrom):
            imported |= {alias.asname or alias.name: (str(node.module), alias.name) for alias in node.names}
    return definitions, imported


@cache
def _text(module: str) -> str:
    try:
        return Path(str(import_module(module).__file__)).read_text(encoding="utf-8")
    except ModuleNotFoundError:  # a name, not a module
        return ""


def _source(module: str, name: str) -> str:
    """Return the lines of a definition, without its decorators."""
    return ast.get_source_segment(_text(module), _module(module)[0][name]) or ""
