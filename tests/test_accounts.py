"""What keeps a sandbox to its limits goes on when a look, a message or a start fails. No sandbox runs here: all is played."""

import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from coursekit.sandbox import accounts, frames, sandbox
from coursekit.sandbox import conversation as line_of_the_grader
from coursekit.sandbox.conversation import Line
from coursekit.sandbox.limits import Limits, SandboxDied
from coursekit.sandbox.nursery import NurseryFailed
from coursekit.sandbox.sandbox import Sandbox, wants_cpu
from tests.waiting import until

NO_DESCRIPTORS = OSError(errno.EMFILE, "Too many open files")
HIDDEN = "cannot be watched, because /proc hides other users' processes"


@pytest.fixture
def looked(monkeypatch) -> accounts.Looked:
    """Return an account that looks at memory often."""
    monkeypatch.setattr(accounts, "LOOK", 0.001)
    return accounts.Looked(Limits(memory_mb=100))


def large(looked: accounts.Looked) -> Any:
    """Return a process that uses too much memory; once it is ended, nobody looks any more."""
    memory = SimpleNamespace(rss=200 * 2**20)
    times = (0.0, 0.0, 0.0, 0.0)
    return SimpleNamespace(pid=-1, memory_info=lambda: memory, cpu_times=lambda: times, kill=looked.close)


def fails(looked: accounts.Looked, times: int) -> Any:
    """Return how the processes are found: nothing for a number of times, then one that is too large."""
    failures = [NO_DESCRIPTORS] * times

    def processes() -> list:
        if failures:
            raise failures.pop()
        return [large(looked)]

    return processes


# Memory is watched


@pytest.mark.parametrize("times", [0, 1, accounts.FAILURES - 1])
def test_after_a_look_that_failed_memory_is_watched_as_before(looked, monkeypatch, times):
    monkeypatch.setattr(looked, "_processes", fails(looked, times))
    looked._watch()
    assert looked.exceeded() == "used more than 100 MB of memory"


def test_where_no_look_succeeds_the_sandbox_is_said_to_be_unwatched(looked, monkeypatch):
    looks: list[str] = []

    def processes() -> list:
        looks.append(looked.exceeded())
        if len(looks) > accounts.FAILURES:
            looked.close()
        raise MemoryError

    monkeypatch.setattr(looked, "_processes", processes)
    looked._watch()
    assert looks == [""] * accounts.FAILURES + [accounts.UNWATCHED]


class Hidden:
    """A process that may not be looked at. It is none of this machine's: who watches ends what is too large."""

    def children(self, recursive: bool) -> list:
        raise psutil.AccessDenied(1)


def test_where_processes_are_hidden_no_sandbox_is_started(looked, monkeypatch):
    monkeypatch.setattr(psutil, "Process", lambda pid: Hidden())
    monkeypatch.setattr(looked, "_watch", lambda: None)
    with pytest.raises(OSError, match=HIDDEN):
        looked.add(1)


def test_a_number_that_cannot_be_read_stops_nothing(looked):
    looked._roots.append(Hidden())  # type: ignore[arg-type]
    assert (looked.cpu_seconds(), looked.peak_mb()) == (0, 0)


# A control group is read: the kernel's files are played


VERSION_1 = {  # as the kernel's documentation shows them, for a group that was ended at its limit
    "memory.limit_in_bytes": "9223372036854771712\n",
    "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
    "memory.max_usage_in_bytes": "52428800\n",
}
VERSION_2 = {
    "memory.max": "max\n",
    "memory.events": "low 0\nhigh 0\nmax 3\noom 1\noom_kill 1\noom_group_kill 0\n",
    "memory.peak": "52428800\n",
    "cpu.stat": "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\n",
}


@pytest.mark.parametrize(
    ("files", "limit", "cpu_seconds"),
    [
        pytest.param(VERSION_1, "memory.limit_in_bytes", None, id="version 1, memory alone"),
        pytest.param(VERSION_1 | {"cpuacct.usage": "2500000000\n"}, "memory.limit_in_bytes", 2.5, id="version 1"),
        pytest.param(VERSION_2, "memory.max", 2.5, id="version 2"),
    ],
)
def test_a_control_group_of_either_version_limits_and_counts(monkeypatch, tmp_path, files, limit, cpu_seconds):
    make = Path.mkdir

    def make_group(folder: Path) -> None:
        make(folder)
        for name, text in files.items():
            (folder / name).write_text(text)

    monkeypatch.setattr(Path, "mkdir", make_group)
    monkeypatch.setattr(accounts, "_homes", lambda controller: [])
    group = accounts.Cgroup(Limits(memory_mb=100), tmp_path, "group")
    assert (tmp_path / "group" / limit).read_text() == str(100 * 2**20)
    assert group.exceeded() == "used more than 100 MB of memory"
    assert group.peak_mb() == 50
    assert (group.counts_cpu, group.cpu_seconds()) == (cpu_seconds is not None, cpu_seconds or 0)


@pytest.mark.parametrize(
    ("niceness", "shares", "weight"), [(0, "1024", "100"), (15, "36", "3"), (-20, str(int(1024 * 1.25**20)), "8673")]
)
def test_a_sandbox_has_as_much_of_the_cpus_as_one_process_of_its_grader(
    monkeypatch, tmp_path, niceness, shares, weight
):
    make = Path.mkdir

    def make_group(folder: Path) -> None:
        make(folder)
        for name in (*VERSION_1, "cpu.shares", "cpu.weight"):
            (folder / name).write_text("0")

    for controller in ("memory", "cpu"):
        make(tmp_path / controller)
    monkeypatch.setattr(Path, "mkdir", make_group)
    monkeypatch.setattr(accounts, "_homes", lambda name: [tmp_path / name] if name == "cpu" else [])
    monkeypatch.setattr(accounts.os, "getpriority", lambda *who: niceness)
    group = accounts.Cgroup(Limits(), tmp_path / "memory", "group")
    assert (tmp_path / "cpu/group/cpu.shares").read_text() == shares
    assert (tmp_path / "cpu/group/cpu.weight").read_text() == weight
    group.add(1)
    assert (tmp_path / "cpu/group/cgroup.procs").read_text() == "1"


# A program that waits for a CPU


def test_a_program_that_computes_wants_a_cpu_and_one_that_sleeps_does_not():
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], stdout=subprocess.DEVNULL) as sleeps:
        until(lambda: not wants_cpu(sleeps.pid))
        sleeps.kill()
    computes = (
        "import threading, time; threading.Thread(target=lambda: [0 for _ in iter(int, 1)]).start(); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", computes], preexec_fn=lambda: os.nice(15)) as computing:
        until(lambda: wants_cpu(computing.pid))
        computing.kill()
    assert not wants_cpu(computing.pid)


@pytest.mark.parametrize(
    ("used", "wants", "starved"), [(0.5, True, True), (0.5, False, False), (1.5, True, False), (None, True, False)]
)
def test_a_program_is_starved_that_wants_a_cpu_and_has_not_had_one_for_its_time(monkeypatch, used, wants, starved):
    account = Account()
    account.seen_cpu_seconds = lambda: None if used is None else 100.0  # type: ignore[method-assign]
    account.cpu_seconds = lambda: 100.0 + (used or 0.0)  # type: ignore[method-assign]
    monkeypatch.setattr(sandbox, "wants_cpu", lambda pid: wants)
    monkeypatch.setattr(Line, "exchange", lambda line, message, seconds: (b"", line._starved(1.0)))
    with started(Nursery(), account, monkeypatch) as box:
        assert box._exchange({"op": "run"}, 1.0) == (b"", starved)


def test_time_that_a_starved_program_had_beyond_its_own_is_not_taken_from_the_whole(monkeypatch):
    monkeypatch.setattr(Line, "exchange", lambda line, message, seconds: (b"", bool(time.sleep(4 * seconds))))
    with started(Nursery(), Account(), monkeypatch) as box:
        box._exchange({"op": "run"}, 0.1)
        assert box._spent <= 0.1


@pytest.mark.slow
@pytest.mark.parametrize("looks", [3, 10**6])
def test_a_program_that_is_starved_has_more_time_but_not_without_end(monkeypatch, looks):
    asked: list[float] = []

    def starved(seconds: float) -> bool:
        asked.append(seconds)
        return len(asked) <= looks

    monkeypatch.setattr(line_of_the_grader, "GRACE", 0.1)
    line = ready_line(lambda: "")
    line._starved = starved
    with pytest.raises(SandboxDied, match="ran longer than 0.5 s"):
        line.exchange({"op": "run"}, 0.5)
    assert 1 < len(asked) <= looks + 1
    line.close()


# A sandbox that cannot be started, or ends


class Nursery:
    """Makes what a sandbox takes for its first process, and counts how many were ended."""

    isolated, ended, lost = True, 0, False

    def next_user(self) -> int:
        return 1

    def fork(self, request: dict, descriptors: list[int]) -> tuple[int, int]:
        return 1, 1

    def end(self, ticket: tuple[int, int]) -> float:
        self.ended += 1
        return 0.0

    def has_lost(self, ticket: tuple[int, int]) -> bool:
        return self.lost


class Account:
    """Adds every process but where it is to fail."""

    def __init__(self, error: Exception | None = None, exceeded: str = ""):
        self.error, self.exceeded = error, lambda: exceeded

    def add(self, pid: int) -> None:
        if self.error:
            raise self.error

    cpu_seconds = seen_cpu_seconds = peak_mb = lambda self: 0.0  # noqa: E731
    close = lambda self: None  # noqa: E731


def started(nursery: Any, account: Account, monkeypatch) -> Sandbox:
    monkeypatch.setattr(sandbox.accounts, "open_account", lambda limits: account)
    monkeypatch.setattr(Line, "wait_until_ready", lambda line: 1)
    monkeypatch.setattr(Line, "go", lambda line: None)
    return Sandbox(nursery, Limits())


@pytest.mark.parametrize("error", [psutil.NoSuchProcess(1), RuntimeError("can't start new thread"), NO_DESCRIPTORS])
def test_a_sandbox_that_cannot_be_watched_from_its_start_is_closed(monkeypatch, error):
    nursery = Nursery()
    with pytest.raises(NurseryFailed):
        started(nursery, Account(error), monkeypatch)
    assert nursery.ended == 1


@pytest.mark.parametrize(
    ("exceeded", "nursery_lost", "lost"),
    [
        ("", False, False),
        ("", True, True),
        ("used more than 600 MB of memory", True, False),
        (accounts.UNWATCHED, False, True),
    ],
)
def test_a_limit_that_was_passed_is_to_blame_whatever_became_of_the_nursery(monkeypatch, exceeded, nursery_lost, lost):
    nursery = Nursery()
    nursery.lost = nursery_lost
    with started(nursery, Account(exceeded=exceeded), monkeypatch) as box:
        assert box.lost() is lost


def test_a_sandbox_that_ends_when_it_is_to_be_interrupted_is_said_to_have_ended():
    def ends() -> str:
        line._theirs.close()
        return ""

    line = ready_line(ends)
    line.go()  # and nobody reads it
    with pytest.raises(SandboxDied, match="closed its line to the grader"):
        line.exchange({"op": "run"}, 0)
    line.close()


def ready_line(exceeded: Callable[[], str]) -> Line:
    line = Line(Limits(), exceeded)
    line._theirs.sendall(b'{"ready": 1}\n')
    line.wait_until_ready()
    return line


@pytest.mark.parametrize("size", [10, 10_000_000])
def test_a_reply_that_came_while_the_grader_was_held_up_counts(monkeypatch, size):
    def held_up(seconds: float) -> None:
        wait(seconds)
        monkeypatch.undo()
        identity, _ = frames.receive(line._learner)
        threading.Thread(target=line._learner.sendall, args=[frames.pack(identity, bytes(size))]).start()
        time.sleep(0.2)  # all the time that there was, and more

    line = ready_line(lambda: "")
    wait = line._wait
    monkeypatch.setattr(line, "_wait", held_up)
    reply, interrupted = line.exchange({"op": "run"}, 0.1)
    line.close()
    assert (len(reply), interrupted) == (size, False)
