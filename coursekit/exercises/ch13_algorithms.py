"""The judge's side of chapter 13."""

import math
from itertools import groupby
from typing import Any

import numpy as np
from numpy.random import Generator

from coursekit.exercises._configs import judge_runners, judge_settings, settings_of
from coursekit.given import ch13_algorithms as given
from coursekit.judging.answer import Answer
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import best_of, expect, expect_close, expect_equal, expect_type

SQUARES = 10  # of the corridor, where nothing else is said
CLOCK = 0.003  # seconds by which two clocks of one machine may differ
Life = tuple[given.Call, list[given.Call], given.Call]  # an algorithm's build, its iterations, its stop


@exercise(
    points=3,
    minutes=20,
    needs={"CPU": 4},
    hints=[
        "Look at the column *learned from*. Which of the five settings says when learning begins?",
        "Once it learns, compare what it earns while it explores with what its network could earn. What share of its actions is random after 1,000 steps, if the share falls to its end within 10,000?",
        "Put the numbers in relation to `steps`: learning begins after a tenth of them, say, and half of them are enough to explore.",
    ],
)
def short_dqn(answer: Answer, rng: Generator) -> None:
    """A schedule counts steps: one made for ten million of them has hardly begun when a thousand are over."""
    length, steps = int(rng.integers(8, 13)), int(rng.integers(900, 1100))
    wanted = {"algorithm": "DQN", "env_config": {"length": length}, "num_env_runners": 0, "num_learners": 0}
    with answer.case(f"length={length}, steps={steps}"):
        judge_settings(answer, [length, steps], wanted)
        enough, runs = 1 - 0.1 * (length - 2) - 0.7, list[given.ShortRun]()

        def train(seed: int) -> float:
            runs.append(answer.probe(given.train_dqn, length, steps, [seed + turn for turn in range(12)]))
            return _late_mean(runs[-1]["rows"], steps)

        mean = best_of(train, rng, enough)[-1]
        run = runs[-1]
        names, rows = run["environments"], run["rows"]
        expect(set(run["lengths"]) == {length}, f"It played in {names}, and not in corridors of {length} squares.")
        played = max((row["steps"] for row in rows), default=0)
        learned = max((row["learned"] for row in rows), default=0)
        expect(learned > 0, f"It played {played} steps and learned from none: when does learning begin?")
        best = run["best"]
        expect(
            mean >= enough or best < enough,
            f"Its network knows the way: it earns {best:.1f} when it plays its best actions. "
            f"Yet the last 300 steps earned {mean:.1f} an episode. What did it still do there?",
        )
        expect(
            mean >= enough,
            f"The last 300 steps earned {mean:.1f} an episode, and the task asks for {enough:.1f}. It learned from {learned} steps.",
        )


def _late_mean(rows: list[given.Iteration], steps: int) -> float:
    """Return the mean return of all episodes that ended in the last 300 steps; one that never ends earns −10, or less."""
    late = [row for row in rows if row["steps"] > steps - 300 and row["episodes"] and not math.isnan(row["mean"])]
    ended = sum(row["episodes"] for row in late)
    return sum(row["episodes"] * row["mean"] for row in late) / ended if ended else -10.0


@exercise(
    points=3,
    minutes=15,
    needs={"CPU": 4},
    hints=[
        "How many steps does one runner make in `pace` seconds, if each takes `nap` seconds? Do two environments change that?",
        "The batch comes from all runners together; a fragment is what one of a runner's two environments plays for one message.",
        "What does APPO take when you do not say how many runners and learners? Print `APPOConfig().num_env_runners` and `APPOConfig().num_learners`.",
    ],
)
def paced_appo(answer: Answer, rng: Generator) -> None:
    """Count the steps that are played between two updates: they are the batch, and cut by runner, environment and message the fragment."""
    fragment, messages = int(rng.integers(12, 32)), int(rng.integers(2, 4))
    nap = float(rng.choice([0.002, 0.004, 0.01]))
    each = 2 * fragment * messages  # steps of a runner between two updates
    pace = round(each * nap, 3)
    for runners in (1, 3):  # three are not built: the counts are what a config can be believed
        with answer.case(f"runners={runners}, nap={nap}, pace={pace}, messages={messages}"):
            wanted = {"algorithm": "APPO", "num_env_runners": runners, "num_learners": 0}
            judge_settings(answer, [runners, nap, pace, messages], wanted)
            arguments, name = [runners, nap, pace, messages], "train_batch_size_per_learner"
            told = expect_type(settings_of(answer, arguments, [name])[name], float, name)
            expect(
                0.95 * each * runners <= told <= 1.05 * each * runners,
                f"An update takes {told} steps. How many do {runners} runners play in {pace} s?",
            )
    for runners in (0, 1):
        with answer.case(f"runners={runners}, nap={nap}, pace={pace}, messages={messages}"), answer.watch() as seen:
            ran = answer.probe(given.run_appo, [runners, nap, pace, messages], each)
            if runners:
                judge_runners(seen, ran["runners"], runners)
            _judge_asynchronous(ran, fragment, each)


def _judge_asynchronous(ran: given.AsynchronousRun, fragment: int, batch: int) -> None:
    """Check what the runner held and handed over, and what the learner was given."""
    runners = ran["runners"]
    names = [name for runner in runners for name in runner["environments"]]
    lengths = [length for runner in runners for length in runner["lengths"]]
    expect_equal(lengths, [SQUARES] * 2, f"An EnvRunner held {names}, not two corridors.")
    got = sum(runner["fragment"] for runner in runners)
    slack = 8  # the frame after an episode's end is no step
    expect(abs(got - 2 * fragment) <= slack, f"A runner handed over {got} steps at once, from two environments.")
    trained, steps = ran["trained"], ran["steps"]
    expect(
        3 * batch <= trained and batch <= steps,
        f"The learner had {trained} steps to learn from, of {steps} that were played.",
    )
    expect(ran["changed"], f"The learner had {trained} steps to learn from, and its weights did not change.")
    mean = ran["batch"]
    expect(0.9 * batch <= mean <= 1.25 * batch + 4, f"An update of the learner had {mean:.0f} steps on average.")


@exercise(
    points=4,
    minutes=25,
    needs={"CPU": 4},
    hints=[
        "One algorithm at a time: build it, start the clock, train until it has had enough of both, stop it. Then the next.",
        "`result['num_env_steps_sampled_lifetime']` counts the steps since the build; `result['env_runners']` has the mean return.",
        "While no episode has ended yet, the mean return is missing or NaN (`math.isnan`): no row then, but its steps and seconds count.",
        "`try: ... finally: algo.stop()`, so that it is stopped even when an iteration fails.",
    ],
)
def compare(answer: Answer, rng: Generator) -> None:
    """The same budget for all, one after the other, and each row has both clocks: steps and seconds."""
    # Long: each row is compared with the clock of its algorithm, whose iterations are written beforehand.
    steps, seconds = int(rng.integers(200, 260)), 0.2
    names = rng.permutation(["DQN", "PPO", "SAC"])[:2].tolist()
    scripts = dict(zip(names, [_script(rng, 100, 0.03, steps), _script(rng, 15, 0.025, steps)], strict=True))
    with answer.case(f"configs named {names[0]} and {names[1]}, budgets of {steps} steps and {seconds} s"):
        seen = answer.probe(given.compare_scripted, scripts, steps, seconds)
        _judge_order(seen["calls"], names)
        curves = expect_type(seen["curves"], dict[str, list], "compare(...)")
        listed = sorted(curves)
        expect_equal(listed, sorted(names), f"There must be a curve of each name; you have {listed}.")
        for name in names:
            life = _life(name, seen["calls"])
            _judge_budget(name, life, steps, seconds)
            _judge_curve(name, life, curves[name])


def _script(rng: Generator, steps: int, nap: float, budget: int) -> list[list]:
    """Return 40 iterations: nap, steps in all, mean return; without one now and then, and when the steps are spent."""
    totals = np.cumsum(rng.integers(steps, steps * 4 // 3, size=40))
    naps, means = nap + rng.uniform(0, 0.01, size=40), rng.uniform(-50, 200, size=40).round(2)
    means[1] = means[4] = means[(budget <= totals) & (totals < budget + 3 * steps)] = math.nan
    rows = np.stack([naps, totals, means], axis=1).tolist()
    return [[*rows[0][:2], None], *rows[1:]]  # at first, not even the key is there


def _judge_order(calls: list[given.Call], names: list[str]) -> None:
    """Check that each of the algorithms was built, trained and stopped before the next."""
    came = list(dict.fromkeys(call["name"] for call in calls))
    order = ", ".join(call for call, _ in groupby(f"{call['name']}.{call['what']}" for call in calls))
    wanted = ", ".join(f"{name}.{what}" for name in came for what in ("build", "train", "stop"))
    expect(
        sorted(came) == sorted(names) and order == wanted,
        f"The calls came in the order {order}. Each needs one build, some training and one stop, "
        "and two that live at once share the cores: stop one before you build the next.",
    )


def _life(name: str, calls: list[given.Call]) -> Life:
    build, train, stop = (
        [call for call in calls if call["name"] == name and call["what"] == what] for what in ("build", "train", "stop")
    )
    return build[0], train, stop[0]


def _judge_budget(name: str, life: Life, steps: int, seconds: float) -> None:
    """Check that an algorithm was trained until it had had both budgets, and no longer."""
    build, trains, stop = life
    total, most, spent = trains[-1]["steps"], stop["begin"] - build["end"], np.cumsum([call["took"] for call in trains])
    late = sum(call["steps"] >= steps and took > seconds + CLOCK for call, took in zip(trains, spent, strict=True)) - 1
    expect(late < 1, f"`{name}` trained {late} times more than it had to. Does one without a mean return count?")
    expect(
        total >= steps and most >= seconds - CLOCK,
        f"You stopped `{name}` after {total} steps and {most:.2f} s of training. When does your clock start?",
    )


def _judge_curve(name: str, life: Life, curve: list) -> None:
    """Check the rows of a curve against the iterations that had a mean return."""
    build, trains, stop = life
    known = [i for i, call in enumerate(trains) if call["mean"] is not None and not math.isnan(call["mean"])]
    times, listed = len(known), len(curve)
    expect(times == listed, f"`{name}` had a mean return {times} times; you have {listed} rows.")
    rows = expect_type(curve, list[tuple[float, float, float]], f"compare(...)[{name!r}]")
    for row, i in zip(rows, known, strict=True):
        (played, after, mean), iteration = row, i + 1
        want = [trains[i]["steps"], trains[i]["mean"]]
        expect_close(
            [played, mean], want, f"Iteration {iteration} of `{name}`: steps and mean return {want}; your row is {row}."
        )
        least = sum(call["took"] for call in trains[:iteration])
        most = [*trains, stop][iteration]["begin"] - build["end"]
        expect(
            least - CLOCK <= after <= most + CLOCK,
            f"Iteration {iteration} of `{name}` ended {least:.3f} s after training began; your row says {after:.3f} s.",
        )


@exercise(
    points=2,
    minutes=10,
    hints=[
        "First leave out the algorithms that do not take these actions. Then compute the seconds of each of the others.",
        "How long does a step take? Playing is shared out among the runners; `own` is given for a thousand steps.",
        "One that waits adds the two; one that does not wait takes as long as the longer of them.",
    ],
    returns=str | None,
)
def pick_algorithm(answer: Answer, rng: Generator) -> None:
    """Steps needed times seconds a step: a slow simulator favours those that need few steps, a quick one those that learn cheaply."""
    # Long: cases are drawn until each of the usual mistakes leads to another choice.
    for case in _telling_cases(rng):
        seconds = _seconds(*case)
        got, least = answer(*case), min(seconds.values())
        expect(got in seconds, f"You chose {got!r}, which does not take these actions.")
        needed = seconds[got]
        expect(needed == least, f"You chose {got!r}, which needs {needed:.3g} s; another needs {least:.3g} s.")
    none = {name: value | {"actions": ["discrete"]} for name, value in _case(rng)[0].items()}
    got = answer(none, "continuous", 0.001, 2)
    expect(got is None, f"None of them takes continuous actions; you chose {got!r}.")


def _telling_cases(rng: Generator) -> list[tuple]:
    """Return three cases or more, none of them a close race, among which each usual mistake leads to another choice."""
    cases: list[tuple] = []
    missed = set(_MISTAKES)
    while missed or len(cases) < 3:
        case = _case(rng)
        seconds = sorted(_seconds(*case).values())
        if len(seconds) < 2 or seconds[1] < 1.1 * seconds[0]:
            continue
        caught = {name for name in missed if _least(_MISTAKES[name](*case)) != _least(_seconds(*case))}
        if caught or len(cases) < 3:
            cases, missed = [*cases, case], missed - caught
    return cases


def _case(rng: Generator) -> tuple:
    """Return candidates, actions, seconds of a step and a number of runners."""
    kinds = [["discrete"], ["discrete", "continuous"], ["continuous"]]
    names = rng.permutation(["PPO", "DQN", "SAC", "APPO", "IMPALA"])[: int(rng.integers(3, 6))]
    candidates = {
        str(name): {
            "actions": kinds[int(rng.choice(3, p=[0.3, 0.5, 0.2]))],
            "steps": int(10 ** rng.uniform(3, 5.3)),
            "own": round(float(10 ** rng.uniform(-1, 1.2)), 3),
            "waits": bool(rng.random() < 0.5),
        }
        for name in names
    }
    actions = str(rng.choice(["discrete", "continuous"]))
    return candidates, actions, round(float(10 ** rng.uniform(-4, -1)), 5), int(rng.integers(1, 9))


def _seconds(candidates: dict, actions: str, step_seconds: float, runners: int, **change: Any) -> dict[str, float]:
    """Return the seconds of each that takes the actions; `change` makes one of the usual mistakes."""
    found = {}
    for name, one in candidates.items():
        if actions in one["actions"] or change.get("any_action"):
            play = step_seconds * change.get("play", 1) / change.get("among", runners)
            own = one["own"] / change.get("per", 1000) * change.get("share", 1)
            adds = change.get("waits", one["waits"])
            found[name] = change.get("need", one["steps"]) * (play + own if adds else max(play, own))
    return found


def _least(seconds: dict[str, float]) -> str:
    return min(seconds, key=lambda name: seconds[name])


_MISTAKES = {
    "any action": lambda *case: _seconds(*case, any_action=True),
    "one runner": lambda *case: _seconds(*case, among=1),
    "no learning": lambda *case: _seconds(*case, share=0),
    "no simulator": lambda *case: _seconds(*case, play=0),
    "learning shared out": lambda *case: _seconds(*case, share=1 / case[3]),
    "own for one step": lambda *case: _seconds(*case, per=1),
    "all wait": lambda *case: _seconds(*case, waits=True),
    "none waits": lambda *case: _seconds(*case, waits=False),
    "fewest seconds a step": lambda *case: _seconds(*case, need=1),
    "fewest steps": lambda found, kind, *_: {n: one["steps"] for n, one in found.items() if kind in one["actions"]},
}


question(
    "which_may_reuse",
    """
    You have a million steps that last month's policy played. Which algorithm can learn from them as from its own?

    a) PPO: it goes over every batch several times anyway.
        Over a batch of the newest policy, and clips what strays too far from it. Last month's policy strays at once.
    *b) DQN: its update asks what an action led to, not who chose it.
        Right. That is what off-policy means. How far old steps cover what the new policy does is chapter 15's subject.
    c) APPO: it is asynchronous, so old experience is what it gets.
        A few updates old, and corrected for by V-trace. The correction of something a month old would leave nothing of it.
    """,
)

question(
    "who_waits",
    """
    Four EnvRunners; three hand over a fragment every 1 s, the fourth every 4 s. How many fragments in 4 s, synchronously (PPO) and asynchronously (APPO)? The learner takes no time.

    *a) 4 and 13.
        Right: one of each, and then three wait; or 3 × 4 + 1. A machine that stutters costs APPO one machine, and PPO all of them.
    b) 13 and 13.
        PPO begins the next round when the last of the four has come: one round in 4 s.
    c) 16 and 16.
        The fourth cannot hand over more than one in 4 s, whether the others wait for it or not.
    d) 4 and 16.
        The first number is right. But the fourth runner hands over one in 4 s: runners that do not wait are no faster for it.
    """,
)

question(
    "slow_robot",
    """
    On the corridor PPO got there in fewer seconds, DQN in fewer steps. Now each step is a robot's arm that moves for a second. Which would you try first?

    a) PPO: it was faster in seconds.
        In seconds of a simulator that takes no time. Here almost all seconds are the arm's, and each step of PPO costs one.
    *b) The off-policy one: it needs fewer steps.
        Right. A second a step dwarfs the milliseconds of learning, so the picture against steps is now the picture against seconds.
    c) IMPALA: it does not wait for the arm.
        With a hundred arms. With one, there is nothing to do meanwhile but learn, and off-policy learning uses that better.
    """,
)

question(
    "two_learners",
    """
    PPO with `train_batch_size_per_learner=500`; you set `num_learners=2`. What happens in an iteration?

    a) 500 steps are collected, 250 for each learner.
        The name says it: per learner. `config.total_train_batch_size` gives the sum.
    *b) 1,000 steps are collected, 500 for each; their gradients are averaged, and both have the same weights.
        Right: each batch is twice as large, which is a different setting, not only a faster one. The learning rate may need to follow.
    c) Two policies are trained, and the better one is kept.
        That would be two trials (chapter 16). Learners of one algorithm are copies of one network, kept alike.
    """,
)
