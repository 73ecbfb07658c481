"""Cells as grading executes them: their source, and outputs that nbgrader reads, short enough for people."""

import ast
import base64

import nbformat
from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode

SOURCE = 100_000  # characters of a cell that are kept for people to read
VALUE = "_value_of_the_test"


def readable(cell: NotebookNode) -> NotebookNode:
    """Return a cell without what nobody reads of a text of megabytes: colouring it would take nbgrader minutes."""
    if len(cell.source) > SOURCE:
        cell.source = f"{cell.source[:SOURCE]}\n# … and {len(cell.source) - SOURCE} characters more"
    return cell


def outputs_of(text: str, error: dict | None) -> list[NotebookNode]:
    """Return a cell's outputs as nbgrader's tools read them: what it printed, and the error it ended with."""
    outputs = [nbformat.v4.new_output("stream", name="stdout", text=text)] if text else []
    if error:
        kind, message = str(error.get("kind", "Error")), str(error.get("message", ""))
        outputs.append(nbformat.v4.new_output("error", ename=kind, evalue=message, traceback=[f"{kind}: {message}"]))
    return outputs


def keeping_value(source: str) -> tuple[str, bool]:
    """Return a test cell that keeps the value of its last line under the name VALUE, and whether there is one to keep."""
    source = TransformerManager().transform_cell(source)  # magics become calls
    try:
        last = ast.parse(source).body[-1]
    except (SyntaxError, IndexError):  # a mistake, or nothing
        return source, False
    if not isinstance(last, ast.Expr) or source.rstrip().endswith(";"):
        return source, False
    lines = source.encode().splitlines(keepends=True)  # columns count bytes
    before = b"".join(lines[: last.lineno - 1]) + lines[last.lineno - 1][: last.col_offset]
    return f"{before.decode()}{VALUE} = ({ast.get_source_segment(source, last)}\n)", True


def cell_that_writes(files: dict[str, bytes]) -> str:
    """Return a cell that puts files into the sandbox's folder, and leaves no names behind."""
    packed = {name: base64.b64encode(content).decode() for name, content in files.items()}
    return f"""def write(packed):
    import base64, pathlib
    for name, content in packed.items():
        path = pathlib.Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(content))
write({packed!r})
del write"""
