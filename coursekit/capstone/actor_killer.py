"""In the league by the clock the judge kills one of an entry's actors, at a moment that no entry can know."""

import contextlib
import secrets
import time

import psutil

from coursekit.capstone.usage_watch import Watch
from coursekit.machine.facts import ray_worker

BETWEEN = (0.3, 0.7)  # of the time


class Strike:
    """Kills one of the Ray workers below a process that are at work; `victim` is what Ray calls it, "" before."""

    def __init__(self, root: int, seconds: float):
        self.victim = ""
        self._root, self._after = root, secrets.SystemRandom().uniform(*BETWEEN) * seconds

    def begin(self, watch: Watch) -> None:
        """Start the clock; the watch looks at it five times a second."""
        self._when = time.monotonic() + self._after
        watch.also = self.look

    def look(self) -> None:
        """Kill an actor if it is time, and if there is one."""
        if not self.victim and time.monotonic() >= self._when and (workers := self._workers()):
            worker, title = secrets.choice(workers)
            with contextlib.suppress(psutil.Error):
                worker.kill()
                self.victim = title

    def _workers(self) -> list[tuple[psutil.Process, str]]:
        with contextlib.suppress(psutil.Error):
            below = psutil.Process(self._root).children(recursive=True)
            return [(each, title) for each in below if (title := ray_worker(each))]
        return []
