"""`coursekit give-back`: the students' pages, in the zip that a platform takes for feedback, or in one folder.

Moodle (mod/assign/feedback/file/importziplib.php of 4.1.2): `Ada Lovelace_12345_assignsubmission_file_/ch01_tasks.html`. The
number says whose it is, and a file whose number it does not know is skipped without a word. A team has a number of another kind.

Canvas (app/models/abstract_assignment.rb, infer_comment_context_from_filename): `lovelaceada_123_678910_ch01_tasks.html`. The
numbers of the student and of an upload that belongs to the submission say whose it is. Canvas shows it under that upload's name.
"""

import io
import zipfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from coursekit.basics.cards import plural
from coursekit.basics.errors import CommandError
from coursekit.basics.files import write_whole
from coursekit.grading.class_run import Run
from coursekit.grading.class_settings import Student
from coursekit.grading.class_tables import Office
from coursekit.grading.desk.participants import Participant, participants_of
from coursekit.grading.desk.people import same_name
from coursekit.grading.student_page import page_of

FOLDER = "give-back"
NEXT = {
    "moodle": "Next: in Moodle, open the assignment's submissions, choose “Upload multiple feedback files in a zip” (in newer versions, "
    "“Upload feedback files in a zip”) in the menu of actions, and confirm what it lists.",
    "canvas": "Next: in Canvas, open the assignment, choose “Re-Upload Submissions”, and look at what it lists. Canvas shows each page "
    "under the name of the file that was handed in: ask your students to open it in a browser.",
    "folder": "Next: send each student the page with their name.",
}


@dataclass(frozen=True)
class Page:
    """A student's page on its way: `whose` is what tells its student from all others, and `place` its name in the zip or folder."""

    line: dict
    whose: str
    place: str


@dataclass
class GivenBack:
    """What was written, and whose page is not in it, with the reason."""

    written: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    next: str = ""

    def __str__(self) -> str:
        left = ["Left out:", *(f"  {reason}" for reason in dict.fromkeys(self.left))] if self.left else []
        return "\n".join([*self.written, *left, *([self.next] if self.written else [])])


def give_back(course: Path, to: str) -> GivenBack:
    """Write the pages from the gradebook as it is now, and pack those of each assignment; raises CommandError."""
    if to not in NEXT:
        raise CommandError(f"--to {to} is unknown. Choose one of {', '.join(NEXT)}.")
    run = Run.of(course)
    run.report()
    return _Giving(run, run.office(), to).run()


class _Giving:
    def __init__(self, graded: Run, office: Office, to: str):
        self.folder, self.office, self.to = graded.folder, office, to
        self.participants = participants_of(graded.folder)
        self.students = {student.id: student for student in office.settings.students}
        self.result = GivenBack(next=NEXT[to])

    def run(self) -> GivenBack:
        """Go through the assignments; whose page cannot be given back is named."""
        assignments = self.office.assignments()
        for assignment in assignments:
            if pages := self._distinct(self._pages(assignment)):
                self._write(assignment, pages)
        for line in self.office.lines:
            if line["assignment"] not in assignments:
                self.result.left.append(f"{line['key']}: it belongs to no assignment, so its page stays in reports/")
        return self.result

    def _pages(self, assignment: str) -> list[Page]:
        """Return the pages of what was handed in for an assignment and graded as it is now."""
        lines = {line["key"]: line for line in self.office.lines if line["assignment"] == assignment}
        handed_in = {item.key: item for item in self.office.handed_in if item.assignment == assignment}
        several, pages = len({key.split("/")[2] for key in lines}) > 1, []
        for key in sorted(lines | handed_in):
            student, line = key.split("/")[0], lines.get(key)
            if line is None or (key in handed_in and handed_in[key].digest != line["digest"]):
                when = "is not graded yet" if line is None else "was handed in again since it was graded"
                self.result.left.append(f"{key}: it {when}. Run: coursekit grade {self.folder / 'submitted'}")
            elif self.to == "folder":
                name = f"{student}-{line['notebook']}" if several else student
                pages.append(Page(line, name.casefold(), f"{name}.html"))
            elif participant := self._participant(student, assignment):
                pages.append(Page(line, participant.number, _place(participant, line["notebook"])))
        there = {key.split("/")[0] for key in lines | handed_in}
        if there and (nothing := sorted(self.students.keys() - there)):
            self.result.left.append(f"{assignment}: nothing was handed in by {', '.join(nothing)}")
        return pages

    def _participant(self, student: str, assignment: str) -> Participant | None:
        """Return who a student is on the platform, None where that is not known for certain, and say so."""
        found, platform = self.participants.get(f"{student}/{assignment}"), self.to.title()
        if found is None or found.platform != self.to:
            self.result.left.append(
                f"{student}/{assignment}: no zip that you collected from {platform} says who this student is there. Run `coursekit "
                "collect` with that zip again, or take the page from --to folder"
            )
        elif _is_a_team(found, self.students.get(student, Student(student))):
            self.result.left.append(f"{student}/{assignment}: {_team(platform, found.number)}")
        else:
            return found
        return None

    def _distinct(self, pages: list[Page]) -> list[Page]:
        """Return the pages without those of students whom the platform, or a file's name, does not tell apart."""
        students = defaultdict[str, set[str]](set)
        for page in pages:
            students[page.whose].add(page.line["student"])
        for page in (page for page in pages if len(students[page.whose]) > 1):
            alike = (
                _team(self.to.title(), page.whose)
                if self.to != "folder"
                else "another student's file has the same name"
            )
            self.result.left.append(f"{page.line['student']}/{page.line['assignment']}: {alike}")
        return [page for page in pages if len(students[page.whose]) == 1]

    def _write(self, assignment: str, pages: list[Page]) -> None:
        folder = self.folder / FOLDER
        target = folder / assignment if self.to == "folder" else folder / f"{assignment}-{self.to}.zip"
        contents = {page.place: page_of(self.folder, page.line).read_bytes() for page in pages}
        if self.to == "folder":
            target.mkdir(parents=True, exist_ok=True)
            for old in target.glob("*.html"):
                old.unlink()
            for place, content in contents.items():
                (target / place).write_bytes(content)
        else:
            folder.mkdir(exist_ok=True)
            archive = io.BytesIO()
            with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
                for place, content in contents.items():
                    zipped.writestr(place, content)
            write_whole(target, archive.getvalue())
        self.result.written.append(f"wrote {target}: {plural(len(pages), 'page')}")


def _place(participant: Participant, notebook: str) -> str:
    """Return the name of a page in a platform's zip."""
    if participant.platform == "moodle":
        name = participant.name.replace("_", " ")  # the number stands behind the first
        return f"{name}_{participant.number}_assignsubmission_file_/{notebook}.html"
    return f"{participant.name}_{participant.number}_{participant.upload}_{notebook}.html"


def _is_a_team(participant: Participant, student: Student) -> bool:
    return same_name(student.group, participant.name) and not same_name(student.name, participant.name)


def _team(platform: str, number: str) -> str:
    return (
        f"{platform} lists it under {number}, which is a team's number, so each member would get this page. "
        "Take the page from --to folder"
    )
