"""A chapter is added in three steps: what `make chapter` writes passes every test as it is."""

import os
import shutil
import subprocess
import sys

import pytest

from coursekit.basics.paths import ROOT

pytestmark = pytest.mark.slow
LEFT_OUT = shutil.ignore_patterns(".git", ".venv*", ".pytest_cache", ".ruff_cache", "__pycache__", "build")
CHOSEN = "ch98_sample or not (slow or ch0 or ch1 or ch2)"  # what concerns another chapter alone is tested outside
OF_CHAPTERS = """
    answers build forged isolation lab learners_zip listings message_ids messages natural_types notebooks old_names payload
    release run_sheets site slides update
"""  # and what looks at no chapter, too
TESTS = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not nightly", "-k", CHOSEN]
TESTS += ["tests/rules"] + [f"tests/test_{name}.py" for name in OF_CHAPTERS.split()]


def test_a_new_chapter_passes_every_test_untouched(tmp_path):
    """What `make test` runs, in a copy of the course that has one chapter more."""
    course = shutil.copytree(ROOT, tmp_path / "course", ignore=LEFT_OUT)

    def python(*arguments: str) -> None:
        env = os.environ | {"PYTHONPATH": str(course)}
        run = subprocess.run([sys.executable, *arguments], cwd=course, env=env, capture_output=True, text=True)
        assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]

    python("-m", "coursekit.cli", "chapter", "ch98_sample")
    python("-m", "coursekit.cli", "build")
    python("-m", "ruff", "check", ".")
    python("-m", "ruff", "format", "--check", ".")
    python("-m", "mypy")
    python(*TESTS)
