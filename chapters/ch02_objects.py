# %% [markdown] you_learn_to="share large data without copies, let memory go, spill"
r"""
# Chapter 2 · One copy in the store, and everybody reads it

*About 90 minutes · builds on [Chapter 1](ch01_tasks.ipynb)*

**What you will be able to do**

- share a large array with many tasks through one copy, and count the copies with Ray's own records;
- say from which size on that pays, from a measurement on your machine;
- pass references on, alone and inside lists, and know which of them arrive as values;
- find out who still holds an object, and let its memory go when you no longer need it;
- work on more data than the store can hold.
"""

# %%
import time

import matplotlib.pyplot as plt
import numpy as np
import pandas
import psutil
import ray

from coursekit import begin, budget, check, compare_times, hint, passed, progress, quiz, solution, warm_up
from coursekit.given.ch02_objects import (
    MB, MILLION, add_rows, crossing, in_store, last_number, made, neighbour, pick, shared, spilled_files, store
)
from coursekit.records import objects

begin("ch02_objects")

# %% [markdown]
r"""
Left to itself, Ray sets aside 30 % of your memory for the object store.
In this chapter it gets 128 MB, so that you see what happens when it is full.
(`MB` is $2^{20}$ bytes here, and `MILLION` the same count of numbers: one million of them, at 8 bytes each, are 8 MB.)
"""

# %%
ray.init(num_cpus=4, object_store_memory=128 * MB, include_dashboard=False)
warm_up(4)

# %% [markdown] tags=["notes"]
r"""
Ninety minutes with all five exercises; seventy when `column_sums` and `read_once` are left as homework.
The room usually asks whether all this matters for small data.
It does not, and the plot of the second section says where small ends.
"""

# %% [markdown]
r"""
## `ray.put` makes a copy, `ray.get` makes none

Every node has an **object store**: memory that all processes of the node can see.
It holds what you put there and what tasks return (results below 100 kB go straight to the caller).
`ray.put(array)` copies the array into the store and returns a reference.
`ray.get(ref)` returns an array again, but a **view**: it has no numbers of its own, it looks at the store's.
That is what people mean by **zero-copy**.

![The driver puts an array into the store, which makes one copy; workers look at that one copy](../img/ch02_store.svg)

**Predict:** take an array of 8 MB, and a list of the same million numbers.
Four things to do: put the array, get it, put the list, get that.
Which is the cheapest, which takes longest?
"""

# %% tags=["demo"]
numbers = np.random.default_rng(0).random(MILLION)  # at 8 bytes each: 8 MB
as_list = numbers.tolist()
array_ref, list_ref = ray.put(numbers), ray.put(as_list)

times = compare_times(
    {
        "put array": lambda: ray.put(numbers),
        "get array": lambda: ray.get(array_ref),
        "put list": lambda: ray.put(as_list),
        "get list": lambda: ray.get(list_ref),
    },
    repeats=budget(15, 5),
)
pandas.DataFrame({"ms": {name: 1000 * seconds for name, seconds in times.medians.items()}}).round(2)

# %% [markdown]
r"""
Getting the array is much the cheapest: no number is touched.
Putting it is one copy.
The list is another matter: each of its numbers is an object of Python.
Putting the list packs them one by one; getting it is the dearest of all, for a million objects are built, and anew in every process that gets the list.

So zero-copy is for **arrays**: NumPy's, also inside a dict, a list or a dataclass, and what is made of them, such as the numeric columns of a DataFrame.
Everything else is pickled, and each reader gets a copy of its own.
"""

# %% tags=["demo"]
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
Nobody may write to it, because others look at it too: objects are **immutable**.
Whoever wants to change an array takes a copy (`first.copy()`) or computes a new one (`first + 1`).
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

Many believe that handing data over through the store is simply faster than sending it.
Measure it.
Another process wants the last number of your array, and you hand the array over in four ways:

| | |
|---|---|
| **pipe** | to a process without Ray: pickled, sent, unpickled |
| **Ray, by value** | `task.remote(array)`: put into the store, then looked at by a worker (below 100 kB: sent along with the task) |
| **Ray, by reference** | `task.remote(ref)`: it was put there before |
| **shared memory** | Python's own, without Ray: it was copied there before, and only its name goes through the pipe |

**Predict:** which of the four lines rise with the size?
Which is lowest for 1 kB, which for 32 MB?
"""

# %% tags=["demo"]
last_task = ray.remote(last_number)


def hand_over(ask, size):
    """Return the median seconds for each way of handing over an array of so many bytes."""
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
The solid lines rise once the copying costs more than the call.
The pipe rises most: it copies into a pickle, and then moves that in small portions, with both processes taking turns.
Ray by value copies once.
The dashed lines stay nearly flat, for nothing is copied.

But flat is not free.
Ray's dashed line is as high as the price of a task (chapter 1), so for small data a plain pipe wins by far, and Python's shared memory is lower than Ray everywhere.
What Ray adds for its price is everything around it: who frees the memory and when, other machines, and what to do when memory runs out.

Two rules, for the two lines of Ray.
**Small** data, below about 100 kB, may go by value: they travel with the task, and it makes no difference.
**Large** data go by reference as soon as a second task needs them.
"""

# %%
### BEGIN SOLUTION
copies_of_an_array = "b"
### END SOLUTION

# %%
quiz("copies_of_an_array", copies_of_an_array)

# %% [markdown]
r"""
## By value means: one more copy for every task

Four tasks each need one number of an array of 8 MB.
Here are three programs that give the same result.
`made()` asks Ray how much went into the store meanwhile.
A task that sees a *writable* array has a copy of its own, in its worker's memory.

**Predict:** how many MB go into the store in each case, and in which do the tasks have copies of their own?
"""

# %% tags=["demo"]
def can_write(array):
    """Return whether this task has a copy of its own: nobody may write to the store's."""
    return array.flags.writeable

# %% tags=["demo"]
def by_value():
    """Hand over the array itself."""
    task = ray.remote(can_write)
    return ray.get([task.remote(numbers) for _ in range(4)])


def by_closure():
    """Mention the array inside the function."""
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
- **By closure**: the function mentions `numbers`, so the array travels *inside the function*.
  The store stays empty, and that is no good news: the function is pickled, array and all, kept in the GCS (the cluster's memory of itself, chapter 0), which is not made for that, and unpickled by every worker.
  From 10 MB on Ray warns, from 100 MB on it refuses.
  A *reference* inside the function, `lambda: can_write(ray.get(ref))`, makes one copy only, but it is a trap of another kind: Ray cannot count a reference that hides in a function, so it never frees that object as long as your program runs.
- **By reference**: one copy, for four tasks or four thousand.

Write `share_once`, so that it works for any function and array.
The check reads the same records of the store.
It also makes two calls wait for each other (20 s at most), so do not wait inside the loop.
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
`ray.put` in the comprehension, `[task.remote(ray.put(array), x) for x in xs]`, is the same mistake in a new coat: a copy for each task.
A reference that the function *captures*, `ray.remote(lambda x: function(ray.get(ref), x))`, is refused for the memory that never returns.
"""

# %% tags=["demo"]
if passed("share_once"):
    with made() as copies:
        picked = share_once(pick, numbers, [0, 10, 100, 1000])
    print(f"{len(picked)} tasks, {copies}")

# %% [markdown]
r"""
## Cut inside the task, not in the driver

Each of several tasks is to work on its own part of one large matrix.
The obvious way is to cut the matrix first and send the parts.
The matrix is in the store already, though, and the parts would be put there once more.
The other way round, a task gets the whole matrix, which costs nothing, and cuts its part out of the view.

**Predict:** which of these are views of the matrix too, and which are copies: rows 0 to 9, every tenth row, the second of four blocks that `np.array_split` cuts, rows chosen by a list, the matrix plus zero?
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
matrix = parts = None  # as long as a view exists, the matrix stays in the store: more of that below

# %% [markdown]
r"""
A slice with a colon is a view of a view, and `np.array_split` cuts by such slices.
Choosing rows by a list, and any arithmetic, makes new memory.

Write `column_sums` for a matrix that is in the store.
`add_rows(rows)` is a function that adds up some rows: it returns the sum of each column.
Use it once in each of `blocks` tasks, each for its own rows; the number of rows need not be a multiple of `blocks`.
The check lets two blocks wait for each other (20 s at most, so a wrong answer takes a while).
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
`np.array_split` cuts into nearly equal views, so nothing is lost when the rows do not divide evenly.
`matrix[block::blocks]` works too: every `blocks`-th row is also a view.
A NumPy array's `sum` is fast enough for all this to be pointless with 1 MB; with 10 GB it is the difference between running and not running.
"""

# %% tags=["demo"]
if passed("column_sums"):
    matrix_ref = ray.put(numbers.reshape(1024, 1024))
    with made() as copies:
        sums = column_sums(add_rows, matrix_ref, 4)
    print(f"{len(sums)} sums; into the store went {copies.megabytes:.1f} MB")
    del matrix_ref

# %% [markdown]
r"""
## A reference in a list stays a reference

Chapter 1 said: pass a reference to `.remote(...)`, and the task sees the value.
Precisely, that holds for a reference that is an **argument of its own**.
Inside a list, a dict or an object it stays what it is.

![f.remote(ref) waits for the value and sees it; f.remote([ref]) may start at once and sees a list with a reference](../img/ch02_nested.svg)

**Predict** what the three calls print.
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
Ray does not search values for references: that would take long for a large value, and often you do not want it.
A list of references is how a task gets its hands on many objects without fetching any.
It can `ray.get` the ones it needs, or pass them on.
"""

# %%
### BEGIN SOLUTION
reference_in_a_list = "c"
### END SOLUTION

# %%
quiz("reference_in_a_list", reference_in_a_list)

# %% [markdown]
r"""
Now a pipeline with two stages.
`prepare(value)` is called for each value, side by side, in tasks.
Then **one** task calls `join(values)` with a list (or tuple) of all that was prepared.
You are given references, you return a reference, and the data never come to the driver.
The check makes the first value only after your function has returned; one that waits for it keeps the check waiting too, for 20 s.
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
The other good answer hands over the list and calls `ray.get` *inside* the task: `ray.remote(lambda refs: join(ray.get(refs)))`.
That task starts early and waits in a process of its own; with `*`, Ray starts it when everything is ready.
"""

# %% [markdown]
r"""
## The caller owns the result, not the worker

Every object has an **owner**: the process that called `ray.put`, or, for the result of a task, the process that launched the task.
The owner counts the references, remembers how a result can be computed again, and knows where the copies are.
So when the owner is gone, the object is lost, even if its bytes still lie in the store.

That is why a task should `return array` and not `return ray.put(array)`.
The second form gives a reference to a reference, needs a second `ray.get`, and makes the *worker* the owner.
Here are both, and then the workers die.
(`num_returns=2` gives a reference for each of two results.)

**Predict:** which of the two arrays is still there?
"""

# %% tags=["demo"]
@ray.remote(num_returns=2)
def returns_array():
    """Return this worker's process id, and an array."""
    return psutil.Process().pid, np.ones(MILLION)


@ray.remote(num_returns=2)
def returns_put():
    """Return this worker's process id, and a reference to an array."""
    return psutil.Process().pid, ray.put(np.ones(MILLION))

# %% tags=["demo"]
(pid, returned), (other_pid, put) = returns_array.remote(), returns_put.remote()
inner = ray.get(put)  # the reference that the task returned
print("both are there:", ray.get(returned)[0], ray.get(inner)[0])

for worker in {ray.get(pid), ray.get(other_pid)}:
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
The returned array survives: your notebook launched the task, so your notebook owns the result.
The put one died with its worker.
(Ray ends idle workers too, but never one that owns something still in use.)
Chapter 5 is about all that can die, and what comes back.
"""

# %% [markdown] tags=["notes"]
r"""
Half-time.
The demonstration with the killed workers usually brings the question what happens when the *driver* dies: everything that it owns goes, and that is everything here.
Detached actors (chapter 3) are the way to let something outlive its program.
"""

# %% [markdown]
r"""
## Memory returns when the last reader lets go

An object stays in the store as long as anybody can still reach it: through a reference, through a task that was launched with it, or through a **view** of its memory.
You need not free anything, but you can keep things by accident.

**Predict** the four numbers before you run the cell.
The array has 8 MB.
(`in_store()` asks Ray after a moment: memory is freed in batches, at most one a second.
The cell counts from what is there at its start.)
"""

# %% tags=["demo"]
array_ref = list_ref = refs = None  # what earlier cells have put
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
The third line surprises most people: five numbers, 40 bytes in all, keep 8 MB in the store.

When memory does not return, ask who holds it: `objects()` lists Ray's records, a line for each object that a process refers to.
**Predict:** what tells a reference from a view?
"""

# %% tags=["demo"]
held = ray.put(numbers)  # a reference
looked_at = ray.get(ray.put(numbers))[:5]  # a view, and no reference
large = [row for row in objects() if (row["size"] or 0) >= MB]
pandas.DataFrame(large)[["kind", "size", "role", "pid"]]

# %% tags=["demo"]
held = looked_at = None

# %% [markdown]
r"""
`local` is a reference, `pinned` is a view, and `pid` says in which process.
A line that you cannot explain leads you to a name that you forgot, or to a reference that a function carries inside it: that one stays `local` to the end.

A notebook has hiding places of its own.
A cell that ends with `ray.get(ref)` shows the array, and IPython remembers what it has shown in `Out` (and `_`): the view lives as long as the kernel.
End such a line with a semicolon, or show something smaller.

`let_go` takes the first row out of each of many arrays.
The check keeps your rows, deletes its own references, and asks Ray's records who still uses the arrays.
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
Doing it in a task, which returns only the row, is as good, and better on a cluster: the arrays need not travel to the driver's node at all.
`ray memory` on the command line (chapter 19) shows the records of `objects()` for a whole cluster: `PINNED_IN_MEMORY` marks a view, `LOCAL_REFERENCE` a reference.
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

What if everything in the store is still needed and more objects come?
Then Ray **spills**.
It does not wait until nothing fits: when the store is 80 % full, it writes older objects to files, and from then on it may drop their memory when it needs room.
Whoever gets an object that was dropped has it **restored**, read back into the store.
No line of your program changes.

![Six blocks for a store with room for four: two older ones are on disk, and come back when somebody gets them](../img/ch02_spill.svg)

Put 24 blocks of 8 MB, 192 MB, into the store of 128 MB.
(`store()` gives Ray's records of the store, as a dict.)

**Predict:** at which block does the first file appear?
What will the slowest `ray.put` cost?
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
axes.text(1, 131, "what the store may use", color="#d97706")
axes.axhline(0.8 * 128, color="#d97706", linestyle=":", linewidth=1)
axes.text(1, 0.8 * 128 + 3, "80 % of it: Ray begins to write", color="#d97706")
axes.set(xlabel="blocks of 8 MB put", ylabel="MB", ylim=(0, 150))
axes.set_title("When the store is 80 % full, older blocks go to disk")
axes.legend(loc="lower right");

# %% [markdown]
r"""
The store passes the 80 %, and a batch of blocks goes to disk at once: Ray writes many small objects into one file.
So the grey line rises in a step and then stays flat.
(Ray writes in the background: one or two more blocks may be put before the step shows.)
The memory does not return with it.
A block that was written stays where it is until a new one needs room; then Ray drops several at once, about a fifth of the store, and the store fills up again.
Hence the teeth of the orange line, which fall where nothing is written.

The slowest `ray.put` is the one that has to wait for the first file: Ray must start processes that write it.
They stay for the next time.

Now read the blocks back, in order, three times.
The first time is not counted.

**Predict:** which of the 48 gets that count are slow?
Is the second time faster?
"""

# %% tags=["demo"]
def read_in_order():
    """Return the milliseconds of getting each block, and whether it came from disk."""
    rows = []
    for ref in blocks:
        before, start = store()["restored_objects"], time.perf_counter()
        ray.get(ref)
        rows.append([1000 * (time.perf_counter() - start)])
        time.sleep(0.02)  # Ray counts a restore a moment later
        rows[-1].append(store()["restored_objects"] > before)
    return rows


read_in_order()  # the first restores also start the processes that read
reads = pandas.DataFrame(read_in_order() + read_in_order(), columns=["ms", "from disk"])
reads.groupby("from disk")["ms"].describe()[["count", "min", "50%", "max"]].round(2)

# %% tags=["demo"]
figure, axes = plt.subplots(figsize=(7.5, 3), constrained_layout=True)
for disk, colour, label in ((False, "#d97706", "in the store"), (True, "#64748b", "from disk")):
    chosen = reads[reads["from disk"] == disk]
    axes.plot(chosen.index + 1, chosen["ms"], "o", color=colour, label=label)
axes.axvline(24.5, color="#94a3b8", linestyle="--")
axes.set(xlabel="number of the get (the second reading begins at 25)", ylabel="milliseconds")
axes.set_ylim(bottom=0)
axes.set_title("The second reading is no faster: what was read is out again")
axes.legend();

# %% [markdown]
r"""
The second reading helps nobody.
The orange blocks never left: those that Ray has not written to a file must stay in memory, 8 MB each.
All the others, the grey ones, take turns in what room is left of the 128 MB.
By the time the reader comes round again, what was restored has been dropped for what came after, so each turn through the data pays for the disk once more.

Hence the rule for data that do not fit: **do everything with a block while it is there**.
Loop over blocks outside, over what you do with them inside; and never hold all blocks at once.
(`ray.get(blocks)` asks for 192 MB of views in a store of 128 MB.
Ray gets through that with extra files, slowly; it is an emergency exit.)

Your challenge: `functions` is a list of functions of one block.
The check has 24 blocks, too, and asks Ray how often it had to restore one, and how many blocks were in use at once.
"""


# %%
def read_once(functions, refs):
    """Return one list for each function: its results for all blocks behind `refs`, in order.

    Each block is read once, and never more than 4 blocks are held at a time by one process.
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
`zip(*by_block)` turns the table round: from a row for each block to a row for each function.
A task for each block, `ray.remote(lambda block: [f(block) for f in functions])`, is as good and works in parallel; Ray then restores blocks ahead, some perhaps twice, and the check allows for that.
"""

# %% [markdown]
r"""
The check has put 192 MB of its own into the store, and that pushed out all that was left of yours: now each of your 24 blocks is in a file, none in memory.
(Without the check, as in the plot, some were still there.)

**Predict:** for four functions of your 24 blocks, how many restores does the wrong order of the loops need, how many the right one?
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
In the wrong order, the functions go through the blocks one after the other: up to 4 functions × 24 blocks = 96 restores, since each reading pushes out what the next one needs.
In the right order, each block comes back once: 24, or a few less if some were still in memory.
"""

# %%
### BEGIN SOLUTION
store_is_full = "a"
### END SOLUTION

# %%
quiz("store_is_full", store_is_full)

# %% [markdown]
r"""
Let everything go, and look at the store and the disk once more.
**Predict:** what is left?
"""

# %% tags=["demo"]
del blocks
print(in_store(), "MB in the store, and these files:", spilled_files())

# %% [markdown]
r"""
0 MB, and no file: when the last reference to an object goes, so does its file, or, where objects share a file, with the last of them.
Do you see more?
Then something still refers to an object: one of your own names, `Out`, or a reference that a function carries inside it.
One small object can keep the large file that it shares.
`objects()` says of what kind the reference is.
"""

# %% tags=["demo"]
ray.shutdown()

# %% [markdown]
r"""
> **You may have seen**, in older code, `ray.ObjectID` (today `ray.ObjectRef`), `ray.register_custom_serializer` (today `ray.util.register_serializer`), `ray.init(lru_evict=True)`, which deleted objects that were still referenced, or `pyarrow.plasma`.
> Ray's store was called **Plasma** and lived in Arrow for some years; today it is a part of Ray, and Arrow has none.
"""

# %% [markdown]
r"""
## What you can do now

- You put large data once and hand the reference round, and you can prove it with Ray's records.
- You know from which size on that matters on your machine.
- You build pipelines of references, and know what arrives from a list.
- You find out who still holds an object, and let views go.
- You order the loops so that a store that is too small is merely a little slower.

## Traps

- **A large argument by value**, in a loop: one copy for each call.
- **A large array in a closure**: it travels inside the function, where no count shows it.
- **A reference in a closure**, `ray.remote(lambda x: f(ray.get(ref), x))`: Ray never frees that object while your program runs.
  Hand the reference over as an argument.
- **`return ray.put(x)`** from a task: the worker owns it, and takes it along when it dies.
- **A small slice keeps the whole array.** Copy what you keep; and remember `Out` in a notebook.
- **A changed list**: the change is lost without a word, for a list is a copy in every process.
  An array at least says so.
- **Where the store lies.** On Linux, and so in Windows' WSL, it is shared memory, `/dev/shm`; Docker gives that 64 MB unless told `--shm-size`, and Ray then falls back to slower files in `/tmp`.
  On a Mac it is files mapped into memory, and Ray takes at most 2 GB unless told otherwise.
  Spilled objects lie in Ray's temporary folder: a disk that is 95 % full stops the spilling.

## Read on

- [Chapter 3](ch03_actors.ipynb): state that changes lives in actors.
- Ray's documentation: [objects](https://docs.ray.io/en/latest/ray-core/objects.html), [serialization](https://docs.ray.io/en/latest/ray-core/objects/serialization.html), [object spilling](https://docs.ray.io/en/latest/ray-core/objects/object-spilling.html), and among the [anti-patterns](https://docs.ray.io/en/latest/ray-core/patterns/index.html) large arguments by value, closures, and returning `ray.put`.
- Wang et al., [*Ownership: A Distributed Futures System for Fine-Grained Tasks*](https://www.usenix.org/conference/nsdi21/presentation/cheng), NSDI 2021: why the caller owns the result.
"""
