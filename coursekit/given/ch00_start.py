"""What chapter 0 provides: a table of the processes that Ray started, and a way to run a program that joins this Ray."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas
import psutil

# Ray keeps as many idle workers as it has CPUs. For those of `run_program` it would end the notebook's own, and 2.60 can abort
# a worker that ends: see coursekit.ray_bridge.quiet.
os.environ.setdefault("RAY_num_workers_soft_limit", "8")
ROLES = {
    "gcs_server": "GCS: keeps the records of the whole cluster",
    "raylet": "raylet: manages this node",
    "monitor.py": "monitor: watches the load for the autoscaler",
    "log_monitor.py": "log monitor: brings you what workers print",
    "dashboard.py": "dashboard: would serve its web page, which is off",
    "ray::DashboardAgent": "dashboard agent: collects this node's statistics",
    "ray::RuntimeEnvAgent": "environment agent: installs what tasks need",
    "ray::": "worker: runs tasks and actors",
}


def nap(seconds: float) -> int:
    """Sleep for this many seconds, and return the ID of the process; notebooks of 0.2 import it, so it goes with 0.4."""
    time.sleep(seconds)
    return os.getpid()


def ray_processes() -> pandas.DataFrame:
    """Return a table of the processes that this notebook's Ray has started: what each one does, its ID, and its memory in MB."""
    rows = [
        (_role(process), process.pid, round(process.memory_info().rss / 2**20))
        for process in psutil.Process().children(recursive=True)
        if process.status() != psutil.STATUS_ZOMBIE
    ]
    return pandas.DataFrame(sorted(rows), columns=["process", "pid", "MB"])


def run_program(text: str) -> None:
    """Save a program as squares.py, run it with RAY_ADDRESS set to this notebook's Ray, and print its output."""
    import ray

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "squares.py")
        path.write_text(text.strip() + "\n", encoding="utf-8")
        environment = os.environ | {"RAY_ADDRESS": ray.get_runtime_context().gcs_address}
        done = subprocess.run([sys.executable, path], env=environment, capture_output=True, text=True, timeout=120)
    print("$ python squares.py")
    print(done.stdout if done.returncode == 0 else done.stderr)


def _role(process: psutil.Process) -> str:
    words = [Path(word).name or word for word in process.cmdline()[:4]]
    for sign, role in ROLES.items():
        if any(word.startswith(sign) for word in words):
            return role
    return " ".join(words)
