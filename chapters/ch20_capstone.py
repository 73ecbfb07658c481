# %% [markdown] you_learn_to="train an agent that beats a baseline within a budget, and enter the leaderboard"
r"""
# Chapter 20 · Capstone

Train your own agent within a budget, and prove that it beats a baseline.

*About 120 minutes · builds on [Chapter 8](ch08_rollouts.ipynb), [Chapter 10](ch10_actor_learner.ipynb), and [Chapter 14](ch14_custom.ipynb)*

**What you will be able to do**

- approach an unknown environment: measure random actions and a simple rule before you train anything;
- measure the CPU seconds that a program and all of its processes use, and stop the program in time;
- build a distributed agent from the parts that you wrote in this course: samplers, weights, and a learner;
- evaluate an agent on episodes that it has never seen, and compare it with others fairly;
- enter your agent in a leaderboard, and keep improving it on your own.
"""

# %%
import time
from contextlib import contextmanager
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import pandas
import ray
import torch
from scipy.special import log_softmax
from torch import nn

from coursekit import begin, budget, check, explain, film, hint, measured, passed, predict, progress, puzzle, quiz, review, solution, strip, warm_up
from coursekit.given.ch20_capstone import bar_of, side_by_side, write_entry
from coursekit.given.cpu_budget import Budget
from coursekit.given.warehouse import EACH, EPISODE_STEPS, NUMBERS, OWN, SHELVES, STATION, TABLE, VIEWS, WORLD, Warehouse
from coursekit.given.warehouse import baseline, evaluate, make_envs, paying, random_actions

torch.set_num_threads(1)  # the networks are tiny: more threads would mostly wait in busy loops, which use CPU time
begin("ch20_capstone")

# %%
ray.shutdown()  # stops a Ray instance that's already running here: its references and actors are gone
ray.init(num_cpus=2, include_dashboard=False)
warm_up(2)

# %% [markdown] tags=["notes"]
r"""
The core course ends here, with a workshop: work together for an hour, up to `beats_random`, and then let people work alone or in pairs until the leaderboard.
`coursekit capstone class FOLDER` runs a whole class's entries in one world and adds a film of each.
"""

# %% [markdown]
r"""
## A warehouse where some customers cost more than they pay

A robot fetches parcels in a warehouse.
Orders appear on eight shelves, and each order is for one parcel of one of four kinds.
An order waits for a limited time, as the black bar below the parcel shows; after that, a colleague fetches the parcel.
The robot carries up to three parcels, and you're paid only for those that it delivers to the green packing table.
Its battery lasts for sixty squares, and the yellow station gives it a fresh one.
With an empty battery, the robot creeps along at one square every four steps.
An episode is 150 steps long.

An **action** names a place: 0 to 7 are the shelves, 8 is the table, and 9 is the station.
The robot drives *one square* toward that place along a shortest path, and in the next step you can choose another place.
"""

# %% tags=["demo"]
env = Warehouse(render_mode="rgb_array")
obs, _ = env.reset(seed=7)
pictures = []
for step in range(61):
    if step in (0, 20, 60):
        pictures.append(env.render())
    obs, *_ = env.step(baseline(obs[None])[0])
strip(pictures, ["step 0", "step 20", "step 60"], columns=3);

# %% [markdown]
r"""
The numbers on the parcels are their **prices**: two of the four kinds pay, and two cost money, because their customers send things back.
Customers also have **habits**: after some kinds are delivered, the customer immediately orders a parcel of one particular other kind, which appears on the first empty shelf.
The observations show neither prices nor habits.

The prices, the habits, the map, and the rate of new orders make up a **world**.
This notebook uses a single world, but every check uses a new one, and so does the leaderboard's judge.
Neither a kind's number nor the rank of its price tells you which kinds are worth fetching.

An **observation** is 55 numbers between 0 and 1.
The first seven describe the robot: its battery, its distances to the table and to the station, and how many parcels of each of the four kinds it carries.
Each shelf adds six more: its distance, how much longer its parcel will wait (0 if the shelf is empty), and a one-hot vector for the parcel's kind.

`make_envs(64)` creates 64 warehouses that step together in NumPy, like Gymnasium's vector environments ([Chapter 7](ch07_environments.ipynb)).
A policy is a function that takes observations, shape [N, 55], and returns actions, shape [N].
`evaluate(policy, episodes=200, seed=0, make_envs=make_envs)` runs whole episodes, by default in this notebook's world, and returns an array with the return of each one.
With the same seed, every policy gets the same new customers.
"""

# %% tags=["demo"]
envs = make_envs(64)
obs, _ = envs.reset(seed=0)
start, steps = time.perf_counter(), budget(2000, 300)
for _ in range(steps):
    obs, *_ = envs.step(random_actions(obs))
print(f"{64 * steps / (time.perf_counter() - start):,.0f} frames per second, observations of shape {obs.shape}")

# %% [markdown]
r"""
## Before you train, measure random actions and two simple rules

Without the return of random actions, you can't tell whether an agent has learned anything; without that of a simple rule, you can't tell whether the training was worth it.
The course's [baseline](../docs/glossary.md#baseline) is such a rule: *go to the station if less than a quarter of the battery is left; otherwise, fetch the nearest parcel until the robot is full or no parcel is left; then go to the table*.

To see what inside knowledge is worth, we also run `paying(prices)`, which is the same rule, except that it knows all prices: it fetches the nearest parcel *that pays*.

**Predict:** how much does the rule that knows all prices earn, as a percentage of what the baseline earns?
A tour for three parcels takes about fifteen of the 150 steps.
"""

# %% tags=["demo"]
predict("price_list_percentage", ...)  # percent of the baseline's mean return

# %% tags=["demo"]
rules = {"random": random_actions, "baseline": baseline, "knows all prices": paying(WORLD.prices)}
each_pays_one = WORLD._replace(prices=(1, 1, 1, 1))  # here, a return is the number of parcels delivered
returns, colors = {}, dict(zip(rules, ["#94a3b8", "#2563eb", "#d97706"], strict=True))
figure, panels = plt.subplots(3, 1, figsize=(7, 5), sharex=True, constrained_layout=True)
for axes, (name, rule) in zip(panels, rules.items(), strict=True):
    values = returns[name] = evaluate(rule)
    half = 1.96 * values.std() / len(values) ** 0.5
    parcels = evaluate(rule, make_envs=partial(make_envs, world=each_pays_one))
    axes.hist(values, bins=range(-20, 140, 5), color=colors[name])
    axes.set_title(f"{name}: earns {values.mean():.1f} ± {half:.1f}, delivers {parcels.mean():.1f} parcels", fontsize=10)
    axes.set_ylabel("episodes of 200")
panels[-1].set_xlabel("return of an episode")
measured("price_list_percentage", 100 * returns["knows all prices"].mean() / returns["baseline"].mean())

# %% [markdown]
r"""
Random actions rarely take the robot anywhere, because it keeps changing its destination.
The baseline delivers parcel after parcel, including those that cost money.
The rule that knows all prices earns less than half as much as the baseline.
It refuses every parcel that costs money, so it never delivers to the customers whose *next* order pays best.
A price says what a parcel pays *now*, but what matters is everything that follows from a delivery.
That is a *value*, and values have to be learned.

The number after ± is half the width of the 95% [confidence interval](../docs/glossary.md#confidence-interval) of the mean.
"""

# %% [markdown]
r"""
## A budget in CPU seconds counts every process that your program starts

An agent with unlimited time proves little, so the capstone has a budget of **CPU seconds**.
The operating system counts the [CPU time](../docs/glossary.md#cpu-time) of your process *and of every process that it starts*.
Ray's workers count, and so do the raylet and the GCS.

![An entry's process, Ray's processes, and the samplers are inside one frame whose CPU seconds are counted; the judge is outside, sends observations, and gets actions](../img/ch20_capstone.svg)

`cpu_budget = Budget(60)` starts counting when you create it.
`cpu_budget.spent()` and `cpu_budget.left()` return CPU seconds, and `cpu_budget.report(mean_return)` adds a point to your learning curve.
An entry receives an object like this as its `budget` argument.
Don't confuse it with `budget(2000, 300)` in the cells, which chooses between the course's full and quick modes.

Below, you measure half a second of sleep, half a second of work in this notebook, and the same work in each of two Ray tasks that run at the same time.

**Predict:** how many CPU seconds do the two tasks use together?
"""

# %% tags=["demo"]
predict("cpu_seconds_of_two_tasks", ...)  # CPU seconds


# %%
def work(seconds):
    """Keep a core busy until this process has used this many more CPU seconds."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


remote_work = ray.remote(work)

# %% tags=["demo"]
ways = {
    "sleep": lambda: time.sleep(0.5),
    "work here": lambda: work(0.5),
    "work in two tasks": lambda: ray.get([remote_work.remote(0.5) for _ in range(2)]),
}
print(f"{'':20}{'wall clock':>12}{'CPU':>8}")
for name, way in ways.items():
    cpu_budget, start = Budget(60), time.perf_counter()
    way()
    spent = cpu_budget.spent()
    print(f"{name:20}{time.perf_counter() - start:12.2f}{spent:8.2f}")
measured("cpu_seconds_of_two_tasks", spent)

# %% [markdown]
r"""
Sleeping uses almost no CPU time, and two tasks use twice as much as one, plus a little for Ray's own processes.
By the wall clock, the two tasks take half a second if each has a core, and a second or more if they share one.
So CPU time depends far less than wall-clock time on what else your machine is doing, which makes it a fair budget.

Two samplers make you *faster*, but they don't make the budget *longer*.
Ray isn't free, either: starting it takes several CPU seconds, and every new actor takes some more.
Here, Ray is already running, so its start doesn't count.
"""

# %%
### BEGIN SOLUTION
what_a_budget_buys = "b"
### END SOLUTION

# %%
quiz("what_a_budget_buys", what_a_budget_buys)

# %% [markdown]
r"""
## An entry is one function that returns a policy

An **entry** is a function `train(make_envs, budget)` that returns a policy.
`make_envs(count)` creates warehouses to learn in, and the judge finds out what the policy is worth.

Your first entry doesn't have to learn anything.
`hurry` is another simple rule: it fetches the parcel that has the least time left.
In its code, `OWN` is 7 (the count of numbers about the robot), `EACH` is 6 (the count for each shelf), `SHELVES` is 8, and `TABLE` and `STATION` are the actions 8 and 9.

Write `valid_entry`, which runs `hurry` for at least 50 episodes **in the warehouses that the entry was given**, reports the mean return, and returns the policy.
You may use a rule of your own instead of `hurry`, but not the baseline.

The check runs your entry in another world, where prices are several times as high, with a budget of 3 CPU seconds.
It asks the policy about one warehouse, about seven, and about many, and it compares what the policy earns with what you reported.
"""

# %%
def hurry(observations):
    """Return actions that fetch the parcel with the least time left, and visit the table and the station in time; [N, 55] -> [N]."""
    shelves = observations[:, OWN:].reshape(len(observations), SHELVES, EACH)
    waits = np.where(shelves[..., 1] > 0, shelves[..., 1], np.inf)
    full = observations[:, 3:OWN].sum(axis=1) > 0.99
    actions = np.where(full | np.isinf(waits).all(axis=1), TABLE, waits.argmin(axis=1))
    return np.where(observations[:, 0] < 0.25, STATION, actions)


# %%
def valid_entry(make_envs, budget):
    """Report the mean return of `hurry` over at least 50 episodes in these warehouses, and return `hurry`."""
    ### BEGIN SOLUTION
    budget.report(evaluate(hurry, 50, 1, make_envs).mean())
    return hurry
    ### END SOLUTION


# %%
check("valid_entry", valid_entry)

# %% [markdown] tags=["solution"]
r"""
Without its last argument, `evaluate` would use the notebook's world and its prices.
That's the same mistake as training in one simulator and deploying to another, and you'd see no error.
"""

# %% tags=["demo"]
if passed("valid_entry"):
    cpu_budget = Budget(3)
    policy = valid_entry(make_envs, cpu_budget)
    print(f"reported {cpu_budget.curve[-1][1]:.1f} after {cpu_budget.spent():.2f} CPU seconds")
    print(f"the baseline earns {returns['baseline'].mean():.1f}")

# %%
### BEGIN SOLUTION
who_scores = "c"
### END SOLUTION

# %%
quiz("who_scores", who_scores)

# %% [markdown]
r"""
## One small network scores every shelf

The parts that learn come from Chapter 10, adapted to the warehouse.
`VIEWS`, `SCALE`, and the way that episodes end are new, so you can skim the rest.

Like `ScoreEach` in [Chapter 14](ch14_custom.ipynb), the policy uses what you know about the task: all shelves follow the same rules.
So **one network with a few hundred weights scores each of the eight shelves**, from the robot's seven numbers and the shelf's six.
`VIEWS`, shape [8, 13], says where these 13 numbers are in an observation.
"""

# %%
def network(inputs, hidden, outputs, gain):
    """Return a network with one hidden layer; `gain` scales the initial weights of the output layer."""
    layers = [nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, outputs)]
    for layer, size in zip(layers[::2], [2**0.5, gain], strict=True):
        nn.init.orthogonal_(layer.weight, size)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers)


# %%
class Policy(nn.Module):
    """Networks that take observations, shape [B, 55], and return a logit for each place, shape [B, 10], and values, shape [B]."""

    def __init__(self):
        super().__init__()
        self.shelf = network(VIEWS.shape[1], 16, 1, gain=0.1)  # one logit, for any shelf
        self.rest = network(NUMBERS, 16, 2, gain=0.1)  # the logits of the table and the station
        self.critic = network(VIEWS.shape[1], 32, 1, gain=0.3)  # what each shelf adds to the value

    def forward(self, obs):
        """Return logits and values."""
        views = obs[:, VIEWS]
        logits = torch.cat([self.shelf(views)[..., 0], self.rest(obs)], dim=-1)
        return logits, self.critic(views)[..., 0].sum(dim=-1)

    def weights(self):
        """Return copies of all weights as arrays: {"shelf": [...], "rest": [...], "critic": [...]}."""
        parts = self.named_children()
        return {name: [p.detach().numpy().copy() for p in part.parameters()] for name, part in parts}


# %% [markdown]
r"""
Samplers compute in NumPy, so their processes don't have to import PyTorch.
In the end, an entry returns the [greedy policy](../docs/glossary.md#greedy-policy), which always takes the action with the largest logit.
"""


# %%
def compute(part, x):
    """Return the outputs of a network with these weights, computed in NumPy."""
    first, bias, second, shift = part
    return np.tanh(x @ first.T + bias) @ second.T + shift


def logits_of(weights, obs):
    """Return the logit of each place: [..., 55] -> [..., 10]."""
    shelves = compute(weights["shelf"], obs[..., VIEWS])[..., 0]
    return np.concatenate([shelves, compute(weights["rest"], obs)], axis=-1)


def values_of(weights, obs):
    """Return the value of each observation: [..., 55] -> [...]."""
    return compute(weights["critic"], obs[..., VIEWS])[..., 0].sum(axis=-1)


def greedy(weights):
    """Return the policy that always heads for the place with the largest logit."""
    return lambda obs: logits_of(weights, obs).argmax(axis=-1)


# %% [markdown]
r"""
A sampler steps all of its warehouses 64 times and leaves out the reset frames.
It returns the remaining rows with $\log \pi_{old}$, the advantage, and the critic's target.
Episodes are truncated after 150 steps and never *terminated*, so the value of the last observation counts at the end of every episode.
"""

# %%
STEPS, GAMMA, LAMBDA = 64, 0.98, 0.95  # steps of each warehouse per iteration, the discount factor, and the λ of GAE
SCALE = 0.1  # rewards are multiplied by this, because networks learn numbers near 1 more easily


def rows_of(frames, last_obs, weights):
    """Return the real frames of a fragment as rows; `frames` holds arrays of shape [T, N, ...]."""
    obs, actions = frames["obs"], frames["actions"]
    values = values_of(weights, np.concatenate([obs, last_obs[None]]))  # [T+1, N]
    advantages, later = np.zeros_like(values[:-1]), 0.0
    for t in reversed(range(len(obs))):
        delta = SCALE * frames["rewards"][t] + GAMMA * values[t + 1] - values[t]
        later = delta + GAMMA * LAMBDA * later * (1.0 - frames["over"][t])
        advantages[t] = later
    logp = log_softmax(logits_of(weights, obs), axis=-1)
    logp = np.take_along_axis(logp, actions[..., None], axis=-1)[..., 0]
    rows = {"obs": obs, "actions": actions, "logp": logp}
    rows |= {"advantages": advantages, "targets": advantages + values[:-1]}
    return {name: column[frames["real"]] for name, column in rows.items()}


# %%
class Stepper:
    """Steps several warehouses together, with actions sampled from a policy."""

    def __init__(self, make_envs, count, seed):
        self.envs, self.rng = make_envs(count), np.random.default_rng(seed)
        self.obs, _ = self.envs.reset(seed=seed)
        self.over = np.zeros(count, bool)  # where an episode has just ended, the next frame is a reset

    def step(self, weights):
        """Return one frame of each warehouse."""
        obs, real, logits = self.obs, ~self.over, logits_of(weights, self.obs)
        actions = (logits + self.rng.gumbel(size=logits.shape)).argmax(axis=-1)  # samples from the softmax
        self.obs, rewards, _, self.over, _ = self.envs.step(actions)
        return {"obs": obs, "actions": actions, "rewards": rewards, "over": self.over, "real": real}


# %%
class Sampler(Stepper):
    """Collects experience with the weights that it received last; an ordinary class, which `ray.remote` turns into an actor class."""

    def set_weights(self, weights):
        """Use these weights from now on."""
        self.weights = weights

    def sample(self):
        """Return the experience of STEPS frames as a dict of arrays of equal length."""
        frames = [self.step(self.weights) for _ in range(STEPS)]
        columns = {name: np.stack([frame[name] for frame in frames]) for name in frames[0]}
        return rows_of(columns, self.obs, self.weights)


# %% [markdown]
r"""
The learner is Chapter 10's PPO in two short functions.
"""

# %%
CLIP, ENTROPY = 0.2, 0.01


def ppo_loss(policy, rows):
    """Return the PPO loss of some rows: clipped objective, critic error, and entropy bonus (Chapter 10)."""
    logits, values = policy(rows["obs"])
    logp = torch.log_softmax(logits, dim=-1)
    entropy = -(logp.exp() * logp).sum(dim=-1)
    chosen = logp.gather(-1, rows["actions"][:, None])[:, 0]
    a = rows["advantages"]
    a = (a - a.mean()) / (a.std(correction=0) + 1e-8)
    ratio = torch.exp(chosen - rows["logp"])
    gain = torch.min(ratio * a, ratio.clamp(1 - CLIP, 1 + CLIP) * a)
    return -(gain + ENTROPY * entropy).mean() + 0.5 * ((values - rows["targets"]) ** 2).mean()


# %%
ENVS, EPOCHS, MINIBATCH, LEARNING_RATE = 64, 6, 1024, 8e-3  # ENVS: warehouses in total, divided among the samplers


def joined(parts):
    """Return the rows of several samplers as one batch of tensors."""
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    kinds = {name: np.int64 if name == "actions" else np.float32 for name in columns}
    return {name: torch.from_numpy(column.astype(kinds[name])) for name, column in columns.items()}


def learn(policy, optimizer, rows):
    """Train the policy on the rows for EPOCHS epochs, with one gradient step per minibatch."""
    for _ in range(EPOCHS):
        for chosen in torch.randperm(len(rows["obs"])).split(MINIBATCH):
            loss = ppo_loss(policy, {name: column[chosen] for name, column in rows.items()})
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
            optimizer.step()

# %% [markdown]
r"""
## Train in a single process first

A distributed program that doesn't learn is hard to debug.
So first, run everything in this process, with one sampler that is an ordinary object and has all 64 warehouses.

How well must an agent do before you can say that it has learned?
Beating random actions isn't enough: an untrained network, run *greedily*, at least keeps heading for the same places.

**Predict:** how much does the best of twenty untrained networks earn, as a percentage of what the baseline earns?
In quick mode, it's the best of eight.
"""

# %% tags=["demo"]
predict("best_untrained_network", ...)  # percent of the baseline's mean return

# %% tags=["demo"]
torch.manual_seed(0)
untrained = [evaluate(greedy(Policy().weights()), 50).mean() for _ in range(budget(20, 8))]
print(f"untrained networks: the median earns {np.median(untrained):.1f}, the best {max(untrained):.1f}")
print(f"random actions earn {returns['random'].mean():.1f}")
measured("best_untrained_network", 100 * max(untrained) / returns["baseline"].mean())

# %% [markdown]
r"""
Most untrained networks earn next to nothing, but a lucky one beats random actions without having learned anything.
Some worlds have much luckier ones, so the check requires three quarters of what the baseline earns.

Write `beats_random`, which trains a policy in this process, reports at least three tests, and returns the policy.
In each iteration, the sampler gets the weights and collects rows, and the policy learns from them.
Every four or five iterations, run `evaluate` with `greedy` for 50 episodes, and report the mean return.
Warehouse i gets `seed + i`, so with the sampler's seed, you'd test on episodes that the sampler learned from; a test seed a few hundred away from it avoids that.
Stop when a test reaches 0.9 times the baseline's mean return in the same episodes, or when fewer than two CPU seconds are left; `budget.spent()` tells you what an iteration costs.

The check gives your function 30 CPU seconds in another world, runs the policy in new episodes, and compares what it earns with your last report.
You aim for 0.9 instead of three quarters so that one lucky test doesn't end the training too early.
Then the check trains with a budget of 4 CPU seconds and different prices, and the policy must act differently.
Since a training run can be unlucky, the check tries up to three times, so it takes from half a minute to several minutes.
"""

# %%
def beats_random(make_envs, budget):
    """Return a policy that was trained in this process, within the budget; report at least three tests of it."""
    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), LEARNING_RATE, fused=True)
    ### BEGIN SOLUTION
    sampler, iterations, test = Sampler(make_envs, ENVS, seed=np.random.randint(1000, 10**6)), 0, 0.0
    enough = 0.9 * evaluate(baseline, 50, 1, make_envs).mean()
    while budget.left() > 2 and test < enough:
        sampler.set_weights(policy.weights())
        learn(policy, optimizer, joined([sampler.sample()]))
        iterations += 1
        if iterations % 5 == 0:
            test = evaluate(greedy(policy.weights()), 50, 1, make_envs).mean()
            budget.report(test)
    ### END SOLUTION
    return greedy(policy.weights())


# %%
check("beats_random", beats_random)

# %% [markdown] tags=["solution"]
r"""
The goal is measured rather than typed in, because it's a different number in every world.
A test costs about a third as much as an iteration, so if you tested after every iteration, a quarter of your budget would go into tests.
"""

# %% [markdown]
r"""
## Train with two samplers, and beat both rules

Now use two samplers, and make both of them actors.
You get `started`, which starts the actors, divides the warehouses evenly among them, and stops them at the end of the block.
It also starts Ray if Ray isn't running yet, and then the start counts against the budget.
"""

# %%
@contextmanager
def started(make_envs, count):
    """Yield `count` samplers as actors, with ENVS warehouses in total; stop them at the end of the block, even after an error."""
    if not ray.is_initialized():
        ray.init(num_cpus=count, include_dashboard=False)
    seeds = np.random.randint(1000, 10**6, size=count)  # far apart: warehouse i of a sampler has the seed `seed + i`
    actors = [ray.remote(Sampler).remote(make_envs, ENVS // count, int(seed)) for seed in seeds]
    try:
        yield actors
    finally:
        for actor in actors:
            ray.kill(actor)

# %% [markdown]
r"""
Write `beats_baseline`, which trains a policy with **two samplers that collect at the same time and one learner**, reports every test, and returns the policy.
It stops when a test reaches `goal` times the baseline's mean return.

The check gives your function 60 CPU seconds in a new world, and verifies that:

- both actors sampled, and did so at the same time, according to Ray's records;
- each actor was sent new weights for at least every second call of `sample`;
- your policy beats the baseline *and* the rule that knows all prices in 200 new episodes: both leads, computed episode by episode, have a 95% confidence interval above 0;
- you stayed within the budget;
- in a second, shorter run with a low `goal`, the training stopped at that goal.

Before you write, think about four questions.
How many copies of the weights do you have to store in each iteration?
In which episodes should you test your policy and the baseline, so that luck cancels out?
How far above the baseline must a test be before you trust it?
Should the learning rate be as large at the end of the budget as at the start?
For a [learning-rate schedule](../docs/glossary.md#learning-rate-schedule), set `optimizer.param_groups[0]["lr"]` in every iteration.

The check takes one to two minutes, or several if it tries again or your machine is busy.
"""

# %%
def beats_baseline(make_envs, budget, goal=1.2):
    """Return a policy that two samplers and a learner trained within the budget, with every test reported.

    The training stops when a test reaches `goal` times the baseline's mean return.
    """
    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), LEARNING_RATE, fused=True)
    ### BEGIN SOLUTION
    enough, iterations, test = goal * evaluate(baseline, 100, 1, make_envs).mean(), 0, 0.0
    with started(make_envs, 2) as actors:
        while budget.left() > 2 and test < enough:
            optimizer.param_groups[0]["lr"] = LEARNING_RATE * max(budget.left() / budget.seconds, 0.05)
            ref = ray.put(policy.weights())
            for actor in actors:
                actor.set_weights.remote(ref)
            learn(policy, optimizer, joined(ray.get([actor.sample.remote() for actor in actors])))
            iterations += 1
            if iterations % 5 == 0:
                test = evaluate(greedy(policy.weights()), 100, 1, make_envs).mean()
                budget.report(test)
    ### END SOLUTION
    return greedy(policy.weights())


# %%
check("beats_baseline", beats_baseline)

# %% [markdown] tags=["solution"]
r"""
Every test uses the same 100 episodes, and so does the baseline's mean, so it takes fewer episodes to be sure.
But these episodes also *choose* the moment to stop, so the last test is a little too good.
That's why the goal is 1.2 instead of 1, and why the judge has its own episodes.
The learning-rate schedule takes large steps first and small ones at the end of the budget.
The weights are stored once per iteration, and each actor gets the reference.
"""

# %% [markdown]
r"""
Now train without a goal until the budget is used up, which takes about a minute.

**Predict:** what will the agent earn in its last test, as a percentage of what the baseline earns?
In quick mode, the budget is only 12 CPU seconds.
"""

# %% tags=["demo"]
predict("return_at_the_end", ...)  # percent of the baseline's mean return

# %% tags=["demo"]
agent = None
if passed("beats_baseline"):
    with bar_of(budget(60, 12)) as cpu_budget:
        start = time.perf_counter()
        agent = beats_baseline(make_envs, cpu_budget, goal=np.inf)
    print(f"{cpu_budget.spent():.1f} CPU seconds in {time.perf_counter() - start:.1f} s of wall-clock time")

# %% tags=["demo"]
if agent:
    figure, axes = plt.subplots(figsize=(7, 3), constrained_layout=True)
    axes.plot(*np.transpose(cpu_budget.curve), "o-", markersize=3, color="#059669", label="your agent's own tests")
    for name, values in returns.items():
        mean, half = values.mean(), 1.96 * values.std() / 100**0.5  # for the mean of a hundred episodes
        axes.axhline(mean, linestyle="--", color=colors[name], label=name)
        axes.axhspan(mean - half, mean + half, color=colors[name], alpha=0.2)
    axes.set(xlabel="CPU seconds of all processes", ylabel="mean return", title="Mean return against CPU time")
    axes.legend(loc="lower right")
    if cpu_budget.curve:
        display(measured("return_at_the_end", 100 * cpu_budget.curve[-1][1] / returns["baseline"].mean()))

# %% [markdown]
r"""
With the full budget, the agent ends well above both rules.
The curve doesn't start at 0 seconds, because the actors have to start and collect before the first test.
The band around each dashed line shows where the mean of a hundred episodes is likely to be (19 times out of 20), so a point inside a band decides nothing.

Compare the CPU time with the wall-clock time, too.
While the samplers collect, two cores are busy; while the learner learns, only one is, and the samplers wait.

How good is the agent, and how sure are you?
Make a [paired comparison](../docs/glossary.md#paired-comparison): run all policies in the same new episodes, and look at the differences.
"""

# %% tags=["demo"]
if agent:
    exam = {name: evaluate(policy, 200, 2026) for name, policy in [*rules.items(), ("agent", agent)]}
    leads = {f"lead over {name}": exam["agent"] - exam[name] for name in rules}
    for name, values in (exam | leads).items():
        print(f"{name:28}{values.mean():7.1f} ± {1.96 * values.std() / len(values) ** 0.5:.1f}")

# %%
### BEGIN SOLUTION
close_race = "b"
### END SOLUTION

# %%
quiz("close_race", close_race)

# %% [markdown]
r"""
## Count what the agent delivers, then watch it

A mean return says *that* the agent is better, but not *how*.
So count the parcels of each kind that each policy delivers.
In this notebook's world, one kind costs 2, and another one costs 4.

**Predict:** how many of the parcels that cost 2 does the agent deliver, compared with the baseline?
"""

# %% tags=["demo"]
predict("parcels_that_cost_2", ..., ["hardly any", "about as many"])

# %% tags=["demo"]
if agent:
    only = [WORLD._replace(prices=tuple(row)) for row in np.eye(4)]  # one kind pays 1: a return counts its deliveries
    policies = rules | {"agent": agent}
    delivered = {
        name: [evaluate(policy, 50, 2026, partial(make_envs, world=world)).mean() for world in only]
        for name, policy in policies.items()
    }
    table = pandas.DataFrame(delivered, index=[f"pays {price:+g}" for price in WORLD.prices]).round(1)
    many = table.at["pays -2", "agent"] > table.at["pays -2", "baseline"] / 2
    display(table, measured("parcels_that_cost_2", "about as many" if many else "hardly any"))

# %% [markdown]
r"""
The baseline delivers all kinds alike, and the rule that knows all prices delivers only what pays.
With the full budget, the agent learns to tell the two kinds that cost money apart.
It hardly touches the parcels that cost 4, but it delivers about as many of those that cost 2 as the baseline does, because the same customers' next order pays 13.
No observation says so: the agent saw only the kinds of the parcels, then a loss, and several steps later a larger payment.
In quick mode, it may not have learned this yet.

Now watch the agent beside the rule that knows all prices.
Both start with the same orders and get the same new customers.
A film shows only one episode, so it may contradict the means.
"""

# %%
def pictures_of(policy, seed, steps):
    """Return pictures of one warehouse, one for each step of a policy."""
    env = Warehouse(render_mode="rgb_array")
    obs, _ = env.reset(seed=seed)
    pictures = []
    for _ in range(steps):
        obs, *_ = env.step(policy(obs[None])[0])
        pictures.append(env.render())
    return pictures


# %% tags=["demo"]
movie = None
if agent:
    sides = [pictures_of(policy, seed=7, steps=budget(EPISODE_STEPS, 50)) for policy in (rules["knows all prices"], agent)]
    pairs = [side_by_side({"knows all prices": left, "agent": right}) for left, right in zip(*sides, strict=True)]
    movie = film(pairs, seconds_each=0.15)
movie

# %% [markdown]
r"""
Watch a parcel that costs 2.
The rule leaves the parcel on its shelf, where it takes up space until a colleague fetches it.
When the agent delivers one, the parcel that pays 13 appears on the first empty shelf.

Look for what the agent does *not* do well, too.
Does it turn back half empty?
Does it drive to parcels that it can't reach in time?
"""

# %% [markdown]
r"""
## A leaderboard needs a judge that owns the episodes

In the notebook, you judged your own agent.
`coursekit capstone run` is stricter, because it runs a *file* with a `train` function in a [sandbox](../docs/glossary.md#sandbox).
The sandbox requires Linux; if it can't be created, add `--no-sandbox`, but only for code that you trust.

The judge creates a new world for the run, counts CPU seconds from outside, and stops an entry that uses too many.
It keeps the episodes and their seeds secret, sends only observations, and accepts only actions.
Your rank depends on your lead over the baseline in the same 200 episodes.

The next cell writes your agent to a file, together with the cells that it needs.
Each run overwrites that file.
If your agent calls functions from your own cells, add them to `needs`.
"""

# %% tags=["demo"]
if agent:
    needs = [network, Policy, compute, rows_of, Stepper, Sampler, ppo_loss, joined, started]
    print(write_entry(beats_baseline, *needs))

# %% [markdown]
r"""
Copy the file to your own folder, and change its last line to `train = partial(beats_baseline, goal=float("inf"))` or to whatever you want to try.
Then run these commands in a terminal:

```
coursekit capstone run my_entry.py --name "first try" --seconds 60
coursekit capstone board --open
```

The first command prints your mean return, those of random actions and both rules, the seconds spent, and your rank.
The second one opens a page with the learning curves of all entries.

Your file has to start Ray, and that counts: about two of the sixty CPU seconds in the sandbox, and more without one.
Does this warehouse, in which a step takes microseconds, need Ray at all?
Find out on the leaderboard: enter your agent once with Ray and once without.

## Under a wall-clock budget, more samplers pay off

If you count CPU seconds, an actor only adds cost.
But real simulators, games, and robots mostly make you wait, and then wall-clock time counts.
The leaderboard's second league has such a simulator:
"""

# %% tags=["demo"]
for count in (64, 16):
    slow = make_envs(count, slow=True)
    obs, _ = slow.reset(seed=0)
    start = time.perf_counter()
    for _ in range(20):
        obs, *_ = slow.step(random_actions(obs))
    print(f"{count} warehouses in one process: {1000 * (time.perf_counter() - start) / 20:.1f} ms per step")

# %% [markdown]
r"""
The simulator waits 0.2 ms per step for *each* warehouse, so each of four samplers with 16 warehouses waits only a quarter as long as one sampler with 64.
Run your entry in this league with:

```
coursekit capstone run my_entry.py --by-clock --seconds 60
```

The budget is 60 seconds of wall-clock time, and an entry may use as much CPU time as two cores have in these seconds.
At a moment that you can't know, **the judge kills one of your actors**.
An entry that ends with a `RayActorError` gets no score ([Chapter 5](ch05_faults.ipynb) shows what to do), and an entry without an actor to kill isn't ranked.
In this league, the baseline is the entry in [docs/example_entry.py](../docs/example_entry.py), which the judge trains before and after yours on the same machine.

How many samplers should your agent have now, and should they keep collecting while the learner learns?
"""

# %% [markdown]
r"""
## Ideas for your next entry

- **Settings.** Use Tune ([Chapter 16](ch16_tune.ipynb)) to search for a better `GAMMA`, `ENTROPY`, `MINIBATCH`, `EPOCHS`, and network width, with more than one seed.
- **Rules first.** Four kinds have sixteen subsets, so there are sixteen rules of the form "fetch the nearest parcel of these kinds".
  How many CPU seconds does it take to measure them all, and how good is the best one?
- **More inputs.** The network that scores a shelf doesn't know what is on the other shelves.
- **Reward shaping.** Pay a little for each loaded parcel, as a potential ([Chapter 14](ch14_custom.ipynb)); the optimal policy stays the same.
- **Asynchronous sampling.** Let the samplers collect while the learner learns, and correct for stale experience ([Chapter 13](ch13_algorithms.ipynb)).
- **RLlib.** `PPOConfig().environment("coursekit.given.warehouse:Warehouse-v0")` trains in this notebook's world.
  Raise `vf_clip_param` first ([Chapter 11](ch11_rllib_ppo.ipynb)): the returns here are far too large for its default of 10.
- **No gradients.** In [evolution strategies](../docs/glossary.md#evolution-strategies), workers try random changes to the weights, and all that they exchange are seeds and returns (Salimans et al. 2017).
"""

# %% tags=["demo"]
ray.shutdown()

# %% [markdown]
r"""
## What you can do now

- **Ray Core**: you can turn functions into tasks and classes into actors, share data without copies, request resources, and recover from failures, and you've measured what each of these costs.
- **Distributed RL by hand**: you can write environments, samplers, a replay buffer, DQN, and PPO, and you know when a second sampler helps.
- **RLlib and the ecosystem**: you can configure algorithms, plug in your own connector, module, callback, and reward, search for good settings, and serve and operate what was trained.
- **All of it together**: you took an unknown world, measured random actions and a rule, and used several processes to train, within a budget, an agent that beats them in episodes that it has never seen.

On a cluster, you'd write the same code, but mistakes would cost more.
So measure before you scale.

## Traps

- **A return without a baseline** says nothing.
- **The test that chose the moment to stop** isn't the result, because it has a [selection bias](../docs/glossary.md#selection-bias).
  Test again, in new episodes.
- **Neighboring seeds**: warehouse i gets `seed + i`, so samplers with seeds 0 and 1 would start with nearly the same episodes.
- **A policy for a fixed number of observations** fails, because the judge may send 1 observation or 200.

## Read on

- Sutton and Barto, [*Reinforcement Learning: An Introduction*](http://incompleteideas.net/book/the-book-2nd.html): the theory behind everything in this course.
- Huang et al., [*The 37 Implementation Details of Proximal Policy Optimization*](https://iclr-blog-track.github.io/2022/03/25/ppo-implementation-details/), 2022: what our PPO leaves out.
- Salimans et al., [*Evolution Strategies as a Scalable Alternative to Reinforcement Learning*](https://arxiv.org/abs/1703.03864), 2017.
- Agarwal et al., [*Deep Reinforcement Learning at the Edge of the Statistical Precipice*](https://arxiv.org/abs/2108.13264), 2021: how to compare agents when you can afford only a few runs.
- Moritz et al., [*Ray: A Distributed Framework for Emerging AI Applications*](https://arxiv.org/abs/1712.05889), 2018.
"""
