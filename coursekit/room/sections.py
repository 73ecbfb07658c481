"""Sections that are open to latecomers: the answers to all that is asked before them, and to nothing else."""

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import nbformat

from coursekit.basics.errors import chapter_names
from coursekit.basics.paths import SOLUTIONS
from coursekit.basics.readers_language import told_markdown
from coursekit.judging import exercise
from coursekit.learner.shell import solution_code

_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Section:
    """A section of a chapter, with the exercises that are asked before it."""

    title: str
    before: tuple[str, ...]


class Closed(Exception):
    """The section is not open; the message says which one is."""


class Sections:
    """The section of each chapter that the instructor has opened last."""

    def __init__(self) -> None:
        self.open: dict[str, str] = {}

    def do(self, chapter: str, title: str) -> None:
        """Open a section, or close the chapter for no title; raises ValueError where there is no such one, or no answers."""
        if chapter not in chapter_names():
            raise ValueError("there is no such chapter")
        if not title:
            self.open.pop(chapter, None)
            return
        if not (SOLUTIONS / f"{chapter}.ipynb").exists():
            raise ValueError("this copy of the course has no solutions/: open the room from one that has")
        if title not in titles(chapter):
            raise ValueError("there is no such section")
        self.open[chapter] = title

    def answers(self, chapter: str, wanted: str) -> tuple[str, dict[str, str]]:
        """Return a section's title and the code of each exercise before it; the open one for "". Raises Closed, or ValueError."""
        if chapter not in self.open:
            raise Closed("your instructor has opened no section of this chapter yet")
        names = titles(chapter)
        furthest = names.index(self.open[chapter])
        place = _place(names, wanted) if wanted else furthest
        if place > furthest:
            raise Closed(f'"{names[place]}" is not open yet; your instructor has opened "{names[furthest]}"')
        before = _sections(chapter)[place].before
        return names[place], {name: solution_code(chapter, name) for name in before}

    def view(self) -> list[dict[str, str]]:
        """Return what is open."""
        return [
            {"chapter": chapter, "title": title, "shown": told_title(chapter, title)}
            for chapter, title in self.open.items()
        ]


def all_sections() -> list[dict[str, Any]]:
    """Return the sections of every chapter whose answers are here, in order."""
    there = [chapter for chapter in chapter_names() if (SOLUTIONS / f"{chapter}.ipynb").exists()]
    return [
        {
            "chapter": chapter,
            "titles": titles(chapter),
            "shown": [told_title(chapter, title) for title in titles(chapter)],
        }
        for chapter in there
    ]


def told_title(chapter: str, title: str) -> str:
    """Return the heading of a section as the instructor reads it."""
    return told_markdown(title, chapter, "heading")


def titles(chapter: str) -> list[str]:
    """Return the headings of a chapter's sections, in order."""
    return [section.title for section in _sections(chapter)]


@cache
def _sections(chapter: str) -> tuple[Section, ...]:
    found: list[Section] = []
    before: list[str] = []
    items = exercise.load(chapter)
    for cell in nbformat.read(SOLUTIONS / f"{chapter}.ipynb", as_version=4).cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id", "").removeprefix("answer_")
        if cell.cell_type == "markdown":
            found += [Section(title, tuple(before)) for title in _HEADING.findall(cell.source)]
        elif name in items and items[name].kind == "exercise" and name not in before:
            before.append(name)
    return tuple(found)


def _place(names: list[str], wanted: str) -> int:
    """Return which section is meant: the one whose title holds these words; raises ValueError where none does, or several do."""
    plain = [_plain(name) for name in names]
    places = [place for place, name in enumerate(plain) if _plain(wanted) in name]
    if _plain(wanted) in plain:
        return plain.index(_plain(wanted))
    if len(places) != 1:
        which = "no section" if not places else "more than one section"
        raise ValueError(f"{which} of this chapter has these words in its heading")
    return places[0]


def _plain(title: str) -> str:
    return " ".join(title.replace("`", "").casefold().split())
