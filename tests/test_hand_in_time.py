"""When something was handed in: a time is read in one way, or it is named with the reason; a day late is a day of the class's clock."""

from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from coursekit.grading.class_settings import Late, Settings
from coursekit.grading.enrollment import extension, utc
from coursekit.grading.hand_in_time import Unclear, hand_in_time, moment_in
from coursekit.grading.late_rule import LateDays, with_late_rule
from coursekit.grading.submission import STAMP

BERLIN = ZoneInfo("Europe/Berlin")
HALF_PAST_SIX = datetime(2026, 11, 5, 17, 30, tzinfo=UTC)  # in Berlin


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-05 18:30:00 Europe/Berlin",
        "2026-11-05 18:30:00 CET",
        "2026-11-05 17:30:00.000000 UTC",
        "2026-11-05T17:30:00Z",
        "2026-11-05T18:30+01:00",
        "2026-11-05 18:30:00 +0100",
        "2026-11-05 12:30:00 America/New_York",
        "2026-11-05 18:30",
        "Thursday, 5 November 2026, 6:30 PM",
        "Thursday, November 5, 2026, 6:30 PM",
        "5 Nov 2026, 18:30",
    ],
)
def test_what_names_one_moment_is_read(text):
    assert moment_in(text, BERLIN).when == HALF_PAST_SIX


def test_a_day_that_can_be_no_month_is_read():
    assert {moment_in(text, UTC).when for text in ("19.10.2026 18:30", "10/19/2026 6:30 PM")} == {
        datetime(2026, 10, 19, 18, 30, tzinfo=UTC)
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("05.11.2026", "which number is the day and which the month"),
        ("05.11.2026 18:30", "which number is the day and which the month"),
        ("11/05/2026 6:30 PM UTC", "which number is the day and which the month"),
        ("2026-11-05", "has no time of day"),
        ("5 November 2026", "has no time of day"),
        ("2026-11-05 18:30:00 MESZ", "names the zone 'MESZ', which is not known"),
        ("2026-11-05 18:30 ../../etc/passwd", "which is not known"),
        ("Donnerstag, 5. November 2026, 18:30", "is not a date in numbers or in English"),
        ("yesterday", "is not a date in numbers or in English"),
        ("18:30", "is not a date in numbers or in English"),
        ("2026-13-05 18:30", "is not a date in any class's calendar"),
        ("0001-01-01 00:00 +05:00", "is not a date in any class's calendar"),
        ("-", "names no time"),
    ],
)
def test_what_can_be_read_in_two_ways_or_in_none_is_said(text, reason):
    with pytest.raises(Unclear, match=reason):
        moment_in(text, BERLIN)


def test_a_time_without_a_zone_is_the_classs_and_that_is_said():
    assert moment_in("2026-11-05 18:30", BERLIN).note == (
        "names no zone: it was read as Thursday 5 November 2026, 18:30 (UTC+01:00)"
    )
    assert moment_in("2026-11-05 17:30", None).when == HALF_PAST_SIX
    assert moment_in("2026-11-05 18:30 CET", BERLIN).note == ""


def test_an_hour_that_the_clock_shows_twice_counts_as_the_first_and_that_is_said():
    found = moment_in("2026-10-25 02:30 Europe/Berlin", None)
    assert found.when == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert "the earlier time was used" in found.note
    assert moment_in("2026-10-25 02:30 CET", BERLIN).when == datetime(2026, 10, 25, 1, 30, tzinfo=UTC)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_byte_order_mark_is_read(tmp_path: Path, encoding: str):
    (tmp_path / STAMP).write_text("2026-11-05 18:30:00 Europe/Berlin\r\n", encoding=encoding)
    assert hand_in_time(tmp_path, None).when == HALF_PAST_SIX


@pytest.mark.parametrize("content", [b"", b"2026-11-05 18:30 \xff", b"1" * 201], ids=["empty", "latin", "long"])
def test_a_file_that_says_no_time_is_named(tmp_path: Path, content: bytes):
    (tmp_path / STAMP).write_bytes(content)
    found = hand_in_time(tmp_path, None)
    assert found.when is None
    assert f"{tmp_path.name}/{STAMP} " in found.note


def test_without_a_file_nothing_is_said(tmp_path: Path):
    found = hand_in_time(tmp_path, None)
    assert (found.when, found.note) == (None, "")


# What being late costs


def rule(**late: float) -> LateDays:
    settings = Settings(Path("class.toml"), zone=BERLIN, late=Late(10, **late))  # type: ignore[arg-type]
    return LateDays(config=with_late_rule(LateDays().config, settings))


@pytest.mark.parametrize(
    ("due", "handed_in", "cost"),
    [
        ((24, 16), (25, 17), 1),  # 18:00 in summer, 18:00 in winter: 25 hours and one day
        ((24, 16), (25, 17, 0, 1), 2),
        ((24, 16), (25, 16, 59), 1),
        ((25, 0, 30), (25, 1, 15), 1),  # 02:30 in summer, 02:15 in winter: 45 minutes late
        ((20, 16), (21, 16), 1),
        ((20, 16), (21, 16, 0, 1), 2),
    ],
)
def test_a_day_late_is_a_day_of_the_classs_clock(due, handed_in, cost):
    assert rule().cost(10, datetime(2026, 10, *due), datetime(2026, 10, *handed_in)) == cost


def test_hours_of_grace_are_hours_whatever_the_clock_does():
    due, handed_in = datetime(2026, 3, 29, 0, 30), datetime(2026, 3, 29, 1, 10)  # 01:30, and 03:10 by the clock
    assert rule(grace_hours=1).cost(10, due, handed_in) is None


def test_an_extension_ends_by_the_clock_at_its_hour():
    due, until = datetime(2026, 10, 19, 18, tzinfo=BERLIN), datetime(2026, 10, 26, 18, tzinfo=BERLIN)
    settings = Settings(Path("class.toml"), zone=BERLIN, due={"hw1": due}, extensions={("ada", "hw1"): until})
    more = extension(settings, "ada", "hw1")
    assert more
    assert utc(due) + more == utc(until) == datetime(2026, 10, 26, 17)
