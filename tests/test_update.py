"""A learner's own copies: made once, never overwritten, and brought to a new version with all that was written in them."""

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell as code
from nbformat.v4 import new_markdown_cell as text
from nbformat.v4 import new_output

from coursekit.basics.errors import CommandError
from coursekit.basics.paths import ROOT
from coursekit.judging.exercise import load as exercises
from coursekit.judging.result import Result
from coursekit.learner import renamed_exercises
from coursekit.learner.overview import overview
from coursekit.learner.progress import attempts, save
from coursekit.machine import copies
from coursekit.machine.copies import as_built, behind, fill
from coursekit.machine.update import update
from tests.chapters import CHAPTERS
from tests.learners import Desk, exercise, publish, unpacked

SOLVED = "def one(x):\n    return x + 1"
OLD = {"ch01_a": [text("Read this."), code("show(1)"), *exercise("one"), text("And then."), *exercise("two")]}
NEW = {"ch01_a": [text("Read this instead."), code("show(1)"), *exercise("one"), text("And then."), *exercise("two")]}


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSEKIT_HOME", str(tmp_path / "home"))


@pytest.fixture
def desk(tmp_path) -> Desk:
    """Return a learner who has started with version 1."""
    fill(publish(tmp_path, "1", **OLD))
    return Desk(tmp_path)


def new_version(desk: Desk, **chapters: list) -> str:
    publish(desk.root, "2", **(chapters or NEW))
    report = update(desk.root)
    assert report.problems == []
    return "\n".join(report.lines)


def course(desk: Desk, name: str = "ch01_a") -> list[str]:
    return [cell.source for cell in nbformat.read(desk.root / f"notebooks/{name}.ipynb", as_version=4).cells]


def old_files(desk: Desk) -> list[str]:
    return sorted(path.name for path in (desk.root / "work").glob("*.*.ipynb"))


# the first start


def test_the_first_start_copies_every_chapter_as_it_is(desk):
    assert desk.path("ch01_a").read_bytes() == (desk.root / "notebooks/ch01_a.ipynb").read_bytes()
    assert behind(desk.root) == ""


def test_a_later_start_adds_new_chapters_and_overwrites_nothing(desk):
    desk.write("ch01_a", "def one", SOLVED)
    before = desk.path("ch01_a").read_bytes()
    publish(desk.root, "2", **NEW, ch02_b=exercise("three"))
    assert fill(desk.root) == ["ch02_b"]
    assert desk.path("ch01_a").read_bytes() == before
    assert "version 1, and the course is at 2: `coursekit update`" in behind(desk.root)
    assert fill(desk.root) == []


def test_a_copy_that_was_deleted_comes_back_as_the_course_has_it(desk):
    desk.path("ch01_a").unlink()
    assert fill(desk.root) == ["ch01_a"]
    assert desk.sources("ch01_a") == course(desk)


def test_an_update_brings_a_deleted_copy_back_and_names_no_old_file(desk):
    desk.path("ch01_a").unlink()
    assert "old file" not in new_version(desk)
    assert desk.sources("ch01_a") == course(desk)
    assert old_files(desk) == []


def test_without_notebooks_the_next_step_is_said(tmp_path):
    with pytest.raises(CommandError, match="coursekit build"):
        fill(tmp_path)


@pytest.mark.parametrize("name", CHAPTERS)
def test_every_cell_of_the_course_is_known_as_the_courses(name):
    cells = copies.read(ROOT / f"notebooks/{name}.ipynb").cells
    assert as_built(cells) == cells


# a new version


def test_a_chapter_that_was_not_touched_is_replaced(desk):
    assert "ch01_a: brought up to date" in new_version(desk)
    assert desk.path("ch01_a").read_bytes() == (desk.root / "notebooks/ch01_a.ipynb").read_bytes()
    assert old_files(desk) == []


def test_with_an_equal_text_nothing_is_done(desk):
    desk.write("ch01_a", "def one", SOLVED)
    before = desk.path("ch01_a").stat()
    assert update(desk.root).lines == [
        "Your notebooks already have the course's text, version 1, so there is nothing to do."
    ]
    after = desk.path("ch01_a").stat()  # reading it changes the time of access
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_text_that_changed_is_brought_whatever_the_version_says(desk):
    desk.write("ch01_a", "def one", SOLVED)
    publish(desk.root, "1", **NEW)
    assert "your 1 notebook ch01_a: `coursekit update`" in behind(desk.root)
    assert "ch01_a: 1 answer carried over, your old file is ch01_a.1.ipynb" in update(desk.root).lines
    assert desk.sources("ch01_a") == [SOLVED if source.startswith("def one") else source for source in course(desk)]
    assert behind(desk.root) == ""
    assert "nothing to do" in update(desk.root).lines[0]


@pytest.mark.parametrize("version", ["2", "3"])
def test_an_old_copy_that_was_brought_back_by_hand_gets_the_new_text_again(desk, version):
    before = desk.path("ch01_a").read_bytes()
    newer = {"ch01_a": [text("Read this instead."), *exercise("one", "x, y")]}
    new_version(desk, **newer)
    desk.path("ch01_a").write_bytes(before)
    publish(desk.root, version, **newer)
    update(desk.root)
    assert desk.path("ch01_a").read_bytes() == (desk.root / "notebooks/ch01_a.ipynb").read_bytes()


def test_what_was_run_or_written_in_notebooks_is_no_new_text_of_the_course(desk):
    path = desk.root / "notebooks/ch01_a.ipynb"
    ran = path.read_text().replace(
        '"outputs": []', '"outputs": [{"output_type": "stream", "name": "stdout", "text": "7"}]'
    )
    path.write_text(ran)
    assert behind(desk.root) == ""
    assert "nothing to do" in update(desk.root).lines[0]
    path.write_text(ran.replace("def one(x):\\n", "def one(x):\\n    return 2 * x\\n"))
    update(desk.root)
    assert behind(desk.root) == ""
    assert "nothing to do" in update(desk.root).lines[0]


@pytest.mark.parametrize("change", [lambda source: source.replace("\n", " \r\n"), lambda source: source + " \n\n"])
def test_line_ends_and_trailing_blanks_are_nobodys_own(desk, change):
    cells = desk.read("ch01_a").cells
    for cell in cells:
        cell.source = change(cell.source)
    desk.change("ch01_a", cells)
    assert "ch01_a: brought up to date" in new_version(desk).splitlines()
    assert desk.path("ch01_a").read_bytes() == (desk.root / "notebooks/ch01_a.ipynb").read_bytes()


def test_answers_and_own_cells_come_along_and_the_old_file_is_kept(desk):
    desk.write("ch01_a", "def one", SOLVED)
    desk.add("ch01_a", "def one", code("one(41)"))
    desk.add("ch01_a", "one(41)", text("My note."))
    before = desk.path("ch01_a").read_bytes()
    said = new_version(desk)
    title, read, show, heading, _, check, *rest = course(desk)
    assert desk.sources("ch01_a") == [title, read, show, heading, SOLVED, "one(41)", "My note.", check, *rest]
    assert (desk.root / "work/ch01_a.1.ipynb").read_bytes() == before
    assert "From version 1 to 2" in said
    assert "ch01_a: 1 answer carried over, 2 cells of your own, your old file is ch01_a.1.ipynb" in said
    assert behind(desk.root) == ""


def test_a_chapter_that_the_course_did_not_change_is_left_alone(desk):
    desk.write("ch01_a", "def one", SOLVED)
    desk.change("ch01_a", desk.read("ch01_a").cells[::-1])
    before = desk.path("ch01_a").stat()
    new_version(desk, **OLD, ch02_b=[*exercise("three")])
    after = desk.path("ch01_a").stat()  # reading it changes the time of access
    assert (after.st_ino, after.st_mtime_ns, after.st_ctime_ns) == (
        before.st_ino,
        before.st_mtime_ns,
        before.st_ctime_ns,
    )
    assert desk.sources("ch02_b") == course(desk, "ch02_b")


def test_an_exercise_in_a_new_form_keeps_the_answer_and_says_so(desk):
    desk.write("ch01_a", "def one", SOLVED)
    said = new_version(desk, ch01_a=[*exercise("one", "x, y"), *exercise("two", "x, y")])
    assert SOLVED in desk.sources("ch01_a")
    assert [source for source in desk.sources("ch01_a") if source.startswith("def two(x, y)")]
    assert "in a new form, so compare with notebooks/ch01_a.ipynb: one, your" in said


def test_a_prediction_that_was_filled_in_comes_along_also_from_a_copy_where_its_cell_was_named_after_its_text(desk):
    cells = [code('predict("launch", ...)  # seconds'), *exercise("one")]
    publish(desk.root, "1.1", ch01_a=cells)
    update(desk.root)
    desk.write("ch01_a", "predict", 'predict("launch", 0.4)')
    cells = desk.read("ch01_a").cells
    next(cell for cell in cells if "predict" in cell.source).id = "0a1b2c3d-0"
    desk.change("ch01_a", cells)
    said = new_version(desk, ch01_a=[code('predict("launch", ...)  # in seconds'), *exercise("one")])
    assert desk.sources("ch01_a")[1] == 'predict("launch", 0.4)'
    assert [cell.id for cell in desk.read("ch01_a").cells].index("predict_launch") == 1
    assert "ch01_a: 1 prediction carried over, your old file" in said
    assert not [source for source in desk.sources("ch01_a") if "earlier copy" in source]


def test_a_prediction_left_open_gets_the_new_words(desk):
    publish(desk.root, "1.1", ch01_a=[code('predict("fate", ...)'), *exercise("one")])
    update(desk.root)
    new_version(desk, ch01_a=[code('predict("fate", ..., ["kept", "lost"])'), *exercise("one")])
    assert desk.sources("ch01_a")[1] == 'predict("fate", ..., ["kept", "lost"])'


def test_cells_that_were_moved_go_back_to_their_places_with_what_was_written(desk):
    desk.write("ch01_a", "def one", SOLVED)
    cells = desk.read("ch01_a").cells
    desk.change("ch01_a", [*cells[5:], *cells[:5]])
    new_version(desk)
    assert desk.sources("ch01_a") == [SOLVED if source.startswith("def one") else source for source in course(desk)]


def test_a_changed_text_of_the_course_stays_where_the_course_has_not_changed_it(desk):
    desk.write("ch01_a", "And then.", "And then. (I see!)")
    new_version(desk)
    assert desk.sources("ch01_a") == [source.replace("then.", "then. (I see!)") for source in course(desk)]


def test_a_changed_cell_that_the_course_changed_too_comes_at_the_end_and_does_not_run(desk):
    desk.write("ch01_a", "show(1)", "show(2)")
    desk.write("ch01_a", "Read this", "Read this twice.")
    said = new_version(desk, ch01_a=[text("Read this instead."), code("show(3)"), *exercise("one")])
    *new, heading, mine, mine_too = desk.read("ch01_a").cells
    assert [cell.source for cell in new] == course(desk)
    assert heading.source.startswith("## From your earlier copy")
    assert "(ch01_a.1.ipynb)" in heading.source
    assert (mine.cell_type, mine.source) == ("markdown", "Read this twice.")
    assert (mine_too.cell_type, mine_too.source) == ("raw", "show(2)")
    assert "2 cells without a place, now at the end" in said


def test_the_answer_to_a_removed_exercise_comes_at_the_end(desk):
    desk.write("ch01_a", "def one", SOLVED)
    new_version(desk, ch01_a=exercise("two"))
    assert desk.sources("ch01_a")[:4] == course(desk)
    assert desk.sources("ch01_a")[-1] == SOLVED


def test_a_locked_check_is_the_courses(desk):
    desk.write("ch01_a", "check(", "print('passed')")
    new_version(desk)
    assert desk.sources("ch01_a")[:-2] == course(desk)
    assert desk.sources("ch01_a")[-1] == "print('passed')"


def test_outputs_stay_with_the_same_code_and_go_from_checks(desk):
    cells = desk.read("ch01_a").cells
    for cell in cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [new_output("stream", text=f"of {cell.source}")], 7
    desk.change("ch01_a", cells)
    desk.write("ch01_a", "def one", SOLVED)
    new_version(desk, ch01_a=[text("New."), code("show(1)"), code("show(4)"), *exercise("one")])
    ran = {cell.source: cell.outputs for cell in desk.read("ch01_a").cells if cell.cell_type == "code"}
    assert [source for source, outputs in ran.items() if outputs] == ["show(1)", SOLVED]


def test_a_second_answer_cell_of_one_exercise_stays_behind_the_first(desk):
    desk.write("ch01_a", "def one", SOLVED)
    copy = next(cell for cell in desk.read("ch01_a").cells if cell.source == SOLVED)
    desk.add(
        "ch01_a", "def one", nbformat.from_dict(copy | {"id": "another", "source": "def one(x):\n    return 1 + x"})
    )
    new_version(desk)
    at = desk.sources("ch01_a").index(SOLVED)
    second = desk.read("ch01_a").cells[at + 1]
    assert second.source == "def one(x):\n    return 1 + x"
    assert "nbgrader" not in second.metadata


def test_cells_without_id_or_metadata_are_known_by_their_text_and_by_what_they_define(desk):
    desk.write("ch01_a", "def one", SOLVED)
    desk.add("ch01_a", "show(1)", code("mine = 1"))
    document = json.loads(desk.path("ch01_a").read_text())
    document["cells"] = [
        {key: value for key, value in cell.items() if key in ("cell_type", "source")} for cell in document["cells"]
    ]
    document["nbformat_minor"] = 4
    desk.path("ch01_a").write_text(json.dumps(document))
    new_version(desk)
    title, read, show, heading, _, *rest = course(desk)
    assert desk.sources("ch01_a") == [title, read, show, "mine = 1", heading, SOLVED, *rest]


def test_without_the_originals_the_courses_own_text_is_still_known(desk):
    desk.write("ch01_a", "def one", SOLVED)
    copies.original(desk.root, "ch01_a").unlink()
    assert "version unknown" in behind(desk.root)
    new_version(desk)
    assert desk.sources("ch01_a") == [SOLVED if source.startswith("def one") else source for source in course(desk)]
    assert old_files(desk) == ["ch01_a.unknown.ipynb"]


def test_who_has_worked_in_notebooks_until_now_goes_on_in_work(tmp_path):
    root = publish(tmp_path, "1", **OLD)
    path = root / "notebooks/ch01_a.ipynb"
    path.write_text(path.read_text().replace("def one(x):\\n", "def one(x):\\n    return 2 * x\\n"))
    fill(root)
    desk = Desk(root)
    new_version(desk)
    assert [source for source in desk.sources("ch01_a") if "return 2 * x" in source]
    assert len(desk.sources("ch01_a")) == len(course(desk))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"cells": [{}]}', b"\xff\xfe", b'{"nbformat": 4, "cells": 3}'])
def test_a_copy_that_is_no_notebook_is_left_alone_and_named(desk, content):
    publish(desk.root, "1", **OLD, ch02_b=exercise("three"))
    fill(desk.root)
    desk.path("ch01_a").write_bytes(content)
    publish(desk.root, "2", **NEW, ch02_b=exercise("four"))
    report = update(desk.root)
    assert desk.path("ch01_a").read_bytes() == content
    assert desk.sources("ch02_b") == course(desk, "ch02_b")
    assert "work/ch01_a.ipynb is not a readable notebook" in report.problems[0]
    desk.path("ch01_a").rename(desk.path("mine"))
    assert update(desk.root).problems == []
    assert desk.sources("ch01_a") == course(desk)


def test_a_notebook_of_the_course_that_git_left_with_conflicts_is_named(desk):
    publish(desk.root, "2", **NEW)
    before = desk.path("ch01_a").read_bytes()
    (desk.root / "notebooks/ch01_a.ipynb").write_text("<<<<<<< HEAD")
    assert "git checkout notebooks/ch01_a.ipynb" in update(desk.root).problems[0]
    assert desk.path("ch01_a").read_bytes() == before


def test_without_copies_they_are_made(tmp_path):
    root = publish(tmp_path, "1", **OLD)
    assert "Copied 1 notebook into work/" in update(root).lines[0]
    assert Desk(root).sources("ch01_a") == course(Desk(root))


def test_an_old_file_that_was_brought_back_by_hand_is_updated_again(desk):
    desk.write("ch01_a", "def one", SOLVED)
    before = desk.path("ch01_a").read_bytes()
    new_version(desk)
    desk.path("ch01_a").write_bytes(before)
    publish(desk.root, "3", **NEW)
    update(desk.root)
    assert desk.sources("ch01_a") == [SOLVED if source.startswith("def one") else source for source in course(desk)]


def coursekit(course: Path, *arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "coursekit.cli", *arguments]
    return subprocess.run(command, cwd=course, capture_output=True, text=True)


@pytest.mark.slow
def test_a_class_with_a_zip_is_updated_by_the_next_zip(tmp_path):
    course = unpacked(tmp_path)
    assert f"Copied {len(CHAPTERS)} notebooks into work/" in coursekit(course, "update").stdout
    chapter, settings = Desk(course).path("ch01_tasks"), course / "pyproject.toml"
    chapter.write_text(chapter.read_text().replace("A task is", "A task, I say, is"))
    Desk(course).path("ch00_start").write_text("not a notebook")
    settings.write_text(settings.read_text().replace(f'version = "{copies.course_version()}"', 'version = "99"'))
    result = coursekit(course, "update")
    assert f"From version {copies.course_version()} to 99" in result.stdout
    assert result.returncode == 1
    assert "work/ch00_start.ipynb is not a readable notebook" in result.stderr
    assert "Traceback" not in result.stderr
    assert "A task, I say, is" in chapter.read_text()


def test_a_disk_that_refuses_is_said_and_loses_nothing(desk, monkeypatch):
    desk.write("ch01_a", "def one", SOLVED)
    before = desk.path("ch01_a").read_bytes()
    publish(desk.root, "2", **NEW)
    monkeypatch.setattr(os, "fsync", lambda file: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(CommandError, match="No space left on device.*the same command again"):
        update(desk.root)
    assert desk.path("ch01_a").read_bytes() == before


# chapters that come, go and split

SPLIT = {
    "ch01_a": [text("Read this."), *exercise("one")],
    "ch02_b": [text("And then."), *exercise("two"), text("More.")],
}


def split(desk: Desk) -> str:
    desk.write("ch01_a", "def one", SOLVED)
    desk.write("ch01_a", "def two", "def two(x):\n    return 2")
    desk.add("ch01_a", "And then.", code("thought = 1"))
    return new_version(desk, **SPLIT)


def assert_split(desk: Desk) -> None:
    title, read, heading, _, check = course(desk)
    assert desk.sources("ch01_a") == [title, read, heading, SOLVED, check]
    title, then, heading, _, *rest = course(desk, "ch02_b")
    assert desk.sources("ch02_b") == [title, then, "thought = 1", heading, "def two(x):\n    return 2", *rest]


def test_a_chapter_that_was_split_takes_each_answer_to_where_its_exercise_is(desk):
    assert "ch02_b: new, 1 answer carried over, 1 cell of your own" in split(desk)
    assert_split(desk)


def test_the_start_before_the_update_adds_the_second_half_and_the_answers_still_arrive(desk):
    desk.write("ch01_a", "def two", "def two(x):\n    return 2")
    publish(desk.root, "2", **SPLIT)
    fill(desk.root)
    update(desk.root)
    assert "def two(x):\n    return 2" in desk.sources("ch02_b")


def test_an_exercise_of_the_same_name_in_another_chapter_is_another_exercise(tmp_path):
    desk = Desk(publish(tmp_path, "1", ch01_a=[*exercise("one"), *exercise("two")], ch02_b=exercise("one", "x, y")))
    fill(desk.root)
    desk.write("ch01_a", "def one", SOLVED)
    new_version(desk, ch01_a=exercise("two"), ch02_b=exercise("one", "x, y"))
    assert SOLVED not in desk.sources("ch02_b")
    assert desk.sources("ch01_a")[-1] == SOLVED


def test_a_chapter_that_is_gone_keeps_its_file_under_another_name(desk):
    desk.write("ch01_a", "def one", SOLVED)
    said = new_version(desk, ch02_b=exercise("one"))
    assert "ch01_a is no longer in the course; your copy is now ch01_a.1.ipynb" in said
    assert not desk.path("ch01_a").exists()
    assert SOLVED in desk.sources("ch02_b")
    assert behind(desk.root) == ""


def test_a_moved_exercise_takes_its_answer_attempts_and_points_along(desk, monkeypatch):
    desk.write("ch01_a", "def one", SOLVED)
    save(Result("ch01_a", "one", "exercise", "wrong", 1))
    save(Result("ch01_a", "one", "exercise", "passed", 1))
    monkeypatch.setitem(renamed_exercises.MOVED, "ch01_a/one", "ch02_b/plus_one")
    new_version(desk, ch01_a=exercise("two"), ch02_b=exercise("plus_one"))
    assert "def plus_one(x):\n    return x + 1" in desk.sources("ch02_b")
    assert attempts("ch02_b", "plus_one") == 2
    shown = overview(desk.root / "notebooks")
    assert [(chapter.name, chapter.earned) for chapter in shown.chapters] == [("ch01_a", 0), ("ch02_b", 1)]
    assert shown.retired == []
    save(Result("ch02_b", "plus_one", "exercise", "wrong", 1))
    assert attempts("ch02_b", "plus_one") == 3


def test_a_removed_exercise_is_done_and_retired_and_counts_for_no_other(desk):
    save(Result("ch01_a", "one", "exercise", "passed", 1))
    assert "Done, retired (no longer in the course): ch01_a/one." in new_version(desk, ch01_a=exercise("two"))
    assert overview(desk.root / "notebooks").chapters[0].earned == 0


@pytest.mark.slow
def test_every_moved_exercise_is_where_the_table_says_and_nowhere_else():
    known = {f"{chapter}/{name}" for chapter in CHAPTERS for name in exercises(chapter)}
    assert set(renamed_exercises.MOVED.values()) <= known
    assert set(renamed_exercises.MOVED) & known == set()


# killed on the way


def killed_at(step: int, root: Path) -> bool:
    """Update in a process that is killed at its nth step on the disk; return whether it came that far."""
    fsync, child = os.fsync, os.fork()
    if child == 0:
        left = iter(range(step))

        def counted(function):
            def call(*arguments):
                if next(left, None) is None:
                    if function is fsync and stat.S_ISREG(os.fstat(arguments[0]).st_mode):
                        os.ftruncate(arguments[0], 0)  # what did not reach the disk is lost with the power
                    os.kill(os.getpid(), signal.SIGKILL)
                return function(*arguments)

            return call

        os.fsync, os.replace, os.rename, os.unlink = map(counted, (os.fsync, os.replace, os.rename, os.unlink))
        try:
            update(root)
        except BaseException:
            os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or status == 0, "update raised"
    return os.WIFSIGNALED(status)


BEFORE = {
    **OLD,
    "ch03_c": [text("Third."), *exercise("five"), *exercise("six")],
    "ch04_d": exercise("seven"),
    "ch05_e": exercise("eight"),
}
AFTER = {**SPLIT, "ch03_c": exercise("seven"), "ch05_e": [*exercise("eight"), *exercise("six")]}
SOLVED_IN = {"ch01_a": ["one", "two"], "ch03_c": ["five", "six"], "ch04_d": ["seven"]}
FOUND_IN = {"one": "ch01_a", "two": "ch02_b", "six": "ch05_e", "seven": "ch03_c"}


def mine(name: str) -> str:
    return f"def {name}(x):\n    return 'mine'"


def at_work(root: Path) -> Desk:
    """Return a learner who has solved exercises of several chapters when the course is cut and sewn."""
    desk = Desk(publish(root, "1", **BEFORE))
    fill(root)
    for chapter, names in SOLVED_IN.items():
        for name in names:
            desk.write(chapter, f"def {name}", mine(name))
    desk.add("ch01_a", "And then.", code("thought = 1"))
    publish(root, "2", **AFTER)
    return desk


@pytest.mark.slow
def test_killed_at_any_step_nothing_is_lost_and_the_next_update_ends_where_it_would_have(tmp_path):
    step = 0
    while True:
        desk = at_work(tmp_path / str(step))
        killed = killed_at(step, desk.root)
        written = ["thought = 1", *(mine(name) for names in SOLVED_IN.values() for name in names)]
        assert set(written) <= set(desk.everything())
        assert update(desk.root).problems == []
        assert behind(desk.root) == ""
        assert [name for name, chapter in FOUND_IN.items() if mine(name) not in desk.sources(chapter)] == []
        more = {name: len(desk.sources(name)) - len(course(desk, name)) for name in AFTER}
        assert more == {"ch01_a": 0, "ch02_b": 1, "ch03_c": 2, "ch05_e": 0}  # the thought; five, below its heading
        if not killed:
            break
        step += 1
    assert step > 20
