"""Right and wrong answers of chapter 19."""

import itertools
import re
from collections import Counter, defaultdict

import pandas

from tests.answers import accepts, rejects


def class_of(call):
    return call["name"].partition(".")[0]


def calls_only(calls):
    return [call for call in calls if call["kind"] == "actor_call"]


@accepts("find_the_bottleneck")
def busiest_single_actor(calls):
    busy, name = Counter(), {}
    for call in calls_only(calls):
        busy[call["actor_id"]] += call["ended"] - call["started"]
        name[call["actor_id"]] = class_of(call)
    return name[busy.most_common(1)[0][0]]


@accepts("find_the_bottleneck")
def by_process(calls):
    table = pandas.DataFrame(calls_only(calls))
    table["seconds"] = table["ended"] - table["started"]
    table["stage"] = table["name"].str.partition(".")[0]
    return table.groupby(["stage", "worker_pid"])["seconds"].sum().idxmax()[0]


@rejects("find_the_bottleneck", says="the busiest actor")
def from_the_first_call_to_the_last(calls):
    table = pandas.DataFrame(calls_only(calls))
    spans = table.groupby("actor_id").agg(name=("name", "first"), begin=("started", "min"), end=("ended", "max"))
    return class_of(spans.loc[(spans["end"] - spans["begin"]).idxmax()])


@rejects("find_the_bottleneck")
def averages_the_actors_of_a_stage(calls):
    totals, actors = defaultdict(float), defaultdict(set)
    for call in calls_only(calls):
        totals[class_of(call)] += seconds_of(call)
        actors[class_of(call)].add(call["actor_id"])
    return max(totals, key=lambda name: totals[name] / len(actors[name]))


@rejects("find_the_bottleneck")
def the_actor_that_ends_last(calls):
    return class_of(max(calls_only(calls), key=lambda call: call["ended"]))


def largest(calls, key, value):
    totals = defaultdict(float)
    for call in calls:
        totals[key(call)] += value(call)
    return max(totals, key=totals.get)


def seconds_of(call):
    return call["ended"] - call["started"]


@rejects("find_the_bottleneck")
def most_seconds_in_all(calls):
    return largest(calls_only(calls), class_of, seconds_of)


@rejects("find_the_bottleneck")
def longest_single_call(calls):
    return class_of(max(calls_only(calls), key=seconds_of))


@rejects("find_the_bottleneck", says="took long to create")
def counts_the_creation_of_actors(calls):
    busy, name = Counter(), {}
    for call in calls:
        busy[call["actor_id"]] += seconds_of(call)
        name[call["actor_id"]] = class_of(call)
    return name[busy.most_common(1)[0][0]]


@rejects("find_the_bottleneck")
def each_method_for_itself(calls):
    busy = defaultdict(float)
    for call in calls_only(calls):
        busy[call["name"], call["actor_id"]] += seconds_of(call)
    return max(busy, key=busy.get)[0].partition(".")[0]


@rejects("find_the_bottleneck")
def names_the_method(calls):
    busy = defaultdict(float)
    for call in calls_only(calls):
        busy[call["actor_id"]] += seconds_of(call)
    slow = max(busy, key=busy.get)
    return next(call["name"] for call in calls_only(calls) if call["actor_id"] == slow)


def series(text, name):
    from prometheus_client.parser import text_string_to_metric_families

    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {frozenset(sample.labels.items()): sample.value for sample in samples if sample.name == name}


@accepts("per_second")
def pairs_of_scrapes(scrapes, name):
    pages, grown = [series(text, name) for _, text in scrapes], 0
    for before, after in zip(pages, pages[1:], strict=False):
        for labels in after:
            step = after[labels] - before.get(labels, 0)
            grown += after[labels] if step < 0 else step
    return grown / (scrapes[-1][0] - scrapes[0][0])


@accepts("per_second")
def line_by_line(scrapes, name):
    last, grown = {}, 0.0
    for place, (_, text) in enumerate(scrapes):
        for line in text.splitlines():
            if line.startswith(name + "{"):
                labels, _, number = line.rpartition(" ")
                value, before = float(number), last.get(labels, 0.0)
                if place:
                    grown += value - before if value >= before else value
                last[labels] = value
    return grown / (scrapes[-1][0] - scrapes[0][0])


@accepts("per_second")
def with_a_table(scrapes, name):
    table = pandas.DataFrame([series(text, name) for _, text in scrapes]).fillna(0)
    steps = table.diff().iloc[1:]
    grown = steps.where(steps >= 0, table.iloc[1:]).to_numpy().sum()
    return grown / (scrapes[-1][0] - scrapes[0][0])


@rejects("per_second")
def last_minus_first_of_the_sums(scrapes, name):
    first, last = (sum(series(text, name).values()) for _, text in (scrapes[0], scrapes[-1]))
    return (last - first) / (scrapes[-1][0] - scrapes[0][0])


@rejects("per_second")
def forgets_new_workers(scrapes, name):
    pages, grown = [series(text, name) for _, text in scrapes], 0
    for before, after in zip(pages, pages[1:], strict=False):
        for labels in before.keys() & after.keys():
            step = after[labels] - before[labels]
            grown += after[labels] if step < 0 else step
    return grown / (scrapes[-1][0] - scrapes[0][0])


@rejects("per_second")
def takes_one_series_only(scrapes, name):
    values = [next(iter(series(text, name).values())) for _, text in scrapes]
    return (values[-1] - values[0]) / (scrapes[-1][0] - scrapes[0][0])


@rejects("per_second")
def one_series_for_each_worker(scrapes, name):
    def renamed(text):
        found = {dict(labels)["WorkerId"]: value for labels, value in series(text, name).items()}
        return "".join(f'{name}{{WorkerId="{worker}"}} {value}\n' for worker, value in found.items())

    return pairs_of_scrapes([[moment, renamed(text)] for moment, text in scrapes], name)


@rejects("per_second")
def every_line_that_begins_with_the_name(scrapes, name):
    def longer(text):
        return re.sub(rf"^{name}\w*", name, re.sub(r"^#.*\n", "", text, flags=re.MULTILINE), flags=re.MULTILINE)

    return pairs_of_scrapes([[moment, longer(text)] for moment, text in scrapes], name)


@rejects("per_second")
def averages_the_rates_of_unequal_intervals(scrapes, name):
    rates = [pairs_of_scrapes(list(pair), name) for pair in itertools.pairwise(scrapes)]
    return sum(rates) / len(rates)


@rejects("per_second")
def a_restart_counts_as_no_growth(scrapes, name):
    pages, grown = [series(text, name) for _, text in scrapes], 0
    for before, after in itertools.pairwise(pages):
        grown += sum(max(0, value - before.get(labels, 0)) for labels, value in after.items())
    return grown / (scrapes[-1][0] - scrapes[0][0])


@rejects("per_second", says="the counter wasn't at 0 in the first scrape")
def the_total_and_not_its_growth(scrapes, name):
    return sum(series(scrapes[-1][1], name).values()) / (scrapes[-1][0] - scrapes[0][0])


@rejects("per_second", says="how much the counter grew in all")
def growth_without_the_seconds(scrapes, name):
    return pairs_of_scrapes(scrapes, name) * (scrapes[-1][0] - scrapes[0][0])


def own_function(frames, own):
    return next((frame["function"] for frame in frames if frame["file"] in own), None)


def most_common(names):
    return Counter(name for name in names if name).most_common(1)[0][0]


def moves(seen):
    return any(sample["active"] or sample["frames"] != seen[0]["frames"] for sample in seen)


def in_a_circle(name, samples, waits_for):
    visited = []
    while name in waits_for and not moves(samples[name]):
        if name in visited:
            return True
        visited.append(name)
        name = waits_for[name]
    return False


def where(seen, own):
    return most_common(own_function(sample["frames"], own) for sample in seen)


def diagnosed(samples, waits_for, own, moves=moves, hangs=in_a_circle, where=where):
    verdicts = {
        name: "slow" if moves(seen) else "hung" if hangs(name, samples, waits_for) else "waiting"
        for name, seen in samples.items()
    }
    return {name: (verdicts[name], where(seen, own)) for name, seen in samples.items()}


@accepts("diagnose")
def along_the_chain(samples, waits_for, own):
    return diagnosed(samples, waits_for, own)


@accepts("diagnose")
def as_many_steps_as_processes(samples, waits_for, own):
    edges = {one: other for one, other in waits_for.items() if not moves(samples[one])}

    def hangs(name, *_):
        for _step in samples:
            name = edges.get(name)
        return name is not None

    found = diagnosed(samples, waits_for, own, hangs=hangs)
    return {name: list(pair) for name, pair in found.items()}


@accepts("diagnose")
def with_texts_and_pandas(samples, waits_for, own):
    found, left = {}, dict(waits_for)
    for name, seen in samples.items():
        places = pandas.Series([own_function(sample["frames"], own) for sample in seen]).dropna()
        moved = len({str(sample["frames"]) for sample in seen}) > 1 or sum(sample["active"] for sample in seen) > 0
        found[name] = ("slow" if moved else "waiting", places.mode()[0])
    while free := [name for name in left if left[name] not in left or found[name][0] == "slow"]:
        for name in free:  # whoever waits for one that isn't in a circle isn't in one either
            del left[name]
    return {name: ("hung" if name in left else verdict, place) for name, (verdict, place) in found.items()}


@rejects("diagnose")
def everything_that_waits_hangs(samples, waits_for, own):
    return diagnosed(samples, waits_for, own, hangs=lambda *_: True)


@rejects("diagnose")
def nothing_ever_hangs(samples, waits_for, own):
    return diagnosed(samples, waits_for, own, hangs=lambda *_: False)


@rejects("diagnose")
def whoever_waits_for_a_process_hangs(samples, waits_for, own):
    return diagnosed(samples, waits_for, own, hangs=lambda name, *_: name in waits_for)


@rejects("diagnose")
def only_the_members_of_a_circle_hang(samples, waits_for, own):
    def hangs(start, *_):
        name = start
        for _step in samples:
            name = waits_for.get(name)
            if name is None or moves(samples[name]):
                return False
            if name == start:
                return True
        return False

    return diagnosed(samples, waits_for, own, hangs=hangs)


@rejects("diagnose")
def a_circle_with_one_that_moves_hangs(samples, waits_for, own):
    def hangs(name, *_):
        for _step in samples:
            name = waits_for.get(name)
        return name is not None

    return diagnosed(samples, waits_for, own, hangs=hangs)


@rejects("diagnose")
def two_that_wait_for_each_other(samples, waits_for, own):
    return diagnosed(
        samples,
        waits_for,
        own,
        hangs=lambda name, *_: name != waits_for.get(name) and waits_for.get(waits_for.get(name)) == name,
    )


@rejects("diagnose")
def idle_means_waiting(samples, waits_for, own):
    return diagnosed(samples, waits_for, own, moves=lambda seen: any(sample["active"] for sample in seen))


@rejects("diagnose")
def the_same_stack_means_waiting(samples, waits_for, own):
    return diagnosed(samples, waits_for, own, moves=lambda seen: len({str(sample["frames"]) for sample in seen}) > 1)


@rejects("diagnose")
def compares_functions_without_lines(samples, waits_for, own):
    def moves(seen):
        stacks = {tuple(frame["function"] for frame in sample["frames"]) for sample in seen}
        return len(stacks) > 1 or any(sample["active"] for sample in seen)

    return diagnosed(samples, waits_for, own, moves=moves)


@rejects("diagnose")
def compares_first_and_last(samples, waits_for, own):
    return diagnosed(samples, waits_for, own, moves=lambda seen: seen[0] != seen[-1] or seen[0]["active"])


@rejects("diagnose")
def looks_at_one_sample(samples, waits_for, own):
    return diagnosed({name: seen[:1] for name, seen in samples.items()}, waits_for, own)


@rejects("diagnose", says="is not a function of")
def names_the_function_of_a_library(samples, waits_for, own):
    return diagnosed(
        samples,
        waits_for,
        own,
        where=lambda seen, own: most_common(sample["frames"][0]["function"] for sample in seen),
    )


@rejects("diagnose", says="should be the name of a function")
def returns_the_whole_frame(samples, waits_for, own):
    def frame(seen, own):
        return next(each for sample in seen for each in sample["frames"] if each["function"] == where(seen, own))

    return diagnosed(samples, waits_for, own, where=frame)


@rejects("diagnose")
def counts_every_frame_of_its_own(samples, waits_for, own):
    return diagnosed(
        samples,
        waits_for,
        own,
        where=lambda seen, own: most_common(
            frame["function"] for each in seen for frame in each["frames"] if frame["file"] in own
        ),
    )


@rejects("diagnose", says="isn't a pair")
def verdicts_without_the_function(samples, waits_for, own):
    return {name: verdict for name, (verdict, _) in diagnosed(samples, waits_for, own).items()}


@rejects("diagnose", says="lacks the process")
def only_those_that_wait_for_a_process(samples, waits_for, own):
    found = diagnosed(samples, waits_for, own)
    return {name: found[name] for name in waits_for}


def enough(room, asks):
    return all(room.get(name, 0) >= amount for name, amount in asks.items())


def report(tasks, nodes, holders, keep=("idle", "waits"), alive=True, ask_actor=True, ask_arguments=True):
    words, living = {}, [node for node in nodes if node["alive"] or not alive]
    rooms = []
    for node in living:
        room = dict(node["resources"])
        for holder in holders:
            if holder["node"] == node["id"] and holder["doing"] in keep:
                for name, amount in holder["holds"].items():
                    room[name] = room.get(name, 0) - amount
        rooms.append(room)
    for task in tasks:
        if task["state"] == "RUNNING":
            continue
        if ask_arguments and task["state"] == "PENDING_ARGS_AVAIL":
            word = "arguments"
        elif ask_actor and task["actor"]:
            word = "actor"
        elif not any(enough(node["resources"], task["asks"]) for node in living):
            word = "nowhere"
        else:
            word = "queue" if any(enough(room, task["asks"]) for room in rooms) else "locked"
        words[task["id"]] = word
    return words


@accepts("explain_pending")
def with_rooms(tasks, nodes, holders):
    return report(tasks, nodes, holders)


@accepts("explain_pending")
def with_counters(tasks, nodes, holders):
    kept = defaultdict(Counter)
    for holder in holders:
        if holder["doing"] != "works":
            kept[holder["node"]].update(holder["holds"])

    def word(task):
        fitting = [node for node in nodes if node["alive"] and enough(node["resources"], task["asks"])]
        room = [
            node
            for node in fitting
            if all(node["resources"].get(name, 0) - kept[node["id"]][name] >= n for name, n in task["asks"].items())
        ]
        if task["state"] == "PENDING_ARGS_AVAIL":
            return "arguments"
        if task["actor"] is not None:
            return "actor"
        return "queue" if room else "locked" if fitting else "nowhere"

    return {task["id"]: word(task) for task in tasks if not task["state"].startswith("RUNNING")}


@rejects("explain_pending")
def adds_up_the_nodes(tasks, nodes, holders):
    total = Counter()
    for node in nodes:
        if node["alive"]:
            total.update(node["resources"])
    one = [{"id": "all", "alive": True, "resources": total}]
    return report(tasks, one, [holder | {"node": "all"} for holder in holders])


@rejects("explain_pending")
def counts_dead_nodes(tasks, nodes, holders):
    return report(tasks, nodes, holders, alive=False)


@rejects("explain_pending")
def finds_room_on_dead_nodes(tasks, nodes, holders):
    live, all_of_them = report(tasks, nodes, holders), report(tasks, nodes, holders, alive=False)
    return {name: all_of_them[name] if word == "locked" else word for name, word in live.items()}


@rejects("explain_pending")
def looks_only_at_what_is_free_now(tasks, nodes, holders):
    return report(tasks, nodes, holders, keep=("idle", "waits", "works"))


@rejects("explain_pending")
def believes_that_idle_actors_end(tasks, nodes, holders):
    return report(tasks, nodes, holders, keep=("waits",))


@rejects("explain_pending")
def forgets_the_calls_to_actors(tasks, nodes, holders):
    return report(tasks, nodes, holders, ask_actor=False)


@rejects("explain_pending")
def every_task_is_a_call_to_an_actor(tasks, nodes, holders):
    return report([task | {"actor": "actor" in task} for task in tasks], nodes, holders)


@rejects("explain_pending")
def asks_for_room_before_arguments(tasks, nodes, holders):
    return report(tasks, nodes, holders, ask_arguments=False)


@rejects("explain_pending")
def one_resource_is_enough(tasks, nodes, holders):
    first = [task | {"asks": dict(list(task["asks"].items())[:1])} for task in tasks]
    return report(first, nodes, holders)


@rejects("explain_pending", says="no word for a task in the state SUBMITTED_TO_WORKER")
def only_states_that_begin_with_pending(tasks, nodes, holders):
    return report([task for task in tasks if task["state"].startswith("PENDING")], nodes, holders)


@rejects("explain_pending")
def words_for_running_tasks_too(tasks, nodes, holders):
    return report([task | {"state": task["state"].replace("RUNNING", "PENDING")} for task in tasks], nodes, holders)


@accepts("explain_pending")
def takes_away_in_a_table(tasks, nodes, holders):
    total = pandas.DataFrame({node["id"]: node["resources"] for node in nodes if node["alive"]}).T.fillna(0.0)
    left = total.copy()
    for holder in holders:
        if holder["doing"] in ("waits", "idle") and holder["node"] in left.index:
            for name, amount in holder["holds"].items():
                left.loc[holder["node"], name] -= amount

    def some(table, asks):
        wanted = pandas.Series(asks, dtype=float)
        return bool((table.reindex(columns=wanted.index, fill_value=0.0) >= wanted).all(axis=1).any())

    def word(task):
        if task["state"] == "PENDING_ARGS_AVAIL":
            return "arguments"
        if task["actor"]:
            return "actor"
        return "queue" if some(left, task["asks"]) else "locked" if some(total, task["asks"]) else "nowhere"

    return {task["id"]: word(task) for task in tasks if task["state"] != "RUNNING"}


@rejects("explain_pending")
def looks_at_the_actor_before_the_arguments(tasks, nodes, holders):
    calls = {task["id"]: "actor" for task in tasks if task["actor"] and task["state"] != "RUNNING"}
    return report(tasks, nodes, holders) | calls


@rejects("explain_pending")
def exactly_enough_is_too_little(tasks, nodes, holders):
    a_little_more = [task | {"asks": {name: amount + 0.01 for name, amount in task["asks"].items()}} for task in tasks]
    return report(a_little_more, nodes, holders)


@rejects("explain_pending")
def the_last_holder_of_a_node_overwrites_the_others(tasks, nodes, holders):
    last = {(holder["node"], holder["doing"]): holder for holder in holders}
    return report(tasks, nodes, list(last.values()))


@rejects("explain_pending")
def subtracts_the_holders_of_every_node(tasks, nodes, holders):
    everywhere = [holder | {"node": node["id"]} for holder in holders for node in nodes]
    return report(tasks, nodes, everywhere)
