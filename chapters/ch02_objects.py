# %% [markdown] you_learn_to="share large data without copies, let memory go, spill, stream"
r"""
# Chapter 2 · Objects and the object store

One copy lies in the object store, and every task on the node reads it.

*About 85 minutes · builds on [Chapter 1](ch01_tasks.ipynb)*

**What you will be able to do**

- share a large array with many tasks through one copy, and count the copies in Ray's own records;
- say which values are read without a copy, and from what size on that pays off on your machine;
- pass references on, alone and inside lists, and know which arrive as values;
- find out what still holds an object, and let its memory go when you no longer need it;
- work on more data than the store can hold;
- stream results from a task while it makes the next one.
"""

# %%
import gc
import time

import matplotlib.pyplot as plt
import numpy as np
import pandas
import psutil
import pyarrow
import ray
import torch

from coursekit import begin, budget, check, compare_times, hint, passed, progress, quiz, recorded, solution, warm_up
from coursekit.given.ch02_objects import (
    MILLION, add_rows, crossing, in_store, last_number, neighbour, pick, shared, spilled_files
)
from coursekit.given.object_store import MB, made, store
from coursekit import objects

begin("ch02_objects")

# %% [markdown]
r"""
Unless you say otherwise, Ray sets aside 30 % of the available memory for the object store.
In this chapter the store gets 128 MB, so you see what happens when it is full.
`MB` is $2^{20}$ bytes here, and `MILLION` is $2^{20}$ numbers; at 8 bytes each, they take 8 MB.
"""

# %%
ray.shutdown()  # ends a Ray that already runs here: its references and actors are gone
ray.init(num_cpus=4, object_store_memory=128 * MB, include_dashboard=False)
warm_up(4)

# %% [markdown] tags=["notes"]
r"""
The run sheet plans eighty-five minutes, with `column_sums` and `read_once` as homework.
The room usually asks whether all this matters for small data: no, and the second section's plot shows where small ends.
"""

# %% [markdown]
r"""
## `ray.put` makes a copy, `ray.get` of an array makes none

Every node has an **object store**: memory that all its processes can see.
It holds what you put there and the large results of tasks.
`ray.put(array)` copies the array into the store and returns a reference.
`ray.get(ref)` returns an array, but as a **zero-copy view**: it has no numbers of its own and looks at those in the store.

![The driver puts an array into the store, which makes one copy; workers look at that one copy](../img/ch02_store.svg)

Here are the same million numbers in four forms: a NumPy array, a column of an Arrow table (the format of Parquet files and Ray Data), a PyTorch tensor, and a list.

**Predict:** which of the four is cheapest to get, and which costs most?
"""

# %% tags=["demo"]
numbers = np.random.default_rng(0).random(MILLION)  # at 8 bytes each: 8 MB
forms = {
    "NumPy array": numbers,
    "Arrow table": pyarrow.table({"x": numbers}),
    "torch tensor": torch.from_numpy(numbers),
    "list": numbers.tolist(),
}
times = {}
for name, value in forms.items():
    ref = ray.put(value)
    ways = {"put": lambda value=value: ray.put(value), "get": lambda ref=ref: ray.get(ref)}
    times[name] = compare_times(ways, repeats=budget(11, 5), progress=False).medians
(1000 * pandas.DataFrame(times).T).rename(columns="{} (ms)".format).round(2)

# %% tags=["demo"]
forms = value = ways = ref = None  # what these names hold would stay in memory; more on that below

# %% [markdown]
r"""
Getting the array costs almost nothing: no number is touched.
The Arrow table costs hardly more: its memory, too, goes into the store in one piece, and every reader looks at it there.
The same holds for the numeric columns of a pandas DataFrame, and for arrays inside a dict, a list or a dataclass.

The **tensor** is copied, although it looks so much like an array: PyTorch pickles its numbers as ordinary bytes, and each reader builds a tensor of its own.
In reinforcement learning, where weights and batches are tensors, that matters: put `tensor.numpy()`, and make a tensor of the view with `torch.from_numpy`.
PyTorch then warns that the memory is read-only; heed it.
The environment variable `RAY_ENABLE_ZERO_COPY_TORCH_TENSORS=1`, set before you `import ray`, does the same for every contiguous tensor in CPU memory, and strips its `requires_grad`.

The **list** costs most: each of its numbers is a Python object, and every process that gets the list rebuilds a million.
"""

# %% tags=["demo"]
array_ref = ray.put(numbers)
first, second = ray.get(array_ref), ray.get(array_ref)
print("the same memory:", np.shares_memory(first, second))
print("may I write to it?", first.flags.writeable)
try:
    first[0] = 1
except ValueError as error:
    print("ValueError:", error)
del first, second

# %% [markdown]
r"""
Two gets, one memory.
You may not write to it, because other processes look at it too: objects are **immutable**.
To change an array, take a copy (`first.copy()`) or compute a new one (`first + 1`).
"""

# %%
### BEGIN SOLUTION
changed_in_a_task = "a"
### END SOLUTION

# %%
quiz("changed_in_a_task", changed_in_a_task)

# %% [markdown]
r"""
## Zero-copy pays for large data, not for small

You might expect the store to be the fastest way to hand over any data.
Measure it: hand an array over in four ways to another process, which returns its last number.

| | |
|---|---|
| **pipe** | to a process without Ray: pickled, sent, unpickled |
| **Ray, by value** | `task.remote(array)`: Ray puts it into the store, and a worker looks at it there; below 100 kB it travels with the task instead |
| **Ray, by reference** | `task.remote(ref)`: the array was put into the store before |
| **shared memory** | Python's own, without Ray: the array was copied there before; only the memory's name goes through the pipe |

**Predict:** which of the four lines rise with the size?
Which is lowest for 1 kB, which for 32 MB?
"""

# %% tags=["demo"]
last_task = ray.remote(last_number)


def hand_over(ask, size):
    """Return the median seconds for each way of handing over an array of `size` bytes."""
    array = np.ones(size // 8)
    with shared(array) as name:
        ref = ray.put(array)
        ways = {
            "pipe": lambda: ask(array),
            "Ray, by value": lambda: ray.get(last_task.remote(array)),
            "Ray, by reference": lambda: ray.get(last_task.remote(ref)),
            "shared memory": lambda: ask(name),
        }
        return compare_times(ways, repeats=budget(21, 7), warmup=2, progress=False).medians


# %% tags=["demo"]
sizes = [2**power for power in budget(range(10, 26), (10, 13, 16, 18, 20, 22, 24, 25))]
with neighbour() as ask:  # starts the process without Ray, and ends it
    handed = pandas.DataFrame({size: hand_over(ask, size) for size in sizes}).T

# %% tags=["demo"]
figure, axes = plt.subplots(figsize=(7.5, 4), constrained_layout=True)
colours = ["#64748b", "#2563eb", "#d97706", "#059669"]
for name, colour in zip(handed.columns, colours, strict=True):
    style = "o-" if name in ("pipe", "Ray, by value") else "o--"
    axes.loglog(handed.index, 1000 * handed[name], style, color=colour, label=name, markersize=4)
axes.set(xlabel="size of the array", ylabel="milliseconds")
axes.set_title("Solid lines copy the array, dashed lines look at it")
axes.set_xticks([2**10, 2**15, 2**20, 2**25], ["1 kB", "32 kB", "1 MB", "32 MB"])
axes.minorticks_off()
axes.legend()

for other in ("Ray, by value", "pipe"):
    print(f"By reference beats {other!r}", crossing(sizes, handed["Ray, by reference"], handed[other]))

# %% [markdown]
r"""
The solid lines rise once copying costs more than the call.
The pipe rises most: it copies the array into a pickle and moves that in small portions, while the processes take turns; Ray by value copies once.
The dashed lines stay nearly flat, because nothing is copied.

But flat is not free.
Ray's dashed line lies at the price of a task (chapter 1), so for small data a plain pipe wins by far, and Python's shared memory is faster than Ray at every size.
For that price, Ray decides when to free the memory, reaches other machines, and copes when memory runs out.

Two rules follow for Ray.
Pass **small** data, below about 100 kB, by value.
Pass **large** data by reference as soon as a second task needs it.
"""

# %%
### BEGIN SOLUTION
copies_of_an_array = "b"
### END SOLUTION

# %%
quiz("copies_of_an_array", copies_of_an_array)

# %% [markdown]
r"""
## By value means one more copy for every task

In three programs with the same result, four tasks each look at an array of 8 MB.
`made()` asks Ray how much went into the store in its block.
A task that sees a *writable* array has its own copy, in its worker's memory.

**Predict:** how many MB go into the store in each case, and when do the tasks have copies of their own?
"""

# %% tags=["demo"]
def can_write(array):
    """Return whether this task has a copy of its own: the store's is read-only."""
    return array.flags.writeable

# %% tags=["demo"]
def by_value():
    """Hand over the array itself."""
    task = ray.remote(can_write)
    return ray.get([task.remote(numbers) for _ in range(4)])


def by_closure():
    """Use the array inside the function."""
    task = ray.remote(lambda: can_write(numbers))
    return ray.get([task.remote() for _ in range(4)])


def by_reference():
    """Hand over a reference."""
    ref, task = ray.put(numbers), ray.remote(can_write)
    return ray.get([task.remote(ref) for _ in range(4)])

# %% tags=["demo"]
rows = {}
for way in (by_value, by_closure, by_reference):
    with made() as copies:
        start = time.perf_counter()
        writable = way()
        seconds = time.perf_counter() - start
    rows[way.__name__] = [copies.objects, copies.megabytes, sum(writable), 1000 * seconds]
columns = ["objects put", "MB put", "tasks with a copy of their own", "ms"]
pandas.DataFrame(rows, index=columns).T.astype(int)

# %% [markdown]
r"""
- **By value**: Ray does not notice that it is the same array, and puts it into the store once for every `.remote(...)`.
- **By closure**: the function uses `numbers`, so the array travels *inside the function*.
  Nothing goes into the store, but that is bad news: Ray pickles the function, array and all, and keeps it in the GCS, which is not made for that; every worker then unpickles it.
  From 10 MB Ray warns, which this array just escapes; from 100 MB it refuses.
- **By reference**: one copy, for four tasks or four thousand.

A *reference* inside a function, as in `lambda: can_write(ray.get(ref))`, makes only one copy, but it is a trap of its own.
Ray cannot tell when nothing needs the function any more, so it keeps that object as long as your program runs.

Write `share_once` for any function and array.
The check counts the copies in the same records.
It also makes two calls wait up to 20 s for each other, so do not wait inside the loop.
"""


# %%
def share_once(function, array, xs):
    """Return [function(array, x) for x in xs], each call in a task of its own.

    The array is put into the store once.
    """
    ### BEGIN SOLUTION
    ref = ray.put(array)
    task = ray.remote(function)
    return ray.get([task.remote(ref, x) for x in xs])
    ### END SOLUTION


# %%
check("share_once", share_once)

# %% [markdown] tags=["solution"]
r"""
`ray.put` in the comprehension, `[task.remote(ray.put(array), x) for x in xs]`, is the same mistake: one copy for each task.
The check refuses a reference that the function *captures*, `ray.remote(lambda x: function(ray.get(ref), x))`, because its memory never returns.
"""

# %% tags=["demo"]
if passed("share_once"):
    with made() as copies:
        picked = share_once(pick, numbers, [0, 10, 100, 1000])
    print(f"{len(picked)} tasks, {copies}")

# %% [markdown]
r"""
## Cut inside the task, not in the driver

Several tasks share the work on one large matrix.
The obvious way is to cut the matrix first and send each task its part.
But the matrix is already in the store, and the parts would go there again.
Pass each task the whole matrix by reference instead, which costs nothing, and let it cut its part out of the view.

For that, the part must itself be a view.
Some ways of cutting make one, others a copy:
"""

# %% tags=["demo"]
matrix = ray.get(ray.put(numbers.reshape(1024, 1024)))
parts = {
    "matrix[:10]": matrix[:10],
    "matrix[::10]": matrix[::10],
    "np.array_split(matrix, 4)[1]": np.array_split(matrix, 4)[1],
    "matrix[[0, 1, 2]]": matrix[[0, 1, 2]],
    "matrix + 0": matrix + 0,
}
views = {name: np.shares_memory(part, matrix) for name, part in parts.items()}
pandas.DataFrame({"a view of the store": views})

# %% tags=["demo"]
matrix = parts = None  # as long as a view exists, the matrix stays in the store; more on that below

# %% [markdown]
r"""
A slice with a colon is a view, and `np.array_split` cuts with such slices.
Choosing rows by a list copies them, and so does any arithmetic.

Write `column_sums` for a matrix in the store.
`add_rows(rows)` adds up some rows and returns the sum of each column.
Call it once in each of `blocks` tasks, each time on that task's own rows.
The rows need not divide evenly; a task can read their number from the matrix.
The check makes two blocks wait for each other, for up to 20 s.
"""


# %%
def column_sums(add_rows, ref, blocks):
    """Return the column sums of the matrix behind `ref`, shape [columns].

    Each of `blocks` tasks calls `add_rows` on its own rows, side by side. No number of the matrix is copied, neither in the
    store nor in a task.
    """
    ### BEGIN SOLUTION
    @ray.remote
    def add_block(matrix, block):
        return add_rows(np.array_split(matrix, blocks)[block])

    return sum(ray.get([add_block.remote(ref, block) for block in range(blocks)]))
    ### END SOLUTION


# %%
check("column_sums", column_sums)

# %% [markdown] tags=["solution"]
r"""
`np.array_split` cuts nearly equal views, so nothing is lost if the rows do not divide evenly.
`matrix[block::blocks]` works too: every `blocks`-th row is also a view.
With 1 MB none of this is worth the trouble; with 10 GB it decides whether the program runs at all.
"""

# %% tags=["demo"]
if passed("column_sums"):
    matrix_ref = ray.put(numbers.reshape(1024, 1024))
    with made() as copies:
        sums = column_sums(add_rows, matrix_ref, 4)
    print(f"{len(sums)} sums; {copies.megabytes:.1f} MB went into the store")
    del matrix_ref

# %% [markdown]
r"""
## A reference in a list stays a reference

Chapter 1 said: pass a reference to `.remote(...)`, and the task sees the value.
More precisely, that holds for a reference that is an **argument of its own**.
Inside a list, a dict or an object it stays a reference.

![f.remote(ref) waits for the value and sees it; f.remote([ref]) may start at once and sees a list with a reference](../img/ch02_nested.svg)
"""

# %% tags=["demo"]
def type_name(x):
    """Return the name of the type of x."""
    return type(x).__name__


@ray.remote
def what_arrives(*arguments):
    """Return the types of the arguments; of a list, the types of its items."""
    return [[type_name(item) for item in x] if isinstance(x, list) else type_name(x) for x in arguments]


refs = [ray.put(np.zeros(3)), ray.put(np.ones(3))]
print(ray.get(what_arrives.remote(refs[0])))
print(ray.get(what_arrives.remote(refs)))
print(ray.get(what_arrives.remote(*refs)))

# %% [markdown]
r"""
Ray does find the two references while it pickles the list, and keeps their objects in the store as long as the list needs them.
It leaves them as references on purpose: the task can `ray.get` the ones it needs, or pass them on, without fetching the rest.
"""

# %%
### BEGIN SOLUTION
reference_in_a_list = "c"
### END SOLUTION

# %%
quiz("reference_in_a_list", reference_in_a_list)

# %% [markdown]
r"""
Now write a pipeline with two stages.
Tasks call `prepare(value)` for each value, side by side.
Then **one** task calls `join(values)` with a list or tuple of all the results.
You get references and return a reference, and your function never fetches a value.
The check creates the first value only after your function has returned; if your function waits for it, the check waits 20 s.
"""


# %%
def pipeline(prepare, join, refs):
    """Return a reference to join([prepare(value), ...]) for the values behind `refs`.

    Every call runs in a task of its own. Returns before any value exists: there is no `ray.get` in the driver.
    """
    ### BEGIN SOLUTION
    prepare_task = ray.remote(prepare)

    @ray.remote
    def join_all(*values):
        return join(list(values))

    return join_all.remote(*[prepare_task.remote(ref) for ref in refs])
    ### END SOLUTION


# %%
check("pipeline", pipeline)

# %% [markdown] tags=["solution"]
r"""
You can also pass the list and call `ray.get` *inside* the task: `ray.remote(lambda refs: join(ray.get(refs)))`.
That task starts early and waits in its own process; with `*`, Ray starts it when everything is ready.
"""

# %% [markdown]
r"""
## The caller owns the result, not the worker

Every object has an **owner**: the process that called `ray.put` or, for a task's result, launched the task.
The owner counts the references, and knows how to compute a result again and where the copies are.
When the owner dies, the object is lost, even if its bytes still lie in the store.

So a task should `return array`, not `return ray.put(array)`.
The second form gives you a reference to a reference, needs a second `ray.get`, and makes the *worker* the owner.
The next cell does both, and then kills the workers.

**Predict:** which array is still there?
"""

# %% tags=["demo"]
@ray.remote
def returns_array():
    """Return an array."""
    return np.ones(MILLION)


@ray.remote
def returns_put():
    """Return a reference to an array."""
    return ray.put(np.ones(MILLION))

# %% tags=["demo"]
with recorded() as run:
    returned, put = returns_array.remote(), returns_put.remote()
    inner = ray.get(put)  # the reference that the task returned
    print("both are there:", ray.get(returned)[0], ray.get(inner)[0])

for worker in {task["worker_pid"] for task in run.tasks()}:
    psutil.Process(worker).kill()
time.sleep(1)  # until Ray has noticed
for name, ref in {"returned": returned, "put": inner}.items():
    try:
        print(f"{name}: {ray.get(ref)[0]}")
    except ray.exceptions.OwnerDiedError as error:
        print(f"{name}: {type(error).__name__}")
del returned, put, inner, ref

# %% [markdown]
r"""
The returned array survives: your notebook launched the task, so it owns the result.
The other array died with the worker that had put it.
Crashes and lost nodes do the same (chapter 5).
"""

# %% [markdown] tags=["notes"]
r"""
Half-time.
After the demonstration with the killed workers, the room usually asks what happens when the *driver* dies: everything it owns goes, which here is everything.
Detached actors (chapter 3) let something outlive its program.
"""

# %% [markdown]
r"""
## Memory returns when the last reader lets go

An object stays in the store as long as something can still reach it: a reference, a task launched with it, or a **view** of its memory.
You need not free anything, but you can keep things by accident.

`in_store()` returns the MB in the store, after a moment's wait, because Ray frees memory in batches, here about one a second.
The cell subtracts what is there at its start.

**Predict** the four numbers before you run the cell; the array takes 8 MB.
"""

# %% tags=["demo"]
array_ref = refs = None  # what earlier cells have put
before = in_store()
ref = ray.put(numbers)
print("put:", in_store() - before, "MB")
same = ref
del ref
print("one of two references deleted:", in_store() - before, "MB")
row = ray.get(same)[:5]
del same
print("no reference left, but a view of five numbers:", in_store() - before, "MB")
kept = row.copy()
del row
print("the view replaced by a copy:", in_store() - before, "MB")

# %% [markdown]
r"""
Getting the array freed nothing, and neither did deleting the references.
The third line surprises most people: five numbers, 40 bytes in all, keep 8 MB in the store.

When memory does not return, find out what holds it.
`objects()` lists Ray's records, one line for each object that a process refers to.
The next cell makes a reference and a view:
"""

# %% tags=["demo"]
gc.collect()  # lets go of the error that you caught above, and of what it holds; more on that below
held = ray.put(numbers)  # a reference
looked_at = ray.get(ray.put(numbers))[:5]  # a view, and no reference
large = [row for row in objects() if (row["size"] or 0) >= MB]
pandas.DataFrame(large)[["kind", "size", "role", "pid"]]

# %% tags=["demo"]
held = looked_at = None

# %% [markdown]
r"""
`local` is a reference, `pinned` is a view, and `pid` says in which process.
If you cannot explain a line, look for a forgotten name, or a function that carries a reference.

A notebook has hiding places of its own.
A cell that ends with `ray.get(ref)` shows the array, and IPython remembers it in `Out` and `_`, so the view lives as long as the kernel.
End such a line with a semicolon, or show something smaller.
A caught error is another: its traceback remembers the arguments of `ray.get`.
Python frees it only when its garbage collector finds the cycle, which `gc.collect()` does now.
Without that line, the table would have a third row, for the array whose worker was killed.

`let_go` takes the first row out of each of many arrays.
The check keeps your rows, deletes its own references, and asks Ray's records what still uses the arrays.
"""


# %%
def let_go(refs):
    """Return a list with the first row of each array behind `refs`, and keep nothing else of the arrays."""
    ### BEGIN SOLUTION
    return [ray.get(ref)[0].copy() for ref in refs]
    ### END SOLUTION


# %%
check("let_go", let_go)

# %% [markdown] tags=["solution"]
r"""
A task that returns only the row works as well, and better on a cluster: the arrays need not travel to the driver's node.
On the command line, `ray memory` (chapter 19) shows the records of `objects()` for a whole cluster: `PINNED_IN_MEMORY` marks a view, `LOCAL_REFERENCE` a reference.
"""

# %%
### BEGIN SOLUTION
row_of_a_matrix = "c"
### END SOLUTION

# %%
quiz("row_of_a_matrix", row_of_a_matrix)

# %% [markdown]
r"""
## A full store moves to disk

If everything in the store is still needed and more objects come, Ray **spills**: once the store is 80 % full, it writes older objects to files, and may drop their memory when it needs room.
When a process gets a dropped object, Ray **restores** it, reading it back into the store.
Your program stays as it is.

![Six blocks for a store with room for four: two older ones are on disk, and come back when a process gets them](../img/ch02_spill.svg)

The next cell puts 24 blocks of 8 MB, 192 MB in all, into the store of 128 MB.
`store()` returns Ray's records of the store as a dict.
"""

# %% tags=["demo"]
blocks, history = [], []
for number in range(24):
    start = time.perf_counter()
    blocks.append(ray.put(np.full(MILLION, float(number))))
    seconds, now = time.perf_counter() - start, store()
    history.append([1000 * seconds, now["bytes"] / MB, now["spilled_bytes"] / MB])
filling = pandas.DataFrame(history, columns=["ms", "in the store", "written to disk"], index=range(1, 25))
print(f"the slowest put took {filling['ms'].max():.0f} ms, the median one {filling['ms'].median():.0f} ms")
print("files:", spilled_files())

# %% tags=["demo"]
figure, axes = plt.subplots(figsize=(7.5, 3.5), constrained_layout=True)
for name, colour in {"in the store": "#d97706", "written to disk": "#64748b"}.items():
    axes.plot(filling.index, filling[name], "o-", color=colour, label=name, markersize=4)
axes.axhline(128, color="#d97706", linestyle="--", linewidth=1)
axes.text(1, 131, "what the store may use", color="#b45309")
axes.axhline(0.8 * 128, color="#d97706", linestyle=":", linewidth=1)
axes.text(1, 0.8 * 128 + 3, "80 % of it: Ray begins to write", color="#b45309")
axes.set(xlabel="blocks of 8 MB put", ylabel="MB", ylim=(0, 150))
axes.set_title("When the store is 80 % full, older blocks go to disk")
axes.legend(loc="lower right");

# %% [markdown]
r"""
When the store passes 80 %, a batch of blocks goes to disk together: Ray writes many small objects into one file.
So the grey line rises in a step and then stays flat for a while.
Ray writes in the background, so one or two more puts may come before the step shows.
The memory does not return at once: a written block stays in memory until a new one needs room; then Ray drops several together, hence the teeth of the orange line.

The slowest `ray.put` is the one that waits for the first file, because Ray must first start the processes that write it.

Reading costs too.
If you read all the blocks in order, and then read them again, the second round is hardly faster: Ray has dropped the first blocks again to make room for later ones.
Hence the rule for data that does not fit: **do everything with a block while it is there**.
Let the outer loop go over the blocks and the inner one over what you do with each, and never hold all blocks together.

The exercise gives you `functions`, a list of functions that each take one block.
The check has 24 blocks too, and asks Ray how often it had to restore one, and how many were in use at once.
"""


# %%
def read_once(functions, refs):
    """Return one list for each function: its results for all blocks behind `refs`, in order.

    Each block is read once. It is enough to hold one at a time; the check allows 4.
    """
    ### BEGIN SOLUTION
    by_block = []
    for ref in refs:
        block = ray.get(ref)
        by_block.append([function(block) for function in functions])
    return [list(results) for results in zip(*by_block, strict=True)]
    ### END SOLUTION


# %%
check("read_once", read_once)

# %% [markdown] tags=["solution"]
r"""
`zip(*by_block)` transposes the table: one row for each block becomes one row for each function.
You could also launch a task for each block, `ray.remote(lambda block: [f(block) for f in functions])`.
That works in parallel; Ray then restores blocks ahead of time, some perhaps twice, and the check allows for that.
"""

# %% [markdown]
r"""
Compare the two orders of the loops, with four functions on your 24 blocks.
The check has put 192 MB of its own into the store, which pushed your blocks out: now they are all on disk.
"""

# %% tags=["demo"]
def function_by_function(functions, refs):
    """Return the same as read_once, with the loops the wrong way round."""
    return [[function(ray.get(ref)) for ref in refs] for function in functions]


if passed("read_once"):
    for way in (function_by_function, read_once):
        before, start = store()["restored_objects"], time.perf_counter()
        way([np.max, np.min, np.mean, np.std], blocks)
        seconds = time.perf_counter() - start
        print(f"{way.__name__}: {store()['restored_objects'] - before} restored, {seconds:.2f} s")

# %% [markdown]
r"""
In the wrong order, each function goes through all the blocks: up to 4 × 24 = 96 restores, because each round pushes out what the next needs.
In the right order, each block comes back once: 24 restores, or a few less if some blocks were still in memory.
"""

# %%
### BEGIN SOLUTION
store_is_full = "a"
### END SOLUTION

# %%
quiz("store_is_full", store_is_full)

# %% [markdown]
r"""
When the last reference to an object goes, its file goes too; a shared file goes with its last object.
If a file is left, an object of yours still lives in it, such as the array of a `share_once` whose function carried the reference.
"""

# %% tags=["demo"]
del blocks
print(in_store(), "MB in the store, and these files:", spilled_files())

# %% [markdown]
r"""
## A generator hands over each block as soon as it is made

A task that returns a list of blocks hands over nothing until the last one is made, and then they all lie in the store together.
Write it as a **generator**, with `yield` instead of `return`, and every block becomes an object of its own.
The call then returns an `ObjectRefGenerator`.
In a loop it gives you one reference after another, each as soon as its block is there, while the task makes the next one.
For a generator function this is Ray's default; you will also see it written out, as `num_returns="streaming"`.

If your loop is slower than the task, blocks pile up in the store.
`_generator_backpressure_num_objects=2` makes the task pause while two blocks wait for your loop.
The underscore says that Ray may still change the option.

In the cell, a block takes 0.05 s to make, and the loop 0.15 s to use it.

**Predict** for a list, a generator and a generator that pauses: when does the loop have its first block, and how many wait for it at most?
"""

# %% tags=["demo"]
def make_blocks(count):
    """Yield blocks of 8 MB, each with the time at which it was made."""
    for number in range(count):
        time.sleep(0.05)
        yield time.time(), np.full(MILLION, float(number))


def use_each(open_stream):
    """Return when each block was made, and when the loop had it, in seconds: shape [blocks, 2]."""
    start, times = time.time(), []
    for made_at, _ in open_stream():
        times.append((made_at - start, time.time() - start))
        time.sleep(0.15)
    return np.array(times)

# %% tags=["demo"]
stream, collect = ray.remote(make_blocks), ray.remote(lambda count: list(make_blocks(count)))
paced = stream.options(_generator_backpressure_num_objects=2)
ray.get([collect.remote(0), *stream.remote(1)])  # warm-up
count = budget(10, 6)
ways = {
    "a list": lambda: ray.get(collect.remote(count)),
    "a generator": lambda: map(ray.get, stream.remote(count)),
    "a generator, paused at 2": lambda: map(ray.get, paced.remote(count)),
}
streamed = {name: use_each(way) for name, way in ways.items()}

# %% tags=["demo"]
figure, panels = plt.subplots(1, 3, figsize=(9, 3), sharex=True, sharey=True, constrained_layout=True)
for (name, times), axes in zip(streamed.items(), panels, strict=True):
    for seconds, label, colour in zip(times.T, ("made", "in your loop"), ("#2563eb", "#d97706"), strict=True):
        axes.step([0, *seconds], range(count + 1), where="post", color=colour, label=label)
    axes.set(title=name, xlabel="seconds")
panels[0].set(ylabel="blocks")
panels[0].legend(loc="lower right");

# %% [markdown]
r"""
The gap between the lines shows what waits for your loop.
With a list, the first block comes when the last one is made.
A generator gives you the first after one block's time, so making and using overlap; but the task runs ahead, and for a long stream the store fills up, and spills.
With the pause, the gap stays at two blocks, however long the stream is: this is how you work through more data than the store can hold, without writing a file.

What a task has yielded survives the task's failure: only the next `ray.get` raises the error.
Actor methods can be generators too.
One is a sampler's method that streams its episodes to a learner; Ray Data moves its blocks this way, and Ray Serve its streamed answers.
"""

# %% tags=["demo"]
ray.shutdown()

# %% [markdown]
r"""
## What you can do now

- You put large data once and pass the reference, and you can prove it with Ray's records.
- You know which values need no copy, and from what size on that matters on your machine.
- You build pipelines of references, and know what arrives from a list.
- You find out what still holds an object, and let views go.
- You order your loops so that a store that is too small costs little.
- You stream blocks out of a task, and keep it from running ahead.

## Traps

- **A large argument by value**, in a loop: one copy for each call.
- **A large array in a closure**: it travels inside the function, where no count shows it.
- **A reference in a closure** keeps its object as long as your program runs.
  Pass it as an argument.
- **A tensor is not an array**: by default each reader gets a copy.
  Put `tensor.numpy()`.
- **`return ray.put(x)`** from a task: the worker owns the object and takes it along when it dies.
- **A list of results** arrives when the last one is made.
  Yield them, and let the task pause when nothing takes them.
- **A small slice keeps the whole array.** Copy what you keep, and remember `Out` in a notebook.
- **A list changed in a task** silently loses the change, because each process has a list of its own; an array at least raises an error.
- **Where the store lies.** On Linux, WSL included, it is shared memory, `/dev/shm`; Docker gives that 64 MB unless you set `--shm-size`, and Ray then falls back to slower files in `/tmp`.
  On a Mac the store is files mapped into memory, 2 GB at most unless you ask for more.
  Spilled objects lie in Ray's temporary folder; when its disk is 95 % full, spilling stops.

## Read on

- [Chapter 3](ch03_actors.ipynb): state that changes lives in actors.
- Ray's documentation: [objects](https://docs.ray.io/en/latest/ray-core/objects.html), [serialization](https://docs.ray.io/en/latest/ray-core/objects/serialization.html), [object spilling](https://docs.ray.io/en/latest/ray-core/objects/object-spilling.html), [generators](https://docs.ray.io/en/latest/ray-core/ray-generator.html), and three [anti-patterns](https://docs.ray.io/en/latest/ray-core/patterns/index.html): large arguments by value, closures, and returning `ray.put`.
- [Old names](../docs/old_names.md): what older code calls things, and what they are called today.
- Wang et al., [*Ownership: A Distributed Futures System for Fine-Grained Tasks*](https://www.usenix.org/conference/nsdi21/presentation/cheng), NSDI 2021: why the caller owns the result.
"""
