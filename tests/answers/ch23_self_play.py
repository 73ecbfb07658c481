"""Right and wrong answers of chapter 23."""

import numpy as np
import ray
from gymnasium.spaces import Box, Discrete
from ray.rllib.env.multi_agent_env import MultiAgentEnv

from coursekit.given.four import Learner, collect, new_player
from tests.answers import accepts, rejects

RAY = {"num_cpus": 2}


# Bridge: an environment with two agents


class Crossing(MultiAgentEnv):
    """The right rules; the samples change a part of them."""

    def __init__(self, config=None):
        super().__init__()
        self.agents = self.possible_agents = ["north", "south"]
        self.observation_spaces = {agent: Box(0, 1, (2,), np.float32) for agent in self.agents}
        self.action_spaces = {agent: Discrete(2) for agent in self.agents}

    def reset(self, *, seed=None, options=None):
        self.square, self.steps = {"north": 0, "south": 0}, 0
        return self.seen_by(["north", "south"]), {}

    def seen_by(self, agents):
        other = {"north": "south", "south": "north"}
        return {a: np.array([self.square[a], self.square[other[a]]], np.float32) / 3 for a in agents}

    def move(self, agent, action):
        self.square[agent] += 1 if self.square[agent] else int(action)

    def falls(self):
        return all(0 < square < 3 for square in self.square.values())

    def reward(self, fall, across):
        return -1.0 if fall else 1.0 if across else -0.2

    def over(self, fall, across):
        return fall or all(square == 3 for square in self.square.values())

    def present(self, actions):
        return list(actions)

    def step(self, actions):
        self.steps += 1
        for agent, action in actions.items():
            self.move(agent, action)
        fall, here = self.falls(), self.present(actions)
        across = {agent: self.square[agent] == 3 for agent in here}
        over = self.over(fall, across)
        rewards = {agent: self.reward(fall, across[agent]) for agent in here}
        terminateds = {agent: fall or across[agent] for agent in here} | {"__all__": over}
        truncateds = {"__all__": self.steps == 20 and not over}
        return self.seen_by(here), rewards, terminateds, truncateds, {}


@accepts("Bridge")
class SaysItForEachRobot(Crossing):
    def step(self, actions):
        obs, rewards, terminateds, truncateds, infos = super().step(actions)
        late = truncateds["__all__"]
        return obs, rewards, terminateds, truncateds | dict.fromkeys(actions, late), {agent: {} for agent in actions}


@accepts("Bridge")
class KeepsItsListOfRobots(Crossing):
    """As in RLlib's examples: `agents` shrinks, whole numbers are rewards, NumPy's flags are flags."""

    def reset(self, *, seed=None, options=None):
        self.agents = ["north", "south"]
        return super().reset(seed=seed, options=options)

    def reward(self, fall, across):
        return -1 if fall else 1 if across else -0.2

    def step(self, actions):
        obs, rewards, terminateds, truncateds, infos = super().step(actions)
        self.agents = [agent for agent in self.agents if self.square[agent] < 3]
        return obs, rewards, {agent: np.bool_(flag) for agent, flag in terminateds.items()}, truncateds, infos


@rejects("Bridge", says="Your truncateds are")
class TruncatesAStepLate(Crossing):
    def step(self, actions):
        *rest, truncateds, infos = super().step(actions)
        return *rest, {"__all__": self.steps > 20 and not truncateds["__all__"]}, infos


@rejects("Bridge", says="Your rewards are")
class TheOneAcrossFallsToo(Crossing):
    def falls(self):
        return all(square > 0 for square in self.square.values())


@rejects("Bridge")
class ForgetsAll(Crossing):
    def step(self, actions):
        obs, rewards, terminateds, truncateds, infos = super().step(actions)
        terminateds.pop("__all__")
        return obs, rewards, terminateds, truncateds, infos


@rejects("Bridge")
class RobotsThatLeftGoOnTalking(Crossing):
    def present(self, actions):
        return ["north", "south"]


@rejects("Bridge")
class OverWhenOneIsAcross(Crossing):
    def over(self, fall, across):
        return fall or any(across.values())


@rejects("Bridge", says="Your rewards are")
class LooksWhileTheyMove(Crossing):
    def step(self, actions):
        self.fell = False
        return super().step(actions)

    def move(self, agent, action):
        super().move(agent, action)
        self.fell |= super().falls()

    def falls(self):
        return self.fell


@rejects("Bridge", says="Your rewards are")
class LooksWhileTheyMoveNorthFirst(LooksWhileTheyMove):
    def step(self, actions):
        return super().step({agent: actions[agent] for agent in sorted(actions)})


@rejects("Bridge")
class StopsOnTheBridge(Crossing):
    def move(self, agent, action):
        self.square[agent] += int(action)


@rejects("Bridge", says="Your truncateds are")
class TruncatesOnlyIfNobodyArrives(Crossing):
    def step(self, actions):
        obs, rewards, terminateds, _, infos = super().step(actions)
        return obs, rewards, terminateds, {"__all__": self.steps == 20 and not any(terminateds.values())}, infos


@accepts("Bridge")
class CountsDownAndBuildsItsDictsFromTheSquares(Crossing):
    def reset(self, *, seed=None, options=None):
        self.left = 20
        return super().reset(seed=seed, options=options)

    def step(self, actions):
        self.left -= 1
        self.square |= {a: s + 1 if s else int(actions[a]) for a, s in self.square.items() if a in actions}
        north, south = self.square.values()
        fell, gone = {north, south} <= {1, 2}, north == south == 3
        rewards, terminateds = {}, {"__all__": fell or gone}
        for agent in actions:
            terminateds[agent] = fell or self.square[agent] == 3
            rewards[agent] = [-0.2, 1.0, -1.0][max(terminateds[agent], 2 * fell)]
        late = self.left == 0 and not terminateds["__all__"]
        return self.seen_by(actions), rewards, terminateds, {"__all__": late}, {}


@rejects("Bridge", says="Your truncateds are")
class TruncatesEvenWhatIsOver(Crossing):
    def step(self, actions):
        *rest, _, infos = super().step(actions)
        return *rest, {"__all__": self.steps == 20}, infos


@rejects("Bridge")
class TheLastObservationIsLeftOut(Crossing):
    def step(self, actions):
        obs, rewards, terminateds, truncateds, infos = super().step(actions)
        return {a: seen for a, seen in obs.items() if not terminateds[a]}, rewards, terminateds, truncateds, infos


# two_minds: which module acts for which robot


def by(config, names, function):
    return config.multi_agent(policies=names, policy_mapping_fn=function)


@accepts("two_minds")
def with_startswith(config):
    def side(agent_id, *args, **kwargs):
        return "north" if agent_id.startswith("north") else "south"

    return by(config, ["south", "north"], side)


@accepts("two_minds")
def with_specs_and_a_copy(config):
    from ray.rllib.policy.policy import PolicySpec

    policies = {"north": PolicySpec(), "south": PolicySpec()}
    return by(config.copy(copy_frozen=False), policies, lambda agent_id, episode: agent_id[:5])


@rejects("two_minds")
def one_module_for_all(config):
    return by(config, {"both"}, lambda agent_id, episode, **kwargs: "both")


@rejects("two_minds")
def two_modules_and_one_works(config):
    return by(config, {"north", "south"}, lambda agent_id, episode, **kwargs: "north")


@rejects("two_minds")
def swapped(config):
    return by(config, {"north", "south"}, lambda a, episode, **kwargs: "south" if a.startswith("north") else "north")


@rejects("two_minds", says="The mapping sends")
def only_for_a_pair(config):
    return by(config, {"north", "south"}, lambda agent_id, episode, **kwargs: agent_id)


@accepts("two_minds")
def looks_the_side_up(config):
    sides = {"n": "north", "s": "south"}
    return by(config, ["north", "south"], lambda agent_id, *_: sides[agent_id[0]])


@rejects("two_minds", says="RLlib raised")
def a_mapping_of_one_argument(config):
    return by(config, {"north", "south"}, lambda agent_id: agent_id.split("-")[0])


@rejects("two_minds", says="has no `policy_mapping_fn`")
def leaves_the_mapping_out(config):
    return config.multi_agent(policies={"north", "south"})


@rejects("two_minds")
def forgets_to_return(config):
    by(config, {"north", "south"}, lambda agent_id, episode, **kwargs: agent_id.split("-")[0])


# league: all snapshots play one another


def both_seats(match, snapshots, games, row):
    """Return a table whose entries are made from the points of i as the first, and of j as the first."""
    size, task = len(snapshots), ray.remote(match)
    refs = {(i, j): task.remote(snapshots[i], snapshots[j], games) for i in range(size) for j in range(size) if i != j}
    got = {pair: ray.get(ref) for pair, ref in refs.items()}
    return [[row(got[i, j], got[j, i], games) if i != j else 0.0 for j in range(size)] for i in range(size)]


@accepts("league")
def a_task_for_each_pair(match, snapshots, games):
    @ray.remote
    def pair(a, b):
        return match(a, b, games), match(b, a, games)

    size = len(snapshots)
    pairs = [(i, j) for i in range(size) for j in range(i)]
    table = np.zeros((size, size))
    for (i, j), (first, second) in zip(
        pairs, ray.get([pair.remote(snapshots[i], snapshots[j]) for i, j in pairs]), strict=True
    ):
        table[i, j] = first + games - second
        table[j, i] = 2 * games - table[i, j]
    return table


@accepts("league")
def a_list_of_rows(match, snapshots, games):
    return both_seats(match, snapshots, games, lambda mine, other, games: games + mine - other)


@accepts("league")
def a_list_of_refs_goes_to_each_task(match, snapshots, games):
    @ray.remote(num_cpus=1)
    def play(refs, i, j):
        return match(ray.get(refs[i]), ray.get(refs[j]), games)

    size = len(snapshots)
    points = [[play.remote(snapshots, i, j) if i != j else None for j in range(size)] for i in range(size)]
    first = np.array([[ray.get(ref) if ref else 0 for ref in row] for row in points])
    return np.where(np.eye(size), 0, first + games - first.T)


@rejects("league", says="in both matches")
def half_of_the_pairs(match, snapshots, games):
    task, size = ray.remote(match), len(snapshots)
    refs = {(i, j): task.remote(snapshots[i], snapshots[j], games) for i in range(size) for j in range(i)}
    table = np.zeros((size, size))
    for (i, j), ref in refs.items():
        table[i, j] = ray.get(ref)
        table[j, i] = games - table[i, j]
    return table


@rejects("league", says="diagonal")
def plays_itself_too(match, snapshots, games):
    task = ray.remote(match)
    refs = [[task.remote(first, second, games) for second in snapshots] for first in snapshots]
    first = np.array([ray.get(row) for row in refs])
    return first + games - first.T


@rejects("league", says="fetched into your own process")
def fetches_the_snapshots(match, snapshots, games):
    return both_seats(match, ray.get(snapshots), games, lambda mine, other, games: games + mine - other)


@rejects("league", says="start all of them before you wait")
def waits_for_each_row(match, snapshots, games):
    task, size = ray.remote(match), len(snapshots)
    rows = [ray.get([task.remote(mine, other, games) for other in snapshots]) for mine in snapshots]
    return np.where(np.eye(size), 0, np.array(rows) + games - np.array(rows).T)


@rejects("league", says="Only the games in which i moved first")
def only_as_the_first(match, snapshots, games):
    return both_seats(match, snapshots, games, lambda mine, other, games: mine)


@rejects("league", says="i took the rest")
def adds_the_others_points(match, snapshots, games):
    return both_seats(match, snapshots, games, lambda mine, other, games: mine + other)


@rejects("league", says="that the others took from i")
def the_other_way_round(match, snapshots, games):
    return both_seats(match, snapshots, games, lambda mine, other, games: games + other - mine)


@rejects("league", says="fractions")
def fractions_for_points(match, snapshots, games):
    return both_seats(match, snapshots, games, lambda mine, other, games: (games + mine - other) / (2 * games))


# elo: ratings that fit a table


def fitted(points, half=0.5, rounds=3000):
    """Return ratings by the method of Zermelo, which multiplies strengths."""
    points = np.asarray(points, float) + half * (1 - np.eye(len(points)))
    games, strength = points + points.T, np.ones(len(points))
    for _ in range(rounds):
        strength = points.sum(1) / (games / (strength[:, None] + strength[None])).sum(1)
        strength /= np.exp(np.log(strength).mean())
    return 400 * np.log10(strength)


@accepts("elo")
def multiplies_strengths(points):
    return fitted(points)


@accepts("elo")
def with_pytorch(points):
    import torch

    points = torch.as_tensor(np.asarray(points, float) + 0.5 * (1 - np.eye(len(points))))
    ratings = torch.zeros(len(points), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([ratings], max_iter=300, line_search_fn="strong_wolfe")

    def loss():
        optimizer.zero_grad()
        gap = (ratings[:, None] - ratings[None]) * np.log(10)
        value = -(points * torch.nn.functional.logsigmoid(gap)).sum()
        value.backward()
        return value

    optimizer.step(loss)
    return 400 * (ratings - ratings.mean()).detach()


@rejects("elo", says="their mean is")
def the_first_player_at_0(points):
    ratings = fitted(points)
    return ratings - ratings[0]


@rejects("elo", says="expected points are")
def a_draw_only_for_pairs_that_met(points):
    met = (points + points.T) > 0
    return fitted(points + 0.5 * met, half=0.0)


@accepts("elo")
def updates_one_player_after_the_other(points):
    points = points + 0.5 * (1 - np.eye(len(points)))
    games, ratings = points + points.T, np.zeros(len(points))
    for sweep in range(4000):
        i = sweep % len(points)
        expected = (games[i] / (1 + 10 ** ((ratings - ratings[i]) / 400))).sum()
        ratings[i] += 500 * (points[i].sum() - expected) / games[i].sum()
    return dict(enumerate(ratings - ratings.mean())).values()


@accepts("elo")
def with_newtons_method(points):
    points = np.asarray(points, float) + 0.5 * (1 - np.eye(len(points)))
    games, size = points + points.T, len(points)
    skill = np.zeros(size)
    for _ in range(50):
        share = 1 / (1 + np.exp(skill[None] - skill[:, None]))
        slope = games * share * (1 - share)
        curve = np.diag(slope.sum(1)) - slope
        skill += np.clip(np.linalg.lstsq(curve, (points - games * share).sum(1), rcond=None)[0], -1, 1)
    return (400 / np.log(10) * (skill - skill.mean())).tolist()


@accepts("elo")
def adds_in_place(points):
    points += 0.5
    np.fill_diagonal(points, 0)
    return fitted(points, half=0.0)


@rejects("elo")
def a_whole_point_for_each(points):
    return fitted(points, half=1.0)


@rejects("elo", says="drawn game between")
def forgets_the_draw(points):
    return fitted(points, half=0.0, rounds=300)


@rejects("elo", says="upside down")
def the_best_is_the_lowest(points):
    return -fitted(points)


@rejects("elo", says="the scale isn't")
def natural_logarithms(points):
    return fitted(points) * np.log(10) / 400


@rejects("elo", says="expected points are")
def one_pass_of_updates(points):
    ratings = np.zeros(len(points))
    for i in range(len(points)):
        for j in range(len(points)):
            games = points[i][j] + points[j][i]
            ratings[i] += 32 * (points[i][j] - games / (1 + 10 ** ((ratings[j] - ratings[i]) / 400)))
    return ratings


# beats_its_past: a league of past snapshots


play_against = ray.remote(collect)


def raised(seed, rounds, opponents, steps=15, games=128, keep=ray.put, now=True, every=1):
    """Return a league; `opponents(snapshots, rng)` chooses two for a step."""
    rng, learner = np.random.default_rng(seed), Learner(new_player(seed))
    snapshots = [keep(learner.player())]
    for _ in range(rounds):
        for step in range(steps):
            mine = ray.put(learner.player()) if now else snapshots[-1]
            refs = [
                play_against.remote(mine, other, games, int(rng.integers(2**31))) for other in opponents(snapshots, rng)
            ]
            if step % every == 0:
                learner.learn(*ray.get(refs))
        snapshots.append(keep(learner.player()))
    return snapshots


def latest_and_any(snapshots, rng):
    return snapshots[-1], snapshots[rng.integers(len(snapshots))]


@accepts("beats_its_past", long=True)
def two_sampled_from_all(seed, rounds):
    return raised(seed, rounds, lambda snapshots, rng: [snapshots[i] for i in rng.integers(len(snapshots), size=2)])


@accepts("beats_its_past")
def against_everyone_in_the_past(seed, rounds):
    return raised(seed, rounds, lambda snapshots, rng: snapshots, steps=15, games=64)


@accepts("beats_its_past", long=True)
def keeps_the_latest_under_a_name(seed, rounds):
    rng, learner = np.random.default_rng(seed), Learner(new_player(seed))
    latest = ray.put(learner.player())
    league = [latest]
    for _ in range(rounds):
        for _ in range(15):
            me, older = learner.player(), league[int(rng.integers(0, len(league)))]
            first = play_against.remote(me, latest, 128, int(rng.integers(1e9)))
            second = play_against.remote(me, older, 128, int(rng.integers(1e9)))
            learner.learn(ray.get(first), ray.get(second))
        latest = ray.put(learner.player())
        league += [latest]
    return league


@rejects("beats_its_past", says="older than the latest")
def plays_only_the_latest(seed, rounds):
    return raised(seed, rounds, lambda snapshots, rng: [snapshots[-1]] * 2, steps=1, games=8)


@rejects("beats_its_past", says="had the same seed")
def passes_its_own_seed_on(seed, rounds):
    rng, learner = np.random.default_rng(seed), Learner(new_player(seed))
    snapshots = [ray.put(learner.player())]
    for _ in range(rounds):
        refs = [play_against.remote(learner.player(), other, 8, seed) for other in latest_and_any(snapshots, rng)]
        learner.learn(*ray.get(refs))
        snapshots.append(ray.put(learner.player()))
    return snapshots


@rejects("beats_its_past", says="differ", long=True)
def samples_without_the_seed(seed, rounds):
    def of_its_own(snapshots, rng):
        rng.bit_generator.state = np.random.default_rng().bit_generator.state
        return latest_and_any(snapshots, rng)

    return raised(seed, rounds, of_its_own)


@rejects("beats_its_past", says="no snapshot of the league is the untrained player")
def always_the_same_untrained_player(seed, rounds):
    return raised(0, rounds, latest_and_any, steps=1, games=8)


@rejects("beats_its_past", says="league is a list of refs")
def returns_the_players(seed, rounds):
    return ray.get(raised(seed, rounds, latest_and_any, steps=1, games=8))


@rejects("beats_its_past", says="nothing was learned")
def the_same_copy_each_time(seed, rounds):
    snapshots = raised(seed, rounds, latest_and_any, steps=1, games=8)
    return [snapshots[-1]] * len(snapshots)


@rejects("beats_its_past", says="has 4 snapshots")
def forgets_the_untrained_player(seed, rounds):
    return raised(seed, rounds, latest_and_any, steps=1, games=8)[1:]


@rejects("beats_its_past", says="was one of the league's snapshots")
def the_latest_snapshot_plays_for_it(seed, rounds):
    return raised(seed, rounds, latest_and_any, games=8, now=False)


@rejects("beats_its_past", says="most of them should have been opponents")
def samples_an_opponent_for_the_whole_round(seed, rounds):
    chosen = {}

    def of_the_round(snapshots, rng):
        return snapshots[-1], chosen.setdefault(len(snapshots), latest_and_any(snapshots, rng)[1])

    return raised(seed, rounds, of_the_round, games=8)


@rejects("beats_its_past", says="must reach")
def learns_twice_in_a_round(seed, rounds):
    return raised(seed, rounds, latest_and_any, games=8, every=8)


@rejects("beats_its_past", says="must come first")
def the_latest_first(seed, rounds):
    return raised(seed, rounds, latest_and_any, steps=1, games=8)[::-1]
