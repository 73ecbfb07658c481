"""What a translated copy of a chapter leads to: the course's diagrams and pages in its language, written into work/de/ as they lie in the course."""

import posixpath
import re
from functools import partial
from pathlib import Path, PurePosixPath

from nbformat import NotebookNode

from coursekit.basics.files import write_whole
from coursekit.basics.markdown_blocks import blocks, slugs
from coursekit.basics.translated_cells import MARK, in_language, in_picture
from coursekit.basics.translations import PAGES, SOURCE, Translations, flowing, translated

_LINK = re.compile(r"(?<=\]\()[^()\s#:]+(?=[#)])")
_WORK = "work"


def for_copy(cells: list[NotebookNode], chapter: str, language: str, root: Path) -> list[NotebookNode]:
    """Return cells of the course as the learner's copy of a chapter has them in a language."""
    shown = in_language(cells, chapter, language, root)
    if shown is cells:  # in English
        return cells
    lead = partial(_lead, source=_WORK, place=_WORK, language=language, root=root)
    return [
        NotebookNode(cell | {"source": _LINK.sub(lead, cell.source)}) if cell.cell_type == "markdown" else cell
        for cell in shown
    ]


def write(root: Path, language: str) -> None:
    """Write what is translated into the learner's folder; where it is there already, nothing changes."""
    for path in [] if language == SOURCE else sorted([*root.glob("img/*.svg"), *root.glob("docs/*.md")]):
        target = path.relative_to(root).as_posix()
        if say := _translations(target, language, root):
            text, place = path.read_text(encoding="utf-8"), root / _WORK / language / target
            said = in_picture(text, path.stem, say) if path.suffix == ".svg" else _page(text, target, say, root)
            if not place.exists() or place.read_text(encoding="utf-8") != said:
                place.parent.mkdir(parents=True, exist_ok=True)
                write_whole(place, said)


def _page(english: str, target: str, say: Translations, root: Path) -> str:
    """Return a page in another language, with the places to which links lead by their English names."""
    places, lines = iter(slugs(english)), list[str]()
    for block in blocks(flowing(say.markdown(english, target, MARK))):
        if block.first.startswith("#"):
            lines += [f'<a id="{next(places)}"></a>', ""]
        lines.append(block.with_text(block.text))
    folder = posixpath.dirname(target)
    lead = partial(_lead, source=folder, place=f"{_WORK}/{say.language}/{folder}", language=say.language, root=root)
    return _LINK.sub(lead, "\n".join(lines))


def _lead(link: re.Match[str], source: str, place: str, language: str, root: Path) -> str:
    """Return where a link leads that stands in the folder `source` of the course, when it stands in another folder, `place`."""
    target = posixpath.normpath(posixpath.join(source, link[0]))
    if _translations(target, language, root):
        return posixpath.relpath(f"{_WORK}/{language}/{target}", place)
    if source == place:
        return link[0]
    return posixpath.relpath(re.sub("^notebooks/", f"{_WORK}/", target), place)


def _translations(target: str, language: str, root: Path) -> Translations | None:
    """Return the translations of a diagram or a page, None where nothing of it is translated, and for anything else."""
    path = PurePosixPath(target)
    name, context = PAGES, target
    if path.suffix == ".svg":
        of_chapter = (file.stem for file in root.glob(f"locale/{language}/{path.stem[:4]}_*.po"))
        name, context = next(of_chapter, PAGES), f"picture {path.stem}"
    if target not in (f"img/{path.name}", f"docs/{path.name}"):
        return None
    say = translated(name, language, root)
    return say if say.knows(context) else None
