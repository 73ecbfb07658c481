"""The judge's side of chapter 23."""

import numpy as np
from numpy.random import Generator

from coursekit.given import ch23_self_play as given
from coursekit.given import four
from coursekit.judging.answer import Answer
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import agree, best_of, expect, expect_close, expect_equal, expect_type

ROUNDS, SHARE = 4, 0.62  # of the training run, and of the points that the last snapshot must take from the earlier ones

OFF = 4.0  # Elo points that a rating, and their mean, may be off


@exercise(
    points=3,
    minutes=20,
    hints=[
        "First move every robot in `actions`, then find out who is on the bridge, and then fill the dicts.",
        "`actions` contains exactly the robots that are still in the game, so every dict can be built with `for agent in actions`.",
        '`terminateds` and `truncateds` both need the key "__all__", which is about the whole episode.',
    ],
    spare=["        terminateds = {agent: fall or across[agent] for agent in actions}"],
)
def Bridge(answer: Answer, rng: Generator) -> None:  # noqa: N802
    """Move first, then decide who falls; every dict is about the robots that acted, and `__all__` is about the episode."""
    # Long: the rules of the bridge are applied beside the answer, over twelve plans.
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
        "one arrives in step 20, but the other hasn't gone": [{first: 0, second: 0}] * 17 + [{first: 1, second: 0}] * 3,
        "the second arrives in step 20": [{first: 1, second: 0}] * 3 + [{second: 0}] * 14 + [{second: 1}] * 3,
    }
    for leaves, enters in (first, second), (second, first):
        plan = [{leaves: 1, enters: 0}, {leaves: 0, enters: 0}, {leaves: 0, enters: 1}, {enters: 0}, {enters: 0}]
        name = f"{enters} steps on as {leaves} steps off"
        plans[name] = plan
        plans[name + ", listed in the opposite order"] = [dict(reversed(actions.items())) for actions in plan]
    for name, plan in plans.items():
        _judge_story(answer, name, plan, answer.probe(given.play_plan, plan))
    for steps, rewards in answer.probe(given.sampled_bridge, 12):
        with answer.case(f"an episode of {steps} steps that RLlib sampled with random actions"):
            ended = all(reward in (-1.0, 1.0) for reward in rewards.values())
            expect(ended or steps == 20, f"The episode ended too early: the last rewards were {rewards}.")


def _judge_story(answer: Answer, name: str, plan: list[dict], story: given.Story) -> None:
    """Apply the chapter's rules to the plan, and compare every step."""
    squares = {"north": 0, "south": 0}
    expect_close(story["reset"][:1], [_seen(squares, squares)], "`reset` has changed: leave it as it was.")
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
    """Compare one dict; a flag that is left out counts as False, but `__all__` may not be left out."""
    strangers, shown = sorted(map(str, set(got) - set(want))), got
    if part in ("terminateds", "truncateds"):
        expect("__all__" in got, f'Your {part} have no "__all__" key: {got}.')
        got = {agent: got.get(agent, False) for agent in want}
        if part == "truncateds" and want["__all__"]:
            got |= {
                agent: want[agent] for agent in want if agent != "__all__"
            }  # a flag per robot or for all: both will do
    expect(not strangers, f"Your {part} contain {strangers}, but {strangers} did not act in this step.")
    missing = sorted(set(want) - set(got))
    expect(not missing, f"Your {part} leave out {missing}, although these robots acted in this step.")
    if part in ("terminateds", "truncateds"):
        expect_equal(
            got,
            want,
            f"Your {part} are {shown}; they should be {want}. A robot's flag that is left out counts as False.",
        )
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
        "`.multi_agent(policies=..., policy_mapping_fn=...)` takes the names of the modules and a function that maps a robot to one of them.",
        'The side is the part of the name before the dash: `"north-3".split("-")[0]`.',
        "RLlib calls your function with the agent's name and its episode, and in some places with keywords, so end its parameters with `**kwargs`.",
    ],
)
def two_minds(answer: Answer, rng: Generator) -> None:
    """Name both modules, and read from a robot's name which of them acts for it."""
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
            expect(
                returned == "a config",
                f"The function returned an object of type {returned}. It must return the config.",
            )
            for agent, module in got["mapped"]:
                expect(
                    module in got["modules"],
                    f"The mapping sends {agent} to {module!r}, but the config's modules are {got['modules']}.",
                )
            expect(
                "DEFAULT_POLICY_MAPPING_FN" not in got["raised"],
                "Your config has no `policy_mapping_fn`, so nothing says which module acts for which robot.",
            )
            expect(
                not got["raised"],
                f"With your config, RLlib raised {got['raised']}. "
                "RLlib calls the mapping with an agent's name and an episode.",
            )
            _judge_minds(got["saw"], dict(zip(agents, numbers, strict=True)), teams)


def _judge_minds(saw: dict[str, list[float]], numbers: dict, teams: tuple) -> None:
    """Compare what each module was asked about with the robots of its side."""
    names = {round(number, 3): agent for agent, number in numbers.items()}
    played = {module: [names.get(number, "?") for number in seen] for module, seen in saw.items()}
    modules = sorted(saw)
    expect_equal(
        modules, ["north", "south"], f'The config has the modules {modules}; it must have "north" and "south".'
    )
    for side, team in zip(("north", "south"), teams, strict=True):
        got, due = sorted(played[side]), sorted(team)
        expect_equal(got, due, f'The module "{side}" acted for {got}; the robots on its side are {due}.')


@exercise(
    points=3,
    minutes=15,
    needs={"CPU": 2},
    hints=[
        "You need a match for each *ordered* pair, because the result with i moving first says nothing about the one with j moving first.",
        "Start all tasks, keep their refs in a dict with keys (i, j), and only then call `ray.get`.",
        "Snapshot i takes `got[i, j]` points when it moves first, and whatever j doesn't take when j moves first: `got[i, j] + games - got[j, i]`.",
    ],
    spare=["        table[i, j] = first[i, j]"],
)
def league(answer: Answer, rng: Generator) -> None:
    """Start every match before you wait for any, pass the snapshots by reference, and count both matches of a pair."""
    size, games = int(rng.integers(4, 6)), 2 * int(rng.integers(10, 30))
    strengths, bonus = rng.normal(0, 1, size).round(3).tolist(), float(rng.uniform(0.4, 0.8))
    meets = [[0, size - 1], [size - 1, 1]]
    with answer.case(f"{size} snapshots; {games} games with each of a pair moving first"):
        seen = answer.probe(given.tournament, strengths, bonus, games, meets)
        table = expect_type(seen["table"], np.ndarray, "the table")
        expect(table.shape == (size, size), f"For {size} snapshots, the table has the shape {table.shape}.")
        first = _first(strengths, bonus, games)
        want, others = first + games - first.T, ~np.eye(size, dtype=bool)
        expect_close(
            table[others],
            want[others],
            "The table is wrong: table[i, j] must hold the points that i took from j in both matches.",
            atol=1e-6,
            mistakes={
                "Row i holds the points that the others took from i: table[i, j] must hold those of i.": want.T[others],
                "Only the games in which i moved first are counted: add those in which j moved first.": first[others],
                "The points from the match in which j moved first are j's: i took the rest of the points in those games.": (
                    first + first.T
                )[others],
                "The table holds fractions, but it must hold points.": (want / (2 * games))[others],
            },
        )
        expect_close(np.diag(table), np.zeros(size), "The diagonal must hold zeros, because no snapshot plays itself.")
        expect(
            seen["met"],
            "Two of the matches, which wait for each other here, didn't run at the same time: start all of them before you wait for any.",
        )
        opened = seen["opened_here"]
        expect(
            not opened,
            f"The snapshots {opened} were fetched into your own process. Pass the refs to the tasks as they are.",
        )


def _first(strengths: list[float], bonus: float, games: int) -> np.ndarray:
    """Return the points of each snapshot against each other one when it moves first."""
    lead = np.subtract.outer(strengths, strengths) + bonus
    points = np.round(2 * games / (1 + np.exp(-lead))) / 2
    return points * (1 - np.eye(len(strengths)))


@exercise(
    points=3,
    minutes=15,
    returns=list[float],
    hints=[
        "Add half a point to each entry off the diagonal. How many games has each pair then played, and how many points do you expect each player to take?",
        "Start with all ratings at 0. A player that took more points than expected is rated too low, so raise its rating, and repeat.",
        "Repeat a thousand times: `expected = games / (1 + 10 ** ((r[None, :] - r[:, None]) / 400))` and `r += 400 * (points - expected).sum(1) / games.sum(1)`. Finally, subtract the mean.",
    ],
    spare=["    return ratings - ratings[0]"],
)
def elo(answer: Answer, rng: Generator) -> None:
    """Move each rating until the expected points are exactly those that the player took."""
    # Long: it fits the ratings by itself, with the drawn games and without.
    games = rng.integers(20, 60, (5, 5))
    games = np.triu(games, 1) + np.triu(games, 1).T
    upper = np.triu(np.round(2 * _due(rng.permutation([-300, -150, 0, 150, 300]), games)) / 2, 1)
    points = upper + np.tril((games - upper.T), -1)
    with answer.case("5 players, with 20 to 60 games per pair"):
        _expect_ratings(answer(points), points)
    points[:, 2], points[2] = 0.0, games[2]
    with answer.case("5 players; one of them won every game"):
        _expect_ratings(answer(points), points)
    points[0, 4] = points[4, 0] = 0.0
    with answer.case("5 players; one of them won every game, and two of them never met"):
        _expect_ratings(answer(points), points)
    circle = np.array([[0.0, 30.0, 10.0], [10.0, 0.0, 30.0], [30.0, 10.0, 0.0]])
    with answer.case("three players in a circle: each beats the next 30 to 10"):
        _expect_ratings(answer(circle), circle)


def _expect_ratings(ratings: list[float], points: np.ndarray) -> None:
    players, rated = len(points), len(ratings)
    expect(rated == players, f"{players} players got {rated} ratings.")
    expect(
        np.isfinite(ratings).all(),
        "Some ratings are infinite or NaN. With the drawn games, every pair has played, and no player has won every game.",
    )
    taken, mean = points + 0.5 * (1 - np.eye(players)), round(float(np.mean(ratings)), 1)
    got, want = np.array(ratings) - np.mean(ratings), _fit(taken)
    took, due = taken.sum(axis=1).tolist(), _due(got, taken + taken.T).sum(axis=1).round(1).tolist()
    expect_close(
        got,
        want,
        f"With your ratings, the players' expected points are {due}. They took {took}, drawn games included.",
        rtol=0,
        atol=OFF,
        mistakes={
            "The ratings are upside down: the best player has the lowest one.": -want,
            "The order is right, but the scale isn't: a lead of 400 must mean odds of ten to one.": want
            * np.log(10)
            / 400,
            "The drawn game between each pair is missing.": _fit(points),
        },
    )
    expect(abs(mean) <= OFF, f"The differences between your ratings are right, but their mean is {mean}: it must be 0.")


def _due(ratings: np.ndarray, games: np.ndarray) -> np.ndarray:
    """Return the points that each player is expected to take from each other one."""
    return games / (1 + 10 ** (np.clip(ratings[None] - ratings[:, None], -4000, 4000) / 400))


def _fit(taken: np.ndarray) -> np.ndarray:
    """Return the ratings with mean 0 whose expected points are those taken, by Newton's method with short steps."""
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
        "Two players matter in each step: the learner's current player and a snapshot. Which of the two must you copy again in every step?",
        "In each step: `mine = ray.put(learner.player())`, then a `play_against` task for each of two opponents, then `learner.learn(*ray.get(refs))`.",
        "One opponent is `snapshots[-1]`, and the other is `snapshots[rng.integers(len(snapshots))]`. After STEPS steps, append `ray.put(learner.player())`.",
    ],
)
def beats_its_past(answer: Answer, rng: Generator) -> None:
    """Play against the latest snapshot and an older one, and put a copy of the player into the store after each round."""
    # Long: a league shows its recipe only in what was played, so the check reads the opponents, and trains one round twice.
    shares: list[list[float]] = []

    def train(seed: int) -> float:
        seen = answer.probe(given.raised_by_itself, seed, ROUNDS)
        players, calls = _players(seen, seed), len(seen["met"])
        older = sum(0 <= place < max(seen["met"][: number + 1]) for number, place in enumerate(seen["met"]))
        expect(
            older or not calls,
            f"In {calls} calls to `play_against`, no opponent was older than one that came before it. Some opponents must be older than the latest snapshot.",
        )
        expect(
            calls < 2 or len(set(seen["seeds"])) > 1,
            f"All {calls} calls to `play_against` had the same seed, and so the same random numbers.",
        )
        _expect_recipe(seen["played"], seen["met"])
        shares.append([_share(players[-1], past) for past in players[:-1]])
        return float(np.mean(shares[-1]))

    with answer.case(f"{ROUNDS} rounds, from up to three seeds"):
        reached = best_of(train, rng, SHARE)
        told = [[f"{share:.0%}" for share in each] for each in shares]
        expect(
            max(reached) >= SHARE,
            f"The last snapshot's percentage of the points against each earlier one, per seed: {told}. Their mean must reach {SHARE:.0%} for one of the seeds.",
        )
    with answer.case("one round, twice from the same seed"):
        seed = int(rng.integers(1, 10**6))
        once, again = (answer.probe(given.raised_by_itself, seed, 1)["players"] for _ in range(2))
        expect(
            agree(once, again, atol=1e-3),
            f"Two leagues from the seed {seed} differ: take every random number, and each seed for `play_against`, from one `np.random.default_rng(seed)`, and learn from the batches in the order of the calls.",
        )


def _expect_recipe(played: list[int], met: list[int]) -> None:
    """Check that it was the learner's player that played, and that opponents were sampled in each step, not in each round."""
    calls = len(played)
    expect(
        -1 in played or not calls,
        f"In all {calls} calls to `play_against`, the first player was one of the league's snapshots. Each step changes the current player, so from the second step of a round on, it's none of them.",
    )
    by_latest: dict[int, set[int]] = {}
    for number, place in enumerate(met):
        by_latest.setdefault(max(met[: number + 1]), set()).add(place)
    found = {latest: sorted(places) for latest, places in by_latest.items()}
    expect(
        sum(map(len, found.values())) >= 2 * ROUNDS or not calls,  # one opponent per round makes 2 * ROUNDS - 1 at most
        f"Numbers of the snapshots that were opponents, grouped by the latest one until then: {found}. "
        "Each step samples from all snapshots, so after many steps, most of them should have been opponents.",
    )


def _players(seen: given.League, seed: int) -> list[four.Player]:
    """Return the players, once it's certain that this seed's untrained player is the first, and that each round added a different one."""
    expect(
        seen["returned"] == "refs",
        f"It returned a {seen['returned']}. A league is a list of refs: what `ray.put` returned for each snapshot.",
    )
    players, size, start = seen["players"], len(seen["players"]), four.new_player(seed)
    expect(
        size == ROUNDS + 1,
        f"After {ROUNDS} rounds, the league has {size} snapshots. It needs the untrained player and one from each round.",
    )
    for number, player in enumerate(players):
        forms, due = ({name: (each.shape, each.dtype.kind) for name, each in one.items()} for one in (player, start))
        expect(forms == due, f"Snapshot {number} is not a player.")
        finite = all(np.isfinite(weights).all() for weights in player.values())
        expect(finite, f"Snapshot {number} has weights that are not finite numbers.")
        earlier = number - 1
        expect(
            number == 0 or not agree(player, players[earlier]),
            f"Snapshots {earlier} and {number} have the same weights: nothing was learned in between, or the same copy was kept twice.",
        )
    untrained = [place for place, player in enumerate(players) if agree(player, start)]
    expect(untrained, f"For the seed {seed}, no snapshot of the league is the untrained player, `new_player({seed})`.")
    oldest = untrained[0]
    expect(
        oldest == 0,
        f"For the seed {seed}, snapshot {oldest} is the untrained player, `new_player({seed})`. The oldest snapshot must come first.",
    )
    return players


def _share(last: dict, past: dict, games: int = 100) -> float:
    """Return the last player's share of the points, with each of the two moving first in half of the games."""
    taken = four.match(last, past, games, 1) + games - four.match(past, last, games, 2)
    return taken / (2 * games)


question(
    "one_mind_alone",
    """
    Both robots share one module, get the same observation, and take their most probable action. What happens?

    a) They go one after the other, because RLlib computes one action at a time.
        RLlib computes both in one batch, and even if it didn't, the same observation would get the same answer.
    *b) Both go, or both wait until the episode is truncated.
        Right. Only randomness could tell them apart, and there's none left. A module for each would help, and so would an observation that says which robot it's for.
    c) The robot that learns faster goes first.
        There's only one module, and it learns from both.
    """,
)

question(
    "critic_at_play",
    """
    Two policies were trained with a critic that observed what both of them observe. What does each policy need after training?

    a) Everything that the critic observed, because its weights were trained with it.
        Only the critic's weights have those inputs. A policy's input is its own agent's observation.
    *b) Only its own agent's observation.
        Right. The critic's values were used only during training, and the critic never chooses an action, so it may observe more.
    c) The critic, to find out which action is best.
        PPO's critic estimates how good a situation is. The policy chooses the action, so the critic isn't needed after training.
    """,
)

question(
    "overlap",
    """
    Snapshot 7 is rated 1,080 (95% interval: 1,050 to 1,110), and snapshot 8 is rated 1,130 (1,100 to 1,160). The interval of their difference is 8 to 92. Which one is stronger?

    a) You don't know yet, because the two intervals overlap.
        Two intervals can overlap although the difference is clear: it's unlikely that chance lifts one rating to its upper end and lowers the other to its lower end at once.
    *b) Very probably snapshot 8: the difference's interval doesn't contain 0.
        Right. The question is about the difference, so its interval answers it.
    c) Certainly snapshot 8, because its rating is higher.
        A higher rating alone proves nothing: if the interval of the difference went from −20 to 120, chance could have put snapshot 8 ahead.
    """,
)

question(
    "a_circle",
    """
    Rock always beats scissors, scissors always beat paper, and paper always beats rock. All three have played one another equally often. What are their Elo ratings?

    *a) All three have the same rating.
        Right, so Elo expects a draw from every pair, and it's wrong about each of them. One number per player can't describe a circle, so read the table, too.
    b) The one that won the last game has the highest rating.
        The fit ignores the order of the games.
    c) There are no ratings that fit.
        There are: with equal ratings, the expected points are those that were taken, because each took as many points as it lost.
    """,
)
