"""`explain` draws when the tasks of an answer ran, above those of a right one, or two learning curves, and changes nothing."""

import inspect
import io
import json

import pytest
import ray
from matplotlib.figure import Figure
from PIL import Image

from coursekit.judging.answer import Answer
from coursekit.judging.exercise import judge, load
from coursekit.judging.result import Curve, Result
from coursekit.learner import checks, explain, progress, session, shell
from coursekit.learner.learning_curves import LearningCurves, recorded
from coursekit.ray_bridge import rendezvous
from tests.answers import samples
from tests.chapters import CHAPTERS


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
    assert yours.get_title("left").startswith("yours, until the check ended: 6 tasks, ")
    assert len(yours.get_yticks()) == 1
    assert right.get_title("left").startswith("a right answer: 6 tasks, ")
    assert len(right.get_yticks()) > 1
    assert progress.attempts("ch01_tasks", "parallel_map") == 0


def test_both_timelines_have_one_axis_of_seconds_and_none_is_cut_off():
    tasks = [{"name": "nap", "worker_pid": 7, "started": 1.0, "ended": 1.0 + seconds} for seconds in (2, 9)]
    yours, right = explain._drawn({"yours": tasks, "a right answer": tasks[:1]})
    assert yours.get_xlim() == right.get_xlim()
    assert yours.get_xlim()[0] == 0
    assert 9 < yours.get_xlim()[1] < 10
    assert (yours.get_xlabel(), right.get_xlabel()) == ("", "seconds since the first one started")


@pytest.mark.parametrize(("late", "tries"), [("all of it", [60, 3, 20]), ("one batch", [60, 3]), ("none", [60, 3])])
def test_a_try_is_repeated_with_more_time_only_where_all_of_it_was_late(late, tries, monkeypatch):
    seen = []

    def probe(self, probe, batches, hangs, meets, seconds, sleeps=None):
        seen.append(seconds)
        rows = [[len(text) / 2 for _, text in batch] for batch in batches]
        if sleeps is not None:
            zeros = {"all of it": [0, 1, 2], "one batch": [0], "none": []}[late]
            rows = [[0.0] * 3 if number in zeros else row for number, row in enumerate(rows)]
        return {"rewards": rows, "went_on": False, "met": True}

    monkeypatch.setattr(Answer, "probe", probe)
    assert judge(load("ch26_language_models")["reward_workers"], Answer("reward_workers", None, None)).status == "wrong"
    assert seen == tries


@pytest.mark.slow
def test_an_answer_that_launched_nothing_has_no_timeline_beside_the_right_one(began, monkeypatch):
    monkeypatch.setattr(
        shell, "names", lambda: {"ray": ray, "parallel_map": lambda function, xs: list(map(function, xs))}
    )
    with ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False):
        [right] = explain.explain("parallel_map")
    assert right.get_title("left").startswith("a right answer: 6 tasks, ")
    assert right.get_title("right") == "Nothing ran for yours."


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


def test_without_a_ray_large_enough_it_says_what_the_check_says_and_starts_none(began):
    assert str(explain.explain("parallel_map")) == str(checks.check("parallel_map"))
    assert not ray.is_initialized()


def test_where_no_task_runs_or_solutions_are_closed_there_is_nothing_to_draw(began):
    session.begin("ch00_start")
    assert "no learning curve, and its answer launches no tasks" in explain.explain("best_seconds").text
    of_these = (("ch02_objects", "let_go"), ("ch03_actors", "BestSoFar"), ("ch10_actor_learner", "weight_sync"))
    for chapter, name in of_these:  # Ray only stores what they give it, or the check calls them as an actor
        session.begin(chapter)
        assert "no learning curve, and its answer launches no tasks" in explain.explain(name).text
        assert "explain" not in str(Result.of(load(chapter)[name], "wrong"))
    session.begin("ch01_tasks", closed=["solutions"])
    assert explain.explain("parallel_map").title == "No right answers in this class"


@pytest.mark.parametrize(("status", "ran", "asks"), [("wrong", True, 2), ("crashed", True, 1), ("wrong", False, 1)])
def test_a_card_offers_it_where_tasks_ran_and_the_answer_was_wrong(status, ran, asks):
    result = Result("ch01_tasks", "first_k", "exercise", status, 1, "No.", ran_tasks=ran)
    calls = ['hint("first_k")', 'explain("first_k")'][:asks]
    assert str(result).endswith(f"Stuck? {' or '.join(calls)}")
    assert all(f"<code>{call.replace(chr(34), '&quot;')}</code>" in result._repr_html_() for call in calls)
    assert ("explain" in result._repr_html_()) == (asks == 2)


FLAT = Curve("steps", [(2000.0, 20.0), (4000.0, 30.0), (6000.0, 20.0), (12000.0, 25.0)])
OURS = Curve("steps", [(3000.0, 100.0), (6000.0, 490.0)])


def test_in_a_terminal_two_learning_curves_are_a_table_of_the_last_test_of_each_part():
    curves = LearningCurves("solve_cartpole", FLAT, OURS, "Ours was recorded on 2026-11-29 (2 cores).")
    assert str(curves).splitlines() == [
        "solve_cartpole: mean return",
        "         steps     yours      ours",
        "   up to 3,000        20       100",
        "   up to 6,000        20       490",
        "   up to 9,000         –         –",
        "  up to 12,000        25         –",
        "Ours was recorded on 2026-11-29 (2 cores).",
    ]


def test_the_rows_of_that_table_end_at_round_numbers_and_the_last_shows_where_a_curve_ends():
    ours = Curve("steps", [(13107.0 * number, 50.0 * number) for number in range(1, 11)])
    rows = str(LearningCurves("solve_cartpole", FLAT, ours, "Recorded.")).splitlines()[2:-1]
    assert [row.split()[2] for row in rows] == [f"{20 * number},000" for number in range(1, 8)]
    assert rows[-1].endswith(" 500")


def test_where_we_recorded_no_curve_a_learners_stands_alone(began):
    session.begin("ch11_rllib_ppo")
    session.current().keep(Result("ch11_rllib_ppo", "act", "exercise", "wrong", 1, "No.", curve=FLAT))
    alone = explain.explain()
    assert str(alone).splitlines()[1:3] == ["         steps     yours", "   up to 3,000        20"]
    assert str(alone).endswith("\nThere's no curve of ours to compare with.")
    lines = alone.plot(Figure().subplots()).get_lines()
    assert [line.get_label() for line in lines] == ["yours"]


def test_in_a_notebook_they_are_a_plot():
    curves = LearningCurves("solve_cartpole", FLAT, OURS, "Ours was recorded.")
    assert Image.open(io.BytesIO(curves._repr_png_())).width > 600


def test_a_check_keeps_the_curve_of_its_first_training_run_and_of_it_what_is_a_number():
    answer = Answer("name", lambda request: request, lambda operation: None)
    answer.keep_curve("steps", [(1, None), (10**400, 1.0), (2, float("nan")), ("3", 4)])
    assert answer.curve is None
    answer.keep_curve("steps", [(4, 2.5), (3, 1)])
    answer.keep_curve("steps", [(1, 500.0)])
    assert answer.curve == Curve("steps", [(3.0, 1.0), (4.0, 2.5)])


def test_a_curve_is_offered_where_there_is_one_and_written_nowhere():
    result = Result("ch11_rllib_ppo", "lake_config", "exercise", "wrong", 1, "No.", curve=FLAT)
    assert str(result).endswith('Stuck? hint("lake_config") or explain("lake_config")')
    assert "20.0" not in json.dumps(result._repr_mimebundle_())
    assert "curve" not in result.as_dict()


def test_every_check_that_keeps_a_curve_has_one_of_ours():
    keeping = {
        f"{chapter}/{item.name}"
        for chapter in CHAPTERS
        for item in load(chapter).values()
        if item.kind == "exercise" and "keep_curve(" in inspect.getsource(item.check)
    }
    assert len(keeping) >= 6
    assert recorded().keys() == keeping
    for ours in recorded().values():
        assert len(ours["points"]) >= 3
        assert "cores" in ours["machine"]
        assert ours["points"][-1][1] > ours["points"][0][1]


@pytest.mark.slow
def test_an_agent_that_learned_too_little_is_drawn_beside_ours(began):
    session.begin("ch11_rllib_ppo")
    tiny = next(sample.answer for sample in samples("ch11_rllib_ppo") if sample.says == "didn't reach 0.5")
    with ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False):
        said = str(checks.check("lake_config", tiny))
    assert said.endswith('Stuck? hint("lake_config") or explain("lake_config")')
    curves = explain.explain()
    assert [x for x, _ in curves.yours.points] == [x for x, _ in curves.ours.points] == [1, 2, 3, 4, 5, 6, 7]
    assert curves.yours.points[-1][1] < 0.5 <= curves.ours.points[-1][1]
    assert "Ours was recorded on " in str(curves)
