"""What chapter 13 hands out, and the probes that drive its answers."""

import math
import os
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

from coursekit.given.ch12_env_runners import built

CORRIDOR = "coursekit.envs:SimpleCorridor-v0"  # ten fields, the exit at the last; chapter 7 wrote it


def learner_pids(group: Any) -> list[int]:
    """Return the process of each learner of a LearnerGroup."""
    return [found.get() for found in group.foreach_learner(lambda learner: os.getpid())]


# Probes: each drives a learner's object with the judge's inputs, and returns raw results.


def told(make_config: Callable, *arguments: Any) -> dict:
    """Return what a config says, without building it."""
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

    config = make_config(*arguments)
    if not isinstance(config, AlgorithmConfig):
        getattr(config, "stop", lambda: None)()  # an algorithm that was built by mistake
        return {"returned": type(config).__name__}
    return {
        "returned": "a config",
        "algorithm": getattr(config.algo_class, "__name__", str(config.algo_class)),
        "runners": config.num_env_runners,
        "learners": config.num_learners,
    }


@contextmanager
def _quietly_built(make_config: Callable, arguments: tuple) -> Any:
    """Yield the learner's algorithm; RLlib's system monitor is left out, because it stops slowly."""
    config = make_config(*arguments).copy(copy_frozen=False)
    with built(config.debugging(log_sys_usage=False)) as [algo]:
        yield algo


def steps_of_dqn(make_config: Callable, arguments: list[int], calls: int) -> dict:
    """Return what DQN had after each of its training steps: environment steps, the buffer, updates, both networks."""
    with _quietly_built(make_config, tuple(arguments)) as algo:
        module = algo.learner_group._learner.module["default_policy"].unwrapped()
        pairs, rows = module.get_target_network_pairs(), []
        for _ in range(calls):
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
        return {"environments": [env.spec.id for env in algo.env_runner.env.unwrapped.envs], "rows": rows}


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
    """Return what is there after the learner of an asynchronous algorithm has had so many batches."""
    with _quietly_built(make_config, tuple(arguments)) as algo:
        network = algo.learner_group._learner.module["default_policy"]
        before = _fingerprint([network])
        end, trained = time.monotonic() + patience, 0
        while trained < batches * arguments[2] and time.monotonic() < end:
            algo.training_step()
            trained = _peek(algo, "num_module_steps_trained_lifetime")
        steps = int(algo.metrics.peek(("env_runners", "num_env_steps_sampled_lifetime"), default=0))
        return {
            "algorithm": type(algo).__name__,
            "runners": algo.env_runner_group.foreach_env_runner(_sampled_once, local_env_runner=arguments[0] == 0),
            "steps": steps,
            "trained": trained,
            "batch": float(
                algo.metrics.peek(("learners", "default_policy", "module_train_batch_size_mean"), default=0)
            ),
            "changed": _fingerprint([network]) != before,
        }


def _sampled_once(runner: Any) -> dict:
    """Return the process, the environments and one more fragment of an EnvRunner; runs in the runner's own process."""
    episodes = runner.sample()
    return {
        "pid": os.getpid(),
        "environments": [env.spec.id for env in runner.env.unwrapped.envs],
        "fragment": sum(len(episode) for episode in episodes),
    }


class ScriptedConfig:
    """A config whose algorithm naps and reports what it was told to; it writes down what was called, and when."""

    def __init__(self, name: str, script: list[list], calls: list, slow_build: float = 0.0):
        self._name, self._script, self._calls, self._slow_build = name, script, calls, slow_build

    def build_algo(self) -> "ScriptedAlgorithm":
        """Return the algorithm, after a while."""
        begin = time.perf_counter()
        time.sleep(self._slow_build)
        self._calls.append([self._name, "build", begin, time.perf_counter()])
        return ScriptedAlgorithm(self._name, self._script, self._calls)


class ScriptedAlgorithm:
    """An algorithm each of whose iterations has a nap, a number of steps, and a mean return."""

    def __init__(self, name: str, script: list[list], calls: list):
        self.iteration = self._steps = 0
        self._name, self._script, self._calls = name, script, calls

    def train(self) -> dict:
        """Nap for one iteration; return a result like RLlib's."""
        begin = time.perf_counter()
        nap, steps, mean = self._script[min(self.iteration, len(self._script) - 1)]
        if self.iteration > len(self._script) + 20:
            raise RuntimeError(f"{self._name} has long had its budget, and is still trained.")
        time.sleep(nap)
        self.iteration += 1
        self._steps += steps
        runners = {
            "num_env_steps_sampled": steps,
            "num_env_steps_sampled_lifetime": self._steps,
            "num_episodes": 3,
        }
        if mean is not None:
            best, worst = (mean + 40, mean - 40) if math.isfinite(mean) else (mean, mean)
            runners |= {"episode_return_mean": mean, "episode_return_max": best, "episode_return_min": worst}
        end = time.perf_counter()
        self._calls.append([self._name, "train", begin, end])
        return {
            "env_runners": runners,
            "num_env_steps_sampled_lifetime": self._steps,
            "training_iteration": self.iteration,
            "time_this_iter_s": end - begin,
        }

    def stop(self) -> None:
        """Write down that this algorithm was stopped."""
        self._calls.append([self._name, "stop", time.perf_counter(), time.perf_counter()])


def compare_scripted(compare: Callable, scripts: dict[str, list], steps: int, seconds: float) -> dict:
    """Return the curves that `compare` gives for scripted algorithms, and what was called when."""
    calls: list[list] = []
    configs = {name: ScriptedConfig(name, script, calls, slow_build=0.06) for name, script in scripts.items()}
    curves = compare(configs, steps, seconds)
    return {"curves": curves, "calls": calls, "end": time.perf_counter()}


class Recorded:
    """A config of RLlib whose algorithm keeps the results of its iterations."""

    def __init__(self, config: Any):
        self._config = config
        self.results: list[list] = []

    def build_algo(self) -> Any:
        """Return RLlib's own algorithm, with `train` writing down what it returns."""
        algo = self._config.build_algo()
        train = algo.train

        def recorded() -> dict:
            result = train()
            mean = result["env_runners"].get("episode_return_mean", math.nan)
            self.results.append([int(result["num_env_steps_sampled_lifetime"]), float(mean)])
            return result

        algo.train = recorded
        return algo


def compare_real(compare: Callable, batches: dict[str, int], steps: int, seconds: float) -> dict:
    """Return the curves that `compare` gives for RLlib's PPO with such batches, and the results it really had."""
    import torch
    from ray.rllib.algorithms.ppo import PPOConfig

    torch.set_num_threads(1)
    configs = {}
    for name, batch in batches.items():
        config = PPOConfig().environment(CORRIDOR).env_runners(num_env_runners=0, num_envs_per_env_runner=4)
        config.training(train_batch_size_per_learner=batch, minibatch_size=32, num_epochs=1)
        configs[name] = Recorded(config.debugging(seed=0, log_sys_usage=False))
    curves = compare(configs, steps, seconds)
    return {"curves": curves, "results": {name: config.results for name, config in configs.items()}}
