"""The judge's side stays with the judge: checks work across processes, and no recorded transcript passes twice."""

from collections.abc import Callable

import pytest

from coursekit import wire
from coursekit.exercise import PUBLIC_SEED, judge, load
from tests.chapters import CHAPTERS
from tests.isolated import answer_of, learner_process

pytestmark = pytest.mark.slow
LEARNED = {"train"}  # about one agent of chapter 9 in twenty also balances, by luck, through another seed's glasses
CONSTANTS = [None, True, 0, 1.0, "", [], {}, [True, True]]


def kind(name: str, request: bytes) -> tuple:
    """Return what tells a request from those whose replies would not do for it."""
    return name, wire.decode(request, functions=True)["op"]


def replay(replies: list[tuple[tuple, bytes]]) -> Callable[[str, bytes], bytes]:
    """Return a learner's end that gives the recorded replies again, whatever it is asked."""
    left = list(replies)

    def ask(name: str, request: bytes) -> bytes:
        asked = kind(name, request)
        same = [pair for pair in left if pair[0] == asked] or [pair for pair in replies if pair[0] == asked]
        if same[0] in left:
            left.remove(same[0])
        return same[0][1]

    return ask


@pytest.mark.parametrize("chapter", CHAPTERS)
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


@pytest.mark.parametrize("constant", CONSTANTS, ids=repr)
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_no_exercise_passes_on_a_constant(chapter, constant):
    reply = wire.encode({"value": constant})
    for item in load(chapter).values():
        if item.kind == "exercise":
            result = judge(item, answer_of(lambda name, request: reply, item.name), PUBLIC_SEED)
            assert result.status == "wrong", f"{item.name} passes on {constant!r}"
