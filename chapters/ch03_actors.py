# %% [markdown] you_learn_to="keep state, lose no update, build a parameter server"
r"""
# Chapter 3 · Actors

An actor is an object that stays in a worker process, so it keeps its state between calls.

*About 120 minutes · builds on [Chapter 1](ch01_tasks.ipynb) and [Chapter 2](ch02_objects.ipynb)*

**What you will be able to do**

- turn a class into an actor, and share it among tasks;
- find and fix lost updates, outside an actor and inside one;
- find what can't be pickled, and repair a program whose tasks change a global;
- measure whether more actors help;
- write an async actor that collects calls into batches;
- train a model with a parameter server, where no worker waits for another;
- keep a pool of actors busy, and find an actor by its name.
"""

# %%
import asyncio
import io
import multiprocessing
import os
import time

import matplotlib.pyplot as plt
import numpy as np
import pandas
import ray
from ray.util import ActorPool, inspect_serializability

from coursekit import begin, budget, check, explain, hint, measured, passed, predict, progress, puzzle, quiz, recorded
from coursekit import review, solution
from coursekit import actors, timeline, track, warm_up
from coursekit.given.ch03_actors import Player, Simulator, add_ones, bumpy, compute, draw_training
from coursekit.given.ch03_actors import linear_data, pay, slope, span, squares

pandas.options.display.max_colwidth = None  # tables show whole sentences
begin("ch03_actors")

# %%
ray.shutdown()  # stops a Ray instance that's already running here: its references and actors are gone
ray.init(num_cpus=4, include_dashboard=False, namespace="course")  # the namespace is for the last section
warm_up(4)

# %% [markdown] tags=["notes"]
r"""
The run sheet allots two hours, with `Batcher` as homework.
Nothing in this chapter builds on the sections about threads, pools, and names.
Have everyone run the two cells above while you talk.
Ask who has ever used a lock: those people will enjoy the section about lost updates.
"""

# %% [markdown]
r"""
## An actor keeps its state in a worker process

A task keeps nothing when it ends.
But a simulator has state, a replay buffer has contents, and a model has weights.
For those, Ray has the [**actor**](../docs/glossary.md#actor), an object with its own worker process.

`ray.remote(Class)` turns a class into an actor class.
Call `.remote(...)` on that, and Ray starts a process, or takes an idle worker, and creates the object there.
You get a [**handle**](../docs/glossary.md#actor-handle) right away, before the process has started.
To call a method, write `handle.method.remote(...)`, which returns a reference, just as with a task.
"""


# %% tags=["demo"]
class Counter:
    """Counts from a starting value."""

    def __init__(self, start):
        self.total = start

    def add(self, amount):
        """Return the total after adding an amount."""
        self.total += amount
        return self.total


counter = ray.remote(Counter).remote(100)  # the handle; the object itself is in another process
refs = [counter.add.remote(amount) for amount in (1, 2, 3)]
print(refs[0])
print(ray.get(refs))

# %% [markdown]
r"""
The totals are 101, 103, and 106, because all three calls reached the same object.
The actor runs **one call at a time**, and it runs the calls of one caller **in the order in which they were sent**.
So no call sees a half-finished change, and the sum is right without a lock.

![The notebook and a task hold handles of one actor. Each caller's calls wait in a queue; the actor runs one call at a time](../img/ch03_actor.svg)

Actors with threads or `async` methods give up this order, as you'll see below.
A call that Ray retries (Chapter 5) may run after calls that were sent later.

As with tasks, you'll also see `@ray.remote` above the class.
Then `Counter` is the actor class, and `Counter.remote(100)` creates the actor.

The next cell shows Ray's records of its actors, drops the handle, and shows the records again.
"""

# %% tags=["demo"]
columns = ["class_name", "state", "pid", "death"]
display(pandas.DataFrame(actors())[columns])
del counter, refs  # the only handle, and the references to its results
time.sleep(1)
pandas.DataFrame(actors())[columns]

# %% [markdown]
r"""
When the last handle is gone, Ray stops the actor: its process exits, and its state is lost.
You don't have to close anything, but nothing is saved either.
In a terminal, `ray list actors` shows the same records (Chapter 6).

Now write `count_up`, which creates one actor, calls `add(amount)` on it for each of the amounts, and returns a list of the results.
The first argument of `count_up` is the actor's class, which is like `Counter`, except that `__init__` takes no arguments.
Send all calls before you wait for the first result.

In this chapter, the checks make calls wait for one another, so checking a wrong answer may take 20 to 40 seconds.
"""


# %%
def count_up(Counter, amounts):
    """Return a list of what `add(amount)` returns for each of the amounts, all on one actor of the class Counter.

    Send all calls before you wait for the first result.
    """
    ### BEGIN SOLUTION
    counter = ray.remote(Counter).remote()
    refs = [counter.add.remote(amount) for amount in amounts]
    return ray.get(refs)
    ### END SOLUTION


# %%
check("count_up", count_up)

# %% [markdown] tags=["solution"]
r"""
There are two common mistakes.
With `ray.remote(Counter).remote()` inside the loop, every call gets a new actor, so for five amounts, you have five processes and five totals that start at 0.
With `ray.get` inside the loop, the totals are right, but the caller waits for each call before it sends the next.
"""

# %%
### BEGIN SOLUTION
order_of_calls = "b"
### END SOLUTION

# %%
quiz("order_of_calls", order_of_calls)

# %% [markdown]
r"""
## A single call to an actor is safe, but a sequence of calls can lose updates

You can pass a handle to a task like any other argument, and then the task can call the same actor.
That's how tasks share state.

In the next cells, four customers pay into one account at the same time.
For each payment, a customer reads the balance, calls `pay(balance, 1)`, and writes the result back.
`pay` takes 20 ms and returns the balance plus 1.

**Predict:** the balance is 0 at first, and each of the four customers makes ten payments of 1.
What is the final balance?
"""

# %% tags=["demo"]
predict("final_balance", ...)  # the balance after 40 payments


# %% tags=["demo"]
@ray.remote
class Account:
    """Keeps a balance that others read and write."""

    def __init__(self, balance):
        self.balance = balance

    def read(self):
        """Return the balance."""
        return self.balance

    def write(self, balance):
        """Replace the balance."""
        self.balance = balance


# %% tags=["demo"]
@ray.remote
def customer(account, payments):
    """Pay in 1, `payments` times."""
    for _ in range(payments):
        balance = ray.get(account.read.remote())
        balance = pay(balance, 1)
        ray.get(account.write.remote(balance))


account = Account.remote(0)
ray.get([customer.remote(account, 10) for _ in range(4)])
balance = ray.get(account.read.remote())
print(f"After 40 payments of 1, the balance is {balance}, so {40 - balance} payments are lost.")
measured("final_balance", balance)

# %% [markdown]
r"""
If you said 40, remember that every call is safe, but a payment takes *three* steps: read, add, and write.
Between one customer's read and write, others read the same old balance, and the last customer to write overwrites what the others wrote.
Most payments were lost in this way, which is called a [**lost update**](../docs/glossary.md#lost-update).

![Top: two customers read 5, and both write 6, so one payment is lost. Bottom: both send "add 1" to the account, and the balance is 7](../img/ch03_lost_update.svg)

Instead of fetching the state, changing it, and sending it back, **send the change**, and let the actor apply it in a single call.

Write `bank`, which returns the balance after all of the amounts have been paid in, starting from `balance`.
One actor, the account, keeps the balance, and each amount is paid in by a task, the customer.
All customers run at the same time, and each one ends only when its payment has been booked.
`pay_in(balance, amount)` returns the new balance.
A balance doesn't have to be a number: the check uses a list of receipts.
"""


# %%
def bank(pay_in, balance, amounts):
    """Return the balance after all amounts have been paid in, starting from `balance`.

    One actor, the account, keeps the balance. Each amount is paid in by a task, the customer,
    which ends only when its payment has been booked. All customers run at the same time.
    """

    ### BEGIN SOLUTION
    @ray.remote
    class Account:
        def __init__(self):
            self.balance = balance

        def book(self, amount):
            self.balance = pay_in(self.balance, amount)

        def read(self):
            return self.balance

    @ray.remote
    def customer(account, amount):
        ray.get(account.book.remote(amount))

    account = Account.remote()
    ray.get([customer.remote(account, amount) for amount in amounts])
    return ray.get(account.read.remote())
    ### END SOLUTION


# %%
check("bank", bank)

# %% [markdown] tags=["solution"]
r"""
The `ray.get` in `customer` matters.
Without it, a customer ends before its payment has been booked.
Calls from different callers have no order, so `read` may overtake a payment.
No payment is lost then, but you read the balance too early.

You can also send functions.
An actor with a method `update(function)` that does `self.balance = function(self.balance)` can apply any change.
"""

# %%
### BEGIN SOLUTION
why_updates_are_lost = "a"
### END SOLUTION

# %%
quiz("why_updates_are_lost", why_updates_are_lost)

# %% [markdown]
r"""
## A lock can't be pickled, and a task changes only its own copy of a global

Two errors that almost everyone meets with Ray have the same cause: a task works on **copies**.
Ray pickles a task's arguments, and it pickles a notebook's function together with the globals that the function uses.
The worker unpickles all of that in its own process.
A function that you import is pickled only as a name: the worker imports its module, so it has separate globals, too.

Here is a colleague's program, which was right as long as everything ran in one process.
"""


# %% tags=["demo"]
scores = {}  # a global


def broken(make_player, seeds):
    """Return the scores by seed, says our colleague."""
    player = make_player()

    @ray.remote
    def game(seed):
        scores[seed] = player.play(seed)

    ray.get([game.remote(seed) for seed in seeds])
    return scores


try:
    broken(Player, [1, 2, 3])
except TypeError as error:
    print("TypeError:", str(error).splitlines()[0])  # a long report follows; more on that below

# %% [markdown]
r"""
Ray can't pickle the function `game`, and it says so before any task starts.
`game` looks harmless, but it uses `player`, which contains something that can't be pickled.
`ray.util.inspect_serializability` names the culprit:
"""

# %% tags=["demo"]
fine, culprits = inspect_serializability(Player(), name="player", print_file=io.StringIO())  # prints no report here
print("can be pickled:", fine)
print("culprits:", [".".join(culprit.path) for culprit in culprits])

# %% [markdown]
r"""
A lock guards the memory of one process, so a copy of it elsewhere would guard nothing.
Open files, database connections, threads, and generators can't be pickled either.
Instead of sending such an object, **create it where you need it**: in the task, or in the `__init__` of an actor that uses it for many calls.

With that fixed, the program runs, but it returns the wrong result.

**Predict:** three games run as tasks, and each writes its score into the global `scores`.
What does `scores` in your notebook hold afterward?
"""

# %% tags=["demo"]
predict("scores_here", ..., ["three scores", "one score", "nothing"])


# %% tags=["demo"]
@ray.remote
def game_with_new_player(seed):
    """Play with a player that this task creates, and write the score into a global."""
    scores[seed] = Player().play(seed)
    return len(scores)


print("sizes of the workers' dicts:", ray.get([game_with_new_player.remote(seed) for seed in (1, 2, 3)]))
print("this process has:", scores)
measured("scores_here", ["nothing", "one score", "two scores", "three scores"][len(scores)])

# %% [markdown]
r"""
Each score went into a worker's dict, and yours is still empty.
What about the other direction?
Here, a task uses the global `bonus`, and your notebook changes `bonus` between two calls:
"""

# %% tags=["demo"]
bonus = 1
add_bonus = ray.remote(lambda score: score + bonus)
print("with a bonus of 1:", ray.get(add_bonus.remote(0)))
bonus = 100
print("with a bonus of 100:", ray.get(add_bonus.remote(0)))

# %% [markdown]
r"""
Ray pickles a function once, at its first `.remote()`, so the workers keep the `bonus` of that moment.
Neither mistake raises an error.

So send values in as **arguments**, bring them back as **results**, and put what many tasks change into an actor.
Now fix your colleague's program, which sends a lock, and whose tasks write into a global.
Write `tournament`, which returns the scores of this tournament as a dict with the seeds as keys.
The score of a seed is `make_player().play(seed)`, and `make_player` can be pickled, although a player can't.
The games run at the same time, and none of them runs in your notebook's process.
"""


# %%
def tournament(make_player, seeds):
    """Return the scores of this tournament as a dict {seed: score}.

    The score of a seed is make_player().play(seed). A player can't be pickled, but `make_player` can.
    No game runs in this process, and games run at the same time.
    """

    ### BEGIN SOLUTION
    @ray.remote
    def game(seed):
        return make_player().play(seed)

    refs = [game.remote(seed) for seed in seeds]
    return dict(zip(seeds, ray.get(refs), strict=True))
    ### END SOLUTION


# %%
check("tournament", tournament)

# %% [markdown] tags=["solution"]
r"""
If a player takes a long time to create, let two or three actors keep one each, created in `__init__`.
If `make_player` is a class, as `Player` is, `ray.remote(make_player).remote()` turns the player itself into an actor.

If you wrote the class, you can also make it picklable: `__getstate__` returns the attributes without the lock, and `__setstate__` creates a new lock.
"""

# %% [markdown]
r"""
## An actor replaces a number in shared memory

Without Ray, the processes of a machine can share a number through `multiprocessing.Value`, a few bytes of shared memory.
In the next cell, two processes add 1 to it 20,000 times each.
`Value` comes with a lock, so is `total.value += 1` safe?
"""

# %% tags=["demo"]
context = multiprocessing.get_context("spawn")
for locked in (False, True):
    total, start = context.Value("i", 0), context.Barrier(2)  # at the barrier, each process waits for the other
    adders = [context.Process(target=add_ones, args=(total, 20_000, locked, start)) for _ in range(2)]
    for adder in adders:
        adder.start()
    for adder in adders:
        adder.join()
    print(f"{'with' if locked else 'without'} get_lock(): {total.value:,} of 40,000")

# %% [markdown]
r"""
It's the same mistake again: `+=` reads, adds, and writes.
There is a lock, but your code must take it.

An actor can hold any object, and it can be called from every node of a cluster.
It needs no lock, because it runs one call at a time.
Now write `BestSoFar`, the class of an actor that keeps the best result so far, together with the weights that reached it (older programs call such a class `GlobalVar`).
Scores can be negative, because in many environments every reward is a penalty.

- `offer(score, found)` returns whether the score is higher than all scores before it.
  If it is, the actor keeps it together with `found`, which can be any object, even `None`.
- `best()` returns `(score, found)` of the best offer so far, or `None` if there hasn't been an offer.
"""


# %%
class BestSoFar:
    """Keeps the highest score offered so far, and what was found with it: any object, even None."""

    def __init__(self):
        """Start with nothing."""
        ### BEGIN SOLUTION
        self.kept = None
        ### END SOLUTION

    def offer(self, score, found):
        """Return whether the score is higher than all scores before it; if it is, keep it together with `found`."""
        ### BEGIN SOLUTION
        better = self.kept is None or score > self.kept[0]
        if better:
            self.kept = (score, found)
        return better
        ### END SOLUTION

    def best(self):
        """Return (score, found) of the best offer so far, or None if there hasn't been an offer."""
        ### BEGIN SOLUTION
        return self.kept
        ### END SOLUTION


# %%
check("BestSoFar", BestSoFar)

# %% [markdown] tags=["solution"]
r"""
The classic mistake is a best score that starts at 0: in Pendulum, where no reward is above 0, no score ever beats it.
`-math.inf` works, too, but then `best()` needs a special case for "no offer yet".

If `__init__` raises an exception, or is still a stub, you notice it late.
You get a handle right away, and only the first *call* raises `ActorDiedError`, with the cause at the end of its message.
"""

# %% [markdown]
r"""
Now four searchers try random points in a hilly landscape, and they share one `BestSoFar`.
The highest point, at $(2, -1)$, has a height of $-1$.
"""


# %% tags=["demo"]
@ray.remote
def search(best, tries, seed):
    """Return how many of `tries` random points were higher than everything before them."""
    rng, records = np.random.default_rng(seed), 0
    for x, y in rng.uniform(-5, 5, size=(tries, 2)):
        records += ray.get(best.offer.remote(bumpy(x, y), (x, y)))
    return records


if passed("BestSoFar"):
    best, tries = ray.remote(BestSoFar).remote(), budget(1000, 100)
    records = ray.get([search.remote(best, tries, seed) for seed in range(4)])
    score, (x, y) = ray.get(best.best.remote())
    print(f"best of {4 * tries} offers: {score:.2f} at ({x:.2f}, {y:.2f})")
    print(f"new records, by searcher: {records}")
    del best

# %% [markdown]
r"""
Of hundreds of offers, only a handful were records, so nearly all calls changed nothing.
A searcher could offer only what beats its own best score.
Whether that's worth the trouble depends on what a call costs.
"""

# %% [markdown]
r"""
## An actor call costs less than a task and far more than a method call

`Counter.add` does almost no work, so nearly all the time of a call is overhead.
The next cell compares an actor call with a call to an ordinary object and with a task.
"""


# %% tags=["demo"]
@ray.remote
def add_in_a_task(amount):
    """Return the amount plus 1."""
    return amount + 1


def microseconds(action, count):
    """Return the time per repetition when `action(count)` repeats something `count` times."""
    start = time.perf_counter()
    action(count)
    return 1e6 * (time.perf_counter() - start) / count


# %% tags=["demo"]
here, counter, calls = Counter(0), ray.remote(Counter).remote(0), budget(4000, 400)
ray.get([function.remote(0) for function in (counter.add, add_in_a_task) for _ in range(100)])  # warm-up
costs = {
    "object, one by one": microseconds(lambda n: [here.add(1) for _ in range(n)], 100 * calls),
    "actor, one by one": microseconds(lambda n: [ray.get(counter.add.remote(1)) for _ in range(n)], calls // 5),
    "actor, sent together": microseconds(lambda n: ray.get([counter.add.remote(1) for _ in range(n)]), calls),
    "task, one by one": microseconds(lambda n: [ray.get(add_in_a_task.remote(1)) for _ in range(n)], calls // 5),
    "task, sent together": microseconds(lambda n: ray.get([add_in_a_task.remote(1) for _ in range(n)]), calls),
}
del counter
per_second = {name: round(1e6 / cost) for name, cost in costs.items()}
pandas.DataFrame({"µs per call": costs, "calls per second": per_second}).round(2)

# %% [markdown]
r"""
A call to another process costs thousands of times as much as a method call, because a message goes out and another comes back.
If you send calls together, these round trips overlap.

An actor call goes straight to the actor's process, while a task first needs a worker.
But a worker, once assigned, gets many tasks in a row, so the costs of a task and an actor call usually differ by at most a factor of two or three.

If a whole program calls one actor, that actor becomes the bottleneck, however many nodes you have.
Send fewer, larger calls, or let several actors share the work.
But how many actors?
"""

# %% [markdown]
r"""
## More actors than cores help only if the actors wait

This section compares two kinds of work that take equally long.
`compute` adds up squares and keeps a core busy.
`wait` sleeps, like an actor that waits for a disk, a robot, or a simulator on another machine.
The same calls go to one, two, four, and eight actors, five times over, which takes most of a minute.

**Predict:** at `compute`, how many times as fast as one actor are eight actors?
Look at `os.cpu_count()` before you answer, and guess for `wait`, too.
"""

# %% tags=["demo"]
predict("eight_computing", ...)  # times as fast as one actor


# %% tags=["demo"]
@ray.remote
class Worker:
    """Does two kinds of work."""

    def compute(self, rounds):
        """Keep a core busy."""
        return compute(rounds)

    def wait(self, seconds):
        """Sleep."""
        time.sleep(seconds)


workers = [Worker.remote() for _ in range(8)]
ray.get([worker.compute.remote(1) for worker in workers]);  # all eight processes have started

# %% tags=["demo"]
rounds = 100_000


def compute_often(times):
    """Let one actor compute."""
    ray.get([workers[0].compute.remote(rounds) for _ in range(times)])


seconds_each = min(microseconds(compute_often, 10) for _ in range(6)) / 1e6  # other programs can only make it slower
print(f"one call of compute: {1000 * seconds_each:.1f} ms, on {os.cpu_count()} cores")

# %% tags=["demo"]
kinds = {"compute": rounds, "wait": seconds_each}
numbers, calls = [1, 2, 4, 8], budget(240, 48)
rates = {kind: dict.fromkeys(numbers, 0.0) for kind in kinds}  # the best of several rounds


def calls_per_second(kind, number):
    """Return how many calls per second `number` actors handle together."""
    methods = [getattr(worker, kind) for worker in workers[:number]]
    start = time.perf_counter()
    ray.get([methods[i % number].remote(kinds[kind]) for i in range(calls)])
    return calls / (time.perf_counter() - start)


for _ in track(range(budget(5, 2)), "rounds"):
    for number in numbers:
        for kind in kinds:
            rates[kind][number] = max(rates[kind][number], calls_per_second(kind, number))
display(pandas.DataFrame(rates).rename_axis("actors").round().astype(int))
measured("eight_computing", rates["compute"][8] / rates["compute"][1])

# %% tags=["demo"]
figure, axes = plt.subplots(figsize=(7, 3.6), constrained_layout=True)
for kind, color in [("wait", "#7c3aed"), ("compute", "#d97706")]:
    times = [rates[kind][number] / rates[kind][1] for number in numbers]
    axes.plot(numbers, times, "o-", color=color, label=kind)
axes.plot(numbers, numbers, ":", color="#94a3b8", label="n times as fast")
axes.axvline(os.cpu_count(), color="#94a3b8", linestyle="--")
axes.text(os.cpu_count(), 7.4, " os.cpu_count()", color="#64748b")
axes.set(xlabel="actors", ylabel="speedup over one actor")
axes.set_title("Computing actors are limited by your cores; waiting actors aren't")
axes.set_xticks(numbers)
axes.legend();

# %% tags=["demo"]
for worker in workers:
    ray.kill(worker)  # stops the actor right away, even if there are other handles
del workers, worker

# %% [markdown]
r"""
The `compute` curve rises until all your cores are busy, and then it flattens.
It may even fall, because eight processes on two cores get in each other's way.

The `wait` curve rises far beyond your number of cores, because a sleeping process needs no core.
In the end, it flattens, too, because each call has overhead, and the notebook can send only a few thousand calls per second.

`os.cpu_count()` counts hardware threads, often two per core, and ignores the CPU limit of a container, so `compute` often bends before the dashed line.

Ray started eight actors on four CPUs, because a running actor reserves no CPU by default.
With `num_cpus=`, it reserves that many for as long as it runs.
If you request a GPU or a custom resource instead, even `num_gpus=0`, it reserves one CPU (Chapter 4).
So by default, nothing keeps you from starting too many.
Each takes tens of megabytes of memory, even when idle, and up to about a second to start.

On a cluster, too, start as many computing actors as there are cores, or as many waiting actors as it takes to keep the cores busy.
In Chapter 8, you'll measure which kind your simulator is.
"""

# %%
### BEGIN SOLUTION
how_many_actors = "b"
### END SOLUTION

# %%
quiz("how_many_actors", how_many_actors)

# %% [markdown] tags=["notes"]
r"""
This is the halfway point.
Compare the curves of several people: a laptop with eight cores, one with two, and a shared server.
Each `compute` curve bends at a different place, and on the shared server it may not bend at all.
The most frequent question is "So why `num_cpus=4`?"
The answer: it's Ray's resource accounting, and it adds no core.
"""

# %% [markdown]
r"""
## An async actor runs many waiting calls at the same time

Eight processes that only wait are a waste of memory.
An [**async actor**](../docs/glossary.md#async-actor) waits for many things in one process.
If a method is an `async def`, Ray runs up to 1,000 calls at the same time, in one thread.

That thread runs the *event loop* of Python's `asyncio`.
The loop runs one call until that call has to wait at an `await`, and then it runs another.
Once the awaited result has arrived, the first call can continue.

A call lets others run *only* where it awaits something.
The two classes below differ in one line.

**Predict:** eight calls are sent together, and each takes 0.2 s.
How long do all eight take with `time.sleep(0.2)`?
And how long with `await asyncio.sleep(0.2)`?
"""

# %% tags=["demo"]
predict("eight_blocking_calls", ...)  # seconds, with time.sleep


# %% tags=["demo"]
@ray.remote
class Blocking:
    """Waits, and keeps all other calls out."""

    async def answer(self):
        """Return when this call started and ended."""
        start = time.time()
        time.sleep(0.2)
        return span("time.sleep(0.2)", start)


@ray.remote
class Awaiting:
    """Waits, and lets other calls run meanwhile."""

    async def answer(self):
        """Return when this call started and ended."""
        start = time.time()
        await asyncio.sleep(0.2)
        return span("await asyncio.sleep(0.2)", start)


# %% tags=["demo"]
figure, places = plt.subplots(2, figsize=(9, 4.4), sharex=True, constrained_layout=True)
seconds = {}
for cls, axes in zip([Blocking, Awaiting], places, strict=True):
    actor = cls.remote()
    ray.get(actor.answer.remote())  # it has started
    spans = ray.get([actor.answer.remote() for _ in range(8)])
    timeline(spans, ax=axes)
    seconds[cls] = max(each["ended"] for each in spans) - min(each["started"] for each in spans)
    del actor
measured("eight_blocking_calls", seconds[Blocking])

# %% [markdown]
r"""
In the upper plot, the calls run one after the other and take eight times 0.2 s, although the method is an `async def`.
In the lower plot, all eight together take about 0.2 s.

A blocked event loop raises no error; the actor is just slow.
`time.sleep`, `requests.get`, `ray.get` (write `await ref` instead), and every long computation block it.
Even an `await` lets no other call run if there is nothing to wait for, as with a future that already has its result.
"""

# %%
### BEGIN SOLUTION
blocked_loop = "b"
### END SOLUTION

# %%
quiz("blocked_loop", blocked_loop)

# %% [markdown]
r"""
While a call awaits something, other calls can change the object.
Here, each of a hundred calls adds 1, with an `await` between reading and writing:
"""


# %% tags=["demo"]
@ray.remote
class Purse:
    """Adds up, and awaits something in between."""

    def __init__(self):
        self.total = 0

    async def add(self, amount):
        """Return the total after adding an amount."""
        total = self.total
        await asyncio.sleep(0.01)  # say, for a database
        self.total = total + amount
        return self.total


purse = Purse.remote()
totals = ray.get([purse.add.remote(1) for _ in range(100)])
print(f"after 100 payments of 1, the purse holds {max(totals)}")
del purse

# %% [markdown]
r"""
These are lost updates again, this time *inside* the actor: read, `await`, write.
With `self.total += amount` after the `await`, nothing would be lost, because no other call runs between two `await`s.
"""

# %% [markdown]
r"""
## An async actor can turn many small requests into a few large batches

On a GPU, a small network often takes about as long for thirty-two inputs as for one.
So a policy server collects the calls that arrive, runs the network once, and returns to each caller the answer to its own input.
Here you build the core of that; in Chapter 18, Ray Serve does it.

The tool is a *future*: one call waits for it, and another gives it a result.

- `asyncio.get_running_loop().create_future()` creates a future, and `future.set_result(answer)` gives it a result.
- `future.done()` says whether it has a result, and `future.result()` returns the result.
- `await asyncio.wait([future], timeout=seconds)` waits for the result, but no longer than the timeout.
  It raises no exception when the time is up, so check `future.done()`.
  `asyncio.wait_for` looks simpler, but it *cancels* the future when the time is up, and then `flush` can't set a result.

`flush` is already written: it answers all calls in `self.waiting`, a list of pairs `(x, future)`, with a single call to the model.
Write `predict`, which returns the model's answer to `x`.
It flushes as soon as `size` calls are waiting, or when one of them has waited for `patience` seconds, but not before.
"""


# %%
class Batcher:
    """Collects calls, and answers up to `size` of them with a single call to the model."""

    def __init__(self, model, size, patience):
        self.model, self.size, self.patience = model, size, patience
        self.waiting = []  # a pair (x, future) for each call that has no answer yet

    def flush(self):
        """Answer all waiting calls; `model` takes the list of their inputs and returns the list of answers."""
        batch, self.waiting = self.waiting, []
        answers = self.model([x for x, _ in batch]) if batch else []
        for (_, future), answer in zip(batch, answers, strict=True):
            future.set_result(answer)

    async def predict(self, x):
        """Return the model's answer to x.

        Flush as soon as `size` calls are waiting, or when one of them has waited for `patience` seconds,
        but not before.
        """
        ### BEGIN SOLUTION
        future = asyncio.get_running_loop().create_future()
        self.waiting.append((x, future))
        if len(self.waiting) == self.size:
            self.flush()
        await asyncio.wait([future], timeout=self.patience)
        if not future.done():
            self.flush()
        return future.result()
        ### END SOLUTION


# %%
check("Batcher", Batcher)

# %% [markdown] tags=["solution"]
r"""
No other call can run between `append` and `flush`, because there is no `await` between them.
After the `await`, newer calls may have arrived.
Suppose a call then flushes without checking `future.done()`, or flushes because of a timer that nobody canceled.
It answers those newer calls too early, in a batch that is too small.

The model itself blocks the event loop while it computes.
That does no harm here, because `flush` couldn't answer another batch until the model is free anyway.
If you want to avoid it, `await asyncio.to_thread(self.model, inputs)` computes in a thread, but then `flush` contains an `await`, where other calls can run.
"""

# %% [markdown]
r"""
`squares` stands for a network on a GPU: a call takes 50 ms, no matter how large the batch is.
"""

# %% tags=["demo"]
if passed("Batcher"):
    batcher_actor = ray.remote(Batcher)
    for size in (1, 16):
        batcher = batcher_actor.remote(squares, size, 0.1)
        ray.get(batcher.predict.remote(0))
        start = time.perf_counter()
        answers = ray.get([batcher.predict.remote(x) for x in range(32)])
        assert answers == [x * x for x in range(32)]
        print(f"batches of {size:2}: {time.perf_counter() - start:.2f} s for 32 calls")
    del batcher

# %% [markdown]
r"""
## With threads, an actor can answer while it works

A method that computes for minutes keeps every other call waiting, even one that only asks whether the actor is alive.
Ordinary methods can run in threads: with `.options(max_concurrency=4)`, any four calls can run at the same time.
A [**concurrency group**](../docs/glossary.md#concurrency-group) reserves threads for certain methods.

Below, two trainers get a `ping` while they train for a second.
"""


# %% tags=["demo"]
class Trainer:
    """Takes a long time to train."""

    def train(self):
        """Train for a second."""
        time.sleep(1)

    def ping(self):
        """Return a sign of life."""
        return "alive"


class TrainerWithAGroup(Trainer):
    """Takes a long time to train, and can answer meanwhile."""

    @ray.method(concurrency_group="health")
    def ping(self):
        """Return a sign of life."""
        return "alive"


# %% tags=["demo"]
with_group = ray.remote(concurrency_groups={"health": 1})(TrainerWithAGroup)  # one more thread, for "health" only
for name, actor_class in {"Trainer": ray.remote(Trainer), "TrainerWithAGroup": with_group}.items():
    trainer = actor_class.remote()
    ray.get(trainer.ping.remote())  # it has started
    work, start = trainer.train.remote(), time.perf_counter()
    print(f"{name}: {ray.get(trainer.ping.remote())} after {time.perf_counter() - start:.2f} s")
    ray.get(work)
del trainer, work

# %% [markdown]
r"""
This comes at a cost: two methods can now use the object at the same time, so the actor no longer protects its state.
`ping` changes nothing, so nothing can go wrong.
Methods that change something need a `threading.Lock`, or must share a group that has one thread.

The order is gone, too: an actor with threads, or with `async` methods, may run a call before one that the same caller sent earlier.
And since the threads of a process take turns running Python code, you need more actors to compute faster.
"""

# %% [markdown]
r"""
## With a parameter server, no worker waits for another

In distributed learning, an actor called the [**parameter server**](../docs/glossary.md#parameter-server) can hold the weights of the model.
Each worker has a part of the data, a [**shard**](../docs/glossary.md#shard), and repeats three steps: get the weights, compute the gradient on its shard, and send the *gradient* $g$.
The server applies it to the weights $w$:

$$w \leftarrow w - \text{rate} \cdot g$$

![Three workers get weights from a parameter server and send gradients, which the server applies as they arrive](../img/ch03_parameter_server.svg)

No worker waits for another, so this is called [**asynchronous SGD**](../docs/glossary.md#asynchronous-sgd).
While one worker computes, others change the weights, so its gradient comes from weights that are a little old: it is [**stale**](../docs/glossary.md#stale-gradient).
The path to the solution usually gets noisier, but a slow worker doesn't hold up the others.

Don't update the *weights* in each worker and send those back: you know what gets lost then.

The server below is complete.
Write `async_sgd`, which starts it with `weights`, starts one worker for each shard, and returns the weights after each worker has taken `steps` steps.
A worker is a task or an actor, and `gradient(weights, shard)` computes its gradient.
The workers run at the same time, and each one ends only when all its gradients have been applied.
"""


# %%
@ray.remote
class ParameterServer:
    """Holds the weights of a model."""

    def __init__(self, weights, rate):
        self.weights, self.rate = np.array(weights), rate

    def get(self):
        """Return the weights."""
        return self.weights

    def apply(self, gradient):
        """Take one step of gradient descent."""
        self.weights = self.weights - self.rate * gradient


def async_sgd(gradient, weights, shards, steps, rate):
    """Return the weights after one worker for each shard has taken `steps` steps, starting from `weights`.

    A worker is a task or an actor, and `gradient(weights, shard)` computes its gradient. The workers run at
    the same time, and no worker waits for another. A worker ends only when all its gradients have been applied.
    """

    ### BEGIN SOLUTION
    @ray.remote
    def work(server, shard):
        for _ in range(steps):
            current = ray.get(server.get.remote())
            ray.get(server.apply.remote(gradient(current, shard)))

    server = ParameterServer.remote(weights, rate)
    ray.get([work.remote(server, shard) for shard in shards])
    return ray.get(server.get.remote())
    ### END SOLUTION


# %%
check("async_sgd", async_sgd)

# %% [markdown] tags=["solution"]
r"""
`np.array(weights)` in `__init__` makes a copy on purpose.
An array that an actor receives is read-only (Chapter 2), so `self.weights -= …` would raise an error without the copy.

`work` could leave out the `ray.get` around every `apply` but the last.
The calls of one caller keep their order, so the worker's next `get` already sees the worker's own gradient.
A worker could even request the next weights before it computes its gradient, so that they arrive in time.
Then its gradients are staler by one step.
"""

# %% [markdown]
r"""
Three workers now fit a linear model with three weights to data that were made with known weights plus a little noise.
`slope`, the gradient, takes 0.1 ms per row of a shard, and the first shard has four times as many rows as each of the others.
"""

# %% tags=["demo"]
if passed("async_sgd"):
    shards, truth = linear_data([400, 100, 100])
    for steps in budget((1, 5, 25, 50), (1, 25)):
        with recorded() as training:
            fitted = async_sgd(slope, np.zeros(3), shards, steps, rate=0.05)
        print(f"{steps:2} steps each: the largest error of a weight is {np.abs(fitted - truth).max():.3f}")

# %% tags=["demo"]
if passed("async_sgd"):
    draw_training(training).set_title(f"{steps} steps of three workers and the parameter server")

# %% [markdown]
r"""
The fast workers finished their steps while the slow one was still working.
The short bars are calls to the server, which is idle most of the time.

The error falls fast, but not to 0, because the data are noisy and the last steps all come from one shard.
Real programs let all workers run for a fixed time, or shuffle the data.
"""

# %% [markdown]
r"""
## `ActorPool` keeps actors busy, unless you ask for the results in order

An [**actor pool**](../docs/glossary.md#actor-pool) such as `ray.util.ActorPool` gives the next input to whichever actor is free.
`pool.map` returns results in the order of the inputs, and `pool.map_unordered` returns them as they become available.
Both take a function `f(actor, input)` that returns a reference.

**Predict:** three simulators run eight episodes.
The first takes 0.9 s, and the others take 0.2, 0.1, 0.2, 0.1, 0.2, 0.2, and 0.1 s.
How long does `pool.map` take?
Sketch the timeline first.
"""

# %% tags=["demo"]
predict("pool_map", ...)  # seconds

# %% tags=["demo"]
simulator_actor = ray.remote(Simulator)
simulators = [simulator_actor.remote() for _ in range(3)]
ray.get([simulator.run.remote(0) for simulator in simulators])
episodes = [9, 2, 1, 2, 1, 2, 2, 1]  # tenths of a second

figure, places = plt.subplots(2, figsize=(9, 4.4), sharex=True, constrained_layout=True)
seconds = {}
for way, axes in zip(["map", "map_unordered"], places, strict=True):
    pool = ActorPool(simulators)
    with recorded() as run:
        start = time.perf_counter()
        results = list(getattr(pool, way)(lambda actor, tenths: actor.run.remote(tenths), episodes))
        seconds[way] = time.perf_counter() - start
    timeline(run, ax=axes).set_title(f"pool.{way}: results {results}")
del pool
measured("pool_map", seconds["map"])

# %% [markdown]
r"""
If you said 0.9 s, you thought of `map_unordered`.
`pool.map` delivers results in order, and an actor gets its next input only *when its result is delivered*.
So during the first, long episode, the other two actors soon have nothing to do, although five episodes are waiting.
`map_unordered` keeps them busy, but mixes up the results.

To have both, send the position of each input along, and sort by it at the end.
"""

# %% tags=["demo"]
pool = ActorPool(simulators)
with recorded() as run:
    pairs = list(pool.map_unordered(lambda actor, pair: actor.run_at.remote(*pair), enumerate(episodes)))
timeline(run).set_title(f"map_unordered, sorted: results {[result for _, result in sorted(pairs)]}")
del pool

# %% tags=["demo"]
for simulator in simulators:
    ray.kill(simulator)

# %% [markdown]
r"""
## Find an actor by its name, and detach an actor that must outlive its program

So far, you've needed a handle to call an actor.
With `.options(name="scores")`, you create a [**named actor**](../docs/glossary.md#named-actor), which any program in the same [**namespace**](../docs/glossary.md#namespace) can find.
You set the namespace with `ray.init(namespace="course")`; by default, each program has its own.
With `get_if_exists=True`, Ray finds the actor or creates it, so every program can run the same line.

A name doesn't keep an actor running, but `lifetime="detached"` does: that makes a [**detached actor**](../docs/glossary.md#detached-actor).
"""

# %% tags=["demo"]
counter_actor = ray.remote(Counter)
named = counter_actor.options(name="scores", get_if_exists=True).remote(0)
again = counter_actor.options(name="scores", get_if_exists=True).remote(0)
kept = counter_actor.options(name="archive", lifetime="detached", get_if_exists=True).remote(0)
ray.get([named.add.remote(5), kept.add.remote(5)])
print("added through the second handle:", ray.get(again.add.remote(1)))
del named, again, kept
time.sleep(1)
pandas.DataFrame(row for row in actors() if row["name"])[["name", "state", "detached", "death"]].fillna("")

# %% [markdown]
r"""
The total is 6, so the second line found the first line's actor.
Without its handles, "scores" is gone, but "archive" is still running.
If the notebook had joined a running cluster, "archive" would outlive the notebook, so decide who kills it.
A cluster that `ray.init` starts stops with its program.
"""

# %% tags=["demo"]
archive = ray.get_actor("archive")
print("found by its name:", ray.get(archive.add.remote(1)))
ray.kill(archive)
time.sleep(0.5)
print([row["state"] for row in actors() if row["name"] == "archive"])

# %%
### BEGIN SOLUTION
who_outlives = "c"
### END SOLUTION

# %%
quiz("who_outlives", who_outlives)

# %% tags=["demo"]
ray.shutdown()

# %% [markdown]
r"""
## What you can do now

- You can create actors and share their handles.
- You can spot a lost update: outside an actor, across an `await`, and between threads.
- You can find what can't be pickled.
- You've measured when more actors help.
- You can write async actors that batch, parameter servers that hold up no worker, and pools that keep every actor busy.

## Traps

- **Reading, changing, and writing back** from outside loses updates.
  Send the change.
- **A global that a task changes** stays the same in your process, and one that you change stays the same in the workers.
- **`ray.get` or `time.sleep` in an async method** blocks every other call.
- **An error in `__init__`** shows up only at the first call, as `ActorDiedError`.
- **The order of calls** is guaranteed only for one caller and an ordinary actor, without retries.
- **When you drop the last handle**, the actor is stopped.
  Keep a handle, or detach the actor and kill it yourself.
- **A handle that a function captures** instead of taking it as an argument keeps its actor running until the program ends.

## Read on

- [Chapter 4](ch04_scheduling.ipynb): what actors can request, and why some never start.
  [Chapter 5](ch05_faults.ipynb): actors that die.
  [Chapter 9](ch09_dqn.ipynb): an agent that loses updates.
- Ray's documentation: [actors](https://docs.ray.io/en/latest/ray-core/actors.html), [async and threaded actors](https://docs.ray.io/en/latest/ray-core/actors/async_api.html), and [the order of calls](https://docs.ray.io/en/latest/ray-core/actors/task-orders.html).
- [Old names](../docs/old_names.md): what older code calls things, and what they are called today.
- Recht et al., [*Hogwild!*](https://arxiv.org/abs/1106.5730), 2011, and Li et al., *Scaling Distributed Machine Learning with the Parameter Server*, OSDI 2014: when stale gradients do little harm.
"""
