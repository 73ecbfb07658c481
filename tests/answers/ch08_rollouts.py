"""Right and wrong answers of chapter 8."""

import contextlib

import numpy as np
import ray

from tests.answers import accepts, rejects

RAY = {"num_cpus": 4}
KEYS = ("obs", "actions", "rewards", "terminated", "truncated", "real")


@accepts("Sampler")
class FillsArrays:
    def __init__(self, make_envs, policy, seed):
        self.envs, self.policy, self.weights = make_envs(), policy, None
        self.obs = self.envs.reset(seed=seed)[0]
        self.ended = np.zeros(self.envs.num_envs, bool)

    def set_weights(self, weights):
        self.weights = weights

    def frame(self):
        obs, ended = self.obs.copy(), self.ended
        actions = self.policy(self.weights, obs)
        self.obs, rewards, terminated, truncated, _ = self.envs.step(actions)
        self.ended = np.logical_or(terminated, truncated)
        return dict(zip(KEYS, (obs, actions, rewards, terminated, truncated, ~ended), strict=True))

    def sample(self, steps):
        fragment = {}
        for t in range(steps):
            for key, value in self.frame().items():
                fragment.setdefault(key, np.empty((steps, *value.shape), value.dtype))[t] = value
        return fragment | {"last_obs": self.obs, "version": self.weights["version"]}


@rejects("Sampler", says="[seed, episode, step] of each environment. But")
class SamplesTheSameSeedAgain(FillsArrays):
    def __init__(self, make_envs, policy, seed):
        super().__init__(make_envs, policy, seed)
        self.seed = seed

    def sample(self, steps):
        self.obs, self.ended = self.envs.reset(seed=self.seed)[0], np.zeros(self.envs.num_envs, bool)
        return super().sample(steps)


@rejects("Sampler", says="was only reset.")
class CountsResetsAsExperience(FillsArrays):
    def sample(self, steps):
        fragment = super().sample(steps)
        return fragment | {"real": np.ones_like(fragment["real"])}


@rejects("Sampler", says="had been truncated")
class OnlyTerminationsEnd(FillsArrays):
    def frame(self):
        frame = super().frame()
        self.ended = frame["terminated"]
        return frame


@rejects("Sampler", says="aren't resets")
class TakesNothingEarnedForAReset(FillsArrays):
    def sample(self, steps):
        fragment = super().sample(steps)
        return fragment | {"real": fragment["rewards"] != 0}


@rejects("Sampler")
class ForgetsTheEndAtTheSeam(FillsArrays):
    def sample(self, steps):
        self.ended = np.zeros(self.envs.num_envs, bool)
        return super().sample(steps)


@rejects("Sampler")
class TakesTheLastStepForTheReset(FillsArrays):
    def sample(self, steps):
        fragment = super().sample(steps)
        return fragment | {"real": ~(fragment["terminated"] | fragment["truncated"])}


@rejects("Sampler")
class WritesTheObservationAfterTheStep(FillsArrays):
    def frame(self):
        frame = super().frame()
        return frame | {"obs": self.obs}


@rejects("Sampler")
class KeepsItsFirstWeights(FillsArrays):
    def set_weights(self, weights):
        self.weights = self.weights or weights


@rejects("Sampler")
class NewWeightsWithTheOldNumbers(FillsArrays):
    def set_weights(self, weights):
        old = self.weights or weights
        self.weights = old | {"version": weights["version"]}


@rejects("Sampler")
class HasOneFlagForBothEnds(FillsArrays):
    def frame(self):
        frame = super().frame()
        return frame | {"terminated": frame["terminated"] | frame["truncated"]}


@rejects("Sampler")
class LastObservationOfTheLastRow(FillsArrays):
    def sample(self, steps):
        fragment = super().sample(steps)
        return fragment | {"last_obs": fragment["obs"][-1]}


@rejects("Sampler")
class IgnoresTheSeed(FillsArrays):
    def __init__(self, make_envs, policy, seed):
        super().__init__(make_envs, policy, 0)


@rejects("Sampler")
class StacksAlongTheWrongAxis(FillsArrays):
    def sample(self, steps):
        return {key: np.swapaxes(value, 0, 1) if key in KEYS else value for key, value in super().sample(steps).items()}


@rejects("Sampler")
class ReturnsLists(FillsArrays):
    def sample(self, steps):
        return {key: list(value) if key in KEYS else value for key, value in super().sample(steps).items()}


@accepts("Sampler")
class ResetsWhenItFirstSamples(FillsArrays):
    def __init__(self, make_envs, policy, seed):
        self.make, self.policy, self.seed, self.envs = make_envs, policy, seed, None

    def sample(self, steps):
        if self.envs is None:
            weights = self.weights
            super().__init__(self.make, self.policy, self.seed)
            self.weights = weights
        return super().sample(steps)


@accepts("gae")
def a_sum_for_each_step(rewards, values, terminated, truncated, gamma=0.99, lam=0.95):
    deltas = rewards + gamma * np.where(terminated, 0, values[1:]) - values[:-1]
    goes_on = gamma * lam * np.where(terminated | truncated, 0, 1)
    advantages = np.zeros_like(deltas)
    for t in range(len(deltas)):
        factor = np.ones(deltas.shape[1])
        for later in range(t, len(deltas)):
            advantages[t] += factor * deltas[later]
            factor = factor * goes_on[later]
    return advantages


def backwards(rewards, values, no_future, cut, gamma, lam, start=0):
    advantages, later = np.zeros(rewards.shape), start
    for t in reversed(range(len(rewards))):
        delta = rewards[t] + gamma * values[t + 1] * (1 - no_future[t]) - values[t]
        advantages[t] = later = delta + gamma * lam * later * (1 - cut[t])
    return advantages


@rejects("gae")
def leaks_across_every_end(rewards, values, terminated, truncated, gamma=0.99, lam=0.95):
    return backwards(rewards, values, terminated, np.zeros_like(terminated), gamma, lam)


@rejects("gae")
def leaks_across_truncated_ends(rewards, values, terminated, truncated, gamma=0.99, lam=0.95):
    return backwards(rewards, values, terminated, terminated, gamma, lam)


@rejects("gae")
def truncated_is_the_end_of_the_world(rewards, values, terminated, truncated, gamma=0.99, lam=0.95):
    done = terminated | truncated
    return backwards(rewards, values, done, done, gamma, lam)


@rejects("gae")
def bootstraps_behind_a_terminated_end(rewards, values, terminated, truncated, gamma=0.99, lam=0.95):
    return backwards(rewards, values, np.zeros_like(terminated), terminated | truncated, gamma, lam)


@rejects("gae")
def forgets_the_bootstrap_of_the_fragment(rewards, values, terminated, truncated, gamma=0.99, lam=0.95):
    values = np.concatenate([values[:-1], np.zeros_like(values[:1])])
    return backwards(rewards, values, terminated, terminated | truncated, gamma, lam)


@rejects("gae", says="Your sum starts with")
def starts_the_sum_with_the_last_value(rewards, values, terminated, truncated, gamma=0.99, lam=0.95):
    return backwards(rewards, values, terminated, terminated | truncated, gamma, lam, start=values[-1])


@rejects("gae")
def takes_the_flags_of_the_next_step(rewards, values, terminated, truncated, gamma=0.99, lam=0.95):
    shifted = [np.concatenate([flags[1:], np.zeros_like(flags[:1])]) for flags in (terminated, truncated)]
    return backwards(rewards, values, shifted[0], shifted[0] | shifted[1], gamma, lam)


@rejects("gae")
def without_gamma_in_the_sum(rewards, values, terminated, truncated, gamma=0.99, lam=0.95):
    deltas = rewards + gamma * values[1:] * ~terminated - values[:-1]
    return backwards(deltas, 0 * values, terminated, terminated | truncated, 1.0, lam)


@rejects("gae")
def returns_the_targets_of_the_critic(rewards, values, terminated, truncated, gamma=0.99, lam=0.95):
    return a_sum_for_each_step(rewards, values, terminated, truncated, gamma, lam) + values[:-1]


@rejects("gae")
def an_end_anywhere_ends_all(rewards, values, terminated, truncated, gamma=0.99, lam=0.95):
    everywhere = np.ones_like(terminated)
    terminated, truncated = (flags.any(axis=1, keepdims=True) & everywhere for flags in (terminated, truncated))
    return backwards(rewards, values, terminated, terminated | truncated, gamma, lam)


@rejects("gae", says="both flags")
def truncated_wins_where_both_flags_are_set(rewards, values, terminated, truncated, gamma=0.99, lam=0.95):
    return backwards(rewards, values, terminated & ~truncated, terminated | truncated, gamma, lam)


@rejects("gae", says="first difference")
def bootstraps_after_a_terminated_last_row(rewards, values, terminated, truncated, gamma=0.99, lam=0.95):
    no_future = terminated.copy()
    no_future[-1] = False
    return backwards(rewards, values, no_future, terminated | truncated, gamma, lam)


@rejects("gae", says="must be floats")
def keeps_the_type_of_the_rewards(rewards, values, terminated, truncated, gamma=0.99, lam=0.95):
    return a_sum_for_each_step(rewards, values, terminated, truncated, gamma, lam).astype(rewards.dtype)


@accepts("gae")
def one_environment_after_the_other(rewards, values, terminated, truncated, gamma=0.99, lam=0.95):
    steps, envs = rewards.shape
    advantages = np.empty((steps, envs))
    for env in range(envs):
        later = 0.0
        for t in range(steps - 1, -1, -1):
            ends = terminated[t, env] or truncated[t, env]
            target = rewards[t, env] if terminated[t, env] else rewards[t, env] + gamma * values[t + 1, env]
            later = target - values[t, env] + (0.0 if ends else gamma * lam * later)
            advantages[t, env] = later
    return advantages


@rejects("gae", says="list")
def a_list_of_rows(rewards, values, terminated, truncated, gamma=0.99, lam=0.95):
    return list(a_sum_for_each_step(rewards, values, terminated, truncated, gamma, lam))


@accepts("collect")
def waits_for_the_weights_too(samplers, weights, steps):
    ref = ray.put(weights)
    ray.get([sampler.set_weights.remote(ref) for sampler in samplers])
    refs = [sampler.sample.remote(steps) for sampler in samplers]
    return [ray.get(ref) for ref in refs]


@accepts("collect")
def a_task_for_each(samplers, weights, steps):
    @ray.remote(num_cpus=0)
    def play(sampler, refs):
        sampler.set_weights.remote(refs[0])
        return ray.get(sampler.sample.remote(steps))

    ref = ray.put(weights)
    return ray.get([play.remote(sampler, [ref]) for sampler in samplers])


@rejects("collect")
def waits_in_the_loop(samplers, weights, steps):
    ref, fragments = ray.put(weights), []
    for sampler in samplers:
        sampler.set_weights.remote(ref)
        fragments.append(ray.get(sampler.sample.remote(steps)))
    return fragments


@rejects("collect")
def a_copy_for_each(samplers, weights, steps):
    for sampler in samplers:
        sampler.set_weights.remote(weights)
    return ray.get([sampler.sample.remote(steps) for sampler in samplers])


@rejects("collect")
def weights_after_sampling(samplers, weights, steps):
    refs = [sampler.sample.remote(steps) for sampler in samplers]
    ref = ray.put(weights)
    for sampler in samplers:
        sampler.set_weights.remote(ref)
    return ray.get(refs)


@rejects("collect")
def weights_for_the_first_only(samplers, weights, steps):
    samplers[0].set_weights.remote(ray.put(weights))
    return ray.get([sampler.sample.remote(steps) for sampler in samplers])


@rejects("collect")
def as_they_come(samplers, weights, steps):
    ref, fragments = ray.put(weights), []
    for sampler in samplers:
        sampler.set_weights.remote(ref)
    pending = [sampler.sample.remote(steps) for sampler in samplers]
    while pending:
        (ready,), pending = ray.wait(pending)
        fragments.append(ray.get(ready))
    return fragments


@rejects("collect")
def one_samples_for_all(samplers, weights, steps):
    samplers[0].set_weights.remote(ray.put(weights))
    return ray.get([samplers[0].sample.remote(steps) for _ in samplers])


@rejects("collect")
def returns_references(samplers, weights, steps):
    ref = ray.put(weights)
    for sampler in samplers:
        sampler.set_weights.remote(ref)
    return [sampler.sample.remote(steps) for sampler in samplers]


@rejects("collect")
def divides_the_steps(samplers, weights, steps):
    return waits_for_the_weights_too(samplers, weights, steps // len(samplers))


@accepts("collect_async")
def with_two_lists(samplers, weights, steps, count, learn):
    def launch(sampler):
        sampler.set_weights.remote(ray.put(weights))
        return sampler.sample.remote(steps)

    crew, refs, learned = list(samplers), [], 0
    refs = [launch(sampler) for sampler in crew]
    while learned < count:
        done, _ = ray.wait(refs)
        place = refs.index(done[0])
        sampler, ref = crew.pop(place), refs.pop(place)
        try:
            weights = learn(ray.get(ref))
        except ray.exceptions.RayActorError:
            continue
        learned += 1
        crew.append(sampler)
        refs.append(launch(sampler))


def asynchronous(samplers, weights, steps, count, learn, newest=True, survive=True, values=True):
    """The solution, with a switch for each thing that can be left out."""
    playing = {}

    def launch(sampler):
        if newest:
            sampler.set_weights.remote(ray.put(weights))
        playing[sampler.sample.remote(steps)] = sampler

    for sampler in samplers:
        sampler.set_weights.remote(ray.put(weights))
        launch(sampler)
    while count > 0 and playing:
        (ready,), _ = ray.wait(list(playing))
        sampler = playing.pop(ready)
        try:
            weights = learn(ray.get(ready) if values else ready)
        except ray.exceptions.RayActorError:
            if not survive:
                raise
            continue
        count -= 1
        launch(sampler)


@rejects("collect_async")
def in_rounds(samplers, weights, steps, count, learn):
    while count > 0:
        ref = ray.put(weights)
        for sampler in samplers:
            sampler.set_weights.remote(ref)
        for fragment in ray.get([sampler.sample.remote(steps) for sampler in samplers])[:count]:
            weights = learn(fragment)
            count -= 1


@rejects("collect_async")
def takes_turns(samplers, weights, steps, count, learn):
    refs = []
    for sampler in samplers:
        sampler.set_weights.remote(ray.put(weights))
        refs.append(sampler.sample.remote(steps))
    for turn in range(count):
        who = turn % len(samplers)
        weights = learn(ray.get(refs[who]))
        samplers[who].set_weights.remote(ray.put(weights))
        refs[who] = samplers[who].sample.remote(steps)


@rejects("collect_async")
def one_at_a_time(samplers, weights, steps, count, learn):
    for turn in range(count):
        sampler = samplers[turn % len(samplers)]
        sampler.set_weights.remote(ray.put(weights))
        weights = learn(ray.get(sampler.sample.remote(steps)))


@rejects("collect_async")
def weights_only_at_the_start(samplers, weights, steps, count, learn):
    asynchronous(samplers, weights, steps, count, learn, newest=False)


@rejects("collect_async")
def sends_off_before_it_learns(samplers, weights, steps, count, learn):
    playing = {}
    for sampler in samplers:
        sampler.set_weights.remote(weights)
        playing[sampler.sample.remote(steps)] = sampler
    while count > 0:
        (ready,), _ = ray.wait(list(playing))
        sampler = playing.pop(ready)
        try:
            fragment = ray.get(ready)
        except ray.exceptions.RayActorError:
            continue
        playing[sampler.sample.remote(steps)] = sampler
        weights = learn(fragment)
        sampler.set_weights.remote(weights)
        count -= 1


@rejects("collect_async")
def dies_with_a_sampler(samplers, weights, steps, count, learn):
    asynchronous(samplers, weights, steps, count, learn, survive=False)


@rejects("collect_async", says="from the sampler that had died")
def sends_the_dead_off_again(samplers, weights, steps, count, learn):
    playing = {}
    for sampler in samplers:
        sampler.set_weights.remote(weights)
        playing[sampler.sample.remote(steps)] = sampler
    while count > 0:
        (ready,), _ = ray.wait(list(playing))
        sampler = playing.pop(ready)
        try:
            weights = learn(ray.get(ready))
            count -= 1
        except ray.exceptions.RayActorError:
            pass
        sampler.set_weights.remote(weights)
        playing[sampler.sample.remote(steps)] = sampler


@accepts("collect_async")
def a_task_for_each_fragment(samplers, weights, steps, count, learn):
    @ray.remote(num_cpus=0)
    def play(sampler, refs):
        sampler.set_weights.remote(refs[0])
        return ray.get(sampler.sample.remote(steps))

    playing = {play.remote(sampler, [ray.put(weights)]): sampler for sampler in samplers}
    while count > 0:
        (ready,), _ = ray.wait(list(playing))
        sampler = playing.pop(ready)
        try:
            weights = learn(ray.get(ready))
        except ray.exceptions.RayError:  # the task failed, because its sampler has died
            continue
        count -= 1
        playing[play.remote(sampler, [ray.put(weights)])] = sampler


@accepts("collect_async")
def tells_everybody_the_newest_weights(samplers, weights, steps, count, learn):
    playing = {}
    for sampler in samplers:
        sampler.set_weights.remote(weights)
        playing[sampler.sample.remote(steps)] = sampler
    for _ in range(count + 1):
        (ready,), _ = ray.wait(list(playing))
        sampler = playing.pop(ready)
        try:
            weights = learn(ray.get(ready))
        except ray.exceptions.RayActorError:
            continue
        count -= 1
        if count == 0:
            return
        for each in {sampler, *playing.values()}:
            each.set_weights.remote(weights)
        playing[sampler.sample.remote(steps)] = sampler


@rejects("collect_async")
def stops_when_somebody_dies(samplers, weights, steps, count, learn):
    try:
        asynchronous(samplers, weights, steps, count, learn, survive=False)
    except ray.exceptions.RayActorError:
        return


@rejects("collect_async")
def hands_over_references(samplers, weights, steps, count, learn):
    asynchronous(samplers, weights, steps, count, learn, values=False)


@rejects("collect_async", says="more than once")
def keeps_what_is_done_among_the_pending(samplers, weights, steps, count, learn):
    playing = {}
    for sampler in samplers:
        sampler.set_weights.remote(weights)
        playing[sampler.sample.remote(steps)] = sampler
    while count > 0:
        (ready,), _ = ray.wait(list(playing))
        try:
            weights = learn(ray.get(ready))
        except ray.exceptions.RayActorError:
            del playing[ready]
            continue
        playing[ready].set_weights.remote(weights)
        playing[playing[ready].sample.remote(steps)] = playing[ready]
        count -= 1


@rejects("collect_async", says="never started again")
def starts_the_same_sampler_every_time(samplers, weights, steps, count, learn):
    in_progress = {}
    for sampler in reversed(samplers):
        sampler.set_weights.remote(weights)
        in_progress[sampler.sample.remote(steps)] = sampler
    while count > 0:
        (ready,), _ = ray.wait(list(in_progress))
        del in_progress[ready]
        try:
            weights = learn(ray.get(ready))
        except ray.exceptions.RayActorError:
            continue
        count -= 1
        sampler.set_weights.remote(weights)  # the one that the loop above started last
        in_progress[sampler.sample.remote(steps)] = sampler


@rejects("collect_async", says="had been counted")
def counts_the_death_as_a_fragment(samplers, weights, steps, count, learn):
    in_progress = {}
    for sampler in samplers:
        sampler.set_weights.remote(weights)
        in_progress[sampler.sample.remote(steps)] = sampler
    for _ in range(count):
        (ready,), _ = ray.wait(list(in_progress))
        sampler = in_progress.pop(ready)
        with contextlib.suppress(ray.exceptions.RayActorError):
            weights = learn(ray.get(ready))
            sampler.set_weights.remote(weights)
            in_progress[sampler.sample.remote(steps)] = sampler


@rejects("collect_async", says="still in progress")
def waits_for_what_is_under_way_at_the_end(samplers, weights, steps, count, learn):
    busy, done = {}, 0

    def start(sampler):
        sampler.set_weights.remote(weights)
        busy[sampler.sample.remote(steps)] = sampler

    for sampler in samplers:
        start(sampler)
    while done < count:
        (ref,), _ = ray.wait(list(busy))
        sampler = busy.pop(ref)
        with contextlib.suppress(ray.exceptions.RayActorError):
            weights, done = learn(ray.get(ref)), done + 1
            start(sampler)
    for ref in busy:
        with contextlib.suppress(ray.exceptions.RayActorError):
            ray.get(ref)


@accepts("fragment_length")
def line_through_the_means(lengths, seconds, fraction):
    x, y = np.mean(lengths), np.mean(seconds)
    slope = np.dot(np.array(lengths) - x, np.array(seconds) - y) / np.sum((np.array(lengths) - x) ** 2)
    overhead = y - slope * x
    return max(int(-(-round(overhead * (1 - fraction) / fraction / slope, 6) // 1)), 1)


def length(overhead, frame, fraction):
    return max(1, int(np.ceil(overhead * (1 - fraction) / fraction / frame - 1e-6)))


@rejects("fragment_length")
def takes_slope_for_intercept(lengths, seconds, fraction):
    overhead, frame = np.polyfit(lengths, seconds, 1)
    return length(overhead, frame, fraction)


@rejects("fragment_length")
def fraction_of_the_useful_work(lengths, seconds, fraction):
    frame, overhead = np.polyfit(lengths, seconds, 1)
    return max(1, int(np.ceil(overhead / fraction / frame - 1e-6)))


@rejects("fragment_length")
def rounds_to_the_nearest(lengths, seconds, fraction):
    frame, overhead = np.polyfit(lengths, seconds, 1)
    return max(1, round(overhead * (1 - fraction) / fraction / frame))


@rejects("fragment_length", says="at most")
def rounds_down(lengths, seconds, fraction):
    frame, overhead = np.polyfit(lengths, seconds, 1)
    return max(1, int(overhead * (1 - fraction) / fraction / frame))


@rejects("fragment_length")
def the_best_of_those_measured(lengths, seconds, fraction):
    frame, overhead = np.polyfit(lengths, seconds, 1)
    return next((n for n in lengths if overhead / (overhead + n * frame) <= fraction), lengths[-1])


@rejects("fragment_length")
def the_overhead_is_the_shortest_fragment(lengths, seconds, fraction):
    frame, _ = np.polyfit(lengths, seconds, 1)
    return length(seconds[0], frame, fraction)


@rejects("fragment_length")
def may_be_less_than_one(lengths, seconds, fraction):
    frame, overhead = np.polyfit(lengths, seconds, 1)
    return int(np.ceil(overhead * (1 - fraction) / fraction / frame - 1e-6))


@rejects("fragment_length")
def not_a_whole_number(lengths, seconds, fraction):
    frame, overhead = np.polyfit(lengths, seconds, 1)
    return max(1.0, overhead * (1 - fraction) / fraction / frame)


@rejects("fragment_length", says="a shorter fragment")
def rounds_up_by_adding_one(lengths, seconds, fraction):
    frame, overhead = np.polyfit(lengths, seconds, 1)
    return int(max(1, overhead * (1 - fraction) / fraction / frame)) + 1


@rejects("fragment_length")
def line_through_the_first_and_the_last_point(lengths, seconds, fraction):
    frame = (seconds[-1] - seconds[0]) / (lengths[-1] - lengths[0])
    return length(seconds[0] - frame * lengths[0], frame, fraction)


@accepts("fragment_length")
def tries_one_length_after_the_other(lengths, seconds, fraction):
    frame, overhead = np.polyfit(lengths, seconds, 1)
    return next(n for n in range(1, 10**6) if overhead <= fraction * (overhead + n * frame) + 1e-12)
