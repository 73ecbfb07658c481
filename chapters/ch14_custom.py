# %% [markdown] you_learn_to="write a module, a connector, a callback, a reward that does not mislead"
r"""
# Chapter 14 · Customizing RLlib

Your own code goes into RLlib in five places.

*About 110 minutes · builds on [Chapter 7](ch07_environments.ipynb) and [Chapter 12](ch12_env_runners.ipynb); [Chapters 10](ch10_actor_learner.ipynb) and [11](ch11_rllib_ppo.ipynb) help*

**What you will be able to do**

- choose the right place for what you want to change;
- write a connector that rescales observations, for the module *and* for the learner;
- write a module of your own in PyTorch, with a value function that PPO can use;
- write a callback that measures what you really want, and catch a return that misleads;
- shape a reward without changing which policy is best;
- compare two training runs over several seeds, with bands.
"""

# %%
import gymnasium
import matplotlib.pyplot as plt
import numpy as np
import pandas
import ray
import torch
from gymnasium.spaces import Box
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from torch import nn

from coursekit import begin, budget, check, hint, passed, progress, quiz, solution
from coursekit.given.ch14_custom import Balloon, Cave, Dispatcher, Praised, draw, draw_bands, nearness

begin("ch14_custom")

# %%
ray.shutdown()  # ends a Ray that already runs here: its references and actors are gone
ray.init(num_cpus=2, include_dashboard=False)
torch.set_num_threads(1)  # networks as small as these gain nothing from more

# %%
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.connectors.env_to_module import FlattenObservations
from ray.rllib.connectors.env_to_module.observation_preprocessor import SingleAgentObservationPreprocessor
from ray.rllib.core.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.tune import register_env

# %% [markdown] tags=["notes"]
r"""
The run sheet plans a hundred and ten minutes.
The imports are slow, so run the three cells above before you begin to speak.
Every training in this chapter takes seconds and runs in the notebook's own process, so a mistake shows its own traceback.
Recommend that for development at home, too.
"""

# %% [markdown]
r"""
## RLlib has a place for each kind of change

So far RLlib played environments that suited it: small observations, rewards at every step, one agent.
Yours will be different.
Here is one round of its loop, with five places for your code:

![An environment, perhaps with a reward wrapper, hands observations to a connector, which feeds the module; the module's action goes back; a callback watches the episodes; a mapping decides which module plays which agent](../img/ch14_places.svg)

| place | what you write | what it controls |
|---|---|---|
| 1 **connector** | a `ConnectorV2` | what the module sees |
| 2 **module** | an `RLModule` | how it decides |
| 3 **callback** | an `RLlibCallback`, or a function | what you find out |
| 4 **reward** | a Gymnasium wrapper | what the agent is after |
| 5 **agents** | a `MultiAgentEnv` and a mapping | who plays |

You fill the first four here, and the fifth in [Chapter 23](ch23_self_play.ipynb).
All five leave the algorithm itself alone; *Read on* says where to look when you must change that.

In each of three small worlds you train the default, watch it struggle, add your own code, and compare the curves.
All training runs share one config.
Its `lr` is a hundred times PPO's default and its batches are small: these worlds forgive that, and you wait less.
"""


# %%
def ppo(env, gamma=0.9, seed=0):
    """Return PPO for a small world, played in this process: ten environments, 500 steps an iteration."""
    return (
        PPOConfig()
        .environment(env)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=10)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[32, 32]))
        .training(train_batch_size_per_learner=500, minibatch_size=100, num_epochs=8)
        .training(lr=0.005, gamma=gamma, lambda_=0.95)
        .training(use_kl_loss=False)  # the clipped ratio alone keeps steps small, as in chapter 10
        .debugging(seed=seed)
    )


# %%
def learn(config, iterations):
    """Return what the EnvRunner reported after each iteration, as a table, and the trained module."""
    algo = config.build_algo()
    try:
        reports = [algo.train()["env_runners"] for _ in range(iterations)]
        return pandas.DataFrame(reports), algo.env_runner.module
    finally:
        algo.stop()


def best_action(module, obs):
    """Return the most probable action of a module for one observation."""
    batch = {Columns.OBS: torch.as_tensor(np.asarray(obs, np.float32))[None]}
    return int(module.forward_inference(batch)[Columns.ACTION_DIST_INPUTS].argmax())


# %% [markdown]
r"""
## A network that sees 100,000 sees nothing

The first world is a hot-air balloon.
It should fly at about 500 m, and can burn gas, wait, or let air out.
It has a barometer but no altimeter, so an observation holds the **air pressure in pascals**, about 101,325 on the ground and 90,000 at 1,000 m, and the vertical speed in m/s.
An episode has 20 steps, and each that ends less than 100 m from the goal earns 1.

**Predict:** the observation holds everything the balloon needs to know.
How much of the 20 does PPO reach with its default network?
"""

# %% tags=["demo"]
iterations = budget(16, 8)
balloon_curves = {}
balloon_curves["as it comes"], module = learn(ppo(Balloon), iterations)
print(f"return at the end: {balloon_curves['as it comes']['episode_return_mean'].iloc[-1]:.1f} of 20")

# %% tags=["demo"]
rows = {}
for height, pascals in [(100, 100_131), (500, 95_493), (900, 91_069)]:
    batch = {Columns.OBS: torch.tensor([[float(pascals), 0.0]])}
    scores = module.forward_inference(batch)[Columns.ACTION_DIST_INPUTS]
    rows[f"{height} m"] = torch.softmax(scores, dim=-1)[0].numpy().round(3)
pandas.DataFrame(rows, index=["let air out", "wait", "burn gas"]).T

# %% [markdown]
r"""
Compare the return with 4, about what a balloon earns by just waiting: it starts at a random height, and a fifth of all heights pay.
The rows of the table are the same: the network gives one answer at 100 m and at 900 m.
Its first layer adds up weights times 100,000 and passes the sum through a $\tanh$, which is almost 1 or $-1$ beyond about 3.
After that layer all pressures look alike, and where nothing changes there is no gradient.
As a rule, feed a network numbers between $-1$ and 1.

You could fix this in the environment, which often belongs to someone else, or in the network.
The best place lies between them.
A **connector** is one piece of a pipeline.
The *env-to-module* pipeline runs in each EnvRunner on the episodes in play, before the module chooses an action.
For the most frequent case, *replace the newest observation*, RLlib has a base class: `SingleAgentObservationPreprocessor`.
You write two methods:

- `preprocess(observation, episode)` returns the new observation;
- `recompute_output_observation_space(...)` returns the *space* of the new observations, because RLlib builds the module for that space.

Write `Rescale`.
It should fit any environment with a bounded `Box` space, of any shape: for each number of the observation, `low` is the smallest value and `high` the largest.
Map `low` to $-1$, `high` to 1, and values between them in proportion.
In `preprocess`, the old observations' space is `self.input_observation_space`.
"""


# %%
class Rescale(SingleAgentObservationPreprocessor):
    """Maps each number of an observation from the range that its space names to -1 ... 1."""

    def recompute_output_observation_space(self, input_observation_space, input_action_space):
        """Return the space of the new observations."""
        ### BEGIN SOLUTION
        return Box(-1, 1, input_observation_space.shape, np.float32)
        ### END SOLUTION

    def preprocess(self, observation, episode):
        """Return the new observation."""
        ### BEGIN SOLUTION
        space = self.input_observation_space
        share = (observation - space.low) / (space.high - space.low)
        return (2 * share - 1).astype(np.float32)
        ### END SOLUTION


# %%
check("Rescale", Rescale)

# %% [markdown] tags=["solution"]
r"""
`Rescale` works only if the bounds are honest.
CartPole's speeds have infinite bounds, and a share of infinity is not a number.
RLlib's own `MeanStdFilter` needs no bounds: it keeps a running mean and standard deviation, a state that RLlib has to carry between EnvRunners.
If you know the range, `Rescale` is simpler.
"""

# %% [markdown]
r"""
A config takes a *function* that makes the connector, so every EnvRunner gets its own.
RLlib calls it with the environment, its spaces and the device; you may ignore them.
Now train again with the same network and the same number of steps:
"""


# %% tags=["demo"]
def rescale(env=None, spaces=None, device=None):
    """Return the connector for an EnvRunner."""
    return Rescale()


if passed("Rescale"):
    config = ppo(Balloon).env_runners(env_to_module_connector=rescale)
    balloon_curves["rescaled"], module = learn(config, iterations)
    draw(balloon_curves, "episode_return_mean", "The same balloon, the same network", ylim=(0, 20))

# %% [markdown]
r"""
The learning has not changed, only the numbers it sees.
The best possible mean is a little over 18, because a balloon that starts far from the goal spends up to four steps without reward; lucky starts may lift a dot above that.

One thing is easy to miss: RLlib throws the batch away once the module has acted.
The **episodes** reach the learner, later and perhaps on another machine, so a connector must write into the episode whatever should last.
Your base class does that for you.
In a plain `ConnectorV2` you do it yourself: `episode.set_observations(at_indices=-1, new_data=...)`.
"""

# %%
### BEGIN SOLUTION
only_the_batch = "b"
### END SOLUTION

# %%
quiz("only_the_batch", only_the_batch)

# %% [markdown]
r"""
## What you know about the problem belongs in the module

The second world is a job scheduler.
Ten jobs come one by one, and each goes to one of twelve nodes.
For each node the agent sees three numbers from 0 to 1: how full its queue is, how fast it is, and whether it already holds the job's data.
The agent earns 1 for each job that no other node would have finished sooner; guessing earns 10/12 an episode.

An observation is a table, shape [12, 3].
The default network wants a vector, so `FlattenObservations` turns the table into 36 numbers.
No decision affects later jobs, so $\gamma = 0$.
"""


# %% tags=["demo"]
def flatten(env=None, spaces=None, device=None):
    """Return RLlib's connector that makes a vector of a table."""
    return FlattenObservations()


config = ppo(Dispatcher, gamma=0).env_runners(env_to_module_connector=flatten)
queue_curves = {}
queue_curves["default network"], plain = learn(config, iterations)
print(f"return at the end: {queue_curves['default network']['episode_return_mean'].iloc[-1]:.1f} of 10")

# %% [markdown]
r"""
The default network learns, but slowly: it has to discover twelve times, once for each node, that a full queue is bad.
It cannot know that inputs 7 and 10 are both a *queue*.
You know, so build that in: **one small network judges one node, and the same network judges them all**.

![The same small network is applied to each row of the table and gives each node a score; a second one gives each node a number, and their mean is the value](../img/ch14_scores.svg)

An `RLModule` for PPO has three parts:

- `setup()` makes the layers.
  Sizes come from `self.observation_space` and `self.action_space`.
  `self.model_config` holds what your config passes with the class: `RLModuleSpec(module_class=ScoreEach, model_config={"hidden": 32})`.
- `_forward(batch)` stands in for all three `forward_...` methods of [Chapter 11](ch11_rllib_ppo.ipynb).
  It gets `batch[Columns.OBS]`, here with shape [B, nodes, 3], and returns a dict with `Columns.ACTION_DIST_INPUTS`: for discrete actions one score (*logit*) for each action, shape [B, nodes].
  RLlib turns scores into probabilities and draws the action.
- `compute_values(batch)` is the critic: it returns one estimate for each table, shape **[B]**.
  The base class `ValueFunctionAPI` promises that the module has one; PPO's learner calls it, and its EnvRunners do not.
  Ignore `embeddings`: it serves modules whose two networks share their first layers.

Write `ScoreEach` with two small networks, one for the scores and one for the values: a `Linear` to `self.model_config["hidden"]` units, a `Tanh`, and a `Linear` to one number.
The value of a table is the **mean** over its nodes.
The check trains your module for one iteration inside a real algorithm, then shuffles the nodes and adds more.
"""


# %%
class ScoreEach(TorchRLModule, ValueFunctionAPI):
    """Scores each node with the same small network; works for any number of nodes."""

    def setup(self):
        """Make the two networks: features of a node -> hidden -> one number."""
        ### BEGIN SOLUTION
        features, hidden = self.observation_space.shape[-1], self.model_config["hidden"]
        self.score = nn.Sequential(nn.Linear(features, hidden), nn.Tanh(), nn.Linear(hidden, 1))
        self.worth = nn.Sequential(nn.Linear(features, hidden), nn.Tanh(), nn.Linear(hidden, 1))
        ### END SOLUTION

    def _forward(self, batch, **kwargs):
        """Return {Columns.ACTION_DIST_INPUTS: scores}, shape [B, nodes]."""
        ### BEGIN SOLUTION
        return {Columns.ACTION_DIST_INPUTS: self.score(batch[Columns.OBS]).squeeze(-1)}
        ### END SOLUTION

    def compute_values(self, batch, embeddings=None):
        """Return the value of each table, shape [B]."""
        ### BEGIN SOLUTION
        return self.worth(batch[Columns.OBS]).squeeze(-1).mean(dim=-1)
        ### END SOLUTION


# %%
check("ScoreEach", ScoreEach)

# %% [markdown] tags=["solution"]
r"""
Both `squeeze(-1)` matter.
A value of shape [B, 1] minus targets of shape [B] gives a [B, B] table of differences, and PyTorch minimises its mean without complaint, moving every value towards the mean of all targets.
Keep layers out of a plain Python list, too: PyTorch finds layers only as attributes of the module, or inside an attribute such as an `nn.ModuleList`.
Layers it does not find keep their first weights forever, so the check trains your module.
"""

# %% tags=["demo"]
if passed("ScoreEach"):
    spec = RLModuleSpec(module_class=ScoreEach, model_config={"hidden": 32})
    queue_curves["ScoreEach"], module = learn(ppo(Dispatcher, gamma=0).rl_module(rl_module_spec=spec), iterations)
    draw(queue_curves, "episode_return_mean", "Ten jobs, twelve nodes", ylim=(0, 10))

# %% [markdown]
r"""
Same algorithm, same steps, fewer weights.
But these are two runs, and the first weights and every draw depend on the seed.
A comparison needs several: train both kinds with the same seeds, and draw the mean of each inside a band from its worst run to its best.
"""


# %% tags=["demo"]
def kinds(seed):
    """Return the two configs to compare, both with this seed."""
    plain = ppo(Dispatcher, 0, seed).env_runners(env_to_module_connector=flatten)
    return {"default network": plain, "ScoreEach": ppo(Dispatcher, 0, seed).rl_module(rl_module_spec=spec)}


if passed("ScoreEach"):
    bands = {"default network": [], "ScoreEach": []}
    for seed in range(1, budget(5, 2) + 1):
        for name, config in kinds(seed).items():
            bands[name].append(learn(config, iterations)[0])
    draw_bands(bands, "episode_return_mean", f"{seed} seeds of each kind, from worst to best", ylim=(0, 10))

# %% [markdown]
r"""
With five runs of each kind, bands that lie apart at the end are hardly luck: if the kinds were alike, all five of one would lead all five of the other once in 126 times.
With two runs of each, that happens once in three times.
If bands overlap, run more seeds.
A band from worst to best grows with the number of seeds, so say how many there were.

**Predict:** now give the trained module, as it is, a cluster of 40 nodes.
How many of a hundred jobs go to the best of the 40?
And what does the default network do with such a table?
"""


# %% tags=["demo"]
def share_best(module, nodes, jobs=100):
    """Return the share of the jobs for which the module's favourite is the best node."""
    env, right = Dispatcher({"nodes": nodes}), 0.0
    obs, _ = env.reset(seed=1)
    for _ in range(jobs):
        obs, reward, *_ = env.step(best_action(module, obs))
        right += reward
    return right / jobs


if passed("ScoreEach"):
    for nodes in (4, 12, 40):
        print(f"{nodes:3} nodes: {share_best(module, nodes):.0%} of the jobs to the best, {1 / nodes:.0%} by guessing")
    try:
        best_action(plain, np.zeros(40 * 3))  # what `flatten` makes of a table of 40 nodes
    except RuntimeError as error:
        print(" 40 nodes, default network:", error)

# %%
### BEGIN SOLUTION
what_a_module_knows = "b"
### END SOLUTION

# %%
quiz("what_a_module_knows", what_a_module_knows)

# %% [markdown]
r"""
## A return does not say what happened; a callback does

The third world is a dark cave, 20 by 20 squares.
You start in a corner; the exit is the square (14, 12), and stepping on it earns 1 and ends the episode.
Nothing else earns anything, and after 80 steps the episode is truncated.
You will try several rewards, and cannot compare a return of 20 under one with 0.5 under another.
So measure what you want to know: **how many arrive?**

RLlib calls your code at many points: `on_episode_start`, `on_episode_step`, `on_episode_end`, `on_sample_end`, `on_train_result` and more.
The episode's callbacks get the episode and a `metrics_logger`.
RLlib collects what you log there from all EnvRunners and returns it in `result["env_runners"]`, under the name you gave it.

Three things to know:

- **An episode may come in pieces.** For PPO, an EnvRunner plays a fixed number of steps in each environment and hands over what it has.
  `on_episode_end` gets only the *last* piece as `episode`; the list `prev_episode_chunks` holds the earlier ones.
  Each piece has `get_actions()`, `get_rewards()` and so on: an array in the earlier pieces, a plain list in the last (`np.asarray` makes them alike).
  The last piece knows the end: `episode.is_terminated` and `episode.is_truncated`.
- **Tell `log_value` how to summarise.** With `reduce="mean"` an EnvRunner reports the mean of what it logged since its last report.
  Without it you get a moving average, in which each new value counts for one per cent.
- **Several reports become a mean of means** ([Chapter 11](ch11_rllib_ppo.ipynb)).
  Here PPO asks a single runner once an iteration, so the mean is exact; elsewhere, log counts with `reduce="sum"` and divide.

Write `Diary`.
For each episode that ends, it logs two numbers, summarised by their mean:

- `"arrived"`: 1 if the episode terminated, 0 if it was truncated;
- `"steps_back"`: how often the agent took action 0, a step to the left, **in the whole episode**.
"""


# %%
class Diary(RLlibCallback):
    """Writes down how each episode ended, and how often it stepped back."""

    def on_episode_end(self, *, episode, prev_episode_chunks, metrics_logger, **kwargs):
        """Log "arrived" (1.0 or 0.0) and "steps_back" (a count), once for each episode."""
        ### BEGIN SOLUTION
        pieces = [*prev_episode_chunks, episode]
        actions = np.concatenate([piece.get_actions() for piece in pieces])
        metrics_logger.log_value("arrived", float(episode.is_terminated), reduce="mean")
        metrics_logger.log_value("steps_back", int(np.sum(actions == 0)), reduce="mean")
        ### END SOLUTION


# %%
check("Diary", Diary)

# %% [markdown] tags=["solution"]
r"""
Each EnvRunner has its own Diary in its own process, so a list kept in `self` never reaches you: use the logger.
A function works too, `config.callbacks(on_episode_end=my_function)`, and you can register several callbacks.
The callback also gets `env`, the vector of environments, and `env_index`, so it can read what no observation shows.
"""

# %%
### BEGIN SOLUTION
a_number_without_reduce = "c"
### END SOLUTION

# %%
quiz("a_number_without_reduce", a_number_without_reduce)

# %% [markdown]
r"""
Does PPO, which begins with a random walk, find an exit 26 steps away?
In the cave $\gamma$ is 0.99, because the reward is far away.

If an environment has several parts, register a function that builds it under a name, with `register_env`.
RLlib's EnvRunners look the name up, on any machine.
"""

# %% tags=["demo"]
gamma = 0.99
register_env("cave", lambda config: Cave())
register_env("praised cave", lambda config: Praised(Cave()))
cave_curves, modules = {}, {}


def explore(name):
    """Return PPO for a cave, with a diary; in an iteration every environment plays 80 steps, as long as an episode may be."""
    config = ppo(name, gamma).training(train_batch_size_per_learner=800).callbacks(Diary)
    return config.training(entropy_coeff=0.006)  # rewards staying undecided, so that exploring does not end too soon


if passed("Diary"):
    cave_curves["sparse"], modules["sparse"] = learn(explore("cave"), iterations)
    draw(cave_curves, "arrived", "One reward, far away", ylim=(-0.05, 1.05))

# %% [markdown]
r"""
As a rule no episode arrives, so there is no reward, and nothing to learn.
A random walk finds the exit about once in 650 episodes, so with another seed one may stumble upon it.
Such a reward is **sparse**.

The obvious help is to praise every step in the right direction.
`Praised(Cave())` adds 0.5 for each step nearer to the exit and takes nothing away for the others.

**Predict** two curves: the return, and the share that arrives.
"""

# %% tags=["demo"]
if passed("Diary"):
    cave_curves["praised"], modules["praised"] = learn(explore("praised cave"), iterations)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3), constrained_layout=True)
    draw(cave_curves, "episode_return_mean", "What they collect", ylim=(-1, 30), ax=left)
    draw(cave_curves, "arrived", "What you wanted", ylim=(-0.05, 1.05), ax=right)

# %% [markdown]
r"""
The return is fine, but hardly any episode reaches the exit.
The return begins at about 20, since half of a random walk's steps lead nearer, while the straight way to the exit earns only 14.
So the agent learns to stay away from the exit.

It has understood the reward better than its author.
A step forward earns 0.5, a step back costs nothing, and the exit ends the fun, so the agent steps to and fro until time runs out.
Randløv and Alstrøm praised a bicycle for riding towards its goal, and it learned to ride in circles.
Without the diary you would have seen only the left picture.
"""

# %%
### BEGIN SOLUTION
return_and_arrivals = "b"
### END SOLUTION

# %%
quiz("return_and_arrivals", return_and_arrivals)

# %% [markdown]
r"""
## A potential pays for progress and takes it back for retreat

Ng, Harada and Russell (1999) found which hints are safe.
Give each state a height, its **potential** $\Phi(s)$, and pay for the climb:

$$r' = r + \gamma\,\Phi(s') - \Phi(s), \qquad \Phi(s') = 0 \text{ where the episode terminated.}$$

Add that up over an episode, discounted as the agent discounts it.
Everything in between cancels, and for a terminated episode this remains:

$$\sum_t \gamma^t r'_t = \sum_t \gamma^t r_t - \Phi(s_0).$$

The last term depends only on the start, not on what the agent *does*, so the best policy is still best, and now every step says so.

Look at a round trip, from $s$ to $s'$ and back: it pays $\gamma\Phi(s') - \Phi(s)$, and one step later $\gamma\Phi(s) - \Phi(s')$.
Discounted, these add up to $-(1 - \gamma^2)\,\Phi(s)$: if the potential is positive, going to and fro costs a little.

![Praise pays on the way up and not on the way down, so a round trip earns; a potential takes back on the way down what it paid on the way up](../img/ch14_shaping.svg)

Two ends need care.
*Terminated*: nothing comes after, so $\Phi(s')$ is 0, whatever the last observation.
*Truncated*: the episode would have continued, so $\Phi(s')$ counts as usual.

Write the wrapper.
`potential` is a function of an observation.
Pass everything except the reward through unchanged, in `reset` as well as in `step`.
"""


# %%
class Shaped(gymnasium.Wrapper):
    """An environment whose reward also pays for potential gained, and takes back for potential lost."""

    def __init__(self, env, potential, gamma):
        super().__init__(env)
        self.potential, self.gamma = potential, gamma

    def reset(self, *, seed=None, options=None):
        """Reset the environment; return what it returns."""
        ### BEGIN SOLUTION
        obs, info = self.env.reset(seed=seed, options=options)
        self.before = self.potential(obs)
        return obs, info
        ### END SOLUTION

    def step(self, action):
        """Take the step; return its five values, with the hint added to the reward."""
        ### BEGIN SOLUTION
        obs, reward, terminated, truncated, info = self.env.step(action)
        after = 0.0 if terminated else self.potential(obs)
        reward = reward + self.gamma * after - self.before
        self.before = after
        return obs, reward, terminated, truncated, info
        ### END SOLUTION


# %%
check("Shaped", Shaped)

# %% [markdown] tags=["solution"]
r"""
Use the algorithm's $\gamma$ here, or the terms in between do not cancel.
A potential need not be clever.
It should rise on the way to the goal; if it misleads, the agent takes longer, but the best policy stays best.
"""

# %% [markdown]
r"""
`nearness(obs)` is 1 at the exit and 0 at the start.
Here is the third curve, with its return:
"""

# %% tags=["demo"]
if passed("Shaped") and passed("Diary"):
    register_env("shaped cave", lambda config: Shaped(Cave(), nearness, gamma))
    cave_curves["shaped"], modules["shaped"] = learn(explore("shaped cave"), iterations)
    draw(cave_curves, "arrived", "Three rewards, one cave", ylim=(-0.05, 1.05))
    print(f"return at the end: {cave_curves['shaped']['episode_return_mean'].dropna().iloc[-1]:.2f}")


# %% [markdown]
r"""
They arrive.
What the potential paid on the way, it took back at the end.
The return is a little less than 1 because RLlib reports it undiscounted: each step that continues costs one per cent of the potential it reaches.
This return points the right way: nearer is more.
Count the arrivals all the same: an episode cut off one square before the exit keeps almost the whole potential.

Watch the three walk, each with its most probable action.
If a line shows fewer dots than the steps in its title, the agent went to and fro between two squares, or pushed against a wall, until time ran out:
"""


# %% tags=["demo"]
def path(module):
    """Return the squares of one episode in the cave, shape [steps + 1, 2]."""
    env, squares, over = Cave(), [(0, 0)], False
    obs, _ = env.reset(seed=0)
    while not over:
        obs, _, terminated, truncated, _ = env.step(best_action(module, obs))
        squares.append((env.x, env.y))
        over = terminated or truncated
    return np.array(squares)


if len(modules) == 3:
    figure, grid = plt.subplots(1, 3, figsize=(10, 3.4), constrained_layout=True, sharey=True)
    for ax, (name, module), colour in zip(grid, modules.items(), ["#64748b", "#7c3aed", "#059669"], strict=True):
        squares = path(module)
        ax.plot(*squares.T, ".-", color=colour)
        ax.plot(*Cave.exit, "*", color="#db2777", markersize=14)
        ax.set(title=f"{name}: {len(squares) - 1} steps", xlim=(-1, 20), ylim=(-1, 20), xticks=range(0, 20, 5), yticks=range(0, 20, 5), aspect="equal")

# %% [markdown] tags=["notes"]
r"""
Ask who has rewarded one thing and got another.
Most people have a story, and few are about computers.
Then ask what the diary should have logged.
"""

# %%
ray.shutdown()

# %% [markdown]
r"""
## Your code travels to the EnvRunners

All of this ran in the notebook's process.
To move the EnvRunners into their own processes, or onto other machines, you change only `num_env_runners`: Ray pickles a class from a notebook *by value*, code and all, together with the config.
In a real project, put such classes into a package installed on every node, or send the package along in a runtime environment ([Chapter 6](ch06_cluster.ipynb)).
The algorithm gets the class as it is when you call `build_algo`; if you edit the class afterwards, the running algorithm keeps the old one.

For what older tutorials call custom models, filters and `on_postprocess_trajectory`, see [Old names](../docs/old_names.md).
"""

# %% [markdown]
r"""
## What you can do now

- You know five places for your own code, when to use which, and where to look when you must change the algorithm itself.
- Your connector changes what the module sees *and* what the learner gets.
- Your module is plain PyTorch with a value function, and knows what you know about the problem.
- Your diary shows what a return hides, and your potential helps an agent without misleading it.
- You compare training runs by bands over several seeds, not by one lucky run.

## Traps

- **Numbers far outside $-1 … 1$** make a task look as if it could not be learned.
- **A connector that changes only the batch** lets the learner train on other numbers than the module saw.
- **Values of shape [B, 1]** raise no error and spoil the critic.
- **`log_value` without `reduce=`** reports a moving average that hardly moves.
- **`on_episode_end` gets the last piece** of an episode; the others are in `prev_episode_chunks`.
- **Praise that nothing takes back**: the agent collects it forever.
- **`terminated` and `truncated`** differ for a potential, too.

## Read on

- [Chapter 15](ch15_offline.ipynb) learns from experience that others have recorded, and [Chapter 23](ch23_self_play.ipynb) fills the fifth place: two agents, and a league of past selves.
- To change the algorithm itself, subclass the **Learner** and write a loss of your own (`compute_loss_for_module`), put connectors on the learner's side or between module and environment (`learner_connector`, `module_to_env_connector`), or override the algorithm's `training_step`.
  For research on algorithms, start with the Learner.
- RLlib's documentation: [RLModules](https://docs.ray.io/en/latest/rllib/rl-modules.html), [connectors](https://docs.ray.io/en/latest/rllib/connector-v2.html), [callbacks](https://docs.ray.io/en/latest/rllib/rllib-callback.html), [several agents](https://docs.ray.io/en/latest/rllib/multi-agent-envs.html).
- Ng, Harada and Russell, *Policy invariance under reward transformations*, ICML 1999.
- Randløv and Alstrøm, *Learning to drive a bicycle using reinforcement learning and shaping*, ICML 1998: the bicycle that rode in circles.
"""
