"""Every notebook proves itself: solved it earns every point, unsolved it runs to its end and earns nothing."""

import re
import subprocess
import sys

import pytest

from coursekit.basics.paths import NOTEBOOKS, SOLUTIONS
from coursekit.judging.exercise import load
from tests import forked
from tests.chapters import CHAPTERS, Run, run

pytestmark = pytest.mark.slow
ORDINARY = [
    "ch00_start",
    "ch01_tasks",
    "ch12_env_runners",
]  # unsolved, too, these run in an ordinary kernel: learners begin there
AT_NIGHT = ("ch21_learners", "ch22_inside_rllib", "ch23_self_play")  # electives that train for minutes
SAYS = {  # a line that a solved chapter prints on every machine, since its text relies on it
    "ch19_operate": r"^saver: hung, in save\nreport: waiting, in write$",
    "ch18_serve": r"^during the update 0 of \d+ requests failed$",
    "ch21_learners": r"^bitwise equal: True$",
}


def clean(result: Run) -> None:
    assert result.stderr == ""
    assert result.noise == [], "\n".join(result.noise)
    assert result.leftovers == []
    assert result.peak_mb < 6 * 1024


@pytest.mark.canary
@pytest.mark.parametrize(
    "chapter", [pytest.param(name, marks=pytest.mark.nightly) if name in AT_NIGHT else name for name in CHAPTERS]
)
def test_solved_notebook_earns_every_point(chapter, tmp_path, costs):
    result = run(SOLUTIONS / f"{chapter}.ipynb", tmp_path)
    costs(chapter, "solved", result.seconds, result.cpu_seconds, result.peak_mb)
    failed = {name: record["message"] for name, record in result.results.items() if record["status"] != "passed"}
    assert failed == {}
    assert result.results.keys() == load(chapter).keys()
    assert result.earned() == sum(item.points for item in load(chapter).values())
    assert re.search(SAYS.get(chapter, ""), result.printed(), re.MULTILINE)
    clean(result)


@pytest.mark.parametrize(
    "demos",
    [
        pytest.param(False, id="answers"),  # what needs no answer ran in the solved notebook
        pytest.param(True, id="all", marks=pytest.mark.nightly),
    ],
)
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_unsolved_notebook_runs_to_its_end_and_earns_nothing(chapter, demos, tmp_path, costs):
    result = run(NOTEBOOKS / f"{chapter}.ipynb", tmp_path, fork=chapter not in ORDINARY, demos=demos)
    if demos:
        costs(chapter, "unsolved", result.seconds, result.cpu_seconds, result.peak_mb)
    assert {name: record["status"] for name, record in result.results.items()} == dict.fromkeys(load(chapter), "todo")
    assert result.earned() == 0
    clean(result)


def test_copies_draw_ids_of_their_own(tmp_path):
    script = tmp_path / "draw.py"
    script.write_text("import ray\nfor _ in range(100): print(ray.ObjectRef.from_random().hex())\n")
    drawn = [
        subprocess.run(forked.command([sys.executable, str(script)]), check=True, stdout=subprocess.PIPE).stdout
        for _ in range(2)
    ]
    assert len(set(b"".join(drawn).split())) == 200
