"""Rooms and classes of any size, the same each time: for the tests of pages, and for the picture in docs/room.md."""

import uuid
from pathlib import Path
from random import Random

from coursekit.judging.result import Result
from coursekit.room.incoming import Event
from coursekit.room.live_board import Person, minutes_of
from coursekit.room.server import Room
from coursekit.room.store import Store

CHAPTER = "ch01_tasks"
NAMES = [
    "Ada",
    "Grace",
    "Edsger",
    "Barbara",
    "Donald",
    "Radia",
    "Alan",
    "Frances",
    "Tony",
    "Shafi",
    "John",
    "Leslie",
    "Katherine",
    "Niklaus",
    "Margaret",
    "Dennis",
    "Hedy",
    "Claude",
    "Annie",
    "Ken",
    "Sophie",
    "Guido",
    "Lynn",
    "Bjarne",
    "Adele",
    "Brian",
    "Karen",
    "Linus",
    "Jean",
    "Vint",
]
LINES = (
    "why are two lists returned?",
    "my cell has been running for two minutes and nothing is printed: do I have to start Ray again, or is the machine too slow for it?",
    "",
    "is `ray.wait` allowed here?",
)
MISTAKES = {  # ids of messages in coursekit/exercises/mistakes.json
    "as_task": ("ov32i2", "u2yodb"),
    "parallel_map": ("hsad44", "crashed-TypeError"),
    "first_k": ("jds65j", "wahvje"),
    "tree_sum": ("vmdoqd", "4hd6fr"),
    "batched": ("3dpc36", "hsad44"),
    "bounded_map": ("l4zepx", "klidlb"),
}
# What a check says, what it tried, and what came back.
MESSAGES = {
    "hsad44": (
        "The second call had not started when the first one ended: is `ray.get` inside the loop?",
        "parallel_map(meets_another, [0, 1])",
        "[False, False]",
    ),
    "vmdoqd": (
        "A task waited for another task: call `ray.get` once, at the end.",
        "tree_sum([ref, ref, ref])",
        "ObjectRef(…)",
    ),
}


def names(number: int) -> list[str]:
    """Return this many nicknames."""
    return [NAMES[n % len(NAMES)] + (f" ({n // len(NAMES) + 1})" if n >= len(NAMES) else "") for n in range(number)]


def fill(path: Path, number: int) -> None:
    """Keep a room in which this many people joined, work on chapter 1, predict and get stuck; about one in ten raises a hand."""
    room, rng = Room(Store(path)), Random(0)
    exercises = list(minutes_of(CHAPTER))
    for place, nickname in enumerate(names(number)):
        person = uuid.UUID(int=rng.getrandbits(128)).hex
        room.store.add_person(person, nickname, person)
        room.board.people[person] = Person(nickname)

        def event(kind: str, exercise: str = "", **more: object) -> Event:
            return Event(uuid.UUID(int=rng.getrandbits(128)).hex, kind, CHAPTER, exercise, **more)

        done = min(len(exercises), max(0, round(rng.gauss(2.4, 1.2))))
        events = [event("predict", "launch_first", value=rng.choice([0.4, 0.4, 0.5, 0.8, 1.6, 1.6]))]
        events += [event("predict", "tasks_per_second", value=10 ** rng.uniform(1.5, 5))]
        events += [event("check", name, outcome="passed", attempts=rng.randint(1, 3)) for name in exercises[:done]]
        if done < len(exercises) and place % 3 != 1:
            name, times = exercises[done], 3 if place % 5 == 0 else 1
            message = MISTAKES[name][rng.random() > 0.6]
            outcome = "crashed" if message.startswith("crashed") else "wrong"
            events += [
                event("check", name, outcome=outcome, attempts=attempt, message_id=message, hints=times // 3)
                for attempt in range(1, times + 1)
            ]
        if place % 10 == 5 or number < 10 and place == 1:
            events.append(event("hand", line=LINES[place // 10 % len(LINES)]))
        room.take(person, events)
    room.store.close(keep=True)


def history(number: int) -> list[dict]:
    """Return what results.jsonl holds of two chapters in a class of this many students; a few handed in nothing, or no notebook."""
    rng, found = Random(1), list[dict]()
    for place in range(number):
        student = f"s{place + 1:03}"
        for assignment in ("ch00_start", CHAPTER):
            line = {"key": f"{student}/{assignment}/{assignment}", "student": student, "assignment": assignment}
            line |= {"notebook": assignment, "digest": f"{rng.getrandbits(32):x}", "seconds": rng.uniform(20, 60)}
            line |= {"max_score": 14, "score": 0, "results": {}, "reason": "", "notes": []}
            line |= {"when": "2026-11-23T10:00:00+0000"}
            if rng.random() < 0.08:
                continue
            if rng.random() < 0.06:
                why = "the notebook cannot be read: it is cut off after 12 kB"
                found.append(line | {"outcome": "not gradable", "reason": why})
                continue
            results = {name: _result(rng, assignment, name) for name in minutes_of(assignment)}
            found.append(line | {"outcome": "graded", "results": results, "digest": f"{place}"})
    return found


def _result(rng: Random, chapter: str, name: str) -> dict:
    place = list(minutes_of(chapter)).index(name)
    if rng.random() < 0.9 - 0.11 * place:
        result = Result(chapter, name, "exercise", "passed", 2, seconds=rng.uniform(0.2, 4))
    elif rng.random() < 0.15:
        result = Result(chapter, name, "exercise", "todo", 2, "Write your answer.", "todo")
    elif rng.random() < 0.06:
        values = {"error": "KeyError: 'seconds'"}
        result = Result(chapter, name, "exercise", "unjudged", 2, "The check failed.", "unjudged", values)
    else:
        message = MISTAKES.get(name, ("crashed-TypeError",))[rng.random() > 0.6 and name in MISTAKES]
        status = "crashed" if message.startswith("crashed") else "wrong"
        text, tried, got = MESSAGES.get(message, (f"It did not come to what {name} should return.", f"{name}(7)", "3"))
        text = "`TypeError`: unsupported operand type(s) for +: 'int' and 'list'" if status == "crashed" else text
        result = Result(chapter, name, "exercise", status, 2, text, message, {}, tried, got, "line 3: `ray.get(ref)`")
    return result.as_dict()
