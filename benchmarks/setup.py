"""How long the first `make lab` takes until JupyterLab answers: installed with uv and with pip, each on a fresh copy with empty caches.

    python benchmarks/setup.py            the course's environment
    python benchmarks/setup.py --site     the small one of the web site, which nothing opens

It needs a network and 12 GB of disk for a while. Other programs make both slower: their load is printed with the seconds.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LAB_SECONDS = 300  # the most that JupyterLab may take to answer


def copy_of_the_course(folder: Path) -> Path:
    """Return the folder with what a learner gets, and what the site is installed from."""
    from coursekit.basics.course_files import IN_ZIP

    folder.mkdir()
    for part in (*IN_ZIP, "site"):
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copy(ROOT / part, folder / part)
    return folder


def install(installer: str, folder: Path, *what: str) -> tuple[float, float]:
    """Return the seconds and CPU-seconds of an installation where nothing was installed before."""
    copy = copy_of_the_course(folder / installer)
    caches = {f"{name}_CACHE_DIR": str(folder / f"{installer}-cache") for name in ("UV", "PIP")}
    environment = os.environ | caches | {"INSTALLER": installer}
    start, cpu = time.perf_counter(), cpu_seconds()
    done = subprocess.run(
        ["bash", "scripts/setup.sh", *what], cwd=copy, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return time.perf_counter() - start, cpu_seconds() - cpu


def cpu_seconds() -> float:
    """Return what all processes that this one started and saw end have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def opening(course: Path) -> float:
    """Return the seconds of what `make lab` does next on an installed course, until JupyterLab answers."""
    from coursekit.given.ports import free_ports
    from tests.jupyterlab import answers

    (port,) = free_ports(1)
    command = [str(course / ".venv/bin/coursekit"), "lab", "--port", str(port), "--no-browser"]
    start, lab = time.perf_counter(), subprocess.Popen(command, cwd=course, stdout=subprocess.DEVNULL)
    try:
        while not answers(f"http://localhost:{port}/api"):
            if lab.poll() is not None or time.perf_counter() - start > LAB_SECONDS:
                sys.exit(
                    "`coursekit lab` opened nothing. Run `make lab` in a copy of the course, and see what it says."
                )
            time.sleep(0.1)
        return time.perf_counter() - start
    finally:
        lab.terminate()
        lab.wait()


def main() -> dict[str, str]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--site", action="store_true", help="install what the web site needs")
    what, took = ["site"] if parser.parse_args().site else [], {}
    with tempfile.TemporaryDirectory(prefix="setup-") as folder:
        for installer in ("pip", "uv"):
            load = os.getloadavg()[0]
            took[installer], cpu = install(installer, Path(folder), *what)
            print(
                f"{installer:4} {took[installer]:6.1f} s {cpu:6.1f} CPU s    load {load:.1f} before, {os.getloadavg()[0]:.1f} after"
            )
        opened = 0 if what else opening(Path(folder, "uv"))
    claim = "install what `make site` needs" if what else "open the course for the first time (`make lab`)"
    return {claim: ", ".join(f"with {name} {took[name] + opened:.0f} s" for name in ("uv", "pip"))}


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # where `tests` is
    for claim, figure in main().items():
        print(f"| {claim} | {figure} |")
