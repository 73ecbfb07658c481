"""Who may run when: exercises that measure time have the machine to themselves."""

import contextlib
import threading
import time
from collections.abc import Iterator


class Turns:
    """Lets many run side by side, or one alone: an exercise that measures time must have the machine to itself."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._running = 0
        self._waiting_alone = 0

    @contextlib.contextmanager
    def shared(self) -> Iterator[float]:
        """Run beside others, unless one waits to be alone; gives the seconds of waiting."""
        start = time.monotonic()
        with self._change:
            self._change.wait_for(lambda: self._running >= 0 and not self._waiting_alone)
            self._running += 1
        try:
            yield time.monotonic() - start
        finally:
            with self._change:
                self._running -= 1
                self._change.notify_all()

    @contextlib.contextmanager
    def alone(self) -> Iterator[float]:
        """Run while nothing else does; gives the seconds of waiting."""
        start = time.monotonic()
        with self._change:
            self._waiting_alone += 1
            self._change.wait_for(lambda: self._running == 0)
            self._waiting_alone -= 1
            self._running = -1
        try:
            yield time.monotonic() - start
        finally:
            with self._change:
                self._running = 0
                self._change.notify_all()
