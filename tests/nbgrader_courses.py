"""Courses as nbgrader makes them, and the scores that nbgrader's gradebook holds for them."""

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
from nbgrader.api import Gradebook

from coursekit.basics.paths import ROOT
from coursekit.sandbox.limits import Limits
from tests import forked, kernels
from tests.classes import grade

NBGRADER = f"{sys.prefix}/bin/nbgrader"
UNPROTECTED = "--Autograde.exporter_class=nbconvert.exporters.NotebookExporter"  # our configuration refuses otherwise
LIMITS = Limits(cell_seconds=180, total_seconds=600)

AUTOTESTS = """python3:
  setup: "from hashlib import md5"
  hash: "md5({{snippet}}.encode()).hexdigest()"
  dispatch: "type({{snippet}})"
  normalize: "str({{snippet}})"
  check: 'assert {{snippet}} == "{{value}}", "{{message}}"'
  success: "print('right')"
  templates:
    default:
      - test: "{{snippet}}"
        fail: "another value"
"""


def nbgrader(course: Path, *arguments: str) -> None:
    env = os.environ | forked.kernels() | {"COURSEKIT_QUICK": "1"}
    sockets = [f"--KernelManager.{name}={value}" for name, value in kernels.sockets().items()]
    command = forked.command([sys.executable, NBGRADER, *arguments, *sockets])
    run = subprocess.run(command, cwd=course, env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-30000:]


@contextlib.contextmanager
def formgrader(course: Path, runtime: Path) -> Iterator[Callable[[str], str]]:
    """Yield a function that opens a page of nbgrader's formgrader, in a Jupyter server that was started in the course's folder."""
    token = secrets.token_hex()
    command = [sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root", "--port=0"]
    env = os.environ | {"JUPYTER_RUNTIME_DIR": str(runtime), "JUPYTER_TOKEN": token}
    nothing = subprocess.DEVNULL
    with subprocess.Popen(command, cwd=course, env=env, stdout=nothing, stderr=nothing) as server:
        try:
            url = _url_of(server, runtime / f"jpserver-{server.pid}.json")
            yield lambda path: _read(f"{url}formgrader/{path}?token={token}")
        finally:
            _end(server)


def _read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as page:
        text: str = page.read().decode()
        return text


def _end(server: subprocess.Popen) -> None:
    """End a server, one that does not want to as well."""
    server.terminate()
    try:
        server.wait(20)
    except subprocess.TimeoutExpired:
        server.kill()


def _url_of(server: subprocess.Popen, told: Path) -> str:
    """Return where a server is, once it answers there: it writes that down a moment earlier."""
    deadline = time.monotonic() + 120
    while True:
        assert server.poll() is None
        assert time.monotonic() < deadline
        with contextlib.suppress(FileNotFoundError, json.JSONDecodeError, urllib.error.URLError):
            url: str = json.loads(told.read_text())["url"]
            _read(f"{url}api")
            return url
        time.sleep(0.1)


def course_of(folder: Path, assignment: str, source: nbformat.NotebookNode) -> Path:
    """Make a course with one assignment, handed out by nbgrader."""
    (folder / "source" / assignment).mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "coursekit/author/nbgrader_config.py", folder)
    nbformat.write(source, folder / "source" / assignment / f"{assignment}.ipynb")
    nbgrader(folder, "generate_assignment", assignment)
    return folder


def scores(course: Path, assignment: str) -> dict[tuple[str, str], tuple]:
    """Return what a gradebook says of each student's cells: points, whether a person is to look, the comment."""
    found: dict[tuple[str, str], tuple] = {}
    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        for submission in book.assignment_submissions(assignment):
            for notebook in submission.notebooks:
                for mark in notebook.grades:
                    found[submission.student.id, mark.name] = (mark.auto_score, bool(mark.needs_manual_grade))
                for comment in notebook.comments:
                    found[submission.student.id, f"comment on {comment.name}"] = (comment.auto_comment,)
    return found


def both(course: Path, assignment: str) -> tuple[dict, dict]:
    """Return the scores by `coursekit grade` and by `nbgrader autograde`, each in a copy of the course."""
    other = course.with_name(f"{course.name}-nbgrader")
    shutil.copytree(course, other)
    records = grade(course, limits=LIMITS, jobs=2)
    assert {record["outcome"] for record in records.values()} == {"graded"}
    nbgrader(other, "autograde", assignment, UNPROTECTED)
    return scores(course, assignment), scores(other, assignment)
