"""The `coursekit` command: each command calls the module that does the work."""

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated

import typer

LEARN, TEACH, WRITE = "Take the course", "Teach it: workshops, classes, grades", "Write it: chapters and exercises"
app = typer.Typer(
    help="Take the course, teach it, or write it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
atexit.register(gc.freeze)  # at its end Python then searches nothing for garbage: 0.3 s after a class


@contextmanager
def plain_errors() -> Iterator[None]:
    """Report a user's mistake in plain lines on stderr, with exit code 1; our own keep their traceback."""
    from coursekit.basics.errors import CommandError
    from coursekit.judging.exercise import AuthorError

    try:
        yield
    except (AuthorError, CommandError) as error:
        typer.secho(str(error), err=True, fg="red")
        raise typer.Exit(1) from None


def _say_version(wanted: bool) -> None:
    if wanted:
        from coursekit.basics.versions import in_words

        print(in_words())
        raise typer.Exit()


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_say_version, is_eager=True, help="Say the versions of the course and of Ray."
        ),
    ] = False,
) -> None:
    """Take the course, teach it, or write it."""


def example(text: str) -> str:
    """Return the line below a command's help."""
    return f"Example: [bold]{text}[/bold]"


@app.command(epilog=example("coursekit build --check"), rich_help_panel=WRITE)
def build(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing, and fail if one of these files is stale.")
    ] = False,
) -> None:
    """Write notebooks/ and solutions/ from chapters/, and the lists of chapters in README and docs."""
    with plain_errors():
        from coursekit.author import build as builder
        from coursekit.author.recordings import not_run_again
        from coursekit.basics.errors import CommandError
        from coursekit.basics.paths import ROOT

        built = builder.build()
        outdated = builder.stale(built) if check else builder.write(built)
        for path in outdated:
            print(path.relative_to(ROOT))
        if check and outdated:
            raise CommandError("These files are stale. Run `make build` and commit the result.")
        print(f"{len(built)} files, {'all fresh' if check else f'{len(outdated)} changed'}.")
        if check and (changed := not_run_again()):
            print(f"Changed since they were recorded for the site (`make record` runs a chapter again): {changed}.")


@app.command(epilog=example("coursekit lab --port 8890 -- --ip=0.0.0.0"), rich_help_panel=LEARN)
def lab(
    port: Annotated[int | None, typer.Option(help="The port; by default 8888, or the next free one.")] = None,
    jupyter_arguments: Annotated[list[str] | None, typer.Argument(help="Passed on to jupyter lab, after `--`.")] = None,
) -> None:
    """Check this machine, then open work/, your own copy of the course, in JupyterLab."""
    with plain_errors():
        from coursekit.machine import copies, doctor, facts
        from coursekit.machine import lab as jupyter

        found = facts.gather()
        print(doctor.examine(found).text(only_what_matters=True))
        for note in filter(None, [copies.added(copies.fill()), copies.behind()]):
            print(note, flush=True)
        jupyter.start(found, port, jupyter_arguments or [])


@app.command(epilog=example("coursekit update"), rich_help_panel=LEARN)
def update() -> None:
    """Update your notebooks in work/ to the course's version, and keep everything you wrote in them."""
    with plain_errors():
        from coursekit.basics.errors import CommandError
        from coursekit.machine.update import update as bring

        report = bring()
        print("\n".join(report.lines))
        if report.problems:
            raise CommandError("\n".join(report.problems))


@app.command(epilog=example("coursekit doctor"), rich_help_panel=LEARN)
def doctor() -> None:
    """Check this machine: Python, versions, cores, memory, ports. Exit code 1 means that it is not ready."""
    from coursekit.machine.doctor import examine

    report = examine()
    print(report)
    raise typer.Exit(0 if report.ready else 1)


@app.command(epilog=example("coursekit progress"), rich_help_panel=LEARN)
def progress() -> None:
    """Show the points of every chapter, earned and possible."""
    from coursekit.learner.progress import progress as overview

    print(overview())


@app.command(epilog=example("coursekit chapter ch27_topic"), rich_help_panel=WRITE)
def chapter(name: Annotated[str, typer.Argument(help="Its name: ch, two digits, and a topic.")]) -> None:
    """Start a new chapter from the templates."""
    with plain_errors():
        from coursekit.author.scaffold import new_chapter
        from coursekit.basics.paths import ROOT

        for path in new_chapter(name):
            print(f"wrote {path.relative_to(ROOT)}")
        print(
            f"Next:\n"
            f"  1. Write the chapter and its exercises in these files; `make build` shows you the notebook.\n"
            f"  2. Write right and wrong answers in tests/answers/{name}.py; `make test` runs them all.\n"
            "  3. Commit these files together with those that `make build` wrote."
        )


@app.command("exercise", epilog=example("coursekit exercise ch05_faults slow_node"), rich_help_panel=WRITE)
def exercise_(
    chapter: Annotated[str, typer.Argument(help="The chapter's name.")],
    name: Annotated[str, typer.Argument(help="The name of the function that learners write.")],
) -> None:
    """Add an exercise to a chapter: a small one that works, in all its places, for you to make yours."""
    with plain_errors():
        from coursekit.author.scaffold import new_exercise
        from coursekit.basics.paths import ROOT

        for path in new_exercise(chapter, name):
            print(path.relative_to(ROOT))
        print(
            f"Next steps:\n"
            f"  1. Make the text, the check and the answers yours: look for {name} in these files.\n"
            f"  2. Run `make build`, and then `make test name={chapter}`.\n"
            "  3. Commit these files together with those that `make build` wrote."
        )


@app.command(epilog=example("coursekit bill ch01_tasks"), rich_help_panel=WRITE)
def bill(
    chapters: Annotated[list[str] | None, typer.Argument(help="Names of chapters; by default all.")] = None,
) -> None:
    """Count, for each exercise, the lines of its check, of all that judges it, and of our solution."""
    with plain_errors():
        from coursekit.author.bill import bills
        from coursekit.basics.errors import chapter_names, existing_chapter

        print(f"{'':46} check judging solution")
        for name in map(existing_chapter, chapters or chapter_names()):
            for row in bills(name):
                print(row)


@app.command(epilog=example("coursekit slides ch01_tasks --run"), rich_help_panel=TEACH)
def slides(
    name: Annotated[str, typer.Argument(help="The chapter's name.")],
    run: Annotated[bool, typer.Option("--run", help="Run the solved chapter, and show what came out here.")] = False,
    sheet: Annotated[
        str, typer.Option(help="How the title of your run sheet begins; by default, the first with this chapter.")
    ] = "",
) -> None:
    """Turn a chapter into slides with speaker notes: one HTML file that opens offline."""
    with plain_errors():
        from coursekit.author.slides import write_slides
        from coursekit.basics.errors import existing_chapter
        from coursekit.basics.paths import ROOT
        from coursekit.room.live_board import minutes_of
        from coursekit.room.run_sheet import lines

        path = write_slides(name, run=run, plan=lines(minutes_of(existing_chapter(name)), sheet)).relative_to(ROOT)
        print(f"wrote {path} (open it in a browser; the S key shows the speaker notes)")


@app.command(epilog=example("coursekit record ch01_tasks ch05_faults"), rich_help_panel=WRITE)
def record(names: Annotated[list[str], typer.Argument(help="The chapters' names, run one after the other.")]) -> None:
    """Run solved chapters in full mode, and keep in site/recorded/ what their demonstrations showed."""
    with plain_errors():
        from coursekit.author.recordings import record_all
        from coursekit.basics.errors import CommandError

        if failed := record_all(names):
            raise CommandError(f"Not recorded, for the reasons above: {', '.join(failed)}.")


@app.command(epilog=example("coursekit collect moodle.zip course"), rich_help_panel=TEACH)
def collect(
    source: Annotated[Path, typer.Argument(help="The zip of all submissions from Moodle or Canvas, or a folder.")],
    course: Annotated[Path, typer.Argument(help="The course's folder.")] = Path("."),
    table: Annotated[
        Path | None,
        typer.Option(
            help="Moodle's grading worksheet, which says when each handed in, or Canvas' gradebook; tells namesakes apart."
        ),
    ] = None,
) -> None:
    """Sort what students handed in on Moodle or Canvas into submitted/, and list what fits no student, with the reason."""
    with plain_errors():
        from coursekit.grading.desk.collect import collect as put

        print(put(source, course, table))


@app.command(
    epilog=example("coursekit grades course --to moodle --table worksheet.csv --dry-run"), rich_help_panel=TEACH
)
def grades(
    course: Annotated[Path, typer.Argument(help="The course's folder, in which a class has been graded.")],
    to: Annotated[str, typer.Option(help="canvas, moodle or csv.")] = "csv",
    table: Annotated[
        Path | None, typer.Option(help="What the platform exported: Canvas' gradebook, Moodle's grading worksheet.")
    ] = None,
    column: Annotated[
        list[str] | None, typer.Option(help='The column of an assignment, as "ch01_tasks=Homework 1"; repeatable.')
    ] = None,
    scale: Annotated[bool, typer.Option("--scale", help="Convert points to the platform's maximum.")] = False,
    zeros: Annotated[
        bool, typer.Option("--zeros", help="Give 0 to students who handed in nothing by their date.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show each change and write nothing.")] = False,
    out: Annotated[Path | None, typer.Option(help="The new file; by default one beside the table.")] = None,
) -> None:
    """Fill the class's points into a platform's table, and write it as a new file to import."""
    with plain_errors():
        from coursekit.grading.desk.transfer import grades_to

        print(grades_to(course, to, table, column or [], scale, zeros, dry_run, out))


@app.command(epilog=example("coursekit similar course"), rich_help_panel=TEACH)
def similar(
    course: Annotated[Path, typer.Argument(help="The course's folder, in which a class has been graded.")],
) -> None:
    """Write similar.html: pairs of hand-ins with much in common, side by side, for you to read. It is never a verdict."""
    with plain_errors():
        from coursekit.grading.desk.similar import similar as write

        print(f"wrote {write(course)}")


@app.command(epilog=example("coursekit grade course/submitted --jobs 2"), rich_help_panel=TEACH)
def grade(
    submissions: Annotated[
        Path, typer.Argument(help="The folder submitted/ of a course: <student>/<assignment>/*.ipynb.")
    ],
    jobs: Annotated[int, typer.Option(min=1, help="How many submissions to grade at a time.")] = 2,
    only: Annotated[
        list[str] | None, typer.Option(help="A student, an assignment, or student/assignment; repeatable.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="The seed of the inputs, to reproduce a run; by default a new secret one.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Regrade everything instead of resuming.")] = False,
    all_cells: Annotated[bool, typer.Option("--all-cells", help="Also run unedited demo cells.")] = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            min=1, help="Seconds that one cell, or one question of a check, may take; by default 180, or as configured."
        ),
    ] = None,
    total: Annotated[float, typer.Option(min=1, help="Seconds that one submission may take in all.")] = 1200,
    memory: Annotated[int, typer.Option(help="MB that one submission may use, Ray included.")] = 6000,
    address: Annotated[str, typer.Option(help="Grade on the Ray cluster at this address.")] = "",
    no_sandbox: Annotated[
        bool, typer.Option("--no-sandbox", help="Run submissions unprotected, if you trust all of them.")
    ] = False,
) -> None:
    """Grade a class in parallel, each submission in a sandbox. After an interruption, the same command resumes."""
    with plain_errors():
        gc.disable()  # imports leave little to collect
        from coursekit.grading.early_nursery import heed_ctrl_c, nursery_for
        from coursekit.sandbox.limits import Limits

        limits = Limits(cell_seconds=timeout or Limits.cell_seconds, total_seconds=total, memory_mb=memory)
        heed_ctrl_c()
        nursery = None if address else nursery_for(submissions, limits, not no_sandbox)
        with nursery or nullcontext():
            from coursekit.grading.desk.grade_command import grade_class
            from coursekit.grading.outcome import Options

            gc.enable()
            chosen = tuple(only or ())
            how = (jobs, seed, chosen, again, all_cells, not no_sandbox, address, limits)
            grade_class(submissions, Options(*how, configured=timeout is None), nursery)


@app.command(epilog=example("coursekit report course"), rich_help_panel=TEACH)
def report(
    course: Annotated[Path, typer.Argument(help="The course's folder, in which a class has been graded.")],
) -> None:
    """Write the students' pages and grades.csv again, with what you have changed in formgrader since."""
    with plain_errors():
        from coursekit.grading.desk.grade_command import report_class

        report_class(course)


@app.command(name="class", epilog=example("coursekit class course"), rich_help_panel=TEACH)
def class_(
    course: Annotated[Path, typer.Argument(help="The course's folder, in which a class has been graded.")],
) -> None:
    """Write class.html, the page for you: what was hard, the most common messages, who handed in nothing."""
    with plain_errors():
        from coursekit.grading.desk.grade_command import show_class

        show_class(course)


@app.command(epilog=example("coursekit release course"), rich_help_panel=TEACH)
def release(
    folder: Annotated[
        Path, typer.Argument(help="A folder that does not exist yet, or holds class.toml and a roster alone.")
    ],
) -> None:
    """Make a ready nbgrader course, with one assignment for each chapter, and a zip for learners without solutions."""
    with plain_errors():
        from coursekit.grading.desk.grade_command import release_course

        release_course(folder)


@app.command(
    epilog=example("coursekit pack stick --platform linux-x86_64 --python 3.11 --python 3.12"), rich_help_panel=TEACH
)
def pack(
    folder: Annotated[Path, typer.Argument(help="A folder that does not exist yet, or one that was packed before.")],
    platform: Annotated[
        list[str] | None,
        typer.Option(help="linux-x86_64 (also for WSL), linux-aarch64 or macos-arm64; repeatable."),
    ] = None,
    python: Annotated[list[str] | None, typer.Option(help="3.11, 3.12 or 3.13; repeatable.")] = None,
    course: Annotated[
        Path | None, typer.Option(help="A course that was released, for a class with its own dates.")
    ] = None,
) -> None:
    """Fill a folder for a USB stick, from which laptops install the course without a network."""
    with plain_errors():
        from coursekit.grading.desk.pack import pack as fill

        fill(folder, platform or ["linux-x86_64"], python or ["3.11"], course)


@app.command(epilog=example("coursekit room"), rich_help_panel=TEACH)
def room(
    port: Annotated[int, typer.Option(help="The port that learners' machines connect to.")] = 8765,
    board: Annotated[int, typer.Option(help="The port of the board, on this machine alone.")] = 8766,
    keep: Annotated[
        Path | None,
        typer.Option(help="A file that keeps what the room was told; without it, all is deleted at the end."),
    ] = None,
    handins: Annotated[
        Path | None, typer.Option(help="The folder for hand-ins, as course/submitted; without it, none are taken.")
    ] = None,
) -> None:
    """Open a room for a workshop: learners join with an address and a code, and you see live who is where and who is stuck."""
    with plain_errors():
        from coursekit.room.room_command import open_room

        open_room(port, board, keep, handins)


@app.command("join", epilog=example('coursekit join "192.168.1.7 QUIET-FALCON"'), rich_help_panel=LEARN)
def join_(
    room: Annotated[str, typer.Argument(help="The address and the code on your instructor's screen, in quotes.")],
    nickname: Annotated[str, typer.Option(help="What the board calls you.")] = "",
) -> None:
    """Join your instructor's room, for all notebooks on this machine."""
    from coursekit.learner.workshop.attendance import join

    print(join(room, nickname))


@app.command("handin", epilog=example("coursekit handin work/ch01_tasks.ipynb"), rich_help_panel=LEARN)
def handin_(
    notebook: Annotated[str, typer.Argument(help="The notebook's file.")],
    student: Annotated[str, typer.Option(help="Your name in the class; by default your nickname.")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Hand in a notebook to the instructor whose room you have joined; a receipt comes back."""
    from coursekit.learner.workshop.hand_in import hand_in

    print(hand_in(notebook, student=student, sure=yes))


@app.command("leave", epilog=example("coursekit leave"), rich_help_panel=LEARN)
def leave_() -> None:
    """Leave the room: nothing is sent from then on."""
    from coursekit.learner.workshop.attendance import leave

    print(leave())


capstone = typer.Typer(
    help="Have a policy learn within a budget of CPU seconds, and see where it stands.", no_args_is_help=True
)
app.add_typer(capstone, name="capstone")


@capstone.command("run", epilog=example("coursekit capstone run my_entry.py --seconds 60"))
def capstone_run(
    entry: Annotated[Path, typer.Argument(help="A Python file with train(make_envs, budget), which returns a policy.")],
    name: Annotated[str, typer.Option(help="What the leaderboard calls it; without it the file's name.")] = "",
    seconds: Annotated[
        float, typer.Option(help="CPU seconds to learn with, those of all its processes; seconds with --by-clock.")
    ] = 60,
    seed: Annotated[
        int | None, typer.Option(min=0, help="The seed of the judge's episodes; secret and new by default.")
    ] = None,
    by_clock: Annotated[
        bool,
        typer.Option("--by-clock", help="The other league: seconds by the clock, a slow simulator, a killed actor."),
    ] = False,
    no_sandbox: Annotated[
        bool, typer.Option("--no-sandbox", help="Run the entry unprotected (it is yours, or you trust it).")
    ] = False,
) -> None:
    """Run an entry: it learns in a sandbox, its policy is judged from outside, its score goes on the leaderboard."""
    with plain_errors():
        from coursekit.capstone.capstone_command import run_entry
        from coursekit.capstone.rules import Rules

        run_entry(entry, name, Rules(seconds=seconds, by_clock=by_clock, seed=seed, isolated=not no_sandbox))


@capstone.command("board", epilog=example("coursekit capstone board --open"))
def capstone_board(
    in_browser: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
) -> None:
    """Write the leaderboard as a page with the learning curves."""
    with plain_errors():
        from coursekit.capstone.capstone_command import show_board

        show_board(in_browser)


@capstone.command("class", epilog=example("coursekit capstone class entries --seconds 60"))
def capstone_class(
    folder: Annotated[Path, typer.Argument(help="A folder with the class's entries, a Python file for each.")],
    seconds: Annotated[float, typer.Option(help="The budget of each, as for `run`.")] = 60,
    by_clock: Annotated[bool, typer.Option("--by-clock", help="The other league, as for `run`.")] = False,
    no_sandbox: Annotated[bool, typer.Option("--no-sandbox", help="Run entries that you trust unprotected.")] = False,
    in_browser: Annotated[bool, typer.Option("--open", help="Open the board in a browser.")] = False,
) -> None:
    """Run a class's entries in one world, and write their board, with learning curves and films of their best episodes."""
    with plain_errors():
        from coursekit.capstone.capstone_command import class_board
        from coursekit.capstone.rules import Rules

        class_board(folder, Rules(seconds=seconds, by_clock=by_clock, isolated=not no_sandbox), in_browser)


if __name__ == "__main__":
    app()
