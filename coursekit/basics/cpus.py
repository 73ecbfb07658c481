"""How many cores this process may use, in a container too, and where the limits of its container stand."""

import os
from pathlib import Path


def cores() -> float:
    """Return the cores that this process may use: its affinity, or the least quota of its cgroups and its hub if that is less."""
    found = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    for folder in cgroups("cpu"):
        quota, _, period = text_of(f"{folder}/cpu.max").partition(" ")  # cgroup v2
        if not period:
            quota, period = (text_of(f"{folder}/cpu.cfs_{part}_us") for part in ("quota", "period"))
        if quota.isdigit() and period.isdigit():
            found = min(found, int(quota) / int(period))
    return min(found, hub_limit("CPU_LIMIT"))


def cgroups(controller: str, root: str = "/sys/fs/cgroup", own: str = "/proc/self/cgroup") -> list[str]:
    """Return the folders that hold this process's limits (cgroup v1 and v2): its own first, then all above it."""
    lines = [line.split(":", 2) for line in text_of(own).splitlines()]
    paths = [(root, path) for _, controllers, path in lines if not controllers]  # cgroup v2
    paths += [(f"{root}/{controller}", path) for _, names, path in lines if controller in names.split(",")]
    # A container may see its own folder as the root, and in /proc its path on the host.
    folders = [f"{place}{each}" for place, path in paths for each in (Path(path), *Path(path).parents)]
    return [folder for folder in folders if os.path.isdir(folder)]


def hub_limit(name: str) -> float:
    """Return the limit that JupyterHub put into a variable, infinity for none."""
    try:
        return float(os.environ.get(name) or "inf")
    except ValueError:
        return float("inf")


def text_of(path: str) -> str:
    """Return the text of a small file, "" where it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""
