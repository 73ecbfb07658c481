"""Right and wrong answers of chapter 4."""

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from tests.answers import accepts, rejects


def RAY() -> dict:
    """Start the chapter's nodes, three living ones and a dead one; return how to join them."""
    from coursekit.given.nodes import small_cluster

    cluster = small_cluster(num_cpus=2, resources={"licence": 2})
    cluster.remove_node(cluster.add_node(num_cpus=2, object_store_memory=2**27))  # the dead stay on Ray's list
    for name in ("west", "east"):
        cluster.add_node(wait=False, node_name=name, num_cpus=2, labels={"zone": name}, object_store_memory=2**27)
    cluster.wait_for_nodes(60)
    return {"address": cluster.address}


def STOP() -> None:
    """End the three nodes."""
    from coursekit.given.nodes import stop

    stop()


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


@rejects("fits")
def looks_only_at_cpus(nodes, request):
    return [
        node["NodeID"] for node in nodes if node["Alive"] and node["Resources"].get("CPU", 0) >= request.get("CPU", 0)
    ]


@rejects("fits")
def only_the_first_node(nodes, request):
    return in_a_loop(nodes, request)[:1]


@accepts("no_deadlock")
def passes_references_instead_of_waiting(simulate, teams):
    simulation = ray.remote(simulate).options(resources={"licence": 1})
    add_up = ray.remote(lambda *values: sum(values))
    return ray.get([add_up.remote(*[simulation.remote(x) for x in team]) for team in teams])


@accepts("no_deadlock")
def only_the_notebook_waits(simulate, teams):
    simulation = ray.remote(simulate).options(resources={"licence": 1})
    refs = [[simulation.remote(x) for x in team] for team in teams]
    return [sum(ray.get(of_a_team)) for of_a_team in refs]


@accepts("no_deadlock")
def teams_without_a_cpu(simulate, teams):
    simulation = ray.remote(resources={"licence": 1})(simulate)

    @ray.remote(num_cpus=0)
    class Team:
        def total(self, team):
            return sum(ray.get([simulation.remote(x) for x in team]))

    actors = [Team.remote() for _ in teams]
    return ray.get([actor.total.remote(team) for actor, team in zip(actors, teams, strict=True)])


def _teams(simulate, teams, of_the_team=None, of_the_simulation=None):
    simulation = ray.remote(simulate).options(**(of_the_simulation or {"resources": {"licence": 1}}))
    run = ray.remote(lambda team: sum(ray.get([simulation.remote(x) for x in team])))
    return [run.options(**(of_the_team or {})).remote(team) for team in teams]


@rejects("no_deadlock", says="Nothing moved any more")
def the_team_holds_a_licence_too(simulate, teams):
    return ray.get(_teams(simulate, teams, {"resources": {"licence": 1}}))


@rejects("no_deadlock")
def teams_are_actors_with_a_cpu_each(simulate, teams):
    @ray.remote(num_cpus=1)
    class Team:
        def total(self, team):
            return sum(ray.get([ray.remote(resources={"licence": 1})(simulate).remote(x) for x in team]))

    actors = [Team.remote() for _ in teams]
    return ray.get([actor.total.remote(team) for actor, team in zip(actors, teams, strict=True)])


@rejects("no_deadlock")
def simulations_without_a_licence(simulate, teams):
    return ray.get(_teams(simulate, teams, None, {"num_cpus": 1}))


@rejects("no_deadlock")
def the_licence_is_with_the_team_only(simulate, teams):
    return ray.get(_teams(simulate, teams[:2], {"resources": {"licence": 1}}, {"num_cpus": 1})) + ray.get(
        _teams(simulate, teams[2:], {"resources": {"licence": 1}}, {"num_cpus": 1})
    )


@rejects("no_deadlock")
def one_team_after_the_other(simulate, teams):
    return [ray.get(_teams(simulate, [team]))[0] for team in teams]


@rejects("no_deadlock")
def the_team_simulates_by_itself(simulate, teams):
    run = ray.remote(resources={"licence": 1})(lambda team: sum(simulate(x) for x in team))
    return ray.get([run.remote(team) for team in teams])


@rejects("no_deadlock")
def a_licence_that_does_not_exist(simulate, teams):
    return ray.get(_teams(simulate, teams, None, {"resources": {"license": 1}}))


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
def leaves_it_to_ray(function, xs):
    return ray.get([ray.remote(function).remote(x) for x in xs])


@rejects("spread_over_nodes")
def all_on_the_first_node(function, xs):
    there = NodeAffinitySchedulingStrategy(_alive()[0], soft=False)
    return ray.get([ray.remote(function).options(scheduling_strategy=there).remote(x) for x in xs])


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
def one_a_node_and_more_than_there_are(function, size):
    return _in_a_group(function, 4, [{"CPU": 1}] * 4, strategy="STRICT_SPREAD")


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
