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
        "Which share makes each sampler's part equal, and leaves nothing? And what does a task hold besides its GPU when you write nothing?",
        "`.options(num_gpus=…, num_cpus=0)` for both kinds of task; `1 / samplers` for one of them.",
        "Launch the learner and all samplers before the first `ray.get`.",
    ],
)
def learn_and_play(answer: Answer, rng: Generator) -> None:
    """Ask for a whole GPU for the learner and for equal shares of the other; a GPU task holds a CPU too, unless you say 0."""
    samplers, offset = int(rng.integers(3, 5)), int(rng.integers(1, 1000))
    seen = answer.probe(given.share_two_gpus, samplers, offset)
    expect(
        seen["gpus"] == 2,
        f"This check needs the node with two GPUs, and Ray has {seen['gpus']:g} GPUs: run the cell that adds the node.",
    )
    with answer.case(f"a learner and {samplers} samplers"):
        expect(
            seen["ended"], "Your call did not come back: some tasks wait for a GPU or a CPU that never becomes free."
        )
        learned, played = offset, [me * me + offset for me in range(1, samplers + 1)]
        expect_equal(
            seen["value"], (learned, played), "What `learn` and `play` returned must come back: one value, and a list."
        )
        _judge_shares(seen["notes"], samplers)


def _judge_shares(found: list[tuple[float, float, bool, str | None] | None], samplers: int) -> None:
    """Judge what the tasks held: GPUs, CPUs, and each other's company."""
    notes = [note for note in found if note]
    expect(len(notes) == samplers + 1, "Not every sampler played.")
    (whole, _, _, _), *others = notes
    expect(whole == 1, f"The learner held {whole:g} GPUs, and needs one to itself.")
    shares = [share for share, *_ in others]
    listed = ", ".join(f"{share:g}" for share in shares)
    expect(all(shares), "A sampler played without a GPU.")
    expect(
        all(abs(share * samplers - 1) < 0.01 for share in shares),
        f"Of their GPU, the {samplers} samplers held {listed}. Is that an equal part each, with nothing left?",
    )
    expect(
        not any(cpus for _, cpus, _, _ in notes),
        "Some tasks held a CPU, which nothing here needs. What does a task hold when you write no `num_cpus`?",
    )
    expect(len({where for *_, where in notes}) == samplers + 1, "Each call belongs in a task of its own.")
    expect(
        all(met for _, _, met, _ in notes),
        "Learner and samplers never all ran at the same time. Do you launch all of them before you wait?",
    )


@exercise(
    points=2,
    minutes=10,
    needs={"CPU": 2},
    hints=[
        "Look at one node at a time. When does it have enough of *one* resource? And when of every resource in the request?",
        "A node that lacks a resource has 0 of it. And would a dead node pass a request for 0 CPUs?",
        "`row['Resources'].get(name, 0) >= amount` for every name of the request, and `row['Alive']`.",
    ],
    returns=list[str],
)
def fits(answer: Answer, rng: Generator) -> None:
    """A request must fit on one living node, resource by resource; the cluster's sums do not matter."""
    # Long: made-up nodes show each mistake by itself, and after them Ray itself is asked.
    cpus, licences = int(rng.integers(3, 7)), int(rng.integers(2, 5))
    nodes = _cluster_of(rng, cpus, licences)
    for request, names in _requests(cpus, licences):
        _judge_ids(answer(list(nodes.values()), request), request, nodes, names)
    request = {"CPU": float(rng.choice([0.5, 1, 2, 3])), "licence": float(rng.choice([0, 1]))}
    _judge_on_ray(answer, request)


def _cluster_of(rng: Generator, cpus: int, licences: int) -> dict[str, dict]:
    """Return rows as `ray.nodes()` gives them, in no order, by a name for each node."""
    resources: dict[str, dict] = {"plain": {"CPU": float(cpus)}, "dead": {}}  # Ray keeps the row of a dead node, empty
    resources["licensed"] = {"CPU": cpus - 1.0, "licence": float(licences)}
    return {
        name: {"NodeID": rng.bytes(4).hex(), "Alive": name != "dead", "Resources": resources[name]}
        for name in rng.permutation(list(resources)).tolist()
    }


def _requests(cpus: int, licences: int) -> list[tuple[dict, list[str]]]:
    """Return requests, each with the names of the nodes on which it fits."""
    return [
        ({"CPU": 0}, ["plain", "licensed"]),
        ({"CPU": cpus + 1}, []),
        ({"CPU": cpus}, ["plain"]),
        ({"CPU": 1, "licence": licences}, ["licensed"]),
        ({"licence": 0.5}, ["licensed"]),
        ({"CPU": cpus, "licence": 1}, []),
    ]


def _judge_ids(got: list[str], request: dict, nodes: dict[str, dict], names: list[str]) -> None:
    """Compare what came back with the nodes on which the request fits."""
    dead = nodes["dead"]["NodeID"]
    expect(dead not in got, "A dead node was on your list: `ray.nodes()` keeps the rows of nodes that have died.")
    for name, row in nodes.items():
        here, fit, has = row["NodeID"] in got, name in names, row["Resources"]
        expect(fit or not here, f"{has} is not enough for {request}: one node must have all of it.")
        expect(here or not fit, f"{has} is enough for {request}, and that node is not on your list.")
    listed, fitting = len(got), len(names)
    expect(listed == fitting, f"Your list has {listed} ids; {fitting} different nodes fit.")


def _judge_on_ray(answer: Answer, request: dict) -> None:
    """Compare what the answer says of this cluster with where Ray runs a task."""
    seen = answer.probe(given.where_ray_runs_it, {name: amount for name, amount in request.items() if amount})
    expect(
        seen["running"],
        "Right for made-up nodes. Next the check asks Ray itself, and no Ray is running: run the cells above first.",
    )
    ran = sorted(node for node, taken in seen["taken"].items() if taken)
    expect(ran or request["CPU"] == 3, "Ray itself found no node here for a small task: run the chapter's first cells.")
    expect_equal(
        sorted(seen["said"]), ran, f"On this cluster, Ray runs a task with {request} on other nodes than you said."
    )


@exercise(
    points=2,
    minutes=10,
    needs={"CPU": 2, "licence": 2},
    hints=[
        "What does a team hold while it waits for its simulations? What do these need?",
        "Only `simulate` needs a licence. A team that waits in `ray.get` lends its CPU, but nothing else, and an actor "
        "lends nothing at all.",
        "Launch all teams before you wait for the first.",
    ],
)
def no_deadlock(answer: Answer, rng: Generator) -> None:
    """Hold nothing that others need while you wait for them: the licence belongs to the simulation, not to the team."""
    inputs = rng.choice(500, size=20, replace=False).tolist()
    groups, offset = [inputs[place : place + 2] for place in range(0, 20, 2)], int(rng.integers(1, 1000))
    seen = answer.probe(given.evaluate_teams, groups, offset)
    with answer.case(f"{seen['groups']} teams and two licences"):
        _expect_no_lock(seen["ended"], Counter(seen["stuck"]))
        expect(3 <= seen["groups"] <= len(groups), "The check needs a Ray with two to nine CPUs: run the first cells.")
        groups = groups[: seen["groups"]]
        want = [sum(x * x + offset for x in group) for group in groups]
        expect_equal(seen["value"], want, "The sums did not come out right: one for each team, in order.")
        _judge_simulations([seen["simulated"].get(x) for group in groups for x in group])


def _expect_no_lock(ended: bool, states: Counter) -> None:
    """Fail where nothing moved any more; the states are those of the tasks that were left."""
    waiting = states.pop("PENDING_NODE_ASSIGNMENT", 0)
    begun = sum(states.values())
    expect(
        ended or not waiting,
        f"Nothing moved any more. Tasks PENDING_NODE_ASSIGNMENT: {waiting}; tasks that had begun and not ended: "
        f"{begun}. What do these hold that the others ask for?",
    )
    expect(
        ended,
        f"Nothing moved any more, though no task waited for a resource. Tasks that had begun and not ended: "
        f"{begun}. What do they wait for?",
    )


def _judge_simulations(found: list[tuple[str | None, float, bool] | None]) -> None:
    """Judge what the simulations noted: task, licences held, and whether the first two teams met."""
    notes, inputs = [note for note in found if note], len(found)
    expect(len(notes) == inputs, "Some inputs were never simulated.")
    fewest = min(licences for _, licences, _ in notes)
    expect(fewest >= 1, f"A simulation ran without holding a licence (Ray had assigned it {fewest:g}).")
    tasks = len({task for task, _, _ in notes})
    expect(tasks == inputs, f"{inputs} inputs are {inputs} tasks; they ran in {tasks}.")
    expect(
        all(met for _, _, met in notes),
        "No simulation of the second team began while the first team was at work: the teams ran one after the other.",
    )


@exercise(
    points=2,
    minutes=10,
    needs={"node": 3, "CPU": 6},
    hints=[
        "Input number i goes to node number i modulo the number of nodes. How does a task get to a certain node?",
        "`task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False))`, ids of the living nodes from `ray.nodes()`.",
        "Launch everything, then call `ray.get` once.",
    ],
)
def spread_over_nodes(answer: Answer, rng: Generator) -> None:
    """Name the node of each task: SPREAD is a wish about idle nodes, node affinity is a condition."""
    xs = rng.choice(500, size=24, replace=False).tolist()  # with 24, even shares are no luck
    which = int(rng.integers(3))
    seen = answer.probe(given.one_node_is_busy, xs, which)
    _expect_three_nodes(seen["nodes"])
    _expect_an_end(seen)
    expect_equal(seen["value"], [x * x for x in xs], "One result for each input, in the order of the inputs.")
    _expect_eight_each(Counter(seen["ran"].get(x) for x in xs), seen["nodes"])
    expect(
        seen["kept_moving"],
        "While one node was busy, calls for the other nodes did not run: do you wait before you have launched them all?",
    )


def _expect_three_nodes(nodes: list[str]) -> None:
    living = len(nodes)
    expect(
        living == 3,
        f"This check needs the chapter's three nodes; {living} are there. Run the cell that adds them.",
    )


def _expect_an_end(seen: given.Spread) -> None:
    expect(
        not seen["unschedulable"],
        "You sent a task to a node that cannot run it. `ray.nodes()` has rows of dead nodes too: which of the ids live?",
    )
    expect(
        seen["ended"],
        "One node was busy, then free again, and your call still did not come back: what does it wait for?",
    )


def _expect_eight_each(counts: Counter, nodes: list[str]) -> None:
    """Check how many of the calls ran on each node."""
    spread = ", ".join(str(counts.get(node, 0)) for node in nodes)
    expect(
        dict(counts) == dict.fromkeys(nodes, 8),
        f"24 calls on three nodes are 8 each. One node was busy for a while, and the calls ran {spread}.",
    )


@exercise(
    points=3,
    minutes=15,
    needs={"node": 3, "CPU": 6},
    hints=[
        "A placement group with one bundle for each member; a bundle is a dict of resources: `{'CPU': 1}`.",
        "`PlacementGroupSchedulingStrategy(group)` puts a task into the group; a task without it runs outside.",
        "`remove_placement_group(group)` in a `finally`: the reservation stays until you remove it, even after an error.",
    ],
)
def gang(answer: Answer, rng: Generator) -> None:
    """Reserve a bundle for each member first: the group gets all of its bundles or none."""
    size, offset = int(rng.integers(3, 5)), int(rng.integers(1, 1000))
    with answer.case(f"a gang of {size}"):
        _judge_gang(answer.probe(given.gang_of, size, offset, -1), [rank * rank + offset for rank in range(size)])
    with answer.case(f"a gang of {size}, one of which raises an error"):
        failed = answer.probe(given.gang_of, size, offset, int(rng.integers(size)))
        expect(failed["ended"], "The call did not come back.")
        expect(not failed["left"], "The call has failed, and its group is still there: what removes it?")


def _judge_gang(seen: given.Gang, want: list[int]) -> None:
    """Judge a gang in which nothing fails: all members met, inside a group, and the group is gone."""
    size, members = len(want), [member for member in seen["members"] if member]
    expect(seen["groups"], "No placement group was made.")
    (state, strategy, bundles), *_ = seen["groups"]
    expect(
        seen["ended"] or state != "PENDING",
        f"The group ({strategy}, bundles {bundles}) stayed PENDING with every CPU free. Where would it fit?",
    )
    expect(seen["ended"], "The group was placed, and your call still did not come back: what does it wait for?")
    expect_equal(seen["value"], want, "One result for each rank, in order.")
    expect(len(members) == size, "Not every rank ran.")
    met, groups = zip(*members, strict=True)
    expect(all(groups), "A member ran outside the placement group, which reserved a place for it in vain.")
    reserved = sum(bundle.get("CPU", 0) for *_, each in seen["groups"] for bundle in each)
    expect(
        reserved <= size,
        f"You reserved {reserved:g} CPUs for a gang of {size}, and no other work can use what you leave empty.",
    )
    expect(not seen["left"], f"The call is over, but its group is still {state}: other work cannot use these CPUs.")
    expect(all(met), f"The members never all ran at the same time. Does each have a bundle of its own ({bundles})?")


question(
    "what_num_cpus_does",
    """
    A task with `num_cpus=1` starts eight Python threads that all compute. What does Ray do about it?

    a) It keeps the task on one core.
        `num_cpus` pins nothing: the operating system shares the cores out.
    b) It ends the task.
        Ray does not look at what a task uses of a CPU.
    *c) Nothing at all.
        Right. A logical resource is an entry in a ledger: it decides who may start, not what is used.
    """,
)

question(
    "default_actor",
    """
    A Ray with two CPUs. You make ten actors, `Player.remote()`, with no options. How many live?

    *a) All ten.
        Right: by default an actor asks for one CPU to be placed, and for none to stay. So ten computing actors can share two cores, unless you write `num_cpus=1`.
    b) None; ten do not fit.
        Actors are placed one by one, each as soon as it can be.
    c) Two; eight are pending.
        That is so with `num_cpus=1` written out. Without it, an actor holds no CPU.
    """,
)

question(
    "which_device",
    """
    A node has two GPUs. In a task with `num_gpus=1`, `ray.get_gpu_ids()` returns `[1]`. Where does the task put its network?

    a) On `cuda:1`.
        `CUDA_VISIBLE_DEVICES` is 1, so PyTorch sees a single GPU and counts it as number 0.
    *b) On `cuda:0`.
        Right: Ray hides the other GPU, and PyTorch counts what is left, from 0.
    c) On either: the task may use both.
        It can see only its own, unless it changes the environment variable before PyTorch looks.
    """,
)

question(
    "who_lends",
    """
    What lends its CPU to others while it waits in `ray.get`?

    a) A task does, and so does an actor.
        You have seen two actors with `num_cpus=1` wait forever.
    *b) A task does, and an actor does not.
        Right. And neither lends a licence, a GPU or memory.
    c) Neither does: each holds it until the end.
        Then the nested tasks of chapter 1 would have locked up.
    """,
)

question(
    "cpus_here_licence_there",
    """
    A cluster has two idle nodes: one with four CPUs, one with two CPUs and a licence. A task asks for `num_cpus=3` and
    `resources={"licence": 1}`. What happens?

    a) It runs on the node with four CPUs, and uses the licence of the other.
        Everything a task asks for comes from the one node it runs on.
    b) It fails, with an error that names the resource.
        An error would help, but Ray only waits: a node that has both might still join.
    *c) It waits, for as long as the cluster stays like this.
        Right. One node has the CPUs, the other the licence, and neither has both.
    """,
)

question(
    "when_to_spread",
    """
    Four members that each read a large file of their own for hours, and exchange nothing. The work must survive the loss of a node.
    Which strategy?

    a) PACK: members that lie close together are faster.
        That holds for members that exchange data. These exchange none, and one dead node may take all.
    *b) SPREAD, or STRICT_SPREAD if there must be only one on a node.
        Right: nothing travels between them, and each has a disk and a fate of its own.
    c) STRICT_PACK: all on one node, or none at all.
        One disk serves all four then, and one dead node takes all.
    """,
)
