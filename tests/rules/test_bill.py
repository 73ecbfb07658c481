"""An author sees what an exercise costs in lines, and a long one says why."""

import pytest
from typer.testing import CliRunner

from coursekit.author import bill
from coursekit.cli import app
from coursekit.judging.reached_code import reached
from tests.chapters import CHAPTERS


def test_the_bill_counts_the_check_with_its_helpers_apart_from_its_probes():
    row = next(row for row in bill.bills("ch01_tasks") if row.name == "as_task")
    found = reached("coursekit.exercises.ch01_tasks", "as_task")
    of_module = {name for module, name in found if module == "coursekit.exercises.ch01_tasks"}
    assert of_module >= {"as_task", "_launched", "_expect_reference"}
    assert ("coursekit.given.ch01_tasks", "launch") in found
    assert row.judging > row.check > 5
    assert row.solution > 1


def test_lines_of_code_are_those_without_docstrings_comments_and_empty_lines():
    source = 'def double(x):\n    """Return\n    twice x."""\n\n    # as in the text\n    return 2 * x  # or x + x\n'
    assert bill._lines_of_code(source) == 2


def test_the_command_lists_every_exercise_of_a_chapter():
    shown = CliRunner().invoke(app, ["bill", "ch01_tasks"]).output
    assert all(name in shown for name in ("as_task", "parallel_map", "tree_sum"))


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_long_check_says_why_and_no_other_does(chapter):
    wrong = {row.name: row.check for row in bill.bills(chapter) if (row.check > bill.LONG) != bool(row.why_long)}
    assert not wrong, (
        f"More than {bill.LONG} lines of a check need a `# Long:` that says why; others have none: {wrong}"
    )
