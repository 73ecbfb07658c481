"""Environments that several chapters share: a corridor, and a wrapper that makes any environment as slow as a real simulator.

`gymnasium.make("coursekit.given.environments:SimpleCorridor-v0")` finds the corridor in every process, a Ray worker included.
"""

import time
from typing import Any

import gymnasium
import numpy as np

from coursekit.given.pictures import draw_corridor


class SimpleCorridor(gymnasium.Env):
    """A corridor of `length` squares: every episode starts on square 0 and ends at the exit, the last square.

    Action 0 goes one square to the left (square 0 has a wall), 1 one to the right. The observation is the number of the square,
    shape [1]. A step costs 0.1; the one that reaches the exit earns 1. There is no limit on the steps: TimeLimit sets one.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 5}

    def __init__(self, length: int = 10, render_mode: str | None = None):
        self.length, self.render_mode, self.position = length, render_mode, 0
        self.observation_space = gymnasium.spaces.Box(0, length - 1, shape=(1,), dtype=np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        """Return the first observation and an empty dict."""
        super().reset(seed=seed)
        self.position = 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Return observation, reward, terminated, truncated (always False) and an empty dict."""
        self.position = min(max(self.position + (1 if action else -1), 0), self.length - 1)
        arrived = self.position == self.length - 1
        return self._observation(), 1.0 if arrived else -0.1, arrived, False, {}

    def render(self) -> Any:
        """Return a picture, shape [height, width, 3], where the environment was made with `render_mode="rgb_array"`."""
        return draw_corridor(self) if self.render_mode == "rgb_array" else None

    def _observation(self) -> np.ndarray:
        return np.array([self.position], np.float32)


class SlowSimulator(gymnasium.Wrapper):
    """An environment whose steps take `seconds` on average: a stand-in for a game, a robot or a physics engine.

    It sleeps, like a program that waits for another machine; with `busy=True`, it uses as many seconds of CPU time instead, so
    steps that share a core take longer. With `spread=0`, each step takes the same time; with `spread=1`, the times vary like
    those of an unreliable network (exponentially).
    """

    def __init__(self, env: gymnasium.Env, seconds: float = 0.005, spread: float = 0.0, busy: bool = False):
        super().__init__(env)
        self.seconds, self.spread, self.busy = seconds, spread, busy
        self._dice = np.random.default_rng()  # its own: the environment's random numbers stay what they are

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        """Reset the environment without a delay."""
        if seed is not None:
            self._dice = np.random.default_rng(seed)
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict]:
        """Sleep or compute, then take the step."""
        seconds = self.seconds * (1 - self.spread + self.spread * self._dice.exponential())
        if not self.busy:
            time.sleep(seconds)
            return self.env.step(action)
        end = time.thread_time() + seconds
        while time.thread_time() < end:  # keeps a core busy
            pass
        return self.env.step(action)


if "SimpleCorridor-v0" not in gymnasium.registry:
    gymnasium.register(
        "SimpleCorridor-v0", entry_point="coursekit.given.environments:SimpleCorridor", max_episode_steps=100
    )
