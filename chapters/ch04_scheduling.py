# %% [markdown] you_learn_to="declare what tasks need, place groups of workers, use several nodes"
r"""
# Chapter 4 · Resources and scheduling

A task waits until a single node has everything that it requests.

*About 100 minutes · builds on [Chapter 3](ch03_actors.ipynb)*

**What you will be able to do**

- declare what a task needs (whole CPUs, fractions, custom resources), and explain what Ray does with those numbers;
- assign whole and fractional GPUs, and tell which GPUs a task sees;
- find out why a task is PENDING, and tell a long queue from an *infeasible* request;
- recognize nested tasks that deadlock, and rewrite them so that they can't;
- send work to a specific node, or to every node, by affinity and by label;
- reserve resources for a group of workers, all or nothing, and measure when PACK beats SPREAD;
- watch an autoscaler add nodes for pending work and remove them again.
"""

# %%
import time
from collections import Counter

import matplotlib.pyplot as plt
import pandas
import ray
from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from coursekit import begin, budget, check, explain, hint, measured, passed, predict, progress, puzzle, quiz, recorded
from coursekit import review, solution, timeline, warm_up
from coursekit.given.ch04_scheduling import Worker, look_at_gpus, most_at_once, nap, pass_arrays
from coursekit.given.nodes import (
    add_nodes, autoscaler, follow, node_resources, ray_status, remove_nodes, small_cluster, stop, waiting
)

begin("ch04_scheduling")

# %% [markdown]
r"""
So far, `ray.init` has started everything.
In this chapter, you build a cluster from its parts.
`small_cluster` starts a **head node** with Ray's own `ray.cluster_utils.Cluster`, and `ray.init(address=...)` connects your notebook to it as a driver.
More nodes join later.
Each node has its own raylet, workers, and object store, but here, all of the nodes share one machine: yours.

The head node has two CPUs and two **licenses**, for example for a simulator that you may run twice at the same time.
A [custom resource](../docs/glossary.md#custom-resource) like this is just a name and a number.
"""

# %%
cluster = small_cluster(num_cpus=2, resources={"license": 2})  # stops the previous cluster: its references and actors are gone
ray.init(address=cluster.address, log_to_driver=False)
warm_up(2)
node_resources()

# %% [markdown] tags=["notes"]
r"""
The run sheet allots a hundred minutes, with `spread_over_nodes` as homework; show the autoscaler from the front.
Start the first two cells before you speak.
`Cluster` is Ray's own test tool.
It starts real raylets, so what you see here also holds for nodes on real machines, except that these nodes share their cores, memory, and disk.
"""

# %% [markdown]
r"""
## Ray counts CPUs, but it doesn't measure what a task uses

A task states what it needs.
The raylet subtracts that from what the node has, and starts the task when enough is left.
That's all: Ray neither measures what the task really uses nor ties it to a core.
It only gives a hint to NumPy and PyTorch: unless you've set `OMP_NUM_THREADS`, Ray sets this environment variable to the number of CPUs that the task requests (rounded down, and at least 1).
Libraries read it only once per process, so if the number of threads matters, call `torch.set_num_threads` in the task.

A CPU is therefore a [logical resource](../docs/glossary.md#logical-resource), and you can divide it: `num_cpus=0.5` requests half of one.
`.options(...)`, which you know from actors, sets the request for a single call.

**Predict:** four tasks sleep for half a second each, on a node with two CPUs.
How many of them run at the same time if each requests `num_cpus=0.5`?
"""

# %% tags=["demo"]
predict("half_a_cpu", ...)  # tasks at the same time

# %% tags=["demo"]
nap_task = ray.remote(nap)
warm_up(4, num_cpus=0.5)  # up to four tasks run at the same time, and each needs a worker

figure, rows = plt.subplots(3, figsize=(9, 6), sharex=True, constrained_layout=True)
runs = {}
for cpus, axes in zip((0.5, 1, 2), rows, strict=True):
    with recorded() as runs[cpus]:
        ray.get([nap_task.options(num_cpus=cpus).remote(budget(0.5, 0.2)) for _ in range(4)])
    timeline(runs[cpus], ax=axes).set_title(f"four tasks with num_cpus={cpus} on two CPUs")
for axes in rows:
    axes.autoscale(axis="x")  # all three plots get the scale of the longest
measured("half_a_cpu", most_at_once(runs[0.5]))

# %% [markdown]
r"""
With `num_cpus=0.5`, all four tasks run at the same time.
With 1, they take two rounds, and with 2, four rounds.
Your machine's real cores were idle the whole time; only Ray's accounting made the tasks wait.
So a task that mostly waits, for a network or for a slow simulator, can request a tenth of a CPU.
A task with eight busy threads should request eight CPUs, and one that needs a license requests `resources={"license": 1}`.

An **actor** holds what it requested for its whole lifetime, busy or not.
`Worker` is a small class, and its `node` method returns the ID of the node that it runs on.
"""

# %% tags=["demo"]
worker_actor = ray.remote(Worker)
holder = worker_actor.options(num_cpus=0.5, resources={"license": 0.25}).remote()
ray.get(holder.node.remote())  # the call returns once the actor has started
display(node_resources())
ray.kill(holder)

# %%
### BEGIN SOLUTION
what_num_cpus_does = "c"
### END SOLUTION

# %%
quiz("what_num_cpus_does", what_num_cpus_does)

# %% [markdown]
r"""
**Predict:** you start three actors on two CPUs, without any options.
How many of them start?
"""

# %% tags=["demo"]
predict("three_actors", ...)  # actors

# %% tags=["demo"]
workers = [worker_actor.remote() for _ in range(3)]
started, _ = ray.wait([worker.node.remote() for worker in workers], num_returns=3, timeout=20)
display(node_resources())
for worker in workers:
    ray.kill(worker)
measured("three_actors", len(started))

# %% [markdown]
r"""
All three start, and both CPUs are still free.
An actor without options goes to a node that *has* a CPU, even if a task is using that CPU, but while the actor runs, it holds none.
This default changes as soon as you request a GPU or a custom resource, even with `num_gpus=0`: the actor then holds one CPU for its whole lifetime, unless you set `num_cpus`.
"""

# %%
### BEGIN SOLUTION
default_actor = "a"
### END SOLUTION

# %%
quiz("default_actor", default_actor)

# %% [markdown]
r"""
## Ray assigns whole GPUs and fractions of GPUs

When a node starts, Ray detects its GPUs, unless you set their number yourself.
So even a machine without a GPU can offer two: the accounting is real, and only the hardware is missing.
The next cell adds such a node.

A task requests a whole GPU with `num_gpus=1`, or a fraction of one with `num_gpus=0.5`.
Above 1, only whole numbers are allowed.
Each GPU has an ID, and a task gets the IDs of the GPUs that it's assigned.
`ray.get_gpu_ids()` returns them, and Ray also writes them to the `CUDA_VISIBLE_DEVICES` environment variable, which tells CUDA, and therefore PyTorch, which GPUs are visible.

Below, one task requests a whole GPU, two request half of one, and one requests none.
Which GPUs will each of them see?
"""

# %%
add_nodes(cluster, gpus={"num_cpus": 2, "num_gpus": 2})
node_resources()

# %% tags=["demo"]
look_task = ray.remote(look_at_gpus)
gpus = {"whole": 1, "first half": 0.5, "second half": 0.5, "none": None}
refs = [look_task.options(num_gpus=count, num_cpus=0).remote(budget(1, 0.5)) for count in gpus.values()]
pandas.DataFrame(ray.get(refs), index=gpus.keys())

# %% [markdown]
r"""
The two half-GPU tasks share one GPU, because Ray fills a GPU before it uses the next one, and the whole-GPU task has the other to itself.

The last row is a trap: if a task requests no GPU, Ray leaves `CUDA_VISIBLE_DEVICES` alone.
On a machine with real GPUs, that task sees all of them, and a careless `.to("cuda")` puts its tensors on a GPU that's assigned to another task.
(With `RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO=1` in its environment, it sees none.)
With AMD or Intel GPUs, or on a Mac, the column may say "not set" in every row.

Two more facts matter:

- A fraction is bookkeeping, just like half a CPU: Ray limits neither the time nor the memory that a task uses on a GPU.
  Two tasks with half a GPU each must together fit in its memory.
- `num_gpus` doesn't change `num_cpus`, so a GPU task also holds a CPU unless you set `num_cpus=0`.
"""

# %%
### BEGIN SOLUTION
which_device = "b"
### END SOLUTION

# %%
quiz("which_device", which_device)

# %% [markdown]
r"""
In this exercise, a learner trains while several samplers collect experience, the usual structure of this course's programs.
The node has two GPUs.
Nothing computes here, so none of the tasks should hold a CPU.
"""


# %%
def learn_and_play(learn, sample, samplers):
    """Return (learn(), [sample(number) for number in range(samplers)]), with each call in its own task.

    All of the tasks run at the same time. The learner has a GPU to itself. The samplers share the other GPU: each gets
    an equal fraction, and together they use all of it. No task holds a CPU.
    """
    ### BEGIN SOLUTION
    learning = ray.remote(learn).options(num_gpus=1, num_cpus=0).remote()
    sample_task = ray.remote(sample).options(num_gpus=1 / samplers, num_cpus=0)
    sampling = [sample_task.remote(number) for number in range(samplers)]
    return ray.get(learning), ray.get(sampling)
    ### END SOLUTION

# %%
check("learn_and_play", learn_and_play)

# %% [markdown] tags=["solution"]
r"""
Ray cuts off a fraction after four decimals, so three samplers with `1 / 3` hold 0.3333 of a GPU each, and they fit.
Without `num_cpus=0`, a learner and four samplers request five CPUs: the node's two CPUs let two of the tasks run, and the others wait although there's room on the GPUs.

RLlib's `num_gpus_per_learner` (Chapter 13) and Ray Train's `use_gpu` (Chapter 17) end up as the same kind of request.
"""

# %% [markdown]
r"""
Now remove the GPU node.
Ray still lists it, as dead, which will matter below.
"""

# %%
remove_nodes(cluster)

# %% [markdown]
r"""
## A task that fits on no node stays PENDING, without an error

Here's a classic first-week problem: you start a tuning run on a laptop, and all day long, Ray reports that a *trial* (one run of many) is PENDING.
The trial requests one CPU for itself and one for each of its two rollout workers: three CPUs, on a machine with two.

The next cell shows the same problem in miniature: a task that requests three CPUs.
"""

# %% tags=["demo"]
big = nap_task.options(num_cpus=3).remote()
ready, not_ready = ray.wait([big], timeout=budget(2, 1))
print(f"{len(ready)} ready, {len(not_ready)} not ready")
waiting()

# %% [markdown]
r"""
There's no error here and no warning: the task just waits.
`PENDING_NODE_ASSIGNMENT` means that the task is waiting for a node with enough room, and the "requests" column says why no node will do.
Ray calls such a request [infeasible](../docs/glossary.md#infeasible), and it keeps the task in case a larger node joins.
After about half a minute, Ray does print "No available node types can fulfill resource request", which `log_to_driver=False` hides in this chapter.
In a long log, that line is easy to miss.

`ray status` reports the same problem from the cluster's side.
In a terminal, it needs `RAY_AUTH_MODE=token` (Chapter 6).
The next cell prints the report (look at its last lines) and takes the task out of the queue with `ray.cancel`.
"""

# %% tags=["demo"]
print(ray_status(until="pending tasks"))
ray.cancel(big)

# %% [markdown]
r"""
| To see | in a terminal | here |
|---|---|---|
| what is waiting, and what it requests | `ray status`, under *Pending Demands* | `ray_status()` |
| each task and its state | `ray list tasks --filter "state=PENDING_NODE_ASSIGNMENT"` (needs the dashboard) | `waiting()` |
| what each node has, and what is free | `ray status`, under *Total Usage*, as a sum | `node_resources()` |

A queue and an infeasible request look alike: both are PENDING.
Arithmetic tells them apart.
In a queue, the request fits on some node once other tasks end.
An infeasible request fits on no node, even when everything is free.

Turn that into a function.
Its `nodes` argument is what `ray.nodes()` returns, a list of dicts.
These are the keys that matter here:
"""

# %% tags=["demo"]
head = next(node for node in ray.nodes() if node["Alive"])
{key: head[key] for key in ("NodeID", "Alive", "Resources")}

# %% [markdown]
r"""
`ray.nodes()` also lists dead nodes, such as the one with the GPUs, and their `Resources` are empty.
The check first tries made-up clusters, and then it compares your answer with what Ray does on this one.
"""


# %%
def fits(nodes, request):
    """Return a list of the NodeIDs of all nodes that could run a task with this request if nothing else ran there.

    `request` is a dict such as {"CPU": 2, "license": 0.5}; its keys can be the names of any resources.
    """

    ### BEGIN SOLUTION
    def has(resources):
        return all(resources.get(name, 0) >= amount for name, amount in request.items())

    return [node["NodeID"] for node in nodes if node["Alive"] and has(node["Resources"])]
    ### END SOLUTION

# %%
check("fits", fits)

# %% [markdown] tags=["solution"]
r"""
Compare this with `ray.cluster_resources()`, which sums over all nodes.
That's right for "how much can run at the same time?" and wrong for "does this task fit?".
`ray.available_resources()` would be wrong for two reasons: it sums over all nodes, and it reports only what is free right now.
"""

# %% tags=["demo"]
if passed("fits"):
    for request in ({"CPU": 2}, {"CPU": 3}, {"CPU": 1, "license": 2}):
        print(request, "→", len(fits(ray.nodes(), request)) or "no", "node")

# %% [markdown]
r"""
## Nested tasks can deadlock: don't hold what your helpers need

In Chapter 1, four parents on four CPUs waited for their children, and each parent **released its CPU** in the meantime.
Now the parents are actors.
A coach starts a helper task and waits for it to finish.

**Predict:** two coaches with `num_cpus=1` run on two CPUs, and each of them calls its helper.
Do the calls return?
"""

# %% tags=["demo"]
predict("coaches", ..., ["both return", "one returns", "neither returns"])

# %% tags=["demo"]
@ray.remote
class Coach:
    """Waits for a helper."""

    def call_helper(self):
        """Return the node on which the helper ran."""
        return ray.get(nap_task.remote(0.1))


coaches = [Coach.options(num_cpus=1).remote() for _ in range(2)]
# Every actor has this method. A call to it returns once the actor has started, so now, each coach holds a CPU.
ray.get([coach.__ray_ready__.remote() for coach in coaches])
calls = [coach.call_helper.remote() for coach in coaches]
returned, _ = ray.wait(calls, num_returns=2, timeout=budget(3, 1))
display(waiting(), node_resources())
measured("coaches", ["neither returns", "one returns", "both return"][len(returned)])

# %% [markdown]
r"""
Neither call returns, because this is a [deadlock](../docs/glossary.md#deadlock): the coaches hold both CPUs and wait for helpers, and the helpers wait for a CPU.
It isn't a queue, so waiting longer doesn't help.
The tables show the symptom: some RUNNING tasks wait for PENDING ones, and no CPU is free.
The calls to the coaches request nothing themselves; the actors hold the CPUs.

![Two coaches hold both CPUs and wait for helpers, which wait for a CPU](../img/ch04_deadlock.svg)

The rule has three parts:

- A **task** releases its CPU while it waits in `ray.get` or `ray.wait`, and takes it back afterward, even if the node then runs more tasks than it has CPUs.
  This holds for the task's main thread: a task that waits in another thread, in `ref.future().result()`, or in an `await` releases nothing.
- A waiting task releases nothing else: any license, GPU, or memory stays reserved.
- An **actor** releases nothing at all.

The next cell shows the first two parts: a task holds a CPU and a license while it waits for a helper that requests one CPU.
"""

# %% tags=["demo"]
for coach in coaches:
    ray.kill(coach)


@ray.remote(num_cpus=1, resources={"license": 1})
def calls_helper():
    """Return the node on which a helper ran."""
    return ray.get(nap_task.remote(3))


calling = calls_helper.remote()
display(waiting(running=2).tail(2), node_resources())  # the two latest: the others are left from the coaches
ray.get(calling);

# %% [markdown]
r"""
Two tasks that request one CPU each are RUNNING, but only one CPU is in use, because the waiting task has released the other.
Its license is still in use.

There are three ways to avoid a deadlock:

1. Let a task, not an actor, do the waiting in `ray.get`, because a task releases its CPU.
2. Let whatever waits hold nothing that its helpers need: a coach computes nothing itself, so `num_cpus=0` is enough.
3. Don't wait inside at all: launch all helpers from the driver, and pass their references on.

The next cell uses the second way.
"""

# %% tags=["demo"]
coaches = [Coach.options(num_cpus=0).remote() for _ in range(2)]
returned, _ = ray.wait([coach.call_helper.remote() for coach in coaches], num_returns=2, timeout=60)
print(f"{len(returned)} of 2 calls have returned")
for coach in coaches:
    ray.kill(coach)

# %%
### BEGIN SOLUTION
who_lends = "b"
### END SOLUTION

# %%
quiz("who_lends", who_lends)

# %% [markdown]
r"""
Your turn: each of several teams has a few inputs to simulate.
Each call to `simulate(x)` must run in its own task, which holds one license, and all teams share two licenses.
A team may wait for its simulations, as the coaches waited for their helpers.

The check uses more teams than there are CPUs or licenses.
If your code deadlocks, the check takes about half a minute.
"""


# %%
def no_deadlock(simulate, teams):
    """Return a list with the sum of simulate(x) over each team's inputs; `teams` is a list of lists of inputs.

    Each simulate(x) runs in its own task, which holds one `license`. The teams work at the same time.
    """
    ### BEGIN SOLUTION
    simulation = ray.remote(simulate).options(resources={"license": 1})

    @ray.remote
    def team_sum(team):
        return sum(ray.get([simulation.remote(x) for x in team]))

    return ray.get([team_sum.remote(team) for team in teams])
    ### END SOLUTION

# %%
check("no_deadlock", no_deadlock)

# %% [markdown] tags=["solution"]
r"""
The teams are tasks that hold only a CPU, and they release it while they wait.
That's the first of the three ways.
The third is just as short, and it's better where you can use it: launch all simulations from the driver, and pass their references to a task that adds them up.
Ray starts that task when the values exist, so it never holds a CPU while it waits.
If a team must see one result before it can choose its next input, it has to wait inside.
"""

# %% [markdown]
r"""
## Three nodes with two CPUs each can't run a three-CPU task

Next, the cluster grows: `add_nodes` calls Ray's `cluster.add_node(...)` for two nodes, `west` and `east`, each with a [label](../docs/glossary.md#label), which you can use to select nodes.

**Predict:** you launch the task with `num_cpus=3` again.
What happens, now that the cluster has six CPUs?
"""

# %% tags=["demo"]
predict("six_cpus", ..., ["it runs", "it stays PENDING"])

# %%
west = {"num_cpus": 2, "labels": {"zone": "west"}}
east = {"num_cpus": 2, "labels": {"zone": "east"}}
add_nodes(cluster, west=west, east=east)
names = {node["NodeID"]: node["NodeName"] for node in ray.nodes()}
node_resources()

# %% tags=["demo"]
big = nap_task.options(num_cpus=3).remote()
ready, _ = ray.wait([big], timeout=budget(3, 1))
print(f"CPUs in the cluster: {ray.cluster_resources()['CPU']:.0f}")
ray.cancel(big)
measured("six_cpus", "it runs" if ready else "it stays PENDING")

# %% [markdown]
r"""
![A request for three CPUs fits on no node; three requests for one CPU fit](../img/ch04_fits.svg)

Six CPUs in total don't help: a task runs in one process, and a process runs on one machine.
If your work needs more than one node, split it into tasks or actors that fit.
"""

# %%
### BEGIN SOLUTION
cpus_here_licence_there = "c"
### END SOLUTION

# %%
quiz("cpus_here_licence_there", cpus_here_licence_there)

# %% [markdown]
r"""
## By default, Ray chooses the node, but you can choose it yourself

If several nodes have room, the [scheduling strategy](../docs/glossary.md#scheduling-strategy) decides:

| strategy | what it does |
|---|---|
| `"DEFAULT"` | uses the local node until it's half full, then other nodes that are less than half full; once all nodes are at least half full, one of the least used. Nodes that already have the task's data come first |
| `"SPREAD"` | goes round-robin over the nodes that have room |
| `NodeAffinitySchedulingStrategy(node_id, soft=False)` | uses this node only; raises an error if the node is gone or could never run the task. With `soft=True`, Ray then falls back to any other node |
| `label_selector={"zone": "west"}` | uses any node with this label |
| `resources={"license": 1}` | uses any node with enough of this resource |

The next cell runs four short tasks under each strategy and counts them by node.
"""


# %% tags=["demo"]
def where(**options):
    """Return how many of four short tasks each node ran."""
    refs = [nap_task.options(**options).remote(0.3) for _ in range(4)]
    return Counter(names[node] for node in ray.get(refs))


(east_id,) = [node for node, name in names.items() if name == "east"]
to_east = NodeAffinitySchedulingStrategy(east_id, soft=False)
where(scheduling_strategy="SPREAD")  # warm-up
choices = {
    "DEFAULT": where(),
    "SPREAD": where(scheduling_strategy="SPREAD"),
    "affinity to east": where(scheduling_strategy=to_east),
    "zone: west": where(label_selector={"zone": "west"}),
    "license: 0.5": where(resources={"license": 0.5}),
}
pandas.DataFrame(choices).T.reindex(columns=["head", "west", "east"]).fillna(0).astype(int)

# %% [markdown]
r"""
The last three rows are the same every time.
The first two may change if you run the cell again, because both depend on what is free when each task is placed.
On idle nodes, `DEFAULT` often gives 2, 1, 1, because a single task makes a node with two CPUs half full.

`SPREAD` is a preference (a soft constraint).
Hard [node affinity](../docs/glossary.md#node-affinity) (`soft=False`), labels, and resources are requirements.
If no node has the label or the resource, the task waits.
With hard affinity, it waits only while the node is full; if the node is gone or could never run the task, Ray raises an error:
"""

# %% tags=["demo"]
(dead_id,) = [node for node, name in names.items() if name == "gpus"]
to_the_dead = NodeAffinitySchedulingStrategy(dead_id, soft=False)
for text, options in {
    "on the dead node": {"scheduling_strategy": to_the_dead},
    "three CPUs on east": {"num_cpus": 3, "scheduling_strategy": to_east},
}.items():
    try:
        ray.get(nap_task.options(**options).remote())
    except ray.exceptions.TaskUnschedulableError as error:
        print(f"{text}: {type(error).__name__}")

# %% [markdown]
r"""
Sometimes you need a guarantee: one evaluation on each node, a cache warmed up on every node, or data distributed evenly.
During the check, one of the three nodes is busy for a while.
If your code deadlocks, the check takes about half a minute.
"""


# %%
def spread_over_nodes(function, xs):
    """Return [function(x) for x in xs], with the same number of calls on every live node.

    The number of inputs is a multiple of the number of live nodes. A busy node delays only its own calls.
    """
    ### BEGIN SOLUTION
    task = ray.remote(function)
    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
    refs = []
    for i, x in enumerate(xs):
        there = NodeAffinitySchedulingStrategy(nodes[i % len(nodes)], soft=False)
        refs.append(task.options(scheduling_strategy=there).remote(x))
    return ray.get(refs)
    ### END SOLUTION

# %%
check("spread_over_nodes", spread_over_nodes)

# %% [markdown] tags=["solution"]
r"""
With `"SPREAD"`, the busy node gets nothing, as it should, because idle nodes are the better choice.
To divide the work evenly, you need affinity.
It has a cost: a task with hard affinity fails when the node dies (Chapter 5), so use it only if the node matters.
With `soft=True`, the task falls back to any other node.
Each node also has its own ID as a label, so `label_selector={"ray.io/node-id": node_id}` selects the same node.
"""

# %% [markdown]
r"""
## A placement group reserves all of its bundles, or none

Some work makes sense only if all of its workers run at the same time: the processes of one training step exchange gradients, and a learner waits for its samplers.
If you launch two such groups of workers as individual tasks, each group can get half of the cluster and wait for the rest, which is a deadlock again.

A [placement group](../docs/glossary.md#placement-group) reserves resources before anything runs.
It's a list of [bundles](../docs/glossary.md#bundle), each a small request that must fit on one node, and the group gets all of its bundles or none.
This is known as [gang scheduling](../docs/glossary.md#gang-scheduling).
A strategy says how to place the bundles: `PACK` puts them close together, and `SPREAD` puts them apart.
Both are preferences, and their `STRICT_` forms are requirements.

Which of the four strategies can never place three bundles of one CPU on three nodes with two CPUs each?
"""


# %% tags=["demo"]
def placed(strategy):
    """Return the state of a group of three bundles, and how many of them each node has."""
    end = time.monotonic() + 5  # wait until the previous group's CPUs are free again
    while ray.available_resources().get("CPU", 0) < 6 and time.monotonic() < end:
        time.sleep(0.1)
    group = placement_group([{"CPU": 1}] * 3, strategy=strategy)
    group.wait(timeout_seconds=budget(3, 1))
    row = placement_group_table(group)
    remove_placement_group(group)
    if row["state"] != "CREATED":
        return {"state": row["state"]}
    return {"state": row["state"], **Counter(names[node] for node in row["bundles_to_node_id"].values())}


strategies = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")
pandas.DataFrame({strategy: placed(strategy) for strategy in strategies}).T.fillna("–")

# %% [markdown]
r"""
![Where each of the four strategies places three bundles](../img/ch04_groups.svg)

`STRICT_PACK` requires all three bundles on one node, so the group stays PENDING, like the three-CPU task.
`PACK` used as few nodes as it could, and `SPREAD` used all of them.

You use a group in four steps:

1. Make it: `group = placement_group([...])`.
2. Wait until it's placed: `ray.get(group.ready())`, since `ready()` returns a reference.
3. Send tasks or actors to it, with `scheduling_strategy=PlacementGroupSchedulingStrategy(group)`.
   Ray finds a bundle with room, or you pass the index of one as a second argument.
4. **Remove** it: `remove_placement_group(group)`.
   Otherwise, it keeps its CPUs from all other work until your program ends.

In this exercise, too, the check takes about half a minute if your code deadlocks.
"""


# %%
def gang(function, size):
    """Return [function(rank) for rank in range(size)], with each call in a task that holds one CPU.

    All of the tasks run at the same time, or none runs. If a task raises an error, so does `gang`.
    Afterward, nothing stays reserved, even if there was an error.
    """
    ### BEGIN SOLUTION
    group = placement_group([{"CPU": 1}] * size)
    try:
        ray.get(group.ready())
        inside = PlacementGroupSchedulingStrategy(group)
        task = ray.remote(function).options(num_cpus=1, scheduling_strategy=inside)
        return ray.get([task.remote(rank) for rank in range(size)])
    finally:
        remove_placement_group(group)
    ### END SOLUTION

# %%
check("gang", gang)

# %% [markdown] tags=["solution"]
r"""
Use one bundle for each worker, not a single bundle with `{"CPU": size}`, because a bundle must fit on one node.
Ray Tune and Ray Train make such groups for you: the trial that stays PENDING is a placement group whose bundles don't fit.
"""

# %% [markdown] tags=["notes"]
r"""
Ask for a show of hands before the next measurement: is PACK or SPREAD faster?
Most people say SPREAD, because there are "more machines".
Ask what the workers exchange.
Then run it.
"""

# %% [markdown]
r"""
## SPREAD isn't faster than PACK if the workers exchange data

"Spread it out, and every worker has a machine to itself."
That's a good argument for workers that don't exchange anything.
The two workers below do: one makes an array, and the other reads it, as a learner reads a sampler's experience.

**Predict:** how many times longer does it take to pass 32 MB between two nodes than within one?
"""

# %% tags=["demo"]
predict("between_nodes", ...)  # times longer

# %% tags=["demo"]
sizes, seconds = (0.01, 1, 8, 32), {}
for strategy in ("STRICT_PACK", "STRICT_SPREAD"):
    group = placement_group([{"CPU": 1}] * 2, strategy=strategy)
    inside = [PlacementGroupSchedulingStrategy(group, bundle) for bundle in (0, 1)]
    pair = [worker_actor.options(num_cpus=1, scheduling_strategy=bundle).remote() for bundle in inside]
    seconds[strategy] = [pass_arrays(*pair, megabytes, budget(25, 4)) for megabytes in sizes]
    remove_placement_group(group)  # this also stops the two actors

# %% tags=["demo"]
figure, axes = plt.subplots(figsize=(7.5, 4), constrained_layout=True)
for (strategy, times), color in zip(seconds.items(), ("#2563eb", "#d97706"), strict=True):
    medians = [1000 * pandas.Series(each).median() for each in times]
    axes.loglog(sizes, medians, "o-", color=color, label=strategy)
    for size, each in zip(sizes, times, strict=True):
        axes.plot([size] * len(each), [1000 * one for one in each], ".", color=color, alpha=0.3)
axes.set_xticks(sizes, [f"{size:g}" for size in sizes])
axes.set(title="Passing an array within a node and between nodes", xlabel="size of the array (MB)")
axes.set_ylabel("time until it has been read (ms)")
axes.minorticks_off()
axes.legend(frameon=False);

# %% tags=["demo"]
table = pandas.DataFrame(seconds, index=pandas.Index(sizes, name="MB")).map(
    lambda each: 1000 * pandas.Series(each).median()
)
table.columns = ["within a node (ms)", "between nodes (ms)"]
table["times longer"] = table["between nodes (ms)"] / table["within a node (ms)"]
display(table.round(1))
measured("between_nodes", table["times longer"][32])

# %% [markdown]
r"""
The factor grows with the size of the array.
Within a node, the worker reads the array in place, without a copy (Chapter 2), whatever its size.
Between nodes, the object stores copy it.
Here, the "network" is inside your machine; a real one is usually slower still.
On the left, the curves are close together, because an array of 0.01 MB is a small result and travels inside the messages (Chapter 1).

| use PACK for workers that | use SPREAD for workers that |
|---|---|
| exchange a lot: gradients, experience, large arrays | exchange little, and each put a heavy load on a disk, a network card, or memory bandwidth |
| should leave whole nodes free, so that these can take large requests or be turned off | must not all die when a node fails: replicas of a service, copies of some state |

Your machine can't show you the advantages of SPREAD, because all nodes here share one disk, one memory, and one power supply.
"""

# %%
### BEGIN SOLUTION
when_to_spread = "b"
### END SOLUTION

# %%
quiz("when_to_spread", when_to_spread)

# %% [markdown]
r"""
## The autoscaler adds nodes when work is pending

So far, you've added nodes by hand.
In a cloud, the [autoscaler](../docs/glossary.md#autoscaler) does that.
It's a process on the head node that reads the pending demands, works out which nodes would satisfy them, and starts those nodes.
After they've been idle for a while, it terminates them.

![Pending demands go to the autoscaler, which starts nodes; it terminates idle nodes](../img/ch04_autoscaler.svg)

First, remove the two nodes.
Then tell Ray's autoscaler which *node types* it can use: only one, with at most two nodes.
Its provider here is a fake one that Ray's developers made for tests: where the AWS provider would rent a machine, it starts a real raylet on yours.
The autoscaler also checks the demands every second instead of every five.
"""

# %% tags=["demo"]
remove_nodes(cluster)
settings = """
max_workers: 2
idle_timeout_minutes: 0.05           # 3 seconds; the cluster launcher's default is 5 minutes
available_node_types:
  simulator:
    resources: {CPU: 1, simulator: 1}
    max_workers: 2
"""

# %% [markdown]
r"""
Each of three tasks requests a simulator and sleeps for two seconds, and so far, no node has a simulator.
The cell takes about half a minute.
"""

# %% tags=["demo"]
simulation = nap_task.options(resources={"simulator": 1})
with autoscaler(cluster, settings) as decisions:
    launched = time.monotonic()
    history = follow([simulation.remote(budget(2, 1)) for _ in range(3)], launched)
    print(*decisions.lines(), sep="\n")

# %% tags=["demo"]
colors = {"pending tasks": "#d97706", "running tasks": "#2563eb", "extra nodes": "#64748b"}
figure, panels = plt.subplots(3, figsize=(8, 4.5), sharex=True, constrained_layout=True)
for axes, (column, color) in zip(panels, colors.items(), strict=True):
    axes.step(history["seconds"], history[column], where="post", color=color, linewidth=2)
    axes.set(ylabel=column, yticks=range(4), ylim=(-0.2, 3.2))
panels[0].set_title("Pending tasks make nodes join; idle nodes are removed")
axes.set(xlabel="seconds since the launch", xlim=(0, None));

# %% [markdown]
r"""
Above the plot, you see the autoscaler's messages; "Resized to 2 CPUs" is its first count, which includes only the head node.
At first, all tasks were pending, and after a delay, nodes joined.
That delay is the cost of elasticity: here, only a raylet has to start, but in a cloud, it's a whole machine, which takes a minute or several.
A few seconds after the last task ended, the nodes were removed.

An autoscaler sees only **declared** demand, so a task that requests one CPU and starts eight threads doesn't make the cluster grow.
A request that fits none of the autoscaler's node types stays PENDING, just as it would without an autoscaler.
"""

# %% tags=["demo"]
stop()

# %% [markdown]
r"""
> **On a Mac**, the nodes communicate over the loopback address only, and they keep their objects in files instead of shared memory.
> **On Windows**, this chapter needs WSL, because Ray doesn't support several nodes on one machine without it.
"""

# %% [markdown]
r"""
## What you can do now

- You can declare what a task needs, from fractions of a CPU to whole GPUs, and you know that Ray only counts it.
- You can tell whether a PENDING task is in a queue or infeasible.
- You can recognize a deadlock, and you know three ways to avoid it.
- You can place work by affinity, label, and resource, and reserve resources for a group of workers.
- You can choose between PACK and SPREAD by what the workers exchange.

## Traps

- **A PENDING task raises no error**, except with hard affinity to a node that is gone or too small.
- **An actor with `num_cpus=1` that waits for tasks** holds a CPU that they need.
- **Licenses, GPUs, and memory aren't released** while a task waits, and a CPU only if the main thread waits.
- **A task without `num_gpus`** sees every GPU of its node, and one with `num_gpus` also holds a CPU.
- **`cuda:1` inside a task** isn't GPU 1: PyTorch counts what `CUDA_VISIBLE_DEVICES` shows, from 0.
- **A placement group stays** until you remove it or your program ends; a task without the strategy runs outside the group, even if a task inside the group launched it.

## Read on

- [Chapter 5](ch05_faults.ipynb): what happens when one of these nodes dies.
- Ray's documentation: [resources](https://docs.ray.io/en/latest/ray-core/scheduling/resources.html), [scheduling](https://docs.ray.io/en/latest/ray-core/scheduling/index.html), [placement groups](https://docs.ray.io/en/latest/ray-core/scheduling/placement-group.html), [accelerators](https://docs.ray.io/en/latest/ray-core/scheduling/accelerators.html).
- Moritz et al., [*Ray*](https://arxiv.org/abs/1712.05889), 2018, section 4.2.2: a scheduler on every node, and one above them.
- [Old names](../docs/old_names.md): `set_resource`, `redis_address`, and others that you may meet in older code.
"""
