"""What chapter 1 hands out, and the probes that drive its answers."""

import os
import time
from collections.abc import Callable
from typing import Any, TypedDict

import numpy as np

from coursekit.ray_bridge import rendezvous


def slow_square(x: float, seconds: float = 0.2) -> float:
    """Return x squared, after a nap that stands for work."""
    time.sleep(seconds)
    return x * x


def points_inside(count: int, seed: int) -> int:
    """Return how many of `count` random points of the unit square lie inside the quarter circle."""
    x, y = np.random.default_rng(seed).random((2, count))
    return int(np.sum(x * x + y * y < 1))


def square(x: int) -> int:
    """Return x squared, at once."""
    return x * x


def meets_another(place: list) -> bool:
    """Return whether another call was running at the same time; `place` is [point, me, other]."""
    point, me, other = place
    return rendezvous.meets(point, me, other)


def first_ends_last(place: list) -> int:
    """Return which of two calls this is, 0 or 1; call 0 ends after call 1. `place` is [point, me]."""
    point, me = place
    if me == 1:
        rendezvous.signal(point, "ended")
    elif rendezvous.wait_for(point, "ended", what="a second call to end"):
        time.sleep(0.4)  # the caller notices the end of the other first
    return me


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
    """Return whether a result has the form of those of `square_once_released`."""
    return isinstance(result, list) and len(result) == 3


class Finished(TypedDict):
    """The results of `first_k`, and whether it waited for a call that it does not need."""

    results: Any
    waited_for_the_rest: bool


def finish_in_order(first_k: Callable, order: list[int], k: int) -> Finished:
    """Return the results of `first_k` for calls that end in a given order; those after the k-th wait for its return."""
    point = rendezvous.new_point()

    def end_in_turn(x: int) -> int:
        turn = order.index(x)
        if turn >= k:
            on_time = rendezvous.wait_for(point, "returned", what="`first_k` to return")
        else:
            on_time = turn == 0 or rendezvous.wait_for(point, f"ended-{turn - 1}", what="another call to end")
            time.sleep(0.4)  # the caller notices each end before the next
        rendezvous.signal(point, f"ended-{turn}" if on_time else "gave-up")
        return x

    results = first_k(end_in_turn, sorted(order), k)
    rendezvous.signal(point, "returned")
    return {"results": results, "waited_for_the_rest": rendezvous.signalled(point, "gave-up")}


class Summed(TypedDict):
    """Whether a reference came back, and behind it the total, the additions in a row, and whether `tree_sum` returned first."""

    reference: bool
    total: Any
    depth: int
    returned_first: bool


def sum_of_tree(tree_sum: Callable, numbers: list[int]) -> Summed:
    """Return the total and the depth of the additions; the first number exists only after `tree_sum` has returned."""
    import ray

    point = rendezvous.new_point()

    @ray.remote
    def late(number: int) -> list:
        return [number, 0, rendezvous.wait_for(point, "returned", what="`tree_sum` to return")]

    def add(a: list, b: list) -> list:
        return [a[0] + b[0], 1 + max(a[1], b[1]), a[2] and b[2]]

    refs = [late.remote(numbers[0]), *(ray.put([number, 0, True]) for number in numbers[1:])]
    given_back = tree_sum(add, refs)
    rendezvous.signal(point, "returned")
    if not isinstance(given_back, ray.ObjectRef):
        return {"reference": False, "total": None, "depth": 0, "returned_first": False}
    total, depth, on_time = ray.get(given_back)
    return {"reference": True, "total": total, "depth": depth, "returned_first": on_time}


class Mixed(TypedDict):
    """The results of calls of which one is long, whether `limit` of them met, and whether others were launched meanwhile."""

    values: list
    full: bool
    kept_moving: bool


def one_long_many_short(bounded_map: Callable, xs: list[int], limit: int) -> Mixed:
    """Return the results for calls of which the first `limit` meet, and the first of all only ends once the last has begun."""
    point = rendezvous.new_point()

    def work(x: int) -> list:
        place = xs.index(x)
        rendezvous.signal(point, str(place))
        full = place >= limit or all(
            rendezvous.wait_for(point, str(other), what=f"{limit} calls to run at the same time")
            for other in range(limit)
        )
        kept_moving = place > 0 or rendezvous.wait_for(point, str(len(xs) - 1), what="the last call to start")
        return [x * x, full, kept_moving]

    results = bounded_map(work, xs, limit)
    return {
        "values": [value for value, _, _ in results],
        "full": all(full for _, full, _ in results),
        "kept_moving": all(moving for _, _, moving in results),
    }
