# %% [markdown] you_learn_to="run several learners, stream experience to them, and resume a killed training run bit for bit"
r"""
# Chapter 21 · Many learners

Three learners end with the same weights, to the last bit.

*About 120 minutes · builds on [Chapter 3](ch03_actors.ipynb), [Chapter 8](ch08_rollouts.ipynb), and [Chapter 10](ch10_actor_learner.ipynb)*

**What you will be able to do**

- run a learner as an actor that receives experience by reference;
- average the gradients of several learners in a ring, and compare its cost with a tree's;
- correct experience from older weights with V-trace;
- stream fragments to a learner, and let one network serve many samplers;
- resume a killed training run so that it ends with the weights of an undisturbed run, to the last bit;
- place a learner on a GPU and its samplers on CPUs.
"""

# %%
import asyncio
import inspect
import os
import time
from contextlib import contextmanager
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import ray
import torch

from coursekit import begin, budget, check, explain, hint, measured, passed, predict, progress, puzzle, quiz, review, solution, warm_up
from coursekit.given.cartpoles import cartpoles
from coursekit.given.ch21_learners import Mailbox, layers_of, perceptron, together, tree
from coursekit.given.folders import new_folder
from coursekit.given.pole_sampler import Sampler, mean_return
from coursekit.given.poles import Agent, network

begin("ch21_learners")

# %%
ray.shutdown()  # stops a Ray instance that's already running here: its references and actors are gone
ray.init(num_cpus=4, num_gpus=1, include_dashboard=False)  # both numbers are only counted: see the last section
torch.set_num_threads(1)  # the networks are small, and the other processes need the other cores
warm_up(2)

# %% [markdown] tags=["notes"]
r"""
Six exercises are a lot for two hours.
If you have ninety minutes, leave `inference_actor` and `resume_training` for homework, and show their demonstrations on your machine.
Run the two cells above before you speak.
The ring is what people remember: have five people stand in a circle and pass numbers on slips of paper.
"""

# %% [markdown]
r"""
## A learner actor receives experience by reference

In [Chapter 10](ch10_actor_learner.ipynb), the learner ran in your notebook.
On a cluster, all experience would then pass through your notebook's machine, which may not even have a GPU.

So make the [learner](../docs/glossary.md#learner) an actor.
The [driver](../docs/glossary.md#driver) calls a [sampler](../docs/glossary.md#sampler), gets a reference to the [fragment](../docs/glossary.md#fragment), and passes the reference to the learner.
Ray brings the rows to the process that needs them.
New weights take the same route to the samplers.

![The driver passes references; rows go from the samplers through the object store to two learners, which average their gradients in a ring; weights go back](../img/ch21_learners.svg)

`Sampler` and `Agent` are the PPO of Chapter 10, in `coursekit/given/pole_sampler.py` and `poles.py`; because they're in separate files, a sampler starts without PyTorch.
A fragment is a dict of arrays, with one entry per row.
`agent.update(rows)` learns and returns the loss; `agent.weights()` returns a dict.

Write `LearnerActor`.
Its `learn` takes all samplers' fragments as separate arguments, joins them into one batch, and updates the agent *once*.
The initial weights are version 0, and each call to `learn` adds 1.
`learn` returns only three numbers, because its result goes to the driver.
"""


# %%
class LearnerActor:
    """Holds an agent, and learns from the samplers' fragments; `ray.remote` turns this class into an actor class."""

    def __init__(self, make_agent):
        self.agent, self.version = make_agent(), 0

    def learn(self, *fragments):
        """Update the agent once with the rows of all fragments; return {"version": ..., "rows": ..., "loss": ...}."""
        ### BEGIN SOLUTION
        rows = {name: np.concatenate([part[name] for part in fragments]) for name in fragments[0]}
        loss = self.agent.update(rows)
        self.version += 1
        return {"version": self.version, "rows": len(rows["obs"]), "loss": loss}
        ### END SOLUTION

    def weights(self):
        """Return the dict of the agent's weights with one more key, "version"."""
        ### BEGIN SOLUTION
        return {"version": self.version, **self.agent.weights()}
        ### END SOLUTION


# %%
check("LearnerActor", LearnerActor)

# %% [markdown] tags=["solution"]
r"""
The arguments are references when the driver calls `learn.remote(...)`, and they are rows when `learn` runs.
If the driver passed a *list* of references, `learn` would get a list of references, because Ray doesn't look inside lists ([Chapter 2](ch02_objects.ipynb)).
Arrays that Ray delivers are read-only, so `Agent.gradient` copies them into tensors.
"""


# %%
@contextmanager
def started(count):
    """Start a learner and several samplers as actors, and kill them at the end of the block, even after an error."""
    learner = ray.remote(LearnerActor).remote(Agent)
    samplers = [ray.remote(Sampler).remote(seed) for seed in range(count)]
    try:
        ray.get([actor.__ray_ready__.remote() for actor in (learner, *samplers)])
        yield learner, samplers
    finally:
        for actor in (learner, *samplers):
            ray.kill(actor)


# %% [markdown]
r"""
**Predict:** the next cell launches twelve iterations, each of which needs the weights from the one before.
How many milliseconds does it take to *launch* them all?
"""

# %% tags=["demo"]
predict("launch", ...)  # milliseconds

# %% tags=["demo"]
curve = []
if passed("LearnerActor"):
    with started(2) as (learner, samplers):
        start, refs = time.perf_counter(), []
        for _ in range(budget(full=12, quick=3)):
            refs.append(learner.weights.remote())
            for sampler in samplers:
                sampler.set_weights.remote(refs[-1])
            learned = learner.learn.remote(*[sampler.sample.remote() for sampler in samplers])
        launched, last = time.perf_counter() - start, ray.get(learned)
        print(f"launched in {1000 * launched:.0f} ms, learned in {time.perf_counter() - start:.1f} s; at the end: {last}")
        curve = [mean_return(weights, seed=1) for weights in ray.get(refs)]
    display(measured("launch", 1000 * launched))

# %% [markdown]
r"""
Launching takes a small fraction of the total time, because the loop never calls `ray.get`.
It only builds a [task graph](../docs/glossary.md#task-graph), and Ray starts each call once its arguments exist.
Your notebook waits only for the last result.
"""

# %% tags=["demo"]
if curve:
    figure, axes = plt.subplots(figsize=(7, 2.6), constrained_layout=True)
    axes.plot(curve, "o-", color="#059669")
    axes.set(xlabel="version of the weights", ylabel="mean return of 50 episodes", title="A learner in an actor learns, too")

# %% [markdown]
r"""
What would a detour through the driver cost?
The next cells pass the same arrays with and without it.
"""


# %%
@ray.remote
class Relay:
    """Creates arrays and receives arrays."""

    def make(self, megabytes):
        """Return an array of this size."""
        return np.zeros(int(megabytes * 125_000))

    def take(self, *arrays):
        """Return how many bytes arrived."""
        return sum(array.nbytes for array in arrays)


# %%
def milliseconds(maker, taker, megabytes, fetch, rounds):
    """Return the median time to pass two arrays from maker to taker; with `fetch`, they go through the driver."""
    times = []
    for _ in range(rounds):
        refs = [maker.make.remote(megabytes) for _ in range(2)]
        ray.wait(refs, num_returns=2, fetch_local=False)
        start = time.perf_counter()
        ray.get(taker.take.remote(*(ray.get(refs) if fetch else refs)))
        times.append(1000 * (time.perf_counter() - start))
    return np.median(times)


# %% tags=["demo"]
maker, taker = Relay.remote(), Relay.remote()
sizes = [0.2, 1, 4, 16]
figure, axes = plt.subplots(figsize=(7, 2.8), constrained_layout=True)
for name, fetch, color in [("by reference", False, "#d97706"), ("through the driver", True, "#64748b")]:
    found = [milliseconds(maker, taker, size, fetch, rounds=budget(15, 5)) for size in sizes]
    axes.plot(sizes, found, "o-", color=color, label=name)
axes.set(xscale="log", yscale="log", xlabel="MB in each of two arrays", ylabel="ms", title="Two arrays, passed from actor to actor")
axes.legend()
del maker, taker

# %% [markdown]
r"""
On one machine, the driver reads the arrays without a copy, but it writes them into the object store again to pass them on.
By reference, nothing is written again, so the size hardly matters.
Between machines, the detour would also cross the network twice.
"""

# %%
### BEGIN SOLUTION
who_holds_the_rows = "b"
### END SOLUTION

# %%
quiz("who_holds_the_rows", who_holds_the_rows)

# %% [markdown]
r"""
## Several learners average their gradients with an all-reduce

If one learner is too slow, use several.
Each one computes the gradient on its own rows, all of them average their gradients, and each takes the same step.
They start with equal weights, so their weights stay equal.
This averaging is an **all-reduce**, a [collective operation](../docs/glossary.md#collective-operation): every learner passes in an array, and every learner gets the mean.

Learner 0 could collect all arrays and send the mean back, but then it would handle two messages for each of the others.
A *tree* is better, as in `tree_sum` from [Chapter 1](ch01_tasks.ipynb): each learner passes on the sum of its branch.
The code below runs in every learner.
`me` is the learner's number, its [rank](../docs/glossary.md#rank), among `size` learners.
`send(to, array)` returns at once, and `receive(sender)` waits.
"""

# %%
print(inspect.getsource(tree))

# %% [markdown]
r"""
In the middle of the tree, a learner still receives and sends three whole arrays.
A [**ring all-reduce**](../docs/glossary.md#ring-all-reduce) distributes the work evenly.
Each learner cuts its array into `size` parts, sends to learner `(me + 1) % size` on its right, and receives from learner `(me - 1) % size` on its left.

1. Every part travels around the ring once and is *summed* on the way.
   In each step, a learner sends one part, receives another, and adds its own numbers to it.
   After `size - 1` steps, each learner holds the complete sum of one part.
2. The sums travel around once more and *replace* what the learners hold.

**Predict:** a hundred learners average arrays of 1,000 numbers in a ring.
How many numbers does each of them send?
"""

# %% tags=["demo"]
predict("ring_of_a_hundred", ...)  # numbers

# %% [markdown]
r"""
Write `all_reduce`, which returns the mean of all learners' arrays.

- The array's length may not be a multiple of `size`; `np.array_split` can handle that.
- `array` and what `receive` returns are read-only, like arrays from Ray.
- All learners must return the same mean, to the last bit.
- No learner may send or receive more numbers than in a ring.
"""


# %%
def all_reduce(array, me, size, send, receive):
    """Return the mean of all learners' arrays, which are equally long; every learner calls this at the same time."""
    ### BEGIN SOLUTION
    right, left = (me + 1) % size, (me - 1) % size
    parts = list(np.array_split(array, size))
    for step in range(size - 1):
        send(right, parts[(me - step) % size])
        mine = (me - step - 1) % size
        parts[mine] = parts[mine] + receive(left)
    for step in range(size - 1):
        send(right, parts[(me + 1 - step) % size])
        parts[(me - step) % size] = receive(left)
    return np.concatenate(parts) / size
    ### END SOLUTION


# %%
check("all_reduce", all_reduce)

# %% [markdown] tags=["solution"]
r"""
Every sum is computed once, in one order, and then copied, so all results are equal to the last bit.
If each learner added the arrays in its own order, rounding would make the weights drift apart, slowly and without an error.

Every learner sends before it receives.
If `send` waited until the other side had received the message, all learners would wait forever, so communication libraries run a send and a receive at the same time.
"""

# %% [markdown]
r"""
`together` runs a function in one thread per learner and records all messages.
"""


# %%
def central(array, me, size, send, receive):
    """Return the mean of all arrays: learner 0 collects them and sends the mean back."""
    if me > 0:
        send(0, array)
        return receive(0)
    mean = sum([receive(other) for other in range(1, size)], array) / size
    for other in range(1, size):
        send(other, mean)
    return mean


def busiest(function, size, numbers=960):
    """Return what the busiest learner sends: numbers, in multiples of its array's length, and messages."""
    _, post = together(function, np.ones((size, numbers)))
    sent = [[count for sender, _, count in post.messages if sender == me] for me in range(size)]
    return max(map(sum, sent)) / numbers, max(map(len, sent))


# %% tags=["demo"]
if passed("all_reduce"):
    ways, learners = {"central": central, "tree": tree, "ring": all_reduce}, [2, 3, 4, 6, 8, 12, 16]
    figure, axes = plt.subplots(1, 2, figsize=(8, 2.8), constrained_layout=True)
    for (name, way), color in zip(ways.items(), ["#64748b", "#2563eb", "#059669"], strict=True):
        counted = np.array([busiest(way, size) for size in learners])
        for ax, column, label in zip(axes, counted.T, ["Arrays", "Messages"], strict=True):
            ax.plot(learners, column, "o-", color=color, label=name)
            ax.set(xlabel="learners", title=f"{label} that the busiest learner sends")
    for ax in axes:
        ax.set_ylim(bottom=0)
    axes[0].legend()
    display(measured("ring_of_a_hundred", 1000 * busiest(all_reduce, 100, numbers=1000)[0]))

# %% [markdown]
r"""
Each of the hundred learners sends 2 · 99 parts of ten numbers, which makes 1,980, or almost two arrays.
With more learners, that hardly changes, but the number of messages grows, and each one waits for the one before.
In a tree of $N$ learners, the longest path up and down has about $2 \log_2 N$ messages, but the busiest learner sends up to three arrays.
So a ring suits large arrays, and a tree suits small ones.
"""

# %%
### BEGIN SOLUTION
ring_of_many = "b"
### END SOLUTION

# %%
quiz("ring_of_many", ring_of_many)

# %% [markdown]
r"""
Next, the learners are actors, and the arrays are gradients.
With `Mailbox`, `send` calls `deliver` on another actor, so the parts go directly from learner to learner.
`receive` blocks the thread of `learn`, so `deliver` needs a second one: hence `max_concurrency=2`.
"""


# %%
class TeamLearner(Mailbox):
    """One of several learners: it learns from its own rows and takes a step along the mean of all gradients."""

    def __init__(self):
        super().__init__()
        self.agent = Agent(seed=0)  # the same initial weights in every learner

    def learn(self, rows):
        """Take one step; return the bytes sent so far."""
        gradient = self.agent.gradient(rows)
        self.agent.step(all_reduce(gradient, self.me, len(self.others), self.send, self.receive))
        return self.sent

    def fingerprint(self):
        """Return a number that depends on every bit of the weights."""
        bits = b"".join(part.detach().numpy().tobytes() for part in self.agent.parameters)
        return int.from_bytes(bits, "little") % (2**31 - 1)


# %% tags=["demo"]
if passed("all_reduce"):
    team = [ray.remote(TeamLearner).options(max_concurrency=2).remote() for _ in range(3)]
    sampler = ray.remote(Sampler).remote(seed=0)
    sampler.set_weights.remote(Agent(seed=0).weights())
    ray.get([each.meet.remote(me, team) for me, each in enumerate(team)])
    for _ in range(3):
        sent = ray.get([each.learn.remote(sampler.sample.remote()) for each in team])
        print("fingerprints:", ray.get([each.fingerprint.remote() for each in team]), " bytes sent:", sent)
    for actor in (sampler, *team):
        ray.kill(actor)

# %% [markdown]
r"""
Each learner has learned from rows that the others never saw, and still the weights agree to the last bit.

PyTorch's *DDP* (distributed data parallel) does this for you: wrap a model in `DistributedDataParallel`, and `backward()` averages the gradients.
It does three things that your learners don't:

- At the start, it copies the weights of learner 0 to all others, so they need no common seed.
- It joins gradients in [buckets](../docs/glossary.md#gradient-bucket) of about 25 MiB by default, because each message adds a delay.
- It averages a bucket while `backward()` computes the gradients of earlier layers, so communication overlaps with computation.

Does DDP compute the same mean as your function?
The next cell runs it in two actors with *gloo*, PyTorch's backend for collective operations between CPUs.
"""


# %%
@ray.remote
class DDPLearner:
    """A learner whose gradients DDP averages."""

    def gradients(self, me, size, folder, rows):
        """Return two gradients of the critic's loss on these rows: this learner's own, and the one from DDP."""
        if not torch.distributed.is_initialized():
            meet = f"file://{folder}/meet"
            torch.distributed.init_process_group("gloo", init_method=meet, rank=me, world_size=size)
        obs, targets = torch.tensor(rows["obs"]), torch.tensor(rows["targets"])
        found = []
        for wrap in (lambda model: model, torch.nn.parallel.DistributedDataParallel):
            critic = wrap(Agent(seed=0).critic)
            ((critic(obs)[:, 0] - targets) ** 2).mean().backward()
            found.append(torch.cat([part.grad.ravel() for part in critic.parameters()]).numpy())
        return found


# %% tags=["demo"]
if passed("all_reduce"):
    pair, folder = [DDPLearner.remote() for _ in range(2)], new_folder()
    rows = [{"obs": np.eye(4, dtype=np.float32) * k, "targets": np.full(4, k, np.float32)} for k in (1, 2)]
    found = ray.get([each.gradients.remote(me, 2, folder, rows[me]) for me, each in enumerate(pair)])
    (mean, _), _ = together(all_reduce, [alone for alone, _ in found])
    for (alone, ddp), name in zip(found, "01", strict=True):
        print(f"learner {name}: DDP differs by {abs(ddp - mean).max():.1e} from your mean and by {abs(ddp - alone).max():.1e} from its own gradient")
    for actor in pair:
        ray.kill(actor)

# %% [markdown]
r"""
It does, up to rounding.
Between NVIDIA GPUs, [NCCL](../docs/glossary.md#nccl) sends the messages, in a ring or by another algorithm, depending on array size and hardware.
"""

# %% [markdown]
r"""
## V-trace corrects experience from older weights

If samplers don't wait for new weights, the learner gets [stale](../docs/glossary.md#staleness) experience ([Chapter 8](ch08_rollouts.ipynb)).
That experience tells the critic how good the *old* policy $\mu$ is, but the critic should learn the values of the current one, $\pi$.

**V-trace** (Espeholt et al. 2018), the core of IMPALA, weights action $a_t$ in state $x_t$ by the ratio of its probabilities under the two policies, with two separate limits:

$$\rho_t = \min\Bigl(\bar\rho, \frac{\pi(a_t \mid x_t)}{\mu(a_t \mid x_t)}\Bigr) \qquad c_t = \min\Bigl(\bar c, \frac{\pi(a_t \mid x_t)}{\mu(a_t \mid x_t)}\Bigr)$$

Here's an example with two actions:
"""

# %% tags=["demo"]
mu, pi = np.array([0.5, 0.5]), np.array([0.3, 0.7])  # the probabilities of going left and right
print("π/μ:", pi / mu, "  limited to 1:", np.minimum(1, pi / mu))

# %% [markdown]
r"""
If $n$ steps of the fragment are left, the critic's target is (equation 1 of the paper)

$$v_s = V(x_s) + \sum_{t=s}^{s+n-1} \gamma^{t-s} \Bigl(\prod_{i=s}^{t-1} c_i\Bigr) \delta_t V \qquad \delta_t V = \rho_t \bigl(r_t + \gamma V(x_{t+1}) - V(x_t)\bigr)$$

It's easier to compute backward (remark 1): $v_s = V(x_s) + \delta_s V + \gamma c_s \bigl(v_{s+1} - V(x_{s+1})\bigr)$.
If the policies agree and the limits are at least 1, $v_s$ is the discounted sum of the rewards, plus the discounted $V$ at the end of the fragment.

The policy's advantage is $\rho_s \bigl(r_s + \gamma v_{s+1} - V(x_s)\bigr)$.

Episodes end as in `gae` from Chapter 8: after `terminated`, even with both flags, $V(x_{t+1})$ counts as 0; if only `truncated` is set, it keeps its value.
No sum continues into the next episode.
After the last step of an episode or a fragment, no target follows, so $V(x_{t+1})$ takes the place of $v_{t+1}$ in the advantage.

Write `vtrace`, which returns the targets and the advantages.
"""


# %%
def vtrace(rewards, values, ratios, terminated, truncated, gamma=0.99, rho_bar=1.0, c_bar=1.0):
    """Return (targets, advantages), two arrays [T, N] of floats (Espeholt et al. 2018, eq. 1).

    `rewards` is [T, N], of floats or integers; `ratios` is [T, N]. `terminated` and `truncated` are [T, N], of booleans.
    `values` is [T+1, N], and `values[t + 1]` is V(x_{t+1}) even if the episode ended at t.
    """
    ### BEGIN SOLUTION
    rho, c = np.minimum(ratios, rho_bar), np.minimum(ratios, c_bar)
    going, over = 1.0 - terminated, terminated | truncated
    targets, advantages = np.zeros(np.shape(rewards)), np.zeros(np.shape(rewards))
    following, later = values[-1], 0.0  # v_{t+1}, and v_{t+1} - V(x_{t+1})
    for t in reversed(range(len(rewards))):
        delta = rho[t] * (rewards[t] + gamma * values[t + 1] * going[t] - values[t])
        following = np.where(over[t], values[t + 1], following)
        advantages[t] = rho[t] * (rewards[t] + gamma * following * going[t] - values[t])
        later = delta + gamma * c[t] * later * (1.0 - over[t])
        following = targets[t] = values[t] + later
    return targets, advantages
    ### END SOLUTION


# %%
check("vtrace", vtrace)

# %% [markdown] tags=["solution"]
r"""
`vtrace` is `gae` with two weights: if all ratios are 1, its targets are the values plus what `gae` returns with $\lambda = 1$.

The results are created as arrays of floats.
`np.zeros_like(rewards)` of integer rewards would be an array of integers, which cuts off every fraction without an error.
"""

# %% [markdown]
r"""
Try it where you can compute the true values: in a corridor of seven squares, with a reward of 1 for leaving at the right end.
The samplers' old policy goes right with probability 0.5, and the learner's new one with 0.7.

**Predict:** all rows come from the old policy, and $\bar\rho = 1$.
Which policy's values does the critic learn with V-trace?
"""

# %% tags=["demo"]
predict("learned_values", ..., ["the old policy's", "between them", "the new policy's"])

# %%
SQUARES, OLD, NEW = 7, 0.5, 0.7  # the probability of going right


def true_values(right, gamma=0.99):
    """Return the value of each square for a policy that goes right with this probability, from its linear equations."""
    go, earn = np.zeros((SQUARES, SQUARES)), np.zeros(SQUARES)
    for square in range(SQUARES):
        if square > 0:
            go[square, square - 1] = 1 - right
        if square < SQUARES - 1:
            go[square, square + 1] = right
    earn[-1] = right
    return np.linalg.solve(np.eye(SQUARES) - gamma * go, earn)


# %%
def sample_old(rng, steps=16, envs=128):
    """Return rows of the old policy: squares, shape [T+1, N], and rewards, moves to the right, and ends, shape [T, N]."""
    squares, columns = [rng.integers(SQUARES, size=envs)], []
    for _ in range(steps):
        right = rng.random(envs) < OLD
        after = squares[-1] + np.where(right, 1, -1)
        over = (after < 0) | (after == SQUARES)
        columns.append([after == SQUARES, right, over])
        squares.append(np.where(over, rng.integers(SQUARES, size=envs), after))
    rewards, rights, overs = np.swapaxes(columns, 0, 1)
    return np.array(squares), rewards.astype(float), rights, overs


# %%
def learned_values(correct, rho_bar=1.0, rounds=200):
    """Return the values that a critic learns from the old policy's rows, with the ratios (`correct`) or without them."""
    rng, values = np.random.default_rng(0), np.zeros(SQUARES)
    for _ in range(rounds):
        squares, rewards, right, over = sample_old(rng)
        ratios = np.where(right, NEW / OLD, (1 - NEW) / (1 - OLD)) if correct else np.ones(right.shape)
        targets, _ = vtrace(rewards, values[squares], ratios, over, np.zeros_like(over), rho_bar=rho_bar)
        for square in range(SQUARES):
            values[square] += 0.2 * (targets[squares[:-1] == square].mean() - values[square])
    return values


# %% tags=["demo"]
if passed("vtrace"):
    settings = {"without ratios": (False, 1.0, "s"), "ρ̄ = 1": (True, 1.0, "o"), "ρ̄ = 2": (True, 2.0, "^")}
    learned = {name: learned_values(correct, limit) for name, (correct, limit, _) in settings.items()}
    figure, axes = plt.subplots(figsize=(7, 3), constrained_layout=True)
    for name, right, color, style in [("old", OLD, "#7c3aed", "-"), ("new", NEW, "#059669", "-"), ("5/8", 5 / 8, "#64748b", "--")]:
        axes.plot(true_values(right), style, color=color, label=f"true values, {name} policy")
    for name, (_, _, marker) in settings.items():
        axes.plot(learned[name], marker, color="#d97706", label=f"learned, {name}")
    axes.set(xlabel="square", ylabel="value", title="All rows come from the old policy")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    place = np.mean((learned["ρ̄ = 1"] - true_values(OLD)) / (true_values(NEW) - true_values(OLD)))
    words = ["the old policy's", "between them", "the new policy's"]
    display(measured("learned_values", words[np.digitize(place, [0.1, 0.9])]))

# %% [markdown]
r"""
With $\bar\rho = 1$, the values lie between those of the two policies.
They belong to the policy whose probabilities are proportional to $\min(\bar\rho \mu, \pi)$, as the paper shows: here 0.3 for left and 0.5 for right, so this policy goes right in five of eight steps (the dashed line).
With $\bar\rho = 2$, no $\rho_t$ reaches its limit, and the values are the new policy's.
$\bar c = 1$ still limits some $c_t$, but it decides how fast the values converge, not what they converge to.
Without ratios, the critic learns the old policy's values, and you see no error.
"""

# %%
### BEGIN SOLUTION
rho_or_c = "a"
### END SOLUTION

# %%
quiz("rho_or_c", rho_or_c)

# %% [markdown]
r"""
## A streaming generator delivers each fragment as soon as it exists

If a sampler collects twenty fragments in one call, the first is ready long before the call returns.
With one call per fragment, the sampler is idle whenever the driver launches the next call too late.

A [streaming generator](../docs/glossary.md#streaming-generator) ([Chapter 2](ch02_objects.ipynb)) avoids both.
`Sampler.stream` is a Python generator, which *yields* one fragment after another.
If you call it with `.options(num_returns="streaming")`, Ray 2.60's default for a method that yields, you get an `ObjectRefGenerator` at once.
Its `next` returns the *reference* of the next fragment as soon as that fragment exists.

Write `stream_samples`, which has the learner learn from `count` fragments of each sampler.

- Each sampler streams its fragments in a single call.
- Pass each reference to `learner.learn.remote` as soon as it arrives: a slow sampler must not delay the others.
- When all streams have ended, return a list of what `learn` returned, in any order.

`ray.wait` takes generators, too.
A generator is *ready* if its `next` wouldn't wait, and also if its stream has ended and `next` raises `StopIteration`.
"""


# %%
def stream_samples(samplers, learner, count):
    """Return a list of what `learner.learn` returned for each of `count` fragments that each sampler streams."""
    ### BEGIN SOLUTION
    streams = [sampler.stream.options(num_returns="streaming").remote(count) for sampler in samplers]
    learned = []
    while streams:
        [stream], _ = ray.wait(streams, num_returns=1)
        try:
            learned.append(learner.learn.remote(next(stream)))
        except StopIteration:
            streams.remove(stream)
    return ray.get(learned)
    ### END SOLUTION


# %%
check("stream_samples", stream_samples)

# %% [markdown] tags=["solution"]
r"""
`next(stream)` returns a reference, so the driver never holds any rows.

If the learner is slow, fragments pile up in the object store.
To prevent that, limit how many calls to `learn` are in flight (Chapter 1), and call `stream` with `.options(_generator_backpressure_num_objects=2)`: the sampler then waits whenever two of its fragments haven't been taken with `next` yet.
The underscore warns that this option may change.
"""


# %%
class SlowSampler(Sampler):
    """Needs 0.2 s more for each fragment."""

    def sample(self):
        """Return a fragment, after a sleep."""
        time.sleep(0.2)
        return super().sample()

    def all_at_once(self, count):
        """Return a list of fragments."""
        return list(self.stream(count))


class Clock:
    """Stands in for a learner, and returns the time at which rows arrive."""

    def learn(self, rows):
        """Return the time."""
        return time.time()


# %% tags=["demo"]
if passed("stream_samples"):
    sampler, clock = ray.remote(SlowSampler).remote(seed=0, envs=16), ray.remote(Clock).remote()
    ray.get([sampler.set_weights.remote(Agent().weights()), clock.learn.remote(None)])
    start = time.time()
    came = ray.get([clock.learn.remote(part) for part in ray.get(sampler.all_at_once.remote(5))])
    print("fragments of a list arrive after", *[f"{moment - start:.1f}" for moment in came], "s")
    start = time.time()
    came = stream_samples([sampler], clock, 5)
    print("fragments of a stream arrive after", *[f"{moment - start:.1f}" for moment in came], "s")
    for actor in (sampler, clock):
        ray.kill(actor)

# %% [markdown]
r"""
The stream's last fragment arrives barely earlier than the list would, but the learner has work from the first fragment on.

## An inference actor chooses the actions of all samplers

So far, every sampler has had its own network and has received all weights after every update.
That's fine for 37 kB, but you'd rather keep a policy of a gigabyte in one place, on a GPU.
SEED RL (Espeholt et al. 2019) does so: an [inference actor](../docs/glossary.md#inference-actor) collects the observations of many samplers, calls the network once for all of them, and returns to each sampler its row of the output.

The batches of [Chapter 3](ch03_actors.ipynb) needed a timer.
Here, each sampler waits for its action, so a batch is complete when *all* samplers have asked.
But a sampler that has finished or died never asks again, and the others would wait forever, so the sampler (or the driver) has to call `leave`.

Write `inference_actor`, which starts such an actor and returns its handle.

- `act(sampler, obs)` returns this observation's row of `network(rows)`, as soon as all remaining samplers have asked.
- `leave(sampler)` removes a sampler from those that a batch waits for, which may complete the batch.
  In the check, a sampler leaves only when its last `act` has returned.
- `samplers` lists the samplers' numbers, such as `[7, 2, 31]`.
- `network` takes rows, shape [B, 3] in the check, and returns as many rows.
  Call it once per batch, and never without rows.
"""


# %%
def inference_actor(network, samplers):
    """Return the handle of an actor with the methods `act(sampler, obs)` and `leave(sampler)`; `samplers` is a list of numbers."""
    ### BEGIN SOLUTION

    class Inference:
        def __init__(self):
            self.there, self.waiting = set(samplers), {}

        async def act(self, sampler, obs):
            future = asyncio.get_running_loop().create_future()
            self.waiting[sampler] = obs, future
            self.reply_if_complete()
            return await future

        async def leave(self, sampler):
            self.there.discard(sampler)
            self.reply_if_complete()

        def reply_if_complete(self):
            if self.waiting and self.there <= self.waiting.keys():
                batch, self.waiting = self.waiting, {}
                outputs = network(np.stack([obs for obs, _ in batch.values()]))
                for (_, future), row in zip(batch.values(), outputs, strict=True):
                    future.set_result(row)

    return ray.remote(Inference).remote()
    ### END SOLUTION


# %%
check("inference_actor", inference_actor)

# %% [markdown] tags=["solution"]
r"""
`leave` has to check the batch, too: if the only sampler that hasn't asked leaves, no other call will complete the batch.
And when the very last sampler leaves, no call is waiting, so the network must not be called.

If a sampler dies *while it waits*, the driver calls `leave` for it, but its observation stays in the batch, and nobody takes its row of the output, which does no harm.
Comparing *how many* wait with how many are left would count the dead sampler in place of another, and the batch would be complete too early.
"""

# %% [markdown]
r"""
In the next cells, four samplers each need 20 actions from networks of several widths, on a CPU.

**Predict:** at a width of 64, how many times as long does a step take with an inference actor as with a network in each sampler?
"""

# %% tags=["demo"]
predict("inference_actor_at_64", ...)  # times as long


# %%
class InferenceClient:
    """Needs an action for each of its observations, from a network of its own or from an inference actor."""

    def __init__(self, me):
        self.me, self.obs = me, np.random.default_rng(me).normal(size=(100, 4)).astype(np.float32)

    def compute(self, width, steps):
        """Call a network in this process."""
        return [perceptron(layers_of(width), obs[None])[0] for obs in self.obs[:steps]]

    def ask(self, actor, steps):
        """Call the inference actor."""
        found = [ray.get(actor.act.remote(self.me, obs)) for obs in self.obs[:steps]]
        ray.get(actor.leave.remote(self.me))
        return found


# %%
def seconds_of_both(clients, width, steps):
    """Return the seconds with a network in each client, and with one inference actor, after a warm-up of both."""
    actor = inference_actor(lambda rows: perceptron(layers_of(width), rows), list(range(1 + len(clients))))
    ray.get([client.compute.remote(width, 1) for client in clients])
    ray.get([actor.act.remote(me, np.zeros(4, np.float32)) for me in range(1 + len(clients))])
    ray.get(actor.leave.remote(len(clients)))  # after the outputs, because an async actor may start its calls in any order
    moments = [time.perf_counter()]
    for shared in (False, True):
        ray.get([client.ask.remote(actor, steps) if shared else client.compute.remote(width, steps) for client in clients])
        moments.append(time.perf_counter())
    return np.diff(moments)


# %% tags=["demo"]
if passed("inference_actor"):
    widths, steps = budget([64, 512, 1024, 2048], [64, 512, 1024]), 20
    clients = [ray.remote(InferenceClient).remote(me) for me in range(4)]
    times = np.array([seconds_of_both(clients, width, steps) for width in widths])
    figure, axes = plt.subplots(figsize=(7, 2.8), constrained_layout=True)
    for column, name, color in zip(times.T, ["a network in each", "one inference actor"], ["#7c3aed", "#059669"], strict=True):
        axes.plot(widths, 1000 * column / steps, "o-", color=color, label=name)
    axes.set(xscale="log", yscale="log", xlabel="width of the network", ylabel="ms per step", title="Four samplers, on a CPU")
    axes.legend()
    display(measured("inference_actor_at_64", times[0, 1] / times[0, 0]))
    del clients

# %% [markdown]
r"""
At a width of 64, a call to the actor takes far longer than the computation itself.
The wider the network, the smaller the ratio of the two step times: each sampler reads *all* weights from memory for a single row, but a batch reads them once for four rows.
Still, the samplers can use several cores, and the inference actor uses only one.
An inference actor pays off on a GPU, which is built for many rows at a time.
"""

# %%
### BEGIN SOLUTION
one_network_or_many = "b"
### END SOLUTION

# %%
quiz("one_network_or_many", one_network_or_many)

# %% [markdown]
r"""
## With a complete checkpoint, a resumed run gives a bitwise identical result

Something will interrupt a training run of three days.
What must a [checkpoint](../docs/glossary.md#checkpoint) contain so that the resumed run is *the same run*?
It needs everything that affects how the run continues: the weights, the [optimizer state](../docs/glossary.md#optimizer-state), the number of iterations done, and the state of every random generator.
Then the result is [bitwise equal](../docs/glossary.md#bitwise-equal) to that of an uninterrupted run.

Write `resume_training`, which returns the policy after `iterations` iterations, including those before a kill.

- `make()` returns a new `policy`, its `optimizer`, and a NumPy generator `rng`, and it seeds PyTorch.
- `iterate(policy, optimizer, rng)` collects and learns once, with random numbers from `rng` *and* from PyTorch.
- `path` is a `Path` in a folder of its own; if an earlier attempt left a checkpoint there, continue from it.

Save after every iteration.
The process may be killed at any moment, even while it writes; [Chapter 5](ch05_faults.ipynb) shows what helps.
"""


# %%
def resume_training(make, iterate, iterations, path):
    """Return the policy after this many iterations in total, including those before an interruption."""
    ### BEGIN SOLUTION
    policy, optimizer, rng = make()
    version = 0
    if path.exists():
        state = torch.load(path, weights_only=True)
        policy.load_state_dict(state["policy"])
        optimizer.load_state_dict(state["optimizer"])
        rng.bit_generator.state = state["numpy"]
        torch.set_rng_state(state["torch"])
        version = state["version"]
    while version < iterations:
        iterate(policy, optimizer, rng)
        version += 1
        state = {"policy": policy.state_dict(), "optimizer": optimizer.state_dict(), "version": version}
        torch.save({**state, "numpy": rng.bit_generator.state, "torch": torch.get_rng_state()}, f"{path}.new")
        os.replace(f"{path}.new", path)
    return policy
    ### END SOLUTION


# %%
check("resume_training", resume_training)

# %% [markdown] tags=["solution"]
r"""
With `weights_only=True`, its default, `torch.load` accepts only tensors and plain values, and that's all this checkpoint contains.
With `weights_only=False`, a file can run any code, so use that only for files that you wrote yourself.

Other things can affect how a run continues: the state of the environments (so `iterate` starts new episodes), the rows in a replay buffer, a learning-rate scheduler, Python's own `random`, and on a GPU, operations that add in a different order each time.
"""

# %% [markdown]
r"""
Next, a policy learns CartPole in a Ray task that gets killed, and another task resumes the run.
Your notebook runs the same training without interruption.
"""


# %%
def make():
    """Return a new policy for CartPole, its optimizer, and a generator."""
    torch.manual_seed(0)
    policy = network(4, 2, gain=0.01, width=32)
    return policy, torch.optim.Adam(policy.parameters(), 1e-2), np.random.default_rng(0)


# %%
def iterate(policy, optimizer, rng):
    """Run 8 new carts for 60 steps, and make an action more likely the more steps followed it (REINFORCE)."""
    envs, logps, running = cartpoles(8), [], []
    obs, _ = envs.reset(seed=int(rng.integers(10**6)))
    alive = torch.ones(8)
    for _ in range(60):
        distribution = torch.distributions.Categorical(logits=policy(torch.tensor(obs)))
        actions = distribution.sample()  # PyTorch's generator
        obs, _, terminated, _, _ = envs.step(actions.numpy())
        logps.append(distribution.log_prob(actions) * alive)
        running.append(alive)
        alive = alive.masked_fill(torch.tensor(terminated), 0.0)
    after = torch.stack(running).flip(0).cumsum(0).flip(0)
    optimizer.zero_grad()
    (-torch.stack(logps) * (after - after.mean())).sum(1).mean().backward()
    optimizer.step()


# %% tags=["demo"]
if passed("resume_training"):
    train, path = ray.remote(resume_training).options(max_retries=0), Path(new_folder()) / "state"
    doomed, saved = train.remote(make, iterate, 100, path), set()
    while len(saved) < 20 and not ray.wait([doomed], timeout=0.005)[0]:
        if path.exists():
            saved.add(path.stat().st_mtime_ns)
    ray.cancel(doomed, force=True)  # kills its process at once
    try:
        ray.get(doomed)
        print("The run finished before it could be killed.")
    except ray.exceptions.RayError as error:
        print(f"The run was killed after at least {len(saved)} checkpoints: {type(error).__name__}.")
    resumed = train.remote(make, iterate, 100, path)
    undisturbed = resume_training(make, iterate, 100, Path(new_folder()) / "state")
    pairs = zip(undisturbed.parameters(), ray.get(resumed).parameters(), strict=True)
    print("bitwise equal:", all(torch.equal(one, other) for one, other in pairs))

# %% [markdown]
r"""
## The learner requests a GPU, and the samplers request CPUs

The first cells passed `num_gpus=1` to `ray.init`.
Ray didn't look for a GPU: like CPUs, GPUs are only *counted* ([Chapter 4](ch04_scheduling.ipynb)), so you can try out placement on a machine without any.

An actor that requests `num_gpus=1` finds the ID of its GPU in `ray.get_gpu_ids()` and in `CUDA_VISIBLE_DEVICES`, a variable that tells CUDA, and so PyTorch, which GPUs to use.

**Predict:** a learner holds the only GPU.
What happens to a *second* learner that requests one?
"""

# %% tags=["demo"]
predict("second_learner", ..., ["it starts", "it waits", "it raises an error"])


# %%
class Placed:
    """An actor that reports which GPUs Ray assigned to it."""

    def where(self):
        """Return Ray's IDs of the GPUs, and which GPUs the process can see."""
        return f"GPUs {ray.get_gpu_ids()}, CUDA_VISIBLE_DEVICES {os.environ.get('CUDA_VISIBLE_DEVICES', 'not set')}"


# %% tags=["demo"]
actors = {
    "learner": ray.remote(Placed).options(num_gpus=1).remote(),
    "sampler": ray.remote(Placed).options(num_cpus=1).remote(),
}
for name, actor in actors.items():
    print(f"{name}: {ray.get(actor.where.remote())}")
second = ray.remote(Placed).options(num_gpus=1).remote()
ready, _ = ray.wait([second.where.remote()], timeout=1)
print(f"after a second, free GPUs: {ray.available_resources().get('GPU', 0):.0f}")
display(measured("second_learner", "it starts" if ready else "it waits"))
for actor in (second, *actors.values()):
    ray.kill(actor)

# %% [markdown]
r"""
The second learner waits, as any actor does for resources that aren't free.
Two learners can share a GPU if each requests `num_gpus=0.5`; Ray doesn't limit how much of the GPU's memory each one uses.
A sampler that requests no GPU inherits `CUDA_VISIBLE_DEVICES`, and if that isn't set, PyTorch finds every GPU of the machine.

The next cell times a gradient step on a CPU, and on a GPU if you have one.
When we ran it on a machine with a GPU, the CPU was faster only at the smallest width ([our figures](../docs/ray_versions.md#a-machine-with-a-gpu)).
"""


# %%
def milliseconds_of_a_step(device, width, rounds=4):
    """Return the median time of a gradient step on 1,024 rows."""
    net, obs, times = network(4, 2, 1.0, width).to(device), torch.ones(1024, 4, device=device), []
    for _ in range(rounds):
        start = time.perf_counter()
        net.zero_grad()
        net(obs).square().mean().backward()
        float(next(net.parameters()).grad.sum())  # a GPU runs asynchronously, and this waits for its result
        times.append(1000 * (time.perf_counter() - start))
    return np.median(times[1:])


# %% tags=["demo"]
devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
for device in devices:
    steps = [f"{width}: {milliseconds_of_a_step(device, width):.1f} ms" for width in (64, 256, 1024)]
    print(f"{device:4} a gradient step, by width: {', '.join(steps)}")
if len(devices) == 1:
    print("PyTorch finds no GPU here, so nothing was measured on one.")

# %% tags=["demo"]
ray.shutdown()

# %% [markdown]
r"""
## What you can do now

- You can run learners as actors and keep the rows out of the driver.
- You can average gradients in a ring, and you know when a tree is better.
- You can correct stale experience with V-trace, and you know what its two limits decide.
- You can stream fragments to a learner, and let one network serve many samplers.
- You can resume a killed run so that the result is equal to the last bit, and place a learner on a GPU.

## Traps

- **A list of references** reaches the learner as references.
  Pass them as separate arguments.
- **Weights that agree to five digits** aren't equal: learners that add in different orders drift apart.
- **Streams read one after the other** all wait for the slowest sampler.
- **A batch that waits for all samplers** waits forever for a dead one, unless the driver calls `leave`.
- **A checkpoint without the generators' states** resumes a different run.

## Read on

- Espeholt et al., [*IMPALA*](https://arxiv.org/abs/1802.01561), 2018: V-trace, with the proof.
- Espeholt et al., [*SEED RL*](https://arxiv.org/abs/1910.06591), 2019: central inference.
- Patarasuk and Yuan, [*Bandwidth optimal all-reduce algorithms for clusters of workstations*](https://doi.org/10.1016/j.jpdc.2008.09.002), 2009: the ring.
- Li et al., [*PyTorch Distributed*](https://arxiv.org/abs/2006.15704), 2020: DDP's buckets.
- Ray's documentation of [generators](https://docs.ray.io/en/latest/ray-core/ray-generator.html) and of [GPUs](https://docs.ray.io/en/latest/ray-core/scheduling/accelerators.html).
"""
