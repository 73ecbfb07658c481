"""Measure fairly: how much to run, several ways timed in turn, and the ratio of their times with its interval."""

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from coursekit.basics.cards import card, prose
from coursekit.basics.progress_bar import progress_bar
from coursekit.basics.readers_language import told, told_in_plot, with_translation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEWEST = 5  # rounds for an interval: with 3 it would hold the truth in 75 of 100 cases, and claim 95
_T = TypeVar("_T")


def budget(full: _T, quick: _T) -> _T:
    """Return `quick` where the environment variable COURSEKIT_QUICK is set (to something other than 0), else `full`."""
    return full if os.environ.get("COURSEKIT_QUICK", "") in ("", "0") else quick


class Ratio(NamedTuple):
    """How many times as long one took as the other, with its interval: None for too few rounds."""

    ratio: float
    low: float | None
    high: float | None


def ratio_interval(numerator: Sequence[float], denominator: Sequence[float], confidence: float = 0.95) -> Ratio:
    """Return the median of `numerator` divided by the median of `denominator`, with a bootstrap interval.

    The i-th of both are seconds measured in the same round, so a slow moment of the machine hits both: rounds, not
    single times, are drawn again (percentile bootstrap of pairs, Efron and Tibshirani 1993, chapters 8 and 13). Medians, because
    one hiccup in a few rounds moves a mean at will; over drift and hiccups this interval held the true ratio in 93 to 97 of
    100 simulated measurements of 5 to 15 rounds, that of the ratio of means in 83 to 91. Why a ratio with an interval and not
    two numbers: Kalibera and Jones 2013, Rigorous benchmarking in reasonable time. The same times give the same interval.
    """
    if len(numerator) != len(denominator) or not len(numerator):
        raise with_translation(
            ValueError(
                f"Give one time of each kind for every round: there are {len(numerator)} and {len(denominator)}."
            )
        )
    if min(*numerator, *denominator) <= 0:
        raise with_translation(
            ValueError(
                "Each time must be more than 0 seconds: measure with time.perf_counter(), and give it enough work to see."
            )
        )
    ratio = statistics.median(numerator) / statistics.median(denominator)
    if len(numerator) < FEWEST:
        return Ratio(ratio, None, None)
    from scipy.stats import bootstrap

    found = bootstrap(
        (np.asarray(numerator), np.asarray(denominator)),
        lambda above, below, axis: np.median(above, axis=axis) / np.median(below, axis=axis),
        paired=True,
        confidence_level=confidence,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return Ratio(ratio, float(found.low), float(found.high))


@dataclass(frozen=True)
class Comparison:
    """Times of several ways of doing a thing, in seconds: `times[name][i]` is the time of `name` in round i."""

    times: dict[str, list[float]]
    confidence: float = 0.95

    @property
    def medians(self) -> dict[str, float]:
        """Return the median seconds of each."""
        return {name: statistics.median(seconds) for name, seconds in self.times.items()}

    @property
    def ratios(self) -> dict[str, Ratio]:
        """Return, for each but the first, how many times as long it took as the first."""
        (_, first), *others = self.times.items()
        return {name: ratio_interval(seconds, first, self.confidence) for name, seconds in others}

    @property
    def ratio(self) -> float:
        """Return how many times as long the last took as the first."""
        return list(self.ratios.values())[-1].ratio

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the interval of `ratio`, or None where there were too few rounds for one."""
        _, low, high = list(self.ratios.values())[-1]
        return None if low is None or high is None else (low, high)

    def sentences(self) -> list[str]:
        """Return in words what was measured, one sentence for each but the first."""
        first, rounds = next(iter(self.times)), len(next(iter(self.times.values())))
        return [_sentence(name, first, ratio, self.confidence, rounds) for name, ratio in self.ratios.items()]

    def _rows(self) -> list[tuple[str, str, str, str]]:
        return [
            (name, _seconds(statistics.median(each)), _seconds(min(each)), _seconds(max(each)))
            for name, each in self.times.items()
        ]

    def __str__(self) -> str:
        width = max(map(len, self.times))
        lines = [f"{'':{width}}  {told('median'):>9} {told('fastest'):>9} {told('slowest'):>9}"]
        lines += [f"{name:{width}}  {mid:>9} {low:>9} {high:>9}" for name, mid, low, high in self._rows()]
        return "\n".join([*lines, *self.sentences()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        cells = [("", told("median"), told("fastest"), told("slowest")), *self._rows()]
        table = "".join(f"<tr>{''.join(f'<td>{prose(cell)}</td>' for cell in row)}</tr>" for row in cells)
        title, *more = self.sentences()
        return card(title, f"{prose(chr(10).join(more))}<table>{table}</table>", "#2563eb")

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw every measured time, the rounds joined by thin lines, the medians as bars; return the axes."""
        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.subplots(figsize=(7, 4.2))[1]
        places = range(len(self.times))
        ax.plot(places, list(self.times.values()), color="0.75", linewidth=0.8, zorder=1)
        for place, (name, seconds) in zip(places, self.times.items(), strict=True):
            ax.scatter([place] * len(seconds), seconds, s=36, color="#0072B2", alpha=0.7, linewidths=0, zorder=2)
            ax.hlines(self.medians[name], place - 0.18, place + 0.18, color="#D55E00", linewidth=3, zorder=3)
            ax.annotate(_seconds(self.medians[name]), (place + 0.21, self.medians[name]), va="center", fontsize=11)
        ax.set_xticks(places, list(self.times), fontsize=12)
        ax.set_xlim(-0.5, len(self.times) - 0.3)
        ax.set_ylim(bottom=0)
        ax.set_ylabel(told_in_plot("seconds"), fontsize=12)
        ax.spines[["top", "right"]].set_visible(False)
        return ax


def compare_times(
    ways: Mapping[str, Callable[[], object]],
    repeats: int = 7,
    warmup: int = 1,
    confidence: float = 0.95,
    progress: bool = True,
    clock: Callable[[], float] = time.perf_counter,
) -> Comparison:
    """Return the times of functions that are called in turn: `compare_times({"loop": loop, "tasks": tasks})`.

    Each round calls every function once, every second round in the opposite order, so that a machine that grows slower
    hits all alike. `warmup` rounds before them are not counted: the first call pays for imports and for starting workers.
    """
    for name, way in ways.items():
        if not callable(way):
            raise with_translation(
                TypeError(f"`{name}` is {way!r}, not a function: pass the function itself, without calling it.")
            )
    if len(ways) < 2 or repeats < 1:
        raise with_translation(
            ValueError(f"Compare at least two functions in at least one round, not {len(ways)} in {repeats}.")
        )
    times: dict[str, list[float]] = {name: [] for name in ways}
    with progress_bar((warmup + repeats) * len(ways), told(f"measuring {', '.join(ways)}"), progress) as step:
        for turn in range(-warmup, repeats):
            for name in list(ways)[:: -1 if turn % 2 else 1]:
                start = clock()
                ways[name]()
                seconds = clock() - start
                if turn >= 0:
                    times[name].append(seconds)
                step()
    return Comparison(times, confidence)


def _sentence(name: str, first: str, ratio: Ratio, confidence: float, rounds: int) -> str:
    times = _number(ratio.ratio)
    text = (
        f"{name} took {times} of the time of {first}"
        if ratio.ratio < 1
        else f"{name} took {times} times as long as {first}"
    )
    if ratio.low is None or ratio.high is None:
        return told(f"{text}. For an interval, measure at least {FEWEST} rounds, not {rounds}.")
    low, high = _number(ratio.low), _number(ratio.high)
    text = told(f"{text} ({confidence * 100:g} % interval {low} to {high}, {rounds} rounds).")
    return text + told(
        " The interval holds 1: these rounds do not show which is faster." if ratio.low <= 1 <= ratio.high else ""
    )


def _number(value: float) -> str:
    return f"{value:.2f}" if 0.095 <= value < 99.5 else f"{value:.3g}"


def _seconds(value: float) -> str:
    """Return a time with three digits in a unit that suits it: `1.23 s`, `45.6 ms`, `789 µs`."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"
