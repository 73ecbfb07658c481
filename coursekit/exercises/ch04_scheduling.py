"""The judge's side of chapter 4."""

from collections import Counter

from numpy.random import Generator

from coursekit.given import ch04_scheduling as given
from coursekit.judging.answer import Answer
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import expect, expect_equal


@exercise(
    points=2,
    minutes=8,
    needs={"node": 2, "GPU": 2},
    hints=[
        "Which fraction of a GPU does each sampler get if they share one equally? And what does a GPU task hold besides its GPU, by default?",
        "Use `.options(num_gpus=…, num_cpus=0)` for both kinds of tasks, with `1 / samplers` for the samplers.",
        "Launch the learner and all of the samplers before the first `ray.get`.",
    ],
)
def learn_and_play(answer: Answer, rng: Generator) -> None:
    """Request a whole GPU for the learner and an equal fraction of the other for each sampler; a GPU task also holds a CPU unless you set `num_cpus=0`."""
    samplers, offset = int(rng.integers(3, 5)), int(rng.integers(1, 1000))
    seen = answer.probe(given.share_two_gpus, samplers, offset)
    expect(
        seen["gpus"] == 2,
        f"This check needs a node with two GPUs, and your Ray has {seen['gpus']:g} GPUs in all. Run the cell that adds the node.",
    )
    with answer.case(f"a learner and {samplers} samplers"):
        expect(seen["ended"], "Your call didn't return, and none of its tasks has started or finished for a while.")
        sampled = [me * me + offset for me in range(1, samplers + 1)]
        expect_equal(
            seen["value"], (offset, sampled), "Return what `learn` and the calls to `sample` returned, in order."
        )
        _judge_fractions(seen["notes"], samplers)


def _judge_fractions(found: list[tuple[float, float, bool, str | None] | None], samplers: int) -> None:
    """Judge which GPUs and CPUs the tasks held, and whether they ran at the same time."""
    notes = [note for note in found if note]
    expect(len(notes) == samplers + 1, "Some of the calls never ran.")
    (whole, _, _, _), *others = notes
    expect(whole == 1, f"The learner held {whole:g} GPUs, and it needs exactly one.")
    fractions = [fraction for fraction, *_ in others]
    listed = ", ".join(f"{fraction:g}" for fraction in fractions)
    expect(all(fractions), "A sampler ran without holding any part of a GPU.")
    expect(
        all(abs(fraction * samplers - 1) < 0.005 for fraction in fractions),
        f"The {samplers} samplers held {listed} of a GPU. They should hold equal fractions that add up to one GPU.",
    )
    expect(
        not any(cpus for _, cpus, _, _ in notes),
        "Some of the tasks held a CPU, which nothing here needs. By default, a task holds one, even if it requests a GPU.",
    )
    tasks = len({where for *_, where in notes})
    expect(tasks == samplers + 1, "Several calls ran in the same task. Give each call its own task.")
    expect(
        all(met for _, _, met, _ in notes),
        "The learner and the samplers never all ran at the same time. Launch all of them before you wait for any result.",
    )


@exercise(
    points=2,
    minutes=10,
    needs={"CPU": 2},
    hints=[
        "Look at one node at a time. When does it have enough of *one* resource? And when does it have enough of every resource in the request?",
        "A node that lacks a resource has 0 of it. And would a dead node pass a request for 0 CPUs?",
        "Check `node['Resources'].get(name, 0) >= amount` for every name in the request, and `node['Alive']`.",
    ],
    returns=list[str],
)
def fits(answer: Answer, rng: Generator) -> None:
    """A request must fit on a single live node, resource by resource; the sums over the cluster don't matter."""
    # Long: made-up nodes show each mistake by itself, and after them Ray itself is asked.
    cpus, licenses = int(rng.integers(3, 7)), int(rng.integers(2, 5))
    other = str(rng.choice(["robot", "camera", "simulator"]))
    nodes = _cluster_of(rng, cpus, licenses, other)
    for request, names in _requests(cpus, licenses, other):
        _judge_ids(answer(list(nodes.values()), request), request, nodes, names)
    request = {"CPU": float(rng.choice([0.5, 1, 2, 3])), "license": float(rng.choice([0, 1]))}
    _judge_on_ray(answer, request)


def _cluster_of(rng: Generator, cpus: int, licenses: int, other: str) -> dict[str, dict]:
    """Return rows as `ray.nodes()` gives them, in no order, by a name for each node."""
    resources: dict[str, dict] = {"plain": {"CPU": float(cpus), other: 1.0}, "dead": {}}  # Ray keeps a dead node's row
    resources["licensed"] = {"CPU": cpus - 1.0, "license": float(licenses)}
    return {
        name: {"NodeID": rng.bytes(4).hex(), "Alive": name != "dead", "Resources": resources[name]}
        for name in rng.permutation(list(resources)).tolist()
    }


def _requests(cpus: int, licenses: int, other: str) -> list[tuple[dict, list[str]]]:
    """Return requests, each with the names of the nodes on which it fits."""
    return [
        ({"CPU": 0}, ["plain", "licensed"]),
        ({"CPU": cpus + 1}, []),
        ({"CPU": cpus}, ["plain"]),
        ({"CPU": 1, "license": licenses}, ["licensed"]),
        ({"license": 0.5}, ["licensed"]),
        ({"CPU": 1, "license": 0}, ["plain", "licensed"]),
        ({"CPU": cpus, "license": 1}, []),
        ({"CPU": 1, other: 1}, ["plain"]),
    ]


def _judge_ids(got: list[str], request: dict, nodes: dict[str, dict], names: list[str]) -> None:
    """Compare what came back with the nodes on which the request fits."""
    dead = nodes["dead"]["NodeID"]
    expect(dead not in got, "A dead node is on your list. `ray.nodes()` also lists nodes that have died.")
    for name, row in nodes.items():
        here, fit, has = row["NodeID"] in got, name in names, row["Resources"]
        expect(
            fit or not here,
            f"A node with {has} doesn't have enough for {request}, and you listed it. A single node must have all of it.",
        )
        expect(here or not fit, f"A node with {has} has enough for {request}, and it isn't on your list.")
    listed, fitting = len(got), len(names)
    expect(listed == fitting, f"Your list has {listed} IDs, and {fitting} different nodes fit.")


def _judge_on_ray(answer: Answer, request: dict) -> None:
    """Compare what the answer says about this cluster with where Ray runs a task."""
    seen = answer.probe(given.where_ray_runs_it, {name: amount for name, amount in request.items() if amount})
    expect(
        seen["running"],
        "Your answer is right for the made-up nodes. Next, the check compares it with Ray, and no Ray is running. Run the cells above first.",
    )
    ran = sorted(node for node, taken in seen["taken"].items() if taken)
    expect(ran or request["CPU"] == 3, "Ray found no node here for a small task. Run the chapter's first cells again.")
    expect_equal(
        sorted(seen["said"]),
        ran,
        f"Your answer is right for the made-up nodes, but on this cluster, Ray runs a task with {request} on nodes other than those on your list.",
    )


@exercise(
    points=2,
    minutes=10,
    needs={"CPU": 2, "license": 2},
    hints=[
        "What does a team hold while it waits for its simulations? And what do the simulations need?",
        "Only `simulate` needs a license. A task that waits in `ray.get` releases its CPU and nothing else, and an actor "
        "releases nothing at all.",
        "Launch all teams before you wait for the first one.",
    ],
    spare=['    @ray.remote(resources={"license": 1})'],
)
def no_deadlock(answer: Answer, rng: Generator) -> None:
    """While you wait for others, hold nothing that they need: the license belongs to the simulation, not to the team."""
    inputs = rng.choice(500, size=20, replace=False).tolist()
    groups, offset = [inputs[place : place + 2] for place in range(0, 20, 2)], int(rng.integers(1, 1000))
    seen = answer.probe(given.evaluate_teams, groups, offset)
    with answer.case(f"{seen['groups']} teams and two licenses"):
        _expect_no_lock(seen["ended"], Counter(seen["stuck"]))
        expect(
            3 <= seen["groups"] <= len(groups),
            "This check needs a Ray with two to nine CPUs. Run the chapter's first cells again.",
        )
        groups = groups[: seen["groups"]]
        want = [sum(x * x + offset for x in group) for group in groups]
        expect_equal(seen["value"], want, "Return one sum for each team, in the order of the teams.")
        _judge_simulations([seen["simulated"].get(x) for group in groups for x in group])


def _expect_no_lock(ended: bool, states: Counter) -> None:
    """Fail where nothing moved any more; the states are those of the tasks that were left."""
    waiting = states.pop("PENDING_NODE_ASSIGNMENT", 0)
    begun = sum(count for state, count in states.items() if state.startswith("RUNNING"))  # others lack arguments
    expect(
        ended or not waiting,
        f"Your code deadlocked, or a task requests what no node has. Tasks in state PENDING_NODE_ASSIGNMENT: {waiting}; tasks and calls that have started and haven't "
        f"finished: {begun}. Look at what these hold and the others need.",
    )
    expect(
        ended,
        f"Your call didn't return, and nothing has moved for a while, although no task waited for a resource. Tasks and calls "
        f"that have started and haven't finished: {begun}.",
    )


def _judge_simulations(found: list[tuple[str | None, float, bool] | None]) -> None:
    """Judge the task and the licenses of each simulation, and whether the first two teams worked at the same time."""
    notes, inputs = [note for note in found if note], len(found)
    expect(len(notes) == inputs, "Some of the inputs were never simulated.")
    held = max((licenses for _, licenses, _ in notes), key=lambda licenses: abs(licenses - 1))
    expect(held == 1, f"Each simulation must hold exactly one license. One of yours held {held:g}.")
    tasks = len({task for task, _, _ in notes})
    expect(tasks == inputs, f"The {inputs} inputs were simulated in {tasks} tasks. Give each input its own task.")
    expect(
        all(met for _, _, met in notes),
        "No simulation of the second team started while the first team was at work, so the teams ran one after the other.",
    )


@exercise(
    points=2,
    minutes=10,
    needs={"node": 3, "CPU": 6},
    hints=[
        "Input number i can go to node number i modulo the number of nodes. How do you send a task to a specific node?",
        "Use `task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False))`, with the IDs of the live nodes from `ray.nodes()`.",
        "Launch everything first, and then call `ray.get` once.",
    ],
    spare=['        refs.append(task.options(scheduling_strategy="SPREAD").remote(x))'],
)
def spread_over_nodes(answer: Answer, rng: Generator) -> None:
    """Name the node of each task: `SPREAD` is a preference, and hard node affinity is a requirement."""
    xs = rng.choice(500, size=24, replace=False).tolist()  # with 24, an even split is no accident
    which = int(rng.integers(3))
    seen = answer.probe(given.one_node_is_busy, xs, which)
    _expect_three_nodes(seen["nodes"])
    _expect_an_end(seen)
    expect_equal(seen["value"], [x * x for x in xs], "Return one result for each input, in the order of the inputs.")
    _expect_eight_each(Counter(seen["ran"].get(x) for x in xs), seen["nodes"])
    expect(
        seen["kept_moving"],
        "While one node was busy, some of the calls for the other nodes didn't run. Launch all of the calls before you wait for anything.",
    )


def _expect_three_nodes(nodes: list[str]) -> None:
    live = len(nodes)
    expect(live == 3, f"This check needs the chapter's three nodes, and {live} are there. Run the cell that adds them.")


def _expect_an_end(seen: given.Spread) -> None:
    expect(
        not seen["unschedulable"],
        "Ray raised TaskUnschedulableError: a task was sent to a node that can't run it. `ray.nodes()` also lists dead nodes.",
    )
    expect(
        seen["ended"],
        "One node was busy, and then it was free again, but your call still didn't return.",
    )


def _expect_eight_each(counts: Counter, nodes: list[str]) -> None:
    """Check how many of the calls ran on each node."""
    spread = ", ".join(str(counts.get(node, 0)) for node in nodes)
    expect(
        dict(counts) == dict.fromkeys(nodes, 8),
        f"On three nodes, 24 calls are 8 per node. One node was busy for a while, and your calls were divided like this: {spread}.",
    )


@exercise(
    points=3,
    minutes=15,
    needs={"node": 3, "CPU": 6},
    hints=[
        "Make a placement group with one bundle for each rank. A bundle is a dict of resources: `{'CPU': 1}`.",
        "`PlacementGroupSchedulingStrategy(group)` runs a task inside the group; a task without it runs outside.",
        "Call `remove_placement_group(group)` in a `finally` block, because the reservation stays until you remove it, even after an error.",
    ],
    spare=['    group = placement_group([{"CPU": size}])'],
)
def gang(answer: Answer, rng: Generator) -> None:
    """Reserve a bundle for each task first: the group gets all of its bundles or none."""
    size, offset = int(rng.integers(3, 5)), int(rng.integers(1, 1000))
    with answer.case(f"size {size}"):
        _judge_gang(answer.probe(given.gang_of, size, offset, -1), [rank * rank + offset for rank in range(size)])
    with answer.case(f"size {size}, where one rank raises an error"):
        failed = answer.probe(given.gang_of, size, offset, int(rng.integers(size)))
        expect(failed["ended"], "One rank raised an error, and your call didn't return.")
        expect(failed["raised"], "One rank raised an error, and your call returned as if nothing had happened.")
        expect(not failed["left"], "One rank raised an error, and your group is still there, so it keeps its CPUs.")


def _judge_gang(seen: given.Gang, want: list[int]) -> None:
    """Judge a call in which no rank fails: all ran at the same time, inside a group, and the group is gone."""
    size, members = len(want), [member for member in seen["members"] if member]
    expect(seen["groups"], "Your call made no placement group.")
    (state, strategy, bundles), *_ = seen["groups"]
    expect(
        seen["ended"] or state != "PENDING",
        f"Your group ({strategy}, bundles {bundles}) stayed PENDING: unless earlier cells still hold CPUs, its bundles don't fit on these nodes.",
    )
    expect(seen["ended"], "Your group was placed, but your call didn't return.")
    expect_equal(seen["value"], want, "Return one result for each rank, in order.")
    expect(len(members) == size, "Some of the ranks never ran.")
    met, groups, cpus = zip(*members, strict=True)
    expect(all(groups), "A rank ran outside your placement group, so what the group reserved for it was never used.")
    held = ", ".join(f"{each:g}" for each in cpus)
    expect(set(cpus) == {1}, f"The ranks held {held} CPUs. Each of them should hold one.")
    reserved = sum(bundle.get("CPU", 0) for *_, each in seen["groups"] for bundle in each)
    expect(
        reserved <= size,
        f"You reserved {reserved:g} CPUs for {size} tasks with one CPU each, and no other work can use the rest.",
    )
    expect(
        not seen["left"],
        f"Your call has returned, but its group is still {state}, so no other work can use these CPUs.",
    )
    expect(
        all(met),
        f"The ranks never all ran at the same time. Your group has the bundles {bundles}. Launch all of the tasks, with a bundle for each, before you wait for a result.",
    )


question(
    "what_num_cpus_does",
    """
    A task with `num_cpus=1` starts eight Python threads that all compute. What does Ray do about it?

    a) It keeps the task on one core.
        `num_cpus` pins nothing: the operating system assigns the cores.
    b) It kills the task.
        Ray doesn't monitor how much CPU time a task uses.
    *c) Nothing at all.
        Right. A logical resource is only a number that Ray counts: it decides what may start, not what a task uses.
    """,
)

question(
    "default_actor",
    """
    Ray has two CPUs, and you create ten actors with `Sampler.remote()`, without options. How many of them start?

    *a) All ten.
        Right. By default, an actor needs a node that has a CPU, in use or not, and it holds none while it runs. So ten actors that compute can end up sharing two cores, unless you set `num_cpus=1`.
    b) None, because ten don't fit.
        Each actor is placed independently of the others, and an actor without options needs no free CPU.
    c) Two, and eight are pending.
        That's what happens if you set `num_cpus=1` explicitly. Without any options, a running actor holds no CPU.
    """,
)

question(
    "which_device",
    """
    A node has two GPUs. In a task with `num_gpus=1`, `ray.get_gpu_ids()` returns `[1]`. On which device should the task put its network?

    a) On `cuda:1`.
        `CUDA_VISIBLE_DEVICES` is 1, so PyTorch sees a single GPU and numbers it 0.
    *b) On `cuda:0`.
        Right. Ray hides the other GPU, and PyTorch counts the visible ones from 0.
    c) On either one, because the task may use both.
        The task sees only the GPU that it's assigned, unless it changes the environment variable before PyTorch reads it.
    """,
)

question(
    "who_lends",
    """
    What releases its CPU while its main thread waits in `ray.get`?

    a) Both a task and an actor.
        You've seen two actors with `num_cpus=1` wait forever, because neither released its CPU.
    *b) A task, but not an actor.
        Right. And neither of them releases a license, a GPU, or memory.
    c) Neither: both hold their CPU until the end.
        Then the nested tasks in Chapter 1 would have deadlocked.
    """,
)

question(
    "cpus_here_licence_there",
    """
    A cluster has two idle nodes: one with four CPUs, and one with two CPUs and a license. A task requests `num_cpus=3` and
    `resources={"license": 1}`. What happens?

    a) It runs on the node with four CPUs, and uses the license of the other node.
        Everything that a task requests must come from the node that it runs on.
    b) It fails with an error that names the missing resource.
        An error would help, but Ray just waits, because a node that has both might still join.
    *c) It waits for as long as the cluster stays like this.
        Right. One node has enough CPUs, the other has the license, and neither has both.
    """,
)

question(
    "when_to_spread",
    """
    Each of four workers reads a large file of its own for hours, and they exchange nothing. The work must survive the loss of a node.
    Which strategy do you choose?

    a) PACK, because workers that are close together are faster.
        That's true for workers that exchange data, and these exchange none. And if PACK puts them all on one node, the loss of that node kills all of them.
    *b) SPREAD, or STRICT_SPREAD if there must be only one worker per node.
        Right. They exchange nothing, so distance costs nothing. With enough nodes, each gets its own disk, and the loss of a node stops only one of them.
    c) STRICT_PACK: all on one node, or none at all.
        Then one disk serves all four, and the loss of one node kills all of them.
    """,
)
