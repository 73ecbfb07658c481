# %% [markdown] you_learn_to="launch, gather, and measure tasks"
r"""
# Chapter 1 · Functions become tasks

*About 110 minutes · builds on [Chapter 0](ch00_start.ipynb)*

**What you will be able to do**

- turn a function into a task, launch many, and gather their results in the order that you want;
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

from coursekit import begin, budget, check, compare_times, hint, passed, progress, quiz, recorded, solution, timeline, warm_up
from coursekit.given.ch01_tasks import points_inside, slow_square, square

begin("ch01_tasks")

# %%
started = time.perf_counter()
ray.init(num_cpus=4, include_dashboard=False)
warm_up(4)  # each of the four workers is a process that has to start: the first tasks would wait for that
ray_start_seconds = time.perf_counter() - started

# %% [markdown] tags=["notes"]
r"""
A hundred and ten minutes with all six exercises; seventy when `tree_sum` and `bounded_map` are left as homework.
Let everybody run the two cells above before you begin to speak: `ray.init` takes ten seconds on a small laptop.
"""

# %% [markdown]
r"""
## A task is a function that runs elsewhere

`slow_square(x)` naps for 0.2 s and returns $x^2$ (`seconds=` makes the nap longer or shorter).
The nap stands for work, so that this chapter shows the same on every machine: a nap needs no core.
`ray.remote` makes a task of a function; `.remote(...)` launches it, and returns an **object reference** at once.
The result itself is put into the object store by the worker that computed it.

![The driver launches a task and holds a reference; a worker runs it and puts the result into the object store; ray.get brings the value](../img/ch01_references.svg)

**Predict:** how long does the call with `.remote` take, and how long the `ray.get` after it?
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
The launch takes a few milliseconds at most, and the wait takes the 200 ms of the nap.
Between the two lines your program is free to do something else: to launch more.

People also write `@ray.remote` above a function.
That makes the name a task for good: it can only be called with `.remote`.
The form `ray.remote(function)` leaves the function as it is, so this course mostly uses that one.

Your turn.
`as_task` launches and returns; somebody else will wait.
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
`ray.remote(function)` is worth keeping when a function is launched often: each new one is pickled and sent to the cluster again.
Chapter 2 measures that.
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
Both cells below time eight tasks on four workers.

**Predict** the seconds of each before you run them.
(One nap is 0.2 s; chapter 0 has the formula.)
The first line of the second cell is a warm-up: the first time a function runs, Ray has to send it to the workers.
"""

# %% tags=["demo"]
start = time.perf_counter()
with recorded() as waits_in_the_loop:
    for x in range(8):
        ray.get(slow_square_task.remote(x))
print(f"get in the loop: {time.perf_counter() - start:.2f} s")

# %% tags=["demo"]
ray.get([slow_square_task.remote(x) for x in range(8)])  # warm-up

start = time.perf_counter()
with recorded() as launches_first:
    refs = [slow_square_task.remote(x) for x in range(8)]
    ray.get(refs)
print(f"launch, then get: {time.perf_counter() - start:.2f} s")

# %% tags=["demo"]
figure, (above, below) = plt.subplots(2, figsize=(9, 5), sharex=True, constrained_layout=True)
timeline(waits_in_the_loop, ax=above).set_title("get in the loop");
timeline(launches_first, ax=below).set_title("launch, then get");

# %% [markdown]
r"""
In the first picture a task starts when the one before has been fetched: one worker would do.
In the second, all eight are on their way before anybody waits.
Same tasks, same workers; only `ray.get` has moved.

Write it so that it holds for any function.
The check hands it two calls that wait for each other, for 20 s at most: when they never run at the same time, you wait that long for the verdict.
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
`ray.get` in a list comprehension over *references that exist already* is fine too: nothing is launched late.
It is the `.remote()` and the `ray.get` in one breath that makes a program wait.
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

Some tasks take longer than others, and often you can go on with the first.
`ray.wait(refs, num_returns=1)` waits until one is ready, and returns two lists: ready, and not ready.

**Predict:** the tasks below nap for 0.4, 0.1, 0.3 and 0.2 s.
In which order are their results printed?
"""

# %% tags=["demo"]
pending = [slow_square_task.remote(x, seconds=x / 10) for x in (4, 1, 3, 2)]
while pending:
    ready, pending = ray.wait(pending, num_returns=1)
    print(ray.get(ready[0]), f"and {len(pending)} still pending")

# %% [markdown]
r"""
The shortest nap first: the order of the ends, not of the launches.
(Both lists that `ray.wait` returns keep the order of *its argument*.)
Reinforcement learning lives on this: a learner takes the experience of whichever worker has some, and does not wait for the slowest.
"""


# %%
def first_k(function, xs, k):
    """Return the results of the k calls function(x) that end first, in the order in which they end."""
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
The tasks that came too late still run to their end; `ray.cancel(ref)` stops them where that is worth the trouble (chapter 5).
"""

# %% [markdown]
r"""
## A reference is an argument like any other

Pass a reference to `.remote()`, and the task sees the *value*.
Ray starts it once the value exists.
So you can write a whole graph of tasks in one go, and wait once, at the end.

**Predict:** three naps of 0.2 s follow here, two side by side and one that needs both.
How long in all?
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
Two rounds, not three; and the squares never came to your notebook: `add` got them from the object store.

Adding up $n$ values one after the other takes $n - 1$ additions in a row.
In a **tree**, neighbours are added side by side, so $\lceil \log_2 n \rceil$ rounds are enough: four for ten values.
With an odd number, one has no neighbour and moves on to the next round as it is.
Distributed learning adds gradients this way.

![Ten values are added in four rounds, each round in parallel](../img/ch01_tree.svg)
"""


# %%
def tree_sum(add, refs):
    """Return a reference to the total of the values behind `refs`.

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
Forgetting it is the usual mistake: the sum is then right for 2, 4, 8 and 16 values, and wrong for most others.
"""

# %% [markdown]
r"""
Try it on eight numbers.
`ray.put(x)` puts a value into the object store and returns a reference to it, as if a task had made it.
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
While it waits in `ray.get`, Ray lends its slot to others, so the children find room even when every slot is taken by a parent.

**Predict:** four parents on four slots, each with two children that nap 0.2 s.
Does this end?
How long does it take?
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
It ends, because a waiting parent gives its slot away.
But Ray had to start more workers than it has slots, and a new process takes a second or more, so it probably took longer than two rounds of naps.
(Ray ends workers beyond the number of slots when they have nothing to do, so the next run pays again.)
Nested tasks are for work that splits as it goes, not for every loop.
(Chapter 4 shows how they *can* lock up.)
"""

# %% [markdown] tags=["notes"]
r"""
Half-time; a good moment for a break.
Ask who predicted the nested example: most expect a deadlock.
The longer bars of the parents contain the bars of their children.
"""

# %% [markdown]
r"""
## A task has a price, and you can measure it

A task does not run for free: its arguments are packed, a slot is found, a worker gets a message, the result is stored.
What does that cost *here*?
`square` does nearly nothing, so its time as a task is all price.

**Predict:** how many tasks a second can your machine run?
A hundred, a thousand, ten thousand?
"""

# %% tags=["demo"]
square_task, count = ray.remote(square), budget(2000, 500)
ray.get([square_task.remote(x) for x in range(100)])

start = time.perf_counter()
for x in range(count // 10):
    ray.get(square_task.remote(x))
one_by_one = (time.perf_counter() - start) / (count // 10)

start = time.perf_counter()
ray.get([square_task.remote(x) for x in range(count)])
together = (time.perf_counter() - start) / count
print(f"one at a time: {1e6 * one_by_one:.0f} µs each")
print(f"{count} at once: {1e6 * together:.0f} µs each, {1 / together:.0f} tasks a second")

# %% [markdown]
r"""
One at a time you pay the whole way there and back; launched together, the trips overlap.

The authors of Ray measured 1.8 million tasks a second (Moritz et al. 2018, section 5.1).
That was a cluster of 100 large machines, each with its own raylet, and tasks launched from everywhere.
Your number is one driver on one machine that also runs the workers.
What scales is the number of nodes, not the price of one task.

So a task should be larger than its price.
The next cell runs naps of different lengths, many of the short and few of the long ones, and compares the time with that of four perfect workers, which cost nothing.

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
Below the dashed line most of the time is price.
Where the curve crosses it is *your* smallest sensible task; a few milliseconds is typical for a laptop.
When the natural unit of work is smaller, put many units into one task: a **batch**.
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
**Predict:** how many times faster are batches of 50 than one task each?
`compare_times` measures both in turn, several times, and says how sure this machine is of the ratio: the *interval* holds the true ratio in about 95 of 100 such measurements.
"""

# %% tags=["demo"]
if passed("batched") and passed("parallel_map"):
    xs = list(range(budget(1000, 300)))
    ways = {"one each": lambda: parallel_map(square, xs), "batches of 50": lambda: batched(square, xs, 50)}
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

Launching is so cheap that a loop can launch a million tasks before the first has ended.
Each one waits in a queue with its arguments, and each result waits in the object store until you fetch it.
Memory fills up long before the work is done.

The cure is called **backpressure**: whoever produces work waits when too much is under way.
With `ray.wait` that takes a few lines: before you launch another task, see how many are unfinished; if there are `limit`, wait for *one*.

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
Working in waves (launch `limit`, get all, launch the next `limit`) also keeps the limit, but every wave waits for its slowest task.
The sliding window keeps `limit` tasks under way all the time.
"""

# %% tags=["demo"]
if passed("bounded_map"):
    with recorded() as window:
        bounded_map(slow_square, list(range(9)), limit=3)
    timeline(window).set_title("Four slots, but never more than three tasks");

# %% [markdown]
r"""
## `multiprocessing` does some of this, without a cluster

Python comes with process pools.
Here is the same job on both: $\pi$ from random points.
A point of the unit square lies inside the quarter circle with probability $\pi / 4$.

| | `multiprocessing` | Ray |
|---|---|---|
| Design | a pool of processes, fed through pipes | a scheduler and an object store on every node |
| Programming model | map a function over a list | tasks, actors, and references between them |
| Reach | one machine | one machine or a cluster, the same program |
| Large data | copied to every process, or shared by hand | shared on a node without a copy (chapter 2) |
| State | your own locks and managers | actors (chapter 3) |
| A worker dies | a `Pool` hangs or loses the task | tasks are retried, actors restarted (chapter 5) |
| Built on it | – | RLlib, Tune, Train, Data, Serve |

**Predict** which one wins each row: start-up, a single call, calls a second, and real work.
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
ray_row = {
    "start-up (s)": ray_start_seconds,
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
            "start-up (s)": ready,
            "one call (µs)": 1e4 * seconds(lambda: [pool.apply(square, (1,)) for _ in range(100)]),
            "calls a second": calls / seconds(lambda: pool.map(square, range(calls), chunksize=1)),
            "π (s)": seconds(lambda: pool.starmap(points_inside, work, chunksize=1)),
        }


pandas.DataFrame({"multiprocessing": pool_row(), "Ray": ray_row}).round(2)

# %% [markdown]
r"""
The pool starts faster and its calls are cheaper: a pipe between two processes is simpler than a scheduler.
On real work the two are close, because then the price of a call hardly matters.
(A busy machine can turn a row: run it twice.)
So on one machine, for a map over a list, a pool is enough.
Ray earns its price when work depends on work, when data is large, when state must live somewhere, when something dies, and when one machine is too small.
"""

# %% tags=["demo"]
one_process = seconds(lambda: [points_inside(*part) for part in work])
inside = sum(ray.get([pi_task.remote(*part) for part in work]))
print(f"one process: {one_process:.2f} s; four of them cannot be faster than your cores allow")
print(f"π ≈ {4 * inside / points:.4f} from {points:,} points, on {os.cpu_count()} cores")

# %% tags=["demo"]
ray.shutdown()

# %% [markdown]
r"""
> **You may have seen**, in older code, `ray.init(num_cpus=4, redis_max_memory=…)`, `@ray.remote(num_return_vals=2)` or `ray.wait(refs, num_returns=1, timeout=10000)` with milliseconds.
> Today there is no Redis to size, the option is `num_returns=2`, and a time-out is in seconds.
"""

# %% [markdown]
r"""
## What you can do now

- You launch before you gather, and take results in the order of the list or of their ends.
- You pass references on and let Ray keep the order.
- You know what a task costs on your machine, and how large it must be to be worth it.
- You keep the number of tasks under way below a limit.

## Traps

- **`ray.get` in the loop** that launches: the tasks run one after the other, and nothing complains.
- **The first tasks** also start their workers.
  Warm up before you measure.
- **`ray.wait` keeps the order of its argument**, also with `num_returns=k`.
- **Tiny tasks** are slower than a loop.
  Batch them.
- **Naps are not work.** Eight naps take the time of two on four slots, even on one core.
  Eight computations do not.

## Read on

- [Chapter 2](ch02_objects.ipynb): where results live, and how they are shared without a copy.
- Ray's documentation: [tasks](https://docs.ray.io/en/latest/ray-core/tasks.html) and [anti-patterns](https://docs.ray.io/en/latest/ray-core/patterns/index.html), among them `ray.get` in a loop and too fine-grained tasks.
- Moritz et al., [*Ray*](https://arxiv.org/abs/1712.05889), 2018, section 5.1: 1.8 million tasks a second, and how.
"""
