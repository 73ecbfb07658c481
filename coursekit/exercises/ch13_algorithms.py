"""The judge's side of chapter 13."""

import math
from itertools import groupby
from typing import Any

import numpy as np
from numpy.random import Generator

from coursekit.answer import Answer
from coursekit.exercise import exercise, expect, expect_close, expect_equal, quiz
from coursekit.exercises._configs import judge_runners, judge_settings
from coursekit.given import ch13_algorithms as given

FIELDS = 10  # of the corridor, where nothing else is said
ENVS = 4  # environments in which DQN plays
CLOCK = 0.003  # seconds by which two clocks of one machine may differ


@exercise(
    points=3,
    minutes=20,
    hints=[
        "Everything but where it plays goes into `.training(...)`. Which of its settings does the table name for each number?",
        "The size of the buffer is an entry of a dictionary: `replay_buffer_config={...}`. What you leave out of it stays as it is.",
        "Leave `training_intensity` out, and every step is replayed 32 / 4 = 8 times: one draw of 32 for every 4 steps played.",
    ],
)
def dqn_config(answer: Answer, rng: Generator) -> None:
    """Four numbers shape a learner with a memory: how much it keeps, when it begins, how often it replays, how often the target moves."""
    # Long: it watches the buffer, the beginning, the updates and the target network of a real DQN, step by step.
    capacity, first = int(rng.integers(330, 400)), int(rng.integers(110, 170))
    every, replays = int(rng.integers(45, 75)), int(rng.choice([4, 16]))
    arguments = [capacity, first, every, replays]
    with answer.case(f"capacity={capacity}, first={first}, every={every}, replays={replays}"):
        judge_settings(answer, arguments, {"algorithm": "DQN", "num_env_runners": 0, "num_learners": 0})
        ran = answer.probe(given.steps_of_dqn, arguments, 700 // (8 if replays == 4 else 4))
        names = ran["environments"]
        expect_equal(ran["lengths"], [FIELDS] * ENVS, f"It played in {names}, not in {ENVS} corridors.")
        _judge_memory(ran["rows"], capacity)
        _judge_begin(ran["rows"], first)
        _judge_replays(ran["rows"], replays)
        _judge_target(ran["rows"], every)


def _judge_memory(rows: list[dict], capacity: int) -> None:
    """Check that the buffer filled up, and that the oldest episodes then left: each is at most 100 steps long."""
    most, steps = max(row["buffer"] for row in rows), rows[-1]["steps"]
    expect(most <= capacity, f"After {steps} steps of play, the buffer had held up to {most}. Nothing made it forget.")
    expect(
        most > capacity - 105, f"After {steps} steps of play, the buffer had held up to {most}: it forgets too early."
    )


def _judge_begin(rows: list[dict], first: int) -> None:
    begun = _begun(rows)
    expect(
        begun < len(rows),
        f"It played {rows[-1]['steps']} steps and learned nothing; learning begins after {first}.",
    )
    before, after = rows[begun - 1]["steps"] if begun else 0, rows[begun]["steps"]
    expect(before < first <= after, f"It began to learn between step {before} and step {after}.")
    expect(rows[begun]["online"] != rows[-1]["online"], "The weights of the network never changed.")


def _begun(rows: list[dict]) -> int:
    return next((index for index, row in enumerate(rows) if row["replayed"] > 0), len(rows))


def _judge_replays(rows: list[dict], replays: int) -> None:
    begin, end = rows[_begun(rows)], rows[-1]
    played, learned = end["steps"] - begin["steps"], end["replayed"] - begin["replayed"]
    each = learned / max(played, 1)
    expect(
        0.85 * replays <= each <= 1.15 * replays,
        f"While it played {played} steps, it learned from {learned}: {each:.1f} for one, not {replays}.",
    )


def _judge_target(rows: list[dict], every: int) -> None:
    """Check how many steps lay between two changes of the target network; a training step plays up to fourteen."""
    moved = [row["steps"] for before, row in zip(rows, rows[1:], strict=False) if before["target"] != row["target"]]
    fits = len(moved) > 1 and all(every <= gap <= every + 15 for gap in np.diff(moved))
    expect(fits, f"The target network's weights changed at these steps, the first six of them: {moved[:6]}.")


@exercise(
    points=3,
    minutes=15,
    hints=[
        "Three of the table's lines are arguments of `.env_runners(...)`, one of `.training(...)`, one of `.learners(...)`.",
        "A fragment is what a runner hands over at once, for each of its environments: `rollout_fragment_length`.",
        "What does APPO take when you do not say how many runners and learners? Print `APPOConfig().num_env_runners` and `APPOConfig().num_learners`.",
    ],
)
def appo_config(answer: Answer, rng: Generator) -> None:
    """Small fragments come often and are fresh; the learner waits only until they add up to a batch."""
    # Long: it builds a real APPO twice, and looks at what its runners hand over and what its learner gets.
    fragment = int(rng.integers(12, 32))
    batch = 2 * fragment * int(rng.integers(2, 4))
    for runners in (1, 3):  # three are not built: the count is what a config can be believed
        with answer.case(f"runners={runners}, fragment={fragment}, batch={batch}"):
            wanted = {"algorithm": "APPO", "num_env_runners": runners, "num_learners": 0}
            judge_settings(answer, [runners, fragment, batch], wanted)
    for runners in (0, 1):
        with answer.case(f"runners={runners}, fragment={fragment}, batch={batch}"), answer.watch() as seen:
            ran = answer.probe(given.run_appo, [runners, fragment, batch], 3)
            if runners:
                judge_runners(seen, ran["runners"], runners)
            _judge_asynchronous(ran, fragment, batch)


def _judge_asynchronous(ran: dict, fragment: int, batch: int) -> None:
    """Check what the runner held and handed over, and what the learner was given."""
    [runner] = ran["runners"]
    names, got = runner["environments"], runner["fragment"]
    expect_equal(runner["lengths"], [FIELDS] * 2, f"An EnvRunner held {names}, not two corridors.")
    slack = 8  # the frame after an episode's end is no step
    expect(abs(got - 2 * fragment) <= slack, f"A runner handed over {got} steps at once, from two environments.")
    trained, steps = ran["trained"], ran["steps"]
    expect(
        3 * batch <= trained and batch <= steps,
        f"The learner had {trained} steps to learn from, of {steps} that were played.",
    )
    expect(ran["changed"], f"The learner had {trained} steps to learn from, and its weights did not change.")
    expect(
        0.9 * batch <= ran["batch"] <= 1.25 * batch + 4,
        f"An update of the learner had {ran['batch']:.0f} steps on average.",
    )


@exercise(
    points=4,
    minutes=25,
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
        order = [call for call, _ in groupby(f"{call['name']}.{call['what']}" for call in seen["calls"])]
        expect(
            [call.partition(".")[2] for call in order] == ["build", "train", "stop"] * 2,
            f"The calls came in the order {', '.join(order)}. Each needs one build, some training and one stop, "
            "and two that live at once share the cores: stop one before you build the next.",
        )
        curves = seen["curves"]
        expect_equal(sorted(curves), sorted(names), f"There must be a curve of each name; you have {sorted(curves)}.")
        for name in names:
            calls = [call for call in seen["calls"] if call["name"] == name]
            _judge_budget(name, calls, steps, seconds)
            _judge_curve(name, calls, curves[name])


def _script(rng: Generator, steps: int, nap: float, budget: int) -> list[list]:
    """Return 40 iterations: nap, steps in all, mean return; without one now and then, and when the steps are spent."""
    totals = np.cumsum(rng.integers(steps, steps * 4 // 3, size=40))
    naps, means = nap + rng.uniform(0, 0.01, size=40), rng.uniform(-50, 200, size=40).round(2)
    means[1] = means[4] = means[(budget <= totals) & (totals < budget + 3 * steps)] = math.nan
    rows = np.stack([naps, totals, means], axis=1).tolist()
    return [[*rows[0][:2], None], *rows[1:]]  # at first, not even the key is there


def _judge_budget(name: str, calls: list[dict], steps: int, seconds: float) -> None:
    """Check that an algorithm was trained until it had had both budgets, and no longer."""
    build, *trains, stop = calls
    total, most, spent = trains[-1]["steps"], stop["begin"] - build["end"], np.cumsum([call["took"] for call in trains])
    late = sum(call["steps"] >= steps and took > seconds + CLOCK for call, took in zip(trains, spent, strict=True)) - 1
    expect(late < 1, f"`{name}` trained {late} times more than it had to. Does one without a mean return count?")
    expect(
        total >= steps and most >= seconds - CLOCK,
        f"You stopped `{name}` after {total} steps and {most:.2f} s of training. When does your clock start?",
    )


def _judge_curve(name: str, calls: list[dict], rows: list) -> None:
    build, *trains, _ = calls
    known = [i for i, call in enumerate(trains) if call["mean"] is not None and not math.isnan(call["mean"])]
    expect(len(rows) == len(known), f"`{name}` had a mean return {len(known)} times; you have {len(rows)} rows.")
    for row, i in zip(rows, known, strict=True):
        got, want = [row[0], row[2]], [trains[i]["steps"], trains[i]["mean"]]
        expect_close(got, want, f"Iteration {i + 1} of `{name}`: steps and mean return {want}; your row is {row}.")
        least, most = sum(call["took"] for call in trains[: i + 1]), calls[i + 2]["begin"] - build["end"]
        expect(
            least - CLOCK <= row[1] <= most + CLOCK,
            f"Iteration {i + 1} of `{name}` ended {least:.3f} s after training began; your row says {row[1]:.3f} s.",
        )


@exercise(
    points=2,
    minutes=10,
    hints=[
        "First leave out the algorithms that do not take these actions. Then compute the seconds of each of the others.",
        "How long does a step take? Playing is shared out among the runners; `own` is given for a thousand steps.",
        "One that waits adds the two; one that does not wait takes as long as the longer of them.",
    ],
)
def pick_algorithm(answer: Answer, rng: Generator) -> None:
    """Steps needed times seconds a step: a slow simulator favours those that need few steps, a quick one those that learn cheaply."""
    for case in _telling_cases(rng):
        seconds = _seconds(*case)
        best, got = _least(seconds), answer(*case)
        expect(got in seconds, f"You chose {got!r}, which does not take these actions.")
        expect(
            got == best,
            f"You chose {got!r}, which needs {seconds[got]:.3g} s; another needs {seconds[best]:.3g} s.",
        )
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


quiz(
    "which_may_reuse",
    """
    You have a million steps that a policy of last month played. Which algorithm can learn from them as from its own?

    a) PPO: it goes over every batch several times anyway.
        Over a batch of the newest policy, and clips what strays too far from it. Last month's policy strays at once.
    *b) DQN: its update asks what an action led to, not who chose it.
        Right. That is what off-policy means. (How far old steps cover what the new policy does is chapter 15's subject.)
    c) APPO: it is asynchronous, so old experience is what it gets.
        A few updates old, and corrected for by V-trace. The correction of something a month old would leave nothing of it.
    """,
)

quiz(
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

quiz(
    "slow_robot",
    """
    On the corridor PPO got there in fewer seconds, DQN in fewer steps. Now each step is a robot's arm that moves for a second. Which would you try first?

    a) PPO: it was faster in seconds.
        In seconds of a simulator that takes no time. Here almost all seconds are the arm's, and each step of PPO costs one.
    *b) The off-policy one: it needs fewer steps.
        Right. A second a step dwarfs the milliseconds of learning, so the picture against steps is now the picture against seconds.
    c) IMPALA: it does not wait for the arm.
        With a hundred arms. With one there is nothing else to do meanwhile than to learn, and off-policy learning uses that better.
    """,
)

quiz(
    "two_learners",
    """
    PPO with `train_batch_size_per_learner=500`; you set `num_learners=2`. What happens in an iteration?

    a) 500 steps are collected, 250 for each learner.
        The name says it: per learner. `config.total_train_batch_size` tells the sum.
    *b) 1,000 steps are collected, 500 for each; their gradients are averaged, and both have the same weights.
        Right: each batch is twice as large, which is another algorithm setting, not only a faster one. The learning rate may need to follow.
    c) Two policies are trained, and the better one is kept.
        That would be two trials (chapter 16). Learners of one algorithm are copies of one network, kept alike.
    """,
)
