# %% [markdown] you_learn_to="time PPO with many rollout workers against one"
r"""
# Chapter 12 · Scaling with EnvRunners

EnvRunners sample in parallel, and only the sampling gets faster.

*About 105 minutes · builds on [Chapter 1](ch01_tasks.ipynb); [Chapter 11](ch11_rllib_ppo.ipynb) helps*

**What you will be able to do**

- explain what RLlib uses Ray for;
- measure where an iteration's time goes, and predict how much time additional EnvRunners would save;
- check that two configs differ only in what you compare;
- time two algorithms fairly, and report their ratio with an interval that you can trust;
- choose the number of EnvRunners from two measurements;
- explain what happens to training when an EnvRunner dies.
"""

# %%
import time

import matplotlib.pyplot as plt
import numpy as np
import pandas
import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from scipy import stats

from coursekit import begin, budget, check, explain, hint, measured, passed, predict, progress, puzzle, quiz, review
from coursekit import share, solution, track
from coursekit.given.ch12_env_runners import bar_of, flatten, kill_runner, side_by_side, who_runs
from coursekit.given.rllib_configs import built

begin("ch12_env_runners")

# %%
ray.shutdown()  # stops a Ray instance that's already running here: its references and actors are gone
ray.init(num_cpus=4, include_dashboard=False);

# %% [markdown] tags=["notes"]
r"""
The run sheet allots 105 minutes, with `choose_runners` and the killed EnvRunner as homework.
Have everyone run the two cells above right away: importing RLlib and starting Ray take fifteen seconds on a small laptop.
With `num_cpus=4`, Ray counts four CPUs, whatever the machine has.
Later, three EnvRunners run at the same time, and each requests one logical CPU, so with `num_cpus=2` the third would wait forever.
"""

# %% [markdown]
r"""
## RLlib uses Ray actors to collect experience

**Ray** is a general-purpose framework for distributed computing.
Several libraries are built on it: Tune, Train, Data, Serve, and **RLlib**, the library for reinforcement learning.

An agent often needs millions of steps of experience, and a single environment produces them one after another.
So RLlib starts [actors](../docs/glossary.md#actor) whose only job is to sample: [**EnvRunners**](../docs/glossary.md#envrunner), formerly called *rollout workers*.
An EnvRunner has one or more environments and a copy of the policy's network, and it returns the episodes that it samples.
[Old names](../docs/old_names.md) lists what else has been renamed.

![A driver with the algorithm and its learner in the middle, and an EnvRunner actor with two environments on each side; episodes go in, and weights come back](../img/ch12_env_runners.svg)

PPO repeats three phases, and one round of them is an [**iteration**](../docs/glossary.md#iteration):

1. **Sample.** Together, the EnvRunners collect one batch of environment steps.
2. **Learn.** The learner goes over the batch 30 times (*epochs*), 128 steps at a time (*minibatches*), and updates its weights.
   Both numbers are RLlib's defaults.
3. **Synchronize.** [Weight synchronization](../docs/glossary.md#weight-synchronization) gives every EnvRunner the policy's new weights before the next iteration.
   The critic stays with the learner, because choosing an action doesn't need it.
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
## An iteration samples first, then it learns

With `num_env_runners=0`, the [**local EnvRunner**](../docs/glossary.md#local-envrunner) does the sampling.
It's an ordinary object in your notebook's process, so no other process has to start, and a traceback shows where an exception happened.

The environment is FrozenLake, where the agent has to cross a lake of sixteen squares without falling into a hole.
The agent observes the number of its square, 0 to 15.
A network needs a vector, so the *connector* `flatten` turns the number into a one-hot vector: a one among fifteen zeros.
One function makes nearly every config in this chapter:
"""


# %%
def lake_config(batch, runners, envs):
    """Return PPO on FrozenLake: `batch` steps per iteration, `runners` EnvRunners, `envs` environments in each."""
    return (
        PPOConfig()
        .environment("FrozenLake-v1")
        .env_runners(num_env_runners=runners, num_envs_per_env_runner=envs, env_to_module_connector=flatten)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[32, 32]))
        .training(train_batch_size_per_learner=batch)
        .framework("torch")  # PyTorch, RLlib's default
        .debugging(seed=0)
    )


# %% [markdown]
r"""
`algo.train()` runs one iteration.
To see where its time goes, call the methods that `train` calls, with a stopwatch between them.

`built` builds an algorithm from each config that you give it and yields a list of them, hence the brackets in `as [algo]`.
It stops them when the block ends, even with an error; otherwise, they could keep their EnvRunners and CPUs until your kernel exits.
"""


# %%
def one_iteration(algo, sample):
    """Return the seconds of sampling, learning, and synchronizing; `sample` is a function that returns episodes."""
    moments = [time.perf_counter()]
    episodes = sample()
    moments.append(time.perf_counter())
    passes = {"num_epochs": algo.config.num_epochs, "minibatch_size": algo.config.minibatch_size}
    algo.learner_group.update(episodes=episodes, **passes)
    moments.append(time.perf_counter())
    algo.env_runner_group.sync_weights(from_worker_or_learner_group=algo.learner_group, inference_only=True)
    moments.append(time.perf_counter())
    return np.diff(moments)


# %%
def measure(envs):
    """Return the seconds of the three phases per 1,000 environment steps: the shorter of two times, because other programs can only make a time longer."""
    steps = budget(2048, 128)
    with built(lake_config(500, runners=0, envs=envs)) as [algo]:
        one_iteration(algo, lambda: algo.env_runner.sample(num_timesteps=128))  # a warm-up
        times = [one_iteration(algo, lambda: algo.env_runner.sample(num_timesteps=steps)) for _ in range(2)]
    return np.min(times, axis=0) * 1000 / steps


# %% [markdown]
r"""
**Predict:** the local EnvRunner samples in one environment, and then the learner goes over the batch 30 times.
What percentage of the iteration does the sampling take?
"""

# %% tags=["demo"]
predict("sampling_percentage", ...)  # percent

# %% tags=["demo"]
seconds_per_1000 = {1: measure(envs=1)}
for name, part in zip(["sampling", "learning", "synchronizing"], seconds_per_1000[1], strict=True):
    print(f"{name:13} {part:6.3f} s per 1,000 steps, {part / sum(seconds_per_1000[1]):4.0%} of the iteration")
measured("sampling_percentage", 100 * seconds_per_1000[1][0] / sum(seconds_per_1000[1]))

# %% [markdown]
r"""
Did you predict less, because of the 30 epochs?
The learner processes 128 steps at a time, but this EnvRunner processes only one.
FrozenLake's own computation is a small part of the sampling: most of the time goes into passing a vector through the connectors and the network at every step.
Synchronizing costs almost nothing here, because the weights don't even leave the process.

## Several environments in one EnvRunner share the network's forward pass

A small network takes nearly the same time for a batch of sixteen vectors as for a single one.
So an EnvRunner can have several environments (`num_envs_per_env_runner`) and run the network once for all of their observations.

**Predict:** how many times faster is the sampling with 16 environments than with one?
"""

# %% tags=["demo"]
predict("sixteen_environments", ...)  # 2 is twice as fast

# %% tags=["demo"]
seconds_per_1000 |= {envs: measure(envs) for envs in (2, 4, 16)}
measured("sixteen_environments", seconds_per_1000[1][0] / seconds_per_1000[16][0])

# %% tags=["demo"]
figure, axes = plt.subplots(figsize=(7, 3), constrained_layout=True)
labels, base = [str(envs) for envs in seconds_per_1000], 0
colors = {"sampling": "#7c3aed", "learning": "#059669", "synchronizing": "#d97706"}
for (name, color), part in zip(colors.items(), np.transpose(list(seconds_per_1000.values())), strict=True):
    axes.barh(labels, part, left=base, label=name, color=color)
    base = base + part
axes.set(xlabel="seconds per 1,000 steps", ylabel="environments", title="More environments shorten the sampling")
axes.invert_yaxis()
axes.legend(loc="lower right");

# %% [markdown]
r"""
The sampling (violet) gets several times faster, though not sixteen times, because the connectors still handle every step.
The learning (green) takes as long as before, because the learner gets the same number of steps.
All of this ran in one process.
If the environment's own step is fast, adding environments is the cheapest speedup that you can get.

## A second EnvRunner is a second process

By default, an EnvRunner steps its environments one after the other, on one core (`gym_env_vectorize_mode` can change that).
To use a second core, you need a second process: a remote EnvRunner, which is a Ray actor and requests one logical CPU.
It samples its part of the batch while the other EnvRunners sample theirs.

The next cell measures only the sampling, with one and with two remote EnvRunners, and with 1 and 16 environments in each.
`side_by_side` sets the number of environments and returns a function that makes one EnvRunner sample, or both at once.
The cell takes most of a minute.
"""

# %% tags=["demo"]
sampling = {(0, envs): seconds_per_1000[envs][0] for envs in (1, 16)}
steps = budget(2048, 128)
with built(lake_config(500, runners=2, envs=1)) as [algo]:
    one_iteration(algo, side_by_side(algo, runners=2, envs=1, steps=steps))  # a warm-up
    for runners, envs in track([(1, 1), (2, 1), (1, 16), (2, 16)], "sampling"):
        times = [one_iteration(algo, side_by_side(algo, runners, envs, steps)) for _ in range(budget(3, 1))]
        sampling[runners, envs] = np.min(times, axis=0)[0] * 1000 / steps
series = pandas.Series(sampling, name="seconds of sampling").rename_axis(["remote EnvRunners", "environments in each"])
series.unstack().round(3)

# %% [markdown]
r"""
With one remote EnvRunner, you gain nothing: it does what the local one did, and its episodes have to be sent to your notebook.
(On a busy machine, it may take several times as long; if so, run the cell again.)
If a second core is free, two EnvRunners need a little more than half of the time.
More environments make the sampling faster on any machine, but then there's less time left for a second EnvRunner to save.

## A comparison is fair if only what you compare differs

Soon, you'll time **two EnvRunners with two environments each** against **one EnvRunner with one environment**.
A colleague has prepared the two configs for you:
"""


# %%
def colleagues_pair():
    """Return a colleague's two configs, meant as two EnvRunners with two environments each, and one with one."""
    many = lake_config(4000, runners=2, envs=2).training(num_epochs=10)
    single = (
        PPOConfig()
        .environment("FrozenLake-v1")
        .env_runners(env_to_module_connector=flatten)  # "One EnvRunner is enough, so I don't need to set anything."
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[32, 32]))
        .training(train_batch_size_per_learner=1000)
        .debugging(seed=0)
    )
    return many, single


# %% [markdown]
r"""
RLlib would train both without complaint, but the ratio of their times would mean nothing.
A config has more than 250 settings, and each setting that you leave out has a default, which depends on the algorithm.
So compare settings, not source code: `config.to_dict()` returns all of them, including the defaults.
A setting that only one config has is a difference, too, even if it's None.

Write `unfair`, which takes two configs and the names of the settings that you compare.
It returns the names of all other settings in which the configs differ.
The check also passes `unfair` the default configs of PPO and DQN.
"""


# %%
def unfair(one, other, compared):
    """Return the set of the names of all settings in which two configs differ, except the names in `compared`."""
    ### BEGIN SOLUTION
    one, other, absent = one.to_dict(), other.to_dict(), object()
    differing = {name for name in one | other if one.get(name, absent) != other.get(name, absent)}
    return differing - set(compared)
    ### END SOLUTION


# %%
check("unfair", unfair)

# %% [markdown] tags=["solution"]
r"""
Compare the settings before you time anything: it takes a second, and a wrong setting costs you the whole measurement.
Look at the settings that *should* differ, too.
"""

# %% tags=["demo"]
if passed("unfair"):
    many, single = (config.to_dict() for config in colleagues_pair())
    compared = ["num_env_runners", "num_envs_per_env_runner"]
    names = [*compared, *sorted(unfair(*colleagues_pair(), compared))]
    display(pandas.DataFrame({"many": {n: many[n] for n in names}, "single": {n: single[n] for n in names}}, dtype=object))

# %% [markdown]
r"""
The number of epochs and the batch size differ but must not.
(The dict has the batch size under `_train_batch_size_per_learner`: a few of its names start with an underscore.)
The number of EnvRunners must differ but doesn't: if you leave out `num_env_runners`, PPO uses two.

Write `fair_pair`, which takes the batch size and returns the two configs that the colleague meant.
Make both with `lake_config`.
"""


# %%
def fair_pair(batch):
    """Return (many, single), two configs of lake_config with `batch` steps per iteration.

    `many` has two EnvRunners with two environments each; `single` has one EnvRunner with one environment.
    They differ in nothing else.
    """
    ### BEGIN SOLUTION
    return lake_config(batch, runners=2, envs=2), lake_config(batch, runners=1, envs=1)
    ### END SOLUTION


# %%
check("fair_pair", fair_pair)

# %% [markdown] tags=["solution"]
r"""
One function makes both configs, so they can differ only in its arguments.
"""

# %% [markdown]
r"""
## Time two algorithms alternately, after a warm-up

You want to compare iterations like these:

![With one EnvRunner, the sampling takes a long time, and then the learner learns and the weights go out; with two, the sampling is shorter, and the learning takes as long as before](../img/ch12_iteration.svg)

It's easy to measure something else by accident:

- **The build.** Starting processes takes longer for two EnvRunners than for one, but in a training run of several days, that time doesn't matter.
  So leave it out, and *say so*.
- **The first iteration.** It also sets things up, so run one warm-up iteration of each algorithm, and don't time it.
- **Other load on the machine.** If you time one algorithm and then the other, a slow minute affects only one of them.
  So alternate: time one iteration of one algorithm, then one of the other, and never run both at the same time.

Write `time_training`, which takes two built algorithms and a number of iterations, and returns the seconds of each iteration as a dict with the keys `many` and `single`.
The check first passes it two stand-ins that only sleep, and then two real algorithms with tiny batches, which takes up to a minute.
"""


# %%
def time_training(many, single, iterations):
    """Return {"many": [...], "single": [...]}: the seconds of `iterations` iterations of each, timed alternately.

    Before that, both algorithms train for one iteration that isn't timed. Don't stop the algorithms.
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
`algo.train()` returns when the iteration has ended, so a stopwatch around it is enough.
RLlib measures nearly the same: `algo.train()["time_this_iter_s"]`.
The values in `result["timers"]` look tempting, too, but they're smoothed.
Each new value counts for only 1%, so after five iterations they still show little but the first.
"""

# %%
### BEGIN SOLUTION
why_in_turn = "a"
### END SOLUTION

# %%
quiz("why_in_turn", why_in_turn)

# %% [markdown]
r"""
## Two EnvRunners with two environments each aren't four times as fast

Now time five iterations of each algorithm, after a warm-up and without the builds.
This takes a minute or two, or longer on a slow machine.

**Predict:** `many` has two EnvRunners instead of one, and four environments in all instead of one.
How many times faster is an iteration of `many`?
"""

# %% tags=["demo"]
predict("speedup", ...)  # seconds of single divided by seconds of many: 2 is twice as fast

# %% tags=["demo"]
batch, iterations, times = budget(4000, 256), 5, None
if passed("fair_pair") and passed("time_training"):
    with built(*fair_pair(batch)) as (many, single), bar_of([many, single], iterations + 1):
        alive = {"many": who_runs(many), "single": who_runs(single)}
        times = time_training(many, single, iterations)
        done = many.iteration, single.iteration
    print(f"{done[0]} and {done[1]} iterations of {batch} steps, including the warm-up")
    display(pandas.concat({name: pandas.DataFrame(rows) for name, rows in alive.items()}).droplevel(1))

# %% tags=["demo"]
if passed("time_training") and times:
    figure, axes = plt.subplots(figsize=(7, 3), constrained_layout=True)
    for name, color in [("single", "#64748b"), ("many", "#7c3aed")]:
        axes.plot(range(1, iterations + 1), times[name], "o-", color=color, label=name)
    axes.set(xlabel="pair", ylabel="seconds", ylim=(0, None), title=f"Iterations of {batch} steps, timed alternately")
    axes.set_xticks(range(1, iterations + 1))
    axes.legend();

# %% [markdown]
r"""
The table shows what really ran.
Each remote EnvRunner is a process.
Each algorithm also has a local EnvRunner, which never sampled, because it has no environments.
Look at the curves: where one jumps, does the other jump in the same pair?

## A ratio needs an interval, and five pairs give a wide one

Would you measure the same ratio tomorrow?
A [paired measurement](../docs/glossary.md#paired-measurement), such as yours, tells you how far to trust the ratio.
Work with the logarithm of each pair's ratio, because on that scale, twice as fast and half as fast are equally far from "no difference":

$$d_i = \log(\text{single}_i) - \log(\text{many}_i)$$

A slow minute that affects both halves of a pair cancels in the difference.
The mean $\bar d$ of the $n$ differences gives a ratio, $e^{\bar d}$, which is the geometric mean of the pairs' ratios.
With the standard deviation $s$ of the differences, which has $n - 1$ in its denominator, the 95% [**t interval**](../docs/glossary.md#t-interval) is

$$\exp\!\left(\bar d \pm t \cdot \frac{s}{\sqrt n}\right)$$

where $t$ is `stats.t.ppf(0.975, n - 1)` in SciPy.
It's 2.78 for five pairs, because $s$ from only five is a rough estimate, and it approaches 1.96 as $n$ grows.

Write `speedup`, which takes the times that `time_training` returns, and returns the ratio and both ends of its interval.
"""


# %%
def speedup(times):
    """Return (ratio, low, high) for the times that time_training returns, pair by pair.

    The ratio is exp(mean of log(single / many)); low and high are the ends of its 95% t interval.
    """
    ### BEGIN SOLUTION
    differences = np.log(times["single"]) - np.log(times["many"])
    n, middle = len(differences), differences.mean()
    half = stats.t.ppf(0.975, n - 1) * differences.std(ddof=1) / np.sqrt(n)
    return np.exp(middle), np.exp(middle - half), np.exp(middle + half)
    ### END SOLUTION


# %%
check("speedup", speedup)

# %% [markdown] tags=["solution"]
r"""
SciPy can compute the interval for you: take `np.exp` of `stats.ttest_rel(np.log(single), np.log(many)).confidence_interval()`.
NumPy's `std` divides by $n$ unless you write `ddof=1`; with five pairs, that alone makes the interval about a tenth too narrow.
`coursekit.compare_times` times several functions alternately and returns medians, a ratio, and its interval.
"""

# %% tags=["demo"]
if passed("speedup") and times:
    ratio, low, high = speedup(times)
    print(f"many {sum(times['many']):.1f} s, single {sum(times['single']):.1f} s for {iterations} iterations each")
    print(f"ratio {ratio:.2f}, 95% interval {low:.2f} to {high:.2f}")
    display(measured("speedup", ratio))

# %% [markdown]
r"""
If you predicted more, remember that nothing has made the learning faster.

Why not use the [**percentile bootstrap**](../docs/glossary.md#percentile-bootstrap), which needs no formula?
It repeatedly draws as many pairs as you have from your own pairs, with replacement, and computes the ratio of each draw.
The middle 95% of a thousand such ratios is the interval.
For hundreds of pairs, that's a fine method.

How well does it work for five pairs?
The next cells simulate a machine whose true ratio is 1.6, repeat the measurement on it many times, and count how many of the intervals contain 1.6.
The fraction that do is the method's [**coverage**](../docs/glossary.md#coverage).

**Predict:** of 100 bootstrap intervals, each from five pairs and each called a 95% interval, how many contain the true ratio?
"""

# %% tags=["demo"]
predict("bootstrap_coverage", ...)  # of 100 intervals


# %%
def made_up(pairs, rng, truth=1.6):
    """Return times of `many` and `single` on a simulated machine with slow moments, which affect both times of a pair."""
    slowness = np.exp(rng.normal(0, 0.3, size=pairs))
    many, single = slowness * np.exp(rng.normal(0, 0.1, size=(2, pairs)))
    return many, truth * single


def bootstrap(many, single, rng):
    """Return the two ends of the middle 95% of the ratios from 1,000 draws of pairs."""
    drawn = rng.integers(len(many), size=(1000, len(many)))  # each row: the indices of the pairs in one draw
    return np.quantile(single[drawn].sum(axis=1) / many[drawn].sum(axis=1), [0.025, 0.975])


# %% tags=["demo"]
if passed("speedup"):
    rng, ends = np.random.default_rng(0), {}
    for pairs in (5, 10, 20):
        trials = [made_up(pairs, rng) for _ in range(budget(1000, 200))]
        ends["bootstrap", pairs] = np.array([bootstrap(many, single, rng) for many, single in trials])
        ends["t interval", pairs] = np.array([speedup({"many": many, "single": single})[1:] for many, single in trials])
    coverage = {key: 100 * np.mean((found[:, 0] <= 1.6) & (found[:, 1] >= 1.6)) for key, found in ends.items()}
    display(pandas.Series(coverage).unstack().rename_axis(columns="pairs").style.format("{:.0f}%"))
    display(measured("bootstrap_coverage", coverage["bootstrap", 5]))

# %% tags=["demo"]
if passed("speedup"):
    figure, pair = plt.subplots(1, 2, figsize=(9, 3.6), sharex=True, constrained_layout=True)
    for axes, name in zip(pair, ["bootstrap", "t interval"], strict=True):
        for row, (low, high) in enumerate(ends[name, 5][:50]):
            axes.plot([low, high], [row, row], color="#94a3b8" if low <= 1.6 <= high else "#db2777")
        axes.axvline(1.6, color="#059669", linestyle="--")
        axes.set(title=f"{name}: 50 measurements of five pairs", xlabel="ratio", yticks=[])

# %% [markdown]
r"""
Each line is an interval, and the pink ones miss the true ratio, which the dashed line marks.
With five pairs, only about 84 of 100 bootstrap intervals contain it, not 95.
With ten pairs, it's nearly 90, and the coverage approaches 95 as the number of pairs grows.
The t interval has a coverage of about 95% even with five pairs, because it's wider.
It assumes that the logarithms are roughly normally distributed and that the pairs are independent, so look at your curves before you trust it.

There are three caveats about your ratio:

- **This is one machine.** Two EnvRunners can at best halve the sampling time; the rest of your speedup comes from the second environment in each.
- **You may not be alone.** On a shared server, or beside a browser full of tabs, the second EnvRunner may not find a free core.
  Then the interval gets wide, or the ratio falls to 1 or below, and that's a correct result, so report it.
- **A ratio is valid only for its settings.** With 10 epochs instead of 30, additional EnvRunners would seem to help more, as you'll compute below.
"""

# %% [markdown] tags=["notes"]
r"""
Collect the ratios and their intervals on a board before you explain anything.
On separate machines, they lie close together; on a shared server, they scatter, and some may fall below 1.
Ask why: it's the best lesson of this chapter.
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
## Amdahl's law: each additional EnvRunner saves less

With $n$ EnvRunners on $n$ free cores, an iteration takes

$$T(n) = \frac{\text{sampling}}{n} + \text{learning}$$

because the EnvRunners divide only the sampling.
This is Amdahl's law: however large $n$ gets, $T(n)$ stays above the learning time.
So at some point, one more process isn't worth its core and its memory.

Write `choose_runners`, which takes the seconds of sampling and of learning with one EnvRunner, and returns a number of EnvRunners.
Start at one, and stop as soon as one more would save less than the fraction `worth` of the *current* iteration time.
Never go beyond `most`, the number of cores that you have.
"""


# %%
def choose_runners(sampling, learning, most, worth=0.05):
    """Return the first number of EnvRunners, from 1 up, at which one more would save less than `worth` of the iteration, or else `most`.

    `sampling` and `learning` are the seconds of the two parts of an iteration with one EnvRunner.
    A saving of exactly `worth` is still worth it.
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
Even if learning took no time at all, adding one EnvRunner to $n$ would save only the fraction $1 / (n + 1)$, so with `worth=0.05`, you would stop at about twenty.
"""

# %% [markdown]
r"""
The curves below come from *your* times of sampling and learning, with one environment and with sixteen in each EnvRunner.
The dotted line is the learning alone, which doesn't depend on the number of environments.
"""

# %% tags=["demo"]
learning = min(parts[1] for parts in seconds_per_1000.values())
print(f"learning alone: {learning:.3f} s per 1,000 steps")

# %% tags=["demo"]
if passed("choose_runners"):
    figure, axes = plt.subplots(figsize=(7, 3.5), constrained_layout=True)
    runners = np.arange(1, 33)
    for envs, color in [(1, "#64748b"), (16, "#7c3aed")]:
        alone = seconds_per_1000[envs][0]
        best = choose_runners(alone, learning, most=32)
        axes.plot(runners, alone / runners + learning, color=color, label=f"{envs} per EnvRunner: choose {best}")
        axes.plot(best, alone / best + learning, "o", color=color)
    axes.axhline(learning, color="#059669", linestyle=":")
    axes.set(xlabel="EnvRunners", ylabel="seconds per 1,000 steps", ylim=(0, None))
    axes.set_title("Predicted from your measurements")
    axes.legend(title="environments");

# %% [markdown]
r"""
With sixteen environments in each, you need fewer EnvRunners, because there's less sampling to divide.
So add environments to an EnvRunner first, and then add EnvRunners.
Do the reverse if a step of the environment is slow, as in a robot simulator: an EnvRunner steps its environments one after the other, so only more processes help.

Does the model predict the ratio that you measured?
It uses only times from one process, and it can predict the ratio for another number of epochs, too.
"""

# %% tags=["demo"]
if passed("time_training") and times:
    alone, in_pairs = seconds_per_1000[1][0], seconds_per_1000[2][0]  # sampling with one environment, and with two
    for epochs in (30, 10):
        shorter = epochs / 30 * learning  # the number of epochs doesn't change the sampling
        ratio = (alone + shorter) / (in_pairs / 2 + shorter)
        print(f"{epochs} epochs, predicted: ratio {ratio:.2f}")
    print(f"30 epochs, measured: ratio {np.exp(np.mean(np.log(times['single']) - np.log(times['many']))):.2f}")

# %% [markdown]
r"""
## RLlib replaces a dead EnvRunner and continues training

The more processes you run, the sooner one of them dies.
In Chapter 5, you built a pool that replaces its dead actors; RLlib does the same by default (`restart_failed_env_runners`).
After the second iteration, the next cell kills an EnvRunner's process with `SIGKILL`, as the operating system does when memory runs out, and keeps training until the EnvRunner is back.

**Predict:** what happens in the third iteration?
Does it raise an error, wait for a new process, or continue without the dead EnvRunner?
"""

# %% tags=["demo"]
predict("third_iteration", ..., ["raises", "waits", "continues"])

# %% tags=["demo"]
rows, restarts = [], 0
with built(lake_config(500, runners=2, envs=1)) as [algo]:
    while restarts == 0 and len(rows) < 40:
        start = time.perf_counter()
        result = algo.train()
        restarts = result["fault_tolerance"]["num_remote_worker_restarts"]
        alive = algo.env_runner_group.num_healthy_remote_workers()
        steps = int(result["env_runners"]["num_env_steps_sampled"])
        rows.append([algo.iteration, time.perf_counter() - start, steps, alive, restarts])
        if algo.iteration == 2:
            kill_runner(algo, 2)
table = pandas.DataFrame(rows, columns=["iteration", "seconds", "steps", "EnvRunners", "restarts"]).set_index("iteration")
display(table.round(2))
measured("third_iteration", "continues" if table.loc[3, "EnvRunners"] == 1 else "waits")

# %% [markdown]
r"""
It continues: there's no error, no wait, and no smaller batch.
The remaining EnvRunner samples all of the steps, so sampling takes longer.
Meanwhile, Ray starts a new process, which has to import PyTorch and RLlib first; with few cores, that slows down the learning, too.
As soon as the new EnvRunner responds, it gets the current weights and its part of the work.
You killed the process between two iterations, so you lost only its unfinished episodes.
Ray reports such a death in half a page, which `kill_runner` hides.

With `.fault_tolerance(restart_failed_env_runners=False)`, the third iteration would have raised an error.
If you had also set `ignore_env_runner_failures=True`, it would have continued with only the remaining EnvRunner.
If a *learner* dies, that's another matter: it holds the weights, and only a checkpoint protects you, as in [Chapter 11](ch11_rllib_ppo.ipynb).
"""

# %% [markdown]
r"""
## Sixteen EnvRunners need cores, memory, and a large batch

- **Cores.** Each EnvRunner requests one logical CPU (`num_cpus_per_env_runner=1`).
  Your Ray has four, so `build_algo` would start four EnvRunners and wait forever for CPUs for the others.
  With `num_cpus=16` in `ray.init`, all of them start, but they still share your cores; on a cluster, Ray can start them on several nodes.
- **Memory.** Every EnvRunner has PyTorch and RLlib in memory, however small its network is.
- **A large batch.** The EnvRunners divide the batch evenly, so each environment contributes a **fragment** of batch / (EnvRunners × environments) steps.

You can read the length of a fragment from the config before you build anything:
"""

# %%
rows = []
for runners, envs in [(1, 1), (2, 2), (4, 4), (16, 1), (16, 4)]:
    for size in (1000, 4000, 64_000):
        fragment = lake_config(size, runners, envs).get_rollout_fragment_length()
        rows.append({"EnvRunners": runners, "environments": envs, "batch": size, "fragment": fragment})
pandas.DataFrame(rows).pivot(index=["EnvRunners", "environments"], columns="batch", values="fragment")

# %% [markdown]
r"""
Look at sixteen EnvRunners with four environments each and a batch of 1,000: a fragment has sixteen steps, or fifteen in some EnvRunners.
Such short fragments cut the episodes of a longer game into pieces.
PPO copes, because the critic estimates how a cut episode would have continued, but an estimate is worth less than the real outcome.
Each call to an EnvRunner also returns only about 64 steps, so more time is overhead.

So when you add EnvRunners, increase the batch size, too: the same number of steps then takes fewer iterations.
Whether the agent learns faster *in seconds* is another question, which you answer by measuring, as in Chapter 13.
For hundreds of EnvRunners, choose an algorithm that doesn't wait for the slowest one, such as APPO or IMPALA.

In a workshop, the next cell puts your ratio on the room's board.
"""

# %% tags=["demo"]
if passed("speedup") and times:
    display(share("speedup", speedup(times)[0]))

# %%
ray.shutdown()

# %% [markdown]
r"""
## What you can do now

- You can measure the parts of an iteration, and you know that more EnvRunners shorten only the sampling.
- You can compare two configs fairly, and report the ratio of their times with an interval.
- You can stop adding EnvRunners when one more isn't worth it.
- You know that a killed EnvRunner costs unfinished episodes and a few seconds, not the training run.

## Traps

- **With too few logical CPUs**, `build_algo` waits forever; two algorithms at the same time need enough for both.
- **`training(model=…)` and `training(train_batch_size=…)`** are still accepted but belong to the old API: use `.rl_module(...)` and `train_batch_size_per_learner`.
- **Without `flatten`**, remote EnvRunners fail while they start, and the exception is `IndexError: list index out of range`.
  Build once with `num_env_runners=0`, and the error names its cause.
- **An exception in a function that you pass to `foreach_env_runner`** ends the EnvRunner's process, by default after a pause of a minute.
- **`result["timers"]`** contains smoothed values, in which the first iteration weighs most, so use a stopwatch.
- **PyTorch's threads** compete with the EnvRunners for cores, so `built` calls `torch.set_num_threads(1)`.

## Read on

- [Chapter 8](ch08_rollouts.ipynb) builds samplers by hand, and [Chapter 13](ch13_algorithms.ipynb) covers several learners, GPUs, and algorithms that don't wait.
- RLlib's documentation on [scaling](https://docs.ray.io/en/latest/rllib/scaling-guide.html) and [AlgorithmConfig](https://docs.ray.io/en/latest/rllib/algorithm-config.html).
- Liang et al., [*RLlib: Abstractions for Distributed Reinforcement Learning*](https://arxiv.org/abs/1712.09381), 2018.
- Student, [*The probable error of a mean*](https://doi.org/10.1093/biomet/6.1.1), 1908: the t distribution, from a brewery that could afford only small samples.
- Efron and Tibshirani, *An Introduction to the Bootstrap*, 1993, chapter 13: percentile intervals.
"""
