"""The room's numbers: what it predicted and measured, as a histogram, and what it shared, by the machines' cores."""

from statistics import median
from typing import Any

import numpy as np

from coursekit.room.incoming import Event

BARS = 10
WIDE = 50  # from the smallest to the largest prediction: then the bars stand for factors
Values = dict[str, tuple[float, float]]  # by person: the number, the machine's cores


class Numbers:
    """The last number that each person gave, by chapter, name and kind: predict, measured or share."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, str], dict[str, Values]] = {}

    def take(self, person: str, event: Event) -> None:
        """Take in somebody's number; it replaces an earlier one."""
        kinds = self._of.setdefault((event.chapter, event.exercise), {})
        kinds.setdefault(event.kind, {})[person] = event.value, event.cores

    def view(self, chapter: str, early: bool) -> list[dict[str, Any]]:
        """Return the numbers of a chapter, the newest name first; predictions, before anybody measured, only if `early`."""
        return [_view(name, kinds, early) for (where, name), kinds in reversed(self._of.items()) if where == chapter]


def _view(name: str, kinds: dict[str, Values], early: bool) -> dict[str, Any]:
    predicted, was = ([value for value, _ in kinds.get(kind, {}).values()] for kind in ("predict", "measured"))
    seen = bool(predicted) and (early or bool(was))
    return {
        "name": name,
        "predictions": len(predicted),
        "bars": histogram(predicted, was) if seen else [],
        "predicted": median(predicted) if seen else None,
        "measured": median(was) if was else None,
        "shared": _by_cores(kinds.get("share", {})),
    }


def histogram(predicted: list[float], measured: list[float]) -> list[dict[str, Any]]:
    """Return bars over predictions, each with its ends, its count, and whether the middle of what was measured lies in it."""
    middle = median(measured) if measured else None
    every = np.array([*predicted, *([middle] if middle is not None else [])])
    factors = every.min() > 0 and every.max() / every.min() > WIDE
    scale = np.log10 if factors else np.asarray
    edges = np.histogram_bin_edges(scale(every), BARS)
    counts = np.histogram(scale(np.array(predicted)), edges)[0]
    here = -1 if middle is None else min(int(np.searchsorted(edges, scale(middle), "right")), BARS) - 1
    ends = (10**edges if factors else edges).tolist()
    return [
        {"low": low, "high": high, "count": int(count), "measured": number == here}
        for number, (low, high, count) in enumerate(zip(ends, ends[1:], counts, strict=False))
    ]


def _by_cores(shared: Values) -> list[dict[str, Any]]:
    """Return what was shared on machines of each size."""
    groups: dict[float, list[float]] = {}
    for value, cores in shared.values():
        groups.setdefault(cores, []).append(value)
    return [
        {"cores": cores, "machines": len(values), "low": min(values), "middle": median(values), "high": max(values)}
        for cores, values in sorted(groups.items())
    ]
