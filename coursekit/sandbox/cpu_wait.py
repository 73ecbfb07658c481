"""Whether a program that is late still wants to compute, or sleeps: others may have kept the CPUs busy meanwhile."""

import contextlib
import os
from pathlib import Path

import psutil


def wants_cpu(root: int) -> bool:
    """Return whether any thread of a process and all below it runs or waits for a CPU; False where that cannot be known."""
    with contextlib.suppress(psutil.Error):
        processes = [psutil.Process(root), *psutil.Process(root).children(recursive=True)]
        return any(_runs(f"/proc/{each.pid}/task/{thread}/stat") for each in processes for thread in _threads(each.pid))
    return False


def _threads(pid: int) -> list[str]:
    with contextlib.suppress(OSError):  # it has just ended
        return os.listdir(f"/proc/{pid}/task")
    return []


def _runs(stat: str) -> bool:
    with contextlib.suppress(OSError):  # the thread has just ended
        return Path(stat).read_text().rpartition(")")[2].split()[:1] == ["R"]
    return False
