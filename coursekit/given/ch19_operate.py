"""What chapter 19 hands out: a slow program, looks at a running Ray, a world that keeps count of effects; and the probe."""

import contextlib
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coursekit.given.folders import done_to_a_file, new_folder, wait_until

if TYPE_CHECKING:
    import numpy as np
    from pandas import DataFrame

PLAY_SECONDS = 0.14  # a fragment of the slow simulator
PREPARE_SECONDS = 0.12  # the preparation of a fragment takes this long, on any machine


def scale(pixel: int) -> float:
    """Return a pixel's brightness, from -0.5 to 0.5."""
    return pixel / 255 - 0.5


def scaled(frames: "np.ndarray") -> "np.ndarray":
    """Return the brightness of every pixel of frames [T, H, W]."""
    import numpy as np

    return np.array([[[scale(pixel) for pixel in row] for row in frame] for frame in frames])


def weights_of(frames: "np.ndarray") -> "np.ndarray":
    """Return a weight for each frame [T]: those that differ much from the mean frame count more."""
    import numpy as np

    far = np.abs(frames - frames.mean(axis=0)).mean(axis=(1, 2))
    return np.exp(far) / np.exp(far).sum()


class Sampler:
    """Plays on a slow simulator."""

    def play(self, seed: int, seconds: float = PLAY_SECONDS, frames: int = 56) -> "np.ndarray":
        """Return frames [T, 84, 84], after a nap in place of the simulator."""
        import numpy as np

        time.sleep(seconds)
        return np.random.default_rng(seed).integers(0, 256, (frames, 84, 84), dtype=np.uint8)


class Preparer:
    """Makes numbers of frames, for the learner."""

    def __init__(self) -> None:
        self.scaled = scaled

    def use(self, scaled: Callable) -> None:
        """Use this function for brightness from now on."""
        self.scaled = scaled

    def prepare(self, frames: "np.ndarray") -> "np.ndarray":
        """Return the weighted mean frame [H, W]."""
        import numpy as np

        bright = self.scaled(frames)
        return np.einsum("t,thw->hw", weights_of(bright), bright)


class Learner:
    """Takes what has been prepared, and counts it where Prometheus finds it."""

    def __init__(self) -> None:
        from ray.util.metrics import Counter

        self.model: Any = 0.0
        self.learned = Counter("learned_fragments", description="Fragments that the learner has taken.")

    def update(self, mean: "np.ndarray") -> float:
        """Move the model towards the mean, and return how bright the model is."""
        time.sleep(0.01)
        self.model = 0.9 * self.model + 0.1 * mean
        self.learned.inc()
        return float(self.model.mean())


def _frames_in(preparer: Preparer, seconds: float) -> int:
    """Return how many frames this process prepares in this many seconds."""
    frames = Sampler().play(0, 0, 8)
    times = []
    for _ in range(6):
        start = time.perf_counter()
        preparer.prepare(frames)
        times.append(time.perf_counter() - start)
    return max(16, min(200, int(8 * seconds / min(times))))


class Program:
    """Samplers, a preparer and a learner, each an actor; `run` passes fragments through them."""

    def __init__(self, samplers: int):
        import ray

        remote_sampler = ray.remote(num_cpus=0.5)(Sampler)
        self.samplers = [remote_sampler.remote() for _ in range(samplers)]
        self.preparer = ray.remote(Preparer).options(num_cpus=1).remote()
        self.learner = ray.remote(Learner).options(num_cpus=1).remote()
        self.launched = 0  # fragments, so far
        ray.get([actor.__ray_ready__.remote() for actor in self.actors])
        self.frames = ray.get(self.preparer.__ray_call__.remote(_frames_in, PREPARE_SECONDS))
        ray.get(self.launch(len(self.samplers)))  # the first call of each function pays for imports

    @property
    def actors(self) -> list:
        """Return all actors."""
        return [*self.samplers, self.preparer, self.learner]

    def launch(self, fragments: int, play: float = PLAY_SECONDS) -> list:
        """Return one reference for each fragment, on its way through play, prepare and update."""
        self.launched += fragments
        players = [self.samplers[seed % len(self.samplers)] for seed in range(fragments)]
        frames = [player.play.remote(seed, play, self.frames) for seed, player in enumerate(players)]
        means = [self.preparer.prepare.remote(each) for each in frames]
        return [self.learner.update.remote(each) for each in means]

    def run(self, fragments: int, play: float = PLAY_SECONDS) -> float:
        """Return the seconds that this many fragments take; the simulator needs `play` seconds for one."""
        import ray

        start = time.perf_counter()
        ray.get(self.launch(fragments, play))
        return time.perf_counter() - start

    def stop(self) -> None:
        """End all actors, and return when they are gone."""
        import ray

        from coursekit.records import actors

        ours = {actor._actor_id.hex() for actor in self.actors}
        for actor in self.actors:
            ray.kill(actor)
        wait_until(lambda: all(row["state"] == "DEAD" for row in actors() if row["actor_id"] in ours))


def ended(run: Any) -> list[dict]:
    """Return the records of a recorded block's calls that have ended (see `coursekit.records.tasks`)."""
    return [call for call in run.tasks() if call["started"] and call["ended"]]


def name_rows(axes: Any, calls: list[dict]) -> Any:
    """Write the class of its actor beside each row of a timeline, which is one actor; return the axes."""
    order = sorted(calls, key=lambda call: call["started"])  # as the timeline orders its rows
    classes = {call["worker_pid"]: call["name"].partition(".")[0] for call in order}
    axes.set_yticks(range(len(classes)), list(classes.values()))
    return axes


def profiled(self: Any, method: str, *args: Any, lines: int = 6) -> str:
    """Return where the time of one call of an actor's method went: run it inside the actor, with `__ray_call__`."""
    import cProfile
    import io
    import pstats

    profile = cProfile.Profile()
    profile.runcall(getattr(self, method), *args)
    text = io.StringIO()
    pstats.Stats(profile, stream=text).strip_dirs().sort_stats("tottime").print_stats(lines)
    return text.getvalue().strip()


def cpu_seconds() -> dict[str, float]:
    """Return the CPU seconds that the processes of each class of living actors have used so far, by the operating system."""
    import psutil

    from coursekit.records import actors

    used: dict[str, float] = {}
    for row in actors():
        if row["state"] == "ALIVE" and row["pid"]:
            with contextlib.suppress(psutil.Error):
                times = psutil.Process(row["pid"]).cpu_times()
                used[row["class_name"]] = used.get(row["class_name"], 0.0) + times.user + times.system
    return used


def costs(calls: list[dict], before: dict, after: dict, seconds: float) -> "DataFrame":
    """Return a table of CPU seconds for each class of actors: reserved, reserved with a call running, and really computed."""
    from pandas import DataFrame

    from coursekit.records import actors

    living = {row["actor_id"]: row for row in actors() if row["state"] == "ALIVE" and row["class_name"] in before}
    columns = ("reserved", "in calls", "computed")
    table = {row["class_name"]: dict.fromkeys(columns, 0.0) for row in living.values()}
    for row in living.values():
        table[row["class_name"]]["reserved"] += row["resources"].get("CPU", 0.0) * seconds
    for call in calls:
        if call["actor_id"] in living and call["ended"]:
            row = living[call["actor_id"]]
            busy = call["ended"] - call["started"]
            table[row["class_name"]]["in calls"] += row["resources"].get("CPU", 0.0) * busy
    for name, line in table.items():
        line["computed"] = after[name] - before[name]
    return DataFrame(table).T


def shell(command: str) -> str:
    """Return what a `ray` command prints in a terminal where RAY_ADDRESS and RAY_AUTH_MODE are set."""
    import ray

    from coursekit.paths import path_with_scripts

    variables = {"RAY_ADDRESS": ray.get_runtime_context().gcs_address, "RAY_AUTH_MODE": "token"}
    done = subprocess.run(
        command.split(),
        env=os.environ | variables | {"PATH": path_with_scripts(), "COLUMNS": "80"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    return done.stdout


def summaries(text: str) -> str:
    """Return what `ray memory --group-by STACK_TRACE` says of each group that holds memory: its size, and its place in the code."""
    blocks = re.findall(r"--- Summary for stack trace: (.*?) ---\n.*\n(\S+ MB) +(\d+)", text)
    lines = [(float(size.split()[0]), f"{size:>14}  {_last_place(place)}") for place, size, _ in blocks]
    return "\n".join(line for size, line in sorted(lines, reverse=True) if size >= 0.01) or text[-500:]


def _last_place(place: str) -> str:
    """Return a call site as `kind: file:function:line`, of its frames the last outside of Ray."""
    kind, *frames = [part.strip() for part in place.split("|")]
    own = [frame for frame in frames if "site-packages" not in frame]
    return kind + (f": {own[0].rpartition('/')[2]}" if own else "")


def logs_folder() -> Path:
    """Return the folder in which the Ray of this notebook keeps its logs."""
    import ray

    return Path(ray._private.worker._global_node.get_logs_dir_path())


def log_of(actor: Any, ending: str = "out") -> Path:
    """Return the file that holds what an actor has printed."""
    from coursekit.records import actors

    (pid,) = [row["pid"] for row in actors() if row["actor_id"] == actor._actor_id.hex()]
    path = next(iter(logs_folder().glob(f"worker-*-{pid}.{ending}")))
    wait_until(path.read_text)
    return path


def metrics_address() -> str:
    """Return where this node's agent shows its metrics."""
    import ray

    node = next(node for node in ray.nodes() if node["Alive"])
    return f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"


def answer_stack_requests(self: Any, path: str) -> int:
    """Let this actor write the stacks of all its threads to a file at each SIGUSR1; return its process. Use `__ray_call__`."""
    import faulthandler

    self._stacks = Path(path).open("w")  # noqa: SIM115  the handler writes there for as long as the actor lives
    faulthandler.register(signal.SIGUSR1, file=self._stacks)
    return os.getpid()


def stack_of(pid: int, path: str) -> str:
    """Return the stack of a process's main thread, innermost first, without the lines of Ray and of Python itself."""
    os.kill(pid, signal.SIGUSR1)
    wait_until(lambda: "Current thread" in Path(path).read_text(), 10)
    time.sleep(0.2)  # the last lines
    (*_, main) = Path(path).read_text().split("Current thread")
    lines = [line.strip() for line in main.splitlines() if line.strip().startswith("File ")]
    kept = [
        line for line in lines if not re.search(r"site-packages.ray.(_private|util)|lib.python3\.\d+.threading", line)
    ]
    waits = any("get_objects" in line for line in lines)
    return "\n".join((["ray.get, called from"] if waits else []) + [_without_folder(line) for line in kept])


def _without_folder(line: str) -> str:
    return re.sub(r'"(.*?)([^/"]+)"', r'"\2"', line)


def pending_report(until: tuple = ()) -> tuple[list[dict], list[dict], list[dict]]:
    """Return (tasks, nodes, holders) of the running Ray, from the state API: the rows that `explain_pending` takes.

    Waits until tasks of all names in `until` have been reported.
    """
    from ray.util.state import list_actors, list_nodes

    address = _dashboard()
    settled = wait_until(lambda: _settled(_unfinished(address), until))
    rows = _unfinished(address)
    if not settled:
        missing = ", ".join(sorted(set(until) - {row.name for row in rows})) or "none"
        print(f"Not all tasks are as they should be (missing: {missing}). Run this cell once more.")
    tasks = [
        {
            "id": row.task_id,
            "name": row.name,
            "state": row.state,
            "asks": dict(row.required_resources or {}),
            "actor": row.actor_id if row.type == "ACTOR_TASK" else None,
        }
        for row in rows
    ]
    nodes = [
        {"id": node.node_id, "alive": node.state == "ALIVE", "resources": dict(node.resources_total or {})}
        for node in list_nodes(address=address, detail=True)
    ]
    parents = {row.parent_task_id for row in rows if row.state.startswith(("PENDING", "SUBMITTED"))}
    living = [actor for actor in list_actors(address=address, detail=True, limit=10_000) if actor.state == "ALIVE"]
    holders = [_held_by_task(row, row.task_id in parents) for row in rows if row.type == "NORMAL_TASK" and _runs(row)]
    return tasks, nodes, holders + [_held_by_actor(actor, rows, parents) for actor in living]


def _unfinished(address: str) -> list:
    from ray.util.state import list_tasks

    rows = list_tasks(address=address, detail=True, limit=10_000, filters=[("state", "!=", "FINISHED")])
    return [row for row in rows if row.state != "FAILED"]


def wait_for_reports(of: int) -> None:
    """Return once this many tasks that have not ended have been reported to the state API."""
    wait_until(lambda: len(_unfinished(_dashboard())) >= of)


def wait_until_running(name: str) -> None:
    """Return once a task of this name is on record as running, or after a minute."""
    wait_until(lambda: any(row.name == name and _runs(row) for row in _unfinished(_dashboard())), 60)


def _settled(rows: list, names: tuple) -> bool:
    """Return whether all these tasks are on record, and none is just on its way to a worker."""
    moving = [row for row in rows if row.type == "NORMAL_TASK" and row.state == "SUBMITTED_TO_WORKER"]
    return not moving and {row.name for row in rows} >= set(names)


def _runs(row: Any) -> bool:
    return row.state.startswith("RUNNING")


def _held_by_task(row: Any, waits: bool) -> dict:
    """Return what a running task holds: one that waits has lent its CPU."""
    asks = row.required_resources or {}
    held = {name: amount for name, amount in asks.items() if not (waits and name == "CPU")}
    return {"who": row.name, "node": row.node_id, "holds": held, "doing": "waits" if waits else "works"}


def _held_by_actor(actor: Any, rows: list, parents: set) -> dict:
    """Return what a living actor holds, and whether it is at work, waits for others, or has nothing to do."""
    calls = [row for row in rows if row.actor_id == actor.actor_id and _runs(row)]
    waits = any(row.task_id in parents for row in calls)
    doing = "waits" if waits else "works" if calls else "idle"
    holds = dict(actor.required_resources or {})
    return {"who": actor.class_name, "node": actor.node_id, "holds": holds, "doing": doing}


def _dashboard() -> str:
    """Return the address of the dashboard of this notebook's Ray: other Rays may run on the machine."""
    import ray

    return f"http://{ray._private.worker._global_node.webui_url}"


class World:
    """Something outside that steps act on, like a bank or a mail server: it takes each key once, and its journal survives every death."""

    def __init__(self, path: str = ""):
        self.path = path or os.path.join(new_folder("operate-"), "world")
        self.home = os.getpid()

    def act(self, what: str, key: str) -> None:
        """Do something to the world; a key that has come before changes nothing."""
        if not any(row.get("key") == key for row in self.journal()):
            self.note(effect=what, key=key)

    def dies_once(self, where: str) -> None:
        """Kill this process the first time that it comes here, as a power cut would; never the notebook's own."""
        if not any(row.get("died") == where for row in self.journal()) and os.getpid() != self.home:
            self.note(died=where)
            os.kill(os.getpid(), signal.SIGKILL)

    def note(self, **row: object) -> None:
        """Write a line into the journal; it stays, whatever happens to the writer."""
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(file, (json.dumps(row) + "\n").encode())
        os.close(file)

    def journal(self) -> list[dict]:
        """Return what has happened so far, in order: effects with their keys, deaths, and what else was noted."""
        if not os.path.exists(self.path):
            return []
        return [json.loads(line) for line in Path(self.path).read_text().splitlines()]


# Probes of `durable_pipeline`: its calls run in processes that are killed at a chosen moment.

PATIENCE = 20  # CPU seconds after which a call is ended, or ten times as many by the clock, for one that only sleeps
MOST = 200  # moments at which a call is killed


def run_sessions(durable_pipeline: Callable, steps: list, sessions: list) -> list[dict]:
    """Return what came of each attempt; every session of them has a Python of its own, where texts have other hashes.

    A step is a name and a result, an attempt the name of a run and the step that raises once, after its effect. See `_attempt`.
    """
    with tempfile.TemporaryDirectory(prefix="pipeline-") as home:
        folder = os.path.join(os.path.realpath(home), "runs")  # on a Mac, /var is a link
        found = [_in_a_new_python("_session", durable_pipeline, steps, folder, session) for session in sessions]
    return [attempt for session in found for attempt in session]


def die_at_every_moment(durable_pipeline: Callable, steps: list, run: str) -> list[list[dict]]:
    """Return attempts killed at moment 1, 2, 3, … of a run, until one survives; each with another that resumes in its folder."""
    with tempfile.TemporaryDirectory(prefix="pipeline-") as home:
        found: list[list[dict]] = _in_a_new_python("_deaths", durable_pipeline, steps, os.path.realpath(home), run)
        return found


def _in_a_new_python(function: str, *arguments: object) -> Any:
    """Return what a function of this module returns in a new Python, which has one thread, so it may fork."""
    import cloudpickle  # type: ignore[import-untyped]

    paths = os.pathsep.join(filter(None, sys.path))
    settings = {"PYTHONPATH": paths, "PYTHONHASHSEED": "random", "RAY_ENABLE_AUTO_CONNECT": "0"}
    done = subprocess.run(
        [sys.executable, "-c", f"from {__name__} import _tell, {function}; _tell({function})"],
        env=os.environ | settings,
        input=cloudpickle.dumps(arguments),
        capture_output=True,
    )
    if done.returncode:
        raise RuntimeError(f"The pipeline could not be started: {done.stderr.decode()[-300:]}")
    return json.loads(done.stdout.splitlines()[-1])


def _tell(function: Callable) -> None:
    """Print what a function returns, below what a pipeline may have printed; its arguments come in by stdin."""
    result = json.dumps(function(*pickle.load(sys.stdin.buffer)))
    print(f"\n{result}")


def _session(pipeline: Callable, steps: list, folder: str, attempts: list) -> list[dict]:
    return [_attempt(pipeline, steps, folder, run, fails=fails) for run, fails in attempts]


def _deaths(pipeline: Callable, steps: list, home: str, run: str) -> list[list[dict]]:
    found: list[list[dict]] = []
    for kill in range(1, MOST):
        folder = os.path.join(home, str(kill))
        killed = _attempt(pipeline, steps, folder, run, kill)
        if killed["end"] != "killed":
            break
        found.append([killed, _attempt(pipeline, steps, folder, run)])
        if found[-1][1]["end"] != "value":
            break
    return found


def _attempt(pipeline: Callable, steps: list, folder: str, run: str, kill: int = 0, fails: str = "") -> dict:
    """Return what came of one attempt in a process of its own, which is killed at a moment (0: never).

    `end` is "value", "error" or "killed", with a `value`: what was returned, the error, or what had just happened. `begins` has
    [step, value] of each call, and `effects` the [step, key] that are in the world since.
    """
    world = World(f"{folder}.world")
    before = len(world.journal())
    child = os.fork()
    if child == 0:
        signal.setitimer(signal.ITIMER_PROF, PATIENCE)
        signal.alarm(10 * PATIENCE)
        os.makedirs(folder, exist_ok=True)
        clock = _Clock(kill, folder, world)
        sys.addaudithook(clock.on_event)
        _make([(name, _step(name, result, fails, clock)) for name, result in steps], pipeline, run, folder, world)
    os.waitpid(child, 0)
    rows = world.journal()[before:]
    endless = {
        "end": "error",
        "value": f"TimeoutError: it went on for more than {PATIENCE} CPU seconds, or slept for minutes",
    }
    return next((row for row in rows if "end" in row), endless) | {
        "begins": [[row["begins"], row["value"]] for row in rows if "begins" in row],
        "effects": [[row["effect"], row["key"]] for row in rows if "effect" in row],
    }


def _make(steps: list, pipeline: Callable, run: str, folder: str, world: World) -> None:
    """Call the pipeline, write down how that ended, and end this process."""
    try:
        world.note(end="value", value=pipeline(steps, run, folder))
    except BaseException as error:
        world.note(end="error", value=f"{type(error).__name__}: {error}"[:300])
    os._exit(0)


def _step(name: str, result: object, fails: str, clock: "_Clock") -> Callable:
    """Return a step that acts on the world; it raises at its first call where it is the one that fails."""
    errors = [ConnectionError("the network hiccuped")] if fails == name else []

    def act(value: object, key: object) -> object:
        clock.world.note(begins=name, value=value)
        clock.tick(f"begun step {name}")
        clock.world.act(name, repr(key))
        clock.tick(f"had the effect of step {name}")
        if errors:
            raise errors.pop()
        return result

    return act


class _Clock:
    """Counts the moments of an attempt, and kills its process at one of them."""

    def __init__(self, kill: int, folder: str, world: World):
        self.kill, self.folder, self.world, self.moments = kill, folder + os.sep, world, 0

    def tick(self, what: str) -> None:
        """Count a moment of a step."""
        if self._is_last(what):
            os.kill(os.getpid(), signal.SIGKILL)

    def on_event(self, event: str, args: tuple) -> None:
        """Count what is done to the files of the folder; the process dies as soon as it has been done."""
        what = done_to_a_file(event, args, self.folder)
        if what and event == "os.rename":
            self.tick(f"written {os.path.basename(str(args[0]))}")
        if what and self._is_last(what):
            sys.setprofile(self._strike)

    def _is_last(self, what: str) -> bool:
        self.moments += 1
        if self.moments == self.kill:
            self.world.note(end="killed", value=what)
        return self.moments == self.kill

    def _strike(self, frame: Any, event: str, arg: object) -> None:
        own = (_Clock.on_event.__code__, _Clock._is_last.__code__)  # their returns come before it is done
        if frame.f_code not in own:
            os.kill(os.getpid(), signal.SIGKILL)


def wait_for_count(so_far: Callable[[], list], name: str, count: int, seconds: float = 15) -> None:
    """Return once the newest page that was scraped shows this count of a counter, or after this many seconds."""
    line = re.compile(rf"^{re.escape(name)}(?:{{.*}})? (\S+)$", re.MULTILINE)

    def arrived() -> bool:
        pages = so_far()
        return bool(pages) and sum(map(float, line.findall(pages[-1][1]))) >= count

    wait_until(arrived, seconds)


@contextlib.contextmanager
def scrapes(seconds: float = 0.5) -> Iterator[Callable[[], list]]:
    """Scrape this node's metrics while the block runs; yield a function that returns [[time, text], …] so far."""
    import threading

    import requests

    found: list[list] = []
    over = threading.Event()
    address = metrics_address()

    def scrape() -> None:
        while not over.is_set():
            with contextlib.suppress(requests.RequestException):  # one scrape is missed, the next comes
                found.append([time.time(), requests.get(address, timeout=30).text])
            over.wait(seconds)

    thread = threading.Thread(target=scrape, daemon=True)
    thread.start()
    try:
        yield lambda: list(found)
    finally:
        over.set()
        thread.join(30)
