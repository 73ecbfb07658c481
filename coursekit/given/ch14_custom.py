"""What chapter 14 hands out: three small environments, and the probes that drive its answers."""

import math
import warnings
from typing import Any, TypedDict, cast

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from coursekit.given.bands import draw_band
from coursekit.given.recorded import recorded

# Every algorithm that is built from a class of environments registers it again, which Gymnasium reports on stderr.
warnings.filterwarnings("ignore", message=".*Overriding environment rllib-")


class Balloon(gymnasium.Env):
    """A hot-air balloon between 0 and 1,000 m, which earns 1 for each step that ends less than 100 m from 500 m.

    It has a barometer but no altimeter, so the observation is the air pressure in pascals and the vertical speed in m/s. Action 0
    lets air out, 1 waits, and 2 burns gas. A step takes 20 seconds, and an episode has 20 steps.
    """

    def __init__(self, config: dict | None = None):
        self.observation_space = Box(np.array([89_000, -5], np.float32), np.array([101_400, 5], np.float32))
        self.action_space = Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        """Start at a random height."""
        super().reset(seed=seed)
        self.height, self.speed, self.steps = float(self.np_random.uniform(0, 1000)), 0.0, 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Rise or sink for 20 seconds."""
        self.speed = 0.5 * self.speed + 2.5 * (int(action) - 1)
        self.height = min(max(self.height + 20 * self.speed, 0.0), 1000.0)
        self.steps += 1
        return self._observation(), float(abs(self.height - 500) < 100), False, self.steps == 20, {}

    def _observation(self) -> np.ndarray:
        return np.array([101_325 * math.exp(-self.height / 8434), self.speed], np.float32)


class Dispatcher(gymnasium.Env):
    """A scheduler that sends ten jobs to `nodes` nodes, and earns 1 for a job if no other node would have finished it sooner.

    The observation has a row for each node, shape [nodes, 3]: how full its queue is, how fast it is, both from 0 to 1, and
    whether it holds the job's data (1) or must fetch them first (0).
    """

    def __init__(self, config: dict | None = None):
        self.nodes = (config or {}).get("nodes", 12)
        self.observation_space = Box(0, 1, (self.nodes, 3), np.float32)
        self.action_space = Discrete(self.nodes)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        """Return the table for the first job."""
        super().reset(seed=seed)
        self.job = 0
        return self._table(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Send the job to a node, and return the table for the next job."""
        self.job += 1
        reward = float(action == self._best)
        return self._table(), reward, self.job == 10, False, {}

    def _table(self) -> np.ndarray:
        """Sample new nodes, and remember which of them would finish the job first."""
        queue, speed = self.np_random.random((2, self.nodes))
        holds_data = self.np_random.random(self.nodes) < 0.5
        self._best = int(np.argmin((1 + 4 * queue) / (1 + 2 * speed) + 2 * ~holds_data))
        return np.stack([queue, speed, holds_data], axis=1).astype(np.float32)


class Cave(gymnasium.Env):
    """A dark cave of 20 by 20 squares, in which the step onto the exit, the square (14, 12), earns 1 and nothing else does.

    Actions 0 to 3 go one square to the left, to the right, down, or up. The observation is the position, shape [2], with both
    numbers from -1 to 1. Every episode starts on (0, 0), and after 80 steps it is truncated.
    """

    exit = (14, 12)

    def __init__(self, config: dict | None = None):
        self.observation_space, self.action_space = Box(-1, 1, (2,), np.float32), Discrete(4)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        """Start in a corner."""
        super().reset(seed=seed)
        self.x = self.y = self.steps = 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Go one square, unless there is a wall."""
        right, up = ((-1, 0), (1, 0), (0, -1), (0, 1))[int(action)]
        self.x, self.y = min(max(self.x + right, 0), 19), min(max(self.y + up, 0), 19)
        self.steps += 1
        out = (self.x, self.y) == self.exit
        return self._observation(), float(out), out, self.steps == 80 and not out, {}

    def _observation(self) -> np.ndarray:
        return np.array([self.x, self.y], np.float32) / 9.5 - 1


def nearness(obs: np.ndarray) -> float:
    """Return how near the exit of the cave is: 1 on the exit, and 0 at the start, which is 26 steps away."""
    right, up = np.round((np.asarray(obs) + 1) * 9.5) - Cave.exit
    return float(1 - (abs(right) + abs(up)) / 26)


class ProgressBonus(gymnasium.Wrapper):
    """A cave with a bonus of 0.5 for each step that leads nearer to the exit, and nothing for the others."""

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        """Reset the cave."""
        obs, info = self.env.reset(seed=seed, options=options)
        self._before = nearness(obs)
        return obs, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict]:
        """Take the step, and add the bonus if it leads nearer."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        before, self._before = self._before, nearness(obs)
        return obs, float(reward) + 0.5 * (self._before > before), terminated, truncated, info


class Tape(gymnasium.Env):
    """An environment that replays recorded episodes, whatever the actions are.

    `config["episodes"]` is a list of dicts: `rows`, the observations from the first to the last; `rewards`, one for each
    step; `end`, which flags the last step sets, "terminated", "truncated", or "terminated and truncated". `low` and `high` are
    the bounds of the observations.
    """

    def __init__(self, config: dict):
        low, high = (np.array(config[name], np.float32) for name in ("low", "high"))
        self.observation_space = Box(low, high, dtype=np.float32)
        self.action_space = Discrete(config.get("actions", 2))
        self._episodes, self._number, self._step = config["episodes"], -1, 0
        self.heard: list[dict] = []

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        """Start the next episode; after the last comes the first again. `heard` keeps what it was asked for."""
        super().reset(seed=seed)
        self.heard.append({"seed": seed, "options": options})
        self._number, self._step = (self._number + 1) % len(self._episodes), 0
        return self._row(), {"step": 0}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Play the next row."""
        episode = self._episodes[self._number]
        self._step += 1
        over = self._step == len(episode["rewards"])
        terminated, truncated = (over and name in episode["end"] for name in ("terminated", "truncated"))
        return self._row(), float(episode["rewards"][self._step - 1]), terminated, truncated, {"step": self._step}

    def _row(self) -> np.ndarray:
        return np.array(self._episodes[self._number]["rows"][self._step], np.float32)


def draw(curves: dict, column: str, title: str, ylim: tuple = (0, None), ax: Any = None) -> Any:
    """Plot one column of several tables over the environment steps, and return the axes."""
    import matplotlib.pyplot as plt

    ax = ax or plt.subplots(figsize=(7, 3), constrained_layout=True)[1]
    looks = [("#94a3b8", 6), ("#7c3aed", 1.5), ("#059669", 1.5)]  # the first is wide, or the second would hide it
    for (name, table), (colour, width) in zip(curves.items(), looks, strict=False):
        points = table.dropna(subset=[column])  # an iteration in which no episode ended has nothing to say
        steps = points["num_env_steps_sampled_lifetime"]
        ax.plot(steps, points[column], ".-", color=colour, linewidth=width, label=name)
    ax.set(xlabel="environment steps", ylabel=column, title=title, ylim=ylim)
    ax.legend()
    return ax


def draw_bands(runs: dict, column: str, title: str, ylim: tuple = (0, None)) -> Any:
    """Plot the mean of one column over several runs of each kind, with a band from worst to best, and return the axes."""
    import matplotlib.pyplot as plt

    ax = plt.subplots(figsize=(7, 3), constrained_layout=True)[1]
    for (name, tables), colour in zip(runs.items(), ["#94a3b8", "#7c3aed", "#059669"], strict=False):
        points = [table.dropna(subset=[column]) for table in tables]
        curves = [(table["num_env_steps_sampled_lifetime"], table[column]) for table in points]
        draw_band(ax, curves, colour, name, marker=".")
    ax.set(xlabel="environment steps", ylabel=column, title=title, ylim=ylim)
    ax.legend()
    return ax


# Probes: each drives a learner's object with the judge's inputs, and returns raw results.


class Connected(TypedDict):
    """The space that a connector announces ("" where the class is no connector), and the numbers of each observation behind it."""

    space: str
    shape: list[int]
    low: list[float]
    high: list[float]
    module_saw: list[list[float]]
    learner_gets: list[list[float]]


def through_connector(connector: Any, tape: dict, fragments: list[int]) -> Connected:
    """Return what a module saw, and what a learner gets, of the tape's observations behind the connector."""
    from ray.rllib.connectors.connector_v2 import ConnectorV2
    from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

    config = recorded(Tape, tape).env_runners(env_to_module_connector=lambda env, spaces, device: connector())
    runner = SingleAgentEnvRunner(config=config)
    seen: Connected = {"space": "", "shape": [], "low": [], "high": [], "module_saw": [], "learner_gets": []}
    if not isinstance(runner._env_to_module.connectors[0], ConnectorV2):
        return seen
    episodes = [episode for steps in fragments for episode in runner.sample(num_timesteps=steps)]
    spaces = runner.get_spaces()
    space, actions = spaces["default_policy"]
    learner_side = config.build_learner_connector(input_observation_space=space, input_action_space=actions)
    module = config.get_multi_rl_module_spec(spaces=spaces, inference_only=False).build()
    obs = learner_side(rl_module=module, batch={}, episodes=episodes, shared_data={})["default_policy"]["obs"]
    seen |= {"space": str(space), "module_saw": runner.module.saw, "learner_gets": obs.reshape(len(obs), -1).tolist()}
    if isinstance(space, Box):
        seen |= {"space": "Box", "shape": list(space.shape)}
        seen |= {"low": space.low.ravel().tolist(), "high": space.high.ravel().tolist()}
    return seen


class Said(TypedDict):
    """What a module says of some tables: scores, and values."""

    scores: np.ndarray
    values: np.ndarray


class InsidePPO(TypedDict):
    """What a module says of the plain tables before an iteration of PPO, and of all after it; the sizes of its layers."""

    before: Said
    sizes: list[int]
    plain: Said
    shuffled: Said
    halfway: Said
    joined: Said


def inside_ppo(module_class: Any, asked: dict[str, np.ndarray], hidden: int) -> InsidePPO:
    """Return scores and values for the tables, each [B, nodes, features]: after an iteration of PPO; "before", of the plain ones."""
    algo = _ppo_with(module_class, asked["plain"].shape[1:], hidden).build_algo()
    try:
        module = algo.learner_group._learner.module["default_policy"]
        before = _answers(module, asked["plain"])
        if before["scores"].ndim == 2 and before["values"].ndim == 1:  # else an error of RLlib's would hide the cause
            algo.train()
        sizes = sorted({size for part in module.parameters() for size in part.shape})
        after = {name: _answers(module, tables) for name, tables in asked.items()}
        return cast(InsidePPO, {"before": before, "sizes": sizes, **after})
    finally:
        algo.stop()


def _ppo_with(module_class: Any, shape: tuple, hidden: int) -> Any:
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core.rl_module import RLModuleSpec
    from ray.rllib.examples.envs.classes.random_env import RandomEnv

    spaces = {"observation_space": Box(0, 1, shape, np.float32), "action_space": Discrete(shape[0])}
    spaces["reward_space"] = Discrete(2)  # the default's rewards are arrays, of which Gymnasium warns
    return (
        PPOConfig()
        .environment(RandomEnv, env_config={**spaces, "p_terminated": 1.0})
        .env_runners(num_env_runners=0, num_envs_per_env_runner=8)
        .rl_module(rl_module_spec=RLModuleSpec(module_class=module_class, model_config={"hidden": hidden}))
        .training(train_batch_size_per_learner=64, minibatch_size=32, num_epochs=2, lr=0.01)
        .training(vf_clip_param=1e4)  # by default, values far from the rewards would get no gradient
        .debugging(log_sys_usage=False)
    )


def _answers(module: Any, tables: np.ndarray) -> Said:
    import torch

    batch = {"obs": torch.from_numpy(np.ascontiguousarray(tables))}
    with torch.no_grad():
        said, values = module.forward_train(batch), module.compute_values(batch)
    if not isinstance(said, dict):
        raise TypeError(f"`_forward` returned a {type(said).__name__}, not a dict")
    return {"scores": said["action_dist_inputs"], "values": values}


def keep_diary(callback: Any, tape: dict, fragments: list[int]) -> list[dict[str, float]]:
    """Return what an EnvRunner reports after each fragment, where the module does what the tape's rows say."""
    from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

    runner = SingleAgentEnvRunner(config=recorded(Tape, tape).callbacks(callback))
    reports = []
    for steps in fragments:
        runner.sample(num_timesteps=steps)
        metrics = runner.get_metrics()
        reports.append({name: _peeked(metrics[name]) for name in ("arrived", "steps_back") if name in metrics})
    return reports


def _peeked(stat: Any) -> float:
    return float(stat.peek()) if hasattr(stat, "peek") else float(stat)


Step = tuple[Any, float, bool, bool, Any]  # observation, reward, terminated, truncated, info


class ShapedPlay(TypedDict):
    """What each `reset` of a shaped environment returned, the steps of each episode, and what `reset` inside heard."""

    starts: list[tuple[Any, Any]]
    episodes: list[list[Step]]
    heard: list[Any]


def play_shaped(
    shaped: Any, tape: dict, weights: list[float], gamma: float, leave_early: int, seeds: list[int]
) -> ShapedPlay:
    """Return what all episodes of the tape are in the shaped environment.

    The potential of an observation is `weights @ observation`. The first episode is left after `leave_early` steps.
    """
    inside = Tape(tape)
    env = shaped(inside, lambda obs: float(np.dot(weights, obs)), gamma)
    starts, episodes = [], []
    for number, (episode, seed) in enumerate(zip(tape["episodes"], seeds, strict=True)):
        first, info = env.reset(seed=seed, options={"lamp": seed})
        starts.append((np.asarray(first), info))
        steps = []
        for _ in range(len(episode["rewards"]) if number else leave_early):
            obs, reward, terminated, truncated, info = env.step(1)
            steps.append((np.asarray(obs), float(reward), bool(terminated), bool(truncated), info))
        episodes.append(steps)
    return {"starts": starts, "episodes": episodes, "heard": inside.heard}
