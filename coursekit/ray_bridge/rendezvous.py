"""Points where processes meet: what proves that tasks ran at the same time, in order, or never, without a clock.

Signals live in Ray's own key-value store, so every task, actor and driver of a cluster sees them. A slow machine delays a
rendezvous and never changes how it ends: each side waits up to 20 seconds for the other.
"""

import contextlib
import json
import sys
import time
import uuid
from typing import Any

from coursekit.basics.readers_language import with_translation
from coursekit.ray_bridge import private

PATIENCE = 20.0
SAID_AFTER = 3.0  # seconds of waiting after which the learner is told what for, updated once a second


def new_point() -> str:
    """Return the name of a new rendezvous point."""
    return uuid.uuid4().hex[:8]


def set_patience(seconds: float) -> None:
    """Let every rendezvous in this Ray give up after this many seconds; tests of wrong answers need not wait for long."""
    _put("patience", str(seconds))


def patience() -> float:
    """Return for how many seconds a rendezvous of this Ray waits before it gives up."""
    return float(_get("patience") or PATIENCE)


def _put(key: str, value: str) -> None:
    private.kv_put(key, value, overwrite=True, namespace="coursekit")


def _get(key: str) -> str | None:
    value = private.kv_get(key, namespace="coursekit")
    return value.decode() if value is not None else None


def signal(point: str, name: str) -> None:
    """Leave a signal that every process can see."""
    _put(f"{point}/{name}", "here")


def signalled(point: str, name: str) -> bool:
    """Return whether the signal is there."""
    return _get(f"{point}/{name}") is not None


def note(point: str, key: object, value: object) -> None:
    """Leave plain data under a key, for the probe that asks."""
    _put(f"{point}/note-{key}", json.dumps(value))


def noted(point: str, key: object) -> Any:
    """Return what was left under a key, None for nothing."""
    text = _get(f"{point}/note-{key}")
    return None if text is None else json.loads(text)


def wait_for(point: str, name: str, unless: str = "", what: str = "another task or actor") -> bool:
    """Return True once the signal is there, False if `unless` comes first or patience ends; the learner is told of `what` after 3 s."""
    begun, limit, next_word = time.monotonic(), patience(), SAID_AFTER
    while (waited := time.monotonic() - begun) < limit:
        if waited > next_word:
            _put("waiting", json.dumps([f"waiting for {what}, up to {limit:.0f} s", time.time()]))
            next_word = waited + 1
        if signalled(point, name):
            return True
        if unless and signalled(point, unless):
            return signalled(point, name)  # it may have come between the two looks
        time.sleep(0.01)
    return False


def waiting() -> str:
    """Return for what some process of this Ray waits at a rendezvous now, "" for nothing."""
    with contextlib.suppress(Exception):  # Ray is ending, or cannot be reached
        if "ray" in sys.modules and sys.modules["ray"].is_initialized() and (found := _get("waiting")):
            text, said = json.loads(found)
            return text if time.time() - said < 3 else ""
    return ""


def meets(point: str, me: int, other: int) -> bool:
    """Return whether the process that calls `meets(point, other, me)` was here at the same time."""
    signal(point, f"in-{me}")
    met = wait_for(point, f"in-{other}", what="a second call to start") and not signalled(point, f"missed-{other}")
    if not met:
        signal(point, f"missed-{me}")
    signal(point, f"out-{me}")
    return met


def expect_ray() -> None:
    """Raise RuntimeError where no Ray runs: many calls would start one of their own, with settings that you did not choose."""
    import ray

    if not ray.is_initialized():
        raise with_translation(RuntimeError("Ray is not running: run the cell with ray.init first."))


def warm_up(workers: int, **options: Any) -> None:
    """Return once this many workers are running: each starts a process, so the first tasks would pay for that.

    `options` are those of the tasks: `num_cpus=0.5` lets twice as many workers as CPUs meet.
    """
    import ray

    expect_ray()
    point = new_point()

    @ray.remote
    def meet_all(me: int) -> None:
        signal(point, str(me))
        for other in range(workers):
            wait_for(point, str(other), what="all workers to start")

    ray.get([meet_all.options(**options).remote(me) for me in range(workers)])
