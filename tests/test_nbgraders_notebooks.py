"""The 87 notebooks that nbgrader's wheel installs get the same marks from both graders, cell by cell; docs/marks.md says it."""

import re
import shutil
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from coursekit.basics.paths import ROOT
from coursekit.sandbox.limits import Limits
from coursekit.sandbox.nursery import available
from tests import fixtures
from tests.classes import grade
from tests.nbgrader_courses import nbgrader as run_nbgrader

pytestmark = pytest.mark.slow  # each reads or grades many notebooks
DOCS = ROOT / "docs/marks.md"
FAMILIES = fixtures.families()
REFUSED = [name for name, family in FAMILIES.items() if family.refused]
SOME = ["submitted-apps"]
OTHERS = [name for name in FAMILIES if name not in SOME]


def marks(course: Path) -> dict[tuple[str, ...], tuple]:
    """Return all marks and comments of a gradebook."""
    found = dict[tuple[str, ...], tuple]()
    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        for entry in [entry for assignment in book.assignments for entry in assignment.submissions]:
            for notebook in entry.notebooks:
                place = entry.assignment.name, notebook.name, entry.student.id
                marked = {mark.name: (mark.auto_score, bool(mark.needs_manual_grade)) for mark in notebook.grades}
                said = {f"comment on {each.name}": (each.auto_comment,) for each in notebook.comments}
                found |= {(*place, name): value for name, value in (marked | said).items()}
    return found


def autograde(course: Path, assignment: str, tries: int = 3) -> None:
    """Have nbgrader grade an assignment; on a busy machine one of a hundred kernels may not start, and who has no marks is next."""
    try:
        run_nbgrader(course, "autograde", assignment)
    except AssertionError as error:
        if tries == 1 or not re.search("Kernel died|Kernel didn't respond", str(error)):
            raise
        autograde(course, assignment, tries - 1)


@pytest.mark.skipif(bool(available()), reason=f"no sandbox here: {available()}")
@pytest.mark.parametrize(
    "assignments",
    [
        pytest.param(SOME, id="some"),
        pytest.param(OTHERS, id="others", marks=pytest.mark.nightly),
        pytest.param([fixtures.EACH], id="each", marks=pytest.mark.nightly),
    ],
)
def test_both_graders_give_nbgraders_own_notebooks_the_same_marks(assignments, tmp_path, record_property):
    course, other = tmp_path / "course", tmp_path / "other"
    course.mkdir()
    fixtures.make_course(course, assignments)
    shutil.copytree(course, other)
    records = grade(course, limits=Limits(cell_seconds=30), jobs=2)
    assert {record["outcome"] for record in records.values()} == {"graded"}
    for name in assignments:
        if name in REFUSED:
            with pytest.raises(AssertionError, match=FAMILIES[name].refused):
                run_nbgrader(other, "autograde", name)
        else:
            autograde(other, name)
    ours, theirs = (
        {key: mark for key, mark in marks(each).items() if key[0] not in REFUSED} for each in (course, other)
    )
    record_property("marks", len(ours))
    assert ours == theirs
    assert len(ours) == sum(map(fixtures.compared, assignments))


def test_both_graders_refuse_the_same_notebooks_as_sources():
    for path in fixtures.ALL:
        assert bool(fixtures.refusal(path)) == bool(fixtures.why_not(fixtures.read(path))), path


def test_the_docs_say_what_was_compared_and_name_tests_that_exist():
    text = DOCS.read_text(encoding="utf-8")
    shown = text.partition("checks this table -->\n\n")[2].partition("\n\n")[0]
    assert shown == fixtures.table(), f"Put this into {DOCS}:\n{fixtures.table()}"
    named = re.findall(r"\| `(test_\w+)` \|$", text, re.MULTILINE)
    assert len(named) == 13
    assert [name for name in named if not (ROOT / f"tests/{name}.py").exists()] == []
