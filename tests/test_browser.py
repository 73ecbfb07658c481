"""In a real browser: JupyterLab opens chapter 1, the reader types an answer, sees "passed", reloads, sees the progress."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from coursekit.given.ports import free_ports
from tests.browser import chromium
from tests.learners import unpacked

pytestmark = pytest.mark.slow
TOKEN = "course"
QUIET_CHROMIUM = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
ANSWER = """def as_task(function, x):
    return ray.remote(function).remote(x)
"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[str]:
    with lab_of(tmp_path) as address:
        yield address


@contextmanager
def lab_of(folder: Path) -> Iterator[str]:
    """Yield the address of the JupyterLab that a learner starts on a fresh course, unpacked in this folder."""
    course = unpacked(folder)
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "coursekit.cli", "lab", "--port", str(port), "--"]
    command += ["--LabApp.expose_app_in_browser=True", "--no-browser"]
    env = os.environ | {"JUPYTER_TOKEN": TOKEN, "COURSEKIT_HOME": str(folder / "home"), "COURSEKIT_QUICK": "1"}
    env["PYTHONPATH"] = str(course)  # before the coursekit that is installed
    server = subprocess.Popen(command, cwd=course, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_for(address)
        yield address
    finally:
        server.terminate()
        server.wait(30)


def _wait_for(address: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"{address}/api?token={TOKEN}", timeout=5)
            return
        except OSError:
            time.sleep(0.3)
    raise TimeoutError(f"JupyterLab did not answer at {address} within a minute")


@pytest.fixture
def page() -> Iterator[Page]:
    with chromium(QUIET_CHROMIUM) as browser:
        yield browser.new_page(viewport={"width": 1200, "height": 900})


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


def test_a_reader_solves_an_exercise_and_finds_it_solved_the_next_day(lab, page, tmp_path):
    notebook = Notebook(page, lab, "ch01_tasks")
    notebook.run("begin(")
    expect(page.get_by_text("○ as_task").first).to_be_visible()
    notebook.run("ray.init(")
    notebook.run('check("as_task"')
    expect(page.get_by_text("`as_task` does not exist yet").first).to_be_visible()
    notebook.run("def as_task")
    notebook.run('check("as_task"')
    expect(page.get_by_text("as_task: not attempted, 0 of 1 point")).to_be_visible()

    notebook.select("def as_task")
    notebook.type(ANSWER)
    notebook.run("def as_task")
    notebook.run('check("as_task"')
    expect(page.get_by_text("✔ as_task: passed, 1 of 1 point")).to_be_visible(timeout=60_000)
    notebook.save()

    page.reload()
    notebook.wait_until_ready()
    notebook.run("begin(")
    expect(page.get_by_text("✔ as_task").first).to_be_visible()
    records = json.loads((tmp_path / "home" / "progress.json").read_text())
    assert records["chapters"]["ch01_tasks"]["as_task"]["earned"] == 1
    page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
