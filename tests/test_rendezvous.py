"""A rendezvous tells tasks that ran at the same time from those that did not, however their moments fall."""

import pytest

from coursekit.ray_bridge import rendezvous


@pytest.fixture
def signals(monkeypatch) -> set[str]:
    """Return the signals of a point that is kept here instead of in Ray."""
    found: set[str] = set()
    monkeypatch.setattr(rendezvous, "signal", lambda point, name: found.add(name))
    monkeypatch.setattr(rendezvous, "signalled", lambda point, name: name in found)
    monkeypatch.setattr(rendezvous, "patience", lambda: 0.2)
    return found


def after_a_look_at(name: str, come: set[str], signals: set[str], monkeypatch) -> None:
    """Have signals come right after somebody has looked for one."""

    def look(point: str, wanted: str) -> bool:
        was_there = wanted in signals
        if wanted == name:
            signals.update(come)
        return was_there

    monkeypatch.setattr(rendezvous, "signalled", look)


def test_two_meet_when_the_other_comes_and_leaves_between_two_looks(signals, monkeypatch):
    after_a_look_at("in-1", {"in-1", "out-1"}, signals, monkeypatch)
    assert rendezvous.meets("point", 0, 1)


def test_two_do_not_meet_one_after_the_other(signals):
    assert not rendezvous.meets("point", 0, 1)
    assert not rendezvous.meets("point", 1, 0)


def test_a_signal_that_comes_just_before_the_word_that_ends_the_wait_is_seen(signals, monkeypatch):
    after_a_look_at("news", {"news", "over"}, signals, monkeypatch)
    assert rendezvous.wait_for("point", "news", unless="over")


def test_the_word_that_ends_the_wait_ends_it(signals):
    signals.add("over")
    assert not rendezvous.wait_for("point", "news", unless="over")


def test_who_waits_says_for_what_and_for_how_long(signals, monkeypatch):
    import ray

    said: dict[str, str] = {}
    monkeypatch.setattr(rendezvous, "_put", said.__setitem__)
    monkeypatch.setattr(rendezvous, "_get", said.get)
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    assert not rendezvous.meets("point", 0, 1)
    assert rendezvous.waiting() == ""  # it was short
    monkeypatch.setattr(rendezvous, "patience", lambda: 20.0)
    monkeypatch.setattr(rendezvous.time, "sleep", lambda seconds: signals.update({"in-1"} if said else ()))
    monkeypatch.setattr(rendezvous, "SAID_AFTER", 0.0)
    assert rendezvous.meets("point", 0, 1)
    assert rendezvous.waiting() == "waiting for a second call to start, up to 20 s"


def test_what_an_answer_has_left_is_cancelled_but_no_creation_of_an_actor(signals, monkeypatch):
    """Ray ends the whole process that asks for that, be it a learner's kernel."""
    import ray

    from coursekit.given import ch04_scheduling, nodes
    from coursekit.ray_bridge import records

    left = [{"kind": kind, "task_id": digit * 48} for kind, digit in (("actor_creation", "a"), ("task", "b"))]
    cancelled: list[str] = []
    monkeypatch.setattr(nodes, "unfinished", lambda since: left)
    monkeypatch.setattr(records, "actors", lambda: [])
    monkeypatch.setattr(ch04_scheduling, "_groups", lambda: {})
    monkeypatch.setattr(ray, "cancel", lambda ref, **how: cancelled.append(ref.hex()[:1]))
    ch04_scheduling._stop(0.0)
    assert cancelled == ["b", "b"]
