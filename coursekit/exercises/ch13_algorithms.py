"""The judge's side of chapter 13."""

import math
from typing import Any

from numpy.random import Generator

from coursekit.answer import Answer
from coursekit.exercise import exercise, expect, expect_close, expect_equal, quiz
from coursekit.given import ch13_algorithms as given

ENVS = 4  # environments in which DQN plays
CORRIDOR = "SimpleCorridor-v0"
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
    capacity, first = int(rng.integers(330, 400)), int(rng.integers(110, 170))
    every, replays = int(rng.integers(45, 75)), int(rng.choice([4, 16]))
    asked = f"For capacity={capacity}, first={first}, every={every}, replays={replays}: "
    arguments = [capacity, first, every, replays]
    _judge_told(answer.probe(given.told, *arguments), asked, {"algorithm": "DQN", "runners": 0, "learners": 0})
    ran = answer.probe(given.steps_of_dqn, arguments, 700 // (8 if replays == 4 else 4))
    names = [name.rpartition(":")[2] for name in ran["environments"]]
    expect_equal(
        names,
        [CORRIDOR] * ENVS,
        asked + f"it played in {len(names)} environment(s), {sorted(set(names))}, not in {ENVS} corridors.",
    )
    _judge_memory(ran["rows"], asked, capacity)
    _judge_begin(ran["rows"], asked, first)
    _judge_replays(ran["rows"], asked, first, replays)
    _judge_target(ran["rows"], asked, every)


def _judge_told(told: dict, asked: str, wanted: dict) -> None:
    """Refuse what need not be built: another algorithm, or other processes than asked for."""
    expect(
        told["returned"] == "a config",
        f"The function returned {told['returned']}. It must return the config, not built.",
    )
    what = {"algorithm": "the algorithm", "runners": "num_env_runners", "learners": "num_learners"}
    for name, value in wanted.items():
        expect_equal(told[name], value, asked + f"{what[name]} is {told[name]!r}, and the task asks for {value!r}.")


def _judge_memory(rows: list[dict], asked: str, capacity: int) -> None:
    """Check that the buffer filled up, and that the oldest episodes then left: each is at most 100 steps long."""
    most, steps = max(row["buffer"] for row in rows), rows[-1]["steps"]
    said = asked + f"after {steps} steps of play the buffer had held {most} steps at most"
    expect(most <= capacity, said + ". Nothing made it forget.")
    expect(most > capacity - 105, said + ". It forgets too early.")


def _judge_begin(rows: list[dict], asked: str, first: int) -> None:
    learned = [row["replayed"] > 0 for row in rows]
    expect(
        any(learned), asked + f"it played {rows[-1]['steps']} steps and learned nothing; learning begins after {first}."
    )
    start = learned.index(True)
    begun, before = rows[start]["steps"], rows[start - 1]["steps"] if start else 0
    said = asked + f"it began to learn between step {before} and step {begun}."
    expect(before < first <= begun, said)
    expect(rows[start]["online"] != rows[-1]["online"], asked + "the weights of the network never changed.")


def _judge_replays(rows: list[dict], asked: str, first: int, replays: int) -> None:
    begun = next(index for index, row in enumerate(rows) if row["replayed"] > 0)
    played = rows[-1]["steps"] - rows[begun]["steps"]
    learned = rows[-1]["replayed"] - rows[begun]["replayed"]
    said = asked + f"while it played {played} steps, it learned from {learned}: {learned / max(played, 1):.1f} for one."
    expect(0.85 * replays <= learned / max(played, 1) <= 1.15 * replays, said)


def _judge_target(rows: list[dict], asked: str, every: int) -> None:
    """Check how many steps lay between two changes of the target network; a training step plays up to fourteen."""
    moved = [row["steps"] for before, row in zip(rows, rows[1:], strict=False) if before["target"] != row["target"]]
    expect(len(moved) > 1, asked + f"the target network's weights changed at these steps: {moved}.")
    gaps = [later - earlier for earlier, later in zip(moved, moved[1:], strict=False)]
    said = asked + f"the target network's weights changed at the steps {moved[:6]} and so on."
    expect(all(every <= gap <= every + 15 for gap in gaps), said)


@exercise(
    points=3,
    minutes=15,
    hints=[
        "Three of the table's lines are arguments of `.env_runners(...)`, one of `.training(...)`, one of `.learners(...)`.",
        "A fragment is what a runner hands over at once, for each of its environments: `rollout_fragment_length`.",
        "What does APPO take when nobody says how many runners and learners? Print `APPOConfig().num_env_runners` and `APPOConfig().num_learners`.",
    ],
)
def appo_config(answer: Answer, rng: Generator) -> None:
    """Small fragments come often and are fresh; the learner waits only until they add up to a batch."""
    fragment = int(rng.integers(12, 32))
    batch = 2 * fragment * int(rng.integers(2, 4))
    for runners in (1, 3):  # three are not built: the count is what a config can be believed
        asked = f"For runners={runners}, fragment={fragment}, batch={batch}: "
        told = answer.probe(given.told, runners, fragment, batch)
        _judge_told(told, asked, {"algorithm": "APPO", "runners": runners, "learners": 0})
    asked = f"For runners=1, fragment={fragment}, batch={batch}: "
    _judge_asynchronous(answer.probe(given.run_appo, [0, fragment, batch], 3), asked, fragment, batch)
    with answer.watch() as seen:
        ran = answer.probe(given.run_appo, [1, fragment, batch], 3)
    pids = {actor["pid"] for actor in seen.actors() if actor["class_name"].endswith("EnvRunner")}
    alive = [runner for runner in ran["runners"] if runner["pid"] in pids]
    expect(len(alive) == 1, asked + f"{len(alive)} EnvRunner actors were alive, not 1.")
    _judge_asynchronous(ran, asked, fragment, batch)


def _judge_asynchronous(ran: dict, asked: str, fragment: int, batch: int) -> None:
    """Check what the runners held and handed over, and what the learner was given."""
    expect_equal(ran["algorithm"], "APPO", asked + f"what was built is {ran['algorithm']}.")
    expect(len(ran["runners"]) == 1, asked + f"{len(ran['runners'])} EnvRunners answered, not 1.")
    for runner in ran["runners"]:
        names = [name.rpartition(":")[2] for name in runner["environments"]]
        expect_equal(names, [CORRIDOR] * 2, asked + f"an EnvRunner held {names}, not two corridors.")
        got = runner["fragment"]
        said = asked + f"a runner handed over {got} steps at once, from two environments."
        expect(2 * fragment - 8 <= got <= 2 * fragment + 8, said)  # the frame after an episode's end is no step
    trained, steps = ran["trained"], ran["steps"]
    said = asked + f"the learner had {trained} steps to learn from, of {steps} that were played."
    expect(3 * batch <= trained and batch <= steps, said)
    expect(ran["changed"], said + " Its weights did not change.")
    mean = ran["batch"]
    expect(
        0.9 * batch <= mean <= 1.25 * batch + 4,
        asked + f"an update of the learner had {mean:.0f} steps on average.",
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
    steps, seconds = int(rng.integers(200, 260)), 0.2
    names = [str(name) for name in rng.permutation(["DQN", "PPO", "SAC"])][:2]
    scripts = {names[0]: _script(rng, 100, 0.03, steps), names[1]: _script(rng, 15, 0.025, steps)}
    seen = answer.probe(given.compare_scripted, scripts, steps, seconds)
    _judge_calls(seen["calls"], names)
    _judge_form(seen["curves"], names)
    for name in names:
        calls = [call for call in seen["calls"] if call[0] == name]
        _judge_curve(seen["curves"][name], calls, _results(scripts[name], len(calls) - 2), name, steps, seconds)
    _judge_real(answer.probe(given.compare_real, {"PPO": int(rng.integers(60, 90))}, 260, 0.1), 260)


def _script(rng: Generator, steps: int, nap: float, budget: int) -> list[list]:
    """Return 40 iterations: nap, steps, mean return. No episode ends in the first two, in the fifth, and when the steps are spent."""
    rows: list[list] = []
    total = late = 0
    for index in range(40):
        played = steps + int(rng.integers(0, steps // 3))
        total += played
        late += total >= budget
        nothing = index in (1, 4) or 1 <= late <= 3
        mean = None if index == 0 else math.nan if nothing else round(float(rng.uniform(-50, 200)), 2)
        rows.append([nap + float(rng.uniform(0, 0.01)), played, mean])
    return rows


def _results(script: list[list], iterations: int) -> list[list]:
    """Return the lifetime steps and the mean return after each of so many iterations."""
    total, rows = 0, []
    for index in range(iterations):
        _, steps, mean = script[min(index, len(script) - 1)]
        total += steps
        rows.append([total, math.nan if mean is None else mean])
    return rows


def _judge_calls(calls: list, names: list[str]) -> None:
    """Check that the algorithms were built, trained and stopped one after the other."""
    order = [f"{name}.{what}" for name, what, _, _ in calls]
    short = [call for index, call in enumerate(order) if index == 0 or call != order[index - 1]]
    told = "Two algorithms were compared; the calls came in the order " + ", ".join(short) + "."
    for name in names:
        own = [call.partition(".")[2] for call in short if call.startswith(name)]
        expect(own[:1] == ["build"] and own.count("build") == 1, told + f" `{name}` must be built once.")
        expect("train" in own, told + f" `{name}` was never trained.")
        expect(own[-1] == "stop", told + f" `{name}` was not stopped.")
        expect(own == ["build", "train", "stop"], told + f" `{name}`: build, train, stop is what it needs.")
    owners = [call.partition(".")[0] for call in short]
    expect(
        len({tuple(owners[index : index + 3]) for index in range(0, len(owners), 3)}) == 2
        and all(len(set(owners[index : index + 3])) == 1 for index in range(0, len(owners), 3)),
        told + " Two that live at once share the cores: stop one before you build the next.",
    )


def _judge_form(curves: Any, names: list[str]) -> None:
    expect(isinstance(curves, dict), f"It must return a dict of curves, not {type(curves).__name__}.")
    expect(set(curves) == set(names), f"There were the configs {sorted(names)}; your curves are {sorted(curves)}.")
    for name in names:
        rows = curves[name]
        good = hasattr(rows, "__len__") and all(hasattr(row, "__len__") and len(row) == 3 for row in rows)
        expect(good, f"The curve of `{name}` must be rows of three numbers, not {str(rows)[:80]}.")


def _judge_curve(rows: list, calls: list, results: list, name: str, steps: int, seconds: float) -> None:
    """Check an algorithm's budget against its own clock, and its rows against its own results."""
    built, trains = calls[0][3], [call for call in calls if call[1] == "train"]
    ends = [call[3] - trains[0][2] for call in trains]  # at least so long after the build, when an iteration ended
    nexts = [call[2] - built for call in [*trains[1:], calls[-1]]]  # and at most so long
    told = f"`{name}`, budget {steps} steps and {seconds} s. "
    early = [
        i
        for i, ((count, _), end) in enumerate(zip(results, ends, strict=True))
        if count >= steps and end > seconds + CLOCK
    ]
    expect(
        not early or early[0] == len(trains) - 1,
        told + f"It was trained {len(trains)} times, and had had both after {early[0] + 1 if early else 0}. "
        "Do steps and seconds count also where there is no mean return?",
    )
    count = results[-1][0]
    spent = f"You stopped it after {count} steps and {nexts[-1]:.2f} s of training: "
    expect(count >= steps, told + spent + "it has not had its steps.")
    expect(nexts[-1] >= seconds - CLOCK, told + spent + "it has not had its seconds. When does your clock start?")
    wanted = [(i, count, mean) for i, (count, mean) in enumerate(results) if not math.isnan(mean)]
    expect(
        len(rows) == len(wanted),
        told + f"{len(results)} iterations, {len(wanted)} of them with a mean return; you have {len(rows)} rows.",
    )
    for row, (i, count, mean) in zip(rows, wanted, strict=True):
        said = told + f"Iteration {i + 1} ended with {count} steps in all and mean return {mean}; your row is {row}."
        expect_equal(int(row[0]), count, said)
        expect_close(float(row[2]), mean, said)
        expect(
            ends[i] - CLOCK <= row[1] <= nexts[i] + CLOCK,
            told + f"Iteration {i + 1} ended {ends[i]:.3f} s after training began; your row says {row[1]:.3f} s.",
        )


def _judge_real(ran: dict, steps: int) -> None:
    """Check the curve of RLlib's own PPO against the results that it gave."""
    _judge_form(ran["curves"], list(ran["results"]))
    for name, results in ran["results"].items():
        told = f"RLlib's own {name}, budget {steps} steps. "
        expect(results and results[-1][0] >= steps, told + f"Its iterations ended after these steps: {results}.")
        wanted = [row for row in results if not math.isnan(row[1])]
        got = [[int(row[0]), float(row[2])] for row in ran["curves"][name]]
        expect_close(got, wanted, told + f"It gave steps and mean returns {wanted}; your curve has {got}.")


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
    cases, missed = 0, set(_MISTAKES)
    for _ in range(4000):
        candidates, actions, step_seconds, runners = _case(rng)
        seconds = _seconds(candidates, actions, step_seconds, runners)
        best = _least(seconds)
        if best is None or (len(seconds) > 1 and sorted(seconds.values())[1] < 1.1 * seconds[best]):
            continue  # a close race is no test
        caught = {
            name
            for name, mistake in _MISTAKES.items()
            if _least(mistake(candidates, actions, step_seconds, runners)) != best
        }
        if caught & missed or cases < 3:
            cases, missed = cases + 1, missed - caught
            got = answer(candidates, actions, step_seconds, runners)
            why = f"That one needs {seconds[got]:.3g} s" if got in seconds else "That one does not take these actions"
            why = f"{why}; another needs {seconds[best]:.3g} s."
            expect(
                got == best, f"{actions} actions, {step_seconds} s a step, {runners} runners. You chose {got!r}. {why}"
            )
        if not missed and cases >= 3:
            break
    none = {name: value | {"actions": ["discrete"]} for name, value in _case(rng)[0].items()}
    got = answer(none, "continuous", 0.001, 2)
    expect(got is None, f"None of them takes continuous actions; you chose {got!r}.")


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


def _least(seconds: dict[str, float]) -> str | None:
    return min(seconds, key=lambda name: seconds[name]) if seconds else None


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
        Right: one of each and then everybody waits; or 3 × 4 + 1. A machine that stutters costs APPO one machine, and PPO all.
    b) 13 and 13.
        PPO begins the next round when the last of the four has come: one round in 4 s.
    c) 16 and 16.
        The fourth cannot hand over more than one in 4 s, whoever waits for it.
    d) 4 and 16.
        The first number is right. Asynchronous runners are not faster; they only do not wait.
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
