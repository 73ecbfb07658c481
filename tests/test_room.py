"""A room: join with a code, be seen, and nobody between, nobody else, and nothing but a dozen words."""

import asyncio
import contextlib
import http.client
import json
import os
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import coursekit
from coursekit import checking, link, presence
from coursekit.overview import home
from coursekit.result import Result
from coursekit.room.command import Serving
from coursekit.room.records import Record
from coursekit.room.secrets import Certificate
from coursekit.room.server import GUESSES, MANY, Room
from coursekit.room.store import Store


def free_port() -> int:
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Opened:
    """A room that runs in a thread of this process."""

    room: Room
    port: int
    board: int

    @property
    def words(self) -> str:
        """What a learner types."""
        return f"127.0.0.1:{self.port} {self.room.code}"

    def watch(self, path: str = "/events", key: str | None = None) -> dict:
        """Return what the board shows now, as the instructor's browser gets it."""
        connection = http.client.HTTPConnection("127.0.0.1", self.board, timeout=10)
        with contextlib.closing(connection):
            connection.request("GET", path, headers={"Cookie": f"room={self.room.secret if key is None else key}"})
            response = connection.getresponse()
            if response.status != 200:
                return {"status": response.status}
            return dict(json.loads(response.readline().removeprefix(b"data: ")))

    def person(self, nickname: str) -> dict:
        """Return somebody's row of the board."""
        return next(row for row in self.watch()["people"] if row["nickname"] == nickname)


@contextlib.contextmanager
def opened(path: Path, port: int = 0) -> Iterator[Opened]:
    ready: list[Room] = []
    servings: list[Serving] = []
    begun = threading.Event()

    def run() -> None:
        ready.append(Room(Store(path)))
        servings.append(Serving(ready[0], port, 0))
        begun.set()
        asyncio.run(servings[0].run())
        ready[0].store.close(keep=True)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert begun.wait(60)
    try:
        yield Opened(ready[0], servings[0].port, servings[0].board)
    finally:
        servings[0].stop()
        thread.join(20)
    assert not thread.is_alive()


def until(holds: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it never came to be so"
        time.sleep(0.02)


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    monkeypatch.setenv("COURSEKIT_HOME", str(tmp_path / "home"))
    home().mkdir()
    with opened(tmp_path / "room.db") as found:
        yield found


def check(message_id: str = "abcdef", outcome: str = "wrong", name: str = "parallel_map") -> dict:
    result = Result("ch01_tasks", name, "exercise", outcome, 2, "a message", message_id, "tried", "came back", "where")
    return link.of_result(result, 1, 0)


def test_who_joins_is_on_the_board_and_who_leaves_is_not(room):
    assert "You are in, Ada" in str(presence.join(room.words, "Ada"))
    assert room.person("Ada")["cells"] == {}
    assert "You have left" in str(presence.leave())
    assert room.watch()["people"] == []
    assert not link.joined()


def test_a_check_is_on_the_board(room):
    presence.join(room.words, "Ada")
    link.tell(check())
    until(lambda: room.person("Ada")["cells"])
    assert room.person("Ada")["cells"] == {"parallel_map": {"outcome": "wrong", "attempts": 1, "hints": 0}}
    assert room.watch()["chapter"] == "ch01_tasks"
    assert room.watch()["troubles"][0]["people"] == 1


def test_check_in_a_notebook_sends_its_outcome(room):
    coursekit.begin("ch00_start")
    presence.join(room.words, "Ada")
    checking.check("best_seconds", lambda *inputs: 0)
    until(lambda: room.person("Ada")["cells"])
    assert room.person("Ada")["cells"]["best_seconds"] == {"outcome": "wrong", "attempts": 1, "hints": 0}


def test_a_raised_hand_comes_first_with_its_line_and_goes_down_again(room):
    coursekit.begin("ch01_tasks")
    presence.join(room.words, "Grace")
    grace = link.current()
    presence.join(room.words, "Ada")
    presence.stuck("what is  a reference?")
    until(lambda: room.watch()["people"][0]["hand"] == "what is a reference?")
    assert [row["nickname"] for row in room.watch()["people"]] == ["Ada", "Grace"]
    presence.stuck(None)
    until(lambda: room.person("Ada")["hand"] is None)
    assert grace is not None


def test_the_same_message_three_times_is_stuck(room):
    presence.join(room.words, "Ada")
    link.tell(check(outcome="passed", name="as_task"))
    for _ in range(3):
        link.tell(check())
    until(lambda: room.person("Ada")["stuck"])
    assert room.person("Ada")["stuck"] == "parallel_map: the same message 3 times"
    assert room.watch()["middle"] == "parallel_map"


def test_the_projector_shows_no_names_and_no_lines(room):
    coursekit.begin("ch01_tasks")
    presence.join(room.words, "Ada")
    presence.stuck("my secret line")
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
        assert "Not joined" in str(presence.join(wrong, "Eve"))
    assert room.room.code == code
    presence.join(wrong, "Eve")
    assert room.room.code != code
    assert "You are in" in str(presence.join(room.words, "Ada"))
    assert [row["nickname"] for row in room.watch()["people"]] == ["Ada"]


def test_a_program_between_with_a_certificate_of_its_own_is_refused(room, monkeypatch):
    """It hands on every message; the proofs name another certificate than the one that the learner sees."""
    real = link._post
    monkeypatch.setattr(link, "_post", lambda *a, **k: (*real(*a, **k)[:2], Certificate.new().fingerprint))
    said = str(presence.join(room.words, "Ada"))
    assert "something between you and the room" in said
    assert room.watch()["people"] == []


def test_a_room_with_another_certificate_later_is_not_spoken_to(room, tmp_path):
    presence.join(room.words, "Ada")
    mine = link.current()
    assert mine
    with opened(tmp_path / "other.db") as other:
        stranger = link.Link(mine.host, other.port, mine.fingerprint, mine.id, mine.token, mine.nickname)
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
        {"line": "x" * 201},
        {"message_id": "<script>"},
        {"chapter": 7},
    ],
)
def test_the_room_takes_no_record_that_says_more(room, more):
    presence.join(room.words, "Ada")
    mine = link.current()
    assert mine
    with pytest.raises(OSError, match="422"):
        mine.post("/records", {"records": [check() | more]})
    assert room.person("Ada")["cells"] == {}


def test_nobody_posts_for_another_or_without_a_token(room):
    presence.join(room.words, "Ada")
    ada = link.current()
    assert ada
    forged = link.Link(ada.host, ada.port, ada.fingerprint, ada.id, "x" * 32, "Ada")
    with pytest.raises(link.NoRoom, match="join again"):
        forged.post("/records", {"records": [check()]})
    presence.join(room.words, "Grace")
    grace = link.current()
    assert grace
    grace.post("/records", {"records": [check()]})
    assert room.person("Ada")["cells"] == {}


def test_a_record_that_comes_twice_counts_once(room):
    presence.join(room.words, "Ada")
    ada = link.current()
    assert ada
    record = check()
    for _ in range(3):
        ada.post("/records", {"records": [record]})
    assert len(list(Store(room.room.store.path).records())) == 1
    assert room.person("Ada")["stuck"] == ""


def test_a_flood_is_refused(room):
    presence.join(room.words, "Ada")
    ada = link.current()
    assert ada
    for _ in range(MANY):
        ada.post("/records", {"records": []})
    with pytest.raises(OSError, match="429"):
        ada.post("/records", {"records": []})


def test_a_large_request_is_refused(room):
    presence.join(room.words, "Ada")
    ada = link.current()
    assert ada
    with pytest.raises(OSError, match="413"):
        ada.post("/records", {"records": [], "more": "x" * 100_000})


def test_names_and_lines_are_text_on_the_board_page():
    page = (coursekit.paths.ROOT / "coursekit/static/room/board.html").read_text()
    assert "innerHTML" not in page
    assert "textContent" in page


def test_what_could_not_be_sent_is_sent_later_and_once_after_the_room_was_killed(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSEKIT_HOME", str(tmp_path / "home"))
    home().mkdir()
    path = tmp_path / "room.db"
    with opened(path) as first:
        presence.join(first.words, "Ada")
        link.tell(check())
        until(lambda: first.person("Ada")["cells"])
        port, words = first.port, first.words
    for _ in range(3):
        link.tell(check(name="tree_sum"))
    until(lambda: link._sender()._silent)
    assert "does not answer" in str(link.tell(check(name="batched")))
    assert link.tell(check(name="batched")) is None  # said once
    with opened(path, port) as second:
        assert second.words == words
        until(lambda: len(second.person("Ada")["cells"]) == 3)
        records = [record.exercise for _, _, record in Store(path).records()]
        assert sorted(records) == ["batched", "batched", "parallel_map", "tree_sum", "tree_sum", "tree_sum"]
        until(lambda: not os.listdir(home() / "room-outbox"))


def test_a_file_that_is_not_to_be_kept_is_deleted(tmp_path):
    store = Store(tmp_path / "room.db")
    store.add("ada", [Record("0" * 32, "check", "ch01_tasks")])
    assert (tmp_path / "room.db").stat().st_mode & 0o777 == 0o600
    store.close(keep=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", ["", "QUIET-FALCON", "192.168.1.7", "192.168.1.7 QUIET", "a b c d"])
def test_words_that_are_no_address_and_code_are_said_to_be_so(words, monkeypatch, tmp_path):
    monkeypatch.setenv("COURSEKIT_HOME", str(tmp_path))
    assert "no address and code" in str(presence.join(words, "Ada"))


def test_where_nothing_answers_the_ways_out_are_named(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSEKIT_HOME", str(tmp_path))
    said = str(presence.join(f"127.0.0.1:{free_port()} QUIET-FALCON", "Ada"))
    assert "hotspot" in said
