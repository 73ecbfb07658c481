"""`coursekit lab` starts JupyterLab on the learner's copy of the first notebook, with no pop-up to click away."""

import json
import os
import re
import sys
import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest

from coursekit.basics.paths import ROOT
from coursekit.machine import lab
from tests.jupyterlab import get, lab_of
from tests.learners import unpacked


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The address and the log of a JupyterLab that `coursekit lab` started."""
    folder = tmp_path_factory.mktemp("home")
    log = folder / "log"
    no_environment_is_active = {"HOME": str(folder), "PATH": os.defpath}
    with lab_of(unpacked(folder), log=log, **no_environment_is_active) as address:
        yield address, log


@pytest.mark.slow
def test_the_address_it_prints_leads_to_the_first_notebook(server):
    address, log = server
    printed = re.search(r"http://localhost:\d+/lab/tree/work/ch00_start.ipynb\?token=\S+", log.read_text())
    assert printed
    with urllib.request.urlopen(printed[0], timeout=60) as answer:
        assert answer.status == 200
    assert json.loads(get(f"{address}/api/contents/work/ch00_start.ipynb?content=0"))["type"] == "notebook"


@pytest.mark.slow
def test_coursekit_is_on_the_path_of_its_terminals(server):
    address, _ = server
    get(f"{address}/api/terminals", method="POST")
    own = psutil.Process().children(recursive=True)
    shells = [child for child in own if child.terminal() and "JUPYTER_SERVER_ROOT" in child.environ()]
    paths = [shell.environ()["PATH"].split(os.pathsep)[0] for shell in shells]
    assert (paths, [shell.cmdline()[1:] for shell in shells]) == ([str(Path(sys.executable).parent)], [[]])
    assert (Path(paths[0]) / "coursekit").exists()


@pytest.mark.slow
def test_it_asks_nothing_about_news_updates_or_builds(server):
    address, _ = server
    settings = json.loads(get(f"{address}/lab/api/settings/@jupyterlab/apputils-extension:notification"))
    defaults = {name: setting["default"] for name, setting in settings["schema"]["properties"].items()}
    assert (defaults["fetchNews"], defaults["checkForUpdates"]) == ("false", False)
    page = get(f"{address}/lab")
    assert '"buildCheck": false' in page


@pytest.mark.slow
def test_pictures_beside_the_notebooks_can_be_read(server):
    address, _ = server
    picture = sorted((ROOT / "img").glob("ch*.svg"))[0]
    assert "<svg" in get(f"{address}/files/img/{picture.name}")


def test_with_arguments_of_its_own_jupyter_makes_the_token_and_says_the_address(monkeypatch):
    monkeypatch.delenv("JUPYTER_TOKEN", raising=False)
    assert "JUPYTER_TOKEN" not in lab.jupyter_environment()
    assert not [one for one in lab.jupyter_command(8890, False, ["--ip=0.0.0.0"]) if "log_level" in one]


def test_settings_of_the_user_stay_below_those_of_the_course(monkeypatch):
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "/mine")
    assert lab.jupyter_environment("t")["JUPYTER_CONFIG_PATH"].split(os.pathsep) == [str(lab.SETTINGS), "/mine"]
