"""The judge's side of CHAPTER."""

from numpy.random import Generator

from coursekit.given import CHAPTER as given
from coursekit.judging.answer import Answer
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import expect_equal


@exercise(
    points=1,
    minutes=2,
    hints=["Which operator repeats a number?", "Twice x is x times two."],
    returns=int,
    message="That is not twice the argument.",
)
def double(rng: Generator) -> list[tuple]:
    """Multiply by two; nothing else is needed."""
    return [((x,), 2 * x) for x in rng.integers(3, 100, size=3).tolist()]


@exercise(points=1, minutes=2, hints=["Python has a function for this.", "Its name begins like `maximum`."])
def largest(answer: Answer, rng: Generator) -> None:
    """Let `max` walk the list."""
    numbers = rng.integers(-50, -1, size=6).tolist()
    for order in (numbers, sorted(numbers), sorted(numbers, reverse=True)):
        with answer.case(f"{len(order)} negative numbers: {order}"):
            expect_equal(answer(order), max(numbers), "That is not the largest of these numbers.")


@exercise(points=1, minutes=3, hints=["Which value does the first call return?", "Remember it before you change it."])
def Counter(answer: Answer, rng: Generator) -> None:
    """Keep the old value in a name of its own, move on, return the old one."""
    start, calls = int(rng.integers(10, 1000)), int(rng.integers(3, 7))
    with answer.case(f"{calls} calls from {start}"):
        values = answer.probe(given.call_next, start, calls)
        expect_equal(values, list(range(start, start + calls)), f"The calls gave {values}.")


question(
    "what_is_double",
    """
    What does `double("ab")` return?

    a) an error
        Python repeats a string when you multiply it.
    *b) `"abab"`
        Right: `*` repeats a string.
    c) `"aabb"`
        The string is repeated as a whole, not letter by letter.
    """,
)

question(
    "largest_of_none",
    """
    What does `max([])` do?

    a) It returns `None`.
        `max` has no value to give back, and does not make one up.
    b) It returns 0.
        0 would be larger than every negative number.
    *c) It raises `ValueError`.
        Right: there is no largest of nothing.
    """,
)

question(
    "why_a_probe",
    """
    Why does the check not look at `counter.value`?

    *a) What counts is what the object does.
        Right: a class may keep its state under any name.
    b) Attributes cannot be read from outside.
        They can; but how the state is kept is your choice.
    c) It would be slower.
        It would be as fast; but how the state is kept is your choice.
    """,
)
