# %% [markdown] you_learn_to="write DQN with `multiprocessing` and with Ray, lose no update"
r"""
# Chapter 9 · Distributed DQN

Many workers train one agent, and no update is lost.

*About 100 minutes · builds on [Chapter 3](ch03_actors.ipynb), [Chapter 7](ch07_environments.ipynb) and [Chapter 8](ch08_rollouts.ipynb)*

**What you will be able to do**

- write the parts of DQN: a replay buffer that keeps only what happened, and a target that looks ahead;
- share one agent among workers without losing an update, and measure how old their gradients are;
- write the same program twice, with `multiprocessing` and with Ray, and say what each changed line buys;
- kill a worker in both, and see what becomes of the rest;
- train an agent on two cores in seconds.
"""

# %%
import math
import multiprocessing
import os
import time
from contextlib import contextmanager
from functools import partial

import gymnasium
import matplotlib.pyplot as plt
import numpy as np
import pandas
import psutil
import ray
from ray.util.queue import Queue

from coursekit import begin, budget, check, hint, passed, progress, quiz, solution, warm_up

begin("ch09_dqn")

# %%
from coursekit.given.deaths import keep_news_of_deaths
from coursekit.given.ch09_dqn import (
    Adam,
    Office,
    Sampler,
    by_value,
    cartpoles,
    fresh_theta,
    q_values,
    side_by_side,
    td_gradient,
    with_goodbye,
)
from coursekit import Drawn, strip

# %%
os.environ["OMP_NUM_THREADS"] = "1"  # for all processes to come: the matrices are small, more threads gain nothing
ray.shutdown()  # ends a Ray that already runs here: its references and actors are gone
ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
warm_up(4)  # half a minute where the machine is slow or busy
news = keep_news_of_deaths()  # we will kill a worker: Ray's report about it is kept instead of printed (chapter 5)

# %% [markdown] tags=["notes"]
r"""
The run sheet plans a hundred minutes, with `train` as homework; show the rest from your machine.
The highlight is the plot of the lost updates: ask for predictions in numbers before anyone runs that cell.
Run the three cells above before you speak.
"""

# %% [markdown]
r"""
## DQN learns from what was played long ago

Chapter 8 used experience once and threw it away.
**DQN** (deep Q-network, Mnih et al. 2015) keeps it.
A network estimates $Q_\theta(s, a)$: the discounted rewards still to come when you choose $a$ in $s$ and the best action from then on.
If you know $Q$, you know what to do: take the action with the highest $Q$.
$Q$ does not depend on the policy that collected the experience, so a step from ten minutes ago, played with worse weights, still teaches something: DQN is **off-policy**.
Three ideas make it work:

- a **replay buffer** keeps the last 20,000 steps, and every update learns from 256, drawn at random;
- a **target network** $\theta^-$, an older copy of the weights, says what the future is worth, so the network does not chase its own tail;
- **exploration**: with probability $\varepsilon$ a worker draws its action at random; $\varepsilon$ is 1 at first and 0.05 later.

Spread over processes, it looks like this:

![Two workers get parameters from the agent and batches from the replay buffer; they send fragments to the buffer, gradients to the agent, steps and scores to the board, and reports into a queue, which your notebook reads](../img/ch09_parts.svg)

Workers play *and* compute gradients; everything they share is an object in another process.
These are all the numbers:
"""

# %%
FRAMES, BATCH = 4, 256  # a round of a worker: 4 frames of 8 environments, then one gradient from 256 steps
CAPACITY = 20_000  # steps that the buffer keeps
GAMMA, RATE = 0.99, 2e-3  # the discount; the optimizer's learning rate
TARGET_EVERY = 20  # updates after which the target network is copied again
TEST_EVERY = 25  # rounds of a worker after which it tests what has been learned
GOAL, STOP = 195, 225  # mean return that counts, mean return in a test at which we stop
LIMIT = 50_000  # steps after which we give up


def epsilon(version):
    """Return the share of random actions after `version` updates."""
    return max(0.05, 1 - version / 250)


# %% [markdown]
r"""
Other tutorials would import PyTorch now.
That costs each process one to two seconds and a few hundred megabytes, and we will start many.
Our network has two hidden layers and 4,610 weights, few enough for thirty lines of NumPy in `coursekit`.
Type `td_gradient??` in a cell to see the ten that matter.
All weights are one array, `theta`; `q_values(theta, obs)` has a row for each observation and a column for each action.

The problem is CartPole.
A random policy keeps the pole up for some 20 steps; our goal is a mean return of 195, at which CartPole's first version counted as solved.

The given `Sampler` is a relative of chapter 8's: `play(theta, epsilon, frames)` returns a fragment and a list of the returns of the episodes that ended in it; `test(theta)` returns the mean return of 50 fresh episodes.
"""

# %% tags=["demo"]
theta = fresh_theta(seed=0)
sampler = Sampler(cartpoles, seed=0)  # eight environments
fragment, ended = sampler.play(theta, 1.0, 100)  # 100 frames, every action at random
for key, value in fragment.items():
    print(f"{key:12} {np.shape(value)!s:12} {np.asarray(value).dtype}")
print(f"{len(ended)} episodes ended, with a mean return of {np.mean(ended):.0f};", end=" ")
print(f"{np.sum(~fragment['real'])} frames are resets")

# %% [markdown]
r"""
## A replay buffer keeps transitions, not frames

DQN learns from **transitions** (chapter 7).
A fragment has them all, but not as rows.
`next_obs` of a frame is `obs` of the next frame *of the same environment*; after the last frame it is `last_obs`.
And the frames with `real` False are only resets.

Draw an episode that ends in frame 2, with the reset in frame 3.
Which frame's `obs` is `next_obs` of frame 2?
And what goes wrong if you first throw the resets away and then shift by one?

The buffer has room for `capacity` transitions.
When it is full, a new one replaces the oldest.
`sample` draws from those stored, each equally likely, and puts back what it has drawn: the first worker asks for 256 when hardly 32 are there.
Check it here as an ordinary class; it becomes an actor later.
"""


# %%
class ReplayBuffer:
    """Keeps the newest transitions."""

    def __init__(self, capacity, seed):
        """Begin with nothing; `seed` is for the draws."""
        ### BEGIN SOLUTION
        self.capacity, self.rng = capacity, np.random.default_rng(seed)
        self.columns, self.added = {}, 0  # how many were ever added
        ### END SOLUTION

    def add(self, fragment):
        """Keep the transitions of a fragment, which never has more than `capacity` of them."""
        ### BEGIN SOLUTION
        real = fragment["real"]
        later = np.concatenate([fragment["obs"][1:], fragment["last_obs"][None]])
        names = ("obs", "actions", "rewards", "terminated", "truncated")
        rows = {name: fragment[name][real] for name in names} | {"next_obs": later[real]}
        if not self.columns:
            self.columns = {name: np.zeros((self.capacity, *row.shape[1:]), row.dtype) for name, row in rows.items()}
        places = (self.added + np.arange(real.sum())) % self.capacity
        for name, column in self.columns.items():
            column[places] = rows[name]
        self.added += len(places)
        ### END SOLUTION

    def sample(self, size):
        """Return `size` transitions as a dict of arrays, each drawn from all that are there: one may come twice.

        So `size` may be larger than what is there. Its keys are "obs", "actions", "rewards", "terminated", "truncated" and "next_obs".
        """
        ### BEGIN SOLUTION
        chosen = self.rng.integers(min(self.added, self.capacity), size=size)
        return {name: column[chosen] for name, column in self.columns.items()}
        ### END SOLUTION


# %%
check("ReplayBuffer", ReplayBuffer)

# %% [markdown] tags=["solution"]
r"""
First shift, then throw away: `later[real]` pairs each frame with its own successor, so `next_obs` of frame 2 is `obs` of frame 3, although that frame is a reset.
In Gymnasium's mode *next step* the reset's `obs` is the true last observation of the episode.
The other order pairs an episode's last frame with the next one's first observation, which says that falling over leads to a fresh start.

`% capacity` makes a ring: the places run past the end and continue at 0.
Cutting a list with `[-capacity:]` would also be right, but makes a new list of 20,000 entries at every call.
"""

# %% tags=["demo"]
if passed("ReplayBuffer"):
    buffer = ReplayBuffer(CAPACITY, seed=0)
    buffer.add(fragment)
    batch = buffer.sample(BATCH)
    print({name: column.shape for name, column in batch.items()})

# %%
### BEGIN SOLUTION
why_at_random = "b"
### END SOLUTION

# %%
quiz("why_at_random", why_at_random)

# %% [markdown]
r"""
## The target is chosen by one network and rated by another

The network learns towards a **target**: the reward that came, plus what the future is worth.
With the best action in $s'$ you would write $y = r + \gamma \max_a Q(s', a)$.
That maximum has a catch.

**Predict:** two actions are both worth exactly 0, and your estimates of them are off by about 1, up or down.
What is the larger estimate, on average?
"""

# %% tags=["demo"]
one, other = np.random.default_rng(0).normal(size=(2, 10_000, 2))  # two estimates of two actions, 10,000 times
chosen = one.argmax(axis=1)
print(f"the larger of two estimates:                   {one.max(axis=1).mean():+.2f}")
print(f"chosen by one estimate, rated by another one:  {other[np.arange(10_000), chosen].mean():+.2f}")

# %% [markdown]
r"""
Well above 0: a maximum prefers overestimates.
And the error feeds itself, since this target trains the network that makes the next one.
**Double DQN** (van Hasselt et al. 2016) needs two networks, and has them already: the newest $\theta$ *chooses* the action, and the older $\theta^-$ *rates* it.

$$y = r + \gamma\, Q_{\theta^-}\bigl(s', \arg\max_a Q_\theta(s', a)\bigr)$$

At an end, chapter 8's rule holds in a simpler form: after **terminated** $y = r$; after **truncated** nothing changes.

Try it on paper: $r = 1$, $\gamma = 0.5$; the newest network says 2 and 4 for the two actions of $s'$, the older one says 10 and 6.
"""


# %%
def td_target(rewards, terminated, truncated, q_online, q_target, gamma=0.99):
    """Return the targets of Double DQN, shape [B] (van Hasselt et al. 2016).

    `q_online` and `q_target` are Q(s', a) of the newest and of the older network, shape [B, A]; the rest is [B].
    """
    ### BEGIN SOLUTION
    best = q_online.argmax(axis=1)
    future = q_target[np.arange(len(best)), best]
    return rewards + gamma * future * ~terminated
    ### END SOLUTION


# %%
check("td_target", td_target)

# %% [markdown] tags=["solution"]
r"""
`truncated` is not used at all.
It is an argument because every buffer has both flags, and because `terminated | truncated` is such a common mistake: it teaches that a pole still standing after 500 steps has no future.
"""

# %% [markdown]
r"""
On paper: the newest prefers the second action, for which the older says 6, so $y = 1 + 0.5 \cdot 6 = 4$.

With the given `td_gradient`, that is all a worker needs to learn from `parameters`, both networks in one dict, and a batch:
"""


# %%
def gradient_of(parameters, batch):
    """Return the gradient of half the mean squared error against the targets, shaped like theta."""
    q_online = q_values(parameters["theta"], batch["next_obs"])
    q_target = q_values(parameters["target"], batch["next_obs"])
    ends = batch["terminated"], batch["truncated"]
    targets = td_target(batch["rewards"], *ends, q_online, q_target, GAMMA)
    return td_gradient(parameters["theta"], batch["obs"], batch["actions"], targets)


# %% [markdown]
r"""
## Get, update, put: half of the updates are lost

How do several workers improve *one* agent?
The usual first attempt is a cycle: **get** the parameters, **update** them locally, **put** them back.
Here it is, with one more number in the parcel: `updates` says how many updates are *in* these weights.
Each worker adds one.

**Predict:** two workers make 40 updates each.
Which number is on the shelf in the end?
And with four workers, 160 updates in all?
"""


# %% tags=["demo"]
@ray.remote(num_cpus=0)
class Shelf:
    """Keeps what was put there last."""

    def put(self, theta, updates):
        """Replace the weights."""
        self.kept = theta, updates

    def get(self):
        """Return weights, and how many updates are in them."""
        return self.kept


# %% tags=["demo"]
@ray.remote
def get_update_put(shelf, batch, rounds):
    """The usual cycle."""
    optimizer = Adam(RATE)
    for _ in range(rounds):
        theta, updates = ray.get(shelf.get.remote())
        theta = theta.copy()  # what comes from Ray is read-only
        optimizer.step(theta, gradient_of({"theta": theta, "target": theta}, batch))
        ray.get(shelf.put.remote(theta, updates + 1))


# %% tags=["demo"]
rounds, crews, kept = 40, [1, 2, 4], {}
if passed("ReplayBuffer") and passed("td_target"):
    shelf, batch_ref = Shelf.remote(), ray.put(batch)
    for workers in [4, *crews]:  # the first is a warm-up
        ray.get(shelf.put.remote(theta, 0))
        ray.get([get_update_put.remote(shelf, batch_ref, rounds) for _ in range(workers)])
        _, kept[workers] = ray.get(shelf.get.remote())
    for workers in crews:
        print(f"workers: {workers}; updates made: {workers * rounds}; in the weights: {kept[workers]}")
    ray.kill(shelf)

# %% [markdown]
r"""
One worker loses nothing.
Two lose nearly half: while one computes, the other puts its result, which the first then overwrites.
Four make four times as many updates, and keep hardly more than one alone: some 40 to 60 of 160.
Most of their work is wasted, and *nothing complains*.
It is chapter 3's lost update, which was about money.

The cure is the same: instead of the new state, send **what to do**.
A worker sends its *gradient*, and the agent applies it, in one call.
The optimizer and its memory move into the agent, too.

This creates a new problem: a gradient belongs to the weights at which it was computed, and by the time it arrives the agent has moved on.
So the agent counts its updates in `version`, a worker says which version its gradient belongs to, and the difference is the gradient's **age**: 0 when no other gradient came in between.

The agent begins with version 0.
`optimizer.step(theta, gradient)` changes the array `theta` *in place*; what comes from Ray is read-only, so copy it first.
Whenever the version becomes a multiple of `target_every`, the target network takes the current weights.
"""


# %%
class SharedAgent:
    """The weights that all workers improve; only the agent changes them."""

    def __init__(self, theta, optimizer, target_every):
        """Begin with version 0; both networks are `theta`."""
        ### BEGIN SOLUTION
        self.theta, self.target = theta.copy(), theta.copy()
        self.optimizer, self.target_every = optimizer, target_every
        self.version, self.seen = 0, []
        ### END SOLUTION

    def parameters(self):
        """Return {"theta": the weights, "target": those of the target network, "version": how many updates are in them}."""
        ### BEGIN SOLUTION
        return {"theta": self.theta, "target": self.target, "version": self.version}
        ### END SOLUTION

    def apply(self, gradient, version):
        """Take one step with a gradient that was computed at this version."""
        ### BEGIN SOLUTION
        self.seen.append(self.version - version)
        self.optimizer.step(self.theta, gradient)
        self.version += 1
        if self.version % self.target_every == 0:
            self.target = self.theta.copy()
        ### END SOLUTION

    def ages(self):
        """Return the age of every gradient so far, at its arrival, as a list."""
        ### BEGIN SOLUTION
        return self.seen
        ### END SOLUTION


# %%
check("SharedAgent", SharedAgent)

# %% [markdown] tags=["solution"]
r"""
Every copy has its reason.
`__init__` needs `theta.copy()` because an array that arrives in an actor is read-only.
`self.target = self.theta` without a copy would be a second *name* for the same array: the target would move with every step, and there would be no target network at all.
That raises no error, and learning becomes a matter of luck.
`parameters` needs no copy in an ordinary actor: Ray packs the result before the next call begins.
"""

# %% [markdown]
r"""
Now the same count again, with gradients instead of weights.

**Predict:** how many of four workers' 160 updates are in the weights?
And how old is a gradient, on average, with one, two and four workers?
"""


# %% tags=["demo"]
@ray.remote
def get_gradient_apply(agent, batch, rounds):
    """The same cycle, with gradients."""
    for _ in range(rounds):
        now = ray.get(agent.parameters.remote())
        ray.get(agent.apply.remote(gradient_of(now, batch), now["version"]))


applied, ages = {}, {}
if passed("SharedAgent") and kept:
    agent = ray.remote(SharedAgent).options(num_cpus=0).remote(theta, Adam(RATE), TARGET_EVERY)
    for workers in [4, *crews]:
        before = ray.get(agent.parameters.remote())["version"]
        ray.get([get_gradient_apply.remote(agent, batch_ref, rounds) for _ in range(workers)])
        applied[workers] = ray.get(agent.parameters.remote())["version"] - before
        ages[workers] = ray.get(agent.ages.remote())[before:]

# %% tags=["demo"]
if applied:
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), constrained_layout=True)
    for place, (counts, name, colour) in enumerate(
        [(kept, "put", "#d97706"), (applied, "applied by the agent", "#059669")]
    ):
        left.bar(np.arange(3) + 0.4 * place, [counts[workers] for workers in crews], 0.4, color=colour, label=name)
    made = [workers * rounds for workers in crews]
    left.plot(np.arange(3) + 0.2, made, "_", color="#64748b", markersize=60, label="made")
    left.set_xticks(np.arange(3) + 0.2, crews)
    left.set(xlabel="workers", ylabel="updates in the weights", title="What is put back is lost")
    left.legend(loc="upper left", markerscale=0.2)
    for workers, colour in zip(crews, ["#94a3b8", "#2563eb", "#7c3aed"], strict=True):
        values, times = np.unique(ages[workers], return_counts=True)
        label = f"{workers}, on average {np.mean(ages[workers]):.1f}"
        right.plot(values, times / sum(times), "o-", color=colour, label=label)
    right.set(xlabel="age of a gradient, in updates", ylabel="share", title="Applied, but a little old")
    right.locator_params(axis="x", integer=True)
    right.legend(title="workers")

# %% [markdown]
r"""
Now every update counts, and the price is on the right: with $n$ workers, up to about $n - 1$ other updates come in between on average.
There are fewer when workers mostly wait for the agent or for a core.
A gradient one to three updates old usually points in nearly the same direction.
One that is a thousand updates old may not; some systems with hundreds of workers drop gradients that are too old, or make fast workers wait.
DQN tolerates a lot of it: the *experience* in its buffer is hundreds of updates old anyway.

Once the cores are full, more workers bring no more updates a second.
"""

# %%
### BEGIN SOLUTION
lost_or_old = "a"
### END SOLUTION

# %%
quiz("lost_or_old", lost_or_old)

# %% [markdown]
r"""
## First with `multiprocessing`: objects in an office

Now write the whole program, twice.
Both versions use *your* buffer, targets and agent; they differ in how processes start, how they talk, and what happens when one dies.

One piece is missing, the counters that all workers share: how many steps were played, which weights were best so far, and whether it is enough.
That is chapter 3's `BestSoFar` with a step counter; older programs call it `GlobalVar`.
"""


# %%
class Board:
    """Counts the steps of all workers, keeps the best weights, and knows when it is enough."""

    def __init__(self, stop, limit):
        self.stop, self.limit, self.steps = stop, limit, 0
        self.kept = -math.inf, None

    def count(self, steps):
        """Add these steps; return whether to continue."""
        self.steps += steps
        return self.steps < self.limit and self.kept[0] < self.stop

    def offer(self, score, theta):
        """Keep these weights if no others had a better score."""
        if score > self.kept[0]:
            self.kept = score, theta

    def best(self):
        """Return the best score, and its weights."""
        return self.kept


# %% [markdown]
r"""
`multiprocessing` shares numbers through `Value` and arrays through `Array`: raw memory, a lock for each, and your code in between.
For objects with methods it has a **manager**: a process that keeps objects and hands out *proxies*, whose methods run over there.
That comes close to an actor, so our `Office` is a manager.
Read the worker, `process_work`, carefully: you will translate it.
"""

# %% tags=["demo"]
context = multiprocessing.get_context("spawn")  # the same on Linux, macOS and Windows; also safe while Ray runs


@contextmanager
def process_office(seed, stop=STOP, limit=LIMIT):
    """Yield agent, buffer, board and queue, kept by a process that ends with the block."""
    with Office(ctx=context) as office:
        agent = office.keep(by_value(SharedAgent), fresh_theta(seed), Adam(RATE), TARGET_EVERY)
        buffer = office.keep(by_value(ReplayBuffer), CAPACITY, seed)
        board = office.keep(by_value(Board), stop, limit)
        yield agent, buffer, board, office.Queue()


# %% tags=["demo"]
def process_work(make_sampler, agent, buffer, board, results):
    """Play, learn and report, until the board says that it is enough."""
    sampler, turn, steps, played = make_sampler(), 0, 0, []
    while board.count(steps):
        now = agent.parameters()
        fragment, ended = sampler.play(now["theta"], epsilon(now["version"]), FRAMES)
        buffer.add(fragment)
        agent.apply(gradient_of(now, buffer.sample(BATCH)), now["version"])
        steps, played = int(fragment["real"].sum()), played + ended
        if turn % TEST_EVERY == 0:
            score = sampler.test(now["theta"])
            board.offer(score, now["theta"])
            results.put((time.time(), os.getpid(), now["version"], score, played))
            played = []
        turn += 1
    results.put(None)  # goodbye: nothing else says that this worker is done


# %% tags=["demo"]
def process_crew(parts, make_envs, seed, workers=2):
    """Return running workers; each has a sampler with a seed of its own."""
    samplers = [partial(Sampler, make_envs, 1000 * seed + i) for i in range(workers)]
    work = by_value(process_work)
    crew = [context.Process(target=with_goodbye, args=(work, sampler, *parts), daemon=True) for sampler in samplers]
    for process in crew:
        process.start()
    return crew


def process_train(make_envs, seed, workers=2):
    """Return the best weights, and all reports of the workers."""
    with process_office(seed) as parts:
        agent, buffer, board, results = parts
        crew = process_crew(parts, make_envs, seed, workers)
        reports = []
        while reports.count(None) < len(crew):  # until all have said goodbye
            reports.append(results.get())
        return {"theta": board.best()[1], "reports": [report for report in reports if report]}


# %% [markdown]
r"""
In a round, a worker asks the board, gets the parameters, plays, adds, and learns.
Every 25th round it also tests, offers the weights, and puts a *report* into the queue: the time, its process, the version, the score, and the returns of all episodes finished since its last report.
Messages are few and large, as in chapter 8.

Three names come from `coursekit`, because `multiprocessing` has nothing like them:

- `Office` gives each object a lock.
  A manager serves each caller in a thread of its own, so two workers could be inside `apply` at once; an ordinary actor runs one call at a time by itself.
- `by_value` packs a function or class with its code, as Ray does by itself: a new process cannot import what you wrote in a notebook.
- `with_goodbye` says goodbye for a worker that raises an error, or the main program would wait for it forever.
  With Ray, the error arrives when you ask for the result.
"""

# %% tags=["demo"]
runs = {}
if passed("ReplayBuffer") and passed("td_target") and passed("SharedAgent"):
    start = time.time()
    learned = process_train(cartpoles, seed=0) | {"started": start, "seconds": time.time() - start}
    reports = learned["reports"]
    if not reports:
        raise RuntimeError("Both workers ended with an error: what they printed names the line.")
    runs["multiprocessing"] = learned
    print(f"{len(reports)} reports from {len({report[1] for report in reports})} workers")
    print(f"seconds to the first one: {reports[0][0] - start:.1f}, in all: {time.time() - start:.1f}")
    best = max(reports, key=lambda report: report[3])
    print(f"best mean return in a test: {best[3]:.0f}, after {best[2]} updates")

# %% [markdown]
r"""
## Then with Ray: the same worker, with `remote` in it

Translate `process_work`, line by line.
`agent`, `buffer` and `board` are actor handles now; `results` is a `ray.util.queue.Queue`, which is an actor too, but has a Python queue's methods: `results.put(report)` as before.
`make_sampler()` makes an ordinary object, as before.
You need no goodbye.

Which calls must you wait for, and which not?
Your calls to one of these actors run in the order in which you sent them (chapter 3 says which actors don't promise that); calls to different actors have no order at all.

Other workers apply gradients too, so the version jumps: don't count it yourself.
"""


# %%
def work(make_sampler, agent, buffer, board, results):
    """Play, learn and report, until the board says that it is enough.

    Every round begins with `board.count`, which is told how many real steps the round before had (at first 0).
    """
    ### BEGIN SOLUTION
    sampler, turn, steps, played = make_sampler(), 0, 0, []
    while ray.get(board.count.remote(steps)):
        now = ray.get(agent.parameters.remote())
        fragment, ended = sampler.play(now["theta"], epsilon(now["version"]), FRAMES)
        buffer.add.remote(fragment)
        batch = ray.get(buffer.sample.remote(BATCH))
        agent.apply.remote(gradient_of(now, batch), now["version"])
        steps, played = int(fragment["real"].sum()), played + ended
        if turn % TEST_EVERY == 0:
            score = sampler.test(now["theta"])
            board.offer.remote(score, now["theta"])
            results.put((time.time(), os.getpid(), now["version"], score, played))
            played = []
        turn += 1
    ### END SOLUTION


# %%
check("work", work)

# %% [markdown] tags=["solution"]
r"""
Wait where you need a value: `count`, `parameters`, `sample`.
The other calls only do something.
`add` comes before `sample` at the same actor, so the new transitions are there; `apply` comes before the next round's `parameters`; and `offer` before the next `count`, so when a worker ends, its best weights *are* on the board.

Waiting for `add`, `apply` and `offer` as well is also right, and costs a call's time each.
You can save more: `ray.get([board.count.remote(steps), agent.parameters.remote()])` asks two actors at once.
"""

# %% [markdown]
r"""
The office is four actors, and the crew are tasks.
Read it beside the other one: what became of `by_value`, of the lock in `Office`, of `daemon`?
"""


# %%
@contextmanager
def ray_office(seed, stop=STOP, limit=LIMIT):
    """Yield agent, buffer, board and queue: four actors, which end with the block."""
    agent = ray.remote(SharedAgent).options(num_cpus=0).remote(fresh_theta(seed), Adam(RATE), TARGET_EVERY)
    buffer = ray.remote(ReplayBuffer).options(num_cpus=0).remote(CAPACITY, seed)
    board = ray.remote(Board).options(num_cpus=0).remote(stop, limit)
    results = Queue(actor_options={"num_cpus": 0})
    try:
        yield agent, buffer, board, results
    finally:
        for actor in (agent, buffer, board, results.actor):  # the actor inside the queue
            ray.kill(actor)


# %%
def ray_crew(parts, make_envs, seed, workers=2):
    """Return references to running workers; each has a sampler with a seed of its own."""
    samplers = [partial(Sampler, make_envs, 1000 * seed + i) for i in range(workers)]
    worker = ray.remote(work)
    return [worker.remote(sampler, *parts) for sampler in samplers]


# %% [markdown]
r"""
The last exercise puts it together.
Open an office, start a crew, wait until all workers have ended, take all reports out of the queue, and return the best weights.
`results.qsize()` says how many reports there are, and `results.get_nowait_batch(n)` takes n.

The check has it learn on CartPoles seen through distorting glasses: a fresh random matrix multiplies every observation, so only freshly learned weights fit.
Then it tests your weights in 100 new episodes.
It tries up to three seeds, a few seconds each; the first that reaches 195 counts.
The workers also wait up to 20 s for each other at the start.
"""


# %%
def train(make_envs, seed, workers=2):
    """Return {"theta": the best weights, "reports": [(time, process, version, score, returns), ...]}."""
    ### BEGIN SOLUTION
    with ray_office(seed) as parts:
        agent, buffer, board, results = parts
        ray.get(ray_crew(parts, make_envs, seed, workers))
        reports = results.get_nowait_batch(results.qsize())
        return {"theta": ray.get(board.best.remote())[1], "reports": reports}
    ### END SOLUTION


# %%
check("train", train)

# %% [markdown] tags=["solution"]
r"""
`ray.get` of the list waits for all workers, and raises if one fails: there are no goodbyes to count.
The best weights are those of the best *test*, and the best of many tests is partly luck, which is why we stop at 225, not 195.
"""

# %% [markdown]
r"""
**Predict:** the same problem, the same numbers, the same seeds.
Will the two curves be the same?
"""

# %% tags=["demo"]
if passed("work") and passed("train"):
    start = time.time()
    runs["Ray"] = train(cartpoles, seed=0) | {"started": start, "seconds": time.time() - start}
    for seed in range(1, budget(4, 1)):  # more seeds in full mode
        runs[f"Ray, seed {seed}"] = train(cartpoles, seed)

# %% tags=["demo"]
if "Ray" in runs:
    figure, axes = plt.subplots(figsize=(8, 3.6), constrained_layout=True)
    for (name, run), colour in zip(runs.items(), ["#d97706", "#7c3aed", *["#94a3b8"] * 3], strict=False):
        reports = sorted(run["reports"], key=lambda report: report[2])
        versions, scores = zip(*[report[2:4] for report in reports], strict=True)
        axes.plot(versions, scores, ".-", color=colour, label=f"{name}: test")
        if name == "Ray":
            episodes = [(report[2], value) for report in reports for value in report[4]]
            axes.plot(*np.transpose(episodes), ".", markersize=4, alpha=0.5, color="#2563eb", label="Ray: every episode")
    axes.axhline(GOAL, color="#94a3b8", linestyle="--")
    axes.set(xlabel="updates of the agent", ylabel="return", title="From falling over to balancing, by your own hands")
    axes.legend(markerscale=1.5)

# %% [markdown]
r"""
The curves differ, although every seed is the same.
Which worker's gradient arrives first varies from run to run, and everything after depends on that.
So you cannot repeat a run exactly: judge such programs by several seeds, never by one.

The small dots are episodes played while learning, with some random actions; they came through the queue.
Each stands at the report that carried it, up to 25 rounds after it was played: hence the stripes.
Later, the tests are often better than these episodes, since a test never draws an action at random.
A curve that falls back for a while is normal with DQN: the target network is a moving goal.

Look at one episode of the best weights.
It may be shorter than 195 steps, since that is a mean.
"""

# %% tags=["demo"]
if "Ray" in runs:
    env, pictures = Drawn(gymnasium.make("CartPole-v1")), {}
    obs, _ = env.reset(seed=7)
    for step in range(500):
        if step in (0, 40, 80, 120, 160, 195):
            pictures[f"step {step}"] = env.render()
        obs, _, fallen, _, _ = env.step(q_values(runs["Ray"]["theta"], obs[None])[0].argmax())
        if fallen:
            break
    print(f"this episode lasted {step + 1} steps")
    strip(list(pictures.values()), list(pictures))

# %% [markdown]
r"""
## What changes, and what it costs

Here are the two programs, yours on the right.
"""

# %% tags=["demo"]
if passed("work") and passed("train"):
    left, right = [process_office, process_work, process_crew, process_train], [ray_office, work, ray_crew, train]
    programs = side_by_side("with multiprocessing", left, "with Ray", right)
    print(f"{programs.changed} of {sum(bool(line.strip()) for _, line, _ in programs.rows)} lines are new")
    display(programs)

# %% [markdown]
r"""
Many lines are new, yet the algorithm is untouched: what changes is where objects live, how you call them, and how you learn that a worker has ended.
Ray packs your code by itself, an ordinary actor runs one call at a time, and tasks end with the driver: that is why `by_value`, the lock and `daemon` are gone.

As for the price, chapter 1 measured that one call costs more with Ray than through a pipe.
"""


# %% tags=["demo"]
def updates_a_second(run):
    """Return the updates a second between the first and the last report."""
    reports = sorted(run["reports"])
    return (reports[-1][2] - reports[0][2]) / (reports[-1][0] - reports[0][0])


if {"multiprocessing", "Ray"} <= runs.keys():
    both = {name: runs[name] for name in ("multiprocessing", "Ray")}
    table = {
        "seconds to the first report": {name: min(run["reports"])[0] - run["started"] for name, run in both.items()},
        "updates a second": {name: updates_a_second(run) for name, run in both.items()},
    }
    display(pandas.DataFrame(table).T.round(1))

# %% [markdown]
r"""
- **The first report** comes as soon as one worker has played its first round and tested.
  Before that, `multiprocessing` starts an office and two workers; Ray starts four actors, each a new process that imports Ray, and on a busy machine that takes much longer.
- **Updates a second**: an update takes five calls, and our network and poles are so small that the calls are much of the work.
  So Ray's program usually makes fewer updates a second, often half as many or less.
  With large networks, or a slow simulator, the price disappears behind the work.

The table does not show reach: the left program ends at the edge of this machine; the right one can spread its workers over a cluster with the same code.
Still, all workers share one agent, one buffer and one board, and each of these serves one call at a time (chapter 3).
"""

# %%
### BEGIN SOLUTION
who_is_quicker = "c"
### END SOLUTION

# %%
quiz("who_is_quicker", who_is_quicker)

# %% [markdown] tags=["notes"]
r"""
Collect the table's rows from the room: the ratio varies a good deal between laptops.
Then ask who would still choose Ray on one machine, and why, and only then kill a worker.
"""

# %% [markdown]
r"""
## When a worker dies

Run both without a goal, for 20,000 steps.
Once both workers have reported, the cell kills one, as an operating system short of memory does.

**Predict** for each program: does it end?
Which process does the rest of the work?
And how do you find out?
"""

# %% tags=["demo"]
deaths, end = {}, {"stop": math.inf, "limit": 20_000}
if passed("SharedAgent") and "multiprocessing" in runs:
    with process_office(1, **end) as parts:
        crew, results, reports = process_crew(parts, cartpoles, 1), parts[-1], []
        while None not in reports and len({report[1] for report in reports}) < 2:
            reports.append(results.get())
        crew[0].kill()
        killed = time.time()
        while None not in reports:
            reports.append(results.get())
        crew[1].join()
        codes = [process.exitcode for process in crew]
        print(f"goodbyes: {reports.count(None) + results.qsize()} of 2; exit codes: {codes}")
    deaths["multiprocessing"] = killed, [report for report in reports if report]

# %% [markdown]
r"""
Nothing told us: we looked.
The survivor did the rest of the work alone.
And then `process_train` would have waited for a second goodbye, forever.
A worker that raises can still say goodbye, and ours does; a killed one cannot.
A careful program keeps asking every process for its `exitcode`, which on Linux and macOS is negative if a signal ended it, starts another in its place, and counts goodbyes differently: code that you write, test and maintain.
"""

# %% tags=["demo"]
if "Ray" in runs:
    with ray_office(1, **end) as parts:
        crew, results, reports = ray_crew(parts, cartpoles, 1), parts[-1], []
        while len({report[1] for report in reports}) < 2:
            reports.append(results.get())
        psutil.Process(reports[0][1]).kill()
        killed = time.time()
        ray.get(crew)  # returns as if nothing had happened
        reports += results.get_nowait_batch(results.qsize())
    deaths["Ray"] = killed, reports
    print(f"processes that reported: {len({report[1] for report in reports})}")
    print(f"Ray's report: {news.wait().partition('. ')[0].rstrip('.')}.")

# %% tags=["demo"]
if len(deaths) == 2:
    figure, places = plt.subplots(1, 2, figsize=(9, 3), sharex=True, sharey=True, constrained_layout=True)
    for (name, (killed, reports)), axes in zip(deaths.items(), places, strict=True):
        processes = list(dict.fromkeys(report[1] for report in reports))
        for process, colour in zip(processes, ["#7c3aed", "#2563eb", "#059669"], strict=False):
            mine = [(report[0] - killed, report[2]) for report in reports if report[1] == process]
            axes.plot(*np.transpose(mine), "o", color=colour, alpha=0.7, label=f"process {process}")
        axes.axvline(0, color="#db2777", linestyle="--")
        axes.set(xlabel="seconds after the death", title=name)
        axes.legend()
    places[0].set_ylabel("updates of the agent")

# %% [markdown]
r"""
On the right is a third colour.
The worker is a task, and when its process dies, Ray launches the task again, up to three times (chapter 5).
The new process began `work` from its first line, with a fresh sampler.
It could, because nothing that matters was in the dead process: the weights, the buffer, the count and the best result live in actors.
One round is lost, and the returns not yet reported.
On a busy machine the other worker may finish before the new one is up; then there are two colours here as well.
If `multiprocessing` was done sooner, that is because its calls cost less, not because of the death.

Had the *agent's* process died, neither program could have continued: without a checkpoint all is lost.
`max_restarts` has Ray start it again, but with fresh weights; chapter 5's checkpointed counter is the cure.
"""

# %%
### BEGIN SOLUTION
who_tells_you = "c"
### END SOLUTION

# %%
quiz("who_tells_you", who_tells_you)

# %% tags=["demo"]
ray.shutdown()

# %% [markdown]
r"""
## What you can do now

- You keep transitions, and know where each `next_obs` comes from.
- You compute Double DQN's target, and treat the two kinds of end differently.
- You share an agent without losing an update, and measure the age of its gradients.
- You translate a program from `multiprocessing` to Ray, and say what each changed line buys.
- You have killed a worker in both, and trained an agent that reaches its goal.

## Traps

- **Get, update, put** loses updates, and nothing complains.
  Send gradients, not weights.
- **`terminated | truncated`** in the target takes the future from everything that lasts long.
- **Throwing resets away before the shift** pairs an end with the next beginning.
- **`self.target = self.theta`** is a second name, not a second network.
- **An optimizer in every worker** gives you as many memories as workers, and none knows what was applied.
- **Counting goodbyes** waits forever when one is missing.
- **One seed, one curve** says nothing.

## Read on

- [Chapter 10](ch10_actor_learner.ipynb): PPO, which may only learn from fresh experience, and one learner instead of many.
  [Chapter 13](ch13_algorithms.ipynb): RLlib's DQN.
- Mnih et al., [*Human-level control through deep reinforcement learning*](https://www.nature.com/articles/nature14236), 2015: DQN.
- van Hasselt et al., [*Deep Reinforcement Learning with Double Q-learning*](https://arxiv.org/abs/1509.06461), 2016.
- Nair et al., [*Massively Parallel Methods for Deep Reinforcement Learning*](https://arxiv.org/abs/1507.04296), 2015: the picture of this chapter, on more than a hundred machines; it drops gradients that are too old.
- Horgan et al., [*Distributed Prioritized Experience Replay*](https://arxiv.org/abs/1803.00933), 2018: Ape-X, with one learner and hundreds of players.
- Recht et al., [*Hogwild!*](https://arxiv.org/abs/1106.5730), 2011: workers change shared weights without a lock, and overwrite some of each other's updates; where each update touches few weights, that does little harm.
- Python's documentation of [managers](https://docs.python.org/3/library/multiprocessing.html#managers), and Ray's of [`ray.util.queue`](https://docs.ray.io/en/latest/ray-core/api/doc/ray.util.queue.Queue.html).
"""
