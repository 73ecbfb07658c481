"""A puzzle before the solution: its lines in another order, with one or two that do not belong, in a cell of their own.

Learners who order the lines of a solution learn as much as those who write or fix code, and in less time (Ericson, Margulieux
and Rick, *Solving Parsons problems versus fixing and writing code*, Koli Calling 2017).
"""

import io
import random
import tokenize
from typing import Any

from coursekit.basics.cards import Note
from coursekit.basics.readers_language import told
from coursekit.judging.exercise import find
from coursekit.learner import shell
from coursekit.learner.checks import CLOSED, HINTS, attempts_left, named, no_solution
from coursekit.learner.session import current

HOW = """\
# Puzzle: the lines of our solution in another order, and {spare}. Move a line with Alt+Up and Alt+Down,
# delete what doesn't belong, and run the cell. The lines have the right indentation. Then: check("{name}")
"""
ONE_SPARE, SPARE = "one that doesn't belong", "{count} that don't belong"


def puzzle(name: object = None) -> Note:
    """Put our solution's lines, shuffled, into a new cell; it opens one attempt before `solution` does.

    `puzzle()` is of the exercise that you checked last.
    """
    session = current()
    name = named(name, "puzzle", "exercise")
    item: Any = find(session.chapter, name, "exercise", "puzzle")
    if "puzzles" in session.closed or "solutions" in session.closed:
        return Note("No puzzles in this class", CLOSED)
    if not item.spare:
        return Note(
            f"No puzzle of {name}", f'Good answers to `{name}` differ too much. `hint("{name}")` helps with yours.'
        )
    if left := attempts_left(name, 1):
        return Note(f"Not yet: {name}", f"The puzzle opens after {left}, or when you pass. `hint` is free.")
    source = shell.answer_cell(session.chapter, name)
    if not source:
        return no_solution(name)
    shell.put_below(text(name, source, item.spare))
    return Note(f"A puzzle of {name}", "It's in the cell below: put its lines in order.", HINTS)


def text(name: str, source: str, spare: tuple[str, ...], seed: int = 0) -> str:
    """Return the cell: what it says, what encloses the solution, and the solution's lines in an order made of the seed."""
    above, lines, below = parts(source)
    shuffled = [*lines, *spare]
    draw = random.Random(f"{name} {seed}")
    while shuffled[: len(lines)] == lines:
        draw.shuffle(shuffled)
    few = told(ONE_SPARE) if len(spare) == 1 else told(SPARE.format(count=len(spare)))
    return told(HOW.format(name=name, spare=few)) + "\n".join([*above, *shuffled, *below])


def parts(source: str) -> tuple[list[str], list[str], list[str]]:
    """Return the lines above a solution, its own statements without comments and docstrings, and the lines below it."""
    lines = source.splitlines()
    first = next(place for place, line in enumerate(lines) if shell.BEGINS in line)
    last = next(place for place, line in enumerate(lines) if shell.ENDS in line)
    return lines[:first], _statements(lines, first + 1, last), lines[last + 1 :]


def _statements(lines: list[str], first: int, last: int) -> list[str]:
    """Return the statements that begin in these lines, each with all its lines; a compound one is its header."""
    found, began, comments = list[str](), -1, dict[int, int]()
    for token in tokenize.generate_tokens(io.StringIO("\n".join(lines) + "\n").readline):
        row = token.start[0] - 1
        if token.type == tokenize.COMMENT:
            comments[row] = token.start[1]
        elif token.type == tokenize.NEWLINE:
            if first <= began < last:
                whole = [lines[each][: comments.get(each)].rstrip() for each in range(began, row + 1)]
                found.append("\n".join(whole))
            began = -1
        elif began < 0 and token.type not in (tokenize.NL, tokenize.INDENT, tokenize.DEDENT):
            began = row
    return [each for each in found if not each.lstrip().startswith(('"""', 'r"""'))]
