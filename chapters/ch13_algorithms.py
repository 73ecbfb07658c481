# %% [markdown] you_learn_to="compare PPO, DQN, SAC, APPO and IMPALA fairly"
r"""
# Chapter 13 · Choosing an algorithm

An algorithm that needs few steps may still need many seconds.

*About 100 minutes · builds on [Chapter 12](ch12_env_runners.ipynb); [Chapter 9](ch09_dqn.ipynb) and [Chapter 10](ch10_actor_learner.ipynb) wrote DQN and PPO by hand*

**What you will be able to do**

- tell on-policy from off-policy and synchronous from asynchronous, and say what each costs;
- find out why a DQN learns nothing, and pace an APPO, from what they do rather than what you typed;
- compare algorithms under one budget and over several seeds, with returns against steps *and* against seconds;
- choose an algorithm from three numbers: the steps it needs, its own time, the time of a simulator's step;
- say what a second learner or a GPU would change, and measure it if you have one.
"""

# %%
import math
import time

import gymnasium
import matplotlib.pyplot as plt
import numpy as np
import pandas

from coursekit import SlowSimulator, begin, budget, check, hint, passed, progress, quiz, solution
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

ray.shutdown()  # ends a Ray that already runs here: its references and actors are gone
ray.init(num_cpus=4, include_dashboard=False);

# %% [markdown] tags=["notes"]
r"""
The run sheet plans a hundred minutes, with `pick_algorithm` and the section on learners and GPUs as homework.
The comparison is the heart: have the class write down two orders of arrival *before* it runs, one in steps and one in seconds.
It takes a minute or two with three algorithms and several with five, so start it before the coffee break.
The bands over several seeds take about as long again: start their cell too.
"""

# %% [markdown]
r"""
## Two questions tell the algorithms apart

Chapter 11 used only PPO.
RLlib has a handful of others, and two questions sort them.

**Which experience may it learn from?** An *on-policy* algorithm learns only from what its newest policy played.
An *off-policy* algorithm may learn from what any policy played: an older one, another program, a human.

**Does playing wait for learning?** In a *synchronous* algorithm all runners play, then the learner learns, then all play again.
In an *asynchronous* one the EnvRunners play on while the learner learns.

| | may learn from | playing and learning | what it keeps |
|---|---|---|---|
| **PPO** | its newest policy | in turn | one batch |
| **IMPALA** | policies a few updates old | at the same time | the fragments in transit |
| **APPO** | policies a few updates old | at the same time | the last few batches, each used twice |
| **DQN**, **SAC** | any policy | in turn | a replay buffer |

A third question has nothing to do with distribution, yet comes first: *which actions does it take?*
A discrete action is one of a list, such as left and right; a continuous one is one or more real numbers, such as a torque.
You need no table for this: RLlib refuses to build what it cannot do.

There are two problems: `CORRIDOR` is chapter 11's corridor, ten squares with the exit at the end and two actions.
Pendulum's action is one torque.

Which of the five refuses discrete actions, and which continuous ones?
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
pandas.DataFrame({title: {n: takes(kind, env) for n, kind in kinds.items()} for title, env in problems.items()})

# %% [markdown]
r"""
DQN computes a value for every action and takes the largest, and there is no "every action" among torques.
**SAC** (soft actor-critic) is its relative with an actor: two networks rate actions, and a third draws them and is paid a little for staying undecided.
SAC was invented for continuous actions, and many texts say that it takes nothing else, but RLlib's takes discrete ones too.

## Off-policy: a step is worth more than one batch

![On-policy: a batch of the newest policy goes to the learner and is then thrown away. Off-policy: steps stay in a replay buffer, from which the learner draws again and again](../img/ch13_policies.svg)

PPO asks: *how much better than expected was this action, for the policy I am?*
Once the policy has moved on, the answer is stale, so PPO throws the batch away.
DQN asks: *what did this action lead to, here?*
That stays true whichever policy asks, so DQN keeps each step in a **replay buffer** and learns from it many times.
The price: each time costs an *update*, a gradient step, and that takes time.

In chapter 9 you wrote a replay buffer, a target network and exploration.
RLlib's DQN has all three, and switches on three refinements you did not write:
"""

# %% tags=["demo"]
extras = {name: getattr(DQNConfig(), name) for name in ["double_q", "dueling", "n_step", "num_atoms"]}
pandas.Series({"replay buffer": DQNConfig().replay_buffer_config["type"], **extras}, dtype=object).to_frame("DQN's default")

# %% [markdown]
r"""
- **Prioritised replay**: it draws a step more often if the network got its value badly wrong.
- **Double Q**: one network chooses the best next action and the target network rates it, because a network that rates its own choice is too optimistic.
- **Dueling**: the network estimates the value of a square, and for each action how much better it is than the average.

Two others are there but off: returns over several steps (`n_step`), and a distribution in place of a mean (`num_atoms`).
So when you compare RLlib's DQN with yours, you compare different algorithms.

The rest you know from chapter 9, as settings:

| what it says | setting |
|---|---|
| the share of random actions, as points (steps played, share); between them it falls along a line | `epsilon` |
| the buffer keeps this many steps, then the oldest episodes leave | `replay_buffer_config={"capacity": ...}`; what you leave out stays as it is |
| learning begins after this many steps of play | `num_steps_sampled_before_learning_starts` |
| the target network, a copy that lags behind, gets the weights each time this many more steps have been played | `target_network_update_freq` |
| for each step played, the learner learns from this many steps of the buffer, 32 in each update | `training_intensity` |

A colleague wants the corridor solved within a thousand steps.
Ten squares are a small problem, so the colleague leaves all of this at RLlib's defaults:
"""


# %%
def hopeful_dqn(length):
    """Return a colleague's DQN for a corridor of `length` squares, played in this process in four environments."""
    return (
        DQNConfig()
        .environment(CORRIDOR, env_config={"length": length})
        .env_runners(num_env_runners=0, num_envs_per_env_runner=4)
        .debugging(seed=0, log_sys_usage=False)
    )


# %% [markdown]
r"""
**Predict:** how many of its thousand steps does it learn from, and what is its mean return in the last 250?
The best return is 0.2, and a hundred steps of wandering earn −10.
"""


# %%
def diary(config, steps):
    """Return a table with a row for every 250 steps of a training."""
    config = config.copy(copy_frozen=False).reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=250)
    rows = []
    with built(config) as [algo]:
        while not rows or rows[-1]["played"] < steps:
            result = algo.train()
            learned = result.get("learners", {}).get("default_policy", {}).get("num_module_steps_trained_lifetime", 0)
            mean = result["env_runners"].get("episode_return_mean", math.nan)
            rows.append({"played": result["num_env_steps_sampled_lifetime"], "learned from": learned, "mean return": mean})
    return pandas.DataFrame(rows).round(2)


# %% tags=["demo"]
diary(hopeful_dqn(length=10), steps=1000)

# %% [markdown]
r"""
Write `short_dqn`: DQN that solves a corridor of `length` squares within `steps` steps, about a thousand.
Solved means that the episodes that end in the last 300 steps take, on average, at most seven steps more than they need.
It plays in your notebook's own process, so the check can train it with up to three seeds.
Begin with the colleague's config, print the defaults of the five settings (`DQNConfig().epsilon`), and ask of each: what has it done after a thousand steps?
"""


# %%
def short_dqn(length, steps):
    """Return DQN for a corridor of `length` squares that has solved it after `steps` steps, played in this process."""
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
Two of the defaults are fatal here, and each hides the other.
Learning begins after a thousand steps, when everything is over.
And DQN explores for ten thousand, so it hardly ever asks a network that knows the way.
The other defaults only slow learning down.

All these numbers count steps, so they belong to a length of training: defaults for ten million steps are wrong for a thousand, and vice versa.
Nothing warns you: a program cannot see that exploring to the end is a mistake.
But you can count how many steps it has learned from, and how often it played its best action.

`training_intensity` means what it says only without remote EnvRunners.
RLlib divides by the number of runners *plus one*, as if the local runner played too: with one remote runner you get twice the replays you asked for, with two half as many again.
"""

# %%
### BEGIN SOLUTION
which_may_reuse = "b"
### END SOLUTION

# %%
quiz("which_may_reuse", which_may_reuse)

# %% [markdown]
r"""
Put numbers on "more than one batch": a buffer of 300 steps, 16 replays for each step played, and 600 steps of play.
In PPO each step is in one batch, which the learner goes over `num_epochs` times.
"""

# %% tags=["demo"]
memory = {"replay_buffer_config": {"capacity": 300}, "num_steps_sampled_before_learning_starts": 100}
config = hopeful_dqn(length=10).training(**memory, target_network_update_freq=50, training_intensity=16)
with built(config.reporting(min_sample_timesteps_per_iteration=600)) as [algo]:
    result = algo.train()  # one iteration: 600 steps of play, and the learning between them
    learned = result["learners"]["default_policy"]
    print(f"played     {result['num_env_steps_sampled_lifetime']:6.0f} steps")
    print(f"remembers  {algo.local_replay_buffer.get_num_timesteps():6.0f} steps")
    print(f"learned    {learned['num_module_steps_trained_lifetime']:6.0f} steps, 32 in each update")
    print(f"target network: {learned['num_target_updates']:.0f} times given the weights")

# %% [markdown]
r"""
The first hundred steps only fill the buffer.
From then on, each step of play pays for sixteen steps of learning, less rounding: learning comes in whole updates, and begins after the hundredth step.
The buffer holds somewhat fewer than 300 steps, because whole episodes leave it.

## Asynchronous: the runners play on, and the weights are a little old

![Synchronous: both EnvRunners must finish before the learner begins, and they wait while it learns. Asynchronous: the EnvRunners play on while it learns, and the learner takes each fragment as it comes](../img/ch13_waiting.svg)

PPO waits twice: fast runners wait for the slowest, and then all wait for the learner.
**IMPALA** (Espeholt et al. 2018) and **APPO**, PPO's asynchronous sister, wait for neither.
A runner plays a *fragment*, hands it over, takes the newest weights, and plays on; the learner collects fragments until they make a batch, and learns.

So the learner gets experience from a policy a few updates old, which is no longer on-policy.
A correction, **V-trace**, makes up for it: it weighs each step by chapter 10's ratio, cut off at 1.
Actions that the newest policy would hardly repeat count for little.
APPO asks a lagging copy, its *target network*, in place of the newest policy, and clips how far the newest may move away from that copy; IMPALA has no such limit.

You choose how long a fragment is, and how many make a batch.
Short fragments are fresh but cost a message each; long ones are cheap and old.
RLlib wants both in steps, while you know seconds: what your simulator's step takes, and how often you want the policy to change.

| in RLlib | what it says |
|---|---|
| `num_env_runners` | EnvRunner processes that play side by side |
| `num_envs_per_env_runner` | environments in each, which take their steps in turn: with two, each gets half of the runner's time |
| `rollout_fragment_length` | steps of *each* environment that a runner hands over at once |
| `train_batch_size_per_learner` | steps, from all runners together, that the learner collects for an update |
| `.learners(num_learners=0)` | the notebook's own process learns |

Write `paced_appo`: APPO on `CORRIDOR` with `runners` runners of **two** environments each, learning in your notebook's process.
A simulator step takes `nap` seconds, and nothing else takes time.
Then an update must come every `pace` seconds, in which each runner must hand over `messages` fragments.

The check builds it twice, first without a remote EnvRunner, then with a real one, and looks at what arrives at the learner; that takes up to half a minute.
Without a remote runner, the notebook's own plays alone.
"""


# %%
def paced_appo(runners, nap, pace, messages):
    """Return APPO on CORRIDOR: an update every `pace` seconds of play, from `messages` fragments of each runner."""
    ### BEGIN SOLUTION
    steps = pace / nap  # of each runner between two updates, its two environments together
    return (
        APPOConfig()
        .environment(CORRIDOR)
        .env_runners(
            num_env_runners=runners,
            num_envs_per_env_runner=2,
            rollout_fragment_length=round(steps / messages / 2),
        )
        .learners(num_learners=0)
        .training(train_batch_size_per_learner=round(steps * max(runners, 1)))
    )
    ### END SOLUTION


# %%
check("paced_appo", paced_appo)

# %% [markdown] tags=["solution"]
r"""
A second environment in a runner makes no more steps a second here, since the two simulators nap one after the other; it only halves the fragment.
A second runner does make more steps, so to keep the pace, the batch grows with the runners.
Keep the batch instead, and the policy changes more often, from equally long fragments.

The documentation's fragments of 50 steps are a compromise for many runners.
With `num_learners=0` the notebook's process learns *and* asks the runners for fragments: a runner plays its fragment to the end meanwhile, and then waits for the next request.
With 1, APPO's default, the learner has a process and a core of its own, and the requests go on.
"""

# %%
### BEGIN SOLUTION
who_waits = "a"
### END SOLUTION

# %%
quiz("who_waits", who_waits)

# %% [markdown]
r"""
To see how much waiting there really is, give each runner a simulator that needs 5 ms for a step, like chapter 7's `SlowSimulator`, and ask what share of the time the simulators ran.
The rest is network, messages, learning, and waiting.

`register_env` gives our environment a name that RLlib knows in all processes.
`common` holds what all algorithms of this chapter share.
"""


# %%
def slow_corridor(options):
    """Return a corridor each of whose steps takes options["seconds"]."""
    return SlowSimulator(gymnasium.make(CORRIDOR), **options)


tune.register_env("slow_corridor", slow_corridor)
network = DefaultModelConfig(fcnet_hiddens=[64, 64], vf_share_layers=False)  # the critic has layers of its own


def common(config):
    """Return a config with what all algorithms of this chapter share."""
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
Two of APPO's settings matter here.
`use_env_runner_state_server=False` saves a process that hands out weights; it pays only with many runners.
With `timeout_s_sampler_manager=0.05` the notebook's process asks the runners for news twenty times a second; by default it asks without a pause, and keeps a core busy.

**Predict** for PPO and for APPO with the same runners: whose simulators run for the larger share of the time, and by how much?
And how many updates old, on average, are the weights behind APPO's experience?
"""


# %%
def running_share(config, nap, seconds):
    """Return the share of the time in which an algorithm's simulators ran, and all results of that time."""
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
    """Return how many updates old the weights were that had played what the learner got, on average."""
    learned = [result.get("learners", {}).get("default_policy", {}) for result in results]
    ages = [row.get("diff_num_grad_updates_vs_sampler_policy", math.nan) for row in learned]
    return np.mean([age for age in ages if not math.isnan(age)] or [math.nan])  # an iteration may be without an update


# %% tags=["demo"]
shares = {}
if passed("paced_appo"):
    runners, seconds = budget(2, 1), budget(10, 2)
    ppo = PPOConfig().env_runners(num_env_runners=runners, num_envs_per_env_runner=2)
    shares["PPO"], _ = running_share(ppo.training(train_batch_size_per_learner=256), 0.005, seconds)
    appo = paced_appo(runners, nap=0.005, pace=0.64, messages=2).env_runners(use_env_runner_state_server=False)
    shares["APPO"], results = running_share(appo.training(timeout_s_sampler_manager=0.05), 0.005, seconds)
    print(f"APPO learned from weights {mean_age(results):.1f} updates old, on average")

# %% tags=["demo"]
if shares:
    figure, axes = plt.subplots(figsize=(7, 1.8), constrained_layout=True)
    axes.barh(list(shares), list(shares.values()), color="#db2777")
    axes.set(xlim=(0, 1), xlabel="share of the time in which the simulators run")
    axes.invert_yaxis()

# %% [markdown]
r"""
PPO's simulators pause whenever the learner learns, longer with more epochs.
APPO's pause while their runner computes an action, packs a fragment, or waits to be asked for it.
They hardly wait for the learner, whose update is over before their fragment is, but they share the cores of your machine with it.
So the gap is widest when playing and learning take about equally long.
A much slower simulator closes it, because then both only play.
More runners open it again: they play less each, while one slow runner holds up all of PPO.

The cost is the age of the weights: small, but not 0.
V-trace can only turn down what is too old; it cannot make it new.
"""

# %% [markdown] tags=["notes"]
r"""
Expect to be asked why anyone should use PPO at all.
When steps are cheap there is little to wait for, as the next section shows; and from the same seed a synchronous program can give the same result twice, while an asynchronous one cannot.
"""

# %% [markdown]
r"""
## One budget, two clocks

A fair comparison of algorithms keeps four rules:

- **The same budget for all.** RLlib's iteration is no unit: by default it is one batch for PPO, a thousand steps for DQN, ten seconds for APPO.
  Count *environment steps* and *seconds*.
- **Both clocks.** Steps are what a real robot costs you; seconds are what you wait.
- **One at a time**, since two at once share the cores.
  The clock starts once an algorithm is built.
- **No invented returns.** Until the first episode ends there is no mean return: the key is missing, or its value is NaN ("not a number").
  Such an iteration gives the curve no point, but its steps and seconds are spent.

Write `compare`.
Each algorithm trains until it has had *both*, at least `steps` environment steps and at least `seconds` seconds.
`train()` returns a result in which `result["num_env_steps_sampled_lifetime"]` counts all steps so far, and `result["env_runners"]` has `"episode_return_mean"`, if there is one.
"""


# %%
def compare(configs, steps, seconds):
    """Return {name: [(steps so far, seconds so far, mean return), ...]}, a row for each iteration that has a mean return.

    `configs` is {name: config}. One after the other is built, trained until it has had both budgets, and stopped.
    """
    ### BEGIN SOLUTION
    curves = {}
    for name, config in configs.items():
        algo = config.build_algo()
        curves[name], played, start = [], 0, time.perf_counter()
        try:
            while played < steps or time.perf_counter() - start < seconds:
                result = algo.train()
                played, now = result["num_env_steps_sampled_lifetime"], time.perf_counter() - start
                mean = result["env_runners"].get("episode_return_mean", math.nan)
                if not math.isnan(mean):
                    curves[name].append((played, now, mean))
        finally:
            algo.stop()
    return curves
    ### END SOLUTION


# %%
check("compare", compare)

# %% [markdown] tags=["solution"]
r"""
A result's mean return comes from episodes played *while learning*, dice and exploration included.
For a paper you would evaluate in between, without exploring, as in chapter 11.
Here all have the same handicap.
"""

# %% [markdown]
r"""
Here are the five, each near RLlib's defaults, with the numbers a problem of a few thousand steps needs.
The first three run in quick mode, too.
PPO's one EnvRunner is asked once an iteration, unless a batch takes less than the tenth of a second that `common` asks for, so its mean return is a true mean.
The others ask for several fragments, and report a mean of means (chapter 11): good enough to see which is ahead.
"""

# %%
configs = {}
if passed("short_dqn") and passed("paced_appo"):
    here = {"num_env_runners": 0, "num_envs_per_env_runner": 8}  # in this process
    there = {"num_env_runners": 1, "use_env_runner_state_server": False}  # in one other process
    hurry = {"train_batch_size_per_learner": 256, "lr": 1e-3, "timeout_s_sampler_manager": 0.05}
    often = {"target_network_update_freq": 20, "training_intensity": 16, "lr": 1e-3}
    # SAC's own: three learning rates, the pay for being undecided, the target's pace
    rates = {"actor_lr": 1e-3, "critic_lr": 1e-3, "alpha_lr": 3e-4, "initial_alpha": 0.02, "tau": 0.05}
    configs = {
        "PPO": PPOConfig().env_runners(**here).training(train_batch_size_per_learner=512, num_epochs=6, lr=1e-3),
        "DQN": short_dqn(length=10, steps=1000).training(**often),
        "APPO": paced_appo(runners=1, nap=0.005, pace=1.28, messages=4).env_runners(**there).training(**hurry),
        "IMPALA": IMPALAConfig()
        .env_runners(num_envs_per_env_runner=2, rollout_fragment_length=32, **there)
        .learners(num_learners=0)
        .training(**hurry),
        "SAC": SACConfig()
        .env_runners(num_env_runners=0, num_envs_per_env_runner=4)
        .training(num_steps_sampled_before_learning_starts=100, train_batch_size_per_learner=64, **rates),
    }

# %% [markdown]
r"""
The problem is the corridor: nine steps to the right earn $1 - 8 \cdot 0.1 = 0.2$.
Call it solved at a mean return of $-0.5$: sixteen steps, dice included.

DQN goes first and has `STEPS` steps.
The seconds these take are the others' budget of seconds, so the comparison suits quick machines as well as slow ones.

One iteration of fifty steps ends with a few episodes, or none, and a few lucky ones are no solution.
RLlib does not smooth a mean return across iterations (chapter 11), so `smoothed` does: a row is the mean of the last five.

**Predict** two orders of arrival: which algorithm solves it after the fewest *steps*, and which after the fewest *seconds*?
"""


# %%
def on(problem, configs):
    """Return copies of the configs for this problem, with what all share, and no settings of another environment."""
    copies = {name: common(config.copy(copy_frozen=False)).environment(problem) for name, config in configs.items()}
    for config in copies.values():
        config.env_config = {}
    return copies


def smoothed(curves, last=5):
    """Return the curves with the mean of the `last` mean returns in each row; the first rows have too few and drop out."""
    return {
        name: [(*rows[end - 1][:2], np.mean([row[2] for row in rows[end - last : end]])) for end in range(last, len(rows) + 1)]
        for name, rows in curves.items()
    }


# %% tags=["demo"]
SOLVED, STEPS, curves = -0.5, budget(2000, 700), {}
if configs and passed("compare"):
    chosen = on(CORRIDOR, {name: configs[name] for name in budget(list(configs), ["PPO", "DQN", "APPO"])})
    curves = compare({"DQN": chosen.pop("DQN")}, steps=STEPS, seconds=0)
    enough = curves["DQN"][-1][1]  # the seconds of DQN's steps: now the budget of all
    curves = smoothed(curves | compare(chosen, steps=STEPS, seconds=enough))

# %%
colours = {"PPO": "#059669", "DQN": "#d97706", "APPO": "#2563eb", "IMPALA": "#7c3aed", "SAC": "#db2777"}


def arrivals(curves, target):
    """Return a table: steps and seconds at which each algorithm first had that mean return, and its pace."""
    rows = {}
    for name, rows_of_one in curves.items():
        there = [row for row in rows_of_one if row[2] >= target] or [(math.nan,) * 3]
        steps, seconds, _ = (rows_of_one or [(math.nan,) * 3])[-1]
        rows[name] = {"steps": there[0][0], "seconds": there[0][1], "steps a second": steps / seconds}
    return pandas.DataFrame(rows).T.round(1)


# %%
def two_pictures(runs, target, most_steps):
    """Draw the mean returns of each algorithm's runs against steps, up to `most_steps`, and against seconds."""
    figure, pair = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True, constrained_layout=True)
    for ax, column, limit, label in [(pair[0], 0, most_steps, "environment steps"), (pair[1], 1, None, "seconds")]:
        for name, curves_of_one in runs.items():
            lines = [([row[column] for row in rows], [row[2] for row in rows]) for rows in curves_of_one]
            draw_band(ax, lines, colours[name], name)
        ax.axhline(target, color="#94a3b8", linestyle=":")
        ax.set(xlabel=label, xlim=(0, limit))
    pair[0].set_ylabel("mean return")
    pair[1].legend()


# %% tags=["demo"]
if curves:
    two_pictures({name: [rows] for name, rows in curves.items()}, SOLVED, most_steps=5000)
    display(arrivals(curves, SOLVED).sort_values("steps"))

# %% [markdown]
r"""
The same runs, the same returns, and as a rule a different order.
An algorithm with NaN did not get there within the budget.
Against steps the replay buffer pays: it learns from a few hundred steps again and again.
Against seconds each of these updates has its price.
PPO plays eight environments at once and learns in large batches, so it makes many more steps a second and can afford to waste them.

For the asynchronous ones, on two cores and with a simulator that takes no time, there is nothing to wait for: they pay for messages and old weights, and gain little.
They win when enough runners make playing as quick as learning, and when steps take unequal times.

Neither picture is the true one.
A step of this corridor costs microseconds; for a robot or a large simulator, the left picture counts.

And each curve is one run: another seed means other first weights, other dice and another curve.
So run two of them, DQN and PPO, with more seeds.
Draw the mean of each algorithm's runs, and around it a band from its worst run to its best.
"""

# %% tags=["demo"]
if curves:
    bands = {name: [curves[name]] for name in ("DQN", "PPO")}  # seed 0 has run
    for seed in range(1, budget(4, 1) + 1):
        pair = {name: config.debugging(seed=seed) for name, config in on(CORRIDOR, {n: configs[n] for n in bands}).items()}
        for name, rows in smoothed(compare(pair, steps=STEPS, seconds=enough)).items():
            bands[name].append(rows)
    two_pictures(bands, SOLVED, most_steps=5000)
    each = {f"{name}, seed {seed}": rows for name, runs in bands.items() for seed, rows in enumerate(runs)}
    display(arrivals(each, SOLVED))

# %% [markdown]
r"""
Go through the table seed by seed.
Does DQN need fewer steps every time, and PPO fewer seconds?
If one seed turns an order round, or the bands overlap, a single run cannot tell you which is ahead: run more seeds.
The band shows the runs you made, so it widens with each seed; say how many there were.
Chapter 12's interval turns the differences, seed by seed, into a statement about seeds you did not run.
"""

# %% [markdown] tags=["notes"]
r"""
Ask for hands: whose two orders were right?
As a rule, hardly anyone's.
Then ask what would make the right picture look like the left: that is the next section.
"""

# %% [markdown]
r"""
Does this hold for another problem?
Outside quick mode, the next cell runs the same five on CartPole, where a good policy keeps the pole up for 500 steps.
The budget, about three minutes in all, is too small to get there; which is ahead, and by which clock?
"""

# %% tags=["demo"]
if curves and budget(full=True, quick=False):
    cartpole = on("CartPole-v1", configs)
    cartpole["DQN"].training(epsilon=[(0, 1.0), (1500, 0.05)], target_network_update_freq=200, training_intensity=16)
    longer = compare({"DQN": cartpole.pop("DQN")}, steps=3000, seconds=0)
    longer = smoothed(longer | compare(cartpole, steps=3000, seconds=longer["DQN"][-1][1]))
    two_pictures({name: [rows] for name, rows in longer.items()}, target=100, most_steps=10_000)
    display(arrivals(longer, target=100).sort_values("steps"))

# %% [markdown]
r"""
## Choose by what a step costs

Three numbers of an algorithm decide how long it takes to solve a problem:

- `steps`: the environment steps it needs;
- `own`: its own seconds for 1,000 steps, with network, learning and messages but not the simulator;
- `waits`: whether playing waits for learning.

And two of yours: the seconds of a simulator's step, and the number of runners that share the playing, each on its own core.
For one step, playing takes $\text{step\_seconds} / \text{runners}$.
An algorithm that waits takes the *sum* of playing and its own time; one that does not takes the *longer* of the two, because they overlap.

Write `pick_algorithm`.
It returns the name of the one that solves the problem in the fewest seconds, among those that take such actions, or `None` if none does.
"""


# %%
def pick_algorithm(candidates, actions, step_seconds, runners):
    """Return the name of the algorithm that needs the fewest seconds, or None if none takes these actions.

    `candidates` is {name: {"actions": ["discrete", ...], "steps": 4000, "own": 0.5, "waits": True}}; `own` is for 1,000 steps.
    `actions` is "discrete" or "continuous".
    """
    ### BEGIN SOLUTION
    seconds = {}
    for name, one in candidates.items():
        if actions in one["actions"]:
            playing, own = step_seconds / runners, one["own"] / 1000
            seconds[name] = one["steps"] * (playing + own if one["waits"] else max(playing, own))
    return min(seconds, key=seconds.get, default=None)
    ### END SOLUTION


# %%
check("pick_algorithm", pick_algorithm)

# %% [markdown] tags=["solution"]
r"""
`min` with `key=seconds.get` gives the key with the smallest value.
The model leaves things out: more runners also mean older weights and larger batches.
But it gets the large effects right, and needs one cheap measurement instead of five expensive ones.
"""

# %% [markdown]
r"""
Feed it with *your* curves.
`steps` is where each curve first reached the target, and `own` is what 1,000 steps took, since the corridor itself takes almost no time.

**Predict:** you have just seen the order for a step that costs nothing.
At how many milliseconds a step does the winner change?
"""

# %% tags=["demo"]
measured = {}
for name, rows in curves.items():
    there = [row[0] for row in rows if row[2] >= SOLVED]
    if there:
        kinds_of = {"DQN": ["discrete"]}.get(name, ["discrete", "continuous"])
        own = 1000 * rows[-1][1] / rows[-1][0]
        measured[name] = {"actions": kinds_of, "steps": there[0], "own": own, "waits": name not in ("APPO", "IMPALA")}

if passed("pick_algorithm") and measured:
    for milliseconds in (0, 0.1, 1, 10, 100):
        print(f"{milliseconds:5} ms a step: {pick_algorithm(measured, 'discrete', milliseconds / 1000, 1)}")

# %% tags=["demo"]
if measured:
    figure, axes = plt.subplots(figsize=(7, 3.4), constrained_layout=True)
    costs = np.logspace(-5, 0, 200)  # seconds of a step
    for name, one in measured.items():
        own = one["own"] / 1000
        seconds = one["steps"] * (costs + own if one["waits"] else np.maximum(costs, own))
        axes.loglog(1000 * costs, seconds, color=colours[name], label=name)
    axes.set(
        xlabel="milliseconds of a simulator's step",
        ylabel="seconds until solved",
        title="Predicted from your curves, one runner",
    )
    axes.legend()

# %% [markdown]
r"""
On the left the lines lie as in the picture against seconds, on the right as in that against steps, and in between they cross.
Where they cross, neither choice is a mistake.
Algorithms that never solved the task have no line.
"""

# %%
### BEGIN SOLUTION
slow_robot = "b"
### END SOLUTION

# %%
quiz("slow_robot", slow_robot)

# %% [markdown]
r"""
## More learners, and a GPU, help a learner that is slow

Everything so far learned in one process.
`.learners(...)` says where learning happens:

| | |
|---|---|
| `num_learners=0` | in the process that built the algorithm: the **local** learner |
| `num_learners=1` | in a process of its own |
| `num_learners=n` | in n processes: copies of one network. Each gets its own `train_batch_size_per_learner` steps; their gradients are averaged, so the copies stay alike |
| `num_gpus_per_learner=1` | each of them has a GPU |

You can build a `LearnerGroup` without any EnvRunner, and ask each learner for its process:
"""

# %% tags=["demo"]
rows = []
for learners in budget([0, 1, 2], [0, 1]):
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
A GPU computes large matrices much faster, but starts small jobs more slowly: each layer is a message to another device.
So measure a small network and a large one.
The cell runs on the GPU if Ray has found one, and on the processor in any case.

**Predict:** how many times longer does an update take with layers of 1,024 than with layers of 64?
And for which would a GPU be worth its price?
"""


# %%
def seconds_of_learning(width, gpus):
    """Return the seconds of the learner for one batch, four times over: the better of two."""
    config = common(PPOConfig()).environment(CORRIDOR).learners(num_learners=0, num_gpus_per_learner=gpus)
    config.rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[width, width], vf_share_layers=False))
    with built(config.env_runners(num_env_runners=0, num_envs_per_env_runner=8)) as [algo]:
        times = []
        for _ in range(3):
            episodes = algo.env_runner.sample(num_timesteps=budget(2048, 512))
            start = time.perf_counter()
            algo.learner_group.update(episodes=episodes, num_epochs=4, minibatch_size=256)
            times.append(time.perf_counter() - start)
        return min(times[1:])  # the first prepares things


# %% tags=["demo"]
gpus = int(ray.cluster_resources().get("GPU", 0))
print("Ray has found a GPU." if gpus else "Ray has found no GPU here, so these are the processor's times alone.")
widths = (64, budget(1024, 512))
table = {"processor": {width: seconds_of_learning(width, gpus=0) for width in widths}}
if gpus:
    table["GPU"] = {width: seconds_of_learning(width, gpus=1) for width in widths}
frame = pandas.DataFrame(table).rename_axis("hidden layers")
pandas.concat([frame.round(3), (frame / frame.iloc[0]).round(1).add_suffix(", times as long")], axis=1)

# %% [markdown]
r"""
Sixteen times as wide is some 250 times the multiplications (in quick mode eight times and 60), and takes far fewer times as long: see the last column.
For the small network most of the time goes into everything around the multiplications, and no GPU shortens that.
A GPU pays when the network is large, as for pictures or attention, and the batch as well.
And, as chapter 12 showed for runners, it shortens only the learner's part.

Older texts add two algorithms to the list, A3C and A2C, which RLlib has removed ([Old names](../docs/old_names.md)).
In A3C every worker computed gradients on its own weights and sent them to a shared network, as in the shared agent of chapter 9.
IMPALA and APPO took their place: the workers send *experience*, and one learner with large batches computes the gradients.
"""

# %%
ray.shutdown()

# %% [markdown]
r"""
## What you can do now

- You sort an algorithm by two questions: which experience it may learn from, and what waits for what.
- You fit DQN's schedules to the length of training and APPO's fragments to your simulator, check what they do, not what you typed, and know what RLlib's DQN adds to yours.
- You compare under one budget, one at a time, with both clocks and over several seeds.
- You predict from three numbers which algorithm to try, and know where the lines cross.
- You know what learners and GPUs shorten: the learning, and only when it is long.

## Traps

- **An iteration is no unit.** For SAC, for example, it is at least 1 s and 100 steps; `.reporting(...)` changes it.
- **DQN explores for 10,000 steps** (`epsilon`) and learns nothing in the first 1,000 unless told otherwise.
- **`training_intensity` is rounded** to whole draws: ask for 12 and you get 16.
  And with remote EnvRunners it is larger than you asked for.
- **APPO and IMPALA start processes you did not ask for**: a learner (`num_learners=1`), and a server that hands out weights (`use_env_runner_state_server`).
- **`timeout_s_sampler_manager=0.0`**, their default, keeps a core busy asking the runners for news.
- **`DefaultModelConfig` shares layers** between policy and critic unless you say `vf_share_layers=False`.
  PPO's own default does not share, and on CartPole the difference is large.
- **Two learners double the batch.** Compare at the same total, or you compare two batch sizes.

## Read on

- Mnih et al., [*Human-level control through deep reinforcement learning*](https://www.nature.com/articles/nature14236), 2015: DQN.
  Hessel et al., [*Rainbow*](https://arxiv.org/abs/1710.02298), 2018: the refinements of DQN, and what each is worth.
- Haarnoja et al., [*Soft Actor-Critic*](https://arxiv.org/abs/1801.01290), 2018; Christodoulou, [*SAC for discrete action settings*](https://arxiv.org/abs/1910.07207), 2019.
- Espeholt et al., [*IMPALA*](https://arxiv.org/abs/1802.01561), 2018: V-trace is section 4.
  Luo et al., [*IMPACT*](https://arxiv.org/abs/1912.00167), 2020: the circular buffer and target network of RLlib's APPO.
  Mnih et al., [*Asynchronous methods*](https://arxiv.org/abs/1602.01783), 2016: A3C.
- RLlib's documentation: [algorithms](https://docs.ray.io/en/latest/rllib/rllib-algorithms.html) and [scaling](https://docs.ray.io/en/latest/rllib/scaling-guide.html).
"""
