"""`coursekit grade --address`: the same outcomes as on one machine, also when a node, a nursery or the driver ends in the middle."""

import contextlib
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import nbformat
import psutil
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from coursekit.basics.errors import CommandError
from coursekit.grading import cluster
from coursekit.grading.class_run import Run
from coursekit.grading.outcome import Options
from coursekit.grading.submission import Submission
from coursekit.grading.worker_node import Setup
from coursekit.judging.exercise import load
from coursekit.sandbox.nursery import available
from tests.attacks import CHAPTER, notebook
from tests.classes import SHORT, UNSOLVED, WRONG, grade, hand_in, lines
from tests.nbgrader_cells import answer, locked
from tests.nodes import CPUS, three_nodes

pytestmark = pytest.mark.skipif(bool(available()), reason=f"no sandbox here: {available()}")
SEED = 7
LIMITS = replace(SHORT, cell_seconds=8, total_seconds=120)
LOOKS_AROUND = """import os, socket
print(sorted(os.environ), socket.gethostname(), os.getcwd(), os.getuid())
print([sorted(os.listdir(folder)) for folder in ("/", "/tmp", "/dev/shm", os.environ["HOME"])])
print(sorted(name for name in os.listdir("/proc") if name.isdigit()))"""


# A cluster of three nodes, and what runs on each


@pytest.fixture(scope="module")
def nodes() -> Iterator:
    with three_nodes() as three:
        yield three


def children() -> dict[int, list[psutil.Process]]:
    """Return all processes of this machine by their parent's id: one look, because each takes long on a busy machine."""
    found: dict[int, list[psutil.Process]] = {}
    for process in psutil.process_iter(["ppid"]):
        found.setdefault(process.info["ppid"], []).append(process)
    return found


def raylet(node) -> int:
    return int(node.all_processes["raylet"][0].process.pid)


def below(pid: int, depth: int, known: dict[int, list[psutil.Process]]) -> list[psutil.Process]:
    """Return the processes that many generations below another."""
    nearest = known.get(pid, [])
    return nearest if depth == 1 else [found for child in nearest for found in below(child.pid, depth - 1, known)]


def nurseries(node, known: dict[int, list[psutil.Process]]) -> list[psutil.Process]:
    found = below(raylet(node), 2, known)  # the raylet's workers have started them
    return [process for process in found if "coursekit.sandbox.fork_server" in command(process)]


def command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # it has just ended
        return []


def sandboxes(node, known: dict[int, list[psutil.Process]]) -> list[psutil.Process]:
    """Return the learners' processes that are under way."""
    return [found for nursery in nurseries(node, known) for found in below(nursery.pid, 3, known)]


def busy(nodes) -> list:
    """Return the nodes on which submissions are under way."""
    known = children()
    return [node for node in nodes if sandboxes(node, known)]


class Watch:
    """Looks at the nodes while a class is graded: how many submissions each has under way, and all processes of its sandboxes."""

    def __init__(self, nodes, when: Callable[[], bool], do: Callable[[], object]):
        self.most, self.processes, self.done = [0] * len(nodes), set[psutil.Process](), False
        self._nodes, self._when, self._do, self._over = nodes, when, do, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        while not self._over.wait(0.05):
            known = children()
            for index, node in enumerate(self._nodes):
                self.most[index] = max(self.most[index], len(sandboxes(node, known)))
                for nursery in nurseries(node, known):
                    inside = (found for depth in range(1, 6) for found in below(nursery.pid, depth, known))
                    self.processes |= {nursery, *inside}
            if not self.done and self._when():
                self._do()
                self.done = True

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def left(self) -> list[psutil.Process]:
        """Return who still runs a little later."""
        return psutil.wait_procs(self.processes, timeout=60)[1]


def recorded(course: Path) -> int:
    path = course / "results.jsonl"
    return len(path.read_text().splitlines()) if path.exists() else 0


# A class, and what must be the same with and without a cluster


def slowly(seconds: float, **cells: str) -> dict:
    return notebook(first=f"import time\ntime.sleep({seconds})", **cells)


def hand_in_class(course: Path) -> None:
    for number in range(8):
        hand_in(course, f"a{number}", slowly(0.5 + number % 3 / 4, **({"best_seconds": WRONG} if number % 2 else {})))
    hand_in(course, "b_ends_its_process", notebook(first="import os\nos._exit(3)"))
    hand_in(course, "b_is_unsolved", notebook(**UNSOLVED))
    hand_in(course, "b_looks_around", notebook(first=LOOKS_AROUND))
    hand_in(course, "0_never_ends", notebook(last="while True: pass"))
    hand_in(course, "c_is_broken", notebook()).write_text('{"cells": [')
    (course / f"submitted/c_is_empty/{CHAPTER}").mkdir(parents=True)


def without_times(records: list[dict]) -> dict[str, dict]:
    """Return what was recorded for each submission but how long it took; raises where one has two lines."""
    kept = {record["key"]: {name: record[name] for name in sorted(record)} for record in records}
    assert len(kept) == len(records)
    for record in kept.values():
        for name in ("seconds", "cpu_seconds", "peak_mb", "when"):
            del record[name]
        record["results"] = {
            name: {key: value for key, value in result.items() if key != "seconds"}
            for name, result in record["results"].items()
        }
    return kept


def printed(course: Path) -> dict[str, list]:
    """Return the outputs of all cells by student."""
    notebooks = {path.parts[-3]: nbformat.read(path, 4) for path in course.glob(f"autograded/*/{CHAPTER}/*.ipynb")}
    return {
        student: [output for cell in document.cells for output in cell.get("outputs", []) if "text" in output]
        for student, document in notebooks.items()
    }


def scores(course: Path) -> list[tuple]:
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        return sorted((submission.student.id, submission.score) for submission in book.assignment_submissions(CHAPTER))


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> Path:
    """Return the course of a class that was graded without a cluster."""
    course = tmp_path_factory.mktemp("alone")
    hand_in_class(course)
    grade(course, seed=SEED, jobs=3, limits=LIMITS)
    return course


# The promises


@pytest.mark.slow
def test_a_node_that_is_lost_in_the_middle_changes_no_outcome_and_nothing_is_left_running(
    nodes, alone, tmp_path, monkeypatch, capsys
):
    victims: list = []
    again: list[str] = []
    original = cluster._Crew._again
    monkeypatch.setattr(cluster._Crew, "_again", lambda self, item: again.append(item.student) or original(self, item))

    def is_busy() -> bool:
        victims[:] = busy(nodes.worker_nodes)
        return bool(victims) and recorded(tmp_path) > 0

    def kill_the_node() -> None:
        machine = raylet(victims[0])  # the nursery and its sandboxes have to find out by themselves
        for process in (psutil.Process(machine), *children()[machine]):
            with contextlib.suppress(psutil.NoSuchProcess):  # a worker ends when it likes
                process.kill()

    hand_in_class(tmp_path)
    with Watch(nodes.list_all_nodes(), is_busy, kill_the_node) as watch:
        grade(tmp_path, seed=SEED, jobs=2, address=nodes.address, limits=LIMITS)
    assert watch.done
    nodes.remove_node(victims[0])
    assert again, "nothing was under way on the node"
    assert "will be graded again" in capsys.readouterr().err
    assert without_times(lines(tmp_path / "results.jsonl")) == without_times(lines(alone / "results.jsonl"))
    assert scores(tmp_path) == scores(alone)
    assert printed(tmp_path) == printed(alone)
    assert all(most <= cpus for most, cpus in zip(watch.most, CPUS, strict=True)), watch.most
    assert watch.processes
    assert watch.left() == []


@pytest.fixture
def plain_course(tmp_path) -> Path:
    """Return a course of an instructor's own, without Ray, in which eight have handed in: every second one has it right."""
    hand_in(tmp_path, "nobody", plain(1), "plain")
    (tmp_path / "submitted/nobody").rename(tmp_path / "source")
    for number in range(8):
        hand_in(tmp_path, f"student{number}", plain(number % 2), "plain")
    return tmp_path


def plain(x: int) -> dict:
    """Return a notebook that takes a second, with one answer and its test."""
    cells = [new_code_cell("import time\ntime.sleep(1)"), answer(f"x = {x}", "answer_x")]
    return new_notebook(cells=[*cells, locked("x", "assert x == 1", points=2)])


def assert_every_one_is_graded_once(course: Path) -> None:
    found = [(record["student"], record["outcome"], record["score"]) for record in lines(course / "results.jsonl")]
    assert sorted(found) == [(f"student{number}", "graded", 2 * (number % 2)) for number in range(8)]


@pytest.mark.slow
def test_a_nursery_that_is_killed_on_its_node_costs_nobody_anything(nodes, plain_course):
    killed: list[psutil.Process] = []

    def is_busy() -> bool:
        killed[:] = [nursery for node in busy(nodes.list_all_nodes()) for nursery in nurseries(node, children())][:1]
        return bool(killed)

    with Watch(nodes.list_all_nodes(), is_busy, lambda: killed[0].kill()) as watch:
        grade(plain_course, jobs=2, address=nodes.address)
    assert watch.done
    assert_every_one_is_graded_once(plain_course)
    assert watch.left() == []


@pytest.mark.slow
def test_a_run_on_a_cluster_that_is_interrupted_continues_and_grades_nothing_twice(nodes, plain_course):
    grader = [sys.executable, "-m", "coursekit.cli", "grade", str(plain_course / "submitted")]
    grader += ["--address", nodes.address]
    interrupted = subprocess.Popen(grader, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    with Watch(
        nodes.list_all_nodes(),
        lambda: recorded(plain_course) >= 2,
        lambda: interrupted.send_signal(signal.SIGINT),
    ) as watch:
        said = interrupted.communicate(timeout=120)[0]
    assert interrupted.returncode == 130, said
    assert "run the same command again" in " ".join(said.split())
    assert watch.left() == []
    before = lines(plain_course / "results.jsonl")
    assert 2 <= len(before) < 8
    grade(plain_course, jobs=2, address=nodes.address)
    assert lines(plain_course / "results.jsonl")[: len(before)] == before
    assert_every_one_is_graded_once(plain_course)


def refused(course: Path, address: str) -> str:
    """Return what a person is told; nothing has been graded."""
    with pytest.raises(CommandError) as error:
        grade(course, address=address)
    assert recorded(course) == 0
    return str(error.value)


@pytest.mark.slow
def test_a_node_with_another_coursekit_is_named_and_nothing_is_graded(nodes, plain_course, monkeypatch):
    own = cluster.fingerprint_of_coursekit()
    monkeypatch.setattr(cluster, "fingerprint_of_coursekit", lambda: "0123456789ab")
    told = refused(plain_course, nodes.address)
    assert f"its coursekit differs from the one here ({own} there, 0123456789ab here)" in told
    assert nodes.head_node.node_ip_address in told


@pytest.mark.slow
def test_modules_in_the_folder_where_the_command_is_given_are_never_imported(nodes, plain_course, monkeypatch):
    source = f"open({str(plain_course / 'mark')!r}, 'w')\nraise SystemExit('a module that was handed in')\n"
    handed_in = plain_course / "submitted/student1/plain"
    for name in ("ray", "nbformat", "coursekit", "psutil"):
        (handed_in / f"{name}.py").write_text(source)
    monkeypatch.chdir(handed_in)
    grade(plain_course, only=("student1",), address=nodes.address)
    assert not (plain_course / "mark").exists()
    assert [record["score"] for record in lines(plain_course / "results.jsonl")] == [2]


@pytest.mark.slow
def test_a_node_without_coursekit_is_named_and_nothing_is_graded(nodes, plain_course, tmp_path_factory):
    folder = tmp_path_factory.mktemp("without")
    (folder / "sitecustomize.py").write_text(WITHOUT_COURSEKIT)
    without = nodes.add_node(num_cpus=1, env_vars={"PYTHONPATH": str(folder)})
    try:
        assert "coursekit is not installed there" in refused(plain_course, nodes.address)
    finally:
        nodes.remove_node(without)


WITHOUT_COURSEKIT = """import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "coursekit":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
"""


@pytest.mark.slow
def test_an_address_where_nobody_answers_is_refused_at_once(plain_course):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    assert f"No Ray cluster can be used at {address}" in refused(plain_course, address)


@pytest.mark.slow
def test_an_address_where_something_else_answers_is_refused(plain_course, monkeypatch):
    monkeypatch.setattr(cluster, "ANSWER_SECONDS", 3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        told = refused(plain_course, f"127.0.0.1:{silent.getsockname()[1]}")
    assert "no reply within 3 s" in told


def test_a_chapter_that_measures_time_takes_all_cpus_of_a_node(monkeypatch, plain_course):
    submission = Submission("anna", CHAPTER, CHAPTER, plain_course)
    setup = Setup(Run(plain_course.parent / "other", Options()).masters(), SEED, SHORT, False, True, "")
    assert not cluster._needs_to_be_alone([submission], setup)
    measured = {name: replace(item, alone=True) for name, item in load(CHAPTER).items() if item.kind == "exercise"}
    monkeypatch.setattr(cluster, "load", lambda chapter: measured if chapter == CHAPTER else {})
    assert cluster._needs_to_be_alone([submission], setup)
