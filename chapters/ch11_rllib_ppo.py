# %% [markdown] you_learn_to="train, read the result, save, and use the policy without a running Ray"
r"""
# Chapter 11 · PPO with RLlib

RLlib trains the agent, and what you keep is a checkpoint: a folder with a network in it.

*About 100 minutes · builds on [Chapter 7](ch07_environments.ipynb) and [Chapter 10](ch10_actor_learner.ipynb)*

**What you will be able to do**

- configure RLlib's PPO, and train it while you watch its learning curve;
- read the result of an iteration, even if no episode has ended yet;
- tell whether the critic and the policy are learning;
- save an algorithm to a folder, inspect the folder, and continue training from it;
- use the trained network without a running Ray, and test the agent on fresh episodes;
- find out why an agent learns nothing.
"""

# %%
import shutil
import tempfile
import time
from pathlib import Path

import gymnasium
import matplotlib.pyplot as plt
import numpy as np
import pandas
import torch
from gymnasium.spaces import flatten

from coursekit import begin, budget, check, explain, hint, measured, passed, predict, progress, puzzle, quiz, review
from coursekit import solution, track
from coursekit.given.ch11_rllib_ppo import built
from coursekit import Drawn, film

begin("ch11_rllib_ppo")

# %%
import ray
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.connectors.env_to_module import FlattenObservations
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.rl_module import RLModule

ray.shutdown()  # stops a Ray instance that's already running here: its references and actors are gone
ray.init(num_cpus=4, include_dashboard=False)
keep = tempfile.TemporaryDirectory()  # for checkpoints; deleted when you close the notebook

# %% [markdown] tags=["notes"]
r"""
The run sheet allots a hundred minutes, with `evaluate` as homework.
Have everyone run the two cells above right away: importing RLlib and starting Ray take about fifteen seconds on a small laptop.
`num_cpus=4` declares four CPUs, whatever the machine has, because four EnvRunners will run at the same time and each reserves one logical CPU; if there are only two cores, they share them.
"""

# %% [markdown]
r"""
## `PPOConfig` holds all settings of a training run

In Chapter 10, you wrote PPO yourself, and from here on, you use RLlib's PPO.
You describe what you want in a `PPOConfig`.
Nothing happens until its `build_algo()` method builds an [algorithm](../docs/glossary.md#algorithm): a learner and [EnvRunners](../docs/glossary.md#envrunner), RLlib's name for the samplers of Chapter 10.

![A config is built into an algorithm with a learner and EnvRunners; train returns a result; save writes a folder; from the folder, you get an algorithm that continues training, or only the network, for your own program](../img/ch11_parts.svg)

You already know most of the settings under other names:

| Chapter 10 | RLlib | method |
|---|---|---|
| number of samplers | `num_env_runners` | `.env_runners(...)` |
| environments per sampler | `num_envs_per_env_runner` | `.env_runners(...)` |
| `ENVS * STEPS`, the steps of one iteration | `train_batch_size_per_learner` | `.training(...)` |
| `EPOCHS`, `MINIBATCH` | `num_epochs`, `minibatch_size` | `.training(...)` |
| `GAMMA`, `LAMBDA`, `LEARNING_RATE` | `gamma`, `lambda_`, `lr` | `.training(...)` |
| ε, $c_1$, $c_2$ of the loss | `clip_param`, `vf_loss_coeff`, `entropy_coeff` | `.training(...)` |
| gradients clipped to a norm of 0.5 | `grad_clip` | `.training(...)` |
| width of the layers | `DefaultModelConfig(fcnet_hiddens=[...])` | `.rl_module(...)` |
| actor and critic are two networks | `DefaultModelConfig(vf_share_layers=False)` | `.rl_module(...)` |

Two settings are new: `use_kl_loss` adds a penalty for moving far from the policy that collected the batch, and `vf_clip_param` limits the critic's squared error.
Here are RLlib's defaults beside the values from Chapter 10:
"""

# %% tags=["demo"]
chapter_10 = {"total_train_batch_size": 2048, "num_epochs": 10, "minibatch_size": 512, "gamma": 0.99, "lambda_": 0.95}
chapter_10 |= {"lr": 0.002, "clip_param": 0.2, "vf_loss_coeff": 0.5, "entropy_coeff": 0.01, "grad_clip": 0.5}
chapter_10 |= {"use_kl_loss": False, "vf_clip_param": "no limit"}
defaults = {name: getattr(PPOConfig(), name) for name in chapter_10}
pandas.DataFrame({"Chapter 10": chapter_10, "PPO's default": defaults}, dtype=object)

# %% [markdown]
r"""
The first default to change is `vf_clip_param`: if returns are much larger than 3, it keeps the critic from learning, as you'll measure below.
The second is the learning rate: with few epochs, a small problem usually needs a larger one.
Here is a complete configuration:
"""


# %%
def cartpole_config(runners):
    """Return PPO for CartPole with this number of EnvRunner processes; with 0, the notebook's process samples."""
    return (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=runners, num_envs_per_env_runner=2)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64, 64], vf_share_layers=False))
        .training(
            train_batch_size_per_learner=2000,  # steps per iteration, divided among the EnvRunners
            minibatch_size=250,
            num_epochs=8,
            lambda_=0.95,
            lr=0.003,
            vf_clip_param=1e4,  # effectively no limit
        )
        .debugging(seed=0, log_sys_usage=False)  # without RLlib's monitor of the machine, which stops slowly
    )


# %% [markdown]
r"""
The chapter's second problem is a corridor, in which every episode starts on square 0, not anywhere in the left half as in Chapter 7.
A step costs 0.1, and the step that reaches the exit at the far end earns 1.
RLlib finds the environment by its name, because every EnvRunner imports the module named before the colon, which registers it:
"""


# %%
def corridor_config(length):
    """Return PPO for a corridor of `length` squares, sampled in this process in four environments."""
    return (
        PPOConfig()
        .environment("coursekit.given.environments:SimpleCorridor-v0", env_config={"length": length})
        .env_runners(num_env_runners=0, num_envs_per_env_runner=4)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[32], vf_share_layers=False))
        .training(train_batch_size_per_learner=512, minibatch_size=128, num_epochs=6, lr=0.003, vf_clip_param=1e4)
        .debugging(seed=0, log_sys_usage=False)
    )


# %% [markdown]
r"""
Each method changes the config in place *and* returns it, so you can chain them.
`build_algo()` works on a copy, so you can change your config and build it again.
Only `algo.config` is frozen, and `algo.config.copy(copy_frozen=False)` returns a copy that you can change.
"""

# %% [markdown]
r"""
## `train()` returns a nested dictionary, and five entries answer most questions

`algo.train()` runs one iteration and returns a *result*.
The next cell trains on CartPole with tiny iterations of ten steps (now and then eleven), five in each of two environments, and reads a few entries of every result.
`built` calls `config.build_algo()`, and `algo.stop()` when the block ends.
If you never stop an algorithm, its EnvRunners keep running.

**Predict:** an untrained agent keeps the pole up for about 20 steps.
After how many iterations does the result have a mean return for the first time?
"""

# %% tags=["demo"]
predict("first_mean", ...)  # iterations

# %% tags=["demo"]
rows = []
with built(cartpole_config(runners=0).training(train_batch_size_per_learner=10, minibatch_size=10)) as algo:
    for _ in range(14):
        result = algo.train()
        sampled = result["env_runners"]
        rows.append({
            "training_iteration": result["training_iteration"],
            "num_env_steps_sampled_lifetime": int(result["num_env_steps_sampled_lifetime"]),
            "num_episodes_lifetime": int(sampled["num_episodes_lifetime"]),
            "episode_return_mean": sampled.get("episode_return_mean", "not there"),
        })
first_mean = next((row["training_iteration"] for row in rows if row["num_episodes_lifetime"]), len(rows))
display(pandas.DataFrame(rows).set_index("training_iteration"))
measured("first_mean", first_mean)

# %% [markdown]
r"""
The first mean appears after a few iterations, because a return is known only when its episode ends, and no pole falls within five steps.
Until the first episode ends, `result["env_runners"]["episode_return_mean"]` raises a `KeyError`.
After that, it's **NaN** in every iteration in which no episode ends.
Be ready for both:

```python
result["env_runners"].get("episode_return_mean", float("nan"))
```

If there is a number, it's the mean over the episodes that *ended in this iteration*, and at most over the last 100 of them (`metrics_num_episodes_for_smoothing`, divided among the EnvRunners).
It doesn't reach back into earlier iterations, so it may come from a single episode, as in the last column above.
Here is where to find the rest:

| question | entry |
|---|---|
| How large are the returns? | `result["env_runners"]["episode_return_mean"]`, also `_min`, `_max` |
| How long are the episodes? | `result["env_runners"]["episode_len_mean"]` |
| How many steps so far? | `result["num_env_steps_sampled_lifetime"]` |
| How many iterations, and how long did they take? | `result["training_iteration"]`, `result["time_total_s"]` |
| How is the learner doing? | `result["learners"]["default_policy"]`: the losses and more (`default_policy` is the network's name) |

The other entries are counters and timers:
"""

# %% tags=["demo"]
for name, part in result.items():
    if name not in ("config", "node_ip", "hostname", "pid", "date"):
        print(f"{name:40}", ", ".join(part)[:70] if isinstance(part, dict) else part)

# %%
### BEGIN SOLUTION
first_iteration = "b"
### END SOLUTION

# %%
quiz("first_iteration", first_iteration)

# %% [markdown]
r"""
Write `learns_corridor`, the loop that every training run needs: it takes a config, a target, and a maximum number of iterations, and it trains until the mean return reaches the target.
It returns the mean return of each iteration, with NaN where there is none.
It always stops the algorithm, even if training raises an error, and the error reaches the caller.
The check first runs it on prepared results: a mean is missing or NaN, the target is never reached, or an environment breaks.
Then it lets PPO learn a corridor, with up to three seeds.
"""


# %%
def learns_corridor(config, target, most):
    """Return a list of the mean returns, one per iteration, with NaN where there is none.

    Builds the config, and trains until the mean return is at least `target`, but for at most `most`
    iterations. Always stops the algorithm, even if training raises an error; the error reaches the caller.
    """
    ### BEGIN SOLUTION
    algo, returns = config.build_algo(), []
    try:
        while len(returns) < most:
            result = algo.train()
            returns.append(result["env_runners"].get("episode_return_mean", float("nan")))
            if returns[-1] >= target:
                break
    finally:
        algo.stop()
    return returns
    ### END SOLUTION


# %%
check("learns_corridor", learns_corridor)

# %% [markdown] tags=["solution"]
r"""
Both `nan >= target` and `nan < target` are false.
So a loop that continues *while the mean is below the target* ends silently at the first NaN, which may be in the first iteration.
Ask instead whether the target *has been reached*.
"""

# %% [markdown]
r"""
Try it on a corridor of twelve squares.
The best possible return is 0: ten steps that cost 0.1 each, and one that earns 1.
An agent that moves at random would need about 130 steps on average, but after a hundred, the environment truncates the episode.
An untrained network may lean to one side: this one leans to the right, and needs about twenty steps.
"""

# %% tags=["demo"]
if passed("learns_corridor"):
    returns = learns_corridor(corridor_config(length=12), target=-0.2, most=30)
    figure, axes = plt.subplots(figsize=(7, 2.8), constrained_layout=True)
    axes.plot(range(1, len(returns) + 1), returns, "o-", color="#059669")
    axes.axhline(0, color="#94a3b8", linestyle="--")
    axes.locator_params(axis="x", integer=True)
    axes.set(xlabel="iteration", ylabel="mean return", title="PPO learns to walk to the exit");

# %% [markdown]
r"""
After a handful of iterations, the agent is nearly perfect.
The first point may be too optimistic: only episodes that *ended in this iteration* count, and in 128 steps per corridor, several short episodes can end, but at most one long one.
The curve stays below the dashed line because the policy still samples its actions and sometimes steps back.
"""

# %% [markdown]
r"""
## Above `vf_clip_param`, the critic learns nothing

The critic estimates the discounted return, and its loss is the squared error of that estimate.
By default, RLlib clamps the squared error of each step at `vf_clip_param=10`.
Above that limit, the loss is constant, and a constant has no gradient.
Here is what PyTorch computes for a critic that estimates 0:
"""

# %% tags=["demo"]
for target in (1.0, 3.0, 4.0, 100.0):
    value = torch.tensor(0.0, requires_grad=True)
    loss = torch.clamp((value - target) ** 2, 0, 10)
    loss.backward()
    print(f"true return {target:3.0f}   loss {loss.item():4.0f}   size of the gradient {abs(value.grad.item()):.0f}")

# %% [markdown]
r"""
An error of more than √10 ≈ 3.2 teaches the critic nothing, and CartPole's discounted returns reach 99.
The usual measure of a critic is its [explained variance](../docs/glossary.md#explained-variance), the fraction of the variance of the returns that its estimates explain: 1 is perfect, 0 is no better than a constant, and a negative value is worse.

Once you've solved `learns_corridor`, the demonstration below trains on CartPole twice, once with the default limit and once with 10,000, for 15 iterations of 1,000 steps each (3 in quick mode, which is too short to see the difference).
It takes about a minute.

**Predict:** with the default limit, what is the critic's explained variance in the end?
"""

# %% tags=["demo"]
predict("explained_variance", ...)  # a fraction: 1 is perfect, 0 is no better than a constant


# %%
def watch_critic(config, iterations):
    """Train, and return a table with a row per iteration: the mean return, and how the learner is doing."""
    names, rows = ["vf_explained_var", "vf_loss", "vf_loss_unclipped", "entropy", "mean_kl_loss"], []
    with built(config) as algo:
        for _ in track(range(iterations), "training PPO"):
            result = algo.train()
            row = {"mean return": result["env_runners"].get("episode_return_mean", np.nan)}
            rows.append(row | {name: float(result["learners"]["default_policy"][name]) for name in names})
    return pandas.DataFrame(rows, index=range(1, iterations + 1))


# %% tags=["demo"]
if passed("learns_corridor"):
    critics = {}
    for limit in (10, 10_000):
        config = cartpole_config(runners=0).training(vf_clip_param=limit, train_batch_size_per_learner=1000)
        critics[f"vf_clip_param={limit:,}"] = watch_critic(config, budget(15, 3))
    display(pandas.DataFrame({name: table.iloc[-1] for name, table in critics.items()}).round(3))
    display(measured("explained_variance", critics["vf_clip_param=10"]["vf_explained_var"].iloc[-1]))
    figure, both = plt.subplots(1, 2, figsize=(9, 2.8), constrained_layout=True)
    for axes, column in zip(both, ["vf_explained_var", "mean return"], strict=True):
        for (name, table), colour in zip(critics.items(), ["#94a3b8", "#059669"], strict=True):
            axes.plot(table[column], "o-", markersize=4, color=colour, label=name)
        axes.set(xlabel="iteration", title=column)
    both[0].legend();

# %% [markdown]
r"""
With the default limit, the critic explains next to nothing, and `vf_loss` hides that, because it can't exceed 10, however large the errors are.
Without a useful critic, advantages are noisier, so returns may stall or collapse.
They can fall back with a useful critic, too, so compare the whole curves, not only the last row.
With returns between 0 and 1, as in FrozenLake, the default does no harm.

Five entries of `result["learners"]["default_policy"]` tell you how a PPO run is doing:

| entry | how to read it |
|---|---|
| `vf_explained_var` | If it stays near 0, the critic isn't learning. |
| `vf_loss`, `vf_loss_unclipped` | These are the critic's squared error with and without the limit. If they're far apart, raise `vf_clip_param`. |
| `entropy` | This is how undecided the policy is, at most ln 2 ≈ 0.69 for two actions. If it's near 0 while returns are still low, the policy has stopped exploring too soon: raise `entropy_coeff`. |
| `mean_kl_loss` | This [KL divergence](../docs/glossary.md#kl-divergence) measures how far the update has moved the policy from the one that collected the batch. RLlib aims at 0.01 (`kl_target`). If the value is many times larger, lower `lr` or `num_epochs`; if it's near 0, the policy hardly changes. |

Each number comes from the last minibatch of the iteration, so it fluctuates.
Other libraries also report a *clip fraction*, the fraction of steps whose ratio left 1 ± ε; RLlib's PPO doesn't.
"""

# %% [markdown]
r"""
## With several EnvRunners, `episode_return_mean` is a mean of means

In each iteration of PPO, every EnvRunner reports the mean over the episodes that ended there, and RLlib averages these means without weighting them by the number of episodes.
Suppose one EnvRunner has finished 40 short episodes with a mean return of 20, and another has finished one episode with a return of 490.
The result says 255, but the mean over the 41 episodes is 31.

To see every episode, log its return yourself.
A [callback](../docs/glossary.md#callback) is a function that RLlib calls at a certain moment, here in the EnvRunner at the end of each episode.
An episode may span several iterations: `episode` is only its last piece, and the earlier pieces are in `prev_episode_chunks`.
`reduce="item_series"` keeps all values of an iteration, from all EnvRunners, as a list, but a single value arrives as a bare number.
"""


# %%
def note_return(episode, prev_episode_chunks, metrics_logger, **more):
    """Add the return of a finished episode to the list `result["env_runners"]["returns"]`."""
    pieces = [*prev_episode_chunks, episode]
    metrics_logger.log_value("returns", sum(piece.get_return() for piece in pieces), reduce="item_series")


def every_episode(result):
    """Return the mean return over all episodes that ended in this iteration, NaN if there is none."""
    returns = np.atleast_1d(result["env_runners"].get("returns", []))
    return returns.mean() if returns.size else float("nan")


# %% [markdown]
r"""
`display(figure, display_id=True)` returns a handle, with which you can redraw the figure in place:
"""


# %%
def train_live(algo, iterations, enough):
    """Return two mean returns per iteration, ours over all episodes and RLlib's; stop when ours is at least `enough`."""
    figure, axes = plt.subplots(figsize=(7, 3), constrained_layout=True)
    picture, means = display(figure, display_id=True), []
    for _ in track(range(iterations), "training PPO"):
        result = algo.train()
        means.append((every_episode(result), result["env_runners"].get("episode_return_mean", float("nan"))))
        axes.clear()
        lines = axes.plot(range(1, len(means) + 1), means, "o-", markersize=4)
        for line, colour, label in zip(lines, ["#059669", "#94a3b8"], ["all episodes", "RLlib's mean"], strict=True):
            line.set(color=colour, label=label)
        axes.set(xlabel="iteration", ylabel="mean return", ylim=(0, 510))
        axes.set_title(f"{result['num_env_steps_sampled_lifetime']:.0f} steps, {result['time_total_s']:.0f} s")
        axes.locator_params(axis="x", integer=True)
        axes.legend(loc="upper left")
        picture.update(figure)
        if means[-1][0] >= enough:
            break
    plt.close(figure)  # otherwise, the notebook would show it a second time
    return means


# %% [markdown]
r"""
The next cell trains on CartPole with **four** EnvRunners for up to a hundred iterations, and stops early once the mean return is at least 475 of 500.
In full mode, that takes about a minute, or a few if it doesn't stop early; quick mode (set `COURSEKIT_QUICK=1` before you start JupyterLab) runs five iterations.
Ray counts only *logical* CPUs, those you declared in `ray.init`: on two real cores, four EnvRunners sample hardly faster than two, as Chapter 12 explains.

**Predict:** in this run, is RLlib's mean of means usually above or below the mean over all episodes?
"""

# %% tags=["demo"]
predict("mean_of_means", ..., ["above", "below"])

# %% tags=["demo"]
if passed("learns_corridor"):
    folder = Path(keep.name) / "cartpole"
    begun = time.perf_counter()
    with built(cartpole_config(runners=4).callbacks(on_episode_end=note_return)) as algo:
        ready = time.perf_counter()
        live_means = train_live(algo, budget(100, 5), enough=475)
        algo.save_to_path(folder)
    print(f"start {ready - begun:.0f} s, then {(time.perf_counter() - ready) / len(live_means):.1f} s per iteration")
    gaps = [rllibs - ours for ours, rllibs in live_means]
    print(f"RLlib's mean minus the mean over all episodes: {np.nanmean(gaps):+.1f} on average")
    print(f"the largest difference in one iteration: {max(gaps, key=abs):+.1f}")
    display(measured("mean_of_means", "above" if np.nanmean(gaps) > 0 else "below"))

# %% [markdown]
r"""
In CartPole, a long episode is a good one, and an EnvRunner with long episodes finishes only a few.
Each of those few counts for more in a mean of means, so RLlib's number tends to be too high.
If all episodes have about the same length, the two means agree.

Before the first point appears, four Python processes start and import PyTorch and RLlib.
If you try many settings for a minute each, `num_env_runners=0` saves that time.

`save_to_path` wrote a checkpoint, which the next sections use.
"""

# %% [markdown] tags=["notes"]
r"""
While the curve grows, ask how many episodes are behind each point.
With 2,000 steps per iteration, the first points rest on about a hundred short episodes, and the last ones on only a few long ones, so the end of the curve fluctuates.
"""

# %% [markdown]
r"""
## A checkpoint is a folder, and you can inspect it
"""

# %% tags=["demo"]
if passed("learns_corridor"):
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in ("metadata.json", "class_and_ctor_args.pkl"):
            print(f"{path.stat().st_size:9,} bytes  {path.relative_to(folder)}")

# %% [markdown]
r"""
The [checkpoint](../docs/glossary.md#checkpoint) has a folder for each part of the algorithm.
The list leaves out two files that every part has: `class_and_ctor_args.pkl`, with the part's class and arguments (for the algorithm, your config), and `metadata.json`, with the version of Ray.

| file | contents |
|---|---|
| `algorithm_state.pkl` | counters and averages: iterations, steps, the latest returns |
| `learner_group/learner/state.pkl` | the optimizer's state (Adam's averages), and counters |
| `learner_group/learner/rl_module/default_policy/module_state.pkl` | the network's weights |
| `..._connector.../state.pkl` | what *connectors* remember (more on them below) |
| `env_runner/state.pkl` | the EnvRunners' counters |

The folder holds no unfinished episodes: a new algorithm starts new ones.
If your environment comes from a module, as in `coursekit.given.environments:SimpleCorridor-v0`, the folder has only that name; a class from your notebook is pickled with its code.

`Algorithm.from_checkpoint(folder)` builds a new algorithm from the folder.
Stop the old one first: a new algorithm with four EnvRunners waits for four CPUs, and as long as the old one holds them, the new one can't start.

RLlib writes `algorithm_state.pkl` last.
So if the process is killed while it saves, the folder lacks that file, and loading the folder fails.
A half-*copied* folder is worse, because the files may be copied in any order.

**Predict:** the next cell copies the sixth checkpoint of a run, deletes the copy's `learner_group` folder, and loads the copy.
What happens?
"""

# %% tags=["demo"]
predict("without_the_learner", ..., ["it raises an error", "it forgets the iterations", "it forgets the weights"])


# %%
def corridor_in(length, folder, iterations):
    """Train on a corridor, and save a checkpoint after each iteration, in a folder named after the iteration."""
    with built(corridor_config(length)) as algo:
        for number in range(1, iterations + 1):
            algo.train()
            algo.save_to_path(Path(folder) / str(number))


# %% tags=["demo"]
runs, sums = Path(keep.name) / "corridor", {}
corridor_in(10, runs, iterations=6)
shutil.copytree(runs / "6", runs / "copied")
shutil.rmtree(runs / "copied" / "learner_group")
for name in ("6", "copied"):
    algo = Algorithm.from_checkpoint(runs / name)
    weights = algo.learner_group.get_weights()["default_policy"]
    sums[name] = sum(float(np.abs(part).sum()) for part in weights.values())
    print(f"{name:7} iteration {algo.iteration}, sum of the absolute weights {sums[name]:.3f}")
    algo.stop()
forgot = "weights" if algo.iteration == 6 and sums["6"] != sums["copied"] else "iterations"
shutil.rmtree(runs / "copied")
measured("without_the_learner", f"it forgets the {forgot}")

# %% [markdown]
r"""
It loads without an error and counts six iterations, but its network is untrained.
If you continue training, the only trace is a dip in the learning curve.

Write `resume_newest`, which returns an algorithm that continues from the newest complete checkpoint.
`folder` holds checkpoints like those above, each in a folder named after its iteration.
Some are incomplete: the process was killed while it saved one, and others were only partly copied.

The check compares your algorithm's weights, optimizer state, and counters with the checkpoint's, and then trains it for another iteration.
"""


# %%
def resume_newest(folder):
    """Return an algorithm that continues from the newest complete checkpoint, the one with the largest number.

    The checkpoints are in `folder`, in folders named 1, 2, …
    """
    ### BEGIN SOLUTION
    parts = ["algorithm_state.pkl", "env_runner/state.pkl", "learner_group/state.pkl", "learner_group/learner/state.pkl"]
    parts.append("learner_group/learner/rl_module/default_policy/module_state.pkl")
    for path in sorted(Path(folder).iterdir(), key=lambda path: int(path.name), reverse=True):
        if all((path / part).exists() for part in parts):
            return Algorithm.from_checkpoint(path)
    raise FileNotFoundError(f"There is no complete checkpoint in {folder}.")
    ### END SOLUTION


# %%
check("resume_newest", resume_newest)

# %% [markdown] tags=["solution"]
r"""
The names are strings, and as strings, 9 comes after 10, so compare the numbers.

You don't need to know the files by heart: all checkpoints of a run have the same files, so a folder that lacks a file of an older one is incomplete.
In your own program, save into a folder with another name, and rename it at the end: within one file system, a rename either happens completely or not at all (Chapter 5).

`config.build_algo()` followed by `algo.restore_from_path(folder)` also restores an algorithm, and the config may differ from the saved one: for example, it may have more EnvRunners or a larger batch.
The network's shape must stay the same.
The weights alone aren't enough to continue, because an optimizer without its averages starts with steps of the wrong size.
"""

# %% [markdown]
r"""
Try it on a corridor of twenty squares, with four iterations before you save and four after you restore:
"""

# %% tags=["demo"]
if passed("learns_corridor") and passed("resume_newest"):
    curves, twenty = [], Path(keep.name) / "twenty"
    algo = corridor_config(length=20).build_algo()
    try:
        for part in ("before", "after"):
            results = [algo.train() for _ in range(4)]
            means = [result["env_runners"].get("episode_return_mean", np.nan) for result in results]
            curves.append(([result["training_iteration"] for result in results], means))
            if part == "before":
                algo.save_to_path(twenty / str(algo.iteration))
                algo.stop()
                algo = resume_newest(twenty)
    finally:
        algo.stop()
    figure, axes = plt.subplots(figsize=(7, 2.8), constrained_layout=True)
    axes.plot([4, 5], [curves[0][1][-1], curves[1][1][0]], color="#94a3b8", linestyle="--")
    axes.plot(*curves[0], "o-", color="#059669", label="first algorithm")
    axes.plot(*curves[1], "o-", color="#2563eb", label="restored algorithm")
    axes.set(xlabel="iteration", ylabel="mean return", title="The restored algorithm continues where the first one stopped")
    axes.legend();

# %% [markdown]
r"""
If the curve dips, the restored algorithm isn't to blame: only its episodes are new, so in its first iteration, the mean again comes from more short episodes than long ones.
"""

# %%
### BEGIN SOLUTION
what_a_checkpoint_lacks = "c"
### END SOLUTION

# %%
quiz("what_a_checkpoint_lacks", what_a_checkpoint_lacks)

# %% [markdown]
r"""
## Use the trained network in three lines, without an algorithm

To *use* what you've trained, you need no algorithm and no running Ray, only RLlib as an import.
The network is an [RLModule](../docs/glossary.md#rlmodule), a PyTorch module with three forward methods: `forward_train` for the learner, `forward_exploration` for the EnvRunners, and `forward_inference` for use.
With PPO's default network, all three return scores, not actions.
The network has its own checkpoint, deep inside the algorithm's:
"""


# %%
def network_in(folder):
    """Return the trained network of a checkpoint, an RLModule. Ray doesn't have to be running."""
    return RLModule.from_checkpoint(Path(folder) / "learner_group" / "learner" / "rl_module" / "default_policy")


# %% tags=["demo"]
if passed("learns_corridor"):
    network = network_in(folder)
    obs, _ = gymnasium.make("CartPole-v1").reset(seed=0)
    output = network.forward_inference({"obs": torch.from_numpy(obs)[None]})
    print("network    ", type(network).__name__, sum(p.numel() for p in network.parameters()), "weights")
    print("observation", obs.round(3))
    print("output     ", output)

# %% [markdown]
r"""
![An observation is flattened to a vector, becomes a batch of one, and goes through the network, and the action is the one with the largest score](../img/ch11_act.svg)

`action_dist_inputs` contains the scores (*logits*) from Chapter 10; in training, the policy samples an action from their softmax.
When you use the network, take the action with the largest score, and pay attention to three details:

- **A batch.** Networks take many observations at once, and a single observation is a batch of one: `x[None]` adds the dimension.
- **Tensors of type `float32`**, not arrays, and not `float64`.
- **What connectors did.** In training, [connectors](../docs/glossary.md#connector) process what goes from the environment to the network.
  FrozenLake's observation is the number of a square, and a connector turns it into a [one-hot vector](../docs/glossary.md#one-hot-vector), which has a one for that square and fifteen zeros.
  Outside RLlib, that's your job.
  `gymnasium.spaces.flatten(space, obs)` returns the same vector, flattens a matrix, too, and leaves a vector as it is.

Without the connector, RLlib can't even build a network for FrozenLake:
"""

# %% tags=["demo"]
try:
    PPOConfig().environment("FrozenLake-v1").env_runners(num_env_runners=0).build_algo()
except ValueError as error:
    print(error)

# %% [markdown]
r"""
Write `act`, which returns the best action for an observation.
The check passes it networks with random weights, and observations from three kinds of spaces: vectors, numbers of squares, and matrices.
"""


# %%
def act(network, space, obs):
    """Return the action with the largest score, an int, for one observation of this observation space."""
    ### BEGIN SOLUTION
    x = torch.as_tensor(flatten(space, obs), dtype=torch.float32)
    scores = network.forward_inference({"obs": x[None]})["action_dist_inputs"][0]
    return int(scores.argmax())
    ### END SOLUTION


# %%
check("act", act)

# %% [markdown] tags=["solution"]
r"""
Other kinds of actions need more than `argmax`.
`network.get_inference_action_dist_cls().from_logits(scores[None]).to_deterministic().sample()[0]` picks the best action for any of these kinds: for several choices at once (`MultiDiscrete`), it's a vector of numbers; for a torque or a steering angle, it's the mean.

A continuous action needs one more step, because a connector also works on the way *out*.
RLlib trains with actions between −1 and 1 (`normalize_actions=True`) and stretches them to the environment's range.
Outside RLlib, you do that yourself, with `unsquash_action(action, env.action_space)` from `ray.rllib.utils.spaces.space_utils`.
Without it, a trained Pendulum agent pushes with half of its strength.

A network with a memory, such as an LSTM, also needs its `state_in`, and it returns `state_out`.
"""

# %%
### BEGIN SOLUTION
why_flatten = "c"
### END SOLUTION

# %%
quiz("why_flatten", why_flatten)

# %% [markdown]
r"""
## Test an agent on fresh episodes, with its best actions

`episode_return_mean` doesn't tell you what the finished agent can do: in the training episodes, it sampled its actions, with weights from before the last update.
A test uses the final network, the best actions, and many episodes, each with its own seed, so that you can repeat the test.

Write `evaluate`, which uses your `act` and returns the return of each episode.
The check runs it on FrozenLake.
An episode can end in two ways, and the check's environment raises an error if you call `step` after the end.
"""


# %%
def evaluate(network, env, seeds):
    """Return a list with one episode's return for each seed, in the order of the seeds, with the best action in every step."""
    ### BEGIN SOLUTION
    returns = []
    for seed in seeds:
        obs, _ = env.reset(seed=seed)
        total, over = 0.0, False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(act(network, env.observation_space, obs))
            total += float(reward)
            over = terminated or truncated
        returns.append(total)
    return returns
    ### END SOLUTION


# %%
check("evaluate", evaluate)

# %% [markdown] tags=["solution"]
r"""
Keep the list, and compute the mean afterward, because a mean alone doesn't say how certain it is.
If $n$ returns have the standard deviation $s$, the true mean is within about $2 s / \sqrt n$ of yours in about 95 of 100 such tests, if $n$ is at least 20 or so.
Chapter 12 covers smaller $n$.
"""

# %% [markdown]
r"""
## Find out why an agent learns nothing when nothing raises an error

Now train, save, load, and test on a FrozenLake that isn't slippery.
A config takes a function that returns the connector, here `flat`, as `.env_runners(env_to_module_connector=flat)`.
A colleague's configuration looks reasonable but teaches the agent nothing:
"""


# %%
def flat(env, spaces, device):
    """Return the connector that flattens observations: the number of a square becomes a one-hot vector."""
    return FlattenObservations()


# %%
def lifeless_config(batch):
    """Return a colleague's PPO for FrozenLake without slipping, with `batch` steps per iteration: it learns nothing."""
    return (
        PPOConfig()
        .environment("FrozenLake-v1", env_config={"is_slippery": False})
        .env_runners(num_env_runners=0, num_envs_per_env_runner=16, explore=False)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[32]))
        .training(train_batch_size_per_learner=batch, minibatch_size=250, num_epochs=8, gamma=0.0, lr=0.00001)
        .debugging(seed=0, log_sys_usage=False)
    )


# %% [markdown]
r"""
This config has four faults.
One raises an error, which you met above, as soon as you build the algorithm.
The other three are silent: the algorithm trains, and the mean return stays at 0.
Ask three questions:

- Does the agent ever try anything new?
- The goal is six steps from the start and earns 1; what is that 1 worth in the first step?
- How much do the weights change in an iteration?

Write `lake_config`, which returns the repaired config.
Keep the environment, the network, and the batch: seven iterations must be enough for a mean return of 0.5.
The check reads the settings and then trains with up to three seeds, which takes a few seconds each.
"""


# %%
def lake_config(batch):
    """Return the repaired PPO for FrozenLake without slipping, with `batch` steps per iteration, sampled in this process."""
    ### BEGIN SOLUTION
    return (
        PPOConfig()
        .environment("FrozenLake-v1", env_config={"is_slippery": False})
        .env_runners(num_env_runners=0, num_envs_per_env_runner=16, env_to_module_connector=flat)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[32]))
        .training(train_batch_size_per_learner=batch, minibatch_size=250, num_epochs=8, lr=0.01)
        .debugging(seed=0, log_sys_usage=False)
    )
    ### END SOLUTION


# %%
check("lake_config", lake_config)

# %% [markdown] tags=["solution"]
r"""
With `explore=False`, the EnvRunner takes the best action in every step, so it repeats the same episode; PPO learns from differences between episodes, and there are none.
With `gamma=0.0`, only a step's own reward counts, so five of the six steps to the goal seem worthless.
With a learning rate of 0.00001, the weights hardly move.
Each of these three faults alone keeps the mean return near 0, so if you repair only one, you see no effect: think about what a setting *does*, not about whether the curve has moved.
"""

# %% [markdown]
r"""
Now add RLlib's own test to your config.
The test runs twenty episodes in every seventh iteration, whose result then has an `"evaluation"` entry.
You can also run it yourself, with `algo.evaluate()`.
Two of the settings look superfluous but matter:

- Without `"explore": False`, the test samples its actions.
- RLlib creates EnvRunners for testing only if you set `evaluation_interval` or `evaluation_num_env_runners`.
  Otherwise, `algo.evaluate()` runs on the *training's* EnvRunner and ignores `evaluation_config` if that EnvRunner is local (`num_env_runners=0`); if the EnvRunners are remote, it raises a `ValueError`.

**Predict:** which of three mean returns is the smallest after seven iterations: the one from training, from RLlib's test, or from your test?
"""

# %% tags=["demo"]
predict("smallest_mean", ..., ["training", "RLlib's test", "your test", "all equal"])

# %% tags=["demo"]
if passed("lake_config") and passed("act") and passed("evaluate"):
    lake_folder = Path(keep.name) / "lake"
    test = {"evaluation_interval": 7, "evaluation_duration": 20, "evaluation_config": {"explore": False}}
    with built(lake_config(1000).evaluation(**test)) as algo:
        for _ in range(7):
            result = algo.train()
        algo.save_to_path(lake_folder)
    trained, tested = result["env_runners"]["episode_return_mean"], result["evaluation"]["env_runners"]
    lake = gymnasium.make("FrozenLake-v1", is_slippery=False)
    mine = evaluate(network_in(lake_folder), lake, seeds=range(20))
    means = {"training": trained, "RLlib's test": tested["episode_return_mean"], "your test": np.mean(mine)}
    for name, mean in means.items():
        print(f"{name:14} {mean:.2f}")
    smallest = min(means, key=means.get) if len(set(means.values())) > 1 else "all equal"
    display(measured("smallest_mean", smallest))

# %% [markdown]
r"""
The mean from training is usually the smallest: the agent sampled its actions, so it sometimes stepped into a hole, and its weights were from before the last update.
The two tests agree, which shows that your `act` passes the network what it got in training.
If such numbers *don't* agree, look for a connector that you forgot.
Without slipping, the best actions repeat the same episode, so in each test, either every episode succeeds or none does.
"""

# %%
### BEGIN SOLUTION
which_mean = "b"
### END SOLUTION

# %%
quiz("which_mean", which_mean)

# %% [markdown]
r"""
## Watch the trained agent, with Ray shut down

A mean return hides a lot, so watch your agent before you trust it.
To show that the network works without Ray, shut Ray down first:
"""

# %%
ray.shutdown()


# %%
def episode(network, env, seed, longest=200):
    """Return the frames of one episode, or of its first `longest` steps."""
    (obs, _), frames, over = env.reset(seed=seed), [env.render()], False
    while not over and len(frames) <= longest:
        obs, _, terminated, truncated, _ = env.step(act(network, env.observation_space, obs))
        frames.append(env.render())
        over = terminated or truncated
    return frames


# %% [markdown]
r"""
The next cells show the agent on the lake, then at most 200 steps of CartPole from the checkpoint above, and then the returns of twenty fresh CartPole episodes.
"""

# %% tags=["demo"]
if passed("lake_config") and passed("act") and passed("evaluate"):
    display(film(episode(network_in(lake_folder), Drawn(lake), seed=0), seconds_each=0.4))

# %% tags=["demo"]
if passed("learns_corridor") and passed("act"):
    display(film(episode(network_in(folder), Drawn(gymnasium.make("CartPole-v1")), seed=1)[::2]))

# %% tags=["demo"]
if passed("learns_corridor") and passed("act") and passed("evaluate"):
    tests = evaluate(network_in(folder), gymnasium.make("CartPole-v1"), seeds=range(20))
    figure, axes = plt.subplots(figsize=(7, 2.2), constrained_layout=True)
    axes.plot(tests, np.random.default_rng(0).uniform(-1, 1, 20), "o", color="#db2777", alpha=0.5)
    axes.axvline(live_means[-1][0], color="#059669", label="end of the live curve")
    axes.set(xlabel="return", xlim=(0, 510), ylim=(-3, 3), yticks=[])
    axes.set_title(f"Twenty episodes with the best actions, mean {np.mean(tests):.0f}")
    axes.legend();

# %% [markdown]
r"""
The agent usually does at least as well now as at the end of the live curve, because there, sampled actions sometimes made it stumble.

Chapter 18 turns such a network into a web service.
If you want to use yours there, keep a copy, because the folder is deleted when you close this notebook: `shutil.copytree(folder, Path.home() / "ray-course-cartpole", dirs_exist_ok=True)`.

You can even do without RLlib.
The policy has three layers, each a matrix and a vector, with a $\tanh$ between them (the default of `DefaultModelConfig`), so six arrays are the whole agent, and NumPy can run it:
"""

# %% tags=["demo"]
if passed("learns_corridor") and passed("act") and passed("evaluate"):
    network = network_in(folder)
    parts = [*network.encoder.actor_encoder.modules(), *network.pi.modules()]
    layers = [(p.weight.detach().numpy(), p.bias.detach().numpy()) for p in parts if isinstance(p, torch.nn.Linear)]
    print("matrices", [matrix.shape for matrix, vector in layers])
    pole = gymnasium.make("CartPole-v1")  # from here on, there's only the environment and NumPy
    (x, _), total, over = pole.reset(seed=0), 0.0, False
    while not over:
        for matrix, vector in layers[:-1]:
            x = np.tanh(matrix @ x + vector)
        matrix, vector = layers[-1]
        x, reward, terminated, truncated, _ = pole.step(np.argmax(matrix @ x + vector))
        total, over = total + reward, terminated or truncated
    print(f"return with NumPy alone {total:.0f}, with RLlib's network {tests[0]:.0f}")

# %% [markdown]
r"""
This is the first of the twenty episodes above, with the same actions, unless a rounding difference between NumPy and PyTorch changes one.
"""

# %% [markdown] tags=["notes"]
r"""
Have everyone show a film.
An agent that stands still or trembles raises the best question of the day: is it the training, or what the network gets to see outside RLlib?
Compare `evaluate` with `result["evaluation"]` to find out.
"""

# %% [markdown]
r"""
## What you can do now

- You can write a config, and you know which defaults to change first.
- You can read a result even before the first episode has ended, and tell whether PPO is learning.
- You can train with a live curve, save, inspect the folder, restore, and continue.
- You can use the network without a running Ray, test it, and find out why an agent learns nothing.

## Traps

- **Two defaults, `vf_clip_param=10` and `lr=0.00005`**: with the first, the critic doesn't learn from large errors, and `vf_loss` looks small; with the second, a small problem seems impossible to learn.
- **The mean return** may be missing, NaN, from a single episode, or a mean of means.
- **A relative path**: `algo.save_to_path("checkpoint")` fails with "URI has empty scheme".
  Pass an absolute one: `Path("checkpoint").resolve()`.
- **`config.environment(env_config={...})` adds** to the existing options and doesn't replace them.
- **A checkpoint is made of pickles**, so loading one runs code.
  Load only what you trust, with the version of Ray that wrote it.
- **Connectors stay behind** when you take the network out of the folder.
- **A setting with an [old name](../docs/old_names.md) may be ignored silently**: look at what was built.

## Read on

- [Chapter 12](ch12_env_runners.ipynb): how many EnvRunners to use, and what they save.
  [Chapter 13](ch13_algorithms.ipynb): DQN, SAC, APPO, and IMPALA.
- RLlib's documentation: [checkpoints](https://docs.ray.io/en/latest/rllib/checkpoints.html), [RLModules](https://docs.ray.io/en/latest/rllib/rl-modules.html), and the [guide from the old API to the new](https://docs.ray.io/en/latest/rllib/new-api-stack-migration-guide.html).
- Schulman et al., [*Proximal Policy Optimization Algorithms*](https://arxiv.org/abs/1707.06347), 2017.
- Huang et al., [*The 37 Implementation Details of Proximal Policy Optimization*](https://iclr-blog-track.github.io/2022/03/25/ppo-implementation-details/), 2022: how to debug PPO.
- Henderson et al., [*Deep Reinforcement Learning that Matters*](https://arxiv.org/abs/1709.06560), 2018: why one seed and one number aren't a result.
"""
