"""Right and wrong answers of chapter 21."""

import asyncio
import os
import pickle
import threading

import numpy as np
import ray

from coursekit.given.ch21_learners import tree
from tests.answers import accepts, rejects

RAY = {"num_cpus": 4}


def batch_of(fragments):
    return {name: np.concatenate([part[name] for part in fragments]) for name in fragments[0]}


class Base:
    def __init__(self, make_agent):
        self.agent, self.version = make_agent(), 0

    def learn(self, *fragments):
        return self.told(self.agent.update(batch_of(fragments)), fragments)

    def told(self, loss, fragments):
        self.version += 1
        return {"version": self.version, "rows": sum(len(part["obs"]) for part in fragments), "loss": loss}

    def weights(self):
        return {**self.agent.weights(), "version": self.version}


@accepts("LearnerActor")
class RowByRow(Base):
    def learn(self, *fragments):
        rows = {"obs": np.vstack([each["obs"] for each in fragments[::-1]])}
        rows["actions"] = np.hstack([each["actions"] for each in fragments[::-1]])
        return {"loss": self.agent.update(rows), "rows": len(rows["obs"]), "version": self.next_version()}

    def next_version(self):
        self.version = self.version + 1
        return self.version


@accepts("LearnerActor")
class Counted:
    def __init__(self, make_agent):
        self.agent, self.calls = make_agent(), []

    def learn(self, first, *others):
        for part in others:
            first = {name: np.append(column, part[name], axis=0) for name, column in first.items()}
        self.calls.append(len(first["actions"]))
        return {"version": len(self.calls), "rows": self.calls[-1], "loss": self.agent.update(first)}

    def weights(self):
        found = self.agent.weights()
        found["version"] = len(self.calls)
        return found


@rejects("LearnerActor", says="starts at 0")
class TellsTheVersionBefore(Base):
    def learn(self, *fragments):
        found = super().learn(*fragments)
        return {**found, "version": self.version - 1}


@rejects("LearnerActor", says="number of calls was 6")
class OneFragmentAfterTheOther(Base):
    def learn(self, *fragments):
        return self.told([self.agent.update(part) for part in fragments][-1], fragments)


@rejects("LearnerActor", says="all fragments joined")
class OnlyTheFirst(Base):
    def learn(self, *fragments):
        return self.told(self.agent.update(fragments[0]), fragments)


@rejects("LearnerActor", says="`agent.update` returned")
class LossIsZero(Base):
    def learn(self, *fragments):
        return {**super().learn(*fragments), "loss": 0.0}


@rejects("LearnerActor", says="had at that time")
class WeightsOfTheStart(Base):
    def weights(self):
        self.saved = getattr(self, "saved", None) or {**self.agent.weights(), "w": self.agent.weights()["w"].copy()}
        return {**self.agent.weights(), "w": self.saved["w"], "version": self.version}


@rejects("LearnerActor", says="one more key")
class WeightsBelowAKey(Base):
    def weights(self):
        return {"version": self.version, "weights": self.agent.weights()}


@rejects("LearnerActor", says="keep it small")
class SendsWeightsToTheDriver(Base):
    def learn(self, *fragments):
        return {**super().learn(*fragments), "weights": self.agent.weights()["w"]}


@rejects("LearnerActor")
class WeightsWithoutVersion(Base):
    def weights(self):
        return self.agent.weights()


@rejects("LearnerActor")
class FetchesWhatIsThere(Base):
    def learn(self, *refs):
        return super().learn(*ray.get(list(refs)))


def ring(array, me, size, send, receive, copy=True, divide=True):
    parts = [part.copy() if copy else part for part in np.array_split(array, size)]
    right, left = (me + 1) % size, (me - 1) % size
    for step in range(size - 1):
        send(right, parts[(me - step) % size])
        parts[(me - step - 1) % size] += receive(left)
    for step in range(size - 1):
        send(right, parts[(me + 1 - step) % size])
        parts[(me - step) % size] = receive(left)
    return np.concatenate(parts) / (size if divide else 1)


@accepts("all_reduce")
def each_part_has_an_owner(array, me, size, send, receive):
    """Each learner sends each part straight to its owner, who sends the mean back."""
    parts = np.array_split(np.asarray(array, np.float64), size)
    others = [other for other in range(size) if other != me]
    for other in others:
        send(other, parts[other])
    mine = parts[me] + sum(receive(other) for other in others) if others else parts[me]
    mine = mine / size
    for other in others:
        send(other, mine)
    return np.concatenate([mine if other == me else receive(other) for other in range(size)])


@accepts("all_reduce")
def to_the_left(array, me, size, send, receive):
    width = -(-len(array) // size)
    padded = np.zeros(width * size, np.float32)
    padded[: len(array)] = array
    table = padded.reshape(size, width)
    for step in range(size - 1):
        send((me - 1) % size, table[(me + step) % size])
        table[(me + step + 1) % size] += receive((me + 1) % size)
    table[(me - 1) % size] /= size
    for step in range(size - 1):
        send((me - 1) % size, table[(me - 1 + step) % size])
        table[(me + step) % size] = receive((me + 1) % size)
    return padded[: len(array)]


@accepts("all_reduce")
def in_pytorch(array, me, size, send, receive):
    import torch

    parts = [part.clone() for part in torch.tensor(array).tensor_split(size)]
    for step in range(2 * (size - 1)):
        send((me + 1) % size, parts[(me - step) % size])
        place = (me - step - 1) % size
        came = torch.tensor(receive((me - 1) % size))
        parts[place] = parts[place] + came if step < size - 1 else came
    return torch.cat(parts) / size


@rejects("all_reduce", says="return the mean of all arrays")
def one_step_too_many(array, me, size, send, receive):
    parts = list(np.array_split(array, size))
    for step in range(size):
        send((me + 1) % size, parts[(me - step) % size])
        parts[(me - step - 1) % size] = parts[(me - step - 1) % size] + receive((me - 1) % size)
    for step in range(size - 1):
        send((me + 1) % size, parts[(me - step) % size])
        parts[(me - step - 1) % size] = receive((me - 1) % size)
    return np.concatenate(parts) / size


@rejects("all_reduce", says="must return an array")
def forgets_to_join_the_parts(array, me, size, send, receive):
    return np.array_split(ring(array, me, size, send, receive), size)


@rejects("all_reduce", says="In a ring, each learner sends at most")
def up_and_down_a_tree(array, me, size, send, receive):
    return tree(array, me, size, send, receive)


@rejects("all_reduce", says="last bits")
def each_adds_in_its_own_order(array, me, size, send, receive):
    total = array
    for _ in range(size - 1):
        send((me + 1) % size, array)
        array = receive((me - 1) % size)
        total = total + array
    return total / size


@rejects("all_reduce", says="the sum of all arrays")
def forgets_to_divide(*args):
    return ring(*args, divide=False)


@rejects("all_reduce", says="read-only")
def adds_to_what_it_was_given(*args):
    return ring(*args, copy=False)


@rejects("all_reduce", says="Each `receive` takes one message")
def waits_before_it_sends(array, me, size, send, receive):
    if size == 1:
        return array
    total = array + receive((me - 1) % size)
    send((me + 1) % size, total)
    return total / size


@rejects("all_reduce", says="Each `receive` takes one message")
def receives_once_too_often(array, me, size, send, receive):
    found = ring(array, me, size, send, receive)
    return found if size == 1 else found + 0 * receive((me - 1) % size)


@accepts("all_reduce")
def in_two_functions_with_a_matrix(array, me, size, send, receive):
    """Pad to a matrix of one part per row; every message is a whole row."""
    rows = np.zeros((size, -(-len(array) // size)))
    rows.flat[: len(array)] = array

    def around(first, combine):
        for step in range(size - 1):
            send((me + 1) % size, rows[(first - step) % size])
            place = (first - step - 1) % size
            rows[place] = combine(rows[place], receive((me - 1) % size))

    around(me, np.add)
    around(me + 1, lambda old, new: new)
    return rows.ravel()[: len(array)] / size


@rejects("all_reduce")
def drops_the_remainder(array, me, size, send, receive):
    return ring(array[: len(array) // size * size], me, size, send, receive)


def traced(rewards, values, ratios, terminated, truncated, gamma=0.99, rho_bar=1.0, c_bar=1.0):
    rho, c = np.minimum(ratios, rho_bar), np.minimum(ratios, c_bar)
    over, targets = terminated | truncated, np.array(values, float)
    after = np.zeros(rewards.shape)
    for t in range(len(rewards) - 1, -1, -1):
        following = values[t + 1] * (1 - terminated[t])
        delta = rho[t] * (rewards[t] + gamma * following - values[t])
        beyond = np.where(over[t], 0, targets[t + 1] - values[t + 1])
        targets[t] = values[t] + delta + gamma * c[t] * beyond
        after[t] = np.where(over[t], following, targets[t + 1])
    return targets[:-1], rho * (rewards + gamma * after - values[:-1])


@accepts("vtrace")
def as_lists(*args, **settings):
    return tuple(each.tolist() for each in traced(*args, **settings))


@accepts("vtrace")
def by_the_sum_in_pytorch(rewards, values, ratios, terminated, truncated, gamma=0.99, rho_bar=1.0, c_bar=1.0):
    import torch

    r, v, w = (torch.tensor(each) for each in (rewards, values, ratios))
    t, o = torch.tensor(terminated).double(), torch.tensor(terminated | truncated).double()
    rho, c = w.clamp(max=rho_bar), w.clamp(max=c_bar)
    delta, more = rho * (r + gamma * v[1:] * (1 - t) - v[:-1]), [torch.zeros_like(v[0])]
    for i in reversed(range(len(r))):
        more.insert(0, delta[i] + gamma * c[i] * more[0] * (1 - o[i]))
    targets = v + torch.stack(more)
    following = torch.where(o.bool(), v[1:], targets[1:]) * (1 - t)
    return [targets[:-1], rho * (r + gamma * following - v[:-1])]


@accepts("vtrace")
def as_one_array(*args, **settings):
    return np.stack(traced(*args, **settings))


@rejects("vtrace", says="The TD errors lack the factor")
def td_error_without_rho(rewards, values, ratios, terminated, truncated, gamma=0.99, rho_bar=1.0, c_bar=1.0):
    rho, targets = np.minimum(ratios, rho_bar), np.array(values)
    for t in reversed(range(len(rewards))):
        over = terminated[t] | truncated[t]
        delta = rewards[t] + gamma * values[t + 1] * ~terminated[t] - values[t]
        more = np.minimum(ratios[t], c_bar) * (targets[t + 1] - values[t + 1])
        targets[t] = values[t] + delta + gamma * more * ~over
    return targets[:-1], rho * (rewards + gamma * targets[1:] * ~terminated - values[:-1])


@rejects("vtrace", says="all ratios 1")
def takes_all_as_on_policy(rewards, values, ratios, *args, **settings):
    return traced(rewards, values, np.ones_like(ratios), *args, **settings)


@rejects("vtrace", says="no limits")
def clips_nothing(*args, **settings):
    return traced(*args, **{**settings, "rho_bar": np.inf, "c_bar": np.inf})


@rejects("vtrace", says="swapped")
def rho_and_c_swapped(*args, rho_bar=1.0, c_bar=1.0, **settings):
    return traced(*args, rho_bar=c_bar, c_bar=rho_bar, **settings)


@rejects("vtrace", says="past the end")
def ignores_ends(rewards, values, ratios, terminated, truncated, **settings):
    return traced(rewards, values, ratios, terminated & False, truncated & False, **settings)


@rejects("vtrace", says="would have continued")
def truncated_as_terminated(rewards, values, ratios, terminated, truncated, **settings):
    return traced(rewards, values, ratios, terminated | truncated, truncated & False, **settings)


@rejects("vtrace", says="If both flags are set")
def truncated_wins_over_terminated(rewards, values, ratios, terminated, truncated, **settings):
    return traced(rewards, values, ratios, terminated & ~truncated, truncated, **settings)


@rejects("vtrace", says="integers")
def results_like_the_rewards(rewards, *args, **settings):
    return tuple(each.astype(rewards.dtype) for each in traced(rewards, *args, **settings))


@rejects("vtrace", says="target of the next episode")
def advantage_with_the_next_episodes_target(
    rewards, values, ratios, terminated, truncated, gamma=0.99, rho_bar=1.0, c_bar=1.0
):
    targets, _ = traced(rewards, values, ratios, terminated, truncated, gamma, rho_bar, c_bar)
    following = np.vstack([targets[1:], values[-1:]]) * (1.0 - terminated)
    return targets, np.minimum(ratios, rho_bar) * (rewards + gamma * following - values[:-1])


@rejects("vtrace", says="lack the factor")
def advantage_without_rho(rewards, values, ratios, *args, rho_bar=1.0, **settings):
    targets, advantages = traced(rewards, values, ratios, *args, rho_bar=rho_bar, **settings)
    return targets, advantages / np.minimum(ratios, rho_bar)


@rejects("vtrace", says="looks one step ahead")
def advantage_of_all_steps(rewards, values, *args, **settings):
    targets, _ = traced(rewards, values, *args, **settings)
    return targets, targets - values[:-1]


@rejects("vtrace", says="minus V(x_t)")
def targets_without_the_value(rewards, values, *args, **settings):
    targets, advantages = traced(rewards, values, *args, **settings)
    return targets - values[:-1], advantages


@accepts("vtrace")
def one_environment_after_the_other(rewards, values, ratios, terminated, truncated, gamma=0.99, rho_bar=1.0, c_bar=1.0):
    """Loop over environments and steps in plain Python."""
    targets, advantages = [], []
    for r, v, w, end, cut in zip(rewards.T, values.T, ratios.T, terminated.T, truncated.T, strict=True):
        column, gains, beyond, after = [], [], 0.0, float(v[-1])
        for t in range(len(r) - 1, -1, -1):
            if end[t] or cut[t]:
                beyond, after = 0.0, float(v[t + 1])
            rho = min(w[t], rho_bar)
            gains.append(rho * (r[t] + (0 if end[t] else gamma * after) - v[t]))
            beyond = rho * (r[t] + (0 if end[t] else gamma * v[t + 1]) - v[t]) + gamma * min(w[t], c_bar) * beyond
            after = v[t] + beyond
            column.append(after)
        targets.append(column[::-1])
        advantages.append(gains[::-1])
    return np.transpose(targets), np.transpose(advantages)


@rejects("vtrace", says="V(x_{t+1}) in every step")
def advantage_of_one_step(rewards, values, ratios, terminated, truncated, gamma=0.99, rho_bar=1.0, c_bar=1.0):
    targets, _ = traced(rewards, values, ratios, terminated, truncated, gamma, rho_bar, c_bar)
    rho = np.minimum(ratios, rho_bar)
    return targets, rho * (rewards + gamma * values[1:] * ~terminated - values[:-1])


@rejects("vtrace", says="two arrays")
def only_the_targets(*args, **settings):
    return traced(*args, **settings)[0]


def streams_of(samplers, count):
    return [each.stream.options(num_returns="streaming").remote(count) for each in samplers]


@accepts("stream_samples")
def whatever_is_ready(samplers, learner, count):
    streams, learned = [each.stream.remote(count) for each in samplers], []
    while streams:
        ready, _ = ray.wait(streams, num_returns=len(streams), timeout=0.01)
        for stream in ready:
            ref = next(stream, None)
            if ref is None:
                streams.remove(stream)
            else:
                learned.append(learner.learn.remote(ref))
    return tuple(map(ray.get, learned))


@accepts("stream_samples")
def a_thread_for_each_stream(samplers, learner, count):
    found = []

    def follow(stream):
        found.extend([learner.learn.remote(ref) for ref in stream])

    threads = [threading.Thread(target=follow, args=(stream,)) for stream in streams_of(samplers, count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ray.get(found)


@accepts("stream_samples")
def asynchronously(samplers, learner, count):
    async def follow(stream):
        return [learner.learn.remote(ref) async for ref in stream]

    async def all_of_them():
        return await asyncio.gather(*map(follow, streams_of(samplers, count)))

    found = []
    runner = threading.Thread(target=lambda: found.extend(asyncio.run(all_of_them())))
    runner.start()
    runner.join()
    return ray.get([ref for refs in found for ref in refs])


@rejects("stream_samples", says="is a reference")
def returns_references(samplers, learner, count):
    streams, found = streams_of(samplers, count), []
    while streams:
        [ready], _ = ray.wait(streams)
        try:
            found.append(learner.learn.remote(next(ready)))
        except StopIteration:
            streams.remove(ready)
    return found


@rejects("stream_samples")
def gives_the_stream_itself(samplers, learner, count):
    return ray.get([learner.learn.remote(stream) for stream in streams_of(samplers, count)])


@rejects("stream_samples", says="in one call")
def one_sampler_after_the_other(samplers, learner, count):
    found = [learner.learn.remote(ref) for stream in streams_of(samplers, count) for ref in stream]
    return ray.get(found)


@rejects("stream_samples", says="in one call")
def one_round_after_the_other(samplers, learner, count):
    return ray.get(
        [learner.learn.remote(ref) for refs in zip(*streams_of(samplers, count), strict=True) for ref in refs]
    )


@rejects("stream_samples", says="The driver called")
def fetches_the_rows(samplers, learner, count):
    streams, found = streams_of(samplers, count), []
    while streams:
        [ready], _ = ray.wait(streams)
        try:
            found.append(learner.learn.remote(ray.get(next(ready))))
        except StopIteration:
            streams.remove(ready)
    return ray.get(found)


@accepts("stream_samples")
def fetches_each_loss_at_once(samplers, learner, count):
    """Wait for each `learn` before the next one: the learner runs one call at a time anyway."""
    streams, found = streams_of(samplers, count), []
    while streams:
        [ready], _ = ray.wait(streams)
        try:
            found.append(ray.get(learner.learn.remote(next(ready))))
        except StopIteration:
            streams.remove(ready)
    return found


@rejects("stream_samples", says="in one call")
def one_call_for_each_fragment(samplers, learner, count):
    streams = [stream for _ in range(count) for stream in streams_of(samplers, 1)]
    return ray.get([learner.learn.remote(next(stream)) for stream in streams])


@rejects("stream_samples", says="what `learn` returned")
def returns_nothing(samplers, learner, count):
    fetches_each_loss_at_once(samplers, learner, count)


class Box:
    def __init__(self, obs):
        self.obs, self.event, self.answer = obs, asyncio.Event(), None


class Boxes:
    def __init__(self, network, samplers):
        self.network, self.there, self.waiting = network, set(samplers), {}

    async def act(self, sampler, obs):
        box = self.waiting[sampler] = Box(obs)
        self.flush()
        await box.event.wait()
        return box.answer

    async def leave(self, sampler):
        self.there.discard(sampler)
        self.flush()

    def flush(self):
        if self.waiting and self.waiting.keys() >= self.there:
            self.ask()

    def ask(self):
        batch, self.waiting = self.waiting, {}
        answers = self.network(np.array([box.obs for box in batch.values()]))
        for box, answer in zip(batch.values(), self.order(answers), strict=True):
            box.answer = answer
            box.event.set()

    def order(self, answers):
        return answers


@accepts("inference_actor")
def with_events(network, samplers):
    return ray.remote(Boxes).remote(network, samplers)


@accepts("inference_actor")
def with_threads(network, samplers):
    class Threads:
        def __init__(self):
            self.there, self.obs, self.answers, self.door = set(samplers), {}, {}, threading.Condition()

        def act(self, sampler, obs):
            with self.door:
                self.obs[sampler] = obs
                self.try_it()
                self.door.wait_for(lambda: sampler in self.answers)
                return self.answers.pop(sampler)

        def leave(self, sampler):
            with self.door:
                self.there.remove(sampler)
                self.try_it()

        def try_it(self):
            if self.there and self.there == set(self.obs):
                rows = network(np.array([self.obs[name] for name in self.obs]))
                self.answers.update(zip(self.obs, rows, strict=True))
                self.obs.clear()
                self.door.notify_all()

    return ray.remote(Threads).options(max_concurrency=2 * len(samplers)).remote()


@accepts("inference_actor")
def with_a_condition(network, samplers):
    class Turns:
        def __init__(self):
            self.left, self.asked, self.answered = len(samplers), {}, {}
            self.door = asyncio.Condition()

        async def act(self, sampler, obs):
            async with self.door:
                self.asked[sampler] = obs
                await self.look()
                await self.door.wait_for(lambda: sampler in self.answered)
                return self.answered.pop(sampler)

        async def leave(self, sampler):
            async with self.door:
                self.left -= 1
                await self.look()

        async def look(self):
            if self.left and len(self.asked) == self.left:
                names = sorted(self.asked)
                self.answered |= dict(zip(names, network([self.asked[name] for name in names]), strict=True))
                self.asked = {}
                self.door.notify_all()

    return ray.remote(Turns).options(max_concurrency=50).remote()


@rejects("inference_actor", says="handle of an actor")
def returns_the_class(network, samplers):
    return ray.remote(Boxes)


@rejects("inference_actor", says="batches of")
def full_batches_only_while_all_are_there(network, samplers):
    class Eager(Boxes):
        def flush(self):
            if self.waiting and (len(self.there) < len(samplers) or self.waiting.keys() >= self.there):
                self.ask()

    return ray.remote(Eager).remote(network, samplers)


@rejects("inference_actor")
def takes_the_numbers_for_places(network, samplers):
    class Places(Boxes):
        def __init__(self, network, samplers):
            super().__init__(network, samplers)
            self.rows = [None] * len(samplers)

        async def act(self, sampler, obs):
            self.rows[sampler] = obs
            return await super().act(sampler, obs)

    return ray.remote(Places).remote(network, samplers)


@rejects("inference_actor", says="batches of")
def one_row_at_a_time(network, samplers):
    class Single:
        def act(self, sampler, obs):
            return network(obs[None])[0]

        def leave(self, sampler):
            pass

    return ray.remote(Single).remote()


@rejects("inference_actor", says="never returned")
def leaving_completes_no_batch(network, samplers):
    class Quiet(Boxes):
        async def leave(self, sampler):
            self.there.discard(sampler)

    return ray.remote(Quiet).remote(network, samplers)


@rejects("inference_actor", says="something other than")
def answers_in_the_wrong_order(network, samplers):
    class Mixed(Boxes):
        def order(self, answers):
            return answers[::-1]

    return ray.remote(Mixed).remote(network, samplers)


@rejects("inference_actor")
def calls_the_network_with_nothing(network, samplers):
    class Empty(Boxes):
        def flush(self):
            if self.waiting.keys() >= self.there:
                self.ask()

    return ray.remote(Empty).remote(network, samplers)


@rejects("inference_actor", says="never returned")
def blocks_the_loop(network, samplers):
    class Blocked(Boxes):
        async def act(self, sampler, obs):
            box = self.waiting[sampler] = Box(obs)
            while len(self.waiting) < len(self.there):
                threading.Event().wait(0.01)
            self.flush()
            return box.answer

    return ray.remote(Blocked).remote(network, samplers)


def training(make, iterate, iterations, path, save, restore):
    policy, optimizer, rng = make()
    version = restore(policy, optimizer, rng, path) if path.exists() else 0
    for done in range(version, iterations):
        iterate(policy, optimizer, rng)
        save(policy, optimizer, rng, done + 1, path)
    return policy


def state_of(policy, optimizer, rng, version):
    import torch

    parts = {"policy": policy.state_dict(), "optimizer": optimizer.state_dict(), "rng": rng.bit_generator.state}
    return {**parts, "torch": torch.get_rng_state(), "version": version}


def restored(policy, optimizer, rng, state):
    import torch

    policy.load_state_dict(state["policy"])
    optimizer.load_state_dict(state["optimizer"])
    rng.bit_generator.state = state["rng"]
    torch.set_rng_state(state["torch"])
    return state["version"]


def resumed(make, iterate, iterations, path, leave_out=(), every=1, atomic=True):
    def save(policy, optimizer, rng, version, path):
        if version % every == 0:
            new = path.with_name("new") if atomic else path
            with open(new, "wb") as file:
                pickle.dump(state_of(policy, optimizer, rng, version), file)
            os.replace(new, path)

    def restore(policy, optimizer, rng, path):
        now = state_of(policy, optimizer, rng, 0)
        state = pickle.loads(path.read_bytes())
        return restored(policy, optimizer, rng, {**state, **{name: now[name] for name in leave_out}})

    return training(make, iterate, iterations, path, save, restore)


@accepts("resume_training")
def a_file_for_each_version(make, iterate, iterations, path):
    import torch

    policy, optimizer, rng = make()
    done = sorted(path.parent.glob("version-*[0-9]"))
    version = restored(policy, optimizer, rng, torch.load(done[-1], weights_only=True)) if done else 0
    while version < iterations:
        iterate(policy, optimizer, rng)
        version += 1
        part = path.parent / "part"
        torch.save(state_of(policy, optimizer, rng, version), part)
        part.rename(path.parent / f"version-{version:06}")
    return policy


@accepts("resume_training")
def whole_objects(make, iterate, iterations, path):
    import torch

    parts, done = make(), 0
    if path.exists():
        *parts, state, done = pickle.loads(path.read_bytes())
        torch.set_rng_state(state)
    for version in range(done + 1, iterations + 1):
        iterate(*parts)
        path.with_suffix(".part").write_bytes(pickle.dumps((*parts, torch.get_rng_state(), version)))
        path.with_suffix(".part").replace(path)
    return parts[0]


@rejects("resume_training", says="should have been saved")
def saves_the_number_before(make, iterate, iterations, path):
    import torch

    policy, optimizer, rng = make()
    first = restored(policy, optimizer, rng, torch.load(path)) if path.exists() else 0
    for version in range(first, iterations):
        iterate(policy, optimizer, rng)
        torch.save(state_of(policy, optimizer, rng, version), f"{path}.new")
        os.replace(f"{path}.new", path)
    return policy


@rejects("resume_training", says="NumPy's generator")
def numpys_generator_forgotten(*args):
    return resumed(*args, leave_out=["rng"])


@rejects("resume_training", says="PyTorch's generator")
def pytorchs_generator_forgotten(*args):
    return resumed(*args, leave_out=["torch"])


@rejects("resume_training", says="something else that changes")
def momentum_forgotten(*args):
    return resumed(*args, leave_out=["optimizer"])


@rejects("resume_training", says="during a save")
def writes_in_place(*args):
    return resumed(*args, atomic=False)


@rejects("resume_training", says="both generators started over")
def never_saves(make, iterate, iterations, path):
    return resumed(make, iterate, iterations, path, every=1000)


@rejects("resume_training", says="both generators started over")
def both_generators_forgotten(*args):
    return resumed(*args, leave_out=["rng", "torch"])


@rejects("resume_training", says="should have been saved")
def saves_every_other_iteration(*args):
    return resumed(*args, every=2)


@rejects("resume_training", says="something else that changes")
def weights_forgotten(*args):
    return resumed(*args, leave_out=["policy"])
