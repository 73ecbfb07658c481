"""The question that is before the room: while it is open, or may be, a quiz is a vote without a verdict."""

from coursekit.basics.cards import Note
from coursekit.learner.workshop import connection, outbox

VOTED = "The verdict comes when your instructor closes the question: then run this cell again. Until then you may change your mind."
TALK = "Talk to your neighbors: who has another answer, and why? The next vote opens soon; then run this cell again."
UNKNOWN = """\
{trouble} Your instructor may be asking the room this question, so the verdict waits: run this cell again later.
If you are no longer in the room, run this first: from coursekit import leave; leave()"""


def vote(chapter: str, name: str, choice: str) -> Note | None:
    """Vote, where this quiz is the question before the room, or may be; else return None, and the verdict may be shown."""
    room = connection.current() if connection.joined() else None
    if room is None:
        return None
    cast = outbox.event("vote", chapter, exercise=name, choice=choice)
    try:
        question = room.post("/asked", {}).get("question")
    except connection.NoRoom:  # it has answered: we are not in it
        return None
    except Exception as error:
        if connection.over():
            return None
        text = UNKNOWN.format(trouble=outbox.trouble(error, outbox.tell(cast)))
        return Note(f"Your answer: {choice}", text, "#64748b")
    if question is None or (question.get("chapter"), question.get("name")) != (chapter, name):
        return None
    if not question["poll"]:
        return Note("The vote is over for now", TALK, "#7c3aed")
    missing = outbox.send(cast | {"poll": question["poll"]})
    return Note(f"Your vote: {choice}", f"{missing}\n{VOTED}" if missing else VOTED, "#7c3aed")
