"""What a sandbox uses, kept from outside: by a cgroup where one can be made, else by looking at its processes.

A cgroup is kept by the kernel and cannot be passed by; where none can be made, a thread looks at memory every fifth of a second.
"""

import contextlib
import functools
import os
import secrets
import threading
import time
from pathlib import Path

import psutil

from coursekit.sandbox.limits import Limits

PREFIX = "coursekit-"
LOOK = 0.2  # seconds from one look at memory to the next
GOING = 5.0  # seconds at most that killed processes need to go
EXACT_LOOK = 2.0  # seconds from one exact look at memory to the next; each costs milliseconds for each process
FAILURES = 10  # looks in a row that fail; then nothing limits its memory any more, and the sandbox has to end
UNWATCHED = "could not be watched"
_CONTROLLERS = ("pids", "cpuacct", "cpu")  # of version 1, beside memory


def open_account(limits: Limits) -> "Cgroup | Looked":
    """Return the best account that can be kept here."""
    name = f"{PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
    for home in _homes("memory"):
        with contextlib.suppress(OSError):
            return Cgroup(limits, home, name)
    return Looked(limits)


class Cgroup:
    """Control groups of version 1 or 2 for memory, number of processes, and an equal part of the CPUs."""

    def __init__(self, limits: Limits, home: Path, name: str):
        self._limits, self._folders = limits, [home / name]
        memory = self._folders[0]
        memory.mkdir()
        try:
            self._limit_memory(memory)
            self._limit_processes(name)
            self._weigh_cpus()
            # Whether the kernel counts all CPU seconds; else those that were seen are known.
            self.counts_cpu = bool(self._read("cpuacct.usage", "cpu.stat"))
        except OSError:
            self.close()
            raise

    def _limit_memory(self, memory: Path) -> None:
        self._new = (memory / "memory.max").exists()
        size = str(self._limits.memory_mb * 2**20)
        (memory / ("memory.max" if self._new else "memory.limit_in_bytes")).write_text(size)
        self._write("memory.swap.max", "0")
        self._write("memory.memsw.limit_in_bytes", size)

    def _limit_processes(self, name: str) -> None:
        for controller in () if self._new else _CONTROLLERS:  # version 2 has all in one folder
            for home in _homes(controller)[:1]:
                with contextlib.suppress(OSError):
                    (home / name).mkdir()
                    self._folders.append(home / name)
        self._write("pids.max", str(self._limits.processes))

    def _weigh_cpus(self) -> None:
        """Let the sandbox have as much of the CPUs as one process of the grader, however many processes it has."""
        weight = 1.25 ** -os.getpriority(os.PRIO_PROCESS, 0)  # as the kernel weighs niceness
        self._write("cpu.shares", str(max(2, int(1024 * weight))))
        self._write("cpu.weight", str(max(1, int(100 * weight))))

    def _write(self, name: str, text: str) -> None:
        for folder in self._folders:
            with contextlib.suppress(OSError):
                (folder / name).write_text(text)

    def _read(self, *names: str) -> str:
        """Return the text of the first of these files that there is."""
        for path in (folder / name for name in names for folder in self._folders):
            with contextlib.suppress(OSError):
                return path.read_text()
        return ""

    def add(self, pid: int) -> None:
        """Count a process, with all that it starts from now on."""
        for folder in self._folders:
            (folder / "cgroup.procs").write_text(str(pid))

    def exceeded(self) -> str:
        """Return which limit the kernel has ended a process for, "" for none."""
        counts = dict(line.split() for line in self._read("memory.events", "memory.oom_control").splitlines())
        return f"used more than {self._limits.memory_mb} MB of memory" if counts.get("oom_kill", "0") != "0" else ""

    def peak_mb(self) -> float:
        """Return the most memory that was used at one time, files in memory included."""
        return int(self._read("memory.peak", "memory.max_usage_in_bytes", "memory.current") or 0) / 2**20

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of all processes, the ended ones included; 0 where this group counts memory alone."""
        if not self.counts_cpu:
            return 0.0
        if nanoseconds := self._read("cpuacct.usage"):
            return int(nanoseconds) / 1e9
        return int(self._read("cpu.stat").split()[1]) / 1e6  # its first line: usage_usec

    def seen_cpu_seconds(self) -> float | None:
        """Return the CPU seconds until now; None where they are not counted."""
        return self.cpu_seconds() if self.counts_cpu else None

    def close(self) -> None:
        """Remove the groups; the kernel lets them go when the last process has, which may be a moment after it was killed."""
        end = time.monotonic() + GOING
        while [group for group in self._folders if not _is_removed(group)] and time.monotonic() < end:
            time.sleep(0.05)


def _is_removed(group: Path) -> bool:
    """Remove a control group, and return whether it is gone."""
    with contextlib.suppress(OSError):
        group.rmdir()
    return not group.exists()


class Looked:
    """Looks at the memory of all processes of the sandbox: their own, and their part of what they have in common.

    A thread looks all the time, whatever the grader waits for meanwhile, and ends the processes when they use too much.
    """

    counts_cpu = False

    def __init__(self, limits: Limits):
        self._limits, self._roots, self._peak, self._seconds = limits, list[psutil.Process](), 0.0, 0.0
        self._exact, self._resident, self._when = 0.0, 0.0, 0.0  # the last exact look
        self._reason, self._closed = "", threading.Event()

    def add(self, pid: int) -> None:
        """Count a process, with all that it starts from now on."""
        root = psutil.Process(pid)
        try:
            _tree(root)
        except psutil.AccessDenied:
            reason = "its memory cannot be watched, because /proc hides other users' processes from this user (hidepid)"
            raise OSError(f"{reason}: grade as root, or mount /proc without it") from None
        self._roots.append(root)
        if len(self._roots) == 1:
            threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        """Look until it is closed, and end what uses too much; the first process then tells the grader that it has ended."""
        failed = 0  # looks in a row
        while not self._closed.wait(LOOK):
            try:
                self._look_and_end()
                failed = 0
            except Exception:  # the machine has no memory or no descriptor left, which a bomb may be the cause of
                failed += 1
            if failed >= FAILURES:
                self._reason = self._reason or UNWATCHED

    def _look_and_end(self) -> None:
        """Look once, and end them all when they use too much."""
        if self._look() > self._limits.memory_mb:
            self._reason = f"used more than {self._limits.memory_mb} MB of memory"
        for process in self._processes() if self._reason else ():
            with contextlib.suppress(psutil.Error):
                process.kill()

    def _processes(self) -> list[psutil.Process]:
        """Return all processes but the first, which has nothing of its own."""
        return [process for root in list(self._roots) for process in _tree(root)[1:]]

    def _look(self) -> float:
        """Return how much they use now; between two exact looks, what grows counts in full."""
        processes = self._processes()
        self._seconds = max(self._seconds, sum(_cpu_seconds(process) for process in processes))
        resident = sum(_resident_mb(process) for process in processes)
        too_much = self._exact + resident - self._resident > self._limits.memory_mb
        if too_much or time.monotonic() - self._when > EXACT_LOOK:
            self._exact, self._resident = sum(_proportional_mb(process) for process in processes), resident
            self._peak, self._when = max(self._peak, self._exact), time.monotonic()
        return self._exact

    def exceeded(self) -> str:
        """Return that they used too much, or could not be watched; "" while neither is so."""
        return self._reason

    def peak_mb(self) -> float:
        """Return the most memory that was seen at one time."""
        if not self._when:  # it was over before the first look
            with contextlib.suppress(Exception):  # a number that is missing is nobody's loss
                self._look()
        return self._peak

    def cpu_seconds(self) -> float:
        """Return the most CPU seconds that were seen: of those who live, and of those whose parent waited for their end."""
        with contextlib.suppress(Exception):  # a number that is missing is nobody's loss
            processes = [process for root in self._roots for process in _tree(root)]
            self._seconds = max(self._seconds, sum(_cpu_seconds(process) for process in processes))
        return self._seconds

    def seen_cpu_seconds(self) -> float | None:
        """Return the CPU seconds until the last look, at no cost."""
        return self._seconds

    def close(self) -> None:
        """Look no more."""
        self._closed.set()
        self._roots.clear()


def _tree(root: psutil.Process) -> list[psutil.Process]:
    """Return a process and all below it, [] once it has ended; raises what keeps them from being seen."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return [root, *root.children(recursive=True)]
    return []


def _resident_mb(process: psutil.Process) -> float:
    with contextlib.suppress(psutil.Error):
        return process.memory_info().rss / 2**20
    return 0.0


def _proportional_mb(process: psutil.Process) -> float:
    with contextlib.suppress(OSError, StopIteration):
        lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
    return _resident_mb(process)  # it hides its memory, and so counts in full


def _cpu_seconds(process: psutil.Process) -> float:
    with contextlib.suppress(psutil.Error):
        return sum(process.cpu_times()[:4])
    return 0.0


def sweep() -> None:
    """Remove the empty groups that a killed grader has left."""
    for home in {home for controller in ("memory", *_CONTROLLERS) for home in _homes(controller)}:
        for folder in home.glob(f"{PREFIX}*"):
            grader = folder.name.split("-")[1]
            if not os.path.exists(f"/proc/{grader}"):
                with contextlib.suppress(OSError):
                    folder.rmdir()


@functools.cache
def _homes(controller: str) -> list[Path]:
    """Return the folders where this process may hope to make a group for a controller, the nearest first."""
    try:
        groups = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()]
        mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return []
    own = {controllers: path for _, controllers, path in groups}
    for fields in mounts:
        kind, options = fields[fields.index("-") + 1], fields[-1].split(",")
        top, point = fields[3], Path(fields[4])
        if kind == "cgroup" and controller in options:
            names = next((path for controllers, path in own.items() if controller in controllers.split(",")), "/")
            return [point / os.path.relpath(names, top)]
        if kind == "cgroup2" and controller in _words(point / "cgroup.controllers"):
            nearest = point / os.path.relpath(own.get("", "/"), top)
            homes = [nearest, *nearest.parents]
            return [home for home in homes if controller in _words(home / "cgroup.subtree_control")]
    return []


def _words(path: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return path.read_text(encoding="utf-8").split()
    return []
