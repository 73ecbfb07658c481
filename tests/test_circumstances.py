"""Under what a machine does to a learner, chapters 0 and 18 earn every point: proxies, encodings, line ends, limits, other people's folders."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from coursekit.basics.paths import ROOT

RUN = """
import json, sys
from pathlib import Path
from coursekit.basics.paths import SOLUTIONS
from tests.chapters import run
result = run(SOLUTIONS / f"{sys.argv[1]}.ipynb", Path(sys.argv[2]))
failed = {name: str(record) for name, record in result.results.items() if record["status"] != "passed"}
print(json.dumps([failed, len(result.results), result.stderr, result.noise, result.leftovers]))
"""
NOBODY_LISTENS = "http://127.0.0.1:9"


class Place:
    """Where a chapter runs: a copy of the course, the environment, and shell commands that come first, in namespaces of their own."""

    def __init__(self, folder: Path):
        self.folder, self.course = folder, ROOT
        self.environment: dict[str, str] = {}
        self.before: list[str] = []

    def run(self, *command: str) -> str:
        """Return what a command prints on stdout."""
        done = subprocess.run(
            self._below(command),
            cwd=self.course,
            env=os.environ | {"PYTHONPATH": str(self.course)} | self.environment,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
        return done.stdout

    def _below(self, command: tuple[str, ...]) -> list[str]:
        if not self.before:
            return list(command)
        return [*NAMESPACE, "sh", "-ec", "\n".join([*self.before, f"exec {shlex.join(command)}"])]


# Mounts of its own: root needs no more; anybody else becomes root of a namespace of users, where the machine allows it.
NAMESPACE = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]


def mounts(place: Place, *commands: str) -> None:
    """Run commands that mount something before the chapter; skip where this machine lets nobody mount."""
    tried = subprocess.run([*NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"This machine gives no namespace with mounts of its own: {tried.stderr.strip()}")
    place.before += commands


def read_only(folder: Path) -> list[str]:
    """Return the commands after which nobody can write into a folder, root included."""
    name = shlex.quote(str(folder))
    return [f"mount --bind {name} {name}", f"mount -o remount,ro,bind {name}"]


def proxy(place: Place) -> None:
    names = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")
    place.environment |= {name: NOBODY_LISTENS for each in names for name in (each, each.upper())}


def other_encoding(place: Place) -> None:
    place.environment |= {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONIOENCODING": "latin-1"}


def crlf(place: Place) -> None:
    place.course = place.folder / "course"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        content = (ROOT / name).read_bytes()
        target = place.course / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if b"\0" in content else content.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"))


def locked_home(place: Place) -> None:
    home = place.folder / "locked"
    home.mkdir()
    place.environment["HOME"] = str(home)
    mounts(place, *read_only(home))


def small_shared_memory(place: Place) -> None:
    mounts(place, "mount -t tmpfs -o size=64m tmpfs /dev/shm")


SOON = [proxy, other_encoding]
AT_NIGHT = [crlf, locked_home, small_shared_memory]


@pytest.mark.slow
@pytest.mark.parametrize("chapter", ["ch00_start", "ch18_serve"])
@pytest.mark.parametrize("circumstance", [*SOON, *(pytest.param(each, marks=pytest.mark.nightly) for each in AT_NIGHT)])
def test_a_solved_chapter_earns_every_point(chapter, circumstance: Callable[[Place], None], tmp_path):
    place = Place(tmp_path)
    circumstance(place)
    failed, results, stderr, noise, leftovers = json.loads(
        place.run(sys.executable, "-c", RUN, chapter, str(tmp_path)).splitlines()[-1]
    )
    assert (failed, stderr, noise, leftovers) == ({}, "", [], [])
    assert results > 0
