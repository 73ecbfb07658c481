"""A puzzle has the lines of our solution: in order they pass, in other orders they do not."""

import signal
from difflib import get_close_matches
from pathlib import Path

import pytest
import ray

import coursekit
from coursekit.judging.exercise import PUBLIC_SEED, Exercise, judge, load
from coursekit.judging.result import Result
from coursekit.learner import puzzles, session, shell
from coursekit.learner.checks import check, local
from coursekit.ray_bridge import rendezvous
from tests.chapters import CHAPTERS
from tests.isolated import checks_of

PUZZLES = [item for chapter in CHAPTERS for item in load(chapter).values() if isinstance(item, Exercise) and item.spare]
OTHERS = 10  # orders
SOON = ("ch01_tasks", "ch08_rollouts")  # the others take a run of their notebook each, at night
SOLVED = '''\
import ray

def tree(x):
    """Return x."""
    ### BEGIN SOLUTION
    # Twice.
    total = sum(
        [x,  # once
         x]
    )
    """Not a statement."""
    if total == 2 * x:  # always

        return total
    ### END SOLUTION

answer = tree(2)
'''


def test_a_statement_keeps_all_its_lines_and_a_comment_none():
    above, lines, below = puzzles.parts(SOLVED)
    assert above[-1] == '    """Return x."""'
    assert lines == [
        "    total = sum(\n        [x,\n         x]\n    )",
        "    if total == 2 * x:",
        "        return total",
    ]
    assert below == ["", "answer = tree(2)"]


@pytest.mark.parametrize("item", PUZZLES, ids=lambda item: f"{item.chapter}-{item.name}")
def test_a_puzzle_is_of_one_solution_with_one_or_two_lines_too_many(item):
    source = shell.answer_cell(item.chapter, item.name)
    assert source.count(shell.BEGINS) == 1
    _, lines, _ = puzzles.parts(source)
    assert len(lines) >= 3
    assert 1 <= len(item.spare) <= 2
    assert set(item.spare).isdisjoint(lines)
    assert all(len(line) <= 100 and line.startswith(" ") for line in item.spare)


@pytest.fixture
def began(monkeypatch, tmp_path):
    """Return what would be put into a new cell, in a chapter that has begun; it has a puzzle and an exercise without one."""
    below = list[str]()
    monkeypatch.setenv("COURSEKIT_HOME", str(tmp_path))
    monkeypatch.setattr(shell, "put_below", below.append)
    session.begin("ch08_rollouts")
    return below


def attempt() -> Result:
    return check("gae", 1)


def test_a_puzzle_opens_one_attempt_before_the_solution(began):
    assert "opens after 2 more attempts" in puzzles.puzzle("gae").text
    attempt()
    assert "opens after 1 more attempt," in puzzles.puzzle("gae").text
    assert began == []
    attempt()
    assert puzzles.puzzle("gae").title == puzzles.puzzle().title == "A puzzle of gae"
    assert began[0].startswith("# Puzzle: the lines of our solution in another order, and one that doesn't belong.")
    assert "SOLUTION" not in began[0]


@pytest.mark.parametrize("closed", ["puzzles", "solutions"])
def test_what_the_instructor_closes_stays_closed(began, closed):
    session.begin("ch08_rollouts", closed=[closed])
    attempt(), attempt()
    assert puzzles.puzzle("gae").title == "No puzzles in this class"
    assert began == []


def test_an_exercise_whose_answers_differ_has_none_and_a_copy_without_solutions_says_so(began, monkeypatch):
    attempt(), attempt()
    assert puzzles.puzzle("Sampler").title == "No puzzle of Sampler"
    monkeypatch.setattr(shell, "SOLUTIONS", Path("nowhere"))
    assert puzzles.puzzle("gae").title == "No solution of gae here"


def judged(item: Exercise, source: str, names: dict) -> str:
    """Return what comes of a cell in the notebook, at most 60 s later."""

    def too_long(number: int, frame: object) -> None:
        raise TimeoutError("an order of the lines that does not end")

    own, before = dict(names), signal.signal(signal.SIGALRM, too_long)
    signal.alarm(60)
    try:
        exec(compile(source, "<puzzle>", "exec"), own)
        return judge(item, local(item.name, own[item.name]), PUBLIC_SEED).status
    except Exception as error:  # no Python, or the cell itself does not run
        return type(error).__name__
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.slow
@pytest.mark.parametrize(
    "chapter",
    [
        name if name in SOON else pytest.param(name, marks=pytest.mark.nightly)
        for name in sorted({item.chapter for item in PUZZLES})
    ],
)
def test_a_puzzle_passes_in_order_and_fails_in_other_orders_and_with_a_spare_line_for_its_like(chapter, monkeypatch):
    monkeypatch.setattr(coursekit, "begin", coursekit.begin)  # which the solved notebook's run replaces, like this:
    monkeypatch.setattr(coursekit, "passed", coursekit.passed)
    monkeypatch.setattr(rendezvous, "patience", rendezvous.patience, raising=False)
    names: dict = {"__name__": "__main__"}
    try:
        for name in checks_of(chapter, names):
            item = load(chapter)[name]
            if not item.spare:
                continue
            source = shell.answer_cell(chapter, name)
            above, lines, below = puzzles.parts(source)
            assert judged(item, "\n".join([*above, *lines, *below]), names) == "passed"
            others = [judged(item, puzzles.text(name, source, item.spare, seed), names) for seed in range(OTHERS)]
            assert "passed" not in others
            for spare in item.spare:  # hardly any of those orders is Python, but this is
                [like] = get_close_matches(spare, lines, 1, 0)
                instead = [spare if line == like else line for line in lines]
                assert judged(item, "\n".join([*above, *instead, *below]), names) != "passed"
    finally:
        ray.shutdown()
