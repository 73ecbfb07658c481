"""How long `make setup` takes with uv and with pip, each on a fresh copy of the course with empty caches.

    python benchmarks/setup.py            the course's environment
    python benchmarks/setup.py --site     the small one of the web site

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

ROOT = Path(__file__).parents[1]
PARTS = ["coursekit", "scripts", "pyproject.toml", "constraints.txt", "README.md", "LICENSE", "LICENSE-TEXT", "site"]


def copy_of_the_course(folder: Path) -> Path:
    """Return the folder with what an installation reads."""
    folder.mkdir()
    for part in PARTS:
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


def main() -> None:
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
    print(f"uv takes {took['uv'] / took['pip']:.2f} of pip's time")


if __name__ == "__main__":
    main()
