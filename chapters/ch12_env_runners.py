# %% [markdown] you_learn_to="time PPO with many rollout workers against one"
r"""
# Chapter 12 · Scaling with EnvRunners

EnvRunners sample in parallel, and only the sampling gets faster.

*About 100 minutes · builds on [Chapter 1](ch01_tasks.ipynb); [Chapter 11](ch11_rllib_ppo.ipynb) helps*

**What you will be able to do**

- say what Ray is, what RLlib is, and what RLlib uses Ray for;
- measure where an iteration's time goes, and predict what more runners would save;
- check that two configurations differ only in what you compare;
- time two algorithms fairly, and report their ratio with an interval that keeps its promise;
- choose a number of runners from two measurements;
- say what happens to training when a runner is killed, because you killed one.
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

from coursekit import begin, budget, check, hint, measured, passed, predict, progress, quiz, share, solution
from coursekit.given.ch12_env_runners import flatten, kill_runner, side_by_side, who_runs
from coursekit.given.rllib_configs import built

begin("ch12_env_runners")

# %%
ray.shutdown()  # ends a Ray that already runs here: its references and actors are gone
ray.init(num_cpus=4, include_dashboard=False);

# %% [markdown] tags=["notes"]
r"""
The run sheet plans a hundred minutes, with `choose_runners` and the killed runner as homework.
Have the class run the two cells above right away: importing RLlib and starting Ray take fifteen seconds on a small laptop.
`num_cpus=4` is a promise, not a measurement: later, three EnvRunners live at once, and each asks for one logical CPU.
With `num_cpus=2` the third would wait forever.
"""

# %% [markdown]
r"""
## Ray runs programs, and RLlib is one of them

**Ray** is a general-purpose framework for distributed computing: tasks, actors and objects, for any program.
Several libraries are built on it: Tune, Train, Data, Serve, and **RLlib**, the one for reinforcement learning.

RLlib needs Ray because an agent learns from experience, and experience takes time: millions of steps, one after another.
So RLlib keeps actors whose only job is to play.
They used to be called *rollout workers*; today each is an **EnvRunner**.
It holds a copy of the policy's network and one or more environments, plays, and hands over the episodes.
[Old names](../docs/old_names.md) lists what else has been renamed.

![A driver with the algorithm and its learner in the middle; an EnvRunner actor with two environments on each side; episodes go in, weights come back](../img/ch12_env_runners.svg)

PPO repeats three steps; one round is an **iteration**:

1. **Sample.** All EnvRunners play until together they have a batch of steps.
2. **Learn.** The learner goes over the batch 30 times (*epochs*), 128 steps at a time (*minibatches*), and changes its weights.
   Both numbers are RLlib's defaults.
3. **Synchronise.** The new weights go to every EnvRunner before the next round begins.
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

Start without a second process.
With `num_env_runners=0` the **local EnvRunner** plays, an ordinary object in your notebook.
It is slow but easy to inspect: an exception shows where it happened, and building takes no time.

The problem is FrozenLake: cross a lake of sixteen squares without falling into a hole.
The agent observes the number of its square, 0 to 15.
A network wants a vector, so the *connector* `flatten` makes the number a one-hot vector: a one among fifteen zeros.
One function writes every configuration in this chapter:
"""


# %%
def lake_config(batch, runners, envs):
    """Return PPO on FrozenLake: `batch` steps an iteration, `runners` EnvRunners, `envs` environments in each."""
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
To see inside, take its three steps by hand, with a stopwatch between them.
`train` calls the same methods.

`built` builds an algorithm from each config you give it, and yields a list of them: hence the brackets in `as [algo]`.
When the block ends, even with an error, it calls `algo.stop()`.
An algorithm that is never stopped keeps its EnvRunners running.
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


# %%
def measure(envs):
    """Return the seconds of the three steps for 1,000 environment steps: the quicker of two, since other programs can only slow it down."""
    steps = budget(2048, 128)
    with built(lake_config(500, runners=0, envs=envs)) as [algo]:
        one_iteration(algo, lambda: algo.env_runner.sample(num_timesteps=128))  # prepares things: not counted
        times = [one_iteration(algo, lambda: algo.env_runner.sample(num_timesteps=steps)) for _ in range(2)]
    return np.min(times, axis=0) * 1000 / steps


# %% [markdown]
r"""
**Predict:** which of the three steps takes longest, and what share of the iteration is it?
"""

# %% tags=["demo"]
seconds_per_1000 = {1: measure(envs=1)}
for name, part in zip(["sampling", "learning", "synchronising"], seconds_per_1000[1], strict=True):
    print(f"{name:13} {part:6.3f} s for 1,000 steps, {part / sum(seconds_per_1000[1]):4.0%} of the iteration")

# %% [markdown]
r"""
FrozenLake's own arithmetic is a small part of the sampling.
The time goes into everything around it: at every step, a vector travels through the connectors and the network, and an action comes out.
Synchronising costs almost nothing here, because the weights do not even leave the process.

## Several environments in one runner share the network's work

A network computes a batch of sixteen vectors in nearly the time of one.
So an EnvRunner can hold several environments, `num_envs_per_env_runner`, step them all, and ask the network only once.

**Predict:** with 16 environments instead of one, how much shorter do sampling and learning get?
"""

# %% tags=["demo"]
seconds_per_1000 |= {envs: measure(envs) for envs in (2, 4, 16)}

# %% tags=["demo"]
figure, axes = plt.subplots(figsize=(7, 3), constrained_layout=True)
labels, base = [str(envs) for envs in seconds_per_1000], 0
colours = {"sampling": "#7c3aed", "learning": "#059669", "synchronising": "#d97706"}
for (name, colour), part in zip(colours.items(), np.transpose(list(seconds_per_1000.values())), strict=True):
    axes.barh(labels, part, left=base, label=name, color=colour)
    base = base + part
axes.set(xlabel="seconds for 1,000 steps", ylabel="environments", title="More environments shorten the sampling")
axes.invert_yaxis()
axes.legend(loc="lower right");

# %% [markdown]
r"""
The violet part shrinks, though not sixteenfold: the connectors still handle every step.
The green part stays, because the learner gets as many steps as before.
None of this took a second process.
As long as the environment's own step is quick, more environments in a runner are the cheapest speed-up you can get.

## A second EnvRunner is a second process

The environments of a runner take turns on one core, unless you set `gym_env_vectorize_mode`.
A second core takes a second process: a remote EnvRunner.
This Ray actor asks for one logical CPU, and plays its share of the batch while the others play theirs.

The next cell measures the sampling alone, for one and for two remote runners, with 1 and 16 environments in each.
One algorithm with two EnvRunners gives all four: `side_by_side` sets the number of environments in each, and returns a function that lets the first runner, or both at once, play their share.
"""

# %% tags=["demo"]
sampling = {(0, envs): seconds_per_1000[envs][0] for envs in (1, 16)}
steps = budget(2048, 128)
with built(lake_config(500, runners=2, envs=1)) as [algo]:
    one_iteration(algo, side_by_side(algo, runners=2, envs=1, steps=steps))  # a warm-up
    for runners, envs in [(1, 1), (2, 1), (1, 16), (2, 16)]:
        times = [one_iteration(algo, side_by_side(algo, runners, envs, steps)) for _ in range(budget(3, 1))]
        sampling[runners, envs] = np.min(times, axis=0)[0] * 1000 / steps
series = pandas.Series(sampling, name="seconds of sampling").rename_axis(["remote EnvRunners", "environments in each"])
series.unstack().round(3)

# %% [markdown]
r"""
One remote runner does what the local one did, only elsewhere: nothing is gained, and its episodes have to travel.
On a busy machine it may even take several times as long; then run the cell again.
Two runners divide the sampling if a second core is free.
More environments shrink it on any machine, and if little sampling is left, a second runner has little to divide.

## A comparison is fair when only what you compare differs

Soon you will time **two EnvRunners with two environments each** against **one with one**.
A colleague has prepared the two configurations for you:
"""


# %%
def colleagues_pair():
    """Return a colleague's two configs, meant as two runners with two environments each, and one with one."""
    many = lake_config(4000, runners=2, envs=2).training(num_epochs=10)
    single = (
        PPOConfig()
        .environment("FrozenLake-v1")
        .env_runners(env_to_module_connector=flatten)  # one is enough, so nothing more is needed here
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[32, 32]))
        .training(train_batch_size_per_learner=1000)
        .debugging(seed=0)
    )
    return many, single


# %% [markdown]
r"""
RLlib would time these two without complaint, and the ratio would mean nothing.
A config has more than 250 settings, and a setting you leave out has a default, which depends on the algorithm.
Compare settings, not source code: `config.to_dict()` returns them all, defaults included.
A setting that only one config has is a difference, too.

Write `unfair`.
The check hands it pairs of PPO configs that differ in a few settings, sometimes in none, and then PPO's and APPO's defaults.
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
Read both configs' settings before you time anything: it takes a second, and a wrong number costs the whole measurement.
Look, too, at the settings in which they *should* differ.
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
The underscore in `_train_batch_size_per_learner` is the dictionary's: it keeps a few settings under such names.
The number of runners must differ but does not: without `num_env_runners`, PPO takes two.

## A fair timing takes both in turn

How much faster are two runners with two environments each than one with one?
The iterations to compare look like this:

![With one EnvRunner, sampling takes long, then learning, then the weights go out; with two EnvRunners the sampling is short and the learning as long as before](../img/ch12_iteration.svg)

It is easy to measure something else by accident.

- **The build.** Starting processes takes longer than an iteration, and longer for two runners than for one.
  In a training run of days that does not matter, so leave the build out, and *say so*.
- **The first iteration** prepares things.
  Run one warm-up iteration of each, and don't count it.
- **The machine's mood.** Other programs come and go; a laptop gets hot and slows down.
  If you time one algorithm and then the other, a slow minute hits only one.
  So alternate: one iteration of each in turn, never both at once.

Write `time_training`.
It gets two built algorithms, and must not stop them.
The check first hands over two stand-ins that only nap and note when they were called.
Then come two real ones, with two runners and with one, and tiny batches; that takes up to a minute.
"""


# %%
def time_training(many, single, iterations):
    """Return {"many": [...], "single": [...]}: the seconds of `iterations` iterations of each, timed in turn.

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
`algo.train()` returns when the iteration has ended, so a stopwatch around it is enough.
RLlib's own clock says nearly the same: `algo.train()["time_this_iter_s"]`.
Its `result["timers"]` look tempting too, but they are smoothed: each new value counts for one per cent, so after five iterations they still report the first.
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

Now measure five iterations of each, after one warm-up, without the builds.
This takes a minute or two, longer on a slow machine.

**Predict** the ratio of the times.
There are two runners instead of one, and four environments instead of one.
You have measured sampling and learning; which do more runners divide, and which do more environments?
"""

# %% tags=["demo"]
predict("speedup", ...)  # single divided by many: 2 is twice as fast

# %% tags=["demo"]
batch, iterations, times = budget(4000, 256), 5, None
if passed("time_training"):
    with built(lake_config(batch, runners=2, envs=2), lake_config(batch, runners=1, envs=1)) as (many, single):
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
The table shows what really ran.
Beside remote EnvRunners, each algorithm keeps a local one; it has no environments, so it never played.
The remote ones are processes of their own.
Look at the curves: where one jumps, does the other jump in the same pair?

## A ratio is half a result, and five pairs make a wide interval

Would the ratio be the same tomorrow?
The pairs tell you how far to trust it.
Each pair gives a ratio, and you work with its logarithm: on that scale, twice as fast and half as fast lie equally far from "no difference".

$$d_i = \log(\text{single}_i) - \log(\text{many}_i)$$

A slow minute that hit both halves of a pair cancels in the difference.
The mean $\bar d$ of the $n$ differences leads back to a ratio, $e^{\bar d}$, the geometric mean of the pairs' ratios.
With their standard deviation $s$, computed with $n - 1$ in the denominator, the 95 % **t interval** is

$$\exp\!\left(\bar d \pm t \cdot \frac{s}{\sqrt n}\right)$$

where $t$ is `stats.t.ppf(0.975, n - 1)` in SciPy.
It is 2.78 for five pairs, 2.09 for twenty, and falls to 1.96 for very many.
The larger factor allows for $s$ being itself an estimate from a few numbers.

Write `speedup`: the ratio and both ends of its interval, from the times of all pairs.
"""


# %%
def speedup(times):
    """Return (ratio, low, high) for the times that time_training gives, pair by pair.

    The ratio is exp(mean of log(single / many)); low and high are the ends of its 95 % t interval.
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
SciPy has the interval ready: take `np.exp` of `stats.ttest_rel(np.log(single), np.log(many)).confidence_interval()`.
NumPy's `std` divides by $n$ unless you say `ddof=1`; with five pairs that alone makes the interval a tenth too narrow.
`coursekit.compare_times` times several functions in turn and returns medians, a ratio and its interval.
"""

# %% tags=["demo"]
if passed("speedup") and times:
    ratio, low, high = speedup(times)
    print(f"many {sum(times['many']):.1f} s, single {sum(times['single']):.1f} s for {iterations} iterations each")
    print(f"ratio {ratio:.2f}, 95 % interval {low:.2f} to {high:.2f}")
    display(measured("speedup", ratio))

# %% [markdown]
r"""
Why not the statisticians' **bootstrap**, which needs no formula?
It treats your pairs as all there is, and repeats the measurement *by drawing* from them: as many pairs, with replacement.
Every draw has a ratio, and the middle 95 % of a thousand such ratios is the interval.
For hundreds of pairs that is a fine method.

For five, let a made-up machine with a true ratio of 1.6 decide.
The next cells measure on it over and over, and count how many intervals hold the truth: their **coverage**.

**Predict:** of 100 bootstrap intervals from five pairs, each called a 95 % interval, how many hold the true ratio?
"""


# %%
def made_up(pairs, rng, truth=1.6):
    """Return the times of `many` and `single` on a machine with slow moments, which both of a pair share."""
    mood = np.exp(rng.normal(0, 0.3, size=pairs))
    many, single = mood * np.exp(rng.normal(0, 0.1, size=(2, pairs)))
    return many, truth * single


def bootstrap(many, single, rng):
    """Return the middle 95 % of the ratios of 1,000 draws of pairs."""
    drawn = rng.integers(len(many), size=(1000, len(many)))  # each row: the numbers of the pairs of one draw
    return np.quantile(single[drawn].sum(axis=1) / many[drawn].sum(axis=1), [0.025, 0.975])


# %% tags=["demo"]
if passed("speedup"):
    rng, ends = np.random.default_rng(0), {}
    for pairs in (5, 10, 20):
        trials = [made_up(pairs, rng) for _ in range(budget(1000, 200))]
        ends["bootstrap", pairs] = np.array([bootstrap(many, single, rng) for many, single in trials])
        ends["t interval", pairs] = np.array([speedup({"many": many, "single": single})[1:] for many, single in trials])
    coverage = {key: np.mean((found[:, 0] <= 1.6) & (found[:, 1] >= 1.6)) for key, found in ends.items()}
    display((100 * pandas.Series(coverage)).unstack().rename_axis(columns="pairs").style.format("{:.0f} %"))

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
Each line is an interval; the pink ones miss the truth, which the dashed line marks.
From five pairs, about 85 in 100 bootstrap intervals hold it, from ten a little below 90, and with more pairs the share approaches 95.
The t interval gets there with five, at the price of being wider.
It assumes that the logarithms are roughly normally distributed, and the pairs independent.
Take neither for granted: look at the curves first.

An older course reported a ratio of 1.59 for these two, from another machine, another RLlib and one measurement of each: compare the direction with yours, not the digits.

Three caveats.

- **This is one machine.** Its cores bound what a second process can give.
  On two cores, runners that compute can be at best twice as fast; the rest of your ratio comes from the second environment in each.
- **You may not be alone.** On a server that many learners share, or with a browser full of tabs, the second runner may find no free core.
  Then the interval gets wide, or the ratio falls to 1 or below.
  That is a correct result: report it as it is.
- **A ratio holds for its settings.** With 10 epochs instead of 30 the learner would need about a third of the time, and runners would seem to help more, as you will compute below.
"""

# %% [markdown] tags=["notes"]
r"""
Collect the room's ratios on a board, with their intervals, before you explain anything.
On separate machines they lie close together; on a shared server they scatter, and some may fall below 1.
Ask why: it is the best lesson of this chapter.
A small ratio costs no points.
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
That is Amdahl's law: however large $n$ gets, $T(n)$ stays above the learning time.
At some point, one more process is not worth its core and memory.

Write `choose_runners`: walk up from one runner, and stop as soon as one more would save less than the share `worth` of what the iteration takes *now*, or at `most`, when there are no more cores.
"""


# %%
def choose_runners(sampling, learning, most, worth=0.05):
    """Return the first number of runners, from 1 up, at which one more would save less than the share `worth`; else `most`.

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
Without a learner ($\text{learning} = 0$) adding one to $n$ runners saves a share of $1 / (n + 1)$, so with `worth=0.05` you stop at twenty even then.
"""

# %% [markdown]
r"""
The curves below come from *your* times of sampling and learning, with one environment and with sixteen in each runner.
The dotted line is the learning alone, the quickest you measured: it does not depend on the environments.
"""

# %% tags=["demo"]
learning = min(parts[1] for parts in seconds_per_1000.values())
print(f"learning alone: {learning:.3f} s for 1,000 steps")

# %% tags=["demo"]
if passed("choose_runners"):
    figure, axes = plt.subplots(figsize=(7, 3.5), constrained_layout=True)
    runners = np.arange(1, 33)
    for envs, colour in [(1, "#64748b"), (16, "#7c3aed")]:
        playing = seconds_per_1000[envs][0]
        best = choose_runners(playing, learning, most=32)
        axes.plot(runners, playing / runners + learning, color=colour, label=f"environments in each: {envs}, choose {best}")
        axes.plot(best, playing / best + learning, "o", color=colour)
    axes.axhline(learning, color="#059669", linestyle=":")
    axes.set(xlabel="EnvRunners", ylabel="seconds for 1,000 steps", ylim=(0, None))
    axes.set_title("Predicted from your measurements")
    axes.legend();

# %% [markdown]
r"""
With sixteen environments in each, fewer runners are enough, because little sampling is left to divide.
So add environments to a runner first, then runners.
Do the reverse if the environment is slow, like a robot simulator: its steps take turns within a runner, and only more processes help.

Was the model right for your timed pairs?
It predicts their ratio from what one process did at the beginning, and also the ratio for another number of epochs, without another measurement.
"""

# %% tags=["demo"]
if passed("time_training") and times:
    alone, in_pairs = seconds_per_1000[1][0], seconds_per_1000[2][0]  # sampling with one environment, and with two
    for epochs in (30, 10):
        shorter = epochs / 30 * learning  # epochs do not change the sampling
        ratio = (alone + shorter) / (in_pairs / 2 + shorter)
        print(f"{epochs} epochs, predicted: ratio {ratio:.2f}")
    print(f"30 epochs, measured: ratio {sum(times['single']) / sum(times['many']):.2f}")

# %% [markdown]
r"""
## A runner that dies is replaced, and training continues

The more processes you run, the sooner one dies: out of memory, a node switched off, a bug in a simulator.
Chapter 5 builds a pool of workers that heals itself; RLlib has one built in, `restart_failed_env_runners`, on by default.
After the second iteration, the next cell kills an EnvRunner's process with `SIGKILL`, as the operating system would, and keeps training until the runner is back.

**Predict:** what will the third iteration do: raise, wait for a new process, or continue without it?
How many steps will its batch have?
"""

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
pandas.DataFrame(rows, columns=["iteration", "seconds", "steps", "EnvRunners", "restarts"]).round(2).set_index("iteration")

# %% [markdown]
r"""
No exception, no pause, and no smaller batch.
The remaining runner plays all of the steps, so the sampling takes longer.
Meanwhile Ray starts a new process, which has to import PyTorch and RLlib first: on few cores that slows the learning, too.
As soon as it answers, it gets the current weights and its share of the work.
You killed it between two iterations, so you lost only its unfinished episodes.
Ray reports such a death in half a page, which is not shown here.

With `.fault_tolerance(restart_failed_env_runners=False)` the third iteration would have raised.
With `ignore_env_runner_failures=True` as well, it would have continued with the remaining runner for good.
A *learner* that dies is another matter: it holds the weights, and only a checkpoint protects you, as in [chapter 11](ch11_rllib_ppo.ipynb).

## Sixteen runners need sixteen cores, memory, and a batch to share

What would sixteen runners take?

- **Cores.** Each runner asks for one logical CPU (`num_cpus_per_env_runner=1`).
  This Ray has four: `build_algo` would start four runners and wait forever for room for the others.
  `num_cpus=16` in `ray.init` lets all of them start, but they still share your cores.
  On a cluster, sixteen runners spread over the nodes, and your program stays the same.
- **Memory.** Every runner has PyTorch and RLlib in memory, however small its network, as the table of what ran shows.
- **A batch to share.** The batch is split evenly, so each environment contributes a **fragment** of batch / (runners × environments) steps.

The config knows the length of a fragment before you build it:
"""

# %%
rows = []
for runners, envs in [(1, 1), (2, 2), (4, 4), (16, 1), (16, 4)]:
    for size in (1000, 4000, 64_000):
        fragment = lake_config(size, runners, envs).get_rollout_fragment_length()
        rows.append({"runners": runners, "environments": envs, "batch": size, "fragment": fragment})
pandas.DataFrame(rows).pivot(index=["runners", "environments"], columns="batch", values="fragment")

# %% [markdown]
r"""
Look at sixteen runners with four environments each and a batch of 1,000: sixteen steps, in some runners fifteen.
Such a fragment cuts every episode of a longer game into pieces.
PPO copes, since the critic estimates how a cut episode would have continued, but an estimate is worth less than the real end.
And each call to a runner fetches only a handful of steps, so more of its time is overhead.

So when you add runners, increase the batch size too: each iteration sees more experience, and there are fewer iterations.
Whether the agent learns faster *in seconds* is another question, and chapter 13 measures it.
For hundreds of runners, take an algorithm that does not wait for the slowest: APPO or IMPALA.

In a workshop, the next cell puts your ratio on the room's board, beside your number of cores.
How do the ratios on two cores differ from those on eight?
"""

# %% tags=["demo"]
if passed("speedup") and times:
    display(share("speedup", speedup(times)[0]))

# %%
ray.shutdown()

# %% [markdown]
r"""
## What you can do now

- You can say what Ray is and what RLlib uses it for: EnvRunners that generate experience side by side.
- You know which part of an iteration more runners shorten, and which they do not.
- You check that two configurations differ only in what you compare.
- You time in turn, warm up, leave out the build, and report a ratio with an interval that keeps its promise.
- You stop adding runners when one more is not worth it.
- You know that a killed runner costs unfinished episodes and some seconds, not the training.

## Traps

- **If you omit `num_env_runners`**, PPO uses two.
- **A 95 % interval from few pairs** needs the factor of the t distribution, 2.78 for five, not 1.96.
- **Too few logical CPUs**: `build_algo` waits and says nothing.
  Two algorithms alive at once need the CPUs of both.
- **`training(model=…)` and `training(train_batch_size=…)`** are still accepted but belong to the old API: use `.rl_module(...)` and `train_batch_size_per_learner`.
- **Without `flatten`**, remote runners die while they are built, and you see `IndexError: list index out of range`.
  Build once with `num_env_runners=0`: there the error names its cause.
- **An exception inside `foreach_env_runner`** ends the runner that raised it, after a pause of a minute.
- **`result["timers"]`** are smoothed, and the first iteration weighs most.
  Use a stopwatch.
- **PyTorch's threads.** On busy cores a learner with two threads can need more than twice the CPU time of one: with such a small network, threads mostly wait for each other.
  `built` calls `torch.set_num_threads(1)`.

## Read on

- [Chapter 8](ch08_rollouts.ipynb) builds samplers by hand, with a slow simulator; [chapter 13](ch13_algorithms.ipynb) has several learners, GPUs, and algorithms that do not wait.
- RLlib's documentation: [scaling](https://docs.ray.io/en/latest/rllib/scaling-guide.html) and [AlgorithmConfig](https://docs.ray.io/en/latest/rllib/algorithm-config.html).
- Liang et al., [*RLlib: Abstractions for Distributed Reinforcement Learning*](https://arxiv.org/abs/1712.09381), 2018.
- Student, [*The probable error of a mean*](https://doi.org/10.1093/biomet/6.1.1), 1908: the t interval, from a brewery that could afford few samples.
- Efron and Tibshirani, *An Introduction to the Bootstrap*, 1993, chapter 13: percentile intervals.
"""
