# %% [markdown] you_learn_to="train two agents, and an agent against a league of its past selves"
r"""
# Chapter 23 · Self-play

An agent that plays against itself must not forget what it has learned.

*About 115 minutes · builds on [Chapter 14](ch14_custom.ipynb); [Chapter 2](ch02_objects.ipynb) helps*

**What you will be able to do**

- put two agents into one environment, and choose which module acts for each of them;
- use a PettingZoo environment in RLlib;
- train policies with a critic that observes more than they do;
- keep past versions of a player in the object store, and rate them by Elo, with intervals;
- explain why the latest version isn't always the best, and train against all past versions.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas
import ray
import torch
from gymnasium.spaces import Box, Discrete
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv

from coursekit import begin, budget, check, explain, hint, measured, passed, predict, progress, puzzle, quiz, review
from coursekit import solution, track
from coursekit.given.ch14_custom import draw
from coursekit.given.ch23_self_play import ZooBridge, against_the_latest
from coursekit.given.four import Learner, collect, draw_board, match, new_player, one_game
from coursekit.given.four_page import against

begin("ch23_self_play")

# %%
ray.shutdown()  # stops a Ray instance that's already running here: its references and actors are gone
ray.init(num_cpus=2, include_dashboard=False)
torch.set_num_threads(1)  # networks as small as these gain nothing from more

# %% [markdown] tags=["notes"]
r"""
If the room has seen Chapter 14 on the same day, make `Bridge` homework.
Run the chapter in full mode beforehand to get the league's curves, and open the board at the end.
"""

# %% [markdown]
r"""
## A multi-agent environment returns dicts with a key per agent

Two robots meet at a bridge that carries only one of them.
In RLlib, a [multi-agent environment](../docs/glossary.md#multi-agent-environment) is a `MultiAgentEnv`.
Unlike in Gymnasium, its observations, actions, rewards, and flags are **dicts with a key per agent**.
Three rules are easy to break:

- An agent that gets an observation and isn't done acts in the next step.
- When an agent is done, its last observation and reward come together with its flag, and after that, it appears in no dict.
- `terminateds` and `truncateds` have one more key, `"__all__"`, for the whole episode.

Squares 1 and 2 are on the bridge, square 0 is in front of it, and square 3 is behind it.

1. Action 0 waits, and action 1 moves a robot from square 0 to square 1.
   A robot on the bridge moves one square further, whatever its action.
2. If both are on the bridge *after* the step, both fall: each gets −1 and is terminated, and the episode is over.
3. Otherwise, a robot that has reached square 3 gets 1 and is terminated.
   Every other robot in `actions` gets −0.2.
4. Once both are across, the episode is over.
   If it isn't over after step 20, it's truncated; `truncateds["__all__"]` alone is enough for that.

Write `step` of the `Bridge` class.
`actions` has a key for each robot still in the game; observations, rewards, and terminateds need the same keys.
"""


# %%
class Bridge(MultiAgentEnv):
    """Two robots, and a bridge that carries only one."""

    def __init__(self, config=None):
        super().__init__()
        self.agents = self.possible_agents = ["north", "south"]
        self.observation_spaces = {agent: Box(0, 1, (2,), np.float32) for agent in self.agents}
        self.action_spaces = {agent: Discrete(2) for agent in self.agents}

    def reset(self, *, seed=None, options=None):
        """Put both robots in front of the bridge; return their observations and an empty dict."""
        self.square, self.steps = {"north": 0, "south": 0}, 0
        return self.seen_by(["north", "south"]), {}

    def seen_by(self, agents):
        """Return an observation for each of these agents: its own square and the other's, divided by 3."""
        other = {"north": "south", "south": "north"}
        return {a: np.array([self.square[a], self.square[other[a]]], np.float32) / 3 for a in agents}

    def step(self, actions):
        """Return five dicts: observations, rewards, terminateds, truncateds, and infos, which may be empty."""
        ### BEGIN SOLUTION
        self.steps += 1
        for agent, action in actions.items():
            self.square[agent] += 1 if self.square[agent] > 0 else int(action)
        fall = all(square in (1, 2) for square in self.square.values())
        across = {agent: self.square[agent] == 3 for agent in actions}
        over = fall or all(square == 3 for square in self.square.values())

        rewards = {agent: -1.0 if fall else 1.0 if across[agent] else -0.2 for agent in actions}
        terminateds = {agent: fall or across[agent] for agent in actions} | {"__all__": over}
        truncateds = {"__all__": self.steps == 20 and not over}
        return self.seen_by(actions), rewards, terminateds, truncateds, {}
        ### END SOLUTION


# %%
check("Bridge", Bridge)

# %% [markdown] tags=["solution"]
r"""
Gymnasium's `TimeLimit` can't wrap a `MultiAgentEnv`, because it would set `truncated` to True where RLlib expects a dict.
"""

# %% [markdown]
r"""
## One module can't play two roles if it can't tell them apart

A config names the **modules**, which RLlib still calls `policies`.
Its `policy_mapping_fn` is a function that maps each agent to one of them.
A natural first idea is [parameter sharing](../docs/glossary.md#parameter-sharing): one module for both robots, with half the weights and twice the experience.

"""


# %% tags=["demo"]
def log_crossed(*, env, env_index, metrics_logger, **kwargs):
    """Log 1 if both robots are across, and 0 if not."""
    bridge = env.envs[env_index].unwrapped
    metrics_logger.log_value("crossed", float(set(bridge.square.values()) == {3}), reduce="mean")


def pair():
    """Return PPO for the bridge, without any modules yet."""
    return (
        PPOConfig()
        .environment(Bridge)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=10)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[32, 32]))
        .training(train_batch_size_per_learner=300, minibatch_size=100, num_epochs=8)
        .training(lr=0.005, gamma=0.9, lambda_=0.95, use_kl_loss=False)
        # vf_clip_param stays at 10: discounted returns here lie between -2 and 1
        .callbacks(on_episode_end=log_crossed)
        .debugging(seed=0)
    )


# %%
def learn(config):
    """Return a table of what the EnvRunner reported, a row per iteration, and the trained module."""
    algo = config.build_algo()
    try:
        reports = [algo.train()["env_runners"] for _ in range(budget(16, 8))]
        return pandas.DataFrame(reports), algo.env_runner.module
    finally:
        algo.stop()


def best_action(module, obs):
    """Return the most probable action of a module for one observation."""
    batch = {Columns.OBS: torch.as_tensor(np.asarray(obs, np.float32))[None]}
    return int(module.forward_inference(batch)[Columns.ACTION_DIST_INPUTS].argmax())


# %% [markdown]
r"""
**Predict:** two robots that share a module train for sixteen iterations of 300 steps.
What percentage of the pairs get across in the last three iterations?
"""

# %% tags=["demo"]
predict("pairs_across", ...)  # percent


# %%
def one_module(config):
    """Return the config with one module for all robots."""
    return config.multi_agent(policies={"both"}, policy_mapping_fn=lambda agent_id, episode, **kwargs: "both")


bridge_curves, trained = {}, {}
if passed("Bridge"):
    bridge_curves["one module"], trained["one module"] = learn(one_module(pair()))
    display(measured("pairs_across", 100 * bridge_curves["one module"]["crossed"].iloc[-3:].mean()))

# %% [markdown]
r"""
At the start, both robots observe (0, 0), so the module gives both the same probability $p$ of going.
In each step, both go with probability $p^2$, neither goes with $(1-p)^2$, and exactly one goes with $2p(1-p)$, which is never more than a half.
With a larger $p$, more of them fall; with a smaller one, more pairs get across in the end, but they wait longer, and waiting costs.
They lack a convention, and a single module can't learn one, because nothing in its input says which robot it acts for.

![With one module, both robots get the same answer; with a mapping, each robot has its own module, and one of the robots learns to wait](../img/ch23_minds.svg)

Write `two_minds`, which takes a config and returns it with two modules, `"north"` and `"south"`.
It should work for larger fleets, too: robots have names such as `"north"`, `"north-3"`, and `"south-12"`, and all robots on a side share that side's module.
"""


# %%
def two_minds(config):
    """Return the config with the modules "north" and "south", each acting for the robots of its side."""
    ### BEGIN SOLUTION
    return config.multi_agent(
        policies={"north", "south"},
        policy_mapping_fn=lambda agent_id, episode, **kwargs: agent_id.split("-")[0],
    )
    ### END SOLUTION


# %%
check("two_minds", two_minds)

# %% [markdown] tags=["solution"]
r"""
An agent keeps its module until the episode ends.
The function may also read the episode, or choose at random, and that's how self-play in RLlib picks an opponent.
But it mustn't count its calls: when RLlib cuts an episode into chunks, it calls the function again and ignores the result.
With `policies_to_train=["north"]`, the `"south"` module would stay as it is.
"""

# %% [markdown]
r"""
Here's the second curve, and below it, each trained pair with both robots taking their most probable actions:
"""

# %% tags=["demo"]
if passed("Bridge") and passed("two_minds"):
    bridge_curves["two modules"], trained["two modules"] = learn(two_minds(pair()))
    draw(bridge_curves, "crossed", "Fraction of the pairs that get across", ylim=(0, 1.05))


# %% tags=["demo"]
def cross(modules, module_of):
    """Return the squares of both robots after each step, if each takes its most probable action."""
    env, over = Bridge(), False
    obs, _ = env.reset()
    squares = [list(env.square.values())]
    while not over:
        actions = {agent: best_action(modules[module_of(agent)], seen) for agent, seen in obs.items()}
        obs, _, terminateds, truncateds, _ = env.step(actions)
        obs = {agent: seen for agent, seen in obs.items() if not terminateds.get(agent, False)}
        squares.append(list(env.square.values()))
        over = terminateds["__all__"] or truncateds["__all__"]
    return np.array(squares)


# %% tags=["demo"]
if len(trained) == 2:
    figure, grid = plt.subplots(1, 2, figsize=(10, 2.8), constrained_layout=True, sharey=True)
    for ax, name, module_of in zip(grid, trained, [lambda agent: "both", lambda agent: agent], strict=True):
        squares = cross(trained[name], module_of).T
        for agent, places, style in zip(["north", "south"], squares, ["o-", "s--"], strict=True):
            ax.plot(places, style, label=agent)
        ax.axhspan(0.5, 2.5, color="#94a3b8", alpha=0.25)
        ax.set(title=name, xlabel="step", ylabel="square (gray: the bridge)", yticks=range(4))
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.legend()

# %% [markdown]
r"""
With one module and no randomness, the two lines coincide: both robots go and fall, or both wait until the end.
With two modules, one robot goes first and the other waits for it.

If the observation said *which* robot it's for, one module could learn both roles, from the experience of both.
"""

# %%
### BEGIN SOLUTION
one_mind_alone = "b"
### END SOLUTION

# %%
quiz("one_mind_alone", one_mind_alone)

# %% [markdown]
r"""
## PettingZoo environments run in RLlib through a wrapper

Many multi-agent environments are written for **PettingZoo**, whose parallel API differs a little from RLlib's:

| | RLlib's `MultiAgentEnv` | PettingZoo's `ParallelEnv` |
|---|---|---|
| spaces of an agent | `observation_spaces[agent]`, a dict | `observation_space(agent)`, a method |
| agents still in the game | those that get an observation and aren't done | the list `agents`, which shrinks |
| end of the episode | `"__all__"` in both dicts of flags | `agents` is empty |

`ZooBridge` is your bridge with PettingZoo's signatures.
PettingZoo itself doesn't have to be installed, because RLlib's wrapper calls these methods on any object that has them.
Games in which agents take turns use another API, AEC, and another wrapper, `PettingZooEnv`.
"""

# %% tags=["demo"]
if passed("Bridge"):
    zoo = ZooBridge(Bridge())
    zoo.reset(seed=0)
    wrapped = ParallelPettingZooEnv(ZooBridge(Bridge()))
    wrapped.reset(seed=0)
    for step, actions in enumerate([{"north": 1, "south": 0}] * 3 + [{"south": 1}] * 3, 1):
        observations, rewards, terminations, truncations, infos = zoo.step(actions)
        _, _, terminateds, _, _ = wrapped.step(actions)
        print(f"step {step}: PettingZoo {terminations}, agents {zoo.agents}; RLlib {terminateds}")

# %% [markdown]
r"""
The wrapper adds `"__all__"`, which is True in `terminateds` if every agent *in that dict* has terminated, and in `truncateds` if every agent has been truncated.
If one agent terminates in the very step that truncates the other, neither is True.
RLlib then records *both* as terminated, so the truncated agent's future counts for nothing, and RLlib calls `step` once more, without actions.
If that can happen in your environment, let it truncate one step later, or write a `MultiAgentEnv`.
"""

# %% [markdown]
r"""
## A centralized critic observes more than the policies do

Two porters carry a ladder.
Each observes only the slope under its own feet, a number from −1 to 1, and steps left or right.
Together they earn a point for each step uphill and, whatever they do, $9\,s_1 s_2$, where $s_1$ and $s_2$ are the slopes.

A critic that observes one slope can't predict that product, so the product ends up in the [advantage](../docs/glossary.md#advantage) as noise.
A [centralized critic](../docs/glossary.md#centralized-critic) observes both slopes, but only during training.

![Two policies observe one slope each; in training, one critic observes both, and later it isn't needed](../img/ch23_critic.svg)
"""


# %%
def seen_by_critics(slopes, both):
    """Return the inputs of each porter's critic, shape [B, 2, 4]."""
    ones, (left, right) = np.ones(len(slopes)), slopes.T
    if both:
        return np.stack([np.stack([ones, left, right, 3 * left * right], -1)] * 2, 1)
    return np.stack([np.stack([ones, own, own**2, own**3], -1) for own in (left, right)], 1)


# %%
def porters(both, seed, iterations=100):
    """Return the fraction of uphill steps in each iteration; critics follow the gradient of the squared error, porters the policy gradient."""
    rng, skill, critic, curve = np.random.default_rng(seed), np.zeros(2), np.zeros((2, 4)), []
    for _ in range(iterations):
        slopes = rng.uniform(-1, 1, (8, 2))
        chance = 1 / (1 + np.exp(-skill * slopes))
        goes_right = rng.random((8, 2)) < chance
        uphill = goes_right == (slopes > 0)
        seen = seen_by_critics(slopes, both)
        advantage = (uphill.sum(1) + 9 * slopes.prod(1))[:, None] - (seen * critic).sum(-1)
        critic += 0.3 * (advantage[..., None] * seen).mean(0)
        skill += 4 * (advantage * (goes_right - chance) * slopes).mean(0)
        curve.append(uphill.mean())
    return curve


# %% [markdown]
r"""
**Predict:** after a hundred iterations, averaged over twenty seeds, which porters have taken a larger fraction of their steps uphill?
"""

# %% tags=["demo"]
predict("better_critic", ..., ["each critic observes one slope", "one critic observes both"])

# %% tags=["demo"]
figure, axes = plt.subplots(figsize=(7, 3), constrained_layout=True)
names, uphill = {False: "each critic observes one slope", True: "one critic observes both"}, {}
for both, color in [(False, "#94a3b8"), (True, "#059669")]:
    curves = np.array([np.cumsum(porters(both, seed)) / np.arange(1, 101) for seed in range(20)])
    low, high = np.percentile(curves, [10, 90], axis=0)
    axes.fill_between(range(100), low, high, color=color, alpha=0.25, linewidth=0)
    axes.plot(curves.mean(axis=0), color=color, label=names[both])
    uphill[names[both]] = curves[:, -1].mean()
axes.set(xlabel="iteration", ylabel="uphill fraction so far", title="Twenty seeds: mean, and the middle 80% shaded")
axes.legend()
measured("better_critic", max(uphill, key=uphill.get))

# %% [markdown]
r"""
The porters with the centralized critic learn faster, and their runs are closer together.
Their critic can predict the product and subtract it, so the advantage depends more on what they did.
The gain is large here because the product of the slopes explains most of the reward's variance; if it explained little, a critic that observes more would only have more to learn.

MAPPO is PPO with such a critic.
In RLlib, you would write a learner connector that adds the other agent's observation to the batch, and your module's `compute_values` would read it.
"""

# %%
### BEGIN SOLUTION
critic_at_play = "b"
### END SOLUTION

# %%
quiz("critic_at_play", critic_at_play)

# %% [markdown]
r"""
## In self-play, the opponent is always as strong as the player

In [self-play](../docs/glossary.md#self-play), the opponent is a copy of the player.

The game is **four in a row**, on five rows and six columns: a disc falls to the lowest free place of its column, and four in a line win.
A player is a dict of arrays, the weights of a small network.

- `collect(me, other, games, seed)` plays games, half of them with `me` moving first, and returns the moves of `me` and how the games ended.
- `Learner(player)` trains a player: `learner.learn(*batches)` takes one policy gradient step on such moves, and `learner.player()` returns a copy of the current player.

Here, an untrained player plays against itself:
"""

# %% tags=["demo"]
figure, axes = plt.subplots(figsize=(4.2, 3.4), constrained_layout=True)
untrained = new_player(seed=0)
draw_board(one_game(untrained, untrained, seed=1), axes).set_title("An untrained player against itself, move by move");
# %% [markdown]
r"""
## A league is a list of references to past versions

An object in the store never changes, so `ray.put` makes a [snapshot](../docs/glossary.md#snapshot) that stays the same while the learner keeps training.
A list of references to snapshots is a [league](../docs/glossary.md#league).

![The learner puts a copy of its player into the object store after each round; matches are tasks that get two refs; their points fill a table, and Elo ratings summarize the table](../img/ch23_league.svg)

Write `league`, which lets all snapshots play one another and returns a table of points.

- `match(first, second, games)` plays that number of games and returns the points of `first`, which moves first: 1 per win, 0.5 per draw.
- Moving first is an advantage, so each pair plays two matches, one with each of them moving first.
- `table[i, j]` holds the points that snapshot i took from snapshot j in both matches, and the diagonal holds zeros.
- Matches run in tasks.
  Start all of them before you wait, and pass them the refs, not the players.
"""


# %%
def league(match, snapshots, games):
    """Return the table of points, shape [snapshots, snapshots]; `snapshots` are refs to players."""
    ### BEGIN SOLUTION
    task, size = ray.remote(match), len(snapshots)
    refs = {(i, j): task.remote(snapshots[i], snapshots[j], games) for i in range(size) for j in range(size) if i != j}
    first = dict(zip(refs, ray.get(list(refs.values())), strict=True))
    table = np.zeros((size, size))
    for i, j in first:
        table[i, j] = first[i, j] + games - first[j, i]
    return table
    ### END SOLUTION


# %%
check("league", league)

# %% [markdown] tags=["solution"]
r"""
The driver handles only refs and numbers, and each worker reads the two players that it needs.
A league of a hundred snapshots has 4,950 pairs, so real leagues let only some of them play.
"""

# %% [markdown]
r"""
## Elo ratings summarize a table in one number per player

An [Elo rating](../docs/glossary.md#elo-rating) is one number per player, and the difference between two ratings predicts how the two players will score against each other.
In each game against j, player i takes on average

$$E_{ij} = \frac{1}{1 + 10^{(R_j - R_i)/400}}$$

points, so a lead of 400 means odds of ten to one.
From a table of points, you can find the ratings that fit best: with them, each player's expected points, over all games, equal the points that it took.
The rating of a player that won every game would grow without limit, so pretend that each pair has played **one more game, a draw**.

Write `elo`, which takes a table and returns a rating per player, to within 4 Elo points.
`points[i, j]` holds the points that i took from j, so the two played `points[i, j] + points[j, i]` games, perhaps none, plus the draw.
Only differences matter, so shift the ratings to a mean of 0.
"""


# %%
def elo(points):
    """Return the ratings, shape [players] and mean 0, that fit this table best, with one drawn game added to each pair."""
    ### BEGIN SOLUTION
    points = np.asarray(points, float) + 0.5 * (1 - np.eye(len(points)))
    games, ratings = points + points.T, np.zeros(len(points))
    for _ in range(1000):
        expected = games / (1 + 10 ** ((ratings[None, :] - ratings[:, None]) / 400))
        ratings += 400 * (points - expected).sum(axis=1) / games.sum(axis=1)
    return ratings - ratings.mean()
    ### END SOLUTION


# %%
check("elo", elo)

# %% [markdown] tags=["solution"]
r"""
This is the maximum likelihood estimate of the Bradley–Terry model, and any optimizer finds it, because the likelihood has a single peak.
Updating the ratings after each game, as many rating systems do, is stochastic gradient ascent on the same likelihood, so the result depends on the order of the games.
"""

# %% [markdown]
r"""
How much of a rating is luck?
`rating_samples` rates tables that could have come out instead: it samples each pair's fraction of the points from a Beta distribution around the measured one, drawn game included.
The middle 95% of a player's sampled ratings is its [credible interval](../docs/glossary.md#credible-interval), which is a little too wide if many games were draws.

Whether one player is stronger than another is a question about their *difference*: subtract the two ratings within each sample, and take the interval of these differences.
If it contains 0, you don't know yet.
"""


# %%
def rating_samples(table, rng):
    """Return ratings of tables that could have come out instead, shape [samples, players]."""
    games, others = table + table.T, 1 - np.eye(len(table))
    samples = []
    for _ in range(budget(200, 20)):
        upper = np.triu(rng.beta(table + 0.5, table.T + 0.5), 1)  # the drawn game is in here
        points = (games + 1) * (upper + np.tril(1 - upper.T, -1))
        samples.append(elo(points - 0.5 * others))  # elo adds the drawn game itself
    return np.array(samples)


# %%
### BEGIN SOLUTION
overlap = "b"
### END SOLUTION

# %%
quiz("overlap", overlap)

# %% [markdown]
r"""
## In a cyclic game, beating the latest opponent isn't progress

Rock, paper, scissors is a [cyclic game](../docs/glossary.md#cyclic-game): each action beats one of the others and loses to the other.
A player is three probabilities.
Each new snapshot is a good response to an opponent, which is the latest snapshot in one league and the average of all snapshots in the other.

**Predict:** in the first league, snapshot 30 has learned to beat snapshot 29.
How does it do against snapshot 28?
"""

# %% tags=["demo"]
predict("against_28", ..., ["it wins", "it draws", "it loses"])

# %%
GAIN = np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])  # of rock, paper, or scissors (row) against each of them (column)


# %%
def responses(rounds, to_all):
    """Return the snapshots of a league of good responses, shape [rounds + 1, 3]."""
    snapshots = [np.array([0.8, 0.1, 0.1])]
    for _ in range(rounds):
        opponent = np.mean(snapshots, axis=0) if to_all else snapshots[-1]
        response = np.exp(4 * GAIN @ opponent)
        snapshots.append(response / response.sum())
    return np.array(snapshots)


# %% tags=["demo"]
figure, grid = plt.subplots(1, 2, figsize=(8.4, 3.4), constrained_layout=True)
for ax, to_all, title in zip(
    grid, [True, False], ["responses to all snapshots", "responses to the latest"], strict=True
):
    snapshots = responses(30, to_all)
    gains = snapshots @ GAIN @ snapshots.T
    image = ax.imshow(gains, cmap="PuOr", vmin=-1, vmax=1)
    ax.set(title=title, xlabel="opponent", ylabel="snapshot")
    print(f"{title}: the worst result of snapshot 30 is {gains[30].min():.2f}")
figure.colorbar(image, ax=grid, label="mean gain per game")
measured("against_28", "it wins" if gains[30, 28] > 0.05 else "it loses" if gains[30, 28] < -0.05 else "it draws")

# %% [markdown]
r"""
It loses.
On the right, each snapshot beats the one before it and loses to the one before that: the league goes in circles, and every round looks like progress.
On the left, the snapshots approach a probability of 1/3 for each action, which no opponent can beat on average.
Responding to the average of the past is called [fictitious play](../docs/glossary.md#fictitious-play).
"""

# %%
### BEGIN SOLUTION
a_circle = "a"
### END SOLUTION

# %%
quiz("a_circle", a_circle)

# %% [markdown]
r"""
## Training against past snapshots prevents forgetting

Write `beats_its_past`, which takes a seed and a number of rounds, trains a league, and returns it as a list of refs, oldest snapshot first.

1. The first snapshot is `new_player(seed)`, and a `Learner` starts from it.
2. Each round has STEPS steps.
   In each step, the *current* player plays GAMES games against the latest snapshot and as many against one sampled from all snapshots, in two `play_against` tasks, and the learner learns from both batches.
3. At the end of each round, a copy of the player joins the league.

All random choices, and the seeds for `play_against`, come from one NumPy generator with this seed.

The check trains for four rounds, from up to three seeds, and takes up to half a minute.
Some opponents must be older than the latest snapshot, the same seed must lead to the same league, and for one of the seeds, the last snapshot must take at least 62% of the points, on average, from the earlier ones.
"""

# %%
STEPS, GAMES = 15, 128


@ray.remote
def play_against(me, other, games, seed):
    """Return my moves in games against another player."""
    return collect(me, other, games, seed)


# %%
def beats_its_past(seed, rounds):
    """Return the refs of all snapshots of a league, from the untrained player to the latest."""
    ### BEGIN SOLUTION
    rng, learner = np.random.default_rng(seed), Learner(new_player(seed))
    snapshots = [ray.put(learner.player())]
    for _ in range(rounds):
        for _ in range(STEPS):
            mine = ray.put(learner.player())
            opponents = [snapshots[-1], snapshots[rng.integers(len(snapshots))]]
            refs = [play_against.remote(mine, other, GAMES, int(rng.integers(2**31))) for other in opponents]
            learner.learn(*ray.get(refs))
        snapshots.append(ray.put(learner.player()))
    return snapshots
    ### END SOLUTION


# %%
check("beats_its_past", beats_its_past)

# %% [markdown] tags=["solution"]
r"""
Half of the games are against the latest snapshot, because a strong opponent teaches the most.
AlphaStar's league is more selective: it more often samples the opponents that the player loses to.
"""

# %% [markdown]
r"""
Now train two larger leagues: yours, and one whose player meets only the latest snapshot.
Then the last snapshot of each plays against all of its predecessors.
This takes a minute or two.

**Predict:** in the second league, what's the smallest percentage of the points that the last snapshot takes from any predecessor?
"""

# %% tags=["demo"]
predict("worst_against_its_past", ...)  # percent


# %% tags=["demo"]
def fractions(snapshots, games=100):
    """Return the fraction of the points that the last snapshot takes from each of the others."""
    last = ray.get(snapshots[-1])
    pairs = [(match(last, past, games), match(past, last, games)) for past in ray.get(snapshots[:-1])]
    return [(first + games - second) / (2 * games) for first, second in pairs]


def only_the_latest(seed, rounds):
    """Return the refs of a league whose player meets only the latest snapshot."""
    return [ray.put(player) for player in against_the_latest(seed, rounds, STEPS, GAMES)]


# %% tags=["demo"]
rounds, leagues, taken = budget(24, 4), {}, {}
if passed("beats_its_past"):
    trainers = [("against all past snapshots", beats_its_past), ("against the latest only", only_the_latest)]
    figure, axes = plt.subplots(figsize=(7, 3), constrained_layout=True)
    for name, train in track(trainers, "training two leagues"):
        leagues[name] = train(1, rounds)
        taken[name] = fractions(leagues[name])
        axes.plot(taken[name], "o-", color="#d97706" if "only" in name else "#059669", label=name)
    axes.axhline(0.5, color="#94a3b8")
    axes.set(
        xlabel="past snapshot", ylabel="fraction of the points", title="The last snapshot against its past", ylim=(0, 1)
    )
    axes.legend()
    display(measured("worst_against_its_past", 100 * min(taken["against the latest only"])))

# %% [markdown]
r"""
Where a line dips in the middle, the player has forgotten how to beat opponents that it once beat, because they no longer meet.
In our runs of 24 rounds, the second league's line dipped lower, by an amount that depends on the seed; quick mode's four rounds are too few to show it.

Is the last snapshot the best one, then?
Let seven of your snapshots play one another:
"""

# %% tags=["demo"]
if passed("beats_its_past") and passed("league") and passed("elo"):
    snapshots = leagues["against all past snapshots"]
    picked = np.unique(np.linspace(0, len(snapshots) - 1, 7).astype(int))
    table = league(match, [snapshots[i] for i in picked], budget(200, 50))
    ratings, samples = elo(table), rating_samples(table, np.random.default_rng(0))
    figure, axes = plt.subplots(figsize=(7, 3), constrained_layout=True)
    axes.vlines(picked, *np.percentile(samples, [2.5, 97.5], axis=0), color="#7c3aed")
    axes.plot(picked, ratings, "o-", color="#7c3aed")
    axes.set(xlabel="snapshot", ylabel="Elo rating", title="A league's ratings, with 95% intervals")
    second, best = np.argsort(ratings)[-2:]
    low, high = np.percentile(samples[:, best] - samples[:, second], [2.5, 97.5])
    print(
        f"best: snapshot {picked[best]}, then {picked[second]}; the 95% interval of the difference: {low:.0f} to {high:.0f}"
    )

# %% [markdown]
r"""
If the interval of the difference contains 0, chance may have put the leader ahead.
You also picked the leader *because* it did well in these games, so let the best two play again.
Keep the whole league, and choose the snapshot to ship by its games, not by its age.
"""

# %% [markdown]
r"""
## Play against your own league

The weights are part of the page, so this board needs no kernel: click a column, or press its number.
Choose a snapshot as your opponent, or watch one play against itself.
Against you, it takes its best column; against itself, it samples its moves, or all games would be the same.
"""

# %% tags=["demo"]
if passed("beats_its_past"):
    snapshots = leagues["against all past snapshots"]
    chosen = sorted({0, len(snapshots) // 2, len(snapshots) - 1})
    page = against({f"snapshot {i}": ray.get(snapshots[i]) for i in chosen})
    display(page)

# %% [markdown]
r"""
A player's inputs include how full each line is, but it blocks a line only if it has learned to.

## RLlib has the parts of a league

| here | in RLlib |
|---|---|
| a snapshot | a module in the `MultiRLModule`, added with `algo.add_module(...)` |
| a copy of the weights | `algo.set_state(...)` with `algo.get_module("main").get_state()` |
| sampling an opponent | `policy_mapping_fn`, whose choice holds for an episode |
| snapshots that stay the same | `policies_to_train=["main"]` |
| "at the end of each round" | the `on_train_result` callback |

`rllib/examples/multi_agent/self_play_league_based_with_open_spiel.py` in Ray's repository combines all five.
"""

# %% tags=["demo"]
ray.shutdown()

# %% [markdown]
r"""
## What you can do now

- You can write multi-agent environments, use PettingZoo's, and choose which module acts for each agent.
- You can train policies with a centralized critic, and run them without it.
- You can rate a league of snapshots with intervals, and explain why the latest one isn't always the best.

## Traps

- **A robot that has left** must not appear in any dict again, and both dicts of flags need `"__all__"` in every step.
- **A list that holds the learner's own arrays** holds the latest player N times; `ray.put` makes a copy.
- **The order of two players** may be luck: look at the interval of their difference.
- **Progress against yourself** may be a circle, so play against old snapshots, too.

## Read on

- Vinyals et al., *Grandmaster level in StarCraft II using multi-agent reinforcement learning*, Nature 2019.
- Lyu et al., [*Contrasting Centralized and Decentralized Critics in Multi-Agent Reinforcement Learning*](https://arxiv.org/abs/2102.04402), 2021.
- Yu et al., [*The Surprising Effectiveness of PPO in Cooperative Multi-Agent Games*](https://arxiv.org/abs/2103.01955), 2022: MAPPO.
- Balduzzi et al., [*Open-ended Learning in Symmetric Zero-sum Games*](https://arxiv.org/abs/1901.08106), 2019: cyclic games.
- [PettingZoo's parallel API](https://pettingzoo.farama.org/api/parallel/) and RLlib's [multi-agent environments](https://docs.ray.io/en/latest/rllib/multi-agent-envs.html).
"""
