"""Right and wrong answers of chapter 19."""

import json
import os
import re
import sqlite3
import uuid
from collections import Counter, defaultdict

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
    seconds, pids = defaultdict(float), defaultdict(set)
    for call in calls_only(calls):
        seconds[class_of(call)] += call["ended"] - call["started"]
        pids[class_of(call)].add(call["worker_pid"])
    return max(seconds, key=lambda name: seconds[name] / len(pids[name]))


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


@rejects("find_the_bottleneck")
def most_calls(calls):
    return largest(calls_only(calls), class_of, lambda call: 1)


@rejects("find_the_bottleneck")
def counts_the_birth_of_actors(calls):
    totals, actors = defaultdict(float), defaultdict(set)
    for call in calls:
        totals[class_of(call)] += seconds_of(call)
        actors[class_of(call)].add(call["actor_id"])
    return max(totals, key=lambda name: totals[name] / len(actors[name]))


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


@rejects("find_the_bottleneck")
def longest_wait_before_the_start(calls):
    return largest(calls_only(calls), class_of, lambda call: call["started"] - call["created"])


@rejects("find_the_bottleneck")
def the_stage_that_ends_last(calls):
    return class_of(max(calls_only(calls), key=lambda call: call["ended"]))


@rejects("find_the_bottleneck")
def mean_length_of_a_call(calls):
    every = defaultdict(list)
    for call in calls_only(calls):
        every[class_of(call)].append(seconds_of(call))
    return max(every, key=lambda name: sum(every[name]) / len(every[name]))


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


@rejects("per_second")
def last_minus_first_of_the_sums(scrapes, name):
    first, last = (sum(series(text, name).values()) for _, text in (scrapes[0], scrapes[-1]))
    return (last - first) / (scrapes[-1][0] - scrapes[0][0])


@rejects("per_second")
def never_below_zero(scrapes, name):
    pages, grown = [series(text, name) for _, text in scrapes], 0
    for before, after in zip(pages, pages[1:], strict=False):
        grown += sum(max(0, after[labels] - before.get(labels, 0)) for labels in after)
    return grown / (scrapes[-1][0] - scrapes[0][0])


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
def the_total_and_not_its_growth(scrapes, name):
    return sum(series(scrapes[-1][1], name).values()) / (scrapes[-1][0] - scrapes[0][0])


@rejects("per_second")
def growth_without_the_seconds(scrapes, name):
    return pairs_of_scrapes(scrapes, name) * (scrapes[-1][0] - scrapes[0][0])


@rejects("per_second")
def counts_from_the_first_scrape_on_as_new(scrapes, name):
    return pairs_of_scrapes([[scrapes[0][0], ""], *scrapes], name)


@rejects("per_second")
def first_number_in_a_line_that_has_the_name(scrapes, name):
    def total(text):
        found = [re.search(r"\d+\.?\d*", line.partition("}")[2]) for line in text.splitlines() if name in line]
        return sum(float(each[0]) for each in found if each)

    return (total(scrapes[-1][1]) - total(scrapes[0][1])) / (scrapes[-1][0] - scrapes[0][0])


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
def looks_only_at_what_is_free_now(tasks, nodes, holders):
    return report(tasks, nodes, holders, keep=("idle", "waits", "works"))


@rejects("explain_pending")
def believes_that_idle_actors_end(tasks, nodes, holders):
    return report(tasks, nodes, holders, keep=("waits",))


@rejects("explain_pending")
def believes_that_those_who_wait_end(tasks, nodes, holders):
    return report(tasks, nodes, holders, keep=("idle",))


@rejects("explain_pending")
def everything_is_a_queue(tasks, nodes, holders):
    return report(tasks, nodes, [])


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


@rejects("explain_pending")
def words_for_running_tasks_too(tasks, nodes, holders):
    return report([task | {"state": task["state"].replace("RUNNING", "PENDING")} for task in tasks], nodes, holders)


@accepts("durable_pipeline")
def one_journal_for_each_run(steps, run, folder):
    path, done = os.path.join(folder, run + ".journal"), {}
    if os.path.exists(path):
        with open(path) as file:
            for line in file:
                if line.endswith("\n"):  # the last one may be torn
                    name, value = json.loads(line)
                    done[name] = value
    value = None
    for name, function in steps:
        if name not in done:
            done[name] = function(value, [run, name])
            with open(path, "a") as file:
                file.write(json.dumps([name, done[name]]) + "\n")
        value = done[name]
    return value


@accepts("durable_pipeline")
def in_a_database(steps, run, folder):
    with sqlite3.connect(os.path.join(folder, "pipelines.db")) as base:
        base.execute("create table if not exists done (run text, step text, value text, primary key (run, step))")
        base.commit()
        value = None
        for name, function in steps:
            row = base.execute("select value from done where run = ? and step = ?", (run, name)).fetchone()
            if row is None:
                row = [json.dumps(function(value, f"{run}/{name}"))]
                base.execute("insert into done values (?, ?, ?)", (run, name, row[0]))
                base.commit()
            value = json.loads(row[0])
    return value


@accepts("durable_pipeline")
def a_folder_for_each_run(steps, run, folder):
    home, value = os.path.join(folder, run), None
    os.makedirs(home, exist_ok=True)
    for place, (name, function) in enumerate(steps):
        path = os.path.join(home, str(place))
        try:
            with open(path) as file:
                value = json.load(file)
        except FileNotFoundError:
            value = function(value, f"{run}:{name}")
            save(path, value)
    return value


def save(path, value):
    with open(path + ".new", "w") as file:
        json.dump(value, file)
    os.replace(path + ".new", path)


def pipeline(steps, run, folder, path=None, key=None, put=save, is_done=os.path.exists):
    value = None
    for name, function in steps:
        file = path(name) if path else os.path.join(folder, f"{run}-{name}.json")
        if is_done(file):
            with open(file) as saved:
                value = json.load(saved)
        else:
            value = function(value, key(name, value) if key else f"{run}-{name}")
            put(file, value)
    return value


@rejects("durable_pipeline")
def no_checkpoints(steps, run, folder):
    return pipeline(steps, run, folder, put=lambda path, value: None)


@rejects("durable_pipeline")
def writes_in_place(steps, run, folder):
    def put(path, value):
        with open(path, "w") as file:
            json.dump(value, file)

    return pipeline(steps, run, folder, put=put)


@rejects("durable_pipeline")
def renames_before_the_file_is_closed(steps, run, folder):
    def put(path, value):
        with open(path + ".new", "w") as file:
            json.dump(value, file)
            os.replace(path + ".new", path)

    return pipeline(steps, run, folder, put=put)


@rejects("durable_pipeline")
def takes_a_torn_file_for_none(steps, run, folder):
    value = None
    for name, function in steps:
        path = os.path.join(folder, f"{run}-{name}.json")
        if os.path.exists(path):
            with open(path) as file:
                value = json.loads(file.read() or "null")
        else:
            value = function(value, f"{run}-{name}")
            with open(path, "w") as file:
                json.dump(value, file)
    return value


@rejects("durable_pipeline")
def a_new_key_at_every_attempt(steps, run, folder):
    return pipeline(steps, run, folder, key=lambda name, value: uuid.uuid4().hex)


@rejects("durable_pipeline")
def the_same_key_for_every_step(steps, run, folder):
    return pipeline(steps, run, folder, key=lambda name, value: run)


@rejects("durable_pipeline")
def the_same_key_for_every_run(steps, run, folder):
    return pipeline(steps, run, folder, key=lambda name, value: name)


@rejects("durable_pipeline")
def the_process_is_part_of_the_key(steps, run, folder):
    return pipeline(steps, run, folder, key=lambda name, value: f"{run}-{name}-{os.getpid()}")


@rejects("durable_pipeline")
def the_hash_of_a_text_as_key(steps, run, folder):
    return pipeline(steps, run, folder, key=lambda name, value: str(hash((run, name))))


@rejects("durable_pipeline")
def no_gap_between_run_and_step(steps, run, folder):
    return pipeline(steps, run, folder, key=lambda name, value: f"{run}{name}")


@rejects("durable_pipeline")
def files_and_keys_without_a_gap(steps, run, folder):
    path, key = (lambda name: os.path.join(folder, run + name)), (lambda name, value: run + name)
    return pipeline(steps, run, folder, path=path, key=key)


@rejects("durable_pipeline")
def tries_a_step_until_it_works(steps, run, folder):
    def stubborn(function):
        def call(value, key):
            while True:
                try:
                    return function(value, key)
                except Exception:
                    pass

        return call

    return pipeline([(name, stubborn(function)) for name, function in steps], run, folder)


@rejects("durable_pipeline")
def files_without_the_run(steps, run, folder):
    return pipeline(steps, run, folder, path=lambda name: os.path.join(folder, name))


@rejects("durable_pipeline")
def one_file_for_the_last_result(steps, run, folder):
    return pipeline(steps, run, folder, path=lambda name: os.path.join(folder, run))


@rejects("durable_pipeline")
def takes_none_and_zero_for_missing(steps, run, folder):
    def is_done(path):
        if not os.path.exists(path):
            return False
        with open(path) as file:
            return bool(json.load(file))

    return pipeline(steps, run, folder, is_done=is_done)


@rejects("durable_pipeline")
def marks_a_step_before_it_acts(steps, run, folder):
    value = None
    for name, function in steps:
        path = os.path.join(folder, f"{run}-{name}.json")
        if os.path.exists(path):
            with open(path) as file:
                value = json.load(file)
        else:
            save(path, None)
            value = function(value, f"{run}-{name}")
            save(path, value)
    return value


@rejects("durable_pipeline")
def saves_all_at_the_end(steps, run, folder):
    path, value = os.path.join(folder, f"{run}.json"), None
    if os.path.exists(path):
        with open(path) as file:
            return json.load(file)
    for name, function in steps:
        value = function(value, f"{run}-{name}")
    save(path, value)
    return value


@rejects("durable_pipeline")
def saves_text_instead_of_values(steps, run, folder):
    return pipeline(steps, run, folder, put=lambda path, value: save(path, str(value)))


@rejects("durable_pipeline")
def goes_on_after_an_error(steps, run, folder):
    def careful(function):
        def call(value, key):
            try:
                return function(value, key)
            except ConnectionError:
                return None

        return call

    return pipeline([(name, careful(function)) for name, function in steps], run, folder)


@rejects("durable_pipeline")
def forgets_the_value_of_a_step_that_was_done(steps, run, folder):
    value = None
    for name, function in steps:
        path = os.path.join(folder, f"{run}-{name}.json")
        if not os.path.exists(path):
            value = function(value, f"{run}-{name}")
            save(path, value)
    return value
