"""No seed turns a right answer: grading judges a class by a seed that nobody has tried."""

import time

import pytest

from coursekit.author.definitions import definitions
from coursekit.judging.exercise import judge, load
from coursekit.learner.checks import local
from tests.chapters import CHAPTERS

SEEDS, SECONDS = 200, 2.0  # as many, but of a check that trains, fewer
NEED_A_RAY = ("ch06_cluster", "ch18_serve")  # whose solved cells reach for one that is running


@pytest.mark.slow
@pytest.mark.parametrize("chapter", [name for name in CHAPTERS if name not in NEED_A_RAY])
def test_our_solution_passes_whatever_the_seed(chapter):
    items = [item for item in load(chapter).values() if item.kind == "exercise" and not item.needs]
    solutions = definitions(chapter) if items else {}
    for item in items:
        until = time.monotonic() + SECONDS
        for seed in range(SEEDS):
            result = judge(item, local(item.name, solutions[item.name]), seed)
            assert result.status == "passed", f"{item.name} with seed {seed}: {result}"
            if time.monotonic() > until:
                break
