"""The learners' zip holds what is for learners, with git and without; where git should know and does not, nothing is written."""

import subprocess
import zipfile
from pathlib import Path

import pytest

from coursekit.course import CommandError
from coursekit.grading import release
from coursekit.paths import ROOT

FILES = [
    "README.md",
    "coursekit/checking.py",
    "notebooks/ch00_start.ipynb",
    ".devcontainer/devcontainer.json",
    "coursekit/__pycache__/check.pyc",
    "notebooks/.ipynb_checkpoints/ch00_start.ipynb",
    "solutions/ch00_start.ipynb",
    "tests/answers/ch00_start.py",
    ".git/config",
    ".venv/bin/python",
    "course/source/ch00_start/ch00_start.ipynb",
    "work/ch00_start.ipynb",
    "work/.course/ch00_start.ipynb",
    "gradebook.db",
]
FOR_LEARNERS = {f"ray-rl-course/{name}" for name in FILES[:4]}


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """Return a project that is no git checkout, in which a course was released and graded."""
    for name in FILES:
        if not name.startswith(".git/"):
            (tmp_path / "project" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "project" / name).write_text(name)
    monkeypatch.setattr(release, "ROOT", tmp_path / "project")
    return tmp_path / "project"


def zipped(path: Path) -> set[str]:
    return set(zipfile.ZipFile(release.write_zip(path)).namelist())


def test_without_git_only_what_is_for_learners_goes_in(project, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert zipped(project / "course/learners.zip") == FOR_LEARNERS


def test_with_git_only_what_git_knows_goes_in(project):
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    subprocess.run(["git", "add", *FILES[:3], "solutions"], cwd=project, check=True)
    assert zipped(project / "learners.zip") == FOR_LEARNERS - {"ray-rl-course/.devcontainer/devcontainer.json"}


@pytest.mark.parametrize("reason", ["not a git repository", "git cannot be started", "it knows no file there"])
def test_where_git_should_know_and_does_not_the_reason_is_said(project, monkeypatch, reason):
    (project / ".git").mkdir()
    if reason == "it knows no file there":
        subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    if reason == "git cannot be started":
        monkeypatch.setenv("PATH", "")
    with pytest.raises(CommandError) as error:
        release.release(project / "course of the next term")
    assert reason in str(error.value)
    assert "the same command again" in str(error.value)
    assert list((project / "course of the next term").iterdir()) == []


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no git checkout")
def test_every_folder_of_the_project_is_for_learners_or_for_instructors():
    tops = {name.partition("/")[0] for name in release._tracked() if name}
    assert tops - release.FOR_LEARNERS == {".ci", "benchmarks", "chapters", "solutions", "tests"}
    assert tops >= release.FOR_LEARNERS
