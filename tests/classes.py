"""Classes of students for the tests of the grader: course folders, and what is left on the machine afterwards."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import psutil

from coursekit.basics.paths import ROOT
from coursekit.grading.class_run import Run
from coursekit.grading.outcome import Options
from coursekit.sandbox import accounts, host
from coursekit.sandbox.limits import Limits
from tests.attacks import CHAPTER, MARK, STAYS, notebook

SHORT = Limits(
    cell_seconds=5, total_seconds=60, memory_mb=800, processes=300, disk_mb=100, shm_mb=100, output_bytes=100_000
)
WRONG = "def best_seconds(tasks, seconds_each, workers):\n    return tasks / workers * seconds_each"
HONEST = {"honest_solved": (2, {}), "honest_half": (1, {"best_seconds": WRONG})}
STUB = 'raise NotImplementedError("your answer goes here")'
UNSOLVED = {
    "best_seconds": f"def best_seconds(*inputs):\n    {STUB}",
    "what_distribution_costs": "what_distribution_costs = ...",
}


def hand_in(course: Path, student: str, document: dict, chapter: str = CHAPTER) -> Path:
    """Write a student's notebook into a course folder and return its path."""
    path = course / "submitted" / student / chapter / f"{chapter}.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(document))
    return path


def hand_in_honestly(course: Path) -> None:
    """Add three honest students: one has solved everything, one half of it, one nothing."""
    for student, (_, cells) in HONEST.items():
        hand_in(course, student, notebook(**cells))
    hand_in(course, "honest_unsolved", notebook(**UNSOLVED))


def grade(course: Path, **options: object) -> dict[str, dict]:
    """Return the lines of results.jsonl by their keys, after a grading run."""
    run = Run(course / "submitted", Options(**({"limits": SHORT, "jobs": 4} | options)))
    keys = {row["key"] for row in run.go(lambda *progress: None)}
    return {record["key"]: record for record in lines(run.folder / "results.jsonl") if record["key"] in keys}


def said(record: dict) -> str:
    """Return all that is recorded for the student in words."""
    return " ".join([record["reason"], *(result["message"] for result in record["results"].values())])


class Machine:
    """The machine before a class is graded; `traces` says what is different afterwards."""

    def __init__(self) -> None:
        self._processes = set(psutil.Process().children(recursive=True))
        self._files = self._foreign_files()

    def traces(self) -> list[str]:
        """Return what is left of a class that this process has graded: processes, control groups, files, marks."""
        left = [str(process) for process in psutil.Process().children(recursive=True) if process not in self._processes]
        left += [str(process) for process in psutil.process_iter(["uids", "cmdline"]) if self._is_theirs(process)]
        groups = {home for controller in ("memory", "pids", "cpuacct", "cpu") for home in accounts._homes(controller)}
        left += [str(path) for home in groups for path in home.glob(f"coursekit-{os.getpid()}-*")]
        return left + sorted(self._foreign_files() - self._files) + marked_files()

    @staticmethod
    def _is_theirs(process: psutil.Process) -> bool:
        first, count = host.user_ids()
        mine = (process.info["uids"].real - first - 1 - os.getpid() * 1000) % (count - 1) < 1000 if count > 1 else False
        return (mine and process.info["uids"].real > first) or STAYS in " ".join(process.info["cmdline"] or [])

    @staticmethod
    def _foreign_files() -> set[str]:
        """Return the files in folders of all users that belong to a sandbox's user."""
        first, count = host.user_ids()
        owned = range(first, first + count) if count > 1 else range(0)
        paths = [path for folder in ("/tmp", "/dev/shm") for path in Path(folder).iterdir()]
        ours = f"coursekit-sandbox-{os.getpid()}-"
        return {str(path) for path in paths if _owner(path) in owned or path.name.startswith(ours)}


def _owner(path: Path) -> int | None:
    """Return the user id of a file, None where another program has removed it meanwhile."""
    try:
        return path.lstat().st_uid
    except FileNotFoundError:
        return None


def marked_files() -> list[str]:
    """Return the files that carry the mark of an attack, in their name or in their text."""
    folders = ["/", "/tmp", "/dev/shm", "/usr", str(Path.home()), sys.prefix, ROOT, ROOT / "coursekit/exercises"]
    named = [path for folder in folders for path in Path(folder).iterdir() if _carries_mark(path.name)]
    texts = [*ROOT.glob("coursekit/**/*.py"), Path(np.__file__), Path(os.__file__), Path("/etc/passwd")]
    texts += [Path(folder, f"{kind}customize.py") for folder in (sys.prefix, Path.home()) for kind in ("site", "user")]
    return [str(path) for path in named] + [str(path) for path in texts if path.exists() and MARK in path.read_text()]


def _carries_mark(text: str) -> bool:
    return text.replace("_", " ").startswith(MARK)


def lines(path: Path) -> list[dict]:
    """Return the lines of a results.jsonl."""
    return [json.loads(line) for line in path.read_text().splitlines()]
