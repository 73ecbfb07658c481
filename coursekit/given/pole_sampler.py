"""The sampler of chapter 21: it runs CartPole with NumPy alone, so its process never imports PyTorch."""

from collections.abc import Iterator

import numpy as np

from coursekit.given.cartpoles import cartpoles
from coursekit.given.ch21_learners import perceptron

GAMMA, LAMBDA = 0.99, 0.95
Rows = dict[str, np.ndarray]


class Sampler:
    """Runs CartPoles with the latest weights that it received, and returns rows that are ready to learn from."""

    def __init__(self, seed: int, envs: int = 64, steps: int = 64):
        self.envs, self.steps, self.rng = cartpoles(envs), steps, np.random.default_rng(seed)
        self.obs, _ = self.envs.reset(seed=seed)
        self.over = np.zeros(envs, bool)  # after the end of an episode, the next frame is a reset

    def set_weights(self, weights: dict) -> None:
        """Use these weights from now on."""
        self.weights = weights

    def sample(self) -> Rows:
        """Return the real frames of a fragment as a dict of arrays of equal length."""
        frames = [self._frame() for _ in range(self.steps)]
        columns = {name: np.stack([frame[name] for frame in frames]) for name in frames[0]}
        values = perceptron(self.weights["critic"], np.concatenate([columns["obs"], self.obs[None]]))[..., 0]
        advantages = gae(columns["rewards"], values, columns.pop("terminated"), columns.pop("truncated"))
        rows = columns | {"advantages": advantages, "targets": advantages + values[:-1]}
        real = rows.pop("real")
        rows.pop("rewards")
        return {
            name: column[real] if name == "actions" else column[real].astype(np.float32)
            for name, column in rows.items()
        }

    def stream(self, count: int) -> Iterator[Rows]:
        """Yield this many fragments, each as soon as it exists."""
        for _ in range(count):
            yield self.sample()

    def _frame(self) -> dict[str, np.ndarray]:
        obs, real = self.obs, ~self.over
        logits = perceptron(self.weights["actor"], obs)
        actions = (logits + self.rng.gumbel(size=logits.shape)).argmax(-1)
        logp = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        logp = np.take_along_axis(logp, actions[:, None], -1)[:, 0]
        self.obs, rewards, terminated, truncated, _ = self.envs.step(actions)
        self.over = terminated | truncated
        ends = {"terminated": terminated, "truncated": truncated}
        return {"obs": obs, "actions": actions, "logp": logp, "rewards": rewards, "real": real, **ends}


def gae(rewards: np.ndarray, values: np.ndarray, terminated: np.ndarray, truncated: np.ndarray) -> np.ndarray:
    """Return advantages, shape [T, N]; `values` is [T+1, N], its last row the bootstrap (Schulman et al. 2016, eq. 16)."""
    advantages, later = np.zeros(rewards.shape), np.zeros(rewards.shape[1])
    for t in reversed(range(len(rewards))):
        delta = rewards[t] + GAMMA * values[t + 1] * (1.0 - terminated[t]) - values[t]
        later = delta + GAMMA * LAMBDA * later * (1.0 - (terminated[t] | truncated[t]))
        advantages[t] = later
    return advantages


def mean_return(weights: dict, seed: int, episodes: int = 50) -> float:
    """Return the mean return of these episodes of CartPole; each step takes the action with the highest logit."""
    envs = cartpoles(episodes)
    obs, _ = envs.reset(seed=seed)
    returns, running = np.zeros(episodes), np.ones(episodes, bool)
    while running.any():
        obs, rewards, terminated, truncated, _ = envs.step(perceptron(weights["actor"], obs).argmax(-1))
        returns += rewards * running
        running &= ~(terminated | truncated)
    return float(returns.mean())
