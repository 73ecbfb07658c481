"""What was handed in: found, and read with the care that a stranger's file needs."""

import contextlib
import hashlib
import json
import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

import nbformat
from nbformat import NotebookNode

from coursekit.basics.cards import plural
from coursekit.basics.files import CLEAR, MAX_BYTES
from coursekit.grading.file_kinds import TOOL_FILES, TOOL_FOLDERS, is_a_notebooks, is_a_tools, kind_of, why_unreadable
from coursekit.grading.markup import pictures, without_dead_pictures

MAX_CELLS = 2000
MAX_FILES = 500
IGNORED = (*TOOL_FOLDERS, *TOOL_FILES, "*.pyc", "feedback")  # as by nbgrader, and what tools write
NAME_BYTES = 200  # of a name: a suffix still fits into what a file may be called
# of a name: what ends a line, and markup, since nbgrader's pages show names as they are
UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029<>\"]")
STAMP = "timestamp.txt"  # beside a notebook: says when it was handed in
RUN_STATE = ".coursekit-run.json"  # lies in each folder that a grading run has written


CONFLICT = (
    "somebody else handed in {assignment} as {student} in the room too: if this one is {student}'s, let {folder} take the place of "
    "{assignment}; if it is another student's, move it into that student's folder as {assignment}; then grade again"
)


class NotGradable(Exception):
    """A submission that cannot be graded; the message is the reason, for the student and the instructor."""


@dataclass(frozen=True)
class Submission:
    """One notebook that one student handed in for one assignment; `problem` says why there is none to grade."""

    student: str
    assignment: str
    notebook: str
    path: Path
    problem: str = ""
    single: bool = False  # a notebook by itself: what else lies in its folder was not handed in
    instead: bool = False  # whether something else was handed in where there is no notebook

    @property
    def key(self) -> str:
        """Return the name under which the outcome is kept."""
        return f"{self.student}/{self.assignment}/{self.notebook}"

    def names(self) -> set[str]:
        """Return the names by which `--only` may choose it."""
        return {self.student, self.assignment, f"{self.student}/{self.assignment}", self.key}

    @property
    def folder(self) -> Path:
        """Return the folder in which the notebook lies, or should lie."""
        return self.path.parent

    def files(self) -> dict[str, bytes]:
        """Return the files that were handed in with the notebook."""
        return {} if self.single else files_beside(self.path)

    @cached_property
    def digest(self) -> str:
        """Return a fingerprint of what was handed in, so that a new version is graded again."""
        try:
            content = self.problem.encode() if self.problem else _content(self.path)
        except NotGradable as reason:
            content = str(reason).encode()
        return hashlib.sha256(content).hexdigest()[:16]


def find(root: Path, notebooks: Mapping[str, Collection[str]]) -> list[Submission]:
    """Return every submission below `root`, laid out as <student>/<assignment>/*.ipynb; what is missing or misplaced has a problem.

    `notebooks` names the notebooks of each assignment.
    """
    known = f"the assignments are {', '.join(sorted(notebooks))}"
    found: list[Submission] = []
    for path in sorted(path for path in root.iterdir() if not _is_nobodys(path)):
        name = text_of(path.name)
        if os.path.isdir(path):
            nothing = Submission(name, "", name, path, f"no assignment's folder was handed in: {known}")
            found += list(_of_student(path, notebooks, known)) or [nothing]
        elif path.suffix == ".ipynb":
            found.append(Submission("", "", text_of(path.stem), path, f"it lies in no student's folder: {known}"))
        elif path.is_symlink() and not os.path.exists(path):
            found.append(Submission(name, "", name, path, "the student's folder is a link that leads nowhere"))
    return found


def _of_student(student: Path, notebooks: Mapping[str, Collection[str]], known: str) -> Iterator[Submission]:
    name = text_of(student.name)
    try:
        paths = sorted(path for path in student.iterdir() if not _holds_no_work(path))
    except OSError as error:
        yield Submission(name, "", name, student, f"the folder cannot be read ({error.strerror})")
        return
    for path in paths:
        if path.name in notebooks:
            yield from _of_assignment(student, path, notebooks[path.name])
        elif os.path.isdir(path):
            of = re.sub(r"-\d+$", "", path.name)  # as the room calls what another learner sends for the same student
            problem = f"there is no assignment named {text_of(path.name)}: {known}"
            problem = CONFLICT.format(student=name, assignment=of, folder=path.name) if of in notebooks else problem
            yield Submission(name, text_of(path.name), text_of(path.name), path, problem)
        elif path.suffix == ".ipynb":
            yield Submission(name, "", text_of(path.stem), path, f"it lies in no assignment's folder: {known}")


def _of_assignment(student: Path, folder: Path, wanted: Collection[str]) -> Iterator[Submission]:
    """Yield the notebooks of one assignment, those that are missing too."""
    name, found = text_of(student.name), list[Path]()
    try:
        linked = student.is_symlink() or folder.is_symlink() or not folder.is_dir()
        files = [] if linked else sorted(path for path in folder.iterdir() if not is_a_tools(PurePath(path.name)))
        found = [path for path in files if path.suffix == ".ipynb"]
        but = "" if found else _but(files)
        nothing = "the folder is a link, or no folder" if linked else f"no notebook was handed in{but}"
        problem = "" if found else nothing
    except OSError as error:
        problem, but = f"the folder cannot be read ({error.strerror})", ""
    yield from (Submission(name, folder.name, text_of(path.stem), path) for path in found)
    for missing in sorted(set(wanted) - {path.stem for path in found}):
        absent = f"it was not handed in: there is no {missing}.ipynb in the folder (was it renamed?)"
        path = folder / f"{missing}.ipynb"
        yield Submission(name, folder.name, missing, path, problem or absent, instead=bool(but))


def _but(files: list[Path]) -> str:
    """Return what was handed in where a notebook was expected, with what to do about it; "" for nothing."""
    kinds = {path: _kind_of(path) for path in files if path.is_file() and path.name != STAMP}
    if not kinds:
        return ""
    path = max(kinds, key=lambda path: bool(kinds[path]))
    name, kind = text_of(path.name), kinds[path]
    if len(kinds) == 1:
        return f", but {name}, which is {kind}" if kind else f", but {name}"
    others = plural(len(kinds) - 1, "other file")
    return f", but {name} (and {others}), which is {kind}" if kind else f", but {name} (and {others})"


def _kind_of(path: Path) -> str:
    try:
        content = _content(path)
    except NotGradable:
        return ""
    return (
        "a notebook under another name. Let its name end with .ipynb" if is_a_notebooks(content) else kind_of(content)
    )


def is_in_a_course(notebook: Path) -> bool:
    """Return whether a notebook lies as submissions do: <course>/submitted/<student>/<assignment>/*.ipynb."""
    return len(notebook.parents) > 3 and notebook.parents[2].name == "submitted"


def find_one(path: Path) -> list[Submission]:
    """Return a single notebook as a submission: of the chapter that it begins, by a student of the file's name."""
    try:
        chapter = chapter_of(read(path)) or path.stem
    except NotGradable:
        chapter = path.stem
    return [Submission(text_of(path.stem), text_of(chapter), text_of(chapter), path, single=True)]


def text_of(name: str) -> str:
    """Return the name of a file as one line that can be written anywhere, and be a file's name; on Linux it may be any bytes.

    A name that had to be changed ends with a hash of what it was: two names stay two.
    """
    line = UNPRINTABLE.sub(lambda found: _spelled(found[0]), name)
    written = line.encode("utf-8", "backslashreplace")
    if len(written) <= NAME_BYTES and written.decode() == name:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{written[: NAME_BYTES - 17].decode('utf-8', 'ignore')}~{digest}"


def _spelled(character: str) -> str:
    return character.encode("unicode_escape").decode() if not character.isprintable() else f"\\x{ord(character):02x}"


def read(path: Path) -> NotebookNode:
    """Return the cells of a student's notebook, whatever its format; raises NotGradable with the reason."""
    content = _content(path)
    try:
        document = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise NotGradable(f"the file is not a readable notebook: {why_unreadable(content, error)}") from None
    sheets = [document, *_items(document, "worksheets")]  # the formats before 2015 had sheets
    cells = [cell for sheet in sheets for cell in _items(sheet, "cells") if isinstance(cell, dict)]
    if not any(isinstance(sheet, dict) and isinstance(sheet.get("cells"), list) for sheet in sheets):
        raise NotGradable("the file is not a notebook: it has no list of cells")
    if len(cells) > MAX_CELLS:
        raise NotGradable(f"the notebook has {len(cells)} cells; {MAX_CELLS} is the limit")
    return nbformat.v4.new_notebook(cells=[_plain_cell(cell) for cell in cells])


def files_beside(path: Path) -> dict[str, bytes]:
    """Return the other files of a notebook's folder by their relative names: regular ones, no more than MAX_BYTES together."""
    found: dict[str, bytes] = {}
    for _, file in zip(range(MAX_FILES), _files_below(path.parent), strict=False):
        with contextlib.suppress(NotGradable):
            content = b"" if file.suffix == ".ipynb" else _content(file)
            if content and sum(map(len, found.values())) + len(content) <= MAX_BYTES:
                name = str(file.relative_to(path.parent)).encode("utf-8", "backslashreplace").decode()
                found[name] = content
    return found


def _files_below(folder: Path) -> Iterator[Path]:
    """Yield the files in a folder, hidden ones last; not those that nbgrader ignores, nor what a grader has written there."""
    for place, folders, names in os.walk(folder):
        kept = [name for name in folders if not _is_ignored(name) and not os.path.exists(f"{place}/{name}/{RUN_STATE}")]
        folders[:] = sorted(kept, key=_hidden_last)
        yield from (Path(place, name) for name in sorted(names, key=_hidden_last) if not _is_ignored(name))


def _is_ignored(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in IGNORED)


def _is_nobodys(path: Path) -> bool:
    """Return whether what lies among the students' folders is of a tool, or a hidden file; a folder of any other name is a student's."""
    return (
        path.name in TOOL_FOLDERS
        if os.path.isdir(path)
        else path.name.startswith(".") or is_a_tools(PurePath(path.name))
    )


def _holds_no_work(path: Path) -> bool:
    """Return whether what lies in a student's folder is of their tools, or hidden without a notebook in it."""
    return _is_nobodys(path) or (path.name.startswith(".") and not any(path.glob("*.ipynb")))


def _hidden_last(name: str) -> tuple[bool, str]:
    return name.startswith("."), name


def with_files_of_master(handed_in: Mapping[str, bytes], masters: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files that lie beside a notebook: the master's, and those handed in that do not stand in their way."""
    folders = {folder for name in masters for folder in _folders_of(name)}
    clashing = {name for name in handed_in if name in folders or not masters.keys().isdisjoint(_folders_of(name))}
    return {name: content for name, content in handed_in.items() if name not in clashing} | dict(masters)


def _folders_of(name: str) -> list[str]:
    return [str(folder) for folder in PurePosixPath(name).parents]


def _content(path: Path) -> bytes:
    """Return the bytes of a file that may be anything; raises NotGradable where it is no file, or too large to be a notebook."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise NotGradable("the notebook is a link, or not a regular file: hand in the file itself")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise NotGradable(f"the file cannot be read ({error.strerror})") from None
    if len(content) > MAX_BYTES:
        raise NotGradable(f"the notebook is too large: {MAX_BYTES // 2**20} MB is the limit, so {CLEAR}")
    return content


def _items(value: Any, name: str) -> list:
    """Return a list of a JSON object, empty where there is none."""
    items = value.get(name) if isinstance(value, dict) else None
    return items if isinstance(items, list) else []


def _plain_cell(cell: dict) -> NotebookNode:
    """Return a cell with what grading reads, and nothing else: kind, source, and the grade id and points that it claims."""
    source = _joined(cell.get("source", cell.get("input", cell.get("code", ""))))  # the last two: formats before 2015
    metadata = cell.get("metadata")
    claims = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    claims = claims if isinstance(claims, dict) else {}
    kept = {name: claims[name] for name in ("grade_id", "points") if isinstance(claims.get(name), str | int | float)}
    text = source.encode("utf-8", "replace").decode()
    if cell.get("cell_type") == "code":
        return nbformat.v4.new_code_cell(text, metadata={"nbgrader": kept})
    shown = pictures(cell.get("attachments"))
    found = nbformat.v4.new_markdown_cell(without_dead_pictures(text, shown), metadata={"nbgrader": kept})
    return found if not shown else NotebookNode(found | {"attachments": shown})


def _joined(text: Any) -> str:
    """Return a text that a notebook may keep as a list of lines."""
    return "".join(map(str, text)) if isinstance(text, list) else str(text)


def chapter_of(notebook: NotebookNode, aliases: Collection[str] = ()) -> str:
    """Return the chapter that a notebook begins, "" for none; `aliases` are other names under which it calls `begin`.

    Nothing is parsed: a student's mistake in the same cell hides no chapter.
    """
    source = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    begin = "|".join([r"(?:\w+\.)?begin", *map(re.escape, aliases)])
    call = rf"(?:^|;)[ \t]*(?:\w+ *= *)?(?:{begin})\(\s*(?:chapter *= *)?([\"'])(\w+)\1\s*[,)]"
    begun = re.search(call, source, re.MULTILINE)
    return begun[2] if begun else ""
