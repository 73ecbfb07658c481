"""What chapters 0 to 3 say about Ray is true of the Ray that is pinned: each test is one sentence of theirs."""

import asyncio
import multiprocessing
import os
import platform
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import requires
from itertools import pairwise

import numpy as np
import pandas
import pytest
import ray
from ray.util import ActorPool

from coursekit.given.object_store import MB, made, store
from coursekit.ray_bridge import rendezvous
from tests.rays import a_ray

pytestmark = pytest.mark.slow
MILLION = 2**20


@dataclass
class Boxed:
    numbers: np.ndarray


@pytest.fixture(scope="module", autouse=True)
def two_cpus() -> Iterator[None]:
    with a_ray(num_cpus=2, object_store_memory=256 * MB):
        yield


def held_mb(wanted: float) -> float:
    """Return the MB in the store, once they are as many as wanted or have had time to be."""
    end = time.monotonic() + 30
    while round(held := store()["bytes"] / MB) != wanted and time.monotonic() < end:
        time.sleep(0.2)
    return round(held)


def put_by(size: int) -> float:
    """Return the MB that went into the store when a task's result of so many bytes was another task's argument."""
    blank, length = ray.remote(lambda count: bytes(count)), ray.remote(lambda data: len(data))
    with made() as copies:
        assert ray.get(length.remote(blank.remote(size))) == size
    return copies.megabytes


# Chapter 0


def test_the_rllib_extra_brings_gymnasium_but_not_pytorch():
    extra = [
        re.split(r"[<>=!~;\[ ]", line)[0] for line in requires("ray") or [] if re.search(r"extra == .rllib.", line)
    ]
    assert "gymnasium" in extra
    assert "torch" not in extra


@pytest.mark.parametrize("other", [{"ray_version": "2.60.99"}, {"python_version": "3.11.99"}], ids=str)
def test_another_patch_version_of_ray_or_python_cannot_join(other):
    ours = {"ray_version": ray.__version__, "python_version": platform.python_version()}
    ray._private.utils.check_version_info(ours, "here")
    with pytest.raises(RuntimeError, match="Version mismatch"):
        ray._private.utils.check_version_info(ours | other, "here")


def test_a_size_is_refused_if_there_is_a_cluster_to_join():
    joins = os.environ | {"RAY_ADDRESS": ray.get_runtime_context().gcs_address}
    done = subprocess.run(
        [sys.executable, "-c", "import ray; ray.init(num_cpus=4)"], env=joins, capture_output=True, text=True
    )
    assert "ValueError: When connecting to an existing cluster, num_cpus" in done.stderr


def test_a_second_init_in_a_worker_raises_an_error():
    with pytest.raises(RuntimeError, match=r"Maybe you called ray\.init twice"):
        ray.get(ray.remote(lambda: ray.init()).remote())


# Chapter 1


def test_a_result_below_100_kb_travels_with_the_messages_and_not_through_the_store():
    assert put_by(90_000) < 0.01


def test_a_larger_result_goes_through_the_store():
    assert put_by(8 * MB) == pytest.approx(8, rel=0.01)


def test_each_remote_function_is_exported_to_the_gcs_again():
    def exported() -> int:
        keys = ray.experimental.internal_kv._internal_kv_list("RemoteFunction:", namespace="fun")
        return len(keys)

    def here(x: int) -> int:
        return x

    once, before = ray.remote(here), exported()
    ray.get([once.remote(x) for x in range(5)])
    made_once = exported() - before
    ray.get([ray.remote(here).remote(x) for x in range(5)])
    assert (made_once, exported() - before - made_once) == (1, 5)


def test_fetching_a_result_frees_nothing_and_dropping_the_last_reference_does():
    assert held_mb(0) == 0
    ref = ray.remote(lambda: np.ones(MILLION)).remote()
    length = len(ray.get(ref))
    time.sleep(1.5)  # memory is freed at most once a second
    held = held_mb(8)
    del ref
    assert (length, held, held_mb(0)) == (MILLION, 8, 0)


def test_ray_wait_keeps_the_order_of_its_argument():
    point = rendezvous.new_point()
    task = ray.remote(
        lambda name, after: (rendezvous.wait_for(point, after) if after else None, rendezvous.signal(point, name))
    )
    late, early = task.remote("late", "early"), task.remote("early", "")
    ready, _ = ray.wait([late, early], num_returns=2, timeout=60)
    assert ready == [late, early]


def test_a_reference_encodes_its_task_the_job_and_which_result_it_is():
    first, second = ray.remote(lambda: (1, 2)).options(num_returns=2).remote()
    job = ray.get_runtime_context().get_job_id()
    assert (first.hex()[-16:], second.hex()[-16:]) == (f"{job}01000000", f"{job}02000000")
    assert first.hex()[:-8] == first.task_id().hex() == second.hex()[:-8]
    assert str(first) == f"ObjectRef({first.hex()})"


def test_a_remote_function_cannot_be_called_directly():
    with pytest.raises(TypeError, match=r"\.remote"):
        ray.remote(len)([])


@pytest.mark.parametrize("wait", ["sleep", "event", "socket"])
def test_cancelling_does_not_interrupt_a_call_that_blocks(wait):
    assert seconds_until_cancelled(wait) > 2


def test_cancelling_stops_python_code_at_once_and_force_kills_what_blocks():
    assert seconds_until_cancelled("loop") < 60  # the loop has no end of its own
    assert seconds_until_cancelled("long sleep", force=True) < 60


def seconds_until_cancelled(what: str, force: bool = False) -> float:
    """Return how long after `ray.cancel` a running task has ended; those that block do so for four seconds, or an hour."""
    point = rendezvous.new_point()

    def run() -> None:
        threading.Timer(0.5, rendezvous.signal, (point, "running")).start()  # once the main thread loops, or blocks
        if what == "loop":
            while True:
                pass
        if what == "event":
            threading.Event().wait(4)
        elif what == "socket":
            ours, _theirs = socket.socketpair()
            ours.settimeout(4)
            ours.recv(1)
        else:
            time.sleep(4 if what == "sleep" else 3600)

    ref = ray.remote(max_retries=0)(run).remote()
    assert rendezvous.wait_for(point, "running")
    start = time.monotonic()
    ray.cancel(ref, force=force)
    with pytest.raises(ray.exceptions.RayError):
        ray.get(ref)
    return time.monotonic() - start


def test_a_task_that_waits_for_its_children_releases_its_cpu():
    child = ray.remote(lambda: 1)
    parents = [ray.remote(lambda: ray.get(child.remote())).remote() for _ in range(2)]
    assert ray.get(parents, timeout=60) == [1, 1]  # on two CPUs


def test_a_pool_replaces_a_process_that_died_and_waits_for_its_call_forever():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        before = pool.apply(os.getpid)
        lost = pool.map_async(os._exit, [1])
        assert pool.apply(os.getpid) != before
        with pytest.raises(multiprocessing.TimeoutError):
            lost.get(timeout=3)


# Chapter 2


def test_the_limits_of_functions_and_of_the_store_are_those_that_the_chapter_names():
    from ray._private import ray_constants

    assert (ray_constants.FUNCTION_SIZE_WARN_THRESHOLD, ray_constants.FUNCTION_SIZE_ERROR_THRESHOLD) == (10**7, 10**8)
    assert ray_constants.DEFAULT_OBJECT_STORE_MEMORY_PROPORTION == 0.3
    assert ray_constants.MAC_DEGRADED_PERF_MMAP_SIZE_LIMIT == 2 * 2**30


def shares_memory(first: np.ndarray, second: np.ndarray) -> bool:
    return np.shares_memory(first, second)


def test_arrays_arrow_tables_and_numeric_columns_are_read_without_a_copy():
    import pyarrow

    numbers = np.arange(MILLION)
    array, frame = ray.put(numbers), ray.put(pandas.DataFrame({"x": numbers, "y": numbers / 2}))
    table = ray.put(pyarrow.table({"x": numbers}))
    assert shares_memory(ray.get(array), ray.get(array))
    assert shares_memory(ray.get(frame)["y"].to_numpy(), ray.get(frame)["y"].to_numpy())
    assert shares_memory(ray.get(table)["x"].chunk(0).to_numpy(), ray.get(table)["x"].chunk(0).to_numpy())


def test_a_torch_tensor_and_a_list_are_copied_for_each_reader():
    import torch

    tensor = ray.put(torch.ones(MILLION))
    numbers = ray.put([1.0, 2.0])
    assert ray.get(tensor).data_ptr() != ray.get(tensor).data_ptr()
    assert ray.get(numbers) is not ray.get(numbers)


def test_a_variable_of_rays_lets_readers_look_at_a_tensor_in_the_store():
    import subprocess
    import sys

    program = """
import ray, torch
ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
ref = ray.put(torch.ones(1_000_000))
print("the same memory:", ray.get(ref).data_ptr() == ray.get(ref).data_ptr())
"""
    switched = os.environ | {"RAY_ENABLE_ZERO_COPY_TORCH_TENSORS": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=switched, capture_output=True, text=True)
    assert "the same memory: True" in done.stdout, done.stderr[-500:]


def test_ray_finds_references_inside_a_value_keeps_their_objects_and_does_not_fetch_them():
    assert held_mb(0) == 0
    outer = ray.put({"parts": [ray.put(np.ones(MILLION))]})
    time.sleep(1.5)  # memory is freed at most once a second
    held = held_mb(8)
    kinds = ray.get(ray.remote(lambda value: [type(part).__name__ for part in value["parts"]]).remote(outer))
    del outer
    assert (held, kinds, held_mb(0)) == (8, ["ObjectRef"], 0)


def test_a_tensor_made_of_a_view_can_be_written_to_and_changes_the_object(recwarn):
    import torch

    ref = ray.put(np.zeros(MILLION))
    torch.set_warn_always(True)  # it warns once in a process: another test may have had it
    try:
        torch.from_numpy(ray.get(ref))[0] = 5
    finally:
        torch.set_warn_always(False)
    assert ray.get(ref)[0] == 5
    assert any("not writable" in str(warning.message) for warning in recwarn.list)


def test_arrays_inside_a_dict_a_list_or_a_dataclass_are_read_without_a_copy():
    numbers = np.arange(MILLION)
    in_dict, in_list = ray.put({"x": numbers}), ray.put([numbers])
    boxed = ray.put(Boxed(numbers))
    assert shares_memory(ray.get(in_dict)["x"], ray.get(in_dict)["x"])
    assert shares_memory(ray.get(in_list)[0], ray.get(in_list)[0])
    assert shares_memory(ray.get(boxed).numbers, ray.get(boxed).numbers)


def test_an_object_that_a_process_has_a_view_of_is_not_spilled():
    refs = [ray.put(np.ones(MILLION)) for _ in range(4)]
    view = ray.get(refs[1])[:5]
    refs += [ray.put(np.ones(MILLION)) for _ in range(36)]
    end = time.monotonic() + 60
    while sum(spilled := spilled_of(refs)) < 3 and time.monotonic() < end:
        time.sleep(0.2)
    assert (len(view), spilled[:4]) == (5, [True, False, True, True])


def spilled_of(refs: list) -> list[bool]:
    places = ray.experimental.get_object_locations(refs)
    return [places[ref]["did_spill"] for ref in refs]


def taken_from(stream: ray.ObjectRefGenerator) -> list:
    """Return what a stream still has: the number in each block, and the type of the error that ends it."""
    found: list = []
    try:
        found.extend(int(ray.get(ref)[0]) for ref in stream)
    except ray.exceptions.RayError as error:
        found.append(type(error))
    return found


def yield_six(end: str) -> Iterator[np.ndarray]:
    yield from (np.full(MILLION, number) for number in range(6))
    if end == "raise":
        raise ZeroDivisionError
    if end == "die" or not os.path.exists(end):
        if end != "die":
            open(end, "w").close()
        os.kill(os.getpid(), 9)


def streaming(end: str, **options: int) -> ray.ObjectRefGenerator:
    return ray.remote(lambda end: (yield from yield_six(end))).options(**options).remote(end)


def test_what_a_generator_yielded_before_it_raised_still_arrives():
    stream = streaming("raise")
    ray.wait([stream.completed()], timeout=60)
    *blocks, error = taken_from(stream)
    assert blocks == [0, 1, 2, 3, 4, 5]
    assert issubclass(error, ZeroDivisionError)


def test_a_dead_process_takes_the_blocks_along_that_nobody_has_taken():
    stream = streaming("die", max_retries=0)
    first = next(stream)
    assert int(ray.get(first)[0]) == 0
    ray.wait([stream.completed()], timeout=60)
    *blocks, error = taken_from(stream)
    assert len(blocks) < 5  # one may be on its way to the loop already
    assert error is ray.exceptions.WorkerCrashedError
    assert int(ray.get(first)[0]) == 0


def test_ray_runs_a_generator_again_whose_process_died(tmp_path):
    assert taken_from(streaming(str(tmp_path / "once"))) == [0, 1, 2, 3, 4, 5]


def test_a_mac_needs_a_variable_for_a_store_of_more_than_2_gb(monkeypatch, tmp_path):
    from ray._private import services

    monkeypatch.setattr(services.sys, "platform", "darwin")
    monkeypatch.setattr("ray._common.utils.get_system_memory", lambda: 2**40)
    with pytest.raises(ValueError, match="RAY_ENABLE_MAC_LARGE_OBJECT_STORE=1"):
        services.determine_plasma_store_config(3 * 2**30, str(tmp_path))
    monkeypatch.setenv("RAY_ENABLE_MAC_LARGE_OBJECT_STORE", "1")
    assert services.determine_plasma_store_config(3 * 2**30, str(tmp_path))[2] == 3 * 2**30


# Chapter 3


class Diary:
    """Notes each attempt; the first call of all fails."""

    def __init__(self) -> None:
        self.notes: list[int] = []

    def note(self, number: int) -> None:
        self.notes.append(number)
        if len(self.notes) == 1:
            raise ValueError("the first attempt fails")

    def read(self) -> list[int]:
        return self.notes


def test_a_call_that_is_retried_runs_after_calls_that_were_sent_later():
    diary = ray.remote(Diary).options(max_task_retries=1).remote()
    ray.get([diary.note.options(retry_exceptions=True).remote(number) for number in range(3)])
    assert ray.get(diary.read.remote()) == [0, 1, 2, 0]


def test_an_async_actor_runs_up_to_1000_calls_at_once():
    from ray._common.ray_constants import DEFAULT_MAX_CONCURRENCY_ASYNC

    assert DEFAULT_MAX_CONCURRENCY_ASYNC == 1000


@pytest.mark.parametrize(
    ("options", "reserved"),
    [({}, 0), ({"num_cpus": 1}, 1), ({"num_gpus": 0}, 1), ({"resources": {"slot": 0}}, 1), ({"memory": 1_000}, 0)],
)
def test_a_running_actor_reserves_no_cpu_unless_it_names_cpus_gpus_or_a_custom_resource(options, reserved):
    def soon(wanted: float) -> bool:
        end = time.monotonic() + 30
        while (free := ray.available_resources().get("CPU", 0)) != wanted and time.monotonic() < end:
            time.sleep(0.2)
        return free == wanted

    diary = ray.remote(Diary).options(**options).remote()
    ray.get(diary.read.remote())
    assert soon(2 - reserved)
    del diary
    assert soon(2)


class Loop:
    """Notes which call is at which step; between the steps, each awaits something that is there already."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    async def run(self, me: int, kind: str, refs: list) -> None:
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        for _ in range(200):
            self.steps.append(me)
            await (refs[0] if kind == "reference" else done)

    async def changes(self) -> int:
        """Return how often another call went on than the one before."""
        return sum(a != b for a, b in pairwise(self.steps))


@pytest.mark.parametrize(("kind", "mixed"), [("a finished future", False), ("reference", True)])
def test_awaiting_a_finished_future_lets_no_other_call_run_and_awaiting_a_reference_does(kind, mixed):
    loop, ref = ray.remote(Loop).remote(), ray.put(0)
    ray.get([loop.run.remote(me, kind, [ref]) for me in range(3)])
    assert (ray.get(loop.changes.remote()) > 2) == mixed


def test_a_pool_that_maps_in_order_gives_an_actor_its_next_input_only_when_its_result_is_delivered():
    class Late:
        def start(self, point: str, number: int) -> bool:
            rendezvous.signal(point, str(number))
            return number > 0 or rendezvous.wait_for(point, "2")

    rendezvous.set_patience(3)
    actors = [ray.remote(Late).remote() for _ in range(2)]
    found = {}
    for way in ("map", "map_unordered"):
        point = rendezvous.new_point()
        results = getattr(ActorPool(actors), way)(lambda actor, i, point=point: actor.start.remote(point, i), range(3))
        found[way] = all(results)  # whether the third call started while the first was running
    rendezvous.set_patience(rendezvous.PATIENCE)
    assert found == {"map": False, "map_unordered": True}


def test_an_actor_ends_with_its_last_handle_but_not_while_a_function_captures_one():
    from coursekit.ray_bridge.records import actors

    def alive(actor_id: str, wait: float) -> bool:
        end = time.monotonic() + wait
        while (living := any(a["actor_id"] == actor_id and a["state"] == "ALIVE" for a in actors())) and (
            time.monotonic() < end
        ):
            time.sleep(0.2)
        return living

    def read_by_capture(diary: object) -> str:
        ray.get(ray.remote(lambda: ray.get(diary.read.remote())).remote())
        return diary._actor_id.hex()

    diary = ray.remote(Diary)
    captured = read_by_capture(diary.remote())
    handle = diary.remote()
    dropped = handle._actor_id.hex()
    ray.get(handle.read.remote())
    del handle
    assert not alive(dropped, wait=30)
    assert alive(captured, wait=3)
