"""Right and wrong answers of chapter 10."""

import functools
import itertools
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import ray
import torch
from torch import nn

from coursekit.author.definitions import definitions
from coursekit.given.cartpoles import cartpoles
from tests.answers import accepts, rejects

RAY = {"num_cpus": 2}


@accepts("weight_sync")
def waits_until_all_have_them(policy, samplers):
    ref = ray.put(policy.weights())
    ray.get([sampler.set_weights.remote(ref) for sampler in samplers])


@accepts("weight_sync")
def by_the_name_of_the_argument(policy, samplers):
    ref = ray.put(policy.weights())
    for sampler in samplers:
        sampler.set_weights.remote(weights=ref)


@rejects("weight_sync")
def weights_inside_a_function(policy, samplers):
    weights = policy.weights()
    ref = ray.remote(lambda: weights).remote()
    for sampler in samplers:
        sampler.set_weights.remote(ref)


@rejects("weight_sync")
def sends_the_weights_to_each(policy, samplers):
    weights = policy.weights()
    for sampler in samplers:
        sampler.set_weights.remote(weights)


@rejects("weight_sync")
def puts_them_for_each(policy, samplers):
    for sampler in samplers:
        sampler.set_weights.remote(ray.put(policy.weights()))


@rejects("weight_sync")
def forgets_the_last_sampler(policy, samplers):
    waits_until_all_have_them(policy, samplers[:-1])


@rejects("weight_sync")
def reference_in_a_list(policy, samplers):
    ref = ray.put(policy.weights())
    for sampler in samplers:
        sampler.set_weights.remote([ref])


@rejects("weight_sync")
def sends_what_it_sent_before(policy, samplers):
    if not hasattr(policy, "ref"):
        policy.ref = ray.put(policy.weights())
    for sampler in samplers:
        sampler.set_weights.remote(policy.ref)


@rejects("weight_sync", says="an object of type list")
def sends_only_the_actor(policy, samplers):
    ref = ray.put(policy.weights()["actor"])
    for sampler in samplers:
        sampler.set_weights.remote(ref)


@rejects("weight_sync", says="not a reference")
def sends_the_list_of_the_actors_layers(policy, samplers):
    for sampler in samplers:
        sampler.set_weights.remote(policy.weights()["actor"])


def sent(ref, samplers):
    for sampler in samplers:
        sampler.set_weights.remote(ref)


@rejects("weight_sync", says="the policy itself")
def sends_the_policy(policy, samplers):
    sent(ray.put(policy), samplers)


@rejects("weight_sync", says="call it")
def sends_the_method(policy, samplers):
    sent(ray.put(policy.weights), samplers)


@rejects("weight_sync", says="a dict with the keys ['actor']; `policy.weights()`")
def leaves_the_critic_out(policy, samplers):
    sent(ray.put({"actor": policy.weights()["actor"]}), samplers)


@rejects("weight_sync", says="Under the keys ['critic']")
def sends_the_weights_of_the_actor_twice(policy, samplers):
    sent(ray.put(dict.fromkeys(("actor", "critic"), policy.weights()["actor"])), samplers)


@rejects("weight_sync")
def forgets_remote(policy, samplers):
    for sampler in samplers:
        sampler.set_weights(ray.put(policy.weights()))


def combined(l_clip, values, targets, entropy, c1, c2):
    return -(l_clip - c1 * (values - targets) ** 2 + c2 * entropy).mean()


@accepts("ppo_loss")
def with_where(logp, old_logp, advantages, values, targets, entropy, epsilon=0.2, c1=0.5, c2=0.01):
    ratio = (logp - old_logp).exp()
    bound = torch.where(advantages > 0, (1 + epsilon) * advantages, (1 - epsilon) * advantages)
    critic = nn.functional.mse_loss(values, targets)
    return c1 * critic - torch.minimum(ratio * advantages, bound).mean() - c2 * entropy.mean()


@rejects("ppo_loss")
def nothing_clipped(logp, old_logp, advantages, values, targets, entropy, epsilon=0.2, c1=0.5, c2=0.01):
    return combined((logp - old_logp).exp() * advantages, values, targets, entropy, c1, c2)


@rejects("ppo_loss")
def no_minimum(logp, old_logp, advantages, values, targets, entropy, epsilon=0.2, c1=0.5, c2=0.01):
    ratio = (logp - old_logp).exp().clamp(1 - epsilon, 1 + epsilon)
    return combined(ratio * advantages, values, targets, entropy, c1, c2)


@rejects("ppo_loss")
def ratio_without_exp(logp, old_logp, advantages, values, targets, entropy, epsilon=0.2, c1=0.5, c2=0.01):
    ratio = logp - old_logp
    gain = torch.min(ratio * advantages, ratio.clamp(1 - epsilon, 1 + epsilon) * advantages)
    return combined(gain, values, targets, entropy, c1, c2)


@rejects("ppo_loss", says="With c₁ = c₂ = 0")
def the_smaller_ratio_first(logp, old_logp, advantages, values, targets, entropy, epsilon=0.2, c1=0.5, c2=0.01):
    ratio = (logp - old_logp).exp()
    smaller = torch.min(ratio, ratio.clamp(1 - epsilon, 1 + epsilon))
    return combined(smaller * advantages, values, targets, entropy, c1, c2)


@rejects("ppo_loss", says="With c₁ = c₂ = 0")
def quotient_of_the_logarithms(logp, old_logp, advantages, values, targets, entropy, epsilon=0.2, c1=0.5, c2=0.01):
    ratio = logp / old_logp
    gain = torch.min(ratio * advantages, ratio.clamp(1 - epsilon, 1 + epsilon) * advantages)
    return combined(gain, values, targets, entropy, c1, c2)


@rejects("ppo_loss", says="a mean over the rows")
def sums_the_critics_errors(logp, old_logp, advantages, values, targets, entropy, epsilon=0.2, c1=0.5, c2=0.01):
    return with_where(logp, old_logp, advantages, values, targets, entropy, epsilon, len(values) * c1, c2)


@rejects("ppo_loss")
def the_gain_itself(*args, **kwargs):
    return -with_where(*args, **kwargs)


@rejects("ppo_loss")
def entropy_is_punished(logp, old_logp, advantages, values, targets, entropy, epsilon=0.2, c1=0.5, c2=0.01):
    return with_where(logp, old_logp, advantages, values, targets, -entropy, epsilon, c1, c2)


@rejects("ppo_loss", says="must raise the loss")
def values_pushed_from_their_targets(
    logp, old_logp, advantages, values, targets, entropy, epsilon=0.2, c1=0.5, c2=0.01
):
    return with_where(logp, old_logp, advantages, values, targets, entropy, epsilon, -c1, c2)


@rejects("ppo_loss")
def sum_for_mean(logp, *args, **kwargs):
    return len(logp) * with_where(logp, *args, **kwargs)


@rejects("ppo_loss")
def one_loss_a_row(logp, old_logp, advantages, values, targets, entropy, epsilon=0.2, c1=0.5, c2=0.01):
    ratio = (logp - old_logp).exp()
    gain = torch.min(ratio * advantages, ratio.clamp(1 - epsilon, 1 + epsilon) * advantages)
    return -gain + c1 * (values - targets) ** 2 - c2 * entropy


@rejects("ppo_loss")
def cuts_the_gradient_off(logp, *args, **kwargs):
    return with_where(logp.detach(), *args, **kwargs)


@rejects("ppo_loss", says="gradient")
def detaches_the_clipped_ratio(logp, old_logp, advantages, values, targets, entropy, epsilon=0.2, c1=0.5, c2=0.01):
    ratio = torch.exp(logp - old_logp)
    gain = torch.min(ratio * advantages, ratio.detach().clamp(1 - epsilon, 1 + epsilon) * advantages)
    return -(gain - c1 * (values - targets) ** 2 + c2 * entropy).mean()


@rejects("ppo_loss")
def normalises_too(logp, old_logp, advantages, *args, **kwargs):
    deviation = (advantages - advantages.mean()).square().sum() / (len(advantages) - 1)
    return with_where(logp, old_logp, (advantages - advantages.mean()) / deviation.sqrt(), *args, **kwargs)


@rejects("ppo_loss")
def epsilon_of_its_own(logp, old_logp, advantages, values, targets, entropy, epsilon=0.2, c1=0.5, c2=0.01):
    return with_where(logp, old_logp, advantages, values, targets, entropy, 0.2, c1, c2)


@rejects("ppo_loss")
def returns_a_number(*args, **kwargs):
    return float(with_where(*args, **kwargs).detach())


@accepts("minibatches")
def a_list_of_splits(batch, size, rng):
    order = np.arange(len(batch["actions"]))
    rng.shuffle(order)
    cuts = range(size, len(order), size)
    return [{name: column[part] for name, column in batch.items()} for part in np.split(order, cuts)]


@rejects("minibatches")
def drops_the_short_one(batch, size, rng):
    return [part for part in a_list_of_splits(batch, size, rng) if len(part["obs"]) == size]


@rejects("minibatches")
def draws_each_minibatch_anew(batch, size, rng):
    rows = len(batch["obs"])
    for _ in range(-(-rows // size)):
        chosen = rng.permutation(rows)[:size]
        yield {name: column[chosen] for name, column in batch.items()}


@rejects("minibatches")
def nobody_shuffles(batch, size, rng):
    for start in range(0, len(batch["obs"]), size):
        yield {name: column[start : start + size] for name, column in batch.items()}


@rejects("minibatches", says="kept their order")
def shuffles_slices(batch, size, rng):
    for start in rng.permutation(range(0, len(batch["obs"]), size)):
        yield {name: column[start : start + size] for name, column in batch.items()}


@rejects("minibatches")
def shuffles_inside_slices(batch, size, rng):
    rows = len(batch["obs"])
    for start in range(0, rows, size):
        chosen = start + rng.permutation(min(size, rows - start))
        yield {name: column[chosen] for name, column in batch.items()}


@rejects("minibatches")
def somebody_elses_random_numbers(batch, size, rng):
    for chosen in torch.randperm(len(batch["obs"])).split(size):
        yield {name: column[chosen] for name, column in batch.items()}


@rejects("minibatches")
def shuffles_the_batch_itself(batch, size, rng):
    order = rng.permutation(len(batch["obs"]))
    for name in batch:
        batch[name] = batch[name][order]
    for start in range(0, len(order), size):
        yield {name: column[start : start + size] for name, column in batch.items()}


@accepts("minibatches")
def order_as_a_tensor(batch, size, rng):
    for chosen in torch.from_numpy(rng.permutation(len(batch["obs"]))).split(size):
        yield {name: column[chosen] for name, column in batch.items()}


@accepts("minibatches")
def splits_every_shuffled_column(batch, size, rng):
    order = torch.from_numpy(rng.permutation(len(batch["obs"])))
    columns = [column[order].split(size) for column in batch.values()]
    return (dict(zip(batch, parts, strict=True)) for parts in zip(*columns, strict=True))


@rejects("minibatches", says="tensors, as in the batch")
def columns_as_arrays(batch, size, rng):
    for part in order_as_a_tensor(batch, size, rng):
        yield {name: column.numpy() for name, column in part.items()}


@rejects("minibatches", says="dtype")
def all_columns_as_floats(batch, size, rng):
    for part in order_as_a_tensor(batch, size, rng):
        yield {name: column.float() for name, column in part.items()}


@rejects("minibatches", says="empty one")
def an_empty_one_after_full_ones(batch, size, rng):
    order = rng.permutation(len(batch["obs"]))
    for number in range(len(order) // size + 1):
        chosen = order[number * size : (number + 1) * size]
        yield {name: column[chosen] for name, column in batch.items()}


@rejects("minibatches")
def shuffles_each_column(batch, size, rng):
    order = {name: rng.permutation(len(column)) for name, column in batch.items()}
    for start in range(0, len(batch["obs"]), size):
        yield {name: column[order[name][start : start + size]] for name, column in batch.items()}


@rejects("minibatches")
def the_same_order_every_time(batch, size, rng):
    return a_list_of_splits(batch, size, np.random.default_rng(0))


@rejects("minibatches", says="A second epoch had the order of the batch")
def shuffles_only_the_first_epoch(batch, size, rng):
    rows = len(batch["obs"])
    order = torch.arange(rows) if hasattr(batch["obs"], "shuffled") else torch.from_numpy(rng.permutation(rows))
    batch["obs"].shuffled = True
    for chosen in order.split(size):
        yield {name: column[chosen] for name, column in batch.items()}


@rejects("minibatches")
def size_taken_for_their_number(batch, size, rng):
    rows = len(batch["obs"])
    return a_list_of_splits(batch, -(-rows // size) + size, rng)


@rejects("minibatches", says="number of rows in each")
def splits_into_size_parts(batch, size, rng):
    for chosen in np.array_split(rng.permutation(len(batch["obs"])), size):
        yield {name: column[chosen] for name, column in batch.items()}


@rejects("minibatches", says="lacked")
def counts_the_columns(batch, size, rng):
    for start in range(0, len(batch), size):
        chosen = rng.permutation(len(batch))[start : start + size]
        yield {name: column[chosen] for name, column in batch.items()}


@rejects("minibatches")
def only_the_first(batch, size, rng):
    return a_list_of_splits(batch, size, rng)[0]


def likelihood(scores, actions):
    logp = torch.log_softmax(scores, dim=-1)
    return logp.gather(-1, actions[:, None])[:, 0], -(logp.exp() * logp).sum(-1)


def loss_of(policy, minibatch, normalise=True, fresh=False, bonus=0.01):
    scores, values = policy(minibatch["obs"])
    logp, entropy = likelihood(scores, minibatch["actions"])
    a = minibatch["advantages"]
    a = (a - a.mean()) / (a.std() + 1e-8) if normalise else a
    old = logp.detach() if fresh else minibatch["logp"]
    return with_where(logp, old, a, values, minibatch["targets"], entropy, c2=bonus)


def clip(policy):
    nn.utils.clip_grad_norm_(policy.parameters(), 0.5)


@accepts("train_step")
def forgets_gradients_afterwards(policy, optimizer, minibatch):
    loss = loss_of(policy, minibatch)
    loss.backward()
    clip(policy)
    optimizer.step()
    policy.zero_grad()
    return loss.item()


@rejects("train_step", says="took no step")
def never_steps(policy, optimizer, minibatch):
    optimizer.zero_grad()
    loss = loss_of(policy, minibatch)
    loss.backward()
    clip(policy)
    return loss.item()


@rejects("train_step")
def gradients_pile_up(policy, optimizer, minibatch):
    loss = loss_of(policy, minibatch)
    loss.backward()
    clip(policy)
    optimizer.step()
    return loss.item()


@rejects("train_step", says="had no gradients")
def forgets_the_new_gradients(policy, optimizer, minibatch):
    loss = loss_of(policy, minibatch)
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()
    return loss.item()


@rejects("train_step", says="clipped to 0.5")
def clips_each_number_by_itself(policy, optimizer, minibatch):
    loss = loss_of(policy, minibatch)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(policy.parameters(), 0.5)
    optimizer.step()
    return loss.item()


@rejects("train_step")
def clips_before_there_are_gradients(policy, optimizer, minibatch):
    optimizer.zero_grad()
    loss = loss_of(policy, minibatch)
    clip(policy)
    loss.backward()
    optimizer.step()
    return loss.item()


def stepped(policy, optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    clip(policy)
    optimizer.step()
    return loss.item()


@rejects("train_step", says="clipped to 0.5")
def clips_actor_and_critic_apart(policy, optimizer, minibatch):
    loss = loss_of(policy, minibatch)
    optimizer.zero_grad()
    loss.backward()
    clip(policy.actor)
    clip(policy.critic)
    optimizer.step()
    return loss.item()


@rejects("train_step", says="from before each step")
def returns_the_loss_after_the_step(policy, optimizer, minibatch):
    stepped(policy, optimizer, loss_of(policy, minibatch))
    return loss_of(policy, minibatch).item()


@rejects("train_step", says="targets as they are")
def targets_normalized_too(policy, optimizer, minibatch):
    targets = minibatch["targets"]
    scaled = (targets - targets.mean()) / targets.std()
    return stepped(policy, optimizer, loss_of(policy, minibatch | {"targets": scaled}))


@accepts("train_step")
def clips_by_hand(policy, optimizer, minibatch):
    loss = loss_of(policy, minibatch)
    optimizer.zero_grad()
    loss.backward()
    norm = torch.stack([part.grad.square().sum() for part in policy.parameters()]).sum().sqrt()
    for part in policy.parameters():
        part.grad *= min(1.0, 0.5 / norm)
    optimizer.step()
    return loss.item()


@rejects("train_step", says="given optimizer")
def optimizer_of_its_own(policy, optimizer, minibatch):
    return stepped(policy, torch.optim.Adam(policy.parameters(), 0.01), loss_of(policy, minibatch))


@rejects("train_step")
def raw_advantages(policy, optimizer, minibatch):
    return stepped(policy, optimizer, loss_of(policy, minibatch, normalise=False))


@rejects("train_step")
def the_old_policy_is_the_new_one(policy, optimizer, minibatch):
    return stepped(policy, optimizer, loss_of(policy, minibatch, fresh=True))


@rejects("train_step")
def entropy_left_out(policy, optimizer, minibatch):
    return stepped(policy, optimizer, loss_of(policy, minibatch, bonus=0.0))


@rejects("train_step")
def returns_nothing(policy, optimizer, minibatch):
    stepped(policy, optimizer, loss_of(policy, minibatch))


@accepts("train_step")
def returns_the_loss_without_its_graph(policy, optimizer, minibatch):
    loss = loss_of(policy, minibatch)
    stepped(policy, optimizer, loss)
    return loss.detach()


@functools.cache
def chapter() -> SimpleNamespace:
    """Return what the solved notebook defines."""
    return SimpleNamespace(**definitions("ch10_actor_learner"))


def all_at_once(samplers):
    return ray.get([each.sample.remote() for each in samplers])


def trained(make_envs, seed, count, iterations, sync=None, learn=True, actors=True, play=all_at_once, new=1):
    """Return weights and a curve after at most so many iterations; stops when a test is good enough."""
    torch.manual_seed(seed)
    ch, rng = chapter(), np.random.default_rng(seed)
    policy = ch.Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=2e-3)
    local = ch.Sampler(make_envs, ch.ENVS, seed)
    curve = []
    with ch.started(make_envs, count, seed) if actors else nullcontext([]) as samplers:
        ch.weight_sync(policy, samplers)
        for i in range(iterations):
            (sync or ch.weight_sync)(policy, samplers)
            local.set_weights(policy.weights())
            parts = play(samplers) or [local.sample()]
            for _ in range(10 * learn):
                for minibatch in ch.minibatches(ch.joined(parts), 512, rng):
                    ch.train_step(policy, optimizer, minibatch)
            curve.append((2048 * i, 0.0, ch.evaluate(policy.weights(), make_envs, seed + new * i)))
            if curve[-1][2] > 490:
                break
    return {"weights": policy.weights(), "curve": curve}


LEARNED = {}  # by seed: the weights of an agent that passes the exam; all samples here are given the same seed


@accepts("solve_cartpole", long=True)
def in_another_order(make_envs, seed, samplers=2):
    learned = trained(make_envs, seed, samplers, 100)
    LEARNED[seed] = learned["weights"]
    return learned


CALLS = itertools.count()


@accepts("solve_cartpole", long=True)
def the_first_policy_balances_by_luck(make_envs, seed, samplers=2):
    if next(CALLS) == 0:
        return {"weights": chapter().Policy().weights(), "curve": [(0, 0.0, 495.0)]}
    return trained(make_envs, seed, samplers, 100)


@rejects("solve_cartpole", says="this many actors ran `sample`: 0.")
def says_that_it_need_not_train(make_envs, seed, samplers=2):
    return {"weights": chapter().Policy().weights(), "curve": [(0, 0.0, 495.0)]}


def passes_the_exam(make_envs, seed, count, new=1, **mistake):
    """Make a mistake in three iterations, and return the weights of a good agent: only Ray's records can refuse it."""
    if seed not in LEARNED:
        LEARNED[seed] = trained(make_envs, seed, count, 100, actors=False, new=new)["weights"]
    return trained(make_envs, seed, count, 3, new=new, **mistake) | {"weights": LEARNED[seed]}


@rejects("solve_cartpole", long=True)
def samplers_keep_the_first_weights(make_envs, seed, samplers=2):
    return passes_the_exam(make_envs, seed, samplers, sync=lambda policy, samplers: None)


@rejects("solve_cartpole", says="how many different ones: 1.")
def puts_the_first_weights_again(make_envs, seed, samplers=2):
    first = []

    def send(policy, samplers):
        first.append(policy.weights())
        for each in samplers:
            each.set_weights.remote(ray.put(first[0]))

    return passes_the_exam(make_envs, seed, samplers, sync=send)


@rejects("solve_cartpole")
def new_weights_for_one_of_them_only(make_envs, seed, samplers=2):
    def send(policy, samplers):
        return chapter().weight_sync(policy, samplers[:1])

    return passes_the_exam(make_envs, seed, samplers, sync=send)


@rejects("solve_cartpole", says="samplers=4")
def starts_two_samplers_whatever_is_asked(make_envs, seed, samplers=2):
    return passes_the_exam(make_envs, seed, 2)


@rejects("solve_cartpole", says="a test repeats the same episodes")
def repeats_the_episodes_of_its_tests(make_envs, seed, samplers=2):
    learned = passes_the_exam(make_envs, seed, samplers, new=0)
    *before, (steps, seconds, _) = learned["curve"]
    return learned | {"curve": [*before, (steps, seconds, 495.0)]}


@rejects("solve_cartpole")
def stops_after_one_iteration(make_envs, seed, samplers=2):
    return trained(make_envs, seed, samplers, 1)


@rejects("solve_cartpole")
def weights_known_by_heart(make_envs, seed, samplers=2):
    right = np.array([0.0, 0.2, 1.0, 1.0])  # good enough for 500 steps of the usual CartPole
    learned = trained(make_envs, seed, samplers, 1)
    learned["weights"]["actor"] = [(np.stack([-right, right]), np.zeros(2))]
    return learned


@rejects("solve_cartpole")
def one_sampler_after_the_other(make_envs, seed, samplers=2):
    def play(samplers):
        return [ray.get(each.sample.remote()) for each in samplers]

    return passes_the_exam(make_envs, seed, samplers, play=play)


@rejects("solve_cartpole")
def only_one_of_them_plays(make_envs, seed, samplers=2):
    return passes_the_exam(make_envs, seed, samplers, play=lambda samplers: all_at_once(samplers[:1]))


@rejects("solve_cartpole", says="may be luck")
def stops_at_the_first_475(make_envs, seed, samplers=2):
    learned = passes_the_exam(make_envs, seed, samplers)
    *before, (steps, seconds, _) = learned["curve"]
    return learned | {"curve": [*before, (steps, seconds, 476.0)]}


@rejects("solve_cartpole", says="or for 200000 steps.")
def stops_far_below(make_envs, seed, samplers=2):
    learned = passes_the_exam(make_envs, seed, samplers)
    *before, (steps, seconds, _) = learned["curve"]
    return learned | {"curve": [*before, (steps, seconds, 287.0)]}


@rejects("solve_cartpole", says="steps must be totals")
def steps_of_each_iteration(make_envs, seed, samplers=2):
    learned = passes_the_exam(make_envs, seed, samplers)
    return learned | {"curve": [(2048, 0.0, test) for *_, test in learned["curve"]] + [(2048, 0.0, 495.0)]}


@rejects("solve_cartpole")
def only_the_weights(make_envs, seed, samplers=2):
    return trained(make_envs, seed, samplers, 1)["weights"]


@rejects("solve_cartpole")
def learns_on_cartpoles_of_its_own(make_envs, seed, samplers=2):
    return trained(cartpoles, seed, samplers, 10)
