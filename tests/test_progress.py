"""Progress is kept: two notebooks may write at once, and a damaged file is set aside, not lost."""

import json
import multiprocessing

import pytest

from coursekit.basics.paths import NOTEBOOKS
from coursekit.judging.exercise import UnknownName
from coursekit.judging.result import Result
from coursekit.learner.checks import check, quiz
from coursekit.learner.overview import progress
from coursekit.learner.progress import attempts, home, load, save
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


def test_what_was_passed_stays_passed():
    save(result())
    save(result(status="wrong"))
    assert load()[0]["ch00_start"]["best_seconds"] == {
        "status": "passed",
        "earned": 1,
        "points": 1,
        "attempts": 2,
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
    ],
)
def test_a_damaged_file_is_set_aside_and_said(text):
    home().mkdir(parents=True)
    (home() / "progress.json").write_text(text)
    note = save(result())
    assert "damaged" in note
    assert load() == (
        {"ch00_start": {"best_seconds": {"status": "passed", "earned": 1, "points": 1, "attempts": 1}}},
        "",
    )
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
