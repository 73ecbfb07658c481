"""Answers for latecomers: those before the open section, and nothing else; they count as nobody's."""

import pytest

import coursekit
from coursekit.learner import checks, shell
from coursekit.learner.progress import load
from coursekit.learner.workshop import attendance, catch_up, connection
from tests.rooms import a_room, instructor

__all__ = ["a_room"]

SECOND = "`ray.wait` returns references as they become ready"
THIRD = "If you pass a reference to a task, the task receives the value"


@pytest.fixture
def ada(room):
    coursekit.begin("ch01_tasks")
    attendance.join(room.words, "Ada")
    return connection.current()


def test_only_what_lies_before_the_open_section_is_given(room, ada):
    with pytest.raises(connection.Refused, match="^your instructor has opened no section of this chapter yet$"):
        ada.post("/catch_up", {"chapter": "ch01_tasks"})
    assert instructor(room, doing="section", chapter="ch01_tasks", name=SECOND) == 200
    for data, status in (({"section": THIRD}, 403), ({"chapter": "../ch01_tasks"}, 403), ({"section": "zzz"}, 422)):
        with pytest.raises(connection.Refused) as refused:
            ada.post("/catch_up", {"chapter": "ch01_tasks"} | data)
        assert refused.value.status == status
    given = ada.post("/catch_up", {"chapter": "ch01_tasks"})
    assert list(given["answers"]) == ["as_task", "parallel_map"]
    assert room.person("Ada")["cells"]["as_task"]["outcome"] == "taken"


def test_an_answer_that_was_taken_over_lets_one_go_on_and_earns_nothing(room, ada, monkeypatch):
    assert instructor(room, doing="section", chapter="ch01_tasks", name=SECOND) == 200
    said = catch_up.catch_up()
    assert "def parallel_map" in said.code
    monkeypatch.setattr(shell, "_sources", {"as_task": said.code})
    assert checks.passed("as_task")
    assert not checks.passed("first_k")
    assert load()[0] == {}
