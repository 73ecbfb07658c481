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
        "How many actors do you need so that the last call sees the total of the calls before it?",
        "`ray.remote(Counter).remote()` creates one actor and returns its handle. `handle.add.remote(amount)` returns a reference.",
        "Send all calls first, and collect the references in a list. A single `ray.get` comes last.",
    ],
    returns=list,
)
def count_up(answer: Answer, rng: Generator) -> None:
    """Create one actor and send it every call; it keeps the total and runs the calls in the order in which you sent them."""
    amounts = _distinct(rng, 5)
    with answer.watch() as seen:
        got = answer(given.Total, amounts)
    expect(len(got) == 5, "There must be one result for each amount: a list of what the calls to `add` returned.")
    with answer.case(f"the amounts {amounts}; a result is [total, number of the process that ran `add`]"):
        _judge_totals(got, amounts, _actors_of(seen))
    point = rendezvous.new_point()
    with answer.case("three calls of an `add` that waits until all three are running, and returns whether they were"):
        expect_equal(
            answer(given.Reunion, [[point, me, 3] for me in range(3)]),
            [True, True, True],
            "These calls wait for one another, and not all of them arrived: send every call before you wait for a result.",
        )


def _judge_totals(got: list, amounts: list[int], actors: list[dict]) -> None:
    """Check that one actor saw all the amounts, in order, in its own process."""
    pairs = expect_type(got, list[tuple[int, int]], "the results")
    totals, pids = [total for total, _ in pairs], {pid for _, pid in pairs}
    expect_equal(
        totals, np.cumsum(amounts), f"The totals were {totals}: one object must see all the amounts, in their order."
    )
    expect(actors, "The calls must go to an actor, but Ray started no actor.")
    calls, started = len(amounts), len(actors)
    expect(started == 1, f"One actor is enough for {calls} calls, but Ray started {started}.")
    expect(pids == {actors[0]["pid"]}, "The calls to `add` did not run in the actor's process.")


@exercise(
    points=3,
    minutes=12,
    needs={"CPU": 4},
    hints=[
        "Which process must run `pay_in` so that no other customer can read or write the balance in between?",
        "Write an actor class with two methods: one does `self.balance = pay_in(self.balance, amount)`, and the other returns the balance.",
        "A customer is a task with two arguments: the handle of the account and an amount. It calls `ray.get` to wait until its payment has been booked.",
    ],
    returns=list[tuple[int, int]],
    spare=["        account.book.remote(amount)"],
)
def bank(answer: Answer, rng: Generator) -> None:
    """Send the amount to the account and let the account add it: its calls run one at a time, so no payment is lost."""
    # Long: a payment is lost in four ways, each with a message: another process, no wait, the first balance, two at a time.
    opening, *amounts = _distinct(rng, 6)
    with answer.watch() as seen:
        got = answer(given.receipt, [[opening, 0]], amounts)
    with answer.case(f"an account that holds a receipt for {opening}, and the amounts {amounts}"):
        tasks = seen.tasks()
        _judge_process(got, _actors_of(seen), due=1 + len(amounts))
        _judge_customers(plain_tasks(seen), len(amounts))
        early, customers = _ended_before_a_call(tasks), len(amounts)
        expect(not early, f"Customers that ended before their payment had been booked: {early} of {customers}.")
        paid = [amount for amount, _ in got]
        expect(
            paid[:1] == [opening],
            f"The balance holds receipts for {paid}. It was {[opening]} at first, and must begin with that.",
        )
        expect(
            sorted(paid[1:]) == sorted(amounts),
            f"The balance holds receipts for {paid}, not one for each amount. That happens if you read it before all payments have been "
            "booked, or if the account runs two payments at the same time.",
        )


def _judge_process(got: list[tuple[int, int]], actors: list[dict], due: int) -> None:
    """Check that there was one account, and that it alone wrote receipts; the first receipt has no process."""
    started = len(actors)
    expect(started == 1, f"There must be one account, which is an actor; Ray started {started} actors.")
    elsewhere = sum(pid not in (0, actors[0]["pid"]) for _, pid in got)
    left = len(got)
    expect(
        not elsewhere,
        f"Receipts in the balance: {left} of {due}. Receipts written by a process other than the account's: {elsewhere}. That's how "
        "updates get lost: the account itself must call `pay_in`.",
    )


def _judge_customers(tasks: list[dict], customers: int) -> None:
    """Check by Ray's records that each customer was a task, and that they ran at the same time."""
    launched = len(tasks)
    expect(launched == customers, f"Each of the {customers} customers must be a task, but Ray saw {launched} tasks.")
    expect(
        any(after["created"] < (before["ended"] or np.inf) for before, after in pairwise(tasks)),
        "Each customer started only after the one before it had ended. Let them run at the same time.",
    )


def _ended_before_a_call(tasks: list[dict]) -> int:
    """Return how many tasks and actor calls ended, by Ray's records, before an actor call that they had sent."""
    ends = {task["task_id"]: task["ended"] for task in tasks if task["kind"] != "actor_creation" and task["ended"]}
    early = {
        task["parent_task_id"]
        for task in tasks
        if task["kind"] == "actor_call" and (task["ended"] or np.inf) > ends.get(task["parent_task_id"], np.inf) + 0.1
    }
    return len(early)


@exercise(
    points=2,
    minutes=8,
    needs={"CPU": 4},
    launches=False,  # the check does
    hints=[
        "What can `best` return before the first offer? A score of 0 would be wrong.",
        "Keep the score and what was found with it in one tuple, because they always change together.",
    ],
)
def BestSoFar(answer: Answer, rng: Generator) -> None:
    """Keep the pair, start with None, and replace the pair only when a score is higher."""
    first, low, middle = _scores_below_zero(rng)
    offers: list[list] = [
        [first, "a"],
        [low, "b"],
        [0.0, None],
        [0.0, "d"],
        [middle, "e"],
    ]  # 0 and None: offers like others
    with answer.case(f"the offers {[tuple(offer) for offer in offers]}, in this order"):
        seen = answer.probe(given.offer_in_order, offers)
        expect(seen["before"] is None, f"Before any offer, `best()` must return None; it returned {seen['before']}.")
        expect_equal(
            seen["answers"],
            [True, False, True, False, False],
            f"`offer` returned {seen['answers']}: it must return True for a score higher than all before it, and False otherwise.",
        )
        bests, best_so_far = seen["bests"], [offers[i] for i in (0, 0, 2, 2, 2)]
        expect_equal(
            bests, best_so_far, f"`best()` returned {bests}: after each offer, it must return the best one so far."
        )
    _judge_many_offers(answer, -rng.permutation(_distinct(rng, 12, 1000)).astype(float))


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
        expect_equal(many["best"], best, f"With four tasks at once, `best()` returned {many['best']}, not {best}.")
        told = [yes for offer, yes in zip(sum(lists, []), sum(many["answers"], []), strict=False) if offer == best]
        expect(told == [True], f"For the best offer of all, `offer` returned {told}, not True.")


def _scores_below_zero(rng: Generator) -> list[float]:
    """Return three scores below 0: the first that is offered, a lower one, and a higher one."""
    middle, first, low = np.sort(rng.choice(np.arange(1, 400), size=3, replace=False)) / -4
    return [float(score) for score in (first, low, middle)]


@exercise(
    points=3,
    minutes=10,
    needs={"CPU": 4},
    hints=[
        "The program has two mistakes. What does `inspect_serializability(player)` find? And in which process does "
        "`scores[seed] = …` change a dict?",
        "Create the player where you need it: call `make_player()` inside the task, or in the `__init__` of an actor.",
        "Let the task return its score, and build a new dict from the scores in this process.",
    ],
    spare=["    refs = [ray.get(game.remote(seed)) for seed in seeds]"],
)
def tournament(answer: Answer, rng: Generator) -> None:
    """Create what can't be pickled where you need it, and return results, because a task changes only copies."""
    seeds, offset = _distinct(rng, 8), int(rng.integers(-1000, -200))
    first, second = seeds[:5], seeds[5:]
    try:
        seen = answer.probe(given.hold_tournaments, first, second, offset)
    except Raised as raised:
        expect(
            "Could not serialize" not in raised.message,
            "Ray couldn't pickle something that you sent to another process. `inspect_serializability` names the part that it can't pickle.",
        )
        raise
    with answer.case(f"a tournament with the seeds {first}"):
        _judge_scores(seen["first"], {seed: seed * seed + offset for seed in first})
        expect(
            not seen["here"],
            "A game ran in your notebook's process. Run each game in a task or an actor.",
        )
        expect(seen["met"], "No two games ran at the same time, although Ray has at least four CPUs.")
    with answer.case(f"then a second tournament with the seeds {second}"):
        _judge_scores(seen["second"], {seed: seed * seed + offset for seed in second})


def _judge_scores(got: Any, want: dict) -> None:
    """Check the scores by seed, and say what is missing or left over."""
    expect(isinstance(got, dict), "`tournament` must return a dict with the score of each seed.")
    expect(
        got,
        "The dict came back empty. A game that writes into a dict of your notebook's process changes only the copy in its worker.",
    )
    missing, odd = (sorted(these, key=str) for these in (want.keys() - got.keys(), got.keys() - want.keys()))
    expect(not missing, f"The dict has no score for the seeds {missing}.")
    expect(
        not odd,
        f"The dict has scores for the seeds {odd}, which this tournament didn't have. Each tournament needs a new dict.",
    )
    expect_equal(got, want, f"The scores came back as {got}: at least one of them isn't the score of its seed.")


@exercise(
    points=3,
    minutes=20,
    needs={"CPU": 4},
    hints=[
        "When a call arrives and the batch isn't full yet, how can the call wait without blocking the event loop?",
        "Create a future with `asyncio.get_running_loop().create_future()`; later, `flush` gives it a result. "
        "`await asyncio.wait([future], timeout=seconds)` waits until the future has a result, or until the time is up.",
        "Append (x, future) to `self.waiting`. If `self.size` calls are waiting now, flush. Then wait for at most "
        "`self.patience` seconds. If `future.done()` is still False, flush. Return `future.result()`.",
    ],
    spare=["        await asyncio.sleep(self.patience)"],
)
def Batcher(answer: Answer, rng: Generator) -> None:
    """Let each call await its own future; meanwhile other calls can run, and the call that completes the batch flushes it."""
    # Long: a batch is judged when it is full, when it stays too small, and when a call comes just after it.
    size = int(rng.integers(3, 6))
    _judge_full_batches(answer, _distinct(rng, size * 2), size)
    _judge_small_batch(answer, _distinct(rng, size - 1), size)
    _judge_latecomer(answer, _distinct(rng, 3))
    with answer.case("size 3, patience 1 s: one call, a second one 0.5 s later, and no third"):
        expect(
            answer.probe(given.predict_in_a_trickle, _distinct(rng, 2), 1.0),
            "When its 1 s had passed, the first call still had no answer; perhaps the second call made it wait longer.",
        )


def _judge_full_batches(answer: Answer, xs: list[int], size: int) -> None:
    """Check calls that fill two batches, one after the other."""
    with answer.case(f"{size} calls at once, then {size} more, size {size}, patience 60 s"):
        got = _together(answer, [xs[:size], xs[size:]], size, 60.0)
        _expect_none_missing(sum(not came for came, _ in got))
        answers = _own_answers([one for _, one in got], xs)
        sizes = list({number: length for _, length, number in answers}.values())
        expect_equal(
            sizes,
            [size] * 2,
            f"The model was called with batches of these sizes: {sizes}. Two batches of {size} were expected.",
        )


def _expect_none_missing(missing: int) -> None:
    expect(
        not missing,
        f"Calls without an answer: {missing}. Other calls must be able to run while one waits, and the call that completes "
        "a batch must flush it.",
    )


def _judge_small_batch(answer: Answer, few: list[int], size: int) -> None:
    """Check calls that are too few for a batch."""
    with answer.case(f"{len(few)} calls, size {size}, patience 0.3 s"):
        got = _together(answer, [few], size, 0.3)
        expect(
            all(came for came, _ in got),
            "Some calls never got an answer. No other call completed their batch, and their patience ended.",
        )
        _own_answers([one for _, one in got], few)


def _own_answers(got: list, xs: list[int]) -> list[tuple[float, float, float]]:
    """Return what the model said to each caller, which must be of its own x."""
    odd = [one for one in got if not (isinstance(one, list | tuple) and len(one) == 3)]
    first = odd[0] if odd else None
    expect(not odd, f"A caller got {first!r:.80}, which isn't one of the model's answers.")
    answers: list[tuple[float, float, float]] = expect_type(got, list[tuple[float, float, float]], "the answers")
    expect_equal(
        [square for square, *_ in answers], [x * x for x in xs], "Not every caller got the answer to its own input."
    )
    return answers


def _together(answer: Answer, rounds: list[list[int]], size: int, patience: float) -> list[tuple[bool, Any]]:
    """Return what calls get that are sent together; says what has happened where a future was returned or canceled."""
    try:
        return answer.probe(given.predict_together, rounds, size, patience)
    except Raised as raised:
        kind = raised.kind
        expect(
            "_asyncio.Future" not in raised.message,
            "`predict` returned a future, or what `asyncio.wait` returned. The answer is in `future.result()`.",
        )
        expect(
            kind not in ("InvalidStateError", "CancelledError"),
            f"A future was canceled, was given a result twice, or was read before it had one ({kind}). `asyncio.wait_for` "
            "cancels what it waits for when the time is up; `asyncio.wait` doesn't.",
        )
        raise


def _judge_latecomer(answer: Answer, xs: list[int]) -> None:
    """Check that a call which comes after a full batch is not answered before its own patience ends: slowness can only delay it."""
    patience = 1.0
    rounds = answer.probe(given.predict_after_others, xs, 2, patience)
    for (came, got, seconds), moment in zip(rounds, ("right after them", f"{patience / 2} s later"), strict=True):
        with answer.case(f"size 2, patience {patience:.0f} s: two calls filled a batch, and a third came {moment}"):
            expect(came, "The third call got no answer.")
            _own_answers([got], xs[-1:])
            _expect_patience(seconds, patience)


def _expect_patience(seconds: float, patience: float) -> None:
    expect(
        seconds > patience - 0.01,
        f"The third call was alone, and was answered after {seconds:.2f} s: something flushed before its patience had ended.",
    )


@exercise(
    points=3,
    minutes=15,
    needs={"CPU": 4},
    hints=[
        "A worker can be a task that takes the server's handle and a shard, and repeats three lines.",
        "The three lines get the weights, compute the gradient with them, and send the *gradient*. If you send weights, you "
        "overwrite what the other workers have learned in the meantime.",
        "Start all workers, wait for all of them, and then get the weights from the server.",
    ],
    returns=list[float],
    spare=["            server.apply.remote(gradient(current, shard))"],
)
def async_sgd(answer: Answer, rng: Generator) -> None:
    """Send gradients, not weights: the server applies each one when it arrives, and no worker waits for the slowest."""
    # Long: each worker's gradients carry its mark, so that the weights tell which arrived and with what they were computed.
    workers, steps, rate = 3, int(rng.integers(3, 6)), float(rng.choice([0.25, 0.5]))
    start = np.zeros(4 * workers)
    start[::4] = rng.integers(-20, 20, size=workers)
    with answer.watch() as seen:
        weights = answer.probe(given.train_marked, start.tolist(), steps, rate)
    with answer.case(f"{workers} workers, {steps} steps each with marked gradients, rate {rate}"):
        _judge_marks((_as_array(weights, len(start)) - start) / rate, steps)
        early = _ended_before_a_call(seen.tasks())
        expect(not early, f"Workers that ended before their last gradient had been applied: {early} of {workers}.")
    _judge_regression(answer, rng)


def _as_array(weights: list[float], count: int) -> np.ndarray:
    array = np.array(weights, dtype=float)
    expect(array.shape == (count,), f"The weights came back with shape {array.shape}, not {(count,)}.")
    return array


def _judge_marks(moved: np.ndarray, steps: int) -> None:
    """Check by the marks of three workers' gradients how many arrived, who was alone, and which weights were stale or private."""
    counted, alone, stale, private = moved.reshape(-1, 4).T
    expect(
        not alone.any(),
        "A worker waited in vain for the others. All workers must run at the same time, and the fast ones must go on when one is slow.",
    )
    arrived = counted.tolist()
    expect_close(
        arrived,
        [steps] * len(arrived),
        f"Each worker computes {steps} gradients, and each gradient must move the weights by -`rate` times itself. The weights that you returned have moved by -`rate` times {arrived} gradients of the first, second, and third worker.",
    )
    expect(
        not stale.any(),
        "Some gradients were computed with old weights, to which the server hadn't yet applied the worker's own last two gradients. A worker must get the weights from the server again in every step.",
    )
    expect(
        not private.any(),
        "A worker computed a gradient with weights that the server never had: the worker's own gradients had been applied to "
        "them, but not the others'. A worker must get the weights from the server again in every step.",
    )


def _judge_regression(answer: Answer, rng: Generator) -> None:
    """Check the answer on data: the weights must come close to those that the data were made with."""
    shards, truth = given.linear_data([40, 40, 40], seed=int(rng.integers(1_000_000)))
    begin = truth + rng.choice([-1, 1], size=3) * rng.uniform(2, 3, size=3)
    with answer.case("a regression with 3 shards of 40 rows, 40 steps each, rate 0.1"):
        got = _as_array(answer(given.slope, begin, shards, 40, 0.1), len(truth))
        ended, off = np.round(got, 2).tolist(), np.abs(got - truth).max()
        expect_close(
            got,
            truth,
            f"On a regression with 3 shards and 40 steps each, the weights ended at {ended}; one of them is {off:.2f} away from "
            "the weight that the data were made with.",
            rtol=0,
            atol=0.2,
        )


question(
    "order_of_calls",
    """
    Your notebook calls `counter.add.remote(1)` and then `counter.add.remote(2)`. Meanwhile, a task calls
    `counter.add.remote(10)`. In which order does the actor run the three calls?

    a) In the order in which they were sent: Ray keeps one queue for the whole cluster.
        There is no such queue. Each caller sends its calls directly to the actor.
    *b) 1 before 2; the 10 can come before, between, or after them.
        Right: an ordinary actor keeps the order of one caller's calls, and guarantees no order between callers.
    c) All three at the same time, each in its own thread.
        An ordinary actor runs one call at a time. That is what makes it safe.
    """,
)

question(
    "why_updates_are_lost",
    """
    No two calls to the account ran at the same time, and yet payments were lost. Why?

    *a) A payment took three steps (read, add, write), and other customers' calls ran in between.
        Right: a single call is safe, but a sequence of calls isn't. Turn the three steps into one call.
    b) The actor was too slow, so Ray dropped some of the calls.
        Ray drops no calls. They wait in a queue.
    c) Each task had its own account, because a handle is copied when you pass it as an argument.
        The handle is copied, but all copies lead to the same actor.
    """,
)

question(
    "how_many_actors",
    """
    A machine with 8 cores runs 8 actors. Each of them repeatedly waits 90 ms for a remote simulator and then computes for
    10 ms. You start 24 more. What happens to the number of results per second?

    a) It stays the same, because there are already as many actors as cores.
        That would be true of actors that compute all the time. These wait for 90 of every 100 ms, and the cores are idle meanwhile.
    *b) It becomes about four times as large, because the cores were idle most of the time.
        Right: 8 actors keep 0.8 cores busy, and 32 keep 3.2 busy. With about 80 actors, all cores are busy.
    c) Ray refuses to start them, because each actor needs a core.
        By default, a running actor reserves no CPU. Even `num_cpus=1` would reserve one of Ray's logical CPUs, which isn't a core.
    """,
)

question(
    "blocked_loop",
    """
    An async actor gets 100 calls at once. Each does `time.sleep(0.1)` and returns. How long do all of them take?

    a) About 0.1 s, because an async actor runs up to 1,000 calls at the same time.
        Only calls that `await` let others run. `time.sleep` blocks the one thread that they share.
    *b) About 10 s, because nothing is awaited, so each call keeps the others out.
        Right. With `await asyncio.sleep(0.1)`, it would take about 0.1 s.
    c) About 1 s, because ten threads share the calls.
        All calls of this actor share one thread, no matter how many there are.
    """,
)

question(
    "who_outlives",
    """
    A program creates an actor with `.options(name="scores")` and exits. Then another program in the
    same cluster and namespace calls `ray.get_actor("scores")`. What does it get?

    a) The actor with all its state: that's what names are for.
        A name helps you find an actor, but it doesn't keep the actor running.
    b) A new actor of the same class, with its initial state.
        `get_actor` never creates an actor. `get_if_exists=True` in `.options` finds an actor or creates one.
    *c) An error, because the actor stopped with the program that created it.
        Right. With `lifetime="detached"`, it would keep running until a program kills it, its process dies, or the cluster stops.
    """,
)
