"""`coursekit similar`: pairs of hand-ins with much in common, side by side, for a person to read. It is never a verdict.

Code is compared as runs of `RUN` tokens, in which names of the students' own count as one, so that renaming hides nothing. What was
handed out, our own solution (which the course shows after three attempts) and what many have alike are left out beforehand.
"""

import builtins
import html
import keyword
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from coursekit.basics.cards import plural
from coursekit.basics.html_page import html_page
from coursekit.grading.class_run import Run
from coursekit.grading.grading_plan import Master
from coursekit.grading.submission import NotGradable, Submission, read

RUN = 10  # tokens
LEAST = 12  # runs that a pair must share to be shown
MANY = 0.1  # the fraction of the class from which on a run is everybody's, once more than FEW have it
FEW = 4
PAIRS = 50
LINES = 400  # of a hand-in that are shown
# of a hand-in that are compared: five times the longest chapter; runs take a hundred times their memory
CHARACTERS = 100_000
TOKEN = re.compile(r"#[^\n]*|\w+|[^\w\s]")
TITLE = "Similar pairs"
INTRODUCTION = f"""<h1>{TITLE}</h1>
<p>Read these yourself: two students may well write the same code after the same lecture, or from the same documentation.
Marked lines are the same in both, apart from names and comments. What you handed out, our own solution, and what many students have in
common do not count. The percentage says how much of the shorter hand-in's own code the other one also has.</p>
"""
Shingle = tuple[str, ...]


@dataclass(frozen=True)
class Work:
    """What one student handed in: the lines of code, and the runs of tokens with the lines on which each stands."""

    student: str
    lines: list[str]
    runs: dict[Shingle, set[int]]


@dataclass(frozen=True)
class Pair:
    """Two hand-ins and the runs that both have."""

    one: Work
    other: Work
    shared: frozenset[Shingle]

    @property
    def fraction(self) -> float:
        """Return how much of the shorter one is in the other."""
        return len(self.shared) / min(len(self.one.runs), len(self.other.runs))


def similar(course: Path) -> Path:
    """Write similar.html into a course's folder and return its path; raises CommandError where nothing has been graded."""
    office = Run.of(course).office()
    by_notebook = defaultdict[tuple[str, str], list[Submission]](list)
    for item in office.handed_in:
        by_notebook[item.assignment, item.notebook].append(item)
    parts = [INTRODUCTION]
    for key in sorted(by_notebook.keys() & office.masters.keys()):
        pairs = pairs_of(office.masters[key], by_notebook[key])
        parts.append(f"<h2>{html.escape('/'.join(dict.fromkeys(key)))}: {plural(len(pairs), 'pair')}</h2>")
        parts += map(_shown, pairs)
    path = course / "similar.html"
    path.write_text(html_page(TITLE, "\n".join(parts), "similar"), encoding="utf-8")
    return path


def pairs_of(master: Master, items: Iterable[Submission]) -> list[Pair]:
    """Return the pairs of one notebook that have most in common, at most PAIRS."""
    ours = [cell.source for cell in master.notebook.cells if cell.cell_type == "code"]
    used = {name for source in ours for name in re.findall(r"\w+(?=[.(])|(?<=\.)\w+", source)}  # ray, get, check, …
    known = used | set(keyword.kwlist) | set(dir(builtins))
    given = set(_runs(ours, known))
    works = [work for item in items if (work := _work(item, known))]
    owners = Counter(run for work in works for run in work.runs)
    common = {run for run, count in owners.items() if count > max(FEW, MANY * len(works))}
    left_out = given | common
    own = [
        replace(work, runs={run: lines for run, lines in work.runs.items() if run not in left_out}) for work in works
    ]
    shared = defaultdict[tuple[int, int], set[Shingle]](set)
    having = defaultdict[Shingle, list[int]](list)
    for place, work in enumerate(own):
        for run in work.runs:
            for other in having[run]:
                shared[other, place].add(run)
            having[run].append(place)
    pairs = [Pair(own[a], own[b], frozenset(runs)) for (a, b), runs in shared.items() if len(runs) >= LEAST]
    return sorted(pairs, key=lambda pair: (-pair.fraction, -len(pair.shared), pair.one.student))[:PAIRS]


def _work(item: Submission, known: set[str]) -> Work | None:
    """Return what a student wrote, None where it cannot be read."""
    try:
        cells = read(item.path).cells if not item.problem else []
    except NotGradable:
        return None
    code = _as_much_as_is_compared([cell.source for cell in cells if cell.cell_type == "code" and cell.source.strip()])
    lines = [line for source in code for line in source.splitlines()]
    return Work(item.student, lines, _runs(code, known)) if lines else None


def _as_much_as_is_compared(code: list[str]) -> list[str]:
    """Return the shortest cells in their order, up to a limit: data that is long stands in no answer's way."""
    kept, left = set[int](), CHARACTERS
    for place in sorted(range(len(code)), key=lambda place: len(code[place])):
        if len(code[place]) <= left:
            kept.add(place)
            left -= len(code[place])
    return [code[place] for place in sorted(kept)]


def _runs(cells: list[str], known: set[str]) -> dict[Shingle, set[int]]:
    """Return the runs of tokens, none of them over two cells, each with the numbers of its lines in all cells."""
    found: dict[Shingle, set[int]] = {}
    above = 0
    for source in cells:
        lines = source.splitlines()
        tokens = list(_tokens(lines, above, known))
        above += len(lines)
        for place in range(len(tokens) - RUN + 1):
            run = tokens[place : place + RUN]
            found.setdefault(tuple(token for token, _ in run), set()).update(number for _, number in run)
    return found


def _tokens(lines: list[str], above: int, known: set[str]) -> Iterator[tuple[str, int]]:
    """Yield tokens with the numbers of their lines: no comments, and one name for all names of a student's own."""
    for number, line in enumerate(lines, above):
        for token in TOKEN.findall(line):
            if not token.startswith("#"):
                yield token if token in known or not token.isidentifier() else "name", number


def _shown(pair: Pair) -> str:
    names = f"{html.escape(pair.one.student)} and {html.escape(pair.other.student)}"
    sides = "".join(_side(work, pair.shared) for work in (pair.one, pair.other))
    return (
        f"<details><summary><b>{names}</b>: {pair.fraction:.0%} <span class=small>({len(pair.shared)} shared runs of {RUN} words and signs)"
        f"</span></summary><div class=pair>{sides}</div></details>"
    )


def _side(work: Work, shared: frozenset[Shingle]) -> str:
    """Return the lines around those that both have, these marked."""
    alike = {number for run in shared for number in work.runs[run]}
    near = sorted({number + more for number in alike for more in (-1, 0, 1)} & set(range(len(work.lines))))[:LINES]
    shown = [f"<mark>{html.escape(work.lines[n])}</mark>" if n in alike else html.escape(work.lines[n]) for n in near]
    return f"<pre><b>{html.escape(work.student)}</b>\n{chr(10).join(shown)}</pre>"
