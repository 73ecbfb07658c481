# %% [markdown] you_learn_to="search settings with ASHA and PBT, and restore a killed search"
r"""
# Chapter 16 · Hyperparameter search with Ray Tune

Tune tries many settings and gives up early on those that won't win.

*About 120 minutes · builds on [Chapter 4](ch04_scheduling.ipynb) and [Chapter 11](ch11_rllib_ppo.ipynb)*

**What you will be able to do**

- turn a training run into a *trial*, which can stop after any epoch and continue later;
- search a grid, and read the results as a DataFrame;
- let ASHA stop bad trials early, count what that saves, and explain why the order of the trials matters;
- tune PyTorch training with Optuna, which proposes each trial from earlier results;
- change a learning rate mid-training, with population-based training;
- kill an experiment, restore it, and say which epochs it trained twice;
- work out what a trial asks for, see why one stays PENDING, and spread a grid over two nodes;
- tune RLlib's PPO on two CPUs, in an environment of your own.
"""

# %%
import random
import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas
import ray
from ray import tune
from ray.tune.schedulers import ASHAScheduler, PopulationBasedTraining

from coursekit import begin, budget, check, hint, passed, progress, quiz, solution
from coursekit.given.ch16_tune import Elsewhere, Network, after, ancestry, diary, digits, restored_table, running, small_ppo
from coursekit.given.nodes import add_nodes, small_cluster, stop

begin("ch16_tune")

# %%
cluster = small_cluster(num_cpus=2)  # ends the one before: its references and actors are gone
ray.init(address=cluster.address, log_to_driver=False)
keep = tempfile.TemporaryDirectory()  # for results and checkpoints; it goes when the notebook is closed
place = Path(keep.name).resolve()

# %% [markdown]
r"""
Ray is a cluster of one node with two logical CPUs, whatever your machine has; a second node comes at the end.
`log_to_driver=False` leaves the messages of Tune's processes in their log files: each checkpoint writes one.
Cells that start an experiment take some seconds, or a minute or two on a busy machine.
"""

# %% [markdown] tags=["notes"]
r"""
The run sheet plans two hours, with `tune_ppo` as homework.
Start the two cells above before you speak.
First ask the room for a learning rate for the digits, and keep the answers on a board: the grid will judge them.
"""

# %% [markdown]
r"""
## A trial is a function that reports after every epoch

Which learning rate should you use, and how many hidden units?
You cannot compute that; you have to try.
**Tune** tries for you: it runs your training many times with different settings.
Each run is a **trial**, in a Ray actor of its own, and *reports* how it is doing.

![Tune gives each trial a config; the trial reports an accuracy and a checkpoint after every epoch; a scheduler answers: continue, or stop](../img/ch16_tune.svg)

The training is small on purpose: scikit-learn's digits, 8 × 8 pixels each, and a network with one hidden layer in NumPy, `Network`, forty lines in `coursekit/given/ch16_tune.py`.
An **epoch**, one pass over the training images, takes milliseconds; with epochs of hours, all else would be the same.
With ten classes, guessing gets 10 % right.
Three epochs, with 32 hidden units and a learning rate of 0.03, get this:
"""

# %% tags=["demo"]
data = digits()
network = Network(hidden=32)
for _ in range(3):
    network.train(*data["train"], lr=0.03)
    print(f"epoch {network.epochs}:", network.test(*data["choose"]))

# %% [markdown]
r"""
The images come in three parts: a thousand to `"train"`, four hundred to `"choose"` settings by, and the rest to look at `"once"`, at the very end.
If you try fifty settings and report the best result, you have also picked the luckiest; only images that chose nothing can say how good it is.

As a trial, this loop becomes a function of a `config`.
Two calls connect it with Tune:

```python
tune.report({"accuracy": 0.5}, checkpoint=tune.Checkpoint.from_directory(folder))   # after every epoch
start = tune.get_checkpoint()   # None, or the checkpoint from which this trial is to continue
```

`report` keeps a copy of the folder, hands the numbers to Tune, and *waits for an answer*: perhaps the trial ends there.
So a trial has to be able to continue from any of its checkpoints, with its weights and its count of epochs.
Everything below rests on that.

Write it.
`network.save(folder)` writes everything into a folder, `network.load(folder)` reads it back, and `with start.as_directory() as folder:` opens a checkpoint.
The check drives your function with Tune's own code, stops it after some epochs, and starts it again from the checkpoint.
"""


# %%
def objective(config, data):
    """Train on data["train"] until there are config["epochs"] epochs, with config["hidden"] units and config["lr"].

    After every epoch, report {"epoch": its number, "accuracy": ..., "loss": ...}, the last two as the network's test on
    data["choose"] returns them, with a checkpoint. If there is a checkpoint to continue from, continue from that.
    """
    ### BEGIN SOLUTION
    network = Network(config["hidden"])
    start = tune.get_checkpoint()
    if start:
        with start.as_directory() as folder:
            network.load(folder)
    while network.epochs < config["epochs"]:
        network.train(*data["train"], lr=config["lr"])
        with tempfile.TemporaryDirectory() as folder:
            network.save(folder)
            metrics = {"epoch": network.epochs, **network.test(*data["choose"])}
            tune.report(metrics, checkpoint=tune.Checkpoint.from_directory(folder))
    ### END SOLUTION


# %%
check("objective", objective)

# %% [markdown] tags=["solution"]
r"""
`while network.epochs < config["epochs"]` serves a new trial and a continued one.
The temporary folder may go once `report` has returned: Tune has its copy by then.
An epoch that takes an hour deserves a checkpoint; with epochs of milliseconds, every tenth would do if copying were slow.
"""

# %% [markdown]
r"""
## A grid tries everything, the hopeless too

A `Tuner` takes four things: *what* runs, over which *space*, *how* to search, and *where* results go.

| what | where you say it |
|---|---|
| the function, and what a trial asks for | `tune.with_resources(trainable, {"cpu": 1})` |
| the space: for each name a value, or `tune.grid_search([...])` | `param_space={...}` |
| what is best, and what may stop trials | `tune_config=tune.TuneConfig(metric="accuracy", mode="max", scheduler=...)` |
| where results go; *callbacks*, objects that hear every report; how much to print | `run_config=tune.RunConfig(storage_path=..., callbacks=..., verbose=0)` |

Write `tuner` for the whole chapter.
Add `reuse_actors=True` to the `TuneConfig`: a trial then takes over the process of one that has ended.
A new process takes seconds to start, our training milliseconds.

The check hands over a function that writes down what it sees: its config and its CPUs.
"""


# %%
def tuner(trainable, space, cpus, folder, scheduler=None, callbacks=None):
    """Return a Tuner that tries every combination of the lists in `space` once; a value that is no list is the same for all.

    A trial asks for `cpus` logical CPUs. The best one has the highest "accuracy". Results go into `folder`; scheduler and
    callbacks are handed on. Processes are used again (`reuse_actors`), and nothing is printed (`verbose=0`).
    """
    ### BEGIN SOLUTION
    grid = {name: tune.grid_search(value) if isinstance(value, list) else value for name, value in space.items()}
    return tune.Tuner(
        tune.with_resources(trainable, {"cpu": cpus}),
        param_space=grid,
        tune_config=tune.TuneConfig(metric="accuracy", mode="max", scheduler=scheduler, reuse_actors=True),
        run_config=tune.RunConfig(storage_path=folder, callbacks=callbacks, verbose=0),
    )
    ### END SOLUTION


# %%
check("tuner", tuner)

# %% [markdown] tags=["solution"]
r"""
A plain list (`"lr": [0.1, 0.01]`) is a value like any other: one trial whose learning rate is a list.
The `storage_path` must be absolute, or an address such as `s3://bucket/folder`; without it, results go to `~/ray_results` and stay there.
"""

# %% [markdown]
r"""
Now the grid: seven learning rates, two sizes, fourteen trials.
`tune.with_parameters(objective, data=data)` puts the images into Ray's object store once (chapter 2) and hands them to each trial.

**Predict:** which learning rate wins, and is it the same one for 8 units and for 32?
"""

# %% tags=["demo"]
rates, epochs, grid = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0], budget(27, 9), None
if passed("objective") and passed("tuner"):
    trial = tune.with_parameters(objective, data=data)
    space = {"lr": rates, "hidden": [8, 32], "epochs": epochs}
    start = time.perf_counter()
    grid = tuner(trial, space, cpus=1, folder=place / "grid").fit()
    print(f"{len(grid)} trials in {time.perf_counter() - start:.1f} s")
    last = grid.get_dataframe()  # of each trial its last report
    best = grid.get_dataframe(filter_metric="accuracy", filter_mode="max")  # of each trial its best one
    last["best accuracy"], last["in epoch"] = best["accuracy"], best["epoch"]
    columns = ["config/hidden", "config/lr", "training_iteration", "accuracy", "best accuracy", "in epoch", "pid"]
    display(last[columns].sort_values(["config/hidden", "config/lr"]).set_index("config/hidden").round(3))

# %% tags=["demo"]
def plot_trials(axes, results, title):
    """Draw the accuracy of each trial over its epochs, coloured by its learning rate; return the axes."""
    colours = dict(zip(rates, plt.cm.viridis(np.linspace(0, 0.95, len(rates))), strict=True))
    for result in results:
        frame, config = result.metrics_dataframe, result.config
        style = "-" if config["hidden"] == 32 else ":"
        axes.plot(frame["epoch"], frame["accuracy"], style, color=colours[config["lr"]], marker=".")
        axes.plot(frame["epoch"].iloc[-1], frame["accuracy"].iloc[-1], "o", color=colours[config["lr"]])
    axes.set(xlabel="epoch", ylim=(0, 1), title=title)
    return axes


if grid:
    figure, axes = plt.subplots(figsize=(7, 3.4), constrained_layout=True)
    axes.set_ylabel("accuracy")
    plot_trials(axes, grid, "Fourteen trials: dark is a small learning rate, dotted is 8 units");

# %% [markdown]
r"""
Too small a learning rate is slow, and too large a rate destroys what was learned; the winner lies between them, and more units help.
If 8 units and 32 have different winners, these lie near each other.
The picture also shows what a grid wastes: many trials were hopeless after three epochs, and trained to the end.
Compare each trial's last accuracy with its best, too: they are often the same, but with a large rate a trial may end worse than it once was.
The column `pid` shows what `reuse_actors` does: fourteen trials, and only two processes.
"""

# %%
### BEGIN SOLUTION
last_or_best = "b"
### END SOLUTION

# %%
quiz("last_or_best", last_or_best)

# %% [markdown]
r"""
Every epoch has left a checkpoint, so you may choose the best *epoch*, not only the best trial.
`results[i]` and `results.get_best_result(...)` give one trial: its `config`, its last `metrics`, and all its reports as `metrics_dataframe`.
The `scope` of `get_best_result` says which of a trial's reports it compares.
If a trial died before its first report, `metrics_dataframe` is empty: a loop of your own must skip it.
The check hands over results whose accuracies it knows.
"""


# %%
def best_config(results):
    """Return (config, epoch) of the highest accuracy that any trial has reported in any epoch."""
    ### BEGIN SOLUTION
    best = results.get_best_result(scope="all")
    frame = best.metrics_dataframe
    return best.config, int(frame.loc[frame["accuracy"].idxmax(), "epoch"])
    ### END SOLUTION


# %%
check("best_config", best_config)

# %% [markdown] tags=["solution"]
r"""
`scope="all"` compares the best report of each trial.
To get the weights of that epoch, call `best.get_best_checkpoint("accuracy", "max")`.
"""

# %% tags=["demo"]
if grid and passed("best_config"):
    config, epoch = best_config(grid)
    chosen = grid.get_best_result(scope="all").get_best_checkpoint("accuracy", "max")  # of the epoch that was best
    network = Network(config["hidden"])
    with chosen.as_directory() as folder:
        network.load(folder)
    print(f"chosen: {config}, epoch {epoch}")
    print(f"on the images it was chosen by      {network.test(*data['choose'])['accuracy']:.3f}")
    print(f"on images that have chosen nothing  {network.test(*data['once'])['accuracy']:.3f}")

# %% [markdown]
r"""
The second number is the honest one.
With so few settings the difference is small, sometimes even reversed; it grows with the number of things you try.
"""

# %% [markdown]
r"""
## ASHA asks after one epoch, after three, after nine

**ASHA** (asynchronous successive halving) is a *scheduler*: it answers each report with "continue" or "stop".
It decides at **rungs**, here after 1, 3 and 9 epochs; at 27 (in quick mode at 9) training ends anyway.
ASHA compares a trial that reaches a rung with all that reached it before, and with `reduction_factor=3` only the best third continues.
At first more than a third do, since the first trial to reach a rung always continues.
"Asynchronous" means that no trial waits for the others.

![Rungs after 1, 3, 9 and 27 epochs; of those that reach a rung, about a third continues](../img/ch16_asha.svg)

Here are the same fourteen trials, with the same seeds and order.

**Predict:** what share of the epochs will ASHA save, and will it stop the winner?
"""

# %% tags=["demo"]
asha = None
if grid:
    rule = ASHAScheduler(max_t=epochs, grace_period=1, reduction_factor=3)
    start = time.perf_counter()
    asha = tuner(trial, space, cpus=1, folder=place / "asha", scheduler=rule).fit()
    print(f"{len(asha)} trials in {time.perf_counter() - start:.1f} s")

# %% tags=["demo"]
if asha:
    figure, axes = plt.subplots(figsize=(7, 3.4), constrained_layout=True)
    axes.set_ylabel("accuracy")
    plot_trials(axes, asha, "ASHA: the same fourteen trials, most of them stopped at a rung");

# %% [markdown]
r"""
Seconds say little here, with processes that start and epochs of milliseconds.
Count what would cost money: **trained epochs**.
`training_iteration` is the number of a trial's reports, and yours reports once an epoch:
"""

# %% tags=["demo"]
if passed("best_config") and asha:
    for name, results in [("grid", grid), ("ASHA", asha)]:
        trained = int(results.get_dataframe()["training_iteration"].sum())  # not len(results) * epochs: that was the plan
        reached = results.get_dataframe(filter_metric="accuracy", filter_mode="max")["accuracy"].max()
        config, epoch = best_config(results)
        print(f"{name}: {trained} epochs, best accuracy {reached:.3f} with {config} in epoch {int(epoch)}")
    print(f"ASHA saved {1 - trained / (len(grid) * epochs):.0%}")

# %% [markdown]
r"""
To find out whether ASHA could have saved more, you need no other run: the grid has recorded every curve, and ASHA's rule is short.

Write `replay_asha`.
It takes the curves of a grid, lets the trials come *one after the other* in a given order, and returns how many epochs ASHA trains and the best accuracy it sees.
This is the rule at a rung, for `reduction_factor=3`:

- ASHA compares the trial's accuracy with those of earlier trials *at this rung*, whether they stopped there or continued.
- The bar is `np.percentile(earlier, 200 / 3)`: a trial below it stops there.
- The first trial to reach a rung continues.
"""


# %%
def replay_asha(curves, order, rungs):
    """Return (epochs, best): the epochs that ASHA trains in all, and the highest accuracy that it sees.

    `curves[number]` has the accuracies of trial `number`, one for each epoch, as the grid recorded them. The trials come
    one by one in `order`, a list of their numbers. `rungs` has the epochs, counted from 1, after which ASHA compares.
    """
    ### BEGIN SOLUTION
    reached, epochs, best = {rung: [] for rung in rungs}, 0, 0.0
    for number in order:
        for epoch, accuracy in enumerate(curves[number], 1):
            epochs, best = epochs + 1, max(best, accuracy)
            if epoch in reached:
                earlier = reached[epoch]
                stops = bool(earlier) and accuracy < np.percentile(earlier, 200 / 3)
                earlier.append(accuracy)
                if stops:
                    break
    return epochs, best
    ### END SOLUTION


# %%
check("replay_asha", replay_asha)

# %% [markdown] tags=["solution"]
r"""
The rungs remember a trial they stop: its accuracy still tells what the next is up against.
The best accuracy may belong to a trial that ASHA stopped later.
"""

# %% [markdown]
r"""
Now replay your grid in four orders.
The grid begins with the smallest learning rate, each rate first with 8 units, then with 32.

**Predict:** which order trains the fewest epochs, and does any lose the winner?
"""

# %% tags=["demo"]
if passed("replay_asha") and asha:
    curves = [result.metrics_dataframe["accuracy"].tolist() for result in grid]
    worst_first = sorted(range(len(curves)), key=lambda number: max(curves[number]))
    orders = {"as the grid": range(len(curves)), "worst first": worst_first, "best first": worst_first[::-1]}
    orders["shuffled"] = np.random.default_rng(0).permutation(len(curves)).tolist()
    for name, order in orders.items():
        spent, reached = replay_asha(curves, order, rungs=[1, 3, 9])
        print(f"{name:12} {spent:4} of {len(curves) * epochs} epochs, best accuracy {reached:.3f}")

# %% [markdown]
r"""
"As the grid" may differ a little from your run, which trained two trials at a time.
A good early trial sets the bar high for all that follow.
The grid, with its slow trials first, is among the most expensive orders: up to the middle nearly every trial with 32 units beats all before it, so it runs to the end, however slow it is.
The last stretch is the longest, from 9 epochs to 27 (in quick mode from 3 to 9), so ASHA saves most when a trial does not enter it.
"""

# %%
### BEGIN SOLUTION
order_matters = "b"
### END SOLUTION

# %%
quiz("order_matters", order_matters)

# %% [markdown]
r"""
So give ASHA its trials in random order.
With `tune.loguniform(0.001, 1)` in place of a grid and `num_samples=50` in the `TuneConfig`, Tune draws every trial at random, and you need not choose seven rates.
ASHA cannot know that a trial starts slowly and wins in the end: a small learning rate looks bad after one epoch.
`grace_period` says how many epochs you grant such trials.
"""

# %% [markdown]
r"""
## A search algorithm learns from the trials that have ended

A scheduler says when a trial ends; a **search algorithm** says what the next one tries.
Random draws ignore the results; **Optuna** uses them.
Its sampler, TPE (Bergstra et al. 2011), draws a few trials at random, divides the ended ones into the good and the rest, and then tries what is frequent among the good and rare among the rest.

This time the trial trains in PyTorch, which Tune does not mind: `report` takes numbers and a folder, whatever the folder holds.
"""


# %%
import torch


def torch_objective(config, data):
    """Do what `objective` does, for three epochs, with a network in PyTorch; it always begins from scratch."""
    torch.manual_seed(0)
    (x, y), (x_choose, y_choose) = ([torch.tensor(each) for each in data[part]] for part in ("train", "choose"))
    network = torch.nn.Sequential(torch.nn.Linear(64, config["hidden"]), torch.nn.ReLU(), torch.nn.Linear(config["hidden"], 10)).double()
    optimizer = torch.optim.SGD(network.parameters(), lr=config["lr"], momentum=0.9)
    for epoch in (1, 2, 3):
        for rows in torch.randperm(len(x)).split(32):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(x[rows]), y[rows]).backward()
            optimizer.step()
        right = network(x_choose).argmax(1) == y_choose
        with tempfile.TemporaryDirectory() as folder:  # to continue from it, load both and the epoch, as in `objective`
            torch.save({"network": network.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, f"{folder}/state.pt")
            tune.report({"epoch": epoch, "accuracy": right.double().mean().item()}, checkpoint=tune.Checkpoint.from_directory(folder))


# %% [markdown]
r"""
The first four trials are random.
Two run at a time, because Optuna can learn only from ended trials.
"""

# %% tags=["demo"]
from optuna.samplers import TPESampler
from ray.tune.search.optuna import OptunaSearch

found = None
if passed("objective"):
    search = tune.TuneConfig(
        metric="accuracy",
        mode="max",
        search_alg=OptunaSearch(sampler=TPESampler(n_startup_trials=4, seed=2)),
        num_samples=budget(30, 14),
        max_concurrent_trials=2,
        reuse_actors=True,
    )
    found = tune.Tuner(
        tune.with_resources(tune.with_parameters(torch_objective, data=data), {"cpu": 1}),
        param_space={"lr": tune.loguniform(0.001, 1), "hidden": tune.randint(4, 33)},
        tune_config=search,
        run_config=tune.RunConfig(storage_path=place / "optuna", verbose=0),
    ).fit()

# %% tags=["demo"]
if found:
    tried = found.get_dataframe()
    figure, axes = plt.subplots(figsize=(7, 2.8), constrained_layout=True)
    dots = axes.scatter(range(1, len(tried) + 1), tried["config/lr"], 8 * tried["config/hidden"], tried["accuracy"])
    axes.axvline(4.5, color="#94a3b8", linestyle="--")
    axes.set(yscale="log", xlabel="trial (random up to the dashed line)", ylabel="learning rate", title="Larger dots have more units")
    figure.colorbar(dots, label="accuracy")
    first, half = tried["accuracy"][:4], tried["accuracy"][4:].to_numpy()
    earlier, later = np.array_split(half, 2)
    print(f"mean accuracy: random {first.mean():.2f}, earlier half of the others {earlier.mean():.2f}, later half {later.mean():.2f}")

# %% [markdown]
r"""
Right after the line, TPE also looks where nothing has been tried yet.
After that, its trials crowd where it is bright; the last line compares their two halves, and in a short search chance still counts.
With few trials of milliseconds, random draws do nearly as well.
If a trial takes a day, ten fewer trials save days.
A scheduler can work beside it: `scheduler=ASHAScheduler(...)` in the same `TuneConfig`.
"""

# %% [markdown] tags=["notes"]
r"""
Collect "saved" and "best accuracy" from the room.
Trials and seeds are the same everywhere, but two run at a time, and the machine decides which reaches a rung first: a good moment for the word *asynchronous*.
"""

# %% [markdown]
r"""
## Population-based training changes the rate in the middle

Grid and ASHA look for *one* learning rate, but the best is often a **schedule**: large at first, small later.
**Population-based training** (PBT) finds one while a population of trials trains side by side.
Every few epochs PBT takes a **look**, and each trial in the worst quarter, here one of four,

1. **exploits**: it takes over the weights of one of the best from its checkpoint, and
2. **explores**: it takes that one's learning rate too, and halves or doubles it.

PBT stops no trial, but throws away a bad trial's weights, and with them its epochs.

By default no trial waits at a look: it compares itself with whatever the others have reported by then.
That suits large clusters and long epochs; with epochs of milliseconds, one trial may be far ahead before another one's process has started.
With `synch=True` no trial continues before all have reached the look.
Side by side, they may then stall in Ray 2.60, so here they take turns: each asks for both CPUs, trains up to the next look, leaves a checkpoint and makes room for the next.

The population starts with four rates, none of them good.
`diary` is a callback: it writes each report into a list as it arrives.
"""

# %% tags=["demo"]
rows = []
if passed("objective") and passed("tuner"):
    random.seed(2)  # PBT draws from here
    breed = PopulationBasedTraining(
        synch=True,  # no trial continues before all have come to the look
        time_attr="training_iteration",
        perturbation_interval=budget(4, 2),  # epochs between two looks
        hyperparam_mutations={"lr": tune.loguniform(0.001, 1)},  # the name of what may change
        perturbation_factors=(2, 0.5),
        resample_probability=0,  # never drawn from there, only halved or doubled
    )
    four = {"lr": [0.0003, 0.001, 0.5, 1.0], "hidden": 32, "epochs": budget(30, 7)}
    tuner(trial, four, 2, place / "pbt", scheduler=breed, callbacks=[diary(rows)]).fit()

# %% tags=["demo"]
if rows:
    seen = pandas.DataFrame(rows)
    figure, (above, below) = plt.subplots(2, figsize=(7, 4.6), sharex=True, constrained_layout=True)
    for number, reports in seen.groupby("trial"):
        above.plot(reports["epoch"], reports["lr"], ".-", drawstyle="steps-pre", label=f"trial {number}")
        below.plot(reports["epoch"], reports["accuracy"], ".-")
    above.set(yscale="log", ylabel="learning rate", title="Four trials that copy from each other")
    figure.legend(loc="outside lower center", ncols=4, fontsize=8)
    below.set(xlabel="epoch", ylabel="accuracy", ylim=(0, 1))
    below.xaxis.get_major_locator().set_params(integer=True);

# %% [markdown]
r"""
Where a line jumps in the upper picture, a trial gave up its own way; it got the weights as well, so the lower picture jumps with it.
Now trace the weights that ended best: in which trials were they, and with which rates were they trained?
That is a schedule, and you wrote it into no grid.
"""

# %% tags=["demo"]
if rows:
    ended = seen.groupby("trial")["accuracy"].last()
    winner = int(ended.idxmax())
    display(pandas.DataFrame(ancestry(rows, place / "pbt", winner)).set_index("from epoch"))
    print(f"{len(seen)} epochs trained by all four; trial {winner} ended with {ended[winner]:.3f}")

# %% [markdown]
r"""
As a rule, the rate is large at first, then smaller.
Chance decides whether a copy halves the rate or doubles it; a trial that draws badly falls behind, and copies in turn.
`ancestry` reads the files `pbt_policy_….txt` of the experiment's folder, and `PopulationBasedTrainingReplay` runs such a schedule again.

On a problem this small, a single good rate does as well.
PBT pays when training is long and the best rate moves; reinforcement learning is one of the fields it was made for.
"""

# %%
### BEGIN SOLUTION
what_is_cloned = "c"
### END SOLUTION

# %%
quiz("what_is_cloned", what_is_cloned)

# %% [markdown]
r"""
## A killed experiment continues where its last snapshot was

Searches run for hours, and something always happens: the laptop is closed, the cloud takes the machine back, memory runs out.
Tune saves its own state, the **snapshot**: its trials, how far each is, which checkpoints it has.
`Tuner.restore` reads it.

To kill an experiment without killing your notebook, the next cell starts it in a *program of its own* (`Elsewhere`), which joins this Ray and calls `fit()`.
Each image is taken a hundred times, so that an epoch takes long enough to be caught in the middle.
As soon as the snapshot knows two epochs of each of the four trials, the program gets `SIGKILL`: nothing in it can react to that.
Its snapshots come every 0.2 s here; by default Tune takes one about every ten seconds.

**Predict:** when the program is dead, do its trials continue training?
They are processes of their own.
"""

# %% tags=["demo"]
before = None
if passed("objective") and passed("tuner"):
    images, answers = data["train"]
    many = {**data, "train": (np.tile(images, (100, 1)), np.tile(answers, 100))}
    four, folder = {"lr": [0.01, 0.03, 0.1, 0.3], "hidden": 32, "epochs": 12}, place / "killed"
    program = Elsewhere(lambda: tuner(tune.with_parameters(objective, data=many), four, 1, folder), folder)
    program.run_until(trials=4, epochs=2)
    program.kill()
    killed_at = time.time()
    time.sleep(1)
    before, known = program.saved(), program.known()
    print("epochs with a checkpoint:      ", *before.values())
    print("epochs that the snapshot knows:", *[known.get(name) for name in before])

# %% [markdown]
r"""
The trials belonged to the program: Ray ends the actors of a driver that dies (chapter 5).
What is left is a folder.
To restore, you need that folder and the function, since Tune does not keep your code.
If all numbers above are 12, the program was done before it could be killed: take each image more often.
"""

# %% tags=["demo"]
if before:
    [experiment] = [path for path in folder.iterdir() if path.is_dir()]
    slow = tune.with_resources(tune.with_parameters(objective, data=many), {"cpu": 1})
    restored = tune.Tuner.restore(str(experiment), trainable=slow).fit()
    display(restored_table(restored, before, known, killed_at))

# %% [markdown]
r"""
Trials that had ended stayed ended; the others continued from a checkpoint, in new processes, and every trial has its twelve epochs, each with the weights of the one before.
If a row says that some epochs were trained twice, their checkpoints were on disk but newer than the last snapshot, so Tune did not know of them.
With snapshots every 0.2 s there are often none, but another run of both cells may have some.
With the default of ten seconds and such short epochs, Tune might not even know that the trials had begun.

If a *single trial* dies and the program lives, the others continue, and it stays dead, unless you say `tune.RunConfig(failure_config=tune.FailureConfig(max_failures=3))`: then Tune starts it again from its last checkpoint, up to three times.
"""

# %%
### BEGIN SOLUTION
what_was_lost = "b"
### END SOLUTION

# %%
quiz("what_was_lost", what_was_lost)

# %% [markdown]
r"""
## A trial that asks for more than there is stays PENDING

Tune asks Ray for a place for each trial (a placement group, chapter 4), and the trial is PENDING until there is one.
Later it is RUNNING, perhaps PAUSED, and in the end TERMINATED or ERROR.
Tune does not ask whether there will ever be a place.

**Predict:** a trial asks for three CPUs, and there are two: an error, a warning, or nothing?
`after(seconds, ...)` starts an experiment, looks at it after that time, and ends it.
"""

# %% tags=["demo"]
if passed("objective") and passed("tuner"):
    two = {"lr": [0.1, 0.3]}
    waits = after(2, lambda callbacks: tuner(trial, two, 3, place / "waits", callbacks=callbacks))
    display(pandas.DataFrame(waits)[["config", "asks for", "status"]])

# %% [markdown]
r"""
Nothing, and with `verbose=0` not even a table that says so.
After a minute Tune does log a warning, "You asked for 3.0 CPUs … per trial, but the cluster only has 2.0 CPUs", when you may have left for coffee.

An algorithm of RLlib brings its own request: one CPU for itself, where the learner is, and one for each EnvRunner *beside* it.
`small_ppo()` is PPO for CartPole, with RLlib's defaults for everything that concerns processes.
The name `"PPO"` is the trainable, and the config is the space:
"""

# %% tags=["demo"]
def straight(callbacks):
    """Return a Tuner for PPO as most people write it first."""
    config = small_ppo().training(lr=tune.grid_search([0.001, 0.01]))
    quiet = tune.RunConfig(storage_path=place / "ppo", callbacks=callbacks, verbose=0)
    return tune.Tuner("PPO", param_space=config, run_config=quiet)


pandas.DataFrame(after(2, straight))[["config", "asks for", "status"]]

# %% [markdown]
r"""
Two runners is PPO's default, so each trial asks for three CPUs, and both stay PENDING.
There are three ways out:

| | a trial asks for | what it means |
|---|---|---|
| `num_env_runners=0` | 1 | the trial's own process plays, and none starts beside it |
| `num_cpus_per_env_runner=0.25`, `.resources(num_cpus_for_main_process=0.5)`, `.learners(num_cpus_per_learner=0.5)` | 1 | 0.5 + 0.25 + 0.25: three processes share a CPU, and take turns |
| `ray.init(num_cpus=6)` | 3 | you tell Ray of six CPUs on two cores: two trials at a time, which take turns |

While many trials run, the first is usually best: trials side by side already use the cores.
Runners pay when *one* training run should be fast (chapter 12).

Write `tune_ppo` so that **two trials run side by side** on two CPUs.
The best trial has the highest mean return, `"env_runners/episode_return_mean"`: Tune joins the names of nested results with a slash.
`stop={"training_iteration": ...}` in the `RunConfig` ends a trial; nothing else would.
The check looks at the trials before they start, then lets one train.
"""


# %%
def tune_ppo(config, rates, iterations, folder, callbacks=None):
    """Return a Tuner that tries PPO with each of these learning rates, for this number of iterations.

    `config` is a PPOConfig. Two trials fit on two logical CPUs side by side. Best is the highest mean return. Results
    go into `folder`; callbacks are handed on.
    """
    ### BEGIN SOLUTION
    return tune.Tuner(
        "PPO",
        param_space=config.env_runners(num_env_runners=0).training(lr=tune.grid_search(rates)),
        tune_config=tune.TuneConfig(metric="env_runners/episode_return_mean", mode="max"),
        run_config=tune.RunConfig(
            storage_path=folder, callbacks=callbacks, verbose=0, stop={"training_iteration": iterations}
        ),
    )
    ### END SOLUTION


# %%
check("tune_ppo", tune_ppo)

# %% [markdown] tags=["solution"]
r"""
Without `grid_search`, RLlib takes `lr=[0.001, 0.01]` for one run's *schedule*, and since a schedule is a list of pairs, it raises a `TypeError`.
There is no `reuse_actors` here: an RLlib algorithm cannot take over another's process, and Tune would end with an error.
"""

# %% [markdown]
r"""
Now tune PPO in **an environment of your own**.
Every trial makes it in processes of its own, so you hand over a function that makes one: `register_env` gives it a name.
RLlib calls it with the config's `env_config`, a dictionary that is part of the space: `env_config={"wind": tune.grid_search([0, 0.05])}` would try two winds.
"""


# %%
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.wrappers import TimeLimit


class Windy(CartPoleEnv):
    """CartPole in gusts: before each step, a push of up to `config["wind"]` changes how fast the pole falls."""

    def __init__(self, config):
        super().__init__()
        self.wind = config["wind"]

    def step(self, action):
        """Let the wind blow, then do what CartPole does."""
        x, speed, lean, falling = self.state
        self.state = x, speed, lean, falling + self.np_random.uniform(-self.wind, self.wind)
        return super().step(action)


tune.register_env("windy", lambda config: TimeLimit(Windy(config), 500))

# %% [markdown]
r"""
Let RLlib's default rate, 0.00005, compete with a hundred times as much.
The full mode also tries 0.0005, and has more iterations.
"""

# %% tags=["demo"]
if passed("tune_ppo"):
    values = budget([0.00005, 0.0005, 0.005], [0.00005, 0.005])
    at_once = []
    windy = small_ppo().environment("windy", env_config={"wind": 0.05})
    learned = tune_ppo(windy, values, budget(40, 4), place / "ppo", [running(at_once)]).fit()
    figure, axes = plt.subplots(figsize=(7, 3), constrained_layout=True)
    for result in learned:
        frame, rate = result.metrics_dataframe, result.config["lr"]
        steps, returns = frame["num_env_steps_sampled_lifetime"], frame["env_runners/episode_return_mean"]
        axes.plot(steps, returns, ".-", label=f"{rate:g}")
    axes.set(xlabel="steps", ylabel="mean return", title="PPO in the wind, one trial a learning rate")
    axes.legend()
    print("best:", learned.get_best_result().config["lr"])
    print("most trials that were RUNNING at the same time:", max(at_once))

# %% [markdown]
r"""
You have just measured what chapter 11 said about the default rate.
The last line usually says 2: two trials ran side by side.
It says 1 if one ended before the other's process was there.

For `tune.run`, `session.report` and `resources_per_trial` in older tutorials, see [Old names](../docs/old_names.md).
"""

# %%
### BEGIN SOLUTION
ppo_pending = "b"
### END SOLUTION

# %%
quiz("ppo_pending", ppo_pending)

# %% [markdown]
r"""
## A second node takes trials without being told

Tune places trials as Ray places everything: where there is room.
The next cell adds a node with two CPUs, and each trial asks for two.
`where` stands for a training run: it waits until the other trial runs too, and reports its node.
"""


# %% tags=["demo"]
from coursekit import meets, new_point


def where(config):
    """Report the node of this trial, and whether it has met the other trial."""
    met = meets(config["point"], config["trial"], 1 - config["trial"])
    tune.report({"accuracy": 0, "met": met, "node": ray.get_runtime_context().get_node_id()[:8]})


if passed("tuner"):
    add_nodes(cluster, second={"num_cpus": 2})
    spread = tuner(where, {"trial": [0, 1], "point": new_point()}, cpus=2, folder=place / "nodes").fit()
    display(spread.get_dataframe()[["config/trial", "node", "met"]])

# %% [markdown]
r"""
Two nodes, and no line of the search has changed.
A trial that asks for three CPUs would still stay PENDING: four CPUs on two nodes are no place for it (chapter 4).
On real machines every node must reach `storage_path`, such as `s3://bucket/folder`: a trial may continue on a different node from the one that wrote its checkpoint.
"""

# %%
stop()

# %% [markdown]
r"""
## What you can do now

- You write training that reports, keeps checkpoints, and continues from any of them.
- You search a grid, and read from a DataFrame which trial, and which epoch, was best.
- You let ASHA stop trials, count the epochs it saved, and know why the order matters.
- You let Optuna propose trials, and know what it learns from.
- You read a schedule from a population.
- You restore a killed experiment, and know what was trained twice.
- You compute what a trial asks for, get PPO out of PENDING, hand it your own environment, and let a grid use every node.

## Traps

- **The last report is not the best**: `get_best_result()` and `get_dataframe()` take the last, unless you say otherwise.
- **The best of many is lucky**: look at images, or seeds, that have chosen nothing.
- **A list without `grid_search`** is one value.
- **No checkpoint in a report**: PBT has nothing to copy, a restored trial starts from scratch, and no message says so.
- **PBT with `synch=True` may stall** in Ray 2.60 if trials run side by side: now and then all stay PAUSED.
  Here only one runs at a time, so it cannot happen.
- **`metrics_dataframe` after a restore may lack rows.** Tune copies its files to `storage_path` now and then.
  When a trial continues from a checkpoint, also in PBT, it takes the copy, and reports since then are gone from the file (not from the trial).
  A callback such as `diary` hears them all.
- **`verbose=0` also hides PENDING.** While you try something new, leave `verbose` alone.
- **PPO asks for 1 + `num_env_runners` CPUs**, and its default is two runners.
- **`training_iteration` counts reports**, whatever you mean by one.
- **Thousands of checkpoints**: `tune.RunConfig(checkpoint_config=tune.CheckpointConfig(num_to_keep=3))` keeps the newest three.
  For PBT keep more: a trial may still want to copy an older one.
- **`~/ray_results`** fills up if you do not set `storage_path`.

## Read on

- [Chapter 17](ch17_data_train.ipynb): training on several workers.
  To tune it, start its `TorchTrainer` inside a trial's function: Ray's guide [*Ray Train and Ray Tune*](https://docs.ray.io/en/latest/train/user-guides/hyperparameter-optimization.html).
- Tune's documentation: [key concepts](https://docs.ray.io/en/latest/tune/key-concepts.html), [resources](https://docs.ray.io/en/latest/tune/tutorials/tune-resources.html), [fault tolerance](https://docs.ray.io/en/latest/tune/tutorials/tune-fault-tolerance.html).
- Li et al., [*A System for Massively Parallel Hyperparameter Tuning*](https://arxiv.org/abs/1810.05934), 2018: ASHA.
- Akiba et al., [*Optuna: A Next-generation Hyperparameter Optimization Framework*](https://arxiv.org/abs/1907.10902), 2019; Ray's guide to [search algorithms](https://docs.ray.io/en/latest/tune/api/suggestion.html).
- Jaderberg et al., [*Population Based Training of Neural Networks*](https://arxiv.org/abs/1711.09846), 2017.
- Bergstra and Bengio, [*Random Search for Hyper-Parameter Optimization*](https://jmlr.org/papers/v13/bergstra12a.html), 2012: why a grid is rarely the best way to spend trials.
"""
