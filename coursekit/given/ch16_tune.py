"""What chapter 16 hands out, and the probes that drive its answers."""

import contextlib
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import psutil

from coursekit.basics.progress_bar import progress_bar
from coursekit.ray_bridge import private
from coursekit.ray_bridge.rendezvous import expect_ray

Data = dict[str, tuple[np.ndarray, np.ndarray]]
PIXELS, CLASSES = 64, 10
FILE = "network.npz"
PPO_SETTINGS = ("lr", "num_env_runners")  # what the chapter shows of the two hundred settings in its config


class Network:
    """A classifier of digits with one hidden layer, in NumPy: `train` trains for one epoch, and `test` measures it."""

    def __init__(self, hidden: int, seed: int = 0):
        rng = np.random.default_rng(seed)
        self.seed, self.epochs = seed, 0
        self.weights = [
            rng.normal(0, np.sqrt(2 / PIXELS), (PIXELS, hidden)),
            np.zeros(hidden),
            rng.normal(0, np.sqrt(2 / hidden), (hidden, CLASSES)),
            np.zeros(CLASSES),
        ]
        self.speeds = [np.zeros_like(weights) for weights in self.weights]

    def train(self, x: np.ndarray, y: np.ndarray, lr: float, batch: int = 32, momentum: float = 0.9) -> None:
        """Go over all images once, in an order that depends on the seed and the epoch alone; `x` is [N, 64], `y` [N]."""
        order = np.random.default_rng([self.seed, self.epochs]).permutation(len(x))
        with np.errstate(all="ignore"):  # with a large learning rate, the weights may overflow
            for rows in np.array_split(order, max(1, len(x) // batch)):
                for weights, speed, slope in zip(
                    self.weights, self.speeds, self._slopes(x[rows], y[rows]), strict=True
                ):
                    speed *= momentum
                    speed -= lr * slope
                    weights += speed
        self.epochs += 1

    def test(self, x: np.ndarray, y: np.ndarray) -> dict[str, float]:
        """Return the accuracy (the fraction of images classified correctly) and the loss."""
        with np.errstate(all="ignore"):
            _, logs = self._forward(x)
        return {"accuracy": float((logs.argmax(axis=1) == y).mean()), "loss": float(-logs[np.arange(len(y)), y].mean())}

    def save(self, folder: str | Path) -> None:
        """Write the weights, the momentum, and the number of epochs into a folder."""
        np.savez(Path(folder) / FILE, *self.weights, *self.speeds, epochs=self.epochs)

    def load(self, folder: str | Path) -> None:
        """Become the network that was saved in a folder."""
        with np.load(Path(folder) / FILE) as saved:
            arrays = [saved[f"arr_{number}"] for number in range(8)]
            self.weights, self.speeds, self.epochs = arrays[:4], arrays[4:], int(saved["epochs"])

    def _forward(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the hidden layer and the log-probability of each class."""
        first, first_bias, second, second_bias = self.weights
        hidden = np.maximum(x @ first + first_bias, 0)
        raw = hidden @ second + second_bias
        raw = raw - raw.max(axis=1, keepdims=True)
        return hidden, raw - np.log(np.exp(raw).sum(axis=1, keepdims=True))

    def _slopes(self, x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
        """Return the gradient of the mean loss with respect to each of the weights."""
        hidden, logs = self._forward(x)
        error = np.exp(logs)
        error[np.arange(len(y)), y] -= 1
        error /= len(y)
        back = (error @ self.weights[2].T) * (hidden > 0)
        return [x.T @ back, back.sum(axis=0), hidden.T @ error, error.sum(axis=0)]


def digits() -> Data:
    """Return scikit-learn's 1,797 digits in three parts: to train with, to choose settings with, and to test once, at the end."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    x, y = x[order] / 16, y[order]
    return {
        "train": (x[:1000], y[:1000]),
        "choose": (x[1000:1400], y[1000:1400]),
        "once": (x[1400:], y[1400:]),
    }


def diary(rows: list[dict]) -> Any:
    """Return a callback for Tune that adds a row to `rows` for every report, in the order of arrival."""
    from ray import tune

    class Diary(tune.Callback):
        def on_trial_result(self, iteration: int, trials: list, trial: Any, result: dict, **info: Any) -> None:
            number = next(index for index, other in enumerate(trials) if other.trial_id == trial.trial_id)
            rows.append(
                {"trial": number, "lr": result["config"]["lr"]} | {name: result[name] for name in ("epoch", "accuracy")}
            )

    return Diary()


def running(counts: list[int]) -> Any:
    """Return a callback for Tune that adds to `counts` how many trials are RUNNING, at each of Tune's steps."""
    from ray import tune

    class Running(tune.Callback):
        def on_step_end(self, iteration: int, trials: list, **info: Any) -> None:
            counts.append(sum(trial.status == "RUNNING" for trial in trials))

    return Running()


@contextlib.contextmanager
def bar_of(results: int) -> Iterator[Any]:
    """Yield a callback for Tune that moves a bar on with each result that a trial reports, up to `results` of them."""
    from ray import tune

    with progress_bar(results, "training the trials") as step:

        class Bar(tune.Callback):
            def on_trial_result(self, iteration: int, trials: list, trial: Any, result: dict, **info: Any) -> None:
                step()

        yield Bar()


def ancestry(rows: list[dict], folder: Path, trial: int) -> list[dict]:
    """Return how the weights of a trial were trained: each row has a first epoch, a trial, and a learning rate.

    `rows` is the diary. Tune records which trial copied which in the folder (`pbt_policy_….txt`).
    """
    experiment = max(path for path in folder.iterdir() if path.is_dir())  # their names end with the time
    copies = [json.loads(line) for path in experiment.glob(f"pbt_policy_*_{trial:05}.txt") for line in path.open()]
    found, now = [], trial
    for taker, giver, *epochs, _, config in reversed(copies):
        if int(taker.split("_")[0]) != now:
            break  # an earlier copy, which was thrown away later
        found.append({"from epoch": max(epochs) + 1, "in trial": now, "lr": config["lr"]})
        now = int(giver.split("_")[0])
    first = next(row["lr"] for row in rows if row["trial"] == now)
    return [{"from epoch": 1, "in trial": now, "lr": first}, *reversed(found)]


# An experiment in a process of its own, which can be killed.


class Elsewhere:
    """A program that joins this Ray, makes a Tuner, and fits it: `process` is the program, and `log` is its output."""

    def __init__(self, make_tuner: Callable, folder: str | Path):
        import ray
        from ray import cloudpickle

        self.folder = Path(folder)
        shutil.rmtree(self.folder, ignore_errors=True)  # what an earlier run of the cell has left
        self.folder.mkdir(parents=True)
        recipe, self.log = self.folder / "recipe.pkl", self.folder / "log.txt"
        recipe.write_bytes(cloudpickle.dumps(make_tuner))
        address = ray.get_runtime_context().gcs_address
        command = [sys.executable, "-c", f"from {__name__} import fit_recipe; fit_recipe()", str(recipe), address]
        keeps = os.environ | {"TUNE_GLOBAL_CHECKPOINT_S": "0.2", "RAY_AIR_NEW_OUTPUT": "0"}
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=keeps)

    def saved(self) -> dict[str, int]:
        """Return for each trial, by the name of its folder, how many checkpoints it has written."""
        folders = [path for path in self.folder.glob("*/*") if path.is_dir()]
        return {path.name: len(list(path.glob("checkpoint_*"))) for path in sorted(folders)}

    def known(self) -> dict[str, int]:
        """Return for each trial how many epochs the last snapshot of the experiment lists; empty before the first snapshot."""
        return self._of_trials("training_iteration")

    def _of_trials(self, entry: str) -> dict[str, int]:
        """Return for each trial in the last snapshot an entry of its last report, 0 before the first report."""
        from ray.tune import ExperimentAnalysis

        try:
            [experiment] = [path for path in self.folder.iterdir() if path.is_dir()]
            state = max(experiment.glob("experiment_state-*.json"))
            trials = ExperimentAnalysis(str(state)).trials
        except Exception:  # there is none yet, or it is just being written
            return {}
        return {trial.storage.trial_dir_name: trial.last_result.get(entry, 0) for trial in trials}

    def trials_alive(self, seconds: float) -> int:
        """Return how many processes of the trials in the last snapshot still run; wait up to `seconds` for all of them to exit."""
        pids = {pid for pid in self._of_trials("pid").values() if pid}
        processes = [each for each in psutil.process_iter() if each.pid in pids]
        _, alive = psutil.wait_procs(processes, timeout=seconds)
        return len(alive)

    def run_until(self, trials: int, epochs: int) -> None:
        """Return when a snapshot lists this number of trials with this number of epochs each, or when the program has ended."""
        while self.process.poll() is None:
            known = self.known()
            if len(known) == trials and min(known.values()) >= epochs:
                break
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill the program as the operating system does, so that no handler runs; between two snapshots, not within one."""
        with contextlib.suppress(ProcessLookupError):
            for _ in range(20):
                os.kill(self.process.pid, signal.SIGSTOP)
                if self.known() and time.time() - self._last_written() > 0.05:
                    break
                os.kill(self.process.pid, signal.SIGCONT)
                time.sleep(0.03)
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _last_written(self) -> float:
        return max(path.stat().st_mtime for path in self.folder.glob("*/*"))


def restored_table(results: Any, before: dict[str, int], known: dict[str, int], killed_at: float) -> Any:
    """Return a table of restored trials: what each had when it was killed (`before`, `known`), and what it trained since."""
    import pandas

    rows = []
    for result in sorted(results, key=lambda result: result.config["lr"]):
        last, name = result.metrics, Path(result.path).name
        again = last["timestamp"] > killed_at
        trained = last["iterations_since_restore"] if again else 0
        start = f"continues after epoch {last['epoch'] - trained}" if again else "not run again"
        twice = before[name] + trained - last["epoch"]
        rows.append([result.config["lr"], before[name], known.get(name), start, trained, twice, last["epoch"]])
    names = [
        "lr",
        "checkpoints",
        "epochs in snapshot",
        "restored",
        "epochs since",
        "trained twice",
        "epochs in the end",
    ]
    return pandas.DataFrame(rows, columns=names).set_index("lr")


def fit_recipe() -> None:
    """Run as the program: make the Tuner of the recipe, in the Ray at the address, and fit it."""
    import ray

    recipe, address = sys.argv[1:]
    ray.init(address=address, log_to_driver=False)
    pickle.loads(Path(recipe).read_bytes())().fit()


# Probes: each drives a learner's object with the judge's inputs, and returns raw results.


@contextlib.contextmanager
def _trial(objective: Callable, config: dict, folder: str) -> Iterator[Any]:
    """Yield the object that a trial's actor would hold, made by Tune itself, here in this process."""
    StorageContext = private.StorageContext
    from ray.tune.trainable.function_trainable import wrap_function

    storage = StorageContext(storage_path=folder, experiment_dir_name="check", trial_dir_name="trial")
    trial = wrap_function(objective)(config=dict(config), storage=storage)
    try:
        yield trial
    finally:
        trial.stop()


class Report(TypedDict):
    """What a trial reported of an epoch, and whether a checkpoint came with it."""

    epoch: Any
    accuracy: Any
    loss: Any
    checkpoint: bool


class Lives(TypedDict):
    """The reports of a trial's two runs, and whether there was a checkpoint between them."""

    first: list[Report]
    saved: bool
    second: list[Report]


def two_lives(objective: Callable, data: dict, config: dict, epochs: int, other_rate: float) -> Lives:
    """Return what a trial reports in a run of `epochs` epochs, and in a second run that starts from its checkpoint.

    The second run has another learning rate, as it may have in population-based training.
    """
    expect_ray()
    with tempfile.TemporaryDirectory() as folder:
        seen: Lives = {"first": [], "saved": False, "second": []}
        with _trial(lambda given: objective(given, data), config, folder) as trial:
            seen["first"] = _reports(trial, epochs)
            if len(seen["first"]) < epochs:
                return seen
            saved = trial.save()
        seen["saved"] = saved is not None and saved.checkpoint is not None
        if seen["saved"]:
            with _trial(lambda given: objective(given, data), config | {"lr": other_rate}, folder) as trial:
                trial.restore(saved)
                seen["second"] = _reports(trial, config["epochs"] + 2)
        return seen


def _reports(trial: Any, most: int) -> list[Report]:
    """Return the first reports of a trial, and whether each had a checkpoint, without what else Tune adds to them."""
    rows: list[Report] = []
    while len(rows) < most:
        result = trial.train()
        if result.get("__duplicate__"):  # the function has returned
            break
        epoch, accuracy, loss = (result.get(name) for name in ("epoch", "accuracy", "loss"))
        saves = bool(result.get("should_checkpoint"))
        rows.append({"epoch": epoch, "accuracy": accuracy, "loss": loss, "checkpoint": saves})
    return rows


class Seen(Exception):
    """Ends an experiment of which enough has been seen."""


# A trial before it starts; the chapter shows these names as the columns of a table.
Planned = TypedDict(
    "Planned",
    {
        "config": dict[str, Any],
        "requests": dict[str, float],
        "runners need": float,
        "status": str,
        "folder": str,
        "gamma": float | None,
    },
)


def watcher(rows: list[Planned], seconds: float = 0.0) -> Any:
    """Return a callback for Tune: after some seconds, it adds a row for each trial and ends the experiment."""
    from ray import tune

    class Watcher(tune.Callback):
        def setup(self, **info: Any) -> None:
            self.start = time.monotonic()

        def on_step_begin(self, iteration: int, trials: list, **info: Any) -> None:
            if trials and time.monotonic() - self.start >= seconds:
                rows.extend(_row(trial) for trial in trials)
                raise Seen

    return Watcher()


def _row(trial: Any) -> Planned:
    return {
        "config": {name: trial.config[name] for name in PPO_SETTINGS if "env" in trial.config} or dict(trial.config),
        "requests": dict(trial.placement_group_factory.required_resources),
        "runners need": trial.config.get("num_env_runners", 0) * trial.config.get("num_cpus_per_env_runner", 1),
        "status": trial.status,
        "folder": str(Path(trial.storage.experiment_fs_path).parent),
        "gamma": trial.config.get("gamma"),
    }


def after(seconds: float, make_tuner: Callable) -> list[Planned]:
    """Return a row for each trial of an experiment, as it is after some seconds, and end the experiment.

    `make_tuner` takes the callbacks that the Tuner must use.
    """
    rows: list[Planned] = []
    watching = watcher(rows, seconds)
    tuner = make_tuner([watching])
    if watching in (tuner._local_tuner.get_run_config().callbacks or []):  # else nothing would end it
        with contextlib.suppress(Seen):
            tuner.fit()
        for thread in threading.enumerate():  # in which Tune still copies the experiment's state into its folder
            if thread.name.endswith("(entrypoint)"):
                thread.join()
    return rows


@contextlib.contextmanager
def _nothing_starts() -> Iterator[None]:
    """Reserve all CPUs of each node meanwhile, so that every trial stays PENDING: a plan is read without a process."""
    import ray
    from ray.util.placement_group import placement_group, remove_placement_group

    expect_ray()
    resources = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    held = placement_group([{"CPU": each["CPU"]} for each in resources if each.get("CPU")])
    try:
        if not held.wait(60):
            raise RuntimeError(
                "Something else still uses Ray's CPUs. Wait for it to end, or run the notebook's first cells again."
            )
        yield
    finally:
        remove_placement_group(held)


class Plan(TypedDict):
    """The first trials that a Tuner would start, its folder, its metric and mode, and whether trials take over processes."""

    trials: list[Planned]
    folder: str
    best_by: tuple[Any, Any]
    reuses: bool


class PlanOfGrid(Plan):
    """A plan, and how much Tune would print."""

    verbose: int


def plan_of(tuner: Callable, space: dict, cpus: float) -> PlanOfGrid:
    """Return the trials that a Tuner would run, before any of them starts, its folder, and some of its settings."""
    plan: PlanOfGrid = {"trials": [], "folder": "", "best_by": (None, None), "reuses": False, "verbose": 0}
    with tempfile.TemporaryDirectory() as folder:
        folder = str(Path(folder).resolve())

        def made(callbacks: list) -> Any:
            made = _not_fitted(tuner, lambda config: None, space, cpus, folder, callbacks=callbacks)
            search, run = made._local_tuner._tune_config, made._local_tuner.get_run_config()
            plan["best_by"] = search.metric, search.mode
            plan["reuses"], plan["verbose"] = bool(search.reuse_actors), int(run.verbose)
            return made

        with _nothing_starts():
            plan["trials"], plan["folder"] = after(0, made), folder
            return plan


def _not_fitted(function: Callable, *args: Any, **kwargs: Any) -> Any:
    """Return the Tuner that a function returns; raise if it is something else, or if the function fits it."""
    from unittest import mock

    from ray import tune

    def fit(tuner: Any) -> None:
        raise TypeError("The function called fit(). It must return the Tuner without starting it.")

    with mock.patch.object(tune.Tuner, "fit", fit):
        tuner = function(*args, **kwargs)
    if not isinstance(tuner, tune.Tuner):
        raise TypeError(f"The function returned {type(tuner).__name__}. It must return a Tuner.")
    return tuner


class Ran(TypedDict):
    """What a trial received and reported."""

    saw: dict[str, Any]
    cpus: Any
    accuracy: Any
    training_iteration: Any


class RunOfGrid(TypedDict):
    """What the trials of an experiment received, and the config that Tune calls the best."""

    ran: list[Ran]
    best: dict[str, Any]


def run_of(tuner: Callable, space: dict, cpus: float, salt: float) -> RunOfGrid:
    """Return what the trials of an experiment received, and which one Tune calls the best.

    The trials would report three times; a scheduler ends each of them after its first report.
    """
    import ray
    from ray import tune
    from ray.tune.schedulers import ASHAScheduler

    def record(config: dict) -> None:
        given = ray.get_runtime_context().get_assigned_resources()
        for turn in range(3):
            score = sum((salt + 10 * turn) * value for value in config.values()) % 1.0
            tune.report({"accuracy": score, "saw": dict(config), "cpus": given.get("CPU", 0.0)})

    with tempfile.TemporaryDirectory() as folder:
        results = tuner(record, space, cpus, folder, scheduler=ASHAScheduler(max_t=1)).fit()
        ran = [_ran(one.metrics) for one in results]
        return {"ran": ran, "best": dict(results.get_best_result().config)}


def _ran(metrics: dict) -> Ran:
    cpus, accuracy, iteration = (metrics.get(name) for name in ("cpus", "accuracy", "training_iteration"))
    return {"saw": metrics.get("saw") or {}, "cpus": cpus, "accuracy": accuracy, "training_iteration": iteration}


def scripted(runs: list, first: int, folder: str) -> Any:
    """Return results as Tune gives them, of trials whose accuracies were written beforehand: `runs` holds (config, accuracies).

    The accuracies are those of epoch `first` and the following ones. A trial without accuracies died before its first report.
    """
    _TrainingResult = private.TrainingResult
    StorageContext = private.StorageContext
    from ray.tune import Checkpoint, ExperimentAnalysis, ResultGrid
    from ray.tune.experiment import Trial

    trials = []
    for number, (config, accuracies) in enumerate(runs):
        storage = StorageContext(folder, "scripted", trial_dir_name=f"trial_{number}")
        trial = Trial("scripted", config=config, trial_id=f"{number:05}", storage=storage, stub=True)
        rows = [
            {
                "accuracy": accuracy,
                "epoch": epoch,
                "training_iteration": epoch,
                "config": config,
                "trial_id": trial.trial_id,
            }
            for epoch, accuracy in enumerate(accuracies, first)
        ]
        path = Path(storage.trial_fs_path)
        path.mkdir(parents=True)
        for row in rows:
            trial.update_last_result(dict(row))
            checkpoint = path / f"checkpoint_{row['epoch']:06}"
            checkpoint.mkdir()
            saved = _TrainingResult(Checkpoint(str(checkpoint)), dict(row))
            trial.run_metadata.checkpoint_manager.register_checkpoint(saved)
        (path / "result.json").write_text("\n".join(json.dumps(row) for row in rows))
        trial.status = Trial.TERMINATED if rows else Trial.ERROR
        trials.append(trial)
    state = f"{folder}/scripted/experiment_state.json"  # Tune does not read it, as the trials are here
    return ResultGrid(ExperimentAnalysis(state, trials=trials, default_metric="accuracy", default_mode="max"))


def judge_results(function: Callable, runs: list, first: int) -> Any:
    """Return what a function makes of scripted results, whose rows begin with epoch `first`."""
    with tempfile.TemporaryDirectory() as folder:
        returned = function(scripted(runs, first, folder))
        return list(returned) if isinstance(returned, tuple) else returned


def small_ppo() -> Any:
    """Return PPO for CartPole with RLlib's defaults, except for small batches and a small network."""
    from ray import tune
    from ray.rllib.algorithms.ppo import PPO, PPOConfig
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

    # Tune keeps trainables by name, and `tune.with_resources(PPO, ...)` in an earlier attempt has taken this one.
    tune.register_trainable("PPO", PPO)
    return (
        PPOConfig()
        .environment("CartPole-v1")
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64, 64]))
        .training(train_batch_size_per_learner=512, minibatch_size=128, num_epochs=6)
        .debugging(seed=0, log_sys_usage=False)
    )


class PlanOfPPO(Plan):
    """A plan, a learning rate that is a list, whether something ends a trial, and how many trials may run at a time."""

    schedule: list[Any] | None
    ends: bool
    limit: int


def plan_of_ppo(tune_ppo: Callable, rates: list[float], gamma: float) -> PlanOfPPO:
    """Return the first trials that a Tuner of PPO would start, before any of them starts, and its settings."""
    plan: PlanOfPPO = {
        "trials": [],
        "folder": "",
        "best_by": (None, None),
        "reuses": False,
        "schedule": None,
        "ends": False,
        "limit": 0,
    }
    with tempfile.TemporaryDirectory() as folder:
        folder = str(Path(folder).resolve())

        def made(callbacks: list) -> Any:
            config = small_ppo().training(gamma=gamma)
            tuner = _not_fitted(tune_ppo, config, rates, 1, folder, callbacks=callbacks)
            search = tuner._local_tuner._tune_config
            plan["reuses"] = bool(search.reuse_actors)
            plan["ends"] = tuner._local_tuner.get_run_config().stop is not None
            plan["limit"] = min(search.max_concurrent_trials or len(rates), len(rates))
            plan["best_by"] = search.metric, search.mode
            lr = (tuner._local_tuner.param_space or {}).get("lr")
            if isinstance(lr, list | tuple):
                plan["schedule"] = list(lr)
                raise Seen  # this isn't the form of a schedule, so Tune would raise
            return tuner

        with _nothing_starts(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Gymnasium's, about CartPole's bounds
            with contextlib.suppress(Seen):
                plan["trials"] = after(0, made)
            plan["folder"] = folder
            return plan


class RunOfPPO(TypedDict):
    """What a trial of PPO did: its iterations, the learning rate of its learner, whether it ran in this process."""

    iterations: int
    rate: float
    here: bool


def run_of_ppo(tune_ppo: Callable, rate: float, iterations: int) -> RunOfPPO:
    """Return what a trial of PPO did: its iterations, the learning rate of its learner, where it ran."""
    from ray import tune

    class Limit(tune.Callback):
        reached = False

        def on_trial_result(self, iteration: int, trials: list, trial: Any, result: dict, **info: Any) -> None:
            if result["training_iteration"] > iterations:
                self.reached = True
                raise Seen

    limit = Limit()
    with tempfile.TemporaryDirectory() as folder:
        try:
            results = tune_ppo(small_ppo(), [rate], iterations, folder, callbacks=[limit]).fit()
        except tune.TuneError:
            if limit.reached:
                return {"iterations": iterations + 1, "rate": rate, "here": False}
            raise
        best = results.get_best_result(metric="env_runners/episode_return_mean", mode="max")
        learner = best.metrics["learners"]["default_policy"]
        return {
            "iterations": best.metrics["training_iteration"],
            "rate": float(learner["default_optimizer_learning_rate"]),
            "here": best.metrics["pid"] == os.getpid(),
        }
