# %% [markdown] you_learn_to="check your machine, start Ray, run a first task"
r"""
# Chapter 0 · Getting started

Many processes can work as one program.

*About 40 minutes · builds on nothing but Python*

**What you will be able to do**

- say what distributed computing gives, and what it costs;
- say where Ray comes from, and what it does that MPI and Spark do not;
- tell whether this machine is ready for the course;
- use `check`, `hint`, `quiz` and `progress`, which give you feedback throughout the course;
- start Ray, run your first tasks, and name the processes Ray started;
- use Ray in a project of your own.

Run a cell with **Shift + Enter**.
Begin with this one:
"""

# %%
import time

import ray

from coursekit import begin, check, examine, hint, progress, quiz, recorded, solution, timeline, warm_up
from coursekit.given.ch00_start import nap, ray_processes, run_program

begin("ch00_start")

# %% [markdown] tags=["notes"]
r"""
Have the room run the first cell while you talk: a kernel that does not start should show up now, not in chapter 3.
Then run the preflight together and ask who got a verdict other than "Ready".
"""

# %% [markdown]
r"""
## One computer is already a team

A program in one process runs your Python on one core at a time.
A **distributed** program is several processes that work on one job, on the cores of one machine, or on several machines, called **nodes**, that talk over a network.

Your notebook is the **driver**, the program that hands out work as tasks.
**Workers** carry them out.
You will meet the other names in the picture later in this chapter.

![A driver on one node sends tasks to workers on several nodes; each node has an object store for large results](../img/ch00_cluster.svg)

What you gain: more cores, more memory than one machine has, and work that can continue when a machine dies.

What it costs:

- **Communication.** Another process cannot see your variables.
  Everything it needs must be copied, at worst over a network.
- **Synchronisation.** The fast workers wait for the slowest.
  Two processes that change the same number must agree on who goes first.
- **Failure.** Of a hundred processes, one may die while the other ninety-nine keep running.
  A program in a single process never has to cope with being half dead.

**Ray** is a framework that takes most of this work off your hands.
You write Python functions and classes; Ray runs them in other processes, moves the data, and can restart what died.
In this course you use it to build distributed **reinforcement learning**: many processes play, one learns.
You first write it by hand (chapters 1 to 10), then with RLlib, Ray's library for it (11 to 15), and finally you tune, serve and operate what you have trained (16 to 20).
"""

# %% [markdown]
r"""
## Ray was built for reinforcement learning

Ray began around 2016 at Berkeley, in the research group that made Spark.
Its authors wanted to teach agents by simulation, and found no system for it: thousands of simulations of different lengths, a network that learns from them, and the same network answering the simulators, all in one program.
Their paper, linked under *Read on*, says so in its first sections.
The authors' company, Anyscale, has since developed Ray as open source, and in 2025 the project joined the PyTorch Foundation.

Two older systems also spread a program over many machines:

| | MPI | Spark | Ray |
|---|---|---|---|
| You write | one program; all processes run it, and send each other messages | what should become of a table or a collection | Python functions and classes, some of which run elsewhere |
| Who decides what runs where | you, before the start | Spark, stage by stage: the same work on each part of the data | Ray, call by call, while the program runs |
| State that changes | the variables of each process | none: each step makes new data | objects that live in processes of their own, the *actors* |
| When a process dies | normally the whole program ends | Spark computes the lost parts again | Ray runs lost tasks again, and restarts actors if you ask for it |
| At its best | physics in lockstep: each step exchanges numbers with the neighbours | filtering, joining and summing up large tables | different simulators, learners and services in one program |

They are neighbours more than rivals: *all-reduce*, the sum over all processes that MPI made popular, is how learners agree on a gradient, on Ray too.
"""

# %% [markdown]
r"""
## Your machine passes its preflight, or says what is missing

Two cores and 8 GB of memory are enough for every chapter.
This cell looks at your machine and ends with a verdict.
"""

# %% tags=["demo"]
examine()

# %% [markdown]
r"""
## Every exercise gives you feedback at once

An exercise is a function with a gap, followed by a cell that checks your answer.
The check calls your function and tells you what it tried and what came back.
Run it as often as you like.

Here is some arithmetic that you will need throughout the course.
Twelve tasks of 0.5 s on four workers run in three rounds of four, so they take 1.5 s at best.
Thirteen tasks need a fourth round: 2 s.

Now write `best_seconds`.
First run the two cells below as they are: the check says that the exercise is still to do, and you lose nothing.
Then replace the line that starts with `raise`, keep the rest, and run both again.
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
When you are stuck, ask for a hint in a cell of your own; there are several, each plainer than the last.
After three attempts, or once you have passed, `solution("best_seconds")` shows our answer.
"""

# %% tags=["demo"]
hint("best_seconds")

# %% [markdown] tags=["solution"]
r"""
`-(-tasks // workers)` rounds up; `math.ceil(tasks / workers)` does the same and reads more easily.
The classic slip is `tasks / workers * seconds_each`, which is right only if the division has no remainder: a round that is one third full still takes a whole round.
"""

# %% [markdown]
r"""
A quiz works the same way.
Choose a letter, write it in quotes in place of the dots, and run the two cells.
A wrong choice gets an explanation too.
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
The number is only for Ray's bookkeeping.
It may exceed your number of cores, and in this course it often does, because a task that only waits does not need a core.

You may run the cell twice: `ray.shutdown()` first ends the Ray that the first run has started.
The references and actors of that Ray are gone then, so also run the cells again that made them.

**Predict:** how many processes does `ray.init` start?
"""

# %% tags=["demo"]
ray.shutdown()  # ends a Ray that already runs here: its references and actors are gone
ray.init(num_cpus=4, include_dashboard=False)
print(f"slots for tasks: {ray.cluster_resources()['CPU']:.0f}")

# %% tags=["demo"]
ray_processes()

# %% [markdown]
r"""
More than most people guess, and some that you did not ask for: the dashboard's process runs even without its web page.
You may see fewer than four workers; the others start when there is work for them.
The **raylet** manages this node: it starts workers, finds room for tasks, and holds the **object store**, the memory through which processes share large data.
The **GCS** (Global Control Service) keeps the records of the whole cluster: its nodes, what lives on them, and where.
The monitors collect logs and watch the load.
Each **worker** waits for a task.
Chapter 6 takes them all apart.
"""

# %% [markdown] tags=["notes"]
r"""
Five minutes.
Ask a volunteer to read the list aloud and guess what each name means.
Somebody always asks: "Why four CPUs, when I have two?"
They are slots for bookkeeping; a nap needs a slot but no core.
Real computation on two cores gets no faster with four slots.
"""

# %% [markdown]
r"""
## The first tasks run side by side

`nap(seconds)` sleeps and returns the number of the process that slept.
`ray.remote` makes a **remote function** of it, and each call with `.remote()` launches a **task**.
The call returns at once with a *reference*, a receipt for a result that may not exist yet; `ray.get` waits for the results.

**Predict:** eight naps of 0.2 s take 1.6 s in a row.
How long do they take on four workers?
Your `best_seconds` knows.
"""

# %% tags=["demo"]
warm_up(4)  # each worker is a process that has to start: do not measure that
nap_task = ray.remote(nap)

for attempt in ("first", "second"):
    start = time.perf_counter()
    with recorded() as run:  # keeps Ray's records of the tasks in this block
        pids = ray.get([nap_task.remote(0.2) for _ in range(8)])
    print(f"{attempt} time: {time.perf_counter() - start:.2f} s, in {len(set(pids))} processes")

# %% [markdown]
r"""
The first time, each worker also has to fetch the function.
The second time everything is in place, and whatever exceeds your prediction is Ray's own cost.
The picture shows when and where each task of the second run ran, from Ray's own records of *your* run:
"""

# %% tags=["demo"]
timeline(run);

# %% [markdown]
r"""
Two rounds of four, side by side.

## A project of your own needs three lines and a guard

Outside a notebook, a Ray program is an ordinary Python file, like this one.
The cell writes it to a folder, prints it, and runs it as you would in a terminal.
"""

# %% tags=["demo"]
PROGRAM = """
import ray


def square(x):
    return x * x


def main():
    ray.init()
    square_task = ray.remote(square)
    print(ray.get([square_task.remote(x) for x in range(5)]))
    print(f"on a Ray with {ray.cluster_resources()['CPU']:.0f} CPUs")


if __name__ == "__main__":
    main()
"""
run_program(PROGRAM)

# %% [markdown]
r"""
The program started no Ray: it joined this notebook's, because the environment variable `RAY_ADDRESS` said where that is.
Without the variable, `ray.init()` joins the cluster that `ray start` started last on this machine; if there is none, it starts a Ray of its own.
So the same file runs on a laptop and on a cluster, unchanged.

- **Call `ray.init` in `main`, behind the guard, never at import.**
  Workers and tests import your modules too: there, a second `ray.init` raises an error, or starts an unwanted Ray.
- **Leave sizes out of the file.**
  With `num_cpus=4`, `ray.init` raises an error if `RAY_ADDRESS` names a cluster, which already has its size.
- **Keep functions plain**, and make remote functions of them where you launch tasks.
  Your tests then call `square(3)` without Ray.
- **Pin Ray**: write `ray[default]==2.60.*` in your requirements, or `ray[rllib]`, `ray[tune]`, `ray[serve]` for its libraries.
  All machines of a cluster need the same Ray and the same Python, down to the last digit of the version, and Ray checks that when you join.

When you finish a notebook, stop its Ray, so the next has the machine to itself:
"""

# %% tags=["demo"]
ray.shutdown()

# %% [markdown]
r"""
`progress()`, or `coursekit progress` in a terminal, shows what you have earned in the whole course.
"""

# %% tags=["demo"]
progress()

# %% [markdown]
r"""
## What you can do now

- You can say what distribution gives you (cores, memory, survival) and what it costs (communication, synchronisation, failure).
- You know that your machine is ready, and how to check again: `coursekit doctor`.
- You have met `check`, `hint`, `quiz` and `progress`.
- You started Ray, saw its processes, and ran eight tasks in the time of two.
- You can write a Ray program that runs on a laptop and on a cluster, unchanged.

## Traps

- The first tasks after `ray.init` are slow: they wait for worker processes to start and to fetch the function.
  Warm up before you measure.
- `num_cpus` is bookkeeping.
  It limits how many tasks Ray runs at a time; it adds no cores to your machine.
- An interrupt (■) ends the cell that is running, but not the tasks that the cell launched.
  They go on, and the tasks of your next cell wait until there is room.
- A restarted kernel has forgotten all names, and its Ray has ended.
  Choose *Run All Above Selected Cell* in the *Run* menu, and go on where you were.

## Read on

- [Chapter 1](ch01_tasks.ipynb): functions become tasks.
  The map shows what each chapter builds on, so you need not read them all before the one you came for:

  ![The chapters, and what each builds on](../img/learners_map.svg)
- [Ray's own overview](https://docs.ray.io/en/latest/ray-core/walkthrough.html) of tasks, actors and objects.
- Moritz et al., [*Ray: A Distributed Framework for Emerging AI Applications*](https://arxiv.org/abs/1712.05889), 2018: why Ray was built, with reinforcement learning as the reason.
  The year before, the same lab wrote down what was missing: Nishihara et al., [*Real-Time Machine Learning: The Missing Pieces*](https://arxiv.org/abs/1703.03924).
- Zaharia et al., [*Resilient Distributed Datasets*](https://www.usenix.org/conference/nsdi12/technical-sessions/presentation/zaharia), 2012, is the paper behind Spark; the [MPI Forum](https://www.mpi-forum.org/docs/) has MPI's standard.
- [The PyTorch Foundation](https://pytorch.org/foundation/), which Ray joined in 2025, and Ray's page on [how `ray.init` finds a cluster](https://docs.ray.io/en/latest/ray-core/starting-ray.html).
"""
