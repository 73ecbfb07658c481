"""The shell of a sandbox: to a learner's cells it is a Jupyter kernel's, without a kernel. What they show is kept for the grader."""

import asyncio
import builtins
import contextlib
import getpass
import os
import signal
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any, NoReturn

from ipykernel import zmqshell
from ipykernel.jsonutil import encode_images
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.error import StdinNotImplementedError
from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
from traitlets import Type
from traitlets.config import Config

from coursekit.sandbox.limits import BYTES, FILES

PICTURES = ("image/png", "image/jpeg")
SHOWN, ROWS = 16_000_000, 1000  # characters and things that one cell may show: its reply has a limit, too
TEXT = 10_000  # characters of a value for which there is no place any more
ENTRIES = 10_000  # of folders that are looked at
_shown: list[dict[str, str]] = []  # of the cell that runs


def _keep(kind: str, bundle: dict) -> None:
    """Keep what is shown as far as it is text or a picture: a page may hold whatever a student writes.

    The first value is kept in any case: a test cell's points are read from it.
    """
    pictures = encode_images({name: bundle[name] for name in PICTURES if name in bundle})
    mime = next(iter(pictures), "")
    picture = "".join(str(pictures.get(mime, "")).split())
    row = {"kind": kind, "text": str(bundle.get("text/plain", "")), "mime": mime, "picture": picture}
    size = sum(len(text) for each in [row, *_shown] for text in each.values())
    if size > SHOWN or len(_shown) >= ROWS:
        if kind == "display_data" or any(each["kind"] == kind for each in _shown):
            return
        row |= {"text": row["text"][:TEXT], "mime": "", "picture": ""}
    if row["text"] or mime:
        _shown.append({name: text.encode("utf-8", "replace").decode() for name, text in row.items()})


def shown() -> list[dict[str, str]]:
    """Return what has been shown since the last call."""
    rows, _shown[:] = list(_shown), []
    return rows


def files() -> dict[str, bytes]:
    """Return the files in the notebook's folder by their names, as many as are kept."""
    found: dict[str, bytes] = {}
    for _, path in zip(range(ENTRIES), sorted(Path().rglob("*")), strict=False):
        with contextlib.suppress(OSError):
            if stat.S_ISREG(path.lstat().st_mode) and path.stat().st_size < BYTES and len(found) < FILES:
                found[str(path).encode("utf-8", "replace").decode()] = path.read_bytes()
    while sum(map(len, found.values())) > BYTES:
        found.popitem()
    return found


class Results(DisplayHook):
    """Keeps the value of a cell's last line, where a kernel would send it."""

    def write_output_prompt(self) -> None:
        """Write nothing: nbgrader's tools write the prompt."""

    def write_format_data(self, format_dict: dict, md_dict: dict | None = None) -> None:
        """Keep the value in the forms in which it can be shown."""
        _keep("execute_result", format_dict)

    def finish_displayhook(self) -> None:
        """Write nothing: there is no line to end."""


class Displays(DisplayPublisher):
    """Keeps what `display` is given, where a kernel would send it."""

    def publish(self, data: Any, metadata: Any = None, source: Any = None, *, update: Any = False, **more: Any) -> None:
        """Keep what is displayed; later versions of it are not shown."""
        if not update:
            _keep("display_data", data)

    def clear_output(self, wait: bool = False) -> None:
        """Forget what the cell has shown."""
        _shown.clear()


class ZMQInteractiveShell(zmqshell.ZMQInteractiveShell):
    """A kernel's shell without its sockets, under the name by which programs know that they run in a notebook."""

    displayhook_class = Type(Results)  # type: ignore[assignment]
    display_pub_class = Type(Displays)  # type: ignore[assignment]
    _showtraceback = InteractiveShell._showtraceback  # prints it

    def enable_gui(self, gui: str | None = None) -> None:
        """Take note of a window system; there is none."""
        self.active_eventloop = gui


def new_shell() -> InteractiveShell:
    """Return the shell of this process."""
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    config.InteractiveShell.xmode = "Plain"  # the others look through every loaded module: 0.1 s
    shell: InteractiveShell = ZMQInteractiveShell.instance(config=config, kernel=SimpleNamespace(eventloop=None))
    return shell


def settle() -> None:
    """Make the process what nbgrader starts for a notebook: there is no keyboard, and what lies in its folder can be imported."""
    builtins.input = getpass.getpass = _refuse_input
    os.environ["NBGRADER_EXECUTION"] = "autograde"
    libraries = [at for at, path in enumerate(sys.path) if path.endswith(("/site-packages", "/dist-packages"))]
    sys.path.insert(libraries[0] if libraries else 0, "")


def _refuse_input(prompt: object = "", *args: object, **kwargs: object) -> NoReturn:
    raise StdinNotImplementedError("raw_input was called, but this frontend does not support input requests.")


async def run(shell: InteractiveShell, source: str) -> ExecutionResult:
    """Run a cell as a kernel does, in the loop that is running: code that awaits is a task of its own."""
    failed, code = None, source
    try:
        code = shell.transform_cell(source)
    except Exception:
        failed = sys.exc_info()
    how: dict[str, Any] = {"transformed_cell": code, "preprocessing_exc_tuple": failed}
    if not shell.should_run_async(source, **how):
        return shell.run_cell(source, store_history=True)
    cell = asyncio.ensure_future(shell.run_cell_async(source, store_history=True, **how))
    result = None
    try:
        with _cancelled_by_an_interrupt(cell):
            result = await cell
    finally:
        shell.events.trigger("post_execute")
        shell.events.trigger("post_run_cell", result)
    return result


@contextlib.contextmanager
def _cancelled_by_an_interrupt(cell: asyncio.Future) -> Iterator[None]:
    """Have SIGINT end a cell that awaits; one that computes meanwhile is interrupted where it is."""
    loop = asyncio.get_running_loop()

    def interrupt(number: int, frame: FrameType | None) -> None:
        if asyncio.current_task(loop):
            signal.default_int_handler(number, frame)
        loop.call_soon_threadsafe(cell.cancel)

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
