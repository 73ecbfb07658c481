"""The late rule of class.toml as a plug-in of nbgrader, which works out the penalties."""

import math
from dataclasses import asdict
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from nbgrader.plugins import LateSubmissionPlugin
from traitlets import Float, Integer, Unicode
from traitlets.config import Config

from coursekit.basics.errors import CommandError
from coursekit.grading.class_settings import Settings

RULES = {"AssignLatePenalties", "LateSubmissionPlugin"}  # what nbgrader_config.py sets for a rule of its own
DAY = 24 * 60 * 60


class LateDays(LateSubmissionPlugin):
    """A fraction of the score for each day begun."""

    percent_a_day = Float(0, help="the percentage of the score that each day begun costs").tag(config=True)
    grace_hours = Float(0, help="the hours that cost nothing; the days still count from the due date").tag(config=True)
    days = Integer(None, allow_none=True, help="the days after which nothing is left").tag(config=True)
    zone = Unicode("UTC", help="the zone by whose clock the days are counted").tag(config=True)

    def late_submission_penalty(self, student_id: str, score: float, total_seconds_late: float) -> float | None:
        """Return what being late costs, None for nothing; nbgrader asks without dates, so a day is 24 hours."""
        return self._cost(score, total_seconds_late, total_seconds_late)

    def cost(self, score: float, due: datetime, handed_in: datetime) -> float | None:
        """Return what being late costs, None for nothing: a day ends at the hour it was due, also where the clocks change in it."""
        zone = ZoneInfo(self.zone)
        clock = [moment.replace(tzinfo=UTC).astimezone(zone).replace(tzinfo=None) for moment in (due, handed_in)]
        return self._cost(score, (handed_in - due).total_seconds(), (clock[1] - clock[0]).total_seconds())

    def _cost(self, score: float, seconds: float, by_the_clock: float) -> float | None:
        if seconds <= self.grace_hours * 3600:
            return None
        begun = max(1, math.ceil(by_the_clock / DAY))
        if self.days is not None and begun > self.days:
            return score
        return round(score * min(1.0, begun * self.percent_a_day / 100), 6)


def with_late_rule(config: Config, settings: Settings) -> Config:
    """Return nbgrader's configuration with the late rule of class.toml; raises CommandError where it has another one already."""
    if settings.late is None:
        return config
    if RULES & set(config):
        raise CommandError(
            f"{settings.file}: late: nbgrader_config.py sets a rule for late submissions too. Keep one of them."
        )
    rule = {name: value for name, value in asdict(settings.late).items() if value is not None}
    rule["zone"] = str(settings.zone or "UTC")
    merged = Config(config)
    merged.merge(Config({"AssignLatePenalties": {"plugin_class": LateDays}, "LateDays": rule}))
    return merged
