"""Every message of a check is one literal with an id of its own, and the named wrong answers end at one."""

import ast
import json
from pathlib import Path

import numpy as np
import pytest

from coursekit.basics.paths import ROOT
from coursekit.judging import message_ids
from coursekit.judging.exercise import Exercise, judge
from coursekit.judging.expect import Wrong, expect, expect_close, expect_equal
from coursekit.learner import checks, session
from coursekit.learner.checks import local
from tests.answers import samples
from tests.chapters import CHAPTERS

EXERCISES = sorted((ROOT / "coursekit/exercises").glob("*.py"))
MISTAKES = json.loads((ROOT / "coursekit/exercises/mistakes.json").read_text())  # made by `make mistakes`


def calls(path: Path) -> list[ast.Call]:
    tree = ast.parse(path.read_text())
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call) and message_ids.messages_of(node)]


@pytest.mark.parametrize("path", EXERCISES, ids=lambda path: path.stem)
def test_each_message_is_one_literal_at_its_expect(path):
    lines = [call.lineno for call in calls(path) if None in map(message_ids.literal_of, message_ids.messages_of(call))]
    assert not lines, (
        f"Write the message as one literal or f-string at these lines; `answer.case` says what was tried: {lines}"
    )


@pytest.mark.parametrize("path", EXERCISES, ids=lambda path: path.stem)
def test_placeholders_are_names_and_compute_nothing(path):
    """A placeholder is evaluated once more, for the record; a translator reads its name."""
    computing = (ast.Call, ast.IfExp, ast.BinOp, ast.BoolOp, ast.Compare, ast.ListComp, ast.GeneratorExp, ast.JoinedStr)
    found = [
        f"line {part.lineno}: {{{ast.unparse(part.value)}}}"
        for call in calls(path)
        for message in message_ids.messages_of(call)
        if isinstance(message, ast.JoinedStr)
        for part in message.values
        if isinstance(part, ast.FormattedValue) and any(isinstance(each, computing) for each in ast.walk(part.value))
    ]
    assert not found, f"Compute the value first and give it a name: {found}"


@pytest.mark.parametrize("path", EXERCISES, ids=lambda path: path.stem)
def test_no_placeholder_names_an_exception_that_is_gone_when_the_message_is_kept(path):
    caught = {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ExceptHandler)}
    named = {
        name.id
        for call in calls(path)
        for message in message_ids.messages_of(call)
        if isinstance(message, ast.JoinedStr)
        for name in ast.walk(message)
        if isinstance(name, ast.Name)
    }
    assert not caught & named


def words(placeholder: ast.expr) -> list[str]:
    """Return the words that an expression brings into a message by itself; keys and separators are none."""
    if isinstance(placeholder, ast.Constant):
        return (
            [placeholder.value]
            if isinstance(placeholder.value, str) and any(map(str.isalpha, placeholder.value))
            else []
        )
    if isinstance(placeholder, ast.Subscript | ast.FormattedValue):  # neither the key nor the format
        return words(placeholder.value)
    if (
        isinstance(placeholder, ast.Call)
        and isinstance(placeholder.func, ast.Attribute)
        and placeholder.func.attr == "get"
    ):
        return words(placeholder.func)
    if isinstance(placeholder, ast.Call) and getattr(placeholder.func, "id", "") in ("plural", "getattr"):
        return [placeholder.func.id] if placeholder.func.id == "plural" else []
    return [
        word
        for child in ast.iter_child_nodes(placeholder)
        if isinstance(child, ast.expr | ast.comprehension)
        for word in words(child)
    ]


@pytest.mark.parametrize("path", EXERCISES, ids=lambda path: path.stem)
def test_placeholders_hold_values_and_no_words(path):
    literals = [message for call in calls(path) for message in message_ids.messages_of(call)]
    parts = [part for text in literals if isinstance(text, ast.JoinedStr) for part in text.values]
    found = [(part.lineno, word) for part in parts if isinstance(part, ast.FormattedValue) for word in words(part)]
    assert not found, f"A message that differs by words, singular and plural too, is two messages, at lines {found}"


def test_ids_do_not_depend_on_the_line_and_differ_with_the_words(tmp_path):
    before, after = tmp_path / "before.py", tmp_path / "after.py"
    before.write_text('expect(ok, f"Ray saw {count:.1f} tasks.")')
    after.write_text(
        '\n\nif wide:\n    expect(ok, f"Ray saw "\n        f"{count:.1f} tasks.")\n    expect(ok, "Others.")'
    )
    [(key, template)] = message_ids.templates(str(before)).items()
    assert template == "Ray saw {count:.1f} tasks."
    assert message_ids.templates(str(after)).keys() > {key}


def test_no_two_templates_share_an_id():
    every = {text for path in EXERCISES for text in message_ids.templates(str(path)).values()}
    assert len(set(map(message_ids.id_of, every))) == len(every)


def judged(check, value: object) -> str:
    item = Exercise("ch00_start", "one", 1, 1, (), "", check, 1)
    return judge(item, local("one", value)).message_id


def test_a_result_carries_the_id_of_the_template_that_the_learner_read():
    def helper(got: int) -> None:
        expect(got < 9, f"{got} is too large.")

    def check(answer, rng: np.random.Generator) -> None:
        helper(got := answer.value())
        expect_equal(
            got % 2,
            0,
            f"{got} is odd.",
        )
        expect_close(got, 4, "Not four.", mistakes={"Too small by two.": 2, f"{got} is twice three.": 6})
        if got == 4:
            raise Wrong(f"Even {got} is wrong.")

    wanted = {
        9: "{got} is too large.",
        3: "{got} is odd.",
        8: "Not four.",
        2: "Too small by two.",
        6: "{got} is twice three.",
        4: "Even {got} is wrong.",
    }
    assert {value: judged(check, value) for value in wanted} == {
        value: message_ids.id_of(text) for value, text in wanted.items()
    }


def test_what_the_framework_says_has_an_id_by_its_kind():
    class Own(Exception):
        pass

    def raising(error: type) -> object:
        def answer() -> None:
            raise error("text")

        return answer

    def check(answer, rng: np.random.Generator) -> None:
        answer()["key"]

    assert judged(check, raising(KeyError)) == "crashed-KeyError"
    assert judged(check, raising(Own)) == "crashed"
    assert judged(check, ...) == "todo"
    assert judged(check, lambda: object()) == "not-plain"
    assert judged(check, lambda: 1) == "unjudged"
    assert judged(check, 3) == "not-callable"


def test_a_cell_that_ended_with_an_error_has_an_id_of_its_own(monkeypatch):
    monkeypatch.setenv("NBGRADER_EXECUTION", "")
    monkeypatch.setattr(session, "_session", session.Session("ch00_start", {}, {}))
    monkeypatch.setattr(checks, "save", lambda result, *more: "")
    monkeypatch.setattr(checks.shell, "broken", lambda name: "SyntaxError")
    assert checks.check("best_seconds", max).message_id == "broken-cell"


def test_nine_of_ten_named_wrong_answers_end_at_a_message_of_their_own_exercise():
    wrong = {
        (chapter, each.exercise, each.mistake) for chapter in CHAPTERS for each in samples(chapter) if not each.right
    }
    reached = {
        (chapter, exercise, mistake)
        for chapter, exercises in MISTAKES.items()
        for exercise, labels in exercises.items()
        for key, mistakes in labels.items()
        for mistake in mistakes
        if "-" not in key and key not in ("crashed", "returns", "todo")
    }
    assert reached <= wrong, f"Run make mistakes: there are no such answers any more: {reached - wrong}"
    assert len(reached) >= 0.9 * len(wrong), f"At no message of their exercise: {wrong - reached}"


def test_the_ids_of_mistakes_are_those_of_messages_that_exist():
    known = {key for path in EXERCISES for key in message_ids.templates(str(path))}
    kinds = ("crashed", "returns", "not-plain", "not-callable")
    used = {key for exercises in MISTAKES.values() for labels in exercises.values() for key in labels}
    assert {key for key in used if not key.startswith(kinds)} <= known, "Messages have changed: run make mistakes"
