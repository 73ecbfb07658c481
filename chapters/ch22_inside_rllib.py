# %% [markdown] you_learn_to="write a loss, a mask, a memory, and run RLlib on several nodes"
r"""
# Chapter 22 · Inside RLlib

You replace one method and keep the rest.

*About 120 minutes · builds on [Chapter 11](ch11_rllib_ppo.ipynb) and [Chapter 14](ch14_custom.ipynb); [Chapters 4](ch04_scheduling.ipynb) and [16](ch16_tune.ipynb) help*

**What you will be able to do**

- find the place in RLlib's three pipelines where your connector belongs;
- mask invalid actions, and explain why the masked logits must stay finite;
- replace a Learner's loss;
- write a stateful module, for a task that needs a memory;
- serve a policy with continuous actions as RLlib would;
- choose the nodes on which EnvRunners run;
- evaluate in parallel with training;
- continue a trial whose node has died;
- find out why an algorithm doesn't learn.
"""

# %%
import tempfile

import gymnasium
import matplotlib.pyplot as plt
import numpy as np
import pandas
import ray
import torch

from coursekit import begin, budget, check, explain, hint, measured, passed, predict, progress, puzzle, quiz, review
from coursekit import solution, track
from coursekit.given.ch22_inside_rllib import Blind, Courier, Greenhouse, built, colleague, draw, perfect_critic
from coursekit.given.ch22_inside_rllib import log_node, log_wasted, node_here, node_names, pieces, transcript
from coursekit.given.nodes import add_nodes, node_resources, small_cluster, stop

begin("ch22_inside_rllib")

# %%
from ray import tune
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.connectors.env_to_module import FlattenObservations
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

from coursekit.given.node_killer import EndsItsNode
from coursekit.given.unfinished_modules import Scorer, TwoObservations

# %%
cluster = small_cluster(num_cpus=1)  # stops an earlier cluster: its references and actors are gone
ray.init(address=cluster.address, log_to_driver=False)
add_nodes(cluster, west={"num_cpus": 2, "resources": {"sim": 1}}, east={"num_cpus": 2, "resources": {"sim": 1}})
torch.set_num_threads(1)  # networks as small as these gain nothing from more
node_resources()

# %% [markdown] tags=["notes"]
r"""
Do `diagnose` in the room: it brings the chapter together, and it works well in pairs.
Up to the section on parallel evaluation, everything runs in the notebook's own process, so mistakes show up with their own tracebacks.
"""

# %% [markdown]
r"""
## Your code goes into three pipelines, the module, and the loss

In Chapter 14, you put code *around* the algorithm.
Now you change what's inside, still without editing RLlib's source.

![An EnvRunner has a pipeline from the environment to the module and one back; a third one leads from the episodes to the Learner, which computes a loss and sends weights back](../img/ch22_inside_rllib.svg)

Each pipeline is a list of connectors.

In the first environment, eight addresses form a ring, and a courier starts each day (an episode) at one of them, with a package for each of the other seven.
"""


# %%
def ppo(env, **training):
    """Return PPO for a small environment: this process samples 500 steps per iteration, in ten copies of the environment."""
    training = {"lr": 0.005, "gamma": 0.95, "minibatch_size": 100} | training
    training = {"vf_clip_param": 1e4} | training  # effectively no limit, as in Chapter 11
    return (
        PPOConfig()
        .environment(env)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=10)
        .training(train_batch_size_per_learner=500, num_epochs=8, lambda_=0.95, **training)
        .training(use_kl_loss=False)  # clipping the ratio keeps the updates small enough, as in Chapter 10
        .debugging(seed=0, log_sys_usage=False)
    )


def courier(module, **training):
    """Return PPO for the courier, with a module of this class and a callback that logs wasted trips."""
    config = ppo(Courier, **training).rl_module(rl_module_spec=RLModuleSpec(module_class=module))
    return config.callbacks(on_episode_end=log_wasted)


# %% tags=["demo"]
with built(courier(Scorer)) as algo:
    print("env to module:", pieces(algo.env_runner._env_to_module))
    print("module to env:", pieces(algo.env_runner._module_to_env))
    print("learner:      ", pieces(algo.learner_group._learner._learner_connector))

# %% [markdown]
r"""
In the env-to-module pipeline, your connectors come first.
In the [module-to-env pipeline](../docs/glossary.md#module-to-env-pipeline), they come just before `NormalizeAndClipActions`, where the actions are still as sampled.
In the [learner pipeline](../docs/glossary.md#learner-pipeline), they come right after `AddOneTsToEpisodesAndTruncate`, which you'll meet below.

You'll mostly write **one method**, as a function that takes `self`, and a later cell puts it into a class.

## A mask makes invalid actions impossible

The courier's action is the next address.
A trip to an address that still waits costs its shortest distance along the ring, divided by 8; any other trip is wasted and costs 1.
The observation in `batch[Columns.OBS]` is a dict: `"seen"` says which addresses wait and where the courier is, and `"mask"` is 1 for each address that waits.

In the `Scorer` module, the `self.score` network turns `"seen"` into logits, one per address.
The module ignores the mask, so PPO must *learn* which trips are wasted.
With [**action masking**](../docs/glossary.md#action-masking), you set the logit of every invalid action so low that the action's probability is 0.

Write `masked`, a better `_forward`, which returns a dict with the logits under `Columns.ACTION_DIST_INPUTS`:

- An address that doesn't wait has probability 0; among the others, the probabilities keep their ratios.
- All logits are finite, even if nothing waits, because RLlib also runs the module on the last observation of a day.
- The batch stays unchanged, because the critic reads it, too.
"""


# %%
def masked(self, batch, **kwargs):
    """Return {Columns.ACTION_DIST_INPUTS: logits}, finite, of shape [B, addresses]; an address whose mask is 0 is never chosen."""
    ### BEGIN SOLUTION
    logits = self.score(batch[Columns.OBS]["seen"])
    lowest = torch.finfo(logits.dtype).min
    return {Columns.ACTION_DIST_INPUTS: logits.masked_fill(batch[Columns.OBS]["mask"] == 0, lowest)}
    ### END SOLUTION


# %%
check("masked", masked)

# %% [markdown] tags=["solution"]
r"""
`-1e9` is low enough, too, but float16 can't hold it: there, `masked_fill` raises an error, and subtracting 1e9 gives minus infinity.
`torch.finfo(logits.dtype).min` fits every type.

The EnvRunner and the Learner must use the same `_forward`.
If the mask applied only when acting, the Learner would compute another $\log \pi$ for the same action, and the ratio would be wrong before the first gradient step.
"""

# %% [markdown]
r"""
**Predict:** at first, a policy without a mask chooses among the eight addresses almost at random, for at most 30 trips per day.
How many trips per day does it waste, on average, in the first iteration?
"""

# %% tags=["demo"]
predict("wasted_trips", ...)  # wasted trips per day


# %%
class Masked(Scorer):
    """Chooses only addresses that wait."""

    _forward = masked


def train(config, iterations):
    """Return what the EnvRunner reported after each iteration, as a table, and the trained module."""
    with built(config) as algo:
        reports = [algo.train()["env_runners"] for _ in range(iterations)]
        return pandas.DataFrame(reports), algo.env_runner.module


# %% tags=["demo"]
if passed("masked"):
    iterations = budget(20, 4)
    days = {name: train(courier(kind), iterations)[0] for name, kind in [("no mask", Scorer), ("masked", Masked)]}
    figure, both = plt.subplots(1, 2, figsize=(9, 2.8), constrained_layout=True)
    draw({name: day["wasted"] for name, day in days.items()}, "Wasted trips", "trips per day", both[0])
    draw({name: day["episode_return_mean"] for name, day in days.items()}, "Return", "mean return", both[1])
    display(measured("wasted_trips", days["no mask"]["wasted"].iloc[0]))

# %% [markdown]
r"""
On the best day, the courier visits the addresses in order around the ring, for a return of $-7/8$.
With the mask, the policy only has to learn the order of the addresses.
Without it, the policy must first learn to avoid wasted trips, which takes longer than quick mode runs.
"""

# %%
### BEGIN SOLUTION
why_not_infinity = "a"
### END SOLUTION

# %%
quiz("why_not_infinity", why_not_infinity)

# %% [markdown]
r"""
## A loss of your own is one method of the Learner

For each minibatch, the **Learner** passes the output of the module's `forward_train` to `compute_loss_for_module` and takes a gradient step on the loss that this method returns.

[Simple policy optimization](../docs/glossary.md#spo) (SPO, Xie et al. 2025) doesn't clip the ratio.
Instead, it adds a penalty for every step whose ratio moves away from 1, in proportion to the size of the advantage:

$$L = \frac{1}{N} \sum_i \Bigl[ - r_i A_i + \frac{|A_i|}{2 \epsilon} (r_i - 1)^2 + c\,(v_i - g_i)^2 \Bigr]$$

$$r_i = \exp\bigl(\log \pi_\theta(a_i) - \log \pi_{old}(a_i)\bigr)$$

For a positive advantage, the gain $r A$ minus the penalty is largest at $r = 1 + \epsilon$, where PPO's clip begins; for a negative one, it's largest at $1 - \epsilon$.
Beyond that point, SPO's gradient pulls the ratio back, while PPO's gradient is 0.

| in the formula | in RLlib |
|---|---|
| logits behind $\pi_\theta$ | `fwd_out[Columns.ACTION_DIST_INPUTS]` |
| the distribution | `module.get_train_action_dist_cls().from_logits(logits)`, which has `logp(actions)` |
| $a_i$, $\log \pi_{old}(a_i)$ | `batch[Columns.ACTIONS]`, `batch[Columns.ACTION_LOGP]` |
| $A_i$, $g_i$ | `batch["advantages"]`, `batch["value_targets"]` |
| $v_i$ | `module.compute_values(batch)` |
| $\epsilon$, $c$ | `config.clip_param`, `config.vf_loss_coeff` |

To estimate what comes after an episode's last step, `AddOneTsToEpisodesAndTruncate` adds a row to the episode.
That row never happened and must not count: the [loss mask](../docs/glossary.md#loss-mask), `batch[Columns.LOSS_MASK]`, is True for the $N$ rows that did happen.

Write `own_loss`, which returns $L$ as a tensor with one number.
"""


# %%
def own_loss(self, *, module_id, config, batch, fwd_out):
    """Return the loss of simple policy optimization with a critic, a tensor with one number (Xie et al. 2025)."""
    module = self.module[module_id].unwrapped()
    ### BEGIN SOLUTION
    dist = module.get_train_action_dist_cls().from_logits(fwd_out[Columns.ACTION_DIST_INPUTS])
    ratio = torch.exp(dist.logp(batch[Columns.ACTIONS]) - batch[Columns.ACTION_LOGP])
    a = batch["advantages"]
    penalty = a.abs() / (2 * config.clip_param) * (ratio - 1) ** 2
    error = (module.compute_values(batch) - batch["value_targets"]) ** 2
    each = -ratio * a + penalty + config.vf_loss_coeff * error
    return each[batch[Columns.LOSS_MASK]].mean()
    ### END SOLUTION


# %%
check("own_loss", own_loss)

# %% [markdown] tags=["solution"]
r"""
RLlib's PPO averages in the same way; look for `possibly_masked_mean` in its source.
To keep PPO's loss and only *add* a term, call `super().compute_loss_for_module(...)` in the class and add the term to its result.
To pass a setting, such as the term's weight, use `.learners(learner_config_dict={"weight": 0.1})` and read `config.learner_config_dict["weight"]`.

Your method logs nothing, not even `vf_explained_var`, unless you call `self.metrics.log_value((module_id, "a name"), number)`.
"""


# %%
class OwnLearner(PPOTorchLearner):
    """PPO's Learner with another loss."""

    compute_loss_for_module = own_loss


# %% tags=["demo"]
if passed("masked") and passed("own_loss"):
    config = courier(Masked).learners(learner_class=OwnLearner)
    rounds = {"PPO's loss": days["masked"], "your loss": train(config, iterations)[0]}
    draw({name: day["episode_return_mean"] for name, day in rounds.items()}, "One module, two losses", "mean return")

# %% [markdown]
r"""
One seed on one small problem doesn't tell you which loss is better; see [Chapter 13](ch13_algorithms.ipynb).

## A learner connector changes the rewards that the learner sees, not the reported return

The second environment is a greenhouse that you water ten times per day, with 0 to 40 liters each time.
The reward is minus the number of liters too many or too few.
PPO's critic has trouble with such numbers, because by default a squared error above `vf_clip_param=10` has no gradient (Chapter 11).

So far, we've raised that limit.
You can also divide the rewards and still report returns in liters, because the learner pipeline gets an episode after the EnvRunner has computed its return:
"""


# %%
class Divide(ConnectorV2):
    """Divides all rewards of the episodes that the learner learns from."""

    def __call__(self, *, batch, episodes, **kwargs):
        """Change the episodes, and return the batch unchanged."""
        for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            rewards = episode.get_rewards() / 40
            episode.set_rewards(new_data=rewards, at_indices=slice(0, len(rewards)))
        return batch


def greenhouse():
    """Return PPO for the greenhouse: each reward depends on one action alone, so gamma is 0."""
    config = ppo(Greenhouse, gamma=0.0, lr=0.003, vf_clip_param=10)  # RLlib's default limit
    return config.rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[32], vf_share_layers=False))


# %% [markdown]
r"""
In Chapter 11, an explained variance near 0 meant that the critic wasn't learning.
But the critic doesn't see the action, and while the policy explores, one observation leads to many different rewards.
Even a *perfect* critic, which knows the mean reward for every observation, can't predict those differences.

**Predict:** in the first iteration, the policy chooses amounts almost at random.
What is the explained variance of the perfect critic?
"""

# %% tags=["demo"]
predict("perfect_critic", ...)  # from 0 to 1


# %% tags=["demo"]
def watch_critic(config, scale=1):
    """Return the errors (in liters) and explained variances of a critic and of a perfect one as a table, a row per iteration, and the module."""
    table = []
    with built(config) as algo:
        for _ in range(budget(6, 4)):
            least, most = perfect_critic(algo.env_runner.module)  # for the policy that samples next
            result = algo.train()
            critic = result["learners"]["default_policy"]
            row = {"error": scale * critic["vf_loss_unclipped"] ** 0.5, "explained": critic["vf_explained_var"]}
            table.append(row | {"least": least, "most": most, "return": result["env_runners"]["episode_return_mean"]})
        return pandas.DataFrame(table), algo.env_runner.module


# %% tags=["demo"]
default, _ = watch_critic(greenhouse())
divided, gardener = watch_critic(greenhouse().learners(learner_connector=lambda *_: Divide()), scale=40)
figure, both = plt.subplots(1, 2, figsize=(9, 2.8), constrained_layout=True)
errors = {"default": default["error"], "divided": divided["error"], "perfect critic": divided["least"]}
draw(errors, "Error of the critic", "root mean square, liters", both[0])
explained = {"default": default["explained"], "divided": divided["explained"], "perfect critic": divided["most"]}
axes = draw(explained, "What the critic explains", "explained variance", both[1])
axes.set_ylim(-0.5, 1)
for name, table in [("default", default), ("divided", divided)]:
    print(f"{name}: the mean return is {table['return'].iloc[-1]:.0f} liters in the last iteration")
measured("perfect_critic", divided["most"].iloc[0])

# %% [markdown]
r"""
At first, even a perfect critic explains little of the variance.
So compare an explained variance with this ceiling, not with 1, or look at the error.
In the *default* run, the error starts far above that of the perfect critic, because most steps have no gradient, and it comes down as the policy improves.
With divided rewards, the critic is close to perfect from the start.
RLlib's error and explained variance fluctuate, because each comes from a single minibatch, so the error can even fall below the perfect critic's; the explained variance also includes the rows that never happened.

Both returns are in liters.
With `num_env_runners=0`, they wouldn't be if a batch cut an episode in two: the Learner would divide the first part before RLlib adds up the return.
"""

# %%
### BEGIN SOLUTION
what_the_result_reports = "b"
### END SOLUTION

# %%
quiz("what_the_result_reports", what_the_result_reports)

# %% [markdown]
r"""
## RLlib rescales a continuous action before the environment gets it

Now serve this policy without RLlib, as in Chapter 11.
The network returns the mean of a normal distribution and the logarithm of its standard deviation; if an action has several numbers, all means come first.
The best action is the mean.

**Predict:** on the driest, brightest day, the plants need 40 liters.
Which mean does a well-trained network return?
"""

# %% tags=["demo"]
predict("network_mean", ...)  # the mean that the network returns

# %% tags=["demo"]
dry_and_bright = torch.tensor([[1.0, 1.0]])
mean, log_deviation = gardener.forward_inference({"obs": dry_and_bright})["action_dist_inputs"][0].tolist()
print(f"mean {mean:.2f}, logarithm of the standard deviation {log_deviation:.2f}")
measured("network_mean", mean)

# %% [markdown]
r"""
The mean is a number around 1, or less while the network still has much to learn.
That's right, because `NormalizeAndClipActions` still converts it to liters.
By default (`normalize_actions=True`), RLlib [unsquashes](../docs/glossary.md#unsquash) the action: it maps −1 to the space's `low` and 1 to its `high`, interpolates linearly, and clips the result to the bounds.
If any bound is infinite, RLlib leaves the whole action unchanged.

Write `unsquash`, which takes the network, an observation, and the action space, a `Box` of floats with the shape [n].
It returns the action that RLlib would send to the environment with `explore=False`.
"""


# %%
def unsquash(network, obs, space):
    """Return the best action for one observation, of shape [n], in the units of the Box `space`."""
    ### BEGIN SOLUTION
    said = network.forward_inference({Columns.OBS: torch.as_tensor(obs)[None]})[Columns.ACTION_DIST_INPUTS][0]
    mean = said[: len(said) // 2].detach().numpy()
    if not (space.is_bounded("below") and space.is_bounded("above")):
        return mean
    return np.clip(space.low + (mean + 1) * (space.high - space.low) / 2, space.low, space.high)
    ### END SOLUTION


# %%
check("unsquash", unsquash)

# %% [markdown] tags=["solution"]
r"""
RLlib calls `unsquash_action` from `ray.rllib.utils.spaces.space_utils`, and you may call it, too.
`network.get_inference_action_dist_cls().from_logits(said).to_deterministic().sample()` gives the best action for every kind of distribution; here, it's the mean.
"""

# %% tags=["demo"]
if passed("unsquash"):
    house, totals = Greenhouse(), {"the network's means": 0.0, "unsquashed": 0.0}
    for name in totals:
        obs, _ = house.reset(seed=1)
        for _ in range(10):
            action = unsquash(gardener, obs, house.action_space)
            if name == "the network's means":
                action = 2 * action / 40 - 1  # what you would send if you didn't unsquash
            obs, reward, *_ = house.step(action)
            totals[name] += reward
    print({name: f"{-total:.0f} liters off" for name, total in totals.items()})

# %% [markdown]
r"""
## A policy that sees one observation can't tell whether the pole is falling

The third environment is CartPole *without its velocities*: you see that the pole leans, but not whether it's falling.
Such [partial observability](../docs/glossary.md#partial-observability) is common, and here, only the previous observation is missing.
You can keep it in two places:

- **In the observation.** This is called [frame stacking](../docs/glossary.md#frame-stacking): Gymnasium's `FrameStackObservation` does it for any environment, and RLlib's `FrameStackingEnvToModule` does it for images whose last dimension is 1.
- **In the module.** A [stateful module](../docs/glossary.md#stateful-module) returns a state, `STATE_OUT`, with its logits.
  RLlib stores it in the episode and passes it back as `STATE_IN` at the next step; at the first step, it passes what `get_initial_state()` returns.
  An LSTM is such a module: `DefaultModelConfig(use_lstm=True)`.

Here are stacked observations, after a reset and after one step:
"""

# %% tags=["demo"]
stacking = gymnasium.wrappers.FrameStackObservation(Blind(), 2)
print(stacking.reset(seed=1)[0].round(3))
print(stacking.step(1)[0].round(3))

# %% [markdown]
r"""
A reset fills both places with the first observation.

In the `TwoObservations` module, the state is the previous observation, or zeros at the start of an episode.
`self.score` takes $2n$ numbers: the current observation, and then the previous one.

A stateful module reads *sequences* of observations, shape [B, T, n].
In an EnvRunner, T is 1.
In the Learner, T is `max_seq_len`: RLlib cuts episodes into sequences of this length and pads the last one with zeros, which the loss mask leaves out.
The incoming state, `batch[Columns.STATE_IN]["before"]` of shape [B, n], precedes only the **first** step of each sequence.

Write `remembers`, the `_forward` of this module, which returns a dict with three entries:

- `Columns.ACTION_DIST_INPUTS`: the logits of each step, shape [B, T, actions];
- `Columns.EMBEDDINGS`: both observations of each step, shape [B, T, 2n], for the critic;
- `Columns.STATE_OUT`: `{"before": ...}` for the step after the sequence, shape [B, n].
"""


# %%
def remembers(self, batch, **kwargs):
    """Return the logits, the embeddings, and the outgoing state for sequences of observations, shape [B, T, n]."""
    ### BEGIN SOLUTION
    obs = batch[Columns.OBS]
    earlier = torch.cat([batch[Columns.STATE_IN]["before"][:, None], obs[:, :-1]], dim=1)
    pairs = torch.cat([obs, earlier], dim=-1)
    state = {"before": obs[:, -1]}
    return {Columns.ACTION_DIST_INPUTS: self.score(pairs), Columns.EMBEDDINGS: pairs, Columns.STATE_OUT: state}
    ### END SOLUTION


# %%
check("remembers", remembers)

# %% [markdown] tags=["solution"]
r"""
The check reads each sequence twice, as a whole and step by step, and expects the same logits.
That's the contract of a stateful module: the Learner must see what the EnvRunner saw, or PPO's ratio compares two different policies.
"""


# %%
class Remembers(TwoObservations):
    """Sees the current observation and remembers the previous one."""

    _forward = remembers


def cartpole(env, spec=None):
    """Return PPO for a CartPole, with the default network or the module of a spec."""
    small = DefaultModelConfig(fcnet_hiddens=[32, 32], vf_share_layers=False)
    how = {"rl_module_spec": spec} if spec else {"model_config": small}
    config = ppo(env, lr=0.003, gamma=0.98, minibatch_size=200, grad_clip=0.5)
    return config.training(train_batch_size_per_learner=1000).rl_module(**how)


spec = RLModuleSpec(module_class=Remembers, model_config={"max_seq_len": 20})
tune.register_env("two frames", lambda config: gymnasium.wrappers.FrameStackObservation(Blind(), 2))

# %% [markdown]
r"""
The next cell trains three policies: one sees a single observation, one sees two stacked ones, and one has a state.
That takes up to a minute.

**Predict:** an episode ends after at most 200 steps.
What mean return does the policy with one observation reach in the last iteration?
"""

# %% tags=["demo"]
predict("one_observation", ...)  # mean return

# %% tags=["demo"]
if passed("remembers"):
    stacked = cartpole("two frames").env_runners(env_to_module_connector=lambda *_: FlattenObservations())
    configs = {"one observation": cartpole(Blind), "stacked": stacked, "stateful": cartpole(Blind, spec)}
    poles = {}
    for name in track(configs, "training three policies"):
        poles[name] = train(configs[name], budget(25, 3))[0]["episode_return_mean"]
    draw(poles, "CartPole without velocities, at most 200 steps", "mean return")
    display(measured("one_observation", poles["one observation"].iloc[-1]))

# %% [markdown]
r"""
With one observation, the curve rises at first and then, beyond quick mode, levels off: training can't replace information that isn't in the data.
When a curve levels off, ask what the policy can *see* before you change the learning rate.
"""

# %%
### BEGIN SOLUTION
who_carries_the_state = "b"
### END SOLUTION

# %%
quiz("who_carries_the_state", who_carries_the_state)

# %% [markdown]
r"""
## Evaluation can run in parallel with training

With `evaluation_interval=2`, RLlib evaluates the policy in every second iteration, and training waits.
With `evaluation_parallel_to_training=True`, both run at the same time, in separate EnvRunners.
RLlib then evaluates the weights from the *start* of that iteration.

`evaluation_duration` is a number of episodes here.
With `"auto"`, the evaluation runs for as long as the training iteration does, and that may be too short for a long episode to end.
"""

# %% tags=["demo"]
if passed("remembers"):
    how = {"evaluation_interval": 2, "evaluation_num_env_runners": 1, "evaluation_duration": 10}
    parallel = {"evaluation_parallel_to_training": True, "evaluation_config": {"explore": False}}
    rows = []
    with built(cartpole(Blind, spec).evaluation(**how, **parallel)) as algo:
        for iteration in range(1, budget(8, 2) + 1):
            result = algo.train()
            row = {"seconds": result["time_this_iter_s"], "training": result["env_runners"]["episode_return_mean"]}
            if iteration % 2 == 0:
                row |= {"evaluation": result["evaluation"]["env_runners"]["episode_return_mean"]}
            rows.append(row)
    display(pandas.DataFrame(rows, index=pandas.RangeIndex(1, len(rows) + 1, name="iteration")).round(2))

# %% [markdown]
r"""
Compare the seconds with and without an evaluation.
On two cores, training and evaluation compete for the CPUs; on a cluster, each has its own.

## A custom resource puts one EnvRunner on each of two nodes

Your notebook is connected to three nodes: the head with one CPU, and `west` and `east`, each with two CPUs and one `sim`, a [custom resource](../docs/glossary.md#custom-resource) that stands for a simulator license.

By default, an EnvRunner requests one CPU and nothing else, so two of them may share a node, and one may run on the head.
`.env_runners(...)` can request more for each of them, with `num_cpus_per_env_runner`, a number, and `custom_resources_per_env_runner`, a dict.

Write `two_nodes`, which takes a config and returns it with two EnvRunners, one of which must run on `west` and the other on `east`.
It leaves the other settings unchanged.
"""


# %%
def two_nodes(config):
    """Return the config with two EnvRunners, one of which must run on west and the other on east."""
    ### BEGIN SOLUTION
    return config.env_runners(num_env_runners=2, custom_resources_per_env_runner={"sim": 1})
    ### END SOLUTION


# %%
check("two_nodes", two_nodes)

# %% tags=["demo"]
if passed("two_nodes"):
    with built(two_nodes(courier(Scorer))) as algo:
        homes = algo.env_runner_group.foreach_env_runner(node_here, local_env_runner=False)
        print("The real EnvRunners run on", sorted(node_names()[home] for home in homes))

# %% [markdown] tags=["solution"]
r"""
A node that has room for only one EnvRunner can't run both, and the head has no `sim` at all.
For learners, there is `custom_resources_per_learner`; for the algorithm's own process in a Tune trial, it's `custom_resources_for_main_process`.
"""

# %% [markdown]
r"""
## Tune continues a trial from its checkpoint, on another node

A long training run should survive the loss of its machine, and **Tune** can restart the run.
`checkpoint_frequency` is the number of iterations between [checkpoints](../docs/glossary.md#checkpoint), `max_failures` is the number of restarts allowed, and `storage_path` must be a folder that outlives the node, such as a shared disk or a bucket.

The trial below requests a `sim`, so it starts on `west` or `east`.

**Predict:** the trial saves a checkpoint after every second iteration, and the cell kills the trial's node right after the third report.
Which iteration is the fourth report about?
"""

# %% tags=["demo"]
predict("fourth_report", ...)  # iteration

# %% tags=["demo"]
if passed("remembers"):
    witness = EndsItsNode(after=3)
    config = cartpole(Blind, spec).resources(custom_resources_for_main_process={"sim": 1})
    saving = tune.CheckpointConfig(checkpoint_frequency=2)
    with tempfile.TemporaryDirectory() as folder:
        running = tune.RunConfig(
            storage_path=folder,
            stop={"training_iteration": 5},
            checkpoint_config=saving,
            failure_config=tune.FailureConfig(max_failures=1),
            callbacks=[witness],
            verbose=0,
        )
        tune.Tuner("PPO", param_space=config.callbacks(on_train_result=log_node), run_config=running).fit()
    display(pandas.DataFrame(witness.story, index=pandas.RangeIndex(1, len(witness.story) + 1, name="report")))
    display(measured("fourth_report", witness.story[3]["iteration"]))

# %% [markdown]
r"""
The last checkpoint was from the second iteration, so the other node trained and reported the third one again.
"""

# %%
### BEGIN SOLUTION
what_a_lost_node_costs = "b"
### END SOLUTION

# %%
quiz("what_a_lost_node_costs", what_a_lost_node_costs)

# %% [markdown]
r"""
## Six numbers show why an algorithm doesn't learn

A colleague has "improved" the courier's config, and now PPO learns nothing, without an error or a warning.
`transcript` builds the algorithm, samples 300 steps, makes the learner's batch, trains for one iteration, and returns six numbers:

| key | what it measures | healthy | otherwise, the fault is |
|---|---|---|---|
| `"explored"` | fraction of steps whose action wasn't the most probable one | above 0 | `"explore"` |
| `"obs gap"` | largest difference between what the module acted on and what the learner gets | at most 1e-4 | `"env_to_module"` |
| `"logp gap"` | largest difference between $\log \pi$ when acting and when learning, with the same weights | at most 1e-4 | `"module"` |
| `"rewards agree"` | correlation between the sampled rewards and the learner's | at least 0.999 | `"learner_connector"` |
| `"clamped"` | fraction of steps whose squared critic error is above `vf_clip_param` | at most 0.1 | `"vf_clip_param"` |
| `"weights moved"` | largest change of any weight | at least 1e-6 | `"lr"` |

There's one exception: if the learner gets different observations, $\log \pi$ differs, too.
So blame the module only if `"obs gap"` is healthy.

Write `diagnose`, which takes such a transcript as a dict and returns a list of the names of all faults.
"""


# %%
def diagnose(seen):
    """Return a list of the names of all faults, from a dict with the six numbers of a transcript."""
    ### BEGIN SOLUTION
    faults = {
        "explore": seen["explored"] == 0,
        "env_to_module": seen["obs gap"] > 1e-4,
        "module": seen["logp gap"] > 1e-4 and seen["obs gap"] <= 1e-4,
        "learner_connector": seen["rewards agree"] < 0.999,
        "vf_clip_param": seen["clamped"] > 0.1,
        "lr": seen["weights moved"] < 1e-6,
    }
    return [name for name, found in faults.items() if found]
    ### END SOLUTION


# %%
check("diagnose", diagnose)

# %% [markdown] tags=["solution"]
r"""
The correlation stays 1 if rewards are divided by 40, and it becomes −1 if their sign is wrong, so it's a better test than asking whether the rewards are *equal*.
"""

# %% tags=["demo"]
if passed("diagnose") and passed("masked"):
    seen = transcript(colleague(courier(Scorer)))
    display(pandas.Series(seen).round(3).to_frame("the colleague's"))
    print("faults:", diagnose(seen))
    print("yours: ", diagnose(transcript(courier(Masked))))

# %% [markdown]
r"""
The colleague's mask worked only when acting.
A connector had turned costs into gains, ten times as large, "because rewards should be positive."
That put the critic's errors above `vf_clip_param`, which was back at its default.
And the learning rate was $10^{-9}$; while the weights stand still, no other fix changes the curve.
"""

# %% tags=["demo"]
stop()

# %% [markdown]
r"""
## What you can do now

- You can put code into RLlib's pipelines, mask invalid actions, and replace PPO's loss.
- You can give a module a memory, and recognize a task that needs one.
- You can serve continuous actions in the environment's units.
- You can choose where EnvRunners run, and lose a node without losing the training run.
- You can find out why an algorithm learns nothing.

## Traps

- **A `_forward` that differs between acting and learning** makes every ratio wrong.
- **`STATE_OUT` has no time dimension.**
- **A checkpoint on the node's own disk** is lost with the node.

## Read on

- RLlib's guides to [connectors](https://docs.ray.io/en/latest/rllib/connector-v2.html), [RLModules](https://docs.ray.io/en/latest/rllib/rl-modules.html), and the [Learner](https://docs.ray.io/en/latest/rllib/rllib-learner.html).
- RLlib's source, in the `ray/rllib` folder of your `site-packages`: `env/single_agent_env_runner.py`, `algorithms/ppo/torch/ppo_torch_learner.py`, `connectors/learner/general_advantage_estimation.py`, and examples such as `examples/rl_modules/action_masking_rl_module.py`.
- Xie et al., [*Simple Policy Optimization*](https://arxiv.org/abs/2401.16025), ICML 2025.
- Huang and Ontañón, [*A Closer Look at Invalid Action Masking in Policy Gradient Algorithms*](https://arxiv.org/abs/2006.14171), 2020.
- [Tune's guide to fault tolerance](https://docs.ray.io/en/latest/tune/tutorials/tune-fault-tolerance.html).
"""
