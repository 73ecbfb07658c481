"""Hand-ins to a room: said first, kept before the receipt is given, once, and where grading looks for them."""

import hashlib
import itertools
import json
import os
import shutil
import threading
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

import nbformat
import pytest
from nbgrader.utils import parse_utc

from coursekit.basics.paths import NOTEBOOKS
from coursekit.grading.desk.collect import collect
from coursekit.grading.submission import STAMP, find
from coursekit.learner.progress import home
from coursekit.learner.workshop import attendance, connection, hand_in, outbox
from coursekit.room import received
from coursekit.room.store import Store
from tests.rooms import Opened, new_home, opened

pytestmark = pytest.mark.slow  # each has a server of its own
CHAPTER = "ch01_tasks"


@pytest.fixture
def submitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    new_home(tmp_path, monkeypatch)
    return tmp_path / "course/submitted"


@pytest.fixture
def room(tmp_path: Path, submitted: Path) -> Iterator[Opened]:
    with opened(tmp_path / "room.db", submitted=submitted) as found:
        yield found


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    path = tmp_path / "my work.ipynb"
    path.write_bytes((NOTEBOOKS / f"{CHAPTER}.ipynb").read_bytes())
    return path


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_it_says_first_what_is_sent_and_sends_nothing_without_a_yes(room, submitted, notebook, monkeypatch, capsys):
    attendance.join(room.words, "Ada")
    monkeypatch.setattr("builtins.input", lambda prompt: "no")
    assert "Nothing was sent" in str(hand_in.hand_in(str(notebook)))
    assert "your code, and all outputs" in capsys.readouterr().out
    assert not submitted.exists()


def test_a_notebook_that_its_outputs_make_too_large_is_sent_without_them(
    room, submitted, notebook, monkeypatch, capsys
):
    attendance.join(room.words, "Ada")
    content = nbformat.read(notebook, as_version=4)
    code = next(cell for cell in content.cells if cell.cell_type == "code")
    code.outputs = [nbformat.v4.new_output("stream", text="0" * 2**20)]
    nbformat.write(content, notebook)
    monkeypatch.setattr(hand_in, "MAX_BYTES", 2**20)
    assert "Handed in" in str(hand_in.hand_in(str(notebook), sure=True))
    assert "no outputs, because 1 MB are too many" in capsys.readouterr().out
    sent = nbformat.read(submitted / f"Ada/{CHAPTER}/{CHAPTER}.ipynb", as_version=4)
    assert [cell.source for cell in sent.cells] == [cell.source for cell in content.cells]
    assert not any(cell.get("outputs") for cell in sent.cells)


def test_a_notebook_lies_where_grading_looks_with_its_time_and_a_receipt_comes_back(room, submitted, notebook):
    attendance.join(room.words, "Ada L.")
    said = hand_in.hand_in(str(notebook), sure=True)
    assert hashlib.sha256(notebook.read_bytes()).hexdigest() == said.code
    assert files(submitted) == [f"Ada_L/{CHAPTER}/{CHAPTER}.ipynb", f"Ada_L/{CHAPTER}/{STAMP}"]
    assert (submitted / f"Ada_L/{CHAPTER}/{CHAPTER}.ipynb").read_bytes() == notebook.read_bytes()
    receipt = json.loads((home() / "receipts.jsonl").read_text())
    stamp = parse_utc((submitted / f"Ada_L/{CHAPTER}/{STAMP}").read_text())
    assert stamp.replace(tzinfo=UTC).timestamp() == pytest.approx(receipt["at"], abs=1e-3)
    assert [item.key for item in find(submitted, {CHAPTER: [CHAPTER]})] == [f"Ada_L/{CHAPTER}/{CHAPTER}"]


def test_collect_reads_the_time_of_a_hand_in_and_keeps_the_newer_one(room, submitted, notebook):
    shutil.copytree(
        NOTEBOOKS, submitted.parent / f"release/{CHAPTER}", ignore=lambda *names: {*names[1]} - {f"{CHAPTER}.ipynb"}
    )
    shutil.copytree(submitted.parent / "release", submitted.parent / "source")
    attendance.join(room.words, "Ada")
    hand_in.hand_in(str(notebook), sure=True)
    before = (submitted / f"Ada/{CHAPTER}/{STAMP}").read_text()
    (older := notebook.parent / "older").mkdir()
    for student, day in (("Ada", 1), ("Grace", 3)):
        (older / student).mkdir()
        (older / student / f"{CHAPTER}.ipynb").write_text(notebook.read_text() + "\n")
        os.utime(older / student / f"{CHAPTER}.ipynb", (day * 86_400, day * 86_400))
    result = collect(older, submitted.parent)
    assert dict(result.left) == {f"Ada/{CHAPTER}.ipynb": f"submitted/Ada/{CHAPTER} holds a newer one"}
    assert (submitted / f"Ada/{CHAPTER}/{STAMP}").read_text() == before


def test_the_same_notebook_twice_keeps_its_time_and_a_changed_one_replaces_it(room, submitted, notebook):
    attendance.join(room.words, "Ada")
    stamp = submitted / f"Ada/{CHAPTER}/{STAMP}"
    hand_in.hand_in(str(notebook), sure=True)
    first = stamp.read_text()
    hand_in.hand_in(str(notebook), sure=True)
    assert stamp.read_text() == first
    changed = nbformat.read(notebook, as_version=4)
    changed.cells.append(nbformat.v4.new_markdown_cell("more"))
    nbformat.write(changed, notebook)
    hand_in.hand_in(str(notebook), sure=True)
    assert stamp.read_text() > first
    assert (submitted / f"Ada/{CHAPTER}/{CHAPTER}.ipynb").read_bytes() == notebook.read_bytes()
    assert len(files(submitted)) == 2


def test_two_who_say_the_same_name_overwrite_nothing(room, submitted, notebook):
    for number, nickname in enumerate(("Ada", "ada", "Grace")):
        attendance.join(room.words, nickname)
        changed(notebook, f"{number}")
        hand_in.hand_in(str(notebook), sure=True, student="" if nickname != "Grace" else "Ada")
    assert [path.name for path in submitted.iterdir()] == ["Ada"]
    assert sorted(path.name for path in (submitted / "Ada").iterdir()) == [CHAPTER, f"{CHAPTER}-2", f"{CHAPTER}-3"]
    assert [item.problem[:54] for item in find(submitted, {CHAPTER: [CHAPTER]})] == [
        "",
        *[f"somebody else handed in {CHAPTER} as Ada in the room too:"[:54]] * 2,
    ]


def changed(notebook: Path, text: str) -> str:
    """Add a cell to a notebook, and return its new content."""
    content = nbformat.read(notebook, as_version=4)
    content.cells.append(nbformat.v4.new_markdown_cell(text))
    nbformat.write(content, notebook)
    return notebook.read_text(encoding="utf-8")


def test_who_joins_again_and_hands_in_the_same_has_one_hand_in(room, submitted, notebook):
    for _ in range(2):
        attendance.join(room.words, "Ada")
        hand_in.hand_in(str(notebook), sure=True)
    assert files(submitted) == [f"Ada/{CHAPTER}/{CHAPTER}.ipynb", f"Ada/{CHAPTER}/{STAMP}"]


def test_a_mistyped_name_is_put_right_by_handing_in_again(room, submitted, notebook):
    attendance.join(room.words, "Ada")
    hand_in.hand_in(str(notebook), sure=True, student="s10")
    first = (submitted / f"s10/{CHAPTER}/{STAMP}").read_text()
    hand_in.hand_in(str(notebook), sure=True, student="s01")
    assert files(submitted) == [f"s01/{CHAPTER}/{CHAPTER}.ipynb", f"s01/{CHAPTER}/{STAMP}"]
    assert (submitted / f"s01/{CHAPTER}/{STAMP}").read_text() == first
    newer = changed(notebook, "more")
    hand_in.hand_in(str(notebook), sure=True, student="s01")
    assert files(submitted) == [f"s01/{CHAPTER}/{CHAPTER}.ipynb", f"s01/{CHAPTER}/{STAMP}"]
    assert (submitted / f"s01/{CHAPTER}/{CHAPTER}.ipynb").read_text(encoding="utf-8") == newer


def test_a_name_that_is_put_right_leaves_alone_what_another_handed_in_under_it(room, submitted, notebook):
    attendance.join(room.words, "Ada")
    hand_in.hand_in(str(notebook), sure=True, student="s10")
    theirs = submitted / f"s10/{CHAPTER}/{CHAPTER}.ipynb"
    theirs.write_text('{"cells": []}')  # as a later `coursekit collect` does
    hand_in.hand_in(str(notebook), sure=True, student="s01")
    assert theirs.read_text() == '{"cells": []}'
    assert (submitted / f"s01/{CHAPTER}/{CHAPTER}.ipynb").exists()


def test_ids_outside_the_roster_and_second_hand_ins_are_announced(tmp_path, submitted, notebook):
    said: list[str] = []
    submitted.mkdir(parents=True)
    (submitted.parent / "class.toml").write_text('students = [{id = "s01"}, {id = "s02"}]\n[due]\nweek1 = 2026-10-19')
    taken = received.HandIns(submitted, Store(tmp_path / "room.db"), said.append)
    content = notebook.read_bytes()
    assert taken.take("p1", CHAPTER, "S01", content, 1.0).student == "s01"
    assert said == []
    outside = taken.take("p2", CHAPTER, "s1O", content, 2.0)
    assert "s1O is not on the class's roster" in outside.note
    assert 'hand_in(student="…")' in outside.note
    second = taken.take("p2", CHAPTER, "s01", content + b"\n", 3.0)
    assert (second.student, "has another ch01_tasks already" in second.note) == ("s01", True)
    assert said == [f"s1O/{CHAPTER}: {outside.note}", f"s01/{CHAPTER}-2: {second.note}"]
    assert sorted(path.name for path in submitted.iterdir()) == ["s01"]


def test_what_lay_there_before_the_room_is_not_touched(room, submitted, notebook):
    old = submitted / f"Ada/{CHAPTER}/{CHAPTER}.ipynb"
    old.parent.mkdir(parents=True)
    old.write_text("old")
    attendance.join(room.words, "Ada")
    assert "has another ch01_tasks already" in str(hand_in.hand_in(str(notebook), sure=True))
    assert old.read_text() == "old"
    assert (submitted / f"Ada/{CHAPTER}-2/{CHAPTER}.ipynb").exists()


@pytest.mark.parametrize(
    ("data", "status"),
    [
        ({"chapter": "../../etc"}, 422),
        ({"chapter": "ch01_../x"}, 422),
        ({"student": "../.."}, 422),
        ({"student": ""}, 422),
        ({"notebook": "AAAA"}, 422),
        ({"notebook": 7}, 422),
    ],
)
def test_what_is_no_hand_in_is_refused_and_leaves_the_folder(room, submitted, data, status):
    attendance.join(room.words, "Eve")
    eve = connection.current()
    good = {"chapter": CHAPTER, "student": "Eve", "notebook": "eyJjZWxscyI6IFtdfQ=="}
    with pytest.raises(connection.Refused) as refused:
        eve.post("/handin", good | data)
    assert refused.value.status == status
    assert not submitted.exists() or not files(submitted)
    assert eve.post("/handin", good | {"student": "../../Eve"})["student"] == "Eve"
    assert files(submitted) == [f"Eve/{CHAPTER}/{CHAPTER}.ipynb", f"Eve/{CHAPTER}/{STAMP}"]


def test_a_link_in_the_folder_is_not_followed(room, submitted, notebook, tmp_path):
    submitted.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (submitted / "Ada").symlink_to(tmp_path / "elsewhere")
    attendance.join(room.words, "Ada")
    assert "cannot keep it" in str(hand_in.hand_in(str(notebook), sure=True))
    assert not files(tmp_path / "elsewhere")


def test_a_room_without_a_folder_takes_none_and_says_so(tmp_path, submitted, notebook):
    with opened(tmp_path / "room.db") as room:
        attendance.join(room.words, "Ada")
        assert "takes no hand-ins" in str(hand_in.hand_in(str(notebook), sure=True))


def test_what_is_no_notebook_of_a_chapter_is_not_sent(room, submitted, tmp_path):
    attendance.join(room.words, "Ada")
    (tmp_path / "notes.txt").write_text("begin")
    assert "is not a notebook of a chapter" in str(hand_in.hand_in(str(tmp_path / "notes.txt"), sure=True))
    assert "was not found" in str(hand_in.hand_in(sure=True))
    attendance.leave()
    assert "not in a room" in str(hand_in.hand_in(sure=True))


def test_a_room_that_dies_before_it_answers_loses_no_notebook_and_keeps_none_twice(
    tmp_path, submitted, notebook, monkeypatch
):
    """Each of twelve learners meets a room that dies at another moment of keeping a file, and is opened again."""
    written, path = received.write_whole, tmp_path / "room.db"
    calls = itertools.count()

    def dies(path: Path, content: bytes) -> None:
        if (number := next(calls)) % 3 == 0:
            raise MemoryError("killed before the file")
        written(path, content)
        if number % 3 == 1:
            raise MemoryError("killed after it")

    with opened(path, submitted=submitted) as room:
        port, links = room.port, [connection.enter(room.words, f"learner{number}")[0] for number in range(12)]
        monkeypatch.setattr(received, "write_whole", dies)
        content = {"chapter": CHAPTER, "notebook": "eyJjZWxscyI6IFtdfQ=="}
        for each in links:
            with pytest.raises(ValueError, match="Expecting value"):  # the server's 500 is no JSON
                each.post("/handin", content | {"student": each.nickname})
    monkeypatch.setattr(received, "write_whole", written)
    with opened(path, port, submitted):
        again = [
            threading.Thread(target=outbox.hand_over, args=(each, content | {"student": each.nickname}))
            for each in links
        ]
        for thread in again:
            thread.start()
        for thread in again:
            thread.join(60)
    assert len(files(submitted)) == 2 * 12
    assert {item.key.split("/")[0] for item in find(submitted, {CHAPTER: [CHAPTER]})} == {
        each.nickname for each in links
    }
    assert len((home() / "receipts.jsonl").read_text().splitlines()) == 12
