"""A room: join with a code, be seen, and nobody between, nobody else, and nothing but a dozen words."""

import contextlib
import csv
import http.client
import json
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from jupyter_client.manager import KernelManager

import coursekit
from coursekit.basics.errors import chapter_names
from coursekit.given.ports import free_ports
from coursekit.judging.exercise import load as load_chapter
from coursekit.judging.result import Result
from coursekit.learner import checks, predictions, session
from coursekit.learner.progress import home, load
from coursekit.learner.workshop import attendance, outbox
from coursekit.learner.workshop import connection as link
from coursekit.room import number_polls
from coursekit.room.incoming import Event
from coursekit.room.live_board import Person
from coursekit.room.number_polls import histogram
from coursekit.room.run_sheet import Plan, sheets
from coursekit.room.secrets import Certificate
from coursekit.room.server import GUESSES
from coursekit.room.store import Store
from tests import kernels
from tests.rooms import Opened, a_room, ask, instructor, new_home, opened
from tests.waiting import until

__all__ = ["a_room"]

pytestmark = pytest.mark.slow  # each has a server of its own


def bars(view: dict) -> dict:
    return {option["letter"]: option["votes"] for option in view["question"]["options"]}


def check(message_id: str = "abcdef", outcome: str = "wrong", name: str = "parallel_map") -> dict:
    result = Result(
        "ch01_tasks", name, "exercise", outcome, 2, "a message", message_id, {}, "tried", "came back", "where"
    )
    return outbox.of_result(result, 1, 0)


@pytest.fixture
def ada(room: Opened) -> link.Link:
    """Return a learner's way into the room, from a notebook of chapter 1."""
    coursekit.begin("ch01_tasks")
    attendance.join(room.words, "Ada")
    found = link.current()
    assert found
    return found


def test_who_joins_is_on_the_board_and_who_leaves_is_not(room):
    assert "You are in, Ada" in str(attendance.join(room.words, "Ada"))
    assert room.person("Ada")["cells"] == {}
    assert "You have left" in str(attendance.leave())
    assert room.watch()["people"] == []
    assert not link.joined()


def test_two_of_one_name_can_be_told_apart_on_the_board_and_in_what_is_saved(room, tmp_path, monkeypatch):
    said = {}
    for machine, nickname in enumerate(["Ada", "ada", "Ada (2)", "Grace"]):
        monkeypatch.setenv("COURSEKIT_HOME", str(tmp_path / f"home of machine {machine}"))
        said[nickname] = str(attendance.join(room.words, nickname))
        attendance.stuck(nickname)
    assert "You are in, Ada\n" in said["Ada"]
    assert "You are in, ada (2)\nSomebody else is also called ada" in said["ada"]
    seen = {row["nickname"]: row["hand"] for row in room.watch()["people"]}
    assert seen == {"Ada": "Ada", "ada (2)": "ada", "Ada (2) (2)": "Ada (2)", "Grace": "Grace"}
    rows = csv.DictReader(fetched(room, "/export.csv")[1].splitlines())
    assert {row["nickname"]: row["line"] for row in rows} == seen
    assert [each["nickname"] for each in json.loads(fetched(room, "/export.json")[1])["people"]] == list(seen)


def test_who_leaves_leaves_their_namesake_as_they_are(room, tmp_path, monkeypatch):
    for machine in (1, 2):
        monkeypatch.setenv("COURSEKIT_HOME", str(tmp_path / f"home of machine {machine}"))
        attendance.join(room.words, "Ada")
    monkeypatch.setenv("COURSEKIT_HOME", str(tmp_path / "home of machine 1"))
    attendance.leave()
    assert [row["nickname"] for row in room.watch()["people"]] == ["Ada (2)"]


def test_who_types_the_line_twice_is_on_the_board_once(room, ada):
    assert "You are in, Ada" in str(attendance.join(room.words, "Ada"))
    assert link.current() == ada
    assert len(room.watch()["people"]) == 1


@pytest.mark.parametrize("path", ["/confirm", "/records"])  # of the first join, and of one who is in
def test_who_joins_again_because_the_answer_was_lost_is_on_the_board_once(room, monkeypatch, path):
    post, lost = link._post, []

    def late(host: str, port: int, asked: str, *more, **named) -> tuple:
        answer = post(host, port, asked, *more, **named)
        if asked == path and not lost:
            lost.append(asked)
            raise TimeoutError("timed out")
        return answer

    monkeypatch.setattr(link, "_post", late)
    first, second = (str(attendance.join(room.words, "Ada")) for _ in range(2))
    assert lost == [path]
    assert ("Not joined" in first) == (path == "/confirm")
    assert "You are in, Ada\n" in second
    assert [row["nickname"] for row in room.watch()["people"]] == ["Ada"]
    attendance.stuck("here")
    assert room.person("Ada")["hand"] == "here"


def test_the_token_of_somebody_who_has_left_is_not_taken_again(room, monkeypatch):
    monkeypatch.setattr(link, "_own_token", lambda *room: "t" * 32)
    tokens = []
    for _ in range(2):
        assert "You are in, Ada" in str(attendance.join(room.words, "Ada"))
        tokens.append(link.current().token)
        attendance.leave()
    assert tokens[0] == "t" * 32 != tokens[1]


def test_a_check_is_on_the_board(room, ada):
    outbox.tell(check())
    until(lambda: room.person("Ada")["cells"])
    assert room.person("Ada")["cells"] == {"parallel_map": {"outcome": "wrong", "attempts": 1, "hints": 0}}
    assert room.watch()["chapter"] == "ch01_tasks"
    assert room.watch()["troubles"][0]["people"] == 1


def test_check_in_a_notebook_sends_its_outcome(room):
    coursekit.begin("ch00_start")
    attendance.join(room.words, "Ada")
    checks.check("best_seconds", lambda *inputs: 0)
    until(lambda: room.person("Ada")["cells"])
    assert room.person("Ada")["cells"]["best_seconds"] == {"outcome": "wrong", "attempts": 1, "hints": 0}


def test_in_grading_nothing_is_sent(room, monkeypatch):
    coursekit.begin("ch00_start")
    attendance.join(room.words, "Ada")
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    with pytest.raises(checks.NotPassed):
        checks.check("best_seconds", lambda *inputs: 0)
    predictions.predict("speedup", 1)
    predictions.share("speedup", 1)
    attendance.stuck("a line")
    assert os.listdir(home() / "room-outbox") == []


def test_a_raised_hand_comes_first_with_its_line_and_goes_down_again(room):
    coursekit.begin("ch01_tasks")
    attendance.join(room.words, "Grace")
    grace = link.current()
    attendance.join(room.words, "Ada")
    attendance.stuck("what is  a reference?")
    until(lambda: room.watch()["people"][0]["hand"] == "what is a reference?")
    assert [row["nickname"] for row in room.watch()["people"]] == ["Ada", "Grace"]
    attendance.stuck(None)
    until(lambda: room.person("Ada")["hand"] is None)
    assert grace is not None


def test_while_a_question_is_open_a_quiz_is_a_vote_and_its_verdict_waits(room, ada):
    ask(room, "open")
    said = str(checks.quiz("order_of_get", "a"))
    assert "Your vote: a" in said
    assert "verdict comes when" in said
    assert load()[0] == {}
    assert not session.current().results
    until(lambda: bars(room.watch())["a"] == [1])
    ask(room, "close")
    assert "✔" in str(checks.quiz("order_of_get", "b"))


@pytest.fixture
def cell(room: Opened) -> Iterator[Callable[[str], str]]:
    """Yield a function that runs a cell in a kernel and returns what it shows."""
    manager = KernelManager(**kernels.sockets())
    manager.start_kernel(env=os.environ | {"PYTHONPATH": str(coursekit.basics.paths.ROOT)})
    client = manager.blocking_client()
    client.start_channels()
    client.wait_for_ready(timeout=60)

    def run(source: str) -> str:
        shown: list[dict] = []
        client.execute_interactive(
            source,
            timeout=60,
            allow_stdin=True,
            stdin_hook=lambda message: client.input("Ada"),  # the nickname
            output_hook=lambda message: shown.append(message["content"]),
        )
        return "".join(each.get("text", "") or each.get("data", {}).get("text/plain", "") for each in shown)

    yield run
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_a_kernel_whose_room_a_terminal_joined_votes_and_hears_the_verdict_at_the_end(room, cell):
    cell('from coursekit import begin, quiz; begin("ch01_tasks")')
    attendance.join(room.words, "Ada")  # as `coursekit join` does
    ask(room, "open")
    assert "Your vote: b" in cell('order_of_get = "b"; quiz("order_of_get", order_of_get)')
    ask(room, "close")
    assert "✔ order_of_get: passed" in cell('quiz("order_of_get", order_of_get)')
    assert room.watch()["question"]["votes"] == [1]


def test_what_the_board_shows_works_when_typed_into_a_fresh_notebook(room, cell):
    said = cell(room.watch("/events?names=0")["line"])
    assert "You are in, Ada" in said
    assert room.person("Ada")["hand"] is None
    raising = next(line for line in said.splitlines() if "stuck(" in line)
    assert "Your hand is up" in cell(raising.strip())
    assert room.person("Ada")["hand"] == "a line"
    assert instructor(room, doing="section", chapter="ch01_tasks", name="Launch first, gather later") == 200
    assert "Up to: Launch first, gather later" in cell(
        'from coursekit import begin, catch_up; begin("ch01_tasks"); catch_up()'
    )
    leaving = next(line for line in said.splitlines() if "leave(" in line)
    assert "You have left" in cell(leaving.strip())
    assert room.watch()["people"] == []


def test_vote_talk_vote_again_and_both_votes_are_on_the_board_at_the_end(room, ada):
    ask(room, "open")
    checks.quiz("order_of_get", "a")
    checks.quiz("order_of_get", "c")  # the last one counts
    until(lambda: bars(room.watch())["c"] == [1])
    ask(room, "talk")
    assert "Talk to your neighbors" in str(checks.quiz("order_of_get", "b"))
    ask(room, "again")
    checks.quiz("order_of_get", "b")
    until(lambda: room.watch()["question"]["votes"] == [1, 1])
    ask(room, "close")
    shown = room.watch("/events?names=0")
    assert bars(shown) == {"a": [0, 0], "b": [0, 1], "c": [1, 0]}
    assert [option["letter"] for option in shown["question"]["options"] if option["right"]] == ["b"]
    ask(room, "hide")
    assert room.watch()["question"] is None


def test_a_copy_of_0_2_that_listens_hears_of_a_question_when_it_is_opened(room, ada):
    with ThreadPoolExecutor() as pool:
        heard = pool.submit(ada.post, "/asked", {"seen": None}, seconds=60)
        ask(room, "open")
        assert heard.result()["question"] == {"chapter": "ch01_tasks", "name": "order_of_get", "poll": 1}


def test_the_projector_shows_how_many_voted_and_before_the_end_neither_how_nor_the_key(room, ada):
    ask(room, "open")
    checks.quiz("order_of_get", "b")
    until(lambda: room.watch()["question"]["votes"] == [1])
    question = room.watch("/events?names=0")["question"]
    assert question["votes"] == [1]
    assert [(option["votes"], option["right"]) for option in question["options"]] == [(None, False)] * 3


def test_other_quizzes_answer_as_ever_and_so_does_a_letter_that_is_no_option(room, ada):
    ask(room, "open")
    assert "passed" in str(checks.quiz("when_remote_returns", "b"))
    assert "no option 'q'" in str(checks.quiz("order_of_get", "q"))


def test_a_vote_that_was_on_its_way_when_the_round_ended_counts(room, ada):
    ask(room, "open")
    ask(room, "talk")
    ada.post("/records", {"records": [outbox.event("vote", "ch01_tasks", exercise="order_of_get", poll=1, choice="b")]})
    assert room.watch()["question"]["votes"] == [1]


def test_a_vote_that_comes_late_or_for_another_round_is_not_counted(room, monkeypatch):
    monkeypatch.setattr("coursekit.room.votes.GRACE", 0)
    attendance.join(room.words, "Ada")
    ask(room, "open")
    ask(room, "talk")
    ada = link.current()
    assert ada
    votes = [outbox.event("vote", "ch01_tasks", exercise="order_of_get", poll=poll, choice="b") for poll in (1, 2, 99)]
    ada.post("/records", {"records": votes})
    assert room.watch()["question"]["votes"] == [0]


@pytest.mark.parametrize(
    "data",
    [
        {"doing": "close"},
        {"doing": "open", "chapter": "ch01_tasks", "name": "parallel_map"},
        {"doing": "open", "chapter": "ch99_none", "name": "x"},
        {"doing": "dance"},
    ],
)
def test_a_step_that_does_not_fit_is_refused(room, data):
    assert instructor(room, **data) == 409
    assert room.watch()["question"] is None


def test_only_the_instructor_asks_and_no_form_of_another_page_does(room):
    connection = http.client.HTTPConnection("127.0.0.1", room.board, timeout=10)
    body = json.dumps({"doing": "open", "chapter": "ch01_tasks", "name": "order_of_get"})
    for headers in (
        {"Content-Type": "application/json"},
        {"Cookie": f"room={room.room.secret}", "Content-Type": "text/plain"},
    ):
        connection.request("POST", "/do", body, headers)
        response = connection.getresponse()
        response.read()
        assert response.status == 403
    assert room.watch()["question"] is None


def fetched(room: Opened, path: str, key: str = "") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", room.board, timeout=60)
    with contextlib.closing(connection):
        connection.request("GET", path, headers={"Cookie": f"room={key or room.room.secret}"})
        response = connection.getresponse()
        return response.status, response.read().decode()


def test_the_board_lists_every_quiz_of_the_course_and_every_run_sheet(room):
    listed = json.loads(fetched(room, "/choices")[1])
    chapters = [name for name in chapter_names() for item in load_chapter(name).values() if item.kind == "quiz"]
    assert [each["chapter"] for each in listed["quizzes"]] == chapters
    assert listed["sheets"][0] == dict.fromkeys(("title", "shown"), "Half a day (3 h 30)")


def test_the_plan_says_how_far_the_middle_of_the_room_is_from_it(room, ada):
    outbox.tell(check(outcome="passed", name="as_task"))
    until(lambda: room.watch()["middle"] == "parallel_map")
    assert room.watch()["plan"] is None
    assert instructor(room, doing="plan", name="Half a day (3 h 30)") == 200
    plan = room.watch()["plan"]
    assert (plan["late"], plan["rows"][0]["now"]) == (-45, True)  # its row begins at 0:45
    assert [row["room"] for row in plan["rows"]] == [*[False] * 4, True, *[False] * 11]
    assert room.watch("/events?names=0")["plan"] is None
    late = Plan()
    late.begin("Half a day (3 h 30)", 0)
    assert [late.view("fair_pair", 60 * minutes)["late"] for minutes in (121, 127, 140)] == [0, 0, 12]
    assert late.view("no_such_exercise", 60)["late"] is None
    assert instructor(room, doing="plan", name="Half a century") == 409
    assert instructor(room, doing="plan") == 200
    assert room.watch()["plan"] is None


def test_the_rows_of_every_run_sheet_follow_each_other():
    assert len(sheets()) >= 7
    for title, rows in sheets().items():
        assert [row.start for row in rows] == [0, *(row.end for row in rows[:-1])], title


CHAPTER_1 = next(title for title in sheets() if title.startswith("Chapter 1 ·"))


def test_what_a_run_sheet_leaves_as_homework_does_not_hold_up_the_middle_of_the_room(room, ada):
    for name in ("as_task", "parallel_map", "first_k"):
        outbox.tell(check(outcome="passed", name=name))
    until(lambda: room.watch()["middle"] == "tree_sum")
    instructor(room, doing="plan", name=CHAPTER_1)
    assert room.watch()["middle"] == "batched"
    assert [row["what"] for row in room.watch()["plan"]["rows"] if row["room"]] == [
        "Every task has an overhead that you can measure"
    ]


def test_time_that_a_run_sheet_gives_to_other_things_makes_no_one_stuck():
    ada, plan, hour = Person("Ada"), Plan(), 3600.0
    for name in ("as_task", "parallel_map", "first_k"):
        ada.take(Event(**check(outcome="passed", name=name)), at=1000.0)
    assert ada.stuck(plan, 1000 + hour) == "tree_sum: 60 minutes"
    plan.begin(CHAPTER_1, at=1000.0)
    assert ada.stuck(plan, 1000 + hour) == ""  # `batched` begins after 81 minutes
    assert ada.stuck(plan, 1000 + 2 * hour) == "batched: 39 minutes"


def test_all_that_the_room_was_told_can_be_saved_by_the_instructor_alone(room):
    coursekit.begin("ch01_tasks")
    attendance.join(room.words, "=cmd()")
    outbox.tell(check())
    attendance.stuck("=1+1")
    until(lambda: room.watch()["people"][0]["hand"])
    instructor(room, doing="plan", name="Half a day (3 h 30)")
    saved = json.loads(fetched(room, "/export.json")[1])
    assert [each["nickname"] for each in saved["people"]] == ["=cmd()"]
    assert [each["kind"] for each in saved["records"]] == ["check", "hand"]
    assert saved["instructor"][0]["doing"] == "plan"
    rows = list(csv.DictReader(fetched(room, "/export.csv")[1].splitlines()))
    assert [(row["nickname"], row["exercise"], row["line"]) for row in rows] == [
        ("'=cmd()", "parallel_map", ""),
        ("'=cmd()", "", "'=1+1"),
    ]
    assert fetched(room, "/export.json", key="x")[0] == fetched(room, "/export.csv", key="x")[0] == 403


def test_a_prediction_is_kept_and_compared_without_a_room_too(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSEKIT_HOME", str(tmp_path / "home"))
    coursekit.begin("ch12_env_runners")
    assert "What do you expect?" in str(predictions.predict("speedup", ...))
    assert "You made no prediction" in str(predictions.measured("speedup", 0.8))
    assert "You say 1.6" in str(predictions.predict("speedup", 1.6))
    assert "You said 1.6, it was 0.8" in str(predictions.measured("speedup", np.float64(0.8)))
    assert "Yours is 0.8" in str(predictions.share("speedup", 0.8))
    assert "You said 1.6, it was 2,630\nThat is 1,600 times what" in str(predictions.measured("speedup", 2634.2))
    assert not list(home().glob("room*"))


def test_a_prediction_may_be_one_of_a_few_words(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSEKIT_HOME", str(tmp_path / "home"))
    coursekit.begin("ch12_env_runners")
    words = ["kept", "lost"]
    for open_ in (..., "gone", 1, ["kept"]):
        shown = "..." if open_ is ... else repr(open_)
        said = f"Write one of `'kept'`, `'lost'` in place of `{shown}`"
        assert said in str(predictions.predict("fate", open_, words))
    assert "It was “lost”\nYou made no prediction" in str(predictions.measured("fate", "lost"))
    assert "You say “kept”" in str(predictions.predict("fate", "kept", words))
    assert "You said “kept”, it was “lost”\nWhat did you leave out?" in str(predictions.measured("fate", "lost"))
    assert "You said “kept”, it was “kept”\nThat's right." in str(predictions.measured("fate", "kept"))
    assert "It was 3\nYou made no prediction" in str(predictions.measured("fate", 3))


def test_the_room_counts_words_by_their_places_and_takes_them_from_the_chapter(room, monkeypatch):
    monkeypatch.setattr(number_polls, "options", lambda chapter: {"fate": ("kept", "lost")})
    coursekit.begin("ch12_env_runners")
    for nickname, word in [("Ada", "kept"), ("Grace", "lost"), ("Edsger", "kept")]:
        attendance.join(room.words, nickname)
        predictions.predict("fate", word, ["kept", "lost"])
        until(lambda: not os.listdir(home() / "room-outbox"))
    predictions.measured("fate", "lost")
    until(lambda: [bar for each in room.watch()["numbers"] for bar in each["bars"] if bar["measured"]])
    [shown] = room.watch("/events?names=0")["numbers"]
    assert shown == NOTHING | {
        "name": "fate",
        "predictions": 3,
        "bars": [{"word": "kept", "count": 2, "measured": False}, {"word": "lost", "count": 1, "measured": True}],
    }


@pytest.mark.parametrize("value", ["much", None, float("nan"), [1, 2], 10**400])
def test_what_is_no_number_is_not_predicted(value, tmp_path, monkeypatch):
    monkeypatch.setenv("COURSEKIT_HOME", str(tmp_path / "home"))
    coursekit.begin("ch12_env_runners")
    assert "Write a number" in str(predictions.predict("speedup", value))


def test_the_room_sees_predictions_on_the_projector_only_once_somebody_measured(room):
    coursekit.begin("ch12_env_runners")
    for nickname, value in [("Ada", 4), ("Grace", 1.5), ("Edsger", 3)]:
        attendance.join(room.words, nickname)
        predictions.predict("speedup", value)
        until(lambda: not os.listdir(home() / "room-outbox"))
    until(lambda: room.watch()["numbers"])
    assert [bar["count"] for bar in room.watch()["numbers"][0]["bars"]] == [1, 0, 0, 0, 0, 0, 1, 0, 0, 1]
    shown = room.watch("/events?names=0")["numbers"][0]
    assert shown["unit"] == "seconds of single divided by seconds of many: 2 is twice as fast"
    assert shown | {"name": "", "unit": ""} == NOTHING | {"predictions": 3}
    predictions.measured("speedup", 1.4)
    until(lambda: room.watch()["numbers"][0]["measured"])
    [shown] = room.watch("/events?names=0")["numbers"]
    assert (shown["predicted"], shown["measured"]) == (3, 1.4)
    assert [bar["measured"] for bar in shown["bars"]] == [True, *[False] * 9]


NOTHING = {
    "name": "",
    "predictions": 0,
    "bars": [],
    "predicted": None,
    "measured": None,
    "shared": [],
    "unit": "",
}


def test_shared_numbers_stand_beside_the_cores_of_their_machines(room, monkeypatch):
    coursekit.begin("ch12_env_runners")
    for nickname, cores, value in [("Ada", 2, 1.2), ("Grace", 8, 2.5), ("Edsger", 2, 1.0)]:
        monkeypatch.setattr(predictions, "cores", lambda own=cores: own)
        attendance.join(room.words, nickname)
        assert "Shared" in str(predictions.share("speedup", value))
        until(lambda: not os.listdir(home() / "room-outbox"))
    until(lambda: room.watch()["numbers"])
    assert room.watch()["numbers"][0]["shared"] == [
        {"cores": 2, "machines": 2, "low": 1.0, "middle": 1.1, "high": 1.2},
        {"cores": 8, "machines": 1, "low": 2.5, "middle": 2.5, "high": 2.5},
    ]


def test_predictions_far_apart_get_bars_of_equal_factors():
    shown = histogram([100, 1_000, 10_000, 100_000], [2_000])
    assert [bar["count"] for bar in shown] == [1, 0, 0, 1, 0, 0, 1, 0, 0, 1]
    assert shown[4]["measured"]
    assert sum(bar["measured"] for bar in shown) == 1


@pytest.mark.parametrize("values", [[1.0], [2.0, 2.0], [-5.0, 0.0, 1e12]])
def test_every_prediction_is_in_a_bar(values):
    assert sum(bar["count"] for bar in histogram(values, values[:1])) == len(values)


def test_the_same_message_three_times_is_stuck(room, ada):
    outbox.tell(check(outcome="passed", name="as_task"))
    for _ in range(3):
        outbox.tell(check())
    until(lambda: room.person("Ada")["stuck"])
    assert room.person("Ada")["stuck"] == "parallel_map: the same message 3 times"
    assert room.watch()["middle"] == "parallel_map"


def test_the_projector_shows_no_names_and_no_lines(room, ada):
    attendance.stuck("my secret line")
    until(lambda: room.person("Ada")["hand"] is not None)
    text = json.dumps(room.watch("/events?names=0"))
    assert "Ada" not in text
    assert "secret" not in text


def test_only_the_instructors_browser_reads_the_board(room):
    assert room.watch(key="") == {"status": 403}
    assert room.watch(key="wrong") == {"status": 403}
    request = urllib.request.Request(f"http://127.0.0.1:{room.board}/?key={room.room.secret}")
    with urllib.request.build_opener(urllib.request.HTTPCookieProcessor()).open(request) as page:
        assert b"The room" in page.read()
    elsewhere = urllib.request.Request(
        f"http://127.0.0.1:{room.board}/events", headers={"Host": "evil.example", "Cookie": f"room={room.room.secret}"}
    )
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(elsewhere)


def test_a_wrong_code_is_refused_and_many_change_it(room):
    code = room.room.code
    wrong = f"127.0.0.1:{room.port} WRONG-CODE"
    for _ in range(GUESSES):
        assert "Not joined" in str(attendance.join(wrong, "Eve"))
    assert room.room.code == code
    attendance.join(wrong, "Eve")
    assert room.room.code != code
    assert "You are in" in str(attendance.join(room.words, "Ada"))
    assert [row["nickname"] for row in room.watch()["people"]] == ["Ada"]


def test_a_program_between_with_a_certificate_of_its_own_is_refused(room, monkeypatch):
    """It hands on every message; the proofs name another certificate than the one that the learner sees."""
    real = link._post
    monkeypatch.setattr(link, "_post", lambda *a, **k: (*real(*a, **k)[:2], Certificate.new().fingerprint))
    said = str(attendance.join(room.words, "Ada"))
    assert "something between you and the room" in said
    assert room.watch()["people"] == []


def test_a_room_with_another_certificate_later_is_not_spoken_to(room, ada, tmp_path):
    with opened(tmp_path / "other.db") as other:
        stranger = link.Link(ada.host, other.port, ada.fingerprint, ada.id, ada.token, ada.nickname)
        with pytest.raises(OSError, match="not the room that you joined"):
            stranger.post("/records", {"records": []})


@pytest.mark.parametrize(
    "more",
    [
        {"code": "import os"},
        {"outcome": "great"},
        {"exercise": "../../etc"},
        {"attempts": -1},
        {"attempts": True},
        {"seconds": float("nan")},
        {"value": float("nan")},
        {"value": 1e13},
        {"choice": "<b>"},
        {"line": "x" * 201},
        {"message_id": "<script>"},
        {"chapter": 7},
    ],
)
def test_the_room_takes_no_record_that_says_more(room, ada, more):
    with pytest.raises(link.Refused) as refused:
        ada.post("/records", {"records": [check() | more]})
    assert refused.value.status == 422
    assert room.person("Ada")["cells"] == {}


def test_nobody_posts_for_another_or_without_a_token(room, ada):
    forged = link.Link(ada.host, ada.port, ada.fingerprint, ada.id, "x" * 32, "Ada")
    with pytest.raises(link.NoRoom, match="join again"):
        forged.post("/records", {"records": [check()]})
    attendance.join(room.words, "Grace")
    grace = link.current()
    assert grace
    grace.post("/records", {"records": [check()]})
    assert room.person("Ada")["cells"] == {}


def test_a_record_that_comes_twice_counts_once(room, ada):
    event = check()
    for _ in range(3):
        ada.post("/records", {"records": [event]})
    assert len(list(Store(room.room.store.path).events())) == 1
    assert room.person("Ada")["stuck"] == ""


def test_a_flood_is_refused(room, ada, monkeypatch):
    monkeypatch.setattr("coursekit.room.server.MANY", 10)
    for _ in range(8):  # the notebook's listener asks as well
        ada.post("/records", {"records": []})
    until(lambda: flooded(ada))


def flooded(person: link.Link) -> bool:
    try:
        person.post("/records", {"records": []})
    except link.Refused as refused:
        return refused.status == 429
    return False


def test_a_large_request_is_refused(room, ada):
    with pytest.raises(link.Refused) as refused:
        ada.post("/records", {"records": [], "more": "x" * 100_000})
    assert refused.value.status == 413


@pytest.mark.parametrize("path", ["/", "/events", "/do", "/choices", "/export.json", "/projector"])
def test_a_learner_reaches_nothing_of_the_board(room, path):
    attendance.join(room.words, "Eve")
    eve = link.current()
    assert eve
    context = ssl._create_unverified_context()
    connection = http.client.HTTPSConnection("127.0.0.1", room.port, timeout=10, context=context)
    with contextlib.closing(connection):
        headers = {"Authorization": f"Bearer {eve.token}", "Cookie": f"room={room.room.secret}"}
        connection.request("GET", path, headers=headers)
        assert connection.getresponse().status == 404


def test_the_boards_page_runs_its_own_script_alone_and_in_no_frame(room):
    connection = http.client.HTTPConnection("127.0.0.1", room.board, timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", "/", headers={"Cookie": f"room={room.room.secret}"})
        policy = connection.getresponse().headers["Content-Security-Policy"]
    assert "script-src 'sha256-" in policy
    assert "frame-ancestors 'none'" in policy


def test_what_could_not_be_sent_is_sent_later_and_once_after_the_room_was_killed(tmp_path, monkeypatch, capsys):
    new_home(tmp_path, monkeypatch)
    path = tmp_path / "room.db"
    with opened(path) as first:
        attendance.join(first.words, "Ada")
        outbox.tell(check())
        until(lambda: first.person("Ada")["cells"])
        port, words = first.port, first.words
    for _ in range(3):
        outbox.tell(check(name="tree_sum"))
    until(lambda: outbox._sender()._silent)
    for _ in range(2):
        outbox.tell(check(name="batched"))
    assert capsys.readouterr().out.count("does not answer") == 1
    with opened(path, port) as second:
        assert second.words == words
        until(lambda: len(second.person("Ada")["cells"]) == 3)
        names = [event.exercise for _, _, event in Store(path).events()]
        assert sorted(names) == ["batched", "batched", "parallel_map", "tree_sum", "tree_sum", "tree_sum"]
        until(lambda: not os.listdir(home() / "room-outbox"))


def test_a_room_that_was_killed_has_its_question_and_the_votes_again(tmp_path, monkeypatch):
    new_home(tmp_path, monkeypatch)
    with opened(tmp_path / "room.db") as first:
        coursekit.begin("ch01_tasks")
        attendance.join(first.words, "Ada")
        ask(first, "open")
        checks.quiz("order_of_get", "a")
        until(lambda: first.watch()["question"]["votes"] == [1])
        ask(first, "talk")
        before = first.watch()["question"]
    with opened(tmp_path / "room.db", first.port) as second:
        assert second.watch()["question"] == before


def test_a_file_that_is_not_to_be_kept_is_deleted(tmp_path):
    store = Store(tmp_path / "room.db")
    store.add("ada", [Event("0" * 32, "check", "ch01_tasks")], 0.0)
    assert (tmp_path / "room.db").stat().st_mode & 0o777 == 0o600
    store.close(keep=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", ["", "QUIET-FALCON", "192.168.1.7", "192.168.1.7 QUIET", "a b c d"])
def test_words_that_are_no_address_and_code_are_said_to_be_so(words, monkeypatch, tmp_path):
    monkeypatch.setenv("COURSEKIT_HOME", str(tmp_path))
    assert "not an address followed by a code" in str(attendance.join(words, "Ada"))


def test_where_nothing_answers_the_ways_out_are_named(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSEKIT_HOME", str(tmp_path))
    said = str(attendance.join(f"127.0.0.1:{free_ports(1)[0]} QUIET-FALCON", "Ada"))
    assert "hotspot" in said
