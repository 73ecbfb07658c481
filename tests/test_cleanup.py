"""What a chapter has started is gone when a cell of it fails, and when its kernel is killed: no process, no folder."""

import contextlib
import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
import psutil
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from coursekit.basics.paths import NOTEBOOKS
from tests import kernels

pytestmark = pytest.mark.slow

CLEANED_UP_WITHIN = 60  # seconds; a busy machine needs some of them, a calm one few
AUTOSCALER = """
from contextlib import ExitStack
settings = "{max_workers: 1, available_node_types: {simulator: {resources: {simulator: 1}, max_workers: 1}}}"
held = ExitStack()
held.enter_context(autoscaler(cluster, settings))
refs = [ray.remote(nap).options(num_cpus=0, resources={"simulator": 1}).remote(600)]
while sum(node["Alive"] for node in ray.nodes()) < 2:
    time.sleep(0.2)
"""
WAITS_IN_VAIN = """
with held:
    follow(refs, time.monotonic(), seconds=1)
"""
SECOND_NODE = "second = cluster.start(*given.plain_node(cluster))"
LAST = {  # the last cell of the chapter that is run
    "ch02_objects": "ray.init(",
    "ch04_scheduling": "cluster = small_cluster(",
    "ch06_cluster": "cluster = OwnCluster()",
}


class Started:
    """The beginning of a learner's notebook, until its Ray is up, in a folder of its own."""

    def __init__(self, chapter: str, home: Path):
        path, self.home = NOTEBOOKS / f"{chapter}.ipynb", home
        notebook = nbformat.read(path, as_version=4)
        cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
        last = next(index for index, cell in enumerate(cells) if LAST[chapter] in cell.source)
        notebook.cells = cells[: last + 1]
        resources = {"metadata": {"path": str(path.parent)}}
        self.client = NotebookClient(notebook, timeout=300, resources=resources, config=kernels.config())

    @contextlib.contextmanager
    def kernel(self) -> Iterator[None]:
        """Run the notebook; what the block leaves behind is its kernel's to clean up when that is shut down."""
        own = {"TMPDIR": str(self.home), "RAY_TMPDIR": str(self.home), "COURSEKIT_HOME": str(self.home)}
        with self.client.setup_kernel(env=os.environ | own):
            for index, cell in enumerate(self.client.nb.cells):
                self.client.execute_cell(cell, index)
            yield

    def cell(self, source: str) -> None:
        """Run one more cell."""
        self.client.nb.cells.append(nbformat.v4.new_code_cell(source))
        self.client.execute_cell(self.client.nb.cells[-1], len(self.client.nb.cells) - 1)

    def kill(self) -> None:
        """Kill the kernel, and nothing but the kernel, as the system does when memory runs out."""
        os.kill(self.client.km.provisioner.pid, signal.SIGKILL)

    def processes(self) -> list[psutil.Process]:
        """Return the living processes that the notebook has started, its kernel included."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get("COURSEKIT_HOME") == str(self.home):
                    found.append(process)
        return found

    def left(self) -> list[str]:
        """Return the command lines of processes, and the folders, that are still there after a while."""
        end = time.monotonic() + CLEANED_UP_WITHIN
        while (left := self._left()) and time.monotonic() < end:
            time.sleep(0.5)
        return left

    def _left(self) -> list[str]:
        lines = []
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                lines.append(" ".join(process.cmdline())[:200])
        return lines + [path.name for kind in ("autoscaler-*", "ray-*") for path in self.home.glob(kind)]


@pytest.fixture
def started(request: pytest.FixtureRequest) -> Iterator[Started]:
    home = Path(tempfile.mkdtemp(prefix="c-", dir="/tmp"))  # short: it holds sockets
    try:
        each = Started(request.param, home)
        yield each
    finally:
        for process in each.processes():
            with contextlib.suppress(psutil.Error):
                process.kill()
        shutil.rmtree(home, ignore_errors=True)


def raylets(started: Started) -> int:
    """Return how many nodes the notebook has now; a worker that a raylet is just starting has its name, too."""
    found = []
    for process in started.processes():
        with contextlib.suppress(psutil.Error):
            if process.name() == "raylet":
                found.append((process.pid, process.ppid()))
    pids = {pid for pid, _ in found}
    return sum(parent not in pids for _, parent in found)


@pytest.mark.parametrize(
    ("started", "before", "fails", "nodes"),
    [
        pytest.param("ch02_objects", "pass", "1 / 0", 1, id="ch02_objects"),
        pytest.param("ch04_scheduling", AUTOSCALER, WAITS_IN_VAIN, 2, id="ch04_scheduling"),
        pytest.param("ch06_cluster", SECOND_NODE, "1 / 0", 2, id="ch06_cluster"),
    ],
    indirect=["started"],
)
def test_a_failed_cell_leaves_nothing(started, before, fails, nodes):
    with started.kernel():
        started.cell(before)
        assert raylets(started) == nodes
        with pytest.raises(CellExecutionError) as error:
            started.cell(fails)
    assert started.left() == []
    assert error.value.ename in ("ZeroDivisionError", "TimeoutError")
    if error.value.ename == "TimeoutError":  # `follow` says what it waited for, how long, and what Ray says to it
        assert "1 extra node came in 1 s; 1 of the tasks" in error.value.evalue
        assert re.search(
            r"'simulator': 1\.0|^ 1 simulator", error.value.evalue, re.MULTILINE
        )  # wanted, or there by then


@pytest.mark.parametrize(
    ("started", "before"),
    [
        pytest.param("ch04_scheduling", AUTOSCALER, id="ch04_scheduling"),
        pytest.param("ch06_cluster", SECOND_NODE, id="ch06_cluster"),
    ],
    indirect=["started"],
)
def test_a_killed_kernel_leaves_nothing(started, before):
    with started.kernel():
        started.cell(before)
        assert raylets(started) == 2
        started.kill()
        assert started.left() == []
