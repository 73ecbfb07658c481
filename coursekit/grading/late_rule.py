"""The late rule of class.toml as a plug-in of nbgrader, which works out the penalties."""

import math
from dataclasses import asdict

from nbgrader.plugins import LateSubmissionPlugin
from traitlets import Float, Integer
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

    def late_submission_penalty(self, student_id: str, score: float, total_seconds_late: float) -> float | None:
        """Return what being late costs, None for nothing."""
        if total_seconds_late <= self.grace_hours * 3600:
            return None
        begun = math.ceil(total_seconds_late / DAY)
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
    merged = Config(config)
    merged.merge(Config({"AssignLatePenalties": {"plugin_class": LateDays}, "LateDays": rule}))
    return merged
