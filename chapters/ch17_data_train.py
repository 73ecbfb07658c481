# %% [markdown] you_learn_to="feed rows to two workers that train one network, and resume after a failure"
r"""
# Chapter 17 · Ray Data and Ray Train

Two workers with equal weights are one learner, and only a checkpoint survives them.

*About 120 minutes · builds on [Chapter 2](ch02_objects.ipynb), [Chapter 3](ch03_actors.ipynb), and [Chapter 5](ch05_faults.ipynb); [Chapter 10](ch10_actor_learner.ipynb) helps if PyTorch is new to you*

**What you will be able to do**

- write a data pipeline that streams, with an expensive stage that is set up once per actor;
- standardize data without a leak from the test rows;
- turn a training loop for one process into one for several workers, and prove that they train a single network;
- tell which rows a gradient step uses when there are several workers;
- resume a run from its last checkpoint after a worker is killed;
- explain what mixed precision and FSDP save, and checkpoint a sharded network.
"""

# %%
import os
import tempfile
import time

import matplotlib.pyplot as plt
import numpy as np
import pandas
import ray
import torch
from ray.data import ActorPoolStrategy, TaskPoolStrategy
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model
from torch import nn

from coursekit import begin, budget, check, explain, hint, measured, passed, predict, progress, puzzle, quiz, review, solution, track, warm_up
from coursekit.given.ch17_data_train import digits, in_blocks, rehearse, without_averaging
from coursekit.given.deaths import keep_news_of_deaths
from coursekit.given.folders import new_folder, remove_folders

begin("ch17_data_train")

# %%
os.environ |= {
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",  # Ray Train polls its workers this often; the default is every 2 s
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",  # nobody will take this machine back, so Ray Train needn't watch for that
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "300",  # a busy laptop is slow, not broken
}
ray.shutdown()  # stops a Ray instance that's already running here: its references and actors are gone
ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
warm_up(4)
news = keep_news_of_deaths()  # collects Ray's reports of dead processes, as in Chapter 5

# %% [markdown] tags=["notes"]
r"""
The run sheet allots two hours, with all four exercises.
The demonstrations after `pipeline` need it, so anyone who runs out of time can copy the lines from its last hint.
At the start, ask who has trained a network on two machines, and what the machines sent each other.
Most people say "the weights"; come back to this answer after `train_loop`.
"""

# %% [markdown]
r"""
`num_cpus=4` gives Ray four CPUs to assign, whatever your machine has; on two cores, four tasks share them (Chapter 4).
`log_to_driver=False` hides the log lines of other processes, because Ray Train logs a lot, and you're about to kill a worker.
"""

# %% [markdown]
r"""
## A `Dataset` is a plan that runs when you need its rows

**Ray Data** reads rows, cleans them, and moves them to the processes that train on them.
A [`Dataset`](../docs/glossary.md#dataset) is a table that is split into [blocks](../docs/glossary.md#block), and each block is an object in the object store.
Ray Data processes a dataset block by block, in tasks and actors.

![Blocks of rows flow through a pipeline of tasks and actors to two training workers, which average their gradients and report checkpoints](../img/ch17_data_train.svg)

Our rows are 1,797 handwritten digits from scikit-learn: `image` holds 64 pixels between 0 and 16, `label` says which digit it is, and `row` numbers the rows.
Every fifth row is held out for testing.

**Predict:** a dataset has 8 blocks, Ray has four CPUs, and `map_batches` adds a function that sleeps for 0.2 s per block.
You call `take_all` twice.
How many seconds does the second `take_all` take?
"""

# %% tags=["demo"]
predict("second_take_all", ...)  # seconds

# %%
train_rows, test_rows = digits()
digit_rows = in_blocks(train_rows, 8)
print(f"{digit_rows.count()} rows in {digit_rows.num_blocks()} blocks; {len(test_rows['row'])} rows are held out")


# %% tags=["demo"]
def pause(batch):
    """Sleep, and return the batch unchanged: a dict of arrays."""
    time.sleep(0.2)
    return batch


moments = [time.perf_counter()]
plan = digit_rows.map_batches(pause)
moments.append(time.perf_counter())
for _ in range(2):
    rows = plan.take_all()
    moments.append(time.perf_counter())
print("map_batches: {:.3f} s   take_all: {:.1f} s   take_all again: {:.1f} s".format(*np.diff(moments)))
measured("second_take_all", moments[3] - moments[2])

# %% [markdown]
r"""
`map_batches` is [**lazy**](../docs/glossary.md#lazy-execution): it only adds a step to the plan.
The plan runs when you ask for rows, with `take_all`, `iter_batches`, or `write_parquet`, for example.
The second `take_all` ran all of it again: eight sleeps of 0.2 s on four CPUs take 0.4 s, and the rest is Ray Data's overhead.

If you need the rows more than once, keep them: `plan.materialize()` runs the plan and leaves the resulting blocks in the object store.

With `batch_size=64`, your function gets at most 64 rows per call; by default, it gets a whole block.
"""

# %%
### BEGIN SOLUTION
what_has_run = "a"
### END SOLUTION

# %%
quiz("what_has_run", what_has_run)

# %% [markdown]
r"""
## Ray Data streams, so the first batch doesn't wait for the last block

Blocks [**stream**](../docs/glossary.md#streaming-execution) through the plan: while you use the first block, Ray Data is still reading later ones.
So a dataset can be larger than your memory, and training doesn't have to wait for the last file.
If you use the rows slowly, Ray Data reads more slowly, too; that's [backpressure](../docs/glossary.md#backpressure), as in Chapter 1.

Some operations can't return any rows until they've received all blocks: a sort, a full shuffle, a `groupby` with an aggregation, a join, and `repartition` to a number of blocks.

Below, `read` stands in for a slow disk that delivers one block at a time.
The cell uses the batches as they arrive, and then again after `materialize()`.
"""


# %% tags=["demo"]
def read(batch):
    """Sleep as if reading from a slow disk, and record when the block had been read."""
    time.sleep(budget(0.2, 0.1))
    return {**batch, "read": np.full(len(batch["row"]), time.time())}


def times_of(dataset):
    """Return when each block was read and when it was used, in seconds from now."""
    start = time.time()
    batches = dataset().iter_batches(batch_size=None)
    return np.transpose([(batch["read"][0] - start, time.time() - start) for batch in batches])


slow = digit_rows.map_batches(read, compute=TaskPoolStrategy(size=1))  # one reader at a time
times = {"streaming": times_of(lambda: slow), "materialize()": times_of(slow.materialize)}

# %% tags=["demo"]
figure, axes = plt.subplots(1, 2, figsize=(9, 2.8), sharex=True, sharey=True, constrained_layout=True)
for ax, (name, (read_at, used_at)) in zip(axes, times.items(), strict=True):
    blocks = np.arange(len(read_at))
    ax.hlines(blocks, read_at, used_at, color="#94a3b8")
    ax.plot(read_at, blocks, "o", color="#d97706", label="read")
    ax.plot(used_at, blocks, "s", color="#059669", label="used")
    ax.set(title=f"{name}: {(read_at < used_at[0]).sum()} blocks read before the first use", xlabel="seconds")
axes[0].set_ylabel("block")
axes[0].invert_yaxis()
axes[1].legend(frameon=False);
# %% [markdown]
r"""
On the left, the orange and green marks move to the right together, about one block apart, because Ray Data fetches one batch ahead by default.
On the right, Ray Data reads everything before you use anything, which pays off if you need the rows many times.
"""

# %% [markdown]
r"""
## Standardize with statistics from the training rows only

A network usually learns faster if every pixel has mean 0 and standard deviation 1.
For pixel $j$, with the mean $\mu_j$ and the standard deviation $\sigma_j$ *of the training images*, that's

$$x'_j = \frac{x_j - \mu_j}{\sigma_j}$$

If you used the mean of each batch, the same digit would look different in a different batch, and a batch of one image would become all zeros.
If you used all 1,797 images, the training would depend on the held-out ones.
That's [**data leakage**](../docs/glossary.md#data-leakage), and a test can then promise more than the network will deliver.

So this stage of the pipeline needs state: two arrays, computed once.
In Ray Data, a stage with state is a *callable class*: `__init__` prepares the state, and `__call__` takes a batch and returns a batch.

Write `Standardise`, which takes the training images and then standardizes one batch per call.
Some corner pixels are 0 in every training image, so their $\sigma_j$ is 0.
From these pixels, subtract only the mean, as if $\sigma_j$ were 1.
A batch may be a view into the object store, and then it's read-only (Chapter 2).
"""


# %%
class Standardise:
    """Standardize batches with the mean and the standard deviation of each pixel of `images`, an array of shape [N, 64]."""

    def __init__(self, images):
        ### BEGIN SOLUTION
        self.mean = images.mean(axis=0)
        std = images.std(axis=0)
        self.std = np.where(std == 0, 1, std)
        ### END SOLUTION

    def __call__(self, batch):
        """Return a dict with all columns of the batch, in which `image` holds the standardized pixels, as float32."""
        ### BEGIN SOLUTION
        image = (batch["image"] - self.mean) / self.std
        return {**batch, "image": image.astype(np.float32)}
        ### END SOLUTION


# %%
check("Standardise", Standardise)

# %% [markdown] tags=["solution"]
r"""
Pass the test rows through the *same* object, because their own mean and deviation would scale them differently from the training rows.
"""

# %% [markdown]
r"""
## An actor pool runs a slow setup once per actor

`Standardise` starts fast, but a stage might be a network of ten gigabytes that labels your rows, and you don't want to load it for every batch.
If you pass a class, Ray Data starts an [actor pool](../docs/glossary.md#actor-pool) and sends each batch to one of its actors:

```python
ds.map_batches(
    Labeler,                                 # the class itself
    fn_constructor_args=(path,),             # the arguments of its __init__, which runs once per actor
    batch_size=64,                           # at most this many rows per call
    compute=ray.data.ActorPoolStrategy(size=2),
)
```

A function runs in tasks instead, and it keeps nothing between calls.
When a function is followed directly by another stage, Ray Data often *fuses* the two: the function then runs inside the stage's actors, and no block is copied between them.

Write `pipeline`, which returns a plan that chains two stages: `clean`, a function that drops broken rows, and `stage`, a class whose `__init__` takes `images`.
The check's stage starts slowly, and the check counts how many times it's created.
"""


# %%
def pipeline(ds, clean, stage, images, batch_size, actors):
    """Return the dataset `ds` after `clean` and `stage`, as a plan that hasn't run yet.

    `stage` runs in a pool of `actors` actors, each of which creates `stage(images)` once and calls it on at most `batch_size` rows.
    """
    ### BEGIN SOLUTION
    pool = ActorPoolStrategy(size=actors)
    whole = ds.map_batches(clean)
    return whole.map_batches(stage, fn_constructor_args=(images,), batch_size=batch_size, compute=pool)
    ### END SOLUTION


# %%
check("pipeline", pipeline)

# %% [markdown] tags=["solution"]
r"""
`map_batches(lambda batch: stage(images)(batch))` returns the same rows, but it creates a new stage for every batch.
`map_batches(stage(images))` creates one in your notebook.
With a pool, Ray Data refuses this object; without one, it treats the object as a function and sends a copy to each task.

`concurrency=2` also makes a pool of two actors, but it has been deprecated since Ray 2.51.
"""


# %% [markdown]
r"""
Now run your stages on the real digits.
`materialize` keeps the rows; otherwise, the pipeline would run again in every epoch, with a new pool of actors.
"""


# %% tags=["demo"]
import functools


def whole(batch):
    """Return the rows whose pixels are all between 0 and 16."""
    keep = ((batch["image"] >= 0) & (batch["image"] <= 16)).all(axis=1)
    return {name: column[keep] for name, column in batch.items()}


@functools.cache
def prepared():
    """Return the digits after your two stages, as a materialized dataset and as one large batch."""
    kept = pipeline(digit_rows, whole, Standardise, train_rows["image"], 128, 1).materialize()
    return kept, kept.take_batch(kept.count())


if passed("Standardise") and passed("pipeline"):
    ready, standard = prepared()
    pixel = standard["image"][:, 20]
    print(f"{ready.count()} rows; pixel 20 has mean {abs(pixel.mean()):.3f} and deviation {pixel.std():.3f}")

# %% [markdown]
r"""
## DDP keeps the weights of two workers equal

Each worker has a copy of the network and its own part of the rows, its [shard](../docs/glossary.md#shard).
After every batch, each worker computes a gradient, the workers **average** their gradients in an operation called [*all-reduce*](../docs/glossary.md#all-reduce), and all of them take the same step.
Workers that start with equal weights and take equal steps keep equal weights.

PyTorch calls this [**DDP**](../docs/glossary.md#ddp), *distributed data parallel*.
The weights are sent once: when you wrap the model, every worker receives those of worker 0.
After that, the workers exchange gradients, and buffers if the model has any, such as the running means of batch normalization.

With $W$ workers and $B$ rows in each worker's batch, the averaged gradient is the gradient of the mean loss over $W \cdot B$ rows, the [**effective batch size**](../docs/glossary.md#effective-batch-size):

$$\frac{1}{W}\sum_{w=1}^{W}\nabla\,\frac{1}{B}\sum_{i=1}^{B} \ell(x_{wi}) = \nabla\,\frac{1}{WB}\sum_{w,i}\ell(x_{wi})$$

Here's everything that a single process needs in PyTorch.
Our network is a single layer.
"""


# %%
def network():
    """Return a layer with 64 inputs and 10 logits: 650 weights, with the biases."""
    return nn.Linear(64, 10)


def train_epoch(model, optimizer, batches):
    """Take a gradient step for each batch, and return the mean loss."""
    losses = []
    for batch in batches:
        loss = nn.functional.cross_entropy(model(batch["image"]), batch["label"])  # how wrong the logits are
        optimizer.zero_grad()  # forget the last gradient
        loss.backward()  # compute this one
        optimizer.step()  # change the weights
        losses.append(loss.item())
    return sum(losses) / len(losses)


# %%
config = {"epochs": 3, "batch_size": 64, "lr": 0.02, "seed": 0}

# %% [markdown]
r"""
**Ray Train** runs your *training loop*, a function, in every worker.
Inside it, you can call:

| call | what it does |
|---|---|
| `prepare_model(model)` | wraps the model in DDP, so `loss.backward()` averages the gradients |
| `ray.train.get_dataset_shard("train")` | returns this worker's shard of the `"train"` dataset |
| `shard.iter_torch_batches(batch_size=n)` | returns the shard's rows in batches of tensors; each `for` over them is one pass |
| `ray.train.get_context()` | returns an object with `get_world_size()`, the number of workers, and `get_world_rank()`, this worker's number: 0, 1, … |
| `ray.train.report(metrics)` | reports a dict of numbers, and waits until *every* worker has reported |

Ray Train takes a while to start, so for now, use `rehearse(loop, rows, config)`.
It runs a loop in two processes, connected by PyTorch as in Ray Train, with a small imitation of `ray.train` that answers the calls in the table.

Write `train_loop`, which trains `network()` and reports after each epoch:

- Call `torch.manual_seed(config["seed"])` first, so the run can be repeated.
- `config["batch_size"]` is the *effective* batch size.
- Use `torch.optim.SGD` with `lr=config["lr"]` and `momentum=0.9`.
  For each weight, it keeps a [**velocity**](../docs/glossary.md#velocity), which is 0.9 times the old velocity plus the new gradient, and it subtracts `lr` times the velocity from the weight.

The check rehearses your loop with two workers and with one, and computes what the weights must be.
"""


# %%
def train_loop(config):
    """Train `network()` for config["epochs"] epochs.

    After each epoch, every worker reports {"epoch": the epoch's number, from 0, "loss": the mean loss of this worker's batches}.
    """
    ### BEGIN SOLUTION
    torch.manual_seed(config["seed"])
    model = prepare_model(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=0.9)
    shard = ray.train.get_dataset_shard("train")
    part = config["batch_size"] // ray.train.get_context().get_world_size()
    for epoch in range(config["epochs"]):
        loss = train_epoch(model, optimizer, shard.iter_torch_batches(batch_size=part))
        ray.train.report({"epoch": epoch, "loss": loss})
    ### END SOLUTION


# %%
check("train_loop", train_loop)

# %% [markdown] tags=["solution"]
r"""
The weights would be equal without the seed, too, because DDP sends worker 0's weights to all workers.
The seed makes the run repeatable, and it makes the next comparison fair.

It's a common mistake to call `ray.train.report` only in worker 0.
Worker 0 then waits for the others to report, the others wait for worker 0's gradients, and the run hangs.
"""

# %% [markdown]
r"""
Are the weights equal because of DDP, or because both workers learn the same digits anyway?
The next cell rehearses your loop unchanged, and then again with a `prepare_model` that doesn't wrap the model.

**Predict:** without DDP, the two workers' weights differ after the first step.
After three epochs, are they closer together or further apart than that?
"""

# %% tags=["demo"]
predict("weights_without_ddp", ..., ["closer together", "further apart"])


# %% tags=["demo"]
def apart(attempt):
    """Return, for each step, the largest difference between the two workers' values of a weight."""
    one, other = ([entry[1] for entry in log if entry[0] == "step"] for log in attempt["logs"])
    return [abs(w0 - w1).max() for w0, w1 in zip(one, other, strict=True)]


distances = {}
if passed("Standardise") and passed("pipeline") and passed("train_loop"):
    _, standard = prepared()
    (averaged,) = rehearse(train_loop, standard, config)
    (alone,) = rehearse(without_averaging(train_loop), standard, config)
    distances = {"with DDP": apart(averaged), "without": apart(alone)}
    first, *_, last = distances["without"]
    print(
        f"without DDP: {first:.3f} apart after the first step, {last:.3f} after the last; weights start between -0.125 and 0.125"
    )
    one, other = ({row for entry in log if entry[0] == "rows" for row in entry[1]} for log in averaged["logs"])
    print(f"worker 0 saw {len(one)} rows, worker 1 saw {len(other)}, both saw {len(one & other)}, ", end="")
    print(f"and neither saw {len(standard['row']) - len(one | other)}")
    display(measured("weights_without_ddp", "further apart" if last > first else "closer together"))

# %% tags=["demo"]
if distances:
    figure, axes = plt.subplots(figsize=(7, 2.8), constrained_layout=True)
    for (name, distance), color in zip(distances.items(), ["#059669", "#db2777"], strict=True):
        axes.plot(range(1, len(distance) + 1), distance, color=color, linewidth=2, label=name)
    axes.set(xlabel="gradient step", ylabel="largest difference", title="Difference between the two workers' weights")
    axes.legend(frameon=False)

# %% [markdown]
r"""
With DDP, the difference isn't merely small: it's exactly zero after every step, because the start, the average, and the arithmetic are the same.
Without DDP, two networks each learn from half of the rows, and they end up further apart than they were after the first step.

One of the 1,437 rows reached neither worker: like Ray Train, the rehearsal gives all workers the same number of rows.
"""

# %%
### BEGIN SOLUTION
the_odd_row = "c"
### END SOLUTION

# %%
quiz("the_odd_row", the_odd_row)

# %%
### BEGIN SOLUTION
effective_batch = "b"
### END SOLUTION

# %%
quiz("effective_batch", effective_batch)

# %% [markdown]
r"""
## Save a checkpoint, because restarted workers start from nothing

In Chapter 5, you killed an actor that counts; now you'll kill a training worker.
When a worker dies, the others can't take another step, because the next all-reduce hangs or fails without it.
So Ray Train stops *all* workers of the run.
If `FailureConfig(max_failures=…)` allows it, Ray Train then starts new workers and calls your loop again from its first line.
By default, it allows no restart, and `fit` raises an error.
In the new workers, `ray.train.get_checkpoint()` returns the last reported [checkpoint](../docs/glossary.md#checkpoint), or None if there is none.

A checkpoint is a folder with files of your choice.
Write the files into a temporary folder and pass the folder with a report.
By default, Ray Train copies it to the run's storage before `report` returns.

```python
with tempfile.TemporaryDirectory() as folder:
    torch.save(state, f"{folder}/state.pt")
    ray.train.report(metrics, checkpoint=ray.train.Checkpoint.from_directory(folder))
```

**Predict:** a run has three epochs of 23 steps each and saves a checkpoint after each epoch.
A worker dies after ten steps of the last epoch.
How many steps does each worker take after the restart?
"""

# %% tags=["demo"]
predict("steps_after_the_restart", ...)  # steps

# %% [markdown]
r"""
With DDP, all workers have the same weights, so one file is enough, and worker 0 saves it.
But *all* workers report, the others with `checkpoint=None`, and after a restart, all of them load the checkpoint:

```python
with checkpoint.as_directory() as folder:
    state = torch.load(f"{folder}/state.pt")
```

Models and optimizers have a `state_dict()`, a dict that you can save unchanged and load with `model.load_state_dict(state["model"])`.
With several workers, `prepare_model` returns a wrapper that holds your model as `.module`.
In the wrapper's own `state_dict()`, every key begins with `module.`, so save and load the same one, either the wrapper's or the inner model's.

Write `resume`, which trains like `train_loop`, saves a checkpoint after each epoch, and resumes from the last one.
The final weights must equal those of a run without a failure.
Which three things must `state.pt` hold to make that possible?
The check trains for four epochs, 0 to 3, and kills one worker in the middle of epoch 2.
"""


# %%
def resume(config):
    """Train like `train_loop`, and save a checkpoint after each epoch; if there is a checkpoint, resume with the epoch after it.

    The checkpoint's file `state.pt` holds a dict, with the `state_dict()` of the network under "model".
    """
    ### BEGIN SOLUTION
    torch.manual_seed(config["seed"])
    net, first = network(), 0
    model = prepare_model(net)  # DDP around the same weights
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=0.9)
    if checkpoint := ray.train.get_checkpoint():
        with checkpoint.as_directory() as folder:
            state = torch.load(f"{folder}/state.pt")
        net.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["epoch"] + 1
    shard, context = ray.train.get_dataset_shard("train"), ray.train.get_context()
    part = config["batch_size"] // context.get_world_size()
    for epoch in range(first, config["epochs"]):
        loss = train_epoch(model, optimizer, shard.iter_torch_batches(batch_size=part))
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if context.get_world_rank() == 0:
                state = {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
                torch.save(state, f"{folder}/state.pt")
                checkpoint = ray.train.Checkpoint.from_directory(folder)
            ray.train.report({"epoch": epoch, "loss": loss}, checkpoint=checkpoint)
    ### END SOLUTION


# %%
check("resume", resume)

# %% [markdown] tags=["solution"]
r"""
The optimizer's state is easy to forget.
SGD with momentum keeps a velocity for each weight, and Adam keeps two numbers.
If these start at zero again, the run takes a different path.
It raises no error and may end nearly as well, so you can easily miss the mistake.

A real checkpoint may need more: the state of random generators, the learning-rate schedule, the configuration, or the version of the code.
"""

# %%
### BEGIN SOLUTION
without_a_checkpoint = "b"
### END SOLUTION

# %%
quiz("without_a_checkpoint", without_a_checkpoint)

# %% [markdown]
r"""
![Without a checkpoint, restarted workers begin again at epoch 0; with one, they resume after the last epoch that was saved](../img/ch17_resume.svg)

The next cell rehearses both loops with the same death in the middle of epoch 2.
"""

# %% tags=["demo"]
if passed("Standardise") and passed("pipeline") and passed("train_loop") and passed("resume"):
    _, standard = prepared()
    for loop in (train_loop, resume):
        # Worker 1 dies after ten steps of epoch 2: 718 rows in batches of 32 make 23 steps per epoch.
        attempts = rehearse(loop, standard, config, kill=(1, 2 * 23 + 10))
        for number, attempt in enumerate(attempts):
            epochs = [entry[1]["epoch"] for entry in attempt["logs"][0] if entry[0] == "report"]
            steps = sum(entry[0] == "step" for entry in attempt["logs"][0])
            print(
                f"{loop.__name__:10}  attempt {number + 1}: {attempt['end']:6}  steps: {steps}  epochs reported: {epochs}"
            )
    display(measured("steps_after_the_restart", steps))

# %% [markdown]
r"""
After the restart, `resume` takes all 23 steps of epoch 2, not only the 13 that were missing, because the last checkpoint is from the end of epoch 1.
`train_loop` saves no checkpoint, so its new workers take all 69 steps.
"""

# %% [markdown]
r"""
## Ray Train restarts all workers after one of them dies

A `TorchTrainer` takes the loop, its configuration, the datasets, and three settings:

- `ScalingConfig` sets the number of workers and the resources that each one reserves.
  The default is one CPU per worker, but if the workers reserve all of Ray's CPUs, none is left for Ray Data's tasks, and unless the rows are materialized, as they are here, the workers wait for them forever.
  Half a CPU per worker avoids that, and it slows nothing down, because Ray only counts CPUs (Chapter 4).
- `RunConfig` sets the run's name and the place for its checkpoints.
  On a cluster, every node must be able to reach that place: `s3://…`, or a shared folder.
- `FailureConfig(max_failures=1)` allows one restart.

`mortal(loop, notes, kill)` runs your loop unchanged and records what each worker does.
With `kill=(1, 79)`, worker 1 kills its own process after 79 gradient steps, in epoch 3.
Each step also sleeps for 20 ms.
"""


# %% tags=["demo"]
from coursekit.given.ch17_data_train import attempts_in, draw_attempts, mortal, summary


def fit(loop, kill=None):
    """Train for six epochs on two workers; return Ray Train's result, and what each worker of each attempt did."""
    notes, start = new_folder("notes-"), time.time()
    trainer = TorchTrainer(
        mortal(loop, notes, kill),
        train_loop_config=config | {"epochs": 6},
        datasets={"train": prepared()[0]},
        scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.5}),
        run_config=RunConfig(
            name="digits",
            storage_path=new_folder("results-"),  # removed at the end of this notebook
            failure_config=FailureConfig(max_failures=1),
        ),
    )
    return trainer.fit(), attempts_in(notes, start)


# %% [markdown]
r"""
**Predict:** two workers train, and one of them dies.
How many seconds pass from its death to the first gradient step of the new workers?

Training takes a minute or two, or longer on a busy machine; in full mode, it runs again without a checkpoint.
"""

# %% tags=["demo"]
predict("seconds_to_recover", ...)  # seconds

# %% tags=["demo"]
runs, result, seconds = {}, None, 0.0
if passed("Standardise") and passed("pipeline") and passed("train_loop") and passed("resume"):
    loops = {"with a checkpoint": resume} | budget({"without": train_loop}, {})
    for name, loop in track(loops.items(), "training on two workers"):
        start = time.time()
        found, runs[name] = fit(loop, kill=(1, 3 * 23 + 10))
        result, seconds = (found, time.time() - start) if loop is resume else (result, seconds)


# %% tags=["demo"]
table = {}
for number, attempt in enumerate(runs.get("with a checkpoint", [])):
    table |= {f"attempt {number + 1}, worker {rank}": summary(lines) for rank, lines in enumerate(attempt)}
pandas.DataFrame(table).T if table else None

# %% [markdown]
r"""
The table has four processes, two per attempt.
Every worker took batches of 32 rows, so each step used 64 rows.

`end` is the last thing that each worker recorded: worker 1 died, and worker 0 had just taken its next batch (`rows`), whose gradients were never averaged.
The *digest* is a fingerprint of all weights after a worker's last step: within an attempt, the two digests are identical, even when a worker dies.
"""

# %% tags=["demo"]
if runs:
    figure, axes = plt.subplots(figsize=(8, 3.2), constrained_layout=True)
    for name, attempts in runs.items():
        draw_attempts(axes, name, attempts)
    axes.margins(y=0.2)
    axes.set(xlabel="gradient steps, both attempts together", ylabel="mean loss of the epoch")
    axes.set_title("Loss before and after the death (dashed); the numbers are epochs")
    axes.legend(title="attempt, process ID of worker 0", frameon=False)

# %% tags=["demo"]
if runs:
    first, second = runs["with a checkpoint"]
    died = next(line[0] for lines in first for line in lines if line[1] == "dies")
    began, again = (next(line[0] for line in lines[0] if line[1] == "step") for lines in (first, second))
    end = second[0][-1][0]
    print(f"fit took {seconds:.1f} s: {began:.1f} s to the first step, {died - began:.1f} s to the death,")
    print(
        f"{again - died:.1f} s to the next step, {end - again:.1f} s to the end, and {seconds - end:.1f} s for tidying up."
    )
    display(measured("seconds_to_recover", again - died))

# %% [markdown]
r"""
The curve continues where it stopped, because the checkpoint held the weights *and* the velocities; only the ten steps since the last report are lost.
In full mode, you also see the run without a checkpoint, whose second attempt starts again at epoch 0.

Compare the seconds from the death to the next step with your prediction.
In that time, Ray Train detects the death, stops the other worker, and starts new processes, and each of them imports PyTorch.
In a run of hours, these seconds don't matter.

The more machines you use, the sooner one of them fails, so save often enough that you can afford to lose the work since the last checkpoint.

Is the network in the last checkpoint any good?
To find out, pass the held-out rows through the *same* `Standardise`.
"""

# %% tags=["demo"]
if result:
    with result.checkpoint.as_directory() as folder:
        state = torch.load(f"{folder}/state.pt")
    model = network()
    model.load_state_dict({name.removeprefix("module."): weight for name, weight in state["model"].items()})
    held_out = Standardise(train_rows["image"])(test_rows)
    right = (model(torch.from_numpy(held_out["image"])).argmax(1).numpy() == held_out["label"]).mean()
    print(f"{100 * right:.1f}% of {len(held_out['label'])} held-out digits are classified correctly")
    print(f"the last report: {result.metrics}")

# %% [markdown] tags=["notes"]
r"""
Collect the seconds from the death to the next step on the board, and ask what they are spent on.
Then return to the first question: what do the workers send each other?
They send gradients, 650 numbers per step, and they send the weights only once, at the start.
"""

# %% [markdown]
r"""
## bfloat16 can make steps faster, and FSDP shards the weights

Two techniques help with a larger network.
The first is [**mixed precision**](../docs/glossary.md#mixed-precision).
A *bfloat16* has 16 bits instead of float32's 32, with about the same range but only two or three significant digits.
Within `torch.autocast`, expensive operations, such as matrix products, compute in bfloat16.
Weights, gradients, and velocities stay in float32, because bfloat16 would round small updates away.
So mixed precision doesn't make these any smaller; the memory that it saves is in the activations, which are kept for the backward pass.
"""

# %% tags=["demo"]
device = "cuda" if torch.cuda.is_available() else "cpu"
wide, inputs = nn.Linear(1024, 1024, device=device), torch.randn(64, 1024, device=device)


def seconds_in(bits):
    """Return the seconds for ten forward and backward passes, and the dtypes of activations and gradients."""
    start = time.perf_counter()
    for _ in range(10):
        with torch.autocast(device, dtype=torch.bfloat16, enabled=bits == 16):
            activations = wide(inputs)
        activations.float().mean().backward()
    wide.weight.grad.sum().item()  # waits until the GPU has finished
    return time.perf_counter() - start, activations.dtype, wide.weight.grad.dtype


# %% tags=["demo"]
took = {bits: min(seconds_in(bits) for _ in range(2)) for bits in (32, 16)}
print("activations", took[16][1], "| gradients", took[16][2], "| weights", wide.weight.dtype)
print(f"on this {device}, bfloat16 takes {took[16][0] / took[32][0]:.1f} times as long as float32")
print("1 + 0.001 in bfloat16:", (torch.ones((), dtype=torch.bfloat16) + 0.001).item())

# %% [markdown]
r"""
Hardware that computes in bfloat16, such as recent GPUs and some CPUs, is faster with it; other hardware can be slower, because it converts back and forth.
In a training loop, the forward pass and the loss go into `with torch.autocast(...)`.

The second technique is [**FSDP**](../docs/glossary.md#fsdp), *fully sharded data parallel*.
With DDP, every worker stores all weights, gradients, and velocities; with FSDP, each worker stores only a shard of them.
Before a layer computes, the workers collect its weights, and they free them afterward.
Each averaged gradient goes to the worker that stores the corresponding weights.
The steps are the same as with DDP, but the workers send each other more data, and the activations aren't sharded.

The next cells train `network()` with PyTorch's `fully_shard`.

**Predict:** worker 0 alone saves its `state_dict()` after each epoch, as in `resume`, and then a worker dies.
What happens after the restart?
"""

# %% tags=["demo"]
predict("worker_0_saves_alone", ..., ["it resumes correctly", "it raises an error", "it goes on with wrong weights"])


# %% tags=["demo"]
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard


def save_alone(state, folder):
    """Let worker 0 write what it has."""
    if ray.train.get_context().get_world_rank() == 0:
        torch.save(state, f"{folder}/rank0.pt")


def save_together(state, folder):
    """Let every worker write the shards that it stores into its own file."""
    dcp.save(state, checkpoint_id=folder)


# %% tags=["demo"]
def load_alone(state, folder):
    """Return what worker 0 wrote."""
    return torch.load(f"{folder}/rank0.pt")


def load_together(state, folder):
    """Replace this worker's shards in `state` with those in the checkpoint."""
    dcp.load(state, checkpoint_id=folder)
    return state


def state_of(model, optimizer, epoch):
    """Return the shards that this worker stores, and the epoch to resume with."""
    weights, velocities = get_state_dict(model, optimizer)
    return {"model": weights, "optimizer": velocities, "epoch": epoch}


# %% tags=["demo"]
def sharded_loop(config):
    """Train and resume like `resume`, with the weights sharded among the workers."""
    torch.manual_seed(config["seed"])
    model, first = fully_shard(network()), 0
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=0.9)
    part = config["batch_size"] // ray.train.get_context().get_world_size()
    batches = ray.train.get_dataset_shard("train").iter_torch_batches(batch_size=part)
    if checkpoint := ray.train.get_checkpoint():
        with checkpoint.as_directory() as folder:
            state = config["load"](state_of(model, optimizer, 0), folder)
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        first = state["epoch"]
    for epoch in range(first, config["epochs"]):
        loss = train_epoch(model, optimizer, batches)
        with tempfile.TemporaryDirectory() as folder:
            config["save"](state_of(model, optimizer, epoch + 1), folder)
            ray.train.report({"epoch": epoch, "loss": loss}, ray.train.Checkpoint.from_directory(folder))


# %% tags=["demo"]
def losses_of(attempt):
    """Return the losses that worker 0 reported in an attempt."""
    return [round(entry[1]["loss"], 2) for entry in attempt["logs"][0] if entry[0] == "report"]


if passed("Standardise") and passed("pipeline") and passed("train_loop"):
    ways, after = {"worker 0 saves": (save_alone, load_alone), "all save": (save_together, load_together)}, []
    print(f"DDP                   losses {losses_of(averaged)}")
    for name, (save, load) in ways.items():
        attempts = rehearse(sharded_loop, standard, config | {"save": save, "load": load}, kill=(1, 2 * 23 + 10))
        stored = [[len(entry[1]) for entry in log if entry[0] == "step"][-1] for log in attempts[0]["logs"]]
        before, restarted = map(losses_of, attempts)
        after.append(restarted[0])
        print(f"FSDP, {name:14}  losses {before}, after the restart {restarted}; weights in each worker: {stored}")
    correct = abs(after[0] - after[1]) < 0.1
    display(measured("worker_0_saves_alone", "it resumes correctly" if correct else "it goes on with wrong weights"))

# %% [markdown]
r"""
Each worker stores 325 of the 650 weights, and before the death, the losses are those of DDP.
If worker 0 saves alone, nothing raises an error, but its file holds only worker 0's shard.
After the restart, both workers load that shard, so half of the network is lost, and the loss jumps up.
With `torch.distributed.checkpoint`, every worker writes its own shard and reports its folder, and Ray Train merges the folders into one checkpoint.

In Ray Train, `prepare_model(net, parallel_strategy="fsdp")` wraps the model in PyTorch's older class, `FullyShardedDataParallel` (FSDP1).
It needs GPUs, and with a single worker it wraps nothing.
The wrapped model's `state_dict()` collects the whole network by default, so all workers must call it.

In a large network, call `fully_shard` on each group of layers first and then on the whole network, so the workers don't have to collect all of it at once.
"""

# %% [markdown]
r"""
## Your loop stays the same with other frameworks and on GPUs

Ray Train starts the processes, connects them, and gives them their data; the framework does the computing.

- **PyTorch Lightning** and Hugging Face's **Transformers** run inside a `TorchTrainer`; Ray Train also has a `TensorflowTrainer` and, marked *alpha*, a `JaxTrainer`.
- **RLlib** with `.learners(num_learners=2)` does what your loop does: two learners average their gradients with DDP ([Chapter 21](ch21_learners.ipynb)).
- **GPUs** need `ScalingConfig(num_workers=2, use_gpu=True)`.
  `prepare_model` and `iter_torch_batches` then move the model and the batches to the worker's GPU, and the loop doesn't change.

Older tutorials use other names: see [Old names](../docs/old_names.md).
"""


# %% tags=["demo"]
ray.shutdown()
remove_folders()  # including the results

# %% [markdown]
r"""
## What you can do now

- You can write a pipeline as a plan, let it stream, and decide when to keep its rows.
- You can turn a loop for one process into a loop for several workers, and tell which rows make up a step.
- You can resume a run after a worker was killed, and you know what its checkpoint must hold.
- You can explain what stays in 32 bits, what FSDP shards, and who must save.

## Traps

- **A report only in worker 0** hangs the run, because all workers must report the same number of times.
- **Weights without the optimizer's state** resume on a different path, without an error.
- **A checkpoint from worker 0 alone** lacks the other workers' shards under FSDP, and nothing raises an error.
- **`result.metrics` is None** if you never report a checkpoint, because it holds only metrics that were reported with one.
- **Nothing is shuffled** unless you ask for it, such as with `iter_torch_batches(local_shuffle_buffer_size=…)` or `ds.random_shuffle()`.

## Read on

- Ray's guides to [Ray Data](https://docs.ray.io/en/latest/data/data.html) and [Ray Train](https://docs.ray.io/en/latest/train/train.html), especially *Saving and loading checkpoints* and *Handling failures*.
- Li et al., [*PyTorch Distributed: Experiences on Accelerating Data Parallel Training*](https://arxiv.org/abs/2006.15704), 2020: how DDP overlaps the all-reduce with the backward pass.
- PyTorch's documentation: [automatic mixed precision](https://docs.pytorch.org/docs/stable/amp.html), [fully_shard](https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html), and [distributed checkpoints](https://docs.pytorch.org/docs/stable/distributed.checkpoint.html).
- Goyal et al., [*Accurate, Large Minibatch SGD*](https://arxiv.org/abs/1706.02677), 2017: what to do with the learning rate when the batch grows.
- [Chapter 18](ch18_serve.ipynb): a trained network answers requests over HTTP.
"""
