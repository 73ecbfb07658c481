"""`explain` draws when the tasks of an answer ran, above those of a right one, and changes nothing."""

import pytest
import ray

from coursekit.judging.result import Result
from coursekit.learner import explain, progress, session, shell
from coursekit.ray_bridge import rendezvous


def one_by_one(function, xs):
    task = ray.remote(function)
    return [ray.get(task.remote(x)) for x in xs]


@pytest.fixture
def began(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSEKIT_HOME", str(tmp_path))
    monkeypatch.setattr(shell, "names", lambda: {"ray": ray, "parallel_map": one_by_one})
    session.begin("ch01_tasks")


@pytest.mark.slow
def test_ones_own_tasks_stand_above_those_of_a_right_answer_and_nothing_is_recorded(began):
    with ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False):
        rendezvous.set_patience(5)
        yours, right = explain.explain("parallel_map")
    assert yours.get_title("left").startswith("yours: 6 tasks, ")
    assert len(yours.get_yticks()) == 1
    assert right.get_title("left").startswith("a right answer: 6 tasks, ")
    assert len(right.get_yticks()) > 1
    assert progress.attempts("ch01_tasks", "parallel_map") == 0


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("as_task", "Run the cell that defines `as_task` first"),
        ("parallel_map", "This copy of the course has no solutions/"),
    ],
)
def test_what_cannot_be_drawn_says_why(name, says, began, monkeypatch):
    if name == "parallel_map":
        monkeypatch.setattr(shell, "solution_code", lambda chapter, name: "")
    assert says in explain.explain(name).text


def test_where_no_task_runs_or_solutions_are_closed_there_is_nothing_to_draw(began):
    session.begin("ch00_start")
    assert "launches no tasks" in explain.explain("best_seconds").text
    session.begin("ch01_tasks", closed=["solutions"])
    assert explain.explain("parallel_map").title == "No right answers in this class"


@pytest.mark.parametrize(("status", "ran", "asks"), [("wrong", True, 2), ("crashed", True, 1), ("wrong", False, 1)])
def test_a_card_offers_it_where_tasks_ran_and_the_answer_was_wrong(status, ran, asks):
    result = Result("ch01_tasks", "first_k", "exercise", status, 1, "No.", ran_tasks=ran)
    calls = ['hint("first_k")', 'explain("first_k")'][:asks]
    assert str(result).endswith(f"Stuck? {' or '.join(calls)}")
    assert all(f"<code>{call.replace(chr(34), '&quot;')}</code>" in result._repr_html_() for call in calls)
    assert ("explain" in result._repr_html_()) == (asks == 2)
