"""The judge's side of chapter 16."""

from typing import Any

import numpy as np
from numpy.random import Generator

from coursekit.given import ch16_tune as given
from coursekit.judging.answer import Answer
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import agree, expect, expect_close, expect_equal


@exercise(
    points=3,
    minutes=15,
    needs={"CPU": 2},
    hints=[
        "Before the loop, call `start = tune.get_checkpoint()`. It is None in a new trial; otherwise open it and `network.load(...)`.",
        "`with start.as_directory() as folder: ...` opens a checkpoint. The loaded network knows how many epochs it has behind it.",
        "`network.save(folder)` into a `tempfile.TemporaryDirectory()`, and inside that block "
        "`tune.report({...}, checkpoint=tune.Checkpoint.from_directory(folder))`.",
    ],
)
def objective(answer: Answer, rng: Generator) -> None:
    """A trial that reports a checkpoint with every epoch can stop anywhere and continue anywhere."""
    # Long: the network and the two lives of a trial, which Tune itself leads here, are most of it.
    data, epochs, first = _images(rng), int(rng.integers(5, 8)), int(rng.integers(2, 4))
    config = {"lr": float(rng.uniform(0.01, 0.03)), "hidden": int(rng.integers(5, 20)), "epochs": epochs}
    other = config["lr"] * float(rng.uniform(1.5, 2.5))
    network = given.Network(int(config["hidden"]))
    with answer.case(f"a trial with {_brief(config)} was stopped after {first} epochs"):
        seen = answer.probe(given.two_lives, data, config, first, other)
        _judge_reports(seen["first"], _lived(network, data, config["lr"], first))
        expect(seen["saved"], "None of its reports came with a checkpoint, so it cannot continue.")
    with answer.case(
        f"stopped after {first} of {epochs} epochs; started again from its checkpoint with lr={other:.3g}"
    ):
        _judge_reports(seen["second"], _lived(network, data, other, epochs - first))


def _images(rng: Generator) -> given.Data:
    """Return images with labels: some to train with, some to choose by."""
    counts = {"train": 96, "choose": 40}
    return {name: (rng.random((count, 64)), rng.integers(0, 10, size=count)) for name, count in counts.items()}


def _lived(network: given.Network, data: given.Data, rate: float, epochs: int) -> list[dict]:
    """Return what this number of further epochs of a network should report."""
    rows = []
    for _ in range(epochs):
        network.train(*data["train"], lr=rate)
        rows.append({"epoch": network.epochs, **network.test(*data["choose"])})
    return rows


def _judge_reports(rows: list[given.Report], wanted: list[dict]) -> None:
    """Compare the reports of one life with those of our network: which epochs, then how good it was."""
    expect(rows, "It reported nothing: is there a `tune.report({...})` in every epoch?")
    epochs = [row["epoch"] for row in rows]
    expect_equal(epochs, [row["epoch"] for row in wanted], f'Its reports gave "epoch" as {epochs}.')
    for row, should in zip(rows, wanted, strict=True):
        _judge_number("accuracy", row["accuracy"], should["accuracy"], row["epoch"])
        _judge_number("loss", row["loss"], should["loss"], row["epoch"])
    without = [row["epoch"] for row in rows if not row["checkpoint"]]
    expect(not without, f"Its reports of the epochs {without} came without a checkpoint.")


def _judge_number(name: str, got: Any, should: float, epoch: int) -> None:
    expect(got is not None, f'Its report has no entry "{name}": report everything that `network.test` returns.')
    expect(isinstance(got, int | float), f'Its report has the entry "{name}": {got!r}, which should be a number.')
    expect(
        agree(got, should, atol=1e-6),
        f"In epoch {epoch} it reported the {name} {got:.4f}. "
        'Does it use the weights, the rate and the images "to choose by" that it should?',
    )


def _brief(config: dict) -> str:
    return ", ".join(
        f"{name}={value:.3g}" if isinstance(value, float) else f"{name}={value}" for name, value in config.items()
    )


@exercise(
    points=3,
    minutes=15,
    needs={"CPU": 2},
    hints=[
        "`tune.grid_search(values)` for a list, the value itself for all else: a dictionary comprehension over `space.items()`.",
        'Wrap what a trial asks for around it: `tune.with_resources(trainable, {"cpu": cpus})`.',
        "`tune.TuneConfig(metric=..., mode=..., scheduler=..., reuse_actors=True)` and "
        "`tune.RunConfig(storage_path=..., callbacks=..., verbose=0)`.",
    ],
)
def tuner(answer: Answer, rng: Generator) -> None:
    """Space, resources, scheduler and folder are four separate settings, and a trial knows only its own config."""
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


def _judge_run(seen: given.RunOfGrid, wanted: list[dict], cpus: float, salt: float) -> None:
    """Compare what trials saw with what they should have seen, and the best of them with ours."""
    ran = seen["ran"]
    configs, had = [row["saw"] for row in ran], [row["cpus"] for row in ran]
    expect(_same(wanted, configs), f"The trials had the configs {configs}.")
    expect_equal(had, [cpus] * len(ran), f"The trials had these numbers of CPUs: {had}.")
    _expect_one_report([row["training_iteration"] for row in ran])
    scores = {_brief(config): sum(salt * value for value in config.values()) % 1.0 for config in configs}
    own = all(agree(row["accuracy"], scores[_brief(row["saw"])], atol=1e-6) for row in ran)
    expect(own, "The reports are not those of the function that you were given.")
    best = max(scores, key=lambda name: scores[name])
    taken = seen["best"]
    expect_equal(_brief(taken), best, f"Your Tuner takes {taken} for the best one; the accuracies were {scores}.")


def _expect_one_report(counts: list[int]) -> None:
    ones = [1] * len(counts)
    expect_equal(
        counts,
        ones,
        f"The scheduler that you were given ends a trial at its first report; yours reported {counts} times.",
    )


def _same(wanted: list[dict], got: list[dict]) -> bool:
    """Return whether both hold the same configs, in whatever order."""
    one, other = (sorted(configs, key=lambda config: str(sorted(config.items()))) for configs in (got, wanted))
    return agree(one, other)


def _judge_plan(plan: given.PlanOfGrid, wanted: list[dict], cpus: float) -> None:
    """Refuse at once what cannot come out right: no trial has been started for this."""
    trials = plan["trials"]
    expect(trials, "The `callbacks` never heard of a trial. Do you pass them to the RunConfig?")
    configs, planned, combinations = [trial["config"] for trial in trials], len(trials), len(wanted)
    expect(
        _same(wanted, configs),
        f"The Tuner plans {configs}. Every combination should come once; trials planned: {planned}, combinations: {combinations}.",
    )
    asked, first = [trial["asks for"].get("CPU") for trial in trials], trials[0]["asks for"]
    expect_equal(asked, [cpus] * planned, f"A trial asks for {first}.")
    _judge_settings(plan, ["accuracy", "max"])
    expect(
        plan["reuses"], "Each trial would start a process of its own. Which setting lets it take over an existing one?"
    )
    verbose = plan["verbose"]
    expect_equal(verbose, 0, f"With verbose={verbose} in the RunConfig, Tune prints tables as it runs.")


def _judge_settings(plan: given.Plan, wanted: list[str]) -> None:
    """Results must go into the folder, and the best is what has the highest value of the right entry."""
    expect_equal(plan["trials"][0]["folder"], plan["folder"], "The results would not go into `folder`.")
    metric, mode = plan["best_by"]
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
    """Each epoch has a checkpoint, so you can have the best epoch instead of the last one."""
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
    expect_equal(returned[1], epoch, f"The config is right, the epoch {returned[1]!r} is not.")


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
    minutes=15,
    hints=[
        "Keep a list for each rung: the accuracies that trials had when they reached it.",
        "A trial that stops at a rung has reached it, too. Does its accuracy get into the list before the next trial comes?",
        "`np.percentile` of an empty list fails: the first trial at a rung needs no bar.",
    ],
)
def replay_asha(answer: Answer, rng: Generator) -> None:
    """ASHA decides at once, with the trials that have come by so far: the same trials in another order cost other epochs."""
    # Long: each case is replayed with the usual mistakes, too, so that each of them comes out differently.
    for _ in range(3):
        curves, order, rungs = _telling_case(rng)
        with answer.case(f"{len(curves)} trials in the order {order}, rungs after the epochs {rungs}"):
            returned = answer(curves, order, rungs)
            pair = isinstance(returned, list | tuple) and len(returned) == 2
            expect(pair, f"Return two numbers, the epochs and the best accuracy, not {returned!r}.")
            _judge_replay(returned, curves, order, rungs)


def _judge_replay(returned: Any, curves: list, order: list, rungs: list) -> None:
    epochs, best = _replayed(curves, order, rungs)
    forgets, with_itself, one_list, as_stored, too_high, first_stops = (
        _replayed(curves, order, rungs, name)[0] for name in MISTAKES
    )
    expect_close(
        returned[0],
        epochs,
        f"You counted {returned[0]!r} epochs.",
        mistakes={
            "You get this number of epochs when a rung does not remember the trials that it stops.": forgets,
            "You get this number of epochs when a trial's own accuracy counts among the earlier ones.": with_itself,
            "You get this number of epochs when all rungs share one list.": one_list,
            "You get this number of epochs when the trials come in the order of `curves`.": as_stored,
            "You get this number of epochs when the bar is the best of the earlier accuracies.": too_high,
            "You get this number of epochs when the first trial to reach a rung stops there: there is none to compare it with, so it continues.": first_stops,
        },
    )
    expect_close(
        returned[1],
        best,
        f"The number of epochs is right. The best accuracy that ASHA sees is not {returned[1]!r}.",
        atol=1e-9,
    )


MISTAKES = ["forgets", "with itself", "one list", "as stored", "too high", "first stops"]


def _telling_case(rng: Generator) -> tuple[list, list, list]:
    """Return curves, an order and rungs for which each of the usual mistakes leads to other epochs."""
    while True:
        rungs = [1, int(rng.integers(2, 4)), int(rng.integers(5, 7))]
        curves = (
            np.sort(rng.uniform(0.1, 0.9, size=(12, 8)) * rng.uniform(0.3, 1, size=(12, 1)), axis=1).round(4).tolist()
        )
        curves = [curve[: int(rng.integers(7, 9))] for curve in curves]
        order = rng.permutation(12).tolist()
        epochs, best = _replayed(curves, order, rungs)
        others = {_replayed(curves, order, rungs, name)[0] for name in MISTAKES}
        if len(others | {epochs}) == 7 and best < max(map(max, curves)):
            return curves, order, rungs


def _replayed(curves: list, order: list, rungs: list, mistake: str = "") -> tuple[int, float]:
    """Return the epochs that ASHA trains and the best accuracy that it sees, or what a mistake makes of them."""
    reached: dict[int, list[float]] = {}
    epochs, best = 0, 0.0
    for number in sorted(order) if mistake == "as stored" else order:
        for epoch, accuracy in enumerate(curves[number], 1):
            epochs, best = epochs + 1, max(best, accuracy)
            if epoch in rungs:
                earlier = reached.setdefault(0 if mistake == "one list" else epoch, [])
                compared = [*earlier, accuracy] if mistake == "with itself" else earlier
                bar = np.percentile(compared, 100 if mistake == "too high" else 200 / 3) if compared else 0.0
                stops = accuracy < bar or (mistake == "first stops" and not earlier)
                if not (mistake == "forgets" and stops):
                    earlier.append(accuracy)
                if stops:
                    break
    return epochs, best


@exercise(
    points=3,
    minutes=15,
    needs={"CPU": 2},
    hints=[
        "PPO asks for one CPU for itself and one for each EnvRunner. How many runners leave room for two trials on two CPUs?",
        "`config.training(lr=tune.grid_search(rates))`: the space is the config itself, handed over as `param_space`.",
        'The name is the trainable: `tune.Tuner("PPO", ...)`. What ends a trial is `stop={"training_iteration": ...}` in RunConfig.',
    ],
)
def tune_ppo(answer: Answer, rng: Generator) -> None:
    """An RLlib algorithm is a trial like any other, except that it brings its own request for resources."""
    # Long: a plan is read before any trial starts, so that most mistakes cost no processes; then one trial runs.
    rates = rng.uniform(0.0005, 0.01, size=int(rng.integers(2, 5))).round(5).tolist()
    with answer.case(f"rates={rates}; nothing has been started yet"):
        _judge_plan_of_ppo(answer.probe(given.plan_of_ppo, rates), rates)
    iterations = int(rng.integers(1, 3))
    with answer.case(f"one trial with lr={rates[0]} ran for iterations={iterations}"):
        _judge_run_of_ppo(answer.probe(given.run_of_ppo, rates[0], iterations), rates, iterations)


def _judge_plan_of_ppo(plan: given.PlanOfPPO, rates: list[float]) -> None:
    """Refuse at once what cannot come out right."""
    _judge_search(plan, rates)
    _judge_request(plan["trials"][0])
    _judge_settings(plan, ["env_runners/episode_return_mean", "max"])
    expect(plan["ends"], "Nothing ends a trial, so it would train forever. Which argument of the RunConfig stops it?")


def _judge_run_of_ppo(ran: given.RunOfPPO, rates: list[float], iterations: int) -> None:
    """Judge how long a trial trained, with which rate, and where."""
    count = ran["iterations"]
    expect(count <= iterations, "It kept training after that.")
    expect_equal(count, iterations, f"Its number of iterations was {count}.")
    used = ran["rate"]
    expect_close(used, rates[0], f"Its learner used the rate {used:.3g}.", atol=1e-7)
    expect(not ran["here"], "It ran in the notebook's own process.")


def _judge_search(plan: given.PlanOfPPO, rates: list[float]) -> None:
    """Every rate must have a trial, and two of them must be allowed side by side."""
    schedule, limit = plan["schedule"], plan["limit"]
    expect(
        schedule is None,
        f"The config has lr={schedule}. RLlib takes a list for a schedule of one training. What tells Tune to search it?",
    )
    expect(plan["trials"], "The `callbacks` never heard of a trial. Do you pass them to the RunConfig?")
    expect(limit >= 2, f"Your Tuner lets only this number of trials run at a time: {limit}.")
    got = [trial["config"].get("lr") for trial in plan["trials"]]
    first = rates[:limit]  # the others begin when one of these has ended
    expect(agree(sorted(got, key=str), sorted(first, key=str)), f"The first trials have the learning rates {got}.")


def _judge_request(trial: given.Planned) -> None:
    """Two trials must fit on two CPUs, and the runners of each into what it asks for."""
    asked, needed = trial["asks for"].get("CPU", 0), trial["runners need"]
    runners = trial["config"].get("num_env_runners")
    expect(
        asked <= 1,
        f"A trial asks for {asked:g} CPUs (with num_env_runners={runners}): two do not fit on two CPUs side by side.",
    )
    expect(
        needed <= asked,
        f"A trial asks for {asked:g} CPUs; its EnvRunners (num_env_runners={runners}) alone need {needed:g}: they would wait forever.",
    )


question(
    "last_or_best",
    """
    A trial reports the accuracies 0.3, 0.9, 0.4, another 0.5, 0.6, 0.7. Every epoch has a checkpoint. Which one
    does a plain `results.get_best_result()` give you?

    a) The first: it has reached 0.9.
        That would be `scope="all"`. Without it Tune compares only the last reports, 0.4 and 0.7.
    *b) The second: its last report is higher.
        Right: `scope="last"` is the default, also in `get_dataframe()`.
    c) The second: its mean is higher.
        The mean is higher, 0.6 against 0.53, but that is `scope="avg"`; by default only the last report counts.
    """,
)

question(
    "order_matters",
    """
    Suppose that a grid begins with its worst trial, that each trial is better than the one before, and that one runs at a time. What does ASHA save?

    a) As much as possible: it knows that the first trials are bad.
        It knows nothing when the first one comes: there is no other trial to compare it with.
    *b) Nothing: every trial is the best so far when it reaches a rung.
        Right: no trial is ever below those that came before it. Shuffle what you try.
    c) The same as in any other order, since the same trials run.
        ASHA decides at once, from the trials so far, so the order decides what it sees.
    """,
)

question(
    "what_is_cloned",
    """
    In population-based training a bad trial is told to copy a good one. What does it get?

    a) The good one's learning rate, with which it starts from scratch.
        Then all that the good one learned would be lost, and no *schedule* could arise.
    b) The good one's weights; its own learning rate stays.
        Its own rate led to bad results. It takes over the weights, and a rate near the good one's.
    *c) The good one's weights, and its learning rate changed a little.
        Right: exploit, then explore. So a rate can change in the middle of training.
    """,
)

question(
    "what_was_lost",
    """
    The program that runs Tune is killed with SIGKILL, and you restore. What is trained a second time?

    a) Nothing, since every epoch had written a checkpoint.
        Tune continues from the checkpoints that its last *snapshot* knows. What came after that, it trains again.
    *b) The epochs since the last snapshot, which by default is up to about ten seconds old, and the part of an epoch that was running.
        Right: with short epochs that may be many; with epochs of an hour, mostly the one that was running.
    c) All trials that had not ended, from their beginning.
        That would happen if your trials reported no checkpoints.
    """,
)

question(
    "ppo_pending",
    """
    Ray has 4 logical CPUs. A trial of PPO has 2 EnvRunners and RLlib's defaults otherwise. How many trials run at a time?

    a) Two: four CPUs, two runners each.
        The algorithm itself asks for one more. Two trials ask for six.
    *b) One: it asks for three CPUs, and one stays free.
        Right: 1 + 2. The next trial is PENDING, and one CPU does nothing.
    c) Four: one for each CPU.
        A plain function asks for one CPU unless you say otherwise. PPO brings its own request.
    """,
)
