"""What all tests share: quick mode, folders of their own, what may run side by side, and the table of what each chapter cost."""

import functools
import gc
import json
import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import absl.logging
import nbgrader.api
import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from coursekit.basics.paths import path_with_scripts
from tests.layers import MISTAKES, Layers, left_out

os.environ["PATH"] = path_with_scripts()
os.environ["COURSEKIT_HOME"] = tempfile.mkdtemp(prefix="coursekit-test-")
os.environ.setdefault("COURSEKIT_QUICK", "1")
# RLlib imports absl, which closes the stderr of that moment when logging is configured anew: not the file in which pytest captures.
absl.logging.get_absl_handler().python_handler.stream = sys.__stderr__
signal.signal(signal.SIGINT, signal.default_int_handler)  # a script's background job ignores it: not what tests start

# Each new gradebook asks a new Python for the version of nbgrader's tables, which is always the same.
nbgrader.api.get_alembic_version = functools.cache(nbgrader.api.get_alembic_version)

# The folder of this process's Rays: `ray.init` joins a cluster that it finds noted in its folder. Its name is short: it holds sockets.
worker = os.environ.get("PYTEST_XDIST_WORKER", "")
RAYS = tempfile.mkdtemp(prefix=f"ray-{worker or 'main'}-", dir="/tmp")
os.environ["RAY_TMPDIR"] = RAYS

STARTED = pytest.StashKey[int]()
LEFT_OUT: Counter[str] = Counter()
GRADING = [
    "attacks",
    "sandbox",
    "grading",
    "cluster_grading",
    "capstone",
]
ORDER = [  # the longest first; of a chapter's answers, which mostly wait, and its notebooks, which compute, one after the other
    ["grading"],
    ["template"],
    ["slides"],
    ["answers", "notebooks"],
    ["same_scores"],
    ["isolation"],
    ["instructors"],
    ["release"],
    ["own_tests"],
    ["browser"],
    ["outcomes", "room", "class", "payload"],
]


def group_of(nodeid: str) -> str:
    """Return the name of the tests that run one after the other in one process, with what they set up shared."""
    path, _, name = nodeid.partition("::")
    module = Path(path).stem.removeprefix("test_")
    if module in GRADING:  # they look for traces on the whole machine
        return "grading"
    if module == "notebooks":
        return f"notebooks {name}"
    if "test_what_backs_a_chapter" in name:  # one process imports what all chapters need
        return "imports"
    if "test_nbgrader_makes" in name:  # all chapters at once
        return "nbgrader"
    chapter = re.search(r"ch\d\d_[a-z_]+", name)
    return f"{module} {chapter[0] if chapter else ''}"


class Groups(LoadScopeScheduling):
    """Gives a process one group after the other."""

    def _split_scope(self, nodeid: str) -> str:
        group = group_of(nodeid)
        if self.config.option.keyword and group.startswith("answers"):
            return nodeid.rpartition("-")[0]  # its exercises side by side
        return group


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Groups:
    return Groups(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests, which stay: Python searches them for garbage neither now, a quarter of the time, nor later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    layers = Layers()
    for item in items:
        item.add_marker(layers.of(item))
    items.sort(key=place)
    if config.option.keyword:  # one chapter by itself: its long tests first, each in another process
        items.sort(key=lambda item: not group_of(item.nodeid).startswith(("notebooks", "isolation")))


def place(item: pytest.Item) -> tuple[int, str]:
    """Return where a test stands in the order of all; what is not named there comes last, as it was."""
    kind, _, rest = group_of(item.nodeid).partition(" ")
    for position, kinds in enumerate(ORDER):
        if kind in kinds:
            return position, "".join(re.findall(r"ch\d\d", rest)[:1])
    return len(ORDER), ""


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        LEFT_OUT.update(layer for layer in ("soon", "rest", "nightly") if item.get_closest_marker(layer))


def pytest_sessionfinish(session: pytest.Session) -> None:
    if (told := getattr(session.config, "workeroutput", None)) is not None:
        told["rays"] = len(list(Path(RAYS).glob("ray/session_2*")))
        told["left_out"] = dict(LEFT_OUT)
    shutil.rmtree(RAYS, ignore_errors=True)


def pytest_testnodedown(node: Any) -> None:
    """Count, in the process that hands out the tests, the Rays that one of the others started."""
    told = getattr(node, "workeroutput", {})
    node.config.stash[STARTED] = node.config.stash.get(STARTED, 0) + told.get("rays", 0)
    LEFT_OUT.update(told.get("left_out", {}) if not LEFT_OUT else {})  # each process has left out the same


@pytest.fixture
def costs(record_property: Callable) -> Callable:
    """Return a function that keeps what a chapter cost: chapter, how, seconds, CPU seconds, MB."""
    return lambda *row: record_property("cost", row)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--keep-failures", type=Path, metavar="FILE", help="write what failed into this file, as it happens"
    )
    parser.addoption("--write-mistakes", action="store_true", help="keep at which message each wrong answer ended")


def write_mistakes(found: list[tuple[str, str, str, str]]) -> None:
    """Write down by chapter, exercise and id of the message which mistakes end there; chapters that did not run keep theirs."""
    known = json.loads(MISTAKES.read_text()) if MISTAKES.exists() else {}
    for chapter in {chapter for chapter, *_ in found}:
        known[chapter] = {}
    for chapter, exercise, message, mistake in found:
        known[chapter].setdefault(exercise, {}).setdefault(message, []).append(mistake)
    MISTAKES.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if (path := config.getoption("--keep-failures")) and not worker:
        path.unlink(missing_ok=True)
        config.pluginmanager.register(Failures(path))


class Failures:
    """Keeps what failed while a run is under way: one that is cut off has said it all the same."""

    def __init__(self, path: Path):
        self.path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            said = [report.longreprtext, *(f"-- {name} --\n{text}" for name, text in report.sections)]
            with self.path.open("a") as file:
                file.write("\n".join([f"== {report.nodeid} ({report.when})", *said, alone(report.nodeid), "\n"]))


def alone(nodeid: str) -> str:
    """Return the command that runs one test alone."""
    return f"COURSEKIT_QUICK=1 .venv/bin/python -m pytest {shlex.quote(nodeid)}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    reports = terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
    if config.getoption("--write-mistakes"):
        write_mistakes(sorted(row for report in reports for name, row in report.user_properties if name == "mistake"))
    if not config.option.keyword and (line := left_out(LEFT_OUT)):
        terminalreporter.section("what did not run")
        terminalreporter.line(line)
    if rays := config.stash.get(STARTED, 0):
        terminalreporter.line(f"Ray was started {rays} times.")
    if failed := terminalreporter.getreports("failed") + terminalreporter.getreports("error"):
        terminalreporter.section("what failed, each with the command that runs it alone")
        for report in failed:
            terminalreporter.line(alone(report.nodeid))
    rows = sorted(row for report in reports for name, row in report.user_properties if name == "cost")
    if not rows:
        return
    terminalreporter.section("what each chapter cost (quick mode, other tests beside it)")
    for chapter, how, seconds, cpu, megabytes in rows:
        terminalreporter.line(f"{chapter:24} {how:9} {seconds:6.1f} s {cpu:7.1f} CPU s {megabytes:6.0f} MB")
    terminalreporter.line(
        f"{'in all':34} {sum(row[2] for row in rows):6.1f} s {sum(row[3] for row in rows):7.1f} CPU s"
    )
