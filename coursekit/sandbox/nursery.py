"""The nursery: where a grader gets its sandboxes, and whether this machine can make any."""

import functools
import sys

from coursekit.sandbox.limits import Limits, SandboxDied
from coursekit.sandbox.sandbox import Sandbox
from coursekit.sandbox.supply import NurseryFailed, Supply

__all__ = ["Nursery", "NurseryFailed", "available"]


class Nursery(Supply):
    """Makes sandboxes, each in some ten milliseconds; see `Supply` for what it is made with."""

    def sandbox(self) -> Sandbox:
        """Return a new sandbox; raises NurseryFailed."""
        return Sandbox(self, self.limits)


@functools.cache
def available() -> str:
    """Return "" when a sandbox can be made here, else the reason in words; it makes one, and talks to it, to find out."""
    if sys.platform != "linux":
        return f"it takes Linux's namespaces, and this is {sys.platform}"
    try:
        with Nursery(Limits(disk_mb=1, shm_mb=1), imports=None) as nursery, nursery.sandbox() as sandbox:
            sandbox.tell("anything", False)  # which a learner's process has to take in
    except (NurseryFailed, SandboxDied) as error:
        return str(error)
    return ""
