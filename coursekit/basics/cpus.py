"""How many cores this process may use, in a container too."""

import os
from pathlib import Path


def cores() -> float:
    """Return the cores that this process may use: its affinity, or the container's quota if that is less."""
    found = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    quota, _, period = text_of("/sys/fs/cgroup/cpu.max").partition(" ")  # cgroup v2
    if not period:
        quota, period = (text_of(f"/sys/fs/cgroup/cpu/cpu.cfs_{part}_us") for part in ("quota", "period"))
    if quota.isdigit() and period.isdigit():
        found = min(found, int(quota) / int(period))
    return found


def text_of(path: str) -> str:
    """Return the text of a small file, "" where it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""
