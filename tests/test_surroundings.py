"""When a chapter begins, the learner hears of another notebook's Ray, of the course's own copy, and of another kernel."""

import shutil
import subprocess
import sys

import psutil
import pytest

from coursekit.basics.paths import NOTEBOOKS
from coursekit.learner import surroundings
from tests.waiting import until


@pytest.fixture
def alone(monkeypatch, tmp_path):
    """Take away what this machine happens to have: other Rays, and an environment beside the course."""
    monkeypatch.setattr(surroundings, "other_rays", dict)
    monkeypatch.setattr(surroundings, "ROOT", tmp_path)


def test_in_a_copy_of_ones_own_and_alone_there_is_nothing_to_say(alone):
    assert list(surroundings.warnings("ch01_tasks")) == []


def test_another_notebooks_ray_is_named_with_its_memory(alone, monkeypatch):
    monkeypatch.setattr(surroundings, "other_rays", lambda: {"ch03_actors.ipynb": 1.44})
    (line,) = surroundings.warnings("ch01_tasks")
    assert "ch03_actors.ipynb (1.4 GB of memory)" in line


def test_many_rays_are_counted_and_not_named(alone, monkeypatch):
    monkeypatch.setattr(surroundings, "other_rays", lambda: {f"process {pid}": 2.5 for pid in range(6)})
    (line,) = surroundings.warnings("ch01_tasks")
    assert "started by 6 other programs (15 GB of memory in all), and the cores" in line


def test_the_notebook_that_started_a_ray_is_found(tmp_path, monkeypatch):
    """The raylet is a program of that name; the notebook is in the environment of what started it."""
    shutil.copy(shutil.which("sleep"), tmp_path / "raylet")
    code = f"import subprocess; subprocess.run(['{tmp_path}/raylet', '600'])"
    starter = subprocess.Popen(
        [sys.executable, "-c", code], env={"JPY_SESSION_NAME": "/home/ada/work/ch03_actors.ipynb"}
    )
    try:
        until(lambda: "ch03_actors.ipynb" in surroundings.other_rays(), 60)
        assert 0 < surroundings.other_rays()["ch03_actors.ipynb"] < 1
    finally:
        for process in psutil.Process(starter.pid).children():
            process.kill()
        starter.wait(60)


def test_the_courses_own_copy_is_not_the_place_to_work_in(alone, monkeypatch):
    monkeypatch.chdir(NOTEBOOKS)
    (line,) = surroundings.warnings("ch01_tasks")
    assert "Work in work/ch01_tasks.ipynb" in line


def test_a_kernel_that_is_not_the_courses_is_named(alone, tmp_path):
    (tmp_path / ".venv").mkdir()
    (line,) = surroundings.warnings("ch01_tasks")
    assert line.startswith(f"This kernel is {sys.executable}, not the course's in {tmp_path / '.venv'}")
