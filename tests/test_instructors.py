"""The instructors' pages: ten commands lead from an empty folder to grades, and limits and attacks are those of the program."""

import csv
import os
import re
import subprocess

import pytest
from nbgrader.api import Gradebook

from coursekit.basics.files import MAX_BYTES
from coursekit.basics.paths import ROOT, path_with_scripts
from coursekit.grading.submission import MAX_CELLS
from coursekit.sandbox.limits import Limits
from coursekit.sandbox.nursery import available
from tests.attacks import attacks

TEN_MINUTES, REFERENCE, PROVES = (
    (ROOT / f"docs/{name}.md").read_text(encoding="utf-8")
    for name in ("instructors", "grading_reference", "what_grading_proves")
)
COMMANDS = re.search(r"```sh\n(.*?)```", TEN_MINUTES, re.DOTALL)[1].splitlines()  # type: ignore[index]


def test_there_are_ten_commands():
    assert len(COMMANDS) == 10


@pytest.mark.slow
@pytest.mark.skipif(bool(available()), reason=f"no sandbox here: {available()}")
def test_the_ten_commands_lead_from_an_empty_folder_to_grades(tmp_path):
    env = os.environ | {"PATH": path_with_scripts()}
    run = subprocess.run(
        ["bash", "-e"], input="\n".join(COMMANDS), cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr[-3000:]
    rows = {row["student"]: row for row in csv.DictReader((tmp_path / "course/grades.csv").open())}
    assert (rows["ada"]["score"], rows["grace"]["score"], rows["grace"]["max_score"]) == (
        "0",
        "1",
        "1",
    )  # quizzes earn nothing
    assert "ada,ch00_start,ch00_start,graded,0" in run.stdout
    with Gradebook(f"sqlite:///{tmp_path}/course/gradebook.db", "ray_rl") as book:
        assert {entry.student.id: entry.score for entry in book.assignment_submissions("ch00_start")} == {
            "ada": 0,
            "grace": 1,
        }
    for student in ("ada", "grace"):
        assert (tmp_path / f"course/reports/{student}/ch00_start/ch00_start.html").exists()
        assert "Score:" in (tmp_path / f"course/feedback/{student}/ch00_start/ch00_start.html").read_text()
    assert "2 students, 1 notebook" in (tmp_path / "course/class.html").read_text()


def test_every_attack_that_is_named_exists():
    table = PROVES[PROVES.index("| a submission can't") : PROVES.index("## What a mark doesn't prove")]
    named = set(re.findall(r"`(\w+)`", table))
    assert named | {"probe_replaced_by_a_constant"} <= {attack.name for attack in attacks()}
    assert len(named) > 40


def test_the_limits_are_those_of_the_program():
    limits, rows = Limits(), dict(re.findall(r"^\| (.+?) \| (.+?) \|", REFERENCE, re.MULTILINE))
    assert rows["one cell, or one request from a check"].startswith(f"{limits.cell_seconds} s,")
    assert rows["one submission in total"] == f"{limits.total_seconds} s"
    assert rows["memory of one submission, including Ray"] == f"{limits.memory_mb} MB"
    sizes = f"{limits.processes}, {limits.disk_mb} MB, {limits.shm_mb} MB"
    assert rows["processes and threads, disk, `/dev/shm`"] == sizes
    assert rows["a notebook"].startswith(f"{MAX_BYTES // 2**20} MB, {MAX_CELLS} cells;")
