"""What chapter 12 gives learners, and the probes that drive its answers."""

import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypedDict

from coursekit.basics.progress_bar import progress_bar
from coursekit.given.rllib_configs import built, settings


def flatten(env: Any = None, spaces: Any = None, device: Any = None) -> Any:
    """Return the connector that turns the number of a square, 0 to 15, into a one-hot vector of sixteen numbers."""
    from ray.rllib.connectors.env_to_module import FlattenObservations

    return FlattenObservations()


def who_runs(algo: Any) -> list[dict]:
    """Return one row for each EnvRunner that is alive, the local one first: its process, environments and memory."""
    return algo.env_runner_group.foreach_env_runner(_row)


def _row(runner: Any) -> dict:
    """Return what an EnvRunner reports about itself; runs in the EnvRunner's process."""
    import psutil

    return {
        "EnvRunner": f"remote {runner.worker_index}" if runner.worker_index else "local",
        "process": os.getpid(),
        "environments": runner.num_envs if runner.env is not None else 0,
        "memory (MB)": psutil.Process().memory_info().rss // 2**20,
    }


def side_by_side(algo: Any, runners: int, envs: int, steps: int) -> Callable[[], list]:
    """Return a function that has the first `runners` remote EnvRunners sample `steps` steps in all, and returns their episodes.

    From now on, each of them has `envs` environments.
    """
    chosen = {"remote_worker_ids": list(range(1, runners + 1)), "local_env_runner": False}
    algo.env_runner_group.foreach_env_runner(lambda runner: _hold(runner, envs), **chosen)

    def sample() -> list:
        sampled = algo.env_runner_group.foreach_env_runner(
            lambda runner: runner.sample(num_timesteps=steps // runners), **chosen
        )
        return [episode for episodes in sampled for episode in episodes]

    return sample


def _hold(runner: Any, envs: int) -> None:
    """Give an EnvRunner this number of environments; runs in the EnvRunner's process."""
    runner.config = runner.config.copy(copy_frozen=False).env_runners(num_envs_per_env_runner=envs)
    runner.make_env()
    runner._needs_initial_reset = True


@contextmanager
def bar_of(algos: list, iterations: int) -> Iterator[None]:
    """Show a bar that moves on with each iteration of one of these algorithms, up to `iterations` of each."""
    with progress_bar(len(algos) * iterations, "training both algorithms") as step:
        for algo in algos:
            algo.train = _followed_by(step, algo.train)
        yield


def _followed_by(step: Callable[[], None], train: Callable[[], dict]) -> Callable[[], dict]:
    def train_and_step() -> dict:
        result = train()
        step()
        return result

    return train_and_step


def kill_runner(algo: Any, number: int) -> None:
    """Kill the process of a remote EnvRunner, as the operating system does when memory runs out; returns at once."""
    from coursekit.given.deaths import keep_news_of_deaths

    keep_news_of_deaths()
    # RLlib would report the death, too, but the cell shows it
    logging.getLogger("ray.rllib.utils.actor_manager").setLevel(logging.CRITICAL)
    os.kill(who_runs(algo)[number]["process"], signal.SIGKILL)


# Probes: each drives a learner's object with the judge's inputs, and returns raw results.


def two_configs(unfair: Callable, one: dict, other: dict, compared: list[str]) -> Any:
    """Return what `unfair` returns for two PPO configs that differ in these settings."""
    return unfair(_ppo_with(one), _ppo_with(other), compared)


def two_algorithms(unfair: Callable, first: str, compared: list[str]) -> Any:
    """Return what `unfair` returns for the defaults of PPO and DQN, the `first` of them first."""
    from ray.rllib.algorithms.dqn import DQNConfig
    from ray.rllib.algorithms.ppo import PPOConfig

    pair = [PPOConfig(), DQNConfig()]
    return unfair(*(pair if first == "PPO" else pair[::-1]), compared)


def _ppo_with(settings: dict) -> Any:
    from ray.rllib.algorithms.ppo import PPOConfig

    config = PPOConfig().environment("FrozenLake-v1").env_runners(env_to_module_connector=flatten)
    for name, value in settings.items():
        setattr(config, name, value)
    return config


class Pair(TypedDict):
    """For each of the two configs, its settings or what was returned instead; and the names in which the two differ."""

    configs: list[dict[str, Any]]
    differing: list[str]


def pair_of(fair_pair: Callable, batch: int, names: list[str]) -> Pair:
    """Return the settings under these names in the two configs that `fair_pair` returns, and all in which the two differ."""
    pair = fair_pair(batch)
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        return {"configs": [{"returned": type(pair).__name__}], "differing": []}
    configs = [settings(lambda config=config: config, [], names) for config in pair]
    if any(config["returned"] != "a config" for config in configs):
        return {"configs": configs, "differing": []}
    one, other = (config.to_dict() for config in pair)
    return {"configs": configs, "differing": sorted(n for n in one | other if one.get(n, ...) != other.get(n, ...))}


class SleepingAlgorithm:
    """An algorithm that sleeps where others train, and records when."""

    def __init__(self, name: str, sleeps: list[float], calls: list[tuple[str, float, float]]):
        self.iteration = 0
        self._name, self._sleeps, self._calls = name, sleeps, calls

    def train(self) -> dict:
        """Sleep for one iteration; return a result like RLlib's."""
        begin = time.perf_counter()
        time.sleep(self._sleeps[min(self.iteration, len(self._sleeps) - 1)])
        end = time.perf_counter()
        self.iteration += 1
        self._calls.append((self._name, begin, end))
        return {"training_iteration": self.iteration, "time_this_iter_s": end - begin}

    def stop(self) -> None:
        """Record that this algorithm was stopped."""
        self._calls.append((f"{self._name}.stop", time.perf_counter(), time.perf_counter()))


class Timed(TypedDict):
    """What `time_training` returned, when it started and ended, and each call: the name, start, end."""

    times: Any
    calls: list[tuple[str, float, float]]
    begin: float
    end: float


def time_sleeps(time_training: Callable, sleeps: dict[str, list[float]], iterations: int) -> Timed:
    """Return the times that `time_training` returns for two sleeping algorithms, and what was called when."""
    calls: list[tuple[str, float, float]] = []
    many, single = (SleepingAlgorithm(name, sleeps[name], calls) for name in ("many", "single"))
    begin = time.perf_counter()
    times = time_training(many, single, iterations)
    return {"times": times, "calls": calls, "begin": begin, "end": time.perf_counter()}


class Ran(TypedDict):
    """What `time_training` returned, how long it took, and for each algorithm iterations and environments by EnvRunner."""

    times: dict[str, list[float]]
    seconds: float
    iterations: list[int]
    environments: list[list[int]]


def time_real(time_training: Callable, sizes: dict[str, list[int]], iterations: int) -> Ran:
    """Return the times that `time_training` returns for two of RLlib's own algorithms, and what these have done by then.

    `sizes` says for "many" and "single" how many EnvRunners there are, and how many environments in each.
    """
    with built(_tiny_ppo(*sizes["many"]), _tiny_ppo(*sizes["single"])) as (many, single):
        begin = time.perf_counter()
        times = time_training(many, single, iterations)
        seconds = time.perf_counter() - begin
        return {
            "times": times,
            "seconds": seconds,
            "iterations": [many.iteration, single.iteration],
            "environments": [[row["environments"] for row in who_runs(algo)[1:]] for algo in (many, single)],
        }


def _tiny_ppo(runners: int, environments: int) -> Any:
    """Return PPO with iterations of a fraction of a second: one epoch of 32 steps."""
    from ray.rllib.algorithms.ppo import PPOConfig

    return (
        PPOConfig()
        .environment("FrozenLake-v1")
        .env_runners(num_env_runners=runners, num_envs_per_env_runner=environments, env_to_module_connector=flatten)
        .training(train_batch_size_per_learner=32, minibatch_size=32, num_epochs=1)
        .debugging(seed=0, log_sys_usage=False)
    )
