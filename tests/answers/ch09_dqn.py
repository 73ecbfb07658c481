"""Right and wrong answers of chapter 9."""

import copy
import functools
import os
import random
import time
from collections import deque
from functools import partial
from types import SimpleNamespace

import numpy as np
import ray

from coursekit.author.definitions import definitions
from coursekit.given.ch09_dqn import Adam, Sampler, cartpoles, fresh_theta
from tests.answers import accepts, rejects

RAY = {"num_cpus": 4}
FLAT = ("obs", "actions", "rewards", "terminated", "truncated")


@functools.cache
def chapter() -> SimpleNamespace:
    """Return what the solved notebook defines."""
    return SimpleNamespace(**definitions("ch09_dqn"))


@accepts("ReplayBuffer")
class KeepsADeque:
    def __init__(self, capacity, seed):
        self.rows, self.rng = deque(maxlen=capacity), np.random.default_rng(seed)

    def transitions(self, fragment):
        later = [*fragment["obs"][1:], fragment["last_obs"]]
        for t in range(len(later)):
            for n in np.nonzero(fragment["real"][t])[0]:
                yield {name: fragment[name][t, n] for name in FLAT} | {"next_obs": later[t][n]}

    def add(self, fragment):
        self.rows.extend(self.transitions(fragment))

    def sample(self, size):
        rows = [self.rows[i] for i in self.rng.integers(len(self.rows), size=size)]
        return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


@rejects("ReplayBuffer")
class CountsResetsAsExperience(KeepsADeque):
    def add(self, fragment):
        super().add({**fragment, "real": np.ones_like(fragment["real"])})


@rejects("ReplayBuffer")
class ThrowsResetsAwayBeforeTheShift(KeepsADeque):
    def transitions(self, fragment):
        for n in range(fragment["real"].shape[1]):
            real = fragment["real"][:, n]
            rows = {name: fragment[name][real, n] for name in FLAT}
            later = [*rows["obs"][1:], fragment["last_obs"][n]]
            for t in range(len(later)):
                yield {name: column[t] for name, column in rows.items()} | {"next_obs": later[t]}


@rejects("ReplayBuffer")
class HasOneFlagForBothEnds(KeepsADeque):
    def add(self, fragment):
        super().add({**fragment, "terminated": fragment["terminated"] | fragment["truncated"]})


@rejects("ReplayBuffer")
class NeverForgets(KeepsADeque):
    def __init__(self, capacity, seed):
        super().__init__(None, seed)


class Ring:
    """Our solution, with places that a mistake may choose."""

    def __init__(self, capacity, seed):
        self.capacity, self.rng, self.columns, self.added = capacity, np.random.default_rng(seed), {}, 0

    def add(self, fragment):
        rows = list(KeepsADeque.transitions(self, fragment))
        columns = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
        if not self.columns:
            self.columns = {k: np.zeros((self.capacity, *v.shape[1:]), v.dtype) for k, v in columns.items()}
        self.store(columns, len(rows))

    def store(self, columns, count):
        places = (self.added + np.arange(count)) % self.capacity
        for name, column in columns.items():
            self.columns[name][places] = column
        self.added += count

    def held(self):
        return min(self.added, self.capacity)

    def sample(self, size):
        chosen = self.rng.integers(self.held(), size=size)
        return {name: column[chosen] for name, column in self.columns.items()}


@rejects("ReplayBuffer", says="same seed returned different samples")
class IgnoresItsSeed(Ring):
    def __init__(self, capacity, seed):
        super().__init__(capacity, None)


@rejects("ReplayBuffer", says="same seed returned different samples")
class SeedsTheGlobalGenerator(Ring):
    def __init__(self, capacity, seed):
        super().__init__(capacity, seed)
        np.random.seed(seed)

    def sample(self, size):
        chosen = np.random.randint(self.held(), size=size)
        return {name: column[chosen] for name, column in self.columns.items()}


@rejects("ReplayBuffer", says="different seeds returned the same sample")
class UsesTheSameSeedInEveryBuffer(Ring):
    def __init__(self, capacity, seed):
        super().__init__(capacity, 0)


@accepts("ReplayBuffer")
class ChoosesFromAList(KeepsADeque):
    def __init__(self, capacity, seed):
        self.rows, self.capacity, self.random = [], capacity, random.Random(seed)

    def add(self, fragment):
        super().add(fragment)
        del self.rows[: -self.capacity]

    def sample(self, size):
        rows = self.random.choices(self.rows, k=size)
        return {name: np.array([row[name] for row in rows]) for name in rows[0]}


@rejects("ReplayBuffer")
class DrawsWithoutReplacement(Ring):
    def sample(self, size):
        chosen = self.rng.choice(self.held(), size=size, replace=False)
        return {name: column[chosen] for name, column in self.columns.items()}


@rejects("ReplayBuffer")
class DrawsWithoutReplacementOnceThereAreEnough(Ring):
    def sample(self, size):
        chosen = self.rng.choice(self.held(), size=size, replace=size > self.held())
        return {name: column[chosen] for name, column in self.columns.items()}


@rejects("ReplayBuffer")
class DrawsNoMoreThanAreThere(Ring):
    def sample(self, size):
        return super().sample(min(size, self.held()))


@rejects("ReplayBuffer")
class FoldsEmptyPlacesOntoFullOnes(Ring):
    def sample(self, size):
        chosen = self.rng.integers(self.capacity, size=size) % self.held()
        return {name: column[chosen] for name, column in self.columns.items()}


@rejects("ReplayBuffer")
class ReturnsLists(Ring):
    def sample(self, size):
        return {name: list(column) for name, column in super().sample(size).items()}


@rejects("ReplayBuffer")
class DrawsEmptyPlaces(Ring):
    def held(self):
        return self.capacity


@rejects("ReplayBuffer")
class MakesEveryColumnAFloat(Ring):
    def add(self, fragment):
        super().add(fragment)
        self.columns = {name: column.astype(float) for name, column in self.columns.items()}


@rejects("ReplayBuffer")
class DropsWhatRunsOverTheEnd(Ring):
    def store(self, columns, count):
        at = self.added % self.capacity
        count = min(count, self.capacity - at)
        for name, column in columns.items():
            self.columns[name][at : at + count] = column[:count]
        self.added += count


@rejects("ReplayBuffer")
class ReturnsRows(KeepsADeque):
    def sample(self, size):
        batch = super().sample(size)
        return [tuple(column[i] for column in batch.values()) for i in range(size)]


@accepts("td_target")
def row_by_row(rewards, terminated, truncated, q_online, q_target, gamma=0.99):
    targets = []
    for reward, end, newest, older in zip(rewards, terminated, q_online, q_target, strict=True):
        targets.append(reward if end else reward + gamma * older[np.argmax(newest)])
    return np.array(targets)


@accepts("td_target")
def takes_along_the_actions(rewards, terminated, truncated, q_online, q_target, gamma=0.99):
    best = np.expand_dims(q_online.argmax(axis=-1), -1)
    return rewards + (1 - terminated) * gamma * np.take_along_axis(q_target, best, axis=-1).squeeze(-1)


@accepts("td_target")
def sums_over_a_mask(rewards, terminated, truncated, q_online, q_target, gamma=0.99):
    chosen = np.eye(q_online.shape[1])[q_online.argmax(1)]
    return np.where(terminated, rewards, rewards + gamma * (chosen * q_target).sum(1))


def future(q_online, q_target):
    return np.take_along_axis(q_target, q_online.argmax(1)[:, None], 1)[:, 0]


@rejects("td_target")
def truncated_is_terminated(rewards, terminated, truncated, q_online, q_target, gamma=0.99):
    return rewards + gamma * future(q_online, q_target) * ~(terminated | truncated)


@rejects("td_target")
def looks_behind_every_end(rewards, terminated, truncated, q_online, q_target, gamma=0.99):
    return rewards + gamma * future(q_online, q_target)


@rejects("td_target", says="`q_target` both chose and evaluated the action")
def plain_dqn(rewards, terminated, truncated, q_online, q_target, gamma=0.99):
    return rewards + gamma * q_target.max(1) * ~terminated


@rejects("td_target", says="`q_target` chose and `q_online` evaluated")
def networks_swapped(rewards, terminated, truncated, q_online, q_target, gamma=0.99):
    return rewards + gamma * future(q_target, q_online) * ~terminated


@rejects("td_target", says="`q_online` both chose and evaluated the action")
def without_a_target_network(rewards, terminated, truncated, q_online, q_target, gamma=0.99):
    return rewards + gamma * q_online.max(1) * ~terminated


@rejects("td_target", says="Compare the parts")
def a_termination_has_no_reward(rewards, terminated, truncated, q_online, q_target, gamma=0.99):
    return (rewards + gamma * future(q_online, q_target)) * ~terminated


@rejects("td_target")
def truncated_overrules_terminated(rewards, terminated, truncated, q_online, q_target, gamma=0.99):
    return rewards + gamma * future(q_online, q_target) * ~(terminated & ~truncated)


@rejects("td_target")
def gamma_of_the_chapter(rewards, terminated, truncated, q_online, q_target, gamma=0.99):
    return row_by_row(rewards, terminated, truncated, q_online, q_target, 0.99)


@rejects("td_target")
def takes_whole_columns(rewards, terminated, truncated, q_online, q_target, gamma=0.99):
    return rewards + gamma * q_target[:, q_online.argmax(1)] * ~terminated


@rejects("td_target")
def one_action_for_all_rows(rewards, terminated, truncated, q_online, q_target, gamma=0.99):
    return rewards + gamma * q_target[:, q_online.sum(0).argmax()] * ~terminated


@accepts("SharedAgent")
class CountsInAList:
    def __init__(self, theta, optimizer, target_every):
        self.theta, self.optimizer, self.every = np.array(theta), optimizer, target_every
        self.target, self.old = np.array(theta), []

    def version(self):
        return len(self.old)

    def parameters(self):
        return {"theta": self.theta.copy(), "target": self.target, "version": self.version()}

    def apply(self, gradient, version):
        self.old.append(self.version() - version)
        self.step(gradient)
        if not self.version() % self.every:
            self.target = np.array(self.theta)

    def step(self, gradient):
        self.optimizer.step(self.theta, gradient)

    def ages(self):
        return list(self.old)


@accepts("SharedAgent")
class ReplacesItsArrays(CountsInAList):
    def __init__(self, theta, optimizer, target_every):
        super().__init__(theta, optimizer, target_every)
        self.theta = self.target = theta  # never changed: each step makes a new array

    def apply(self, gradient, version):
        stepped = self.theta.copy()
        self.optimizer.step(stepped, gradient)
        self.old.append(self.version() - version)
        self.theta = stepped
        if self.version() % self.every == 0:
            self.target = stepped


@rejects("SharedAgent", says="must have the weights of version")
class CopiesTheTargetBeforeTheStep(CountsInAList):
    def apply(self, gradient, version):
        if self.version() % self.every == 0:
            self.target = np.array(self.theta)
        self.old.append(self.version() - version)
        self.step(gradient)


@rejects("SharedAgent", says="each of them must add 1")
class CountsFromTheGradientsVersion(CountsInAList):
    newest = 0

    def parameters(self):
        return super().parameters() | {"version": self.newest}

    def apply(self, gradient, version):
        super().apply(gradient, version)
        self.newest = version + 1


@rejects("SharedAgent")
class TargetIsASecondName(CountsInAList):
    def apply(self, gradient, version):
        super().apply(gradient, version)
        if not self.version() % self.every:
            self.target = self.theta


@rejects("SharedAgent")
class StepsOnTheArgument(CountsInAList):
    def __init__(self, theta, optimizer, target_every):
        super().__init__(theta, optimizer, target_every)
        self.theta = theta  # read-only, as everything that comes from Ray


@rejects("SharedAgent")
class TakesWhatStepReturns(CountsInAList):
    def step(self, gradient):
        self.theta = self.optimizer.step(self.theta, gradient)


@rejects("SharedAgent")
class ANewOptimizerForEachStep(CountsInAList):
    def step(self, gradient):
        copy.deepcopy(self.optimizer).step(self.theta, gradient)


@rejects("SharedAgent")
class KeepsTheFirstTarget(CountsInAList):
    def apply(self, gradient, version):
        self.old.append(self.version() - version)
        self.step(gradient)


@rejects("SharedAgent")
class TargetAtVersionOne(CountsInAList):
    def apply(self, gradient, version):
        self.old.append(self.version() - version)
        self.step(gradient)
        if self.version() % self.every == 1:
            self.target = np.array(self.theta)


@rejects("SharedAgent")
class ItsListHidesTheMethod(CountsInAList):
    def __init__(self, theta, optimizer, target_every):
        super().__init__(theta, optimizer, target_every)
        self.ages = []


@rejects("SharedAgent")
class AgesOneTooMany(CountsInAList):
    def ages(self):
        return [age + 1 for age in self.old]


@rejects("SharedAgent")
class DropsOldGradients(CountsInAList):
    def apply(self, gradient, version):
        if version == self.version():
            super().apply(gradient, version)


@accepts("work")
def waits_for_everything(make_sampler, agent, buffer, board, results):
    ch, sampler, turn, steps, played = chapter(), make_sampler(), 0, 0, []
    while True:
        go_on, now = ray.get([board.count.remote(steps), agent.parameters.remote()])
        if not go_on:
            return
        fragment, ended = sampler.play(now["theta"], ch.epsilon(now["version"]), ch.FRAMES)
        ray.get(buffer.add.remote(fragment))
        gradient = ch.gradient_of(now, ray.get(buffer.sample.remote(ch.BATCH)))
        ray.get(agent.apply.remote(gradient, now["version"]))
        steps = np.count_nonzero(fragment["real"])
        if turn % ch.TEST_EVERY == 0:
            score = sampler.test(now["theta"])
            ray.get(board.offer.remote(score, now["theta"]))
            results.put((time.time(), os.getpid(), now["version"], score, played))
            played = []
        played = played + ended
        turn += 1


@accepts("work")
def names_its_arguments(make_sampler, agent, buffer, board, results):
    batch = SimpleNamespace(remote=lambda size: buffer.sample.remote(size=size))
    apply = SimpleNamespace(remote=lambda gradient, version: agent.apply.remote(gradient=gradient, version=version))
    named = SimpleNamespace(parameters=agent.parameters, apply=apply)
    waits_for_everything(make_sampler, named, SimpleNamespace(add=buffer.add, sample=batch), board, results)


@accepts("work")
def learns_at_newer_parameters_than_it_plays_with(make_sampler, agent, buffer, board, results):
    ch, sampler, turn, steps, played = chapter(), make_sampler(), 0, 0, []
    while ray.get(board.count.remote(steps)):
        now = ray.get(agent.parameters.remote())
        fragment, ended = sampler.play(now["theta"], ch.epsilon(now["version"]), ch.FRAMES)
        buffer.add.remote(fragment)
        batch, now = ray.get([buffer.sample.remote(ch.BATCH), agent.parameters.remote()])
        agent.apply.remote(ch.gradient_of(now, batch), now["version"])
        steps, played = int(fragment["real"].sum()), played + ended
        if turn % ch.TEST_EVERY == 0:
            score = sampler.test(now["theta"])
            board.offer.remote(score, now["theta"])
            results.put((time.time(), os.getpid(), now["version"], score, played))
            played = []
        turn += 1


def worker(parts, **mistakes):
    """The solution, with a mistake in the place of whatever is named."""
    make_sampler, agent, buffer, board, results = parts
    ch, sampler, turn, steps, played = chapter(), make_sampler(), 0, 0, []
    do = SimpleNamespace(
        **{
            "fetch": lambda turn: ray.get(agent.parameters.remote()),
            "explore": lambda turn, now: ch.epsilon(now["version"]),
            "hand_in": lambda fragment: buffer.add.remote(fragment),
            "send": lambda gradient, now: agent.apply.remote(gradient, now["version"]),
            "steps": lambda fragment: int(fragment["real"].sum()),
            "offer": lambda score, now: board.offer.remote(score, now["theta"]),
            "report": lambda now, score, played: (time.time(), os.getpid(), now["version"], score, played),
            "clear": True,
            "due": lambda turn: turn % ch.TEST_EVERY == 0,
            "go_on": lambda steps: ray.get(board.count.remote(steps)),
        }
        | {name: make(parts) if callable(make) else make for name, make in mistakes.items()}
    )
    while do.go_on(steps):
        now = do.fetch(turn)
        fragment, ended = sampler.play(now["theta"], do.explore(turn, now), ch.FRAMES)
        do.hand_in(fragment)
        do.send(ch.gradient_of(now, ray.get(buffer.sample.remote(ch.BATCH))), now)
        steps, played = do.steps(fragment), played + ended
        if do.due(turn):
            score = sampler.test(now["theta"])
            do.offer(score, now)
            results.put(do.report(now, score, played))
            played = [] if do.clear else played
        turn += 1


@rejects("work")
def parameters_of_the_first_round(*parts):
    now = ray.get(parts[1].parameters.remote())
    worker(parts, fetch=lambda parts: lambda turn: now)


@rejects("work", says="which is not what `epsilon` returns")
def never_explores(*parts):
    worker(parts, explore=lambda parts: lambda turn, now: 0.0)


@rejects("work", says="which is not what `epsilon` returns")
def explores_by_its_own_turn(*parts):
    worker(parts, explore=lambda parts: lambda turn, now: chapter().epsilon(turn))


@rejects("work", says="so the buffer was empty")
def draws_before_it_adds(*parts):
    ch, (make_sampler, agent, buffer, board, results) = chapter(), parts

    def adds_late(fragment):
        drawn.append(ray.get(buffer.sample.remote(ch.BATCH)))
        return buffer.add.remote(fragment)

    drawn = []
    late = SimpleNamespace(remote=adds_late)
    first = SimpleNamespace(remote=lambda size: ray.put(drawn.pop()))
    worker((make_sampler, agent, SimpleNamespace(add=late, sample=first), board, results))


@rejects("work")
def keeps_its_fragments(*parts):
    worker(parts, hand_in=lambda parts: lambda fragment: None)


@rejects("work")
def puts_weights_instead_of_gradients(*parts):
    def send(gradient, now):
        theta = now["theta"].copy()
        Adam(2e-3).step(theta, gradient)
        parts[1].apply.remote(theta, now["version"])

    worker(parts, send=lambda parts: send)


@rejects("work")
def names_the_newest_version(*parts):
    def send(gradient, now):
        parts[1].apply.remote(gradient, ray.get(parts[1].parameters.remote())["version"])

    worker(parts, send=lambda parts: send)


@rejects("work")
def counts_resets_as_steps(*parts):
    worker(parts, steps=lambda parts: lambda fragment: fragment["real"].size)


@rejects("work")
def takes_the_reference_for_the_answer(*parts):
    worker(parts, go_on=lambda parts: lambda steps: parts[3].count.remote(steps))


@rejects("work")
def passes_references_to_the_sampler(*parts):
    worker(parts, fetch=lambda parts: lambda turn: parts[1].parameters.remote())


@rejects("work")
def calls_without_remote(*parts):
    worker(parts, hand_in=lambda parts: lambda fragment: parts[2].add(fragment))


@rejects("work")
def tells_the_same_returns_again(*parts):
    worker(parts, clear=False)


@rejects("work")
def never_offers(*parts):
    worker(parts, offer=lambda parts: lambda score, now: None)


@rejects("work")
def reports_only_the_score(*parts):
    worker(parts, report=lambda parts: lambda now, score, played: score)


@rejects("work", says="times in seconds since 1970")
def reports_a_timer(*parts):
    report = lambda now, score, played: (time.perf_counter(), os.getpid(), now["version"], score, played)  # noqa: E731
    worker(parts, report=lambda parts: report)


@rejects("work", says="it must test in rounds 0, 25, and 50")
def tests_at_the_end_of_25_rounds(*parts):
    worker(parts, due=lambda parts: lambda turn: turn % 25 == 24)


@rejects("work")
def puts_none_at_the_end(*parts):
    worker(parts)
    parts[-1].put(None)


@accepts("train")
def waits_for_one_after_the_other(make_envs, seed):
    ch, reports = chapter(), []
    with ch.ray_office(seed) as parts:
        left = ch.ray_crew(parts, make_envs, seed)
        while left:
            _, left = ray.wait(left)
        while not parts[3].empty():
            reports.append(parts[3].get())
        _, theta = ray.get(parts[2].best.remote())
    return {"reports": reports, "theta": theta}


@accepts("train", long=True)
def empties_the_queue_meanwhile(make_envs, seed):
    ch, reports = chapter(), []
    with ch.ray_office(seed) as parts:
        left = ch.ray_crew(parts, make_envs, seed)
        while left:
            _, left = ray.wait(left, num_returns=len(left), timeout=0.2)
            reports += parts[3].get_nowait_batch(parts[3].qsize())
        return {"theta": ray.get(parts[2].best.remote())[1], "reports": reports}


@accepts("train", long=True)
def tests_the_best_once_more(make_envs, seed):
    learned = waits_for_one_after_the_other(make_envs, seed)
    Sampler(make_envs, seed).test(learned["theta"])
    return learned


@rejects("train")
def waits_in_the_loop(make_envs, seed):
    ch = chapter()
    with ch.ray_office(seed) as parts:
        for i in range(2):
            ray.get(ray.remote(ch.work).remote(partial(Sampler, make_envs, i), *parts))
        return {"theta": ray.get(parts[2].best.remote())[1], "reports": []}


@rejects("train", says="this many workers were still testing: 1", long=True)
def waits_until_a_worker_has_finished(make_envs, seed):
    ch = chapter()
    with ch.ray_office(seed) as parts:
        ray.wait(ch.ray_crew(parts, make_envs, seed))
        reports = parts[3].get_nowait_batch(parts[3].qsize())
        return {"theta": ray.get(parts[2].best.remote())[1], "reports": reports}


@rejects("train")
def latest_weights(make_envs, seed):
    ch = chapter()
    with ch.ray_office(seed) as parts:
        ray.get(ch.ray_crew(parts, make_envs, seed))
        reports = parts[3].get_nowait_batch(parts[3].qsize())
        return {"theta": ray.get(parts[0].parameters.remote())["theta"], "reports": reports}


@rejects("train")
def leaves_the_last_report_behind(make_envs, seed):
    learned = chapter().train(make_envs, seed)
    return {**learned, "reports": learned["reports"][:-1]}


@rejects("train")
def asks_when_the_actors_are_gone(make_envs, seed):
    ch = chapter()
    with ch.ray_office(seed, limit=200) as parts:
        ray.get(ch.ray_crew(parts, make_envs, seed))
    return {"theta": ray.get(parts[2].best.remote())[1], "reports": []}


@rejects("train")
def does_not_wait(make_envs, seed):
    ch = chapter()
    with ch.ray_office(seed, limit=200) as parts:
        ch.ray_crew(parts, make_envs, seed)
        reports = parts[3].get_nowait_batch(parts[3].qsize())
        return {"theta": fresh_theta(seed), "reports": reports}


@rejects("train")
def trains_on_ordinary_cartpoles(make_envs, seed):
    return stopped_early(cartpoles, seed, 200)


@rejects("train")
def returns_score_and_weights(make_envs, seed):
    ch = chapter()
    with ch.ray_office(seed, limit=200) as parts:
        ray.get(ch.ray_crew(parts, make_envs, seed))
        return {"theta": ray.get(parts[2].best.remote()), "reports": [(0.0, 1, 1, 1.0, [])]}


@rejects("train")
def only_the_weights(make_envs, seed):
    return stopped_early(make_envs, seed, 200)["theta"]


@rejects("train")
def stops_after_a_thousand_steps(make_envs, seed):
    return stopped_early(make_envs, seed, 1000)


def stopped_early(make_envs, seed, limit):
    """Return what two workers have learned after so many steps, hardly anything."""
    ch = chapter()
    with ch.ray_office(seed, limit=limit) as parts:
        ray.get(ch.ray_crew(parts, make_envs, seed))
        reports = parts[3].get_nowait_batch(parts[3].qsize())
        return {"theta": ray.get(parts[2].best.remote())[1], "reports": reports}
