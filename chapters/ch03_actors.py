# %% [markdown] you_learn_to="keep state, lose no update, build a parameter server"
r"""
# Chapter 3 · Actors

A class becomes an actor, a process that keeps its state between calls.

*About 120 minutes · builds on [Chapter 1](ch01_tasks.ipynb) and [Chapter 2](ch02_objects.ipynb)*

**What you will be able to do**

- turn a class into an actor, share it among tasks, and say which calls keep their order;
- find and fix lost updates, outside an actor and inside one;
- find what cannot be pickled, and repair a program whose tasks change a global;
- measure how many calls an actor answers, and say when more actors help;
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

from coursekit import begin, budget, check, hint, passed, progress, quiz, recorded, solution, timeline, warm_up
from coursekit.given.ch03_actors import Player, Simulator, add_ones, bumpy, compute, draw_training
from coursekit.given.ch03_actors import linear_data, pay, slope, span, squares
from coursekit import actors

pandas.options.display.max_colwidth = None  # tables show whole sentences
begin("ch03_actors")

# %%
ray.shutdown()  # ends a Ray that already runs here: its references and actors are gone
ray.init(num_cpus=4, include_dashboard=False, namespace="course")  # the namespace is for the last section
warm_up(4)

# %% [markdown] tags=["notes"]
r"""
The run sheet plans two hours, with `Batcher` as homework.
Nothing in this chapter builds on the sections on threads, on pools and on names.
Have the room run the two cells above while you talk.
Ask who has ever used a lock: they will enjoy the second section.
"""

# %% [markdown]
r"""
## An actor is an object in a process of its own

A task keeps nothing when it ends.
But a simulator has state, a replay buffer has contents, and a model has weights.
An **actor** is an object that lives in a worker process of its own.
`ray.remote(Class)` makes an actor class; calling that with `.remote(...)` starts the process, creates the object there, and returns a **handle** at once.
Like a task's, a call `handle.method.remote(...)` returns a reference at once.
"""


# %% tags=["demo"]
class Counter:
    """Counts from a start."""

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
101, 103, 106: all calls reach one object.
The actor runs **one call at a time**, and one caller's calls **in the order they were sent**.
So no call ever sees the object half changed, and the sum is right without a lock.

![The notebook and a task hold handles of one actor. The calls of each wait in a line of their own; the actor takes one at a time, and keeps the state](../img/ch03_actor.svg)

This holds for an ordinary actor whose calls are not retried.
Threads and `async` methods give up the order, as you will see below, and so does the option `allow_out_of_order_execution`.
A call that Ray retries (chapter 5) may run after later ones.

As with tasks, you will also see `@ray.remote` above the class; then `Counter.remote(100)` makes the actor, and the name no longer stands for the plain class.

Ray keeps a record of every actor.
The next cell shows the records, drops the handle, and shows them again.
"""

# %% tags=["demo"]
columns = ["class_name", "state", "pid", "death"]
display(pandas.DataFrame(actors())[columns])
del counter, refs  # the only handle, and the results that it made
time.sleep(1)
pandas.DataFrame(actors())[columns]

# %% [markdown]
r"""
When the last handle is gone, Ray ends the actor, its process, and its state.
You need not close anything, but nothing is kept either.
In a terminal, `RAY_AUTH_MODE=token ray list actors` shows the same records if Ray runs with its dashboard; chapter 6 says what the token is.

Your turn.
`count_up` gets a class like `Counter`, whose `__init__` needs no arguments.

This chapter's checks prove order and overlap by letting calls wait for each other.
If your answer is wrong, some wait in vain, and the verdict takes 20 to 40 seconds.
"""


# %%
def count_up(Counter, amounts):
    """Return what add(amount) of one actor of the class Counter returns for each of the amounts.

    All calls are sent before the first result is waited for.
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
Two mistakes are common.
With `ray.remote(Counter).remote()` inside the loop, every call gets its own actor: five processes, and five totals that start at 0.
With `ray.get` inside the loop, the totals are right, but the caller waits for every call in turn.
"""

# %%
### BEGIN SOLUTION
order_of_calls = "b"
### END SOLUTION

# %%
quiz("order_of_calls", order_of_calls)

# %% [markdown]
r"""
## One call is safe, a sequence of calls is not

A handle is an argument like any other.
Give it to a task, and the task can call the same actor: handles travel, the object stays.
Through handles, many tasks work on one state.

Here four customers pay 1 into an account, ten times each.
`pay(balance, 1)` returns the balance plus 1, and takes 20 ms for the bookkeeping.

**Predict** the final balance.
"""


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
print(f"40 payments of 1, and the balance is {balance}: {40 - balance} are lost")

# %% [markdown]
r"""
Most are lost.
Every single call was safe, but a payment is *three* steps: read, add, write.
Between one customer's read and write, the others read the same old balance, and the last to write wipes out what the others wrote: a **lost update**.

![Two customers read 5, both add 1, both write 6: one payment is lost. Below, both send "add 1" to the account, and the balance is 7](../img/ch03_lost_update.svg)

Instead of fetching the state, changing it, and sending it back, **send the change**, and let the actor make it, in one call.

In the exercise, you are given `pay_in(balance, amount)`, which returns the new balance.
The balance need not be a number: the check uses a list of receipts.
"""


# %%
def bank(pay_in, balance, amounts):
    """Return the balance after all amounts have been paid in; it is `balance` at first.

    One actor, the account, keeps the balance. For each amount, a task of its own, the customer, pays it in,
    and ends when the payment is booked. All customers come at the same time.
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
Without it, the customer ends before the payment is booked, and since different callers' calls have no order, `read` may overtake a payment.
Nothing is lost then, but you read too early.

You can send functions as well: an actor with a method `update(function)`, which does `self.balance = function(self.balance)`, can make any change.
"""

# %%
### BEGIN SOLUTION
why_updates_are_lost = "a"
### END SOLUTION

# %%
quiz("why_updates_are_lost", why_updates_are_lost)

# %% [markdown]
r"""
## A lock stays at home, and a global changes elsewhere

Almost everyone meets two errors in the first week with Ray.
Both follow from one fact: a task works on **copies**.
Ray pickles the arguments, and a notebook's function together with the globals it uses; the worker unpickles them in its own process.
A function you import from a module travels as a name: the worker imports the module itself, and so has its own globals.

Here is a colleague's program, which was right in one process.
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
Ray cannot pickle the function `game`, and says so before a task starts.
The function looks harmless, but it carries `player`, and something in there cannot travel.
`ray.util.inspect_serializability` takes an object apart and names the culprit:
"""

# %% tags=["demo"]
fine, culprits = inspect_serializability(Player(), name="player", print_file=io.StringIO())  # without it, a long report
print("can be pickled:", fine)
print("culprits:", [".".join(culprit.path) for culprit in culprits])

# %% [markdown]
r"""
A lock guards the memory of one process, so a copy elsewhere would guard nothing.
Open files, database connections, threads and running generators stay at home for the same reason.
Don't send such an object: **make it where it is needed**, inside the task, or once for many calls in the `__init__` of an actor.

With that fixed, the program runs without an error but returns the wrong thing.

**Predict** what `scores` holds after three games, and what the third line prints.
"""


# %% tags=["demo"]
@ray.remote
def game_of_its_own(seed):
    """Play with a player of this task's own, and write the score into a global."""
    scores[seed] = Player().play(seed)
    return len(scores)


bonus = 1
add_bonus = ray.remote(lambda score: score + bonus)
print("sizes of the workers' dicts:", ray.get([game_of_its_own.remote(seed) for seed in (1, 2, 3)]))
print("this process has:", scores)
before = ray.get(add_bonus.remote(0))
bonus = 100
print("with a bonus of 1:", before, "and with a bonus of 100:", ray.get(add_bonus.remote(0)))

# %% [markdown]
r"""
Every worker filled its own dict, and yours is empty.
The way in is closed as well: Ray pickles a function once, at its first `.remote()`, so the workers keep that moment's bonus.
Neither raises an error.

So send values in as **arguments**, and bring them back as **results**; what many tasks must change together lives in an actor.
Now fix the program: it has both faults.
"""


# %%
def tournament(make_player, seeds):
    """Return the scores of this tournament as a dict {seed: score}.

    The score of a seed is make_player().play(seed). A player cannot be pickled; `make_player` can. No game runs in this process,
    and games run side by side.
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
If a player is slow to make, let two or three actors keep one each, made in `__init__`: `ray.remote(make_player).remote()` turns the player itself into an actor.

If the class is yours, you can also teach it to travel: `__getstate__` returns its attributes without the lock, and `__setstate__` makes a new one.
"""

# %% [markdown]
r"""
## What `multiprocessing` keeps in a `Value`, Ray keeps in an actor

Without Ray, a machine's processes share a number through `multiprocessing.Value`, a few bytes of shared memory.
In the next cell, two processes add 1 to it 20,000 times each.

`Value` comes with a lock; is `total.value += 1` safe?
"""

# %% tags=["demo"]
context = multiprocessing.get_context("spawn")
for locked in (False, True):
    total, start = context.Value("i", 0), context.Barrier(2)  # at the barrier, each waits for the other
    adders = [context.Process(target=add_ones, args=(total, 20_000, locked, start)) for _ in range(2)]
    for adder in adders:
        adder.start()
    for adder in adders:
        adder.join()
    print(f"{'with' if locked else 'without'} get_lock(): {total.value:,} of 40,000")

# %% [markdown]
r"""
It is the same mistake again: `+=` reads, adds and writes.
The lock exists, but the code that says `+=` must remember to take it.

An actor holds any object, not only numbers; every node of a cluster can reach it; and because it runs one call at a time, it needs no lock.
Now write one that keeps the best result so far, together with the weights that reached it; older programs call it `GlobalVar`.
Scores may have any sign: many environments only punish.
"""


# %%
class BestSoFar:
    """Keeps the highest score offered so far, and what reached it: any object, even None."""

    def __init__(self):
        """Begin with nothing."""
        ### BEGIN SOLUTION
        self.kept = None
        ### END SOLUTION

    def offer(self, score, found):
        """Return whether the score is higher than all before it; if so, keep it together with `found`."""
        ### BEGIN SOLUTION
        better = self.kept is None or score > self.kept[0]
        if better:
            self.kept = (score, found)
        return better
        ### END SOLUTION

    def best(self):
        """Return (score, found) of the best offer; None before the first."""
        ### BEGIN SOLUTION
        return self.kept
        ### END SOLUTION


# %%
check("BestSoFar", BestSoFar)

# %% [markdown] tags=["solution"]
r"""
A best score that starts at 0 is the classic mistake: on Pendulum, where no reward is above 0, nothing ever beats it.
`-math.inf` works too, but then `best()` needs a special case for "nothing yet".

A stub or an error in `__init__` shows up late: you get the handle at once, and the first *call* raises `ActorDiedError`.
The cause is at the end of its message.
"""

# %% [markdown]
r"""
Now four searchers look at random for the highest point of a hilly landscape, and share one `BestSoFar`.
The top is $-1$, at the point $(2, -1)$.
"""


# %% tags=["demo"]
@ray.remote
def search(best, tries, seed):
    """Return how many of `tries` random points beat everything before them."""
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
Hundreds of offers, and a handful of records: nearly all calls were for nothing.
A searcher could remember its own best, and offer only what beats it.
Whether that is worth the trouble depends on what a call costs.
"""

# %% [markdown]
r"""
## A call costs less than a task, and far more than a method

`Counter.add` does almost nothing, so nearly all its time is the price of the call.
The next cell compares it with a call of an ordinary object, and with a task.
"""


# %% tags=["demo"]
@ray.remote
def add_in_a_task(amount):
    """Return the amount, plus 1."""
    return amount + 1


def microseconds(action, count):
    """Return what one of `count` repetitions takes."""
    start = time.perf_counter()
    action(count)
    return 1e6 * (time.perf_counter() - start) / count


# %% tags=["demo"]
here, counter, calls = Counter(0), ray.remote(Counter).remote(0), budget(4000, 400)
ray.get([function.remote(0) for function in (counter.add, add_in_a_task) for _ in range(100)])  # warm-up
prices = {
    "object, one by one": microseconds(lambda n: [here.add(1) for _ in range(n)], 100 * calls),
    "actor, one by one": microseconds(lambda n: [ray.get(counter.add.remote(1)) for _ in range(n)], calls // 5),
    "actor, sent together": microseconds(lambda n: ray.get([counter.add.remote(1) for _ in range(n)]), calls),
    "task, one by one": microseconds(lambda n: [ray.get(add_in_a_task.remote(1)) for _ in range(n)], calls // 5),
    "task, sent together": microseconds(lambda n: ray.get([add_in_a_task.remote(1) for _ in range(n)]), calls),
}
del counter
rates = {name: round(1e6 / price) for name, price in prices.items()}
pandas.DataFrame({"µs a call": prices, "calls a second": rates}).round(2)

# %% [markdown]
r"""
A call to another process costs thousands of times what a method costs, because a message goes out and another comes back.
Sent together, the trips overlap.
A call to an actor takes a shorter way than a task: its message goes straight to the actor's process, while a task first needs a worker.
But Ray lends a worker once and then sends it many tasks, so the difference stays within a factor of two or so.

An actor that does everything becomes the bottleneck of the whole program, however many nodes you have.
So send fewer, larger calls, or let several actors share the work.
How many actors?
"""

# %% [markdown]
r"""
## More actors than cores do not help, unless they wait

Two kinds of work take equally long.
`compute` adds up squares, and keeps a core busy.
`wait` naps, like an actor that waits for a network, a disk, a robot, or a simulator on another machine.
The same number of calls goes to one actor, to two, to four and to eight.

**Predict** two curves: how many times faster than one actor are 2, 4 and 8 at computing and at waiting?
Look at `os.cpu_count()` first.
"""


# %% tags=["demo"]
@ray.remote
class Worker:
    """Works in two ways."""

    def compute(self, rounds):
        """Keep a core busy."""
        return compute(rounds)

    def wait(self, seconds):
        """Nap."""
        time.sleep(seconds)


workers = [Worker.remote() for _ in range(8)]
ray.get([worker.compute.remote(1) for worker in workers]);  # all eight processes have started

# %% tags=["demo"]
rounds = 100_000


def compute_often(times):
    """Let one actor compute."""
    ray.get([workers[0].compute.remote(rounds) for _ in range(times)])


seconds_each = min(microseconds(compute_often, 10) for _ in range(6)) / 1e6  # other programs can only slow it down
print(f"one call of compute: {1000 * seconds_each:.1f} ms, on {os.cpu_count()} cores")

# %% tags=["demo"]
kinds = {"compute": rounds, "wait": seconds_each}
numbers, calls = [1, 2, 4, 8], budget(240, 48)
rates = {kind: dict.fromkeys(numbers, 0.0) for kind in kinds}  # the best of several rounds


def calls_a_second(kind, number):
    """Return how many calls a second `number` actors answer together."""
    methods = [getattr(worker, kind) for worker in workers[:number]]
    start = time.perf_counter()
    ray.get([methods[i % number].remote(kinds[kind]) for i in range(calls)])
    return calls / (time.perf_counter() - start)


for _ in range(budget(5, 2)):
    for number in numbers:
        for kind in kinds:
            rates[kind][number] = max(rates[kind][number], calls_a_second(kind, number))
pandas.DataFrame(rates).rename_axis("actors").round().astype(int)

# %% tags=["demo"]
figure, axes = plt.subplots(figsize=(7, 3.6), constrained_layout=True)
for kind, colour in [("wait", "#7c3aed"), ("compute", "#d97706")]:
    times = [rates[kind][number] / rates[kind][1] for number in numbers]
    axes.plot(numbers, times, "o-", color=colour, label=kind)
axes.plot(numbers, numbers, ":", color="#94a3b8", label="n times as fast")
axes.axvline(os.cpu_count(), color="#94a3b8", linestyle="--")
axes.text(os.cpu_count(), 7.4, " your cores", color="#64748b")
axes.set(xlabel="actors", ylabel="times as fast as one")
axes.set_title("Computing stops at your cores, waiting does not")
axes.set_xticks(numbers)
axes.legend();

# %% tags=["demo"]
for worker in workers:
    ray.kill(worker)  # ends it at once, even where handles are left
del workers, worker

# %% [markdown]
r"""
The curve of `compute` rises as far as your cores go, or less if other programs use them too, and then stops.
It may even fall, because eight processes on two cores get in each other's way.

The curve of `wait` rises far beyond your cores, because a nap needs no core.
It bends in the end: each call has its price, and the notebook can send only a few thousand a second.

`os.cpu_count()` counts hardware threads, on most processors two for each core, and slow cores as well as fast ones, so the curve often bends before the dashed line.

Ray let you have all eight actors, although it counts only four CPUs: unless you set `num_cpus=`, a living actor holds none (chapter 4).
So nothing stops you from starting too many.
Each costs dozens of megabytes of memory, even when idle, and about a second to start.

On a cluster the rule is the same, with more cores: as many computing actors as there are cores, and as many waiting ones as it takes to keep the cores busy.
Which is your simulator?
Chapter 8 measures that before it chooses.
"""

# %%
### BEGIN SOLUTION
how_many_actors = "b"
### END SOLUTION

# %%
quiz("how_many_actors", how_many_actors)

# %% [markdown] tags=["notes"]
r"""
Half-time.
Compare the curves in the room: a laptop with eight cores, one with two, a shared server.
Each has its knee in a different place, and the shared server may have none.
The most frequent question is "So why `num_cpus=4`?": it is Ray's bookkeeping, and adds no core.
"""

# %% [markdown]
r"""
## One async actor waits for many at once

Eight processes that only wait are a waste.
An **async actor** waits for many things in one process: if one method is an `async def`, Ray runs up to 1,000 of its calls at the same time, in one thread.

It does so with Python's `asyncio`.
The thread runs a **loop**: it runs one call until that has to wait at an `await`, then another that can continue, and returns to the first when what it waits for has arrived.

A call steps aside *only* at an `await`.
The two classes below differ in one line; `span` notes when each call began and ended.

**Predict:** how long do eight calls take with each?
"""


# %% tags=["demo"]
@ray.remote
class Blocking:
    """Waits, and keeps all other calls out."""

    async def answer(self):
        """Return when this call began and ended."""
        start = time.time()
        time.sleep(0.2)
        return span("time.sleep(0.2)", start)


@ray.remote
class Polite:
    """Waits, and lets other calls in."""

    async def answer(self):
        """Return when this call began and ended."""
        start = time.time()
        await asyncio.sleep(0.2)
        return span("await asyncio.sleep(0.2)", start)


# %% tags=["demo"]
figure, places = plt.subplots(2, figsize=(9, 4.4), sharex=True, constrained_layout=True)
for cls, axes in zip([Blocking, Polite], places, strict=True):
    actor = cls.remote()
    ray.get(actor.answer.remote())  # it has started
    timeline(ray.get([actor.answer.remote() for _ in range(8)]), ax=axes)
    del actor

# %% [markdown]
r"""
Above, the calls run in turn, although the method says `async`; below, all eight take the time of one.
A blocked actor shows no error, only slowness.
`time.sleep`, `ray.get` (write `await ref`), `requests.get`, and every long computation block it.
Nor does an `await` of something already there let another call in.

Because a call may step aside at each `await`, other calls may change the object meanwhile.
Here a hundred calls add 1 each:
"""


# %% tags=["demo"]
@ray.remote
class Purse:
    """Adds up, and waits in between."""

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
print(f"100 payments of 1, and the purse holds {max(totals)}")
del purse

# %% [markdown]
r"""
Read, `await`, write: a lost update again, this time *inside* the actor.
Without the `await`, or with `self.total += amount` after it, nothing would be lost: between two `await`s you are alone.

Async actors are at their best when many small requests should become a few large ones.
A neural network needs about as long for one input as for thirty-two.
So a policy server collects the calls that arrive, asks the network once, and hands each caller its own answer.
Chapter 18 does that with Ray Serve; here you build the core of it.

The tool is a **future**, an empty box a call can wait for.

- `asyncio.get_running_loop().create_future()` makes one, and `future.set_result(answer)` fills it.
- `future.done()` says whether it is full, and `future.result()` returns what is in it.
- `await asyncio.wait([future], timeout=seconds)` waits until it is full, but no longer than that.
  It raises nothing when time is up, and what it returns is of no use here: ask the future.
  `asyncio.wait_for` looks simpler, but when time is up it *cancels* the future, and `flush` can no longer fill it.

`flush` is already written: it answers all the calls in `self.waiting`.
Write `predict`.
"""


# %%
class Batcher:
    """Collects calls, and answers up to `size` of them with one call of the model."""

    def __init__(self, model, size, patience):
        self.model, self.size, self.patience = model, size, patience
        self.waiting = []  # a pair (x, future) for each call that has no answer yet

    def flush(self):
        """Answer all waiting calls: model(list of inputs) returns the list of answers."""
        batch, self.waiting = self.waiting, []
        answers = self.model([x for x, _ in batch]) if batch else []
        for (_, future), answer in zip(batch, answers, strict=True):
            future.set_result(answer)

    async def predict(self, x):
        """Return the model's answer to x.

        The model is called as soon as `size` calls are waiting, or when one has waited for `patience`
        seconds. No call is answered before that.
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
No other call comes between `append` and `flush`, because there is no `await` between them.
After the `await`, younger calls may have come.
A call that then flushes without asking `future.done()`, or by a timer that still runs, answers them too early, in too small a batch.

The model itself blocks the loop while it computes.
Here that does no harm: until it is done, `flush` could answer no batch anyway.
To avoid it, `await asyncio.to_thread(self.model, inputs)` computes in a thread; then `flush` has an `await`, and other calls can come in between.
"""

# %% [markdown]
r"""
`squares` stands for a network on a GPU: a call takes 50 ms, whatever the size of the batch.
Like such a network, it blocks the loop, and calls that arrive meanwhile begin a moment later.
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

# %%
### BEGIN SOLUTION
blocked_loop = "b"
### END SOLUTION

# %%
quiz("blocked_loop", blocked_loop)

# %% [markdown]
r"""
## Threads let an actor answer while it works

A method that computes for minutes keeps every other call waiting, even one that asks whether the actor is alive.
Ordinary methods can run in several threads: `.options(max_concurrency=4)` allows any four calls at a time.
A **concurrency group** has threads of its own for certain methods.

Both trainers below are asked for a `ping` while they train for a second.
"""


# %% tags=["demo"]
class Trainer:
    """Trains for long."""

    def train(self):
        """Train for a second."""
        time.sleep(1)

    def ping(self):
        """Return a sign of life."""
        return "alive"


class TrainerWithAGroup(Trainer):
    """Trains for long, and answers meanwhile."""

    @ray.method(concurrency_group="health")
    def ping(self):
        """Return a sign of life."""
        return "alive"


# %% tags=["demo"]
with_group = ray.remote(concurrency_groups={"health": 1})(TrainerWithAGroup)  # one thread more, for "health" alone
for name, actor_class in {"Trainer": ray.remote(Trainer), "TrainerWithAGroup": with_group}.items():
    trainer = actor_class.remote()
    ray.get(trainer.ping.remote())  # it has started
    work, start = trainer.train.remote(), time.perf_counter()
    print(f"{name}: {ray.get(trainer.ping.remote())} after {time.perf_counter() - start:.2f} s")
    ray.get(work)
del trainer, work

# %% [markdown]
r"""
The price: two methods can now run at the same time on one object, so the actor no longer protects its state.
`ping` only answers, so nothing can go wrong.
Methods that change something need a `threading.Lock`, or must share a group with one thread.
The order is gone as well: an actor with threads, or with `async` methods, may run a call before one that the same caller sent earlier.
And the threads of a process take turns at running Python code: for more you need more actors, as the curve above showed.
"""

# %% [markdown]
r"""
## A parameter server lets every worker go at its own pace

Now the first piece of distributed learning.
The weights of a model live in an actor, the **parameter server**.
Each worker has a share of the data, a **shard**, and repeats three steps: get the weights, compute the gradient on its shard, send the *gradient*.
The server applies it:

$$w \leftarrow w - \text{rate} \cdot g$$

![Three workers around a server: each gets weights, computes a gradient on its shard, and sends it; the server applies gradients as they come](../img/ch03_parameter_server.svg)

No worker waits for another: this is **asynchronous** SGD.
While one worker computes, others move the weights, so its gradient comes from weights that are a little old, or **stale**.
The price is usually a somewhat rougher path; the gain is that a slow worker does not hold up the others.

It is tempting to improve the *weights* locally and send those back.
You know what that loses.

The server below is complete; write `async_sgd`, which starts it and its workers.
"""


# %%
@ray.remote
class ParameterServer:
    """Keeps the weights of a model."""

    def __init__(self, weights, rate):
        self.weights, self.rate = np.array(weights), rate

    def get(self):
        """Return the weights."""
        return self.weights

    def apply(self, gradient):
        """Take one step of gradient descent."""
        self.weights = self.weights - self.rate * gradient


def async_sgd(gradient, weights, shards, steps, rate):
    """Return the weights after one worker, a task, for each shard has taken `steps` steps.

    The workers compute `gradient(weights, shard)`. They work side by side, and wait for no other worker.
    A worker ends when all its gradients are applied.
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
`np.array(weights)` in `__init__` is a copy on purpose: an array that arrives in an actor is read-only (chapter 2), so `self.weights -= …` would raise an error.

`work` could skip the `ray.get` around all but the last `apply`: one caller's calls keep their order, so its next `get` already sees its own gradient.
It could even ask for the next weights before it computes its gradient, so they arrive in time; the gradients are then staler by one step.
"""

# %% [markdown]
r"""
Three workers fit a linear model with three weights to data made with known weights plus a little noise.
`slope`, the gradient, takes 0.1 ms for each row of a shard, and the first shard has four times as many rows as the others.
"""

# %% tags=["demo"]
if passed("async_sgd"):
    shards, truth = linear_data([400, 100, 100])
    for steps in budget((1, 5, 25, 50), (1, 25)):
        with recorded() as training:
            fitted = async_sgd(slope, np.zeros(3), shards, steps, rate=0.05)
        print(f"{steps:2} steps each: the weights are {np.abs(fitted - truth).max():.3f} off at most")

# %% tags=["demo"]
if passed("async_sgd"):
    draw_training(training).set_title(f"{steps} steps of three workers, and their server")

# %% [markdown]
r"""
The quick workers took their steps and finished while the slow one was still working.
The short bars are the server's calls; it has time to spare.
A worker's bar is long because waiting for the server counts as running.

The error falls fast, but not to 0.
The rest comes from the noise, and from the last steps, all from one shard.
A fixed number of steps is simple, but gives the small shards too little weight at the end; real programs run for a fixed time, or over shuffled data.
"""

# %% [markdown]
r"""
## A pool keeps actors busy, unless it waits for the first result

Some episodes are long, others short.
A **pool** gives the next input to whichever actor is free.
`ray.util.ActorPool` does that: `pool.map` returns results in the order of the inputs, `pool.map_unordered` as they come.
Both want a function `f(actor, input)` that returns a reference.

Here three simulators play eight episodes; the first takes 0.9 s, the others 0.1 or 0.2 s.

**Predict:** how long does each take?
Draw the three rows on paper first.
"""

# %% tags=["demo"]
simulator_actor = ray.remote(Simulator)
simulators = [simulator_actor.remote() for _ in range(3)]
ray.get([simulator.run.remote(0) for simulator in simulators])
episodes = [9, 2, 1, 2, 1, 2, 2, 1]  # tenths of a second

figure, places = plt.subplots(2, figsize=(9, 4.4), sharex=True, constrained_layout=True)
for way, axes in zip(["map", "map_unordered"], places, strict=True):
    pool = ActorPool(simulators)
    with recorded() as run:
        results = list(getattr(pool, way)(lambda actor, tenths: actor.run.remote(tenths), episodes))
    timeline(run, ax=axes).set_title(f"pool.{way}: results {results}")
del pool

# %% [markdown]
r"""
`pool.map` hands out results in order, and gives an actor its next input only *when it hands out a result*.
During the first, long episode, the other two actors have nothing to do, although five episodes wait.
`map_unordered` keeps them busy, but mixes up the results.

To have both, send each input's place along, and sort by it in the end.
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
## A name finds an actor, and a detached one outlives its program

So far you had to hold a handle.
With `.options(name="scores")`, any task or program in the same **namespace** can find the actor by its name.
You set the namespace with `ray.init(namespace="course")`; otherwise each program has its own.
With `get_if_exists=True`, Ray finds the actor or makes it: many programs can run the same line and get the same actor.

A name does not keep an actor alive; `lifetime="detached"` does.
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
The second line found the actor of the first: 6.
Without its handles "scores" is gone, while "archive" lives on.
It would outlive this notebook too if the notebook had joined a running cluster; a cluster that `ray.init` has started ends with its program.
In a running cluster, a detached actor stays until it is killed, so if you make one, plan who will kill it:
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

- You make actors, share their handles, and know which calls keep their order.
- You see a lost update coming: outside an actor, across an `await`, and between threads.
- You find what cannot travel with `inspect_serializability`, and send values in and results back instead of changing globals.
- You have measured what a call costs, and how far more actors help: to your cores for computing, much further for waiting.
- You write async actors that batch, parameter servers that hold up no worker, and pools that keep every actor busy.

## Traps

- **A new actor for each call** has no memory: `Counter.remote()` goes before the loop.
- **Read, change, write back** from outside loses updates.
  Send the change.
- **A global** that a task changes stays as it was in your process, and one you change stays as it was in the workers.
- **A lock, an open file or a connection** cannot be pickled.
  Make it in the task or the actor.
- **`ray.get` or `time.sleep` in an async method** blocks every other call.
- **An error in `__init__`** shows only at the first call, as `ActorDiedError`.
- **Order** is promised only for one caller's calls, on an ordinary actor, without retries.
- **`ActorPool.map` stalls** behind a long first input.
- **When you drop the last handle**, the actor ends.
  Keep one, or make the actor detached and kill it yourself.
- **A handle that a function captures** instead of taking as an argument keeps its actor alive until the program ends.
- **Too many actors**: Ray does not stop you.
  Each is a process with memory of its own.

## Read on

- [Chapter 4](ch04_scheduling.ipynb): what actors may ask for, and why some never start.
  [Chapter 5](ch05_faults.ipynb): actors that die.
  [Chapter 9](ch09_dqn.ipynb): an agent that loses updates, and how that shows in its learning.
- Ray's documentation: [actors](https://docs.ray.io/en/latest/ray-core/actors.html), [async and threaded actors](https://docs.ray.io/en/latest/ray-core/actors/async_api.html) and [the order of calls](https://docs.ray.io/en/latest/ray-core/actors/task-orders.html).
- [Old names](../docs/old_names.md): what older code calls things, and what they are called today.
- Recht et al., [*Hogwild!*](https://arxiv.org/abs/1106.5730), 2011, and Li et al., *Scaling Distributed Machine Learning with the Parameter Server*, OSDI 2014: when stale gradients do no harm.
"""
