"""The judge's side of chapter 16."""

from typing import Any

import numpy as np
from numpy.random import Generator

from coursekit.answer import Answer
from coursekit.exercise import agree, exercise, expect, expect_equal, quiz
from coursekit.given import ch16_tune as given
from coursekit.result import plural


@exercise(
    points=3,
    minutes=15,
    hints=[
        "Before the loop: `start = tune.get_checkpoint()` is None in a new trial. Otherwise open it and `network.load(...)`.",
        "`with start.as_directory() as folder: ...` opens one. The loaded network knows how many epochs it has behind it.",
        "`network.save(folder)` into a `tempfile.TemporaryDirectory()`, and inside that block "
        "`tune.report({...}, checkpoint=tune.Checkpoint.from_directory(folder))`.",
    ],
)
def objective(answer: Answer, rng: Generator) -> None:
    """A trial that reports a checkpoint with every epoch can be stopped anywhere and go on anywhere."""
    data = {
        name: (rng.random((count, 64)), rng.integers(0, 10, size=count))
        for name, count in (("train", 96), ("choose", 40))
    }
    epochs, first = int(rng.integers(5, 8)), int(rng.integers(2, 4))
    config = {"lr": float(rng.uniform(0.01, 0.03)), "hidden": int(rng.integers(5, 20)), "epochs": epochs}
    other = config["lr"] * float(rng.uniform(1.5, 2.5))
    seen = answer.probe(given.two_lives, data, config, first, other)
    network = given.Network(int(config["hidden"]))
    told = f"A trial with {_brief(config)} was stopped after {first} epochs. "
    _judge_reports(told, seen["first"], _lived(network, data, config["lr"], first))
    expect(seen["saved"], told + "None of its reports had come with a checkpoint, so it cannot go on.")
    told = (
        f"A trial of {epochs} epochs was stopped after {first}, and started again from its checkpoint, "
        f"now with lr={other:.3g}. "
    )
    _judge_reports(told, seen["second"], _lived(network, data, other, epochs - first))


def _lived(network: given.Network, data: given.Data, rate: float, epochs: int) -> list[dict]:
    """Return what so many more epochs of a network should report."""
    rows = []
    for _ in range(epochs):
        network.train(*data["train"], lr=rate)
        rows.append({"epoch": network.epochs, **network.test(*data["choose"])})
    return rows


def _judge_reports(told: str, rows: list[dict], wanted: list[dict]) -> None:
    """Compare the reports of one life with those of our network: which epochs, then how good it was."""
    epochs = [row["epoch"] for row in rows]
    expect(bool(rows), told + "It reported nothing: is there a `tune.report({...})` in every epoch?")
    expect_equal(epochs, [row["epoch"] for row in wanted], told + f'Its reports had the entries "epoch" {epochs}.')
    for row, should in zip(rows, wanted, strict=True):
        for name in ("accuracy", "loss"):
            expect(row[name] is not None, told + f'Its report has no entry "{name}": report all that the test returns.')
            expect(
                isinstance(row[name], int | float | np.floating),
                told + f'Its report has the entry "{name}": {row[name]!r}, which should be a number.',
            )
            expect(
                agree(row[name], should[name], atol=1e-6),
                told + f"In epoch {row['epoch']} it reported the {name} {row[name]:.4f}. "
                'Which weights, which rate, which images "to choose by"?',
            )
    without = [row["epoch"] for row in rows if not row["checkpoint"]]
    expect(not without, told + f"Its reports of the epochs {without} came without a checkpoint.")


def _brief(config: dict) -> str:
    return ", ".join(
        f"{name}={value:.3g}" if isinstance(value, float) else f"{name}={value}" for name, value in config.items()
    )


@exercise(
    points=3,
    minutes=15,
    hints=[
        "`tune.grid_search(values)` for a list, the value itself for all else: a dictionary comprehension over `space.items()`.",
        'What a trial asks for is wrapped around it: `tune.with_resources(trainable, {"cpu": cpus})`.',
        "`tune.TuneConfig(metric=..., mode=..., scheduler=..., reuse_actors=True)` and "
        "`tune.RunConfig(storage_path=..., callbacks=..., verbose=0)`.",
    ],
)
def tuner(answer: Answer, rng: Generator) -> None:
    """Space, resources, scheduler and folder are four separate settings, and the trial knows of none but its own config."""
    space = {
        "lr": rng.uniform(0.001, 1, size=2).round(4).tolist(),
        "hidden": rng.choice(np.arange(4, 40), size=int(rng.integers(2, 4)), replace=False).tolist(),
        "epochs": int(rng.integers(3, 9)),
    }
    wanted = [
        {"lr": lr, "hidden": hidden, "epochs": space["epochs"]} for lr in space["lr"] for hidden in space["hidden"]
    ]
    cpus = float(rng.choice([0.25, 0.5, 0.75]))
    _judge_plan(answer.probe(given.plan_of, space, cpus), wanted, cpus)
    few = {**space, "hidden": space["hidden"][:1]}
    wanted = [config for config in wanted if config["hidden"] == few["hidden"][0]]
    cpus, salt = float(rng.choice([1.25, 1.5, 1.75])), float(rng.uniform(3, 9))
    seen = answer.probe(given.run_of, few, cpus, salt)
    ran = seen["ran"]
    told = f"{len(wanted)} trials ran, and wrote down what they saw. "
    expect(_same(wanted, [row["saw"] for row in ran]), told + f"Their configs were {[row['saw'] for row in ran]}.")
    expect_equal(
        [row["cpus"] for row in ran], [cpus] * len(ran), told + f"With cpus={cpus} they had {_cpus(ran)} CPUs."
    )
    counts = [row["training_iteration"] for row in ran]
    expect_equal(
        counts, [1] * len(ran), told + f"The scheduler ends a trial at its first report; they reported {counts} times."
    )
    scores = {_brief(row["saw"]): sum(salt * value for value in row["saw"].values()) % 1.0 for row in ran}
    expect(
        all(agree(row["accuracy"], scores[_brief(row["saw"])], atol=1e-6) for row in ran),
        told + "Their reports are not those of the function that was handed over.",
    )
    best = max(scores, key=lambda name: scores[name])
    expect_equal(
        _brief(seen["best"]),
        best,
        told + f"By its results the best one is {_brief(seen['best'])}; accuracies: {scores}.",
    )


def _cpus(ran: list[dict]) -> list:
    return sorted({row["cpus"] for row in ran})


def _same(wanted: list[dict], got: Any) -> bool:
    """Return whether both hold the same configs, in whatever order."""
    rest = list(got) if isinstance(got, list) else []
    for config in wanted:
        found = [one for one in rest if isinstance(one, dict) and agree(one, config)]
        if not found:
            return False
        rest.remove(found[0])
    return not rest


def _judge_plan(plan: dict, wanted: list[dict], cpus: float) -> None:
    """Refuse at once what cannot come out right: no trial has been started for this."""
    trials = plan["trials"]
    expect(bool(trials), "The `callbacks` never heard of a trial. Are they handed on to the RunConfig?")
    configs = [trial["config"] for trial in trials]
    expect(
        len(trials) == len(wanted),
        f"{len(wanted)} combinations of {_brief(wanted[0])} and so on; the Tuner plans {plural(len(trials), 'trial')}.",
    )
    expect(_same(wanted, configs), f"The Tuner plans {configs}, where every combination should come once.")
    asked = [trial["asks for"].get("CPU") for trial in trials]
    expect_equal(asked, [cpus] * len(trials), f"With cpus={cpus}, a trial asks for {trials[0]['asks for']}.")
    expect_equal(trials[0]["folder"], plan["folder"], "The results would lie elsewhere than in `folder`.")
    expect_equal(plan["best by"], ["accuracy", "max"], _best_by(plan))
    expect(plan["reuses"], "Each trial would start a process of its own. What lets it take over one that is there?")
    expect_equal(plan["verbose"], 0, f"With verbose={plan['verbose']} in the RunConfig, Tune prints tables as it runs.")


def _best_by(plan: dict) -> str:
    metric, mode = plan["best by"]
    return f"The TuneConfig has metric={metric!r}, mode={mode!r}. Is that an entry of a report, and is its highest value the best?"


@exercise(
    points=2,
    minutes=10,
    hints=[
        "`results.get_best_result()` looks at the *last* report of each trial. Which `scope` looks at all of them?",
        "A result has `config`, and `metrics_dataframe`: one row for each of its reports.",
        "`frame.loc[frame['accuracy'].idxmax(), 'epoch']`.",
    ],
)
def best_config(answer: Answer, rng: Generator) -> None:
    """Each epoch has a checkpoint, so the best epoch counts, not the last one."""
    for _ in range(2):
        runs, best = _curves(rng)
        returned = answer.probe(given.judge_results, runs)
        told = f"{len(runs)} trials:\n" + "\n".join(f"{config}: {_told(curve)}" for config, curve in runs) + "\n"
        expect(
            isinstance(returned, list) and len(returned) == 2, told + f"Return a config and an epoch, not {returned!r}."
        )
        config, curve = runs[best]
        expect(agree(returned[0], config), told + f"You returned the config {returned[0]}.")
        epoch = int(np.argmax(curve)) + 1
        expect_equal(returned[1], epoch, told + f"You returned the right config, and the epoch {returned[1]!r}.")


def _told(curve: list[float]) -> str:
    if not curve:
        return "died before its first report"
    return f"best {max(curve)} in epoch {int(np.argmax(curve)) + 1}, last {curve[-1]} in epoch {len(curve)}"


def _curves(rng: Generator) -> tuple[list, int]:
    """Return trials with their accuracies, and which of them got highest: in the middle, then it fell.

    Another one ends highest, a third one is best on average, and one died before its first report.
    """
    epochs = int(rng.integers(6, 9))
    peak = int(rng.integers(1, epochs - 2))
    highest = rng.uniform(0.1, 0.2, size=epochs)
    highest[peak], highest[-1] = 0.95, 0.3
    last = np.linspace(0.1, 0.85, epochs) + rng.uniform(0, 0.02, size=epochs)
    steady = rng.uniform(0.76, 0.8, size=epochs)
    low = rng.uniform(0.0, 0.05, size=epochs)
    curves = [curve.round(3).tolist() for curve in (highest, last, steady, low)] + [[]]
    order = rng.permutation(len(curves))
    rates = rng.uniform(0.001, 1, size=len(curves)).round(4).tolist()
    runs = [[{"lr": rates[number], "hidden": 8 + int(number)}, curves[number]] for number in order]
    return runs, int(np.flatnonzero(order == 0)[0])


@exercise(
    points=2,
    minutes=5,
    hints=[
        "A trial that ASHA stopped in epoch 3 has trained three epochs, whatever its config says.",
        "`results.get_dataframe()` has one row for each trial, its last report: which column counts the reports?",
        "A trial that died before its first report has no row there, and no such entry in its `metrics`.",
    ],
)
def asha_budget(answer: Answer, rng: Generator) -> None:
    """What was trained is what was reported: add up the epochs of the trials, not those of the plan."""
    for _ in range(2):
        epochs, trials = int(rng.integers(9, 30)), int(rng.integers(5, 9))
        lengths = rng.integers(1, epochs, size=trials)
        lengths[0] = epochs
        grid = [_short_run(rng, epochs, epochs) for _ in range(trials)]
        asha = [_short_run(rng, epochs, int(length)) for length in lengths]
        asha[int(rng.integers(1, trials))][1] = []  # it died before its first report
        counts = [sum(len(curve) for _, curve in runs) for runs in (grid, asha)]
        returned = answer.probe(given.judge_results, grid, asha)
        told = f"Epochs reported by the trials: {[len(c) for _, c in grid]} and {[len(c) for _, c in asha]}. "
        expect(isinstance(returned, list) and len(returned) == 3, told + f"Return three numbers, not {returned!r}.")
        expect_equal(list(returned[:2]), counts, told + f"You returned {returned[0]} and {returned[1]} epochs.")
        saved = 1 - counts[1] / counts[0]
        expect(
            agree(returned[2], saved, atol=1e-6), told + f"You returned {returned[2]!r} for the share that was saved."
        )


def _short_run(rng: Generator, epochs: int, length: int) -> list:
    config = {"lr": float(rng.uniform(0.001, 1)), "epochs": epochs}
    return [config, rng.uniform(0.1, 0.9, size=length).round(3).tolist()]


@exercise(
    points=3,
    minutes=15,
    hints=[
        "PPO asks for one CPU for itself and one for each EnvRunner. How many runners leave room for two trials on two CPUs?",
        "`config.training(lr=tune.grid_search(rates))`: the space is the config itself, handed over as `param_space`.",
        'The name is the trainable: `tune.Tuner("PPO", ...)`. What ends a trial is `stop={"training_iteration": ...}` in RunConfig.',
    ],
)
def tune_ppo(answer: Answer, rng: Generator) -> None:
    """An algorithm of RLlib is a trial like any other, except that it brings its own request for resources."""
    rates = rng.uniform(0.0005, 0.01, size=int(rng.integers(2, 5))).round(5).tolist()
    plan = answer.probe(given.plan_of_ppo, rates)
    trials, schedule = plan["trials"], plan["schedule"]
    text = (
        f"The config has lr={schedule}. RLlib reads a list as a schedule of one training. What tells Tune to search it?"
    )
    expect(schedule is None, text)
    expect(bool(trials), "The `callbacks` never heard of a trial. Are they handed on to the RunConfig?")
    got = [trial["config"]["lr"] for trial in trials]
    told = f"For rates={rates}, "
    expect(plan["limit"] >= 2, told + f"at most {plan['limit']} trial may run at a time.")
    first = rates[: plan["limit"]]  # the others begin when one of these has ended
    expect(
        agree(sorted(got, key=str), sorted(first, key=str)), told + f"the first trials have the learning rates {got}."
    )
    asked = trials[0]["asks for"].get("CPU", 0)
    runners = trials[0]["config"]["num_env_runners"]
    expect(
        asked <= 1,
        told
        + f"a trial asks for {asked:g} CPUs (it has {plural(runners, 'EnvRunner')}): two trials do not fit on two CPUs side by side.",
    )
    needed = trials[0]["runners need"]
    text = f"a trial asks for {asked:g} CPUs, and its {plural(runners, 'EnvRunner')} alone would need {needed:g}: they would wait for ever."
    expect(needed <= asked, told + text)
    expect_equal(trials[0]["folder"], plan["folder"], "The results would lie elsewhere than in `folder`.")
    expect_equal(plan["best by"], ["env_runners/episode_return_mean", "max"], _best_by(plan))
    expect(plan["ends"], "Nothing ends a trial: it would train for ever. What does the RunConfig take for that?")
    iterations = int(rng.integers(1, 3))
    ran = answer.probe(given.run_of_ppo, rates[0], iterations)
    told = f"One trial with lr={rates[0]} ran for iterations={iterations}. "
    count = ran["iterations"]
    expect_equal(count, iterations, told + f"It trained for {count}{' and more' if count > iterations else ''}.")
    expect(agree(ran["rate"], rates[0], atol=1e-7), told + f"Its learner worked with {ran['rate']:.3g}.")
    expect(not ran["in this process"], told + "It ran in the notebook's own process.")


quiz(
    "last_or_best",
    """
    A trial reports the accuracies 0.3, 0.9, 0.4, another 0.5, 0.6, 0.7. Every epoch has a checkpoint. Which one
    does `results.get_best_result()` give you, if you say nothing more?

    a) The first: it has reached 0.9.
        That would be `scope="all"`. Without it Tune compares only the last reports, 0.4 and 0.7.
    *b) The second: its last report is higher.
        Right: `scope="last"` is the default, also in `get_dataframe()`.
    c) The second: its mean is higher.
        The mean is higher (0.6 against 0.53), but that is `scope="avg"`; by default only the last report counts.
    """,
)

quiz(
    "order_matters",
    """
    Suppose that a grid begins with its worst trial, that each trial is better than the one before, and that one runs at a time. What does ASHA save?

    a) As much as is possible: it knows that the first ones are bad.
        It knows nothing when the first one comes: there is nobody to compare it with yet.
    *b) Nothing: every trial is the best so far when it reaches a rung.
        Right: nobody is ever below the others that were there before. Shuffle what you try.
    c) The same as in any other order, since the same trials run.
        ASHA decides at once, with those that have come by so far. So the order decides what it sees.
    """,
)

quiz(
    "what_is_cloned",
    """
    In population-based training a bad trial is told to copy a good one. What does it get?

    a) The good one's learning rate, and it starts anew with that.
        Then all that the good one has learned would be lost, and a *schedule* could not arise.
    b) The good one's weights; its own learning rate stays.
        The rate it had led to bad results. It takes over the weights and a rate near the good one's.
    *c) The good one's weights, and its learning rate changed a little.
        Right: exploit, then explore. So the rate changes in the middle of a training.
    """,
)

quiz(
    "what_was_lost",
    """
    The program that runs Tune is killed with SIGKILL, and you restore. What is trained a second time?

    a) Nothing, since every epoch had written a checkpoint.
        Tune goes on from the checkpoints that its last *snapshot* knows. What came after that, it trains again.
    *b) The epochs since the last snapshot of the experiment: by default up to about ten seconds of them.
        Right: with small epochs that may be many, with epochs of an hour at most one of each trial.
    c) All trials that had not ended, from their beginning.
        They would, if the trial reported no checkpoints. Yours does.
    """,
)

quiz(
    "ppo_pending",
    """
    A Ray with 4 logical CPUs. A trial of PPO has 2 EnvRunners, all else is as RLlib has it. How many trials run at a time?

    a) Two: four CPUs, two runners each.
        The algorithm itself asks for one more. Two trials ask for six.
    *b) One: it asks for three CPUs, and one stays free.
        Right: 1 + 2. The next trial is PENDING, and one CPU does nothing.
    c) Four: one for each CPU.
        That is true of a plain function, which asks for one CPU unless you say otherwise. PPO brings its own request.
    """,
)
