# %% [markdown] you_learn_to="compare PPO, DQN, SAC, APPO, and IMPALA fairly"
r"""
# Chapter 13 · Choosing an algorithm

An algorithm that needs few steps may still need many seconds.

*About 100 minutes · builds on [Chapter 12](ch12_env_runners.ipynb); in [Chapter 9](ch09_dqn.ipynb) and [Chapter 10](ch10_actor_learner.ipynb), you wrote DQN and PPO by hand*

**What you will be able to do**

- tell on-policy algorithms from off-policy ones, and synchronous from asynchronous, and explain what each kind costs;
- find out why a DQN agent learns nothing, from what it does rather than from what you configured;
- size batches and fragments so that APPO updates as often as you want;
- compare algorithms under one budget and over several seeds, in steps *and* in seconds;
- predict from a few numbers which algorithm needs the least time with your simulator;
- explain what a second learner or a GPU would change.
"""

# %%
import math
import time

import gymnasium
import matplotlib.pyplot as plt
import numpy as np
import pandas

from coursekit import SlowSimulator, begin, budget, check, explain, hint, measured, passed, predict, progress, puzzle
from coursekit import quiz, review, solution, track
from coursekit.given.bands import draw_band
from coursekit.given.ch13_algorithms import CORRIDOR, learner_pids
from coursekit.given.rllib_configs import built

begin("ch13_algorithms")

# %%
import ray
from ray import tune
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

ray.shutdown()  # stops a Ray instance that's already running here: its references and actors are gone
ray.init(num_cpus=4, include_dashboard=False);

# %% [markdown] tags=["notes"]
r"""
The run sheet allots a hundred minutes, with `pick_algorithm` and the section on learners and GPUs as homework.
The comparison is the core of the chapter: have everyone write down two rankings *before* it runs, one by steps and one by seconds.
It takes a minute or two, so start it before the coffee break, together with the cells for more seeds and for CartPole, which take two or three minutes each.
"""

# %% [markdown]
r"""
## On-policy or off-policy, synchronous or asynchronous

Besides PPO, RLlib offers a handful of other algorithms, and you can sort them with two questions.

**Which experience can the algorithm learn from?** An [on-policy](../docs/glossary.md#on-policy) algorithm learns only from experience that its current policy collected.
An [off-policy](../docs/glossary.md#off-policy) algorithm can learn from experience that any policy collected: an older one, another program, or a human.

**Does sampling wait for learning?** In a *synchronous* algorithm, the EnvRunners sample, and then they wait while the learner learns.
In an *asynchronous* algorithm, they keep sampling while the learner learns.

| | can learn from | sampling and learning | what it stores |
|---|---|---|---|
| **PPO** | its current policy | alternately | one batch |
| **IMPALA** | policies a few updates old | at the same time | a short queue of batches |
| **APPO** | policies a few updates old | at the same time | the last eight batches, each used at most twice |
| **DQN**, **SAC** | any policy | alternately | a replay buffer |

A third question has to come first: *which actions can the algorithm handle?*
RLlib refuses to build an algorithm that can't handle an environment's actions, so the next cell tries to build each algorithm for two environments.
`CORRIDOR` is the corridor from Chapter 11: ten squares, with the exit at the end and two discrete actions.
In Pendulum, the action is continuous: a single torque.
"""


# %% tags=["demo"]
def takes(kind, env):
    """Return "yes", or the name of the error with which RLlib refuses this algorithm for this environment."""
    config = kind().environment(env).env_runners(num_env_runners=0).learners(num_learners=0)
    try:
        with built(config.debugging(log_sys_usage=False)):
            return "yes"
    except Exception as error:  # whatever RLlib raises is the answer
        return type(error).__name__


kinds = {"PPO": PPOConfig, "DQN": DQNConfig, "SAC": SACConfig, "APPO": APPOConfig, "IMPALA": IMPALAConfig}
problems = {"discrete (corridor)": CORRIDOR, "continuous (Pendulum)": "Pendulum-v1"}
rows = {name: {title: takes(kinds[name], env) for title, env in problems.items()} for name in track(list(kinds), "building")}
pandas.DataFrame(rows).T

# %% [markdown]
r"""
RLlib refuses one combination: DQN for Pendulum.
DQN computes a value for every action and takes the action with the largest value, but there are infinitely many torques, so there's no "every action" to go through.

[SAC](../docs/glossary.md#sac) (soft actor-critic) is related to DQN, but it has an actor.
Two networks estimate the value of an action, and a third one, the actor, samples actions and earns a small *entropy bonus* for staying undecided.
SAC was invented for continuous actions, but RLlib's SAC handles discrete ones, too.
"""

# %% [markdown]
r"""
## Off-policy learning uses each step in more than one batch

![On-policy: a batch goes to the learner and is then thrown away. Off-policy: steps stay in a replay buffer, and the learner samples from it again and again](../img/ch13_policies.svg)

PPO asks: *how much better than expected was this action, for the policy I am?*
Once the policy has moved on, the answer is stale, so PPO throws the batch away.
DQN asks: *what did this action lead to, here?*
The answer stays true whichever policy asks, so DQN keeps each step in a **replay buffer** and learns from it many times.
The catch is that each reuse costs an *update* (a gradient step), and updates take time.

In Chapter 9, you wrote a replay buffer, a target network, exploration, and Double DQN.
RLlib's DQN has all four, and by default it turns on two refinements that you didn't write:
"""

# %% tags=["demo"]
extras = {name: getattr(DQNConfig(), name) for name in ["double_q", "dueling", "n_step", "num_atoms"]}
pandas.Series({"replay buffer": DQNConfig().replay_buffer_config["type"], **extras}, dtype=object).to_frame("DQN's default")

# %% [markdown]
r"""
- With [prioritized replay](../docs/glossary.md#prioritized-replay), the buffer samples a step more often if the network got its value badly wrong.
- A [dueling network](../docs/glossary.md#dueling-network) estimates the value of a state and, for each action, how much better than average that action is.

Others are off by default, such as *n*-step returns (`n_step`) and a distribution over returns instead of their mean (`num_atoms`).

You know the rest from Chapter 9; here it is as settings:

| what it controls | setting |
|---|---|
| the fraction of random actions, as (steps sampled, fraction) points with linear interpolation between them | `epsilon` |
| how many steps the buffer holds before it evicts the oldest episodes | `replay_buffer_config={"capacity": ...}`; keys that you omit keep their defaults |
| how many steps are sampled before learning starts | `num_steps_sampled_before_learning_starts` |
| how many steps are sampled between two updates of the target network, a copy that lags behind | `target_network_update_freq` |
| the [replay ratio](../docs/glossary.md#replay-ratio): how many steps from the buffer the learner trains on for each step sampled; each update trains on 32 of them | `training_intensity` |

A colleague wants the corridor solved within a thousand steps.
Ten squares are a small problem, so the colleague leaves all of these settings at RLlib's defaults:
"""


# %%
def hopeful_dqn(length):
    """Return a colleague's DQN for a corridor of `length` squares, sampled in this process from four environments."""
    return (
        DQNConfig()
        .environment(CORRIDOR, env_config={"length": length})
        .env_runners(num_env_runners=0, num_envs_per_env_runner=4)
        .debugging(seed=0, log_sys_usage=False)
    )


# %% [markdown]
r"""
**Predict:** this DQN samples a thousand steps, four at a time.
Once learning has started, the learner makes an update on 32 steps after every four steps sampled.
How many steps does the learner train on in all?
"""

# %% tags=["demo"]
predict("steps_trained_on", ...)  # steps


# %%
def training_log(config, steps):
    """Return a table with a row for every 250 steps of a training run."""
    config = config.copy(copy_frozen=False).reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=250)
    rows = []
    with built(config) as [algo]:
        while not rows or rows[-1]["sampled"] < steps:
            result = algo.train()
            learned = result.get("learners", {}).get("default_policy", {}).get("num_module_steps_trained_lifetime", 0)
            mean = result["env_runners"].get("episode_return_mean", math.nan)
            rows.append({"sampled": result["num_env_steps_sampled_lifetime"], "trained on": learned, "mean return": mean})
    return pandas.DataFrame(rows).round(2)


# %% tags=["demo"]
log = training_log(hopeful_dqn(length=10), steps=1000)
display(log)
measured("steps_trained_on", log["trained on"].max())

# %% [markdown]
r"""
If an update had followed every four steps, the answer would be 8,000.
But the learner trained on almost no steps, and the mean return ends up far below the best possible return, 0.2; wandering for a hundred steps earns −10.

Write `short_dqn`, which returns a DQN config that solves a corridor of `length` squares within `steps` steps, where `steps` is about a thousand.
The corridor counts as solved if the episodes that end in the last 300 steps take, on average, at most seven steps more than the minimum.
Start from the colleague's config, print the defaults of the five settings (`DQNConfig().epsilon`), and ask about each one: what has it done after a thousand steps?

The check trains your DQN with up to three seeds, which can take half a minute.
Keep sampling and learning in your notebook's process, as in the colleague's config, so that no other process has to start.
"""


# %%
def short_dqn(length, steps):
    """Return a DQN config that solves a corridor of `length` squares within `steps` steps, in this process."""
    ### BEGIN SOLUTION
    return hopeful_dqn(length).training(
        epsilon=[(0, 1.0), (steps // 2, 0.05)],
        num_steps_sampled_before_learning_starts=steps // 10,
        target_network_update_freq=20,
        training_intensity=16,
    )
    ### END SOLUTION


# %%
check("short_dqn", short_dqn)

# %% [markdown] tags=["solution"]
r"""
Three of the defaults are fatal here, and each one hides the others.
Learning starts after a thousand steps, when everything is over.
And DQN explores for ten thousand steps, so even a network that had learned the way would hardly ever get to choose the action.
And the target network gets new weights only once or twice in a thousand steps, so the targets hardly ever improve.

All of these numbers count steps, so the right values depend on how long you train.
Nothing warns you of wrong values, but you can count how many steps DQN has trained on, and how often it took its best action.

Without remote EnvRunners, you get the `training_intensity` that you set, apart from rounding.
With remote ones, you get more, because RLlib counts the local EnvRunner as well, although it doesn't sample.
With one remote EnvRunner, you get 2 times the replay ratio that you asked for; with two, 1.5 times.
"""

# %%
### BEGIN SOLUTION
which_may_reuse = "b"
### END SOLUTION

# %%
quiz("which_may_reuse", which_may_reuse)

# %% [markdown]
r"""
In PPO, each step is in one batch, and the learner goes over that batch `num_epochs` times.
To put numbers on "more than one batch", the next cell samples 600 steps, with a buffer of 300 steps and a replay ratio of 16.
"""

# %% tags=["demo"]
memory = {"replay_buffer_config": {"capacity": 300}, "num_steps_sampled_before_learning_starts": 100}
config = hopeful_dqn(length=10).training(**memory, target_network_update_freq=50, training_intensity=16)
with built(config.reporting(min_sample_timesteps_per_iteration=600)) as [algo]:
    result = algo.train()  # one iteration: 600 steps sampled, and the updates between them
    learned = result["learners"]["default_policy"]
    print(f"sampled         {result['num_env_steps_sampled_lifetime']:6.0f} steps")
    print(f"in the buffer   {algo.local_replay_buffer.get_num_timesteps():6.0f} steps")
    print(f"trained on      {learned['num_module_steps_trained_lifetime']:6.0f} steps, 32 per update")
    print(f"target network  {learned['num_target_updates']:6.0f} updates")

# %% [markdown]
r"""
The first hundred steps only fill the buffer.
After that, the learner trains on about sixteen steps for each step sampled.
The buffer holds a little less than 300 steps, because it evicts whole episodes.
"""

# %% [markdown]
r"""
## In an asynchronous algorithm, EnvRunners keep sampling with slightly old weights

![Synchronous: the EnvRunners wait for each other and for the learner. Asynchronous: the EnvRunners keep sampling, and the learner takes each fragment as it arrives](../img/ch13_waiting.svg)

In [IMPALA](../docs/glossary.md#impala) (Espeholt et al. 2018) and [APPO](../docs/glossary.md#appo), PPO's asynchronous counterpart, EnvRunners wait neither for each other nor for the learner.
An EnvRunner samples a *fragment*, delivers it, takes the latest weights, and keeps sampling.
The learner collects fragments until they make up a batch, and then it learns.

So the learner's experience is no longer on-policy: it comes from a policy that is a few updates old.
A correction called [V-trace](../docs/glossary.md#v-trace) makes up for this: it weights each step by the ratio from Chapter 10, clipped at 1.
The less likely an action has become since it was sampled, the less it counts.
APPO computes that ratio not for the current policy but for a lagging copy of it, the *target network*.
It also clips the ratio of the current policy to that copy, as PPO does with its own ratio; IMPALA has no such clip.
"""

# %% [markdown]
r"""
You choose how long a fragment is and how many fragments make up a batch.
Short fragments are fresh, but each one costs a message; long fragments cost fewer messages, but their experience is older.
RLlib expects both settings in steps, but what you know is seconds: how long a step of your simulator takes, and how often you want the policy to change.

| in RLlib | what it controls |
|---|---|
| `num_envs_per_env_runner` | how many environments each EnvRunner has, which it steps one after the other |
| `rollout_fragment_length` | how many steps of *each* environment an EnvRunner delivers at once |
| `train_batch_size_per_learner` | how many steps, from all EnvRunners together, the learner collects for a batch |
| `.learners(num_learners=0)` | where the learner runs: here, in the notebook's own process |

Write `paced_appo`, which returns a config of APPO on `CORRIDOR` with `runners` EnvRunners of *two* environments each, and with the learner in your notebook's process.
A simulator step takes `nap` seconds; assume that nothing else takes any time.
Under that assumption, a batch must be complete every `pace` seconds, and in that time each EnvRunner must deliver `messages` fragments.

The check reads your settings, and then it trains your APPO with one EnvRunner, which can take half a minute.
"""


# %%
def paced_appo(runners, nap, pace, messages):
    """Return a config of APPO on CORRIDOR: a batch every `pace` seconds, from `messages` fragments of each EnvRunner."""
    ### BEGIN SOLUTION
    steps = pace / nap  # that each EnvRunner samples per batch, in its two environments together
    return (
        APPOConfig()
        .environment(CORRIDOR)
        .env_runners(
            num_env_runners=runners,
            num_envs_per_env_runner=2,
            rollout_fragment_length=round(steps / messages / 2),
        )
        .learners(num_learners=0)
        .training(train_batch_size_per_learner=round(steps * runners))
    )
    ### END SOLUTION


# %%
check("paced_appo", paced_appo)

# %% [markdown] tags=["solution"]
r"""
A second environment in an EnvRunner doesn't add any steps per second here, because the two simulators sleep one after the other.
All it does is halve the fragment length.
A second EnvRunner does add steps, so to keep the pace, the batch grows with the number of EnvRunners.

With `num_learners=0`, the notebook's process learns *and* requests fragments from the EnvRunners.
While that process is learning, an EnvRunner finishes its fragment and then waits for the next request.
With 1, APPO's default, the learner runs in its own process, and requests keep coming.
"""

# %%
### BEGIN SOLUTION
who_waits = "a"
### END SOLUTION

# %%
quiz("who_waits", who_waits)

# %% [markdown]
r"""
How much waiting is there really?
To find out, give each EnvRunner a simulator that takes 5 ms per step, the `SlowSimulator` from Chapter 7, and measure the fraction of the time in which the simulators run.
"""


# %%
def slow_corridor(options):
    """Return a corridor in which each step takes options["seconds"]."""
    return SlowSimulator(gymnasium.make(CORRIDOR), **options)


tune.register_env("slow_corridor", slow_corridor)  # a name that RLlib can look up in every process
network = DefaultModelConfig(fcnet_hiddens=[64, 64], vf_share_layers=False)  # by default, the policy and the critic share layers


def common(config):
    """Return a config with the settings that all algorithms in this chapter share."""
    return (
        config.rl_module(model_config=network)
        .reporting(
            min_time_s_per_iteration=0.1,  # APPO's and IMPALA's default is 10 seconds
            min_sample_timesteps_per_iteration=50,  # DQN's default is 1,000
        )
        .debugging(seed=0, log_sys_usage=False)
    )


# %% [markdown]
r"""
The next cells run PPO and APPO for ten seconds each, with the same number of EnvRunners and environments.
Including the time to build both algorithms, that takes about half a minute.

**Predict:** each EnvRunner delivers two fragments per batch, and APPO uses each batch for up to two updates.
On average, how many updates old are the weights that sampled the learner's experience?
"""

# %% tags=["demo"]
predict("appo_age", ...)  # updates


# %%
def running_fraction(config, nap, seconds):
    """Return the fraction of the time in which an algorithm's simulators ran, and all results of that time."""
    config = common(config).environment("slow_corridor", env_config={"seconds": nap})
    with built(config) as [algo]:
        first, results = algo.train()["num_env_steps_sampled_lifetime"], []
        start = time.perf_counter()
        while time.perf_counter() - start < seconds:
            results.append(algo.train())
        elapsed = time.perf_counter() - start
        steps = results[-1]["num_env_steps_sampled_lifetime"] - first
        return steps * nap / (config.num_env_runners * elapsed), results


# %%
def mean_age(results):
    """Return how many updates old, on average, the weights that sampled the learner's experience were."""
    learned = [result.get("learners", {}).get("default_policy", {}) for result in results]
    ages = [row.get("diff_num_grad_updates_vs_sampler_policy", math.nan) for row in learned]
    return np.mean([age for age in ages if not math.isnan(age)] or [math.nan])  # an iteration may have no update


# %% tags=["demo"]
fractions, results = {}, {}
if passed("paced_appo"):
    runners, seconds = budget(2, 1), budget(10, 2)
    ppo = PPOConfig().env_runners(num_env_runners=runners, num_envs_per_env_runner=2)
    appo = paced_appo(runners, nap=0.005, pace=0.64, messages=2)
    appo.env_runners(use_env_runner_state_server=False)  # no other process that distributes the weights
    appo.training(timeout_s_sampler_manager=0.05)  # wait for fragments; the default, 0, keeps a core busy polling
    waiting = {"PPO": ppo.training(train_batch_size_per_learner=256), "APPO": appo}
    for name in track(list(waiting), "sampling"):
        fractions[name], results[name] = running_fraction(waiting[name], 0.005, seconds)
    if not math.isnan(age := mean_age(results["APPO"])):
        display(measured("appo_age", age))

# %% tags=["demo"]
if fractions:
    figure, axes = plt.subplots(figsize=(7, 1.8), constrained_layout=True)
    axes.barh(list(fractions), list(fractions.values()), color="#db2777")
    axes.set(xlim=(0, 1), xlabel="fraction of the time in which the simulators run")
    axes.invert_yaxis()

# %% [markdown]
r"""
The age is small, but it isn't 0.
Each batch serves up to two updates, so experience that is one batch behind is already up to two updates behind.

PPO's simulators pause whenever the learner learns, and they pause longer with more epochs.
APPO's simulators pause only while their EnvRunner computes an action, packs a fragment, or waits for the next request.

So the difference is largest when sampling and learning take about the same time.
With a much slower simulator, it almost disappears, because then both algorithms spend nearly all of their time sampling.
With more EnvRunners, the difference grows again: a batch takes less time to sample, but not less time to learn from.
"""

# %% [markdown] tags=["notes"]
r"""
Expect someone to ask why anyone would use PPO at all.
When steps are cheap, there's little to wait for, as the next section shows.
And with the same seed, a synchronous program can give the same result twice, while the result of an asynchronous one depends on the order in which fragments happen to arrive.
"""

# %% [markdown]
r"""
## Compare algorithms under one budget, in steps and in seconds

A fair comparison of algorithms follows four rules:

- **Give all of them the same budget.** An RLlib iteration isn't a fixed unit: by default, it's one batch for PPO, a thousand steps for DQN, and ten seconds for APPO.
  Count *environment steps* and *seconds* instead.
- **Report both.** Steps are what you pay for on a real robot, and seconds are how long you wait.
- **Run one at a time**, because two at once would share the cores.
  Start the clock once an algorithm has been built.
- **Don't invent returns.** Until the first episode ends, there is no mean return: the key is missing, or its value is NaN ("not a number").
  Such an iteration adds no point to the curve, but its steps and seconds still count.

Write `compare`, which trains each algorithm until it has used *both* at least `steps` environment steps and at least `seconds` seconds, and returns a curve for each.
`train()` returns a result in which `result["num_env_steps_sampled_lifetime"]` counts all steps so far.
If there is a mean return, it's in `result["env_runners"]`, under the key `"episode_return_mean"`.
"""


# %%
def compare(configs, steps, seconds):
    """Return {name: [(steps so far, seconds so far, mean return), ...]}, a row for each iteration that has a mean return.

    `configs` is {name: config}. Build the algorithms one after the other, train each until it has used both
    budgets and no longer, and stop it before you build the next. The seconds don't include the build.
    """
    ### BEGIN SOLUTION
    curves = {}
    for name, config in configs.items():
        algo = config.build_algo()
        curves[name], sampled, start = [], 0, time.perf_counter()
        try:
            while sampled < steps or time.perf_counter() - start < seconds:
                result = algo.train()
                sampled, now = result["num_env_steps_sampled_lifetime"], time.perf_counter() - start
                mean = result["env_runners"].get("episode_return_mean", math.nan)
                if not math.isnan(mean):
                    curves[name].append((sampled, now, mean))
        finally:
            algo.stop()
    return curves
    ### END SOLUTION


# %%
check("compare", compare)

# %% [markdown] tags=["solution"]
r"""
With `try` and `finally`, an algorithm is stopped even if one of its iterations fails.
The mean return in a result comes from episodes that were sampled *while learning*, exploration included.
For a paper, you would evaluate between iterations, without exploration, as in Chapter 11.
Here, all algorithms have the same handicap.
"""

# %% [markdown]
r"""
Here are the five algorithms, with settings for a problem of a few thousand steps.
Quick mode runs only the first three.

RLlib clamps the squared error of PPO's critic at `vf_clip_param=10`, and from a larger error, the critic learns nothing (Chapter 11).
Errors can be larger in the corridor, and in CartPole they are, so the next cell raises this limit.
"""

# %%
here = {"num_env_runners": 0, "num_envs_per_env_runner": 8}  # in this process
there = {"num_env_runners": 1, "use_env_runner_state_server": False}  # in one other process
fast = {"train_batch_size_per_learner": 256, "lr": 1e-3, "timeout_s_sampler_manager": 0.05}
often = {"target_network_update_freq": 20, "training_intensity": 16, "lr": 1e-3}
critic = {"vf_clip_param": 1e4}  # effectively no limit
# SAC's own settings: three learning rates, the weight of the entropy bonus, and the pace of the target network
rates = {"actor_lr": 1e-3, "critic_lr": 1e-3, "alpha_lr": 3e-4, "initial_alpha": 0.02, "tau": 0.05}

# %%
configs = {}
if passed("short_dqn") and passed("paced_appo"):
    configs = {
        "DQN": short_dqn(length=10, steps=1000).training(**often),
        "PPO": PPOConfig().env_runners(**here).training(train_batch_size_per_learner=512, num_epochs=6, lr=1e-3, **critic),
        "APPO": paced_appo(runners=1, nap=0.005, pace=1.28, messages=4).env_runners(**there).training(**fast),
        "IMPALA": IMPALAConfig()
        .env_runners(num_envs_per_env_runner=2, rollout_fragment_length=32, **there)
        .learners(num_learners=0)
        .training(**fast),
        "SAC": SACConfig()
        .env_runners(num_env_runners=0, num_envs_per_env_runner=4)
        .training(num_steps_sampled_before_learning_starts=100, train_batch_size_per_learner=64, **rates),
    }

# %% [markdown]
r"""
The problem is the corridor, where nine steps to the right earn $1 - 8 \cdot 0.1 = 0.2$.
Call it solved at a mean return of $-0.5$: that's sixteen steps, random actions included.

DQN goes first, with a budget of `STEPS` steps.
The time that these steps take becomes the time budget for the others.
With all five algorithms, the run takes a minute or two.

In an iteration of fifty steps, only a few episodes end, and a few lucky episodes don't mean that the problem is solved.
So `smoothed` takes the mean of the last five rows.

**Predict:** which algorithm reaches a mean return of $-0.5$ in the fewest seconds?
Write down your ranking by *steps*, too.
"""

# %% tags=["demo"]
predict("first_in_seconds", ..., ["PPO", "DQN", "SAC", "APPO", "IMPALA"])


# %%
def on(problem, configs):
    """Return copies of the configs for this problem, with the shared settings and no settings of another environment."""
    copies = {name: common(config.copy(copy_frozen=False)).environment(problem) for name, config in configs.items()}
    for config in copies.values():
        config.env_config = {}
    return copies


def smoothed(curves, last=5):
    """Return the curves with the mean of the `last` mean returns in each row, without the first rows, which have too few."""
    return {
        name: [(*rows[end - 1][:2], np.mean([row[2] for row in rows[end - last : end]])) for end in range(last, len(rows) + 1)]
        for name, rows in curves.items()
    }


# %% tags=["demo"]
SOLVED, STEPS, curves, enough = -0.5, budget(2000, 700), {}, 0
if configs and passed("compare"):
    chosen = on(CORRIDOR, {name: configs[name] for name in budget(list(configs), ["DQN", "PPO", "APPO"])})
    for name in track(list(chosen), "training"):
        curves |= compare({name: chosen[name]}, steps=STEPS, seconds=enough)
        enough = enough or curves["DQN"][-1][1]  # the seconds of DQN's steps are everyone's time budget
    curves = smoothed(curves)

# %%
colors = {"PPO": "#059669", "DQN": "#d97706", "APPO": "#2563eb", "IMPALA": "#7c3aed", "SAC": "#db2777"}


def arrival(curve, target):
    """Return the steps and the seconds at which a curve first had that mean return; NaN if it never did."""
    return next((row[:2] for row in curve if row[2] >= target), (math.nan, math.nan))


def arrivals(curves, target):
    """Return a table: when each curve first had that mean return, and its steps per second."""
    rows = {}
    for name, curve in curves.items():
        steps, seconds, _ = (curve or [(math.nan,) * 3])[-1]
        rows[name] = [*arrival(curve, target), steps / seconds]
    return pandas.DataFrame(rows, index=["steps", "seconds", "steps per second"]).T.round(1)


# %%
def two_plots(runs, target, most_steps):
    """Draw the mean returns of each algorithm's runs against steps, up to `most_steps`, and against seconds."""
    figure, pair = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True, constrained_layout=True)
    for ax, column, limit, label in [(pair[0], 0, most_steps, "environment steps"), (pair[1], 1, None, "seconds")]:
        for name, curves_of_one in runs.items():
            lines = [([row[column] for row in rows], [row[2] for row in rows]) for rows in curves_of_one]
            draw_band(ax, lines, colors[name], name)
        ax.axhline(target, color="#94a3b8", linestyle=":")
        ax.set(xlabel=label, xlim=(0, limit))
    pair[0].set_ylabel("mean return")
    pair[1].legend()


# %% tags=["demo"]
if curves:
    two_plots({name: [rows] for name, rows in curves.items()}, SOLVED, most_steps=5000)
    table = arrivals(curves, SOLVED).sort_values("steps")
    display(table)
    if table["seconds"].notna().any():
        display(measured("first_in_seconds", table["seconds"].idxmin()))

# %% [markdown]
r"""
The two plots show the same runs with the same returns, but usually two different rankings.
An algorithm with NaN didn't get there within the budget.
In the plot against steps, the replay buffer pays off: DQN and SAC learn from a few hundred steps again and again.
In the plot against seconds, each of these updates has a cost; PPO takes many more steps per second, so it can afford to waste them.

Here, the asynchronous algorithms gain little, if anything: a simulator that takes no time leaves nothing to wait for, so they only pay for messages and old weights.
They win when enough EnvRunners make sampling as fast as learning, or when some steps take much longer than others.

Each curve is a single run: another seed means other initial weights, other random actions, and another curve.
The next cell runs DQN and PPO with more seeds, which takes two or three minutes.
It draws the mean of each algorithm's runs and a band from the worst run to the best.
"""

# %% tags=["demo"]
bands = {}
if curves:
    bands = {name: [curves[name]] for name in ("DQN", "PPO")}  # seed 0 has run
    for seed in track(range(1, budget(4, 1) + 1), "seeds"):
        pair = {name: config.debugging(seed=seed) for name, config in on(CORRIDOR, {n: configs[n] for n in bands}).items()}
        for name, rows in smoothed(compare(pair, steps=STEPS, seconds=enough)).items():
            bands[name].append(rows)
    two_plots(bands, SOLVED, most_steps=5000)
    each = {f"{name}, seed {seed}": rows for name, runs in bands.items() for seed, rows in enumerate(runs)}
    display(arrivals(each, SOLVED))

# %% [markdown]
r"""
The band shows only the runs that you made, and more seeds can only widen it, so say how many there were.

Don't compare seed by seed: unlike the pairs in Chapter 12, DQN's seed 3 and PPO's seed 3 share nothing but the number.
Compare *every* run of one algorithm with *every* run of the other.
The fraction of these pairs that DQN wins estimates the [probability of improvement](../docs/glossary.md#probability-of-improvement), and a bootstrap that resamples each algorithm's runs separately gives an interval for it.
A run that never reached the target is [censored](../docs/glossary.md#censored-run): you know only that it needs more than its budget.
If you dropped it, you would drop one of the worst runs.
Here, it loses to every run that reached the target within that budget, and any pair still undecided counts as half a win.
"""


# %%
def outcomes(runs, column):
    """Return a row for each run: when it arrived, and 1; or how long it ran without arriving, and 0."""
    found = [arrival(run, SOLVED)[column] for run in runs]
    lasted = [run[-1][column] if run else 0 for run in runs]  # 0: not one iteration ended in time
    return np.array([(end, 0) if math.isnan(at) else (at, 1) for at, end in zip(found, lasted, strict=True)])


def chance_to_be_first(one, other):
    """Return the fraction of pairs in which a run of `one` arrives before a run of `other`; an undecided pair counts half."""
    (mine, arrived), (theirs, they_arrived) = one.T[:, :, None], other.T[:, None, :]
    earlier, later = (mine < theirs) & (arrived == 1), (theirs < mine) & (they_arrived == 1)
    return np.mean(earlier + (1 - earlier - later) / 2)


# %% tags=["demo"]
if bands:
    rng = np.random.default_rng(0)
    for column, unit in enumerate(["steps", "seconds"]):
        dqn, ppo = (outcomes(bands[name], column) for name in ("DQN", "PPO"))
        resampled = [chance_to_be_first(rng.choice(dqn, len(dqn)), rng.choice(ppo, len(ppo))) for _ in range(1000)]
        low, high = np.percentile(resampled, [2.5, 97.5])
        print(f"DQN needs fewer {unit}: {chance_to_be_first(dqn, ppo):.2f}, interval {low:.2f} to {high:.2f}")

# %% [markdown]
r"""
If the interval contains 0.5, these runs don't tell you which algorithm is ahead, so run more seeds.
If all runs of one algorithm come before all runs of the other, the interval shrinks to a point.
If the two were equally good, chance alone would do that in 1 of 126 cases with five runs each, and in 1 of 3 with two.
For returns over many runs and tasks, papers report the [interquartile mean](../docs/glossary.md#interquartile-mean), the mean of the middle half, which one lucky seed can't move far.
"""

# %% [markdown] tags=["notes"]
r"""
Ask for a show of hands: whose two rankings were right?
Then ask what would make the right plot look like the left one; the next section answers that.
"""

# %% [markdown]
r"""
Does this hold for another problem?
Outside quick mode, the next cell runs the same five algorithms on CartPole, which takes two or three minutes.
The budget is small, so the target is a mean return of 100 instead of 500.
"""

# %% tags=["demo"]
if curves and budget(full=True, quick=False):
    cartpole, longer, time_budget = on("CartPole-v1", configs), {}, 0
    cartpole["DQN"].training(epsilon=[(0, 1.0), (1500, 0.05)], target_network_update_freq=200, training_intensity=16)
    for name in track(list(cartpole), "training"):
        longer |= compare({name: cartpole[name]}, steps=3000, seconds=time_budget)
        time_budget = time_budget or longer["DQN"][-1][1]
    longer = smoothed(longer)
    two_plots({name: [rows] for name, rows in longer.items()}, target=100, most_steps=10_000)
    display(arrivals(longer, target=100).sort_values("steps"))

# %% [markdown]
r"""
## Choose an algorithm by what a simulator step costs

Three properties of an algorithm determine how long it takes to solve a problem:

- `steps`: the environment steps that it needs;
- `own`: the seconds that it takes per 1,000 steps for the network, learning, and messages, without the simulator;
- `waits`: whether sampling waits for learning.

Two numbers are yours: the seconds per simulator step, and the number of EnvRunners that share the sampling, each on its own core.
One step of sampling takes $\text{step\_seconds} / \text{runners}$.
An algorithm that waits takes the *sum* of the sampling time and its own time; one that doesn't takes the *longer* of the two, because they overlap.

Write `pick_algorithm`, which returns the name of the algorithm that can handle these actions and solves the problem in the fewest seconds.
If none can handle them, it returns `None`.
"""


# %%
def pick_algorithm(candidates, actions, step_seconds, runners):
    """Return the name of the algorithm that needs the fewest seconds, or None if none can handle these actions.

    `candidates` is {name: {"actions": ["discrete", ...], "steps": 4000, "own": 0.5, "waits": True}}; `own` is for 1,000 steps.
    `actions` is "discrete" or "continuous".
    """
    ### BEGIN SOLUTION
    seconds = {}
    for name, one in candidates.items():
        if actions in one["actions"]:
            sampling, own = step_seconds / runners, one["own"] / 1000
            seconds[name] = one["steps"] * (sampling + own if one["waits"] else max(sampling, own))
    return min(seconds, key=seconds.get, default=None)
    ### END SOLUTION


# %%
check("pick_algorithm", pick_algorithm)

# %% [markdown] tags=["solution"]
r"""
Your formula leaves things out: more EnvRunners also mean older weights and larger batches.
But it gets the large effects right.
"""

# %% [markdown]
r"""
Now feed `pick_algorithm` *your* curves.
`steps` is where each curve first reached the target, and `own` is the time that 1,000 steps took on average, because the corridor itself takes almost no time.

**Predict:** you've just seen the ranking for a simulator step that takes no time, with one EnvRunner.
How many milliseconds must a step take before another algorithm needs the fewest seconds?
"""

# %% tags=["demo"]
predict("winner_changes", ...)  # milliseconds per step

# %% tags=["demo"]
candidates = {}
for name, rows in curves.items():
    if not math.isnan(steps := arrival(rows, SOLVED)[0]):
        kinds_of = {"DQN": ["discrete"]}.get(name, ["discrete", "continuous"])
        own = 1000 * rows[-1][1] / rows[-1][0]
        candidates[name] = {"actions": kinds_of, "steps": steps, "own": own, "waits": name not in ("APPO", "IMPALA")}

if passed("pick_algorithm") and candidates:
    for milliseconds in (0, 0.1, 1, 10, 100):
        print(f"{milliseconds:5} ms per step: {pick_algorithm(candidates, 'discrete', milliseconds / 1000, 1)}")
    costs = [0, *np.logspace(-5, 0, 200)]  # seconds of a step
    winners = [pick_algorithm(candidates, "discrete", cost, 1) for cost in costs]
    changes = [cost for cost, winner in zip(costs, winners, strict=True) if winner != winners[0]]
    if changes:
        display(measured("winner_changes", 1000 * changes[0]))

# %% tags=["demo"]
if candidates:
    figure, axes = plt.subplots(figsize=(7, 3.4), constrained_layout=True)
    costs = np.logspace(-5, 0, 200)  # seconds of a step
    for name, one in candidates.items():
        own = one["own"] / 1000
        seconds = one["steps"] * (costs + own if one["waits"] else np.maximum(costs, own))
        axes.loglog(1000 * costs, seconds, color=colors[name], label=name)
    axes.set(
        xlabel="milliseconds per simulator step",
        ylabel="seconds until solved",
        title="Predicted from your curves, for one EnvRunner",
    )
    axes.legend()

# %% [markdown]
r"""
The winner usually changes at a step time of no more than a few milliseconds, which is short for a simulator.
At the right, the lines are in the same order as in the plot against steps.
At the left, they're in nearly the same order as in the plot against seconds: `own` is an average over the whole run, so two algorithms that are close may change places.
Where two lines cross, neither choice is a mistake.
"""

# %%
### BEGIN SOLUTION
slow_robot = "b"
### END SOLUTION

# %%
quiz("slow_robot", slow_robot)

# %% [markdown]
r"""
## More learners, or a GPU, help only when learning is slow

So far, all learning has happened in one process.
`.learners(...)` changes that:

| setting | where learning happens |
|---|---|
| `num_learners=0` | in the process that built the algorithm: the **local** learner |
| `num_learners=1` | in a separate process |
| `num_learners=n` | in n processes with copies of one network; each gets its own `train_batch_size_per_learner` steps, and the gradients are averaged, so the copies stay identical |
| `num_gpus_per_learner=1` | each learner has a GPU |

You can build a `LearnerGroup` without any EnvRunner, and fetch each learner's process ID:
"""

# %% tags=["demo"]
rows = []
for learners in track(budget([0, 1, 2], [0, 1]), "building"):
    config = common(PPOConfig()).training(train_batch_size_per_learner=500).learners(num_learners=learners)
    group = config.build_learner_group(env=gymnasium.make(CORRIDOR))
    pids = learner_pids(group)
    group.shutdown()
    rows.append({"num_learners": learners, "processes": pids, "batch": config.total_train_batch_size})
pandas.DataFrame(rows)

# %%
### BEGIN SOLUTION
two_learners = "b"
### END SOLUTION

# %%
quiz("two_learners", two_learners)

# %% [markdown]
r"""
A GPU multiplies large matrices much faster than a CPU, but it takes longer to start a small job, because the CPU has to send it each layer's work.
The next cells measure a small network and a large one, on the CPU and, if Ray has found one, on the GPU.

**Predict:** how many times longer does an update take on the CPU with two hidden layers of 1,024 units than with two of 64?
(In quick mode, the large layers have 512 units.)
"""

# %% tags=["demo"]
predict("wide_network", ...)  # times as long


# %%
def seconds_of_learning(width, gpus):
    """Return the seconds that the learner takes for four epochs over one batch: the better of two measurements."""
    config = common(PPOConfig()).environment(CORRIDOR).learners(num_learners=0, num_gpus_per_learner=gpus)
    config.rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[width, width], vf_share_layers=False))
    with built(config.env_runners(num_env_runners=0, num_envs_per_env_runner=8)) as [algo]:
        times = []
        for _ in range(3):
            episodes = algo.env_runner.sample(num_timesteps=budget(2048, 512))
            start = time.perf_counter()
            algo.learner_group.update(episodes=episodes, num_epochs=4, minibatch_size=256)
            times.append(time.perf_counter() - start)
        return min(times[1:])  # the first one is a warm-up


# %% tags=["demo"]
gpus = int(ray.cluster_resources().get("GPU", 0))
print("Ray has found a GPU." if gpus else "Ray has found no GPU here, so these are only the CPU's times.")
widths = (64, budget(1024, 512))
table = {"CPU": {width: seconds_of_learning(width, gpus=0) for width in widths}}
if gpus:
    table["GPU"] = {width: seconds_of_learning(width, gpus=1) for width in widths}
frame = pandas.DataFrame(table).rename_axis("units per layer")
ratios = frame / frame.iloc[0]
display(pandas.concat([frame.round(3).add_suffix(", seconds"), ratios.round(1).add_suffix(", times as long")], axis=1))
measured("wide_network", ratios["CPU"].iloc[-1])

# %% [markdown]
r"""
A network 16 times as wide needs about 250 times the multiplications (in quick mode, one 8 times as wide needs about 60 times as many), yet its update takes far less than 250 times as long.
For the small network, most of the time goes into everything around the multiplications, and a GPU doesn't shorten that.
A GPU pays off when both the batch and the network are large, as with images or attention, and it shortens only one part of an iteration, the learning.

Libraries differ in what they distribute:

| | sampling | learning |
|---|---|---|
| RLlib | EnvRunners on one or many machines, synchronous or asynchronous | one learner or several, on one or many machines |
| Stable-Baselines3 | environments in processes of one machine (`SubprocVecEnv`) | one process |
| CleanRL | vectorized environments inside the script | the same process; `ppo_atari_multigpu.py` runs a copy on each GPU |

Older texts also list A3C and A2C, which RLlib has removed ([Old names](../docs/old_names.md)).
In A3C, the workers sent *gradients* to a shared network, as in Chapter 9; in IMPALA and APPO, they send *experience*.
"""

# %%
ray.shutdown()

# %% [markdown]
r"""
## What you can do now

- You can sort an algorithm by the experience it can learn from, and by what waits for what.
- You can fit DQN's schedules to the length of training, and APPO's fragments to your simulator.
- You can compare algorithms under one budget and over several seeds, and predict which one to try first.
- You know that more learners or a GPU shorten only the learning.

## Traps

- **`training_intensity` is rounded** to whole updates: with four environments, you ask for 12 and get 16.
- **APPO and IMPALA start processes that you didn't ask for**: a learner (`num_learners=1`), and a server that distributes weights.
- **APPO's target network** is updated only once in 32 updates of the policy, because `target_network_update_freq=2` counts in units of 8 × 2 batches.

## Read on

- Mnih et al., [*Human-level control through deep reinforcement learning*](https://www.nature.com/articles/nature14236), 2015: DQN.
  Hessel et al., [*Rainbow*](https://arxiv.org/abs/1710.02298), 2018: the refinements of DQN, and what each of them contributes.
- Haarnoja et al., [*Soft Actor-Critic*](https://arxiv.org/abs/1801.01290), 2018; Christodoulou, [*SAC for discrete action settings*](https://arxiv.org/abs/1910.07207), 2019.
- Espeholt et al., [*IMPALA*](https://arxiv.org/abs/1802.01561), 2018: V-trace is section 4.
  Luo et al., [*IMPACT*](https://arxiv.org/abs/1912.00167), 2020: the circular buffer and target network of RLlib's APPO.
  Mnih et al., [*Asynchronous methods*](https://arxiv.org/abs/1602.01783), 2016: A3C.
- Agarwal et al., [*Deep RL at the edge of the statistical precipice*](https://arxiv.org/abs/2108.13264), 2021: how to compare with few seeds.
- RLlib's documentation: [algorithms](https://docs.ray.io/en/latest/rllib/rllib-algorithms.html) and [scaling](https://docs.ray.io/en/latest/rllib/scaling-guide.html).
  Its [examples](https://github.com/ray-project/ray/tree/master/rllib/examples) have a script for most features.
"""
