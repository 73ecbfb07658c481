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
    """What came of a run: the row for the leaderboard, and what the entry printed."""

    row: Row
    output: str


def run(entry: Entry, rules: Rules, tick: Callable[[float], object] = lambda spent: None) -> Ran:
    """Return what came of an entry; raises EntryFailed, and NurseryFailed where it is the machine's fault.

    `tick` is called now and then with the CPU seconds that were spent.
    """
    with (
        Nursery(rules.limits(), isolated=rules.isolated, imports=rules.imports, rooms=[INSIDE]) as nursery,
        nursery.sandbox() as sandbox,
    ):
        seed = secrets.randbits(60) if rules.seed is None else rules.seed
        contestant = Contestant(entry, rules, sandbox, tick, judge.drawn(seed, "world"))
        learned = contestant.learn()
        contestant.be_asked(learned)
        world, episodes = warehouse.draw_world(judge.drawn(seed, "world")), judge.drawn(seed, "episodes")
        exam = {"score": judge.judge(contestant.decide, world, episodes)}
        for name, policy in judge.rules(world).items():
            exam[name] = judge.judge(policy, world, episodes)
        return _ran(entry, rules, contestant.counted(learned), contestant.watch.how, seed, exam)


def _ran(entry: Entry, rules: Rules, learned: Learned, how: str, seed: int, exam: dict[str, np.ndarray]) -> Ran:
    """Return the run; `exam` has what the entry, and what each rule, earned in the same episodes."""
    row = Row(
        name=entry.name,
        file=entry.file,
        fingerprint=entry.fingerprint,
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        version=warehouse.VERSION,
        budget=rules.seconds,
        lead=judge.score(exam["score"] - exam["baseline"]),
        **{name: judge.score(returns) for name, returns in exam.items()},
        cpu=learned.cpu,
        wall=learned.wall,
        measured=how,
        seed=seed,
        chosen=rules.seed is not None,
        sandboxed=rules.isolated,
        curve=tuple(learned.curve),
    )
    return Ran(row, learned.output)
