"""What chapter 1 hands out, and the probes that drive its answers."""

import os
import reprlib
import time
from collections.abc import Callable
from typing import Any, TypedDict

import numpy as np

from coursekit.ray_bridge import rendezvous


def slow_square(x: float, seconds: float = 0.2) -> float:
    """Return x squared, after a sleep that stands for work."""
    time.sleep(seconds)
    return x * x


def points_inside(count: int, seed: int) -> int:
    """Return how many of `count` random points of the unit square lie inside the quarter circle."""
    x, y = np.random.default_rng(seed).random((2, count))
    return int(np.sum(x * x + y * y < 1))


def square(x: int) -> int:
    """Return x squared, at once."""
    return x * x


def meets(place: list) -> list:
    """Return x, and how many of the calls `others` started while this one waited for them; `place` is [point, me, x, others]."""
    point, me, x, others = place
    rendezvous.signal(point, str(me))
    for met, other in enumerate(others):
        if not rendezvous.wait_for(point, str(other), what="another call to start"):
            return [x, met]
    if others and me == 0:
        time.sleep(0.4)  # the caller notices first that the others have ended
    return [x, len(others)]


# Probes: each drives a learner's object with the judge's inputs, and returns raw results.


class Launched(TypedDict):
    """What came back for a launch: its type, whether it is a reference, and what the check's function noted if it ran."""

    type: str
    reference: bool
    ran: bool
    value: Any
    released: bool
    pids: tuple[int, int]


def launch(as_task: Callable, x: int) -> Launched:
    """Return what `as_task` gave back for a function that only ends after `as_task` has returned."""
    import ray

    point, here = rendezvous.new_point(), os.getpid()

    def square_once_released(number: int) -> list:
        in_a_task = os.getpid() != here  # nothing to wait for in the process that is to return
        return [
            number * number,
            in_a_task and rendezvous.wait_for(point, "returned", what="`as_task` to return"),
            os.getpid(),
        ]

    given_back = as_task(square_once_released, x)
    rendezvous.signal(point, "returned")
    reference = isinstance(given_back, ray.ObjectRef)
    result = ray.get(given_back) if reference else given_back
    ran = _is_ours(result)
    value, waited, pid = result if ran else (None, False, here)
    return {
        "type": type(given_back).__name__,
        "reference": reference,
        "ran": ran,
        "value": value,
        "released": waited,
        "pids": (here, pid),
    }


def _is_ours(result: object) -> bool:
    """Return whether a result has the form of those that the functions of these probes return."""
    return isinstance(result, list) and len(result) == 3


class Finished(TypedDict):
    """The results of `first_k`, whether all calls ran at once, and what became of the one that it doesn't need."""

    results: Any
    overlapped: bool
    waited_for_the_rest: bool
    left_running: bool


def finish_in_order(first_k: Callable, order: list[int], k: int) -> Finished:
    """Return the results of `first_k` for calls that end in a given order; those after the k-th wait for its return."""
    point, last = rendezvous.new_point(), f"ended-{len(order) - 1}"

    def end_in_order(x: int) -> int:
        place = order.index(x)
        first, needed = place == 0, place < k
        before, what = (f"ended-{place - 1}", "another call to end") if needed else ("returned", "`first_k` to return")
        try:
            on_time = first or rendezvous.wait_for(point, before, unless="alone", what=what)
            # The caller notices each end before the next; a cancellation arrives.
            time.sleep(0 if first else 0.4 if needed else 0.5)
        except KeyboardInterrupt:
            rendezvous.signal(point, "cancelled")
            raise
        rendezvous.signal(point, f"ended-{place}" if on_time else "alone" if needed else "gave-up")
        return x

    results = first_k(end_in_order, sorted(order), k)
    rendezvous.signal(point, "returned")
    alone, gave_up = rendezvous.signalled(point, "alone"), rendezvous.signalled(point, "gave-up")
    return {
        "results": results,
        "overlapped": not alone,
        "waited_for_the_rest": gave_up,
        "left_running": not (alone or gave_up)
        and rendezvous.wait_for(point, last, unless="cancelled", what="the last call to end"),
    }


class Summed(TypedDict):
    """What `tree_sum` gave back, and behind a reference the total, the additions in a row, and whether `tree_sum` returned first.

    `stranger` is what `add` received that is neither a value nor a sum, as text, "" for nothing.
    """

    type: str
    total: Any
    depth: int
    returned_first: bool
    stranger: str


def sum_of_tree(tree_sum: Callable, numbers: list[int]) -> Summed:
    """Return the total and the depth of the additions; the first number exists only after `tree_sum` has returned."""
    import ray

    point = rendezvous.new_point()

    @ray.remote
    def late(number: int) -> list:
        return [number, 0, rendezvous.wait_for(point, "returned", what="`tree_sum` to return")]

    def add(a: list, b: list) -> list | dict:
        for each in (a, b):
            if isinstance(each, dict):  # passed on to the total
                return each
            if not _is_ours(each):
                return {"stranger": reprlib.repr(each)}
        return [a[0] + b[0], 1 + max(a[1], b[1]), a[2] and b[2]]

    refs = [late.remote(numbers[0]), *(ray.put([number, 0, True]) for number in numbers[1:])]
    given_back = tree_sum(add, refs)
    rendezvous.signal(point, "returned")
    if not isinstance(given_back, ray.ObjectRef):
        kind = "the total" if _is_ours(given_back) else type(given_back).__name__
        return {"type": kind, "total": None, "depth": 0, "returned_first": False, "stranger": ""}
    result = ray.get(given_back)
    stranger = result["stranger"] if isinstance(result, dict) else ""
    total, depth, on_time = (None, 0, True) if stranger else result
    return {"type": "ObjectRef", "total": total, "depth": depth, "returned_first": on_time, "stranger": stranger}
