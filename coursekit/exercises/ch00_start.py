"""The judge's side of chapter 0."""

from numpy.random import Generator

from coursekit.judging.answer import Answer
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import expect_close


@exercise(
    points=1,
    minutes=5,
    hints=[
        "How many rounds does it take until every task has had its turn? The last round may be only partly full.",
        "A round takes `seconds_each`, however full it is. Which function of `math` rounds up?",
    ],
)
def best_seconds(answer: Answer, rng: Generator) -> None:
    """Count rounds, rounding up: a round that is partly empty takes as long as a full one."""
    expect_close(answer(12, 0.5, 4), 1.5, "Twelve tasks on four workers are three rounds.")
    workers, rounds = int(rng.integers(3, 9)), int(rng.integers(2, 6))
    seconds = round(float(rng.uniform(0.1, 2.0)), 2)
    expect_close(
        answer(rounds * workers + 1, seconds, workers),
        (rounds + 1) * seconds,
        f"One task more than {rounds} full rounds: who runs it, and when is that done?",
    )
    expect_close(
        answer(1, seconds, workers), seconds, "A single task takes its own time, however many workers stand by."
    )


question(
    "what_distribution_costs",
    """
    A program runs on ten nodes, each with its own memory. Which of these got *harder* than on one?

    a) Using more than one core.
        That got easier: every node brings cores.
    b) Holding data that one machine's memory cannot.
        That got easier: ten nodes have ten memories.
    *c) Letting every part of the program see the newest value of a variable.
        Right: no memory is shared any more. Values have to be sent, and the processes must agree on which is the newest.
    d) Surviving the failure of one machine.
        On one machine that was impossible. On ten it is possible, though it takes work.
    """,
)
