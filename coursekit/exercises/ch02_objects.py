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
        "After your function returned, your process still referred to the array. Does the function of your task carry the "
        "reference inside it? Ray then never frees the object. Pass the reference as an argument.",
    )


@exercise(
    points=2,
    minutes=5,
    needs={"CPU": 4},
    hints=[
        "Ray makes a copy for every `.remote(array, x)`. What can you pass instead of the array?",
        "Call `ref = ray.put(array)` once, before the loop; then pass `ref` to every task.",
    ],
)
def share_once(answer: Answer, rng: Generator) -> None:
    """Put the array once, and pass the reference to every task: each sees the one copy in the store."""
    array = rng.random(100_000)  # 0.8 MB: in the store, but too small to show where the chapter lists objects
    xs = rng.choice(len(array), size=6, replace=False).tolist()
    known = answer.probe(given.objects_here, array.nbytes)
    with answer.watch() as seen:
        got, copies = _picked(answer, seen, array, xs)
    expect_equal(got, [float(array[x]) for x in xs], "One result for each x, in the order of xs.")
    _expect_one_copy(copies, xs, len(plain_tasks(seen)))
    _expect_not_held(answer.probe(given.held_here, array.nbytes, known))
    point = rendezvous.new_point()
    with answer.case("two calls of a function that waits until the other is running, and returns whether it ever was"):
        expect_equal(
            answer(given.meets_another, array[:10], [[point, 0, 1], [point, 1, 0]]),
            [True, True],
            "Two calls never ran at the same time: does something wait before all are launched?",
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
    expect(tasks == calls, f"{calls} calls are {calls} tasks; Ray saw {tasks}.")
    expect(
        copies > 0.9,
        "The array was never in Ray's store: it reached the workers some other way, perhaps inside the function.",
    )
    expect(copies < 1.5, f"For {calls} tasks, {copies:.0f} copies of the array were put into the store.")


@exercise(
    points=2,
    minutes=8,
    needs={"CPU": 4},
    hints=[
        "Where do you cut the matrix? A slice made in the driver has to travel; a slice made in the task is a view.",
        "Write a task that takes the matrix and the number of its block, and pass it `ref`, not the matrix.",
        "`np.array_split(matrix, blocks)[i]` is a view of block i, also where the rows do not divide evenly.",
    ],
)
def column_sums(answer: Answer, rng: Generator) -> None:
    """Pass the whole matrix to every task by reference, and cut inside the task: a slice of a view is a view."""
    # Long: a copy shows only in the store's own counters and in where the memory of an array lies.
    blocks = int(rng.integers(2, 5))
    matrix = _uneven_matrix(rng, blocks)
    with answer.watch() as seen:
        found = answer.probe(given.sums_of_matrix, matrix, blocks)
    expect(not found["here"], "`add_rows` ran in the notebook's own process, not in a task.")
    tasks = len(plain_tasks(seen))
    expect(tasks == blocks, f"{blocks} blocks are {blocks} tasks; Ray saw {tasks}.")
    _expect_sums(found["sums"], matrix, blocks)
    _expect_no_copy(found, matrix.nbytes / MB)
    _expect_not_held(found["kept"])
    expect(
        not found["all_rows"],
        "You gave `add_rows` all rows of the matrix, or all rows of some columns: each block has rows of its own.",
    )
    expect(
        found["met"],
        "Two blocks never ran at the same time: does something wait before all are launched?",
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
        f"What you returned has the shape {sums.shape}. A matrix of {width} columns has {width} sums: add up those of the blocks.",
    )
    expect_equal(
        sums,
        matrix.sum(axis=0),
        f"For a matrix of {height} rows in {blocks} blocks, the sums of the columns are wrong. Is every row in exactly one block?",
    )


def _expect_no_copy(found: given.Added, whole: float) -> None:
    """Check that no rows of the matrix were put into the store, nor copied by a task."""
    expect(
        found["copied_mb"] < whole / 4,
        f"The matrix of {whole:.1f} MB was already in the store; your code put {found['copied_mb']:.1f} MB more there.",
    )
    expect(
        not found["listed"],
        "You gave `add_rows` a list or tuple of rows instead of one array: cut the block out of the matrix in one piece.",
    )
    expect(
        not found["copied"],
        "You gave `add_rows` rows that are a private copy of the task, not a view of the store. "
        "Did the task copy them, or does its function carry the matrix inside it?",
    )


@exercise(
    points=2,
    minutes=12,
    needs={"CPU": 4},
    hints=[
        "`join` wants a list of values. What arrives when you pass a list of references to `.remote`?",
        "A reference becomes its value only as an argument of its own: `task.remote(*refs)`.",
        "Write a small task, `def join_all(*values)`, that gives `join` a list.",
    ],
)
def pipeline(answer: Answer, rng: Generator) -> None:
    """Spread the references over the arguments with `*`: each then arrives as its value, and the driver waits for nothing."""
    count, factor = int(rng.integers(3, 6)), int(rng.integers(2, 10))
    numbers = rng.choice(np.arange(1, 100), size=count, replace=False).tolist()
    with answer.watch() as seen:
        found = answer.probe(given.prepare_and_join, numbers, factor)
    _expect_reference_of_join(found["type"])
    _expect_given_a_list(found)
    expect(
        found["on_time"], "`pipeline` returned only when a value existed. Pass the references on; Ray does the waiting."
    )
    _expect_all_prepared(found["numbers"], [factor * number for number in numbers])
    tasks = len(plain_tasks(seen)) - 1  # one is the probe's
    wanted = count + 1
    expect(tasks == wanted, f"Preparing {count} values and joining them takes {wanted} tasks; Ray saw {tasks}.")


def _expect_reference_of_join(kind: str) -> None:
    expect(kind == "a reference", f"`pipeline` returned {kind}. It must return the reference of the task that joins.")


def _expect_given_a_list(found: given.Joined) -> None:
    """Check what `join` was called with: one list, of what `prepare` returned."""
    arguments = found["arguments"]
    expect(
        arguments == 1,
        f"`join` takes one list of values; you gave it {arguments} arguments. Collect them in a task of your own.",
    )
    arrived = " and ".join(found["kinds"])
    expect(
        found["kinds"] == ["list"],
        f"`join` needs a list of what `prepare` returned, here lists; its values were {arrived}.",
    )


def _expect_all_prepared(values: list, wanted: list[int]) -> None:
    expect_equal(
        values,
        wanted,
        "`join` got the right kind of values, but not each value, prepared once, in the order of `refs`.",
    )


@exercise(
    points=2,
    minutes=5,
    needs={"CPU": 4},
    hints=[
        "What is `ray.get(ref)[0]`: numbers of its own, or a view of the store?",
        "As long as a view exists, the whole array stays in the store. `.copy()` gives you numbers of your own.",
    ],
)
def let_go(answer: Answer, rng: Generator) -> None:
    """Copy the part that you keep: a view of one row keeps the whole array in the store."""
    rows = rng.random((int(rng.integers(3, 6)), 256))
    found = answer.probe(given.held_after, rows, 1024)  # 2 MB each
    listed = not isinstance(found["rows"], str)
    expect(listed, f"`let_go` must return a list of rows, as arrays; it returned {found['rows']}.")
    expect_close(found["rows"], rows, "One row for each array, its first, in the order of `refs`.")
    _expect_not_in_use(found, len(rows))
    _expect_memory_back(found, len(rows))


def _expect_not_in_use(found: given.Held, arrays: int) -> None:
    expect(
        not (found["kept"] and found["kinds"] == ["pinned"]),
        f"After the caller had deleted its references, Ray's records showed {found['kept']} of {arrays} whole "
        "arrays still in use by your process, through views.",
    )
    expect(
        found["kept"] == 0,
        f"After the caller had deleted its references, Ray's records showed {found['kept']} of {arrays} whole "
        "arrays still in use by your process, through references.",
    )


def _expect_memory_back(found: given.Held, arrays: int) -> None:
    back = found["returned_mb"] > 1.5 * arrays
    expect(back, "The store did not get the memory of the arrays back: did your code put something else there?")
    expect(
        found["in_whole_copies"] == 0,
        f"{found['in_whole_copies']} of {arrays} rows are views of a private copy of a whole array. The store is free, "
        "but your process now holds every array itself: copy the row, not the array.",
    )


@exercise(
    points=3,
    minutes=10,
    needs={"CPU": 4},
    hints=[
        "How often does `[[f(ray.get(ref)) for ref in refs] for f in functions]` read each block? Swap the loops.",
        "With the blocks outside, you get one list for each block. You want one for each function: `zip(*lists)`.",
        "`ray.get(refs)` holds every block at once. Get one, use it, and reuse its name for the next.",
    ],
)
def read_once(answer: Answer, rng: Generator) -> None:
    """Do all the work on a block while it is in memory; then move on, and hold no more than you need."""
    numbers = rng.permutation(np.arange(1.0, 49.0))[:24].tolist()
    found = answer.probe(given.read_larger_than_store, numbers, MILLION)  # blocks of 8 MB
    _expect_full_store(found)
    want = _of_each_function(numbers)
    expect_close(found["results"], want, "One list for each function, with one result for each block, in order.", 1e-9)
    _expect_few_in_use(found)
    _expect_each_read_once(found, len(want))


def _expect_full_store(found: given.Read) -> None:
    expect(
        found["spilled"] >= 8,
        f"The check's 192 MB did not fill the store ({found['capacity_mb']:.0f} MB, {found['spilled']} blocks on disk): "
        "start Ray as the first cells of this chapter do.",
    )


def _of_each_function(numbers: list[float]) -> list[list]:
    """Return the first, last and mean number, and the length, of blocks that hold one number, and twice that at the end."""
    means = [number + number / MILLION for number in numbers]
    return [numbers, [2 * number for number in numbers], means, [MILLION] * len(numbers)]


def _expect_few_in_use(found: given.Read) -> None:
    """Check by Ray's records how many blocks were in use while a function ran: one or a few, and not none."""
    expect(
        found["pinned"] > 0,
        "Ray's records show no block in use while a function ran: did you copy the blocks out of the store?",
    )
    expect(
        found["pinned"] <= 4,
        f"While a function ran, its process held {found['pinned']} blocks of 8 MB in the store at once. "
        "The store is too small to hold them all.",
    )


def _expect_each_read_once(found: given.Read, functions: int) -> None:
    expect(
        found["restored"] <= 34,
        f"{found['spilled']} of 24 blocks were on disk, and Ray had to restore blocks {found['restored']} times for {functions} "
        "functions: read each block once.",
    )


question(
    "changed_in_a_task",
    """
    `ref = ray.put([1, 2, 3])`. A task gets `ref` as its argument `numbers` and does `numbers.append(4)`. What does `ray.get(ref)` give now?

    *a) [1, 2, 3]: the task changed a list of its own.
        Right. Each process that gets the list rebuilds it; with an array, the change would have raised an error.
    b) [1, 2, 3, 4]: there is only one copy.
        There is one copy in the store, and it cannot change. The task changed a list it had built from it.
    c) An error: objects cannot be changed.
        The object cannot, but the task never touched it: each reader rebuilds the list, and that list can be changed.
    """,
)

question(
    "copies_of_an_array",
    """
    Your notebook puts an array of 1 GB and hands the reference to eight tasks on the same machine, four at a time. How many copies of it are made?

    a) None: the store is zero-copy.
        Getting it is. But `ray.put` copies it from your notebook's memory into the store.
    *b) One, by `ray.put`.
        Right: one copy into the store, and all eight tasks look at it.
    c) Nine: by `ray.put`, and one for each task.
        Tasks on this machine look at the array where it lies. On another machine, the store there gets one copy for all its tasks.
    """,
)

question(
    "reference_in_a_list",
    """
    `mean_task.remote([a, b])`, where a and b are references. What does the task see?

    a) A list with two values.
        Only a reference that is its own argument arrives as its value. In a list, Ray leaves references as they are.
    b) An error: references cannot be inside a list.
        They can be anywhere in a value. They stay references there.
    *c) A list with two references, and it may start before their values exist.
        Right. It can call `ray.get` on them, or pass them on without ever having the values.
    """,
)

question(
    "row_of_a_matrix",
    """
    `row = ray.get(ref)[0]` takes one row of 8 kB out of a matrix of 80 MB. Then you `del ref`. How much stays in the store?

    a) Nothing: the last reference is gone.
        Ray counts views too: `row` looks at memory in the store, which must stay.
    b) 8 kB: the row.
        An object stays as a whole or not at all.
    *c) 80 MB, until `row` is gone.
        Right: the row is a view of the matrix. `ray.get(ref)[0].copy()` would have let the matrix go.
    """,
)

question(
    "store_is_full",
    """
    The store is full of objects you still hold references to, and you put one more. What happens?

    *a) Older objects move to disk, and come back when a process gets them.
        Right: that is spilling. The program continues, only more slowly.
    b) The object that was used longest ago is deleted.
        Ray never deletes an object that still has a reference.
    c) `ray.put` waits until you delete a reference.
        It waits only as long as it takes to write older objects to disk.
    """,
)
