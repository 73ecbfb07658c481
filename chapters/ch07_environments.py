# %% [markdown] you_learn_to="write environments, collect episodes, measure steps a second"
r"""
# Chapter 7 · Experience comes from environments, one step at a time

*About 110 minutes · builds on [Chapter 1](ch01_tasks.ipynb) and [Chapter 3](ch03_actors.ipynb)*

**What you will be able to do**

- play episodes in any Gymnasium environment, and compute their returns;
- write an environment of your own that passes Gymnasium's `check_env`;
- collect from many environments at once without taking a reset for experience;
- measure environment steps a second, and predict when more environments are faster and when they are slower.
"""

# %%
import contextlib

import gymnasium
import matplotlib.pyplot as plt
import numpy as np
import pandas
import ray
import torch
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from coursekit import begin, budget, check, compare_times, hint, passed, progress, quiz, solution
from coursekit.envs import SlowSimulator
from coursekit.given.ch07_environments import play_one, shows_its_clock, steps_a_second
from coursekit.pictures import Drawn, film, strip

begin("ch07_environments")

# %% [markdown] tags=["notes"]
r"""
A hundred and ten minutes with all five exercises; seventy-five when `SimpleCorridor` is left as homework.
There is no Ray before the last section, so nobody waits for anything.
Say where we are: part A taught to run things side by side; from here on the things that run are players.
"""

# %% [markdown]
r"""
## Five values come back from every step

In **reinforcement learning** an agent learns from what happens to it.
It sees an **observation**, chooses an **action**, and gets a number for it, the **reward**.
The rule by which it chooses is its **policy**; all that lies outside is the **environment**.
The games, robots and power plants of this world all fit behind two methods, and [Gymnasium](https://gymnasium.farama.org) has fixed what they are called:

![The policy sends an action to the environment; step sends back observation, reward, terminated, truncated and info; reset starts an episode and sends observation and info](../img/ch07_loop.svg)

`reset` begins an **episode**, `step` goes on with it, until one of two flags is set:

- `terminated`: the game itself is over.
  The agent has arrived, fallen, won.
- `truncated`: somebody stopped watching, most often because a limit of steps was reached.
  The game could have gone on.

The fifth value, `info`, is a dict for people and tools.
A policy does not get to see it.

FrozenLake is a field of ice, 4 by 4, with four holes; the goal is at the bottom right.
The observation is the number of the field.
The ice is slippery: the agent goes where it wants in one of three cases, and to one of the two sides in the others.

**Predict:** when the actions are drawn at random, how does the episode end, and after about how many steps?
"""

# %% tags=["demo"]
lake = Drawn(gymnasium.make("FrozenLake-v1"))  # Drawn adds pictures: render() returns one
lake.action_space.seed(8)
obs, info = lake.reset(seed=8)
frames, titles = [lake.render()], [f"reset: field {obs}"]
terminated = truncated = False
while not (terminated or truncated):
    action = lake.action_space.sample()
    obs, reward, terminated, truncated, info = lake.step(action)
    frames.append(lake.render())
    titles.append(f"{['left', 'down', 'right', 'up'][action]}: field {obs}")
print(f"{obs=} {reward=} {terminated=} {truncated=} {info=}")
strip(frames, titles, columns=5);

# %% [markdown]
r"""
In a hole, with no reward, and after some eight steps on average: nearly all random walks end like that.
Compare titles and pictures: where did the agent slip?

A picture is an array of shape [height, width, 3], which Gymnasium calls `rgb_array`.
For most of its environments it draws such pictures itself when you make them with `render_mode="rgb_array"` and have installed `pygame`; this course draws its three with the small wrapper `Drawn`.

> **You may have seen** `import gym`, `env.seed(0)`, `obs = env.reset()` and `obs, reward, done, info = env.step(action)`.
> Gym is no longer maintained; Gymnasium is its successor.
> `reset` takes the seed and returns two values, and `done` was split in two:
>
> ```python
> obs, info = env.reset(seed=0)
> obs, reward, terminated, truncated, info = env.step(action)
> done = terminated or truncated
> ```

Why two flags for one end?
Because they say different things about the future.
You will need the difference in a moment.
"""

# %% [markdown]
r"""
## Spaces say what goes in and what comes out

A **space** is a set of values: `action_space` holds the actions that an environment takes, `observation_space` what it may show.
From these two a learning program knows how many inputs and outputs its network needs.
You will need two kinds: `Discrete(n)` holds the integers from 0 to n − 1, and `Box` the arrays of numbers between two limits.

**Predict:** CartPole is a pole on a cart that you push to the left or to the right.
How many numbers does one need to know where it will go next?
"""

# %% tags=["demo"]
names = ["coursekit.envs:SimpleCorridor-v0", "FrozenLake-v1", "CartPole-v1"]
for name in names:
    env = gymnasium.make(name)
    print(name, f"  observations: {env.observation_space}", f"  actions: {env.action_space}", "", sep="\n")

# %% [markdown]
r"""
Four: the cart's position and velocity, the pole's angle and angular velocity.
(The velocities have no limit, so `Box` says `inf`.)
The name in front of the colon is a module: Gymnasium imports it, and finds `SimpleCorridor` there.
That works in every process, which will matter when others play for you.
"""

# %% [markdown]
r"""
## An environment of your own is a class with two methods

The corridor is the "hello, world" of RLlib.
Here is yours; it has a few more rules than the one that coursekit ships for later chapters:

- There are `length` fields, numbered from 0.
  The exit is the last one.
- `reset` puts the agent on a random field of the left half, 0 to `length // 2 - 1`.
- Action 0 goes one field to the left, action 1 one to the right.
  On field 0 there is a wall: who goes left there stays.
- Every step earns −0.1.
  The step that reaches the exit earns 1 (and not 0.9), and the episode is terminated.
- After `max_steps` steps the episode is truncated.
  (When that very step reaches the exit, `truncated` may be either.)
- The observation is the number of the field, as an array of shape [1] and type `float32`: networks want that.
  Its space is a `Box` from the first field to the last one.

A word on chance.
`super().reset(seed=seed)` gives the environment random numbers of its own, `self.np_random` (a NumPy generator).
Draw from those and from nothing else: then a seed makes an episode repeatable, in whichever process it runs.

The last method is given and expects the number of the field in `self.position`; the rest is yours.
The check looks at the spaces, asks Gymnasium's `check_env`, resets a few times, and then goes for walks.
"""


# %%
class SimpleCorridor(gymnasium.Env):
    """A corridor whose last field is the exit."""

    def __init__(self, length=10, max_steps=50):
        """Set `self.observation_space` and `self.action_space`."""
        self.length, self.max_steps = length, max_steps
        ### BEGIN SOLUTION
        self.observation_space = gymnasium.spaces.Box(0, length - 1, shape=(1,), dtype=np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        ### END SOLUTION

    def reset(self, *, seed=None, options=None):
        """Return the first observation and an empty dict."""
        ### BEGIN SOLUTION
        super().reset(seed=seed)
        self.position = int(self.np_random.integers(self.length // 2))
        self.steps = 0
        return self.observation(), {}
        ### END SOLUTION

    def step(self, action):
        """Return observation, reward, terminated, truncated and an empty dict."""
        ### BEGIN SOLUTION
        move = 1 if action == 1 else -1
        self.position = min(max(self.position + move, 0), self.length - 1)
        self.steps += 1
        terminated = self.position == self.length - 1
        truncated = self.steps >= self.max_steps
        return self.observation(), 1.0 if terminated else -0.1, terminated, truncated, {}
        ### END SOLUTION

    def observation(self):
        """Return the number of the field, as `observation_space` has it."""
        return np.array([self.position], np.float32)


# %%
check("SimpleCorridor", SimpleCorridor)

# %% [markdown] tags=["solution"]
r"""
An episode may be terminated and truncated at once, when the last step that is allowed is the one that arrives.
`terminated` then wins: there is no future to estimate.
Many people leave the limit to a wrapper, `TimeLimit`; you will meet it below.
"""

# %% tags=["demo"]
if passed("SimpleCorridor"):
    corridor = Drawn(SimpleCorridor(length=6))
    obs, _ = corridor.reset(seed=1)
    frames, titles = [corridor.render()], [f"reset: field {obs[0]:g}"]
    for action in [1, 0, 0, 1, 1, 1, 1, 1]:
        obs, reward, terminated, truncated, _ = corridor.step(action)
        frames.append(corridor.render())
        titles.append(f"{['left', 'right'][action]}: reward {reward:g}")
        if terminated:
            break
    strip(frames, titles, columns=3);

# %%
### BEGIN SOLUTION
seed_every_episode = "b"
### END SOLUTION

# %%
quiz("seed_every_episode", seed_every_episode)

# %% [markdown]
r"""
## An episode is written down once, and used many times

The loop around `step` is the same for every environment and every policy, so write it once.
`policy` is any function from an observation to an action.
`obs` gets one more entry than `actions`: it begins with what `reset` showed, and ends with what the last step showed.
The check counts your calls, too.
"""


# %%
def rollout(env, policy, seed):
    """Return one episode as a dict.

    "obs" is a list of T + 1 observations, "actions" and "rewards" are lists of T, "terminated" is True or False.
    """
    ### BEGIN SOLUTION
    obs, _ = env.reset(seed=seed)
    episode = {"obs": [obs], "actions": [], "rewards": [], "terminated": False}
    truncated = False
    while not (episode["terminated"] or truncated):
        action = policy(obs)
        obs, reward, episode["terminated"], truncated, _ = env.step(action)
        episode["obs"].append(obs)
        episode["actions"].append(action)
        episode["rewards"].append(reward)
    return episode
    ### END SOLUTION


# %%
check("rollout", rollout)

# %% [markdown] tags=["solution"]
r"""
Only `terminated` is kept: an episode that has ended and is not terminated was truncated.
The slip that costs most is `while not terminated`: it never ends on an environment that only truncates, and nothing complains.
"""

# %% [markdown]
r"""
The sum of the rewards of an episode is its **return**.
CartPole pays 1 for every step, so there it is the number of steps.

**Predict:** how long does the pole stand on average when the pushes are drawn at random?
"""

# %% tags=["demo"]
cartpole = gymnasium.make("CartPole-v1")
if passed("rollout"):
    dice = np.random.default_rng(0)
    episodes = [rollout(cartpole, lambda obs: dice.integers(2), seed) for seed in range(200)]
    random_returns = [sum(episode["rewards"]) for episode in episodes]
    figure, axes = plt.subplots(figsize=(7, 2.8), constrained_layout=True)
    axes.hist(random_returns, bins=40, color="#db2777")
    axes.set_title(f"200 random episodes of CartPole: {np.mean(random_returns):.0f} steps on average")
    axes.set(xlabel="return", ylabel="episodes");

# %% [markdown]
r"""
## The return of a step looks ahead

What was a step worth?
Not its own reward alone: a good push pays later.
Not what had been before it either.
The **discounted return** of step $t$ counts what comes from then on, and the further away a reward, the less:

$$G_t = r_t + \gamma\, r_{t+1} + \gamma^2 r_{t+2} + \dots = r_t + \gamma\, G_{t+1}, \qquad 0 \le \gamma \le 1.$$

And behind the last step?
After `terminated` there is nothing, so $G_T = 0$.
After `truncated` there is a future that nobody has seen.
Whoever has an estimate of its worth puts it in the place of $G_T$: the **bootstrap**.
In chapters 8 to 10 a network makes that estimate; for now it is an argument.

**Predict**, with paper and pencil: the returns for the rewards 1, 2, 3 with $\gamma = 0.5$, once without a bootstrap and once with one of 8.
"""


# %%
def discounted_returns(rewards, gamma, bootstrap=0.0):
    """Return [G_0, …, G_{T-1}] for the rewards of an episode; `bootstrap` is G_T, the worth of what follows."""
    ### BEGIN SOLUTION
    returns, following = [], bootstrap
    for reward in reversed(rewards):
        following = reward + gamma * following
        returns.append(following)
    return returns[::-1]
    ### END SOLUTION


# %%
check("discounted_returns", discounted_returns)

# %% [markdown] tags=["solution"]
r"""
2.75, 3.5, 3 without, and 3.75, 5.5, 7 with the bootstrap: it counts half on the last step, a quarter on the one before.
Forwards, with a sum for each step, is right too, but does $T^2$ multiplications where $T$ are enough.
"""

# %%
### BEGIN SOLUTION
time_is_up = "b"
### END SOLUTION

# %%
quiz("time_is_up", time_is_up)

# %% [markdown]
r"""
How far ahead does a step look?
Take an episode of a corridor that is only paid at its end.

**Predict:** on a way of 40 steps, what is the reward of 1 at its end worth at the start: with $\gamma = 0.99$, with 0.9, with 0.5?
"""

# %% tags=["demo"]
if passed("discounted_returns"):
    figure, axes = plt.subplots(figsize=(7, 2.8), constrained_layout=True)
    for gamma, colour in [(0.99, "#db2777"), (0.9, "#7c3aed"), (0.5, "#2563eb")]:
        returns = discounted_returns([0] * 39 + [1], gamma)
        axes.plot(returns, color=colour, label=f"γ = {gamma}: {returns[0]:.2g} at the start")
    axes.set(xlabel="step", ylabel="return", title="A reward shines back about 1 / (1 − γ) steps")
    axes.legend();

# %% [markdown]
r"""
With 0.5 the first thirty steps do not know that there is an exit.
With 0.99 they all do.
Most of this course uses 0.99.
"""

# %% [markdown]
r"""
## A rule of one line beats chance

Before you let anything learn, find out how far a simple rule gets.
It is a baseline, and it tests your environment.

CartPole's episode is over when the pole leans by more than 12°, or the cart is more than 2.4 from the middle.
Write a policy that keeps it going for **200 steps**, from every start that `reset` draws.
(The environment itself goes on to 500.)
To the right is positive; angles are in radians.

**Predict:** is it enough to push to the side to which the pole leans?
"""


# %%
def cartpole_policy(obs):
    """Return 0 (push left) or 1 (push right); `obs` is position, velocity, angle, angular velocity."""
    ### BEGIN SOLUTION
    position, velocity, angle, angular_velocity = obs
    return int(angle + 0.5 * angular_velocity > 0)
    ### END SOLUTION


# %%
check("cartpole_policy", cartpole_policy)

# %% [markdown] tags=["solution"]
r"""
`angle + 0.5 * angular_velocity` is where the pole would be half a second from now if it went on as it swings.
The angle alone holds it for some 40 steps: it pushes until the pole swings through the middle, and then lets it swing on.
The angular velocity alone holds it upright, but half the episodes run off the track before step 200.
"""

# %% tags=["demo"]
if passed("cartpole_policy") and passed("rollout"):
    camera = gymnasium.wrappers.RenderCollection(Drawn(cartpole))  # keeps a picture of each step
    rollout(camera, cartpole_policy, seed=0)
    display(film(camera.render()[:200:2]))

# %% tags=["demo"]
if passed("cartpole_policy") and passed("rollout"):
    figure, axes = plt.subplots(figsize=(7, 2.8), constrained_layout=True)
    policies = {"only the angle": lambda obs: int(obs[2] > 0), "yours": cartpole_policy}
    for (name, policy), colour in zip(policies.items(), ["#64748b", "#db2777"], strict=True):
        angles = np.degrees([obs[2] for obs in rollout(cartpole, policy, seed=0)["obs"]])
        axes.plot(angles, color=colour, label=f"{name}: {len(angles) - 1} steps")
    axes.set(xlabel="step", ylabel="angle (degrees)", title="Whoever looks ahead keeps the pole calm")
    axes.legend(loc="lower right");

# %% [markdown] tags=["notes"]
r"""
Half-time.
Ask for the shortest rule in the room, and for one that reaches 500.
Somebody will ask why we learn at all if one line does it: because nobody can write that line for a robot with thirty joints.
"""

# %% [markdown]
r"""
## A wrapper changes an environment without touching it

A **wrapper** is an environment around an environment.
Print one that `make` gave you, and you see several, each of which does one thing:

- `TimeLimit` sets `truncated` after so many steps;
- `OrderEnforcing` raises when `step` comes before `reset`;
- `PassiveEnvChecker` looks at what the first calls of `reset` and `step` return, and warns when it is not as the spaces say.

`env.unwrapped` is the environment below all of them.
**Predict:** how much longer does a step take through the three wrappers?
"""

# %% tags=["demo"]
print(cartpole)
bare, actions = cartpole.unwrapped, np.random.default_rng(0).integers(2, size=300)
comparison = compare_times(
    {"bare": lambda: play_one(bare, actions), "wrapped": lambda: play_one(cartpole, actions)},
    repeats=budget(301, 101),
)
print({name: f"{1e6 * seconds / len(actions):.1f} µs a step" for name, seconds in comparison.medians.items()})
comparison

# %% [markdown]
r"""
A wrapper is one more Python call: three of them make a step as short as this one some ten per cent longer, and around a step of a millisecond nobody feels it.
(If the interval holds 1, your machine was busy with something else: compare the column `fastest`, or run the cell again.)
Remember the microseconds of a step, though: they decide what comes next.

A wrapper of your own overrides the method it wants to change and inherits the rest.
This one makes every step take longer, as if the environment ran on another machine:

```python
class Napping(gymnasium.Wrapper):
    def step(self, action):
        time.sleep(0.005)
        return self.env.step(action)
```

`SlowSimulator` of `coursekit.envs` is that, with a choice: it naps (somebody else is working), or with `busy=True` it keeps one of your cores busy (the simulator runs here).
A physics engine, a game or a web shop takes milliseconds a step, so in this course a slow simulator stands for them.
"""

# %% [markdown]
r"""
## Many environments step together, and reset themselves

A **vector environment** holds $N$ environments and steps them all: $N$ actions go in, arrays with $N$ rows come out.
`SyncVectorEnv` steps one after the other in your process; `AsyncVectorEnv` has a process for each.

Their episodes end at different times, and nobody wants to stop the others for that.
So a vector environment resets by itself.
Below are two environments that observe the number of the episode and of the step, and earn the number of the step.
Episodes are two steps long in A and three in B. The action is always 0.

**Predict** the row after the end of A's first episode: what is A's observation, and what its reward?
"""

# %% tags=["demo"]
left = {"selector": "th, td", "props": "text-align: left"}


def frames_of(mode):
    """Return a table of what two environments show in seven steps."""
    envs = SyncVectorEnv([lambda: shows_its_clock(2), lambda: shows_its_clock(3)], autoreset_mode=mode)
    obs, _ = envs.reset()
    rows = [[f"episode {episode:g}, step {step:g}" for _, episode, step in obs]]
    for _ in range(7):
        obs, rewards, terminated, truncated, infos = envs.step(np.zeros(2, int))
        ends = np.where(terminated | truncated, "END", "")
        shown = zip(obs, rewards, ends, strict=True)
        rows.append([f"episode {o[1]:g}, step {o[2]:g}, reward {reward:g} {end}" for o, reward, end in shown])
    return pandas.DataFrame(rows, columns=["A", "B"]).style.set_table_styles([left])


frames_of(AutoresetMode.NEXT_STEP)

# %% [markdown]
r"""
Each row of the table is a **frame**, one call of `envs.step`.
Each `END` is followed by one with step 0 and reward 0.
In that frame the environment was reset, *your action was ignored*, and no time passed in any episode.
It is a **frame, but not experience**: nothing led from the observation before it to its own.

There are three modes, and every program that learns from a vector environment has to know which one it has:

![With next step, the default, a frame of its own shows the reset; with same step, the last observation is replaced by the first of the next episode and kept in the infos; disabled leaves the reset to you](../img/ch07_autoreset.svg)

(In the mode disabled you reset those that have ended: `envs.reset(options={"reset_mask": terminated | truncated})`.
Before version 1.0 Gymnasium reset in the same step.
Programs from that time look for `infos["final_observation"]`, which is called `final_obs` today.)

Here are the same seven steps in the mode same step.
**Predict:** which observations are missing?
"""

# %% tags=["demo"]
frames_of(AutoresetMode.SAME_STEP)

# %% [markdown]
r"""
The last one of every episode: beside `END` stands the beginning of the next episode.
The last observation is in `infos["final_obs"]`, and a program that does not fetch it believes that the end of one episode looks like the start of another.
"""

# %%
### BEGIN SOLUTION
autoreset_frame = "c"
### END SOLUTION

# %%
quiz("autoreset_frame", autoreset_frame)

# %% [markdown]
r"""
Now collect, in the default mode.
A **transition** is what happened to one environment in one step: `obs`, the action chosen for it, the reward, the observation that came next, and whether that was a terminal one.
Return the transitions that really happened.
`policy` takes the observations of all environments and returns an array of actions.
"""


# %%
def vector_rollout(envs, policy, steps, seed):
    """Return the transitions of so many steps of `envs`, in any order, as a dict of arrays with a row for each.

    The keys are "obs", "actions", "rewards", "next_obs", "terminated". Resets are left out.
    """
    ### BEGIN SOLUTION
    obs, _ = envs.reset(seed=seed)
    found = {"obs": [], "actions": [], "rewards": [], "next_obs": [], "terminated": []}
    real = np.ones(envs.num_envs, bool)  # is the coming frame a step of an episode, and not a reset?
    for _ in range(steps):
        actions = policy(obs)
        next_obs, rewards, terminated, truncated, _ = envs.step(actions)
        for parts, part in zip(found.values(), (obs, actions, rewards, next_obs, terminated), strict=True):
            parts.append(part[real])
        real = ~(terminated | truncated)
        obs = next_obs
    return {key: np.concatenate(parts) for key, parts in found.items()}
    ### END SOLUTION


# %%
check("vector_rollout", vector_rollout)

# %% [markdown] tags=["solution"]
r"""
`obs[real]` takes the rows in which `real` is true, and copies them.
Nothing marks a reset frame: its reward of 0 and its flags occur in ordinary steps as well, so you have to remember who ended one frame earlier.
For a truncated episode `terminated` stays False, so a learner will bootstrap from `next_obs`, which here is the true last observation.
"""

# %% [markdown]
r"""
**Predict:** sixteen environments, a random policy, CartPole: what share of the frames are resets?
You know how long an episode is.
"""

# %% tags=["demo"]
if passed("vector_rollout"):
    steps, envs = budget(2000, 300), gymnasium.make_vec("CartPole-v1", num_envs=16)  # a SyncVectorEnv
    dice = np.random.default_rng(0)
    found = vector_rollout(envs, lambda obs: dice.integers(2, size=16), steps, seed=0)
    real, frames = len(found["rewards"]), 16 * steps
    print(f"{frames} frames, {real} transitions: {1 - real / frames:.1%} are resets")

# %% [markdown]
r"""
One frame for every episode.
Whoever counts frames as experience learns from transitions that never happened, mostly while episodes are short: at the beginning, when it hurts most.
"""

# %% [markdown]
r"""
## More environments at once are often slower

"Vectorised" sounds like "fast".
Measure it: eight environments, stepped one after the other and stepped in eight processes, beside a single one in a plain loop.
All count environment steps a second, of all environments together.
Three kinds: CartPole, CartPole that naps for 5 ms in each step, and CartPole that keeps a core busy for 5 ms.

**Predict** the order of the three bars, for each of the three kinds.
"""

# %% tags=["demo"]
def cart():
    """Return one CartPole."""
    return gymnasium.make("CartPole-v1")


kinds = {
    "CartPole": cart,
    "naps 5 ms": lambda: SlowSimulator(cart(), seconds=0.005),
    "busy for 5 ms": lambda: SlowSimulator(cart(), seconds=0.005, busy=True),
}
ways = {
    "one": lambda make: make(),
    "SyncVectorEnv of 8": lambda make: SyncVectorEnv([make] * 8),
    "AsyncVectorEnv of 8": lambda make: AsyncVectorEnv([make] * 8),
}

# %% tags=["demo"]
speeds, rounds = {}, budget(3, 2)
for kind, make in kinds.items():
    steps = budget(20_000, 4000) if kind == "CartPole" else budget(240, 64)
    for way, open_envs in ways.items():
        with contextlib.closing(open_envs(make)) as envs:  # processes end with the block
            speeds[way, kind] = steps_a_second(envs, steps, rounds=rounds)  # the fastest of them
table = pandas.Series(speeds).unstack(sort=False)
table.round(-1).astype(int)

# %% tags=["demo"]
colours = ["#94a3b8", "#db2777", "#7c3aed"]
axes = table.T.plot.bar(figsize=(8, 3.5), rot=0, logy=True, color=colours, width=0.75)
axes.set(ylabel="environment steps a second", title="Only waiting gets shorter by waiting together")
axes.legend(frameon=False);

# %% [markdown]
r"""
Read it kind by kind.

- **CartPole**: a plain loop wins.
  A step takes some ten microseconds; `SyncVectorEnv` adds the handling of arrays, and `AsyncVectorEnv` a message to a process and back, which costs many times the step itself.
- **Naps**: eight naps at once take little longer than one, so eight processes are six to eight times as fast.
  `SyncVectorEnv` naps eight times in a row: no gain at all.
- **Busy**: eight processes are as fast as you have cores, and no faster.
  On two cores the ratio is below two, whatever the number of processes.

(The scale is logarithmic: each line is ten times the one below it.
A machine that is busy with something else can turn a bar: run it twice.
On a Mac each of the processes is a new Python, so opening an `AsyncVectorEnv` takes seconds there; the steps take no longer.)
"""

# %%
### BEGIN SOLUTION
sixteen_cores = "b"
### END SOLUTION

# %%
quiz("sixteen_cores", sixteen_cores)

# %% [markdown]
r"""
## Environments in one process share the network

So what is `SyncVectorEnv` for?
For the policy.
A network takes nearly as long for one observation as for sixty-four.
With $N$ environments, one call serves $N$ steps.

The third way has no environments inside at all: Gymnasium ships a CartPole that is written for arrays, where one multiplication moves all the carts.

**Predict:** from how many environments on does `SyncVectorEnv` with a network beat a single environment with the same network?
And how fast are arrays?
"""

# %% tags=["demo"]
torch.set_num_threads(1)
network = torch.nn.Sequential(
    torch.nn.Linear(4, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 2)
)


@torch.inference_mode()
def choose(obs):
    """Return the network's action for an observation, or its actions for many."""
    return network(torch.as_tensor(obs)).argmax(-1).numpy()


def arrays(count):
    """Return so many CartPoles, written as arrays."""
    return gymnasium.make_vec("CartPole-v1", num_envs=count, vectorization_mode="vector_entry_point")


# %% tags=["demo"]
sizes, steps = [1, 4, 16, 64, 256], budget(15_000, 2000)
curves = {"Sync": [], "Sync, with a network": [], "arrays, with a network": []}
for size in sizes:
    envs = SyncVectorEnv([cart] * size)
    curves["Sync"].append(steps_a_second(envs, steps, rounds=rounds))
    curves["Sync, with a network"].append(steps_a_second(envs, steps, choose, rounds=rounds))
    curves["arrays, with a network"].append(steps_a_second(arrays(size), steps, choose, rounds=rounds))
one = {
    "one": steps_a_second(cart(), steps, rounds=rounds),
    "one, with a network": steps_a_second(cart(), steps, choose, rounds=rounds),
}

# %% tags=["demo"]
figure, axes = plt.subplots(figsize=(8, 3.8), constrained_layout=True)
for (name, speed), colour in zip(curves.items(), ["#94a3b8", "#db2777", "#7c3aed"], strict=True):
    axes.loglog(sizes, speed, "o-", color=colour, label=name)
for (name, speed), colour in zip(one.items(), ["#94a3b8", "#db2777"], strict=True):
    axes.axhline(speed, color=colour, linestyle="--", label=name)
axes.set_xticks(sizes, sizes)
axes.minorticks_off()
axes.set_title("One call of the network serves them all")
axes.set(xlabel="environments", ylabel="environment steps a second")
axes.legend(frameon=False, bbox_to_anchor=(1, 1));

# %% [markdown]
r"""
Compare lines of one colour.
Without a network (grey) `SyncVectorEnv` hardly ever beats the dashed single environment.
With one (pink) it wins with a few environments already, because the network's time is shared.
And arrays (violet) leave both behind once there are a few dozen: where somebody has written the environment for arrays, no process is as fast.
Few environments are written that way; most of the rest of this course is about those that are not.
"""

# %% [markdown]
r"""
## Lockstep waits for the slowest

Real simulators are not only slow, they are slow in different ways from step to step.
`AsyncVectorEnv` works in **lockstep**: no environment makes its next step before all have made this one.
Of four environments the slowest decides, at every step.

An actor of chapter 3 can do better.
It owns an environment and plays a **fragment** of many steps before it reports.
Somebody is still the slowest of the four, but now only once in a fragment, and over many steps luck evens out.

![In lockstep four environments wait for each other after every step; as actors each plays a fragment of steps without waiting](../img/ch07_lockstep.svg)

**Predict:** naps of 5 ms *on average*, some short, some long.
How many times as long does the lockstep take for the same number of steps?
"""

# %% tags=["demo"]
def jittery():
    """Return a CartPole whose steps take 5 ms on average, now less and now more."""
    return SlowSimulator(cart(), seconds=0.005, spread=1.0)


class Player:
    """Owns an environment and plays on its own."""

    def __init__(self, seed):
        self.env = jittery()
        self.env.reset(seed=seed)

    def play(self, steps):
        """Play a fragment, and report how many steps it had."""
        for _ in range(steps):
            _, _, terminated, truncated, _ = self.env.step(self.env.action_space.sample())
            if terminated or truncated:
                self.env.reset()
        return steps

# %% tags=["demo"]
fragment, four = budget(150, 40), range(4)
with contextlib.closing(AsyncVectorEnv([jittery] * 4)) as envs, ray.init(num_cpus=4, include_dashboard=False):
    envs.reset(seed=0)
    players = [ray.remote(Player).remote(seed) for seed in four]
    ray.get([player.play.remote(1) for player in players])
    ways = {
        "four actors": lambda: ray.get([player.play.remote(fragment) for player in players]),
        "lockstep": lambda: [envs.step(envs.action_space.sample()) for _ in range(fragment)],
    }
    comparison = compare_times(ways, repeats=5)
comparison.plot()
comparison

# %% [markdown]
r"""
As many naps of the same kind, and nearly twice the time: the longest of four such naps is on average about twice as long as one of them.
The actors wait for each other only at the end of a fragment.

That is the bridge to distributed reinforcement learning.
Players become actors, experience flows in fragments, and new questions come up.
How do the players get the newest policy?
What does a fragment cost on its way?
And what if one player is always the slowest?
[Chapter 8](ch08_rollouts.ipynb) builds it.
"""

# %% [markdown] tags=["notes"]
r"""
The last plot is worth five minutes: draw four bars of different lengths on the board and ask who waits for whom.
If time is short, skip the section on the network, not this one.
"""

# %% [markdown]
r"""
## What you can do now

- You play any environment with one loop, and know why an episode ended.
- You can write an environment that other people's programs accept.
- You compute returns, and know what belongs behind a truncated end.
- You collect from many environments and leave out the frames in which one was reset.
- You can predict from the length of a step whether processes, arrays or a plain loop will be fastest, and measure it.

## Traps

- **`while not terminated`** never ends where an episode is only truncated.
- **A seed in every `reset`** plays the same episode again and again.
  Seed once.
- **Treating `truncated` as `terminated`** tells the agent that a good state is worth nothing.
- **Frames of a reset** in a vector environment are no experience.
  Know the mode: `envs.metadata["autoreset_mode"]`.
- **`AsyncVectorEnv` around a fast environment** is slower than a loop.
  Measure before you add processes.

## Read on

- [Chapter 8](ch08_rollouts.ipynb): players as actors, a learner in the middle.
- Gymnasium's documentation: [create an environment](https://gymnasium.farama.org/introduction/create_custom_env/), [vector environments](https://gymnasium.farama.org/api/vector/), and [autoreset modes](https://farama.org/Vector-Autoreset-Mode).
- Sutton and Barto, [*Reinforcement Learning: An Introduction*](http://incompleteideas.net/book/the-book-2nd.html), 2018, chapter 3: episodes, returns, discounting.
- Pardo et al., [*Time Limits in Reinforcement Learning*](https://arxiv.org/abs/1712.00378), 2018: why an end by the clock is not an end.
"""
