"""The benchmarks, which nobody runs every day, still start."""

import subprocess
import sys

import pytest

from coursekit.basics.paths import ROOT

BENCHMARKS = sorted((ROOT / "benchmarks").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_benchmark_says_how_it_is_used(path):
    done = subprocess.run([sys.executable, path, "--help"], capture_output=True, text=True, timeout=170)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: {path.name}")
