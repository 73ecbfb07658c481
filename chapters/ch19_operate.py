# %% [markdown] you_learn_to="find what is slow, what hangs, what waits, what costs"
r"""
# Chapter 19 · Observability and debugging

A running program can tell you where its time goes and what it's waiting for.

*About 105 minutes · builds on [Chapter 5](ch05_faults.ipynb); [Chapters 4](ch04_scheduling.ipynb) and [6](ch06_cluster.ipynb) help*

**What you will be able to do**

- find the stage that makes a distributed program slow, and the line in it, before you change anything;
- say what holds the memory, where a process's last words are, and how the work is going, from Ray's own metrics;
- debug a program that hangs: which tool shows what, and what it means when none shows anything;
- take a program you have never seen, and find the line where it is slow or stuck, with `ray stack`, py-spy and the debugger;
- compute what reserved CPUs cost, and how much of them you used.
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

from coursekit import begin, budget, check, hint, passed, progress, quiz, recorded, solution, timeline
from coursekit.given import ch19_operate as given
from coursekit.given.deaths import keep_news_of_deaths
from coursekit.given.folders import new_folder

begin("ch19_operate")

# %% tags=["demo"]
os.environ |= {
    "RAY_enable_metrics_collection": "1",  # Ray's default; the other chapters of this course do without metrics
    "RAY_enable_open_telemetry": "1",  # Ray's default too: how metrics travel
    "RAY_metrics_report_interval_ms": "1000",  # each process reports its metrics every second: usually every ten
    "RAY_record_ref_creation_sites": "1",  # Ray notes which line of code made each reference
}
ray.shutdown()  # ends a Ray that already runs here: its references and actors are gone
# "local" starts a new Ray even if RAY_ADDRESS is set, as it is below; what processes print stays in their log files
ray.init("local", num_cpus=4, resources={"licence": 1}, log_to_driver=False)
os.environ["RAY_ADDRESS"] = ray.get_runtime_context().gcs_address  # which Ray the tools ask
news = keep_news_of_deaths()

# %% [markdown]
r"""
This time Ray starts with its **dashboard**, because the *state API*, which lists tasks and actors, lives there too.
The processes of Ray read the variables `RAY_…` when they start; on a cluster, set them before `ray start`.
Noting lines of code costs a little with each call, so it is off by default.
Several Rays may run on one machine; `RAY_ADDRESS` says which one the tools below should ask.

Six questions, each with a tool that answers it:

![Six questions about a running program: what is slow, how is it going, who holds the memory, what waits for whom, what did it print, what waits for a place; with the tool for each](../img/ch19_questions.svg)
"""

# %% [markdown] tags=["notes"]
r"""
The run sheet plans a hundred and five minutes, with `per_second` and `explain_pending` as homework.
Begin with a question: your training is half as fast as yesterday; what do you look at first?
Collect answers on the board, and at the end strike out those that would have cost a day.
Most people begin by changing something.
"""

# %% [markdown]
r"""
## The stage that sets the pace has no gaps

In this slow program, three **samplers** play on a slow simulator, 0.14 s a fragment, with a nap in place of real play.
A **preparer** turns the frames into numbers in about a tenth of a second, and a **learner** learns from them in a hundredth.
Every fragment goes through all three, and they work side by side.
The program has been slow since last week, and a colleague has already asked for a faster simulator.

**Predict:** which of the three would you speed up?
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
The samplers have no gaps, but finish early; the learner waits most of the time; one actor works almost from beginning to end.
Whatever the others do, the program ends when that row ends.

Here is the same in numbers:
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
Neither makes a bottleneck: three samplers share their seconds, and the preparer has its own alone.
What counts is how long *one* actor of a stage is busy.
Compare `total / actors`: the largest number sets the pace of the whole program.

`ray.timeline("file.json")` writes the same records for `chrome://tracing` or [Perfetto](https://ui.perfetto.dev).
They are good to look at, and hard to compute with.
"""

# %% [markdown]
r"""
Now write down how you found it, as a function of Ray's records.
Each record is a dict with these keys, among others: `name` (`"Sampler.play"`), `kind`, `actor_id`, and `started` and `ended` in seconds.
The kind is `"actor_call"`, or `"actor_creation"` for the making of an actor, which is no call.
A stage is a class: an actor with several methods has to do them all.
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
Two shortcuts look right in this program and fail in the next.
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
Which of its lines is slow?
Python has a profiler, `cProfile`, but the code runs in another process.
Every actor has a method `__ray_call__` that runs a function of yours in its process, with the actor as the first argument.
Its name begins with an underscore because Ray may still change it.
`given.profiled` is such a function: it runs one call under `cProfile`.

`prepare` scales pixels, computes a weight for each frame with a mean, a distance and an exponential, and then a weighted mean over all frames of 84 × 84 pixels.
A fragment has as many frames as your machine prepares in about a tenth of a second, so the program is slow on any machine.
"""

# %% tags=["demo"]
frames = program.samplers[0].play.remote(0, 0, program.frames)
print(ray.get(program.preparer.__ray_call__.remote(given.profiled, "prepare", frames)))

# %% [markdown]
r"""
Look at `ncalls` and the top rows.
They are one loop, which calls `scale` for every single pixel: a hundred thousand times and more for one fragment.
`tottime` is the time within the function itself; `cumtime` includes what it calls.
A profiler notes each call and so makes small functions look slower than they are.
Trust it for the place; for seconds, use a clock.

The mathematics, which looked expensive (`weights_of`), takes a few thousandths of a second.
NumPy scales all pixels in one operation.

**Predict** the seconds of four runs: as it was; with a simulator twice as fast; with the pixels scaled at once; with both.
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
The faster simulator alone saves little or nothing, and on a busy machine may even seem to lose: its fragments wait for the preparer.
Once the pixels are fixed it pays, because now the samplers set the pace.
So measure again after every repair: the bottleneck has moved.
"""

# %% tags=["demo"]
if passed("find_the_bottleneck"):
    print("Now it is:", find_the_bottleneck(given.ended(run)))

# %% [markdown]
r"""
A busy or stuck process does not answer `__ray_call__`: the call waits in its queue.
Further down you will read such processes' stacks from outside.
"""

# %% [markdown]
r"""
## A reserved CPU costs as much as a busy one

A CPU that an actor has **reserved** is taken: no other task gets it, whether the actor computes or not.
The records of the slow run say how long each actor had a call to work on; the operating system says how many CPU seconds its process computed.
That gives three numbers for each class: `reserved` (`num_cpus` times the seconds of the run), reserved while a call was running (`in calls`), and `computed`.
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
The samplers nap, like a simulator that waits for something else; for that, even half a CPU is too much.
The learner waits for the preparer, and its CPU is reserved all the same.
What helps, in this order:

1. **end actors that have nothing more to do**; an idle one holds its CPUs, and keeps an autoscaler from giving the node back (chapter 4);
2. **reserve what is used**: a stage that mostly waits takes `num_cpus=0.1`;
3. **balance the stages**: for every second the bottleneck loses, you pay for all the others as well.
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

On every node an agent offers the node's numbers as a page of plain text in the format of **Prometheus**, a program that fetches such pages every few seconds and keeps them.
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
A line is a name, labels in braces, and a number; the numbers of one name and labels over time are a **series**.
Two kinds matter most: a **gauge** goes up and down, like the CPUs in use; a **counter** only grows.
Unlike the dashboard, the page asked for no token: anyone who reaches the port can read it.

The learner has a counter of its own, three lines in its class:

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
Its height means little: it counts from the process's start.
The **slope** is the speed, and it changes when the program does.
So dashboards rarely show a counter; they show its *rate*.

Rates have two catches, and both come from processes that come and go.
Every worker has a series of its own, with its label `WorkerId`, so a new worker brings a new series, which began at 0.
And when a process starts again, so does its counter, at 0: the number *falls*, although nothing was undone.

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
Prometheus' `sum(rate(...))` works in this order, but counts a new series only from its first scrape, because it cannot know that the series began at 0.
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
Here an archive records which fragments there were, and the program forgets its own references after every round.

**Predict:** after ten fragments of 0.4 MB, one after the other, each forgotten, how many MB are in the store?
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
from coursekit import stores

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
The command asks every process, and groups by the line that made a reference; `summaries` keeps the sums and leaves out the single references:
"""

# %% tags=["demo"]
text = given.shell("ray memory --group-by STACK_TRACE --units MB")
print(given.summaries(text))

# %% [markdown]
r"""
The ten came in as an *argument of an actor's call*, of `Archive.note`, and were kept.
A reference *inside a list* arrives as a reference, not a value; storing it keeps the object alive.
The other line is a surprise: a call from a cell of this notebook (a file whose name is a number is a cell).
It is `frames`, the fragment for the profiler, which the variable still holds.
In a notebook, variables and `Out[…]` are the usual suspects.
Without `RAY_record_ref_creation_sites`, you would see processes and no places.

The repair is to keep what you need, a number or a name, not the reference.
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
Each works when tested alone.
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
Ask first, from the outside in.

**Predict** what `ray status` says: is a CPU missing?
"""

# %% tags=["demo"]
from coursekit.given.nodes import ray_status

ray_status(until=" 0.0/4.0 CPU")  # only waits: Ray renews its report every five seconds
print(given.shell("ray status").partition("Resources\n")[2].strip("-\n"))  # in a terminal: ray status

# %% [markdown]
r"""
All CPUs are free and nothing is pending, so neither a larger machine nor an autoscaler would help.
Then what is running?
`list_tasks` is the state API (chapter 6); in a terminal, use `ray list tasks --filter "state!=FINISHED"`, since without a filter it lists the first hundred, ended or not.
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
RUNNING only means that the function has begun.
Does it compute, or does it wait?
The metrics know: they count tasks that wait in `ray.get` as a state of their own.
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
`ray logs actor --id …` and the dashboard show the same files; if several Rays share a machine, that may fail, as the traps say.
"""

# %% tags=["demo"]
log = given.log_of(actors["player"])
print(f"{len(list(log.parent.iterdir()))} files in the folder; the player's is {log.name[:14]}…{log.name[-12:]}")
print("its last line:", log.read_text().splitlines()[-1])

# %% [markdown]
r"""
And now the stacks: for each process, the line where it is *at this moment*, and the calls that led there.
These two actors were told, right after they were made, to write their stack to a file on the signal `SIGUSR1`.
That is Python's own `faulthandler.register`, and it works however stuck the process is.
In the `__init__` of your own actors, two lines do it, with imports of `faulthandler`, `os` and `signal`:

```python
self.stacks = open(f"/tmp/stacks-{os.getpid()}.txt", "w")  # an attribute: the file has to stay open
faulthandler.register(signal.SIGUSR1, file=self.stacks)
```

Then `kill -USR1 4711` in a shell writes them; 4711 is the number in the file's name, and the `pid` in `ray list actors --detail`.
The file then has all the process's threads, with Ray's own lines; `given.stack_of` leaves those out.
Send the signal only to a process that has registered: it *ends* any other.
"""

# %% tags=["demo"]
for name, pid in pids.items():
    print(f"{name} (process {pid})\n{given.stack_of(pid, stack_files[name])}\n")

# %% [markdown]
r"""
Read both together, and the circle closes:

![A trainer waits for a player, which waits for the trainer: both are RUNNING and no CPU is missing](../img/ch19_circle.svg)

An actor without threads or `async` runs one call at a time.
`weights` begins when `step` has ended; `step` ends when `play` has; `play` ends when `weights` has.
In chapter 4 a deadlock was about CPUs, and `ray status` showed it.
This one asks for nothing, so only calls and stacks show it.

Three ways out, best first.
**Pass along what the player needs**: the trainer gives its weights as an argument, and the player never calls back.
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
With a Ray of your own, the same five looks are:

| look | in a terminal |
|---|---|
| resources | `ray status` |
| calls | `ray list tasks --filter "state!=FINISHED"` |
| metrics | the family `ray_tasks` on the metrics page, state `RUNNING_IN_RAY_GET` |
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
Ask for the longest hang that anyone has had, and how it was found.
Usually by waiting, killing, adding prints, and waiting again; ask which of the five looks above would have ended it.
"""

# %% [markdown]
r"""
## Two samples of a stack tell a hang from slow work

A colleague hands you two programs, both running, and leaves for the holidays.
The `shelf` should fill with fragments of experience, and the `saver` should write weights into a file; each is one actor call.
Neither call has come back or printed anything, and no one remembers an error.
You need not have seen the code: `given.hand_over` starts both as they were handed over.
"""

# %% tags=["demo"]
programs = given.hand_over()
ready, waiting = ray.wait([each.call for each in programs.values()], num_returns=2, timeout=budget(3, 1))
print(f"{len(ready)} calls have ended, {len(waiting)} have not")

# %% [markdown]
r"""
This time the actors are not yours, so a tool has to look in from outside.
**py-spy** stops a running Python for a few milliseconds, reads its memory, and finds the stack there.
`ray stack` calls it for every worker on the machine, under `sudo`, and on Linux with the lines of C and C++, which the cell leaves out.
Many systems let only an administrator look into other processes, a Mac always asks for `sudo`, and containers often forbid it; the cells then say so.
"""

# %% tags=["demo"]
print(given.ray_stack([each.pid for each in programs.values()]))  # in a terminal: ray stack

# %% tags=["demo"]
for name, program in programs.items():
    print(f"{name}: py-spy dump --pid {program.pid}\n{given.py_spy(program.pid)}\n")

# %% [markdown]
r"""
Each thread has a line of its own, with `active` for one that computes and `idle` for one that waits; below it are the calls, the innermost first.
Besides the main thread, where your code runs, a worker has Ray's threads; between your frames are Ray's, from files whose path begins with `ray/`.

**Predict** from this one look: which program hangs, and which is only slow?

One sample can deceive: every program stands *somewhere* when you look, and a slow one may just be waiting.
So look ten times.
`given.sample_stacks` does that, a tenth of a second apart; if the system refuses py-spy, it uses the signal of the last section.
Each sample is a dict: `active` says whether the program went on computing after the look, and `frames` are those of its main thread, the innermost first, each a dict with `function`, `file` and `line`.
"""

# %% tags=["demo"]
samples = {name: given.sample_stacks(program.pid, program.stacks) for name, program in programs.items()}
for name, seen in samples.items():
    print(name, [sample["active"] for sample in seen], seen[0]["frames"][0])
for program in programs.values():
    ray.kill(program.actor)  # the samples are enough; the shelf would keep a CPU busy

# %% [markdown]
r"""
Write down how you read them.
A program **hangs** if it computed in none of the samples, and all their stacks are the same, line by line.
Everything else is **slow**: it moves, or it computes.
An endless loop counts as slow here, and stays slow; more samples tell.

The place is a function in the program's own files: from each sample take the innermost frame whose file is in `own`, and then the most frequent function.
You cannot fix library frames, and a sample without a frame of your own says nothing about the place.
The check has programs of its own.
"""


# %%
def diagnose(samples, own):
    """Return (verdict, function): "hung" or "slow", and the function of the files `own` where the samples most often were."""
    ### BEGIN SOLUTION
    first = samples[0]["frames"]
    moves = any(sample["active"] or sample["frames"] != first for sample in samples)
    places = Counter()
    for sample in samples:
        own_frames = [frame["function"] for frame in sample["frames"] if frame["file"] in own]
        places.update(own_frames[:1])
    return "slow" if moves else "hung", places.most_common(1)[0][0]
    ### END SOLUTION


# %%
check("diagnose", diagnose)

# %% [markdown] tags=["solution"]
r"""
You have written a *sampling profiler*: count where a program stands, and the counts are shares of its time.
`py-spy record` and `py-spy top` do it a hundred times a second and hardly slow the program down; `cProfile`, which notes every call, does.
"""

# %% tags=["demo"]
if passed("diagnose"):
    for name, seen in samples.items():
        verdict, function = diagnose(seen, ["handed_over.py"])
        print(f"{name}: {verdict}, in {function}")

# %% [markdown]
r"""
Now open `coursekit/given/handed_over.py`, but only these two functions.
The shelf compares a new fragment with every one it has; a `set` of tuples would know at once.
The saver waits for a lock, and the stack cannot say who has it; in this actor nothing else is running.

For such a question you want the *values*.
That is what a **debugger** is for: write `breakpoint()` where you want to stop, and run the program again.
A Ray worker that reaches that line waits for you: for VS Code with the extension *Ray Distributed Debugger* or, with `RAY_DEBUG=legacy` in its environment, for `ray debug` in a terminal.
Here are the actor with a breakpoint, the colleague's two calls, and what you would type.
"""


# %% tags=["demo"]
from coursekit.given.handed_over import Saver


@ray.remote(runtime_env={"env_vars": {"RAY_DEBUG": "legacy"}})
class WatchedSaver(Saver):
    """A saver that stops before each call."""

    def save(self, path, weights):
        """Return the number of weights in the file."""
        breakpoint()  # noqa: T100  that is the point
        return super().save(path, weights)


# %% tags=["demo"]
watched = WatchedSaver.remote()
for path in ("no/such/folder/1.json", "/dev/null"):
    call = watched.save.remote(path, [0.1, 0.2])
    print(given.at_breakpoint(["p path", "p self.lock", "c"]))  # c: continue
    print("ended" if ray.wait([call], timeout=1)[0] else "has not come back", end="\n\n")

# %% [markdown]
r"""
Before the first call the lock is `unlocked`, and before the second it is `locked`, though nothing runs: the first call left it so.
It raised between `acquire` and `release`, the colleague's program caught the error and went on, and the lock stayed locked.
`with self.lock:` releases it whatever happens.

You cannot send a process that hangs *now* to a breakpoint, but `py-spy dump --locals` shows the variables of its stack.
"""

# %% tags=["demo"]
ray.kill(watched)

# %% [markdown]
r"""
## Five reasons to be PENDING

A task that has not begun yet waits for something, and what you do depends on what that is:

| word | it waits because | what helps |
|---|---|---|
| `"arguments"` | its state is PENDING_ARGS_AVAIL: the tasks that make its arguments have not ended | look at those |
| `"actor"` | it is a call to an actor that is busy, or not there yet | look at the actor's calls |
| `"nowhere"` | no living node is large enough, even when it is empty | ask for less, or add a larger node |
| `"queue"` | a living node has room for it, or will have once the holders that work there have ended | wait |
| `"locked"` | a node would be large enough, but what is missing is held by holders that are idle or wait for others, and they will not give it back by themselves | end one of them |

The table leaves out rarer reasons, such as a full object store or an environment still being installed.

`explain_pending` finds the word for every task that is not RUNNING: the first row that fits counts.
Look at each task alone, as if no other were waiting.
It gets three lists of dicts:

- tasks: `id`, `name`, `state`, `asks` (such as `{"CPU": 1}`), `actor` (for the call to an actor its id, else None);
- nodes: `id`, `alive`, `resources` (in all);
- holders, meaning running tasks and living actors: `who`, `node` (an id), `holds` (such as `{"CPU": 1}`; a CPU that it has lent is not in it), `doing`: `"works"`, `"waits"` or `"idle"`.

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
The difference is whether the holders in the way will leave.
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
- You debug a hang from the outside in: resources, calls, metrics, logs, stacks.
- You take a program you have never seen, and tell from a few stacks whether it is slow or hangs, and where.
- You say of every PENDING task why it waits, and what reserved CPUs cost.

## Traps

- **Changing before looking.** The stage that takes the most seconds, or has the longest calls, need not be the slow one.
- **A profiler makes calls look slower than they are.** Trust it for the place, not for seconds.
- **`ray memory` without `RAY_record_ref_creation_sites`** knows processes, not places.
- **A counter falls** when its process starts again.
  Rates first, sums last.
- **The metrics page asks for no token**: keep its port inside your network.
- **A call that is RUNNING may be waiting.** The metrics tell, with `RUNNING_IN_RAY_GET`, and so do the stacks.
- **Several Rays on one machine**: the tools refuse to guess; set `RAY_ADDRESS`.
  And only one of them gets the agent's port 52365: for the others `ray logs` fails ("Agent … doesn't exist"), and you read the files themselves.
- **A shell needs `RAY_AUTH_MODE=token`** before every `ray` command (chapter 6).
- **One stack is no hang**: every program stands somewhere when you look.
  Look again, and see whether it has moved.
- **`lock.acquire()` without `with`**: an exception leaves it locked, and the next call hangs.

On Windows outside WSL there is no `SIGUSR1`; on a Mac everything here works as it is, and `ray stack` asks for your password.

## Read on

- [Chapter 20](ch20_capstone.ipynb): an agent of your own, under a budget of CPU seconds.
- [Chapter 25](ch25_pipelines.ipynb): a program that is killed, and resumes where it stopped.
- Ray's documentation: [observability](https://docs.ray.io/en/latest/ray-observability/index.html), [metrics](https://docs.ray.io/en/latest/cluster/metrics.html), [debugging hangs](https://docs.ray.io/en/latest/ray-observability/user-guides/debug-apps/debug-hangs.html), [memory](https://docs.ray.io/en/latest/ray-observability/user-guides/debug-apps/debug-memory.html).
- Gregg, [*The USE Method*](https://www.brendangregg.com/usemethod.html): for every resource, ask for utilisation, saturation and errors.
- [py-spy](https://github.com/benfred/py-spy), and [Ray's distributed debugger](https://docs.ray.io/en/latest/ray-observability/ray-distributed-debugger.html).
"""
