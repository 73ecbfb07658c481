"""An author sees what an exercise costs in lines, and a long one says why."""

import pytest
from typer.testing import CliRunner

from coursekit.author import bill
from coursekit.cli import app
from tests.chapters import CHAPTERS


def test_the_bill_counts_the_check_its_helpers_and_its_probes():
    row = next(row for row in bill.bills("ch01_tasks") if row.name == "as_task")
    check = bill._lines_of_code(bill._source("coursekit.exercises.ch01_tasks", "as_task"))
    probe = bill._lines_of_code(bill._source("coursekit.given.ch01_tasks", "launch"))
    assert row.judging >= check + probe > check > 5
    assert row.solution > 1


def test_lines_of_code_are_those_without_docstrings_comments_and_empty_lines():
    source = 'def double(x):\n    """Return\n    twice x."""\n\n    # as in the text\n    return 2 * x  # or x + x\n'
    assert bill._lines_of_code(source) == 2


def test_the_command_lists_every_exercise_of_a_chapter():
    shown = CliRunner().invoke(app, ["bill", "ch01_tasks"]).output
    assert all(name in shown for name in ("as_task", "parallel_map", "tree_sum"))


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_an_exercise_with_many_judging_lines_says_why(chapter):
    silent = [row.name for row in bill.bills(chapter) if row.judging > bill.LONG and not row.why_long]
    assert not silent, (
        f"These have more than {bill.LONG} judging lines: shorten them, or say why after `# Long:` {silent}"
    )
