"""The question that is before the room: a thread listens for it, and while it is open a quiz is a vote without a verdict."""

import os
import threading
import time
from typing import Any

from coursekit.basics.cards import Note
from coursekit.learner.workshop import connection

WAIT = 25  # seconds that the room keeps an answer back while nothing changes
VOTED = "The verdict comes when your instructor closes the question: then run this cell again. Until then you may change your mind."
TALK = "Talk to your neighbours: who has another answer, and why? The next vote opens soon; then run this cell again."


class Listener(threading.Thread):
    """Knows the question before the room, as long as there is a room."""

    def __init__(self) -> None:
        super().__init__(name="coursekit-asked", daemon=True)
        self.question: dict[str, Any] | None = None

    def run(self) -> None:
        """Listen until the room is left."""
        pause, data = 1.0, dict[str, Any]()  # with nothing seen, the room answers at once
        while _listeners.get(os.getpid()) is self and (room := connection.current()):
            try:
                self.question = room.post("/asked", data, seconds=WAIT + connection.SECONDS).get("question")
                pause, data = 1.0, {"seen": self.question}
            except Exception:  # the sender says it, if anything is to be said
                self.question, data = None, {}
                time.sleep(pause)
                pause = min(2 * pause, connection.LONGEST_PAUSE)
        self.question = None


_listeners: dict[int, Listener] = {}


def listen(fresh: bool = False) -> Listener | None:
    """Return this process's listener, a fresh one where another room was joined; None where there is no room."""
    me = os.getpid()
    if connection.joined() and (fresh or me not in _listeners or not _listeners[me].is_alive()):
        _listeners[me] = Listener()
        _listeners[me].start()
    return _listeners.get(me)


def vote(chapter: str, name: str, choice: str) -> Note | None:
    """Vote, where this quiz is the question before the room; else return None. No verdict is shown while it is open."""
    listener = listen()
    question = listener.question if listener and connection.joined() else None
    if question is None or (question.get("chapter"), question.get("name")) != (chapter, name):
        return None
    if not question["poll"]:
        return Note("The vote is over for now", TALK, "#7c3aed")
    told = connection.tell(connection.event("vote", chapter, exercise=name, poll=question["poll"], choice=choice))
    return told or Note(f"Your vote: {choice}", VOTED, "#7c3aed")
