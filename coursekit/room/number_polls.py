"""The room's numbers: what it predicted and measured, as a histogram, and what it shared, by the machines' cores.

Where a chapter offers words to choose from, a number is a word's place among them.
"""

from collections import Counter
from functools import lru_cache
from statistics import median
from typing import Any

import nbformat
import numpy as np

from coursekit.basics.cells import Prediction, prediction
from coursekit.basics.paths import NOTEBOOKS
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
        of_chapter = [(name, kinds) for (where, name), kinds in reversed(self._of.items()) if where == chapter]
        return [
            _view(name, kinds, early, options(chapter).get(name, ())) | {"unit": units(chapter).get(name, "")}
            for name, kinds in of_chapter
        ]


def options(chapter: str) -> dict[str, tuple[str, ...]]:
    """Return the words to choose from of each prediction of a chapter that offers some."""
    return {each.name: each.options for each, _ in _asked(chapter) if each.options}


def units(chapter: str) -> dict[str, str]:
    """Return what the number of each prediction of a chapter counts, as the comment behind it says: `seconds`."""
    return {each.name: source.partition("#")[2].strip() for each, source in _asked(chapter)}


@lru_cache
def _asked(chapter: str) -> list[tuple[Prediction, str]]:
    path = NOTEBOOKS / f"{chapter}.ipynb"
    cells = nbformat.read(path, as_version=4).cells if path.exists() else []
    asked = [(prediction(cell.source), cell.source) for cell in cells if cell.cell_type == "code"]
    return [(each, source) for each, source in asked if each]


def _view(name: str, kinds: dict[str, Values], early: bool, words: tuple[str, ...]) -> dict[str, Any]:
    predicted, was = ([value for value, _ in kinds.get(kind, {}).values()] for kind in ("predict", "measured"))
    seen = bool(predicted) and (early or bool(was))
    bars = _bars_of_words(words, predicted, was) if words else histogram(predicted, was) if seen else []
    return {
        "name": name,
        "predictions": len(predicted),
        "bars": bars if seen else [],
        "predicted": median(predicted) if seen and not words else None,
        "measured": median(was) if was and not words else None,
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


def _bars_of_words(words: tuple[str, ...], predicted: list[float], measured: list[float]) -> list[dict[str, Any]]:
    """Return a bar for each word: how often it was predicted, and whether it's what most have measured."""
    counts, most = Counter(predicted), Counter(measured).most_common(1)
    return [
        {"word": word, "count": counts[place], "measured": bool(most) and most[0][0] == place}
        for place, word in enumerate(words)
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
