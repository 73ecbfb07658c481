"""What chapter 4 hands out, and the probes that drive its answers."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, TypedDict

import numpy as np

from coursekit.given.folders import wait_until
from coursekit.ray_bridge import private, rendezvous


def nap(seconds: float = 0.5) -> str:
    """Sleep, and return the ID of the node on which this ran."""
    import ray

    time.sleep(seconds)
    return ray.get_runtime_context().get_node_id()


def look_at_gpus(seconds: float) -> dict:
    """Sleep, and return the GPUs that Ray has assigned to this task, and its CUDA_VISIBLE_DEVICES."""
    import ray

    time.sleep(seconds)
    return {
        "ray.get_gpu_ids()": ray.get_gpu_ids(),
        "CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "not set"),
    }


class Worker:
    """One of a group of workers that exchange arrays: it makes them, or reads them."""

    def make(self, megabytes: float) -> np.ndarray:
        """Return an array of ones of this size."""
        return np.ones(int(megabytes * 2**20), np.uint8)

    def read(self, array: np.ndarray) -> int:
        """Return the sum of one number from every page of an array, so that each page has to be there."""
        return int(array[::4096].sum())

    def node(self) -> str:
        """Return the ID of this worker's node."""
        import ray

        return ray.get_runtime_context().get_node_id()


Member = Worker  # its name in notebooks of version 0.2


def most_at_once(run: Any) -> int:
    """Return the largest number of tasks of a recorded block that ran at the same time."""
    tasks = [task for task in run.tasks() if task["started"] and task["ended"]]
    return max(sum(other["started"] <= task["started"] < other["ended"] for other in tasks) for task in tasks)


def pass_arrays(maker: Any, reader: Any, megabytes: float, repeats: int) -> list[float]:
    """Return how many seconds a reader took to get and read an array that a maker had just made, for each of several arrays."""
    import ray

    times = []
    for repeat in range(repeats + 2):
        array = maker.make.remote(megabytes)
        ray.wait([array], fetch_local=False)  # it has been made, and sent nowhere
        start = time.perf_counter()
        ray.get(reader.read.remote(array))
        if repeat >= 2:  # the first ones open the connection between the nodes
            times.append(time.perf_counter() - start)
    return times


# Probes: each drives a learner's object with the judge's inputs, and returns raw results.


class Placed(TypedDict):
    """Whether a Ray is running, what `fits` said of its nodes, and which of the living ones took a task."""

    running: bool
    said: list[str]
    taken: dict[str, bool]


def where_ray_runs_it(fits: Callable, request: dict) -> Placed:
    """Return what `fits` says of the living cluster, and which nodes took a task with this request."""
    import ray

    if not ray.is_initialized():
        return {"running": False, "said": [], "taken": {}}
    rows = ray.nodes()
    said = fits(rows, dict(request))
    taken = {row["NodeID"]: _takes(row["NodeID"], dict(request)) for row in rows if row["Alive"]}
    return {"running": True, "said": said, "taken": taken}


def _takes(node_id: str, request: dict) -> bool:
    """Return whether a node ran a task with this request; Ray refuses at once what the node could never run."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    there = NodeAffinitySchedulingStrategy(node_id, soft=False)
    task = ray.remote(lambda: ray.get_runtime_context().get_node_id())
    cpus = request.pop("CPU", 0)
    try:
        ref = task.options(num_cpus=cpus, resources=request, scheduling_strategy=there).remote()
        return bool(ray.get(ref, timeout=120) == node_id)
    except ray.exceptions.TaskUnschedulableError:
        return False


class Evaluated(TypedDict):
    """Whether the call ended, its sums, for how many groups, the states of what was stuck, and a note of each simulation.

    A note is (task, licenses held, whether the first two teams met); None where the input was not simulated.
    """

    ended: bool
    value: Any
    groups: int
    stuck: list[str]
    simulated: dict[int, tuple[str | None, float, bool] | None]


def evaluate_teams(no_deadlock: Callable, groups: list[list[int]], offset: int) -> Evaluated:
    """Return the sums for one group more than there are CPUs, what each simulation held, and what was stuck.

    The first input of the first group waits until the second group is being simulated too.
    """
    import ray

    from coursekit.given.nodes import unfinished

    point, since = rendezvous.new_point(), time.time()
    groups = groups[: int(ray.cluster_resources()["CPU"]) + 1]
    first, second = groups[0][0], groups[1][0]

    def simulate(x: int) -> int:
        context = ray.get_runtime_context()
        rendezvous.signal(point, f"in-{x}")
        met = x != first or rendezvous.wait_for(point, f"in-{second}", what="a second team to start a simulation")
        time.sleep(0.05)
        rendezvous.note(point, x, [context.get_task_id(), context.get_assigned_resources().get("license", 0), met])
        return x * x + offset

    call = _calling(no_deadlock, simulate, groups)
    ended = _until(call.done, since)
    stuck = [task["state"] for task in unfinished(since)]
    _stop(since)
    return {
        "ended": ended,
        "value": call.result() if ended else None,
        "groups": len(groups),
        "stuck": stuck,
        "simulated": {x: rendezvous.noted(point, x) for group in groups for x in group},
    }


class Shared(TypedDict):
    """How many GPUs there are, whether the call ended, what came back, and a note of each task, the learner's first.

    A note is (GPUs held, CPUs held, whether all met, task); None where the task did not run.
    """

    gpus: float
    ended: bool
    value: Any
    notes: list[tuple[float, float, bool, str | None] | None]


def share_two_gpus(learn_and_play: Callable, samplers: int, offset: int) -> Shared:
    """Return what came back, and what each task held while all were at work."""
    import ray

    nodes = [row["Resources"].get("GPU", 0) for row in ray.nodes() if row["Alive"]]
    if max(nodes, default=0) != 2:
        return {"gpus": sum(nodes), "ended": False, "value": None, "notes": []}
    point, since, driver = rendezvous.new_point(), time.time(), os.getpid()
    both_gpus = ray.remote(num_gpus=2, num_cpus=0)(lambda: None)
    ray.wait(
        [both_gpus.remote()], timeout=rendezvous.patience()
    )  # beside what is still held, shares would land on both

    def work(me: int) -> int:
        if os.getpid() == driver:  # not in a task: it holds nothing
            rendezvous.note(point, me, [0, 0, False, "here"])
            return me * me + offset
        context = ray.get_runtime_context()
        held = context.get_assigned_resources()
        rendezvous.signal(point, f"in-{me}")
        met = all(
            rendezvous.wait_for(point, f"in-{other}", "missed", "the learner and all samplers to run at the same time")
            for other in range(samplers + 1)
        )
        if not met:
            rendezvous.signal(point, "missed")
        where = context.get_task_id() or context.get_actor_id()
        rendezvous.note(point, me, [held.get("GPU", 0), held.get("CPU", 0), met, where])
        return me * me + offset

    call = _calling(learn_and_play, lambda: work(0), lambda number: work(number + 1), samplers)
    ended = _until(call.done, since)
    _stop(since)
    notes = [rendezvous.noted(point, me) for me in range(samplers + 1)]
    return {"gpus": 2, "ended": ended, "value": call.result() if ended else None, "notes": notes}


class Spread(TypedDict):
    """Whether the call ended or a task could not be placed, the results, the nodes, and on which of them each call ran."""

    ended: bool
    unschedulable: bool
    value: Any
    nodes: list[str]
    ran: dict[int, str | None]
    kept_moving: bool


def one_node_is_busy(spread_over_nodes: Callable, xs: list[int], which: int) -> Spread:
    """Return the results, and where each call ran, while one node is full until the other nodes have done their part."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    point, since = rendezvous.new_point(), time.time()
    nodes = {row["NodeID"]: row["Resources"].get("CPU", 0) for row in ray.nodes() if row["Alive"]}
    busy = sorted(nodes)[which % len(nodes)]
    there = NodeAffinitySchedulingStrategy(busy, soft=False)
    hold = ray.remote(_hold).options(num_cpus=nodes[busy], scheduling_strategy=there)
    holding = hold.remote(point, 0)

    def work(x: int) -> int:
        rendezvous.note(point, x, ray.get_runtime_context().get_node_id())
        return x * x

    others = len(xs) - len(xs) // len(nodes)
    try:
        rendezvous.wait_for(point, "holds-0", what="the check's own task to start on one of the nodes")
        call = _calling(spread_over_nodes, work, xs)
        kept_moving = _until(
            lambda: call.done() or sum(rendezvous.noted(point, x) is not None for x in xs) >= others, since
        )
    finally:
        rendezvous.signal(point, "let go")
    ray.wait([holding], timeout=5)
    ended = _until(call.done, since)
    _stop(since)
    unschedulable = ended and isinstance(call.exception(), ray.exceptions.TaskUnschedulableError)
    return {
        "ended": ended,
        "unschedulable": unschedulable,
        "value": call.result() if ended and not unschedulable else None,
        "nodes": sorted(nodes),
        "ran": {x: rendezvous.noted(point, x) for x in xs},
        "kept_moving": kept_moving,
    }


class Gang(TypedDict):
    """Whether the call ended, what came back, whether a group is left, and what its members and its groups were.

    A member is (whether all met, its group, CPUs held); None where it did not run. A group is (state, strategy, bundles).
    """

    ended: bool
    value: Any
    left: bool
    members: list[tuple[bool, str | None, float] | None]
    raised: bool
    groups: list[tuple[str, str, list[dict[str, float]]]]


def gang_of(gang: Callable, size: int, offset: int, failing: int) -> Gang:
    """Return what came of a gang; member `failing` raises, -1 for none."""
    import ray

    _stop(time.time())  # a group that an attempt before has left would hold what this one needs
    point, since, before = rendezvous.new_point(), time.time(), set(_groups())

    def member(rank: int) -> int:
        rendezvous.signal(point, f"rank-{rank}")
        met = all(
            rendezvous.wait_for(point, f"rank-{other}", "missed", "all ranks to run at the same time")
            for other in range(size)
        )
        rendezvous.signal(point, "all met" if met else "missed")
        context = ray.get_runtime_context()
        cpus = context.get_assigned_resources().get("CPU", 0)
        rendezvous.note(point, rank, [met, context.get_placement_group_id(), cpus])
        if rank == failing:
            for other in set(range(size)) - {
                rank
            }:  # if one still ran, it would die with the group, and Ray would report it
                rendezvous.wait_for(point, f"done-{other}", "missed", "the other ranks to end")
            raise ValueError("This member fails.")
        rendezvous.signal(point, f"done-{rank}")
        return rank * rank + offset

    call = _calling(gang, member, size)
    ended = _until(call.done, since)
    gone = wait_until(
        lambda: {row["state"] for row in _groups(before).values()} <= {"REMOVED"}, rendezvous.patience() / 4
    )
    groups = _groups(before).values()
    _stop(since)
    return {
        "ended": ended,
        "value": call.result() if ended and failing < 0 else None,
        "left": not gone,
        "members": [rendezvous.noted(point, rank) for rank in range(size)],
        "raised": ended and call.exception() is not None,
        "groups": [(row["state"], row["strategy"], list(row["bundles"].values())) for row in groups],
    }


# What the probes share.


def _calling(function: Callable, *args: object) -> Future:
    """Return what will come of a call that may never return: it runs in a thread of its own."""
    future: Future = Future()

    def run() -> None:
        try:
            future.set_result(function(*args))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def _until(done: Callable[[], bool], since: float) -> bool:
    """Return True once `done()`, False when no task and no worker has changed its state for as long as a rendezvous is patient."""
    last, seen = time.monotonic(), None
    while not done():
        if (now := _activity(since)) != seen:
            last, seen = time.monotonic(), now
        if time.monotonic() - last > 1.5 * rendezvous.patience():  # calls that meet each other give up sooner
            return done()
        time.sleep(0.1)
    return True


def _activity(since: float) -> tuple[int, int]:
    """Return numbers that change whenever a task changes its state or a worker process comes or goes."""
    state = private.state

    from coursekit.ray_bridge import record_rows as rows
    from coursekit.ray_bridge import records

    events = [event for event in state._get_all_task_events() if rows.created(event) >= since]
    living = sum(worker["alive"] for worker in records._workers(state).values())
    return sum(len(event.state_updates.state_ts_ns) for event in events), living


def _groups(before: Iterable[str] = ()) -> dict[str, dict]:
    """Return the placement groups that were made since, by id."""
    from ray.util.placement_group import placement_group_table

    return {key: row for key, row in placement_group_table().items() if key not in before}


def _stop(since: float) -> None:
    """End whatever a wrong answer has left: placement groups, and what began after `since` and waits forever."""
    import ray

    global_worker = private.global_worker
    from ray.util.placement_group import PlacementGroup, remove_placement_group

    from coursekit.given.nodes import unfinished
    from coursekit.ray_bridge import records

    for key in _groups():
        remove_placement_group(PlacementGroup(ray.PlacementGroupID(bytes.fromhex(key))))
    for actor in records.actors():
        if actor["state"] != "DEAD" and (actor["started"] or since) >= since:
            with contextlib.suppress(Exception):  # it has ended meanwhile
                global_worker.core_worker.kill_actor(ray.ActorID(bytes.fromhex(actor["actor_id"])), True)
    for force in (False, True):
        for task in unfinished(since):
            if task["kind"] == "actor_creation":  # killed above; to cancel it would end this process: Ray aborts
                continue
            ref = ray.ObjectRef(bytes.fromhex(task["task_id"]) + (1).to_bytes(4, "little"))
            with contextlib.suppress(Exception):  # another task owns it and ends it, or it is a call to an actor
                ray.cancel(ref, force=force, recursive=True)
        wait_until(lambda: not unfinished(since), min(5.0, rendezvous.patience()))


def _hold(point: str, number: int) -> None:
    """Keep a CPU until told to let go."""
    rendezvous.signal(point, f"holds-{number}")
    while not rendezvous.wait_for(point, "let go", what="your other calls to run"):
        pass
