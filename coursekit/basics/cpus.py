"""How many cores this process may use, in a container too."""

import os

from coursekit.basics.cgroups import cgroups, hub_limit, text_of


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
