"""How long things take, measured fairly: in turn, warmed up, as a ratio with an interval."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from coursekit.result import prose

T = TypeVar("T")
COLOURS = ["#2563eb", "#d97706", "#059669", "#7c3aed"]


def budget(full: T, quick: T) -> T:
    """Return `full`, or `quick` where the environment variable COURSEKIT_QUICK asks for it: the one knob for "how much"."""
    return quick if os.environ.get("COURSEKIT_QUICK", "0") not in ("", "0") else full


@dataclass(frozen=True)
class Comparison:
    """The seconds of several ways to do one thing, and how the last compares with the first."""

    times: dict[str, list[float]]
    level: float = 0.95

    @property
    def medians(self) -> dict[str, float]:
        """Return the median seconds of each way."""
        return {name: float(np.median(seconds)) for name, seconds in self.times.items()}

    @property
    def ratio(self) -> float:
        """Return the median of the last way divided by that of the first."""
        return self._ratio_and_interval()[0]

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the bootstrap interval of the ratio; None with fewer than three repeats."""
        low, high = self._ratio_and_interval()[1:]
        return None if np.isnan(low) else (low, high)

    def _ratio_and_interval(self) -> tuple[float, float, float]:
        first, *_, last = self.times.values()
        return ratio_interval(last, first, self.level)

    @property
    def verdict(self) -> str:
        """Return the ratio in words."""
        first, *_, last = self.times
        words = f"`{last}` took {self.ratio:.2f} times as long as `{first}`"
        if self.interval is None:
            return f"{words}; three repeats or more would give an interval."
        return f"{words} ({self.level:.0%} interval {self.interval[0]:.2f} to {self.interval[1]:.2f})."

    def __str__(self) -> str:
        width = max(map(len, self.times))
        rows = [f"{name:<{width}}  {seconds:.4g} s" for name, seconds in self.medians.items()]
        return "\n".join([*rows, self.verdict.replace("`", "")])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><td>{name}</td><td>{seconds:.4g} s</td></tr>" for name, seconds in self.medians.items())
        count = len(next(iter(self.times.values())))
        head = f"<tr><th></th><th>median of {count}</th></tr>"
        return f"<table>{head}{rows}</table><p>{prose(self.verdict)}</p>"

    def plot(self, ax: Any = None) -> Any:
        """Draw every measurement as a dot and each median as a line; return the axes."""
        if ax is None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots(figsize=(6, 0.8 + 0.6 * len(self.times)), constrained_layout=True)
        for row, (name, seconds) in enumerate(self.times.items()):
            colour = COLOURS[row % len(COLOURS)]
            ax.plot(seconds, [row] * len(seconds), "o", color=colour, alpha=0.5)
            ax.plot([self.medians[name]] * 2, [row - 0.3, row + 0.3], color=colour, linewidth=2)
        ax.set_yticks(range(len(self.times)), list(self.times))
        ax.set(xlabel="seconds", ylim=(len(self.times) - 0.5, -0.5))
        ax.set_xlim(left=0)
        return ax


def compare_times(
    ways: Mapping[str, Callable[[], object]],
    repeats: int = 7,
    warmup: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> Comparison:
    """Return how long each way takes, measured in turn so that a slow moment of the machine hits all alike.

    Every other round goes backwards, so none is always first. `ways` maps a name to a function without arguments; each is
    called `warmup` times before the first measurement. The ratio compares the last way with the first.
    """
    if len(ways) < 2 or repeats < 1:
        raise ValueError("compare_times needs two ways or more and at least one repeat: {'loop': f, 'tasks': g}.")
    for way in list(ways.values()) * warmup:
        way()
    times: dict[str, list[float]] = {name: [] for name in ways}
    for repeat in range(repeats):
        for name in list(ways) if repeat % 2 == 0 else reversed(list(ways)):
            start = clock()
            ways[name]()
            times[name].append(clock() - start)
    return Comparison(times)


def ratio_interval(
    numerator: Sequence[float], denominator: Sequence[float], level: float = 0.95, seed: int = 0
) -> tuple[float, float, float]:
    """Return the ratio of the medians and its bootstrap interval: ratio, low, high.

    The i-th times of both were measured one after the other, so they are drawn together (a paired percentile bootstrap:
    Efron and Tibshirani 1993, chapters 8 and 13). Fewer than three pairs give NaN for low and high.
    """
    if len(numerator) != len(denominator) or len(numerator) == 0:
        raise ValueError(f"There must be as many times of one as of the other, not {len(numerator)} and {len(denominator)}.")
    above, below = np.asarray(numerator, float), np.asarray(denominator, float)
    ratio = float(np.median(above) / np.median(below))
    if len(above) < 3:
        return ratio, float("nan"), float("nan")
    draws = np.random.default_rng(seed).integers(len(above), size=(9999, len(above)))
    ratios = np.median(above[draws], axis=1) / np.median(below[draws], axis=1)
    low, high = np.quantile(ratios, [(1 - level) / 2, (1 + level) / 2])
    return ratio, float(low), float(high)
