"""What a learner types to be seen in the room: join, leave, stuck."""

from coursekit.basics.cards import Note
from coursekit.learner import session
from coursekit.learner.workshop import connection, live_question

SENT = """\
From now on each check sends this, and nothing else: never code, values, outputs, paths or names of accounts.
  {example}
A vote, `predict`, `measured` and `share` send the letter or the number that you give. `stuck("a line, if you like")` raises
your hand. `leave()` ends it."""


def join(room: str, nickname: str = "") -> Note:
    """Join the room whose address and code your instructor shows, as in `join("192.168.1.7 QUIET-FALCON")`."""
    try:
        connection.pair(room)
        name = nickname or input("A nickname for the board: ").strip() or "somebody"
        joined = connection.enter(room, name)
        live_question.listen(fresh=True)
    except connection.NoRoom as error:
        return Note("Not joined", str(error), "#dc2626")
    example = connection.event("check", "ch01_tasks", exercise="parallel_map", outcome="wrong", attempts=2, hints=1)
    example |= {"message_id": "3r5ayo", "seconds": 0.4, "id": joined.id}
    words = ", ".join(f"{key} {value}" for key, value in example.items())
    return Note(f"You are in, {joined.nickname}", SENT.format(example=words), "#16a34a")


def leave() -> Note:
    """Leave the room: nothing is sent from now on."""
    if connection.current() is None:
        return Note("You are in no room", "Nothing is being sent.")
    heard = connection.part()
    unheard = "" if heard else " It did not answer, so your name may stay on its board for a while."
    return Note("You have left the room", f"Nothing is sent any more.{unheard}")


def stuck(line: str | None = "") -> Note:
    """Raise your hand on the instructor's board, with a line if you like; `stuck(None)` lowers it."""
    if not connection.joined():
        return connection.OUTSIDE
    chapter = session.chapter()
    if line is None:
        return connection.tell(connection.event("down", chapter)) or Note("Your hand is down", "")
    said = " ".join(line.split())[: connection.LINE]
    told = connection.tell(connection.event("hand", chapter, line=said))
    return told or Note("Your hand is up", "Your instructor sees it on the board.", "#7c3aed")
