"""What chapter 7 hands out, and the probes that drive its answers."""

import random
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any, TypedDict

import gymnasium
import numpy as np
import pandas
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from coursekit.given.scripted import Scripted

CHATTER = ("does not have a spec", "having a spec", "render")  # warnings of check_env about what the chapter leaves out
# check_env resets twice with one seed, where equal squares may be luck: `starts` judges that instead.
BY_CHANCE = "for the same seed and action"


def shows_its_clock(length: int) -> gymnasium.Env:
    """Return an environment whose episodes have `length` steps: step t observes t and earns t."""
    return Scripted([{"length": length, "truncated": False}] * 1000)


def autoreset_table(mode: AutoresetMode, lengths: Sequence[int], steps: int) -> Any:
    """Return a table of what environments with episodes of these lengths return in some steps, always with action 0."""
    envs: VectorEnv = SyncVectorEnv([partial(shows_its_clock, length) for length in lengths], autoreset_mode=mode)
    obs, _ = envs.reset()
    rows = [[f"episode {episode:g}, step {step:g}" for _, episode, step in obs]]
    for _ in range(steps):
        obs, rewards, terminated, truncated, _ = envs.step(np.zeros(len(lengths), int))
        shown = zip(obs, rewards, np.where(terminated | truncated, "END", ""), strict=True)
        rows.append([f"episode {o[1]:g}, step {o[2]:g}, reward {reward:g} {end}".strip() for o, reward, end in shown])
    left = {"selector": "th, td", "props": "text-align: left"}
    return pandas.DataFrame(rows, columns=list("ABCDEFGH"[: len(lengths)])).style.set_table_styles([left])


def steps_per_second(env: Any, steps: int, policy: Callable | None = None, rounds: int = 1) -> float:
    """Return how many steps of experience per second come from an environment, or from a vector environment.

    Without a policy, the actions are sampled beforehand. The time includes resets, but the count leaves out the frames that are
    only a reset. The fastest of the rounds counts, because other programs can only slow a round down.
    """
    frames = max(steps // env.num_envs, 5) if isinstance(env, VectorEnv) else steps
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(frames)]
    return max(_speed(env, actions, policy) for _ in range(rounds))


def _speed(env: Any, actions: list, policy: Callable | None) -> float:
    run = run_many if isinstance(env, VectorEnv) else run_one
    start = time.perf_counter()
    experience = run(env, actions, policy)
    return experience / (time.perf_counter() - start)


def run_one(env: gymnasium.Env, actions: Sequence, policy: Callable | None = None) -> int:
    """Return the number of steps, one for each action; a policy, if there is one, chooses other actions."""
    obs, _ = env.reset(seed=0)
    for action in actions:
        obs, _, terminated, truncated, _ = env.step(policy(obs) if policy else action)
        if terminated or truncated:
            obs, _ = env.reset()
    return len(actions)


def run_many(envs: VectorEnv, actions: Sequence, policy: Callable | None = None) -> int:
    """Return the number of steps of all environments together, without the frames that are only a reset."""
    obs, _ = envs.reset(seed=0)
    resets: Any = 0
    for action in actions:
        obs, _, terminated, truncated, _ = envs.step(policy(obs) if policy else action)
        resets += np.count_nonzero(terminated | truncated)
    return len(actions) * envs.num_envs - int(resets)


def chooses(observation: Any) -> int:
    """Return the action of a policy that looks at all of an observation."""
    return int(np.dot(observation, [1, 3, 7])) % 4


def chooses_for_all(observations: Any) -> np.ndarray:
    """Return the actions of the same policy for many observations, shape [N, 3]."""
    return np.array([chooses(observation) for observation in observations])


# Probes: each drives a learner's object with the judge's inputs, and returns raw results.


class Box(TypedDict):
    """A space's kind, and of a Box the type, the shape and the limits."""

    kind: str
    dtype: str
    shape: list[int]
    low: list[float]
    high: list[float]


class Spaces(TypedDict):
    """Whether a corridor is a `gymnasium.Env`, and what it says of its observations and actions."""

    is_environment: bool
    observations: Box
    actions: dict[str, Any]


def spaces(corridor: Any, length: int, max_steps: int) -> Spaces:
    """Return what a corridor says of its observations and actions."""
    env = corridor(length, max_steps)
    return {
        "is_environment": isinstance(env, gymnasium.Env),
        "observations": _box(getattr(env, "observation_space", None)),
        "actions": _actions(getattr(env, "action_space", None)),
    }


def _box(space: Any) -> Box:
    if isinstance(space, gymnasium.spaces.Box):
        limits = space.low.ravel().tolist(), space.high.ravel().tolist()
        shape, dtype = list(space.shape), str(space.dtype)
        return {"kind": "Box", "dtype": dtype, "shape": shape, "low": limits[0], "high": limits[1]}
    return {"kind": type(space).__name__, "dtype": "", "shape": [], "low": [], "high": []}


def _actions(space: Any) -> dict[str, Any]:
    if isinstance(space, gymnasium.spaces.Discrete):
        return {"kind": "Discrete", "n": int(space.n), "start": int(space.start)}
    return {"kind": type(space).__name__}


def starts(corridor: Any, length: int, max_steps: int, seeds: list) -> list[float]:
    """Return the square of each reset of one corridor with these seeds; None is a reset without a seed.

    Other code uses the generators that a whole process shares, each time more: nothing of it may change where a corridor starts.
    """
    env = corridor(length, max_steps)
    squares = []
    for number, seed in enumerate(seeds):
        np.random.random(number)
        random.randbytes(number)
        obs, _ = env.reset(seed=seed) if seed is not None else env.reset()
        squares.append(float(obs[0]))
    return squares


def complaints(corridor: Any, length: int, max_steps: int) -> list[str]:
    """Return what Gymnasium's own `check_env` complains of."""
    from gymnasium.utils.env_checker import check_env

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            check_env(corridor(length, max_steps), skip_render_check=True)
        except Exception as error:  # whatever it finds wrong with the learner's class
            return [] if BY_CHANCE in str(error) else [f"{type(error).__name__}: {error}"]
    texts = [str(warning.message).replace("\x1b[33m", "").replace("\x1b[0m", "") for warning in heard]
    return [text for text in texts if not any(word in text for word in CHATTER)]


class Walk(TypedDict):
    """An episode: its start, what that array held at the end, and (observation, reward, terminated, truncated) of each step."""

    start: float
    start_afterwards: float
    steps: list[tuple[np.ndarray, Any, bool, bool]]


def walks(corridor: Any, length: int, max_steps: int, seed: int, walks: list[list[int]]) -> list[Walk]:
    """Return the start and the steps of some episodes in one corridor; a walk stops where the episode says it ends."""
    env = corridor(length, max_steps)
    seen: list[Walk] = []
    for number, actions in enumerate(walks):
        obs, _ = env.reset(seed=seed) if number == 0 else env.reset()
        start, steps = float(obs[0]), []
        for action in actions:
            square, reward, terminated, truncated, _ = env.step(action)
            steps.append((np.array(square), reward, bool(terminated), bool(truncated)))
            if terminated or truncated:
                break
        seen.append({"start": start, "start_afterwards": float(obs[0]), "steps": steps})
    return seen


class BothFlags(gymnasium.Wrapper):
    """An environment whose episodes are terminated in the very step that truncates them."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict]:
        """Return the step, terminated where it is truncated."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, reward, terminated or truncated, truncated, info


class Played(TypedDict):
    """What `rollout` returned, and the calls that the environment saw."""

    episode: Any
    calls: list[tuple[str, Any]]


def play(rollout: Callable, part: dict, both_flags: bool, seed: int) -> Played:
    """Return what `rollout` returns for a scripted episode, and the calls that the environment saw."""
    env = Scripted([part])
    episode = rollout(BothFlags(env) if both_flags else env, chooses, seed)
    return {"episode": episode, "calls": list(islice(env.calls, 1000))}


def cartpole_takes(policy: Callable, obs: np.ndarray) -> tuple[bool, str]:
    """Return whether CartPole takes the policy's action as it is, and what the action is."""
    action = policy(obs)
    kind = type(action)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    return bool(gymnasium.spaces.Discrete(2).contains(action)), f"{action!r:.60}, of type {name}"


def play_together(vector_rollout: Callable, scripts: list[list[dict]], steps: int, seed: int) -> Any:
    """Return what `vector_rollout` returns for scripted environments that step together."""

    def maker(script: list[dict]) -> Callable[[], gymnasium.Env]:
        return lambda: Scripted(script)

    envs = SyncVectorEnv([maker(script) for script in scripts])
    return vector_rollout(envs, chooses_for_all, steps, seed)
