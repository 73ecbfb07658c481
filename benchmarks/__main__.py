"""The figures of docs/benchmarks.md: each command runs at its full size, and its rows go there with machine and date.

    python benchmarks              all of them, for some hours
    python benchmarks grading      those of one file

Each also runs by itself and prints its rows: `python benchmarks/grading.py plain --students 20`. Run them on a machine that does
nothing else, and commit what they write.
"""

import re
import subprocess
import sys
import time
from pathlib import Path

from coursekit.author.recordings import machine

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/benchmarks.md"
COMMANDS = [
    "cartpole.py",
    "grading.py plain --students 100",
    "grading.py growth",
    "grading.py ch01_tasks --students 20",
    "grading.py ch01_tasks --students 300 --three-nodes",
    "grading.py ch12_env_runners --students 4",
    "room.py 30",
    "room.py 300 --handins",
    "room.py --check-cost",
    "seeds.py ch10_actor_learner solve_cartpole",
    "setup.py",
    "suite.py check",
    "suite.py test-fast",
    "suite.py test name=ch05_faults",
    "suite.py test",
    "suite.py test-all",
]
MARKED = re.compile(r"(<!-- begin benchmarks .*\|---\|\n)(.*)(\n<!-- end benchmarks -->)", re.DOTALL)
FIGURE = re.compile(r"^\| .+ \| .+ \|$")


def measured(command: str) -> list[str]:
    """Run a benchmark, show what it prints, and return its rows of the page; raises SystemExit where it fails."""
    print(f"\n== python benchmarks/{command}", flush=True)
    file, *arguments = command.split()
    process = subprocess.Popen(
        [sys.executable, f"benchmarks/{file}", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    found = []
    for line in process.stdout or ():
        print(line, end="", flush=True)
        if FIGURE.match(line):
            found.append(f"{line.strip()} `{command}` | {machine()} | {time.strftime('%Y-%m-%d')} |")
    if process.wait() or not found:
        sys.exit(f"`python benchmarks/{command}` gave no figure, so the page keeps what it had for it.")
    return found


def with_rows(page: str, command: str, rows: list[str]) -> str:
    """Return the page with these rows in place of those that the command wrote before, in the order of COMMANDS."""

    def filled(marked: re.Match[str]) -> str:
        kept = [row for row in marked[2].splitlines() if row and command_of(row) != command]
        return marked[1] + "".join(f"{row}\n" for row in sorted([*kept, *rows], key=place)) + marked[3]

    return MARKED.sub(filled, page)


def command_of(row: str) -> str:
    """Return the command of COMMANDS that wrote a row."""
    return row.split(" | ")[2].strip("`")


def place(row: str) -> int:
    """Return a row's place in the table."""
    return COMMANDS.index(command_of(row))


def main(names: list[str]) -> None:
    """Measure with the files of these names, or with all of them, and write each figure as soon as it is there."""
    files = dict.fromkeys(command.partition(".")[0] for command in COMMANDS)
    if unknown := [name for name in names if name not in files]:
        sys.exit(f"There is no benchmark {unknown[0]!r}. Choose from {', '.join(files)}.")
    for command in COMMANDS:
        if command.partition(".")[0] in (names or files):
            rows = measured(command)
            PAGE.write_text(with_rows(PAGE.read_text(encoding="utf-8"), command, rows), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
