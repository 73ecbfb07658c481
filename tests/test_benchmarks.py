"""The benchmarks, which nobody runs every day, still run and print their figures: each at a size that takes seconds."""

import os
import re
import subprocess
import sys

import pytest

from coursekit.basics.paths import ROOT

SMALL = {
    "cartpole": (["--seeds", "1", "--target", "30"], r"^RLlib's settings +\d+ +\d+ +[\d.]+ +1 of 1"),
    "grading": (["plain", "--students", "2"], r"^ +[\d.]+ times coursekit grade, CPU +[\d.]+ times"),
    "room": (["3", "--seconds", "6"], r"^p50 [\d.]+ s p95 [\d.]+ s, lost 0$"),
    "seeds": (["ch09_dqn", "train", "--trials", "1"], r"^passed: 1 of 1 trials"),
    "setup": (["--site"], r"^uv takes [\d.]+ of pip's time$"),
}
LONG = ("cartpole", "setup")  # more than a minute of two cores


def test_every_benchmark_has_a_small_size():
    assert {path.stem for path in (ROOT / "benchmarks").glob("*.py")} == set(SMALL)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.nightly) if name in LONG else name for name in SMALL]
)
def test_a_benchmark_prints_its_figures(name):
    arguments, figures = SMALL[name]
    command = [sys.executable, f"benchmarks/{name}.py", *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-2000:]
    assert re.search(figures, done.stdout, re.MULTILINE), done.stdout
