"""Hostile and broken submissions of chapter 0 (or CHAPTER): one a file, named by what it tries; its docstring says so in one sentence.

SCORE   the points of an honest judge: one for best_seconds, one for the quiz; None where nothing can be graded
REASON  a text that must stand in what is recorded for the student; "" where any will do: a point that was lost needs one
CELLS   code by its place: "first" (a cell behind the imports), "best_seconds" and "what_distribution_costs" (instead of
        the right answer, which stands there otherwise), "last"
make    instead of CELLS: `make(path, notebook)` writes to `path` what it makes of an honest notebook, a dict

COURSE_FOLDER, CHECKOUT_FOLDER, OPEN_PORT and STAY_SECONDS in the code stand for what `placed` puts there.

An attack that reaches what it wants shows it: it answers best_seconds right then, or leaves MARK behind. Never run one
outside a sandbox: without it they do what they say. GUARD, in front of every cell, sees to that.
"""

import json
import os
import pkgutil
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from coursekit.basics.paths import NOTEBOOKS, ROOT

GUARD = """import os
assert os.uname().nodename == "sandbox" and os.path.isdir("/home/learner"), "an attack must never run anywhere else"
"""
MARK = "left by an attack"
STAYS = str(
    987_000_000 + os.getpid()
)  # seconds for which a process stays: no other suite on this machine has this number
CHAPTER = "ch00_start"
RIGHT = {
    "best_seconds": "def best_seconds(tasks, seconds_each, workers):\n    return -(-tasks // workers) * seconds_each",
    "what_distribution_costs": 'what_distribution_costs = "c"',
}


@dataclass(frozen=True)
class Attack:
    """One file of this folder."""

    name: str
    tries: str
    score: int | None
    reason: str
    cells: dict[str, str]
    make: Callable[[Path, dict], object] | None
    chapter: str

    def hand_in(self, course: Path, port: int = 0) -> None:
        """Write the submission into a course folder, as a student of the attack's name; a port is listened to, outside."""
        path = course / "submitted" / self.name / self.chapter / f"{self.chapter}.ipynb"
        path.parent.mkdir(parents=True)
        if self.make:
            self.make(path, notebook())
        else:
            guarded = {place: GUARD + source for place, source in self.cells.items()}
            path.write_text(placed(json.dumps(notebook(**guarded)), course, port))


def placed(source: str, course: Path, port: int) -> str:
    """Return an attack's code with places and numbers of this machine instead of their names."""
    places = {"COURSE_FOLDER": course, "CHECKOUT_FOLDER": ROOT, "OPEN_PORT": port, "STAY_SECONDS": STAYS}
    for name, place in places.items():
        source = source.replace(name, str(place))
    return source


def attacks(prefix: str = "") -> list[Attack]:
    """Return all attacks whose names begin with `prefix`."""
    names = [module.name for module in pkgutil.iter_modules(__path__) if module.name.startswith(prefix)]
    return [_attack(name) for name in names]


def _attack(name: str) -> Attack:
    module = import_module(f"{__name__}.{name}")
    assert module.__doc__
    return Attack(
        name,
        module.__doc__.strip(),
        module.SCORE,
        module.REASON,
        getattr(module, "CELLS", {}),
        getattr(module, "make", None),
        getattr(module, "CHAPTER", CHAPTER),
    )


def notebook(**cells: str) -> dict:
    """Return chapter 0 as a student hands it in; right answers stand where `cells` names no others."""
    document: dict = json.loads((NOTEBOOKS / f"{CHAPTER}.ipynb").read_text(encoding="utf-8"))
    for name, source in (RIGHT | cells).items():
        answers = [cell for cell in document["cells"] if grade_id(cell) == f"answer_{name}"]
        for cell in answers:
            cell["source"] = source
    code = [index for index, cell in enumerate(document["cells"]) if cell["cell_type"] == "code"]
    for name, place in (("last", len(document["cells"])), ("first", code[0] + 1)):
        if name in cells:
            document["cells"].insert(place, code_cell(cells[name]))
    return document


def code_cell(source: object, **metadata: object) -> dict:
    """Return a code cell."""
    return {"cell_type": "code", "execution_count": None, "metadata": metadata, "outputs": [], "source": source}


def grade_id(cell: dict) -> str:
    """Return nbgrader's name of a cell, "" for one without."""
    name: str = cell["metadata"].get("nbgrader", {}).get("grade_id", "")
    return name


def test_cells(document: dict) -> list[dict]:
    """Return the locked cells that check the two answers."""
    return [cell for cell in document["cells"] if grade_id(cell) in RIGHT]


def without_tests(document: dict) -> dict:
    """Return a notebook from which the two test cells were deleted."""
    kept = [cell for cell in document["cells"] if grade_id(cell) not in RIGHT]
    return deepcopy(document | {"cells": kept})


test_cells.__test__ = False  # type: ignore[attr-defined]  # not a test for pytest to collect
