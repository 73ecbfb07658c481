"""One sentence a line: where a chapter or a page of the docs puts two on one."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt

from coursekit.basics.course_files import found
from coursekit.basics.paths import ROOT

CELL = re.compile(r'^# %% \[markdown\][^\n]*\nr"""\n(.*?)^"""', re.MULTILINE | re.DOTALL)
ONE_WORD = re.compile(r"`[^`\n]*`|\$[^$\n]*\$|!?\[[^]\n]*\]\([^)\n]*\)|\A\*\*.*?\*\*")  # the last: a bold lead-in
ABBREVIATIONS = "".join(rf"(?<!\b{short})" for short in (r"e\.g", r"i\.e", "al", "vs", "cf", "Fig", "[A-Z]"))
TWO = re.compile(rf"{ABBREVIATIONS}[.?!…][\"”’')\]*_]*\s+[\"“‘'(\[*_]*[A-Z0-9]")


def files(folder: str, ending: str, root: Path = ROOT) -> list[Path]:
    """Return the course's files in a folder with this ending: without hidden ones, such as JupyterLab's checkpoints."""
    return sorted(root / name for name in found(root, [folder]) if name.endswith(ending))


def crowded_lines(path: Path) -> list[str]:
    """Return a remark on each line that holds two sentences."""
    return [
        f"{path.name}, line {above + number} holds two sentences: put each on a line of its own."
        for above, text in _texts(path)
        for number in two_sentences(text)
    ]


def _texts(path: Path) -> list[tuple[int, str]]:
    """Return each Markdown text of a file with the number of lines above it."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return [(0, text)]
    return [(text.count("\n", 0, match.start(1)), match[1]) for match in CELL.finditer(text)]


def two_sentences(markdown: str) -> Iterator[int]:
    """Yield the number of each line, from 1, on which a second sentence begins; headings, tables and code may."""
    for opening, token in pairwise(MarkdownIt().enable("table").parse(markdown)):
        if opening.type == "paragraph_open":
            for number, line in enumerate(ONE_WORD.sub("Word", token.content).split("\n"), token.map[0] + 1):
                if TWO.search(line):
                    yield number
