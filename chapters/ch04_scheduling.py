# %% [markdown] you_learn_to="say what a task needs, place gangs, use several nodes"
r"""
# Chapter 4 · Resources and scheduling

A task waits until one node has room for everything it asks for.

*About 100 minutes · builds on [Chapter 3](ch03_actors.ipynb)*

**What you will be able to do**

- say what a task needs, in whole CPUs, fractions and resources of your own, and what Ray does with that number;
- lend out GPUs, whole and in shares, and say which a task sees;
- see why a task stays PENDING, and tell a long queue from a request that can never run;
- recognise nested work that locks up, and rewrite it so it cannot;
- send work to a certain node, or to all nodes, by affinity and by labels;
- reserve places for a gang, all or none, and measure when PACK beats SPREAD;
- watch an autoscaler add nodes for waiting work, and remove them again.
"""

# %%
import time
from collections import Counter

import matplotlib.pyplot as plt
import pandas
import ray
from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from coursekit import begin, budget, check, hint, passed, progress, quiz, recorded, solution, timeline, warm_up
from coursekit.given.ch04_scheduling import Member, look_at_gpus, nap, pass_arrays
from coursekit.given.nodes import (
    add_nodes, autoscaler, follow, ledger, ray_status, remove_nodes, small_cluster, stop, waiting
)

begin("ch04_scheduling")

# %% [markdown]
r"""
Until now `ray.init` started everything.
This time you build a cluster from its parts: `small_cluster` starts a **head node** with Ray's own `ray.cluster_utils.Cluster`, and `ray.init(address=...)` joins it as a driver.
More nodes come later.
Each node is a raylet with its own workers and object store, as on a machine of its own.
Only the machine underneath, yours, is shared.

The head has two CPUs and two **licences**, say for a simulator that you may run twice at a time.
A custom resource is just a name and a number.
"""

# %%
cluster = small_cluster(num_cpus=2, resources={"licence": 2})  # ends the one before: its references and actors are gone
ray.init(address=cluster.address, log_to_driver=False)
warm_up(2)
ledger()

# %% [markdown] tags=["notes"]
r"""
The run sheet plans a hundred minutes, with `spread_over_nodes` as homework; show the autoscaler from the front.
Start the first two cells before you speak.
`Cluster` is Ray's own test tool.
It starts real raylets, so everything here holds on real machines, but these nodes share their cores, memory and disk.
"""

# %% [markdown]
r"""
## A CPU is an entry in a ledger

A task states what it needs.
The raylet subtracts that from what the node has, and starts the task when enough is left.
That is all: Ray neither measures what the task really uses nor ties it to a core.
It only drops one hint: unless you have set `OMP_NUM_THREADS`, Ray sets it before each task to the whole CPUs requested, at least 1.
NumPy and torch read it when a process first imports them, so a reused worker keeps the number of its first task; an actor, in its own process, gets what it asked for.
If it matters, call `torch.set_num_threads` in the task.

So a **logical** CPU can be divided: `num_cpus=0.5` takes half an entry.
`.options(...)`, which you know from actors, sets the request for one task call.

**Predict:** how many rounds do four naps of half a second take on two CPUs with `num_cpus=0.5`, with `1`, and with `2`?
"""

# %% tags=["demo"]
nap_task = ray.remote(nap)
requests = (0.5, 1, 2)
warm_up(4, num_cpus=0.5)  # four at once need four workers

figure, rows = plt.subplots(3, figsize=(9, 6), sharex=True, constrained_layout=True)
for cpus, axes in zip(requests, rows, strict=True):
    with recorded() as run:
        ray.get([nap_task.options(num_cpus=cpus).remote(budget(0.5, 0.2)) for _ in range(4)])
    timeline(run, ax=axes).set_title(f"num_cpus={cpus}")
for axes in rows:
    axes.autoscale(axis="x")  # all three to the scale of the longest

# %% [markdown]
r"""
One round, two rounds, four rounds.
Your machine's real cores were idle all the time; the ledger decided.
So a task that mostly waits, for a network or a slow simulator, can ask for a tenth of a CPU.
A task with eight busy threads should ask for eight, and one that needs a licence asks for `resources={"licence": 1}`.

An **actor** holds what it asked for as long as it lives, busy or not.
`Member` is a small class whose `node()` says where it lives.
"""

# %% tags=["demo"]
member_actor = ray.remote(Member)
holder = member_actor.options(num_cpus=0.5, resources={"licence": 0.25}).remote()
ray.get(holder.node.remote())  # once it answers, it lives
display(ledger())
ray.kill(holder)

# %%
### BEGIN SOLUTION
what_num_cpus_does = "c"
### END SOLUTION

# %%
quiz("what_num_cpus_does", what_num_cpus_does)

# %% [markdown]
r"""
**Predict:** you start three actors without `num_cpus` on two CPUs.
How many live, and what does the ledger say?
"""

# %% tags=["demo"]
members = [member_actor.remote() for _ in range(3)]
alive, _ = ray.wait([member.node.remote() for member in members], num_returns=3, timeout=20)
print(len(alive), "actors live")
display(ledger())
for member in members:
    ray.kill(member)

# %% [markdown]
r"""
Without `num_cpus`, an actor asks for 1 to be *placed*, and for 0 once it lives.
So all three live, and both CPUs are still free.
"""

# %%
### BEGIN SOLUTION
default_actor = "a"
### END SOLUTION

# %%
quiz("default_actor", default_actor)

# %% [markdown]
r"""
## A GPU is an entry with a number

When a node starts, Ray counts its GPUs; `num_gpus=2`, in `ray.init`, `ray start` or for a node here, overrules the count.
So even a machine without a GPU can lend you two: the bookkeeping is real; only the silicon is missing.
The next cell adds such a node.

A task asks for a whole GPU with `num_gpus=1`, or for a share: `num_gpus=0.5`.
Above 1, only whole numbers are allowed.
Here Ray does more than subtract: each GPU has a number, and a task learns the numbers of its own.
`ray.get_gpu_ids()` returns them, and Ray writes them into the environment variable `CUDA_VISIBLE_DEVICES`, which tells CUDA, and so PyTorch, which GPUs there are.

**Predict:** one task asks for a whole GPU, two ask for half of one, and one asks for none.
Which GPUs does each see?
"""

# %%
add_nodes(cluster, gpus={"num_cpus": 2, "num_gpus": 2})
ledger()

# %% tags=["demo"]
look_task = ray.remote(look_at_gpus)
wishes = {"whole": 1, "first half": 0.5, "second half": 0.5, "none": None}
looks = [look_task.options(num_gpus=share, num_cpus=0).remote(budget(1, 0.5)) for share in wishes.values()]
pandas.DataFrame(ray.get(looks), index=wishes.keys())

# %% [markdown]
r"""
The two halves share one GPU, because Ray fills a GPU before it opens the next, and the whole one stands alone.
The last line is a trap: Ray leaves `CUDA_VISIBLE_DEVICES` alone for a task that asks for no GPU.
On a machine with real ones, that task sees them all, and a careless `.to("cuda")` puts its tensors on a GPU that belongs to another task.
For cards by AMD and Intel the variable has another name, and on a Mac there is none, so the column may say "not set" in every line.

Two more things to know:

- A share is bookkeeping, like half a CPU: Ray limits neither a task's time nor its memory on a GPU.
  Two tasks with half a GPU each must fit into its memory together.
- `num_gpus` leaves `num_cpus` as it is, so such a task also holds a CPU, and so does such an actor for as long as it lives.
  If it needs none, write `num_cpus=0`.

A question whose wrong answers are errors on real GPUs:
"""

# %%
### BEGIN SOLUTION
which_device = "b"
### END SOLUTION

# %%
quiz("which_device", which_device)

# %% [markdown]
r"""
In the exercise, a learner trains while several samplers play, the usual shape of this course's programs.
The node has two GPUs and two CPUs.
Nothing computes here, so none of the tasks should hold a CPU.
"""


# %%
def learn_and_play(learn, play, samplers):
    """Return (learn(), [play(number) for number in range(samplers)]), all of them at the same time, and each in a task of its own.

    The learner has a GPU to itself. The samplers share the other one, each with an equal part, so that nothing is left of it.
    No task holds a CPU.
    """
    ### BEGIN SOLUTION
    learning = ray.remote(learn).options(num_gpus=1, num_cpus=0).remote()
    play_task = ray.remote(play).options(num_gpus=1 / samplers, num_cpus=0)
    playing = [play_task.remote(number) for number in range(samplers)]
    return ray.get(learning), ray.get(playing)
    ### END SOLUTION

# %%
check("learn_and_play", learn_and_play)

# %% [markdown] tags=["solution"]
r"""
Ray rounds shares to 0.0001, so three thirds fit.
Without `num_cpus=0`, five tasks ask for five CPUs: the node's two CPUs let two run, and the others wait beside free GPUs.

RLlib's `num_gpus_per_learner` (chapter 13) and Train's `use_gpu` (chapter 17) end up as the same request.
"""

# %% [markdown]
r"""
The GPUs go home again.
The node stays in Ray's records as dead, which will be useful below.
"""

# %%
remove_nodes(cluster)

# %% [markdown]
r"""
## Nothing fails: the task is PENDING

A classic of the first week: you tune a training run on a laptop, and until the evening Ray prints that a *trial*, one run of many, is PENDING.
It asks for one CPU for itself and one for each of two playing processes: three CPUs, on a machine with two.

Here is the same in small: a task that asks for three CPUs.
"""

# %% tags=["demo"]
big = nap_task.options(num_cpus=3).remote()
ready, not_ready = ray.wait([big], timeout=budget(2, 1))
print(f"{len(ready)} ready, {len(not_ready)} not ready")
waiting()

# %% [markdown]
r"""
No error, no warning here: it waits forever.
The state is `PENDING_NODE_ASSIGNMENT`: the task looks for a node, and the column "asks for" says why none will do.
Ray waits because a larger node might join.
It does mention the problem in its log, which `log_to_driver=False` keeps out of this chapter; in a long log, or a job that runs while you sleep, that line is easy to miss.

`ray status`, in a terminal with `RAY_AUTH_MODE=token` set (chapter 6), reports the same thing from the cluster's side.
Look at the last lines.
Then `ray.cancel` takes the task out of the queue; it would also end a running one.
"""

# %% tags=["demo"]
print(ray_status(until="pending tasks"))
ray.cancel(big)

# %% [markdown]
r"""
| To see | in a terminal | here |
|---|---|---|
| what waits, and what it asks for | `ray status`, under *Pending Demands* | `ray_status()` |
| each task and its state | `ray list tasks --filter "state=PENDING_NODE_ASSIGNMENT"` (needs the dashboard) | `waiting()` |
| what each node has, and what is free | `ray status`, under *Total Usage*, for all nodes together | `ledger()` |

A queue and a dead end look alike: both are PENDING.
Arithmetic tells them apart.
In a queue, the request fits on some node once other tasks end.
In a dead end, it fits on no node, even when everything is free.

Turn that into a function.
`nodes` is what `ray.nodes()` returns: a list of dicts, of which these keys matter here.
"""

# %% tags=["demo"]
head = next(node for node in ray.nodes() if node["Alive"])
{key: head[key] for key in ("NodeID", "Alive", "Resources")}

# %% [markdown]
r"""
A cluster may have many nodes, and `ray.nodes()` still lists dead ones, such as the one with the GPUs, with nothing left in their `Resources`.
The check tries made-up clusters first, then asks Ray itself.
"""


# %%
def fits(nodes, request):
    """Return a list of the NodeIDs of the nodes that could run a task with this request when nothing else runs there.

    `request` is a dict such as {"CPU": 2, "licence": 0.5}.
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
Compare this with `ray.cluster_resources()`, which adds up all nodes: right for "how much work at a time?", wrong for "does this task fit?".
`ray.available_resources()` would be wrong twice: it adds up, and reports only what is free right now.
"""

# %% tags=["demo"]
if passed("fits"):
    for request in ({"CPU": 2}, {"CPU": 3}, {"CPU": 1, "licence": 2}):
        print(request, "→", len(fits(ray.nodes(), request)) or "no", "node")

# %% [markdown]
r"""
## Don't hold what others need while you wait for them

In chapter 1, four parents on four slots waited for their children, and each **lent its CPU** meanwhile.
Now the parents are actors.
A coach lets a helper play, and waits for it.
The cell uses a method that every actor has, `__ray_ready__`: a call to it ends as soon as the actor lives.

**Predict:** two coaches with `num_cpus=1`, on two CPUs.
Does this end?
"""

# %% tags=["demo"]
@ray.remote
class Coach:
    """Waits for a helper."""

    def play(self):
        """Return the node on which the helper has played."""
        return ray.get(nap_task.remote(0.1))


coaches = [Coach.options(num_cpus=1).remote() for _ in range(2)]
ray.get([coach.__ray_ready__.remote() for coach in coaches])  # both live, and hold their CPU
games = [coach.play.remote() for coach in coaches]
ready, _ = ray.wait(games, num_returns=2, timeout=budget(3, 1))
print(f"{len(ready)} of 2 games have ended")
display(waiting(), ledger())

# %% [markdown]
r"""
A **deadlock**: the coaches hold both CPUs and wait for helpers, and the helpers wait for a CPU.
This is not a queue, so waiting longer does not help.
The tables show the sign: some RUNNING tasks wait for PENDING ones, and no CPU is free.
The coaches' calls themselves ask for nothing; their actors hold the two CPUs.

![Two coaches hold both CPUs and wait for helpers, which wait for a CPU](../img/ch04_deadlock.svg)

The rule has three lines:

- a **task** that waits in `ray.get` or `ray.wait` lends its CPU, and takes it back afterwards; one that waits in `ref.future().result()` or an `await` does not;
- it lends nothing else: it keeps a licence, a GPU or memory;
- an **actor** lends nothing at all.

See the first two lines at work: a task holds a CPU and a licence, and waits for a helper that asks for one CPU.
"""

# %% tags=["demo"]
for coach in coaches:
    ray.kill(coach)


@ray.remote(num_cpus=1, resources={"licence": 1})
def asks_a_helper():
    """Return the node of a helper, when it has ended."""
    return ray.get(nap_task.remote(3))


asking = asks_a_helper.remote()
display(waiting(running=2).tail(2), ledger())  # the two newest; those before belonged to the coaches
ray.get(asking);

# %% [markdown]
r"""
Two tasks that ask for one CPU each are RUNNING, and the ledger has given out one: the other was lent.
The licence is still taken.

There are three ways to write around a deadlock:

1. let a task do the waiting, in `ray.get`, not an actor: a task lends its CPU;
2. let it hold nothing its helpers need: a coach computes nothing itself, so `num_cpus=0` is enough;
3. don't wait inside at all: launch all helpers from the driver, and pass their references on.

Here is the second.
"""

# %% tags=["demo"]
coaches = [Coach.options(num_cpus=0).remote() for _ in range(2)]
ready, _ = ray.wait([coach.play.remote() for coach in coaches], num_returns=2, timeout=60)
print(f"{len(ready)} of 2 games have ended")
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
Your turn: several teams have a few inputs each to simulate.
`simulate(x)` needs one licence, in a task of its own, and all teams share two licences.
The check uses more teams than there are CPUs and licences.
If your code locks up, the verdict takes half a minute.

A team may wait for its simulations, as above.
"""


# %%
def no_deadlock(simulate, teams):
    """Return a list: for each team, the sum of simulate(x) over its inputs; `teams` is a list of lists of inputs.

    Each simulate(x) runs in a task of its own, which holds one `licence`. The teams work side by side.
    """
    ### BEGIN SOLUTION
    simulation = ray.remote(simulate).options(resources={"licence": 1})

    @ray.remote
    def team_sum(team):
        return sum(ray.get([simulation.remote(x) for x in team]))

    return ray.get([team_sum.remote(team) for team in teams])
    ### END SOLUTION

# %%
check("no_deadlock", no_deadlock)

# %% [markdown] tags=["solution"]
r"""
The teams are tasks and hold only a CPU, which they lend while they wait: the first way.
The third is as short, and better if possible: launch all simulations from the driver and pass their references to a task that adds them up.
Ray starts that task when the values exist, so it never holds anything in vain.
If a team must see one result before it can choose its next input, it has to wait inside.
"""

# %% [markdown]
r"""
## Three nodes with two CPUs each cannot run a three-CPU task

Now the cluster grows.
`add_nodes` calls Ray's `cluster.add_node(...)` for each name.
The cell adds `west` and `east`, each with a **label**, a word to choose nodes by.
`ledger()` shows the three living nodes; `ray.nodes()` lists four, with the dead one that had the GPUs.

**Predict:** you launch the task with `num_cpus=3` again.
Does it run, now that the cluster has six CPUs?
"""

# %%
west = {"num_cpus": 2, "labels": {"zone": "west"}}
east = {"num_cpus": 2, "labels": {"zone": "east"}}
add_nodes(cluster, west=west, east=east)
names = {node["NodeID"]: node["NodeName"] for node in ray.nodes()}
ledger()

# %% tags=["demo"]
big = nap_task.options(num_cpus=3).remote()
ready, _ = ray.wait([big], timeout=budget(3, 1))
print(f"{ray.cluster_resources()['CPU']:.0f} CPUs, and the task is {'ready' if ready else 'not ready'}")
ray.cancel(big)

# %% [markdown]
r"""
![A request for three CPUs fits on none of three nodes with two CPUs each, a gang of three requests for one does](../img/ch04_fits.svg)

A task is a process, and a process lives on one machine.
If your work needs more than one node, cut it into tasks or actors that fit.
"""

# %%
### BEGIN SOLUTION
cpus_here_licence_there = "c"
### END SOLUTION

# %%
quiz("cpus_here_licence_there", cpus_here_licence_there)

# %% [markdown]
r"""
## By default Ray chooses the node; you can

If several nodes have room, the **scheduling strategy** decides:

| strategy | what it does |
|---|---|
| `"DEFAULT"` | takes this node until it is half full, then others that are less than half full; when all are, the emptiest. Prefers nodes that already have the data |
| `"SPREAD"` | takes the nodes in turn, as far as they have room |
| `NodeAffinitySchedulingStrategy(node_id, soft=False)` | this node and no other; an error if the node is gone, or could never run the task. With `soft=True`, any other node then |
| `label_selector={"zone": "west"}` | any node with this label |
| `resources={"licence": 1}` | any node with such a resource |

The next cell runs four naps under each strategy, and counts them by node.
"""


# %% tags=["demo"]
def where(**options):
    """Return how many of four naps each node ran."""
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
    "licence: 0.5": where(resources={"licence": 0.5}),
}
pandas.DataFrame(choices).T.reindex(columns=["head", "west", "east"]).fillna(0).astype(int)

# %% [markdown]
r"""
The last three rows are certain.
The first two may change if you run the cell again, because both depend on what is free when each task is placed.
On idle nodes, `DEFAULT` often gives 2, 1, 1.
One nap makes this node half full, so the next two go to the others; then all are half full, none is emptier, and the last stays here.

`SPREAD` is a **wish**, the other three are **conditions**.
If no node has the label or the resource, the task waits.
Affinity waits only while its node is full; if the node is gone or could never run the task, it raises an error:
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
Sometimes you need certainty: one evaluation on each node, a cache warmed up everywhere, data shared out evenly.
During the check, one of the three nodes is busy for a while.
If your code locks up, the verdict takes half a minute.
"""


# %%
def spread_over_nodes(function, xs):
    """Return [function(x) for x in xs]: one task each, the same number on every living node.

    The number of inputs is a multiple of the number of living nodes. A busy node delays its own share and no other.
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
With `"SPREAD"` the busy node gets nothing, as it should: idle nodes are better places.
Even shares need affinity.
It has a price: hard affinity fails when the node dies (chapter 5), so use it only if the node matters; `soft=True` falls back to any other node.
Each node also carries its own id as a label, so `label_selector={"ray.io/node-id": node_id}` does the same.
"""

# %% [markdown]
r"""
## A gang is placed together or not at all

Some work makes sense only if all its members run at the same time: the processes of one training step exchange gradients, a learner waits for its samplers.
If you launch two such gangs as single tasks, each can get half of the cluster and wait for the rest: a deadlock again.

A **placement group** reserves first.
It is a list of **bundles**, each a small request that must fit on one node; the group gets all its bundles or none.
A strategy says how they should lie: `PACK` close together, `SPREAD` apart; the `STRICT_` forms are conditions.

Which of the four strategies can never place three bundles of one CPU on three nodes with two CPUs each?
"""


# %% tags=["demo"]
def places(strategy):
    """Return where a group of three bundles lies, or how it waits."""
    patience = time.monotonic() + 5  # the bundles of the group before are still on their way back
    while ray.available_resources().get("CPU", 0) < 6 and time.monotonic() < patience:
        time.sleep(0.1)
    group = placement_group([{"CPU": 1}] * 3, strategy=strategy)
    group.wait(timeout_seconds=budget(3, 1))
    row = placement_group_table(group)
    remove_placement_group(group)
    if row["state"] != "CREATED":
        return {"state": row["state"]}
    return {"state": row["state"], **Counter(names[node] for node in row["bundles_to_node_id"].values())}


strategies = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")
pandas.DataFrame({strategy: places(strategy) for strategy in strategies}).T.fillna("–")

# %% [markdown]
r"""
![PACK puts bundles close together, SPREAD apart; the STRICT forms are conditions](../img/ch04_groups.svg)

`STRICT_PACK` wants all three on one node: PENDING forever, like the large task.
`PACK` and `SPREAD` are wishes: PACK took the fewest nodes, SPREAD as many as there were.

You use a group in four steps:

1. make it: `group = placement_group([...])`;
2. wait until it is placed: `ray.get(group.ready())`, since `ready()` returns a reference;
3. send tasks or actors into it: `scheduling_strategy=PlacementGroupSchedulingStrategy(group)`.
   Ray finds a bundle with room, or a second argument, a number, chooses one;
4. **remove** it: `remove_placement_group(group)`.
   Otherwise it keeps its CPUs from all other work until your program ends.

In the exercise, too, the verdict takes half a minute if your code locks up.
"""


# %%
def gang(function, size):
    """Return [function(rank) for rank in range(size)], each in a task with one CPU.

    All run at the same time, or none runs. Afterwards nothing stays reserved, even when a member has raised an error.
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
One bundle for each member, not one bundle with `{"CPU": size}`: a bundle must fit on one node.
Tune and Train make such groups for you: the trial that stays PENDING is a placement group whose bundles do not fit.
"""

# %% [markdown] tags=["notes"]
r"""
Let the room vote before the next measurement: is PACK or SPREAD faster?
Most say SPREAD, "more machines".
Ask what the members do with each other.
Then run it.
"""

# %% [markdown]
r"""
## SPREAD is not faster

"Spread it out, then every member has a machine to itself."
That is true for members that do not talk to each other.
Here is a gang that does: one member makes an array, and the other reads it, as a learner reads a sampler's experience.

**Predict:** for 0.01, 1, 8 and 32 MB, how many times longer does it take between nodes than within one?
"""

# %% tags=["demo"]
sizes, seconds = (0.01, 1, 8, 32), {}
for strategy in ("STRICT_PACK", "STRICT_SPREAD"):
    group = placement_group([{"CPU": 1}] * 2, strategy=strategy)
    inside = [PlacementGroupSchedulingStrategy(group, bundle) for bundle in (0, 1)]
    pair = [member_actor.options(num_cpus=1, scheduling_strategy=bundle).remote() for bundle in inside]
    seconds[strategy] = [pass_arrays(*pair, megabytes, budget(25, 4)) for megabytes in sizes]
    remove_placement_group(group)  # ends the two actors as well

# %% tags=["demo"]
figure, axes = plt.subplots(figsize=(7.5, 4), constrained_layout=True)
for (strategy, times), colour in zip(seconds.items(), ("#2563eb", "#d97706"), strict=True):
    medians = [1000 * pandas.Series(each).median() for each in times]
    axes.loglog(sizes, medians, "o-", color=colour, label=strategy)
    for size, each in zip(sizes, times, strict=True):
        axes.plot([size] * len(each), [1000 * one for one in each], ".", color=colour, alpha=0.3)
axes.set_xticks(sizes, [f"{size:g}" for size in sizes])
axes.set(title="What members exchange decides", xlabel="size of the array (MB)", ylabel="ms until it is read")
axes.minorticks_off()
axes.legend(frameon=False);

# %% tags=["demo"]
table = pandas.DataFrame(seconds, index=pandas.Index(sizes, name="MB")).map(
    lambda each: 1000 * pandas.Series(each).median()
)
table.columns = ["within a node (ms)", "from node to node (ms)"]
table["times longer"] = table["from node to node (ms)"] / table["within a node (ms)"]
table.round(1)

# %% [markdown]
r"""
Within a node the reader looks at the array where it lies, without a copy (chapter 2), whatever its size.
Between nodes the object stores copy it, and the time grows with the size.
Here the "network" is the inside of your machine; a real one is usually slower still.
At the left end the two hardly differ: an array of 0.01 MB is a small result, so it never enters a store and travels inside the messages, as in chapter 1.

| PACK, when members | SPREAD, when members |
|---|---|
| exchange much: gradients, experience, large arrays | exchange little and each load a disk, a network card or the memory's bandwidth |
| should leave whole nodes free, for large requests or to be switched off | must not all die with one node: replicas of a service, copies of a state |

This machine cannot show the right column: its nodes share one disk, one memory and one plug.
Decide which line describes your work, then choose.
"""

# %%
### BEGIN SOLUTION
when_to_spread = "b"
### END SOLUTION

# %%
quiz("when_to_spread", when_to_spread)

# %% [markdown]
r"""
## Pending work is what makes a cluster grow

So far you added nodes by hand.
In a cloud, the **autoscaler** does it: a process on the head node that looks at the pending demands, works out which nodes would satisfy them, starts these, and ends them after they have idled for a while.
It reads the same ledger as you.

![Pending demands go to the autoscaler, which starts nodes; idle nodes are ended](../img/ch04_autoscaler.svg)

First send the two nodes home.
Then give Ray's autoscaler a menu: one type of node, at most two of them.
Its provider here is a fake that Ray's developers made for tests: where the provider for AWS would rent a machine, it starts a real raylet on yours.
And it looks once a second instead of every five seconds.
Everything else is real.
"""

# %% tags=["demo"]
remove_nodes(cluster)
settings = """
max_workers: 2
idle_timeout_minutes: 0.05           # 3 seconds; Ray's default is 5 minutes
available_node_types:
  simulator:
    resources: {CPU: 1, simulator: 1}
    max_workers: 2
"""

# %% [markdown]
r"""
Three tasks ask for a simulator each, and nap for two seconds.
No node has a simulator yet.
The cell takes about half a minute.
"""

# %% tags=["demo"]
simulation = nap_task.options(resources={"simulator": 1})
with autoscaler(cluster, settings) as decisions:
    launched = time.monotonic()
    refs = [simulation.remote(budget(2, 1)) for _ in range(3)]
    print(ray_status(until="'simulator': 1.0}: ").partition("Pending Demands:")[2])
    history = follow(refs, launched)
    print(*decisions.lines(), sep="\n")

# %% tags=["demo"]
colours = {"pending tasks": "#d97706", "running tasks": "#2563eb", "extra nodes": "#64748b"}
figure, panels = plt.subplots(3, figsize=(8, 4.5), sharex=True, constrained_layout=True)
for axes, (column, colour) in zip(panels, colours.items(), strict=True):
    axes.step(history["seconds"], history[column], where="post", color=colour, linewidth=2)
    axes.set(ylabel=column, yticks=range(4), ylim=(-0.2, 3.2))
panels[0].set_title("Demand comes first, nodes follow, idle nodes go")
axes.set(xlabel="seconds since the launch", xlim=(0, None));

# %% [markdown]
r"""
Above the plot you read the autoscaler's own words; "Resized to 2 CPUs" is its first count, the head alone.
First the tasks were pending.
Then nodes came, with a delay, the price of elasticity: here a raylet has to start; in a cloud, a machine, which takes one to several minutes.
Two nodes were allowed, so at most two tasks could run at a time; if your second node came late, fewer did.
Some seconds after the last work, the nodes went away.

Two rules follow.
An autoscaler sees only **declared** demand: a task that asks for one CPU and starts eight threads makes nothing grow.
And a request that fits no type on its menu stays PENDING, with an autoscaler as without.
"""

# %% tags=["demo"]
stop()

# %% [markdown]
r"""
> **On a Mac** the nodes talk over the loopback address only, and keep their objects in files instead of shared memory; the rest is the same.
> **In WSL** everything works as on Linux.
> On Windows without WSL, Ray does not support several nodes on one machine.
"""

# %% [markdown]
r"""
## What you can do now

- You declare what a task needs, down to fractions and your own resources, and know that this is bookkeeping.
- You lend out GPUs by number and by share, and know that a share limits nothing.
- You find what is PENDING, and work out whether it is a queue or a dead end.
- You see a deadlock in a table of states, and know three ways to write around it.
- You place work by affinity, label and resource, and reserve places for a gang, all or none.
- You choose PACK or SPREAD by what the members exchange, and have measured it.

## Traps

- **PENDING raises no error**; only hard affinity does, to a node that is gone or too small.
  Compare the request with each node, not with the sum.
- **An actor with `num_cpus=1` that waits for tasks** holds the CPU they need.
- **A licence, a GPU or memory is not lent** while a task waits.
- **A task without `num_gpus`** sees every GPU of its node, and one with `num_gpus` holds a CPU too.
- **`cuda:1` inside a task** is not GPU 1: PyTorch counts what `CUDA_VISIBLE_DEVICES` shows, from 0.
- **A placement group stays** until you remove it, or your program ends; a task without the strategy runs outside it.
- **`SPREAD` and `PACK` are wishes.** Only the STRICT forms, affinity, labels and resources are conditions.

## Read on

- [Chapter 5](ch05_faults.ipynb): what happens when one of these nodes dies.
- Ray's documentation: [resources](https://docs.ray.io/en/latest/ray-core/scheduling/resources.html), [scheduling](https://docs.ray.io/en/latest/ray-core/scheduling/index.html), [placement groups](https://docs.ray.io/en/latest/ray-core/scheduling/placement-group.html), [accelerators](https://docs.ray.io/en/latest/ray-core/scheduling/accelerators.html).
- Moritz et al., [*Ray*](https://arxiv.org/abs/1712.05889), 2018, section 4.2.2: a scheduler on every node, and one above them.
- [Old names](../docs/old_names.md): `set_resource`, `redis_address` and others you may meet in older code.
"""
