"""What the judges of chapters 10, 20 and 26 read in Ray's records: whether two actors worked side by side, with new weights."""

from collections import Counter
from itertools import pairwise
from math import inf

from coursekit.judging.expect import expect


def expect_samplers_kept_up(tasks: list[dict], sent: list[tuple[str, list[int]]]) -> None:
    """Check by Ray's records that two samplers played, and by what each was sent that its weights changed as it went on.

    `sent` is what `sent_to_actors` wrote down. A test with the best actions cannot tell: what a random policy saw is enough
    to find out which action is better.
    """
    sampled = [task for task in tasks if task["kind"] == "actor_call" and task["name"].endswith("sample")]
    _expect_two_side_by_side(sampled)
    plays = Counter(task["actor_id"] for task in sampled)
    got = {actor: [tuple(marks) for to, marks in sent if to == actor] for actor in plays}
    told = plays if any(got.values()) else {}  # where none was sent any, they came in another way
    for actor, played in told.items():
        received, different = len(got[actor]), len(set(got[actor]))
        expect(
            different >= played / 2,
            f"While it learned, a sampler collected {played} times. How often it was sent weights: {received}; "
            f"how many different ones: {different}. It needs new weights at least every second time.",
        )


def _expect_two_side_by_side(sampled: list[dict]) -> None:
    players = len({task["actor_id"] for task in sampled})
    expect(players >= 2, f"In Ray's records, {players} actors ran `sample` during training; both samplers must run it.")
    overtaken = sum(overtakes(a, b) for a, b in pairwise(sampled))
    expect(
        overtaken >= len(sampled) / 8,
        "Most calls of `sample` came only after another actor's call had ended: call it on all actors, and then get the results.",
    )


def overtakes(earlier: dict, later: dict) -> bool:
    """Return whether a call was sent off before the one before it, to another actor, had ended.

    Not `created`: of an actor that was killed, Ray notes a call's end as it hands the result over, and a caller who waited may
    have made the next call by then. What is submitted comes after that note: one thread of Ray's writes both.
    """
    return earlier["actor_id"] != later["actor_id"] and (later["submitted"] or inf) < (earlier["ended"] or 0)
