"""Whatever surrounds the course (a proxy, another encoding, limits, locked folders), chapters 0 and 18 earn every point.

What the course cannot mend, the preflight names, and with what it advises the chapters run.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coursekit.basics.cpus import cgroups
from coursekit.basics.paths import ROOT
from coursekit.basics.proxies import NAMES
from coursekit.judging.exercise import load

pytestmark = pytest.mark.slow
RUN = """
import json, sys
from pathlib import Path
from coursekit.basics.paths import SOLUTIONS
from tests.chapters import run
result = run(SOLUTIONS / f"{sys.argv[1]}.ipynb", Path(sys.argv[2]))
failed = {name: str(record) for name, record in result.results.items() if record["status"] != "passed"}
print(json.dumps([len(result.results), failed, result.stderr, result.noise, result.leftovers]))
"""
NOBODY_LISTENS = "http://127.0.0.1:9"
# Mounts of one's own: root needs no more; anybody else becomes root of a namespace of users, where the machine allows it.
NAMESPACE = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]


class Place:
    """Where the course runs: its folder, its environment, and what a shell does before it, in a namespace of mounts if need be."""

    def __init__(self, folder: Path, short: str):
        self.folder, self.short, self.course = folder, short, ROOT  # `short` has room for Ray's sockets
        self.environment = {"PYTHONPATH": str(ROOT), "RAY_TMPDIR": short}
        self.namespace: list[str] = []
        self.before: list[str] = []
        self.cgroups: list[Path] = []

    def python(self, *arguments: str) -> subprocess.CompletedProcess:
        """Return what came of a Python with these arguments."""
        words = [*self.before, f"exec {shlex.join([sys.executable, *arguments])}"]
        return subprocess.run(
            [*self.namespace, "sh", "-ec", "\n".join(words)],
            cwd=self.course,
            env={name: value for name, value in os.environ.items() if name != "RAY_TMPDIR"} | self.environment,
            capture_output=True,
            text=True,
            encoding="utf-8",
        )

    def mount(self, *commands: str) -> None:
        """Mount something first; skip where this machine lets nobody do that."""
        self.namespace = NAMESPACE
        self.before += commands
        tried = subprocess.run([*NAMESPACE, "sh", "-ec", "\n".join(commands)], capture_output=True, text=True)
        if tried.returncode:
            pytest.skip(f"no mounts of one's own here: {tried.stderr.strip()}")

    def lock(self, folder: Path) -> None:
        """Let nobody write into a folder, root included."""
        folder.mkdir()
        name = shlex.quote(str(folder))
        self.mount(f"mount --bind {name} {name}", f"mount -o remount,ro,bind {name}")


@pytest.fixture
def place(tmp_path) -> Iterator[Place]:
    found = Place(tmp_path, tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
    yield found
    shutil.rmtree(found.short, ignore_errors=True)
    for folder in found.cgroups:
        folder.rmdir()


def proxy(place: Place) -> None:
    place.environment |= {name: NOBODY_LISTENS for each in NAMES for name in (each, each.upper())}


def other_encoding(place: Place) -> None:
    place.environment |= {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONIOENCODING": "latin-1"}


def variables_of_a_shell(place: Place) -> None:
    place.environment |= {
        "MPLBACKEND": "agg",
        "OMP_NUM_THREADS": "1",
        "PYTHONSTARTUP": "/nowhere",
        "PYTHONHASHSEED": "0",
    }


def windows_checkout(place: Place) -> None:
    place.course = place.folder / "course"
    place.environment["PYTHONPATH"] = str(place.course)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        content, copy = (ROOT / name).read_bytes(), place.course / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(content if b"\0" in content else content.replace(b"\n", b"\r\n"))


def small_shared_memory(place: Place) -> None:
    place.mount("mount -t tmpfs -o size=64m tmpfs /dev/shm")


def nested_cgroup(place: Place) -> None:
    limits = {"cpu.max": "100000 100000", "cpu.cfs_quota_us": "100000"}  # one core: cgroup v2, v1
    limits |= dict.fromkeys(["memory.max", "memory.limit_in_bytes"], str(4 * 2**30))
    above = {folder for each in ("cpu", "memory") for folder in own_cgroup(each)}
    try:
        for parent in above:
            place.cgroups.append(Path(parent) / f"coursekit-{os.getpid()}")
            place.cgroups[-1].mkdir()
            place.before.append(f"echo $$ > {place.cgroups[-1]}/cgroup.procs")
        files = [(folder / name, value) for folder in place.cgroups for name, value in limits.items()]
        written = [file.write_text(value) for file, value in files if file.exists()]
    except OSError as error:
        pytest.skip(f"no cgroup of one's own here: {error}")
    if len(written) < 2:
        pytest.skip("no cgroup of one's own here that limits CPU and memory")


def own_cgroup(controller: str) -> list[str]:
    """Return the folder of the cgroup of this process, in a list that is empty where there is none."""
    return [folder for folder in cgroups(controller) if os.path.exists(f"{folder}/cgroup.procs")][:1]


def locked_home(place: Place) -> None:
    place.lock(place.folder / "home")
    place.environment["HOME"] = str(place.folder / "home")


def somebody_elses_ray_folder(place: Place) -> None:
    place.lock(Path(place.short) / "ray")


def long_temporary_folder(place: Place) -> None:
    folder = place.folder / ("t" * (99 - len(str(place.folder))))
    folder.mkdir()
    place.environment["TMPDIR"] = str(folder)
    del place.environment["RAY_TMPDIR"]


Circumstance = Callable[[Place], None]
HARMLESS = [proxy, other_encoding, variables_of_a_shell, windows_checkout, small_shared_memory, nested_cgroup]
# What the preflight says of the others, and the variable that it advises.
NAMED: dict[Circumstance, tuple[str, str]] = {
    locked_home: ("cannot write to ~/.ray (Read-only file system)", "HOME"),
    somebody_elses_ray_folder: ("/ray (Read-only file system)", "RAY_TMPDIR"),
    long_temporary_folder: ("(100 bytes; Ray's sockets allow 39)", "RAY_TMPDIR"),
}


# Not left to the night: chapter 18 sends its requests past the proxy.
TRIED = [(proxy, "ch00_start"), (proxy, "ch18_serve"), (other_encoding, "ch00_start")]


@pytest.mark.parametrize(
    ("circumstance", "chapter"),
    [
        pytest.param(each, chapter, marks=[] if (each, chapter) in TRIED else pytest.mark.nightly)
        for each in (*HARMLESS, *NAMED)
        for chapter in ("ch00_start", "ch18_serve")
    ],
)
def test_a_solved_chapter_earns_every_point(chapter: str, circumstance: Circumstance, place):
    circumstance(place)
    if circumstance in NAMED:
        follow(place, NAMED[circumstance][1])
    ran = place.python("-c", RUN, chapter, str(place.folder))
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-6000:]
    results, *wrong = json.loads(ran.stdout.splitlines()[-1])
    assert (results, wrong) == (len(load(chapter)), [{}, "", [], []])


def follow(place: Place, variable: str) -> None:
    """Set the variable that the preflight advises to a folder of one's own."""
    folder = Path(place.short) / "own"
    folder.mkdir()
    place.environment[variable] = str(folder)


@pytest.mark.parametrize("circumstance", NAMED)
def test_the_preflight_names_what_the_course_cannot_mend(circumstance: Circumstance, place):
    says, variable = NAMED[circumstance]
    circumstance(place)
    said = doctor(place)
    assert says in said
    assert f"export {variable}=" in said
    assert said.endswith("Not ready: fix the 1 problem above.\n")
    follow(place, variable)
    assert "Not ready" not in doctor(place)


def test_the_preflight_counts_what_a_nested_cgroup_leaves(place):
    nested_cgroup(place)
    said = doctor(place)
    assert re.search(r"Cores +1$", said, re.MULTILINE)
    assert re.search(r"Memory +[34]\.\d GB free of 4\.0$", said, re.MULTILINE)


def doctor(place: Place) -> str:
    return place.python("-m", "coursekit.cli", "doctor").stdout
