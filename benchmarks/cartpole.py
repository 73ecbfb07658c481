"""How fast chapter 10's PPO learns CartPole, beside RLlib's PPO and Stable-Baselines3's, on the same cores in one run.

    python benchmarks/cartpole.py                            ours and RLlib's, five seeds each
    python benchmarks/cartpole.py --sb3 PYTHON --seeds 7     also Stable-Baselines3's, with the Python of an environment of its own

Stable-Baselines3 is no part of the course. These two lines, in the course's folder, make an environment for it, with the
course's torch, gymnasium and numpy; its PYTHON is then /tmp/sb3/bin/python:

    .venv/bin/python -m venv /tmp/sb3
    /tmp/sb3/bin/pip install -c constraints.txt --extra-index-url https://download.pytorch.org/whl/cpu stable-baselines3==2.9.2

Everybody trains with its own tuned settings until a test has a mean return of 475. A test is 100 fresh episodes with the best
action in each step, at the end of every iteration that completes a further 2,000 steps: the same rule, test and episodes for
all. The clock runs while they train: not while they are tested, not while processes start. Seeds take turns, so that a slow
minute hits all. Run it alone on a machine.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault(
    "OMP_NUM_THREADS", "1"
)  # the networks are tiny: more threads gain nothing, and cost the others' core

os.environ.setdefault(
    "RAY_worker_niceness", "0"
)  # Ray's workers are nicer than others: on a busy machine they would starve

import gymnasium
import numpy as np
import torch

ROOT = Path(__file__).resolve().parent.parent
SOLVED, TEST_EVERY = 475, 2_000
Act = Callable[[np.ndarray], np.ndarray]


class Race:
    """One training: its clock, which stands while it is tested, and its last test."""

    def __init__(self, seed: int):
        self.seed, self.steps, self.seconds, self.tests = seed, 0, 0.0, 0
        self.mean, self._since = 0.0, time.perf_counter()

    def goes_on(self, steps: int, act: Act) -> bool:
        """Return whether the target is still ahead, after an iteration that ended with so many steps in all."""
        self.seconds += time.perf_counter() - self._since
        self.test(steps, act)
        self._since = time.perf_counter()
        return self.mean < SOLVED

    def test(self, steps: int, act: Act) -> float:
        """Return the last test's mean return: a new test where the iteration completed a further 2,000 steps."""
        if steps // TEST_EVERY > self.steps // TEST_EVERY:
            self.tests += 1
            self.mean = mean_return(act, 10_000 * (self.seed + 1) + self.tests)
        self.steps = steps
        return self.mean


def mean_return(act: Act, seed: int, episodes: int = 100) -> float:
    """Return the mean return of 100 episodes; `act` chooses actions, shape [N], for observations, shape [N, 4]."""
    envs = gymnasium.make_vec("CartPole-v1", num_envs=episodes, vectorization_mode="vector_entry_point")
    obs, _ = envs.reset(seed=seed)
    returns, running = np.zeros(episodes), np.ones(episodes, bool)
    while running.any():
        obs, rewards, terminated, truncated, _ = envs.step(np.asarray(act(obs)))
        returns += rewards * running
        running &= ~(terminated | truncated)
    return float(returns.mean())


def ours(seed: int, samplers: int) -> tuple[int, float, float]:
    """Train with the solved notebook's own function and clock; the race decides when it is tested, as it does for the others."""
    from coursekit.author.definitions import definitions
    from coursekit.given.cartpoles import cartpoles

    names, race, played = definitions("ch10_actor_learner"), Race(seed), 0
    joined, perceptron = names["joined"], names["perceptron"]

    def counted(parts: list) -> dict:
        nonlocal played
        batch = joined(parts)
        played += len(batch["obs"])
        return batch

    def test(weights: dict, make_envs: Callable, number: int) -> float:
        return race.test(played, lambda obs: perceptron(weights["actor"], obs).argmax(-1))

    names |= {"STOP": SOLVED, "joined": counted, "evaluate": test}  # the function finds these in place of its own
    return names["solve_cartpole"](cartpoles, seed, samplers)["curve"][-1]


def rllib(seed: int, limit: int = 300_000, runners: Mapping[str, Any] | None = None) -> tuple[int, float, float]:
    """Train with the settings of RLlib's example cartpole_ppo.py and two EnvRunners, PPO's default."""
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

    model = DefaultModelConfig(fcnet_hiddens=[32], fcnet_activation="linear", vf_share_layers=True)
    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=2, **(runners or {}))
        .training(lr=0.0003, num_epochs=6, vf_loss_coeff=0.01)
        .rl_module(model_config=model)
        .debugging(seed=seed)
    )
    algo = config.build_algo()

    def act(obs: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return algo.get_module().forward_inference({"obs": torch.from_numpy(obs)})["action_dist_inputs"].argmax(-1)

    try:
        race, steps = Race(seed), 0
        while race.goes_on(steps, act) and steps < limit:
            steps = int(algo.train()["num_env_steps_sampled_lifetime"])
        return race.steps, race.seconds, race.mean
    finally:
        algo.stop()


def sb3(seed: int, limit: int = 100_000) -> tuple[int, float, float]:
    """Train with rl-zoo's tuned settings for CartPole-v1; the linear schedules end at 100,000 steps."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env

    settings = {"n_steps": 32, "batch_size": 256, "gae_lambda": 0.8, "gamma": 0.98, "n_epochs": 20, "ent_coef": 0.0}
    schedules = {"learning_rate": lambda left: 0.001 * left, "clip_range": lambda left: 0.2 * left}
    envs = make_vec_env("CartPole-v1", n_envs=8, seed=seed)
    model = PPO("MlpPolicy", envs, seed=seed, device="cpu", **settings, **schedules)
    race = Race(seed)

    class Referee(BaseCallback):
        going = True

        def _on_rollout_start(self) -> None:  # an iteration has ended: the gradient steps on the last rollout are done
            self.going = race.goes_on(self.num_timesteps, lambda obs: model.predict(obs, deterministic=True)[0])

        def _on_step(self) -> bool:
            return self.going

    model.learn(limit, callback=Referee())
    return race.steps, race.seconds, race.mean


def elsewhere(python: str, seed: int) -> tuple[int, float, float]:
    """Train Stable-Baselines3's PPO with another Python, on its own."""
    done = subprocess.run([python, __file__, "--only-sb3", str(seed)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{python} could not run Stable-Baselines3:\n{done.stderr[-1500:]}")
    return tuple(json.loads(done.stdout.splitlines()[-1]))


def compare(seeds: int, python: str) -> dict[str, str]:
    """Let everybody train with every seed, in turn, and return the figure."""
    import ray

    from coursekit.ray_bridge.quiet import quiet

    quiet()
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    many = {
        "num_envs_per_env_runner": 16,
        "gym_env_vectorize_mode": "vector_entry_point",
    }  # the environment that ours uses
    ways: dict[str, Callable[[int], tuple[int, float, float]]] = {
        "ours, 2 samplers": lambda seed: ours(seed, 2),
        "ours, 1 sampler": lambda seed: ours(seed, 1),
        "RLlib's settings": rllib,
        "RLlib, 2 x 16 envs": lambda seed: rllib(seed, runners=many),
    }
    if python:
        ways["Stable-Baselines3"] = lambda seed: elsewhere(python, seed)
    rows: dict[str, list] = {name: [] for name in ways}
    for seed in range(seeds):
        for name, way in ways.items():
            steps, seconds, mean = way(seed)
            rows[name].append((steps, seconds, mean))
            print(f"  seed {seed} {name:20} {steps:7} steps {seconds:7.2f} s, mean return {mean:.0f}", flush=True)
    ray.shutdown()
    return report(rows)


def report(rows: dict[str, list]) -> dict[str, str]:
    """Print the medians, and return the seconds; a seed that never reached the target took forever."""
    figures = []
    print(
        f"\n{'':22}{'steps a second':>16}{f'steps to {SOLVED}':>14}{f'seconds to {SOLVED}':>16}{'reached':>9}{'load':>7}"
    )
    for name, runs in rows.items():
        speed = statistics.median(steps / seconds for steps, seconds, _ in runs)
        ends = [(steps, seconds) if mean >= SOLVED else (float("inf"),) * 2 for steps, seconds, mean in runs]
        steps, seconds = (statistics.median(column) for column in zip(*ends, strict=True))
        reached = sum(mean >= SOLVED for *_, mean in runs)
        print(f"{name:22}{speed:16.0f}{steps:14.0f}{seconds:16.2f}{reached:6} of {len(runs)}{os.getloadavg()[0]:6.1f}")
        figures.append(f"{name}: {seconds:.1f} s")
    claim = f"train PPO on CartPole until a mean return of {SOLVED} (the median of {len(runs)} seeds)"
    return {claim: "; ".join(figures)}


def main() -> dict[str, str]:
    """Run the comparison and return its figure, or run a single training where the comparison asks for it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--target", type=int, default=SOLVED, help="the mean return at which a training ends")
    parser.add_argument("--sb3", default="", metavar="PYTHON")
    parser.add_argument("--only-sb3", type=int, metavar="SEED", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    globals()["SOLVED"] = options.target
    if options.only_sb3 is not None:
        print(json.dumps(sb3(options.only_sb3)))
        return {}
    return compare(options.seeds, options.sb3)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    for claim, figure in main().items():
        print(f"| {claim} | {figure} |")
