"""Dates as people read them."""

from datetime import UTC, datetime, timedelta

from coursekit.basics.cards import plural
from coursekit.basics.readers_language import told

_DATE = "{weekday} {day} {month} {year}, {time} (UTC{offset})"


def in_words(moment: datetime) -> str:
    """Return a date with its day and its offset: `Monday 19 October 2026, 23:59 (UTC+02:00)`."""
    return _DATE.format_map(_parts(moment))


def _parts(moment: datetime) -> dict[str, str]:
    offset = moment.utcoffset() or timedelta()
    hours, minutes = divmod(abs(int(offset.total_seconds())) // 60, 60)
    sign = "-" if offset < timedelta() else "+"
    words = {"weekday": f"{moment:%A}", "day": f"{moment.day}", "month": f"{moment:%B}", "year": f"{moment:%Y}"}
    return words | {"time": f"{moment:%H:%M}", "offset": f"{sign}{hours:02}:{minutes:02}"}


def due_line(due: str, now: datetime | None = None) -> str:
    """Return what a chapter's beginning says of its due date, "" for none; what is no date is shown as it stands."""
    try:
        moment = datetime.fromisoformat(due)
        left = moment - (now or datetime.now(UTC))
    except (ValueError, TypeError):  # the latter: no zone
        return f"Due: {due}" if due else ""
    hours = int(abs(left).total_seconds()) // 3600
    span = plural(hours // 24, "day") if hours >= 48 else plural(hours, "hour")
    when = told(_DATE.format(**_parts(moment)))
    return f"Due {when}: {span} left." if left > timedelta() else f"Due {when}: {span} ago."
