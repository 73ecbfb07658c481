"""The course as a web site: `python -m coursekit.author.site` in the environment of `make site`, which knows Sphinx and no Ray.

What Sphinx reads is written into build/site-source/ with the folders of the course, so every link of a chapter or a guide
leads there, too. Chapters come from solutions/, as learners get them, with what site/recorded/ keeps of their demonstrations.
"""

import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from html import escape
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from coursekit.author import recordings
from coursekit.basics.errors import chapter_names
from coursekit.basics.paths import ROOT, STATIC
from coursekit.judging import quiz_text

SOURCE, BUILT = ROOT / "build/site-source", ROOT / "build/site"
NARROW = 344  # the width of the map on a narrow screen
GUTTER = 60  # what of it belongs to the arcs
LINE = 34  # the height of a chapter in it
EXERCISE = re.compile(r"\*\*Exercise `(\w+)`\*\* · (.+?) · about (.+?) · ")
DELIMITERS = re.compile(r"^ *### (?:BEGIN|END) SOLUTION\n?", re.MULTILINE)
# The run sheets follow the workshop's page, in the sidebar too.
PATH = re.compile(
    r"^\| \*\*(?P<path>.+)\*\* \| (?P<whom>.+) \| (?P<chapters>(?P<first>\d+).*) \| (?P<hours>\d+) \|$", re.MULTILINE
)
RUN_SHEETS = "\n```{toctree}\n:hidden:\n:glob:\n\nrun_sheets/*\n```\n"


def main() -> None:
    """Build the whole site; a warning of Sphinx, such as a link that leads nowhere, is an error."""
    began = time.monotonic()
    for folder in (SOURCE, BUILT):
        shutil.rmtree(folder, ignore_errors=True)
    for language, built in places().items():
        source = SOURCE / language
        stage(source, os.environ.get("SOLUTIONS", "1") != "0", language)
        sphinx = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", "--jobs=auto"]
        if subprocess.run([*sphinx, "-d", ROOT / f"build/site-doctrees/{language}", source, built]).returncode:
            sys.exit("The site has errors, which are listed above.")
        shutil.rmtree(built.parent / "jupyter_execute", ignore_errors=True)  # MyST-NB's second copy of the pictures
        for name in chapter_names():  # what the download button hands out
            shutil.copy(ROOT / f"notebooks/{name}.ipynb", built / "_sources/notebooks")
    print(f"wrote {BUILT.relative_to(ROOT)}/index.html in {time.monotonic() - began:.0f} s")


def places(root: Path = ROOT) -> dict[str, Path]:
    """Return where the pages of each language go: English to the top, the others to folders named after them, such as de/."""
    languages = [path.parent.name for path in sorted(root.glob("site/*/texts.toml"))]
    return {
        language: BUILT if language == "en" else BUILT / language for language in sorted(languages, key="en".__ne__)
    }


def stage(folder: Path, solutions: bool = True, language: str = "en", root: Path = ROOT) -> None:
    """Write what Sphinx reads: pages, pictures, texts and settings."""
    texts = tomllib.loads((root / f"site/{language}/texts.toml").read_text(encoding="utf-8"))
    shutil.copytree(root / f"site/{language}", folder)
    shutil.copytree(root / "site/static", folder / "static")
    shutil.copytree(STATIC / "vendor/katex", folder / "static/katex")
    for name in ("docs", "img"):
        shutil.copytree(root / name, folder / name)
    for file in ("site/conf.py", "README.md", "CHANGELOG.md", "CONTRIBUTING.md"):
        shutil.copy(root / file, folder)
    (folder / "notebooks").mkdir()
    pages = {name: page(name, texts, solutions, root) for name in chapter_names(root)}
    for name, notebook in pages.items():
        nbformat.write(notebook, folder / f"notebooks/{name}.ipynb")
    with (folder / "docs/workshop.md").open("a", encoding="utf-8") as workshop:
        workshop.write(RUN_SHEETS)
    (folder / "map.html").write_text(_map(pages, root), encoding="utf-8")
    readme = (root / "README.md").read_text(encoding="utf-8")
    (folder / "paths_list.md").write_text(_list_of_paths(readme, pages, texts), encoding="utf-8")
    (folder / "exercises_list.md").write_text(_list_of_exercises(pages, texts), encoding="utf-8")


def page(name: str, texts: dict[str, str], solutions: bool = True, root: Path = ROOT) -> NotebookNode:
    """Return a chapter as learners get it, with recorded outputs, quizzes to answer in the page, and solutions to unfold."""
    notebook = nbformat.read(root / f"solutions/{name}.ipynb", as_version=4)
    learners = nbformat.read(root / f"notebooks/{name}.ipynb", as_version=4)
    stubs = {cell.id: cell.source for cell in learners.cells}
    recorded, shown = recordings.load(name, root), {cell.id for cell in recordings.demonstrations(notebook)}
    asked, answers = quiz_text.read(root / f"coursekit/exercises/{name}.py"), dict[str, str]()
    opening, *rest = notebook.cells
    said = texts["recorded"].format_map(recorded) if recorded else texts["not_yet_run"]
    cells = [opening, new_markdown_cell(f"```{{note}}\n{said}\n```")]
    for cell in rest:
        graded, tags = cell.metadata.get("nbgrader", {}), cell.metadata.get("tags", [])
        item = graded.get("grade_id", "").removeprefix("answer_")
        if "notes" in tags or cell.source.startswith("**Quiz · ") or (item in asked and graded["solution"]):
            continue  # the form below shows the question
        if "solution" in tags:
            _unfold(cells, cell.source if cell.cell_type == "markdown" else _code(cell.source), texts, solutions)
            continue
        if item in asked:
            cells.append(new_markdown_cell(form(item, *asked[item], texts), id=cell.id))
            continue
        if item and graded["solution"]:
            answers[item] = cell.source
        cell.source = EXERCISE.sub(rf"({name}-\1)=\n\g<0>", stubs[cell.id])
        cells.append(cell)
        if item and graded["grade"]:
            _unfold(cells, _code(answers[item]), texts, solutions)
        if recorded and cell.id in shown:
            cell.metadata["mystnb"] = {"image": {"alt": texts["picture"]}}
            cell.outputs = nbformat.from_dict(recorded["outputs"].get(cell.id, []))
            if cell.id not in recorded["outputs"]:
                cells.append(new_markdown_cell(f"```{{warning}}\n{texts['not_run_again']}\n```"))
    notebook.cells = cells
    return notebook


def form(name: str, question: str, options: dict[str, tuple[str, str]], key: str, texts: dict[str, str]) -> str:
    """Return a quiz as Markdown between HTML; site/static/site.js shows what the chosen option answers back."""
    lines = [
        f'<form class="quiz" data-key="{key}"><fieldset><legend>{texts["quiz"]} <code>{name}</code></legend>',
        question,
    ]
    for letter, (option, reply) in options.items():
        choice = f'<label><input type="radio" name="{name}" value="{letter}" required> {option}</label>'
        lines.append(f'{choice} <span class="reply" hidden>{reply}</span>')
    lines.append(
        f'<button type="submit">{texts["answer"]}</button><p class="verdict" role="status"></p></fieldset></form>'
    )
    return "\n\n".join(lines)


def _unfold(cells: list[NotebookNode], text: str, texts: dict[str, str], solutions: bool) -> None:
    """Add a part of a solution to the cell that unfolds, or begin one."""
    if not solutions:
        return
    if not cells[-1].source.endswith("</details>"):
        cells.append(new_markdown_cell(f"<details><summary>{texts['after_you_tried']}</summary>\n\n</details>"))
    cells[-1].source = f"{cells[-1].source.removesuffix('</details>')}{text}\n\n</details>"


def _code(source: str) -> str:
    return f"```python\n{DELIMITERS.sub('', source).rstrip()}\n```"


def _map(pages: dict[str, NotebookNode], root: Path) -> str:
    """Return the learner's map as HTML, for a wide screen as it was drawn, and for a narrow one: each box leads to its chapter."""
    drawing = (root / "img/learners_map.svg").read_text(encoding="utf-8").replace('role="img"', 'role="group"')
    links = {name[:4]: f'<a href="notebooks/{name}.html">' for name in pages}
    boxes = re.compile(r'<g id="(ch\d\d)".*?</g>', re.DOTALL)
    wide = boxes.sub(lambda box: f"{links[box[1]]}{box[0]}</a>", drawing)
    return f'<div class="learners-map wide">{wide}</div>\n<div class="learners-map narrow">{_narrow(drawing, pages)}</div>\n'


def _narrow(drawing: str, pages: dict[str, NotebookNode]) -> str:
    """Return the map with a chapter a line, in its box's colours, and arcs beside them for the arrows of the drawing."""
    colours = {
        box: rest for box, *rest in re.findall(r'<g id="(ch\d\d)".*?fill="(#\w+)" stroke="(#\w+)"', drawing, re.DOTALL)
    }
    label = re.search(r'aria-label="(.*?)"', drawing)
    lines, place = list[str](), dict[str, int]()
    for number, (name, notebook) in enumerate(pages.items()):
        box, y = name[:4], LINE * number
        (fill, stroke), place[box] = colours[box], y + LINE // 2
        title = escape(_title(notebook).removeprefix("Chapter "))
        lines += [
            f'<a href="notebooks/{name}.html"><rect x="{GUTTER}" y="{y + 3}" width="{NARROW - GUTTER - 1}" height="{LINE - 6}" rx="6" '
            f'fill="{fill}" stroke="{stroke}"/><text x="{GUTTER + 8}" y="{y + LINE // 2 + 5}">{title}</text></a>'
        ]
    for start, end in re.findall(r'id="(ch\d\d)-(ch\d\d)"', drawing):
        (top, bottom), colour = (place[start], place[end] - 4), colours[start][1]
        side = GUTTER - 20 - (bottom - top) * (GUTTER - 10) // (LINE * len(pages))
        lines.append(
            f'<path d="M{GUTTER} {top + 4}C{side} {top} {side} {bottom} {GUTTER - 3} {bottom}" fill="none" stroke="{colour}"/>'
        )
        lines.append(f'<path d="M{GUTTER - 6} {bottom - 3}l6 3 -6 3z" fill="{colour}"/>')
    head = f'viewBox="0 0 {NARROW} {LINE * len(pages)}" role="group" aria-label="{label[1] if label else ""}" font-size="12"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {head}>{"".join(lines)}</svg>'


def _title(notebook: NotebookNode) -> str:
    return str(notebook.cells[0].source.splitlines()[0].removeprefix("# "))


def _list_of_paths(readme: str, pages: dict[str, NotebookNode], texts: dict[str, str]) -> str:
    """Return the README's table of paths as a list, in which each leads to the chapter where it begins, and what stands below it."""
    table, below = re.split(r"\|\n\n", readme.partition("<!-- begin paths:")[2].partition("<!-- end paths -->")[0])
    begins = {int(name[2:4]): f"[{_title(notebook)}](notebooks/{name}.ipynb)" for name, notebook in pages.items()}
    rows = [row.groupdict() for row in PATH.finditer(table + "|")]
    return "".join(texts["path"].format(**row, begin=begins[int(row["first"])]) for row in rows) + f"\n{below}"


def _list_of_exercises(pages: dict[str, NotebookNode], texts: dict[str, str]) -> str:
    """Return a table for each chapter: its exercises, each a link, with points and minutes."""
    lines: list[str] = []
    for name, notebook in pages.items():
        rows = [
            f"| [`{item}`](#{name}-{item}) | {points} | {minutes} |" for item, points, minutes in exercises(notebook)
        ]
        lines += [f"## {_title(notebook)}", "", texts["exercises"], "|---|---|---|", *rows, ""]
    return "\n".join(lines)


def exercises(notebook: NotebookNode) -> list[tuple[str, ...]]:
    """Return name, points and minutes of each exercise, as the text above its answer cell says."""
    return [found.groups() for cell in notebook.cells for found in EXERCISE.finditer(cell.source)]


if __name__ == "__main__":
    main()
