"""Progress is kept: two notebooks may write at once, and a damaged file is set aside, not lost."""

import json
import multiprocessing

import pytest

from coursekit.basics.paths import NOTEBOOKS
from coursekit.judging.exercise import UnknownName
from coursekit.judging.result import Result
from coursekit.learner import progress as progress_file
from coursekit.learner.checks import check, quiz
from coursekit.learner.learning_paths import PATHS
from coursekit.learner.overview import Chapter, Overview, overview, progress
from coursekit.learner.pace import FEWEST, in_words, pace
from coursekit.learner.progress import PAUSE, attempts, home, load, save
from coursekit.learner.renamed_exercises import MOVED
from coursekit.learner.session import begin


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSEKIT_HOME", str(tmp_path / "home"))


def result(name: str = "best_seconds", status: str = "passed", chapter: str = "ch00_start", points: int = 1) -> Result:
    return Result(chapter, name, "exercise", status, points)


def save_many(writer: int) -> None:
    for number in range(20):
        assert save(result(f"exercise_{writer}_{number}")) == ""


@pytest.mark.slow
def test_concurrent_writers_lose_nothing():
    processes = [multiprocessing.get_context("spawn").Process(target=save_many, args=(writer,)) for writer in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    assert len(load()[0]["ch00_start"]) == 80


def test_what_was_passed_stays_passed(monkeypatch):
    monkeypatch.setattr(progress_file, "now", lambda: 1000)
    save(result(), 60)
    monkeypatch.setattr(progress_file, "now", lambda: 2000)
    save(result(status="wrong"), 60)
    assert load()[0]["ch00_start"]["best_seconds"] == {
        "status": "passed",
        "earned": 1,
        "points": 1,
        "attempts": 2,
        "at": 2000,
        "passed": 1000,
        "seconds": 60,
    }


def test_only_real_attempts_count():
    for status in ("todo", "wrong", "crashed", "todo"):
        save(result(status=status))
    assert attempts("ch00_start", "best_seconds") == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"chapters": 3}',
        '{"chapters": {"a": {"b": {}}}}',
        "\x00\x01",
        '{"chapters": {"a": {"b": {"earned": "9"}}}}',
        '{"chapters": {"a": {"b": {"earned": 9, "passed": "today"}}}}',
    ],
)
def test_a_damaged_file_is_set_aside_and_said(text):
    home().mkdir(parents=True)
    (home() / "progress.json").write_text(text)
    note = save(result())
    assert "damaged" in note
    saved, after = load()
    assert after == ""
    assert [(name, each["attempts"]) for name, each in saved["ch00_start"].items()] == [("best_seconds", 1)]
    (aside,) = home().glob("progress.damaged-*.json")
    assert aside.read_text() == text
    assert aside.name in note


def test_a_file_that_is_not_text_is_set_aside():
    home().mkdir(parents=True)
    (home() / "progress.json").write_bytes(b"\xff\xfe\x00")
    assert "damaged" in save(result())


def test_a_folder_that_cannot_be_written_is_a_note_not_a_crash(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("COURSEKIT_HOME", str(tmp_path / "file"))
    assert "could not be saved" in save(result())
    assert "could not be read" in load()[1]


def test_the_file_is_json_that_a_person_can_read():
    save(result())
    assert json.loads((home() / "progress.json").read_text())["chapters"]["ch00_start"]["best_seconds"]["earned"] == 1


def test_overview_shows_every_chapter_with_its_points():
    save(result())
    overview = progress()
    start = overview.chapters[0]
    assert (start.name, start.earned, start.points) == ("ch00_start", 1, 2)
    assert "In all: 1 of" in str(overview)
    assert "Chapter 0" in overview._repr_html_()


@pytest.mark.parametrize(("before", "after"), [("passed", "wrong"), ("wrong", "passed"), ("wrong", "wrong")])
def test_an_exercise_that_was_tried_under_two_names_keeps_its_points_and_all_attempts(monkeypatch, before, after):
    save(result("old_name", before, "ch01_tasks"))
    save(result("best_seconds", after))
    monkeypatch.setitem(MOVED, "ch01_tasks/old_name", "ch00_start/best_seconds")
    records, note = load()
    best = "passed" if "passed" in (before, after) else "wrong"
    assert records["ch00_start"]["best_seconds"]["status"] == best
    assert records["ch00_start"]["best_seconds"]["attempts"] == 2
    assert "old_name" not in records["ch01_tasks"]
    assert progress().chapters[0].earned == (best == "passed")


def test_what_was_passed_and_is_gone_is_listed_and_counts_nowhere():
    save(result("gone", points=2))
    save(result("tried_and_gone", "wrong"))
    assert progress().chapters[0].earned == 0
    assert "Done, retired (no longer in the course): ch00_start/gone." in str(progress())
    assert "ch00_start/gone" in progress()._repr_html_()


def test_the_overview_fits_80_columns_and_ends_with_what_to_do_next():
    save(result("gone", points=2))
    lines = str(progress()).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[-1] == "Next: ch00_start.ipynb (Chapter 0 · Getting started)"
    save(result("as_task", chapter="ch01_tasks"))
    assert " ".join(str(progress()).splitlines()).endswith(
        "Next: when_remote_returns, in ch01_tasks.ipynb (Chapter 1 · Tasks)"
    )


def test_the_overview_of_one_chapter_has_the_notebooks_order_and_links_where_its_notebook_lies(monkeypatch):
    save(result("as_task", chapter="ch01_tasks"))
    shown = progress("ch01_tasks")
    assert [name for _, name, *_ in shown.rows][:4] == [
        "as_task",
        "when_remote_returns",
        "parallel_map",
        "order_of_get",
    ]
    assert [sign for sign, *_ in shown.rows][:2] == ["✔", "○"]
    assert "href" not in shown._repr_html_()
    monkeypatch.chdir(NOTEBOOKS)
    place = progress("ch01_tasks").links["parallel_map"].removeprefix("ch01_tasks.ipynb#cell-id=")
    cells = json.loads((NOTEBOOKS / "ch01_tasks.ipynb").read_text(encoding="utf-8"))["cells"]
    (cell,) = [cell for cell in cells if cell["id"] == place]
    assert "".join(cell["source"]).startswith("**Exercise `parallel_map`**")


def test_a_chapter_that_is_not_there_hears_the_nearest():
    with pytest.raises(UnknownName, match=r"no chapter 'ch01'. The nearest names: .*ch01_tasks"):
        progress("ch01")


def test_the_last_point_of_a_chapter_shows_the_next_one_once(capsys):
    begin("ch00_start")
    check("best_seconds", lambda tasks, seconds_each, workers: -(-tasks // workers) * seconds_each)
    assert capsys.readouterr().out == ""
    for _ in range(2):
        quiz("what_distribution_costs", "c")
    assert capsys.readouterr().out == (
        "Every point of this chapter is yours\nNext: ch01_tasks.ipynb (Chapter 1 · Tasks)\n"
    )


def course(done: list[int], at: int = 0, **of_last: object) -> Overview:
    """Return an overview of a course in which some chapters are done, `at` being the one that was worked on last."""
    chapters = []
    for number in range(27):
        needs = {7: {1, 3}, 8: {7}, 16: {14}}.get(number, {number - 1} if number else set())
        left = () if number in done else ("first", "second")
        entry = {"open": left, "at": 2 if number == at else int(number in done), "needs": frozenset(needs)}
        entry |= of_last if number == at else {}
        chapters.append(Chapter(f"ch{number:02}_x", f"Chapter {number}", 2, 2 * (number in done), **entry))
    return Overview(chapters)


def test_the_next_step_is_the_exercise_that_was_begun_in_the_chapter_worked_on_last():
    shown = course([0, 1, 2, 5], at=3, open=("first", "second"), begun=("second",))
    assert shown.next_step()[0] == "Next: second, which you have begun, in ch03_x.ipynb (Chapter 3)"


@pytest.mark.parametrize(
    ("done", "last", "following"),
    [
        ([0, 1, 2], 2, 3),
        ([0, 1, 2, 3, 7], 7, 8),  # not 4: it is not on the path to distributed RL
        ([0, 1, 2, 3, 4, 5, 6, 11], 11, 16),
        ([0, 1, 2, 3, 4, 5, 7, 8, 10], 10, 26),
        ([*range(11)], 10, 11),  # every chapter in its order
        ([1, 2, 3], 3, 4),
        ([1, 2, 3, 4, 5, 6], 6, 0),  # what was left out, in the end
    ],
)
def test_the_next_chapter_is_that_of_the_path_that_has_all_that_was_begun(done, last, following):
    assert course(done, last).next_step()[0] == f"Next: ch{following:02}_x.ipynb (Chapter {following})"


def test_after_the_path_comes_an_elective_whose_chapters_were_done():
    assert course([*range(7)], 6).next_step()[0] == "Next, an elective: ch07_x.ipynb (Chapter 7)"
    distributed = PATHS["Distributed RL"][1]
    assert course(distributed, 15).next_step()[0] == "Next, an elective: ch16_x.ipynb (Chapter 16)"
    assert course([*range(27)], 26).next_step() == ("You have every point of the course.", "")


def test_a_chapter_says_what_it_builds_on():
    needs = {each.number: each.needs for each in overview().chapters}
    assert needs[0] == frozenset()
    assert needs[5] == {3}
    assert needs[20] == {8, 10, 14}


def test_a_due_review_is_one_line_before_the_next_step(monkeypatch):
    monkeypatch.setattr(progress_file, "now", lambda: 1_800_000_000)
    save(result("order_of_get", chapter="ch01_tasks"))
    assert "review" not in str(progress())
    monkeypatch.setattr(progress_file, "now", lambda: 1_800_000_000 + 86400)
    assert "review" not in str(progress())  # it is of the chapter that was worked on last
    save(result(chapter="ch00_start"))
    assert "A review of earlier chapters is due" in str(progress())
    assert "A review of earlier chapters is due" in progress()._repr_html_()
    assert str(progress()).splitlines()[-1].startswith("Next: ")


def test_the_time_of_an_exercise_runs_from_the_check_before_it_to_its_pass(monkeypatch):
    clock = [1_800_000_000]
    monkeypatch.setattr(progress_file, "now", lambda: clock[0])
    begin("ch00_start")
    for wait, answer in ((200, lambda *_: 0), (100, lambda tasks, seconds, workers: -(-tasks // workers) * seconds)):
        clock[0] += wait
        check("best_seconds", answer)
    clock[0] += PAUSE + 1
    quiz("what_distribution_costs", "c")
    saved = load()[0]["ch00_start"]
    assert [saved[name]["seconds"] for name in ("best_seconds", "what_distribution_costs")] == [300, None]
    assert saved["best_seconds"]["passed"] == clock[0] - PAUSE - 1


def test_a_pace_is_known_after_five_exercises():
    names = ["as_task", "parallel_map", "first_k", "batched", "tree_sum"]  # 5 + 10 + 10 + 10 + 15 minutes
    save(result("order_of_get", chapter="ch01_tasks"), 5 * 60)  # a minute
    for name in names[: FEWEST - 1]:
        save(result(name, chapter="ch01_tasks"), 20 * 60)
    assert pace(load()[0]) is None
    assert "At your pace" not in str(progress())
    save(result(names[-1], chapter="ch01_tasks"), 17 * 60)
    assert pace(load()[0]) == pytest.approx(102 / 51)
    assert "At your pace, about 35 minutes are left in Chapter 1, and " in str(progress())
    assert "hours to the end of “Ray in a weekend”." in " ".join(str(progress()).split())


@pytest.mark.parametrize(
    ("minutes", "words"), [(1, "5 minutes"), (33, "35 minutes"), (89, "90 minutes"), (130, "2 hours")]
)
def test_a_span_of_time_is_rounded(minutes, words):
    assert in_words(minutes) == words
