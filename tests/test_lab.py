"""`coursekit lab` starts JupyterLab on the learner's copy of the first notebook, with no pop-up to click away."""

import getpass
import io
import json
import os
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest

from coursekit.basics.paths import ROOT
from coursekit.given.ports import free_ports
from coursekit.machine import lab
from coursekit.machine.facts import Facts
from tests.jupyterlab import TOKEN, get, lab_of
from tests.learners import unpacked


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The address and the log of a JupyterLab that `coursekit lab` started."""
    folder = tmp_path_factory.mktemp("home")
    log = folder / "log"
    with lab_of(unpacked(folder), "--no-browser", "--ip=127.0.0.1", log=log, **alone(folder)) as address:
        yield address, log


def alone(folder: Path) -> dict[str, str]:
    """Return what a learner's environment has of its own; no virtual environment is active."""
    return {"HOME": str(folder), "PATH": os.defpath, "JUPYTER_RUNTIME_DIR": str(folder / "runtime")}


@pytest.mark.slow
def test_the_address_it_prints_leads_to_the_first_notebook(server):
    address, log = server
    printed = re.search(r"http://localhost:\d+/lab/tree/work/ch00_start.ipynb\?token=\S+", log.read_text())
    assert printed
    with urllib.request.urlopen(printed[0], timeout=60) as answer:
        assert answer.status == 200
    assert json.loads(get(f"{address}/api/contents/work/ch00_start.ipynb?content=0"))["type"] == "notebook"


@pytest.mark.slow
def test_a_second_one_on_the_same_folder_leads_to_the_first(server):
    address, log = server
    folder = log.parent
    course = folder / "ray-rl-course"
    command = [sys.executable, "-m", "coursekit.cli", "lab", "--no-browser"]
    environment = os.environ | {"PYTHONPATH": str(course)} | alone(folder)
    second = subprocess.run(
        command, cwd=course, env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    there = f"JupyterLab is already running at  {address}/lab/tree/work/ch00_start.ipynb?token={TOKEN}\n"
    assert there in second.stdout
    assert "To stop it, choose File > Shut Down in JupyterLab" in second.stdout
    [page] = (folder / "runtime").glob("jpserver-*-open.html")
    assert f"{address.removeprefix('http://localhost')}/lab/tree/work/ch00_start.ipynb?token={TOKEN}" in page.read_text(
        encoding="utf-8"
    )


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
def test_what_was_typed_is_saved_every_few_seconds(server):
    address, _ = server
    settings = json.loads(get(f"{address}/lab/api/settings/@jupyterlab/docmanager-extension:plugin"))
    defaults = {name: setting.get("default") for name, setting in settings["schema"]["properties"].items()}
    assert (defaults["autosave"], defaults["autosaveInterval"]) == (True, 3)


@pytest.mark.slow
def test_pictures_beside_the_notebooks_can_be_read(server):
    address, _ = server
    picture = sorted((ROOT / "img").glob("ch*.svg"))[0]
    assert "<svg" in get(f"{address}/files/img/{picture.name}")


@pytest.mark.parametrize(
    ("port", "extra", "opened", "started"),
    [
        (None, [], 1, 0),
        (None, ["--no-browser"], 0, 0),
        (8890, [], 0, 1),
        (None, ["--ip=0.0.0.0"], 0, 1),
    ],
)
def test_the_one_that_runs_is_opened_unless_another_port_or_setting_is_asked_for(
    monkeypatch, tmp_path, port, extra, opened, started
):
    pages, commands = [], []
    found = lab.Running("http://localhost:8888/", "t", tmp_path / "page.html")
    monkeypatch.setattr(lab, "running", lambda folder: found)
    monkeypatch.setattr(lab, "why_no_browser", lambda facts: "")
    monkeypatch.setattr(lab, "choose_port", lambda wanted: wanted or 8889)
    monkeypatch.setattr(lab.webbrowser, "open", pages.append)
    monkeypatch.setattr(lab.os, "execve", lambda *command: commands.append(command))
    lab.start(Facts(), port, extra)
    assert (pages, len(commands)) == ([found.page.as_uri()] * opened, started)


@pytest.mark.parametrize("root", ["here", "elsewhere"])
def test_one_on_another_folder_or_one_that_does_not_answer_is_not_taken_for_it(monkeypatch, tmp_path, root):
    (port,) = free_ports(1)
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    server = {"pid": os.getpid(), "port": port, "base_url": "/", "token": "t", "root_dir": str(tmp_path / root)}
    (tmp_path / f"jpserver-{os.getpid()}.json").write_text(json.dumps(server), encoding="utf-8")
    assert lab.running(tmp_path / "here") is None
    monkeypatch.setattr(lab.urllib.request, "urlopen", lambda address, timeout: io.BytesIO())
    assert bool(lab.running(tmp_path / "here")) == (root == "here")


@pytest.mark.parametrize("content", [b"", b"\xff", b"[1]", b"{}", b'{"pid": "1"}', None], ids=repr)
def test_a_record_that_cannot_be_read_hides_no_other(monkeypatch, tmp_path, content):
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(lab.urllib.request, "urlopen", lambda address, timeout: io.BytesIO())
    server = {"pid": os.getpid(), "port": 8888, "base_url": "/", "token": "t", "root_dir": str(tmp_path)}
    for name in ("jpserver-0.json", "jpserver-~.json"):  # before and after it, in any order of the alphabet
        if content is None:
            (tmp_path / name).mkdir()
        else:
            (tmp_path / name).write_bytes(content)
    (tmp_path / "jpserver-5.json").write_text(json.dumps(server), encoding="utf-8")
    found = lab.running(tmp_path)
    assert found == ("http://localhost:8888/", "t", tmp_path / "jpserver-5-open.html")


@pytest.mark.parametrize("extra", [["--port", "8899"], ["--port=8899"], ["--ServerApp.port=8899"]])
def test_a_setting_of_the_learners_replaces_the_courses_however_it_is_spelled(extra):
    command = lab.jupyter_command(8890, Facts(), extra)
    assert [argument for argument in command if "port=" in argument] == [each for each in extra if "port=" in each]
    assert command[-len(extra) :] == extra


@pytest.mark.parametrize(
    ("extra", "speaks"), [(["--ip=0.0.0.0", "--no-browser"], False), (["--certfile=mine.pem"], True)]
)
def test_where_only_jupyter_knows_the_address_it_makes_the_token_and_says_it(monkeypatch, extra, speaks):
    monkeypatch.delenv("JUPYTER_TOKEN", raising=False)
    assert "JUPYTER_TOKEN" not in lab.jupyter_environment()
    assert speaks == (not [one for one in lab.jupyter_command(8890, Facts(), extra) if "log_level" in one])


@pytest.mark.parametrize(
    ("facts", "ssh", "told"),
    [
        (Facts(container="Docker"), "", "docker run -p 127.0.0.1:8890:8890"),
        (Facts(container="Podman"), "", "podman run -p 127.0.0.1:8890:8890"),
        (Facts(container="Kubernetes"), "", f"kubectl port-forward {socket.gethostname()} 8890:8890"),
        (Facts(), "10.0.0.1 50000 10.0.0.2 22", f"ssh -L 8890:localhost:8890 {getpass.getuser()}@10.0.0.2"),
        (Facts(), "", ""),
        (Facts(container="Codespaces"), "10.0.0.1 50000 10.0.0.2 22", ""),  # which forwards ports by itself
    ],
)
def test_where_the_address_leads_nowhere_by_itself_the_command_is_said(monkeypatch, facts, ssh, told):
    monkeypatch.setenv("SSH_CONNECTION", ssh)
    assert told in lab.how_to_reach(facts, 8890)
    assert bool(told) == bool(lab.how_to_reach(facts, 8890))
    assert ("--ServerApp.ip=0.0.0.0" in lab.jupyter_command(8890, facts)) == (facts.container in ("Docker", "Podman"))


def test_settings_of_the_user_stay_below_those_of_the_course(monkeypatch):
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "/mine")
    assert lab.jupyter_environment("t")["JUPYTER_CONFIG_PATH"].split(os.pathsep) == [str(lab.SETTINGS), "/mine"]
