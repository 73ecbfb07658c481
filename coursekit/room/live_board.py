"""What the board shows: who is where, who is stuck, what the room is stuck on. Plain data, made from the events alone."""

import time
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from statistics import median_low
from typing import Any

from coursekit.basics.paths import NOTEBOOKS
from coursekit.basics.readers_language import told
from coursekit.judging import exercise
from coursekit.room.before_and_after import BeforeAndAfter
from coursekit.room.incoming import Event
from coursekit.room.mistake_words import words
from coursekit.room.number_polls import Numbers
from coursekit.room.run_sheet import Plan
from coursekit.room.sections import Sections
from coursekit.room.votes import Questions

SAME = 3  # times in a row that one message makes somebody stuck
SLOW = 2  # times the exercise's minutes that do
THE_SAME, TOO_LONG = "{name}: the same message {times} times", "{name}: {minutes} minutes"
BEHIND = ("passed", "taken")  # what lies behind a learner: solved, or taken over by `catch_up`


@dataclass
class Person:
    """Where one learner is."""

    nickname: str
    chapter: str = ""
    hand: str | None = None  # the line beside a raised hand
    hand_since: float = 0.0
    since: float = 0.0  # when they began the exercise that they are at
    # chapter → exercise → outcome, attempts, …
    cells: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)

    def take(self, event: Event, at: float) -> None:
        """Take in what has come."""
        if event.chapter != self.chapter:
            self.chapter, self.since = event.chapter, at
        if event.kind == "hand":
            self.hand, self.hand_since = event.line, at
        elif event.kind == "down":
            self.hand = None
        elif event.kind == "taken":
            cell = self._cell(event)
            if cell["outcome"] != "passed":
                cell |= {"outcome": "taken", "same": 0}
            self.since = at
        elif event.kind in ("check", "hint") and event.exercise:
            cell = self._cell(event)
            same = event.kind == "check" and event.message_id and event.message_id == cell.get("message_id")
            cell["hints"] = max(cell.get("hints", 0), event.hints)
            if event.kind == "check" and cell["outcome"] != "passed":
                cell |= {"outcome": event.outcome, "attempts": event.attempts, "message_id": event.message_id}
                cell["same"] = cell["same"] + 1 if same else 1
                if event.outcome == "passed":
                    self.since = at

    def _cell(self, event: Event) -> dict[str, Any]:
        return self.cells.setdefault(event.chapter, {}).setdefault(event.exercise, {"outcome": "", "same": 0})

    def stuck(self, plan: Plan, now: float) -> str:
        """Return why somebody should look at them, "" where nobody need."""
        exercises, mine = plan.of(minutes_of(self.chapter)), self.cells.get(self.chapter, {})
        name = next((name for name in exercises if mine.get(name, {}).get("outcome") not in BEHIND), "")
        cell = mine.get(name, {})
        if cell.get("same", 0) >= SAME and cell["outcome"] in ("wrong", "crashed"):
            return told(THE_SAME).format(name=name, times=cell["same"])
        seconds = now - max(self.since, plan.starts(name))
        if name and self.since and seconds > SLOW * exercises[name] * 60:
            return told(TOO_LONG).format(name=name, minutes=f"{seconds / 60:.0f}")
        return ""


class Board:
    """All who are here."""

    def __init__(self) -> None:
        self.people: dict[str, Person] = {}
        self.questions, self.numbers, self.plan, self.sections = Questions(), Numbers(), Plan(), Sections()
        self.ten = BeforeAndAfter()

    def take(self, person: str, event: Event, at: float) -> None:
        """Take in an event of somebody who is here."""
        if event.kind == "vote":
            self.questions.vote(person, event, at)
        if event.kind == "ten":
            self.ten.take(person, event, at)
        if event.kind in ("predict", "measured", "share"):
            self.numbers.take(person, event)
        if person in self.people:
            self.people[person].take(event, at)

    def do(self, doing: str, chapter: str, name: str, at: float) -> None:
        """Do what the instructor chose; raises ValueError where it does not fit."""
        if doing == "plan":
            self.plan.begin(name, at)
        elif doing == "section":
            self.sections.do(chapter, name)
        elif doing == "ten":
            self.ten.do(name, at)
        else:
            self.questions.do(doing, chapter, name, at)

    def chapter(self) -> str:
        """Return the chapter in which most of the room are."""
        counts = Counter(person.chapter for person in self.people.values() if person.chapter)
        return counts.most_common(1)[0][0] if counts else ""

    def view(self, names: bool = True) -> dict[str, Any]:
        """Return the board of the room's chapter; without names, for a projector."""
        now, chapter = time.time(), self.chapter()
        exercises = list(minutes_of(chapter))
        rows = [_row(id, person, chapter, self.plan, now) for id, person in self.people.items()]
        rows.sort(
            key=lambda row: (row["hand"] is None, row["hand_since"], not row["stuck"], row["nickname"].casefold())
        )
        for number, row in enumerate(rows, 1):
            del row["hand_since"]
            if not names:
                row |= {"nickname": f"{number}", "hand": None if row["hand"] is None else ""}
        here = list(self.plan.of(minutes_of(chapter)))  # without those that the run sheet leaves as homework
        done = [sum(row["cells"].get(name, {}).get("outcome") in BEHIND for name in here) for row in rows]
        place = median_low(done) if done else 0
        middle = here[place] if place < len(here) else ""
        return {
            "chapter": chapter,
            "exercises": exercises,
            "people": rows,
            "middle": middle,
            "troubles": self._troubles(chapter),
            "question": self.questions.view(early=names),
            "numbers": self.numbers.view(chapter, early=names),
            "plan": self.plan.view(middle, now) if names else None,
            "open": self.sections.view(),
        }

    def _troubles(self, chapter: str) -> list[dict[str, Any]]:
        """Return the messages at which several are now, the commonest first."""
        counts: Counter[tuple[str, str]] = Counter()
        for person in self.people.values():
            for name, cell in person.cells.get(chapter, {}).items():
                if cell.get("outcome") in ("wrong", "crashed") and cell.get("message_id"):
                    counts[name, cell["message_id"]] += 1
        return [
            {"people": number, "exercise": name, "message": words(chapter, name, message)}
            for (name, message), number in counts.most_common(5)
        ]


def _row(id: str, person: Person, chapter: str, plan: Plan, now: float) -> dict[str, Any]:
    cells = {
        name: {key: cell[key] for key in ("outcome", "attempts", "hints") if key in cell}
        for name, cell in person.cells.get(chapter, {}).items()
    }
    return {
        "id": id,
        "nickname": person.nickname,
        "hand": person.hand,
        "hand_since": person.hand_since,
        "stuck": person.stuck(plan, now),
        "elsewhere": person.chapter if person.chapter != chapter else "",
        "cells": cells,
    }


@cache
def minutes_of(chapter: str) -> dict[str, int]:
    """Return the exercises of a chapter with their minutes, as its notebook has them; none of a chapter that is not here."""
    try:
        items = [item for item in exercise.load(chapter).values() if item.kind == "exercise"]
        text = (NOTEBOOKS / f"{chapter}.ipynb").read_text(encoding="utf-8")
    except (OSError, exercise.UnknownName):  # a learner may have a chapter that this copy of the course has not
        return {}
    items.sort(key=lambda item: text.find(f'check(\\"{item.name}\\"'))
    return {item.name: item.minutes for item in items}
