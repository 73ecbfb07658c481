"""The nursery: where a grader gets its sandboxes, and whether this machine can make any."""

import functools
import sys

from coursekit.sandbox.limits import Limits, SandboxDied
from coursekit.sandbox.nursery_process import NurseryFailed, Supply
from coursekit.sandbox.sandbox import Sandbox

__all__ = ["Nursery", "NurseryFailed", "available"]


class Nursery(Supply):
    """Makes sandboxes, each in some ten milliseconds; see `Supply` for what it is made with."""

    def sandbox(self, cpus: int = 0) -> Sandbox:
        """Return a new sandbox, in which each Ray has at least this many CPUs; raises NurseryFailed."""
        return Sandbox(self, self.limits, cpus)

    def refusal(self) -> str:
        """Return "" when it makes sandboxes, else the reason in words; it makes one, and talks to it, to find out."""
        if self.isolated and sys.platform != "linux":
            return f"it takes Linux's namespaces, and this is {sys.platform}"
        try:
            with self.sandbox() as sandbox:
                sandbox.tell("anything", False)  # which a learner's process has to take in
        except (NurseryFailed, SandboxDied) as error:
            return str(error)
        return ""


@functools.cache
def available() -> str:
    """Return "" when a sandbox can be made here, else the reason in words."""
    with Nursery(Limits(disk_mb=1, shm_mb=1), imports="none") as nursery:
        return nursery.refusal()
