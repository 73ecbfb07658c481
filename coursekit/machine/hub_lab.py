"""A learner's JupyterLab on a machine that many share: what a JupyterHub starts, as `python -m coursekit.machine.hub_lab`.

The course lies there once, and only root writes it. Each learner has a folder of their own, with work/ in it and links to the rest.
"""

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import psutil

from coursekit.basics.paths import ROOT, STATIC
from coursekit.basics.terminal import print_anything
from coursekit.machine import copies
from coursekit.machine.facts import ray_worker
from coursekit.machine.lab import FIRST, jupyter_environment
from coursekit.machine.learners_folder import link_to_course
from coursekit.machine.update import update

SETTINGS = STATIC / "shared"
LOOK = 60  # seconds between two looks at what a learner's processes do
FRACTION = 0.05  # of one CPU that a worker of Ray must have used meanwhile, to count as training


def place(folder: Path, course: Path = ROOT) -> list[str]:
    """Make a learner's folder, or bring it to the course's version; return what to tell them."""
    report = update(link_to_course(folder, course))
    return [*report.lines, *report.problems, copies.added(copies.fill(folder))]


def ray_folder(parent: Path = Path("/var/tmp")) -> str:
    """Return a new folder for Ray that this learner alone can enter, and remove those of earlier servers.

    A program that reaches the sockets in it reaches the objects. Its path is short: a socket's has 107 characters at most. And it is
    on a disk, which /tmp need not be: Ray moves objects there when memory is full.
    """
    prefix = f"ray-{os.getuid()}-"
    for old in parent.glob(f"{prefix}*"):
        shutil.rmtree(old, ignore_errors=True)
    return tempfile.mkdtemp(prefix=prefix, dir=parent)


def start(arguments: list[str]) -> NoReturn:
    """Place the course, then become the server that the hub expects."""
    folder = Path.home() / "course"
    print_anything()
    print(*filter(None, place(folder)), sep="\n", flush=True)
    environment = jupyter_environment() | {"RAY_TMPDIR": ray_folder()}
    environment["JUPYTER_CONFIG_PATH"] += os.pathsep + str(SETTINGS)
    command = [sys.executable, "-m", "jupyterhub.singleuser", f"--ServerApp.root_dir={folder}"]
    os.chdir(folder)
    os.execve(command[0], [*command, f"--ServerApp.default_url=/lab/tree/{FIRST}", *arguments], environment)


class Activity:
    """Decides whether a learner's machine is in the middle of something: a running cell, or a worker of Ray that computes.

    A hub counts what goes over the network: a training that prints nothing looks idle to it.
    """

    def __init__(self, processes: Callable[[], Iterable[psutil.Process]]):
        self._processes = processes
        self._used: dict[tuple[int, float], float] = {}

    def busy(self, states: Iterable[str], seconds: float) -> bool:
        """Return whether a kernel is busy, or a worker of Ray has computed since the last call, which was so long ago."""
        before, self._used = self._used, dict(_cpu_seconds(self._processes()))
        computing = [key for key, used in self._used.items() if used - before.get(key, used) >= FRACTION * seconds]
        return "busy" in states or bool(computing)


def _cpu_seconds(processes: Iterable[psutil.Process]) -> Iterable[tuple[tuple[int, float], float]]:
    """Yield the CPU-seconds of each of Ray's workers that has something to do."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            if ray_worker(process):
                times = process.cpu_times()
                yield (process.pid, process.create_time()), times.user + times.system


def _mine() -> list[psutil.Process]:
    return [
        each for each in psutil.process_iter(["uids"]) if each.info["uids"] and each.info["uids"].real == os.getuid()
    ]


def _load_jupyter_server_extension(server: Any) -> None:
    """Have the server say that it is active for as long as its learner's machine works."""
    activity, look = Activity(_mine), float(os.environ.get("COURSEKIT_LOOK", LOOK))

    async def watch() -> None:
        while True:
            await asyncio.sleep(look)
            kernels = server.kernel_manager.list_kernels()
            if activity.busy([kernel["execution_state"] for kernel in kernels], look):
                server.web_app.settings["last_activity_times"]["coursekit"] = datetime.now(UTC)

    server.io_loop.add_callback(watch)


if __name__ == "__main__":
    start(sys.argv[1:])
