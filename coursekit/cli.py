"""The `coursekit` command: each command calls the module that does the work."""

import atexit
import gc
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer import Argument, Option

from coursekit.basics.errors import CommandError
from coursekit.basics.paths import ROOT
from coursekit.basics.terminal import print_anything

LEARN, TEACH, WRITE = "Take the course", "Teach it: workshops, classes, grades", "Write it: chapters and exercises"


class CommandLine(typer.Typer):
    """The commands, in a terminal of any encoding."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command."""
        print_anything()
        return super().__call__(*args, **kwargs)


app = CommandLine(
    help="Take the course, teach it, or write it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
capstone = typer.Typer(
    help="Have a policy learn within a budget of CPU seconds, and see where it stands.", no_args_is_help=True
)
app.add_typer(capstone, name="capstone")
atexit.register(gc.freeze)  # at its end Python then searches nothing for garbage: 0.3 s after a class

ChapterName = Annotated[str, Argument(help="The chapter's name.")]
GradedCourse = Annotated[Path, Argument(help="The course's folder, in which a class has been graded.")]
F = TypeVar("F", bound=Callable[..., None])


@contextmanager
def plain_errors() -> Iterator[None]:
    """Report a user's mistake in plain lines on stderr, with exit code 1; our own keep their traceback."""
    try:
        yield
    except CommandError as error:
        typer.secho(str(error), err=True, fg="red")
        raise typer.Exit(1) from None


def command(example: str, panel: str | None = None, within: typer.Typer = app, **settings: Any) -> Callable[[F], F]:
    """Return a decorator for a command: the example stands below its help and begins with its name."""
    name = example.removeprefix("capstone ").split()[0]
    declared = within.command(
        name, epilog=f"Example: [bold]coursekit {example}[/bold]", rich_help_panel=panel, **settings
    )
    return lambda function: declared(plain_errors()(function))


def _say_version(wanted: bool) -> None:
    if wanted:
        from coursekit.basics.versions import in_words

        print(in_words())
        raise typer.Exit()


@app.callback()
def main(
    version: Annotated[
        bool,
        Option("--version", callback=_say_version, is_eager=True, help="Say the versions of the course and of Ray."),
    ] = False,
) -> None:
    """Take the course, teach it, or write it."""


@command("build --check", WRITE)
def build(
    check: Annotated[bool, Option("--check", help="Write nothing, and fail if one of these files is stale.")] = False,
) -> None:
    """Write notebooks/ and solutions/ from chapters/, and the lists of chapters in README and docs."""
    from coursekit.author import build as builder

    built = builder.build()
    outdated = builder.stale(built) if check else builder.write(built)
    for path in outdated:
        print(path.relative_to(ROOT))
    if check and outdated:
        raise CommandError("These files are stale. Run `make build` and commit the result.")
    print(f"{len(built)} files, {'all fresh' if check else f'{len(outdated)} changed'}.")


@command("lab --port 8890 --no-browser", LEARN, context_settings={"ignore_unknown_options": True})
def lab(
    port: Annotated[int | None, Option(help="The port; by default 8888, or the next free one.")] = None,
    jupyter_arguments: Annotated[
        list[str] | None, Argument(help="JupyterLab's own options, such as --ip=0.0.0.0, which are passed on.")
    ] = None,
) -> None:
    """Check this machine, then open work/, your own copy of the course, in JupyterLab."""
    from coursekit.machine import copies, doctor, facts
    from coursekit.machine import lab as jupyter

    found = facts.gather()
    print(doctor.examine(found).text(only_what_matters=True))
    for note in filter(None, [copies.added(copies.fill()), copies.behind()]):
        print(note, flush=True)
    jupyter.start(found, port, jupyter_arguments or [])


@command("update", LEARN)
def update() -> None:
    """Update your notebooks in work/ to the course's version, and keep everything you wrote in them."""
    from coursekit.machine.update import update as bring

    report = bring()
    print("\n".join(report.lines))
    if report.problems:
        raise CommandError("\n".join(report.problems))


@command("doctor", LEARN)
def doctor() -> None:
    """Check this machine: Python, versions, cores, memory, ports. Exit code 1 means that it is not ready."""
    from coursekit.machine.doctor import examine

    report = examine()
    print(report)
    raise typer.Exit(0 if report.ready else 1)


@command("progress", LEARN)
def progress() -> None:
    """Show the points of every chapter, earned and possible."""
    from coursekit.learner.overview import overview
    from coursekit.machine import copies

    copies.need_notebooks()
    print(overview())


@command("chapter ch27_topic", WRITE)
def chapter(name: Annotated[str, Argument(help="Its name: ch, two digits, and a topic.")]) -> None:
    """Start a new chapter from the templates."""
    from coursekit.author.scaffold import new_chapter

    for path in new_chapter(name):
        print(f"wrote {path.relative_to(ROOT)}")
    print(
        f"Next:\n"
        f"  1. Write the chapter and its exercises in these files; `make build` shows you the notebook.\n"
        f"  2. Write right and wrong answers in tests/answers/{name}.py; `make test` runs them all.\n"
        "  3. Commit these files together with those that `make build` wrote."
    )


@command("exercise ch05_faults slow_node", WRITE)
def exercise_(
    chapter: ChapterName,
    name: Annotated[str, Argument(help="The name of the function that learners write.")],
) -> None:
    """Add an exercise to a chapter: a small one that works, in all its places, for you to make yours."""
    from coursekit.author.scaffold import new_exercise

    for path in new_exercise(chapter, name):
        print(path.relative_to(ROOT))
    print(
        f"Next steps:\n"
        f"  1. Make the text, the check and the answers yours: look for {name} in these files.\n"
        f"  2. Run `make build`, and then `make test name={chapter}`.\n"
        "  3. Commit these files together with those that `make build` wrote."
    )


@command("bill ch01_tasks", WRITE)
def bill(
    chapters: Annotated[list[str] | None, Argument(help="Names of chapters; by default all.")] = None,
) -> None:
    """Count, for each exercise, the lines of its check, of all that judges it, and of our solution."""
    from coursekit.author.bill import bills
    from coursekit.basics.errors import chapter_names, existing_chapter

    print(f"{'':46} check judging solution")
    for name in map(existing_chapter, chapters or chapter_names()):
        for row in bills(name):
            print(row)


@command("slides ch01_tasks --run", TEACH)
def slides(
    name: ChapterName,
    run: Annotated[bool, Option("--run", help="Run the solved chapter, and show what came out here.")] = False,
    sheet: Annotated[
        str, Option(help="How the title of your run sheet begins; by default, the first with this chapter.")
    ] = "",
) -> None:
    """Turn a chapter into slides with speaker notes: one HTML file that opens offline."""
    from coursekit.author.slides import write_slides
    from coursekit.basics.errors import existing_chapter
    from coursekit.room.live_board import minutes_of
    from coursekit.room.run_sheet import lines

    path = write_slides(name, run=run, plan=lines(minutes_of(existing_chapter(name)), sheet)).relative_to(ROOT)
    print(f"wrote {path} (open it in a browser; the S key shows the speaker notes)")


@command("record ch01_tasks ch05_faults", WRITE)
def record(
    names: Annotated[
        list[str] | None,
        Argument(help="The chapters' names, run one after the other; without any, lists those that have changed."),
    ] = None,
) -> None:
    """Run solved chapters in full mode, and keep in site/recorded/ what their demonstrations showed."""
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
            help="Moodle's grading worksheet, which says when each handed in, or Canvas' gradebook; tells namesakes apart."
        ),
    ] = None,
) -> None:
    """Sort what students handed in on Moodle or Canvas into submitted/, and list what fits no student, with the reason."""
    from coursekit.grading.desk.collect import collect as put

    print(put(source, course, table))


@command("grades course --to moodle --table worksheet.csv --dry-run", TEACH)
def grades(
    course: GradedCourse,
    to: Annotated[str, Option(help="canvas, moodle or csv.")] = "csv",
    table: Annotated[
        Path | None, Option(help="What the platform exported: Canvas' gradebook, Moodle's grading worksheet.")
    ] = None,
    column: Annotated[
        list[str] | None, Option(help='The column of an assignment, as "ch01_tasks=Homework 1"; repeatable.')
    ] = None,
    scale: Annotated[bool, Option("--scale", help="Convert points to the platform's maximum.")] = False,
    zeros: Annotated[bool, Option("--zeros", help="Give 0 to students who handed in nothing by their date.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Show each change and write nothing.")] = False,
    out: Annotated[Path | None, Option(help="The new file; by default one beside the table.")] = None,
) -> None:
    """Fill the class's points into a platform's table, and write it as a new file to import."""
    from coursekit.grading.desk.transfer import grades_to

    print(grades_to(course, to, table, column or [], scale, zeros, dry_run, out))


@command("give-back course --to moodle", TEACH)
def give_back(
    course: GradedCourse,
    to: Annotated[str, Option(help="moodle, canvas or folder.")] = "folder",
) -> None:
    """Pack the students' pages for each assignment: the zip that Moodle or Canvas takes for feedback, or a folder."""
    from coursekit.grading.desk.give_back import give_back as pack

    print(pack(course, to))


@command("similar course", TEACH)
def similar(course: GradedCourse) -> None:
    """Write similar.html: pairs of hand-ins with much in common, side by side, for you to read. It is never a verdict."""
    from coursekit.grading.desk.similar import similar as write

    print(f"wrote {write(course)}")


@command("grade course/submitted --jobs 2", TEACH)
def grade(
    submissions: Annotated[Path, Argument(help="The folder submitted/ of a course: <student>/<assignment>/*.ipynb.")],
    jobs: Annotated[int, Option(min=1, help="How many submissions to grade at a time.")] = 2,
    only: Annotated[
        list[str] | None, Option(help="A student, an assignment, or student/assignment; repeatable.")
    ] = None,
    seed: Annotated[
        int | None, Option(help="The seed of the inputs, to reproduce a run; by default a new secret one.")
    ] = None,
    again: Annotated[bool, Option("--again", help="Regrade everything instead of resuming.")] = False,
    all_cells: Annotated[bool, Option("--all-cells", help="Also run unedited demo cells.")] = False,
    timeout: Annotated[
        float | None,
        Option(
            min=1, help="Seconds that one cell, or one question of a check, may take; by default 180, or as configured."
        ),
    ] = None,
    total: Annotated[float, Option(min=1, help="Seconds that one submission may take in all.")] = 1200,
    memory: Annotated[int, Option(help="MB that one submission may use, Ray included.")] = 6000,
    address: Annotated[str, Option(help="Grade on the Ray cluster at this address.")] = "",
    no_sandbox: Annotated[
        bool, Option("--no-sandbox", help="Run submissions unprotected, if you trust all of them.")
    ] = False,
) -> None:
    """Grade a class in parallel, each submission in a sandbox. After an interruption, the same command resumes."""
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
    """Write the students' pages and grades.csv again, with what you have changed in formgrader since."""
    from coursekit.grading.desk.grade_command import report_class

    report_class(course)


@command("class course", TEACH)
def class_(course: GradedCourse) -> None:
    """Write class.html, the page for you: what was hard, the most common messages, who handed in nothing."""
    from coursekit.grading.desk.grade_command import show_class

    show_class(course)


@command("release course", TEACH)
def release(
    folder: Annotated[Path, Argument(help="A folder that does not exist yet, or holds class.toml and a roster alone.")],
) -> None:
    """Make a ready nbgrader course, with one assignment for each chapter, and a zip for learners without solutions."""
    from coursekit.grading.desk.grade_command import release_course

    release_course(folder)


@command("pack stick --platform linux-x86_64 --python 3.11 --python 3.12", TEACH)
def pack(
    folder: Annotated[Path, Argument(help="A folder that does not exist yet, or one that was packed before.")],
    platform: Annotated[
        list[str] | None, Option(help="linux-x86_64 (also for WSL), linux-aarch64 or macos-arm64; repeatable.")
    ] = None,
    python: Annotated[list[str] | None, Option(help="3.11, 3.12 or 3.13; repeatable.")] = None,
    course: Annotated[Path | None, Option(help="A course that was released, for a class with its own dates.")] = None,
) -> None:
    """Fill a folder for a USB stick, from which laptops install the course without a network."""
    from coursekit.grading.desk.pack import pack as fill

    fill(folder, platform or ["linux-x86_64"], python or ["3.11"], course)


@command("room", TEACH)
def room(
    port: Annotated[int, Option(help="The port that learners' machines connect to.")] = 8765,
    board: Annotated[int, Option(help="The port of the board, on this machine alone.")] = 8766,
    keep: Annotated[
        Path | None, Option(help="A file that keeps what the room was told; without it, all is deleted at the end.")
    ] = None,
    handins: Annotated[
        Path | None, Option(help="The folder for hand-ins, as course/submitted; without it, none are taken.")
    ] = None,
    address: Annotated[str, Option(help="The address that learners type, where this machine has several.")] = "",
) -> None:
    """Open a room for a workshop: learners join with an address and a code, and you see live who is where and who is stuck."""
    from coursekit.room.room_command import open_room

    open_room(port, board, keep, handins, address)


@command('join "192.168.1.7 QUIET-FALCON"', LEARN)
def join_(
    room: Annotated[str, Argument(help="The address and the code on your instructor's screen, in quotes.")],
    nickname: Annotated[str, Option(help="What the board calls you.")] = "",
) -> None:
    """Join your instructor's room, for all notebooks on this machine."""
    from coursekit.learner.workshop.attendance import join

    print(join(room, nickname))


@command("handin work/ch01_tasks.ipynb", LEARN)
def handin_(
    notebook: Annotated[str, Argument(help="The notebook's file.")],
    student: Annotated[str, Option(help="Your name in the class; by default your nickname.")] = "",
    yes: Annotated[bool, Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Hand in a notebook to the instructor whose room you have joined; a receipt comes back."""
    from coursekit.learner.workshop.hand_in import hand_in

    print(hand_in(notebook, student=student, sure=yes))


@command("leave", LEARN)
def leave_() -> None:
    """Leave the room: nothing is sent from then on."""
    from coursekit.learner.workshop.attendance import leave

    print(leave())


@command("capstone run my_entry.py --seconds 60", within=capstone)
def capstone_run(
    entry: Annotated[Path, Argument(help="A Python file with train(make_envs, budget), which returns a policy.")],
    name: Annotated[str, Option(help="What the leaderboard calls it; without it the file's name.")] = "",
    seconds: Annotated[
        float, Option(help="CPU seconds to learn with, those of all its processes; seconds with --by-clock.")
    ] = 60,
    seed: Annotated[
        int | None, Option(min=0, help="The seed of the judge's episodes; secret and new by default.")
    ] = None,
    by_clock: Annotated[
        bool, Option("--by-clock", help="The other league: seconds by the clock, a slow simulator, a killed actor.")
    ] = False,
    no_sandbox: Annotated[
        bool, Option("--no-sandbox", help="Run the entry unprotected (it is yours, or you trust it).")
    ] = False,
) -> None:
    """Run an entry: it learns in a sandbox, its policy is judged from outside, its score goes on the leaderboard."""
    from coursekit.capstone.capstone_command import run_entry
    from coursekit.capstone.rules import Rules

    run_entry(entry, name, Rules(seconds=seconds, by_clock=by_clock, seed=seed, isolated=not no_sandbox))


@command("capstone board --open", within=capstone)
def capstone_leaderboard(
    in_browser: Annotated[bool, Option("--open", help="Open it in a browser.")] = False,
) -> None:
    """Write the leaderboard as a page with the learning curves."""
    from coursekit.capstone.capstone_command import show_leaderboard

    show_leaderboard(in_browser)


@command("capstone class entries --seconds 60", within=capstone)
def capstone_class(
    folder: Annotated[Path, Argument(help="A folder with the class's entries, a Python file for each.")],
    seconds: Annotated[float, Option(help="The budget of each, as for `run`.")] = 60,
    by_clock: Annotated[bool, Option("--by-clock", help="The other league, as for `run`.")] = False,
    no_sandbox: Annotated[bool, Option("--no-sandbox", help="Run entries that you trust unprotected.")] = False,
    in_browser: Annotated[bool, Option("--open", help="Open the leaderboard in a browser.")] = False,
) -> None:
    """Run a class's entries in one world, and write their leaderboard, with learning curves and films of their best episodes."""
    from coursekit.capstone.capstone_command import class_leaderboard
    from coursekit.capstone.rules import Rules

    class_leaderboard(folder, Rules(seconds=seconds, by_clock=by_clock, isolated=not no_sandbox), in_browser)


if __name__ == "__main__":
    app()
