"""A chapter as slides: what learners see, with the speaker notes, in one HTML file that needs no network."""

import base64
import re
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from coursekit.course import existing_chapter
from coursekit.paths import ROOT, STATIC

STYLES = [
    "vendor/reveal/reveal.css",
    "vendor/reveal/simple.css",
    "vendor/katex/katex.min.css",
    "slides/slides.css",
]
SCRIPTS = [
    "vendor/katex/katex.min.js",
    "vendor/katex/auto-render.min.js",
    "vendor/reveal/reveal.js",
    "vendor/reveal/notes.js",
]
WRAPPED = re.compile(r"(?<=\S)\n(?:> )?(?! *(?:[-|>#\n]|\d+\. ))")  # the paragraph goes on in the next line


def write_slides(name: str, root: Path = ROOT) -> Path:
    """Write build/slides/NAME.slides.html and return its path; raises CommandError for an unknown chapter."""
    existing_chapter(name, root)
    path = root / "build" / "slides" / f"{name}.slides.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(as_html(deck(name, root), name, root), encoding="utf-8")
    return path


def deck(name: str, root: Path = ROOT) -> NotebookNode:
    """Return the chapter with speaker notes, answers as the learner's stubs, and the type of each slide."""
    from coursekit.author.build import learner_notebook, solved_notebook

    notebook = solved_notebook(root / "chapters" / f"{name}.py")
    stubs = {cell.id: cell.source for cell in learner_notebook(notebook).cells}
    notebook.cells = [cell for cell in notebook.cells if cell.id in stubs or _is_notes(cell)]
    for cell in notebook.cells:
        cell.source = stubs.get(cell.id, cell.source)
        if cell.cell_type == "markdown":  # nbconvert embeds no picture from outside the folder it works in
            cell.source = cell.source.replace("../img/", "img/")
    _break_pages([cell for cell in notebook.cells if not _is_notes(cell)])
    return notebook


def _break_pages(cells: list[NotebookNode]) -> None:
    """Begin a page below where a new thought begins (text after code) and where the page is full."""
    filled, after_code = 0.0, False
    for cell in cells:
        new_thought = after_code and cell.cell_type == "markdown"
        if "slideshow" not in cell.metadata and (new_thought or filled + _height(cell) > 1):
            cell.metadata["slideshow"] = {"slide_type": "subslide"}
        filled = _height(cell) + (0 if "slideshow" in cell.metadata else filled)
        after_code = cell.cell_type == "code"


def _is_notes(cell: NotebookNode) -> bool:
    return "notes" in cell.metadata.get("tags", [])


def _height(cell: NotebookNode) -> float:
    """Return about how much of a page a cell fills: 20 lines of text of 100 letters, or 25 of code; a picture is half."""
    if cell.cell_type == "code":
        return (len(cell.source.splitlines()) + 1.5) / 25
    lines = WRAPPED.sub(" ", cell.source).splitlines()
    return sum(1 + len(line) // 100 for line in lines) / 20 + cell.source.count("](img/") / 2


def as_html(notebook: NotebookNode, name: str, root: Path) -> str:
    """Return the page: pictures, styles, fonts and scripts inside."""
    from nbconvert.exporters import SlidesExporter

    exporter = SlidesExporter(
        template_name="slides",
        extra_template_basedirs=[str(STATIC)],
        embed_images=True,
        exclude_input_prompt=True,
        exclude_output_prompt=True,
    )
    title = next((line[2:] for line in notebook.cells[0].source.splitlines() if line.startswith("# ")), name)
    resources = {
        "metadata": {"name": name, "path": str(root)},
        "title": title,
        "styles": [_style(STATIC / file) for file in STYLES],
        "scripts": [_script(STATIC / file) for file in SCRIPTS],
    }
    html, _ = exporter.from_notebook_node(nbformat.from_dict(notebook), resources=resources)
    return html


def _style(path: Path) -> str:
    """Return a style sheet without imports from elsewhere, and with its WOFF2 fonts as data."""

    def inline(match: re.Match[str]) -> str:
        font = path.parent / match[1]
        return (
            f"url(data:font/woff2;base64,{base64.b64encode(font.read_bytes()).decode()})"
            if font.suffix == ".woff2"
            else "url()"
        )

    css = re.sub(r"@import [^;]*;", "", path.read_text(encoding="utf-8"))
    return re.sub(r"url\((fonts/[^)]+)\)", inline, css)


def _script(path: Path) -> str:
    """Return a script that can stand inside a page: no string in it ends or reopens the script element."""
    return path.read_text(encoding="utf-8").replace("</script", r"<\/script").replace("<!--", r"<\!--")
