"""The judge's side of chapter 16."""

from typing import Any

import numpy as np
from numpy.random import Generator

from coursekit.answer import Answer
from coursekit.exercise import agree, exercise, expect, expect_close, expect_equal, quiz
from coursekit.given import ch16_tune as given


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
    # Long: the network and the two lives of a trial, which Tune itself leads here, are most of it.
    data, epochs, first = _images(rng), int(rng.integers(5, 8)), int(rng.integers(2, 4))
    config = {"lr": float(rng.uniform(0.01, 0.03)), "hidden": int(rng.integers(5, 20)), "epochs": epochs}
    other = config["lr"] * float(rng.uniform(1.5, 2.5))
    network = given.Network(int(config["hidden"]))
    with answer.case(f"a trial with {_brief(config)} was stopped after {first} epochs"):
        seen = answer.probe(given.two_lives, data, config, first, other)
        _judge_reports(seen["first"], _lived(network, data, config["lr"], first))
        expect(seen["saved"], "None of its reports had come with a checkpoint, so it cannot go on.")
    with answer.case(
        f"stopped after {first} of {epochs} epochs; started again from its checkpoint with lr={other:.3g}"
    ):
        _judge_reports(seen["second"], _lived(network, data, other, epochs - first))


def _images(rng: Generator) -> given.Data:
    """Return images with labels: some to train with, some to choose by."""
    counts = {"train": 96, "choose": 40}
    return {name: (rng.random((count, 64)), rng.integers(0, 10, size=count)) for name, count in counts.items()}


def _lived(network: given.Network, data: given.Data, rate: float, epochs: int) -> list[dict]:
    """Return what so many more epochs of a network should report."""
    rows = []
    for _ in range(epochs):
        network.train(*data["train"], lr=rate)
        rows.append({"epoch": network.epochs, **network.test(*data["choose"])})
    return rows


def _judge_reports(rows: list[dict], wanted: list[dict]) -> None:
    """Compare the reports of one life with those of our network: which epochs, then how good it was."""
    expect(rows, "It reported nothing: is there a `tune.report({...})` in every epoch?")
    epochs = [row["epoch"] for row in rows]
    expect_equal(epochs, [row["epoch"] for row in wanted], f'Its reports had the entries "epoch" {epochs}.')
    for row, should in zip(rows, wanted, strict=True):
        for name in ("accuracy", "loss"):
            _judge_number(name, row, should[name])
    without = [row["epoch"] for row in rows if not row["checkpoint"]]
    expect(not without, f"Its reports of the epochs {without} came without a checkpoint.")


def _judge_number(name: str, row: dict, should: float) -> None:
    got = row[name]
    expect(got is not None, f'Its report has no entry "{name}": report all that the test returns.')
    expect(isinstance(got, int | float), f'Its report has the entry "{name}": {got!r}, which should be a number.')
    expect(
        agree(got, should, atol=1e-6),
        f"In epoch {row['epoch']} it reported the {name} {got:.4f}. "
        'Which weights, which rate, which images "to choose by"?',
    )


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
    # Long: a plan is read before any trial starts, so that most mistakes cost no processes; then a few trials run.
    space, cpus = _space(rng), float(rng.choice([0.25, 0.5, 0.75]))
    with answer.case(f"{space}, cpus={cpus}"):
        _judge_plan(answer.probe(given.plan_of, space, cpus), _grid(space), cpus)
    few = {**space, "hidden": space["hidden"][:1]}
    cpus, salt = float(rng.choice([1.25, 1.5, 1.75])), float(rng.uniform(3, 9))
    with answer.case(f"{few}, cpus={cpus}; the trials ran, and wrote down what they saw"):
        _judge_run(answer.probe(given.run_of, few, cpus, salt), _grid(few), cpus, salt)


def _space(rng: Generator) -> dict:
    """Return what is to be tried: lists, and one value."""
    return {
        "lr": rng.uniform(0.001, 1, size=2).round(4).tolist(),
        "hidden": rng.choice(np.arange(4, 40), size=int(rng.integers(2, 4)), replace=False).tolist(),
        "epochs": int(rng.integers(3, 9)),
    }


def _grid(space: dict) -> list[dict]:
    """Return every combination of a space."""
    return [{"lr": lr, "hidden": hidden, "epochs": space["epochs"]} for lr in space["lr"] for hidden in space["hidden"]]


def _judge_run(seen: dict, wanted: list[dict], cpus: float, salt: float) -> None:
    """Compare what trials saw with what they should have seen, and the best of them with ours."""
    ran = seen["ran"]
    configs, had = [row["saw"] for row in ran], [row["cpus"] for row in ran]
    expect(_same(wanted, configs), f"Their configs were {configs}.")
    expect_equal(had, [cpus] * len(ran), f"They had these numbers of CPUs: {had}.")
    _expect_one_report([row["training_iteration"] for row in ran])
    scores = {_brief(config): sum(salt * value for value in config.values()) % 1.0 for config in configs}
    own = all(agree(row["accuracy"], scores[_brief(row["saw"])], atol=1e-6) for row in ran)
    expect(own, "Their reports are not those of the function that was handed over.")
    best = max(scores, key=lambda name: scores[name])
    expect_equal(_brief(seen["best"]), best, f"By its results the best one is {seen['best']}; accuracies: {scores}.")


def _expect_one_report(counts: list[int]) -> None:
    ones = [1] * len(counts)
    expect_equal(counts, ones, f"The scheduler ends a trial at its first report; they reported {counts} times.")


def _same(wanted: list[dict], got: list[dict]) -> bool:
    """Return whether both hold the same configs, in whatever order."""
    one, other = (sorted(configs, key=lambda config: str(sorted(config.items()))) for configs in (got, wanted))
    return agree(one, other)


def _judge_plan(plan: dict, wanted: list[dict], cpus: float) -> None:
    """Refuse at once what cannot come out right: no trial has been started for this."""
    trials = plan["trials"]
    expect(trials, "The `callbacks` never heard of a trial. Are they handed on to the RunConfig?")
    configs, asked = [trial["config"] for trial in trials], [trial["asks for"].get("CPU") for trial in trials]
    expect(
        _same(wanted, configs),
        f"The Tuner plans {configs}, and every combination should come once: trials planned: {len(trials)}, combinations: {len(wanted)}.",
    )
    expect_equal(asked, [cpus] * len(trials), f"A trial asks for {trials[0]['asks for']}.")
    _judge_settings(plan, ["accuracy", "max"])
    expect(plan["reuses"], "Each trial would start a process of its own. What lets it take over one that is there?")
    expect_equal(plan["verbose"], 0, f"With verbose={plan['verbose']} in the RunConfig, Tune prints tables as it runs.")


def _judge_settings(plan: dict, wanted: list[str]) -> None:
    """Results must go into the folder, and the best is what has the highest value of the right entry."""
    expect_equal(plan["trials"][0]["folder"], plan["folder"], "The results would lie elsewhere than in `folder`.")
    metric, mode = plan["best by"]
    expect_equal(
        [metric, mode],
        wanted,
        f"The TuneConfig has metric={metric!r}, mode={mode!r}. Is that an entry of a report, and is its highest value the best?",
    )


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
        tried = "\n".join(f"{config}: {_told(curve)}" for config, curve in runs)
        with answer.case(f"{len(runs)} trials:\n{tried}"):
            _judge_choice(answer.probe(given.judge_results, runs), *runs[best])


def _judge_choice(returned: Any, config: dict, curve: list[float]) -> None:
    """Compare what came back with the best trial and its best epoch."""
    expect(isinstance(returned, list) and len(returned) == 2, f"Return a config and an epoch, not {returned!r}.")
    expect(agree(returned[0], config), f"You returned the config {returned[0]}.")
    epoch = int(np.argmax(curve)) + 1
    expect_equal(returned[1], epoch, f"You returned the right config, and the epoch {returned[1]!r}.")


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
    for dead in (False, True):
        grid, asha = _two_searches(rng, dead)
        lengths = [[len(curve) for _, curve in runs] for runs in (grid, asha)]
        with answer.case(f"epochs reported by the trials: {lengths[0]} and {lengths[1]}"):
            _judge_budget(answer.probe(given.judge_results, grid, asha), *map(sum, lengths))


def _two_searches(rng: Generator, dead: bool) -> tuple[list, list]:
    """Return the trials of a grid, which all run to the end, and those of ASHA; if so told, one died before its first report."""
    epochs, trials = int(rng.integers(9, 30)), int(rng.integers(5, 9))
    grid = [_short_run(rng, epochs, epochs) for _ in range(trials)]
    asha = [_short_run(rng, epochs, int(length)) for length in [epochs, *rng.integers(1, epochs, size=trials - 1)]]
    if dead:
        asha[int(rng.integers(1, trials))][1] = []
    return grid, asha


def _judge_budget(returned: Any, first: int, second: int) -> None:
    """Compare what came back with the sums of both searches."""
    expect(isinstance(returned, list) and len(returned) == 3, f"Return three numbers, not {returned!r}.")
    got = returned[:2]
    expect_equal(got, [first, second], f"You returned {got[0]} and {got[1]} epochs.")
    share = returned[2]
    expect_close(share, 1 - second / first, f"You returned {share!r} for the share that was saved.", atol=1e-6)


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
    # Long: a plan is read before any trial starts, so that most mistakes cost no processes; then one trial runs.
    rates = rng.uniform(0.0005, 0.01, size=int(rng.integers(2, 5))).round(5).tolist()
    with answer.case(f"rates={rates}; nothing has been started yet"):
        _judge_plan_of_ppo(answer.probe(given.plan_of_ppo, rates), rates)
    iterations = int(rng.integers(1, 3))
    with answer.case(f"one trial with lr={rates[0]} ran for iterations={iterations}"):
        _judge_run_of_ppo(answer.probe(given.run_of_ppo, rates[0], iterations), rates, iterations)


def _judge_plan_of_ppo(plan: dict, rates: list[float]) -> None:
    """Refuse at once what cannot come out right."""
    _judge_search(plan, rates)
    _judge_request(plan["trials"][0])
    _judge_settings(plan, ["env_runners/episode_return_mean", "max"])
    expect(plan["ends"], "Nothing ends a trial: it would train forever. What does the RunConfig take for that?")


def _judge_run_of_ppo(ran: dict, rates: list[float], iterations: int) -> None:
    """Judge how long a trial trained, with which rate, and where."""
    count = ran["iterations"]
    expect(count <= iterations, "It went on training after that.")
    expect_equal(count, iterations, f"It trained for {count}.")
    expect_close(ran["rate"], rates[0], f"Its learner worked with {ran['rate']:.3g}.", atol=1e-7)
    expect(not ran["in this process"], "It ran in the notebook's own process.")


def _judge_search(plan: dict, rates: list[float]) -> None:
    """Every rate must have a trial, and two of them must be allowed side by side."""
    expect(
        plan["schedule"] is None,
        f"The config has lr={plan['schedule']}. RLlib reads a list as a schedule of one training. What tells Tune to search it?",
    )
    expect(plan["trials"], "The `callbacks` never heard of a trial. Are they handed on to the RunConfig?")
    expect(plan["limit"] >= 2, f"Trials that may run at a time: {plan['limit']}.")
    got = [trial["config"]["lr"] for trial in plan["trials"]]
    first = rates[: plan["limit"]]  # the others begin when one of these has ended
    expect(agree(sorted(got, key=str), sorted(first, key=str)), f"The first trials have the learning rates {got}.")


def _judge_request(trial: dict) -> None:
    """Two trials must fit on two CPUs, and the runners of each into what it asks for."""
    asked, runners, needed = trial["asks for"].get("CPU", 0), trial["config"]["num_env_runners"], trial["runners need"]
    expect(
        asked <= 1,
        f"A trial asks for {asked:g} CPUs (with num_env_runners={runners}): two do not fit on two CPUs side by side.",
    )
    expect(
        needed <= asked,
        f"A trial asks for {asked:g} CPUs; its EnvRunners (num_env_runners={runners}) alone need {needed:g}: they would wait forever.",
    )


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
