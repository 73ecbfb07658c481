# %% [markdown] you_learn_to="write a module, a connector, a callback, and a reward that doesn't mislead"
r"""
# Chapter 14 · Customizing RLlib

There are five places in RLlib for your own code.

*About 110 minutes · builds on [Chapter 7](ch07_environments.ipynb) and [Chapter 12](ch12_env_runners.ipynb); [Chapters 10](ch10_actor_learner.ipynb) and [11](ch11_rllib_ppo.ipynb) help*

**What you will be able to do**

- choose the right place in RLlib for your own code;
- write a connector that rescales observations for the module *and* for the learner;
- write a module in PyTorch that has a value function for PPO;
- catch a misleading return with a callback;
- shape a reward without changing which policy is best;
- compare two modules over several seeds, and plot their runs as bands.
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

from coursekit import begin, budget, check, explain, hint, measured, passed, predict, progress, puzzle, quiz, review
from coursekit import solution, track
from coursekit.given.ch14_custom import Balloon, Cave, Dispatcher, ProgressBonus, draw, draw_bands, nearness

begin("ch14_custom")

# %%
ray.shutdown()  # stops a Ray instance that's already running here: its references and actors are gone
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
The run sheet allots a hundred and ten minutes.
Importing RLlib is slow, so have everyone run the three cells above before you start talking.
Every training run in this chapter takes a few seconds and runs in the notebook's own process, so a mistake shows up with its own traceback.
Recommend this way of developing for people's own projects, too.
"""

# %% [markdown]
r"""
## RLlib has five places for your own code

Your own problems will rarely fit RLlib's defaults.
Here is one round of its loop, with five places for your code:

![The environment, inside a reward wrapper, passes observations to a connector, which feeds the module; its actions go back; a callback reads the episodes](../img/ch14_places.svg)

| place | what you write | what it controls |
|---|---|---|
| 1 **connector** | a `ConnectorV2` | what the module receives |
| 2 **module** | an `RLModule` | how the agent chooses its actions |
| 3 **callback** | an `RLlibCallback`, or a function | what you measure |
| 4 **reward** | a Gymnasium wrapper | what the agent optimizes |
| 5 **agents** | a `MultiAgentEnv` and a mapping | which module acts for which agent |

You fill the first four places here, and the fifth in [Chapter 23](ch23_self_play.ipynb).
None of them changes the algorithm itself; *Read on* says where to look if you must change it.

In each of three small environments, you train PPO with and without your own code, and compare the learning curves.
All training runs share one config.
Its small batches and large `lr`, a hundred times PPO's default, are fine for such easy problems.
`vf_clip_param` is raised because with the default of 10, the critic would learn nothing from errors above $\sqrt{10} \approx 3.2$ ([Chapter 11](ch11_rllib_ppo.ipynb)).
"""


# %%
def ppo(env, gamma=0.9, seed=0):
    """Return PPO for a small environment: this process samples 500 steps per iteration, in ten copies of the environment."""
    return (
        PPOConfig()
        .environment(env)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=10)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[32, 32], vf_share_layers=False))
        .training(train_batch_size_per_learner=500, minibatch_size=100, num_epochs=8)
        .training(lr=0.005, gamma=gamma, lambda_=0.95)
        .training(vf_clip_param=1e4)  # effectively no limit
        .training(use_kl_loss=False)  # clipping the ratio keeps the updates small enough, as in Chapter 10
        .debugging(seed=seed)
    )


# %%
def learn(config, iterations):
    """Return a table of what the EnvRunner reported, a row per iteration, and the trained module."""
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
## A connector rescales observations before they reach the network

The first environment is a hot-air balloon.
It can burn gas, wait, or let air out, and it should fly at about 500 m.
It has no altimeter, so an observation consists of the vertical speed in m/s and the **air pressure in pascals**, which is 101,325 on the ground and about 90,000 at 1,000 m.
An episode has 20 steps, and each step that ends less than 100 m from the goal earns 1.

**Predict:** a balloon that only waits earns about 4 of the 20, because it starts at a random height and a fifth of all heights earn a reward.
What mean return does PPO reach with RLlib's default network?
"""

# %% tags=["demo"]
predict("default_return", ...)  # of 20

# %% tags=["demo"]
iterations = budget(16, 8)
balloon_curves = {}
balloon_curves["raw pressure"], module = learn(ppo(Balloon), iterations)
measured("default_return", balloon_curves["raw pressure"]["episode_return_mean"].iloc[-1])

# %% [markdown]
r"""
PPO is hardly better than waiting, if at all.
Here are the probabilities that the trained network gives to the three actions:
"""

# %% tags=["demo"]
rows = {}
for height, pascals in [(100, 100_131), (500, 95_493), (900, 91_069)]:
    batch = {Columns.OBS: torch.tensor([[float(pascals), 0.0]])}
    logits = module.forward_inference(batch)[Columns.ACTION_DIST_INPUTS]
    rows[f"{height} m"] = torch.softmax(logits, dim=-1)[0].numpy().round(3)
pandas.DataFrame(rows, index=["let air out", "wait", "burn gas"]).T

# %% [markdown]
r"""
The three rows are the same, so the network acts at 100 m as it does at 900 m.
Its first layer multiplies the pressure by weights, so its sums are typically in the tens of thousands, and then it applies $\tanh$, which is almost 1 or $-1$ for anything beyond 3 or $-3$.
After that layer, all pressures look alike.
Training can't repair this, because where $\tanh$ hardly changes, its gradient is almost 0.
Most networks learn best from inputs between about $-1$ and 1.

You could rescale the pressure in the network or in the environment, but the best place is between the two: in a **connector**, one piece of a pipeline.
The [*env-to-module* pipeline](../docs/glossary.md#env-to-module-pipeline) runs in each EnvRunner, on the episodes in progress, before the module chooses an action.
For the most frequent case, *replace the latest observation*, RLlib has a base class called `SingleAgentObservationPreprocessor`.
You write two methods:

- `preprocess(observation, episode)` returns the new observation.
- `recompute_output_observation_space(...)` returns the *space* of the new observations, because RLlib builds the module for that space.
"""

# %% [markdown]
r"""
Write `Rescale`, a connector for environments whose observations are floats in a bounded `Box`, of any shape.
For each number of the observation, `low` holds its smallest possible value, and `high` its largest.
Map `low` to $-1$, `high` to 1, and the values between them in proportion.
In `preprocess`, the space of the old observations is `self.input_observation_space`.
"""


# %%
class Rescale(SingleAgentObservationPreprocessor):
    """Maps each number of an observation from its range in the space to the range from -1 to 1."""

    def recompute_output_observation_space(self, input_observation_space, input_action_space):
        """Return the space of the new observations."""
        ### BEGIN SOLUTION
        return Box(-1, 1, input_observation_space.shape, np.float32)
        ### END SOLUTION

    def preprocess(self, observation, episode):
        """Return the new observation."""
        ### BEGIN SOLUTION
        space = self.input_observation_space
        fraction = (observation - space.low) / (space.high - space.low)
        return (2 * fraction - 1).astype(np.float32)
        ### END SOLUTION


# %%
check("Rescale", Rescale)

# %% [markdown] tags=["solution"]
r"""
`Rescale` needs bounds that are finite and close to the values that occur.
In CartPole, the bounds of the speeds are infinite, so the fraction would be infinity divided by infinity, which is NaN.
RLlib's own `MeanStdFilter` needs no bounds, because it keeps a running mean and standard deviation of the observations.
That is state, which RLlib has to merge and copy between EnvRunners.
If you know the range, `Rescale` is simpler.
"""

# %% [markdown]
r"""
A config takes a *function* that creates the connector, so that every EnvRunner gets its own connector.
You can ignore its arguments here.
Now train again, with the same network and for the same number of steps:
"""


# %% tags=["demo"]
def rescale(env=None, spaces=None, device=None):
    """Return a new connector for an EnvRunner."""
    return Rescale()


if passed("Rescale"):
    config = ppo(Balloon).env_runners(env_to_module_connector=rescale)
    balloon_curves["rescaled"], module = learn(config, iterations)
    draw(balloon_curves, "episode_return_mean", "Hot-air balloon: the same network, with and without Rescale", ylim=(0, 20))

# %% [markdown]
r"""
Only the inputs have changed, and now PPO learns.
The best possible mean is a little over 18, because a balloon that starts far from the goal earns nothing for up to four steps.

RLlib throws the batch away once the module has acted.
Later, and perhaps on another machine, the learner receives the **episodes**, so a lasting change must be written into the episode.
The base class does that for you.
In a plain `ConnectorV2`, you do it yourself, with `episode.set_observations(at_indices=-1, new_data=...)` and `episode.observation_space = self.observation_space`.
"""

# %%
### BEGIN SOLUTION
only_the_batch = "b"
### END SOLUTION

# %%
quiz("only_the_batch", only_the_batch)

# %% [markdown]
r"""
## A custom module uses what you know about the problem

The second environment is a job scheduler.
In an episode, the agent sends ten jobs one by one, each to one of twelve nodes.
For each node, it observes three numbers from 0 to 1: how full its queue is, how fast it is, and whether it already holds the job's data.
It earns 1 for a job if no other node would have finished it sooner, so guessing earns 10/12 per episode.

An observation is a table with the shape [12, 3].
RLlib's default network needs a vector, so the `FlattenObservations` connector turns the table into 36 numbers.
No decision affects later jobs, so $\gamma = 0$.
"""


# %% tags=["demo"]
def flatten(env=None, spaces=None, device=None):
    """Return RLlib's connector that turns a table into a vector."""
    return FlattenObservations()


config = ppo(Dispatcher, gamma=0).env_runners(env_to_module_connector=flatten)
queue_curves = {}
queue_curves["default network"], plain = learn(config, iterations)
print(f"return at the end: {queue_curves['default network']['episode_return_mean'].iloc[-1]:.1f} of 10")

# %% [markdown]
r"""
The default network learns, but slowly, because it has to discover twelve times, once for each node, that a full queue is bad.
You know that inputs 7 and 10 both describe a queue, so build that into the network with [*weight sharing*](../docs/glossary.md#weight-sharing): **the same small network scores every node**.

![One small network scores each row of the table; a second one gives each row a number, and their mean is the value](../img/ch14_scores.svg)

A module for PPO has three parts:

- `setup()` creates the layers.
  Their sizes come from `self.observation_space`, `self.action_space`, and `self.model_config`, which your config passes along with the class: `RLModuleSpec(module_class=ScoreEach, model_config={"hidden": 32})`.
- `_forward(batch)` serves all three `forward_...` methods of [Chapter 11](ch11_rllib_ppo.ipynb).
  `batch[Columns.OBS]` has the shape [B, nodes, 3] here, where B is the batch size.
  The method returns a dict with the key `Columns.ACTION_DIST_INPUTS`, which holds a score, or [*logit*](../docs/glossary.md#logit), for each action: shape [B, nodes].
  RLlib turns the logits into probabilities and samples the action.
- `compute_values(batch)` is the critic: it returns one estimate for each table, so its shape is **[B]**.
  The base class `ValueFunctionAPI` tells PPO's learner that the module has this method.
  Ignore `embeddings`, which is for networks that share layers.
"""

# %% [markdown]
r"""
Write `ScoreEach`, a module with two small networks, one for the scores and one for the values.
Each has a `Linear` layer to `self.model_config["hidden"]` units, a nonlinearity such as `Tanh`, and a `Linear` layer to one number.
(They may share the first layer.)
The value of a table is the **mean** over its nodes.
The check trains your module with PPO for one iteration, and then it shuffles the nodes and adds more.
"""


# %%
class ScoreEach(TorchRLModule, ValueFunctionAPI):
    """Scores every node with the same small network, so it works for any number of nodes."""

    def setup(self):
        """Create the two networks: features of a node -> hidden -> one number."""
        ### BEGIN SOLUTION
        features, hidden = self.observation_space.shape[-1], self.model_config["hidden"]
        self.score = nn.Sequential(nn.Linear(features, hidden), nn.Tanh(), nn.Linear(hidden, 1))
        self.value = nn.Sequential(nn.Linear(features, hidden), nn.Tanh(), nn.Linear(hidden, 1))
        ### END SOLUTION

    def _forward(self, batch, **kwargs):
        """Return {Columns.ACTION_DIST_INPUTS: scores}, shape [B, nodes]."""
        ### BEGIN SOLUTION
        return {Columns.ACTION_DIST_INPUTS: self.score(batch[Columns.OBS]).squeeze(-1)}
        ### END SOLUTION

    def compute_values(self, batch, embeddings=None):
        """Return the value of each table, shape [B]."""
        ### BEGIN SOLUTION
        return self.value(batch[Columns.OBS]).squeeze(-1).mean(dim=-1)
        ### END SOLUTION


# %%
check("ScoreEach", ScoreEach)

# %% [markdown] tags=["solution"]
r"""
Both calls to `squeeze(-1)` matter.
If you subtract targets of shape [B] from values of shape [B, 1], you get a [B, B] table of differences.
PyTorch minimizes the mean of their squares without complaint, and that moves every value toward the mean of all targets.

Don't keep layers in a plain Python list, either.
PyTorch finds layers only if they're attributes of the module, or are inside an attribute such as an `nn.ModuleList`.
Any others keep their initial weights forever, which is why the check trains your module.
"""

# %% tags=["demo"]
if passed("ScoreEach"):
    spec = RLModuleSpec(module_class=ScoreEach, model_config={"hidden": 32})
    queue_curves["ScoreEach"], module = learn(ppo(Dispatcher, gamma=0).rl_module(rl_module_spec=spec), iterations)
    draw(queue_curves, "episode_return_mean", "Job scheduler: ten jobs, twelve nodes", ylim=(0, 10))

# %% [markdown]
r"""
`ScoreEach` learns far more from the same number of steps, with about a fifteenth of the weights.
But these are only two runs, and both depend on the seed.
For a comparison, train both modules with several seeds, and plot the mean return of each inside a band from its worst run to its best.
This takes up to a minute.
"""


# %% tags=["demo"]
def both(seed):
    """Return the two configs to compare, both with this seed."""
    plain = ppo(Dispatcher, 0, seed).env_runners(env_to_module_connector=flatten)
    return {"default network": plain, "ScoreEach": ppo(Dispatcher, 0, seed).rl_module(rl_module_spec=spec)}


if passed("ScoreEach"):
    bands = {"default network": [], "ScoreEach": []}
    for seed in track(range(1, budget(5, 2) + 1), "training both modules"):
        for name, config in both(seed).items():
            bands[name].append(learn(config, iterations)[0])
    draw_bands(bands, "episode_return_mean", f"{seed} seeds per module: mean, and band from worst to best", ylim=(0, 10))

# %% [markdown]
r"""
If the two modules were equally good, all five runs of one would beat all five of the other in one experiment of 126, so bands that end apart are hardly luck.
With two runs of each, that happens in one experiment of three.
If the bands overlap, run more seeds.
Always say how many there are, because more seeds can only widen a band from worst to best.

**Predict:** the module was trained on twelve nodes.
If you give it a cluster of 40 nodes, without any more training, how many of a hundred jobs does it send to the best of the 40?
"""

# %% tags=["demo"]
predict("forty_nodes", ...)  # jobs of 100


# %% tags=["demo"]
def to_the_best(module, nodes, jobs=100):
    """Return how many of the jobs the module's most probable action sends to the best node."""
    env, right = Dispatcher({"nodes": nodes}), 0
    obs, _ = env.reset(seed=1)
    for _ in range(jobs):
        obs, reward, *_ = env.step(best_action(module, obs))
        right += int(reward)
    return right


if passed("ScoreEach"):
    for nodes in (4, 12, 40):
        print(f"{nodes:3} nodes: {to_the_best(module, nodes)} of 100 jobs go to the best node (guessing: {100 / nodes:.0f})")
    display(measured("forty_nodes", to_the_best(module, 40)))
    try:
        best_action(plain, np.zeros(40 * 3))  # what `flatten` makes of a table of 40 nodes
    except RuntimeError as error:
        print(" 40 nodes, default network:", error)

# %% [markdown]
r"""
`ScoreEach` is about as good with 40 nodes as with twelve, but the default network can't read such a table.
"""

# %%
### BEGIN SOLUTION
what_a_module_knows = "b"
### END SOLUTION

# %%
quiz("what_a_module_knows", what_a_module_knows)

# %% [markdown]
r"""
## A callback measures what the return doesn't show

The third environment is a cave of 20 by 20 squares.
The agent starts in a corner, and stepping onto the exit, the square (14, 12), earns 1 and ends the episode.
Nothing else earns anything, and after 80 steps the episode is truncated.
You'll try several rewards, whose returns can't be compared, so measure what you want to know: **how many episodes reach the exit?**

RLlib calls your code at many points, such as `on_episode_step`, `on_episode_end`, and `on_train_result`.
Callbacks that concern an episode receive that episode and a [`metrics_logger`](../docs/glossary.md#metrics-logger).
What you log there from any EnvRunner comes back in `result["env_runners"]`.
Three details matter:

- **An episode may come in [chunks](../docs/glossary.md#chunk).** For PPO, an EnvRunner collects a fixed number of steps and then delivers what it has, finished or not.
  `on_episode_end` receives only the *last* chunk as `episode`, and the `prev_episode_chunks` list contains the earlier ones.
  A chunk's `get_actions()` returns a list for the last chunk and an array for the others.
  The last chunk also tells how the episode ended: `episode.is_terminated` and `episode.is_truncated`.
- **Tell `log_value` how to summarize.** With `reduce="mean"`, an EnvRunner reports the mean of what it has logged since its last report.
  By default, it reports a moving average in which each new value counts for 1%.
- **Several reports become a mean of means** ([Chapter 11](ch11_rllib_ppo.ipynb)).
  Here, there's a single EnvRunner, so the mean is exact.
  With several, log counts with `reduce="sum"` and divide them yourself.
"""

# %% [markdown]
r"""
Write `Diary`, a callback that logs two numbers for each episode that ends, and summarizes each by its mean:

- `"arrived"` is 1 if the episode terminated, even if the same step was truncated, too, and 0 otherwise.
- `"steps_back"` is how many times the agent took action 0, a step to the left, **in the whole episode**.
"""


# %%
class Diary(RLlibCallback):
    """Logs how each episode ended, and how many steps back it contained."""

    def on_episode_end(self, *, episode, prev_episode_chunks, metrics_logger, **kwargs):
        """Log "arrived" (1.0 or 0.0) and "steps_back" (a count), once per episode."""
        ### BEGIN SOLUTION
        chunks = [*prev_episode_chunks, episode]
        actions = np.concatenate([chunk.get_actions() for chunk in chunks])
        metrics_logger.log_value("arrived", float(episode.is_terminated), reduce="mean")
        metrics_logger.log_value("steps_back", int(np.sum(actions == 0)), reduce="mean")
        ### END SOLUTION


# %%
check("Diary", Diary)

# %% [markdown] tags=["solution"]
r"""
Each remote EnvRunner has its own `Diary` in its own process, so a list that you keep in `self` never reaches you.
Values that you log do reach you.
A function works, too: `config.callbacks(on_episode_end=my_function)`.
You can also register several callbacks at once.
Each call also gets `env`, the vector environment, and `env_index`, so a callback can read state that no observation contains.
"""

# %%
### BEGIN SOLUTION
a_number_without_reduce = "c"
### END SOLUTION

# %%
quiz("a_number_without_reduce", a_number_without_reduce)

# %% [markdown]
r"""
The exit is 26 steps away, and PPO starts with a random walk.
Does it ever get there?

If building an environment takes several parts, pass a function that builds it to `register_env`, together with a name that RLlib's EnvRunners look up on whichever machine they run.
"""

# %% tags=["demo"]
gamma = 0.99  # the reward is far away
register_env("cave", lambda config: Cave())
register_env("bonus cave", lambda config: ProgressBonus(Cave()))
cave_curves, modules = {}, {}


def explore(name):
    """Return PPO for a cave, with the callback; in an iteration, each environment takes 80 steps, the limit of an episode."""
    config = ppo(name, gamma).training(train_batch_size_per_learner=800).callbacks(Diary)
    return config.training(entropy_coeff=0.006)  # rewards a random policy, so that exploration doesn't end too soon


if passed("Diary"):
    cave_curves["sparse"], modules["sparse"] = learn(explore("cave"), iterations)
    draw(cave_curves, "arrived", "Cave: fraction of episodes that reach the exit", ylim=(-0.05, 1.05))

# %% [markdown]
r"""
Usually no episode reaches the exit, because a random walk finds it about once in 650 episodes, and without any reward, there is nothing to learn from.
A reward that hardly ever comes is called [*sparse*](../docs/glossary.md#sparse-reward).

The obvious remedy is a bonus for every step in the right direction.
`ProgressBonus(Cave())` adds 0.5 for each step that leads nearer to the exit, and subtracts nothing for the others.

**Predict:** you train PPO again with this bonus.
Of a hundred episodes at the end, how many reach the exit?
"""

# %% tags=["demo"]
predict("bonus_arrivals", ...)  # of 100 episodes

# %% tags=["demo"]
if passed("Diary"):
    cave_curves["bonus"], modules["bonus"] = learn(explore("bonus cave"), iterations)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3), constrained_layout=True)
    draw(cave_curves, "episode_return_mean", "Return: what the agent collects", ylim=(-1, 30), ax=left)
    draw(cave_curves, "arrived", "Reached the exit: what you wanted", ylim=(-0.05, 1.05), ax=right)
    display(measured("bonus_arrivals", 100 * cave_curves["bonus"]["arrived"].dropna().iloc[-1]))

# %% [markdown]
r"""
The return rises, but in the end, hardly any episode reaches the exit.
Even the random walk at the start of training collects about 20, because half of its steps lead nearer, while the shortest path to the exit earns only 14.
So PPO learns to stay away from the exit.

A step forward earns 0.5, a step back costs nothing, and the exit ends the episode, so the agent learns to step back and forth until time runs out.
This is [*reward hacking*](../docs/glossary.md#reward-hacking): collecting reward in a way that its author didn't intend.
Without the callback, you'd have seen only the left plot.
"""

# %%
### BEGIN SOLUTION
return_and_arrivals = "b"
### END SOLUTION

# %%
quiz("return_and_arrivals", return_and_arrivals)

# %% [markdown]
r"""
## A potential shapes the reward without changing the best policy

Adding rewards that guide the agent is called [*reward shaping*](../docs/glossary.md#reward-shaping).
Ng, Harada, and Russell (1999) found a safe way: [*potential-based* shaping](../docs/glossary.md#potential-based-reward-shaping).
Give each state $s$ a number, its **potential** $\Phi(s)$, and add the discounted change in potential to each reward:

$$r' = r + \gamma\,\Phi(s') - \Phi(s), \qquad \Phi(s') = 0 \text{ if the episode terminated in } s'.$$

If you add these rewards up over a terminated episode, discounted by $\gamma$, all potentials but the first cancel:

$$\sum_t \gamma^t r'_t = \sum_t \gamma^t r_t - \Phi(s_0).$$

$\Phi(s_0)$ doesn't depend on what the agent does, so the best policy is still the best, but now each step shows whether it was progress.

![A bonus pays for every round trip; a potential takes back on the way down what it paid on the way up](../img/ch14_shaping.svg)

**Predict:** with $\gamma = 0.99$, an agent steps from a potential of 0.5 to one of 0.6, and back again.
Neither step earns a reward from the environment.
Are the two shaped rewards together more than 0, exactly 0, or less than 0?
"""

# %% tags=["demo"]
predict("round_trip", ..., ["more than 0", "exactly 0", "less than 0"])

# %% tags=["demo"]
there, back = 0.99 * 0.6 - 0.5, 0.99 * 0.5 - 0.6
print(f"there: {there:+.3f}, back: {back:+.3f}, together: {there + back:+.3f}")
measured("round_trip", "less than 0" if there + back < 0 else "more than 0")

# %% [markdown]
r"""
The round trip costs a little, because each new potential is discounted.
That's true of every round trip if the potential is positive, so stepping back and forth no longer pays.

An episode can end in two ways:

- *Terminated*: nothing comes after this step, so $\Phi(s')$ is 0, whatever the last observation is.
- *Truncated*: the episode would have continued, so $\Phi(s')$ counts as usual.

If a step sets both flags, the episode has terminated.

Write `Shaped`, a wrapper that adds $\gamma\,\Phi(s') - \Phi(s)$ to each reward.
`potential` is a function of an observation.
`reset` and `step` pass on everything else unchanged, including the arguments of `reset`.
"""


# %%
class Shaped(gymnasium.Wrapper):
    """Adds the discounted change in potential to each reward of an environment."""

    def __init__(self, env, potential, gamma):
        super().__init__(env)
        self.potential, self.gamma = potential, gamma

    def reset(self, *, seed=None, options=None):
        """Reset the environment, and return what it returns."""
        ### BEGIN SOLUTION
        obs, info = self.env.reset(seed=seed, options=options)
        self.before = self.potential(obs)
        return obs, info
        ### END SOLUTION

    def step(self, action):
        """Take the step, and return its five values, with the change in potential added to the reward."""
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
Use the algorithm's $\gamma$ here, because otherwise the potentials in between don't cancel.
A potential doesn't need to be clever, as long as it rises on the way to the goal.
If it misleads, the agent takes longer to learn, but the best policy is still the best.

If you keep the observation instead of its potential, keep a copy, because an environment may write the next observation into the same array.
"""

# %% [markdown]
r"""
`nearness(obs)` is 1 at the exit and 0 at the start, so it can serve as the potential.
Here is the third curve, with the return at the end:
"""

# %% tags=["demo"]
if passed("Shaped") and passed("Diary"):
    register_env("shaped cave", lambda config: Shaped(Cave(), nearness, gamma))
    cave_curves["shaped"], modules["shaped"] = learn(explore("shaped cave"), iterations)
    draw(cave_curves, "arrived", "Cave: fraction of episodes that reach the exit, for three rewards", ylim=(-0.05, 1.05))
    print(f"return at the end: {cave_curves['shaped']['episode_return_mean'].dropna().iloc[-1]:.2f}")


# %% [markdown]
r"""
Now the agent reaches the exit.
The last step takes back all that the potential has paid on the way.
The remaining return is a little less than 1, because RLlib reports the return without discounting it: every step but the last costs 1% of the potential that it reaches.
Log the arrivals all the same, because an episode that is truncated one square before the exit keeps almost the whole potential.

Here are the paths of the three agents, each of which takes its most probable action.
If a path has fewer dots than its title says, the agent stepped back and forth or pushed against a wall:
"""


# %% tags=["demo"]
def path(module):
    """Return the squares that a module visits in one episode in the cave, shape [steps + 1, 2]."""
    env, squares, over = Cave(), [(0, 0)], False
    obs, _ = env.reset(seed=0)
    while not over:
        obs, _, terminated, truncated, _ = env.step(best_action(module, obs))
        squares.append((env.x, env.y))
        over = terminated or truncated
    return np.array(squares)


if len(modules) == 3:
    figure, grid = plt.subplots(1, 3, figsize=(10, 3.4), constrained_layout=True, sharey=True)
    for ax, (name, module), color in zip(grid, modules.items(), ["#64748b", "#7c3aed", "#059669"], strict=True):
        squares = path(module)
        ax.plot(*squares.T, ".-", color=color)
        ax.plot(*Cave.exit, "*", color="#db2777", markersize=14)
        ax.set(title=f"{name}: {len(squares) - 1} steps", xlim=(-1, 20), ylim=(-1, 20), xticks=range(0, 20, 5), yticks=range(0, 20, 5), aspect="equal")

# %% [markdown] tags=["notes"]
r"""
Ask who has rewarded one thing and got another.
Most people have a story, and few of the stories are about computers.
Then ask what they should have measured.
"""

# %%
ray.shutdown()

# %% [markdown]
r"""
## Ray pickles your classes for remote EnvRunners

So far, everything has run in the notebook's process.
To move the EnvRunners into processes of their own, or to other machines, you only change `num_env_runners`.
Ray pickles a class from a notebook *by value*, so its code is sent with the config.
In a real project, put such classes into a package, installed on every node or shipped with a runtime environment ([Chapter 6](ch06_cluster.ipynb)).
If you edit a class after `build_algo`, the running algorithm keeps the old version.

Older tutorials have custom models, filters, and `on_postprocess_trajectory` instead: see [Old names](../docs/old_names.md).
"""

# %% [markdown]
r"""
## What you can do now

- You can choose among five places for your own code.
- You can write a connector whose changes reach the module *and* the learner, and a module with a value function.
- You can show with a callback what a return hides, and guide an agent with a potential that doesn't mislead it.
- You can compare modules by bands over several seeds instead of by one lucky run.

## Traps

- **Inputs far beyond $-1$ and 1** make a task look as if it couldn't be learned.
- **If a connector changes only the batch,** the learner trains on different observations from those the module acted on.
- **Values of shape [B, 1]** raise no error, but they spoil the critic.
- **`on_episode_end` receives only the last chunk**, and `log_value` without `reduce=` reports a moving average.
- **A bonus that nothing takes back** is collected until time runs out.
- **`terminated` and `truncated`** must be told apart for a potential, too.

## Read on

- [Chapter 15](ch15_offline.ipynb) learns from recorded experience, and [Chapter 23](ch23_self_play.ipynb) fills the fifth place with two agents.
- To change the algorithm itself, subclass the **Learner** and write your own loss (`compute_loss_for_module`, [Chapter 22](ch22_inside_rllib.ipynb)), add other connectors (`learner_connector`, `module_to_env_connector`), or override the algorithm's `training_step`.
- RLlib's docs: [RLModules](https://docs.ray.io/en/latest/rllib/rl-modules.html), [connectors](https://docs.ray.io/en/latest/rllib/connector-v2.html), [callbacks](https://docs.ray.io/en/latest/rllib/rllib-callback.html), and [several agents](https://docs.ray.io/en/latest/rllib/multi-agent-envs.html).
- Ng, Harada, and Russell, *Policy invariance under reward transformations*, ICML 1999.
- Randløv and Alstrøm, *Learning to drive a bicycle using reinforcement learning and shaping*, ICML 1998: a bicycle, rewarded for moving toward its goal, learns to ride in circles.
"""
