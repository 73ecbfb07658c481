"""A course's configuration is gone by, or named; a source notebook that cannot be graded is refused with its cell and the way out."""

from pathlib import Path

import nbformat
import nbgrader
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from nbgrader.preprocessors import Execute

from coursekit.author import nbgrader_config
from coursekit.basics.errors import CommandError
from coursekit.grading.class_run import Run
from coursekit.grading.grading_plan import Master
from coursekit.grading.nbgrader_settings import Course
from coursekit.grading.outcome import Options
from coursekit.sandbox.limits import Limits
from tests.attacks import notebook as chapter_0
from tests.classes import hand_in
from tests.nbgrader_cells import KERNEL, locked
from tests.nbgrader_courses import AUTOTESTS

FIXTURES = Path(nbgrader.__file__).parent / "tests"


def configured(folder: Path, *lines: str) -> Course:
    (folder / "nbgrader_config.py").write_text("\n".join(["c = get_config()", *lines]))
    return Course(folder)


def source(folder: Path, notebook: nbformat.NotebookNode) -> Path:
    path = folder / "source/hw/hw.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)
    return path


def refusal(course: Path) -> str:
    """Return why a run of a course is refused, before anything is graded."""
    hand_in(course, "ada", chapter_0(), "hw")
    with pytest.raises(CommandError) as error:
        Run(course / "submitted", Options(sandbox=False)).go(lambda *progress: None)
    assert not (course / "gradebook.db").exists()
    return str(error.value)


@pytest.mark.parametrize(
    ("fixture", "said", "way"),
    [
        ("preprocessors/files/blank-points", "'id1' does not have points", "Create Assignment"),
        ("preprocessors/files/blank-grade-id", "grade_id is empty", "Create Assignment"),
        ("preprocessors/files/duplicate-grade-ids", "cell 2, which begins", "two cells named id1"),
        ("preprocessors/files/bad-markdown-cell-1", "'foo' is not marked as a solution cell", "Create Assignment"),
        ("apps/files/test-v0", "Outdated schema version", "`nbgrader update "),
        ("apps/files/too-new", "too new", "install that version"),
    ],
)
def test_a_malformed_source_notebook_is_refused_with_its_file_its_cell_and_the_way_out(fixture, said, way, tmp_path):
    path = source(tmp_path, nbformat.read(FIXTURES / f"{fixture}.ipynb", as_version=4))
    refused = refusal(tmp_path)
    assert refused.startswith(f"{path}: cell ")
    assert said in refused
    assert way in refused


def test_a_source_that_is_no_notebook_is_refused_by_its_name(tmp_path):
    path = source(tmp_path, new_notebook())
    path.write_text("{}")
    assert f"{path} is not a readable notebook" in refusal(tmp_path)


@pytest.mark.parametrize(
    "metadata",
    [{"kernelspec": {"name": "ir", "display_name": "R", "language": "R"}}, {"language_info": {"name": "R"}}],
)
def test_a_notebook_in_another_language_is_refused_and_stops_no_other_assignment(tmp_path, metadata):
    path = source(tmp_path, new_notebook(cells=[locked("x", "stopifnot(x)", points=1)], metadata=metadata))
    refused = refusal(tmp_path)
    assert f"{path} is a notebook in R, and only Python" in refused
    assert "`nbgrader autograde hw`" in refused
    other = tmp_path / "source/python/python.ipynb"
    other.parent.mkdir()
    nbformat.write(new_notebook(cells=[locked("x", "1", points=1)]), other)
    hand_in(tmp_path, "ada", chapter_0(), "python")
    run = Run(tmp_path / "submitted", Options())
    assert list(run._ready(run.masters(), {"python"})) == [("python", "python")]


def test_autotests_that_cannot_be_made_are_refused_with_the_reason(tmp_path):
    source(tmp_path, new_notebook(cells=[locked("x", "# AUTOTEST x", points=1)], metadata={"kernelspec": KERNEL}))
    assert "autotests.yml" in refusal(tmp_path)


@pytest.mark.slow
def test_a_solution_that_fails_where_autotests_are_made_is_refused_with_its_error(tmp_path, monkeypatch):
    (tmp_path / "autotests.yml").write_text(AUTOTESTS)
    cells = [new_code_cell("1 / 0"), locked("x", "# AUTOTEST x", points=1)]
    source(tmp_path, new_notebook(cells=cells, metadata={"kernelspec": KERNEL}))
    assert "ZeroDivisionError: division by zero" in refusal(tmp_path)


def test_the_shipped_configuration_puts_headers_and_autotests_in_place_while_the_solutions_are_there():
    names = [preprocessor.__name__ for preprocessor in nbgrader_config.PREPROCESSORS]
    assert names.index("IncludeHeaderFooter") < names.index("InstantiateTests") < names.index("ClearAnswers")


def test_a_header_is_part_of_the_notebook_that_was_handed_out(tmp_path):
    nbformat.write(new_notebook(cells=[locked("agreed", "assert name", points=1)]), tmp_path / "header.ipynb")
    path = source(tmp_path, new_notebook(cells=[new_code_cell("x = 1")]))
    course = configured(tmp_path, "c.IncludeHeaderFooter.header = 'header.ipynb'")
    assert list(course.ready(path, Master.of(path)).tests()) == ["agreed"]


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("c.ExecutePreprocessor.timeout = 7", 7),
        ("c.Execute.timeout = 7", 7),
        ("c.Execute.timeout = None", float("inf")),
        ("c.ExecutePreprocessor.timeout = -1", float("inf")),
        ("", None),
    ],
)
def test_the_seconds_of_a_cell_are_the_configurations(line, seconds, tmp_path):
    assert configured(tmp_path, line).cell_seconds() == seconds


def test_where_nothing_is_configured_a_cell_has_more_time_than_nbgrader_gives_it():
    assert (Execute().timeout, Limits().cell_seconds) == (30, 180)


def test_an_option_of_the_command_comes_before_the_configuration(tmp_path):
    configured(tmp_path, "c.Execute.timeout = 7")
    seconds = {
        left_to_it: Run(tmp_path / "submitted", Options(configured=left_to_it))._configured().limits.cell_seconds
        for left_to_it in (True, False)
    }
    assert seconds == {True: 7, False: 180}


def test_what_is_not_gone_by_is_said(tmp_path):
    course = configured(
        tmp_path,
        "c.Autograde.pre_convert_hook = print",
        "c.Autograde.exclude_overwriting = {}",
        "c.Execute.extra_arguments = ['--quiet']",
        "c.CourseDirectory.directory_structure = '{nbgrader_step}/{assignment_id}/{student_id}'",
        "c.CourseDirectory.course_id = 'rl'",
    )
    said = " ".join(course.unheard())
    assert [name in said for name in ("pre_convert_hook", "extra_arguments", "directory_structure")] == [True] * 3
    assert "exclude_overwriting" not in said
    assert "course_id" not in said
    assert Course(tmp_path, configured=False).unheard() == []


def test_nothing_is_said_of_the_configuration_that_we_ship(tmp_path):
    (tmp_path / "nbgrader_config.py").write_text(Path(nbgrader_config.__file__).read_text())
    assert Course(tmp_path).unheard() == []


def test_a_configuration_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(CommandError, match=r"nbgrader_config\.py.*NameError"):
        configured(tmp_path, "nonsense")
