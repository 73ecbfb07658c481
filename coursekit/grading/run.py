"""Grade a whole class: every submission ends with one recorded outcome, whatever happens to it or to this program."""

import contextlib
import errno
import json
import os
import secrets
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, as_completed, wait
from pathlib import Path

from filelock import FileLock, Timeout
from sqlalchemy.exc import DataError, SQLAlchemyError

from coursekit.course import CommandError
from coursekit.grading.grade import ENDED, Graded, Grader
from coursekit.grading.gradebook import Book
from coursekit.grading.node import Setup
from coursekit.grading.ours import is_ours, is_plain, token
from coursekit.grading.outcome import Options, Outcome, grader_failed, master_of, now
from coursekit.grading.plan import Master
from coursekit.grading.report import COLUMNS, write_grades, write_page
from coursekit.grading.submission import RUN_STATE, NotGradable, Submission, find, find_one, is_in_a_course, read
from coursekit.journal import Journal
from coursekit.paths import SOLUTIONS
from coursekit.sandbox.nursery import Nursery, NurseryFailed

FULL = (errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
MACHINES = (*FULL, errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO)  # errors that no name of a student's causes
FOREIGN = (
    "{folder} was not made by your own `coursekit grade`, or there is a link in it: it may have come with the notebook. "
    "Move it away, then grade again."
)
UNKNOWN_COURSE = (
    "You have not graded anything in {folder} yet, where the outcome of {notebook} would go. If that course is yours, begin with "
    "`coursekit grade {submitted} --only {who}`. If all of it was handed in, copy the notebook out of it first."
)
INSIDE = (
    "{submitted} lies inside a folder named submitted, so everything around it was handed in. Name the submitted/ of your "
    "course, and choose with --only."
)
NO_CHAPTER = ' And the notebook begins no chapter: say which in a cell before them, as `begin("ch01_tasks")`.'


Report = Callable[[dict, int, int], None]  # record, done, all


class Run:
    """One grading run in a course folder. Its secret seed is kept there, so that a run can be continued.

    `submitted` is the folder of all submissions, or one notebook: what comes of that lies beside it in graded/, or in the course
    in whose submitted/ it is.
    """

    def __init__(self, submitted: Path, options: Options):
        self.options = options
        self.submitted = submitted.resolve() if submitted.is_dir() else submitted.parent.resolve() / submitted.name
        self.alone = self.submitted.is_file() and not is_in_a_course(self.submitted)
        self.folder = folder_of(self.submitted)
        self.journal = Journal(self.folder / "results.jsonl")
        self.state = self.folder / RUN_STATE
        self.seed = -1  # until the run has begun

    def _begin(self, wanted: list[Submission]) -> int:
        """Return the seed of the run that is under way, or begin a new one, in which the outcomes of others stay."""
        old = json.loads(self.state.read_text()) if self.state.exists() else {}
        chosen = self.options.seed
        if old and not self.options.again and chosen in (None, old["seed"]):
            self._write_state(old)  # also where it came from elsewhere: who names a course says that it is theirs
            return int(old["seed"])
        if old and not self.options.again:
            raise CommandError(
                f"A run with another seed is recorded in {self.folder}. Add --again to grade everything anew with --seed {chosen}."
            )
        self.journal.start_anew({item.key for item in wanted})
        seed = secrets.randbits(62) if chosen is None else chosen
        earlier, _ = old.pop("earlier", []), old.pop("token", "")
        self._write_state({"seed": seed, "earlier": [*earlier, old | {"until": now()}] if old else []})
        return seed

    def _write_state(self, state: dict) -> None:
        """Write the state for its owner only, in full or not at all; with a token, where the user's key can be kept."""
        with contextlib.suppress(OSError):
            state["token"] = token(self.folder, state["seed"])
        partial = self.state.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(state, file)
        os.replace(partial, self.state)

    def masters(self) -> dict[tuple[str, str], Master]:
        """Return the instructor's notebooks by assignment and name: the course's source/, else this project's solutions/.

        Raises CommandError where a test cell mixes a check with other code, or checks without beginning a chapter.
        """
        found = [] if self.alone else sorted(self.folder.glob("source/*/*.ipynb"))
        paths = {(path.parent.name, path.stem): path for path in found}
        paths = paths or {(path.stem, path.stem): path for path in sorted(SOLUTIONS.glob("ch*.ipynb"))}
        masters = {key: Master.of(path) for key, path in paths.items()}
        for key, master in masters.items():
            if mixed := master.mixed():
                raise CommandError(
                    f'{paths[key]}: the test cells {", ".join(mixed)} must be a `check("name", name)` or `quiz("name", name)` '
                    "and nothing else, because they are judged outside the submission. Move other code to a cell of its own."
                    f"{'' if master.chapter else NO_CHAPTER}"
                )
        return masters

    def go(self, report: Report) -> list[dict]:
        """Grade what has no outcome yet; return what grades.csv holds of all submissions."""
        if (self.options.seed or 0) < 0:
            raise CommandError(f"A seed is a number from 0 on; {self.options.seed} is not.")
        self._refuse_foreign()
        masters = self.masters()
        everything = self._everything(masters)
        found = self._wanted(everything)
        refuse_unknown(masters, {item.assignment for item in found})
        self.folder.mkdir(exist_ok=True)
        try:
            with FileLock(self.folder / ".coursekit-run.lock", timeout=0):
                self.seed = self._begin(found)
                rows = self._go(found, masters, report)
                self._write_grades(rows, everything)
                return [rows[item.key] for item in found]
        except Timeout:
            raise CommandError(
                f"Another `coursekit grade` is at work in {self.folder}: wait for it, or end it."
            ) from None

    def _refuse_foreign(self) -> None:
        """Raise CommandError where outcomes would go into a folder that may have been handed in, with a configuration and a state in it."""
        if not self.submitted.is_file():
            if any(folder.name == "submitted" for folder in self.submitted.parents):
                raise CommandError(INSIDE.format(submitted=self.submitted))
        elif self.alone:
            if os.path.lexists(self.folder) and not (is_plain(self.folder) and is_ours(self.state)):
                raise CommandError(FOREIGN.format(folder=self.folder))
        elif not is_ours(self.state):
            student, assignment = self.submitted.parts[-3:-1]
            places = {"folder": self.folder, "notebook": self.submitted, "submitted": self.submitted.parents[2]}
            raise CommandError(UNKNOWN_COURSE.format(who=f"{student}/{assignment}", **places))

    def _go(self, found: list[Submission], masters: dict, report: Report) -> dict[str, dict]:
        rows = {record["key"]: _row(record) for record in self.journal.lines()}
        todo = [item for item in found if self.alone or rows.get(item.key, {}).get("digest") != item.digest]
        with Book(self.folder, configured=not self.alone) as book:
            for assignment in {item.assignment for item in todo}:
                for (owner, _), master in masters.items():
                    if owner == assignment:
                        book.prepare(assignment, master)
            for done, outcome in enumerate(self._outcomes(todo, masters), 1):
                record = self._keep(outcome, masters, book)
                rows[record["key"]] = _row(record)
                report(record, done, len(todo))
        return rows

    def _write_grades(self, rows: dict[str, dict], everything: list[Submission]) -> None:
        """Write the table of all outcomes, without what could not be graded and has been put right or taken away since."""
        here = {item.key for item in everything}
        kept = [row for key, row in rows.items() if key in here or row["outcome"] == "graded"]
        write_grades(self.folder / "grades.csv", list(rows.values()) if self.submitted.is_file() else kept)

    def _everything(self, masters: dict[tuple[str, str], Master]) -> list[Submission]:
        """Return all submissions; raises CommandError where there are none."""
        graded = [key for key, master in masters.items() if master.is_graded()]
        notebooks = {assignment: {name for owner, name in graded if owner == assignment} for assignment, _ in masters}
        if not self.submitted.is_file():
            found = find(self.submitted, notebooks)
        elif is_in_a_course(self.submitted):
            found = [item for item in find(self.submitted.parents[2], notebooks) if item.path == self.submitted]
        else:
            return find_one(self.submitted)
        if not any(item.assignment in notebooks for item in found):
            raise CommandError(
                f"There is nothing to grade in {self.submitted}: expected <student>/<assignment>/*.ipynb, "
                f"where the assignments are {', '.join(sorted(notebooks))}."
            )
        return found

    def _wanted(self, everything: list[Submission]) -> list[Submission]:
        """Return the submissions that --only names; raises CommandError where there are none."""
        wanted = [item for item in everything if not self.options.only or item.names() & set(self.options.only)]
        if not wanted:
            raise CommandError(
                f"Nothing in {self.submitted} fits --only {' '.join(self.options.only)}: it takes a student, "
                f"an assignment, or student/assignment, as the folders are named."
            )
        return wanted

    def _keep(self, outcome: Outcome, masters: dict, book: Book) -> dict:
        """Record an outcome: gradebook, page, and last the line that says it is done."""
        item = outcome.submission
        has_place = item.assignment in {assignment for assignment, _ in masters}  # in the gradebook
        if has_place and (reason := try_to_record(item, outcome.graded, book)):
            outcome = Outcome(item, None, reason)
            try_to_record(item, None, book)  # no points, if the gradebook takes at least these
        self._write_page(outcome)
        record = {"key": item.key} | outcome.record(masters.get((item.assignment, item.notebook)))
        self.journal.add(record)
        return record

    def _write_page(self, outcome: Outcome) -> None:
        """Write the student's page; where it cannot be written, the outcome says so."""
        item = outcome.submission
        try:
            page = self.folder / "reports" / item.student / item.assignment / f"{item.notebook}.html"
            write_page(page, item, outcome.graded, outcome.reason)
        except Exception as error:
            said = f"it has no page: {students_alone(error)}"
            outcome.reason = "; ".join(filter(None, [outcome.why(), said]))

    def _outcomes(self, todo: list[Submission], masters: dict) -> Iterator[Outcome]:
        """Yield the outcomes as they come, `jobs` submissions at a time; never more than a few wait in memory."""
        options = self.options
        setup = Setup(masters, self.seed, options.limits, options.all_cells, options.sandbox, str(self.folder))
        if options.address:
            from coursekit.grading.cluster import outcomes

            yield from outcomes(todo, setup, options)
            return
        with Nursery(**setup.nursery()) as nursery:
            grader, ended = setup.grader(nursery), []
            with contextlib.closing(self._side_by_side(todo, masters, grader)) as coming:
                for outcome in coming:
                    if outcome.reason == ENDED:
                        ended.append(outcome.submission)
                    else:
                        yield outcome
            yield from (outcome_of(item, masters, grader) for item in ended)  # one at a time: another may have ended it

    def _side_by_side(self, todo: list[Submission], masters: dict, grader: Grader) -> Generator[Outcome]:
        pool = ThreadPoolExecutor(self.options.jobs)
        waiting: set[Future[Outcome]] = set()
        try:
            for item in todo:
                waiting.add(pool.submit(outcome_of, item, masters, grader))
                if len(waiting) >= 2 * self.options.jobs:
                    done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                    yield from (future.result() for future in done)
            yield from (future.result() for future in as_completed(waiting))
        finally:  # also when the run is interrupted: what is under way will be graded by the next
            pool.shutdown(wait=False, cancel_futures=True)


def refuse_unknown(masters: dict[tuple[str, str], Master], assignments: set[str]) -> None:
    """Raise CommandError where nobody can judge a check of an assignment's notebooks."""
    for (assignment, name), master in masters.items():
        if assignment in assignments and (reason := master.unknown()):
            raise CommandError(f"{assignment}/{name}.ipynb: {reason} Put that right in source/, then grade again.")


def folder_of(submitted: Path) -> Path:
    """Return where outcomes go: the course folder, or graded/ beside a notebook that lies in no course."""
    if not submitted.is_file():
        return submitted.parent
    return submitted.parents[3] if is_in_a_course(submitted) else submitted.parent / "graded"


def _row(record: dict) -> dict:
    """Return what is kept in memory of a record: what grades.csv says, and what tells whether it is up to date."""
    return {name: record.get(name) for name in ("key", "digest", *COLUMNS)}


def outcome_of(item: Submission, masters: dict[tuple[str, str], Master], grader: Grader) -> Outcome:
    """Return the outcome of one submission; whatever goes wrong is a reason, not an exception."""
    try:
        master = master_of(item, masters)
        return Outcome(item, grader.grade(read(item.path), master, item.files()))
    except NotGradable as reason:
        return Outcome(item, None, str(reason))
    except NurseryFailed:  # this machine's fault: the run stops, and can be continued
        raise
    except Exception as error:  # one student's loss must never be another's
        return Outcome(item, None, grader_failed(error))


def try_to_record(item: Submission, graded: Graded | None, book: Book) -> str:
    """Record scores in the gradebook; return the reason where this submission's cannot be, "" where they are.

    Raises what is this machine's fault: the run stops, and can be continued.
    """
    try:
        book.record(item, graded)
    except DataError as error:  # a name that is longer than this database takes, for example
        return f"the gradebook does not take it ({error.orig})"
    except Exception as error:
        return students_alone(error)
    return ""


def students_alone(error: Exception) -> str:
    """Return the reason where an error has to do with one submission, as with its name; raises it where the machine is at fault."""
    if isinstance(error, SQLAlchemyError) or (isinstance(error, OSError) and error.errno in MACHINES):
        raise error
    if isinstance(error, OSError):
        return f"what came of it cannot be written ({error.strerror})"
    return grader_failed(error)
