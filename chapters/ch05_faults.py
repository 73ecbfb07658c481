# %% [markdown] you_learn_to="kill workers, actors, and nodes, and keep your program running"
r"""
# Chapter 5 · Fault tolerance

Anything can die, and a retry starts from scratch.

*About 120 minutes · builds on [Chapter 3](ch03_actors.ipynb); [Chapter 4](ch04_scheduling.ipynb) helps*

**What you will be able to do**

- tell from an exception what died, and keep the results that you have even if others are missing;
- explain what Ray retries automatically and what it leaves to you, and measure what a retry costs;
- write calls that survive process deaths and timeouts, and that do no harm if they run twice;
- make an actor's state outlive its process, and build a pool that replaces its dead actors;
- kill a process, an actor, and a whole node on purpose, and see whether your program survives.
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

from coursekit import begin, budget, check, explain, hint, measured, passed, predict, progress, puzzle, quiz, recorded
from coursekit import review, solution
from coursekit import timeline, track, warm_up
from coursekit.given.ch05_faults import Diary, ask_nodes_every, kill_process_of, story, work, work_in_steps
from coursekit.given.deaths import keep_news_of_deaths

begin("ch05_faults")

# %%
ask_nodes_every(0.5)  # seconds between Ray's health checks of a node
ray.shutdown()  # stops a Ray instance that's already running here: its references and actors are gone
ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)  # what dying processes print stays in their log files
warm_up(4)
news = keep_news_of_deaths()

# %% [markdown]
r"""
Two things are unusual here.
First, you're about to kill a few dozen processes, and Ray reports each death in half a page of text.
In this chapter, `news` collects these reports instead of printing them, and you'll read one below.
In your own programs, leave the reports on.
Second, `ask_nodes_every` sets environment variables that Ray reads when it starts.
With them, Ray checks every half second, instead of every three seconds, whether a node is still there, so you wait less when you kill one.
"""

# %% [markdown] tags=["notes"]
r"""
The run sheet allots two hours, with `collect` as homework.
Start with a question: your training runs on 100 machines, and each of them fails once in three years.
How often does something fail?
About once every eleven days.
Everything that follows is about that day.
"""

# %% [markdown]
r"""
## An error surfaces when you fetch the result

`.remote()` returns a reference without waiting for the function.
So if the function fails, the error is stored behind that reference, and `ray.get` raises it.
If you never fetch the result, you can easily miss the error.
The type of the exception tells you what failed.

The task below fails in a way that you choose, and so does the actor.
`signal.SIGKILL` kills a process on the spot: no `except`, no `finally`, no goodbye.
A power failure does the same, and so does the operating system when memory runs out.
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
    """Return a row of the table: what happened, the exception that `ray.get` raised, and its cause."""
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
rows += [caught("it was canceled", sleeping)]
pandas.DataFrame(rows)

# %% [markdown]
r"""
There are five kinds of failure and five types of exception, each of them a `ray.exceptions.RayError`.
The first one is special: Ray creates a type that is a `RayTaskError` *and* a `ZeroDivisionError`, so `except ZeroDivisionError` catches it as if the function had run in your notebook.
The original exception is in `error.cause`.
The other four have no cause, because none of your code raised anything.

Some calls never leave your notebook: if the arguments don't match the function's signature, or one of them can't be serialized, `.remote()` itself fails.
"""

# %% tags=["demo"]
wrong_calls = {
    "one argument too many": lambda: task.remote("raises", 2),
    "an argument that cannot be serialized": lambda: task.remote(letter for letter in "raises"),
}
for title, call in wrong_calls.items():
    try:
        call()
    except Exception as error:
        print(f"{title}: {type(error).__name__} from .remote()")

# %% [markdown]
r"""
A call to an actor also fails at `.remote()` if you limit the actor's queue with `max_pending_calls` and the queue is full.

When you make many calls, one failure must not cost you the results of the others.
If you call `ray.get(refs)` on a list, it raises the first error that it meets and returns nothing.
Write `survivors`, which keeps results and failures apart.
By default, Ray retries a task up to three times if its process dies, as the next section shows; `max_retries=0` turns that off.
If you wait for each call before you launch the next, the check takes 20 s longer.
"""


# %%
def survivors(function, xs):
    """Return (results, errors): the value of function(x) for each call that returned one, and a type's name for each that failed.

    Both are dicts with x as the key. The name is that of the exception that the function raised, or
    "WorkerCrashedError" if its process died. Make each call once, in a task of its own, and launch all
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
Even if you can live with a failure, it's still a result, so record it.
"""

# %% [markdown]
r"""
## Ray retries when a process dies, not when a function raises

When a task's process dies, Ray launches the task again, up to `max_retries=3` times.
Perhaps a machine lost power, and the next attempt may succeed.
By default, Ray doesn't retry a function that *raises*, because a bug in the code is still there the next time.

To watch this, you need a record that survives the process.
A `Diary` is a file in which every process records what it does.
`work` does its work in parts, with a short sleep for each, and records every one.
On its first attempt, it kills its own process after `dies_after` parts.
`diary.write(event)` returns how many times that event had been written *before*, so a process can tell whether it was first.

**Predict:** the work has ten parts, and the process dies after seven of them.
How many parts does the diary list in the end?
"""

# %% tags=["demo"]
predict("parts_with_a_retry", ...)  # parts

# %% tags=["demo"]
work_task, diary = ray.remote(work), Diary()
with recorded() as run:
    ray.get(work_task.remote(diary, 10, dies_after=7))
print(f"{diary.count('begins')} attempts, {diary.count('part')} parts")
display(pandas.DataFrame(run.tasks())[["name", "attempt", "state", "error", "worker_pid"]])
measured("parts_with_a_retry", diary.count("part"))

# %% [markdown]
r"""
The diary lists seventeen parts, not ten: the second attempt ran in another process and started with nothing from the first.
Ray's own records show both attempts.

Here is the report that Ray prints about such a death.
*SYSTEM_ERROR* means that the process exited without a goodbye: all that Ray saw was a closed connection.
In practice, the usual reason is memory.
The operating system kills a process that uses too much of it, unless Ray gets there first, as the last section explains.
"""

# %% tags=["demo"]
print(textwrap.fill(news.wait(), 110))

# %% [markdown]
r"""
Some exceptions *are* worth another attempt, such as those from a busy server or a network hiccup.
List them by type:

```python
ray.remote(function).options(retry_exceptions=[ConnectionError], max_retries=5)
```

`retry_exceptions=True` retries after every exception, including those that come from bugs in your code.
"""

# %%
### BEGIN SOLUTION
how_many_runs = "c"
### END SOLUTION

# %%
quiz("how_many_runs", how_many_runs)

# %% [markdown]
r"""
## Without a checkpoint, a retry does all of the work again

You might expect a retry to resume where the last attempt stopped.
It can't, because the progress was in the memory of a process that is gone.

![Without a checkpoint, the second attempt does all parts again; with a checkpoint, it does only those that are missing](../img/ch05_retry.svg)

`work_in_steps` does the same work, but it starts with the first part that is missing from the diary.
Here, the diary is a [checkpoint](../docs/glossary.md#checkpoint): progress written to a place that survives the process.

The next cell kills both versions, each at several points in the work.
Twenty parts of 0.05 s add up to one second, and the whole cell takes about 20 seconds.
"""

# %% tags=["demo"]
ways, stories = {"all again": work_task, "with a checkpoint": ray.remote(work_in_steps)}, {}
for dies_after in track(budget([2, 6, 10, 14, 18], [18]), "points of the work"):
    for name, way in ways.items():
        warm_up(2)  # so that the second attempt doesn't wait for a process to start
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
axes.set_title("Without a checkpoint, all of the work is done again")
axes.set_xlabel("seconds (dashed: the same work without a death)")
axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False);

# %% [markdown]
r"""
Compare the dark bars.
Without a checkpoint, each of them is one second long: no matter when the process dies, the retry does *all* of the work again.
So a late death costs the most, and a ten-hour task that dies in its last minute takes twenty hours.
With a checkpoint, the pale bar and the dark bar add up to one second.

There is a second remedy: make the tasks smaller, but not so small that the overhead you measured in Chapter 1 outweighs the work.
If the twenty parts are twenty tasks, a death costs only one of them.
The gray gap always remains, and you'll find out below where it comes from.
"""

# %% [markdown]
r"""
## A timeout ends your wait, not the task

Not every failure is a death.
Some calls hang, and `ray.get` waits forever unless you give it a limit.

**Predict:** the task needs one second for its twenty parts, and you stop waiting after 0.3 s.
How many parts will the task have done in the end?
"""

# %% tags=["demo"]
predict("parts_after_a_timeout", ...)  # parts

# %% tags=["demo"]
diary = Diary()
ref = work_task.remote(diary, 20)
try:
    ray.get(ref, timeout=0.3)
except GetTimeoutError:
    print(f"timeout after {diary.count('part')} parts")
print(f"fetched again: {ray.get(ref)} parts")
measured("parts_after_a_timeout", diary.count("part"))

# %% [markdown]
r"""
All twenty: `GetTimeoutError` says nothing about the task, which kept running and kept its CPU.
If you give up on a task for good, cancel it.
`ray.cancel(ref)` raises `KeyboardInterrupt` in the task, but only when its process next executes Python, so a long `time.sleep` or a blocked socket delays it.
`ray.cancel(ref, force=True)` kills the process.
A call that an actor is already running can't be killed this way: `force=True` raises `ValueError`.
Without it, an async method is canceled like any `asyncio` task, and any other method has to check `ray.get_runtime_context().is_canceled()` from time to time.

The clock starts when you call `ray.get`, not when the task starts.
In the next cell, four long tasks hold all four CPUs, and a short one waits in the queue:
"""

# %% tags=["demo"]
long, short = Diary(), Diary()
busy = [work_task.remote(long, 1, seconds=60) for _ in range(4)]
try:
    ray.get(work_task.remote(short, 1), timeout=1)
except GetTimeoutError:
    print(f"timeout, and the short task has started {short.count('begins')} times")
for ref in busy:
    ray.cancel(ref, force=True)

# %% [markdown]
r"""
The limit also covers the time in the queue and the time that it takes to start a process.
On a loaded cluster, a tight limit makes you cancel attempts that never ran, so leave room for the queue.

> **A trap in Ray 2.60.** Cancel what timed out, and nothing else.
> If you cancel a task at the very moment it finishes, whether it returns or raises, your whole program can exit with "An unexpected system state has occurred".
> That moment lasts well under a millisecond, but a task may finish right between your timeout and your `ray.cancel`, and checking again doesn't close this gap.
> If your program must not die, let an actor do such work and stop the actor with `ray.kill`, which doesn't have this trap.
"""

# %%
### BEGIN SOLUTION
what_a_timeout_ends = "a"
### END SOLUTION

# %%
quiz("what_a_timeout_ends", what_a_timeout_ends)

# %% [markdown]
r"""
Write `resilient_call`, which makes a call that may die, raise, or time out.
It counts the attempts itself, because Ray's `max_retries` ignores timeouts.
The check makes functions die, raise, and hang, and counts your calls.
If you don't cancel a call that hangs, the check takes 20 s longer.
"""


# %%
def resilient_call(function, x, attempts, seconds):
    """Return function(x), computed in a task, with at most `attempts` attempts in all.

    Make another attempt if the process died, or if the result wasn't there `seconds` after the launch,
    time in the queue included; cancel such a call. After the last attempt, raise its error (Ray's
    GetTimeoutError is a TimeoutError). Raise an exception of the function itself at once.
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
`except RayTaskError` comes first because a function may itself raise one of Ray's errors: the `GetTimeoutError` of a `ray.get` inside the function arrives as a `RayTaskError` *and* a `GetTimeoutError`.
With the default `max_retries=3` inside the loop, attempts multiply: three of yours become up to twelve.
And a timeout that is too short is worse than none, because it cancels every attempt just before it finishes, or before it has even started.
Real systems also wait a little longer before each attempt, so that a struggling server doesn't receive all of the retries at once.
This solution isn't safe from the trap above, either: a task that finishes right between the timeout and the cancellation may bring the program down.
"""

# %% [markdown]
r"""
## A retry also repeats the side effects

A task may do something to the outside world: send an email, insert a row, or move money.
The dangerous moment lies between the effect and the answer.
If the process dies in that moment, the effect has happened, but nobody was told.

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
    """Deposit the amount; the first attempt dies before it can report that."""
    ray.get(ledger.deposit.remote(amount))
    if diary.write("pays") == 0:
        diary.die()


ledger, diary = NaiveLedger.remote(), Diary()
ray.get(pay.remote(ledger, 100, diary))
print(f"ordered once, attempted {diary.count('pays')} times, balance {ray.get(ledger.deposit.remote(0))}")

# %% [markdown]
r"""
![A deposit reaches the ledger, the task dies before it can report that, and the retry deposits again; with a key, the ledger recognizes the repeated payment](../img/ch05_once.svg)

With retries, a task that succeeds has run [at least once](../docs/glossary.md#at-least-once).
For an effect outside its own records, no scheduler can promise *exactly-once* execution, because it can't see whether the effect has happened; [Chapter 25](ch25_pipelines.ipynb) takes such promises apart.
So an action that may be repeated must be [idempotent](../docs/glossary.md#idempotent): doing it twice has the same effect as doing it once.
Setting a value is idempotent; adding to it isn't.

For everything that adds, sends, or pays, the remedy is a key.
Each payment gets its key when it is *ordered*.
When the ledger sees the same key again, it knows that it has already made this payment, and it returns the same answer as before.
Banks and online shops do it this way.
Write such a `Ledger`.
"""


# %%
class Ledger:
    """Keep a balance that counts every payment once, however often it arrives."""

    def __init__(self):
        ### BEGIN SOLUTION
        self.total = 0
        self.answers = {}
        ### END SOLUTION

    def deposit(self, key, amount):
        """Add the amount and return the new balance.

        If this ledger has seen the key before, change nothing and return the same answer as then.
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
Why return the old answer, and not the current balance?
The caller never received the answer of the first attempt, and from outside, an idempotent call looks as if it had happened once.
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
## A restarted actor has lost its state

Ray restarts an actor only if you ask for it, and it retries the actor's calls only if you ask for that, too:

| option | the default, 0 | with -1 |
|---|---|---|
| `max_restarts` | The actor stays dead, and every call raises `ActorDiedError`. | Ray restarts the process as often as needed. |
| `max_task_retries` | A call that was running raises `ActorDiedError`, or `ActorUnavailableError` if the actor is being restarted. | Ray makes the call again, *even if it had already taken effect*; calls that you made later may run before it. |

Both exceptions are subclasses of `RayActorError`, so catch that class.
`ActorDiedError` is final; after `ActorUnavailableError`, a later call may succeed.

**Predict:** the total of the counter below is 3 when its process is killed.
What does the next `add(1)` return?
"""

# %% tags=["demo"]
predict("total_after_a_restart", ...)

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
measured("total_after_a_restart", ray.get(counter.add.remote(1)))

# %% [markdown]
r"""
It returns 1, not 4: a restart only runs `__init__` again, with the same arguments.
A *sampler*, an actor that runs an agent in an environment, loses its weights and the state of its environment when it's restarted this way, so your program must send it the weights again.
If the state matters, the actor must save it, and `__init__` must look for what was saved.
Two rules make this safe:

- **Save before you return.** The caller will rely on the answer.
- **Never overwrite the only copy.** `open(path, "w")` empties the file, and only then is it filled again; a process that dies in between leaves half a file, or nothing.
  Write to another name in the same folder, and then rename: `os.replace(new, path)` is *atomic*, which means that a reader finds either the old file or the new one, never a mixture.

Write `CheckpointedCounter`, which follows both rules.
The file format is up to you.
The check kills the process between two calls, and also inside an `add`, after each change that `add` makes to a file.
The restarted actor must be able to read the file.
On a cluster, the actor may be restarted on another node, so use shared storage there.
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
Saving in `atexit`, `__del__`, or `finally` looks elegant, but it never happens: after SIGKILL, none of them runs.
If a call is cheap to repeat, as in training, you can save every hundredth call: you lose at most 99 steps, and you know it.
The rename is enough if a process dies; to survive a power failure, also call `os.fsync` on the new file before you rename it, and on its folder afterward.
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
Saving the state is only half of the solution.
With `max_task_retries=-1`, Ray retries a call whose process died after the save, and then the call counts twice.
So `add` needs a key, like a payment, and a ledger must save its keys together with its total.
You choose between *at most once*, the default for actors, and *at least once*, the default for tasks (up to `max_retries`).
If a call is idempotent, *at least once* has the same effect as *exactly once*.
"""

# %% [markdown] tags=["notes"]
r"""
This is a good place for a break.
Somebody always asks why Ray doesn't save the state automatically: only you know which state matters, how often it's worth saving, and where.
Ask what the state of a learner is (weights, optimizer, step count, seeds), and who has lost a night of training to a checkpoint without the optimizer.
"""

# %% [markdown]
r"""
## Ray rebuilds lost results by running their tasks again

A node is more than its processes: when it dies, the large results in its object store are lost as well.
But Ray has recorded the [lineage](../docs/glossary.md#lineage) of each task's result: which task produced it, and from which arguments.
If you need a lost object, Ray runs that task again.

Now kill a node.
`second_node` adds a second node to your cluster, with its own processes, though on the same machine.
A `NodeAffinitySchedulingStrategy` names the node that a task should run on, and `soft=True` lets it run elsewhere if that node is dead (Chapter 4).

**Predict:** two tasks ran on the node that dies, and the second one used the first one's result.
You fetch only the second result.
What does Ray run again?
"""

# %% tags=["demo"]
predict("after_the_node_died", ..., ["nothing", "only the second task", "both tasks"])

# %% tags=["demo"]
from coursekit.given.ch05_faults import second_node


def ones(diary, count):
    """Return an array of ones, and record the call."""
    diary.write("ones")
    return np.ones(count)


def double(array, diary):
    """Return the array times two, and record the call."""
    diary.write("double")
    return 2 * array

# %% tags=["demo"]
diary = Diary()
with second_node() as node:
    there = NodeAffinitySchedulingStrategy(node.node_id, soft=True)
    array = ray.remote(ones).options(scheduling_strategy=there).remote(diary, 1_000_000)
    doubled = ray.remote(double).options(scheduling_strategy=there).remote(array, diary)
    ray.wait([doubled], fetch_local=False)  # wait until it exists, but leave it on its node
    print("before:", {name: diary.count(name) for name in ("ones", "double")})
    node.kill()
    killed = time.time()
    print("the sum:", ray.get(doubled).sum())
print("after: ", {name: diary.count(name) for name in ("ones", "double")})
node_gap = diary.lines("ones")[1]["time"] - killed
print(f"{node_gap:.1f} s from the death of the node until its first task ran again")
again = diary.count("ones") + diary.count("double") - 2
measured("after_the_node_died", ["nothing", "only the second task", "both tasks"][again])

# %% [markdown]
r"""
![Two arrays are stored on a node that dies; Ray runs both tasks again on the node that is left](../img/ch05_lineage.svg)

Both tasks ran twice: to run the second one again, Ray first had to rerun the first one, whose result was lost as well.
You got an array and saw no error.
But it's a *different* array.
If the task uses random numbers, or reads a file that has changed, the rerun produces a different result, so let the results of your tasks depend on their arguments alone, seeds included.

Lineage has limits:

- An array stored with `ray.put` has no lineage, because no task produced it.
- The results of an actor's methods are rebuilt only if the actor restarts and `max_task_retries` allows another call.
- The process that *launched* the task keeps the lineage, so if that process dies, the objects are lost (`OwnerDiedError`).
- Each rebuild counts against `max_retries`; with 0, nothing is rebuilt.
"""

# %%
### BEGIN SOLUTION
what_comes_back = "a"
### END SOLUTION

# %%
quiz("what_comes_back", what_comes_back)

# %% [markdown]
r"""
## What a failure costs depends on how Ray detects it

The gray gap was the time between a failure and the next attempt.
Measure it on your machine for five kinds of failure: an exception that you retry in a loop, an exception that Ray retries (`retry_exceptions`), a dead process, a dead actor, and a dead node.
`stumble` fails once and then works; its failure is an exception or the death of its process.
Ten rounds take about half a minute.

**Predict:** the process of a task dies, and another worker process is idle.
How many seconds pass until the next attempt starts?
"""

# %% tags=["demo"]
predict("gap_after_a_death", ...)  # seconds

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
    "exception,\nretried by Ray": retried.remote,
    "process died": lambda diary: stumble_task.remote(diary, "dies"),
    "actor died": stumbler.stumble.remote,
}

# %% tags=["demo"]
gaps = {name: [] for name in ways}
for _ in track(range(budget(10, 1)), "rounds"):
    for name, launch in ways.items():
        warm_up(2)  # an idle process for the next attempt
        diary = Diary()
        ref = launch(diary)
        if ref is not None:
            ray.get(ref)
        gaps[name].append(story(diary)["gap"])
gaps["node died"] = [node_gap]
measured("gap_after_a_death", np.median(gaps["process died"]))

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
The gaps range from milliseconds to seconds, and each has its reason.
If a new process must start, that can take longer on a busy machine than everything else.

| what fails | how Ray or your code detects it | what you wait for |
|---|---|---|
| a call, in **your own loop** | The exception arrives. | one message: milliseconds |
| a call that **Ray retries** | The exception arrives. | the next poll: the process that launched the task looks once per second for tasks to retry, so this takes up to a second |
| **a process** | Its connection closes. | the next poll, and a new process if none is idle (here, `warm_up` left one) |
| **an actor** | Its connection closes. | the next poll, while the actor restarts in an idle process (or a new one) and runs its `__init__` |
| **a node** | It fails five health checks in a row. | five pauses between checks, of 0.5 s each here, or of 3 s by default (about 15 s in all); if a machine lost power, each check also waits for its 10 s timeout (about a minute in all) |

So if you have many small tasks that fail often, retry them in your own code.
The total cost of a failure is this gap, plus the time to repeat the lost work and to load the state again.
"""

# %% [markdown]
r"""
## A pool that replaces its dead actors

Here, a sampler returns *fragments*, stretches of experience, each chosen by a seed.
A learner takes fragments from a pool of samplers, for days.
Some samplers will die, and the learner shouldn't notice.
`max_restarts` restarts *the same* actor, which doesn't help if the work kills it.
So manage the pool yourself, and always know which sampler works on which seed.
Follow four rules:

1. When a sampler dies, put its seed back in the queue: no seed is lost, and no other seed is repeated.
2. Replace the dead sampler at once, because a shrinking pool is slow by evening and empty by morning.
3. At the third death on the same seed, stop the collection by raising that death's error.
   Such a seed is a [poison pill](../docs/glossary.md#poison-pill): it would kill every sampler that you make.
4. If `sample` *raises* an exception, its sampler hasn't died.
   Let the exception propagate, because a new sampler wouldn't help.

Write `collect`, which follows them.
The check keeps two samplers at work and kills several along the way.
If your calls can't run in parallel, it takes a minute.
"""


# %%
def collect(new_sampler, samplers, seeds):
    """Return the fragment of each seed, in the order of the seeds, from a pool that replaces samplers that die.

    `new_sampler()` returns a new actor, and `sampler.sample.remote(seed)` a reference to a fragment.
    `samplers` is their number: that many work at any moment, fewer only when fewer seeds are left.
    Retry a seed whose sampler died; at the third death on the same seed, raise the error.
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
The heart of it is `under_way`: a reference alone tells you that *something* died, and the dict tells you which sampler died, and on which seed.
The old samplers need no `ray.kill`, because Ray stops an actor when the last handle to it is gone.
"""

# %% [markdown]
r"""
Here is your pool at work: three samplers, twelve fragments, and deaths on seeds 3 and 7.
The plot is made from the diary, because Ray may lose its record of a killed process's last call.
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
A hatched bar is a call that failed, the last one of its process.
The rows may start at different times, because each sampler and each replacement waits for its own process to start.
While a replacement starts, the other samplers keep working, as long as there are seeds left.
"""

# %% tags=["demo"]
ray.shutdown()

# %% [markdown]
r"""
## Some failures end everything

- **The driver**, here your notebook: its tasks, its objects, and its actors end with it, except detached actors (Chapter 3) on a cluster that keeps running.
- **The head node** runs the GCS, which keeps the cluster's records.
  If it fails, so does the cluster, unless you keep the GCS's tables elsewhere: in a Redis instance that you run, or in a RocksDB database on a disk that outlives the head node (this option is still in alpha).
  On Kubernetes, KubeRay connects the head node to your Redis (Chapter 24).
- **Memory.** On Linux, when a node's memory is nearly full, Ray kills workers before the operating system does.
  Ray doesn't count such a death against `max_retries`; the limit for these deaths, `task_oom_retries`, is infinite by default.
  So a task that needs more memory than the node has doesn't fail after four attempts: Ray kills and retries it forever.
  With `max_retries=0`, it fails at once, with `OutOfMemoryError`.
  If each task fits but several together don't, tell Ray how many bytes each one needs (`ray.remote(memory=4 * 2**30)`), and it runs only as many at a time as fit.

The cells of this chapter also work on a Mac; only Ray's memory monitor needs Linux.
Windows has no `SIGKILL`, so run the course in WSL there.
"""

# %% [markdown]
r"""
## What you can do now

- You can keep results and failures apart, and tell from an exception what died.
- You know that Ray retries a task whose process died, not one that raised, and that a retry starts from scratch.
- You've measured the gap before the next attempt: milliseconds, a second, or many seconds.
- You can write calls that may run twice, actors that recover their state, and pools that replace their dead.

## Traps

- **`except Exception: pass`** around a `ray.get` turns a failure into a wrong result.
- **`max_retries=3` is the default.** Ray repeats a task with side effects without asking: give it a key, or set `max_retries=0`.
- **A key made inside the task** is a new key on every attempt.
- **A timeout cancels nothing**, and its clock runs even while the task is still in the queue.
- **`ray.cancel` doesn't interrupt a blocking call**, and a running call of an actor can't be killed with `force=True`.
- **`max_restarts` restarts the process, but its state is lost**; `max_task_retries` repeats even calls that had taken effect.
- **Cleanup in `finally`, `atexit`, or `__del__`** doesn't happen when a process is killed.
- **A task that is too large for the node's memory** is retried forever on Linux, not three times.

## Read on

- [Chapter 6](ch06_cluster.ipynb): a tour of the processes that you've been killing.
- Ray's documentation on the fault tolerance of [tasks](https://docs.ray.io/en/latest/ray-core/fault_tolerance/tasks.html), [actors](https://docs.ray.io/en/latest/ray-core/fault_tolerance/actors.html), [objects](https://docs.ray.io/en/latest/ray-core/fault_tolerance/objects.html), and [the GCS](https://docs.ray.io/en/latest/ray-core/fault_tolerance/gcs.html).
- Wang et al., [*Ownership: A Distributed Futures System for Fine-Grained Tasks*](https://www.usenix.org/conference/nsdi21/presentation/cheng), NSDI 2021: how Ray keeps lineage.
- Candea and Fox, *Crash-Only Software*, HotOS 2003: programs that can only be stopped by killing them.
- [Old names](../docs/old_names.md): `max_reconstructions`, `RayTimeoutError`, and others that you may meet in older code.
"""
