"""When notebooks were handed in, as Moodle's worksheet, the dates in a download, or Canvas' LATE say it."""

from dataclasses import dataclass
from datetime import datetime

from dateutil.tz import tzlocal

from coursekit.grading.class_settings import Settings
from coursekit.grading.desk.arrivals import Arrival, Label
from coursekit.grading.desk.people import Table
from coursekit.grading.hand_in_time import MOST, STAMP, Unclear, example, moment_in
from coursekit.grading.submission import text_of

HANDED_IN = "Last modified (submission)"  # the column of Moodle's worksheet
ENGLISH = "If it was exported in another language, set the platform to English, and export it again."


@dataclass(frozen=True)
class Said:
    """What a platform says of one hand-in: when it came, None where that is not known, or else the words, and why they are unread."""

    when: datetime | None = None
    words: str = ""
    reason: str = ""


class PlatformTimes:
    """The times of one download; `dated` says that the dates in it are those of handing in."""

    def __init__(self, layout: str, table: Table | None, dated: bool, settings: Settings):
        self.layout, self.dated, self.zone = layout, dated, settings.zone
        self.table = table if layout != "canvas" else None
        self.foreign = table if table and (layout == "canvas") != table.is_canvas else None
        self.unread = False

    def of(self, arrival: Arrival, label: Label) -> Said:
        """Return when a file was handed in; a date in the download counts where the worksheet has none that can be read."""
        said = self._in_table(label) if self.table else Said()
        self.unread = self.unread or bool(said.reason)
        return said if said.when or not self.dated else Said(arrival.when, said.words, said.reason)

    def _in_table(self, label: Label) -> Said:
        assert self.table
        path, place = self.table.path, self.table.place_of(label.number)
        if self.table.column(HANDED_IN) is None:
            return Said(words=f"{path.name} has no column {HANDED_IN}"[:MOST])
        if not place:
            reason = f"has no line for {text_of(label.name)}"
            return Said(words=f"{path.name} {reason}"[:MOST], reason=f"{path} {reason}")
        words = " ".join(self.table.cell(self.table.rows[place], HANDED_IN).split())[:MOST]
        try:
            return Said(moment_in(words, self.zone or tzlocal()).when)
        except Unclear as reason:
            return Said(words=words or "-", reason=f"{path}, line {place + 1}: {HANDED_IN} {words!r} {reason}")

    def notes(self) -> list[str]:
        """Return what is to be said of all times together."""
        if self.foreign and self.layout == "canvas":
            return [
                f"{self.foreign.path} lacks the columns Student, ID, and Section, so it was not used to find students. {ENGLISH}"
            ]
        if self.layout == "canvas":
            return []
        if not self.table and not self.dated:
            return [
                "Its dates are those of the download, so no hand-in counts as late. If that matters, add --table with Moodle's grading worksheet."
            ]
        own = self.zone or f"{datetime.now().astimezone():%Z}, this machine's, because class.toml names none"
        notes = [f"Its times name no zone, so they were read in the class's zone: {own}."]
        if self.table and self.table.column(HANDED_IN) is None:
            instead = "the dates in the zip were used" if self.dated else "no hand-in counts as late"
            notes.append(f"{self.table.path} has no column {HANDED_IN}, so {instead}. {ENGLISH}")
        elif self.unread:
            notes.append(f"{ENGLISH} Or write the time into {STAMP} beside the notebook, as {example(self.zone)}.")
        return notes
