"""A perfect hand-in earns all points, however its student works and whatever has saved it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from coursekit.sandbox.nursery import available
from tests.attacks import CHAPTER, RIGHT, code_cell, grade_id, notebook, test_cells, without_tests
from tests.classes import grade, hand_in

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(available()), reason=f"no sandbox here: {available()}")]
KEY = "what_distribution_costs"
CALLS = "def best_seconds(tasks, seconds_each, workers):\n    return rounds(tasks, workers) * seconds_each"
MODULE = "def rounds(tasks, workers):\n    return -(-tasks // workers)\n"

# What stands in the cells of a notebook that differs in nothing else.
CELLS = {
    "as_it_is": {},
    "own_helpers": {"first": MODULE, "best_seconds": CALLS},
    "a_helper_in_the_cell_of_the_answer": {"best_seconds": MODULE + CALLS},
    "a_helper_that_comes_later": {"best_seconds": CALLS + "\n\n" + MODULE},
    "types_and_a_cache": {
        "first": "from __future__ import annotations\nfrom functools import cache",
        "best_seconds": "@cache\ndef best_seconds(tasks: int, seconds_each: float, workers: int) -> float:\n"
        '    """Return the seconds."""\n    return -(-tasks // workers) * seconds_each',
    },
    "a_lambda": {
        "best_seconds": "best_seconds = lambda tasks, seconds_each, workers: -(-tasks // workers) * seconds_each"
    },
    "an_object": {
        "best_seconds": "class Plan:\n    def __call__(self, tasks, seconds_each, workers):\n"
        "        return -(-tasks // workers) * seconds_each\n\nbest_seconds = Plan()"
    },
    "numpy": {
        "best_seconds": "import numpy as np\n\ndef best_seconds(tasks, seconds_each, workers):\n"
        "    return np.ceil(tasks / workers) * seconds_each"
    },
    "magics": {
        "first": "%load_ext autoreload\n%autoreload 2\n%config InlineBackend.figure_format = 'retina'\n%matplotlib inline",
        "best_seconds": "%%time\n" + RIGHT["best_seconds"],
        "last": "%timeit -n 1 -r 1 best_seconds(1, 1, 1)\n%whos\n!ls",
    },
    "plots_and_tables": {
        "first": "import matplotlib.pyplot as plt, pandas as pd\nplt.style.use('ggplot')\nfig, ax = plt.subplots()\n"
        "ax.plot([1, 2])\nplt.show()\ndisplay(pd.DataFrame({'a': [1]}))"
    },
    "prints_and_warns": {
        "first": "import logging, sys, warnings\nwarnings.warn('old')\nlogging.warning('!')\nprint('!', file=sys.stderr)",
        "best_seconds": RIGHT["best_seconds"].replace("    return", "    print('called')\n    return"),
    },
    "asks_and_answers": {"first": "try:\n    name = input('Who?')\nexcept Exception:\n    name = 'nobody'"},
    "an_answer_that_is_typed": {KEY: f"{KEY} = ' c'.strip()"},
    "awaits": {"first": "import asyncio\nawait asyncio.sleep(0)\nasync def waits():\n    return 1\nawait waits()"},
    "threads": {
        "first": "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor() as pool:\n"
        "    list(pool.map(abs, [-1]))"
    },
    "writes_a_module": {
        "first": f"%%writefile rounding.py\n{MODULE}",
        "best_seconds": "from rounding import rounds\n\n" + CALLS,
    },
    "tries_that_failed": {"first": "1 / 0", "last": "best_seconds()"},
    "installs": {"first": "!pip install --quiet numpy\n%pip --version"},
    "mistakes_put_right_below": {
        "best_seconds": "def best_seconds(*inputs):\n    return 0\n\n" + RIGHT["best_seconds"]
    },
}


def every(document: dict, **parts: Callable[[dict], object]) -> dict:
    """Return a notebook with some parts of all its cells written again."""
    cells = [cell | {name: part(cell) for name, part in parts.items()} for cell in document["cells"]]
    return document | {"cells": cells}


def colab(document: dict) -> dict:
    cells = every(document, metadata=lambda cell: cell["metadata"] | {"id": "sQ9", "outputId": "1f"}, source=as_lines)
    first = code_cell("from google.colab import drive\ndrive.mount('/content/drive')", id="x1")
    described = {"accelerator": "GPU", "colab": {"provenance": [], "gpuType": "T4"}, "kernelspec": {"name": "python3"}}
    return cells | {"cells": [first, *cells["cells"]], "metadata": described, "nbformat_minor": 0}


def vscode(document: dict) -> dict:
    cells = every(
        document, metadata=lambda cell: cell["metadata"] | {"vscode": {"languageId": "python"}}, source=as_lines
    )
    return cells | {"metadata": {"kernelspec": {"display_name": ".venv", "name": "python3"}, "orig_nbformat": 4}}


def as_lines(cell: dict) -> list[str]:
    return "".join(cell["source"]).splitlines(keepends=True)


def with_outputs(document: dict) -> dict:
    output = {"output_type": "stream", "name": "stderr", "text": ["seen\n"]}
    return every(
        document, outputs=lambda cell: [output] if cell["cell_type"] == "code" else [], execution_count=lambda _: 7
    )


def as_in_2014(cell: dict) -> dict:
    common = {"cell_type": cell["cell_type"], "metadata": cell["metadata"]}
    if cell["cell_type"] != "code":
        return common | {"source": cell["source"]}
    return common | {"input": cell["source"], "language": "python", "outputs": [], "collapsed": False}


def old(document: dict) -> dict:
    """Return a notebook in the format of before 2015."""
    cells = [as_in_2014(cell) for cell in document["cells"]]
    return {"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": [{"cells": cells, "metadata": {}}]}


def split(document: dict) -> dict:
    """Return a notebook with an answer that was split in two, and cells of its own between all others."""
    helper = code_cell(MODULE)
    answer = next(cell for cell in document["cells"] if grade_id(cell) == "answer_best_seconds")
    answer["source"] = CALLS
    cells = [each for cell in document["cells"] for each in (cell, code_cell("x = 1"))]
    return document | {"cells": [cells[0], helper, *cells[1:]]}


# What has become of the notebook as a whole.
SAVED: dict[str, Callable[[dict], dict]] = {
    "by_colab": colab,
    "by_vscode": vscode,
    "with_outputs": with_outputs,
    "in_an_old_format": old,
    "split": split,
    "without_metadata": lambda document: every(document | {"metadata": {}}, metadata=lambda cell: {}),
    "without_ids": lambda document: every(document, id=lambda cell: None),
    "without_tests": without_tests,
    "with_windows_line_ends": lambda document: every(
        document, source=lambda cell: "".join(cell["source"]).replace("\n", "\r\n")
    ),
    "with_tests_that_were_tried": lambda document: tried(document),
}
FILES = ["a_module_beside_it", "downloaded_twice", "with_a_byte_order_mark", "with_checkpoints"]


def tried(document: dict) -> dict:
    """Return a notebook whose test cells were edited by somebody who looked what they do."""
    for cell in test_cells(document):
        cell["source"] = "".join(cell["source"]) + "\nprint('tested')"
    return document


def lay(course: Path) -> None:
    """Hand in the notebooks that lie among other files, or in another encoding."""
    path = hand_in(course, "a_module_beside_it", notebook(best_seconds="from rounding import rounds\n\n" + CALLS))
    (path.parent / "rounding.py").write_text(MODULE)
    path = hand_in(course, "downloaded_twice", notebook())
    path.with_name(f"{CHAPTER} (1).ipynb").write_text("{}")
    path = hand_in(course, "with_a_byte_order_mark", notebook())
    path.write_text(path.read_text(), encoding="utf-8-sig")
    path = hand_in(course, "with_checkpoints", notebook())
    (path.parent / ".ipynb_checkpoints").mkdir()
    (path.parent / f".ipynb_checkpoints/{CHAPTER}-checkpoint.ipynb").write_text("{}")


@pytest.fixture(scope="module")
def records(tmp_path_factory) -> dict[str, dict]:
    course = tmp_path_factory.mktemp("class")
    for student, cells in CELLS.items():
        hand_in(course, student, notebook(**cells))
    for student, saved in SAVED.items():
        hand_in(course, student, saved(notebook()))
    lay(course)
    return grade(course)


@pytest.mark.parametrize("style", [*CELLS, *SAVED, *FILES])
def test_a_perfect_hand_in_earns_all_points(style, records):
    record = records[f"{style}/{CHAPTER}/{CHAPTER}"]
    assert (record["score"], record["outcome"]) == (2, "graded"), record
