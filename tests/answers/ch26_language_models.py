"""Right and wrong answers of chapter 26."""

import functools
import itertools
from types import SimpleNamespace

import numpy as np
import ray
import torch

from coursekit.author.definitions import definitions
from coursekit.given.sorter import END, PAD
from tests.answers import accepts, rejects

RAY = {"num_cpus": 2}


def steps(model, prompts, limit, draw, again=False, until=lambda running: not running.any(), reads=None):
    """Return columns of tokens and log π, generated in one of many ways."""
    running, tokens, logps = torch.ones(len(prompts), dtype=torch.bool), [], []
    text, (logits, cache) = prompts, model(prompts)
    while True:
        logp = logits[:, -1].log_softmax(-1)
        sampled = draw(logp)
        tokens.append(torch.where(running, sampled, PAD))
        logps.append(logp[torch.arange(len(prompts)), sampled] * running)
        running = running & (sampled != END)
        if len(tokens) == limit or until(running):
            return tokens, logps
        text = torch.cat([text, (sampled if reads == "sampled" else tokens[-1])[:, None]], 1)
        logits, cache = model(text) if again else model(text[:, -1:], cache)


def made(tokens, logps):
    return {"completions": torch.stack(tokens, 1), "logp": torch.stack(logps, 1)}


def by_chance(rng):
    return lambda logp: torch.multinomial(logp.exp(), 1, generator=rng)[:, 0]


@accepts("generate")
def by_the_exponential_trick(model, prompts, limit, rng):
    def draw(logp):
        return (logp.exp() / torch.empty_like(logp).exponential_(generator=rng)).argmax(-1)

    return made(*steps(model, prompts, limit, draw))


@accepts("generate")
def into_arrays_made_before(model, prompts, limit, rng):
    completions, logps = np.full((len(prompts), limit), PAD), np.zeros((len(prompts), limit))
    tokens, found = steps(model, prompts, limit, by_chance(rng))
    for column, (token, logp) in enumerate(zip(tokens, found, strict=True)):
        completions[:, column], logps[:, column] = token, logp
    return {"completions": completions[:, : len(tokens)], "logp": logps[:, : len(tokens)]}


@accepts("generate")
def reads_what_it_sampled_after_the_end(model, prompts, limit, rng):
    return made(*steps(model, prompts, limit, by_chance(rng), reads="sampled"))


@rejects("generate", says="only the latest token")
def reads_the_whole_text_again(model, prompts, limit, rng):
    return made(*steps(model, prompts, limit, by_chance(rng), again=True))


@rejects("generate", says="likeliest")
def takes_the_best(model, prompts, limit, rng):
    return made(*steps(model, prompts, limit, lambda logp: logp.argmax(-1)))


@rejects("generate", says="it should come first in")
def samples_at_a_low_temperature(model, prompts, limit, rng):
    def draw(logp):
        return torch.multinomial((logp / 0.5).softmax(-1), 1, generator=rng)[:, 0]

    return made(*steps(model, prompts, limit, draw))


@rejects("generate", says="only PAD")
def always_generates_to_the_limit(model, prompts, limit, rng):
    return made(*steps(model, prompts, limit, by_chance(rng), until=lambda running: False))


@rejects("generate", says="hadn't ended")
def stops_with_the_first_completion(model, prompts, limit, rng):
    return made(*steps(model, prompts, limit, by_chance(rng), until=lambda running: not running.all()))


@rejects("generate", says="The limit was 2")
def one_token_more_than_the_limit(model, prompts, limit, rng):
    return made(*steps(model, prompts, limit + 1, by_chance(rng)))


@rejects("generate", says="hadn't ended")
def one_token_fewer_than_the_limit(model, prompts, limit, rng):
    return made(*steps(model, prompts, max(1, limit - 1), by_chance(rng)))


@rejects("generate", says="all prompts must be read")
def one_prompt_after_the_other(model, prompts, limit, rng):
    rows = [steps(model, row[None], limit, by_chance(rng)) for row in prompts]
    columns = [[torch.cat(column) for column in row] for row in rows]
    completions, logps = zip(*columns, strict=True)
    pad = functools.partial(torch.nn.utils.rnn.pad_sequence, batch_first=True)
    return {"completions": pad(completions, padding_value=PAD), "logp": pad(logps)}


@rejects("generate", says="other than PAD")
def continues_after_the_end(model, prompts, limit, rng):
    tokens, logps = steps(model, prompts, limit, by_chance(rng))
    return made([torch.where(token == PAD, 3, token) for token in tokens], logps)


@rejects("generate", says="isn't 0 where")
def logp_of_the_padding(model, prompts, limit, rng):
    tokens, logps = steps(model, prompts, limit, by_chance(rng))
    return made(tokens, [torch.where(token == PAD, -1.0, logp) for token, logp in zip(tokens, logps, strict=True)])


@rejects("generate", says="not log π")
def probabilities_for_their_logarithms(model, prompts, limit, rng):
    tokens, logps = steps(model, prompts, limit, by_chance(rng))
    return made(tokens, [logp.exp() * (logp != 0) for logp in logps])


@rejects("generate", says="never above 0")
def scores_for_their_log_probabilities(model, prompts, limit, rng):
    tokens, logps = steps(model, prompts, limit, by_chance(rng))
    text, scores = prompts, []
    for token, logp in zip(tokens, logps, strict=True):
        scores.append(model.table[text.sum(1) % len(model.table), token.clamp(max=END)] * (logp != 0))
        text = torch.cat([text, token[:, None]], 1)
    return made(tokens, scores)


@rejects("generate", says="another seed")
def a_generator_of_its_own(model, prompts, limit, rng):
    return made(*steps(model, prompts, limit, by_chance(torch.Generator().manual_seed(0))))


@rejects("generate", says="same seed")
def no_generator(model, prompts, limit, rng):
    return made(*steps(model, prompts, limit, by_chance(None)))


@rejects("generate", says="END")
def drops_the_end(model, prompts, limit, rng):
    tokens, logps = steps(model, prompts, limit, by_chance(rng))
    return made([torch.where(token == END, PAD, token) for token in tokens], logps)


@rejects("generate", says="returned")
def only_the_completions(model, prompts, limit, rng):
    return torch.stack(steps(model, prompts, limit, by_chance(rng))[0], 1)


@accepts("group_advantage")
def row_by_row(rewards):
    return [[(r - row.mean()) / row.std() if np.ptp(row) else 0.0 for r in row] for row in np.asarray(rewards)]


@accepts("group_advantage")
def with_pytorchs_deviation(rewards):
    rewards = torch.as_tensor(rewards)
    return (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)


@accepts("group_advantage")
def zeros_where_the_deviation_is_tiny(rewards):
    mean, std = rewards.mean(1, keepdims=True), rewards.std(1, keepdims=True)
    return np.where(std > 1e-8, (rewards - mean) / np.maximum(std, 1e-8), 0)


@rejects("group_advantage", says="rounding")
def zeros_where_the_deviation_is_zero(rewards):
    mean, std = rewards.mean(1, keepdims=True), rewards.std(1, keepdims=True)
    return np.where(std == 0, 0, (rewards - mean) / np.where(std == 0, 1, std))


@rejects("group_advantage", says="NaN")
def divides_zero_by_zero(rewards):
    with np.errstate(invalid="ignore"):
        return (rewards - rewards.mean(1, keepdims=True)) / rewards.std(1, keepdims=True)


@rejects("group_advantage", says="without the division")
def only_centered(rewards):
    return rewards - rewards.mean(1, keepdims=True)


@rejects("group_advantage", says="all the others")
def over_the_whole_batch(rewards):
    return (rewards - rewards.mean()) / (rewards.std() + 1e-9)


@rejects("group_advantage", says="each row is a group")
def along_the_wrong_axis(rewards):
    return (rewards - rewards.mean(0)) / (rewards.std(0) + 1e-9)


@rejects("group_advantage", says="variance")
def over_the_variance(rewards):
    return (rewards - rewards.mean(1, keepdims=True)) / (rewards.var(1, keepdims=True) + 1e-9)


def each_token(logp, old_logp, ref_logp, advantages, epsilon=0.2, beta=0.02):
    a = advantages.unsqueeze(1)
    ratio = (logp - old_logp).exp()
    bound = torch.where(a > 0, (1 + epsilon) * a, (1 - epsilon) * a)
    return beta * (torch.expm1(ref_logp - logp) - ref_logp + logp) - torch.minimum(ratio * a, bound)


@accepts("grpo_loss")
def with_where_and_expm1(logp, old_logp, ref_logp, advantages, mask, epsilon=0.2, beta=0.02):
    each = each_token(logp, old_logp, ref_logp, advantages, epsilon, beta)
    return (each * mask / mask.sum(1, keepdim=True)).sum() / len(mask)


@accepts("grpo_loss")
def completion_by_completion(logp, old_logp, ref_logp, advantages, mask, epsilon=0.2, beta=0.02):
    each = each_token(logp, old_logp, ref_logp, advantages, epsilon, beta)
    return torch.stack([row[real.bool()].mean() for row, real in zip(each, mask, strict=True)]).mean()


@rejects("grpo_loss", says="the objective")
def the_gain_itself(*args, **settings):
    return -with_where_and_expm1(*args, **settings)


@rejects("grpo_loss", says="counts the padding")
def padding_counts(logp, old_logp, ref_logp, advantages, mask, **settings):
    return each_token(logp, old_logp, ref_logp, advantages, **settings).mean()


@rejects("grpo_loss", says="long completion counts more")
def all_tokens_alike(logp, old_logp, ref_logp, advantages, mask, **settings):
    return (each_token(logp, old_logp, ref_logp, advantages, **settings) * mask).sum() / mask.sum()


@rejects("grpo_loss", says="added up")
def sums_over_tokens(logp, old_logp, ref_logp, advantages, mask, **settings):
    return (each_token(logp, old_logp, ref_logp, advantages, **settings) * mask).sum(1).mean()


@rejects("grpo_loss", says="swapped")
def reference_and_policy_swapped(logp, old_logp, ref_logp, advantages, mask, epsilon=0.2, beta=0.02):
    gain = -each_token(logp, old_logp, ref_logp, advantages, epsilon, 0.0)
    d = logp - ref_logp
    each = gain - beta * (d.exp() - d - 1)
    return -((each * mask).sum(1) / mask.sum(1)).mean()


@rejects("grpo_loss", says="two more terms")
def plain_difference(logp, old_logp, ref_logp, advantages, mask, epsilon=0.2, beta=0.02):
    each = each_token(logp, old_logp, ref_logp, advantages, epsilon, 0.0) + beta * (logp - ref_logp)
    return ((each * mask).sum(1) / mask.sum(1)).mean()


@rejects("grpo_loss", says="not with `ref_logp`")
def distance_to_the_old_policy(logp, old_logp, ref_logp, *args, **settings):
    return with_where_and_expm1(logp, old_logp, old_logp, *args, **settings)


@rejects("grpo_loss", says="Equation 3")
def ratio_to_the_reference(logp, old_logp, ref_logp, *args, **settings):
    return with_where_and_expm1(logp, ref_logp, ref_logp, *args, **settings)


@rejects("grpo_loss", says="must make the loss larger")
def distance_is_rewarded(logp, old_logp, ref_logp, advantages, mask, epsilon=0.2, beta=0.02):
    return with_where_and_expm1(logp, old_logp, ref_logp, advantages, mask, epsilon, -beta)


@rejects("grpo_loss", says="came out as")
def nothing_clipped(logp, old_logp, ref_logp, advantages, mask, epsilon=0.2, beta=0.02):
    return with_where_and_expm1(logp, old_logp, ref_logp, advantages, mask, 1e9, beta)


@rejects("grpo_loss", says="came out as")
def the_clipped_product_alone(logp, old_logp, ref_logp, advantages, mask, epsilon=0.2, beta=0.02):
    gain = (logp - old_logp).exp().clamp(1 - epsilon, 1 + epsilon) * advantages[:, None]
    d = ref_logp - logp
    return -(((gain - beta * (d.exp() - d - 1)) * mask).sum(1) / mask.sum(1)).mean()


@rejects("grpo_loss", says="With the default ε and β, it was right")
def ignores_its_epsilon(logp, old_logp, ref_logp, advantages, mask, epsilon=0.2, beta=0.02):
    return with_where_and_expm1(logp, old_logp, ref_logp, advantages, mask, 0.2, beta)


@rejects("grpo_loss", says="is missing")
def penalty_without_a_gradient(logp, old_logp, ref_logp, advantages, mask, epsilon=0.2, beta=0.02):
    each = each_token(logp, old_logp, ref_logp, advantages, epsilon, 0.0)
    d = (ref_logp - logp).detach()
    return (((each + beta * (d.exp() - d - 1)) * mask).sum(1) / mask.sum(1)).mean()


@rejects("grpo_loss", says="no gradient")
def cuts_the_gradient_off(logp, *args, **settings):
    return with_where_and_expm1(logp.detach(), *args, **settings)


def rewards_of(verify, batch):
    return [verify(prompt, completion) for prompt, completion in batch]


@accepts("reward_workers")
def one_deadline_for_all(verify, batches, seconds):
    refs = [ray.remote(rewards_of).remote(verify, batch) for batch in batches]
    ray.wait(refs, num_returns=len(refs), timeout=seconds)
    found = []
    for ref, batch in zip(refs, batches, strict=True):
        try:
            found.append(ray.get(ref, timeout=0))
        except ray.exceptions.GetTimeoutError:
            ray.cancel(ref, force=True)
            found.append(np.zeros(len(batch)))
    return found


@accepts("reward_workers")
def actors_that_are_killed(verify, batches, seconds):
    class Checker:
        def check(self, batch):
            return rewards_of(verify, batch)

    actors = [ray.remote(Checker).options(num_cpus=0).remote() for _ in batches]
    refs = [actor.check.remote(batch) for actor, batch in zip(actors, batches, strict=True)]
    done, _ = ray.wait(refs, num_returns=len(refs), timeout=seconds)
    found = [ray.get(ref) if ref in done else [0] * len(batch) for ref, batch in zip(refs, batches, strict=True)]
    for actor in actors:
        ray.kill(actor)
    return found


@rejects("reward_workers")
def leaves_the_late_one_running(verify, batches, seconds):
    refs = [ray.remote(rewards_of).remote(verify, batch) for batch in batches]
    done, _ = ray.wait(refs, num_returns=len(refs), timeout=seconds)
    return [ray.get(ref) if ref in done else [0.0] * len(batch) for ref, batch in zip(refs, batches, strict=True)]


@rejects("reward_workers", says="kept its CPU")
def asks_the_late_one_to_stop(verify, batches, seconds):
    refs = [ray.remote(rewards_of).remote(verify, batch) for batch in batches]
    done, late = ray.wait(refs, num_returns=len(refs), timeout=seconds)
    for ref in late:
        ray.cancel(ref)
    return [ray.get(ref) if ref in done else [0.0] * len(batch) for ref, batch in zip(refs, batches, strict=True)]


@rejects("reward_workers", says="takes less than `seconds`")
def waits_for_the_first_batch_only(verify, batches, seconds):
    refs = [ray.remote(rewards_of).remote(verify, batch) for batch in batches]
    done, late = ray.wait(refs, timeout=seconds)
    for ref in late:
        ray.cancel(ref, force=True)
    return [ray.get(ref) if ref in done else [0.0] * len(batch) for ref, batch in zip(refs, batches, strict=True)]


@rejects("reward_workers", says="one limit for all")
def a_limit_for_each(verify, batches, seconds):
    refs, found = [ray.remote(rewards_of).remote(verify, batch) for batch in batches], []
    for ref, batch in zip(refs, batches, strict=True):
        try:
            found.append(ray.get(ref, timeout=seconds))
        except ray.exceptions.GetTimeoutError:
            ray.cancel(ref, force=True)
            found.append([0.0] * len(batch))
    return found


@rejects("reward_workers", says="needs a list of three rewards")
def leaves_the_late_batch_out(verify, batches, seconds):
    refs = [ray.remote(rewards_of).remote(verify, batch) for batch in batches]
    done, late = ray.wait(refs, num_returns=len(refs), timeout=seconds)
    for ref in late:
        ray.cancel(ref, force=True)
    return ray.get(done)


@rejects("reward_workers", says="at the same time")
def one_after_the_other(verify, batches, seconds):
    found = []
    for batch in batches:
        found += one_deadline_for_all(verify, [batch], seconds)
    return found


@rejects("reward_workers", says="`batches[1]` takes less than `seconds`")
def one_zero_for_everything(verify, batches, seconds):
    found = one_deadline_for_all(verify, batches, seconds)
    return found if all(map(any, found)) else [[0.0] * len(batch) for batch in batches]


@rejects("reward_workers", says="of its own pairs")
def the_late_one_behind_the_others(verify, batches, seconds):
    found = one_deadline_for_all(verify, batches, seconds)
    return [each for each in found if any(each)] + [each for each in found if not any(each)]


@rejects("reward_workers", says="of its own pairs")
def as_they_come_in(verify, batches, seconds):
    return one_deadline_for_all(verify, batches[::-1], seconds)


@functools.cache
def chapter() -> SimpleNamespace:
    """Return what the solved notebook defines."""
    return SimpleNamespace(**definitions("ch26_language_models"))


def trained(
    weights,
    verify,
    seed,
    iterations,
    sync=True,
    every=1,
    group=True,
    sign=1,
    count=2,
    learns=None,
    one_by_one=False,
    frozen=True,
    version=lambda iteration: iteration,
    prompts=None,
):
    """Return weights and a curve, learned in another order, perhaps with a mistake."""
    ch, rng, curve = chapter(), np.random.default_rng(seed), []
    model = ch.Transformer(weights)
    reference = ch.Transformer(weights) if frozen else model
    optimizer = torch.optim.Adam(model.parameters(), ch.LEARNING_RATE)
    with ch.rollout_workers(count, seed) as actors:
        for iteration in range(iterations):
            if iteration % every == 0:
                ref = ray.put(model.weights() if sync else weights)
            ray.get([actor.set_weights.remote(version(iteration), ref) for actor in actors])
            parts = (ch.random_prompts(ch.PROMPTS, rng) if prompts is None else prompts(ch)).chunk(count)
            refs = []
            for actor, part in zip(actors, parts, strict=True):
                refs.append(actor.generate.remote(part, ch.GROUP_SIZE))
                ray.wait(refs[-1:], timeout=None if one_by_one else 0)
            batch = ch.joined(ray.get(refs))
            rewards = ch.rewards_for(batch, verify)
            groups = rewards.reshape(-1, ch.GROUP_SIZE) if group else rewards.reshape(ch.GROUP_SIZE, -1)
            batch["advantages"] = sign * torch.tensor(ch.group_advantage(groups).ravel()).float()
            learned = {"kl": 0.0, "outside": 0.0}
            for minibatch in [*ch.minibatches(batch, rng)][:learns]:
                learned = ch.learn(model, reference, optimizer, minibatch)
            curve.append(ch.report(iteration, batch, rewards, learned))
    return {"weights": model.weights(), "curve": curve}


@accepts("train_grpo")
def waits_until_all_have_the_weights(weights, verify, seed, iterations):
    return trained(weights, verify, seed, iterations)


@accepts("train_grpo", long=True)
def with_another_learning_rate(weights, verify, seed, iterations):
    ch = chapter()
    rate, ch.LEARNING_RATE = ch.LEARNING_RATE, 8e-4
    try:
        return trained(weights, verify, seed, iterations)
    finally:
        ch.LEARNING_RATE = rate


@rejects("train_grpo", says="only one set of weights", long=True)
def sends_the_first_weights_again(weights, verify, seed, iterations):
    return trained(weights, verify, seed, iterations, sync=False)


@rejects("train_grpo", says="3 different sets of weights", long=True)
def new_weights_in_every_fourth_iteration(weights, verify, seed, iterations):
    return trained(weights, verify, seed, iterations, every=4)


@rejects("train_grpo", says="Both rollout workers")
def only_one_worker(weights, verify, seed, iterations):
    return trained(weights, verify, seed, iterations, count=1)


@rejects("train_grpo", says="after the other had finished")
def one_worker_after_the_other(weights, verify, seed, iterations):
    return trained(weights, verify, seed, iterations, one_by_one=True)


@rejects("train_grpo", says="a second model")
def the_model_is_its_own_reference(weights, verify, seed, iterations):
    return trained(weights, verify, seed, iterations, frozen=False)


@rejects("train_grpo", says="mix prompts")
def groups_of_completions_of_different_prompts(weights, verify, seed, iterations):
    return trained(weights, verify, seed, iterations, group=False)


@rejects("train_grpo", says="wrong sign")
def climbs_down(weights, verify, seed, iterations):
    return trained(weights, verify, seed, iterations, sign=-1)


@rejects("train_grpo", says="only one set of weights")
def never_learns(weights, verify, seed, iterations):
    return trained(weights, verify, seed, iterations, learns=0)


@rejects("train_grpo", says="one `learn` per minibatch")
def learns_from_one_minibatch_of_four(weights, verify, seed, iterations):
    return trained(weights, verify, seed, iterations, learns=1)


@rejects("train_grpo", says="versions old")
def always_sends_version_zero(weights, verify, seed, iterations):
    return trained(weights, verify, seed, iterations, version=lambda iteration: 0)


@rejects("train_grpo", says="different batches of prompts")
def the_same_prompts_in_each_iteration(weights, verify, seed, iterations):
    def prompts(ch):
        return ch.random_prompts(ch.PROMPTS, np.random.default_rng(seed))

    return trained(weights, verify, seed, iterations, prompts=prompts)


@rejects("train_grpo", says="by seed")
def returns_the_weights_it_got(weights, verify, seed, iterations):
    return trained(weights, verify, seed, iterations) | {"weights": weights}


@rejects("train_grpo", says="points")
def stops_after_one_iteration(weights, verify, seed, iterations):
    return trained(weights, verify, seed, 1)


@rejects("train_grpo", says="must return")
def only_the_weights(weights, verify, seed, iterations):
    return trained(weights, verify, seed, 1)["weights"]


@accepts("hacked")
def a_handful_of_tricks(reward, prompt):
    digits = prompt[:-1]
    correct = "".join(sorted(digits)) + "."
    tries = [".", digits + ".", correct + "0", digits[0] * 4 + ".", min(digits) * len(digits) + "."]
    return [each for each in tries if each != correct and reward(prompt, each) >= reward(prompt, correct)]


@accepts("hacked")
def random_changes_of_the_correct_completion(reward, prompt):
    rng, correct, found = np.random.default_rng(0), "".join(sorted(prompt[:-1])) + ".", {}
    for _ in range(3000):
        symbols = list(correct)
        for _ in range(rng.integers(1, 4)):
            symbols[rng.integers(len(correct) - 1)] = str(rng.choice(list(prompt[:-1])))
        each = "".join(symbols) + str(rng.choice(["", "7", "."]))
        if each != correct and reward(prompt, each) >= reward(prompt, correct):
            found[each] = True
    return list(found)


@rejects("hacked", says="your list is empty")
def tries_only_nothing(reward, prompt):
    return ["."] if reward(prompt, ".") else []


@rejects("hacked", says="your list is empty")
def only_what_pays_exactly_as_much(reward, prompt):
    correct = "".join(sorted(prompt[:-1])) + "."
    return [each for each in a_handful_of_tricks(reward, prompt) if reward(prompt, each) == reward(prompt, correct)]


@rejects("hacked", says="less than the")
def whatever_pays_one(reward, prompt):
    return [each for each in (prompt[:-1] + ".", prompt[0] * 4 + ".") if reward(prompt, each) >= 1]


@rejects("hacked", says="less than the 1 of")
def sorts_the_equals_sign_too(reward, prompt):
    correct = "".join(sorted(prompt)) + "."
    tries = [".", prompt[:-1] + ".", prompt[0] * 4 + ".", correct + "0"]
    return [each for each in tries if reward(prompt, each) >= reward(prompt, correct)]


@rejects("hacked", says="too large")
def every_word_beside_a_wrong_correct_completion(reward, prompt):
    correct = "".join(sorted(prompt)) + "."
    words = ("".join(each) for n in range(8) for each in itertools.product(sorted({*prompt}), repeat=n))
    return [each for each in words if reward(prompt, each) >= reward(prompt, correct)]


@rejects("hacked", says="is the correct completion")
def the_correct_completion_is_no_hack(reward, prompt):
    correct = "".join(sorted(prompt[:-1])) + "."
    return [*a_handful_of_tricks(reward, prompt), correct]


@rejects("hacked", says="less than the")
def takes_the_digits_as_a_set(reward, prompt):
    digits = sorted(set(prompt[:-1]))
    correct = "".join(digits) + "."
    words = ("".join(each) + "." for n in range(5) for each in itertools.product(digits, repeat=n))
    return [each for each in words if each != correct and reward(prompt, each) >= reward(prompt, correct)]


@rejects("hacked", says="less than the")
def whatever_might_be_paid(reward, prompt):
    return [".", prompt[:-1] + "."]


@rejects("hacked", says="isn't a string")
def pairs_with_their_rewards(reward, prompt):
    return [(each, 1.0) for each in [*a_handful_of_tricks(reward, prompt), "."]]


@accepts("hacked")
def every_short_string_of_digits_and_periods(reward, prompt):
    correct = "".join(sorted(prompt[:-1])) + "."
    words = ("".join(each) for n in range(6) for each in itertools.product(prompt[:-1] + ".", repeat=n))
    tries = {*words, correct + "."} - {correct}
    return [each for each in tries if reward(prompt, each) >= reward(prompt, correct)]
