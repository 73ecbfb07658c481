"""A room that does not answer for a while: no verdict is seen before its vote ends, nothing is lost, and messages say what is known."""

import json
import os
import shutil
import signal
import time
from pathlib import Path

import pytest

import coursekit
from coursekit.basics.paths import NOTEBOOKS
from coursekit.given.ports import free_ports
from coursekit.learner import checks, predictions
from coursekit.learner.progress import home
from coursekit.learner.workshop import attendance, connection, hand_in, outbox
from coursekit.room import votes
from coursekit.room.incoming import Event
from tests.rooms import Opened, ask, in_a_process, new_home, opened
from tests.waiting import until

CHAPTER, QUIZ = "ch01_tasks", "order_of_get"


@pytest.fixture
def learner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of a room whose learner is at chapter 1."""
    new_home(tmp_path, monkeypatch)
    coursekit.begin(CHAPTER)
    return tmp_path / "room.db"


@pytest.fixture
def dead(learner: Path) -> Opened:
    """Return a room that this learner has joined, and that is gone."""
    with opened(learner) as room:
        attendance.join(room.words, "Ada")
    return room


def answer(choice: str, name: str = QUIZ) -> str:
    return str(checks.quiz(name, choice))


def voted(room: Opened) -> list[int]:
    return room.watch()["question"]["votes"]


@pytest.mark.slow
def test_no_verdict_is_seen_and_no_vote_lost_when_the_server_is_killed_or_stopped_in_either_round(learner):
    port, board = free_ports(2)
    with in_a_process(learner, port, board) as (room, process):
        attendance.join(room.words, "Ada")
        ask(room, "open")
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert "Your answer: c" in answer("c")
    with in_a_process(learner, port, board) as (room, process):
        until(lambda: voted(room) == [1])
        ask(room, "talk")
        assert "The vote is over for now" in answer("a")
        ask(room, "again")
        process.send_signal(signal.SIGSTOP)
        assert "Your answer: a" in answer("a")
        process.send_signal(signal.SIGCONT)
        until(lambda: voted(room) == [1, 1])
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert "Your answer: b" in answer("b")
        assert not coursekit.learner.session.current().results
    with in_a_process(learner, port, board) as (room, _):
        until(lambda: not os.listdir(home() / "room-outbox"))
        assert "Your vote: b" in answer("b")
        ask(room, "close")
        assert [option["votes"] for option in room.watch()["question"]["options"]] == [[0, 0], [0, 1], [1, 0]]
        assert f"✔ {QUIZ}" in answer("b")
        ask(room, "open", "when_remote_returns")
        assert "Your vote: b" in answer("b", "when_remote_returns")
        ask(room, "close")
        assert "✔ when_remote_returns" in answer("b", "when_remote_returns")


@pytest.mark.slow
def test_a_vote_that_was_opened_while_the_learner_had_no_network_is_a_vote(learner, monkeypatch):
    with opened(learner) as room:
        attendance.join(room.words, "Ada")
        with monkeypatch.context() as patch:
            patch.setattr(connection, "_post", unreachable)
            ask(room, "open")
            assert "Your answer: b" in answer("b")
            ask(room, "talk")
            monkeypatch.setattr(votes, "GRACE", 1)
        until(lambda: voted(room) == [1])


def unreachable(*args: object, **more: object) -> None:
    raise OSError("Network is unreachable")


@pytest.mark.slow
def test_an_answer_for_which_there_was_no_vote_gets_its_verdict_once_the_room_is_back(learner, dead):
    assert "✔" not in answer("b")
    with opened(learner, dead.port):
        assert "✔" in answer("b")


@pytest.mark.slow
def test_nobody_waits_for_a_room_that_was_silent_for_hours_or_that_they_have_left(dead):
    assert "from coursekit import leave; leave()" in answer("b")
    yesterday = time.time() - 86_400
    os.utime(home() / "room.json", (yesterday, yesterday))
    assert "✔" in answer("b")
    os.utime(home() / "room.json")
    assert "✔" not in answer("b")
    attendance.leave()
    assert "✔" in answer("b")


def asked(*phases: tuple[str, float]) -> votes.Questions:
    questions = votes.Questions()
    for doing, at in phases:
        questions.do(doing, CHAPTER, QUIZ, at)
    return questions


@pytest.mark.parametrize(
    ("cast", "expected"),
    [
        (90, [1, 0]),
        (150, [1, 0]),
        (199, [1, 0]),
        (250, [0, 1]),
        (201, [0, 1]),
        (350, [0, 1]),
        (401, [0, 1]),
        (450, [0, 0]),
    ],
)
def test_a_vote_whose_round_could_not_be_asked_counts_in_the_first_that_was_not_over(cast, expected):
    questions = asked(("open", 100), ("talk", 200), ("again", 300), ("close", 400))
    questions.vote("ada", Event("0", "vote", CHAPTER, QUIZ, choice="b", seconds=1000 - cast), 1000)
    assert [len(poll.votes) for poll in questions.now.polls.values()] == expected


def test_a_vote_for_a_round_counts_if_it_was_cast_in_it_and_for_no_other():
    questions = asked(("open", 100), ("talk", 200), ("again", 300))
    for seconds, person in [(850, "in time"), (700, "late")]:
        questions.vote(person, Event("0", "vote", CHAPTER, QUIZ, poll=1, choice="b", seconds=seconds), 1000)
    assert [list(poll.votes) for poll in questions.now.polls.values()] == [["in time"], []]


@pytest.mark.slow
def test_a_hand_that_did_not_arrive_is_not_said_to_be_up_and_goes_up_when_the_room_is_back(learner, dead):
    said = str(attendance.stuck("why?"))
    assert "not on the board yet" in said
    assert outbox.LATER in said
    with opened(learner, dead.port) as room:
        until(lambda: room.person("Ada")["hand"] == "why?")
        assert "Your hand is down" in str(attendance.stuck(None))
    assert "not down yet" in str(attendance.stuck(None))


@pytest.mark.slow
def test_where_the_disk_is_full_too_the_learner_is_told_to_call_again(dead, monkeypatch):
    monkeypatch.setattr(outbox, "WAITING", 0)
    assert outbox.AGAIN in str(attendance.stuck())
    assert outbox.AGAIN in answer("b")


@pytest.mark.slow
def test_a_room_that_does_not_know_somebody_has_no_hand_of_theirs_and_says_to_join_again(learner, monkeypatch):
    with opened(learner) as room:
        attendance.join(room.words, "Ada")
        connection.current().post("/leave", {})  # from another notebook
        said = str(attendance.stuck())
    assert "join again" in said
    assert outbox.LATER not in said


@pytest.mark.slow
def test_what_a_room_does_not_take_holds_nothing_up(learner):
    with opened(learner) as room:
        attendance.join(room.words, "Ada")
        ask(room, "open")
        outbox._keep(outbox.event("predict", CHAPTER, exercise="speedup", value=1e13))  # by a copy of another age
        assert "does not take" not in answer("b")
        assert voted(room) == [1]
        assert "Not shared" in str(said := predictions.share("speedup", 1e13))
        assert "from -1e+12 to 1e+12" in str(said)
        assert not os.listdir(home() / "room-outbox")


@pytest.mark.slow
def test_a_number_that_did_not_arrive_is_not_said_to_be_shared(learner, dead):
    assert "Not shared yet" in str(predictions.share("speedup", 1.5))
    with opened(learner, dead.port) as room:
        until(lambda: room.watch()["numbers"])
        assert "Shared" in str(predictions.share("speedup", 1.6))


@pytest.mark.slow
def test_a_notebook_for_a_dead_room_is_kept_and_sent_later_and_only_then_there_is_a_receipt(tmp_path, learner, dead):
    submitted, notebook = tmp_path / "submitted", tmp_path / f"{CHAPTER}.ipynb"
    shutil.copy(NOTEBOOKS / f"{CHAPTER}.ipynb", notebook)
    said = str(hand_in.hand_in(str(notebook), sure=True))
    assert "Not handed in yet" in said
    assert outbox.LATER in said
    notebook.write_text(notebook.read_text() + "\n")
    assert "Not handed in yet" in str(hand_in.hand_in(str(notebook), sure=True))
    assert not (home() / "receipts.jsonl").exists()
    with opened(learner, dead.port, submitted):
        until(lambda: outbox.notebooks_waiting() == [])
        [receipt] = (json.loads(line) for line in (home() / "receipts.jsonl").read_text().splitlines())
        arrived = submitted / f"Ada/{CHAPTER}/{CHAPTER}.ipynb"
        assert arrived.read_bytes() == notebook.read_bytes()  # the newer one alone
        assert receipt["student"] == "Ada"


@pytest.mark.slow
def test_a_notebook_that_a_room_never_got_goes_to_no_other_and_that_is_said(tmp_path, learner, dead, capsys):
    shutil.copy(NOTEBOOKS / f"{CHAPTER}.ipynb", tmp_path)
    hand_in.hand_in(str(tmp_path / f"{CHAPTER}.ipynb"), sure=True)
    with opened(tmp_path / "other.db", submitted=tmp_path / "submitted") as other:
        assert f"notebook of {CHAPTER} never arrived" in str(attendance.join(other.words, "Ada"))
        outbox.resume()
        assert outbox.notebooks_waiting() == []
    hand_in.hand_in(str(tmp_path / f"{CHAPTER}.ipynb"), sure=True)
    assert f"notebook of {CHAPTER} never arrived" in str(attendance.leave())
    assert not (tmp_path / "submitted").exists()
