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
        "Look at the *trained on* column. Which of the five settings determines when learning starts?",
        "Once DQN learns, look at how much it still explores. If the fraction of random actions falls from 1 to 0.05 within 10,000 steps, what is it after 1,000?",
        "Derive the numbers from `steps`: for example, start learning after a tenth of the steps, stop exploring after half of them, and update the target network every few dozen steps.",
    ],
)
def short_dqn(answer: Answer, rng: Generator) -> None:
    """A schedule counts steps: one that was made for ten million steps has hardly started when a thousand are over."""
    length, steps = int(rng.integers(8, 11)), int(rng.integers(900, 1100))  # longer ones need more steps, with luck
    wanted = {"algorithm": "DQN", "env_config": {"length": length}, "num_env_runners": 0, "num_learners": 0}
    with answer.case(f"length={length}, steps={steps}"):
        judge_settings(answer, [length, steps], wanted)
        enough, runs = round(1 - 0.1 * (length - 2) - 0.7, 6), list[given.ShortRun]()

        def train(seed: int) -> float:
            runs.append(answer.probe(given.train_dqn, length, steps, [seed + turn for turn in range(12)]))
            answer.keep_curve("steps", [(row["steps"], row["mean"]) for row in runs[-1]["rows"]])
            return _late_mean(runs[-1]["rows"], steps)

        mean = best_of(train, rng, enough)[-1]
        run = runs[-1]
        names, rows = run["environments"], run["rows"]
        expect(
            set(run["lengths"]) == {length}, f"Your DQN sampled from {names}, not from corridors of {length} squares."
        )
        sampled = max((row["steps"] for row in rows), default=0)
        learned = max((row["learned"] for row in rows), default=0)
        expect(learned > 0, f"Your DQN sampled {sampled} steps and trained on none of them. When does learning start?")
        best = run["best"]
        expect(
            mean >= enough or best < enough,
            f"At the end, your DQN's network knows the way: its best actions earn {best:.1f}. But the episodes that ended in the last "
            f"300 steps earned {mean:.1f} on average, so it learned the way too late or still explored too much.",
        )
        expect(
            mean >= enough or learned < 4 * steps,
            f"Your DQN trained on {learned} transitions, but its network's best actions earn {best:.1f}. "
            "How often did the target network get new weights, how long did the DQN explore, and how large is `lr`?",
        )
        expect(
            mean >= enough,
            f"The episodes that ended in the last 300 steps earned {mean:.1f} on average. With seven steps more than the "
            f"minimum, an episode earns {enough:.1f}. Your DQN sampled {sampled} steps and trained on {learned}.",
        )


def _late_mean(rows: list[given.Iteration], steps: int) -> float:
    """Return the mean return of the episodes that ended in the last 300 steps, or -10 if none ended, rounded to 1e-6."""
    late = [row for row in rows if row["steps"] > steps - 300 and row["episodes"] and not math.isnan(row["mean"])]
    ended = sum(row["episodes"] for row in late)
    return round(sum(row["episodes"] * row["mean"] for row in late) / ended, 6) if ended else -10.0


@exercise(
    points=3,
    minutes=15,
    needs={"CPU": 4},
    hints=[
        "How many steps does one EnvRunner sample in `pace` seconds if each step takes `nap` seconds? Do two environments change that number?",
        "A batch comes from all EnvRunners together. `rollout_fragment_length` counts the steps that *one* of an EnvRunner's two environments contributes to one message.",
        "What does APPO use if you don't set the number of EnvRunners, environments, and learners? Print `APPOConfig().num_env_runners`, for example.",
    ],
)
def paced_appo(answer: Answer, rng: Generator) -> None:
    """Count the steps that are sampled in `pace` seconds: they make up a batch, and if you divide them by the EnvRunners, environments, and messages, you get the fragment length."""
    # Long: counts are read of two configs, and one is built and run, with a message for each count that is off.
    fragment, messages = int(rng.integers(12, 32)), int(rng.integers(2, 4))
    nap = float(rng.choice([0.002, 0.004, 0.01]))
    each = 2 * fragment * messages  # steps of an EnvRunner between two updates
    pace = round(each * nap, 3)
    for runners in (1, 3):  # three are not built: the counts are what a config can be believed
        with answer.case(f"{runners} EnvRunners, a step of {nap} s, a batch every {pace} s, {messages} messages"):
            _judge_pace(answer, [runners, nap, pace, messages])
    built = f"one EnvRunner, built: a step of {nap} s, a batch every {pace} s, {messages} messages"
    with answer.case(built), answer.watch() as seen:
        ran = answer.probe(given.run_appo, [1, nap, pace, messages], each)
        judge_runners(seen, ran["runners"], 1)
        _judge_asynchronous(ran, each)


def _judge_pace(answer: Answer, arguments: list) -> None:
    """Check a config's counts against the seconds of the task; rounding may move a fragment by one step."""
    runners, nap, pace, messages = arguments
    wanted = {"algorithm": "APPO", "num_env_runners": runners, "num_envs_per_env_runner": 2, "num_learners": 0}
    judge_settings(answer, arguments, wanted)
    names = ["rollout_fragment_length", "train_batch_size_per_learner"]
    found = settings_of(answer, arguments, names)
    fragment, batch = (expect_type(found[name], float, name) for name in names)
    each, together = fragment * 2 * messages * nap, batch * nap / runners
    expect(
        0.9 * pace <= together <= 1.1 * pace,
        f"With num_env_runners={runners}, it takes {together:.3f} s to sample a batch of {batch:g} steps. "
        f"The task asks for a batch every {pace} s.",
    )
    expect(
        abs(each - pace) <= 2.1 * messages * nap,
        f"To sample {messages} fragments of {fragment:g} steps from each of two environments, an EnvRunner takes {each:.3f} s. "
        f"The task asks for that many every {pace} s.",
    )


def _judge_asynchronous(ran: given.AsynchronousRun, batch: int) -> None:
    """Check what the EnvRunner held, and what the learner was given."""
    runners = ran["runners"]
    names, lengths = runners[0]["environments"], runners[0]["lengths"]
    expect_equal(lengths, [SQUARES] * 2, f"The EnvRunner held {names}, not two corridors of ten squares.")
    trained, steps = ran["trained"], ran["steps"]
    full = 3 * batch <= trained and batch <= steps
    expect(
        full,
        f"In one minute, the learner trained on {trained} of {steps} steps; the check waited for three batches. If the machine is busy, check again.",
    )
    expect(ran["changed"], f"The learner trained on {trained} steps, and its weights didn't change.")


@exercise(
    points=4,
    minutes=25,
    needs={"CPU": 4},
    hints=[
        "Take one algorithm at a time: build it, start the clock, train until it has used both budgets, and stop it. Then take the next one.",
        "`result['num_env_steps_sampled_lifetime']` counts the steps since the build. The mean return is in `result['env_runners']`.",
        "If no episode has ended, the mean return is missing or NaN (`math.isnan`). Add no row then, but let the steps and seconds count. A mean return of 0.0 still gets a row.",
    ],
    spare=["            while sampled < steps and time.perf_counter() - start < seconds:"],
)
def compare(answer: Answer, rng: Generator) -> None:
    """All algorithms get the same budget, one after the other, and each row has both steps and seconds."""
    # Long: each row is compared with the clock of its algorithm, whose iterations are written beforehand.
    steps, seconds = int(rng.integers(200, 260)), 0.2
    names = rng.permutation(["DQN", "PPO", "SAC"])[:2].tolist()
    scripts = dict(zip(names, [_script(rng, 100, 0.03, steps), _script(rng, 15, 0.025, steps)], strict=True))
    with answer.case(f"configs named {names[0]} and {names[1]}, budgets of {steps} steps and {seconds} s"):
        seen = answer.probe(given.compare_scripted, scripts, steps, seconds)
        _judge_order(seen["calls"], names)
        curves = expect_type(seen["curves"], dict[str, list], "compare(...)")
        listed = sorted(curves)
        expect_equal(listed, sorted(names), f"The curves must have the names of the configs; yours have {listed}.")
        for name in names:
            life = _life(name, seen["calls"])
            _judge_budget(name, life, steps, seconds)
            _judge_curve(name, life, curves[name])


def _script(rng: Generator, steps: int, nap: float, budget: int) -> list[list]:
    """Return 40 iterations: seconds, steps in all, mean return; the steps meet their budget exactly, one mean is 0.

    Some iterations have no mean: two near the beginning, and those after the steps are used up.
    """
    totals = np.cumsum(rng.integers(steps, steps * 4 // 3, size=40))
    last = int(np.argmax(totals >= budget))
    totals[last:] -= totals[last] - budget
    naps, means = nap + rng.uniform(0, 0.01, size=40), rng.uniform(-50, 200, size=40).round(2)
    means[1] = means[4] = means[(budget <= totals) & (totals < budget + 3 * steps)] = math.nan
    if last > 4:  # a script of short iterations, of which the third is always trained
        means[2] = 0.0
    rows = np.stack([naps, totals, means], axis=1).tolist()
    return [[*rows[0][:2], None], *rows[1:]]  # at first, not even the key is there


def _judge_order(calls: list[given.Call], names: list[str]) -> None:
    """Check that each of the algorithms was built, trained and stopped before the next."""
    came = list(dict.fromkeys(call["name"] for call in calls))
    order = ", ".join(call for call, _ in groupby(f"{call['name']}.{call['what']}" for call in calls))
    wanted = ", ".join(f"{name}.{what}" for name in came for what in ("build", "train", "stop"))
    expect(
        sorted(came) == sorted(names) and order == wanted,
        f"The calls came in the order {order}. Each algorithm needs one build, some training, and one stop. "
        "Two that exist at the same time share the cores, so stop one before you build the next.",
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
    enough = [call["steps"] >= steps and took > seconds + CLOCK for call, took in zip(trains, spent, strict=True)]
    times, first = len(enough), len(enough) - max(sum(enough) - 1, 0)
    then, took = trains[first - 1]["steps"], spent[first - 1]
    expect(
        first == times,
        f"After iteration {first}, `{name}` had used both budgets, with {then:.0f} steps and {took:.2f} s. "
        f"You trained it up to iteration {times}.",
    )
    expect(
        total >= steps and most >= seconds - CLOCK,
        f"You stopped `{name}` after {total:.0f} steps and {most:.2f} s of training. It must use both budgets, "
        f"{steps} steps and {seconds} s, and the time of the build doesn't count.",
    )


def _judge_curve(name: str, life: Life, curve: list) -> None:
    """Check the rows of a curve against the iterations that had a mean return."""
    build, trains, stop = life
    known = [i for i, call in enumerate(trains) if call["mean"] is not None and not math.isnan(call["mean"])]
    means, times, listed = [trains[i]["mean"] for i in known], len(known), len(curve)
    expect(
        all(isinstance(row, list | tuple | np.ndarray) for row in curve),
        f"Your curve of `{name}` is {curve!r:.80}. It must be a list of rows, each of them a tuple (steps so far, seconds so far, mean return).",
    )
    expect(
        times == listed,
        f"`{name}` reported {times} mean returns, {means}; the number of rows in your curve is {listed}. It needs one row for each.",
    )
    rows = expect_type(curve, list[tuple[float, float, float]], f"compare(...)[{name!r}]")
    for row, i in zip(rows, known, strict=True):
        (played, after, mean), iteration = row, i + 1
        want = [trains[i]["steps"], trains[i]["mean"]]
        expect_close(
            [played, mean],
            want,
            f"Iteration {iteration} of `{name}` had these steps so far and this mean return: {want}. Your row is {row}.",
        )
        least = sum(call["took"] for call in trains[:iteration])
        most = [*trains, stop][iteration]["begin"] - build["end"]
        expect(
            least - CLOCK <= after <= most + CLOCK,
            f"Iteration {iteration} of `{name}` ended {least:.3f} s after training started; your row says {after:.3f} s.",
        )


@exercise(
    points=2,
    minutes=10,
    hints=[
        "First, leave out the algorithms that can't handle these actions. Then compute the seconds that each of the others needs.",
        "Per step, the sampling is divided among the EnvRunners, and `own` is given for a thousand steps.",
        "An algorithm that waits takes the sum of the two times per step; one that doesn't takes the longer of them.",
    ],
    returns=str | None,
    spare=['            seconds[name] = one["steps"] * (sampling + own)'],
)
def pick_algorithm(answer: Answer, rng: Generator) -> None:
    """Time is steps needed times seconds per step: with a slow simulator, few steps win; with a fast one, cheap learning does."""
    # Long: cases are drawn until each of the usual mistakes leads to another choice.
    for case in _telling_cases(rng):
        seconds = _seconds(*case)
        got, kind, able, least = answer(*case), case[1], sorted(seconds), min(seconds.values())
        expect(got in seconds, f"You returned {got!r}. These can handle {kind} actions: {able}.")
        needed = seconds[got]
        expect(needed == least, f"You chose {got!r}, which needs {needed:.3g} s; another needs {least:.3g} s.")
    none = {name: value | {"actions": ["discrete"]} for name, value in _case(rng)[0].items()}
    got = answer(none, "continuous", 0.001, 2)
    expect(got is None, f"None of the algorithms can handle continuous actions; you returned {got!r} instead of None.")


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
    """Return candidates, actions, seconds of a step and a number of EnvRunners."""
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
            sampling = step_seconds * change.get("sampling", 1) / change.get("among", runners)
            own = one["own"] / change.get("per", 1000) * change.get("share", 1)
            adds = change.get("waits", one["waits"])
            found[name] = change.get("need", one["steps"]) * (sampling + own if adds else max(sampling, own))
    return found


def _least(seconds: dict[str, float]) -> str:
    return min(seconds, key=lambda name: seconds[name])


def _flipped(candidates: dict) -> dict:
    return {name: one | {"waits": not one["waits"]} for name, one in candidates.items()}


_MISTAKES = {
    "any action": lambda *case: _seconds(*case, any_action=True),
    "one EnvRunner": lambda *case: _seconds(*case, among=1),
    "no learning": lambda *case: _seconds(*case, share=0),
    "no simulator": lambda *case: _seconds(*case, sampling=0),
    "learning shared out": lambda *case: _seconds(*case, share=1 / case[3]),
    "own for one step": lambda *case: _seconds(*case, per=1),
    "all wait": lambda *case: _seconds(*case, waits=True),
    "the other way round": lambda *case: _seconds(_flipped(case[0]), *case[1:]),
    "none waits": lambda *case: _seconds(*case, waits=False),
    "fewest seconds a step": lambda *case: _seconds(*case, need=1),
    "fewest steps": lambda found, kind, *_: {n: one["steps"] for n, one in found.items() if kind in one["actions"]},
}


question(
    "which_may_reuse",
    """
    You have a million steps that last month's policy collected. Which algorithm can learn from them just as it learns from its own steps?

    a) PPO: it goes over every batch several times anyway.
        It goes over a batch from its current policy, and it clips what moves too far from that policy. Last month's policy is already too far away.
    *b) DQN: its update asks what an action led to, not who chose it.
        Right, that's what off-policy means. Chapter 15 looks at what happens if old steps leave out most of what the new policy does.
    c) APPO: it's asynchronous, so it gets old experience anyway.
        Its experience is only a few updates old, and V-trace corrects for that. For experience that's a month old, the correction would leave almost nothing.
    """,
)

question(
    "who_waits",
    """
    Three of four EnvRunners deliver a fragment every 1 s, and the fourth every 4 s. How many fragments arrive in 4 s, first synchronously (PPO) and then asynchronously (APPO), if the learner takes no time?

    *a) 4 and 13.
        Right: synchronously, each EnvRunner delivers one, and three of them then wait; asynchronously, it's 3 × 4 + 1. A machine that stutters costs APPO one machine, and it costs PPO all of them.
    b) 13 and 13.
        PPO starts the next round when the last of the four fragments has arrived, so there's one round in 4 s.
    c) 16 and 16.
        The fourth EnvRunner can't deliver more than one fragment in 4 s, whether the others wait for it or not.
    d) 4 and 16.
        The first number is right. But the fourth EnvRunner delivers one fragment in 4 s: not having to wait makes it no faster.
    """,
)

question(
    "slow_robot",
    """
    On the corridor, PPO solved the problem in fewer seconds, and DQN in fewer steps. Now each step moves a robot's arm for one second. Which algorithm would you try first?

    a) PPO: it needed fewer seconds.
        Those were seconds with a simulator that takes no time. Here, almost all of the seconds are the arm's, and PPO takes more steps.
    *b) DQN: it needed fewer steps.
        Right. One second per step dwarfs the milliseconds of learning, so time is now nearly proportional to steps.
    c) IMPALA: it doesn't wait for the arm.
        That helps if you have a hundred arms. With a single arm, all you can do while it moves is learn, and an off-policy algorithm makes better use of that time.
    """,
)

question(
    "two_learners",
    """
    You train PPO with `train_batch_size_per_learner=500`, and you set `num_learners=2`. What happens in an iteration?

    a) 500 steps are collected, 250 for each learner.
        As its name says, the setting counts steps per learner. `config.total_train_batch_size` gives the sum.
    *b) 1,000 steps are collected, 500 for each learner, and the gradients are averaged, so both have the same weights.
        Right: the batch is twice as large, so this is a different training setup and not just a faster one. You may have to adjust the learning rate, too.
    c) Two policies are trained, and the better one is kept.
        That would be two trials (Chapter 16). The learners of one algorithm are copies of one network that stay identical.
    """,
)
