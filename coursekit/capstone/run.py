"""One run of an entry: it learns in a sandbox, its policy is judged from outside, and a row for the leaderboard comes of it."""

import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from coursekit.capstone import judge
from coursekit.capstone.board import Row
from coursekit.capstone.contestant import INSIDE, Contestant, Learned
from coursekit.capstone.entry import Entry
from coursekit.capstone.rules import Rules
from coursekit.given import warehouse
from coursekit.sandbox.nursery import Nursery


class Ran(NamedTuple):
    """What came of a run: the row for the leaderboard, what the entry printed, its lead over the baseline episode by episode."""

    row: Row
    output: str
    lead: judge.Score


def run(entry: Entry, rules: Rules, tick: Callable[[float], object] = lambda spent: None) -> Ran:
    """Return what came of an entry; raises EntryFailed, and NurseryFailed where it is the machine's fault.

    `tick` is called now and then with the CPU seconds that were spent.
    """
    with (
        Nursery(rules.limits(), isolated=rules.isolated, imports=rules.imports, rooms=[INSIDE]) as nursery,
        nursery.sandbox() as sandbox,
    ):
        contestant = Contestant(entry, rules, sandbox, tick)
        learned = contestant.learn()
        contestant.be_asked(learned)
        seed = secrets.randbits(60) if rules.seed is None else rules.seed  # drawn when nothing can be learned any more
        returns = judge.judge(contestant.decide, seed)
        return _ran(entry, rules, contestant.counted(learned), contestant.watch.how, seed, returns)


def _ran(entry: Entry, rules: Rules, learned: Learned, how: str, seed: int, returns: np.ndarray) -> Ran:
    """Return the run with what the baseline and chance earn in the same episodes."""
    baseline = judge.judge(warehouse.baseline, seed)
    chance = judge.judge(warehouse.random_actions, seed)
    row = Row(
        name=entry.name,
        file=entry.file,
        fingerprint=entry.fingerprint,
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        version=warehouse.VERSION,
        budget=rules.seconds,
        score=judge.score(returns),
        baseline=judge.score(baseline),
        chance=judge.score(chance),
        cpu=learned.cpu,
        wall=learned.wall,
        measured=how,
        seed=seed,
        chosen=rules.seed is not None,
        sandboxed=rules.isolated,
        curve=tuple(learned.curve),
    )
    return Ran(row, learned.output, judge.score(returns - baseline))
