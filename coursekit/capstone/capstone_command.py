"""What `coursekit capstone` shows."""

import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from coursekit.basics.cards import plural
from coursekit.basics.errors import CommandError
from coursekit.capstone import leaderboard, referee
from coursekit.capstone.entry import Entry, EntryFailed, read_entry
from coursekit.capstone.entry_run import Ran, run
from coursekit.capstone.leaderboard_page import write_leaderboard
from coursekit.capstone.leagues import run_class
from coursekit.capstone.rules import Rules
from coursekit.sandbox.nursery import NurseryFailed, available

PRINTED = 30  # lines of an entry's own output that are shown, the last ones
NO_SANDBOX = "[red]Without a sandbox, the entry can read, change, and delete whatever you can.[/red] Run only what you wrote or trust."


def run_entry(path: Path, name: str, rules: Rules) -> None:
    """Run an entry and say what came of it; raises CommandError."""
    entry = read_entry(path, name)
    console = _ready(rules)
    try:
        with _progress(console, entry, rules) as tick:
            ran = run(entry, rules, tick)
    except EntryFailed as failed:
        raise CommandError(f"{failed}{_reported(failed)}") from None
    except NurseryFailed as failed:
        raise CommandError(str(failed)) from None
    leaderboard.add(ran.row)
    _show(ran)


def _ready(rules: Rules) -> Console:
    """Return a console to tell of runs by these rules, once it is certain that they can take place; raises CommandError."""
    if not 1 <= rules.seconds <= 3600:
        raise CommandError(f"A budget of {rules.seconds:g} seconds isn't possible: give --seconds from 1 to 3600.")
    if rules.isolated and (reason := available()):
        raise CommandError(
            f"The sandbox can't be created here: {reason}. Use Linux; or, for code that you trust, add --no-sandbox."
        )
    console = Console(stderr=True)
    if not rules.isolated:
        console.print(NO_SANDBOX, soft_wrap=True)
    return console


def class_leaderboard(folder: Path, rules: Rules, in_browser: bool) -> None:
    """Run a class's entries and name their leaderboard; raises CommandError."""
    console = _ready(rules)
    try:
        path = run_class(folder, rules, lambda line: console.print(line, soft_wrap=True, markup=False, highlight=False))
    except NurseryFailed as failed:
        raise CommandError(str(failed)) from None
    print(f"wrote {path}")
    _open(path, in_browser)


@contextmanager
def _progress(console: Console, entry: Entry, rules: Rules) -> Iterator:
    """Give a function that shows how much of the budget is spent."""
    spent = TextColumn("{task.completed:.0f} of {task.total:.0f} CPU s")
    with Progress("{task.description}", BarColumn(), spent, console=console, transient=True) as progress:
        bar = progress.add_task(f"{entry.file} is training", total=rules.seconds)
        yield lambda spent: progress.update(bar, completed=min(spent, rules.seconds))


def _reported(failed: EntryFailed) -> str:
    """Return in words the curve that an entry had reported when it failed."""
    if not failed.curve:
        return "\nIt had reported no test: budget.report(mean_return) adds a point to the learning curve."
    seconds, value = failed.curve[-1]
    best = max(value for _, value in failed.curve)
    return f"\nIt had reported {plural(len(failed.curve), 'test')}. The last one had a mean return of {value:.1f} at {seconds:.1f} CPU seconds, and the best one had {best:.1f}."


def _show(ran: Ran) -> None:
    """Print the scores, what they cost, and the rank."""
    row, lines = ran.row, ran.output.splitlines()
    if lines:
        print(f"What it printed{' (its last lines)' if len(lines) > PRINTED else ''}:")
        print("\n".join(f"  {line}" for line in lines[-PRINTED:]))
    ranked = leaderboard.leagues(leaderboard.rows())[row.league]
    ranks = leaderboard.ranks(ranked)
    rank = ranks[ranked.index(row)]
    place = f"{leaderboard.spoken(rank, ranks)} of {len(ranked)}" if rank else "none: " + _unranked(row)
    race = f"{row.budget:g} {'seconds of wall-clock time' if row.by_clock else 'CPU seconds'}"
    clock = f"{row.wall:.1f} s of wall-clock time; the budget is {row.budget:g}; {_points(row)}"
    why = "over the baseline, episode by episode, with its 95% confidence interval; it decides the rank"
    for label, value, note in (
        ("lead", row.lead.signed(), why),
        ("score", str(row.score), f"mean return of {referee.EPISODES} new episodes"),
        ("informed", str(row.informed), "the same episodes: the rule that knows all prices"),
        ("baseline", str(row.baseline), "the same episodes"),
        ("random", str(row.chance), "the same episodes"),
        ("trained in", f"{row.cpu:.1f} CPU s", clock),
        ("rank", place, f"with {race} on version {row.version} of the warehouse"),
    ):
        print(f"{label:11}{value:18}{note}")
    print("The leaderboard: coursekit capstone board --open")


def _unranked(row: leaderboard.Row) -> str:
    if row.chosen:
        return "with a chosen seed, the episodes may be known"
    return "the judge found no actor to kill; keep Ray's actors busy until the budget is used up"


def _points(row: leaderboard.Row) -> str:
    return (
        f"{len(row.curve)} points reported" if row.curve else "no curve: budget.report(mean_return) adds a point to it"
    )


def show_leaderboard(in_browser: bool) -> None:
    """Write the leaderboard's page, name it, and open it where that is wanted."""
    path = write_leaderboard()
    print(f"wrote {path} ({plural(len(leaderboard.rows()), 'run')})")
    _open(path, in_browser)


def _open(path: Path, in_browser: bool) -> None:
    if in_browser and not webbrowser.open(path.resolve().as_uri()):
        raise CommandError(f"No browser could be opened. Open {path} yourself.")
