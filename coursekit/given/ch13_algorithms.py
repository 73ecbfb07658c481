"""What chapter 13 hands out, and the probes that drive its answers."""

import math
import os
import time
from collections.abc import Callable
from typing import Any

from coursekit.given.rllib_configs import facts, quietly_built

CORRIDOR = "coursekit.envs:SimpleCorridor-v0"  # ten fields, the exit at the last; chapter 7 wrote it


def learner_pids(group: Any) -> list[int]:
    """Return the process of each learner of a LearnerGroup."""
    return [found.get() for found in group.foreach_learner(lambda learner: os.getpid())]


# Probes: each drives a learner's object with the judge's inputs, and returns raw results.


def steps_of_dqn(make_config: Callable, arguments: list[int], calls: int) -> dict:
    """Return what DQN had after each of its training steps: environment steps, the buffer, updates, both networks."""
    with quietly_built(make_config, tuple(arguments)) as algo:
        module = algo.learner_group._learner.module["default_policy"].unwrapped()
        pairs: list = module.get_target_network_pairs()
        rows: list[dict] = []
        while len(rows) < calls and not (rows and rows[-1]["steps"] > 1000):  # one that hardly learns plays on and on
            algo.training_step()
            rows.append(
                {
                    "steps": int(algo.metrics.peek(("env_runners", "num_env_steps_sampled_lifetime"))),
                    "buffer": int(algo.local_replay_buffer.get_num_timesteps()),
                    "replayed": _peek(algo, "num_module_steps_trained_lifetime"),
                    "online": _fingerprint(online for online, _ in pairs),
                    "target": _fingerprint(target for _, target in pairs),
                }
            )
        return {**facts(algo.env_runner), "rows": rows}


def _peek(algo: Any, name: str) -> int:
    return int(algo.metrics.peek(("learners", "default_policy", name), default=0))


def _fingerprint(networks: Any) -> float:
    """Return a number that changes with any weight of the networks."""
    return math.fsum(
        float((part.detach().double() * (1 + index)).sum())
        for network in networks
        for index, part in enumerate(network.parameters())
    )


def run_appo(make_config: Callable, arguments: list[int], batches: int, patience: float = 60.0) -> dict:
    """Return what is there after the learner of an asynchronous algorithm has had `batches` batches."""
    with quietly_built(make_config, tuple(arguments)) as algo:
        network = algo.learner_group._learner.module["default_policy"]
        before = _fingerprint([network])
        end, trained = time.monotonic() + patience, 0
        while trained < batches * arguments[2] and time.monotonic() < end:
            algo.training_step()
            trained = _peek(algo, "num_module_steps_trained_lifetime")
        steps = int(algo.metrics.peek(("env_runners", "num_env_steps_sampled_lifetime"), default=0))
        return {
            "runners": algo.env_runner_group.foreach_env_runner(_sampled_once, local_env_runner=arguments[0] == 0),
            "steps": steps,
            "trained": trained,
            "batch": float(
                algo.metrics.peek(("learners", "default_policy", "module_train_batch_size_mean"), default=0)
            ),
            "changed": _fingerprint([network]) != before,
        }


def _sampled_once(runner: Any) -> dict:
    """Return what an EnvRunner holds and the size of one more fragment; runs in the runner's own process."""
    return {**facts(runner), "fragment": sum(len(episode) for episode in runner.sample())}


class Scripted:
    """A config and its algorithm in one: it naps and reports as its script says, and notes what was called when."""

    def __init__(self, name: str, script: list[list], calls: list[dict]):
        self._name, self._script, self._calls = name, script, calls
        self._seconds, self._episodes, self.iteration = 0.0, 0, 0

    def build_algo(self) -> "Scripted":
        """Return the algorithm, after a while."""
        self._nap("build", 0.06)
        return self

    build = build_algo

    def train(self) -> dict:
        """Nap for one iteration; return a result like RLlib's."""
        if not self._script:
            raise RuntimeError(f"{self._name} has long had its budget, and is still trained.")
        nap, steps, mean = self._script.pop(0)
        took = self._nap("train", nap, steps=steps, mean=mean)
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
        """Note that this algorithm was stopped."""
        self._nap("stop", 0)

    def _nap(self, what: str, seconds: float, **more: Any) -> float:
        begin = time.perf_counter()
        time.sleep(seconds)
        end = time.perf_counter()
        self._calls.append({"name": self._name, "what": what, "begin": begin, "end": end, "took": end - begin, **more})
        return end - begin


def compare_scripted(compare: Callable, scripts: dict[str, list], steps: int, seconds: float) -> dict:
    """Return the curves that `compare` gives for scripted algorithms, and what was called when."""
    calls: list[dict] = []
    curves = compare({name: Scripted(name, script, calls) for name, script in scripts.items()}, steps, seconds)
    return {"curves": curves, "calls": calls}
