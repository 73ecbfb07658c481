"""The judge's side of chapter 3."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.random import Generator

from coursekit.exercises._steps import plain_tasks
from coursekit.given import ch03_actors as given
from coursekit.judging.answer import Answer, Raised, Watched
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import expect, expect_close, expect_equal, expect_type
from coursekit.ray_bridge import rendezvous


def _actors_of(seen: Watched) -> list[dict]:
    """Return Ray's record of each actor that the answer asked for."""
    asked = {task["actor_id"] for task in seen.tasks() if task["kind"] == "actor_creation"}
    return [actor for actor in seen.actors() if actor["actor_id"] in asked]


def _distinct(rng: Generator, count: int, below: int = 100) -> list[int]:
    """Return `count` different numbers from 1 on, in no order."""
    return (1 + rng.choice(below - 1, size=count, replace=False)).tolist()


@exercise(
    points=2,
    minutes=8,
    needs={"CPU": 4},
    hints=[
        "How many objects of the class do you need, so that the last call knows of the first?",
        "`ray.remote(Counter).remote()` makes one actor and returns its handle; `handle.add.remote(amount)` returns a reference.",
        "Send all calls first; a single `ray.get` comes last.",
    ],
    returns=list,
)
def count_up(answer: Answer, rng: Generator) -> None:
    """Make one actor and send it every call; it keeps the total, and runs the calls in the order in which you sent them."""
    amounts = _distinct(rng, 5)
    with answer.watch() as seen:
        got = answer(given.Total, amounts)
    expect(len(got) == 5, "One result for each amount: what each call of `add` returned, in a list.")
    with answer.case(f"the amounts {amounts}; a result is [total, number of the process that ran `add`]"):
        _judge_totals(got, amounts, _actors_of(seen))
    point = rendezvous.new_point()
    with answer.case("three calls of an `add` that waits until all three have come, and returns whether they did"):
        expect_equal(
            answer(given.Reunion, [[point, me, 3] for me in range(3)]),
            [True, True, True],
            "This time the calls wait for each other, and some never came: do you send every call before you wait for the first?",
        )


def _judge_totals(got: list, amounts: list[int], actors: list[dict]) -> None:
    """Check that one actor saw all the amounts, in order, in its own process."""
    pairs = expect_type(got, list[tuple[int, int]], "the results")
    totals, pids = [total for total, _ in pairs], {pid for _, pid in pairs}
    expect_equal(totals, np.cumsum(amounts), f"The totals were {totals}. Did one object see all the amounts, in order?")
    expect(actors, "The calls must go to an actor, but Ray started none.")
    calls, started = len(amounts), len(actors)
    expect(started == 1, f"One actor is enough for {calls} calls; Ray started {started}.")
    expect(pids == {actors[0]["pid"]}, "The calls of `add` did not run in the actor's process.")


@exercise(
    points=3,
    minutes=12,
    needs={"CPU": 4},
    hints=[
        "Which process must run `pay_in`, so that no other customer can come between reading and writing?",
        "An actor class with two methods: one calls `self.balance = pay_in(self.balance, amount)`, one returns the balance.",
        "A customer is a task with two arguments, the handle of the account and an amount. It waits until its payment is booked.",
    ],
    returns=list[tuple[int, int]],
)
def bank(answer: Answer, rng: Generator) -> None:
    """Send the amount to the account and let the account add it: its calls run one at a time, so no payment is lost."""
    amounts = _distinct(rng, 5)
    with answer.watch() as seen:
        got = answer(given.receipt, [], amounts)
    with answer.case(f"the amounts {amounts}, each paid in by a customer"):
        _judge_receipts(got, amounts, _actors_of(seen))
        _judge_customers(plain_tasks(seen), len(amounts))


def _judge_receipts(got: list[tuple[int, int]], amounts: list[int], actors: list[dict]) -> None:
    """Check that one account booked every amount, in its own process."""
    paid, pids = sorted(amount for amount, _ in got), {pid for _, pid in got}
    started, processes = len(actors), sorted(pids)
    expect(started == 1, f"There must be one account: Ray started {started} actors.")
    complete, only_account = paid == sorted(amounts), pids <= {actors[0]["pid"]}
    expect(
        complete or not only_account,
        f"The balance holds receipts for {paid}. Did you read it before the payments were booked?",
    )
    expect(complete, f"The balance holds receipts for {paid}. Updates were lost: which other process writes?")
    expect(
        only_account,
        f"`pay_in` ran in the processes {processes}, not only in the account's. Which other process writes?",
    )


def _judge_customers(tasks: list[dict], customers: int) -> None:
    """Check by Ray's records that each customer was a task, and that they came at the same time."""
    launched = len(tasks)
    expect(launched == customers, f"Ray saw {launched} tasks for {customers} customers: each customer is a task.")
    expect(
        any(after["created"] < (before["ended"] or np.inf) for before, after in pairwise(tasks)),
        "Each customer came only when the one before had gone. Let them come at the same time.",
    )


@exercise(
    points=2,
    minutes=8,
    needs={"CPU": 4},
    hints=[
        "What does the actor know before the first offer? It does not know that the best score is 0.",
        "Keep the score and what belongs to it together, in one tuple: they always change together.",
    ],
)
def BestSoFar(answer: Answer, rng: Generator) -> None:
    """Keep the pair, start with None, and replace it only by a higher score."""
    first, low, high, middle = _scores(rng)
    offers: list[list] = [[first, None], [low, "b"], [high, "c"], [high, "d"], [middle, "e"]]
    with answer.case(f"the offers {[tuple(offer) for offer in offers]}, in this order"):
        seen = answer.probe(given.offer_in_order, offers)
        expect(seen["before"] is None, f"Before any offer, `best()` must be None; it was {seen['before']}.")
        _expect_told(seen)
        expect_equal(
            seen["best"],
            (high, "c"),
            f"`best()` returned {seen['best']}. Is that the best score together with what reached it?",
        )
    _judge_many_offers(answer, -rng.permutation(_distinct(rng, 12, 1000)).astype(float))


def _expect_told(seen: given.Offered) -> None:
    """Check what `offer` answered where the first and the third score were higher than all before."""
    expect_equal(
        seen["answers"],
        [True, False, True, False, False],
        f"`offer` answered {seen['answers']}: it must be True for a score higher than all before it, and False for the others.",
    )


def _judge_many_offers(answer: Answer, scores: np.ndarray) -> None:
    """Check offers that four tasks make at the same time."""
    lists = [
        [[score, f"{worker}.{i}"] for i, score in enumerate(part)] for worker, part in enumerate(scores.reshape(4, 3))
    ]
    with answer.case(
        f"four tasks, which offered {len(scores)} scores from {min(scores):.0f} to {max(scores):.0f} at the same time"
    ):
        many = answer.probe(given.offer_from_many, lists)
        best = max(sum(lists, []))
        expect_equal(many["best"], best, f"With four tasks at once, `best()` returned {many['best']}.")
        told = zip(sum(lists, []), sum(many["answers"], []), strict=False)
        expect(
            [yes for offer, yes in told if offer == best] == [True],
            "`offer` told the best of all that it is not the best.",
        )


def _scores(rng: Generator) -> list[float]:
    """Return four scores below 0: the first that is offered, a lower one, the best, and one between the first and the best."""
    best, middle, first, low = np.sort(rng.choice(np.arange(1, 400), size=4, replace=False)) / -4
    return [float(score) for score in (first, low, best, middle)]


@exercise(
    points=3,
    minutes=10,
    needs={"CPU": 4},
    hints=[
        "Two things are wrong, one after the other. What does `inspect_serializability(player)` find? And in which process does "
        "`scores[seed] = …` change a dict?",
        "What cannot travel is made where it is needed: call `make_player()` inside the task, or in the `__init__` of an actor.",
        "Let the task return its score; the driver puts the scores into a dict that it makes itself.",
    ],
)
def tournament(answer: Answer, rng: Generator) -> None:
    """Make what cannot travel where it is needed, and send results back: a task changes copies, and nobody sees them."""
    seeds, offset = _distinct(rng, 8), int(rng.integers(-1000, -200))
    first, second = seeds[:5], seeds[5:]
    try:
        seen = answer.probe(given.hold_tournaments, first, second, offset)
    except Raised as raised:
        expect(
            "Could not serialize" not in raised.message,
            "Ray could not pickle what you send to a task: is a player in there? `inspect_serializability` says what carries it.",
        )
        raise
    with answer.case(f"a tournament with the seeds {first}"):
        _judge_scores(seen["first"], {seed: seed * seed + offset for seed in first})
        expect(
            not seen["here"],
            "A player played in the process of your notebook: each game belongs in a task or an actor.",
        )
        expect(seen["met"], "No two games ran at the same time. Do you start them all before you wait for the first?")
    with answer.case(f"then a second tournament with the seeds {second}"):
        _judge_scores(seen["second"], {seed: seed * seed + offset for seed in second})


def _judge_scores(got: Any, want: dict) -> None:
    """Check the scores by seed, with a word on what is missing or left over."""
    expect(isinstance(got, dict), "A dict with the score of each seed must come back.")
    seeds, missing = len(want), len(want.keys() - got.keys())
    odd = sorted(got.keys() - want.keys(), key=str)
    expect(
        not missing,
        f"Seeds without a score: {missing} of {seeds}. Which process holds the dict that your games write into?",
    )
    expect(
        not odd,
        f"Scores came back for the seeds {odd}, which this tournament did not have. What did you keep from the last one?",
    )
    expect_equal(got, want, "Not every score belongs to its seed.")


@exercise(
    points=3,
    minutes=20,
    needs={"CPU": 4},
    hints=[
        "A call that comes too early has nothing to do yet. How can it wait without keeping the others out?",
        "`future = asyncio.get_running_loop().create_future()` is an empty box. `flush` fills it; "
        "`await asyncio.wait([future], timeout=seconds)` waits for that, and continues when time is up.",
        "Put (x, future) into `self.waiting`. Are there `self.size` now? Flush. Then wait at most `self.patience`; if the box is "
        "still empty (`future.done()`), flush. Return `future.result()`.",
    ],
)
def Batcher(answer: Answer, rng: Generator) -> None:
    """Let a call wait for its own future: while it awaits, other calls come in, and the one that completes the batch flushes it."""
    # Long: a batch is judged when it is full, when it stays too small, and when a call comes just after it.
    size = int(rng.integers(3, 6))
    _judge_full_batches(answer, _distinct(rng, size * 2), size)
    _judge_small_batch(answer, _distinct(rng, size - 1), size)
    _judge_latecomer(answer, _distinct(rng, 3))


def _judge_full_batches(answer: Answer, xs: list[int], size: int) -> None:
    """Check calls that fill two batches."""
    with answer.case(f"{len(xs)} calls at once, batches of {size}, each call patient for 60 s"):
        got = _together(answer, xs, size, 60.0)
        _expect_none_missing(sum(not came for came, _ in got))
        answers = _own_answers([one for _, one in got], xs)
        sizes = list({number: length for _, length, number in answers}.values())
        expect_equal(sizes, [size] * 2, f"The model was called with batches of {sizes}.")


def _expect_none_missing(missing: int) -> None:
    expect(
        not missing,
        f"Calls without an answer: {missing}. Can other calls come in while one waits, and does the call that fills "
        "a batch flush it?",
    )


def _judge_small_batch(answer: Answer, few: list[int], size: int) -> None:
    """Check calls that are too few for a batch."""
    with answer.case(f"{len(few)} calls, batches of {size}, each call patient for 0.3 s"):
        got = _together(answer, few, size, 0.3)
        expect(
            all(came for came, _ in got), "Some calls never got an answer: no other call came to complete their batch."
        )
        _own_answers([one for _, one in got], few)


def _own_answers(got: list, xs: list[int]) -> list[tuple[float, float, float]]:
    """Return what the model said to each caller, which must be of its own x."""
    odd = [one for one in got if not (isinstance(one, list | tuple) and len(one) == 3)]
    expect(not odd, f"A caller got {odd[:1]}: that is not one of the model's answers.")
    answers: list[tuple[float, float, float]] = expect_type(got, list[tuple[float, float, float]], "the answers")
    expect_equal(
        [square for square, *_ in answers], [x * x for x in xs], "Not every caller got the answer to its own x."
    )
    return answers


def _together(answer: Answer, xs: list[int], size: int, patience: float) -> list[tuple[bool, Any]]:
    """Return what calls get that are sent together; says what has happened where a future was returned or cancelled."""
    try:
        return answer.probe(given.predict_together, xs, size, patience)
    except Raised as raised:
        kind = raised.kind
        expect(
            "_asyncio.Future" not in raised.message,
            "`predict` returned a future, or what `asyncio.wait` gave it. The answer is in `future.result()`.",
        )
        expect(
            kind not in ("InvalidStateError", "CancelledError"),
            f"A future was cancelled or filled twice ({kind}). `asyncio.wait_for` cancels what it waits for when "
            "time is up; `asyncio.wait` does not.",
        )
        raise


def _judge_latecomer(answer: Answer, xs: list[int]) -> None:
    """Check that a call which comes after a full batch is not answered before its own patience ends: slowness can only delay it."""
    patience = 1.0
    rounds = answer.probe(given.predict_after_others, xs, 2, patience)
    for (came, got, seconds), moment in zip(rounds, ("right after them", f"{patience / 2} s later"), strict=True):
        with answer.case(
            f"batches of 2, calls patient for {patience} s: two calls filled a batch, a third came {moment}"
        ):
            expect(came, "It got no answer.")
            _own_answers([got], xs[-1:])
            _expect_patience(seconds, patience)


def _expect_patience(seconds: float, patience: float) -> None:
    expect(
        seconds > patience - 0.01,
        f"It was alone, and got its answer after {seconds:.2f} s. What flushed before its patience had ended?",
    )


@exercise(
    points=3,
    minutes=15,
    needs={"CPU": 4},
    hints=[
        "A worker is a task: it gets the server's handle and a shard, and repeats three lines.",
        "The three lines: get the weights, compute the gradient with them, send the *gradient*. If you send weights, you "
        "overwrite what the other workers have learned meanwhile.",
        "Start all workers, wait for all of them, then ask the server for the weights.",
    ],
    returns=list[float],
)
def async_sgd(answer: Answer, rng: Generator) -> None:
    """Send gradients, not weights: the server applies each as it comes, and no worker waits for the slowest."""
    # Long: each worker's gradients carry its mark, so that the weights tell which arrived and with what they were computed.
    workers, steps, rate = 3, int(rng.integers(3, 6)), float(rng.choice([0.25, 0.5]))
    start = np.zeros(3 * workers)
    start[::3] = rng.integers(-20, 20, size=workers)
    with answer.watch() as seen:
        weights = answer.probe(given.train_marked, start.tolist(), steps, rate)
    with answer.case(f"{workers} workers, {steps} steps each with marked gradients, rate {rate}"):
        _judge_marks((_as_array(weights, len(start)) - start) / rate, steps)
        _judge_ends(seen.tasks())
    _judge_regression(answer, rng)


def _as_array(weights: list[float], count: int) -> np.ndarray:
    array = np.array(weights, dtype=float)
    expect(array.shape == (count,), f"The weights came back with the shape {array.shape}.")
    return array


def _judge_marks(moved: np.ndarray, steps: int) -> None:
    """Check by the marks of three workers' gradients how many arrived, who was alone, and which weights were stale."""
    counted, alone, stale = moved.reshape(-1, 3).T
    expect(
        not alone.any(),
        "A worker waited for the others in vain. All must work at the same time, and continue when one is slow.",
    )
    arrived = counted.tolist()
    expect_close(arrived, [steps] * len(arrived), f"Of each worker's {steps} gradients, {arrived} are in the weights.")
    expect(
        not stale.any(),
        "Some were computed with weights that lack the worker's own last two gradients. How often does it fetch the weights?",
    )


def _judge_ends(tasks: list[dict]) -> None:
    """Check by Ray's records that no worker ended before a call that it had sent; the last gradients arrive late."""
    ends = {task["task_id"]: task["ended"] for task in tasks if task["kind"] != "actor_creation" and task["ended"]}
    early = {
        task["parent_task_id"]
        for task in tasks
        if task["kind"] == "actor_call" and (task["ended"] or np.inf) > ends.get(task["parent_task_id"], np.inf) + 0.1
    }
    workers = len(early)
    expect(not early, f"Workers that ended without waiting until their last gradient was applied: {workers}.")


def _judge_regression(answer: Answer, rng: Generator) -> None:
    """Check the answer on data: the weights must come close to those that the data were made with."""
    shards, truth = given.linear_data([40, 40, 40], seed=int(rng.integers(1_000_000)))
    begin = truth + rng.choice([-1, 1], size=3) * rng.uniform(2, 3, size=3)
    got = _as_array(answer(given.slope, begin, shards, 40, 0.1), len(truth))
    ended, off = np.round(got, 2).tolist(), np.abs(got - truth).max()
    expect_close(
        got,
        truth,
        f"On a regression with 3 shards and 40 steps each, the weights ended at {ended}, "
        f"{off:.2f} away from those behind the data.",
        rtol=0,
        atol=0.2,
    )


question(
    "order_of_calls",
    """
    Your notebook calls `counter.add.remote(1)`, then `counter.add.remote(2)`. Meanwhile a task calls
    `counter.add.remote(10)`. In which order does the actor run the three?

    a) In the order of their launch: Ray keeps one queue for the whole cluster.
        There is no such queue: each caller sends its calls straight to the actor.
    *b) 1 before 2; the 10 comes before, between or after them.
        Right: an ordinary actor keeps the order of one caller's calls, and promises none between different callers.
    c) At the same time, each in a thread of its own.
        An ordinary actor runs one call at a time. That is what makes it safe.
    """,
)

question(
    "why_updates_are_lost",
    """
    Every call to the account ran alone, yet payments were lost. Why?

    *a) A payment was three steps, read, add, write, and other customers came between them.
        Right: one call is safe, a sequence of calls is not. Make it one call.
    b) The actor was too slow, so Ray dropped some calls.
        Ray drops no calls: they wait their turn.
    c) Each task had an account of its own, because a handle that is an argument is copied.
        The handle is copied, but all copies lead to one actor.
    """,
)

question(
    "how_many_actors",
    """
    A machine with 8 cores has 8 actors. Each waits 90 ms for a simulator on another machine, then computes for 10 ms,
    again and again. You start 24 more. What happens to the results per second?

    a) They stay as they are: there are as many actors as cores already.
        That holds for actors that compute all the time. These wait 90 of 100 ms, and their cores are idle meanwhile.
    *b) They rise to about four times as many: the cores had plenty of time left.
        Right: 8 actors keep 0.8 cores busy, 32 keep 3.2. From about 80 actors on, the cores are full.
    c) Ray refuses: an actor needs a core.
        An actor asks for no slot while it lives, unless you say `num_cpus=`. And a slot is not a core.
    """,
)

question(
    "blocked_loop",
    """
    An async actor gets 100 calls at once. Each is `time.sleep(0.1)`, then `return`. How long until all of them have their answers?

    a) About 0.1 s: an async actor runs up to 1,000 calls at once.
        Only calls that `await` make room for others. `time.sleep` holds the one thread they share.
    *b) About 10 s: nothing is awaited, so each call keeps the others out.
        Right. With `await asyncio.sleep(0.1)` it would be about 0.1 s.
    c) About 1 s: ten threads take turns.
        All calls of an async actor share one thread, however many there are.
    """,
)

question(
    "who_outlives",
    """
    A program makes an actor with `.options(name="scores")`, and ends. Another program of the
    same cluster and namespace then calls `ray.get_actor("scores")`. What does it get?

    a) The actor, with all its state: that is what names are for.
        A name helps to find an actor. It does not keep it alive.
    b) A new actor of the same class, with fresh state.
        `get_actor` never makes one; `get_if_exists=True` in `.options` finds or makes one.
    *c) An error: the actor ended with the program that made it.
        Right. With `lifetime="detached"` it would stay until a program kills it, or the cluster stops.
    """,
)
