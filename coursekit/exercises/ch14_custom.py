"""The judge's side of chapter 14."""

import math
from itertools import zip_longest
from typing import Literal

import numpy as np
from numpy.random import Generator

from coursekit.given import ch14_custom as given
from coursekit.judging.answer import Answer
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import agree, expect, expect_close, expect_equal

NAMES: tuple[Literal["scores"], Literal["values"]] = ("scores", "values")  # what a module returns for a table


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
    minutes=10,
    hints=[
        "How far along the way from `low` to `high` is the number, as a fraction from 0 to 1? Then stretch that fraction to the range from -1 to 1.",
        "`self.input_observation_space.low` and `.high` are arrays with a bound for each number of the observation.",
        "The new space has the same shape as the old one, and its bounds are -1 and 1: `Box(-1, 1, shape, np.float32)`.",
    ],
)
def Rescale(answer: Answer, rng: Generator) -> None:  # noqa: N802
    """Take the bounds from the space, so that the connector works for every environment whose space has finite bounds."""
    # Long: a real EnvRunner and a real learner connector show what module and learner get.
    low = np.array([rng.uniform(2e4, 8e4), -rng.uniform(2, 9), rng.uniform(0.001, 0.002)], np.float32)
    high = np.array([low[0] + rng.uniform(1e3, 9e3), rng.uniform(11, 30), rng.uniform(0.004, 0.009)], np.float32)
    _judge_rescaled(answer, rng, low, high)
    low = rng.uniform(-9, 9, size=(2, 3)).astype(np.float32)  # a table
    _judge_rescaled(answer, rng, low, low + rng.uniform(2, 9, size=(2, 3)).astype(np.float32))


def _judge_rescaled(answer: Answer, rng: Generator, low: np.ndarray, high: np.ndarray) -> None:
    """Check the announced space, what the module sees, and what the learner gets, for observations between these bounds."""
    tape = _tape(rng, low, high, lengths=[4, 5], ends=["truncated", "terminated"])
    tape["episodes"][0]["rows"][1:3] = [low, high]  # exactly on the bounds
    with answer.case(f"observations between {_short(low)} and {_short(high)}"):
        got = answer.probe(given.through_connector, tape, [3, 6])
        expect(got["space"], "The class isn't a connector. Keep the base class that the cell gave it.")
        _judge_space(got, low.shape)
        rows = np.concatenate([episode["rows"] for episode in tape["episodes"]])[:-1]  # no action follows the last
        want = (2 * (rows - low) / (high - low) - 1).reshape(len(rows), -1)
        _judge_seen(rows, got["module_saw"], want)
        learned = np.delete(want, 4, axis=0)  # the learner never sees what comes after the end of an episode
        gets = got["learner_gets"]
        acts_on, first = _short(want[0]), _short(gets[:1])
        expect(
            agree(gets, learned, 0.0, 2e-3),
            f"The module acts on {acts_on}, but the learner receives {first} for the same step. "
            "The learner receives what is in the episode.",
        )


def _judge_space(got: given.Connected, shape: tuple[int, ...]) -> None:
    space, announced = got["space"], tuple(got["shape"])
    expect(space == "Box", f"The new observation space is {space}, not a Box.")
    expect(
        announced == shape,
        f"The space that you return must describe the new observations. Its shape is {announced}, and theirs is {shape}.",
    )
    ones, low, high = np.ones(math.prod(shape)), _short(got["low"]), _short(got["high"])
    expect(
        agree([got["low"], got["high"]], [-ones, ones]),
        f"The space that you return must describe the new observations. Its bounds are {low} and {high}.",
    )


def _judge_seen(rows: np.ndarray, saw: list[list[float]], want: np.ndarray) -> None:
    shape, right = (len(saw), *sorted({len(seen) for seen in saw})), want.shape
    expect(shape == right, f"The module received numbers of shape {shape} for observations of shape {right}.")
    for row, seen, expected in zip(rows, saw, want, strict=True):
        obs, got, wanted = _short(row), _short(seen), _short(expected)
        expect_close(
            seen,
            expected,
            f"For the observation {obs}, the module received {got} (expected: {wanted}).",
            rtol=0,
            atol=2e-3,
        )


def _short(numbers: np.ndarray | list) -> str:
    """Return the numbers as one list, five digits each."""
    return f"[{', '.join(f'{number:.5g}' for number in np.ravel(numbers))}]"


@exercise(
    points=3,
    minutes=20,
    needs={"CPU": 2},
    hints=[
        "`nn.Linear` works on the last dimension and doesn't touch the others: [B, nodes, features] becomes [B, nodes, hidden].",
        "A network that ends in one number returns [B, nodes, 1], and the scores need the shape [B, nodes]: `.squeeze(-1)`.",
        "The value is one number for each table, shape [B]. Apply a second small network to each node, and then take the mean over the nodes.",
    ],
)
def ScoreEach(answer: Answer, rng: Generator) -> None:  # noqa: N802
    """Apply the same small network to every node, so that whatever it learns about one node holds for all of them."""
    # Long: the module is trained by a real PPO, and then asked about tables in another order and of another size.
    nodes, features, hidden = (int(rng.integers(*ends)) for ends in [(7, 11), (3, 6), (11, 16)])  # no two alike
    order = np.roll(np.arange(nodes), rng.integers(1, nodes))
    tables = rng.random((6, nodes, features)).astype(np.float32)
    tables[:3] **= 6  # near 0, and near 1 where they are joined with them: a network of means is not a mean of networks
    tables[3:] **= 1 / 6
    asked = {
        "plain": tables,
        "shuffled": tables[:, order],
        "halfway": _mean_of_pairs(tables),
        "joined": np.concatenate([tables, tables[::-1]], axis=1),
    }
    with answer.case(
        f"6 tables of {nodes} nodes, {features} numbers each, alone and joined in pairs; hidden is {hidden}"
    ):
        got = answer.probe(given.inside_ppo, asked, hidden)
        for said in (got["before"], got["plain"], got["shuffled"], got["halfway"]):
            _judge_shapes(said, nodes)
        _judge_shapes(got["joined"], 2 * nodes)
        sizes = got["sizes"]
        expect(
            hidden in sizes and {*sizes} <= {1, 2, features, hidden},
            f"Your layers have the sizes {sizes}. The check expects {features} inputs, {hidden} hidden units "
            '(`self.model_config["hidden"]`) in both networks, and one output.',
        )
        _judge_networks(got, order)


def _judge_shapes(said: given.Said, nodes: int) -> None:
    for name, numbers, shape in [("scores", said["scores"], (6, nodes)), ("values", said["values"], (6,))]:
        shown = numbers.shape
        expect(shown == shape and numbers.dtype.kind == "f", f"The {name} have the shape {shown}, not {shape}.")


def _judge_networks(got: given.InsidePPO, order: np.ndarray) -> None:
    """Check that both networks learn, that they have a nonlinearity, and that each node is scored by its row alone."""
    scores, values = got["plain"]["scores"], got["plain"]["values"]
    sums = scores.sum(axis=1)
    expect(
        not agree(sums, np.ones(6), 0, 1e-4),
        "The scores of a table add up to 1. Return the logits themselves, because PPO turns them into probabilities.",
    )
    for name in NAMES:
        plain = got["plain"][name]
        expect(
            not agree(got["before"][name], plain, 1e-6, 1e-7),
            f"An iteration of PPO didn't change the {name}. PyTorch trains layers that are attributes of the module, "
            "if nothing cuts off the gradient (`no_grad`, `detach`).",
        )
        expect(
            not agree(got["halfway"][name], _mean_of_pairs(plain), 1e-4, 1e-6),
            f"For a table halfway between two others, the {name} are exactly halfway, too. That's what happens without a nonlinearity between the two `Linear` layers.",
        )
    expect(
        not agree(values, scores.mean(axis=1), 1e-3, 1e-6),
        "The value of each table is the mean of its scores, so one network computes both. The values need their own network.",
    )
    shuffled, joined = got["shuffled"], got["joined"]
    kept, both = scores[:, order], np.concatenate([scores, scores[::-1]], axis=1)
    expect_close(shuffled["scores"], kept, "The nodes came in another order, and the scores didn't follow.", atol=1e-4)
    expect_close(shuffled["values"], values, "The nodes came in another order, and the value changed.", atol=1e-4)
    expect_close(
        joined["scores"], both, "Two tables were joined into one, and their nodes didn't keep their scores.", atol=1e-4
    )
    expect_close(
        joined["values"],
        _mean_of_pairs(values),
        "Two tables were joined into one, and the value isn't the mean of their values. Apply the network to each node, and then take the mean over the nodes.",
        rtol=1e-3,
        atol=1e-4,
    )


def _mean_of_pairs(answers: np.ndarray) -> np.ndarray:
    return (answers + answers[::-1]) / 2


@exercise(
    points=2,
    minutes=15,
    hints=[
        "`episode.is_terminated` and `episode.is_truncated` tell how the episode ended.",
        "`episode` may be only the last chunk. The `prev_episode_chunks` list contains the chunks before it, and all of them have `get_actions()`.",
        'Without `reduce=`, RLlib keeps a moving average in which a new value counts for 1%. Request the mean: `log_value(name, value, reduce="mean")`.',
    ],
    spare=['        metrics_logger.log_value("arrived", float(episode.is_done), reduce="mean")'],
)
def Diary(answer: Answer, rng: Generator) -> None:  # noqa: N802
    """Read all chunks of the episode, and request the mean of what was logged since the last report."""
    # Long: a real EnvRunner collects recorded episodes in chunks, and what it should report is computed beforehand.
    ends = rng.permutation(["terminated", "truncated"]).tolist()
    lengths = [9 + int(rng.integers(3)), 4, 5, 8]  # the first comes in three chunks
    tape = _tape(rng, np.zeros(1), np.ones(1), lengths, [ends[0], ends[1], ends[0], "terminated and truncated"])
    for number, episode in enumerate(tape["episodes"]):
        wish = (rng.random((len(episode["rows"]), 1)) < 0.5).astype(np.float32)
        wish[:3] = [[0.0], [0.0], [float(number % 2)]]  # no two halves alike
        episode["rows"] = wish
    fragments = [4, 4, sum(lengths[:3]) - 8 + 2, lengths[3] - 2]
    got = answer.probe(given.keep_diary, tape, fragments)
    wanted = _reports(tape["episodes"], fragments)
    turns, reports = len(fragments), len(got)
    expect(reports == turns, f"The EnvRunner reported {reports} times after it sampled {turns} times.")
    for number, (report, want, steps) in enumerate(zip(got, wanted, fragments, strict=True), 1):
        ended = "; ".join(f"{end}, {back} steps back, chunks: {chunks}" for end, back, chunks in want)
        with answer.case(f"sample {number} of the EnvRunner, {steps} steps; episodes that ended: {ended or 'none'}"):
            _judge_report(report, want)


def _reports(episodes: list[dict], fragments: list[int]) -> list[list[tuple[str, int, int]]]:
    """Return for each fragment the episodes that ended in it: how, with how many actions 0, in how many chunks."""
    borders, moment = np.cumsum(fragments), 0
    reports: list[list[tuple[str, int, int]]] = [[] for _ in fragments]
    for episode in episodes:
        steps = len(episode["rewards"])
        begin, end = (int(np.searchsorted(borders, step)) for step in (moment + 1, moment + steps))
        moment += steps
        reports[end].append((episode["end"], int(np.sum(episode["rows"][:steps] == 0)), end - begin + 1))
    return reports


def _judge_report(got: dict[str, float], want: list) -> None:
    if not want:
        quiet = all(value != value for value in got.values())  # nothing, or not a number
        expect(quiet, f"No episode ended, and you logged {got}. Log only in `on_episode_end`.")
        return
    means = {
        "arrived": float(np.mean(["terminated" in end for end, _, _ in want])),
        "steps_back": float(np.mean([back for _, back, _ in want])),
    }
    for name, mean in means.items():
        expect(name in got, f'You logged nothing as "{name}".')
        said = got[name]
        expect_close(
            said,
            mean,
            f'The EnvRunner reported {said:.4g} for "{name}" (expected: {mean:.4g}, the mean over the episodes that ended in this sample).',
            atol=1e-6,
        )


@exercise(
    points=3,
    minutes=10,
    hints=[
        "`step` needs the potential of the state in which it started. Keep that potential in an attribute, in `reset` and in `step`.",
        "What does the formula say about the last step of an episode that *terminated*, and of one that was *truncated*?",
        "The new reward is `reward + self.gamma * after - self.before`, and then `after` becomes `before`.",
    ],
)
def Shaped(answer: Answer, rng: Generator) -> None:  # noqa: N802
    """Add the discounted change in potential, so that a detour earns nothing."""
    # Long: five episodes that end in different ways, and a `reset` in the middle of one.
    gamma, weights = float(rng.uniform(0.6, 0.9)), rng.uniform(1, 4, size=2).round(2).tolist()
    lengths = [6, 3, 4, 3, 2]
    ends = ["terminated", "terminated", "truncated", "terminated", "terminated and truncated"]
    tape = _tape(rng, np.ones(2), 5 * np.ones(2), lengths, ends)
    left = 3  # steps of the first episode
    seeds = rng.choice(1000, size=len(lengths), replace=False).tolist()
    got = answer.probe(given.play_shaped, tape, weights, gamma, left, seeds)
    starts = [[episode["rows"][0], {"step": 0}] for episode in tape["episodes"]]
    expect_close(
        got["starts"],
        starts,
        "`reset` must return what the environment's own `reset` returns: the observation and the info.",
    )
    counts, planned = [len(steps) for steps in got["episodes"]], [left, *lengths[1:]]
    expect_equal(counts, planned, f"The episodes had {counts} steps, not {planned}.")
    for number, (episode, steps) in enumerate(zip(tape["episodes"], got["episodes"], strict=True)):
        for step, seen in enumerate(steps, 1):
            before, after = (float(np.dot(weights, row)) for row in episode["rows"][step - 1 : step + 1])
            where = _where(episode, step, first_after_leaving=number == 1 and step == 1)
            with answer.case(f"gamma {gamma:.3f}; {where}: potential {before:.3f} before, {after:.3f} after"):
                _judge_step(seen, episode, step, [before, after], gamma)
    for seed, heard in zip_longest(seeds, got["heard"]):
        want = {"seed": seed, "options": {"lamp": seed}}
        expect_equal(
            heard, want, f"`reset` was called with {want}, and the environment inside received {heard}. Pass both on."
        )


def _where(episode: dict, step: int, first_after_leaving: bool) -> str:
    if step == len(episode["rewards"]):
        return f"the last step of an episode, {episode['end']}"
    if first_after_leaving:
        return "the first step after a `reset` in the middle of an episode"
    return "a step in the middle of an episode"


def _judge_step(got: given.Step, episode: dict, step: int, potentials: list[float], gamma: float) -> None:
    obs, reward, terminated, truncated, info = got
    over = step == len(episode["rewards"])
    ends = [over and name in episode["end"] for name in ("terminated", "truncated")]
    expect_equal(
        [terminated, truncated], ends, "The wrapper changed `terminated` or `truncated`. Only the reward may change."
    )
    expect_close(obs, episode["rows"][step], "The wrapper changed the observation. Only the reward may change.")
    expect_equal(info, {"step": step}, "The wrapper changed `info`. Only the reward may change.")
    raw, (before, after) = episode["rewards"][step - 1], potentials
    want = raw + gamma * (0.0 if ends[0] else after) - before
    expect_close(
        reward,
        want,
        f"The reward was {raw:.3f}, and your wrapper returned {reward:.3f} (expected: {want:.3f}).",
        atol=1e-4,
    )


question(
    "only_the_batch",
    """
    A connector changes the batch that goes to the module, but it doesn't write into the episode. What happens in training?

    a) Nothing bad, because the module receives the right numbers.
        It does, but RLlib throws that batch away after the action. The learner builds its own batch from the episodes.
    *b) The learner trains on different numbers from those the module acted on.
        Right, and you get no error. PPO's ratio then compares the probabilities of an action for two different observations.
    c) RLlib applies the connector again on the learner's side.
        The env-to-module pipeline runs only in the EnvRunners. The learner has a pipeline of its own.
    """,
)

question(
    "what_a_module_knows",
    """
    `ScoreEach` was trained with twelve nodes. Why can it be used with forty?

    a) PyTorch pads what is missing with zeros.
        PyTorch doesn't pad anything: a layer with 36 inputs raises an error for 120.
    *b) Its weights apply to the features of a single node, and a node still has three.
        Right. The number of nodes is only the length of a dimension, and no weight depends on it.
    c) RLlib rebuilds it for the larger table.
        RLlib hasn't rebuilt or retrained anything. It's the same object.
    """,
)

question(
    "a_number_without_reduce",
    """
    A callback logs `metrics_logger.log_value("arrived", ...)` without `reduce=`. On one EnvRunner, 20 episodes fail and the next 20 arrive. Roughly what does the EnvRunner report then?

    a) 1, the last value.
        The last value doesn't overwrite the others, because values are averaged.
    b) 0.5, the mean of all values.
        That's what `reduce="mean"` would report. By default, each new value counts for 1%.
    *c) About 0.2, a moving average.
        Right. Each new value counts for 1%, and 1 − 0.99²⁰ is about 0.18. To find out what has happened since the last report, request the mean.
    """,
)

question(
    "return_and_arrivals",
    """
    The return of an environment with a shaped reward rises from iteration to iteration. What do you know?

    a) The agent gets better at its task.
        The return with the progress bonus looked like that, too, although hardly any episode reached the exit.
    *b) It collects more of the reward that you wrote, and nothing else.
        Right. Measure what you want separately, in a callback.
    c) Nothing, because shaped returns are noise.
        They are what the agent is trained on, so they show how well the training works.
    """,
)
