"""What chapter 0 hands out: a nap, and the processes of this machine's Ray."""

import os
import time
from pathlib import Path

import pandas
import psutil

ROLES = {
    "gcs_server": "GCS: the records of the whole cluster",
    "raylet": "raylet: the manager of this node",
    "monitor.py": "monitor: watches the load, for the autoscaler",
    "log_monitor.py": "log monitor: brings what workers print to you",
    "dashboard.py": "dashboard: the web page",
    "ray::DashboardAgent": "dashboard agent: this node's statistics",
    "ray::RuntimeEnvAgent": "environment agent: installs what tasks need",
    "ray::": "worker: runs tasks and actors",
}


def nap(seconds: float) -> int:
    """Return the process id that slept for this many seconds."""
    time.sleep(seconds)
    return os.getpid()


def ray_processes() -> pandas.DataFrame:
    """Return the processes that this notebook's Ray started: what each is for, its id, its memory in MB."""
    rows = [
        (_role(process), process.pid, round(process.memory_info().rss / 2**20))
        for process in psutil.Process().children(recursive=True)
        if process.status() != psutil.STATUS_ZOMBIE
    ]
    return pandas.DataFrame(sorted(rows), columns=["process", "pid", "MB"])


def _role(process: psutil.Process) -> str:
    words = [Path(word).name or word for word in process.cmdline()[:4]]
    for sign, role in ROLES.items():
        if any(word.startswith(sign) for word in words):
            return role
    return " ".join(words)
