# %% [markdown] you_learn_to="write DQN with `multiprocessing` and with Ray, and lose no update"
r"""
# Chapter 9 · Distributed DQN

Many workers train one agent, and no update is lost.

*About 100 minutes · builds on [Chapter 3](ch03_actors.ipynb), [Chapter 7](ch07_environments.ipynb), and [Chapter 8](ch08_rollouts.ipynb)*

**What you will be able to do**

- write a replay buffer that stores transitions, and compute the targets of Double DQN;
- share one agent among workers without losing an update, and measure how old their gradients are;
- write the same program with `multiprocessing` and with Ray, and explain what each changed line buys;
- explain what happens in each program when a worker is killed.
"""

# %%
import math
import multiprocessing
import os
import queue
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

from coursekit import Drawn, begin, budget, check, explain, hint, measured, passed, predict, progress, puzzle, quiz, review, solution, strip, track, warm_up

begin("ch09_dqn")

# %%
from coursekit.given.deaths import keep_news_of_deaths
from coursekit.given.ch09_dqn import (
    Adam,
    LockingManager,
    Sampler,
    by_value,
    cartpoles,
    fresh_theta,
    q_values,
    run_then_put_none,
    side_by_side,
    td_gradient,
)

# %%
os.environ["OMP_NUM_THREADS"] = "1"  # for later processes: the matrices are small, so more threads don't help
ray.shutdown()  # stops a Ray instance that's already running here: its references and actors are gone
ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
warm_up(4)  # up to half a minute on a slow or busy machine
news = keep_news_of_deaths()  # you'll kill a worker, and this keeps Ray's report instead of printing it (Chapter 5)

# %% [markdown] tags=["notes"]
r"""
The run sheet allots a hundred minutes, with `train` as homework; demonstrate everything after `train` on your own machine.
The highlight is the count of lost updates, so ask for predictions in numbers before anyone runs that cell.
Have everyone run the three cells above before you speak.
"""

# %% [markdown]
r"""
## DQN learns from old experience

In Chapter 8, you used experience once and threw it away.
[**DQN**](../docs/glossary.md#dqn) (deep Q-network, Mnih et al. 2015) keeps it.
Its network estimates the [Q-value](../docs/glossary.md#q-value) $Q_\theta(s, a)$: the expected discounted return if you take action $a$ in state $s$ and the best action in every state after that.
These Q-values don't depend on the policy that collected the experience, so a step from ten minutes ago, chosen with worse weights, is still useful: DQN is [**off-policy**](../docs/glossary.md#off-policy).
It combines three ideas:

- A [**replay buffer**](../docs/glossary.md#replay-buffer) stores the last 20,000 steps, and each update learns from 256 of them, drawn at random.
- A [**target network**](../docs/glossary.md#target-network) $\theta^-$, an older copy of the weights, estimates the value of the next state, so that the target doesn't move with every update.
- **Exploration** ([ε-greedy](../docs/glossary.md#epsilon-greedy)): with probability $\varepsilon$, which falls from 1 to 0.05, a worker takes a random action.

Spread over processes, it looks like this:

![Workers send fragments to the replay buffer, gradients to the agent, steps and scores to the board, and reports to a queue that your notebook reads](../img/ch09_parts.svg)

The workers collect experience *and* compute gradients, and everything they share is an object in another process.
Here are the settings:
"""

# %%
FRAMES, BATCH = 4, 256  # a worker's round: 4 frames of 8 environments, then one gradient from 256 transitions
CAPACITY = 20_000  # transitions in the replay buffer
GAMMA, RATE = 0.99, 2e-3  # the discount; the optimizer's learning rate
TARGET_EVERY = 20  # updates between two copies of the weights into the target network
TEST_EVERY = 25  # rounds between two tests of a worker
GOAL, STOP = 195, 225  # the mean return that we want; the mean return in a test at which training stops
LIMIT = 50_000  # steps after which training stops anyway


def epsilon(version):
    """Return the probability of a random action after `version` updates."""
    return max(0.05, 1 - version / 250)


# %% [markdown]
r"""
Importing PyTorch would cost each process a second or two and a few hundred megabytes, and you'll start many processes.
Our network has only 4,610 weights, so about thirty lines of NumPy in `coursekit` are enough (see `td_gradient??`).
All weights are in one array, `theta`, and `q_values(theta, obs)` returns a row for each observation and a column for each action.

In CartPole, a random policy keeps the pole up for about 22 steps, and our goal is a mean return of 195, the threshold at which `CartPole-v0` counts as solved.

The given `Sampler` is like the one in Chapter 8, but `play(theta, epsilon, frames)` explores, and returns a [fragment](../docs/glossary.md#fragment) and a list of the returns of all episodes that ended in it.
`test(theta)` returns the mean return of 50 new episodes without exploration.
"""

# %% tags=["demo"]
theta = fresh_theta(seed=0)
sampler = Sampler(cartpoles, seed=0)  # eight environments
fragment, ended = sampler.play(theta, 1.0, 100)  # 100 frames, every action at random
for key, value in fragment.items():
    print(f"{key:12} {np.shape(value)!s:12} {np.asarray(value).dtype}")
print(f"{len(ended)} episodes ended, with a mean return of {np.mean(ended):.0f};", end=" ")
print(f"{np.sum(~fragment['real'])} rows are resets")

# %% [markdown]
r"""
## A replay buffer stores transitions, not frames

DQN learns from **transitions** (Chapter 7), and a fragment contains them, but not as rows.
The `next_obs` of a frame is the `obs` of the next frame *of the same environment*, and after the last frame, it's `last_obs`.
Frames with `real` False are only resets, so they aren't transitions.

On paper, draw an episode that ends in frame 2, with its reset in frame 3.
Which frame's `obs` is the `next_obs` of frame 2?
And what goes wrong if you remove the resets first?

Write `ReplayBuffer`, which stores the latest `capacity` transitions.
`sample` draws from all stored transitions with equal probability and with replacement, so it works from the start, when a worker asks for 256 and only about 32 are stored.
Buffers with the same seed and the same transitions return the same samples, and a different seed gives different ones.
"""


# %%
class ReplayBuffer:
    """Stores the latest transitions."""

    def __init__(self, capacity, seed):
        """Start empty, with room for `capacity` transitions; `seed` is for the random numbers that `sample` needs."""
        ### BEGIN SOLUTION
        self.capacity, self.rng = capacity, np.random.default_rng(seed)
        self.columns, self.added = {}, 0  # how many were ever added
        ### END SOLUTION

    def add(self, fragment):
        """Store the transitions of a fragment, which has at most `capacity` of them."""
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
        """Return `size` transitions as a dict of arrays, drawn with replacement, so `size` may exceed the number stored.

        The keys are "obs", "actions", "rewards", "terminated", "truncated", and "next_obs".
        Floats, integers, and booleans stay what they are in the fragment.
        """
        ### BEGIN SOLUTION
        chosen = self.rng.integers(min(self.added, self.capacity), size=size)
        return {name: column[chosen] for name, column in self.columns.items()}
        ### END SOLUTION


# %%
check("ReplayBuffer", ReplayBuffer)

# %% [markdown] tags=["solution"]
r"""
Pair the frames first, and then remove the resets: `later[real]` pairs each frame with its own successor, so the `next_obs` of frame 2 is the `obs` of frame 3, although frame 3 is a reset.
In Gymnasium's *next-step* autoreset mode, the `obs` of that frame is the true last observation of the episode.
The other order pairs an episode's last frame with the first observation of the next episode, as if falling over led to a fresh start.

`% capacity` makes the arrays a ring: positions past the end continue at 0.
Slicing a list with `[-capacity:]` is also right, but it creates a new list of 20,000 entries on every call.
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
## In Double DQN, one network chooses the action and another evaluates it

The network is trained toward a [**target**](../docs/glossary.md#td-target): the reward, plus the discounted value of the next state $s'$.
The obvious target uses the highest Q-value, $y = r + \gamma \max_a Q(s', a)$, but that maximum has a catch.

**Predict:** two actions are both worth exactly 0, and the errors of your two estimates are normally distributed with a standard deviation of 1.
How high is the higher estimate, on average?
"""

# %% tags=["demo"]
predict("higher_estimate", ...)

# %% tags=["demo"]
one, other = np.random.default_rng(0).normal(size=(2, 10_000, 2))  # two estimates of two actions, 10,000 times
chosen = one.argmax(axis=1)
print(f"the higher of two estimates:                 {one.max(axis=1).mean():+.2f}")
print(f"chosen by one estimate, rated by the other:  {other[np.arange(10_000), chosen].mean():+.2f}")
measured("higher_estimate", one.max(axis=1).mean())

# %% [markdown]
r"""
The higher estimate is almost 0.6 on average, although neither action is worth more than 0.
This [overestimation](../docs/glossary.md#overestimation-bias) feeds on itself, because targets train the network that computes the next targets.
If an independent estimate evaluates the chosen action instead, the mean of that estimate is 0.
[**Double DQN**](../docs/glossary.md#double-dqn) (van Hasselt et al. 2016) does nearly that with the two networks that DQN already has: the current weights $\theta$ *choose* the action, and the target network $\theta^-$ *evaluates* it.
The two aren't independent, so the overestimation only shrinks.

$$y = r + \gamma\, Q_{\theta^-}\bigl(s', \arg\max_a Q_\theta(s', a)\bigr)$$

After a **termination**, $y = r$, even if both flags are set; a **truncation** alone changes nothing.

Write `td_target`, which returns a target for each transition of a batch.
Try it on paper first: $r = 1$ and $\gamma = 0.5$, and the two actions in $s'$ have the values 2 and 4 in the current network, and 10 and 6 in the target network.
"""


# %%
def td_target(rewards, terminated, truncated, q_online, q_target, gamma=0.99):
    """Return the targets of Double DQN, shape [B] (van Hasselt et al. 2016).

    `rewards` is [B], of floats; `terminated` and `truncated` are [B], of booleans.
    `q_online` and `q_target` are Q(s', a) of the current network and of the target network, shape [B, A].
    """
    ### BEGIN SOLUTION
    best = q_online.argmax(axis=1)
    future = q_target[np.arange(len(best)), best]
    return rewards + gamma * future * (1.0 - terminated)
    ### END SOLUTION


# %%
check("td_target", td_target)

# %% [markdown] tags=["solution"]
r"""
`truncated` isn't used at all.
It's an argument because every buffer stores both flags, and because `terminated | truncated` is such a common mistake: it teaches the network that a pole that's still standing after 500 steps has no future.

`~terminated` does the same as `1.0 - terminated` if the flags are booleans.
If they were saved as `uint8`, `~1` is 254, and the targets explode.
"""

# %% [markdown]
r"""
On paper, the current network prefers the second action, which the target network values at 6, so $y = 1 + 0.5 \cdot 6 = 4$.

Now a worker can compute a gradient from a batch and from `parameters`, a dict with both networks:
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
## Workers that get, update, and put weights lose updates

How can several workers improve *one* agent?
A common first attempt is a cycle: each worker **gets** the weights, **updates** its copy, and **puts** the result back.
The code below also counts: `updates` says how many updates the weights contain, and each worker adds 1 to it.

**Predict:** four workers make 40 updates each.
How many of these 160 updates are in the weights at the end?
"""

# %% tags=["demo"]
predict("updates_of_160", ...)  # updates


# %% tags=["demo"]
@ray.remote(num_cpus=0)
class SharedWeights:
    """Keeps whatever was put last."""

    def put(self, theta, updates):
        """Replace the weights."""
        self.kept = theta, updates

    def get(self):
        """Return the weights, and how many updates they contain."""
        return self.kept


# %% tags=["demo"]
@ray.remote
def get_update_put(shared, batch, rounds):
    """Get the weights, update a copy, and put it back, `rounds` times."""
    optimizer = Adam(RATE)
    for _ in range(rounds):
        theta, updates = ray.get(shared.get.remote())
        theta = theta.copy()  # arrays that come from Ray are read-only
        optimizer.step(theta, gradient_of({"theta": theta, "target": theta}, batch))
        ray.get(shared.put.remote(theta, updates + 1))


# %% tags=["demo"]
rounds, counts, kept = 40, [1, 2, 4], {}
if passed("ReplayBuffer") and passed("td_target"):
    shared, batch_ref = SharedWeights.remote(), ray.put(batch)
    for workers in [4, *counts]:  # the first run is a warm-up
        ray.get(shared.put.remote(theta, 0))
        ray.get([get_update_put.remote(shared, batch_ref, rounds) for _ in range(workers)])
        _, kept[workers] = ray.get(shared.get.remote())
    for workers in counts:
        print(f"workers: {workers}; updates made: {workers * rounds}; in the weights: {kept[workers]}")
    ray.kill(shared)
    display(measured("updates_of_160", kept[4]))

# %% [markdown]
r"""
A single worker loses nothing.
Two workers lose a third to a half of their updates: while one computes, the other puts its result, which the first one then overwrites.
With four workers, usually only 40 to 60 of the 160 updates are in the weights.
Most of the work is wasted, and *you see no error*.
It's the [lost update](../docs/glossary.md#lost-update) from Chapter 3, with weights instead of money.
"""

# %% [markdown]
r"""
## If workers send gradients, every update counts

The fix is also the one from Chapter 3: send **what to do** instead of the new state.
A worker sends its *gradient*, and the agent, which now has the optimizer, applies it in a single call.
So the agent is a [parameter server](../docs/glossary.md#parameter-server), and the method is called [asynchronous SGD](../docs/glossary.md#asynchronous-sgd).

That creates a new problem: by the time a gradient arrives, the weights may have changed, so it's a [stale gradient](../docs/glossary.md#stale-gradient).
So the agent counts its updates in `version`, and a worker sends along the version of the weights that it used.
When the gradient arrives, the difference between the two versions is its **age**, which is 0 if no other gradient has been applied in the meantime.

Write `SharedAgent`, which holds both networks and applies gradients:

- It starts at version 0, and each call to `apply` adds 1.
- `optimizer.step(theta, gradient)` changes the `theta` array *in place*.
  Arrays that come from Ray are read-only, so copy `theta` first.
- Whenever the version becomes a multiple of `target_every`, the target network gets the current weights.
"""


# %%
class SharedAgent:
    """The weights that all workers improve; only the agent changes them."""

    def __init__(self, theta, optimizer, target_every):
        """Start at version 0, with `theta` as the weights of both networks."""
        ### BEGIN SOLUTION
        self.theta, self.target = theta.copy(), theta.copy()
        self.optimizer, self.target_every = optimizer, target_every
        self.version, self.seen = 0, []
        ### END SOLUTION

    def parameters(self):
        """Return {"theta": the weights, "target": those of the target network, "version": the number of updates in the weights}."""
        ### BEGIN SOLUTION
        return {"theta": self.theta, "target": self.target, "version": self.version}
        ### END SOLUTION

    def apply(self, gradient, version):
        """Take one optimizer step with a gradient that was computed from the weights of this version."""
        ### BEGIN SOLUTION
        self.seen.append(self.version - version)
        self.optimizer.step(self.theta, gradient)
        self.version += 1
        if self.version % self.target_every == 0:
            self.target = self.theta.copy()
        ### END SOLUTION

    def ages(self):
        """Return the ages of all gradients so far, in the order in which they arrived, as a list."""
        ### BEGIN SOLUTION
        return self.seen
        ### END SOLUTION


# %%
check("SharedAgent", SharedAgent)

# %% [markdown] tags=["solution"]
r"""
Each copy has its reason.
`__init__` needs `theta.copy()` because an array that arrives in an actor is read-only.
`self.target = self.theta` without a copy would be a second *name* for the same array, so the target would move with every step, and there would be no target network at all.
You'd see no error, only a program that learns more slowly or not at all.
`parameters` needs no copy in an ordinary actor, because Ray serializes the result before the next call starts.
"""

# %% [markdown]
r"""
Now count again, with gradients instead of weights.

**Predict:** four workers send 40 gradients each.
How old is a gradient when it arrives, on average?
"""

# %% tags=["demo"]
predict("average_age", ...)  # updates


# %% tags=["demo"]
@ray.remote
def get_gradient_apply(agent, batch, rounds):
    """Get the weights, compute a gradient, and let the agent apply it, `rounds` times."""
    for _ in range(rounds):
        now = ray.get(agent.parameters.remote())
        ray.get(agent.apply.remote(gradient_of(now, batch), now["version"]))


applied, ages = {}, {}
if passed("SharedAgent") and kept:
    agent = ray.remote(SharedAgent).options(num_cpus=0).remote(theta, Adam(RATE), TARGET_EVERY)
    for workers in [4, *counts]:
        before = ray.get(agent.parameters.remote())["version"]
        ray.get([get_gradient_apply.remote(agent, batch_ref, rounds) for _ in range(workers)])
        applied[workers] = ray.get(agent.parameters.remote())["version"] - before
        ages[workers] = ray.get(agent.ages.remote())[before:]
    display(measured("average_age", np.mean(ages[4])))

# %% tags=["demo"]
if applied:
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), constrained_layout=True)
    bars = [(kept, "workers put weights", "#d97706"), (applied, "the agent applies gradients", "#059669")]
    for place, (found, name, color) in enumerate(bars):
        left.bar(np.arange(3) + 0.4 * place, [found[workers] for workers in counts], 0.4, color=color, label=name)
    made = [workers * rounds for workers in counts]
    left.plot(np.arange(3) + 0.2, made, "_", color="#64748b", markersize=60, label="updates made")
    left.set_xticks(np.arange(3) + 0.2, counts)
    left.set(xlabel="workers", ylabel="updates in the weights", title="Putting weights loses updates")
    left.legend(loc="upper left", markerscale=0.2)
    for workers, color in zip(counts, ["#94a3b8", "#2563eb", "#7c3aed"], strict=True):
        values, times = np.unique(ages[workers], return_counts=True)
        label = f"{workers}, mean age {np.mean(ages[workers]):.1f}"
        right.plot(values, times / sum(times), "o-", color=color, label=label)
    right.set(
        xlabel="age of a gradient, in updates", ylabel="fraction of the gradients", title="Applied gradients are stale"
    )
    right.locator_params(axis="x", integer=True)
    right.legend(title="workers")

# %% [markdown]
r"""
Now every update counts, but the plot on the right shows the cost: with $n$ workers, the average gradient is up to about $n - 1$ updates old when it's applied.

A gradient that's a few updates old is usually still useful.
A gradient that's a thousand updates old may not be, so some systems with hundreds of workers drop gradients that are too old, or make fast workers wait.
"""

# %%
### BEGIN SOLUTION
lost_or_old = "a"
### END SOLUTION

# %%
quiz("lost_or_old", lost_or_old)

# %% [markdown]
r"""
## A worker collects, learns, and reports in a loop

The rest of this chapter runs one program in three ways: in a single process, with `multiprocessing`, and with Ray.
The program still needs a place for the step count, the weights with the best test score, and the decision to stop.
`Board` is Chapter 3's `BestSoFar` with a step counter; older programs call it `GlobalVar`.
"""


# %%
class Board:
    """Counts the steps of all workers, keeps the best weights, and decides whether to continue."""

    def __init__(self, stop, limit):
        self.stop, self.limit, self.steps = stop, limit, 0
        self.kept = -math.inf, None

    def count(self, steps):
        """Add these steps; return whether to continue."""
        self.steps += steps
        return self.steps < self.limit and self.kept[0] < self.stop

    def offer(self, score, theta):
        """Keep these weights if their score is the best so far."""
        if score > self.kept[0]:
            self.kept = score, theta

    def best(self):
        """Return the best score, and its weights."""
        return self.kept


# %% [markdown]
r"""
A worker repeats the same round until the board says to stop:

1. It tells the board how many real steps the previous round had.
2. It gets the parameters, collects a fragment with them, and adds it to the buffer.
3. It samples a batch, computes the gradient, and sends it to the agent with the version of the parameters.
4. In round 0 and every 25 rounds after that, it tests its weights, offers them to the board, and puts a *report* into the queue: the time, its process, the version, the score, and the returns of all episodes that ended since its last report.

Read `plain_work` closely, because you'll translate it.
"""


# %% tags=["demo"]
def plain_work(make_sampler, agent, buffer, board, results):
    """Collect, learn, and report, until the board says to stop."""
    sampler, turn, steps, played = make_sampler(), 0, 0, []
    while board.count(steps):
        now = agent.parameters()
        fragment, ended = sampler.play(now["theta"], epsilon(now["version"]), FRAMES)
        buffer.add(fragment)
        batch = buffer.sample(BATCH)
        agent.apply(gradient_of(now, batch), now["version"])
        steps, played = int(fragment["real"].sum()), played + ended
        if turn % TEST_EVERY == 0:
            score = sampler.test(now["theta"])
            board.offer(score, now["theta"])
            results.put((time.time(), os.getpid(), now["version"], score, played))
            played = []
        turn += 1


# %% [markdown]
r"""
Nothing in `plain_work` says where the four objects are, so first run one worker with ordinary objects:
"""

# %% tags=["demo"]
runs = {}  # what each program returns, by its name
ready = passed("ReplayBuffer") and passed("td_target") and passed("SharedAgent")
if ready:
    agent, buffer = SharedAgent(fresh_theta(0), Adam(RATE), TARGET_EVERY), ReplayBuffer(CAPACITY, seed=0)
    board, results, start = Board(STOP, limit=6_000), queue.Queue(), time.time()
    plain_work(partial(Sampler, cartpoles, 0), agent, buffer, board, results)
    print(f"{board.steps} steps and {agent.parameters()['version']} updates in {time.time() - start:.1f} s")
    while not results.empty():
        _, _, version, score, played = results.get()
        print(
            f"version {version:3}: mean return {score:5.1f} in the test; {len(played)} episodes since the last report"
        )

# %% [markdown]
r"""
That's the whole algorithm.
In most of these tests, the network still chooses the same action nearly every time, so the pole falls even sooner than with random actions.

Here, `now["theta"]` may be the agent's own array, which `apply` changes while the worker still holds it.
Between processes, the worker gets a copy.
"""

# %% [markdown]
r"""
## With `multiprocessing`, a manager process holds the shared objects

Two processes can't share ordinary objects.
For numbers and arrays, `multiprocessing` offers shared memory, `Value` and `Array`.
For objects with methods, it has a [**manager**](../docs/glossary.md#manager): a process that holds the objects and gives out *proxies*.
A proxy's method runs in the manager, and the result comes back as a copy.
Calls to a proxy look like ordinary calls, so `plain_work` stays as it is.

Three names come from `coursekit`, because `multiprocessing` has nothing like them:

- `LockingManager` is a manager that gives each object a lock.
  A manager serves each caller in a separate thread, so without a lock, two workers could be inside `apply` at once.
- `by_value` pickles a function or class together with its code, because a new process can't import what you wrote in a notebook.
- `run_then_put_none` runs a worker and then puts `None` into the queue, even if the worker raised an error, so that the main program stops waiting for it.
"""

# %% tags=["demo"]
context = multiprocessing.get_context("spawn")  # the same on Linux, macOS, and Windows; also safe while Ray runs


@contextmanager
def process_office(seed, stop=STOP, limit=LIMIT):
    """Yield agent, buffer, board, and queue, in a manager process that exits with the block."""
    with LockingManager(ctx=context) as manager:
        agent = manager.keep(by_value(SharedAgent), fresh_theta(seed), Adam(RATE), TARGET_EVERY)
        buffer = manager.keep(by_value(ReplayBuffer), CAPACITY, seed)
        board = manager.keep(by_value(Board), stop, limit)
        yield agent, buffer, board, manager.Queue()


# %% tags=["demo"]
def process_crew(parts, make_envs, seed, workers=2):
    """Return running workers; each one's sampler has a different seed."""
    samplers = [partial(Sampler, make_envs, 1000 * seed + i) for i in range(workers)]
    work = by_value(plain_work)
    crew = [context.Process(target=run_then_put_none, args=(work, each, *parts), daemon=True) for each in samplers]
    for process in crew:
        process.start()
    return crew


def process_train(make_envs, seed):
    """Return the best weights, and all reports of the workers."""
    with process_office(seed) as parts:
        agent, buffer, board, results = parts
        crew = process_crew(parts, make_envs, seed)
        reports = []
        while reports.count(None) < len(crew):  # until all workers have finished
            reports.append(results.get())
        return {"theta": board.best()[1], "reports": [report for report in reports if report]}


# %% tags=["demo"]
if ready:
    start = time.time()
    learned = process_train(cartpoles, seed=0) | {"started": start, "seconds": time.time() - start}
    reports = learned["reports"]
    if not reports:
        raise RuntimeError("Both workers failed. What they printed names the line.")
    runs["multiprocessing"] = learned
    print(f"{len(reports)} reports from {len({report[1] for report in reports})} workers")
    print(f"seconds to the first one: {reports[0][0] - start:.1f}; in all: {time.time() - start:.1f}")
    best = max(reports, key=lambda report: report[3])
    print(f"best mean return in a test: {best[3]:.0f}, after {best[2]} updates")

# %% [markdown]
r"""
## With Ray, each shared object is an actor

Write `work`, which does the same as `plain_work` with Ray: translate it line by line.
`agent`, `buffer`, and `board` are actor handles now.
`results` is a `ray.util.queue.Queue`, which calls an actor but has the methods of a Python queue, so `results.put(report)` stays as it is.

Decide which calls you have to wait for.
Your calls to one of these actors run in the order in which you sent them (Chapter 3 explains which actors don't promise that), but calls to different actors have no order at all.

The other worker applies gradients, too, so don't keep track of the version yourself.
"""


# %%
def work(make_sampler, agent, buffer, board, results):
    """Collect, learn, and report, until the board says to stop.

    Each round starts with `board.count`, which is told how many real steps the previous round had (0 at first).
    Each report is (time.time(), os.getpid(), version, score, returns).
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
Wait where you need a value: for `count`, `parameters`, and `sample`.
You don't have to wait for the other calls, because an actor runs your calls in order.
`add` runs before `sample`, so the new transitions are in the buffer.
`apply` runs before the next round's `parameters`.
And `offer` runs before the next `count`, so when a worker returns, the board has its best weights.

It's also right to wait for `add`, `apply`, and `offer`, but each wait costs the time of a call.
You can even save one wait: `ray.get([board.count.remote(steps), agent.parameters.remote()])` waits for two actors at once.
"""

# %% [markdown]
r"""
`ray_office` starts four actors, and `ray_crew` starts a task for each worker.
What became of `by_value`, the locks, and `daemon=True`?
"""


# %%
@contextmanager
def ray_office(seed, stop=STOP, limit=LIMIT):
    """Yield agent, buffer, board, and queue: four actors that are killed when the block ends."""
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
    """Return the references of running workers; each one's sampler has a different seed."""
    samplers = [partial(Sampler, make_envs, 1000 * seed + i) for i in range(workers)]
    worker = ray.remote(work)
    return [worker.remote(sampler, *parts) for sampler in samplers]


# %% [markdown]
r"""
Write `train`, which runs the whole program and returns the best weights and all reports.
Start the actors with `ray_office` and the workers with `ray_crew`, and wait until all workers have finished.
`results.qsize()` returns how many reports are in the queue, and `results.get_nowait_batch(n)` takes out `n` of them.

The check trains on CartPoles whose observations are multiplied by a random matrix, and tests your weights in 100 new episodes.
It tries up to three seeds, and one with a mean return of at least 195 is enough; after a mean below 40, it tries no other seed.
That takes a few seconds per seed, and up to a minute on a slow machine.
A worker waits up to 20 s for a second one to start.
"""


# %%
def train(make_envs, seed):
    """Return {"theta": the best weights, "reports": [(time, process, version, score, returns), ...]}."""
    ### BEGIN SOLUTION
    with ray_office(seed) as parts:
        agent, buffer, board, results = parts
        ray.get(ray_crew(parts, make_envs, seed))
        reports = results.get_nowait_batch(results.qsize())
        return {"theta": ray.get(board.best.remote())[1], "reports": reports}
    ### END SOLUTION


# %%
check("train", train)

# %% [markdown] tags=["solution"]
r"""
`ray.get` of the list waits for all workers, and it raises an error if one of them fails, so there's no `None` to count.
The best weights are those with the best *test*, and the best of many tests is partly luck, so training stops at 225 instead of 195.
"""

# %% [markdown]
r"""
Now train on ordinary CartPoles, first with the same settings and seed as with `multiprocessing`, and then with three more seeds.
That takes up to a minute.

**Predict:** do both programs report the same scores after the same numbers of updates?
"""

# %% tags=["demo"]
predict("same_seeds", ..., ["the same scores", "different scores"])

# %% tags=["demo"]
if passed("work") and passed("train"):
    start = time.time()
    runs["Ray"] = train(cartpoles, seed=0) | {"started": start, "seconds": time.time() - start}
    for seed in track(range(1, budget(4, 1)), "training with more seeds"):  # in full mode
        runs[f"Ray, seed {seed}"] = train(cartpoles, seed)
if {"multiprocessing", "Ray"} <= runs.keys():
    scores = [sorted(report[2:4] for report in runs[name]["reports"]) for name in ("multiprocessing", "Ray")]
    display(measured("same_seeds", "the same scores" if scores[0] == scores[1] else "different scores"))

# %% tags=["demo"]
if "Ray" in runs:
    figure, axes = plt.subplots(figsize=(8, 3.6), constrained_layout=True)
    for (name, run), color in zip(runs.items(), ["#d97706", "#7c3aed", *["#94a3b8"] * 3], strict=False):
        reports = sorted(run["reports"], key=lambda report: report[2])
        versions, scores = zip(*[report[2:4] for report in reports], strict=True)
        same = "_" if name in ("Ray, seed 2", "Ray, seed 3") else ""  # one entry of the legend for all other seeds
        axes.plot(versions, scores, ".-", color=color, label=f"{same}{name}: tests".replace("seed 1", "other seeds"))
        if name == "Ray":
            episodes = [(report[2], value) for report in reports for value in report[4]]
            axes.plot(
                *np.transpose(episodes), ".", markersize=4, alpha=0.5, color="#2563eb", label="Ray: every episode"
            )
    axes.axhline(GOAL, color="#94a3b8", linestyle="--")
    axes.set(xlabel="updates of the agent", ylabel="return", title="DQN learns to balance the pole")
    axes.legend(markerscale=1.5)

# %% [markdown]
r"""
The scores differ although the seeds are the same: which worker's gradient arrives first varies from run to run, and everything after that depends on it.
So you can't repeat a run exactly, and you should judge such a program by several seeds.

Each small dot is an episode that a worker collected, drawn at the version in the worker's report, so the dots form stripes.
Later in a run, the tests often score higher than these episodes, because tests take no random actions.
With DQN, it's normal for a curve to fall for a while, because the targets keep changing.

Here's one episode with the best weights.
It may be shorter than 195 steps, because 195 is a mean.
"""

# %% tags=["demo"]
if "Ray" in runs:
    env, images = Drawn(gymnasium.make("CartPole-v1")), {}
    obs, _ = env.reset(seed=7)
    for step in range(500):
        if step in (0, 40, 80, 120, 160, 195):
            images[f"step {step}"] = env.render()
        obs, _, terminated, _, _ = env.step(q_values(runs["Ray"]["theta"], obs[None])[0].argmax())
        if terminated:
            break
    print(f"this episode lasted {step + 1} steps")
    strip(list(images.values()), list(images))

# %% [markdown]
r"""
## What changes with Ray, and what it costs

Here are both programs side by side, with yours on the right:
"""

# %% tags=["demo"]
if passed("work") and passed("train"):
    left, right = [process_office, plain_work, process_crew, process_train], [ray_office, work, ray_crew, train]
    programs = side_by_side("with multiprocessing", left, "with Ray", right)
    print(f"{programs.changed} of {sum(bool(line.strip()) for _, line, _ in programs.rows)} lines on the right differ")
    display(programs)

# %% [markdown]
r"""
Many lines differ, but the algorithm is the same.
`by_value`, the locks, and `daemon=True` are gone, because Ray pickles your code itself, an ordinary actor runs one call at a time, and tasks stop when the driver exits.

In Chapter 1, a call had more overhead with Ray than through a pipe, so compare the two programs:
"""


# %% tags=["demo"]
def updates_per_second(run):
    """Return the updates per second between the first report and the last."""
    reports = sorted(run["reports"])
    return (reports[-1][2] - reports[0][2]) / (reports[-1][0] - reports[0][0])


if {"multiprocessing", "Ray"} <= runs.keys():
    both = {name: runs[name] for name in ("multiprocessing", "Ray")}
    table = {
        "seconds to the first report": {name: min(run["reports"])[0] - run["started"] for name, run in both.items()},
        "updates per second": {name: updates_per_second(run) for name, run in both.items()},
    }
    display(pandas.DataFrame(table).T.round(1))

# %% [markdown]
r"""
- **The first report:** `multiprocessing` starts a manager and two workers.
  Ray starts four actors, each in a new process that imports Ray, so its first report usually comes later.
- **Updates per second:** an update takes five calls, which make up much of the work if the network is small and the simulator is fast.
  So Ray's program usually makes fewer updates per second, often half as many or less, and even the single process above may be faster.
  With a large network or a slow simulator, that overhead makes almost no difference.

The table doesn't show that the program with Ray can spread its workers over a cluster, with the same code.
But in both programs, all workers share one agent, one buffer, and one board, and each of these serves one call at a time (Chapter 3).
"""

# %%
### BEGIN SOLUTION
who_is_quicker = "c"
### END SOLUTION

# %%
quiz("who_is_quicker", who_is_quicker)

# %% [markdown] tags=["notes"]
r"""
Collect the rows of the table from the room, because the ratio varies a good deal between laptops.
Ask who would still choose Ray on one machine, and why, before you kill a worker.
"""

# %% [markdown]
r"""
## Ray replaces a worker whose process dies

Now run both programs for 20,000 steps, whatever the score.
Once both workers have reported, the cell kills one of them.

**Predict:** which of the two main programs will come to an end, rather than wait forever?
"""

# %% tags=["demo"]
predict("programs_that_end", ..., ["neither", "only multiprocessing", "only Ray", "both"])

# %% tags=["demo"]
deaths, end = {}, {"stop": math.inf, "limit": 20_000}
if ready and "multiprocessing" in runs:
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
        finished = reports.count(None) + results.qsize()
        print(f"None arrived from {finished} of 2 workers; exit codes: {codes}")
    deaths["multiprocessing"] = killed, [report for report in reports if report]

# %% [markdown]
r"""
No error reported the death; the cell looked for it.
The other worker did the rest of the work alone, and `process_train` would now wait forever for the second `None`, because a worker that's killed can't put anything into a queue.

A robust program keeps checking each process's `exitcode`, which is negative on Linux and macOS if a signal killed the process, and starts a replacement.
(`concurrent.futures` does notice a dead worker, but it raises `BrokenProcessPool`, and the pool can't be used again.)
"""

# %% tags=["demo"]
if "Ray" in runs:
    with ray_office(1, **end) as parts:
        crew, results, reports = ray_crew(parts, cartpoles, 1), parts[-1], []
        while len({report[1] for report in reports}) < 2:
            reports.append(results.get())
        psutil.Process(reports[0][1]).kill()
        killed = time.time()
        ray.get(crew)  # raises no error
        reports += results.get_nowait_batch(results.qsize())
    deaths["Ray"] = killed, reports
    print(f"processes that reported: {len({report[1] for report in reports})}")
    print(f"Ray's report: {news.wait().partition('. ')[0].rstrip('.')}.")
if len(deaths) == 2:
    display(measured("programs_that_end", "both" if finished == 2 else "only Ray"))

# %% tags=["demo"]
if len(deaths) == 2:
    figure, places = plt.subplots(1, 2, figsize=(9, 3), sharex=True, sharey=True, constrained_layout=True)
    for (name, (killed, reports)), axes in zip(deaths.items(), places, strict=True):
        processes = list(dict.fromkeys(report[1] for report in reports))
        for process, color in zip(processes, ["#7c3aed", "#2563eb", "#059669"], strict=False):
            own = [(report[0] - killed, report[2]) for report in reports if report[1] == process]
            axes.plot(*np.transpose(own), "o", color=color, alpha=0.7, label=f"process {process}")
        axes.axvline(0, color="#db2777", linestyle="--")
        axes.set(xlabel="seconds after the death", title=name)
        axes.legend()
    places[0].set_ylabel("updates of the agent")

# %% [markdown]
r"""
Only Ray's program ends by itself, and its plot has a third color.
The worker is a task, and when its process dies, Ray launches the task again, up to three times (Chapter 5).
The new process starts `work` from the first line, with a new sampler.
That works because the weights, the buffer, the step count, and the best weights are in actors.
What's lost is at most one round, the unfinished episodes, and the returns that weren't reported yet.
(On a busy machine, the other worker may finish before the new process has started, so you see only two colors.)

If the *agent's* process had died, neither program could have continued.
With `max_restarts`, Ray restarts the actor, but with its initial weights, so it needs a checkpoint, as the counter in Chapter 5 does.
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

- You can store transitions in a replay buffer, and compute the targets of Double DQN.
- You can share an agent without losing an update, and measure the age of its gradients.
- You can translate a program from `multiprocessing` to Ray, and explain what each changed line buys.
- You know what happens in both programs when a worker is killed.

## Traps

- **Getting, updating, and putting weights** loses updates without an error; send gradients instead.
- **`terminated | truncated`** in the target says that nothing could follow a time limit.
- **Removing resets too early** pairs the end of an episode with the start of the next.
- **`self.target = self.theta`** is a second name, not a second network.
- **An optimizer in every worker** misses the gradients of the others.
- **Waiting for a message from every worker** takes forever if one of them was killed.

## Read on

- [Chapter 10](ch10_actor_learner.ipynb): PPO, which learns only from new experience, and one learner instead of many.
  [Chapter 13](ch13_algorithms.ipynb): RLlib's DQN.
- Mnih et al., [*Human-level control through deep reinforcement learning*](https://www.nature.com/articles/nature14236), 2015: DQN.
- van Hasselt et al., [*Deep Reinforcement Learning with Double Q-learning*](https://arxiv.org/abs/1509.06461), 2016.
- Nair et al., [*Massively Parallel Methods for Deep Reinforcement Learning*](https://arxiv.org/abs/1507.04296), 2015: this chapter's design on more than a hundred machines.
- Horgan et al., [*Distributed Prioritized Experience Replay*](https://arxiv.org/abs/1803.00933), 2018: Ape-X, with one learner and hundreds of samplers.
- Python's documentation of [managers](https://docs.python.org/3/library/multiprocessing.html#managers), and Ray's of [`ray.util.queue`](https://docs.ray.io/en/latest/ray-core/api/doc/ray.util.queue.Queue.html).
"""
