"""The judge's side of chapter 14."""

import numpy as np
from numpy.random import Generator

from coursekit.answer import Answer
from coursekit.exercise import agree, exercise, expect, expect_close, expect_equal, quiz
from coursekit.given import ch14_custom as given
from coursekit.result import plural


def _tape(rng: Generator, low: np.ndarray, high: np.ndarray, lengths: list[int], ends: list[str]) -> dict:
    """Return a tape of episodes of these lengths, with random observations between the bounds and random rewards."""
    episodes = [
        {
            "rows": rng.uniform(low, high, size=(steps + 1, *low.shape)).astype(np.float32),
            "rewards": rng.uniform(0.5, 2.0, size=steps).round(3).tolist(),
            "end": end,
        }
        for steps, end in zip(lengths, ends, strict=True)
    ]
    return {"low": low, "high": high, "episodes": episodes}


@exercise(
    points=2,
    minutes=15,
    hints=[
        "What share of the way from `low` to `high` has the number gone? From a share, 0 to 1, it is one step to -1 to 1.",
        "`self.input_observation_space.low` and `.high` are arrays, one number for each number of the observation.",
        "The space that comes out has the shape of the one that goes in, and the bounds -1 and 1: `Box(-1, 1, shape, np.float32)`.",
    ],
)
def Rescale(answer: Answer, rng: Generator) -> None:  # noqa: N802
    """Take the bounds from the space, so that the connector fits every environment that names them."""
    low = np.array([rng.uniform(2e4, 8e4), -rng.uniform(2, 9), rng.uniform(0.001, 0.002)], np.float32)
    high = np.array([low[0] + rng.uniform(1e3, 9e3), rng.uniform(11, 30), rng.uniform(0.004, 0.009)], np.float32)
    _judge_rescaled(answer, rng, low, high)
    low = rng.uniform(-9, 9, size=(2, 3)).astype(np.float32)  # any `Box`: a table, too
    _judge_rescaled(answer, rng, low, low + rng.uniform(2, 9, size=(2, 3)).astype(np.float32))


def _judge_rescaled(answer: Answer, rng: Generator, low: np.ndarray, high: np.ndarray) -> None:
    """Check the announced space, what the module sees, and what the learner gets, for observations between these bounds."""
    tape = _tape(rng, low, high, lengths=[4, 5], ends=["truncated", "terminated"])
    got = answer.probe(given.through_connector, tape, [3, 6])
    expect(got["connector"], "The class is not a connector. Leave its base class as it was.")
    space = got["space"]
    expect(isinstance(space, list), f"The space that comes out is {space}, not a Box.")
    told, shape = "The space that you announce must say what comes out. ", low.shape
    expect(
        np.shape(space[0]) == shape, told + f"Its shape is {np.shape(space[0])}; observations had the shape {shape}."
    )
    bounds = f"Its bounds are {space[0].tolist()} and {space[1].tolist()}."
    expect(agree(space, [-np.ones(shape), np.ones(shape)]), told + bounds)
    rows = np.concatenate([episode["rows"] for episode in tape["episodes"]])[:-1]  # it ends before the last is acted on
    want = (2 * (rows - low) / (high - low) - 1).reshape(len(rows), -1)
    saw, tried = np.array(got["module saw"]), f"Bounds {_short(low)} and {_short(high)}. "
    expect(np.shape(saw) == want.shape, tried + f"The module saw {np.shape(saw)} numbers of {want.shape} observations.")
    for row, seen, expected in zip(rows, saw, want, strict=True):
        text = f"Of {_short(row)} the module saw {_short(seen)} (expected: {_short(expected)})."
        expect_close(seen, expected, tried + text, rtol=0, atol=2e-3)
    learned = np.delete(want, 4, axis=0)  # nobody learns from what comes after the end of an episode
    gets = np.asarray(got["learner gets"])
    expect(
        len(gets) == len(learned) and agree(gets.reshape(len(gets), -1), learned, 0.0, 2e-3),
        f"The module acts on {_short(saw[0])}, but the learner gets {_short(gets[0])} for the same step. "
        "What is not written into the episode is lost.",
    )


def _short(numbers: np.ndarray) -> str:
    """Return the numbers as one list, five digits each."""
    return f"[{', '.join(f'{number:.5g}' for number in np.ravel(numbers))}]"


@exercise(
    points=3,
    minutes=25,
    hints=[
        "`nn.Linear` works on the last dimension and leaves the others alone: [B, nodes, features] becomes [B, nodes, hidden].",
        "A network that ends in one number gives [B, nodes, 1]. A score for each node is [B, nodes]: `.squeeze(-1)`.",
        "The value is one number for each table, shape [B]: the mean over the nodes of what a second small network says.",
    ],
)
def ScoreEach(answer: Answer, rng: Generator) -> None:  # noqa: N802
    """Apply the same small network to every node: what is learned about one node holds for all."""
    nodes, features, hidden = (
        int(rng.integers(low, high)) for low, high in [(6, 10), (3, 6), (10, 15)]
    )  # no two alike
    tables = rng.random((5, nodes, features)).astype(np.float32)
    order = rng.permutation(nodes)
    while (order == np.arange(nodes)).any():  # everybody moves
        order = rng.permutation(nodes)
    larger = rng.random((2, nodes + 7, features)).astype(np.float32)
    both = np.concatenate([tables, tables[:, order]])
    halfway = (tables + tables[:, order]) / 2
    got = answer.probe(given.alone, np.concatenate([both, halfway]), hidden)
    expect(not got["missing"], f"The class does not inherit from {' and '.join(got['missing'])}: PPO needs both bases.")
    tried = f"{len(both) + len(halfway)} tables of {nodes} nodes with {features} numbers each. "
    expect(got["returned"] == "dict", tried + f"`_forward` returned {got['returned']}; it must return a dict.")
    _judge_shapes(got, (len(both) + len(halfway), nodes), tried)
    few, more = got["weights"]
    expect(
        more > few,
        f"With model_config hidden={hidden} the module has {few} weights, with hidden={hidden + 1} it has {more}. "
        'The size of the networks is `self.model_config["hidden"]`.',
    )
    expect(
        not agree(got["values"], got["played"].mean(axis=1), 1e-3, 1e-6),
        tried + "The value of each is the mean of its scores: one network says both, and there should be two.",
    )
    for name, what in [("played", "scores"), ("values", "values")]:
        some, others, between = np.split(np.asarray(got[name], np.float64), 3)
        spread = between.std()  # 0 where a network begins with zeros
        expect(
            np.abs((some + others) / 2 - between).max() > 1e-4 * spread + 1e-6 or spread < 1e-6,
            tried + f"The {what} halfway between two tables lie exactly halfway: the network is linear. "
            "What stands between its two `Linear`?",
        )
    got = answer.probe(given.inside_ppo, both, larger, hidden)
    for when in ("before", "after"):
        _judge_scores(got[when], order, f"{len(both)} tables of {nodes} nodes, {when} an iteration of PPO. ")
    for name, what in [("learned", "scores"), ("values", "values")]:
        expect(
            not agree(got["before"][name], got["after"][name], 1e-6, 1e-7),
            f"An iteration of PPO did not change the {what}. Are all layers attributes of the module, "
            "so that PyTorch finds them? Does anything cut the gradient (`no_grad`, `detach`)?",
        )
    told = f"The same module, asked about {nodes + 7} nodes instead of {nodes}: "
    expect(isinstance(got["larger"], dict), told + str(got["larger"]))
    shapes = [np.shape(got["larger"][name]) for name in ("played", "values")]
    expect_equal(shapes, [(2, nodes + 7), (2,)], told + f"scores and values have the shapes {shapes}.")
    told = f"Each of the {nodes} nodes of a table, twice, as a table of its own: "
    expect(isinstance(got["twins"], dict), told + str(got["twins"]))
    values = np.asarray(got["twins"]["values"])
    expect(values.shape == (len(both) * nodes,), told + f"the values have the shape {values.shape}.")
    expect_close(
        got["after"]["values"],
        values.reshape(len(both), nodes).mean(axis=1),
        told + "the mean of their values is not the value of the whole table.",
        rtol=1e-3,
        atol=1e-4,
    )


def _judge_shapes(got: dict, shape: tuple[int, int], tried: str) -> None:
    """Check that there is a score for each of the nodes of the tables, shape [tables, nodes], and a value for each table."""
    keys = got["keys"]
    expect(
        "action_dist_inputs" in keys, tried + f"`_forward` returned {keys}; PPO looks for `Columns.ACTION_DIST_INPUTS`."
    )
    for name, what, want in [("played", "scores", shape), ("values", "values", shape[:1])]:
        expect(np.shape(got[name]) == want, tried + f"The {what} have the shape {np.shape(got[name])}, not {want}.")


def _judge_scores(got: dict, order: np.ndarray, tried: str) -> None:
    """Check shapes, and that a node is judged by its row alone: the second half of the tables is the first in another order."""
    _judge_shapes(got, (10, len(order)), tried)
    scores, values = got["played"], got["values"]
    expect(scores.std(axis=1).min() > 1e-6, tried + "All nodes of a table got the same score.")
    expect(
        not np.allclose(scores.sum(axis=1), 1, atol=1e-4),
        tried + "The scores of each table add up to 1: return them as they are, PPO makes the probabilities.",
    )
    expect_close(
        scores[5:],
        scores[:5][:, order],
        tried + "The nodes of a table were put in another order, and the scores did not follow.",
        atol=1e-4,
    )
    expect_close(
        values[5:], values[:5], tried + "The nodes were put in another order, and the value changed.", atol=1e-4
    )
    expect_close(
        got["learned"], scores, tried + "EnvRunner and learner get different scores for the same table.", atol=1e-4
    )


@exercise(
    points=2,
    minutes=15,
    hints=[
        "The episode knows how it ended: `episode.is_terminated` or `episode.is_truncated`.",
        "`episode` may be only the last piece. The pieces before it are in the list `prev_episode_chunks`; all of them have `get_actions()`.",
        "Without `reduce=` RLlib keeps a moving average in which a new value counts for one per cent. Ask for the mean.",
    ],
)
def Diary(answer: Answer, rng: Generator) -> None:  # noqa: N802
    """Look at all pieces of the episode, and ask for the mean of what was logged since the last report."""
    ends = rng.permutation(["terminated", "truncated"]).tolist()
    lengths = [9 + int(rng.integers(3)), 4, 5, 8]  # the first comes in three pieces
    tape = _tape(rng, np.zeros(1), np.ones(1), lengths, [ends[0], ends[1], ends[0], "terminated"])
    for number, episode in enumerate(tape["episodes"]):
        wish = (rng.random((len(episode["rows"]), 1)) < 0.5).astype(np.float32)
        wish[:3] = [[0.0], [0.0], [float(number % 2)]]  # no two halves alike
        episode["rows"] = wish
    fragments = [4, 4, sum(lengths[:3]) - 8 + 2, lengths[3] - 2]
    got = answer.probe(given.keep_diary, tape, fragments)
    for number, want in enumerate(_reports(tape["episodes"], fragments), 1):
        tried = f"In turn {number} the EnvRunner played {fragments[number - 1]} steps and "
        _judge_report(got[number - 1], want, tried)


def _reports(episodes: list[dict], fragments: list[int]) -> list[list[tuple[str, int, int]]]:
    """Return for each fragment the episodes that ended in it: how, with how many actions 0, in how many pieces."""
    borders, moment = np.cumsum(fragments), 0
    reports: list[list[tuple[str, int, int]]] = [[] for _ in fragments]
    for episode in episodes:
        steps = len(episode["rewards"])
        begin, end = (int(np.searchsorted(borders, step)) for step in (moment + 1, moment + steps))
        moment += steps
        reports[end].append((episode["end"], int(np.sum(episode["rows"][:steps] == 0)), end - begin + 1))
    return reports


def _judge_report(got: dict, want: list, tried: str) -> None:
    if not want:
        quiet = all(value != value for value in got.values())  # nothing, or not a number
        expect(quiet, tried + f"saw no episode end, and yet {got} was logged.")
        return
    ended = [f"{end}, {back} steps back, in {plural(pieces, 'piece')}" for end, back, pieces in want]
    tried += f"saw these episodes end: {'; '.join(ended)}. "
    means = {
        "arrived": float(np.mean([end == "terminated" for end, _, _ in want])),
        "steps_back": float(np.mean([back for _, back, _ in want])),
    }
    for name, mean in means.items():
        expect(name in got, tried + f'Nothing was logged as "{name}".')
        told = f'What is reported as "{name}" is {got[name]:.4g} (expected: {mean:.4g}, the mean).'
        expect_close(got[name], mean, tried + told, atol=1e-6)


@exercise(
    points=3,
    minutes=15,
    hints=[
        "`step` needs the potential of the place where it began: `reset` and `step` keep it in an attribute.",
        "Ask the formula what comes after the last step of an episode that *terminated*, and of one that was *truncated*.",
        "The new reward is `reward + self.gamma * after - self.before`; then `after` becomes `before`.",
    ],
)
def Shaped(answer: Answer, rng: Generator) -> None:  # noqa: N802
    """Pay for potential gained and take back for potential lost, so that no way round is worth anything."""
    gamma, weights = float(rng.uniform(0.6, 0.9)), rng.uniform(1, 4, size=2).round(2).tolist()
    lengths, ends = [6, 3, 4, 3], ["terminated", "terminated", "truncated", "terminated"]
    tape = _tape(rng, np.ones(2), 5 * np.ones(2), lengths, ends)
    left = 3  # steps of the first episode
    seeds = rng.choice(1000, size=len(lengths), replace=False).tolist()
    got = answer.probe(given.play_shaped, tape, weights, gamma, left, seeds)
    for number, (episode, steps) in enumerate(zip(tape["episodes"], got["episodes"], strict=True)):
        played = left if number == 0 else lengths[number]
        told = "`reset` must return what the environment's own `reset` returns, observation and info."
        expect_close(steps[0][0], episode["rows"][0], told)
        expect_equal(steps[0][1], {"step": 0}, told)
        for step in range(1, played + 1):
            _judge_step(steps[step], episode, step, weights, gamma, first_after_leaving=number == 1 and step == 1)
    for seed, heard in zip(seeds, got["heard"], strict=True):
        told = f"`reset` was called with seed {seed} and options {{'lamp': {seed}}}; the environment inside heard "
        expect_equal(heard, {"seed": seed, "options": {"lamp": seed}}, told + f"{heard}. Pass both on.")


def _judge_step(got: list, episode: dict, step: int, weights: list, gamma: float, first_after_leaving: bool) -> None:
    obs, reward, terminated, truncated, info = got
    before, after = (float(np.dot(weights, row)) for row in episode["rows"][step - 1 : step + 1])
    over = step == len(episode["rewards"])
    ends = [over and episode["end"] == "terminated", over and episode["end"] == "truncated"]
    expect_equal(
        [terminated, truncated], ends, "The wrapper changed `terminated` or `truncated`. Only the reward may change."
    )
    expect_close(obs, episode["rows"][step], "The wrapper changed the observation. Only the reward may change.")
    expect_equal(info, {"step": step}, "The wrapper changed `info`. Only the reward may change.")
    raw = episode["rewards"][step - 1]
    want = raw + gamma * (0.0 if ends[0] else after) - before
    where = "a step in the middle of an episode"
    if over:
        where = f"the last step of an episode that was {episode['end']}"
    elif first_after_leaving:
        where = "the first step after a `reset` in the middle of an episode"
    tried = f"gamma {gamma:.3f}; {where}: potential {before:.3f} before, {after:.3f} after, reward {raw:.3f}. "
    expect_close(reward, want, tried + f"Yours came out as {reward:.3f}.", atol=1e-4)


@exercise(
    points=3,
    minutes=25,
    hints=[
        "First move everybody in `actions`, then look at who is on the bridge, then fill the dicts.",
        "`actions` has exactly those robots that are still in the game, so `for agent in actions` is right for every dict.",
        '`terminateds` and `truncateds` both need the key "__all__": it is about the whole episode.',
    ],
)
def Bridge(answer: Answer, rng: Generator) -> None:  # noqa: N802
    """Move first, then judge; every dict is about the robots that acted, and `__all__` about the episode."""
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
        "nobody": [{first: 0, second: 0}] * 20,
        "one goes, the other never": [{first: 1, second: 0}] * 3 + [{second: 0}] * 17,
    }
    for leaves, enters in (first, second), (second, first):
        plan = [{leaves: 1, enters: 0}, {leaves: 0, enters: 0}, {leaves: 0, enters: 1}, {enters: 0}, {enters: 0}]
        name = f"{enters} steps on as {leaves} steps off"
        plans[name] = plan
        plans[name + ", named the other way round"] = [dict(reversed(actions.items())) for actions in plan]
    stories = answer.probe(given.play_plans, list(plans.values()))
    for (name, plan), story in zip(plans.items(), stories, strict=True):
        _judge_story(name, plan, story)
    for steps, rewards in answer.probe(given.sampled_bridge, 12):
        ended = all(reward in (-1.0, 1.0) for reward in rewards.values())
        told = f"RLlib played an episode of {steps} steps with random actions; the last rewards were {rewards}."
        expect(ended or steps == 20, told + " It ended too early.")


def _judge_story(name: str, plan: list[dict], story: list) -> None:
    """Play the plan with the rules of the chapter, and compare every step."""
    fields = {"north": 0, "south": 0}
    expect_close(story[0][0], _seen(fields, fields), "`reset` was changed: leave it as it is.")
    for number, actions in enumerate(plan, 1):
        for agent, action in actions.items():
            fields[agent] += 1 if fields[agent] else action
        want = _rules(fields, actions, number)
        got = dict(zip(want, story[number][:4], strict=True))
        tried = f"Plan: {name}. Step {number}, actions {actions}, leads to the fields {fields}. "
        for part in ("rewards", "terminateds", "truncateds", "observations"):
            _judge_part(part, got[part], want[part], tried)


def _judge_part(part: str, got: dict, want: dict, tried: str) -> None:
    """Compare one dict; a flag that is left out counts as False, `__all__` may not be left out."""
    if part in ("terminateds", "truncateds"):
        expect("__all__" in got, tried + f'Your {part} have no "__all__": {got}.')
        strangers = set(got) - set(want) - {"__all__"}
        got = {agent: bool(got.get(agent, False)) for agent in want}
        if part == "truncateds" and want["__all__"]:
            got |= {
                agent: want[agent] for agent in want if agent != "__all__"
            }  # said for each or for all: both will do
    else:
        strangers = set(got) - set(want)
    expect(not strangers, tried + f"Your {part} speak of {sorted(strangers)}, which did not act in this step.")
    expect(
        set(got) == set(want),
        tried + f"Your {part} leave out {sorted(set(want) - set(got))}, which acted in this step.",
    )
    expect_close(got, want, tried + f"Your {part} are {got}.", atol=1e-5)


def _rules(fields: dict, actions: dict, step: int) -> dict:
    """Return the four dicts of a step that led to these fields."""
    fell = all(field in (1, 2) for field in fields.values())
    across = {agent: fields[agent] == 3 for agent in actions}
    over = fell or all(field == 3 for field in fields.values())
    late = step == 20 and not over
    return {
        "observations": _seen(fields, actions),
        "rewards": {agent: -1.0 if fell else 1.0 if across[agent] else -0.2 for agent in actions},
        "terminateds": {agent: fell or across[agent] for agent in actions} | {"__all__": over},
        "truncateds": dict.fromkeys(actions, False) | {"__all__": late},
    }


def _seen(fields: dict, agents: dict) -> dict:
    other = {"north": "south", "south": "north"}
    return {agent: np.array([fields[agent], fields[other[agent]]]) / 3 for agent in agents}


@exercise(
    points=2,
    minutes=10,
    hints=[
        "`.multi_agent(policies=..., policy_mapping_fn=...)`: the names of the modules, and a function from a robot to one of them.",
        'The side is what stands before the dash: `"north-3".split("-")[0]`.',
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
        got = answer.probe(given.who_thinks, agents, numbers)
        expect(got["returned"] == "a config", f"The function returned {got['returned']}. It must return the config.")
        nowhere = sorted({f"{agent} to {module!r}" for agent, module in got["mapped"] if module not in got["modules"]})
        expect(
            not nowhere,
            f"The robots {sorted(agents)} were to play. The mapping sends {', '.join(nowhere)}; "
            f"the config has modules only for {got['modules']}.",
        )
        expect(
            isinstance(got["saw"], dict),
            f"The robots {sorted(agents)} were to play, and RLlib raised {got['saw']}. "
            "Does the mapping take the arguments that RLlib hands over, and name a module for each of them?",
        )
        _judge_minds(got["saw"], dict(zip(agents, numbers, strict=True)), teams)


def _judge_minds(saw: dict, numbers: dict, teams: tuple) -> None:
    """Compare what each module was asked about with the robots of its side."""
    names = {round(number, 3): agent for agent, number in numbers.items()}
    played = {module: [names.get(number, "?") for number in seen] for module, seen in saw.items()}
    tried = f"The robots {sorted(numbers)} played. "
    expect(
        set(saw) == {"north", "south"},
        tried + f'There are modules for {sorted(map(str, saw))}; there must be "north" and "south".',
    )
    for side, team in zip(("north", "south"), teams, strict=True):
        got = sorted(map(str, played[side]))
        expect_equal(got, sorted(team), tried + f'The module "{side}" was asked to act for {got or "nobody"}.')


quiz(
    "only_the_batch",
    """
    A connector changes the batch that goes to the module, and does not write into the episode. What happens in training?

    a) Nothing bad: the module has seen the right numbers.
        It has acted on them. But the batch is thrown away after the action, and the learner builds its own from the episodes.
    *b) The learner trains on other numbers than those on which the module acted.
        Right. No error tells you: the ratio of PPO just compares answers to two different questions.
    c) RLlib applies the connector again on the learner's side.
        The env-to-module pipeline runs only in the EnvRunners. The learner has a pipeline of its own.
    """,
)

quiz(
    "what_a_module_knows",
    """
    Twelve nodes, then forty: why can the trained ScoreEach be used as it is?

    a) Because PyTorch pads what is missing with zeros.
        It pads nothing: a layer with 36 inputs refuses 120.
    *b) Because its weights belong to the features of one node, of which there are still three.
        Right: the number of nodes is only the length of a dimension along which nothing was learned.
    c) Because RLlib builds it anew for the larger table.
        Nothing was built or trained again: it is the same object.
    """,
)

quiz(
    "a_number_without_reduce",
    """
    `metrics_logger.log_value("arrived", 1.0)`, without `reduce=`. The first 20 episodes fail, the next 20 arrive. What, roughly, is reported then?

    a) 1: the last value.
        Nothing is overwritten; values are averaged.
    b) 0.5: the mean of all.
        That would be a plain mean. The default is another one.
    *c) About 0.2: a moving average in which each new value counts for one per cent.
        Right: 1 - 0.99 to the power of 20 is 0.18. Whoever wants to see what happened since the last report asks for the mean.
    """,
)

quiz(
    "return_and_arrivals",
    """
    The return of a shaped environment rises from iteration to iteration. What do you know?

    a) That the agent solves its task better and better.
        So it looked with the praise, too, while nobody arrived.
    *b) That it collects more of the reward that you wrote, and nothing else.
        Right. What you want must be counted on its own: that is what the diary is for.
    c) Nothing: shaped returns are noise.
        They are what the agent is trained on, so they say how well the training works.
    """,
)

quiz(
    "one_mind_alone",
    """
    Both robots share one module, and it always takes the most probable action. Both see the same at the start. What happens?

    a) They take turns, since RLlib asks one after the other.
        It asks about both in one batch, and the same question gets the same answer.
    *b) Both go, or both wait for ever.
        Right. Only chance could tell them apart, and now there is none. What helps: a module each, or an observation that says who one is.
    c) The one that learns faster goes first.
        There is one module, and it learns from both.
    """,
)
