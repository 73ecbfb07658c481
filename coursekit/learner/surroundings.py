"""What a learner should know of the surroundings when a chapter begins: other Rays, whose copy this is, which kernel runs it."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil

from coursekit.basics.paths import NOTEBOOKS, ROOT, typed
from coursekit.basics.readers_language import told


def warnings(chapter: str) -> Iterator[str]:
    """Yield a line for each thing that would surprise the learner later."""
    if rays := other_rays():
        named = ", ".join(told(f"{name} ({gigabytes:.1f} GB of memory)") for name, gigabytes in rays.items())
        if len(rays) > 3:
            named = f"{len(rays)} other programs ({sum(rays.values()):.0f} GB of memory in all)"
        yield (
            f"Ray already runs on this machine, started by {named}, and the cores are shared. Shut down what you don't "
            "need now (in JupyterLab: Running Terminals and Kernels, on the left)."
        )
    if Path.cwd() == NOTEBOOKS:
        yield (
            "This is the course's own copy, in notebooks/, and a new version replaces it. "
            f"Work in work/{chapter}.ipynb, your own copy, which `{typed('lab')}` makes."
        )
    environment = ROOT / ".venv"
    if environment.is_dir() and Path(sys.prefix).resolve() != environment.resolve():
        yield (
            f"This kernel is {sys.executable}, not the course's in {environment}, so other versions of packages may run. "
            "Start JupyterLab with `make lab`, and choose Python 3 (ipykernel) under Kernel → Change Kernel."
        )


def other_rays() -> dict[str, float]:
    """Return which other notebooks, or programs, of this user have started a Ray, and the GB of memory that each takes."""
    every = {each.pid: each.info for each in psutil.process_iter(["name", "uids", "ppid", "memory_info"])}
    mine = {pid: each for pid, each in every.items() if each["uids"] and each["uids"].real == os.getuid()}
    starters = {each["ppid"] if each["ppid"] > 1 else pid for pid, each in mine.items() if each["name"] == "raylet"}
    return {_name(pid): sum(_gigabytes(mine[one]) for one in _family(pid, mine)) for pid in starters - {os.getpid()}}


def _family(pid: int, every: dict[int, dict]) -> list[int]:
    """Return a process and all that it started, directly or not."""
    children = [child for child, each in every.items() if each["ppid"] == pid]
    return [each for each in [pid, *(one for child in children for one in _family(child, every))] if each in every]


def _gigabytes(process: dict) -> float:
    """Return the memory of a process without what it shares with others."""
    used = process["memory_info"]
    return (used.rss - getattr(used, "shared", 0)) / 2**30 if used else 0.0


def _name(pid: int) -> str:
    try:
        return Path(psutil.Process(pid).environ().get("JPY_SESSION_NAME", "")).name or told(f"process {pid}")
    except psutil.Error:
        return told(f"process {pid}")
