"""What a check sends: answers to every exercise whose names, code, paths, values and outputs carry marks, and no mark arrives."""

import builtins
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import coursekit
from coursekit.basics.paths import ROOT
from coursekit.judging import answer, exercise, message_ids
from coursekit.judging.result import Result
from coursekit.learner import checks
from coursekit.learner.progress import home
from coursekit.learner.workshop import connection, outbox
from coursekit.room.incoming import event_of
from tests.chapters import CHAPTERS

WORD, NUMBER = "zqmark", 918273.5
FIELDS = {"id", "kind", "chapter", "exercise", "outcome", "attempts", "hints", "message_id", "seconds"}
VALUES: dict[str, Any] = {
    "a number": NUMBER,
    "a text": WORD,
    "a list": [NUMBER, WORD, NUMBER],
    "a dict": {WORD: NUMBER, "zqmark2": [WORD]},
    "an array": np.full((3, 2), NUMBER),
    "rows": [{WORD: WORD, "value": NUMBER}] * 2,
    "nothing": None,
    "what is not plain": object(),
}
ERRORS = ["zqmarkError", "KeyError", "SystemExit"]
ANSWER = """

class zqmarkError(Exception):
    pass

def zqmark(*zqmark_args, **zqmark_more):
    print("zqmark 918273")
    print("zqmark 918273", file=sys.stderr)
    {what}
"""
IDS = {
    *(key for path in (ROOT / "coursekit/exercises").glob("*.py") for key in message_ids.templates(str(path))),
    *("", *message_ids.FRAMEWORK),
    *(f"crashed-{name}" for name, value in vars(builtins).items() if isinstance(value, type)),
    *(f"quiz-{letter}" for letter in "abcdefgh"),
}


def answering(what: str, value: object = None) -> Any:
    """Return a function whose name, file and text carry marks."""
    names: dict[str, Any] = {"value": value}
    exec(compile(ANSWER.format(what=what), f"/home/{WORD}/{WORD}.py", "exec"), names)
    return names[WORD]


WRONG = {name: answering("return value", value) for name, value in VALUES.items()}
RAISING = {error: answering(f"raise {error}('zqmark 918273')") for error in ERRORS}


def performed(learner: Any, op: str, args: tuple = (), kwargs: dict | None = None, probe: str = "") -> object:
    """Answer as `answer._perform` does, except that a probe gets what the answer returns at once: no Ray is needed."""
    return learner if op == "value" else learner(*args, **(kwargs or {}))


@pytest.fixture(scope="module", autouse=True)
def joined(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp(WORD)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSEKIT_HOME", str(folder / "home"))
        patch.setenv("USER", WORD)
        patch.chdir(folder)
        patch.setattr(answer, "_perform", performed)
        patch.setattr(checks, "missing", lambda needs: None)
        patch.setattr(checks, "_records", lambda operation, **window: [{"name": WORD, "state": WORD, "id": NUMBER}])
        patch.setattr(outbox, "_sender", lambda: type("Nobody", (), {"wake": lambda self: []})())
        (home() / "room-outbox").mkdir(parents=True)
        (home() / "room.json").write_text(json.dumps(connection.Link("127.0.0.1", 9, "00", "me", WORD, WORD).__dict__))
        yield


def sent() -> list[dict]:
    """Return the events that wait to be sent, as they are on the disk, and take them away."""
    paths = sorted((home() / "room-outbox").iterdir())
    found = [json.loads(path.read_text()) for path in paths]
    for path in paths:
        path.unlink()
    return found


def harmless(event: dict) -> bool:
    text = json.dumps(event | {"id": ""})
    return event.keys() == FIELDS and WORD not in text and "918273" not in text and event["message_id"] in IDS


@pytest.mark.slow
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_no_mark_of_an_answer_is_sent(chapter, monkeypatch, capfd):
    coursekit.begin(chapter)
    items = exercise.load(chapter).values()
    told = 0
    for item in items:
        judged = checks.check if item.kind == "exercise" else checks.quiz
        answers: dict[str, Any] = WRONG | RAISING if item.kind == "exercise" else VALUES
        for name, each in answers.items():
            assert judged(item.name, each).status != "passed", (item.name, name)
            [event] = sent()
            assert harmless(event), (item.name, name, event)
            assert (event["chapter"], event["exercise"]) == (chapter, item.name)
            event_of(event)
            told += 1
    assert told >= 8 * len(items) > 0
    assert WORD in capfd.readouterr().out  # the answers did run


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_no_mark_of_a_right_answer_is_sent(chapter, monkeypatch):
    def right(item: Any, answer: object, seed: int) -> Result:
        return Result.of(item, "passed", message_ids.Said(WORD), tried=WORD, got=WORD, where=WORD)

    monkeypatch.setattr(exercise, "judge", right)
    coursekit.begin(chapter)
    for item in exercise.load(chapter).values():
        (checks.check if item.kind == "exercise" else checks.quiz)(item.name, answering("return value", WORD))
        [event] = sent()
        assert event["outcome"] == "passed"
        assert harmless(event)
