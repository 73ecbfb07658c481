"""Right and wrong answers of chapter 4."""

from concurrent.futures import ThreadPoolExecutor

import pandas
import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from tests.answers import accepts, rejects


def RAY() -> dict:
    """Start the chapter's nodes, three living ones and a dead one; return how to join them."""
    from coursekit.given.nodes import small_cluster

    cluster = small_cluster(num_cpus=2, resources={"license": 2})
    cluster.remove_node(cluster.add_node(num_cpus=2, object_store_memory=2**27))  # the dead stay on Ray's list
    for name, gpus in (("west", 0), ("east", 2)):
        options = {"node_name": name, "num_cpus": 2, "num_gpus": gpus, "labels": {"zone": name}}
        cluster.add_node(wait=False, object_store_memory=2**27, **options)
    cluster.wait_for_nodes(60)
    return {"address": cluster.address}


def STOP() -> None:
    """End the three nodes."""
    from coursekit.given.nodes import stop

    stop()


def _learn_and_play(learn, play, samplers, learner, sampler):
    playing = [ray.remote(play).options(**sampler).remote(number) for number in range(samplers)]
    return ray.get(ray.remote(learn).options(**learner).remote()), ray.get(playing)


@accepts("learn_and_play")
def samplers_first_and_a_list(learn, play, samplers):
    share = {"num_gpus": 1 / samplers, "num_cpus": 0}
    return list(_learn_and_play(learn, play, samplers, {"num_gpus": 1, "num_cpus": 0}, share))


@accepts("learn_and_play")
def decorated_and_rounded(learn, play, samplers):
    @ray.remote(num_gpus=round(1 / samplers, 3), num_cpus=0)
    def sampler(number):
        return play(number)

    @ray.remote(num_gpus=1, num_cpus=0)
    def learner():
        return learn()

    first, *others = ray.get([learner.remote(), *map(sampler.remote, range(samplers))])
    return first, others


@accepts("learn_and_play")
def actors_with_gpus(learn, play, samplers):
    @ray.remote(num_cpus=0)
    class Holder:
        def run(self, function, *arguments):
            return function(*arguments)

    learner = Holder.options(num_gpus=1).remote()
    holders = [Holder.options(num_gpus=1 / samplers).remote() for _ in range(samplers)]
    playing = [holder.run.remote(play, number) for number, holder in enumerate(holders)]
    return ray.get(learner.run.remote(learn)), ray.get(playing)


@accepts("learn_and_play")
def from_threads_of_the_notebook(learn, play, samplers):
    @ray.remote(num_cpus=0, max_retries=0)
    def run(function, *arguments):
        return function(*arguments)

    def call(gpus, *what):
        return ray.get(run.options(num_gpus=gpus).remote(*what))

    with ThreadPoolExecutor(samplers + 1) as threads:
        learning = threads.submit(call, 1, learn)
        playing = list(threads.map(lambda number: call(1 / samplers, play, number), range(samplers)))
    return learning.result(), playing


@rejects("learn_and_play", says="equal fractions")
def rounds_to_a_tenth(learn, play, samplers):
    share = {"num_gpus": 0.2 if samplers == 4 else 0.3, "num_cpus": 0}
    return _learn_and_play(learn, play, samplers, {"num_gpus": 1, "num_cpus": 0}, share)


@rejects("learn_and_play", says="reference")
def forgets_to_get_what_came_back(learn, play, samplers):
    learning = ray.remote(learn).options(num_gpus=1, num_cpus=0).remote()
    task = ray.remote(play).options(num_gpus=1 / samplers, num_cpus=0)
    return learning, [task.remote(number) for number in range(samplers)]


@rejects("learn_and_play", says="held a CPU")
def forgets_that_a_gpu_task_holds_a_cpu(learn, play, samplers):
    return _learn_and_play(learn, play, samplers, {"num_gpus": 1}, {"num_gpus": 1 / samplers})


@rejects("learn_and_play", says="equal fractions")
def a_whole_gpu_for_each(learn, play, samplers):
    return _learn_and_play(learn, play, samplers, {"num_gpus": 1, "num_cpus": 0}, {"num_gpus": 1, "num_cpus": 0})


@rejects("learn_and_play", says="equal fractions")
def always_a_half(learn, play, samplers):
    return _learn_and_play(learn, play, samplers, {"num_gpus": 1, "num_cpus": 0}, {"num_gpus": 0.5, "num_cpus": 0})


@rejects("learn_and_play", says="The learner held")
def all_share_alike(learn, play, samplers):
    share = {"num_gpus": 2 / (samplers + 1), "num_cpus": 0}
    return _learn_and_play(learn, play, samplers, share, share)


@rejects("learn_and_play", says="without holding any part of a GPU")
def only_the_learner_has_a_gpu(learn, play, samplers):
    return _learn_and_play(learn, play, samplers, {"num_gpus": 1, "num_cpus": 0}, {"num_cpus": 0})


@rejects("learn_and_play")
def asks_in_resources(learn, play, samplers):
    return _learn_and_play(learn, play, samplers, {"resources": {"GPU": 1}}, {"resources": {"GPU": 1 / samplers}})


@accepts("learn_and_play")
def inside_a_group_of_two_gpus(learn, play, samplers):
    group = placement_group([{"GPU": 1}, {"GPU": 1}])
    ray.get(group.ready())
    first, second = (PlacementGroupSchedulingStrategy(group, bundle) for bundle in (0, 1))
    learner, sampler = {"num_gpus": 1, "num_cpus": 0}, {"num_gpus": 1 / samplers, "num_cpus": 0}
    try:
        return _learn_and_play(
            learn,
            play,
            samplers,
            learner | {"scheduling_strategy": first},
            sampler | {"scheduling_strategy": second},
        )
    finally:
        remove_placement_group(group)


@rejects("learn_and_play", says="without holding any part of a GPU")
def samplers_play_in_the_notebook(learn, play, samplers):
    learned = ray.get(ray.remote(learn).options(num_gpus=1, num_cpus=0).remote())
    return learned, [play(number) for number in range(samplers)]


@rejects("learn_and_play", says="at the same time")
def learns_first_then_plays(learn, play, samplers):
    learned = ray.get(ray.remote(learn).options(num_gpus=1, num_cpus=0).remote())
    task = ray.remote(play).options(num_gpus=1 / samplers, num_cpus=0)
    return learned, ray.get([task.remote(number) for number in range(samplers)])


@accepts("fits")
def in_a_loop(nodes, request):
    found = []
    for node in nodes:
        lacks = [name for name in request if node["Resources"].get(name, 0) < request[name]]
        if node["Alive"] and not lacks:
            found.append(node["NodeID"])
    return found


@rejects("fits")
def adds_up_the_cluster(nodes, request):
    living = [node for node in nodes if node["Alive"]]
    total = {name: sum(node["Resources"].get(name, 0) for node in living) for name in request}
    enough = all(total[name] >= amount for name, amount in request.items())
    return [node["NodeID"] for node in living] if enough else []


@rejects("fits")
def one_resource_is_enough(nodes, request):
    return [
        node["NodeID"]
        for node in nodes
        if node["Alive"] and any(node["Resources"].get(name, 0) >= request[name] for name in request)
    ]


@rejects("fits")
def more_than_is_asked_for(nodes, request):
    return [
        node["NodeID"]
        for node in nodes
        if node["Alive"] and all(node["Resources"].get(name, 0) > request[name] for name in request)
    ]


@rejects("fits")
def also_the_dead(nodes, request):
    return [
        node["NodeID"] for node in nodes if all(node["Resources"].get(name, 0) >= request[name] for name in request)
    ]


@rejects("fits")
def takes_every_resource_for_granted(nodes, request):
    return [
        node["NodeID"]
        for node in nodes
        if node["Alive"] and all(node["Resources"][name] >= request[name] for name in request)
    ]


@accepts("fits")
def as_a_column_of_a_table(nodes, request):
    table = pandas.DataFrame([{**dict.fromkeys(request, 0), **node["Resources"]} for node in nodes])
    fit = [node["Alive"] for node in nodes]
    for name, amount in request.items():
        fit &= (table[name].fillna(0) >= amount).to_numpy()
    return pandas.Series([node["NodeID"] for node in nodes])[fit]


@rejects("fits", says="'license'")
def a_node_must_name_every_resource(nodes, request):
    def has(resources):
        return all(name in resources and resources[name] >= amount for name, amount in request.items())

    return [node["NodeID"] for node in nodes if node["Alive"] and has(node["Resources"])]


@rejects("fits")
def knows_only_cpus_and_licenses(nodes, request):
    known = {name: request.get(name, 0) for name in ("CPU", "license")}
    return in_a_loop(nodes, known)


@rejects("fits", says="a string at")
def rows_instead_of_ids(nodes, request):
    return [node for node in nodes if node["NodeID"] in in_a_loop(nodes, request)]


@rejects("fits")
def only_the_first_node(nodes, request):
    return in_a_loop(nodes, request)[:1]


@accepts("no_deadlock")
def passes_references_instead_of_waiting(simulate, teams):
    simulation = ray.remote(simulate).options(resources={"license": 1})
    add_up = ray.remote(lambda *values: sum(values))
    return ray.get([add_up.remote(*[simulation.remote(x) for x in team]) for team in teams])


@accepts("no_deadlock")
def only_the_notebook_waits(simulate, teams):
    simulation = ray.remote(simulate).options(resources={"license": 1})
    refs = [[simulation.remote(x) for x in team] for team in teams]
    return [sum(ray.get(of_a_team)) for of_a_team in refs]


@accepts("no_deadlock")
def teams_without_a_cpu(simulate, teams):
    simulation = ray.remote(resources={"license": 1})(simulate)

    @ray.remote(num_cpus=0)
    class Team:
        def total(self, team):
            return sum(ray.get([simulation.remote(x) for x in team]))

    actors = [Team.remote() for _ in teams]
    return ray.get([actor.total.remote(team) for actor, team in zip(actors, teams, strict=True)])


def _teams(simulate, teams, of_the_team=None, of_the_simulation=None):
    simulation = ray.remote(simulate).options(**(of_the_simulation or {"resources": {"license": 1}}))
    run = ray.remote(lambda team: sum(ray.get([simulation.remote(x) for x in team])))
    return [run.options(**(of_the_team or {})).remote(team) for team in teams]


@accepts("no_deadlock")
def one_async_actor_without_a_cpu(simulate, teams):
    simulation = ray.remote(resources={"license": 1})(simulate)

    @ray.remote(num_cpus=0)
    class Teams:
        async def total(self, team):
            return sum([await ref for ref in [simulation.remote(x) for x in team]])

    actor = Teams.remote()
    return ray.get([actor.total.remote(team) for team in teams])


@rejects("no_deadlock")
def half_a_license_for_each(simulate, teams):
    return ray.get(_teams(simulate, teams, None, {"resources": {"license": 0.5}}))


@rejects("no_deadlock", says="exactly one license")
def two_licenses_for_each(simulate, teams):
    return ray.get(_teams(simulate, teams, None, {"resources": {"license": 2}}))


@rejects("no_deadlock", says="deadlocked")
def the_team_holds_a_license_too(simulate, teams):
    return ray.get(_teams(simulate, teams, {"resources": {"license": 1}}))


@rejects("no_deadlock")
def teams_are_actors_with_a_cpu_each(simulate, teams):
    @ray.remote(num_cpus=1)
    class Team:
        def total(self, team):
            return sum(ray.get([ray.remote(resources={"license": 1})(simulate).remote(x) for x in team]))

    actors = [Team.remote() for _ in teams]
    return ray.get([actor.total.remote(team) for actor, team in zip(actors, teams, strict=True)])


@rejects("no_deadlock")
def the_license_is_with_the_team_only(simulate, teams):
    return ray.get(_teams(simulate, teams[:2], {"resources": {"license": 1}}, {"num_cpus": 1})) + ray.get(
        _teams(simulate, teams[2:], {"resources": {"license": 1}}, {"num_cpus": 1})
    )


@rejects("no_deadlock")
def one_team_after_the_other(simulate, teams):
    return [ray.get(_teams(simulate, [team]))[0] for team in teams]


@rejects("no_deadlock")
def the_team_simulates_by_itself(simulate, teams):
    run = ray.remote(resources={"license": 1})(lambda team: sum(simulate(x) for x in team))
    return ray.get([run.remote(team) for team in teams])


@rejects("no_deadlock")
def forgets_to_get(simulate, teams):
    return _teams(simulate, teams)


def _alive():
    return [node["NodeID"] for node in ray.nodes() if node["Alive"]]


@accepts("spread_over_nodes")
def by_the_label_that_every_node_has(function, xs):
    nodes, task = _alive(), ray.remote(function)
    places = [{"ray.io/node-id": nodes[i % len(nodes)]} for i in range(len(xs))]
    return ray.get([task.options(label_selector=place).remote(x) for place, x in zip(places, xs, strict=True)])


@accepts("spread_over_nodes")
def in_blocks(function, xs):
    nodes, task = _alive(), ray.remote(function)
    share = len(xs) // len(nodes)
    at = [NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes for _ in range(share)]
    return ray.get([task.options(scheduling_strategy=there).remote(x) for there, x in zip(at, xs, strict=True)])


@accepts("spread_over_nodes")
def an_actor_on_each_node(function, xs):
    actor_class = ray.remote(num_cpus=0)(type("Worker", (), {"run": lambda self, x: function(x)}))
    at = [NodeAffinitySchedulingStrategy(node, soft=False) for node in _alive()]
    workers = [actor_class.options(scheduling_strategy=there).remote() for there in at]
    return ray.get([workers[i % len(workers)].run.remote(x) for i, x in enumerate(xs)])


@accepts("spread_over_nodes")
def one_task_for_each_nodes_inputs(function, xs):
    nodes, results = _alive(), [None] * len(xs)
    every = [range(place, len(xs), len(nodes)) for place in range(len(nodes))]
    at = [NodeAffinitySchedulingStrategy(node, soft=True) for node in nodes]
    run = ray.remote(lambda inputs: [function(x) for x in inputs])
    refs = [
        run.options(scheduling_strategy=there).remote([xs[i] for i in places])
        for there, places in zip(at, every, strict=True)
    ]
    for places, values in zip(every, ray.get(refs), strict=True):
        for place, value in zip(places, values, strict=True):
            results[place] = value
    return results


@rejects("spread_over_nodes")
def by_the_input_and_not_its_place(function, xs):
    at = [NodeAffinitySchedulingStrategy(node, soft=False) for node in _alive()]
    task = ray.remote(function)
    return ray.get([task.options(scheduling_strategy=at[x % len(at)]).remote(x) for x in xs])


@rejects("spread_over_nodes")
def also_the_dead_nodes(function, xs):
    nodes, task = [node["NodeID"] for node in ray.nodes()], ray.remote(function)
    at = [NodeAffinitySchedulingStrategy(nodes[i % len(nodes)], soft=False) for i in range(len(xs))]
    return ray.get([task.options(scheduling_strategy=there).remote(x) for there, x in zip(at, xs, strict=True)])


@rejects("spread_over_nodes")
def dead_nodes_with_a_way_out(function, xs):
    nodes, task = [node["NodeID"] for node in ray.nodes()], ray.remote(function)
    at = [NodeAffinitySchedulingStrategy(nodes[i % len(nodes)], soft=True) for i in range(len(xs))]
    return ray.get([task.options(scheduling_strategy=there).remote(x) for there, x in zip(at, xs, strict=True)])


@rejects("spread_over_nodes")
def leaves_it_to_spread(function, xs):
    task = ray.remote(function).options(scheduling_strategy="SPREAD")
    return ray.get([task.remote(x) for x in xs])


@rejects("spread_over_nodes")
def waits_in_the_loop(function, xs):
    nodes, results = _alive(), []
    for i, x in enumerate(xs):
        there = NodeAffinitySchedulingStrategy(nodes[i % len(nodes)], soft=False)
        results.append(ray.get(ray.remote(function).options(scheduling_strategy=there).remote(x)))
    return results


@rejects("spread_over_nodes")
def results_as_they_end(function, xs):
    nodes, task, results = _alive(), ray.remote(function), []
    at = [NodeAffinitySchedulingStrategy(nodes[i % len(nodes)], soft=False) for i in range(len(xs))]
    pending = [task.options(scheduling_strategy=there).remote(x) for there, x in zip(at, xs, strict=True)]
    while pending:
        done, pending = ray.wait(pending)
        results += ray.get(done)
    return results


@rejects("spread_over_nodes")
def waits_for_a_place_on_every_node(function, xs):
    group = placement_group([{"CPU": 1}] * 3, strategy="STRICT_SPREAD")
    ray.get(group.ready())
    inside = [PlacementGroupSchedulingStrategy(group, i % 3) for i in range(len(xs))]
    refs = [ray.remote(function).options(scheduling_strategy=one).remote(x) for one, x in zip(inside, xs, strict=True)]
    results = ray.get(refs)
    remove_placement_group(group)
    return results


@accepts("gang")
def each_member_names_its_bundle(function, size):
    group = placement_group([{"CPU": 1} for _ in range(size)], strategy="SPREAD")
    try:
        inside = [PlacementGroupSchedulingStrategy(group, rank) for rank in range(size)]
        task = ray.remote(function)
        return ray.get([task.options(scheduling_strategy=one).remote(rank) for rank, one in enumerate(inside)])
    finally:
        remove_placement_group(group)


@accepts("gang")
def a_gang_of_actors(function, size):
    @ray.remote(num_cpus=1)
    class One:
        def go(self, rank):
            return function(rank)

    group = placement_group([{"CPU": 1}] * size)
    try:
        inside = PlacementGroupSchedulingStrategy(group)
        actors = [One.options(scheduling_strategy=inside).remote() for _ in range(size)]
        return ray.get([actor.go.remote(rank) for rank, actor in enumerate(actors)])
    finally:
        remove_placement_group(group)


@accepts("gang")
def waits_with_wait(function, size):
    group = placement_group([{"CPU": 1}] * size)
    task = ray.remote(num_cpus=1)(function)
    try:
        while not group.wait(timeout_seconds=5):
            pass
        inside = PlacementGroupSchedulingStrategy(placement_group=group, placement_group_bundle_index=-1)
        return list(map(ray.get, [task.options(scheduling_strategy=inside).remote(rank) for rank in range(size)]))
    finally:
        remove_placement_group(group)


@rejects("gang", says="as if nothing had happened")
def hides_the_error(function, size):
    group = placement_group([{"CPU": 1}] * size)
    ray.get(group.ready())
    task = ray.remote(function).options(scheduling_strategy=PlacementGroupSchedulingStrategy(group))
    try:
        return ray.get([task.remote(rank) for rank in range(size)])
    except ray.exceptions.RayTaskError:
        return None
    finally:
        remove_placement_group(group)


@rejects("gang", says="Each of them should hold one")
def ranks_that_hold_no_cpu(function, size):
    group = placement_group([{"CPU": 1}] * size)
    ray.get(group.ready())
    inside = PlacementGroupSchedulingStrategy(group)
    task = ray.remote(function).options(num_cpus=0, scheduling_strategy=inside)
    try:
        return ray.get([task.remote(rank) for rank in range(size)])
    finally:
        remove_placement_group(group)


@rejects("gang")
def removes_the_group_only_if_all_goes_well(function, size):
    return _in_a_group(function, size, [{"CPU": 1}] * size)


def _in_a_group(function, size, bundles, bundle_index=-1, strategy="PACK"):
    group = placement_group(bundles, strategy=strategy)
    ray.get(group.ready())
    task = ray.remote(function).options(scheduling_strategy=PlacementGroupSchedulingStrategy(group, bundle_index))
    results = ray.get([task.remote(rank) for rank in range(size)])
    remove_placement_group(group)
    return results


@rejects("gang")
def plain_tasks(function, size):
    return ray.get([ray.remote(function).remote(rank) for rank in range(size)])


@rejects("gang")
def one_bundle_for_all(function, size):
    return _in_a_group(function, size, [{"CPU": size}])


@rejects("gang")
def all_on_one_node(function, size):
    return _in_a_group(function, size, [{"CPU": 1}] * size, strategy="STRICT_PACK")


@rejects("gang")
def all_in_the_first_bundle(function, size):
    return _in_a_group(function, size, [{"CPU": 1}] * size, bundle_index=0)


@rejects("gang")
def reserves_and_runs_outside(function, size):
    group = placement_group([{"CPU": 1}] * size)
    ray.get(group.ready())
    results = ray.get([ray.remote(function).remote(rank) for rank in range(size)])
    remove_placement_group(group)
    return results


@rejects("gang")
def reserves_one_place_too_many(function, size):
    return _in_a_group(function, size, [{"CPU": 1}] * (size + 1))


@rejects("gang")
def never_removes_the_group(function, size):
    group = placement_group([{"CPU": 1}] * size)
    ray.get(group.ready())
    task = ray.remote(function).options(scheduling_strategy=PlacementGroupSchedulingStrategy(group))
    return ray.get([task.remote(rank) for rank in range(size)])


@rejects("gang")
def one_member_after_the_other(function, size):
    group = placement_group([{"CPU": 1}] * size)
    task = ray.remote(function).options(scheduling_strategy=PlacementGroupSchedulingStrategy(group))
    results = [ray.get(task.remote(rank)) for rank in range(size)]
    remove_placement_group(group)
    return results
