"""Environments that play episodes from a script, and what comes of that: chapters 7 and 8 are judged with them."""

from collections.abc import Sequence
from itertools import islice
from typing import Any

import gymnasium
import numpy as np


class Scripted(gymnasium.Env):
    """An environment that plays episodes from a script and writes down what it is asked to do.

    An episode has a `length`, and ends `truncated` or terminated. It observes [the seed of the first reset, the number of
    the episode, the step in it]. A step earns `rewards[step]` where the script has them, else ten times the action plus the step.
    """

    def __init__(self, script: Sequence[dict]):
        self.observation_space = gymnasium.spaces.Box(-1e6, 1e6, shape=(3,), dtype=np.float32)
        self.action_space = gymnasium.spaces.Discrete(4)
        self.calls: list[tuple[str, Any]] = []
        self.script, self.seed, self.episode, self.clock = script, -1, -1, 0

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        """Return the first observation of the next episode."""
        self.calls.append(("reset", seed))
        if seed is not None:
            self.seed, self.episode = seed, -1
        self.episode, self.clock = self.episode + 1, 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Return the next step of the script; after the end of an episode there are some empty ones, then it ends again."""
        self.calls.append(("step", int(action)))
        part = self.script[self.episode % len(self.script)]
        self.clock += 1
        over, late = self.clock == part["length"], self.clock > part["length"] + 20
        rewards = part.get("rewards", [])
        reward = rewards[self.clock - 1] if self.clock <= len(rewards) else 10.0 * int(action) + self.clock
        terminated, truncated = over and not part["truncated"], over and part["truncated"]
        return self._observation(), reward, terminated or late, truncated or late, {}

    def _observation(self) -> np.ndarray:
        return np.array([self.seed, self.episode, self.clock], np.float32)


def frames_of(scripts: list[list[dict]], steps: int, seed: int) -> np.ndarray:
    """Return what scripted environments play that reset themselves: `steps` frames and the one after them, [frame, env, 5].

    A frame has what the environment observes in it, then the length of the episode, and whether that is truncated. The one
    whose clock has reached the length is the reset.
    """
    played = []
    for number, script in enumerate(scripts):
        parts = [(episode, script[episode % len(script)]) for episode in range(steps + 1)]
        frames = (
            (seed + number, episode, clock, part["length"], part["truncated"])
            for episode, part in parts
            for clock in range(part["length"] + 1)
        )
        played.append(list(islice(frames, steps + 1)))
    return np.array(played).swapaxes(0, 1)
