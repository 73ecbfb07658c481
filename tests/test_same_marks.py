"""What honest notebooks meet is the same in both graders: their gradebooks are compared, cell by cell."""

import json
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from coursekit.author import nbgrader_config
from coursekit.sandbox.nursery import available
from tests.classes import hand_in
from tests.nbgrader_cells import KERNEL, answer, locked
from tests.nbgrader_courses import AUTOTESTS, both, course_of, nbgrader

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(available()), reason=f"no sandbox here: {available()}")]

# Each a notebook's cells: those without a name run, those with one test for two points.
MEETS = {
    "figures": "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]);",
    "backend": "assert 'inline' in plt.get_backend() and not plt.get_fignums()",
    "shell": "assert type(get_ipython()).__name__ == 'ZMQInteractiveShell' and 'IPKernelApp' in get_ipython().config",
    "time": "%time x = 3\nassert x == 3",
    "bang": "files = !ls\nassert 'timestamp.txt' not in files",
    "capture": "%%capture caught\nprint('a')\ndisplay(1)",
    "captured": "assert (caught.stdout, len(caught.outputs)) == ('a\\n', 1)",
    "input": "try:\n    input('?')\nexcept Exception as e:\n    assert type(e).__name__ == 'StdinNotImplementedError'",
    "getpass": "import getpass\ntry:\n    getpass.getpass()\nexcept Exception as e:\n    assert 'StdinNot' in repr(e)",
    "asks": "name = input('Who are you? ')",
    "loop": "import asyncio\nloop = asyncio.get_running_loop()",
    "awaits": "await asyncio.sleep(0)\nassert asyncio.get_running_loop() is loop",
    "own_loop": "asyncio.run(asyncio.sleep(0))",
    "later": "done = []\nasync def work():\n    await asyncio.sleep(0.1)\n    done.append(1)\nloop.create_task(work());",
    "between": "await asyncio.sleep(0.5)\nassert done == [1]",
    "context": "import decimal\ndecimal.getcontext().prec = 5",
    "kept": "assert decimal.getcontext().prec == 5",
    "variable": "import os\nassert os.environ['NBGRADER_EXECUTION'] == 'autograde'",
    "terminal": "assert os.environ['TERM'] == 'xterm-color' and os.environ['PAGER'] == 'cat'",
    "folder": "assert open('data.csv').read() == '1,2' and '' in __import__('sys').path",
    "writes": "%%writefile made/by_me.txt\nmade by a cell",
    "reads": "os.makedirs('made', exist_ok=True)\nopen('made/here.txt', 'w').write('made by a cell')\nassert os.listdir('made')",
    "half": "1.0",
    "silent": "1.0;",
    "silent_with_a_comment": "1.0;  # half of the points",
    "comment": "1.0  # half of the points;",
    "last": "_",
    "nothing": "None",
    "text": "'1.0'",
    "true": "True",
    "displayed": "display(1.0)",
    "many_lines": "(\n    0.5\n    + 0.5\n)",
    "enum": "from enum import IntEnum\nIntEnum('Points', {'one': 1}).one",
    "subclass": "type('Half', (float,), {})(1.0)",
    "represented": "type('Half', (), {'__repr__': lambda self: '1.0'})()",
    "precision": "%precision 1\n0.96",
    "not_a_number": "float('nan')",
    "below": "-1",
    "assigned": "points = 1",
    "in_a_branch": "if True:\n    1.0",
    "timed": "%time 1.0",
    "fails_late": "display(1.0)\nraise ValueError",
    "fails_to_parse": "1.0 +",
    "exits": "raise SystemExit",
    "much_before": "for number in range(1100):\n    display(number)\n1.0",
    "all_shown": "get_ipython().ast_node_interactivity = 'all'",
    "first_counts": "0.5\n2",
}


SHOWS = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\ndisplay('displayed')\n5"


def meeting(cells: dict[str, str]) -> nbformat.NotebookNode:
    tests = [locked(name, source, points=2) for name, source in cells.items()]
    return new_notebook(cells=[new_code_cell(SHOWS), *tests], metadata={"kernelspec": KERNEL})


@pytest.fixture
def course(tmp_path) -> Path:
    (tmp_path / "course/source/hw").mkdir(parents=True)
    return tmp_path / "course"


def handed_in(course: Path, source: nbformat.NotebookNode, student: str = "ada") -> Path:
    """Hand out a notebook, and hand it in as it is; return where it lies."""
    course_of(course, "hw", source)
    return hand_in(course, student, json.loads((course / "release/hw/hw.ipynb").read_text()), "hw")


def test_a_cell_meets_what_a_kernel_gives_it_and_its_value_counts_as_it_is_shown(course):
    (course / "source/hw/data.csv").write_text("1,2")
    handed_in(course, meeting(MEETS))
    ours, theirs = both(course, "hw")
    assert ours == theirs
    points = {name: score for (_, name), (score, _) in ours.items()}
    assert {name for name, score in points.items() if score == 0} == {
        *("asks", "own_loop", "writes", "fails_late", "fails_to_parse", "exits")
    }
    assert {name: score for name, score in points.items() if score not in (0, 2)} == dict.fromkeys(
        ["half", "comment", "much_before", "last", "many_lines", "subclass", "represented", "precision", "timed"], 1
    ) | {"first_counts": 0.5}
    assert (course / "autograded/ada/hw/made/here.txt").read_text() == "made by a cell"
    first = nbformat.read(course / "autograded/ada/hw/hw.ipynb", as_version=4).cells[0]
    assert [(each.output_type, sorted(each.data)) for each in first.outputs] == [
        ("display_data", ["text/plain"]),
        ("execute_result", ["text/plain"]),
        ("display_data", ["image/png", "text/plain"]),
    ]


CONFIG = """
    config.CourseDirectory.source_directory = "masters"
    config.Autograde.exclude_overwriting = {"hw": ["theirs.py"]}
"""
CONFIGURED = [
    new_code_cell("import ours, theirs\ntry:\n    import mine\nexcept ImportError:\n    mine = theirs"),
    answer("def double(x):\n    ### BEGIN SOLUTION\n    return 2 * x\n    ### END SOLUTION"),
    locked("tested", "# AUTOTEST double(2); double(3)", points=2),
    locked("hashed", "assert double(0) == 0\n# HASHED AUTOTEST double(4)", points=2),
    locked(
        "modules",
        "if theirs.name == 'student':\n    assert (ours.name, theirs.name, mine.__name__) == ('instructor', 'student', 'mine')",
        points=1,
    ),
]


def test_a_configured_course_with_autotests_and_modules_beside_the_notebook(course):
    notebook = new_notebook(cells=CONFIGURED, metadata={"kernelspec": KERNEL})
    master = course / "masters/hw"
    master.mkdir(parents=True)
    nbformat.write(notebook, master / "hw.ipynb")
    for path in (course / "source").glob("*"):
        path.rmdir()
    (course / "nbgrader_config.py").write_text(Path(nbgrader_config.__file__).read_text() + CONFIG)
    (course / "autotests.yml").write_text(AUTOTESTS)
    for name in ("ours", "theirs"):
        (master / f"{name}.py").write_text("name = 'instructor'")
    nbgrader(course, "generate_assignment", "hw")
    released = json.loads((course / "release/hw/hw.ipynb").read_text())
    for student, function in {"right": "2 * x", "wrong": "x + 2", "nothing": ""}.items():
        cells = [dict(cell) for cell in released["cells"]]
        if function:
            cells[1]["source"] = f"def double(x):\n    return {function}"
        folder = hand_in(course, student, released | {"cells": cells}, "hw").parent
        for name in ("ours", "theirs", "mine"):
            (folder / f"{name}.py").write_text("name = 'student'")
    ours, theirs = both(course, "hw")
    assert ours == theirs
    tests = ("tested", "hashed", "modules")
    assert {student: [ours[student, test][0] for test in tests] for student in ("right", "wrong", "nothing")} == {
        "right": [2, 2, 1],
        "wrong": [0, 0, 1],
        "nothing": [0, 0, 1],
    }
