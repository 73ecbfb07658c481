# %% [markdown] you_learn_to="teach a language model with GRPO, and name the roles of verl and OpenRLHF"
r"""
# Chapter 26 · RL for language models

A language model learns from its own completions, on your laptop.

*About 115 minutes · builds on [Chapter 4](ch04_scheduling.ipynb), [Chapter 5](ch05_faults.ipynb) and [Chapter 10](ch10_actor_learner.ipynb)*

**What you will be able to do**

- let a transformer write many answers at once, with a cache, and keep what the learner needs;
- write GRPO from its paper: advantages within a group, the clipped loss, the distance from a reference;
- check answers in workers that may hang, and send weights to the writers by version;
- say what long and stale answers cost, and see a model cheat its reward;
- name the roles of verl and OpenRLHF, and find each in your own program.
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

from coursekit import begin, budget, check, hint, passed, progress, quiz, solution, warm_up
from coursekit.given.ch26_language_models import exact, rises
from coursekit.given.sorter import DIGITS, END, PAD, Block, Transformer, imitate, prompts, texts

begin("ch26_language_models")

# %%
ray.shutdown()  # ends a Ray that already runs here: its references and actors are gone
ray.init(num_cpus=2, include_dashboard=False)
torch.set_num_threads(1)  # the model is tiny, and the writers need the other core
warm_up(2)

# %% [markdown] tags=["notes"]
r"""
A hundred and fifteen minutes with all six exercises.
With only eighty, give `generate` away and let pairs write `train_grpo`.
Learners who know PPO recognise most of `grpo_loss`: spend the time you gain on reward hacking, which is what a room remembers.
"""

# %% [markdown]
r"""
## A model of 59,000 weights is a language model, too

Many of the programs that use Ray for reinforcement learning today teach language models; verl and OpenRLHF are two of them.
Here you write such a program, with all its parts.
Only the model is small: you make it yourself and download nothing.

Its language has twelve symbols: ten digits, `=` and the full stop.
A **prompt** is `53921=`; the right **answer** is `12359.`, the same digits in order.
A symbol is a *token*, a number from 0 to 11; a thirteenth, PAD, fills a row after its answer has ended.

The model is a transformer, like the large ones: it reads tokens and scores what may come next.
This is what happens in each of its two layers:
"""

# %% tags=["demo"]
print(inspect.getsource(Block.forward))
print(f"weights in all: {sum(part.numel() for part in Transformer().parameters())}")

# %% [markdown]
r"""
A fresh model writes noise.
First it *imitates*: it sees prompts with their right answers, and each step makes the right next token a little more likely.
That is supervised learning, and large language models begin the same way, with far more text.

**Predict:** after 45 steps, how many of its answers are right to the last digit?
"""

# %%
*losses, taught = imitate(steps=45, seed=0)
START = taught.weights()
print(f"loss of the first step: {losses[0]:.2f}, of the last: {losses[-1]:.2f}")

# %% [markdown]
r"""
The losses don't tell; you will see as soon as it can write.

## A cache remembers what was read

A model writes one token at a time: it reads the text so far, scores what may come next, and draws one token.
Reading the whole text again for every token would be a waste.
What a layer makes of earlier tokens does not depend on later ones, so each layer keeps their *keys and values*: the **cache**.
In the code above, `past` is the cache of one layer, and it grows by one token with every call.

- `scores, cache = model(tokens)` reads prompts, shape [B, T], and returns scores of shape [B, T, 12] and a cache.
- `scores, cache = model(tokens, cache)` reads one more token of each row, ended or not, shape [B, 1].

`scores[:, -1]` is about the token that comes next.

Write `generate`.
It writes an answer to each of B prompts at the same time, since a batch costs far less than its rows one by one.
It draws from the softmax of the scores, with the generator `rng`, and notes $\log \pi$ of what it drew.
An answer ends with END, the token of the full stop, which belongs to it.
The rest of its row is PAD, where `logp` is 0.
`generate` stops when all answers have ended, or after `limit` tokens.
"""


# %%
@torch.no_grad()
def generate(model, asked, limit, rng):
    """Return {"answers": tokens, "logp": log π of each}, both of shape [B, T] with T <= limit; `rng` is a torch.Generator."""
    ### BEGIN SOLUTION
    running, answers, logps = torch.ones(len(asked), dtype=bool), [], []
    scores, cache = model(asked)
    while True:
        logp = torch.log_softmax(scores[:, -1], -1)
        drawn = torch.multinomial(logp.exp(), 1, generator=rng)
        token = torch.where(running, drawn[:, 0], PAD)
        answers.append(token)
        logps.append(torch.where(running, logp.gather(1, drawn)[:, 0], 0.0))
        running = running & (token != END)
        if len(answers) == limit or not running.any():
            return {"answers": torch.stack(answers, 1), "logp": torch.stack(logps, 1)}
        scores, cache = model(token[:, None], cache)
    ### END SOLUTION


# %%
check("generate", generate)

# %% [markdown] tags=["solution"]
r"""
Rows that have ended still cost time: the model reads them with the others, as PAD.
vLLM and SGLang, the engines of the large frameworks, replace a row with the next prompt as soon as it ends: *continuous batching*.
"""

# %%
LIMIT = 16  # tokens of an answer, at most


def asked_and_answered(model, count, seed=0):
    """Return prompts and the model's answers to them, as strings."""
    asked = prompts(count, np.random.default_rng(seed))
    made = generate(model, asked, LIMIT, torch.Generator().manual_seed(seed))
    return texts(asked), texts(made["answers"])


def share_exact(model):
    """Return the share of right answers to 500 prompts that are the same every time."""
    return np.mean([exact(*pair) for pair in zip(*asked_and_answered(model, 500), strict=True)])


# %% tags=["demo"]
if passed("generate"):
    for prompt, answer in zip(*asked_and_answered(taught, 5), strict=True):
        print(prompt, answer, "right" if exact(prompt, answer) else "wrong")
    print(f"right answers of 500: {share_exact(taught):.0%}")

# %%
### BEGIN SOLUTION
what_a_cache_saves = "b"
### END SOLUTION

# %%
quiz("what_a_cache_saves", what_a_cache_saves)

# %% [markdown]
r"""
## The longest answer holds up the batch

The batch is done when its last answer is.
**Predict:** all right answers have six tokens; how long is the longest of 512?
"""

# %% tags=["demo"]
if passed("generate"):
    lengths = np.array([len(answer) for answer in asked_and_answered(taught, 512)[1]])
    figure, axes = plt.subplots(figsize=(7, 2.6), constrained_layout=True)
    axes.bar(*np.unique(lengths, return_counts=True), color="#7c3aed")
    axes.set(xlabel="tokens of an answer", ylabel="answers", yscale="log", title="The last column decides when the batch is done")
    print(f"mean length {lengths.mean():.1f}, longest {lengths.max()}", end="; ")
    print(f"{1 - lengths.mean() / lengths.max():.0%} of what the batch wrote is padding")

# %% [markdown]
r"""
A few answers lose count of their digits, and all the others wait for them.
Real answers differ more: some take a hundred tokens, some ten thousand.
Programs limit the length, as ours does, give free places to new prompts, or learn from the finished answers while the writers complete the long ones.
"""

# %% [markdown]
r"""
## The group stands in for a critic

Now let the model learn from its own answers.
It no longer sees the right ones; a **reward** says 1 for right and 0 for wrong.
When a program can check the answer, as in sorting, mathematics, or code with tests, this is called a *verifiable reward*.

PPO needs a critic to say how much better than expected an answer was.
**GRPO**, group relative policy optimisation (Shao et al. 2024), needs none: the model answers each prompt G times, and each answer is compared with its group:

$$\hat A_i = \frac{r_i - \mathrm{mean}(r_1, \ldots, r_G)}{\mathrm{std}(r_1, \ldots, r_G)}$$

All tokens of an answer share its advantage.
When all rewards of a group are equal, no answer is better, and all advantages are 0.
"""


# %%
def group_advantage(rewards):
    """Return the advantage of each answer within its group, for an array of rewards of shape [prompts, G]."""
    ### BEGIN SOLUTION
    centred = rewards - rewards.mean(axis=1, keepdims=True)
    return centred / (rewards.std(axis=1, keepdims=True) + 1e-6)
    ### END SOLUTION


# %%
check("group_advantage", group_advantage)

# %% [markdown] tags=["solution"]
r"""
The small number in the denominator matters only where the deviation is 0, and there the numerator is 0, too.
A prompt solved once in sixteen tries gives its one right answer an advantage near 4: rare successes push hard.
"""

# %%
### BEGIN SOLUTION
nothing_to_learn = "a"
### END SOLUTION

# %%
quiz("nothing_to_learn", nothing_to_learn)

# %% [markdown]
r"""
## The loss clips, and pays for the distance from a reference

Here $r_{i,t}$ is the ratio, not a reward; it and the clip are those of [chapter 10](ch10_actor_learner.ipynb), for each token.
New is a price for moving away from a **reference**: a frozen copy of the model that began.
A reward knows only what it checks; the reference knows what the model learned before.
The price estimates the KL divergence, which says how far apart two distributions lie, and is never negative (equation 4 of the paper):

$$D_{i,t} = e^{d} - d - 1 \qquad \text{with} \qquad d = \log \pi_{ref}(a_{i,t}) - \log \pi_\theta(a_{i,t})$$

Each answer $i$ has $|o_i|$ tokens, and the objective, equation 3, averages first over the tokens of an answer, then over the answers:

$$J(\theta) = \frac{1}{B} \sum_{i} \frac{1}{|o_i|} \sum_{t} \Bigl[\min\bigl(r_{i,t} \hat A_i,\ \mathrm{clip}(r_{i,t}, 1 - \epsilon, 1 + \epsilon) \hat A_i\bigr) - \beta D_{i,t}\Bigr]$$

The loss is its negative.
`mask` is 1 at the tokens of an answer, and 0 at its padding.
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
Average over all tokens at once, and a long answer counts more than a short one.
Average within each answer first, and each token of a long answer counts less.
Both are in use, and papers argue about the choice, which verl calls `loss_agg_mode`.
"""

# %%
### BEGIN SOLUTION
whose_logp = "c"
### END SOLUTION

# %%
quiz("whose_logp", whose_logp)

# %% [markdown]
r"""
A batch is a dict of tensors: `asked`, `answers`, `logp` from when they were written, and `advantages`.
`learn` takes one step on it, and reports how far the model is from its reference and the share of tokens whose ratio has left the band $1 \pm \epsilon$.
"""


# %%
def logp_of(model, asked, answers):
    """Return log π of each token of the answers, shape [B, T]: the whole text is read at once, since it is known."""
    scores, _ = model(torch.cat([asked, answers], 1)[:, :-1])
    logp = torch.log_softmax(scores[:, asked.shape[1] - 1 :], -1)
    return logp.gather(-1, answers.clamp(max=END)[..., None])[..., 0]


# %%
def learn(model, reference, optimizer, batch):
    """Take one step of the optimizer; return {"kl": ..., "outside": ...}."""
    logp = logp_of(model, batch["asked"], batch["answers"])
    with torch.no_grad():
        ref_logp = logp_of(reference, batch["asked"], batch["answers"])
    mask = (batch["answers"] != PAD).float()
    optimizer.zero_grad()
    grpo_loss(logp, batch["logp"], ref_logp, batch["advantages"], mask).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    gone, d = (logp - batch["logp"]).exp() - 1, ref_logp - logp
    means = {"kl": d.exp() - d - 1, "outside": (gone.abs() > 0.2).float()}
    return {name: float((each.detach() * mask).sum() / mask.sum()) for name, each in means.items()}


# %% [markdown]
r"""
## What checks an answer may hang

Sorted digits are checked in a microsecond.
Answers that are programs have to be *run*; some never end, and some catch every attempt to interrupt them.
So rewards come from workers, with a time limit, and an answer without a reward by then gets 0.

`verify(prompt, answer)` returns a number.
Each of the `batches` is a list of (prompt, answer) pairs.
Start one task for each batch, and wait until all are done or `seconds` have passed.
For a late batch, return a 0 for each of its pairs, and stop the task: it would keep its CPU forever ([chapter 5](ch05_faults.ipynb)).
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
One task for each *pair* would lose fewer rewards to a hanging one, at the price of a call for each answer (chapter 1).
`force=True` ends the worker's process; the interrupt of a plain `ray.cancel` is no help against code that catches it or never returns to Python.
"""

# %% [markdown]
r"""
## Writers, reward workers, a learner

![The learner in your notebook puts versions of its weights into the object store; two writers with a cache read them and send answers back; reward workers turn answers into rewards; a frozen reference stands beside the learner](../img/ch26_language_models.svg)

A **writer** is to a language model what a sampler is to a game.
It notes the version of the weights it writes with.
"""


# %%
PROMPTS, COPIES, MINIBATCHES = 32, 16, 4  # prompts of an iteration, answers to each (G), steps of the learner
LEARNING_RATE = 1e-3


class Writer:
    """Writes answers with the weights that it received last. `ray.remote` makes it an actor."""

    def __init__(self, seed):
        torch.set_num_threads(1)
        self.model, self.rng = Transformer(), torch.Generator().manual_seed(seed)

    def set_weights(self, version, weights):
        """Write with these from now on."""
        self.version = version
        self.model.load(weights)

    def write(self, asked, copies):
        """Return `copies` answers to each prompt, as a batch."""
        asked = asked.repeat_interleave(copies, 0)
        return {"asked": asked, **generate(self.model, asked, LIMIT, self.rng), "version": self.version}


# %%
@contextmanager
def writers(count, seed):
    """Yield writers as actors, and end them with the block."""
    actors = [ray.remote(Writer).remote(1000 * seed + i) for i in range(count)]
    try:
        ray.get([actor.__ray_ready__.remote() for actor in actors])
        yield actors
    finally:
        for actor in actors:
            ray.kill(actor)


# %%
def joined(parts):
    """Return the rows of several batches as one, padded to the longest answer."""
    width = max(part["answers"].shape[1] for part in parts)
    fill = {"asked": lambda x: x, "answers": partial(padded, width, PAD), "logp": partial(padded, width, 0.0)}
    return {name: torch.cat([grow(part[name]) for part in parts]) for name, grow in fill.items()}


def padded(width, value, rows):
    """Return rows of this width, filled up with a value."""
    return torch.nn.functional.pad(rows, (0, width - rows.shape[1]), value=value)


# %%
def rewards_for(batch, verify, seconds=60):
    """Return the rewards of a batch as an array of shape [B], from four tasks."""
    pairs = list(zip(texts(batch["asked"]), texts(batch["answers"]), strict=True))
    size = -(-len(pairs) // 4)
    parts = [pairs[start : start + size] for start in range(0, len(pairs), size)]
    return np.concatenate(reward_workers(verify, parts, seconds))


# %%
def minibatches(batch, rng):
    """Yield MINIBATCHES parts of a batch, in a new order."""
    for rows in np.array_split(rng.permutation(len(batch["asked"])), MINIBATCHES):
        yield {name: column[torch.from_numpy(rows)] for name, column in batch.items()}


def report(batch, rewards, learned):
    """Return one point of a curve: means over the batch, and how the last step went."""
    pairs = list(zip(texts(batch["asked"]), texts(batch["answers"]), strict=True))
    right, length = np.mean([exact(*pair) for pair in pairs]), np.mean([len(answer) for _, answer in pairs])
    return {"reward": float(np.mean(rewards)), "exact": right, "length": length, "sample": pairs[0], **learned}


# %% [markdown]
r"""
Write `train_grpo`.
It makes a model, a frozen reference and Adam with our learning rate, starts two `writers`, and in each iteration:

1. Put the weights into the store once, and send every writer the *version*, which is the iteration's number, and the object reference.
2. Let both writers write at the same time: each gets half of PROMPTS new prompts, and writes COPIES answers to each.
3. Join the parts, get the rewards with `rewards_for`, and turn them into a float32 column `advantages`, one for each answer.
   The answers to one prompt are neighbours, so `rewards.reshape(-1, COPIES)` has a group in each row.
4. `learn` from every minibatch, and append `report(batch, rewards, learned)` to `curve`; `learned` is what the last `learn` returned.

Prompts and minibatches come from one NumPy generator with your seed.
The check begins with a model that sorts, badly, by a secret order of the digits, and rewards that order alone.
Any answer also earns the first three digits of its prompt, as a number, which makes no difference within a group.
It tries up to three seeds.
"""


# %%
def train_grpo(weights, verify, seed, iterations):
    """Return {"weights": those after learning, "curve": [report of each iteration]}; `verify` rewards an answer."""
    ### BEGIN SOLUTION
    model, reference = Transformer(weights), Transformer(weights)
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE)
    rng, curve = np.random.default_rng(seed), []
    with writers(2, seed) as actors:
        for version in range(iterations):
            ref = ray.put(model.weights())
            for actor in actors:
                actor.set_weights.remote(version, ref)
            parts = [actor.write.remote(prompts(PROMPTS // 2, rng), COPIES) for actor in actors]
            batch = joined(ray.get(parts))
            rewards = rewards_for(batch, verify)
            advantages = group_advantage(rewards.reshape(-1, COPIES)).ravel()
            batch["advantages"] = torch.tensor(advantages, dtype=torch.float32)
            for minibatch in minibatches(batch, rng):
                learned = learn(model, reference, optimizer, minibatch)
            curve.append(report(batch, rewards, learned))
    return {"weights": model.weights(), "curve": curve}
    ### END SOLUTION


# %%
check("train_grpo", train_grpo)

# %% [markdown] tags=["solution"]
r"""
The optimizer never touches `reference`, so it stays as it was.
Compute the advantages before you cut the batch into minibatches: a shuffled minibatch holds pieces of many groups.
"""

# %% [markdown]
r"""
**Predict:** where will the share of right answers be after this many iterations, and will every iteration be better than the one before?
"""

# %% tags=["demo"]
if passed("train_grpo"):
    start = time.perf_counter()
    run = train_grpo(START, exact, seed=1, iterations=budget(full=120, quick=6))
    print(f"{len(run['curve'])} iterations in {time.perf_counter() - start:.0f} s", end="; right answers of 500 ")
    print(f"before: {share_exact(Transformer(START)):.0%}, after: {share_exact(Transformer(run['weights'])):.0%}")

# %% tags=["demo"]
if passed("train_grpo"):
    figure, axes = plt.subplots(1, 2, figsize=(8, 2.8), constrained_layout=True)
    for ax, name, colour in zip(axes, ["exact", "kl"], ["#059669", "#d97706"], strict=True):
        ax.plot([point[name] for point in run["curve"]], color=colour)
        ax.set(xlabel="iteration", title={"exact": "right answers", "kl": "distance from the reference"}[name])

# %% [markdown]
r"""
The share rises, with setbacks, and the model never saw a right answer unless it wrote one itself.
The distance from the reference is small, with spikes: each point is one minibatch, in which a few tokens that became unlikely weigh heavily.
"""

# %% [markdown]
r"""
## Stale answers are clipped, and teach less

While writers and learner wait for each other, part of the machine rests.
Let the writers go on, and they write with old weights: their answers are *stale*.

**Predict:** the next cell learns from one batch of answers again and again.
What share of its tokens has left the band after one step, and after sixteen?
"""

# %% tags=["demo"]
if passed("generate") and passed("grpo_loss") and passed("group_advantage"):
    model, reference, writer = Transformer(START), Transformer(START), Writer(seed=0)
    writer.set_weights(0, START)
    batch = writer.write(prompts(PROMPTS, np.random.default_rng(0)), COPIES)
    pairs = zip(texts(batch["asked"]), texts(batch["answers"]), strict=True)
    rewards = np.array([exact(*pair) for pair in pairs]).reshape(-1, COPIES)
    batch["advantages"] = torch.tensor(group_advantage(rewards).ravel(), dtype=torch.float32)
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE)
    outside = [100 * learn(model, reference, optimizer, batch)["outside"] for _ in range(17)]

# %% tags=["demo"]
if passed("generate") and passed("grpo_loss") and passed("group_advantage"):
    figure, axes = plt.subplots(figsize=(7, 2.6), constrained_layout=True)
    axes.plot(outside, "o-", color="#059669")
    axes.set(xlabel="steps since the answers were written", ylabel="% of tokens", title="Tokens whose ratio has left 1 ± ε");

# %% [markdown]
r"""
A single step takes many tokens outside, and their share then grows slowly.
A token that its advantage has pushed out pushes no further: the clip keeps stale answers from doing harm, and so from teaching much.
So programs that let writers run ahead limit the lead to a few versions and throw away older answers.
That is why your writers note the version.
"""

# %% [markdown]
r"""
## In turn on the same CPUs, or side by side

Writing and learning can share the same processors *in turn*, or have their own *side by side*.
The frameworks call the first **colocated** and the second **disaggregated**; both are placement groups ([chapter 4](ch04_scheduling.ipynb)).

Colocated, nothing is stale, and each part rests while the other works.
Side by side, writers write the next answers while the learner learns from the last ones, which are one version old.
Here a bundle of one CPU stands for a set of GPUs.
"""


# %%
class Worker(Writer):
    """Writes, and can learn as well."""

    def study(self, steps):
        """Take steps on a batch; return nothing that matters: only the time counts here."""
        asked = prompts(128, np.random.default_rng(0))
        batch = {**generate(self.model, asked, LIMIT, self.rng), "asked": asked, "advantages": torch.ones(128)}
        optimizer = torch.optim.Adam(self.model.parameters(), LEARNING_RATE)
        for _ in range(steps):
            learn(self.model, self.model, optimizer, batch)


# %%
def seconds_of(bundles, iterations):
    """Return the seconds of an iteration for a writer in the first bundle and a learner in the last."""
    group = placement_group([{"CPU": 1}] * bundles)
    places = [PlacementGroupSchedulingStrategy(group, index) for index in (0, bundles - 1)]
    writer, learner = [ray.remote(Worker).options(num_cpus=0.5, scheduling_strategy=at).remote(0) for at in places]
    try:
        ray.get([each.set_weights.remote(0, START) for each in (writer, learner)])
        ray.get([writer.write.remote(prompts(8, np.random.default_rng(0)), 16), learner.study.remote(1)])
        return timed(writer, learner, iterations, in_turn=bundles == 1)
    finally:
        remove_placement_group(group)


# %%
def timed(writer, learner, iterations, in_turn):
    """Return the seconds of an iteration, with each part after the other, or both at once."""
    asked, start = prompts(PROMPTS, np.random.default_rng(0)), time.perf_counter()
    for _ in range(iterations):
        answers = writer.write.remote(asked, COPIES)
        if in_turn:
            ray.get(answers)
        ray.get([answers, learner.study.remote(MINIBATCHES)])
    return (time.perf_counter() - start) / iterations


# %% tags=["demo"]
if passed("generate") and passed("grpo_loss"):
    for name, bundles in [("colocated, in turn", 1), ("disaggregated, side by side", 2)]:
        print(f"{name}: {seconds_of(bundles, budget(10, 3)):.2f} s an iteration")

# %% [markdown]
r"""
Side by side, an iteration lasts as long as its longer part if two cores are free; if other programs want them too, it may even take longer.
The price is staleness.
And the comparison is not quite fair: colocated, writing could use both cores, and then learning could.
On GPUs memory matters as well: in turn, the writers' caches must make room for the learner's gradients, and be built up again.
"""

# %% [markdown]
r"""
## The model does what you pay for

A reward that is easy to write is easy to cheat.
Suppose you pay for any answer that looks sorted: its digits come from the prompt, they never fall, and it ends with a full stop.
Every right answer earns 1, so what could go wrong?

**Predict** what the model will write after training on this reward.
"""

# %% tags=["demo"]
print(inspect.getsource(rises))
if passed("train_grpo"):
    cheated = train_grpo(START, rises, seed=2, iterations=budget(full=40, quick=10))["curve"]

# %% tags=["demo"]
if passed("train_grpo"):
    figure, axes = plt.subplots(figsize=(7, 2.8), constrained_layout=True)
    for name, label, colour in [("reward", "what you pay", "#d97706"), ("exact", "right answers", "#059669")]:
        axes.plot([point[name] for point in cheated], color=colour, label=label)
    axes.set(xlabel="iteration", ylim=(-0.03, 1.03), title="The reward rises, and the answers get worse")
    axes.legend()
    for point in cheated[:: max(1, len(cheated) // 5)]:
        print("prompt and answer:", *point["sample"])

# %% [markdown]
r"""
The answers above grow shorter, down to none at all, which cannot fall: **reward hacking**.
The reward's curve looks like success, and only a second measure, which you do not pay for, shows what happened.

Try to cheat a reward *before* you train with it.
Write `hacked`: given a reward and a prompt of four digits, it returns wrong answers that earn as much as the right one, or more.
If the reward has no hole, the list is empty.
The right answer is `"".join(sorted(digits)) + "."`.

Try nothing, the prompt itself, a digit too few, one digit over and over, the right answer with something after it, falling digits.
Or try all short strings; the check's rewards have holes among the answers of at most five symbols, or after the right answer.
"""


# %%
def hacked(reward, prompt):
    """Return a list of wrong answers to which `reward(prompt, answer)` pays no less than to the right one."""
    ### BEGIN SOLUTION
    digits = prompt.rstrip("=")
    right = "".join(sorted(digits)) + "."
    short = ["".join(each) for n in range(len(digits) + 1) for each in product(sorted(set(digits)), repeat=n)]
    tries = {word + end for word in short for end in (".", "")} | {right + digits, right + ".", right[:-1] + right}
    return [each for each in tries - {right} if reward(prompt, each) >= reward(prompt, right)]
    ### END SOLUTION


# %%
check("hacked", hacked)

# %% [markdown] tags=["solution"]
r"""
The closed reward is `exact`: it compares the whole answer with the only right one.
When there is no single right answer, close the holes you know, measure something besides the reward, and read samples while it learns.
The distance from the reference helps, too: it makes odd answers expensive.
"""

# %% tags=["demo"]
if passed("hacked"):
    for reward in (rises, exact):
        found = hacked(reward, "4821=")
        print(f"{reward.__name__}: {len(found)} wrong answers are paid like the right one", sorted(found, key=len)[:4])

# %%
### BEGIN SOLUTION
a_reward_that_rises = "c"
### END SOLUTION

# %%
quiz("a_reward_that_rises", a_reward_that_rises)

# %% [markdown]
r"""
## verl and OpenRLHF have your parts, under other names

| yours | in verl | in OpenRLHF |
|---|---|---|
| your notebook's loop in `train_grpo` | `RayPPOTrainer`, a single process that tells all others what to do | the single controller behind `train_ppo_ray` |
| `Writer`, `generate` | the *rollout* of an `ActorRolloutRefWorker`, with vLLM or SGLang | vLLM engines: `--vllm_num_engines` |
| `learn` | the *actor* of the same worker, with FSDP or Megatron | the actor, with DeepSpeed: `--actor_num_nodes` |
| the frozen `reference` | the *ref* of the same worker | the reference: `--ref_num_nodes` |
| `reward_workers` | a reward function, or a reward model | a reward function, or the reward model: `--reward_num_nodes` |
| `group_advantage`: no critic | a `CriticWorker`, for PPO only | the critic, for PPO only: `--critic_num_nodes` |
| one bundle, in turn | roles that share a `RayResourcePool` | `--colocate_all_models` and `--vllm_enable_sleep` |
| bundles side by side | roles with a pool each | groups with GPUs of their own; `--async_train` lets them overlap |

What they add is size: a model in pieces on many GPUs, by FSDP, Megatron or DeepSpeed; weights that travel from GPU to GPU and not through a store; writers that take in new prompts as others end, by vLLM or SGLang.
The loop is yours.
"""

# %% tags=["demo"]
ray.shutdown()

# %% [markdown]
r"""
## What you can do now

- You let a transformer write hundreds of answers at once, and read each token once.
- You wrote GRPO from its paper, and taught a model with nothing but a reward.
- Your rewards come from workers that may hang, and your writers know the version of their weights.
- You saw what long and stale answers cost, and compared in turn with side by side.
- You watched a model cheat, and can search a reward for holes before you train with it.
- You can find your own program's parts in verl's and OpenRLHF's configuration.

## Traps

- **`logp` is what the writer noted.** Computed again at each step, it makes every ratio 1.
  verl computes it again *once*, before the first step, because its writers and its learner round differently.
- **Padding counts nowhere**: not in the loss, not in the lengths, not in `logp`.
- **A group belongs together** until its advantages are computed; shuffle afterwards.
- **A group with equal rewards** divides 0 by 0.
- **A time limit on `ray.get` stops the waiting, not the task.** Cancel what is late.
- **A reward that rises** is no proof.
  Measure something that you do not pay for.

## Read on

- Shao et al., [*DeepSeekMath*](https://arxiv.org/abs/2402.03300), 2024: GRPO is its section 4.
- Sheng et al., [*HybridFlow: A Flexible and Efficient RLHF Framework*](https://arxiv.org/abs/2409.19256), 2024: the paper behind verl, and [verl's guide](https://verl.readthedocs.io/en/latest/hybrid_flow.html) to it.
- Hu et al., [*OpenRLHF*](https://arxiv.org/abs/2405.11143), 2024, and [its documentation](https://openrlhf.readthedocs.io/).
- Schulman, [*Approximating KL Divergence*](http://joschu.net/blog/kl-approx.html), 2020: where $e^d - d - 1$ comes from.
"""
