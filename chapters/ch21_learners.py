# %% [markdown] you_learn_to="run many learners, stream experience to them, and resume a killed training bit by bit"
r"""
# Chapter 21 · Many learners

Three learners end with the same weights, to the last bit.

*About 120 minutes · builds on [Chapter 3](ch03_actors.ipynb), [Chapter 8](ch08_rollouts.ipynb) and [Chapter 10](ch10_actor_learner.ipynb)*

**What you will be able to do**

- make the learner an actor, so rows go from sampler to learner and the driver handles only references;
- average the gradients of several learners round a ring, and say what it costs beside a tree;
- correct experience that is older than the policy, with V-trace;
- stream fragments from samplers, and answer many samplers with one network;
- resume a killed training without a bit of difference;
- give a learner a GPU, and its samplers CPUs.
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

from coursekit import begin, budget, check, hint, passed, progress, quiz, solution, warm_up
from coursekit.given.cartpoles import cartpoles
from coursekit.given.ch21_learners import Mail, layers_of, perceptron, together, tree
from coursekit.given.folders import new_folder
from coursekit.given.pole_sampler import Sampler, mean_return
from coursekit.given.poles import Agent, network

begin("ch21_learners")

# %%
ray.shutdown()  # ends a Ray that already runs here: its references and actors are gone
ray.init(num_cpus=4, num_gpus=1, include_dashboard=False)  # both numbers are only counted: see the last section
torch.set_num_threads(1)  # the networks are small, and the other processes need the other cores
warm_up(2)

# %% [markdown] tags=["notes"]
r"""
Six exercises are a lot for two hours.
With ninety minutes, leave `inference_actor` and `resume_training` for homework, and show their demonstrations from your machine.
Start the two cells above before you speak.
The ring is what a room remembers: let five people stand in a circle and pass numbers on slips of paper.
"""

# %% [markdown]
r"""
## The driver introduces sampler and learner, and steps aside

In [chapter 10](ch10_actor_learner.ipynb) the learner lived in your notebook.
On a laptop that is fine.
On a cluster, all experience then passes through the machine where your notebook runs, which probably has no GPU.

So the learner becomes an actor.
The driver asks a sampler for a fragment, receives a *reference*, and gives that to the learner.
Ray fetches the rows where they are needed.
New weights travel back the same way: the reference that `weights.remote()` returns goes to every sampler.

![The driver passes references; rows go from the samplers through the object store to two learners, which average their gradients round a ring; weights go back](../img/ch21_learners.svg)

`Sampler` and `Agent` are chapter 10's PPO, in `coursekit/given/pole_sampler.py` and `coursekit/given/poles.py`: two files, so a sampler starts without PyTorch.
A fragment's rows are a dict of arrays, as there; an `agent` learns with `update(rows)`, which returns the loss, and `weights()` returns a dict.

Write `LearnerActor`.
`learn` receives the fragments of all samplers as separate arguments, joins them into one batch, and updates the agent *once*.
It counts versions: the weights before any learning are version 0.
What `learn` returns travels to the driver, so it returns only three numbers.
"""


# %%
class LearnerActor:
    """Holds an agent and learns from what samplers send. `ray.remote` makes it an actor."""

    def __init__(self, make_agent):
        self.agent, self.version = make_agent(), 0

    def learn(self, *fragments):
        """Update the agent with the rows of all fragments; return {"version": ..., "rows": ..., "loss": ...}."""
        ### BEGIN SOLUTION
        rows = {name: np.concatenate([part[name] for part in fragments]) for name in fragments[0]}
        loss = self.agent.update(rows)
        self.version += 1
        return {"version": self.version, "rows": len(rows["obs"]), "loss": loss}
        ### END SOLUTION

    def weights(self):
        """Return the agent's weights, and "version" beside them."""
        ### BEGIN SOLUTION
        return {"version": self.version, **self.agent.weights()}
        ### END SOLUTION


# %%
check("LearnerActor", LearnerActor)

# %% [markdown] tags=["solution"]
r"""
The arguments are references when the driver calls `learn.remote(...)`, and rows when `learn` runs.
A *list* of references would arrive as a list of references, because Ray does not look inside lists ([chapter 2](ch02_objects.ipynb)).
The rows lie in the object store and are read-only: `Agent.gradient` copies them into tensors.
"""


# %%
@contextmanager
def started(count):
    """Yield a learner and samplers as actors; end them with the block, even after an error."""
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
**Predict:** the next cell launches whole iterations, each of which needs the weights from the one before.
How long does the *launch* take, and how often does the driver call `ray.get` in the loop?
"""

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

# %% [markdown]
r"""
The loop never calls `ray.get`.
Each call waits for its arguments, wherever it runs: the samplers for weights, the learner for rows.
The driver has built a graph and stepped aside; it waits only at the end, for the result.
"""

# %% tags=["demo"]
if curve:
    figure, axes = plt.subplots(figsize=(7, 2.6), constrained_layout=True)
    axes.plot(curve, "o-", color="#059669")
    axes.set(xlabel="version of the weights", ylabel="mean return of 50 episodes", title="A learner that is an actor learns")

# %% [markdown]
r"""
To see the price of the detour, the next cells pass the same arrays on as references, and through the driver.
"""


# %%
@ray.remote
class Relay:
    """Makes arrays, and takes arrays in."""

    def make(self, megabytes):
        """Return an array of this size."""
        return np.zeros(int(megabytes * 125_000))

    def take(self, *arrays):
        """Return how many bytes came."""
        return sum(array.nbytes for array in arrays)


# %%
def milliseconds(maker, taker, megabytes, fetch, rounds):
    """Return the median time in which two arrays get from maker to taker, with a detour through the driver or without."""
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
for name, fetch, colour in [("by reference", False, "#d97706"), ("through the driver", True, "#64748b")]:
    found = [milliseconds(maker, taker, size, fetch, rounds=budget(15, 5)) for size in sizes]
    axes.plot(sizes, found, "o-", color=colour, label=name)
axes.set(xscale="log", yscale="log", xlabel="MB in each of two arrays", ylabel="ms", title="What the detour costs on one machine")
axes.legend()
del maker, taker

# %% [markdown]
r"""
On one machine the driver reads the array without a copy, but sending it on writes it into the store a second time.
By reference, nothing is written at all, so the size hardly matters.
Between machines the detour also goes over the network twice.
"""

# %%
### BEGIN SOLUTION
who_holds_the_rows = "b"
### END SOLUTION

# %%
quiz("who_holds_the_rows", who_holds_the_rows)

# %% [markdown]
r"""
## Several learners share one gradient

If one learner is too slow, several learn at once: each computes the gradient of its own rows, all **average** their gradients, and each takes the same step.
They begin with equal weights, so their weights stay equal.
The averaging is called **all-reduce**: each has an array, and each ends with the mean of all.

You could send all arrays to one learner, which sends the mean back.
That one then receives and sends an array for every other, and all wait for it.
A *tree* is better, as in `tree_sum` of [chapter 1](ch01_tasks.ipynb): each passes on the sum of its branch.
The code below runs in every learner; `me` says which of the `size` learners it is, `send(to, array)` returns at once, and `receive(sender)` waits.
"""

# %%
print(inspect.getsource(tree))

# %% [markdown]
r"""
A learner mid-tree still receives three whole arrays and sends three.
A **ring** shares the work out evenly.
Each learner cuts its array into one part for each learner, and talks only to its neighbours, learner `(me + 1) % size` on the right and `(me - 1) % size` on the left.

1. Every part travels once round the ring and is *added up* on the way: in each step a learner sends one part to the right, receives another from the left, and adds its own to it.
   After `size - 1` steps, each learner holds one complete sum.
2. The sums travel round once more and *replace* what is there.

**Predict**, for four learners: how many times its whole array does each send?
And for a hundred?

Write `all_reduce`, with a ring.
The number of learners need not divide the length of the array; `np.array_split` doesn't mind.
Arrays that arrive are read-only, like everything from Ray's store, and so is `array`.
The check expects the mean, bit by bit the same for all, and counts the numbers that the busiest learner sends and receives.
"""


# %%
def all_reduce(array, me, size, send, receive):
    """Return the mean of the arrays of all learners, each of the same length; every learner calls this at the same time."""
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
Every sum is formed once, in one order, and then copied, so all results are equal to the last bit.
If each learner added the arrays in its own order, rounding would make the weights drift apart, slowly and without an error.

All learners send before they receive.
If `send` waited until the other side took the message, all would wait; real libraries overlap the two.
"""

# %% [markdown]
r"""
`together` runs a function as several learners in threads of this notebook and lists all messages, so we can count.
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
    """Return how many arrays' worth of numbers the busiest learner sends, and how many messages."""
    _, post = together(function, np.ones((size, numbers)))
    sent = [[count for sender, _, count in post.messages if sender == me] for me in range(size)]
    return max(map(sum, sent)) / numbers, max(map(len, sent))


# %% tags=["demo"]
if passed("all_reduce"):
    ways, learners = {"central": central, "tree": tree, "ring": all_reduce}, [2, 3, 4, 6, 8, 12, 16]
    figure, axes = plt.subplots(1, 2, figsize=(8, 2.8), constrained_layout=True)
    for (name, way), colour in zip(ways.items(), ["#64748b", "#2563eb", "#059669"], strict=True):
        counted = np.array([busiest(way, size) for size in learners])
        for ax, column, label in zip(axes, counted.T, ["arrays", "messages"], strict=True):
            ax.plot(learners, column, "o-", color=colour, label=name)
            ax.set(xlabel="learners", title=f"{label} that the busiest one sends")
    for ax in axes:
        ax.set_ylim(bottom=0)
    axes[0].legend()

# %% [markdown]
r"""
The busiest learner of the ring never sends two whole arrays, however many learners there are.
It pays in messages: their number grows with the learners, and each waits for the one before.
In the tree, the longest way up and down is about $2 \log_2 N$ messages, but the busiest learner sends three whole arrays.
So large arrays go round a ring, and small ones through a tree.
"""

# %%
### BEGIN SOLUTION
ring_of_many = "b"
### END SOLUTION

# %%
quiz("ring_of_many", ring_of_many)

# %% [markdown]
r"""
Now use actors, and a real gradient.
`Mail` gives an actor the two functions: `send` calls `deliver` on another actor, so the parts go from learner to learner, and `receive` waits in another thread for the delivery, hence `max_concurrency=2`.
"""


# %%
class TeamLearner(Mail):
    """A learner among several: it learns from its own rows, and steps along the mean of all gradients."""

    def __init__(self):
        super().__init__()
        self.agent = Agent(seed=0)  # the same first weights for all

    def learn(self, rows):
        """Take one step; return the bytes sent so far."""
        gradient = self.agent.gradient(rows)
        self.agent.step(all_reduce(gradient, self.me, len(self.others), self.send, self.receive))
        return self.sent

    def fingerprint(self):
        """Return a number in which every bit of the weights has a part."""
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
Each has learned from rows the others never saw, and their weights agree to the last bit.

PyTorch does this for you: wrap a model in **DDP**, distributed data parallel, and `backward()` averages the gradients.
It does three things your learner does not:

- It sends the weights of learner 0 to all others at the start, so they need no common seed.
- It collects the gradients in *buckets*, of about 25 MiB by default: a message for each small layer would be mostly delay.
- It begins as soon as the first bucket is full, while `backward()` still computes the gradients of earlier layers: the network's delay hides behind the computing.

Does it compute the same?
The next cell runs DDP in two actors, with *gloo*, PyTorch's library for messages between CPUs.
"""


# %%
@ray.remote
class DDPLearner:
    """A learner whose gradients DDP averages."""

    def gradients(self, me, size, folder, rows):
        """Return the gradient of the critic's loss of these rows: alone, and by DDP."""
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
        print(f"learner {name}: DDP is {abs(ddp - mean).max():.1e} away from your mean, {abs(ddp - alone).max():.1e} from its own")
    for actor in pair:
        ray.kill(actor)

# %% [markdown]
r"""
The same, up to rounding.
Between GPUs the messages go through NCCL, NVIDIA's library, which takes a ring or a tree by the array's size and the machines.

## Old experience is weighed, not thrown away

While a learner learns, its samplers play with weights a few versions old.
Let them wait, and half of the machine rests ([chapter 8](ch08_rollouts.ipynb)).
Let them go on, and their rows say how good the *old* policy $\mu$ is, when you want to know about the new one, $\pi$.

**V-trace** (Espeholt et al. 2018), the heart of IMPALA, weighs action $a_t$ in state $x_t$ with the ratio of its two chances, clipped twice:

$$\rho_t = \min\Bigl(\bar\rho, \frac{\pi(a_t \mid x_t)}{\mu(a_t \mid x_t)}\Bigr) \qquad c_t = \min\Bigl(\bar c, \frac{\pi(a_t \mid x_t)}{\mu(a_t \mid x_t)}\Bigr)$$

The target for the critic, with $n$ steps left in the fragment, is (equation 1 of the paper)

$$v_s = V(x_s) + \sum_{t=s}^{s+n-1} \gamma^{t-s} \Bigl(\prod_{i=s}^{t-1} c_i\Bigr) \delta_t V \qquad \delta_t V = \rho_t \bigl(r_t + \gamma V(x_{t+1}) - V(x_t)\bigr)$$

It is easier to compute backwards (remark 1): $v_s = V(x_s) + \delta_s V + \gamma c_s \bigl(v_{s+1} - V(x_{s+1})\bigr)$.
If both policies agree, all ratios are 1; with limits of 1 or more, $v_s$ is then the discounted sum of the rewards, with $V$ at the end of the fragment.
The policy's advantage is $\rho_s \bigl(r_s + \gamma v_{s+1} - V(x_s)\bigr)$.

The two kinds of end are those of `gae` in chapter 8: after `terminated` there is nothing, after `truncated` there is $V(x_{t+1})$, and no sum leads from one episode into the next.
At the last step of a fragment, $V(x_{t+1})$ stands for $v_{t+1}$ as well.
"""


# %%
def vtrace(rewards, values, ratios, terminated, truncated, gamma=0.99, rho_bar=1.0, c_bar=1.0):
    """Return (targets, advantages), both [T, N]; `values` is [T+1, N], all others [T, N] (Espeholt et al. 2018, eq. 1).

    `values[t + 1]` is V(x_{t+1}) also where the episode ended at t.
    """
    ### BEGIN SOLUTION
    rho, c = np.minimum(ratios, rho_bar), np.minimum(ratios, c_bar)
    going, over = ~terminated, terminated | truncated
    targets, advantages = np.zeros_like(values[:-1]), np.zeros_like(values[:-1])
    following, later = values[-1], 0.0  # v_{t+1}, and how far it lies from V(x_{t+1})
    for t in reversed(range(len(rewards))):
        delta = rho[t] * (rewards[t] + gamma * values[t + 1] * going[t] - values[t])
        following = np.where(over[t], values[t + 1], following)
        advantages[t] = rho[t] * (rewards[t] + gamma * following * going[t] - values[t])
        later = delta + gamma * c[t] * later * ~over[t]
        following = targets[t] = values[t] + later
    return targets, advantages
    ### END SOLUTION


# %%
check("vtrace", vtrace)

# %% [markdown] tags=["solution"]
r"""
It is `gae` with two weights.
With all ratios 1, the targets are what `gae` returns with $\lambda = 1$, plus the values.
"""

# %% [markdown]
r"""
Try it where the truth is known: a corridor of seven squares, with a reward of 1 at the right end and nothing at the left.
The samplers' old policy goes right half of the time; the learner's new one goes right in 70 of 100 steps.

**Predict:** with $\bar\rho = 1$, where will the learned values lie: at the old policy's, at the new one's, or between them?
"""

# %%
SQUARES, OLD, NEW = 7, 0.5, 0.7  # the chance of going right


def true_values(right, gamma=0.99):
    """Return the value of each square for a policy that goes right with this chance, from its linear equations."""
    go, earn = np.zeros((SQUARES, SQUARES)), np.zeros(SQUARES)
    for square in range(SQUARES):
        if square > 0:
            go[square, square - 1] = 1 - right
        if square < SQUARES - 1:
            go[square, square + 1] = right
    earn[-1] = right
    return np.linalg.solve(np.eye(SQUARES) - gamma * go, earn)


# %%
def play_old(rng, steps=16, envs=128):
    """Return squares, shape [T+1, N], and rewards, moves to the right and ends, shape [T, N], of the old policy."""
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
    """Return the values of the squares, learned from what the old policy played, with its ratios or without."""
    rng, values = np.random.default_rng(0), np.zeros(SQUARES)
    for _ in range(rounds):
        squares, rewards, right, over = play_old(rng)
        ratios = np.where(right, NEW / OLD, (1 - NEW) / (1 - OLD)) if correct else np.ones(right.shape)
        targets, _ = vtrace(rewards, values[squares], ratios, over, np.zeros_like(over), rho_bar=rho_bar)
        for square in range(SQUARES):
            values[square] += 0.2 * (targets[squares[:-1] == square].mean() - values[square])
    return values


# %% tags=["demo"]
if passed("vtrace"):
    figure, axes = plt.subplots(figsize=(7, 3), constrained_layout=True)
    axes.plot(true_values(OLD), color="#7c3aed", label="truth, old policy")
    axes.plot(true_values(NEW), color="#059669", label="truth, new policy")
    for name, settings, mark in [("no ratios", (False,), "s"), ("ρ̄ = 1", (True, 1.0), "o"), ("ρ̄ = 2", (True, 2.0), "^")]:
        axes.plot(learned_values(*settings), mark, color="#d97706", label=f"learned, {name}")
    axes.set(xlabel="square", ylabel="value", title="All rows come from the old policy")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)

# %% [markdown]
r"""
Without ratios the critic learns what the old policy is worth: stale experience teaches stale values, without an error.
With $\bar\rho = 2$ no $\rho_t$ is clipped, and the values are the new policy's, though $\bar c = 1$ clips: it decides how fast they get there, not where.
With $\bar\rho = 1$ they lie between: the paper shows that V-trace then values the policy whose chances are proportional to $\min(\bar\rho \mu, \pi)$.
"""

# %%
### BEGIN SOLUTION
rho_or_c = "a"
### END SOLUTION

# %%
quiz("rho_or_c", rho_or_c)

# %% [markdown]
r"""
## A sampler streams, and the learner begins at once

A call returns when it is done.
If a sampler plays twenty fragments in one call, the first is ready long before the call is.
With a call for each fragment, the driver has to ask twenty times, and the sampler waits for each request.

A **streaming generator** lies between the two.
`Sampler.stream` is a Python generator: it *yields* each fragment.
Called with `.options(num_returns="streaming")`, it returns an `ObjectRefGenerator` at once, whose `next` returns the *reference* of the next fragment as soon as that exists.
For a method that yields, that is Ray 2.60's default.

Write `stream_samples`, for several samplers.
Each streams `count` fragments with one call.
Give each reference to `learner.learn.remote` as soon as it arrives, whichever sampler it comes from: a slow one must not hold up the others.
When all streams are over, return what `learn` returned, in any order.

`ray.wait` takes generators as well as references: a generator is *ready* when its `next` would not wait, also where that raises `StopIteration`, at the end.
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
`next(stream)` returns a reference, so the driver still holds no rows.
A stream also runs ahead.
When the learner is slow, fragments pile up in the object store; `.options(_generator_backpressure_num_objects=2)` makes the sampler wait when two are unread, though the option's underscore warns that it may change.
"""


# %%
class SlowSampler(Sampler):
    """Needs a fifth of a second more for each fragment."""

    def sample(self):
        """Return a fragment, after a nap."""
        time.sleep(0.2)
        return super().sample()

    def all_at_once(self, count):
        """Return a list of fragments."""
        return list(self.stream(count))


class Clock:
    """Stands in for a learner: says when the rows arrived."""

    def learn(self, rows):
        """Return the time."""
        return time.time()


# %% tags=["demo"]
if passed("stream_samples"):
    sampler, clock = ray.remote(SlowSampler).remote(seed=0, envs=16), ray.remote(Clock).remote()
    ray.get([sampler.set_weights.remote(Agent().weights()), clock.learn.remote(None)])
    start = time.time()
    came = ray.get([clock.learn.remote(part) for part in ray.get(sampler.all_at_once.remote(5))])
    print("one list:", *[f"{moment - start:.1f}" for moment in came], "s")
    start = time.time()
    print("a stream:", *[f"{moment - start:.1f}" for moment in stream_samples([sampler], clock, 5)], "s")
    for actor in (sampler, clock):
        ray.kill(actor)

# %% [markdown]
r"""
The last fragment comes no earlier.
But the learner has work as soon as the first arrives.

## One network for all samplers, or one in each

So far every sampler has had its own network, and received all weights after each version.
That is fine for 20 kB, but you would rather keep a policy of a gigabyte in one place, on a GPU, and let the samplers *ask*.
SEED (Espeholt et al. 2019) does that, on the learner's machine: an **inference actor** collects the observations of many samplers, calls the network once for all, and hands each its own row.

In [chapter 3](ch03_actors.ipynb) a clock decided when a batch was complete.
Here you need none: each sampler waits for its action, so a batch is complete when *all* samplers have asked.
One trap remains: a sampler that has finished, or died, never asks again, and the others would wait forever.
So a second method, `leave`, says that a sampler will not come back.
The sampler calls it, or the driver does when the sampler has died.

Write `inference_actor`.
It returns a handle to an actor with two methods, `act(sampler, obs)` and `leave(sampler)`.
`network` takes rows, shape [B, 3] in the check, and returns as many.
Call it once for each batch, and never without rows.
"""


# %%
def inference_actor(network, samplers):
    """Return an actor that answers `act(sampler, obs)` with one row of `network(rows)`, as soon as all samplers have asked.

    `samplers` is a list of their numbers; `leave(sampler)` takes one out of those that the others wait for.
    """
    ### BEGIN SOLUTION

    class Inference:
        def __init__(self):
            self.there, self.waiting = set(samplers), {}

        async def act(self, sampler, obs):
            future = asyncio.get_running_loop().create_future()
            self.waiting[sampler] = obs, future
            self.answer_if_complete()
            return await future

        async def leave(self, sampler):
            self.there.discard(sampler)
            self.answer_if_complete()

        def answer_if_complete(self):
            if self.waiting and self.there <= self.waiting.keys():
                batch, self.waiting = self.waiting, {}
                answers = network(np.stack([obs for obs, _ in batch.values()]))
                for (_, future), answer in zip(batch.values(), answers, strict=True):
                    future.set_result(answer)

    return ray.remote(Inference).remote()
    ### END SOLUTION


# %%
check("inference_actor", inference_actor)

# %% [markdown] tags=["solution"]
r"""
`leave` has to look as well: if the only sampler that had not asked leaves, no other call comes to complete the batch.
And when the very last sampler leaves, no call waits, and a network called with no rows raises.

A sampler that dies *while it waits* leaves a question behind; its answer is thrown away, and no harm is done.
"""

# %% [markdown]
r"""
Which is better?
Four samplers ask for an action 20 times each, with networks of different widths, on a CPU.

**Predict** both ends: a width of 64, as in CartPole's policy, and one of a thousand or more.
"""


# %%
class Player:
    """Needs an action for each of some observations, from a network of its own or from an inference actor."""

    def __init__(self, me):
        self.me, self.obs = me, np.random.default_rng(me).normal(size=(100, 4)).astype(np.float32)

    def play(self, width, steps):
        """Ask a network in this process."""
        return [perceptron(layers_of(width), obs[None])[0] for obs in self.obs[:steps]]

    def ask(self, actor, steps):
        """Ask the actor."""
        found = [ray.get(actor.act.remote(self.me, obs)) for obs in self.obs[:steps]]
        ray.get(actor.leave.remote(self.me))
        return found


# %%
def seconds_of_both(players, width, steps):
    """Return the seconds with a network in each player, and with one for all; each has answered once before."""
    actor = inference_actor(lambda rows: perceptron(layers_of(width), rows), list(range(1 + len(players))))
    ray.get([player.play.remote(width, 1) for player in players])
    ray.get([actor.act.remote(me, np.zeros(4, np.float32)) for me in range(1 + len(players))])
    ray.get(actor.leave.remote(len(players)))  # not before the answers: an asyncio actor may begin its calls in any order
    moments = [time.perf_counter()]
    for one in (False, True):
        ray.get([player.ask.remote(actor, steps) if one else player.play.remote(width, steps) for player in players])
        moments.append(time.perf_counter())
    return np.diff(moments)


# %% tags=["demo"]
if passed("inference_actor"):
    widths, steps = budget([64, 512, 1024, 2048], [64, 512, 1024]), 20
    players = [ray.remote(Player).remote(me) for me in range(4)]
    times = np.array([seconds_of_both(players, width, steps) for width in widths])
    figure, axes = plt.subplots(figsize=(7, 2.8), constrained_layout=True)
    for column, name, colour in zip(times.T, ["a network in each", "one inference actor"], ["#7c3aed", "#059669"], strict=True):
        axes.plot(widths, 1000 * column / steps, "o-", color=colour, label=name)
    axes.set(xscale="log", yscale="log", xlabel="width of the network", ylabel="ms a step", title="Four samplers, on a CPU")
    axes.legend()
    del players

# %% [markdown]
r"""
For a small network the question costs far more than the answer: a message to an actor takes longer than two small matrices.
As the network grows, the gap shrinks: for a single row, each sampler reads *all* weights out of memory, where the batch reads them once for four rows.
But four samplers use all your cores, and one inference actor uses one, so on a CPU the single network hardly ever wins.
Its case is the GPU, built for many rows at once.
And the plot leaves one thing out: new weights go to one process, not four.
"""

# %%
### BEGIN SOLUTION
one_network_or_many = "b"
### END SOLUTION

# %%
quiz("one_network_or_many", one_network_or_many)

# %% [markdown]
r"""
## Killed, resumed, and not a bit different

Three days of training will be interrupted.
What must a checkpoint hold so that the resumed run is *the same run*?
Everything that decides the future: the weights, the optimizer's memory, the number of iterations done, and the state of every random generator.
The test is hard: kill a run, resume it, and compare it, bit by bit, with a run that was left alone.

Write `resume_training`.

- `make()` returns a fresh `policy`, its `optimizer` and a NumPy generator `rng`, and seeds PyTorch.
- `iterate(policy, optimizer, rng)` plays and learns once, and draws from `rng` *and* from PyTorch's own generator.
- `path` is a `Path` in a folder of its own: if it holds a checkpoint, continue from it.

Save after every iteration.
The process may be killed at any moment, even while it writes; [chapter 5](ch05_faults.ipynb) says what helps.
"""


# %%
def resume_training(make, iterate, iterations, path):
    """Return the policy after this many iterations in all, those before an interruption included."""
    ### BEGIN SOLUTION
    policy, optimizer, rng = make()
    version = 0
    if path.exists():
        state = torch.load(path, weights_only=False)
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
`weights_only=False` lets `torch.load` rebuild any Python object, and so run any code in the file: use it only for files you wrote yourself.
Here everything is numbers, strings and tensors, so `weights_only=True` works as well.

What else can decide the future?
The state of the environments, which is why `iterate` begins new episodes; rows in a replay buffer; a learning rate that a scheduler changes; Python's own `random`; and on a GPU, kernels that add in a different order each time.
"""

# %% [markdown]
r"""
Now for real: a policy learns CartPole in a Ray task that is killed once it has written twenty checkpoints.
Another task resumes it, and your notebook runs the same training without a kill.
"""


# %%
def make():
    """Return a fresh policy for CartPole, its optimizer and a generator."""
    torch.manual_seed(0)
    policy = network(4, 2, gain=0.01, width=32)
    return policy, torch.optim.Adam(policy.parameters(), 1e-2), np.random.default_rng(0)


# %%
def iterate(policy, optimizer, rng):
    """Play 8 new carts for 60 steps, and make each action likelier the more steps came after it (REINFORCE)."""
    envs, logps, running = cartpoles(8), [], []
    obs, _ = envs.reset(seed=int(rng.integers(10**6)))
    alive = torch.ones(8)
    for _ in range(60):
        chances = torch.distributions.Categorical(logits=policy(torch.tensor(obs)))
        actions = chances.sample()  # PyTorch's generator
        obs, _, fallen, _, _ = envs.step(actions.numpy())
        logps.append(chances.log_prob(actions) * alive)
        running.append(alive)
        alive = alive * torch.tensor(~fallen)
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
    ray.cancel(doomed, force=True)  # ends its process at once
    try:
        ray.get(doomed)
        print("It was done before it could be killed.")
    except ray.exceptions.RayError as error:
        print(f"It was killed after {len(saved)} checkpoints or more: {type(error).__name__}.")
    resumed = train.remote(make, iterate, 100, path)
    undisturbed = resume_training(make, iterate, 100, Path(new_folder()) / "state")
    pairs = zip(undisturbed.parameters(), ray.get(resumed).parameters(), strict=True)
    print("equal bit by bit:", all(torch.equal(one, other) for one, other in pairs))

# %% [markdown]
r"""
## The learner asks for a GPU, the samplers for CPUs

`ray.init` above said `num_gpus=1`.
Ray did not look for one: like CPUs, GPUs are *counted* ([chapter 4](ch04_scheduling.ipynb)), so you can try out a program's placement on a machine that has none.

An actor with `num_gpus=1` is given a number, and finds it in `ray.get_gpu_ids()` and in the variable `CUDA_VISIBLE_DEVICES`, which PyTorch obeys.

**Predict:** what happens to a *second* learner that asks for a GPU?
"""


# %%
class Placed:
    """Says which GPUs it was given."""

    def where(self):
        """Return Ray's numbers of the GPUs, and what the process may see."""
        return f"GPUs {ray.get_gpu_ids()}, CUDA_VISIBLE_DEVICES {os.environ.get('CUDA_VISIBLE_DEVICES', 'not set')}"


# %% tags=["demo"]
actors = {
    "learner": ray.remote(Placed).options(num_gpus=1).remote(),
    "sampler": ray.remote(Placed).options(num_cpus=1).remote(),
}
for name, actor in actors.items():
    print(f"{name}: {ray.get(actor.where.remote())}")
second = ray.remote(Placed).options(num_gpus=1).remote()
ready, waits = ray.wait([second.where.remote()], timeout=1)
print("the second learner", "runs" if ready else f"waits; GPUs free: {ray.available_resources().get('GPU', 0):.0f}")
for actor in (second, *actors.values()):
    ray.kill(actor)

# %% [markdown]
r"""
It waits, as any actor does for a resource that is not free.
Two learners that share one GPU ask for `num_gpus=0.5` each; Ray counts halves, and does not watch how much memory they take.
A sampler that asks for no GPU can still see them: its `CUDA_VISIBLE_DEVICES` stays as it was, and if that is not set, PyTorch finds all GPUs of the machine.

The next cell takes the same gradient steps on the CPU and on a GPU, if there is one, for networks of several widths.
This chapter was written without a GPU, so the GPU's half of the cell has not been run.
"""


# %%
def milliseconds_of_a_step(device, width, rounds=4):
    """Return the median time of a gradient step on 1024 rows."""
    net, obs, times = network(4, 2, 1.0, width).to(device), torch.ones(1024, 4, device=device), []
    for _ in range(rounds):
        start = time.perf_counter()
        net.zero_grad()
        net(obs).square().mean().backward()
        float(next(net.parameters()).grad.sum())  # a GPU works on after the call: this waits for its result
        times.append(1000 * (time.perf_counter() - start))
    return np.median(times[1:])


# %% tags=["demo"]
devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
for device in devices:
    told = [f"{width}: {milliseconds_of_a_step(device, width):.1f} ms" for width in (64, 256, 1024)]
    print(f"{device:4} a gradient step by width: {', '.join(told)}")
if len(devices) == 1:
    print("There is no GPU here, so nothing was measured on one.")

# %% tags=["demo"]
ray.shutdown()

# %% [markdown]
r"""
## What you can do now

- You run learners as actors, and keep rows out of the driver.
- You average gradients round a ring, and know when a tree is better and what DDP adds.
- You correct stale experience with V-trace, and know what its two limits decide.
- You stream fragments to a learner, and let one network answer many samplers.
- You resume a killed training without a bit of difference, and place a learner on a GPU.

## Traps

- **A list of references** reaches the learner as references.
  Pass them as separate arguments.
- **Rows from the store are read-only.** Copy before you change them.
- **Weights that agree to five digits** are not equal: learners drift apart when each adds in its own order.
- **Stale rows without ratios** raise no error, and teach the values of an old policy.
- **One stream after the other** makes the slowest sampler set the pace.
- **A batch that waits for all** waits forever for one that died, unless the driver calls `leave` for it.
- **A checkpoint without the generators** resumes another run.

## Read on

- Espeholt et al., [*IMPALA*](https://arxiv.org/abs/1802.01561), 2018: V-trace, with the proof.
- Espeholt et al., [*SEED RL*](https://arxiv.org/abs/1910.06591), 2019: central inference.
- Patarasuk and Yuan, [*Bandwidth optimal all-reduce algorithms for clusters of workstations*](https://doi.org/10.1016/j.jpdc.2008.09.002), 2009: the ring.
- Li et al., [*PyTorch Distributed*](https://arxiv.org/abs/2006.15704), 2020: DDP's buckets.
- Ray's documentation of [generators](https://docs.ray.io/en/latest/ray-core/ray-generator.html) and of [GPUs](https://docs.ray.io/en/latest/ray-core/scheduling/accelerators.html).
"""
