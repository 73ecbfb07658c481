"""What coursekit asks of the notebook around it: display, one line for a missing name, the solved chapter."""

import ast
from types import TracebackType
from typing import Any

import nbformat

from coursekit.paths import SOLUTIONS


def show(item: object) -> None:
    """Show an object now, in a notebook or in a terminal."""
    from IPython.core.getipython import get_ipython
    from IPython.display import display

    if get_ipython() is None:
        print(item)
    else:
        display(item)


def explain_missing_names() -> None:
    """Turn the NameError of a cell whose name was never defined into one line; all other errors stay as they are."""
    from IPython.core.getipython import get_ipython

    shell: Any = get_ipython()
    if shell is not None:
        shell.set_custom_exc((NameError,), _one_line)


def _one_line(
    shell: Any, kind: type, error: NameError, trace: TracebackType, tb_offset: int | None = None
) -> list[str]:
    in_cell_itself = trace.tb_next is None or trace.tb_next.tb_next is None  # not inside a function that it called
    if not in_cell_itself or not error.name:
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
        return []
    line = f"NameError: `{error.name}` does not exist yet. Run the cell that defines it; if that cell has an error, mend it first."
    shell._showtraceback(kind, error, [line])
    return [line]


def solution_code(chapter: str, name: str) -> str:
    """Return the answer cell that defines `name` in the solved chapter, or "" where there is none."""
    path = SOLUTIONS / f"{chapter}.ipynb"
    if not path.exists():
        return ""
    cells = nbformat.read(path, as_version=4).cells
    sources = [cell.source for cell in cells if cell.cell_type == "code" and "### BEGIN SOLUTION" in cell.source]
    found = next((source for source in sources if name in defined_names(source)), "")
    return "\n".join(
        line for line in found.splitlines() if "## BEGIN SOLUTION" not in line and "## END SOLUTION" not in line
    )


def defined_names(source: str) -> list[str]:
    """Return the names that a cell defines at its top level: functions, classes and assignments, in order."""
    names: list[str] = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names += [leaf.id for target in targets for leaf in ast.walk(target) if isinstance(leaf, ast.Name)]
    return names
