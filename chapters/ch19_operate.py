# %% [markdown] you_learn_to="find out what is slow, what hangs, what waits, and what it costs"
r"""
# Chapter 19 · Observability and debugging

A running program can show you where its time goes and what it's waiting for.

*About 110 minutes · builds on [Chapter 5](ch05_faults.ipynb); [Chapters 4](ch04_scheduling.ipynb) and [6](ch06_cluster.ipynb) help*

**What you will be able to do**

- find the stage that makes a distributed program slow, and the slow line in it, before you change anything;
- compute what reserved CPUs cost;
- compute how fast a program works, from a counter in Ray's metrics;
- find out what keeps an object in memory;
- tell whether a process is slow, waiting, or hung, even in a program that you've never seen;
- explain why a task is PENDING.
"""

# %%
import os
import time
from collections import Counter
from itertools import pairwise

import matplotlib.pyplot as plt
import pandas
import ray
import requests
from prometheus_client.parser import text_string_to_metric_families
from ray.util.state import list_tasks

from coursekit import begin, budget, check, explain, hint, measured, passed, predict, progress, puzzle, quiz, recorded
from coursekit import review, solution, timeline
from coursekit.given import ch19_operate as given
from coursekit.given.deaths import keep_news_of_deaths
from coursekit.given.folders import new_folder

begin("ch19_operate")

# %% tags=["demo"]
os.environ |= {
    "RAY_enable_metrics_collection": "1",  # Ray's default; the other chapters of this course run without metrics
    "RAY_enable_open_telemetry": "1",  # also the default: the library that carries the metrics
    "RAY_metrics_report_interval_ms": "1000",  # each process reports every second; the default is every ten seconds
    "RAY_record_ref_creation_sites": "1",  # Ray records which line of code created each reference
}
ray.shutdown()  # stops a Ray instance that's already running here: its references and actors are gone
# "local" starts a new Ray even if RAY_ADDRESS is set, as it is below; what processes print stays in their log files
ray.init("local", num_cpus=4, resources={"license": 1}, log_to_driver=False)
os.environ["RAY_ADDRESS"] = ray.get_runtime_context().gcs_address  # which Ray the tools connect to
news = keep_news_of_deaths()

# %% [markdown]
r"""
This time, Ray starts with its **dashboard**, because the dashboard's process also serves the *state API*, which lists tasks and actors.
Ray's processes read the `RAY_…` variables when they start, so on a cluster, set them before `ray start`.
Recording lines of code adds a little overhead to each call, so it's off by default.

This chapter answers six questions, with a tool for each:

![Six questions about a running program, with the tool for each: what is slow, how fast does it work, who holds the memory, who waits for whom, what did it print, why is it PENDING](../img/ch19_questions.svg)
"""

# %% [markdown] tags=["notes"]
r"""
The run sheet allots a hundred and ten minutes, with `per_second` and `explain_pending` as homework.
Start with a question: your training is half as fast as it was yesterday, so what do you look at first?
Most people start by changing something.
"""

# %% [markdown]
r"""
## The bottleneck is the stage with the busiest actor

In this slow program, three **samplers** collect fragments of experience from a slow simulator.
A fragment takes a sampler 0.14 s, and a sleep stands in for the simulator.
A **preparer** turns the frames of a fragment into numbers in a little over a tenth of a second, and a **learner** learns from them in a hundredth.
Every fragment passes through all three stages, and the stages work at the same time.
The program has been slow since last week, and a colleague has already asked for a faster simulator.

**Predict:** which of the three stages would you speed up?
"""

# %% tags=["demo"]
predict("stage_to_fix", ..., ["samplers", "preparer", "learner"])

# %% tags=["demo"]
program = given.Program(samplers=3)
fragments = budget(60, 18)
used_before = given.cpu_seconds()
with recorded() as run:
    slow_seconds = program.run(fragments)
used_after = given.cpu_seconds()
calls = given.ended(run)  # Ray's records of these calls
given.name_rows(timeline(calls), calls).set_title(f"{fragments} fragments in {slow_seconds:.1f} s");
# %% [markdown]
r"""
Each row is one actor.
The samplers' rows have no gaps, but they end early, and the learner waits most of the time.
The preparer's row has almost no gaps, and the program ends soon after that row does.

Here are the same records as numbers:
"""

# %% tags=["demo"]
table = pandas.DataFrame(calls)
table["seconds"] = table.ended - table.started
stages = table.groupby("name").seconds.agg(calls="size", longest="max", total="sum")
per_actor = table.groupby(["name", "actor_id"]).seconds.sum()
stages["actors"] = per_actor.groupby("name").size()
stages["busiest actor"] = per_actor.groupby("name").max()
stages.round(2)

# %% [markdown]
r"""
The samplers may have the most seconds in total, and the longest calls, too.
Neither would make them the [bottleneck](../docs/glossary.md#bottleneck), because three samplers share those seconds, while the preparer works alone.
Each of these actors runs one call at a time, so the program can't finish before its busiest actor has.
That's why the stage with the largest number in the last column sets the pace of the whole program.

To look at such records, call `ray.timeline("file.json")`, which writes them for `chrome://tracing` or [Perfetto](https://ui.perfetto.dev).

Write `find_the_bottleneck`, which takes Ray's records of calls and returns the class of the busiest actor.
Each record is a dict with these keys, among others: `name` (such as `"Sampler.sample"`), `kind`, `actor_id`, and `started` and `ended` in seconds.
The kind is `"actor_call"`, or `"actor_creation"` for the creation of an actor, which isn't a call.
An actor can have several methods.
"""


# %%
def find_the_bottleneck(calls):
    """Return the name of the class of the busiest actor: the one that has spent the most seconds in calls."""
    ### BEGIN SOLUTION
    seconds, classes = Counter(), {}
    for call in calls:
        if call["kind"] == "actor_call":
            seconds[call["actor_id"]] += call["ended"] - call["started"]
            classes[call["actor_id"]] = call["name"].split(".")[0]
    [(busiest, _)] = seconds.most_common(1)
    return classes[busiest]
    ### END SOLUTION


# %%
check("find_the_bottleneck", find_the_bottleneck)

# %% [markdown] tags=["solution"]
r"""
Three shortcuts are tempting, and each of them can fail.
The stage with the longest call may make only a few calls.
The longest wait between `created` and `started` points to the end of the pipeline, because everything here was launched at the start.
The mean over a stage's actors is right in this program, but it hides a straggler: if one of ten samplers gets twice the work, the program waits for that one.
"""

# %% tags=["demo"]
if passed("find_the_bottleneck"):
    bottleneck = find_the_bottleneck(calls)
    display(measured("stage_to_fix", {"Sampler": "samplers"}.get(bottleneck, bottleneck.lower())))

# %%
### BEGIN SOLUTION
which_stage = "b"
### END SOLUTION

# %%
quiz("which_stage", which_stage)

# %% [markdown]
r"""
## A profiler inside the actor finds the slow line

The timeline shows which actor is slow, but not which of its lines.
Python has a profiler, `cProfile`, but it measures only the process that it runs in, and the slow code runs in another one.
So use the `__ray_call__` method that every actor has: it runs a function of yours in the actor's process, with the actor as the first argument.
Here, that function is `given.profiled`, which runs one call under `cProfile`.
(A name that starts with an underscore may change in a later Ray.)

`prepare` scales the pixels of all frames, computes a weight for each frame with a mean, a distance, and an exponential, and returns a weighted mean frame.
"""

# %% tags=["demo"]
frames = program.samplers[0].sample.remote(0, 0, program.frames)
print(ray.get(program.preparer.__ray_call__.remote(given.profiled, "prepare", frames)))

# %% [markdown]
r"""
Look at `ncalls` and the top rows.
They belong to one loop, which calls `scale` for every pixel, more than a hundred thousand times per fragment.
`tottime` is the time in the function itself, and `cumtime` includes the functions that it calls.
`cProfile` does some work at each call, so it makes small functions look slower than they are: trust it for the place, and use a clock for the seconds.

`weights_of`, the math that looked expensive, takes only a few thousandths of a second.
`scaled_at_once` scales all pixels in one NumPy operation.

**Predict:** the title of the timeline says how long the run took.
How many seconds would the same run take with the old `scale` and a simulator that is twice as fast?
"""

# %% tags=["demo"]
predict("faster_simulator", ...)  # seconds


# %%
def scaled_at_once(frames):
    """Return the brightness of every pixel, from -0.5 to 0.5."""
    return frames / 255 - 0.5


# %% tags=["demo"]
if passed("find_the_bottleneck"):
    half = given.SIMULATOR_SECONDS / 2
    seconds = {"as it was": slow_seconds, "simulator\ntwice as fast": program.run(fragments, simulator=half)}
    ray.get(program.preparer.use.remote(scaled_at_once))
    with recorded() as run:
        seconds["all pixels\nat once"] = program.run(fragments)
    seconds["both"] = program.run(fragments, simulator=half)

    figure, axes = plt.subplots(figsize=(7.5, 3.4), constrained_layout=True)
    axes.bar(list(seconds), list(seconds.values()), color=["#94a3b8", "#db2777", "#2563eb", "#2563eb"])
    for place, value in enumerate(seconds.values()):
        axes.annotate(f"{value:.2f} s", (place, value), xytext=(0, 3), textcoords="offset points", ha="center")
    axes.set(title="Fix the bottleneck first", ylabel=f"seconds for {fragments} fragments")
    axes.margins(y=0.15)
    display(measured("faster_simulator", seconds["simulator\ntwice as fast"]))

# %% [markdown]
r"""
On its own, the faster simulator saves little or nothing, because its fragments only wait longer for the preparer.
After the fix in the preparer, it does help, because now the samplers set the pace.
So measure again after each fix, because the bottleneck may have moved.
"""

# %% tags=["demo"]
if passed("find_the_bottleneck"):
    print("The bottleneck is now:", find_the_bottleneck(given.ended(run)))

# %% [markdown]
r"""
If an actor is busy or stuck, a `__ray_call__` waits in its queue.
"""

# %% [markdown]
r"""
## A reserved CPU costs as much as a busy one

If an actor has **reserved** a CPU, no other task gets it, whether the actor computes or not.
A sampler reserves half a CPU, and the preparer and the learner reserve one each, so the slow program reserves three and a half CPUs.
The plot compares three numbers for each class: `reserved` is `num_cpus` times the seconds of the run, `in calls` is the part of that time in which a call was running, and `computed` is the CPU seconds that the operating system counted.
"""

# %% tags=["demo"]
price = 0.05  # dollars per hour for one CPU; enter your own price
cost = given.costs(calls, used_before, used_after, slow_seconds)
fraction = cost.computed.sum() / cost.reserved.sum()
hour = cost.reserved.sum() / slow_seconds * price
print(f"{hour:.2f} dollars per hour, {hour * (1 - fraction):.2f} of them for CPUs that computed nothing")
axes = cost.plot.barh(figsize=(8, 3), color=["#cbd5e1", "#93c5fd", "#2563eb"], width=0.75)
axes.set(xlabel="CPU seconds", title=f"The program used {fraction:.0%} of the CPU time that it reserved")
axes.invert_yaxis()  # the first one on top, as in the legend
# %% [markdown]
r"""
The samplers sleep, like a simulator that waits for another machine, so even half a CPU is too much for each.
The learner's CPU is reserved while it waits for the preparer.
Try three remedies, in this order:

1. **Stop actors that have nothing left to do.** An idle actor keeps its CPUs reserved, so an autoscaler can't remove its node (Chapter 4).
2. **Reserve what you use.** For a stage that mostly waits, `num_cpus=0.1` is enough.
3. **Fix the bottleneck.** While the other stages wait for it, you pay for their CPUs, too.
"""

# %%
### BEGIN SOLUTION
what_idle_costs = "b"
### END SOLUTION

# %%
quiz("what_idle_costs", what_idle_costs)

# %% [markdown]
r"""
## The rate of a counter shows how fast a program works

On each node, an agent publishes the node's metrics as a page of plain text.
**Prometheus** is a program that [scrapes](../docs/glossary.md#scrape) such pages: it fetches them every few seconds and stores the numbers.
You can fetch the page yourself:
"""

# %% tags=["demo"]
page = requests.get(given.metrics_address()).text
families = {family.name: family for family in text_string_to_metric_families(page)}
print(sum(len(family.samples) for family in families.values()), "numbers in", len(families), "families")
for sample in [sample for family in families.values() for sample in family.samples]:
    if sample.name == "ray_resources" and sample.labels["Name"] == "CPU":
        print(sample.name, {key: sample.labels[key] for key in ("Name", "State")}, sample.value)

# %% [markdown]
r"""
Apart from the comments, each line of the page has a name, labels, and a number.
The numbers with the same name and labels, from scrape to scrape, form a [time series](../docs/glossary.md#time-series).
Two kinds of metric matter most: a [gauge](../docs/glossary.md#gauge) goes up and down, like the number of CPUs in use, and a [counter](../docs/glossary.md#counter) only grows.
Unlike the dashboard, the page asks for no token, so anyone who can reach the port can read it.

You can add metrics of your own, as the learner does with three lines in its class:

```python
from ray.util.metrics import Counter

self.learned = Counter("learned_fragments", description="Fragments learned from.")  # in __init__
self.learned.inc()  # in update
```

On the page, this counter is called `ray_learned_fragments_total`.
The next cell runs the slow program again, fixes it along the way, and scrapes the page the whole time, which takes about 20 s.
"""

# %% tags=["demo"]
if passed("find_the_bottleneck"):
    ray.get(program.preparer.use.remote(given.scaled))  # slow again
    with given.scrapes() as so_far:
        began = time.time()
        ray.get(program.launch(fragments))
        fixed = time.time()
        ray.get(program.preparer.use.remote(scaled_at_once))
        ray.get(program.launch(3 * fragments))
        given.wait_for_count(so_far, "ray_learned_fragments_total", program.launched)  # the last report
    pages = so_far()


# %% tags=["demo"]
def total(page, name):
    """Return the sum of all series of this name on a page."""
    families = text_string_to_metric_families(page)
    return sum(sample.value for family in families for sample in family.samples if sample.name == name)


if passed("find_the_bottleneck"):
    counted = [total(page, "ray_learned_fragments_total") for _, page in pages]
    figure, axes = plt.subplots(figsize=(8, 3.4), constrained_layout=True)
    axes.step([moment - began for moment, _ in pages], counted, where="post", color="#059669", linewidth=2)
    axes.axvline(fixed - began, color="#db2777", linestyle="--")
    axes.annotate(" fixed", (fixed - began, counted[0]), color="#db2777")
    axes.set(xlabel="seconds", ylabel="ray_learned_fragments_total", title="The slope is the speed")

# %% [markdown]
r"""
The curve has steps because each process reports its metrics once per second.
Its height depends on when the process started, but its **slope** is the speed, so dashboards usually show a counter's *rate*.

When processes come and go, a rate is easy to get wrong.
Each worker has its own series, with its own `WorkerId` label, so a new worker adds a series that started at 0.
And when a process restarts, its counter restarts at 0, so the number *falls* although no work was undone.

Write `per_second`, which returns a counter's rate and handles both cases.
It takes `scrapes`, a list of `[time, page]` pairs with the oldest first, and the counter's name.
"""


# %%
def per_second(scrapes, name):
    """Return how much the counter `name` grew per second, summed over its series, from the first scrape to the last.

    `name` is written as on the page (`ray_…_total`), and each page is a string. A series that appears in a later scrape
    started at 0 after the scrape before it. A series that falls was restarted at 0.
    """
    ### BEGIN SOLUTION
    def series(page):
        samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
        return {tuple(sorted(each.labels.items())): each.value for each in samples if each.name == name}

    grown = 0.0
    for before, now in pairwise(series(page) for _, page in scrapes):
        for labels, value in now.items():
            last = before.get(labels, 0.0)
            grown += value - last if value >= last else value
    return grown / (scrapes[-1][0] - scrapes[0][0])
    ### END SOLUTION


# %%
check("per_second", per_second)

# %% [markdown] tags=["solution"]
r"""
Compute the growth of each series first, and sum last: if you sum first, every restart looks like a loss.
In Prometheus, `sum(rate(...))` works in this order.
By default, though, `rate` counts a new series only from its first scrape, because it doesn't know that the series started at 0.
"""

# %% tags=["demo"]
if passed("find_the_bottleneck") and passed("per_second"):
    halves = {"before": [page for page in pages if page[0] <= fixed]}
    halves["after"] = [page for page in pages if page[0] > fixed]
    for title, part in halves.items():
        if len(part) > 1:  # a rate needs at least two scrapes
            print(f"{title:6} {per_second(part, 'ray_learned_fragments_total'):5.1f} fragments per second")

# %% [markdown]
r"""
## `ray memory` shows what keeps an object in memory

An object stays in the store as long as *any* process holds a reference to it (Chapter 2).
Below, an archive actor records which fragments there were.

**Predict:** the loop below creates ten fragments of 0.4 MB, one after the other, and deletes its reference to each one before it creates the next.
How many MB are in the store at the end?
"""

# %% tags=["demo"]
predict("mb_in_store", ...)  # MB


# %% tags=["demo"]
@ray.remote
class Archive:
    """Remembers which fragments there were."""

    def __init__(self):
        self.fragments = []

    def add(self, fragment):
        """Add a fragment: a list with its reference."""
        self.fragments.append(fragment)

    def clear(self):
        """Remove all of them."""
        self.fragments.clear()


# %% tags=["demo"]
from coursekit import stores

sampler, archive = program.samplers[0], Archive.remote()
for seed in range(10):
    fragment = sampler.sample.remote(seed, 0)
    ray.get(archive.add.remote([fragment]))
    brightest = ray.get(fragment).max()
    del fragment
print(f"{stores()[0]['bytes'] / 1e6:.1f} MB in the store")
measured("mb_in_store", stores()[0]["bytes"] / 1e6)

# %% [markdown]
r"""
Nothing was freed, and the notebook doesn't show why: its own references to the ten fragments are gone.
Over days, such a leak is fatal: when the store is full, Ray spills objects to disk, and eventually the disk is full, too.
`ray memory` lists the references of every process, here grouped by the line that created them.
`given.summaries` prints only the total of each group:
"""

# %% tags=["demo"]
text = given.shell("ray memory --group-by STACK_TRACE --units MB")
print(given.summaries(text))

# %% [markdown]
r"""
The ten references arrived in the archive as part of an *argument of an actor call*, `Archive.add`, and stayed there.
A reference *inside a list* arrives as a reference, not as its value, and while the archive stores it, the object stays in memory.
The other line, which may surprise you, is a call from a cell of this notebook (if a file's name is a number, the file is a cell).
That call created `frames`, the fragment for the profiler, and the variable still holds the reference.
So in a notebook, check your variables and `Out[…]`.
Without `RAY_record_ref_creation_sites`, `ray memory` shows processes, but no lines of code.

To fix such a leak, store what you need, such as a number or a name, instead of the reference.
"""

# %% tags=["demo"]
ray.get(archive.clear.remote())
frames = None  # the variable's reference is gone
end = time.monotonic() + 10
while stores()[0]["bytes"] > 1e5 and time.monotonic() < end:
    time.sleep(0.1)
print(f"{stores()[0]['bytes'] / 1e6:.1f} MB in the store")
ray.kill(archive)
program.stop()  # to run cells above again: program = given.Program(samplers=3)

# %% [markdown]
r"""
## If nothing is pending, look for calls that wait for each other

The program below does one training step: a **trainer** asks a sampler for a fragment, and the sampler first asks the trainer for its latest weights.
Each of the two works when you test it alone.
"""


# %% tags=["demo"]
@ray.remote
class Trainer:
    """Trains on what a sampler collects."""

    def step(self, sampler, me):
        """Return what the sampler has collected."""
        return ray.get(sampler.sample.remote(me))

    def weights(self):
        """Return the latest weights."""
        return [0.1, 0.2]


# %% tags=["demo"]
@ray.remote
class Sampler:
    """Collects experience with the latest weights."""

    def sample(self, trainer):
        """Return the number of weights."""
        print("asking for weights")
        weights = ray.get(trainer.weights.remote())
        print("got them")
        return len(weights)


# %% tags=["demo"]
actors = {"trainer": Trainer.remote(), "sampler": Sampler.remote()}
stack_files = {name: os.path.join(new_folder(), name) for name in actors}
pids = {
    name: ray.get(actor.__ray_call__.remote(given.answer_stack_requests, stack_files[name]))
    for name, actor in actors.items()
}
step = actors["trainer"].step.remote(actors["sampler"], actors["trainer"])
ready, _ = ray.wait([step], timeout=budget(5, 2))
print("done" if ready else "no result")

# %% [markdown]
r"""
The program hangs: there's no error and no timeout, and it would still hang tomorrow.
If you kill it, you lose the evidence, so look at it first, from the outside in.

**Predict:** how many of the four CPUs does `ray status` show as used?
"""

# %% tags=["demo"]
predict("cpus_used", ...)  # of 4

# %% tags=["demo"]
from coursekit.given.nodes import ray_status

ray_status(until=" 0.0/4.0 CPU")  # waits for an up-to-date report: Ray updates it every five seconds
print(given.shell("ray status").partition("Resources\n")[2].strip("-\n"))  # in a terminal: ray status
measured("cpus_used", 4 - ray.available_resources().get("CPU", 0))

# %% [markdown]
r"""
All CPUs are free, because these actors don't set `num_cpus` and so reserve none while they run (Chapter 4).
Nothing is pending either, so neither a larger machine nor an autoscaler would help.

Which calls are running?
`list_tasks` is part of the state API (Chapter 6).
In a terminal, use `ray list tasks --filter "state!=FINISHED"`; without a filter, finished tasks count toward its limit of 100 tasks.
"""

# %% tags=["demo"]
given.wait_for_reports(of=3)  # processes report the states of tasks at intervals
rows = list_tasks(filters=[("state", "!=", "FINISHED"), ("state", "!=", "FAILED")], detail=True)
names = {row.task_id: row.name for row in rows}
pandas.DataFrame(
    {"task": row.name, "state": row.state, "called by": names.get(row.parent_task_id, "this notebook")} for row in rows
)

# %% [markdown]
r"""
Two calls are RUNNING, and one is SUBMITTED_TO_WORKER: it's in its actor's queue.
RUNNING only means that the function has started, so it may be computing or waiting.
The metrics tell you which, because they count tasks that wait in `ray.get` separately, as RUNNING_IN_RAY_GET.
"""

# %% tags=["demo"]
page = requests.get(given.metrics_address()).text
for family in text_string_to_metric_families(page):
    for sample in family.samples:
        if family.name == "ray_tasks" and sample.labels["State"] == "RUNNING_IN_RAY_GET" and sample.value > 0:
            print(sample.labels["Name"], "waits in ray.get")

# %% [markdown]
r"""
Both are waiting.
That alone isn't a hang, because a healthy call waits in `ray.get`, too, until its result arrives.
So find out on which line each of them waits, and for what.
Whatever a worker prints ends up in a file on its node, and the last line shows how far the worker got.
`ray logs actor --id …` and the dashboard show the same files (but see *Traps*).
"""

# %% tags=["demo"]
log = given.log_of(actors["sampler"])
print(f"{len(list(log.parent.iterdir()))} files in the folder; the sampler's is {log.name[:14]}…{log.name[-12:]}")
print("its last line:", log.read_text().splitlines()[-1])

# %% [markdown]
r"""
Finally, read the stacks: for each process, the line that it's on *right now*, and the calls that led there.
The cell that created these two actors also told them to write their stacks to a file at every `SIGUSR1` signal, with `faulthandler.register` from Python's standard library.
This works even if the process is stuck.
In the `__init__` of your own actors, it takes two lines:

```python
self.stacks = open(f"/tmp/stacks-{os.getpid()}.txt", "w")  # an attribute, because the file has to stay open
faulthandler.register(signal.SIGUSR1, file=self.stacks)
```

Then `kill -USR1 4711` in a shell makes process 4711 write its stacks; 4711 stands for the actor's `pid` in `ray list actors`.
The file also has the other threads and Ray's own lines, which `given.stack_of` leaves out.
Send this signal only to processes that have registered a handler, because it *kills* the others.
"""

# %% tags=["demo"]
for name, pid in pids.items():
    print(f"{name} (process {pid})\n{given.stack_of(pid, stack_files[name])}\n")

# %% [markdown]
r"""
Together, the two stacks show a circle:

![A trainer waits for a sampler, which waits for the trainer: both calls are RUNNING and no CPU is missing](../img/ch19_circle.svg)

These actors run one call at a time.
`weights` can't start before `step` returns, `step` can't return before `sample` does, and `sample` can't return before `weights` does.

You can break the circle in three ways, with the best one first:

1. **Pass what the sampler needs.** The trainer passes its weights as an argument, and the sampler never calls back.
2. **Don't wait inside `step`.** Return the reference instead.
3. **Give `weights` its own concurrency group** (Chapter 3), so that it can run while `step` waits.

Here is the first way:
"""


# %% tags=["demo"]
@ray.remote
class SamplerWithoutCalls:
    """Collects experience with the weights that it's given."""

    def sample(self, weights):
        """Return the number of weights."""
        return len(weights)


for actor in actors.values():
    ray.kill(actor)
trainer, fixed_sampler = Trainer.remote(), SamplerWithoutCalls.remote()
print("done:", ray.get(fixed_sampler.sample.remote(trainer.weights.remote())))
ray.kill(trainer)
ray.kill(fixed_sampler)

# %%
### BEGIN SOLUTION
nothing_pending = "c"
### END SOLUTION

# %%
quiz("nothing_pending", nothing_pending)

# %% [markdown] tags=["notes"]
r"""
Ask for the longest hang that anyone has had, and how they found the cause.
Usually they waited, killed the program, added prints, and waited again; ask which of the five steps would have found it.
"""

# %% [markdown]
r"""
## Stack samples tell slow, waiting, and hung processes apart

A colleague leaves you three running programs and goes on vacation.
The `shelf` should fill with fragments of experience, the `saver` should write weights to a file, and the `report` should return how many fragments the shelf has.
Each of them is an actor that is running a call.
None of the calls has returned or printed anything, and nobody remembers an error.
"""

# %% tags=["demo"]
programs = given.hand_over()
ready, waiting = ray.wait([each.call for each in programs.values()], num_returns=3, timeout=budget(3, 1))
print(f"{len(ready)} calls have finished, {len(waiting)} have not")

# %% [markdown]
r"""
**py-spy**, a [sampling profiler](../docs/glossary.md#sampling-profiler), pauses a running Python process for a moment and reads the stack from its memory.
`ray stack` runs py-spy under `sudo` on every worker of the machine, and on Linux it adds the lines of C and C++ code, which the next cell leaves out.
Many systems allow py-spy only with `sudo`, and containers often forbid it.
"""

# %% tags=["demo"]
print(given.ray_stack([each.pid for each in programs.values()]))  # in a terminal: ray stack

# %% tags=["demo"]
for name, program in programs.items():
    print(f"{name}: py-spy dump --pid {program.pid}\n{given.py_spy(program.pid)}\n")

# %% [markdown]
r"""
Each thread is listed as `active` if it computes and as `idle` if it waits, with its calls below, the innermost first.
The actor's methods run in the main thread, and Ray's own frames, from files in `ray/`, are in between.

**Predict:** which of the three calls will never return?
"""

# %% tags=["demo"]
predict("never_returns", ..., ["shelf", "saver", "report"])

# %% [markdown]
r"""
One stack isn't enough, because a slow process may just be waiting at that moment.
`given.sample_stacks` takes ten, a tenth of a second apart; if your system refuses py-spy, it uses the signal from the previous section.
Each sample is a dict: `active` says whether the process computed right after it was sampled, and `frames` lists the frames of the main thread, the innermost first, each a dict with `function`, `file`, and `line`.

Stacks show *that* a process waits, and Ray's records show *for whom*, because they list unfinished calls and their callers.
`given.waits_for` makes a [wait-for graph](../docs/glossary.md#wait-for-graph) of them: `{"report": "shelf"}` means that a call from `report` to `shelf` hasn't finished.
"""

# %% tags=["demo"]
samples = {name: given.sample_stacks(program.pid, program.stacks) for name, program in programs.items()}
waits_for = given.waits_for(programs)
for name, seen in samples.items():
    print(name, [sample["active"] for sample in seen], seen[0]["frames"][0])
print("waits for:", waits_for)
for program in programs.values():
    ray.kill(program.actor)  # the samples are enough, and the shelf would keep a CPU busy

# %% [markdown]
r"""
Write `diagnose`, which takes the `samples` of each process, `waits_for`, and `own`, the names of the program's own files.
For each process, it returns a verdict and a function.
There are three verdicts:

- `"slow"`: the process computed in at least one sample, or its stacks aren't all the same, line by line.
  An endless loop counts as slow, too.
- `"hung"`: the process isn't slow, and its chain of waits runs into a circle.
  To follow the chain, go from the process to the one that it waits for, from there to the next, and so on.
  If you come to a process for the second time and haven't met a slow one, none of them will ever get its result.
- `"waiting"`: the process isn't slow, and its chain ends.
  If it ends at a slow process, the result can still come.
  If it ends at a process that isn't in `waits_for`, that one waits for something else, such as a lock, a reply, or a sleep, and stacks can't tell you whether that wait will end.

The circle may not include the process that you started from, so remember all those that you've visited.

For the function, take from each sample the innermost frame whose file is in `own`, skip samples without such a frame, and return the function that comes up most often.
"""


# %%
def diagnose(samples, waits_for, own):
    """Return {name: (verdict, function)} for each process in `samples`.

    The verdict is "slow", "waiting", or "hung". The function is the one in the files `own` that most samples are in.
    """
    ### BEGIN SOLUTION
    def is_slow(name):
        first = samples[name][0]["frames"]
        return any(sample["active"] or sample["frames"] != first for sample in samples[name])

    def verdict(name):
        if is_slow(name):
            return "slow"
        visited = set()
        while name in waits_for and not is_slow(name):
            if name in visited:
                return "hung"
            visited.add(name)
            name = waits_for[name]
        return "waiting"

    def place(name):
        places = Counter()
        for sample in samples[name]:
            own_frames = [frame["function"] for frame in sample["frames"] if frame["file"] in own]
            places.update(own_frames[:1])
        return places.most_common(1)[0][0]

    return {name: (verdict(name), place(name)) for name in samples}
    ### END SOLUTION


# %%
check("diagnose", diagnose)

# %% [markdown] tags=["solution"]
r"""
Databases find deadlocks in the same way: they look for a circle in a wait-for graph.
And `place` is a small sampling profiler: its counts show where a process spends its time.
`py-spy record` and `py-spy top` sample a hundred times per second from outside the process, so they slow it down much less than `cProfile` does.
"""

# %% tags=["demo"]
if passed("diagnose"):
    for name, (verdict, function) in diagnose(samples, waits_for, ["handed_over.py"]).items():
        print(f"{name} is {verdict} (in {function})")

# %% [markdown]
r"""
Now open `coursekit/given/handed_over.py`, but read only these three functions.
The `shelf` compares each new fragment with all those that it has, instead of looking it up in a `set` of tuples.
The `report` is healthy: its call to the shelf is in the shelf's queue, and will run when `fill` returns.
The `saver` waits for a lock, and that's a [hang](../docs/glossary.md#hang) only if nobody will ever release the lock.
A stack doesn't show who holds it.

To find out, you need the *values* of variables, and a **debugger** shows them: write `breakpoint()` where you want to stop, and run the program again.
A Ray worker that reaches this line waits until you connect, from VS Code with the *Ray Distributed Debugger* extension (if `debugpy` is installed) or, if `RAY_DEBUG=legacy` is in the worker's environment, from a terminal with `ray debug`.
The next cells add a breakpoint and repeat your colleague's two calls; each `(Pdb)` line shows what you would type.
"""


# %% tags=["demo"]
from coursekit.given.handed_over import Saver


@ray.remote(runtime_env={"env_vars": {"RAY_DEBUG": "legacy"}})
class WatchedSaver(Saver):
    """A saver that stops before each call."""

    def save(self, path, weights):
        """Return the number of weights in the file."""
        breakpoint()  # noqa: T100  stopping here is the point
        return super().save(path, weights)


# %% tags=["demo"]
watched = WatchedSaver.remote()
for path in ("no/such/folder/1.json", "/dev/null"):
    call = watched.save.remote(path, [0.1, 0.2])
    print(given.at_breakpoint(["p path", "p self.lock", "c"]))  # c: continue
    print("finished" if ray.wait([call], timeout=1)[0] else "has not returned", end="\n\n")
ray.kill(watched)

# %% [markdown]
r"""
Before the second call, the lock is `locked`, although no other call is running: the first call raised an exception between `acquire` and `release`, and your colleague's program caught the exception and went on.
In this class, only `save` releases the lock, and the only `save` call that is left is waiting for it, so the saver waits for itself.
`with self.lock:` would have released the lock despite the exception.

Add that wait to `waits_for`, and call your function again:
"""

# %% tags=["demo"]
if passed("diagnose"):
    for name, (verdict, function) in diagnose(samples, waits_for | {"saver": "saver"}, ["handed_over.py"]).items():
        print(f"{name}: {verdict}, in {function}")
measured("never_returns", "saver")

# %% [markdown]
r"""
You can't add a breakpoint to a process that hangs *right now*, but `py-spy dump --locals` shows its local variables.
"""

# %% [markdown]
r"""
## Five reasons why a task is PENDING

A task that hasn't started waits for something, and what helps depends on the reason (a *holder* is a running task or a live actor, with the resources that it holds):

| word | why the task waits | what helps |
|---|---|---|
| `"arguments"` | Its state is PENDING_ARGS_AVAIL: its arguments don't exist yet. | Look at the tasks that produce them. |
| `"actor"` | It's a call to an actor that is busy or hasn't started. | Look at the actor's calls. |
| `"nowhere"` | It's *infeasible*: no live node is large enough, even when empty. | Ask for less, or add a larger node. |
| `"queue"` | A live node has room for it, or will have once the holders that work there have finished. | Wait. |
| `"locked"` | A live node is large enough, but holders that are idle or waiting hold what's missing. | Stop one of them. |

The table leaves out rarer reasons, such as a full object store.

The next cells create one of the five cases: a coach holds the only license, and waits for a helper that needs it.
`given.pending_report` gets three lists from the state API:
"""


# %% tags=["demo"]
@ray.remote
def nap(seconds, after=None):
    """Sleep."""
    time.sleep(seconds)


@ray.remote(num_cpus=1, resources={"license": 1})
class Coach:
    """Holds the license, and waits for a helper that needs it."""

    def sample(self):
        """Wait for the helper."""
        return ray.get(nap.options(name="helper", resources={"license": 1}).remote(0))


# %% tags=["demo"]
coach = Coach.remote()
ray.get(coach.__ray_ready__.remote())  # it holds its CPU and the license (Chapter 4)
game = coach.sample.remote()
for rows in given.pending_report(until=("helper",)):
    display(pandas.DataFrame(rows))

# %% [markdown]
r"""
Write `explain_pending`, which takes three such lists of dicts, `tasks`, `nodes`, and `holders`.
It returns the word for every task that isn't RUNNING: the first row of the table that fits, as if no other task were waiting.

- A task `asks` for resources, and its `actor` is an id if it's a call to an actor, otherwise None.
- A node is `alive` or not, and its `resources` are its total.
- Each holder `holds` resources on a `node` (an id), and is `doing` one of three things: it `"works"`, `"waits"`, or is `"idle"`.
  A CPU that a waiting task has released isn't in `holds`.

Assume that a holder that works will finish and release what it holds, and that the others never will.
"""


# %%
def explain_pending(tasks, nodes, holders):
    """Return {id: word} for every task whose state isn't RUNNING, with one of the table's five words for each."""
    ### BEGIN SOLUTION
    live = [node for node in nodes if node["alive"]]
    staying = [holder for holder in holders if holder["doing"] != "works"]

    def fits(task, node, holders):
        held = [holder["holds"] for holder in holders if holder["node"] == node["id"]]
        room = {name: total - sum(each.get(name, 0) for each in held) for name, total in node["resources"].items()}
        return all(room.get(name, 0) >= amount for name, amount in task["asks"].items())

    def word(task):
        if task["state"] == "PENDING_ARGS_AVAIL":
            return "arguments"
        if task["actor"] is not None:
            return "actor"
        if not any(fits(task, node, []) for node in live):
            return "nowhere"
        return "queue" if any(fits(task, node, staying) for node in live) else "locked"

    return {task["id"]: word(task) for task in tasks if task["state"] != "RUNNING"}
    ### END SOLUTION


# %%
check("explain_pending", explain_pending)

# %% [markdown] tags=["solution"]
r"""
The order matters, because Ray doesn't even look for a node until a task's arguments exist.
And "what is free now?" is the wrong question for the last two words, because in a queue, nothing is free either.
What matters is whether the holders in the way will finish.
"""

# %% [markdown]
r"""
Now try it on your Ray.
The next cell adds the other four cases.
"""

# %% tags=["demo"]
if passed("explain_pending"):
    second_game = coach.sample.remote()
    busy = nap.options(name="busy", num_cpus=3).remote(600)
    given.wait_until_running("busy")  # else the next tasks might overtake it while its process starts
    too_large = nap.options(name="too large", num_cpus=9).remote(0)
    following = nap.options(name="next").remote(0)
    after = nap.options(name="after busy").remote(0, after=busy)
    tasks, nodes, holders = given.pending_report(until=("busy", "next", "after busy", "helper"))
    words = explain_pending(tasks, nodes, holders)
    report = [{"task": t["name"], "state": t["state"], "word": words.get(t["id"], "–")} for t in tasks]
    display(pandas.DataFrame(report))
    ray.kill(coach)
    ray.cancel(too_large)
    ray.cancel(busy, force=True)

# %% tags=["demo"]
os.environ.pop("RAY_ADDRESS", None)
ray.shutdown()

# %% tags=["demo"]
progress()

# %% [markdown]
r"""
## What you can do now

- You can find the slow stage in Ray's records and the slow line in a profile.
- You can compute a rate that survives restarts, and find out what keeps an object in memory.
- You can debug a program from the outside in: resources, calls, metrics, logs, stacks.
- You can tell from stack samples whether a process waits, and from the chain of waits whether it hangs.
- You can explain why a task is PENDING.

## Traps

- **The stage with the most seconds** or the longest calls may not be the bottleneck, so measure before you change anything.
- **Several Rays on one machine.** Without `RAY_ADDRESS`, the tools connect to the Ray that `ray start` started last, or they refuse to choose.
  And only one Ray gets the agent's port, 52365; for the others, `ray logs` fails ("Agent … doesn't exist"), so open the files yourself.
- **A shell needs `RAY_AUTH_MODE=token`** before every `ray` command (Chapter 6).

On Windows outside WSL, there's no `SIGUSR1`.
On a Mac, py-spy always needs `sudo`.

## Read on

- [Chapter 20](ch20_capstone.ipynb): your own agent, trained within a budget of CPU seconds.
- [Chapter 25](ch25_pipelines.ipynb): a program that is killed and resumes where it stopped.
- Ray's documentation: [observability](https://docs.ray.io/en/latest/ray-observability/index.html), [metrics](https://docs.ray.io/en/latest/cluster/metrics.html), [debugging hangs](https://docs.ray.io/en/latest/ray-observability/user-guides/debug-apps/debug-hangs.html), [memory](https://docs.ray.io/en/latest/ray-observability/user-guides/debug-apps/debug-memory.html).
- Gregg, [*The USE Method*](https://www.brendangregg.com/usemethod.html): for every resource, check utilization, saturation, and errors.
- [py-spy](https://github.com/benfred/py-spy), and [Ray's distributed debugger](https://docs.ray.io/en/latest/ray-observability/ray-distributed-debugger.html).
"""
