"""What was handed in, beside what was handed out: which cells run, which are judged, and what had to be put right."""

import ast
import re
from collections.abc import Collection, Container, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode

from coursekit.basics.cells import JUDGES, defined_names, judged_by
from coursekit.basics.errors import CommandError
from coursekit.basics.paths import PACKAGE
from coursekit.basics.syntax import parse
from coursekit.grading.markup import inert, without_dead_pictures
from coursekit.grading.submission import chapter_of, files_beside
from coursekit.judging.exercise import UnknownName, find, load

MAX_PARSED = 100_000  # characters of all cells together in which a name is looked for: five times the longest chapter
MAX_TEXT = 50_000  # characters of a student's own texts that are shown: some take nbconvert the square of their length
_HIDDEN = re.compile(
    r"^[^\n]*(### BEGIN HIDDEN TESTS.*?### END HIDDEN TESTS|=== BEGIN MARK SCHEME ===.*?=== END MARK SCHEME ===)[^\n]*",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Master:
    """The instructor's version of a notebook: the truth about test cells, points and demo cells."""

    name: str
    notebook: NotebookNode
    chapter: str
    files: dict[str, bytes] = field(default_factory=dict)  # that lie beside it: data, modules
    uncounted: frozenset[str] = frozenset()  # quizzes that earn nothing in this class

    @classmethod
    def of(cls, path: Path, quizzes: bool = True) -> "Master":
        """Read a source notebook; its chapter is the one that it begins with, "" where it is not a coursekit chapter.

        Without `quizzes`, those of the chapter are judged and earn nothing.
        """
        notebook = _read(path)
        chapter = chapter_of(notebook, _names_for(["begin"], notebook))
        uncounted = set[str]()
        for cell in notebook.cells if chapter and not quizzes else []:
            if "points" in cell.metadata.get("nbgrader", {}) and (judged_by(cell.source) or [""])[0] == "quiz":
                cell.metadata.nbgrader.points = 0
                uncounted.add(cell.metadata.nbgrader.grade_id)
        return cls(path.stem, notebook, chapter, {} if chapter else files_beside(path), frozenset(uncounted))

    def imports(self) -> str:
        """Return what a nursery should have imported for it; see `coursekit.sandbox.learner_process.prepare`."""
        code = "".join(cell.source for cell in self.notebook.cells if cell.cell_type == "code")
        if self.chapter:
            given = PACKAGE / "given" / f"{self.chapter}.py"
            code += given.read_text(encoding="utf-8") if given.is_file() else ""
            return "all" if re.search("torch|rllib|gymnasium", code) else "ray"
        return "plain" if re.search("pandas|matplotlib", code) else "base"

    def tests(self) -> dict[str, NotebookNode]:
        """Return the test cells by their grade id, in order."""
        return {meta["grade_id"]: cell for cell, meta in self._known() if _is_test(meta)}

    def others(self) -> dict[str, NotebookNode]:
        """Return the other cells that nbgrader knows, by their grade id: answers, what a person grades, locked cells."""
        return {meta["grade_id"]: cell for cell, meta in self._known() if not _is_test(meta)}

    def _known(self) -> Iterator[tuple[NotebookNode, dict]]:
        for cell in self.notebook.cells:
            if "grade_id" in (meta := cell.metadata.get("nbgrader", {})):
                yield cell, meta

    def is_graded(self) -> bool:
        """Return whether it holds anything that earns points, so that it has to be handed in."""
        return any(_earns_points(meta) for _, meta in self._known())

    def mixed(self) -> list[str]:
        """Return the test cells that call a check other than by itself and by its name: nobody would hear what it says.

        Where no chapter is begun, each test cell that calls a check of coursekit is one.
        """
        calls = _names_for(JUDGES, self.notebook) | (set(JUDGES) if self.chapter else set())
        tests = self.tests().items()
        calling = {name: cell for name, cell in tests if calls & _called(cell.source)}
        return [name for name, cell in calling.items() if not (self.chapter and judged_by(cell.source))]

    def unknown(self) -> str:
        """Return why a check in its test cells cannot be judged: no such chapter, or no such name in it; "" where all can be."""
        checks = filter(None, (judged_by(cell.source) for cell in self.tests().values()))
        try:
            if self.chapter:
                load(self.chapter)
                for function, name in checks:
                    find(self.chapter, name, JUDGES[function])
        except UnknownName as error:
            return str(error)
        return ""

    def demos(self) -> set[str]:
        """Return the sources of the cells that grading leaves out while they are unedited."""
        return {cell.source.strip() for cell in self.notebook.cells if "demo" in cell.metadata.get("tags", [])}


def imports_of(masters: Iterable[Master]) -> str:
    """Return what a nursery should have imported for some notebooks: Ray where one is of a chapter, torch too where that needs it."""
    return min((master.imports() for master in masters), key=["all", "ray", "plain", "base"].index, default="base")


def _read(path: Path) -> NotebookNode:
    try:
        return nbformat.read(path, as_version=4)
    except Exception as error:  # nbformat stumbles over what is no notebook in many ways
        said = f"{type(error).__name__}: {str(error)[:200]}"
        raise CommandError(f"{path} is not a readable notebook ({said}). Open it in JupyterLab and save it.") from None


def _is_test(meta: dict) -> bool:
    return bool(meta.get("grade")) and not meta.get("solution")


def _earns_points(meta: dict) -> bool:
    return bool(meta.get("grade") or meta.get("task"))


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


def plan(notebook: NotebookNode, master: Master) -> Plan:
    """Return how a submission is graded: every test cell of the master once, as the master has it."""
    tests, others, demos = master.tests(), master.others(), master.demos()
    steps: list[Step] = []
    notes: list[str] = []
    last = {str(cell.metadata.nbgrader.get("grade_id", "")): cell for cell in notebook.cells}
    for cell in notebook.cells:
        claims = cell.metadata.pop("nbgrader")
        grade_id = str(claims.get("grade_id", ""))
        if grade_id in tests and last[grade_id] is not cell:
            notes.append(f"the test cell {grade_id} was there more than once: the last was used")  # as nbgrader does
        elif grade_id in tests:
            worth = grade_id in master.uncounted or claims.get("points") == points_of(tests[grade_id])
            if _is_edited(cell, tests[grade_id]) or not worth:
                notes.append(f"the test cell {grade_id} was edited: the original was used")
            steps.append(_test_step(tests[grade_id], master))
        else:
            known = _put_right(cell, others[grade_id], notes) if grade_id in others else cell
            steps.append(Step(_kind(known, demos), known))
    _insert_missing(steps, master, last, notes)
    _make_texts_inert(steps, master, notes)
    by_hand = [name for name, cell in others.items() if _earns_points(cell.metadata.nbgrader)]
    notes += [f"the answer {name}, which a person grades, is missing" for name in by_hand if name not in last]
    return Plan(steps, list(dict.fromkeys(notes)))


def _make_texts_inert(steps: Iterable[Step], master: Master, notes: list[str]) -> None:
    """Change each text that was not handed out, so that no page which shows it does what its student wants, or takes hours."""
    handed_out, left = {cell.source for cell in master.notebook.cells}, MAX_TEXT
    for cell in (step.cell for step in steps if step.kind == "text" and step.cell.source not in handed_out):
        if len(cell.source) > left:
            notes.append(f"of its texts, the first {MAX_TEXT} characters are shown")
            cell.source = f"{cell.source[:left]} …"
        left -= min(left, len(cell.source))
        cell.source = inert(without_dead_pictures(cell.source, cell.get("attachments", {})))  # a name may be cut


def _is_edited(cell: NotebookNode, original: NotebookNode) -> bool:
    """Return whether a cell differs from what was handed out: the original without its hidden tests and its mark scheme."""
    handed_out = _HIDDEN.sub("", original.source)
    return "".join(cell.source.split()) != "".join(handed_out.split())


def _put_right(cell: NotebookNode, original: NotebookNode, notes: list[str]) -> NotebookNode:
    """Return an answer with the kind and the metadata of the original; a locked cell as the original has it."""
    meta, source = original.metadata.nbgrader, cell.source
    if meta.get("locked") and not meta.get("solution"):
        if _is_edited(cell, original):
            notes.append(f"the locked cell {meta.grade_id} was edited: the original was used")
        source = original.source
    if source != cell.source or cell.cell_type != original.cell_type:
        cell = (nbformat.v4.new_code_cell if original.cell_type == "code" else nbformat.v4.new_markdown_cell)(source)
    cell.metadata.nbgrader = meta
    return cell


def _kind(cell: NotebookNode, demos: set[str]) -> str:
    if cell.cell_type != "code":
        return "text"
    return "demo" if cell.source.strip() in demos else "run"


def _insert_missing(steps: list[Step], master: Master, seen: Container[str], notes: list[str]) -> None:
    """Put each missing test cell behind the answer that it tests and what comes before it in the master, else at the end."""
    order = [meta["grade_id"] for _, meta in master._known()]
    missing = [grade_id for grade_id in master.tests() if grade_id not in seen]
    defined = _defined(steps) if missing else {}
    for grade_id, test in master.tests().items():
        if grade_id in missing:
            notes.append(f"the test cell {grade_id} was missing: it was put back")
            before = {f"answer_{grade_id}", *order[: order.index(grade_id)]}
            places = [
                index
                for index, step in enumerate(steps)
                if step.cell.metadata.get("nbgrader", {}).get("grade_id") in before
                or grade_id in defined.get(id(step), ())
            ]
            steps.insert(places[-1] + 1 if places else len(steps), _test_step(test, master))


def _defined(steps: Iterable[Step]) -> dict[int, set[str]]:
    """Return the names that cells define, by the ids of their steps, for as many cells as can be parsed in little time."""
    found, left = dict[int, set[str]](), MAX_PARSED
    for step in sorted(steps, key=lambda step: len(step.cell.source)):  # data that is long stands in no answer's way
        if step.kind == "run" and len(step.cell.source) <= left:
            left -= len(step.cell.source)
            found[id(step)] = set(defined_names(step.cell.source))
    return found


def _test_step(cell: NotebookNode, master: Master) -> Step:
    """Return the step of a master's graded cell: a check or quiz of its chapter, or an instructor's own test."""
    copy = nbformat.from_dict(cell)
    copy.outputs = []
    if master.chapter and (call := judged_by(cell.source)):
        return Step(call[0], copy, call[1], points_of(cell))
    return Step("test", copy, cell.metadata.nbgrader.grade_id, points_of(cell))


def _called(source: str) -> set[str]:
    """Return the names that a cell calls, `coursekit.check` in full."""
    calls = [node.func for node in _nodes_of(source) if isinstance(node, ast.Call)]
    return {ast.unparse(function) for function in calls if isinstance(function, ast.Name | ast.Attribute)}


def _names_for(functions: Collection[str], notebook: NotebookNode) -> set[str]:
    """Return the names by which an instructor's notebook imports functions of coursekit: `check`, `c`, `coursekit.check`."""
    found = set[str]()
    for cell in notebook.cells:
        for node in _nodes_of(cell.source) if cell.cell_type == "code" and "coursekit" in cell.source else []:
            if isinstance(node, ast.ImportFrom) and node.module in ("coursekit", "coursekit.learner.checks"):
                found |= {alias.asname or alias.name for alias in node.names if alias.name in functions}
                found |= set(functions) if node.names[0].name == "*" else set()
            elif isinstance(node, ast.Import):
                kits = [alias.asname or "coursekit" for alias in node.names if alias.name.split(".")[0] == "coursekit"]
                found |= {f"{kit}.{function}" for kit in kits for function in functions}
    return found


def _nodes_of(source: str) -> list[ast.AST]:
    """Return all nodes of an instructor's cell; none where it is no Python, which will be reported where it runs."""
    try:
        return list(ast.walk(parse(TransformerManager().transform_cell(source))))
    except SyntaxError:
        return []


def points_of(cell: NotebookNode) -> int | float:
    """Return what a test cell is worth."""
    points = float(cell.metadata.nbgrader.get("points", 0))
    return int(points) if points.is_integer() else points
