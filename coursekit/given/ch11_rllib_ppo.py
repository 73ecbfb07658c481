"""What chapter 11 hands out, and the probes that drive its answers."""

import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import gymnasium
import numpy as np

from coursekit.given import rllib_configs

CORRIDOR = "coursekit.given.environments:SimpleCorridor-v0"
ENDLESS = 200  # iterations after which a loop is taken for endless
BATCH = 128  # steps of an iteration, where all that counts is that there were some
FIRST_SAVED = 8  # the first checkpoint: with numbers on both sides of 10, their order as text is another


@contextmanager
def built(config: Any) -> Iterator[Any]:
    """Yield the algorithm of a config; it is stopped when the block ends, even with an error."""
    with rllib_configs.built(config) as [algo]:
        yield algo


# Probes: each drives a learner's object with the judge's inputs, and returns raw results.


class Counts(TypedDict):
    """How often an algorithm was built, trained and stopped, and trained after it had been stopped."""

    builds: int
    trains: int
    stops: int
    after_stop: int


class Scripted:
    """A config and its algorithm in one: `train()` returns results that were written beforehand."""

    def __init__(self, means: list[float | None], breaks: bool = False):
        self.iteration = 0
        self.seen: Counts = {"builds": 0, "trains": 0, "stops": 0, "after_stop": 0}
        self._means, self._breaks, self.episodes = means, breaks, 0

    def build_algo(self) -> "Scripted":
        """Return the algorithm."""
        self.seen["builds"] += 1
        return self

    build = build_algo

    def train(self) -> dict:
        """Return a result like RLlib's: without a mean where no episode has ended yet."""
        self.seen["after_stop"] += self.seen["stops"]
        if self.seen["trains"] == 3 and self._breaks:
            raise RuntimeError("The environment broke, as the check had planned.")
        if self.seen["trains"] == ENDLESS:
            raise RuntimeError(f"train() was called {ENDLESS} times, and `most` allows fewer.")
        mean = self._means[min(self.seen["trains"], len(self._means) - 1)]
        self.seen["trains"] += 1
        self.iteration += 1
        if ended := mean is not None and not math.isnan(mean):
            self.episodes += 4
        env_runners: dict[str, Any] = {"num_episodes": 4 * ended, "num_episodes_lifetime": float(self.episodes)}
        if mean is not None:
            env_runners |= {"episode_return_mean": np.float64(mean), "episode_len_mean": 9.0}
            env_runners |= {"episode_return_max": mean + 5, "episode_return_min": mean - 5}
        return {
            "env_runners": env_runners,
            "learners": {"default_policy": {"policy_loss": 0.1, "vf_loss": 0.1, "entropy": 0.5}},
            "num_env_steps_sampled_lifetime": 40.0 * self.iteration,
            "training_iteration": self.iteration,
            "time_this_iter_s": 0.1,
            "time_total_s": 0.1 * self.iteration,
        }

    def stop(self) -> None:
        """Write down that the algorithm was stopped."""
        self.seen["stops"] += 1


class Followed(Counts):
    """What an algorithm was told, what came back at the end, and whether an error came instead."""

    returned: Any
    raised: bool


def follow_script(
    learns: Callable, means: list[float | None], target: float, most: int, breaks: bool = False
) -> Followed:
    """Return what `learns` gives back for an algorithm with these mean returns, and how often it did what."""
    script = Scripted(means, breaks)
    try:
        returned = learns(script, target, most)
    except RuntimeError as error:
        if "as the check had planned" not in str(error):
            raise
        return {"returned": None, "raised": True, **script.seen}
    return {"returned": returned, "raised": False, **script.seen}


def learn(learns: Callable, length: int, seed: int, target: float, most: int) -> float:
    """Return the last mean return that `learns` gives back for PPO on a corridor."""
    return learns(_corridor_ppo(length, seed), target, most)[-1]


def _corridor_ppo(length: int, seed: int, batch: int = 512, epochs: int = 6) -> Any:
    """Return PPO for a corridor, played in this process."""
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

    return (
        PPOConfig()
        .environment(CORRIDOR, env_config={"length": length})
        .env_runners(num_env_runners=0, num_envs_per_env_runner=8)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[32]))
        .training(train_batch_size_per_learner=batch, minibatch_size=128, num_epochs=epochs, lr=0.003)
        .debugging(seed=seed, log_sys_usage=False)
    )


class Memory(TypedDict):
    """What an algorithm must not forget: its weights, where they learn and where they play, and its optimizer's state."""

    iteration: int
    mark: list[float]
    learner: list[np.ndarray]
    runner: list[np.ndarray]
    optimizer: list[np.ndarray]


class Continued(TypedDict):
    """What an algorithm remembered, and its counters after one more iteration."""

    after: Memory
    iteration: int
    steps: int


class Resumed(TypedDict):
    """What the old algorithm knew, what came back, and what became of that if it is an algorithm."""

    before: Memory
    returned: str
    continued: NotRequired[Continued]


def resume_after_a_night(resume: Callable, length: int, seed: int, whole: int, cut: dict, mark: list[float]) -> Resumed:
    """Return what `resume` makes of a folder of checkpoints, the newest of which are incomplete: {number: how it was cut off}.

    In the newest complete one, two of the weights are the numbers of `mark`.
    """
    returned = None
    with tempfile.TemporaryDirectory() as folder:
        with built(_corridor_ppo(length, seed, BATCH, epochs=2)) as algo:
            for number in range(1, max(map(int, cut)) + 1):
                algo.train()
                if number == whole:
                    _write(algo, mark)
                    before = _memory(algo)
                if number >= FIRST_SAVED:
                    algo.save_to_path(Path(folder, str(number)))
        for name, how in cut.items():
            _cut_off(Path(folder, name), how)
        os.utime(Path(folder, str(FIRST_SAVED)))  # as a copy or a backup would: the time says nothing
        try:
            returned = resume(folder)
            if not callable(getattr(returned, "train", None)):
                return {"before": before, "returned": f"a {type(returned).__name__}"}
            after, result = _memory(returned), returned.train()
            continued: Continued = {
                "after": after,
                "iteration": int(result["training_iteration"]),
                "steps": int(result["num_env_steps_sampled_lifetime"]),
            }
            return {"before": before, "returned": "an algorithm", "continued": continued}
        finally:
            getattr(returned, "stop", lambda: None)()


def _cut_off(path: Path, how: str) -> None:
    """Leave of a checkpoint what is there when saving is killed in the middle of the learner, or copying before it."""
    if how == "copied":  # files first, then folders by their names
        shutil.rmtree(path / "learner_group")
        return
    if how == "copied without the optimizer":  # in another order
        (path / "learner_group/learner/state.pkl").unlink()
        return
    for part in ("algorithm_state.pkl", "learner_group/learner/state.pkl", "learner_group/state.pkl"):
        (path / part).unlink()
    shutil.rmtree(path / "env_runner")


def _write(algo: Any, mark: list[float]) -> None:
    """Set two weights of the policy, in the learner and where it plays."""
    import torch

    with torch.no_grad():
        algo.learner_group._learner.module["default_policy"].pi.net.mlp[0].bias.copy_(torch.tensor(mark))
    algo.env_runner_group.sync_weights(from_worker_or_learner_group=algo.learner_group, inference_only=True)


def _memory(algo: Any) -> Memory:
    import torch

    learner = algo.learner_group._learner
    trained = learner.module["default_policy"]
    moments = learner.get_optimizer("default_policy").state_dict()["state"]
    return {
        "iteration": algo.iteration,
        "mark": trained.pi.net.mlp[0].bias.tolist(),
        "learner": [part.detach().numpy().copy() for part in trained.parameters()],
        "runner": [part.detach().numpy().copy() for part in algo.get_module().parameters()][:4],
        "optimizer": [
            np.atleast_1d(v.numpy().copy()) for entry in moments.values() for v in entry.values() if torch.is_tensor(v)
        ],
    }


def network(inputs: int, layers: list) -> Any:
    """Return an RLModule of RLlib's PPO with these weights of the policy: [[matrix, vector], [matrix, vector]]."""
    import torch
    from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
    from ray.rllib.core.rl_module.rl_module import RLModuleSpec

    (first, _), (_, last) = layers
    module = RLModuleSpec(
        module_class=DefaultPPOTorchRLModule,
        observation_space=gymnasium.spaces.Box(-np.inf, np.inf, (inputs,), np.float32),
        action_space=gymnasium.spaces.Discrete(len(last)),
        model_config={"fcnet_hiddens": [len(first)], "fcnet_activation": "tanh"},
    ).build()
    parts = [module.encoder.encoder.net.mlp[0], module.pi.net.mlp[0]]
    with torch.no_grad():
        for part, (matrix, vector) in zip(parts, layers, strict=True):
            part.weight.copy_(torch.tensor(matrix))
            part.bias.copy_(torch.tensor(vector))
    return module


def space_of(kind: str, size: list[int]) -> gymnasium.Space:
    """Return the space of observations that are numbers of squares ("Discrete"), or arrays ("Box")."""
    if kind == "Discrete":
        return gymnasium.spaces.Discrete(size[0])
    return gymnasium.spaces.Box(-10, 10, tuple(size), np.float32)


def act_on(act: Callable, kind: str, size: list[int], layers: list, observations: list) -> list[Any]:
    """Return what `act` answers to each of the observations."""
    import torch

    space = space_of(kind, size)
    policy = network(int(np.prod(size)), layers)
    typed = [np.int64(obs) if kind == "Discrete" else np.array(obs, np.float32) for obs in observations]
    actions = [act(policy, space, obs) for obs in typed]
    return [str(action) if torch.is_tensor(action) else action for action in actions]  # no environment takes a tensor


class Guarded(gymnasium.Wrapper):
    """An environment that refuses a step after the end of an episode, and counts the episodes begun."""

    def __init__(self, env: gymnasium.Env):
        super().__init__(env)
        self.over, self.episodes = True, 0

    def reset(self, **options: Any) -> tuple[Any, dict]:
        """Begin an episode."""
        self.over, self.episodes = False, self.episodes + 1
        return self.env.reset(**options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict]:
        """Take a step, unless the episode has ended."""
        if self.over:
            raise RuntimeError("step() was called although the episode had ended: terminated or truncated was True")
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.over = terminated or truncated
        return obs, reward, terminated, truncated, info


def lake(rewards: list[float], limit: int) -> gymnasium.Env:
    """Return FrozenLake with these rewards for the goal, a hole and the ice; an episode is cut off after `limit` steps."""
    return gymnasium.make("FrozenLake-v1", reward_schedule=tuple(rewards), max_episode_steps=limit)


class Played(TypedDict):
    """What `evaluate` returned, and how many episodes it began."""

    returned: Any
    episodes: int


def play(evaluate: Callable, layers: list, rewards: list[float], limit: int, seeds: list[int]) -> Played:
    """Return what `evaluate` gives back for a policy on FrozenLake, and how many episodes were begun."""
    env = Guarded(lake(rewards, limit))
    squares = int(env.observation_space.n)  # type: ignore[attr-defined]
    return {"returned": evaluate(network(squares, layers), env, seeds), "episodes": env.episodes}


def build_problem(make_config: Callable, batch: int) -> str:
    """Return what goes wrong when the config is built, "" where nothing does."""
    try:
        with rllib_configs.quietly_built(make_config, (batch,)):
            return ""
    except Exception as error:  # whatever RLlib finds wrong with the learner's config
        return f"{type(error).__name__}: {error}"


def train_lake(make_config: Callable, batch: int, seed: int, iterations: int) -> list[float]:
    """Return the mean return of each iteration, 0 where no episode ended in it."""
    with rllib_configs.quietly_built(lambda: make_config(batch).debugging(seed=seed), ()) as algo:
        results = [algo.train()["env_runners"] for _ in range(iterations)]
    return np.nan_to_num([float(each.get("episode_return_mean", np.nan)) for each in results]).tolist()
