# %% [markdown] you_learn_to="launch, gather, and measure tasks"
r"""
# Chapter 1 · Tasks

A decorator turns a function into a task, and tasks run in parallel.

*About 100 minutes · builds on [Chapter 0](ch00_start.ipynb)*

**What you will be able to do**

- turn a function into a task, launch many tasks, and gather their results in the order you want;
- build a graph of tasks by passing references, without waiting in between;
- measure what a task costs on your machine, and make tasks large enough to be worth it;
- keep a flood of tasks under control;
- say when Python's own `multiprocessing` is enough, and when it is not.
"""

# %%
import multiprocessing
import os
import time

import matplotlib.pyplot as plt
import pandas
import ray

from coursekit import begin, budget, check, compare_times, hint, measured, passed, predict, progress, quiz, recorded, solution, timeline, warm_up
from coursekit.given.ch01_tasks import points_inside, slow_square, square
from coursekit.given.object_store import made

begin("ch01_tasks")

# %%
ray.shutdown()  # ends a Ray that already runs here: its references and actors are gone
started = time.perf_counter()
ray.init(num_cpus=4, include_dashboard=False)
warm_up(4)  # each of the four workers is a process that has to start: the first tasks would wait for that
ray_start_seconds = time.perf_counter() - started

# %% [markdown] tags=["notes"]
r"""
The run sheet plans a hundred minutes, with `tree_sum` and `bounded_map` as homework.
Have the room run the two cells above before you talk: `ray.init` takes ten seconds on a small laptop.
"""

# %% [markdown]
r"""
## A task is a function that runs elsewhere

`slow_square(x)` naps for 0.2 s and returns $x^2$; its argument `seconds` changes the nap.
The nap stands for work but needs no core, so you see the same on every machine.

`ray.remote` turns a function into a **remote function**.
Calling that with `.remote(...)` launches a **task** and returns an **object reference** at once.
`ray.get(ref)` waits for the task and returns the value.

![The driver launches a task and holds a reference; a small result comes back with the worker's reply, a large one goes into the object store, where ray.get looks at it](../img/ch01_references.svg)

A worker sends a small result, less than 100 kB, straight back with its reply.
It puts a larger one into its node's object store, where the reference leads to it.
"""

# %% tags=["demo"]
slow_square_task = ray.remote(slow_square)
ray.get(slow_square_task.remote(1))  # the first call also sends the function to a worker: do not measure that

start = time.perf_counter()
ref = slow_square_task.remote(7)
launched = time.perf_counter()
value = ray.get(ref)
ended = time.perf_counter()
print(ref)
print(f"launch {1000 * (launched - start):.1f} ms, ray.get {1000 * (ended - launched):.1f} ms, value {value}")

# %% [markdown]
r"""
On an idle machine the launch takes a millisecond or less, and the wait the 200 ms of the nap.
Between them, your program is free to launch more tasks.

You will also see `@ray.remote` written above a function.
The name then stands for the remote function, and calling it without `.remote` raises an error.
`ray.remote(function)` leaves the function itself alone, so this course mostly uses that form.

Your turn: `as_task` launches a task and returns its reference without waiting.
If yours waits, the check needs 20 s to tell.
"""


# %%
def as_task(function, x):
    """Return a reference to function(x), which runs in a Ray task."""
    ### BEGIN SOLUTION
    return ray.remote(function).remote(x)
    ### END SOLUTION


# %%
check("as_task", as_task)

# %% [markdown] tags=["solution"]
r"""
One call, one `ray.remote`: here that is fine.
If you call a function often, make its remote function once and keep it; you will measure the difference below.
"""

# %%
### BEGIN SOLUTION
when_remote_returns = "b"
### END SOLUTION

# %%
quiz("when_remote_returns", when_remote_returns)

# %% [markdown]
r"""
## Launch first, gather later

The most common mistake with Ray is a `ray.get` in the wrong place.
Both cells below run eight tasks of 0.2 s on four workers.

**Predict** the seconds of each before you run them.
Write your guess for the second one in place of the dots; nothing is graded.
"""

# %% tags=["demo"]
predict("launch_first", ...)  # seconds

# %% tags=["demo"]
start = time.perf_counter()
with recorded() as waits_in_the_loop:
    for x in range(8):
        ray.get(slow_square_task.remote(x))
print(f"get in the loop: {time.perf_counter() - start:.2f} s")

# %% tags=["demo"]
ray.get([slow_square_task.remote(x) for x in range(8)])  # warm-up: each worker fetches the function

start = time.perf_counter()
with recorded() as launches_first:
    refs = [slow_square_task.remote(x) for x in range(8)]
    ray.get(refs)
seconds = time.perf_counter() - start
print(f"launch, then get: {seconds:.2f} s")
measured("launch_first", seconds)

# %% tags=["demo"]
figure, (above, below) = plt.subplots(2, figsize=(9, 5), sharex=True, constrained_layout=True)
timeline(waits_in_the_loop, ax=above).set_title("get in the loop");
timeline(launches_first, ax=below).set_title("launch, then get");

# %% [markdown]
r"""
In the first picture, each task starts only when you have fetched the result of the one before: eight naps in a row, 1.6 s, and one worker would have been enough.
In the second, the program launches all eight before it waits: two rounds, 0.4 s.
Only `ray.get` has moved.

Write that pattern as a function.
The check hands your function two calls that wait up to 20 s for each other, so a wrong answer takes that long to judge.
"""


# %%
def parallel_map(function, xs):
    """Return [function(x) for x in xs], each call in a task of its own.

    All tasks are launched before the first is waited for.
    """
    ### BEGIN SOLUTION
    task = ray.remote(function)
    refs = [task.remote(x) for x in xs]
    return ray.get(refs)
    ### END SOLUTION


# %%
check("parallel_map", parallel_map)

# %% [markdown] tags=["solution"]
r"""
`ray.get` in a loop over references that *already exist* is fine too: every task is under way.
The mistake is to call `.remote()` and `ray.get` in the same breath.
"""

# %%
### BEGIN SOLUTION
order_of_get = "b"
### END SOLUTION

# %%
quiz("order_of_get", order_of_get)

# %% [markdown]
r"""
## `ray.wait` hands out what is ready

Some tasks take longer than others, and often you can continue with the first result.
`ray.wait(refs, num_returns=1)` waits until one is ready, and returns two lists: the ready references, and the others.

The tasks below nap for 0.4, 0.1, 0.3 and 0.2 s.
"""

# %% tags=["demo"]
pending = [slow_square_task.remote(x, seconds=x / 10) for x in (4, 1, 3, 2)]
while pending:
    ready, pending = ray.wait(pending, num_returns=1)
    print(ray.get(ready[0]), f"and {len(pending)} still pending")

# %% [markdown]
r"""
The shortest nap comes first: results arrive in the order in which the tasks end, as long as your loop is quicker than they are.
When several are ready, Ray does not promise which of them `ray.wait` returns, and each of the two lists keeps the order of the list that *you passed*.

Reinforcement learning depends on this pattern: a learner takes experience from the workers that have some, and does not wait for the slowest.
"""


# %%
def first_k(function, xs, k):
    """Return the results of the k calls function(x) that end first, in the order in which they end.

    There are at least k inputs, and k is at least 1. Leave the other calls running.
    """
    ### BEGIN SOLUTION
    task = ray.remote(function)
    pending = [task.remote(x) for x in xs]
    results = []
    while len(results) < k:
        ready, pending = ray.wait(pending, num_returns=1)
        results.append(ray.get(ready[0]))
    return results
    ### END SOLUTION


# %%
check("first_k", first_k)

# %% [markdown] tags=["solution"]
r"""
`ray.wait(refs, num_returns=k)` finds the same k tasks in one call, but lists them in the order of `refs`.
A loop that does more than this one may fall behind the tasks, and then gets those that wait in any order.
The late tasks still run to their end; if that is a waste, `ray.cancel(ref)` stops them (chapter 5).
"""

# %% [markdown]
r"""
## A reference is an argument like any other

Pass a reference to `.remote()`, and Ray starts the task once the value exists; the task sees the *value*.
So you can write a whole graph of tasks in one go, and wait once, at the end.
"""

# %% tags=["demo"]
def add(a, b):
    """Return a + b, after a nap."""
    time.sleep(0.2)
    return a + b


add_task = ray.remote(add)
with recorded() as graph:
    nine, sixteen = slow_square_task.remote(3), slow_square_task.remote(4)
    total = ray.get(add_task.remote(nine, sixteen))
timeline(graph).set_title(f"{total} = 9 + 16");

# %% [markdown]
r"""
Three naps, but two rounds: the two squares ran side by side.
You never fetched them, yet they did pass through your notebook.
A small result comes back with the worker's reply, and Ray packs it into the message that launches the next task.
Large results take another route.
`made()` counts what goes into the object store:
"""

# %% tags=["demo"]
def blank(count):
    """Return `count` bytes."""
    return bytes(count)


def size(data):
    """Return the number of bytes."""
    return len(data)


blank_task, size_task = ray.remote(blank), ray.remote(size)
for count in (1_000, 1_000_000):
    with made() as copies:
        found = ray.get(size_task.remote(blank_task.remote(count)))
    print(f"{found:9,} bytes from task to task: {copies.megabytes:.1f} MB put into the store")

# %% [markdown]
r"""
The thousand bytes travelled with the messages.
The million went into the store: the second task read them there; they never came to your notebook.
Chapter 2 is about that store.

Adding up $n$ values in turn takes $n - 1$ additions in a row.
In a **tree**, neighbours are added side by side, so $\lceil \log_2 n \rceil$ rounds are enough: four for ten values.
With an odd number of values, the last has no neighbour and moves on to the next round unchanged.
Distributed training adds up gradients in trees like this one, or around a ring.

![Ten values are added in four rounds, each round in parallel](../img/ch01_tree.svg)
"""


# %%
def tree_sum(add, refs):
    """Return a reference to the total of the values behind `refs`, a list of at least one reference.

    They are added in pairs, by tasks made of `add(a, b)`. Returns before any value exists: there is no `ray.get` in here.
    """
    ### BEGIN SOLUTION
    add_task = ray.remote(add)
    while len(refs) > 1:
        pairs = [add_task.remote(a, b) for a, b in zip(refs[::2], refs[1::2], strict=False)]
        refs = pairs + refs[2 * len(pairs) :]
    return refs[0]
    ### END SOLUTION


# %%
check("tree_sum", tree_sum)

# %% [markdown] tags=["solution"]
r"""
`zip` stops at the shorter list, so an odd last reference is left over; the slice carries it into the next round.
The usual mistake is to forget it: the sum is then right for 2, 4, 8 and 16 values, and wrong for most others.
"""

# %% [markdown]
r"""
Try it on eight numbers.
`ray.put(x)` puts a value into the object store and returns a reference, which you pass on like a task's.
"""

# %% tags=["demo"]
if passed("tree_sum"):
    with recorded() as additions:
        total = ray.get(tree_sum(add, [ray.put(x) for x in range(8)]))
    timeline(additions).set_title(f"0 + 1 + … + 7 = {total}, in three rounds");

# %%
### BEGIN SOLUTION
reference_as_argument = "c"
### END SOLUTION

# %%
quiz("reference_as_argument", reference_as_argument)

# %% [markdown]
r"""
## Tasks start tasks

A task may launch tasks of its own and wait for them.
In the next cell, four parents take all four slots, and each launches two children that nap for 0.2 s.

**Predict:** does this end, and after how long?
"""

# %% tags=["demo"]
@ray.remote
def parent(x):
    """Return the sum of two squares, each computed by a child."""
    return sum(ray.get([slow_square_task.remote(x), slow_square_task.remote(x + 1)]))


start = time.perf_counter()
with recorded() as family:
    sums = ray.get([parent.remote(x) for x in range(4)])
print(f"{sums} in {time.perf_counter() - start:.2f} s")

# %% tags=["demo"]
timeline(family);

# %% [markdown]
r"""
It ends: while a parent waits in `ray.get`, Ray lends its slot to other tasks, so the children find room.
But Ray had to start more workers than it has slots, and a process takes a second or more to start, so you probably waited longer than two rounds of naps.
After a second or two without work Ray ends the extra workers, and the next run pays again.

Use nested tasks for work that splits as it proceeds, not for every loop.
Chapter 4 shows how they *can* lock up.
"""

# %% [markdown] tags=["notes"]
r"""
Half-time; a good moment for a break.
Ask what the room predicted for the nested example: most people expect a deadlock.
The parents' longer bars contain their children's.
"""

# %% [markdown]
r"""
## A task has a price, and you can measure it

For each task, Ray packs the arguments, finds a slot, sends a message to a worker, and sends the result back.
What does that cost *here*?
`square` does almost nothing, so nearly all its tasks' time is that price.

**Predict:** how many tasks a second can your machine run?
A hundred, a thousand, ten thousand?
"""

# %% tags=["demo"]
square_task, count = ray.remote(square), budget(2000, 500)  # 2000, or 500 where COURSEKIT_QUICK=1 is set
ray.get([square_task.remote(x) for x in range(100)])

start = time.perf_counter()
for x in range(count // 10):
    ray.get(square_task.remote(x))
one_by_one = (time.perf_counter() - start) / (count // 10)

start = time.perf_counter()
ray.get([square_task.remote(x) for x in range(count)])
together = (time.perf_counter() - start) / count
print(f"one at a time: {1e6 * one_by_one:.0f} µs each")
print(f"{count} together: {1e6 * together:.0f} µs each, {1 / together:.0f} tasks a second")

# %% [markdown]
r"""
One at a time, each task pays for the whole trip there and back; launched together, the trips overlap.

Ray's authors measured 1.8 million tasks a second (Moritz et al. 2018, section 5.1), on 100 large machines that all launched tasks.
You have one driver, on a machine that also runs the workers.
More machines that launch get more tasks done in a second, but a single task gets no cheaper.

You can also make a task more expensive than it need be.
Each `ray.remote(function)` is a new remote function: Ray pickles it, stores it in the GCS, and each worker that runs it has to fetch it.
So make it once, before the loop.
`compare_times` measures both ways in turn, several times, and says how sure it is of their ratio: the *interval* holds the true ratio in about 95 of 100 such measurements.
"""

# %% tags=["demo"]
calls = budget(200, 100)


def made_once():
    """Make the remote function once and call it often."""
    task = ray.remote(square)
    return ray.get([task.remote(x) for x in range(calls)])


def made_in_the_loop():
    """Make a remote function for every call: the mistake to avoid."""
    return ray.get([ray.remote(square).remote(x) for x in range(calls)])


display(compare_times({"made once": made_once, "made in the loop": made_in_the_loop}, repeats=budget(7, 5)))

# %% [markdown]
r"""
Even then, a task should be larger than its price.
The next cell runs naps of different lengths and compares the time with that of four ideal workers, which cost nothing.

**Predict:** from which length on is at least half of the time well spent?
"""

# %% tags=["demo"]
lengths_ms, efficiency = [0.3, 1, 3, 10, 30, 100], []
for length in lengths_ms:
    tasks = min(budget(1000, 250), max(8, int(budget(4000, 800) / length)))
    start = time.perf_counter()
    ray.get([slow_square_task.remote(0, length / 1000) for _ in range(tasks)])
    efficiency.append(tasks * length / 1000 / 4 / (time.perf_counter() - start))

# %% tags=["demo"]
figure, axes = plt.subplots(figsize=(7, 3.5), constrained_layout=True)
axes.semilogx(lengths_ms, efficiency, "o-", color="#2563eb")
axes.axhline(0.5, color="#94a3b8", linestyle="--")
axes.set_title("Small tasks drown in their own cost")
axes.set_xticks(lengths_ms, lengths_ms)
axes.set(xlabel="length of one task (ms)", ylabel="share of the ideal speed", ylim=(0, 1.05));

# %% [markdown]
r"""
Below the dashed line, most of the time is price.
The curve crosses it at *your* smallest sensible task; a few milliseconds is typical for a laptop.
If your natural unit of work is smaller, put many units into one task: a **batch**.
"""


# %%
def batched(function, xs, size):
    """Return [function(x) for x in xs], one task for each `size` inputs (the last may have fewer)."""
    ### BEGIN SOLUTION
    @ray.remote
    def run(batch):
        return [function(x) for x in batch]

    refs = [run.remote(xs[i : i + size]) for i in range(0, len(xs), size)]
    return [result for batch in ray.get(refs) for result in batch]
    ### END SOLUTION


# %%
check("batched", batched)

# %% [markdown]
r"""
How many times as long as batches of 50 does one task for each input take?
"""

# %% tags=["demo"]
if passed("batched") and passed("parallel_map"):
    xs = list(range(budget(1000, 300)))
    ways = {"batches of 50": lambda: batched(square, xs, 50), "one each": lambda: parallel_map(square, xs)}
    comparison = compare_times(ways, repeats=budget(10, 5))
    comparison.plot()
    display(comparison)

# %%
### BEGIN SOLUTION
tiny_tasks = "c"
### END SOLUTION

# %%
quiz("tiny_tasks", tiny_tasks)

# %% [markdown]
r"""
## Too many tasks at once are a flood

A loop can launch a million tasks before the first has ended.
They wait in a queue with their arguments, and may fill the memory long before the work is done.

The cure is **backpressure**: the program that launches work waits when too much is under way.
With `ray.wait` that takes a few lines: before you launch another task, count the unfinished ones; at `limit`, wait for *one*.

![With a limit of three, a new task is launched each time one ends](../img/ch01_window.svg)
"""


# %%
def bounded_map(function, xs, limit):
    """Return [function(x) for x in xs], one task each, never more than `limit` of them under way."""
    ### BEGIN SOLUTION
    task = ray.remote(function)
    refs, pending = [], []
    for x in xs:
        if len(pending) == limit:
            _, pending = ray.wait(pending, num_returns=1)
        refs.append(task.remote(x))
        pending.append(refs[-1])
    return ray.get(refs)
    ### END SOLUTION


# %%
check("bounded_map", bounded_map)

# %% [markdown] tags=["solution"]
r"""
You could also work in waves: launch `limit` tasks, get them all, launch the next `limit`.
That keeps the limit, but every wave waits for its slowest task.
The sliding window keeps `limit` tasks under way all the time.
"""

# %% tags=["demo"]
if passed("bounded_map"):
    with recorded() as window:
        bounded_map(slow_square, list(range(9)), limit=3)
    timeline(window).set_title("Four slots, but never more than three tasks");

# %% [markdown]
r"""
The window bounds the tasks under way, not the results.
A result stays in memory until the last reference to it is dropped; fetching it frees nothing.
A map that returns every value cannot drop any, so if results are large, use each as it arrives, and let its reference go.
"""

# %% [markdown]
r"""
## `multiprocessing` does some of this, without a cluster

Python comes with process pools, so give both the same job: $\pi$ from random points.
A point in the unit square lies inside the quarter circle with probability $\pi / 4$.

| | `multiprocessing` | Ray |
|---|---|---|
| Design | a pool of processes, fed through pipes | a scheduler and an object store on every node |
| Programming model | map a function over a list | tasks, actors, and references between them |
| Reach | one machine | one machine or a cluster, the same program |
| Large data | copied to every process, or shared by hand | shared on a node without a copy (chapter 2) |
| State | your own locks | actors (chapter 3) |
| A worker dies | a `Pool` starts another, but the task is lost, and `map` waits for it forever | tasks are retried; actors restart if you ask for it (chapter 5) |
| Built on it | PyTorch's `DataLoader`, Gymnasium's `AsyncVectorEnv` (chapter 7) | RLlib, Tune, Train, Data, Serve |

**Predict** the winner of each row the next cells measure: start-up, one call, calls a second, and real work.
"""

# %% tags=["demo"]
def seconds(action):
    """Return how long an action takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


calls, points, chunks = budget(2000, 500), budget(40_000_000, 8_000_000), 8
work = [(points // chunks, seed) for seed in range(chunks)]
pi_task = ray.remote(points_inside)
ray.get([pi_task.remote(*part) for part in work])  # warm up: each worker fetches the function once
ray_row = {
    "start-up and warm-up (s)": ray_start_seconds,
    "one call (µs)": 1e6 * one_by_one,
    "calls a second": 1 / together,
    "π (s)": seconds(lambda: ray.get([pi_task.remote(*part) for part in work])),
}

# %% tags=["demo"]
def pool_row():
    """Return the same measurements for a pool of four processes."""
    start = time.perf_counter()
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        pool.map(square, range(4))
        ready = time.perf_counter() - start
        return {
            "start-up and warm-up (s)": ready,
            "one call (µs)": 1e6 / 100 * seconds(lambda: [pool.apply(square, (1,)) for _ in range(100)]),
            "calls a second": calls / seconds(lambda: pool.map(square, range(calls), chunksize=1)),
            "π (s)": seconds(lambda: pool.starmap(points_inside, work, chunksize=1)),
        }


table = pandas.DataFrame({"multiprocessing": pool_row(), "Ray": ray_row}).round(2)
table

# %% [markdown]
r"""
The pool starts faster and its calls are cheaper: a pipe between two processes is simpler than a scheduler.
On real work the price of a call hardly matters, and the two are close.
On a busy machine a row can come out the other way round; run it twice.

On one machine, for a map over a list, a pool is enough.
Ray is worth its price when tasks depend on other tasks, data are large, state has to live somewhere, processes die, or one machine is too small.

Here is the same work in one process, without either:
"""

# %% tags=["demo"]
inside = []
one_process = seconds(lambda: inside.extend(points_inside(*part) for part in work))
print(f"π ≈ {4 * sum(inside) / points:.4f} from {points:,} points, on {os.cpu_count()} cores")
print(f"one process: {one_process:.2f} s, " + ", ".join(f"{way}: {took} s" for way, took in table.loc["π (s)"].items()))

# %% tags=["demo"]
ray.shutdown()

# %% [markdown]
r"""
## What you can do now

- You launch before you gather, and take results in the order of the list or as they get ready.
- You pass references from task to task and let Ray keep the order.
- You know what a task costs on your machine, and how large it must be to be worth it.
- You keep the number of tasks under way below a limit.

## Traps

- **`ray.get` in the loop** that launches: the tasks run in turn, without a warning.
- **`ray.remote(f)` in the loop**: Ray exports a new function for every call.
- **The first tasks** also start their workers.
  Warm up before you measure.
- **`ray.wait` keeps the order of its argument**, even with `num_returns=k`.
- **Tiny tasks** are slower than a loop.
  Batch them.
- **Naps are not work.** On four slots, eight naps take the time of two, even on one core.
  Eight computations take as long as your cores need.
- **An interrupt (■)** ends your cell, but not the tasks that the cell launched.
  They go on, and the tasks of your next cell wait until there is room; `ray.cancel(ref)` or a restart of the kernel ends them.
- **After a restart of the kernel**, no name is left.
  Choose *Run All Above Selected Cell* in the *Run* menu, and go on where you were.

## Read on

- [Chapter 2](ch02_objects.ipynb): where results live, and how they are shared without a copy.
- Ray's documentation: [tasks](https://docs.ray.io/en/latest/ray-core/tasks.html) and [anti-patterns](https://docs.ray.io/en/latest/ray-core/patterns/index.html), among them `ray.get` in a loop and tasks that are too small.
- [Old names](../docs/old_names.md): what older code calls things, and what they are called today.
- Moritz et al., [*Ray*](https://arxiv.org/abs/1712.05889), 2018, section 5.1.
"""
