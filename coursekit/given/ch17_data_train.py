"""What chapter 17 hands out: digits, a rehearsal of training loops in processes of their own, a killer; and the probes."""

import contextlib
import hashlib
import json
import logging
import multiprocessing
import os
import re
import shutil
import signal
import sys
import sysconfig
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from multiprocessing import spawn
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np

from coursekit import meeting
from coursekit.failure import STUB_TEXT
from coursekit.given.folders import new_folder

# What one worker did, in order: ["made", weights], ["start", weights], ["pass"], ["rows", ids], ["step", weights],
# ["report", metrics, checkpoint?]
Log = list[list]
OF_THE_COURSE = ("train_epoch", "network")  # functions that the chapter hands out
PATIENCE = 60.0  # seconds without a word from any worker, after which a rehearsal is over


def digits() -> tuple[dict, dict]:
    """Return rows to train on and rows held out, one in five: dicts with `row`, `image` (64 pixels, 0 to 16) and `label`."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    rows = {"row": np.arange(len(labels)), "image": images.astype(np.float32), "label": labels.astype(np.int64)}
    held_out = rows["row"] % 5 == 0
    return {name: v[~held_out] for name, v in rows.items()}, {name: v[held_out] for name, v in rows.items()}


def in_blocks(rows: dict, blocks: int) -> Any:
    """Return a dataset of the rows, in so many blocks."""
    import ray

    items = [{name: column[row] for name, column in rows.items()} for row in range(len(rows["row"]))]
    return ray.data.from_items(items, override_num_blocks=blocks)


# What a worker of Ray Train did: the same notes are taken in a rehearsal and with Ray Train itself.


class Batches:
    """What Ray Data's iterators return: each `for` over it is a new pass."""

    def __init__(self, new_pass: Callable[[], Iterator[dict]]):
        self._new_pass = new_pass

    def __iter__(self) -> Iterator[dict]:
        return self._new_pass()


class NotedShard:
    """A worker's part of the rows; notes every pass over it, and the rows of every batch."""

    def __init__(self, shard: Any, note: Callable):
        self._shard, self._note = shard, note

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shard, name)

    def iter_torch_batches(self, **options: Any) -> Batches:
        """Return the batches of the shard."""
        batches = self._shard.iter_torch_batches(**options)
        return Batches(lambda: self._noted(batches))

    def iter_batches(self, **options: Any) -> Batches:
        """Return the batches of the shard, as arrays."""
        batches = self._shard.iter_batches(**options)
        return Batches(lambda: self._noted(batches))

    def _noted(self, batches: Any) -> Iterator[dict]:
        self._note("pass")
        for batch in batches:
            self._note("rows", [int(row) for row in batch["row"]])
            yield batch


class NotedTrain:
    """What `ray.train` does for a training loop, and a note of it."""

    def __init__(self, stage: Any, note: Callable):
        self._stage, self._note = stage, note

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stage, name)

    def get_dataset_shard(self, info: Any) -> NotedShard:
        """Return the worker's part of the rows."""
        return NotedShard(self._stage.get_dataset_shard(info), self._note)

    def report(self, metrics: dict, checkpoint: Any = None, *more: Any, **options: Any) -> None:
        """Pass the report on; it is noted when every worker has reported."""
        self._stage.report(metrics, checkpoint, *more, **options)
        plain = {str(k): v if isinstance(v, int | float | str) else repr(v) for k, v in metrics.items()}
        self._note("report", plain, checkpoint is not None)


def watch(stage: Any, note: Callable, dies_after: int | None, nap: float = 0.0) -> None:
    """Note what the training loop of this process does from now on; kill the process after so many gradient steps."""
    from ray.train.v2._internal.execution.train_fn_utils import set_train_fn_utils
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    steps = 0

    def before(optimizer: Any, args: tuple, kwargs: dict) -> None:
        if steps == 0:
            note("start", weights_of(optimizer))

    def after(optimizer: Any, args: tuple, kwargs: dict) -> None:
        nonlocal steps
        steps += 1
        time.sleep(nap)
        note("step", weights_of(optimizer))
        if steps == dies_after:
            time.sleep(50 * nap)  # Ray Train's controller looks for reports now and then
            note("dies")
            os.kill(os.getpid(), signal.SIGKILL)

    set_train_fn_utils(NotedTrain(stage, note))
    register_optimizer_step_pre_hook(before)
    register_optimizer_step_post_hook(after)


def weights_of(optimizer: Any) -> np.ndarray:
    """Return all the numbers that an optimizer changes, in one array."""
    return _in_one_array([p for group in optimizer.param_groups for p in group["params"]])


def _in_one_array(weights: Iterable) -> np.ndarray:
    return np.concatenate([p.detach().numpy().ravel() for p in weights]).copy()


def note_new_models(note: Callable) -> None:
    """Note the weights of each model that this process makes, before `prepare_model` replaces them by those of worker 0."""
    from ray.train.v2.torch import train_loop_utils

    wrap = train_loop_utils.DistributedDataParallel

    def noted(model: Any, **options: Any) -> Any:
        note("made", _in_one_array(model.parameters()))
        return wrap(model, **options)

    train_loop_utils.DistributedDataParallel = noted


# The rehearsal: a training loop in processes of its own, without Ray.


class Shard:
    """One worker's rows, with the two methods of Ray Data's iterators that training loops use."""

    def __init__(self, rows: dict):
        self._rows = rows

    def iter_batches(
        self, *, batch_size: int = 256, drop_last: bool = False, local_shuffle_buffer_size: Any = None, **_: Any
    ) -> Batches:
        """Return the rows, `batch_size` at a time, as dicts of arrays."""
        if not isinstance(batch_size, int | np.integer):
            raise TypeError(f"batch_size must be a whole number, and is {batch_size!r}")
        return Batches(lambda: self._batches(int(batch_size), drop_last, bool(local_shuffle_buffer_size)))

    def _batches(self, batch_size: int, drop_last: bool, shuffle: bool) -> Iterator[dict]:
        order = np.arange(len(self._rows["row"]))
        if shuffle:
            np.random.default_rng().shuffle(order)
        end = len(order) // batch_size * batch_size if drop_last else len(order)
        for start in range(0, end, batch_size):
            yield {name: column[order[start : min(start + batch_size, end)]] for name, column in self._rows.items()}

    def iter_torch_batches(self, **options: Any) -> Batches:
        """Return the rows, `batch_size` at a time, as dicts of tensors."""
        import torch

        batches = self.iter_batches(**options)

        def tensors() -> Iterator[dict]:
            for batch in batches:
                yield {name: torch.from_numpy(np.ascontiguousarray(column)) for name, column in batch.items()}

        return Batches(tensors)


class Context:
    """What `ray.train.get_context()` returns in a rehearsal: `get_world_size()` and so on, and as in Ray Train no attributes."""

    def __init__(self, rank: int, workers: int):
        from ray.train.v2.api.context import LocalTrainContext

        local = LocalTrainContext("rehearsal", workers, rank, rank, workers, 0)
        for name in dir(local):
            if name.startswith("get_"):
                setattr(self, name, getattr(local, name))


class Stage:
    """What `ray.train` does for a loop, in a rehearsal: rank, shard, reports for which the workers wait, checkpoints."""

    def __init__(self, rank: int, workers: int, line: Connection, shards: dict, checkpoint: str, folder: str):
        self._context = Context(rank, workers)
        self._line, self._shards, self._checkpoint, self._folder = line, shards, checkpoint, folder

    def get_context(self) -> Any:
        """Return rank and number of workers."""
        return self._context

    def is_distributed(self) -> bool:
        """Return False: Ray asks in order to find devices, and the processor is ours."""
        return False

    def get_dataset_shard(self, info: Any) -> Shard:
        """Return this worker's part of the rows."""
        if info.dataset_name not in self._shards:
            raise KeyError(f"Dataset shard for '{info.dataset_name}' not found.")
        return self._shards[info.dataset_name]

    def get_checkpoint(self) -> Any:
        """Return the last checkpoint, or None."""
        from ray.train import Checkpoint

        return Checkpoint.from_directory(self._checkpoint) if self._checkpoint else None

    def report(self, metrics: dict, checkpoint: Any = None, *more: Any, **options: Any) -> None:
        """Return once every worker has reported; the checkpoint's files are kept by then."""
        kept = ""
        if checkpoint is not None:
            if not Path(checkpoint.path).is_dir():
                raise FileNotFoundError(
                    "when `ray.train.report` was called, the folder of the checkpoint was not there"
                )
            kept = tempfile.mkdtemp(prefix="reported-", dir=self._folder)
            shutil.copytree(checkpoint.path, kept, dirs_exist_ok=True)
        self._line.send(["waits", kept])
        self._checkpoint = self._line.recv() or self._checkpoint


def rehearse(
    train_loop: Callable,
    rows: dict,
    config: dict,
    kill: tuple[int, int] | None = None,
    workers: int = 2,
    max_failures: int = 1,
) -> list[dict]:
    """Return what the workers did, one dict for each attempt: `logs` by rank, and its `end`: done, killed or stuck.

    Each worker is a process of its own, joined to the others by PyTorch, and gets an equal part of the rows as Ray Train would
    give it. `kill=(rank, steps)` kills that worker of the first attempt, by SIGKILL, after so many gradient steps. The group is
    then started again, at most `max_failures` times, with the last checkpoint that all had reported.
    """
    import ray

    if STUB_TEXT in getattr(getattr(train_loop, "__code__", None), "co_consts", ()):
        raise NotImplementedError(STUB_TEXT)  # no processes for that
    folder = tempfile.mkdtemp(prefix="rehearsal-")
    attempts: list[dict] = []
    try:
        payload = ray.cloudpickle.dumps((train_loop, config))
        while not attempts or (attempts[-1]["end"] == "killed" and len(attempts) <= max_failures):
            group = Group(folder, len(attempts), workers)
            attempts.append(group.play(payload, rows, kill if not attempts else None))
            group.say_what_was_printed()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return attempts


class Group:
    """The workers of one attempt, and who waits for whom."""

    def __init__(self, folder: str, number: int, workers: int):
        self.folder, self.number, self.workers = folder, number, workers
        self.logs: list[Log] = [[] for _ in range(workers)]
        self.waiting: dict[int, str] = {}  # the rank that waits in a report, and its checkpoint
        self.errors: list[tuple] = []
        self.ended: set[int] = set()
        self.stuck, self.resumed = "", bool(self._last_checkpoint())

    def play(self, payload: bytes, rows: dict, kill: tuple[int, int] | None) -> dict:
        """Return the logs and the end of this attempt; raises what a worker raised."""
        context = _processes()
        lines, players = [], []
        for rank in range(self.workers):
            ours, theirs = context.Pipe()
            part = len(rows["row"]) // self.workers  # equal parts: what does not divide is left out
            shard = {name: column[rank :: self.workers][:part] for name, column in rows.items()}
            place = (rank, self.workers, theirs, self._last_checkpoint(), self.folder, self.number)
            dies_after = kill[1] if kill and kill[0] == rank else None
            players.append(context.Process(target=_play, args=(place, payload, shard, dies_after), daemon=True))
            with _without_main():
                players[-1].start()
            theirs.close()
            lines.append(ours)
        try:
            self._follow(lines)
        finally:
            for player, line in zip(players, lines, strict=True):
                player.kill()
                player.join()
                line.close()
        return self._end()

    def _follow(self, lines: list[Connection]) -> None:
        """Take down what the workers say until all have ended, or one waits for what will never come."""
        while len(self.ended) < self.workers and not self.stuck:
            ready = wait([line for rank, line in enumerate(lines) if rank not in self.ended], self._patience())
            if not ready:
                self.stuck = "" if self.errors else "nothing was heard of the workers any more"
                break
            for line in ready:
                self._hear(lines.index(line), line)  # type: ignore[arg-type]
            if len(self.waiting) == self.workers:
                kept = self._keep()
                for line in lines:
                    with contextlib.suppress(OSError):
                        line.send(kept)
            self.stuck = self.stuck or self._waits_for_ever()

    def _patience(self) -> float:
        return 3.0 if self.errors or self._killed() else PATIENCE

    def _hear(self, rank: int, line: Connection) -> None:
        try:
            kind, *what = line.recv()
        except (EOFError, OSError):  # the process is gone
            self.ended.add(rank)
            return
        if kind == "waits":
            self.waiting[rank] = what[0]
        elif kind == "raised":
            self.errors.append((rank, *what))
        else:
            self.logs[rank].append([kind, *what])

    def _killed(self) -> bool:
        return any(log and log[-1] == ["dies"] for log in self.logs)

    def _keep(self) -> str:
        """Merge the reported checkpoints into one, and return where it is."""
        reported = [path for path in self.waiting.values() if path]
        self.waiting.clear()
        if not reported:
            return ""
        saved = len(list(Path(self.folder).glob("checkpoint-*")))
        path = f"{self.folder}/checkpoint-{saved:04}"
        for each in reported:
            shutil.copytree(each, path, dirs_exist_ok=True)
        return path

    def _last_checkpoint(self) -> str:
        return max(map(str, Path(self.folder).glob("checkpoint-*")), default="")

    def _waits_for_ever(self) -> str:
        """Say who waits in a report that another worker has passed by."""
        if self.errors or self._killed():
            return ""
        for rank in self.waiting:
            for other in set(range(self.workers)) - set(self.waiting):
                passes = [self.logs[each].count(["pass"]) for each in (other, rank)]
                if other in self.ended or passes[0] > passes[1]:
                    did = "had ended" if other in self.ended else "had begun its next pass over the rows"
                    return f"worker {rank} waited in `ray.train.report`, and worker {other} {did} without a report"
        return ""

    def _end(self) -> dict:
        own = [error for error in self.errors if "onnection" not in error[2] and "gloo" not in error[2].lower()]
        left = self.ended - {error[0] for error in self.errors}
        if own or (self.errors and not left and not self._killed()):
            _raise_again(*(own or self.errors)[0])
        if self.errors and not self._killed():
            rank, gone = self.errors[0][0], min(left)
            self.stuck = f"worker {rank} waited for the gradients of worker {gone}, which had ended"
        end = "killed" if self._killed() else f"stuck: {self.stuck}" if self.stuck else "done"
        return {"end": end, "logs": self.logs, "resumed": self.resumed, "saved": self._saved()}

    def _saved(self) -> list[str]:
        """Return the keys of the dict in `state.pt` of the last checkpoint; none where there is no such file."""
        import torch

        with contextlib.suppress(Exception):
            return sorted(map(str, torch.load(Path(self._last_checkpoint(), "state.pt"))))
        return []

    def say_what_was_printed(self) -> None:
        """Print what the workers printed."""
        for rank in range(self.workers):
            path = Path(f"{self.folder}/printed-{self.number}-{rank}")
            lines = path.read_text(errors="replace").splitlines() if path.exists() else []
            for line in [line for line in lines if not line.startswith("[W")]:  # PyTorch's remarks about host names
                print(f"worker {rank}: {line}")


def _processes() -> Any:
    """Return what makes processes: copies of one that has imported PyTorch and Ray Train already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch._dynamo", "torch.distributed", "ray.train.torch"])
    return context


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Keep new processes from running the main program's file again: they are sent all that they need."""
    original = spawn.get_preparation_data
    spawn.get_preparation_data = lambda name: {k: v for k, v in original(name).items() if "main" not in k}
    try:
        yield
    finally:
        spawn.get_preparation_data = original


def _play(place: tuple, payload: bytes, shard: dict, dies_after: int | None) -> None:
    """Be one worker: join the others, run the loop, and tell what it does."""
    rank, workers, line, checkpoint, folder, number = place
    printed = os.open(f"{folder}/printed-{number}-{rank}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    os.environ |= {"GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo", "CUDA_VISIBLE_DEVICES": ""}
    try:
        import ray
        import torch

        logging.getLogger("ray").setLevel(logging.WARNING)
        torch.set_num_threads(1)
        torch.seed()  # else the copies of one process would begin with the same random numbers
        torch.distributed.init_process_group("gloo", f"file://{folder}/meet-{number}", rank=rank, world_size=workers)
        train_loop, config = ray.cloudpickle.loads(payload)
        stage = Stage(rank, workers, line, {"train": Shard(shard)}, checkpoint, folder)
        watch(stage, lambda *what: line.send(list(what)), dies_after)
        note_new_models(lambda *what: line.send(list(what)))
        train_loop(config)
    except BaseException as error:
        line.send(["raised", type(error).__name__, str(error)[:500], _where(error)])
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        os._exit(0)  # at once: there is nothing to tidy up


def _where(error: BaseException) -> str:
    """Return the last line of the traceback that the learner wrote."""
    others = ("site-packages", str(Path(__file__).parents[1]), sysconfig.get_paths()["stdlib"], "<frozen")
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.name not in OF_THE_COURSE and not any(other in frame.filename for other in others)
    ]
    return f", line {frames[-1].lineno} of `{frames[-1].name}`" if frames else ""


def _raise_again(rank: int, kind: str, text: str, where: str) -> None:
    """Raise here what a worker raised."""
    raise type(kind, (RuntimeError,), {})(f"{text} (worker {rank}{where})")


def without_averaging(train_loop: Callable) -> Callable:
    """Return the same loop in workers whose `prepare_model` leaves the model as it is."""

    def alone(config: dict) -> None:
        from ray.train.v2.torch import train_loop_utils

        train_loop_utils.DistributedDataParallel = lambda model, **options: model
        train_loop(config)

    return alone


# With Ray Train itself: the same notes, written into files, by the workers of a TorchTrainer.


def mortal(train_loop: Callable, folder: str, kill: tuple[int, int] | None = None, nap: float = 0.02) -> Callable:
    """Return a loop that does what `train_loop` does, and writes it down; one worker's process is killed at its first attempt.

    `kill=(rank, steps)` says which, and after how many gradient steps. Each step naps a little, as if the network were larger.
    """

    def watched(config: dict) -> None:
        import ray.train
        from ray.train.v2._internal.execution.train_fn_utils import get_train_fn_utils

        rank = ray.train.get_context().get_world_rank()
        first = not list(Path(folder).glob(f"{rank}-*"))
        dies_after = kill[1] if kill and first and kill[0] == rank else None
        with open(f"{folder}/{rank}-{time.time_ns()}", "w", buffering=1) as file:

            def note(*what: Any) -> None:
                plain = [_digest(each) if isinstance(each, np.ndarray) else each for each in what]
                file.write(json.dumps([time.time(), *plain]) + "\n")

            note("begins", os.getpid())
            watch(get_train_fn_utils(), note, dies_after, nap)
            train_loop(config)
            note("ends")

    return watched


def _digest(weights: np.ndarray) -> str:
    return hashlib.sha1(weights.tobytes()).hexdigest()[:10]


def attempts_in(folder: str, start: float) -> list[list[list]]:
    """Return the notes of `mortal`: for each attempt and rank the lines [seconds since `start`, what, ...]."""
    files = sorted(Path(folder).iterdir(), key=lambda path: path.name.partition("-")[2])
    logs: dict[str, list] = {}
    for path in files:
        lines = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("]")]
        logs.setdefault(path.name.partition("-")[0], []).append(lines)
    return [
        [[[line[0] - start, *line[1:]] for line in logs[rank][attempt]] for rank in sorted(logs)]
        for attempt in range(min(map(len, logs.values())))
    ]


# Probes: each drives a learner's object with the judge's inputs, and returns raw results.


def standardise(stage_class: Any, images: np.ndarray, batches: list[dict]) -> list[dict | str]:
    """Return what an object made from `images` makes of each batch, the type of it where it is no dict; batches are locked."""
    stage = stage_class(_locked(images))
    results: list[dict | str] = []
    for batch in batches:
        given = {name: _locked(column) for name, column in batch.items()}
        with np.errstate(all="ignore"):
            made = stage(dict(given))
        columns = made.items() if isinstance(made, Mapping) else ()
        plain = {str(name): np.asarray(column) for name, column in columns}
        results.append(plain if isinstance(made, Mapping) else type(made).__name__)
    return results


def _locked(array: np.ndarray) -> np.ndarray:
    """Return a copy that nobody can write into, as batches of Ray Data are."""
    array = np.array(array)
    array.flags.writeable = False
    return array


def run_pipeline(
    pipeline: Callable, rows: dict, blocks: int, batch_size: int, actors: int, offset: float, run: bool = True
) -> dict:
    """Return what a learner's dataset has written down, what had happened before anybody asked for rows, and what came out.

    Without `run` nobody asks for rows.
    """
    folder, seats = new_folder("pipeline-"), new_folder("seats-")
    try:
        return _run_pipeline(pipeline, rows, blocks, batch_size, actors, offset, run, folder, seats)
    finally:
        for path in (folder, seats):
            shutil.rmtree(path, ignore_errors=True)


def _run_pipeline(
    pipeline: Callable,
    rows: dict,
    blocks: int,
    batch_size: int,
    actors: int,
    offset: float,
    run: bool,
    folder: str,
    seats: str,
) -> dict:
    import ray

    meeting.expect_ray()
    room, home = meeting.new_room(), os.getpid()

    def note(event: str) -> None:
        with open(f"{folder}/{event}-{time.time_ns()}-{os.getpid()}", "w"):
            pass

    def clean(batch: dict) -> dict:
        note("clean")
        if not isinstance(batch["broken"], np.ndarray):
            raise TypeError("`clean` was given a single row; it takes a batch, a dict of arrays")
        return {name: column[~batch["broken"]] for name, column in batch.items()}

    class Slow:
        def __init__(self, images: np.ndarray):
            note("made")
            self.add = float(np.sum(images))
            if run and os.getpid() != home and _met(room, _seat(seats)):
                note("met")

        def __call__(self, batch: dict) -> dict:
            size = np.full(len(batch["row"]), len(batch["row"]))
            dirty = np.full(len(size), bool(np.any(batch.get("broken", False))))
            return batch | {"image": batch["image"] + self.add, "size": size, "dirty": dirty}

    images = np.full((2, 2), offset / 4)
    dataset = pipeline(in_blocks(rows, blocks), clean, Slow, images, batch_size, actors)
    early = sorted(path.name.partition("-")[0] for path in Path(folder).iterdir())
    if not isinstance(dataset, ray.data.Dataset):
        return {"kind": type(dataset).__name__, "early": early}
    seen = {"kind": "Dataset", "early": early, "plan": _plan_of(dataset)}
    if not run:
        return seen
    with _ray_data_in_silence():
        came = dataset.take_all()
    events = [path.name.partition("-")[0] for path in Path(folder).iterdir()]
    plain = [{name: np.asarray(value).tolist() for name, value in row.items()} for row in came]
    return seen | {"rows": plain, "made": events.count("made"), "met": events.count("met")}


def _plan_of(dataset: Any) -> dict:
    """Return what the last step of a plan has written down: batch size, actors, and the type of the constructor's arguments.

    Nothing runs for that. A step that is no pool of actors has none of these.
    """
    step = dataset._logical_plan.dag
    if not hasattr(getattr(step, "compute", None), "min_size"):
        return {}
    given = getattr(step, "fn_constructor_args", None)
    return {
        "batch_size": step.batch_size,
        "actors": [step.compute.min_size, step.compute.max_size],
        "arguments": "tuple" if given is None else type(given).__name__,
    }


@contextlib.contextmanager
def _ray_data_in_silence() -> Iterator[None]:
    """Keep Ray Data's pages about an error from being printed, and raise the error that a stage raised instead of its wrapping."""
    logger = logging.getLogger("ray.data")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    except Exception as error:
        original = re.search(r"^(\w+(?:Error|Exception)): (.+)$", str(error), re.MULTILINE)
        if not original:
            raise
        kind, text = original.groups()
        text = text.replace("_run_pipeline.<locals>.", "")
        raise type(kind, (RuntimeError,), {})(f"{text} (while rows went through the plan)") from None
    finally:
        logger.setLevel(level)


def _seat(folder: str) -> int:
    """Return how many copies of the stage have come to work before this one."""
    for seat in range(1000):
        with contextlib.suppress(FileExistsError):
            os.close(os.open(f"{folder}/seat-{seat}", os.O_CREAT | os.O_EXCL))
            return seat
    return 1000


def _met(room: str, seat: int) -> bool:
    """Return whether the first two copies of the stage are there at the same time."""
    meeting.signal(room, str(seat))
    return meeting.wait_for(room, str(1 - seat) if seat < 2 else "0")
