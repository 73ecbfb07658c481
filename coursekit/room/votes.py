"""Questions to the room: a quiz is opened, the room votes, talks, votes again, and sees both votes when it is closed."""

from collections import Counter
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from coursekit.basics.errors import chapter_names
from coursekit.basics.readers_language import told
from coursekit.judging import exercise
from coursekit.room.incoming import Event

GRACE = 5  # seconds after a round in which a vote that was cast in it may still arrive
# What the instructor may do in each phase.
NEXT = {
    "closed": {"open": "vote", "hide": "closed"},
    "vote": {"talk": "talk", "close": "closed"},
    "talk": {"again": "again", "close": "closed"},
    "again": {"close": "closed"},
}


@dataclass
class Poll:
    """One round of votes: everybody has one, and their last one counts."""

    ended: float | None = None
    votes: dict[str, str] = field(default_factory=dict)  # by person


@dataclass
class Question:
    """A quiz that was opened, with its rounds by their numbers."""

    chapter: str
    name: str
    phase: str = "vote"
    polls: dict[int, Poll] = field(default_factory=dict)


class Questions:
    """The question before the room; rounds are numbered through, so that a vote says which one it is for."""

    def __init__(self) -> None:
        self.now: Question | None = None
        self._rounds = 0

    def do(self, doing: str, chapter: str, name: str, at: float) -> None:
        """Do what the instructor chose: open, talk, again, close or hide; raises ValueError where it does not fit."""
        phase = NEXT[self.now.phase if self.now else "closed"].get(doing)
        if phase is None:
            raise ValueError(f"{doing} does not fit now")
        if doing == "open":
            if _quiz(chapter, name) is None:
                raise ValueError("there is no such quiz")
            self.now = Question(chapter, name)
        if self.now is None or doing == "hide":
            self.now = None
            return
        for poll in self.now.polls.values():
            poll.ended = poll.ended or at
        if phase in ("vote", "again"):
            self._rounds += 1
            self.now.polls[self._rounds] = Poll()
        self.now.phase = phase

    def vote(self, person: str, event: Event, at: float) -> None:
        """Count a vote for the round that it names, or else for the first that was not over when it was cast, however late it comes."""
        if self.now is None or (self.now.chapter, self.now.name) != (event.chapter, event.exercise):
            return
        cast, polls = at - event.seconds, [poll for number, poll in self.now.polls.items() if event.poll in (0, number)]
        for grace, poll in product((0, GRACE), polls):
            if poll.ended is None or cast < poll.ended + grace:
                poll.votes[person] = event.choice
                return

    def told(self) -> dict[str, Any] | None:
        """Return what learners' machines hear: which verdict is held back, and which round is open, 0 for none."""
        if self.now is None or self.now.phase == "closed":
            return None
        poll = max(self.now.polls) if self.now.phase in ("vote", "again") else 0
        return {"chapter": self.now.chapter, "name": self.now.name, "poll": poll}

    def view(self, early: bool) -> dict[str, Any] | None:
        """Return the question with the votes of each round; how they fall, before it is closed, only if `early`."""
        item = _quiz(self.now.chapter, self.now.name) if self.now else None
        if self.now is None or item is None:
            return None
        closed = self.now.phase == "closed"
        rounds = [Counter(poll.votes.values()) for poll in self.now.polls.values()]
        options = [
            {
                "letter": letter,
                "text": told(text, self.now.chapter),
                "votes": [votes[letter] for votes in rounds] if closed or early else None,
                "right": closed and letter == item.key,
            }
            for letter, (text, _) in item.options.items()
        ]
        return {
            "chapter": self.now.chapter,
            "name": self.now.name,
            "text": told(item.question, self.now.chapter),
            "phase": self.now.phase,
            "options": options,
            "votes": [sum(votes[letter] for letter in item.options) for votes in rounds],
            "next": [doing for doing in NEXT[self.now.phase] if doing != "open"],
        }


def all_quizzes() -> list[dict[str, str]]:
    """Return every quiz of the course, in order."""
    return [
        {"chapter": chapter, "name": item.name, "text": told(item.question, chapter)}
        for chapter in chapter_names()
        for item in exercise.load(chapter).values()
        if isinstance(item, exercise.Quiz)
    ]


def _quiz(chapter: str, name: str) -> exercise.Quiz | None:
    try:
        item = exercise.load(chapter).get(name)
    except exercise.UnknownName:
        return None
    return item if isinstance(item, exercise.Quiz) else None
