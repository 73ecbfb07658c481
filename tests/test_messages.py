"""In a running notebook, a slip is answered in one line that says what to do."""

import nbformat
import pytest
from nbclient import NotebookClient

from tests import kernels

pytestmark = pytest.mark.slow
RIGHT = """def best_seconds(tasks, seconds_each, workers):
    return -(-tasks // workers) * seconds_each
"""
CELLS = {
    "begin": "from coursekit import begin, check, quiz\nbegin('ch00_start')",
    "check too early": "check('best_seconds', best_seconds)",
    "hint not imported": "hint('best_seconds')",
    "letter without quotes": "what_distribution_costs = c",
    "misspelt": "check('best_second', 3)",
    "name without quotes": RIGHT + "\ncheck(best_seconds, best_seconds)",
    "right": RIGHT,
    "check right": "check('best_seconds', best_seconds)",
    "syntax error": "def best_seconds(tasks, seconds_each, workers)\n    return 0",
    "check after the syntax error": "check('best_seconds', best_seconds)",
    "right again": RIGHT,
    "check right again": "check('best_seconds', best_seconds)",
    "error inside a function": "def outer():\n    return missing\n\nouter()",
}


@pytest.fixture(scope="module")
def outputs() -> dict[str, str]:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS.values()])
    NotebookClient(notebook, timeout=60, allow_errors=True, config=kernels.config()).execute()
    return {name: text_of(cell) for name, cell in zip(CELLS, notebook.cells, strict=True)}


def text_of(cell: nbformat.NotebookNode) -> str:
    """Return what a cell showed: the lines of its error, or its result as text."""
    output = cell.outputs[-1] if cell.outputs else {}
    return "\n".join(output.get("traceback", [])) or output.get("data", {}).get("text/plain", "")


@pytest.mark.parametrize(
    ("cell", "line"),
    [
        (
            "check too early",
            "`best_seconds` does not exist yet. Run the cell that defines it; if that cell has an error, fix it first.",
        ),
        (
            "hint not imported",
            "`hint` is not imported yet. Run the first cell of the notebook, or: from coursekit import hint",
        ),
        ("letter without quotes", '`c` does not exist. An answer to a quiz is a letter in quotes: "c"'),
        (
            "misspelt",
            "ch00_start has no exercise 'best_second'. The nearest names: best_seconds. Type check(\"best_seconds\").",
        ),
        ("name without quotes", "✔ best_seconds: passed, 1 of 1 point"),
    ],
)
def test_a_slip_is_answered_in_one_line(outputs, cell, line):
    assert outputs[cell] == line


def test_a_cell_that_ended_with_an_error_is_not_judged_by_its_older_version(outputs):
    assert "passed" in outputs["check right"]
    assert "crashed" in outputs["check after the syntax error"]
    assert "ended with SyntaxError when it last ran" in outputs["check after the syntax error"]
    assert "passed" in outputs["check right again"]


def test_an_error_inside_a_function_keeps_its_traceback(outputs):
    assert "outer()" in outputs["error inside a function"]
    assert "missing" in outputs["error inside a function"]
