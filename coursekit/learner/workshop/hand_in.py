"""`hand_in()`: a notebook goes to the room over the paired channel, after it was said what is sent; a receipt comes back."""

import json
import os
import re
import time
from pathlib import Path
from typing import Any

from coursekit.basics.cards import Note
from coursekit.basics.files import MAX_BYTES
from coursekit.basics.readers_language import told
from coursekit.learner import shell as notebook
from coursekit.learner.workshop import connection, outbox
from coursekit.learner.workshop.pairing import as_text

SENT = """\
{path}, as it was saved at {saved}: its text, your code, and {outputs}, {size} kB. It goes only to your instructor's machine,
which keeps it as {student}'s. If you have changed something since then, save it first."""


def hand_in(path: str = "", *, student: str = "", sure: bool = False) -> Note:
    """Hand in this notebook, or the file that you name, to the room's instructor; says first what is sent, and asks."""
    room = connection.current() if connection.joined() else None
    if room is None:
        return connection.OUTSIDE
    file = Path(path or _own_path())
    try:
        content = file.read_bytes()
        document = json.loads(content)
        chapter = _chapter(document)
        outputs = told("all outputs")
        if len(content) > MAX_BYTES:
            outputs = told(f"no outputs, because {round(len(content) / 2**20)} MB are too many")
            cells = [cell | {"outputs": []} if cell["cell_type"] == "code" else cell for cell in document["cells"]]
            content = json.dumps(document | {"cells": cells}).encode()
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        chapter = ""
    if not chapter:
        which = f"{file} is not a notebook of a chapter." if path else "The notebook's file was not found."
        return Note("Nothing was sent", f'{which} Name it: hand_in("ch01_tasks.ipynb")', "#dc2626")
    saved = time.strftime("%H:%M:%S", time.localtime(file.stat().st_mtime))
    name = student or room.nickname
    what = SENT.format(path=file.name, saved=saved, outputs=outputs, size=round(len(content) / 1000) or 1, student=name)
    notebook.show(Note("This will be sent", what))
    if not sure and input(told("Type yes to send it: ")).strip().lower() not in ("yes", "y"):
        return Note("Nothing was sent", "Run it again when you are ready.")
    return _sent(room, {"chapter": chapter, "student": name, "notebook": as_text(content)})


def _sent(room: connection.Link, data: dict[str, str]) -> Note:
    """Return the receipt, or what is known within seconds: the notebook is kept until there is one."""
    kept = outbox.keep_notebook(data)
    try:
        return outbox.hand_over(room, data)
    except Exception as error:
        outbox.resume()
        return Note(
            "Not handed in yet", f"{outbox.trouble(error, kept)} You have handed in once you get a receipt.", "#d97706"
        )


def _chapter(document: dict[str, Any]) -> str:
    """Return the chapter that a notebook begins, "" for none."""
    sources = ("".join(cell["source"]) for cell in document["cells"] if cell["cell_type"] == "code")
    found = (re.search(r"\bbegin\(\s*[\"'](ch\d\d_\w+)[\"']", source) for source in sources)
    return next((match[1] for match in found if match), "")


def _own_path() -> str:
    """Return the path of the notebook that is running, as JupyterLab or VS Code says it."""
    from IPython.core.getipython import get_ipython

    shell: Any = get_ipython()
    inside = shell.user_ns.get("__vsc_ipynb_file__", "") if shell else ""
    return str(inside or os.environ.get("JPY_SESSION_NAME", ""))
