"""What chapter 19 uses: a slow program, three programs of a colleague, and tools that look into a running Ray."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from coursekit.given.folders import new_folder, wait_until
from coursekit.ray_bridge import private

if TYPE_CHECKING:
    import numpy as np
    from pandas import DataFrame

SIMULATOR_SECONDS = 0.14  # how long the slow simulator takes for a fragment
PREPARE_SECONDS = 0.12  # how long the preparation of a fragment takes, on any machine


def scale(pixel: int) -> float:
    """Return a pixel's brightness, from -0.5 to 0.5."""
    return pixel / 255 - 0.5


def scaled(frames: "np.ndarray") -> "np.ndarray":
    """Return the brightness of every pixel of frames [T, H, W]."""
    import numpy as np

    return np.array([[[scale(pixel) for pixel in row] for row in frame] for frame in frames])


def weights_of(frames: "np.ndarray") -> "np.ndarray":
    """Return a weight for each frame [T]: frames that differ a lot from the mean frame count more."""
    import numpy as np

    far = np.abs(frames - frames.mean(axis=0)).mean(axis=(1, 2))
    return np.exp(far) / np.exp(far).sum()


class Sampler:
    """Collects experience from a slow simulator."""

    def sample(self, seed: int, seconds: float = SIMULATOR_SECONDS, frames: int = 56) -> "np.ndarray":
        """Return frames [T, 84, 84], after a sleep in place of the simulator."""
        import numpy as np

        time.sleep(seconds)
        return np.random.default_rng(seed).integers(0, 256, (frames, 84, 84), dtype=np.uint8)


class Preparer:
    """Turns frames into numbers for the learner."""

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
    """Learns from what has been prepared, and counts it where Prometheus finds it."""

    def __init__(self) -> None:
        from ray.util.metrics import Counter

        self.model: Any = 0.0
        self.learned = Counter("learned_fragments", description="Fragments learned from.")

    def update(self, mean: "np.ndarray") -> float:
        """Move the model toward the mean, and return how bright the model is."""
        time.sleep(0.01)
        self.model = 0.9 * self.model + 0.1 * mean
        self.learned.inc()
        return float(self.model.mean())


def _frames_in(preparer: Preparer, seconds: float) -> int:
    """Return how many frames this process prepares in this many seconds."""
    frames = Sampler().sample(0, 0, 8)
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

    def launch(self, fragments: int, simulator: float = SIMULATOR_SECONDS) -> list:
        """Return one reference for each fragment, on its way through sample, prepare, and update."""
        self.launched += fragments
        samplers = [self.samplers[seed % len(self.samplers)] for seed in range(fragments)]
        frames = [sampler.sample.remote(seed, simulator, self.frames) for seed, sampler in enumerate(samplers)]
        means = [self.preparer.prepare.remote(each) for each in frames]
        return [self.learner.update.remote(each) for each in means]

    def run(self, fragments: int, simulator: float = SIMULATOR_SECONDS) -> float:
        """Return the seconds that this many fragments take; the simulator takes `simulator` seconds for each."""
        import ray

        start = time.perf_counter()
        ray.get(self.launch(fragments, simulator))
        return time.perf_counter() - start

    def stop(self) -> None:
        """Stop all actors, and return once they are gone."""
        import ray

        from coursekit.ray_bridge.records import actors

        ours = {private.actor_id(actor) for actor in self.actors}
        for actor in self.actors:
            ray.kill(actor)
        wait_until(lambda: all(row["state"] == "DEAD" for row in actors() if row["actor_id"] in ours))


def ended(run: Any) -> list[dict]:
    """Return the records of a recorded block's finished calls (see `coursekit.ray_bridge.records.tasks`)."""
    return [call for call in run.tasks() if call["started"] and call["ended"]]


def name_rows(axes: Any, calls: list[dict]) -> Any:
    """Label each row of a timeline with the class of its actor; return the axes."""
    order = sorted(calls, key=lambda call: call["started"])  # as the timeline orders its rows
    classes = {call["worker_pid"]: call["name"].partition(".")[0] for call in order}
    axes.set_yticks(range(len(classes)), list(classes.values()))
    return axes


def profiled(self: Any, method: str, *args: Any, lines: int = 6) -> str:
    """Return where the time of one call to an actor's method went: run this inside the actor, with `__ray_call__`."""
    import cProfile
    import io
    import pstats

    profile = cProfile.Profile()
    profile.runcall(getattr(self, method), *args)
    text = io.StringIO()
    pstats.Stats(profile, stream=text).strip_dirs().sort_stats("tottime").print_stats(lines)
    return text.getvalue().strip()


def cpu_seconds() -> dict[str, float]:
    """Return the CPU seconds that the processes of each class of living actors have used so far, as the operating system counts them."""
    import psutil

    from coursekit.ray_bridge.records import actors

    used: dict[str, float] = {}
    for row in actors():
        if row["state"] == "ALIVE" and row["pid"]:
            with contextlib.suppress(psutil.Error):
                times = psutil.Process(row["pid"]).cpu_times()
                used[row["class_name"]] = used.get(row["class_name"], 0.0) + times.user + times.system
    return used


def costs(calls: list[dict], before: dict, after: dict, seconds: float) -> "DataFrame":
    """Return a table of CPU seconds for each class of actors: reserved, reserved while a call ran, and computed."""
    from pandas import DataFrame

    from coursekit.ray_bridge.records import actors

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

    from coursekit.basics.paths import path_with_scripts

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
    """Return what `ray memory --group-by STACK_TRACE` says about each group that holds memory: its size, and its place in the code."""
    blocks = re.findall(r"--- Summary for stack trace: (.*?) ---\n.*\n(\S+ MB) +(\d+)", text)
    lines = [(float(size.split()[0]), f"{size:>14}  {_last_place(place)}") for place, size, _ in blocks]
    return "\n".join(line for size, line in sorted(lines, reverse=True) if size >= 0.01) or text[-500:]


def _last_place(place: str) -> str:
    """Return a call site as `kind: file:function:line`, with its innermost frame outside Ray."""
    kind, *frames = [part.strip() for part in place.split("|")]
    own = [frame for frame in frames if "site-packages" not in frame]
    return kind + (f": {own[0].rpartition('/')[2]}" if own else "")


def logs_folder() -> Path:
    """Return the folder where this notebook's Ray keeps its logs."""
    return Path(private.global_node.get_logs_dir_path())


def log_of(actor: Any, ending: str = "out") -> Path:
    """Return the file with what an actor has printed."""
    from coursekit.ray_bridge.records import actors

    (pid,) = [row["pid"] for row in actors() if row["actor_id"] == private.actor_id(actor)]
    path = next(iter(logs_folder().glob(f"worker-*-{pid}.{ending}")))
    wait_until(path.read_text)
    return path


def metrics_address() -> str:
    """Return the address of the page on which this node's agent publishes its metrics."""
    import ray

    node = next(node for node in ray.nodes() if node["Alive"])
    return f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"


def answer_stack_requests(self: Any, path: str) -> int:
    """Let this actor write the stacks of all its threads to a file at each SIGUSR1; return its process. Use `__ray_call__`."""
    import faulthandler

    self._stacks = Path(path).open("w", encoding="utf-8")  # noqa: SIM115  the handler writes there for as long as the actor runs
    faulthandler.register(signal.SIGUSR1, file=self._stacks)
    return os.getpid()


def stack_of(pid: int, path: str) -> str:
    """Return the stack of a process's main thread, innermost first, without Ray's lines and Python's own."""
    os.kill(pid, signal.SIGUSR1)
    wait_until(lambda: "Current thread" in Path(path).read_text(encoding="utf-8"), 10)
    time.sleep(0.2)  # the last lines
    (*_, main) = Path(path).read_text(encoding="utf-8").split("Current thread")
    lines = [line.strip() for line in main.splitlines() if line.strip().startswith("File ")]
    kept = [
        line for line in lines if not re.search(r"site-packages.ray.(_private|util)|lib.python3\.\d+.threading", line)
    ]
    waits = any("get_objects" in line for line in lines)
    return "\n".join((["ray.get, called from"] if waits else []) + [_without_folder(line) for line in kept])


def _without_folder(line: str) -> str:
    return re.sub(r'"(.*?)([^/"]+)"', r'"\2"', line)


class HandedOver(NamedTuple):
    """A colleague's running program: its actor, its process, and the call that hasn't returned."""

    actor: Any
    pid: int
    stacks: str  # the file for stacks that the process writes itself
    call: Any


def hand_over() -> dict[str, HandedOver]:
    """Return three running programs of a colleague, by name; each has an actor and a call that hasn't returned."""
    import ray

    from coursekit.given.handed_over import Report, Saver, Shelf

    actors = {
        name: ray.remote(kind).remote() for name, kind in (("shelf", Shelf), ("saver", Saver), ("report", Report))
    }
    shelf, saver, report = actors.values()
    with contextlib.suppress(OSError):  # the colleague's program goes on after an error
        ray.get(saver.save.remote(os.path.join(new_folder(), "policies", "1.json"), [0.1, 0.2]))
    stacks = {name: os.path.join(new_folder(), name) for name in actors}
    pids = {name: ray.get(actors[name].__ray_call__.remote(answer_stack_requests, stacks[name])) for name in actors}
    calls = {
        "shelf": shelf.fill.remote(3600),
        "saver": saver.save.remote("/dev/null", [0.1, 0.2]),
        "report": report.write.remote(shelf),
    }
    return {name: HandedOver(actors[name], pids[name], stacks[name], calls[name]) for name in actors}


def waits_for(programs: dict[str, HandedOver]) -> dict[str, str]:
    """Return which of these processes has called which other one, where the call hasn't finished, by Ray's records."""
    wait_for_reports(of=len(programs) + 1)  # the call of each, and that of the report to the shelf
    names = {private.actor_id(program.actor): name for name, program in programs.items()}
    rows = _unfinished(_dashboard())
    callers = {row.task_id: names.get(row.actor_id) for row in rows}
    pairs = [(callers.get(row.parent_task_id), names.get(row.actor_id)) for row in rows]
    return {caller: called for caller, called in pairs if caller and called}


def ray_stack(pids: list[int]) -> str:
    """Return what `ray stack` prints about these processes, without lines of C and C++; if it can't run, why not."""
    if shutil.which("sudo") is None:
        return "`ray stack` was not run: it calls sudo, which this machine doesn't have."
    if subprocess.run(["sudo", "-n", "true"], stdin=subprocess.DEVNULL, capture_output=True).returncode:
        return "`ray stack` was not run: it calls sudo, which asks for a password. Run it in a terminal."
    others = len(_workers() - _session_pids())
    if others:
        return f"`ray stack` was not run: it would also pause {others} workers of other Rays on this machine."
    blocks = re.split(r"(?=Stack dump for )", shell("ray stack"))
    ours = [block for block in blocks if any(f" {pid} " in block.split("\n", 1)[0] for pid in pids)]
    lines = [line for block in ours for line in block.splitlines()]
    return "\n".join(line for line in lines if re.match("Stack dump|Thread", line) or ".py:" in line)


def _workers() -> set[int]:
    """Return the processes of this machine whose stacks `ray stack` would print."""
    import psutil

    names = ((each.pid, " ".join(each.info["cmdline"] or [])) for each in psutil.process_iter(["cmdline"]))
    return {pid for pid, line in names if line.startswith("ray::") or "default_worker.py" in line}


def _session_pids() -> set[int]:
    """Return the processes of this notebook's Ray, and those that they started."""
    import psutil

    kinds = private.global_node.all_processes.values()
    roots = [psutil.Process(each.process.pid) for started in kinds for each in started]
    return {process.pid for root in roots for process in (root, *root.children(recursive=True))}


def py_spy(pid: int, *options: str) -> str:
    """Return what `py-spy dump` prints about a process, or why the system refused."""
    from coursekit.basics.paths import path_with_scripts

    done = subprocess.run(
        ["py-spy", "dump", "--pid", str(pid), *options],
        env=os.environ | {"PATH": path_with_scripts(), "CLICOLOR_FORCE": "0", "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        reason = next((line.strip() for line in done.stderr.splitlines() if line.strip()), "no reason given")
        return f"py-spy was refused: {reason}"
    return done.stdout


def sample_stacks(pid: int, stacks: str, count: int = 10, seconds: float = 0.1) -> list[dict]:
    """Return samples of a process: whether it was `active`, and the `frames` of its main thread, the innermost first.

    A frame has a `function`, a `file`, and a `line`. If py-spy is refused, the process writes its own stacks, at SIGUSR1.
    """
    import psutil

    look = _by_py_spy if not py_spy(pid).startswith("py-spy was refused") else _by_signal
    process = psutil.Process(pid)
    samples = []
    for _ in range(count):
        samples.append(look(process, stacks))
        time.sleep(seconds)
    return samples


def _computes(process: Any) -> bool:
    """Return whether a process's main thread computes when it gets a CPU: a sample wakes it, and one that waits sleeps again at once."""
    import psutil

    before = sum(process.cpu_times()[:2])

    def computed() -> bool:
        return sum(process.cpu_times()[:2]) > before + 0.015  # more than one tick of the clock

    if psutil.LINUX:  # where the status is the main thread's
        wait_until(lambda: computed() or process.status() != psutil.STATUS_RUNNING, 30)
    else:
        time.sleep(0.1)  # time enough for one that computes to be noticed
    return computed()


def _by_py_spy(process: Any, stacks: str) -> dict:
    threads = json.loads(py_spy(process.pid, "--json"))
    main = next(thread for thread in threads if thread["os_thread_id"] in (process.pid, None))
    frames = [
        {
            "function": frame["name"].rpartition(".")[2],
            "file": os.path.basename(frame["filename"]),
            "line": frame["line"],
        }
        for frame in main["frames"]
    ]
    return {"active": _computes(process), "frames": frames}


def _by_signal(process: Any, stacks: str) -> dict:
    seen = Path(stacks).read_text(encoding="utf-8").count("Current thread")
    os.kill(process.pid, signal.SIGUSR1)
    wait_until(lambda: Path(stacks).read_text(encoding="utf-8").count("Current thread") > seen, 30)
    active = _computes(process)  # and it writes the last lines
    (*_, main) = Path(stacks).read_text(encoding="utf-8").split("Current thread")
    found = re.findall(r'File "(?:.*/)?(.+?)", line (\d+) in (\S+)', main)
    frames = [{"function": function, "file": file, "line": int(line)} for file, line, function in found]
    return {"active": active, "frames": frames}


def at_breakpoint(commands: list[str], seconds: float = 30) -> str:
    """Return what Ray's debugger prints for some commands at a breakpoint: what you would type after `ray debug`."""
    lines: list[Any] = []

    def connected() -> bool:
        lines.extend(_lines_to_breakpoints())
        return bool(lines)

    if not wait_until(connected, seconds):
        return "No call has reached a breakpoint."
    said = ""
    with lines[0] as line:
        for command in commands:
            said += _until_prompt(line) + command + "\n"
            line.sendall(f"{command}\n".encode())
    return said


def _lines_to_breakpoints() -> Iterator[Any]:
    """Yield a connection to a call that waits at a breakpoint; a call publishes its address a moment before it listens there."""
    import socket

    ray_constants = private.ray_constants
    _internal_kv_get = private.kv_get
    _internal_kv_list = private.kv_list

    space = ray_constants.KV_NAMESPACE_PDB
    for key in _internal_kv_list("RAY_PDB_", namespace=space)[:1]:
        host, _, port = (
            json.loads(_internal_kv_get(key, namespace=space) or "{}").get("pdb_address", "").rpartition(":")
        )
        with contextlib.suppress(OSError, ValueError):
            yield socket.create_connection((host, int(port)), timeout=30)


def _until_prompt(line: Any) -> str:
    text = ""
    while not text.endswith("(Pdb) "):
        data = line.recv(4096)
        if not data:
            return text
        text += data.decode()
    return text


def pending_report(until: tuple = ()) -> tuple[list[dict], list[dict], list[dict]]:
    """Return (tasks, nodes, holders) of the running Ray, from the state API, as `explain_pending` takes them.

    Waits until tasks with all the names in `until` have been reported.
    """
    from ray.util.state import list_actors, list_nodes

    address = _dashboard()
    settled = wait_until(lambda: _settled(_unfinished(address), until))
    rows = _unfinished(address)
    if not settled:
        missing = ", ".join(sorted(set(until) - {row.name for row in rows})) or "none"
        print(f"Not all tasks have been reported yet (missing: {missing}). Run this cell again.")
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
    """Return once this many unfinished tasks have been reported to the state API."""
    wait_until(lambda: len(_unfinished(_dashboard())) >= of)


def wait_until_running(name: str) -> None:
    """Return once a task with this name is on record as running, or after a minute."""
    wait_until(lambda: any(row.name == name and _runs(row) for row in _unfinished(_dashboard())), 60)


def _settled(rows: list, names: tuple) -> bool:
    """Return whether all these tasks are on record, and none is on its way to a worker."""
    moving = [row for row in rows if row.type == "NORMAL_TASK" and row.state == "SUBMITTED_TO_WORKER"]
    return not moving and {row.name for row in rows} >= set(names)


def _runs(row: Any) -> bool:
    return row.state.startswith("RUNNING")


def _held_by_task(row: Any, waits: bool) -> dict:
    """Return what a running task holds: a task that waits has released its CPU."""
    asks = row.required_resources or {}
    held = {name: amount for name, amount in asks.items() if not (waits and name == "CPU")}
    return {"who": row.name, "node": row.node_id, "holds": held, "doing": "waits" if waits else "works"}


def _held_by_actor(actor: Any, rows: list, parents: set) -> dict:
    """Return what a live actor holds, and whether it works, waits for others, or is idle."""
    calls = [row for row in rows if row.actor_id == actor.actor_id and _runs(row)]
    waits = any(row.task_id in parents for row in calls)
    doing = "waits" if waits else "works" if calls else "idle"
    holds = dict(actor.required_resources or {})
    return {"who": actor.class_name, "node": actor.node_id, "holds": holds, "doing": doing}


def _dashboard() -> str:
    """Return the address of the dashboard of this notebook's Ray: other Rays may run on the machine."""
    return f"http://{private.global_node.webui_url}"


def wait_for_count(so_far: Callable[[], list], name: str, count: int, seconds: float = 15) -> None:
    """Return once the latest scraped page shows this count of a counter, or after this many seconds."""
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
            with contextlib.suppress(requests.RequestException):  # a scrape is missed, and the next one follows
                found.append([time.time(), requests.get(address, timeout=30).text])
            over.wait(seconds)

    thread = threading.Thread(target=scrape, daemon=True)
    thread.start()
    try:
        yield lambda: list(found)
    finally:
        over.set()
        thread.join(30)
