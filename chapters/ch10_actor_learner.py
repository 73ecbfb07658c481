# %% [markdown] you_learn_to="write PPO with samplers and a learner yourself"
r"""
# Chapter 10 · Distributed PPO from scratch

Two hundred lines learn to balance a pole in seconds.

*About 105 minutes · builds on [Chapter 3](ch03_actors.ipynb), [Chapter 7](ch07_environments.ipynb) and [Chapter 8](ch08_rollouts.ipynb)*

**What you will be able to do**

- write PPO from its paper: the clipped loss, the minibatches, the gradient step;
- spread it over processes: samplers that are actors, one learner, weights that travel once;
- keep reset frames out of the experience;
- train an agent that balances CartPole's pole for the full 500 steps, and test it fairly;
- say where an iteration's time goes, and what more samplers can and cannot do about it.
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

from coursekit import begin, budget, check, hint, passed, progress, quiz, solution, warm_up
from coursekit.given.cartpoles import cartpoles
from coursekit import Drawn, strip

begin("ch10_actor_learner")

# %%
ray.shutdown()  # ends a Ray that already runs here: its references and actors are gone
ray.init(num_cpus=2, include_dashboard=False)
torch.set_num_threads(1)  # the network is tiny: more threads gain nothing, and the samplers need the other core
warm_up(2)

# %% [markdown] tags=["notes"]
r"""
The run sheet plans a hundred and five minutes.
It gives `minibatches` away, and lets pairs write `solve_cartpole`: that is what people came for.
Run the two cells above before you speak.
"""

# %% [markdown]
r"""
## Many play, one learns

Here chapter 8's parts, samplers that play and a learner that learns, become one program.

![The learner puts its weights into the object store once; two samplers, each with sixteen environments, read them, play, and send rows of experience back](../img/ch10_actor_learner.svg)

One round is an **iteration**:

1. The learner puts its weights into the object store, *once*, and sends every sampler the reference.
2. Each sampler plays 64 steps in each of its environments, and returns the experience as *rows*.
3. The learner goes over all rows ten times (*epochs*), 512 at a time (a *minibatch*), with a gradient step for each minibatch.

The algorithm is **PPO**, proximal policy optimisation (Schulman et al. 2017).
Most of its code is here for you to read; you write the parts that decide whether anything learns.
These are all its numbers:
"""

# %%
ENVS = 32  # environments in all, shared out among the samplers
STEPS = 64  # steps of each environment in one iteration: T in the paper
EPOCHS, MINIBATCH = 10, 512  # K and M in the paper
GAMMA, LAMBDA = 0.99, 0.95  # the discount, and how far an advantage looks ahead
LEARNING_RATE = 2e-3
SOLVED, STOP, LIMIT = 475, 490, 200_000  # mean return that counts, mean return at which we stop, steps after which we give up

# %% [markdown]
r"""
The **policy** is two small networks: the *actor* scores the actions, and a softmax of its scores is $\pi_\theta(a \mid s)$; the *critic* estimates $V(s)$, the rewards still to come.
$\theta$ stands for the weights of both.
This *actor* has nothing to do with Ray's.
"""


# %%
def network(inputs, outputs, gain, width=64):
    """Return a network with two hidden layers; `gain` scales the first weights of its last layer."""
    layers = [nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, outputs)]
    for layer, size in zip(layers[::2], [2**0.5, 2**0.5, gain], strict=True):
        nn.init.orthogonal_(layer.weight, size)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers)


# %%
class Policy(nn.Module):
    """Two networks: for observations of shape [B, 4], scores of the actions, shape [B, A], and values, shape [B]."""

    def __init__(self, inputs=4, actions=2):
        super().__init__()
        self.actor = network(inputs, actions, gain=0.01)  # nearly equal scores: at first all actions are about equally likely
        self.critic = network(inputs, 1, gain=1.0)

    def forward(self, obs):
        """Return scores and values."""
        return self.actor(obs), self.critic(obs)[..., 0]

    def weights(self):
        """Return {"actor": [(weight, bias), ...], "critic": [...]}: copies, as arrays."""
        parts = {"actor": self.actor[::2], "critic": self.critic[::2]}
        return {name: [tuple(p.detach().numpy().copy() for p in layer.parameters()) for layer in layers]
                for name, layers in parts.items()}


# %% [markdown]
r"""
A sampler needs the numbers, not PyTorch: `weights()` gives them as arrays, and `perceptron` computes the same function with them in NumPy, in four lines.
For a handful of observations NumPy is faster than PyTorch, and a process that never imports PyTorch starts sooner and needs a few hundred megabytes less.
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
## An advantage says how much better than expected a step went

You wrote `gae` in [chapter 8](ch08_rollouts.ipynb), which explains its two kinds of end; here is ours.
"""


# %%
def gae(rewards, values, terminated, truncated):
    """Return advantages, shape [T, N]; `values` is [T+1, N], its last row the bootstrap (Schulman et al. 2016, eq. 16)."""
    advantages, later = np.zeros_like(rewards), 0.0
    for t in reversed(range(len(rewards))):
        delta = rewards[t] + GAMMA * values[t + 1] * ~terminated[t] - values[t]
        later = delta + GAMMA * LAMBDA * later * ~(terminated[t] | truncated[t])
        advantages[t] = later
    return advantages


# %% [markdown]
r"""
## A sampler returns rows, and a reset is no experience

`cartpoles(16)` gives sixteen CartPoles that step together: Gymnasium's own vector environment, where each line of NumPy moves all the carts.
As in [chapter 7](ch07_environments.ipynb), the frame after an end is only a reset; the mask `real` says which frames count.
In that frame the policy still *sees* the old episode's last observation, so `values[t + 1]` in `gae` is the right bootstrap after an end, too.
"""


# %%
class Player:
    """Plays in several environments at once."""

    def __init__(self, make_envs, count, seed):
        self.envs, self.rng = make_envs(count), np.random.default_rng(seed)
        self.obs, _ = self.envs.reset(seed=seed)
        self.over = np.zeros(count, bool)  # where an episode has just ended, the next frame is a reset

    def step(self, actor):
        """Return one frame of all environments, played with these weights."""
        obs, real = self.obs, ~self.over
        scores = perceptron(actor, obs)
        actions = (scores + self.rng.gumbel(size=scores.shape)).argmax(-1)  # as likely as the softmax says, for all at once
        self.obs, rewards, terminated, truncated, _ = self.envs.step(actions)
        self.over = terminated | truncated
        ends = {"terminated": terminated, "truncated": truncated}
        return {"obs": obs, "actions": actions, "rewards": rewards, "real": real, **ends}


# %% [markdown]
r"""
A sampler plays 64 such frames and turns them into rows.
A row is one step: the observation, the action, $\log \pi_{old}(a \mid s)$, the advantage, and the *target* $\hat A_t + V(s_t)$ for the critic.
The sampler computes it for all frames at once, with the weights that played, so the learner receives rows ready to learn from.
"""


# %%
def rows_of(frames, last_obs, weights):
    """Return the real frames of a fragment as rows; `frames` holds arrays of shape [T, N, ...]."""
    obs, actions = frames["obs"], frames["actions"]
    values = perceptron(weights["critic"], np.concatenate([obs, last_obs[None]]))[..., 0]  # [T+1, N]
    advantages = gae(frames["rewards"], values, frames["terminated"], frames["truncated"])
    logp = log_softmax(perceptron(weights["actor"], obs), axis=-1)  # [T, N, 2], one number for each action
    logp = np.take_along_axis(logp, actions[..., None], axis=-1)[..., 0]  # [T, N], of the action that was taken
    rows = {"obs": obs, "actions": actions, "logp": logp, "advantages": advantages, "targets": advantages + values[:-1]}
    return {name: column[frames["real"]] for name, column in rows.items()}


# %%
class Sampler(Player):
    """Plays with the weights that it received last. An ordinary class: `ray.remote` makes it an actor."""

    def set_weights(self, weights):
        """Play with these from now on."""
        self.weights = weights

    def sample(self):
        """Return the experience of STEPS frames as a dict of arrays of equal length."""
        frames = [self.step(self.weights["actor"]) for _ in range(STEPS)]
        columns = {name: np.stack([frame[name] for frame in frames]) for name in frames[0]}
        return rows_of(columns, self.obs, self.weights)


# %% [markdown]
r"""
Try one sampler without Ray: 64 frames in 16 environments, 1,024 in all.
"""

# %% tags=["demo"]
sampler = Sampler(cartpoles, 16, seed=0)
sampler.set_weights(Policy().weights())
rows = sampler.sample()
for name, column in rows.items():
    print(f"{name:10} {str(column.shape):10} {column.dtype}")
print(f"{16 * STEPS} frames, {16 * STEPS - len(rows['obs'])} of them resets", end="; ")
print(f"{sum(column.nbytes for column in rows.values()) / 1000:.0f} kB of rows")

# %% [markdown]
r"""
About one frame in twenty-five is a reset, because a fresh policy's episodes last some twenty steps.
Left in, these frames teach the critic that an episode's worst moment, the fallen pole, is as good as a fresh start; and the better the agent gets, the rarer they are, so the mistake hides.

A sampler's rows are less than 100 kB, so Ray sends them inside its reply to your notebook (chapter 8), where they are needed: here the driver is the learner.
"""

# %% [markdown]
r"""
## The weights travel once

After every iteration all samplers need the new weights: one `ray.put`, and a reference to each (chapter 8).

Write `weight_sync`.
Its `policy` has `weights()`; each of the `samplers` has `set_weights`, which takes what `weights()` returns.
The check calls it, changes the policy, calls it again, and looks at what arrives at each sampler.
"""


# %%
def weight_sync(policy, samplers):
    """Send the policy's weights of this moment to every sampler: one copy in the object store, and a reference to each."""
    ### BEGIN SOLUTION
    ref = ray.put(policy.weights())
    for sampler in samplers:
        sampler.set_weights.remote(ref)
    ### END SOLUTION


# %%
check("weight_sync", weight_sync)

# %% [markdown] tags=["solution"]
r"""
There is nothing to wait for: the put is done when `ray.put` returns, and whether the calls have *run* does not matter, as the next quiz shows.
For two samplers on one machine the difference is small; for a hundred, or for a gigabyte of weights, it is not.
"""

# %%
### BEGIN SOLUTION
sync_then_sample = "a"
### END SOLUTION

# %%
quiz("sync_then_sample", sync_then_sample)

# %% [markdown]
r"""
## The clipped loss refuses to go too far

How should the policy change?
An action with a positive advantage should become more likely.
The **ratio** says how much more likely it is now than for the sampler that chose it:

$$r_t(\theta) = \frac{\pi_\theta(a_t \mid s_t)}{\pi_{\theta_{old}}(a_t \mid s_t)} = \exp\bigl(\log \pi_\theta(a_t \mid s_t) - \log \pi_{\theta_{old}}(a_t \mid s_t)\bigr)$$

PPO uses each row ten times, but an advantage was measured under the *old* policy and says little about a policy far from it.
So the gain is **clipped** (Schulman et al. 2017, equation 7):

$$L^{CLIP}(\theta) = \hat{\mathbb E}_t\bigl[\min\bigl(r_t(\theta) \hat A_t,\ \mathrm{clip}(r_t(\theta), 1 - \epsilon, 1 + \epsilon) \hat A_t\bigr)\bigr]$$

Equation 9 subtracts the critic's squared error $L^{VF} = (V_\theta(s_t) - V_t^{targ})^2$ and adds a little of the **entropy** $S$, which is large while the policy still tries different actions.
PPO *maximises* it:

$$L^{CLIP+VF+S}(\theta) = \hat{\mathbb E}_t\bigl[L_t^{CLIP}(\theta) - c_1 L_t^{VF}(\theta) + c_2 S[\pi_\theta](s_t)\bigr]$$

PyTorch's optimizers *minimise*, so the loss is its negative.

**Predict**, with $\epsilon = 0.2$, the four values of $\min(\dots)$ for one row: ratio 1.5 and 0.5, advantage $+1$ and $-1$.
The check tests your function with them.
"""


# %%
def ppo_loss(logp, old_logp, advantages, values, targets, entropy, epsilon=0.2, c1=0.5, c2=0.01):
    """Return the PPO loss to be minimised, a tensor with one number, of tensors of shape [B] (Schulman et al. 2017, eq. 9).

    `logp` is log π(a|s) of the policy as it is now, `old_logp` of the one that played; `targets` is V^targ.
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
The minimum makes the bound one-sided on purpose.
A change that has gone too far *for the better* earns nothing more: those are the two flat parts.
A change for the worse counts in full, however far it went, so the gradient leads back.
"""

# %% tags=["demo"]
if passed("ppo_loss"):
    ratio, zero = torch.linspace(0.01, 2, 200), torch.zeros(1)
    figure, axes = plt.subplots(1, 2, figsize=(8, 2.8), constrained_layout=True)
    for ax, advantage, colour in zip(axes, [1.0, -1.0], ["#059669", "#db2777"], strict=True):
        gain = [-float(ppo_loss(r.log()[None], zero, torch.tensor([advantage]), zero, zero, zero)) for r in ratio]
        ax.plot(ratio, gain, color=colour, linewidth=2)
        ax.axvspan(0.8, 1.2, color="#94a3b8", alpha=0.25)
        ax.set(xlabel="ratio", ylabel="L^CLIP of one row", title=f"advantage {advantage:+.0f}");

# %% [markdown]
r"""
That is the paper's figure 1, drawn by your function.
The grey band is $1 \pm \epsilon$.
On a flat part the gradient is zero: this row pushes no further.
"""

# %%
### BEGIN SOLUTION
where_it_is_flat = "c"
### END SOLUTION

# %%
quiz("where_it_is_flat", where_it_is_flat)

# %% [markdown]
r"""
## Every row once an epoch, in a new order

An *epoch* visits every row of the batch exactly once, in minibatches, in a new random order: neighbouring rows come from the same stretch of the same few episodes, so an unshuffled minibatch would tell only one story.

The batch is a dict of tensors of equal length.
Whatever you do to one column, do to all.
"""


# %%
def minibatches(batch, size, rng):
    """Yield dicts like `batch` with `size` rows each, the last perhaps with fewer; together they hold every row once.

    Each call draws a new order from `rng`, a NumPy generator. The columns stay tensors, and `batch` stays as it is.
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
One permutation serves all columns: if you shuffle each column by itself, you pair observations with the actions of other rows.
Returning a list is just as good here; for large batches the generator holds one minibatch in memory at a time.
"""

# %% [markdown]
r"""
## One gradient step

`likelihood` turns scores into $\log \pi(a \mid s)$ and the entropy.
`normalised` brings a minibatch's advantages to mean 0 and standard deviation 1, as nearly all implementations do, so the size of a step does not depend on the size of the rewards.
"""


# %%
def likelihood(scores, actions):
    """Return log π(a|s) of the actions and the entropy of π, both of shape [B]."""
    logp = torch.log_softmax(scores, dim=-1)
    return logp.gather(-1, actions[:, None])[:, 0], -(logp.exp() * logp).sum(-1)


def normalised(x):
    """Return x, shifted and scaled to mean 0 and standard deviation 1."""
    return (x - x.mean()) / (x.std(correction=0) + 1e-8)  # 0: by default the deviation of a single row is NaN


# %% [markdown]
r"""
`train_step` gets a minibatch with the columns you saw above.
It calls the policy, which returns scores and values; computes the loss with normalised advantages and the usual $\epsilon$, $c_1$ and $c_2$; and takes one step of the optimizer.
Before the step it clips the gradient of all parameters together to a norm of at most 0.5 (`nn.utils.clip_grad_norm_`), so one odd minibatch cannot ruin the policy.

The check runs it twice on a policy of its own, and compares all parameters with what they should be.
"""


# %%
def train_step(policy, optimizer, minibatch):
    """Take one step of the optimizer on the PPO loss of a minibatch; return that loss as a float: `loss.item()`."""
    ### BEGIN SOLUTION
    scores, values = policy(minibatch["obs"])
    logp, entropy = likelihood(scores, minibatch["actions"])
    advantages = normalised(minibatch["advantages"])
    loss = ppo_loss(logp, minibatch["logp"], advantages, values, minibatch["targets"], entropy)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
    optimizer.step()
    return float(loss.detach())
    ### END SOLUTION


# %%
check("train_step", train_step)

# %% [markdown] tags=["solution"]
r"""
`old_logp` comes from the minibatch, never from the current policy: with `logp.detach()` in its place the ratio is always 1, the loss never clips, and nothing stops ten epochs from going too far.
"""

# %% [markdown]
r"""
Look inside an iteration.
At the very first step the policy is still the one that played, so all ratios must be 1: PyTorch here and NumPy in the sampler must agree.
"""

# %% tags=["demo"]
if passed("train_step") and passed("minibatches"):
    policy, rng, far = Policy(), np.random.default_rng(0), []
    optimizer = torch.optim.Adam(policy.parameters(), LEARNING_RATE)
    for _ in range(5):  # five iterations, to see the usual, not one batch's luck
        sampler.set_weights(policy.weights())
        batch = {name: torch.from_numpy(column) for name, column in sampler.sample().items()}
        for _ in range(EPOCHS):
            logp, _ = likelihood(policy(batch["obs"])[0], batch["actions"])
            far.append((torch.exp(logp - batch["logp"]) - 1).abs().detach())
            for minibatch in minibatches(batch, 256, rng):
                train_step(policy, optimizer, minibatch)
    print(f"before the first step no ratio is further from 1 than {far[0].max():.0e}")

# %% tags=["demo"]
if passed("train_step") and passed("minibatches"):
    figure, axes = plt.subplots(figsize=(7, 2.8), constrained_layout=True)
    outside = np.reshape([100 * float((each > 0.2).float().mean()) for each in far], (5, EPOCHS)).mean(axis=0)
    axes.bar(range(1, EPOCHS + 1), outside, color="#059669")
    axes.set(xlabel="beginning of epoch", ylabel="% of rows", title="Rows whose ratio has left 1 ± ε")
    axes.set_xticks(range(1, EPOCHS + 1));

# %% [markdown]
r"""
When the first epoch begins, no row is outside.
Then the policy moves away from the one that played, and a share of the rows leaves the band; those that left in the direction they were pushed push no further.
The share need not rise in every epoch: other rows push too, and bring some back.
If hardly any row is outside, your steps are small; if most are, further epochs are wasted.
"""

# %% [markdown]
r"""
## All together: an agent learns

The rest is given: it starts the samplers, ends them whatever happens, and joins what they send.
"""


# %%
@contextmanager
def started(make_envs, samplers, seed):
    """Yield samplers as actors, with ENVS // samplers environments each; end them with the block, even after an error."""
    actor_class, count = ray.remote(Sampler), ENVS // samplers  # no num_cpus: they rest while the notebook learns
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
The test must be fair.
While it learns, the agent tries things; a test asks what it *can* do: 100 separate episodes, with the best action in each step instead of a draw.
CartPole counts as solved at a mean return of 475 of 500.

If you test after every iteration and stop at the first 475, you stop at a test that was perhaps lucky; the next one may say 460.
So we continue until a test says 490.
The check will test your agent again, on new episodes, and ask for 475.
"""


# %%
def evaluate(weights, make_envs, seed, episodes=100):
    """Return the mean return of these episodes, in each step with the action of the highest score."""
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
Now the loop.
Start the samplers.
Then, until a test reaches STOP or LIMIT steps are used up: send the weights; let *all* samplers play, then collect what they played; go EPOCHS times over the minibatches; test.
You have all the parts: `started`, `weight_sync`, `joined`, `minibatches`, `train_step`, `evaluate`.
Take `torch.manual_seed(seed)` for the first weights, a NumPy generator for the minibatches, and a new seed for each test, such as `seed + len(curve)`.
Use Adam with our learning rate (`fused=True` makes it faster).

`curve`, which the plots below show, holds for each iteration the steps so far, the seconds so far without the tests, and the test's result.

The check has your function learn on a CartPole seen through distorting glasses: a fresh random 4 × 4 matrix multiplies each observation, so only freshly learned weights fit.
It tries up to three seeds, a few seconds each, and the first that reaches 475 counts.
An agent far below that was not just unlucky, and gets no second try.
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
All `sample.remote()` calls come before the `ray.get`: otherwise the samplers play in turn (chapter 1).
The samplers wait while the learner learns, and the learner while they play; the next section measures what that costs.
"""

# %% [markdown]
r"""
**Predict:** how many steps will it need, how many seconds, and will the curve rise steadily?
"""

# %% tags=["demo"]
runs = {}
if passed("solve_cartpole"):
    runs[2] = [solve_cartpole(cartpoles, seed) for seed in range(budget(5, 1))]

# %% tags=["demo"]
if runs:
    figure, axes = plt.subplots(figsize=(7, 3.2), constrained_layout=True)
    for seed, run in enumerate(runs[2]):
        steps, seconds, tests = np.transpose(run["curve"])
        axes.plot(steps, tests, "o-", markersize=3, label=f"seed {seed}: {seconds[-1]:.1f} s")
    axes.axhline(SOLVED, color="#94a3b8", linestyle="--")
    axes.set(xlabel="steps in the environment", ylabel="mean return of 100 episodes", ylim=(0, 510))
    axes.set_title("From falling over to balancing")
    axes.legend();

# %% [markdown]
r"""
Some tens of thousands of steps, often fewer than twenty thousand, in a few seconds.
The curve may stall or fall back: every iteration learns from new experience, and a policy that is better on the whole can be worse somewhere.
Two seeds differ more than most people expect; a comparison of two algorithms with one seed each says nothing.

Does it look as good as the number says?
Check whether the pole still leans, and how far the cart has strayed from the middle.
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
Collect the seconds of seed 0 from the whole room, and ask for the spread.
The curves of one seed agree between machines at first and drift apart later: floating-point sums in another order are enough.
"""

# %% [markdown]
r"""
## A second sampler shortens only the playing

If two samplers on two cores play twice as fast as one, does PPO with two also learn twice as fast?

**Predict:** what shares of an iteration are playing and learning?
And what does the second sampler save?
"""


# %%
def parts_of_an_iteration(samplers, iterations=5):
    """Return the median seconds of sending weights, playing and learning; the first iteration does not count."""
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

# %% tags=["demo"]
if runs:
    figure, axes = plt.subplots(figsize=(7, 2.2), constrained_layout=True)
    names, colours, base = ["weights", "playing", "learning"], ["#d97706", "#7c3aed", "#059669"], np.zeros(2)
    for name, colour, part in zip(names, colours, np.transpose([parts[1], parts[2]]), strict=True):
        axes.barh(["1 sampler", "2 samplers"], 1000 * part, left=base, label=name, color=colour)
        base = base + 1000 * part
    axes.set(xlabel="milliseconds of one iteration", title="Where the time of an iteration goes")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    for samplers in (1, 2):
        told = [f"{run['curve'][-1][1]:.1f} s, {len(run['curve']) - 1} iterations" for run in runs[samplers]]
        print(f"samplers: {samplers}   to a mean return of {STOP}: {'; '.join(told)}")

# %% [markdown]
r"""
Samplers can shorten only the violet part, and it is the short one (Amdahl's law, chapter 8): a few lines of NumPy move 32 carts, while every gradient step goes through two networks, forwards and backwards.
It does not even halve: those lines take nearly as long for 16 carts as for 32, and there is a second actor to talk to.
If other programs need your cores too, it may even grow.
Sending the weights, orange, costs messages, not bytes: these networks are small.

The seconds to the target depend mostly on the number of iterations, which varies with the experience.
So if your two lines differ by more than the bars do, it was luck.

The reverse holds if a step of the environment takes a millisecond or more, as in games, robots and physics.
There the samplers are worth their processes.
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
## Why RLlib is slower here, and when that does not matter

The next cell gives RLlib's PPO the same CartPole that moves all carts at once, and the same sizes: environments, steps in a batch, epochs, minibatch and layers.
Its EnvRunner plays in this notebook's own process, so there is nothing to send; ours has two samplers.

**Predict:** how many steps a second does it make, compared with yours?
"""

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
    algo.train()  # the first iteration prepares things
    start = time.perf_counter()
    algo.train()
    rllib_speed = ENVS * STEPS / (time.perf_counter() - start)
finally:
    algo.stop()
print(f"RLlib: {rllib_speed:.0f} steps a second")
if runs:
    print(f"yours: {ENVS * STEPS / sum(parts[2]):.0f} steps a second, {ENVS * STEPS / sum(parts[2]) / rllib_speed:.1f} times as many")

# %% [markdown]
r"""
Both moved the same carts and did nearly the same arithmetic in their networks.
The difference is what ours leaves out:

- **RLlib keeps episodes, ours keeps arrays.** RLlib appends every single step to its environment's *episode* object, in Python, and so can hand out whole episodes, of any observations, with whatever infos they carry.
  Ours stacks arrays of fixed shape, and forgets where an episode began.
  By default RLlib also calls each environment's own `step`, one after the other, which works for every environment; most have no version for arrays.
- **RLlib's data goes through connectors**, pipelines that can flatten, stack, normalise, mask, pad for recurrent networks and split among agents: on the way to the network at every step, and again on the way to the learner.
  Ours can do none of that.
- **RLlib's learner is general**: many modules, several GPUs, a KL penalty beside the clip, statistics of every quantity.
  Ours is one function.
- **RLlib survives.** It replaces EnvRunners that die, and saves and resumes training.
  When one of our samplers dies, `ray.get` raises, and that is all.

So two hundred lines beat it on a toy, but do not conclude that you should write your own.
With a slow simulator nearly all the time is the simulator's, and RLlib's overhead hardly shows.
What you gain is that you can read RLlib now: the next chapter's settings are this one's names.

Seconds to the target would be the fairer question: `python benchmarks/cartpole.py` in the course's repository answers it in some minutes, with five seeds each.
"""

# %% tags=["demo"]
ray.shutdown()

# %% [markdown]
r"""
## What you can do now

- You write PPO's loss, minibatches and step from the paper, and test each with numbers you can see.
- You run samplers as actors and send weights once.
- You keep resets out of the experience.
- You trained an agent that balances the pole, tested it on new episodes, and know how much seeds differ.
- You can say what a second sampler saves, and what RLlib does in the extra time.

## Traps

- **Frames of an autoreset** look like experience and raise no error.
  Mask them.
- **`old_logp` is recorded, not recomputed.** Otherwise every ratio is 1.
- **Columns shuffled separately** pair observations with the actions of other rows.
- **No `zero_grad`**: gradients of all minibatches add up, and it still learns a little.
- **The first good test** is partly luck.
  Test again on new episodes.
- **A test with the best actions hides much.** Even if the samplers play with their first weights forever, what they see may be enough to find the better action, and the agent passes the test.
  Check that what you send changes from one iteration to the next.
- **More samplers** shorten only the playing.

## Read on

- [Chapter 11](ch11_rllib_ppo.ipynb): the same algorithm as RLlib's PPO.
- Schulman et al., [*Proximal Policy Optimization Algorithms*](https://arxiv.org/abs/1707.06347), 2017.
- Schulman et al., [*High-Dimensional Continuous Control Using Generalized Advantage Estimation*](https://arxiv.org/abs/1506.02438), 2016.
- Huang et al., [*The 37 Implementation Details of PPO*](https://iclr-blog-track.github.io/2022/03/25/ppo-implementation-details/), 2022: orthogonal weights, normalised advantages and the rest.
- Gymnasium's documentation of [vector environments](https://gymnasium.farama.org/api/vector/), with its autoreset modes.
"""
