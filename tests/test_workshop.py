"""In a real browser: an instructor opens a room, two learners join it from JupyterLab, and the room votes in two rounds."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from coursekit.given.ports import free_ports
from tests.browser import chromium
from tests.jupyterlab import Notebook, learners_lab

pytestmark = pytest.mark.slow
QUIZ = 'quiz("when_remote_returns", when_remote_returns)'


@pytest.fixture
def printed(tmp_path: Path) -> Iterator[str]:
    """Yield what `coursekit room` prints for the instructor."""
    port, board = free_ports(2)
    command = [sys.executable, "-m", "coursekit.cli", "room", "--port", str(port), "--board", str(board)]
    env = os.environ | {"COURSEKIT_HOME": str(tmp_path / "instructor"), "COLUMNS": "200"}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as room:
        assert room.stdout
        lines: list[str] = []
        while not lines or "Ctrl-C" not in lines[-1]:
            lines.append(room.stdout.readline())
            assert lines[-1], "the room has ended"
        try:
            yield "".join(lines)
        finally:
            room.terminate()
            room.wait(30)


@pytest.fixture
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=60_000)
    with chromium() as found:
        yield found


def page_of(browser: Browser) -> Page:
    return browser.new_page(viewport={"width": 1200, "height": 900})


def vote(learners: list[Notebook], letters: str, says: str) -> None:
    """Answer the quiz in each notebook, and see there what it says."""
    for learner, letter in zip(learners, letters, strict=True):
        learner.select("when_remote_returns =")
        learner.type(f'when_remote_returns = "{letter}"')
        learner.run("when_remote_returns =")
        learner.run(QUIZ)
        expect(learner.page.get_by_text(says.format(letter=letter)).first).to_be_visible()


def test_two_learners_join_from_jupyterlab_and_vote_in_two_rounds(printed, browser, tmp_path):
    words = re.search(r'join\("(?:[\d.]+)(:\d+ .+)"\)', printed)
    address = re.search(r"http://127\.0\.0\.1:\d+/\?key=\S+", printed)
    assert words
    assert address
    board = page_of(browser)
    board.goto(address[0])
    for name in ("Ada", "Grace"):
        (tmp_path / name).mkdir()
    with learners_lab(tmp_path / "Ada") as first, learners_lab(tmp_path / "Grace") as second:
        learners = [Notebook(page_of(browser), lab, "ch01_tasks") for lab in (first, second)]
        for number, (learner, name) in enumerate(zip(learners, ("Ada", "Grace"), strict=True), 1):
            learner.run("begin(")
            learner.select("when_remote_returns =")
            learner.type(f'from coursekit import join\njoin("127.0.0.1{words[1]}", "{name}")')
            learner.run("join(")
            expect(learner.page.get_by_text(f"You are in, {name}")).to_be_visible()
            expect(board.get_by_text(f"{number} here")).to_be_visible()
            learner.type("when_remote_returns = ...")

        board.select_option("#quiz", "ch01_tasks when_remote_returns")
        board.click("text=Open the vote")
        vote(learners, "ab", says="Your vote: {letter}")
        expect(board.get_by_label("first vote: 1 of 2")).to_have_count(2)
        board.click("text=End the vote")
        board.click("text=Vote again")
        vote(learners, "bb", says="Your vote: {letter}")
        expect(board.get_by_label("second vote: 2 of 2")).to_be_visible()
        board.click("text=Close, and show")
        vote(learners, "bb", says="✔ when_remote_returns: passed")
        for learner in learners:
            learner.page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
