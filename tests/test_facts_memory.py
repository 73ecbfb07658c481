"""What chapter 5 says of deaths by Ray's own memory monitor; its Ray finds every node too full."""

import time
from collections.abc import Iterator

import pytest
import ray

from tests.rays import a_ray

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def full_node() -> Iterator[None]:
    settings = {
        "memory_usage_threshold": 0.001,
        "memory_monitor_refresh_ms": 100,
        "task_oom_retry_delay_base_ms": 0,  # 1 s by default, twice as long after each death
    }
    with a_ray(num_cpus=2, _system_config=settings):
        yield


def stay() -> None:
    time.sleep(300)


def test_a_task_without_retries_that_the_memory_monitor_kills_fails_at_once():
    with pytest.raises(ray.exceptions.OutOfMemoryError):
        ray.get(ray.remote(stay).options(max_retries=0).remote(), timeout=240)


def test_deaths_by_the_memory_monitor_do_not_count_against_max_retries(capsys):
    ref = ray.remote(stay).options(max_retries=1).remote()
    deaths = 0  # as Ray reports them: a task may die before its function's first line
    end = time.monotonic() + 240
    while deaths < 4 and time.monotonic() < end:
        assert not ray.wait([ref], timeout=0.5)[0]
        deaths += capsys.readouterr().out.count("Task stay failed due to oom")
    assert deaths >= 4
    ray.cancel(ref, force=True)
