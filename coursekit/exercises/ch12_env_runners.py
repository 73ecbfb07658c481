"""The judge's side of chapter 12."""

from typing import Any

import numpy as np
from numpy.random import Generator

from coursekit.answer import Answer
from coursekit.exercise import exercise, expect, expect_close, expect_equal, quiz
from coursekit.exercises._configs import judge_runners, judge_settings
from coursekit.given import ch12_env_runners as given
from coursekit.given import rllib_configs

WEIGHTS = [[32, 16], [32, 32], [4, 32]]  # 16 fields, two hidden layers of 32, 4 directions
CLOCK = 0.003  # seconds by which two clocks of one machine may differ


@exercise(
    points=2,
    minutes=10,
    hints=[
        "Start from `local_config` above: which of its lines must change, and which stay?",
        "`.env_runners(...)` takes the number of runners and the number of environments *in each*, not in all.",
        "The hidden layers go into `.rl_module(...)`; the size of the batch is the function's argument.",
    ],
)
def many_config(answer: Answer, rng: Generator) -> None:
    """Say both numbers: how many runners, and how many environments each of them holds."""
    # Long: it reads the config, builds it, and counts the processes, environments and weights that are really there.
    _judge_config(answer, rng, runners=2, environments=2)


@exercise(
    points=1,
    minutes=5,
    hints=[
        "Everything but two numbers is as in `many_config`: only then does the comparison say something.",
        "What does PPO take when nobody names a number of runners? Print `PPOConfig().num_env_runners`.",
    ],
)
def single_config(answer: Answer, rng: Generator) -> None:
    """Change two numbers and nothing else, and name both: PPO's own default is two runners."""
    # Long: it reads the config, builds it, and counts the processes, environments and weights that are really there.
    _judge_config(answer, rng, runners=1, environments=1)


def _judge_config(answer: Answer, rng: Generator, runners: int, environments: int) -> None:
    """Read the config first, which costs nothing; then build it, let it train, and count what really ran."""
    batch = int(rng.integers(140, 260))
    wanted = {
        "algorithm": "PPO",
        "env_config": {},
        "num_env_runners": runners,
        "num_envs_per_env_runner": environments,
        "hidden layers": [32, 32],
        "total_train_batch_size": batch,
        "num_epochs": 30,
        "minibatch_size": 128,
    }
    with answer.case(f"batch={batch}"):
        judge_settings(answer, [batch], wanted)
        problem = answer.probe(given.problem, batch)
        readable = "obs space=Discrete" not in problem
        expect(readable, "The network cannot read the number of a field. Is `flatten` in its place?")
        expect(not problem, f"The config cannot be built: {problem}")
        with answer.watch() as seen:
            ran = answer.probe(rllib_configs.run_once, batch)
        judge_runners(seen, ran["runners"], runners)
        for runner in ran["runners"]:
            names = runner["environments"]
            expect_equal(names, ["FrozenLake-v1"] * environments, f"An EnvRunner held the environments {names}.")
        expect_equal(ran["weights"], WEIGHTS, f"The network's weights had the shapes {ran['weights']}.")


@exercise(
    points=3,
    minutes=15,
    alone=True,
    hints=[
        "One round is: time one iteration of `many`, then one of `single`. How many rounds are there?",
        "Before the first round each algorithm trains once, and nobody looks at the clock.",
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


def _judge_real(ran: dict) -> None:
    """Check five timed iterations of real algorithms, with the runners and environments of the comparison."""
    held, counts = ran["environments"], ran["iterations"]
    expect_equal(held, [[2, 2], [1]], f"The EnvRunners held {held} environments afterwards, not [[2, 2], [1]].")
    expect_equal(counts, [6, 6], f"With the warm-up it is 6 iterations each; they count {counts}.")
    times = [ran["times"][name] for name in ("many", "single")]
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
    expect(not stopped, "`time_training` stopped an algorithm that it did not build. Leave that to whoever built it.")
    for name in ("many", "single"):
        count = names.count(name)
        expect(
            count == iterations + 1,
            f"With iterations={iterations}, `{name}.train()` was called {count} times. There is one warm-up besides.",
        )
    rounds = [sorted(names[i : i + 2]) for i in range(0, len(names), 2)]
    expect(all(pair == ["many", "single"] for pair in rounds), f"Not in turn: the calls came in the order {order}.")


def _judge_calls(name: str, calls: list, naps: list[float]) -> None:
    """Check that the algorithm's iterations took at least as long as its naps: on a busy machine longer, never shorter."""
    took = [end - begin for caller, begin, end in calls if caller == name]
    slept = all(seconds >= nap - CLOCK for seconds, nap in zip(took, naps, strict=True))
    expect(slept, f"`{name}` was given longer iterations than it had: did its own `train` really run?")


def _judge_times(name: str, seen: dict, iterations: int) -> None:
    """Check each returned time against the moments that the algorithm wrote down: not less than it took, not more than
    from the call before to the call after."""
    times, calls = seen["times"], seen["calls"]
    expect(isinstance(times, dict) and name in times, f"The result has no key {name!r}: it is {times}.")
    got = times[name]
    expect(hasattr(got, "__len__"), f"{name!r} must be a list of seconds, one for each iteration, not {got!r}.")
    expect(len(got) == iterations, f"There are {len(got)} times of `{name}` for iterations={iterations}.")
    ends, begins = [seen["begin"], *(end for _, _, end in calls)], [*(begin for _, begin, _ in calls), seen["end"]]
    timed = [index for index, call in enumerate(calls) if call[0] == name][1:]
    for number, (seconds, index) in enumerate(zip(got, timed, strict=True), 1):
        took, room = calls[index][2] - calls[index][1], begins[index + 1] - ends[index]
        expect(
            took - CLOCK <= seconds <= room + CLOCK,
            f"Iteration {number} of `{name}` took {took:.3f} s by its own clock (warm-up not counted); you say {seconds:.3f} s.",
        )


@exercise(
    points=3,
    minutes=20,
    hints=[
        "The ratio is of totals: all seconds of `single`, divided by all seconds of `many`.",
        "Draw the numbers of the pairs, with replacement: `rng.integers(n, size=n)`. Take *both* times of each pair drawn.",
        "Do that 2,000 times, keep the ratios, and cut off 2.5 % at each end with `np.quantile(ratios, [0.025, 0.975])`.",
    ],
)
def speedup(answer: Answer, rng: Generator) -> None:
    """Draw pairs, not times: what slowed one of a pair probably slowed the other too."""
    for usual in (1.6, 0.8):
        pairs = int(rng.integers(7, 10))
        moods = np.exp(rng.normal(0, 0.6, size=pairs))  # slow moments of the machine, which a pair shares
        many, single = (moods * scale * rng.uniform(0.9, 1.1, size=pairs) for scale in (1.0, usual))
        got = answer({"many": many.tolist(), "single": single.tolist()})
        expect(
            hasattr(got, "__len__") and len(got) == 3,
            f"Return three numbers, the ratio and both ends of the interval, not {got!r}.",
        )
        ratio, low, high = got
        expect_close(
            ratio,
            single.sum() / many.sum(),
            f"Totals {single.sum():.3f} s and {many.sum():.3f} s; your ratio is {ratio}.",
        )
        _judge_interval(low, high, _draw(many, single, rng))


def _draw(many: np.ndarray, single: np.ndarray, rng: Generator) -> np.ndarray:
    """Return the ratio of the totals of 20,000 samples of pairs, drawn with replacement."""
    picks = rng.integers(len(many), size=(20_000, len(many)))
    return single[picks].sum(axis=1) / many[picks].sum(axis=1)


def _judge_interval(low: Any, high: Any, ratios: np.ndarray) -> None:
    """Check both ends with room for the luck of a thousand draws: 2.5 % may come out as anything from 0.5 to 4.7 %."""
    below, above = 100 * np.mean(ratios < low), 100 * np.mean(ratios > high)
    expect(
        0.5 <= below <= 4.7, f"Drawn again as pairs, {below:.1f} % of the ratios lie below your interval, not 2.5 %."
    )
    expect(
        0.5 <= above <= 4.7, f"Drawn again as pairs, {above:.1f} % of the ratios lie above your interval, not 2.5 %."
    )


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
    got = answer(sampling, learning, most, worth)
    expect(isinstance(got, int) and 1 <= got <= most, f"{got!r} is not a number of runners from 1 to {most}.")
    expect(got <= best, f"You chose {got}, but the last of these saves less than {worth:.0%} of an iteration.")
    expect(got >= best, f"You chose {got}, but one more would still save {saved[got - 1]:.1%} of an iteration.")


quiz(
    "what_is_ray",
    """
    What is Ray?

    a) A library of reinforcement learning algorithms.
        That is RLlib, which is one part of Ray. Chapters 0 to 6 used Ray without any learning.
    *b) A general-purpose framework for distributed computing, which includes RLlib.
        Right: tasks, actors and objects for any program; RLlib, Tune, Train, Data and Serve are built on them.
    c) A simulator that runs many environments at once.
        Environments come from Gymnasium, or from you. Ray moves and schedules whatever you give it.
    d) A faster replacement for PyTorch on several machines.
        The network and its gradients are PyTorch's, also inside RLlib. Ray decides where they run.
    """,
)

quiz(
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

quiz(
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

quiz(
    "why_in_turn",
    """
    Why are the two algorithms timed in turn, and not five iterations of one and then five of the other?

    *a) So that a slow minute of the machine does not hit only one of them.
        Right: both of a pair meet nearly the same machine. That is also why the interval is drawn from pairs.
    b) So that both learn from the same experience.
        Each has environments, weights and random numbers of its own; they never exchange anything.
    c) So that the two run at the same time, which is faster.
        They must not: on shared cores each would slow the other. While one trains, the other waits.
    """,
)
