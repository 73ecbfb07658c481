"""One submission, step by step: what runs, what is judged, what its page says. Its sandbox is played by this process."""

import re
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from coursekit.basics.cells import defined_names
from coursekit.grading import grading_plan, submission_grader
from coursekit.grading.cell_outputs import readable
from coursekit.grading.grading_plan import Master
from coursekit.grading.outcome import Outcome
from coursekit.grading.student_page import OWN_TEST, write_page
from coursekit.grading.submission import Submission
from coursekit.grading.submission_grader import LOST, Graded, Grader
from coursekit.judging.answer import serve
from coursekit.judging.failure import describe
from coursekit.sandbox.limits import Limits, SandboxDied
from coursekit.sandbox.nursery import NurseryFailed
from coursekit.sandbox.sandbox import CellOutcome

CHAPTER = "ch00_start"
LIMITS = Limits(total_seconds=20)
ENDS = "ended its own process (exit code 3)"
SLOWLY_WRONG = """
def best_seconds(tasks, seconds_each, workers):
    import time
    time.sleep(0.2)
    return tasks / workers * seconds_each
"""


class Ends(BaseException):
    """What a cell raises here to end its sandbox."""


@dataclass
class Played:
    """A nursery and its sandboxes; a learner's cells run in this process, so they must be harmless."""

    ran: list[str] = field(default_factory=list)
    names: dict = field(default_factory=dict)
    refused: int = 0  # sandboxes that cannot be made
    failing: list[Exception] = field(default_factory=list)  # what the next cells end with
    losing: bool = False  # whether the nursery is what has ended its sandboxes

    def sandbox(self, cpus: int = 0) -> AbstractContextManager["Played"]:
        if self.refused:
            self.refused -= 1
            raise NurseryFailed("its process ended")
        return self.made()

    @contextmanager
    def made(self) -> Iterator["Played"]:
        self.names = {"Ends": Ends}
        yield self

    def run(self, source: str, seconds: float | None = None) -> CellOutcome:
        if self.failing:
            raise self.failing.pop()
        self.ran.append(source)
        error = None
        try:
            exec(compile(source, "<ipython-input-1>", "exec"), self.names)
        except Ends:
            raise SandboxDied(ENDS) from None
        except Exception as raised:
            error = describe(raised)
        return CellOutcome("error" if error else "ok", error, "", 0.0)

    def ask(self, name: str, request: bytes, seconds: float | None = None) -> bytes:
        try:
            return serve(self.names, name, request)
        except Ends:
            raise SandboxDied(ENDS) from None

    def tell(self, name: str, passed: bool) -> None:
        pass

    def files(self) -> dict[str, bytes]:
        return {}

    def lost(self) -> bool:
        return self.losing

    def usage(self) -> dict[str, float]:
        return {}


def code(source: str, grade_id: str = "", tag: str = "") -> NotebookNode:
    """Return a code cell; with a grade id, one that tests for a point."""
    claims = {"grade_id": grade_id, "grade": True, "locked": True, "solution": False, "points": 1} if grade_id else {}
    return new_code_cell(source, metadata={"nbgrader": claims, "tags": [tag] if tag else []})


def graded(*cells: NotebookNode, handed_in: list[NotebookNode] | None = None, **options: object) -> tuple:
    """Return what comes of a notebook, whose master has the same cells unless others were handed in, and what ran."""
    played, files = options.pop("played", None) or Played(), options.pop("files", None)
    grader = Grader(played, LIMITS, 1, **options)  # type: ignore[arg-type]
    master = Master("small", new_notebook(cells=list(cells)), CHAPTER)
    notebook = new_notebook(cells=deepcopy(handed_in or list(cells)))
    return grader.grade(notebook, master, files), played.ran


CHECK = code('check("best_seconds", best_seconds)', "best_seconds")


def page_of(result: Graded, folder) -> str:
    submission = Submission("ada", "small", "small", folder / "small.ipynb")
    line = Outcome(submission, result).line(None)
    write_page(folder / "ada.html", line, result.notebook, None)
    return (folder / "ada.html").read_text()


# Which cells run


def test_a_demonstration_runs_with_all_cells_or_when_it_was_edited():
    demo = code("shown = 1", tag="demo")
    assert graded(demo, code("x = 2"))[1] == ["x = 2"]
    assert graded(demo, code("x = 2"), all_cells=True)[1] == ["shown = 1", "x = 2"]
    assert graded(demo, handed_in=[code("shown = 3")])[1] == ["shown = 3"]


def test_a_missing_first_test_is_put_back_behind_the_answer_before_it():
    given, answer = code("given = 1"), code("x = given")
    answer.metadata.nbgrader = {"grade_id": "x", "grade": False, "locked": False, "solution": True}
    test = code("assert x == 1", "first")
    assert graded(given, answer, test, handed_in=[given, answer, code("del x")])[0].score == 1


def test_answers_are_found_among_cells_that_take_no_long_to_parse_and_each_is_parsed_once(monkeypatch):
    parsed: list[str] = []
    monkeypatch.setattr(grading_plan, "defined_names", lambda source: parsed.append(source) or defined_names(source))
    tests = [code(f"assert x{number}", f"x{number}") for number in range(3)]
    answers = [code(f"x{number} = True") for number in range(3)]
    lines = [code("a\n" * 49_000 + f"{number}") for number in range(3)]
    handed_in = [*lines, *answers, code("last = 1")]
    steps = grading_plan.plan(
        new_notebook(cells=deepcopy(handed_in)), Master("small", new_notebook(cells=tests), "")
    ).steps
    sources = [step.cell.source for step in steps if step.kind != "run" or len(step.cell.source) < 100]
    assert sources == ["x0 = True", "assert x0", "x1 = True", "assert x1", "x2 = True", "assert x2", "last = 1"]
    assert len(parsed) == len(set(parsed))
    assert sum(map(len, parsed)) <= grading_plan.MAX_PARSED


def test_of_a_students_own_texts_only_so_much_is_shown_and_what_was_handed_out_in_full():
    texts = ["<b>given</b> " * 9_000, *["<b>own</b> " * 2_000] * 4]
    given, *own = (new_markdown_cell(text, metadata={"nbgrader": {}}) for text in texts)
    result, _ = graded(given, CHECK, handed_in=[given, *own, CHECK])
    shown = [cell.source for cell in result.notebook.cells if cell.cell_type == "markdown"]
    assert shown[0] == readable(deepcopy(given)).source
    assert shown[1].startswith("< b>own< /b> < b>")
    assert 0 < sum(map(len, shown[1:])) < 1.2 * grading_plan.MAX_TEXT
    assert "of its texts, the first 50000 characters are shown" in result.notes


def test_a_picture_whose_name_is_cut_is_no_picture():
    text = "x" * (grading_plan.MAX_TEXT - len("![a](attachment:a.p")) + "![a](attachment:a.png)"
    cell = NotebookNode(new_markdown_cell(text, metadata={"nbgrader": {}}) | {"attachments": {"a.png": {}}})
    result, _ = graded(CHECK, handed_in=[cell, CHECK])
    assert result.notebook.cells[0].source.endswith("![a] (a.p …")


# A nursery that ends


def test_a_nursery_that_ends_while_a_sandbox_is_made_stops_nothing():
    played = Played(refused=LOST)
    assert graded(code("x = 1"), code("assert x == 1", "own"), played=played)[0].score == 1


def test_a_nursery_that_makes_no_sandbox_again_and_again_stops_the_run():
    with pytest.raises(NurseryFailed):
        graded(code("x = 1"), played=Played(refused=LOST + 1))


def test_a_nursery_that_ends_while_a_check_asks_it_for_records_stops_nothing():
    played = Played(failing=[NurseryFailed("its process ended")])
    result, _ = graded(code("x = 1"), code("assert x == 1", "own"), played=played)
    assert (result.score, result.notes) == (1, [])


def test_who_is_graded_again_has_all_the_time_again(monkeypatch):
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now, perf_counter=time.perf_counter)
    monkeypatch.setattr(submission_grader, "time", clock)
    slow = code(f"import coursekit.grading.submission_grader as grade\ngrade.time.now += {0.6 * LIMITS.total_seconds}")
    lost = code("if grade.time.now < 20: raise Ends")
    result, _ = graded(slow, lost, code("pass", "own"), played=Played(losing=True))
    assert (result.score, result.notes) == (1, [])


# Message ids

ENDS_WHEN_ASKED = code("def best_seconds(*inputs):\n    raise Ends")


@pytest.mark.parametrize(
    ("cells", "name", "message_id"),
    [
        ([ENDS_WHEN_ASKED, CHECK], "best_seconds", "stopped"),
        ([code("raise Ends", "own")], "own", "stopped"),
        ([code("assert False", "own")], "own", "own-test"),
    ],
)
def test_a_result_on_which_no_check_has_judged_has_an_id_by_its_kind(cells, name, message_id):
    assert graded(*cells)[0].results[name].message_id == message_id


def test_what_the_notebooks_time_did_not_reach_has_an_id_of_its_own(monkeypatch):
    monkeypatch.setattr(f"{__name__}.LIMITS", Limits(total_seconds=0))
    assert graded(code("x = 1"), CHECK)[0].results["best_seconds"].message_id == "not-reached"


# Files beside the notebook


def test_a_file_that_cannot_be_written_is_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").write_text("a file where a folder is wanted")
    result, _ = graded(code("x = 1"), CHECK, files={"data/x.csv": b"1"})
    assert any("files beside the notebook could not be written (FileExistsError" in note for note in result.notes)


def test_a_file_handed_in_does_not_stand_in_the_way_of_the_masters_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    master = Master("small", new_notebook(cells=[CHECK]), CHAPTER, {"data/x.csv": b"the master's"})
    grader = Grader(Played(), Limits(total_seconds=20), 1)  # type: ignore[arg-type]
    result = grader.grade(new_notebook(cells=[deepcopy(CHECK)]), master, {"data": b"a file"})
    assert result.notes == []
    assert (tmp_path / "data/x.csv").read_bytes() == b"the master's"


def test_files_that_end_the_sandbox_are_left_out_and_the_notebook_is_graded(monkeypatch):
    monkeypatch.setattr("coursekit.grading.submission_grader.cell_that_writes", lambda files: "raise Ends")
    right = code("def best_seconds(tasks, seconds_each, workers):\n    return -(-tasks // workers) * seconds_each")
    result, ran = graded(right, CHECK, files={"x.csv": b"1"})
    assert (result.score, ran.count("raise Ends")) == (1, 1)
    assert result.notes == [f"the files beside the notebook were left out, because writing them {ENDS}"]


# The page


def test_the_page_shows_what_was_tried_what_came_back_points_and_time(tmp_path):
    result, _ = graded(new_markdown_cell("# Small", metadata={"nbgrader": {}}), code(SLOWLY_WRONG), CHECK)
    page = page_of(result, tmp_path)
    wrong = result.results["best_seconds"]
    assert wrong.tried.startswith("best_seconds(")
    assert f"Tried</span> <code>{wrong.tried}</code>" in page
    assert f"Came back</span> <code>{wrong.got}</code>" in page
    assert "best_seconds: wrong, 0 of 1 point<" in page
    assert f">{wrong.seconds:.1f} s<" in page
    assert wrong.seconds >= 0.2


@pytest.mark.parametrize(
    "cells",
    [
        [code("import time\ntime.sleep(0.2)\nassert False", "own")],
        [code("import time\ntime.sleep(0.2)", "own")],
        [code("import time\ntime.sleep(0.2)\nraise Ends", "own")],
        [code(SLOWLY_WRONG.replace("return", "raise Ends\n    return")), CHECK],
    ],
    ids=["own test that fails", "own test that passes", "own test that ends it", "answer that ends it"],
)
def test_the_page_shows_the_time_of_whatever_ran(cells, tmp_path):
    page = page_of(graded(*cells)[0], tmp_path)
    (seconds,) = re.findall(r">(\d+\.\d) s<", page)
    assert 0.2 <= float(seconds) < 10


def test_the_page_shows_what_was_tried_when_the_sandbox_ended(tmp_path):
    page = page_of(graded(code("def best_seconds(*inputs):\n    raise Ends"), CHECK)[0], tmp_path)
    assert ENDS in page
    assert "Tried</span> <code>best_seconds(" in page


def test_the_page_says_beside_an_instructors_own_test_that_it_can_be_forged(tmp_path):
    assert OWN_TEST in page_of(graded(code("pass", "own"))[0], tmp_path)
    assert OWN_TEST not in page_of(graded(code("pass"), CHECK)[0], tmp_path)


@pytest.mark.slow
def test_a_turn_that_is_waited_for_costs_neither_limit_nor_time():
    @contextmanager
    def waits() -> Iterator[float]:
        start = time.monotonic()
        time.sleep(2)
        yield time.monotonic() - start

    result, _ = graded(code("pass", "own"), turns=SimpleNamespace(shared=waits))
    assert result.results["own"].seconds < 1


# Cells that end with an error


def test_a_syntax_error_is_said_as_one_at_its_exercise_with_its_line(tmp_path):
    result, _ = graded(code("# mine\ndef best_seconds(tasks)\n    return 1"), CHECK)
    said = result.results["best_seconds"]
    assert (said.status, said.message_id) == ("crashed", "cell-no-python")
    assert said.message == "The cell with `best_seconds` is not Python yet (expected ':'), so none of it ran."
    assert said.where == "line 2 of the cell: `def best_seconds(tasks)`"
    page = page_of(result, tmp_path)
    assert "<span class=here>def best_seconds(tasks)" in page
    assert page.count("expected &#x27;:&#x27;") == 1  # not among the notes as well


def test_the_line_that_raised_is_marked_in_the_answer_and_none_where_it_lies_in_another_cell(tmp_path):
    body = "def best_seconds(tasks, seconds, workers):\n    return {}(tasks)"
    inside = graded(code(body.format("[][1]")), CHECK)[0]
    assert "<span class=here>    return [][1](tasks)" in page_of(inside, tmp_path)
    helper = code("def helper(tasks):\n    raise KeyError")
    elsewhere = page_of(graded(helper, code(body.format("helper")), CHECK)[0], tmp_path)
    assert "line 2 of the cell with <code>helper</code>" in elsewhere
    assert "class=here" not in elsewhere


def test_a_page_shows_the_beginning_of_an_answer_that_is_too_long(tmp_path):
    result, _ = graded(code("best_seconds = 0\n" * 10_000), CHECK)
    page = page_of(result, tmp_path)
    assert (page.count("<span>best_seconds = 0"), page.count("… and more")) == (300, 1)
    assert "… and more" not in page_of(graded(code("best_seconds = 0\n" * 300), CHECK)[0], tmp_path)


def test_an_answer_whose_cell_ends_with_another_error_is_told_which():
    result, _ = graded(code("best_seconds = 1 / 0"), CHECK)
    assert "ended with ZeroDivisionError: division by zero" in result.results["best_seconds"].message
    assert "does not exist" in graded(code("x = 1 / 0"), CHECK)[0].results["best_seconds"].message
