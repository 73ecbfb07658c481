# %% [markdown] you_learn_to="search hyperparameters with ASHA and PBT, and restore a killed search"
r"""
# Chapter 16 · Hyperparameter search with Ray Tune

Tune tries many settings and gives up early on those that won't win.

*About 120 minutes · builds on [Chapter 4](ch04_scheduling.ipynb) and [Chapter 11](ch11_rllib_ppo.ipynb)*

**What you will be able to do**

- turn a training run into a *trial*, which can stop after any epoch and continue later;
- run a grid search, and read its results as a DataFrame;
- let ASHA stop bad trials early, and count the epochs it saves;
- tune PyTorch training with Optuna, which learns from earlier trials;
- find a learning-rate schedule with population-based training;
- kill an experiment, restore it, and say which epochs it trained twice;
- work out which resources a trial requests, and tune RLlib's PPO in an environment of your own.
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

from coursekit import begin, budget, check, explain, hint, measured, passed, predict, progress, puzzle, quiz, review
from coursekit import solution
from coursekit.given.ch16_tune import Elsewhere, Network, after, ancestry, bar_of, diary, digits, restored_table
from coursekit.given.ch16_tune import running, small_ppo
from coursekit.given.nodes import add_nodes, small_cluster, stop

begin("ch16_tune")

# %%
cluster = small_cluster(num_cpus=2)  # ends the cluster of an earlier run: its references and actors are gone
ray.init(address=cluster.address, log_to_driver=False)
keep = tempfile.TemporaryDirectory()  # for results and checkpoints; deleted when you close the notebook
place = Path(keep.name).resolve()

# %% [markdown]
r"""
Ray runs as a cluster of one node with two logical CPUs, whatever your machine has; a second node joins at the end.
`log_to_driver=False` keeps the messages of Tune's processes out of your notebook.
A cell that starts an experiment takes several seconds, or a minute or two on a busy machine.
"""

# %% [markdown] tags=["notes"]
r"""
The run sheet allots two hours, with `tune_ppo` as homework.
Run the two cells above before you start talking.
Begin by asking the room which learning rate they would use for the digits, and write the answers on a board: the grid search will show who was right.
"""

# %% [markdown]
r"""
## A trial is a function that reports after every epoch

Which learning rate should you use, and how many hidden units?
Settings like these are [hyperparameters](../docs/glossary.md#hyperparameter): training doesn't learn them, so you have to try out values.
Tune does that for you by running your training many times with different settings.
Each run is a [trial](../docs/glossary.md#trial): a Ray actor executes it, and the trial *reports* its progress.

![Tune gives each trial a config; the trial reports an accuracy and a checkpoint after every epoch; a scheduler decides whether it continues or stops](../img/ch16_tune.svg)

The training is small on purpose: the images are scikit-learn's digits, 8 × 8 pixels each, and `Network` (in `coursekit/given/ch16_tune.py`) has one hidden layer.
An epoch, one pass over the training images, takes milliseconds, but everything below works the same with epochs that take hours.
Here are three epochs with 32 hidden units and a learning rate of 0.03:
"""

# %% tags=["demo"]
data = digits()
network = Network(hidden=32)
for _ in range(3):
    network.train(*data["train"], lr=0.03)
    print(f"epoch {network.epochs}:", network.test(*data["choose"]))

# %% [markdown]
r"""
The images come in three parts: a thousand in `"train"`; four hundred in `"choose"`, the [validation set](../docs/glossary.md#validation-set), which you use to choose settings; and the other 397 in `"once"`, the [test set](../docs/glossary.md#test-set), which you use once, at the very end.
If you try fifty settings and report the best result, part of that result is luck.
Only images that played no part in the choice can tell you how good the winner is.

To become a trial, the loop above must be a function of a `config`, and two calls connect it to Tune:

```python
tune.report({"accuracy": 0.5}, checkpoint=tune.Checkpoint.from_directory(folder))   # after every epoch
start = tune.get_checkpoint()   # None, or the checkpoint from which this trial should continue
```

`report` copies the folder, passes the numbers to Tune, and *waits until Tune decides*: the trial may end right there.
Everything below relies on a trial that can continue from any of its checkpoints.

Write `objective`, which runs one trial.
`network.save(folder)` writes the weights, the momentum, and the epoch into a folder, and `network.load(folder)` reads them back.
To open a checkpoint as a folder, write `with start.as_directory() as folder:`.
The check runs your function in Tune's own trial code, stops it after a few epochs, and restarts it from its checkpoint with a different learning rate.
"""


# %%
def objective(config, data):
    """Train a Network(config["hidden"]) on data["train"] at the rate config["lr"], up to epoch config["epochs"].

    After every epoch, report {"epoch": its number, "accuracy": ..., "loss": ...} with a checkpoint; the last two are what
    network.test(*data["choose"]) returns. If Tune has a checkpoint of this trial, continue from it.
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
`while network.epochs < config["epochs"]` works for a new trial and for one that continues.
You can delete the temporary folder as soon as `report` has returned, because Tune has copied it by then.
If an epoch takes an hour, save a checkpoint after each one.
If epochs take milliseconds and copying is slow, a checkpoint after every tenth epoch is enough.
"""

# %% [markdown]
r"""
## A grid search trains even hopeless settings to the end

A [grid search](../docs/glossary.md#grid-search) tries every combination of the values that you list.
A `Tuner` needs four things: *what* to run, over which [search space](../docs/glossary.md#search-space), *how* to search, and *where* to put the results.

| what | where it goes |
|---|---|
| the function, and the resources for one trial | `tune.with_resources(trainable, {"cpu": 1})` |
| the search space: for each name, a value or `tune.grid_search([...])` | `param_space={...}` |
| what *best* means, and the scheduler that may stop trials early | `tune_config=tune.TuneConfig(metric="accuracy", mode="max", scheduler=...)` |
| where the results go, the *callbacks* (objects that receive every report), and how much to print | `run_config=tune.RunConfig(storage_path=..., callbacks=..., verbose=0)` |

Write `tuner`, which you'll use in most of this chapter.
It takes a function, a space with a list wherever there are several values to try, the CPUs per trial, and a folder, and it returns a `Tuner`.
Set `reuse_actors=True` in the `TuneConfig`, so that a trial takes over the process of one that has ended: a new process takes seconds to start, while our training takes milliseconds.
"""


# %%
def tuner(trainable, space, cpus, folder, scheduler=None, callbacks=None):
    """Return a Tuner, without starting it, that tries every combination of the lists in `space` once.

    A value that isn't a list is the same in all trials. Each trial requests `cpus` logical CPUs. The best trial has the
    highest "accuracy". Results go into `folder`. Pass on the scheduler and the callbacks, reuse processes
    (`reuse_actors`), and print nothing (`verbose=0`).
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
Without `grid_search`, a list such as `"lr": [0.1, 0.01]` is a value like any other, so you'd get one trial whose learning rate is a list.
`storage_path` must be an absolute path or an address such as `s3://bucket/folder`.
If you leave it out, the results go to `~/ray_results` and stay there.
"""

# %% [markdown]
r"""
Now run a grid search over seven learning rates and two sizes, which makes fourteen trials.
`tune.with_parameters(objective, data=data)` puts the images into Ray's object store once (Chapter 2) and passes them to every trial.

**Predict:** which of the seven learning rates reaches the highest accuracy: 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, or 1?
"""

# %% tags=["demo"]
predict("best_rate", ...)  # learning rate

# %% tags=["demo"]
rates, epochs, grid = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0], budget(27, 9), None
if passed("objective") and passed("tuner"):
    trial = tune.with_parameters(objective, data=data)
    space = {"lr": rates, "hidden": [8, 32], "epochs": epochs}
    start = time.perf_counter()
    grid = tuner(trial, space, cpus=1, folder=place / "grid").fit()
    print(f"{len(grid)} trials in {time.perf_counter() - start:.1f} s")

# %% tags=["demo"]
if grid:
    last = grid.get_dataframe()  # the last report of each trial
    best = grid.get_dataframe(filter_metric="accuracy", filter_mode="max")  # the best report of each trial
    last["best accuracy"], last["in epoch"] = best["accuracy"], best["epoch"]
    columns = ["config/hidden", "config/lr", "training_iteration", "accuracy", "best accuracy", "in epoch", "pid"]
    display(last[columns].sort_values(["config/hidden", "config/lr"]).set_index("config/hidden").round(3))
    display(measured("best_rate", best.loc[best["accuracy"].idxmax(), "config/lr"]))

# %% tags=["demo"]
def plot_trials(axes, results, title):
    """Plot the accuracy of each trial over its epochs, colored by its learning rate; return the axes."""
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
    plot_trials(axes, grid, "Grid search: darker is a smaller learning rate, dotted is 8 units");

# %% [markdown]
r"""
Training with too small a rate is slow, and too large a rate destroys what the network has learned, so the best rate lies in between.
The plot also shows what a grid search wastes: many trials were hopeless after three epochs, and they still trained to the end.
Compare each trial's last accuracy with its best one, too: at a large rate, a trial may end with a lower accuracy than it once had.
The `pid` column shows `reuse_actors` at work: fourteen trials ran in at most two processes.
"""

# %%
### BEGIN SOLUTION
last_or_best = "b"
### END SOLUTION

# %%
quiz("last_or_best", last_or_best)

# %% [markdown]
r"""
Every epoch left a checkpoint, so you can choose the best *epoch*, not only the best trial.
`results[i]` and `results.get_best_result(...)` return the result of one trial: its `config`, its last `metrics`, and a `metrics_dataframe` with all its reports.
The `scope` of `get_best_result` says which of a trial's reports it compares.
Write `best_config`, which takes such results and returns the config and the epoch of the highest accuracy.
If a trial died before its first report, its `metrics_dataframe` is empty, and a loop has to skip it; if the experiment was restored, rows may be missing.
"""


# %%
def best_config(results):
    """Return (config, epoch) of the highest accuracy that any trial reported in any epoch."""
    ### BEGIN SOLUTION
    best = results.get_best_result(scope="all")
    frame = best.metrics_dataframe
    return best.config, int(frame.loc[frame["accuracy"].idxmax(), "epoch"])
    ### END SOLUTION


# %%
check("best_config", best_config)

# %% [markdown] tags=["solution"]
r"""
With `scope="all"`, Tune compares the best report of each trial.
To get the weights of that epoch, call `best.get_best_checkpoint("accuracy", "max")`.
"""

# %% tags=["demo"]
if grid and passed("best_config"):
    config, epoch = best_config(grid)
    chosen = grid.get_best_result(scope="all").get_best_checkpoint("accuracy", "max")  # of the best epoch
    network = Network(config["hidden"])
    with chosen.as_directory() as folder:
        network.load(folder)
    print(f"chosen: {config}, epoch {epoch}")
    print(f"accuracy on the validation set: {network.test(*data['choose'])['accuracy']:.3f}")
    print(f"accuracy on the test set:       {network.test(*data['once'])['accuracy']:.3f}")

# %% [markdown]
r"""
The accuracy on the test set is the honest one.
With so few settings, the two accuracies are close, and either may be higher; the gap usually grows with the number of settings you try.
"""

# %% [markdown]
r"""
## ASHA stops bad trials after one, three, or nine epochs

[ASHA](../docs/glossary.md#asha) (asynchronous successive halving) is a [trial scheduler](../docs/glossary.md#trial-scheduler): after each report, it decides whether the trial continues or stops.
It compares trials at [rungs](../docs/glossary.md#rung), here after 1, 3, and 9 epochs.
After 27 epochs (9 in quick mode), training ends anyway.

When a trial reaches a rung, ASHA compares it with all trials that reached the rung before it.
With `reduction_factor=3`, the trial continues only if it belongs to the best third.
The first trial to reach a rung always continues, so at first, more than a third of them do.
*Asynchronous* means that no trial waits for the others.

![Rungs after 1, 3, 9, and 27 epochs; about a third of the trials that reach a rung continue](../img/ch16_asha.svg)

Ray's ASHA *stops* trials for good.
In the paper (Li et al. 2018), trials pause at a rung, and free workers *promote* those in the best third, so a trial that was passed over may still continue later.

**Predict:** you run the same fourteen trials in the same order, now with ASHA.
What percentage of the grid search's epochs does it save?
"""

# %% tags=["demo"]
predict("asha_saves", ...)  # percent

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
The seconds tell you little, because starting the processes takes most of the time.
Count what would cost money, **trained epochs**: `training_iteration` is the number of a trial's reports, and your trials report once per epoch.
"""

# %% tags=["demo"]
if passed("best_config") and asha:
    for name, results in [("grid", grid), ("ASHA", asha)]:
        trained = int(results.get_dataframe()["training_iteration"].sum())  # not len(results) * epochs, because ASHA stops trials
        reached = results.get_dataframe(filter_metric="accuracy", filter_mode="max")["accuracy"].max()
        config, epoch = best_config(results)
        print(f"{name}: {trained} epochs, best accuracy {reached:.3f} with {config} in epoch {int(epoch)}")
    display(measured("asha_saves", 100 * (1 - trained / (len(grid) * epochs))))

# %% [markdown]
r"""
If both lines show the same accuracy, ASHA saved these epochs without losing the winner.
To find out whether it could have saved more, you don't need another run, because the grid search has recorded every curve.

Write `replay_asha`, which takes these curves, lets the trials come *one after the other* in a given order, and returns how many epochs ASHA trains and the best accuracy it sees.
This is the rule at a rung, for `reduction_factor=3`:

- ASHA compares the trial's accuracy with those of earlier trials *at this rung*, whether they stopped there or continued.
- The bar is `np.percentile(earlier, 200 / 3)`: a trial below it stops there, and a trial exactly at the bar continues.
- The first trial to reach a rung continues.
"""


# %%
def replay_asha(curves, order, rungs):
    """Return (epochs, best): how many epochs ASHA trains in all trials together, and the highest accuracy it sees.

    `curves[number]` has the accuracies of trial `number`, one per epoch, as the grid search recorded them. The trials
    come one after the other in `order`, a list of their numbers. `rungs` has the epochs, counted from 1, after which ASHA
    compares.
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
A rung also remembers the trials that stop there, because the next trial is compared with them, too.
The best accuracy may come from a trial that ASHA stopped later, and from an epoch that wasn't the trial's last.
"""

# %% [markdown]
r"""
Now replay your grid search in four orders.
The grid starts with the smallest learning rate, and tries each rate first with 8 units and then with 32.

**Predict:** which order trains the fewest epochs: the grid's, worst first, best first, or shuffled?
"""

# %% tags=["demo"]
predict("cheapest_order", ..., ["as the grid", "worst first", "best first", "shuffled"])

# %% tags=["demo"]
if passed("replay_asha") and asha:
    curves = [result.metrics_dataframe["accuracy"].tolist() for result in grid]
    worst_first = sorted(range(len(curves)), key=lambda number: max(curves[number]))
    orders = {"as the grid": range(len(curves)), "worst first": worst_first, "best first": worst_first[::-1]}
    orders["shuffled"] = np.random.default_rng(0).permutation(len(curves)).tolist()
    spent = {}
    for name, order in orders.items():
        spent[name], reached = replay_asha(curves, order, rungs=[1, 3, 9])
        print(f"{name:12} {spent[name]:4} of {len(curves) * epochs} epochs, best accuracy {reached:.3f}")
    display(measured("cheapest_order", min(spent, key=spent.get)))

# %% [markdown]
r"""
Best first is the cheapest order, because a good early trial sets the bar high for all that follow.
The grid's order starts with the slow trials, and it's among the most expensive: in its first half, nearly every trial with 32 units beats all trials before it, so it trains to the end, however slow it is.
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
With `tune.loguniform(0.001, 1)` in place of a grid, and `num_samples=50` in the `TuneConfig`, Tune samples every trial's rate at random.
ASHA can't know that a trial starts slowly and wins in the end, as trials with a small learning rate may; `grace_period` sets how many epochs each trial gets before ASHA may stop it.
"""

# %% [markdown]
r"""
## Optuna chooses each trial's settings from earlier results

A scheduler decides when a trial ends, and a [search algorithm](../docs/glossary.md#search-algorithm) decides what the next trial tries.
Random search ignores the results, but **Optuna** uses them.
After a few random trials, its sampler, TPE (Bergstra et al. 2011), divides the finished trials into good ones and the rest, and then tries settings that are common among the good ones and rare among the rest.

Here, the trial trains in PyTorch; to keep it short, it saves no checkpoints.
In your own trials, save the network's and the optimizer's `state_dict()` with `torch.save`, along with the epoch.
"""


# %%
import torch


def torch_objective(config, data):
    """Train a PyTorch network for three epochs, and report its accuracy after each."""
    torch.manual_seed(0)
    (x, y), (x_choose, y_choose) = ([torch.tensor(each) for each in data[part]] for part in ("train", "choose"))
    network = torch.nn.Sequential(torch.nn.Linear(64, config["hidden"]), torch.nn.ReLU(), torch.nn.Linear(config["hidden"], 10)).double()
    optimizer = torch.optim.SGD(network.parameters(), lr=config["lr"], momentum=0.9)
    for _ in range(3):
        for rows in torch.randperm(len(x)).split(32):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(x[rows]), y[rows]).backward()
            optimizer.step()
        right = network(x_choose).argmax(1) == y_choose
        tune.report({"accuracy": right.double().mean().item()})


# %% [markdown]
r"""
First, here's a whole grid search over this function, without our `tuner`:
"""

# %% tags=["demo"]
if passed("objective") and passed("tuner"):
    torch_trial = tune.with_parameters(torch_objective, data=data)
    torch_grid = tune.Tuner(
        torch_trial,
        param_space={"lr": tune.grid_search([0.01, 0.1]), "hidden": tune.grid_search([8, 32])},
        tune_config=tune.TuneConfig(metric="accuracy", mode="max", reuse_actors=True),
        run_config=tune.RunConfig(storage_path=place / "torch", verbose=0),
    ).fit()
    print("best:", torch_grid.get_best_result().config)
    display(torch_grid.get_dataframe()[["config/lr", "config/hidden", "accuracy"]])

# %% [markdown]
r"""
To search with Optuna, you change the search space and the `TuneConfig`; the training stays the same.
Only two trials run at a time, because Optuna can learn only from trials that have ended.
Until four have ended, its choices are random, so the first four trials are random, and usually the fifth, too.
"""

# %% tags=["demo"]
from optuna.samplers import TPESampler
from ray.tune.search.optuna import OptunaSearch

found = None
if passed("objective") and passed("tuner"):
    search = tune.TuneConfig(
        metric="accuracy",
        mode="max",
        search_alg=OptunaSearch(sampler=TPESampler(n_startup_trials=4, seed=2)),
        num_samples=budget(30, 14),
        max_concurrent_trials=2,
        reuse_actors=True,
    )
    found = tune.Tuner(
        torch_trial,
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
    first, others = tried["accuracy"][:4], tried["accuracy"][4:].to_numpy()
    earlier, later = np.array_split(others, 2)
    print(f"mean accuracy: random {first.mean():.2f}, first half of the others {earlier.mean():.2f}, second half {later.mean():.2f}")

# %% [markdown]
r"""
Soon after the dashed line, TPE has few results to learn from, so it still tries values from all over the range.
Later, most of its trials are where the dots are bright, although in a short search, luck still matters.
With trials this short, random search does nearly as well; if a trial takes a day, ten fewer trials save days.
You can add a scheduler, too: put `scheduler=ASHAScheduler(...)` into the same `TuneConfig`.
"""

# %% [markdown] tags=["notes"]
r"""
Collect how much ASHA saved, and the best accuracies, from the room.
The trials and seeds are the same everywhere, but two trials run at a time, and which one reaches a rung first depends on the machine, so this is a good moment to explain the word *asynchronous*.
"""

# %% [markdown]
r"""
## Population-based training changes the learning rate mid-training

A grid search looks for *one* learning rate, but the best choice is often a **schedule**: large at first, small later.
[Population-based training](../docs/glossary.md#population-based-training) (PBT) finds a schedule while a population of trials is training.
Every few epochs, at a **perturbation**, each trial in the worst quarter (here, one of four) does two things:

1. It **exploits**: it loads the checkpoint of one of the best trials.
2. It **explores**: it takes that trial's learning rate, too, and halves or doubles it.

PBT doesn't stop any trials, but the epochs spent on discarded weights are lost.

By default, no trial waits at a perturbation, so if an epoch takes milliseconds, one trial may be far ahead before the process of another has started.
With `synch=True`, no trial continues until all have reached the perturbation.
In Ray 2.60, trials that run side by side may then stall and all stay PAUSED, so here they run one after the other: each requests both CPUs, trains up to the next perturbation, and makes room for the next trial.

The population starts with four rates, none of them good.
`diary` is a callback that appends each report to a list as it arrives.
"""

# %% tags=["demo"]
rows = []
if passed("objective") and passed("tuner"):
    random.seed(2)  # PBT uses this generator
    breed = PopulationBasedTraining(
        synch=True,  # no trial continues until all have reached the perturbation
        time_attr="training_iteration",
        perturbation_interval=budget(4, 2),  # epochs between two perturbations
        hyperparam_mutations={"lr": tune.loguniform(0.001, 1)},  # what may change
        perturbation_factors=(2, 0.5),
        resample_probability=0,  # never sampled from the range above, only halved or doubled
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
Where a line jumps in the upper plot, a trial gave up its rate and copied another trial.
It copied the weights as well, so its line jumps in the lower plot, too.
Now trace the best weights back: in which trials were they, and at which rates were they trained?
"""

# %% tags=["demo"]
if rows:
    ended = seen.groupby("trial")["accuracy"].last()
    winner = int(ended.idxmax())
    display(pandas.DataFrame(ancestry(rows, place / "pbt", winner)).set_index("from epoch"))
    print(f"{len(seen)} epochs trained by all four; trial {winner} ended with accuracy {ended[winner]:.3f}")

# %% [markdown]
r"""
These rates are a schedule that you never wrote down, usually large at first and smaller later.
`PopulationBasedTrainingReplay` trains with such a schedule again, from a `pbt_policy_….txt` file in the experiment's folder.

On a problem this small, a single good rate does just as well.
PBT pays off when training is long and the best rate changes along the way; reinforcement learning is one of the fields it was made for.
"""

# %%
### BEGIN SOLUTION
what_is_cloned = "c"
### END SOLUTION

# %%
quiz("what_is_cloned", what_is_cloned)

# %% [markdown]
r"""
## A killed experiment resumes from its last snapshot

A search may run for hours, and a lot can happen in that time: somebody closes the laptop, or memory runs out.
So Tune regularly saves a [snapshot](../docs/glossary.md#experiment-snapshot) of the experiment, which lists the trials, how far each one has trained, and its checkpoints.
`Tuner.restore` reads the snapshot.

To kill an experiment without killing your notebook, the next cell starts it in a separate program (`Elsewhere`), which connects to this cluster and calls `fit()`.
Each image is in the training set a hundred times, so an epoch lasts long enough to be interrupted.
As soon as the snapshot lists two epochs for each of the four trials, the cell kills the program with `SIGKILL`, which no code can catch.
Here, Tune takes a snapshot every 0.2 s instead of about every ten seconds.

**Predict:** each trial runs in its own process.
Once the program is dead, do the trials keep training?
"""

# %% tags=["demo"]
predict("after_the_kill", ..., ["they keep training", "they stop"])

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
    alive = program.trials_alive(seconds=10)  # waits up to 10 s, or until none is left
    before, known = program.saved(), program.known()
    print("epochs with a checkpoint:  ", *before.values())
    print("epochs in the snapshot:    ", *[known.get(name) for name in before])
    print("processes of trials alive: ", alive)
    display(measured("after_the_kill", "they keep training" if alive else "they stop"))

# %% [markdown]
r"""
They stop: the trials belonged to the program, and when a driver dies, Ray kills its actors.
All that's left is a folder.
To restore the experiment, you need that folder and the function, because Tune doesn't save your code.
If you see only 12s above, the program finished before it could be killed; repeat each image more often.
"""

# %% tags=["demo"]
if before:
    [experiment] = [path for path in folder.iterdir() if path.is_dir()]
    slow = tune.with_resources(tune.with_parameters(objective, data=many), {"cpu": 1})
    restored = tune.Tuner.restore(str(experiment), trainable=slow).fit()
    display(restored_table(restored, before, known, killed_at))

# %% [markdown]
r"""
Tune didn't run finished trials again.
The others continued from a checkpoint, in new processes, so every trial has its twelve epochs, and each epoch started from the weights of the one before.
If a row says that an epoch was trained twice, its checkpoint was on disk, but the snapshot didn't list it yet.
(The snapshot may already list the epoch, because Tune records a report slightly before the report's checkpoint.)

If only a *single trial* dies, the others continue.
By default, Tune doesn't restart it; with `tune.RunConfig(failure_config=tune.FailureConfig(max_failures=3))`, it does, up to three times, from the last checkpoint.
"""

# %%
### BEGIN SOLUTION
what_was_lost = "b"
### END SOLUTION

# %%
quiz("what_was_lost", what_was_lost)

# %% [markdown]
r"""
## A trial that requests too many CPUs stays PENDING

For each trial, Tune requests a placement group (Chapter 4), and the trial is PENDING until Ray has reserved it.
Then the trial is RUNNING, perhaps PAUSED, and in the end TERMINATED or ERROR.
In the next cell, `after(2, ...)` starts an experiment, records the state of its trials after two seconds, and then ends the experiment.

**Predict:** each trial requests three CPUs, and the cluster has two.
What do you get in these two seconds: an error, a warning, or nothing?
"""

# %% tags=["demo"]
predict("three_of_two", ..., ["an error", "a warning", "nothing"])

# %% tags=["demo"]
if passed("objective") and passed("tuner"):
    two = {"lr": [0.1, 0.3]}
    waits = after(2, lambda callbacks: tuner(trial, two, 3, place / "waits", callbacks=callbacks))
    display(pandas.DataFrame(waits)[["config", "requests", "status"]])
    display(measured("three_of_two", "nothing" if all(row["status"] == "PENDING" for row in waits) else "an error"))

# %% [markdown]
r"""
You get nothing: `verbose=0` hides even the table that would show the status.
After a minute, Tune does log a warning ("You asked for 3.0 CPUs … per trial, but the cluster only has 2.0 CPUs"), but by then you may have left for coffee.

An RLlib algorithm determines its own request: one CPU for its main process, where the learner runs, and one for each EnvRunner.
`small_ppo()` is PPO for CartPole, with RLlib's defaults for everything about processes.
The name `"PPO"` is the trainable, and the config is the search space:
"""

# %% tags=["demo"]
def straight(callbacks):
    """Return a Tuner for PPO as most people first write it."""
    config = small_ppo().training(lr=tune.grid_search([0.001, 0.01]))
    quiet = tune.RunConfig(storage_path=place / "ppo", callbacks=callbacks, verbose=0)
    return tune.Tuner("PPO", param_space=config, run_config=quiet)


pandas.DataFrame(after(2, straight))[["config", "requests", "status"]]

# %% [markdown]
r"""
PPO's default is two EnvRunners, so each trial requests three CPUs, and both trials stay PENDING.
You have three ways out:

| setting | CPUs per trial | what it means |
|---|---|---|
| `num_env_runners=0` | 1 | the trial's main process also samples and starts no other process |
| `num_cpus_per_env_runner=0.25`, `.resources(num_cpus_for_main_process=0.5)`, `.learners(num_cpus_per_learner=0.5)` | 1 | 0.5 + 0.25 + 0.25: three processes share a CPU |
| `ray.init(num_cpus=6)` | 3 | you tell Ray that two cores are six CPUs: two trials run at a time, and their six processes share the cores |

For many trials, the first way is usually best, because the trials alone keep all cores busy; EnvRunners pay off if *one* training run has to be fast (Chapter 12).

Write `tune_ppo`, which returns a `Tuner` for PPO whose trials are small enough that **two fit on two CPUs**.
The best trial has the highest mean return, `"env_runners/episode_return_mean"`: Tune joins the names of nested results with a slash.
To end a trial, set `stop={"training_iteration": ...}` in the `RunConfig`; otherwise, it trains forever.
Leave out `reuse_actors`, because an RLlib algorithm can't take over another trial's process.
"""


# %%
def tune_ppo(config, rates, iterations, folder, callbacks=None):
    """Return a Tuner, without starting it, that tries PPO at each of these learning rates, for this number of iterations.

    The trials use the settings of `config`, a PPOConfig. Two of them must fit on two logical CPUs. The best trial has the
    highest mean return. Results go into `folder`; pass on the callbacks.
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
Without `grid_search`, RLlib takes `lr=[0.001, 0.01]` as the *schedule* of one run.
A schedule is a list of pairs, so RLlib raises a `TypeError`.
With `reuse_actors=True`, a trial that takes over another trial's process ends as ERROR, but `fit` returns as if all were well; if you also set `max_concurrent_trials`, `fit` hangs in Ray 2.60.
"""

# %% [markdown]
r"""
Now tune PPO in **an environment of your own**.
Every trial creates the environment in its own processes, so under a name of your choice, you register a function that creates one.
RLlib calls this function with the config's `env_config`, which is part of the search space: with `env_config={"wind": tune.grid_search([0, 0.05])}`, Tune would try two strengths of wind.
"""


# %%
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.wrappers import TimeLimit


class Windy(CartPoleEnv):
    """CartPole in gusts: before each step, a random push of at most `config["wind"]` changes how fast the pole falls."""

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
Compare RLlib's default learning rate, 0.00005, with one that's a hundred times as large.
Full mode also tries 0.0005, trains for more iterations, and takes a minute or two.
"""

# %% tags=["demo"]
if passed("tune_ppo"):
    values, iterations = budget([0.00005, 0.0005, 0.005], [0.00005, 0.005]), budget(40, 4)
    at_once = []
    windy = small_ppo().environment("windy", env_config={"wind": 0.05})
    with bar_of(len(values) * iterations) as bar:
        learned = tune_ppo(windy, values, iterations, place / "ppo", [running(at_once), bar]).fit()
    figure, axes = plt.subplots(figsize=(7, 3), constrained_layout=True)
    for result in learned:
        frame, rate = result.metrics_dataframe, result.config["lr"]
        steps, returns = frame["num_env_steps_sampled_lifetime"], frame["env_runners/episode_return_mean"]
        axes.plot(steps, returns, ".-", label=np.format_float_positional(rate))
    axes.set(xlabel="environment steps", ylabel="mean return", title="PPO in the wind, one trial per learning rate")
    axes.legend(title="learning rate")
    print("best learning rate:", learned.get_best_result().config["lr"])
    print("most trials that were RUNNING at the same time:", max(at_once))

# %% [markdown]
r"""
You've just measured what Chapter 11 says about the default learning rate: it's too small for a small problem.
The last line usually says 2, because two trials ran at a time; it says 1 if one ended before the process of the other had started.

For `tune.run`, `session.report`, and `resources_per_trial` in older tutorials, see [Old names](../docs/old_names.md).
"""

# %%
### BEGIN SOLUTION
ppo_pending = "b"
### END SOLUTION

# %%
quiz("ppo_pending", ppo_pending)

# %% [markdown]
r"""
## Tune uses a second node without any change to your search

Tune places trials the way Ray places everything: wherever there's room.
The next cell adds a node with two CPUs, and each trial requests two.
`where` stands in for a training run: it waits until the other trial is running, too, and reports its node.
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
The trials ran on two nodes, and not a line of the search has changed.
A trial that requests three CPUs for one process would still stay PENDING, because no single node has three (Chapter 4).
On real machines, every node must reach `storage_path`, such as `s3://bucket/folder`, because a trial may continue on a different node.
"""

# %%
stop()

# %% [markdown]
r"""
## What you can do now

- You can write a trial that continues from any of its checkpoints.
- You can run a grid search, and find its best trial and epoch.
- You can let ASHA stop trials, and explain why their order matters.
- You can let Optuna choose the settings, and PBT change them mid-training.
- You can restore a killed experiment, and you know what it trains twice.
- You can work out what a trial requests, and tune PPO in your own environment.

## Traps

- **The last report isn't the best one**: `get_best_result()` and `get_dataframe()` take the last unless you say otherwise.
- **A report without a checkpoint**: a restored trial starts from scratch, and PBT has nothing to copy, which it mentions only in an INFO line.
- **`ASHAScheduler`'s default `max_t=100`** ends every trial after 100 reports.
- **`metrics_dataframe` after a restore may lack rows**, also in PBT: the trial continues from the copy of its files in `storage_path`, which Tune updates only now and then.
  A callback such as `diary` receives every report.
- **Thousands of checkpoints**: `tune.RunConfig(checkpoint_config=tune.CheckpointConfig(num_to_keep=3))` keeps the latest three.
  For PBT, keep more.

## Read on

- [Chapter 17](ch17_data_train.ipynb): training on several workers.
  Ray's guide [*Ray Train and Ray Tune*](https://docs.ray.io/en/latest/train/user-guides/hyperparameter-optimization.html) starts its `TorchTrainer` inside a trial's function.
- Tune's documentation: [key concepts](https://docs.ray.io/en/latest/tune/key-concepts.html), [search algorithms](https://docs.ray.io/en/latest/tune/api/suggestion.html), [resources](https://docs.ray.io/en/latest/tune/tutorials/tune-resources.html), [fault tolerance](https://docs.ray.io/en/latest/tune/tutorials/tune-fault-tolerance.html).
- Liaw et al., [*Tune: A Research Platform for Distributed Model Selection and Training*](https://arxiv.org/abs/1807.05118), 2018.
- Li et al., [*A System for Massively Parallel Hyperparameter Tuning*](https://arxiv.org/abs/1810.05934), 2018: ASHA.
- Akiba et al., [*Optuna: A Next-generation Hyperparameter Optimization Framework*](https://arxiv.org/abs/1907.10902), 2019.
- Jaderberg et al., [*Population Based Training of Neural Networks*](https://arxiv.org/abs/1711.09846), 2017.
- Bergstra and Bengio, [*Random Search for Hyper-Parameter Optimization*](https://jmlr.org/papers/v13/bergstra12a.html), 2012: why a grid is rarely the best way to spend trials.
"""
