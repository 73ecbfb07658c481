"""A picture of the reader's own tasks: which ran when, on which worker, drawn from Ray's own records."""

from contextlib import AbstractContextManager
from typing import Any

from coursekit.basics.readers_language import told_in_plot, with_translation
from coursekit.ray_bridge.records import Window, window

# Okabe and Ito's colours, which the colour-blind can tell apart too.
COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000"]


def recorded() -> AbstractContextManager[Window]:
    """Record what Ray runs inside the block: `with recorded() as run: ...`, then `timeline(run)`."""
    return window()


def timeline(run: Window | list[dict], ax: Any = None) -> Any:
    """Draw a Gantt chart of the tasks and actor calls of a recorded block, one row for each worker; return the axes.

    `run` is what `recorded()` gives, or a list of dicts with `name`, `worker_pid`, `started` and `ended` (seconds), and where
    known `state`: attempts that failed are hatched. Calls that ran at the same time in one worker share its row. Each bar is
    at least wide enough to be seen. A killed process may take the record of its last call with it, so that call is missing.
    """
    every = run.tasks() if isinstance(run, Window) else run
    tasks = sorted((task for task in every if task["started"] and task["ended"]), key=lambda task: task["started"])
    if not tasks:
        raise with_translation(
            ValueError(
                "Nothing ran in the recorded block: launch tasks inside `with recorded() as run:`, and `ray.get` their results."
            )
        )
    workers = list(dict.fromkeys(task["worker_pid"] for task in tasks))
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=(10, 1.2 + 0.42 * len(workers)), constrained_layout=True)
    _draw(ax, tasks, workers)
    ax.set_yticks(
        range(len(workers)),
        [told_in_plot(f"worker {row} (pid {pid})") for row, pid in enumerate(workers, 1)],
        fontsize=11,
    )
    ax.set_ylim(len(workers) - 0.5, -0.5)
    ax.set_xlim(left=0)
    ax.set_xlabel(told_in_plot("seconds since the first one started"), fontsize=11)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)
    # Beside the bars, clear of a title.
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=11)
    return ax


def _draw(ax: Any, tasks: list[dict], workers: list[int]) -> None:
    """Draw a bar for each task, those of one function and outcome in one go."""
    origin = tasks[0]["started"]
    least = (max(task["ended"] for task in tasks) - origin) / 400
    places = {
        id(task): place for pid in workers for task, place in _lanes([t for t in tasks if t["worker_pid"] == pid])
    }
    colours = dict(zip(dict.fromkeys(task["name"] for task in tasks), COLOURS * len(tasks), strict=False))
    edge = 0.8 if len(tasks) <= 100 else 0.2
    groups: dict[tuple[str, bool], list[dict]] = {}
    for task in tasks:
        groups.setdefault((task["name"], task.get("state") == "FAILED"), []).append(task)
    for (name, failed), group in groups.items():
        lanes = [places[id(task)] for task in group]
        widths = [max(task["ended"] - task["started"], least) for task in group]
        ax.barh(
            [workers.index(task["worker_pid"]) + lane for task, (lane, _) in zip(group, lanes, strict=True)],
            widths,
            left=[task["started"] - origin for task in group],
            height=[height for _, height in lanes],
            color=colours[name],
            hatch="///" if failed else None,
            edgecolor="white",
            linewidth=[edge if width > least else 0 for width in widths],  # a white edge would hide the narrowest
            label=name.rpartition("<locals>.")[2] + (told_in_plot(" (failed)") if failed else ""),
        )


def _lanes(tasks: list[dict]) -> list[tuple[dict, tuple[float, float]]]:
    """Return each task of one worker with the place of its bar in the row: offset and height, so that none hides another."""
    ends: list[float] = []  # when each lane is free again
    chosen = []
    for task in tasks:
        lane = next((lane for lane, end in enumerate(ends) if end <= task["started"]), len(ends))
        ends[lane : lane + 1] = [task["ended"]]
        chosen.append(lane)
    height = 0.72 / len(ends)
    return [(task, ((lane + 0.5) * height - 0.36, height)) for task, lane in zip(tasks, chosen, strict=True)]
