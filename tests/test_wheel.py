"""The wheel: whoever has it and uv starts the course in an empty folder, without a checkout, git or make, and works there."""

import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import nbformat
import psutil
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from coursekit import cli
from coursekit.basics import versions
from coursekit.basics.course_files import IN_WHEEL, IN_ZIP, found
from coursekit.basics.errors import CommandError
from coursekit.basics.paths import ROOT
from coursekit.grading.desk import release
from coursekit.grading.desk.pack import _cpu_build
from coursekit.judging.result import MIME
from coursekit.machine import learners_folder
from coursekit.machine.copies import course_version
from coursekit.sandbox.nursery import available
from tests.jupyterlab import answers, get
from tests.waiting import until

UV = ["bash", str(ROOT / "scripts/uv.sh"), sys.executable]
TOOLS = ("bash", "dirname", "head", "realpath", "sed", "tr")  # of scripts/uv.sh, and of the commands that uv installs
KEPT = re.compile(r"HOME|LANG|TMPDIR|SSL_.*|PIP_.*|UV_.*|.*_proxy", re.IGNORECASE)
CHAPTER = "work/ch00_start.ipynb"
LOOKS_INTO_THE_PACKAGE = """
import sys
from coursekit.basics.paths import CARRIED, PACKAGE
from coursekit.judging.answer import Answer
from coursekit.sandbox.limits import Limits
from coursekit.sandbox.nursery import Nursery

names = f"sorted(name for folder in {(str(CARRIED), sys.argv[1])} for _, folders, files in os.walk(folder) for name in files)"
with Nursery(Limits(), imports="plain") as nursery, nursery.sandbox() as sandbox:
    sandbox.run(f"import os; found = {names}, os.path.exists({str(PACKAGE / 'given')!r})")
    print(Answer("found", lambda request: sandbox.ask("found", request), sandbox.evidence).value())
"""


@dataclass(frozen=True)
class Learner:
    """Somebody who has started the course: where, the Python that runs it, its log, and JupyterLab's address."""

    folder: Path
    python: str
    log: str
    address: str
    environment: dict[str, str]

    def runs(self, *command: str, within: str = "") -> str:
        """Return what a command prints that came with the wheel."""
        program = Path(self.python).with_name(command[0])
        return subprocess.check_output(
            [program, *command[1:]], cwd=self.folder / within, env=self.environment, text=True
        )

    def run_notebook(self) -> NotebookNode:
        """Return chapter 0 as it lies in work/, run from its first cell to its last."""
        self.runs("jupyter-execute", "--inplace", "--timeout=600", CHAPTER, within="ray-rl-course")
        return nbformat.read(self.folder / "ray-rl-course" / CHAPTER, as_version=4)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Return the wheel, built from a copy of the checkout: what a build leaves behind stays there."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in found(ROOT, IN_ZIP | set(IN_WHEEL)):
        (folder / "checkout" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / "checkout" / name)
    build = ["build", "--quiet", "--wheel", "--python", sys.executable, "--out-dir", str(folder)]
    subprocess.run([*UV, *build, str(folder / "checkout")], check=True)
    (built,) = folder.glob("*.whl")
    return built


@contextmanager
def started(wheel: Path, folder: Path, seconds: float, **more: str) -> Iterator[Learner]:
    """Yield a learner whose command has started JupyterLab in an empty folder; on their path are uv and a shell, and no more."""
    path = folder / "bin"
    path.mkdir()
    for tool in (*TOOLS, *filter(shutil.which, ["uv"])):
        (path / tool).symlink_to(shutil.which(tool) or "")
    environment = {name: value for name, value in os.environ.items() if KEPT.fullmatch(name)}
    cache = subprocess.check_output([*UV, "cache", "dir"], text=True).strip()
    environment |= {"PATH": str(path), "UV_CACHE_DIR": cache, "COURSEKIT_HOME": str(folder / "home")} | more
    environment |= {"COURSEKIT_QUICK": "1", "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces")}
    command = ["tool", "run", "--python", sys.executable, *_cpu_build(sys.platform, "--torch-backend", "auto")]
    log, empty = folder / "log", folder / "empty"
    empty.mkdir()
    with log.open("w") as file:
        command = [*UV, *command, "--from", f"{wheel}[tested]", "ray-rl-course"]
        process = subprocess.Popen(command, cwd=empty, env=environment, stdout=file, stderr=subprocess.STDOUT)
    try:
        until(lambda: process.poll() is not None or "JupyterLab starts at" in log.read_text(), seconds)
        address = re.search(r"(http://localhost:\d+)/lab/tree/work/ch00_start.ipynb\?token=(\w+)", log.read_text())
        assert address, log.read_text()
        until(lambda: process.poll() is not None or answers(f"{address[1]}/api"), 300)
        (server,) = (each for each in children_of(process) if "jupyterlab" in each.cmdline())
        yield Learner(empty, server.cmdline()[0], log.read_text(), address[0], environment)
    finally:
        for each in [*children_of(process), process]:
            each.terminate()
        process.wait(60)


def children_of(process: subprocess.Popen) -> list[psutil.Process]:
    running = process.poll() is None
    return psutil.Process(process.pid).children(recursive=True) if running else []


@pytest.fixture(scope="module")
def learner(wheel, tmp_path_factory) -> Iterator[Learner]:
    with started(wheel, tmp_path_factory.mktemp("learner"), 600) as learner:
        yield learner


def results(notebook: NotebookNode) -> list[dict]:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return [output.data[MIME] for output in outputs if MIME in output.get("data", {})]


@pytest.mark.slow
def test_the_wheel_carries_the_course_and_no_more_than_it_is_meant_to(learner):
    carried = Path(learner.runs("python", "-c", "from coursekit.basics import paths; print(paths.ROOT)").strip())
    assert {path.name for path in carried.iterdir()} == set(IN_WHEEL)
    for folder in ("notebooks", "solutions"):
        names = [path.name for path in sorted((ROOT / folder).glob("*.ipynb"))]
        assert [path.name for path in sorted((carried / folder).iterdir())] == names
    assert "CONTRIBUTING.md" not in (carried / "README.md").read_text()


@pytest.mark.slow
def test_jupyterlab_answers_with_the_first_notebook_and_its_pictures(learner):
    with urllib.request.urlopen(learner.address, timeout=60) as page:
        assert page.status == 200
    server, token = re.match(r"(.+)/lab/.*token=(.+)", learner.address).groups()
    assert "<svg" in get(f"{server}/files/img/learners_map.svg", token=token)
    assert (learner.folder / "ray-rl-course/work/ch26_language_models.ipynb").exists()
    assert "are not in the versions that the course was tested with" not in learner.log


@pytest.mark.slow
def test_chapter_0_runs_unsolved_and_earns_nothing(learner):
    found = results(learner.run_notebook())
    assert {result["status"] for result in found} == {"todo"}
    assert len(found) == 2


@pytest.mark.slow
def test_chapter_0_runs_solved_its_checks_pass_and_the_solution_opens(learner):
    solved = nbformat.read(ROOT / "solutions/ch00_start.ipynb", as_version=4)
    solved.cells.append(new_code_cell('print(solution("best_seconds"))'))
    nbformat.write(solved, learner.folder / "ray-rl-course" / CHAPTER)
    ran = learner.run_notebook()
    assert [result["status"] for result in results(ran)] == ["passed", "passed"]
    assert "def best_seconds(" in ran.cells[-1].outputs[0].text
    points = sum(result["earned"] for result in results(ran))
    assert re.search(rf"In all: {points:g} of \d+ points", learner.runs("ray-rl-course", "progress"))


@pytest.mark.slow
def test_update_works_in_the_folder_and_around_it(learner):
    original = learner.folder / "ray-rl-course/work/.course/ch01_tasks.ipynb"
    original.write_text(original.read_text().replace(f'"version": "{course_version()}"', '"version": "0.1.0"'))
    assert f"From version 0.1.0 to {course_version()}" in learner.runs("ray-rl-course", "update")
    for within in ("ray-rl-course", "ray-rl-course/work"):
        assert "nothing to do" in learner.runs("ray-rl-course", "update", within=within)
    assert not (learner.folder / "ray-rl-course/ray-rl-course").exists()


@pytest.mark.slow
@pytest.mark.skipif(bool(available()), reason=available())
def test_a_submission_sees_nothing_of_the_course_in_the_package(learner):
    assert learner.runs("python", "-c", LOOKS_INTO_THE_PACKAGE, str(learner.folder)) == "([], True)\n"


@pytest.mark.slow
@pytest.mark.nightly
def test_with_an_empty_cache_the_course_starts(wheel, tmp_path):
    with started(wheel, tmp_path, 3600, UV_CACHE_DIR=str(tmp_path / "cache")) as learner:
        assert (learner.folder / "ray-rl-course" / CHAPTER).exists()
    shutil.rmtree(tmp_path / "cache")


@pytest.fixture
def from_wheel(tmp_path, monkeypatch) -> Path:
    """Return the folder in which somebody types commands of a course that came in a wheel."""
    monkeypatch.setattr(learners_folder, "FROM_WHEEL", True)
    monkeypatch.setattr(versions, "FROM_WHEEL", True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_learners_folder_is_made_where_the_command_is_called_and_found_again_from_inside(from_wheel, monkeypatch):
    folder = from_wheel / "ray-rl-course"
    assert learners_folder.learners_folder() == folder
    (folder / "work/.course").mkdir(parents=True)
    for inside in (folder, folder / "work"):
        monkeypatch.chdir(inside)
        assert learners_folder.learners_folder() == folder


def test_on_a_hub_the_learners_folder_is_the_one_that_leads_to_the_shared_course(monkeypatch, tmp_path):
    folder = learners_folder.link_to_course(tmp_path / "course")
    (folder / "work/.course").mkdir(parents=True)
    for inside in (folder, folder / "work"):
        monkeypatch.chdir(inside)
        assert learners_folder.learners_folder() == folder


def test_in_a_checkout_the_learners_folder_is_the_checkout_and_gets_no_links(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert learners_folder.learners_folder() == ROOT
    assert learners_folder.link_to_course(ROOT) == ROOT


def test_other_versions_than_the_tested_ones_are_said_with_the_command_that_brings_those(from_wheel, monkeypatch):
    lines = [
        "numpy<3,>=2.2",
        'ray==2.60.0; extra == "tested"',
        'torch==2.13.0; extra == "tested"',
        'absent==1; extra == "tested"',
        'pytest>=9; extra == "dev"',
        'numpy==1.0; sys_platform == "win32" and extra == "tested"',
    ]
    here = {"ray": "2.60.1", "torch": "2.13.0+cpu", "pytest": "8.0"}
    monkeypatch.setattr(versions.metadata, "requires", lambda name: lines)
    monkeypatch.setattr(versions, "installed", lambda name: here.get(name, ""))
    said = versions.others_than_tested()
    assert "tested with: ray 2.60.1 (tested: 2.60.0). " in said
    assert '[tested]" ray-rl-course' in said
    here["ray"] = "2.60.0"
    assert versions.others_than_tested() == ""


def test_without_a_wheel_nothing_is_said_of_versions():
    assert versions.others_than_tested() == ""


def test_the_command_without_arguments_opens_the_course(monkeypatch):
    called = []
    monkeypatch.setattr(cli, "app", lambda **call: called.append(call["args"]))
    for typed in ([], ["update"]):
        monkeypatch.setattr(sys, "argv", ["ray-rl-course", *typed])
        cli.front_door()
    assert called == [["lab"], ["update"]]


def test_the_zip_of_learners_is_not_packed_from_a_wheel(monkeypatch, tmp_path):
    monkeypatch.setattr(release, "FROM_WHEEL", True)
    with pytest.raises(CommandError, match="Clone the course"):
        release.write_zip(tmp_path / "learners.zip")
