"""What coursekit asks of the notebook around it: display, one line for a missing name, what failed, the solved chapter."""

import contextlib
import sys
import warnings
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import nbformat

import coursekit
from coursekit.basics.cells import defined_names
from coursekit.basics.paths import SOLUTIONS
from coursekit.basics.readers_language import told
from coursekit.judging.exercise import UnknownName

BEGINS, ENDS = "## BEGIN SOLUTION", "## END SOLUTION"


def show(item: object) -> None:
    """Show an object now, in a notebook or in a terminal."""
    from IPython.core.getipython import get_ipython
    from IPython.display import display

    if get_ipython() is None:
        print(item)
    else:
        display(item)


def watch_cells() -> None:
    """Explain missing names in one line each, and remember which names come from a cell that ended with an error."""
    from IPython.core.getipython import get_ipython

    shell: Any = get_ipython()
    if shell is not None:
        shell.set_custom_exc((NameError, UnknownName), _one_line)
        if _remember_failures not in shell.events.callbacks["post_run_cell"]:
            shell.events.register("post_run_cell", _remember_failures)


def names() -> dict[str, Any]:
    """Return what the notebook's own names stand for, {} outside a notebook."""
    from IPython.core.getipython import get_ipython

    shell: Any = get_ipython()
    return shell.user_ns if shell else {}


@contextlib.contextmanager
def exit_raises() -> Iterator[None]:
    """Let an answer's `exit()` raise SystemExit, as in a program; in a notebook it would end the kernel, variables and all."""
    from IPython.core.getipython import get_ipython

    shell: Any = get_ipython()
    if shell is None:
        yield
        return
    shell.ask_exit = sys.exit
    try:
        yield
    finally:
        del shell.ask_exit


_broken: dict[str, str] = {}  # names whose cell ended with an error when it last ran, and the error
_sources: dict[str, str] = {}  # names with the cell that defined them last


def _remember_failures(result: Any) -> None:
    """Note the names that a cell was to define: what exists under these names is an older version if the cell failed."""
    error = result.error_before_exec or result.error_in_exec
    source = getattr(result.info, "raw_cell", "") or ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # the cell itself has shown it
        names = defined_names(source)
    for name in names:
        _sources[name] = source
        if error is None:
            _broken.pop(name, None)
        else:
            _broken[name] = type(error).__name__


def broken(name: str) -> str:
    """Return the error with which the cell that defines `name` ended when it last ran, "" for none."""
    return _broken.get(name, "")


def defining_source(name: str) -> str:
    """Return the cell that defined `name` last, "" for none."""
    return _sources.get(name, "")


def _one_line(
    shell: Any, kind: type, error: Exception, trace: TracebackType, tb_offset: int | None = None
) -> list[str]:
    line = str(error) if isinstance(error, UnknownName) else _missing(getattr(error, "name", None), trace)
    if not line:
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
        return []
    shell._showtraceback(kind, error, [told(line)])
    return [told(line)]


def _missing(name: str | None, trace: TracebackType) -> str:
    """Return what to do about a name that a cell itself lacks, "" where a function that it called lacks it."""
    in_cell_itself = trace.tb_next is None or trace.tb_next.tb_next is None
    if not name or not in_cell_itself:
        return ""
    if name in coursekit.__all__:
        return f"`{name}` is not imported yet. Run the first cell of the notebook, or: from coursekit import {name}"
    if len(name) == 1:
        return f'`{name}` does not exist. An answer to a quiz is a letter in quotes: "{name}"'
    return f"`{name}` does not exist yet. Run the cell that defines it; if that cell has an error, fix it first."


def solution_code(chapter: str, name: str) -> str:
    """Return the answer cell that defines `name` in the solved chapter, or "" where there is none."""
    lines = answer_cell(chapter, name).splitlines()
    return "\n".join(line for line in lines if BEGINS not in line and ENDS not in line)


def answer_cell(chapter: str, name: str) -> str:
    """Return it as it stands there, with the lines that enclose the solution."""
    path = SOLUTIONS / f"{chapter}.ipynb"
    cells = nbformat.read(path, as_version=4).cells if path.exists() else []
    sources = [cell.source for cell in cells if cell.cell_type == "code" and f"#{BEGINS}" in cell.source]
    return next((source for source in sources if name in defined_names(source)), "")


def put_below(source: str) -> None:
    """Put code into a new cell below the one that is running; in a terminal, print it."""
    from IPython.core.getipython import get_ipython

    shell: Any = get_ipython()
    if shell is None:
        print(source)
    else:
        shell.set_next_input(source)
