"""What a solved chapter defines, without running what it measures: for benchmarks and tests of a chapter's own code."""

import ast
from collections.abc import Iterator
from typing import Any

from coursekit.basics.paths import SOLUTIONS


def definitions(chapter: str) -> dict[str, Any]:
    """Return the names of a solved notebook's imports, constants, functions and classes; every other cell is left out."""
    names: dict[str, Any] = {"__name__": "__main__"}  # so that Ray sends functions and classes along, by value
    for parts in defining_cells(chapter):
        exec(compile(parts, f"<{chapter}>", "exec"), names)
    return names


def defining_cells(chapter: str) -> Iterator[ast.Module]:
    """Yield what `definitions` runs of a solved notebook, cell by cell."""
    import nbformat

    for cell in nbformat.read(SOLUTIONS / f"{chapter}.ipynb", as_version=4).cells:
        shows = cell.cell_type != "code" or "demo" in cell.metadata.get("tags", [])
        if not shows and (parts := defining_parts(cell.source)):
            yield parts


def defining_parts(source: str) -> ast.Module | None:
    """Return a cell's imports, or all of a cell that only defines functions, classes and constants; None for any other."""
    body = ast.parse(source).body
    imports: list[ast.stmt] = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
    if imports:
        return ast.Module(imports, type_ignores=[])
    return ast.Module(body, type_ignores=[]) if body and all(map(_defines, body)) else None


def _defines(node: ast.stmt) -> bool:
    """Return whether a statement defines a function, a class or a constant."""
    if isinstance(node, ast.Assign):
        return all(
            isinstance(part, ast.Constant | ast.Tuple | ast.UnaryOp | ast.USub | ast.Load)
            for part in ast.walk(node.value)
        )
    return isinstance(node, ast.FunctionDef | ast.ClassDef)
