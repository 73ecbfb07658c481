"""The benchmarks, which nobody runs every day, still run and print their figures: each at a size that takes seconds."""

import os
import re
import subprocess
import sys

import pytest

from benchmarks import __main__ as benchmarks
from coursekit.basics.paths import ROOT

SMALL = {
    "cartpole": (["--seeds", "1", "--target", "30"], r"ours, 2 samplers: [\d.]+ s; .*RLlib's settings: [\d.]+ s"),
    "grading": (["plain", "--students", "2"], r"\d+ s, nbgrader autograde \d+ s"),
    "room": (["3", "--seconds", "6"], r"p50 [\d.]+ s, p95 [\d.]+ s, lost 0"),
    "seeds": (["ch09_dqn", "train", "--trials", "1"], r"1 of 1 trials, 1 of \d seeds"),
    "setup": (["--site"], r"with uv \d+ s, with pip \d+ s"),
    "suite": (["help"], r"\d+ s"),
}
LONG = ("cartpole", "setup")  # more than a minute of two cores
TABLE = """Above
<!-- begin benchmarks by hand -->

| what | figure | command | machine | date |
|---|---|---|---|---|
| grade one | 9 s | `grading.py growth` | here | then |
| grade two | 8 s | `grading.py growth` | here | then |
| open | 7 s | `setup.py` | here | then |

<!-- end benchmarks -->
Below
"""


def test_every_benchmark_has_a_small_size():
    files = {path.stem for path in (ROOT / "benchmarks").glob("[!_]*.py")}
    assert files == set(SMALL) == {command.partition(".")[0] for command in benchmarks.COMMANDS}


def test_the_rows_of_a_command_replace_its_own_and_take_its_place():
    row = "| grade three | 5 s | `grading.py growth` | there | now |"
    page = benchmarks.with_rows(TABLE, "grading.py growth", [row])
    old = [line for line in TABLE.splitlines() if "grading.py" in line]
    assert page == TABLE.replace("\n".join(old), row)
    first = row.replace("grading.py growth", "cartpole.py")
    assert benchmarks.with_rows(page, "cartpole.py", [first]) == page.replace(row, f"{first}\n{row}")


def test_an_empty_table_takes_a_row():
    row = "| open | 7 s | `setup.py` | here | then |"
    empty = re.sub(r"\| (grade|open) .*\n", "", TABLE)
    assert benchmarks.with_rows(empty, "setup.py", [row]) == empty.replace("---|\n", f"---|\n{row}\n")


def test_a_figure_that_is_printed_becomes_a_row_with_command_machine_and_date(monkeypatch):
    monkeypatch.setattr(benchmarks, "machine", lambda: "2 cores")
    (row,) = benchmarks.measured("suite.py help")
    said = r"\| run `make help` \| \d+ s \| `suite\.py help` \| 2 cores \| 20\d\d-\d\d-\d\d \|"
    assert re.fullmatch(said, row)


def test_a_benchmark_that_fails_or_is_unknown_writes_nothing():
    with pytest.raises(SystemExit, match=r"`python benchmarks/suite.py no-such-target` gave no figure"):
        benchmarks.measured("suite.py no-such-target")
    with pytest.raises(SystemExit, match="There is no benchmark 'grades'. Choose from cartpole, grading,"):
        benchmarks.main(["grades"])


def test_every_row_of_the_page_is_of_a_command_that_still_runs():
    page = benchmarks.PAGE.read_text(encoding="utf-8")
    rows = benchmarks.MARKED.search(page)[2].strip().splitlines()
    assert rows
    assert [row for row in rows if benchmarks.command_of(row) not in benchmarks.COMMANDS] == []
    assert rows == sorted(rows, key=benchmarks.place)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.nightly) if name in LONG else name for name in SMALL]
)
def test_a_benchmark_prints_its_figures(name):
    arguments, figure = SMALL[name]
    command = [sys.executable, f"benchmarks/{name}.py", *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-2000:]
    assert re.search(rf"^\| .+ \| {figure}.* \|$", done.stdout, re.MULTILINE), done.stdout
