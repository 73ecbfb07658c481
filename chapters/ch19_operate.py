# %% [markdown] you_learn_to="find what is slow, what waits, what costs; build durable pipelines"
r"""
# Chapter 19 · A running program answers questions, and a killed one goes on where it stopped

*About 110 minutes · builds on [Chapter 5](ch05_faults.ipynb); [Chapters 4](ch04_scheduling.ipynb) and [6](ch06_cluster.ipynb) help*

**What you will be able to do**

- find the stage that makes a distributed program slow, and the line in it, before you change anything;
- say who holds the memory, where a process's last words are, and how the work is going, from Ray's own metrics;
- debug a program that hangs: which tool says what, and what to conclude when they say nothing;
- compute what reserved CPUs cost, and how much of them was used;
- build a pipeline of many steps that may be killed at any moment, and still has each effect once.
"""

# %%
import json
import logging
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
ray.init(
    num_cpus=4,
    resources={"licence": 1},
    log_to_driver=False,  # what processes print stays in their log files
    _system_config={"metrics_report_interval_ms": 1000, "record_ref_creation_sites": True},
)
os.environ["RAY_ADDRESS"] = ray.get_runtime_context().gcs_address  # which Ray the tools ask
news = keep_news_of_deaths()

# %% [markdown]
r"""
This time Ray starts with its **dashboard**: the page itself, and the *state API* behind it, live there.
The first setting lets every process report its metrics once a second (by default every ten seconds); the second lets Ray note which line of code has made each reference.
That costs a little with each call, so it is off by default.
And since several Rays may run on one machine, `RAY_ADDRESS` says which one the tools below look at.

Six questions, each with a tool that answers it:

![Six questions about a running program: what is slow, how is it going, who holds the memory, what waits for whom, what did it print, what waits for a place; with the tool for each](../img/ch19_questions.svg)
"""

# %% [markdown] tags=["notes"]
r"""
Not quite two hours with all four exercises; ninety minutes when `per_second` is homework.
Begin with a question to the room: your training is half as fast as yesterday.
What do you look at first?
Collect answers on the board, and strike out at the end of the chapter those that would have cost a day.
Most people begin by changing something.
"""

# %% [markdown]
r"""
## The stage that everybody waits for has no gaps

Here is a slow program.
Three **samplers** play on a slow simulator (0.14 s for a fragment, a nap in place of real play); a **preparer** turns the frames into numbers (about a tenth of a second); a **learner** learns from them (a hundredth).
Every fragment goes through all three, and all of them work side by side.
It has been slow since last week, and somebody has already asked for a faster simulator.

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
The samplers have no gaps either, but they are done early; the learner waits most of the time, and one actor works from beginning to end.
Whatever the others do, the program ends when that row ends.

The same as numbers.
**Predict** which stage has the longest calls, and which the most seconds in all.
"""

# %% tags=["demo"]
table = pandas.DataFrame(calls)
table["seconds"] = table.ended - table.started
stages = table.groupby("name").seconds.agg(calls="size", longest="max", total="sum")
stages["actors"] = table.groupby("name").actor_id.nunique()
stages.round(2)

# %% [markdown]
r"""
On a calm machine the samplers have both, the longest calls and the most seconds; on a busy one the preparer may.
Neither makes a bottleneck: three samplers share theirs, and the preparer has its own for itself.
What counts is how long *one* actor of a stage is busy.
Compare `total / actors`: the largest number sets the pace of the whole program.

> **You may have seen** `ray.timeline("file.json")`.
> It is still there: the next cell writes such a file, for `chrome://tracing` or [Perfetto](https://ui.perfetto.dev).
> Good to look at, and hard to compute with; the picture above is drawn from the same records.
"""

# %% tags=["demo"]
logging.getLogger("ray._private.state").setLevel(logging.ERROR)  # it announces that its source will change
trace = os.path.join(new_folder(), "trace.json")
ray.timeline(trace)
with open(trace) as file:
    events = json.load(file)
kinds = sorted({event["cat"] for event in events if "Preparer" in event["cat"]})
print(len(events), "events, among them", ", ".join(kinds))

# %% [markdown]
r"""
Now write down how you found it, as a function of Ray's records.
Each record is a dict, of which these keys matter: `name` (`"Sampler.play"`), `kind` (`"actor_call"`; or `"actor_creation"`: an actor was made, which is no call), `actor_id`, `started` and `ended`, in seconds.
A stage is a class: an actor that has several methods has to do them all.
The check has programs of its own.
"""


# %%
def find_the_bottleneck(calls):
    """Return the name of the class whose actors are the busiest.

    That is: the seconds in calls of all its actors, divided by their number, are the most.
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
Two shortcuts look right in this program and fail in the next one: the longest call (it may be one of few), and the longest wait between `created` and `started` (everything here was launched at the start, so whatever comes last waits longest).
And where the actors of a stage are not equally busy, take the busiest one instead of the mean: one straggler is enough.
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
Python has a profiler, `cProfile`; only, the code runs in another process.
Every actor has a method `__ray_call__` that runs a function of yours in its process, with the actor as the first argument.
(Its name begins with an underscore because Ray may still change it.)
`given.profiled` is such a function: it runs one call under `cProfile`.

`prepare` scales pixels, computes a weight for each frame with a mean, a distance and an exponential, and then a weighted mean over all frames of 84 × 84 pixels.
(A fragment has as many frames as your machine prepares in about a tenth of a second, so that the program is slow everywhere.)

**Predict:** where does the time go?
"""

# %% tags=["demo"]
frames = program.samplers[0].play.remote(0, 0, program.frames)
print(ray.get(program.preparer.__ray_call__.remote(given.profiled, "prepare", frames)))

# %% [markdown]
r"""
Look at `ncalls`, and at the uppermost rows.
They are one loop, which goes through all pixels and calls `scale` for each: a function that is called for every single pixel, a hundred thousand times and more for one fragment.
`tottime` is the time within the function itself, `cumtime` includes what it calls.
(A profiler makes small functions look even slower than they are, because it notes each call.
Trust it for the place; for seconds, use a clock.)

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
    axes.set(title="Mend what everybody waits for", ylabel=f"seconds for {fragments} fragments")
    axes.margins(y=0.15)

# %% [markdown]
r"""
The faster simulator, alone, saves little or nothing (on a busy machine it may even seem to lose): its fragments wait for the preparer.
With the pixels mended it pays, because now the samplers are what everybody waits for.
So after every repair, measure again: the bottleneck has moved.
"""

# %% tags=["demo"]
if passed("find_the_bottleneck"):
    print("Now it is:", find_the_bottleneck(given.ended(run)))

# %% [markdown]
r"""
For a process that you cannot ask, because it is busy or stuck, there is `py-spy`, which reads another process's stack from outside; `ray stack` and the dashboard's *Stack Trace* use it.
It comes with `ray[default]`, but most systems let only an administrator look into other processes (`ray stack` calls `sudo`), and containers often forbid it.
Further down you will get the stacks of two stuck actors without it.
"""

# %% [markdown]
r"""
## A reserved CPU costs as much as a busy one

Whoever rents machines pays for what is **reserved**, whether it computes or not.
The records of the slow run say how long each actor had a call to work on; the operating system says how many CPU seconds its process really computed.
Three numbers for each class: reserved (`num_cpus` times the seconds of the run), reserved *while a call was running*, and computed.
In the picture they are `reserved`, `in calls` and `computed`.
A sampler reserves half a CPU, the preparer and the learner one each: three and a half in all.

**Predict:** which share of the reserved CPU seconds was computed?
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
3. **balance the stages**: every second that the bottleneck loses, all the others are paid for as well.
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
## A number that only grows tells how it is going

On every node the agent offers the node's numbers as a page of plain text, in the format of **Prometheus**: a program that fetches such pages every few seconds and keeps them.
(Grafana draws what Prometheus has kept; the dashboard's *Metrics* page shows Grafana's pictures when both run.)
You can fetch the page yourself.

**Predict:** how many numbers does one node offer?
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
There are two kinds that matter most: a **gauge** goes up and down, like the CPUs in use; a **counter** only grows.
(Note in passing that the page asked for no token, unlike the dashboard: whoever reaches the port can read it.)

The learner has a counter of its own, made with three lines in its class:

```python
from ray.util.metrics import Counter

self.learned = Counter("learned_fragments", description="Fragments taken.")  # in __init__
self.learned.inc()  # in update
```

On the page it is called `ray_learned_fragments_total`.
Now run the slow program once more, mend it while it runs, and scrape meanwhile.

**Predict** what the curve of the counter looks like.
"""

# %% tags=["demo"]
if passed("find_the_bottleneck"):
    ray.get(program.preparer.use.remote(given.scaled))  # slow again
    with given.scrapes() as so_far:
        began = time.time()
        ray.get(program.launch(fragments))
        mended = time.time()
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
    axes.axvline(mended - began, color="#db2777", linestyle="--")
    axes.annotate(" mended", (mended - began, counted[0]), color="#db2777")
    axes.set(xlabel="seconds", ylabel="ray_learned_fragments_total", title="The slope is the speed")

# %% [markdown]
r"""
Steps, because each process reports once a second (so the cell waited, after the last fragment, until it was on the page).
The height means little: it says how many there have been since the process started.
The **slope** is the speed, and it changes when the program does.
So dashboards rarely show a counter; they show its *rate*.

Rates have two catches, and both come from processes that come and go.
Every worker has a series of its own (look at the labels: `WorkerId`), so a new worker brings a new series, which began at 0.
And when a process is started again, its counter starts again at 0: the number *falls*, although nothing was undone.

`per_second` computes a rate and minds both.
(Prometheus minds the second; a new series it counts only from its first scrape on.)
`scrapes` is a list of `[time, page]`, oldest first.
"""


# %%
def per_second(scrapes, name):
    """Return the growth of the counter `name` in a second, all its series together.

    That is from the first scrape to the last, divided by the seconds between the two. `name` is written
    as on the page (`ray_…_total`), and a page is text. A series that comes
    later began at 0, after the scrape before; one that falls was started again at 0.
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
Sum last and rate first is the rule that follows: whoever adds up the series before taking differences turns every new start into a loss.
Prometheus' `sum(rate(...))` does it in this order.
(It treats a new series with more caution than we do: it counts from its first scrape, because it cannot know that the series began at 0.)
"""

# %% tags=["demo"]
if passed("find_the_bottleneck") and passed("per_second"):
    halves = {"before": [page for page in pages if page[0] <= mended]}
    halves["after"] = [page for page in pages if page[0] > mended]
    for title, part in halves.items():
        if len(part) > 1:  # a rate takes two scrapes
            print(f"{title:6} {per_second(part, 'ray_learned_fragments_total'):5.1f} fragments a second")

# %% [markdown]
r"""
## `ray memory` says who holds a reference

An object stays in the store as long as *anybody* holds a reference to it (chapter 2).
Somebody always does.
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
        """Forget all."""
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
Nothing was let go, and nothing in this notebook shows it: its own references are gone.
In a training that runs for days this is the slow death: memory grows, then Ray spills to disk, then the disk is full.
Ask Ray who holds what.
The command goes to every process; grouped by the place in the code where a reference came into being (`summaries` keeps the sums and leaves out the list of every single reference):
"""

# %% tags=["demo"]
text = given.shell("ray memory --group-by STACK_TRACE --units MB")
print(given.summaries(text))

# %% [markdown]
r"""
There it stands: the ten came in as an *argument of an actor's call*, of `Archive.note`, and were kept.
A reference *inside a list* is handed over as a reference, not as a value; storing it is what keeps the object alive.
The other line is a surprise: a call from a cell of this notebook (a file whose name is a number is a cell).
It is `frames`, the fragment for the profiler, and the variable still holds it.
In a notebook, variables (and `Out[…]`) are the usual suspects.
Without `record_ref_creation_sites` (for `ray start`: the variable `RAY_record_ref_creation_sites=1`), the places are missing, and you would have only numbers of processes.

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
## When nothing is pending, somebody waits for somebody

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
It hangs.
No error, no time-out, and it would still hang tomorrow.
What would you do?
Killing it is easy, and then you know nothing.
Ask first, from the outside to the inside.

**Predict** what `ray status` says: is a CPU missing?
"""

# %% tags=["demo"]
from coursekit.given.nodes import ray_status

ray_status(until=" 0.0/4.0 CPU")  # only waits: Ray renews its report every five seconds
print(given.shell("ray status").partition("Resources\n")[2].strip("-\n"))  # in a terminal: ray status

# %% [markdown]
r"""
All CPUs are free, and nobody demands anything.
So it is no question of resources, and neither a larger machine nor an autoscaler would help.
Then what is being done?
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
The metrics know that: there is a state of its own for whoever waits in `ray.get`.
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
What a process prints ends in a file on its node, and its last line says how far it came.
`ray logs actor --id …` and the dashboard show the same files (but where several Rays share a machine it may fail: see the traps).
"""

# %% tags=["demo"]
log = given.log_of(actors["player"])
print(f"{len(list(log.parent.iterdir()))} files in the folder; the player's is {log.name[:14]}…{log.name[-12:]}")
print("its last line:", log.read_text().splitlines()[-1])

# %% [markdown]
r"""
And now the stacks: for each process, the line where it is *at this moment*, and who called it.
A stuck actor cannot be asked with `__ray_call__`, because that call would wait in the queue as well.
But right after these two actors were made, each was told to write its stack to a file whenever it gets the signal `SIGUSR1`: that is `faulthandler.register`, of Python itself, and it works however stuck the process is.
In the `__init__` of actors of your own, two lines do it (import `faulthandler`, `os` and `signal`):

```python
self.stacks = open(f"/tmp/stacks-{os.getpid()}.txt", "w")  # an attribute: the file has to stay open
faulthandler.register(signal.SIGUSR1, file=self.stacks)
```

Then `kill -USR1 4711` in a shell writes them; 4711 is the number in the file's name, and the `pid` in `ray list actors --detail`.
The file then has all threads of the process, with Ray's own lines: read the thread in which a line of your file stands.
(`given.stack_of` leaves out the rest.)
Send it only to a process that has registered: any other is *ended* by this signal.
"""

# %% tags=["demo"]
for name, pid in pids.items():
    print(f"{name} (process {pid})\n{given.stack_of(pid, stack_files[name])}\n")

# %% [markdown]
r"""
Read both together, and the circle closes:

![A trainer waits for a player, which waits for the trainer: both are RUNNING and no CPU is missing](../img/ch19_circle.svg)

An actor makes one call at a time.
`weights` begins when `step` has ended; `step` ends when `play` has; `play` ends when `weights` has.
In chapter 4 a deadlock was about CPUs, and `ray status` showed it.
This one asks for nothing, so only calls and stacks show it.

Three ways out, best first: **pass what is needed along** (the trainer gives its weights as an argument: nobody calls back); let the trainer **not wait inside** `step` (return the reference); or give `weights` a **concurrency group** of its own (chapter 3), so that it can run beside `step`.
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

# %%
### BEGIN SOLUTION
nothing_pending = "c"
### END SOLUTION

# %%
quiz("nothing_pending", nothing_pending)

# %% [markdown] tags=["notes"]
r"""
A break fits here.
Ask the room for the longest hang that anybody has had, and how it was found.
Usually by waiting, killing, adding prints, and waiting again; let somebody say at which of the five looks above it would have ended.
"""

# %% [markdown]
r"""
## PENDING has five reasons

A task that has not begun yet waits for something.
Which of these it is decides what you do:

| word | it waits because | what helps |
|---|---|---|
| `"arguments"` | its state is PENDING_ARGS_AVAIL: the tasks that make its arguments have not ended | look at those |
| `"actor"` | it is a call to an actor, which is busy, or is not there yet | look at the actor's calls |
| `"nowhere"` | no living node is large enough, even when it is empty | ask for less, or add a larger node |
| `"queue"` | some living node will have room, once those who work there have ended, or has it already | wait |
| `"locked"` | a node would be large enough, but what is missing is held by those who will not give it back by themselves: they are idle, or wait for others | end somebody |

`explain_pending` finds the word for every task that is not RUNNING: the first row that fits counts.
It gets three lists of dicts:

- tasks: `id`, `name`, `state`, `asks` (such as `{"CPU": 1}`), `actor` (for the call to an actor its id, else None);
- nodes: `id`, `alive`, `resources` (in all);
- holders, which are running tasks and living actors: `who`, `node` (an id), `holds` (such as `{"CPU": 1}`; a CPU that it has lent is not in it), `doing`: `"works"`, `"waits"` or `"idle"`.

Assume that whoever works will end and give back what it holds, and that the others never do.
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
And "what is free now?" is the wrong question for the last two words: in a queue nothing is free either.
What tells them apart is whether those in the way will leave.
"""

# %% [markdown]
r"""
Your function meets the real thing.
One cell brings about all five at once; `given.pending_report` asks the state API and makes the three lists of its answers.
(Ray does not say who waits.
So the report assumes that whoever has launched a task that has not begun is waiting for it; and it knows from chapter 4 which CPUs those who wait have lent.)
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

> **You may have seen** `ray.workflow`: `@workflow.step`, later `workflow.run(dag, workflow_id="night-1")`, which saved the result of each step and resumed after a crash.
> See what the installed Ray says:
"""

# %% tags=["demo"]
try:
    import ray.workflow
except RuntimeError as error:
    print("RuntimeError:", error)

# %% [markdown]
r"""
It has no successor inside Ray.
What it did can be built from three things that you know, in a page of code:

- a **checkpoint** for each step: its result in a file, written under another name and renamed (chapter 5), so that a file with its right name is always whole;
- a **key** for each step of each run, the same at every attempt, which goes along with the effect (chapter 5's ledger): the receiver recognises a repeat;
- a **retry**: whatever died is started again from the top, and skips what has a checkpoint.

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
Write it.
The steps are plain functions, called as `function(value, key)`; `value` is what the step before has returned (None for the first), and `key` is a text of yours: the same whenever this step of this run is called, and another one for every other step or run.
Results are plain values for JSON: lists, dicts, texts, numbers, None.
Names of steps and runs are letters and digits.
Several runs may share the folder.

The check runs your pipeline in processes of its own, so call the functions directly, without Ray; it will become a Ray task as a whole.
It kills the process at every moment in turn: when a step has begun, when its effect has happened, and after everything that you do to a file of the folder.
"""


# %%
def durable_pipeline(steps, run, folder):
    """Return the result of the last step; `steps` is a list of (name, function), `run` a name, `folder` a path.

    The folder exists. After a death, the same call finishes the run: a step whose result was saved is not
    called again. A step that raises ends the call with its error, and is called again by the next.
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
(An exception ends it, as chapter 5 says: mend the cause, and call it again with the same run.)
It reserves no CPU itself; its steps' tasks do.

Here each of three steps kills the process once, right between its effect and its checkpoint: the worst moment.
`World` stands for the outside: it takes each key once, and its journal outlives everybody.

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

That is the promise of every durable execution system, large ones included (Temporal, AWS Step Functions, Airflow's tasks): *at least once* for the steps, *once* for the effects, and the second half is yours, because only the receiver can recognise a key.
When pipelines become many, with schedules, people and approvals in them, use one of those, and let its steps submit Ray jobs (chapter 6).
"""

# %% tags=["demo"]
os.environ.pop("RAY_ADDRESS", None)
ray.shutdown()

# %% tags=["demo"]
progress()

# %% [markdown]
r"""
## What you can do now

- You name the slow stage from records, the slow line from a profile, and measure whether mending it helped.
- You scrape a node's metrics, count something of your own, and compute a rate that survives restarts.
- You find with `ray memory` who keeps objects alive, and with the logs how far a process came.
- You debug a hang from the outside to the inside: resources, calls, metrics, logs, stacks.
- You say of every PENDING task why it waits, and what reserved CPUs cost.
- You build pipelines that may be killed anywhere, with each effect once.

## Traps

- **Changing before looking.** The stage that takes the most seconds, or has the longest calls, need not be the slow one.
- **A profiler makes calls look slower than they are.** Trust it for the place, not for seconds.
- **`ray memory` without `record_ref_creation_sites`** knows processes, not places.
- **A counter falls** when its process is started again.
  Rates first, sums last.
- **The metrics page asks for no token**: keep its port inside your network.
- **A call that is RUNNING may be waiting.** `RUNNING_IN_RAY_GET` stands in the metrics only.
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
