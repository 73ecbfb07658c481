"""In a real browser: JupyterLab opens chapter 1, the reader types an answer, sees "passed", reloads, sees the progress."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser import chromium
from tests.jupyterlab import Notebook, learners_lab

pytestmark = pytest.mark.slow
ANSWER = """def as_task(function, x):
    return ray.remote(function).remote(x)
"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[str]:
    with learners_lab(tmp_path) as address:
        yield address


@pytest.fixture
def page() -> Iterator[Page]:
    with chromium() as browser:
        yield browser.new_page(viewport={"width": 1200, "height": 900})


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
