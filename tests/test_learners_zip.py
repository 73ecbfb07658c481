"""The learners' zip holds what is for learners, with git and without; where git should know and does not, nothing is written."""

import re
import subprocess
import zipfile
from pathlib import Path

import pytest

from coursekit.basics import course_files
from coursekit.basics.errors import CommandError
from coursekit.basics.paths import ROOT
from coursekit.grading.desk import release

FILES = [
    "README.md",
    "coursekit/learner/checks.py",
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
    assert "run the same command again" in str(error.value)
    assert list((project / "course of the next term").iterdir()) == []


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no git checkout")
def test_every_folder_of_the_project_is_for_learners_or_for_instructors():
    tops = {name.partition("/")[0] for name in release._tracked() if name}
    assert tops - course_files.IN_ZIP == {
        ".ci",
        ".gitattributes",
        ".github",
        ".pre-commit-config.yaml",
        "CITATION.cff",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "benchmarks",
        "chapters",
        "deploy",
        "site",
        "solutions",
        "tests",
    }
    assert tops >= course_files.IN_ZIP


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> zipfile.ZipFile:
    return zipfile.ZipFile(release.write_zip(tmp_path_factory.mktemp("zip") / "learners.zip"))


def test_the_zips_readme_promises_only_what_is_in_the_zip(archive):
    names = {name.removeprefix("ray-rl-course/") for name in archive.namelist()}
    readme, makefile = (archive.read(f"ray-rl-course/{name}").decode() for name in ("README.md", "Makefile"))
    readme = re.sub("<!--.*?-->", "", readme)
    linked = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", readme) if "://" not in link]
    assert len(linked) > 20
    assert [link for link in linked if link not in names] == []
    folders = {name.rpartition("/")[0] + "/" for name in names} | {"work/"}  # which `make lab` fills
    assert [folder for folder in re.findall(r"`([\w.]+/)`", readme) if folder not in folders] == []
    assert "solution" not in readme
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    assert targets == {"help", "setup", "lab", "update", "doctor", "progress", "review", "clean"}
    assert set(re.findall(r"make ([a-z]+)", readme)) <= targets


def test_what_the_zip_leaves_out_of_a_file_stands_between_two_marks():
    for name in ("README.md", "Makefile"):
        text = (ROOT / name).read_text()
        assert text.count("zip: begin") == text.count("zip: end") > 0
        assert b"learners' zip" not in course_files.for_learners(ROOT, name)


def test_a_class_gets_its_settings_to_fill_in_and_keeps_those_that_are_there(tmp_path, monkeypatch):
    monkeypatch.setattr(release, "chapter_names", lambda: [])
    release.release(tmp_path / "new")
    assert "quizzes = false" in (tmp_path / "new/class.toml").read_text()
    (tmp_path / "planned").mkdir()
    (tmp_path / "planned/class.toml").write_text("quizzes = true")
    (tmp_path / "planned/roster.csv").write_text("id\nada\n")
    release.release(tmp_path / "planned")
    assert (tmp_path / "planned/class.toml").read_text() == "quizzes = true"


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no git checkout")
def test_a_checkout_on_windows_keeps_the_line_ends(tmp_path):
    command = ["git", "-c", "core.autocrlf=true", "checkout-index", "--all", f"--prefix={tmp_path}/"]
    subprocess.run(command, cwd=ROOT, check=True)
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert tmp_path / "scripts/setup.sh" in files
    assert [path for path, content in files.items() if b"\r\n" in content and b"\0" not in content] == []
