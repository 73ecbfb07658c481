"""What tests know of chapters: their names, and how to run a notebook and see everything that it did."""

import contextlib
import os
import re
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

import nbformat
import psutil
from nbclient import NotebookClient
from nbformat import NotebookNode

from coursekit.basics.paths import ROOT
from coursekit.judging.result import MIME
from tests import forked, kernels

CHAPTERS = sorted(path.stem for path in ROOT.glob("chapters/ch*.py"))
NOISE = re.compile(r"Warning\b|\bWARN\w*\b|\bERROR\b|\bINFO\b|Traceback|\(raylet|\(autoscaler|\bpid=\d+\)|Deprecat")


@dataclass
class Run:
    """One run of a notebook: results of its checks, what it printed, what it cost."""

    results: dict[str, dict]
    stderr: str
    noise: list[str]
    leftovers: list[str]
    seconds: float
    cpu_seconds: float
    peak_mb: float
    notebook: NotebookNode = field(repr=False)

    def earned(self) -> int:
        return sum(result["earned"] for result in self.results.values())

    def printed(self) -> str:
        outputs = [output for cell in self.notebook.cells for output in cell.get("outputs", [])]
        return "".join(output.text for output in outputs if output.get("name") == "stdout")


def needs_no_answer(cell: NotebookNode) -> bool:
    """Return whether a cell shows the same whatever a learner answered: a demonstration that no exercise comes before."""
    return "demo" in cell.metadata.get("tags", []) and "passed(" not in cell.source


def run(path: Path, tmp: Path, quick: bool = True, fork: bool = False, demos: bool = True) -> Run:
    """Run a notebook from its first cell to its last; an error in a cell is an error of the test.

    The kernel may be a fork; without `demos`, cells that need no answer are left out.
    """
    notebook = nbformat.read(path, as_version=4)
    notebook.cells = [cell for cell in notebook.cells if demos or not needs_no_answer(cell)]
    env = kernels.environment() | {"COURSEKIT_QUICK": "1" if quick else "0", "COURSEKIT_HOME": str(tmp / "home")}
    resources = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(notebook, timeout=600, resources=resources, config=kernels.config())
    copies = forked.kernels() if fork else {}
    meter = Meter()
    with patch.dict(os.environ, copies), client.setup_kernel(env=env), meter:
        for index, cell in enumerate(notebook.cells):
            client.execute_cell(cell, index)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    records = [output.data[MIME] for output in outputs if MIME in output.get("data", {})]
    return Run(
        results={record["name"]: record for record in records},
        stderr="".join(output.text for output in outputs if output.get("name") == "stderr"),
        noise=[line for cell in notebook.cells for line in _lines(cell.get("outputs", [])) if NOISE.search(line)],
        leftovers=meter.leftovers(),
        seconds=meter.seconds,
        cpu_seconds=sum(meter.cpu.values()),
        peak_mb=meter.peak_mb,
        notebook=notebook,
    )


def _lines(outputs: list[NotebookNode]) -> list[str]:
    """Return the lines of a cell's outputs; what it prints may come in pieces."""
    printed = "".join(output.get("text", "") for output in outputs)
    return "\n".join([printed, *(output.get("data", {}).get("text/plain", "") for output in outputs)]).splitlines()


class Meter(threading.Thread):
    """Follows the processes that begin below this one: CPU seconds of each, memory of all together (PSS)."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.cpu: dict[psutil.Process, float] = {}
        self.peak_mb = self.seconds = self._resident_mb = 0.0
        self._done = threading.Event()
        self._before = set(psutil.Process().children(recursive=True))

    def __enter__(self) -> "Meter":
        self._start = time.perf_counter()
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.seconds = time.perf_counter() - self._start
        self._done.set()
        self.join()

    def run(self) -> None:
        while not self._done.wait(0.5):
            processes = set(psutil.Process().children(recursive=True)) - self._before
            resident_mb = 0.0
            for process in processes:
                with contextlib.suppress(psutil.Error):
                    times = process.cpu_times()
                    self.cpu[process] = times.user + times.system
                    resident_mb += process.memory_info().rss / 2**20
            if resident_mb > 1.05 * self._resident_mb:  # an exact look takes a hundred times as long
                self._resident_mb = resident_mb
                self.peak_mb = max(self.peak_mb, sum(map(_proportional_mb, processes)))

    def leftovers(self) -> list[str]:
        """Return the command lines of processes that are still there after a minute; a busy machine needs some of it."""
        _, alive = psutil.wait_procs(list(self.cpu), timeout=60)
        return [line for process in alive if (line := _line_of(process))]


def _proportional_mb(process: psutil.Process) -> float:
    with contextlib.suppress(psutil.Error):
        return float(process.memory_full_info().pss / 2**20)
    return 0.0


def _line_of(process: psutil.Process) -> str:
    """Return the command line of a process, "" for one that has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
