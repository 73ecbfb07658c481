"""The judge's side of chapter 0."""

from numpy.random import Generator

from coursekit.judging.answer import Answer
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import expect_close


@exercise(
    points=1,
    minutes=5,
    hints=[
        "How many rounds does it take to run every task? The last round may be only partly full.",
        "Each round takes `seconds_each`, even if it isn't full. Which function in `math` rounds up?",
    ],
)
def best_seconds(answer: Answer, rng: Generator) -> None:
    """Count the rounds, and round up: a round that is only partly full takes as long as a full one."""
    expect_close(answer(12, 0.5, 4), 1.5, "Twelve tasks on four workers are three rounds of 0.5 s each.")
    workers, rounds = int(rng.integers(3, 9)), int(rng.integers(2, 6))
    seconds = round(float(rng.uniform(0.1, 2.0)), 2)
    expect_close(
        answer(rounds * workers + 1, seconds, workers),
        (rounds + 1) * seconds,
        f"After {rounds} full rounds, one task is left, and it takes {seconds} s, too.",
    )
    expect_close(
        answer(rounds * workers - 1, seconds, workers),
        rounds * seconds,
        f"This takes {rounds} rounds of {seconds} s. The last one is one task short of full, but it still takes {seconds} s.",
    )
    expect_close(answer(1, seconds, 1000), seconds, f"A single task takes {seconds} s, even if 1000 workers are free.")


question(
    "what_distribution_costs",
    """
    You move a program from one node to ten, each with its own memory. Which of these gets *harder*?

    a) Using more than one core.
        That gets easier: every node has cores to use.
    b) Holding data that doesn't fit in one machine's memory.
        That gets easier: the data can be spread over the memory of ten nodes.
    *c) Giving every part of the program the latest value of a variable.
        Right: the nodes don't share memory. Values have to be sent, and the processes must agree on which value is the latest.
    d) Surviving the failure of a machine.
        That gets easier: with a single machine it's impossible, and with ten it's possible, though it takes work.
    """,
)
