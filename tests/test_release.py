"""`coursekit release`: a ready nbgrader course, and a zip with which a learner can start, without a single solution."""

import json
import subprocess
import zipfile
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from coursekit.basics.errors import CommandError
from coursekit.grading.desk.release import release
from coursekit.judging.exercise import load
from tests.chapters import CHAPTERS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("released") / "course"
    folder.mkdir()
    (folder / "class.toml").write_text("language = 'de'\nquizzes = true\n[due]\nch00_start = 2026-10-19T18:00:00Z\n")
    release(folder)
    return folder


@pytest.fixture(scope="module")
def unpacked(course: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("learner")
    zipfile.ZipFile(course / "learners.zip").extractall(folder)
    return folder / "ray-rl-course"


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_is_an_assignment_with_its_pictures_inside(course, chapter):
    cells = json.loads((course / f"release/{chapter}/{chapter}.ipynb").read_text(encoding="utf-8"))["cells"]
    text = "".join("".join(cell["source"]) for cell in cells)
    assert "SOLUTION" not in text
    assert "../img/" not in text
    assert any(cell.get("attachments") for cell in cells)
    assert "### BEGIN SOLUTION" in (course / f"source/{chapter}/{chapter}.ipynb").read_text(encoding="utf-8")


def test_a_date_of_the_class_stands_in_every_copy_of_its_chapter(course, unpacked):
    places = ["source/ch00_start/ch00_start.ipynb", "release/ch00_start/ch00_start.ipynb"]
    for path in [*(course / place for place in places), unpacked / "notebooks/ch00_start.ipynb"]:
        assert r"begin(\"ch00_start\", due=\"2026-10-19T18:00:00+00:00\")" in path.read_text(encoding="utf-8")
    assert r"begin(\"ch01_tasks\")" in (unpacked / "notebooks/ch01_tasks.ipynb").read_text(encoding="utf-8")


def test_nbgraders_gradebook_knows_every_chapter(course):
    with Gradebook(f"sqlite:///{course}/gradebook.db", "ray_rl") as book:
        points = {assignment.name: assignment.max_score for assignment in book.assignments}
    assert points == {chapter: sum(item.points for item in load(chapter).values()) for chapter in CHAPTERS}


def test_the_hand_out_and_the_edition_of_the_checks_lie_beside_the_zip(course):
    handout = (course / "handout.html").read_text(encoding="utf-8")
    assert "make lab" in handout
    assert "<title>Verteiltes Reinforcement Learning mit Ray: So machst du mit</title>" in handout
    assert len(list((course / "cheat_sheets").glob("part_?.html"))) == 5
    released = json.loads((course / "edition.json").read_text())
    assert list(released) == CHAPTERS
    assert "best_seconds" in released["ch00_start"]["checks"]


def test_everything_that_make_lab_installs_from_is_in_the_zip(unpacked):
    assert {"Makefile", "pyproject.toml", "constraints.txt", "README.md"} <= {path.name for path in unpacked.iterdir()}
    shown = subprocess.run(["make", "-n", "lab"], cwd=unpacked, capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    assert "scripts/setup.sh" in shown.stdout
    assert (unpacked / "scripts/setup.sh").exists()


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    (tmp_path / "mine").touch()
    with pytest.raises(CommandError, match="is not empty"):
        release(tmp_path)
