"""CPU seconds of a process and of everything that it has started, as the operating system counts them."""

import contextlib
import os
from typing import NamedTuple

import psutil


class Times(NamedTuple):
    """CPU seconds of one process: its own, and of the children for whose end it has waited."""

    own: float
    waited: float


class CpuClock:
    """Counts the CPU seconds that a process and its descendants use from now on, those included who end on the way.

    A child that ends hands its seconds to the parent that waits for it. One whose parent does not wait is counted as it was
    last seen; so what is missed is what such a child used after the last look, or all of it where nobody ever looked.
    """

    def __init__(self, root: int):
        self._root = psutil.Process(root)
        self._known: dict[psutil.Process, Times] = {}
        self._lost = 0.0  # seconds of processes that ended, and whose parent did not wait
        self._start = 0.0
        self._start = self.seconds()

    def seconds(self) -> float:
        """Return the CPU seconds used since this clock was made; one call looks at all processes of the machine once."""
        before, self._known = self._known, self._look()
        handed_on = sum(
            times.waited - before[process].waited for process, times in self._known.items() if process in before
        )
        ended = sum(sum(times) for process, times in before.items() if process not in self._known)
        self._lost += max(0.0, ended - handed_on)
        return sum(sum(times) for times in self._known.values()) + self._lost - self._start

    def _look(self) -> dict[psutil.Process, Times]:
        """Return the times of all who live; who was once seen stays in the family when its parent has ended."""
        family = dict.fromkeys(_family(self._root))
        for process in self._known:
            if process not in family:
                family |= dict.fromkeys(_family(process))
        found = {process: _times(process, self._known.get(process)) for process in family}
        return {process: times for process, times in found.items() if times}


def _family(root: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        if root.is_running():
            return [root, *root.children(recursive=True)]
    return []


def _times(process: psutil.Process, before: Times | None) -> Times | None:
    """Return a process's times, None where it has gone; of a zombie that tells nothing (macOS) those it had before."""
    if process.pid == os.getpid():
        mine = os.times()
        return Times(mine.user + mine.system, mine.children_user + mine.children_system)
    try:
        times = process.cpu_times()
    except psutil.ZombieProcess:
        return before
    except psutil.Error:
        return None
    return Times(times.user + times.system, times.children_user + times.children_system)
