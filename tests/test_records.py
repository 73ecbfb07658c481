import os
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pytest

from coursekit.judging import wire
from tests.waiting import until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ray():
    from coursekit.ray_bridge.quiet import quiet

    quiet()
    import ray

    ray.init(num_cpus=4, include_dashboard=False)
    yield ray
    ray.shutdown()


@pytest.fixture(scope="module")
def records(ray):
    from coursekit.ray_bridge import records

    return records


@pytest.fixture
def busy_machine():
    """Two loops that keep two cores busy, as nice as Ray's own workers."""
    loops = [subprocess.Popen(["nice", "-n", "15", sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    yield
    for loop in loops:
        loop.kill()
        loop.wait()


@pytest.fixture(scope="module")
def square(ray):
    @ray.remote
    def square(x):
        return x * x

    return square


def names(tasks: list[dict]) -> Counter:
    return Counter((task["name"].rpartition("<locals>.")[2], task["kind"], task["state"]) for task in tasks)


def test_two_thousand_tasks_on_a_busy_machine_are_two_thousand_records(ray, records, square, busy_machine):
    with records.window() as seen:
        ray.get([square.remote(i) for i in range(2000)])
    assert names(seen.tasks(wait=120)) == {("square", "task", "FINISHED"): 2000}


def test_tasks_that_tasks_launched_are_on_record_too_on_a_busy_machine(ray, records, square, busy_machine):
    @ray.remote
    def parent(n):
        return len(ray.get([square.remote(i) for i in range(n)]))

    @ray.remote
    def grandparent(n):
        return sum(ray.get([parent.remote(n) for _ in range(2)]))

    for _ in range(3):  # how the reports of the processes interleave is chance
        with records.window() as seen:
            assert ray.get(grandparent.remote(25)) == 50
        tasks = seen.tasks(wait=120)
        assert names(tasks) == {
            ("square", "task", "FINISHED"): 50,
            ("parent", "task", "FINISHED"): 2,
            ("grandparent", "task", "FINISHED"): 1,
        }
        parents = {task["task_id"] for task in tasks if task["name"].endswith("parent")}
        assert {task["parent_task_id"] for task in tasks if task["name"].endswith("square")} <= parents


def test_a_window_holds_what_was_launched_in_it_and_nothing_else(ray, records, square):
    ray.get([square.remote(i) for i in range(5)])
    with records.window() as seen:
        ray.get([square.remote(i) for i in range(3)])
    ray.get([square.remote(i) for i in range(7)])
    assert len(seen.tasks()) == 3


def test_a_reader_waits_for_the_stamp_of_the_process_that_launched(ray, records, square):
    with records.window() as seen:
        ray.get(square.remote(2))
    launched, begun = records.Launched.so_far(), time.monotonic()
    never = launched._replace(moment=launched.moment + 10**15)
    assert len(records.tasks(seen.since, seen.until, 60, launched)) == 1
    assert time.monotonic() - begun < 30
    begun = time.monotonic()
    assert len(records.tasks(seen.since, seen.until, 4, never)) == 1
    assert time.monotonic() - begun >= 4


def test_references_that_nobody_waited_for_are_waited_for(ray, records):
    @ray.remote
    def sleeps():
        time.sleep(1)

    with records.window() as seen:
        refs = [sleeps.remote() for _ in range(3)]
    assert names(seen.tasks()) == {("sleeps", "task", "FINISHED"): 3}
    del refs


def test_a_task_that_goes_on_is_reported_as_it_is_when_the_wait_is_over(ray, records):
    @ray.remote
    def endless():
        time.sleep(600)

    with records.window() as seen:
        ref = endless.remote()
    until(lambda: [task["state"] for task in records.tasks(seen.since, seen.until, wait=0)] == ["RUNNING"])
    begun = time.monotonic()
    (task,) = seen.tasks(wait=1)
    assert time.monotonic() - begun < 30
    assert (task["state"], task["ended"]) == ("RUNNING", None)
    ray.cancel(ref, force=True)


def test_times_come_in_order_and_lie_in_the_window(ray, records):
    @ray.remote
    def sleeps():
        time.sleep(0.2)

    with records.window() as seen:
        ray.get(sleeps.remote())
    (task,) = seen.tasks()
    assert seen.since <= task["created"] <= task["submitted"] <= task["started"] < task["ended"] <= seen.until
    assert task["ended"] - task["started"] >= 0.2


def test_every_attempt_has_a_record_with_its_error(ray, records):
    @ray.remote(max_retries=1, retry_exceptions=True)
    def fails():
        raise ValueError("no luck")

    with records.window() as seen, pytest.raises(ValueError, match="no luck"):
        ray.get(fails.remote())
    tasks = seen.tasks()
    assert [(task["attempt"], task["state"], task["error"]) for task in tasks] == [
        (0, "FAILED", "TASK_EXECUTION_EXCEPTION"),
        (1, "FAILED", "TASK_EXECUTION_EXCEPTION"),
    ]
    assert "no luck" in tasks[0]["error_message"]
    assert "\x1b" not in tasks[0]["error_message"]


def test_actor_calls_are_told_from_tasks_and_from_the_creation_of_the_actor(ray, records):
    @ray.remote
    class Counter:
        def increment(self):
            return os.getpid()

    with records.window() as seen:
        counter = Counter.remote()
        (pid,) = set(ray.get([counter.increment.remote() for _ in range(3)]))
    tasks = seen.tasks()
    assert names(tasks) == {
        ("Counter.__init__", "actor_creation", "FINISHED"): 1,
        ("Counter.increment", "actor_call", "FINISHED"): 3,
    }
    assert {task["worker_pid"] for task in tasks} == {pid}
    assert {task["actor_id"] for task in tasks} == {counter._actor_id.hex()}


def test_nobody_waits_for_the_report_of_a_worker_that_was_killed(ray, records):
    @ray.remote
    class Counter:
        def increment(self):
            return 1

    with records.window() as seen:
        counter = Counter.remote()
        ray.get(counter.increment.remote())
        ray.kill(counter)
    begun = time.monotonic()
    tasks = seen.tasks(wait=60)
    assert time.monotonic() - begun < 30
    assert len(tasks) == 2


def test_a_call_made_before_the_end_of_the_last_was_noted_is_not_beside_it():
    """What a caller does with a result, and Ray's note that it is there, come in any order."""
    from coursekit.exercises._samplers import overtakes

    last, call = {"actor_id": "a", "ended": 10.0}, {"actor_id": "b", "created": 9.9}
    assert not overtakes(last, call | {"submitted": 10.1})
    assert overtakes(last, call | {"submitted": 9.9})


def test_a_thread_gets_the_same_records(ray, records, square):
    from concurrent.futures import ThreadPoolExecutor

    def count() -> int:
        with records.window() as seen:
            ray.get([square.remote(i) for i in range(4)])
        return len(seen.tasks())

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(count).result() == 4


def test_an_actor_is_alive_then_restarted_then_dead(ray, records):
    @ray.remote(max_restarts=1, num_cpus=1)
    class Fragile:
        def pid(self):
            return os.getpid()

    def record() -> dict:
        return next(each for each in records.actors() if each["name"] == "fragile")

    fragile = Fragile.options(name="fragile").remote()
    pid = ray.get(fragile.pid.remote())
    assert (record()["state"], record()["pid"], record()["restarts"]) == ("ALIVE", pid, 0)
    assert (record()["class_name"].rpartition(".")[2], record()["resources"]) == ("Fragile", {"CPU": 1.0})
    ray.kill(fragile, no_restart=False)
    until(lambda: record()["state"] == "ALIVE" and record()["restarts"] == 1)
    ray.kill(fragile)
    until(lambda: record()["state"] == "DEAD")
    assert record()["death"]


def test_the_node_has_the_cpus_that_ray_was_started_with(records):
    (node,) = records.nodes()
    assert (node["alive"], node["state"], node["head"], node["resources"]["CPU"]) == (True, "ALIVE", True, 4.0)


def test_one_put_is_one_copy_in_the_store_and_passing_it_by_reference_makes_no_other(ray, records):

    @ray.remote
    def total(array):
        return float(array.sum())

    (before,) = records.stores()
    ref = ray.put(np.ones(1_000_000))
    assert ray.get([total.remote(ref) for _ in range(3)]) == [1e6] * 3
    (after,) = records.stores()
    assert 8_000_000 <= after["created_bytes"] - before["created_bytes"] < 8_100_000


def test_a_reference_is_local_and_pinned_while_its_value_is_in_use(ray, records):
    ref = ray.put(np.ones(1_000_000))

    def mine() -> dict:
        (row,) = [each for each in records.objects() if each["object_id"] == ref.hex() and each["role"] == "driver"]
        assert row["size"] >= 8_000_000
        return row

    assert mine()["kind"] == "local"
    value = ray.get(ref)
    assert mine()["kind"] == "pinned"
    del value
    until(lambda: mine()["kind"] == "local")


def test_every_record_is_plain_data(ray, records, square):
    with records.window() as seen:
        ref = square.remote(2)
        ray.get(ref)
    for rows in (seen.tasks(), records.actors(), records.nodes(), records.objects(), records.stores()):
        assert rows
        assert wire.decode(wire.encode(rows)) == rows


def test_without_ray_the_error_says_what_to_call():
    code = "from coursekit.ray_bridge import records\ntry: records.tasks()\nexcept RuntimeError as error: print(error)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "Ray is not running in this process, so there are no records: call `ray.init()` first.\n"
