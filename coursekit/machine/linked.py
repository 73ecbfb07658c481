"""What a translated copy of a chapter leads to: the course's diagrams in its language, written into work/de/ as they lie in the course."""

import posixpath
import re
from functools import partial
from pathlib import Path, PurePosixPath

from nbformat import NotebookNode

from coursekit.basics.files import write_whole
from coursekit.basics.translated_cells import in_language, in_picture
from coursekit.basics.translations import PAGES, SOURCE, Translations, translated

_LINK = re.compile(r"(?<=\]\()[^()\s#:]+(?=[#)])")
_WORK = "work"


def for_copy(cells: list[NotebookNode], chapter: str, language: str, root: Path) -> list[NotebookNode]:
    """Return cells of the course as the learner's copy of a chapter has them in a language."""
    shown = in_language(cells, chapter, language, root)
    if shown is cells:  # in English
        return cells
    lead = partial(_lead, language=language, root=root)
    return [
        NotebookNode(cell | {"source": _LINK.sub(lead, cell.source)}) if cell.cell_type == "markdown" else cell
        for cell in shown
    ]


def _lead(link: re.Match[str], language: str, root: Path) -> str:
    """Return where a link of a copy leads in a language."""
    target = posixpath.normpath(posixpath.join(_WORK, link[0]))
    return f"{language}/{target}" if _translations(target, language, root) else link[0]


def write(root: Path, language: str) -> None:
    """Write the diagrams into the learner's folder as far as they are translated; where they are there already, nothing changes."""
    for path in [] if language == SOURCE else sorted(root.glob("img/*.svg")):
        target = path.relative_to(root).as_posix()
        if say := _translations(target, language, root):
            text, place = in_picture(path.read_text(encoding="utf-8"), path.stem, say), root / _WORK / language / target
            if not place.exists() or place.read_text(encoding="utf-8") != text:
                place.parent.mkdir(parents=True, exist_ok=True)
                write_whole(place, text)


def _translations(target: str, language: str, root: Path) -> Translations | None:
    """Return the translations of a diagram, None where nothing of it is translated, and for anything else."""
    path = PurePosixPath(target)
    if path.parent.name != "img" or path.suffix != ".svg":
        return None
    of_chapter = (file.stem for file in root.glob(f"locale/{language}/{path.stem[:4]}_*.po"))
    say = translated(next(of_chapter, PAGES), language, root)
    return say if say.knows(f"picture {path.stem}") else None
