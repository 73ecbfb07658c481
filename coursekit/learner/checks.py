"""What a notebook calls: check an answer, ask for a hint, answer a quiz, see the solution."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from coursekit.basics.cards import Note, plural
from coursekit.basics.readers_language import told
from coursekit.judging import exercise, wire
from coursekit.judging.answer import Answer, serve
from coursekit.judging.failure import describe_safely
from coursekit.judging.message_ids import Said, said
from coursekit.judging.result import INTERRUPTED, Result
from coursekit.learner import shell
from coursekit.learner.check_output import limited, saying_what_it_waits_for
from coursekit.learner.mistake_hints import mistake_hints
from coursekit.learner.overview import open_items, overview
from coursekit.learner.progress import attempts, save
from coursekit.learner.session import Session, current
from coursekit.learner.workshop import connection, live_question, outbox
from coursekit.learner.workshop.copied_answers import taken

ATTEMPTS_BEFORE_SOLUTION = 3
TAKEN = "This answer came from the room, so it earns no points. Write your own in the answer cell, run that cell, and check again."
LAST_HINT = "That was the last one."
HINTS = "#7c3aed"
CLOSED = "Your instructor has closed them for this chapter. If you are stuck, ask in class."


class NotPassed(AssertionError):
    """A check did not pass under nbgrader, which scores a cell that raises as 0."""


def check(name: object = None, answer: object = ...) -> Result:
    """Return the result of checking your answer: passed, wrong, todo, crashed or interrupted, with what was tried.

    `check("as_task")` and `check(as_task)` take the notebook's own `as_task`.
    """
    return _kept(_judged(name, answer, "exercise"))


def quiz(name: object = None, answer: object = ...) -> Result | Note:
    """Return the feedback on your choice; while your instructor asks the room, your choice is a vote and the feedback waits."""
    result = _judged(name, answer, "quiz")
    name = result.name
    chosen = result.message_id.partition("quiz-")[2]
    voted = live_question.vote(result.chapter, name, chosen) if chosen else None
    return voted or _kept(result)


def passed(name: str) -> bool:
    """Return whether an exercise is passed in this notebook, or taken over from the room; if not, show which one comes first."""
    session = current()
    exercise.find(session.chapter, name, _kind(session, name), "passed")
    result = session.results.get(name)
    if (result and result.status == "passed") or taken(session.chapter, name):
        return True
    text = f"Solve `{name}` above and run its check; then run this cell again."
    shell.show(Note(f"This cell builds on {name}", text))
    return False


def hint(name: object = None, number: int = 0) -> Note:
    """Return the next hint of an exercise, or the one with this number; `hint()` is of the exercise that you checked last.

    Where your last two checks ended at the same mistake, its own hint comes first, if it has one, and again after the last hint.
    """
    session = current()
    name = named(name, "hint", "exercise")
    item: Any = exercise.find(session.chapter, name, "exercise", "hint")
    if "hints" in session.closed:
        return Note("No hints in this class", CLOSED)
    mistake, used_up = (name, session.repeated(name)), session.hints.get(name, 0) >= len(item.hints)
    new = mistake not in session.explained
    if not number and (new or used_up) and (own := mistake_hints(session.chapter).get(mistake)):
        session.explained.add(mistake)
        again = f'hint("{name}", 1)' if used_up else f'hint("{name}")'
        text = f"{own.text}\nThe general hints are still there: `{again}`."
        return Note(f"About this mistake: {name}", text, HINTS, own.shown())
    number = min(max(number, 1) if number else session.hints.get(name, 0) + 1, len(item.hints))
    session.hints[name] = max(number, session.hints.get(name, 0))
    more = f"\n{LAST_HINT} {_what_opens(name, item)}" if number == len(item.hints) else ""
    return Note(f"Hint {number} of {len(item.hints)} for {name}", item.hints[number - 1] + more, HINTS)


def _what_opens(name: str, item: exercise.Exercise) -> str:
    """Return what there is after the last hint, and when."""
    if not attempts_left(name):
        if item.spare:
            return f'`puzzle("{name}")` shows the lines of our solution in another order, and `solution("{name}")` shows ours.'
        return f'`solution("{name}")` shows ours.'
    lines = f'After two attempts, `puzzle("{name}")` shows the lines of our solution in another order. '
    return (lines if item.spare else "") + f'After three attempts, or a pass, `solution("{name}")` shows ours.'


def solution(name: object = None) -> Note:
    """Return our solution with the idea behind it, after three attempts or a pass; `solution()` is of what you checked last."""
    session = current()
    name = named(name, "solution")
    item: Any = exercise.find(session.chapter, name, _kind(session, name), "solution")
    if "solutions" in session.closed:
        return Note("No solutions in this class", CLOSED)
    if left := attempts_left(name):
        return Note(f"Not yet: {name}", f"The solution opens after {left}, or when you pass. `hint` is free.")
    if item.kind == "quiz":
        text, feedback = item.options[item.key]
        return Note(f"{name}: {item.key}) {told(text)}", feedback, "#16a34a")
    code = shell.solution_code(session.chapter, name)
    return Note(f"Our solution of {name}", item.idea, "#16a34a", code) if code else no_solution(name)


def attempts_left(name: str, earlier: int = 0) -> str:
    """Return how many attempts an exercise needs before its solution opens, or so much earlier; "" where it is open."""
    session = current()
    result = session.results.get(name)
    left = ATTEMPTS_BEFORE_SOLUTION - earlier - attempts(session.chapter, name)
    return plural(left, "more attempt") if left > 0 and not (result and result.status == "passed") else ""


def no_solution(name: str) -> Note:
    """Return what to say where a copy of the course has no solutions."""
    return Note(
        f"No solution of {name} here",
        "This copy of the course has no solutions/: ask the person who gave it to you.",
    )


def local(name: str, learner: object) -> Answer:
    """Return the answer for a check that runs in the learner's own process, as it does in a notebook."""

    def ask(request: bytes) -> bytes:
        try:
            return serve({name: learner}, name, request)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # past `Exception`, or an exception that has no text
            return wire.encode({"raised": describe_safely(error)})

    answer = Answer(name, ask, _records)
    answer.in_notebook = True
    return answer


def _records(operation: str, **window: object) -> Any:
    """Return what a function of `coursekit.ray_bridge.records` returns; asked like an answer, so that it raises what an answer raises."""
    from coursekit.ray_bridge import records  # imports Ray: only when asked

    return local(operation, getattr(records, operation))(**window)


def named(given: object, caller: str, kind: str = "") -> str:
    """Return the name of the exercise that a learner means: by its name, its answer, or nothing, which is what they checked last."""
    session = current()
    items = exercise.load(session.chapter)
    if isinstance(given, str):
        return given
    names = [name for name in session.results if not kind or items[name].kind == kind]
    if given is not None:
        names = [name for name in items if shell.names().get(name) is given]
    if not names:
        known = [name for name, item in items.items() if not kind or item.kind == kind]
        raise exercise.UnknownName(f'Say which one, in quotes: {caller}("{known[0]}"). There are: {", ".join(known)}.')
    return names[-1]


def _kind(session: Session, name: str) -> str:
    item = exercise.load(session.chapter).get(name)
    return item.kind if item else "exercise"


def _judged(given: object, answer: object, kind: str) -> Result:
    """Return the result of an answer; where none is given, of the notebook's own by that name."""
    session = current()
    name = named(given, "check" if kind == "exercise" else "quiz", kind)
    item = exercise.find(session.chapter, name, kind)
    item = item if session.quizzes or kind != "quiz" else replace(item, points=0)
    answer = shell.names().get(name, ...) if answer is ... else answer
    if error := shell.broken(name):
        return Result.of(item, "crashed", said("broken-cell", name=name, error=error))
    return result_of(item, answer)


def result_of(item: exercise.Exercise | exercise.Quiz, answer: object, seed: int = exercise.PUBLIC_SEED) -> Result:
    """Return the result of an answer in the learner's own process; it is kept nowhere."""
    if lacking := missing(getattr(item, "needs", {})):
        return Result.of(item, "todo", lacking)
    asked = local(item.name, answer)
    try:
        with limited(), saying_what_it_waits_for(asked), shell.exit_raises():
            return exercise.judge(item, asked, seed)
    except KeyboardInterrupt as interrupt:
        where = describe_safely(interrupt)["where"]
        words = said("interrupted", where=where) if where else said("interrupted-elsewhere")
        return Result.of(item, INTERRUPTED, words, tried=asked.tried)


def missing(needs: Mapping[str, int]) -> Said | None:
    """Return what to say of this notebook's Ray where it has less than a check needs."""
    if not needs:
        return None
    import ray

    if not ray.is_initialized():
        return said("no-ray", needs=_listed(needs))
    has = ray.cluster_resources() | {"node": sum(node["Alive"] for node in ray.nodes())}
    few = {name: has.get(name, 0) for name, amount in needs.items() if has.get(name, 0) < amount}
    return said("few-nodes" if "node" in few else "small-ray", needs=_listed(needs), has=_listed(few)) if few else None


def _listed(resources: Mapping[str, float]) -> str:
    return "`" + ", ".join(f"{name}: {amount:g}" for name, amount in resources.items()) + "`"


def _kept(result: Result) -> Result:
    """Keep and save a result; under nbgrader one that is not passed raises."""
    session = current()
    if result.status != INTERRUPTED:
        session.keep(result)
    if os.environ.get("NBGRADER_EXECUTION"):
        if result.status != "passed":
            raise NotPassed(str(result))
        return result
    if result.status == INTERRUPTED:
        return result
    if taken(result.chapter, result.name):
        shell.show(Note(f"{result.name} is the room's answer", TAKEN))
        return result
    left = open_items(result.chapter, session.quizzes)
    if note := save(result, session.since_last()):
        shell.show(Note("About your progress", note))
    if result.status == "passed" and left == {result.name}:
        shell.show(
            Note("Every point of this chapter is yours", "", "#16a34a", link=overview().next_step(result.chapter))
        )
    if connection.joined():
        tries, hints = attempts(result.chapter, result.name), session.hints.get(result.name, 0)
        outbox.tell(outbox.of_result(result, tries, hints))
    return result
