"""What the judges of chapters 10 and 20 read in Ray's records: whether two samplers played, and side by side."""

from itertools import pairwise

from coursekit.exercise import expect


def expect_two_side_by_side(sampled: list[dict]) -> None:
    """Check that calls of `sample` went to two actors at least, and that neither was told only when the other had ended."""
    players = len({task["actor_id"] for task in sampled})
    expect(players >= 2, f"Ray saw {players} actors `sample` while it learned: both samplers must play.")
    overtaken = sum(_overtakes(a, b) for a, b in pairwise(sampled))
    expect(
        overtaken >= len(sampled) / 8,
        "Each sampler was told to play only when the other had finished: tell all, then collect.",
    )


def _overtakes(earlier: dict, later: dict) -> bool:
    """Return whether a call was sent off before the one before it, to another actor, had ended."""
    return earlier["actor_id"] != later["actor_id"] and later["created"] < (earlier["ended"] or 0)
