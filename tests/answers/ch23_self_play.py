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
class TruncatesEvenWhatIsOver(Crossing):
    def step(self, actions):
        *rest, _, infos = super().step(actions)
        return *rest, {"__all__": self.steps == 20}, infos


@rejects("Bridge")
class TheLastObservationIsLeftOut(Crossing):
    def step(self, actions):
        obs, rewards, terminateds, truncateds, infos = super().step(actions)
        return {a: seen for a, seen in obs.items() if not terminateds[a]}, rewards, terminateds, truncateds, infos


# two_minds: who plays whom


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


@rejects("two_minds")
def leaves_the_mapping_out(config):
    return config.multi_agent(policies={"north", "south"})


@rejects("two_minds")
def forgets_to_return(config):
    by(config, {"north", "south"}, lambda agent_id, episode, **kwargs: agent_id.split("-")[0])


# league: all play all


def both_seats(match, members, games, row):
    """Return a table whose entries are made from the points of i as the first, and of j as the first."""
    size, task = len(members), ray.remote(match)
    refs = {(i, j): task.remote(members[i], members[j], games) for i in range(size) for j in range(size) if i != j}
    got = {pair: ray.get(ref) for pair, ref in refs.items()}
    return [[row(got[i, j], got[j, i], games) if i != j else 0.0 for j in range(size)] for i in range(size)]


@accepts("league")
def a_task_for_each_pair(match, members, games):
    @ray.remote
    def pair(a, b):
        return match(a, b, games), match(b, a, games)

    size = len(members)
    pairs = [(i, j) for i in range(size) for j in range(i)]
    table = np.zeros((size, size))
    for (i, j), (first, second) in zip(
        pairs, ray.get([pair.remote(members[i], members[j]) for i, j in pairs]), strict=True
    ):
        table[i, j] = first + games - second
        table[j, i] = 2 * games - table[i, j]
    return table


@accepts("league")
def a_list_of_rows(match, members, games):
    return both_seats(match, members, games, lambda mine, other, games: games + mine - other)


@accepts("league")
def a_list_of_refs_goes_to_each_task(match, members, games):
    @ray.remote(num_cpus=1)
    def play(refs, i, j):
        return match(ray.get(refs[i]), ray.get(refs[j]), games)

    size = len(members)
    points = [[play.remote(members, i, j) if i != j else None for j in range(size)] for i in range(size)]
    first = np.array([[ray.get(ref) if ref else 0 for ref in row] for row in points])
    return np.where(np.eye(size), 0, first + games - first.T)


@rejects("league", says="in both seats")
def half_of_the_pairs(match, members, games):
    task, size = ray.remote(match), len(members)
    refs = {(i, j): task.remote(members[i], members[j], games) for i in range(size) for j in range(i)}
    table = np.zeros((size, size))
    for (i, j), ref in refs.items():
        table[i, j] = ray.get(ref)
        table[j, i] = games - table[i, j]
    return table


@rejects("league", says="diagonal")
def plays_itself_too(match, members, games):
    task = ray.remote(match)
    refs = [[task.remote(first, second, games) for second in members] for first in members]
    first = np.array([ray.get(row) for row in refs])
    return first + games - first.T


@rejects("league", says="start all before you wait")
def one_match_after_the_other(match, members, games):
    task, size = ray.remote(match), len(members)
    first = np.zeros((size, size))
    for i, j in np.argwhere(1 - np.eye(size)):
        first[i, j] = ray.get(task.remote(members[i], members[j], games))
    return (first + games - first.T) * (1 - np.eye(size))


@rejects("league", says="fetched into your own process")
def fetches_the_members(match, members, games):
    return both_seats(match, ray.get(members), games, lambda mine, other, games: games + mine - other)


@rejects("league", says="Only the games in which i began")
def only_as_the_first(match, members, games):
    return both_seats(match, members, games, lambda mine, other, games: mine)


@rejects("league", says="What is left")
def adds_the_others_points(match, members, games):
    return both_seats(match, members, games, lambda mine, other, games: mine + other)


@rejects("league", says="what i lost")
def the_other_way_round(match, members, games):
    return both_seats(match, members, games, lambda mine, other, games: games + other - mine)


@rejects("league", says="shares")
def shares_for_points(match, members, games):
    return both_seats(match, members, games, lambda mine, other, games: (games + mine - other) / (2 * games))


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
def with_pytorch_and_a_mean_of_1500(points):
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
    return 1500 + 400 * ratings.detach()


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
    return (400 / np.log(10) * skill).tolist()


@accepts("elo")
def adds_in_place(points):
    points += 0.5
    np.fill_diagonal(points, 0)
    return fitted(points, half=0.0)


@rejects("elo")
def a_whole_point_for_each(points):
    return fitted(points, half=1.0)


@rejects("elo", says="drawn game")
def forgets_the_draw(points):
    return fitted(points, half=0.0, rounds=300)


@rejects("elo", says="wrong way round")
def the_best_is_the_lowest(points):
    return -fitted(points)


@rejects("elo", says="scale is not")
def natural_logarithms(points):
    return fitted(points) * np.log(10) / 400


@rejects("elo", says="points due")
def one_pass_of_updates(points):
    ratings = np.zeros(len(points))
    for i in range(len(points)):
        for j in range(len(points)):
            games = points[i][j] + points[j][i]
            ratings[i] += 32 * (points[i][j] - games / (1 + 10 ** ((ratings[j] - ratings[i]) / 400)))
    return ratings


# beats_its_past: a league that raises its own members


play_against = ray.remote(collect)


def raised(seed, rounds, opponents, steps=15, games=128, keep=ray.put, now=True):
    """Return a league; `opponents(members, rng)` chooses two for a step."""
    rng, learner = np.random.default_rng(seed), Learner(new_player(seed))
    members = [keep(learner.player())]
    for _ in range(rounds):
        for _ in range(steps):
            mine = ray.put(learner.player()) if now else members[0]
            refs = [
                play_against.remote(mine, other, games, int(rng.integers(2**31))) for other in opponents(members, rng)
            ]
            learner.learn(*ray.get(refs))
        members.append(keep(learner.player()))
    return members


def newest_and_any(members, rng):
    return members[-1], members[rng.integers(len(members))]


@accepts("beats_its_past", long=True)
def two_drawn_from_all(seed, rounds):
    return raised(seed, rounds, lambda members, rng: [members[i] for i in rng.integers(len(members), size=2)])


@accepts("beats_its_past")
def against_everyone_in_the_past(seed, rounds):
    return raised(seed, rounds, lambda members, rng: members, steps=15, games=64)


@accepts("beats_its_past", long=True)
def asks_for_the_newest_by_a_name(seed, rounds):
    rng, learner = np.random.default_rng(seed), Learner(new_player(seed))
    newest = ray.put(learner.player())
    league = [newest]
    for _ in range(rounds):
        for _ in range(15):
            me, older = learner.player(), league[int(rng.integers(0, len(league)))]
            first = play_against.remote(me, newest, 128, int(rng.integers(1e9)))
            second = play_against.remote(me, older, 128, int(rng.integers(1e9)))
            learner.learn(ray.get(first), ray.get(second))
        newest = ray.put(learner.player())
        league += [newest]
    return league


@rejects("beats_its_past", says="oldest first")
def always_the_same_novice(seed, rounds):
    return raised(0, rounds, newest_and_any, steps=1, games=8)


@rejects("beats_its_past", says="league is a list of refs")
def returns_the_players(seed, rounds):
    return ray.get(raised(seed, rounds, newest_and_any, steps=1, games=8))


@rejects("beats_its_past", says="nothing was learned")
def the_same_copy_each_time(seed, rounds):
    members = raised(seed, rounds, newest_and_any, steps=1, games=8)
    return [members[-1]] * len(members)


@rejects("beats_its_past", says="has 4 members")
def forgets_the_novice(seed, rounds):
    return raised(seed, rounds, newest_and_any, steps=1, games=8)[1:]


@rejects("beats_its_past", says="must reach")
def the_novice_plays_for_it(seed, rounds):
    return raised(seed, rounds, newest_and_any, now=False)


@rejects("beats_its_past", says="oldest first")
def the_newest_first(seed, rounds):
    return raised(seed, rounds, newest_and_any)[::-1]
