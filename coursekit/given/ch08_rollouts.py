"""What chapter 8 hands out, and the probes that drive its answers."""

import contextlib
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypedDict

import gymnasium
import numpy as np
from gymnasium.vector import SyncVectorEnv, VectorEnv

from coursekit.given.environments import SlowSimulator
from coursekit.given.scripted import Scripted
from coursekit.ray_bridge import rendezvous

MB = 2**20
NO_WEIGHTS: dict[str, Any] = {"version": -1, "w": np.zeros(1)}


def carts(count: int, seconds: float = 0.0, busy: bool = False) -> VectorEnv:
    """Return `count` CartPoles that step one after the other; each step takes `seconds`."""

    def cart() -> gymnasium.Env:
        env = gymnasium.make("CartPole-v1")
        return SlowSimulator(env, seconds, busy=busy) if seconds else env

    return SyncVectorEnv([cart] * count)


def leans(weights: dict, obs: np.ndarray) -> np.ndarray:
    """Return an action for each observation, shape [N, 4]: push to the right where the weighted sum is positive."""
    return (obs @ weights["pole"] > 0).astype(int)


def chooses(weights: dict, obs: np.ndarray) -> np.ndarray:
    """Return an action (0 to 3) for each observation, shape [N, 3], which shows with which weights it was chosen."""
    return (np.asarray(obs) @ np.asarray(weights["w"])).astype(int) % 4


# Probes: each drives a learner's object with the judge's inputs, and returns raw results.


def play_fragments(Sampler: Callable, scripts: list[list[dict]], parts: list, seed: int) -> list[Any]:
    """Return the fragments of one sampler with scripted environments; a part is [weights, or None for the old ones, steps]."""

    def make_envs() -> VectorEnv:
        return SyncVectorEnv([partial(Scripted, script) for script in scripts])

    sampler, fragments = Sampler(make_envs, chooses, seed), []
    for weights, steps in parts:
        if weights is not None:
            sampler.set_weights(weights)
        fragments.append(sampler.sample(steps))
    return fragments


class Fragment(TypedDict):
    """What tells a fragment of `OnCue` apart: its sampler, its place among that one's, its frames, and the weights behind it."""

    who: int
    number: int
    steps: int
    version: int
    sum: float


class OnCue:
    """Stands in for a sampler: its fragments say which sampler collected them, and with which weights; a cue says when."""

    def __init__(self, me: int, cue: Callable[[int, int], None]):
        self._me, self._cue, self._played, self._weights = me, cue, 0, NO_WEIGHTS

    def set_weights(self, weights: dict) -> None:
        """Use these weights from now on."""
        self._weights = weights

    def sample(self, steps: int) -> Fragment:
        """Return the next fragment; `cue(me, number)` comes first."""
        number, self._played = self._played, self._played + 1
        version, total = self._weights["version"], float(np.sum(self._weights["w"]))
        self._cue(self._me, number)
        return {"who": self._me, "number": number, "steps": steps, "version": version, "sum": total}


def on_cue(count: int, cue: Callable[[int, int], None]) -> list:
    """Return `count` actors that collect on this cue, once they are ready."""
    import ray

    start = ray.remote(OnCue).options(num_cpus=0)
    crew = [start.remote(me, cue) for me in range(count)]
    ray.get([actor.__ray_ready__.remote() for actor in crew])
    return crew


class Rounds(TypedDict):
    """What each round gave back, and whether its samplers never met."""

    rounds: list[Any]
    missed: bool


def collect_rounds(collect: Callable, rounds: Sequence[dict], count: int, steps: int) -> Rounds:
    """Return what the rounds gave back, up to one whose samplers never met; in a round, the last sampler ends first."""
    point = rendezvous.new_point()

    def cue(me: int, number: int) -> None:
        rendezvous.signal(point, f"{number}-in-{me}")
        if not all(
            rendezvous.wait_for(point, f"{number}-in-{other}", "missed", "all samplers to run at the same time")
            for other in range(count)
        ):
            rendezvous.signal(point, "missed")
        elif me + 1 < count:
            rendezvous.wait_for(point, f"{number}-out-{me + 1}", what="another sampler to finish")
            time.sleep(0.2)  # an answer that waits for the samplers notices each end before the next
        rendezvous.signal(point, f"{number}-out-{me}")

    samplers, results = on_cue(count, cue), []
    try:
        for weights in rounds:
            results.append(collect(list(samplers), weights, steps))
            if missed := rendezvous.signalled(point, "missed"):
                break  # once is enough: a rendezvous that fails takes its time
    finally:
        rendezvous.signal(point, "missed")  # what is still running need not wait
    return {"rounds": results, "missed": missed}


class Lesson:
    """Stands in for a learner: records each fragment, makes a new version of the weights, and kills a sampler at the sixth."""

    def __init__(self, point: str, doomed: Any):
        self.heard: list = []
        self._point, self._doomed = point, doomed

    def __call__(self, fragment: Any) -> dict:
        """Return the new weights: version 1 after the first fragment, 2 after the second."""
        self.heard.append(fragment)
        version = len(self.heard)
        if version == 6:
            _kill(self._doomed)
        rendezvous.signal(self._point, f"learned-{version}")
        return NO_WEIGHTS | {"version": version}


def _kill(actor: Any) -> None:
    """Kill an actor; return when this process knows that it is dead."""
    import ray

    ray.kill(actor)
    with contextlib.suppress(ray.exceptions.RayActorError):
        ray.get(actor.__ray_ready__.remote(), timeout=60)
    time.sleep(0.3)  # the fragment that will never come is known to be lost at about the same moment


class Learned(TypedDict):
    """What `learn` heard, the name of the error that was raised ("" for none), and which of four things a sampler signaled."""

    heard: list[Fragment]
    raised: str
    alone: bool
    waited: bool
    left_out: bool
    stayed: bool


def with_a_straggler_and_a_death(collect_async: Callable, steps: int, count: int, slow: int, dies: int) -> Learned:
    """Return what was learned and raised: one sampler delivers its first after three others, one dies during its first after six.

    After six, the third does not go on before the slow one has been started again. A fragment that the slow one starts near
    the end lasts until `collect_async` is back.
    """
    import ray

    point, waits_for, raised = rendezvous.new_point(), {slow: "learned-3", dies: "learned-6"}, ""
    third = 3 - slow - dies
    late = f"learned-{count}", f"learned-{count - 2}"

    def cue(me: int, number: int) -> None:
        time.sleep(0.05)
        if me == slow and number == 1:
            rendezvous.signal(point, "started again")
        if number == 0:
            rendezvous.signal(point, f"in-{me}")
            if not all(
                rendezvous.wait_for(point, f"in-{other}", "alone", "all samplers to run at the same time")
                for other in range(3)
            ):
                rendezvous.signal(point, "alone")
            elif me in waits_for and not rendezvous.wait_for(
                point, waits_for[me], "over", "more fragments to reach `learn`"
            ):
                rendezvous.signal(point, "waited")
        elif me == third and rendezvous.signalled(point, "learned-6") and not _goes_on(point):
            rendezvous.signal(point, "left_out")
        elif rendezvous.signalled(point, late[me == slow]) and not rendezvous.wait_for(point, "over"):
            rendezvous.signal(point, "stayed")

    crew = on_cue(3, cue)
    lesson = Lesson(point, crew[dies])
    try:
        collect_async(crew, NO_WEIGHTS | {"version": 0}, steps, count, lesson)
    except ray.exceptions.RayActorError as error:
        raised = type(error).__name__
    finally:
        alone, waited, left_out, stayed = (
            rendezvous.signalled(point, name) for name in ("alone", "waited", "left_out", "stayed")
        )
        rendezvous.signal(point, "over")
    return {
        "heard": lesson.heard,
        "raised": raised,
        "alone": alone,
        "waited": waited,
        "left_out": left_out,
        "stayed": stayed,
    }


def _goes_on(point: str) -> bool:
    """Return whether the slow sampler has been started again, or whether it is known already that it has not."""
    return rendezvous.signalled(point, "left_out") or rendezvous.wait_for(
        point, "started again", "over", "the slow sampler to be started again"
    )
