"""What a room keeps: people and events, in one SQLite file; what was acknowledged is on the disk."""

import sqlite3
import time
from collections.abc import Iterator
from dataclasses import asdict, fields
from itertools import count
from pathlib import Path

from coursekit.room.incoming import Event

_COLUMNS = [field.name for field in fields(Event)]
_TABLES = f"""
create table if not exists room (certificate blob, code text, secret text);
create table if not exists people (id text primary key, nickname text, token text unique, joined real, gone real);
create table if not exists doings (at real, doing text, chapter text, name text);
create table if not exists handins (person text, student text, chapter text, sha256 text, at real);
create table if not exists records (person text, at real, {", ".join(_COLUMNS)}, primary key (person, id));
"""


class Store:
    """The file of one room. One process writes it."""

    def __init__(self, path: Path):
        self.path = path
        path.touch(mode=0o600)
        self._file = sqlite3.connect(path, isolation_level=None)
        self._file.executescript("pragma journal_mode = wal; pragma synchronous = full;" + _TABLES)

    def room(self) -> tuple[bytes, str, str] | None:
        """Return the certificate with its key, the code and the instructor's secret of a room that was not closed."""
        row: tuple[bytes, str, str] | None = self._file.execute("select * from room").fetchone()
        return row

    def keep_room(self, certificate: bytes, code: str, secret: str) -> None:
        """Keep what makes a room the same one when it is opened again after a crash."""
        self._file.execute("begin immediate")
        self._file.execute("delete from room")
        self._file.execute("insert into room values (?, ?, ?)", (certificate, code, secret))
        self._file.execute("commit")

    def add_person(self, id: str, nickname: str, token: str) -> None:
        """Keep who joined, with what is kept of the token."""
        self._file.execute("insert into people values (?, ?, ?, ?, null)", (id, nickname, token, time.time()))

    def end_person(self, id: str) -> None:
        """Keep that somebody left."""
        self._file.execute("update people set gone = ? where id = ?", (time.time(), id))

    def person_with(self, token: str) -> str | None:
        """Return whose token it is, None where it is nobody's or theirs who left."""
        row = self._file.execute("select id from people where token = ? and gone is null", (token,)).fetchone()
        return row[0] if row else None

    def has_left(self, token: str) -> bool:
        """Return whether somebody with this token was here and left."""
        row = self._file.execute("select 1 from people where token = ? and gone is not null", (token,)).fetchone()
        return row is not None

    def people(self) -> dict[str, str]:
        """Return the names of all who are here, by id, in the order in which they joined."""
        here = {id for (id,) in self._file.execute("select id from people where gone is null")}
        return {id: name for id, name in self.everybody().items() if id in here}

    def everybody(self) -> dict[str, str]:
        """Return the names of all who ever joined, by id: their nicknames, of which a second one is `Ada (2)`, and stays so."""
        names: dict[str, str] = {}
        taken = set[str]()
        for id, nickname in self._file.execute("select id, nickname from people order by joined, rowid"):
            numbered = (nickname if number == 1 else f"{nickname} ({number})" for number in count(1))
            names[id] = next(name for name in numbered if name.casefold() not in taken)
            taken.add(names[id].casefold())
        return names

    def add_doing(self, at: float, doing: str, chapter: str, name: str) -> None:
        """Keep what the instructor did."""
        self._file.execute("insert into doings values (?, ?, ?, ?)", (at, doing, chapter, name))

    def doings(self) -> list[tuple[float, str, str, str]]:
        """Return when the instructor did what."""
        return self._file.execute("select * from doings order by at, rowid").fetchall()

    def add_handin(self, person: str, student: str, chapter: str, sha256: str, at: float) -> None:
        """Keep what somebody handed in as which student; `student` is the place in the folder of hand-ins."""
        self._file.execute("insert into handins values (?, ?, ?, ?, ?)", (person, student, chapter, sha256, at))

    def hand_in(self, person: str, chapter: str) -> tuple[str, str, float] | None:
        """Return place, hash and time of the last that somebody handed in of a chapter."""
        last = "select student, sha256, at from handins where person = ? and chapter = ? order by rowid desc"
        row: tuple[str, str, float] | None = self._file.execute(last, (person, chapter)).fetchone()
        return row

    def handins(self) -> list[dict[str, str | float]]:
        """Return every hand-in, in the order in which they came."""
        names = ("person", "student", "chapter", "sha256", "at")
        rows = self._file.execute(f"select {', '.join(names)} from handins order by rowid")
        return [dict(zip(names, row, strict=True)) for row in rows]

    def add(self, person: str, events: list[Event], now: float) -> list[Event]:
        """Keep somebody's events, all or none; return those that had not come before."""
        insert = f"insert or ignore into records values ({', '.join('?' * (len(_COLUMNS) + 2))})"
        new = []
        self._file.execute("begin immediate")
        try:
            for event in events:
                row = (person, now, *asdict(event).values())
                if self._file.execute(insert, row).rowcount:
                    new.append(event)
            self._file.execute("commit")
        except BaseException:
            self._file.execute("rollback")
            raise
        return new

    def events(self) -> Iterator[tuple[str, float, Event]]:
        """Yield who sent what when, in the order in which it came."""
        for person, at, *values in self._file.execute("select * from records order by at, rowid"):
            yield person, at, Event(*values)

    def close(self, keep: bool) -> None:
        """Close the file, and delete it unless it is to be kept."""
        self._file.close()
        if not keep:
            for suffix in ("", "-wal", "-shm"):
                self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
