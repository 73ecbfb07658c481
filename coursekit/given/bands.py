"""The bands of chapters 13 and 14: what several runs of one kind have in common, and how far they lie apart."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def draw_band(ax: Any, runs: Sequence[tuple[Sequence, Sequence]], colour: str, label: str, **look: Any) -> None:
    """Draw the mean of several curves, each (xs, ys), and a band from the worst to the best, where all have points."""
    runs = [run for run in runs if len(run[0])]
    if not runs:
        return
    start, end = max(min(xs) for xs, _ in runs), min(max(xs) for xs, _ in runs)
    points = np.unique(np.concatenate([xs for xs, _ in runs]))
    points = points[(start <= points) & (points <= end)]
    values = np.array([np.interp(points, xs, ys) for xs, ys in runs])
    ax.fill_between(points, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.25, linewidth=0)
    ax.plot(points, values.mean(axis=0), color=colour, label=label, **look)
