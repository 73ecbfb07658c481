"""What chapter 8 hands out, and the probes that drive its answers."""

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import SyncVectorEnv, VectorEnv

from coursekit import meeting
from coursekit.envs import SlowSimulator
from coursekit.given.ch07_environments import Scripted

MB = 2**20
NO_WEIGHTS = {"version": -1, "w": np.zeros(1)}


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
    """Return a fragment with the names of their types in the place of values that are no arrays of numbers and no number."""
    if not isinstance(fragment, dict):
        return type(fragment).__name__
    return {str(key): value if _is_number(value) else _named(value) for key, value in fragment.items()}


def _is_number(value: Any) -> bool:
    numbers = isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
    return numbers or isinstance(value, int | float | np.generic)


def _named(value: Any) -> str:
    return f"array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__


class OnCue:
    """Stands in for a sampler: tells who played which fragment with which weights. A cue decides when a fragment is ready."""

    def begin(self, me: int, cue: Callable[[int, int], None]) -> None:
        """Begin anew, with no weights, as sampler `me`: it calls `cue(me, number)` before a fragment is ready."""
        self._me, self._cue, self._played = me, cue, 0
        self._weights: dict = NO_WEIGHTS

    def set_weights(self, weights: dict) -> None:
        """Play with these from now on."""
        self._weights = weights

    def sample(self, steps: int) -> dict:
        """Return who played it, its number, and what is needed to recognise the weights."""
        number, self._played = self._played, self._played + 1
        played_with = {"version": self._weights["version"], "sum": float(np.sum(self._weights["w"]))}
        self._cue(self._me, number)
        return {"who": self._me, "number": number, "steps": steps, **played_with}


CREWS: dict[tuple, list] = {}  # of each Ray: a process takes a second to start, so the actors stay for the next check


def on_cue(count: int, cue: Callable[[int, int], None]) -> list:
    """Return so many actors that play on this cue: those of the check before, and new ones for those that have died."""
    import ray

    context = ray.get_runtime_context()
    crew = CREWS.setdefault((context.get_node_id(), context.get_job_id()), [])
    crew[:] = [actor for actor in crew if _is_free(actor)]
    crew += [ray.remote(OnCue).options(num_cpus=0).remote() for _ in range(count - len(crew))]
    ray.get([actor.begin.remote(me, cue) for me, actor in enumerate(crew[:count])])
    return crew[:count]


def _is_free(actor: Any) -> bool:
    """Return whether an actor lives and has done all that it was asked for; one that is still busy is ended."""
    import ray

    try:
        ray.get(actor.__ray_ready__.remote(), timeout=10)
        return True
    except ray.exceptions.RayActorError:
        return False
    except ray.exceptions.GetTimeoutError:
        ray.kill(actor)
        return False


class Touched(BaseException):
    """Somebody has used a sampler; no `except Exception` stands in its way."""


class Nobody:
    """Ends whoever uses it: so a stub is known before any process is started for it."""

    def __getattr__(self, name: str) -> Any:
        raise Touched

    def __reduce__(self) -> Any:
        raise Touched  # before it travels to a task


def until_it_is_touched(collect: Callable, *arguments: Any) -> None:
    """Run an answer up to where it uses a sampler; raises what it raises before that."""
    with contextlib.suppress(Touched):
        collect([Nobody(), Nobody(), Nobody()], *arguments)


def collect_rounds(collect: Callable, rounds: Sequence[dict], count: int, steps: int) -> dict:
    """Return what the rounds gave back, up to one whose samplers never met; in a round, the last sampler ends first."""
    room = meeting.new_room()

    def cue(me: int, number: int) -> None:
        meeting.signal(room, f"{number}-in-{me}")
        if not all(meeting.wait_for(room, f"{number}-in-{other}", unless="missed") for other in range(count)):
            meeting.signal(room, "missed")
        elif me + 1 < count:
            meeting.wait_for(room, f"{number}-out-{me + 1}")
            time.sleep(0.2)  # whoever waits for the samplers notices each end before the next
        meeting.signal(room, f"{number}-out-{me}")

    until_it_is_touched(collect, NO_WEIGHTS, steps)
    samplers, results, missed = on_cue(count, cue), [], False
    try:
        for weights in rounds:
            results.append(_listed(collect(list(samplers), weights, steps)))
            missed = meeting.signalled(room, "missed")
            if missed:
                break  # once is enough: a meeting that fails takes its time
    finally:
        meeting.signal(room, "missed")  # nobody waits any longer
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


def in_two_scenes(collect_async: Callable, weights: dict, steps: int, samplers: int, scenes: list[dict]) -> list[dict]:
    """Return what happened with two stragglers; and, if as many fragments as asked for were learned, with a death after that."""
    until_it_is_touched(collect_async, weights, steps, scenes[0]["count"], lambda fragment: weights)
    happened = [with_stragglers(samplers, collect_async, weights, steps, scenes[0])]
    if len(happened[0]["heard"]) == scenes[0]["count"] and not happened[0]["waited"]:
        happened.append(with_a_death(samplers, collect_async, weights, steps, scenes[1]))
    return happened


def with_stragglers(samplers: int, collect_async: Callable, weights: dict, steps: int, plan: dict) -> dict:
    """Return what was learned while some of the samplers only hand in their first fragment when others have been learned.

    `plan` has `count` and `after`: pairs of a slow one and how many fragments are learned before it hands in.
    """
    room = meeting.new_room()
    lesson, others, after = Lesson(weights, room), range(samplers), dict(plan["after"])

    def cue(me: int, number: int) -> None:
        time.sleep(0.05)
        if number > 0:
            return
        meeting.signal(room, f"in-{me}")
        if not all(meeting.wait_for(room, f"in-{other}", unless="alone") for other in others):
            meeting.signal(room, "alone")
        elif me in after:
            released = f"learned-{after[me]}"
            on_time = meeting.wait_for(room, released, unless="over") or meeting.signalled(room, "over")
            if not on_time:
                meeting.signal(room, "gave-up")
                meeting.signal(room, "over")

    try:
        collect_async(on_cue(samplers, cue), weights, steps, plan["count"], lesson)
    finally:
        meeting.signal(room, "over")
    alone, gave_up = meeting.signalled(room, "alone"), meeting.signalled(room, "gave-up")
    return {"heard": lesson.heard[:1000], "alone": alone, "waited": gave_up}


def with_a_death(samplers: int, collect_async: Callable, weights: dict, steps: int, plan: dict) -> dict:
    """Return what was learned, what was raised, and how often a sampler was asked that is killed over its first fragment.

    `plan` has `dies` (who) and `count`. The others hand in nothing before its death has been noticed here.
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

    actors = on_cue(samplers, cue)
    killer = threading.Thread(target=_kill_once_it_began, args=[actors[dies], room])
    killer.start()
    doomed = CountsCalls(actors[dies])
    crew = [doomed if me == dies else actor for me, actor in enumerate(actors)]
    try:
        collect_async(crew, weights, steps, plan["count"], lesson)
    except ray.exceptions.RayActorError as error:
        raised = type(error).__name__
    finally:
        meeting.signal(room, "returned")
        killer.join()
    return {"heard": lesson.heard[:1000], "raised": raised, "asked": doomed.sample.calls}


class CountsCalls:
    """Stands in for the handle of a sampler, and counts the calls of its `sample`."""

    def __init__(self, actor: Any):
        self._actor, self.sample = actor, CountedMethod(actor.sample)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_actor"), name)

    def __reduce__(self) -> tuple:
        return _itself, (self._actor,)  # in a task it is the actor itself


def _itself(actor: Any) -> Any:
    return actor


class CountedMethod:
    """Stands in for the method of an actor, and counts its calls."""

    def __init__(self, method: Any):
        self._method, self.calls = method, 0

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Return the reference that the method's own `remote` returns."""
        self.calls += 1
        return self._method.remote(*args, **kwargs)

    def options(self, **options: Any) -> "CountedMethod":
        """Return itself: options do not change who is asked."""
        return self


def _kill_once_it_began(actor: Any, room: str) -> None:
    """Kill an actor over its first fragment; leave a signal once this process knows that it is dead."""
    import ray

    meeting.wait_for(room, "began", unless="returned")
    ray.kill(actor)
    with contextlib.suppress(ray.exceptions.RayActorError):
        ray.get(actor.__ray_ready__.remote(), timeout=60)
    time.sleep(0.3)  # the fragment that will never come is known to be lost at about the same moment
    meeting.signal(room, "noticed")
