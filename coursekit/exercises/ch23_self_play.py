"""The judge's side of chapter 23."""

import numpy as np
from numpy.random import Generator

from coursekit.given import ch23_self_play as given
from coursekit.given import four
from coursekit.judging.answer import Answer
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import agree, best_of, expect, expect_close, expect_equal, expect_type

ROUNDS, SHARE = 4, 0.62  # of the training, and of the points that the newest must take from its past


@exercise(
    points=3,
    minutes=20,
    hints=[
        "First move every robot in `actions`, then look at who is on the bridge, then fill the dicts.",
        "`actions` has exactly those robots that are still in the game, so `for agent in actions` is right for every dict.",
        '`terminateds` and `truncateds` both need the key "__all__": it is about the whole episode.',
    ],
)
def Bridge(answer: Answer, rng: Generator) -> None:  # noqa: N802
    """Move first, then judge; every dict is about the robots that acted, and `__all__` about the episode."""
    # Long: the rules of the bridge are played beside the answer, over ten plans.
    first, second = rng.permutation(["north", "south"]).tolist()
    waits, pauses, rests = (
        int(rng.integers(low, high)) for low, high in [(1, 10), (1, 10), (0, 5)]
    )  # 19 steps at most
    plans = {
        "one after the other": [{first: 0, second: 0}] * waits
        + [{first: 1, second: 0}] * 3
        + [{second: 0}] * rests
        + [{second: 1}, {second: 0}, {second: 1}],
        "both at once": [{first: 0, second: 0}] * pauses + [{first: 1, second: 1}],
        "one while the other is on the bridge": [{first: 1, second: 0}, {first: 0, second: 1}],
        "neither goes": [{first: 0, second: 0}] * 20,
        "both at once, in step 20": [{first: 0, second: 0}] * 19 + [{first: 1, second: 1}],
        "one goes, the other never": [{first: 1, second: 0}] * 3 + [{second: 0}] * 17,
    }
    for leaves, enters in (first, second), (second, first):
        plan = [{leaves: 1, enters: 0}, {leaves: 0, enters: 0}, {leaves: 0, enters: 1}, {enters: 0}, {enters: 0}]
        name = f"{enters} steps on as {leaves} steps off"
        plans[name] = plan
        plans[name + ", named the other way round"] = [dict(reversed(actions.items())) for actions in plan]
    for name, plan in plans.items():
        _judge_story(answer, name, plan, answer.probe(given.play_plan, plan))
    for steps, rewards in answer.probe(given.sampled_bridge, 12):
        with answer.case(f"an episode of {steps} steps that RLlib played with random actions"):
            ended = all(reward in (-1.0, 1.0) for reward in rewards.values())
            expect(ended or steps == 20, f"It ended too early: the last rewards were {rewards}.")


def _judge_story(answer: Answer, name: str, plan: list[dict], story: given.Story) -> None:
    """Play the plan with the rules of the chapter, and compare every step."""
    squares = {"north": 0, "south": 0}
    expect_close(story["reset"][:1], [_seen(squares, squares)], "`reset` was changed: leave it as it is.")
    for number, (actions, got) in enumerate(zip(plan, story["steps"], strict=False), 1):
        for agent, action in actions.items():
            squares[agent] += 1 if squares[agent] else action
        want = _rules(squares, actions, number)
        with answer.case(f"plan: {name}; step {number}, actions {actions}, leads to the squares {squares}"):
            _judge_part("rewards", got["rewards"], want["rewards"])
            _judge_part("terminateds", got["terminateds"], want["terminateds"])
            _judge_part("truncateds", got["truncateds"], want["truncateds"])
            _judge_part("observations", got["observations"], want["observations"])


def _judge_part(part: str, got: dict, want: dict) -> None:
    """Compare one dict; a flag that is left out counts as False, `__all__` may not be left out."""
    strangers = sorted(map(str, set(got) - set(want)))
    if part in ("terminateds", "truncateds"):
        expect("__all__" in got, f'Your {part} have no "__all__": {got}.')
        got = {agent: got.get(agent, False) for agent in want}
        if part == "truncateds" and want["__all__"]:
            got |= {
                agent: want[agent] for agent in want if agent != "__all__"
            }  # said for each or for all: both will do
    expect(not strangers, f"Your {part} mention {strangers}, which did not act in this step.")
    missing = sorted(set(want) - set(got))
    expect(not missing, f"Your {part} leave out {missing}, which acted in this step.")
    should = {agent: np.round(seen, 2).tolist() for agent, seen in want.items()} if part == "observations" else want
    expect_close(got, want, f"Your {part} are {got}; they should be {should}.", atol=1e-5)


def _rules(squares: dict, actions: dict, step: int) -> dict:
    """Return the four dicts of a step that led to these squares."""
    fell = all(square in (1, 2) for square in squares.values())
    across = {agent: squares[agent] == 3 for agent in actions}
    over = fell or all(square == 3 for square in squares.values())
    late = step == 20 and not over
    return {
        "observations": _seen(squares, actions),
        "rewards": {agent: -1.0 if fell else 1.0 if across[agent] else -0.2 for agent in actions},
        "terminateds": {agent: fell or across[agent] for agent in actions} | {"__all__": over},
        "truncateds": dict.fromkeys(actions, False) | {"__all__": late},
    }


def _seen(squares: dict, agents: dict) -> dict:
    other = {"north": "south", "south": "north"}
    return {agent: np.array([squares[agent], squares[other[agent]]]) / 3 for agent in agents}


@exercise(
    points=2,
    minutes=10,
    hints=[
        "`.multi_agent(policies=..., policy_mapping_fn=...)` takes the names of the modules, and a function that maps a robot to one of them.",
        'The side is the part before the dash: `"north-3".split("-")[0]`.',
        "RLlib calls your function with the agent, its episode, and more: take `**kwargs` as well.",
    ],
)
def two_minds(answer: Answer, rng: Generator) -> None:
    """Name both modules, and read from a robot's name which of them plays it."""
    north, south = (
        [f"{side}-{number}" for number in rng.choice(90, size=size, replace=False).tolist()]
        for side, size in [("north", 2 + int(rng.integers(2))), ("south", 1 + int(rng.integers(2)))]
    )
    for teams in (["north"], ["south"]), (north, south):
        agents = rng.permutation(teams[0] + teams[1]).tolist()
        numbers = (rng.permutation(99)[: len(agents)] / 100 + 0.005).round(3).tolist()
        with answer.case(f"the robots {sorted(agents)}"):
            got = answer.probe(given.who_thinks, agents, numbers)
            returned = got["returned"]
            expect(returned == "a config", f"The function returned {returned}. It must return the config.")
            for agent, module in got["mapped"]:
                expect(
                    module in got["modules"],
                    f"The mapping sends {agent} to {module!r}; the config has modules only for {got['modules']}.",
                )
            expect(
                not got["raised"],
                f"RLlib raised {got['raised']}. "
                "Does the mapping take the arguments that RLlib hands over, and name a module for each of them?",
            )
            _judge_minds(got["saw"], dict(zip(agents, numbers, strict=True)), teams)


def _judge_minds(saw: dict[str, list[float]], numbers: dict, teams: tuple) -> None:
    """Compare what each module was asked about with the robots of its side."""
    names = {round(number, 3): agent for agent, number in numbers.items()}
    played = {module: [names.get(number, "?") for number in seen] for module, seen in saw.items()}
    modules = sorted(saw)
    expect_equal(modules, ["north", "south"], f'There are modules for {modules}; there must be "north" and "south".')
    for side, team in zip(("north", "south"), teams, strict=True):
        got = sorted(played[side])
        expect_equal(got, sorted(team), f'The module "{side}" was asked to act for {got}.')


@exercise(
    points=3,
    minutes=15,
    needs={"CPU": 2},
    hints=[
        "One task for each ordered pair: `match` with i as the first and j as the second says nothing about j as the first.",
        "Start all tasks, keep their refs in a dict with the key (i, j), and only then `ray.get` them.",
        "i's points from j are those as the first, plus what j did not take as the first: `got[i, j] + games - got[j, i]`.",
    ],
)
def league(answer: Answer, rng: Generator) -> None:
    """Start every match before you wait for any, pass the members by reference, and count both seats."""
    size, games = int(rng.integers(4, 6)), 2 * int(rng.integers(10, 30))
    strengths, bonus = rng.normal(0, 1, size).round(3).tolist(), float(rng.uniform(0.4, 0.8))
    meets = [[0, size - 1], [size - 1, 1]]
    with answer.case(f"{size} members; {games} games in each seat"):
        seen = answer.probe(given.tournament, strengths, bonus, games, meets)
        table = expect_type(seen["table"], np.ndarray, "the table")
        expect(table.shape == (size, size), f"For {size} members the table has the shape {table.shape}.")
        first = _first(strengths, bonus, games)
        want, others = first + games - first.T, ~np.eye(size, dtype=bool)
        expect_close(
            table[others],
            want[others],
            "The table is wrong: table[i, j] are the points that i took from j, in both seats.",
            atol=1e-6,
            mistakes={
                "Row i holds what i lost to the others: table[i, j] are the points of i.": want.T[others],
                "Only the games in which i began are counted: add those in which j began.": first[others],
                "The points of j as the first are j's. What is left of those games for i?": (first + first.T)[others],
                "The table holds shares: it must hold points.": (want / (2 * games))[others],
            },
        )
        expect_close(np.diag(table), np.zeros(size), "The diagonal must hold zeros: no member plays itself.")
        expect(seen["met"], "Two matches were never being played at the same time: start all before you wait for any.")
        opened = seen["opened_here"]
        expect(
            not opened,
            f"The members {opened} were fetched into your own process. Pass the refs on to the tasks as they are.",
        )


def _first(strengths: list[float], bonus: float, games: int) -> np.ndarray:
    """Return the points of each member as the first against each other."""
    lead = np.subtract.outer(strengths, strengths) + bonus
    points = np.round(2 * games / (1 + np.exp(-lead))) / 2
    return points * (1 - np.eye(len(strengths)))


@exercise(
    points=3,
    minutes=15,
    returns=list[float],
    hints=[
        "Add half a point to each entry off the diagonal. How many games has each pair played then, and how many points should each rating win?",
        "All ratings begin at 0. A player that took more points than expected is rated too low: raise it by 400 times its surplus share.",
        "expected = games / (1 + 10 ** ((r[None, :] - r[:, None]) / 400)); r += 400 * (points - expected).sum(1) / games.sum(1); a few thousand times.",
    ],
)
def elo(answer: Answer, rng: Generator) -> None:
    """Move each rating until it expects exactly the points that the player took."""
    # Long: it fits the ratings by itself, with the drawn games and without.
    games = rng.integers(20, 60, (5, 5))
    games = np.triu(games, 1) + np.triu(games, 1).T
    upper = np.triu(np.round(2 * _due(rng.permutation([-300, -150, 0, 150, 300]), games)) / 2, 1)
    points = upper + np.tril((games - upper.T), -1)
    with answer.case("5 players, with 20 to 60 games a pair"):
        _expect_ratings(answer(points), points)
    points[:, 2], points[2] = 0.0, games[2]
    with answer.case("5 players; one of them won every game"):
        _expect_ratings(answer(points), points)
    circle = np.array([[0.0, 30.0, 10.0], [10.0, 0.0, 30.0], [30.0, 10.0, 0.0]])
    with answer.case("three players in a circle: each beats the next 30 to 10"):
        _expect_ratings(answer(circle), circle)


def _expect_ratings(ratings: list[float], points: np.ndarray) -> None:
    players, rated = len(points), len(ratings)
    expect(rated == players, f"{players} players got {rated} ratings.")
    expect(np.isfinite(ratings).all(), "Some ratings are infinite, or not numbers. Did you add the drawn game?")
    taken = points + 0.5 * (1 - np.eye(players))
    got, want = np.array(ratings) - np.mean(ratings), _fit(taken)
    took, due = taken.sum(axis=1).tolist(), _due(got, taken + taken.T).sum(axis=1).round(1).tolist()
    expect_close(
        got,
        want,
        f"With your ratings, these would be the points due: {due}. These were taken, the drawn games included: {took}.",
        rtol=0,
        atol=4.0,
        mistakes={
            "The ratings are the wrong way round: the best player has the lowest.": -want,
            "The order is right, and the scale is not: 400 points are odds of 10 to 1.": want * np.log(10) / 400,
            "The drawn game between each pair is missing.": _fit(points),
        },
    )


def _due(ratings: np.ndarray, games: np.ndarray) -> np.ndarray:
    """Return the points that each player should take from each other one."""
    return games / (1 + 10 ** (np.clip(ratings[None] - ratings[:, None], -4000, 4000) / 400))


def _fit(taken: np.ndarray) -> np.ndarray:
    """Return the ratings with mean 0 that expect the points taken, by Newton's method with short steps."""
    games, ratings = taken + taken.T, np.zeros(len(taken))
    for _ in range(200):
        due = _due(ratings, games)
        slope = np.log(10) / 400 * due * due.T / np.maximum(games, 1)
        step = np.linalg.pinv(np.diag(slope.sum(axis=1)) - slope) @ (taken - due).sum(axis=1)
        ratings = ratings + np.clip(step, -100, 100)
    return ratings - ratings.mean()


@exercise(
    points=4,
    minutes=20,
    needs={"CPU": 2},
    hints=[
        "Two players matter in each step: the learner's own as it is now, and a member of the league. Which of them changes?",
        "`mine = ray.put(learner.player())`, then one task of `play_against` for each of two opponents, and `learner.learn(*ray.get(refs))`.",
        "One opponent is the newest member, the other one drawn by `rng` from all of them. After STEPS steps, append `ray.put(learner.player())`.",
    ],
)
def beats_its_past(answer: Answer, rng: Generator) -> None:
    """Play the newest and an older one, and put a copy of yourself into the store after each round."""
    shares: list[list[float]] = []

    def train(seed: int) -> float:
        players = _players(answer.probe(given.raised_by_itself, seed, ROUNDS), seed)
        shares.append([_share(players[-1], past) for past in players[:-1]])
        return float(np.mean(shares[-1]))

    with answer.case(f"{ROUNDS} rounds, from up to three seeds"):
        reached = best_of(train, rng, SHARE)
        told = [[f"{share:.0%}" for share in each] for each in shares]
        expect(
            max(reached) >= SHARE,
            f"The newest member's share of the points against each earlier one, by seed: {told}. Their mean must reach {SHARE:.0%} once.",
        )


def _players(seen: given.League, seed: int) -> list[four.Player]:
    """Return the players, once it is certain that the novice of this seed is the first, and that each round left another one."""
    expect(
        seen["returned"] == "refs",
        f"It returned a {seen['returned']}. The league is a list of refs: what `ray.put` returned for each member.",
    )
    players, members, start = seen["players"], len(seen["players"]), four.new_player(seed)
    expect(
        members == ROUNDS + 1,
        f"After {ROUNDS} rounds the league has {members} members: one from before, and one of each round.",
    )
    for number, player in enumerate(players):
        forms, due = ({name: (each.shape, each.dtype.kind) for name, each in one.items()} for one in (player, start))
        expect(forms == due, f"Member {number} is not a player.")
        finite = all(np.isfinite(weights).all() for weights in player.values())
        expect(finite, f"Member {number} has weights that are not numbers.")
        earlier = number - 1
        expect(
            number == 0 or not agree(player, players[earlier]),
            f"Members {earlier} and {number} have the same weights: nothing was learned in between.",
        )
    novice = agree(players[0], start)
    expect(novice, f"For the seed {seed}, the first member is not `new_player({seed})`. Is the oldest first?")
    return players


def _share(newest: dict, past: dict, games: int = 100) -> float:
    """Return the newest player's share of the points, in both seats."""
    taken = four.match(newest, past, games, 1) + games - four.match(past, newest, games, 2)
    return taken / (2 * games)


question(
    "one_mind_alone",
    """
    Both robots share one module, and it always takes the most probable action. Both see the same at the start. What happens?

    a) They take turns, since RLlib asks about one after the other.
        RLlib asks about both in one batch, and the same question gets the same answer.
    *b) Both go, or both wait forever.
        Right. Only chance could tell them apart, and now there is none. A module for each helps, or an observation that says which robot it is.
    c) The one that learns faster goes first.
        There is one module, and it learns from both.
    """,
)

question(
    "critic_at_play",
    """
    Two players were trained with a critic that saw what both see. What does each need to play?

    a) What both see: its weights were trained with it.
        Only the critic's were. The policy's input is what its own player sees.
    *b) Only what it sees itself.
        Right: the critic judged actions during training, but chooses none. That is why it may see more.
    c) The critic, to ask which action is best.
        PPO's critic says how good a situation is. The policy chooses, and the critic stays at home.
    """,
)

question(
    "overlap",
    """
    Member 7 has 1,085 Elo points, interval 1,050 to 1,120; member 8 has 1,100, interval 1,065 to 1,135. Which is stronger?

    a) Member 8: its rating is higher.
        By 15 points, which is less than either interval allows for chance.
    *b) You don't know yet: let them play more games.
        Right. Four times as many games make an interval half as wide.
    c) Both are equally strong: the intervals overlap.
        They may be. A wide interval says that you know little, not that there is no difference.
    """,
)

question(
    "a_circle",
    """
    Rock beats scissors, scissors beat paper, paper beats rock, always, and all have played each other equally often. What does Elo say?

    *a) All three have the same rating.
        Right, so it expects a draw from every pair, and is wrong about each. One number for each player cannot hold a circle: look at the table, too.
    b) The one that won last has the highest.
        The fit ignores the order of the games.
    c) It finds no answer.
        There is one, and it fits the sums: each took as many points as it lost.
    """,
)
