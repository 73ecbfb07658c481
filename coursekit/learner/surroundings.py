"""What a learner should know of the surroundings when a chapter begins: other Rays, whose copy this is, which kernel runs it."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil

from coursekit.basics.paths import NOTEBOOKS, ROOT


def warnings(chapter: str) -> Iterator[str]:
    """Yield a line for each thing that would surprise the learner later."""
    if rays := other_rays():
        named = ", ".join(f"{name} ({gigabytes:.1f} GB of memory)" for name, gigabytes in rays)
        yield (
            f"Ray already runs on this machine, started by {named}, and the cores are shared. Shut down what you don't "
            "need now (in JupyterLab: Running Terminals and Kernels, on the left)."
        )
    if Path.cwd() == NOTEBOOKS:
        yield (
            "This is the course's own copy, in notebooks/: git tracks it, and a new version replaces it. "
            f"Work in work/{chapter}.ipynb, your own copy, which `make lab` makes."
        )
    environment = ROOT / ".venv"
    if environment.is_dir() and Path(sys.prefix).resolve() != environment.resolve():
        yield (
            f"This kernel is {sys.executable}, not the course's in {environment}, so other versions of packages may run. "
            "Start JupyterLab with `make lab`, and choose Python 3 (ipykernel) under Kernel → Change Kernel."
        )


def other_rays() -> list[tuple[str, float]]:
    """Return the notebook, or the program, that started each Ray of this user but our own, and the GB of memory that it takes."""
    starters = set()
    for process in psutil.process_iter(["name"]):
        try:
            if process.info["name"] == "raylet" and process.uids().real == os.getuid():
                starters.add(process.parent() or process)
        except psutil.Error:
            continue
    return [(_name(starter), _gigabytes(starter)) for starter in starters - {psutil.Process()}]


def _name(starter: psutil.Process) -> str:
    try:
        if notebook := Path(starter.environ().get("JPY_SESSION_NAME", "")).name:
            return notebook
        return f"{starter.name()}, process {starter.pid}"
    except psutil.Error:
        return f"process {starter.pid}"


def _gigabytes(starter: psutil.Process) -> float:
    """Return the memory of a program and its children without what they share."""
    total = 0
    for process in [starter, *starter.children(recursive=True)]:
        try:
            used = process.memory_info()
            total += used.rss - getattr(used, "shared", 0)
        except psutil.Error:
            continue
    return total / 2**30
