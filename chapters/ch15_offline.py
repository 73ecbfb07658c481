# %% [markdown] you_learn_to="record experience, clone a policy from it, and learn without an environment"
r"""
# Chapter 15 · Offline reinforcement learning

A cloned policy follows the majority of its data, and only an evaluation in the environment shows how good the policy is.

*About 100 minutes · builds on [Chapter 7](ch07_environments.ipynb), [Chapter 9](ch09_dqn.ipynb), [Chapter 10](ch10_actor_learner.ipynb), and [Chapter 11](ch11_rllib_ppo.ipynb)*

**What you will be able to do**

- record experience in Parquet files, in the form that RLlib reads;
- inspect a dataset before you train on it, and hold out whole episodes for testing;
- clone a policy, and tell what its loss shows and what only an evaluation shows;
- find the column that makes the loss perfect and the policy useless;
- give good transitions more weight, so that the policy beats the average of its dataset;
- learn values from a dataset without trusting actions that aren't in it;
- train and test RLlib's BC without an environment.
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

from coursekit import begin, budget, check, explain, hint, measured, passed, predict, progress, puzzle, quiz, review
from coursekit import solution
from coursekit.given.ch15_offline import calm_data, expert, greedy, mean_return, novice, return_with_meter
from coursekit.given.ch15_offline import small_network, with_motor, write_datasets

begin("ch15_offline")

# %%
ray.shutdown()  # stops a Ray instance that's already running here: its references and actors are gone
ray.init(num_cpus=2, include_dashboard=False)
calm_data()  # Ray Data without progress bars, and with one reader instead of 32 for a small file
torch.set_num_threads(1)  # more threads gain nothing for networks this small
keep = tempfile.TemporaryDirectory()  # for datasets and checkpoints; it is deleted when the notebook is closed
folder = Path(keep.name)

# %% [markdown] tags=["notes"]
r"""
The run sheet allots a hundred minutes, with `weights` and `beats_the_teacher` as homework.
Each training run takes a few seconds at most, so have the room predict every table before it appears.
The section about the meter is the heart of the chapter: don't give the answer away, and let somebody find it.
"""

# %% [markdown]
r"""
## Offline RL learns from recorded experience alone

So far, the agent could always try an action and see what happened.
On a crane, it can't: you wouldn't let a network swing a load over a harbor just to find out.
But a crane can record what its operators saw, what they did, and what happened next.
Learning from such a dataset alone is called [offline RL](../docs/glossary.md#offline-rl).

![Operators act, and every transition is recorded in Parquet files; Ray Data reads them; the learner trains a network; only at the end is the network evaluated in the environment](../img/ch15_offline.svg)

Our crane is CartPole, which balances a load on top of a cart.
Each step earns 1, and an episode has at most 500 steps.
The crane's two operators see the position $x$, the speed $v$, the lean $\varphi$, and how fast the lean changes, $\dot\varphi$:

- the **expert** pushes right if $0.1\,x + 0.25\,v + \varphi + 0.5\,\dot\varphi > 0$, and left otherwise;
- the **novice** pushes right if $\varphi > 0$, and left otherwise.

The policy that collected a dataset, such as one of these two, is the dataset's [behavior policy](../docs/glossary.md#behavior-policy).
`mean_return` runs ten episodes, always from the same ten starting states:
"""

# %% tags=["demo"]
for operator in (expert, novice):
    print(f"{operator.__name__:7} {mean_return(operator):6.1f}")

# %% [markdown]
r"""
The novice moves the cart to the side where the load leans, which helps, but the novice ignores how fast the load is falling.
"""

# %%
### BEGIN SOLUTION
what_is_offline = "b"
### END SOLUTION

# %%
quiz("what_is_offline", what_is_offline)

# %% [markdown]
r"""
## Record transitions as rows in Parquet files

A dataset is a table with one row for each step, or *transition*.
RLlib reads these columns, except for `t`, which our own code needs:

| column | what it holds |
|---|---|
| `eps_id` | the episode's ID, a number or a string: the same in all of its rows, and in no others |
| `t` | the number of the step in its episode, starting at 0 |
| `obs` | the observation that the policy got *when it chose the action* |
| `actions`, `rewards` | the action, and the step's reward |
| `new_obs` | the observation after the step; at an episode's end, no other column has it |
| `terminateds`, `truncateds` | whether this step terminated or truncated the episode ([Chapter 7](ch07_environments.ipynb)) |

The usual file format is [Parquet](../docs/glossary.md#parquet), which stores the values of each column together, so a program can read only the columns that it needs.
Ray Data writes a dataset as a folder of Parquet files, one per *block*, and tasks write and read them in parallel:

```python
ray.data.from_items(rows, override_num_blocks=2).write_parquet(folder)  # rows: a list of dicts
```

Write `record`, which runs one episode for each seed: it calls `env.reset(seed=seed)`, and then takes the actions that `policy(obs)` returns until the episode ends.
No two seeds are equal.
It writes all transitions into `folder`, as `files` Parquet files.
A simulator may return *the same array* for every observation, and overwrite it at each step.
"""


# %%
def record(env, policy, seeds, folder, files):
    """Run an episode for each seed, and write all transitions into a folder, as `files` Parquet files."""
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
Without the copies, all rows would refer to one array, and they'd all hold the simulator's last observation.
Nothing warns you: the files are valid, and a policy trained on them learns nothing.
If a dataset doesn't fit in memory, run each episode in a task: `ray.data.from_items(seeds).flat_map(run_one).write_parquet(folder)`.
"""

# %% tags=["demo"]
if passed("record"):
    mine = Path(tempfile.mkdtemp(dir=folder)) / "mine"  # a new folder each time, because `write_parquet` adds files to a folder
    record(gymnasium.make("CartPole-v1"), lambda obs: int(expert(obs)), range(3), str(mine), files=2)
    for path in sorted(mine.iterdir()):
        print(f"{path.suffix}, {path.stat().st_size:,} bytes")
    print(ray.data.read_parquet(str(mine)).schema())

# %% [markdown]
r"""
## Look at a dataset before you learn from it

The crane has four datasets.
One is the **expert's**.
One comes from a **shaky** expert: half of the actions are coin flips.
One is **mixed**: 250 episodes of the novice and 3 of the expert, without a column that says whose they are.
In the last one, all actions are **coin** flips.

`materialize()` reads the files once and keeps the rows in the object store; without it, Ray Data reads the files again at every use.
"""

# %% tags=["demo"]
write_datasets(folder)
names = ["expert", "shaky", "mixed", "coins"]
datasets = {name: ray.data.read_parquet(str(folder / name)).materialize() for name in names}
frames = {name: dataset.to_pandas() for name, dataset in datasets.items()}
returns = {name: frame.groupby("eps_id")["rewards"].sum() for name, frame in frames.items()}

# %% tags=["demo"]
figure, axes = plt.subplots(figsize=(7, 2.6), constrained_layout=True)
for place, each in enumerate(returns.values()):
    axes.scatter(each, place + np.random.default_rng(0).uniform(-0.25, 0.25, len(each)), s=8, color="#7c3aed")
axes.set(yticks=range(4), yticklabels=returns, xlabel="return (one dot per episode)", title="The four datasets")
axes.invert_yaxis()
for name, each in returns.items():
    print(f"{name:7} mean return {each.mean():5.1f}")
by_the_expert = returns["mixed"][returns["mixed"] > 200]
print(f"mixed: the expert has {len(by_the_expert) / len(returns['mixed']):.0%} of the episodes", end=" ")
print(f"and {by_the_expert.sum() / returns['mixed'].sum():.0%} of the transitions")

# %% [markdown]
r"""
In the mixed dataset, the expert has 1% of the episodes but about an eighth of the transitions, because good episodes are longer.
So the novice's transitions outnumber the expert's by seven to one.

## Hold out episodes, not rows

Before you train anything, set data aside for testing.
The crane's office wants an early warning: from what the operator sees, predict **how many steps are left** in the episode.
The shaky operator's dataset has one more column, the outside temperature.
A decision tree gets the observation, the temperature, and the number of the step.
Its score is $R^2$: 1 means that it explains all of the variation, 0 means none, and a negative score is worse than always predicting the mean.

**Predict:** the tree is trained on a random three quarters of the rows, and tested on the other quarter.
What is its $R^2$ on the test rows?
"""

# %% tags=["demo"]
predict("r2_on_random_rows", ...)  # 1 is perfect


# %% tags=["demo"]
def early_warning(frame, held_out, more=("t", "temperature")):
    """Return R² on the held-out rows, for a tree that predicts the steps left from `obs` and these columns."""
    steps_left = frame.groupby("eps_id")["t"].transform("max") - frame["t"]
    inputs = np.column_stack([np.stack(frame["obs"]), *(frame[name] for name in more)])
    tree = DecisionTreeRegressor(random_state=0).fit(inputs[~held_out], steps_left[~held_out])
    return tree.score(inputs[held_out], steps_left[held_out])


random_rows = np.random.default_rng(0).random(len(frames["shaky"])) < 0.25
print(f"R² without the temperature: {early_warning(frames['shaky'], random_rows, more=['t']):.2f}")
measured("r2_on_random_rows", early_warning(frames["shaky"], random_rows))

# %% [markdown]
r"""
With the temperature, the score is above 0.9, which is too good to be true.
The outside temperature has nothing to do with the load, yet without it, most of the score is gone.
The temperature stays the same for a whole episode, so it works as an ID.
The tree has seen other rows of *the same episode*, so it has learned how long that episode lasts and only has to subtract the number of the step.
**Rows of one episode aren't independent**, so a test on training episodes measures memory.

Write `hold_out`, which chooses `round(share * number of episodes)` **episodes** at random and holds out all of their rows.
The same seed must choose the same episodes whatever the order of the rows, because Ray Data doesn't guarantee an order by default.
"""


# %%
def hold_out(eps_ids, share, seed):
    """Return a boolean array with one entry per row: True for all rows of the episodes that are held out."""
    ### BEGIN SOLUTION
    episodes = np.unique(eps_ids)  # sorted, so the order of the rows does not matter
    chosen = np.random.default_rng(seed).permutation(episodes)[: round(share * len(episodes))]
    return np.isin(eps_ids, chosen)
    ### END SOLUTION


# %%
check("hold_out", hold_out)

# %% [markdown] tags=["solution"]
r"""
Don't choose from a `set` of strings: unless `PYTHONHASHSEED` is set, its order changes with every new Python process, and your test set would, too.
If a dataset grows every day, decide by a stable hash of the episode's ID, such as `zlib.crc32`, instead of a random choice: then an episode never moves from one side to the other.
"""

# %% tags=["demo"]
if passed("hold_out"):
    scores = {"random rows": early_warning(frames["shaky"], random_rows)}
    whole_episodes = hold_out(frames["shaky"]["eps_id"].to_numpy(), 0.25, seed=0)
    scores["whole episodes"] = early_warning(frames["shaky"], whole_episodes)
    figure, axes = plt.subplots(figsize=(7, 1.8), constrained_layout=True)
    axes.barh(list(scores), list(scores.values()), color=["#64748b", "#059669"])
    axes.axvline(0, color="#94a3b8")
    axes.set(xlabel="R² in the test (1 is perfect)", title="One model, tested on random rows and on whole episodes")
    axes.invert_yaxis()

# %% [markdown]
r"""
On whole episodes, $R^2$ is almost always below 0, so in new episodes, the tree does worse than always predicting the mean.
Ray Data's `train_test_split` splits by rows, so before you use it, ask which rows of your data belong together: those of an episode, a patient, or a day.
"""

# %% [markdown]
r"""
## Behavior cloning is classification

The simplest way to learn from a dataset is [behavior cloning](../docs/glossary.md#behavior-cloning) (BC): train a classifier whose input is the observation and whose class is the operator's action.
It needs no rewards, no values, and no $\gamma$.
For an observation $o$ and an action $a$, the loss is $-\log \pi(a \mid o)$: the lower the network's probability of the recorded action, the larger the loss.
`small_network()` has two outputs, the *logits* of the two actions, and PyTorch computes the loss from them: `nn.functional.cross_entropy(logits, actions)`.

A Ray dataset returns batches of tensors, and can shuffle the rows within a buffer:

```python
for batch in dataset.iter_torch_batches(batch_size=128, local_shuffle_buffer_size=2000):
    batch["obs"]  # shape [128, 4]
```

Write `clone`, which trains a network with `epochs` passes over a dataset and returns the network.
Batches of 128 and Adam with a learning rate of 0.01 will do.
In the check, the expert works on *another* crane: its observations have the numbers in another order and perhaps with other signs, and left and right may be swapped.
On that crane, one of up to three training runs must reach a mean return of 450, and in each run, the network must choose the expert's action most of the time.
In a second dataset, operators disagree, and the network's probabilities (the softmax of its logits) must be close to the frequencies of the actions.
"""


# %%
def clone(dataset, network, epochs):
    """Return the network, trained to do what the dataset's operators did."""
    ### BEGIN SOLUTION
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(epochs):
        for batch in dataset.iter_torch_batches(batch_size=128, local_shuffle_buffer_size=2000):
            loss = nn.functional.cross_entropy(network(batch["obs"]), batch["actions"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return network
    ### END SOLUTION


# %%
check("clone", clone)

# %% [markdown] tags=["solution"]
r"""
`local_shuffle_buffer_size` shuffles within a buffer, which is cheap; `dataset.random_shuffle()` shuffles all rows, so it moves all of them through the object store.
If a column holds strings, `iter_torch_batches` fails, because a string can't become a tensor: call `dataset.select_columns(["obs", "actions"])` first.
"""

# %% [markdown]
r"""
Now train a BC policy on each of the four datasets, from the same initial weights.
The table shows two numbers from held-out episodes: the loss, and the *agreement*, the fraction of transitions in which the policy's most probable action is the operator's.
A third number comes from the environment: the mean return of the *greedy* policy, which always takes the most probable action.
The last line says how many of the expert's three episodes in the mixed dataset are held out.

**Predict:** you know the mean return of the shaky dataset.
What is the mean return of the policy that is cloned from it?
"""

# %% tags=["demo"]
predict("return_from_shaky", ...)  # at most 500


# %% tags=["demo"]
def test(network, frame):
    """Return the loss and the agreement on the rows of a table."""
    obs = torch.tensor(np.stack(frame["obs"]))
    actions = torch.tensor(frame["actions"].to_numpy(dtype=np.int64))
    with torch.no_grad():
        logits = network(obs)
    agreement = (logits.argmax(1) == actions).float().mean()
    return float(nn.functional.cross_entropy(logits, actions)), float(agreement)


def split(frame):
    """Return the rows to train on as a dataset, and the rows of the held-out episodes as a table."""
    held_out = hold_out(frame["eps_id"].to_numpy(), 0.2, seed=0)
    needed = ["eps_id", "t", "obs", "actions", "rewards"]
    return ray.data.from_pandas(frame.loc[~held_out, needed]), frame[held_out]


# %% tags=["demo"]
policies, epochs = {}, 8
if passed("clone") and passed("hold_out"):
    table = {}
    for name, frame in frames.items():
        torch.manual_seed(0)
        to_train, to_test = split(frame)
        policies[name] = clone(to_train, small_network(), epochs=epochs)
        loss, agreement = test(policies[name], to_test)
        table[name] = [returns[name].mean(), loss, agreement, mean_return(greedy(policies[name]))]
    columns = ["return of the operators", "loss", "agreement", "return of the policy"]
    display(pandas.DataFrame(table, index=columns).T.round(2))
    tested = by_the_expert.index.isin(split(frames["mixed"])[1]["eps_id"])
    print(f"mixed: {tested.sum()} of the expert's 3 episodes are held out for the test")
    display(measured("return_from_shaky", table["shaky"][-1]))

# %% [markdown]
r"""
- **expert**: the policy is as good as the expert.
- **shaky**: the loss and the agreement are bad, but the policy is *far better than the operator*.
- **mixed**: the policy acts mostly like the novice, because it does what the majority of the transitions did.
  Its loss depends on how many of the expert's three episodes are in the test, because each of them raises it.
- **coins**: the agreement is about 50%.
  There's nothing to imitate, so the result is a matter of chance; try another `manual_seed`.
  Often the policy pushes to one side only, and drops the load sooner than the coins did.

The loss and the agreement say how well a policy predicts *these operators*.
You can't compare them across datasets, and neither of them tells you the return.
"""

# %%
### BEGIN SOLUTION
better_than_shaky = "b"
### END SOLUTION

# %%
quiz("better_than_shaky", better_than_shaky)

# %% [markdown]
r"""
## A leaked column gives the best loss and the worst policy

The expert's dataset turns out to have another column: the motor's meter, in newtons, which shows +10 while the motor pushes right and −10 while it pushes left.
More information can't hurt, can it?
`with_motor(dataset)` adds the meter to the observation as a fifth number.

**Predict:** the BC policy that doesn't see the meter earns about 500.
What is the mean return of a policy that also sees the meter?
"""

# %% tags=["demo"]
predict("return_with_the_meter", ...)  # at most 500

# %% tags=["demo"]
if policies:
    to_train, to_test = split(frames["expert"])
    torch.manual_seed(0)
    metered = clone(with_motor(to_train), small_network(inputs=5), epochs=epochs)
    rows = {
        "without the meter": [*test(policies["expert"], to_test), mean_return(greedy(policies["expert"]))],
        "with the meter": [
            *test(metered, with_motor(ray.data.from_pandas(to_test)).to_pandas()),
            return_with_meter(greedy(metered)),
        ],
    }
    display(pandas.DataFrame(rows, index=["loss", "agreement", "return"]).T.round(3))
    display(measured("return_with_the_meter", rows["with the meter"][-1]))

# %% [markdown]
r"""
The policy gets a perfect score on held-out *episodes*, and drops the load after a few steps.

![In the dataset, the meter in row t shows the push of action t; in the environment, when action t is chosen, the meter still shows the push of action t − 1](../img/ch15_meter.svg)

The crane writes a row when the step is *over*, so the meter in that row shows the push of the row's own action.
So the input contains the answer: this is [data leakage](../docs/glossary.md#data-leakage).
The policy has learned to copy the meter, and little else.
But in the environment, when the policy chooses an action, the meter still shows the *previous* push, so the policy repeats that push until the load falls.

No split reveals this, because every episode leaks in the same way.
To find a leak, ask when each value becomes known, and run the policy.
"""

# %%
### BEGIN SOLUTION
find_the_leak = "c"
### END SOLUTION

# %%
quiz("find_the_leak", find_the_leak)

# %% [markdown] tags=["notes"]
r"""
Ask which leaks people have met: a patient number that's assigned only after the diagnosis, a series of stock prices that was adjusted afterward, `new_obs` joined by mistake.
Then ask what to do if you can't run the policy, as on a real crane: test it in a simulator, let it advise while a human acts, and start with light loads.
You can estimate a return from the dataset alone, but the estimate is unreliable where the policy does something that the dataset doesn't show.
In Ray 2.60, RLlib's estimates are wrong, too, as the last section says: see `OfflinePolicyEvaluationRunner._evaluate`.
"""

# %% [markdown]
r"""
## Weight transitions by what came after them

Three episodes of the mixed dataset show how it's done, but BC followed the other 250, because it ignores the rewards.

For each transition, sum the discounted rewards from its step to the end of the episode: the [return-to-go](../docs/glossary.md#return-to-go) $R_t = \sum_{k \ge 0} \gamma^k r_{t+k}$.
How far $R_t$ lies above the mean, in standard deviations, is the transition's **advantage** $A_t$.
A weight $w_t$ then multiplies the transition's loss.
Take the mean and the standard deviation over all transitions, and use `np.std`, because in pandas and PyTorch, `std` divides by $n - 1$ instead of $n$.

$$A_t = \frac{R_t - \text{mean of all } R}{\text{standard deviation of all } R}, \qquad w_t = \frac{e^{\beta A_t}}{\text{mean of all } e^{\beta A}} .$$

With $\beta = 0$, this is behavior cloning; the larger $\beta$ is, the more the best transitions count.
This is the idea of [MARWIL](../docs/glossary.md#marwil) (Wang et al. 2018), which computes the advantage with a critic that estimates the value of each state; our critic, the mean over all transitions, is the simplest one.

Write `weights`, which takes the arrays `eps_ids`, `t`, and `rewards`, with one entry per transition, and returns their weights as an array, in the same order.
The transitions come **in any order**.
"""


# %%
def weights(eps_ids, t, rewards, gamma, beta):
    """Return an array with a weight per transition: exp(beta * advantage), divided by its mean over all of them."""
    ### BEGIN SOLUTION
    togo, after = np.zeros(len(rewards)), {}
    for row in np.argsort(-t):  # the last steps first, so that the return-to-go of the next step is known
        togo[row] = rewards[row] + gamma * after.get(eps_ids[row], 0.0)
        after[eps_ids[row]] = togo[row]
    weight = np.exp(beta * (togo - togo.mean()) / togo.std())
    return weight / weight.mean()
    ### END SOLUTION


# %%
check("weights", weights)

# %% [markdown] tags=["solution"]
r"""
An episode that was *truncated* would have continued, so the last transitions of the expert's episodes look worse than they are.
A critic would add the value of the last observation there, as `gae` does in [Chapter 8](ch08_rollouts.ipynb).
Here, leaving that out does little harm, because most transitions of an episode are far from its end.
"""

# %% tags=["demo"]
if passed("weights"):
    mix = frames["mixed"]
    columns = [mix[name].to_numpy() for name in ("eps_id", "t", "rewards")]
    expert_rows = mix["eps_id"].isin(by_the_expert.index).to_numpy()
    for beta in (0, 1, 3):
        weight = weights(*columns, gamma=0.99, beta=beta)
        print(f"beta {beta}: the expert's transitions have {weight[expert_rows].sum() / weight.sum():.0%} of the weight")

# %% [markdown]
r"""
Write `beats_the_teacher`, which takes the mixed dataset of another crane, a network, and the number of epochs, and returns the trained network.
Here, too, one of up to three runs must reach a mean return of 450; the dataset's is about 50.
Weights are one way, but the check accepts any method that learns from the dataset.
`ray.data.from_pandas(frame)` makes a dataset from a table, new columns included, and `cross_entropy(..., reduction="none")` returns one loss per transition.
"""


# %%
def beats_the_teacher(dataset, network, epochs):
    """Return the network, trained to earn far more than the mean return of the dataset."""
    ### BEGIN SOLUTION
    frame = dataset.to_pandas()
    columns = [frame[name].to_numpy() for name in ("eps_id", "t", "rewards")]
    frame["weight"] = weights(*columns, gamma=0.99, beta=3.0).astype(np.float32)
    weighted = ray.data.from_pandas(frame[["obs", "actions", "weight"]])
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(epochs):
        for batch in weighted.iter_torch_batches(batch_size=128, local_shuffle_buffer_size=2000):
            losses = nn.functional.cross_entropy(network(batch["obs"]), batch["actions"], reduction="none")
            optimizer.zero_grad()
            (batch["weight"] * losses).mean().backward()
            optimizer.step()
    return network
    ### END SOLUTION


# %%
check("beats_the_teacher", beats_the_teacher)

# %% [markdown] tags=["solution"]
r"""
Cloning only the best episodes works here, too, and it's a good first thing to try.
But it throws whole episodes away, while weights rate each transition, so they can also learn from an operator who is good only some of the time.
"""

# %% tags=["demo"]
if policies and passed("beats_the_teacher"):
    torch.manual_seed(0)
    weighted = beats_the_teacher(datasets["mixed"], small_network(), epochs=epochs)  # all episodes: the environment is the test
    bars = {"dataset": returns["mixed"].mean(), "BC policy": mean_return(greedy(policies["mixed"]))}
    bars["weighted BC policy"] = mean_return(greedy(weighted))
    figure, axes = plt.subplots(figsize=(7, 1.9), constrained_layout=True)
    axes.barh(list(bars), list(bars.values()), color=["#64748b", "#7c3aed", "#059669"])
    axes.set(xlim=(0, 510), xlabel="mean return", title="Learning from the mixed dataset")
    axes.invert_yaxis()

# %% [markdown]
r"""
The weighted policy beats the *average* of the operators, because one of them was good.
What if none of them is?
A transition with a weight of 3 counts as much as three transitions do.
So instead of multiplying losses, you can sample transitions in proportion to their weights, and clone those.
The next cell does this with the coin flips, with a smaller $\gamma$ and $\beta$, because most of what follows a flip is luck.

**Predict:** what does the weighted policy earn, compared with the best of the 150 episodes of coin flips?
"""

# %% tags=["demo"]
predict("weighted_coins", ..., ["less", "about as much", "more"])

# %% tags=["demo"]
if policies and passed("weights"):
    flips = frames["coins"][["eps_id", "t", "obs", "actions", "rewards"]]
    columns = [flips[name].to_numpy() for name in ("eps_id", "t", "rewards")]
    weight = weights(*columns, gamma=0.9, beta=1)  # 0.9, because what comes much later depends on other flips
    # Twice as many samples as transitions, so that few transitions are left out.
    sampled = flips.sample(2 * len(flips), replace=True, weights=weight, random_state=0, ignore_index=True)
    torch.manual_seed(0)
    weighted_coins = clone(ray.data.from_pandas(sampled[["obs", "actions"]]), small_network(), epochs=epochs)
    earned, best = mean_return(greedy(weighted_coins)), returns["coins"].max()
    print(f"coin flips: mean return {returns['coins'].mean():.0f}, best episode {best:.0f}")
    print(f"BC policy: {mean_return(greedy(policies['coins'])):.0f}, weighted BC policy: {earned:.0f}")
    compared = "less" if earned < 0.8 * best else "more" if earned > 1.25 * best else "about as much"
    display(measured("weighted_coins", compared))

# %% [markdown]
r"""
It usually earns far more than the best episode.
The dataset has both actions in all kinds of states, and the weights show which of the two went better.
The coin chose the better action half of the time; the policy chooses it again and again.
So weights combine good transitions of *different* episodes.
But they can't choose an action that isn't in the dataset, or find a difference where everything went equally well.

A larger $\beta$ isn't always better.
With `gamma=0.99, beta=3`, which worked so well for the mixed dataset, nearly all of the weight goes to a tenth of these transitions, the lucky ones, and the policy is usually far worse.
"""

# %%
### BEGIN SOLUTION
beyond_the_expert = "a"
### END SOLUTION

# %%
quiz("beyond_the_expert", beyond_the_expert)

# %% [markdown]
r"""
## CQL and IQL don't trust actions outside the dataset

A weight depends on what came after a transition.
A *value* says what an action is worth if the actions that follow are **better** than those in the dataset.
In [Chapter 9](ch09_dqn.ipynb), you learned such values, with targets that took the maximum over all actions.
Offline, that can go wrong: the value of an action that the dataset doesn't show is a guess, the maximum picks the guesses that are too high, and no new experience corrects them.
Two methods avoid this.

[CQL](../docs/glossary.md#cql) (Kumar et al. 2020) adds a penalty that pushes down the values of all actions and pushes up the values of those in the dataset.
[IQL](../docs/glossary.md#iql) (Kostrikov et al. 2021) uses only the values of actions in the dataset: its target is the reward plus $\gamma V(s')$, and $V$ leans toward the larger of those values.
Where an action is worth more than $V$, the code weights the squared error of $V$ by 0.6, and otherwise by 0.4.
With equal weights, $V$ would be the mean value of the dataset's actions; the closer the first weight is to 1, the closer $V$ comes to the best of them.
The policy is cloned with the weights $e^{\beta (Q - V)}$: your `weights` with a learned critic.
"""


# %%
def iql_loss(batch, q, target_q, value, policy, gamma=0.9, expectile=0.6, beta=2.0):
    """Return the sum of the losses of Q, V, and the policy; `batch` is a dict of tensors, one row per transition (Kostrikov et al. 2021)."""
    taken = batch["actions"][:, None]
    with torch.no_grad():
        q_taken = target_q(batch["obs"]).gather(1, taken)[:, 0]  # from the target network, as in Chapter 9
        target = batch["rewards"] + gamma * value(batch["new_obs"])[:, 0] * (1.0 - batch["terminateds"])
    advantage = q_taken - value(batch["obs"])[:, 0]
    value_loss = torch.where(advantage > 0, expectile, 1 - expectile) * advantage**2
    q_loss = (q(batch["obs"]).gather(1, taken)[:, 0] - target) ** 2
    cloning_loss = nn.functional.cross_entropy(policy(batch["obs"]), batch["actions"], reduction="none")
    policy_loss = torch.exp(beta * advantage.detach()).clamp(max=100) * cloning_loss
    return (value_loss + q_loss + policy_loss).mean()


# %% tags=["demo"]
if policies and passed("weights"):
    torch.manual_seed(0)
    needed = {"obs": np.float32, "new_obs": np.float32, "actions": int, "rewards": np.float32, "terminateds": np.float32}
    table = {name: torch.tensor(np.stack(frames["coins"][name]).astype(kind)) for name, kind in needed.items()}
    q, target_q, policy = small_network(), small_network(), small_network()
    target_q.load_state_dict(q.state_dict())
    value = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam([*q.parameters(), *policy.parameters(), *value.parameters()], lr=0.01)
    for _ in range(budget(2000, 700)):
        chosen = torch.randint(len(table["obs"]), (512,))
        optimizer.zero_grad()
        iql_loss({name: column[chosen] for name, column in table.items()}, q, target_q, value, policy).backward()
        optimizer.step()
        for slow, fast in zip(target_q.parameters(), q.parameters(), strict=True):
            slow.data.lerp_(fast.data, 0.03)  # 3% of the way toward Q

# %% tags=["demo"]
if policies and passed("weights"):
    for name, network in {"BC": policies["coins"], "weighted BC": weighted_coins, "IQL": policy}.items():
        print(f"from coin flips, {name:12} {mean_return(greedy(network)):.0f}")

# %% [markdown]
r"""
From coin flips, both methods usually learn a policy that beats every episode in the dataset.
Which of the two is ahead changes with the seed, so one table decides nothing ([Chapter 12](ch12_env_runners.ipynb)).
Values pay off when the good parts of a task are in different episodes, because no single return shows them together; joining such parts is called *stitching*.
RLlib has `IQLConfig` and `CQLConfig`, but in Ray 2.60, both train only with continuous actions, and our crane's two actions are discrete.
"""

# %% [markdown]
r"""
## RLlib's BC trains from the same files, without an environment

RLlib's `BC` reads folders like ours directly.
It has no environment, so the config names the observation space and the action space instead.
With `dataset_num_iters_per_learner=1`, each `train()` makes one update with one batch.
In the first iteration, Ray Data prepares all batches and keeps them in the object store; for a dataset that doesn't fit, set `materialize_mapped_data=False`.

RLlib can also test without an environment.
Every 25 iterations, as set below, it takes a batch from the files that `evaluation_config` names and computes the network's loss on it.
Without that setting, RLlib would test on its training data, so your `hold_out` splits the expert's dataset first.
"""

# %% tags=["demo"]
from ray.rllib.algorithms.bc import BCConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.rl_module import RLModule

# %% tags=["demo"]
if passed("hold_out"):
    held_out = hold_out(frames["expert"]["eps_id"].to_numpy(), 0.2, seed=0)
    for part, rows in {"train": ~held_out, "test": held_out}.items():
        some = ray.data.from_pandas(frames["expert"][rows])
        some.write_parquet(str(folder / part), mode=ray.data.SaveMode.OVERWRITE)

# %% tags=["demo"]
cartpole = gymnasium.make("CartPole-v1")
config = (
    BCConfig()
    .environment(observation_space=cartpole.observation_space, action_space=cartpole.action_space)
    .offline_data(
        input_=[str(folder / "train")],
        dataset_num_iters_per_learner=1,
        map_batches_kwargs={"concurrency": 1, "num_cpus": 0.5},  # one actor prepares training batches, another one test batches
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
    algo, losses, tests, times = config.build_algo(), [], {}, [time.perf_counter()]
    try:
        for iteration in range(1, budget(600, 200) + 1):
            result = algo.train()
            losses.append(result["learners"]["default_policy"]["policy_loss"])
            if iteration % 25 == 0:  # in the other iterations, RLlib repeats the last test or reports NaN
                tests[iteration] = result["evaluation"]["offline_eval_runners"]["default_policy"]["total_eval_loss"]
            times.append(time.perf_counter())
        algo.save_to_path(folder / "rllib")
    finally:
        algo.stop()
    print(f"first iteration {times[1] - times[0]:.1f} s, all others together {times[-1] - times[1]:.1f} s")
    figure, axes = plt.subplots(figsize=(7, 2.2), constrained_layout=True)
    axes.plot(range(1, len(losses) + 1), losses, color="#059669", linewidth=0.8, label="training batches")
    axes.plot(list(tests), list(tests.values()), "o", color="#7c3aed", label="held-out episodes")
    axes.set(xlabel="iteration", ylabel="loss", title="RLlib's BC on the expert's dataset", ylim=(0, None))
    axes.legend()

# %% [markdown]
r"""
The first iteration takes as long as hundreds of others, because it starts Ray Data's actors.
Dips and peaks at regular intervals are neither progress nor setbacks: RLlib doesn't shuffle, so the 5,000 transitions come in the same 40 batches again and again.
Apart from a few jumps, the held-out loss falls, too, so the policy hasn't just memorized its dataset.
But a loss isn't a return.
The saved folder contains the network ([Chapter 11](ch11_rllib_ppo.ipynb)), so run it in the environment:
"""

# %% tags=["demo"]
if (folder / "rllib").exists():
    parts = "learner_group", "learner", "rl_module", "default_policy"
    module = RLModule.from_checkpoint(folder.joinpath("rllib", *parts))
    rllib_policy = greedy(lambda obs: module.forward_inference({"obs": obs})["action_dist_inputs"])
    print(f"return of RLlib's BC policy: {mean_return(rllib_policy):.0f}")

# %% [markdown]
r"""
RLlib's `MARWILConfig` adds weights and a critic.
Its weights depend on what came *after* a transition, so it needs whole episodes, which it reads with `input_read_episodes=True`.
With `config.offline_data(output=folder)`, EnvRunners write such episodes while they sample.
From single transitions, as in our files, RLlib makes episodes of one step, and the critic's estimate replaces everything that came later.

To estimate a *return* without running the policy ([off-policy evaluation](../docs/glossary.md#off-policy-evaluation)), RLlib offers importance sampling: with `offline_evaluation_type="is"`, each episode's return should count in proportion to how much more probable the episode's actions are under the new policy.
It needs whole episodes and a column named `action_logp`, with the log-probability of each action when it was chosen; without that column, it fails with a `KeyError`.
Don't rely on it in Ray 2.60, because it weights the actions that the new policy *samples*, not those in the dataset.
Older tutorials write JSON files and use `input_evaluation`: see [Old names](../docs/old_names.md).
"""

# %%
ray.shutdown()

# %% [markdown]
r"""
## What you can do now

- You can record transitions in a form that RLlib reads, and hold out whole episodes for a test.
- You can clone a policy, and say which majority in the dataset it will follow.
- You can find a leaked column, and explain why a good loss doesn't mean a good return.
- You can weight transitions by what came after them, and explain why weights can choose only among actions in the dataset.
- You can learn values from a dataset, and explain why a maximum over all actions is too high.
- You can train and test RLlib's BC without an environment.

## Traps

- **An array that the simulator overwrites** makes all observations of an episode equal, so keep copies.
- **`from_items` without `override_num_blocks`** writes up to 200 files.
- **Rows of one episode in both the training and the test data**: the test measures memory.
- **A feature that is known only afterward** gives the best loss, and a policy that copies the feature.
- **Whole episodes need msgpack-numpy**, which Ray 2.60 doesn't install.
- **`algo.get_module()` fails** for BC as configured here, because it has no EnvRunner.
  Save the algorithm, and load the module from the folder.

## Read on

- [Chapter 17](ch17_data_train.ipynb) does more with Ray Data, on several workers.
- RLlib's documentation: [offline RL](https://docs.ray.io/en/latest/rllib/rllib-offline.html); Ray Data's: [loading data](https://docs.ray.io/en/latest/data/loading-data.html).
- Wang et al., *Exponentially weighted imitation learning for batched historical data*, NeurIPS 2018: MARWIL.
- Kumar et al., [*Conservative Q-Learning*](https://arxiv.org/abs/2006.04779), 2020: CQL.
  Kostrikov, Nair, and Levine, [*Offline Reinforcement Learning with Implicit Q-Learning*](https://arxiv.org/abs/2110.06169), 2021: IQL.
- de Haan, Jayaraman, and Levine, *Causal confusion in imitation learning*, NeurIPS 2019: policies that copy their last action.
- Levine et al., [*Offline reinforcement learning: tutorial, review, and perspectives on open problems*](https://arxiv.org/abs/2005.01643), 2020.
"""
