"""The learner's own copies of the notebooks, in work/: made at the first start, and never overwritten.

work/.course/ keeps the originals that they were made from, each with the version of the course, so that `coursekit update`
knows what the learner has written.
"""

import contextlib
import json
import tomllib
import uuid
from collections.abc import Iterator
from pathlib import Path

import filelock
import nbformat
from nbformat import NotebookNode

from coursekit.basics.cards import plural
from coursekit.basics.cells import PREDICT, content_digest, prediction
from coursekit.basics.errors import CommandError
from coursekit.basics.files import write_whole
from coursekit.basics.paths import ROOT, typed
from coursekit.basics.readers_language import chosen
from coursekit.basics.translations import SOURCE
from coursekit.machine import linked

UNKNOWN = "unknown"
NOT_A_NOTEBOOK = (ValueError, KeyError, TypeError, AttributeError, RecursionError, nbformat.ValidationError)


class Unreadable(CommandError):
    """A file is no notebook: which, why, and what to do."""

    def __init__(self, path: Path, error: Exception):
        name = path.relative_to(path.parents[1])
        step = (
            f"It was left unchanged. Rename it, and `coursekit update` gives you a fresh {path.name}."
            if path.parent.name == "work"
            else f"It is part of the course: restore it (`git checkout {name}`, or from the zip or the wheel)."
        )
        super().__init__(f"{name} is not a readable notebook ({' '.join(str(error).split())[:200]}). {step}")


def course_version(root: Path = ROOT) -> str:
    """Return the version of the course that lies here."""
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


def work(root: Path, name: str) -> Path:
    """Return where the learner's copy of a chapter lies."""
    return root / "work" / f"{name}.ipynb"


def original(root: Path, name: str) -> Path:
    """Return where the notebook lies that the learner's copy was made from."""
    return root / "work" / ".course" / f"{name}.ipynb"


def published(root: Path, name: str) -> Path:
    """Return where the course's notebook of a chapter lies, in English."""
    return root / "notebooks" / f"{name}.ipynb"


def chapters(root: Path) -> list[str]:
    """Return the names of the chapters that the course has."""
    return sorted(path.stem for path in (root / "notebooks").glob("ch*.ipynb"))


def copied(root: Path) -> list[str]:
    """Return the names of the chapters of which the learner has a copy, also of those that the course has no longer."""
    kept = {path.stem for path in original(root, "").parent.glob("ch*.ipynb")}
    return sorted(kept | {name for name in chapters(root) if work(root, name).exists()})


def need_notebooks(root: Path = ROOT) -> None:
    """Raise CommandError where the course's notebooks are missing, as beside a coursekit that was installed without its folder."""
    if not chapters(root):
        raise CommandError(
            f"There are no notebooks in {root / 'notebooks'}: coursekit works from the course's own folder. "
            "Go there and run `make lab`. If you have just written chapters, build them first: coursekit build"
        )


def fill(root: Path = ROOT) -> list[str]:
    """Copy the chapters that work/ lacks, and return their names."""
    need_notebooks(root)
    with writing(root):
        missing = [name for name in chapters(root) if not work(root, name).exists()]
        for name in missing:
            notebook = read(published(root, name))
            keep_original(root, name, notebook)
            notebook.cells = linked.for_copy(notebook.cells, name, chosen(root), root)
            write_whole(work(root, name), text_of(notebook))
        linked.write(root, chosen(root))
    return missing


def added(names: list[str]) -> str:
    """Return what to tell a learner who got new copies, "" where there are none."""
    if not names:
        return ""
    copied = plural(len(names), "notebook")
    return f"Copied {copied} into work/, your own folder: the course never overwrites what you write there."


def behind(root: Path = ROOT) -> str:
    """Return what to tell a learner whose copies were made from another text than the course's, "" for one whose were not."""
    if others := other_versions(root):
        found = f"Your notebooks in work/ have version {', '.join(others)}, and the course is at {course_version(root)}"
    elif names := [name for name in copied(root) if not is_current(root, name)]:
        found = f"The course's text has changed since you got your {plural(len(names), 'notebook')} {', '.join(names)}"
    else:
        return ""
    by = f"`coursekit update`, or `{typed('update')}`,"
    return f"{found}: {by} brings them up to date, and keeps everything that you wrote."


def is_current(root: Path, name: str) -> bool:
    """Return whether the learner's copy was made from the text that the course has now; what cannot be read is not."""
    paths, language = (original(root, name), published(root, name)), chosen(root)
    try:
        old, new = (json.loads(path.read_text(encoding="utf-8"))["cells"] for path in paths)
        if old == new and language == SOURCE:
            return True
        cells = read(paths[1]).cells
        return read(paths[0]).cells == as_built(cells, linked.for_copy(cells, name, language, root))
    except (OSError, Unreadable, *NOT_A_NOTEBOOK):
        return False


def other_versions(root: Path) -> list[str]:
    """Return the versions of the learner's copies that are not the course's."""
    return sorted({version(root, name) for name in copied(root)} - {course_version(root)})


def version(root: Path, name: str) -> str:
    """Return the version of the course that the learner's copy of a chapter was made from."""
    try:
        metadata = json.loads(original(root, name).read_text(encoding="utf-8"))["metadata"]
        return str(metadata["coursekit"]["version"])
    except (OSError, ValueError, KeyError, TypeError):
        return UNKNOWN


def keep_original(root: Path, name: str, notebook: NotebookNode) -> None:
    """Remember a chapter as it comes from this version of the course, in the learner's language."""
    kept = nbformat.from_dict(notebook)
    kept.cells = as_built(kept.cells, linked.for_copy(kept.cells, name, chosen(root), root))
    kept.metadata["coursekit"] = {"version": course_version(root)}
    write_whole(original(root, name), text_of(kept))


def as_built(cells: list[NotebookNode], shown: list[NotebookNode] | None = None) -> list[NotebookNode]:
    """Return the cells that are as the course wrote them, without outputs: in notebooks/ they may have been edited and run.

    They are returned as in `shown`, the same cells in another language.
    """
    from nbgrader.utils import compute_checksum  # slow to import: only when copies are made

    def untouched(cell: NotebookNode) -> bool:
        if "nbgrader" in cell.metadata:
            return cell.metadata.nbgrader.get("checksum") == compute_checksum(cell)
        if cell.id.startswith(PREDICT):
            return bool((asked := prediction(cell.source)) and asked.is_open)
        return cell.id.startswith(f"{content_digest(cell)}-")

    both = zip(cells, cells if shown is None else shown, strict=True)
    return [_without_outputs(seen) for cell, seen in both if untouched(cell)]


def _without_outputs(cell: NotebookNode) -> NotebookNode:
    return NotebookNode(cell | {"outputs": [], "execution_count": None}) if cell.cell_type == "code" else cell


def read(path: Path) -> NotebookNode:
    """Return a notebook with what a cell must have: metadata, an id, outputs; raises Unreadable."""
    try:
        return _read(path)
    except NOT_A_NOTEBOOK as error:
        raise Unreadable(path, error) from None


def _read(path: Path) -> NotebookNode:
    document = json.loads(path.read_text(encoding="utf-8-sig"))
    for cell in document.get("cells", []):
        cell.setdefault("metadata", {})
    notebook = nbformat.convert(nbformat.reader.reads(json.dumps(document)), 4)
    for cell in notebook.cells:
        cell.setdefault("id", uuid.uuid4().hex[:8])
        if cell.cell_type == "code":
            cell.setdefault("outputs", [])
            cell.setdefault("execution_count", None)
    notebook.nbformat_minor = max(notebook.nbformat_minor, 5)
    nbformat.validate(notebook)
    return notebook


def text_of(notebook: NotebookNode) -> str:
    """Return a notebook as a file's text, in JupyterLab's manner."""
    return nbformat.writes(notebook, indent=1, sort_keys=True) + "\n"


@contextlib.contextmanager
def writing(root: Path) -> Iterator[None]:
    """Let one command at a time write into work/; raises CommandError where the disk refuses."""
    folder = original(root, "").parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(folder / ".lock", timeout=60):
            yield
    except (OSError, filelock.Timeout) as error:
        raise CommandError(
            f"A file in {root / 'work'} could not be read or written: {error}. "
            "Nothing that you wrote is lost. Fix that, and then run the same command again."
        ) from None
