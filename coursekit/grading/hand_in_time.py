"""When something was handed in. A date that can be read in two ways, or in none, is never guessed: it is named, with the way out."""

import codecs
import re
import stat
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

from dateutil.parser import parse

from coursekit.basics.dates import in_words
from coursekit.grading.submission import STAMP, text_of

FORMAT = "%Y-%m-%d %H:%M:%S.%f %Z"  # as nbgrader's exchange writes it (Exchange.timestamp_format)
MOST = 200  # bytes of a timestamp.txt
DAYS = "monday tuesday wednesday thursday friday saturday sunday"
MONTHS = "january february march april may june july august september october november december"


def _one_of(names: str) -> str:
    return "|".join(rf"{name[:3]}(?:{name[3:]})?\.?" for name in names.split())


_CLOCK = r"\d\d?:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:\s*[ap]m\b)?"
_ISO = r"\d{4}-\d\d?-\d\d?[T\s]"
_NUMBERS = r"(?P<first>\d\d?)[./-](?P<second>\d\d?)[./-]\d{4},?\s"
_ENGLISH = (
    rf"(?:(?:{_one_of(DAYS)}),?\s+)?(?:\d\d?\s+(?:{_one_of(MONTHS)})|(?:{_one_of(MONTHS)})\s+\d\d?),?\s+\d{{4}},?\s"
)
_MOMENT = re.compile(rf"(?P<moment>(?:{_ISO}|{_NUMBERS}|{_ENGLISH})\s*{_CLOCK})(?P<zone>.*)", re.IGNORECASE)
_DAY = re.compile(rf"(?:{_ISO}|{_NUMBERS}|{_ENGLISH})", re.IGNORECASE)
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d\d?):?(\d\d)?", re.IGNORECASE)


class Unclear(ValueError):
    """A text that does not name one moment; the message is the reason."""


@dataclass(frozen=True)
class HandInTime:
    """When something was handed in, in UTC, None where that is not known; `note` says what a person should know about it."""

    when: datetime | None = None
    note: str = ""


def moment_in(text: str, zone: tzinfo | None) -> HandInTime:
    """Return the moment that a text names; `zone` is meant where it names none, UTC if that is None too. Raises Unclear."""
    whole = _MOMENT.fullmatch(text.strip())
    found = whole or _DAY.fullmatch(f"{text.strip()} ")
    if text.strip() in ("", "-"):
        raise Unclear("names no time")
    if not found:
        raise Unclear("is not a date in numbers or in English")
    day, month = int(found["first"] or 0), int(found["second"] or 0)
    if day != month and max(day, month) <= 12:
        raise Unclear("does not say which number is the day and which the month")
    if not whole:
        raise Unclear("has no time of day")
    try:
        moment = parse(whole["moment"])
        if not 2000 <= moment.year < 9000:
            raise ValueError
    except (ValueError, OverflowError):
        raise Unclear("is not a date in any class's calendar") from None
    name = whole["zone"].strip()
    own = _zone_called(name, moment, zone) if name else zone or UTC
    earlier, later = sorted(moment.replace(tzinfo=own, fold=fold).astimezone(UTC) for fold in (0, 1))
    notes = [] if name else [f"names no zone: it was read as {in_words(earlier.astimezone(own))}"]
    if earlier < later:
        notes.append("falls in the hour in which the clocks change: the earlier time was used")
    return HandInTime(earlier, " and ".join(notes))


def _zone_called(name: str, moment: datetime, own: tzinfo | None) -> tzinfo:
    """Return the zone of a name, an offset, or letters such as CEST where the class's own zone has them at that time."""
    if name.upper() in ("Z", "UTC", "GMT"):
        return UTC
    if offset := _OFFSET.fullmatch(name):
        span = timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0))
        if span < timedelta(days=1):
            return timezone(span if offset[1] == "+" else -span)
    for fold in (0, 1):
        if own and moment.replace(tzinfo=own, fold=fold).tzname() == name:
            return timezone(moment.replace(tzinfo=own, fold=fold).utcoffset() or timedelta())
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # the first is ZoneInfoNotFoundError
        raise Unclear(f"names the zone {name!r}, which is not known") from None


def hand_in_time(folder: Path, zone: tzinfo | None) -> HandInTime:
    """Return when what lies in a student's folder was handed in, by its timestamp.txt, which anybody may have written."""
    path, said = folder / STAMP, ""
    place = text_of("/".join(path.parts[-4:]))
    try:
        said = _text_of(path)
        found = moment_in(said, zone)
    except (FileNotFoundError, NotADirectoryError):
        return HandInTime()
    except (OSError, ValueError) as error:
        reason = f"cannot be read ({error.strerror})" if isinstance(error, OSError) else str(error)
        return HandInTime(note=f"{place}: {said!r} {reason}" if said else f"{place} {reason}")
    return replace(found, note=f"{place}: {said!r} {found.note}") if found.note else found


def advice(time: HandInTime, zone: tzinfo | None) -> str:
    """Return what a person should know of a hand-in's time, with what follows from it, "" for nothing."""
    return (
        f"{time.note}, so it counts as on time. Write it as {example(zone)}"
        if time.note and not time.when
        else time.note
    )


def example(zone: tzinfo | None) -> str:
    """Return a time as it is to be written."""
    return f"2026-10-19 18:30:00 {zone or 'UTC'}"


def _text_of(path: Path) -> str:
    """Return what a file says; raises OSError where it cannot be read, Unclear where it is no short text."""
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode) or status.st_size > MOST:
        raise Unclear(f"is not a file of at most {MOST} characters")
    content = path.read_bytes()
    marked = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        return content.decode("utf-16" if marked else "utf-8-sig").strip()
    except ValueError:
        raise Unclear("is not text in UTF-8") from None
