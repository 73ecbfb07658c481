"""The leaderboard: one line of JSON for each run that was judged, and who stands where."""

import contextlib
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from coursekit.basics.journal import Journal
from coursekit.capstone.referee import Score
from coursekit.learner.progress import home

League = tuple[int, bool, float]


@dataclass(frozen=True)
class Row:
    """One run that was judged. The curve is the entry's own word, all else the judge's."""

    name: str
    file: str
    fingerprint: str  # of its source
    when: str
    version: int  # of the warehouse
    by_clock: bool
    budget: float  # CPU seconds, or seconds by the clock
    score: Score
    lead: Score  # over the baseline, episode by episode
    baseline: Score  # in the same episodes, as the next two
    chance: Score
    informed: Score  # the rule that knows all prices
    cpu: float
    wall: float
    measured: str
    seed: int
    chosen: bool  # the seed was, so that somebody may have known the episodes
    sandboxed: bool
    machine: str  # its cores and what they are
    spread: float  # by the clock: between the two runs of the baseline, before and after
    killed: bool  # one of its actors was, and it went on
    curve: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, line: dict[str, Any]) -> Self:
        """Return the row in a line of the file; raises KeyError, TypeError or ValueError where it holds none."""
        return cls(**{name: read(line[name]) for name, read in _READ.items()})

    @property
    def league(self) -> League:
        """Return what has to be the same for two leads to be compared: the warehouse's version, the way to count, the budget."""
        return self.version, self.by_clock, self.budget

    @property
    def ranked(self) -> bool:
        """Whether it is in the race: its episodes were a secret and, by the clock, it has lived through the loss of an actor."""
        return not self.chosen and (self.killed or not self.by_clock)


def _finite(value: Any) -> float:
    if not math.isfinite(number := float(value)):
        raise ValueError(f"{number} is no number for a leaderboard")
    return number


def _score(value: Any) -> Score:
    mean, low, high = map(_finite, value)
    return Score(mean, low, high)


def _curve(value: Any) -> tuple[tuple[float, float], ...]:
    return tuple((_finite(seconds), _finite(mean_return)) for seconds, mean_return in value)


_READ: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("name", "file", "fingerprint", "when", "measured", "machine"), str),
    **dict.fromkeys(("version", "seed"), int),
    **dict.fromkeys(("budget", "cpu", "wall", "spread"), _finite),
    **dict.fromkeys(("score", "lead", "baseline", "chance", "informed"), _score),
    **dict.fromkeys(("chosen", "sandboxed", "by_clock", "killed"), bool),
    "curve": _curve,
}


def folder() -> Path:
    """Return where the leaderboard lies, in the user's data folder."""
    return home() / "capstone"


def _journal() -> Journal:
    return Journal(folder() / "board.jsonl")


def add(row: Row) -> None:
    """Write a row behind all earlier ones, which stay as they are."""
    folder().mkdir(parents=True, exist_ok=True)
    _journal().add(asdict(row))


def rows() -> list[Row]:
    """Return all rows that can be read; a line that holds none is left where it is."""
    found = []
    for line in _journal().lines():
        with contextlib.suppress(KeyError, TypeError, ValueError, OverflowError):
            found.append(Row.of(line))
    return found


def leagues(found: list[Row]) -> dict[League, list[Row]]:
    """Return the rows of each league, the largest lead first; the league that was played last comes first."""
    latest = {row.league: row.when for row in sorted(found, key=lambda row: row.when)}
    order = sorted(latest, key=lambda league: latest[league], reverse=True)
    ranked = sorted(found, key=lambda row: (not row.ranked, -row.lead.mean, row.when))
    return {league: [row for row in ranked if row.league == league] for league in order}


def ranks(ranked: list[Row]) -> list[int | None]:
    """Return the rank of each row of a league, None for one that is in no race.

    Rows share a rank where the interval of the lead reaches into that of the first of them.
    """
    found: list[int | None] = []
    rank, first = 0, math.inf  # the rank that is shared, and the lower end of its first interval
    for number, row in enumerate(ranked, 1):
        if row.lead.high < first:
            rank, first = number, row.lead.low
        found.append(rank if row.ranked else None)
    return found


def spoken(rank: int | None, among: list[int | None]) -> str:
    """Return a rank as it is shown: "2=" where several share it."""
    return f"{rank}{'=' * (among.count(rank) > 1)}" if rank else "–"
