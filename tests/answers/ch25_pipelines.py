"""Right and wrong answers of chapter 25."""

import fcntl
import json
import os
import pathlib
import pickle
import shutil
import sqlite3
import tempfile
import uuid
from collections import Counter

import numpy as np
import pandas

from tests.answers import accepts, rejects


def word_of(least, most):
    if least == 1:
        return "exactly once" if most == 1 else "at least once"
    if least > 1:
        return "at least once"
    return "at most once" if most <= 1 else "none"


@accepts("delivery_guarantee")
def least_and_most(orders, effects):
    counts = [effects.count(order) for order in orders]
    return word_of(min(counts), max(counts))


@accepts("delivery_guarantee")
def with_sets(orders, effects):
    lost, doubled = set(orders) - set(effects), len(effects) > len(set(effects))
    return {(0, 0): "exactly once", (1, 0): "at most once", (0, 1): "at least once", (1, 1): "none"}[
        bool(lost), doubled
    ]


@rejects("delivery_guarantee")
def compares_the_totals(orders, effects):
    if len(orders) == len(effects):
        return "exactly once"
    return "at most once" if len(effects) < len(orders) else "at least once"


@rejects("delivery_guarantee")
def looks_only_at_what_came(orders, effects):
    counts = Counter(effects).values()
    return word_of(min(counts, default=0), max(counts, default=0))


@rejects("delivery_guarantee")
def compares_the_lists(orders, effects):
    return "exactly once" if orders == effects else with_sets(orders, effects).replace("exactly", "at most")


@rejects("delivery_guarantee")
def nothing_is_lost_when_one_comes_twice(orders, effects):
    counts = [effects.count(order) for order in orders]
    return "at least once" if max(counts) > 1 else word_of(min(counts), max(counts))


@rejects("delivery_guarantee", says="is not one of")
def says_it_with_hyphens(orders, effects):
    return with_sets(orders, effects).replace(" ", "-")


@rejects("delivery_guarantee")
def looks_at_single_orders_only_if_the_totals_agree(orders, effects):
    if len(effects) != len(orders):
        return "at most once" if len(effects) < len(orders) else "at least once"
    return "exactly once" if set(effects) == set(orders) else "none"


@rejects("delivery_guarantee")
def at_least_once_needs_an_order_with_exactly_one(orders, effects):
    counts = [effects.count(order) for order in orders]
    if min(counts) == 1:
        return "exactly once" if max(counts) == 1 else "at least once"
    return "at most once" if max(counts) <= 1 else "none"


def entries_of(path):
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return json.load(file)


@accepts("publish_once")
def with_pathlib(path, key, policy):
    path = pathlib.Path(path)
    entries = json.loads(path.read_text()) if path.exists() else []
    known = {entry["key"]: entry["version"] for entry in entries}
    if key not in known:
        known[key] = len(entries) + 1
        entries.append({"policy": policy, "key": key, "version": known[key]})
        new = path.with_suffix(".new")
        new.write_text(json.dumps(entries))
        new.replace(path)
    return known[key]


@accepts("publish_once")
def with_a_temporary_file_and_fsync(path, key, policy):
    try:
        with open(path) as file:
            entries = json.load(file)
    except FileNotFoundError:
        entries = []
    for entry in entries:
        if entry["key"] == key:
            return entry["version"]
    entries += [{"key": key, "version": len(entries) + 1, "policy": policy, "note": "added"}]
    with tempfile.NamedTemporaryFile("w", dir=os.path.dirname(path), delete=False) as file:
        json.dump(entries, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    os.rename(file.name, path)
    return len(entries)


def publish(path, key, policy, put=None, same=lambda entry, key, policy: entry["key"] == key, answer=None):
    entries = entries_of(path)
    for entry in entries:
        if same(entry, key, policy):
            return answer(entries) if answer else entry["version"]
    entries.append({"key": key, "version": len(entries) + 1, "policy": policy})
    (put or save)(path, entries)
    return len(entries)


def save_in_place(path, value):
    with open(path, "w") as file:
        json.dump(value, file)


@rejects("publish_once")
def writes_the_registry_in_place(path, key, policy):
    return publish(path, key, policy, put=save_in_place)


@rejects("publish_once")
def does_not_look_at_the_key(path, key, policy):
    return publish(path, key, policy, same=lambda entry, key, policy: False)


@rejects("publish_once")
def looks_at_the_policy_instead_of_the_key(path, key, policy):
    return publish(path, key, policy, same=lambda entry, key, policy: entry["policy"] == policy)


@rejects("publish_once", says="has the policy")
def overwrites_the_policy_of_a_key_that_came_before(path, key, policy):
    entries = entries_of(path)
    by_key = {entry["key"]: entry for entry in entries}
    version = by_key[key]["version"] if key in by_key else len(entries) + 1
    by_key[key] = {"key": key, "version": version, "policy": policy}
    save(path, list(by_key.values()))
    return version


@rejects("publish_once", says="from first to last")
def puts_the_latest_version_first(path, key, policy):
    entries = entries_of(path)
    for entry in entries:
        if entry["key"] == key:
            return entry["version"]
    save(path, [{"key": key, "version": len(entries) + 1, "policy": policy}, *entries])
    return len(entries) + 1


@rejects("publish_once")
def answers_with_the_newest_version(path, key, policy):
    return publish(path, key, policy, answer=len)


@rejects("publish_once")
def keeps_the_keys_in_another_file(path, key, policy):
    keys, entries = entries_of(path + ".keys"), entries_of(path)
    if key in keys:
        return keys.index(key) + 1
    entries.append({"key": key, "version": len(entries) + 1, "policy": policy})
    save(path, entries)
    save(path + ".keys", [*keys, key])
    return len(entries)


@rejects("publish_once")
def remembers_in_memory(path, key, policy, known={}):  # noqa: B006
    if key not in known:
        known[key] = publish(path, key, policy, same=lambda entry, key, policy: False)
    return known[key]


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
            done[name] = function(value, json.dumps([run, name]))
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
def a_new_key_at_every_attempt(steps, run, folder):
    return pipeline(steps, run, folder, key=lambda name, value: uuid.uuid4().hex)


@rejects("durable_pipeline", says="should be a string")
def a_tuple_as_key(steps, run, folder):
    return pipeline(steps, run, folder, key=lambda name, value: (run, name))


@rejects("durable_pipeline")
def the_same_key_for_every_run(steps, run, folder):
    return pipeline(steps, run, folder, key=lambda name, value: name)


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


@rejects("durable_pipeline", says="never called in this run")
def finds_files_of_runs_with_longer_names(steps, run, folder):
    found = {path.name.partition("-")[2]: str(path) for path in pathlib.Path(folder).glob(f"{run}*")}
    return pipeline(steps, run, folder, path=lambda name: found.get(name, os.path.join(folder, f"{run}-{name}")))


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


@accepts("publish_once")
def versions_from_the_newest_and_a_lock(path, key, policy):
    with open(f"{path}.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        entries = entries_of(path)
        found = next((entry for entry in entries if entry["key"] == key), None)
        if found is None:
            newest = max((entry["version"] for entry in entries), default=0)
            found = {"version": newest + 1, "key": key, "policy": policy}
            save(path, [*entries, found])
    return found["version"]


@accepts("publish_once")
def with_descriptors(path, key, policy):
    entries = entries_of(path)
    by_key = {entry["key"]: entry for entry in entries}
    entry = by_key.setdefault(key, {"key": key, "policy": policy, "version": len(entries) + 1})
    file = os.open(path + "~", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.write(file, json.dumps(list(by_key.values())).encode())
    os.close(file)
    shutil.move(path + "~", path)
    return entry["version"]


@rejects("publish_once", says="FileExistsError")
def stumbles_over_the_file_of_the_dead(path, key, policy):
    def put(path, value):
        with open(path + ".new", "x") as file:
            json.dump(value, file)
        os.replace(path + ".new", path)

    return publish(path, key, policy, put=put)


@rejects("publish_once")
def takes_the_old_registry_away_first(path, key, policy):
    def put(path, value):
        with open(path + ".new", "w") as file:
            json.dump(value, file)
        if os.path.exists(path):
            os.remove(path)
        os.rename(path + ".new", path)

    return publish(path, key, policy, put=put)


@accepts("durable_pipeline")
def one_file_of_results_for_each_run(steps, run, folder):
    path = pathlib.Path(folder, f"{run}.results")
    done, value = json.loads(path.read_text()) if path.exists() else {}, None
    for name, function in steps:
        if name not in done:
            done[name] = function(value, f"{run} {name}")
            save(str(path), done)
        value = done[name]
    return value


@accepts("durable_pipeline")
def from_the_last_step_back(steps, run, folder):
    *before, (name, function) = steps
    path = pathlib.Path(folder, f"{len(before)} {run}.pickle")
    if not path.exists():
        value = from_the_last_step_back(before, run, folder) if before else None
        with tempfile.NamedTemporaryFile("wb", dir=folder, delete=False) as file:
            pickle.dump(function(value, f"{run}-{len(before)}"), file)
        os.link(file.name, path)
        os.unlink(file.name)
    return pickle.loads(path.read_bytes())


@accepts("delivery_guarantee")
def with_pandas(orders, effects):
    counts = pandas.Series(effects, dtype=object).value_counts().reindex(orders, fill_value=0)
    return np.select(
        [(counts == 1).all(), (counts <= 1).all(), (counts >= 1).all()],
        ["exactly once", "at most once", "at least once"],
        "none",
    ).item()


@accepts("delivery_guarantee")
def crosses_them_off(orders, effects):
    left, doubled = list(orders), False
    for effect in effects:
        if effect in left:
            left.remove(effect)
        else:
            doubled = True
    if doubled:
        return "none" if left else "at least once"
    return "at most once" if left else "exactly once"


@accepts("delivery_guarantee")
def subtracts_the_orders(orders, effects):
    left = Counter(effects)
    left.subtract(orders)
    lost, duplicated = min(left.values()) < 0, max(left.values()) > 0
    return ("none" if lost else "at least once") if duplicated else ("at most once" if lost else "exactly once")


@rejects("delivery_guarantee")
def takes_silence_for_none(orders, effects):
    return least_and_most(orders, effects) if effects else "none"


@accepts("publish_once")
def edits_a_copy(path, key, policy):
    copy = path + ".copy"
    if os.path.exists(path):
        shutil.copyfile(path, copy)
    else:
        pathlib.Path(copy).write_text("[]")
    with open(copy, "r+") as file:
        entries = json.load(file)
        version = next((entry["version"] for entry in entries if entry["key"] == key), None)
        if version is not None:
            return version
        entries.append({"key": key, "version": len(entries) + 1, "policy": policy})
        file.seek(0)
        json.dump(entries, file)
        file.truncate()
    os.rename(copy, path)
    return len(entries)
