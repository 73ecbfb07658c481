"""JupyterLab as `coursekit lab` starts it on a course, and a notebook in it."""

import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page

from coursekit.given.ports import free_ports
from tests.learners import unpacked
from tests.waiting import until

TOKEN = "token-of-the-test"


@contextmanager
def lab_of(course: Path, *options: str, log: Path = Path(os.devnull), **environment: str) -> Iterator[str]:
    """Yield the address of the JupyterLab that a course's `coursekit lab` starts; it writes into the log."""
    (port,) = free_ports(1)
    address = f"http://localhost:{port}"
    command = [sys.executable, "-m", "coursekit.cli", "lab", "--port", str(port), *options]
    # The course comes before the coursekit that is installed.
    env = os.environ | {"PYTHONPATH": str(course), "JUPYTER_TOKEN": TOKEN, "DISPLAY": ""} | environment
    workspaces = env["JUPYTERLAB_WORKSPACES_DIR"] = (
        tempfile.mkdtemp()
    )  # no tabs of an earlier JupyterLab, nor ours in a later one
    with log.open("w") as file:
        server = subprocess.Popen(command, cwd=course, env=env, stdout=file, stderr=subprocess.STDOUT)
    try:
        until(lambda: server.poll() is not None or answers(f"{address}/api"), 180)
        assert server.poll() is None
        yield address
    finally:
        server.terminate()
        server.wait(60)
        shutil.rmtree(workspaces)


@contextmanager
def learners_lab(folder: Path) -> Iterator[str]:
    """Yield the address of the JupyterLab that a learner starts on a fresh course, unpacked in this folder."""
    options = ["--LabApp.expose_app_in_browser=True", "--no-browser"]
    home = str(folder / "home")
    with lab_of(unpacked(folder), *options, COURSEKIT_HOME=home, COURSEKIT_QUICK="1") as address:
        yield address


def answers(address: str) -> bool:
    """Return whether a server answers at this address."""
    try:
        urllib.request.urlopen(address, timeout=20).close()
    except OSError:
        return False
    return True


def get(address: str, method: str = "GET", token: str = TOKEN) -> str:
    """Return what the server says to somebody who has the token."""
    request = urllib.request.Request(address, headers={"Authorization": f"token {token}"}, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        text: str = answer.read().decode()
    return text


class Notebook:
    """A notebook in JupyterLab: cells are found by what they say, written from the keyboard, run by JupyterLab's command."""

    def __init__(self, page: Page, address: str, name: str):
        self.page = page
        page.goto(f"{address}/lab/tree/work/{name}.ipynb?token={TOKEN}")
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        self.page.wait_for_function(
            "window.jupyterapp?.shell?.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'",
            timeout=90_000,
        )

    def select(self, text: str) -> None:
        """Make the first code cell with this text the active one, in view."""
        self.page.evaluate(
            """async text => {
                const notebook = window.jupyterapp.shell.currentWidget.content;
                const cells = notebook.widgets.map(cell => cell.model);
                notebook.activeCellIndex = cells.findIndex(cell => cell.type === 'code' && cell.sharedModel.source.includes(text));
                await notebook.scrollToItem(notebook.activeCellIndex, 'center');
                notebook.mode = 'command';
                notebook.activate();
            }""",
            text,
        )

    def type(self, text: str) -> None:
        """Replace the active cell's text from the keyboard."""
        self.page.keyboard.press("Enter")
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(text)
        self.page.keyboard.press("Escape")

    def run(self, text: str) -> None:
        """Run the cell with this text and wait for its end."""
        self.select(text)
        self.page.evaluate(
            "window.jupyterapp.commands.execute('notebook:run-cell')"
        )  # what Control+Enter does; resolves at the end

    def save(self) -> None:
        self.page.keyboard.press("Control+S")
        self.page.wait_for_function("!window.jupyterapp.shell.currentWidget.context.model.dirty")
