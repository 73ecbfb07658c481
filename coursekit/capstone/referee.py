"""The judge: it owns the environments and their seeds, and all that it takes from a policy are actions, as plain data."""

import functools
import hashlib
import math
from typing import Any, NamedTuple

import numpy as np

from coursekit.given import warehouse

EPISODES = 200
Returns = np.ndarray  # [EPISODES]


class Score(NamedTuple):
    """A mean return and its 95 % interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.1f} ± {(self.high - self.low) / 2:.1f}"

    def signed(self) -> str:
        """Return it as a difference is written."""
        return f"{self.mean:+.1f} ± {(self.high - self.low) / 2:.1f}"


def score(returns: Returns) -> Score:
    """Return the mean of independent returns with its 95 % interval: 1.96 standard errors to each side."""
    mean, half = float(np.mean(returns)), 1.96 * float(np.std(returns, ddof=1)) / math.sqrt(len(returns))
    return Score(mean, mean - half, mean + half)


def drawn(seed: int, what: str) -> int:
    """Return a seed made from the judge's, by a way with no way back: one tells nothing of another."""
    return int.from_bytes(hashlib.sha256(f"{what} {seed}".encode()).digest()[:7])


def judge(policy: warehouse.Policy, world: warehouse.World, seed: int) -> Returns:
    """Return what a policy earns in each of a seed's episodes in a world."""
    return warehouse.evaluate(policy, EPISODES, seed, functools.partial(warehouse.make_envs, world=world))


def rules(world: warehouse.World) -> dict[str, warehouse.Policy]:
    """Return what an entry is compared with: chance, the baseline, and the same rule where all prices are known."""
    informed = warehouse.paying(world.prices)
    return {"chance": warehouse.random_actions, "baseline": warehouse.baseline, "informed": informed}


class NotActions(ValueError):
    """What is wrong with what a policy returned, and what it should be."""


@functools.cache
def choices() -> int:
    """Return how many actions there are."""
    return int(warehouse.make_envs(1).single_action_space.n)  # type: ignore[attr-defined]


def checked(actions: Any, count: int) -> np.ndarray:
    """Return actions, int [count], that are what they should be; raises NotActions that says what they are instead."""
    wanted = f"A policy returns one whole number from 0 to {choices() - 1} per observation: an array of shape [{count}]"
    if isinstance(actions, str | bytes | dict | set) or actions is None:
        raise NotActions(f"the policy returned {type(actions).__name__}. {wanted}.")
    try:
        found = np.asarray(actions)
    except ValueError:  # lists of different lengths
        raise NotActions(f"the policy returned a list of lists of different lengths. {wanted}.") from None
    if found.shape != (count,):
        hint = "; `scores.argmax(axis=1)` turns scores into actions" if found.shape == (count, choices()) else ""
        raise NotActions(f"the policy returned an array of shape {list(found.shape)}. {wanted}{hint}.")
    if found.dtype.kind == "f" and np.isnan(found).any():
        raise NotActions(f"the policy returned NaN. {wanted}. Look for NaN in the weights of your networks.")
    if found.dtype.kind not in "iu":
        places = found.dtype.kind in "fb" and np.isin(found, np.arange(choices())).all()
        hint = "; `actions.astype(int)` converts them" if places else ""  # it would cut off fractions
        raise NotActions(f"the policy returned an array of {found.dtype}. {wanted}{hint}.")
    if wrong := np.flatnonzero((found < 0) | (found >= choices())).tolist():
        bad = f"action {found[wrong[0]]} for observation {wrong[0]}"
        raise NotActions(f"the policy returned {bad}, which does not exist. {wanted}.")
    return found.astype(int)
