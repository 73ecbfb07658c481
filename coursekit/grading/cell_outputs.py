"""Cells as grading executes them: their source, and outputs that nbgrader reads, short enough for people."""

import base64
import re
from collections.abc import Iterable
from dataclasses import replace

import nbformat
from nbformat import NotebookNode

from coursekit.judging.message_ids import said
from coursekit.judging.result import Result
from coursekit.sandbox.replies import Shown

SOURCE = 100_000  # characters of a cell that are kept for people to read
NUMPYS = re.compile(r"np\.(?:float|int|uint)\d+\((.+)\)")


def readable(cell: NotebookNode) -> NotebookNode:
    """Return a cell without the rest of a text of megabytes, which is too long to read: colouring it would take nbgrader minutes."""
    if len(cell.source) > SOURCE:
        cell.source = f"{cell.source[:SOURCE]}\n# … and {len(cell.source) - SOURCE} characters more"
    return cell


def outputs_of(text: str, error: dict | None, shown: Iterable[Shown] = ()) -> list[NotebookNode]:
    """Return a cell's outputs as nbgrader's tools read them: what it printed and showed, and the error it ended with."""
    outputs = [nbformat.v4.new_output("stream", name="stdout", text=text)] if text else []
    for each in shown:
        data = {"text/plain": each.text} | ({each.mime: each.picture} if each.picture else {})
        outputs.append(nbformat.v4.new_output(each.kind, data))
    if error:
        kind, message = str(error.get("kind", "Error")), str(error.get("message", ""))
        outputs.append(nbformat.v4.new_output("error", ename=kind, evalue=message, traceback=[f"{kind}: {message}"]))
    return outputs


def explained(result: Result, error: dict | None) -> Result:
    """Return a result that says why there is no answer, where its own cell ended with an error: a mistake in its Python, mostly."""
    if not error or result.message_id != "missing":
        return result
    kind, message, where = (str(error.get(name, "")) for name in ("kind", "message", "where"))
    if kind in ("SyntaxError", "IndentationError", "TabError"):
        words = said("cell-no-python", name=result.name, error=message)
    else:
        words = said("cell-failed", name=result.name, error=f"{kind}: {message}")
    return replace(result, message=words.text, message_id=words.id, values=words.values, where=where, tried="")


def credit_of(shown: Iterable[Shown], points: float) -> float:
    """Return the points that a test cell gives by the first value it shows, as nbgrader reads it: a number up to all of them.

    A number of NumPy counts by its value, and one above the points as all of them: the docs say so.
    """
    text = next((each.text for each in shown if each.kind == "execute_result"), "")
    number = NUMPYS.fullmatch(text)
    try:
        value = float(number[1] if number else text)
    except ValueError:
        return points
    return value if 0 <= value <= points else points


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
