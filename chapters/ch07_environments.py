# %% [markdown] you_learn_to="write environments, collect episodes, and measure steps per second"
r"""
# Chapter 7 · Environments

Experience comes from environments, one step at a time.

*About 100 minutes · builds on [Chapter 1](ch01_tasks.ipynb) and [Chapter 3](ch03_actors.ipynb)*

**What you will be able to do**

- run episodes in any Gymnasium environment, and compute their returns;
- write an environment that passes Gymnasium's `check_env`;
- collect experience from many environments, without mistaking a reset for a step;
- measure environment steps per second, and predict when more environments are faster and when they're slower.
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

from coursekit import Drawn, SlowSimulator, begin, budget, check, compare_times, explain, film, hint, measured, passed
from coursekit import predict, puzzle, review
from coursekit import progress, quiz, solution, strip
from coursekit.given.ch07_environments import autoreset_table, run_one, steps_per_second

begin("ch07_environments")

# %% [markdown] tags=["notes"]
r"""
The run sheet allots a hundred minutes, with `cartpole_policy` and `vector_rollout` as homework.
Ray appears only in the last section, so nobody has to wait for it to start.
"""

# %% [markdown]
r"""
## Each call to `step` returns five values

In **reinforcement learning**, an *agent* learns from what happens to it.
It receives an [observation](../docs/glossary.md#observation), chooses an *action*, and gets a number in return, the [reward](../docs/glossary.md#reward).
The rule by which it chooses is its [policy](../docs/glossary.md#policy), and everything outside the agent is the [environment](../docs/glossary.md#environment).
Games, robots, and power plants all fit behind two methods, which [Gymnasium](https://gymnasium.farama.org) defines:

![The policy sends an action to the environment; step returns an observation, a reward, terminated, truncated, and info; reset starts an episode and returns an observation and info](../img/ch07_loop.svg)

`reset` starts an [episode](../docs/glossary.md#episode), and `step` continues it until one of two flags is set:

- `terminated`: the task itself is over; the agent has arrived, fallen, or won.
- `truncated`: something outside the task has cut the episode off ([truncation](../docs/glossary.md#truncation)), usually a limit on the number of steps.

The fifth value, `info`, is a dict, usually for people and tools rather than for the policy.
In Gym, Gymnasium's predecessor, `step` returned four values until version 0.26, with a single `done` flag ([Old names](../docs/old_names.md)).

FrozenLake is a 4 × 4 grid of ice with four holes, and the goal is at the bottom right.
The observation is the number of the agent's square.
The ice is slippery: one time in three, the agent goes where it wants to, and otherwise it slides to one side or the other.
Here's an episode with random actions:
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
Almost every random episode ends in a hole, without a reward, after about eight steps on average.
Compare the titles with the pictures: where did the agent slip?
(With `pygame` installed, Gymnasium can draw its environments itself: pass `render_mode="rgb_array"` to `make`.)

Why does the end of an episode need two flags?
"""

# %% [markdown]
r"""
## Spaces describe observations and actions

A [space](../docs/glossary.md#space) is a set of values.
`action_space` contains the actions that an environment accepts, and `observation_space` the observations that it can return.
From these two, a learning program can tell how many inputs and outputs its network needs.
You'll use two kinds, both from `gymnasium.spaces`:

- `Discrete(n)` contains the integers from 0 to n − 1.
- `Box(low, high, shape, dtype)` contains the arrays of this shape and type whose numbers lie between two limits; an example is `Box(-1, 1, (3,), np.float32)`.
"""

# %% tags=["demo"]
names = ["coursekit.given.environments:SimpleCorridor-v0", "FrozenLake-v1", "CartPole-v1"]
for name in names:
    env = gymnasium.make(name)
    print(name, f"  observations: {env.observation_space}", f"  actions: {env.action_space}", "", sep="\n")

# %% [markdown]
r"""
In CartPole, you balance a pole on a cart by pushing the cart to the left or to the right.
The observation contains the position and velocity of the cart, and the angle and angular velocity of the pole.
The velocities have no limit, so `Box` shows `inf`.

In the first name, the part before the colon is a module, which registers `SimpleCorridor-v0` when Gymnasium imports it.
So the name also works in other processes.
"""

# %% [markdown]
r"""
## Your own environment is a class with two methods

Now write a corridor with an exit at its end:

- The corridor has `length` squares, numbered from 0, and the last one is the exit.
- `reset` puts the agent on a random square of the left half, from 0 to `length // 2 - 1`.
- Action 0 moves the agent one square to the left, and action 1 moves it one square to the right.
  Square 0 has a wall, so moving left from there changes nothing.
- Every step earns −0.1, except the one that reaches the exit, which earns 1 and terminates the episode.
- The episode is truncated after `max_steps` steps.
  If the last of these steps reaches the exit, `terminated` must be true, and `truncated` may be true or false.
- The observation is the number of the agent's square, as an array of shape [1] and type `float32`, PyTorch's default.
  Its space is a `Box` of that type, from the first square to the last.

Start `reset` with `super().reset(seed=seed)`: if there's a seed, it seeds `self.np_random`, the environment's NumPy random generator.
Draw random numbers only from this generator, so that a seed reproduces an episode in any process.

Leave the `observation` method as it is.
It reads the agent's square from `self.position`, and so does `Drawn`.
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
        """Return the first observation and a dict, which may be empty."""
        ### BEGIN SOLUTION
        super().reset(seed=seed)
        self.position = int(self.np_random.integers(self.length // 2))
        self.steps = 0
        return self.observation(), {}
        ### END SOLUTION

    def step(self, action):
        """Return the observation, the reward, terminated, truncated, and a dict, which may be empty."""
        ### BEGIN SOLUTION
        move = 1 if action == 1 else -1
        self.position = min(max(self.position + move, 0), self.length - 1)
        self.steps += 1
        terminated = self.position == self.length - 1
        truncated = self.steps >= self.max_steps
        return self.observation(), 1.0 if terminated else -0.1, terminated, truncated, {}
        ### END SOLUTION

    def observation(self):
        """Return the number of the agent's square, as an array that fits `observation_space`."""
        return np.array([self.position], np.float32)


# %%
check("SimpleCorridor", SimpleCorridor)

# %% [markdown] tags=["solution"]
r"""
If the last allowed step reaches the exit, only `terminated` matters, because there's no future left to estimate.
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

# %% [markdown]
r"""
RLlib's example of a custom environment is a corridor with other rules.
"""

# %%
### BEGIN SOLUTION
seed_every_episode = "b"
### END SOLUTION

# %%
quiz("seed_every_episode", seed_every_episode)

# %% [markdown]
r"""
## One loop records an episode of any environment

Write `rollout`, which runs one episode and returns it as a dict: `obs`, `actions`, and `rewards` are lists, and `terminated` is the flag of the last step.
`policy` is any function that takes an observation and returns an action.

There's one more observation than there are actions: the first one comes from `reset`, and the last one from the last step.
The check also records your calls, and expects one `reset`, with the seed, and then the steps.
"""


# %%
def rollout(env, policy, seed):
    """Return one episode of T steps as a dict.

    "obs" is a list of T + 1 observations, "actions" and "rewards" are lists of T, and "terminated" is the flag of the last step.
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
The `terminated` flag is enough: if an episode ended without it, it was truncated.
"""

# %% [markdown]
r"""
The sum of an episode's rewards is its [return](../docs/glossary.md#return).
CartPole gives a reward of 1 for every step, so its return is the number of steps.
How long does the pole stay up with random actions?
"""

# %% tags=["demo"]
cartpole = gymnasium.make("CartPole-v1")
if passed("rollout"):
    rng = np.random.default_rng(0)
    episodes = [rollout(cartpole, lambda obs: rng.integers(2), seed) for seed in range(200)]
    random_returns = [sum(episode["rewards"]) for episode in episodes]
    figure, axes = plt.subplots(figsize=(7, 2.8), constrained_layout=True)
    axes.hist(random_returns, bins=range(8, int(max(random_returns)) + 3, 2), color="#db2777")
    axes.set_title(f"200 random episodes of CartPole: {np.mean(random_returns):.0f} steps on average")
    axes.set(xlabel="return", ylabel="episodes");

# %% [markdown]
r"""
## The discounted return looks ahead from a step

How much was a single step worth?
It can be worth more than its own reward, because a good push pays off later.
The [discounted return](../docs/glossary.md#discounted-return) of step $t$ adds up the rewards from that step on, and gives a reward less weight the further away it is:

$$G_t = r_t + \gamma\, r_{t+1} + \gamma^2 r_{t+2} + \dots = r_t + \gamma\, G_{t+1}, \qquad 0 \le \gamma \le 1.$$

What comes after the last step?
If the episode was terminated, nothing does, so $G_T = 0$.
If it was truncated, there's a future that you haven't seen, and you can put an estimate of its return in place of $G_T$.
This is called [bootstrapping](../docs/glossary.md#bootstrap).
In Chapters 8 to 10, a network makes the estimate.

**Predict:** an episode is truncated after the rewards 1, 2, and 3, and you estimate that what follows is worth 8.
What is the discounted return of the first step, with $\gamma = 0.5$?
"""

# %% tags=["demo"]
predict("first_return", ...)  # the return of the first step

# %% [markdown]
r"""
Write `discounted_returns`, which returns the discounted return of every step.
`bootstrap` is $G_T$, the estimate of what follows the last step.
"""


# %%
def discounted_returns(rewards, gamma, bootstrap=0.0):
    """Return [G_0, …, G_{T-1}] for the T rewards of an episode; `bootstrap` is G_T, the estimate of what follows."""
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
A forward sum for each step is right, too, but takes about $T^2/2$ multiplications instead of $T$.
"""

# %%
### BEGIN SOLUTION
time_is_up = "b"
### END SOLUTION

# %%
quiz("time_is_up", time_is_up)

# %% tags=["demo"]
weights = 0.5 ** np.arange(4)
print(f"{weights = }")
measured("first_return", weights @ [1, 2, 3, 8])

# %% [markdown]
r"""
The return is 3.75: the three discounted rewards add up to 2.75, and an eighth of the estimate is added, as if it were a fourth reward.

How far ahead does a step look?
The next cell plots the returns of an episode of 40 steps whose only reward is a 1 at the end.
"""

# %% tags=["demo"]
if passed("discounted_returns"):
    figure, axes = plt.subplots(figsize=(7, 2.8), constrained_layout=True)
    for gamma, color in [(0.99, "#db2777"), (0.9, "#7c3aed"), (0.5, "#2563eb")]:
        returns = discounted_returns([0] * 39 + [1], gamma)
        axes.plot(returns, color=color, label=f"γ = {gamma}: {returns[0]:.2g} at the first step")
    axes.set(xlabel="step", ylabel="discounted return", title="A reward reaches back about 1 / (1 − γ) steps")
    axes.legend(loc=(0.02, 0.25));

# %% [markdown]
r"""
With 0.5, the reward is worth almost nothing in the first thirty steps.
With 0.99, which most of this course uses, it counts even in the first one.
"""

# %% [markdown]
r"""
## A one-line policy beats a random one

Before you train an agent, find out how far a simple rule gets.
You'll have a baseline, and you'll have tested your environment.

A CartPole episode terminates when the pole leans by more than 12° or when the cart is more than 2.4 units from the middle, and it's truncated after 500 steps.
The obvious rule looks at the angle alone and pushes toward the side to which the pole leans.

**Predict:** a random policy lasts about 22 steps.
How many steps does this rule last?
"""

# %% tags=["demo"]
predict("angle_alone", ...)  # steps

# %% tags=["demo"]
obs, _ = cartpole.reset(seed=0)
steps, terminated, truncated = 0, False, False
while not (terminated or truncated):
    obs, _, terminated, truncated, _ = cartpole.step(int(obs[2] > 0))  # obs[2] is the angle
    steps += 1
measured("angle_alone", steps)

# %% [markdown]
r"""
The rule lasts for about 40 steps.
It pushes until the pole has swung through the middle, and by then, the pole is too fast to be stopped on the other side.

Write `cartpole_policy`, which keeps an episode going for **200 steps** from every start that `reset` draws.
Right is positive, and angles are in radians.
"""


# %%
def cartpole_policy(obs):
    """Return 0 (push left) or 1 (push right); `obs` is position, velocity, angle, and angular velocity."""
    ### BEGIN SOLUTION
    position, velocity, angle, angular_velocity = obs
    return int(angle + 0.5 * angular_velocity > 0)
    ### END SOLUTION


# %%
check("cartpole_policy", cartpole_policy)

# %% [markdown] tags=["solution"]
r"""
`angle + 0.5 * angular_velocity` is the angle that the pole would have in half a second if it kept swinging at this speed.
The angular velocity alone also keeps the pole up, but in about half of the episodes, the cart leaves the track before step 200.
"""

# %% tags=["demo"]
if passed("cartpole_policy") and passed("rollout"):
    camera = gymnasium.wrappers.RenderCollection(Drawn(cartpole))  # keeps a picture of each step
    rollout(camera, cartpole_policy, seed=0)
    display(film(camera.render()[:200:2]))

# %% tags=["demo"]
if passed("cartpole_policy") and passed("rollout"):
    figure, axes = plt.subplots(figsize=(7, 2.8), constrained_layout=True)
    policies = {"angle alone": lambda obs: int(obs[2] > 0), "your policy": cartpole_policy}
    for (name, policy), color in zip(policies.items(), ["#64748b", "#db2777"], strict=True):
        angles = np.degrees([obs[2] for obs in rollout(cartpole, policy, seed=0)["obs"]])
        axes.plot(angles, color=color, label=f"{name}: {len(angles) - 1} steps")
    axes.set(xlabel="step", ylabel="angle (degrees)", title="Looking ahead keeps the pole upright")
    axes.legend(loc="lower right");

# %% [markdown] tags=["notes"]
r"""
This is halfway through the chapter.
Ask for the shortest rule in the room, and for one that reaches 500 steps.
If somebody asks why we train agents at all when one line is enough: nobody can write that line for a robot with thirty joints.
"""

# %% [markdown]
r"""
## A wrapper changes an environment without touching its code

A [wrapper](../docs/glossary.md#wrapper) is an environment around another environment.
`make` returned three of them around CartPole, and each does one thing:

- `TimeLimit` sets `truncated` after a given number of steps.
- `OrderEnforcing` raises an error if you call `step` before `reset`.
- `PassiveEnvChecker` warns you if what the first `reset` and the first `step` return doesn't match the spaces.

`env.unwrapped` is the environment inside all of its wrappers.
How much time do the three wrappers cost?
"""

# %% tags=["demo"]
print(cartpole)
bare, actions = cartpole.unwrapped, np.random.default_rng(0).integers(2, size=300)
comparison = compare_times(
    {"bare": lambda: run_one(bare, actions), "wrapped": lambda: run_one(cartpole, actions)},
    repeats=budget(301, 101),
)
print({name: f"{1e6 * seconds / len(actions):.1f} µs per step" for name, seconds in comparison.medians.items()})
comparison

# %% [markdown]
r"""
Each wrapper adds a Python call to every step.
Three of them lengthen a step as short as CartPole's by about 5% to 10%; in a step that takes a millisecond, you wouldn't notice them.
If the interval contains 1, these rounds can't tell the two apart, so run the cell again.

To write a wrapper, override the method that you want to change.
This one makes every step take longer:

```python
class SlowStep(gymnasium.Wrapper):
    def step(self, action):
        time.sleep(0.005)
        return self.env.step(action)
```

In this course, `SlowSimulator` stands in for physics engines, games, and online stores, which take milliseconds per step.
Like `SlowStep`, it sleeps, as if another machine did the work.
With `busy=True`, it uses CPU time instead, like a simulator that runs on your machine.
"""

# %% [markdown]
r"""
## A vector environment steps many environments and resets them

A [vector environment](../docs/glossary.md#vector-environment) holds $N$ environments and steps all of them: you pass $N$ actions and get arrays with $N$ rows.
`SyncVectorEnv` steps its environments one after the other, in your process.
`AsyncVectorEnv` starts a process for each of them.

When an episode ends, the vector environment resets that environment by default, and the others continue.
This is called [autoreset](../docs/glossary.md#autoreset).

The next cell steps two environments, A and B.
Their observations are the numbers of the episode and of the step, and the reward is the number of the step.
Episodes have two steps in A and three in B.

**Predict:** A's first episode ends with step 2, and you call `step` again.
What do you get from A?
"""

# %% tags=["demo"]
predict("after_the_end", ..., ["episode 0, step 3, reward 3", "episode 1, step 0, reward 0", "episode 1, step 1, reward 1"])

# %% tags=["demo"]
table = autoreset_table(AutoresetMode.NEXT_STEP, lengths=[2, 3], steps=7)
display(table)
measured("after_the_end", table.data["A"][3])

# %% [markdown]
r"""
Row 0 shows what `reset` returned.
Below it, each cell is a [frame](../docs/glossary.md#frame): what one call to `envs.step` returned for one environment.
The frame after each `END` shows step 0 and reward 0.
In this frame, the environment was only reset, and *it ignored your action*.
So the frame **isn't experience**: no action led from the observation before it to the one that it shows.

There are three autoreset modes, and a learning program must know which one its vector environment uses:

![In next-step mode, the reset takes an extra frame; in same-step mode, it replaces the last observation; in disabled mode, you call reset yourself](../img/ch07_autoreset.svg)

In disabled mode, you reset environments yourself, and a mask selects which.
A mask that's False for all environments raises an `AssertionError`, so test the mask first:

```python
ended = terminated | truncated
if ended.any():
    obs, infos = envs.reset(options={"reset_mask": ended})
```

Here are the same seven steps in same-step mode, which was the only one before Gymnasium 1.0:
"""

# %% tags=["demo"]
autoreset_table(AutoresetMode.SAME_STEP, lengths=[2, 3], steps=7)

# %% [markdown]
r"""
The last observation of every episode is missing, because the row with `END` already shows the first one of the next episode.
The missing observation is in `infos["final_obs"]`.
To a program that doesn't look there, the last step of one episode seems to lead to the start of the next.
"""

# %%
### BEGIN SOLUTION
autoreset_frame = "c"
### END SOLUTION

# %%
quiz("autoreset_frame", autoreset_frame)

# %% [markdown]
r"""
Now collect experience in the default mode.
A [transition](../docs/glossary.md#transition) is one step of one environment: the observation, the action chosen for it, the reward, the next observation, and whether the episode terminated there.
Write `vector_rollout`, which returns the transitions that really happened, in any order: a dict of arrays with one row per transition, `obs`, `actions`, `rewards`, `next_obs`, and `terminated`.
`policy` takes the observations of all environments and returns an array of actions.
Reset the environments once, with the seed.
"""


# %%
def vector_rollout(envs, policy, steps, seed):
    """Return the transitions of `steps` calls to `envs.step`, in any order, as a dict of arrays with one row per transition.

    The keys are "obs", "actions", "rewards", "next_obs", and "terminated". Frames that are only a reset are left out.
    """
    ### BEGIN SOLUTION
    obs, _ = envs.reset(seed=seed)
    found = {"obs": [], "actions": [], "rewards": [], "next_obs": [], "terminated": []}
    real = np.ones(envs.num_envs, bool)  # is the next frame a step of an episode, and not a reset?
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
Nothing marks a frame as a reset, because ordinary steps can also have a reward of 0 and the same flags.
So you have to remember which episodes ended one frame earlier.
When an episode is truncated, `terminated` stays false, so a learner bootstraps from `next_obs`, which in this mode is the episode's true last observation.
"""

# %% [markdown]
r"""
With a random policy, CartPole's episodes have about 22 steps, so about one frame in 23 should be a reset:
"""

# %% tags=["demo"]
if passed("vector_rollout"):
    steps, envs = budget(2000, 300), gymnasium.make_vec("CartPole-v1", num_envs=16, vectorization_mode="sync")
    rng = np.random.default_rng(0)
    found = vector_rollout(envs, lambda obs: rng.integers(2, size=16), steps, seed=0)
    real, frames = len(found["rewards"]), 16 * steps
    print(f"{frames} frames, {real} transitions: {1 - real / frames:.1%} are resets")

# %% [markdown]
r"""
## More environments in parallel are often slower

"Vectorized" sounds like "fast", so measure it.
Compare a single environment in a plain loop with eight in a `SyncVectorEnv` and eight in an `AsyncVectorEnv`.
There are three kinds of environment: the plain CartPole, one that sleeps for 5 ms in each step, and one that computes for 5 ms.
The table shows the steps per second of all environments together.

**Predict:** which of the three is the fastest for the plain CartPole, whose step takes 5 to 20 µs?
"""

# %% tags=["demo"]
predict("fastest_cartpole", ..., ["one in a loop", "SyncVectorEnv of 8", "AsyncVectorEnv of 8"])

# %% tags=["demo"]
def cart():
    """Return one CartPole."""
    return gymnasium.make("CartPole-v1")


kinds = {
    "CartPole": cart,
    "sleeps for 5 ms": lambda: SlowSimulator(cart(), seconds=0.005),
    "computes for 5 ms": lambda: SlowSimulator(cart(), seconds=0.005, busy=True),
}
ways = {
    "one in a loop": lambda make: make(),
    "SyncVectorEnv of 8": lambda make: SyncVectorEnv([make] * 8),
    "AsyncVectorEnv of 8": lambda make: AsyncVectorEnv([make] * 8),
}

# %% tags=["demo"]
speeds, rounds = {}, budget(3, 2)
for kind, make in kinds.items():
    steps = budget(12_000, 4000) if kind == "CartPole" else budget(160, 64)
    for way, open_envs in ways.items():
        with contextlib.closing(open_envs(make)) as envs:  # at the end of the block, its processes exit
            speeds[way, kind] = steps_per_second(envs, steps, rounds=rounds)  # of the fastest round
table = pandas.Series(speeds).unstack(sort=False)
display(table.round(-1).astype(int))
measured("fastest_cartpole", table["CartPole"].idxmax())

# %% tags=["demo"]
colors = ["#94a3b8", "#db2777", "#7c3aed"]
axes = table.T.plot.bar(figsize=(8, 3.5), rot=0, logy=True, color=colors, width=0.75)
axes.set(ylabel="environment steps per second", title="Sleeps overlap, but computing needs cores")
axes.legend(frameon=False);

# %% [markdown]
r"""
The scale is logarithmic.

- **CartPole**: the plain loop wins.
  `SyncVectorEnv` has to handle arrays as well, and `AsyncVectorEnv` sends a message to each process and waits for its reply, which takes many times as long as a step.
- **Sleeping**: eight sleeps at the same time take little longer than one, so `AsyncVectorEnv` is about five to eight times as fast.
  `SyncVectorEnv` sleeps eight times in a row and gains nothing.
- **Computing**: the processes need cores.
  With two cores, `AsyncVectorEnv` is at most about twice as fast, however many processes you start.

Another program that needs the cores can reverse the order of two bars.
On a Mac, each process starts a new Python interpreter, so creating an `AsyncVectorEnv` takes seconds.
"""

# %%
### BEGIN SOLUTION
sixteen_cores = "b"
### END SOLUTION

# %%
quiz("sixteen_cores", sixteen_cores)

# %% [markdown]
r"""
## In a vector environment, one network call serves many steps

A small network takes nearly as long for one observation as for sixteen, and in a vector environment, $N$ steps share one call to the network.

A third kind of vector environment contains no environments.
Gymnasium ships a CartPole written for arrays, in which each line of NumPy moves all of the carts.
If an environment has such a version, `gymnasium.make_vec` uses it unless you ask for another one.
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


setups, steps, speeds = {"one in a loop": cart(), "SyncVectorEnv of 16": SyncVectorEnv([cart] * 16)}, budget(15_000, 2000), {}
for count in (16, 256):
    arrays = gymnasium.make_vec("CartPole-v1", num_envs=count)
    setups[f"{type(arrays).__name__} of {count}"] = arrays
for name, envs in setups.items():
    for column, policy in {"without a network": None, "with a network": choose}.items():
        speeds[column, name] = steps_per_second(envs, steps, policy, rounds=rounds)
pandas.Series(speeds).unstack(0, sort=False).round(-2).astype(int)

# %% [markdown]
r"""
`SyncVectorEnv` is faster than a single environment only if a network chooses the actions.
The arrays win by far when they hold many carts, because all of the carts share the overhead of each Python line.
Simulators such as [Brax](https://github.com/google/brax) do this on a GPU, but few environments are written this way.
"""

# %% [markdown]
r"""
## In lockstep, every environment waits for the slowest

In a real simulator, some steps are slower than others.
An `AsyncVectorEnv` works in *lockstep*: no environment starts its next step before all of them have finished the current one.

An actor (Chapter 3) can do better, because it holds its own environment and runs a [fragment](../docs/glossary.md#fragment) of many steps before it returns.
One of four actors is still the slowest, but the others wait for it only once per fragment, and over many steps, fast and slow ones average out.

![In lockstep, four environments wait for one another after every step; as actors, each runs a fragment of steps without waiting](../img/ch07_lockstep.svg)

**Predict:** each step sleeps for a random time, 5 ms *on average*.
By what factor is lockstep slower than four actors for the same number of steps?
The comparison takes about half a minute.
"""

# %% tags=["demo"]
predict("lockstep", ...)  # times as long

# %% tags=["demo"]
def jittery():
    """Return a CartPole whose steps sleep for random times, 5 ms on average."""
    return SlowSimulator(cart(), seconds=0.005, spread=1.0)


@ray.remote
class Sampler:
    """Holds an environment and collects steps from it."""

    def __init__(self, seed):
        self.env = jittery()
        self.env.reset(seed=seed)

    def sample(self, steps):
        """Collect a fragment of this many steps, and return their number."""
        for _ in range(steps):
            _, _, terminated, truncated, _ = self.env.step(self.env.action_space.sample())
            if terminated or truncated:
                self.env.reset()
        return steps

# %% tags=["demo"]
fragment, four = budget(150, 40), range(4)
ray.shutdown()  # stops a Ray instance that's already running here: its references and actors are gone
with contextlib.closing(AsyncVectorEnv([jittery] * 4)) as envs, ray.init(num_cpus=4, include_dashboard=False):
    envs.reset(seed=0)
    samplers = [Sampler.remote(seed) for seed in four]
    ray.get([sampler.sample.remote(1) for sampler in samplers])
    ways = {
        "four actors": lambda: ray.get([sampler.sample.remote(fragment) for sampler in samplers]),
        "lockstep": lambda: [envs.step(envs.action_space.sample()) for _ in range(fragment)],
    }
    comparison = compare_times(ways, repeats=5)
comparison.plot()
display(comparison)
measured("lockstep", comparison.ratio)

# %% [markdown]
r"""
Lockstep takes nearly twice as long: in every step, it waits for the longest of four sleeps, which is on average about twice as long as a single one.

"""

# %% [markdown] tags=["notes"]
r"""
The last plot is worth five minutes: draw four bars of different lengths on the board, and ask which environments wait.
If you're short of time, skip the section on the network, not this one.
"""

# %% [markdown]
r"""
## What you can do now

- You can run and write environments, and tell why an episode ended.
- You can compute discounted returns, and bootstrap after a truncated episode.
- You can collect experience from many environments and leave out the frames that are only a reset.
- You can predict which is the fastest: processes, arrays, or a plain loop.

## Traps

- **`while not terminated`** runs past the limit, and forever if the environment never terminates.
- **The same seed in every `reset`** starts the same episode over and over.
- **Treating `truncated` as `terminated`** teaches the agent that nothing good can follow a good state.
- **Reset frames** aren't experience.
  `envs.metadata["autoreset_mode"]` tells you a vector environment's mode.

## Read on

- [Chapter 8](ch08_rollouts.ipynb): actors that collect experience, and a learner that uses it.
- Gymnasium's documentation on [custom environments](https://gymnasium.farama.org/introduction/create_custom_env/), [vector environments](https://gymnasium.farama.org/api/vector/), and [autoreset modes](https://farama.org/Vector-Autoreset-Mode).
- Sutton and Barto, [*Reinforcement Learning: An Introduction*](http://incompleteideas.net/book/the-book-2nd.html), 2018, Chapter 3: episodes, returns, and discounting.
- Pardo et al., [*Time Limits in Reinforcement Learning*](https://arxiv.org/abs/1712.00378), 2018: why running out of time isn't the end of a task.
"""
