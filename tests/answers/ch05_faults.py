"""Right and wrong answers of chapter 5."""

import atexit
import json
import os
import sqlite3
import tempfile
import time
from pathlib import Path

import numpy as np
import ray
import torch
from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError, WorkerCrashedError

from tests.answers import accepts, rejects

RAY = {"num_cpus": 4}


def name_of(error):
    return type(getattr(error, "cause", None) or error).__name__


@accepts("survivors")
def catches_the_error_inside_the_task(function, xs):
    @ray.remote(max_retries=0)
    def attempt(x):
        try:
            return "result", function(x)
        except Exception as error:
            return "error", type(error).__name__

    parts = {"result": {}, "error": {}}
    for x, ref in [(x, attempt.remote(x)) for x in xs]:
        try:
            kind, value = ray.get(ref)
            parts[kind][x] = value
        except WorkerCrashedError:
            parts["error"][x] = "WorkerCrashedError"
    return parts["result"], parts["error"]


@accepts("survivors")
def as_they_end(function, xs):
    task, results, errors = ray.remote(max_retries=0)(function), {}, {}
    pending = {task.remote(x): x for x in xs}
    while pending:
        (ref,), _ = ray.wait(list(pending))
        x = pending.pop(ref)
        try:
            results[x] = ray.get(ref)
        except RayError as error:
            errors[x] = name_of(error)
    return results, errors


@accepts("resilient_call")
def an_actor_that_is_killed(function, x, attempts, seconds):
    @ray.remote(num_cpus=1)
    class Caller:
        def call(self, x):
            return function(x)

    for _ in range(attempts):
        caller = Caller.remote()
        try:
            return ray.get(caller.call.remote(x), timeout=seconds)
        except RayTaskError:
            raise
        except (RayActorError, GetTimeoutError) as error:
            ray.kill(caller)
            last = error
    raise last


@rejects("survivors", says="One of the calls failed with KeyError")
def the_first_failure_sinks_all(function, xs):
    task = ray.remote(function).options(max_retries=0)
    return dict(zip(xs, ray.get([task.remote(x) for x in xs]), strict=True)), {}


@rejects("survivors", says="The errors say nothing about")
def swallows_the_exceptions(function, xs):
    results, _ = as_they_end(function, xs)
    return results, {}


@rejects("survivors")
def failures_become_none(function, xs):
    results, errors = as_they_end(function, xs)
    return {x: results.get(x) for x in xs}, errors


@rejects("survivors")
def drops_values_that_count_as_false(function, xs):
    results, errors = as_they_end(function, xs)
    return {x: value for x, value in results.items() if value}, errors


@rejects("survivors")
def takes_none_for_a_failure(function, xs):
    results, errors = as_they_end(function, xs)
    nothing = {x: "NoneType" for x, value in results.items() if value is None}
    return {x: value for x, value in results.items() if x not in nothing}, errors | nothing


@rejects("survivors", says="the errors say")
def keeps_the_text_of_the_error(function, xs):
    task, results, errors = ray.remote(function).options(max_retries=0), {}, {}
    for x, ref in [(x, task.remote(x)) for x in xs]:
        try:
            results[x] = ray.get(ref)
        except RayError as error:
            errors[x] = repr(getattr(error, "cause", error))
    return results, errors


@rejects("survivors", says="One of the calls failed with WorkerCrashedError")
def forgets_that_processes_die(function, xs):
    task, results, errors = ray.remote(function).options(max_retries=0), {}, {}
    for x, ref in [(x, task.remote(x)) for x in xs]:
        try:
            results[x] = ray.get(ref)
        except RayTaskError as error:
            errors[x] = name_of(error)
    return results, errors


@rejects("survivors")
def names_the_wrapper(function, xs):
    task, results, errors = ray.remote(function).options(max_retries=0), {}, {}
    for x, ref in [(x, task.remote(x)) for x in xs]:
        try:
            results[x] = ray.get(ref)
        except RayError as error:
            errors[x] = type(error).__name__
    return results, errors


@rejects("survivors")
def lets_ray_try_again(function, xs):
    task, results, errors = ray.remote(function), {}, {}
    for x, ref in [(x, task.remote(x)) for x in xs]:
        try:
            results[x] = ray.get(ref)
        except RayError as error:
            errors[x] = name_of(error)
    return results, errors


@rejects("survivors")
def one_after_the_other(function, xs):
    task, results, errors = ray.remote(function).options(max_retries=0), {}, {}
    for x in xs:
        try:
            results[x] = ray.get(task.remote(x))
        except RayError as error:
            errors[x] = name_of(error)
    return results, errors


@rejects("survivors", says="in your notebook's process")
def calls_it_here(function, xs):
    results, errors = {}, {}
    for x in xs:
        try:
            results[x] = function(x)
        except (KeyError, ValueError) as error:
            errors[x] = name_of(error)
    return results, errors


def loop(function, x, attempts, seconds, again=(WorkerCrashedError, GetTimeoutError), cancel=True, max_retries=0):
    task, last = ray.remote(function).options(max_retries=max_retries), None
    for _ in range(attempts):
        ref = task.remote(x)
        try:
            return ray.get(ref, timeout=seconds)
        except RayTaskError as error:  # the function itself raised it, whatever else it is
            if again is not Exception:
                raise
            last = error
        except again as error:
            last = error
            if cancel and isinstance(
                error, GetTimeoutError
            ):  # cancelling a task that has just raised can end the driver
                ray.cancel(ref, force=True)
    raise last


@accepts("resilient_call")
def waits_then_gets(function, x, attempts, seconds):
    ref = ray.remote(function).options(max_retries=0).remote(x)
    ready, _ = ray.wait([ref], timeout=seconds)
    try:
        if ready:
            return ray.get(ref)
        ray.cancel(ref, force=True)
        raise GetTimeoutError("too long")
    except RayTaskError:
        raise
    except (WorkerCrashedError, GetTimeoutError):
        if attempts == 1:
            raise
    return waits_then_gets(function, x, attempts - 1, seconds)


@accepts("resilient_call")
def waits_without_an_exception(function, x, attempts, seconds):
    task, last = ray.remote(function).options(max_retries=0), None
    for _ in range(attempts):
        ref = task.remote(x)
        ready, _ = ray.wait([ref], timeout=seconds)
        if not ready:
            ray.cancel(ref, force=True)
            last = TimeoutError(f"nothing after {seconds} s")
            continue
        try:
            return ray.get(ref)
        except WorkerCrashedError as error:
            if isinstance(error, RayTaskError):
                raise
            last = error
    raise last


@accepts("resilient_call")
def cancels_gently(function, x, attempts, seconds):
    for left in reversed(range(attempts)):
        ref = ray.remote(function).options(max_retries=0).remote(x)
        try:
            return ray.get(ref, timeout=seconds)
        except GetTimeoutError:
            ray.cancel(ref)
            if not left:
                raise
        except WorkerCrashedError as error:
            if not left or isinstance(error, RayTaskError):
                raise
    return None


@accepts("resilient_call")
def raises_the_original_exception(function, x, attempts, seconds):
    task, failure = ray.remote(function).options(max_retries=0), None
    for _ in range(attempts):
        ref = task.remote(x)
        try:
            return ray.get(ref, timeout=seconds)
        except RayTaskError as error:
            raise error.cause from None
        except (WorkerCrashedError, GetTimeoutError) as error:
            failure = error
            if isinstance(error, GetTimeoutError):
                ray.cancel(ref, force=True)
    raise failure


@rejects("resilient_call")
def takes_an_error_of_rays_for_a_death(function, x, attempts, seconds):
    for left in reversed(range(attempts)):
        ref = ray.remote(function).options(max_retries=0).remote(x)
        try:
            return ray.get(ref, timeout=seconds)
        except GetTimeoutError:
            ray.cancel(ref, force=True)
            if not left:
                raise
        except WorkerCrashedError:
            if not left:
                raise
    return None


@rejects("resilient_call")
def one_deadline_for_all_attempts(function, x, attempts, seconds):
    end = time.monotonic() + seconds
    for left in reversed(range(attempts)):
        ref = ray.remote(function).options(max_retries=0).remote(x)
        try:
            return ray.get(ref, timeout=max(0.0, end - time.monotonic()))
        except RayTaskError:
            raise
        except GetTimeoutError:
            ray.cancel(ref, force=True)
            if not left:
                raise
        except WorkerCrashedError:
            if not left:
                raise
    return None


@rejects("resilient_call")
def leaves_it_to_max_retries(function, x, attempts, seconds):
    ref = ray.remote(function).options(max_retries=attempts - 1).remote(x)
    try:
        return ray.get(ref, timeout=seconds)
    except GetTimeoutError:
        ray.cancel(ref, force=True)
        raise


@rejects("resilient_call")
def retries_mistakes_in_the_code_too(function, x, attempts, seconds):
    return loop(function, x, attempts, seconds, again=Exception)


@rejects("resilient_call")
def lets_ray_retry_inside_the_loop(function, x, attempts, seconds):
    return loop(function, x, attempts, seconds, max_retries=3)


@rejects("resilient_call")
def one_attempt_too_many(function, x, attempts, seconds):
    return loop(function, x, attempts + 1, seconds)


@rejects("resilient_call")
def swallows_the_last_error(function, x, attempts, seconds):
    try:
        return loop(function, x, attempts, seconds)
    except (WorkerCrashedError, GetTimeoutError):
        return None


@rejects("resilient_call")
def swallows_every_exception(function, x, attempts, seconds):
    try:
        return loop(function, x, attempts, seconds)
    except Exception:
        return None


@rejects("resilient_call")
def forgets_to_cancel(function, x, attempts, seconds):
    return loop(function, x, attempts, seconds, cancel=False)


@rejects("resilient_call")
def waits_forever(function, x, attempts, seconds):
    return loop(function, x, attempts, None)


@rejects("resilient_call")
def forgets_that_processes_die_here(function, x, attempts, seconds):
    return loop(function, x, attempts, seconds, again=GetTimeoutError)


@accepts("Ledger")
class KeepsTwoDicts:
    def __init__(self):
        self.amounts, self.answers = {}, {}

    def deposit(self, key, amount):
        self.amounts.setdefault(key, amount)
        return self.answers.setdefault(key, self.balance())

    def balance(self):
        return sum(self.amounts.values())


class Forgetful:
    def __init__(self):
        self.total, self.seen, self.last = 0, {}, None

    def balance(self):
        return self.total

    def add(self, key, amount):
        self.total += amount
        self.seen[key], self.last = self.total, key
        return self.total


@rejects("Ledger", says="payments add up to")
class CountsEveryCall(Forgetful):
    def deposit(self, key, amount):
        return self.add(key, amount)


@rejects("Ledger")
class TakesTheSameAmountForARepeat(Forgetful):
    def deposit(self, key, amount):
        return self.seen[amount] if amount in self.seen else self.add(amount, amount)


@rejects("Ledger")
class AnswersWithTodaysBalance(Forgetful):
    def deposit(self, key, amount):
        return self.total if key in self.seen else self.add(key, amount)


@rejects("Ledger")
class HasNoAnswerForARepeat(Forgetful):
    def deposit(self, key, amount):
        return None if key in self.seen else self.add(key, amount)


@rejects("Ledger")
class TakesTheAnswerZeroForNone(Forgetful):
    def deposit(self, key, amount):
        return self.seen.get(key) or self.add(key, amount)


@rejects("Ledger", says="knew a key of the first")
class SharesItsKeysWithAllLedgers(Forgetful):
    answers = {}

    def deposit(self, key, amount):
        if key not in self.answers:
            self.answers[key] = self.add(key, amount)
        return self.answers[key]


@rejects("Ledger")
class HidesTheMethodBalance:
    def __init__(self):
        self.balance, self.answers = 0, {}

    def deposit(self, key, amount):
        if key not in self.answers:
            self.balance += amount
            self.answers[key] = self.balance
        return self.answers[key]

    def balance(self):
        return self.balance


@rejects("Ledger")
class ComplainsAboutARepeat(Forgetful):
    def deposit(self, key, amount):
        if key in self.seen:
            raise ValueError(f"{key} has been paid")
        return self.add(key, amount)


@accepts("CheckpointedCounter")
class KeepsAJournal:
    def __init__(self, path):
        self.path = Path(path)

    def add(self, n):
        with self.path.open("a") as file:
            file.write(f"{n}\n")
        return sum(map(int, self.path.read_text().split()))


@accepts("CheckpointedCounter")
class RenamesWithPathlib:
    def __init__(self, path):
        self.path = Path(path)
        self.total = int(self.path.read_text()) if self.path.exists() else 0

    def add(self, n):
        self.total += n
        new = self.path.with_suffix(".new")
        new.write_text(str(self.total))
        new.replace(self.path)
        return self.total


@accepts("CheckpointedCounter")
class LeavesItToADatabase:
    def __init__(self, path):
        self.rows = sqlite3.connect(path)
        with self.rows:
            self.rows.execute("CREATE TABLE IF NOT EXISTS steps (n INTEGER)")

    def add(self, n):
        with self.rows:  # one transaction: all of it, or nothing
            self.rows.execute("INSERT INTO steps VALUES (?)", (n,))
        return self.rows.execute("SELECT sum(n) FROM steps").fetchone()[0]


class Counts:
    def __init__(self, path):
        self.path, self.total = path, 0
        if os.path.exists(path):
            with open(path) as file:
                self.total = json.load(file)

    def add(self, n):
        self.total += n
        self.save()
        return self.total

    def save(self):
        with open(f"{self.path}.new", "w") as file:
            json.dump(self.total, file)
        os.replace(f"{self.path}.new", self.path)


@rejects("CheckpointedCounter")
class NeverLoads(Counts):
    def __init__(self, path):
        self.path, self.total = path, 0


@rejects("CheckpointedCounter")
class SavesWhenTheProcessEnds(Counts):
    def __init__(self, path):
        super().__init__(path)
        atexit.register(super().save)

    def save(self):
        pass


@rejects("CheckpointedCounter")
class SavesBeforeItAdds(Counts):
    def add(self, n):
        self.save()
        self.total += n
        return self.total


@rejects("CheckpointedCounter")
class WritesInPlace(Counts):
    def save(self):
        with open(self.path, "w") as file:
            json.dump(self.total, file)


@accepts("CheckpointedCounter")
class SavesWithTorchAndRenames(Counts):
    def __init__(self, path):
        self.path, self.total = path, 0
        if os.path.exists(path):
            self.total = torch.load(path)

    def save(self):
        torch.save(self.total, f"{self.path}.new")
        os.replace(f"{self.path}.new", self.path)


@rejects("CheckpointedCounter")
class StartsAgainAtZeroAfterATornWrite(WritesInPlace):
    def __init__(self, path):
        try:
            super().__init__(path)
        except json.JSONDecodeError:
            self.path, self.total = path, 0


@rejects("CheckpointedCounter")
class RemovesTheOldFileFirst(Counts):
    def save(self):
        with open(f"{self.path}.new", "w") as file:
            json.dump(self.total, file)
        if os.path.exists(self.path):
            os.remove(self.path)
        os.rename(f"{self.path}.new", self.path)


@rejects("CheckpointedCounter")
class RenamesBeforeTheFileIsClosed(Counts):
    def save(self):
        with open(f"{self.path}.new", "w") as file:
            json.dump(self.total, file)
            os.replace(f"{self.path}.new", self.path)


@rejects("CheckpointedCounter")
class RenamesFromAnotherFolder(Counts):
    def save(self):
        with tempfile.NamedTemporaryFile("w", delete=False) as file:
            json.dump(self.total, file)
        os.replace(file.name, self.path)


@rejects("CheckpointedCounter")
class LoadsTheUnfinishedFile(Counts):
    def __init__(self, path):
        super().__init__(path)
        if os.path.exists(f"{path}.new"):
            self.total = json.loads(Path(f"{path}.new").read_text())


@rejects("CheckpointedCounter")
class ForgetsThePath(Counts):
    def __init__(self, path):
        super().__init__(os.path.join(os.path.dirname(path), "total.json"))


def pool(new_sampler, samplers, seeds, most=3, replace=True, keep=True, deadly=RayActorError):
    todo, deaths, fragments, pending = list(seeds), {}, {}, {}
    free = [new_sampler() for _ in range(samplers)]
    while todo or pending:
        while todo and free:
            seed, sampler = todo.pop(0), free.pop()
            pending[sampler.sample.remote(seed)] = (sampler, seed)
        if not pending:
            break
        (ref,), _ = ray.wait(list(pending))
        sampler, seed = pending.pop(ref)
        try:
            fragments[seed] = ray.get(ref)
            free.append(sampler)
        except deadly as error:
            deaths[seed] = deaths.get(seed, 0) + 1
            if deaths[seed] == most or (deadly is RayActorError and isinstance(error, RayTaskError)):
                raise
            if keep:
                todo.append(seed)
            if replace:
                free.append(new_sampler())
    return fragments


@accepts("collect")
def puts_the_lost_seed_last(new_sampler, samplers, seeds):
    fragments = pool(new_sampler, samplers, seeds)
    return [fragments[seed] for seed in seeds]


@accepts("collect")
def returns_an_array(new_sampler, samplers, seeds):
    return np.array(puts_the_lost_seed_last(new_sampler, samplers, seeds))


@accepts("collect")
def repeats_on_the_new_sampler_at_once(new_sampler, samplers, seeds):
    todo, pending, fragments, deaths = iter(seeds), {}, {}, dict.fromkeys(seeds, 0)
    for _, seed in zip(range(samplers), todo, strict=False):
        sampler = new_sampler()
        pending[sampler.sample.remote(seed)] = sampler, seed
    while pending:
        (ref,), _ = ray.wait(list(pending))
        sampler, seed = pending.pop(ref)
        try:
            fragments[seed] = ray.get(ref)
            seed = next(todo, None)
        except RayTaskError:
            raise
        except RayActorError:
            deaths[seed] += 1
            if deaths[seed] == 3:
                raise
            sampler = new_sampler()
        if seed is not None:
            pending[sampler.sample.remote(seed)] = sampler, seed
    return [fragments[seed] for seed in seeds]


@rejects("collect")
def a_death_sinks_all(new_sampler, samplers, seeds):
    members = [new_sampler() for _ in range(samplers)]
    return ray.get([members[place % samplers].sample.remote(seed) for place, seed in enumerate(seeds)])


@rejects("collect")
def goes_on_with_fewer(new_sampler, samplers, seeds):
    fragments = pool(new_sampler, samplers, seeds, replace=False)
    return [fragments.get(seed) for seed in seeds]


@rejects("collect")
def loses_the_fragment(new_sampler, samplers, seeds):
    fragments = pool(new_sampler, samplers, seeds, keep=False)
    return [fragments[seed] for seed in seeds if seed in fragments]


@rejects("collect")
def in_the_order_of_the_ends(new_sampler, samplers, seeds):
    return list(pool(new_sampler, samplers, seeds).values())


@rejects("collect")
def tries_forever(new_sampler, samplers, seeds):
    fragments = pool(new_sampler, samplers, seeds, most=1000)
    return [fragments[seed] for seed in seeds]


@rejects("collect")
def gives_up_after_two(new_sampler, samplers, seeds):
    fragments = pool(new_sampler, samplers, seeds, most=2)
    return [fragments[seed] for seed in seeds]


@rejects("collect")
def one_at_a_time(new_sampler, samplers, seeds):
    fragments = pool(new_sampler, 1, seeds)
    return [fragments[seed] for seed in seeds]


@rejects("collect")
def a_new_sampler_for_every_seed(new_sampler, samplers, seeds):
    fragments, pending, todo = {}, {}, list(seeds)
    while todo or pending:
        while todo and len(pending) < samplers:
            sampler, seed = new_sampler(), todo.pop(0)
            pending[sampler.sample.remote(seed)] = sampler, seed
        (ref,), _ = ray.wait(list(pending))
        _, seed = pending.pop(ref)
        try:
            fragments[seed] = ray.get(ref)
        except RayActorError:
            todo.append(seed)
    return [fragments[seed] for seed in seeds]


@rejects("collect")
def takes_an_error_that_was_raised_for_a_death(new_sampler, samplers, seeds):
    fragments = pool(new_sampler, samplers, seeds, deadly=(RayActorError,))
    return [fragments[seed] for seed in seeds]
