"""What all tests share: quick mode, folders of their own, what may run side by side, and the table of what each chapter cost."""

import os
import shutil
import tempfile
from collections.abc import Callable

import pytest

from coursekit.paths import path_with_scripts

os.environ["PATH"] = path_with_scripts()
os.environ["COURSEKIT_HOME"] = tempfile.mkdtemp(prefix="coursekit-test-")
os.environ.setdefault("COURSEKIT_QUICK", "1")


RAYS = ""  # the folder of this process's Rays: `ray.init` joins a cluster that it finds noted in its folder
if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    RAYS = os.environ["RAY_TMPDIR"] = tempfile.mkdtemp(prefix=f"ray-{worker}-", dir="/tmp")  # short: it holds sockets

SHARE = {"solved": 45, "unsolved": 20}  # seconds that 21 chapters may take on two cores, on average
GRADING = ["attacks", "sandbox", "grading", "own_tests", "cluster_grading", "release", "instructors", "same_scores"]
ORDER = ["grading", "answers", "notebooks", "isolation"]  # the longest first, so that all processes end together


def group_of(item: pytest.Item) -> str:
    """Return the name of the tests that run one after the other in one process, with what they set up shared."""
    module = item.path.stem.removeprefix("test_")
    if module in GRADING:  # they look for traces on the whole machine
        return "grading"
    if module == "notebooks":
        return f"notebooks-{item.name}"
    params = item.callspec.params if hasattr(item, "callspec") else {}
    return f"{module}-{params.get('chapter', '')}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    groups = {item: group_of(item) for item in items}
    for item, group in groups.items():
        item.add_marker(pytest.mark.xdist_group(group))
    ranks = {item: ORDER.index(kind) if (kind := group.split("-")[0]) in ORDER else 9 for item, group in groups.items()}
    items.sort(key=ranks.__getitem__)


def pytest_sessionfinish() -> None:
    if RAYS:
        shutil.rmtree(RAYS, ignore_errors=True)


@pytest.fixture
def costs(record_property: Callable) -> Callable:
    """Return a function that keeps what a chapter cost: chapter, how, seconds, CPU seconds, MB."""
    return lambda *row: record_property("cost", row)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
    rows = sorted(row for report in reports for name, row in report.user_properties if name == "cost")
    if not rows:
        return
    terminalreporter.section("what each chapter cost (quick mode, other tests beside it)")
    for chapter, how, seconds, cpu, megabytes in rows:
        over = f"  over its share of {SHARE[how]} s" if seconds > SHARE[how] else ""
        terminalreporter.line(f"{chapter:24} {how:9} {seconds:6.1f} s {cpu:7.1f} CPU s {megabytes:6.0f} MB{over}")
    terminalreporter.line(
        f"{'in all':34} {sum(row[2] for row in rows):6.1f} s {sum(row[3] for row in rows):7.1f} CPU s"
    )
