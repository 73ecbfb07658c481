"""A new chapter from the templates: six files, with its name where they say CHAPTER and its number where they say NN."""

import re
from pathlib import Path

from coursekit.course import NAME, CommandError, chapter_names
from coursekit.paths import ROOT

FOLDERS = {
    "chapters": ".py",
    "coursekit/exercises": ".py",
    "coursekit/given": ".py",
    "tests/answers": ".py",
    "img": ".svg",
    "docs/run_sheets": ".md",
}


def new_chapter(name: str, root: Path = ROOT) -> list[Path]:
    """Write the files of a new chapter and return their paths; raises CommandError before it writes any."""
    _must_be_new(name, root)
    texts = {}
    for folder, ending in FOLDERS.items():
        template = root / folder / f"_template{ending}"
        text = template.read_text(encoding="utf-8").replace("CHAPTER", name).replace("NN", str(int(name[2:4])))
        texts[root / folder / f"{name}{ending}"] = text
    if taken := [path for path in texts if path.exists()]:
        raise CommandError(f"{taken[0].relative_to(root)} exists already. Delete it, or choose another name.")
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    return list(texts)


def _must_be_new(name: str, root: Path) -> None:
    names = chapter_names(root)
    numbers = {int(match[1]) for other in names if (match := re.match(r"ch(\d\d)_", other))}
    free = max(numbers, default=-1) + 1
    if not NAME.fullmatch(name):
        good = f"ch{free:02}_topic"
        raise CommandError(
            f"{name!r} is not a chapter's name, which is ch, two digits, and a topic in lower case. Try {good}"
        )
    same_number = [other for other in names if other[:4] == name[:4]]
    if same_number:
        raise CommandError(
            f"The number {name[:4]} is taken by {same_number[0]}. The next free name: ch{free:02}{name[4:]}"
        )
