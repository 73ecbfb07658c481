"""What chapter 8 hands out, and the probes that drive its answers."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import SyncVectorEnv, VectorEnv

from coursekit import meeting
from coursekit.envs import SlowSimulator
from coursekit.given.ch07_environments import Scripted

MB = 2**20


def carts(count: int, seconds: float = 0.0, busy: bool = False) -> VectorEnv:
    """Return so many CartPoles that step one after the other, each step taking so many seconds."""

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


def play_fragments(Sampler: Callable, scripts: list[list[dict]], parts: list, seed: int) -> list:
    """Return the fragments of one sampler with scripted environments; a part is [weights, or None for the old ones, steps]."""

    def make_envs() -> VectorEnv:
        return SyncVectorEnv([partial(Scripted, script) for script in scripts])

    sampler, fragments = Sampler(make_envs, chooses, seed), []
    for weights, steps in parts:
        if weights is not None:
            sampler.set_weights(weights)
        fragments.append(_plain(sampler.sample(steps)))
    return fragments


def _plain(fragment: Any) -> Any:
    """Return a fragment with its lists as arrays where their items fit together."""
    if not isinstance(fragment, dict):
        return type(fragment).__name__
    return {str(key): _array(value) for key, value in fragment.items()}


def _array(value: Any) -> Any:
    if not isinstance(value, list | tuple | np.ndarray):
        return value if isinstance(value, int | float | str | np.generic) else type(value).__name__
    try:
        array = np.asarray(value)
    except ValueError:  # of different shapes
        return "a list whose items have different shapes"
    return array if array.dtype.kind in "biuf" else "a list of other things than numbers"


class OnCue:
    """Stands in for a sampler: tells who played which fragment with which weights. `cue` decides when a fragment is ready."""

    def __init__(self, me: int, cue: Callable[[int, int], None]):
        self._me, self._cue, self._played = me, cue, 0
        self._weights: dict = {"version": -1, "w": np.zeros(1)}

    def set_weights(self, weights: dict) -> None:
        """Play with these from now on."""
        self._weights = weights

    def sample(self, steps: int) -> dict:
        """Return who played it, its number, and what is needed to recognise the weights."""
        number, self._played = self._played, self._played + 1
        played_with = {"version": self._weights["version"], "sum": float(np.sum(self._weights["w"]))}
        self._cue(self._me, number)
        return {"who": self._me, "number": number, "steps": steps, **played_with}


@contextlib.contextmanager
def on_cue(count: int, cue: Callable[[int, int], None]) -> Iterator[list]:
    """Yield so many actors that play on cue; they end with the block, also after an error."""
    import ray

    actors = [ray.remote(OnCue).options(num_cpus=0).remote(me, cue) for me in range(count)]
    try:
        ray.get([actor.__ray_ready__.remote() for actor in actors])
        yield actors
    finally:
        for actor in actors:
            ray.kill(actor)


def collect_rounds(collect: Callable, rounds: Sequence[dict], count: int, steps: int) -> dict:
    """Return what each round gave back, and which samplers never met; in a round, the last sampler ends first."""
    room = meeting.new_room()

    def cue(me: int, number: int) -> None:
        together = f"{room}-{number}"
        meeting.signal(together, f"in-{me}")
        if not all(meeting.wait_for(together, f"in-{other}", unless="missed") for other in range(count)):
            meeting.signal(together, "missed")
        elif me + 1 < count:
            meeting.wait_for(together, f"out-{me + 1}")
            time.sleep(0.2)  # whoever waits for the samplers notices each end before the next
        meeting.signal(together, f"out-{me}")

    with on_cue(count, cue) as samplers:
        results = [_listed(collect(samplers, weights, steps)) for weights in rounds]
    missed = [meeting.signalled(f"{room}-{number}", "missed") for number in range(len(rounds))]
    return {"rounds": results, "missed": missed}


def _listed(result: Any) -> Any:
    """Return a list of fragments as it is, with the name of its type in the place of what is not a fragment."""
    if not isinstance(result, list | tuple):
        return type(result).__name__
    return [item if isinstance(item, dict) else type(item).__name__ for item in result]


class Lesson:
    """Stands in for a learner: notes each fragment, and makes new weights of the old ones."""

    def __init__(self, weights: dict, room: str):
        self.heard: list = []
        self._w, self._room = np.asarray(weights["w"]), room

    def __call__(self, fragment: Any) -> dict:
        """Return the new weights: version 1 after the first fragment, 2 after the second."""
        self.heard.append(fragment if isinstance(fragment, dict) else type(fragment).__name__)
        version = len(self.heard)
        meeting.signal(self._room, f"learned-{version}")
        return {"version": version, "w": self._w + version}


def with_a_straggler(collect_async: Callable, weights: dict, steps: int, plan: dict) -> dict:
    """Return what was learned while one of the samplers only hands in its first fragment when most have been learned.

    `plan` has `samplers`, `slow` (who), `count` and `after`: how many fragments are learned before the slow one hands in.
    """
    room = meeting.new_room()
    lesson, slow, others = Lesson(weights, room), plan["slow"], range(plan["samplers"])
    released = f"learned-{plan['after']}"

    def cue(me: int, number: int) -> None:
        time.sleep(0.05)
        if number > 0:
            return
        meeting.signal(room, f"in-{me}")
        if not all(meeting.wait_for(room, f"in-{other}", unless="alone") for other in others):
            meeting.signal(room, "alone")
        elif me == slow:
            on_time = meeting.wait_for(room, released, unless="returned") or meeting.signalled(room, "returned")
            meeting.signal(room, "on-time" if on_time else "gave-up")

    with on_cue(plan["samplers"], cue) as actors:
        collect_async(actors, weights, steps, plan["count"], lesson)
        meeting.signal(room, "returned")
    alone, gave_up = meeting.signalled(room, "alone"), meeting.signalled(room, "gave-up")
    return {"heard": lesson.heard[:1000], "alone": alone, "waited": gave_up}


def with_a_death(collect_async: Callable, weights: dict, steps: int, plan: dict) -> dict:
    """Return what was learned, and what was raised, when the process of one sampler is killed over its first fragment.

    `plan` has `samplers`, `dies` (who) and `count`. The others hand in nothing before its death has been noticed here.
    """
    import ray

    room, dies = meeting.new_room(), plan["dies"]
    lesson, raised = Lesson(weights, room), ""

    def cue(me: int, number: int) -> None:
        if me == dies:
            meeting.signal(room, "began")
            time.sleep(3600)  # it is killed in its sleep
        meeting.wait_for(room, "noticed", unless="returned")
        time.sleep(0.1)

    with on_cue(plan["samplers"], cue) as actors:
        killer = threading.Thread(target=_kill_once_it_began, args=[actors[dies], room])
        killer.start()
        try:
            collect_async(actors, weights, steps, plan["count"], lesson)
        except ray.exceptions.RayActorError as error:
            raised = type(error).__name__
        finally:
            meeting.signal(room, "returned")
            killer.join()
    return {"heard": lesson.heard[:1000], "raised": raised}


def _kill_once_it_began(actor: Any, room: str) -> None:
    """Kill an actor over its first fragment; leave a signal once this process knows that it is dead."""
    import ray

    meeting.wait_for(room, "began", unless="returned")
    ray.kill(actor)
    with contextlib.suppress(ray.exceptions.RayActorError):
        ray.get(actor.__ray_ready__.remote(), timeout=60)
    time.sleep(0.3)  # the fragment that will never come is known to be lost at about the same moment
    meeting.signal(room, "noticed")
