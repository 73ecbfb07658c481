"""What chapters 4 and 5 say of Ray, held against the Ray that is pinned; the name of each test is the sentence."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from coursekit.ray_bridge import rendezvous
from tests.rays import a_ray
from tests.waiting import until

pytestmark = pytest.mark.slow

CANCELS_TASKS = """
import sys, ray
ray.init(address=sys.argv[1], log_to_driver=False)
task = ray.remote(lambda: None).options(max_retries=0)
for _ in range(300):
    ref = task.remote()
    ray.get(ref)
    ray.cancel(ref, force=True)
"""
KILLS_ACTORS = """
import sys, ray
ray.init(address=sys.argv[1], log_to_driver=False)
actor_class = ray.remote(num_cpus=0)(type("Idle", (), {"call": lambda self: None}))
for _ in range(8):
    actor = actor_class.remote()
    ray.get(actor.call.remote())
    ray.kill(actor)
"""


@pytest.fixture(scope="module", autouse=True)
def address() -> Iterator[str]:
    with a_ray(num_cpus=2):
        yield ray.get_runtime_context().gcs_address


def run(script: str, address: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", script, address], capture_output=True, text=True)


set_by_ray = pytest.mark.skipif("OMP_NUM_THREADS" in os.environ, reason="the variable is set, so Ray leaves it alone")


@set_by_ray
def test_a_worker_gets_omp_num_threads_the_whole_cpus_requested_and_at_least_one():
    threads = ray.remote(lambda: os.environ["OMP_NUM_THREADS"])
    assert [ray.get(threads.options(num_cpus=cpus).remote()) for cpus in (0.5, 1.5, 2)] == ["1", "1", "2"]


@set_by_ray
def test_torch_keeps_the_number_of_threads_of_its_processs_first_task():
    def look() -> tuple:
        import torch

        return os.getpid(), os.environ["OMP_NUM_THREADS"], torch.get_num_threads()

    own = {"env_vars": {"WORKERS_OF_THIS_TEST": "1"}}  # no other test's task has warmed them up
    tasks = [ray.remote(look).options(num_cpus=cpus, runtime_env=own) for cpus in (1, 2)]
    (one, *first), (other, *then) = (ray.get(task.remote()) for task in tasks)
    assert one == other
    assert (first, then) == (["1", 1], ["2", 1])


def test_a_task_that_waits_for_a_future_awaits_or_waits_in_another_thread_releases_no_cpu():
    async def fetched(ref: object) -> None:
        await ref

    @ray.remote(num_cpus=2)
    def waits(how: str, task: object) -> bool:
        ref = task.remote()
        try:
            if how == "future":
                ref.future().result(timeout=3)
            elif how == "await":
                asyncio.run(asyncio.wait_for(fetched(ref), 3))
            elif how == "thread":
                with ThreadPoolExecutor(1) as threads:
                    return threads.submit(ray.wait, [ref], timeout=3).result()[0] == [ref]
            else:
                return ray.wait([ref], timeout=60)[0] == [ref]
        except TimeoutError:
            return False
        return True

    task = ray.remote(lambda: None)
    ways = ("future", "await", "thread", "wait")
    assert [ray.get(waits.remote(how, task)) for how in ways] == [False, False, False, True]


def test_a_task_continues_after_its_wait_even_if_another_task_has_taken_its_cpus():
    point = rendezvous.new_point()

    @ray.remote(num_cpus=2)
    def other() -> bool:
        rendezvous.signal(point, "other runs")
        return rendezvous.wait_for(point, "parent continues")

    @ray.remote(num_cpus=0)
    def awaited() -> bool:
        return rendezvous.wait_for(point, "other runs")

    @ray.remote(num_cpus=2)
    def parent() -> bool:
        came = ray.get(awaited.remote())
        rendezvous.signal(point, "parent continues")
        return came

    assert ray.get([parent.remote(), other.remote()]) == [True, True]


def test_a_fraction_is_cut_off_after_four_decimals_and_not_rounded():
    @ray.remote
    def held() -> float:
        return ray.get_runtime_context().get_assigned_resources()["CPU"]

    assert [ray.get(held.options(num_cpus=cpus).remote()) for cpus in (1 / 3, 2 / 3, 0.99996)] == [
        0.3333,
        0.6666,
        0.9999,
    ]


def test_above_1_gpus_are_whole_and_cpus_may_be_fractions():
    task = ray.remote(lambda: 1)
    assert ray.get(task.options(num_cpus=1.5).remote()) == 1
    with pytest.raises(ValueError, match="whole numbers"):
        task.options(num_gpus=1.5).remote()


def test_an_actor_that_names_a_gpu_count_holds_a_cpu_even_for_0_gpus_and_with_memory_it_holds_none():
    def holds(**options: float) -> float:
        idle = ray.remote(type("Idle", (), {"held": held})).options(**options).remote()
        return ray.get(idle.held.remote())

    def held(self: object) -> float:
        return ray.get_runtime_context().get_assigned_resources().get("CPU", 0)

    assert [holds(), holds(memory=2**20), holds(num_gpus=0), holds(num_gpus=0, num_cpus=0)] == [0, 0, 1, 0]


def test_a_task_without_a_gpu_has_them_hidden_only_on_demand():
    look = ray.remote(lambda: os.environ.get("CUDA_VISIBLE_DEVICES"))
    hide = {"env_vars": {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1"}}
    assert ray.get(look.remote()) == os.environ.get("CUDA_VISIBLE_DEVICES")
    assert ray.get(look.options(runtime_env=hide).remote()) == ""


def test_a_task_launched_inside_a_placement_group_runs_outside_it():
    group = placement_group([{"CPU": 1}])
    ray.get(group.ready())
    inside = ray.remote(lambda: ray.get_runtime_context().get_placement_group_id())
    outer = ray.remote(lambda: (ray.get_runtime_context().get_placement_group_id(), ray.get(inside.remote())))
    own, nested = ray.get(outer.options(scheduling_strategy=PlacementGroupSchedulingStrategy(group)).remote())
    remove_placement_group(group)
    assert (own, nested) == (group.id.hex(), None)


def test_a_label_that_no_node_has_lets_the_task_wait():
    ref = ray.remote(lambda: 1).options(label_selector={"zone": "nowhere"}).remote()
    assert ray.wait([ref], timeout=2)[0] == []
    ray.cancel(ref)


def test_the_tables_of_the_gcs_may_lie_in_rocksdb_on_a_disk():
    import inspect

    from ray._private.node import Node

    assert "rocksdb" in inspect.getsource(Node._is_rocksdb_gcs)


def test_an_actor_that_holds_a_cpu_releases_none_while_it_waits():
    class Waits:
        def wait(self, task):
            return ray.wait([task.remote()], timeout=2)[0] == []

    holder = ray.remote(Waits).options(num_cpus=2).remote()
    assert ray.get(holder.wait.remote(ray.remote(lambda: None)))
    ray.kill(holder)


def test_a_call_that_is_wrong_in_itself_fails_at_remote():
    task = ray.remote(lambda x: x)
    with pytest.raises(TypeError, match="too many positional arguments"):
        task.remote(1, 2)
    with pytest.raises(TypeError, match="Could not serialize"):
        task.remote(letter for letter in "generator")


def test_a_call_to_an_actor_whose_queue_is_full_fails_at_remote():
    class Sleeps:
        def sleep(self):
            time.sleep(60)

    actor = ray.remote(Sleeps).options(num_cpus=0, max_pending_calls=1).remote()
    actor.sleep.remote()
    with pytest.raises(ray.exceptions.PendingCallsLimitExceeded):
        actor.sleep.remote()
    ray.kill(actor)


def test_to_cancel_a_task_at_the_moment_when_it_ends_can_end_the_program(address):
    """Should this fail, Ray has closed the gap: the trap goes from chapter 5."""
    ended = run(CANCELS_TASKS, address)
    assert ended.returncode != 0
    assert "An unexpected system state has occurred" in ended.stderr


def test_to_kill_an_actor_at_the_moment_when_its_call_ends_is_safe(address):
    ended = run(KILLS_ACTORS, address)
    assert ended.returncode == 0, ended.stderr[-2000:]


def test_all_failures_of_a_call_are_a_ray_error_and_only_the_one_that_was_raised_has_a_cause():
    from ray import exceptions

    types = ("RayTaskError", "WorkerCrashedError", "ActorDiedError", "GetTimeoutError", "TaskCancelledError")
    assert all(issubclass(getattr(exceptions, name), exceptions.RayError) for name in types)
    assert exceptions.RayTaskError("f", "", ValueError()).cause is not None
    assert [hasattr(exceptions.ActorDiedError(), "cause"), hasattr(exceptions.GetTimeoutError(), "cause")] == [
        False
    ] * 2


def test_a_running_call_of_an_actor_cannot_be_killed_by_cancel_and_can_look_whether_it_is_canceled(tmp_path):
    began = tmp_path / "began"

    class Waiter:
        def wait(self) -> str:
            began.touch()
            end = time.monotonic() + 60
            while time.monotonic() < end:
                if ray.get_runtime_context().is_canceled():
                    return "looked"
                time.sleep(0.05)
            return "never canceled"

    waiter = ray.remote(num_cpus=0)(Waiter).remote()
    ref = waiter.wait.remote()
    until(began.exists)
    with pytest.raises(ValueError, match="force=True is not supported for actor tasks"):
        ray.cancel(ref, force=True)
    ray.cancel(ref)
    ready, _ = ray.wait([ref], timeout=30)  # long before it would have ended by itself
    assert ready
