# %% [markdown] you_learn_to="record, clone, and learn from experience that others had"
r"""
# Chapter 15 · A clone follows the majority of its log, and only playing shows how good that is

*About 90 minutes · builds on [Chapter 7](ch07_environments.ipynb), [Chapter 9](ch09_dqn.ipynb), [Chapter 10](ch10_actor_learner.ipynb) and [Chapter 11](ch11_rllib_ppo.ipynb)*

**What you will be able to do**

- record experience as rows in Parquet files, in the form that RLlib reads;
- read it with Ray Data, look at it before you learn from it, and hold out episodes instead of rows;
- clone a teacher from a log, and tell what the log says about the clone from what only playing shows;
- find a column that makes the loss perfect and the clone useless;
- give more weight to what ended well, so that the clone plays better than the log does on average;
- do the same with RLlib, without any environment.
"""

# %%
import tempfile
import time
from pathlib import Path

import gymnasium
import matplotlib.pyplot as plt
import numpy as np
import pandas
import ray
import torch
from sklearn.tree import DecisionTreeRegressor
from torch import nn

from coursekit import begin, budget, check, hint, passed, progress, quiz, solution
from coursekit.given.ch15_offline import brain, calm_data, expert, greedy, mean_return, novice, write_logs
from coursekit.given.ch15_offline import return_with_meter, with_motor

begin("ch15_offline")

# %%
ray.init(num_cpus=2, include_dashboard=False)
calm_data()  # Ray Data without progress bars, and with one reader for a small file instead of 32
torch.set_num_threads(1)  # networks as small as these gain nothing from more
keep = tempfile.TemporaryDirectory()  # for logs and checkpoints; it goes when the notebook is closed
folder = Path(keep.name)

# %% [markdown] tags=["notes"]
r"""
The run sheet plans ninety minutes, with `weights` and `beats_the_teacher` as homework.
No training here takes longer than a few seconds, so let the room predict every table before it appears.
The heart is the section about the meter: do not give the answer away, let someone in the room find it.
"""

# %% [markdown]
r"""
## Someone has already played

Every chapter so far let the agent try things.
With a crane you cannot: a network that swings a load over a harbour in order to find out is not an option.
But a crane keeps a **log**: what the operator saw, what the operator did, what came of it.
Learning from a log, without trying anything, is called **offline** reinforcement learning.

![Operators play and write rows into Parquet files; Ray Data reads them; a network learns to answer as the operators did; only at the end does it play itself](../img/ch15_offline.svg)

Our crane is CartPole: balance a load that stands on top of a cart.
Each step that it stays up earns 1, and after 500 steps the shift is over.
Two operators work on it.
Each sees position $x$, speed $v$, lean $\varphi$, and how fast the lean changes, $\dot\varphi$:

- the **expert** pushes to the right where $0.1\,x + 0.25\,v + \varphi + 0.5\,\dot\varphi > 0$, else to the left;
- the **novice** pushes to the right where $\varphi > 0$.

`mean_return` plays ten episodes, always from the same ten starts:
"""

# %% tags=["demo"]
for operator in (expert, novice):
    print(f"{operator.__name__:7} {mean_return(operator):6.1f}")

# %% [markdown]
r"""
The novice moves the cart to where the load leans, which is right, but ignores how fast the load falls.
"""

# %%
### BEGIN SOLUTION
what_is_offline = "b"
### END SOLUTION

# %%
quiz("what_is_offline", what_is_offline)

# %% [markdown]
r"""
## A row knows its episode

A log is a table, one row for each step.
RLlib reads these columns by these names; `t` is for *our* use.
Plain numbers, flags and NumPy arrays will do.

| column | what it holds |
|---|---|
| `eps_id` | the episode: the same for all of its rows, another for every other episode |
| `t` | the number of the step in its episode, from 0 |
| `obs` | what the operator saw *when choosing the action* |
| `actions` | what the operator did |
| `rewards` | what that step earned |
| `new_obs` | what was seen after it (the last row needs it: no row follows) |
| `terminateds`, `truncateds` | whether the episode ended with this step, by itself or because time was up (chapter 7) |

**Parquet** is the usual file format for such tables.
It stores each column in one piece, typed and compressed, so a reader that needs two columns reads only two.
Ray Data writes a *dataset* as a folder of such files, one for each of the dataset's *blocks*, so that many tasks can write and read side by side:

```python
ray.data.from_items(rows, override_num_blocks=2).write_parquet(folder)  # rows: a list of dicts
```

Write `record`.
For each seed it plays one episode from `env.reset(seed=seed)` to its end, with `policy(obs)`, which returns an action.
It writes all rows into `folder`, as `files` Parquet files.
Mind that a simulator may return *the same array* for every observation, and overwrite it at each step.
"""


# %%
def record(env, policy, seeds, folder, files):
    """Play an episode for each seed, and write all rows into a folder, as this number of Parquet files."""
    ### BEGIN SOLUTION
    rows = []
    for episode, seed in enumerate(seeds):
        obs, _ = env.reset(seed=seed)
        obs, t, over = obs.copy(), 0, False
        while not over:
            action = policy(obs)
            new_obs, reward, terminated, truncated, _ = env.step(action)
            new_obs, over = new_obs.copy(), terminated or truncated
            rows.append({
                "eps_id": episode, "t": t, "obs": obs, "actions": action, "rewards": float(reward),
                "new_obs": new_obs, "terminateds": terminated, "truncateds": truncated,
            })  # fmt: skip
            obs, t = new_obs, t + 1
    ray.data.from_items(rows, override_num_blocks=files).write_parquet(folder)
    ### END SOLUTION


# %%
check("record", record)

# %% [markdown] tags=["solution"]
r"""
Without the copies, every row of an episode would point at one array and show the numbers of the last step.
Nothing warns you: the file is valid, and the clone learns nothing.
For a log that does not fit into memory, let a task write each episode: `ray.data.from_items(seeds).flat_map(play_one).write_parquet(folder)`.
"""

# %% tags=["demo"]
if passed("record"):
    mine = Path(tempfile.mkdtemp(dir=folder)) / "mine"  # another each time: `write_parquet` adds to what is there
    record(gymnasium.make("CartPole-v1"), expert, range(3), str(mine), files=2)
    for path in sorted(mine.iterdir()):
        print(f"{path.suffix}, {path.stat().st_size:,} bytes")
    print(ray.data.read_parquet(str(mine)).schema())

# %% [markdown]
r"""
## Look at a log before you learn from it

The crane has four logs.
One is the **expert's**.
One comes from a **shaky** expert, half of whose actions are coin flips.
One is **mixed**: 250 episodes of novices and 3 of the expert, in one table, and no column says who it was.
And in one shift the operator only flipped **coins**.

`materialize()` reads the files once and keeps the rows in the object store; without it, Ray Data would read them again in every epoch.
"""

# %% tags=["demo"]
write_logs(folder)
names = ["expert", "shaky", "mixed", "coins"]
logs = {name: ray.data.read_parquet(str(folder / name)).materialize() for name in names}
frames = {name: log.to_pandas() for name, log in logs.items()}
returns = {name: frame.groupby("eps_id")["rewards"].sum() for name, frame in frames.items()}

# %% tags=["demo"]
figure, axes = plt.subplots(figsize=(7, 2.6), constrained_layout=True)
for place, each in enumerate(returns.values()):
    axes.scatter(each, place + np.random.default_rng(0).uniform(-0.25, 0.25, len(each)), s=8, color="#7c3aed")
axes.set(yticks=range(4), yticklabels=returns, xlabel="return of an episode, one dot each", title="Four logs")
axes.invert_yaxis()
by_the_expert = returns["mixed"][returns["mixed"] > 200]
print(f"mixed, the expert's share of the episodes: {len(by_the_expert) / len(returns['mixed']):.0%}")
print(f"mixed, the expert's share of the rows:     {by_the_expert.sum() / returns['mixed'].sum():.0%}")

# %% [markdown]
r"""
In the mixed log, the expert has one per cent of the episodes and about an eighth of the rows, since a good episode is longer.
So the novices outvote the expert, seven to one.
Remember that ratio.
Where dots lie on top of each other, as the expert's all do at 500, you see fewer than there are.

## A test can be too kind

Before you train anything, put something aside for the test.
The crane's office wants an early warning: from what the operator sees, predict **how many steps are left** until the episode ends.
The shaky operator's log has one more column, the outside temperature.
A decision tree gets it as well, and the number of the step.

**Predict:** the tree is tested on a quarter of the rows that it has not seen.
How much of the variation does it explain ($R^2$: 1 is all of it, 0 is none, and below 0 it is worse than always naming the mean)?
And how much without the temperature?
"""


# %% tags=["demo"]
def early_warning(frame, held_out, more=("t", "temperature")):
    """Return how much of the steps left a tree explains in the rows held out, from `obs` and these columns."""
    steps_left = frame.groupby("eps_id")["t"].transform("max") - frame["t"]
    seen = np.column_stack([np.stack(frame["obs"]), *(frame[name] for name in more)])
    tree = DecisionTreeRegressor(random_state=0).fit(seen[~held_out], steps_left[~held_out])
    return tree.score(seen[held_out], steps_left[held_out])


rows_apart = np.random.default_rng(0).random(len(frames["shaky"])) < 0.25
print(f"tested on unseen rows: {early_warning(frames['shaky'], rows_apart):.2f}")
print(f"without temperature:   {early_warning(frames['shaky'], rows_apart, more=['t']):.2f}")

# %% [markdown]
r"""
Splendid, and too good to be true: the temperature outside has nothing to do with the load, and yet the result depends almost entirely on it.
The temperature stays the same for a whole episode, so it serves as a name tag: the tree has met other rows of *this very episode*, knows how long it lasted, and only has to look at how late it is.
**Rows of one episode are neighbours**, and a test among neighbours tests memory.
Tomorrow's episodes have no neighbours in the log.

Write `hold_out`: draw `round(share * number of episodes)` **episodes**, and hold out all their rows.
The same seed must give the same episodes whatever the order of the rows, because Ray Data promises none between files.
"""


# %%
def hold_out(eps_ids, share, seed):
    """Return an array with True for each row that is held out: all rows of a share of the episodes."""
    ### BEGIN SOLUTION
    episodes = np.unique(eps_ids)  # sorted, so the order of the rows does not matter
    chosen = np.random.default_rng(seed).permutation(episodes)[: round(share * len(episodes))]
    return np.isin(eps_ids, chosen)
    ### END SOLUTION


# %%
check("hold_out", hold_out)

# %% [markdown] tags=["solution"]
r"""
A `set` of strings has another order in every new Python process, and that would change the test.
Where a log grows from day to day, take a hash of the episode's name instead of a draw, so that an episode never changes sides.
"""

# %% tags=["demo"]
if passed("hold_out"):
    scores = {"rows apart": early_warning(frames["shaky"], rows_apart)}
    episodes_apart = hold_out(frames["shaky"]["eps_id"].to_numpy(), 0.25, seed=0)
    scores["episodes apart"] = early_warning(frames["shaky"], episodes_apart)
    figure, axes = plt.subplots(figsize=(7, 1.8), constrained_layout=True)
    axes.barh(list(scores), list(scores.values()), color=["#64748b", "#059669"])
    axes.axvline(0, color="#94a3b8")
    axes.set(xlabel="explained, 1 is all", title="The same tree, tested in two ways")
    axes.invert_yaxis()

# %% [markdown]
r"""
The honest score is about 0, and mostly far below: in new episodes the tree does no better than naming the mean, and mostly worse.
The tree has not become worse; now you know.
Ray Data's `train_test_split` splits rows, too, so before you split, ask what a *neighbour* is in your data: an episode, a patient, a day.
"""

# %% [markdown]
r"""
## Cloning is classification

The simplest way to learn from a log is **behaviour cloning**.
Take what the operator saw as the input and what the operator did as the class, and train a classifier.
It needs no rewards, no values, no $\gamma$.
For a row with observation $o$ and action $a$, the loss is $-\log \pi(a \mid o)$: how much does the teacher's action surprise the network?
PyTorch computes it from the two scores that `brain()` gives: `nn.functional.cross_entropy(scores, actions)`.

A Ray dataset hands out batches of tensors, and shuffles within a buffer of rows:

```python
for batch in rows.iter_torch_batches(batch_size=128, local_shuffle_buffer_size=2000):
    batch["obs"]  # shape [128, 4]
```

Write `clone`: `epochs` times through the log in batches of 128, with Adam and a learning rate of 0.01.
The check lets it clone an expert on *another* crane, whose cables are connected in another order and perhaps with left and right swapped, so knowing CartPole by heart does not help.
Then the clone plays, and its mean return must be 450 or more.
The check also gives it a log whose operators disagree: there the network's probabilities (the softmax of its scores) should come near the shares of the log.
"""


# %%
def clone(rows, network, epochs):
    """Return the network, trained to do what the log's operators did; `rows` is a dataset."""
    ### BEGIN SOLUTION
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(epochs):
        for batch in rows.iter_torch_batches(batch_size=128, local_shuffle_buffer_size=2000):
            loss = nn.functional.cross_entropy(network(batch["obs"]), batch["actions"])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return network
    ### END SOLUTION


# %%
check("clone", clone)

# %% [markdown] tags=["solution"]
r"""
`local_shuffle_buffer_size` shuffles within a buffer, which is cheap; `rows.random_shuffle()` shuffles everything, and moves all rows through the object store for it.
A column of text, such as an `eps_id` that is a string, makes `iter_torch_batches` fail, because text cannot become a tensor: call `rows.select_columns(["obs", "actions"])` first.
"""

# %% [markdown]
r"""
Now clone all four.
The seed fixes the network's first weights.
The table shows two numbers from held-out episodes of the log: the loss, and how often the clone's favourite is what the operator did.
It shows one number from the environment: the return.
Your `hold_out` has drawn the episodes for the test, so the last line says how many of the expert's three in the mixed log are among them.

**Predict** the four returns of the clones.
Which are above their teacher's, and which below?
"""


# %% tags=["demo"]
def test(network, frame):
    """Return the loss and the share of agreement on the rows of a table."""
    obs = torch.tensor(np.stack(frame["obs"]))
    actions = torch.tensor(frame["actions"].to_numpy(dtype=np.int64))
    with torch.no_grad():
        scores = network(obs)
    agreement = (scores.argmax(1) == actions).float().mean()
    return float(nn.functional.cross_entropy(scores, actions)), float(agreement)


def split(frame):
    """Return the rows to learn from, as a dataset, and the rows of the held-out episodes, as a table."""
    held_out = hold_out(frame["eps_id"].to_numpy(), 0.2, seed=0)
    needed = ["eps_id", "t", "obs", "actions", "rewards"]
    return ray.data.from_pandas(frame.loc[~held_out, needed]), frame[held_out]


# %% tags=["demo"]
clones, epochs = {}, 8
if passed("clone") and passed("hold_out"):
    table = {}
    for name, frame in frames.items():
        torch.manual_seed(0)
        to_learn, to_test = split(frame)
        clones[name] = clone(to_learn, brain(), epochs=epochs)
        loss, agreement = test(clones[name], to_test)
        table[name] = [returns[name].mean(), loss, agreement, mean_return(greedy(clones[name]))]
    columns = ["teacher's return", "loss", "agreement", "clone's return"]
    display(pandas.DataFrame(table, index=columns).T.round(2))
    tested = by_the_expert.index.isin(split(frames["mixed"])[1]["eps_id"])
    print(f"mixed: {tested.sum()} of the expert's 3 episodes are held out for the test")

# %% [markdown]
r"""
Read it line by line.

- **expert**: the clone reaches the teacher.
- **shaky**: the loss is bad, the agreement is bad, and the clone plays *far better than its teacher*.
  Why?
  That is the next question.
- **mixed**: it plays mostly like a novice, since it does what the majority did, and the majority were novices.
  What the test says depends on how many of the expert's three episodes it holds: each of them raises the loss.
- **coins**: the agreement is that of a coin.
  There is nothing to imitate, and what the clone does is chance: try another `manual_seed`.
  Often it pushes to one side only and drops the load after 9 or 10 steps, sooner than its teacher.

Loss and agreement say how well the clone predicts *these operators*.
You cannot compare them across logs, and neither of them is the return.
"""

# %%
### BEGIN SOLUTION
better_than_shaky = "b"
### END SOLUTION

# %%
quiz("better_than_shaky", better_than_shaky)

# %% [markdown]
r"""
## The best loss of the day drops the load

The expert's log turns out to have another column: the meter of the motor, in newtons, +10 while it pushes to the right and −10 to the left.
More information cannot hurt, can it?
`with_motor(rows)` puts the meter beside the four numbers of the observation, and everything else stays as it was.

**Predict:** the held-out loss of a clone that also sees the meter; then its return.
"""

# %% tags=["demo"]
if clones:
    to_learn, to_test = split(frames["expert"])
    torch.manual_seed(0)
    metered = clone(with_motor(to_learn), brain(inputs=5), epochs=epochs)
    rows = {
        "four numbers": [*test(clones["expert"], to_test), mean_return(greedy(clones["expert"]))],
        "and the meter": [
            *test(metered, with_motor(ray.data.from_pandas(to_test)).to_pandas()),
            return_with_meter(greedy(metered)),
        ],
    }
    display(pandas.DataFrame(rows, index=["loss", "agreement", "return"]).T.round(3))

# %% [markdown]
r"""
A perfect score, on held-out *episodes*, and a load on the ground after a few steps.

![In the log, a row's meter shows the push of the row's own action; while playing, at the moment of choosing, the meter still shows the push before](../img/ch15_meter.svg)

The crane writes a row when its step is *over*.
The meter in it shows the push that this row's action has caused: the answer stands beside the question.
The clone learned to copy it, and hardly anything else.
When it plays, the meter still shows the *last* push, so the clone repeats it, again and again, until the load is down.

No split finds that, since every episode leaks alike.
You find it by asking when each number is known, and by playing.
"""

# %%
### BEGIN SOLUTION
find_the_leak = "c"
### END SOLUTION

# %%
quiz("find_the_leak", find_the_leak)

# %% [markdown] tags=["notes"]
r"""
Ask for leaks people have met: a hospital's number that is assigned only after the diagnosis, a price series adjusted afterwards, `new_obs` joined by mistake.
Then ask what to do where playing is forbidden, as on a real crane.
Test in a simulator, let the clone advise while a human acts, and start with light loads.
Estimates from the log alone exist, and they are shaky where the clone does what no row shows.
"""

# %% [markdown]
r"""
## Imitate what ended well

Back to the mixed log.
It holds three episodes that show how it is done, and the clone followed the other 250.
But the log says who did well, in its column of rewards.
Cloning just did not look at it.

For each row, add up what came after, discounted, in its own episode: the **return-to-go** $R_t = \sum_{k \ge 0} \gamma^k r_{t+k}$.
How far that lies above the mean, measured in standard deviations, is the row's **advantage** $A_t$, and a weight $w_t$ multiplies its loss.
Mean and deviation are those of all rows of the log.
Use `np.std`: the `std` of pandas and of torch divides by one row less, and comes out a little larger.

$$A_t = \frac{R_t - \text{mean of all } R}{\text{standard deviation of all } R}, \qquad w_t = \frac{e^{\beta A_t}}{\text{mean of all } e^{\beta A}} .$$

$\beta = 0$ is cloning; the larger $\beta$ is, the more the clone listens only to what went well.
This is the idea of **MARWIL** (Wang et al. 2018), whose advantage compares with what a critic expects in that state; the mean of all rows is the simplest critic there is.

Write `weights`.
`eps_ids`, `t` and `rewards` are arrays with one number for each row, and so is what it returns.
The rows come **in any order**.
"""


# %%
def weights(eps_ids, t, rewards, gamma, beta):
    """Return an array with a weight for each row, their mean 1: exp(beta * advantage), divided by the mean of all."""
    ### BEGIN SOLUTION
    togo, after = np.zeros(len(rewards)), {}
    for row in np.argsort(-t):  # the last steps first: what comes after a row is known when it is its turn
        togo[row] = rewards[row] + gamma * after.get(eps_ids[row], 0.0)
        after[eps_ids[row]] = togo[row]
    weight = np.exp(beta * (togo - togo.mean()) / togo.std())
    return weight / weight.mean()
    ### END SOLUTION


# %%
check("weights", weights)

# %% [markdown] tags=["solution"]
r"""
An episode that was *truncated* would have continued, so the last rows of the expert's episodes look worse than they are.
A critic would put the value of the last observation there (chapter 8, `gae`).
Here a few rows of 500 do not matter.
"""

# %% tags=["demo"]
if passed("weights"):
    mix = frames["mixed"]
    columns = [mix[name].to_numpy() for name in ("eps_id", "t", "rewards")]
    expert_rows = mix["eps_id"].isin(by_the_expert.index).to_numpy()
    for beta in (0, 1, 3):
        heard = weights(*columns, gamma=0.99, beta=beta)
        print(f"beta {beta}: the expert's rows have {heard[expert_rows].sum() / heard.sum():.0%} of the votes")

# %% [markdown]
r"""
Now put it together.
`beats_the_teacher` gets the mixed log of another crane as a dataset, a network, and the number of epochs, and returns the trained network.
Its mean return must be 450 or more; the log's is about 50.
Weights are one way; any that learns from the log will do.
`ray.data.from_pandas(frame)` makes a dataset of a table, new columns included, and `cross_entropy(..., reduction="none")` gives one loss for each row.
"""


# %%
def beats_the_teacher(rows, network, epochs):
    """Return the network, trained so that it plays far better than the log does on average."""
    ### BEGIN SOLUTION
    frame = rows.to_pandas()
    columns = [frame[name].to_numpy() for name in ("eps_id", "t", "rewards")]
    frame["weight"] = weights(*columns, gamma=0.99, beta=3.0).astype(np.float32)
    weighted = ray.data.from_pandas(frame[["obs", "actions", "weight"]])
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(epochs):
        for batch in weighted.iter_torch_batches(batch_size=128, local_shuffle_buffer_size=2000):
            losses = nn.functional.cross_entropy(network(batch["obs"]), batch["actions"], reduction="none")
            optimiser.zero_grad()
            (batch["weight"] * losses).mean().backward()
            optimiser.step()
    return network
    ### END SOLUTION


# %%
check("beats_the_teacher", beats_the_teacher)

# %% [markdown] tags=["solution"]
r"""
Keeping only the best episodes and cloning them works here, too, and is a good first thing to try.
It throws whole episodes away, though; weights judge row by row, and so can learn from an operator who is good only in parts.
"""

# %% tags=["demo"]
if clones and passed("beats_the_teacher"):
    torch.manual_seed(0)
    weighed = beats_the_teacher(logs["mixed"], brain(), epochs=epochs)  # the whole log: playing is the test
    bars = {"log, on average": returns["mixed"].mean(), "its clone, above": mean_return(greedy(clones["mixed"]))}
    bars["weighed"] = mean_return(greedy(weighed))
    figure, axes = plt.subplots(figsize=(7, 1.9), constrained_layout=True)
    axes.barh(list(bars), list(bars.values()), color=["#64748b", "#7c3aed", "#059669"])
    axes.set(xlim=(0, 510), xlabel="mean return", title="The same mixed log")
    axes.invert_yaxis()

# %% [markdown]
r"""
The clone beats its teachers *on average*, because one of them was good.
What if none is?
The best of the coin flippers' 150 episodes is far from 500.
A weight of 3 counts as much as a row that comes three times, so draw the rows of that log as often as their weights say, and clone what was drawn.
$\gamma$ and $\beta$ are smaller than above, because most of what happened to a coin was luck.

**Predict:** what does that clone earn, compared with the best episode of the log: less, as much, more?
"""

# %% tags=["demo"]
if clones and passed("weights"):
    flips = frames["coins"][["eps_id", "t", "obs", "actions", "rewards"]]
    columns = [flips[name].to_numpy() for name in ("eps_id", "t", "rewards")]
    heard = weights(*columns, gamma=0.9, beta=1)  # 0.9: what comes much later is the work of other coins
    drawn = flips.sample(2 * len(flips), replace=True, weights=heard, random_state=0, ignore_index=True)  # twice as many, so that few are left out
    torch.manual_seed(0)
    of_flips = clone(ray.data.from_pandas(drawn[["obs", "actions"]]), brain(), epochs=epochs)
    print(f"coins, on average {returns['coins'].mean():.0f}, the best episode {returns['coins'].max():.0f}")
    print(f"its clone, above  {mean_return(greedy(clones['coins'])):.0f}")
    print(f"weighed           {mean_return(greedy(of_flips)):.0f}")

# %% [markdown]
r"""
As a rule far more than the best episode, although none of those operators could play.
The coins have tried both actions in all kinds of states, and the weights tell which went better.
The log took the better one half of the time; the clone takes it again and again.
So weights put good rows of *different* episodes together.
They cannot choose an action that no row took there, or find a difference where all did equally well.

More is not always better.
With `gamma=0.99, beta=3`, which served the mixed log so well, nearly all votes go to one tenth of these rows, the lucky ones, and the clone mostly plays far worse.
Try it.

Methods that learn values offline (RLlib has **CQL** and **IQL**) go a step further: they ask what a row is worth if *better* actions follow it than those of the log.
They have to be held back from actions that the log never shows, because they know nothing about those.
"""

# %%
### BEGIN SOLUTION
beyond_the_expert = "a"
### END SOLUTION

# %%
quiz("beyond_the_expert", beyond_the_expert)

# %% [markdown]
r"""
## RLlib clones from the same files, and needs no environment

RLlib's `BC` reads the folder as it is.
It has no environment to ask, so the config names the two *spaces* instead.
`dataset_num_iters_per_learner=1` makes one `train()` one update with one batch.
Reading and preparing run in Ray Data, in actors of their own, so that a learner on a GPU need not wait for files; one actor is enough here.
"""

# %% tags=["demo"]
from ray.rllib.algorithms.bc import BCConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.rl_module import RLModule

cartpole = gymnasium.make("CartPole-v1")
config = (
    BCConfig()
    .environment(observation_space=cartpole.observation_space, action_space=cartpole.action_space)
    .offline_data(
        input_=[str(folder / "expert")],
        dataset_num_iters_per_learner=1,
        map_batches_kwargs={"concurrency": 1, "num_cpus": 1},  # one actor prepares the batches
    )
    .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64]))
    .training(train_batch_size_per_learner=128, lr=0.01)
    .debugging(seed=0, log_sys_usage=False)
)

# %% tags=["demo"]
if passed("clone"):
    algo, losses, marks = config.build_algo(), [], [time.perf_counter()]
    try:
        for _ in range(budget(600, 250)):
            losses.append(algo.train()["learners"]["default_policy"]["policy_loss"])
            marks.append(time.perf_counter())
        algo.save_to_path(folder / "rllib")
    finally:
        algo.stop()
    print(f"first iteration {marks[1] - marks[0]:.1f} s, all others together {marks[-1] - marks[1]:.1f} s")
    figure, axes = plt.subplots(figsize=(7, 2.2), constrained_layout=True)
    axes.plot(losses, color="#059669", linewidth=0.8)
    axes.set(xlabel="iteration", ylabel="loss", title="RLlib's BC on the expert's log", ylim=(0, None))

# %% [markdown]
r"""
The first iteration starts Ray Data's processes; the others take batches that lie ready.
Dips that come back every 47 iterations are no progress: 6,000 rows are 47 batches, and RLlib takes them in the order of the files, unlike your `clone`.
And a loss is not a return.
RLlib keeps a folder with a network in it (chapter 11), so let it play:
"""

# %% tags=["demo"]
if (folder / "rllib").exists():
    parts = "learner_group", "learner", "rl_module", "default_policy"
    module = RLModule.from_checkpoint(folder.joinpath("rllib", *parts))
    play_it = greedy(lambda obs: module.forward_inference({"obs": obs})["action_dist_inputs"])
    print(f"return of RLlib's clone: {mean_return(play_it):.0f}")

# %% [markdown]
r"""
`MARWILConfig().training(beta=1.0)` is the same with weights, and a critic.
It weighs by what came *after* a row, so it wants whole episodes (`input_read_episodes=True`), such as an EnvRunner writes while it plays with `config.offline_data(output=folder)`.
From single rows, as in our files, RLlib makes episodes of one step each, and all that came later is the critic's guess.

Without an environment to play in, RLlib can evaluate on a log, with `.evaluation(offline_evaluation_interval=50)`: by the loss, or by importance sampling, which needs a log that says how probable each action was.
Older tutorials write JSON files and `input_evaluation`: see [Old names](../docs/old_names.md).
"""

# %%
ray.shutdown()

# %% [markdown]
r"""
## What you can do now

- You write experience as rows that RLlib can read, and read them with Ray Data.
- You hold out episodes, and know what a test among neighbours is worth.
- You clone a teacher, and look in the log for the majority that the clone will follow.
- You ask of every column when it is known, and let the clone play before you believe a loss.
- You weigh rows by what came after them, and know what a weight can choose from: the actions that are in the log.

## Traps

- **An array that the simulator overwrites** makes all rows of an episode equal: keep copies.
- **`from_items` without `override_num_blocks`** writes up to 200 files, and each has its cost.
- **A dataset that is not materialized** is read again in every epoch.
- **Rows of one episode on both sides** of a split: the test measures memory.
- **A number that is known only afterwards** gives the best loss, and a clone that copies it.
- **The majority** of rows decides what a clone does, not the best of them.
- **Whole episodes need a package**, msgpack-numpy, that Ray 2.60 does not install: for writing as well as for reading.
- **`algo.get_module()` fails** on RLlib's BC: it asks an EnvRunner, and there is none.
  Save the algorithm, and load the module from the folder.

## Read on

- [Chapter 17](ch17_data_train.ipynb) does more with Ray Data and trains on several workers.
- RLlib's documentation: [offline RL](https://docs.ray.io/en/latest/rllib/rllib-offline.html); Ray Data's: [loading data](https://docs.ray.io/en/latest/data/loading-data.html).
- Wang et al., *Exponentially weighted imitation learning for batched historical data*, NeurIPS 2018: MARWIL.
- de Haan, Jayaraman and Levine, *Causal confusion in imitation learning*, NeurIPS 2019: clones that copy what they did last.
- Levine et al., [*Offline reinforcement learning: tutorial, review, and perspectives on open problems*](https://arxiv.org/abs/2005.01643), 2020.
"""
