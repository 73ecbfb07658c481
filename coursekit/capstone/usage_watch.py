"""What an entry uses, watched from outside its sandbox: nothing that it does inside can change what is read here."""

import math
import re
import time
from collections.abc import Callable

from coursekit.capstone.entry import printable
from coursekit.capstone.entry_process import BEGIN, END
from coursekit.given.cpu_clock import CpuClock
from coursekit.sandbox.sandbox import Sandbox

POINTS = 300  # of a curve that are kept
LOOK_SECONDS = 0.5  # between two looks, where processes have to be looked at: one costs some milliseconds
_POINT = re.compile(f"{BEGIN}([^{BEGIN}{END}]{{1,60}}){END}\n?")
Curve = list[tuple[float, float]]


class Watch:
    """The CPU seconds of all processes of a sandbox since this was made; more than `limit` of them end it.

    A control group counts them where one can be made (`how` is then "control group"), else the times of the processes.
    """

    def __init__(self, sandbox: Sandbox, tick: Callable[[float], object] = lambda spent: None):
        self.limit, self.passed = math.inf, False
        self.also: Callable[[], object] = lambda: None  # called with each look
        self._sandbox, self._tick, self._seen, self._when = sandbox, tick, 0.0, -math.inf
        self.how = "control group" if sandbox.counts_cpu else "processes"
        self._clock = None if sandbox.counts_cpu else CpuClock(sandbox.pid)
        self._start = sandbox.usage()["cpu_seconds"]
        sandbox.limit_by(self._exceeded)

    def spent(self) -> float:
        """Return the CPU seconds until now."""
        if self._clock is None:
            return self._sandbox.usage()["cpu_seconds"] - self._start
        return max(self._seen, self._clock.seconds())

    def _exceeded(self) -> str:
        self.also()
        if self._clock is None or time.monotonic() - self._when > LOOK_SECONDS:
            self._seen, self._when = self.spent(), time.monotonic()
            self._tick(self._seen)
        if self._seen > self.limit:
            self.passed = True
            return f"used more than {self.limit:.3g} CPU seconds"
        return ""


def separated(output: str, seconds: float) -> tuple[str, Curve]:
    """Return what an entry printed, and the points of its curve, which it reported within `seconds`: its own word."""
    points = sorted(point for text in _POINT.findall(output) if (point := _point(text)) and point[0] <= seconds)
    every = -(-len(points) // POINTS) or 1
    kept = points[::-1][::every][::-1]  # the last one always
    return printable(_POINT.sub("", output).replace(BEGIN, "").replace(END, "")).strip(), kept


def _point(text: str) -> tuple[float, float] | None:
    try:
        seconds, mean_return = map(float, text.split(" "))
    except ValueError:
        return None
    return (seconds, mean_return) if math.isfinite(mean_return) and seconds >= 0 else None
