"""What an instructor hands out: a ready nbgrader course, and a zip for learners without solutions."""

import base64
import io
import logging
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
from nbconvert.filters import markdown2html
from nbformat import NotebookNode
from nbgrader.converters import GenerateAssignment
from nbgrader.converters.base import NbGraderException

from coursekit.author.cheat_sheets import cheat_sheets
from coursekit.basics.course_files import IN_ZIP, for_learners, found
from coursekit.basics.errors import CommandError, chapter_names
from coursekit.basics.html_page import html_page
from coursekit.basics.paths import FROM_WHEEL, PACKAGE, ROOT, SOLUTIONS, path_with_scripts
from coursekit.basics.translations import PAGES, flowing, translated
from coursekit.grading import check_versions
from coursekit.grading.class_settings import FILE, Settings, settings_of
from coursekit.grading.desk.announce import CLASS_TOML, announced
from coursekit.grading.gradebook import Book
from coursekit.grading.nbgrader_settings import Course

HANDOUT = "docs/handout.md"
PICTURE = re.compile(r"\]\(\.\./img/([\w.-]+)\)")
NEEDS_CHECKOUT = (
    "The learners' zip is packed from the course's own folder, and this coursekit comes from a wheel. "
    "Clone the course, and run the same command there."
)
CONFIG = """
# The course's own settings go below; nbgrader's manual lists them.
config.CourseDirectory.course_id = "ray_rl"
"""


def release(folder: Path, report: Callable[[str], object] = str) -> list[Path]:
    """Write an nbgrader course into an empty folder, one assignment a chapter, and the learners' zip; return what was written.

    Each chapter's name is reported once nbgrader has made its notebook.
    """
    if folder.exists() and any(path.name != FILE and path.suffix != ".csv" for path in folder.iterdir()):
        raise CommandError(
            f"{folder} is not empty. Give a folder that does not exist yet, or one with only class.toml and the roster in it: "
            "coursekit release course"
        )
    folder.mkdir(parents=True, exist_ok=True)
    settings = settings_of(folder)
    archive = write_zip(folder / "learners.zip", settings)
    if not settings.is_there:
        settings.file.write_text(CLASS_TOML, encoding="utf-8")
    config = (PACKAGE / "author/nbgrader_config.py").read_text(encoding="utf-8")
    (folder / "nbgrader_config.py").write_text(
        config + "    " + CONFIG.strip().replace("\n", "\n    ") + "\n", encoding="utf-8"
    )
    written = [folder / "nbgrader_config.py"]
    for chapter in chapter_names():
        target = folder / "source" / chapter / f"{chapter}.ipynb"
        target.parent.mkdir(parents=True)
        text = nbformat.writes(with_pictures(SOLUTIONS / f"{chapter}.ipynb"))
        target.write_text(announced(text, settings), encoding="utf-8")
        written += [target, folder / "release" / chapter / target.name]
    for chapter in _hand_out(folder):
        report(chapter)
    check_versions.record(folder, chapter_names())
    handout = folder / "handout.html"
    say = translated(PAGES, settings.language)
    text = flowing(say.markdown((ROOT / HANDOUT).read_text(encoding="utf-8"), HANDOUT))
    title = text.partition("\n")[0].removeprefix("# ")
    handout.write_text(html_page(title, markdown2html(text), "handout", settings.language), encoding="utf-8")
    sheets = folder / "cheat_sheets"
    sheets.mkdir()
    for name, page in cheat_sheets().items():
        (sheets / name).write_text(page, encoding="utf-8")
    (folder / "submitted").mkdir()
    return [*written, folder / "gradebook.db", folder / check_versions.FILE, handout, sheets, archive]


def with_pictures(path: Path) -> NotebookNode:
    """Return a notebook whose pictures lie inside it, so that it can be handed out alone."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        names = PICTURE.findall(cell.source) if cell.cell_type == "markdown" else []
        if names:
            cell.source = PICTURE.sub(r"](attachment:\1)", cell.source)
            pictures = {name: base64.b64encode((ROOT / "img" / name).read_bytes()).decode() for name in names}
            cell.attachments = {name: {"image/svg+xml": picture} for name, picture in pictures.items()}
    return notebook


def write_zip(path: Path, settings: Settings | None = None) -> Path:
    """Write the project as learners get it: all that `make lab` needs, no solutions, no answers, no attacks; a class's dates in it."""
    if FROM_WHEEL:
        raise CommandError(NEEDS_CHECKOUT)
    names = _tracked() if (ROOT / ".git").exists() else found(ROOT, IN_ZIP)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(names):
            if name.split("/")[0] in IN_ZIP and (ROOT / name).is_file():
                file = zipfile.ZipInfo.from_file(ROOT / name, f"ray-rl-course/{name}")
                content = for_learners(ROOT, name)
                if settings and name.startswith("notebooks/") and name.endswith(".ipynb"):
                    content = announced(content.decode(), settings).encode()
                archive.writestr(file, content, zipfile.ZIP_DEFLATED)
    return path


def _tracked() -> list[str]:
    """Return the files of the project as git knows them; raises CommandError where git does not say."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
        reason = "" if listed.stdout else listed.stderr.strip() or "it knows no file there"
    except OSError as error:
        reason = f"git cannot be started: {error.strerror}"
    if reason:
        raise CommandError(
            f"The learners' zip needs git to say which files of {ROOT} belong to the project, and git failed:\n{reason}\n"
            "Fix that, and then run the same command again."
        )
    return listed.stdout.split("\0")


def _hand_out(folder: Path) -> Iterator[str]:
    """Have nbgrader make release/ and the gradebook's entries of source/, and yield each assignment that is done."""
    os.environ["PATH"] = path_with_scripts()  # nbgrader starts alembic for a new gradebook
    book, log, said = Book(Course(folder)), logging.getLogger(__name__), io.StringIO()
    log.propagate, log.handlers = False, [logging.StreamHandler(said)]
    for chapter in chapter_names():
        book.course.assignment_id = chapter
        try:
            GenerateAssignment(coursedir=book.course, config=book.config, log=log).start()
        except NbGraderException:
            shutil.rmtree(folder / "release", ignore_errors=True)
            words = said.getvalue()[-2000:]
            raise CommandError(f"nbgrader generate_assignment {chapter} failed in {folder}:\n{words}") from None
        yield chapter
