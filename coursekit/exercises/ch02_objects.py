"""The judge's side of chapter 2."""

import numpy as np
from numpy.random import Generator

from coursekit.exercises._steps import plain_tasks
from coursekit.given import ch02_objects as given
from coursekit.judging.answer import Answer, Watched
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import expect, expect_close, expect_equal, expect_type
from coursekit.ray_bridge import rendezvous

MB = MILLION = 2**20  # bytes; numbers


def _expect_not_held(held: int) -> None:
    """Fail where a reference to the input outlives the call: pickled inside a function, it is never given back."""
    expect(
        held == 0,
        "After your function returned, a reference to the array or a view of it still existed, so Ray can't free it. Pass the "
        "reference to tasks as an argument, and store neither it nor a view anywhere else: a closure that uses the reference "
        "holds it for good.",
    )


@exercise(
    points=2,
    minutes=5,
    needs={"CPU": 4},
    hints=[
        "Every `.remote(array, x)` makes a copy. What can you pass instead of the array?",
        "Call `ref = ray.put(array)` once, before the loop, and pass `ref` to every task.",
    ],
)
def share_once(answer: Answer, rng: Generator) -> None:
    """Put the array once and pass the reference to every task, so that all of them read the same copy in the store."""
    array = rng.random(100_000)  # 0.8 MB: in the store, but too small to show where the chapter lists objects
    xs = rng.choice(len(array), size=6, replace=False).tolist()
    known = answer.probe(given.objects_here, array.nbytes)
    with answer.watch() as seen:
        got, copies = _picked(answer, seen, array, xs)
    expect_equal(got, [float(array[x]) for x in xs], "The results must come back in the order of `xs`, one for each x.")
    _expect_one_copy(copies, xs, len(plain_tasks(seen)))
    _expect_not_held(answer.probe(given.held_here, array.nbytes, known))
    point = rendezvous.new_point()
    with answer.case("two calls to a function that waits until the other is running, and returns whether it ever was"):
        expect_equal(
            answer(given.meets_another, array[:10], [[point, 0, 1], [point, 1, 0]]),
            [True, True],
            "No two calls ran at the same time. Launch all of the tasks before you wait for the first result.",
        )


def _picked(answer: Answer, seen: Watched, array: np.ndarray, xs: list[int]) -> tuple[object, float]:
    """Return what came back, and how many copies of the array were put into the stores of the cluster meanwhile."""
    before = _put_in(seen)
    got = answer(given.pick, array, xs)
    return got, (_put_in(seen) - before) / array.nbytes


def _put_in(seen: Watched) -> int:
    """Return how many bytes were put into the stores of the cluster since it started."""
    return sum(store["created_bytes"] for store in seen.stores())


def _expect_one_copy(copies: float, xs: list[int], tasks: int) -> None:
    calls = len(xs)
    expect(tasks == calls, f"Each of the {calls} calls needs a task of its own, but Ray's records show {tasks} tasks.")
    expect(
        copies > 0.9,
        "The array never went into the object store, so it reached the workers in another way, such as inside the function.",
    )
    expect(
        copies < 1.5,
        f"For {calls} tasks, your code put {copies:.0f} copies of the array into the store, and one is enough for all of them.",
    )


@exercise(
    points=2,
    minutes=8,
    needs={"CPU": 4},
    hints=[
        "Where do you slice the matrix? A slice that you make in the driver has to travel to a task, but a slice that a task makes is a view.",
        "Write a task that takes the matrix and the number of its block. Pass it `ref` and the number.",
        "`np.array_split(matrix, blocks)[i]` is a view of block i, even if the rows don't divide evenly.",
    ],
)
def column_sums(answer: Answer, rng: Generator) -> None:
    """Pass the whole matrix to every task by reference and slice it inside the task, because a slice of a view is a view."""
    # Long: a copy shows only in the store's own counters and in where the memory of an array lies.
    blocks = int(rng.integers(2, 5))
    matrix = _uneven_matrix(rng, blocks)
    with answer.watch() as seen:
        found = answer.probe(given.sums_of_matrix, matrix, blocks)
    expect(not found["here"], "`add_rows` ran in the notebook's own process. Call it inside the tasks.")
    tasks = len(plain_tasks(seen))
    expect(
        tasks == blocks,
        f"Launch one task for each of the {blocks} blocks, and no others. Ray's records show {tasks} tasks.",
    )
    _expect_sums(found["sums"], matrix, blocks)
    _expect_no_copy(found, matrix.nbytes / MB)
    _expect_not_held(found["kept"])
    height = len(matrix)
    expect(
        not found["all_rows"],
        f"A task passed `add_rows` an array with all {height} rows of the matrix. Each task has rows of its own, with all of their columns.",
    )
    expect(
        found["met"],
        "`add_rows` was never running for two blocks at the same time. Launch all of the tasks before you wait for the first "
        "result, and call `add_rows` in each of them.",
    )


def _uneven_matrix(rng: Generator, blocks: int) -> np.ndarray:
    """Return a matrix whose rows never divide evenly, with each row's number in the first column."""
    height = blocks * int(rng.integers(800, 1000)) + 1
    matrix = rng.integers(-100, 100, size=(height, 64))
    matrix[:, 0] = np.arange(height)
    return matrix


def _expect_sums(got: object, matrix: np.ndarray, blocks: int) -> None:
    height, width = matrix.shape
    sums = expect_type(got, np.ndarray, "the sums")
    expect(
        sums.shape == (width,),
        f"You returned an array of shape {sums.shape}. A matrix with {width} columns has {width} column sums, shape ({width},).",
    )
    expect_equal(
        sums,
        matrix.sum(axis=0),
        f"The column sums are wrong for a matrix of {height} rows in {blocks} blocks. Every row must be in exactly one block, and "
        "the sums of the blocks are added up.",
    )


def _expect_no_copy(found: given.Added, whole: float) -> None:
    """Check that no rows of the matrix were put into the store, nor copied by a task."""
    expect(
        found["copied_mb"] < whole / 4,
        f"The matrix of {whole:.1f} MB was already in the store, and your code put {found['copied_mb']:.1f} MB more into it.",
    )
    expect(
        not found["listed"],
        "`add_rows` got a list or a tuple of rows. Pass it one array, which is a slice of the matrix.",
    )
    expect(
        not found["copied"],
        "`add_rows` got rows that are the task's own copy, not a view of the store. The task takes the matrix as an argument, and "
        "a slice with a colon copies nothing.",
    )


@exercise(
    points=2,
    minutes=12,
    needs={"CPU": 4},
    hints=[
        "`join` needs a list of values. What arrives if you pass a list of references to `.remote`?",
        "A reference becomes its value only if it's an argument by itself, as in `task.remote(*refs)`.",
        "Write a small task, `def join_all(*values)`, that passes `join` a list.",
    ],
    spare=["    return join_all.remote([prepare_task.remote(ref) for ref in refs])"],
)
def pipeline(answer: Answer, rng: Generator) -> None:
    """Unpack the references into arguments with `*`, so that each arrives as its value and the driver never waits."""
    count, factor = int(rng.integers(3, 6)), int(rng.integers(2, 10))
    numbers = rng.choice(np.arange(1, 100), size=count, replace=False).tolist()
    with answer.watch() as seen:
        found = answer.probe(given.prepare_and_join, numbers, factor)
    _expect_reference_of_join(found["type"])
    _expect_given_a_list(found)
    expect(
        found["on_time"],
        "`pipeline` waited for a value before it returned. Pass the references to the tasks, and let Ray wait for the values.",
    )
    _expect_all_prepared(found["numbers"], [factor * number for number in numbers])
    tasks = len(plain_tasks(seen)) - 1  # one is the probe's
    wanted = count + 1
    expect(
        tasks == wanted,
        f"Preparing {count} values and joining them takes {wanted} tasks, but Ray's records show {tasks}.",
    )


def _expect_reference_of_join(kind: str) -> None:
    expect(kind == "a reference", f"`pipeline` returned {kind}. It must return a reference to what `join` returns.")


def _expect_given_a_list(found: given.Joined) -> None:
    """Check what `join` was called with: one list, of what `prepare` returned."""
    arguments = found["arguments"]
    expect(
        arguments == 1,
        f"`join` takes one list of values, but it got {arguments} arguments. Let a task of your own collect them.",
    )
    arrived = " and ".join(found["kinds"])
    expect(
        found["kinds"] == ["list"],
        f"`join` needs a list of the values that `prepare` returned; in this check, each of them is a list. The items of its list were of type {arrived}.",
    )


def _expect_all_prepared(values: list, wanted: list[int]) -> None:
    expect_equal(
        values,
        wanted,
        "`join` must get every value, prepared once, in the order of `refs`.",
    )


@exercise(
    points=2,
    minutes=5,
    needs={"CPU": 4},
    launches=False,
    hints=[
        "Does `ray.get(ref)[0]` have numbers of its own, or is it a view of the store?",
        "While a view exists, the whole array stays in the store. `.copy()` gives the row numbers of its own.",
    ],
)
def let_go(answer: Answer, rng: Generator) -> None:
    """Copy the part that you keep, because a view of a single row keeps the whole array in the store."""
    rows = rng.random((int(rng.integers(3, 6)), 256))
    found = answer.probe(given.held_after, rows, 1024)  # 2 MB each
    listed = not isinstance(found["rows"], str)
    expect(listed, f"`let_go` must return a list of rows, which are arrays. It returned {found['rows']}.")
    expect_close(found["rows"], rows, "The list must have the first row of each array, in the order of `refs`.")
    _expect_not_in_use(found, len(rows))
    _expect_memory_back(found, len(rows))


def _expect_not_in_use(found: given.Held, arrays: int) -> None:
    expect(
        not (found["kept"] and found["kinds"] == ["pinned"]),
        f"After the check had deleted its references, your process still held {found['kept']} of the {arrays} whole arrays "
        "through views of them, as Ray's records show.",
    )
    expect(
        found["kept"] == 0,
        f"After the check had deleted its references, your process still held {found['kept']} of the {arrays} whole arrays "
        "through references to them, as Ray's records show.",
    )


def _expect_memory_back(found: given.Held, arrays: int) -> None:
    back, took = found["returned_mb"], 2 * arrays
    expect(
        back > 0.75 * took,
        f"The arrays took {took} MB, but the store had only {back:.0f} MB more room afterward, so something else is in it now. `let_go` has nothing to put there.",
    )
    expect(
        found["in_whole_copies"] == 0,
        f"{found['in_whole_copies']} of the {arrays} rows are views of a copy of the whole array. The store's memory is free, but "
        "the copies take just as much memory in your process. Copy only the row.",
    )


@exercise(
    points=3,
    minutes=10,
    needs={"CPU": 4},
    hints=[
        "How often does `[[f(ray.get(ref)) for ref in refs] for f in functions]` read each block? Swap the loops.",
        "If you loop over the blocks on the outside, you get one list per block. To get one per function, use `zip(*lists)`.",
        "`ray.get(refs)` holds all blocks at once. Get one block, use it, and reuse its name for the next.",
    ],
    spare=["    return by_block"],
)
def read_once(answer: Answer, rng: Generator) -> None:
    """Do all of the work on a block while it's in the store, then move on, and hold no more blocks than you need."""
    numbers = rng.permutation(np.arange(1.0, 49.0))[:24].tolist()
    found = answer.probe(given.read_larger_than_store, numbers, MILLION)  # blocks of 8 MB
    _expect_full_store(found)
    want = _of_each_function(numbers)
    expect_close(
        found["results"], want, "Return one list for each function, with one result for each block, in order.", 1e-9
    )
    _expect_few_in_use(found)
    _expect_each_read_once(found)


def _expect_full_store(found: given.Read) -> None:
    expect(
        found["spilled"] == 24,
        f"Only {found['spilled']} of the check's 24 blocks were on disk, and your store has {found['capacity_mb']:.0f} MB. "
        "Run this chapter's first cells again, which start Ray with a store of 128 MB.",
    )


def _of_each_function(numbers: list[float]) -> list[list]:
    """Return the first, last and mean number, and the length, of blocks that hold one number, and twice that at the end."""
    means = [number + number / MILLION for number in numbers]
    return [numbers, [2 * number for number in numbers], means, [MILLION] * len(numbers)]


def _expect_few_in_use(found: given.Read) -> None:
    """Check by Ray's records how many blocks were in use while a function ran: one or a few, and not none."""
    expect(
        found["pinned"] > 0,
        "While a function ran, its process held no block in the store, so the function worked on a copy. Pass it what "
        "`ray.get` returned.",
    )
    expect(
        found["pinned"] <= 4,
        f"While a function ran, its process held {found['pinned']} blocks in the store at once, and 4 is the limit. "
        "The store is too small for all of the blocks.",
    )


def _expect_each_read_once(found: given.Read) -> None:
    expect(
        found["restored"] <= 34,
        f"Ray restored blocks from disk {found['restored']} times, and there are only 24 of them. Do everything with a block "
        "before you get the next.",
    )


question(
    "changed_in_a_task",
    """
    You call `ref = ray.put([1, 2, 3])`. A task takes `ref` as its argument `numbers` and calls `numbers.append(4)`. What does `ray.get(ref)` return now?

    *a) [1, 2, 3], because the task changed a list of its own.
        Right. Each process that gets the list rebuilds it. With an array, the task would have raised an error.
    b) [1, 2, 3, 4], because there is only one copy.
        The store does have only one copy, which can't change. But a list isn't read in place: the task built a list of its own from that copy and changed its own list.
    c) An error, because objects can't be changed.
        The object can't be changed, but the task never touched it. It rebuilt the list, and a rebuilt list can be changed.
    """,
)

question(
    "copies_of_an_array",
    """
    Your notebook puts an array of 1 GB into the store and passes the reference to eight tasks, which run on the same machine, four at a time. How many copies of the array are made?

    a) None, because the store is zero-copy.
        `ray.get` is zero-copy, but `ray.put` isn't: it copies the array from your notebook's memory into the store.
    *b) One, by `ray.put`.
        Right. `ray.put` makes one copy in the store, and all eight tasks read that copy.
    c) Nine, one by `ray.put` and one for each task.
        Tasks on the same machine read the array in place. If tasks run on another machine, its store gets one copy, which all of them read.
    """,
)

question(
    "reference_in_a_list",
    """
    You call `mean_task.remote([a, b])`, where `a` and `b` are references. What does the task receive?

    a) A list with two values.
        A reference becomes its value only if it's an argument by itself. Inside a list, Ray leaves references as they are.
    b) An error, because a list can't contain references.
        A list, or any other value, can contain references.
    *c) A list with two references, perhaps before their values exist.
        Right. The task can call `ray.get` on them, or pass them on without ever fetching the values.
    """,
)

question(
    "row_of_a_matrix",
    """
    `row = ray.get(ref)[0]` takes one row of 8 kB out of a matrix of 80 MB. Then you `del ref`, which was the only reference. How much of the matrix stays in the store?

    a) Nothing, because the last reference is gone.
        A view counts, too: `row` reads memory in the store, so that memory has to stay.
    b) 8 kB, which is the row.
        An object stays in the store as a whole or not at all.
    *c) 80 MB, as long as `row` exists.
        Right. The row is a view of the matrix. With `ray.get(ref)[0].copy()`, Ray would have freed the matrix.
    """,
)

question(
    "store_is_full",
    """
    The store is full of objects that you still have references to, and you put one more. What happens?

    *a) Ray writes objects to disk, and restores them when a process gets them.
        Right. That's spilling: your program keeps running, only more slowly.
    b) Ray deletes the object that hasn't been used for the longest time.
        Ray doesn't delete an object while you have a reference to it.
    c) `ray.put` waits until you delete a reference.
        It waits only for as long as it takes to write some of the objects to disk.
    """,
)
