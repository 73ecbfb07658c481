"""What this machine offers for sandboxes: unused user ids, and a clean environment."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

import coursekit
from coursekit.basics.paths import ROOT
from coursekit.ray_bridge.quiet import ENVIRONMENT as QUIET
from coursekit.sandbox import jail

FIRST_USER, USERS = 1_900_000_000, 10_000_000  # no distribution hands these ids out
_KEPT = ("LANG", "LC_ALL", "LD_LIBRARY_PATH", "TZ")


def fork_server_settings(isolated: bool, imports: str, hidden: Iterable[str]) -> dict:
    """Return what a nursery's process needs to know."""
    user, count = user_ids()
    course = [str(ROOT)] if (ROOT / "chapters").is_dir() else []
    hide = [*course, *hidden]
    return {"isolated": isolated, "imports": imports, "user": user, "count": count, "hidden": hide}


def user_ids() -> tuple[int, int]:
    """Return the first of a range of user ids that own nothing here, and how many; for an ordinary user, only its own."""
    if os.getuid() != 0:
        return jail.USER, 1
    with open("/proc/self/uid_map", encoding="utf-8") as file:
        extents = [(int(line.split()[0]), int(line.split()[2])) for line in file]
    for first, count in extents:
        if first <= FIRST_USER and first + count >= FIRST_USER + USERS:
            return FIRST_USER, USERS
    first, count = max(extents, key=lambda extent: extent[1])  # a container has fewer: take the upper half
    return first + count // 2, count // 2


def environment(shm_mb: float, home: str = jail.HOME, temporary: str = "/tmp") -> dict[str, str]:
    """Return the environment of a sandbox: none of the grader's own variables but the language."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    above = str(Path(coursekit.__file__).parents[1])
    if above in os.environ.get("PYTHONPATH", "").split(":"):
        kept["PYTHONPATH"] = above  # coursekit is used where it lies
    path = f"{os.path.dirname(sys.executable)}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    return {
        "LANG": "C.UTF-8",
        **kept,
        **QUIET,
        "PATH": path,
        "HOME": home,
        "TMPDIR": temporary,
        "USER": "learner",
        "LOGNAME": "learner",
        "SHELL": "/bin/sh",
        "VIRTUAL_ENV": sys.prefix,
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "MPLCONFIGDIR": f"{home}/.config/matplotlib",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONIOENCODING": "utf-8:backslashreplace",
        "COURSEKIT_QUICK": "1",
        "RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES": str(int(shm_mb * 0.9 * 2**20)),  # as much as fits into /dev/shm
        "RAY_AUTH_MODE": "token",  # each sandbox has a token of its own; Ray reads the mode when it is imported
        "COURSEKIT_HOME": f"{home}/.coursekit",
    }
