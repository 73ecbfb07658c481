"""The judge's side of chapter 12."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy import stats

from coursekit.given import ch12_env_runners as given
from coursekit.judging.answer import Answer
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import Wrong, expect, expect_close, expect_equal, expect_type

SETTINGS: dict[str, list] = {  # two values of each, neither of them RLlib's default
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
BATCH = "_train_batch_size_per_learner"  # its name in `to_dict`
COMPARED = ("num_env_runners", "num_envs_per_env_runner")
SAME = ("algorithm", "env", "hidden layers", "train_batch_size_per_learner")
AGREE = ("gamma", "clip_param", "num_envs_per_env_runner")  # of PPO and DQN
CLOCK = 0.003  # seconds by which two clocks of one machine may differ


@exercise(
    points=3,
    minutes=10,
    hints=[
        "`config.to_dict()` turns a config into a dict, which contains both what was set and what has its default.",
        "Go through the names, compare the two values of each, and leave out the names in `compared`.",
        "`{name for name in one if one[name] != other[name]}` finds most of them. What does it do with a name that only one of the two dicts has, and with a name in `compared`?",
    ],
)
def unfair(answer: Answer, rng: Generator) -> None:
    """Compare the settings, not the code that made them, because a setting that the code leaves out has a default."""
    knobs = [*COMPARED]
    for differing, compared in ((2, knobs), (4, knobs), (0, knobs), (3, []), (2, ["lr", "num_epochs"])):
        others = [BATCH, *rng.permutation([name for name in SETTINGS if name not in compared]).tolist()][:differing]
        changed = [*others, *compared]
        left, right = ({name: (SETTINGS | {BATCH: [500, 2000]})[name][side] for name in changed} for side in (0, 1))
        for one, other in ((left, right), (right, {})):  # the second config leaves all at its default
            with answer.case(
                f"PPO configs with {one} and {other} and otherwise the same settings, compared={compared}"
            ):
                got = answer.probe(given.two_configs, one, other, compared)
                _judge_names(got, set(others), others.__contains__, compared)
    must = {"num_epochs", "vf_clip_param", "n_step", "training_intensity"}  # the last two only DQN has, and one is None
    for first in ("PPO", "DQN"):
        with answer.case(f"the default configs of PPO and DQN, {first}'s first, compared=['clip_param']"):
            got = answer.probe(given.two_algorithms, first, ["clip_param"])
            _judge_names(got, must, lambda name: name not in AGREE, ["clip_param"])


def _judge_names(got: Any, must: set[str], may: Callable[[str], bool], compared: list[str]) -> None:
    if not isinstance(got, list | tuple | set | frozenset | dict):
        raise Wrong(f"`unfair` returned {got!r:.80}, but it should return a set of names.")
    names: set[str] = set(expect_type(list(got), list[str], "names"))
    missed, extra = sorted(must - names), sorted(name for name in names if not may(name))
    listed = sorted(names.intersection(compared))
    expect(not missed, f"The two configs also differ in {missed}, which your answer doesn't contain.")
    expect(
        not listed,
        f"Your answer contains {listed}. `compared` lists these, and `unfair` should return only other settings.",
    )
    expect(
        not extra,
        f"Your answer contains {extra}, but according to their `to_dict()`, the two configs don't differ in these.",
    )


@exercise(
    points=1,
    minutes=5,
    hints=[
        "Which three arguments does `lake_config` take, and which of them may differ between the two configs?",
        "Return a tuple of two configs, without building them: `lake_config(batch, runners=..., envs=...)` for `many`, and another one for `single`.",
    ],
)
def fair_pair(answer: Answer, rng: Generator) -> None:
    """Write what may differ as arguments, and everything else only once."""
    sizes = {"many": [2, 2], "single": [1, 1]}
    for batch in rng.choice([500, 1000, 1500, 2000, 3000], size=2, replace=False).tolist():
        with answer.case(f"batch={batch}"):
            got = answer.probe(given.pair_of, batch, [*COMPARED, *SAME])
            kinds = [config["returned"] for config in got["configs"]]
            expect(kinds == ["a config", "a config"], f"`fair_pair` must return two configs, but it returned {kinds}.")
            counts = [[config[each] for each in COMPARED] for config in got["configs"]]
            expect(
                counts != [sizes["single"], sizes["many"]],
                "The first config that `fair_pair` returned has one EnvRunner with one environment, and the second has two with two each. They belong in the other order.",
            )
            for (name, size), config in zip(sizes.items(), got["configs"], strict=True):
                found, rest = [config[each] for each in COMPARED], [config[each] for each in SAME]
                wanted = ["PPO", "FrozenLake-v1", [32, 32], batch]
                expect(
                    found == size,
                    f"The config of `{name}` has {found} (EnvRunners, environments in each), but it should have {size}.",
                )
                expect(
                    rest == wanted,
                    f"The config of `{name}` has {rest} (algorithm, environment, hidden layers, batch size), but it should have {wanted}.",
                )
            extra = sorted({*got["differing"]} - {*COMPARED})
            expect(not extra, f"The two configs also differ in {extra}.")


@exercise(
    points=3,
    minutes=15,
    needs={"CPU": 4},
    alone=True,
    hints=[
        "In one round, you time one iteration of `many` and then one of `single`. How many rounds are there?",
        "Before the first round, each algorithm trains once, and you don't measure how long that takes.",
        "For each iteration: `start = time.perf_counter()`, one `train()`, then `time.perf_counter() - start`, and nothing else in between.",
    ],
)
def time_training(answer: Answer, rng: Generator) -> None:
    """Alternate, so that a slow moment of the machine affects both, and leave out the first iteration, which also sets things up."""
    # Long: each time is compared with what the algorithm's own clock allows, and real algorithms are timed as well.
    iterations = int(rng.integers(3, 6))
    sleeps = {name: _sleeps(rng, iterations + 1) for name in ("many", "single")}
    with answer.case(f"two algorithms that sleep instead of training, iterations={iterations}"):
        seen = answer.probe(given.time_sleeps, sleeps, iterations)
        _judge_order(seen["calls"], iterations)
        for name in ("many", "single"):
            _judge_calls(name, seen["calls"], sleeps[name])
            _judge_times(name, seen, iterations)
    with answer.case("two real algorithms, iterations=5"):
        _judge_real(answer.probe(given.time_real, {"many": [2, 2], "single": [1, 1]}, 5))


def _judge_real(ran: given.Ran) -> None:
    """Check five timed iterations of real algorithms, with the EnvRunners and environments of the comparison."""
    held, counts = ran["environments"], ran["iterations"]
    expect_equal(held, [[2, 2], [1]], f"Afterward, the EnvRunners had {held} environments, not [[2, 2], [1]].")
    expect_equal(
        counts,
        [6, 6],
        f"With the warm-up, each algorithm should train for 6 iterations, but yours trained for {counts}.",
    )
    times = [ran["times"].get(name, []) for name in ("many", "single")]
    expect(
        [len(seconds) for seconds in times] == [5, 5],
        f"Each list should hold the seconds of 5 iterations, but you returned {ran['times']}.",
    )
    spent = sum(sum(seconds) for seconds in times)
    expect(
        0 < spent <= ran["seconds"],
        f"Your times add up to {spent:.2f} s, but your function took {ran['seconds']:.2f} s in all.",
    )


def _sleeps(rng: Generator, count: int) -> list[float]:
    """Return the seconds of `count` iterations, no two of them equal."""
    return ((15 * rng.permutation(count) + rng.integers(10, 20, size=count)) / 1000).tolist()


def _judge_order(calls: list[tuple[str, float, float]], iterations: int) -> None:
    """Check that each algorithm trained as often as asked and once more, alternating with the other, and wasn't stopped."""
    names = [name for name, _, _ in calls]
    order = " ".join(names)
    stopped = [name for name in names if name.endswith(".stop")]
    expect(
        not stopped, "`time_training` stopped an algorithm that it didn't build. Leave that to the code that built it."
    )
    due = iterations + 1
    for name in ("many", "single"):
        count = names.count(name)
        expect(
            count == due,
            f"With iterations={iterations} and one warm-up, `{name}.train()` has to be called {due} times, but it was called {count} times.",
        )
    rounds = [sorted(names[i : i + 2]) for i in range(0, len(names), 2)]
    expect(
        all(pair == ["many", "single"] for pair in rounds),
        f"The two don't alternate: your calls came in the order {order}.",
    )
    apart = all(end <= begin for (_, _, end), (_, begin, _) in pairwise(calls))
    expect(
        apart,
        "Two iterations ran at the same time. Start one when the other has ended, so that they don't share the cores.",
    )


def _judge_calls(name: str, calls: list[tuple[str, float, float]], sleeps: list[float]) -> None:
    """Check that the algorithm's iterations took at least as long as its sleeps: on a busy machine longer, never shorter."""
    took = [end - begin for caller, begin, end in calls if caller == name]
    slept = all(seconds >= sleep - CLOCK for seconds, sleep in zip(took, sleeps, strict=True))
    expect(
        slept,
        f"The iterations of `{name}` took less time than its `train` method needs. Call that method, and don't change it.",
    )


def _judge_times(name: str, seen: given.Timed, iterations: int) -> None:
    """Check each returned time: not less than the algorithm took, not more than from the call before to the call after."""
    times, calls = seen["times"], seen["calls"]
    expect(
        isinstance(times, dict) and name in times,
        f"The result must be a dict with the key {name!r}, but it is {times}.",
    )
    got = times[name]
    is_list = isinstance(got, list | tuple | np.ndarray)
    expect(is_list, f"Under {name!r}, return a list with the seconds of each iteration, not {got!r}.")
    told, came = expect_type(got, list[float], name), len(got)
    expect(came == iterations, f"With iterations={iterations}, you returned {came} numbers for `{name}`.")
    ends, begins = [seen["begin"], *(end for _, _, end in calls)], [*(begin for _, begin, _ in calls), seen["end"]]
    timed = [index for index, call in enumerate(calls) if call[0] == name][1:]
    for number, (seconds, index) in enumerate(zip(told, timed, strict=True), 1):
        took, room = calls[index][2] - calls[index][1], begins[index + 1] - ends[index]
        expect(
            took - CLOCK <= seconds <= room + CLOCK,
            f"Iteration {number} of `{name}` after the warm-up took {took:.3f} s by the check's clock, but your time is {seconds:.3f} s.",
        )


@exercise(
    points=3,
    minutes=20,
    hints=[
        "Start with one number per pair: `np.log(single) - np.log(many)`, as arrays. Everything else follows from these.",
        "You need their mean, and their standard deviation with `ddof=1`. How do you get the standard error of the mean of n numbers from it?",
        "In logarithms, half of the interval's width is `stats.t.ppf(0.975, n - 1) * s / np.sqrt(n)`. Take `np.exp` of the mean and of both ends.",
    ],
    spare=["    half = 1.96 * differences.std(ddof=1) / np.sqrt(n)"],
)
def speedup(answer: Answer, rng: Generator) -> None:
    """Compare within pairs: what slowed one of a pair probably slowed the other, too, and then it cancels in their ratio."""
    # Long: each usual mistake has its own message, so the check computes what comes out of it.
    for usual in (1.6, 0.8):
        pairs = int(rng.choice([5, 6, 8, 9]))  # with 7, the factor of a 90% interval is nearly 1.96
        slowness = np.exp(rng.normal(0, 0.6, size=pairs))  # the same for both times of a pair
        many, single = (slowness * scale * rng.uniform(0.9, 1.1, size=pairs) for scale in (1.0, usual))
        got = answer({"many": many.tolist(), "single": single.tolist()})
        expect(
            isinstance(got, list | tuple | np.ndarray) and len(got) == 3,
            f"Return three numbers, the ratio and both ends of its interval, not {got!r}.",
        )
        ratio, low, high = expect_type(got, tuple[float, float, float], "three numbers")
        each = single / many
        expect_close(
            ratio,
            np.exp(np.log(each).mean()),
            f"Your ratio is {ratio:.4g}. Take the mean of the logarithms of the pairs' ratios, and then `np.exp`.",
            mistakes={
                "That's the ratio of the totals, in which a slow pair counts more than a fast one.": single.sum()
                / many.sum(),
                "That's the mean of the ratios, in which twice as fast and half as fast don't cancel. Use logarithms.": each.mean(),
                "That's the reciprocal: a ratio above 1 has to mean that `many` is faster.": np.exp(
                    -np.log(each).mean()
                ),
                "That's still a logarithm. `np.exp` turns it back into a ratio.": np.log(each).mean(),
            },
        )
        _judge_interval(low, high, each)


def _judge_interval(low: float, high: float, ratios: np.ndarray) -> None:
    """Check both ends, to less than what the next degree of freedom would change."""
    few = len(ratios) - 1
    expect_close(
        [low, high],
        _t_interval(ratios),
        f"Your interval goes from {low:.4g} to {high:.4g}. In logarithms, half of its width is t * s / sqrt(n), where s is the standard deviation of the pairs' differences, with n - 1 in its denominator.",
        atol=5e-4,
        mistakes={
            "Those are the right ends in the wrong order. The lower one comes first.": _t_interval(ratios)[::-1],
            "The ends are still logarithms. `np.exp` turns them back into ratios.": np.log(
                _t_interval(ratios)
            ).tolist(),
            "With so few pairs, 1.96 is too small a factor. Use `stats.t.ppf(0.975, n - 1)`.": _t_interval(
                ratios, 1.96
            ),
            "Your factor is that of a 90% interval. A 95% interval leaves out 2.5% at *each* end.": _t_interval(
                ratios, stats.t.ppf(0.95, few)
            ),
            "Your factor is that of n degrees of freedom, but here t has n - 1 of them.": _t_interval(
                ratios, stats.t.ppf(0.975, few + 1)
            ),
            "Your standard deviation divides by n. With `ddof=1`, NumPy divides by n - 1.": _t_interval(ratios, ddof=0),
            "That's how widely single pairs scatter. The mean of n pairs scatters less: divide by the square root of n.": _t_interval(
                ratios, root=False
            ),
        },
    )


def _t_interval(ratios: np.ndarray, factor: float | None = None, ddof: int = 1, root: bool = True) -> list[float]:
    """Return both ends of the 95% t interval; the options make the usual mistakes."""
    logs = np.log(ratios)
    factor = factor or float(stats.t.ppf(0.975, len(logs) - 1))
    half = factor * logs.std(ddof=ddof) / (np.sqrt(len(logs)) if root else 1)
    return [float(np.exp(logs.mean() - half)), float(np.exp(logs.mean() + half))]


@exercise(
    points=2,
    minutes=10,
    hints=[
        "First write down the seconds of an iteration with n EnvRunners. Which of the two parts do you divide by n?",
        "Start at n = 1 and go up. What fraction of the iteration with n EnvRunners does one more save?",
        "Stop when that fraction is less than `worth`, or when n has reached `most`.",
    ],
    spare=["        if now - then < worth:"],
)
def choose_runners(answer: Answer, rng: Generator) -> None:
    """The EnvRunners divide only the sampling, so each additional one saves less."""
    some, more = rng.uniform(0.5, 5.0, size=(2, 4)).tolist()
    for sampling, learning in zip(some, more, strict=True):
        _judge_choice(answer, sampling, learning, most=64, worth=0.05)
        _judge_choice(answer, sampling, learning, most=64, worth=0.2)
    _judge_choice(answer, sampling=5 + some[0], learning=0.01, most=3, worth=0.05)  # fewer cores than are worth using
    _judge_choice(answer, sampling=0.01, learning=more[0], most=16, worth=0.05)
    _judge_choice(answer, sampling=some[1], learning=0.0, most=64, worth=0.045)  # 1 / (n + 1) is never 4.5%
    unit = 2.0 ** int(rng.integers(-3, 4))  # with powers of 2, the third saves exactly a quarter: 4 units become 3
    _judge_choice(answer, sampling=6 * unit, learning=unit, most=16, worth=0.25)


def _judge_choice(answer: Answer, sampling: float, learning: float, most: int, worth: float) -> None:
    seconds = [sampling / n + learning for n in range(1, most + 2)]
    saved = [1 - after / before for before, after in zip(seconds, seconds[1:], strict=False)]
    best = next((n for n, share in enumerate(saved, 1) if share < worth or n == most))
    got, percent = answer(sampling, learning, most, worth), 100 * worth
    expect(
        isinstance(got, int) and 1 <= got <= most,
        f"You returned {got!r}. The number of EnvRunners must be of type `int` and lie between 1 and {most}.",
    )
    more = 100 * saved[got - 1]
    expect(
        got <= best,
        f"You chose {got}, but the last of these EnvRunners saves less than {percent:g}% of the iteration without it.",
    )
    expect(
        got >= best,
        f"You chose {got}, but one more EnvRunner would save {more:.1f}% of the iteration, which isn't less than {percent:g}%.",
    )


question(
    "what_is_ray",
    """
    What is Ray?

    a) A library of reinforcement learning algorithms.
        That's RLlib, which is one part of Ray. Chapters 0 to 6 used Ray without any reinforcement learning.
    *b) A general-purpose framework for distributed computing, which includes RLlib.
        Right: it runs tasks and actors for any program, and RLlib, Tune, Train, Data, and Serve are built on it.
    c) The company that develops RLlib.
        The company is called Anyscale. Ray is open-source software, which anybody can run without the company.
    d) A subpackage of RLlib that starts processes.
        It's the other way around: RLlib is a package of Ray, `ray.rllib`, and Ray works without it.
    """,
)

question(
    "how_rllib_uses_ray",
    """
    What does RLlib mainly use Ray for?

    *a) To run rollout workers (EnvRunners), which are actors that collect experience in parallel.
        Right: collecting experience is easy to divide. RLlib can also run several learners as actors.
    b) To split the neural network across machines, a few layers on each.
        An EnvRunner has a copy of the whole policy network, and a learner also has the critic. Such networks are small.
    c) To train a separate neural network on each node.
        All EnvRunners get the weights of the same policy, on whichever node they run. Several learners have copies of one network, too, and average their gradients.
    d) To run each environment step as a task.
        A step of a simple environment takes microseconds, and a task takes longer than that (Chapter 1). An EnvRunner samples many steps per call.
    """,
)

question(
    "twice_the_runners",
    """
    With one EnvRunner, an iteration spends 2 s on sampling and 2 s on learning. You use two EnvRunners, and there are enough cores. How long does the iteration take now?

    a) About 2 s, because twice as many EnvRunners take half the time.
        The learner still needs its 2 s, because EnvRunners only sample.
    *b) About 3 s, because only the sampling takes half the time.
        Right: 2 / 2 + 2. However many EnvRunners you use, the iteration takes more than 2 s.
    c) About 4 s, because the learner has to wait for both EnvRunners.
        It waits for both, but they sample at the same time, and each samples half of the batch.
    """,
)

question(
    "why_in_turn",
    """
    Why do you time the two algorithms alternately, and not five iterations of one and then five of the other?

    *a) So that a slow minute of the machine doesn't affect only one of them.
        Right: both times of a pair come from nearly the same conditions. That's also why you compute the interval from pairs.
    b) So that both learn from the same experience.
        Each algorithm has its own environments, weights, and random numbers, and they never exchange anything.
    c) So that the two run at the same time, which is faster.
        They must not, because on shared cores, each would slow down the other. While one trains, the other waits.
    """,
)
