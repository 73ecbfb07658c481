"""One run of an entry: it learns in a sandbox, its policy is judged from outside, and a row for the leaderboard comes of it."""

import os
import platform
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from coursekit.basics.paths import ROOT
from coursekit.capstone import referee
from coursekit.capstone.contestant import INSIDE, Contestant, Learned
from coursekit.capstone.entry import Entry, read_entry
from coursekit.capstone.leaderboard import Row
from coursekit.capstone.rules import Rules
from coursekit.given import warehouse
from coursekit.sandbox.nursery import Nursery

# By the clock, what it learns depends on the machine: so it runs in turn with the entry.
BASELINE = ROOT / "docs/example_entry.py"
Tick = Callable[[float], object]


class Judged(NamedTuple):
    """What the judge knows of an entry: what learning cost and how that was counted, its returns, whether an actor was killed."""

    learned: Learned
    how: str
    returns: np.ndarray
    killed: bool
    actions: np.ndarray  # [EPISODE_STEPS, EPISODES]


class Ran(NamedTuple):
    """What came of a run: the row for the leaderboard, what the entry printed, and its best episode: seed and actions."""

    row: Row
    output: str
    best: tuple[int, np.ndarray]


def run(entry: Entry, rules: Rules, tick: Tick = lambda spent: None) -> Ran:
    """Return what came of an entry; raises EntryFailed, and NurseryFailed where it is the machine's fault.

    `tick` is called now and then with the CPU seconds that were spent.
    """
    seed = secrets.randbits(60) if rules.seed is None else rules.seed
    world, episodes = warehouse.draw_world(referee.drawn(seed, "world")), referee.drawn(seed, "episodes")
    others = {name: referee.judge(policy, world, episodes) for name, policy in referee.rules(world).items()}
    if not rules.by_clock:
        return _ran(entry, rules, seed, _judged(entry, rules, seed, tick), others)
    before = _judged(read_entry(BASELINE), rules, seed, tick).returns
    judged = _judged(entry, rules, seed, tick)
    after = _judged(read_entry(BASELINE), rules, seed, tick).returns
    spread = abs(float(before.mean() - after.mean()))
    return _ran(entry, rules, seed, judged, others | {"baseline": (before + after) / 2}, spread)


def _judged(entry: Entry, rules: Rules, seed: int, tick: Tick) -> Judged:
    """Have an entry learn in the world of a seed, and judge its policy."""
    world, episodes = referee.drawn(seed, "world"), referee.drawn(seed, "episodes")
    imports = "all" if rules.imports else "plain"
    with (
        Nursery(rules.limits(), isolated=rules.isolated, imports=imports, modules=[INSIDE]) as nursery,
        nursery.sandbox() as sandbox,
    ):
        contestant = Contestant(entry, rules, sandbox, tick, world)
        learned = contestant.learn()
        contestant.be_asked(learned)
        actions: list[np.ndarray] = []

        def decide(observations: np.ndarray) -> np.ndarray:
            actions.append(contestant.decide(observations))
            return actions[-1]

        returns = referee.judge(decide, warehouse.draw_world(world), episodes)
        killed = bool(contestant.strike.victim)
        return Judged(contestant.counted(learned), contestant.watch.how, returns, killed, np.stack(actions))


def _ran(
    entry: Entry, rules: Rules, seed: int, judged: Judged, others: dict[str, np.ndarray], spread: float = 0.0
) -> Ran:
    """Return the run; `others` has what each rule earned in the same episodes."""
    row = Row(
        name=entry.name,
        file=entry.file,
        fingerprint=entry.fingerprint,
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        version=warehouse.VERSION,
        by_clock=rules.by_clock,
        budget=rules.seconds,
        score=referee.score(judged.returns),
        lead=referee.score(judged.returns - others["baseline"]),
        **{name: referee.score(returns) for name, returns in others.items()},
        cpu=judged.learned.cpu,
        wall=judged.learned.wall,
        measured=judged.how,
        seed=seed,
        chosen=rules.seed is not None,
        sandboxed=rules.isolated,
        machine=f"{rules.cores if rules.by_clock else os.cpu_count()} cores, {platform.processor() or platform.machine()}",
        spread=spread,
        killed=judged.killed,
        curve=tuple(judged.learned.curve),
    )
    best = int(judged.returns.argmax())
    return Ran(row, judged.learned.output, (referee.drawn(seed, "episodes") + best, judged.actions[:, best]))
