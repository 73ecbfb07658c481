# %% [markdown] you_learn_to="check your machine, start Ray, run a first task"
r"""
# Chapter 0 · Many processes, one program

*About 30 minutes · builds on nothing but Python*

**What you will be able to do**

- say what distributed computing gives, and what it costs;
- tell whether this machine is ready for the course;
- use `check`, `hint`, `quiz` and `progress`, which answer you all through the course;
- start Ray, run your first tasks, and name the processes that Ray started.

Run a cell with **Shift + Enter**.
Begin with this one:
"""

# %%
import time

import ray

from coursekit import begin, check, examine, hint, progress, quiz, recorded, solution, timeline, warm_up
from coursekit.given.ch00_start import nap, ray_processes

begin("ch00_start")

# %% [markdown] tags=["notes"]
r"""
Ten minutes of welcome.
Everybody runs the first cell while you talk: a kernel that does not start is found now, not in chapter 3.
Then run the preflight together and ask who has a verdict other than "Ready".
"""

# %% [markdown]
r"""
## One computer is a team already

A program in one process uses one core.
A **distributed** program is several processes that work on one job.
They may run on the cores of one machine, or on many machines, called **nodes**, that talk over a network.

Your notebook is the **driver**, the program that hands out work; **workers** do it.
(The other names come further below.)

![A driver on one node sends tasks to workers on several nodes; results go through an object store on each node](../img/ch00_cluster.svg)

What it gives: more cores, more memory than one machine has, and work that goes on when one machine dies.

What it costs:

- **Communication.** Another process cannot see your variables.
  Whatever it needs is copied, over a network at worst.
- **Synchronisation.** Somebody waits for the slowest.
  Two processes that change one number must agree who is first.
- **Failure.** One process in a hundred dies while ninety-nine go on.
  A program on one machine never has to think about being half dead.

**Ray** is a framework that takes most of this work off your hands: you write Python functions and classes, Ray runs them in other processes, moves the data, and starts again what has died.
In this course you use it to build distributed **reinforcement learning**: many processes play, one learns.
You write it by hand first (chapters 1 to 10), then you do the same with RLlib, Ray's library for it (11 to 15), and at last you tune, serve and operate what you have trained (16 to 20).
"""

# %% [markdown]
r"""
## Your machine passes its preflight, or says what is missing

Two cores and 8 GB of memory are enough for every chapter.
This cell looks at yours, and ends in one verdict.
"""

# %% tags=["demo"]
examine()

# %% [markdown]
r"""
## Every exercise answers you at once

An exercise looks like the one below: a function with a gap, and under it a cell that checks your answer.
The check calls your function and tells you what it tried and what came back.
You may run it as often as you like.

Here is the arithmetic that you need all through the course.
Twelve tasks of 0.5 s on four workers run in three rounds of four, so they take 1.5 s at best.
Thirteen tasks need a fourth round: 2 s.

**Predict** before you write code: how long do eight tasks of 0.2 s take on four workers, and how long on three?

Now write `best_seconds`.
Run the two cells below once as they are: the check says that the exercise is still to do, and costs nothing.
Then replace the line with `raise`, keep the rest, and run both again.
"""


# %%
def best_seconds(tasks, seconds_each, workers):
    """Return the seconds that equal tasks take at best: full rounds of `workers` tasks, and nothing else."""
    ### BEGIN SOLUTION
    rounds = -(-tasks // workers)
    return rounds * seconds_each
    ### END SOLUTION


# %%
check("best_seconds", best_seconds)

# %% [markdown]
r"""
When you are stuck, ask for a hint in a cell of your own; there are several, from vague to plain.
After three attempts, or when you have passed, `solution("best_seconds")` shows ours.
"""

# %% tags=["demo"]
hint("best_seconds")

# %% [markdown] tags=["solution"]
r"""
`-(-tasks // workers)` rounds up; `math.ceil(tasks / workers)` does the same and reads more easily.
The classic slip is `tasks / workers * seconds_each`, which is right only when the division has no remainder: nobody runs a third of a round.
"""

# %% [markdown]
r"""
A quiz works the same way.
Choose a letter, write it in quotes, and run the two cells.
A wrong choice answers too, and says what is behind it.
"""

# %%
### BEGIN SOLUTION
what_distribution_costs = "c"
### END SOLUTION

# %%
quiz("what_distribution_costs", what_distribution_costs)

# %% [markdown]
r"""
## `ray.init` starts a small cluster on your machine

`num_cpus=4` tells Ray to run up to four tasks at a time.
It is a number for Ray's bookkeeping: it may be larger than the number of cores you have, and in this course it often is, because a task that waits does not need a core.

**Predict:** how many processes does this one line start?
"""

# %% tags=["demo"]
ray.init(num_cpus=4, include_dashboard=False)
print(f"slots for tasks: {ray.cluster_resources()['CPU']:.0f}")

# %% tags=["demo"]
ray_processes()

# %% [markdown]
r"""
More than most people guess, and some that you did not ask for: even without its web page, the dashboard's process runs.
Only two workers are there yet; Ray starts more when there is work for them.
The **raylet** is the manager of this node: it starts workers, hands out tasks and holds the **object store**, the memory through which processes share data.
The **GCS** (global control service) is the memory of the whole cluster: which nodes there are, and what runs where.
The monitors collect logs and load.
Each **worker** waits for a task.
Chapter 6 takes all of them apart.
"""

# %% [markdown] tags=["notes"]
r"""
Five minutes.
Let somebody read the list aloud and guess each name.
A question that always comes: "Why four CPUs, I have two?"
They are slots for bookkeeping; a nap needs a slot and no core.
Real computation on two cores gets no faster with four.
"""

# %% [markdown]
r"""
## The first tasks run side by side

`nap(seconds)` sleeps and returns the process that slept.
`ray.remote` makes a **task** of it.
A call with `.remote()` returns at once with a *reference*, a receipt for a result that may not exist yet; `ray.get` waits for the results.

**Predict:** eight naps of 0.2 s take 1.6 s one after the other.
How long on four workers?
Your `best_seconds` knows.
"""

# %% tags=["demo"]
warm_up(4)  # each worker is a process that has to start: do not measure that
nap_task = ray.remote(nap)

for attempt in ("first", "second"):
    start = time.perf_counter()
    with recorded() as run:
        pids = ray.get([nap_task.remote(0.2) for _ in range(8)])
    print(f"{attempt} time: {time.perf_counter() - start:.2f} s, in {len(set(pids))} processes")

# %% [markdown]
r"""
The first time, Ray also has to send the function to each worker and to find a slot for it; the second time all is in place, and what is left above your prediction is what Ray itself costs.
The picture shows when each task of the second run ran, and where.
It is drawn from Ray's own records of *your* run, as every figure in this course is:
"""

# %% tags=["demo"]
timeline(run);

# %% [markdown]
r"""
Two rounds of four, side by side.
When you are done with a notebook, stop its Ray, so that the next one has the machine to itself:
"""

# %% tags=["demo"]
ray.shutdown()

# %% [markdown]
r"""
`progress()` shows what you have earned in the whole course; in a terminal, `coursekit progress` does.
"""

# %% tags=["demo"]
progress()

# %% [markdown]
r"""
## What you can do now

- You can say what distribution gives (cores, memory, survival) and costs (communication, synchronisation, failure).
- You know that your machine is ready, and how to ask it again: `coursekit doctor`.
- You have met `check`, `hint`, `quiz` and `progress`.
- You started Ray, saw its processes, and ran eight tasks in the time of two.

## Traps

- The first tasks after `ray.init` are slow: they wait for worker processes to start, and for the function to get there.
  Warm up before you measure.
- `num_cpus` is bookkeeping.
  It limits how many tasks Ray runs at a time; it adds no cores to your machine.

## Read on

- [Chapter 1](ch01_tasks.ipynb): functions become tasks.
  From there the chapters build on each other like this, so that you need not read them all before the one that you came for:

  ![The chapters, and what each builds on](../img/learners_map.svg)
- [Ray's own overview](https://docs.ray.io/en/latest/ray-core/walkthrough.html) of tasks, actors and objects.
- Moritz et al., [*Ray: A Distributed Framework for Emerging AI Applications*](https://arxiv.org/abs/1712.05889), 2018: why Ray was built, and for whom: reinforcement learning.
"""
