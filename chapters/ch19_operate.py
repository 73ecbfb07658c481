# %% [markdown] you_learn_to="find what is slow, what waits, what costs; build durable pipelines"
r"""
# Chapter 19 · A running program answers questions, and a killed one resumes where it stopped

*About 110 minutes · builds on [Chapter 5](ch05_faults.ipynb); [Chapters 4](ch04_scheduling.ipynb) and [6](ch06_cluster.ipynb) help*

**What you will be able to do**

- find the stage that makes a distributed program slow, and the line in it, before you change anything;
- say what holds the memory, where a process's last words are, and how the work is going, from Ray's own metrics;
- debug a program that hangs: which tool shows what, and what it means when they all show nothing;
- compute what reserved CPUs cost, and how much of them was used;
- build a pipeline of many steps that may be killed at any moment, and still has each effect once.
"""

# %%
import json
import os
import time
from itertools import pairwise

import matplotlib.pyplot as plt
import pandas
import ray
import requests
from prometheus_client.parser import text_string_to_metric_families
from ray.util.state import list_tasks

from coursekit import begin, budget, check, hint, passed, progress, quiz, recorded, solution, timeline
from coursekit.given import ch19_operate as given
from coursekit.given.deaths import keep_news_of_deaths
from coursekit.given.folders import new_folder

begin("ch19_operate")

# %% tags=["demo"]
os.environ |= {
    "RAY_metrics_report_interval_ms": "1000",  # each process reports its metrics every second: usually every ten
    "RAY_record_ref_creation_sites": "1",  # Ray notes which line of code made each reference
}
ray.init(num_cpus=4, resources={"licence": 1}, log_to_driver=False)  # what processes print stays in their log files
os.environ["RAY_ADDRESS"] = ray.get_runtime_context().gcs_address  # which Ray the tools ask
news = keep_news_of_deaths()

# %% [markdown]
r"""
This time Ray starts with its **dashboard**, because the *state API* lives there too.
The processes of Ray read the variables `RAY_…` when they start; on a cluster, set them before `ray start`.
Noting lines of code costs a little with each call, so it is off by default.
Several Rays may run on one machine, so `RAY_ADDRESS` says which one the tools below should ask.

Six questions, each with a tool that answers it:

![Six questions about a running program: what is slow, how is it going, who holds the memory, what waits for whom, what did it print, what waits for a place; with the tool for each](../img/ch19_questions.svg)
"""

# %% [markdown] tags=["notes"]
r"""
The run sheet plans a hundred and ten minutes, with `per_second` and `explain_pending` as homework.
Begin with a question to the room: your training is half as fast as yesterday.
What do you look at first?
Collect answers on the board, and at the end of the chapter strike out those that would have cost a day.
Most people begin by changing something.
"""

# %% [markdown]
r"""
## The stage that sets the pace has no gaps

Here is a slow program.
Three **samplers** play on a slow simulator, 0.14 s for a fragment, with a nap in place of real play.
A **preparer** turns the frames into numbers in about a tenth of a second, and a **learner** learns from them in a hundredth.
Every fragment goes through all three, and they all work side by side.
The program has been slow since last week, and a colleague has already asked for a faster simulator.

**Predict:** which of the three would you make faster?
"""

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
Look for the row that is full from beginning to end.
The samplers have no gaps either, but they finish early; the learner waits most of the time; one actor works almost from beginning to end.
Whatever the others do, the program ends when that row ends.

Here is the same as numbers:
"""

# %% tags=["demo"]
table = pandas.DataFrame(calls)
table["seconds"] = table.ended - table.started
stages = table.groupby("name").seconds.agg(calls="size", longest="max", total="sum")
stages["actors"] = table.groupby("name").actor_id.nunique()
stages.round(2)

# %% [markdown]
r"""
On a calm machine the samplers have both the longest calls and the most seconds in all; on a busy one the preparer may.
Neither makes a bottleneck: three samplers share their seconds, and the preparer has its own to itself.
What counts is how long *one* actor of a stage is busy.
Compare `total / actors`: the largest number sets the pace of the whole program.

`ray.timeline("file.json")` writes the same records for `chrome://tracing` or [Perfetto](https://ui.perfetto.dev).
That is good to look at, and hard to compute with.
"""

# %% [markdown]
r"""
Now write down how you found it, as a function of Ray's records.
Each record is a dict with these keys, among others: `name` (`"Sampler.play"`), `kind`, `actor_id`, and `started` and `ended` in seconds.
The kind is `"actor_call"`, or `"actor_creation"` when an actor was made, which is no call.
A stage is a class: an actor that has several methods has to do them all.
The check has programs of its own.
"""


# %%
def find_the_bottleneck(calls):
    """Return the name of the class whose actors are the busiest.

    Its actors have spent the most seconds in calls on average: all their seconds, divided by the number of actors.
    """
    ### BEGIN SOLUTION
    seconds, actors = {}, {}
    for call in calls:
        if call["kind"] == "actor_call":
            stage = call["name"].split(".")[0]
            seconds[stage] = seconds.get(stage, 0) + call["ended"] - call["started"]
            actors.setdefault(stage, set()).add(call["actor_id"])
    return max(seconds, key=lambda stage: seconds[stage] / len(actors[stage]))
    ### END SOLUTION


# %%
check("find_the_bottleneck", find_the_bottleneck)

# %% [markdown] tags=["solution"]
r"""
Two shortcuts look right in this program and fail in the next one.
The longest call may be one of few.
And the longest wait between `created` and `started` always points to the end of the pipeline, because everything here was launched at the start.
If the actors of a stage are not equally busy, take the busiest one instead of the mean: one straggler is enough.
"""

# %% tags=["demo"]
if passed("find_the_bottleneck"):
    print("Here it is:", find_the_bottleneck(calls))

# %%
### BEGIN SOLUTION
which_stage = "b"
### END SOLUTION

# %%
quiz("which_stage", which_stage)

# %% [markdown]
r"""
## A profiler inside the actor finds the line

The timeline names the actor.
Which of its lines is it?
Python has a profiler, `cProfile`, but the code runs in another process.
Every actor has a method `__ray_call__` that runs a function of yours in its process, with the actor as the first argument.
(Its name begins with an underscore because Ray may still change it.)
`given.profiled` is such a function: it runs one call under `cProfile`.

`prepare` scales pixels, computes a weight for each frame with a mean, a distance and an exponential, and then a weighted mean over all frames of 84 × 84 pixels.
A fragment has as many frames as your machine prepares in about a tenth of a second, so that the program is slow on any machine.
"""

# %% tags=["demo"]
frames = program.samplers[0].play.remote(0, 0, program.frames)
print(ray.get(program.preparer.__ray_call__.remote(given.profiled, "prepare", frames)))

# %% [markdown]
r"""
Look at `ncalls`, and at the top rows.
They are one loop, which calls `scale` for each single pixel: a hundred thousand times and more for one fragment.
`tottime` is the time within the function itself; `cumtime` includes what it calls.
A profiler notes each call and so makes small functions look even slower than they are.
Trust it for the place; for seconds, use a clock.

The mathematics, which looked expensive (`weights_of`), takes a few thousandths of a second.
NumPy scales all pixels in one operation.

**Predict** the seconds of four runs: as it was; with a simulator that is twice as fast; with the pixels scaled at once; with both.
"""


# %%
def scaled_at_once(frames):
    """Return the brightness of every pixel, from -0.5 to 0.5."""
    return frames / 255 - 0.5


# %% tags=["demo"]
if passed("find_the_bottleneck"):
    half = given.PLAY_SECONDS / 2
    seconds = {"as it was": slow_seconds, "simulator\ntwice as fast": program.run(fragments, play=half)}
    ray.get(program.preparer.use.remote(scaled_at_once))
    with recorded() as run:
        seconds["pixels\nat once"] = program.run(fragments)
    seconds["both"] = program.run(fragments, play=half)

    figure, axes = plt.subplots(figsize=(7.5, 3.4), constrained_layout=True)
    axes.bar(list(seconds), list(seconds.values()), color=["#94a3b8", "#db2777", "#2563eb", "#2563eb"])
    for place, value in enumerate(seconds.values()):
        axes.annotate(f"{value:.2f} s", (place, value), xytext=(0, 3), textcoords="offset points", ha="center")
    axes.set(title="Fix the stage that sets the pace", ylabel=f"seconds for {fragments} fragments")
    axes.margins(y=0.15)

# %% [markdown]
r"""
The faster simulator alone saves little or nothing, and on a busy machine it may even seem to lose: its fragments wait for the preparer.
Once the pixels are fixed it pays, because now the samplers set the pace.
So measure again after every repair: the bottleneck has moved.
"""

# %% tags=["demo"]
if passed("find_the_bottleneck"):
    print("Now it is:", find_the_bottleneck(given.ended(run)))

# %% [markdown]
r"""
If a process is busy or stuck, it cannot profile itself.
`py-spy`, which `ray stack` and the dashboard's *Stack Trace* use, reads its stack from outside, but most systems let only an administrator look into other processes (`ray stack` calls `sudo`), and containers often forbid it.
Further down you will get the stacks of two stuck actors without it.
"""

# %% [markdown]
r"""
## A reserved CPU costs as much as a busy one

You rent machines, and a CPU that an actor has **reserved** is used up for all others, whether the actor computes or not.
The records of the slow run say how long each actor had a call to work on; the operating system says how many CPU seconds its process computed.
So there are three numbers for each class: `reserved` (`num_cpus` times the seconds of the run), reserved while a call was running (`in calls`), and `computed`.
A sampler reserves half a CPU, the preparer and the learner one each: three and a half in all.
"""

# %% tags=["demo"]
price = 0.05  # dollars for a CPU and an hour; put in what yours cost
cost = given.costs(calls, used_before, used_after, slow_seconds)
share = cost.computed.sum() / cost.reserved.sum()
hour = cost.reserved.sum() / slow_seconds * price
print(f"{hour:.2f} dollars an hour, {hour * (1 - share):.2f} of them for CPUs that did not compute")
axes = cost.plot.barh(figsize=(8, 3), color=["#cbd5e1", "#93c5fd", "#2563eb"], width=0.75)
axes.set(xlabel="CPU seconds", title=f"{share:.0%} of what was reserved was computed")
axes.invert_yaxis()  # the first on top, as in the legend
# %% [markdown]
r"""
The samplers nap: that stands for a simulator that waits for something else, and then half a CPU each is still too much.
The learner waits for the preparer, and its CPU is reserved all the same.
What helps, in this order:

1. **end actors that have nothing more to do**; an idle one holds its CPUs, and keeps an autoscaler from giving the node back (chapter 4);
2. **reserve what is used**: a stage that mostly waits takes `num_cpus=0.1`;
3. **balance the stages**: every second that the bottleneck loses, you pay for all the others as well.
   The repair above made the run shorter *and* cheaper.
"""

# %%
### BEGIN SOLUTION
what_idle_costs = "b"
### END SOLUTION

# %%
quiz("what_idle_costs", what_idle_costs)

# %% [markdown]
r"""
## A number that only grows shows how the work is going

On every node an agent offers the node's numbers as a page of plain text, in the format of **Prometheus**: a program that fetches such pages every few seconds and keeps them.
You can fetch the page yourself.
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
A line is a name, labels in braces, and a number; what lines of the same name and labels say over time is a **series**.
Two kinds matter most: a **gauge** goes up and down, like the CPUs in use; a **counter** only grows.
Note that the page asked for no token, unlike the dashboard: anyone who reaches the port can read it.

The learner has a counter of its own, made with three lines in its class:

```python
from ray.util.metrics import Counter

self.learned = Counter("learned_fragments", description="Fragments taken.")  # in __init__
self.learned.inc()  # in update
```

On the page it is called `ray_learned_fragments_total`.
Now run the slow program once more, fix it while it runs, and scrape the page meanwhile.
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
The curve has steps because each process reports once a second.
Its height means little: it counts since the process started.
The **slope** is the speed, and it changes when the program does.
So dashboards rarely show a counter; they show its *rate*.

Rates have two catches, and both come from processes that come and go.
Every worker has a series of its own (look at the label `WorkerId`), so a new worker brings a new series, which began at 0.
And when a process is started again, its counter starts again at 0: the number *falls*, although nothing was undone.

`per_second` computes a rate that handles both.
`scrapes` is a list of `[time, page]`, oldest first.
"""


# %%
def per_second(scrapes, name):
    """Return the growth of the counter `name` in a second, all its series together, from the first scrape to the last.

    `name` is written as on the page (`ray_…_total`), and a page is text. A series that appears later began at 0, after
    the scrape before; one that falls was started again at 0.
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
Rate first and sum last: if you add up the series before you take differences, every new start becomes a loss.
Prometheus' `sum(rate(...))` works in this order.
It is more careful with a new series than we are, and counts it only from its first scrape, because it cannot know that the series began at 0.
"""

# %% tags=["demo"]
if passed("find_the_bottleneck") and passed("per_second"):
    halves = {"before": [page for page in pages if page[0] <= fixed]}
    halves["after"] = [page for page in pages if page[0] > fixed]
    for title, part in halves.items():
        if len(part) > 1:  # a rate takes two scrapes
            print(f"{title:6} {per_second(part, 'ray_learned_fragments_total'):5.1f} fragments a second")

# %% [markdown]
r"""
## `ray memory` says what holds a reference

An object stays in the store as long as *any* process holds a reference to it (chapter 2).
Here an archive wants to know which fragments there were, and the program forgets its own references after every round.

**Predict:** ten fragments of 0.4 MB, one after the other, each forgotten.
How many MB are in the store in the end?
"""


# %% tags=["demo"]
@ray.remote
class Archive:
    """Remembers which fragments there were."""

    def __init__(self):
        self.fragments = []

    def note(self, fragment):
        """Note a fragment: a list with its reference."""
        self.fragments.append(fragment)

    def clear(self):
        """Forget them all."""
        self.fragments.clear()


# %% tags=["demo"]
from coursekit.records import stores

player, archive = program.samplers[0], Archive.remote()
for seed in range(10):
    fragment = player.play.remote(seed, 0)
    ray.get(archive.note.remote([fragment]))
    brightest = ray.get(fragment).max()
    del fragment
print(f"{stores()[0]['bytes'] / 1e6:.1f} MB in the store")

# %% [markdown]
r"""
Nothing was freed, and nothing in this notebook shows why: its own references are gone.
In a training run of days this is the slow death: memory grows, then Ray spills to disk, then the disk is full.
Ask Ray what holds the objects.
The command asks every process, and groups by the place in the code where a reference was made; `summaries` keeps the sums and leaves out the list of single references:
"""

# %% tags=["demo"]
text = given.shell("ray memory --group-by STACK_TRACE --units MB")
print(given.summaries(text))

# %% [markdown]
r"""
The ten came in as an *argument of an actor's call*, of `Archive.note`, and were kept.
A reference *inside a list* is handed over as a reference, not as a value; storing it keeps the object alive.
The other line is a surprise: a call from a cell of this notebook (a file whose name is a number is a cell).
It is `frames`, the fragment for the profiler, and the variable still holds it.
In a notebook, variables and `Out[…]` are the usual suspects.
Without `RAY_record_ref_creation_sites`, you would see processes and no places.

The repair is to keep what you need, a number or a name, and not the reference.
"""

# %% tags=["demo"]
ray.get(archive.clear.remote())
frames = None  # the variable lets go
end = time.monotonic() + 10
while stores()[0]["bytes"] > 1e5 and time.monotonic() < end:
    time.sleep(0.1)
print(f"{stores()[0]['bytes'] / 1e6:.1f} MB in the store")
ray.kill(archive)
program.stop()  # to run cells above again: program = given.Program(samplers=3)

# %% [markdown]
r"""
## When nothing is pending, processes wait for each other

The program below takes one step: a **trainer** asks a player for a fragment, and the player first asks the trainer for its newest weights.
Each of the two has been tested alone.
"""


# %% tags=["demo"]
@ray.remote
class Trainer:
    """Trains on what a player plays."""

    def step(self, player, me):
        """Return what the player has played."""
        return ray.get(player.play.remote(me))

    def weights(self):
        """Return the newest weights."""
        return [0.1, 0.2]


# %% tags=["demo"]
@ray.remote
class Player:
    """Plays with the newest weights."""

    def play(self, trainer):
        """Return the number of weights."""
        print("asking for weights")
        weights = ray.get(trainer.weights.remote())
        print("got them")
        return len(weights)


# %% tags=["demo"]
actors = {"trainer": Trainer.remote(), "player": Player.remote()}
stack_files = {name: os.path.join(new_folder(), name) for name in actors}
pids = {
    name: ray.get(actor.__ray_call__.remote(given.answer_stack_requests, stack_files[name]))
    for name, actor in actors.items()
}
step = actors["trainer"].step.remote(actors["player"], actors["trainer"])
ready, _ = ray.wait([step], timeout=budget(5, 2))
print("done" if ready else "no result")

# %% [markdown]
r"""
It hangs: no error, no time-out, and it would still hang tomorrow.
You could kill it, but then you would know nothing.
Ask first, from the outside to the inside.

**Predict** what `ray status` says: is a CPU missing?
"""

# %% tags=["demo"]
from coursekit.given.nodes import ray_status

ray_status(until=" 0.0/4.0 CPU")  # only waits: Ray renews its report every five seconds
print(given.shell("ray status").partition("Resources\n")[2].strip("-\n"))  # in a terminal: ray status

# %% [markdown]
r"""
All CPUs are free and nothing is pending, so resources are not the problem: neither a larger machine nor an autoscaler would help.
Then what is running?
`list_tasks` is the state API (chapter 6); in a terminal, `ray list tasks --filter "state!=FINISHED"`, since without a filter it lists the first hundred, ended or not.
"""

# %% tags=["demo"]
given.wait_for_reports(of=3)  # processes report the states of tasks at intervals
rows = list_tasks(filters=[("state", "!=", "FINISHED"), ("state", "!=", "FAILED")], detail=True)
names = {row.task_id: row.name for row in rows}
pandas.DataFrame(
    {"task": row.name, "state": row.state, "asked for by": names.get(row.parent_task_id, "this notebook")}
    for row in rows
)

# %% [markdown]
r"""
Two calls are RUNNING, and one was SUBMITTED_TO_WORKER: it lies in its actor's queue.
RUNNING only means that the function has been entered.
Does it compute, or does it wait?
The metrics know: they have a state of its own for a task that waits in `ray.get`.
"""

# %% tags=["demo"]
page = requests.get(given.metrics_address()).text
for family in text_string_to_metric_families(page):
    for sample in family.samples:
        if family.name == "ray_tasks" and sample.labels["State"] == "RUNNING_IN_RAY_GET" and sample.value > 0:
            print(sample.labels["Name"], "waits in ray.get")

# %% [markdown]
r"""
Both wait.
On which line, and for what?
What a process prints ends up in a file on its node, and the last line says how far the process came.
`ray logs actor --id …` and the dashboard show the same files (where several Rays share a machine that may fail: see the traps).
"""

# %% tags=["demo"]
log = given.log_of(actors["player"])
print(f"{len(list(log.parent.iterdir()))} files in the folder; the player's is {log.name[:14]}…{log.name[-12:]}")
print("its last line:", log.read_text().splitlines()[-1])

# %% [markdown]
r"""
And now the stacks: for each process, the line where it is *at this moment*, and the calls that led there.
You cannot ask a stuck actor with `__ray_call__`, because that call would wait in the queue as well.
But right after these two actors were made, each was told to write its stack to a file whenever it gets the signal `SIGUSR1`.
That is Python's own `faulthandler.register`, and it works however stuck the process is.
In the `__init__` of actors of your own, two lines do it (import `faulthandler`, `os` and `signal`):

```python
self.stacks = open(f"/tmp/stacks-{os.getpid()}.txt", "w")  # an attribute: the file has to stay open
faulthandler.register(signal.SIGUSR1, file=self.stacks)
```

Then `kill -USR1 4711` in a shell writes them; 4711 is the number in the file's name, and the `pid` in `ray list actors --detail`.
The file then has all threads of the process, with Ray's own lines; `given.stack_of` leaves those out.
Send the signal only to a process that has registered: it *ends* any other.
"""

# %% tags=["demo"]
for name, pid in pids.items():
    print(f"{name} (process {pid})\n{given.stack_of(pid, stack_files[name])}\n")

# %% [markdown]
r"""
(A file whose name is a number is a cell of this notebook.)
Read both together, and the circle closes:

![A trainer waits for a player, which waits for the trainer: both are RUNNING and no CPU is missing](../img/ch19_circle.svg)

An actor without threads or `async` makes one call at a time.
`weights` begins when `step` has ended; `step` ends when `play` has; `play` ends when `weights` has.
In chapter 4 a deadlock was about CPUs, and `ray status` showed it.
This one asks for nothing, so only calls and stacks show it.

Three ways out, best first.
**Pass what is needed along**: the trainer gives its weights as an argument, and the player never calls back.
**Do not wait inside** `step`: return the reference.
Or give `weights` a **concurrency group** of its own (chapter 3), so that it can run beside `step`.
Here is the first:
"""


# %% tags=["demo"]
@ray.remote
class CalmPlayer:
    """Plays with the weights that it is given."""

    def play(self, weights):
        """Return the number of weights."""
        return len(weights)


for actor in actors.values():
    ray.kill(actor)
trainer, calm = Trainer.remote(), CalmPlayer.remote()
print("done:", ray.get(calm.play.remote(trainer.weights.remote())))
ray.kill(trainer)
ray.kill(calm)

# %% [markdown]
r"""
At home, with a Ray of your own, the same five looks are:

| look | in a terminal |
|---|---|
| resources | `ray status` |
| calls | `ray list tasks --filter "state!=FINISHED"` |
| metrics | the family `ray_tasks` on the page of metrics, state `RUNNING_IN_RAY_GET` |
| logs | `ray logs actor --id …` |
| stacks | `kill -USR1 PID`, for actors that have registered; else `ray stack` |
"""

# %%
### BEGIN SOLUTION
nothing_pending = "c"
### END SOLUTION

# %%
quiz("nothing_pending", nothing_pending)

# %% [markdown] tags=["notes"]
r"""
A break fits here.
Ask the room for the longest hang that anyone has had, and how it was found.
Usually by waiting, killing, adding prints, and waiting again; ask at which of the five looks above it would have ended.
"""

# %% [markdown]
r"""
## Five reasons to be PENDING

A task that has not begun yet waits for something, and what you do depends on what that is:

| word | it waits because | what helps |
|---|---|---|
| `"arguments"` | its state is PENDING_ARGS_AVAIL: the tasks that make its arguments have not ended | look at those |
| `"actor"` | it is a call to an actor, which is busy, or is not there yet | look at the actor's calls |
| `"nowhere"` | no living node is large enough, even when it is empty | ask for less, or add a larger node |
| `"queue"` | a living node has room for it, or will have room once the holders that work there have ended | wait |
| `"locked"` | a node would be large enough, but what is missing is held by holders that are idle or wait for others, and they will not give it back by themselves | end one of them |

(Two rarer reasons are left out.)

`explain_pending` finds the word for every task that is not RUNNING: the first row that fits counts.
Look at each task alone, as if no other task were waiting.
It gets three lists of dicts:

- tasks: `id`, `name`, `state`, `asks` (such as `{"CPU": 1}`), `actor` (for the call to an actor its id, else None);
- nodes: `id`, `alive`, `resources` (in all);
- holders, which are running tasks and living actors: `who`, `node` (an id), `holds` (such as `{"CPU": 1}`; a CPU that it has lent is not in it), `doing`: `"works"`, `"waits"` or `"idle"`.

Assume that a holder that works will end and give back what it holds, and that the others never do.
"""


# %%
def explain_pending(tasks, nodes, holders):
    """Return {id: word} for every task whose state is not RUNNING, with one of the five words of the table."""
    ### BEGIN SOLUTION
    living = [node for node in nodes if node["alive"]]
    stay = [holder for holder in holders if holder["doing"] != "works"]

    def fits(task, node, holders):
        held = [holder["holds"] for holder in holders if holder["node"] == node["id"]]
        room = {name: total - sum(each.get(name, 0) for each in held) for name, total in node["resources"].items()}
        return all(room.get(name, 0) >= amount for name, amount in task["asks"].items())

    def word(task):
        if task["state"] == "PENDING_ARGS_AVAIL":
            return "arguments"
        if task["actor"] is not None:
            return "actor"
        if not any(fits(task, node, []) for node in living):
            return "nowhere"
        return "queue" if any(fits(task, node, stay) for node in living) else "locked"

    return {task["id"]: word(task) for task in tasks if task["state"] != "RUNNING"}
    ### END SOLUTION


# %%
check("explain_pending", explain_pending)

# %% [markdown] tags=["solution"]
r"""
The order matters: a task without its arguments is not even looking for a node.
And "what is free now?" is the wrong question for the last two words, because in a queue nothing is free either.
What tells them apart is whether the holders in the way will leave.
"""

# %% [markdown]
r"""
Now your function meets the real thing.
One cell brings about all five at once; `given.pending_report` asks the state API and makes the three lists of its answers.
"""


# %% tags=["demo"]
@ray.remote
def nap(seconds, after=None):
    """Sleep."""
    time.sleep(seconds)


@ray.remote(num_cpus=1, resources={"licence": 1})
class Coach:
    """Holds the licence, and waits for a helper who needs it."""

    def play(self):
        """Wait for the helper."""
        return ray.get(nap.options(name="helper", resources={"licence": 1}).remote(0))


# %% tags=["demo"]
if passed("explain_pending"):
    coach = Coach.remote()
    ray.get(coach.__ray_ready__.remote())  # it holds its CPU and the licence (chapter 4)
    game, second_game = coach.play.remote(), coach.play.remote()
    busy = nap.options(name="busy", num_cpus=3).remote(600)
    given.wait_until_running("busy")  # else the next ones might overtake it while its process starts
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

# %% [markdown]
r"""
## A pipeline that is killed anywhere has each effect once

Some work has many steps and takes all night: collect, train, evaluate, send a report.
If it dies at five in the morning, you do not want to begin again at collecting, and you do not want two reports.

Ray once had a library for this, `ray.workflow`; it is gone ([Old names](../docs/old_names.md)).
What it did can be built from three things that you know, in a page of code:

- a **checkpoint** for each step: its result in a file, written under another name and renamed (chapter 5), so that a file with its right name is always whole;
- a **key** for each step of each run, the same at every attempt, which goes along with the effect (chapter 5's ledger): the receiver recognises a repeat;
- a **retry**: a run that died is started again from the top, and skips what has a checkpoint.

![A step has its effect, writes its result under another name and renames it; a death before the rename runs the step again, and the key makes the repeat harmless](../img/ch19_durable.svg)

Mind the gap between effect and checkpoint: no order of the two closes it.
Checkpoint first, and a death in between loses the effect; effect first, and it may happen twice, unless there is a key.
"""

# %%
### BEGIN SOLUTION
between_effect_and_checkpoint = "b"
### END SOLUTION

# %%
quiz("between_effect_and_checkpoint", between_effect_and_checkpoint)

# %% [markdown]
r"""
Now write it.
The steps are plain functions, called as `function(value, key)`.
`value` is what the previous step returned, None for the first; `key` is a string that you make: the same whenever this step of this run is called, and a different one for every other step or run.
Results are plain JSON values: lists, dicts, strings, numbers, None.
Names of steps and runs are letters and digits.
Several runs may share the folder.

The check runs your pipeline in processes of its own, so call the functions directly, without Ray; it will become a Ray task as a whole.
It kills the process at every moment in turn: when a step has begun, when its effect has happened, and after everything that you do to a file of the folder.
"""


# %%
def durable_pipeline(steps, run, folder):
    """Return the result of the last step; `steps` is a list of (name, function), `run` a name, `folder` a path.

    The folder exists. After a death, the same call finishes the run: a step whose result was saved is not
    called again. A step that raises ends the call with its error, and the next call repeats that step.
    """
    ### BEGIN SOLUTION
    value = None
    for name, function in steps:
        key = f"{run}-{name}"
        path = os.path.join(folder, f"{key}.json")
        if os.path.exists(path):
            with open(path) as file:
                value = json.load(file)
            continue
        value = function(value, key)
        with open(f"{path}.new", "w") as file:
            json.dump(value, file)
        os.replace(f"{path}.new", path)
    return value
    ### END SOLUTION


# %%
check("durable_pipeline", durable_pipeline)

# %% [markdown] tags=["solution"]
r"""
A dozen lines.
For a power cut, which takes the operating system along, the file also needs `os.fsync` before the rename; on a cluster, the folder must be on storage that all nodes see.
And never let two processes work on the same run at the same time: a checkpoint protects from deaths, not from twins.
"""

# %% [markdown]
r"""
On Ray, the whole pipeline is *one task* with `max_retries=-1`: when its process dies, Ray starts it again, on another node if need be, and the checkpoints do the rest.
A task ends with the program that launched it (chapter 5), so for a night you submit that program as a job (chapter 6).
An exception ends it, as chapter 5 says: fix the cause, and call it again with the same run.
It reserves no CPU itself; its steps' tasks do.

Here each of three steps kills the process once, right between its effect and its checkpoint: the worst moment.
`World` stands for the outside: it takes each key once, and its journal survives every death.

**Predict:** how many times will each step be called, and how many effects will there be?
"""


# %%
def night_of(world):
    """Return the steps of a night: each acts on the world, and dies once before its result is saved."""

    def step(name, work):
        def call(value, key):
            world.note(called=name)
            result = work(value)
            world.act(name, key)
            world.dies_once(name)
            return result

        return name, call

    play = ray.remote(lambda fragments: list(range(fragments)))
    return [
        step("collect", lambda _: ray.get(play.remote(8))),  # a step may use as much of Ray as it likes
        step("train", lambda rewards: {"mean": sum(rewards) / len(rewards)}),
        step("report", lambda result: f"the mean is {result['mean']}"),
    ]


# %% tags=["demo"]
if passed("durable_pipeline"):
    world, folder = given.World(), new_folder()
    task = ray.remote(durable_pipeline).options(max_retries=-1, num_cpus=0)
    print(ray.get(task.remote(night_of(world), "night1", folder)))
    journal = pandas.DataFrame(world.journal())
    counts = journal[["called", "effect", "died"]].apply(lambda column: column.value_counts())
    display(counts.fillna(0).astype(int))
    print("on disk:", sorted(os.listdir(folder)))

# %% [markdown]
r"""
Each step was called twice, because it died once, and had its effect once.
A step whose result lay on disk was never called again.

That is *at least once* for the steps and *once* for the effects, and the second half is yours: only the receiver can recognise a key.
Larger systems for durable work differ in the first half, so read what yours promises.
None of them can take back an effect that happened just before a crash, so keep the key.
When pipelines become many, with schedules, people and approvals in them, use such a system, and let its steps submit Ray jobs (chapter 6).
"""

# %% tags=["demo"]
os.environ.pop("RAY_ADDRESS", None)
ray.shutdown()

# %% tags=["demo"]
progress()

# %% [markdown]
r"""
## What you can do now

- You name the slow stage from records, the slow line from a profile, and measure whether the repair helped.
- You scrape a node's metrics, count something of your own, and compute a rate that survives restarts.
- You find with `ray memory` what keeps objects alive, and with the logs how far a process came.
- You debug a hang from the outside to the inside: resources, calls, metrics, logs, stacks.
- You say of every PENDING task why it waits, and what reserved CPUs cost.
- You build pipelines that may be killed anywhere, with each effect once.

## Traps

- **Changing before looking.** The stage that takes the most seconds, or has the longest calls, need not be the slow one.
- **A profiler makes calls look slower than they are.** Trust it for the place, not for seconds.
- **`ray memory` without `RAY_record_ref_creation_sites`** knows processes, not places.
- **A counter falls** when its process is started again.
  Rates first, sums last.
- **The metrics page asks for no token**: keep its port inside your network.
- **A call that is RUNNING may be waiting.** Only the metrics tell: `RUNNING_IN_RAY_GET`.
- **Several Rays on one machine**: the tools refuse to guess; set `RAY_ADDRESS`.
  And only one of them gets the agent's port 52365: for the others `ray logs` fails ("Agent … doesn't exist"), and you read the files themselves.
- **A shell needs `RAY_AUTH_MODE=token`** before every `ray` command (chapter 6).
- **A checkpoint before the effect** loses effects; **a key made at each attempt** repeats them, and so does one made with `hash`: for a text it is another number in every Python that is started.

On Windows outside WSL there is no `SIGUSR1`; on a Mac everything here works as it is, and `ray stack` asks for your password.

## Read on

- [Chapter 20](ch20_capstone.ipynb): an agent of your own, under a budget of CPU seconds.
- Ray's documentation: [observability](https://docs.ray.io/en/latest/ray-observability/index.html), [metrics](https://docs.ray.io/en/latest/cluster/metrics.html), [debugging hangs](https://docs.ray.io/en/latest/ray-observability/user-guides/debug-apps/debug-hangs.html), [memory](https://docs.ray.io/en/latest/ray-observability/user-guides/debug-apps/debug-memory.html).
- Gregg, [*The USE Method*](https://www.brendangregg.com/usemethod.html): for every resource, ask for utilisation, saturation and errors.
- Helland, *Life beyond Distributed Transactions*, CIDR 2007: why keys, and not locks, make repeats harmless.
"""
