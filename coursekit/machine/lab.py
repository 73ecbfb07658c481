"""`coursekit lab`: JupyterLab on the learner's copy of the first notebook, with settings that suit a course."""

import getpass
import json
import logging
import os
import secrets
import shutil
import socket
import sys
import urllib.request
import webbrowser
from collections.abc import Sequence
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import psutil

from coursekit.basics.errors import CommandError
from coursekit.basics.paths import FROM_WHEEL, ROOT, STATIC, path_with_scripts, typed
from coursekit.basics.readers_language import told
from coursekit.machine.facts import Facts, port_is_free

FIRST = "work/ch00_start.ipynb"
PORT = 8888
# No pop-ups (news, "build recommended") and no buttons for teachers (nbgrader's are in plain `jupyter lab`).
SETTINGS = STATIC / "jupyter"


def choose_port(wanted: int | None) -> int:
    """Return the port for JupyterLab: the one that was asked for, or the first free one from 8888."""
    if wanted is None:
        return next(port for port in range(PORT, PORT + 100) if port_is_free(port))
    if not port_is_free(wanted):
        another = f"--port {wanted + 1}" if FROM_WHEEL else f"PORT={wanted + 1}"
        raise CommandError(f"Port {wanted} is in use by another program. Choose another: {typed('lab')} {another}")
    return wanted


def why_no_browser(facts: Facts) -> str:
    """Return the reason why no browser can be opened from here, "" when one can."""
    if facts.container:
        return told(f"inside a {facts.container} container")
    if os.environ.get("SSH_CONNECTION"):
        return told("over ssh")
    if facts.wsl:
        return told("inside WSL")
    has_screen = facts.system == "Darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return "" if has_screen else told("without a screen")


def how_to_reach(facts: Facts, port: int) -> str:
    """Return what it takes for the address to lead here from the machine with the browser, "" for nothing."""
    if facts.container in ("Docker", "Podman"):
        command = f"{facts.container.lower()} run -p 127.0.0.1:{port}:{port} --shm-size=2g ..."
        return f"If nothing answers there, start the container with its port published: {command}"
    if facts.container == "Kubernetes":
        return f"First run on your own machine: kubectl port-forward {socket.gethostname()} {port}:{port}"
    if not facts.container and (connection := os.environ.get("SSH_CONNECTION", "").split()):
        return f"First run on your own machine: ssh -L {port}:localhost:{port} {getpass.getuser()}@{connection[2]}"
    return ""


def jupyter_command(port: int, facts: Facts, extra: Sequence[str] = (), folder: Path = ROOT) -> list[str]:
    """Return the command that starts JupyterLab in a learner's folder; a setting among the `extra` arguments replaces ours."""
    ours = [f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    ours += [f"--ServerApp.root_dir={folder}", f"--LabApp.default_url=/lab/tree/{FIRST}"]
    shell = os.environ.get("SHELL") or shutil.which("bash") or "sh"
    ours.append(f"--ServerApp.terminado_settings=shell_command={shell}")  # a login shell might set another PATH
    if why_no_browser(facts):
        ours.append("--no-browser")
    if facts.container in ("Docker", "Podman"):
        ours.append("--ServerApp.ip=0.0.0.0")  # a published port leads to the container's address, not to its localhost
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        ours.append("--allow-root")
    if _keeps_the_address(extra):  # our own line says it; else only Jupyter knows it, so let it speak
        ours += [f"--{app}.log_level={logging.ERROR}" for app in ("ServerApp", "LabApp")]
    theirs = {_setting(argument) for argument in extra}
    return [sys.executable, "-m", "jupyterlab", *(one for one in ours if _setting(one) not in theirs), *extra]


def _setting(argument: str) -> str:
    """Return what an argument sets, by the end of its name: `--port` is short for `--ServerApp.port`."""
    name = argument.partition("=")[0]
    return name.lstrip("-").rpartition(".")[2] if name.startswith("-") else argument


def _keeps_the_address(extra: Sequence[str]) -> bool:
    return {_setting(argument) for argument in extra} <= {"ip", "no-browser", "allow-root"}


def jupyter_environment(token: str = "") -> dict[str, str]:
    """Return the environment for JupyterLab: the course's settings, its commands, and the token, which so stays off process lists."""
    paths = [str(SETTINGS), *filter(None, [os.environ.get("JUPYTER_CONFIG_PATH")])]
    environment = os.environ | {"JUPYTER_CONFIG_PATH": os.pathsep.join(paths), "PATH": path_with_scripts()}
    return environment | {"JUPYTER_TOKEN": token} if token else environment


class Running(NamedTuple):
    """A JupyterLab that runs already."""

    address: str
    token: str
    page: Path  # which leads a browser there, and keeps the token off process lists


def running(folder: Path) -> Running | None:
    """Return the JupyterLab that already runs on this folder and answers, if there is one."""
    from jupyter_core.paths import jupyter_runtime_dir

    for record in sorted(Path(jupyter_runtime_dir()).glob("jpserver-*.json")):
        # One that cannot be read, or whose server does not answer, hides no other.
        with suppress(OSError, HTTPException, ValueError, TypeError, LookupError):
            server = json.loads(record.read_text(encoding="utf-8"))
            address, token = f"http://localhost:{server['port']}{server['base_url']}", server["token"]
            if psutil.pid_exists(server["pid"]) and Path(server["root_dir"]).resolve() == folder.resolve():
                urllib.request.urlopen(f"{address}api/status?token={token}", timeout=5).close()
                return Running(address, token, record.with_name(f"{record.stem}-open.html"))
    return None


def start(facts: Facts, wanted_port: int | None, extra: Sequence[str], folder: Path = ROOT) -> None:
    """Say the address, then become JupyterLab: Ctrl-C reaches it, and it ends when this process is ended.

    Where one runs on this folder already, say its address and open that one, unless another port or setting was asked for.
    """
    asked = wanted_port is not None or {*extra} - {"--no-browser", "--allow-root"}
    if not asked and (found := running(folder)):
        _say("JupyterLab is already running at", found.address, found.token, facts, extra)
        print(
            told("To stop it, choose File > Shut Down in JupyterLab, or press Ctrl-C twice where you started it."),
            flush=True,
        )
        if not why_no_browser(facts) and "--no-browser" not in extra:
            webbrowser.open(found.page.as_uri())
        return
    port = choose_port(wanted_port)
    command = jupyter_command(port, facts, extra, folder)
    if port != PORT and wanted_port is None:
        print(told(f"Port {PORT} is in use by another program; using {port} instead."), flush=True)
    if not _keeps_the_address(extra):
        os.execve(command[0], command, jupyter_environment())
    token = os.environ.get("JUPYTER_TOKEN") or secrets.token_hex(16)
    _say("JupyterLab starts at", f"http://localhost:{port}/", token, facts, extra)
    print(told("To stop it, press Ctrl-C here twice."), flush=True)
    os.execve(command[0], command, jupyter_environment(token))


def _say(what: str, address: str, token: str, facts: Facts, extra: Sequence[str]) -> None:
    """Say where JupyterLab is, and how to get there."""
    print(f"{told(what)}  {address}lab/tree/{FIRST}?token={token}")
    no_browser = why_no_browser(facts)
    opens = "Open this address in your browser." if "--no-browser" in extra else "It opens in your browser."
    print(told(f"No browser can be opened {no_browser}: open this address in your own." if no_browser else opens))
    if how := how_to_reach(facts, urlsplit(address).port or PORT):
        print(told(how))
