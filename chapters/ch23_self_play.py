# %% [markdown] you_learn_to="train two agents, and an agent against a league of its past selves"
r"""
# Chapter 23 · Self-play

An agent that plays against itself must not forget what it could do before.

*About 115 minutes · builds on [Chapter 14](ch14_custom.ipynb); [Chapter 2](ch02_objects.ipynb) helps*

**What you will be able to do**

- put two agents into one environment, and decide which module plays each of them;
- read PettingZoo's environments, and hand them to RLlib;
- train with a critic that sees more than its players;
- keep past selves in the object store, let all play all, and rate them by Elo, with intervals;
- say why the newest is not always the best, and train against the whole past.
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

from coursekit import begin, budget, check, hint, passed, progress, quiz, solution
from coursekit.given.ch14_custom import draw
from coursekit.given.ch23_self_play import ZooBridge, against_the_newest
from coursekit.given.four import Learner, collect, draw_board, match, new_player, one_game
from coursekit.given.four_page import against

begin("ch23_self_play")

# %%
ray.shutdown()  # ends a Ray that already runs here: its references and actors are gone
ray.init(num_cpus=2, include_dashboard=False)
torch.set_num_threads(1)  # networks as small as these gain nothing from more

# %% [markdown] tags=["notes"]
r"""
The chapter has two halves: two robots that must agree, and a player that must beat itself.
`Bridge` is homework for a room that has seen chapter 14 on the same day.
Run the chapter in full mode beforehand, for the league's curves, and open the board at the end: a room that plays against its own league stays longer than planned.
"""

# %% [markdown]
r"""
## Two agents are dicts of everything

Two robots, one from the north and one from the south, meet at a bridge that carries only one.
In RLlib an environment with several agents is a `MultiAgentEnv`: like Gymnasium's, but observations, actions, rewards and flags are **dicts with a key for each agent**.
Three rules hold, and most bugs in such environments break one:

- An agent that is still playing and gets an observation now acts next.
- An agent that ends gets its last observation and reward together with `terminated`, and appears in no dict after that.
- `terminateds` and `truncateds` have one more key, `"__all__"`, for the episode as a whole.

Squares 1 and 2 are on the bridge, 0 is before it and 3 behind it.
The rules:

1. Action 0 waits, 1 moves from square 0 to square 1.
   A robot on the bridge cannot stop: it moves one square further, whatever its action.
2. If *after* the step both are on the bridge, both fall: −1 for each, both terminated, all over.
3. Otherwise, a robot that has reached square 3 gets 1 and is terminated.
   Every other robot in `actions` gets −0.2: time is money.
4. When both are across, the episode is over.
   If it is not over after step 20, everything is truncated.
   It is enough to say so under `"__all__"`; what `truncateds` says of single robots then does not matter.

Write `step`; the rest is there.
`actions` holds the robots still in the game; observations, rewards and terminateds are about these robots.
"""


# %%
class Bridge(MultiAgentEnv):
    """Two robots and a bridge that carries one."""

    def __init__(self, config=None):
        super().__init__()
        self.agents = self.possible_agents = ["north", "south"]
        self.observation_spaces = {agent: Box(0, 1, (2,), np.float32) for agent in self.agents}
        self.action_spaces = {agent: Discrete(2) for agent in self.agents}

    def reset(self, *, seed=None, options=None):
        """Put both before the bridge; return what they see, and an empty dict."""
        self.square, self.steps = {"north": 0, "south": 0}, 0
        return self.seen_by(["north", "south"]), {}

    def seen_by(self, agents):
        """Return for each of these agents its own square and the other's, divided by 3."""
        other = {"north": "south", "south": "north"}
        return {a: np.array([self.square[a], self.square[other[a]]], np.float32) / 3 for a in agents}

    def step(self, actions):
        """Return observations, rewards, terminateds, truncateds (dicts), and an empty dict."""
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
Gymnasium's `TimeLimit` does not fit around a `MultiAgentEnv`: it would set `truncated` to True where a dict is expected.
Such environments count their own steps.
"""

# %% [markdown]
r"""
## Two who see the same and think the same do the same

A config names the **modules**, which RLlib still calls `policies`, and gives a function that maps each agent to one.
One module for both is the usual first idea: half the weights, twice the experience.

The callback, a function this time, asks the environment itself whether both are across.

**Predict:** both robots share one module.
When it has learned for a while, what share of the pairs get across?
"""


# %% tags=["demo"]
def log_crossed(*, env, env_index, metrics_logger, **kwargs):
    """Log 1 where both robots are across, else 0."""
    bridge = env.envs[env_index].unwrapped
    metrics_logger.log_value("crossed", float(set(bridge.square.values()) == {3}), reduce="mean")


def pair():
    """Return PPO for the bridge, without saying who plays whom."""
    return (
        PPOConfig()
        .environment(Bridge)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=10)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[32, 32]))
        .training(train_batch_size_per_learner=300, minibatch_size=100, num_epochs=8)
        .training(lr=0.005, gamma=0.9, lambda_=0.95, use_kl_loss=False)
        .callbacks(on_episode_end=log_crossed)
        .debugging(seed=0)
    )


# %%
def learn(config):
    """Return what the EnvRunner reported after each iteration, as a table, and the trained module."""
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


# %%
def one_mind(config):
    """Return the config with one module for all robots."""
    return config.multi_agent(policies={"both"}, policy_mapping_fn=lambda agent_id, episode, **kwargs: "both")


bridge_curves, minds = {}, {}
if passed("Bridge"):
    bridge_curves["one mind"], minds["one mind"] = learn(one_mind(pair()))
    print(f"crossed: {bridge_curves['one mind']['crossed'].iloc[-3:].mean():.0%} in the last three iterations")

# %% [markdown]
r"""
The other pairs fall or wait until the end, and the share that crosses goes up and down, as the next plot shows.
At the start both see (0, 0), and the same module gives both the same probability $p$ of going.
In a step, both go with $p^2$, neither with $(1-p)^2$, and exactly one with $2p(1-p)$, never more than a half.
A larger $p$ makes more of them fall; a smaller one makes them wait longer, and waiting costs.
"After you."
"No, after you."
They lack a convention, and one module cannot hold it: it does not know which robot it is.

![With one module both robots get the same answer; with a mapping each robot has a module of its own, and one of them learns to wait](../img/ch23_minds.svg)

Give each side a mind of its own.
Write `two_minds` so that it also fits larger fleets: robots are named `"north"`, `"south"`, `"north-3"`, `"south-12"`, and all robots of a side share its module.
"""


# %%
def two_minds(config):
    """Return the config with the modules "north" and "south", each playing the robots of its side."""
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
RLlib calls the function once for each agent and episode, so an agent keeps its module until the episode ends.
It may look at the episode too, or draw at random: that is how self-play picks an opponent.
With `policies_to_train=["north"]` the other side would stay as it is.
"""

# %% [markdown]
r"""
Here is the second curve.
Can you tell which of the two will go first?
"""

# %% tags=["demo"]
if passed("Bridge") and passed("two_minds"):
    bridge_curves["two minds"], minds["two minds"] = learn(two_minds(pair()))
    draw(bridge_curves, "crossed", "One bridge, two robots", ylim=(0, 1.05))


# %% tags=["demo"]
def cross(minds, module_of):
    """Return the squares of both robots after each step, where each takes its most probable action."""
    env, over = Bridge(), False
    obs, _ = env.reset()
    squares = [list(env.square.values())]
    while not over:
        actions = {agent: best_action(minds[module_of(agent)], seen) for agent, seen in obs.items()}
        obs, _, terminateds, truncateds, _ = env.step(actions)
        obs = {agent: seen for agent, seen in obs.items() if not terminateds.get(agent, False)}
        squares.append(list(env.square.values()))
        over = terminateds["__all__"] or truncateds["__all__"]
    return np.array(squares)


# %% tags=["demo"]
if len(minds) == 2:
    figure, grid = plt.subplots(1, 2, figsize=(10, 2.8), constrained_layout=True, sharey=True)
    for ax, name, module_of in zip(grid, minds, [lambda agent: "both", lambda agent: agent], strict=True):
        for agent, places, style in zip(
            ["north", "south"], cross(minds[name], module_of).T, ["o-", "s--"], strict=True
        ):
            ax.plot(places, style, label=agent)
        ax.axhspan(0.5, 2.5, color="#94a3b8", alpha=0.25)
        ax.set(title=name, xlabel="step", ylabel="square (grey: the bridge)", yticks=range(4))
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.legend()

# %% [markdown]
r"""
With one mind and no dice, the two lines coincide: both go and fall, or both wait until the end.
With two minds one goes and the other lets it.
Chance decided in the first iterations which goes first; another seed may reverse it.
The robots share no reward, and no rule tells them to cooperate: giving way simply pays.

A module for each is not the only way.
If the observation said *who* sees it, one module could learn both parts; large teams are often trained like that, since all share their experience.
"""

# %%
### BEGIN SOLUTION
one_mind_alone = "b"
### END SOLUTION

# %%
quiz("one_mind_alone", one_mind_alone)

# %% [markdown]
r"""
## PettingZoo says the same in other words

Many environments for several agents are written for **PettingZoo**, whose parallel API is what Gymnasium is for one agent:

| | RLlib's `MultiAgentEnv` | PettingZoo's `ParallelEnv` |
|---|---|---|
| spaces of an agent | `observation_spaces[agent]`, a dict | `observation_space(agent)`, a method |
| who is in the game | who gets an observation | the list `agents`, which shrinks |
| `reset` | observations, infos | observations, infos |
| `step` | five dicts | five dicts |
| end of the episode | `"__all__"` in two of them | `agents` is empty |

`ZooBridge` is your bridge with PettingZoo's signature.
PettingZoo need not be installed: RLlib's wrapper calls these methods on any object that has them.
Games in which players take turns have another API, called AEC, and another wrapper, `PettingZooEnv`.
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
The wrapper adds `"__all__"`: true when every agent *in the dict* has terminated, and in the other dict when every agent was truncated.
If one robot terminates in the step in which the other is truncated, neither is true, and RLlib thinks the episode goes on.
Let your environment truncate all remaining agents one step later, or write the few lines of a `MultiAgentEnv` yourself.
"""

# %% [markdown]
r"""
## A critic may see what its players can't

Two porters carry a ladder.
Each sees the slope under its own feet, a number from −1 to 1, and steps left or right.
Together they earn a point for each step uphill, and $9\,s_1 s_2$ on top: slopes that agree are a gift and slopes that differ cost, whatever the porters do.

A critic that sees what its porter sees cannot foresee that last part, so it lands in the advantage as noise.
While they learn, a **centralised critic** sees both slopes.
Each policy still sees only its own slope, so each can play alone.

![Two policies see one slope each; in training one critic sees both, and at play it is gone](../img/ch23_critic.svg)
"""


# %%
def seen_by_critics(slopes, both):
    """Return what each porter's critic sees, shape [B, 2, 4]."""
    ones, (left, right) = np.ones(len(slopes)), slopes.T
    if both:
        return np.stack([np.stack([ones, left, right, 3 * left * right], -1)] * 2, 1)
    return np.stack([np.stack([ones, own, own**2, own**3], -1) for own in (left, right)], 1)


# %%
def porters(both, seed, iterations=100):
    """Return the share of uphill steps in each iteration; critics learn by least squares, porters by the policy gradient."""
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
**Predict:** whose porters learn faster, and whose twenty runs differ more?
"""

# %% tags=["demo"]
figure, axes = plt.subplots(figsize=(7, 3), constrained_layout=True)
for both, name, colour in [(False, "each critic sees one slope", "#94a3b8"), (True, "the critic sees both", "#059669")]:
    curves = np.array([np.cumsum(porters(both, seed)) / np.arange(1, 101) for seed in range(20)])
    low, high = np.percentile(curves, [10, 90], axis=0)
    axes.fill_between(range(100), low, high, color=colour, alpha=0.25, linewidth=0)
    axes.plot(curves.mean(axis=0), color=colour, label=name)
axes.set(xlabel="iteration", ylabel="uphill steps so far", title="Twenty seeds, the middle eighty per cent shaded")
axes.legend();

# %% [markdown]
r"""
The critic that sees both teaches faster, and its runs lie closer together.
Nothing about the players has changed, only how well the critic subtracts chance from what they are told.
The gain is large here because the other's slope explains most of the reward; if it explains little, a critic that sees more only has more to learn.
MAPPO is PPO with such a critic.
In RLlib you would let a connector on the learner's side add the other's observation to the batch, and your module's `compute_values` read it.
"""

# %%
### BEGIN SOLUTION
critic_at_play = "b"
### END SOLUTION

# %%
quiz("critic_at_play", critic_at_play)

# %% [markdown]
r"""
## A copy of yourself is always as strong as you

A game needs an opponent that is neither too weak nor too strong.
Take a copy of yourself.

The game is **four in a row**, on five rows and six columns: a stone falls to the lowest free place of its column, and four in a line win.
A player is a dict of arrays, the weights of a small network, so `ray.put` keeps it as it is.
`collect(me, other, games, seed)` plays games, half of them begun by me, and returns my moves and how their games ended.
A `Learner(player)` improves a player: `learner.learn(*batches)` takes one policy gradient step on such moves, and `learner.player()` returns a copy of the player as it is now.

A player that has learned nothing plays like this:
"""

# %% tags=["demo"]
figure, axes = plt.subplots(figsize=(4.2, 3.4), constrained_layout=True)
novice = new_player(seed=0)
draw_board(one_game(novice, novice, seed=1), axes).set_title("A novice against itself, move by move");

# %% [markdown]
r"""
## A league keeps past selves as objects

What if you get better only against yourself?
To find out, keep past selves: an object in the store never changes, so `ray.put` makes a member that stays as it was while the learner goes on.
A list of these refs is a **league**.

![The learner puts a copy of its player into the object store after each round; matches are tasks that get two refs; their points make a table, and the table ratings](../img/ch23_league.svg)

Write `league`: all play all, and the result is a table.
`match(first, second, games)` returns the points of the *first* player, who begins: 1 for a win, a half for a draw.
Going first is an advantage, so each pair plays `games` games in each seat.
`table[i, j]` holds the points that member i took from member j in both seats, and the diagonal holds zeros.
Every match is a task; start all of them before you wait, and pass the refs, not the players.
"""


# %%
def league(match, members, games):
    """Return the table of points, shape [members, members]; `members` are refs to players."""
    ### BEGIN SOLUTION
    task, size = ray.remote(match), len(members)
    refs = {(i, j): task.remote(members[i], members[j], games) for i in range(size) for j in range(size) if i != j}
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
The driver holds only refs and numbers: a worker opens the two players it needs, and on a cluster they would travel to its node once.
A league of a hundred members has 4,950 pairs; real leagues let only some of them play.
"""

# %% [markdown]
r"""
## Elo turns a table into a number for each

In 1960 the US Chess Federation adopted an idea of Arpad Elo's: each player has one number, and the difference between two numbers says what to expect.
From each game against j, player i takes on average

$$E_{ij} = \frac{1}{1 + 10^{(R_j - R_i)/400}}$$

So 400 points are odds of ten to one.
Programs on a ladder update $R$ after each game; from a whole table, you can find the ratings that fit best: those that make each player's expected points, over all its games, exactly the points it took.
A player that won every game would rise without end, so pretend that each pair has played **one more game, a draw**.

Write `elo`.
`points[i, j]` holds the points that i took from j, so the two played `points[i, j] + points[j, i]` games, and now one more.
Only differences matter; let the mean be 0.
"""


# %%
def elo(points):
    """Return the ratings, shape [players], whose expected points are those taken; one drawn game is added to each pair."""
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
This is the maximum likelihood of the Bradley–Terry model, and any optimiser finds it: the likelihood has one peak.
Chess's updates after each game are stochastic gradient steps on the same likelihood, so their result depends on the order of the games.
"""

# %% [markdown]
r"""
A rating without an interval is half a result.
`interval` plays the whole table again and again, on paper: it draws each pair's points from the share that was measured, drawn game included, and keeps the middle 95 per cent of the ratings.
"""


# %%
def interval(table, rng):
    """Return the ends of each rating's 95 % interval, shape [2, players]."""
    games = np.round(table + table.T).astype(int)
    share = (table + 0.5) / (games + 1)  # with the drawn game, or a pair that one of them always won would show no chance
    samples = []
    for _ in range(budget(200, 20)):
        upper = np.triu(rng.binomial(games, share), 1)
        samples.append(elo(upper + np.tril(games - upper.T, -1)))
    return np.percentile(samples, [2.5, 97.5], axis=0)


# %%
### BEGIN SOLUTION
overlap = "b"
### END SOLUTION

# %%
quiz("overlap", overlap)

# %% [markdown]
r"""
## The newest beats the last one, and may lose to the first

In rock, paper, scissors a player is three probabilities.
Each new member is a good answer to an opponent: in one league the newest member, in the other the average of all members so far.

**Predict:** the newest of thirty members has learned to beat number twenty-nine.
How does it do against number twenty-eight?
"""

# %%
GAIN = np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])  # of rock, paper, scissors in the row against those in the column


def answers(rounds, to_all):
    """Return the members of a league of answers, shape [rounds + 1, 3]."""
    members = [np.array([0.8, 0.1, 0.1])]
    for _ in range(rounds):
        opponent = np.mean(members, axis=0) if to_all else members[-1]
        wish = np.exp(4 * GAIN @ opponent)
        members.append(wish / wish.sum())
    return np.array(members)


# %% tags=["demo"]
figure, grid = plt.subplots(1, 2, figsize=(8.4, 3.4), constrained_layout=True)
for ax, to_all, title in zip(grid, [False, True], ["answers to the newest", "answers to all of the past"], strict=True):
    members = answers(30, to_all)
    picture = ax.imshow(members @ GAIN @ members.T, cmap="PuOr", vmin=-1, vmax=1)
    ax.set(title=title, xlabel="against member", ylabel="member")
    print(f"{title}: worst result of the newest {(members[-1] @ GAIN @ members.T).min():.2f}")
figure.colorbar(picture, ax=grid, label="gain");

# %% [markdown]
r"""
On the left, each member beats the one before it and loses to the one before that: the league runs in a circle, and every round looks like progress.
On the right, the circle shrinks from round to round towards one third of each, where no past self can win.
"""

# %%
### BEGIN SOLUTION
a_circle = "a"
### END SOLUTION

# %%
quiz("a_circle", a_circle)

# %% [markdown]
r"""
## Learn from all of your past

Back to four in a row.
Write `beats_its_past`, which raises a league from a novice:

1. The first member is `new_player(seed)`; a `Learner` starts from it.
2. In each of `rounds` rounds, take STEPS steps.
   In each step, two `play_against` tasks play GAMES games at the same time: the learner's player as it is *now* against the newest member, and against one drawn from all of them.
   The learner learns from both batches.
3. At the end of a round, a copy of the player joins the league.

All draws, and the seeds of `play_against`, come from one NumPy generator with this seed.
Return the members: a list of refs, the oldest first.
The check lets the newest play against each of its past selves.
"""

# %%
STEPS, GAMES = 15, 128


@ray.remote
def play_against(me, other, games, seed):
    """Return my moves from games against another player."""
    return collect(me, other, games, seed)


# %%
def beats_its_past(seed, rounds):
    """Return the refs of all members of a league, the novice first and the newest last."""
    ### BEGIN SOLUTION
    rng, learner = np.random.default_rng(seed), Learner(new_player(seed))
    members = [ray.put(learner.player())]
    for _ in range(rounds):
        for _ in range(STEPS):
            mine = ray.put(learner.player())
            opponents = [members[-1], members[rng.integers(len(members))]]
            refs = [play_against.remote(mine, other, GAMES, int(rng.integers(2**31))) for other in opponents]
            learner.learn(*ray.get(refs))
        members.append(ray.put(learner.player()))
    return members
    ### END SOLUTION


# %%
check("beats_its_past", beats_its_past)

# %% [markdown] tags=["solution"]
r"""
Half of the games go to the newest member, because the strongest opponent teaches most; the other half keeps alive what the player could do.
AlphaStar's league draws the opponents it loses to more often.
"""

# %% [markdown]
r"""
Now raise a larger league, and beside it one that plays only against its newest member.

**Predict** both lines: the share of points that the newest member takes from each of its past selves.
"""


# %% tags=["demo"]
def shares(members, games=100):
    """Return the newest member's share of the points against each of the others."""
    newest = ray.get(members[-1])
    pairs = [(match(newest, past, games), match(past, newest, games)) for past in ray.get(members[:-1])]
    return [(first + games - second) / (2 * games) for first, second in pairs]


rounds, leagues = budget(24, 4), {}
if passed("beats_its_past"):
    leagues["against all of the past"] = beats_its_past(1, rounds)
    leagues["against the newest"] = [ray.put(player) for player in against_the_newest(1, rounds, STEPS, GAMES)]
    figure, axes = plt.subplots(figsize=(7, 3), constrained_layout=True)
    for (name, members), colour in zip(leagues.items(), ["#059669", "#d97706"], strict=True):
        axes.plot(shares(members), "o-", color=colour, label=name)
    axes.axhline(0.5, color="#94a3b8")
    axes.set(xlabel="past member", ylabel="the newest's share of points", title="What the newest can still do", ylim=(0, 1))
    axes.legend()

# %% [markdown]
r"""
You might expect older members to be easier, all the way.
Where a line sags, the newest has forgotten how to beat a member it once beat, because it no longer meets it.
With the full number of rounds, that happens to the league that plays only against its newest; a few rounds are too few.
Is the newest the best, then?
Let all play all:
"""

# %% tags=["demo"]
if passed("beats_its_past") and passed("league") and passed("elo"):
    members = leagues["against all of the past"]
    picked = np.unique(np.linspace(0, len(members) - 1, 7).astype(int))
    table = league(match, [members[i] for i in picked], budget(200, 50))
    ratings, (low, high) = elo(table), interval(table, np.random.default_rng(0))
    figure, axes = plt.subplots(figsize=(7, 3), constrained_layout=True)
    axes.errorbar(picked, ratings, [ratings - low, high - ratings], fmt="o-", color="#7c3aed", capsize=4)
    axes.set(xlabel="member", ylabel="Elo", title="A league's ratings, with 95 % intervals")
    second, best = ratings.argsort()[-2:]
    overlap_above = bool(high[second] >= low[best])
    print(f"best: member {picked[best]}, then member {picked[second]}; their intervals overlap: {overlap_above}")

# %% [markdown]
r"""
Sometimes the newest is the best.
Where the curve flattens, neighbours' intervals overlap, and chance may have put one of them ahead.
So keep the whole league, and choose the member to ship by its games, not its date.
"""

# %% [markdown]
r"""
## Play against it

The weights travel into the page, so the next cell's board needs no kernel: click a column, or press its number.
Choose a member to play against, or watch it play itself.
When you play, it takes its best column; against itself it draws its move at random, or all games would be the same.
"""

# %% tags=["demo"]
if passed("beats_its_past"):
    members = leagues["against all of the past"]
    chosen = sorted({0, len(members) // 2, len(members) - 1})
    page = against({f"member {i}": ray.get(members[i]) for i in chosen})
    display(page)

# %% [markdown]
r"""
It is no master: it never looks ahead.
It sees three in a row because its inputs count lines, and it answers a threat only as often as its training met one.

## RLlib has the parts of a league

| yours | in RLlib |
|---|---|
| a member | a module in the `MultiRLModule`, added with `algo.add_module(...)` |
| a copy of the weights | `algo.set_state(...)` with `algo.get_module("main").get_state()` |
| an opponent drawn for each game | `policy_mapping_fn`, which RLlib calls for each agent and episode |
| members that stay as they are | `policies_to_train=["main"]` |
| "after each round" | the callback `on_train_result` |

RLlib's source has it all in `rllib/examples/multi_agent/self_play_league_based_with_open_spiel.py`.
"""

# %% tags=["demo"]
ray.shutdown()

# %% [markdown]
r"""
## What you can do now

- You write environments for several agents, in RLlib's words and in PettingZoo's, and decide which module plays each agent.
- Your critic sees more than your players, and stays home when they play.
- You keep past selves as objects, let them play in tasks, and rate them with intervals.
- You know why the newest is not always the best, and what a league does about it.

## Traps

- **A robot that has left** must not appear in any dict again, and `terminateds` and `truncateds` need `"__all__"` at every step.
- **One module for two agents that see the same** gives both the same answer.
- **A list that holds the learner's own arrays** holds the newest player N times: `ray.put` makes a copy.
- **Only one seat** measures who begins, not who is better.
- **A rating without an interval** ranks by chance.
- **Progress against yourself** may be a circle: play against old members, too.

## Read on

- Vinyals et al., *Grandmaster level in StarCraft II using multi-agent reinforcement learning*, Nature 2019: a league with exploiters.
- Lyu et al., [*Contrasting Centralized and Decentralized Critics in Multi-Agent Reinforcement Learning*](https://arxiv.org/abs/2102.04402), 2021: when a critic that sees more does not help.
- Yu et al., [*The Surprising Effectiveness of PPO in Cooperative Multi-Agent Games*](https://arxiv.org/abs/2103.01955), 2022: MAPPO and its centralised critic.
- Balduzzi et al., [*Open-ended Learning in Symmetric Zero-sum Games*](https://arxiv.org/abs/1901.08106), 2019: circles, and why one number is not enough.
- [PettingZoo's parallel API](https://pettingzoo.farama.org/api/parallel/) and RLlib's [multi-agent environments](https://docs.ray.io/en/latest/rllib/multi-agent-envs.html).
"""
