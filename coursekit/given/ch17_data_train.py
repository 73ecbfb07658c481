"""What chapter 17 hands out: digits, a rehearsal of training loops in processes of their own, a killer; and the probes."""

import contextlib
import hashlib
import itertools
import json
import logging
import multiprocessing
import os
import re
import shutil
import signal
import sys
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from multiprocessing import spawn
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NotRequired, TypedDict
from unittest import mock

import numpy as np

from coursekit.given.folders import wait_until
from coursekit.judging.failure import describe
from coursekit.ray_bridge import private, rendezvous

# What one worker did, in order: ["rows", ids], ["before", weights], ["step", weights], ["report", metrics]
Log = list[list]
Kill = tuple[int, int] | None  # the rank of a worker, and the number of gradient steps after which it dies
LONGEST_SILENCE = 60.0  # seconds without a word from any worker, once all have begun, after which a rehearsal is over
BEGINS = ["begins"]  # what a worker tells first


def digits() -> tuple[dict, dict]:
    """Return the training rows and the held-out rows, one in five: dicts with `row`, `image` (64 pixels, 0 to 16), and `label`."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    rows = {"row": np.arange(len(labels)), "image": images.astype(np.float32), "label": labels.astype(np.int64)}
    held_out = rows["row"] % 5 == 0
    return {name: v[~held_out] for name, v in rows.items()}, {name: v[held_out] for name, v in rows.items()}


def in_blocks(rows: dict, blocks: int) -> Any:
    """Return a dataset of the rows, split into this many blocks."""
    import ray

    items = [{name: column[row] for name, column in rows.items()} for row in range(len(rows["row"]))]
    return ray.data.from_items(items, override_num_blocks=blocks)


# What a worker of Ray Train did: the same notes are taken in a rehearsal and with Ray Train itself.


class Noted:
    """A worker's part of the rows, or batches of it; each `for` over batches is a new pass, and notes the rows of every batch."""

    def __init__(self, what: Any, note: Callable):
        self._what, self._note = what, note

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._what, name)
        return (lambda **options: Noted(found(**options), self._note)) if name.endswith("_batches") else found

    def __iter__(self) -> Iterator[dict]:
        for batch in self._what:
            self._note(["rows", [int(row) for row in batch["row"]]])
            yield batch


def watch(stage: Any, note: Callable, dies_after: int | None, nap: float = 0.0) -> None:
    """Note what the training loop of this process does from now on; kill the process after this many gradient steps."""
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    report, shard_of, steps = stage.report, stage.get_dataset_shard, itertools.count(1)

    def noted_report(metrics: dict, checkpoint: Any = None, *more: Any, **options: Any) -> None:
        report(metrics, checkpoint, *more, **options)  # returns when every worker has reported
        note(["report", {str(name): _plain(value) for name, value in metrics.items()}])

    def after(optimizer: Any, args: tuple, kwargs: dict) -> None:
        time.sleep(nap)
        note(["step", weights_of(optimizer)])
        if next(steps) == dies_after:
            time.sleep(50 * nap)  # Ray Train's controller looks for reports now and then
            note(["dies"])
            os.kill(os.getpid(), signal.SIGKILL)

    stage.report, stage.get_dataset_shard = noted_report, lambda info: Noted(shard_of(info), note)
    register_optimizer_step_pre_hook(lambda optimizer, *_: note(["before", weights_of(optimizer)]))
    register_optimizer_step_post_hook(after)


def _plain(value: Any) -> int | float | str:
    """Return what was reported as a plain number, also where it is one of NumPy's; anything else as text."""
    if isinstance(value, np.generic | np.ndarray) and value.ndim == 0:
        value = value.item()
    return value if isinstance(value, int | float | str) else repr(value)


def weights_of(optimizer: Any) -> np.ndarray:
    """Return all the numbers that an optimizer changes in this process, in one array."""
    params = [p.detach() for group in optimizer.param_groups for p in group["params"]]
    here = [
        p.to_local() if hasattr(p, "to_local") else p for p in params
    ]  # where workers share a weight, this one's part
    return np.concatenate([p.numpy().ravel() for p in here])


# The rehearsal: a training loop in processes of its own, without Ray.


class Shard:
    """One worker's rows, with the two methods of Ray Data's iterators that training loops use."""

    def __init__(self, rows: dict):
        self._rows = rows

    def iter_batches(self, *, batch_size: int = 256, drop_last: bool = False, **_: Any) -> list[dict]:
        """Return the rows, `batch_size` at a time, as dicts of arrays."""
        count = len(self._rows["row"])
        starts = range(0, count - count % batch_size if drop_last else count, batch_size)
        return [{name: column[at : at + batch_size] for name, column in self._rows.items()} for at in starts]

    def iter_torch_batches(self, **options: Any) -> list[dict]:
        """Return the rows, `batch_size` at a time, as dicts of tensors."""
        import torch

        return [{name: torch.tensor(v) for name, v in batch.items()} for batch in self.iter_batches(**options)]


def stage(rank: int, workers: int, note: Callable, shard: dict, checkpoint: str, folder: str) -> Any:
    """Return what `ray.train` does for a loop in a rehearsal: rank, shard, checkpoints, reports for which the workers wait."""
    import torch
    from ray.train import Checkpoint

    group, numbers = torch.distributed.new_group(), itertools.count(int(checkpoint[-4:]) + 1 if checkpoint else 0)

    base: Any = private.train_fn_utils.LocalTrainFnUtils

    class Stage(base):
        def report(self, metrics: dict, checkpoint: Any = None, *more: Any, **options: Any) -> None:
            number = next(numbers)
            if checkpoint is not None:  # Ray Train too merges what the workers save
                shutil.copytree(checkpoint.path, f"{folder}/checkpoint-{number:04}", dirs_exist_ok=True)
            note(["waits"])
            torch.distributed.barrier(group)

    made = Stage("rehearsal", {"train": Shard(shard)}, workers, rank, rank, workers)
    made._last_checkpoint = Checkpoint.from_directory(checkpoint) if checkpoint else None
    calls = {name: getattr(made._context, name) for name in dir(made._context) if name.startswith("get_")}
    made._context = SimpleNamespace(**calls)  # Ray Train's context has no attributes
    return made


def rehearse(train_loop: Callable, rows: dict, config: dict, kill: Kill = None, workers: int = 2) -> list[dict]:
    """Return what the workers did, one dict per attempt: their `logs` by rank, and how it ended: "done", "killed", or "stuck".

    PyTorch connects the workers' processes, and each worker gets an equal part of the rows, as with Ray Train.
    `kill=(rank, steps)` kills that worker with SIGKILL after this many gradient steps. The group is then restarted once, with
    the last checkpoint that was reported: `began` says what was in it, and `saved` counts the checkpoints so far.
    """
    import ray

    with tempfile.TemporaryDirectory(prefix="rehearsal-", ignore_cleanup_errors=True) as folder:
        payload = ray.cloudpickle.dumps((train_loop, config))
        attempts = [_attempt(payload, rows, workers, folder, kill)]
        if attempts[0]["end"] == "killed":
            attempts.append(_attempt(payload, rows, workers, folder, None))
    return attempts


def _attempt(payload: bytes, rows: dict, workers: int, folder: str, kill: Kill) -> dict:
    """Return the logs and the end of one group of workers; raises what a worker raised."""
    checkpoint = max(map(str, Path(folder).glob("checkpoint-*")), default="")
    point, part = tempfile.mkdtemp(dir=folder), len(rows["row"]) // workers  # what does not divide is left out
    with contextlib.ExitStack() as started:
        lines = []
        for rank in range(workers):
            shard = {name: column[rank::workers][:part] for name, column in rows.items()}
            dies_after = kill[1] if kill and kill[0] == rank else None
            worker = _worker(rank, workers, payload, shard, dies_after, checkpoint, folder, point)
            lines.append(started.enter_context(worker))
        logs, stuck = _listen(lines)
    for path in sorted(Path(point).glob("printed-*")):
        print(textwrap.indent(path.read_text(errors="replace"), f"worker {path.name[-1]}: "), end="")
    saved = len(list(Path(folder).glob("checkpoint-*")))
    return {"end": "stuck" if stuck else _end_of(logs), "logs": logs, "began": _found_in(checkpoint), "saved": saved}


def _found_in(checkpoint: str) -> dict | None:
    """Return the names of the files in a checkpoint, and the type of what `state.pt` holds, of a dict's values by key."""
    if not checkpoint:
        return None
    import torch

    path = Path(checkpoint, "state.pt")
    state = torch.load(path, weights_only=False) if path.exists() else None
    parts = {str(key): type(value).__name__ for key, value in state.items()} if isinstance(state, Mapping) else {}
    return {"files": sorted(os.listdir(checkpoint)), "kind": type(state).__name__, "parts": parts}


@contextlib.contextmanager
def _worker(*place: object) -> Iterator[Connection]:
    """Start the process of one worker, a copy of one that has imported PyTorch and Ray Train; yield the line on which it talks."""
    context, main = multiprocessing.get_context("forkserver"), spawn.get_preparation_data
    context.set_forkserver_preload(["torch._dynamo", "torch.distributed", "ray.train.torch"])
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(theirs, *place), daemon=True)
    without_main = mock.Mock(side_effect=lambda name: {k: v for k, v in main(name).items() if "main" not in k})
    with mock.patch.object(spawn, "get_preparation_data", without_main):  # else it would run the main program again
        process.start()
    theirs.close()
    try:
        yield ours
    finally:
        process.kill()
        process.join()


def _listen(lines: list[Connection]) -> tuple[list[Log], bool]:
    """Return what each worker told until it ended, and whether they were stuck."""
    logs: list[Log] = [[] for _ in lines]
    talking = dict(zip(lines, logs, strict=True))
    begun: set[Connection] = set()
    while talking and not _passed_by(logs):
        ready: list[Any] = wait(list(talking), LONGEST_SILENCE if begun.issuperset(talking) else None)
        if not ready:
            break
        for line in ready:
            try:
                entry = line.recv()
                if entry == BEGINS:
                    begun.add(line)
                else:
                    talking[line].append(entry)
            except (EOFError, OSError):  # the process is gone
                del talking[line]
    return logs, bool(talking)


def _passed_by(logs: list[Log]) -> bool:
    """Return whether a worker waits in a report, and another one has gone on without it."""
    counts = [Counter(entry[0] for entry in log) for log in logs]
    return any(one["waits"] > other["waits"] and one["rows"] < other["rows"] for one in counts for other in counts)


def _end_of(logs: list[Log]) -> str:
    """Return how an attempt ended whose workers are gone; raises what one of them raised by itself."""
    last = [log[-1] if log else [] for log in logs]
    if ["dies"] in last:
        return "killed"
    errors = [(rank, entry[1]) for rank, entry in enumerate(last) if entry[:1] == ["raised"]]
    own = [(rank, error) for rank, error in errors if not re.search("gloo|onnection", error["message"])]
    if not own and len(errors) < len(logs):  # an error, if any, is that of a worker which lost one that had ended
        return "stuck" if errors else "done"
    rank, error = (own or errors)[0]
    raise type(error["kind"], (RuntimeError,), {})(f"{error['message']} (in worker {rank}) {error['where']}")


def _work(line: Connection, rank: int, workers: int, payload: bytes, *rest: Any) -> None:
    """Be one worker: join the others, run the loop, and tell what it does."""
    shard, dies_after, checkpoint, folder, point = rest
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # PyTorch's remarks about host names
    os.environ |= {"GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo", "CUDA_VISIBLE_DEVICES": ""}

    try:
        import ray
        import torch

        set_train_fn_utils = private.train_fn_utils.set_train_fn_utils

        sys.stdout = open(f"{point}/printed-{rank}", "w", encoding="utf-8", buffering=1)  # noqa: SIM115
        line.send(BEGINS)  # imported: how long that takes, the machine says
        torch.set_num_threads(1)
        torch.seed()  # else the copies of one process would begin with the same random numbers
        torch.distributed.init_process_group("gloo", f"file://{point}/meet", rank=rank, world_size=workers)
        train_loop, config = ray.cloudpickle.loads(payload)
        ours = stage(rank, workers, line.send, shard, checkpoint, folder)
        set_train_fn_utils(ours)
        watch(ours, line.send, dies_after)
        train_loop(config)
    except BaseException as error:
        line.send(["raised", describe(error)])
    finally:
        os._exit(0)  # at once: there is nothing to tidy up


def without_averaging(train_loop: Callable) -> Callable:
    """Return the same loop, for workers in which `prepare_model` returns the model without DDP."""

    def alone(config: dict) -> None:
        from ray.train.v2.torch import train_loop_utils

        train_loop_utils.DistributedDataParallel = lambda model, **options: model
        train_loop(config)

    return alone


# With Ray Train itself: the same notes, written into files, by the workers of a TorchTrainer.


def mortal(train_loop: Callable, folder: str, kill: Kill = None, nap: float = 0.02) -> Callable:
    """Return a loop that does what `train_loop` does and records it; in the first attempt, one worker kills its own process.

    `kill=(rank, steps)` says which worker, and after how many gradient steps. Each step sleeps for `nap` seconds, as if the
    network were larger.
    """

    def watched(config: dict) -> None:
        import ray.train

        get_train_fn_utils = private.train_fn_utils.get_train_fn_utils

        rank = ray.train.get_context().get_world_rank()
        first = not list(Path(folder).glob(f"{rank}-*"))
        dies_after = kill[1] if kill and first and kill[0] == rank else None
        with open(f"{folder}/{rank}-{time.time_ns()}", "w", encoding="utf-8", buffering=1) as file:

            def note(entry: list) -> None:
                plain = [_digest(each) if isinstance(each, np.ndarray) else each for each in entry]
                file.write(json.dumps([time.time(), *plain], default=float) + "\n")

            note(["begins", os.getpid()])
            watch(get_train_fn_utils(), note, dies_after, nap)
            train_loop(config)
            note(["ends"])

    return watched


def _digest(weights: np.ndarray) -> str:
    return hashlib.sha1(weights.tobytes()).hexdigest()[:10]


def attempts_in(folder: str, start: float) -> list[list[list]]:
    """Return what `mortal` recorded: for each attempt and rank, lines of [seconds since `start`, what, ...]."""
    files = sorted(Path(folder).iterdir(), key=lambda path: path.name.partition("-")[2])
    logs: dict[str, list] = {}
    for path in files:
        lines = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("]")]
        logs.setdefault(path.name.partition("-")[0], []).append(lines)
    return [
        [[[line[0] - start, *line[1:]] for line in logs[rank][attempt]] for rank in sorted(logs)]
        for attempt in range(min(map(len, logs.values())))
    ]


def summary(lines: list[list]) -> dict:
    """Return a row of the table: what one worker did in one attempt."""
    rows = [len(line[2]) for line in lines if line[1] == "rows"]
    steps = [line[2] for line in lines if line[1] == "step"]
    reports = [line[2]["epoch"] for line in lines if line[1] == "report"]
    names = ["process", "rows", "batch", "steps", "epochs", "end", "digest"]
    return dict(
        zip(names, [lines[0][2], sum(rows), rows[0], len(steps), reports, lines[-1][1], steps[-1]], strict=True)
    )


LINES: dict[str, dict] = {
    "with a checkpoint": {"color": "#059669", "zorder": 3},
    "without": {"color": "#db2777", "zorder": 2, "linewidth": 5, "alpha": 0.4},  # below: its first attempt is the same
}


def draw_attempts(axes: Any, name: str, attempts: list[list[list]]) -> Any:
    """Draw the losses of a run over its gradient steps, with the number of each epoch; return the axes."""
    made, below = 0, name == "without"
    for number, (marker, attempt) in enumerate(zip(["o", "s"], attempts, strict=False)):
        axes.axvline(made, color="#94a3b8", linestyle="--" if made else "")
        points, made = _curve(attempt, made)
        label = f"{name}: attempt {number + 1}, {attempt[0][0][2]}"
        axes.plot(*np.transpose(points)[:2], f"{marker}-", label=label, **LINES[name])
        for step, loss, epoch in points if number or not below else []:
            axes.annotate(f"{epoch}", (step, loss), textcoords="offset points", xytext=(4, -13 if below else 6))
    return axes


draw_seam = draw_attempts  # its name in notebooks of 0.2


def _curve(attempt: list[list], made: int) -> tuple[list[tuple], int]:
    """Return (steps made until then, loss, epoch) for each report of worker 0, and all the steps made."""
    points = []
    for _, what, *more in attempt[0]:
        made += what == "step"
        if what == "report":
            points.append((made, more[0]["loss"], more[0]["epoch"]))
    return points, made


# Probes: each drives a learner's object with the judge's inputs, and returns raw results.


class FromStage(TypedDict):
    """What came out of a stage: its columns, none where it is no dict."""

    is_dict: bool
    kind: str
    columns: dict[str, np.ndarray]


def standardise(stage_class: Any, images: np.ndarray, batch: dict) -> FromStage:
    """Return what an object made from `images` makes of a batch; both are locked."""
    with np.errstate(all="ignore"):
        made = stage_class(_locked(images))({name: _locked(column) for name, column in batch.items()})
    columns = made if isinstance(made, Mapping) else {}
    return {
        "is_dict": isinstance(made, Mapping),
        "kind": type(made).__name__,
        "columns": {str(name): np.asarray(column) for name, column in columns.items()},
    }


def _locked(array: np.ndarray) -> np.ndarray:
    """Return a read-only copy, as batches of Ray Data are."""
    array = np.array(array)
    array.flags.writeable = False
    return array


class Row(TypedDict):
    """A row that came out of a pipeline; where it has been through the stage, the size of its batch, and whether that had broken rows."""

    row: int
    image: list
    size: NotRequired[int]
    dirty: NotRequired[int]


class Piped(TypedDict):
    """What `pipeline` returned, what had happened by then, the rows, none where it is no dataset, and how often the stage was made."""

    is_dataset: bool
    kind: str
    early: list[str]
    rows: list[Row]
    made: int


def run_pipeline(pipeline: Callable, rows: dict, blocks: int, batch_size: int, actors: int, offset: float) -> Piped:
    """Return what `pipeline` returned, and what its plan does when it runs."""
    import ray

    rendezvous.expect_ray()
    home = os.getpid()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:

        def events() -> list[str]:
            return sorted(path.name.partition("-")[0] for path in Path(folder).iterdir())

        def note(event: str) -> None:
            Path(f"{folder}/{event}-{time.time_ns()}-{os.getpid()}").touch()

        def clean(batch: dict) -> dict:
            note("clean")
            return {name: column[~batch["broken"]] for name, column in batch.items()}

        class Slow:
            def __init__(self, images: np.ndarray):
                note("made")
                self.add = float(np.sum(images))
                wait_until(lambda: os.getpid() == home or events().count("made") >= actors, rendezvous.patience())

            def __call__(self, batch: dict) -> dict:
                size = np.full(len(batch["row"]), len(batch["row"]))
                return batch | {"image": batch["image"] + self.add, "size": size, "dirty": size * batch["broken"].any()}

        dataset = pipeline(in_blocks(rows, blocks), clean, Slow, np.full((2, 2), offset / 4), batch_size, actors)
        is_dataset, early = isinstance(dataset, ray.data.Dataset), events()
        return {
            "is_dataset": is_dataset,
            "kind": type(dataset).__name__,
            "early": early,
            "rows": _rows_of(dataset) if is_dataset else [],
            "made": events().count("made"),
        }


def _rows_of(dataset: Any) -> list[Any]:
    """Return the rows that come out of a plan; raises what a stage raised, without Ray Data's pages about it."""
    logging.disable()
    try:
        return [{name: np.asarray(value).tolist() for name, value in row.items()} for row in dataset.take_all()]
    except Exception as error:
        found = re.search(r"^(\w+(?:Error|Exception)): (.+)$", str(error), re.MULTILINE)
        kind, text = found.groups() if found else (type(error).__name__, str(error))
        raise type(kind, (RuntimeError,), {})(text.replace("run_pipeline.<locals>.", "")) from None
    finally:
        logging.disable(logging.NOTSET)


class Epoch(TypedDict):
    """What a worker did until one of its reports: the rows of each batch, the weights before and after each step, the report."""

    rows: list[list[int]]
    before: list[np.ndarray]
    step: list[np.ndarray]
    report: dict[str, bool | int | float | str]


Pair = tuple[list[Epoch], list[Epoch]]  # of two workers


class Found(TypedDict):
    """A checkpoint's files, the type of what `state.pt` holds (NoneType if it isn't there), and the types in it by key."""

    files: list[str]
    kind: str
    parts: dict[str, str]


class Attempt(TypedDict):
    """What a group of two workers did, its `end` (done, killed or stuck), the checkpoint that it began with, and how many there are."""

    end: str
    began: Found | None
    saved: int
    workers: Pair


def train_together(train_loop: Callable, rows: dict, config: dict) -> Attempt:
    """Return what two workers did in a rehearsal."""
    (seen,) = rehearse(train_loop, rows, config)
    return _attempt_of(seen)


def train_alone(train_loop: Callable, rows: dict, config: dict) -> list[Epoch]:
    """Return what the only worker of a rehearsal did."""
    (seen,) = rehearse(train_loop, rows, config, workers=1)
    return _epochs(seen["logs"][0])


def train_with_a_death(train_loop: Callable, rows: dict, config: dict, kill: tuple[int, int]) -> list[Attempt]:
    """Return what two workers did, and what they did once they were started again, where one was killed."""
    return [_attempt_of(seen) for seen in rehearse(train_loop, rows, config, kill)]


def _attempt_of(seen: dict) -> Attempt:
    one, other = map(_epochs, seen["logs"])
    return {"end": seen["end"], "began": seen["began"], "saved": seen["saved"], "workers": (one, other)}


def _epochs(log: Log) -> list[Epoch]:
    """Return what a worker did until each of its reports."""
    epochs: list[Epoch] = []
    now: dict[str, list] = {"rows": [], "before": [], "step": []}
    for kind, *what in log:
        if kind in now:
            now[kind].append(what[0])
        elif kind == "report":
            if now["step"] and not now["rows"] and epochs:  # it kept its batches in a list, and took them again
                now["rows"] = epochs[-1]["rows"]
            epochs.append(Epoch(rows=now["rows"], before=now["before"], step=now["step"], report=what[0]))
            now = {name: [] for name in now}
    return epochs
