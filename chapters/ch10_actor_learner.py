# %% [markdown] you_learn_to="write PPO with samplers and a learner yourself"
r"""
# Chapter 10 · Distributed PPO from scratch

Two hundred lines of code learn to balance a pole in seconds.

*About 105 minutes · builds on [Chapter 3](ch03_actors.ipynb), [Chapter 7](ch07_environments.ipynb), and [Chapter 8](ch08_rollouts.ipynb)*

**What you will be able to do**

- write PPO from its paper: the clipped loss, the minibatches, and the gradient step;
- run PPO on Ray, with several samplers and one learner;
- keep reset frames out of the experience;
- train an agent that balances CartPole's pole for the full 500 steps, and test it fairly;
- measure where the time of an iteration goes, and how much of it more samplers can save.
"""

# %%
import time
from contextlib import contextmanager

import gymnasium
import matplotlib.pyplot as plt
import numpy as np
import ray
import torch
from scipy.special import log_softmax
from torch import nn

from coursekit import Drawn, begin, budget, check, explain, hint, measured, passed, predict, progress, puzzle, quiz
from coursekit import review
from coursekit import solution, strip, warm_up
from coursekit.given.cartpoles import cartpoles

begin("ch10_actor_learner")

# %%
ray.shutdown()  # stops a Ray instance that's already running here: its references and actors are gone
ray.init(num_cpus=2, include_dashboard=False)
torch.set_num_threads(1)  # the network is tiny, so more threads gain nothing, and the samplers need the other core
warm_up(2)

# %% [markdown] tags=["notes"]
r"""
The run sheet allots 105 minutes.
Run the two cells above before you speak.
"""

# %% [markdown]
r"""
## Many samplers collect, and one learner learns

Here, the samplers and the learner from Chapter 8 become one program.

![The learner puts its weights into the object store once; two samplers with sixteen environments each read them and send back rows of experience](../img/ch10_actor_learner.svg)

Each round is an **iteration**:

1. The learner puts its weights into the object store *once* and sends every sampler the reference.
2. Each sampler steps its environments 64 times and returns *rows* of experience.
3. The learner goes over all rows ten times (ten [*epochs*](../docs/glossary.md#epoch)) and takes a gradient step on each [*minibatch*](../docs/glossary.md#minibatch) of 512 rows.

The algorithm is [**PPO**](../docs/glossary.md#ppo), proximal policy optimization (Schulman et al. 2017).
You write the parts that decide whether the agent learns, and the rest of the code is here for you to read.
These are the main settings:
"""

# %%
ENVS = 32  # environments in total, divided among the samplers
STEPS = 64  # steps of each environment per iteration: T in the paper
EPOCHS, MINIBATCH = 10, 512  # K and M in the paper
GAMMA, LAMBDA = 0.99, 0.95  # the discount factor, and the λ of GAE
LEARNING_RATE = 2e-3
SOLVED = 475  # CartPole counts as solved at this mean return
STOP, LIMIT = 490, 200_000  # training stops at this mean return, or after this many steps

# %% [markdown]
r"""
PPO is an [actor-critic](../docs/glossary.md#actor-critic) algorithm, so `Policy` has two small networks.
The *actor* (which has nothing to do with Ray's actors) computes a [logit](../docs/glossary.md#logit) for each action, and the softmax of the logits is $\pi_\theta(a \mid s)$, the probability of each action.
The *critic* estimates $V(s)$, the expected discounted return from $s$ onward.
$\theta$ stands for the weights of both networks.
"""


# %%
def network(inputs, outputs, gain, width=64):
    """Return a network with two hidden layers; `gain` scales the initial weights of the output layer."""
    layers = [nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, outputs)]
    for layer, size in zip(layers[::2], [2**0.5, 2**0.5, gain], strict=True):
        nn.init.orthogonal_(layer.weight, size)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers)


# %%
class Policy(nn.Module):
    """Two networks that take observations, shape [B, 4], and return logits, shape [B, A], and values, shape [B]."""

    def __init__(self, inputs=4, actions=2):
        super().__init__()
        self.actor = network(inputs, actions, gain=0.01)  # small logits: at first, all actions are about equally likely
        self.critic = network(inputs, 1, gain=1.0)

    def forward(self, obs):
        """Return logits and values."""
        return self.actor(obs), self.critic(obs)[..., 0]

    def weights(self):
        """Return {"actor": [(weight, bias), ...], "critic": [...]}, copied into arrays."""
        parts = {"actor": self.actor[::2], "critic": self.critic[::2]}
        return {name: [tuple(p.detach().numpy().copy() for p in layer.parameters()) for layer in layers]
                for name, layers in parts.items()}


# %% [markdown]
r"""
A sampler doesn't need PyTorch: `weights()` returns the weights as arrays, and `perceptron` uses them in NumPy.
For a handful of observations, NumPy is faster, and a process that never imports PyTorch starts sooner and needs roughly 200 MB less memory.
"""


# %%
def perceptron(layers, x):
    """Return the outputs of a network with these weights, computed in NumPy."""
    *hidden, (weight, bias) = layers
    for w, b in hidden:
        x = np.tanh(x @ w.T + b)
    return x @ weight.T + bias


# %% [markdown]
r"""
## An advantage says how much better than expected a step turned out

You wrote `gae` in [Chapter 8](ch08_rollouts.ipynb), which explains how it treats the two ways an episode can end.
Here's our version:
"""


# %%
def gae(rewards, values, terminated, truncated):
    """Return advantages, shape [T, N]; `values` is [T+1, N], its last row the bootstrap (Schulman et al. 2016, eq. 16)."""
    advantages, later = np.zeros_like(values[:-1]), 0.0  # floats like the values: the rewards may be integers
    for t in reversed(range(len(rewards))):
        delta = rewards[t] + GAMMA * values[t + 1] * (1.0 - terminated[t]) - values[t]
        later = delta + GAMMA * LAMBDA * later * (1.0 - (terminated[t] | truncated[t]))
        advantages[t] = later
    return advantages


# %% [markdown]
r"""
## A sampler returns rows of experience, without the reset frames

`cartpoles(16)` creates sixteen CartPoles in Gymnasium's own vector environment, which moves all of the carts at once in NumPy.
As in [Chapter 7](ch07_environments.ipynb), the frame after the end of an episode is only a reset, and the `real` mask says which frames count.
In a reset frame, the policy still *sees* the last observation of the old episode, so `gae` can use `values[t + 1]` even after a truncation.
"""


# %%
class Stepper:
    """Steps several environments together, with actions sampled from a policy."""

    def __init__(self, make_envs, count, seed):
        self.envs, self.rng = make_envs(count), np.random.default_rng(seed)
        self.obs, _ = self.envs.reset(seed=seed)
        self.over = np.zeros(count, bool)  # where an episode has just ended, the next frame is a reset

    def step(self, actor):
        """Return one frame of each environment; `actor` holds the weights of the network that chooses the actions."""
        obs, real = self.obs, ~self.over
        logits = perceptron(actor, obs)
        actions = (logits + self.rng.gumbel(size=logits.shape)).argmax(-1)  # samples from the softmax, for all rows at once
        self.obs, rewards, terminated, truncated, _ = self.envs.step(actions)
        self.over = terminated | truncated
        ends = {"terminated": terminated, "truncated": truncated}
        return {"obs": obs, "actions": actions, "rewards": rewards, "real": real, **ends}


# %% [markdown]
r"""
A sampler calls `step` 64 times and turns the frames into rows.
A row is one step of one environment: the observation, the action, $\log \pi_{old}(a \mid s)$, the advantage, and the *target* $\hat A_t + V(s_t)$ for the critic.
The sampler computes the last three for the whole fragment at once, with the weights that chose the actions.
"""


# %%
def rows_of(frames, last_obs, weights):
    """Return the real frames of a fragment as rows; `frames` holds arrays of shape [T, N, ...]."""
    obs, actions = frames["obs"], frames["actions"]
    values = perceptron(weights["critic"], np.concatenate([obs, last_obs[None]]))[..., 0]  # [T+1, N]
    advantages = gae(frames["rewards"], values, frames["terminated"], frames["truncated"])
    logp = log_softmax(perceptron(weights["actor"], obs), axis=-1)  # [T, N, 2], one number for each action
    logp = np.take_along_axis(logp, actions[..., None], axis=-1)[..., 0]  # [T, N], for the action that was taken
    rows = {"obs": obs, "actions": actions, "logp": logp, "advantages": advantages, "targets": advantages + values[:-1]}
    return {name: column[frames["real"]] for name, column in rows.items()}


# %%
class Sampler(Stepper):
    """Collects experience with the weights that it received last; an ordinary class, which `ray.remote` turns into an actor class."""

    def set_weights(self, weights):
        """Use these weights from now on."""
        self.weights = weights

    def sample(self):
        """Return the experience of STEPS frames as a dict of arrays of equal length."""
        frames = [self.step(self.weights["actor"]) for _ in range(STEPS)]
        columns = {name: np.stack([frame[name] for frame in frames]) for name in frames[0]}
        return rows_of(columns, self.obs, self.weights)


# %% [markdown]
r"""
Try a sampler without Ray: 64 steps of 16 environments make 1,024 frames.
"""

# %% tags=["demo"]
sampler = Sampler(cartpoles, 16, seed=0)
sampler.set_weights(Policy().weights())
rows = sampler.sample()
for name, column in rows.items():
    print(f"{name:10} {str(column.shape):10} {column.dtype}")
print(f"{16 * STEPS - len(rows['obs'])} of the {16 * STEPS} frames are resets")
print(f"the rows take {sum(column.nbytes for column in rows.values()) / 1000:.0f} kB")

# %% [markdown]
r"""
About one frame in twenty-five is a reset, because a fresh policy's episodes last only about twenty steps.
If you left these frames in, they'd teach the critic that a fallen pole is as good as a fresh start.
The mistake is easy to miss, because the better the agent gets, the fewer resets there are.

The rows take less than 100 kB, so Ray sends them directly to your notebook, where the learner runs.
"""

# %% [markdown]
r"""
## Store the weights once, and send every sampler a reference

After every iteration, all samplers need the latest weights.

Write `weight_sync`, which takes a policy and a list of samplers, and sends the policy's current weights to all of them.
`policy.weights()` returns the weights, and a sampler's `set_weights` method takes them.
The check calls your function before and after the policy's weights change, and looks at what arrives at each sampler.
"""


# %%
def weight_sync(policy, samplers):
    """Store one copy of the policy's current weights in the object store, and send every sampler a reference to it."""
    ### BEGIN SOLUTION
    ref = ray.put(policy.weights())
    for sampler in samplers:
        sampler.set_weights.remote(ref)
    ### END SOLUTION


# %%
check("weight_sync", weight_sync)

# %% [markdown] tags=["solution"]
r"""
You don't have to wait for anything.
The weights are in the store when `ray.put` returns, and it doesn't matter whether the calls have *run* yet, as the next quiz shows.
With two samplers on one machine, the single copy saves little; with a hundred samplers, or a gigabyte of weights, it saves a lot.
"""

# %%
### BEGIN SOLUTION
sync_then_sample = "a"
### END SOLUTION

# %%
quiz("sync_then_sample", sync_then_sample)

# %% [markdown]
r"""
## PPO clips its objective, so that moving too far gains nothing

An action with a positive advantage should become more likely, and one with a negative advantage less likely.
The [**probability ratio**](../docs/glossary.md#probability-ratio) compares how likely the action is now with how likely it was for the sampler that chose it:

$$r_t(\theta) = \frac{\pi_\theta(a_t \mid s_t)}{\pi_{\theta_{old}}(a_t \mid s_t)} = \exp\bigl(\log \pi_\theta(a_t \mid s_t) - \log \pi_{\theta_{old}}(a_t \mid s_t)\bigr)$$

PPO uses each row ten times, but an advantage was measured under the *old* policy and says little about a policy that's far from it.
TRPO, PPO's predecessor (Schulman et al. 2015), keeps the new policy inside a [trust region](../docs/glossary.md#trust-region) around the old one, which takes more than ordinary gradient steps.
PPO makes do with ordinary ones, because it [**clips**](../docs/glossary.md#clipped-objective) its objective (Schulman et al. 2017, equation 7):

$$L^{CLIP}(\theta) = \hat{\mathbb E}_t\bigl[\min\bigl(r_t(\theta) \hat A_t,\ \mathrm{clip}(r_t(\theta), 1 - \epsilon, 1 + \epsilon) \hat A_t\bigr)\bigr]$$

**Predict:** with $\epsilon = 0.2$, a row has ratio 1.5 and advantage $-1$.
What is the value of its $\min(\dots)$?
"""

# %% tags=["demo"]
predict("clipped_value", ...)

# %% [markdown]
r"""
The paper's equation 9 also subtracts the critic's squared error, $L^{VF} = (V_\theta(s_t) - V_t^{targ})^2$, and adds the policy's entropy $S$ as a small [entropy bonus](../docs/glossary.md#entropy-bonus), so that the policy keeps trying different actions:

$$L^{CLIP+VF+S}(\theta) = \hat{\mathbb E}_t\bigl[L_t^{CLIP}(\theta) - c_1 L_t^{VF}(\theta) + c_2 S[\pi_\theta](s_t)\bigr]$$

PPO *maximizes* this objective, and PyTorch's optimizers *minimize*, so the loss is the negative of the objective.

Write `ppo_loss`, which takes tensors with one number per row and returns the loss as a tensor with a single number.
The check starts with a few single rows, including the one from your prediction.
"""


# %%
def ppo_loss(logp, old_logp, advantages, values, targets, entropy, epsilon=0.2, c1=0.5, c2=0.01):
    """Return the PPO loss to minimize, as a tensor with one number, for tensors of shape [B] (Schulman et al. 2017, eq. 9).

    `logp` is log π(a|s) under the current policy, and `old_logp` under the one that chose the action; `targets` is V^targ.
    """
    ### BEGIN SOLUTION
    ratio = torch.exp(logp - old_logp)
    clipped = ratio.clamp(1 - epsilon, 1 + epsilon)
    l_clip = torch.min(ratio * advantages, clipped * advantages)
    l_vf = (values - targets) ** 2
    return -(l_clip - c1 * l_vf + c2 * entropy).mean()
    ### END SOLUTION


# %%
check("ppo_loss", ppo_loss)

# %% [markdown] tags=["solution"]
r"""
The minimum makes the clipping one-sided, on purpose.
If the ratio has gone too far in the direction that the advantage asks for, going further gains nothing, which gives each curve in the next plot its flat part.
If the ratio has gone in the *wrong* direction, the row counts in full, no matter how far the ratio went, so the gradient leads back.
"""

# %% tags=["demo"]
if passed("ppo_loss"):
    ratio, zero = torch.linspace(0.01, 2, 200), torch.zeros(1)
    figure, axes = plt.subplots(1, 2, figsize=(8, 2.8), constrained_layout=True)
    for ax, advantage, color in zip(axes, [1.0, -1.0], ["#059669", "#db2777"], strict=True):
        gain = [-float(ppo_loss(r.log()[None], zero, torch.tensor([advantage]), zero, zero, zero)) for r in ratio]
        ax.plot(ratio, gain, color=color, linewidth=2)
        ax.axvspan(0.8, 1.2, color="#94a3b8", alpha=0.25)
        ax.set(xlabel="probability ratio", ylabel="L^CLIP of one row", title=f"advantage {advantage:+.0f}")
    display(measured("clipped_value", np.interp(1.5, ratio, gain)))

# %% [markdown]
r"""
The value is $-1.5$: the action has become more likely although its advantage is negative, and the clip doesn't limit how much that counts.
Your function has drawn the paper's Figure 1, and the gray band is $1 \pm \epsilon$.
"""

# %%
### BEGIN SOLUTION
where_it_is_flat = "c"
### END SOLUTION

# %%
quiz("where_it_is_flat", where_it_is_flat)

# %% [markdown]
r"""
## In each epoch, minibatches cover every row once, in a new order

The order matters because neighboring rows are alike: 512 consecutive rows cover only about 32 time steps of one sampler's environments.

Write `minibatches`, which takes a batch, the size of a minibatch, and a NumPy random generator, and yields the minibatches of one epoch.
The batch is a dict of tensors of equal length, its *columns*, and every column must get the same order.
The last minibatch holds the rows that are left, and the batch itself doesn't change.
"""


# %%
def minibatches(batch, size, rng):
    """Yield dicts like `batch` with `size` rows each, the last one with the rows that are left; together, they hold every row once.

    Each call samples a new order from `rng`. The columns stay tensors with the same dtypes, and `batch` itself doesn't change.
    """
    ### BEGIN SOLUTION
    rows = len(batch["obs"])
    order = rng.permutation(rows)
    for start in range(0, rows, size):
        chosen = order[start : start + size]
        yield {name: column[chosen] for name, column in batch.items()}
    ### END SOLUTION


# %%
check("minibatches", minibatches)

# %% [markdown] tags=["solution"]
r"""
One permutation serves all columns: if you shuffle each column separately, you pair observations with the actions of other rows.
Returning a list is just as good here; with a large batch, a generator saves memory, because only one minibatch exists at a time.
"""

# %% [markdown]
r"""
## Take one gradient step on a minibatch

`likelihood` turns logits into $\log \pi(a \mid s)$ and the entropy.
`normalized` shifts and scales the advantages of a minibatch to mean 0 and standard deviation 1, so the actor's gradient doesn't depend on the scale of the rewards.
Stable-Baselines3 and CleanRL do this [advantage normalization](../docs/glossary.md#advantage-normalization) per minibatch, too; RLlib does it once for the whole batch.
"""


# %%
def likelihood(logits, actions):
    """Return log π(a|s) of the actions and the entropy of π, both of shape [B]."""
    logp = torch.log_softmax(logits, dim=-1)
    return logp.gather(-1, actions[:, None])[:, 0], -(logp.exp() * logp).sum(-1)


def normalized(x):
    """Return x, shifted and scaled to mean 0 and standard deviation 1."""
    return (x - x.mean()) / (x.std(correction=0) + 1e-8)  # with the default correction, one row's deviation is NaN


# %% [markdown]
r"""
Write `train_step`, which takes a policy, an optimizer, and a minibatch with the columns that you saw above.
It computes `ppo_loss` with normalized advantages and the default $\epsilon$, $c_1$, and $c_2$, takes one step of the optimizer, and returns the loss.
Before the step, it clips the gradient of all parameters together to a norm of at most 0.5 (`nn.utils.clip_grad_norm_`), so that one odd minibatch can't ruin the policy ([gradient clipping](../docs/glossary.md#gradient-clipping)).

"""


# %%
def train_step(policy, optimizer, minibatch):
    """Take one step of the optimizer on the PPO loss of a minibatch; return that loss (`loss.item()`)."""
    ### BEGIN SOLUTION
    logits, values = policy(minibatch["obs"])
    logp, entropy = likelihood(logits, minibatch["actions"])
    advantages = normalized(minibatch["advantages"])
    loss = ppo_loss(logp, minibatch["logp"], advantages, values, minibatch["targets"], entropy)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
    optimizer.step()
    return loss.item()
    ### END SOLUTION


# %%
check("train_step", train_step)

# %% [markdown] tags=["solution"]
r"""
`old_logp` comes from the minibatch, never from the current policy.
With `logp.detach()` in its place, the ratio would always be 1, the loss would never clip, and nothing would keep ten epochs from moving the policy too far.
"""

# %% [markdown]
r"""
Now look inside an iteration.
Before the first gradient step, the policy is still the one that collected the rows, so all ratios must be 1.

**Predict:** an iteration has ten epochs.
At the start of the tenth epoch, what percentage of the rows has a ratio outside $1 \pm 0.2$?
"""

# %% tags=["demo"]
predict("rows_outside", ...)  # percent

# %% tags=["demo"]
if passed("train_step") and passed("minibatches"):
    policy, rng, far = Policy(), np.random.default_rng(0), []
    optimizer = torch.optim.Adam(policy.parameters(), LEARNING_RATE)
    for _ in range(5):  # five iterations, because a single batch may be unusual
        sampler.set_weights(policy.weights())
        batch = {name: torch.from_numpy(column) for name, column in sampler.sample().items()}
        for _ in range(EPOCHS):
            logp, _ = likelihood(policy(batch["obs"])[0], batch["actions"])
            far.append((torch.exp(logp - batch["logp"]) - 1).abs().detach())
            for minibatch in minibatches(batch, 256, rng):
                train_step(policy, optimizer, minibatch)
    print(f"before the first gradient step, every ratio is within {far[0].max():.0e} of 1")

# %% tags=["demo"]
if passed("train_step") and passed("minibatches"):
    figure, axes = plt.subplots(figsize=(7, 2.8), constrained_layout=True)
    outside = np.reshape([100 * float((each > 0.2).float().mean()) for each in far], (5, EPOCHS)).mean(axis=0)
    axes.bar(range(1, EPOCHS + 1), outside, color="#059669")
    axes.set(xlabel="start of epoch", ylabel="% of rows", title="Rows with a ratio outside 1 ± ε")
    axes.set_xticks(range(1, EPOCHS + 1))
    display(measured("rows_outside", outside[-1]))

# %% [markdown]
r"""
Step by step, the policy moves away from the one that collected the rows, and some rows leave the band.
Other rows can push them back in, so the bars don't have to rise in every epoch.
If hardly any row is outside, your gradient steps are small; if most rows are, further epochs gain little.
"""

# %% [markdown]
r"""
## Train an agent, and test it on new episodes

These two functions start the samplers and concatenate their rows:
"""


# %%
@contextmanager
def started(make_envs, samplers, seed):
    """Yield samplers as actors, with ENVS // samplers environments each, and stop them at the end of the block."""
    actor_class, count = ray.remote(Sampler), ENVS // samplers  # without num_cpus, a running actor reserves no CPU
    actors = [actor_class.remote(make_envs, count, 1000 * seed + i) for i in range(samplers)]
    try:
        ray.get([actor.__ray_ready__.remote() for actor in actors])
        yield actors
    finally:
        for actor in actors:
            ray.kill(actor)


def joined(parts):
    """Return the rows of all samplers as one batch of tensors."""
    return {name: torch.from_numpy(np.concatenate([part[name] for part in parts])) for name in parts[0]}


# %% [markdown]
r"""
While it learns, the agent explores.
A test measures what the agent *can* do, so it runs 100 new episodes and takes the action with the largest logit in every step.
CartPole counts as solved at a mean return of 475 out of 500.
But if you stop at the first test that says 475, that test may have been lucky, so train until one says 490.
"""


# %%
def evaluate(weights, make_envs, seed, episodes=100):
    """Return the mean return of these episodes, with the action of the largest logit in each step."""
    envs = make_envs(episodes)
    obs, _ = envs.reset(seed=seed)
    returns, running = np.zeros(episodes), np.ones(episodes, bool)
    while running.any():
        obs, rewards, terminated, truncated, _ = envs.step(perceptron(weights["actor"], obs).argmax(-1))
        returns += rewards * running
        running &= ~(terminated | truncated)
    return returns.mean()


# %% [markdown]
r"""
Write `solve_cartpole`, which takes `make_envs` (a function like `cartpoles`), a seed, and the number of samplers, and returns the trained weights and the learning curve.
Start the samplers, and then repeat the following until a test reaches STOP, or until the samplers have taken LIMIT steps:

1. Send the weights.
2. Have *all* samplers collect, and then fetch their rows.
3. Train for EPOCHS epochs.
4. Test the policy, with a new seed such as `seed + len(curve)`.

You have all the parts: `started`, `weight_sync`, `joined`, `minibatches`, `train_step`, and `evaluate`.
Call `torch.manual_seed(seed)` before you create the policy, and use Adam with our learning rate (`fused=True` makes it faster).
`curve` has one tuple per iteration: the total steps so far, the total seconds so far (ours leave out the tests), and the test's mean return.

The check asks for four samplers, and it uses CartPoles whose observations are multiplied by a random 4 × 4 matrix, so only weights that were trained on them work.
It requires a mean return of 475 on new episodes.
It tries up to three seeds, for a few seconds each, but it gives up at once if an agent is far below 475.
"""


# %%
def solve_cartpole(make_envs, seed, samplers=2):
    """Return {"weights": those of a policy that solves it, "curve": [(steps, seconds, mean return), ...]}."""
    ### BEGIN SOLUTION
    torch.manual_seed(seed)
    policy, rng = Policy(), np.random.default_rng(seed)
    optimizer = torch.optim.Adam(policy.parameters(), LEARNING_RATE, fused=True)
    steps, seconds, curve = 0, 0.0, [(0, 0.0, evaluate(policy.weights(), make_envs, seed))]
    with started(make_envs, samplers, seed) as actors:
        while curve[-1][2] < STOP and steps < LIMIT:
            start = time.perf_counter()
            weight_sync(policy, actors)
            batch = joined(ray.get([actor.sample.remote() for actor in actors]))
            for _ in range(EPOCHS):
                for minibatch in minibatches(batch, MINIBATCH, rng):
                    train_step(policy, optimizer, minibatch)
            steps, seconds = steps + len(batch["obs"]), seconds + time.perf_counter() - start
            curve.append((steps, seconds, evaluate(policy.weights(), make_envs, seed + len(curve))))
    return {"weights": policy.weights(), "curve": curve}
    ### END SOLUTION


# %%
check("solve_cartpole", solve_cartpole)

# %% [markdown] tags=["solution"]
r"""
All of the `sample.remote()` calls come before the `ray.get`; otherwise, the samplers collect one after the other (Chapter 1).
"""

# %% [markdown]
r"""
**Predict:** how many environment steps does your agent need until a test says 490 (the median of several seeds)?
"""

# %% tags=["demo"]
predict("steps_to_490", ...)  # steps

# %% tags=["demo"]
runs = {}
if passed("solve_cartpole"):
    runs[2] = [solve_cartpole(cartpoles, seed) for seed in range(budget(5, 1))]
    display(measured("steps_to_490", np.median([run["curve"][-1][0] for run in runs[2]])))

# %% tags=["demo"]
if runs:
    figure, axes = plt.subplots(figsize=(7, 3.2), constrained_layout=True)
    for seed, run in enumerate(runs[2]):
        steps, seconds, tests = np.transpose(run["curve"])
        axes.plot(steps, tests, "o-", markersize=3, label=f"seed {seed}: {seconds[-1]:.1f} s")
    axes.axhline(SOLVED, color="#94a3b8", linestyle="--")
    axes.set(xlabel="environment steps", ylabel="mean return of 100 episodes", ylim=(0, 510))
    axes.set_title("From falling over to balancing")
    axes.legend();

# %% [markdown]
r"""
Most runs need 10,000 to 35,000 steps and a few seconds.
The curve may stall or fall back, because every iteration learns from new experience, and a policy that's better overall can be worse in some states.
Seeds differ so widely that a comparison of two algorithms with one seed each tells you next to nothing.

Does the agent look as good as the number says?
Check whether the pole still leans, and how far the cart has strayed from the center.
"""

# %% tags=["demo"]
if runs:
    actor, env, pictures = runs[2][0]["weights"]["actor"], Drawn(gymnasium.make("CartPole-v1")), {}
    obs, _ = env.reset(seed=7)
    for step in range(500):
        if step in (0, 100, 200, 300, 400, 499):
            pictures[f"step {step}"] = env.render()
        obs, _, fallen, _, _ = env.step(perceptron(actor, obs).argmax())
        if fallen:
            break
    strip(list(pictures.values()), list(pictures));

# %% [markdown] tags=["notes"]
r"""
Collect the seconds of seed 0 from the whole room, and look at the spread.
The curves of one seed agree across machines at first and drift apart later, because different machines may add floating-point numbers in different orders.
"""

# %% [markdown]
r"""
## A second sampler shortens only the sampling

If two samplers on two cores collect twice as fast as one, does PPO with two samplers also learn twice as fast?

**Predict:** with one sampler, what percentage of an iteration is sampling?
"""

# %% tags=["demo"]
predict("sampling_percentage", ...)  # percent


# %%
def parts_of_an_iteration(samplers, iterations=5):
    """Return the median seconds of sending weights, sampling, and learning; the first iteration doesn't count."""
    policy, rng, parts = Policy(), np.random.default_rng(0), []
    optimizer = torch.optim.Adam(policy.parameters(), LEARNING_RATE, fused=True)
    with started(cartpoles, samplers, seed=0) as actors:
        for _ in range(1 + iterations):
            moments = [time.perf_counter()]
            weight_sync(policy, actors)
            moments.append(time.perf_counter())
            batch = joined(ray.get([actor.sample.remote() for actor in actors]))
            moments.append(time.perf_counter())
            for _ in range(EPOCHS):
                for minibatch in minibatches(batch, MINIBATCH, rng):
                    train_step(policy, optimizer, minibatch)
            parts.append(np.diff([*moments, time.perf_counter()]))
    return np.median(parts[1:], axis=0)


# %% tags=["demo"]
if runs:
    parts = {samplers: parts_of_an_iteration(samplers) for samplers in (1, 2)}
    runs[1] = [solve_cartpole(cartpoles, seed, samplers=1) for seed in range(budget(5, 1))]
    display(measured("sampling_percentage", 100 * parts[1][1] / parts[1].sum()))

# %% tags=["demo"]
if runs:
    figure, axes = plt.subplots(figsize=(7, 2.2), constrained_layout=True)
    names, colors, base = ["weights", "sampling", "learning"], ["#d97706", "#7c3aed", "#059669"], np.zeros(2)
    for name, color, part in zip(names, colors, np.transpose([parts[1], parts[2]]), strict=True):
        axes.barh(["1 sampler", "2 samplers"], 1000 * part, left=base, label=name, color=color)
        base = base + 1000 * part
    axes.set(xlabel="milliseconds per iteration", title="Where the time of an iteration goes")
    axes.invert_yaxis()
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    for samplers in (1, 2):
        told = [f"{run['curve'][-1][1]:.1f} s in {len(run['curve']) - 1} iterations" for run in runs[samplers]]
        print(f"to a mean return of {STOP}, with samplers = {samplers}: {'; '.join(told)}")

# %% [markdown]
r"""
More samplers can shorten only the violet part, and that's the short one (Amdahl's law, Chapter 8).
Here, a second sampler hardly shortens it, if at all, because a few lines of NumPy take nearly as long for 16 carts as for 32, and there's a second actor to call.
The green parts stand for nearly the same work, so a difference between them is mostly noise.

The seconds to the target depend mostly on the number of iterations, which varies with the experience.
So if the two printed lines differ by more than the bars do, that's luck.

In games, robotics, and physics simulations, an environment step can take a millisecond or more.
Then sampling takes most of the time, and more samplers pay off.
Find out which case you have *before* you add machines.
"""

# %%
### BEGIN SOLUTION
more_samplers = "b"
### END SOLUTION

# %%
quiz("more_samplers", more_samplers)

# %% [markdown]
r"""
## Why RLlib is slower here, and when that doesn't matter

The next cell gives RLlib's PPO the same vector environment and the same sizes: environments, steps per batch, epochs, minibatch, and layers.
RLlib's EnvRunner samples in this notebook's process, so nothing has to be sent; your program has two samplers.

**Predict:** what do you get if you divide your program's steps per second by RLlib's?
"""

# %% tags=["demo"]
predict("ours_over_rllib", ...)

# %% tags=["demo"]
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

config = (
    PPOConfig()
    .environment("CartPole-v1")
    .env_runners(num_env_runners=0, num_envs_per_env_runner=ENVS, gym_env_vectorize_mode="vector_entry_point")
    .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64, 64], vf_share_layers=False))
    .training(train_batch_size_per_learner=ENVS * STEPS, minibatch_size=MINIBATCH, num_epochs=EPOCHS)
    .debugging(seed=0)
)

# %% tags=["demo"]
algo = config.build_algo()
try:
    algo.train()  # the first iteration includes the setup
    start = time.perf_counter()
    algo.train()
    rllib_speed = ENVS * STEPS / (time.perf_counter() - start)
finally:
    algo.stop()
print(f"RLlib: {rllib_speed:.0f} steps per second")
if runs:
    speed = ENVS * STEPS / sum(parts[2])
    print(f"yours: {speed:.0f} steps per second")
    display(measured("ours_over_rllib", speed / rllib_speed))

# %% [markdown]
r"""
Both programs ran the same simulation and did nearly the same arithmetic in their networks.
RLlib spends the extra time on what your program leaves out:

- **Episodes.** RLlib appends every single step to an *episode* object, in Python, so it can return whole episodes with any observations and infos; your program keeps only arrays.
- **Connectors**, pipelines that can flatten, stack, normalize, mask, and pad data, both on the way to the network in every step and on the way to the learner.
- **A general learner** that supports many modules, several GPUs, a KL penalty in addition to the clipping, and statistics of every quantity.

So two hundred lines beat RLlib on a toy problem, but don't conclude that you should write your own.
With a slow simulator, the simulator takes nearly all of the time, and RLlib's overhead hardly shows.
And you can read RLlib now, because you've met many of the next chapter's settings here.

A fairer question is how many seconds each program needs to reach the target.
`python benchmarks/cartpole.py`, in the course's repository, answers it with five seeds each, in a few minutes.
"""

# %% tags=["demo"]
ray.shutdown()

# %% [markdown]
r"""
## What you can do now

- You can write PPO's loss, minibatches, and gradient step from the paper.
- You can run samplers as actors, send them one copy of the weights, and keep resets out of the experience.
- You can train an agent that balances the pole, test it on new episodes, and say how much seeds differ.
- You can say what a second sampler saves, and what RLlib does in the extra time.

## Traps

- **Reset frames** look like experience and raise no error.
  Mask them.
- **`old_logp` must come from the weights that chose the action.** If you recompute it with the *current* weights, every ratio is 1.
- **Without `zero_grad`**, the gradients of all minibatches add up, and the agent still learns a little.
- **`~` negates only booleans:** it turns a `uint8` 1 into 254.
  Write `1.0 - terminated`.
- **A test without exploration can hide a bug.** Even if the samplers always use their initial weights, their experience may be enough for the agent to pass.
  Check that the weights you send change from one iteration to the next.

## Read on

- [Chapter 11](ch11_rllib_ppo.ipynb): the same algorithm in RLlib.
- Schulman et al., [*Proximal Policy Optimization Algorithms*](https://arxiv.org/abs/1707.06347), 2017, and [*Trust Region Policy Optimization*](https://arxiv.org/abs/1502.05477), 2015.
- Schulman et al., [*High-Dimensional Continuous Control Using Generalized Advantage Estimation*](https://arxiv.org/abs/1506.02438), 2016.
- Huang et al., [*The 37 Implementation Details of PPO*](https://iclr-blog-track.github.io/2022/03/25/ppo-implementation-details/), 2022: orthogonal weights, normalized advantages, and the rest.
- Gymnasium's documentation of [vector environments](https://gymnasium.farama.org/api/vector/), with its autoreset modes.
"""
