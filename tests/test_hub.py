"""A room's server: what a hub starts for each learner, when it counts as idle, and the values for Zero to JupyterHub.

`deploy/jupyterhub/test.sh` tries the hub itself: it needs root.
"""

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest
import yaml

from coursekit.basics.paths import ROOT
from coursekit.machine import hub_lab
from coursekit.machine.copies import course_version
from coursekit.machine.preflight import SOCKET

# Facts from jupyterhub/values.schema.yaml of https://github.com/jupyterhub/zero-to-jupyterhub-k8s, release 4.4.0, for the keys in use.
TEXT, NUMBER, AMOUNT, FLAG = "string", ["integer", "null"], ["number", "string", "null"], ["boolean", "null"]
VOLUMES = ["object", "array", "null"]


def only(required=(), **known) -> dict:
    """Return the schema of an object that has no other keys."""
    properties = {name: kind if isinstance(kind, dict) else {"type": kind} for name, kind in known.items()}
    return {"type": "object", "additionalProperties": False, "required": list(required), "properties": properties}


STORAGE = only(
    type={"enum": ["dynamic", "static", "none"]},
    capacity=["string", "null"],
    homeMountPath=TEXT,
    extraVolumes=VOLUMES,
    extraVolumeMounts=VOLUMES,
)
SCHEMA = only(
    hub=only(
        concurrentSpawnLimit=NUMBER,
        config={
            "type": "object",
            "additionalProperties": False,
            "patternProperties": {"^[A-Z].*$": {"type": "object"}},
        },
    ),
    singleuser=only(
        image=only(["name", "tag"], name=TEXT, tag=TEXT),
        cmd=["array", "string", "null"],
        startTimeout=NUMBER,
        memory=only(limit=AMOUNT, guarantee=AMOUNT),
        cpu=only(limit=["number", "null"], guarantee=["number", "null"]),
        storage=STORAGE,
        extraEnv=["object", "array"],
        networkPolicy=only(enabled="boolean"),
    ),
    cull=only(["enabled"], enabled="boolean", timeout=NUMBER, every=NUMBER, maxAge=NUMBER),
)


@pytest.fixture
def values() -> dict:
    return yaml.safe_load((ROOT / "deploy/zero-to-jupyterhub/values.yaml").read_text())


def test_the_values_fit_the_charts_schema(values):
    jsonschema.validate(values, SCHEMA)


@pytest.mark.parametrize(("part", "name", "value"), [("cull", "maxage", 0), ("singleuser", "startTimeout", "300")])
def test_a_name_or_a_kind_that_the_chart_does_not_know_is_found(values, part, name, value):
    values[part][name] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(values, SCHEMA)


def test_the_image_is_that_of_this_version(values):
    assert values["singleuser"]["image"]["tag"] == course_version()


@pytest.fixture
def course(tmp_path):
    """Return a course with one chapter, as it lies on a machine that many share."""
    (tmp_path / "course/notebooks").mkdir(parents=True)
    (tmp_path / "course/img").mkdir()
    (tmp_path / "course/img/ch00_map.svg").write_text("<svg/>")
    shutil.copy(ROOT / "notebooks/ch00_start.ipynb", tmp_path / "course/notebooks")
    release(tmp_path / "course", "1.0.0")
    return tmp_path / "course"


def release(course, version: str) -> None:
    (course / "pyproject.toml").write_text(f'[project]\nversion = "{version}"\n')


def test_a_learners_folder_has_their_own_notebooks_and_leads_to_the_shared_rest(course, tmp_path):
    mine = tmp_path / "home/course"
    assert "Copied 1 notebook" in " ".join(hub_lab.place(mine, course))
    assert (mine / "work/ch00_start.ipynb").read_bytes() == (course / "notebooks/ch00_start.ipynb").read_bytes()
    assert (mine / "notebooks").readlink() == course / "notebooks"
    assert not (mine / "img").is_symlink()  # JupyterLab would serve no picture in it
    assert (mine / "img/ch00_map.svg").read_text() == "<svg/>"
    assert not (mine / "work").is_symlink()


def test_a_newer_course_reaches_a_learner_with_the_next_start_and_nothing_of_theirs_is_lost(course, tmp_path):
    mine = tmp_path / "home/course"
    hub_lab.place(mine, course)
    shutil.rmtree(mine / "img")
    (mine / "img").symlink_to(course / "img")  # as version 0.2 made it
    notebook = mine / "work/ch00_start.ipynb"
    notebook.write_text(notebook.read_text().replace("# Chapter 0", "# My chapter 0", 1))
    release(course, "1.1.0")
    shutil.copy(ROOT / "notebooks/ch01_tasks.ipynb", course / "notebooks")
    assert "From version 1.0.0 to 1.1.0" in " ".join(hub_lab.place(mine, course))
    assert (mine / "work/ch01_tasks.ipynb").exists()
    assert not (mine / "img").is_symlink()
    assert any("# My chapter 0" in path.read_text() for path in (mine / "work").glob("ch00_start*.ipynb"))


def test_rays_folder_is_short_enough_for_its_sockets(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 2**32 - 2)
    assert len(f"/var/tmp/{Path(hub_lab.ray_folder(tmp_path)).name}{SOCKET}") <= 107


def test_rays_folder_is_the_learners_alone_and_new_each_time(tmp_path):
    first = hub_lab.ray_folder(tmp_path)
    assert os.stat(first).st_mode & 0o777 == 0o700
    second = hub_lab.ray_folder(tmp_path)
    assert [str(path) for path in tmp_path.iterdir()] == [second] != [first]


def test_a_busy_kernel_is_activity_and_an_idle_one_is_not():
    activity = hub_lab.Activity(list)
    assert activity.busy(["idle", "busy"], 60)
    assert not activity.busy(["idle", "starting"], 60)


@dataclass
class Process:
    title: str
    seconds: float
    pid: int = 7

    def cmdline(self) -> list[str]:
        return [f"{self.title}     "]

    def create_time(self) -> float:
        return 1.0

    def cpu_times(self):
        return SimpleNamespace(user=self.seconds, system=0.0)


@pytest.mark.parametrize(
    ("title", "seconds", "busy"),
    [
        ("ray::train", 30, True),
        ("ray::Learner.update", 5, True),
        ("ray::Learner", 0.5, False),  # an actor that waits for calls
        ("ray::DashboardAgent", 30, False),
        ("python", 30, False),
    ],
)
def test_a_worker_of_ray_that_computes_is_activity_though_no_cell_runs(title, seconds, busy):
    process = Process(title, 100)
    activity = hub_lab.Activity(lambda: [process])
    assert not activity.busy([], 60)
    process.seconds += seconds
    assert activity.busy([], 60) == busy
    assert not activity.busy([], 60)


def test_the_board_asks_for_what_lies_beside_it_so_that_a_hub_can_serve_it_anywhere():
    page = (ROOT / "coursekit/static/room/board.html").read_text()
    assert (
        re.findall(r'(?:fetch\(|EventSource\()[^;]*?["`]/[a-z]+["?`]', page.replace('endsWith("/projector")', "")) == []
    )
