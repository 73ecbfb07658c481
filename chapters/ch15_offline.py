# %% [markdown] you_learn_to="record, clone, and learn from experience that others had"
r"""
# Chapter 15 · Offline reinforcement learning

A cloned policy follows the majority of its data, and only an evaluation in the environment shows how good that is.

*About 100 minutes · builds on [Chapter 7](ch07_environments.ipynb), [Chapter 9](ch09_dqn.ipynb), [Chapter 10](ch10_actor_learner.ipynb) and [Chapter 11](ch11_rllib_ppo.ipynb)*

**What you will be able to do**

- record experience as rows in Parquet files, in the form that RLlib reads;
- read it with Ray Data, look at it before you learn from it, and hold out episodes rather than rows;
- clone a teacher from a log, and separate what the log says about the clone from what only playing shows;
- find the column that makes the loss perfect and the clone useless;
- give more weight to what ended well, so the clone plays better than the log's average;
- learn values from a log, and keep them from believing in actions it does not show;
- clone with RLlib without an environment, and let it test on a log it has not learned from.
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
ray.shutdown()  # ends a Ray that already runs here: its references and actors are gone
ray.init(num_cpus=2, include_dashboard=False)
calm_data()  # Ray Data without progress bars, and with one reader for a small file instead of 32
torch.set_num_threads(1)  # networks as small as these gain nothing from more
keep = tempfile.TemporaryDirectory()  # for logs and checkpoints; it goes when the notebook is closed
folder = Path(keep.name)

# %% [markdown] tags=["notes"]
r"""
The run sheet plans a hundred minutes, with `weights` and `beats_the_teacher` as homework.
All training here takes at most a few seconds, so let the room predict every table before it appears.
The heart is the section about the meter: don't give the answer away; let someone find it.
"""

# %% [markdown]
r"""
## Someone has already played

So far the agent could always try things.
On a crane it can't: you would not let a network swing a load over a harbour just to find out.
But a crane keeps a **log**: what the operator saw, what the operator did, what came of it.
Learning from a log, without trying anything, is called **offline** reinforcement learning.

![Operators play and write rows into Parquet files; Ray Data reads them; a network learns to answer as the operators did; only at the end does it play itself](../img/ch15_offline.svg)

Our crane is CartPole: balance a load on top of a cart.
Each step that it stays up earns 1, and after 500 steps the shift is over.
Its two operators see position $x$, speed $v$, lean $\varphi$, and how fast the lean changes, $\dot\varphi$:

- the **expert** pushes to the right when $0.1\,x + 0.25\,v + \varphi + 0.5\,\dot\varphi > 0$, else to the left;
- the **novice** pushes to the right when $\varphi > 0$.

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
RLlib expects these names, except `t`, which is for us.
Plain numbers, flags and NumPy arrays will do.

| column | what it holds |
|---|---|
| `eps_id` | the name of the episode, a number or a text: the same in all its rows, and in no other episode |
| `t` | the number of the step in its episode, from 0 |
| `obs` | what the operator saw *when choosing the action* |
| `actions` | what the operator did |
| `rewards` | what that step earned |
| `new_obs` | what the operator saw after it; for the last row, no other column tells |
| `terminateds`, `truncateds` | whether the episode ended with this step, by itself or because time ran out: [Chapter 7](ch07_environments.ipynb) |

**Parquet** is the usual file format for such tables.
It stores each column in one piece, typed and compressed, so a reader that needs two columns reads only two.
Ray Data writes a *dataset* as a folder of such files, one for each of its *blocks*; tasks can write and read them side by side:

```python
ray.data.from_items(rows, override_num_blocks=2).write_parquet(folder)  # rows: a list of dicts
```

Write `record`.
For each seed it plays one episode from `env.reset(seed=seed)` to its end, with `policy(obs)`, which returns an action.
It writes all rows into `folder`, as `files` Parquet files.
Be careful: a simulator may return *the same array* for every observation and overwrite it at each step.
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
Without the copies, every row would point at one array and show the simulator's last numbers.
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
One is **mixed**: 250 episodes of novices and 3 of the expert, with no column that says whose.
In the last, the operator only flipped **coins**.

`materialize()` reads the files once and keeps the rows in the object store; without it, Ray Data reads them again each time.
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
So the novices outvote the expert, seven to one: remember that ratio.
Dots on top of each other, such as the expert's at 500, look fewer than they are.

## A test can be too kind

Before you train anything, set data aside for the test.
The crane's office wants an early warning: from what the operator sees, predict **how many steps are left** in the episode.
The shaky operator's log has one more column, the outside temperature.
A decision tree gets both, and the number of the step.
Its score is $R^2$: 1 means that it explains all the variation, 0 none, and below 0 it does worse than always naming the mean.

**Predict:** the tree learns from three quarters of the rows, and the other quarter tests it.
What is its $R^2$, and what is it without the temperature?
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
Splendid, and too good to be true: the outside temperature has nothing to do with the load, yet the score depends almost entirely on it.
It stays the same for a whole episode, so it serves as a name tag: the tree has met other rows of *this very episode*, knows how long it lasted, and only has to subtract the number of the step.
**Rows of one episode are neighbours**, and a test among neighbours tests memory.
Tomorrow's episodes have no neighbours in the log.

Write `hold_out`: draw `round(share * number of episodes)` **episodes**, and hold out all their rows.
The same seed must give the same episodes in whatever order the rows come, because Ray Data may return files in any order.
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
A `set` of strings has another order in every new Python process, and so would your test.
If a log grows from day to day, decide by a stable hash of the episode's name, such as `zlib.crc32`, instead of a draw: then an episode never changes sides.
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
The honest score is about 0 or far below: in new episodes the tree does no better than naming the mean, and mostly worse.
The tree has not changed; only the test has.
Ray Data's `train_test_split` splits by rows, so before you split, ask what makes rows *neighbours* in your data: an episode, a patient, a day.
"""

# %% [markdown]
r"""
## Cloning is classification

The simplest way to learn from a log is **behaviour cloning**: take what the operator saw as the input and what the operator did as the class, and train a classifier.
It needs no rewards, no values, no $\gamma$.
For a row with observation $o$ and action $a$, the loss is $-\log \pi(a \mid o)$: how much does the teacher's action surprise the network?
`brain()` makes a network with two scores, one for each action, and PyTorch computes the loss from them: `nn.functional.cross_entropy(scores, actions)`.

A Ray dataset hands out batches of tensors, and can shuffle within a buffer of rows:

```python
for batch in rows.iter_torch_batches(batch_size=128, local_shuffle_buffer_size=2000):
    batch["obs"]  # shape [128, 4]
```

Write `clone`: go `epochs` times through the log in batches of 128, with Adam and a learning rate of 0.01.
The check gives it the log of an expert on *another* crane, with cables in another order and perhaps left and right swapped, so knowing CartPole by heart does not help.
Then the clone plays, and its mean return must be 450 or more.
The check also gives it a log whose operators disagree: there the network's probabilities, the softmax of its scores, should come near the shares in the log.
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
`local_shuffle_buffer_size` shuffles within a buffer, which is cheap; `rows.random_shuffle()` shuffles everything, and so moves all rows through the object store.
A column of text, such as an `eps_id` that is a string, makes `iter_torch_batches` fail, because text cannot become a tensor: call `rows.select_columns(["obs", "actions"])` first.
"""

# %% [markdown]
r"""
Now clone all four.
The seed fixes the network's first weights.
The table shows two numbers from held-out episodes of the log: the loss, and the agreement, how often the clone's favourite is what the operator did.
A third number comes from the environment: the return when `greedy` plays the clone's favourites.
Your `hold_out` draws the test episodes, so the last line says how many of the expert's three in the mixed log are among them.

**Predict** the clones' four returns.
Which clones play better than their teacher, and which worse?
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
  *Why* is the next question.
- **mixed**: the clone plays mostly like a novice, since it does what the majority of the rows did.
  Its loss depends on how many of the expert's three episodes are in the test: each raises it.
- **coins**: the agreement is that of a coin.
  There is nothing to imitate, and what the clone does is chance: try another `manual_seed`.
  Often it pushes only to one side and drops the load after 9 or 10 steps, sooner than its teacher.

Loss and agreement say how well the clone predicts *these operators*.
You cannot compare them across logs, and neither is the return.
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

The expert's log turns out to have another column: the motor's meter, in newtons, +10 while the motor pushes to the right and −10 to the left.
More information cannot hurt, can it?
`with_motor(rows)` puts the meter beside the observation's four numbers, and changes nothing else.

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
A perfect score on held-out *episodes*, and a load on the ground after a few steps.

![In the log, a row's meter shows the push of the row's own action; while playing, at the moment of choosing, the meter still shows the push before](../img/ch15_meter.svg)

The crane writes a row when its step is *over*.
The row's meter shows the push of its own action: the answer stands beside the question.
The clone learned to copy it, and little else.
When it plays, the meter still shows the *last* push, so the clone repeats it, again and again, until the load is down.

No split can find that, since every episode leaks alike.
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
Then ask what to do when playing is forbidden, as on a real crane: test in a simulator, let the clone advise while a human acts, and start with light loads.
Estimates from the log alone exist, but are shaky where the clone does what no row shows.
RLlib's own are wrong as well in Ray 2.60, as the last section says: see `OfflinePolicyEvaluationRunner._evaluate`.
"""

# %% [markdown]
r"""
## Imitate what ended well

Back to the mixed log.
Three of its episodes show how it is done, and the clone followed the other 250.
The rewards say who did well, but cloning did not look at them.

For each row, add up the rewards from this step to the end of its episode, discounted: the **return-to-go** $R_t = \sum_{k \ge 0} \gamma^k r_{t+k}$.
How far that lies above the mean, in standard deviations, is the row's **advantage** $A_t$, and a weight $w_t$ multiplies its loss.
Take the mean and the deviation over all rows of the log, with `np.std`: the `std` of pandas and of torch divides by one row less, and comes out a little larger.

$$A_t = \frac{R_t - \text{mean of all } R}{\text{standard deviation of all } R}, \qquad w_t = \frac{e^{\beta A_t}}{\text{mean of all } e^{\beta A}} .$$

$\beta = 0$ is cloning; the larger $\beta$ is, the more the clone listens only to what went well.
This is the idea of **MARWIL** (Wang et al. 2018), whose advantage compares with what a critic expects in that state; the mean of all rows is the simplest critic.

Write `weights`.
It gets the arrays `eps_ids`, `t` and `rewards`, with one entry for each row, and returns such an array.
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
A critic would add the last observation's value there, as `gae` does in [Chapter 8](ch08_rollouts.ipynb).
Here enough rows of each episode remain.
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
Now put it together: `beats_the_teacher` gets the mixed log of another crane as a dataset, a network, and the number of epochs, and returns the trained network.
The network's mean return must be 450 or more; the log's is about 50.
Weights are one way; any that learns from the log will do.
`ray.data.from_pandas(frame)` makes a dataset from a table, new columns included, and `cross_entropy(..., reduction="none")` gives one loss for each row.
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
Cloning only the best episodes works here, too, and is a good first thing to try.
But it throws whole episodes away; weights judge row by row, and so can learn from an operator who is good only in parts.
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
The clone beats its teachers' *average*, because one of them was good.
What if none is?
The best of the coin flippers' 150 episodes is far from 500.
A row with weight 3 counts as much as three rows, so instead of multiplying losses you can draw rows, each as often as its weight says, and clone those.
$\gamma$ and $\beta$ are smaller than above, because most of what followed a flip was luck.

**Predict:** what does that clone earn compared with the log's best episode: less, as much, more?
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
As a rule it earns far more than the best episode, although none of those operators could play.
The coins tried both actions in all kinds of states, and the weights tell which went better.
The log took the better one half of the time; the clone takes it again and again.
So weights put good rows of *different* episodes together.
They cannot choose an action that no row took, or find a difference where all did equally well.

More is not always better.
With `gamma=0.99, beta=3`, which served the mixed log so well, nearly all votes go to one tenth of these rows, the lucky ones, and the clone mostly plays far worse.
Try it.
"""

# %%
### BEGIN SOLUTION
beyond_the_expert = "a"
### END SOLUTION

# %%
quiz("beyond_the_expert", beyond_the_expert)

# %% [markdown]
r"""
## Values from a log must not believe in actions that it does not show

A weight asks what came after a row.
A *value* says what the row's action is worth if **better** actions follow than those of the log.
[Chapter 9](ch09_dqn.ipynb) learned such values, and its targets took the maximum over all actions.
From a log, that goes wrong: the network knows nothing about an action that no row shows; the maximum picks what it overrates, and no experience corrects it.
Two methods hold the values back.
**CQL** (Kumar et al. 2020) pushes down the values of actions the log does not show.
**IQL** (Kostrikov et al. 2021) never asks about them: its target is the reward plus $\gamma V(s')$, and $V$ leans towards the better of the actions that the log *did* take.
If an action is worth more than $V$, the squared error counts 0.6, otherwise 0.4.
With equal weights, $V$ would be the mean of what the log did; the closer the first weight is to 1, the closer $V$ comes to the best of it.
Then the policy clones, weighed by $e^{\beta (Q - V)}$: your `weights` with a learned critic.
"""


# %%
def iql_loss(rows, q, slow_q, value, policy, gamma=0.9, expectile=0.6, beta=2.0):
    """Return the losses of Q, V and policy together, as one number; `rows` is a dict of tensors, one row each (Kostrikov et al. 2021)."""
    did = rows["actions"][:, None]
    with torch.no_grad():
        worth = slow_q(rows["obs"]).gather(1, did)[:, 0]  # of what the log did; the slow copy is chapter 9's target network
        target = rows["rewards"] + gamma * value(rows["new_obs"])[:, 0] * ~rows["terminateds"]
    better = worth - value(rows["obs"])[:, 0]
    value_loss = torch.where(better > 0, expectile, 1 - expectile) * better**2
    q_loss = (q(rows["obs"]).gather(1, did)[:, 0] - target) ** 2
    surprise = nn.functional.cross_entropy(policy(rows["obs"]), rows["actions"], reduction="none")
    policy_loss = torch.exp(beta * better.detach()).clamp(max=100) * surprise
    return (value_loss + q_loss + policy_loss).mean()


# %% tags=["demo"]
if clones and passed("weights"):
    torch.manual_seed(0)
    needed = {"obs": np.float32, "new_obs": np.float32, "actions": int, "rewards": np.float32, "terminateds": bool}
    table = {name: torch.tensor(np.stack(frames["coins"][name]).astype(kind)) for name, kind in needed.items()}
    q, slow_q, policy, value = brain(), brain(), brain(), nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1))
    optimiser = torch.optim.Adam([*q.parameters(), *policy.parameters(), *value.parameters()], lr=0.01)
    for _ in range(budget(2000, 700)):
        chosen = torch.randint(len(table["obs"]), (512,))
        optimiser.zero_grad()
        iql_loss({name: column[chosen] for name, column in table.items()}, q, slow_q, value, policy).backward()
        optimiser.step()
        for slow, fast in zip(slow_q.parameters(), q.parameters(), strict=True):
            slow.data.lerp_(fast.data, 0.03)  # three per cent of the way
    for name, network in {"its clone, above": clones["coins"], "weighed": of_flips, "IQL": policy}.items():
        print(f"coins, {name:16} {mean_return(greedy(network)):.0f}")

# %% [markdown]
r"""
Weights and IQL both learn from coin flips what no coin could do.
Which is ahead changes with the seed, so one table decides nothing ([Chapter 12](ch12_env_runners.ipynb)).
Values pay off when the good parts of a task lie in different episodes, since no single return shows them together.
RLlib has both methods, `IQLConfig` and `CQLConfig`, but in Ray 2.60 IQL and the loss of CQL are written for continuous actions, and our crane has two buttons.
"""

# %% [markdown]
r"""
## RLlib clones from the same files, and needs no environment

RLlib's `BC` reads a folder as it is.
It has no environment to ask, so the config names the two *spaces* instead.
With `dataset_num_iters_per_learner=1`, each `train()` makes one update with one batch.
Ray Data reads and prepares the batches in processes of its own, so a learner on a GPU need not wait for files; one actor is enough here.

RLlib can also test without an environment.
Every 25 iterations it takes a batch from the log that `evaluation_config` names, and computes the network's loss on it.
Without that line it would take the log it learns from, and the test would be too kind; so your `hold_out` divides the expert's log first.
"""

# %% tags=["demo"]
from ray.rllib.algorithms.bc import BCConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.rl_module import RLModule

# %% tags=["demo"]
if passed("hold_out"):
    held_out = hold_out(frames["expert"]["eps_id"].to_numpy(), 0.2, seed=0)
    for part, rows in {"learn": ~held_out, "test": held_out}.items():
        some = ray.data.from_pandas(frames["expert"][rows])
        some.write_parquet(str(folder / part), mode=ray.data.SaveMode.OVERWRITE)

# %% tags=["demo"]
cartpole = gymnasium.make("CartPole-v1")
config = (
    BCConfig()
    .environment(observation_space=cartpole.observation_space, action_space=cartpole.action_space)
    .offline_data(
        input_=[str(folder / "learn")],
        dataset_num_iters_per_learner=1,
        map_batches_kwargs={"concurrency": 1, "num_cpus": 0.5},  # one actor prepares the batches, another those of the test
    )
    .evaluation(
        offline_evaluation_interval=25,
        offline_eval_batch_size_per_runner=1000,
        evaluation_config=BCConfig.overrides(input_=[str(folder / "test")]),
    )
    .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64]))
    .training(train_batch_size_per_learner=128, lr=0.01)
    .debugging(seed=0, log_sys_usage=False)
)

# %% tags=["demo"]
if passed("clone") and passed("hold_out"):
    algo, losses, tests, marks = config.build_algo(), [], {}, [time.perf_counter()]
    try:
        for number in range(1, budget(600, 200) + 1):
            result = algo.train()
            losses.append(result["learners"]["default_policy"]["policy_loss"])
            if number % 25 == 0:  # in between, RLlib repeats the last test, or reports NaN
                tests[number] = result["evaluation"]["offline_eval_runners"]["default_policy"]["total_eval_loss"]
            marks.append(time.perf_counter())
        algo.save_to_path(folder / "rllib")
    finally:
        algo.stop()
    print(f"first iteration {marks[1] - marks[0]:.1f} s, all others together {marks[-1] - marks[1]:.1f} s")
    figure, axes = plt.subplots(figsize=(7, 2.2), constrained_layout=True)
    axes.plot(range(1, len(losses) + 1), losses, color="#059669", linewidth=0.8, label="batches it learns from")
    axes.plot(list(tests), list(tests.values()), "o", color="#7c3aed", label="episodes held out")
    axes.set(xlabel="iteration", ylabel="loss", title="RLlib's BC on the expert's log", ylim=(0, None))
    axes.legend()

# %% [markdown]
r"""
The first iteration starts Ray Data's processes; the others take ready batches.
Dips every 39 iterations are not progress: 5,000 rows are 39 batches, and RLlib takes them in the order of the files, unlike your `clone`.
The held-out loss falls too, so the clone has not just learned the log by heart.
But a loss is not a return.
The saved folder holds the network ([Chapter 11](ch11_rllib_ppo.ipynb)), so let it play:
"""

# %% tags=["demo"]
if (folder / "rllib").exists():
    parts = "learner_group", "learner", "rl_module", "default_policy"
    module = RLModule.from_checkpoint(folder.joinpath("rllib", *parts))
    play_it = greedy(lambda obs: module.forward_inference({"obs": obs})["action_dist_inputs"])
    print(f"return of RLlib's clone: {mean_return(play_it):.0f}")

# %% [markdown]
r"""
`MARWILConfig().training(beta=1.0)` adds weights and a critic.
It weighs by what came *after* a row, so it wants whole episodes, read with `input_read_episodes=True`; EnvRunners write such episodes while they play, with `config.offline_data(output=folder)`.
From single rows, as in our files, RLlib makes episodes of one step, and all that came later is the critic's guess.

For a *return* without playing, `offline_evaluation_type="is"` promises importance sampling: each episode of the log counts in proportion to how much more probable the new policy makes it.
It needs whole episodes, and a column `action_logp` with the log of each action's probability when chosen.
Do not rely on it in Ray 2.60: it weighs the actions that the new policy *draws*, not those in the log.
Older tutorials write JSON files and `input_evaluation`: see [Old names](../docs/old_names.md).
"""

# %%
ray.shutdown()

# %% [markdown]
r"""
## What you can do now

- You write experience as rows that RLlib can read, and read them with Ray Data.
- You hold out episodes, and know why a test among neighbours is worth little.
- You clone a teacher, and look in the log for the majority the clone will follow.
- You ask of every column when it is known, and let the clone play before you believe a loss.
- You weigh rows by what came after them, and know that a weight can choose only among the log's actions.
- You learn values from a log, and know why a maximum over all actions would ruin them.
- You let RLlib test on episodes it has not learned from.

## Traps

- **An array that the simulator overwrites** makes all rows of an episode equal: keep copies.
- **`from_items` without `override_num_blocks`** writes up to 200 files, and each has its cost.
- **A dataset that you don't materialize** is read again in every epoch.
- **Rows of one episode on both sides** of a split: the test measures memory.
- **A number that is known only afterwards** gives the best loss, and a clone that copies it.
- **RLlib's offline evaluation** reads the log it learns from, unless `evaluation_config` names another.
- **The majority** of rows decides what a clone does, not the best of them.
- **Whole episodes need msgpack-numpy**, for writing as well as for reading, and Ray 2.60 does not install that package.
- **`algo.get_module()` fails** on RLlib's BC, which has no EnvRunner to ask.
  Save the algorithm, and load the module from the folder.

## Read on

- [Chapter 17](ch17_data_train.ipynb) does more with Ray Data and trains on several workers.
- RLlib's documentation: [offline RL](https://docs.ray.io/en/latest/rllib/rllib-offline.html); Ray Data's: [loading data](https://docs.ray.io/en/latest/data/loading-data.html).
- Wang et al., *Exponentially weighted imitation learning for batched historical data*, NeurIPS 2018: MARWIL.
- Kumar et al., [*Conservative Q-Learning*](https://arxiv.org/abs/2006.04779), 2020: CQL.
  Kostrikov, Nair and Levine, [*Offline Reinforcement Learning with Implicit Q-Learning*](https://arxiv.org/abs/2110.06169), 2021: IQL.
- de Haan, Jayaraman and Levine, *Causal confusion in imitation learning*, NeurIPS 2019: clones that copy what they did last.
- Levine et al., [*Offline reinforcement learning: tutorial, review, and perspectives on open problems*](https://arxiv.org/abs/2005.01643), 2020.
"""
