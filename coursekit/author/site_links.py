"""Links on a page in another language: to its own translated headings, and to the English pages of which it has no translation.

While Sphinx works, an English page is named by ENGLISH and its path; `lead_to_english` replaces that when the pages are there.
"""

import os
import re
from functools import partial
from pathlib import Path

import nbformat

from coursekit.basics.markdown_blocks import slugs

ENGLISH = "en:///"
_LINK = re.compile(r"(?<=\]\()(?P<path>[^()\s#:]*)(?:#(?P<place>[^()\s]+))?(?=\))")
_TOCTREE = re.compile(r"^```\{toctree\}\n(?:.*\n)*?```$", re.MULTILINE)
_PAGES = (".md", ".ipynb")


def lead_on(folder: Path, english: Path) -> None:
    """Change the links on all pages in a folder, of which `english` has the originals and all those that are not translated."""
    index = (folder / "index.md").read_text(encoding="utf-8")
    index = _TOCTREE.sub(lambda tree: _entries(tree[0], folder, english), index)
    (folder / "index.md").write_text(index, encoding="utf-8")
    texts = {path.relative_to(english): _text(path) for path in english.rglob("*") if path.suffix in _PAGES}
    places = {
        page: dict(zip(slugs(text), slugs(_text(folder / page)), strict=True)) if (folder / page).exists() else {}
        for page, text in texts.items()
    }

    for path in (path for path in folder.rglob("*") if path.suffix in _PAGES):
        link = partial(_link, page=path.relative_to(folder), folder=folder, places=places)
        if path.suffix == ".md":
            path.write_text(_LINK.sub(link, path.read_text(encoding="utf-8")), encoding="utf-8")
            continue
        notebook = nbformat.read(path, as_version=4)
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = _LINK.sub(link, cell.source)
        nbformat.write(notebook, path)


def _link(found: re.Match[str], page: Path, folder: Path, places: dict[Path, dict[str, str]]) -> str:
    """Return where a link on a page leads; `places` has the English pages, with the translated names of their headings."""
    path, place = found["path"], found["place"]
    target = Path(os.path.normpath(page.parent / path)) if path else page
    if target not in places:
        return found[0]
    if (folder / target).exists():
        return f"{path}#{places[target].get(place, place)}" if place else path
    return f"{ENGLISH}{target.with_suffix('.html').as_posix()}" + (f"#{id_of(place)}" if place else "")


def lead_to_english(built: Path) -> None:
    """Replace ENGLISH in the pages that were built by the way to the folder above them."""
    for path in built.rglob("*.html"):
        up = "../" * len(path.relative_to(built).parts)
        text = path.read_text(encoding="utf-8").replace(f'external" href="{ENGLISH}', f'internal" href="{up}')
        path.write_text(text.replace(f'"{ENGLISH}', f'"{up}'), encoding="utf-8")


def id_of(place: str) -> str:
    """Return the id that Sphinx gives to a place of this name."""
    return re.sub(r"[^a-z0-9]+", "-", place.lower()).strip("-")


def _entries(tree: str, folder: Path, english: Path) -> str:
    """Return a table of contents in which pages that the folder lacks are English, and say so."""
    lines = []
    for line in tree.splitlines():
        if line[:1] in ("", ":", "`"):
            lines.append(line)
            continue
        for path in sorted(path for suffix in _PAGES for path in english.glob(line + suffix)):
            page = path.relative_to(english)
            name = page.with_suffix("").as_posix()
            is_here = (folder / page).exists()
            lines.append(name if is_here else f"{_title(path)} (EN) <{ENGLISH}{name}.html>")
    return "\n".join(lines)


def _title(path: Path) -> str:
    return next(line[2:] for line in _text(path).splitlines() if line.startswith("# ")).replace("`", "")


def _text(path: Path) -> str:
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8")
    return "\n\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown")
