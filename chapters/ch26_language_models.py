# %% [markdown] you_learn_to="teach a language model with GRPO, and name the roles of verl and OpenRLHF"
r"""
# Chapter 26 · RL for language models

A language model learns from its own completions, on your laptop.

*About 115 minutes · builds on [Chapter 4](ch04_scheduling.ipynb), [Chapter 5](ch05_faults.ipynb), and [Chapter 10](ch10_actor_learner.ipynb)*

**What you will be able to do**

- generate a batch of completions with a transformer and a KV cache, and record what the learner needs;
- write GRPO from its paper: group-relative advantages, the clipped loss, and the KL penalty;
- check completions in workers that may hang, and send versioned weights to rollout workers;
- measure what long and stale completions cost, and find a reward's loopholes before a model does;
- find your own program's parts in verl and OpenRLHF.
"""

# %%
import inspect
import time
from contextlib import contextmanager
from functools import partial
from itertools import product

import matplotlib.pyplot as plt
import numpy as np
import ray
import torch
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from coursekit import begin, budget, check, explain, hint, measured, passed, predict, progress, puzzle, quiz, review
from coursekit import solution, warm_up
from coursekit.given.ch26_language_models import ascending, exact
from coursekit.given.sorter import DIGITS, END, PAD, Block, Transformer, random_prompts, supervised, texts

begin("ch26_language_models")

# %%
ray.shutdown()  # stops a Ray instance that's already running here: its references and actors are gone
ray.init(num_cpus=2, include_dashboard=False)
torch.set_num_threads(1)  # the model is tiny, and the rollout workers need the other core
warm_up(2)

# %% [markdown] tags=["notes"]
r"""
The run sheet allots 115 minutes, with `hacked` as homework.
If you have only eighty minutes, show the solution of `generate`, and let pairs write `train_grpo`.
Learners who know PPO recognize most of `grpo_loss`, so spend the time that you gain on reward hacking, which is what a class remembers.
"""

# %% [markdown]
r"""
## A model of 59,000 weights is a language model, too

Many programs that use Ray for reinforcement learning train language models; verl and OpenRLHF are two of them.
In this chapter, you write such a program with all its parts, and only the model is small.

Its vocabulary has twelve symbols: ten digits, `=`, and the period.
A **prompt** is `53921=`.
The correct [**completion**](../docs/glossary.md#completion) is `12359.`, the same digits, sorted.
Each symbol is a *token*, numbered 0 to 11.
A thirteenth token, PAD, fills the rest of a row after its completion has ended.

The model is a transformer: it reads tokens and returns *logits*, a score for each possible next token.
Here is what each of its two layers does:
"""

# %% tags=["demo"]
print(inspect.getsource(Block.forward))
print(f"weights in all: {sum(part.numel() for part in Transformer().parameters()):,}")

# %% [markdown]
r"""
An untrained model generates noise, so it first learns from prompts with their correct completions: each step makes the correct next token a little more likely.
This is [supervised fine-tuning](../docs/glossary.md#supervised-fine-tuning) (SFT).

**Predict:** after 45 steps, each on 256 random examples, what percentage of its completions is correct to the last digit?
"""

# %%
predict("accuracy_after_sft", ...)  # %

# %%
*losses, tuned = supervised(steps=45, seed=0)
START = tuned.weights()
print(f"loss of the first step: {losses[0]:.2f}, of the last: {losses[-1]:.2f}")

# %% [markdown]
r"""
The loss is a mean over single tokens, so it doesn't answer the question.

## A KV cache saves reading the text again

A language model generates one token at a time: it reads the text so far, computes logits, and samples one token.
What a layer computes for a token depends only on that token and earlier ones.
So if each layer keeps the *keys and values* of the tokens so far, the model doesn't have to read those tokens again.
This is the [**KV cache**](../docs/glossary.md#kv-cache), `past` in the code above.

- `logits, cache = model(tokens)` reads prompts of shape [B, T], and returns logits of shape [B, T, 12] and a cache.
- `logits, cache = model(tokens, cache)` reads one more token for each row, shape [B, 1], whether or not that row's completion has ended.

`logits[:, -1]` are the logits of the next token.

Write `generate`, which takes B prompts and generates one completion for each.
It processes them as one batch.

- Sample each token from the softmax of the logits, using `rng`, and record $\log \pi$ of the sampled token.
- A completion ends with END, the period, which counts as its last token.
- The rest of its row is PAD, where `logp` is 0.
- Stop when all completions have ended, or after `limit` tokens.
"""


# %%
@torch.no_grad()
def generate(model, prompts, limit, rng):
    """Return {"completions": tokens, "logp": log π of each token}, both of shape [B, T] with T <= limit; `rng` is a torch.Generator."""
    ### BEGIN SOLUTION
    running, completions, logps = torch.ones(len(prompts), dtype=bool), [], []
    logits, cache = model(prompts)
    while True:
        logp = torch.log_softmax(logits[:, -1], -1)
        sampled = torch.multinomial(logp.exp(), 1, generator=rng)
        token = torch.where(running, sampled[:, 0], PAD)
        completions.append(token)
        logps.append(torch.where(running, logp.gather(1, sampled)[:, 0], 0.0))
        running = running & (token != END)
        if len(completions) == limit or not running.any():
            return {"completions": torch.stack(completions, 1), "logp": torch.stack(logps, 1)}
        logits, cache = model(token[:, None], cache)
    ### END SOLUTION


# %%
check("generate", generate)

# %% [markdown] tags=["solution"]
r"""
Rows that have ended still cost time.
"""

# %%
MAX_TOKENS = 16  # of a completion


def prompts_and_completions(model, count, seed=0):
    """Return prompts and the model's completions of them, as strings."""
    prompts = random_prompts(count, np.random.default_rng(seed))
    generated = generate(model, prompts, MAX_TOKENS, torch.Generator().manual_seed(seed))
    return texts(prompts), texts(generated["completions"])


def accuracy(model):
    """Return the fraction of correct completions, for 500 prompts that are the same every time."""
    return np.mean([exact(*pair) for pair in zip(*prompts_and_completions(model, 500), strict=True)])


# %% tags=["demo"]
if passed("generate"):
    for prompt, completion in zip(*prompts_and_completions(tuned, 5), strict=True):
        print(prompt, completion, "correct" if exact(prompt, completion) else "wrong")
    display(measured("accuracy_after_sft", 100 * accuracy(tuned)))

# %% [markdown]
r"""
A completion needs six correct tokens, one after the other, so a model that gets most tokens right still gets many completions wrong.
"""

# %%
### BEGIN SOLUTION
what_a_cache_saves = "b"
### END SOLUTION

# %%
quiz("what_a_cache_saves", what_a_cache_saves)

# %% [markdown]
r"""
## The longest completion delays the whole batch


**Predict:** every correct completion has six tokens.
How many tokens does the longest of 512 completions have, if the limit is 16?
"""

# %%
predict("longest_completion", ...)  # tokens

# %% tags=["demo"]
if passed("generate"):
    lengths = np.array([len(completion) for completion in prompts_and_completions(tuned, 512)[1]])
    figure, axes = plt.subplots(figsize=(7, 2.6), constrained_layout=True)
    axes.bar(*np.unique(lengths, return_counts=True), color="#7c3aed")
    axes.set(xlabel="tokens per completion", ylabel="completions", yscale="log")
    axes.set_title("The whole batch waits for its longest completion")
    print(f"mean length {lengths.mean():.1f}; {1 - lengths.mean() / lengths.max():.0%} of the batch is padding")
    display(measured("longest_completion", lengths.max()))

# %% [markdown]
r"""
A few completions run to the limit.
With large models, lengths range from a hundred tokens to ten thousand and more.
So programs limit the length, as ours does, and inference engines such as vLLM and SGLang use [continuous batching](../docs/glossary.md#continuous-batching): a new prompt takes the slot of a finished completion.
"""

# %% [markdown]
r"""
## GRPO compares completions within a group, without a critic

From now on, the model learns only from a reward for each of its own completions: 1 if it's correct, and 0 if it's wrong.
If a program can check the completion, as in sorting, mathematics, or code with tests, the reward is called *verifiable* ([RLVR](../docs/glossary.md#rlvr)).

PPO needs a critic to tell how much better than expected a completion was.
[**GRPO**](../docs/glossary.md#grpo), group relative policy optimization (Shao et al. 2024), compares G completions of the same prompt instead.
The [advantage](../docs/glossary.md#advantage) of each one is:

$$\hat A_i = \frac{r_i - \mathrm{mean}(r_1, \ldots, r_G)}{\mathrm{std}(r_1, \ldots, r_G)}$$

All tokens of a completion share its advantage.
If all rewards of a group are equal, all its advantages must be 0.

Write `group_advantage`, which takes an array of rewards of shape [prompts, G] and returns the advantages in the same shape.
"""


# %%
def group_advantage(rewards):
    """Return the advantage of each completion within its group, for an array of rewards of shape [prompts, G]."""
    ### BEGIN SOLUTION
    centered = rewards - rewards.mean(axis=1, keepdims=True)
    return centered / (rewards.std(axis=1, keepdims=True) + 1e-6)
    ### END SOLUTION


# %%
check("group_advantage", group_advantage)

# %% [markdown] tags=["solution"]
r"""
A test for a deviation of exactly 0 isn't enough: six rewards of 0.1 have a deviation of about $10^{-17}$, because their mean is rounded, and their advantages come out near 1.
If one of sixteen completions is correct, its advantage is near 4, so rare successes have a large weight.
"""

# %%
### BEGIN SOLUTION
nothing_to_learn = "a"
### END SOLUTION

# %%
quiz("nothing_to_learn", nothing_to_learn)

# %% [markdown]
r"""
## The GRPO loss clips the ratio and penalizes distance from a reference

In this section, $r_{i,t}$ isn't a reward but the *importance ratio*, $\pi_\theta / \pi_{\theta_{old}}$.
Both the ratio and the clip are those of [Chapter 10](ch10_actor_learner.ipynb), applied to each token.
What's new is the [KL penalty](../docs/glossary.md#kl-penalty) for moving away from the [**reference model**](../docs/glossary.md#reference-model), a frozen copy of the initial model.
Equation 4 of the paper estimates $KL(\pi_\theta \,\|\, \pi_{ref})$ for each token; Schulman calls this estimator k3:

$$D_{i,t} = e^{d} - d - 1 \qquad \text{with} \qquad d = \log \pi_{ref}(o_{i,t}) - \log \pi_\theta(o_{i,t})$$

Completion $i$ has the $|o_i|$ tokens $o_{i,t}$.
The objective, equation 3, averages first over the tokens of a completion, and then over the completions:

$$J(\theta) = \frac{1}{B} \sum_{i} \frac{1}{|o_i|} \sum_{t} \Bigl[\min\bigl(r_{i,t} \hat A_i,\ \mathrm{clip}(r_{i,t}, 1 - \epsilon, 1 + \epsilon) \hat A_i\bigr) - \beta D_{i,t}\Bigr]$$

Write `grpo_loss`, which returns the negative of $J$.
`mask` is 1 at the tokens of a completion, and 0 at its padding.
"""


# %%
def grpo_loss(logp, old_logp, ref_logp, advantages, mask, epsilon=0.2, beta=0.02):
    """Return the GRPO loss, a tensor with one number; `advantages` has shape [B], all others [B, T] (Shao et al. 2024, eq. 3)."""
    ### BEGIN SOLUTION
    ratio, a = torch.exp(logp - old_logp), advantages[:, None]
    gain = torch.min(ratio * a, ratio.clamp(1 - epsilon, 1 + epsilon) * a)
    d = ref_logp - logp
    each = gain - beta * (torch.exp(d) - d - 1)
    return -((each * mask).sum(1) / mask.sum(1)).mean()
    ### END SOLUTION


# %%
check("grpo_loss", grpo_loss)

# %% [markdown] tags=["solution"]
r"""
On completions of the current model, the *value* of k3 is an unbiased estimate of $KL(\pi_\theta \,\|\, \pi_{ref})$.
Its *gradient* isn't: on average, it's the gradient of $KL(\pi_{ref} \,\|\, \pi_\theta)$, the divergence in the other direction.
"""

# %% [markdown]
r"""
Most variants change a line or two of yours:

- **Dr. GRPO** (Liu et al. 2025) divides neither by the standard deviation nor by a completion's length, because each division introduces a bias.
- **DAPO** (Yu et al. 2025) averages over all tokens at once, drops groups of equal rewards, and raises the clip's upper bound, so that the *entropy* (the policy's randomness) falls more slowly.
- With **β = 0**, as in DAPO, there's no KL penalty and no reference model.
"""

# %%
### BEGIN SOLUTION
whose_logp = "c"
### END SOLUTION

# %%
quiz("whose_logp", whose_logp)

# %% [markdown]
r"""
A batch is a dict of tensors: `prompts`, `completions`, their `logp` from the time of generation, and `advantages`.
`learn` takes one optimizer step on it and returns two means over the tokens: the KL estimate, and the fraction of tokens whose ratio is outside the band $1 \pm \epsilon$.
"""


# %%
def logp_of(model, prompts, completions):
    """Return log π of each token of the completions, shape [B, T], from a single call: all tokens are known."""
    logits, _ = model(torch.cat([prompts, completions], 1)[:, :-1])
    logp = torch.log_softmax(logits[:, prompts.shape[1] - 1 :], -1)
    return logp.gather(-1, completions.clamp(max=END)[..., None])[..., 0]


# %%
def learn(model, reference, optimizer, batch):
    """Take one step of the optimizer; return {"kl": ..., "outside": ...}."""
    logp = logp_of(model, batch["prompts"], batch["completions"])
    with torch.no_grad():
        ref_logp = logp_of(reference, batch["prompts"], batch["completions"])
    mask = (batch["completions"] != PAD).float()
    optimizer.zero_grad()
    grpo_loss(logp, batch["logp"], ref_logp, batch["advantages"], mask).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    change, d = (logp - batch["logp"]).exp() - 1, ref_logp - logp
    means = {"kl": d.exp() - d - 1, "outside": (change.abs() > 0.2).float()}
    return {name: float((each.detach() * mask).sum() / mask.sum()) for name, each in means.items()}


# %% [markdown]
r"""
## Code that checks a completion may hang

If a completion is a program, the check must *run* it, and some programs never end, and some catch every interrupt.

Write `reward_workers`, which takes a function `verify(prompt, completion)` that returns a number, a list `batches`, and a limit in `seconds`.
Each batch is a list of (prompt, completion) pairs.

- Check all batches in parallel, and wait until all are done or `seconds` have passed.
- For each batch, return a list of rewards, in the order of its pairs; for a late batch, return a 0 for each pair.
- Stop each late task, which would otherwise keep its CPU ([Chapter 5](ch05_faults.ipynb)).
"""


# %%
def reward_workers(verify, batches, seconds):
    """Return a list of rewards for each batch, in the order of the batches; 0.0 for all pairs of a batch that is late."""
    ### BEGIN SOLUTION
    rewards_of = ray.remote(lambda batch: [verify(*pair) for pair in batch])
    refs = [rewards_of.remote(batch) for batch in batches]
    done, late = ray.wait(refs, num_returns=len(refs), timeout=seconds)
    for ref in late:
        ray.cancel(ref, force=True)
    return [ray.get(ref) if ref in done else [0.0] * len(batch) for ref, batch in zip(refs, batches, strict=True)]
    ### END SOLUTION


# %%
check("reward_workers", reward_workers)

# %% [markdown] tags=["solution"]
r"""
With one task per *pair*, a completion that hangs would lose only its own reward, but each completion would cost the overhead of a call (Chapter 1).
`force=True` kills the worker process.
The interrupt that a plain `ray.cancel` sends doesn't help against code that catches it or blocks outside of Python.
"""

# %% [markdown]
r"""
## Rollout workers, reward workers, and a learner

![The learner in your notebook puts versions of its weights into the object store; two rollout workers read them and send completions back; reward workers turn completions into rewards; next to the learner is the frozen reference model](../img/ch26_language_models.svg)

A **rollout worker** generates completions and records the version of the weights that it used.
"""


# %%
PROMPTS, GROUP_SIZE, MINIBATCHES = 32, 16, 4  # prompts per iteration, completions per prompt (G), learner steps
LEARNING_RATE = 1e-3


# %%
class RolloutWorker:
    """Generates completions with the weights that it received last. `ray.remote` makes it an actor."""

    def __init__(self, seed):
        torch.set_num_threads(1)
        self.model, self.rng = Transformer(), torch.Generator().manual_seed(seed)

    def set_weights(self, version, weights):
        """Use these weights from now on."""
        self.version = version
        self.model.load(weights)

    def generate(self, prompts, group_size):
        """Return a batch with `group_size` completions of each prompt."""
        prompts = prompts.repeat_interleave(group_size, 0)
        version = torch.full((len(prompts),), self.version)
        return {"prompts": prompts, "version": version, **generate(self.model, prompts, MAX_TOKENS, self.rng)}


# %%
@contextmanager
def rollout_workers(count, seed):
    """Yield rollout workers as actors, and stop them at the end of the block."""
    actors = [ray.remote(RolloutWorker).remote(1000 * seed + i) for i in range(count)]
    try:
        ray.get([actor.__ray_ready__.remote() for actor in actors])
        yield actors
    finally:
        for actor in actors:
            ray.kill(actor)


# %%
def joined(parts):
    """Return the rows of several batches as one batch, padded to the longest completion."""
    width = max(part["completions"].shape[1] for part in parts)
    fill = {"completions": partial(padded, width, PAD), "logp": partial(padded, width, 0.0)}
    return {name: torch.cat([fill.get(name, lambda x: x)(part[name]) for part in parts]) for name in parts[0]}


def padded(width, value, rows):
    """Return rows of this width, filled up with a value."""
    return torch.nn.functional.pad(rows, (0, width - rows.shape[1]), value=value)


# %%
def pairs_of(batch):
    """Return the (prompt, completion) pairs of a batch, as strings."""
    return list(zip(texts(batch["prompts"]), texts(batch["completions"]), strict=True))


def rewards_for(batch, verify, seconds=60):
    """Return the rewards of a batch as an array of shape [B], from four tasks."""
    pairs = pairs_of(batch)
    size = -(-len(pairs) // 4)
    parts = [pairs[start : start + size] for start in range(0, len(pairs), size)]
    return np.concatenate(reward_workers(verify, parts, seconds))


# %%
def minibatches(batch, rng):
    """Yield MINIBATCHES parts of a batch, in a new order."""
    for rows in np.array_split(rng.permutation(len(batch["prompts"])), MINIBATCHES):
        yield {name: column[torch.from_numpy(rows)] for name, column in batch.items()}


def report(version, batch, rewards, learned):
    """Return one point of a curve: how many versions old the batch is, means over it, and how the last step went."""
    pairs, tokens = pairs_of(batch), (batch["completions"] != PAD).sum()
    point = {"lag": version - float(batch["version"].float().mean()), "reward": float(np.mean(rewards))}
    point |= {"exact": np.mean([exact(*pair) for pair in pairs]), "entropy": float(-batch["logp"].sum() / tokens)}
    return point | {"length": np.mean([len(each) for _, each in pairs]), "sample": pairs[0], **learned}


# %% [markdown]
r"""
Write `train_grpo`, which creates a model from `weights`, a frozen reference, and an Adam optimizer with LEARNING_RATE, and starts two `rollout_workers`.
Then, in each iteration:

1. Send both workers the current weights, and the iteration's number as their *version*.
2. Have both workers generate at the same time: each gets half of PROMPTS new prompts and generates GROUP_SIZE completions per prompt.
3. Join the two parts, get the rewards with `rewards_for`, and add a tensor `advantages` to the batch, with one number per completion.
   `rewards.reshape(-1, GROUP_SIZE)` has one group per row.
4. Call `learn` on each minibatch, and append `report(version, batch, rewards, learned)` to `curve`, where `learned` is what the last `learn` returned.

The check's model sorts, badly, by a secret order of the digits, and only that order earns the full reward.
The check tries up to three seeds, so it may take more than 20 seconds.
"""


# %%
def train_grpo(weights, verify, seed, iterations):
    """Return {"weights": the trained weights, "curve": [report of each iteration]}; `verify` gives the rewards."""
    ### BEGIN SOLUTION
    model, reference = Transformer(weights), Transformer(weights)
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE)
    rng, curve = np.random.default_rng(seed), []
    with rollout_workers(2, seed) as actors:
        for version in range(iterations):
            ref = ray.put(model.weights())
            for actor in actors:
                actor.set_weights.remote(version, ref)
            parts = [actor.generate.remote(random_prompts(PROMPTS // 2, rng), GROUP_SIZE) for actor in actors]
            batch = joined(ray.get(parts))
            rewards = rewards_for(batch, verify)
            advantages = group_advantage(rewards.reshape(-1, GROUP_SIZE)).ravel()
            batch["advantages"] = torch.tensor(advantages, dtype=torch.float32)
            for minibatch in minibatches(batch, rng):
                learned = learn(model, reference, optimizer, minibatch)
            curve.append(report(version, batch, rewards, learned))
    return {"weights": model.weights(), "curve": curve}
    ### END SOLUTION


# %%
check("train_grpo", train_grpo)

# %% [markdown] tags=["solution"]
r"""
The optimizer updates only `model`, so `reference` stays as it was.
"""

# %% [markdown]
r"""
**Predict:** the training run below has 60 iterations (6 in quick mode) and takes about 20 seconds.
What percentage of 500 completions is correct afterward?
"""

# %%
predict("accuracy_after_grpo", ...)  # %

# %% tags=["demo"]
if passed("train_grpo"):
    start = time.perf_counter()
    run = train_grpo(START, exact, seed=1, iterations=budget(full=60, quick=6))
    print(f"{len(run['curve'])} iterations in {time.perf_counter() - start:.0f} s")
    print(f"largest lag, in versions: {max(point['lag'] for point in run['curve']):g}")
    display(measured("accuracy_after_grpo", 100 * accuracy(Transformer(run["weights"]))))

# %% tags=["demo"]
if passed("train_grpo"):
    figure, axes = plt.subplots(1, 3, figsize=(9, 2.6), constrained_layout=True)
    titles = {"exact": "fraction correct", "kl": "KL from the reference", "entropy": "entropy per token"}
    for ax, (name, title), color in zip(axes, titles.items(), ["#059669", "#d97706", "#7c3aed"], strict=True):
        ax.plot([point[name] for point in run["curve"]], color=color)
        ax.set(xlabel="iteration", title=title)

# %% [markdown]
r"""
The fraction of correct completions rises, with setbacks, and the only examples were the model's own completions.
The KL estimate has spikes, because each point is a single minibatch, in which a few tokens can dominate the mean.
As the model becomes more certain, its entropy falls, and more groups have equal rewards.
"""

# %% [markdown]
r"""
## Stale completions are off-policy, and the clip bounds only some of them

If rollout workers don't wait for the learner, they generate with old weights, and their completions are *off-policy*.
The [staleness](../docs/glossary.md#staleness) of a batch is the learner's version minus the batch's version.

The next cell keeps the batch of version 0, trains on new batches, and compares the old batch with each new version.

**Predict:** the learner is four versions ahead.
What percentage of the old batch's tokens is outside the band $1 \pm \epsilon$?
"""

# %%
predict("outside_the_band", ...)  # %


# %%
def drift(model, batch):
    """Return the percentages of tokens outside the band, in all and with a gradient, and the largest ratio where A < 0."""
    with torch.no_grad():
        logp = logp_of(model, batch["prompts"], batch["completions"])
    real = batch["completions"] != PAD
    ratio, a = (logp - batch["logp"]).exp()[real], batch["advantages"][:, None].expand_as(real)[real]
    outside = (ratio - 1).abs() > 0.2
    counts = outside & (((a > 0) & (ratio < 1)) | ((a < 0) & (ratio > 1)))  # the clip doesn't apply to these
    return [100 * float(outside.float().mean()), 100 * float(counts.float().mean()), float((ratio * (a < 0)).max())]


# %% tags=["demo"]
if passed("generate") and passed("group_advantage") and passed("grpo_loss"):
    model, reference, worker = Transformer(START), Transformer(START), RolloutWorker(seed=0)
    optimizer, rng = torch.optim.Adam(model.parameters(), LEARNING_RATE), np.random.default_rng(0)
    old, by_lag = None, {}
    for version in range(1 + budget(full=12, quick=4)):
        worker.set_weights(version, model.weights())
        batch = worker.generate(random_prompts(PROMPTS, rng), GROUP_SIZE)
        rewards = np.array([exact(*pair) for pair in pairs_of(batch)]).reshape(-1, GROUP_SIZE)
        batch["advantages"] = torch.tensor(group_advantage(rewards).ravel(), dtype=torch.float32)
        old = old or batch
        by_lag[version - int(old["version"][0])] = drift(model, old)
        for minibatch in minibatches(batch, rng):
            learn(model, reference, optimizer, minibatch)
    display(measured("outside_the_band", by_lag[4][0]))

# %% tags=["demo"]
if passed("generate") and passed("group_advantage") and passed("grpo_loss"):
    outside, with_gradient, largest = zip(*by_lag.values(), strict=True)
    figure, axes = plt.subplots(figsize=(7, 2.6), constrained_layout=True)
    axes.plot(list(by_lag), outside, "o-", color="#059669", label="ratio outside 1 ± ε")
    axes.plot(list(by_lag), with_gradient, "o-", color="#d97706", label="of these, with a gradient")
    axes.set(xlabel="staleness in versions", ylabel="% of tokens", xticks=list(by_lag))
    axes.set_title("The model moves away from an old batch")
    axes.legend()
    print(f"largest ratio of a token with a negative advantage: {max(largest):.1f}")

# %% [markdown]
r"""
One version, which is four optimizer steps, already moves many tokens out of the band.
For most of them, the clip removes the gradient, because the ratio has moved in the direction in which the advantage pushes it.
Only the KL penalty's gradient is left.
So stale completions teach less.

The orange tokens moved the other way, and the clip doesn't apply to them.
If $A < 0$, such a token's weight is its ratio, which has no upper bound.
There are two common remedies:

- *Dual clip* (Ye et al. 2020) sets an upper bound, such as 3, for tokens with $A < 0$.
- [Truncated importance sampling](../docs/glossary.md#truncated-importance-sampling) multiplies a token's loss by a ratio, cut off at a constant: the token's probability in the learner before its first step, divided by the one in the rollout worker.
  It also corrects the *mismatch* of two engines, which compute slightly different $\log \pi$ from the same weights.

Programs also limit the staleness: they drop batches that are too old, or make the rollout workers wait, so your workers record the version.
"""

# %% [markdown]
r"""
## Colocated roles take turns, and disaggregated roles overlap

Generation and learning can take turns on the same devices ([**colocated**](../docs/glossary.md#colocated)) or run at the same time, each on its own devices (**disaggregated**).
Either way, a [placement group](../docs/glossary.md#placement-group) (Chapter 4) reserves the devices; here, a bundle of one CPU stands for a set of GPUs.

If generation and learning take turns, each sits idle while the other runs, and a batch is stale only by the optimizer steps since the iteration began.
If they run at the same time, the rollout worker generates the next batch while the learner learns from the last one.
"""


# %%
class Learner(RolloutWorker):
    """Learns from batches. It stands in for the loop in your notebook."""

    def update(self, batch):
        """Take MINIBATCHES steps on a batch; return the new version, the new weights, and the batch's staleness."""
        staleness = self.version - int(batch["version"][0])
        optimizer, reference = torch.optim.Adam(self.model.parameters(), LEARNING_RATE), Transformer(START)
        batch = {**batch, "advantages": torch.ones(len(batch["prompts"]))}  # only the time counts here
        for minibatch in minibatches(batch, np.random.default_rng(0)):
            learn(self.model, reference, optimizer, minibatch)
        self.version += 1
        return self.version, self.model.weights(), staleness


# %%
def timed(worker, learner, iterations, ahead):
    """Return the seconds per iteration and the staleness of the last batch; `ahead` starts a batch before the new weights exist."""
    prompts, start = random_prompts(PROMPTS, np.random.default_rng(0)), time.perf_counter()
    batch = worker.generate.remote(prompts, GROUP_SIZE)
    for _ in range(iterations):
        version, weights, staleness = learner.update.options(num_returns=3).remote(batch)
        if ahead:
            batch = worker.generate.remote(prompts, GROUP_SIZE)
        loaded = worker.set_weights.remote(version, weights)  # waits for the update
        if not ahead:
            batch = worker.generate.remote(prompts, GROUP_SIZE)
    last, seconds = ray.get(staleness), (time.perf_counter() - start) / iterations
    ray.get([batch, loaded])  # an actor that is stopped while it receives weights prints an error
    return seconds, last


# %%
def in_bundles(bundles, iterations):
    """Return what `timed` returns for a rollout worker in the first bundle and a learner in the last."""
    group = placement_group([{"CPU": 1}] * bundles)
    places = [PlacementGroupSchedulingStrategy(group, index) for index in (0, bundles - 1)]
    kinds = zip([RolloutWorker, Learner], places, strict=True)
    worker, learner = [ray.remote(kind).options(num_cpus=0.5, scheduling_strategy=at).remote(0) for kind, at in kinds]
    try:
        for count in (1, iterations):  # the first iteration only warms up
            ray.get([each.set_weights.remote(0, START) for each in (worker, learner)])
            result = timed(worker, learner, count, ahead=bundles == 2)
        return result
    finally:
        remove_placement_group(group)


# %% tags=["demo"]
if passed("generate") and passed("grpo_loss"):
    for name, bundles in [("colocated", 1), ("disaggregated", 2)]:
        seconds, staleness = in_bundles(bundles, budget(10, 3))
        print(f"{name}: {seconds:.2f} s per iteration, staleness {staleness} (in versions)")

# %% [markdown]
r"""
If two cores are free, a disaggregated iteration takes about as long as the longer of its two parts, and each batch is one version old.
The comparison isn't quite fair, because a colocated program could use both cores for generation, and then both for learning.
On GPUs, memory matters, too: in a colocated program, the rollout workers usually free their KV caches to make room for the learner.
"""

# %% [markdown]
r"""
## The model maximizes the reward, not your intention

A reward that is easy to write is easy to cheat.
Suppose you reward every completion that looks sorted: its digits come from the prompt, they never fall, and it ends with a period.

**Predict:** a correct completion has six tokens.
How many tokens do the completions have on average after 40 iterations (10 in quick mode) with this reward?
"""

# %%
predict("length_with_this_reward", ...)  # tokens

# %% tags=["demo"]
print(inspect.getsource(ascending))
if passed("train_grpo"):
    cheated = train_grpo(START, ascending, seed=2, iterations=budget(full=40, quick=10))["curve"]
    for point in cheated[:: max(1, len(cheated) // 5)]:
        print("prompt and completion:", *point["sample"])
    display(measured("length_with_this_reward", cheated[-1]["length"]))

# %% tags=["demo"]
if passed("train_grpo"):
    figure, axes = plt.subplots(figsize=(7, 2.8), constrained_layout=True)
    for name, label, color in [("reward", "reward", "#d97706"), ("exact", "fraction correct", "#059669")]:
        axes.plot([point[name] for point in cheated], color=color, label=label)
    axes.set(xlabel="iteration", ylim=(-0.03, 1.03), title="The reward rises, and the fraction correct doesn't")
    axes.legend()

# %% [markdown]
r"""
The completions get shorter, in full mode down to no digits at all, and an empty sequence can't be out of order.
This is **reward hacking**, and only a second measure, which you don't reward, shows it.

Try to cheat a reward *before* you train with it.
Write `hacked`, which takes a reward and a prompt of four digits, two of which may be equal, and returns a list of wrong completions that earn at least as much as the correct one.

For the check's rewards, it's enough to try completions of at most five symbols, and the correct completion with something after it.
"""


# %%
def hacked(reward, prompt):
    """Return a list of wrong completions for which `reward(prompt, completion)` is no less than for the correct one."""
    ### BEGIN SOLUTION
    digits = prompt.rstrip("=")
    correct = "".join(sorted(digits)) + "."
    short = ["".join(each) for n in range(len(digits) + 1) for each in product(sorted(set(digits)), repeat=n)]
    tries = {word + end for word in short for end in (".", "")} | {correct + digits, correct + "."}
    return [each for each in tries - {correct} if reward(prompt, each) >= reward(prompt, correct)]
    ### END SOLUTION


# %%
check("hacked", hacked)

# %% [markdown] tags=["solution"]
r"""
`exact` has no loophole, because it accepts only the one correct completion.
If there's no single correct completion, close the loopholes that you know, measure something besides the reward, and read completions during training.
The KL penalty helps, too, because it makes it expensive to move far from the reference.
"""

# %% tags=["demo"]
if passed("hacked"):
    for reward in (ascending, exact):
        found = hacked(reward, "4821=")
        print(f"{reward.__name__}: {len(found)} wrong completions earn as much", sorted(found, key=len)[:4])

# %%
### BEGIN SOLUTION
a_reward_that_rises = "c"
### END SOLUTION

# %%
quiz("a_reward_that_rises", a_reward_that_rises)

# %% [markdown]
r"""
## verl and OpenRLHF have your parts, under other names

These names are from the releases of September 2026.
Expect others in other versions: verl's older `RayPPOTrainer` is deprecated, and OpenRLHF's `--vllm_num_engines` is now `--vllm.num_engines`.

| yours | verl 0.9.1 | OpenRLHF 0.11.2 |
|---|---|---|
| the loop in `train_grpo` | `PPOTrainerSync` | `PPOTrainer` |
| `RolloutWorker` | *rollout*, with vLLM or SGLang | `--vllm.num_engines` |
| `learn` | *actor* of an `ActorRolloutRefWorker`, with FSDP or Megatron | `--actor.num_nodes`, with DeepSpeed |
| the frozen `reference` | *ref* of the same worker | `--ref.num_nodes` |
| `reward_workers` | `RewardLoopManager`, `reward.custom_reward_function` | `--reward.remote_url`, also for a `.py` file |
| `group_advantage` | `algorithm.adv_estimator=grpo` | `--algo.advantage.estimator group_norm` |
| colocated | `trainer.v1.trainer_mode=sync` or `colocate_async` | `--train.colocate_all`, `--vllm.enable_sleep` |
| disaggregated | `trainer.v1.trainer_mode=separate_async` | `--train.async_enable` |
| a limit on staleness | `max_off_policy_threshold` | `--train.async_queue_size` |

They add scale: a model sharded across many GPUs, weights that move from GPU to GPU instead of through an object store, and fast inference engines.
The loop is the same as yours.
"""

# %% tags=["demo"]
ray.shutdown()

# %% [markdown]
r"""
## What you can do now

- You can generate hundreds of completions at once, and improve a model with nothing but a reward.
- You can compute rewards in workers that may hang, and tell from its version how stale a batch is.
- You can search a reward for loopholes before you train with it.
- You can find your program's parts in verl and OpenRLHF.

## Traps

- **`logp` comes from the weights that generated the tokens.**
  If you recompute it at each step, every ratio is 1.
  By default, verl 0.9.1 recomputes it *once*, before the first step, because of the mismatch of its engines.
- **Padding doesn't count**: not in the loss, not in the lengths, and not in `logp`.
- **A group stays together** until its advantages are computed; shuffle afterward.

## Read on

- Shao et al., [*DeepSeekMath*](https://arxiv.org/abs/2402.03300), 2024: section 4 is about GRPO.
- Liu et al., [*Understanding R1-Zero-Like Training*](https://arxiv.org/abs/2503.20783), 2025, and Yu et al., [*DAPO*](https://arxiv.org/abs/2503.14476), 2025: the two variants.
- Sheng et al., [*HybridFlow*](https://arxiv.org/abs/2409.19256), 2024: the paper behind [verl](https://verl.readthedocs.io/); Hu et al., [*OpenRLHF*](https://arxiv.org/abs/2405.11143), 2024, and [its documentation](https://openrlhf.readthedocs.io/).
- Ye et al., [*Mastering Complex Control in MOBA Games*](https://arxiv.org/abs/1912.09729), 2020: dual clip.
- Schulman, [*Approximating KL Divergence*](http://joschu.net/blog/kl-approx.html), 2020: the estimators k1, k2, and k3.
"""
