"""What was handed in, beside what was handed out: which cells run, which are judged, and what had to be put right."""

import ast
import hashlib
import json
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from coursekit import marks

MAX_BYTES = 20 * 1024 * 1024


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

    def digest(self) -> str:
        """Return a fingerprint of what was handed in, so that a new version is graded again."""
        try:
            return hashlib.sha256(self.path.read_bytes()[:MAX_BYTES]).hexdigest()[:16]
        except OSError:
            return ""


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
        begun = re.search(r"^begin\(\"(\w+)\"\)", "\n".join(cell.source for cell in notebook.cells), re.MULTILINE)
        return cls(path.stem, notebook, begun[1] if begun else "")

    def tests(self) -> dict[str, NotebookNode]:
        """Return the test cells by their grade id, in order."""
        return {meta["grade_id"]: cell for cell, meta in self._graded() if not meta.get("solution")}

    def manual(self) -> set[str]:
        """Return the grade ids of the answers that a person grades."""
        return {meta["grade_id"] for _, meta in self._graded() if meta.get("solution")}

    def _graded(self) -> Iterator[tuple[NotebookNode, dict]]:
        for cell in self.notebook.cells:
            meta = cell.metadata.get("nbgrader", {})
            if meta.get("grade"):
                yield cell, meta

    def demos(self) -> set[str]:
        """Return the sources of the cells that grading leaves out while they are unedited."""
        return {cell.source.strip() for cell in self.notebook.cells if "demo" in cell.metadata.get("tags", [])}

    def digest(self) -> str:
        """Return a fingerprint of the graded cells."""
        text = json.dumps([[name, cell.source, cell.metadata] for name, cell in self.tests().items()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


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
    for student in sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith(".")):
        for folder in sorted(path for path in student.iterdir() if path.name in assignments):
            notebooks = sorted(folder.glob("*.ipynb")) if folder.is_dir() and not folder.is_symlink() else []
            if not notebooks:
                problem = "no notebook was handed in" if folder.is_dir() else "the folder is not a folder"
                found.append(Submission(student.name, folder.name, folder.name, folder, problem))
            found += [Submission(student.name, folder.name, path.stem, path) for path in notebooks]
    return found


def read(path: Path) -> NotebookNode:
    """Return a student's notebook in the newest format; raises NotGradable with the reason."""
    try:
        mode = path.lstat()
        if not stat.S_ISREG(mode.st_mode):
            raise NotGradable("the notebook is a link or not a regular file: hand in the file itself")
        if mode.st_size > MAX_BYTES:
            raise NotGradable(f"the notebook has {mode.st_size / 2**20:.0f} MB; {MAX_BYTES // 2**20} MB is the limit")
        text = path.read_bytes().decode("utf-8")
        document = json.loads(text)
        if not isinstance(document, dict) or not ("cells" in document or "worksheets" in document):
            raise NotGradable("the file is not a notebook: it has no cells")
        notebook = nbformat.reads(text, as_version=4)
        notebook.cells = [_plain_cell(cell) for cell in notebook.cells]
    except NotGradable:
        raise
    except (
        OSError,
        ValueError,
        RecursionError,
        KeyError,
        TypeError,
        AttributeError,
        nbformat.ValidationError,
    ) as error:
        raise NotGradable(f"the file is not a readable notebook ({type(error).__name__}: {str(error)[:200]})") from None
    return notebook


def _plain_cell(cell: NotebookNode) -> NotebookNode:
    """Return a cell with what grading reads, and nothing else: kind, source, and metadata that is a dict."""
    kind = cell.get("cell_type")
    source = cell.get("source", "")
    source = "".join(map(str, source)) if isinstance(source, list) else str(source)
    metadata = cell.get("metadata")
    kept = (
        {"nbgrader": metadata["nbgrader"]}
        if isinstance(metadata, dict) and isinstance(metadata.get("nbgrader"), dict)
        else {}
    )
    make = nbformat.v4.new_code_cell if kind == "code" else nbformat.v4.new_markdown_cell
    return make(source, metadata=kept)


def plan(notebook: NotebookNode, master: Master) -> Plan:
    """Return how a submission is graded: every test cell of the master once, as the master has it."""
    tests, demos = master.tests(), master.demos()
    steps: list[Step] = []
    notes: list[str] = []
    seen: set[str] = set()
    for cell in notebook.cells:
        grade_id = str(cell.metadata.get("nbgrader", {}).get("grade_id", ""))
        if grade_id in seen:
            notes.append(f"the test cell {grade_id} was there twice: the second was left out")
        elif grade_id in tests:
            seen.add(grade_id)
            if cell.source != tests[grade_id].source or cell.metadata.nbgrader.get("points") != _points(
                tests[grade_id]
            ):
                notes.append(f"the test cell {grade_id} was edited: the original was used")
            steps.append(_test_step(tests[grade_id]))
        elif cell.cell_type != "code":
            steps.append(Step("text", cell))
        elif cell.source.strip() in demos:
            steps.append(Step("demo", cell))
        else:
            steps.append(Step("run", cell))
    _insert_missing(steps, tests, seen, notes)
    return Plan(steps, notes)


def _insert_missing(steps: list[Step], tests: dict[str, NotebookNode], seen: set[str], notes: list[str]) -> None:
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
        return marks.defined_names(source)
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
