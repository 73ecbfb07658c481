"""What the preflight looks at: plain facts about this machine, gathered without judging any of it."""

import os
import platform
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from coursekit.basics.cpus import cgroups, cores, hub_limit, text_of
from coursekit.basics.proxies import proxy_variables
from coursekit.basics.versions import installed, tested_ranges
from coursekit.learner.progress import home

SHOWN = ["ray", "torch", "gymnasium", "numpy", "matplotlib", "jupyterlab", "nbgrader"]
RAYS_OWN = ("ray::IDLE", "ray::DashboardAgent", "ray::RuntimeEnvAgent")
PORTS = {8265: "Ray's dashboard", 8888: "JupyterLab"}


@dataclass(frozen=True)
class Facts:
    """A machine as the preflight sees it; sizes in bytes."""

    python: tuple[int, int, int] = (3, 11, 0)
    system: str = "Linux"  # Linux, Darwin (macOS) or Windows
    machine: str = "x86_64"
    wsl: bool = False
    container: str = ""  # "Docker", "Codespaces", ...; "" outside a container
    versions: tuple[tuple[str, str, str], ...] = ()  # package, version here ("" when missing), tested range
    cores: float = 4.0  # what this process may use, not what the machine has
    memory: int = 8 * 2**30  # the most that this machine or container may use
    memory_free: int = 6 * 2**30  # what can be used now
    shm: int | None = 4 * 2**30  # free in /dev/shm; None where there is none
    temp: str = "/tmp"  # where Ray puts its files
    disk_free: int = 50 * 2**30  # free in temp
    disk_used: float = 0.5  # fraction of the disk below temp that is used
    busy_ports: tuple[int, ...] = ()
    rays: int = 0  # Ray nodes that run now
    ray_address: str = ""
    unwritable: tuple[tuple[str, str, str], ...] = ()  # the variable that names a folder, the folder, why
    proxies: tuple[str, ...] = ()  # the variables that are set


def gather() -> Facts:
    """Return the facts of this machine; takes a fraction of a second and starts nothing."""
    temp = ray_temp_folder()
    disk = shutil.disk_usage(_existing(temp))
    total, free = _memory()
    ranges = tested_ranges()
    return Facts(
        python=sys.version_info[:3],
        system=platform.system(),
        machine=platform.machine(),
        wsl="microsoft" in platform.release().lower(),
        container=_container(),
        versions=tuple((name, installed(name), ranges.get(name, "")) for name in SHOWN),
        cores=cores(),
        memory=total,
        memory_free=free,
        shm=shutil.disk_usage("/dev/shm").free if os.path.isdir("/dev/shm") else None,
        temp=temp,
        disk_free=disk.free,
        disk_used=disk.used / disk.total,
        busy_ports=tuple(port for port in PORTS if not port_is_free(port)),
        rays=sum(process.info["name"] == "raylet" for process in psutil.process_iter(["name"])),
        ray_address=os.environ.get("RAY_ADDRESS", ""),
        unwritable=tuple(_unwritable({"RAY_TMPDIR": f"{temp}/ray", "HOME": "~/.ray", "COURSEKIT_HOME": str(home())})),
        proxies=tuple(proxy_variables()),
    )


def port_is_free(port: int) -> bool:
    """Return whether a server could listen on this port of this machine."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port closed a moment ago counts as free
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def ray_temp_folder() -> str:
    """Return the folder in which Ray makes its own folder `ray` (the rule of ray._common.utils)."""
    if folder := os.environ.get("RAY_TMPDIR"):
        return folder
    if sys.platform == "linux":
        return os.environ.get("TMPDIR", "/tmp")
    return "/tmp" if sys.platform == "darwin" else tempfile.gettempdir()


def ray_worker(process: psutil.Process) -> str:
    """Return what Ray calls a worker of its that has something to do, "" for any other process."""
    try:
        title = "".join(process.cmdline()[:1]).strip()
    except psutil.Error:
        return ""
    return title if title.startswith("ray::") and not title.startswith(RAYS_OWN) else ""


def _existing(folder: str) -> Path:
    path = Path(folder).absolute()
    return next(parent for parent in [path, *path.parents] if os.path.exists(parent))  # False where it may not be seen


def _unwritable(folders: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield what cannot be written into: tries it in each folder, or in the nearest one above that exists."""
    for name, folder in folders.items():
        try:
            tempfile.TemporaryDirectory(dir=_existing(os.path.expanduser(folder))).cleanup()
        except OSError as error:
            yield name, folder, error.strerror or str(error)


def _memory() -> tuple[int, int]:
    """Return the memory that may be used at most and what is free of it now, within the limits of each cgroup and of the hub."""
    machine, hub = psutil.virtual_memory(), hub_limit("MEM_LIMIT")
    total, free = min(machine.total, hub), min(machine.available, hub)
    for folder in cgroups("memory"):
        limit = text_of(f"{folder}/memory.max") or text_of(f"{folder}/memory.limit_in_bytes")
        if limit.isdigit() and int(limit) < machine.total:  # not "max", and not cgroup v1's huge number
            used = text_of(f"{folder}/memory.current") or text_of(f"{folder}/memory.usage_in_bytes")
            total, free = min(total, int(limit)), min(free, int(limit) - int(used or 0) + _file_cache(folder))
    return int(total), int(free)


def _file_cache(folder: str) -> int:
    """Return the bytes of file cache in a cgroup, which the system gives back when they are needed."""
    found = re.search(r"^(?:total_)?inactive_file (\d+)$", text_of(f"{folder}/memory.stat"), re.MULTILINE)
    return int(found[1]) if found else 0


def _container() -> str:
    if os.environ.get("CODESPACES"):
        return "Codespaces"
    if os.environ.get("BINDER_SERVICE_HOST"):
        return "Binder"
    if os.path.exists("/.dockerenv"):
        return "Docker"
    if os.path.exists("/run/.containerenv"):
        return "Podman"
    return "Kubernetes" if os.environ.get("KUBERNETES_SERVICE_HOST") else ""
