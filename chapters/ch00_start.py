# %% [markdown] you_learn_to="check your machine, start Ray, and run your first tasks"
r"""
# Chapter 0 · Getting started

Many processes can work as one program.

*About 40 minutes · builds on nothing but Python*

**What you will be able to do**

- check whether your machine is ready for the course;
- start Ray, and run a function in several processes;
- get feedback from `check`, `hint`, `quiz`, and `progress`;
- explain what distributed computing gives you and what it costs;
- name the processes that Ray starts;
- explain how Ray differs from MPI and Spark;
- use Ray in a project of your own.

To run a cell, press **Shift + Enter**.
Start with this one:
"""

# %%
import os
import time

import ray

from coursekit import begin, check, examine, explain, hint, measured, predict, progress, puzzle, quiz, recorded
from coursekit import review, solution, timeline
from coursekit.given.ch00_start import ray_processes, run_program

begin("ch00_start")

# %% [markdown] tags=["notes"]
r"""
While you talk, have everyone run the first cells, through the one that draws the timeline.
A kernel that doesn't start should show up now, not in Chapter 3.
Then ask who got a verdict other than "Ready".
"""

# %% [markdown]
r"""
## Check that your machine is ready

Two cores and 8 GB of memory are enough for every chapter.
The next cell examines your machine and tells you how to fix any problems.
"""

# %% tags=["demo"]
examine()

# %% [markdown]
r"""
## Run your first tasks on four workers

Your notebook is a single process, and it runs your Python code on one core at a time.
Ray starts more processes, called [workers](../docs/glossary.md#worker), and sends them work.

The next cell starts Ray with room for four tasks at a time.
That can take ten seconds or more.
"""

# %% tags=["demo"]
ray.shutdown()  # stops a Ray instance that's already running here: its references and actors are gone
ray.init(num_cpus=4, include_dashboard=False)
print(f"Ray has room for {ray.cluster_resources()['CPU']:.0f} tasks at a time.")

# %% [markdown]
r"""
You'll run an ordinary function, `nap`, which sleeps and then returns the ID of its process.
Sleeping stands in for work, and because it needs no core, it takes about the same time on every machine.

`ray.remote` turns `nap` into a [remote function](../docs/glossary.md#remote-function).
Each call to its `.remote` method launches a [task](../docs/glossary.md#task), which runs the function in a worker.
The call itself returns immediately, with an [object reference](../docs/glossary.md#object-reference) to the future result.
`ray.get` waits for the results and returns them.

**Predict:** one after the other, eight sleeps of 0.2 s take 1.6 s.
How long do they take on four workers?
"""

# %% tags=["demo"]
predict("eight_sleeps", ...)  # seconds

# %% tags=["demo"]
def nap(seconds):
    """Sleep for this many seconds, and return the ID of this process."""
    time.sleep(seconds)
    return os.getpid()


nap_task = ray.remote(nap)
for attempt in ("first", "second"):
    start = time.perf_counter()
    with recorded() as run:  # keeps Ray's records of the tasks in this block
        pids = ray.get([nap_task.remote(0.2) for _ in range(8)])
    seconds = time.perf_counter() - start
    print(f"{attempt} time: {seconds:.2f} s, in {len(set(pids))} processes")
measured("eight_sleeps", seconds)

# %% [markdown]
r"""
Compare your prediction with the second measurement: four workers run eight tasks in two rounds of 0.2 s, and the rest of the time is Ray's overhead.
The first run took longer because each worker is a new Python process.
It has to start, load Ray, and load your function before it can run its first task.

The timeline, drawn from Ray's own records, shows the second run.
Each row is a worker, and each bar is a task:
"""

# %% tags=["demo"]
timeline(run);

# %% [markdown]
r"""
## A check tells you what your function did

In an exercise, you complete a function, and a check tells you whether it's right.
The check calls your function and tells you what it tried and what came back.
A wrong answer costs nothing, so run the check as often as you like.

The first exercise is the arithmetic behind your prediction.
Twelve tasks of 0.5 s on four workers run in three rounds, so they take at least 1.5 s.
Thirteen tasks need a fourth round, so they take at least 2 s.

Write `best_seconds`, which takes the number of tasks, the seconds for each one, and the number of workers.
It returns the shortest time, in seconds, in which the workers can run all of the tasks if nothing else takes any time.

First, run the function below and its check as they are.
The check tells you that you haven't done the exercise yet.
Then replace the line that starts with `raise`, keep the other lines, and run both again.
"""


# %%
def best_seconds(tasks, seconds_each, workers):
    """Return the seconds that it takes to run all tasks if nothing but the tasks takes any time."""
    ### BEGIN SOLUTION
    rounds = -(-tasks // workers)
    return rounds * seconds_each
    ### END SOLUTION


# %%
check("best_seconds", best_seconds)

# %% [markdown]
r"""
If you're stuck, run the next cell, and run it again for a plainer hint.
If you make the same mistake twice, the next hint explains that mistake.
After three attempts, or once you've passed, `solution("best_seconds")` shows you our solution.
For many exercises in later chapters, there's a step in between: after two attempts, `puzzle` gives you the lines of our solution in scrambled order.
"""

# %% tags=["demo"]
hint("best_seconds")

# %% [markdown] tags=["solution"]
r"""
`-(-tasks // workers)` rounds up; `math.ceil(tasks / workers)` does the same and is easier to read.
The classic mistake is `tasks / workers * seconds_each`, which is right only if all of the rounds are full.
A round that's only one third full still takes as long as a full one.
"""

# %% [markdown]
r"""
## What distributed computing gives you, and what it costs

You've just run a **distributed** program: several processes that work on one job.
They can run on one machine, as yours do, or on several.
In Ray, each machine is a [node](../docs/glossary.md#node), and all of the nodes together are a [cluster](../docs/glossary.md#cluster).
Your notebook is the [driver](../docs/glossary.md#driver), the program that launches the tasks.
You'll meet the other names in the picture later.

![A driver on one node sends tasks to workers on several nodes; each node has an object store for large results](../img/ch00_cluster.svg)

You gain more cores, more memory than a single machine has, and programs that can continue when a machine fails.
These are the costs:

- **Communication.** A process can't see another process's variables, so whatever it needs has to be sent to it.
- **Synchronization.** Fast workers wait for slow ones, and two processes that change the same number must agree on who goes first.
- **Partial failure.** One process out of a hundred may die while the others keep running.
  A program in a single process never has to cope with being half dead.
"""

# %% [markdown]
r"""
**Ray** takes much of this work off your hands.
You write Python functions and classes, and Ray runs them in other processes, moves the data, and can restart what has died.

In this course, you use Ray for distributed **reinforcement learning**: many processes collect experience, and one learns from it.
First you build that by hand (Chapters 1 to 10), and then with RLlib, Ray's library for it (11 to 15).
After that, you tune, serve, and operate what you've trained (16 to 19), and a capstone brings it all together (20).
Chapters 21 to 26 are electives: multiple learners, RLlib internals, self-play, deploying clusters, durable pipelines, and language models.

A quiz works like an exercise: write a letter in quotes in place of the dots, and run both cells.
If your answer is wrong, the quiz tells you why.
"""

# %%
### BEGIN SOLUTION
what_distribution_costs = "c"
### END SOLUTION

# %%
quiz("what_distribution_costs", what_distribution_costs)

# %% [markdown]
r"""
## What `ray.init` starts on your machine

`ray.init` started a cluster with a single node, your machine.
The four CPUs that you asked for with `num_cpus=4` exist only in Ray's bookkeeping: by default, each task reserves one of them, so at most four tasks run at a time.
Ray can have more CPUs than your machine has cores, because a task that only waits doesn't need a core.
But on two cores, four tasks that compute take at least as long as two rounds of two tasks.

**Predict:** how many processes are running for Ray now, including the workers but not your notebook?
"""

# %% tags=["demo"]
predict("process_count", ...)  # processes

# %% tags=["demo"]
processes = ray_processes()
measured("process_count", len(processes))

# %% tags=["demo"]
processes

# %% [markdown]
r"""
Did you count only the workers?
They run your tasks, and the other processes keep the cluster going:

- The [**raylet**](../docs/glossary.md#raylet) manages this node.
  It starts workers, assigns them to the programs that launch tasks, and holds the **object store**, the shared memory through which processes exchange large data.
- The [**GCS**](../docs/glossary.md#gcs) (Global Control Service) keeps the cluster's records, such as which nodes and actors there are.

You may see more than four workers, because Ray starts some in advance.
Chapter 6 takes a closer look at all of these processes.
"""

# %% [markdown] tags=["notes"]
r"""
This section takes five minutes.
Ask a volunteer to read the list aloud and to guess what each name means.
Somebody always asks: "Why four CPUs if I have two cores?"
Ray only counts them: a task that sleeps reserves a CPU but doesn't use a core.
Real computation on two cores gets no faster with four workers.
"""

# %% [markdown]
r"""
## Where Ray comes from, and how it differs from MPI and Spark

Ray began around 2016 at UC Berkeley and was developed in RISELab, whose predecessor, AMPLab, created Spark.
Its authors wanted to train agents by simulation, but no existing system let a single program run thousands of simulations of different lengths, train a network on the results, and use that network in the simulations.
Anyscale, the company that they founded, develops Ray as open source, and in 2025, Ray joined the [PyTorch Foundation](https://pytorch.org/foundation/).

Two older systems also spread a program over many machines: [MPI](https://www.mpi-forum.org/docs/), used mostly for scientific simulations, and [Spark](https://www.usenix.org/conference/nsdi12/technical-sessions/presentation/zaharia), mostly for large tables.

| | MPI | Spark | Ray |
|---|---|---|---|
| What you write | one program that every process runs, with messages between them | transformations of a table or a collection | Python functions and classes, some of which run in other processes |
| Who decides what runs where | usually you, before the start | Spark, stage by stage | Ray, call by call, while the program runs |
| Where mutable state is kept | in each process's variables | nowhere: each step produces new data | in [*actors*](../docs/glossary.md#actor), objects with a process of their own |
| When a process dies | usually, the program ends | Spark recomputes what was lost | Ray reruns lost tasks, and restarts actors if you ask for it |
"""

# %% [markdown]
r"""
## Use Ray in a project of your own

Outside this course, install Ray like this:

```sh
pip install "ray[rllib]" gymnasium torch
```

RLlib needs PyTorch, but `ray[rllib]` doesn't install it.
Without RLlib, `pip install "ray[default]"` is enough.

A Ray program is an ordinary Python file.
The next cell saves one as `squares.py` and runs it, as you would in a terminal:
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
    print(f"Ray has {ray.cluster_resources()['CPU']:.0f} CPUs here.")


if __name__ == "__main__":
    main()
"""
run_program(PROGRAM)

# %% [markdown]
r"""
The four CPUs are this notebook's: the program joined the Ray instance that was already running, because `run_program` put its address in the `RAY_ADDRESS` environment variable.
Without that variable, `ray.init()` joins the cluster that `ray start` started most recently on this machine, or starts a new one if there is none.
The same file runs unchanged on a laptop and a cluster, if you follow four rules:

- **Call `ray.init` in `main`, never at import.**
  Workers import the modules that your functions come from, and so do tests.
  In a worker, which is already connected to Ray, `ray.init` raises an error; in a test, it starts an unwanted Ray instance.
- **Leave the cluster's size out of the file.**
  `ray.init(num_cpus=4)` raises an error if it finds a cluster to join, because that cluster's size is already set.
- **Keep functions plain**, and turn them into remote functions where you launch tasks.
  Then your tests can call `square(3)` without Ray.
- **Pin exact versions**, such as `ray[rllib]==2.60.0`, and use the same Python everywhere.
  By default, both versions must match the cluster's exactly: Python 3.11.7 can't join a cluster that runs 3.11.8.

When you finish a notebook, stop its Ray instance, so that the next notebook has the machine to itself:
"""

# %% tags=["demo"]
ray.shutdown()

# %% [markdown]
r"""
`progress()`, or `coursekit progress` in a terminal, shows what you've earned so far.
"""

# %% tags=["demo"]
progress()

# %% [markdown]
r"""
## What you can do now

- You can start Ray, name its processes, and run eight tasks in the time of two.
- You can use `check`, `hint`, `quiz`, and `progress`, and check your machine with `coursekit doctor` in a terminal.
- You can say what distributed computing gives you and what it costs.
- You can write a Ray program that runs unchanged on a laptop and on a cluster.

## Traps

- The first tasks after `ray.init` are slow, so warm up before you measure.
  In later chapters, `warm_up(4)` starts four workers first.
- An interrupt (■) stops the cell that's running, but not the tasks that the cell launched.
  The tasks of your next cell may have to wait until those have finished.
- When you restart the kernel, you lose all variables, and its Ray instance stops.
  Choose *Run All Above Selected Cell* in the *Run* menu, and continue where you left off.

## Read on

- [Chapter 1](ch01_tasks.ipynb), or the chapter that you came for: the map shows what each one builds on.

  ![The chapters, and what each builds on](../img/learners_map.svg)
- [Ray's overview](https://docs.ray.io/en/latest/ray-core/walkthrough.html) of tasks, actors, and objects, [how `ray.init` finds a cluster](https://docs.ray.io/en/latest/ray-core/starting-ray.html), and [Ray's source code](https://github.com/ray-project/ray).
- Moritz et al., [*Ray: A Distributed Framework for Emerging AI Applications*](https://arxiv.org/abs/1712.05889), 2018, and Nishihara et al., [*Real-Time Machine Learning: The Missing Pieces*](https://arxiv.org/abs/1703.03924), 2017: why Ray was built, with reinforcement learning as the main reason.
- Pumperla, Oakes, and Liaw, [*Learning Ray*](https://github.com/maxpumperla/learning_ray), 2023: a book on an older version of Ray.
"""
