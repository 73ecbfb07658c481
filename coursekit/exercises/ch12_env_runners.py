"""The judge's side of chapter 12."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy import stats

from coursekit.given import ch12_env_runners as given
from coursekit.judging.answer import Answer
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import Wrong, expect, expect_close, expect_equal, expect_type

SETTINGS: dict[str, list] = {  # two values of each, neither of them what RLlib takes by default
    "num_env_runners": [1, 3],
    "num_envs_per_env_runner": [2, 4],
    "lr": [0.001, 0.003],
    "gamma": [0.9, 0.95],
    "num_epochs": [6, 10],
    "minibatch_size": [64, 256],
    "vf_clip_param": [1.0, 5.0],
    "grad_clip": [1.0, 5.0],
    "env_config": [{"is_slippery": False}, {"map_name": "8x8"}],
    "seed": [1, 2],
}
BATCH = "_train_batch_size_per_learner"  # the name under which `to_dict` has it
AGREE = ("gamma", "clip_param", BATCH)  # of PPO and APPO
CLOCK = 0.003  # seconds by which two clocks of one machine may differ


@exercise(
    points=3,
    minutes=10,
    hints=[
        "A config as a dict: `config.to_dict()`. It holds what was set and what is left at its default.",
        "Go through the names, compare the two values of each, and leave out the names in `compared`.",
        "`{name for name in one if one[name] != other[name]}` finds most of them. What does it do with a name that only one of the two has, and with one in `compared`?",
    ],
)
def unfair(answer: Answer, rng: Generator) -> None:
    """Compare what the configs say, not how they were written: a setting that is left out has a default."""
    knobs = ["num_env_runners", "num_envs_per_env_runner"]
    for differing, compared in ((2, knobs), (4, knobs), (0, knobs), (3, []), (2, ["lr", "num_epochs"])):
        others = [BATCH, *rng.permutation([name for name in SETTINGS if name not in compared]).tolist()][:differing]
        changed = [*others, *compared]
        left, right = ({name: (SETTINGS | {BATCH: [500, 2000]})[name][side] for name in changed} for side in (0, 1))
        for one, other in ((left, right), (right, {})):  # the second config leaves all at its default
            with answer.case(f"configs with {one} and {other}, all else alike, compared={compared}"):
                got = answer.probe(given.two_configs, one, other, compared)
                _judge_names(got, set(others), others.__contains__)
    for first in ("PPO", "APPO"):  # `vf_clip_param` is PPO's alone, `broadcast_interval` is APPO's
        with answer.case(f"the defaults of PPO and APPO, {first}'s first, compared=['clip_param']"):
            got = answer.probe(given.two_algorithms, first, ["clip_param"])
            _judge_names(got, {"num_epochs", "vf_clip_param", "broadcast_interval"}, lambda name: name not in AGREE)


def _judge_names(got: Any, must: set[str], may: Callable[[str], bool]) -> None:
    if not isinstance(got, list | tuple | set | frozenset | dict):
        raise Wrong(f"`unfair` returned {got!r:.80}, not a set of names.")
    names: set[str] = set(expect_type(list(got), list[str], "names"))
    missed, extra = sorted(must - names), sorted(name for name in names if not may(name))
    expect(not missed, f"The two configs differ in {missed}, which your answer does not name.")
    expect(not extra, f"Your answer names {extra}: there the two agree, or may differ.")


@exercise(
    points=3,
    minutes=15,
    needs={"CPU": 4},
    alone=True,
    hints=[
        "One round is: time one iteration of `many`, then one of `single`. How many rounds are there?",
        "Before the first round each algorithm trains once, off the clock.",
        "`start = time.perf_counter()`, one `train()`, then `time.perf_counter() - start`: nothing else in between.",
    ],
)
def time_training(answer: Answer, rng: Generator) -> None:
    """Take turns, so that a slow moment of the machine hits both; and leave out the iteration that prepares things."""
    # Long: each time is compared with what the algorithm's own clock allows, and real algorithms are timed as well.
    iterations = int(rng.integers(3, 6))
    naps = {name: _naps(rng, iterations + 1) for name in ("many", "single")}
    with answer.case(f"two algorithms that nap where others train, iterations={iterations}"):
        seen = answer.probe(given.time_naps, naps, iterations)
        _judge_order([name for name, _, _ in seen["calls"]], iterations)
        for name in ("many", "single"):
            _judge_calls(name, seen["calls"], naps[name])
            _judge_times(name, seen, iterations)
    with answer.case("two real algorithms, iterations=5"):
        _judge_real(answer.probe(given.time_real, {"many": [2, 2], "single": [1, 1]}, 5))


def _judge_real(ran: given.Ran) -> None:
    """Check five timed iterations of real algorithms, with the runners and environments of the comparison."""
    held, counts = ran["environments"], ran["iterations"]
    expect_equal(held, [[2, 2], [1]], f"The EnvRunners held {held} environments afterwards, not [[2, 2], [1]].")
    expect_equal(counts, [6, 6], f"With the warm-up it is 6 iterations each; they count {counts}.")
    times = [ran["times"].get(name, []) for name in ("many", "single")]
    expect([len(seconds) for seconds in times] == [5, 5], f"Your times are {ran['times']}.")
    spent = sum(sum(seconds) for seconds in times)
    expect(0 < spent <= ran["seconds"], f"Your times add up to {spent:.2f} s of {ran['seconds']:.2f} s in all.")


def _naps(rng: Generator, count: int) -> list[float]:
    """Return the seconds of `count` iterations, no two alike."""
    return ((15 * rng.permutation(count) + rng.integers(10, 20, size=count)) / 1000).tolist()


def _judge_order(names: list[str], iterations: int) -> None:
    """Check that each algorithm trained as often as asked and once more, in turn with the other, and still runs."""
    order = " ".join(names)
    stopped = [name for name in names if name.endswith(".stop")]
    expect(
        not stopped, "`time_training` stopped an algorithm that it did not build. Leave that to the code that built it."
    )
    for name in ("many", "single"):
        count = names.count(name)
        expect(
            count == iterations + 1,
            f"With iterations={iterations}, `{name}.train()` was called {count} times. There is one warm-up besides.",
        )
    rounds = [sorted(names[i : i + 2]) for i in range(0, len(names), 2)]
    expect(all(pair == ["many", "single"] for pair in rounds), f"Not in turn: the calls came in the order {order}.")


def _judge_calls(name: str, calls: list[tuple[str, float, float]], naps: list[float]) -> None:
    """Check that the algorithm's iterations took at least as long as its naps: on a busy machine longer, never shorter."""
    took = [end - begin for caller, begin, end in calls if caller == name]
    slept = all(seconds >= nap - CLOCK for seconds, nap in zip(took, naps, strict=True))
    expect(slept, f"`{name}` was given longer iterations than it had: did its own `train` really run?")


def _judge_times(name: str, seen: given.Timed, iterations: int) -> None:
    """Check each returned time: not less than the algorithm took, not more than from the call before to the call after."""
    times, calls = seen["times"], seen["calls"]
    expect(isinstance(times, dict) and name in times, f"The result has no key {name!r}: it is {times}.")
    got = times[name]
    is_list = isinstance(got, list | tuple | np.ndarray)
    expect(is_list, f"{name!r} must be a list of seconds, one for each iteration, not {got!r}.")
    told, came = expect_type(got, list[float], name), len(got)
    expect(came == iterations, f"There are {came} times of `{name}` for iterations={iterations}.")
    ends, begins = [seen["begin"], *(end for _, _, end in calls)], [*(begin for _, begin, _ in calls), seen["end"]]
    timed = [index for index, call in enumerate(calls) if call[0] == name][1:]
    for number, (seconds, index) in enumerate(zip(told, timed, strict=True), 1):
        took, room = calls[index][2] - calls[index][1], begins[index + 1] - ends[index]
        expect(
            took - CLOCK <= seconds <= room + CLOCK,
            f"Iteration {number} of `{name}` took {took:.3f} s by its own clock (warm-up not counted); you say {seconds:.3f} s.",
        )


@exercise(
    points=3,
    minutes=20,
    hints=[
        "One number for each pair first: `np.log(single) - np.log(many)`, as arrays. Everything else comes from these.",
        "Their mean, and their standard deviation with `ddof=1`. How does the deviation of the mean of n numbers follow from it?",
        "Half the width is `stats.t.ppf(0.975, n - 1) * s / np.sqrt(n)`. Take `np.exp` of the mean and of both ends.",
    ],
)
def speedup(answer: Answer, rng: Generator) -> None:
    """Judge pairs, not times: what slowed one of a pair probably slowed the other, and their ratio does not notice."""
    # Long: each usual mistake has a message of its own, for which the check makes it, too.
    for usual in (1.6, 0.8):
        pairs = int(rng.integers(5, 10))
        moods = np.exp(rng.normal(0, 0.6, size=pairs))  # slow moments of the machine, which a pair shares
        many, single = (moods * scale * rng.uniform(0.9, 1.1, size=pairs) for scale in (1.0, usual))
        got = answer({"many": many.tolist(), "single": single.tolist()})
        expect(
            isinstance(got, list | tuple | np.ndarray) and len(got) == 3,
            f"Return three numbers, the ratio and both ends of the interval, not {got!r}.",
        )
        ratio, low, high = expect_type(got, tuple[float, float, float], "three numbers")
        each = single / many
        expect_close(
            ratio,
            np.exp(np.log(each).mean()),
            f"Your ratio is {ratio:.4g}. Take the mean of the logarithms of the pairs' ratios, and then `np.exp`.",
            mistakes={
                "That is the ratio of the totals, in which a slow pair counts more than a quick one.": single.sum()
                / many.sum(),
                "That is the mean of the ratios. Twice as fast and half as fast would not cancel: use logarithms.": each.mean(),
                "That is the ratio upside down: more than 1 has to mean that `many` is faster.": np.exp(
                    -np.log(each).mean()
                ),
                "That is still a logarithm: `np.exp` leads back to a ratio.": np.log(each).mean(),
            },
        )
        _judge_interval(low, high, each)


def _judge_interval(low: float, high: float, ratios: np.ndarray) -> None:
    """Check both ends, to less than what the next degree of freedom would change."""
    few = len(ratios) - 1
    expect_close(
        [low, high],
        _t_interval(ratios),
        f"Your interval is {low:.4g} to {high:.4g}. Half its width, in logarithms, is t times s (divided by n - 1) over the root of n.",
        atol=5e-4,
        mistakes={
            "Those are the right ends in the wrong order: the lower one comes first.": _t_interval(ratios)[::-1],
            "Those ends are still logarithms: `np.exp` of each leads back to ratios.": np.log(
                _t_interval(ratios)
            ).tolist(),
            "With so few pairs 1.96 is too small a factor: take `stats.t.ppf(0.975, n - 1)`.": _t_interval(
                ratios, 1.96
            ),
            "That factor is for a 90 % interval: 2.5 % is cut off at *each* end.": _t_interval(
                ratios, stats.t.ppf(0.95, few)
            ),
            "Your factor is that of one pair more: t has n - 1 degrees of freedom.": _t_interval(
                ratios, stats.t.ppf(0.975, few + 1)
            ),
            "Your standard deviation divides by n: NumPy wants `ddof=1`.": _t_interval(ratios, ddof=0),
            "That is where single pairs lie. The mean of n pairs is surer: divide by the root of n.": _t_interval(
                ratios, root=False
            ),
        },
    )


def _t_interval(ratios: np.ndarray, factor: float | None = None, ddof: int = 1, root: bool = True) -> list[float]:
    """Return both ends of the 95 % t interval; the options make the usual mistakes."""
    logs = np.log(ratios)
    factor = factor or float(stats.t.ppf(0.975, len(logs) - 1))
    half = factor * logs.std(ddof=ddof) / (np.sqrt(len(logs)) if root else 1)
    return [float(np.exp(logs.mean() - half)), float(np.exp(logs.mean() + half))]


@exercise(
    points=2,
    minutes=10,
    hints=[
        "Write down the seconds of an iteration with n runners first: which of the two parts is divided by n?",
        "Walk up from n = 1. What share of the iteration does one more runner save?",
        "Stop when that share is below `worth`, or when n has reached `most`.",
    ],
)
def choose_runners(answer: Answer, rng: Generator) -> None:
    """Only sampling is divided among the runners, so each further one saves less."""
    some, more = rng.uniform(0.5, 5.0, size=(2, 4)).tolist()
    for sampling, learning in zip(some, more, strict=True):
        _judge_choice(answer, sampling, learning, most=64, worth=0.05)
        _judge_choice(answer, sampling, learning, most=64, worth=0.2)
    _judge_choice(
        answer, sampling=5 + some[0], learning=0.01, most=3, worth=0.05
    )  # not as many cores as one would like
    _judge_choice(answer, sampling=0.01, learning=more[0], most=16, worth=0.05)
    _judge_choice(answer, sampling=some[1], learning=0.0, most=64, worth=0.045)  # 1 / (n + 1) is never 4.5 %


def _judge_choice(answer: Answer, sampling: float, learning: float, most: int, worth: float) -> None:
    seconds = [sampling / n + learning for n in range(1, most + 2)]
    saved = [1 - after / before for before, after in zip(seconds, seconds[1:], strict=False)]
    best = next((n for n, share in enumerate(saved, 1) if share < worth or n == most))
    got, percent = answer(sampling, learning, most, worth), 100 * worth
    expect(isinstance(got, int) and 1 <= got <= most, f"{got!r} is not a number of runners from 1 to {most}.")
    more = 100 * saved[got - 1]
    expect(
        got <= best,
        f"You chose {got}, but the last of these saves less than {percent:g} % of an iteration with one runner fewer.",
    )
    expect(
        got >= best,
        f"You chose {got}, but one more would still save {more:.1f} % of an iteration with {got}.",
    )


question(
    "what_is_ray",
    """
    What is Ray?

    a) A library of reinforcement learning algorithms.
        That is RLlib, which is one part of Ray. Chapters 0 to 6 used Ray without any learning.
    *b) A general-purpose framework for distributed computing, which includes RLlib.
        Right: tasks, actors and objects for any program; RLlib, Tune, Train, Data and Serve are built on them.
    c) A simulator that runs many environments at once.
        Environments come from Gymnasium, or from you. Ray moves and schedules what you give it.
    d) A faster replacement for PyTorch on several machines.
        The network and its gradients are PyTorch's, even inside RLlib. Ray decides where they run.
    """,
)

question(
    "how_rllib_uses_ray",
    """
    What does RLlib mainly use Ray for?

    *a) For rollout workers (EnvRunners): actors that generate experience side by side.
        Right: collecting experience is the part that splits well. Several learners are possible too.
    b) To split the neural network among machines, a few layers on each.
        Each EnvRunner and each learner has a copy of the whole network; policies are small.
    c) To run each environment step as a task.
        A step takes microseconds, a task costs more (chapter 1). A runner takes hundreds of steps for each call.
    d) To keep all experience in a database.
        PPO throws a batch away after using it. Algorithms with a replay buffer keep one, but that is not the main use.
    """,
)

question(
    "twice_the_runners",
    """
    An iteration spends 2 s on sampling with one runner, and 2 s on learning. You take two runners, on enough cores. The iteration takes about

    a) 2 s: twice the runners, half the time.
        The learner still needs its 2 s: runners do not help it.
    *b) 3 s: the sampling is halved, the learning stays.
        Right: 2 / 2 + 2. However many runners you add, it stays above 2 s.
    c) 4 s: the learner has to wait for both.
        It waits, but both play at the same time, each for half of the batch.
    """,
)

question(
    "why_in_turn",
    """
    Why are the two algorithms timed in turn, and not five iterations of one and then five of the other?

    *a) So that a slow minute of the machine does not hit only one of them.
        Right: both of a pair meet nearly the same machine. That is also why the interval is computed from pairs.
    b) So that both learn from the same experience.
        Each has environments, weights and random numbers of its own; they never exchange anything.
    c) So that the two run at the same time, which is faster.
        They must not: on shared cores each would slow the other. While one trains, the other waits.
    """,
)
