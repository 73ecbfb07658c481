"""`coursekit pack`: a folder for a USB stick, from which laptops install the course without a network."""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

from coursekit.basics.cards import plural
from coursekit.basics.errors import CommandError
from coursekit.basics.paths import FROM_WHEEL, ROOT, STATIC
from coursekit.grading.desk.release import NEEDS_CHECKOUT, write_zip

CPU_INDEX = "https://download.pytorch.org/whl/cpu"  # as in scripts/setup.sh
GLIBC = 28  # Debian 10, Ubuntu 20.04 and later have at least 2.28
MACOS = "14.0"
LAST = 99  # a patch release of Python behind all that there are: some versions depend on it
PYTHONS = ("3.11", "3.12", "3.13")


def _linux(machine: str) -> tuple[str, list[str]]:
    """Return how uv calls a Linux, and all names under which pip looks for its wheels."""
    tags = [f"manylinux_2_{minor}_{machine}" for minor in range(GLIBC, 4, -1)]
    return f"{machine}-manylinux_2_{GLIBC}", [*tags, *(f"{kind}_{machine}" for kind in ("manylinux2014", "linux"))]


PLATFORMS = {
    "linux-x86_64": _linux("x86_64"),
    "linux-aarch64": _linux("aarch64"),
    "macos-arm64": ("aarch64-apple-darwin", [f"macosx_{MACOS.replace('.', '_')}_arm64"]),
}
UNKNOWN = """\
There is no {what} {name!r} to pack for. There are: {known}.
A laptop with Windows runs the course in WSL, so it takes linux-x86_64; Ray and PyTorch have no wheels for Macs with an Intel CPU."""
NO_VERSIONS = """\
The packages for {where} could not be resolved:
{reason}
If a package has no wheel for that Python or platform, leave it out. If the connection broke, run the same command again."""
NO_WHEEL = """\
A package for {where} could not be downloaded:
{reason}
If it has no wheel for that Python or platform, leave it out. If the connection broke, or the disk was full, run the same command
again: pip keeps what it has downloaded. Behind a proxy, first export HTTPS_PROXY=http://your.proxy:port"""
WITH_GPU = """\
The packages for {where} would include gigabytes of GPU libraries, because PyTorch's index of CPU builds does not answer.
Run this where {index} can be reached, or tell pip about a folder that has the CPU build: pip config set global.find-links FOLDER"""


def pack(
    folder: Path,
    platforms: Iterable[str],
    pythons: Iterable[str],
    course: Path | None = None,
    say: Callable[[str], object] = print,
) -> None:
    """Fill a folder with wheels, the course as learners get it and a script that installs it; raises CommandError.

    A second call adds to the folder. `course` is one that was released: then its learners.zip goes in.
    """
    if FROM_WHEEL:
        raise CommandError(NEEDS_CHECKOUT)
    for what, wanted, known in (("platform", platforms, PLATFORMS), ("Python", pythons, PYTHONS)):
        for name in wanted:
            if name not in known:
                raise CommandError(UNKNOWN.format(what=what, name=name, known=", ".join(known)))
    if folder.exists() and any(folder.iterdir()) and not (folder / "install.sh").exists():
        raise CommandError(
            f"{folder} is not empty. Give a folder that does not exist yet, or one that was packed before."
        )
    wheels = folder / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as partial:
        archive = course / "learners.zip" if course else write_zip(Path(partial) / "learners.zip")
        if not archive.exists():
            raise CommandError(f"There is no {archive}. `coursekit release` makes it.")
        zipfile.ZipFile(archive).extractall(folder)
    shutil.copy(STATIC / "pack/install.sh", folder)
    for platform in platforms:
        for python in pythons:
            found = _download(wheels, platform, python)
            line = f"{_where(platform, python)}: {plural(len(found), 'wheel')}, {_megabytes(found)}"
            _note(folder / "contents.txt", line)
            say(line)
    say(f"In all, with the course: {_megabytes(path for path in folder.rglob('*') if path.is_file())}, in {folder}")


def _download(wheels: Path, platform: str, python: str) -> list[Path]:
    """Return all wheels that one platform and Python need, once they lie in the folder."""
    found: list[Path] = []
    known: list[str] = []
    for release in (f"{python}.0", f"{python}.{LAST}"):
        lines = [line for line in _versions(platform, release) if line not in known]
        known += lines
        if lines:
            with tempfile.TemporaryDirectory(dir=wheels) as arriving:
                _fetch(lines, Path(arriving), platform, release)
                found += [path.replace(wheels / path.name) for path in Path(arriving).iterdir()]
    return found


def _versions(platform: str, python: str) -> list[str]:
    """Return the exact versions that the course needs there, a line each as pip takes them."""
    command = ["pip", "compile", "--quiet", "--no-annotate", "--no-header", "--only-binary", ":all:"]
    command += ["--python-platform", PLATFORMS[platform][0], "--python-version", python]
    command += ["--constraints", str(ROOT / "constraints.txt"), *_cpu_build(platform, "--torch-backend", "cpu")]
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".in") as tools:  # what installs the course
        tools.write("\n".join([*needed, "uv"]))
        tools.flush()
        command = ["bash", str(ROOT / "scripts/uv.sh"), sys.executable, *command]
        command += [str(ROOT / "pyproject.toml"), tools.name]
        done = subprocess.run(
            command, capture_output=True, text=True, env=os.environ | {"MACOSX_DEPLOYMENT_TARGET": MACOS}
        )
    where = _where(platform, python.rpartition(".")[0])
    if done.returncode:
        raise CommandError(NO_VERSIONS.format(where=where, reason=done.stderr.strip()))
    lines = [line for line in done.stdout.splitlines() if not line.startswith("#")]
    if any(line.startswith("nvidia-") for line in lines):
        raise CommandError(WITH_GPU.format(where=where, index=CPU_INDEX))
    return lines


def _fetch(lines: list[str], folder: Path, platform: str, python: str) -> None:
    """Have pip download wheels."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-input",
        "--no-deps",
    ]
    command += ["--only-binary=:all:", "--implementation", "cp", "--python-version", python, "--dest", str(folder)]
    command += [f"--platform={tag}" for tag in PLATFORMS[platform][1]]
    command += _cpu_build(platform, "--extra-index-url", CPU_INDEX)
    done = subprocess.run([*command, *lines], capture_output=True, text=True)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or [done.stderr.strip()]
        where = _where(platform, python.rpartition(".")[0])
        raise CommandError(NO_WHEEL.format(where=where, reason="\n".join(said)))


def _cpu_build(platform: str, *options: str) -> tuple[str, ...]:
    """Return the options that choose PyTorch's CPU build, none where the usual build is one or its index does not answer."""
    if not platform.startswith("linux"):
        return ()
    try:
        urllib.request.urlopen(f"{CPU_INDEX}/torch/", timeout=5).close()
    except OSError:
        return ()
    return options


def _where(platform: str, python: str) -> str:
    return f"{platform}, Python {python}"


def _note(path: Path, line: str) -> None:
    """Add a line to a file, in the place of an earlier one on the same."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    others = [each for each in lines if each.partition(":")[0] != line.partition(":")[0]]
    path.write_text("\n".join([*others, line]) + "\n", encoding="utf-8")


def _megabytes(paths: Iterable[Path]) -> str:
    return f"{sum(path.stat().st_size for path in paths) / 1e6:.0f} MB"
