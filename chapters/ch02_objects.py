# %% [markdown] you_learn_to="share large data without copies, free memory, spill to disk, and stream results"
r"""
# Chapter 2 · Objects and the object store

The object store keeps one copy of a large value, and every process on the node reads that copy.

*About 85 minutes · builds on [Chapter 1](ch01_tasks.ipynb)*

**What you will be able to do**

- share a large array with many tasks through one copy, and count the copies in Ray's own records;
- tell which values can be read without a copy, and measure how large a value must be for that to pay off;
- predict whether a reference arrives as a value or as a reference;
- find out what still holds an object, and free its memory;
- process more data than the store can hold;
- stream results from a task while it's still working.
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

from coursekit import begin, budget, check, compare_times, explain, hint, measured, objects, passed, predict, progress
from coursekit import puzzle, quiz, review
from coursekit import recorded, solution, warm_up
from coursekit.given.ch02_objects import (
    MILLION, add_rows, crossing, in_store, last_number, most_waiting, neighbor, pick, shared, spilled_files
)
from coursekit.given.object_store import MB, made, store

begin("ch02_objects")

# %% [markdown]
r"""
By default, Ray sets aside up to 30% of the available memory for the object store.
In this chapter, the store gets only 128 MB, so that you can see what happens when it fills up.
Here, `MB` is $2^{20}$ bytes, and `MILLION` is $2^{20}$ numbers; at 8 bytes each, they take 8 MB.
"""

# %%
ray.shutdown()  # stops a Ray instance that's already running here: its references and actors are gone
ray.init(num_cpus=4, object_store_memory=128 * MB, include_dashboard=False)
warm_up(4)

# %% [markdown] tags=["notes"]
r"""
The run sheet allots eighty-five minutes, with `column_sums` and `read_once` as homework.
Somebody usually asks whether any of this matters for small data.
It doesn't, and the plot of four ways to pass an array shows where small ends.
"""

# %% [markdown]
r"""
## `ray.put` copies an array, `ray.get` doesn't

Every node has an [**object store**](../docs/glossary.md#object-store): memory that all processes on the node can see.
It holds whatever you `ray.put`, and the large results of tasks.
`ray.put(array)` copies the array into the store and returns a reference.
`ray.get(ref)` returns an array, too, but that array is a [**zero-copy**](../docs/glossary.md#zero-copy) *view*: it holds no numbers itself and reads the ones in the store.

![The driver puts an array into the store, which makes one copy, and the workers read that one copy](../img/ch02_store.svg)

The next cell puts the same million numbers into the store in four forms, and gets them back: a NumPy array, a column of an Arrow table (which is how Ray Data keeps tables), a PyTorch tensor, and a list.

**Predict:** how many times as long does it take to get the tensor as to get the array?
"""

# %% tags=["demo"]
predict("tensor", ...)  # times as long

# %% tags=["demo"]
numbers = np.random.default_rng(0).random(MILLION)  # at 8 bytes each: 8 MB
forms = {
    "NumPy array": numbers,
    "Arrow table": pyarrow.table({"x": numbers}),
    "torch tensor": torch.from_numpy(numbers),
    "list": numbers.tolist(),
}
times = {}
for name, value in 2 * list(forms.items()):  # the first round touches the store's memory, and the second one counts
    ref = ray.put(value)
    ways = {"put": lambda value=value: ray.put(value), "get": lambda ref=ref: ray.get(ref)}
    times[name] = compare_times(ways, repeats=budget(11, 5), progress=False).medians
display((1000 * pandas.DataFrame(times).T).rename(columns="{} (ms)".format).round(2))
measured("tensor", times["torch tensor"]["get"] / times["NumPy array"]["get"])

# %% tags=["demo"]
forms = value = ways = ref = None  # what these names hold would stay in memory; more on that below

# %% [markdown]
r"""
Getting the array takes almost no time, because no number is copied.
The Arrow table is about as fast, because its memory also goes into the store in one piece.
The same is true of the numeric columns of a pandas DataFrame, and of arrays inside a dict, a list, or a dataclass.

The **tensor** takes many times as long: PyTorch pickles its numbers as ordinary bytes, so every reader copies them into its own tensor.
In reinforcement learning, weights and batches are tensors, so put `tensor.numpy()` instead, or `tensor.detach().numpy()` if the tensor requires a gradient, and turn the view back into a tensor with `torch.from_numpy`.
PyTorch warns you that this memory is read-only, but it doesn't stop you: if you write to the tensor, the numbers change for every reader.
If you set `RAY_ENABLE_ZERO_COPY_TORCH_TENSORS=1` in the environment before you import Ray, Ray makes both conversions for you: tensors lose their `requires_grad`, and a tensor that isn't contiguous or not in CPU memory is copied first.

The **list** takes the longest.
Each of its numbers is a Python object.
[Serialization](../docs/glossary.md#serialization) turns them into bytes, and every process that gets the list has to rebuild all million objects.
"""

# %% tags=["demo"]
array_ref = ray.put(numbers)
first, second = ray.get(array_ref), ray.get(array_ref)
print("the same memory:", np.shares_memory(first, second))
print("can I write to it?", first.flags.writeable)
try:
    first[0] = 1
except ValueError as error:
    print("ValueError:", error)
del first, second

# %% [markdown]
r"""
Both views read the same memory.
You can't write to it, because other processes read it, too: [objects](../docs/glossary.md#object) are **immutable**.
To change an array, copy it (`first.copy()`) or compute a new one (`first + 1`).
"""

# %%
### BEGIN SOLUTION
changed_in_a_task = "a"
### END SOLUTION

# %%
quiz("changed_in_a_task", changed_in_a_task)

# %% [markdown]
r"""
## Zero-copy pays off for large data, not for small

You might expect the object store to be the fastest way to pass any data to another process.
The next cells pass an array to another process in four ways, and that process returns the array's last number.

| | |
|---|---|
| **pipe** | to a process that doesn't use Ray: the array is pickled, sent, and unpickled |
| **Ray, by value** | `task.remote(array)`: Ray copies the array into the store, and a worker reads it there; an array below 100 kB travels with the task instead |
| **Ray, by reference** | `task.remote(ref)`: the array is already in the store |
| **shared memory** | Python's own, without Ray: the array is already there, and only the name of the memory goes through the pipe |

**Predict:** which of the four is the fastest for an array of 32 MB?
"""

# %% tags=["demo"]
predict("fastest", ..., ["pipe", "Ray, by value", "Ray, by reference", "shared memory"])

# %% tags=["demo"]
last_task = ray.remote(last_number)


def time_each_way(ask, size):
    """Return the median seconds for each way of passing an array of `size` bytes."""
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
with neighbor() as ask:  # starts the process without Ray, and stops it at the end
    passing = pandas.DataFrame({size: time_each_way(ask, size) for size in sizes}).T

# %% tags=["demo"]
figure, axes = plt.subplots(figsize=(7.5, 4), constrained_layout=True)
colors = ["#64748b", "#2563eb", "#d97706", "#059669"]
for name, color in zip(passing.columns, colors, strict=True):
    style = "o-" if name in ("pipe", "Ray, by value") else "o--"
    axes.loglog(passing.index, 1000 * passing[name], style, color=color, label=name, markersize=4)
axes.set(xlabel="size of the array", ylabel="milliseconds")
axes.set_title("Solid lines copy the array, dashed lines read it in place")
axes.set_xticks([2**10, 2**15, 2**20, 2**25], ["1 kB", "32 kB", "1 MB", "32 MB"])
axes.minorticks_off()
axes.legend()

for other in ("Ray, by value", "pipe"):
    print(f"Passing by reference beats {other!r}", crossing(sizes, passing["Ray, by reference"], passing[other]))
measured("fastest", passing.iloc[-1].idxmin())

# %% [markdown]
r"""
The solid lines rise once copying the array takes longer than the call itself.
The pipe's line rises the most, because the array is copied into a pickle, which then moves through the pipe in small chunks.
The dashed lines stay nearly flat, because nothing is copied.

But flat doesn't mean free.
Ray's dashed line shows the overhead of a task, which you measured in Chapter 1.
So a plain pipe is far faster for small data, and Python's shared memory is faster than Ray at every size.
In return for the overhead, Ray frees the memory for you, reaches other machines, and copes when memory runs out.

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
## Passing by value makes a copy for every task

The next cells give four tasks an array of 8 MB in three ways: by value, by reference, and in a [**closure**](../docs/glossary.md#closure), a function that uses a variable from outside itself.
`made()` asks Ray how much went into the store while its block ran.
Each task also tells whether its array is *writable*, because a writable array is a copy in the worker's own memory.

**Predict:** if the four tasks run a closure that uses the array, how many MB go into the store?
"""

# %% tags=["demo"]
predict("closure", ...)  # MB

# %% tags=["demo"]
def can_write(array):
    """Return whether this task has a copy of its own: the store's copy is read-only."""
    return array.flags.writeable

# %% tags=["demo"]
def by_value():
    """Pass the array itself."""
    task = ray.remote(can_write)
    return ray.get([task.remote(numbers) for _ in range(4)])


def by_closure():
    """Use the array inside the function."""
    task = ray.remote(lambda: can_write(numbers))
    return ray.get([task.remote() for _ in range(4)])


def by_reference():
    """Pass a reference."""
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
display(pandas.DataFrame(rows, index=columns).T.astype(int))
measured("closure", round(rows["by_closure"][1]))

# %% [markdown]
r"""
- **By value**: Ray doesn't notice that it's the same array every time, so each `.remote(...)` puts another copy into the store.
- **By closure**: nothing goes into the store, but that's bad news, because the array travels *inside the function*.
  Ray keeps the pickled function in the GCS, its control service, which isn't made for large data, and every worker unpickles its own copy.
  Ray warns you only above 10 MB, and refuses above 100 MB.
- **By reference**: there's one copy, for four tasks or four thousand.

A *reference* in a closure, as in `lambda: can_write(ray.get(ref))`, makes only one copy, but it's another trap.
Ray can't tell when the function is last needed, so it keeps the object for as long as your program runs.

Write `share_once`, which calls `function(array, x)` in a task for each `x` and returns the results.
Put the array into the store once, and let nothing hold it afterward.
The check counts the copies in Ray's records.
It also makes two calls wait for each other, for up to 20 s.
"""


# %%
def share_once(function, array, xs):
    """Return [function(array, x) for x in xs], with each call in a task of its own.

    The array is put into the store once, and nothing holds it afterward.
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
If you call `ray.put` inside the comprehension, `[task.remote(ray.put(array), x) for x in xs]`, you're back at one copy per task.
The check also refuses a reference in a closure, `ray.remote(lambda x: function(ray.get(ref), x))`, because its memory is never freed.
"""

# %% tags=["demo"]
if passed("share_once"):
    with made() as copies:
        picked = share_once(pick, numbers, [0, 10, 100, 1000])
    print(f"{len(picked)} tasks, {copies}")

# %% [markdown]
r"""
## Slice inside the task, not in the driver

Suppose several tasks share the work on one large matrix.
If you slice it in the driver, the blocks are copied into the store, although the matrix is already there.
Instead, pass every task the whole matrix by reference, which copies nothing, and let each task slice its own block out of the view.

The block must be a view, too, and not every way of selecting rows returns one:
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
matrix = parts = None  # while any view exists, the matrix stays in the store; more on that below

# %% [markdown]
r"""
A slice with a colon is a view, and `np.array_split` uses such slices.
Selecting rows with a list of numbers copies them, and so does any arithmetic.

Write `column_sums`, which adds up each column of a matrix in the store.
Launch exactly `blocks` tasks, and let each one pass its own rows to `add_rows(rows)`, which returns the sum of each column of those rows.
The number of rows may not be divisible by `blocks`, and a task can read it from the matrix's shape.
Don't copy any rows, and let nothing hold the matrix afterward.
The check makes two of the blocks wait for each other, for up to 20 s.
"""


# %%
def column_sums(add_rows, ref, blocks):
    """Return the column sums of the matrix behind `ref`, shape [columns].

    Each of `blocks` tasks calls `add_rows` on its own rows, in parallel. No rows are copied, neither into the store nor in
    a task, and nothing holds the matrix afterward.
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
`np.array_split` returns views of nearly the same size, so no row is lost if the rows don't divide evenly.
`matrix[block::blocks]` works, too, because a slice with a step is also a view.
For 1 MB, none of this is worth the trouble; for 10 GB, it decides whether the program runs at all.
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

In Chapter 1, you passed a reference to `.remote(...)`, and the task received the value.
This happens only if the reference is **an argument by itself**; inside a list, a dict, or another object, it stays a reference.

![f.remote(ref) waits for the value, and the task receives it; f.remote([ref]) can start right away, and the task receives a list with a reference](../img/ch02_nested.svg)
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
When Ray pickles the list, it does find the two references, and it keeps their objects in the store.
It deliberately leaves the references as they are, so that the task can `ray.get` the ones it needs without fetching the rest.
"""

# %%
### BEGIN SOLUTION
reference_in_a_list = "c"
### END SOLUTION

# %%
quiz("reference_in_a_list", reference_in_a_list)

# %% [markdown]
r"""
Now write `pipeline`, which has two stages.
First, `prepare(value)` runs for each value, in a separate task.
Then **one** task calls `join(values)` with a list or tuple of all the results, in the order of `refs`.
Your function takes references and returns a reference, and it never waits for a value.
The check creates the first value only after your function has returned, or after 20 s.
"""


# %%
def pipeline(prepare, join, refs):
    """Return a reference to join([prepare(value), ...]) for the values behind `refs`.

    Every call runs in a task of its own. The function returns before any value exists: there's no `ray.get` in the driver.
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
You can also pass the list itself and call `ray.get` *inside* the task: `ray.remote(lambda refs: join(ray.get(refs)))`.
That task starts early and waits in its worker, whereas with `*`, Ray starts the task only when all of the values exist.
"""

# %% [markdown]
r"""
## The caller owns the result, not the worker

Every object has an [**owner**](../docs/glossary.md#owner): the process that called `ray.put` or, for the result of a task, the process that launched the task.
The owner counts the references to the object, knows where the copies are, and can have a lost result computed again.
When the owner dies, the object is lost, even if its bytes are still in the store.

So a task should `return array`, not `return ray.put(array)`.
The second form returns a reference to a reference, needs a second `ray.get`, and makes the *worker* the owner.

The next cell does both and then kills the workers.
Which of the two arrays will still be there?
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
time.sleep(1)  # by then, Ray has noticed
for name, ref in {"returned": returned, "put": inner}.items():
    try:
        print(f"{name}: {ray.get(ref)[0]}")
    except ray.exceptions.OwnerDiedError as error:
        print(f"{name}: {type(error).__name__}")
del returned, put, inner, ref

# %% [markdown]
r"""
The returned array survives, because your notebook launched the task and so owns the result.
The other array is lost with the worker that put it.
A crash or a lost node has the same effect (Chapter 5).
"""

# %% [markdown] tags=["notes"]
r"""
This is the halfway point.
After the demonstration with the killed workers, somebody usually asks what happens if the *driver* dies.
Everything that it owns is lost, which in this chapter is everything.
With detached actors (Chapter 3), something can outlive its program.
"""

# %% [markdown]
r"""
## Memory is freed when nothing holds the object anymore

An object stays in the store as long as something can still reach it: a reference, another object that contains a reference, a task that takes it as an argument, or a **view** of its memory.
You don't have to free anything yourself, but it's easy to keep something by accident.

The next cell puts an array of 8 MB into the store and then deletes what holds it, step by step.
`in_store()` returns the number of MB in the store.
It waits a moment first, because Ray frees memory about once a second.

**Predict:** when all that's left is a view of five of the numbers, how many of the 8 MB are still in the store?
"""

# %% tags=["demo"]
predict("view", ...)  # MB

# %% tags=["demo"]
array_ref = refs = None  # what earlier cells put
before = in_store()
ref = ray.put(numbers)
print("put:", in_store() - before, "MB")
same = ref
del ref
print("one of two references deleted:", in_store() - before, "MB")
row = ray.get(same)[:5]
del same
with_view = in_store() - before
print("no reference left, but a view of five numbers:", with_view, "MB")
kept = row.copy()
del row
print("the view replaced by a copy:", in_store() - before, "MB")
measured("view", with_view)

# %% [markdown]
r"""
Deleting the references didn't free anything: five numbers, 40 bytes in all, keep all 8 MB in the store.

If memory isn't freed, find out what holds it.
`objects()` lists Ray's records, with one row for each object that a process refers to.
The next cell creates a reference and a view, and lists the large objects:
"""

# %% tags=["demo"]
gc.collect()  # frees the error that you caught above, and what it holds; more on that below
held = ray.put(numbers)  # a reference
looked_at = ray.get(ray.put(numbers))[:5]  # a view, and no reference
large = [row for row in objects() if (row["size"] or 0) >= MB]
pandas.DataFrame(large)[["kind", "size", "role", "pid"]]

# %% tags=["demo"]
held = looked_at = None

# %% [markdown]
r"""
`local` means that the process holds a reference, `pinned` means that it holds a view, and `pid` is the ID of the process.
If you can't explain a row, look for a variable that you forgot, or for a function that carries a reference.

A notebook has its own hiding places.
If a cell ends with `ray.get(ref)`, Jupyter shows the array and also keeps it in `Out` and `_`, so the view exists until the kernel stops.
End such a line with a semicolon, or show something smaller.
A caught error is another hiding place, because its traceback refers to the arguments of `ray.get`.
Python frees such an error only when its garbage collector runs, and `gc.collect()` runs it at once.

Write `let_go`, which returns a list with the first row of each of many arrays and keeps nothing else of the arrays.
The check deletes its own references and asks Ray's records what still holds the arrays.
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
A task that returns only the row works, too, and it's better on a cluster, because the arrays don't have to travel to the driver's node.
On the command line, `ray memory` (Chapter 19) shows the records of `objects()` for a whole cluster: `PINNED_IN_MEMORY` stands for a view, and `LOCAL_REFERENCE` for a reference.
"""

# %%
### BEGIN SOLUTION
row_of_a_matrix = "c"
### END SOLUTION

# %%
quiz("row_of_a_matrix", row_of_a_matrix)

# %% [markdown]
r"""
## A full object store spills to disk

Once the store is 80% full, Ray [**spills**](../docs/glossary.md#spilling): if no process is using an object, Ray can write it to a file, and then drop it from memory when it needs the room.
When a process gets such an object, Ray **restores** it by reading it back into the store.

![Six blocks and a store with room for four: two blocks are on disk, and each comes back when a process gets it](../img/ch02_spill.svg)

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
for name, color in {"in the store": "#d97706", "written to disk": "#64748b"}.items():
    axes.plot(filling.index, filling[name], "o-", color=color, label=name, markersize=4)
axes.axhline(128, color="#d97706", linestyle="--", linewidth=1)
axes.text(1, 131, "the size of the store", color="#b45309")
axes.axhline(0.8 * 128, color="#d97706", linestyle=":", linewidth=1)
axes.text(1, 0.8 * 128 + 3, "80% full: Ray starts to spill", color="#b45309")
axes.set(xlabel="number of 8 MB blocks put", ylabel="MB", ylim=(0, 150))
axes.set_title("Once the store is 80% full, blocks are written to disk")
axes.legend(loc="lower right");

# %% [markdown]
r"""
Ray writes a whole batch of blocks to one file in the background, so the gray line rises in a step, a few puts after the store is 80% full.
A block that has been written stays in memory until a new block needs the room.
Then Ray drops several blocks together, which explains the teeth in the orange line.
The slowest `ray.put` waits for the first file, because Ray has to start the processes that write it.

Reading takes time, too.
If you read all the blocks in order and then read them all again, the second round is hardly faster, because Ray had to drop blocks to restore others.
So the rule for data that doesn't fit is to **do everything with a block while it's in the store**: loop over the blocks on the outside, and over what you do with each block on the inside.
And never hold all the blocks at once, because Ray can't spill a block while a process has a view of it.

Write `read_once`, which calls every function in `functions` on every block and returns one list of results for each function.
A process may use at most 4 blocks at once, without copying them.
The check moves 24 blocks of its own to disk and asks Ray how many times it restored one, and how many were in use at once.
Ray sometimes restores a block twice if many tasks wait for blocks, so the check allows 34 restores.
"""


# %%
def read_once(functions, refs):
    """Return one list for each function: its results for all blocks behind `refs`, in order.

    Each block is restored once. A process uses at most 4 blocks at once, and it uses them in the store, without a copy.
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
`zip(*by_block)` transposes the table, so one row per block becomes one row per function.
You could also launch a task for each block, `ray.remote(lambda block: [f(block) for f in functions])`.
The tasks run in parallel, and Ray restores the blocks before the tasks start, perhaps some of them twice.
"""

# %% [markdown]
r"""
Compare the two orders of the loops, with four functions and your 24 blocks, which the check's own blocks have pushed out to disk.
"""

# %% tags=["demo"]
def function_by_function(functions, refs):
    """Return the same as read_once, with the loops in the wrong order."""
    return [[function(ray.get(ref)) for ref in refs] for function in functions]


if passed("read_once"):
    for way in (function_by_function, read_once):
        before, start = store()["restored_objects"], time.perf_counter()
        way([np.max, np.min, np.mean, np.std], blocks)
        seconds = time.perf_counter() - start
        print(f"{way.__name__}: {store()['restored_objects'] - before} restored, {seconds:.2f} s")

# %% [markdown]
r"""
In the wrong order, each function's round pushes out the blocks that the next round needs, so there are up to 4 × 24 = 96 restores.
In the right order, each block comes back once, so there are about 24.
"""

# %%
### BEGIN SOLUTION
store_is_full = "a"
### END SOLUTION

# %%
quiz("store_is_full", store_is_full)

# %% [markdown]
r"""
When nothing holds an object anymore, its copy on disk is deleted, too, and a file that several objects share is deleted with the last of them.
If a file is left, something still holds an object in it.
"""

# %% tags=["demo"]
del blocks
print(in_store(), "MB in the store, and these files:", spilled_files())

# %% [markdown]
r"""
## A generator streams each block as soon as it's made

A task that returns a list of blocks delivers nothing until the last block is made.
Write the task as a **generator** instead, with `yield`, and every block becomes a separate object.
If you call `.remote()` on such a [streaming generator](../docs/glossary.md#streaming-generator), you get an `ObjectRefGenerator`.
If you loop over it, you get each reference as soon as its block exists.

If your loop is slower than the task, blocks pile up in the store.
With `_generator_backpressure_num_objects=2`, the task pauses while two blocks wait for your loop.
The underscore says that Ray may still change this option.

In the next cells, a task makes ten blocks in 0.05 s each, and your loop takes 0.15 s to use one.

**Predict:** if nothing makes the generator pause, how many blocks wait for your loop at most?
"""

# %% tags=["demo"]
predict("waiting", ...)  # blocks

# %% tags=["demo"]
def make_blocks(count):
    """Yield blocks of 8 MB, each with the time when it was made."""
    for number in range(count):
        time.sleep(0.05)
        yield time.time(), np.full(MILLION, float(number))


def use_each(open_stream):
    """Return the seconds at which each block was made and reached the loop, shape [blocks, 2]."""
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
    for seconds, label, color in zip(times.T, ("made", "in your loop"), ("#2563eb", "#d97706"), strict=True):
        axes.step([0, *seconds], range(count + 1), where="post", color=color, label=label)
    axes.set(title=f"{name}\nat most {most_waiting(times)} waiting", xlabel="seconds")
panels[0].set(ylabel="blocks")
panels[0].legend(loc="lower right")
measured("waiting", most_waiting(streamed["a generator"]))

# %% [markdown]
r"""
The gap between the two lines is the number of blocks that wait for your loop.
With a list, the first block arrives only when the last one is made.
A generator delivers the first block as soon as it's made, so making blocks and using them overlap.
But the task runs ahead: it makes ten blocks while your loop takes about four, so about six wait, and a long stream fills the store.
With the pause, about two blocks wait, however long the stream is.
That's how you can process more data than the store can hold, and Ray never has to write a file.

If the function raises an error, you still get everything that it yielded before, and then `ray.get` raises the error.
If the worker *process* dies, Ray by default runs the task again from the start.
Without a retry, the blocks that you've already taken are safe, but you usually lose those that you haven't.

Methods of actors can be generators, too: for example, a sampler can stream its episodes to a learner.
Ray Data moves its blocks this way.
"""

# %% tags=["demo"]
ray.shutdown()

# %% [markdown]
r"""
## What you can do now

- You can share large data through one copy, and prove it with Ray's records.
- You can tell which values need no copy, and how large they must be for that to matter.
- You can build pipelines of references.
- You can find out what still holds an object, and free its memory.
- You can process more data than the store can hold.
- You can stream blocks out of a task and keep it from running ahead.

## Traps

- **A large argument by value in a loop** makes one copy per call.
- **A closure** that uses a large array carries it inside the function, and one that uses a reference keeps the object alive for as long as your program runs.
- **A tensor isn't an array**, so put `tensor.numpy()`.
- **`return ray.put(x)`** in a task makes the worker the owner, so the object is lost when the worker dies.
- **A small slice keeps the whole array** in the store, and so does `Out` in a notebook.
- **A change to a list in a task is lost** without an error, because each process has its own copy of the list.
- **The store needs shared memory.**
  On Linux, including WSL, that's `/dev/shm`, which Docker limits to 64 MB; unless you raise that with `--shm-size`, Ray falls back to slower files in `/tmp`.
  On a Mac, the store has at most 2 GB by default; for more, pass `object_store_memory` and set `RAY_ENABLE_MAC_LARGE_OBJECT_STORE=1`, or `ray.init` fails.
- **Spilling needs disk space** in Ray's temporary folder, and stops when that disk is 95% full.

## Read on

- [Chapter 3](ch03_actors.ipynb): actors, which hold state that changes.
- Ray's documentation: [objects](https://docs.ray.io/en/latest/ray-core/objects.html), [serialization](https://docs.ray.io/en/latest/ray-core/objects/serialization.html), [object spilling](https://docs.ray.io/en/latest/ray-core/objects/object-spilling.html), [generators](https://docs.ray.io/en/latest/ray-core/ray-generator.html), and [anti-patterns](https://docs.ray.io/en/latest/ray-core/patterns/index.html).
- [Old names](../docs/old_names.md): what older code calls things.
- Wang et al., [*Ownership: A Distributed Futures System for Fine-Grained Tasks*](https://www.usenix.org/conference/nsdi21/presentation/cheng), NSDI 2021: why the caller owns the result.
"""
