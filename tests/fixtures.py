"""nbgrader's own notebooks, as its wheel installs them: 87 files, read where they lie, and courses made of them."""

import json
import shutil
from collections.abc import Container, Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import nbformat
import nbgrader
from nbgrader.nbgraderformat import MetadataValidator, SchemaTooNewError, SchemaTooOldError, ValidationError

from coursekit.basics.errors import CommandError
from coursekit.grading.grading_plan import Master
from coursekit.grading.nbgrader_settings import refuse_malformed
from tests.nbgrader_courses import nbgrader as run_nbgrader

INSTALLED = Path(nbgrader.__file__).parent
GUIDE, APPS = INSTALLED / "docs/source/user_guide", INSTALLED / "tests/apps/files"
ALL = sorted(INSTALLED.rglob("*.ipynb"))
EACH = "each"  # the assignment in which each notebook is a source: solved, as it was handed out, with its tests edited


def name_of(path: Path) -> str:
    """Return a name for a notebook, unlike those of the others."""
    parts = path.relative_to(INSTALLED).with_suffix("").parts
    return "-".join(part for part in parts if part not in ("docs", "source", "tests", "files", "user_guide"))


def refusal(path: Path) -> str:
    """Return why a notebook cannot be a source, "" for one that can."""
    try:
        refuse_malformed(path, read(path))
    except CommandError as error:
        return str(error)
    return ""


@dataclass(frozen=True)
class Family:
    """An assignment of one notebook, with what nbgrader's own tests, or its guide, hand in for it."""

    source: nbformat.NotebookNode
    students: dict[str, nbformat.NotebookNode]
    refused: str = ""  # why nbgrader stops at these, where it does


def families() -> dict[str, Family]:
    """Return assignments by their names."""
    found = dict[str, Family]()
    for folder in sorted({path.parent for path in ALL if path.stem == "submitted-unchanged"}):
        handed = {path.stem: path for path in sorted(folder.glob("submitted-*.ipynb"))}
        changed = {name for name in handed if "type-changed" in name}
        source, students = read(folder / "submitted-unchanged.ipynb"), {name: read(handed[name]) for name in handed}
        with_ids = {name: nbformat.v4.upgrade(deepcopy(students[name])) for name in changed}
        without_ids = {name: students[name] for name in changed}
        name = f"submitted-{folder.parent.name}"
        found[name] = Family(source, students | with_ids)
        if changed:
            found[f"{name}-without-ids"] = Family(source, without_ids, "'id' is a required property")
    for path in sorted(APPS.glob("autotest-*.ipynb")):
        if students := {other.stem: read(other) for other in sorted(APPS.glob(f"{path.stem}-*.ipynb"))}:
            found[path.stem] = Family(read(path), students)
    for problem in ("problem1", "problem2"):
        paths = sorted(GUIDE.glob(f"submitted/*/ps1/{problem}.ipynb"))
        found[f"ps1-{problem}"] = Family(
            read(GUIDE / f"source/ps1/{problem}.ipynb"), {path.parts[-3]: read(path) for path in paths}
        )
    for version in ("v0", "v1", "v2"):
        path = APPS / f"test-{version}.ipynb"
        found[f"older-{version}"] = Family(updated(path), {"ada": read(path)}, "nbgrader update")
    return found


def read(path: Path) -> nbformat.NotebookNode:
    """Return a notebook as it is, without the ids that nbformat would give to its cells."""
    return nbformat.v4.reads(path.read_text(encoding="utf-8"))


def edited(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Return a notebook in which each locked cell says something else, and each test is worth more."""
    for cell in notebook.cells:
        meta = cell.metadata.get("nbgrader", {})
        if (meta.get("grade") or meta.get("locked")) and not meta.get("solution"):
            cell.source = "pass"
            meta |= {"points": 100} if "points" in meta else {}
    return notebook


def compared(assignment: str) -> int:
    """Return how many marks and comments there are to compare in an assignment, of all its students together."""
    if assignment == EACH:
        return 3 * sum(_marks(notebook) for _, notebook in sources())
    family = families()[assignment]
    return 0 if family.refused else len(family.students) * _marks(family.source)


def _marks(notebook: nbformat.NotebookNode) -> int:
    """Return the marks of a notebook's cells, and the comments on its answers: a task has both."""
    metas = [cell.metadata.get("nbgrader", {}) for cell in notebook.cells]
    return sum(bool(meta.get("grade")) + bool(meta.get("solution")) + 2 * bool(meta.get("task")) for meta in metas)


def updated(path: Path) -> nbformat.NotebookNode:
    """Return a notebook as `nbgrader update` leaves it."""
    return MetadataValidator().upgrade_notebook_metadata(read(path))


def sources() -> Iterator[tuple[str, nbformat.NotebookNode]]:
    """Yield the notebooks in which something is graded, by their names; those of an older nbgrader as it updates them."""
    for path in ALL:
        notebook = updated(path) if "`nbgrader update" in refusal(path) else read(path)
        if not why_not(notebook) and Master(path.stem, notebook, "").is_graded():
            yield name_of(path), notebook


def why_not(notebook: nbformat.NotebookNode) -> str:
    """Return why nbgrader takes no assignment with a notebook, "" where it does."""
    try:
        MetadataValidator().validate_nb(notebook)
    except (ValidationError, SchemaTooOldError, SchemaTooNewError) as error:
        return str(error)
    return ""


def make_course(folder: Path, assignments: Container[str]) -> None:
    """Make a course of some assignments, handed out by nbgrader, and hand them in."""
    wanted = {name: family for name, family in families().items() if name in assignments}
    masters = {name: {name: family.source} for name, family in wanted.items()}
    for assignment, notebooks in (masters | ({EACH: dict(sources())} if EACH in assignments else {})).items():
        place = folder / "source" / assignment
        place.mkdir(parents=True)
        for path in (APPS / "autotests.yml", APPS / "data.txt", APPS / "jupyter.png"):
            shutil.copy(path, place)
        for name, notebook in notebooks.items():
            (place / f"{name}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
        run_nbgrader(folder, "generate_assignment", assignment)
    if EACH in assignments:
        for student, kind in (("solved", "source"), ("unsolved", "release"), ("edited", "source")):
            shutil.copytree(folder / kind / EACH, folder / "submitted" / student / EACH)
        for path in (folder / "submitted/edited").rglob("*.ipynb"):
            path.write_text(json.dumps(edited(read(path))), encoding="utf-8")
    for name, family in wanted.items():
        for student, notebook in family.students.items():
            path = folder / "submitted" / student / name / f"{name}.ipynb"
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps(notebook), encoding="utf-8")


def table() -> str:
    """Return what was compared, as docs/marks.md shows it."""
    usable, own = list(sources()), families()
    compared_families = {name: family for name, family in own.items() if not family.refused}
    nothing = [path for path in ALL if not why_not(read(path)) and not Master("", read(path), "").is_graded()]
    others = len(ALL) - len(usable) - len(nothing)
    handed = sum(len(family.students) for family in compared_families.values())
    rows = [
        ("notebooks as sources, each solved, unsolved, and with its tests edited", len(usable), compared(EACH)),
        ("hand-ins from nbgrader's tests and guide", handed, sum(map(compared, compared_families))),
        ("notebooks in which nothing is graded", len(nothing), 0),
        ("notebooks that both refuse as sources", others, 0),
    ]
    lines = ["| what | notebooks | marks and comments |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {what} | {count} | {marks or '–'} |" for what, count, marks in rows)])
