"""What a cell shows while a check runs: what the answer prints, up to a limit, and after three seconds what the check waits for."""

import contextlib
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

from coursekit.basics.cards import prose
from coursekit.basics.progress_bar import in_notebook
from coursekit.basics.readers_language import told
from coursekit.judging.answer import Answer
from coursekit.ray_bridge import rendezvous

STOP_AFTER = 30  # seconds, after which the line says how to interrupt
FIRST, LAST, WIDTH = 20, 10, 500  # lines at the beginning and at the end, and characters of a line


class _Limited:
    """A stream that passes on the first lines as they come, and the last ones at the end; Ray's threads write to it, too."""

    def __init__(self, stream: Any):
        self._stream, self._lock = stream, threading.Lock()
        self._begun, self._count, self._last = "", 0, deque[str](maxlen=LAST)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with self._lock:
            *lines, self._begun = (self._begun + text).split("\n")
            for line in lines:
                self._count += 1
                take = self._stream.write if self._count <= FIRST else self._last.append
                take(f"{line}\n" if len(line) <= WIDTH else f"{line[:WIDTH]} …\n")
        return len(text)

    def close(self) -> None:
        """Leave the stream below open: a handler of logging closes what was stderr when it was made."""

    def end(self) -> None:
        """Write the last lines, and how many were left out; what still holds this stream writes to the one below."""
        self.write("\n" if self._begun else "")
        if left_out := max(0, self._count - FIRST) - len(self._last):
            self._stream.write(told(f"… {left_out:,} lines are left out here …") + "\n")
        self._stream.write("".join(self._last))
        self.write = self._stream.write  # type: ignore[method-assign]


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Limit what is printed; what arrives on stderr goes to stdout: nbgrader takes any line there in a test cell for a failure."""
    stream: Any = _Limited(sys.stdout)
    try:
        with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
            yield
    finally:
        stream.end()


@contextlib.contextmanager
def saying_what_it_waits_for(answer: Answer) -> Iterator[None]:
    """Say so in a notebook when the check of an answer takes more than three seconds; the line goes at the end."""
    over = threading.Event()
    watch = threading.Thread(target=_watch, args=(answer, over), daemon=True)
    watch.start()
    try:
        yield
    finally:
        over.set()
        watch.join(timeout=2)  # Ray may answer late, or not at all


def _watch(answer: Answer, over: threading.Event) -> None:
    start = time.monotonic()
    if over.wait(rendezvous.SAID_AFTER) or not in_notebook():
        return
    from IPython.display import display

    line = display({"text/plain": ""}, raw=True, display_id=True)
    while not over.is_set():
        doing = told(rendezvous.waiting()) or told(f"running {answer.tried or told('your code')}")
        seconds = time.monotonic() - start
        text = told(f"Still checking {answer.name}, for {seconds:.0f} s so far: {doing}.")
        text += told(" ■ stops it.") if seconds > STOP_AFTER else ""
        line.update({"text/plain": text, "text/html": f"<i>{prose(text)}</i>"}, raw=True)
        over.wait(1)
    line.update({"text/html": "", "text/plain": ""}, raw=True)
