import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure

from coursekit.ray_bridge.timeline import timeline


def ran(name: str, pid: int, started: float, ended: float | None, state: str = "FINISHED") -> dict:
    return {"name": name, "worker_pid": pid, "started": started, "ended": ended, "state": state}


def bars(ax) -> list[tuple[str, float, float, int]]:
    """Each bar: its function, where it starts and how long it is, and its row."""
    return [
        (group.get_label(), round(bar.get_x(), 3), round(bar.get_width(), 3), round(bar.get_y() + bar.get_height() / 2))
        for group in ax.containers
        for bar in group
    ]


def test_a_task_is_a_bar_from_its_start_for_its_time_on_the_row_of_its_worker():
    ax = timeline([ran("square", 11, 100.0, 100.5), ran("add", 22, 100.25, 101.0)], ax=Figure().subplots())
    assert bars(ax) == [("square", 0.0, 0.5, 0), ("add", 0.25, 0.75, 1)]


def test_rows_are_workers_in_the_order_of_their_first_task():
    ax = timeline([ran("square", 99, 2.0, 3.0), ran("square", 7, 1.0, 2.0)], ax=Figure().subplots())
    assert [label.get_text() for label in ax.get_yticklabels()] == ["worker 1 (pid 7)", "worker 2 (pid 99)"]


def test_the_legend_names_each_function_once_without_where_it_was_defined():
    tasks = [ran("outer.<locals>.square", 1, 0.1, 1), ran("outer.<locals>.square", 1, 1, 2), ran("add", 1, 2, 3)]
    legend = timeline(tasks, ax=Figure().subplots()).get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["square", "add"]


def test_each_function_has_a_colour_of_its_own():
    ax = timeline(
        [ran(name, 1, start + 0.1, start + 1) for start, name in enumerate("abcdefgh")], ax=Figure().subplots()
    )
    assert len({group.patches[0].get_facecolor() for group in ax.containers}) == 8


def test_calls_at_the_same_time_in_one_worker_do_not_hide_each_other():
    ax = timeline(
        [ran("wait", 1, 1.0, 2.0), ran("wait", 1, 1.1, 2.0), ran("wait", 1, 1.2, 2.0)], ax=Figure().subplots()
    )
    heights = sorted((bar.get_y(), bar.get_y() + bar.get_height()) for bar in ax.patches)
    assert all(below <= above + 1e-9 for (_, below), (above, _) in zip(heights, heights[1:], strict=False))


def test_an_attempt_that_failed_is_hatched_and_said():
    ax = timeline([ran("fails", 1, 1.0, 2.0, "FAILED"), ran("fails", 1, 2.0, 3.0)], ax=Figure().subplots())
    assert [(group.get_label(), group.patches[0].get_hatch()) for group in ax.containers] == [
        ("fails (failed)", "///"),
        ("fails", None),
    ]


def test_a_very_short_call_can_still_be_seen():
    ax = timeline([ran("__init__", 1, 1.0, 1.000001), ran("long", 2, 1.0, 11.0)], ax=Figure().subplots())
    assert {name: width for name, _, width, _ in bars(ax)}["__init__"] >= 0.02


def test_what_never_ran_is_left_out():
    ax = timeline(
        [ran("square", 1, 1.0, 2.0), ran("square", 1, 2.0, None), ran("square", 1, 0.0, 3.0)], ax=Figure().subplots()
    )
    assert len(bars(ax)) == 1


def test_an_empty_recording_says_what_to_do():
    with pytest.raises(ValueError, match="launch tasks inside `with recorded"):
        timeline([])


def test_it_draws_on_axes_it_is_given_and_opens_no_figure_of_its_own():
    ax, figures = Figure().subplots(), pyplot.get_fignums()
    assert timeline([ran("square", 1, 1.0, 2.0)], ax=ax) is ax
    assert pyplot.get_fignums() == figures
