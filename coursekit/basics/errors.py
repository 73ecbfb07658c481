"""What the commands share: errors in plain words, and the names of the chapters."""

import difflib
import re
from pathlib import Path

from coursekit.basics.paths import ROOT

NAME = re.compile(r"ch\d\d_[a-z][a-z0-9_]*")


class CommandError(Exception):
    """A message for the person at the command line: the thing, the reason, the next step."""


def chapter_names(root: Path = ROOT) -> list[str]:
    """Return the names of all chapters, in order."""
    return sorted(path.stem for path in (root / "chapters").glob("ch*.py"))


def existing_chapter(name: str, root: Path = ROOT) -> str:
    """Return the name; raises CommandError that lists the near ones when there is no such chapter."""
    names = chapter_names(root)
    if name in names:
        return name
    near = [other for other in names if other.startswith(name)] or difflib.get_close_matches(
        name, names, n=3, cutoff=0.6
    )
    hint = f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(names)}."
    raise CommandError(f"There is no chapter {name!r}. {hint}")
