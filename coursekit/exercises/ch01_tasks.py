"""The judge's side of chapter 1."""

import math

import numpy as np
from numpy.random import Generator

from coursekit.exercises._steps import plain_tasks
from coursekit.given import ch01_tasks as given
from coursekit.judging.answer import Answer, Raised
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import agree, expect, expect_close, expect_equal
from coursekit.ray_bridge import rendezvous


@exercise(
    points=1,
    minutes=5,
    needs={"CPU": 4},
    hints=[
        "`ray.remote(function)` gives you a remote function, which can launch tasks. How do you launch one?",
        "You need both: `ray.remote` makes the remote function, and calling it with `.remote(...)` launches a task. Return what that call returns, without `ray.get`.",
    ],
)
def as_task(answer: Answer, rng: Generator) -> None:
    """Launch the function as a task and return its reference, so that the caller decides when to wait."""
    x = int(rng.integers(2, 1000))
    seen = _launched(answer, x)
    _expect_reference(seen)
    expect(
        seen["ran"],
        "The reference's result isn't that of the function that the check passed to `as_task`, but another one. Launch that function, with `x`.",
    )
    driver, worker = seen["pids"]
    expect(driver != worker, "The function ran in the notebook's own process, not in a task.")
    expect(
        seen["released"],
        "`as_task` didn't return before the task ended. It must return while the task is still running.",
    )
    expect_equal(seen["value"], x * x, f"The task didn't return what the function returns for {x}.")


def _launched(answer: Answer, x: int) -> given.Launched:
    """Return what came of the launch; says what has happened where `ray.remote` refused what it was given."""
    try:
        return answer.probe(given.launch, x)
    except Raised as raised:
        expect(
            "@ray.remote decorator" not in raised.message,
            "`ray.remote(...)` takes the function itself and nothing else: neither the function's input nor what a call to the function returned.",
        )
        raise


def _expect_reference(seen: given.Launched) -> None:
    expect(
        seen["reference"] or not seen["ran"],
        "`as_task` returned the function's value, not a reference. Launch a task, and leave the waiting to the caller.",
    )
    expect(
        seen["reference"],
        f"`as_task` returned an object of type {seen['type']}. It must return the reference that `.remote(...)` returns.",
    )


@exercise(
    points=2,
    minutes=10,
    needs={"CPU": 4},
    hints=[
        "Where does your code wait for the first result? Has the last task been launched by then?",
        "Collect the references in a list first. `ray.get` accepts a list.",
    ],
    spare=["    refs = [ray.get(task.remote(x)) for x in xs]"],
)
def parallel_map(answer: Answer, rng: Generator) -> None:
    """Launch everything first, and call `ray.get` only after that."""
    places = _first_meets_last(rng)
    with answer.case(
        "six calls: the first one waits until the last one has started, and ends after all the others; "
        "each returns its number, and how many calls it saw start"
    ):
        with answer.watch() as seen:
            got = answer(given.meets, places)
        _expect_tasks(plain_tasks(seen), len(places), 1)
        _expect_overlap(got, places)


def _first_meets_last(rng: Generator) -> list[list]:
    """Return six inputs of `meets`: the first call waits for the last one to start."""
    point, xs = rendezvous.new_point(), rng.choice(100, size=6, replace=False).tolist()
    return [[point, me, x, [] if me else [5]] for me, x in enumerate(xs)]


def _expect_overlap(got: object, places: list[list]) -> None:
    """Check the results of calls of which the first waits for another."""
    wanted = [[x, len(others)] for _, _, x, others in places]
    expect_close(
        got,
        wanted,
        "There must be one result per input, in the order of the inputs, whichever call ends first.",
        mistakes={
            "The last call hadn't started while the first one was running. Launch every task before you wait for a result.": [
                [wanted[0][0], 0],
                *wanted[1:],
            ]
        },
    )


def _expect_tasks(tasks: list[dict], inputs: int, size: int) -> None:
    """Check by Ray's records how many tasks there were."""
    wanted, launched = math.ceil(inputs / size), len(tasks)
    expect(
        launched == wanted, f"For {inputs} inputs with {size} per task, Ray must see {wanted} tasks; it saw {launched}."
    )


@exercise(
    points=2,
    minutes=10,
    needs={"CPU": 4},
    hints=[
        "`ray.wait(refs, num_returns=1)` returns two lists: one with a reference that is ready, and one with all the others.",
        "Wait for one, get its value, and keep the others for the next round. Stop when you have k results.",
        "`num_returns=k` tells you which k ended first, but `ray.wait` keeps the order of the list that you passed.",
    ],
    spare=["        results.append(ray.get(pending[0]))"],
)
def first_k(answer: Answer, rng: Generator) -> None:
    """Let `ray.wait` return one reference at a time: a loop that is faster than the tasks gets them in the order in which they end."""
    # Long: the tasks, the wait, the results and their order, and the call that nobody needs each have a message.
    xs, order = _four_and_their_ends(rng)
    with answer.case(f"four calls with the inputs {xs}, which end in the order {order}; k is 3"):
        seen = answer.probe(given.finish_in_order, order, 3)
        results, last = seen["results"], order[-1]
        expect(
            seen["overlapped"],
            "The four calls weren't all running at the same time. Launch a task for every input before you wait for a result.",
        )
        expect(
            not seen["waited_for_the_rest"],
            f"`first_k` waited for the call with the input {last}, which ends last. It must return as soon as it has k results.",
        )
        repeated = max(_times(results, x) for x in order)
        expect(
            repeated < 2,
            f"`first_k` returned the result of one call {repeated} times. Each of the k results must come from a different call.",
        )
        expect(
            not _lists_in(results),
            f"`first_k` returned {results}. There must be one flat list of results: `ray.wait` returns lists, even for a single reference, "
            "and `ray.get` of a list returns a list.",
        )
        expect_equal(
            results, order[:3], f"`first_k` returned {results}, not the first 3 in the order in which they ended."
        )
        expect(
            seen["left_running"],
            "The call that `first_k` didn't need never reached its end. Leave such calls running: the caller may still want them.",
        )
    with answer.case(f"one call with the input {order[0]}; k is 1"):
        results = answer.probe(given.finish_in_order, order[:1], 1)["results"]
        expect_equal(results, order[:1], "With k inputs, `first_k` must return the results of all of them.")


def _lists_in(results: object) -> bool:
    """Return whether a result is a list itself."""
    several = (list, tuple, np.ndarray)
    return isinstance(results, several) and any(isinstance(each, several) for each in results)


def _times(results: object, x: int) -> int:
    """Return how many of the results are x."""
    return sum(agree(result, x) for result in results) if isinstance(results, list | tuple | np.ndarray) else 0


def _four_and_their_ends(rng: Generator) -> tuple[list[int], list[int]]:
    """Return four numbers, and the order in which they end: the first three neither rise nor fall."""
    xs = sorted(rng.choice(100, size=4, replace=False).tolist())
    ends = [[3, 0, 2, 1], [1, 3, 0, 2], [0, 3, 1, 2], [2, 0, 3, 1]]
    return xs, [xs[i] for i in ends[rng.integers(len(ends))]]


@exercise(
    points=2,
    minutes=10,
    needs={"CPU": 4},
    returns=list,
    hints=[
        "Write the task first: a function that takes a *list* of inputs and returns the list of results.",
        "`xs[i : i + size]` for every `size`-th i gives you the batches. The last one may be shorter.",
        "`ray.get` on the references of all batches returns a list of lists. Join them into one list.",
    ],
    spare=["        return function(batch)"],
)
def batched(answer: Answer, rng: Generator) -> None:
    """Put a loop inside the task, so that `size` calls share the overhead of one task."""
    # Long: lists of lists, lost inputs, and another order each have a message; after the results, the tasks are judged.
    size = int(rng.integers(3, 6))
    xs = rng.choice(100, size=7 * size + 1, replace=False).tolist()  # the last batch has one; below, it's full
    with answer.watch() as seen:
        got = answer(given.square, xs, size)
    _expect_squares(got, xs)
    _expect_tasks(plain_tasks(seen), len(xs), size)
    places = _first_meets_last(rng)
    with answer.case(
        "six calls in batches of 3: the first one waits until the last one has started, and its batch ends last; "
        "each returns its number, and how many calls it saw start"
    ):
        with answer.watch() as seen:
            got = answer(given.meets, places, 3)
        _expect_overlap(got, places)
        _expect_tasks(plain_tasks(seen), len(places), 3)


def _expect_squares(got: list, xs: list[int]) -> None:
    """Check the squares of the inputs: as many as inputs, in one list, in their order."""
    inputs, count = len(xs), len(got)
    expect(
        not _lists_in(got),
        f"{count} items came back, and each is a list of results. There must be one flat list, with one result per input.",
    )
    expect(count == inputs, f"{count} results came back for {inputs} inputs. There must be one per input.")
    expect(
        all(_times(got, x * x) == 1 for x in xs),
        "A result isn't what the function returns for its input.",
    )
    expect_equal(
        got, [x * x for x in xs], f"All {inputs} results are there, but they must be in the order of the inputs."
    )


@exercise(
    points=3,
    minutes=15,
    needs={"CPU": 4},
    hints=[
        "Pass references to `.remote(a, b)`. Ray waits for their values and passes those to the task, so you don't need `ray.get`.",
        "One round adds neighbors, (0, 1), (2, 3), …, and halves the list. How many rounds until one reference is left?",
        "With an odd number of references, the last one has no partner: it moves on to the next round unchanged.",
    ],
    spare=["        pairs = [add(ray.get(a), ray.get(b)) for a, b in zip(refs[::2], refs[1::2], strict=False)]"],
)
def tree_sum(answer: Answer, rng: Generator) -> None:
    """Add neighbors in rounds: the additions of one round don't need one another, so they can run in parallel."""
    # Long: what came back and when, what `add` received, the total, and the rounds each have a message.
    for count in (1, 5, int(rng.integers(33, 39))):  # the fewest; odd; many, so that a few chains show
        numbers = rng.integers(1, 100, size=count).tolist()
        seen = answer.probe(given.sum_of_tree, numbers)
        expect(
            seen["type"] != "the total",
            "`tree_sum` returned the total itself. It must return a reference to the total, without waiting.",
        )
        expect(
            seen["type"] == "ObjectRef",
            f"`tree_sum` returned an object of type {seen['type']}. It must return a reference to the total.",
        )
        expect(
            seen["returned_first"],
            "`tree_sum` waited for a value. Pass the references to the tasks as they are: Ray waits for their values.",
        )
        stranger = seen["stranger"]
        expect(
            "ObjectRef(" not in stranger,
            "`add` received a reference, not a value. Ray waits only for a reference that is an argument itself, and not for one inside a list or another object.",
        )
        expect(
            not stranger,
            f"`add` received `{stranger}`, which is neither one of the values nor a sum of them. A value without a partner moves on to the next round unchanged.",
        )
        _expect_total(seen["total"], numbers)
        _expect_rounds(seen["depth"], count)


def _expect_total(total: object, numbers: list[int]) -> None:
    count, wanted = len(numbers), sum(numbers)
    expect_close(
        total,
        wanted,
        f"{count} numbers add up to {wanted}, but your total is {total}.",
        mistakes={"The last of an odd number of values is missing from the total.": sum(numbers[:-1])},
    )


def _expect_rounds(depth: int, count: int) -> None:
    """Check how many additions had to wait for one another."""
    rounds = math.ceil(math.log2(count))
    expect(depth > 0 or count == 1, "Your tasks never called `add`.")
    expect(
        depth <= rounds + 1,
        f"{count} numbers need {rounds} rounds, but yours had {depth} additions in a row, each waiting for the one before.",
    )


@exercise(
    points=3,
    minutes=15,
    needs={"CPU": 4},
    returns=list,
    hints=[
        "Before you launch another task: how many are in flight? If there are `limit` of them, wait for one with `ray.wait`.",
        "Remember which reference belongs to which input, so that you can return the results in order.",
        "Keep all references in one list, in order, and those in flight in a second list.",
    ],
    spare=["        if len(refs) == limit:"],
)
def bounded_map(answer: Answer, rng: Generator) -> None:
    """Whenever the limit is reached, wait for any *one* task, and then launch the next: the window slides."""
    # Long: results, their order, the number of tasks in flight, and the sliding each have a message.
    limit, point, xs = int(rng.integers(2, 4)), rendezvous.new_point(), rng.choice(100, size=7, replace=False).tolist()
    others = [[other for other in range(limit) if other != me] for me in range(limit)]  # the first calls meet
    others[0].append(6)  # and the first of them outlasts the others
    places = [[point, me, x, others[me] if me < limit else []] for me, x in enumerate(xs)]
    with answer.case(
        f"seven calls with limit={limit}; the first one waits until the last one has started; "
        "each returns its number, and how many calls it saw start"
    ):
        with answer.watch() as seen:
            got = answer(given.meets, places, limit)
        _expect_at_most(limit, plain_tasks(seen))
        pairs = [
            row if isinstance(row, list | tuple) and list(map(type, row)) == [int, int] else (None, 0) for row in got
        ]
        _expect_numbers([x for x, _ in pairs], xs)
        _expect_sliding([met for _, met in pairs], limit)
    places = [[point, me, x, []] for me, x in enumerate(xs[:2])]
    expect_equal(
        answer(given.meets, places, 4),
        [[x, 0] for x in xs[:2]],
        "With two inputs and limit=4, there must be two results, in the order of the inputs.",
    )


def _expect_numbers(numbers: list[int | None], xs: list[int]) -> None:
    """Check which calls the seven results come from."""
    count = len(numbers)
    expect(
        count == 7 and set(numbers) == set(xs),
        f"There must be one flat list of seven results, one per input; yours has {count} items.",
    )
    expect(numbers == xs, "The results must be in the order of the inputs, whichever call ends first.")


def _expect_at_most(limit: int, tasks: list[dict]) -> None:
    """Check by Ray's records that each of the seven inputs was a task, and that never more than `limit` were in flight."""
    spans = [(task["created"], task["ended"] or math.inf) for task in tasks]
    launched = len(spans)
    expect(launched == 7, f"Seven inputs need seven tasks, one each, but Ray saw {launched}.")
    most = max(sum(begin <= now < end for begin, end in spans) for now, _ in spans)
    expect(most <= limit, f"With limit={limit}, there were {most} tasks in flight at the same time.")


def _expect_sliding(met: list[int], limit: int) -> None:
    """Check which calls met others: the first `limit` meet, and the first of all also meets the last."""
    expect(
        min(met[:limit]) >= limit - 1,
        f"With limit={limit}, there were never {limit} tasks in flight at the same time: use the whole limit.",
    )
    expect(
        met[0] == limit,
        "While the first task was running, the last one was never launched. Once the limit is reached, wait for whichever task ends first.",
    )


question(
    "when_remote_returns",
    """
    `ref = slow_square_task.remote(3)` has just run. What's true now?

    a) The task has ended, and `ref` holds 9.
        `.remote(...)` returned at once, so your program hasn't waited for anything yet.
    *b) The task runs as soon as a CPU is free, perhaps now, and `ref` stands for its result.
        Right. The task may be waiting for a CPU, running, or done. `ref` is the same in all three cases.
    c) The task starts when you call `ray.get(ref)`.
        Ray doesn't wait for `ray.get`. The task starts as soon as a CPU is free.
    """,
)

question(
    "order_of_get",
    """
    You call `ray.get([a, b, c])`, and c's task ends first, then a's, then b's. In which order are the results?

    a) c, a, b: the order in which the tasks end.
        You'd get this order from a loop around `ray.wait` that is faster than the tasks.
    *b) a, b, c: the order of the list.
        Right: `ray.get` waits for all of them and keeps the order of its argument.
    c) There is no particular order.
        The order is guaranteed: it's the order of the list.
    """,
)

question(
    "tiny_tasks",
    """
    A loop of 10,000 additions takes 0.5 ms. You turn each addition into a task, on four cores. How long does it take now?

    a) About a quarter of the time.
        That would be true if a task had no overhead, but you've measured what it costs.
    b) About as long as before.
        A task costs thousands of times as much as an addition.
    *c) Thousands of times as long.
        Right: it takes seconds instead of half a millisecond, and nearly all of that is overhead. Put many additions into each task.
    """,
)

question(
    "reference_as_argument",
    """
    You call `total = add_task.remote(a_ref, b_ref)` while the task behind `a_ref` is still running. What happens?

    a) The call to `.remote` waits until `a_ref` is ready.
        `.remote(...)` returns without waiting for the values behind its arguments.
    b) `add` starts at once, and must call `ray.get(a_ref)` itself.
        If you pass a reference as an argument, the function receives its value.
    *c) `add` starts once both values exist, and receives the values.
        Right: Ray sees to the order. That's how you write a graph of tasks.
    """,
)
