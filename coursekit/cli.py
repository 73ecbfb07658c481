"""The `coursekit` command: each command calls the module that does the work."""

import atexit
import gc
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer import Argument, Option

from coursekit.basics.errors import CommandError, chapter_names
from coursekit.basics.paths import ROOT
from coursekit.basics.readers_language import chosen, speaking, taken_up, told
from coursekit.basics.terminal import print_anything

LEARN, TEACH, WRITE = "Take the course", "Teach it: workshops, classes, grades", "Write it: chapters and exercises"


class CommandLine(typer.Typer):
    """The commands, in a terminal of any encoding, with their help in the reader's language."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command."""
        print_anything()
        commands = typer.main.get_command(self)
        with in_readers_language():
            _tell_help(commands)
        return commands(*args, **kwargs)


@contextmanager
def in_readers_language() -> Iterator[None]:
    """Speak the language of this folder's notebooks, in the course's own words, wherever it lies."""
    from coursekit.machine.learners_folder import learners_folder

    with taken_up(learners_folder(), ROOT):
        yield


def _tell_help(command: Any) -> None:
    """Put the help of a command, and of all below it, into the reader's language."""
    for each in (command, *command.params):
        for name in ("help", "short_help", "epilog", "rich_help_panel"):
            if isinstance(text := getattr(each, name, None), str):
                setattr(each, name, told(text))
    for below in getattr(command, "commands", {}).values():
        _tell_help(below)


app = CommandLine(
    help="Take the course, teach it, or write it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
capstone = typer.Typer(
    help="Train a policy within a budget of CPU seconds, and see how it ranks.", no_args_is_help=True
)
app.add_typer(capstone, name="capstone")
atexit.register(gc.freeze)  # at its end Python then searches nothing for garbage: 0.3 s after a class

ChapterName = Annotated[str, Argument(help="The chapter's name.")]
GradedCourse = Annotated[Path, Argument(help="The folder of a course with a graded class.")]
Language = Annotated[
    str,
    Option("--in", help="The language of your notebooks, such as de for German. Default: the last one that you chose."),
]
F = TypeVar("F", bound=Callable[..., None])


@contextmanager
def plain_errors() -> Iterator[None]:
    """Report a user's mistake in plain lines on stderr, with exit code 1; our own keep their traceback."""
    try:
        yield
    except CommandError as error:
        typer.secho(told(str(error)), err=True, fg="red")
        raise typer.Exit(1) from None


def command(example: str, panel: str | None = None, within: typer.Typer = app, **settings: Any) -> Callable[[F], F]:
    """Return a decorator for a command: the example stands below its help and begins with its name.

    What it prints is in the language of the reader's notebooks where it is for learners, and in English where not.
    """
    name = example.removeprefix("capstone ").split()[0]
    declared = within.command(
        name, epilog=f"Example: [bold]coursekit {example}[/bold]", rich_help_panel=panel, **settings
    )

    def declare(function: F) -> F:
        plain = plain_errors()(function)
        return declared(in_readers_language()(plain) if panel == LEARN else plain)

    return declare


def _say_version(wanted: bool) -> None:
    if wanted:
        from coursekit.basics.versions import in_words

        print(in_words())
        raise typer.Exit()


@app.callback()
def main(
    version: Annotated[
        bool,
        Option("--version", callback=_say_version, is_eager=True, help="Show the versions of the course and of Ray."),
    ] = False,
) -> None:
    """Take the course, teach it, or write it."""


@command("build --check", WRITE)
def build(
    check: Annotated[bool, Option("--check", help="Write nothing, and fail if any of these files is stale.")] = False,
) -> None:
    """Build notebooks/ and solutions/ from chapters/, and update the lists in README.md, docs/, and pyproject.toml."""
    from coursekit.author import build as builder

    if not chapter_names():
        raise CommandError(f"There are no chapters in {ROOT}: clone the course, and build its notebooks there.")
    built = builder.build()
    outdated = builder.stale(built) if check else builder.write(built)
    for path in outdated:
        print(path.relative_to(ROOT))
    if check and outdated:
        raise CommandError("These files are stale. Run `make build` and commit the result.")
    print(f"{len(built)} files, {'all fresh' if check else f'{len(outdated)} changed'}.")


@command("lab --port 8890 --no-browser", LEARN, context_settings={"ignore_unknown_options": True})
def lab(
    port: Annotated[int | None, Option(help="The port. Default: 8888, or the next free one.")] = None,
    language: Language = "",
    jupyter_arguments: Annotated[
        list[str] | None, Argument(help="Options for JupyterLab, such as --ip=0.0.0.0.")
    ] = None,
) -> None:
    """Check this machine, and then open work/, your own copy of the course, in JupyterLab."""
    from coursekit.basics.versions import others_than_tested
    from coursekit.machine import copies, doctor, facts
    from coursekit.machine import lab as jupyter
    from coursekit.machine.learners_folder import learners_folder, link_to_course
    from coursekit.machine.update import switch

    found, folder = facts.gather(), link_to_course(learners_folder())
    switched = switch(folder, language)
    with taken_up(folder):
        print(doctor.examine(found).text(only_what_matters=True))
        where = f"The course is in {folder}." if folder != ROOT else ""
        for note in filter(
            None,
            [
                where,
                *switched.lines,
                *switched.problems,
                copies.added(copies.fill(folder)),
                copies.behind(folder),
                others_than_tested(),
            ],
        ):
            print(told(note), flush=True)
        jupyter.start(found, port, jupyter_arguments or [], folder)


@command("update", LEARN)
def update(language: Language = "") -> None:
    """Update your notebooks in work/ to the course's version, and keep everything that you wrote in them."""
    from coursekit.machine.learners_folder import learners_folder, link_to_course
    from coursekit.machine.update import switch
    from coursekit.machine.update import update as bring

    folder = link_to_course(learners_folder())
    report = switch(folder, language)
    with taken_up(folder), plain_errors():
        if not (report.lines or report.problems):
            report = bring(folder)
        print("\n".join(map(told, report.lines)))
        if report.problems:
            raise CommandError("\n".join(report.problems))


@command("doctor", LEARN)
def doctor() -> None:
    """Check this machine: Python, versions, cores, memory, and ports. Exit code 1 means that it isn't ready."""
    from coursekit.machine.doctor import examine

    report = examine()
    print(report)
    raise typer.Exit(0 if report.ready else 1)


@command("progress", LEARN)
def progress(
    guesses: Annotated[
        bool, Option("--guesses", help="Show your predictions beside what was measured, the farthest off first.")
    ] = False,
) -> None:
    """Show your points in every chapter, how many you can earn, and what comes next."""
    from coursekit.learner import overview
    from coursekit.machine import copies

    copies.need_notebooks()
    print(overview.progress("guesses" if guesses else ""))


@command("review", LEARN)
def review() -> None:
    """Answer three questions from earlier chapters that are due. It takes five minutes, and earns nothing."""
    from coursekit.learner.reviews import ask

    ask()


@command("chapter ch27_topic", WRITE)
def chapter(name: Annotated[str, Argument(help="The chapter's name: ch, two digits, and a topic.")]) -> None:
    """Start a new chapter from the templates."""
    from coursekit.author.scaffold import new_chapter

    for path in new_chapter(name):
        print(f"wrote {path.relative_to(ROOT)}")
    print(
        f"Next:\n"
        f"  1. Write the chapter and its exercises in these files. `make build` turns them into notebooks.\n"
        f"  2. Write right and wrong answers in tests/answers/{name}.py; `make test` runs them all.\n"
        "  3. Commit these files together with those that `make build` wrote."
    )


@command("exercise ch05_faults slow_node", WRITE)
def exercise_(
    chapter: ChapterName,
    name: Annotated[str, Argument(help="The name of the function that learners write.")],
) -> None:
    """Add a small working exercise to a chapter's files, for you to make your own."""
    from coursekit.author.scaffold import new_exercise

    for path in new_exercise(chapter, name):
        print(path.relative_to(ROOT))
    print(
        f"Next steps:\n"
        f"  1. Make the text, the check, and the answers your own: look for {name} in these files.\n"
        f"  2. Run `make build`, and then `make test name={chapter}`.\n"
        "  3. Commit these files together with those that `make build` wrote."
    )


@command("bill ch01_tasks", WRITE)
def bill(
    chapters: Annotated[list[str] | None, Argument(help="Names of chapters. Default: all.")] = None,
) -> None:
    """Count, for each exercise, the lines of its check, of everything that judges it, and of our solution."""
    from coursekit.author.bill import bills
    from coursekit.basics.errors import existing_chapter

    print(f"{'':46} check judging solution")
    for name in map(existing_chapter, chapters or chapter_names()):
        for row in bills(name):
            print(row)


@command("translate de ch00_start interface", WRITE)
def translate(
    language: Annotated[str, Argument(help="The language's two letters: de for German, zh for Chinese.")] = "",
    names: Annotated[
        list[str] | None,
        Argument(help="Chapters, `interface`, or `pages`. Default: all that the language already has."),
    ] = None,
    check: Annotated[
        bool, Option("--check", help="Write nothing, and fail if a translation lacks a placeholder, code, or a link.")
    ] = False,
    status: Annotated[
        bool, Option("--status", help="Show how much is translated, and how much has changed since.")
    ] = False,
) -> None:
    """Bring the files of a translation in locale/ up to the English text, and mark as fuzzy what has changed."""
    from rich import print as show

    from coursekit.author import translation_files

    if status:
        show(translation_files.status())
        return
    if check:
        found = [
            line
            for path in sorted(ROOT.glob(f"locale/{language or '*'}/*.po"))
            for line in translation_files.problems(path)
        ]
        if found:
            raise CommandError("\n".join(found))
        print("Every translation has its placeholders, code, and links.")
        return
    for path in translation_files.update(language, names or []):
        print(path.relative_to(ROOT))


@command("slides ch01_tasks --run", TEACH)
def slides(
    name: ChapterName,
    run: Annotated[
        bool, Option("--run", help="Run the solved chapter, and show its outputs instead of the recorded ones.")
    ] = False,
    sheet: Annotated[
        str, Option(help="The beginning of your run sheet's title. Default: the chapter's own run sheet.")
    ] = "",
    language: Annotated[
        str, Option("--in", help="The language of text and notes, such as de for German. Default: English.")
    ] = "en",
) -> None:
    """Turn a chapter into slides with speaker notes: one HTML file that opens offline."""
    from coursekit.author.slides import write_slides
    from coursekit.basics.errors import existing_chapter
    from coursekit.room.live_board import minutes_of
    from coursekit.room.run_sheet import lines, own_sheet

    with speaking(language):
        plan = lines(minutes_of(existing_chapter(name)), sheet or own_sheet(name))
    path = write_slides(name, run=run, plan=plan, language=language).relative_to(ROOT)
    print(f"wrote {path} (open it in a browser; the S key shows the speaker notes)")


@command("record ch01_tasks ch05_faults", WRITE)
def record(
    names: Annotated[
        list[str] | None,
        Argument(
            help="The chapters to run, one after the other. Without any, the command lists the chapters that have changed."
        ),
    ] = None,
) -> None:
    """Run solved chapters in full mode, and save the outputs of their demonstrations in site/recorded/."""
    from coursekit.author.recordings import not_run_again, record_all

    if not names:
        print(f"Chapters that have changed since they were recorded: {not_run_again() or 'none'}.")
    elif failed := record_all(names):
        raise CommandError(f"Not recorded, for the reasons above: {', '.join(failed)}.")


@command("collect moodle.zip course", TEACH)
def collect(
    source: Annotated[Path, Argument(help="The zip of all submissions from Moodle or Canvas, or a folder.")],
    course: Annotated[Path, Argument(help="The course's folder.")] = Path("."),
    table: Annotated[
        Path | None,
        Option(
            help="Moodle's grading worksheet, which also has the times of the hand-ins, or Canvas' gradebook. It tells students of the same name apart."
        ),
    ] = None,
) -> None:
    """Sort the hand-ins from Moodle or Canvas into submitted/, and list any that match no student, with the reason."""
    from coursekit.grading.desk.collect import collect as put

    print(put(source, course, table))


@command("grades course --to moodle --table worksheet.csv --dry-run", TEACH)
def grades(
    course: GradedCourse,
    to: Annotated[str, Option(help="canvas, moodle, or csv.")] = "csv",
    table: Annotated[
        Path | None, Option(help="The table that you exported: Canvas' gradebook, or Moodle's grading worksheet.")
    ] = None,
    column: Annotated[
        list[str] | None, Option(help='The column for an assignment, such as "ch01_tasks=Homework 1". Repeatable.')
    ] = None,
    scale: Annotated[bool, Option("--scale", help="Convert points to the platform's maximum.")] = False,
    zeros: Annotated[bool, Option("--zeros", help="Give 0 to students who handed in nothing by the due date.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Show each change, and write nothing.")] = False,
    out: Annotated[Path | None, Option(help="The new file. Default: a file beside the table.")] = None,
) -> None:
    """Fill in the class's points in a platform's table, and write it to a new file for you to import."""
    from coursekit.grading.desk.transfer import grades_to

    print(grades_to(course, to, table, column or [], scale, zeros, dry_run, out))


@command("give-back course --to moodle", TEACH)
def give_back(
    course: GradedCourse,
    to: Annotated[str, Option(help="moodle, canvas, or folder.")] = "folder",
) -> None:
    """Pack the students' pages for each assignment, in a zip that you can upload to Moodle or Canvas, or in a folder."""
    from coursekit.grading.desk.give_back import give_back as pack

    print(pack(course, to))


@command("similar course", TEACH)
def similar(course: GradedCourse) -> None:
    """Write similar.html, which shows pairs of hand-ins with much in common side by side. Read it yourself: it's never a verdict."""
    from coursekit.grading.desk.similar import similar as write

    print(f"wrote {write(course)}")


@command("grade course/submitted --jobs 2", TEACH)
def grade(
    submissions: Annotated[Path, Argument(help="The submitted/ folder of a course: <student>/<assignment>/*.ipynb.")],
    jobs: Annotated[int, Option(min=1, help="How many submissions to grade at the same time.")] = 2,
    only: Annotated[
        list[str] | None, Option(help="A student, an assignment, or student/assignment. Repeatable.")
    ] = None,
    seed: Annotated[
        int | None, Option(help="The seed of the inputs, to reproduce a run. Default: a new, secret seed.")
    ] = None,
    again: Annotated[bool, Option("--again", help="Regrade everything instead of resuming.")] = False,
    all_cells: Annotated[bool, Option("--all-cells", help="Also run unedited demo cells.")] = False,
    timeout: Annotated[
        float | None,
        Option(
            min=1,
            help="Seconds that one cell, or one request from a check, may take. Default: as configured, or else 180.",
        ),
    ] = None,
    total: Annotated[float, Option(min=1, help="Seconds that one submission may take in total.")] = 1200,
    memory: Annotated[int, Option(help="MB of memory that one submission may use, including Ray.")] = 6000,
    address: Annotated[str, Option(help="Grade on the Ray cluster at this address.")] = "",
    no_sandbox: Annotated[
        bool, Option("--no-sandbox", help="Run the submissions without protection, if you trust all of them.")
    ] = False,
) -> None:
    """Grade a class in parallel, each submission in a sandbox. If you interrupt the command, run it again to resume."""
    gc.disable()  # imports leave little to collect
    from coursekit.grading.course_folders import Place
    from coursekit.sandbox.limits import Limits

    limits = Limits(cell_seconds=timeout or Limits.cell_seconds, total_seconds=total, memory_mb=memory)
    # a script starts its background jobs with Ctrl-C ignored
    signal.signal(signal.SIGINT, signal.default_int_handler)
    nursery = None if address else Place(submissions).new_nursery(limits, not no_sandbox)
    with nursery or nullcontext():
        from coursekit.grading.desk.grade_command import grade_class
        from coursekit.grading.outcome import Options

        gc.enable()
        chosen = tuple(only or ())
        how = (jobs, seed, chosen, again, all_cells, not no_sandbox, address, limits)
        grade_class(submissions, Options(*how, configured=timeout is None), nursery)


@command("report course", TEACH)
def report(course: GradedCourse) -> None:
    """Rewrite the students' pages and grades.csv with what you have changed in formgrader since you graded."""
    from coursekit.grading.desk.grade_command import report_class

    report_class(course)


@command("class course", TEACH)
def class_(course: GradedCourse) -> None:
    """Write class.html, a page for you: who handed in nothing, what was hard, and which messages were most common."""
    from coursekit.grading.desk.grade_command import show_class

    show_class(course)


@command("release course", TEACH)
def release(
    folder: Annotated[
        Path, Argument(help="A folder that does not exist yet, or has only class.toml and a roster in it.")
    ],
) -> None:
    """Make a complete nbgrader course, with one assignment per chapter, and a zip for learners, without solutions."""
    from coursekit.grading.desk.grade_command import release_course

    release_course(folder)


@command("pack stick --platform linux-x86_64 --python 3.11 --python 3.12", TEACH)
def pack(
    folder: Annotated[Path, Argument(help="A folder that does not exist yet, or one that was packed before.")],
    platform: Annotated[
        list[str] | None, Option(help="linux-x86_64 (also for WSL), linux-aarch64, or macos-arm64. Repeatable.")
    ] = None,
    python: Annotated[list[str] | None, Option(help="3.11, 3.12, or 3.13. Repeatable.")] = None,
    course: Annotated[Path | None, Option(help="A course that you released, if the class has its own dates.")] = None,
) -> None:
    """Fill a folder for a USB stick, so that laptops can install the course without a network."""
    from coursekit.grading.desk.pack import pack as fill

    fill(folder, platform or ["linux-x86_64"], python or ["3.11"], course)


@command("room", TEACH)
def room(
    port: Annotated[int, Option(help="The port that learners' machines connect to.")] = 8765,
    board: Annotated[int, Option(help="The port of the board, on this machine only.")] = 8766,
    keep: Annotated[
        Path | None,
        Option(help="A file that keeps everything the room receives. Without it, everything is deleted at the end."),
    ] = None,
    handins: Annotated[
        Path | None,
        Option(help="The folder for hand-ins, such as course/submitted. Without it, learners can't hand in."),
    ] = None,
    address: Annotated[str, Option(help="The address that learners type, if this machine has several.")] = "",
    language: Annotated[
        str, Option("--in", help="The language of the board, such as de for German. Default: that of your notebooks.")
    ] = "",
) -> None:
    """Open a room for a workshop: learners join with an address and a code, and you see live who is where, and who is stuck."""
    from coursekit.machine.learners_folder import learners_folder
    from coursekit.room.room_command import open_room

    with speaking(language or chosen(learners_folder())):
        open_room(port, board, keep, handins, address)


@command('join "192.168.1.7 QUIET-FALCON"', LEARN)
def join_(
    room: Annotated[str, Argument(help="The address and the code on your instructor's screen, in quotes.")],
    nickname: Annotated[str, Option(help="Your name on the board.")] = "",
) -> None:
    """Join your instructor's room, for all notebooks on this machine."""
    from coursekit.learner.workshop.attendance import join

    print(join(room, nickname))


@command("handin work/ch01_tasks.ipynb", LEARN)
def handin_(
    notebook: Annotated[str, Argument(help="The notebook's file.")],
    student: Annotated[str, Option(help="Your name in the class. Default: your nickname.")] = "",
    yes: Annotated[bool, Option("--yes", help="Don't ask before sending.")] = False,
) -> None:
    """Hand in a notebook to the instructor whose room you have joined, and get a receipt."""
    from coursekit.learner.workshop.hand_in import hand_in

    print(hand_in(notebook, student=student, sure=yes))


@command("leave", LEARN)
def leave_() -> None:
    """Leave the room: after that, nothing is sent."""
    from coursekit.learner.workshop.attendance import leave

    print(leave())


@command("capstone run my_entry.py --seconds 60", within=capstone)
def capstone_run(
    entry: Annotated[
        Path, Argument(help="A Python file with a function train(make_envs, budget) that returns a policy.")
    ],
    name: Annotated[str, Option(help="The entry's name on the leaderboard. Default: the file's name.")] = "",
    seconds: Annotated[
        float,
        Option(
            help="The budget for learning, in CPU seconds of all its processes, or in wall-clock seconds with --by-clock."
        ),
    ] = 60,
    seed: Annotated[
        int | None, Option(min=0, help="The seed of the judge's episodes. Default: a new, secret seed.")
    ] = None,
    by_clock: Annotated[
        bool, Option("--by-clock", help="The other league: wall-clock seconds, a slow simulator, and a killed actor.")
    ] = False,
    no_sandbox: Annotated[
        bool, Option("--no-sandbox", help="Run the entry without protection, if you wrote it or trust it.")
    ] = False,
) -> None:
    """Run an entry: it learns in a sandbox, its policy is scored from outside, and the score goes on the leaderboard."""
    from coursekit.capstone.capstone_command import run_entry
    from coursekit.capstone.rules import Rules

    run_entry(entry, name, Rules(seconds=seconds, by_clock=by_clock, seed=seed, isolated=not no_sandbox))


@command("capstone board --open", within=capstone)
def capstone_leaderboard(
    in_browser: Annotated[bool, Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Write the leaderboard as a page with the learning curves."""
    from coursekit.capstone.capstone_command import show_leaderboard

    show_leaderboard(in_browser)


@command("capstone class entries --seconds 60", within=capstone)
def capstone_class(
    folder: Annotated[Path, Argument(help="A folder with the class's entries, one Python file each.")],
    seconds: Annotated[float, Option(help="The budget of each entry, as for `run`.")] = 60,
    by_clock: Annotated[bool, Option("--by-clock", help="The other league, as for `run`.")] = False,
    no_sandbox: Annotated[
        bool, Option("--no-sandbox", help="Run the entries without protection, if you trust all of them.")
    ] = False,
    in_browser: Annotated[bool, Option("--open", help="Open the leaderboard in a browser.")] = False,
) -> None:
    """Run a class's entries in the same world, and write their leaderboard, with learning curves and animations of their best episodes."""
    from coursekit.capstone.capstone_command import class_leaderboard
    from coursekit.capstone.rules import Rules

    class_leaderboard(folder, Rules(seconds=seconds, by_clock=by_clock, isolated=not no_sandbox), in_browser)


def front_door() -> None:
    """Run `ray-rl-course`: `coursekit` under the course's own name, which opens the course where no command is given."""
    app(args=sys.argv[1:] or ["lab"], prog_name="ray-rl-course")


if __name__ == "__main__":
    app()
