"""What chapter 25 hands out: a world that records effects, drivers that die and are started again; and the probes."""

import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

from coursekit.given.folders import done_to_a_file, new_folder


class World:
    """Something outside that steps act on, like a bank: it accepts each key once, and its journal survives every death."""

    def __init__(self, path: str = ""):
        self.path = path or os.path.join(new_folder("pipelines-"), "world")
        self.home = os.getpid()

    def act(self, what: str, key: str) -> None:
        """Have an effect on the world; a key that it has seen before changes nothing."""
        if not any(row.get("key") == key for row in self.journal()):
            self.record(effect=what, key=key)

    def dies_once(self, where: str) -> None:
        """Kill this process the first time that it comes here, as a power failure would; never the notebook's own."""
        if not any(row.get("died") == where for row in self.journal()) and os.getpid() != self.home:
            self.record(died=where)
            os.kill(os.getpid(), signal.SIGKILL)

    def record(self, **row: object) -> None:
        """Write a line into the journal; it stays, even if the process that wrote it dies."""
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(file, (json.dumps(row) + "\n").encode())
        os.close(file)

    note = record  # its name in notebooks of 0.2

    def journal(self) -> list[dict]:
        """Return what has happened so far, in order: effects with their keys, deaths, and what else was recorded."""
        if not os.path.exists(self.path):
            return []
        return [json.loads(line) for line in Path(self.path).read_text(encoding="utf-8").splitlines()]


def play_cartpole(weights: list[float], seeds: list[int]) -> float:
    """Return the mean return of a linear policy on CartPole: it pushes right where weights times observation is positive."""
    import gymnasium

    env, total = gymnasium.make("CartPole-v1"), 0.0
    for seed in seeds:
        obs, _ = env.reset(seed=seed)
        over = False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(int(obs @ weights > 0))
            total += float(reward)
            over = terminated or truncated
    env.close()
    return total / len(seeds)


class Mail:
    """A step that sends one email and has one checkpoint; its process is killed at a moment that `mails_at_every_death` chooses."""

    def __init__(self, order: str, world: World, clock: "_Clock"):
        self.order, self._world, self._clock = order, world, clock

    def is_done(self) -> bool:
        """Return whether the checkpoint is there."""
        return any(row.get("saved") == self.order for row in self._world.journal())

    def save(self) -> None:
        """Write the checkpoint."""
        self._world.record(saved=self.order)
        self._clock.tick("saved")

    def send(self, key: str) -> None:
        """Send the email; the receiver drops an email whose key it has seen."""
        self._world.act(self.order, key)
        self._clock.tick("sent")


def mails_at_every_death(way: Callable) -> tuple[list[str], list[str]]:
    """Return the orders and the emails that arrived: one order for each moment at which the process is killed, and one without a death."""
    orders, mails = _in_a_new_python("_mails", way)
    return orders, mails


def _mails(way: Callable) -> tuple[list[str], list[str]]:
    with tempfile.TemporaryDirectory(prefix="mails-") as home:
        world, files, orders = World(os.path.join(home, "world")), os.path.join(home, "files"), list[str]()
        for kill in range(1, MOST):
            orders.append(f"order {kill}")

            def step(clock: "_Clock", order: str = orders[-1]) -> None:
                way(Mail(order, world, clock))

            if _in_a_child(step, files, world, kill)["end"] != "killed":
                break
            _in_a_child(step, files, world)
        return orders, [row["effect"] for row in world.journal() if "effect" in row]


def nights(pipeline: Callable, seconds: dict[str, float], moments: int) -> list[tuple[float, float]]:
    """Return, for each of `moments` deaths in a night, when the process died and how long both attempts took, in seconds.

    Each step of a night sleeps for its `seconds`; the process is killed from outside, whatever it is doing.
    """
    with tempfile.TemporaryDirectory(prefix="nights-") as home:
        found: list[list[float]] = _in_a_new_python("_nights", pipeline, seconds, moments, os.path.realpath(home))
    return [(died, took) for died, took in found]


def _nights(pipeline: Callable, seconds: dict[str, float], moments: int, home: str) -> list[list[float]]:
    def sleep(length: float) -> Callable:
        return lambda value, key: time.sleep(length)

    steps, whole, found = [(name, sleep(length)) for name, length in seconds.items()], sum(seconds.values()), []
    for number in range(moments):
        folder, dies = os.path.join(home, str(number)), whole * (number + 0.5) / moments
        os.makedirs(folder)
        took = _seconds_of(lambda: pipeline(steps, "night", folder), dies)  # noqa: B023
        again = _seconds_of(lambda: pipeline(steps, "night", folder))  # noqa: B023
        found.append([took, took + again])
    return found


def _seconds_of(work: Callable, dies: float | None = None) -> float:
    """Return how many seconds a child process ran: it does some work, and is killed after `dies` seconds."""
    start = time.perf_counter()
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    if dies is not None:
        time.sleep(dies)
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return time.perf_counter() - start


def drive(pipeline: Callable, steps: list, run: str, folder: str) -> str:
    """Run a pipeline in a new driver, which joins this notebook's Ray; return "done", or "killed" if it died by SIGKILL."""
    import ray

    address = ray.get_runtime_context().gcs_address
    done = _new_python("_drive", (pipeline, steps, run, folder, address))
    if done.returncode == -signal.SIGKILL:
        return "killed"
    _raise_where_it_failed(done)
    return "done"


def _drive(pipeline: Callable, steps: list, run: str, folder: str, address: str) -> None:
    import ray

    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    pipeline(steps, run, folder)


# Probes: an answer runs in processes of its own, which are killed at a chosen moment.

PATIENCE = 20  # CPU seconds after which a call is ended, or ten times as many by the clock, for one that only sleeps
MOST = 200  # moments at which a call is killed


class End(TypedDict):
    """What came of some work in a process of its own."""

    end: str  # "value", "error" or "killed"
    value: Any  # what was returned, the error, or what had just happened
    begins: list[tuple[str, Any]]  # the step and the value of each call
    effects: list[tuple[str, str]]  # the step and the key of each effect that is in the world since


class Published(TypedDict):
    """What came of five calls: three keys, the second of which was killed and sent again, and two repeats."""

    killed: str  # what had just happened, and nothing where there was no death
    ends: tuple[
        End, End, End, End, End
    ]  # of the first key, the second, the first with another policy, the third, the second
    registry: Any  # what the file holds: an object, or its text if it is not JSON


def run_sessions(durable_pipeline: Callable, steps: list, sessions: list) -> list[End]:
    """Return what came of each attempt; every session of them has a Python of its own, where texts have other hashes.

    A step is a name and a result, an attempt the name of a run and the step that raises once, after its effect.
    """
    with tempfile.TemporaryDirectory(prefix="pipeline-") as home:
        folder = os.path.join(os.path.realpath(home), "runs")  # on a Mac, /var is a link
        found = [_in_a_new_python("_session", durable_pipeline, steps, folder, session) for session in sessions]
    return [attempt for session in found for attempt in session]


def die_at_every_moment(durable_pipeline: Callable, steps: list, run: str) -> list[tuple[End, End]]:
    """Return attempts killed at moment 1, 2, 3, … of a run, until one survives; each with another that resumes in its folder."""
    with tempfile.TemporaryDirectory(prefix="pipeline-") as home:
        found: list[tuple[End, End]] = _in_a_new_python("_deaths", durable_pipeline, steps, os.path.realpath(home), run)
        return found


def publish_at_every_moment(publish_once: Callable, orders: list) -> list[Published]:
    """Return what came of five calls when the second was killed at moment 1, 2, 3, …; the last row has no death.

    `orders` are four, each [key, policy], and the fourth has the first one's key.
    """
    with tempfile.TemporaryDirectory(prefix="registry-") as home:
        found: list[Published] = _in_a_new_python("_publish", publish_once, orders, os.path.realpath(home))
        return found


def _publish(publish_once: Callable, orders: list, home: str) -> list[Published]:
    found: list[Published] = []
    for kill in range(1, MOST):
        folder = os.path.join(home, str(kill))
        world, path = World(f"{folder}.world"), os.path.join(folder, "registry.json")

        def publish(number: int, kill: int = 0, path: str = path, folder: str = folder, world: World = world) -> End:
            key, policy = orders[number]
            return _in_a_child(lambda clock: publish_once(path, key, policy), folder, world, kill)

        first, killed = publish(0), publish(1, kill)
        dead = killed["end"] == "killed"
        second = publish(1) if dead else killed
        ends = (first, second, publish(3), publish(2), publish(1))
        found.append({"killed": killed["value"] if dead else "", "ends": ends, "registry": _registry(path)})
        if not dead or any(end["end"] != "value" for end in ends):
            break
    return found


def _registry(path: str) -> object:
    text = Path(path).read_text(encoding="utf-8") if os.path.exists(path) else ""
    try:
        return json.loads(text)
    except ValueError:
        return text[:200]


def _in_a_new_python(function: str, *arguments: object) -> Any:
    """Return what a function of this module returns in a new Python, which has one thread, so it may fork."""
    done = _new_python(function, arguments)
    _raise_where_it_failed(done)
    return json.loads(done.stdout.splitlines()[-1])


def _new_python(function: str, arguments: tuple) -> subprocess.CompletedProcess:
    import cloudpickle  # type: ignore[import-untyped]

    paths = os.pathsep.join(filter(None, sys.path))
    settings = {"PYTHONPATH": paths, "PYTHONHASHSEED": "random", "RAY_ENABLE_AUTO_CONNECT": "0"}
    return subprocess.run(
        [sys.executable, "-c", f"from {__name__} import _tell, {function}; _tell({function})"],
        env=os.environ | settings,
        input=cloudpickle.dumps(arguments),
        capture_output=True,
    )


def _raise_where_it_failed(done: subprocess.CompletedProcess) -> None:
    if done.returncode:
        raise RuntimeError(f"The pipeline could not be started: {done.stderr.decode()[-300:]}")


def _tell(function: Callable) -> None:
    """Print what a function returns, below what a pipeline may have printed; its arguments come in by stdin."""
    result = json.dumps(function(*pickle.load(sys.stdin.buffer)))
    print(f"\n{result}")


def _session(pipeline: Callable, steps: list, folder: str, attempts: list) -> list[End]:
    return [_attempt(pipeline, steps, folder, run, fails=fails) for run, fails in attempts]


def _deaths(pipeline: Callable, steps: list, home: str, run: str) -> list[tuple[End, End]]:
    found: list[tuple[End, End]] = []
    for kill in range(1, MOST):
        folder = os.path.join(home, str(kill))
        killed = _attempt(pipeline, steps, folder, run, kill)
        if killed["end"] != "killed":
            break
        found.append((killed, _attempt(pipeline, steps, folder, run)))
        if found[-1][1]["end"] != "value":
            break
    return found


def _attempt(pipeline: Callable, steps: list, folder: str, run: str, kill: int = 0, fails: str = "") -> End:
    """Return what came of one attempt at a pipeline."""

    def work(clock: "_Clock") -> object:
        return pipeline([(name, _step(name, result, fails, clock)) for name, result in steps], run, folder)

    return _in_a_child(work, folder, World(f"{folder}.world"), kill)


def _in_a_child(work: Callable, folder: str, world: World, kill: int = 0) -> End:
    """Return what came of some work in a process of its own, which is killed at a moment (0: never)."""
    before = len(world.journal())
    child = os.fork()
    if child == 0:
        signal.setitimer(signal.ITIMER_PROF, PATIENCE)
        signal.alarm(10 * PATIENCE)
        os.makedirs(folder, exist_ok=True)
        clock = _Clock(kill, folder, world)
        sys.addaudithook(clock.on_event)
        _make(work, clock, world)
    os.waitpid(child, 0)
    rows = world.journal()[before:]
    endless = f"TimeoutError: it ran for more than {PATIENCE} CPU seconds, or slept for minutes"
    ended = next((row for row in rows if "end" in row), {"end": "error", "value": endless})
    return {
        "end": ended["end"],
        "value": ended["value"],
        "begins": [(row["begins"], row["value"]) for row in rows if "begins" in row],
        "effects": [(row["effect"], row["key"]) for row in rows if "effect" in row],
    }


def _make(work: Callable, clock: "_Clock", world: World) -> None:
    """Do the work, write down how that ended, and end this process."""
    try:
        world.record(end="value", value=work(clock))
    except BaseException as error:
        world.record(end="error", value=f"{type(error).__name__}: {error}"[:300])
    os._exit(0)


def _step(name: str, result: object, fails: str, clock: "_Clock") -> Callable:
    """Return a step that acts on the world; it raises at its first call where it is the one that fails."""
    errors = [ConnectionError("the network hiccuped")] if fails == name else []

    def act(value: object, key: object) -> object:
        clock.world.record(begins=name, value=value)
        clock.tick(f"started step {name}")
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
            self.world.record(end="killed", value=what)
        return self.moments == self.kill

    def _strike(self, frame: Any, event: str, arg: object) -> None:
        own = (_Clock.on_event.__code__, _Clock._is_last.__code__)  # their returns come before it is done
        if frame.f_code not in own:
            os.kill(os.getpid(), signal.SIGKILL)
