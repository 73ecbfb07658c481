# %% [markdown] you_learn_to="launch, gather, and measure tasks"
r"""
# Chapter 1 · Tasks

Each call to a remote function is a task, and tasks run in parallel.

*About 100 minutes · builds on [Chapter 0](ch00_start.ipynb)*

**What you will be able to do**

- launch tasks, and gather their results in the order you want;
- build a graph of tasks by passing references;
- measure what a task costs, and choose a task size that's worth the cost;
- limit how many tasks are in flight;
- decide when Python's own `multiprocessing` is enough.
"""

# %%
import multiprocessing
import os
import time

import matplotlib.pyplot as plt
import pandas
import ray

from coursekit import begin, budget, check, compare_times, explain, hint, measured, passed, predict, progress, puzzle
from coursekit import quiz, recorded, review, solution, timeline, warm_up
from coursekit.given.ch01_tasks import points_inside, slow_square, square
from coursekit.given.object_store import made

begin("ch01_tasks")

# %%
ray.shutdown()  # stops a Ray instance that's already running here: its references and actors are gone
started = time.perf_counter()
ray.init(num_cpus=4, include_dashboard=False)
warm_up(4)  # starts the four worker processes now, so that the first tasks don't have to wait for them
ray_start_seconds = time.perf_counter() - started

# %% [markdown] tags=["notes"]
r"""
The run sheet allots a hundred minutes, with `tree_sum` and `bounded_map` as homework.
Have everyone run the two cells above before you start talking: `ray.init` takes about ten seconds on a small laptop.
"""

# %% [markdown]
r"""
## A task is a function call that runs in another process

`slow_square(x)` sleeps for 0.2 s and returns $x^2$.
The sleep stands for work but needs no CPU time, so you'll see about the same times on every machine.

`ray.remote` turns a function into a [remote function](../docs/glossary.md#remote-function).
Calling its `.remote(...)` method launches a [task](../docs/glossary.md#task) and returns an [object reference](../docs/glossary.md#object-reference) at once.
`ray.get(ref)` waits for the task and returns its result.

![The driver launches a task and holds a reference; a small result comes back in the worker's reply, and a large one goes into the object store](../img/ch01_references.svg)

A result of up to about 100 kB comes back in the worker's reply.
A larger one goes into the object store of the worker's node, and `ray.get` reads it there, or copies it first if the driver is on another node.
"""

# %% tags=["demo"]
slow_square_task = ray.remote(slow_square)
ray.get(slow_square_task.remote(1))  # not measured, because the first call also sends the function to a worker

start = time.perf_counter()
ref = slow_square_task.remote(7)
launched = time.perf_counter()
value = ray.get(ref)
ended = time.perf_counter()
print(ref)
print(f"launch {1000 * (launched - start):.1f} ms, ray.get {1000 * (ended - launched):.1f} ms, value {value}")

# %% [markdown]
r"""
The printed reference encodes the task, its job (the first `01000000`), and which of the task's results it stands for (the second `01000000`).

On an idle machine, the launch takes a millisecond or less, and `ray.get` waits for the rest of the 200 ms.
In between, your program is free to launch more tasks.

You'll also see `@ray.remote` written above a function.
The function's name then stands for the remote function, and calling it without `.remote` raises a `TypeError`.
`ray.remote(function)` leaves the function as it was, so you can still call it, and this course mostly uses that form.

Your turn: write `as_task`, which launches a task that runs `function(x)`, and returns a reference to the result without waiting.
If `as_task` does wait, the check takes 20 s.
"""


# %%
def as_task(function, x):
    """Return a reference to the result of function(x), which runs in a Ray task."""
    ### BEGIN SOLUTION
    return ray.remote(function).remote(x)
    ### END SOLUTION


# %%
check("as_task", as_task)

# %% [markdown] tags=["solution"]
r"""
For a single call, it's fine to make the remote function on the spot.
If you call a function often, make its remote function once and keep it; you'll measure the difference below.
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

The classic mistake with Ray is a `ray.get` in the wrong place.
Below, two programs run eight tasks of 0.2 s on four workers.
The first one calls `ray.get` in the loop that launches the tasks, and the second one calls it after the loop.

**Predict:** how many seconds does the second program take?
"""

# %% tags=["demo"]
predict("launch_first", ...)  # seconds

# %% tags=["demo"]
start = time.perf_counter()
with recorded() as waits_in_the_loop:
    for x in range(8):
        ray.get(slow_square_task.remote(x))
print(f"ray.get in the loop: {time.perf_counter() - start:.2f} s")

# %% tags=["demo"]
ray.get([slow_square_task.remote(x) for x in range(8)])  # warm-up: each worker fetches the function

start = time.perf_counter()
with recorded() as launches_first:
    refs = [slow_square_task.remote(x) for x in range(8)]
    ray.get(refs)
seconds = time.perf_counter() - start
print(f"launch all, then ray.get: {seconds:.2f} s")
measured("launch_first", seconds)

# %% tags=["demo"]
figure, (above, below) = plt.subplots(2, figsize=(9, 5), sharex=True, constrained_layout=True)
timeline(waits_in_the_loop, ax=above).set(title="ray.get in the loop", xlabel="");
timeline(launches_first, ax=below).set_title("launch all, then ray.get");

# %% [markdown]
r"""
In the upper plot, each task starts only after the program has fetched the previous result.
That's eight sleeps in a row, or 1.6 s, and a single worker would have been enough.
In the lower plot, the program launches all eight tasks before it waits, so they take two rounds, or 0.4 s.
Only the `ray.get` has moved.

Write that pattern as a function, `parallel_map`.
It runs `function(x)` in a separate task for each `x` in `xs`, and returns a list of the results in the order of `xs`.
In the check, the first call waits up to 20 s for the last one to start, so checking a wrong answer may take that long.
"""


# %%
def parallel_map(function, xs):
    """Return [function(x) for x in xs], with each call in a task of its own.

    Launch all tasks before you wait for the first one.
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
It's also fine to call `ray.get` in a loop over references that *already exist*, because all of the tasks have been launched by then.
The mistake is to launch a task and wait for it in the same iteration of the loop.
"""

# %%
### BEGIN SOLUTION
order_of_get = "b"
### END SOLUTION

# %%
quiz("order_of_get", order_of_get)

# %% [markdown]
r"""
## `ray.wait` returns references as they become ready

Often, you can continue as soon as the first result is ready.
`ray.wait(refs, num_returns=1)` waits until one reference is ready, and returns two lists: the ready reference and the others.

The tasks below sleep for 0.4, 0.1, 0.3, and 0.2 s.
"""

# %% tags=["demo"]
pending = [slow_square_task.remote(x, seconds=x / 10) for x in (4, 1, 3, 2)]
while pending:
    ready, pending = ray.wait(pending, num_returns=1)
    print(ray.get(ready[0]), f"and {len(pending)} still pending")

# %% [markdown]
r"""
The shortest sleep comes first.
You get results in the order in which the tasks end, as long as your loop is faster than the tasks.
If several references are ready, Ray doesn't guarantee which of them `ray.wait` returns.
Each of the two lists keeps the order of the list that *you passed*.

Asynchronous reinforcement learning depends on this pattern: the learner takes experience from any worker that has some, and doesn't wait for the slowest one.

Write `first_k`, which calls `function(x)` in a task for each `x` in `xs`, and returns as soon as it has `k` results.
It returns them in the order in which the calls end, and leaves the other calls running.
There are at least `k` inputs, and `k` is at least 1.
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
`ray.wait(refs, num_returns=k)` also finds the first k results, and in a single call, but it lists them in the order of `refs`.
A loop that does more work than this one may fall behind the tasks; several results are then ready at once, and the loop gets them in no particular order.

The other tasks run to completion.
If that's a waste, cancel them: `ray.cancel(ref)` stops a running task when the task next executes Python code, so it can't interrupt a long sleep or a wait for a socket.
`ray.cancel(ref, force=True)` kills the task's process instead (Chapter 5).
"""

# %% [markdown]
r"""
## If you pass a reference to a task, the task receives the value

If you pass a reference to `.remote()`, Ray starts the task once the value exists, and the function receives the *value*.
So you can launch a whole [graph of tasks](../docs/glossary.md#task-graph) at once, and wait only at the end.
"""

# %% tags=["demo"]
def add(a, b):
    """Return a + b, after a sleep."""
    time.sleep(0.2)
    return a + b


add_task = ray.remote(add)
with recorded() as graph:
    nine, sixteen = slow_square_task.remote(3), slow_square_task.remote(4)
    total = ray.get(add_task.remote(nine, sixteen))
timeline(graph).set_title(f"{total} = 9 + 16");

# %% [markdown]
r"""
Three sleeps took only two rounds, because the two squares ran side by side.
You never fetched the squares, yet they did pass through your notebook's process: they came back in the workers' replies, and Ray packed them into the message that launched the addition.
Large results take another route, as `made()` shows by counting what goes into the object store:
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
The thousand bytes traveled in the messages.
The million bytes went into the store (Chapter 2), where the second task read them.

Adding up $n$ values one after the other takes $n - 1$ additions in a row.
In a [tree](../docs/glossary.md#tree-reduction), neighbors are added in parallel, so $\lceil \log_2 n \rceil$ rounds are enough: four rounds for ten values.
If there's an odd number of values, the last one has no partner and moves on to the next round unchanged.
Distributed training adds up gradients in trees like this one, or around a ring.

![Ten values are added by a tree of tasks in four rounds](../img/ch01_tree.svg)

Write `tree_sum`, which launches such a tree and returns a reference to the total.
It takes a function `add(a, b)`, which the tasks run, and `refs`, a list of at least one reference to a value.
It returns before any value exists, so don't call `ray.get` in it.
"""


# %%
def tree_sum(add, refs):
    """Return a reference to the total of the values behind `refs`, a list of at least one reference.

    Tasks that run `add(a, b)` add the values in pairs. Return before any value exists, so don't call `ray.get` here.
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
`zip` stops at the end of the shorter list, so it leaves out the last of an odd number of references.
The slice carries that reference into the next round.
If you forget it, the total is right for 2, 4, 8, and 16 values, but wrong for every number that isn't a power of two.
"""

# %% [markdown]
r"""
Try `tree_sum` on eight numbers.
`ray.put(x)` puts a value into the object store and returns a reference to it.
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
## A task can launch tasks of its own

A task may launch [nested tasks](../docs/glossary.md#nested-task) and wait for them.
Below, four parents occupy all four CPUs, and each one waits for two children that sleep for 0.2 s.

**Predict:** do the parents ever finish?
"""

# %% tags=["demo"]
predict("nested", ..., ["they finish", "they never finish"])

# %% tags=["demo"]
@ray.remote
def parent(x):
    """Return the sum of two squares, each computed by a child."""
    return sum(ray.get([slow_square_task.remote(x), slow_square_task.remote(x + 1)]))


start = time.perf_counter()
with recorded() as family:
    sums = ray.get([parent.remote(x) for x in range(4)])
print(f"{sums} in {time.perf_counter() - start:.2f} s")
measured("nested", "they finish")

# %% tags=["demo"]
timeline(family);

# %% [markdown]
r"""
They finish, because Ray releases a parent's CPU while the parent waits in `ray.get`, so the children can run.
But the parents still occupy their processes, so Ray had to start extra workers for the children.
A process takes a second or more to start, so you probably waited longer than the 0.4 s of two rounds.
Ray stops the extra workers once they've been idle for a few seconds.

Use nested tasks for work that splits up as it proceeds, not for every loop.
Chapter 4 shows how they *can* deadlock.
"""

# %% [markdown] tags=["notes"]
r"""
You're halfway through the chapter, and this is a good moment for a break.
Ask what people predicted for the nested tasks: many expect a deadlock.
In the timeline, the parents' longer bars contain those of their children.
"""

# %% [markdown]
r"""
## Every task has an overhead that you can measure

For each task, Ray packs the arguments, finds a free CPU, sends a message to a worker, and sends back the result.
How large is this [overhead](../docs/glossary.md#overhead) on *your* machine?
`square` does almost nothing, so nearly all of the time that its tasks take is overhead.

**Predict:** how many `square` tasks can your machine run per second: a hundred, a thousand, or ten thousand?
"""

# %% tags=["demo"]
predict("tasks_per_second", ...)  # tasks per second

# %% tags=["demo"]
square_task, count = ray.remote(square), budget(2000, 500)  # 2000, or 500 if COURSEKIT_QUICK=1 is set
ray.get([square_task.remote(x) for x in range(100)])

start = time.perf_counter()
for x in range(count // 10):
    ray.get(square_task.remote(x))
one_by_one = (time.perf_counter() - start) / (count // 10)

start = time.perf_counter()
ray.get([square_task.remote(x) for x in range(count)])
together = (time.perf_counter() - start) / count
print(f"one at a time: {1e6 * one_by_one:.0f} µs each")
print(f"{count} together: {1e6 * together:.0f} µs each, {1 / together:.0f} tasks per second")
measured("tasks_per_second", 1 / together)

# %% [markdown]
r"""
If you run tasks one at a time, each one takes a whole round trip.
If you launch them together, the round trips overlap.

Ray's authors measured 1.8 million tasks per second on 100 machines (Moritz et al. 2018, section 5.1).
Your setup is smaller: it has one driver, which shares its machine with the workers.
If processes on many machines launch tasks, more tasks run per second, but a single task doesn't get any cheaper.

You can also make tasks more expensive than they need to be.
Each call to `ray.remote(function)` makes a new remote function, which Ray pickles and stores in the GCS, the cluster's control service, and which each worker has to fetch.
So make it once, before the loop.
`compare_times` alternates between the two ways of doing it, and reports the ratio of their times with a 95% confidence interval.
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
Even if you make the remote function only once, each task should do enough work to be worth its overhead.
The next cell runs tasks that sleep for 0.3 to 100 ms, and compares their speed with that of four ideal workers without overhead.

**Predict:** how many milliseconds must each task last for the workers to reach half of that speed?
"""

# %% tags=["demo"]
predict("long_enough", ...)  # milliseconds

# %% tags=["demo"]
lengths_ms, efficiency = [0.3, 1, 3, 10, 30, 100], []
for length in lengths_ms:
    tasks = min(budget(1000, 250), max(8, int(budget(4000, 800) / length)))
    start = time.perf_counter()
    ray.get([slow_square_task.remote(0, length / 1000) for _ in range(tasks)])
    efficiency.append(tasks * length / 1000 / 4 / (time.perf_counter() - start))
long_enough = [length for length, found in zip(lengths_ms, efficiency, strict=True) if found >= 0.5]
measured("long_enough", min(long_enough, default=100))

# %% tags=["demo"]
figure, axes = plt.subplots(figsize=(7, 3.5), constrained_layout=True)
axes.semilogx(lengths_ms, efficiency, "o-", color="#2563eb")
axes.axhline(0.5, color="#94a3b8", linestyle="--")
axes.set_title("Short tasks spend most of their time on overhead")
axes.set_xticks(lengths_ms, lengths_ms)
axes.set(xlabel="length of one task (ms)", ylabel="fraction of the ideal speed", ylim=(0, 1.05));

# %% [markdown]
r"""
Below the dashed line, overhead takes up more than half of the time.
On your machine, the shortest task that makes sense is about as long as the first point above the line.
If your natural unit of work is shorter, put many units into one task: a **batch**.

Write `batched`, a `parallel_map` with up to `size` inputs per task, and no more tasks than that takes.
"""


# %%
def batched(function, xs, size):
    """Return [function(x) for x in xs], with at most `size` inputs in a task, and no more tasks than that takes."""
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
How much faster are batches of 50 than one task per input?
"""

# %% tags=["demo"]
if passed("batched") and passed("parallel_map"):
    xs = list(range(budget(1000, 300)))
    ways = {"batches of 50": lambda: batched(square, xs, 50), "one task per input": lambda: parallel_map(square, xs)}
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
## Backpressure limits how many tasks are in flight

A loop can launch a million tasks before the first one has ended.
They wait in a queue with their arguments, and may fill the memory long before the work is done.

The remedy is [backpressure](../docs/glossary.md#backpressure): the program waits while too many tasks are [in flight](../docs/glossary.md#in-flight), which means launched but not finished.
With `ray.wait`, that takes a few lines: if there are `limit` tasks in flight, wait for any *one* to end before you launch another.

![With a limit of three, a new task is launched each time one ends](../img/ch01_window.svg)

Write `bounded_map`, a `parallel_map` with at most `limit` tasks in flight.
"""


# %%
def bounded_map(function, xs, limit):
    """Return [function(x) for x in xs], with each call in a task of its own and never more than `limit` tasks in flight.

    Once the limit is reached, launch the next task as soon as any other one ends.
    """
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
You could also work in waves: launch `limit` tasks, get all of their results, and launch the next `limit`.
That respects the limit, but every wave waits for its slowest task.
The sliding window keeps `limit` tasks in flight until the inputs run out.
"""

# %% tags=["demo"]
if passed("bounded_map"):
    with recorded() as window:
        bounded_map(slow_square, list(range(9)), limit=3)
    timeline(window).set_title("Four CPUs, but never more than three tasks at a time");

# %% [markdown]
r"""
The limit applies to the tasks in flight, not to the results.
Ray keeps a result until the last reference to it is gone, even after you've fetched it.
So if results are large, use each one as it arrives, and drop its reference, instead of collecting them all.
"""

# %% [markdown]
r"""
## On one machine, a process pool may be enough

Python's `multiprocessing` module has [process pools](../docs/glossary.md#process-pool), so let's give a pool and Ray the same job: estimate $\pi$ from random points.
A point in the unit square lies inside the quarter circle with probability $\pi / 4$.

| | `multiprocessing` | Ray |
|---|---|---|
| Design | a pool of processes fed through pipes | a scheduler and an object store on every node |
| Programming model | map a function over a list | tasks, actors, and references between them |
| Synchronous or asynchronous | `map` waits; `map_async` doesn't | `.remote()` doesn't wait; `ray.get` does |
| Reach | one machine | one machine or a cluster, with the same program |
| Large data | copied to every process, or shared by hand | shared on a node without a copy (Chapter 2) |
| State | shared by hand, with locks | actors (Chapter 3) |
| A worker dies | the pool starts another, but the lost task isn't run again, and `map` waits forever | tasks are retried; actors restart if configured (Chapter 5) |
| Built on it | PyTorch's `DataLoader`, Gymnasium's `AsyncVectorEnv` | RLlib, Tune, Train, Data, Serve |

The next cell measures Ray; a later one measures the same things for the pool.
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
ray.get([pi_task.remote(*part) for part in work])  # warm-up: each worker fetches the function once
ray_row = {
    "start-up and warm-up (s)": ray_start_seconds,
    "one call (µs)": 1e6 * one_by_one,
    "calls per second": 1 / together,
    "π (s)": seconds(lambda: ray.get([pi_task.remote(*part) for part in work])),
}

# %% [markdown]
r"""
**Predict:** which one needs less time for a single call, a pool or Ray?
"""

# %% tags=["demo"]
predict("faster_call", ..., ["multiprocessing", "Ray"])

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
            "calls per second": calls / seconds(lambda: pool.map(square, range(calls), chunksize=1)),
            "π (s)": seconds(lambda: pool.starmap(points_inside, work, chunksize=1)),
        }


table = pandas.DataFrame({"multiprocessing": pool_row(), "Ray": ray_row}).round(2)
display(table)
measured("faster_call", table.loc["one call (µs)"].idxmin())

# %% [markdown]
r"""
Usually, the pool starts faster and its calls cost less, because a pipe between two processes is simpler than a scheduler.
For real work, the overhead hardly matters, and both take about the same time.

On one machine, a pool is enough to map a function over a list.
Ray is worth its overhead if tasks depend on other tasks, the data is large, state must outlast a call, processes may die, or one machine is too small.

Here is the same work in a single process:
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

- You can launch tasks first, and gather their results in order or as they become ready.
- You can build a graph of tasks by passing references.
- You can measure what a task costs, and batch work that's too small for a task.
- You can limit the tasks in flight, and decide whether a process pool is enough.

## Traps

- **`ray.get` in the loop that launches**: the tasks run one after the other, without a warning.
- **`ray.remote(f)` in a loop**: Ray exports a new function for every call.
- **The first tasks** also start their workers, so warm up before you measure.
- **A sleep isn't work.** With `num_cpus=4`, eight sleeps take only two rounds, even on one core.
  Eight computations take as long as your cores need for them.
- **An interrupt (■)** ends your cell, but not the tasks that it launched.
  They keep running, and the tasks of your next cell wait until CPUs are free.
  `ray.cancel(ref, force=True)` kills a task's process, and a restart of the kernel ends all tasks.
- **After a restart of the kernel**, your variables are gone.
  To bring them back, choose *Run All Above Selected Cell* in the *Run* menu.

## Read on

- [Chapter 2](ch02_objects.ipynb): where results are stored, and how processes share them without a copy.
- Ray's documentation: [tasks](https://docs.ray.io/en/latest/ray-core/tasks.html) and [anti-patterns](https://docs.ray.io/en/latest/ray-core/patterns/index.html).
- [Old names](../docs/old_names.md): what older code calls things.
- Moritz et al., [*Ray*](https://arxiv.org/abs/1712.05889), 2018, section 5.1.
"""
