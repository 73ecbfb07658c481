"""Worlds for the judges of chapters 9 and 10: CartPoles seen through glasses that no agent from elsewhere is used to."""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.random import Generator

from coursekit.given.cartpoles import turned_cartpoles

# Each row, or its opposite, balances the usual pole for 500 steps: go right if it is positive, multiplied by what is observed.
USUAL = np.array([[0.0, 0.2, 1.0, 1.0], [0.0, 0.1, 1.0, 0.3], [0.1, 0.5, 1.0, 1.5]])


def hard_turn(rng: Generator, seed: int) -> np.ndarray:
    """Return a matrix, shape [4, 4], through which nobody balances who can only balance the usual pole."""
    while True:
        turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
        known = (partial(_follow, rule) for rule in (*USUAL, *-USUAL))
        if all(mean_return(choose, turn, seed, episodes=10) < 150 for choose in known):
            return turn


def _follow(rule: np.ndarray, obs: np.ndarray) -> np.ndarray:
    return (obs @ rule > 0).astype(int)


def mean_return(choose: Callable, turn: np.ndarray, seed: int, episodes: int = 100) -> float:
    """Return the mean return of N episodes; `choose` maps observations, shape [N, 4], to actions, shape [N]."""
    envs = turned_cartpoles(turn, episodes)
    obs, _ = envs.reset(seed=seed)
    returns, running = np.zeros(episodes), np.ones(episodes, bool)
    while running.any():
        obs, rewards, terminated, truncated, _ = envs.step(choose(obs))
        returns += rewards * running
        running &= ~(terminated | truncated)
    return float(returns.mean())
