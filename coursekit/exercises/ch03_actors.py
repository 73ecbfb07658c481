"""The judge's side of chapter 3."""

import numpy as np
from numpy.random import Generator

from coursekit import meeting
from coursekit.answer import Answer, Raised, Watched
from coursekit.exercise import exercise, expect, expect_close, expect_equal, quiz
from coursekit.given import ch03_actors as given


def _actors_of(seen: Watched) -> list[dict]:
    """Return Ray's record of each actor that the answer asked for."""
    asked = {task["actor_id"] for task in seen.tasks() if task["kind"] == "actor_creation"}
    return [actor for actor in seen.actors() if actor["actor_id"] in asked]


def _distinct(rng: Generator, count: int, below: int = 100) -> list[int]:
    """Return so many different numbers from 1 on, in no order."""
    return (1 + rng.choice(below - 1, size=count, replace=False)).tolist()


@exercise(
    points=2,
    minutes=8,
    hints=[
        "How many objects of the class are needed, so that the last call knows of the first?",
        "`ray.remote(Counter).remote()` makes one actor and returns its handle; `handle.add.remote(amount)` returns a reference.",
        "Send all calls first; the one `ray.get` comes last.",
    ],
)
def count_up(answer: Answer, rng: Generator) -> None:
    """Make one actor and send it every call; it keeps the total, and runs the calls in the order in which you sent them."""
    amounts = _distinct(rng, 5)
    with answer.watch() as seen:
        got = answer(given.Total, amounts)
    expect(
        isinstance(got, list) and len(got) == 5,
        "One result for each amount: what each call of `add` returned, in a list.",
    )
    expect_equal(
        [total for total, _ in got],
        np.cumsum(amounts),
        f"After each of the amounts {amounts} the totals were {[total for total, _ in got]}. Did one object see "
        "them all? (A result is [total, number of the process that ran `add`].)",
    )
    pids, actors = {pid for _, pid in got}, _actors_of(seen)
    told = "Each result is [total, number of the process that ran `add`]. "
    expect(actors, told + "The calls must go to an actor; Ray started none.")
    expect(len(actors) == 1, told + f"One actor is enough for {len(amounts)} calls; Ray started {len(actors)}.")
    expect(pids == {actors[0]["pid"]}, told + "The calls of `add` did not run in the actor's process.")
    room = meeting.new_room()
    met = answer(given.Reunion, [[room, me, 3] for me in range(3)])
    expect(
        met == [True, True, True],
        "This time the calls wait for each other, and some never came: is every call sent before the first is waited for?",
    )


@exercise(
    points=3,
    minutes=12,
    hints=[
        "Which process must run `pay_in`, so that nobody else can come between reading and writing?",
        "An actor class with two methods: one calls `self.balance = pay_in(self.balance, amount)`, one returns the balance.",
        "A customer is a task with two arguments, the handle of the account and an amount. It waits until its payment is booked.",
    ],
)
def bank(answer: Answer, rng: Generator) -> None:
    """Send the amount to the account and let the account do the sum: its calls run one at a time, so none is lost."""
    amounts = _distinct(rng, 5)
    with answer.watch() as seen:
        got = answer(given.receipt, [], amounts)
    told = f"For the amounts {amounts}, each paid in by a customer, "
    expect(isinstance(got, list), told + "`bank` did not return the balance, which here is a list of receipts.")
    paid = [amount for amount, _ in got]
    pids, actors = {pid for _, pid in got}, _actors_of(seen)
    expect(len(actors) == 1, told + f"there must be one account: Ray started {len(actors)} actors.")
    only_account = pids <= {actors[0]["pid"]}
    why = "Was it read before the payments were booked?" if only_account else "Updates were lost: who else writes?"
    expect_equal(sorted(paid), sorted(amounts), told + f"the balance holds receipts for {sorted(paid)}. {why}")
    expect(
        pids == {actors[0]["pid"]},
        told
        + f"`pay_in` ran in {len(pids)} process(es), and not in the account's alone. Who else can write meanwhile?",
    )
    customers = [task for task in seen.tasks() if task["kind"] == "task"]
    expect(len(customers) == len(amounts), told + f"Ray saw {len(customers)} tasks: each customer is a task.")
    pairs = zip(customers, customers[1:], strict=False)
    expect(
        any(after["created"] < (before["ended"] or np.inf) for before, after in pairs),
        told + "each customer only came when the one before had gone. Let them come at the same time.",
    )


@exercise(
    points=2,
    minutes=8,
    hints=[
        "What does the actor know before the first offer? Not that the best score is 0.",
        "Keep the score and what belongs to it together, in one tuple: they always change together.",
    ],
)
def BestSoFar(answer: Answer, rng: Generator) -> None:
    """Keep the pair, start with None, and replace it only by a higher score."""
    first, low, high, middle = _scores(rng)
    offers: list[list] = [[first, None], [low, "b"], [high, "c"], [high, "d"], [middle, "e"]]
    seen = answer.probe(given.offer_in_order, offers)
    told = f"The offers {[tuple(offer) for offer in offers]} came in this order. "
    expect(seen["before"] is None, f"Before any offer, `best()` must be None; it was {seen['before']}.")
    expect_equal(
        seen["answers"],
        [True, False, True, False, False],
        told + f"`offer` answered {seen['answers']}: True stands for a score higher than all before it, "
        "False for the others.",
    )
    expect_equal(seen["best"], (high, "c"), told + f"`best()` gave {seen['best']}.")
    scores = -rng.permutation(_distinct(rng, 12, 1000)).astype(float)
    lists = [
        [[score, f"{worker}.{i}"] for i, score in enumerate(part)] for worker, part in enumerate(scores.reshape(4, 3))
    ]
    many = answer.probe(given.offer_from_many, lists)
    best = max(offer for mine in lists for offer in mine)
    told = f"Four tasks offered {len(scores)} scores from {min(scores):.0f} to {max(scores):.0f} at the same time. "
    expect_equal(many["best"], best, told + f"`best()` gave {many['best']}.")
    winner = [
        given_answers[mine.index(best)]
        for mine, given_answers in zip(lists, many["answers"], strict=True)
        if best in mine
    ]
    expect(winner == [True], told + "The best of all was told that it is not.")


def _scores(rng: Generator) -> list[float]:
    """Return four scores below 0: the first that is offered, a lower one, the best, and one between the first and the best."""
    best, middle, first, low = np.sort(rng.choice(np.arange(1, 400), size=4, replace=False)) / -4
    return [float(score) for score in (first, low, best, middle)]


@exercise(
    points=3,
    minutes=30,
    hints=[
        "A call that has come too early has nothing to do. How does it wait without keeping the others out?",
        "`future = asyncio.get_running_loop().create_future()` is an empty box. `flush` fills it; "
        "`await asyncio.wait([future], timeout=seconds)` waits for that, and goes on when time is up.",
        "Put (x, future) into `self.waiting`. Are there `self.size` now? Flush. Then wait at most `self.patience`; if the box is "
        "still empty (`future.done()`), flush. Return `future.result()`.",
    ],
)
def Batcher(answer: Answer, rng: Generator) -> None:
    """Let a call wait for its own future: while it awaits, other calls come in, and whoever completes the batch flushes it."""
    size, batches = int(rng.integers(3, 6)), 2
    xs = _distinct(rng, size * batches)
    got = answer.probe(given.predict_together, xs, size, 60.0)
    told = f"{len(xs)} calls came at once, batches hold {size}, and a call is patient for 60 s. "
    answered = [one for one in got if one != "none"]
    expect(
        len(answered) == len(xs),
        told + f"{len(xs) - len(answered)} calls got no answer. Can other calls come in while one waits, "
        "and does the call that fills a batch flush?",
    )
    _expect_answers_of_model(got, told)
    expect_equal(
        [square for square, _, _ in got], [x * x for x in xs], told + "Not every caller got the answer to its own x."
    )
    sizes = {number: length for _, length, number in got}
    expect_equal(
        sorted(sizes.values()), [size] * batches, told + f"The model was called with batches of {list(sizes.values())}."
    )
    few = _distinct(rng, size - 1)
    got = _impatient(answer, few, size)
    told = f"{len(few)} calls came, batches hold {size}, and a call is patient for 0.3 s. "
    expect("none" not in got, told + "Some never got an answer: nobody came to complete the batch.")
    _expect_answers_of_model(got, told)
    expect_equal(
        [square for square, _, _ in got], [x * x for x in few], told + "Not every caller got the answer to its own x."
    )
    _judge_latecomer(answer, _distinct(rng, 3))


def _impatient(answer: Answer, few: list[int], size: int) -> list:
    """Return what calls get that are too few for a batch; says what has happened where `flush` found a cancelled future."""
    try:
        return answer.probe(given.predict_together, few, size, 0.3)
    except Raised as raised:
        expect(
            raised.kind not in ("InvalidStateError", "CancelledError"),
            f"{len(few)} calls came, batches hold {size}, and a call is patient for 0.3 s. Then a future was cancelled or "
            f"filled twice ({raised.kind}). `asyncio.wait_for` cancels what it waits for when time is up; `asyncio.wait` does not.",
        )
        raise


def _judge_latecomer(answer: Answer, xs: list[int]) -> None:
    """Check that a call which comes after a full batch is not answered before its own patience ends: slowness can only delay it."""
    patience = 1.0
    rounds = answer.probe(given.predict_after_others, xs, 2, patience)
    for (got, seconds), moment in zip(rounds, ("right after them", f"{patience / 2} s later"), strict=True):
        told = (
            f"Batches hold 2, and a call is patient for {patience} s. Two calls filled a batch; a third came {moment}. "
        )
        expect(got != "none", told + "It got no answer.")
        _expect_answers_of_model([got], told)
        expect(got[0] == xs[-1] ** 2, told + "It got the answer to somebody else's x.")
        expect(
            seconds > patience - 0.01,
            told + f"It was alone, and answered after {seconds:.2f} s. Who flushed, though its patience had not ended?",
        )


def _expect_answers_of_model(got: list, told: str) -> None:
    odd = [one for one in got if not (isinstance(one, list) and len(one) == 3)]
    expect(not odd, f"{told}A caller got {odd[:1]}: that is not one of the answers of the model.")


@exercise(
    points=3,
    minutes=15,
    hints=[
        "A worker is a task: it gets the handle of the server and a shard, and repeats three lines.",
        "The three lines: get the weights, compute the gradient with them, send the *gradient*. Whoever sends weights "
        "overwrites what others have learned meanwhile.",
        "Start all workers, wait for all of them, then ask the server for the weights.",
    ],
)
def async_sgd(answer: Answer, rng: Generator) -> None:
    """Send gradients, not weights: the server applies each as it comes, and nobody waits for the slowest worker."""
    workers, steps, rate = 3, int(rng.integers(3, 6)), float(rng.choice([0.25, 0.5]))
    start = np.zeros(3 * workers)
    start[::3] = rng.integers(-20, 20, size=workers)
    with answer.watch() as seen:
        weights = np.asarray(answer.probe(given.train_marked, start.tolist(), steps, rate), dtype=float)
    told = f"{workers} workers made {steps} steps each with marked gradients, rate {rate}. "
    expect(weights.shape == start.shape, told + f"The weights came back with the shape {weights.shape}.")
    counted, alone, stale = ((weights - start)[part::3] / rate for part in range(3))
    if alone.any():
        expect(
            False,
            told
            + "A worker waited for the others in vain. All must work at the same time, and go on when one is slow.",
        )
    expect_close(
        counted, [steps] * workers, told + f"Of each worker's {steps} gradients, {counted.tolist()} are in the weights."
    )
    expect(
        not stale.any(),
        told + "Some were computed with weights that lack the worker's own last gradient. When does it fetch them?",
    )
    _judge_ends(seen.tasks(), told)
    _judge_regression(answer, rng)


def _judge_ends(tasks: list[dict], told: str) -> None:
    """Check by Ray's records that no worker ended before a call that it had sent; the last gradients arrive late."""
    ends = {task["task_id"]: task["ended"] for task in tasks if task["kind"] != "actor_creation" and task["ended"]}
    early = {
        task["parent_task_id"]
        for task in tasks
        if task["kind"] == "actor_call" and (task["ended"] or np.inf) > ends.get(task["parent_task_id"], np.inf) + 0.1
    }
    expect(
        not early,
        told + f"{len(early)} worker(s) ended while the last gradient was still on its way: nobody had waited for it.",
    )


def _judge_regression(answer: Answer, rng: Generator) -> None:
    """Check the answer on data: the weights must come near to those that the data were made with."""
    shards, truth = given.linear_data([40, 40, 40], seed=int(rng.integers(1_000_000)))
    begin = truth + rng.choice([-1, 1], size=3) * rng.uniform(2, 3, size=3)
    got = np.asarray(answer(given.slope, begin, shards, 40, 0.1), dtype=float)
    expect_close(
        got,
        truth,
        f"On a regression with 3 shards and 40 steps each, the weights ended at {np.round(got, 2).tolist()}, "
        f"{np.abs(got - truth).max():.2f} away from those behind the data.",
        rtol=0,
        atol=0.2,
    )


@exercise(
    points=3,
    minutes=15,
    hints=[
        "Who is idle at the beginning? And later: which of two lists of `ray.wait` tells you that an actor is free again?",
        "A dictionary from the reference under way to (actor, place in the list) tells whose result has come.",
        "While inputs or references are left: give every idle actor an input, then wait for one reference and free its actor.",
    ],
)
def pool_map(answer: Answer, rng: Generator) -> None:
    """Keep one call under way for each actor; whoever ends first gets the next input, and places put the results in order."""
    desks, xs, few = 3, _distinct(rng, 8), _distinct(rng, 2)
    seen = answer.probe(given.run_pool, desks, xs, few)
    told = f"{len(xs)} inputs were given to {desks} actors. "
    expect(
        isinstance(seen["many"], list) and len(seen["many"]) == len(xs),
        told + "There is not one result for each input.",
    )
    expect(
        all(isinstance(one, list) and len(one) == 4 for one in seen["many"]),
        told + "Some inputs have no result of an actor.",
    )
    results, numbers, met, moving = zip(*seen["many"], strict=True)
    expect(
        all(met), told + "The actors never worked at the same time: is every one of them given a call before you wait?"
    )
    expect(
        all(moving),
        told
        + "While one had a long call, the others stopped or some inputs waited behind it. Who is idle gets the next input.",
    )
    expect(seen["queued"] == 0, told + f"{seen['queued']} calls were sent to an actor whose last call had not ended.")
    expect(len(set(numbers)) == desks, told + f"{len(set(numbers))} of them did all the work.")
    expect_equal(results, [x * x for x in xs], told + "The results are not in the order of the inputs.")
    short = [one[0] for one in seen["few"]]
    expect_equal(short, [x * x for x in few], f"{len(few)} inputs for {desks} actors: the results were {short}.")


quiz(
    "order_of_calls",
    """
    Your notebook calls `counter.add.remote(1)`, then `counter.add.remote(2)`. Meanwhile a task calls
    `counter.add.remote(10)`. In which order does the actor run the three?

    a) In the order of their launch: Ray keeps one queue for the whole cluster.
        There is no such queue: each caller sends its calls straight to the actor.
    *b) 1 before 2; the 10 comes before, between or after them.
        Right: the calls of one caller keep their order, those of different callers have none among each other.
    c) At the same time, each in a thread of its own.
        An ordinary actor runs one call at a time. That is what makes it safe.
    """,
)

quiz(
    "why_updates_are_lost",
    """
    Every call of the account ran alone, and payments were lost all the same. Why?

    *a) A payment was three steps, read, add, write, and other customers came between them.
        Right: one call is safe, a sequence of calls is not. Make one call of it.
    b) The actor was too slow, so Ray dropped some calls.
        Ray drops no calls: they wait in the queue, however long it gets.
    c) Each task had an account of its own, because a handle that is an argument is copied.
        The handle is copied, but all copies lead to the same actor.
    """,
)

quiz(
    "how_many_actors",
    """
    A machine with 8 cores has 8 actors. Each waits 90 ms for a simulator on another machine, then computes for 10 ms,
    again and again. You start 24 more. What happens to the results per second?

    a) They stay as they are: there are as many actors as cores already.
        That holds for actors that compute all the time. These wait for 90 of 100 ms, and the cores with them.
    *b) About four times as many: the cores had plenty of time left.
        Right: 8 actors keep 0.8 cores busy, 32 keep 3.2. From about 80 actors on, the cores are full.
    c) Ray refuses: an actor needs a core.
        An actor asks for no slot while it lives, unless you say `num_cpus=`. And a slot is not a core.
    """,
)

quiz(
    "blocked_loop",
    """
    An async actor gets 100 calls at once. Each is `time.sleep(0.1)`, then `return`. How long until all have their answer?

    a) About 0.1 s: an async actor runs up to 1,000 calls at once.
        Only calls that `await` make room for others. `time.sleep` holds the one thread that they share.
    *b) About 10 s: nothing is awaited, so each call keeps the others out.
        Right. With `await asyncio.sleep(0.1)` it would be about 0.1 s.
    c) About 1 s: ten threads take turns.
        All calls of an async actor share one thread, whatever their number.
    """,
)

quiz(
    "who_outlives",
    """
    A program makes an actor with `.options(name="scores")`, and ends. Another program of the
    same cluster and namespace then calls `ray.get_actor("scores")`. What does it get?

    a) The actor, with all its state: that is what names are for.
        A name helps to find an actor. It does not keep it alive.
    b) A new actor of the same class, with fresh state.
        `get_actor` never makes one; `get_if_exists=True` in `.options` finds or makes one.
    *c) An error: the actor ended with the program that made it.
        Right. With `lifetime="detached"` it would stay until somebody kills it, or the cluster stops.
    """,
)
