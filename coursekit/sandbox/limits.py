"""What a submission may use, and how a sandbox says that it has ended."""

import resource
import signal
from dataclasses import dataclass

from coursekit.judging.answer import Unreachable

FILES, BYTES = 200, 10_000_000  # files that are kept of a submission, and their bytes together


@dataclass(frozen=True)
class Limits:
    """What one sandbox may use: seconds by the grader's clock, memory and processes (threads count) of all its processes."""

    cell_seconds: float = 180
    total_seconds: float = 1200
    memory_mb: int = 6000
    processes: int = 2000
    disk_mb: int = 2000  # in its home and /tmp together
    shm_mb: int = 2000
    output_bytes: int = 1_000_000  # of a cell's output that are kept
    reply_bytes: int = 64_000_000  # of one answer


def impose(rlimits: dict[str, int]) -> None:
    """Set limits of the kernel for this process and all that it starts."""
    for name, value in rlimits.items():
        number = getattr(resource, name)
        hard = resource.getrlimit(number)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(number, (value, value))


class SandboxDied(Unreachable):
    """The learner's process has ended, or was ended; `reason` goes on after "your program …"."""

    def __init__(self, reason: str):
        super().__init__(f"The sandbox ended: the program {reason}.")
        self.reason = reason


def spoken(seconds: float) -> str:
    """Return a time as a learner reads it: "180 s"."""
    return f"{seconds:.0f} s" if seconds >= 1 else f"{seconds:.1g} s"


def reason_of(ended: dict) -> str:
    """Return in words how the learner's process ended, from what the first process of its sandbox says."""
    if "exit" in ended:
        return f"ended its own process (exit code {ended['exit']})"
    if "stopped" in ended:
        return f"stopped itself ({_name(ended['stopped'])})"
    return f"was killed by signal {ended['signal']} ({_name(ended['signal'])})"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
