"""Leads over the baseline as SVG: on the left by what entries reported of themselves, on the right, on the same scale, as the judge found them."""

import html
import math
from collections.abc import Iterable
from typing import NamedTuple

from coursekit.capstone.leaderboard import Row
from coursekit.capstone.rules import OURS

SHOWN = 6  # curves with a colour of their own: more cannot be told apart
WIDTH, HEIGHT = 860, 380
LEFT, RIGHT, TOP, BOTTOM = 52, 580, 34, 332  # of the curves
LANE, LANE_END = 674, 848  # of the scores
APART = 12  # between two numbers, one above the other
BEYOND = 0.25  # times the judge's own range: further up or down no claim is drawn


class Frame(NamedTuple):
    """The scales: CPU seconds up to `seconds`, leads from `low` to `high`."""

    seconds: float
    low: float
    high: float

    def x(self, seconds: float) -> float:
        """Return where a number of CPU seconds lies."""
        return round(LEFT + (RIGHT - LEFT) * min(seconds / self.seconds, 1), 1)

    def y(self, value: float) -> float:
        """Return where a lead lies; one beyond the scale lies a little outside of the picture."""
        fraction = (value - self.low) / (self.high - self.low)
        return round(BOTTOM - (BOTTOM - TOP) * min(max(fraction, -0.1), 1.1), 1)


def chart(ranked: list[Row]) -> str:
    """Return the picture of a league, whose rows come best first; colours are the page's, for the classes `c1` to `c6`."""
    frame, shown = _frame(ranked), ranked[:SHOWN]
    title = f"Learning curves of {len(shown)} of {len(ranked)} entries, and the leads that the judge measured"
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">',
        f'<clipPath id="plot"><rect x="{LEFT}" y="{TOP}" width="{RIGHT - LEFT + 4}" height="{BOTTOM - TOP}"/></clipPath>',
        *_axes(frame, ranked[0].by_clock),
        *_references(frame, ranked),
        '<g clip-path="url(#plot)">',
        *(_line(frame, row, "others") for row in ranked[SHOWN:]),
        *(_line(frame, row, f"c{place}") for place, row in reversed([*enumerate(shown, 1)])),
        "</g>",
        *_places(frame, shown),
        *(_score(frame, row, place, len(shown)) for place, row in enumerate(shown, 1)),
        "</svg>",
    ]
    return "\n".join(part for part in parts if part)


def _frame(ranked: list[Row]) -> Frame:
    """Return scales that the judge's numbers set: a claim from the moon must not flatten the other curves."""
    judged = [value for row in ranked for value in (row.lead.low, row.lead.high)] + [*_par(ranked).values()]
    low, high = min(judged), max(judged)
    space = (high - low) or 1.0
    claimed = [value - row.baseline.mean for row in ranked for _, value in row.curve]
    low = max(min([low, *claimed]), low - BEYOND * space)
    high = min(max([high, *claimed]), high + BEYOND * space)
    longest = max(seconds for row in ranked for seconds in (row.budget, row.wall if row.by_clock else row.cpu))
    return Frame(longest, low - 0.05 * space, high + 0.05 * space)


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Return about `count` round numbers in a range."""
    rough = (high - low) / count
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * size for factor in (1, 2, 2.5, 5, 10) if factor * size >= rough)
    return [step * number for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _text(x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" class="{kind}">{html.escape(text)}</text>'


def _axes(frame: Frame, by_clock: bool) -> Iterable[str]:
    for value in ticks(frame.low, frame.high):
        y = frame.y(value)
        yield f'<path class="grid" d="M{LEFT} {y}H{RIGHT}M{LANE} {y}H{LANE_END}"/>'
        yield _text(LEFT - 8, y + 4, f"{value:g}", "end")
    for seconds in ticks(0, frame.seconds):
        yield _text(frame.x(seconds), BOTTOM + 18, f"{seconds:g}", "middle")
    yield f'<path class="axis" d="M{LEFT} {BOTTOM}H{RIGHT}M{LANE} {BOTTOM}H{LANE_END}"/>'
    yield _text(LEFT, TOP - 16, "Lead over the baseline, as the entries reported it", kind="head")
    yield _text(LANE, TOP - 16, "As the judge measured it", kind="head")
    yield _text(RIGHT, BOTTOM + 38, "seconds of wall-clock time" if by_clock else "CPU seconds", "end")
    yield _text(LANE_END, BOTTOM + 38, "entry, 95% interval", "end")


def _references(frame: Frame, ranked: list[Row]) -> Iterable[str]:
    lowest = 0.0
    for y, name in sorted((frame.y(lead), name) for name, lead in _par(ranked).items()):
        lowest = max(y + 4, lowest + APART)
        yield f'<path class="reference" d="M{LEFT} {y}H{RIGHT}M{LANE} {y}H{LANE_END}"/>'
        yield _text(LANE - 6, round(lowest, 1), name, "end")


def _par(ranked: list[Row]) -> dict[str, float]:
    """Return the mean leads of what is known: chance, the rules, and in the league of CPU seconds the chapter's agent."""
    rows = len(ranked)
    leads = {
        "baseline": 0.0,
        "random": sum(row.chance.mean - row.baseline.mean for row in ranked) / rows,
        "prices known": sum(row.informed.mean - row.baseline.mean for row in ranked) / rows,
    }
    return leads if ranked[0].by_clock else leads | {"ours, 10 s": OURS}


def _line(frame: Frame, row: Row, kind: str) -> str:
    """Return one curve with a dot at its end."""
    points = [(frame.x(seconds), frame.y(value - row.baseline.mean)) for seconds, value in row.curve]
    if not points:
        return ""
    way = " ".join(f"{x},{y}" for x, y in points)
    end = '<circle cx="{}" cy="{}" r="3.5"/>'.format(*points[-1])
    return f'<g class="curve {kind}"><title>{html.escape(row.name)}</title><polyline points="{way}"/>{end}</g>'


def _places(frame: Frame, shown: list[Row]) -> Iterable[str]:
    """Yield each curve's place at its end, one below the other where they would lie on each other."""
    ends = [
        (frame.y(row.curve[-1][1] - row.baseline.mean), frame.x(row.curve[-1][0]), place)
        for place, row in enumerate(shown, 1)
        if row.curve
    ]
    lowest = 0.0
    for y, x, place in sorted(ends):
        if TOP <= y <= BOTTOM:
            lowest = max(y + 4, lowest + APART)
            yield _text(x + 7, round(lowest, 1), str(place))


def _score(frame: Frame, row: Row, place: int, count: int) -> str:
    """Return a lead as a dot with its interval as a whisker."""
    x = round(LANE + (LANE_END - LANE) * (place - 0.5) / count, 1)
    low, high, mean = (frame.y(value) for value in (row.lead.low, row.lead.high, row.lead.mean))
    whisker = f"M{x - 6} {low}H{x + 6}M{x - 6} {high}H{x + 6}M{x} {low}V{high}"
    return (
        f'<g class="score c{place}"><title>{html.escape(row.name)}: {row.lead.signed()}</title>'
        f'<path d="{whisker}"/><circle cx="{x}" cy="{mean}" r="3.5"/></g>{_text(x, BOTTOM + 18, str(place), "middle")}'
    )
