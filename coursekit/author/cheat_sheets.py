"""Cheat sheets: a page for each part of the course, from the *What you can do now* and the *Traps* of its chapters."""

import math
import re
from pathlib import Path

from nbconvert.filters import markdown2html

from coursekit.author.listings import Chapter, openings
from coursekit.basics.html_page import html_page
from coursekit.basics.paths import ROOT
from coursekit.judging.exercise import AuthorError

# The parts of the course: the letter, the topic, and the first chapter.
PARTS = (
    ("A", "Ray Core", 0),
    ("B", "Distributed RL by hand", 7),
    ("C", "RLlib", 11),
    ("D", "The ecosystem", 16),
    ("E", "Electives", 21),
)
END = re.compile(
    r"^## What you can do now\n(?P<can>.*?)^## Traps\n(?P<traps>.*?)^## Read on$", re.DOTALL | re.MULTILINE
)
LINK, MATH = re.compile(r"\[([^\]]+)\]\([^)]+\)"), re.compile(r"\$([^$]+)\$")
SIGNS = {r"\gamma ": "γ", "-": "−"}  # in the few formulas
AREA, LARGEST = 400_000, 10.0  # a page holds so many characters times their size in pt, squared; the largest size in pt


def cheat_sheets(root: Path = ROOT) -> dict[str, str]:
    """Return the pages as HTML, by the names of their files."""
    chapters = openings(root)
    begins = [first for *_, first in PARTS]
    return {
        f"part_{letter.lower()}.html": _page(f"Part {letter} · {topic}", chapters[first:after], root)
        for (letter, topic, first), after in zip(PARTS, [*begins[1:], len(chapters)], strict=True)
    }


def _page(title: str, chapters: list[Chapter], root: Path) -> str:
    """Return the page of a part; the less it says, the larger it is printed."""
    ends = [_end_of(root / f"chapters/{each.name}.py") for each in chapters]
    size = min(LARGEST, math.sqrt(AREA / sum(len(can + traps) for can, traps in ends)))
    sections = "".join(
        f"<section><h2>{each.number} · {each.title}</h2><div class=can>{_as_html(can)}</div><div class=traps>{_as_html(traps)}</div></section>"
        for each, (can, traps) in zip(chapters, ends, strict=True)
    )
    head = f"<h1>{title} <small>✔ what you can do now ⚠ traps</small></h1>"
    return html_page(title, f"{head}<main style='--size: {size:.1f}pt'>{sections}</main>", "cheat_sheet")


def _end_of(chapter: Path) -> tuple[str, str]:
    """Return what one can do after a chapter, and its traps, as Markdown."""
    found = END.search(chapter.read_text(encoding="utf-8"))
    if found is None:
        raise AuthorError(
            f"chapters/{chapter.name}: its last sections aren't *What you can do now*, *Traps*, and *Read on*, of which the cheat "
            "sheets are made. Name them so, in this order."
        )
    return found["can"], found["traps"]


def _as_html(markdown: str) -> str:
    """Return a list as HTML, without links, and with its few formulas as text."""
    html: str = markdown2html(MATH.sub(_formula, LINK.sub(r"\1", markdown)))
    return html


def _formula(found: re.Match[str]) -> str:
    return re.sub("|".join(map(re.escape, SIGNS)), lambda sign: SIGNS[sign[0]], found[1])
