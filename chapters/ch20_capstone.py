# %% [markdown] you_learn_to="beat a baseline within a budget, and enter the leaderboard"
r"""
# Chapter 20 · Capstone

You train an agent of your own within a budget.

*About 120 minutes · builds on [Chapter 8](ch08_rollouts.ipynb), [Chapter 10](ch10_actor_learner.ipynb) and [Chapter 14](ch14_custom.ipynb)*

**What you will be able to do**

- take an environment without a solution: look at it, measure chance and a simple rule, and only then learn;
- say what a program and all its processes cost in CPU seconds, and stop it in time;
- put together a distributed agent from what you wrote in this course: samplers, weights, a learner;
- have it judged on episodes it has never seen, and compare it fairly;
- keep going on your own: a leaderboard, and ideas for weeks.
"""

# %%
import time
from contextlib import contextmanager

import matplotlib.pyplot as plt
import numpy as np
import ray
import torch
from scipy.special import log_softmax
from torch import nn

from coursekit import begin, budget, check, hint, passed, progress, quiz, solution, warm_up
from coursekit.given.ch20_capstone import side_by_side, write_entry
from coursekit.given.cpu_budget import Budget
from coursekit.given.warehouse import EACH, EPISODE_STEPS, NUMBERS, OWN, SHELVES, STATION, TABLE, VIEWS, WORLD, Warehouse
from coursekit.given.warehouse import baseline, evaluate, make_envs, paying, random_actions
from coursekit import film, strip

torch.set_num_threads(1)  # the networks are tiny: more threads would mostly wait for each other, and waiting costs CPU seconds
begin("ch20_capstone")

# %%
ray.shutdown()  # ends a Ray that already runs here: its references and actors are gone
ray.init(num_cpus=2, include_dashboard=False)
warm_up(2)

# %% [markdown] tags=["notes"]
r"""
The last chapter is a workshop: an hour together up to `beats_random`, then alone or in pairs, then the board.
Put the board on the wall (`coursekit capstone board --open`); `coursekit capstone class FOLDER` runs a whole class's entries in one world, and adds a film of each.
With two hours and a competitive room, let `beats_baseline` end the first hour and the leaderboard fill the second.
Run all entries on one machine, or the board compares machines.
"""

# %% [markdown]
r"""
## A warehouse in which some customers cost more than they pay

A robot fetches parcels.
Orders appear on eight shelves, each for one parcel of one of four kinds.
An order waits a while, as the black bar below the parcel shows; then a colleague fetches it.
The robot carries three parcels, and only those it delivers at the green packing table pay.
Its battery lasts for sixty squares; at the yellow station it gets a fresh one.
With an empty battery it creeps, one square in four steps.
An episode is 150 steps.

An **action** names a place: 0 to 7 are the shelves, 8 is the table, 9 the station.
The robot drives *one square* towards it, by a shortest path, and in the next step you may change your mind.

Two things make it hard.
Each kind has a **price**: two kinds pay, and two cost money, because their customers send things back.
And customers have **habits**: one whose parcel arrives may order again at once, always the same next kind, which appears on the first empty shelf.
The pictures show the prices; the observations show neither prices nor habits.
Prices, habits, map and the flow of orders together are a **world**.
This notebook has one; every check draws another, and so does the leaderboard's judge.
Which kinds are worth fetching differs from world to world: a choice that is good here, by name or by rank of price, is bad in others.
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
An **observation** is 55 numbers between 0 and 1.
Seven are about the robot: its battery, the distances to table and station, and how much it carries of each of the four kinds.
Then come six for each shelf: how far it is, how long its parcel still waits, with 0 for no parcel, and the parcel's kind, as four numbers of which one is 1.
It will help that each shelf has its own six.

`make_envs(64)` gives 64 warehouses that step together in NumPy, as Gymnasium's vector environments do ([Chapter 7](ch07_environments.ipynb)).
`evaluate(policy, episodes=200, seed=0, make_envs=make_envs)` plays whole episodes with any policy, a function from observations [N, 55] to actions [N], and returns what each episode earned.
Only the first argument is required.
Without the last, it plays in this notebook's world; the same seed means the same orders.
"""

# %% tags=["demo"]
envs = make_envs(64)
obs, _ = envs.reset(seed=0)
start, steps = time.perf_counter(), budget(2000, 300)
for _ in range(steps):
    obs, *_ = envs.step(random_actions(obs))
print(f"{64 * steps / (time.perf_counter() - start):,.0f} frames a second, observations of shape {obs.shape}")

# %% [markdown]
r"""
## First measure chance, then the obvious, then the obvious with the price list

Before anything learns, you need to know what chance and the simplest sensible rule earn.
Without the first you cannot say that something was learned; without the second, that it was worth learning.
The course's `baseline` is such a rule: *change the battery when less than a quarter is left; fetch the nearest parcel while there is room; then go to the table*.

To see what inside knowledge is worth, `paying(prices)` is the same rule with the price list in hand: it fetches the nearest parcel *that pays*.

**Predict:** what does each of the three earn in an episode, and how many parcels does it deliver?
A tour for three parcels takes about fifteen steps.
"""

# %% tags=["demo"]
rules = {"chance": random_actions, "baseline": baseline, "knows all prices": paying(WORLD.prices)}
each_pays_one = WORLD._replace(prices=(1, 1, 1, 1))
returns, colours = {}, dict(zip(rules, ["#94a3b8", "#2563eb", "#d97706"], strict=True))
figure, panels = plt.subplots(3, 1, figsize=(7, 5), sharex=True, constrained_layout=True)
for axes, (name, rule) in zip(panels, rules.items(), strict=True):
    values = returns[name] = evaluate(rule)
    half = 1.96 * values.std() / len(values) ** 0.5
    parcels = evaluate(rule, make_envs=lambda count: make_envs(count, each_pays_one))
    axes.hist(values, bins=range(-20, 140, 5), color=colours[name])
    axes.set_title(f"{name}: earns {values.mean():.1f} ± {half:.1f}, delivers {parcels.mean():.1f} parcels", fontsize=10)
    axes.set_ylabel("episodes of 200")
panels[-1].set_xlabel("return of an episode");

# %% [markdown]
r"""
Chance does not stick to one idea for ten steps, so it hardly ever arrives anywhere.
The baseline works hard and delivers parcel after parcel, including those that cost money.
The surprise is the third: the rule that knows more earns far less.
It refuses what costs money, so it never meets the customers whose next order pays best.
It takes what pays a little, and never asks what the customer will order next.
A price says what a parcel pays *now*; what counts is everything that comes of it, a value, and values must be learned.

The ± is half of the 95 % interval of the mean.
"""

# %% [markdown]
r"""
## A budget in CPU seconds counts every process that works for you

An agent that may learn forever proves little.
So the capstone has a budget: **CPU seconds**, as the operating system counts them, of your process *and of everything it started*.
Ray's workers are on the bill, and so are the raylet and the GCS.

![An entry's process, Ray's processes and the samplers stand inside one frame whose CPU seconds are counted; the judge stands outside, sends observations and gets actions](../img/ch20_capstone.svg)

`bill = Budget(60)` starts to count when it is made.
`bill.spent()` and `bill.left()` say how things stand, and `bill.report(mean_return)` adds a point to your learning curve.
An entry gets such an object as its argument `budget`.
The `budget(2000, 300)` in the cells is something else: this course's choice between full and quick mode.

**Predict** both columns of the next cell, clock and CPU, for half a second of sleep, of work here, and of work in each of two Ray tasks at once.
"""

# %%
def work(seconds):
    """Keep a core busy until this process has used this many CPU seconds more."""
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
print(f"{'':20}{'clock':>8}{'CPU':>8}")
for name, way in ways.items():
    bill, start = Budget(60), time.perf_counter()
    way()
    print(f"{name:20}{time.perf_counter() - start:8.2f}{bill.spent():8.2f}")

# %% [markdown]
r"""
Waiting uses no CPU seconds, and two tasks that work use twice as many as one.
By the clock they take half a second if each has a core, and a second or more if they share one.
So CPU seconds depend far less than the clock on what else your machine is doing, which makes them a fair budget.
Threads that wait for each other in a busy loop use CPU seconds as well, which is why the first cell gives PyTorch one thread.

Two samplers make you *faster*; they do not make the budget *longer*.
And Ray is not free: starting it costs up to ten CPU seconds, a new actor about one.
Here Ray is already running, so its start does not count; what its processes use meanwhile does, and that is the surplus in the table.
"""

# %%
### BEGIN SOLUTION
what_a_budget_buys = "b"
### END SOLUTION

# %%
quiz("what_a_budget_buys", what_a_budget_buys)

# %% [markdown]
r"""
## An entry is one function

An **entry** is a function `train(make_envs, budget)` that returns a policy.
`make_envs(count)` gives warehouses to learn in.
The judge finds out what that policy is worth.

The first entry need not learn anything.
`hurry` is a rule of its own: it fetches the parcel that will be gone soonest.
`OWN` is 7, the count of numbers about the robot, and `EACH` is 6, the count for each shelf.
`SHELVES` is 8; `TABLE` and `STATION` are the actions 8 and 9.
Finish `valid_entry`: measure what `hurry` earns in 50 episodes **of the warehouses that the entry was given**, report the mean, and return the policy.
A rule of your own will do as well, but the baseline will not; more episodes only make the mean more certain.

The check gives your entry another world with prices several times as high, and 3 CPU seconds.
It asks the policy about one warehouse, seven and many, and compares what it earns with what you reported.
"""

# %%
def hurry(observations):
    """Return where to: the parcel that is gone soonest, the table, in time the station; [N, 55] -> [N]."""
    shelves = observations[:, OWN:].reshape(len(observations), SHELVES, EACH)
    waits = np.where(shelves[..., 1] > 0, shelves[..., 1], np.inf)
    full = observations[:, 3:OWN].sum(axis=1) > 0.99
    actions = np.where(full | np.isinf(waits).all(axis=1), TABLE, waits.argmin(axis=1))
    return np.where(observations[:, 0] < 0.25, STATION, actions)


# %%
def valid_entry(make_envs, budget):
    """Report what `hurry` earns on average in these warehouses; return it."""
    ### BEGIN SOLUTION
    budget.report(evaluate(hurry, 50, 1, make_envs).mean())
    return hurry
    ### END SOLUTION


# %%
check("valid_entry", valid_entry)

# %% [markdown] tags=["solution"]
r"""
`evaluate` without its last argument would play in the notebook's world, at its prices.
It is the same mistake as training in one simulator and shipping to another, and nothing complains.
"""

# %% tags=["demo"]
if passed("valid_entry"):
    bill = Budget(3)
    policy = valid_entry(make_envs, bill)
    print(f"reported {bill.curve[-1][1]:.1f} after {bill.spent():.2f} CPU seconds")
    print(f"the baseline earns {returns['baseline'].mean():.1f}")

# %%
### BEGIN SOLUTION
who_scores = "c"
### END SOLUTION

# %%
quiz("who_scores", who_scores)

# %% [markdown]
r"""
## One small network judges every shelf

The parts that learn are those of chapter 10, fitted to the warehouse.
New are `VIEWS`, `SCALE`, and how episodes end; if you remember chapter 10, the rest reads quickly.
You will change these parts later.

The policy uses what you know, as `ScoreEach` did in [Chapter 14](ch14_custom.ipynb).
A shelf is a shelf: **one network of a few hundred weights judges each of the eight**, from the robot's seven numbers and the shelf's own six.
`VIEWS`, shape [8, 13], says which numbers of an observation these are.
What the network learns at one shelf holds for all of them.
"""

# %%
def network(inputs, hidden, outputs, gain):
    """Return a network with one hidden layer whose first outputs are about as large as `gain`."""
    layers = [nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, outputs)]
    for layer, size in zip(layers[::2], [2**0.5, gain], strict=True):
        nn.init.orthogonal_(layer.weight, size)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers)


# %%
class Policy(nn.Module):
    """Scores of the ten places, shape [B, 10], and values, shape [B], for observations [B, 55]."""

    def __init__(self):
        super().__init__()
        self.shelf = network(VIEWS.shape[1], 16, 1, gain=0.1)  # judges one shelf, and so all
        self.rest = network(NUMBERS, 16, 2, gain=0.1)  # the table and the station
        self.critic = network(VIEWS.shape[1], 32, 1, gain=0.3)  # what each shelf adds to the value

    def forward(self, obs):
        """Return scores and values."""
        views = obs[:, VIEWS]
        scores = torch.cat([self.shelf(views)[..., 0], self.rest(obs)], dim=-1)
        return scores, self.critic(views)[..., 0].sum(dim=-1)

    def weights(self):
        """Return copies of all weights as arrays: {"shelf": [...], "rest": [...], "critic": [...]}."""
        parts = self.named_children()
        return {name: [p.detach().numpy().copy() for p in part.parameters()] for name, part in parts}


# %% [markdown]
r"""
Samplers compute in NumPy, without PyTorch: cheaper to start, and faster for a few rows.
`greedy` is what an entry returns in the end: always the place with the highest score.
"""


# %%
def compute(part, x):
    """Return the outputs of a network with these weights, in NumPy."""
    first, bias, second, shift = part
    return np.tanh(x @ first.T + bias) @ second.T + shift


def scores_of(weights, obs):
    """Return the score of each place: [..., 55] -> [..., 10]."""
    shelves = compute(weights["shelf"], obs[..., VIEWS])[..., 0]
    return np.concatenate([shelves, compute(weights["rest"], obs)], axis=-1)


def values_of(weights, obs):
    """Return the value of each observation: [..., 55] -> [...]."""
    return compute(weights["critic"], obs[..., VIEWS])[..., 0].sum(axis=-1)


def greedy(weights):
    """Return the policy that always heads for the place with the highest score."""
    return lambda obs: scores_of(weights, obs).argmax(axis=-1)


# %% [markdown]
r"""
The sampler plays 64 steps in all its warehouses, leaves out the frames of a reset, and returns rows ready to learn from, with $\log \pi_{old}$, advantage and target.
No warehouse ever *terminates*; the clock only truncates, so every end has a bootstrap.
"""

# %%
STEPS, GAMMA, LAMBDA = 64, 0.98, 0.95  # steps of a fragment, the discount, GAE's λ
SCALE = 0.1  # rewards are multiplied by this: networks like numbers of about 1


def rows_of(frames, last_obs, weights):
    """Return the real frames of a fragment as rows; `frames` holds arrays of shape [T, N, ...]."""
    obs, actions = frames["obs"], frames["actions"]
    values = values_of(weights, np.concatenate([obs, last_obs[None]]))  # [T+1, N]
    advantages, later = np.zeros_like(values[:-1]), 0.0
    for t in reversed(range(len(obs))):
        delta = SCALE * frames["rewards"][t] + GAMMA * values[t + 1] - values[t]
        later = delta + GAMMA * LAMBDA * later * ~frames["over"][t]
        advantages[t] = later
    logp = log_softmax(scores_of(weights, obs), axis=-1)
    logp = np.take_along_axis(logp, actions[..., None], axis=-1)[..., 0]
    rows = {"obs": obs, "actions": actions, "logp": logp}
    rows |= {"advantages": advantages, "targets": advantages + values[:-1]}
    return {name: column[frames["real"]] for name, column in rows.items()}


# %%
class Player:
    """Plays in several warehouses at once."""

    def __init__(self, make_envs, count, seed):
        self.envs, self.rng = make_envs(count), np.random.default_rng(seed)
        self.obs, _ = self.envs.reset(seed=seed)
        self.over = np.zeros(count, bool)  # where an episode has just ended, the next frame is a reset

    def frame(self, weights):
        """Return one frame of all warehouses; actions are drawn with the policy's probabilities."""
        obs, real, scores = self.obs, ~self.over, scores_of(weights, self.obs)
        actions = (scores + self.rng.gumbel(size=scores.shape)).argmax(axis=-1)
        self.obs, rewards, _, self.over, _ = self.envs.step(actions)
        return {"obs": obs, "actions": actions, "rewards": rewards, "over": self.over, "real": real}


# %%
class Sampler(Player):
    """Plays with the weights that it was sent last. An ordinary class: `ray.remote` makes it an actor."""

    def set_weights(self, weights):
        """Play with these from now on."""
        self.weights = weights

    def sample(self):
        """Return the experience of STEPS frames as a dict of arrays of equal length."""
        frames = [self.frame(self.weights) for _ in range(STEPS)]
        columns = {name: np.stack([frame[name] for frame in frames]) for name in frames[0]}
        return rows_of(columns, self.obs, self.weights)


# %% [markdown]
r"""
The learner is chapter 10's PPO in two short functions: the clipped loss, and some epochs over the rows.
"""

# %%
CLIP, ENTROPY = 0.2, 0.01


def ppo_loss(policy, rows):
    """Return PPO's loss of some rows: clipped gain, the critic's error, a little entropy (chapter 10)."""
    scores, values = policy(rows["obs"])
    logp = torch.log_softmax(scores, dim=-1)
    entropy = -(logp.exp() * logp).sum(dim=-1)
    chosen = logp.gather(-1, rows["actions"][:, None])[:, 0]
    a = rows["advantages"]
    a = (a - a.mean()) / (a.std() + 1e-8)
    ratio = torch.exp(chosen - rows["logp"])
    gain = torch.min(ratio * a, ratio.clamp(1 - CLIP, 1 + CLIP) * a)
    return -(gain + ENTROPY * entropy).mean() + 0.5 * ((values - rows["targets"]) ** 2).mean()


# %%
ENVS, EPOCHS, MINIBATCH, LEARNING_RATE = 64, 6, 1024, 8e-3  # ENVS: warehouses in all, shared out among the samplers


def joined(parts):
    """Return the rows of several samplers as one batch of tensors."""
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    kinds = {name: np.int64 if name == "actions" else np.float32 for name in columns}
    return {name: torch.from_numpy(column.astype(kinds[name])) for name, column in columns.items()}


def learn(policy, optimizer, rows):
    """Go EPOCHS times over the rows, in minibatches, with a gradient step for each."""
    for _ in range(EPOCHS):
        for chosen in torch.randperm(len(rows["obs"])).split(MINIBATCH):
            loss = ppo_loss(policy, {name: column[chosen] for name, column in rows.items()})
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
            optimizer.step()


# %% [markdown]
r"""
## First alone, until it is clearly better than chance

A distributed program that does not learn is hard to debug.
So first run everything in this process: one sampler, an ordinary object, with all 64 warehouses.

In a round, the sampler gets the weights and plays, and the policy learns from the rows.
Every four or five rounds, test it in 50 episodes of `evaluate` with `greedy`, from a seed at least a few hundred away from the sampler's.
Warehouse i gets `seed + i`, so with the same seed the test would begin where the sampler learned.
Report each test; the check asks for at least three reports, so do not test too seldom.
Stop when a test is as good as `goal` times the baseline's mean in the same episodes, or when less than two CPU seconds are left: another round must fit in, and `budget.spent()` before and after a round tells you what it costs.

The check gives your function 30 CPU seconds and another world, and asks for three quarters of what the baseline earns there, on new episodes.
`goal` is higher, so that one lucky test does not end the learning too soon.
Imitating the baseline counts as well: what is learned from a teacher is learned.
The check tries up to three times, because agents can be unlucky.
So it takes about half a minute, or some minutes if it tries again or your machine is busy.

Why not simply ask for more than chance?
An untrained network, played *greedily*, at least sticks to its ideas, and a lucky one earns a good part of what the baseline earns.
"""

# %%
def beats_random(make_envs, budget, goal=0.9):
    """Return a policy that has learned in this process; stops at `goal` times the baseline's mean return."""
    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), LEARNING_RATE, fused=True)
    ### BEGIN SOLUTION
    sampler, rounds, test = Sampler(make_envs, ENVS, seed=np.random.randint(10**6)), 0, 0.0
    enough = goal * evaluate(baseline, 50, 1, make_envs).mean()
    while budget.left() > 2 and test < enough:
        sampler.set_weights(policy.weights())
        learn(policy, optimizer, joined([sampler.sample()]))
        rounds += 1
        if rounds % 5 == 0:
            test = evaluate(greedy(policy.weights()), 50, 1, make_envs).mean()
            budget.report(test)
    ### END SOLUTION
    return greedy(policy.weights())


# %%
check("beats_random", beats_random)

# %% [markdown] tags=["solution"]
r"""
The goal was measured, not typed in: in another world it would be another number.
And a test costs about a third of a round.
Test after every round, and a quarter of your budget goes into looking at yourself.
"""

# %% [markdown]
r"""
## Then two samplers, and past both rules

Now use two samplers, both actors.
`started` is given: it starts Ray if none runs, as in a file of your own, and then the budget pays for it.
It starts the actors, each with an equal share of the warehouses, and ends them whatever happens.
"""

# %%
@contextmanager
def started(make_envs, count):
    """Yield `count` samplers as actors, with ENVS warehouses in all; end them with the block, also after an error."""
    if not ray.is_initialized():
        ray.init(num_cpus=count, include_dashboard=False)
    seeds = np.random.randint(10**6, size=count)  # far apart: warehouse i of a sampler has the seed `seed + i`
    actors = [ray.remote(Sampler).remote(make_envs, ENVS // count, int(seed)) for seed in seeds]
    try:
        yield actors
    finally:
        for actor in actors:
            ray.kill(actor)


# %% [markdown]
r"""
Build `beats_baseline`: **two samplers that play side by side, one learner, and a stop when it is good enough.**
You worked out how they fit together in [Chapter 10](ch10_actor_learner.ipynb); here it has to pay.

The check draws a world, gives you 60 CPU seconds, and verifies:

- in Ray's records, that both actors played, and played at the same time;
- that each got weights before it played, and that these changed as the policy did;
- your policy in 200 episodes that are new to it, against the baseline *and* against the rule that knows all prices, episode by episode: both leads need a 95 % interval above 0; the second is the easier;
- that you stayed within the budget.

Before you write, ask how often a set of weights travels, and how often it has to.
In which episodes do you compare yourself with the baseline, so that luck cancels?
How far beyond the baseline must a test be before you trust it?
And should a learning step be as large at the end of the budget as at its beginning?
`optimizer.param_groups[0]["lr"]` can be set in every round.

The check takes about a minute, or some minutes if it tries again or your machine is busy.
"""

# %%
def beats_baseline(make_envs, budget, goal=1.2):
    """Return a policy that two samplers and a learner have made; stops at `goal` times the baseline's mean return."""
    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), LEARNING_RATE, fused=True)
    ### BEGIN SOLUTION
    enough, rounds, test = goal * evaluate(baseline, 100, 1, make_envs).mean(), 0, 0.0
    with started(make_envs, 2) as actors:
        while budget.left() > 2 and test < enough:
            optimizer.param_groups[0]["lr"] = LEARNING_RATE * max(budget.left() / budget.seconds, 0.05)
            ref = ray.put(policy.weights())
            for actor in actors:
                actor.set_weights.remote(ref)
            learn(policy, optimizer, joined(ray.get([actor.sample.remote() for actor in actors])))
            rounds += 1
            if rounds % 5 == 0:
                test = evaluate(greedy(policy.weights()), 100, 1, make_envs).mean()
                budget.report(test)
    ### END SOLUTION
    return greedy(policy.weights())


# %%
check("beats_baseline", beats_baseline)

# %% [markdown] tags=["solution"]
r"""
The test plays the same 100 episodes every time, and the baseline's mean comes from them too, so a test compares like with like, and needs fewer episodes to be sure.
You *choose* the moment to stop by these episodes, which makes them a little flattering.
So the goal is 1.2, not 1, and the judge has episodes of its own.
The learning rate falls as the budget runs out: big steps first, fine ones at the end.
The weights go into the object store once a round, and each actor gets the reference.
"""

# %% [markdown]
r"""
Now train without a goal, until the budget is used up.

**Predict:** where does the curve cross the two rules, and does it still rise at the end?
In quick mode the budget is 12 CPU seconds, and it may not get that far.
"""

# %% tags=["demo"]
agent = None
if passed("beats_baseline"):
    bill, start = Budget(budget(60, 12)), time.perf_counter()
    agent = beats_baseline(make_envs, bill, goal=np.inf)
    print(f"{bill.spent():.1f} CPU seconds in {time.perf_counter() - start:.1f} seconds by the clock")

# %% tags=["demo"]
if agent:
    figure, axes = plt.subplots(figsize=(7, 3), constrained_layout=True)
    axes.plot(*np.transpose(bill.curve), "o-", markersize=3, color="#059669", label="your agent, its own tests")
    for name, values in returns.items():
        mean, half = values.mean(), 1.96 * values.std() / 100**0.5  # in a hundred episodes
        axes.axhline(mean, linestyle="--", color=colours[name], label=name)
        axes.axhspan(mean - half, mean + half, color=colours[name], alpha=0.2)
    axes.set(xlabel="CPU seconds, all processes", ylabel="mean return", title="What the budget bought")
    axes.legend(loc="lower right");

# %% [markdown]
r"""
First it learns to arrive at all; then, quickly, what pays; then, slowly, which customers come back, where to go first, and when to turn back.
The curve does not begin at 0, because the two actors had to start and play the first rounds.
The dashed lines come from other episodes than your tests.
The band around each shows where a mean of a hundred episodes may lie, 19 times out of 20, so a point inside a band decides nothing.

Compare the bill with the clock, too.
While the samplers play, two cores work; while the learner learns, only one, and the samplers wait.
On a busy machine the clock runs ahead: waiting for a core uses no CPU seconds.

How good is it, and how sure are you?
Play new episodes, the same for all, and look at the differences.
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
## Pictures say how it is better

The rule with the price list and the agent get the same orders from new customers.
**Predict** three things that the agent does differently, then look.
In quick mode it had a fifth of the time, and may still be behind.
One film is one episode: it may even show the opposite of the means.
"""

# %%
def played(policy, seed, steps):
    """Return the pictures of one warehouse played by a policy."""
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
    sides = [played(policy, seed=7, steps=budget(EPISODE_STEPS, 50)) for policy in (rules["knows all prices"], agent)]
    pairs = [side_by_side({"knows all prices": left, "agent": right}) for left, right in zip(*sides, strict=True)]
    movie = film(pairs, seconds_each=0.15)
movie

# %% [markdown]
r"""
Watch a parcel that costs 2.
The rule leaves it on its shelf, where it takes up room until a colleague fetches it.
After sixty CPU seconds of learning, the agent carries it to the table and pays, and at once the warehouse's best parcel lies on the first empty shelf.
No observation told it to.
All it had was the kinds it carried, a payment some ten steps later, a better one some ten steps after that, and a great many tries.

Look also at what it does *not* do well.
Does it turn back half empty?
Does it drive to parcels it cannot reach in time?
That is your next idea.
"""

# %% [markdown]
r"""
## A leaderboard needs a judge who owns the episodes

In the notebook you were your own judge.
`coursekit capstone run` is stricter: it runs a *file* with a function `train`, in a sandbox.
That needs Linux; if it says that it cannot make a sandbox, add `--no-sandbox`, for code you trust.
It draws a world for the run, counts the CPU seconds from outside, and stops an entry that uses too many.
It keeps the episodes and their seeds to itself, sends only observations and takes only actions.
What counts is your lead over the baseline in the same 200 episodes, with its interval.

The next cell writes your agent into a file, with the cells it needs; each run writes the file again.
If your agent calls functions from cells of your own, add them to `needs`.
"""

# %% tags=["demo"]
if agent:
    needs = [network, Policy, compute, rows_of, Player, Sampler, ppo_loss, joined, started]
    print(write_entry(beats_baseline, *needs))

# %% [markdown]
r"""
Copy the file to where you like to work, change the last line to `train = partial(beats_baseline, goal=float("inf"))` or whatever you want to try, and in a terminal:

```
coursekit capstone run my_entry.py --name "first try" --seconds 60
coursekit capstone board --open
```

The first prints your score, those of chance and both rules, the seconds spent, and your rank; the second writes the board, a page with all entries' learning curves, and opens it.
A file of your own has to start Ray, and that is on your bill: about two of the sixty seconds in the sandbox, up to ten without it.
Does this warehouse, where a step costs microseconds, need Ray at all?
Ask the board: enter your agent once with Ray and once without.

## By the clock, samplers pay

In CPU seconds an actor is pure cost.
Real simulators, games and robots mostly make you wait, and then the clock counts.
That is the second league:

```
coursekit capstone run my_entry.py --by-clock --seconds 60
```

Its simulator takes 0.2 ms for a step of *one* warehouse, so 64 in one process keep you waiting for 13 ms a step.
The budget is seconds by the clock, and two cores' worth of computing.
And once, at a moment you cannot know, **the judge kills one of your actors**.
An entry that ends with a `RayActorError` has no score ([Chapter 5](ch05_faults.ipynb) knows what to do), and one without an actor to kill is not ranked.
The baseline is the entry in [docs/example_entry.py](../docs/example_entry.py), which learns before and after yours on the same machine: the gap between its two runs says how much the machine's mood is worth.

What would you change in your agent?
How many samplers now, and may they play on while the learner learns?

## There is always a next idea

- **Cheap ones.** `GAMMA`, `ENTROPY`, `MINIBATCH`, `EPOCHS`, the width of the networks: with Tune and ASHA ([Chapter 16](ch16_tune.ipynb)), and with more than one seed.
- **Rules first.** There are sixteen sets of kinds, and so sixteen rules "the nearest parcel of these".
  Measure all of them and keep the best: how many CPU seconds does that take, and how far does it get you?
  In practice you begin there and let learning add to it: have the agent choose between rules, or imitate the best one first ([Chapter 15](ch15_offline.ipynb)).
- **Better eyes.** The network that judges a shelf does not know what lies beside it, or how far it is from there to the table.
  Add that; or let shelves look at each other (attention).
- **A hint.** Pay a little for each loaded parcel, as a potential ([Chapter 14](ch14_custom.ipynb)); the best policy stays best.
- **No waiting.** Let the samplers play on while the learner learns, and correct for the age of their experience: IMPALA and APPO ([Chapter 13](ch13_algorithms.ipynb)).
  That gains time by the clock; does it gain in CPU seconds?
- **RLlib.** `PPOConfig().environment("coursekit.given.warehouse:Warehouse-v0")` plays it, and your entry may use RLlib.
  What does its generality cost within 60 CPU seconds?
- **No gradients.** Evolution strategies send a seed and get back a number: the simplest distributed learner there is (Salimans et al. 2017).
  It needs thirty lines and `ray.wait`.
- **Serve it.** Put the policy behind HTTP ([Chapter 18](ch18_serve.ipynb)).
"""

# %% tags=["demo"]
ray.shutdown()

# %% [markdown]
r"""
## What you can do now

- **Ray Core**: you turn functions into tasks and classes into actors, share data through the object store without copies, ask for resources and see why something waits, and let things fail and recover.
  You know what each of them costs, because you measured it.
- **Distributed RL by hand**: you write environments, samplers, a replay buffer, DQN and PPO, send weights once, keep resets out of the experience, and know when a second sampler helps.
- **RLlib**: you configure its algorithms as sentences, read its results, choose runners by measurement, and put your own connector, module, callback and reward in their places.
- **The ecosystem**: you search settings with Tune, train on several workers, serve what was learned, and operate it.
- **And this**: you took an unknown world, measured chance and a rule, set a budget, built an agent of several processes that beats them, and had a judge confirm it.
  That is the whole craft in miniature.

A cluster would change not the code but the price of a mistake: now you know how to look before you scale.

## Traps

- **A return without a baseline** says nothing.
  Measure chance and the obvious rule first.
- **More processes, same budget**: they divide the work but do not reduce it; starting and sending come on top.
- **The test that chose the moment to stop** is not the result.
  Test again, in episodes that chose nothing.
- **Testing too often** eats the budget; testing too seldom wastes it.
- **Seeds side by side**: warehouse i gets `seed + i`, so samplers with the seeds 0 and 1 would play nearly the same episodes.
- **Measuring in your own world** what was trained in another: pass `make_envs` on.
- **A policy that knows how many will ask**: the judge may send one observation or two hundred.

## Read on

- Sutton and Barto, [*Reinforcement Learning: An Introduction*](http://incompleteideas.net/book/the-book-2nd.html): what is behind it all.
- Huang et al., [*The 37 Implementation Details of Proximal Policy Optimization*](https://iclr-blog-track.github.io/2022/03/25/ppo-implementation-details/), 2022: what else our PPO leaves out.
- Salimans et al., [*Evolution Strategies as a Scalable Alternative to Reinforcement Learning*](https://arxiv.org/abs/1703.03864), 2017.
- Agarwal et al., [*Deep Reinforcement Learning at the Edge of the Statistical Precipice*](https://arxiv.org/abs/2108.13264), 2021: how to compare agents with few runs.
- Moritz et al., [*Ray: A Distributed Framework for Emerging AI Applications*](https://arxiv.org/abs/1712.05889), 2018, once more: now you can read every line.
"""
