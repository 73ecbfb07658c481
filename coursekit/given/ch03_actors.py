"""What chapter 3 hands out, and the probes that drive its answers."""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypedDict

import numpy as np

from coursekit.ray_bridge import rendezvous
from coursekit.ray_bridge.records import Window
from coursekit.ray_bridge.timeline import timeline


def pay(balance: int, amount: int) -> int:
    """Return the balance after a payment; the bookkeeping takes 20 ms."""
    time.sleep(0.02)
    return balance + amount


def add_ones(total: Any, times: int, locked: bool, start: Any) -> None:
    """Add 1 to a `multiprocessing.Value` `times` times, with its lock or without, once all processes are at the barrier."""
    start.wait()
    for _ in range(times):
        if locked:
            with total.get_lock():
                total.value += 1
        else:
            total.value += 1


def compute(rounds: int) -> int:
    """Return the sum of the first `rounds` squares: real work, which keeps one core busy."""
    return sum(number * number for number in range(rounds))


def bumpy(x: float, y: float) -> float:
    """Return the height of a hilly landscape at a point: at most -1, which is reached at (2, -1)."""
    hills = 2 * (2 - np.cos(3 * (x - 2)) - np.cos(3 * (y + 1)))
    return float(-1 - (x - 2) ** 2 - (y + 1) ** 2 - hills)


def squares(xs: list[float]) -> list[float]:
    """Return the squares of a whole batch, which takes 50 ms no matter how large it is, like a network on a GPU."""
    time.sleep(0.05)
    return [x * x for x in xs]


def linear_data(rows: list[int], seed: int = 0) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray]:
    """Return a shard (inputs [n, 3], targets [n]) for each number n of rows, and the weights [3] behind the targets."""
    rng = np.random.default_rng(seed)
    truth, shards = rng.uniform(-3, 3, size=3), []
    for count in rows:
        inputs = rng.normal(size=(count, 3))
        shards.append((inputs, inputs @ truth + rng.normal(scale=0.1, size=count)))
    return shards, truth


def slope(weights: np.ndarray, shard: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return the gradient of the mean squared error of a linear model, shape [3]; takes 0.1 ms per row."""
    inputs, targets = shard
    time.sleep(1e-4 * len(targets))
    return 2 * inputs.T @ (inputs @ weights - targets) / len(targets)


def span(name: str, start: float) -> dict:
    """Return a bar for `timeline`: in this process, from `start` until now."""
    return {"name": name, "worker_pid": os.getpid(), "started": start, "ended": time.time()}


def draw_training(run: Window) -> Any:
    """Draw the timeline of a recorded training from the server's first call on, with its row named; return the axes."""
    bars = [bar for bar in run.tasks() if not bar["name"].endswith("__init__")]
    server = [bar for bar in bars if bar["name"].startswith("ParameterServer")]
    for bar in bars:  # until the server was up, all of them waited for its process
        bar["started"] = max(bar["started"], min(call["started"] for call in server))
    axes = timeline(bars)
    rows = [label.get_text() for label in axes.get_yticklabels()]
    axes.set_yticklabels(["server" if f"pid {server[0]['worker_pid']})" in row else row for row in rows])
    return axes


class Player:
    """A player that can't be pickled, because it holds a lock; so do many connections and simulators."""

    def __init__(self) -> None:
        self.name, self._lock = "Ada", threading.Lock()

    def play(self, seed: int) -> float:
        """Return the score of the game with this seed, which is at most 0."""
        with self._lock:
            time.sleep(0.05)
            return round(-abs(float(np.random.default_rng(seed).normal())), 2)


class Simulator:
    """A simulator whose episodes differ in length: `run(n)` sleeps for n tenths of a second and returns n."""

    def run(self, tenths: float) -> float:
        """Return `tenths` after that many tenths of a second."""
        time.sleep(tenths / 10)
        return tenths

    def run_at(self, place: int, tenths: float) -> tuple[int, float]:
        """Return the position that the caller passes, and what `run` returns."""
        return place, self.run(tenths)


class Total:
    """Adds up, and tells in which process."""

    def __init__(self) -> None:
        self.total = 0

    def add(self, amount: int) -> list:
        """Return the total so far and the number of the process."""
        self.total += amount
        return [self.total, os.getpid()]


ALL_CALLS = "all calls of `add` to run at the same time"


class Reunion:
    """Runs many calls at once: it is an async actor."""

    async def add(self, place: list) -> bool:
        """Return whether all calls were here before one had ended; `place` is [point, me, how many in all]."""
        point, me, count = place
        rendezvous.signal(point, str(me))
        for other in range(count):
            if not await asyncio.to_thread(rendezvous.wait_for, point, str(other), "gave-up", ALL_CALLS):
                rendezvous.signal(point, "gave-up")
                return False
        return True


def receipt(balance: list, amount: int) -> list:
    """Return the balance with one more receipt: the amount, and the process that wrote it; takes longer than a customer's end."""
    time.sleep(0.2)
    return [*balance, [amount, os.getpid()]]


# Probes: each drives a learner's object with the judge's inputs, and returns raw results.


def as_actor(learner: Any) -> Any:
    """Return the learner's class as an actor class; one that has @ray.remote above it is one already."""
    import ray

    return learner if isinstance(learner, ray.actor.ActorClass) else ray.remote(learner)


def _as_class(learner: Any) -> Any:
    """Return the learner's plain class, of an actor class too."""
    return learner.__ray_metadata__.modified_class if hasattr(learner, "__ray_metadata__") else learner


class Offered(TypedDict):
    """What `best` was before any offer, what `offer` returned, and what `best` was after each offer."""

    before: Any
    answers: list
    bests: list


def offer_in_order(learner: Any, offers: list) -> Offered:
    """Return what an actor of the learner's class answers to offers that come one after the other."""
    import ray

    best = as_actor(learner).remote()
    before = best.best.remote()
    calls = [(best.offer.remote(score, found), best.best.remote()) for score, found in offers]
    return {
        "before": ray.get(before),
        "answers": ray.get([answer for answer, _ in calls]),
        "bests": ray.get([after for _, after in calls]),
    }


class OfferedByMany(TypedDict):
    """What `offer` answered to each task, and what `best` is now."""

    answers: list[list]
    best: Any


def offer_from_many(learner: Any, offers: list[list]) -> OfferedByMany:
    """Return what the actor answers when several tasks make their offers at the same time, each its own list."""
    import ray

    best = as_actor(learner).remote()

    @ray.remote
    def search(best: Any, mine: list) -> list:  # a handle that a function captures would keep the actor for good
        return [ray.get(best.offer.remote(score, found)) for score, found in mine]

    answers = ray.get([search.remote(best, mine) for mine in offers])
    return {"answers": answers, "best": ray.get(best.best.remote())}


class Tournaments(TypedDict):
    """The scores of two tournaments, whether a game ran in this process, and whether two games of the first one met."""

    first: Any
    second: Any
    here: bool
    met: bool


def hold_tournaments(tournament: Callable, seeds: list[int], others: list[int], offset: int) -> Tournaments:
    """Return what came of a tournament with these seeds, and of one with others.

    A player holds a lock, so it can't be pickled; the game of a seed scores its square plus `offset`.
    """
    point, driver = rendezvous.new_point(), os.getpid()

    class Player:
        def __init__(self) -> None:
            self._lock = threading.Lock()

        def play(self, seed: int) -> int:
            if os.getpid() == driver:
                rendezvous.signal(point, "here")
            elif seed in seeds and not rendezvous.signalled(point, "met"):
                me = int(seed != seeds[0])  # 0 for the first seed, 1 for every other
                if rendezvous.meets(point, me, 1 - me):
                    rendezvous.signal(point, "met")
            return seed * seed + offset

    rendezvous.warm_up(2)  # patience is for the games, not for the start of processes
    return {
        "first": tournament(Player, list(seeds)),
        "second": tournament(Player, list(others)),
        "here": rendezvous.signalled(point, "here"),
        "met": rendezvous.signalled(point, "met"),
    }


class _Model:
    """Squares a batch, and tells with each square how large the batch was, and its number."""

    def __init__(self) -> None:
        self._calls = 0

    def __call__(self, xs: list) -> list:
        self._calls += 1
        return [[x * x, len(xs), self._calls] for x in xs]


def predict_together(learner: Any, rounds: list[list[int]], size: int, patience: float) -> list[tuple[bool, Any]]:
    """Return, for calls of which each round is sent at once, whether the learner's batching actor gave an answer, and which.

    A round is sent when the one before has its answers: no call is left that could take part in a later batch.
    """
    import ray

    batcher, results = as_actor(learner).remote(_Model(), size, patience), []
    try:
        ray.get(batcher.__ray_ready__.remote())  # patience is for the answers, not for the start of a process
        for xs in rounds:
            refs = [batcher.predict.remote(x) for x in xs]
            ready, missing = ray.wait(refs, num_returns=len(refs), timeout=rendezvous.patience())
            results += [(True, ray.get(ref)) if ref in ready else (False, None) for ref in refs]
            if missing:
                break
        return results
    finally:
        ray.kill(batcher)  # it may be blocked for good


Latecomer = tuple[bool, Any, float]  # whether there was an answer, which, and after how many seconds


def predict_in_a_trickle(learner: Any, xs: list[int], patience: float) -> bool:
    """Return whether the first call had its answer when its own patience had ended; another came in between.

    Their batch is too small. Both timers are of one event loop, which runs the earlier first, however slow it is.
    """

    async def play() -> bool:
        batcher = _as_class(learner)(_Model(), len(xs) + 1, patience)
        calls = [asyncio.create_task(batcher.predict(xs[0]))]
        await asyncio.sleep(patience / 2)
        calls.append(asyncio.create_task(batcher.predict(xs[1])))
        await asyncio.sleep(0.75 * patience)
        await asyncio.wait(calls[:1], timeout=0.1 * patience)  # its last steps after the timer
        on_time = calls[0].done()
        for call in calls:
            call.cancel()
        await asyncio.wait(calls, timeout=1)
        return on_time

    with ThreadPoolExecutor(1) as thread:  # a notebook's own thread has an event loop already
        return thread.submit(asyncio.run, play()).result()


def predict_after_others(learner: Any, xs: list[int], size: int, patience: float) -> tuple[Latecomer, Latecomer]:
    """Return what came of the last call of two rounds; the others have filled a batch.

    In the first round all calls come at once, in the second the last one comes when half of the patience has passed. The
    class lives in an event loop of this process: nothing else decides who is next.
    """

    async def play(pause: float) -> Latecomer:
        batcher = _as_class(learner)(_Model(), size, patience)
        others = [asyncio.create_task(batcher.predict(x)) for x in xs[:-1]]
        await asyncio.sleep(pause)
        start = time.monotonic()
        last = asyncio.create_task(batcher.predict(xs[-1]))
        _, waiting = await asyncio.wait([last], timeout=patience + rendezvous.patience())
        seconds = time.monotonic() - start
        got = None if waiting else last.result()
        for task in (last, *others):
            task.cancel()
        await asyncio.wait([last, *others], timeout=1)
        return not waiting, got, seconds

    async def play_both() -> tuple[Latecomer, Latecomer]:
        return await asyncio.gather(play(0), play(patience / 2))

    with ThreadPoolExecutor(1) as thread:  # a notebook's own thread has an event loop already
        return thread.submit(asyncio.run, play_both()).result()


def _wait_for_all(point: str, names: Iterable[str], what: str) -> bool:
    """Return whether all signals came; a call that waits in vain tells the others not to wait."""
    for name in names:
        if not rendezvous.wait_for(point, name, unless="gave-up", what=what):
            rendezvous.signal(point, "gave-up")
            return False
    return True


def train_marked(async_sgd: Callable, start: list[float], steps: int, rate: float) -> list[float]:
    """Return the weights after workers have pushed marks instead of gradients; worker 0 is slow.

    `start` has four weights for each worker: the first counts its gradients, the second is moved when it waited in vain
    for the others, the third when it saw weights without its own last two gradients: a worker that asks for weights while it
    still computes lacks one. The fourth is moved when it saw its own gradients without any of another worker's: the first
    one of worker 0 is computed only after the server has applied one of each other's. Its last gradient arrives late.
    """
    point, workers = rendezvous.new_point(), len(start) // 4

    def mark(weights: Any, worker: int) -> np.ndarray:
        others = [other for other in range(workers) if other != worker]
        step = next(step for step in range(steps + 1) if not rendezvous.signalled(point, f"{worker}-{step}"))
        rendezvous.signal(point, f"{worker}-{step}")
        on_time = step > 0 or _wait_for_all(
            point, [f"{other}-0" for other in others], "the other workers to compute their first gradient"
        )
        if worker == 0 and step == 0:
            on_time = on_time and _wait_for_all(
                point, [f"{other}-2" for other in others], "the other workers to go on to their third gradient"
            )
        applied = (np.array(weights) - start)[::4] / rate  # of each worker's gradients
        fresh = step - 1 - 1e-6 < applied[worker] < step + 1e-6
        private = worker == 0 and bool(min(applied[others]) < 0.5 < applied[worker])
        gradient = np.zeros(4 * workers)
        gradient[4 * worker : 4 * worker + 4] = -1, -(not on_time), -(not fresh), -private
        return gradient.view(_Late) if step == steps - 1 else gradient

    rendezvous.warm_up(workers + 1)  # patience is for the work, not for the start of processes
    return async_sgd(mark, np.array(start), list(range(workers)), steps, rate)


class _Late(np.ndarray):
    """A gradient that takes its time to arrive in another process: a worker that does not wait for it ends before."""

    def __reduce_ex__(self, protocol: Any) -> tuple:
        return _arrive_late, (np.asarray(self).tolist(),)


def _arrive_late(numbers: list[float]) -> np.ndarray:
    time.sleep(0.5)
    return np.array(numbers)
