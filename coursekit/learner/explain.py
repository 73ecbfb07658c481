"""What ran in a check: a learner's own tasks above those of a right answer on the same inputs, or two learning curves."""

from typing import Any

from coursekit.basics.cards import Note, plural
from coursekit.basics.readers_language import told_in_plot
from coursekit.judging import exercise
from coursekit.judging.result import Result
from coursekit.learner import shell
from coursekit.learner.checks import CLOSED, local, missing, named, no_solution
from coursekit.learner.learning_curves import beside_ours
from coursekit.learner.session import current


def explain(name: object = None) -> Any:
    """Draw what your last check saw: the learning curve of a training run beside ours, or else when the tasks ran.

    For the tasks, it checks your answer and ours once more, on the same inputs, and returns the axes. `explain()` is of the
    exercise that you checked last. Nothing is recorded, and our code is not shown.
    """
    session = current()
    name = named(name, "explain", "exercise")
    item: Any = exercise.find(session.chapter, name, "exercise", "explain")
    if "solutions" in session.closed:
        return Note("No right answers in this class", CLOSED)
    result = session.results.get(name)
    if result and result.curve:
        return beside_ours(session.chapter, name, result.curve)
    if not item.launches:
        return Note(
            f"Nothing to draw for {name}",
            f'Its last check here has no learning curve, and its answer launches no tasks. `hint("{name}")` may help.',
        )
    code = shell.solution_code(session.chapter, name)
    if not code:
        return no_solution(name)
    ours = dict(shell.names())
    if name not in ours:
        return Note(f"Nothing to draw for {name}", f"Run the cell that defines `{name}` first.")
    if lacking := missing(item.needs):
        return Result.of(item, "todo", lacking)
    yours = ours[name]
    exec(compile(code, f"<our {name}>", "exec"), ours)
    passed, tasks = _judged(item, yours)
    runs = {
        told_in_plot("yours") if passed or not tasks else told_in_plot("yours, until the check ended"): tasks,
        told_in_plot("a right answer"): _judged(item, ours[name])[1],
    }
    if not any(runs.values()):
        return Note(f"Nothing to draw for {name}", "Its check launched no tasks before it ended.")
    return _drawn(runs)


def _judged(item: exercise.Exercise, answer: object) -> tuple[bool, list[dict]]:
    """Return whether an answer passes, and Ray's records of what ran while it was judged: a check ends at the first mistake."""
    from coursekit.ray_bridge.timeline import recorded

    with recorded() as run:
        result = exercise.judge(item, local(item.name, answer))
    return result.status == "passed", [task for task in run.tasks() if task["started"] and task["ended"]]


def _drawn(runs: dict[str, list[dict]]) -> Any:
    """Draw one timeline above the other, on one axis of seconds, so that equal times are equally long."""
    import matplotlib.pyplot as plt

    from coursekit.ray_bridge.timeline import timeline

    some = {title: tasks for title, tasks in runs.items() if tasks}
    heights = [1.2 + 0.42 * len({task["worker_pid"] for task in tasks}) for tasks in some.values()]
    size = (10, sum(heights))
    _, axes = plt.subplots(
        len(some), figsize=size, height_ratios=heights, sharex=True, squeeze=False, constrained_layout=True
    )
    longest = 0.0
    for ax, (title, tasks) in zip(axes[:, 0], some.items(), strict=True):
        seconds = max(task["ended"] for task in tasks) - min(task["started"] for task in tasks)
        longest = max(longest, seconds)
        timeline(tasks, ax).set_title(
            f"{title}: {told_in_plot(plural(len(tasks), 'task'))}, {seconds:.1f} s", loc="left"
        )
        ax.label_outer()
    axes[0, 0].set_xlim(0, longest * 1.02)
    if missing := ", ".join(runs.keys() - some.keys()):
        axes[0, 0].set_title(told_in_plot(f"Nothing ran for {missing}."), loc="right")
    return axes[:, 0]
