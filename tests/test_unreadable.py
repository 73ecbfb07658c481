"""What was handed in and cannot be read is not gradable, with the reason, on the whole way from the platform's zip to the class page."""

import csv
import io
import json
import zipfile
from pathlib import Path

import nbformat
import pytest

from coursekit.grading.desk.collect import Collected, collect
from coursekit.grading.desk.grade_command import show_class
from coursekit.grading.desk.participants import participants_of
from coursekit.grading.submission import NotGradable, find, read
from tests.classes import grade
from tests.without_sandbox import cells, no_sandbox, write

pytestmark = pytest.mark.slow
__all__ = ["no_sandbox"]  # every test here grades without one

GOOD = nbformat.writes(cells())
BEGUN = json.dumps(json.loads(GOOD), indent=1)
CONFLICT = BEGUN.replace('"x = 1"', '<<<<<<< HEAD\n"x = 1"\n=======\n"x = 2"\n>>>>>>> main')
PACKED_AGAIN = io.BytesIO()
with zipfile.ZipFile(PACKED_AGAIN, "w") as inner:
    inner.writestr("p1.ipynb", GOOD)

BROKEN = {
    "empty": (b"", "it is empty. Save the notebook"),
    "zeros": (b"\0" * 4096, "it is empty. Save the notebook"),
    "cut off": (BEGUN[: len(BEGUN) // 2].encode(), "it is cut off, and its end is missing"),
    "cut in a text": (BEGUN[: BEGUN.index("assert") + 3].encode(), "it is cut off, and its end is missing"),
    "cut in a word": (b'{"cells": [], "metadata": {"trusted": tr', "it is cut off, and its end is missing"),
    "conflict": (CONFLICT.encode(), "git left conflict markers in it, the first in line"),
    "utf-16": (BEGUN.encode("utf-16"), "it is not saved in UTF-8"),
    "latin-1": (BEGUN.replace("x = 1", "x = 1  # für").encode("latin-1"), "it is not saved in UTF-8"),
    "zip": (PACKED_AGAIN.getvalue(), "it is a zip archive or an Office document. Unpack it"),
    "pdf": (b"%PDF-1.7 \xff", "it is a PDF"),
    "page": (b"\n<!DOCTYPE html><html>", "it is a web page"),
    "script": (b"x = 1\n", "line 1 is not what Jupyter writes"),
    "no cells": (b"{}", "it has no list of cells"),
}


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """Return a course with a roster of four and one assignment."""
    write(tmp_path / "course/source/hw1/p1.ipynb")
    names = {"ada": "Ada L", "ben": "Ben C", "cleo": "Cleo D", "dan": "Dan E"}
    roster = ", ".join(f'{{id = "{id}", name = "{name}"}}' for id, name in names.items())
    (tmp_path / "course/class.toml").write_text(f"students = [{roster}]")
    return tmp_path / "course"


def collected(course: Path, files: dict[str, bytes | str]) -> Collected:
    """Collect what Moodle packed: a good notebook of Ada, and these files of Ben."""
    path = course.parent / "moodle.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("Ada L_1_assignsubmission_file/p1.ipynb", GOOD)
        for name, content in files.items():
            archive.writestr(f"Ben C_2_assignsubmission_file/{name}", content)
    return collect(path, course)


def row(course: Path, student: str) -> tuple[str, str, str]:
    """Return the outcome, the score and the reason of a student's only row."""
    rows = csv.DictReader((course / "grades.csv").open(encoding="utf-8"))
    (found,) = ((each["outcome"], each["score"], each["reason"]) for each in rows if each["student"] == student)
    return found


@pytest.mark.parametrize(("content", "reason"), BROKEN.values(), ids=BROKEN)
def test_a_notebook_that_cannot_be_read_has_its_reason(tmp_path: Path, content: bytes, reason: str):
    (tmp_path / "p1.ipynb").write_bytes(content)
    with pytest.raises(NotGradable) as raised:
        read(tmp_path / "p1.ipynb")
    assert reason in str(raised.value)


@pytest.mark.parametrize("kind", ["empty", "conflict", "zip"])
def test_from_the_zip_to_the_class_page_it_is_not_gradable_and_never_nothing(course: Path, kind: str):
    content, reason = BROKEN[kind]
    result = collected(course, {"my work.ipynb": content})
    assert result.missing == ["cleo", "dan"]
    ((path, said),) = result.unreadable
    assert participants_of(course)["ben/hw1"].number == "2"  # so that the page can be given back
    assert path == "Ben C_2_assignsubmission_file/my work.ipynb"
    assert reason in said
    assert f"  {path}: {said}" in str(result)
    grade(course)
    assert row(course, "ada") == ("graded", "2", "")
    assert row(course, "ben") == ("not gradable", "0", said)
    assert row(course, "cleo") == ("missing", "0", "nothing was handed in")
    page = (course / "reports/ben/hw1/p1.html").read_text(encoding="utf-8")
    assert reason.partition(".")[0] in page
    assert "hand in that file under its own name" in page
    show_class(course)
    assert f"ben (Ben C): {said[:30]}" in (course / "class.html").read_text(encoding="utf-8")
    final = {each[0]: each[4] for each in csv.reader((course / "final.csv").open(encoding="utf-8"))}
    assert (final["ben"], final["cleo"]) == ("not gradable", "missing")


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("p1.zip", PACKED_AGAIN.getvalue(), "p1.zip, which is a zip archive or an Office document. Unpack it"),
        ("p1.pdf", b"%PDF-1.7", "p1.pdf, which is a PDF. Hand in the notebook"),
        ("p1.py", b"x = 1", "no notebook was handed in, but p1.py"),
    ],
)
def test_what_is_handed_in_in_place_of_a_notebook_is_named(course: Path, name: str, content: bytes, reason: str):
    assert [path for path, _ in collected(course, {name: content}).unreadable] == [
        f"Ben C_2_assignsubmission_file/{name}"
    ]
    grade(course)
    outcome, score, said = row(course, "ben")
    assert (outcome, score) == ("not gradable", "0")
    assert reason in said
    final = {each[0]: each[4] for each in csv.reader((course / "final.csv").open(encoding="utf-8"))}
    assert (final["ben"], final["cleo"]) == ("not gradable", "missing")
    assert "No notebook was handed in" in (course / "reports/ben/hw1/p1.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["p1.ipynb.txt", "p1.json", "homework"])
def test_collect_goes_by_what_a_file_is_and_not_by_its_name(course: Path, name: str):
    assert (
        f"Ben C_2_assignsubmission_file/{name} is a notebook, whatever its name says."
        in collected(course, {name: GOOD}).notes
    )
    grade(course)
    assert row(course, "ben") == ("graded", "2", "")


def test_in_grade_a_notebook_under_another_name_is_named_with_the_way_out(course: Path):
    collected(course, {})
    (course / "submitted/ben/hw1").mkdir(parents=True)
    (course / "submitted/ben/hw1/p1.ipynb.txt").write_text(GOOD)
    grade(course)
    assert row(course, "ben")[2] == (
        "no notebook was handed in, but p1.ipynb.txt, which is a notebook under another name. Let its name end with .ipynb"
    )


def test_the_chapter_in_the_broken_text_says_which_assignment_it_is(tmp_path: Path):
    for name in ("ch00_start", "ch01_tasks"):
        document = cells()
        document.cells[0].source = f'begin("{name}")'
        write(tmp_path / f"course/source/{name}/{name}.ipynb", document)
    broken = (tmp_path / "course/source/ch01_tasks/ch01_tasks.ipynb").read_bytes()
    (tmp_path / "all/ben").mkdir(parents=True)
    for name, content in {"a": broken[:-20], "b": broken.decode().encode("utf-16")}.items():
        (tmp_path / f"all/ben/{name}.ipynb").write_bytes(content)
    collect(tmp_path / "all", tmp_path / "course")
    assert [path.name for path in (tmp_path / "course/submitted/ben").iterdir()] == ["ch01_tasks"]


def test_in_a_folder_of_one_assignment_what_is_no_notebook_is_not_gradable_either(course: Path):
    for student, content in {"ada/x.ipynb": GOOD.encode(), "ben/x.zip": PACKED_AGAIN.getvalue()}.items():
        (course.parent / "all" / student).parent.mkdir(parents=True)
        (course.parent / "all" / student).write_bytes(content)
    assert [path for path, _ in collect(course.parent / "all", course).unreadable] == ["ben/x.zip"]
    assert (course / "submitted/ben/hw1/x.zip").exists()


def test_a_notebook_that_can_be_read_counts_before_one_that_cannot(course: Path):
    result = collected(course, {"p1.ipynb": GOOD, "p1 (1).ipynb": b""})
    assert (
        "the notebook of ben that can be read counts" in dict(result.left)["Ben C_2_assignsubmission_file/p1 (1).ipynb"]
    )
    assert collected(course, {"p1.ipynb": b"{"}).unreadable == []
    assert (course / "submitted/ben/hw1/p1.ipynb").read_text() == GOOD
    assert collected(course, {"p1.pdf": b"%PDF"}).unreadable == []


def test_what_was_broken_is_replaced_by_what_can_be_read(course: Path):
    collected(course, {"p1.ipynb": b"{"})
    grade(course)
    assert row(course, "ben")[0] == "not gradable"
    collected(course, {"p1.ipynb": GOOD})
    grade(course)
    assert row(course, "ben") == ("graded", "2", "")


# What tools leave behind


@pytest.mark.parametrize("name", ["._p1.ipynb", ".DS_Store", "Thumbs.db", "desktop.ini", "__MACOSX/hw1/._p1.ipynb"])
def test_collect_and_grade_ignore_the_same_files(course: Path, name: str):
    result = collected(course, {name: b"\0\5\26\7"})
    assert (result.left, result.unreadable) == ([], [])
    assert not (course / "submitted/ben").exists()
    for place in ("", "ben", "ben/hw1"):
        path = course / "submitted" / place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\0\5\26\7")
    assert {item.problem for item in find(course / "submitted", {"hw1": {"p1"}})} == {"", "no notebook was handed in"}


@pytest.mark.parametrize("name", ["._eve", ".eve", "feedback", "__eve", "e.ipynb", "Thumbs.db", "-", " ", "CON"])
def test_a_students_folder_of_any_name_has_a_row(course: Path, name: str):
    write(course / "submitted" / name / "hw1/p1.ipynb")
    assert [item.key for item in find(course / "submitted", {"hw1": {"p1"}})] == [f"{name}/hw1/p1"]
