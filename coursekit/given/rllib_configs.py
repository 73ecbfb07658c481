"""What chapters 11 to 13 share about configs of RLlib: algorithms that are stopped when they should, and probes of a config."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypedDict

from coursekit.ray_bridge.rendezvous import expect_ray


@contextmanager
def built(*configs: Any) -> Iterator[list]:
    """Yield one algorithm for each config; they are stopped when the block ends, also when it ends with an error."""
    import torch

    expect_ray()  # RLlib would start one in a thread of the pool, and on Linux it would end with that thread
    torch.set_num_threads(1)  # a tiny network gains nothing from more, and the runners need the other cores
    with ThreadPoolExecutor() as pool:  # all at once: most of a build is waiting for other processes to start
        builds = [pool.submit(config.build_algo) for config in configs]
    try:
        yield [build.result() for build in builds]
    finally:
        for build in builds:
            if not build.exception():
                build.result().stop()


@contextmanager
def quietly_built(make_config: Callable, arguments: tuple) -> Iterator[Any]:
    """Yield the algorithm of a learner's config, without RLlib's monitor of the machine, which stops slowly."""
    config = make_config(*arguments).copy(copy_frozen=False)
    with built(config.debugging(log_sys_usage=False)) as [algo]:
        yield algo


# Probes: each drives a learner's object with the judge's inputs, and returns raw results.


class Facts(TypedDict):
    """The process of an EnvRunner, and its environments; `lengths` has None for each that is no corridor."""

    pid: int
    environments: list[str]
    lengths: list[float | None]


def settings(make_config: Callable, arguments: list, names: list[str]) -> dict[str, Any]:
    """Return what a config says under these names, without building it."""
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

    config = make_config(*arguments)
    if not isinstance(config, AlgorithmConfig):
        getattr(config, "stop", lambda: None)()  # an algorithm that was built by mistake
        return {"returned": type(config).__name__}
    algorithm, layers = config.algo_class.__name__, dict(config.model_config).get("fcnet_hiddens") or []
    said = {"returned": "a config", "algorithm": algorithm, "hidden layers": list(layers)}
    return {name: getattr(config, name) for name in names if name not in said} | said


def facts(runner: Any) -> Facts:
    """Return the process of an EnvRunner, and its environments with the lengths of corridors; runs in its own process."""
    # An exception in here would end the runner, after a minute's pause: ask only for what every environment has.
    envs = runner.env.unwrapped.envs
    return {
        "pid": os.getpid(),
        "environments": [env.spec.id for env in envs],
        "lengths": [getattr(env.unwrapped, "length", None) for env in envs],
    }
