"""The limits of this process: the cgroups that it is in, and what a JupyterHub says."""

import os
from pathlib import Path


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
