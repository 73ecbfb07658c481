# %% [markdown] you_learn_to="feed two workers that learn as one, and resume after a death"
r"""
# Chapter 17 · Ray Data and Ray Train

Two workers with equal weights are one learner, and only a checkpoint survives them.

*About 120 minutes · builds on [Chapter 2](ch02_objects.ipynb), [Chapter 3](ch03_actors.ipynb) and [Chapter 5](ch05_faults.ipynb); [Chapter 10](ch10_actor_learner.ipynb) helps where PyTorch is new*

**What you will be able to do**

- write a data pipeline that runs only when its rows are needed, block by block, and sets up an expensive stage once in each actor;
- prepare data without a leak;
- turn a training loop for one process into one for many, and prove that the workers keep one network;
- say which rows a gradient step is made of when there are several workers;
- compute in half the bits, share the weights out among the workers, and say what each saves;
- kill a worker in the middle of a training run, and resume from the last checkpoint with only half an epoch lost.
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

from coursekit import begin, budget, check, hint, passed, progress, quiz, solution, warm_up
from coursekit.given.ch17_data_train import attempts_in, digits, draw_seam, in_blocks, mortal, rehearse, summary, without_averaging
from coursekit.given.deaths import keep_news_of_deaths
from coursekit.given.folders import new_folder, remove_folders

begin("ch17_data_train")

# %%
os.environ |= {
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",  # how often Ray Train looks at its workers: usually every 2 s
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",  # this machine will not be taken back: one process fewer
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "300",  # a busy laptop is slow, not broken
}
ray.shutdown()  # ends a Ray that already runs here: its references and actors are gone
ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
warm_up(4)
news = keep_news_of_deaths()  # otherwise Ray reports the death to come in half a page, as in chapter 5

# %% [markdown] tags=["notes"]
r"""
The run sheet plans two hours, with all four exercises.
The demonstrations after `pipeline` need it: anyone who runs out of time can take the line from its last hint.
Ask at the start who has trained on two machines, and what travelled between them.
Most say "the weights"; come back to the answer after `train_loop`.
"""

# %% [markdown]
r"""
`num_cpus=4` gives four places for tasks, whatever your machine has; on two cores they take turns (chapter 4).
`log_to_driver=False` hides other processes' log lines: Ray Train reports each of its steps in half a page, and you are going to kill a worker.
Errors still arrive as exceptions.
"""

# %% [markdown]
r"""
## A dataset is a plan

In most training runs the real work is getting the rows to where the gradients are computed.
That is the job of **Ray Data**.
A `Dataset` is a table in **blocks**, each an object in the object store.
Whatever you do to a dataset happens block by block, in tasks and actors.

![Blocks of rows flow through a pipeline of tasks and actors to two training workers, which average their gradients and report checkpoints](../img/ch17_data_train.svg)

This chapter's rows are 1,797 handwritten digits from scikit-learn, in three columns: `image` has 64 pixels between 0 and 16, `label` says which digit it is, and `row` numbers them.
Every fifth row is held out for a test.

**Predict:** the function below naps for 0.2 s over each of 8 blocks.
How long does the call to `map_batches` take, and how long does `take_all` take, the first time and the second?
"""

# %%
train_rows, test_rows = digits()
digit_rows = in_blocks(train_rows, 8)
print(f"{digit_rows.count()} rows in {digit_rows.num_blocks()} blocks; {len(test_rows['row'])} rows are held out")


# %% tags=["demo"]
def look(batch):
    """Nap, then return the batch as it came: a dict of arrays."""
    time.sleep(0.2)
    return batch


moments = [time.perf_counter()]
plan = digit_rows.map_batches(look)
moments.append(time.perf_counter())
for _ in range(2):
    rows = plan.take_all()
    moments.append(time.perf_counter())
print("map_batches: {:.3f} s   take_all: {:.1f} s   take_all again: {:.1f} s".format(*np.diff(moments)))

# %% [markdown]
r"""
`map_batches` is **lazy**: it only wrote the plan down.
`take_all` did the work.
Eight naps of 0.2 s in four places take 0.4 s.
The rest is Ray Data getting ready, which costs most the first time because of its imports.

Ray does the work when something asks for rows: `take`, `take_all`, `iter_batches`, `write_parquet`.
Ask again, and it does the work again, unless you keep the result: `plan.materialize()` runs the plan and leaves the blocks in the object store.

With `batch_size=64` your function gets at most 64 rows at a time; by default it gets a whole block.
"""

# %%
### BEGIN SOLUTION
what_has_run = "a"
### END SOLUTION

# %%
quiz("what_has_run", what_has_run)

# %% [markdown]
r"""
## The first batch is out before the last block is read

A plan of several steps does not run step by step over the whole table; blocks **stream** through it: while the first is being used, later ones are still being read.
So a dataset may be larger than your memory, and a learner need not wait for the last file.
A full shuffle or a sort is the exception: it must see all blocks first.
If the consumer is slow, Ray Data pauses the reading; that is *backpressure*, as in chapter 1.

`read` plays a slow disk that delivers one block at a time.
The cell uses the batches as they come, then again after `materialize()`.
"""


# %% tags=["demo"]
def read(batch):
    """Nap as a slow disk does, and note when this block was there."""
    time.sleep(budget(0.2, 0.1))
    return {**batch, "read": np.full(len(batch["row"]), time.time())}


def story_of(dataset):
    """Return for each block when it was read and when it was used, in seconds."""
    start = time.time()
    batches = dataset().iter_batches(batch_size=None)
    return np.transpose([(batch["read"][0] - start, time.time() - start) for batch in batches])


slow = digit_rows.map_batches(read, compute=TaskPoolStrategy(size=1))  # one reader at a time
stories = {"streaming": story_of(lambda: slow), "materialize()": story_of(slow.materialize)}

# %% tags=["demo"]
figure, axes = plt.subplots(1, 2, figsize=(9, 2.8), sharex=True, sharey=True, constrained_layout=True)
for ax, (name, (read_at, used_at)) in zip(axes, stories.items(), strict=True):
    blocks = np.arange(len(read_at))
    ax.hlines(blocks, read_at, used_at, color="#94a3b8")
    ax.plot(read_at, blocks, "o", color="#d97706", label="read")
    ax.plot(used_at, blocks, "s", color="#059669", label="used")
    ax.set(title=f"{name}: {(read_at < used_at[0]).sum()} read before the first use", xlabel="seconds")
axes[0].set_ylabel("block")
axes[0].invert_yaxis()
axes[1].legend(frameon=False);
# %% [markdown]
r"""
On the left, orange and green move along together, one block apart: by default Ray Data fetches one batch ahead.
On the right, it reads everything before anything is used.
That is the price of keeping the result, and it pays off if you need the rows many times.
"""

# %% [markdown]
r"""
## What a stage knows must come from the training rows

Networks learn faster when every pixel has mean 0 and deviation 1.
For pixel $j$, with the mean $\mu_j$ and the standard deviation $\sigma_j$ *of the training images*:

$$x'_j = \frac{x_j - \mu_j}{\sigma_j}$$

Where do $\mu$ and $\sigma$ come from?
Not from the batch: the same digit would then look different in other company, and a batch of one image would become all zeros.
And not from all 1,797 images: the held-out ones would tell the training about themselves.
That is a **leak**, and a test after a leak promises more than you will get.

So the stage has state: two arrays, computed once.
In Ray Data, a stage with state is a *callable class*: `__init__` gets ready, `__call__` takes a batch and returns one.
Write `Standardise`.
Some pixels in the corners are 0 in every training image; for these $\sigma_j = 0$, so only centre them, as if $\sigma_j$ were 1.
A batch may be a view into the object store, and then it is read-only (chapter 2).
"""


# %%
class Standardise:
    """Shift and scale the pixels of any batch, by what was seen in `images`, shape [N, 64]."""

    def __init__(self, images):
        ### BEGIN SOLUTION
        self.mean = images.mean(axis=0)
        std = images.std(axis=0)
        self.std = np.where(std == 0, 1, std)
        ### END SOLUTION

    def __call__(self, batch):
        """Return the batch, all its columns, with the standardised pixels as float32 in `image`."""
        ### BEGIN SOLUTION
        image = (batch["image"] - self.mean) / self.std
        return {**batch, "image": image.astype(np.float32)}
        ### END SOLUTION


# %%
check("Standardise", Standardise)

# %% [markdown] tags=["solution"]
r"""
The test rows go through the *same* object: standardising them by their own mean would be just as wrong.
"""

# %% [markdown]
r"""
## A slow start is paid once for each actor

`Standardise` starts fast, but a stage may be a network of ten gigabytes that labels your rows, and you do not want to load that for each batch.
So Ray Data makes a **pool** of actors from a class, and sends every batch to a free one:

```python
ds.map_batches(
    Labeller,                                # the class itself
    fn_constructor_args=(path,),             # what its __init__ gets, in each actor
    batch_size=64,                           # at most this many rows a call
    compute=ray.data.ActorPoolStrategy(size=2),
)
```

A function becomes tasks instead, and remembers nothing.
If two stages follow each other directly, Ray Data often *fuses* them: the function then runs inside the actors, and no block is copied between them.

`pipeline` chains two stages: `clean`, a function that drops broken rows, and `stage`, a class whose `__init__` takes `images`.
The check brings a stage of its own, which starts slowly and counts how often it is made.
"""


# %%
def pipeline(ds, clean, stage, images, batch_size, actors):
    """Return the dataset `ds` after `clean` and `stage`, as a plan: nothing has run yet.

    `stage` works in a pool of `actors` actors, each made with `stage(images)`, on at most `batch_size` rows at a time.
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
`map_batches(lambda batch: stage(images)(batch))` gives the same rows, but makes a new stage for every batch.
`map_batches(stage(images))` makes one here, in your notebook: with a pool Ray Data refuses it, and without one it takes the object for a function and sends a copy to each task.

`concurrency=2` also makes a pool of two; Ray 2.60 accepts it, but documents it as deprecated.
"""


# %% [markdown]
r"""
Now run your stages on the real digits.
`materialize` keeps the rows, because the training will go over them many times, and a plan would start a new pool of actors in every epoch.
Leave it a plan if each epoch should see the rows *changed*, for instance turned a little at random.
"""


# %% tags=["demo"]
import functools


def whole(batch):
    """Return the rows whose pixels are all between 0 and 16."""
    keep = ((batch["image"] >= 0) & (batch["image"] <= 16)).all(axis=1)
    return {name: column[keep] for name, column in batch.items()}


@functools.cache
def prepared():
    """Return the digits after your two stages: the dataset, kept, and all of it as one batch."""
    kept = pipeline(digit_rows, whole, Standardise, train_rows["image"], 128, 1).materialize()
    return kept, kept.take_batch(kept.count())


if passed("Standardise") and passed("pipeline"):
    ready, standard = prepared()
    pixel = standard["image"][:, 20]
    print(f"{ready.count()} rows; pixel 20 has mean {abs(pixel.mean()):.3f}, deviation {pixel.std():.3f}")

# %% [markdown]
r"""
## Two workers, one network

Each worker has a copy of the network and a part of the rows, its **shard**.
After every batch, each worker computes its own gradient; the workers **average** their gradients, an operation called *all-reduce*; and each takes the same step.
Workers that start equal and step equally stay equal.

PyTorch calls this **DDP**, *distributed data parallel*.
The weights travel once: when you wrap the model, every worker receives those of worker 0.
After that the workers exchange gradients.
A model may also have *buffers*, such as the means of batch normalisation, which worker 0 sends before every forward pass; ours has none.

With $W$ workers and $B$ rows in each worker's batch, the average is the gradient of the mean loss over $W \cdot B$ rows: the **effective batch**.

$$\frac{1}{W}\sum_{w=1}^{W}\nabla\,\frac{1}{B}\sum_{i=1}^{B} \ell(x_{wi}) = \nabla\,\frac{1}{WB}\sum_{w,i}\ell(x_{wi})$$

Here is all one process needs in PyTorch.
The network is a single layer: it reads digits well, and a gradient step takes about a millisecond.
"""


# %%
def network():
    """Return a layer with 64 inputs and 10 scores: 650 weights."""
    return nn.Linear(64, 10)


def train_epoch(model, optimizer, batches):
    """Take a gradient step for each batch and return the mean loss."""
    losses = []
    for batch in batches:
        loss = nn.functional.cross_entropy(model(batch["image"]), batch["label"])  # how wrong the scores are
        optimizer.zero_grad()  # forget the last gradient
        loss.backward()  # compute this one
        optimizer.step()  # change the weights
        losses.append(loss.item())
    return sum(losses) / len(losses)

# %%
config = {"epochs": 3, "batch_size": 64, "lr": 0.02, "seed": 0}

# %% [markdown]
r"""
**Ray Train** runs a function of yours, the *training loop*, in every worker.
Inside it,

| call | what it does |
|---|---|
| `prepare_model(model)` | wraps the model in DDP: `loss.backward()` then averages the gradients |
| `ray.train.get_dataset_shard("train")` | this worker's part of the dataset `"train"` |
| `shard.iter_torch_batches(batch_size=n)` | its rows in batches of tensors; each `for` over them is one pass |
| `ray.train.get_context()` | has `get_world_size()`, the number of workers, and `get_world_rank()`: 0, 1, … |
| `ray.train.report(metrics)` | reports numbers; waits until *every* worker has reported |

Ray Train starts slowly: it needs about eight processes, and most of them import PyTorch.
You will time it below.
Until then, **rehearse**: `rehearse(loop, rows, config)` runs a loop in two processes of its own, joined by PyTorch as Ray Train joins them, with a small imitation of Ray Train.
Write the real calls from the table, and import nothing else: the rehearsal answers them.
The first rehearsal takes some seconds, the next about one, and each notes everything the workers do.

Write `train_loop`.
Begin with `torch.manual_seed(config["seed"])`, the same in every worker, so the run can be repeated.
`config["batch_size"]` is the *effective* batch.
The optimizer is `torch.optim.SGD` with `lr=config["lr"]` and `momentum=0.9`: it keeps a **velocity** for each weight, 0.9 times the old one plus the new gradient, and steps along it.
The check rehearses your loop and computes what the weights must be.
"""


# %%
def train_loop(config):
    """Train `network()` for config["epochs"] epochs.

    After each, every worker reports {"epoch": its number, from 0 on, "loss": the mean loss of its batches}.
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
Equal weights do not need the seed: DDP sends worker 0's weights to all.
The seed makes the run repeatable, and the next comparison fair.

The most common mistake with Ray Train is to call `ray.train.report` only in worker 0.
Worker 0 then waits for the others to report, the others wait for worker 0's gradients, and the run hangs.
"""

# %% [markdown]
r"""
Are the weights equal because of DDP, or because both workers learn the same digits anyway?
The next cell rehearses your loop as it is, and then with a `prepare_model` that leaves the model alone.
Thanks to the seed, both workers begin with the same weights.

**Predict:** without DDP, do the two workers' weights differ after one step?
After three epochs, have they moved further apart, or closer again?
"""


# %% tags=["demo"]
def apart(attempt):
    """Return for each step the largest difference between the two workers' values of a weight."""
    one, other = ([entry[1] for entry in log if entry[0] == "step"] for log in attempt["logs"])
    return [abs(w0 - w1).max() for w0, w1 in zip(one, other, strict=True)]


distances = {}
if passed("Standardise") and passed("pipeline") and passed("train_loop"):
    _, standard = prepared()
    (averaged,) = rehearse(train_loop, standard, config)
    (alone,) = rehearse(without_averaging(train_loop), standard, config)
    distances = {"with DDP": apart(averaged), "without": apart(alone)}
    first, *_, last = distances["without"]
    print(f"without DDP: {first:.3f} apart after the first step, {last:.3f} after the last; weights begin between -0.125 and 0.125")
    one, other = ({row for entry in log if entry[0] == "rows" for row in entry[1]} for log in averaged["logs"])
    print(f"worker 0 saw {len(one)} rows, worker 1 {len(other)}; both saw {len(one & other)}; ", end="")
    print(f"neither saw {len(standard['row']) - len(one | other)}")

# %% tags=["demo"]
if distances:
    figure, axes = plt.subplots(figsize=(7, 2.8), constrained_layout=True)
    for (name, distance), colour in zip(distances.items(), ["#059669", "#db2777"], strict=True):
        axes.plot(range(1, len(distance) + 1), distance, color=colour, linewidth=2, label=name)
    axes.set(xlabel="gradient step", ylabel="largest difference", title="One network, or two")
    axes.legend(frameon=False)

# %% [markdown]
r"""
With DDP the difference is not small but zero, after every step: same start, same average, same arithmetic.
Without it there are two networks from the first step, each trained on half of the rows, and they end up further apart than they were after that step.
You would save worker 0's network and throw away half of the training.

Look at the count of rows, too: 1,437 is odd, and neither worker saw one of the rows in any epoch.
The rehearsal copies Ray Train in this.
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
## A large network needs half the bits, or a share of the weights

Two changes make room for a larger network, and both leave the loop as it is.

**Mixed precision**: a float32 has 32 bits, a *bfloat16* has 16, with the same range and two or three decimal digits.
Within `torch.autocast`, the expensive operations compute in bfloat16.
Weights, gradients and velocities stay float32, because small steps would otherwise be lost:
"""

# %% tags=["demo"]
device = "cuda" if torch.cuda.is_available() else "cpu"
wide, inputs = nn.Linear(1024, 1024, device=device), torch.randn(64, 1024, device=device)


def seconds_in(bits):
    """Return the seconds of ten forward and backward passes; 16 bits are bfloat16."""
    start = time.perf_counter()
    for _ in range(10):
        with torch.autocast(device, dtype=torch.bfloat16, enabled=bits == 16):
            scores = wide(inputs)
        scores.float().mean().backward()
    wide.weight.grad.sum().item()  # a GPU works on while Python is ahead: wait for it
    return time.perf_counter() - start, scores.dtype, wide.weight.grad.dtype


# %% tags=["demo"]
took = {bits: min(seconds_in(bits) for _ in range(2)) for bits in (32, 16)}
print("scores", took[16][1], "| gradients", took[16][2], "| weights", wide.weight.dtype)
print(f"on this {device}, bfloat16 takes {took[16][0] / took[32][0]:.1f} times as long as float32")
print("1 + 0.001 in bfloat16:", (torch.ones((), dtype=torch.bfloat16) + 0.001).item())

# %% [markdown]
r"""
Processors that compute in bfloat16, such as recent GPUs and some CPUs, are faster; others convert back and forth, and are slower.
In a training loop, `with torch.autocast(...)` goes around the forward pass and the loss.

**FSDP**, *fully sharded data parallel*: with DDP every worker keeps all weights, gradients and velocities; with FSDP each keeps a share.
Before a layer computes, the workers send each other its weights, and forget them afterwards; a gradient goes to the worker with that share.
The steps are those of DDP, but more numbers travel.
Each worker needs less memory for all three; what a layer computes from its own rows stays whole.

In Ray Train that is `prepare_model(net, parallel_strategy="fsdp")`, for GPUs only: without them it raises.
PyTorch's own `fully_shard` also works on CPUs, so the rehearsal can show it:
"""


# %% tags=["demo"]
from torch.distributed.fsdp import fully_shard


def sharded_loop(config):
    """Train like `train_loop`, with the weights shared out among the workers."""
    torch.manual_seed(config["seed"])
    model = fully_shard(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=0.9)
    part = config["batch_size"] // ray.train.get_context().get_world_size()
    batches = ray.train.get_dataset_shard("train").iter_torch_batches(batch_size=part)
    ray.train.report({"epoch": 0, "loss": train_epoch(model, optimizer, batches)})


if passed("Standardise") and passed("pipeline") and passed("train_loop"):
    for loop in (train_loop, sharded_loop):
        (attempt,) = rehearse(loop, prepared()[1], config | {"epochs": 1})
        kept = [[len(entry[1]) for entry in log if entry[0] == "step"][-1] for log in attempt["logs"]]
        loss = next(entry[1]["loss"] for entry in attempt["logs"][0] if entry[0] == "report")
        print(f"{loop.__name__:12} weights in each worker: {kept}, loss of worker 0: {loss:.4f}")

# %% [markdown]
r"""
The same loss from half of the weights in each worker.
Here one call of `fully_shard` gathers the whole network at once; in a large one, call it on each block first, then on the whole.
For our 650 numbers that saves nothing; without it, a network of some billions does not fit into one GPU.
"""

# %% [markdown]
r"""
## A restarted worker knows what the checkpoint says, and nothing else

Chapter 5 killed a counter; now you kill a training worker.
When one dies, the others cannot take another step: they wait for gradients that never come.
So Ray Train ends the *whole* group.
If `FailureConfig(max_failures=…)` allows it, Ray Train then starts a new group and calls your loop again from its first line.
By default it allows none, and `fit` raises.
Only one thing differs in the new group: `ray.train.get_checkpoint()` returns the last reported checkpoint, or None.

A **checkpoint** is a folder with files of your choice.
You write them into a temporary folder and pass it with a report; Ray Train copies it to the run's storage before `report` returns.

```python
with tempfile.TemporaryDirectory() as folder:
    torch.save(state, f"{folder}/state.pt")
    ray.train.report(metrics, checkpoint=ray.train.Checkpoint.from_directory(folder))
```

The weights are equal, so one worker's file is enough: worker 0 saves.
But *all* workers report, the others with `checkpoint=None`, and all of them load:

```python
with checkpoint.as_directory() as folder:
    state = torch.load(f"{folder}/state.pt")
```

Models and optimizers have a `state_dict()`, a dict of all their numbers, which you save as it is and load with `model.load_state_dict(state["model"])`.
With several workers, what `prepare_model` returns holds your model as `.module`, and its own `state_dict()` has keys that begin with `module.`: save and load the same one.

**Predict:** the check trains for four epochs, 0 to 3, and kills one worker with SIGKILL in the middle of epoch 2.
Which epochs will the second group report?
Which three things must `state.pt` hold so that the final weights are those of a run without a death?
"""


# %%
def resume(config):
    """Train like `train_loop`, and save after each epoch; resume after the last epoch that was saved, if there is one.

    The checkpoint's file `state.pt` holds a dict with the state of the network under "model".
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
People forget the optimizer's state.
SGD keeps a velocity for each weight, Adam two numbers.
Start them at zero, and the run takes another path: it raises no error and often ends nearly as well, so it is easy to miss.

A real checkpoint may need more: the state of random generators, the learning rate schedule, the configuration, the version of the code.
"""

# %%
### BEGIN SOLUTION
without_a_checkpoint = "b"
### END SOLUTION

# %%
quiz("without_a_checkpoint", without_a_checkpoint)

# %% [markdown]
r"""
![Without a checkpoint a restarted group begins again at epoch 0; with one it resumes after the last epoch that was saved](../img/ch17_resume.svg)

See it happen: both loops, with the same death in the middle of epoch 2.
"""

# %% tags=["demo"]
if passed("Standardise") and passed("pipeline") and passed("train_loop") and passed("resume"):
    _, standard = prepared()
    for loop in (train_loop, resume):
        # Worker 1 dies after ten steps of epoch 2: 718 rows in batches of 32 are 23 steps an epoch.
        attempts = rehearse(loop, standard, config, kill=(1, 2 * 23 + 10))
        for number, attempt in enumerate(attempts):
            epochs = [entry[1]["epoch"] for entry in attempt["logs"][0] if entry[0] == "report"]
            print(f"{loop.__name__:10}  attempt {number + 1}: {attempt['end']:6}  epochs reported: {epochs}")

# %% [markdown]
r"""
## Now with Ray Train itself, and a real death

A `TorchTrainer` takes the loop, its configuration, the datasets, and three settings:

- `ScalingConfig`: how many workers, and what each reserves.
  The default is one CPU each; with as many workers as Ray has CPUs, nothing is left for Ray Data's tasks, and the workers wait for rows forever (chapter 4).
  Half a CPU each avoids that, and makes nothing faster or slower.
- `RunConfig`: a name, and where checkpoints go.
  On a cluster, every node must reach that place: `s3://…`, or a shared folder.
- `FailureConfig(max_failures=1)`: how many times Ray Train may restart the group.

`mortal(loop, notes, kill)` runs your loop unchanged and writes down what each worker does; `kill=(1, 79)` lets worker 1 kill its own process after 79 gradient steps, in epoch 3.
Each step naps for 20 ms, as if the network were larger.
"""


# %% tags=["demo"]
def fit(loop, kill=None):
    """Train for six epochs on two workers; return Ray Train's result, and the notes of every attempt and worker, in seconds from now."""
    notes, start = new_folder("notes-"), time.time()
    trainer = TorchTrainer(
        mortal(loop, notes, kill),
        train_loop_config=config | {"epochs": 6},
        datasets={"train": prepared()[0]},
        scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.5}),
        run_config=RunConfig(
            name="digits",
            storage_path=new_folder("results-"),  # goes when this notebook ends
            failure_config=FailureConfig(max_failures=1),
        ),
    )
    return trainer.fit(), attempts_in(notes, start)


# %% [markdown]
r"""
**Predict:** how many seconds pass from `fit()` to the first gradient step?
How many from the death to the new group's first step?
How much work is done twice?

The next cell takes a minute or two, longer on a busy machine, and prints nothing meanwhile; in full mode it trains twice.
"""

# %% tags=["demo"]
runs, result, seconds = {}, None, 0.0
if passed("Standardise") and passed("pipeline") and passed("train_loop") and passed("resume"):
    start = time.time()
    result, runs["with a checkpoint"] = fit(resume, kill=(1, 3 * 23 + 10))
    seconds = time.time() - start
    if budget(True, False):  # the same death without a checkpoint: only in full mode
        _, runs["without"] = fit(train_loop, kill=(1, 3 * 23 + 10))


# %% tags=["demo"]
table = {}
for number, attempt in enumerate(runs.get("with a checkpoint", [])):
    table |= {f"attempt {number + 1}, worker {rank}": summary(lines) for rank, lines in enumerate(attempt)}
pandas.DataFrame(table).T if table else None

# %% [markdown]
r"""
Four processes, two in each attempt.
Every worker took batches of 32 rows, which makes 64 together; 718 rows are an epoch, and three epochs 2,154.
Worker 1 had taken ten batches more when it died, and worker 0 eleven.
`end` is the last thing each worker noted: worker 1 died; worker 0 had just taken its next batch (`rows`) and waited for a gradient until Ray Train ended it.
The *digest* is a fingerprint of all weights after a worker's last step: within an attempt the two digests are identical, even at the death.
The second attempt reports exactly the epochs that the first did not.
"""

# %% tags=["demo"]
if runs:
    figure, axes = plt.subplots(figsize=(8, 3.2), constrained_layout=True)
    for name, attempts in runs.items():
        draw_seam(axes, name, attempts)
    axes.margins(y=0.2)
    axes.set(xlabel="gradient steps made, in both attempts", ylabel="loss of the epoch")
    axes.set_title("The seam: numbers are epochs, dashed is the death")
    axes.legend(title="attempt, process of worker 0", frameon=False);

# %% tags=["demo"]
if runs:
    first, second = runs["with a checkpoint"]
    died = next(line[0] for lines in first for line in lines if line[1] == "dies")
    began, again = (next(line[0] for line in lines[0] if line[1] == "step") for lines in (first, second))
    end = second[0][-1][0]
    print(f"fit took {seconds:.1f} s: {began:.1f} s to the first step, {died - began:.1f} s to the death,")
    print(f"{again - died:.1f} s to the next step, {end - again:.1f} s to the end, {seconds - end:.1f} s for tidying up.")

# %% [markdown]
r"""
The curve continues where it was, in new processes, because the checkpoint held the weights *and* the velocity.
The ten steps between the last report and the death are lost: epoch 3 begins again.
In full mode you also see the run without a checkpoint: its first attempt is the same, and its second begins at the top.

The seconds between death and next step are the price of new processes: Ray Train ends the old group and starts a new one, and each new process imports PyTorch.
In a run of hours that does not matter; in ours it is most of the time.
How often should you save?
As soon as the work since the last checkpoint is worth more than writing one.
A checkpoint of gigabytes takes a while to write, but the more machines you use, the sooner one dies.

Is the network in the last checkpoint any good?
The held-out rows go through the *same* `Standardise`.
"""

# %% tags=["demo"]
if result:
    with result.checkpoint.as_directory() as folder:
        state = torch.load(f"{folder}/state.pt")
    model = network()
    model.load_state_dict({name.removeprefix("module."): weight for name, weight in state["model"].items()})
    held_out = Standardise(train_rows["image"])(test_rows)
    right = (model(torch.from_numpy(held_out["image"])).argmax(1).numpy() == held_out["label"]).mean()
    print(f"{100 * right:.1f} % of {len(held_out['label'])} held-out digits are read right")
    print(f"the last report: {result.metrics}")

# %% [markdown] tags=["notes"]
r"""
Collect the seconds from death to next step on the board, and ask what they are spent on.
Then return to the first question: what travels between the workers?
Gradients, 650 numbers a step; weights only once, at the start.
"""

# %% [markdown]
r"""
## The loop stays, the framework may change

Ray Train joins the processes and gives them their data; the framework computes.

- **PyTorch** is what Ray Train is built around; Lightning and Hugging Face's Transformers run inside a `TorchTrainer`.
  There are also a `TensorflowTrainer` and, marked *alpha*, a `JaxTrainer`.
- **RLlib** does the same as your loop when you write `.learners(num_learners=2)`: two learners, DDP, averaged gradients (chapter 13).
- **GPUs:** write `ScalingConfig(num_workers=2, use_gpu=True)`.
  `prepare_model` and `iter_torch_batches` then put model and batches on the worker's GPU, and the loop stays as it is.

Older tutorials use other names, some of which still import and quietly do nothing: see [Old names](../docs/old_names.md).
"""


# %% tags=["demo"]
ray.shutdown()
remove_folders()  # the results too

# %% [markdown]
r"""
## What you can do now

- You write pipelines as plans, let them stream, and know when to keep the result.
- You compute what a stage knows only from the training rows.
- You turned a loop for one process into one for many, and proved that the workers keep one network.
- You know which rows make up a gradient step, and which row none sees.
- You know what stays in 32 bits, and which numbers DDP copies and FSDP shares out.
- You killed a worker, and the training resumed from its checkpoint, velocity included.

## Traps

- **A report only in worker 0** hangs.
  Every worker reports, equally often.
- **`batch_size` is each worker's.** The effective batch grows with the workers unless you divide.
- **Weights without the optimizer's state** resume silently on another path.
- **No checkpoint, no complaint**: `max_failures` restarts the group all the same, from epoch 0.
  And `result.metrics` is None, because it shows only reports that came with a checkpoint.
- **A plan as training data** runs again in every epoch, pool of actors included.
  `materialize()` what fits.
- **All CPUs for the workers** leave none for Ray Data's tasks, and the workers wait for rows.
- **Nothing shuffles unless you ask**: `iter_torch_batches(local_shuffle_buffer_size=…)`, or `ds.random_shuffle()`.
  Otherwise every epoch brings the rows in much the same order.
- **Statistics of all rows** are a leak, even if only the mean leaks.

## Read on

- Ray's guides to [Ray Data](https://docs.ray.io/en/latest/data/data.html) and [Ray Train](https://docs.ray.io/en/latest/train/train.html), there especially *Saving and loading checkpoints* and *Handling failures*.
- Li et al., [*PyTorch Distributed: Experiences on Accelerating Data Parallel Training*](https://arxiv.org/abs/2006.15704), 2020: how DDP hides the all-reduce behind the backward pass.
- PyTorch's documentation: [automatic mixed precision](https://docs.pytorch.org/docs/stable/amp.html), [fully_shard](https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html).
- Goyal et al., [*Accurate, Large Minibatch SGD*](https://arxiv.org/abs/1706.02677), 2017: what to do with the learning rate when the batch grows.
- [Chapter 18](ch18_serve.ipynb): a trained network answers over HTTP.
"""
