"""A learner's guesses against what was then measured, over the course: it shows where intuition errs."""

import io
import math
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from coursekit.basics.cards import plural
from coursekit.basics.readers_language import told, told_in_plot
from coursekit.learner.progress import home, kept

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMED = 4  # so many points, the farthest from the diagonal, have a name in the plot
BAR = 20  # columns


class Guess(NamedTuple):
    """A number that was predicted and then measured for the first time."""

    chapter: str
    name: str
    said: float
    was: float

    @property
    def factor(self) -> float:
        """Return how many times the guess the measurement was."""
        return self.was / self.said


@dataclass(frozen=True)
class Guesses:
    """The guesses, those farthest off first: a plot in a notebook, text in a terminal."""

    numbers: list[Guess] = field(default_factory=list)
    chosen: int = 0  # predictions that were a choice among words
    right: int = 0  # so many of them were right

    def __str__(self) -> str:
        return "\n".join([*map(_line, self.numbers), *map(told, self.sentences())])

    __repr__ = __str__

    def sentences(self) -> list[str]:
        """Return in words how far the guesses were off, and in which direction."""
        if not self.numbers and not self.chosen:
            return ["You have no guesses yet: `predict` keeps one, and `measured` compares it."]
        said = []
        if self.numbers:
            off = statistics.median(max(each.factor, 1 / each.factor) for each in self.numbers)
            high = sum(each.factor < 1 for each in self.numbers)
            low = sum(each.factor > 1 for each in self.numbers)
            whole = plural(len(self.numbers), "prediction")
            said += [f"{whole}: half are within a factor of {off:.2g}.", f"Too high: {high}. Too low: {low}."]
        return said + (
            [f"Of {plural(self.chosen, 'choice')} among words, {self.right} were right."] if self.chosen else []
        )

    def plot(self, ax: "Axes") -> "Axes":
        """Draw what was measured over what was guessed, on logarithmic axes, with the diagonal where both agree."""
        said, was = [each.said for each in self.numbers], [each.was for each in self.numbers]
        ends = min([*said, *was]) / 2, max([*said, *was]) * 2
        ax.plot(ends, ends, color="0.6", linewidth=1, zorder=1)
        ax.scatter(said, was, s=40, color="#0072B2", alpha=0.75, linewidths=0, zorder=2)
        for each in self.numbers[:NAMED]:
            inwards = "left" if each.said < math.sqrt(math.prod(ends)) else "right"
            ax.annotate(f" {each.name} ", (each.said, each.was), fontsize=10, va="bottom", ha=inwards)
        ax.annotate(told_in_plot("too low"), (0.03, 0.97), xycoords="axes fraction", va="top", color="0.4", fontsize=11)
        ax.annotate(
            told_in_plot("too high"), (0.97, 0.03), xycoords="axes fraction", ha="right", color="0.4", fontsize=11
        )
        ax.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal")
        ax.set_xlabel(told_in_plot("what you guessed"), fontsize=12)
        ax.set_ylabel(told_in_plot("what was measured"), fontsize=12)
        ax.set_title("\n".join(map(told_in_plot, self.sentences())), fontsize=11, loc="left")
        ax.spines[["top", "right"]].set_visible(False)
        return ax

    def _repr_png_(self) -> bytes | None:
        if not self.numbers:
            return None
        from matplotlib.figure import Figure

        figure, png = Figure(figsize=(6, 6), layout="constrained"), io.BytesIO()
        self.plot(figure.subplots())
        figure.savefig(png, format="png", dpi=110)
        return png.getvalue()


def guesses() -> Guesses:
    """Return what a learner predicted before the first measurement, in all chapters; of numbers, those above zero."""
    numbers, chosen = [], []
    for path in sorted((home() / "predictions").glob("*.json")):
        chapter, _, name = path.stem.partition(".")
        match kept(path).get("first"):
            case [str(said), str(was)]:
                chosen.append(said == was)
            case [int() | float() as said, int() | float() as was] if said > 0 and was > 0:
                numbers.append(Guess(chapter, name, said, was))
    numbers.sort(key=lambda each: -abs(math.log(each.factor)))
    return Guesses(numbers, len(chosen), sum(chosen))


def _line(guess: Guess) -> str:
    """Return a guess as text, with a bar to the left where it was too high and to the right where it was too low."""
    size = min(BAR // 2, round(abs(math.log2(guess.factor)) * 2))
    left, right = ("█" * size, "") if guess.factor < 1 else ("", "█" * size)
    said, was = (f"{float(f'{number:.3g}'):,.15g}" for number in (guess.said, guess.was))
    numbers = f"{said:>9} → {was:<9}"
    return f"{guess.chapter[:4]} {guess.name[:28]:28} {numbers} {left:>{BAR // 2}}│{right:<{BAR // 2}}".rstrip()
