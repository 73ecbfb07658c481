"""What chapter 5 says of deaths by Ray's own memory monitor; its Ray finds every node too full."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def full_node() -> Iterator[None]:
    import ray

    settings = {"memory_usage_threshold": 0.001, "memory_monitor_refresh_ms": 100}
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, _system_config=settings)
    yield
    ray.shutdown()


@pytest.fixture
def stays(tmp_path):
    """Return a task that notes each of its attempts in a file, then stays."""
    import ray

    def stay(name: str) -> None:
        with open(tmp_path / name, "a") as file:
            file.write("x")
        time.sleep(300)

    return ray.remote(stay)


def attempts(path: Path) -> int:
    return len(path.read_text()) if path.exists() else 0


def test_a_task_without_retries_that_the_memory_monitor_kills_fails_at_once(stays, tmp_path):
    import ray

    with pytest.raises(ray.exceptions.OutOfMemoryError):
        ray.get(stays.options(max_retries=0).remote("once"))
    assert attempts(tmp_path / "once") <= 1


def test_deaths_by_the_memory_monitor_do_not_count_against_max_retries(stays, tmp_path):
    import ray

    ref = stays.options(max_retries=1).remote("again")
    end = time.monotonic() + 240
    while attempts(tmp_path / "again") < 4 and time.monotonic() < end:
        assert not ray.wait([ref], timeout=0.5)[0]
    assert attempts(tmp_path / "again") >= 4
    ray.cancel(ref, force=True)
