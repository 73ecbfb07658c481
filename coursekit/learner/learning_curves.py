"""A learner's learning curve in a check, beside the recorded one of our solution."""

import io
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coursekit.basics.paths import PACKAGE
from coursekit.basics.readers_language import told, told_in_plot
from coursekit.judging.result import Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RECORDED = PACKAGE / "exercises/curves.json"  # made by `make curves`
ROWS = 10


@dataclass(frozen=True)
class LearningCurves:
    """One or two learning curves of one exercise: a plot in a notebook, text in a terminal."""

    name: str
    yours: Curve
    ours: Curve | None
    recorded: str  # on what machine ours was recorded, and when; or that there is none

    @property
    def _curves(self) -> list[Curve]:
        return [self.yours, *([self.ours] if self.ours else [])]

    def __str__(self) -> str:
        """Return a table: the last point in each part of the longer curve, a dash where it has none."""
        curves, over = [curve.points for curve in self._curves], self.yours.over
        end = max(points[-1][0] for points in curves)
        width = _round(end / min(ROWS, max(map(len, curves))))
        names = "".join(f"{name:>10}" for name in (told("yours"), told("ours"))[: len(curves)])
        lines = [f"{self.name}: {told('mean return')}", f"{told(over):>14}{names}"]
        for row in range(max(1, math.ceil(end / width))):
            low, high = width * row, width * (row + 1)
            tests = "".join(f"{_last(points, low, high):>10}" for points in curves)
            end_of_row = told(f"up to {_short(high)}")
            lines.append(f"{end_of_row:>14}{tests}")
        return "\n".join([*lines, told(self.recorded)])

    __repr__ = __str__

    def plot(self, ax: "Axes") -> "Axes":
        """Draw all of them."""
        labels = told_in_plot("yours"), told_in_plot("ours")
        for colour, label, curve in zip(("#D55E00", "#0072B2"), labels, self._curves, strict=False):
            ax.plot(*zip(*curve.points, strict=True), color=colour, marker=".", label=label)
        ax.set_xlabel(told_in_plot(self.yours.over), fontsize=12)
        ax.set_ylabel(told_in_plot("mean return"), fontsize=12)
        ax.set_title(f"{self.name}\n{told_in_plot(self.recorded)}", fontsize=11, loc="left")
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, fontsize=11)
        return ax

    def _repr_png_(self) -> bytes:
        from matplotlib.figure import Figure

        figure, png = Figure(figsize=(8, 4), layout="constrained"), io.BytesIO()
        self.plot(figure.subplots())
        figure.savefig(png, format="png", dpi=110)
        return png.getvalue()


def beside_ours(chapter: str, name: str, yours: Curve) -> LearningCurves:
    """Return a learner's curve beside ours, or alone where we recorded none."""
    ours = recorded().get(f"{chapter}/{name}")
    if not ours:
        return LearningCurves(name, yours, None, "There's no curve of ours to compare with.")
    said = f"Ours was recorded on {ours['date']} ({ours['machine']})."
    return LearningCurves(name, yours, Curve(ours["over"], [(x, y) for x, y in ours["points"]]), said)


def recorded() -> dict[str, dict[str, Any]]:
    """Return our curves by chapter and exercise: `over`, `points`, the machine, and the date."""
    return dict(json.loads(RECORDED.read_text(encoding="utf-8")))


def _round(least: float) -> float:
    """Return a round number that is at least so large."""
    unit = 10.0 ** math.floor(math.log10(least)) if least > 0 else 1.0
    return next(digit * unit for digit in (1, 2, 3, 4, 5, 6, 8, 10) if digit * unit >= least)


def _last(points: list[tuple[float, float]], low: float, high: float) -> str:
    found = [y for x, y in points if low < x <= high or x == low == 0]
    return _short(found[-1]) if found else "–"


def _short(number: float) -> str:
    return f"{float(f'{number:.4g}'):,.15g}"
