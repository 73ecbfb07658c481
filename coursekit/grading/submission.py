"""What was handed in, beside what was handed out: which cells run, which are judged, and what had to be put right."""

import ast
import hashlib
import json
import re
import stat
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from coursekit.notebook import defined_names

MAX_BYTES = 20 * 1024 * 1024
MAX_CELLS = 2000
MAX_PARSED = 100_000  # characters of a cell in which a name is looked for


class NotGradable(Exception):
    """A submission that cannot be graded; the message is the reason, for the student and the instructor."""


@dataclass(frozen=True)
class Submission:
    """One notebook that one student handed in for one assignment; `problem` says why there is none to read."""

    student: str
    assignment: str
    notebook: str
    path: Path
    problem: str = ""

    @property
    def key(self) -> str:
        """Return the name under which the outcome is recorded."""
        return f"{self.student}/{self.assignment}/{self.notebook}"

    def names(self) -> set[str]:
        """Return the names by which `--only` may choose it."""
        return {self.student, self.assignment, f"{self.student}/{self.assignment}", self.key}

    @property
    def folder(self) -> Path:
        """Return the folder that was handed in."""
        return self.path if self.problem else self.path.parent

    @cached_property
    def digest(self) -> str:
        """Return a fingerprint of what was handed in, so that a new version is graded again."""
        try:
            return hashlib.sha256(_content(self.path)).hexdigest()[:16]
        except NotGradable as reason:
            return str(reason)[:40]


@dataclass(frozen=True)
class Master:
    """The instructor's version of a notebook: the truth about test cells, points and demo cells."""

    name: str
    notebook: NotebookNode
    chapter: str

    @classmethod
    def of(cls, path: Path) -> "Master":
        """Read a source notebook; its chapter is the one that it begins with, "" where it is not a coursekit chapter."""
        notebook = nbformat.read(path, as_version=4)
        return cls(path.stem, notebook, _chapter(notebook))

    def tests(self) -> dict[str, NotebookNode]:
        """Return the test cells by their grade id, in order."""
        return {meta["grade_id"]: cell for cell, meta in self._known() if _is_test(meta)}

    def answers(self) -> dict[str, NotebookNode]:
        """Return the cells in which students write, and those that a person grades, by their grade id."""
        return {meta["grade_id"]: cell for cell, meta in self._known() if not _is_test(meta)}

    def by_hand(self) -> set[str]:
        """Return the grade ids of what a person grades."""
        return {name for name, cell in self.answers().items() if {"grade", "task"} & _switched_on(cell)}

    def _known(self) -> Iterator[tuple[NotebookNode, dict]]:
        for cell in self.notebook.cells:
            if "grade_id" in (meta := cell.metadata.get("nbgrader", {})):
                yield cell, meta

    def demos(self) -> set[str]:
        """Return the sources of the cells that grading leaves out while they are unedited."""
        return {cell.source.strip() for cell in self.notebook.cells if "demo" in cell.metadata.get("tags", [])}


def _chapter(notebook: NotebookNode) -> str:
    """Return the chapter that a notebook begins, "" for none."""
    begun = re.search(r"^begin\(\"(\w+)\"\)", "\n".join(cell.source for cell in notebook.cells), re.MULTILINE)
    return begun[1] if begun else ""


def _is_test(meta: dict) -> bool:
    return bool(meta.get("grade")) and not meta.get("solution")


def _switched_on(cell: NotebookNode) -> set[str]:
    return {name for name, value in cell.metadata.nbgrader.items() if value is True}


@dataclass
class Step:
    """One cell of the notebook as it will be graded: `kind` is text, demo, run, check, quiz or test."""

    kind: str
    cell: NotebookNode
    name: str = ""  # of the exercise or quiz, or the grade id of an instructor's own test
    points: int | float = 0


@dataclass
class Plan:
    """The cells of a submission in the order in which they are graded, and what had to be put right."""

    steps: list[Step]
    notes: list[str] = field(default_factory=list)


def find(root: Path, assignments: set[str]) -> list[Submission]:
    """Return every submission below `root`, laid out as <student>/<assignment>/*.ipynb."""
    found = []
    for student in (path for path in _listed(root) if path.is_dir() and not path.name.startswith(".")):
        for folder in (path for path in _listed(student) if path.name in assignments):
            linked = student.is_symlink() or folder.is_symlink() or not folder.is_dir()
            notebooks = [] if linked else [path for path in _listed(folder) if path.suffix == ".ipynb"]
            if not notebooks:
                problem = "the folder is a link, or no folder" if linked else "no notebook was handed in"
                found.append(Submission(_text(student.name), folder.name, folder.name, folder, problem))
            found += [Submission(_text(student.name), folder.name, _text(path.stem), path) for path in notebooks]
    return found


def _listed(folder: Path) -> list[Path]:
    """Return what is in a folder, in order; nothing where it cannot be read."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def find_one(path: Path) -> list[Submission]:
    """Return a single notebook as a submission: of the chapter that it begins, by a student of the file's name."""
    try:
        chapter = _chapter(read(path)) or path.stem
    except NotGradable:
        chapter = path.stem
    return [Submission(_text(path.stem), _text(chapter), _text(chapter), path)]


def _text(name: str) -> str:
    """Return the name of a file as text that can be written anywhere; on Linux it may be any bytes."""
    return name.encode("utf-8", "backslashreplace").decode()


def read(path: Path) -> NotebookNode:
    """Return the cells of a student's notebook, whatever its format; raises NotGradable with the reason."""
    try:
        document = json.loads(_content(path).decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        reason = f"the file is not a readable notebook ({type(error).__name__}: {str(error)[:200]})"
        raise NotGradable(reason) from None
    sheets = [document, *_items(document, "worksheets")]  # the formats before 2015 had sheets
    cells = [cell for sheet in sheets for cell in _items(sheet, "cells") if isinstance(cell, dict)]
    if not any(isinstance(sheet, dict) and isinstance(sheet.get("cells"), list) for sheet in sheets):
        raise NotGradable("the file is not a notebook: it has no list of cells")
    if len(cells) > MAX_CELLS:
        raise NotGradable(f"the notebook has {len(cells)} cells; {MAX_CELLS} is the limit")
    return nbformat.v4.new_notebook(cells=[_plain_cell(cell) for cell in cells])


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
        raise NotGradable(f"the notebook is too large: {MAX_BYTES // 2**20} MB is the limit")
    return content


def _items(value: Any, name: str) -> list:
    """Return a list of a JSON object, empty where there is none."""
    items = value.get(name) if isinstance(value, dict) else None
    return items if isinstance(items, list) else []


def _plain_cell(cell: dict) -> NotebookNode:
    """Return a cell with what grading reads, and nothing else: kind, source, and the grade id and points that it claims."""
    source = cell.get("source", cell.get("input", cell.get("code", "")))  # the last two: formats before 2015
    source = "".join(map(str, source)) if isinstance(source, list) else str(source)
    metadata = cell.get("metadata")
    claims = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    claims = claims if isinstance(claims, dict) else {}
    kept = {name: claims[name] for name in ("grade_id", "points") if isinstance(claims.get(name), str | int | float)}
    make = nbformat.v4.new_code_cell if cell.get("cell_type") == "code" else nbformat.v4.new_markdown_cell
    return make(source.encode("utf-8", "replace").decode(), metadata={"nbgrader": kept})


def plan(notebook: NotebookNode, master: Master) -> Plan:
    """Return how a submission is graded: every test cell of the master once, as the master has it."""
    tests, answers, demos = master.tests(), master.answers(), master.demos()
    steps: list[Step] = []
    notes: list[str] = []
    last = {str(cell.metadata.nbgrader.get("grade_id", "")): cell for cell in notebook.cells}
    for cell in notebook.cells:
        claims = cell.metadata.pop("nbgrader")
        grade_id = str(claims.get("grade_id", ""))
        if grade_id in tests and last[grade_id] is not cell:
            notes.append(f"the test cell {grade_id} was there more than once: the last was used")  # as nbgrader does
        elif grade_id in tests:
            if cell.source != tests[grade_id].source or claims.get("points") != _points(tests[grade_id]):
                notes.append(f"the test cell {grade_id} was edited: the original was used")
            steps.append(_test_step(tests[grade_id]))
        else:
            if grade_id in answers:
                cell.metadata.nbgrader = answers[grade_id].metadata.nbgrader
            steps.append(Step(_kind(cell, demos), cell))
    _insert_missing(steps, tests, last, notes)
    missing = sorted(master.by_hand() - set(last))
    notes += [f"the answer {name}, which a person grades, is missing" for name in missing]
    return Plan(steps, list(dict.fromkeys(notes)))


def _kind(cell: NotebookNode, demos: set[str]) -> str:
    if cell.cell_type != "code":
        return "text"
    return "demo" if cell.source.strip() in demos else "run"


def _insert_missing(steps: list[Step], tests: dict[str, NotebookNode], seen: Container[str], notes: list[str]) -> None:
    """Put each missing test cell behind the answer that it tests, else behind the test before it, else at the end."""
    before = ""
    for grade_id, test in tests.items():
        if grade_id not in seen:
            notes.append(f"the test cell {grade_id} was missing: it was put back")
            wanted = f"answer_{grade_id}"
            places = [
                index
                for index, step in enumerate(steps)
                if step.cell.metadata.get("nbgrader", {}).get("grade_id") in (wanted, before or None)
                or (step.kind == "run" and grade_id in _defined(step.cell.source))
            ]
            steps.insert(places[-1] + 1 if places else len(steps), _test_step(test))
        before = grade_id


def _defined(source: str) -> list[str]:
    try:
        return defined_names(source) if len(source) < MAX_PARSED else []
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _test_step(cell: NotebookNode) -> Step:
    """Return the step of a master's graded cell: a coursekit check or quiz, or an instructor's own test."""
    copy = nbformat.from_dict(cell)
    copy.outputs = []
    for function, name in _checks(cell.source):
        return Step(function, copy, name, _points(cell))
    return Step("test", copy, cell.metadata.nbgrader.grade_id, _points(cell))


def _checks(source: str) -> Iterator[tuple[str, str]]:
    """Yield the coursekit calls of a test cell that consists of one such call and nothing else."""
    body = ast.parse(source).body
    if len(body) == 1 and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Call):
        call = body[0].value
        if isinstance(call.func, ast.Name) and call.func.id in ("check", "quiz") and len(call.args) == 2:
            first, second = call.args
            if isinstance(first, ast.Constant) and isinstance(second, ast.Name) and first.value == second.id:
                yield call.func.id, second.id


def _points(cell: NotebookNode) -> int | float:
    points = float(cell.metadata.nbgrader.get("points", 0))
    return int(points) if points.is_integer() else points
