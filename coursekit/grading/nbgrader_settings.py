"""What a course's nbgrader_config.py says, as far as grading goes by it, and the source notebooks that it leads to."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode
from nbgrader.apps.baseapp import NbGrader
from nbgrader.converters import Autograde
from nbgrader.coursedir import CourseDirectory
from nbgrader.nbgraderformat import MetadataValidator, SchemaTooNewError, SchemaTooOldError, ValidationError
from nbgrader.preprocessors import Execute, IncludeHeaderFooter, InstantiateTests
from traitlets.config import Application, Config

from coursekit.basics.errors import CommandError
from coursekit.basics.paths import SOLUTIONS
from coursekit.grading.class_settings import FILE, Settings, settings_of
from coursekit.grading.grading_plan import Master
from coursekit.grading.late_rule import with_late_rule

# What nbgrader's autograde goes by and grading does not: all settings of these classes but those that are named.
UNHEARD = {
    "Autograde": {"exclude_overwriting", "exporter_class", "force", "permissions"},
    "OverwriteCells": set[str](),
    "SaveAutoGrades": set[str](),
    "DeduplicateIds": set[str](),
    "LimitOutput": set[str](),
    "NotebookClient": {"timeout", "interrupt_on_timeout", "error_on_timeout"},
    "ExecutePreprocessor": {"timeout", "interrupt_on_timeout", "error_on_timeout"},
    "Execute": {"timeout", "interrupt_on_timeout", "error_on_timeout"},
}
UNHEARD_PLACES = ["directory_structure", "submitted_directory", "ignore", "include", "max_file_size", "max_dir_size"]
UNHEARD_PLACES += ["student_id", "student_id_exclude", "notebook_id"]
CONFIG = "nbgrader_config.py"


class Course:
    """A course's folder with its class.toml and nbgrader's configuration, which is Python: the folder of a lone notebook has neither."""

    def __init__(self, folder: Path, configured: bool = True):
        self.folder = folder
        config = config_of(folder) if configured else Config()
        self.directory = CourseDirectory(config=config)
        self.directory.root = str(folder)
        named = {assignment for assignment, _ in self.notebooks()} if configured else set[str]()
        self.settings = settings_of(folder, named) if configured else Settings(folder / FILE)
        self.config = with_late_rule(config, self.settings)

    def sources(self) -> dict[tuple[str, str], Path]:
        """Return the source notebooks by assignment and name."""
        folder = Path(self.directory.format_path(self.directory.source_directory, ".", "any")).parent
        return {(path.parent.name, path.stem): path for path in sorted(folder.glob("*/*.ipynb"))}

    def notebooks(self) -> dict[tuple[str, str], Path]:
        """Return the instructor's notebooks by assignment and name: the course's source/, else this project's solutions/."""
        return self.sources() or solutions()

    def handed_out(self, assignment: str, name: str) -> Path:
        """Return where a notebook lies as students get it."""
        folder = self.directory.format_path(self.directory.release_directory, ".", assignment)
        return Path(folder, f"{name}.ipynb")

    def cell_seconds(self) -> float | None:
        """Return how long a cell may take, None where that is not configured."""
        if not any("timeout" in self.config[name] for name in ("NotebookClient", "ExecutePreprocessor", "Execute")):
            return None
        seconds = Execute(config=self.config).timeout
        return float(seconds) if seconds and seconds > 0 else float("inf")

    def unheard(self) -> list[str]:
        """Return a sentence for each setting that nbgrader's autograde goes by and grading does not."""
        found = [
            f"{name}.{trait}" for name, heard in UNHEARD.items() for trait in sorted(self.config[name].keys() - heard)
        ]
        found += [f"CourseDirectory.{name}" for name in UNHEARD_PLACES if name in self.config["CourseDirectory"]]
        return [f"{CONFIG} sets {name}: nbgrader follows it, but `coursekit grade` does not." for name in found]

    def ready(self, path: Path, master: Master) -> Master:
        """Return a source notebook as its students' answers are judged by it; raises CommandError with what is to be put right."""
        refuse_other_languages(path, master.notebook)
        refuse_malformed(path, master.notebook)
        autograde = Autograde(coursedir=self.directory, config=self.config)
        kept = autograde.exclude_overwriting.get(path.parent.name, [])
        files = {name: content for name, content in master.files.items() if name not in kept}
        return replace(master, notebook=self._instantiated(path, master.notebook), files=files)

    def _instantiated(self, path: Path, notebook: NotebookNode) -> NotebookNode:
        """Return a notebook with its header and footer, and with tests in the place of AUTOTEST lines, as it was handed out."""
        around, tests = IncludeHeaderFooter(config=self.config), InstantiateTests(config=self.config)
        for name in ("header", "footer"):
            if getattr(around, name):
                setattr(around, name, str(self.folder / getattr(around, name)))
        if not (path.parent / tests.autotest_filename).exists():
            tests.autotest_filename = str(self.folder / tests.autotest_filename)
        resources: Any = {"metadata": {"path": str(path.parent)}}
        try:
            notebook, resources = around(nbformat.from_dict(notebook), resources)
            return tests(notebook, resources)[0]
        except CellExecutionError as error:  # it cannot say itself what failed
            said = f"{error.ename}: {error.evalue}"
        except (OSError, ValueError, KeyError, RuntimeError, ValidationError) as error:
            said = f"{type(error).__name__}: {error}"
        raise CommandError(
            f"{path}: its header, its footer, or its AUTOTEST lines cannot be put in place ({said[:600]}). Fix that so that "
            f"`nbgrader generate_assignment {path.parent.name}` succeeds, and then grade again."
        )


def solutions() -> dict[tuple[str, str], Path]:
    """Return this project's own notebooks, each an assignment of its own name."""
    return {(path.stem, path.stem): path for path in sorted(SOLUTIONS.glob("ch*.ipynb"))}


def config_of(folder: Path) -> Config:
    """Return nbgrader's configuration of a course folder: its nbgrader_config.py, and the user's; raises CommandError."""
    app = NbGrader()
    app.config.CourseDirectory.root = str(folder)
    app.raise_config_file_errors = True
    try:
        Application.load_config_file(app, "nbgrader_config", path=[str(folder), *app.config_file_paths])
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise CommandError(
            f"{folder / CONFIG}, or your personal one, cannot be read ({said}). Fix it, then run the same command again."
        ) from None
    config: Config = app.config
    return config


def refuse_other_languages(path: Path, notebook: NotebookNode) -> None:
    """Raise CommandError for a notebook whose code is not Python."""
    kernel, language = notebook.metadata.get("kernelspec", {}), notebook.metadata.get("language_info", {})
    name = str(language.get("name") or kernel.get("language") or "python")
    if name.lower() not in ("python", "ipython"):
        raise CommandError(
            f"{path} is a notebook in {name}, and only Python can be graded here. Grade it with `nbgrader autograde "
            f"{path.parent.name}`, outside any sandbox, and name the other assignments with --only."
        )


def refuse_malformed(path: Path, notebook: NotebookNode) -> None:
    """Raise CommandError for nbgrader's metadata that nbgrader itself would refuse, with the cell and the way out."""
    validator, known = MetadataValidator(), set[str]()
    validator.log = logging.Logger("nobody")
    validator.log.disabled = True  # a warning of its own cannot be written
    for number, cell in enumerate(notebook.cells, 1):
        meta = cell.metadata.get("nbgrader", {})
        try:
            validator.validate_cell(cell)
            if (name := meta.get("grade_id")) in known and (meta.grade or meta.solution or meta.locked):
                raise ValidationError(f"there are two cells named {name}: give one of them another ID")
            known |= {name} if name and (meta.grade or meta.solution or meta.locked) else set()
        except (SchemaTooOldError, SchemaTooNewError, ValidationError) as error:
            way = "Fix it in JupyterLab, with nbgrader's Create Assignment (in the right sidebar)."
            if isinstance(error, SchemaTooOldError):
                way = f"An older nbgrader made it: run `nbgrader update {path}`."
            elif isinstance(error, SchemaTooNewError):
                way = "A newer nbgrader made it: install that version."
            first = cell.source.strip().partition("\n")[0][:60]
            said = str(getattr(error, "message", error)).partition("\n")[0][:200]
            raise CommandError(f"{path}: cell {number}, which begins with {first!r}: {said}. {way}") from None
