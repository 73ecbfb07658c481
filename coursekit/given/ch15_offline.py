"""What chapter 15 hands out, and the probes that drive its answers."""

import logging
import math
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypedDict

import gymnasium
import numpy as np

from coursekit.ray_bridge.rendezvous import expect_ray

Operator = Callable[[np.ndarray], np.ndarray]
CARTPOLE = "CartPole-v1"
REPEATS = 67


def expert(obs: np.ndarray) -> np.ndarray:
    """Return the actions of an operator who uses all four numbers; `obs` is [4] or [B, 4]."""
    return np.asarray(obs @ np.array([0.1, 0.25, 1.0, 0.5]) > 0).astype(int)


def novice(obs: np.ndarray) -> np.ndarray:
    """Return the actions of an operator who uses only the lean; `obs` is [4] or [B, 4]."""
    return np.asarray(obs[..., 2] > 0).astype(int)


class Shaky:
    """The expert with a trembling hand: this fraction of the actions are coin flips."""

    def __init__(self, share: float, seed: int = 0):
        self._share, self._rng = share, np.random.default_rng(seed)

    def __call__(self, obs: np.ndarray) -> np.ndarray:
        """Return the actions for observations [B, 4]."""
        flips = self._rng.integers(2, size=obs.shape[:-1])
        return np.where(self._rng.random(obs.shape[:-1]) < self._share, flips, expert(obs))


def play(operator: Operator, seeds: Sequence[int]) -> list[dict]:
    """Return an episode of CartPole for each seed: seed, obs [T+1, 4], actions [T], rewards [T], terminated.

    All episodes run side by side; `operator` takes the observations of all of them, shape [B, 4], and returns actions [B].
    """
    envs = [gymnasium.make(CARTPOLE, disable_env_checker=True) for _ in seeds]
    now = np.array([env.reset(seed=int(seed))[0] for env, seed in zip(envs, seeds, strict=True)], np.float32)
    episodes: list[dict[str, Any]] = [
        {"seed": int(seed), "obs": [row.copy()], "actions": [], "rewards": [], "terminated": False}
        for seed, row in zip(seeds, now, strict=True)
    ]
    alive = list(range(len(envs)))
    while alive:
        actions = np.asarray(operator(now[alive]))
        going = []
        for place, action in zip(alive, actions, strict=True):
            obs, reward, terminated, truncated, _ = envs[place].step(int(action))
            now[place] = obs
            episode = episodes[place]
            episode["obs"].append(np.array(obs, np.float32))
            episode["actions"].append(int(action))
            episode["rewards"].append(float(reward))
            episode["terminated"] = bool(terminated)
            if not (terminated or truncated):
                going.append(place)
        alive = going
    return episodes


def greedy(network: Any) -> Operator:
    """Return the policy that always takes the network's most probable action."""
    import torch

    def act(obs: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return network(torch.as_tensor(obs, dtype=torch.float32)).argmax(-1).numpy()

    return act


def mean_return(operator: Operator, episodes: int = 10, seed: int = 10_000) -> float:
    """Return the mean return of some episodes of CartPole; the same seed gives every operator the same starts."""
    return float(np.mean([sum(played["rewards"]) for played in play(operator, range(seed, seed + episodes))]))


def rows_of(episodes: list[dict]) -> list[dict]:
    """Return one row per transition, with the column names that RLlib reads."""
    rows = []
    for episode in episodes:
        last = len(episode["actions"]) - 1
        for t, (action, reward) in enumerate(zip(episode["actions"], episode["rewards"], strict=True)):
            rows.append(
                {
                    "eps_id": episode["seed"],
                    "t": t,
                    "obs": episode["obs"][t],
                    "actions": action,
                    "rewards": reward,
                    "new_obs": episode["obs"][t + 1],
                    "terminateds": t == last and episode["terminated"],
                    "truncateds": t == last and not episode["terminated"],
                }
            )
    return rows


def mixed(seed: int, novices: int = 250, experts: int = 3) -> list[dict]:
    """Return many episodes of the novice and a few of the expert."""
    return play(novice, range(seed, seed + novices)) + play(expert, range(seed + novices, seed + novices + experts))


def write_datasets(folder: Path, seed: int = 0) -> None:
    """Write four datasets as Parquet files, one folder each: expert, shaky, mixed, coins."""
    import ray.data

    datasets = {
        "expert": play(expert, range(seed, seed + 12)),
        "shaky": play(Shaky(0.5, seed), range(seed, seed + 40)),
        "mixed": mixed(seed),
        "coins": play(Shaky(1.0, seed), range(seed, seed + 150)),
    }
    weather = np.random.default_rng(seed).uniform(5, 30, size=40).round(2)
    for name, episodes in datasets.items():
        rows = rows_of(episodes)
        if name == "shaky":  # this crane has a thermometer
            rows = [row | {"temperature": float(weather[row["eps_id"] - seed])} for row in rows]
        into = ray.data.from_items(rows, override_num_blocks=2)
        # Overwrite, because a second run of the cell would otherwise add its rows to those in the folder.
        into.write_parquet(str(folder / name), mode=ray.data.SaveMode.OVERWRITE)


def with_motor(rows: Any) -> Any:
    """Return a dataset whose observations have a fifth number: what the motor's meter showed when the row was written, in newtons."""
    import ray.data

    wide = [
        row | {"obs": np.append(row["obs"], np.float32(20 * row["actions"] - 10)).astype(np.float32)}
        for row in rows.iter_rows()
    ]
    return ray.data.from_items(wide, override_num_blocks=2)


class WithMeter:
    """A policy that sees a fifth number, what the motor's meter shows when the action is chosen: 0 before the first."""

    def __init__(self, operator: Operator):
        self._operator, self._last = operator, np.zeros(1, np.float32)

    def __call__(self, obs: np.ndarray) -> np.ndarray:
        """Return the action for one observation, shape [1, 4]."""
        actions = self._operator(np.column_stack([obs, self._last]))
        self._last = (20 * np.asarray(actions) - 10).astype(np.float32)
        return actions


def return_with_meter(operator: Operator, episodes: int = 10, seed: int = 10_000) -> float:
    """Return the mean return on a crane whose observations have the meter's value as the fifth number."""
    seeds = range(seed, seed + episodes)
    return float(np.mean([sum(play(WithMeter(operator), [one])[0]["rewards"]) for one in seeds]))


def calm_data() -> None:
    """Make Ray Data fit a laptop: no progress bars, and no 32 processes that read two small files."""
    import ray.data

    logging.getLogger("ray.data").setLevel(logging.ERROR)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.use_datasource_v2 = False  # its reader starts 32 actors for the footers, however few files there are


def small_network(inputs: int = 4) -> Any:
    """Return a new network: observations [B, inputs] to two outputs [B, 2], one for each action."""
    from torch import nn

    return nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 2))


write_logs, brain = write_datasets, small_network  # as notebooks of 0.2 import them; this line goes with 0.4


# Probes: each drives a learner's object with the judge's inputs, and returns raw results.


class Tape(gymnasium.Env):
    """An environment that plays a fixed script, whatever the actions are; the seed of `reset` chooses the episode.

    Like some simulators, it has one array for its observations, which it overwrites at each step. `episodes` is a list of
    dicts: `seed`, `obs` [T+1, 3], `rewards` [T], `end` ("terminated", "truncated", or "terminated and truncated").
    """

    observation_space = gymnasium.spaces.Box(-9, 9, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(1000)

    def __init__(self, episodes: list[dict]):
        self._episodes = {episode["seed"]: episode for episode in episodes}
        self._array = np.zeros(3, np.float32)

    def __setstate__(self, state: dict) -> None:
        """Come out of a pickle with an array to write into: in a task, those from the object store are read-only."""
        self.__dict__ |= state | {"_array": state["_array"].copy()}

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        """Start the episode of this seed."""
        if seed not in self._episodes:
            known = sorted(self._episodes)
            raise ValueError(f"The environment was reset with seed={seed}; the seeds of this dataset are {known}.")
        self._tape, self._step = self._episodes[seed], 0
        self._array[:] = self._tape["obs"][0]
        return self._array, {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Play the next step."""
        if self._step == len(self._tape["rewards"]):
            raise RuntimeError("step was called after the end of an episode.")
        self._step += 1
        over = self._step == len(self._tape["rewards"])
        self._array[:] = self._tape["obs"][self._step]
        reward = float(self._tape["rewards"][self._step - 1])
        terminated, truncated = (over and end in self._tape["end"] for end in ("terminated", "truncated"))
        return self._array, reward, terminated, truncated, {}


def tape_action(obs: np.ndarray) -> int:
    """Return what the operator of the tape does: a number that shows which observation it was for."""
    return round(abs(float(obs[0])) * 100)


class Row(TypedDict):
    """A row of a dataset."""

    eps_id: float | str | bytes
    t: float
    obs: Any
    actions: Any
    rewards: Any
    new_obs: Any
    terminateds: Any
    truncateds: Any


class Recorded(TypedDict):
    """The suffix of each file of a folder, the columns of each Parquet file, and the rows of all."""

    files: list[str]
    columns: list[list[str]]
    rows: list[dict[str, Any]]


def recorded(record: Callable, episodes: list[dict], files: int) -> Recorded:
    """Return what is in the Parquet files that `record` wrote."""
    import pyarrow.parquet  # type: ignore[import-untyped]

    expect_ray()
    calm_data()
    with tempfile.TemporaryDirectory(prefix="coursekit-", ignore_cleanup_errors=True) as folder:
        record(Tape(episodes), tape_action, [episode["seed"] for episode in episodes], f"{folder}/rows", files)
        found = sorted(path for path in Path(folder).rglob("*") if path.is_file())
        tables = [pyarrow.parquet.read_table(path) for path in found if path.suffix == ".parquet"]
        return {
            "files": [path.suffix for path in found][:1000],
            "columns": [table.column_names for table in tables],
            "rows": [_plain(row) for table in tables for row in table.to_pylist()],
        }


def _plain(row: dict) -> dict:
    """Return a row of plain values: an array of any kind as a list."""
    return {name: value.tolist() if hasattr(value, "tolist") else value for name, value in row.items()}


def wired(obs: np.ndarray, wiring: dict) -> np.ndarray:
    """Return observations as a crane with other cables shows them: in another order, with other signs."""
    return np.asarray(obs, np.float32)[..., wiring["order"]] * np.array(wiring["signs"], np.float32)


class Trained(TypedDict):
    """What came back from a training run: if it's a network, its outputs, and its actions in three episodes."""

    returned: str
    scores: np.ndarray
    played: list[list[int]]


def trained(trains: Callable, shift: str, wiring: dict, seed: int, epochs: int, asked: np.ndarray) -> Trained:
    """Return what the network that `trains` returns says of the observations `asked`, and the actions it takes.

    The dataset is from another crane: the numbers of its observations are swapped, and perhaps left and right. `played` has
    the network's actions in three episodes, of seeds from `seed + 1000` on.
    """
    import ray.data
    import torch

    expect_ray()
    calm_data()
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    episodes = play(expert, range(seed, seed + 8)) if shift == "expert" else mixed(seed)
    rows = [
        row
        | {name: wired(row[name], wiring) for name in ("obs", "new_obs")}
        | {"actions": row["actions"] ^ wiring["swap"]}
        for row in rows_of(episodes)
    ]
    network = trains(ray.data.from_items(rows, override_num_blocks=2), small_network(), epochs)
    if not isinstance(network, torch.nn.Module):
        return {"returned": type(network).__name__, "scores": np.zeros(0), "played": []}
    with torch.no_grad():
        scores = network(torch.as_tensor(wired(asked, wiring)))
    act = greedy(network)
    return {
        "returned": "a network",
        "scores": np.asarray(scores),
        "played": [
            episode["actions"]
            for episode in play(lambda obs: act(wired(obs, wiring)) ^ wiring["swap"], range(seed + 1000, seed + 1003))
        ],
    }


def probabilities(trains: Callable, places: np.ndarray, pushes: np.ndarray, seed: int, epochs: int) -> list[float]:
    """Return the probabilities of action 1 at `places` [4, 4], by the network that `trains` returns.

    Its dataset has `REPEATS` rows for each place and operator, whose actions are those of `pushes` [4, operators].
    """
    import ray.data
    import torch

    expect_ray()
    calm_data()
    torch.manual_seed(seed)
    rows = [
        {"eps_id": number, "t": 0, "obs": obs, "actions": int(action), "rewards": 1.0, "new_obs": obs}
        | {"terminateds": True, "truncateds": False}
        for number in range(REPEATS)
        for obs, actions in zip(places, pushes, strict=True)
        for action in actions
    ]
    rows = [rows[place] for place in np.random.default_rng(seed).permutation(len(rows))]
    network = trains(ray.data.from_items(rows, override_num_blocks=2), small_network(), epochs)
    with torch.no_grad():
        return list(network(torch.as_tensor(places)).softmax(-1)[:, 1].tolist())


def replayed(actions: Sequence[int], seed: int) -> float:
    """Return what these actions earn in CartPole, in an episode of this seed; all actions but 1 push left."""
    env = gymnasium.make(CARTPOLE, disable_env_checker=True)
    env.reset(seed=seed)
    earned = 0.0
    for action in actions:
        _, reward, terminated, truncated, _ = env.step(int(action == 1))
        earned += float(reward)
        if terminated or truncated:
            break
    return earned if math.isfinite(earned) else 0.0
