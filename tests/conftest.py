"""What all tests share: quick mode, a progress folder of their own, and the table of what each chapter cost."""

import os
import tempfile

import pytest

from coursekit.paths import path_with_scripts

os.environ["PATH"] = path_with_scripts()
os.environ["COURSEKIT_HOME"] = tempfile.mkdtemp(prefix="coursekit-test-")
os.environ.setdefault("COURSEKIT_QUICK", "1")

SHARE = {"solved": 45, "unsolved": 20}  # seconds that 21 chapters may take on two cores, on average
COSTS: list[tuple[str, str, float, float, float]] = []  # chapter, how, seconds, CPU seconds, MB


@pytest.fixture
def costs() -> list:
    return COSTS


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not COSTS:
        return
    terminalreporter.section("what each chapter cost (quick mode)")
    for chapter, how, seconds, cpu, megabytes in COSTS:
        over = f"  over its share of {SHARE[how]} s" if seconds > SHARE[how] else ""
        terminalreporter.line(f"{chapter:24} {how:9} {seconds:6.1f} s {cpu:7.1f} CPU s {megabytes:6.0f} MB{over}")
    terminalreporter.line(
        f"{'in all':34} {sum(row[2] for row in COSTS):6.1f} s {sum(row[3] for row in COSTS):7.1f} CPU s"
    )
