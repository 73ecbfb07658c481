"""`coursekit similar`: a copy with other names is shown; what was handed out, what we wrote and what all write is not."""

import re
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell
from typer.testing import CliRunner

from coursekit.cli import app
from coursekit.grading.desk.similar import Pair, pairs_of
from coursekit.grading.grading_plan import Master
from coursekit.grading.submission import Submission
from tests.classes import grade
from tests.without_sandbox import cells, no_sandbox, write

__all__ = ["no_sandbox"]  # every test here grades without one

OURS = """def total(values):
    result = 0
    for value in values:
        result = result + value * value if value > 0 else result - value
    return result
"""
COPIED = """def total(values):
    stack = list(values)
    seen = {}
    while stack:
        top = stack.pop()  # take the last
        seen[top] = seen.get(top, 0) + max(top * top, -top)
    return sum(seen.values())
"""
OTHER = """def total(values):
    positive = [v ** 2 for v in values if v > 0]
    negative = [abs(v) for v in values if v <= 0]
    return sum(positive) + sum(negative)
"""


def notebook(source: str) -> nbformat.NotebookNode:
    document = cells()
    document.cells.insert(0, new_code_cell(source))
    return document


def renamed(source: str) -> str:
    for name, other in {"stack": "todo", "seen": "counts", "top": "x1"}.items():
        source = re.sub(rf"\b{name}\b", other, source)
    return source.replace("# take the last", "# my own remark")


@pytest.fixture
def master(tmp_path) -> Master:
    return Master.of(write(tmp_path / "source/hw1/p1.ipynb", notebook(OURS)))


def pairs(folder: Path, master: Master, sources: dict[str, str]) -> list[Pair]:
    paths = {name: write(folder / name / "p1.ipynb", notebook(source)) for name, source in sources.items()}
    return pairs_of(master, [Submission(name, "hw1", "p1", path) for name, path in paths.items()])


def test_a_copy_with_other_names_and_remarks_is_found(tmp_path, master):
    (pair,) = pairs(tmp_path, master, {"ada": COPIED, "alan": renamed(COPIED), "grace": OTHER})
    assert {pair.one.student, pair.other.student} == {"ada", "alan"}
    assert pair.fraction == 1


def test_our_own_solution_and_what_was_handed_out_are_nobodys_copy(tmp_path, master):
    assert pairs(tmp_path, master, {"ada": OURS, "alan": OURS.replace("result", "r")}) == []


def test_what_many_write_is_nobodys_copy(tmp_path, master):
    assert pairs(tmp_path, master, {f"student{number}": COPIED for number in range(5)}) == []


def test_a_notebook_that_cannot_be_read_is_left_out(tmp_path, master):
    broken = write(tmp_path / "eve/p1.ipynb")
    broken.write_text("{")
    assert pairs_of(master, [Submission("eve", "hw1", "p1", broken)]) == []


def test_the_page_shows_both_sides_and_runs_nothing(tmp_path):
    write(tmp_path / "source/hw1/p1.ipynb", notebook(OURS))
    evil = COPIED + "\n# <script>alert(1)</script>"
    for name, source in {"ada": COPIED, "<b>eve": renamed(evil)}.items():
        write(tmp_path / "submitted" / name / "hw1/p1.ipynb", notebook(source))
    grade(tmp_path)
    shown = CliRunner().invoke(app, ["similar", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    page = (tmp_path / "similar.html").read_text(encoding="utf-8")
    assert "1 pair" in page
    assert "<mark>        counts[x1]" in page
    assert "<script>" not in page
    assert "<b>eve" not in page.replace("<b>&lt;b&gt;eve", "")


def test_a_cell_of_megabytes_is_not_compared_and_hides_no_other(tmp_path, master):
    path = write(tmp_path / "eve/p1.ipynb", notebook(renamed(COPIED)))
    document = nbformat.read(path, as_version=4)
    document.cells.insert(0, new_code_cell("data = [" + ", ".join(map(str, range(200_000))) + "]"))
    write(path, document)
    ada = write(tmp_path / "ada/p1.ipynb", notebook(COPIED))
    found = pairs_of(master, [Submission(name, "hw1", "p1", at) for name, at in (("ada", ada), ("eve", path))])
    assert [pair.fraction for pair in found] == [1]
    assert len(found[0].other.runs) < 1000
