"""The CartPoles of chapters 9 and 10: many that step together, and ones seen through turned glasses, for the judge."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv, VectorObservationWrapper


def cartpoles(count: int) -> VectorEnv:
    """Return `count` CartPoles that step together: Gymnasium's own, which moves all carts with one line of NumPy."""
    return gymnasium.make_vec("CartPole-v1", num_envs=count, vectorization_mode="vector_entry_point")


class Turned(VectorObservationWrapper):
    """CartPoles seen through a turned pair of glasses: the four numbers of an observation, multiplied by a matrix."""

    def __init__(self, env: VectorEnv, turn: np.ndarray):
        super().__init__(env)
        self.turn = np.asarray(turn, np.float32)

    def observations(self, observations: Any) -> Any:
        """Return the observations, shape [N, 4], turned."""
        return observations @ self.turn


def turned_cartpoles(turn: np.ndarray, count: int) -> VectorEnv:
    """Return `count` CartPoles whose observations are turned by a matrix, shape [4, 4]."""
    return Turned(cartpoles(count), turn)
