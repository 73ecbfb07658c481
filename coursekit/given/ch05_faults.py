"""What Chapter 5 provides: ways to die on purpose, a diary that outlives processes, a second node; and the probes."""

import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, TypedDict

from coursekit.given.folders import new_folder, wait_until
from coursekit.ray_bridge import private, rendezvous


def ask_nodes_every(seconds: float) -> None:
    """Set the seconds between health checks of a node, for the next Ray of this process; Ray's default is 3 seconds."""
    for name in ("period", "initial_delay"):
        os.environ[f"RAY_health_check_{name}_ms"] = str(round(1000 * seconds))


class Diary:
    """A file that every process may write to; what is written stays, whatever happens to the process."""

    def __init__(self, path: str = ""):
        self.path = path or os.path.join(new_folder("diary-"), "diary.txt")
        self.home = os.getpid()

    def write(self, event: str) -> int:
        """Record an event, with the time and the process; return how often it had been recorded before."""
        before = self.count(event)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(f"{time.time()} {os.getpid()} {event}\n")
        return before

    def lines(self, event: str = "") -> list[dict]:
        """Return the recorded events in order, as dicts with `time`, `pid`, and `event`; only one kind if given."""
        if not os.path.exists(self.path):
            return []
        whole = (
            Path(self.path).read_text(encoding="utf-8").rpartition("\n")[0]
        )  # another process may be writing the next line
        rows = [line.split(" ", 2) for line in whole.splitlines()]
        found = [{"time": float(when), "pid": int(pid), "event": what} for when, pid, what in rows]
        return [row for row in found if event in ("", row["event"])]

    def count(self, event: str) -> int:
        """Return how often an event has been recorded."""
        return len(self.lines(event))

    def die(self) -> None:
        """Kill this process at once, as a power failure would; refuse in the notebook's own process."""
        if os.getpid() == self.home:
            raise RuntimeError("This would have killed your notebook. The function must run in a task.")
        self.write("dies")
        os.kill(os.getpid(), signal.SIGKILL)


def work(diary: Diary, parts: int, dies_after: int | None = None, seconds: float = 0.05) -> int:
    """Return the number of parts, after a sleep for each; the first attempt kills its own process after `dies_after` of them."""
    first = diary.write("begins") == 0
    for part in range(parts):
        if first and part == dies_after:
            diary.die()
        time.sleep(seconds)
        diary.write("part")
    diary.write("ends")
    return parts


def work_in_steps(diary: Diary, parts: int, dies_after: int | None = None, seconds: float = 0.05) -> int:
    """Do the same work, but start where the last attempt stopped according to the diary."""
    first = diary.write("begins") == 0
    for part in range(diary.count("part"), parts):
        if first and part == dies_after:
            diary.die()
        time.sleep(seconds)
        diary.write("part")
    diary.write("ends")
    return parts


def stumble(diary: Diary, how: str = "raises") -> None:
    """Fail on the first attempt, with an exception or the death of the process; do nothing on the second."""
    first = diary.write("begins") == 0
    if first and how == "dies":
        diary.die()
    if first:
        diary.write("dies")
        raise ConnectionError("the network hiccuped")
    diary.write("ends")


class Stumbler:
    """A class for an actor whose process dies in the first call."""

    def stumble(self, diary: Diary) -> None:
        """Die on the first attempt, and do nothing on the second."""
        stumble(diary, "dies")


def story(diary: Diary) -> dict:
    """Return the seconds of work before the failure, of the gap until the next attempt, of the work after; and the parts."""
    begins = [row["time"] for row in diary.lines("begins")]
    failure, end = diary.lines("dies")[0]["time"], diary.lines("ends")[0]["time"]
    parts = diary.count("part")
    return {"before": failure - begins[0], "gap": begins[1] - failure, "after": end - begins[1], "parts": parts}


class FragileSampler:
    """A sampler that sleeps instead of playing; on a seed in `deadly`, the first process dies."""

    def __init__(self, diary: Diary, deadly: list[int]):
        self.diary, self.deadly = diary, deadly

    def sample(self, seed: int) -> str:
        """Return a fragment, after a short sleep."""
        first = self.diary.write(f"samples {seed}") == 0
        time.sleep(0.15)
        if first and seed in self.deadly:
            self.diary.die()
        time.sleep(0.15)
        self.diary.write("done")
        return f"fragment {seed}"


def calls_in(diary: Diary) -> list[dict]:
    """Return a bar for `timeline` for each call of a `FragileSampler`: from its beginning to its end, or to its death."""
    begun: dict[int, float] = {}
    bars = []
    for row in diary.lines():
        if row["event"].startswith("samples"):
            begun[row["pid"]] = row["time"]
        else:
            bars.append(
                {
                    "name": "FragileSampler.sample",
                    "worker_pid": row["pid"],
                    "started": begun[row["pid"]],
                    "ended": row["time"],
                    "state": "FAILED" if row["event"] == "dies" else "FINISHED",
                }
            )
    return bars


def kill_process_of(actor: Any) -> int:
    """Kill the process in which an actor runs, as a crash would, and return its number."""
    from coursekit.ray_bridge.records import actors

    row = next(row for row in actors() if row["actor_id"] == private.actor_id(actor))
    os.kill(row["pid"], signal.SIGKILL)
    return row["pid"]


@contextlib.contextmanager
def second_node(num_cpus: int = 2) -> Iterator[Any]:
    """Yield a second node of the running Ray: `node.node_id`, `node.kill()`. It is removed when the block ends."""
    ENABLE_RAY_CLUSTERS_ENV_VAR = private.ENABLE_RAY_CLUSTERS_ENV_VAR
    from ray.cluster_utils import Cluster

    os.environ[ENABLE_RAY_CLUSTERS_ENV_VAR] = "1"  # macOS asks for that
    cluster = Cluster()
    cluster.head_node = private.global_worker.node  # the Ray that runs already, not a new one
    node = cluster.add_node(num_cpus=num_cpus)
    node.kill = lambda: cluster.remove_node(node, allow_graceful=False)  # SIGKILL to all of its processes
    try:
        yield node
    finally:
        if node in cluster.worker_nodes:
            cluster.remove_node(node, allow_graceful=False)
        cluster.head_node = None


# Probes: each drives a learner's object with the judge's inputs, and returns raw results.


class Fetched(TypedDict):
    """What `survivors` returned, how often each x was called, how often in this process, and whether those that wait met.

    `raised` is the name of a call's error that `survivors` raised instead of returning, "" for none.
    """

    returned: Any
    raised: str
    calls: dict[int, int]
    here: int
    met: bool


def fetch_all(survivors: Callable, plan: dict[int, str]) -> Fetched:
    """Return what `survivors` makes of a function that does for each x what the plan says, and how often it was called.

    In this process, where `here` counts, a call can neither die nor meet another.
    """
    diary, point = Diary(), rendezvous.new_point()
    guests = [x for x, act in plan.items() if act == "meets"]

    def call(x: int) -> object:
        times, act, here = diary.write(f"call {x}"), plan[x], os.getpid() == diary.home
        if here:
            diary.write("here")
        if act == "dies" and times < 4:
            diary.die()
        if act == "ValueError":
            raise ValueError(f"no value for {x}")
        if act == "KeyError":
            raise KeyError(f"no key for {x}")
        if act == "meets" and not here and _all_here(point, x, guests):
            diary.write("met")
        return {"None": None, "0": 0}.get(act, x * x)

    returned, raised = None, ""
    try:
        returned = survivors(call, list(plan))
    except Exception as error:
        raised = _failure_of_a_call(error)
        if not raised and not diary.count("here"):
            raise
    calls = {x: diary.count(f"call {x}") for x in plan}
    met = diary.count("met") == len(guests)
    return {"returned": returned, "raised": raised, "calls": calls, "here": diary.count("here"), "met": met}


def _failure_of_a_call(error: Exception) -> str:
    """Return the name of the error with which a call in `fetch_all` failed, "" where the learner's own code raised it."""
    import ray

    shown = getattr(error, "cause", None) or error  # Ray's wrapper is taken off
    died = type(error) is ray.exceptions.WorkerCrashedError
    return type(shown).__name__ if died or re.search(r"no (value|key) for \d", str(shown)) else ""


def _all_here(point: str, me: int, guests: list[int]) -> bool:
    rendezvous.signal(point, str(me))
    return all(_comes(point, guest) for guest in guests)


def _comes(point: str, guest: int) -> bool:
    """Return whether a guest comes; once one has been missed, no call waits for the others."""
    comes = rendezvous.wait_for(point, str(guest), unless="missed")
    if not comes:
        rendezvous.signal(point, "missed")
    return comes


class Ended(TypedDict):
    """How something ended: the value, or the name of the exception that it raised ("" for none) and its text."""

    value: Any
    raised: str
    text: str


class Attempted(Ended):
    """The same of a call, with how often the function was called, and how often it went on after a timeout."""

    calls: int
    went_on: int


def call_faulty(resilient_call: Callable, x: int, plan: list[str], attempts: int, seconds: float) -> Attempted:
    """Return how `resilient_call` ended for a function that does, call by call, what the plan says, and then works."""
    import ray

    diary, point = Diary(), rendezvous.new_point()

    def faulty(y: int) -> int:
        act = ([*plan[diary.write("call") :], "works"])[0]
        if act == "dies":
            diary.die()
        if act == "raises":
            raise KeyError(f"there is no {y}")
        if act == "raises Ray's":
            raise ray.exceptions.WorkerCrashedError
        if act == "hangs":
            _hang(diary, point)
        if act == "takes time":
            time.sleep(0.5)
        return y * y

    outcome = _outcome(lambda: resilient_call(faulty, x, attempts, seconds))
    wait_until(lambda: diary.count("went on") or not any(_lives(row["pid"]) for row in _hanging(diary)))
    rendezvous.signal(point, "over")
    return {**outcome, "calls": diary.count("call"), "went_on": diary.count("went on")}


def _hang(diary: Diary, point: str) -> None:
    """Wait until the probe is over; a call that was cancelled never goes on."""
    diary.write("hangs")
    try:
        rendezvous.wait_for(point, "over", what="your code to cancel a call that hangs")
    except BaseException:  # `ray.cancel` interrupts it
        diary.write("interrupted")
        raise
    diary.write("went on")


def _outcome(action: Callable) -> Ended:
    """Return how an action ended; Ray's wrapper around an exception is taken off."""
    import ray

    try:
        return {"value": action(), "raised": "", "text": ""}
    except (ray.exceptions.RayError, KeyError, TimeoutError) as error:
        cause = getattr(error, "cause", None)
        shown = cause if isinstance(cause, Exception) else error
        return {"value": None, "raised": type(shown).__name__, "text": str(shown).partition("\n")[0][:200]}


def _hanging(diary: Diary) -> list[dict]:
    """Return the calls that hang: nothing has been heard of their process since."""
    last = {row["pid"]: row for row in diary.lines()}
    return [row for row in last.values() if row["event"] == "hangs"]


def _lives(pid: int) -> bool:
    import psutil

    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


class Paid(TypedDict):
    """The answers to payments, and to the same again; the balance; the methods that an attribute of the same name hides.

    `second` is the answer of a second ledger to a deposit of 2, with a key that another ledger has seen.
    """

    second: Any
    answers: list[Any]
    again: list[Any]
    balance: Any
    hidden: list[str]


def pay(ledger_class: Any, payments: list, dying: list[int]) -> Paid:
    """Return what payments were told, each paid by a task; those at the places `dying` lose their process after the deposit.

    A hidden method is found by an actor's caller, and by nobody else.
    """
    import ray

    trial = ledger_class()
    trial.deposit("trial", 1)  # a stub, or an error in the class, is told best from here
    hidden = [name for name in ("deposit", "balance") if not callable(getattr(trial, name))]
    second = ledger_class().deposit("trial", 2)
    ledger, diary = ray.remote(ledger_class).remote(), Diary()

    @ray.remote(max_retries=3)
    def pay_one(place: int, key: str, amount: int) -> object:
        answer = ray.get(ledger.deposit.remote(key, amount))
        if diary.write(f"pays {place}") == 0 and place in dying:
            diary.die()
        return answer

    answers = [ray.get(pay_one.remote(place, *payment)) for place, payment in enumerate(payments)]
    again = [ray.get(ledger.deposit.remote(*payment)) for payment in payments]
    balance = ray.get(ledger.balance.remote())
    return {"second": second, "answers": answers, "again": again, "balance": balance, "hidden": hidden}


class Counted(TypedDict):
    """What each `add` of two counters returned, of ours and of the other."""

    totals: list[Any]
    others: list[Any]


def count_and_kill(counter_class: Any, steps: list[int], kills: list[int]) -> Counted:
    """Return the totals of two counters that take turns; the first is an actor, and is killed after the steps at `kills`."""
    import ray

    folder = new_folder("counter-")
    counter_class(f"{folder}/trial").add(1)  # a stub, or an error in the class, is told best from here
    watched = _watched(counter_class).options(max_restarts=-1, max_task_retries=-1)
    ours, other = watched.remote(f"{folder}/ours"), counter_class(f"{folder}/other")
    totals, others, pid = [], [], ray.get(ours.pid_of_it.remote())
    for place, step in enumerate(steps):
        others.append(other.add(1))
        totals.append(ray.get(ours.add.remote(step)))
        if place in kills:
            os.kill(pid, signal.SIGKILL)
            pid = ray.get(ours.pid_of_it.remote())
    return {"totals": totals, "others": others}


class Death(TypedDict):
    """The totals before a death and after the restart, what had just happened to the files, and what `__init__` failed with."""

    before: float
    after: float | None
    done: str
    problem: str


class Saved(TypedDict):
    """The deaths in the middle of a save, and the folders from which a file was brought to the folder of the path."""

    deaths: list[Death]
    elsewhere: list[str]


def die_while_saving(counter_class: Any, first: int, second: int, moments: int = 4) -> Saved:
    """Return the totals before and after each restart; the process died in `add(second)`, each time a moment later.

    A moment is when a file of the folder has changed, appeared or gone, whatever did it. Ends with the first `add` that survives.
    """
    import ray

    folder, diary = new_folder("counter-"), Diary()
    deaths: list[Death] = []
    counter = _watched(counter_class).options(max_restarts=-1).remote(f"{folder}/total")
    total = ray.get(counter.add.remote(first))
    for moment in range(1, moments + 1):
        ray.get(counter.die_at.remote(moment, folder, diary))
        with contextlib.suppress(ray.exceptions.RayActorError):
            ray.get(counter.add.remote(second))
            break
        death: Death = {"before": total, "after": None, "done": diary.lines()[-1]["event"], "problem": ""}
        deaths.append(death)
        try:
            total = death["after"] = ray.get(counter.add.options(max_task_retries=-1).remote(0))
        except ray.exceptions.RayActorError as error:  # its __init__ failed on what it found
            death["problem"] = str(error).strip().splitlines()[-1][:200]
            break
        if total not in (death["before"], death["before"] + second):
            break
    elsewhere = sorted({row["event"][len(_FROM) :] for row in diary.lines() if row["event"].startswith(_FROM)})
    return {"deaths": deaths, "elsewhere": elsewhere}


_FROM = "brings a file from "


def _watched(counter_class: Any) -> Any:
    """Return an actor class that does what the learner's does, tells its process, and can die in the middle of a write."""
    import ray

    class Watched(counter_class):
        def pid_of_it(self) -> int:
            return os.getpid()

        def die_at(self, moment: int, folder: str, diary: Diary) -> None:
            _die_at(moment, folder, diary)

    return ray.remote(Watched)


def _die_at(moment: int, folder: str, diary: Diary) -> None:
    """Kill this process as soon as the files of a folder have changed for the n-th time, before it does anything else."""
    states = [_files(folder)]

    def look(frame: Any, event: str, arg: object) -> None:
        now = _files(folder)
        if now != states[-1]:
            states.append(now)
            if len(states) > moment:
                diary.write(_difference(*states[-2:]))
                os.kill(os.getpid(), signal.SIGKILL)

    def on_event(event: str, args: tuple) -> None:
        if event == "os.rename":
            source, target = (os.path.dirname(os.path.realpath(str(name))) for name in args[:2])
            if target == os.path.realpath(folder) != source:
                diary.write(_FROM + source)

    sys.addaudithook(on_event)
    sys.setprofile(look)  # calls it whenever a function begins or ends, one written in C as well


def _files(folder: str) -> dict[str, bytes]:
    """Return what is in each file of a folder."""
    files = {}
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):  # a folder, or gone meanwhile
            files[name] = Path(folder, name).read_bytes()
    return files


def _difference(before: dict[str, bytes], after: dict[str, bytes]) -> str:
    """Return what has happened to the files of a folder, in words that follow "it had just"."""
    gone, new = sorted(before.keys() - after), sorted(after.keys() - before)
    changed = sorted(name for name in before.keys() & after if before[name] != after[name])
    for old, name in product(gone, new + changed):
        if before[old] == after[name]:
            return f"renamed {old} to {name}"
    did = [f"removed {name}" for name in gone] + [f"created {name}" for name in new]
    return " and ".join(did + [f"{'changed' if after[name] else 'emptied'} {name}" for name in changed])


class Collected(Ended):
    """How `collect` ended, with how many samplers were made, how often each seed was sampled, and whether those that wait met."""

    samplers: int
    times: dict[int, int]
    met: bool


def collect_with_deaths(collect: Callable, samplers: int, plan: dict[int, str], plus: int) -> Collected:
    """Return how `collect` ended with samplers that do for each seed what the plan says; how many were made, and what for.

    A plan's "dies 2" means that the first two samplers of this seed die; "raises", that the first three calls raise an error
    of Ray's, as if they had asked an actor that is dead; "meets", that all such calls wait for each other; "waits", that this one waits for the first of those.
    """
    import ray

    diary, point = Diary(), rendezvous.new_point()
    guests = [seed for seed, act in plan.items() if act == "meets"]

    class Sampler:
        def sample(self, seed: int) -> int:
            times, (act, *more) = diary.write(f"samples {seed}"), plan[seed].split()
            if act == "dies" and times < int(more[0]):
                diary.die()
            if act == "raises" and times < 3:
                raise ray.exceptions.ActorDiedError
            if act == "meets" and _all_here(point, seed, guests):
                diary.write("met")
            # three processes die meanwhile, and new ones start: a first miss tells nobody
            if act == "waits" and (rendezvous.wait_for(point, str(guests[0])) or _comes(point, guests[0])):
                diary.write("met")
            return seed * seed + plus

    sampler_class: Any = ray.remote(Sampler)

    def new_sampler() -> Any:
        diary.write("sampler")
        return sampler_class.remote()

    outcome = _outcome(lambda: collect(new_sampler, samplers, list(plan)))
    times = {seed: diary.count(f"samples {seed}") for seed in plan}
    waited = sum(act in ("meets", "waits") for act in plan.values())
    return {
        **outcome,
        "samplers": diary.count("sampler"),
        "times": times,
        "met": diary.count("met") == waited,
    }
