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
        "Before the loop, call `start = tune.get_checkpoint()`. It's None in a new trial; otherwise, open it and call `network.load(...)`.",
        "`with start.as_directory() as folder: ...` opens a checkpoint. After `network.load(folder)`, `network.epochs` is the number of epochs trained so far.",
        "In each epoch, open a `tempfile.TemporaryDirectory()`. Inside that `with` block, call `network.save(folder)` and then "
        "`tune.report({...}, checkpoint=tune.Checkpoint.from_directory(folder))`.",
    ],
    spare=['    for _ in range(config["epochs"]):'],
)
def objective(answer: Answer, rng: Generator) -> None:
    """A trial that reports a checkpoint after every epoch can stop after any of them and continue on any node."""
    # Long: a trial runs twice, and each of its reports is compared with what our network gives.
    data, epochs, first = _images(rng), int(rng.integers(5, 8)), int(rng.integers(2, 4))
    config = {"lr": float(rng.uniform(0.01, 0.03)), "hidden": int(rng.integers(5, 20)), "epochs": epochs}
    other = config["lr"] * float(rng.uniform(1.5, 2.5))
    network = given.Network(int(config["hidden"]))
    with answer.case(f"a trial with {_brief(config)}, to be stopped after {first} reports"):
        seen = answer.probe(given.two_lives, data, config, first, other)
        _judge_reports(seen["first"], _lived(network, data, config["lr"], first))
        expect(seen["saved"], "None of its reports came with a checkpoint, so it can't continue.")
    with answer.case(
        f"stopped after {first} of {epochs} epochs, and restarted from its checkpoint with lr={other:.3g}"
    ):
        _judge_reports(seen["second"], _lived(network, data, other, epochs - first))


def _images(rng: Generator) -> given.Data:
    """Return images with labels: some for training, some for choosing settings."""
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
    expect(rows, "It reported nothing. Call `tune.report({...})` after every epoch.")
    epochs, expected = [row["epoch"] for row in rows], [row["epoch"] for row in wanted]
    expect_equal(epochs, expected, f'Its reports gave "epoch" as {epochs}; expected: {expected}.')
    for row, should in zip(rows, wanted, strict=True):
        _judge_number("accuracy", row["accuracy"], should["accuracy"], row["epoch"])
        _judge_number("loss", row["loss"], should["loss"], row["epoch"])
    without = [row["epoch"] for row in rows if not row["checkpoint"]]
    expect(not without, f"Its reports of these epochs came without a checkpoint: {without}.")


def _judge_number(name: str, got: Any, should: float, epoch: int) -> None:
    expect(got is not None, f'Its report has no "{name}". Report everything that `network.test` returns.')
    expect(isinstance(got, int | float), f'Its report has the "{name}" {got!r}, which should be a number.')
    expect(
        agree(got, should, atol=1e-6),
        f"In epoch {epoch}, it reported the {name} {got:.4f}. If every epoch so far trained the network once "
        f'on data["train"], at the learning rate of its run, the {name} on data["choose"] is {should:.4f}.',
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
        "Use `tune.grid_search(values)` for a list and the value itself for anything else, in a dictionary comprehension over `space.items()`.",
        'Wrap the trainable with its resources: `tune.with_resources(trainable, {"cpu": cpus})`.',
        "You need `tune.TuneConfig(metric=..., mode=..., scheduler=..., reuse_actors=True)` and "
        "`tune.RunConfig(storage_path=..., callbacks=..., verbose=0)`.",
    ],
)
def tuner(answer: Answer, rng: Generator) -> None:
    """Search space, resources, scheduler, and folder are four separate settings, and a trial receives only its config."""
    # Long: a plan is read before any trial starts, because most mistakes show there and no process has to start; then a few trials run.
    space, cpus = _space(rng), float(rng.choice([0.25, 0.5, 0.75]))
    fixed = {"betas": (0.9, round(float(rng.uniform(0.99, 1)), 4))}  # a tuple isn't a list of values to try
    with answer.case(f"{space | fixed}, cpus={cpus}"):
        wanted = [config | fixed for config in _grid(space)]
        _judge_plan(answer.probe(given.plan_of, space | fixed, cpus), wanted, cpus)
    few = {**space, "hidden": space["hidden"][:1]}
    cpus, salt = float(rng.choice([1.25, 1.5, 1.75])), float(rng.uniform(3, 9))
    with answer.case(f"{few}, cpus={cpus}; the trials ran and recorded what they received"):
        _judge_run(answer.probe(given.run_of, few, cpus, salt), _grid(few), cpus, salt)


def _space(rng: Generator) -> dict:
    """Return a search space: two lists, and one value."""
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
    expect(_same(wanted, configs), f"The trials had these configs: {configs}.")
    expect_equal(had, [cpus] * len(ran), f"The trials had these numbers of CPUs: {had}.")
    _expect_one_report([row["training_iteration"] for row in ran])
    scores = {_brief(config): sum(salt * value for value in config.values()) % 1.0 for config in configs}
    own = all(agree(row["accuracy"], scores[_brief(row["saw"])], atol=1e-6) for row in ran)
    expect(own, "The reports aren't those of the function that was passed to `tuner`.")
    best = max(scores, key=lambda name: scores[name])
    taken = seen["best"]
    expect_equal(_brief(taken), best, f"Your Tuner calls {taken} the best; the accuracies were {scores}.")


def _expect_one_report(counts: list[int]) -> None:
    ones = [1] * len(counts)
    expect_equal(
        counts,
        ones,
        f"The scheduler that was passed to `tuner` ends a trial at its first report; your trials reported this many times: {counts}.",
    )


def _same(wanted: list[dict], got: list[dict]) -> bool:
    """Return whether both hold the same configs, in whatever order."""
    one, other = (sorted(configs, key=lambda config: str(sorted(config.items()))) for configs in (got, wanted))
    return agree(one, other)


def _judge_plan(plan: given.PlanOfGrid, wanted: list[dict], cpus: float) -> None:
    """Refuse what can be seen before any trial has started."""
    trials = plan["trials"]
    expect(trials, "The `callbacks` were never called. Pass them to the RunConfig.")
    configs, planned, combinations = [trial["config"] for trial in trials], len(trials), len(wanted)
    expect(
        _same(wanted, configs),
        f"The Tuner plans {configs}. Each combination should appear once, together with the values that aren't lists; trials planned: {planned}, combinations: {combinations}.",
    )
    requested, first = [trial["requests"].get("CPU") for trial in trials], trials[0]["requests"]
    expect_equal(requested, [cpus] * planned, f"A trial requests {first}; it should request `cpus` CPUs, here {cpus}.")
    _judge_settings(plan, ["accuracy", "max"])
    expect(plan["reuses"], "Each trial would start a new process. Set `reuse_actors` in the TuneConfig.")
    verbose = plan["verbose"]
    expect_equal(
        verbose, 0, f"The RunConfig has verbose={verbose}, set by you or by default, so Tune prints while it runs."
    )


def _judge_settings(plan: given.Plan, wanted: list[str]) -> None:
    """Results must go into the folder, and the best trial must have the highest value of the right entry."""
    expect_equal(
        plan["trials"][0]["folder"],
        plan["folder"],
        "The results wouldn't go into `folder` itself. Look at `storage_path` in the RunConfig.",
    )
    metric, mode = plan["best_by"]
    expect_equal(
        [metric, mode],
        wanted,
        f"The TuneConfig has metric={metric!r}, mode={mode!r}. `metric` names the entry of the reports to compare (a nested entry by its whole path, with slashes), and `mode` says whether its highest or lowest value is best.",
    )


@exercise(
    points=2,
    minutes=10,
    hints=[
        "`results.get_best_result()` compares the *last* report of each trial. Which `scope` compares all of them?",
        "A result has a `config`, and a `metrics_dataframe` with one row per report.",
        "The epoch of the highest accuracy in a frame is `frame.loc[frame['accuracy'].idxmax(), 'epoch']`.",
    ],
)
def best_config(answer: Answer, rng: Generator) -> None:
    """Each epoch has a checkpoint, so you can take the best epoch instead of the last one."""
    for first in (1, int(rng.integers(3, 6))):  # after a restore, rows may be missing
        runs, best = _curves(rng)
        tried = "\n".join(f"{config}: {_told(curve, first)}" for config, curve in runs)
        with answer.case(f"{len(runs)} trials, with rows from epoch {first} on:\n{tried}"):
            _judge_choice(answer.probe(given.judge_results, runs, first), runs, best, first)


def _judge_choice(returned: Any, runs: list, best: int, first: int) -> None:
    """Compare what came back with the best trial and its best epoch."""
    expect(isinstance(returned, list) and len(returned) == 2, f"Return a config and an epoch, not {returned!r}.")
    (config, curve), (got, epoch) = runs[best], returned
    ended = max((run for run in runs if run[1]), key=lambda run: run[1][-1])[0]
    steady = max((run for run in runs if run[1]), key=lambda run: np.mean(run[1]))[0]
    expect(not agree(got, ended), f"You returned the config {got}: that trial has the highest *last* accuracy.")
    expect(not agree(got, steady), f"You returned the config {got}: that trial has the highest *mean* accuracy.")
    expect(agree(got, config), f"You returned the config {got}.")
    expect_equal(epoch, int(np.argmax(curve)) + first, f"The config is right, but the epoch {epoch!r} isn't.")


def _told(curve: list[float], first: int) -> str:
    if not curve:
        return "died before its first report"
    peak, last = first + int(np.argmax(curve)), first + len(curve) - 1
    return f"best {max(curve)} in epoch {peak}, last {curve[-1]} in epoch {last}"


def _curves(rng: Generator) -> tuple[list, int]:
    """Return trials with their accuracies, and the number of the one with the highest: it rises, and then it falls.

    Another trial ends highest, a third has the highest mean, and one died before its first report.
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
        "For each rung, keep a list of the accuracies with which trials reached it.",
        "A trial that stops at a rung has reached it, too, so its accuracy goes into the list before the next trial comes.",
        "`np.percentile` of an empty list fails, so handle the first trial at a rung separately.",
    ],
    spare=["                stops = bool(earlier) and accuracy < max(earlier)"],
)
def replay_asha(answer: Answer, rng: Generator) -> None:
    """ASHA decides at once, from the trials so far, so the order of the trials changes how many epochs it trains."""
    # Long: each case is also replayed with the usual mistakes, and each of them must give another number.
    for _ in range(3):
        curves, order, rungs = _telling_case(rng)
        with answer.case(f"{len(curves)} trials in the order {order}, rungs after the epochs {rungs}"):
            returned = answer(curves, order, rungs)
            pair = isinstance(returned, list | tuple) and len(returned) == 2
            expect(pair, f"Return two numbers, the epochs and the best accuracy, not {returned!r}.")
            _judge_replay(returned, curves, order, rungs)


def _judge_replay(returned: Any, curves: list, order: list, rungs: list) -> None:
    epochs, best, ended = _replayed(curves, order, rungs)
    forgets, with_itself, one_list, as_stored, too_high, first_stops, at_the_bar = (
        _replayed(curves, order, rungs, name)[0] for name in MISTAKES
    )
    expect_close(
        returned[0],
        epochs,
        f"You counted {returned[0]!r} epochs; expected: {epochs}.",
        mistakes={
            "That's the number of epochs if a rung forgets the trials that stop there.": forgets,
            "That's the number of epochs if a trial's own accuracy counts among the earlier ones.": with_itself,
            "That's the number of epochs if all rungs share one list.": one_list,
            "That's the number of epochs if the trials come in the order of `curves`.": as_stored,
            "That's the number of epochs if the bar is the best of the earlier accuracies.": too_high,
            "That's the number of epochs if the first trial to reach a rung stops there. With nothing to compare it with, it continues.": first_stops,
            "That's the number of epochs if a trial exactly at the bar stops. Only a trial below the bar does.": at_the_bar,
        },
    )
    expect_close(
        returned[1],
        best,
        f"The number of epochs is right. The best accuracy that ASHA sees isn't {returned[1]!r}.",
        atol=1e-9,
        mistakes={
            "The number of epochs is right, but your best accuracy is the best of the trials' last accuracies.": ended
        },
    )


MISTAKES = ["forgets", "with itself", "one list", "as stored", "too high", "first stops", "at the bar"]


def _telling_case(rng: Generator) -> tuple[list, list, list]:
    """Return curves, an order, and rungs for which each of the usual mistakes gives another result.

    The second trial meets the bar of the first rung exactly, and trials get worse again after their best epoch.
    """
    while True:
        rungs = [1, int(rng.integers(2, 4)), int(rng.integers(5, 7))]
        table = np.sort(rng.uniform(0.1, 0.9, size=(12, 8)) * rng.uniform(0.3, 1, size=(12, 1)), axis=1)
        table[:, -4:] = rng.permuted(table[:, -4:], axis=1)
        order = rng.permutation(12).tolist()
        table[order[1], 0] = table[order[0], 0]
        curves = [curve[: int(rng.integers(7, 9))] for curve in table.round(4).tolist()]
        epochs, best, ended = _replayed(curves, order, rungs)
        others = {_replayed(curves, order, rungs, name)[0] for name in MISTAKES}
        if len(others | {epochs}) == len(MISTAKES) + 1 and ended < best < max(map(max, curves)):
            return curves, order, rungs


def _replayed(curves: list, order: list, rungs: list, mistake: str = "") -> tuple[int, float, float]:
    """Return the epochs that ASHA trains, the best accuracy it sees, and the best that a trial ends with, or what a mistake makes of them."""
    reached: dict[int, list[float]] = {}
    epochs, best, ended = 0, 0.0, 0.0
    for number in sorted(order) if mistake == "as stored" else order:
        for epoch, accuracy in enumerate(curves[number], 1):
            epochs, best = epochs + 1, max(best, accuracy)
            if epoch in rungs:
                earlier = reached.setdefault(0 if mistake == "one list" else epoch, [])
                compared = [*earlier, accuracy] if mistake == "with itself" else earlier
                bar = np.percentile(compared, 100 if mistake == "too high" else 200 / 3) if compared else 0.0
                stops = accuracy <= bar if mistake == "at the bar" else accuracy < bar
                stops = stops or (mistake == "first stops" and not earlier)
                if not (mistake == "forgets" and stops):
                    earlier.append(accuracy)
                if stops:
                    break
        ended = max(ended, accuracy)
    return epochs, best, ended


@exercise(
    points=3,
    minutes=15,
    needs={"CPU": 2},
    hints=[
        "PPO requests one CPU for its main process and one for each EnvRunner. How many EnvRunners leave room for two trials on two CPUs?",
        "The search space is the config itself: pass `config.training(lr=tune.grid_search(rates))` as `param_space`.",
        'The name is the trainable: `tune.Tuner("PPO", ...)`. In the RunConfig, `stop={"training_iteration": ...}` ends a trial.',
    ],
)
def tune_ppo(answer: Answer, rng: Generator) -> None:
    """An RLlib algorithm is a trial like any other, except that it determines what resources it requests."""
    # Long: a plan is read before any trial starts, because most mistakes show there and no process has to start; then one trial runs.
    rates = rng.uniform(0.0005, 0.01, size=int(rng.integers(2, 5))).round(5).tolist()
    gamma = round(float(rng.uniform(0.9, 0.98)), 3)
    with answer.case(f"a config with gamma={gamma}, rates={rates}; nothing has been started yet"):
        _judge_plan_of_ppo(answer.probe(given.plan_of_ppo, rates, gamma), rates, gamma)
    iterations = int(rng.integers(1, 3))
    with answer.case(f"one trial with lr={rates[0]} ran for iterations={iterations}"):
        _judge_run_of_ppo(answer.probe(given.run_of_ppo, rates[0], iterations), rates, iterations)


def _judge_plan_of_ppo(plan: given.PlanOfPPO, rates: list[float], gamma: float) -> None:
    """Refuse what can be seen before any trial has started."""
    _judge_search(plan, rates)
    _judge_request(plan["trials"][0])
    used = plan["trials"][0]["gamma"]
    expect_equal(
        used,
        gamma,
        f"The trials use gamma={used}, not {gamma}, so they don't start from the `config` that was passed, or something overwrites its gamma.",
    )
    _judge_settings(plan, ["env_runners/episode_return_mean", "max"])
    expect(plan["ends"], "The RunConfig has no `stop`. It should end each trial after `iterations` iterations.")
    expect(
        not plan["reuses"],
        "With `reuse_actors=True`, a PPO trial that takes over another trial's process ends as ERROR.",
    )


def _judge_run_of_ppo(ran: given.RunOfPPO, rates: list[float], iterations: int) -> None:
    """Judge how long a trial trained, with which rate, and where."""
    count = ran["iterations"]
    expect(count <= iterations, "It kept training after that.")
    expect_equal(count, iterations, f"It trained for this number of iterations: {count}.")
    used = ran["rate"]
    expect_close(used, rates[0], f"Its learner used the learning rate {used:.3g}.", atol=1e-7)
    expect(not ran["here"], "It ran in the notebook's own process.")


def _judge_search(plan: given.PlanOfPPO, rates: list[float]) -> None:
    """Every rate must have a trial, and two trials must be allowed side by side."""
    schedule, limit = plan["schedule"], plan["limit"]
    expect(
        schedule is None,
        f"The config has lr={schedule}. RLlib takes such a list as the schedule of one run. Mark it as a search with `tune.grid_search`.",
    )
    expect(plan["trials"], "The `callbacks` were never called. Pass them to the RunConfig.")
    expect(
        limit >= 2, f"Your Tuner lets only this number of trials run at a time: {limit}. Two should run side by side."
    )
    got = [trial["config"].get("lr") for trial in plan["trials"]]
    first = rates[:limit]  # the others begin when one of these has ended
    expect(
        agree(sorted(got, key=str), sorted(first, key=str)),
        f"The first trials have these learning rates: {got}; expected: {first}.",
    )


def _judge_request(trial: given.Planned) -> None:
    """Two trials must fit on two CPUs, and the EnvRunners of each must fit into what it requests."""
    requested, needed = trial["requests"].get("CPU", 0), trial["runners need"]
    runners = trial["config"].get("num_env_runners")
    expect(
        requested <= 1,
        f"A trial requests {requested:g} CPUs (with num_env_runners={runners}), so two don't fit on two CPUs.",
    )
    expect(
        needed <= requested,
        f"A trial requests {requested:g} CPUs, but its EnvRunners (num_env_runners={runners}) need {needed:g}, so they would wait forever.",
    )


question(
    "last_or_best",
    """
    One trial reports the accuracies 0.3, 0.9, and 0.4, and another reports 0.5, 0.6, and 0.7. Which trial does a plain `results.get_best_result()` return?

    a) The first, because it reached 0.9.
        You'd get it with `scope="all"`. By default, Tune compares only the last reports, 0.4 and 0.7.
    *b) The second, because its last report is higher.
        Right: `scope="last"` is the default, and `get_dataframe()` takes the last reports, too.
    c) The second, because its mean is higher.
        Its mean is higher, 0.6 against 0.53, but to compare means, you'd set `scope="avg"`. By default, only the last report counts.
    """,
)

question(
    "order_matters",
    """
    A grid starts with its worst trial, and in every epoch, each trial is better than the one before it. One trial runs at a time. How many epochs does Ray's ASHA save?

    a) As many as possible, because it knows that the first trials are bad.
        When the first trial comes, ASHA has no other trial to compare it with.
    *b) None, because every trial is the best so far when it reaches a rung.
        Right: no trial is ever below the ones before it. So shuffle your trials. (The paper's ASHA, which promotes, would save some even here.)
    c) As many as in any other order, because the same trials run.
        ASHA decides at once, from the trials so far, so the order changes what it compares.
    """,
)

question(
    "what_is_cloned",
    """
    In population-based training, a bad trial copies a good one. What does it get?

    a) The good one's learning rate, with which it starts from scratch.
        Then everything that the good trial has learned would be lost, and the rate could never change mid-training.
    b) The good one's weights; it keeps its own learning rate.
        Its own rate led to bad results, so it gets a rate near the good one's along with the weights.
    *c) The good one's weights, and its learning rate, changed a little.
        Right: exploit, then explore. That's how a learning rate can change mid-training.
    """,
)

question(
    "what_was_lost",
    """
    The program that runs Tune is killed with SIGKILL, and you restore the experiment. What does Tune train a second time?

    a) Nothing, because every epoch wrote a checkpoint.
        Tune continues from the checkpoints that the last *snapshot* lists. It trains everything after them again.
    *b) The epochs since the last snapshot, which by default is up to about ten seconds old, and the epoch that was running.
        Right: if epochs are short, that can be many of them. If an epoch takes an hour, it's mostly the one that was running.
    c) All trials that hadn't ended, from the beginning.
        That would happen if your trials reported no checkpoints.
    """,
)

question(
    "ppo_pending",
    """
    Ray has 4 logical CPUs. Each trial of PPO has 2 EnvRunners and otherwise RLlib's defaults. How many trials run at a time?

    a) Two, because four CPUs are enough for two EnvRunners each.
        The main process of each trial requests a CPU as well, so two trials request six.
    *b) One: it requests three CPUs, and one stays free.
        Right: 1 + 2. The next trial is PENDING, and the fourth CPU stays idle.
    c) Four, one per CPU.
        A plain function requests one CPU unless you say otherwise, but PPO determines its own request.
    """,
)
