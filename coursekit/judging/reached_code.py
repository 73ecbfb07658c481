"""What a check reaches: the functions, classes and constants of exercises/ and given/ that it uses, found in their sources."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from coursekit.basics.paths import PACKAGE
from coursekit.basics.syntax import parse

FOLLOWED = ("coursekit.exercises.", "coursekit.given.")
Place = tuple[str, str]  # a module, and a name that it defines
Definitions = dict[str, list[ast.stmt]]
Imports = dict[str, Place]  # the name that is used → where it is defined, "" for a module as a whole


def reached(module: str, name: str) -> dict[Place, list[ast.stmt]]:
    """Return the statements that define a name and all that it uses; of the whole module, where the name is not written in it."""
    found: dict[Place, list[ast.stmt]] = {}
    _reach(module, name, found)
    if (module, name) not in found:
        found[module, name] = [node for nodes in _module(module)[0].values() for node in nodes]
    return found


def file_of(module: str) -> Path:
    """Return where a module's source lies."""
    return PACKAGE.parent.joinpath(*module.split(".")).with_suffix(".py")


def _reach(module: str, name: str, found: dict[Place, list[ast.stmt]]) -> None:
    definitions, imports = _module(module)
    if name not in definitions or (module, name) in found:
        return
    found[module, name] = definitions[name]
    for node in (node for statement in definitions[name] for node in ast.walk(statement)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner, inside = imports.get(node.value.id, ("", "?"))
            if not inside:
                _reach(owner, node.attr, found)
        elif isinstance(node, ast.Name):
            _reach(*imports.get(node.id, (module, node.id)), found)


@cache
def _module(name: str) -> tuple[Definitions, Imports]:
    """Return what a module defines at its top level, quizzes too, and what it imports of the modules that are followed."""
    definitions: Definitions = {}
    imports: Imports = {}
    if name.startswith(FOLLOWED):
        for statement in parse(file_of(name).read_text(encoding="utf-8")).body:
            if isinstance(statement, ast.ImportFrom):
                imports |= {alias.asname or alias.name: _imported(statement, alias) for alias in statement.names}
            for defined in _names(statement):
                definitions.setdefault(defined, []).append(statement)
    return definitions, imports


def _imported(statement: ast.ImportFrom, alias: ast.alias) -> Place:
    inner = f"{statement.module}.{alias.name}"
    is_module = inner.startswith(FOLLOWED) and file_of(inner).exists()
    return (inner, "") if is_module else (str(statement.module), alias.name)


def _names(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            yield from (leaf.id for target in targets for leaf in ast.walk(target) if isinstance(leaf, ast.Name))
        case ast.Expr(value=ast.Call(args=[ast.Constant(value=str(name)), *_])):
            yield name
