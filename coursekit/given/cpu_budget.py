"""The budget of an entry: CPU seconds, including those of every process that it starts."""

import math
import os
import time
from collections.abc import Callable
from typing import NoReturn

from coursekit.given.cpu_clock import CpuClock

LOOK_SECONDS = 0.1  # between two looks at the other processes: one costs some milliseconds


class Budget:
    """CPU seconds to train with, counted from the moment that the budget is created: `Budget(60)`.

    `seconds` is the total, and `curve` is the list of reported points (CPU seconds spent, mean return). This process counts,
    and so does everything that it has started, Ray's workers included, but not what they used before. `root` names
    another process whose descendants count, and `tell` is called with each reported point.
    """

    unit = "CPU seconds"

    def __init__(
        self, seconds: float, *, root: int | None = None, tell: Callable[[float, float], object] | None = None
    ):
        if not seconds > 0:
            raise ValueError(f"A budget of {seconds} seconds leaves nothing to learn with: give more than 0.")
        self.seconds = float(seconds)
        self.curve: list[tuple[float, float]] = []
        self._tell = tell
        self._clock = CpuClock(root or os.getpid())
        self._seen, self._own, self._when = 0.0, time.process_time(), time.monotonic()

    def spent(self) -> float:
        """Return the CPU seconds spent so far; the call is cheap enough for a training loop."""
        if time.monotonic() - self._when > LOOK_SECONDS:
            self._seen = max(self._seen, self._clock.seconds())
            self._own, self._when = time.process_time(), time.monotonic()
        return self._seen + time.process_time() - self._own

    def left(self) -> float:
        """Return the CPU seconds that are left, or 0 if they are used up."""
        return max(0.0, self.seconds - self.spent())

    def report(self, mean_return: float) -> None:
        """Add a point to the learning curve: the CPU seconds spent so far, and the mean return reached with them."""
        try:
            value = float(mean_return)
        except (TypeError, ValueError, RuntimeError):  # the last is PyTorch's
            got = f"budget.report takes one number, a mean return, and got a value of type {type(mean_return).__name__}"
            raise TypeError(f"{got}. If you have many returns, report their mean.") from None
        if not math.isfinite(value):
            raise ValueError(
                f"budget.report({value}) isn't a point of a learning curve: report only after the first episodes have ended."
            )
        point = (self.spent(), value)
        self.curve.append(point)
        if self._tell:
            self._tell(*point)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.seconds:g}): {self.spent():.1f} {self.unit} spent, {self.left():.1f} left"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A Budget stays in the process that made it: give your workers `budget.left()`, a number.")


class ClockBudget(Budget):
    """The same for wall-clock time: seconds to train with, whether the processes wait or compute."""

    unit = "seconds"

    def __init__(self, seconds: float, *, tell: Callable[[float, float], object] | None = None):
        super().__init__(seconds, tell=tell)
        self._began = time.monotonic()

    def spent(self) -> float:
        """Return the seconds since the budget was created."""
        return time.monotonic() - self._began
