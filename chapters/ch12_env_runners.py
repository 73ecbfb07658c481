# %% [markdown] you_learn_to="time PPO with many rollout workers against one"
r"""
# Chapter 12 · EnvRunners play side by side, and only the playing gets faster

*About 100 minutes · builds on [Chapter 1](ch01_tasks.ipynb); [Chapter 11](ch11_rllib_ppo.ipynb) helps*

**What you will be able to do**

- say what Ray is, what RLlib is, and what the one uses the other for;
- set the number of EnvRunners and of environments in each, and see who really runs;
- measure where the time of a training iteration goes, and predict what more runners would save;
- time two algorithms fairly, and report their ratio with an interval;
- choose a number of runners from two measurements;
- say what happens to a training whose runner is killed, because you killed one.
"""

# %%
import time

import matplotlib.pyplot as plt
import numpy as np
import pandas
import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

from coursekit import begin, budget, check, hint, passed, progress, quiz, solution
from coursekit.given.ch12_env_runners import flatten, kill_runner, side_by_side, who_runs
from coursekit.given.rllib_configs import built

begin("ch12_env_runners")

# %%
ray.init(num_cpus=4, include_dashboard=False);

# %% [markdown] tags=["notes"]
r"""
A hundred minutes in all; sixty when `choose_runners` and everything after it is left as homework.
Let everybody run the two cells above at once: importing RLlib and starting Ray take fifteen seconds on a small laptop.
`num_cpus=4` is a promise, not a measurement: three EnvRunners will live at once later, each asks for one logical CPU, and with `num_cpus=2` the third would wait for ever.
"""

# %% [markdown]
r"""
## Ray runs programs, RLlib is one of them

**Ray** is a general-purpose framework for distributed computing: tasks, actors and objects, for whatever you want to compute.
Several libraries are built on it: Tune, Train, Data, Serve, and **RLlib**, the one for reinforcement learning.

What does RLlib need Ray for?
An agent learns from experience, and experience takes time: millions of steps, one after the other.
So RLlib keeps actors whose only job is to play.
They used to be called *rollout workers*; today each is an **EnvRunner**.
It holds a copy of the policy's network and one or more environments, plays, and hands over the episodes.

![A driver with the algorithm and its learner in the middle; an EnvRunner actor with two environments on each side; episodes go in, weights come back](../img/ch12_env_runners.svg)

PPO repeats three steps, and one round of them is an **iteration**:

1. **Sample.** All EnvRunners play until together they have a batch of steps.
2. **Learn.** The learner goes over the batch 30 times (*epochs*), 128 steps at a time (*minibatches*), and changes its weights.
   Both numbers are RLlib's defaults.
3. **Synchronise.** The new weights go to every EnvRunner.
   Only then does the next round begin.
"""

# %%
### BEGIN SOLUTION
what_is_ray = "b"
### END SOLUTION

# %%
quiz("what_is_ray", what_is_ray)

# %%
### BEGIN SOLUTION
how_rllib_uses_ray = "a"
### END SOLUTION

# %%
quiz("how_rllib_uses_ray", how_rllib_uses_ray)

# %% [markdown]
r"""
## An iteration plays first, then it learns

Begin without any other process.
With `num_env_runners=0` the **local EnvRunner**, an ordinary object in your notebook, plays.
That is slow, but easy to look into: an exception shows where it happened, and a build takes no time.

The problem is FrozenLake: cross a lake of sixteen fields without falling into a hole.
What the agent sees is the number of its field, 0 to 15.
A network wants a vector, so the *connector* `flatten` turns the number into sixteen zeros and ones.
"""


# %%
def local_config(envs):
    """Return PPO on FrozenLake, played in this process in so many environments."""
    return (
        PPOConfig()
        .environment("FrozenLake-v1")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=envs, env_to_module_connector=flatten)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64, 64]))
        .training(train_batch_size_per_learner=500)
        .framework("torch")  # PyTorch, RLlib's default
        .debugging(seed=0)
    )


# %% [markdown]
r"""
`algo.train()` runs one iteration.
To see inside, take its three steps by hand, with a stopwatch between them.
(The names are RLlib's own; `train` calls the same methods.)
"""


# %%
def one_iteration(algo, sample):
    """Return the seconds of sampling, learning and synchronising; `sample` is a function that returns episodes."""
    moments = [time.perf_counter()]
    episodes = sample()
    moments.append(time.perf_counter())
    passes = {"num_epochs": algo.config.num_epochs, "minibatch_size": algo.config.minibatch_size}
    algo.learner_group.update(episodes=episodes, **passes)
    moments.append(time.perf_counter())
    algo.env_runner_group.sync_weights(from_worker_or_learner_group=algo.learner_group, inference_only=True)
    moments.append(time.perf_counter())
    return np.diff(moments)


# %% [markdown]
r"""
`built` is a small helper of this chapter: it calls `config.build_algo()` for each config you give it, and `algo.stop()` when the block ends, also when it ends with an error.
Whoever forgets to stop an algorithm leaves its EnvRunners running.

**Predict:** which of the three steps takes longest, and what share of the iteration is it?
"""

# %% tags=["demo"]
def measure(envs):
    """Return the seconds of the three steps for 1,000 environment steps: the better of two, since others only slow it down."""
    steps = budget(2048, 256)
    with built(local_config(envs)) as [algo]:
        one_iteration(algo, lambda: algo.env_runner.sample(num_timesteps=128))  # the first one prepares things: not counted
        times = [one_iteration(algo, lambda: algo.env_runner.sample(num_timesteps=steps)) for _ in range(2)]
    return np.min(times, axis=0) * 1000 / steps


seconds_per_1000 = {1: measure(envs=1)}
for name, part in zip(["sampling", "learning", "synchronising"], seconds_per_1000[1], strict=True):
    print(f"{name:13} {part:6.3f} s for 1,000 steps, {part / sum(seconds_per_1000[1]):4.0%} of the iteration")

# %% [markdown]
r"""
Did you guess the right one?
FrozenLake's own arithmetic is a small part of the sampling.
What takes time is everything around it: for every single step a vector goes through the connectors and the network, and an action comes out.
Synchronising costs next to nothing here, because the weights do not even leave the process.
"""

# %% [markdown]
r"""
## Several environments in one runner share the network's work

A network computes a batch of sixteen vectors in nearly the time of one.
So an EnvRunner can hold several environments, `num_envs_per_env_runner`, step them all, and ask the network once for all of them.

**Predict:** with 16 environments instead of one, how much shorter does sampling get?
And learning?
"""

# %% tags=["demo"]
seconds_per_1000 |= {envs: measure(envs) for envs in (2, 4, 16)}

# %% tags=["demo"]
def plot_parts(axes, seconds):
    """Draw a bar for each number of environments, made of the seconds of the three steps; return the axes."""
    labels, base = [str(envs) for envs in seconds], 0
    colours = {"sampling": "#7c3aed", "learning": "#059669", "synchronising": "#d97706"}
    for (name, colour), part in zip(colours.items(), np.transpose(list(seconds.values())), strict=True):
        axes.barh(labels, part, left=base, label=name, color=colour)
        base = base + part
    axes.set(xlabel="seconds for 1,000 steps")
    axes.invert_yaxis()
    return axes


figure, axes = plt.subplots(figsize=(7, 3), constrained_layout=True)
plot_parts(axes, seconds_per_1000).set(ylabel="environments", title="More environments shorten the sampling")
axes.legend();

# %% [markdown]
r"""
The violet part shrinks, though not sixteenfold: connectors still handle every step.
The green part stays what it is: the learner gets as many steps as before.
No second process was needed for any of this, so more environments in a runner are the cheapest speed-up there is, as long as a step of the environment itself is quick.
"""

# %% [markdown]
r"""
## A second EnvRunner is a second process

Environments in one runner take turns on one core.
For a second core you need a second process: a remote EnvRunner.
Each is a Ray actor, asks for one logical CPU, and plays its share of the batch while the others play theirs.

Now set up the two sides of a comparison.
Both are PPO on FrozenLake like `local_config`, connector and all, but with **hidden layers [32, 32]** and with `batch` steps an iteration.
What is not named here stays at its default.

| | EnvRunners | environments in each |
|---|---|---|
| `many_config` | 2 | 2 |
| `single_config` | 1 | 1 |

The check reads your config, then builds it and lets it train for one small iteration.
It counts the actors and environments that are really there, so it takes some seconds: every EnvRunner is a process that imports PyTorch and RLlib.
"""


# %%
def many_config(batch):
    """Return the config of PPO on FrozenLake with two EnvRunners of two environments each."""
    ### BEGIN SOLUTION
    return (
        PPOConfig()
        .environment("FrozenLake-v1")
        .env_runners(num_env_runners=2, num_envs_per_env_runner=2, env_to_module_connector=flatten)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[32, 32]))
        .training(train_batch_size_per_learner=batch)
        .framework("torch")
        .debugging(seed=0)
    )
    ### END SOLUTION


# %%
check("many_config", many_config)


# %%
def single_config(batch):
    """Return the config of PPO on FrozenLake with one EnvRunner of one environment."""
    ### BEGIN SOLUTION
    return (
        PPOConfig()
        .environment("FrozenLake-v1")
        .env_runners(num_env_runners=1, num_envs_per_env_runner=1, env_to_module_connector=flatten)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[32, 32]))
        .training(train_batch_size_per_learner=batch)
        .framework("torch")
        .debugging(seed=0)
    )
    ### END SOLUTION


# %%
check("single_config", single_config)

# %% [markdown] tags=["solution"]
r"""
The two differ in two numbers.
A shorter solution says exactly that: a helper `config(batch, runners, envs)` that both call.
Leaving out `num_env_runners` does not give one: PPO's own default is two, and an algorithm's defaults are worth a look (`PPOConfig().to_dict()`).
`.framework("torch")` and the seed may be left out.
"""

# %% [markdown]
r"""
## Runners divide the violet part, environments shrink it

Now put both knobs into one picture: no remote runner (the local one plays, as measured above), one, and two, each with 1, 4 and 16 environments.
All come from one algorithm with two EnvRunners: `side_by_side` gives each so many environments, and returns the function that lets the first one or both play their share of the steps at the same time.

**Predict:** is one remote runner faster than the local one?
And which is better, two runners with one environment each, or one with four?
"""

# %% tags=["demo"]
parts = {0: {envs: seconds_per_1000[envs] for envs in (1, 4, 16)}, 1: {}, 2: {}}
steps = budget(2048, 256)
with built(local_config(1).env_runners(num_env_runners=2)) as [algo]:
    one_iteration(algo, side_by_side(algo, 2, 1, steps))  # a warm-up
    for runners, envs in [(1, 1), (2, 1), (1, 4), (2, 4), (1, 16), (2, 16)]:
        times = [one_iteration(algo, side_by_side(algo, runners, envs, steps)) for _ in range(budget(3, 1))]
        parts[runners][envs] = np.min(times, axis=0) * 1000 / steps

figure, rows = plt.subplots(3, figsize=(7, 5), sharex=True, constrained_layout=True)
titles = ["no remote EnvRunner", "one EnvRunner", "two EnvRunners"]
for axes, seconds, title in zip(rows, parts.values(), titles, strict=True):
    plot_parts(axes, seconds).set(title=title, xlabel="", ylabel="environments")
rows[0].legend()
rows[2].set(xlabel="seconds for 1,000 steps");

# %% [markdown]
r"""
One remote runner does what the local one did, only elsewhere: it wins nothing, and its episodes have to travel.
Two runners divide the violet part where a second core is free.
More environments shrink it on any machine, and where little violet is left, a second runner has little to divide.
The green part does not care who played, and synchronising is a sliver even when weights travel to other processes.
(In the middle row it is a little too large: both runners are alive, so both get the weights, though only one plays.)
"""

# %% [markdown]
r"""
> **You may have seen** `.rollouts(num_rollout_workers=2, num_envs_per_worker=2, create_env_on_driver=True)`, or `"num_workers": 2` in a dictionary.
> Today the three are settings of `.env_runners`:
>
> ```python
> config.env_runners(num_env_runners=2, num_envs_per_env_runner=2, create_env_on_local_worker=True)
> ```
>
> The last one is about the local EnvRunner.
> When there are remote ones, it has the network but no environment, and never plays.
> With `create_env_on_local_worker=True` it gets environments as well, as `algo.env_runner.env`: some want them for a test episode in the notebook.
> With `num_env_runners=0` it always has them.
"""

# %% [markdown]
r"""
## A fair timing takes both in turn

How much faster are two runners with two environments each than one with one?
The iterations to compare look like this:

![With one EnvRunner, sampling takes long, then learning, then the weights go out; with two EnvRunners the sampling is short and the learning as long as before](../img/ch12_iteration.svg)

It is easy to measure something else by accident.

- **The build.** Starting processes takes longer than an iteration, and more for two runners than for one.
  Whoever trains for days does not care, so leave it out, and *say so*.
- **The first iteration** prepares things.
  One warm-up each, not counted.
- **The machine's mood.** Other programs come and go; a laptop gets hot and slows down.
  If you time one algorithm first and the other afterwards, a slow minute hits only one of them.
  So take them in turn: one iteration of the one, one of the other.
  Never both at once.

Write `time_training`.
It gets two algorithms that are already built, and it must not stop them.
The check first hands over two that nap and write down when they were called; then two real ones, with two runners and with one, but tiny batches.
"""


# %%
def time_training(many, single, iterations):
    """Return {"many": [...], "single": [...]}: the seconds of so many iterations of each, timed in turn.

    Before that, both algorithms train for one iteration that is not timed.
    """
    ### BEGIN SOLUTION
    algos = {"many": many, "single": single}
    times = {"many": [], "single": []}
    for algo in algos.values():
        algo.train()
    for _ in range(iterations):
        for name, algo in algos.items():
            start = time.perf_counter()
            algo.train()
            times[name].append(time.perf_counter() - start)
    return times
    ### END SOLUTION


# %%
check("time_training", time_training)

# %% [markdown] tags=["solution"]
r"""
`algo.train()` returns when the iteration has ended, so a stopwatch around it is all.
RLlib's own clock says nearly the same: `algo.train()["time_this_iter_s"]`.
Its `result["timers"]` look tempting too, but they are smoothed: each new value counts for one per cent, so after five iterations they still tell of the first.
"""

# %%
### BEGIN SOLUTION
why_in_turn = "a"
### END SOLUTION

# %%
quiz("why_in_turn", why_in_turn)

# %% [markdown]
r"""
## Two runners with two environments are not four times as fast

Here is the measurement: five iterations of each, after one warm-up, the builds left out.
It takes a minute or two, and more on a slow machine.

**Predict** the ratio of the times.
There are two runners instead of one, and four environments instead of one.
You have measured sampling and learning above; which part does each of the twos divide?
"""

# %% tags=["demo"]
batch, iterations, times = budget(4000, 1000), 5, None
if passed("many_config") and passed("single_config") and passed("time_training"):
    with built(many_config(batch), single_config(batch)) as (many, single):
        alive = {"many": who_runs(many), "single": who_runs(single)}
        times = time_training(many, single, iterations)
        done = many.iteration, single.iteration
    print(f"{done[0]} and {done[1]} iterations of {batch} steps, warm-up included")
    display(pandas.concat({name: pandas.DataFrame(rows) for name, rows in alive.items()}).droplevel(1))

# %% tags=["demo"]
if passed("time_training") and times:
    figure, axes = plt.subplots(figsize=(7, 3), constrained_layout=True)
    for name, colour in [("single", "#64748b"), ("many", "#7c3aed")]:
        axes.plot(range(1, iterations + 1), times[name], "o-", color=colour, label=name)
    axes.set(xlabel="pair", ylabel="seconds", ylim=(0, None), title=f"{iterations} iterations of {batch} steps, in turn")
    axes.set_xticks(range(1, iterations + 1))
    axes.legend();

# %% [markdown]
r"""
Where your prediction ended up, the next exercise will tell.
The table shows who really ran: the local EnvRunners have no environments, so they never played; the remote ones are processes with numbers of their own.
Look at the curves: where one of them jumps, does the other jump in the same pair?

A ratio without an interval is half a result: would it be the same tomorrow?
The **bootstrap** estimates that from the five pairs alone.
Pretend that these pairs are all there is, and measure again *by drawing*: five pairs, with replacement, so that some come twice and others not at all.
Each such draw has a ratio of its own.
Do it 2,000 times; the middle 95 % of the ratios are the interval.
Draw whole pairs: two times that were measured one after the other belong together.
"""


# %%
def speedup(times):
    """Return (ratio, low, high) for the times that time_training gives.

    The ratio is the total seconds of "single" divided by those of "many"; low and high are its 95 % bootstrap interval.
    """
    ### BEGIN SOLUTION
    many, single = np.array(times["many"]), np.array(times["single"])
    rng = np.random.default_rng(0)
    draws = rng.integers(len(many), size=(2000, len(many)))  # each row is one draw: numbers of pairs
    ratios = single[draws].sum(axis=1) / many[draws].sum(axis=1)
    low, high = np.quantile(ratios, [0.025, 0.975])
    return single.sum() / many.sum(), low, high
    ### END SOLUTION


# %%
check("speedup", speedup)

# %% [markdown] tags=["solution"]
r"""
Drawing the two lists apart from each other gives an interval that is far too wide as soon as pairs have something in common, as they do on a busy machine.
`coursekit.compare_times` does all of this for you: it takes several ways in turn and gives medians, a ratio and its interval.
Its ratio is of medians, because a single hiccup then counts for less.
"""

# %% tags=["demo"]
if passed("speedup") and times:
    ratio, low, high = speedup(times)
    print(f"many {sum(times['many']):.1f} s, single {sum(times['single']):.1f} s for {iterations} iterations each")
    print(f"ratio {ratio:.2f}, 95 % interval {low:.2f} to {high:.2f}")

# %% [markdown]
r"""
The course from which this exercise comes reported 11.3 s for five iterations with two runners of two environments, and 18.0 s with one of one: 1.59 times as long.
It had another machine, another RLlib, and one measurement of each, so compare the direction with yours, not the digits.
Yours comes with an interval, and with a list of who ran.

Three things to be honest about.

- **This is one machine.** Its cores bound what a second process can give.
  With two cores, runners that compute can at best be twice as fast; the rest of your ratio comes from the second environment in each.
- **You may not be alone.** On a server that many learners share, or with a browser full of tabs, the second runner may find no free core.
  Then the interval gets wide, or the ratio falls to 1 and below.
  That is a correct result: report it as it is.
  The check looks at how you measured, not at how much you gained.
- **A ratio belongs to its settings.** With 10 epochs instead of 30 the learner would need a third of the time, and runners would seem to help more.
  You will compute that below.
"""

# %% [markdown] tags=["notes"]
r"""
Collect the ratios of the room on a board before anybody explains anything.
On machines of their own they lie close together; on a shared server they scatter, and some may fall below 1.
Ask those why: it is the best lesson of this chapter.
Nobody loses points for a small ratio.
"""

# %%
### BEGIN SOLUTION
twice_the_runners = "b"
### END SOLUTION

# %%
quiz("twice_the_runners", twice_the_runners)

# %% [markdown]
r"""
## Each further runner saves less

With $n$ runners on $n$ free cores, an iteration takes

$$T(n) = \frac{\text{sampling}}{n} + \text{learning}$$

because only the sampling is divided.
That is Amdahl's law: however large $n$ gets, $T(n)$ stays above the learning.
From some number on, one more process is not worth its core and its memory.

Write `choose_runners`: walk up from one runner, and stop as soon as one more would shorten the iteration by less than the share `worth`, or when `most` is reached, because there are no more cores.
"""


# %%
def choose_runners(sampling, learning, most, worth=0.05):
    """Return the smallest number of runners, at most `most`, to which adding one saves less than the share `worth`.

    `sampling` and `learning` are the seconds of the two parts of an iteration with one runner.
    """
    ### BEGIN SOLUTION
    for runners in range(1, most):
        now = sampling / runners + learning
        then = sampling / (runners + 1) + learning
        if 1 - then / now < worth:
            return runners
    return most
    ### END SOLUTION


# %%
check("choose_runners", choose_runners)

# %% [markdown] tags=["solution"]
r"""
The share is of the iteration *as it is now*, not of the first one: what counts is what you would still gain.
Without a learner ($\text{learning} = 0$) one more of $n$ runners saves $1 / (n + 1)$, so with `worth=0.05` even then you stop at twenty.
"""

# %% [markdown]
r"""
The curves below are drawn from *your* times of sampling and learning, with one environment and with sixteen in each runner.
The dotted lines are the learning alone.

**Predict:** to which number of runners will `choose_runners` go in each case, if cores are no limit?
"""

# %% tags=["demo"]
if passed("choose_runners"):
    figure, axes = plt.subplots(figsize=(7, 3.5), constrained_layout=True)
    runners = np.arange(1, 33)
    for envs, colour in [(1, "#64748b"), (16, "#7c3aed")]:
        sampling, learning, _ = seconds_per_1000[envs]
        best = choose_runners(sampling, learning, most=32)
        axes.plot(runners, sampling / runners + learning, color=colour, label=f"environments in each: {envs}, choose {best}")
        axes.plot(best, sampling / best + learning, "o", color=colour)
        axes.axhline(learning, color=colour, linestyle=":")
    axes.set(xlabel="EnvRunners", ylabel="seconds for 1,000 steps", ylim=(0, None))
    axes.set_title("Predicted from your measurements")
    axes.legend();

# %% [markdown]
r"""
With sixteen environments in each, fewer runners are enough: there is little sampling left to divide.
So first more environments in a runner, then more runners.
It is the other way round when the environment is slow, a robot simulator say: its steps take turns within a runner, and only more processes help.

Was the model right for your timed pairs?
It can predict those as well, from what one process did at the beginning; and it can say what another number of epochs would do, without another measurement.

**Predict** the ratio with 10 epochs: is it nearer to 1, or further away?
"""

# %% tags=["demo"]
if passed("time_training") and times:
    alone, in_pairs = seconds_per_1000[1], seconds_per_1000[2]  # one environment, and two in one runner
    for epochs in (30, 10):
        share = epochs / 30  # of the learning; the sampling does not know of epochs
        ratio = (alone[0] + share * alone[1]) / (in_pairs[0] / 2 + share * in_pairs[1])
        print(f"{epochs} epochs, predicted: ratio {ratio:.2f}")
    print(f"30 epochs, measured: ratio {sum(times['single']) / sum(times['many']):.2f}")

# %% [markdown]
r"""
## A runner that dies is replaced, and training goes on

The more processes, the sooner one of them dies: out of memory, a node switched off, a bug in a simulator.
Chapter 5 wrote a pool of samplers that heals itself.
RLlib has one built in: `restart_failed_env_runners`, on unless you switch it off.
See it at work: after the second iteration, the next cell kills the process of an EnvRunner, as the operating system would (`SIGKILL`), and goes on training until the runner is back.

**Predict:** what will the third iteration do: raise, wait for a new process, or go on without it?
How many steps will its batch have?
"""

# %% tags=["demo"]
rows, restarts = [], 0
with built(local_config(1).env_runners(num_env_runners=2)) as [algo]:
    while restarts == 0 and len(rows) < 40:
        start = time.perf_counter()
        result = algo.train()
        restarts = result["fault_tolerance"]["num_remote_worker_restarts"]
        alive = algo.env_runner_group.num_healthy_remote_workers()
        steps = int(result["env_runners"]["num_env_steps_sampled"])
        rows.append([algo.iteration, time.perf_counter() - start, steps, alive, restarts])
        if algo.iteration == 2:
            kill_runner(algo, 2)
pandas.DataFrame(rows, columns=["iteration", "seconds", "steps", "EnvRunners", "restarts"]).round(2).set_index("iteration")

# %% [markdown]
r"""
No exception (and Ray's half page about the death is left out here, as in chapter 5), no pause, and no smaller batch: the runner that is left plays all of the steps, so only the sampling takes longer.
Ray meanwhile starts a new process, which has to import PyTorch and RLlib first; as soon as it answers, it gets the current weights and its share of the work.
It was killed between two iterations, so all that was lost are the episodes that it had not finished.

With `.fault_tolerance(restart_failed_env_runners=False)` the third iteration would have raised; with `ignore_env_runner_failures=True` besides, it would have gone on with those that are left, for good.
A *learner* that dies is another matter: it holds the weights.
Against that only a checkpoint helps, as in [chapter 11](ch11_rllib_ppo.ipynb).
"""

# %% [markdown]
r"""
## Sixteen runners need sixteen cores, memory, and a batch to share

Suppose you want sixteen.
What would that take?

- **Cores.** Each runner asks for one logical CPU (`num_cpus_per_env_runner=1`).
  This Ray has four: `build_algo` would start four runners and wait for ever for room for the others.
  A `num_cpus=16` in `ray.init` lets all of them start, but they still share the cores that are there.
  With a cluster, sixteen runners spread over its nodes with no change in your program.
- **Memory.** Look at the table above: every runner has PyTorch and RLlib in memory, however small its network.
- **A batch to share.** The batch is split evenly, so each environment contributes a **fragment** of batch / (runners × environments) steps.
  The config knows its length, and nothing needs to be built to ask:

**Predict** the fragment for sixteen runners with four environments each, and a batch of 1,000.
"""

# %%
rows = []
for runners, envs in [(1, 1), (2, 2), (4, 4), (16, 1), (16, 4)]:
    config = local_config(envs).env_runners(num_env_runners=runners)
    for size in (1000, 4000, 64_000):
        config.training(train_batch_size_per_learner=size)
        fragment = config.get_rollout_fragment_length()
        rows.append({"runners": runners, "environments": envs, "batch": size, "fragment": fragment})
pandas.DataFrame(rows).pivot(index=["runners", "environments"], columns="batch", values="fragment")

# %% [markdown]
r"""
Sixteen steps, in some runners fifteen: did you get that?
Such a fragment cuts every episode of a longer game in pieces.
PPO copes, since the critic estimates how a cut episode would have gone on, but an estimate is worth less than the real end.
And each call of a runner then fetches only a handful of steps, so more of its time is overhead.
Who takes more runners therefore takes a larger batch as well: each iteration sees more experience, and there are fewer iterations.
Whether the agent learns faster *in seconds* is another question, and chapter 13 measures it; algorithms that do not wait for the slowest runner (APPO, IMPALA) are the answer for hundreds of them.
"""

# %%
ray.shutdown()

# %% [markdown]
r"""
## What you can do now

- You can say what Ray is and what RLlib uses it for: EnvRunners that generate experience side by side.
- You set runners and environments, and count those that really run.
- You know which part of an iteration more runners shorten, and which they do not.
- You time in turn, warm up, leave out what is not meant, and report a ratio with its interval.
- You stop adding runners when one more is not worth it.
- You know that a killed runner costs unfinished episodes and some seconds, and not the training.

## Traps

- **A number left out is not one.** `PPOConfig().num_env_runners` is 2.
- **Too few logical CPUs**: `build_algo` waits and says nothing.
  Two algorithms alive at once need the CPUs of both.
- **`training(model=…)` and `training(train_batch_size=…)`** are still accepted, but belong to the old API: use `.rl_module(...)` and `train_batch_size_per_learner`.
- **Without `flatten`**, remote runners die while they are built, and what you see is `IndexError: list index out of range`.
  Build once with `num_env_runners=0`: there the error names its cause.
- **An exception inside `foreach_env_runner`** ends the runner that raised it, after a pause of a minute.
- **`result["timers"]`** are smoothed, and the first iteration weighs most.
  Use a stopwatch.
- **PyTorch's threads.** On busy cores a learner with two threads can need more than twice the CPU time of one: with so small a network, threads mostly wait for each other.
  `built` calls `torch.set_num_threads(1)`.
- **An algorithm that is not stopped** keeps its EnvRunners, and their CPUs, until the notebook ends.

## Read on

- [Chapter 8](ch08_rollouts.ipynb) builds samplers by hand, with a slow simulator; [chapter 13](ch13_algorithms.ipynb) has several learners, GPUs, and algorithms that do not wait.
- RLlib's documentation: [scaling](https://docs.ray.io/en/latest/rllib/scaling-guide.html) and [AlgorithmConfig](https://docs.ray.io/en/latest/rllib/algorithm-config.html).
- Liang et al., [*RLlib: Abstractions for Distributed Reinforcement Learning*](https://arxiv.org/abs/1712.09381), 2018.
- Efron and Tibshirani, *An Introduction to the Bootstrap*, 1993, chapter 13: percentile intervals.
"""
