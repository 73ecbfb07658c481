"""What a learner types to be seen in the room: join, leave, stuck."""

import contextlib
import http.client

from coursekit.basics.cards import Note
from coursekit.basics.readers_language import told
from coursekit.learner import session
from coursekit.learner.workshop import connection, outbox

SENT = """\
From now on, each check sends this and nothing else: never code, values, outputs, paths, or account names.
  {example}
A vote, `predict`, `measured`, and `share` send the letter or the number that you give. To raise your hand, with a line if you like:
  from coursekit import stuck; stuck("a line")
To end it:
  from coursekit import leave; leave()"""
NAMESAKE = "Somebody else is also called {nickname}, so you are {shown} on the board.\n"
UNSENT = "Your notebook of {chapters} never arrived. Hand it in again, here or in some other way."


def join(room: str, nickname: str = "") -> Note:
    """Join the room whose address and code your instructor shows, as in `join("192.168.1.7 QUIET-FALCON")`."""
    before = connection.current()
    try:
        connection.pair(room)
        name = nickname or input(told("A nickname for the board: ")).strip() or "somebody"
        joined, shown = connection.enter(room, name)
    except connection.NoRoom as error:
        return Note("Not joined", str(error), "#dc2626")
    unsent: list[str] = []
    if before is None or before.fingerprint != joined.fingerprint:
        unsent = outbox.notebooks_waiting()
        outbox.clear()
    connection.keep(joined)
    outbox.resume()
    example = outbox.event("check", "ch01_tasks", exercise="parallel_map", outcome="wrong", attempts=2, hints=1)
    example |= {"message_id": "3r5ayo", "seconds": 0.4, "id": joined.id}
    text = SENT.format(example=", ".join(f"{key} {value}" for key, value in example.items()))
    namesake = NAMESAKE.format(nickname=name, shown=shown) if shown != name else ""
    return Note(f"You are in, {shown}", f"{namesake}{text}{_lost(unsent)}", "#16a34a")


def leave() -> Note:
    """Leave the room: nothing is sent from now on."""
    room, heard = connection.current(), False
    if room is None:
        return Note("You are not in a room", "Nothing is being sent.")
    with contextlib.suppress(OSError, connection.NoRoom, http.client.HTTPException, ValueError):
        outbox.deliver(room)
        room.post("/leave", {})
        heard = True
    connection.forget()
    unsent = outbox.notebooks_waiting()
    outbox.clear()
    unheard = "" if heard else " It did not answer, so your name may stay on its board for a while."
    return Note("You have left the room", f"Nothing is sent anymore.{unheard}{_lost(unsent)}")


def stuck(line: str | None = "") -> Note:
    """Raise your hand on the instructor's board, with a line if you like; `stuck(None)` lowers it."""
    if not connection.joined():
        return connection.OUTSIDE
    if line is None:
        missing = outbox.send(outbox.event("down", chapter()))
        return Note("Your hand is not down yet" if missing else "Your hand is down", missing)
    said = " ".join(line.split())[: connection.LINE]
    if missing := outbox.send(outbox.event("hand", chapter(), line=said)):
        return Note("Your hand is not on the board yet", missing, "#64748b")
    return Note("Your hand is up", "Your instructor sees it on the board.", "#7c3aed")


def chapter() -> str:
    """Return the chapter that has begun; one may be stuck before any has."""
    try:
        return session.chapter()
    except RuntimeError:
        return "ch00_start"


def _lost(chapters: list[str]) -> str:
    return f"\n{UNSENT.format(chapters=', '.join(chapters))}" if chapters else ""
