"""What the room was told, for the instructor to keep: as JSON with all of it, or as a table."""

import csv
import io
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from coursekit.basics.tables import harmless
from coursekit.room.store import Store


def as_json(store: Store) -> dict[str, Any]:
    """Return people, events, what the instructor did, and hand-ins; ids are random."""
    return {
        "people": [{"id": id, "nickname": nickname} for id, nickname in store.everybody().items()],
        "records": [{"person": person, "at": at} | asdict(event) for person, at, event in store.events()],
        "instructor": [dict(zip(("at", "doing", "chapter", "name"), each, strict=True)) for each in store.doings()],
        "handins": store.handins(),
    }


def as_csv(store: Store) -> str:
    """Return the events as a table, a line each, with nicknames and times in UTC; no cell computes anything."""
    people, text = store.everybody(), io.StringIO()
    rows = [
        {"at": datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds"), "nickname": people.get(person, "")}
        | {name: value for name, value in asdict(event).items() if name != "id"}
        for person, at, event in store.events()
    ]
    writer = csv.DictWriter(text, rows[0].keys() if rows else ["at", "nickname"])
    writer.writeheader()
    writer.writerows({name: harmless(value) for name, value in row.items()} for row in rows)
    return text.getvalue()
