"""The judge's side of chapter 1."""

import math

import numpy as np
from numpy.random import Generator

from coursekit.exercises._steps import plain_tasks
from coursekit.given import ch01_tasks as given
from coursekit.judging.answer import Answer, Raised
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import expect, expect_equal
from coursekit.ray_bridge import rendezvous

TWO_THAT_MEET = "two calls of a function that waits until the other is running, and returns whether it ever was"
FIRST_ENDS_LAST = "two calls that run at the same time; the first ends after the second"


def _two_that_meet() -> list[list]:
    """Return two inputs of `meets_another`: each call waits for the other."""
    point = rendezvous.new_point()
    return [[point, 0, 1], [point, 1, 0]]


def _first_ends_last() -> list[list]:
    """Return two inputs of `first_ends_last`."""
    point = rendezvous.new_point()
    return [[point, 0], [point, 1]]


@exercise(
    points=1,
    minutes=5,
    needs={"CPU": 4},
    hints=[
        "`ray.remote(function)` gives you an object that can launch tasks. How do you launch one?",
        "You need two of them: `ray.remote` makes the remote function, and `.remote` on that launches a task. Return what it gives you, without `ray.get`.",
    ],
)
def as_task(answer: Answer, rng: Generator) -> None:
    """Launch the function as a task and return its reference; the caller decides when to wait."""
    x = int(rng.integers(2, 1000))
    seen = _launched(answer, x)
    _expect_reference(seen)
    expect(seen["ran"], "The task ran another function than the one that the check handed over: use `function`.")
    driver, worker = seen["pids"]
    expect(driver != worker, "The function ran in the notebook's own process, not in a task.")
    expect(
        seen["released"],
        "`as_task` returned only when the task had ended. It must return while the task is still running.",
    )
    expect_equal(seen["value"], x * x, f"The task did not return what the function returns for {x}.")


def _launched(answer: Answer, x: int) -> given.Launched:
    """Return what came of the launch; says what has happened where `ray.remote` refused what it was given."""
    try:
        return answer.probe(given.launch, x)
    except Raised as raised:
        expect(
            "@ray.remote decorator" not in raised.message,
            "`ray.remote(...)` needs the function itself, and yours got what a call of it returned.",
        )
        raise


def _expect_reference(seen: given.Launched) -> None:
    expect(
        seen["reference"] or not seen["ran"],
        "`as_task` returned the value of the call, not a reference: launch a task, and leave the waiting to the caller.",
    )
    expect(
        seen["reference"],
        f"`as_task` returned {seen['type']}. It must return the reference that it gets from `.remote()`.",
    )


@exercise(
    points=2,
    minutes=10,
    needs={"CPU": 4},
    hints=[
        "Where does your code wait for the first result? Has the second task started by then?",
        "Collect the references in a list first; `ray.get` accepts a list.",
    ],
)
def parallel_map(answer: Answer, rng: Generator) -> None:
    """Launch everything first; call `ray.get` when all tasks are under way."""
    xs = rng.integers(-50, 50, size=6).tolist()
    _expect_squares(answer(given.square, xs), xs)
    with answer.case(TWO_THAT_MEET):
        expect_equal(
            answer(given.meets_another, _two_that_meet()),
            [True, True],
            "Two calls never ran at the same time: does something wait before all tasks are launched?",
        )
    with answer.case(FIRST_ENDS_LAST):
        _expect_first_first(answer(given.first_ends_last, _first_ends_last()))


def _expect_squares(got: object, xs: list[int]) -> None:
    expect_equal(got, [x * x for x in xs], "One result for each input, in the order of the inputs.")


def _expect_first_first(got: object) -> None:
    expect_equal(got, [0, 1], "Results come in the order of the inputs, whichever call ends first.")


@exercise(
    points=2,
    minutes=10,
    needs={"CPU": 4},
    hints=[
        "`ray.wait(refs, num_returns=1)` returns two lists: the references that are ready, and those that are not.",
        "Wait for one, get it, keep the rest for the next round; stop when you have k results.",
        "With `num_returns=k` you learn which k ended first, but `ray.wait` keeps the order of its argument.",
    ],
)
def first_k(answer: Answer, rng: Generator) -> None:
    """Ask `ray.wait` for one at a time: a loop that is quicker than the tasks gets them in the order in which they end."""
    xs, order = _four_and_their_ends(rng)
    seen = answer.probe(given.finish_in_order, order, 3)
    results = seen["results"]
    with answer.case(f"the tasks {xs}, which ended in the order {order}; k was 3"):
        expect(not seen["waited_for_the_rest"], "`first_k` waited for tasks that it does not need.")
        expect(
            isinstance(results, list | tuple | np.ndarray) and len(results) == 3,
            f"`first_k` returned {results}: that is not k results.",
        )
        expect_equal(results, order[:3], f"`first_k` returned {results}.")


def _four_and_their_ends(rng: Generator) -> tuple[list[int], list[int]]:
    """Return four numbers, and the order in which they end: the first three neither rise nor fall."""
    xs = sorted(rng.choice(100, size=4, replace=False).tolist())
    ends = [[3, 0, 2, 1], [1, 3, 0, 2], [0, 3, 1, 2], [2, 0, 3, 1]]
    return xs, [xs[i] for i in ends[rng.integers(len(ends))]]


@exercise(
    points=2,
    minutes=10,
    needs={"CPU": 4},
    hints=[
        "Write the task first: a function that takes a *list* of inputs and returns the list of results.",
        "`xs[i : i + size]` for i in steps of `size` gives the batches; the last may be shorter.",
        "`ray.get` of all batches gives a list of lists: join them into one list.",
    ],
)
def batched(answer: Answer, rng: Generator) -> None:
    """Put a loop inside the task: `size` calls then share the price of one task."""
    size, rest = int(rng.integers(3, 6)), int(rng.integers(1, 3))
    xs = rng.integers(-50, 50, size=7 * size + rest).tolist()
    with answer.watch() as seen:
        got = answer(given.square, xs, size)
    expect_equal(got, [x * x for x in xs], "One result for each input, in one flat list, in the order of the inputs.")
    inputs, tasks, wanted = len(xs), len(plain_tasks(seen)), math.ceil(len(xs) / size)
    expect(tasks == wanted, f"{inputs} inputs in batches of {size} are {wanted} tasks; Ray saw {tasks}.")
    with answer.case(TWO_THAT_MEET):
        expect_equal(
            answer(given.meets_another, _two_that_meet(), 1),
            [True, True],
            "Two batches never ran at the same time: does something wait before all are launched?",
        )
    with answer.case(FIRST_ENDS_LAST):
        _expect_first_first(answer(given.first_ends_last, _first_ends_last(), 1))


@exercise(
    points=3,
    minutes=15,
    needs={"CPU": 4},
    hints=[
        "Pass references to `.remote(a, b)`: Ray waits for them, and the task sees their values. You need no `ray.get`.",
        "One round adds neighbours, (0, 1), (2, 3), …, and halves the list. How many rounds until one is left?",
        "With an odd number, the last one has no neighbour: it moves on to the next round unchanged.",
    ],
)
def tree_sum(answer: Answer, rng: Generator) -> None:
    """Add neighbours in rounds: the additions of one round do not need each other, so they can run side by side."""
    for count in (int(rng.integers(19, 25)), int(rng.choice([5, 7]))):  # many, so that a few chains show; odd, and few
        numbers = rng.integers(-100, 100, size=count).tolist()
        seen = answer.probe(given.sum_of_tree, numbers)
        expect(seen["reference"], "`tree_sum` must return the reference to the total, not the total.")
        expect(seen["returned_first"], "`tree_sum` waited for a value. Pass the references on; Ray does the waiting.")
        expect_equal(
            seen["total"],
            sum(numbers),
            f"The total of the {count} numbers {numbers} came out as {seen['total']}. Does a number without a neighbour get lost?",
        )
        _expect_rounds(seen["depth"], count)


def _expect_rounds(depth: int, count: int) -> None:
    """Check how many additions had to wait for one another."""
    rounds = math.ceil(math.log2(count))
    expect(depth > 0, "Your tasks never called `add`.")
    expect(depth <= rounds + 1, f"{count} numbers need {rounds} rounds; yours made {depth} additions in a row.")


@exercise(
    points=3,
    minutes=15,
    needs={"CPU": 4},
    hints=[
        "Before you launch another task: how many are under way? If `limit`, wait for one with `ray.wait`.",
        "Remember which reference belongs to which input, so that you can return the results in order.",
        "Keep all references in one list, in order, and those still under way in a second list.",
    ],
)
def bounded_map(answer: Answer, rng: Generator) -> None:
    """Wait for *one* whenever the limit is reached, then launch the next: the window slides."""
    limit, xs = int(rng.integers(2, 4)), rng.permutation(rng.choice(100, size=7, replace=False)).tolist()
    with answer.watch() as seen:
        got = answer(given.slow_square, xs, limit)
    _expect_squares(got, xs)
    _expect_at_most(limit, xs, plain_tasks(seen))
    _expect_sliding(answer.probe(given.one_long_many_short, xs, limit), xs, limit)


def _expect_at_most(limit: int, xs: list[int], tasks: list[dict]) -> None:
    """Check by Ray's records that each input was a task, and that never more than `limit` were under way."""
    spans = [(task["created"], task["ended"] or math.inf) for task in tasks]
    inputs, launched = len(xs), len(spans)
    expect(launched == inputs, f"{inputs} inputs are {inputs} tasks; Ray saw {launched}.")
    most = max(sum(begin <= now < end for begin, end in spans) for now, _ in spans)
    expect(most <= limit, f"With limit={limit}, {most} tasks were under way at once.")


def _expect_sliding(mixed: given.Mixed, xs: list[int], limit: int) -> None:
    """Check a call whose first task lasts longer than all others together."""
    expect_equal(mixed["values"], [x * x for x in xs], "With one long task, the results came back in the wrong order.")
    expect(
        mixed["full"],
        f"With limit={limit}, there were never {limit} tasks under way at once: use the limit to the full.",
    )
    expect(
        mixed["kept_moving"],
        "While the first task was still running, no other was launched: wait for any one of them, not for a certain one or for all.",
    )


question(
    "when_remote_returns",
    """
    `ref = slow_square_task.remote(3)` has just run. What is true now?

    a) The task has ended, and `ref` holds 9.
        The call returned at once; your program has waited for nothing yet.
    *b) The task runs when a slot is free, which may be now; `ref` stands for its result.
        Right. The task may be waiting for a slot, running, or done: `ref` is the same in all three cases.
    c) The task starts when you call `ray.get(ref)`.
        Ray does not wait for `ray.get`: the task starts when a slot is free.
    """,
)

question(
    "order_of_get",
    """
    `ray.get([a, b, c])`: c ends first, then a, then b. In which order are the results?

    a) c, a, b: as they ended.
        That is what a quick loop around `ray.wait` gives you.
    *b) a, b, c: as in the list.
        Right: `ray.get` waits for all of them, and keeps the order of its argument.
    c) In no particular order.
        The order is guaranteed: it is that of the list.
    """,
)

question(
    "tiny_tasks",
    """
    A loop of 10,000 additions takes 0.5 ms. You turn each addition into a task, on four cores. What happens?

    a) It takes about a quarter of the time.
        That would be so if tasks cost nothing. You have measured what they cost.
    b) It takes about as long as before.
        A task costs thousands of times as much as an addition.
    *c) It takes thousands of times longer.
        Right: seconds instead of half a millisecond, all spent on starting tasks. Put many additions into each task.
    """,
)

question(
    "reference_as_argument",
    """
    `total = add_task.remote(a_ref, b_ref)`, and `a_ref`'s task is still running. What happens?

    a) The call waits until `a_ref` is ready.
        `.remote()` never waits, whatever its arguments are.
    b) `add` starts, and must call `ray.get(a_ref)` itself.
        A reference passed as an argument arrives as its value.
    *c) `add` starts once both values exist, and sees the values.
        Right: Ray keeps the order for you. That is how you write a graph of tasks.
    """,
)
