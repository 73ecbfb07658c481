"""How fast a class is graded, beside nbgrader's autograde and otter, on the same submissions and the same cores.

    python benchmarks/grading.py plain --students 20        a one-exercise notebook without Ray
    python benchmarks/grading.py ch01_tasks --students 20 --all-cells    (a second line: the same with all cells)
    python benchmarks/grading.py ch12_env_runners --students 4
    python benchmarks/grading.py ch01_tasks --students 300 --three-nodes  coursekit alone, here and on a cluster of three nodes
    python benchmarks/grading.py growth                     coursekit alone: 300 and 1,000 plain submissions

`--otter PYTHON`, the Python of an environment with otter-grader, adds otter to the plain comparison (in the course's own it
would replace pinned versions). Run it alone on a machine; compare ratios, not seconds.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import nbformat

from coursekit.basics.paths import ROOT, SOLUTIONS, path_with_scripts

OTTER_TEST = """OK_FORMAT = True
test = {"name": "double", "points": 1, "suites": [{"type": "doctest", "cases": [
    {"code": ">>> double(3)\\n6", "hidden": False, "locked": False},
    {"code": ">>> double(-1)\\n-2", "hidden": False, "locked": False},
]}]}
"""
UNPROTECTED = "--Autograde.exporter_class=nbconvert.exporters.NotebookExporter"  # our configuration has nbgrader refuse
ENV = os.environ | {"PATH": path_with_scripts(), "COURSEKIT_QUICK": "1"}


def plain_source() -> nbformat.NotebookNode:
    """Return a notebook with one exercise and one test cell, as an instructor without coursekit writes it."""
    answer = "def double(x):\n    ### BEGIN SOLUTION\n    return 2 * x\n    ### END SOLUTION"
    cells = [nbformat.v4.new_markdown_cell("# Plain"), nbformat.v4.new_code_cell(answer)]
    cells[1].metadata["nbgrader"] = _meta("answer", solution=True)
    cells.append(nbformat.v4.new_code_cell("assert double(3) == 6\nassert double(-1) == -2"))
    cells[2].metadata["nbgrader"] = _meta("double", grade=True, locked=True, points=1)
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return nbformat.v4.new_notebook(cells=cells, metadata=kernel)


def _meta(grade_id: str, **flags: object) -> dict:
    usual = {"grade": False, "solution": False, "locked": False, "task": False, "schema_version": 3}
    return usual | {"grade_id": grade_id, "cell_type": "code"} | flags


def course(folder: Path, assignment: str, students: int) -> Path:
    """Make a course in which every other student handed in the solution, the rest nothing but the stubs."""
    shutil.copy(ROOT / "coursekit/author/nbgrader_config.py", folder)
    source = folder / "source" / assignment / f"{assignment}.ipynb"
    source.parent.mkdir(parents=True)
    if assignment == "plain":
        nbformat.write(plain_source(), source)
    else:
        shutil.copy(SOLUTIONS / f"{assignment}.ipynb", source)
    run(folder, "nbgrader", "generate_assignment", assignment)
    unsolved = folder / "release" / assignment / source.name
    for number in range(students):
        target = folder / "submitted" / f"student{number:04}" / assignment
        target.mkdir(parents=True)
        shutil.copy(source if number % 2 == 0 else unsolved, target)
    return folder


def run(folder: Path, module: str, *arguments: str, python: str = sys.executable) -> tuple[float, float]:
    """Run a command in a folder; return its wall seconds and the CPU seconds of it and its children."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [python, "-m", module, *arguments]
    done = subprocess.run(command, cwd=folder, env=ENV, capture_output=True, text=True)
    if done.returncode:  # nbgrader ends so when it could not grade one of many
        lines = (done.stdout + done.stderr).splitlines()
        print(f"{module} ended with {done.returncode}:", *[line for line in lines if "rror" in line][-15:], sep="\n  ")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, cpu


def scores(folder: Path, assignment: str) -> list[float]:
    """Return the scores in a course's gradebook, in the order of the students."""
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{folder}/gradebook.db") as gradebook:
        entries = gradebook.assignment_submissions(assignment)
        return [entry.score for entry in sorted(entries, key=lambda entry: entry.student.id)]


def otter(folder: Path, python: str) -> tuple[float, float]:
    """Grade the plain notebooks that were handed in with `otter run`, one after the other, as it does."""
    place = folder / "otter"
    place.mkdir()
    with zipfile.ZipFile(place / "autograder.zip", "w") as archive:
        archive.writestr("tests/double.py", OTTER_TEST)
        archive.writestr("otter_config.json", "{}")
    wall = cpu = 0.0
    for path in sorted(folder.glob("submitted/*/plain/plain.ipynb")):
        results = place / path.parts[-3]
        results.mkdir()
        nbformat.write(for_otter(path), results / path.name)
        command = ["otter", "run", "-a", "autograder.zip", "-o", str(results), str(results / path.name)]
        seconds = run(place, *command, python=python)
        wall, cpu = wall + seconds[0], cpu + seconds[1]
    return wall, cpu


def for_otter(path: Path) -> nbformat.NotebookNode:
    """Return a plain submission as otter wants it: the same answer, checked by its name."""
    notebook = nbformat.read(path, as_version=4)
    cells = [nbformat.v4.new_code_cell("import otter\ngrader = otter.Notebook()"), notebook.cells[1]]
    cells.append(nbformat.v4.new_code_cell('grader.check("double")'))
    return nbformat.v4.new_notebook(cells=cells, metadata=notebook.metadata)


def scores_of_otter(folder: Path) -> list[float]:
    """Return the scores that otter has written, in the order of the students."""
    results = [json.loads(path.read_text()) for path in sorted(folder.glob("otter/*/results.json"))]
    return [sum(test.get("score", 0) for test in result["tests"]) for result in results]


def compare(assignment: str, students: int, all_cells: bool, otter_python: str) -> dict[str, str]:
    """Grade the same submissions with everybody; print the times, each rival's beside each of ours, and return them."""
    ours: list[tuple[str, float, float]] = []
    figures: list[str] = []

    def timed(name: str, wall: float, cpu: float, rival: bool = True) -> None:
        print(f"{name:20} {wall:8.1f} s {wall / students:8.3f} s each {cpu:8.1f} CPU s", flush=True)
        figures.append(f"{name} {wall:.0f} s".removeprefix("coursekit grade "))
        if not rival:
            ours.append((name, wall, cpu))
        for own, own_wall, own_cpu in ours if rival else ():
            print(f"    {wall / own_wall:6.1f} times {own}, CPU {cpu / own_cpu:6.1f} times", flush=True)

    print(f"{students} submissions of {assignment}", flush=True)
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        own, theirs = course(Path(one), assignment, students), course(Path(other), assignment, students)
        timed("coursekit grade", *run(own, "coursekit.cli", "grade", "submitted"), rival=False)
        if all_cells:
            again = ["grade", "submitted", "--again", "--all-cells"]
            timed("… --all-cells", *run(own, "coursekit.cli", *again), rival=False)
        timed("nbgrader autograde", *run(theirs, "nbgrader", "autograde", assignment, UNPROTECTED))
        found = {"coursekit": scores(own, assignment), "nbgrader": scores(theirs, assignment)}
        if assignment == "plain" and otter_python:
            timed("otter run", *otter(own, otter_python))
            found["otter"] = scores_of_otter(own)
        same_scores(found)
    return {graded(assignment, students): ", ".join(figures)}


def here_and_on_nodes(assignment: str, students: int) -> dict[str, str]:
    """Grade the same submissions with the same seed on this machine and on three nodes of it; print and return the times."""
    from tests.nodes import three_nodes

    print(f"{students} submissions of {assignment}", flush=True)
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        here, there = course(Path(one), assignment, students), course(Path(other), assignment, students)
        command = ["coursekit.cli", "grade", "submitted", "--seed", "7"]
        wall, cpu = run(here, *command)
        print(f"one machine {wall:8.1f} s {wall / students:8.3f} s each {cpu:8.1f} CPU s", flush=True)
        with three_nodes() as nodes:
            spread, _ = run(there, *command, "--address", nodes.address)  # the nodes' CPU seconds are not the command's
        print(f"three nodes {spread:8.1f} s {spread / students:8.3f} s each", flush=True)
        same_scores({"one machine": scores(here, assignment), "three nodes": scores(there, assignment)})
    figure = f"{wall:.0f} s, on a cluster of three nodes within this machine {spread:.0f} s"
    return {graded(assignment, students): figure}


def growth() -> dict[str, str]:
    """Grade plain classes of 300 and 1,000; print the time and the grader's memory, and return the times."""
    figures = {}
    for students in (300, 1000):
        with tempfile.TemporaryDirectory() as folder:
            place = course(Path(folder), "plain", students)
            wall, cpu = run(place, "coursekit.cli", "grade", "submitted")
            peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            print(
                f"{students:5} {wall:7.1f} s {1000 * wall / students:6.1f} ms each {cpu:7.1f} CPU s, largest process {peak:.0f} MB"
            )
            figures[graded("plain", students)] = f"{wall:.0f} s"
    return figures


def graded(assignment: str, students: int) -> str:
    """Return in words what was graded."""
    what = "with one exercise, without Ray" if assignment == "plain" else f"of Chapter {int(assignment[2:4])}"
    return f"grade {students:,} notebooks {what}"


def same_scores(found: dict[str, list[float]]) -> None:
    """Say that all graders gave the same scores; raises SystemExit where they didn't, since then their times don't compare."""
    first, *others = found.values()
    if any(scores != first for scores in others):
        sys.exit(f"not the same scores: {found}")
    print("same scores")


def main() -> dict[str, str]:
    """Run the comparison that was asked for, and return its figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("assignment")
    parser.add_argument("--students", type=int, default=20)
    parser.add_argument("--all-cells", action="store_true")
    parser.add_argument("--three-nodes", action="store_true")
    parser.add_argument("--otter", default="", metavar="PYTHON")
    options = parser.parse_args()
    if options.assignment == "growth":
        return growth()
    if options.three_nodes:
        return here_and_on_nodes(options.assignment, options.students)
    return compare(options.assignment, options.students, options.all_cells, options.otter)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # where `tests` is
    for claim, figure in main().items():
        print(f"| {claim} | {figure} |")
