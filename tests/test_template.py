"""A chapter is added in three steps: what `make chapter` writes passes every test as it is."""

import os
import shutil
import subprocess
import sys

import pytest

from coursekit.paths import ROOT

pytestmark = pytest.mark.slow
PARTS = ["chapters", "coursekit", "tests", "img", "pyproject.toml", "README.md", "docs"]


def test_a_new_chapter_passes_every_test_untouched(tmp_path):
    ignore = shutil.ignore_patterns("ch*", "__pycache__")
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, tmp_path / part, ignore=ignore if part in ("chapters", "img") else None)
        else:
            shutil.copy(ROOT / part, tmp_path / part)
    for folder in ("coursekit/exercises", "coursekit/given", "tests/answers"):
        for path in (tmp_path / folder).glob("ch*.py"):
            path.unlink()

    def python(*arguments: str) -> str:
        env = os.environ | {"PYTHONPATH": str(tmp_path)}
        run = subprocess.run([sys.executable, *arguments], cwd=tmp_path, env=env, capture_output=True, text=True)
        assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
        return run.stdout

    python("-m", "coursekit.cli", "chapter", "ch98_sample")
    python("-m", "coursekit.cli", "build")
    python("-m", "ruff", "check", *(str(path) for path in tmp_path.rglob("ch98_sample.py")))
    python("-m", "ruff", "format", "--check", *(str(path) for path in tmp_path.rglob("ch98_sample.py")))
    files = ["test_notebooks.py", "test_answers.py", "test_isolation.py", "test_contract.py"]
    summary = python(
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *(f"tests/{name}" for name in files),
        "-k",
        "ch98_sample",
    )
    assert "passed" in summary
