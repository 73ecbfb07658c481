"""A picture of the reader's own tasks: which ran when, on which worker, drawn from Ray's own records."""

from contextlib import AbstractContextManager
from typing import Any

from coursekit.records import Window, window

# Okabe and Ito's colours, which the colour-blind can tell apart too.
COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000"]


def recorded() -> AbstractContextManager[Window]:
    """Record what Ray runs inside the block: `with recorded() as run: ...`, then `timeline(run)`."""
    return window()


def timeline(run: Window | list[dict], ax: Any = None) -> Any:
    """Draw a Gantt chart of the tasks and actor calls of a recorded block, one row for each worker; return the axes.

    `run` is what `recorded()` gives, or a list of dicts with `name`, `worker_pid`, `started` and `ended` (seconds).
    """
    every = run.tasks() if isinstance(run, Window) else run
    tasks = sorted((task for task in every if task["started"] and task["ended"]), key=lambda task: task["started"])
    if not tasks:
        raise ValueError("Nothing ran in the recorded block: launch tasks inside `with recorded() as run:`, and get them.")
    workers = list(dict.fromkeys(task["worker_pid"] for task in tasks))
    names = list(dict.fromkeys(task["name"] for task in tasks))
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=(9, 1.2 + 0.32 * len(workers)), constrained_layout=True)
    for name, colour in zip(names, COLOURS * len(names), strict=False):
        _draw(ax, [task for task in tasks if task["name"] == name], workers, tasks[0]["started"], name, colour)
    ax.set_yticks(range(len(workers)), [f"worker {row} (pid {pid})" for row, pid in enumerate(workers, 1)])
    ax.set(xlabel="seconds", ylim=(len(workers) - 0.5, -0.5))
    ax.set_xlim(left=0)
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=4, frameon=False, borderaxespad=0.2)
    return ax


def _draw(ax: Any, tasks: list[dict], workers: list[int], origin: float, name: str, colour: str) -> None:
    """Draw the bars of one function."""
    ax.barh(
        [workers.index(task["worker_pid"]) for task in tasks],
        [task["ended"] - task["started"] for task in tasks],
        left=[task["started"] - origin for task in tasks],
        height=0.7,
        color=colour,
        edgecolor="white",
        linewidth=1 if len(tasks) <= 100 else 0.2,
        label=name,
    )
