# %% [markdown] you_learn_to="write a loss, a mask, a memory, and run RLlib on several nodes"
r"""
# Chapter 22 · Inside RLlib

You replace one method and keep the rest.

*About 120 minutes · builds on [Chapter 11](ch11_rllib_ppo.ipynb) and [Chapter 14](ch14_custom.ipynb); [Chapters 4](ch04_scheduling.ipynb) and [16](ch16_tune.ipynb) help*

**What you will be able to do**

- read RLlib's three pipelines, and say where a piece of yours goes in each of them;
- forbid actions with a mask, and say why it must keep the scores finite;
- write a loss of your own into a Learner;
- give a module a memory, and show that it needs one;
- serve a policy with continuous actions as RLlib would;
- choose the node each EnvRunner runs on, test while you train, and survive the loss of a node;
- find what is wrong with an algorithm from five numbers.
"""

# %%
import tempfile

import gymnasium
import matplotlib.pyplot as plt
import numpy as np
import pandas
import ray
import torch

from coursekit import begin, budget, check, hint, passed, progress, quiz, solution
from coursekit.given.ch22_inside_rllib import Blind, Courier, Greenhouse, built, colleague, draw
from coursekit.given.ch22_inside_rllib import node_here, node_names, note_node, note_wasted, pieces, transcript
from coursekit.given.nodes import add_nodes, ledger, small_cluster, stop

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
from coursekit.given.unfinished_modules import Scorer, TwoLooks

# %%
cluster = small_cluster(num_cpus=1)  # ends the one before: its references and actors are gone
ray.init(address=cluster.address, log_to_driver=False)
add_nodes(cluster, west={"num_cpus": 2, "resources": {"sim": 1}}, east={"num_cpus": 2, "resources": {"sim": 1}})
torch.set_num_threads(1)  # networks as small as these gain nothing from more
ledger()

# %% [markdown] tags=["notes"]
r"""
Two hours, with `diagnose` done in the room: it brings the chapter together, and pairs like it.
The cells above start three nodes, which takes half a minute on a small laptop; run them before you speak.
Everything up to the section on parallel tests runs in the notebook's own process, so mistakes show their own traceback.
"""

# %% [markdown]
r"""
## Three pipelines and one method hold what you may want to change

Chapter 14 put code *around* the algorithm.
This chapter goes inside, still without touching RLlib's source.

![An EnvRunner has a pipeline from the environment to the module and one back; episodes go through a third pipeline into the Learner, where compute_loss_for_module turns a batch into a loss; weights go back to the module](../img/ch22_inside_rllib.svg)

Each pipeline is a list of connectors, and RLlib's own are ordinary classes.
The first world is a courier's day: eight addresses form a ring, with a parcel for each but the one where the day begins.
Build an algorithm for it, and read the three lists:
"""


# %%
def ppo(env, **training):
    """Return PPO for a small world, played in this process: ten environments, 500 steps an iteration."""
    training = {"lr": 0.005, "gamma": 0.95, "minibatch_size": 100} | training
    return (
        PPOConfig()
        .environment(env)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=10)
        .training(train_batch_size_per_learner=500, num_epochs=8, lambda_=0.95, **training)
        .training(use_kl_loss=False)  # the clip alone keeps steps small, as in chapter 10
        .debugging(seed=0, log_sys_usage=False)
    )


def courier(module, **training):
    """Return PPO for the courier, with a module of this class; it counts wasted trips."""
    config = ppo(Courier, **training).rl_module(rl_module_spec=RLModuleSpec(module_class=module))
    return config.callbacks(on_episode_end=note_wasted)


# %% tags=["demo"]
with built(courier(Scorer)) as algo:
    print("env to module:", pieces(algo.env_runner._env_to_module))
    print("module to env:", pieces(algo.env_runner._module_to_env))
    print("learner:      ", pieces(algo.learner_group._learner._learner_connector))

# %% [markdown]
r"""
Your own connector comes first in the pipeline to the module.
On the way back it comes just before `NormalizeAndClipActions`, and sees the actions as the module drew them.
In the learner it follows `AddOneTsToEpisodesAndTruncate`, which you will meet below.

In this chapter you mostly write **one method**, as a function whose first argument is the object; the next cell puts it into a class.

## A mask forbids, and saves what learning would spend

For the courier an action is the next address.
A trip to a waiting address costs 1/8 for each house on the way; any other is wasted and costs 1.
An observation, `batch[Columns.OBS]`, is a dict: `"seen"`, what waits and where the courier is, and `"mask"`, 1 for each waiting address.

The module `Scorer` is ready: `self.score` turns `"seen"` into a score for each address.
Its `_forward` ignores the mask.
So PPO has to *learn* which trips are wasted, in each situation.
A **mask** says it once: set the score of a forbidden action so low that its probability is 0.

Write `masked`, the better `_forward`.
It returns a dict with the scores under `Columns.ACTION_DIST_INPUTS`.
Scores of waiting addresses stay as `self.score` gives them.
Leave the batch as it is, because the critic reads it too.
Be ready for a mask of nothing but zeros: at the end of a day nothing waits, and RLlib still asks once more.
"""


# %%
def masked(self, batch, **kwargs):
    """Return {Columns.ACTION_DIST_INPUTS: scores}, shape [B, addresses]; none that is masked can be drawn."""
    ### BEGIN SOLUTION
    scores = self.score(batch[Columns.OBS]["seen"])
    return {Columns.ACTION_DIST_INPUTS: scores.masked_fill(batch[Columns.OBS]["mask"] == 0, -1e9)}
    ### END SOLUTION


# %%
check("masked", masked)

# %% [markdown] tags=["solution"]
r"""
The same `_forward` must serve the EnvRunner and the learner.
A mask that works only while acting gives the learner another $\log \pi$ for the same action, so the ratio is wrong before the first step.
"""

# %% [markdown]
r"""
**Predict:** how many trips a day does the courier without a mask waste in the first iteration, and how many iterations pass until it wastes none?
"""


# %%
class Masked(Scorer):
    """Scores only addresses that wait."""

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
    draw({name: day["wasted"] for name, day in days.items()}, "What the mask saves", "wasted trips a day", both[0])
    draw({name: day["episode_return_mean"] for name, day in days.items()}, "and what it earns", "mean return", both[1])

# %% [markdown]
r"""
The best possible day is one round of seven houses, a return of $-7/8$.
With the mask, all training goes into the order of the addresses; without it, most goes into avoiding wasted trips, longer than quick mode runs.
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

For each minibatch the **Learner** calls the module's `forward_train`, hands the result to `compute_loss_for_module`, and takes a gradient step on the number that comes back.
*Simple policy optimization* (Xie et al. 2025) does not clip.
It puts a price on every step away from a ratio of 1, higher where the advantage is larger:

$$L = \frac{1}{N} \sum_i \Bigl[ - r_i A_i + \frac{|A_i|}{2 \epsilon} (r_i - 1)^2 + c\,(v_i - g_i)^2 \Bigr] \qquad \text{with} \qquad r_i = \exp\bigl(\log \pi_\theta(a_i) - \log \pi_{old}(a_i)\bigr)$$

For a positive advantage, gain minus price is largest at $r = 1 + \epsilon$, where PPO's clip begins; for a negative one, at $1 - \epsilon$.
Past that point the gradient pulls the ratio back, while PPO's clipped ratio has no gradient there.

This is where the method finds each part:

| in the formula | in RLlib |
|---|---|
| scores behind $\pi_\theta$ | `fwd_out[Columns.ACTION_DIST_INPUTS]` |
| the distribution | `module.get_train_action_dist_cls().from_logits(scores)`, which has `logp(actions)` |
| $a_i$, $\log \pi_{old}(a_i)$ | `batch[Columns.ACTIONS]`, `batch[Columns.ACTION_LOGP]` |
| $A_i$, $g_i$ | `batch["advantages"]`, `batch["value_targets"]` |
| $v_i$ | `module.compute_values(batch)` |
| $\epsilon$, $c$ | `config.clip_param`, `config.vf_loss_coeff` |

One thing is not in the formula: to estimate what comes after the last step, `AddOneTsToEpisodesAndTruncate` adds a row after every episode.
Such a row never happened and must not count: `batch[Columns.LOSS_MASK]` is True for the $N$ rows that did happen.
"""


# %%
def own_loss(self, *, module_id, config, batch, fwd_out):
    """Return the loss of simple policy optimization with a critic, a tensor with one number (Xie et al. 2025, eq. 18)."""
    module = self.module[module_id].unwrapped()
    ### BEGIN SOLUTION
    dist = module.get_train_action_dist_cls().from_logits(fwd_out[Columns.ACTION_DIST_INPUTS])
    ratio = torch.exp(dist.logp(batch[Columns.ACTIONS]) - batch[Columns.ACTION_LOGP])
    a = batch["advantages"]
    price = a.abs() / (2 * config.clip_param) * (ratio - 1) ** 2
    miss = (module.compute_values(batch) - batch["value_targets"]) ** 2
    each = -ratio * a + price + config.vf_loss_coeff * miss
    return each[batch[Columns.LOSS_MASK]].mean()
    ### END SOLUTION


# %%
check("own_loss", own_loss)

# %% [markdown] tags=["solution"]
r"""
RLlib's PPO averages the same way; look for `possibly_masked_mean` in its source.
To keep PPO's loss and only *add* a term, call `super().compute_loss_for_module(...)` in the class and add to its result.
Your own number reaches the method through `.learners(learner_config_dict={"weight": 0.1})` and `config.learner_config_dict["weight"]`.
"""


# %%
class OwnLearner(PPOTorchLearner):
    """PPO's Learner with another loss."""

    compute_loss_for_module = own_loss


# %% tags=["demo"]
if passed("masked") and passed("own_loss"):
    config = courier(Masked).learners(learner_class=OwnLearner)
    rounds = {"PPO's loss": days["masked"], "your loss": train(config, iterations)[0]}
    draw({name: day["episode_return_mean"] for name, day in rounds.items()}, "The same module, two losses", "mean return")

# %% [markdown]
r"""
Everything else is as before: EnvRunners, connectors, advantages, minibatches.
One seed on one small problem does not say which loss is better; [chapter 13](ch13_algorithms.ipynb) shows how to compare.

## A learner connector changes what is learned, not what is reported

The second world is a greenhouse that you water ten times a day with 0 to 40 litres.
It pays minus the litres too many or too few, so a reward lies between 0 and −40.
PPO's critic has trouble with numbers of that size: by default RLlib clips its squared error at 10, `vf_clip_param`, and a clipped error has no gradient.

Smaller rewards help, but the result should still be in litres.
A connector in the learner's pipeline gets an episode after the EnvRunner has reported its return:
"""


# %%
class Divide(ConnectorV2):
    """Divides all rewards of the episodes from which the learner learns."""

    def __call__(self, *, batch, episodes, **kwargs):
        """Return the batch as it is, and change the episodes."""
        for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            rewards = episode.get_rewards() / 40
            episode.set_rewards(new_data=rewards, at_indices=slice(0, len(rewards)))
        return batch


def greenhouse():
    """Return PPO for the greenhouse: an amount is right or wrong at once, so nothing later counts."""
    return ppo(Greenhouse, gamma=0.0).rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[32]))


# %% tags=["demo"]
gardens, gardeners = {}, {}
for name, config in [("as it comes", greenhouse()), ("divided", greenhouse().learners(learner_connector=lambda *_: Divide()))]:
    with built(config) as algo:
        results = [algo.train() for _ in range(budget(9, 4))]
        gardens[name] = [each["learners"]["default_policy"]["vf_explained_var"] for each in results]
        gardeners[name] = algo.env_runner.module
    print(f"{name:12} mean return at the end: {results[-1]['env_runners']['episode_return_mean']:.0f} litres")
axes = draw(gardens, "How much of the rewards the critic explains", "explained variance")
axes.set_ylim(-1, 1);

# %% [markdown]
r"""
A critic that explains nothing stays near 0, as both do in quick mode; a perfect one reaches 1.
With more iterations either training may collapse, so the last return need not be the best.
Both results are in litres, because the EnvRunner reports before the learner's pipeline begins.

There is one exception.
If a batch cuts an episode in two, RLlib reports it when it ends, after the learner has seen its first half.
With `num_env_runners=0` both share the episode's object, so the reported return includes a divided half; remote EnvRunners send copies and report the true return.
Here every batch holds whole days, so nothing is cut.
"""

# %%
### BEGIN SOLUTION
what_the_result_reports = "b"
### END SOLUTION

# %%
quiz("what_the_result_reports", what_the_result_reports)

# %% [markdown]
r"""
## A continuous action is stretched on its way out

Serve the gardener without RLlib, as in [chapter 11](ch11_rllib_ppo.ipynb).
The network returns the mean of a normal distribution, and the logarithm of its deviation; for an action of several numbers, first all means.
The best action is the mean.

**Predict** the litres for the driest, brightest day, from the mean alone:
"""

# %% tags=["demo"]
dry_and_bright = torch.tensor([[1.0, 1.0]])
print(gardeners["divided"].forward_inference({"obs": dry_and_bright})["action_dist_inputs"].detach().numpy().round(2))

# %% [markdown]
r"""
The plants need 40 litres, and the network's mean is a number around 1, or less while it has much to learn.
The network is right all the same, because `NormalizeAndClipActions` follows it: with `normalize_actions=True`, the default, RLlib takes −1 for the space's `low` and 1 for its `high`, stretches the values between, and clips the rest.
If any bound is infinite, the action stays unchanged.
Outside RLlib, that is your job.

Write `unsquash`: it turns an observation into the action that RLlib would send to the environment with `explore=False`.
"""


# %%
def unsquash(network, obs, space):
    """Return the best action for one observation, an array with the shape of the Box `space`, in its units."""
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
`unsquash_action` from `ray.rllib.utils.spaces.space_utils` is what RLlib calls, and you may call it, too.
`network.get_inference_action_dist_cls().from_logits(said).to_deterministic().sample()` gives the best action for every kind of distribution: here the mean.
"""

# %% tags=["demo"]
if passed("unsquash"):
    house, totals = Greenhouse(), {"RLlib's means": 0.0, "unsquashed": 0.0}
    for name in totals:
        obs, _ = house.reset(seed=1)
        for _ in range(10):
            action = unsquash(gardeners["divided"], obs, house.action_space)
            if name == "RLlib's means":
                action = 2 * action / 40 - 1  # what you would send without the stretching
            obs, reward, *_ = house.step(action)
            totals[name] += reward
    print({name: f"{total:.0f} litres off" for name, total in totals.items()})

# %% [markdown]
r"""
## Without a memory the pole falls

So far each policy chose from one observation.
The third world is CartPole *without its velocities*: the pole leans, but is it falling or rising?
One look cannot tell.
Two can, and there are two places to keep the first.

- **In the observation.** Gymnasium's `FrameStackObservation(env, 2)` returns the last two.
  RLlib's own `FrameStackingEnvToModule` does that for images, whose last dimension is 1.
- **In the module.** A *stateful* module returns a `STATE_OUT` with its scores.
  RLlib keeps it in the episode and passes it back as `STATE_IN` in the next step; in an episode's first step it passes what `get_initial_state()` returns.
  An LSTM is such a module: `DefaultModelConfig(use_lstm=True)`.

The module here, `TwoLooks`, has the simplest memory there is: its state is the previous observation.
`self.score` scores two looks, $2n$ numbers: the newest observation first, then the one before.

A stateful module reads *sequences*.
Observations have the shape [B, T, n]: in an EnvRunner T is 1, and in the learner it is up to `max_seq_len`, since the learner reads whole stretches of an episode at once.
The incoming state belongs before the **first** step of each sequence: `batch[Columns.STATE_IN]["before"]`, shape [B, n].
Every later step finds its earlier look in the sequence itself.

Write `remembers`, its `_forward`.
It returns three things:

- `Columns.ACTION_DIST_INPUTS`: the scores of each step, shape [B, T, actions];
- `Columns.EMBEDDINGS`: both looks of each step, shape [B, T, 2n], which the critic reads;
- `Columns.STATE_OUT`: `{"before": ...}` for the step that follows the sequence, shape [B, n].
"""


# %%
def remembers(self, batch, **kwargs):
    """Return scores, embeddings and the state that comes out, for sequences of observations of shape [B, T, n]."""
    ### BEGIN SOLUTION
    obs = batch[Columns.OBS]
    earlier = torch.cat([batch[Columns.STATE_IN]["before"][:, None], obs[:, :-1]], dim=1)
    looks = torch.cat([obs, earlier], dim=-1)
    state = {"before": obs[:, -1]}
    return {Columns.ACTION_DIST_INPUTS: self.score(looks), Columns.EMBEDDINGS: looks, Columns.STATE_OUT: state}
    ### END SOLUTION


# %%
check("remembers", remembers)

# %% [markdown] tags=["solution"]
r"""
The check reads each sequence twice, whole and step by step, and expects the same scores.
That is the contract of a stateful module: the learner must see what the EnvRunner saw, or PPO's ratio compares two different policies.
"""


# %%
class Remembers(TwoLooks):
    """Sees the newest observation, and remembers the one before."""

    _forward = remembers


def cartpole(env, spec=None):
    """Return PPO for a CartPole, with the default network or the module of a spec."""
    small = DefaultModelConfig(fcnet_hiddens=[32, 32], vf_share_layers=False)
    how = {"rl_module_spec": spec} if spec else {"model_config": small}
    config = ppo(env, lr=0.003, gamma=0.98, minibatch_size=200, vf_clip_param=1e4, grad_clip=0.5)
    return config.training(train_batch_size_per_learner=1000).rl_module(**how)


spec = RLModuleSpec(module_class=Remembers, model_config={"max_seq_len": 20})
tune.register_env("two frames", lambda config: gymnasium.wrappers.FrameStackObservation(Blind(), 2))

# %% [markdown]
r"""
**Predict** the order of the three curves.
"""

# %% tags=["demo"]
if passed("remembers"):
    stacked = cartpole("two frames").env_runners(env_to_module_connector=lambda *_: FlattenObservations())
    poles = {"one look": cartpole(Blind), "two frames": stacked, "remembers": cartpole(Blind, spec)}
    poles = {name: train(config, budget(25, 3))[0]["episode_return_mean"] for name, config in poles.items()}
    draw(poles, "CartPole without velocities, 200 steps at most", "mean return")

# %% [markdown]
r"""
With one look the curve rises at first and then, beyond quick mode, levels off: more training does not help, because the data lack what is missing.
The other two get the same two looks, one from the environment and one from its state.
When a curve stalls, the learning rate is often not to blame: ask what the policy can *see*.
"""

# %%
### BEGIN SOLUTION
who_carries_the_state = "b"
### END SOLUTION

# %%
quiz("who_carries_the_state", who_carries_the_state)

# %% [markdown]
r"""
## A test can run beside the training

`evaluation_interval=2` tests in every second iteration, and training waits for the test.
With `evaluation_parallel_to_training=True` both run at the same time, the test in an EnvRunner of its own.
The price: the test plays with the weights from *before* the iteration it runs beside.
`evaluation_duration` is a number of episodes here; `"auto"` plays for as long as the training takes, which may be too short for a long episode to end.
"""

# %% tags=["demo"]
if passed("remembers"):
    test = {"evaluation_interval": 2, "evaluation_num_env_runners": 1, "evaluation_duration": 10}
    beside = {"evaluation_parallel_to_training": True, "evaluation_config": {"explore": False}}
    rows = []
    with built(cartpole(Blind, spec).evaluation(**test, **beside)) as algo:
        for iteration in range(1, budget(8, 2) + 1):
            result = algo.train()
            row = {"seconds": result["time_this_iter_s"], "training": result["env_runners"]["episode_return_mean"]}
            if iteration % 2 == 0:
                row |= {"test": result["evaluation"]["env_runners"]["episode_return_mean"]}
            rows.append(row)
    display(pandas.DataFrame(rows, index=pandas.RangeIndex(1, len(rows) + 1, name="iteration")).round(2))

# %% [markdown]
r"""
Compare the seconds of iterations with and without a test.
On two cores, training and test compete for the processors; on a cluster each has its own.

## Two nodes hold one EnvRunner each, because each has one simulator

Your notebook is connected to three nodes: the head with one CPU, and `west` and `east` with two CPUs and one `sim` each.
Say `sim` is a simulator licence, or a camera, that only these two machines have.

An EnvRunner asks for one CPU and nothing else.
**Predict:** on which nodes would two run if you said nothing more?

Two settings of `.env_runners(...)` say more: `num_cpus_per_env_runner`, a number, and `custom_resources_per_env_runner`, a dict.
Write `two_nodes`: it changes a config so that two EnvRunners run, one on `west` and one on `east`.
The check starts two small actors that ask Ray for what your EnvRunners would ask for, and looks where each runs.
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
        print("the real EnvRunners run on", sorted(node_names()[home] for home in homes))

# %% [markdown] tags=["solution"]
r"""
Two runners that ask for one CPU each run wherever Ray finds room, the head included, and may share a node.
For learners there is `custom_resources_per_learner`, and for the algorithm's own process, in a Tune trial, `custom_resources_for_main_process`.
"""

# %% [markdown]
r"""
Had you said nothing, one EnvRunner could have run on the head.

## A trial continues from its checkpoint, on another node

Long training should survive the loss of its machine.
**Tune** can restart it: `checkpoint_frequency` says how often it saves the trial, `max_failures` how often it may start again, and `storage_path` must be a folder that outlives the node, such as a shared disk or a bucket.

The trial below asks for a `sim`, so it starts on `west` or `east`.
Right after its third report, the cell kills its node.

**Predict** the column `iteration`.
"""

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
        tune.Tuner("PPO", param_space=config.callbacks(on_train_result=note_node), run_config=running).fit()
    display(pandas.DataFrame(witness.story, index=pandas.RangeIndex(1, len(witness.story) + 1, name="report")))

# %% [markdown]
r"""
The trial had reported its third iteration, but its last checkpoint was of the second.
So the other node trained and reported the third iteration again.
A smaller `checkpoint_frequency` loses less and writes more.
"""

# %%
### BEGIN SOLUTION
what_a_lost_node_costs = "b"
### END SOLUTION

# %%
quiz("what_a_lost_node_costs", what_a_lost_node_costs)

# %% [markdown]
r"""
## Five numbers say what is wrong

A colleague has improved the courier's config, and now the courier learns nothing, without an error or a warning.
Instead of guessing, look inside.
`transcript` builds the algorithm, plays 300 steps, takes the batch that the learner would get, trains one iteration, and returns five numbers:

| a fault in | number | should be | what else it may mean |
|---|---|---|---|
| `"explore"` | `"explored"`: share of steps in which the action was not the best one | above 0 | |
| `"env_to_module"` | `"obs gap"`: largest difference between what the module acted on and what the learner gets | 0 | |
| `"module"` | `"logp gap"`: largest difference of $\log \pi$ between acting and learning, with the same weights | 0 | it follows from an obs gap, and then says nothing about the module |
| `"learner_connector"` | `"rewards agree"`: correlation of the rewards played and learned | 1 | |
| `"lr"` | `"weights moved"`: largest change of a weight in an iteration | about `lr` or more | |

Differences below $10^{-4}$ are rounding, even in a correlation that should be 1.
A weight that moves by less than $10^{-6}$ stands still.
One fault may hide another: while the learner gets different observations, you cannot blame the module.

Write `diagnose`: it takes such a transcript and returns the list of first-column names that are at fault.
"""


# %%
def diagnose(seen):
    """Return a list of names of what is at fault, from a dict of the five numbers of a transcript."""
    ### BEGIN SOLUTION
    faults = {
        "explore": seen["explored"] == 0,
        "env_to_module": seen["obs gap"] > 1e-4,
        "module": seen["logp gap"] > 1e-4 and seen["obs gap"] <= 1e-4,
        "learner_connector": seen["rewards agree"] < 0.99,
        "lr": seen["weights moved"] < 1e-6,
    }
    return [name for name, found in faults.items() if found]
    ### END SOLUTION


# %%
check("diagnose", diagnose)

# %% [markdown] tags=["solution"]
r"""
A correlation stays 1 when rewards are divided by 40 and becomes −1 when a sign is wrong, so it is a better test than asking whether the rewards are *equal*.
"""

# %% tags=["demo"]
if passed("diagnose") and passed("masked"):
    seen = transcript(colleague(courier(Scorer)))
    display(pandas.Series(seen).to_frame("the colleague's"))
    print("at fault:", diagnose(seen))
    print("yours:   ", diagnose(transcript(courier(Masked))))

# %% [markdown]
r"""
The mask worked only while acting.
A connector had turned costs into gains, "because rewards should be positive".
And the learning rate was $10^{-9}$, to calm a loss that made no sense.
While the weights stand still, fixing either of the others changes no curve.
"""

# %% tags=["demo"]
stop()

# %% [markdown]
r"""
## What you can do now

- You read RLlib's pipelines, and know where a piece of yours goes.
- Your mask makes forbidden actions impossible, for acting and for learning.
- You replaced PPO's loss, and left out the rows that never happened.
- You gave a module a memory, and saw a task that needs one.
- You serve continuous actions in the environment's units.
- You decide where EnvRunners run, test beside the training, and lose a node without losing the training.
- You look inside an algorithm that learns nothing, and name what is at fault.

## Traps

- **A mask of $-\infty$** ends in NaN as soon as nothing is allowed.
- **A method that differs between acting and learning** makes every ratio wrong from the first step.
- **A row after the end of every episode** is in the batch: apply `LOSS_MASK`.
- **`STATE_OUT` has no time dimension**, and the incoming state belongs only before the first step.
- **Learner connectors change rewards silently**: the reported returns do not show it.
- **A checkpoint on the node's own disk** dies with the node.

## Read on

- RLlib's guides to [connectors](https://docs.ray.io/en/latest/rllib/connector-v2.html), [RLModules](https://docs.ray.io/en/latest/rllib/rl-modules.html) and the [Learner](https://docs.ray.io/en/latest/rllib/rllib-learner.html).
- Xie et al., [*Simple Policy Optimization*](https://arxiv.org/abs/2401.16025), ICML 2025.
- Huang and Ontañón, [*A Closer Look at Invalid Action Masking in Policy Gradient Algorithms*](https://arxiv.org/abs/2006.14171), 2020.
- [Tune's guide to fault tolerance](https://docs.ray.io/en/latest/tune/tutorials/tune-fault-tolerance.html).
"""
