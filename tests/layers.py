"""Which tests answer soon: `make test` takes the quick ones, and of each slow kind a few; `make test-all` and CI take all.

A test is of the layer `fast` (not marked `slow`), `soon` (in `make test`), `rest`, or `nightly` (by its mark, or since another
wrong answer ends at the same message). What belongs to a chapter that the working tree changes is always `soon`.
"""

import json
import re
import subprocess
from collections import Counter

import pytest

from coursekit.basics.paths import ROOT

# Some of each part, solved, those that cost least; and some as a learner starts them.
SOLVED = ("ch00_start", "ch01_tasks", "ch02_objects", "ch07_environments", "ch10_actor_learner")
SOLVED += ("ch14_custom", "ch20_capstone", "ch24_deploy", "ch25_pipelines")
UNSOLVED = ("ch00_start", "ch08_rollouts")
ISOLATED = ("ch00_start", "ch01_tasks")  # whose solutions are judged where exercises do not exist
# Of the other slow tests: by module, the names of those that `make test` takes.
SOON = {
    "browser": r".*",
    "cells": r".*",
    "class": r"test_(?!names_and_dates_stand)",
    "cli": r".*",
    "collect": r".*",
    "desk": r"test_(?!nbgraders_own_command_refuses)",
    "forged": r".*",
    "give_back": r".*",
    "grading": r"test_(all_students|only_what_is_new)",
    "handin": r".*",
    "interrupt": r"test_(an_interrupt|what_is_raised|a_check_that)",
    "messages": r".*",
    "nbgraders_notebooks": r"test_(the_docs|both_graders)",
    "office": r".*",
    "one_submission": r".*",
    "outcomes": r"test_(each_of_them|a_second_hand_in|points|what_cannot_be_written|a_file_beside|nothing_is_written)",
    "outages": r"test_(a_vote_that_was_opened|nobody_waits|a_hand_that_did|a_notebook_for)",
    "progress": r".*",
    "room": r".*",
    "sandbox": r"test_(a_cell_runs|cells_are|a_notebooks_checks|expected_values|a_submission_can|there_is_no_network|"
    r"its_user_owns|what_takes_too_long|evidence_is_read|two_sandboxes|the_first_process)",
    "setup": r".*",
    "transfer": r".*",
    "unjudged": r".*",
    "unreadable": r"test_(from_the_zip|collect_|a_notebook_that_cannot_be_read|a_students_folder)",
    "update": r".*",
}
MISTAKES = ROOT / "coursekit/exercises/mistakes.json"
_CHAPTER = re.compile(r"ch\d\d_[a-z_]+")


def changed_chapters() -> set[str]:
    """Return the chapters of which the working tree changes a file, compared with the last commit; none where there is no git."""
    command = ["git", "status", "--porcelain", "--untracked-files=all"]
    try:
        said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return set()
    return set(_CHAPTER.findall(said))


def said_already() -> set[tuple[str, str, str]]:
    """Return the wrong answers, as (chapter, exercise, mistake), before which another one ends at the same message."""
    by_chapter = json.loads(MISTAKES.read_text(encoding="utf-8"))
    return {
        (chapter, exercise, mistake)
        for chapter, exercises in by_chapter.items()
        for exercise, messages in exercises.items()
        for mistakes in messages.values()
        for mistake in mistakes[1:]
    }


class Layers:
    """Says of each test of a session which layer it is in."""

    def __init__(self) -> None:
        self._changed, self._wrong, self._again = changed_chapters(), set[str](), said_already()

    def of(self, item: pytest.Item) -> str:
        """Return the layer of a test; of an exercise's wrong answers, the first that does not train for long is `soon`."""
        module, name = item.path.stem.removeprefix("test_"), item.name
        found = _CHAPTER.search(name.partition("[")[2])
        chapter = found[0].rstrip("_") if found else ""
        if module == "notebooks" and chapter in self._changed:
            return "soon"
        if item.get_closest_marker("nightly") or (chapter not in self._changed and self._is_said_already(item)):
            return "nightly"
        if not item.get_closest_marker("slow"):
            return "fast"
        return "soon" if self._is_soon(item, module, name, chapter) else "rest"

    def _is_said_already(self, item: pytest.Item) -> bool:
        of = item.callspec.params if hasattr(item, "callspec") else {}
        sample = of.get("sample")
        return sample is not None and (of["chapter"], sample.exercise, sample.mistake) in self._again

    def _is_soon(self, item: pytest.Item, module: str, name: str, chapter: str) -> bool:
        if sample := getattr(item, "callspec", None) and item.callspec.params.get("sample"):  # type: ignore[attr-defined]
            return self._is_soon_of_answers(item.callspec.params["chapter"], sample)  # type: ignore[attr-defined]
        if chapter in self._changed:
            return True
        if module == "notebooks" and chapter:
            return chapter in (UNSOLVED if "unsolved" in name else SOLVED)
        if module == "isolation":
            return "constant" in name or chapter in ISOLATED
        return re.match(SOON.get(module, "never"), name) is not None

    def _is_soon_of_answers(self, chapter: str, sample: object) -> bool:
        exercise = f"{chapter}/{sample.exercise}"  # type: ignore[attr-defined]
        if chapter in self._changed:
            return True
        if sample.long or sample.right:  # type: ignore[attr-defined]
            return not sample.long  # type: ignore[attr-defined]
        first = exercise not in self._wrong
        self._wrong.add(exercise)
        return first


def left_out(layers: Counter[str], command: str = "make test-all") -> str:
    """Return a line on the tests that were collected and did not run, "" for none."""
    names = {"soon": "slow ones that `make test` runs", "rest": "of the rest", "nightly": "nightly ones"}
    parts = [f"{layers[layer]} {words}" for layer, words in names.items() if layers[layer]]
    return f"Left out: {', '.join(parts)}. Everything: {command}" if parts else ""
