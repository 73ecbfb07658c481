"""`coursekit give-back`: each page is in the zip where the platform finds its student, and whoever is left out is named."""

import json
import re
import shutil
import zipfile
from pathlib import Path

import nbformat
import pytest
from typer.testing import CliRunner

from coursekit.cli import app
from coursekit.grading.desk.participants import participants_of
from tests.classes import grade
from tests.without_sandbox import cells, no_sandbox, write

__all__ = ["no_sandbox"]  # every test here grades without one
pytestmark = pytest.mark.slow

ROSTER = """students = [
  {id = "ada", name = "Ada Lovelace", group = "Blue"},
  {id = "alan", name = "Alan Turing", group = "Blue"},
  {id = "grace", name = "Grace Hopper"},
]
"""
MOODLE = {"Ada Lovelace": 501, "Alan Turing": 502}


def moodle(course: Path, people: dict[str, int]) -> None:
    """Collect a zip of Moodle's."""
    files = {f"{name}_{number}_assignsubmission_file/x.ipynb": cells() for name, number in people.items()}
    collect(course, files)


def collect(course: Path, files: dict) -> None:
    with zipfile.ZipFile(course.parent / "zip", "w") as archive:
        for name, document in files.items():
            archive.writestr(name, nbformat.writes(document))
    shown = CliRunner().invoke(app, ["collect", str(course.parent / "zip"), str(course)])
    assert shown.exit_code == 0, shown.output


@pytest.fixture
def course(tmp_path, tmp_path_factory) -> Path:
    """Return a class in which ada and alan have handed in on Moodle, and are graded."""
    graded_once = tmp_path_factory.getbasetemp() / "given back"
    if not graded_once.exists():
        write(graded_once / "source/hw1/p1.ipynb", cells())
        (graded_once / "class.toml").write_text(ROSTER)
        moodle(graded_once, MOODLE)
        grade(graded_once)
    shutil.copytree(graded_once, tmp_path / "course")
    return tmp_path / "course"


def give_back(course: Path, to: str) -> str:
    shown = CliRunner().invoke(app, ["give-back", str(course), "--to", to])
    assert shown.exit_code == 0, shown.output
    return shown.output


def zipped(course: Path, to: str = "moodle") -> dict[str, str]:
    path = course / f"give-back/hw1-{to}.zip"
    if not path.exists():
        return {}
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def test_moodles_zip_has_a_folder_for_each_student_by_moodles_number(course):
    said = give_back(course, "moodle")
    pages = zipped(course)
    assert list(pages) == [
        "Ada Lovelace_501_assignsubmission_file_/p1.html",
        "Alan Turing_502_assignsubmission_file_/p1.html",
    ]
    assert ["Ada Lovelace (ada)" in page for page in pages.values()] == [True, False]
    assert f"wrote {course}/give-back/hw1-moodle.zip: 2 pages" in said
    assert "hw1: nothing was handed in by grace\n" in said
    assert "Upload multiple feedback files in a zip" in said


def test_an_assignment_for_which_nobody_has_handed_in_yet_is_not_spoken_of(course):
    write(course / "source/hw2/p1.ipynb", cells())
    (course / "class.toml").write_text('zone = "UTC"\n' + ROSTER + "[due]\nhw2 = 2999-01-01\n")
    assert "hw2" not in give_back(course, "moodle")


def test_canvas_zip_names_the_student_and_the_upload_that_counts(course):
    uploads = {f"lovelaceada_11_{upload}_x-{upload}.ipynb": cells() for upload in (71, 72)}
    collect(course, uploads | {"turingalan_LATE_12_73_x.ipynb": cells(), "anon_Ab3dE_74_x.ipynb": cells()})
    grade(course)
    said = give_back(course, "canvas")
    assert list(zipped(course, "canvas")) == ["lovelaceada_11_72_p1.html", "turingalan_12_73_p1.html"]
    assert "Re-Upload Submissions" in said


def test_a_folder_has_a_page_a_student_and_none_of_an_earlier_run(course):
    (course / "give-back/hw1").mkdir(parents=True)
    (course / "give-back/hw1/eve.html").touch()
    give_back(course, "folder")
    assert sorted(path.name for path in (course / "give-back/hw1").iterdir()) == ["ada.html", "alan.html"]


def test_pages_of_two_notebooks_go_together(course):
    write(course / "source/hw1/p2.ipynb", cells())
    write(course / "submitted/ada/hw1/p2.ipynb", cells())
    write(course / "submitted/alan/hw1/p2.ipynb", cells())
    grade(course)
    give_back(course, "moodle")
    assert len(zipped(course)) == 4
    give_back(course, "folder")
    assert (course / "give-back/hw1/ada-p2.html").exists()


def test_whom_no_zip_of_the_platform_names_is_named(course):
    write(course / "submitted/grace/hw1/p1.ipynb", cells())
    grade(course)
    said = give_back(course, "moodle")
    assert "grace/hw1: no zip that you collected from Moodle says who this student is there." in said
    assert len(zipped(course)) == 2
    assert "no zip that you collected from Canvas" in give_back(course, "canvas")
    assert zipped(course, "canvas") == {}


def test_what_is_not_graded_as_it_is_now_is_named_with_the_command(course):
    write(course / "submitted/grace/hw1/p1.ipynb", cells())
    write(course / "submitted/ada/hw1/p1.ipynb", cells(1))
    said = give_back(course, "moodle")
    command = f"Run: coursekit grade {course}/submitted"
    assert f"grace/hw1/p1: it is not graded yet. {command}" in said
    assert f"ada/hw1/p1: it was handed in again since it was graded. {command}" in said
    assert list(zipped(course)) == ["Alan Turing_502_assignsubmission_file_/p1.html"]


def test_what_lies_in_no_assignment_is_named(course):
    write(course / "submitted/grace/p1.ipynb", cells())
    grade(course)
    assert "grace//p1: it belongs to no assignment, so its page stays in reports/" in give_back(course, "moodle")


@pytest.mark.parametrize("members", [["ada", "alan"], ["ada"]])
def test_no_member_of_a_team_gets_the_page_of_another(course, members):
    if members == ["ada"]:
        (course / "class.toml").write_text(ROSTER.replace("Blue", "Red").replace("Red", "Blue", 1))
    moodle(course, {"Blue": 7})
    grade(course)
    said = give_back(course, "moodle")
    assert re.findall(r"(\w+)/hw1: Moodle lists it under 7, which is a team's number", said) == members
    assert list(zipped(course)) == ["Alan Turing_502_assignsubmission_file_/p1.html"][: 2 - len(members)]


def test_without_a_roster_a_number_that_two_students_have_is_neithers(course):
    (course / "class.toml").unlink()
    kept = json.loads((course / "participants.json").read_text())
    kept["alan/hw1"]["number"] = kept["ada/hw1"]["number"]
    (course / "participants.json").write_text(json.dumps(kept))
    said = give_back(course, "moodle")
    assert "ada/hw1: Moodle lists it under 501" in said
    assert "alan/hw1: Moodle lists it under 501" in said
    assert zipped(course) == {}


def test_two_students_of_whom_a_file_would_have_one_name_are_named(course):
    (course / "class.toml").unlink()
    write(course / "submitted/Ada/hw1/p1.ipynb", cells())
    grade(course)
    said = give_back(course, "folder")
    assert "Ada/hw1: another student's file has the same name" in said
    assert [path.name for path in (course / "give-back/hw1").iterdir()] == ["alan.html"]


def test_each_assignment_keeps_the_number_that_it_has_on_the_platform(course):
    before = participants_of(course)
    collect(course, {"Ada Lovelace_601_assignsubmission_file/x.ipynb": cells()})
    after = participants_of(course)
    assert (before["ada/hw1"].number, after["ada/hw1"].number) == ("501", "601")
    assert after["alan/hw1"] == before["alan/hw1"]


@pytest.mark.parametrize(
    ("to", "content", "reason"),
    [("ilias", "{}", "--to ilias is unknown. Choose one of"), ("moodle", "[", "participants.json cannot be read")],
)
def test_what_cannot_be_is_refused_with_the_next_step(course, to, content, reason):
    (course / "participants.json").write_text(content)
    shown = CliRunner().invoke(app, ["give-back", str(course), "--to", to])
    assert (shown.exit_code, reason in " ".join(shown.output.split())) == (1, True)
