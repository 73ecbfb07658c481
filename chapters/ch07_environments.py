# %% [markdown] you_learn_to="write environments, collect episodes, measure steps a second"
r"""
# Chapter 7 · Environments

Experience comes from environments, one step at a time.

*About 100 minutes · builds on [Chapter 1](ch01_tasks.ipynb) and [Chapter 3](ch03_actors.ipynb)*

**What you will be able to do**

- play episodes in any Gymnasium environment, and compute their returns;
- write an environment of your own that passes Gymnasium's `check_env`;
- collect from many environments at once without mistaking a reset for experience;
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

from coursekit import SlowSimulator, begin, budget, check, compare_times, hint, passed, progress, quiz, solution
from coursekit.given.ch07_environments import frames_shown, play_one, steps_a_second
from coursekit import Drawn, film, strip

begin("ch07_environments")

# %% [markdown] tags=["notes"]
r"""
The run sheet plans a hundred minutes, with `cartpole_policy` and `vector_rollout` as homework.
Ray appears only in the last section, so no one has to wait for it to start.
Say where you are: part A taught how to run things side by side; from here on, players run.
"""

# %% [markdown]
r"""
## Five values come back from every step

In **reinforcement learning** an agent learns from what happens to it.
It sees an **observation**, chooses an **action**, and gets a number for it, the **reward**.
The rule it chooses by is its **policy**; everything outside the agent is the **environment**.
Games, robots and power plants all fit behind two methods, which [Gymnasium](https://gymnasium.farama.org) named:

![The policy sends an action to the environment; step sends back observation, reward, terminated, truncated and info; reset starts an episode and sends observation and info](../img/ch07_loop.svg)

`reset` begins an **episode** and `step` continues it until one of two flags is set:

- `terminated`: the game itself is over.
  The agent has arrived, fallen or won.
- `truncated`: we stopped watching, most often because the episode reached its limit of steps.
  The game could have continued.

The fifth value, `info`, is a dict for people and tools, not for the policy.
Older programs use Gym, Gymnasium's predecessor, whose `step` returned four values with a single flag `done`: [Old names](../docs/old_names.md).

FrozenLake is a 4 by 4 grid of ice with four holes; the goal is at the bottom right.
The observation is the number of the square.
The ice is slippery: one step in three goes where the agent wants; the others slide to one side or the other.
Here is an episode with random actions.
"""

# %% tags=["demo"]
lake = Drawn(gymnasium.make("FrozenLake-v1"))  # Drawn adds pictures: render() returns one
lake.action_space.seed(8)
obs, info = lake.reset(seed=8)
frames, titles = [lake.render()], [f"reset: square {obs}"]
terminated = truncated = False
while not (terminated or truncated):
    action = lake.action_space.sample()
    obs, reward, terminated, truncated, info = lake.step(action)
    frames.append(lake.render())
    titles.append(f"{['left', 'down', 'right', 'up'][action]}: square {obs}")
print(f"{obs=} {reward=} {terminated=} {truncated=} {info=}")
strip(frames, titles, columns=5);

# %% [markdown]
r"""
Nearly every random walk ends in a hole, without a reward, after about eight steps on average.
Compare the titles with the pictures: where did the agent slip?

Gymnasium draws such pictures itself when you pass `render_mode="rgb_array"` and have `pygame` installed; this course draws its three environments with `Drawn`.

Why two flags for one end?
They say different things about the future, as you will soon see.
"""

# %% [markdown]
r"""
## Spaces say what goes in and what comes out

A **space** is a set of values: `action_space` holds the actions an environment takes, `observation_space` what it may show.
They tell a learning program how many inputs and outputs its network needs.
You will need two kinds, both from `gymnasium.spaces`: `Discrete(n)` holds the integers from 0 to n − 1, and `Box(low, high, shape, dtype)` the arrays of numbers between two limits, such as `Box(-1, 1, (3,), np.float32)`.
"""

# %% tags=["demo"]
names = ["coursekit.given.environments:SimpleCorridor-v0", "FrozenLake-v1", "CartPole-v1"]
for name in names:
    env = gymnasium.make(name)
    print(name, f"  observations: {env.observation_space}", f"  actions: {env.action_space}", "", sep="\n")

# %% [markdown]
r"""
CartPole is a pole on a cart that you push left or right.
Its four numbers are the cart's position and velocity and the pole's angle and angular velocity; the velocities have no limit, so `Box` says `inf`.
The name before the colon is a module: Gymnasium imports it and finds `SimpleCorridor` there.
That works in every process, which will matter when other processes play for you.
"""

# %% [markdown]
r"""
## An environment of your own is a class with two methods

The corridor is RLlib's "hello, world".
Yours has a few more rules than the one coursekit ships for later chapters:

- There are `length` squares, numbered from 0; the last is the exit.
- `reset` puts the agent on a random square of the left half, 0 to `length // 2 - 1`.
- Action 0 moves one square to the left, action 1 one square to the right.
  Square 0 has a wall: moving left there changes nothing.
- Every step earns −0.1, except the one that reaches the exit: it earns 1 and terminates the episode.
- After `max_steps` steps the episode is truncated.
  If that very step reaches the exit, `truncated` may be either.
- The observation is the number of the square, as an array of shape [1] and type `float32`, because networks want that.
  Its space is a `Box` from the first square to the last.

Begin `reset` with `super().reset(seed=seed)`: it gives the environment a NumPy random generator of its own, `self.np_random`.
Draw only from that: then a seed makes an episode repeatable in any process.

The last method is given and expects the number of the square in `self.position`; the rest is yours.
The check looks at the spaces, runs Gymnasium's `check_env`, resets a few times, and then takes some walks.
"""


# %%
class SimpleCorridor(gymnasium.Env):
    """A corridor whose last square is the exit."""

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
        """Return the number of the square, as `observation_space` has it."""
        return np.array([self.position], np.float32)


# %%
check("SimpleCorridor", SimpleCorridor)

# %% [markdown] tags=["solution"]
r"""
An episode may be terminated and truncated at once, when the last allowed step reaches the exit.
Then `terminated` wins: there is no future to estimate.
Many programs leave the limit to a wrapper, `TimeLimit`; you will meet it below.
"""

# %% tags=["demo"]
if passed("SimpleCorridor"):
    corridor = Drawn(SimpleCorridor(length=6))
    obs, _ = corridor.reset(seed=1)
    frames, titles = [corridor.render()], [f"reset: square {obs[0]:g}"]
    for action in [1, 0, 0, 1, 1, 1, 1, 1]:
        obs, reward, terminated, truncated, _ = corridor.step(action)
        frames.append(corridor.render())
        titles.append(f"{['left', 'right'][action]}: reward {reward:g}")
        if terminated or truncated:
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
## Record an episode once, use it many times

The loop around `step` is the same for every environment and every policy, so write it once.
`policy` is any function from an observation to an action.
`obs` has one more entry than `actions`: it begins with `reset`'s observation and ends with the last step's.
The check also counts your calls.
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
Keeping `terminated` is enough: an episode that ended without it was truncated.
The costliest slip is `while not terminated`: on an environment that only truncates, it never ends, and nothing complains.
"""

# %% [markdown]
r"""
The sum of an episode's rewards is its **return**.
CartPole pays 1 for every step, so there it is the number of steps.
How long does the pole stand when the pushes are drawn at random?
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
More than its own reward: a good push pays off later.
And nothing before it counts.
The **discounted return** of step $t$ adds up what comes from then on, and counts a reward less the further away it is:

$$G_t = r_t + \gamma\, r_{t+1} + \gamma^2 r_{t+2} + \dots = r_t + \gamma\, G_{t+1}, \qquad 0 \le \gamma \le 1.$$

And after the last step?
After `terminated` there is nothing, so $G_T = 0$.
After `truncated` there is a future we did not see.
If you have an estimate of its worth, put it in place of $G_T$: that is the **bootstrap**.
In chapters 8 to 10 a network makes the estimate; here it is an argument.

**Predict**, on paper: the returns for the rewards 1, 2, 3 with $\gamma = 0.5$, once without a bootstrap and once with one of 8.
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
A forward sum for each step is also right, but takes about $T^2/2$ multiplications where $T$ are enough.
"""

# %%
### BEGIN SOLUTION
time_is_up = "b"
### END SOLUTION

# %%
quiz("time_is_up", time_is_up)

# %% [markdown]
r"""
On paper it was 2.75, 3.5, 3 without the bootstrap, and 3.75, 5.5, 7 with it: half of the 8 counts on the last step, a quarter on the one before.

How far ahead does a step look?
Take a walk of 40 steps that pays 1 at its end and nothing before, and look at it with three values of $\gamma$.
"""

# %% tags=["demo"]
if passed("discounted_returns"):
    figure, axes = plt.subplots(figsize=(7, 2.8), constrained_layout=True)
    for gamma, colour in [(0.99, "#db2777"), (0.9, "#7c3aed"), (0.5, "#2563eb")]:
        returns = discounted_returns([0] * 39 + [1], gamma)
        axes.plot(returns, color=colour, label=f"γ = {gamma}: {returns[0]:.2g} at the start")
    axes.set(xlabel="step", ylabel="return", title="A reward reaches back about 1 / (1 − γ) steps")
    axes.legend();

# %% [markdown]
r"""
With 0.5 the first thirty steps do not notice that there is an exit.
With 0.99 all of them do.
Most of this course uses 0.99.
"""

# %% [markdown]
r"""
## A rule of one line beats chance

Before you let anything learn, find out how far a simple rule gets.
It gives you a baseline, and it tests your environment.

CartPole's episode ends when the pole leans by more than 12°, or the cart is more than 2.4 from the middle, or after 500 steps.
Write a policy that keeps it going for **200 steps** from every start that `reset` draws.
The environment itself stops at 500.
Right is positive, and angles are in radians.

**Predict:** is it enough to push to the side the pole leans to?
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
`angle + 0.5 * angular_velocity` is where the pole would be in half a second if it kept swinging at this speed.
The angle alone holds it for some 40 steps: the cart pushes until the pole swings through the middle, and by then it swings too fast.
The angular velocity alone keeps the pole up, but about half the episodes run off the track before step 200.
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
    axes.set(xlabel="step", ylabel="angle (degrees)", title="Looking ahead keeps the pole calm")
    axes.legend(loc="lower right");

# %% [markdown] tags=["notes"]
r"""
Half-time.
Ask for the shortest rule in the room, and for one that reaches 500.
If somebody asks why we learn at all when one line will do: no one can write that line for a robot with thirty joints.
"""

# %% [markdown]
r"""
## A wrapper changes an environment without touching it

A **wrapper** is an environment around an environment.
Print what `make` gave you, and you see several, each of which does one thing:

- `TimeLimit` sets `truncated` after a given number of steps;
- `OrderEnforcing` raises when `step` comes before `reset`;
- `PassiveEnvChecker` compares what the first calls of `reset` and `step` return with the spaces, and warns if they differ.

`env.unwrapped` is the environment inside all of them.
What do three wrappers cost?
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
A wrapper is one more Python call: three make such a short step some ten per cent longer, and in a step of a millisecond you would not notice them.
If the interval includes 1, your machine was busy: compare the column `fastest`, or run the cell again.
Remember the microseconds of a step: they decide what comes next.

Your own wrapper overrides the method it changes and inherits the rest.
This one makes every step take longer:

```python
class Napping(gymnasium.Wrapper):
    def step(self, action):
        time.sleep(0.005)
        return self.env.step(action)
```

`SlowSimulator` from `coursekit.given.environments` does the same, with a choice: it naps, as if another machine did the work, or with `busy=True` it keeps one of your cores busy, like a simulator that runs here.
In this course it stands in for physics engines, games and web shops, which take milliseconds a step.
"""

# %% [markdown]
r"""
## Many environments step together, and reset themselves

A **vector environment** holds $N$ environments and steps them all: $N$ actions go in, arrays with $N$ rows come out.
`SyncVectorEnv` steps them in turn in your process; `AsyncVectorEnv` starts a process for each.

Their episodes end at different times, and stopping the others each time would be a waste, so by default a vector environment resets by itself.
Below are two environments that observe the numbers of the episode and the step, and earn the number of the step.
Episodes have two steps in A and three in B; the action is always 0.

**Predict** the row after the end of A's first episode: what is A's observation, and what is its reward?
"""

# %% tags=["demo"]
frames_shown(AutoresetMode.NEXT_STEP, lengths=[2, 3], steps=7)

# %% [markdown]
r"""
Each row of the table is a **frame**, one call of `envs.step`.
After each `END` comes a frame with step 0 and reward 0.
In that frame the environment was reset, *your action was ignored*, and no time passed in its episode.
It is a **frame, but not experience**: no action led from the observation before it to the one it shows.

There are three modes, and every program that learns from a vector environment must know which it uses:

![With next step, the default, a frame of its own shows the reset; with same step, the last observation is replaced by the first of the next episode and kept in the infos; disabled leaves the reset to you](../img/ch07_autoreset.svg)

In the mode disabled, you reset the environments that have ended: `envs.reset(options={"reset_mask": terminated | truncated})`.

Here are the same seven steps in the mode same step, Gymnasium's only one before version 1.0.
"""

# %% tags=["demo"]
frames_shown(AutoresetMode.SAME_STEP, lengths=[2, 3], steps=7)

# %% [markdown]
r"""
The last observation of every episode is missing: beside `END` stands the beginning of the next one.
You find it in `infos["final_obs"]`; a program that does not fetch it believes that one episode ends where the next starts.
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
A **transition** is what happened to one environment in one step: `obs`, the action chosen for it, the reward, the next observation, and whether the episode terminated there.
Return the transitions that really happened.
`policy` takes the observations of all environments and returns an array of actions.
"""


# %%
def vector_rollout(envs, policy, steps, seed):
    """Return the transitions of `steps` calls of `envs.step`, in any order, as a dict of arrays with a row for each.

    The keys are "obs", "actions", "rewards", "next_obs", "terminated". Frames that are only a reset are left out.
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
`obs[real]` copies the rows in which `real` is true.
Nothing marks a reset frame: its reward of 0 and its flags occur in ordinary steps as well, so you must remember which episodes ended one frame earlier.
After a truncated end `terminated` stays False, so a learner will bootstrap from `next_obs`, which here is the true last observation.
"""

# %% [markdown]
r"""
What share of the frames are resets?
For sixteen CartPoles with a random policy, whose episodes last some 22 steps, about one in 23.
"""

# %% tags=["demo"]
if passed("vector_rollout"):
    steps, envs = budget(2000, 300), gymnasium.make_vec("CartPole-v1", num_envs=16, vectorization_mode="sync")
    dice = np.random.default_rng(0)
    found = vector_rollout(envs, lambda obs: dice.integers(2, size=16), steps, seed=0)
    real, frames = len(found["rewards"]), 16 * steps
    print(f"{frames} frames, {real} transitions: {1 - real / frames:.1%} are resets")

# %% [markdown]
r"""
A program that counts these frames as experience learns from transitions that never happened, most of all at the beginning, while episodes are short.
"""

# %% [markdown]
r"""
## More environments at once are often slower

"Vectorised" sounds like "fast".
Measure it: eight environments stepped in turn, eight stepped in eight processes, and a single one in a plain loop.
The numbers are steps a second, of all environments together.
There are three kinds: CartPole, CartPole that naps for 5 ms in each step, and CartPole that keeps a core busy for 5 ms.

**Predict** the order of the three bars for each kind.
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
axes.set(ylabel="environment steps a second", title="Waits overlap; computing needs cores")
axes.legend(frameon=False);

# %% [markdown]
r"""
The scale is logarithmic: each line is ten times the one below it.

- **CartPole**: the plain loop wins.
  A step takes a few microseconds; `SyncVectorEnv` adds the handling of arrays, and `AsyncVectorEnv` a message to a process and back, which costs many times the step itself.
- **Naps**: eight naps at once take little longer than one, so eight processes are about six to eight times as fast.
  `SyncVectorEnv` naps eight times in a row and gains nothing.
- **Busy**: eight processes are at most as many times as fast as you have cores.
  On two cores the ratio stays at about two, however many processes you start.

Another program that needs the cores can turn a bar around: run it twice.
On a Mac each process starts a new Python, so opening an `AsyncVectorEnv` takes seconds there; the steps take no longer.
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

`SyncVectorEnv` is for the policy: a small network takes nearly as long for one observation as for sixteen, and with $N$ environments one call serves $N$ steps.

There is a third way, with no environments inside: Gymnasium ships a CartPole written for arrays, in which each line of NumPy moves all the carts.
If an environment has such a version, `gymnasium.make_vec` takes it unless you ask for another.
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


crews, steps, speeds = {"one": cart(), "SyncVectorEnv of 16": SyncVectorEnv([cart] * 16)}, budget(15_000, 2000), {}
for count in (16, 256):
    arrays = gymnasium.make_vec("CartPole-v1", num_envs=count)
    crews[f"{type(arrays).__name__} of {count}"] = arrays
for name, envs in crews.items():
    for column, policy in {"without a network": None, "with a network": choose}.items():
        speeds[column, name] = steps_a_second(envs, steps, policy, rounds=rounds)
pandas.Series(speeds).unstack(0, sort=False).round(-2).astype(int)

# %% [markdown]
r"""
Without a network, `SyncVectorEnv` is no faster than the single environment.
With one it wins clearly, because sixteen steps share one call of the network.
The arrays win by far once they hold many carts, which share the price of a line of Python.
Few environments are written this way; most of this course is about the others.
"""

# %% [markdown]
r"""
## Lockstep waits for the slowest

Real simulators are not only slow: some steps are slower than others.
`AsyncVectorEnv` works in **lockstep**: no environment makes its next step before all have made this one, so the slowest decides at every step.

An actor, as in chapter 3, can do better.
It owns an environment and plays a **fragment** of many steps before it reports.
One of four is still the slowest, but the others wait for it only once a fragment, and over many steps luck evens out.

![In lockstep four environments wait for each other after every step; as actors each plays a fragment of steps without waiting](../img/ch07_lockstep.svg)

**Predict:** the naps take 5 ms *on average*, some short, some long.
How many times as long does lockstep take for the same number of steps?
"""

# %% tags=["demo"]
def jittery():
    """Return a CartPole whose steps take 5 ms on average, now less and now more."""
    return SlowSimulator(cart(), seconds=0.005, spread=1.0)


@ray.remote
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
ray.shutdown()  # ends a Ray that already runs here: its references and actors are gone
with contextlib.closing(AsyncVectorEnv([jittery] * 4)) as envs, ray.init(num_cpus=4, include_dashboard=False):
    envs.reset(seed=0)
    players = [Player.remote(seed) for seed in four]
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
The naps are the same in number and kind, yet lockstep takes nearly twice as long: the longest of four such naps is on average about twice as long as one.

That is the bridge to distributed reinforcement learning.
Players become actors, experience flows in fragments, and [chapter 8](ch08_rollouts.ipynb) answers new questions.
How do the players get the newest policy?
What does it cost to send a fragment?
And what if one player is always the slowest?
"""

# %% [markdown] tags=["notes"]
r"""
The last plot is worth five minutes: draw four bars of different lengths on the board and ask which wait.
If time is short, skip the section on the network, not this one.
"""

# %% [markdown]
r"""
## What you can do now

- You play any environment with one loop, and know why an episode ended.
- You write environments that other people's programs accept.
- You compute returns, and know what to put after a truncated end.
- You collect from many environments and leave out the frames in which one was reset.
- You predict from a step's length whether processes, arrays or a plain loop will be fastest, and measure it.

## Traps

- **`while not terminated`** never ends if an episode is only truncated.
- **The same seed in every `reset`** starts the same episode over and over.
  Seed once.
- **Treating `truncated` as `terminated`** tells the agent that a good state is worth nothing.
- **Reset frames** in a vector environment are not experience.
  Know the mode: `envs.metadata["autoreset_mode"]`.
- **`AsyncVectorEnv` around a fast environment** is slower than a loop.
  Measure before you add processes.

## Read on

- [Chapter 8](ch08_rollouts.ipynb): players as actors, a learner in the middle.
- Gymnasium's documentation: [create an environment](https://gymnasium.farama.org/introduction/create_custom_env/), [vector environments](https://gymnasium.farama.org/api/vector/), and [autoreset modes](https://farama.org/Vector-Autoreset-Mode).
- Sutton and Barto, [*Reinforcement Learning: An Introduction*](http://incompleteideas.net/book/the-book-2nd.html), 2018, chapter 3: episodes, returns, discounting.
- Pardo et al., [*Time Limits in Reinforcement Learning*](https://arxiv.org/abs/1712.00378), 2018: why running out of time is not an end.
"""
