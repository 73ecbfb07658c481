"""nbgrader's own tools score a solved notebook in full and an unsolved one with nothing, also where there is no sandbox.

In `make test`, test_same_scores.py sees the same of ch00 and ch01.
"""

import shutil

import pytest
from nbgrader.api import Gradebook

from coursekit.basics.paths import NOTEBOOKS, ROOT, SOLUTIONS
from tests.chapters import CHAPTERS
from tests.nbgrader_courses import UNPROTECTED, nbgrader

pytestmark = [pytest.mark.slow, pytest.mark.nightly]


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_autograde_gives_solved_all_points_and_unsolved_none(chapter, tmp_path):
    shutil.copy(ROOT / "coursekit/author/nbgrader_config.py", tmp_path)
    for folder, notebooks in {
        "source": SOLUTIONS,
        "submitted/solved": SOLUTIONS,
        "submitted/unsolved": NOTEBOOKS,
    }.items():
        (tmp_path / folder / chapter).mkdir(parents=True)
        shutil.copy(notebooks / f"{chapter}.ipynb", tmp_path / folder / chapter)
    nbgrader(tmp_path, "generate_assignment", chapter)
    nbgrader(tmp_path, "autograde", chapter, UNPROTECTED)
    with Gradebook(f"sqlite:///{tmp_path}/gradebook.db") as gradebook:
        scores = {student: gradebook.find_submission(chapter, student) for student in ("solved", "unsolved")}
        assert scores["solved"].max_score > 0
        assert scores["solved"].score == scores["solved"].max_score
        assert scores["unsolved"].score == 0
