"""An instructor's week, as the docs tell it: from `release` to the zip that Moodle takes, with marks worked out beforehand."""

import csv
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from coursekit.sandbox.nursery import available

CHAPTER = "ch00_start"
CLASS = """zone = "UTC"
quizzes = false
[due]
ch00_start = 2026-10-19T18:00:00
[late]
percent_a_day = 10
[[students]]
id = "ada"
name = "Ada Lovelace"
[[students]]
id = "zoe"
name = "Müller-O'Brien, Zoë"
[[students]]
id = "jean"
name = "Jean Luc"
[[students]]
id = "kim1"
name = "Kim Lee"
email = "kim.lee@example.org"
[[students]]
id = "kim2"
name = "Kim Lee"
email = "lee.kim@example.org"
[[students]]
id = "max"
name = "Max Planck"
"""
WRONG = "def best_seconds(tasks, seconds_each, workers):\n    return tasks / workers * seconds_each\n"
STUDENTS = {  # by Moodle's number: id, full name, e-mail, day of October, answer, points
    "101": ("ada", "Ada Lovelace", "ada@example.org", 18, None, "1"),
    "102": ("zoe", "Zoë Müller-O'Brien", "zoe@example.org", 18, WRONG, "0"),
    "103": ("jean", "Jean Luc", "jean@example.org", 20, None, "0.9"),  # a day late
    "104": ("kim1", "Kim Lee", "kim.lee@example.org", 18, None, "1"),
    "105": ("kim2", "Kim Lee", "lee.kim@example.org", 18, "", "0"),  # nothing written
}
HEADER = "Identifier,Full name,Email address,Status,Grade,Maximum Grade,Last modified (submission),Feedback comments"
COMMENT = "Ten tasks on **four** workers take `3` rounds:\n\n- 4\n- 4\n- 2\n\n<script>alert(1)</script>"


def run(*command: str) -> str:
    done = subprocess.run([sys.executable, "-m", "coursekit.cli", *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def answered(released: Path, answer: str | None, source: Path) -> str:
    """Return what a student hands in: the released notebook with an answer, or the solved one."""
    if answer is None:
        return source.read_text(encoding="utf-8")
    document = json.loads(released.read_text(encoding="utf-8"))
    for cell in document["cells"]:
        if answer and cell["metadata"].get("nbgrader", {}).get("grade_id") == "answer_best_seconds":
            cell["source"] = answer
    return json.dumps(document)


def found_by_moodle(path: str) -> tuple[str, str]:
    """Return for which participant Moodle takes a file of a zip, and the file's name, as importziplib.php reads it."""
    parts = path.split("/")
    while parts:
        words = parts.pop(0).split("_", 4)
        if len(words) > 3 and words[1] in STUDENTS and words[2:4] == ["assignsubmission", "file"]:
            return words[1], "/".join([*words[4:], *parts]).strip("/")
    return "", ""


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.skipif(bool(available()), reason=f"no sandbox here: {available()}")
def test_from_the_release_to_the_zip_with_the_pages(tmp_path):
    course, worksheet, packed = tmp_path / "course", tmp_path / "worksheet.csv", tmp_path / "moodle.zip"
    course.mkdir()
    (course / "class.toml").write_text(CLASS, encoding="utf-8")
    run("release", str(course))
    released, source = (course / f"{place}/{CHAPTER}/{CHAPTER}.ipynb" for place in ("release", "source"))
    lines = [HEADER]
    with zipfile.ZipFile(packed, "w") as archive:
        for number, (_, name, email, day, answer, _) in STUDENTS.items():
            path = f"{name}_{number}_assignsubmission_file/{CHAPTER}.ipynb"
            archive.writestr(path, answered(released, answer, source))
            lines.append(f'Participant {number},{name},{email},Submitted,,1.00,"{day} October 2026, 10:00 AM",')
    worksheet.write_text("\n".join([*lines, "Participant 106,Max Planck,max@example.org,No submission,,1.00,-,", ""]))

    run("collect", str(packed), str(course), "--table", str(worksheet))
    run("grade", str(course / "submitted"))
    with Gradebook(f"sqlite:///{course}/gradebook.db", "ray_rl") as book:
        book.find_comment("answer_best_seconds", CHAPTER, CHAPTER, "zoe").manual_comment = COMMENT
        book.db.commit()
    run("grades", str(course), "--to", "moodle", "--table", str(worksheet))
    said = run("give-back", str(course), "--to", "moodle")

    with (tmp_path / "worksheet-to-import.csv").open(encoding="utf-8", newline="") as file:
        table = {row["Identifier"].split()[1]: row for row in csv.DictReader(file)}
    assert {number: row["Grade"] for number, row in table.items()} == {
        **{number: student[-1] for number, student in STUDENTS.items()},
        "106": "",
    }
    assert "take <code>3</code> rounds" in table["102"]["Feedback comments"]
    assert [number for number, row in table.items() if row["Feedback comments"]] == ["102"]
    assert f"{CHAPTER}: nothing was handed in by max\n" in said
    with zipfile.ZipFile(course / f"give-back/{CHAPTER}-moodle.zip") as archive:
        pages = {found_by_moodle(path): archive.read(path).decode() for path in archive.namelist()}
    assert sorted(pages) == [(number, f"{CHAPTER}.html") for number in STUDENTS]
    for (number, _), page in pages.items():
        student, *_, points = STUDENTS[number]
        assert f"({student})" in page
        assert re.search(rf'class="score"><b>{points} of 1 point', page)
    zoe = pages["102", f"{CHAPTER}.html"]
    assert "<p>Ten tasks on <strong>four</strong> workers take <code>3</code> rounds:</p>\n<ul>\n<li>4</li>" in zoe
    assert "<script" not in zoe
