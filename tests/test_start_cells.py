"""The cell that starts Ray: run twice, or after somebody's own `ray.init`, it ends what ran before; and a check says what Ray lacks."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator

import nbformat
import pytest

from coursekit.basics.paths import SOLUTIONS
from coursekit.grading.grading_plan import Master
from coursekit.grading.submission import read
from coursekit.grading.submission_grader import Grader
from coursekit.judging.exercise import load
from coursekit.learner.checks import check
from coursekit.learner.progress import attempts
from coursekit.learner.session import begin
from coursekit.sandbox.limits import Limits
from coursekit.sandbox.nursery import Nursery, available
from tests import forked
from tests.attacks import code_cell
from tests.chapters import CHAPTERS
from tests.classes import hand_in

STARTS, ENDS = {"ray.init", "OwnCluster"}, {"ray.shutdown", "small_cluster"}
STARTING = [
    chapter for chapter in CHAPTERS if chapter != "ch07_environments"
]  # its cell needs what the chapter defines
SOON = ("ch01_tasks", "ch04_scheduling", "ch19_operate")  # one Ray, a cluster, and a cell that sets RAY_ADDRESS
TWICE = """
import json
import sys

import psutil
import ray

from coursekit.ray_bridge.quiet import quiet

quiet()
ray.init(num_cpus=7, include_dashboard=False)  # somebody's own
names = {"__name__": "__main__", "display": print}
for source in json.loads(sys.stdin.read()):
    exec(source, names)
    raylets = [each for each in psutil.Process().children(recursive=True) if each.name() == "raylet"]
    has = ray.cluster_resources()["CPU"] if ray.is_initialized() else 0
    print("has", len(raylets), has, file=sys.stderr)
"""


def cells(chapter: str) -> list[str]:
    notebook = nbformat.read(SOLUTIONS / f"{chapter}.ipynb", as_version=4)
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def calls(source: str) -> Iterator[tuple[str, int]]:
    """Yield the name and the line of each call that a cell makes itself, and not in a function that it defines."""
    left: list[ast.AST] = [ast.parse("\n".join(line for line in source.splitlines() if line[:1] not in "%!"))]
    for node in left:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            left.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node.lineno


def starts(source: str) -> list[int]:
    return [line for name, line in calls(source) if name in STARTS]


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_cell_that_starts_ray_first_ends_the_one_before(chapter):
    found = [source for source in cells(chapter) if starts(source)]
    assert found
    for source in found:
        ends = [line for name, line in calls(source) if name in ENDS]
        assert ends, f"This cell cannot be run twice: begin it with ray.shutdown().\n{source}"
        assert min(ends) < min(starts(source)), f"ray.shutdown() comes first.\n{source}"
    assert "references and actors" in found[0]  # are gone: it says so, once


@pytest.mark.slow
@pytest.mark.parametrize(
    "chapter",
    [pytest.param(name, marks=() if name in SOON else pytest.mark.nightly) for name in STARTING],
)
def test_the_start_cell_runs_twice_and_after_ones_own_ray(chapter, tmp_path):
    sources = cells(chapter)
    place = next(index for index, source in enumerate(sources) if starts(source))
    before = [source for source in sources[:place] if re.match(r"import |from ", source)]
    start = sources[place].rstrip(";")
    script = tmp_path / "twice.py"
    script.write_text(TWICE)
    run = subprocess.run(
        forked.command([sys.executable, str(script)]),
        input=json.dumps([*before, start, start]),
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    *_, first, second = re.findall(r"^has (.+)$", run.stderr, re.MULTILINE)
    assert first == second
    assert first.split()[1] != "7.0"


@pytest.fixture
def ray_has(tmp_path, monkeypatch):
    """Return a function that has Ray say what it has; nothing is started."""
    import ray

    monkeypatch.setenv("COURSEKIT_HOME", str(tmp_path))

    def has(nodes: int, **resources: float) -> None:
        monkeypatch.setattr(ray, "is_initialized", lambda: nodes > 0)
        monkeypatch.setattr(ray, "cluster_resources", lambda: resources)
        monkeypatch.setattr(ray, "nodes", lambda: [{"Alive": True}] * nodes + [{"Alive": False}])

    return has


def answer(*args: object) -> None:
    raise AssertionError("It is not the answer's fault.")


@pytest.mark.parametrize(
    ("chapter", "name", "nodes", "resources", "said"),
    [
        (
            "ch01_tasks",
            "first_k",
            0,
            {},
            "a Ray with `CPU: 4`, and none is running. Run the chapter's cell with `ray.init`",
        ),
        (
            "ch01_tasks",
            "bounded_map",
            1,
            {"CPU": 2.0},
            "a Ray with `CPU: 4`, and yours has `CPU: 2`. Run the chapter's cell",
        ),
        (
            "ch04_scheduling",
            "gang",
            1,
            {"CPU": 16.0},
            "yours has `node: 1`. Run the chapter's cells with `ray.init` and `add_nodes`",
        ),
        ("ch04_scheduling", "gang", 1, {"CPU": 2.0}, "`node: 3, CPU: 6`, and yours has `node: 1, CPU: 2`"),
        ("ch04_scheduling", "no_deadlock", 1, {"CPU": 2.0}, "and yours has `license: 0`"),
    ],
)
def test_a_check_says_first_what_ray_lacks_and_which_cell_to_run(chapter, name, nodes, resources, said, ray_has):
    ray_has(nodes, **resources)
    begin(chapter)
    result = check(name, answer)
    assert (result.status, result.earned) == ("todo", 0)
    assert said in result.message
    assert attempts(chapter, name) == 0


def test_a_check_that_needs_no_ray_starts_none(ray_has):
    ray_has(0)
    begin("ch08_rollouts")
    assert "Ray" not in check("gae", answer).message


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_what_checks_need_is_what_the_chapters_cells_give(chapter):
    """More CPUs would close a check to everybody; fewer would let a Ray through that is too small."""
    needs = [item.needs for item in load(chapter).values() if item.kind == "exercise" and item.needs]
    giving = [source for source in cells(chapter) if {"ray.init", "add_nodes"} & {name for name, _ in calls(source)}]
    first, *more = [int(number) for number in re.findall(r'num_cpus"?[=:] ?(\d)', "\n".join(giving))] or [0]
    for each in needs:
        if "node" in each:
            assert each.get("CPU", 0) <= first + sum(more)
        else:
            assert each["CPU"] == first


@pytest.mark.slow
@pytest.mark.skipif(bool(available()), reason=f"no sandbox here: {available()}")
def test_in_grading_neither_a_students_own_first_cell_nor_the_cores_turn_a_verdict(tmp_path):
    document = json.loads((SOLUTIONS / "ch01_tasks.ipynb").read_text(encoding="utf-8"))
    for cell in document["cells"]:
        cell["source"] = re.sub(r"^ray\.init\(num_cpus=4,", "ray.init(num_cpus=2,", "".join(cell["source"]), flags=re.M)
    document["cells"] = [cell for cell in document["cells"] if "demo" not in cell["metadata"].get("tags", [])]
    document["cells"].insert(0, code_cell("import ray\nray.init(num_cpus=1)"))
    path = hand_in(tmp_path, "anna", document, chapter="ch01_tasks")
    with Nursery(Limits()) as nursery:
        graded = Grader(nursery, Limits(), seed=1).grade(read(path), Master.of(SOLUTIONS / "ch01_tasks.ipynb"))
    assert {
        name: result.message for name, result in graded.results.items() if result.kind == "exercise"
    } == dict.fromkeys((item.name for item in load("ch01_tasks").values() if item.kind == "exercise"), "")
