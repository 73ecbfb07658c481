"""What a submission can claim: it starts no task and no actor, forges what its own process reports, and has the points.

Each of these exercises stands in docs/what_grading_proves.md among those for which there is no other evidence.
"""

import ast
import asyncio
import inspect
import math
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from coursekit.author.listings import CLAIMED, probed
from coursekit.basics.paths import ROOT
from coursekit.given import ch02_objects
from coursekit.judging.answer import Answer, serve
from coursekit.judging.exercise import find, judge, load
from coursekit.ray_bridge import records, rendezvous
from tests.chapters import CHAPTERS

pytestmark = pytest.mark.slow  # each waits as long as the tasks that it forges
ROWS: dict[str, list] = {}  # Ray's records, which idle tasks and actors would leave behind
MY_ACTOR = {"actor_id": "1", "pid": os.getpid()}
CREATION = {"kind": "actor_creation", "actor_id": "1", "task_id": "0", "parent_task_id": "", "created": 0, "ended": 1}


def idle_tasks(count: int, apart: float) -> list[dict]:
    """Return records of tasks of one second each, which begin this many seconds apart."""
    return [
        {"kind": "task", "task_id": str(n), "parent_task_id": "", "created": n * apart, "ended": n * apart + 1}
        for n in range(count)
    ]


def parallel_map(function: Callable, xs: list) -> list:
    ROWS["tasks"] = idle_tasks(len(xs), 2)
    return [function(x) for x in xs]


def batched(function: Callable, xs: list, size: int) -> list:
    ROWS["tasks"] = idle_tasks(math.ceil(len(xs) / size), 2)
    return [function(x) for x in xs]


def bounded_map(function: Callable, xs: list, limit: int) -> list:
    ROWS["tasks"] = idle_tasks(len(xs), 2)
    return [function(x) for x in xs]


def share_once(function: Callable, array: np.ndarray, xs: list) -> list:
    ROWS.update(tasks=idle_tasks(len(xs), 2), stores=[{"created_bytes": array.nbytes}])
    return [function(array, x) for x in xs]


def count_up(kind: type, amounts: list) -> list:
    ROWS.update(tasks=[CREATION], actors=[MY_ACTOR])
    one = kind()
    results = [one.add(amount) for amount in amounts]
    return [asyncio.run(result) if inspect.iscoroutine(result) else result for result in results]


def bank(pay_in: Callable, balance: list, amounts: list) -> list:
    ROWS.update(tasks=[CREATION, *idle_tasks(len(amounts), 0.5)], actors=[MY_ACTOR])
    for amount in amounts:
        balance = pay_in(balance, amount)
    return balance


def async_sgd(gradient: Callable, weights: np.ndarray, shards: list, steps: int, rate: float) -> np.ndarray:
    for _ in range(steps):
        for shard in shards:
            weights = weights - rate * gradient(weights, shard)
    return weights


FORGED = {
    "ch01_tasks": [parallel_map, batched, bounded_map],
    "ch02_objects": [share_once],
    "ch03_actors": [count_up, bank, async_sgd],
}
ALL = [pytest.param(chapter, answer, id=answer.__name__) for chapter, answers in FORGED.items() for answer in answers]


@pytest.fixture(autouse=True)
def no_ray(monkeypatch) -> None:
    """Have signals lie in this process, as if there were a Ray, and nothing on record."""
    signals: dict[str, str] = {}
    monkeypatch.setattr(rendezvous, "_put", signals.__setitem__)
    monkeypatch.setattr(rendezvous, "_get", signals.get)
    monkeypatch.setattr(
        rendezvous, "wait_for", lambda point, name, unless="", what="": rendezvous.signalled(point, name)
    )
    monkeypatch.setattr(rendezvous, "warm_up", lambda workers, **options: None)
    monkeypatch.setattr(records, "objects", lambda: [])
    monkeypatch.setattr(ch02_objects, "_kept", lambda ids: [])
    ROWS.clear()


def status(chapter: str, answer: Any, read: Callable) -> str:
    name = answer.__name__
    return judge(
        find(chapter, name, "exercise"), Answer(name, partial(serve, {name: answer}, name), read), 20_26
    ).status


@pytest.mark.parametrize(("chapter", "answer"), ALL)
def test_who_starts_nothing_passes_with_forged_evidence_and_the_guide_names_the_exercise(chapter, answer, monkeypatch):
    monkeypatch.setattr(rendezvous, "wait_for", lambda *place, **more: True)
    assert status(chapter, answer, lambda operation, **window: ROWS.get(operation, [])) == "passed"
    assert answer.__name__ in CLAIMED[chapter]


@pytest.mark.parametrize(("chapter", "answer"), ALL)
def test_who_starts_nothing_and_forges_nothing_does_not_pass(chapter, answer):
    assert status(chapter, answer, lambda operation, **window: []) in ("wrong", "crashed")


def test_what_the_guide_names_beside_the_probes_was_tried_here():
    assert {chapter: [each.__name__ for each in answers] for chapter, answers in FORGED.items()} == CLAIMED
    for chapter, names in CLAIMED.items():
        assert set(names).isdisjoint(probed(ROOT / f"coursekit/exercises/{chapter}.py"))


def names_used(functions: dict[str, ast.FunctionDef], name: str, seen: set[str]) -> set[str]:
    """Return all names in a function of a module, and in those of its functions that it uses."""
    seen.add(name)
    nodes = list(ast.walk(functions[name]))
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    used |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return used.union(*(names_used(functions, other, seen) for other in used & functions.keys() - seen))


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_no_other_check_takes_from_the_learners_process_that_calls_met_or_were_tasks(chapter):
    path = ROOT / f"coursekit/exercises/{chapter}.py"
    functions = {node.name: node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}
    listed = CLAIMED.get(chapter, []) + probed(path)
    others = [name for name, item in load(chapter).items() if item.kind == "exercise" and name not in listed]
    assert [name for name in others if {"watch", "rendezvous"} & names_used(functions, name, set())] == []
