"""The `coursekit` command: what each command does in detail lies in the module that it calls."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

app = typer.Typer(
    help="Work through the course, build it, and look after it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@contextmanager
def plain_errors() -> Iterator[None]:
    """Say a mistake of the user in plain lines on stderr, with exit code 1; our own keep their traceback."""
    from coursekit.course import CommandError
    from coursekit.exercise import AuthorError

    try:
        yield
    except (AuthorError, CommandError) as error:
        typer.secho(str(error), err=True, fg="red")
        raise typer.Exit(1) from None


def example(text: str) -> str:
    """Return the line below a command's help."""
    return f"Example: [bold]{text}[/bold]"


@app.command(epilog=example("coursekit build --check"))
def build(
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail when a notebook is stale.")] = False,
) -> None:
    """Write notebooks/ and solutions/ from chapters/."""
    with plain_errors():
        from coursekit import build as builder
        from coursekit.course import CommandError
        from coursekit.paths import ROOT

        built = builder.build()
        outdated = builder.stale(built) if check else builder.write(built)
        for path in outdated:
            print(path.relative_to(ROOT))
        if check and outdated:
            raise CommandError("These notebooks are stale. Run `make build` and commit the result.")
        print(f"{len(built)} notebooks, {'all fresh' if check else f'{len(outdated)} changed'}.")


@app.command(epilog=example("coursekit lab --port 8890 -- --ip=0.0.0.0"))
def lab(
    port: Annotated[int | None, typer.Option(help="The port; without it 8888 or the next free one.")] = None,
    jupyter_arguments: Annotated[list[str] | None, typer.Argument(help="Handed on to jupyter lab, after `--`.")] = None,
) -> None:
    """Run the preflight, then open the course in JupyterLab."""
    with plain_errors():
        from coursekit import doctor, facts
        from coursekit import lab as jupyter

        found = facts.gather()
        print(doctor.examine(found).text(only_what_matters=True))
        jupyter.start(found, port, jupyter_arguments or [])


@app.command(epilog=example("coursekit doctor"))
def doctor() -> None:
    """Check this machine: Python, versions, cores, memory, ports. Exit code 1 means: not ready."""
    from coursekit.doctor import examine

    report = examine()
    print(report)
    raise typer.Exit(0 if report.ready else 1)


@app.command(epilog=example("coursekit progress"))
def progress() -> None:
    """Show the points of every chapter, earned and possible."""
    from coursekit.progress import progress as overview

    print(overview())


@app.command(epilog=example("coursekit chapter ch21_topic"))
def chapter(name: Annotated[str, typer.Argument(help="Its name: ch, two digits, a topic.")]) -> None:
    """Start a new chapter from the templates."""
    with plain_errors():
        from coursekit.paths import ROOT
        from coursekit.scaffold import new_chapter

        for path in new_chapter(name):
            print(f"wrote {path.relative_to(ROOT)}")
        print(
            f"Next:\n"
            f"  1. Write the chapter and its exercises in these files; `make build` shows you the notebook.\n"
            f"  2. Write right and wrong answers in tests/answers/{name}.py; `make test` runs them all.\n"
            f"  3. Commit these files together with notebooks/{name}.ipynb and solutions/{name}.ipynb."
        )


@app.command(epilog=example("coursekit slides ch01_tasks"))
def slides(name: Annotated[str, typer.Argument(help="The chapter's name.")]) -> None:
    """Turn a chapter into slides with speaker notes: one HTML file that opens without a network."""
    with plain_errors():
        from coursekit.paths import ROOT
        from coursekit.slides import write_slides

        path = write_slides(name).relative_to(ROOT)
        print(f"wrote {path} (open it in a browser; the key S shows the speaker notes)")


if __name__ == "__main__":
    app()
