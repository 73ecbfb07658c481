# %% [markdown] you_learn_to="train, read the result, save, and use the policy without a running Ray"
r"""
# Chapter 11 · PPO with RLlib

RLlib trains the agent, and what you keep is a checkpoint: a folder with a network in it.

*About 95 minutes · builds on [Chapter 7](ch07_environments.ipynb) and [Chapter 10](ch10_actor_learner.ipynb)*

**What you will be able to do**

- configure RLlib's PPO, and train it while you watch its curve grow;
- read a result, even of an iteration in which no episode ended, and know what its mean is a mean of;
- save an algorithm to a folder, know what is in it, and continue from there;
- use the trained network without an algorithm or a running Ray: from an observation to an action in three lines;
- test the agent fairly, and watch it play;
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

from coursekit import begin, budget, check, hint, passed, progress, quiz, solution
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

ray.shutdown()  # ends a Ray that already runs here: its references and actors are gone
ray.init(num_cpus=4, include_dashboard=False)
keep = tempfile.TemporaryDirectory()  # for checkpoints; deleted when the notebook is closed

# %% [markdown] tags=["notes"]
r"""
The run sheet plans ninety-five minutes, with `evaluate` as homework.
Have the class run the two cells above right away: importing RLlib and starting Ray take fifteen seconds on a small laptop.
`num_cpus=4` is a promise, not a measurement: four EnvRunners will live at once, each asks for one logical CPU, and on two cores they share.
"""

# %% [markdown]
r"""
## A configuration reads like a sentence

In chapter 10 you wrote PPO; from here on RLlib runs it.
You say *what* you want in a `PPOConfig`.
Nothing happens until `build_algo()` turns it into an **algorithm**: a learner, and *EnvRunners*, which are chapter 10's samplers.

![A config is built into an algorithm with a learner and EnvRunners; train returns a result; save writes a folder; from the folder comes an algorithm that trains on, or the network alone, for a program of yours](../img/ch11_parts.svg)

You know nearly all its settings under other names:

| chapter 10 | RLlib | method |
|---|---|---|
| number of samplers | `num_env_runners` | `.env_runners(...)` |
| environments in each sampler | `num_envs_per_env_runner` | `.env_runners(...)` |
| `ENVS * STEPS`, steps of one iteration | `train_batch_size_per_learner` | `.training(...)` |
| `EPOCHS`, `MINIBATCH` | `num_epochs`, `minibatch_size` | `.training(...)` |
| `GAMMA`, `LAMBDA`, `LEARNING_RATE` | `gamma`, `lambda_`, `lr` | `.training(...)` |
| width of the layers | `DefaultModelConfig(fcnet_hiddens=[...])` | `.rl_module(...)` |
| actor and critic are two networks | `DefaultModelConfig(vf_share_layers=False)` | `.rl_module(...)` |

Chapter 10 used 10 epochs, minibatches of 512, λ = 0.95 and a learning rate of 0.002.
RLlib's defaults differ:
"""

# %% tags=["demo"]
names = ["num_env_runners", "num_envs_per_env_runner", "total_train_batch_size"]
names += ["num_epochs", "minibatch_size", "gamma", "lambda_", "lr"]
pandas.Series({name: getattr(PPOConfig(), name) for name in names}, dtype=object).to_frame("PPO's default")

# %% [markdown]
r"""
The learning rate is a fortieth of chapter 10's.
The defaults are cautious, made for problems that take millions of steps, and thirty passes over each batch make up for some of that.
With fewer epochs, as here, training on a small problem is several times faster with a larger rate, so change the rate first.
`total_train_batch_size` is what all learners get together; with one learner, it is the batch.

Read a whole configuration aloud:
"""


# %%
def cartpole_config(runners):
    """Return PPO for CartPole, played by this number of EnvRunners."""
    return (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=runners, num_envs_per_env_runner=2)  # with 0 of them, this process plays
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64, 64], vf_share_layers=False))
        .training(
            train_batch_size_per_learner=2000,  # steps of one iteration, or a few more, shared out among the runners
            minibatch_size=250,
            num_epochs=8,
            lambda_=0.95,
            lr=0.003,
        )
        .debugging(seed=0, log_sys_usage=False)  # without the monitor of the machine, which slows every stop
    )


# %% [markdown]
r"""
The chapter's second problem is a corridor.
Yours in chapter 7 began anywhere in its left half; coursekit's begins every episode on square 0.
A step costs 0.1, and the one that reaches the exit at the far end pays 1.
RLlib finds it by its name, and every EnvRunner imports the module before the colon.
An option of the environment, here its length, goes beside the name:
"""


# %%
def corridor_config(length):
    """Return PPO for a corridor of `length` squares, played in this process in four environments."""
    return (
        PPOConfig()
        .environment("coursekit.given.environments:SimpleCorridor-v0", env_config={"length": length})
        .env_runners(num_env_runners=0, num_envs_per_env_runner=4)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[32]))
        .training(train_batch_size_per_learner=512, minibatch_size=128, num_epochs=6, lr=0.003)
        .debugging(seed=0, log_sys_usage=False)
    )


# %% [markdown]
r"""
The methods may come in any order, and each changes the config in place *and* returns it, which is why they chain.
To change a config without touching the original, take `config.copy(copy_frozen=False)` first: building an algorithm freezes its config, but you can change the copy.
Instead of a name you can also pass your own class, whose constructor takes the options as one dictionary.
Configurations in older tutorials are written differently: [Old names](../docs/old_names.md) translates them.
"""

# %% [markdown]
r"""
## The result is a dictionary of dictionaries, and five entries answer most questions

`algo.train()` runs one iteration and returns a **result**.
The next cell trains on CartPole with tiny iterations of ten steps, five in each of two environments, and reads from every result what people usually want to know.
A runner steps its environments together, so now and then there is one more step.

`built` calls `config.build_algo()`, and `algo.stop()` when the block ends, even with an error.
An algorithm that is never stopped leaves its EnvRunners running.

**Predict:** what is the mean return after the first iteration?
"""

# %% tags=["demo"]
rows = []
with built(cartpole_config(runners=0).training(train_batch_size_per_learner=10, minibatch_size=10)) as algo:
    for _ in range(14):
        result = algo.train()
        played = result["env_runners"]
        rows.append({
            "training_iteration": result["training_iteration"],
            "num_env_steps_sampled_lifetime": int(result["num_env_steps_sampled_lifetime"]),
            "num_episodes_lifetime": int(played["num_episodes_lifetime"]),
            "episode_return_mean": played.get("episode_return_mean", "not there"),
        })
pandas.DataFrame(rows).set_index("training_iteration")

# %% [markdown]
r"""
At first *there is none*.
A return is known only when its episode ends, and after five steps no pole has fallen.
Until the first one does, `result["env_runners"]["episode_return_mean"]` raises a KeyError.
Afterwards it is **NaN** in every iteration in which no episode ends.
That is no mistake: environments with long episodes begin like this.
Be ready for both:

```python
result["env_runners"].get("episode_return_mean", float("nan"))
```

Where there is a number, it is a mean over episodes that *ended in this iteration*.
The setting `metrics_num_episodes_for_smoothing`, 100 by default, limits it to the last hundred of them, shared out among the runners; it does not reach back into earlier iterations.
So a single episode may be behind it, as in the last column above.
And in these episodes the agent was still trying things.

Here is the rest:

| you ask | look at |
|---|---|
| the return of the episodes | `result["env_runners"]["episode_return_mean"]`, also `_min`, `_max` |
| their length | `result["env_runners"]["episode_len_mean"]` |
| how many steps so far | `result["num_env_steps_sampled_lifetime"]` |
| how many iterations, how long | `result["training_iteration"]`, `result["time_total_s"]` |
| how the learner is doing | `result["learners"]["default_policy"]`: `policy_loss`, `vf_loss`, `entropy` |

`"default_policy"` is the name of the one network; with several agents there are several.
Everything else is counters and stopwatches:
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
Now write the loop that all training needs: train until it is good enough.
The check runs it first on algorithms with prepared results: in one the mean is missing at first and NaN now and then, one never gets there, and one has an environment that breaks.
Then it lets PPO learn a corridor, with up to three seeds.
"""


# %%
def learns_corridor(config, target, most):
    """Return the mean returns, one of each iteration, NaN where there is none.

    Builds the config and trains until the mean return is at least `target`, for `most` iterations at most.
    Stops the algorithm in the end, even when training ended with an error; the error reaches the caller.
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
Every comparison with NaN is false, `nan >= target` as well as `nan < target`.
So a loop that continues *while the mean is below the target* ends silently at the first NaN, after one iteration.
Ask whether the target *has been reached*.
"""

# %% [markdown]
r"""
Try it.
In a corridor of twelve squares, the best possible return is 0: ten steps that cost 0.1 and one that pays 1.

**Predict:** how many iterations of 512 steps until the mean return is above −0.2?
The agent begins nearly at random, and a coin would need more than a hundred steps to the exit.
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
It takes a handful of iterations to become nearly perfect.
The first point flatters: only episodes that *ended in this iteration* count, and with 128 steps in each corridor only the short, lucky ones did.
The curve stays below the dashed line, because the policy still draws its actions and sometimes steps back.

## Several runners report a mean of means

Several EnvRunners give a second reason to distrust the mean.
Each time RLlib asks a runner, it gets the mean of the episodes that ended there, and averages these means without asking how many episodes each stands for.
PPO asks each runner once an iteration.
Algorithms that ask more often, such as DQN in chapter 13, average means even with a single runner.
Suppose one runner has finished sixty short episodes with a mean return of 20, and the other a single one of 490.
The result says 255; the mean over the 61 episodes is 28.

To see every episode, log it yourself.
A **callback** is a function that RLlib calls in the EnvRunner, here at the end of each episode.
An episode may span several iterations: `episode` is only its last piece, and the earlier ones are in `prev_episode_chunks`.
`reduce="item_series"` keeps all values of an iteration, from all runners, as a list, but a single one arrives as a bare number.
"""


# %%
def note_return(episode, prev_episode_chunks, metrics_logger, **more):
    """Add the return of a finished episode to the list `result["env_runners"]["returns"]`."""
    pieces = [*prev_episode_chunks, episode]
    metrics_logger.log_value("returns", sum(piece.get_return() for piece in pieces), reduce="item_series")


def every_episode(result):
    """Return the mean return over all episodes that ended in this iteration, NaN where there is none."""
    returns = np.atleast_1d(result["env_runners"].get("returns", []))
    return returns.mean() if returns.size else float("nan")


# %% [markdown]
r"""
Long training needs a picture that grows.
A notebook can update a picture *in place*: `display(figure, display_id=True)` returns a handle, and `handle.update(figure)` draws it again.
"""


# %%
def train_live(algo, iterations, enough):
    """Return two mean returns of each iteration, over all episodes and RLlib's; stop when the first is `enough`."""
    figure, axes = plt.subplots(figsize=(7, 3), constrained_layout=True)
    picture, means = display(figure, display_id=True), []
    for _ in range(iterations):
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
    plt.close(figure)  # or the notebook would show it a second time
    return means


# %% [markdown]
r"""
The next cell trains on CartPole for up to a hundred iterations with **four** EnvRunners, and stops early when the pole stays up for 475 of 500 steps.
Quick mode takes five iterations; set `COURSEKIT_QUICK=1` before you start JupyterLab to get that.
The cell waits for your `learns_corridor`, so you know what the loop does.

Four runners are four processes that share your machine's cores.
Ray counts *logical* CPUs, those you named in `ray.init`: on two real cores, four runners play hardly faster than two, and each needs its memory.
Chapter 12 measures the gain.

**Predict:** does RLlib's mean of means lie above or below the mean over all episodes?
Which runner finishes fewer episodes: one with long episodes or one with short ones?
"""

# %% tags=["demo"]
if passed("learns_corridor"):
    folder = Path(keep.name) / "cartpole"
    begun = time.perf_counter()
    with built(cartpole_config(runners=4).callbacks(on_episode_end=note_return)) as algo:
        ready = time.perf_counter()
        live_means = train_live(algo, budget(100, 5), enough=475)
        algo.save_to_path(folder)
    print(f"start {ready - begun:.0f} s, then {(time.perf_counter() - ready) / len(live_means):.1f} s an iteration")
    gaps = [rllibs - ours for ours, rllibs in live_means]
    print(f"RLlib's mean lies {np.nanmean(gaps):+.1f} from that over all episodes, on average, and {max(gaps, key=abs):+.1f} at most")

# %% [markdown]
r"""
On CartPole a long episode is a good one, and a runner with long episodes finishes few.
Each of those few weighs more in a mean of means, so RLlib's number tends to flatter.
The gap is largest while some runners still fail early and others no longer do.
Where all episodes take about equally long, the two agree.

The wait before the first point is the start: four Pythons import PyTorch and RLlib.
In hours of training it does not matter; to try ten settings for a minute each, use `num_env_runners=0`.

`save_to_path` wrote a *checkpoint*.
The algorithm is stopped; everything below starts from the folder.
"""

# %% [markdown] tags=["notes"]
r"""
While the curve grows, ask how many episodes are behind each point.
At 2,000 steps an iteration, the first points rest on a hundred short episodes, the last on four long ones: that is why the end of the curve jumps.
Half-time: a good moment for a break.
"""

# %% [markdown]
r"""
## A checkpoint is a folder, and you can look into it
"""

# %% tags=["demo"]
if passed("learns_corridor"):
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in ("metadata.json", "class_and_ctor_args.pkl"):
            print(f"{path.stat().st_size:9,} bytes  {path.relative_to(folder)}")

# %% [markdown]
r"""
The list leaves out two files that every part has.
`class_and_ctor_args.pkl` says how to build the part again, with its class and arguments; for the algorithm, that is your config.
`metadata.json` says which Ray wrote it.

| file | what is in it |
|---|---|
| `algorithm_state.pkl` | counters and averages: iterations, steps, the last returns |
| `learner_group/learner/state.pkl` | the optimizer's memory (Adam's averages), counters |
| `learner_group/learner/rl_module/default_policy/module_state.pkl` | the network's weights |
| `..._connector.../state.pkl` | what *connectors* remember, as the next section explains; a file of a few bytes remembers nothing |
| `env_runner/state.pkl`, `env_runner/rl_module/...` | the runners' counters, and the network again, as it plays |

So the folder holds what you need to train on.
It holds no half-played episodes: a new algorithm begins new ones.
Of an environment in a module, such as `coursekit.given.environments:SimpleCorridor-v0`, it has only the name; a class from your notebook is pickled with its code.
The optimizer's memory is about twice the size of the network, because Adam keeps two averages of each weight.

`algo.save_to_path(folder)` writes, and `Algorithm.from_checkpoint(folder)` builds a new algorithm from it.
Stop the old one first: a new algorithm with four EnvRunners waits for four CPUs, and if the old one holds them, it waits forever.

RLlib writes the parts one by one, and `algorithm_state.pkl` last.
So a process killed while it saves leaves a folder without that file, and loading it fails.
A half-*copied* folder is worse, because copying has an order of its own.

**Predict:** the next cell takes a checkpoint of six iterations, deletes its `learner_group`, and loads it.
Does it raise, and if not, what has the algorithm forgotten?
"""


# %%
def corridor_in(length, folder, iterations):
    """Train on a corridor, and save a checkpoint after each iteration into a folder with its number."""
    with built(corridor_config(length)) as algo:
        for number in range(1, iterations + 1):
            algo.train()
            algo.save_to_path(Path(folder) / str(number))


# %% tags=["demo"]
runs = Path(keep.name) / "corridor"
corridor_in(10, runs, iterations=6)
shutil.copytree(runs / "6", runs / "copied")
shutil.rmtree(runs / "copied" / "learner_group")
for name in ("6", "copied"):
    algo = Algorithm.from_checkpoint(runs / name)
    weights = algo.learner_group.get_weights()["default_policy"]
    print(f"{name:7} iteration {algo.iteration}, sum of the weights {sum(float(np.abs(part).sum()) for part in weights.values()):.3f}")
    algo.stop()
shutil.rmtree(runs / "copied")

# %% [markdown]
r"""
It loads, counts six iterations, and has an untrained network.
Training then carries on without a word, and the dent in its curve is the only trace.

Write `resume_newest`.
`folder` holds checkpoints like those above, each in a folder named after its iteration, and some are not whole: the process was killed while it saved one, and another was cut off during copying.
Return an algorithm that continues from the newest whole one.

The check makes such a folder, compares the weights, optimizer and counters of what comes back, and lets it train on.
"""


# %%
def resume_newest(folder):
    """Return an algorithm that continues from the newest whole checkpoint among the folders in `folder`, named 1, 2, …"""
    ### BEGIN SOLUTION
    parts = ["algorithm_state.pkl", "env_runner/state.pkl", "learner_group/state.pkl", "learner_group/learner/state.pkl"]
    parts.append("learner_group/learner/rl_module/default_policy/module_state.pkl")
    for path in sorted(Path(folder).iterdir(), key=lambda path: int(path.name), reverse=True):
        if all((path / part).exists() for part in parts):
            return Algorithm.from_checkpoint(path)
    raise FileNotFoundError(f"There is no whole checkpoint in {folder}.")
    ### END SOLUTION


# %%
check("resume_newest", resume_newest)

# %% [markdown] tags=["solution"]
r"""
Names are text, and as text 9 comes after 10: compare the numbers.

You need not know the files by heart: all checkpoints of one run have the same files, so a folder with fewer than an older one is not whole.
In your own program, save into a folder with another name and rename it at the end: a rename happens at once or not at all, as in chapter 5.

`config.build_algo()` and then `algo.restore_from_path(folder)` does the same as `from_checkpoint`, and lets you change the config in between: more runners, a larger batch.
The network's shape must stay.
Weights alone are not enough to continue: an optimizer without its averages begins with steps of the wrong size.
"""

# %% [markdown]
r"""
Try it on a corridor of twenty squares: four iterations, then four more with the restored algorithm.
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
    axes.plot(*curves[1], "o-", color="#2563eb", label="restored")
    axes.set(xlabel="iteration", ylabel="mean return", title="The restored algorithm counts on, and learns on")
    axes.legend();

# %% [markdown]
r"""
If the curve has a dent, the restored algorithm is not to blame: weights, optimizer and counters came back.
Only the episodes are new, so the mean of its first iteration again rests on those short enough to end in it.
"""

# %%
### BEGIN SOLUTION
what_a_checkpoint_lacks = "c"
### END SOLUTION

# %%
quiz("what_a_checkpoint_lacks", what_a_checkpoint_lacks)

# %% [markdown]
r"""
## The network is PyTorch, and three lines ask it

To *use* what you have trained, you need no algorithm, EnvRunner or running Ray, only RLlib as an import.
The network is an **RLModule**, a PyTorch module that you can ask in three ways: `forward_train` is for the learner, `forward_exploration` for the runners, and `forward_inference` for use.
From PPO's network all three return scores, not actions.
Deep in the folder it has a checkpoint of its own:
"""


# %%
def network_in(folder):
    """Return the trained network of a checkpoint, an RLModule. Ray need not run."""
    return RLModule.from_checkpoint(Path(folder) / "learner_group" / "learner" / "rl_module" / "default_policy")


# %% tags=["demo"]
if passed("learns_corridor"):
    network = network_in(folder)
    obs, _ = gymnasium.make("CartPole-v1").reset(seed=0)
    answer = network.forward_inference({"obs": torch.from_numpy(obs)[None]})
    print("network    ", type(network).__name__, sum(p.numel() for p in network.parameters()), "weights")
    print("observation", obs.round(3))
    print("answer     ", answer)

# %% [markdown]
r"""
![An observation is flattened to a vector, made a batch of one, goes through the network, and the largest of the scores is the action](../img/ch11_act.svg)

`action_dist_inputs` are the *scores* of chapter 10: a softmax of them is the distribution the policy draws from in training.
In use, take the action with the largest score.
Three details:

- **A batch.** Networks take many observations at once.
  One observation is a batch of one: `x[None]` adds the dimension.
  Some networks forgive you for leaving it out; others do not.
- **Tensors of `float32`**, not arrays, and not `float64`.
- **What connectors did.** In training, *connectors* stand between environment and network.
  FrozenLake's observation is the number of a square; a connector turned it into a *one-hot* vector: a one among fifteen zeros.
  Outside RLlib that is your job.
  `gymnasium.spaces.flatten(space, obs)` gives the same vector, for a number, a matrix or a dictionary, and leaves a vector alone.

Without the connector, RLlib cannot even build a network for FrozenLake:
"""

# %% tags=["demo"]
try:
    PPOConfig().environment("FrozenLake-v1").env_runners(num_env_runners=0).build_algo()
except ValueError as error:
    print(error)

# %% [markdown]
r"""
Write `act`.
The check hands it networks with weights of its own, and three kinds of spaces: vectors, numbers of squares, matrices.
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
`network.get_inference_action_dist_cls().from_logits(scores).to_deterministic().sample()` picks the best action for each kind: for several choices at once (`MultiDiscrete`) it is a vector of numbers, for a torque or a steering angle the mean.

A continuous action needs one more step, because a connector stood on the way *out* as well.
RLlib trains with actions between −1 and 1 (`normalize_actions=True`) and stretches them to the environment's range.
Outside, you do that: `unsquash_action(action, env.action_space)` from `ray.rllib.utils.spaces.space_utils`.
Without it a trained Pendulum pushes with half its strength and never gets up.

A network with a memory, such as an LSTM, also wants its `state_in`, and returns `state_out`.
"""

# %%
### BEGIN SOLUTION
why_flatten = "c"
### END SOLUTION

# %%
quiz("why_flatten", why_flatten)

# %% [markdown]
r"""
## A fair test: fresh episodes, the best actions, more than one

`episode_return_mean` says how training is going.
It does not say what the finished agent can do: in these episodes it drew its actions, with weights from before the last update.
A test takes the finished network, the best actions, and many episodes, each from a seed of its own, so tomorrow's test is the same.

Write `evaluate`, with your `act` inside.
The check lets it play on FrozenLake, and knows what the best actions earn there.
An episode can end in two ways; the check's environment tells you if you step on after an end.
"""


# %%
def evaluate(network, env, seeds):
    """Return a list with the return of one episode for each seed, with the best action in every step."""
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
Keep the list, and take the mean afterwards: a mean alone does not say how sure it is.
With $n$ returns of standard deviation $s$, the true mean lies within about $2 s / \sqrt n$ of yours, if $n$ is 20 or more; chapter 12 treats the case of few.
"""

# %% [markdown]
r"""
## An agent that learns nothing rarely says why

Now do it all again, on FrozenLake without the slipping: train, save, load, test.
The connector comes from a function, here `flat`, which a config takes as `.env_runners(env_to_module_connector=flat)`: RLlib calls it in every process that plays, and uses what it returns.
A colleague's configuration looks reasonable but teaches the agent nothing:
"""


# %%
def flat(env, spaces, device):
    """Return the connector that flattens observations: the number of a square becomes a one-hot vector."""
    return FlattenObservations()


# %%
def lifeless_config(batch):
    """Return a colleague's PPO for FrozenLake without slipping, with `batch` steps an iteration: it learns nothing."""
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
Four things are wrong with it.
One raises an error, which you met above, as soon as you build it.
The other three are silent: the algorithm trains, and the mean return stays at 0.
Ask three questions.
Does the agent ever try anything new?
The goal pays 1, six steps after the start; what is that 1 worth in the first step?
And how much do the weights change in an iteration?

Write `lake_config`, the repaired one.
Leave problem, network and batch as they are: seven iterations must be enough for a mean return of 0.5.
The check reads the settings, then trains, with up to three seeds, which takes some seconds.
"""


# %%
def lake_config(batch):
    """Return PPO for FrozenLake without slipping, repaired: seven iterations of `batch` steps in this process are enough."""
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
`explore=False` makes the runner take the best action in every step, so that it plays one and the same episode; PPO learns from differences, and there are none.
With `gamma=0.0` only a step's own reward counts, so five of the six steps to the goal seem worthless.
A learning rate of 0.00001 moves the weights by next to nothing.
Each of the three alone keeps the mean return near 0, so repairing one shows nothing: look at what a setting *does*, not at whether the curve has moved.
"""

# %% [markdown]
r"""
Now add RLlib's own test to your config: in every seventh iteration it plays twenty episodes, and the result then has an entry `"evaluation"`.
`algo.evaluate()` runs that test by hand.

Two of its settings look superfluous, but both are needed.
Without `"explore": False` the test draws its actions as training does.
And RLlib makes EnvRunners for testing only if you set `evaluation_interval` or `evaluation_num_env_runners`; otherwise even a test by hand uses the *training's* runner and settings, and ignores `evaluation_config`.

**Predict:** after seven iterations, which of the three numbers below will be the smallest, and why?
"""

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
    print(f"while it trained      {trained:.2f}")
    print(f"RLlib's own test      {tested['episode_return_mean']:.2f}   ({tested['num_episodes']} episodes)")
    print(f"yours, without Ray    {np.mean(mine):.2f}   ({len(mine)} episodes)")

# %% [markdown]
r"""
The first is the smallest: the agent drew its actions, one wrong step can lead into a hole, and it played before the last update.
The other two agree, which shows that your `act` sees what the network saw in training.
If such numbers do *not* agree, look for a connector you forgot.

On ice without slipping, an agent that always takes the best action plays the same episode every time.
So both tests are all or nothing: an agent that had not yet found the way would earn 0 in every episode.
"""

# %%
### BEGIN SOLUTION
which_mean = "b"
### END SOLUTION

# %%
quiz("which_mean", which_mean)

# %% [markdown]
r"""
## Watch it play, with Ray switched off

Numbers hide much: look at your agent before you believe in it.
`Drawn` draws an environment, and `film` animates the pictures.
To show that the network needs nothing else, Ray ends here.
"""

# %%
ray.shutdown()


# %%
def episode(network, env, seed, longest=200):
    """Return the pictures of one episode, or of its first `longest` steps."""
    (obs, _), pictures, over = env.reset(seed=seed), [env.render()], False
    while not over and len(pictures) <= longest:
        obs, _, terminated, truncated, _ = env.step(act(network, env.observation_space, obs))
        pictures.append(env.render())
        over = terminated or truncated
    return pictures


# %% [markdown]
r"""
First the lake, then at most 200 steps of the pole from the checkpoint above, and what that agent earns in twenty fresh episodes.

**Predict:** now that it takes the best actions, will the agent do better or worse than the end of its live curve?
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
    axes.set_title(f"Twenty episodes, mean {np.mean(tests):.0f}")
    axes.legend();

# %% [markdown]
r"""
Better, as a rule: the draws that let it explore also made it stumble.
After only five iterations, in quick mode, it balances for a while, some 200 steps perhaps, and then drifts off the track or falls.
After full training it stands, and little is left to gain.

Chapter 18 puts such a network, perhaps yours, behind a web address.
The folder is deleted when you close this notebook, so keep a copy: `import shutil; shutil.copytree(folder, Path.home() / "ray-course-cartpole", dirs_exist_ok=True)`.

You still need RLlib to open the folder.
You can do without that as well: the policy is three layers, each a matrix and a vector, with a $\tanh$ between them, `DefaultModelConfig`'s default.
Once you have taken them out, six arrays are the whole agent; `np.savez` keeps them in a file, for a program that has only NumPy.
"""

# %% tags=["demo"]
if passed("learns_corridor") and passed("act") and passed("evaluate"):
    network = network_in(folder)
    parts = [*network.encoder.actor_encoder.modules(), *network.pi.modules()]
    layers = [(p.weight.detach().numpy(), p.bias.detach().numpy()) for p in parts if isinstance(p, torch.nn.Linear)]
    print("matrices", [matrix.shape for matrix, vector in layers])
    pole = gymnasium.make("CartPole-v1")  # from here on: the environment, and NumPy
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
Each matrix has a row for each unit and a column for each of its inputs: four numbers in, two layers of 64, two actions out.
It is the first of the twenty episodes above, with the same numbers and, but for last digits that NumPy and PyTorch may round differently, the same actions.
"""

# %% [markdown] tags=["notes"]
r"""
Have everyone show a film.
An agent that stands still in the corridor, or shakes, asks the best question of the day: is it the training, or what the network sees outside RLlib?
`evaluate` against `result["evaluation"]` tells.
"""

# %% [markdown]
r"""
## What you can do now

- You write a config with the settings that matter, and know which defaults to change on a small problem.
- You read returns, steps and losses from a result, even before the first episode has ended, and know when its mean is a mean of means.
- You train with a live curve, save, look into the folder, restore, and continue.
- You take the network out of the folder and use it without an algorithm or a running Ray.
- You test with fresh episodes and the best actions, and look at the agent.
- You know what to look at when an agent learns nothing and nothing raises.

## Traps

- **The default learning rate**, 0.00005: with few epochs, a small problem seems impossible to learn.
- **A mean return that says less than it seems**: missing, NaN, of one episode, or a mean of means.
- **`algo.evaluate()` draws its actions** unless you tell it otherwise, and give it runners of its own.
- **A relative path**: `algo.save_to_path("checkpoint")` fails with "URI has empty scheme".
  Give an absolute one: `Path("checkpoint").resolve()`.
- **`config.environment(env_config={...})` adds** to the existing options and does not replace them.
- **A checkpoint is made of pickles**: loading one runs code.
  Load only what you trust, with the Ray that wrote it.
- **Connectors stay behind** when the network leaves: the one that flattens observations, and the one that stretches continuous actions.
  If you trained with a running mean of observations, its numbers are in the folder, too.
- **A setting with an old name may be ignored without a word**: look at what was built, as the checks of this chapter do.
- **Empty folders** in `~/ray_results`: every algorithm leaves one there, even if it wrote nothing.

## Read on

- [Chapter 12](ch12_env_runners.ipynb): how many EnvRunners, and what they save.
  [Chapter 13](ch13_algorithms.ipynb): DQN, SAC, APPO and IMPALA.
- RLlib's documentation: [checkpoints](https://docs.ray.io/en/latest/rllib/checkpoints.html), [RLModules](https://docs.ray.io/en/latest/rllib/rl-modules.html), and the [guide from the old API to the new](https://docs.ray.io/en/latest/rllib/new-api-stack-migration-guide.html).
- Schulman et al., [*Proximal Policy Optimization Algorithms*](https://arxiv.org/abs/1707.06347), 2017.
- Henderson et al., [*Deep Reinforcement Learning that Matters*](https://arxiv.org/abs/1709.06560), 2018: why one seed and one number are not a result.
"""
