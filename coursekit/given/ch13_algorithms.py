"""What chapter 13 hands out, and the probes that drive its answers."""

import math
import os
import time
from collections.abc import Callable
from typing import Any, TypedDict

import numpy as np

from coursekit.given.rllib_configs import Facts, built, facts, quietly_built

CORRIDOR = "coursekit.given.environments:SimpleCorridor-v0"  # ten squares, the exit at the last; Chapter 7 wrote it


def learner_pids(group: Any) -> list[int]:
    """Return the process of each learner of a LearnerGroup."""
    return [found.get() for found in group.foreach_learner(lambda learner: os.getpid())]


# Probes: each drives a learner's object with the judge's inputs, and returns raw results.


class Iteration(TypedDict):
    """What one iteration of a short training run was; steps and learned steps are those since the build."""

    steps: int
    learned: int
    episodes: int
    mean: float


class ShortRun(Facts):
    """A short training run, iteration by iteration, and what its network earns without exploring."""

    rows: list[Iteration]
    best: float


def train_dqn(make_config: Callable, length: int, steps: int, seeds: list[int]) -> ShortRun:
    """Return what a short training run was, iteration by iteration, and what its network then earns without exploring.

    It takes the first of the seeds with which the network does not know the way before it has learned anything.
    """
    for seed in seeds:
        config = make_config(length, steps).copy(copy_frozen=False)
        config.reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=50)
        with built(config.debugging(seed=seed, log_sys_usage=False)) as [algo]:
            if _best_return(algo.get_module(), length) > -5:
                continue
            algo.local_replay_buffer.rng = np.random.default_rng(seed)  # its own generator has no seed in Ray 2.60
            rows: list[Iteration] = []
            while not rows or rows[-1]["steps"] < steps:
                result = algo.train()
                seen = result["env_runners"]
                rows.append(
                    {
                        "steps": int(result["num_env_steps_sampled_lifetime"]),
                        "learned": _peek(algo, "num_module_steps_trained_lifetime"),
                        "episodes": int(seen.get("num_episodes", 0)),
                        "mean": float(seen.get("episode_return_mean", math.nan)),
                    }
                )
            return {**facts(algo.env_runner), "rows": rows, "best": _best_return(algo.get_module(), length)}
    raise ValueError("No seed was left: the network knew the way before it had learned anything.")


def _best_return(module: Any, length: int) -> float:
    """Return what a network earns in one episode of the corridor when it takes its best action in each step."""
    import gymnasium
    import torch

    env, total, over = gymnasium.make(CORRIDOR, length=length), 0.0, False
    obs, _ = env.reset(seed=0)
    while not over:
        with torch.no_grad():
            action = module.forward_inference({"obs": torch.as_tensor(obs)[None]})["actions"][0]
        obs, reward, terminated, truncated, _ = env.step(int(action))
        total, over = total + float(reward), terminated or truncated
    return total


def _peek(algo: Any, name: str) -> int:
    return int(algo.metrics.peek(("learners", "default_policy", name), default=0))


def _fingerprint(networks: Any) -> float:
    """Return a number that changes with any weight of the networks."""
    return math.fsum(
        float((part.detach().double() * (1 + index)).sum())
        for network in networks
        for index, part in enumerate(network.parameters())
    )


class AsynchronousRun(TypedDict):
    """What the EnvRunners hold, the steps sampled and trained on, and whether the weights changed."""

    runners: list[Facts]
    steps: int
    trained: int
    changed: bool


def run_appo(make_config: Callable, arguments: list, batch: int, patience: float = 60.0) -> AsynchronousRun:
    """Return what is there after the learner of an asynchronous algorithm has had three batches of about this many steps."""
    with quietly_built(make_config, tuple(arguments)) as algo:
        network = algo.learner_group._learner.module["default_policy"]
        before = _fingerprint([network])
        end, trained = time.monotonic() + patience, 0
        while trained < 3 * batch and time.monotonic() < end:
            algo.training_step()  # returns at once where no fragment has come
            time.sleep(0.01)  # a loop without a pause would take a busy machine from the runner, which has niceness 15
            trained = _peek(algo, "num_module_steps_trained_lifetime")
        steps = int(algo.metrics.peek(("env_runners", "num_env_steps_sampled_lifetime"), default=0))
        return {
            "runners": algo.env_runner_group.foreach_env_runner(facts, local_env_runner=False),
            "steps": steps,
            "trained": trained,
            "changed": _fingerprint([network]) != before,
        }


class Call(TypedDict):
    """One call of a scripted algorithm, by the clock of `time.perf_counter`; steps and mean are those of a `train`."""

    name: str
    what: str
    begin: float
    end: float
    took: float
    steps: float
    mean: float | None


class Compared(TypedDict):
    """What `compare` returned, and what it called."""

    curves: Any
    calls: list[Call]


class Scripted:
    """A config and its algorithm in one: it sleeps and reports as its script says, and records what was called when."""

    def __init__(self, name: str, script: list[list], calls: list[Call]):
        self._name, self._script, self._calls = name, script, calls
        self._seconds, self._episodes, self.iteration = 0.0, 0, 0

    def build_algo(self) -> "Scripted":
        """Return the algorithm, after a while."""
        self._nap("build", 0.06)
        return self

    build = build_algo

    def train(self) -> dict:
        """Sleep for one iteration, and return a result like RLlib's."""
        if not self._script:
            raise RuntimeError(f"{self._name} used its budgets long ago and is still being trained.")
        nap, steps, mean = self._script.pop(0)
        took = self._nap("train", nap, steps, mean)
        self._seconds += took
        ended = 0 if mean is None or math.isnan(mean) else 3
        self._episodes, self.iteration = self._episodes + ended, self.iteration + 1
        runners = {"num_env_steps_sampled": 7, "num_env_steps_sampled_lifetime": steps}
        runners |= {"num_episodes": ended, "num_episodes_lifetime": self._episodes}
        if mean is not None:
            runners |= {"episode_return_mean": mean, "episode_return_max": mean + 40, "episode_return_min": mean - 40}
        clocks = {"time_this_iter_s": took, "time_total_s": self._seconds}
        counts = {"training_iteration": self.iteration, "num_env_steps_sampled_lifetime": steps}
        return {"env_runners": runners, "learners": {"default_policy": {"policy_loss": 0.1}}, **counts, **clocks}

    def stop(self) -> None:
        """Record that this algorithm was stopped."""
        self._nap("stop", 0)

    def _nap(self, what: str, seconds: float, steps: float = 0, mean: float | None = None) -> float:
        begin = time.perf_counter()
        time.sleep(seconds)
        end = time.perf_counter()
        call = Call(name=self._name, what=what, begin=begin, end=end, took=end - begin, steps=steps, mean=mean)
        self._calls.append(call)
        return end - begin


def compare_scripted(compare: Callable, scripts: dict[str, list], steps: int, seconds: float) -> Compared:
    """Return the curves that `compare` gives for scripted algorithms, and what was called when."""
    calls: list[Call] = []
    curves = compare({name: Scripted(name, script, calls) for name, script in scripts.items()}, steps, seconds)
    return {"curves": curves, "calls": calls}
