"""The judge's side stays with the judge: checks work across processes, and no recorded transcript passes twice."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from coursekit.judging import wire
from coursekit.judging.exercise import PUBLIC_SEED, Exercise, judge, load
from tests.chapters import CHAPTERS
from tests.isolated import answer_of, learner_process

pytestmark = pytest.mark.slow
LEARNED = {"train"}  # about one agent of chapter 9 in twenty also balances, by luck, through another seed's glasses
LONG = ("ch09_dqn", "ch16_tune", "ch20_capstone", "ch23_self_play")  # whose solutions train for a minute
CONSTANTS = [None, True, 0, 1.0, "", [], {}, [True, True]]
ODD = [None, -1, "text", []]  # what stands where a reply has something else


def kind(name: str, request: bytes) -> tuple:
    """Return what tells a request from those whose replies would not do for it."""
    return name, wire.decode(request, functions=True)["op"]


def replay(replies: list[tuple[tuple, bytes]], odd: dict[int, bytes] | None = None) -> Callable[[str, bytes], bytes]:
    """Return a learner's end that gives the recorded replies again, whatever it is asked; some of them, by place, are `odd`."""
    left = list(range(len(replies)))

    def ask(name: str, request: bytes) -> bytes:
        asked = kind(name, request)
        same = [i for i in left if replies[i][0] == asked] or [i for i in range(len(replies)) if replies[i][0] == asked]
        if same[0] in left:
            left.remove(same[0])
        return (odd or {}).get(same[0], replies[same[0]][1])

    return ask


def misshapen(replies: list[tuple[tuple, bytes]]) -> Iterator[tuple[int, bytes]]:
    """Yield the places of the first and last replies of an answer, each with one part of it replaced by an odd value."""
    own = [i for i, ((name, _), _) in enumerate(replies) if "." not in name]
    for place in sorted({*own[:2], *own[-1:]}):
        content = wire.decode(replies[place][1])
        for changed in odd_ones(content.get("value")):
            yield place, wire.encode({"value": changed})


def unjudged(item: Exercise, replies: list[tuple[tuple, bytes]]) -> dict[str, object]:
    """Return where a check itself fails on a reply with an odd part, with one such reply each."""
    found = {}
    for place, odd in misshapen(replies):
        result = judge(item, answer_of(replay(replies, {place: odd}), item.name), PUBLIC_SEED + 2)
        if result.status == "unjudged":
            found[f"{result.values['check']}: {result.values['error']}"] = wire.decode(odd)["value"]
    return found


def odd_ones(value: Any, depth: int = 2) -> Iterator[Any]:
    """Yield a plain value with each of its first parts, down to a depth, replaced by odd ones, and left out."""
    yield from ODD
    if not depth or not isinstance(value, dict | list | tuple):
        return
    keys = list(value)[:12] if isinstance(value, dict) else sorted({*range(len(value))[:2], *range(len(value))[-1:]})
    for key in keys:
        rest = {each: value[each] for each in value if each != key} if isinstance(value, dict) else value[:key]
        yield rest
        for odd in odd_ones(value[key], depth - 1):
            yield value | {key: odd} if isinstance(value, dict) else [*value[:key], odd, *value[key + 1 :]]


@pytest.mark.parametrize(
    "chapter", [pytest.param(name, marks=pytest.mark.nightly) if name in LONG else name for name in CHAPTERS]
)
def test_solution_passes_where_exercises_do_not_exist_and_its_transcript_does_not(chapter):
    exercises = [item for item in load(chapter).values() if item.kind == "exercise"]
    with learner_process(chapter) as pipe:
        for item in exercises:
            replies: list[tuple[tuple, bytes]] = []

            def ask(name: str, request: bytes, replies: list = replies) -> bytes:
                pipe.send_bytes(name.encode())
                pipe.send_bytes(request)
                replies.append((kind(name, request), pipe.recv_bytes()))
                return replies[-1][1]

            result = judge(item, answer_of(ask, item.name), PUBLIC_SEED + 2)
            assert (result.status, result.message) == ("passed", "")
            turns = range(3 if item.name in LEARNED else 1)
            again = {
                judge(item, answer_of(replay(replies), item.name), PUBLIC_SEED + 3 + turn).status for turn in turns
            }
            assert again != {"passed"}, f"{item.name} passes with the transcript of another run"
            assert unjudged(item, replies) == {}, f"{item.name}: the check fails itself on such replies"


@pytest.mark.parametrize("constant", CONSTANTS, ids=repr)
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_no_exercise_passes_on_a_constant(chapter, constant):
    reply = wire.encode({"value": constant})
    for item in load(chapter).values():
        if item.kind == "exercise":
            result = judge(item, answer_of(lambda name, request: reply, item.name), PUBLIC_SEED)
            assert result.status == "wrong", f"{item.name} on {constant!r}: {result}"
