# %% [markdown] you_learn_to="kill workers, actors and nodes, and survive it"
r"""
# Chapter 5 · Fault tolerance

Anything can die, and a retry starts from scratch.

*About 120 minutes · builds on [Chapter 3](ch03_actors.ipynb); [Chapter 4](ch04_scheduling.ipynb) helps*

**What you will be able to do**

- tell from an exception what died, and keep the results you have when others are missing;
- say what Ray repeats by itself and what it leaves to you, and measure what a repetition costs;
- write calls that survive deaths and time-outs, and do no harm when they happen twice;
- give an actor state that outlives its process, and build a pool that replaces its dead actors;
- kill a process, an actor and a whole node on purpose, and see whether your program survives.
"""

# %%
import json
import os
import signal
import textwrap
import time

import matplotlib.pyplot as plt
import numpy as np
import pandas
import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError, WorkerCrashedError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from coursekit import begin, budget, check, hint, passed, progress, quiz, recorded, solution, timeline, warm_up
from coursekit.given.ch05_faults import Diary, ask_nodes_every, kill_process_of, story, work, work_in_steps
from coursekit.given.deaths import keep_news_of_deaths

begin("ch05_faults")

# %%
ask_nodes_every(0.5)  # seconds; it is Ray that will ask whether they live
ray.shutdown()  # ends a Ray that already runs here: its references and actors are gone
ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)  # what dying processes print stays in their log files
warm_up(4)
news = keep_news_of_deaths()

# %% [markdown]
r"""
Two things are unusual here.
You are about to kill a few dozen processes, and Ray reports each death in half a page.
Here `news` collects these reports instead of printing them, and you will read one below; in your own programs, leave them on.
And `ask_nodes_every` sets environment variables that Ray reads when it starts: it then asks every half second, not every three, whether a node is still there, so you wait less when you kill one.
"""

# %% [markdown] tags=["notes"]
r"""
The run sheet plans two hours, with `collect` as homework.
Start with a question: your training runs on 100 machines, and each fails once in three years.
How often does something fail?
About once in eleven days.
Everything that follows is about that day.
"""

# %% [markdown]
r"""
## A failure waits until you ask for the result

`.remote()` returns a reference without waiting for the function.
So an error in the function waits behind that reference, and `ray.get` raises it.
If you never fetch the result, you can easily miss the error.
The type of the exception tells you what failed.

The task below fails in a way of your choice, and so does the actor.
`signal.SIGKILL` ends a process on the spot: no `except`, no `finally`, no goodbye.
A power cut does the same, and so does the operating system when memory runs out.
"""


# %% tags=["demo"]
def trouble(kind):
    """Fail in one of three ways."""
    if kind == "raises":
        return 1 / 0
    if kind == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    return time.sleep(60)


class Trouble:
    """An actor whose method fails."""

    def cause(self, kind):
        """Fail."""
        return trouble(kind)

# %% tags=["demo"]
def caught(title, ref, seconds=None):
    """Return a row of the table: what happened, which exception came out, and its cause."""
    try:
        ray.get(ref, timeout=seconds)
    except Exception as error:
        cause = repr(getattr(error, "cause", None))
        return {"what happened": title, "exception": type(error).__name__, "cause": cause}

# %% tags=["demo"]
task = ray.remote(trouble).options(max_retries=0)
actor = ray.remote(Trouble).remote()
sleeping = task.remote("sleeps")
rows = [caught("the function raised", task.remote("raises"))]
rows += [caught("its process died", task.remote("dies"))]
rows += [caught("the actor's process died", actor.cause.remote("dies"))]
rows += [caught("it took too long", sleeping, 1)]
ray.cancel(sleeping, force=True)
rows += [caught("it was cancelled", sleeping)]
pandas.DataFrame(rows)

# %% [markdown]
r"""
Five kinds of failure, five types, each a `ray.exceptions.RayError`.
The first is special: Ray makes a type that is a `RayTaskError` *and* a `ZeroDivisionError`, so `except ZeroDivisionError` catches it as if the function had run right here.
The original is in `error.cause`.
The other four have no cause: none of your code raised anything.

Ray does not even send a call that is wrong in itself; it fails at `.remote()`:
"""

# %% tags=["demo"]
wrong_calls = {
    "one argument too many": lambda: task.remote("raises", 2),
    "an argument that cannot be sent": lambda: task.remote(letter for letter in "raises"),
}
for title, call in wrong_calls.items():
    try:
        call()
    except Exception as error:
        print(f"{title}: {type(error).__name__} from .remote()")

# %% [markdown]
r"""
So does a call to an actor whose queue is full, if you limit it with `max_pending_calls`.

With many calls, one failure must not cost you the others' results.
`ray.get(refs)` on a list raises the first error it meets and returns nothing.
Write `survivors`, which keeps results and failures apart.
By default Ray tries a dead task three more times, as the next section shows; `max_retries=0` turns that off.
If you launch the calls one by one, the check takes 20 s longer.
"""


# %%
def survivors(function, xs):
    """Return (results, errors): the value of function(x) where there is one, else the kind of error.

    Both are dicts with x as key. An error is the name of a type: that of the exception which the
    function raised, or "WorkerCrashedError". Make each call once, in a task of its own, and launch all
    of them before you wait for the first.
    """
    ### BEGIN SOLUTION
    task = ray.remote(function).options(max_retries=0)
    refs = {x: task.remote(x) for x in xs}
    results, errors = {}, {}
    for x, ref in refs.items():
        try:
            results[x] = ray.get(ref)
        except RayTaskError as error:
            errors[x] = type(error.cause).__name__
        except WorkerCrashedError as error:
            errors[x] = type(error).__name__
    return results, errors
    ### END SOLUTION

# %%
check("survivors", survivors)

# %% [markdown] tags=["solution"]
r"""
The tempting shortcut is `except Exception: pass`.
It turns a crash into a missing key, and a month later you wonder why the averages are wrong.
If you can live with a failure, it is still a result: record it.
"""

# %% [markdown]
r"""
## Ray tries again when a process dies, not when a function raises

When the process of a task dies, Ray launches the task again, up to `max_retries=3` times: perhaps a machine lost power, and the next attempt may succeed.
By default, it does not repeat a function that *raises*: a mistake in the code is still there the next time.

To watch this, you need a witness that survives.
A `Diary` is a file in which every process notes what it does.
`work` does `parts` of work, a nap each, and notes every one; at its first attempt it kills its own process after `dies_after` parts.
`diary.write(event)` returns how often the event was written *before*, which tells a process whether it is the first.

**Predict:** ten parts, and the process dies after seven.
How many parts does the diary list in the end?
"""

# %% tags=["demo"]
work_task, diary = ray.remote(work), Diary()
with recorded() as run:
    ray.get(work_task.remote(diary, 10, dies_after=7))
print(f"{diary.count('begins')} attempts, {diary.count('part')} parts")
pandas.DataFrame(run.tasks())[["name", "attempt", "state", "error", "worker_pid"]]

# %% [markdown]
r"""
Seventeen, not ten: the second attempt, in another process, knew nothing of the first.
Ray's own records show both attempts.

Here is the report that Ray prints for such a death.
*SYSTEM_ERROR* means that the process ended without a goodbye; Ray saw only a closed connection.
In practice the usual reason is memory: the operating system kills a process that takes too much, unless Ray is quicker, as the last section explains.
"""

# %% tags=["demo"]
print(textwrap.fill(news.wait(), 110))

# %% [markdown]
r"""
Some exceptions *are* worth another attempt: a busy server, a network hiccup.
Name those:

```python
ray.remote(function).options(retry_exceptions=[ConnectionError], max_retries=5)
```

`retry_exceptions=True` repeats after every exception, including those from mistakes in your code.
"""

# %%
### BEGIN SOLUTION
how_many_runs = "c"
### END SOLUTION

# %%
quiz("how_many_runs", how_many_runs)

# %% [markdown]
r"""
## A retry does all of the work again

You might expect a retry to resume where the last attempt stopped.
It can't: the process that knew how far it had come is gone.

![Without a checkpoint the second attempt does all parts again; with one it does only those that are missing](../img/ch05_retry.svg)

`work_in_steps` does the same work, but begins with the first part missing from the diary.
That is a **checkpoint**: progress written to a place that survives the process.

The next cell lets both kinds of work die at several moments.
Twenty parts of 0.05 s make one second of work.
"""

# %% tags=["demo"]
ways, stories = {"all again": work_task, "with a checkpoint": ray.remote(work_in_steps)}, {}
for dies_after in budget([2, 6, 10, 14, 18], [18]):
    for name, way in ways.items():
        print(f"dies after {dies_after}, {name}")
        warm_up(2)  # so that the second attempt need not wait for a process to start
        diary = Diary()
        ray.get(way.remote(diary, 20, dies_after))
        stories[f"dies after {dies_after},\n{name}"] = story(diary)

# %% tags=["demo"]
figure, axes = plt.subplots(figsize=(9, 0.8 + 0.5 * len(stories)), constrained_layout=True)
left = np.zeros(len(stories))
for part, colour in {"before": "#93c5fd", "gap": "#94a3b8", "after": "#2563eb"}.items():
    widths = np.array([row[part] for row in stories.values()])
    axes.barh(list(stories), widths, left=left, color=colour, label=part)
    left += widths
axes.axvline(1, color="#64748b", linestyle="--")
axes.invert_yaxis()
axes.set_title("Without a checkpoint, all the work is done again")
axes.set_xlabel("seconds; dashed: the same work without a death")
axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False);

# %% [markdown]
r"""
Compare the dark bars.
Without a checkpoint each is one second long: whenever the process dies, it does *all* the work again.
So a late death costs most, and a task of ten hours that dies in its last minute takes twenty.
With a checkpoint, the pale and the dark bar together make one second.

There is a second cure: smaller tasks, though not too small, as chapter 1 measured.
If the twenty parts are twenty tasks, a death costs one.
The grey gap always remains; you will find out below where it comes from.
"""

# %% [markdown]
r"""
## A time-out ends your wait, not the task

Not everything that fails dies.
Some calls hang, and `ray.get` waits forever unless you give it a limit.

**Predict:** the task needs one second, and your patience ends after 0.3 s.
How many parts will it have done in the end?
"""

# %% tags=["demo"]
diary = Diary()
ref = work_task.remote(diary, 20)
try:
    ray.get(ref, timeout=0.3)
except GetTimeoutError:
    print(f"time-out after {diary.count('part')} parts")
print(f"asked again: {ray.get(ref)} parts")

# %% [markdown]
r"""
`GetTimeoutError` says nothing about the task, which kept running and kept its slot.
If you give up for good, say so: `ray.cancel(ref)` raises `KeyboardInterrupt` in the task, and for code that does not listen, `ray.cancel(ref, force=True)` kills its process.

The clock starts with your `ray.get`, not with the task.
Here four long tasks hold all four CPUs, and a short one asks for its turn:
"""

# %% tags=["demo"]
long, short = Diary(), Diary()
busy = [work_task.remote(long, 1, seconds=60) for _ in range(4)]
try:
    ray.get(work_task.remote(short, 1), timeout=1)
except GetTimeoutError:
    print(f"time-out, and the short task has begun {short.count('begins')} times")
for ref in busy:
    ray.cancel(ref, force=True)

# %% [markdown]
r"""
The limit also covers the time in the queue and the start of a process.
On a loaded cluster a tight limit cancels attempts that never ran, so leave room for the queue.

> **A trap of Ray 2.60.** Cancel what timed out, and nothing else.
> If you cancel a task at the very moment it ends, with a result or an exception, your whole program can end with "An unexpected system state has occurred".
> That moment lasts well under a millisecond, but a task may end just between your time-out and your `ray.cancel`, and no second look closes this gap.
> If your program must not die, let an actor do such work and end it with `ray.kill`, which has no such trap.
"""

# %%
### BEGIN SOLUTION
what_a_timeout_ends = "a"
### END SOLUTION

# %%
quiz("what_a_timeout_ends", what_a_timeout_ends)

# %% [markdown]
r"""
`resilient_call` makes a call that may die, raise or time out.
It counts the attempts itself, because Ray's `max_retries` ignores time-outs.
The check makes functions die, raise and hang, and counts your calls.
If you do not cancel what hangs, the check takes 20 s longer.
"""


# %%
def resilient_call(function, x, attempts, seconds):
    """Return function(x), computed by a task that is tried `attempts` times in all.

    Another attempt is made when the process died, or when the result was not there `seconds` after
    the launch, time in the queue included; such a call is cancelled. After the last attempt its error is
    raised (Ray's GetTimeoutError is a TimeoutError). An exception of the function itself is raised at once.
    """
    ### BEGIN SOLUTION
    task = ray.remote(function).options(max_retries=0)
    for _ in range(attempts):
        ref = task.remote(x)
        try:
            return ray.get(ref, timeout=seconds)
        except RayTaskError:  # first: it may also be one of the types below
            raise
        except WorkerCrashedError as error:
            last = error
        except GetTimeoutError as error:
            ray.cancel(ref, force=True)
            last = error
    raise last
    ### END SOLUTION


# %%
check("resilient_call", resilient_call)

# %% [markdown] tags=["solution"]
r"""
`except RayTaskError` comes first, because a function may itself raise a Ray error: the `GetTimeoutError` of a `ray.get` inside it arrives as a `RayTaskError` *and* a `GetTimeoutError`.
With the default `max_retries=3` inside the loop, attempts multiply: three of yours become up to twelve.
And too short a time-out is worse than none: it cancels every attempt just before its end, or before it has begun.
Real systems also wait a little longer before each further attempt, so a struggling server does not get all retries at once.
This solution has the trap above, too: a task that ends just between the time-out and the cancel may take the program along.
"""

# %% [markdown]
r"""
## A retry repeats the effects too

A task may do something to the world: send a mail, write a row, move money.
The dangerous moment lies between the effect and the answer.
A process that dies there has done the deed and told no one.

Here is a payment of 100 whose process dies right after the deposit:
"""


# %% tags=["demo"]
@ray.remote
class NaiveLedger:
    """Keeps a balance."""

    def __init__(self):
        self.total = 0

    def deposit(self, amount):
        """Add the amount and return the balance."""
        self.total += amount
        return self.total

# %% tags=["demo"]
@ray.remote
def pay(ledger, amount, diary):
    """Deposit the amount; the first attempt dies before it can say so."""
    ray.get(ledger.deposit.remote(amount))
    if diary.write("pays") == 0:
        diary.die()


ledger, diary = NaiveLedger.remote(), Diary()
ray.get(pay.remote(ledger, 100, diary))
print(f"ordered once, attempted {diary.count('pays')} times, balance {ray.get(ledger.deposit.remote(0))}")

# %% [markdown]
r"""
![A deposit reaches the ledger, the task dies before it can say so, and the retry deposits again; with a key, the ledger recognises the repeat](../img/ch05_once.svg)

With retries, a task that succeeds has run at least once.
For an effect outside its own records, no scheduler can promise exactly once, because it cannot see whether the effect has happened; [chapter 25](ch25_pipelines.ipynb) takes such promises apart.
So an action that may be repeated must be **idempotent**: doing it twice has the effect of doing it once.
Setting a value is idempotent, adding to it is not.

For everything that adds, sends or pays, the cure is a key.
Each payment gets one when it is *ordered*; a ledger that sees a key again knows that it has served it, and gives the same answer as before.
Banks and web shops do it this way.
"""


# %%
class Ledger:
    """Keep a balance that counts every payment once, however often it comes."""

    def __init__(self):
        ### BEGIN SOLUTION
        self.total = 0
        self.answers = {}
        ### END SOLUTION

    def deposit(self, key, amount):
        """Add the amount and return the new balance.

        A key that came before changes nothing, and gets the same answer as then.
        """
        ### BEGIN SOLUTION
        if key not in self.answers:
            self.total += amount
            self.answers[key] = self.total
        return self.answers[key]
        ### END SOLUTION

    def balance(self):
        """Return the balance."""
        ### BEGIN SOLUTION
        return self.total
        ### END SOLUTION

# %%
check("Ledger", Ledger)

# %% [markdown] tags=["solution"]
r"""
Why the old answer, not today's balance?
The caller of the first attempt never got it, and from outside an idempotent call looks as if it had happened once.
A real ledger forgets keys after a day or so; this one keeps them all.
"""

# %%
### BEGIN SOLUTION
where_the_key_comes_from = "b"
### END SOLUTION

# %%
quiz("where_the_key_comes_from", where_the_key_comes_from)

# %% [markdown]
r"""
## What does a restarted actor know?

Ray restarts an actor only if you ask for it, and repeats its calls only if you ask for that too:

| option | default | with -1 |
|---|---|---|
| `max_restarts` | 0: dead is dead, every call raises `ActorDiedError` | Ray starts the process again, as often as needed |
| `max_task_retries` | 0: a call that was under way raises `ActorDiedError`, or `ActorUnavailableError` if the actor is being restarted | Ray makes the call again, *even if it had taken effect*, and perhaps after later calls |

Both exceptions are a `RayActorError`, so catch that.
`ActorDiedError` is final; after `ActorUnavailableError`, a later call may work.

**Predict:** the counter below stands at 3 when its process is killed.
What does the next `add(1)` return?
"""


# %% tags=["demo"]
@ray.remote(max_restarts=-1, max_task_retries=-1)
class Counter:
    """Counts."""

    def __init__(self):
        self.total = 0

    def add(self, n):
        """Add n and return the total."""
        self.total += n
        return self.total


counter = Counter.remote()
print("totals:", ray.get([counter.add.remote(1) for _ in range(3)]))
print("killed: process", kill_process_of(counter))
print("next total:", ray.get(counter.add.remote(1)))

# %% [markdown]
r"""
One, not four: a restart only runs `__init__` again, with the same arguments.
A sampler that comes back this way has lost its weights and its environment's state; your program must send it the weights again.
If the state matters, the actor must save it, and `__init__` must look for what was saved.
Two rules make it safe:

- **Save before you answer.** The caller will rely on the answer.
- **Never overwrite the only copy.** `open(path, "w")` empties the file, and writing fills it again; a process that dies in between leaves half a file, or none.
  Write to another name in the same folder and rename: `os.replace(new, path)` is *atomic*, which means that a reader finds the old file or the new one, never a mixture.

The format of the file is yours.
The check kills the process between two calls, and also inside an `add`, after each change that `add` makes to a file.
The file must lie where the restarted actor can read it.
On a cluster the actor may come back on another node, so use shared storage there.
"""


# %%
class CheckpointedCounter:
    """A counter whose total outlives its process, in the file `path`."""

    def __init__(self, path):
        ### BEGIN SOLUTION
        self.path, self.total = path, 0
        if os.path.exists(path):
            with open(path) as file:
                self.total = json.load(file)
        ### END SOLUTION

    def add(self, n):
        """Add n, save the total, and return it."""
        ### BEGIN SOLUTION
        self.total += n
        with open(self.path + ".new", "w") as file:
            json.dump(self.total, file)
        os.replace(self.path + ".new", self.path)
        return self.total
        ### END SOLUTION

# %%
check("CheckpointedCounter", CheckpointedCounter)

# %% [markdown] tags=["solution"]
r"""
Saving in `atexit`, `__del__` or `finally` looks elegant and never happens: SIGKILL runs none of them.
Saving every hundredth call is a fair deal when a call is cheap to repeat, as in training: you lose up to 99 steps, and you know it.
To survive a power cut, the file also needs `os.fsync` before the rename.
"""

# %% tags=["demo"]
if passed("CheckpointedCounter"):
    durable = ray.remote(CheckpointedCounter).options(max_restarts=-1, max_task_retries=-1)
    counter = durable.remote(Diary().path + ".total")
    print("totals:", ray.get([counter.add.remote(1) for _ in range(3)]))
    print("killed: process", kill_process_of(counter))
    print("next total:", ray.get(counter.add.remote(1)))

# %% [markdown]
r"""
Saving is half of it.
With `max_task_retries=-1`, Ray repeats a call whose process died after the save, and it counts twice, so an `add` needs a key, like a payment; and a ledger must save its keys together with its total.
You choose between *at most once*, the default of actors, and *at least once*, the default of tasks (up to `max_retries`).
"Exactly once" is what at least once looks like when the call is idempotent.
"""

# %% [markdown] tags=["notes"]
r"""
A break fits here.
Somebody always asks why Ray does not save the state by itself: only you know which state matters, how often it is worth saving, and where.
Ask the room what the state of a learner is (weights, optimiser, step count, seeds), and who has lost a night's training to a checkpoint without the optimiser.
"""

# %% [markdown]
r"""
## Lost objects are made again from their recipe

A node is more than its processes: the large results in its object store die with it.
But Ray has noted each task result's **lineage**: which task made it, with which arguments.
If you need a lost object, Ray makes it again.

Now kill a node.
`second_node` adds one to your Ray, with real processes of its own, though on the same machine.
A `NodeAffinitySchedulingStrategy` names the node a task should run on, and `soft=True` lets it run elsewhere once that node is dead (chapter 4).

**Predict:** two tasks ran on that node, and one needed the other's result.
You ask only for the second result.
How often will each run?
"""


# %% tags=["demo"]
from coursekit.given.ch05_faults import second_node


def ones(diary, count):
    """Return an array of ones, and write that down."""
    diary.write("ones")
    return np.ones(count)


def double(array, diary):
    """Return the array times two, and write that down."""
    diary.write("double")
    return 2 * array

# %% tags=["demo"]
diary = Diary()
with second_node() as node:
    there = NodeAffinitySchedulingStrategy(node.node_id, soft=True)
    array = ray.remote(ones).options(scheduling_strategy=there).remote(diary, 1_000_000)
    doubled = ray.remote(double).options(scheduling_strategy=there).remote(array, diary)
    ray.wait([doubled], fetch_local=False)  # wait until it exists, and leave it where it is
    print("before:", {name: diary.count(name) for name in ("ones", "double")})
    node.kill()
    killed = time.time()
    print("the sum:", ray.get(doubled).sum())
print("after: ", {name: diary.count(name) for name in ("ones", "double")})
node_gap = diary.lines("ones")[1]["time"] - killed
print(f"{node_gap:.1f} s from the death of the node until its first task ran again")

# %% [markdown]
r"""
![Two arrays lie on a node that dies; Ray runs both tasks again on the node that is left](../img/ch05_lineage.svg)

Both ran twice: Ray ran the second task again, and before it the first, whose result was lost as well.
You saw an array, no error.
But it is *another* array.
If the task draws random numbers, or reads a file that has changed, its second result differs from the first: make tasks depend on their arguments alone, seeds included.

Lineage has limits.
An array stored with `ray.put` has no recipe.
The results of an actor's methods come back only if the actor restarts and `max_task_retries` allows the call to be repeated.
The process that *launched* the task keeps the recipe: if it dies, its objects are lost (`OwnerDiedError`).
And each repetition counts against `max_retries`: with 0, nothing comes back.
"""

# %%
### BEGIN SOLUTION
what_comes_back = "a"
### END SOLUTION

# %%
quiz("what_comes_back", what_comes_back)

# %% [markdown]
r"""
## What a failure costs depends on how it is noticed

The grey gap was the time between a failure and the next attempt.
Measure it on your machine, for five things that can fail.
`stumble` fails once and then works; the failure is an exception or the death of its process.

**Predict** the order of the five: an exception repeated by a loop of your own; an exception repeated by Ray (`retry_exceptions`); a dead process; a dead actor; a dead node.
"""


# %% tags=["demo"]
from coursekit.given.ch05_faults import Stumbler, stumble


def own_loop(diary):
    """Call until it works, as `resilient_call` does."""
    try:
        ray.get(stumble_task.remote(diary))
    except ConnectionError:
        ray.get(stumble_task.remote(diary))

# %% tags=["demo"]
stumble_task = ray.remote(stumble)
retried = stumble_task.options(retry_exceptions=[ConnectionError])
stumbler = ray.remote(Stumbler).options(max_restarts=-1, max_task_retries=-1).remote()
ways = {
    "exception,\nyour own loop": own_loop,
    "exception,\nrepeated by Ray": retried.remote,
    "process died": lambda diary: stumble_task.remote(diary, "dies"),
    "actor died": stumbler.stumble.remote,
}

# %% tags=["demo"]
gaps = {name: [] for name in ways}
for attempt in range(budget(10, 1)):
    print(f"round {attempt + 1}")
    for name, launch in ways.items():
        warm_up(2)  # an idle process for the next attempt
        diary = Diary()
        ref = launch(diary)
        if ref is not None:
            ray.get(ref)
        gaps[name].append(story(diary)["gap"])
gaps["node died"] = [node_gap]

# %% tags=["demo"]
figure, axes = plt.subplots(figsize=(9, 3.6), constrained_layout=True)
for place, seconds in enumerate(gaps.values()):
    axes.scatter([place] * len(seconds), seconds, color="#2563eb", alpha=0.6)
    axes.hlines(np.median(seconds), place - 0.2, place + 0.2, color="#db2777", linewidth=3)
    axes.annotate(f"{np.median(seconds):.2g} s", (place + 0.23, np.median(seconds)), va="center")
axes.set_xticks(range(len(gaps)), list(gaps))
axes.set(yscale="log", ylabel="seconds without any work", xlim=(-0.5, 4.8))
axes.set_title("The gap before the next attempt");

# %% [markdown]
r"""
From milliseconds to seconds, each for a reason.
If a new process must start, as for the actor, a busy machine can take longer than for all the rest.

| what fails | how it is noticed | what you wait for |
|---|---|---|
| a call, in **your own loop** | the exception arrives | one trip of a message: milliseconds |
| a call that **Ray repeats** | the exception arrives | the next look: the process that launched the task looks once a second for tasks to repeat, so up to a second |
| **a process** | its connection closes | the next look, and a new process if none is idle (here `warm_up` left one) |
| **an actor** | its connection closes | a new process and its `__init__`, without that second |
| **a node** | Ray asks it, and gives it up after five failed questions | the pauses between the questions: 0.5 s here, 3 s by default, so about 15 s; a machine without power does not even refuse, so each question takes its 10 s time-out, and all about a minute |

So if you have many small tasks that fail often, repeat them yourself.
To every gap, add the repeated work and the state to load.
"""

# %% [markdown]
r"""
## A pool that replaces its dead

A *sampler* is an actor that plays and returns a *fragment*, a stretch of experience; a seed says which.
A learner takes fragments from a pool of samplers, for days.
Some will die; the learner should not notice.
`max_restarts` restarts *the same* actor, which does not help if the work kills it.
So keep the pool yourself, and always know which sampler works on which seed.
When a sampler dies,

1. its seed goes back to those still to do: no seed is lost, and no other is repeated;
2. a new sampler replaces it at once: a shrinking pool is slow in the evening and empty by morning;
3. a seed over which three samplers have died ends the collection, with its error.
   It is a **poison pill**: it would kill every sampler you make;
4. an exception that `sample` *raises* is no death.
   Raise it: a new sampler would not help.

The check has two samplers at work and kills some of them.
If your calls cannot run side by side, it takes a minute.
"""


# %%
def collect(new_sampler, samplers, seeds):
    """Return the fragment of each seed, in order, from a pool that replaces samplers that die.

    `new_sampler()` returns a new actor, and `sampler.sample.remote(seed)` a reference to a fragment.
    `samplers` is their number: that many are at work at any moment, fewer only when fewer seeds are left.
    A seed whose sampler died is tried again; at the third death over one seed its error is raised.
    Whatever `sample` itself raises is raised at once.
    """
    ### BEGIN SOLUTION
    todo, under_way, fragments = list(seeds), {}, {}
    deaths = dict.fromkeys(seeds, 0)
    idle = [new_sampler() for _ in range(samplers)]
    while todo or under_way:
        while todo and idle:
            sampler, seed = idle.pop(), todo.pop(0)
            under_way[sampler.sample.remote(seed)] = sampler, seed
        [ref], _ = ray.wait(list(under_way))
        sampler, seed = under_way.pop(ref)
        try:
            fragments[seed] = ray.get(ref)
        except RayTaskError:  # first, as in `resilient_call`
            raise
        except RayActorError:
            deaths[seed] += 1
            if deaths[seed] == 3:
                raise
            todo.insert(0, seed)
            sampler = new_sampler()
        idle.append(sampler)
    return [fragments[seed] for seed in seeds]
    ### END SOLUTION

# %%
check("collect", collect)

# %% [markdown] tags=["solution"]
r"""
`under_way` is the heart of it: a reference alone tells you that *something* died, the dict tells you which sampler, and over which seed.
Old samplers need no `ray.kill`: an actor ends when the last handle to it is gone.
"""

# %% [markdown]
r"""
Here is your pool at work: three samplers, twelve fragments, and deaths over the seeds 3 and 7.
The picture comes from the diary, because a killed process may take Ray's record of its last call with it.
"""

# %% tags=["demo"]
from coursekit.given.ch05_faults import FragileSampler, calls_in

if passed("collect"):
    diary, fragile = Diary(), ray.remote(FragileSampler)
    fragments = collect(lambda: fragile.remote(diary, [3, 7]), 3, range(12))
    calls = calls_in(diary)
    timeline(calls).set_title(f"{len(fragments)} fragments in {len(calls)} calls, {diary.count('dies')} deaths")

# %% [markdown]
r"""
A hatched bar is a call that failed: the last one of its process.
The rows need not begin together: each sampler and each replacement waits for its own process to start.
The other samplers keep working.
"""

# %% tags=["demo"]
ray.shutdown()

# %% [markdown]
r"""
## Some deaths end everything

- **The driver**, your notebook, takes its tasks, its objects and its actors along, except detached ones (chapter 3) on a cluster that stays.
- **The head node** runs the GCS, which knows where everything is.
  Without it the cluster is gone, unless its tables are kept outside: in a Redis, or, new in Ray, in RocksDB on a disk that outlives the head.
  KubeRay, which runs Ray on Kubernetes, can set up the Redis for you (chapter 24).
- **Memory.** On Linux, when a node's memory is nearly full, Ray kills a worker before the operating system does.
  It does not count such a death against `max_retries`: the limit for these deaths, `task_oom_retries`, is infinite by default.
  So a task that needs more memory than the node has does not fail after four attempts; Ray kills and restarts it forever.
  With `max_retries=0` it fails at once, with `OutOfMemoryError`.
  Each retry needs as much memory as the first attempt: run fewer such tasks at a time.

The cells of this chapter work on a Mac as well; only Ray's watch over memory needs Linux.
Windows has no `SIGKILL`: run the course in WSL.
"""

# %% [markdown]
r"""
## What you can do now

- You keep results and failures apart, and read from an exception what died.
- You know that Ray repeats a task that died, not one that raised, and starts it from scratch.
- You have measured the gap before a next attempt: milliseconds, a second, or many seconds.
- You write calls that may happen twice, actors that remember, and pools that heal.

## Traps

- **`except Exception: pass`** around a `ray.get` turns a failure into a wrong result.
- **`max_retries=3` is the default.** Ray silently repeats a task with effects: give it a key, or `max_retries=0`.
- **A key made inside the task** is a new key at every attempt.
- **A time-out cancels nothing**, and its clock runs while the task is still in the queue.
- **`max_restarts` brings the process back, not its state**; `max_task_retries` repeats calls that had taken effect.
- **Cleaning up in `finally`, `atexit` or `__del__`** does not happen when a process is killed.
- **A task too large for the node's memory** is retried forever on Linux, not four times.

## Read on

- [Chapter 6](ch06_cluster.ipynb): the processes you have been killing, one by one.
- Ray's documentation on fault tolerance of [tasks](https://docs.ray.io/en/latest/ray-core/fault_tolerance/tasks.html), [actors](https://docs.ray.io/en/latest/ray-core/fault_tolerance/actors.html) and [objects](https://docs.ray.io/en/latest/ray-core/fault_tolerance/objects.html).
- Wang et al., [*Ownership: A Distributed Futures System for Fine-Grained Tasks*](https://www.usenix.org/conference/nsdi21/presentation/cheng), NSDI 2021: how Ray keeps lineage.
- Candea and Fox, *Crash-Only Software*, HotOS 2003: programs that you always end by killing them.
- [Old names](../docs/old_names.md): `max_reconstructions`, `RayTimeoutError` and others you may meet in older code.
"""
