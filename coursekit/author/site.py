"""The course as a web site: `python -m coursekit.author.site` in the environment of `make site`, which knows Sphinx and no Ray.

What Sphinx reads is written into build/site-source/ with the folders of the course, so every link of a chapter or a guide
leads there, too. Chapters come from solutions/, as learners get them, with what site/recorded/ keeps of their demonstrations.

English is at the top. Each other language has a folder with what is translated into it; what is not, its pages link to in English.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from functools import cache
from html import escape
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from coursekit.author import recordings, site_links, translation_files
from coursekit.author.site_links import ENGLISH
from coursekit.author.translatable import LEARNERS_PAGES
from coursekit.basics.errors import chapter_names
from coursekit.basics.paths import ROOT, STATIC
from coursekit.basics.translated_cells import MARK, in_language, in_picture, is_translated
from coursekit.basics.translations import INTERFACE, PAGES, SOURCE, Translations, flowing, languages, translated
from coursekit.judging import quiz_text

STAGED, BUILT = ROOT / "build/site-source", ROOT / "build/site"
NARROW = 344  # the width of the map on a narrow screen
GUTTER = 60  # what of it belongs to the arcs
LINE = 34  # the height of a chapter in it
EXERCISE = re.compile(r"\*\*\w+ `(\w+)`\*\* · (.+?) · \w+ (.+?) · ")  # **Exercise `f`** · 1 point · about 5 minutes · …
CHAPTER = re.compile(r"^\w+ (\d+)(?: 章)? (?=· )")  # how a chapter's title begins
DELIMITERS = re.compile(r"^ *### (?:BEGIN|END) SOLUTION\n?", re.MULTILINE)
# The run sheets follow the workshop's page, in the sidebar too.
PATH = re.compile(
    r"^\| \*\*(?P<path>.+)\*\* \| (?P<whom>.+) \| (?P<chapters>(?P<first>\d+).*) \| (?P<hours>\d+)(?P<mark> .*)\|$",
    re.MULTILINE,
)
RUN_SHEETS = "\n```{toctree}\n:hidden:\n:glob:\n\nrun_sheets/*\n```\n"


def main() -> None:
    """Build the whole site; a warning of Sphinx, such as a link that leads nowhere, is an error."""
    began = time.monotonic()
    for folder in (STAGED, BUILT):
        shutil.rmtree(folder, ignore_errors=True)
    for language in places():
        stage(STAGED / language, os.environ.get("SOLUTIONS", "1") != "0", language)
    for language, built in places().items():
        source = STAGED / language
        sphinx = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", "--jobs=auto"]
        if subprocess.run([*sphinx, "-d", ROOT / f"build/site-doctrees/{language}", source, built]).returncode:
            sys.exit("The site has errors, which are listed above.")
        shutil.rmtree(built.parent / "jupyter_execute", ignore_errors=True)  # MyST-NB's second copy of the pictures
        for copy in (built / "_sources/notebooks").glob("*.ipynb"):  # what the download button hands out
            shutil.copy(ROOT / f"notebooks/{copy.name}", copy)
            if language != SOURCE:
                notebook = nbformat.read(copy, as_version=4)
                notebook.cells = in_language(notebook.cells, copy.stem, language, ROOT)
                nbformat.write(notebook, copy)
        if language != SOURCE:
            site_links.lead_to_english(built)
    print(f"wrote {BUILT.relative_to(ROOT)}/index.html in {time.monotonic() - began:.0f} s")


def places(root: Path = ROOT) -> dict[str, Path]:
    """Return where the pages of each language go: English to the top, the others to folders named after them, such as de/."""
    return {SOURCE: BUILT} | {language: BUILT / language for language in languages(root)}


def stage(folder: Path, solutions: bool = True, language: str = SOURCE, root: Path = ROOT) -> None:
    """Write what Sphinx reads: pages, pictures, texts and settings. Another language comes after English, which lies beside it."""
    texts = texts_in(language, root)
    shutil.copytree(root / "site/en", folder)
    for name in ("static", "templates"):
        shutil.copytree(root / "site" / name, folder / name)
    shutil.copytree(STATIC / "vendor/katex", folder / "static/katex")
    for name in ("docs", "img"):
        shutil.copytree(root / name, folder / name)
    for file in ("site/conf.py", "README.md", "CHANGELOG.md", "CONTRIBUTING.md"):
        shutil.copy(root / file, folder)
    (folder / "notebooks").mkdir()
    pages = {name: page(name, texts, solutions, root) for name in chapter_names(root)}
    for name, notebook in pages.items():
        if notebook.metadata.text_language == language:
            nbformat.write(notebook, folder / f"notebooks/{name}.ipynb")
    with (folder / "docs/workshop.md").open("a", encoding="utf-8") as workshop:
        workshop.write(RUN_SHEETS)
    if language != SOURCE:
        _translate(folder, language, root)
    _write(folder / "texts.json", json.dumps(texts))
    _write(folder / "map.html", _map(folder, pages))
    _write(folder / "paths_list.md", _list_of_paths((folder / "README.md").read_text(encoding="utf-8"), pages, texts))
    _write(folder / "exercises_list.md", _list_of_exercises(pages, texts))
    _write(folder / "translations_list.md", _list_of_translations(pages, texts, root))
    index = (folder / "index.md").read_text(encoding="utf-8")
    _write(folder / "index.md", re.sub(r"(?<=:caption: )\w+", lambda key: texts[key[0]], index))
    if language != SOURCE:
        site_links.lead_on(folder, folder.parent / SOURCE)


def texts_in(language: str, root: Path = ROOT) -> dict[str, str]:
    """Return what the site says beside the course's own text."""
    english = tomllib.loads((root / "site/en/texts.toml").read_text(encoding="utf-8"))
    say = translated(INTERFACE, language, root)
    return {key: say(f"site {key}", text).text for key, text in english.items()} | {"language": language}


def _translate(folder: Path, language: str, root: Path) -> None:
    """Translate learners' pages and the pictures, and remove all other pages: they are there in English."""
    of_pages = translated(PAGES, language, root)
    of_chapters = {name[:4]: translated(name, language, root) for name in chapter_names(root)}
    kept = {folder / name.removeprefix("site/en/"): name for name in LEARNERS_PAGES}
    for path in folder.rglob("*.md"):
        if path in kept:
            _write(path, flowing(of_pages.markdown(path.read_text(encoding="utf-8"), kept[path], MARK)))
        else:
            path.unlink()
    for path in folder.glob("img/*.svg"):
        say = of_chapters.get(path.stem[:4], of_pages)
        _write(path, in_picture(path.read_text(encoding="utf-8"), path.stem, say))


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def page(name: str, texts: dict[str, str], solutions: bool = True, root: Path = ROOT) -> NotebookNode:
    """Return a chapter as learners get it, with recorded outputs, quizzes to answer in the page, and solutions to unfold.

    It is in the language of the texts, or in English where nothing of it is translated; its metadata says which.
    """
    notebook = nbformat.read(root / f"solutions/{name}.ipynb", as_version=4)
    learners = nbformat.read(root / f"notebooks/{name}.ipynb", as_version=4)
    say = translated(name, texts["language"], root)
    notebook.metadata.text_language = texts["language"] if is_translated(learners.cells, say) else SOURCE
    say = translated(name, notebook.metadata.text_language, root)
    both = (in_language(each.cells, name, notebook.metadata.text_language, root) for each in (notebook, learners))
    shown_text = {cell.id: cell.source for cells in both for cell in cells}  # the learners' where both have a cell
    recorded, shown = recordings.load(name, root), {cell.id for cell in recordings.demonstrations(notebook)}
    asked, answers = quiz_text.read(root / f"coursekit/exercises/{name}.py"), dict[str, str]()
    opening, *rest = notebook.cells
    said = texts["recorded"].format_map(recorded) if recorded else texts["not_yet_run"]
    said = said.replace(" cores,", f" {texts['cores']},")
    opening.source = shown_text[opening.id]
    cells = [opening, new_markdown_cell(f"```{{note}}\n{said}\n```")]
    for cell in rest:
        graded, tags = cell.metadata.get("nbgrader", {}), cell.metadata.get("tags", [])
        item = graded.get("grade_id", "").removeprefix("answer_")
        if "notes" in tags or cell.source.startswith("**Quiz · ") or (item in asked and graded["solution"]):
            continue  # the form below shows the question
        if "solution" in tags:
            text = shown_text[cell.id]
            _unfold(cells, text if cell.cell_type == "markdown" else _code(text), texts, solutions)
            continue
        if item in asked:
            cells.append(new_markdown_cell(form(item, *_translated(item, asked[item], say), texts), id=cell.id))
            continue
        if item and graded["solution"]:
            answers[item] = cell.source
        cell.source = EXERCISE.sub(rf"({name}-\1)=\n\g<0>", shown_text[cell.id])
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


def _translated(name: str, question: quiz_text.Question, say: Translations) -> quiz_text.Question:
    """Return a question with its options, and what they answer back."""
    asked, options, key = question

    def option(letter: str, text: str, reply: str) -> tuple[str, str]:
        found = say(f"quiz {name} {letter}", text), say(f"quiz {name} {letter} reply", reply)
        return tuple(each.text + MARK * each.stale for each in found)  # type: ignore[return-value]

    said = {letter: option(letter, *texts) for letter, texts in options.items()}
    return flowing(say.markdown(asked, f"quiz {name}", MARK)), said, key


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


def _map(folder: Path, pages: dict[str, NotebookNode]) -> str:
    """Return the learner's map as HTML, for a wide screen as it was drawn, and for a narrow one: each box leads to its chapter."""
    drawing = (folder / "img/learners_map.svg").read_text(encoding="utf-8").replace('role="img"', 'role="group"')
    here = {name: (folder / f"notebooks/{name}.ipynb").exists() for name in pages}
    links = {name[:4]: f'<a href="{"" if here[name] else ENGLISH}notebooks/{name}.html">' for name in pages}
    boxes = re.compile(r'<g id="(ch\d\d)".*?</g>', re.DOTALL)
    wide = boxes.sub(lambda box: f"{links[box[1]]}{box[0]}</a>", drawing)
    return f'<div class="learners-map wide">{wide}</div>\n<div class="learners-map narrow">{_narrow(drawing, pages, links)}</div>\n'


def _narrow(drawing: str, pages: dict[str, NotebookNode], links: dict[str, str]) -> str:
    """Return the map with a chapter a line, in its box's colours, and arcs beside them for the arrows of the drawing."""
    colours = {
        box: rest for box, *rest in re.findall(r'<g id="(ch\d\d)".*?fill="(#\w+)" stroke="(#\w+)"', drawing, re.DOTALL)
    }
    label = re.search(r'aria-label="(.*?)"', drawing)
    lines, place = list[str](), dict[str, int]()
    for number, (name, notebook) in enumerate(pages.items()):
        box, y = name[:4], LINE * number
        (fill, stroke), place[box] = colours[box], y + LINE // 2
        title = escape(CHAPTER.sub(r"\1 ", _title(notebook)).removesuffix(MARK))
        lines += [
            f'{links[box]}<rect x="{GUTTER}" y="{y + 3}" width="{NARROW - GUTTER - 1}" height="{LINE - 6}" rx="6" '
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
    rows = [row.groupdict() | {"whom": f"{row['whom']}{row['mark'].rstrip()}"} for row in PATH.finditer(table + "|")]
    return "".join(texts["path"].format(**row, begin=begins[int(row["first"])]) for row in rows) + f"\n{below}"


def _list_of_exercises(pages: dict[str, NotebookNode], texts: dict[str, str]) -> str:
    """Return a table for each chapter: its exercises, each a link, with points and minutes."""
    lines: list[str] = []
    for name, notebook in pages.items():
        rows = [
            f"| [`{item}`](notebooks/{name}.ipynb#{site_links.id_of(f'{name}-{item}')}) | {points} | {minutes} |"
            for item, points, minutes in exercises(notebook)
        ]
        lines += [f"## {_title(notebook)}", "", texts["exercises"], "|---|---|---|", *rows, ""]
    return "\n".join(lines)


def _list_of_translations(pages: dict[str, NotebookNode], texts: dict[str, str], root: Path) -> str:
    """Return a table of how much of each chapter is translated into each language, and how many of its texts have changed since."""
    from babel import Locale  # Sphinx needs it, and the course does not

    lines = [f"| | {' | '.join(Locale(language).display_name or language for language in languages(root))} |"]
    lines.append("|---" + "|--:" * len(languages(root)) + "|")
    for name, found in _states(root).items():
        title = f"[{_title(pages[name])}](notebooks/{name}.ipynb)" if name in pages else texts[name]
        lines.append(f"| {title} | {' | '.join(translation_files.said(each, texts['stale']) for each in found)} |")
    return "\n".join(lines)


_states = cache(translation_files.states)


def exercises(notebook: NotebookNode) -> list[tuple[str, ...]]:
    """Return name, points and minutes of each exercise, as the text above its answer cell says."""
    return [found.groups() for cell in notebook.cells for found in EXERCISE.finditer(cell.source)]


if __name__ == "__main__":
    main()
