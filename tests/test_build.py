"""Notebooks are what the chapters make of them, and what nbgrader makes of the solutions; mistakes stop the build by line."""

import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from coursekit.author.build import build, solved_notebook, stale, write
from coursekit.basics.paths import NOTEBOOKS, ROOT, SOLUTIONS
from coursekit.judging import exercise
from coursekit.judging.exercise import AuthorError, Exercise, Quiz
from tests.chapters import CHAPTERS


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_cells_keep_their_ids_from_solution_to_learner(chapter):
    solved, learner = (nbformat.read(folder / f"{chapter}.ipynb", as_version=4) for folder in (SOLUTIONS, NOTEBOOKS))
    kept = [cell.id for cell in solved.cells if not {"solution", "notes"} & set(cell.metadata.get("tags", []))]
    assert [cell.id for cell in learner.cells] == kept
    assert len(set(kept)) == len(kept)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_learners_get_no_solution_and_no_output(chapter):
    learner = nbformat.read(NOTEBOOKS / f"{chapter}.ipynb", as_version=4)
    assert not any("SOLUTION" in cell.source for cell in learner.cells)
    assert not any(cell.get("outputs") for cell in learner.cells)


@pytest.fixture(scope="module")
def released(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of what nbgrader makes of the chapters that are asked for, as one assignment: it takes long to start."""
    course = tmp_path_factory.mktemp("course")
    shutil.copy(ROOT / "coursekit/author/nbgrader_config.py", course)
    (course / "source" / "all").mkdir(parents=True)
    asking = [item for item in request.session.items if "released" in getattr(item, "fixturenames", ())]
    for chapter in {item.callspec.params["chapter"] for item in asking}:
        shutil.copy(SOLUTIONS / f"{chapter}.ipynb", course / "source" / "all")
    command = [sys.executable, "-m", "nbgrader", "generate_assignment", "all"]
    subprocess.run(command, cwd=course, check=True, capture_output=True)
    return course / "release" / "all"


@pytest.mark.slow
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_nbgrader_makes_the_same_notebook_cell_for_cell(chapter, released):
    theirs, ours = (nbformat.read(folder / f"{chapter}.ipynb", as_version=4) for folder in (released, NOTEBOOKS))
    assert theirs.cells == ours.cells


# Mistakes of authors: a tiny chapter with one exercise and one quiz, written wrong in one place.

ITEMS = {
    "double": Exercise("ch98_tiny", "double", 1, 1, ("a", "b"), "Idea.", lambda answer, rng: None, 7),
    "which": Quiz("ch98_tiny", "which", "Which?", {"a": ("x", "no"), "b": ("y", "yes")}, "b", 9),
}
GOOD = '''# %% [markdown]
r"""
# Tiny
"""

# %% tags=["demo"]
predict("twice", ..., ["two", "four"])

# %%
def double(x):
    ### BEGIN SOLUTION
    return 2 * x
    ### END SOLUTION

# %%
check("double", double)

# %%
### BEGIN SOLUTION
which = "b"
### END SOLUTION

# %%
quiz("which", which)

# %% tags=["demo"]
measured("twice", "four")
'''


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    monkeypatch.setattr(exercise, "load", lambda chapter: ITEMS)
    (tmp_path / "chapters").mkdir()
    return tmp_path / "chapters" / "ch98_tiny.py"


def test_the_tiny_chapter_builds(tiny):
    tiny.write_text(GOOD)
    learner = nbformat.reads(build(tiny.parents[1])[tiny.parents[1] / "notebooks/ch98_tiny.ipynb"], as_version=4)
    sources = [cell.source for cell in learner.cells]
    assert 'def double(x):\n    raise NotImplementedError("your answer goes here")' in sources
    assert "which = ...  # your answer" in sources
    assert "**Quiz · 1 point.** Which?\n\n- **a)** x\n- **b)** y" in sources


def test_metadata_comes_from_the_code(tiny):
    tiny.write_text(GOOD)
    cells = [cell.metadata.get("nbgrader") for cell in solved_notebook(tiny).cells]
    ids = [(meta["grade_id"], meta["solution"], meta["grade"], meta.get("points")) for meta in cells if meta]
    assert ids == [
        ("answer_double", True, False, None),
        ("double", False, True, 1),
        ("answer_which", True, False, None),
        ("which", False, True, 1),
    ]


def test_a_text_keeps_its_id_when_only_its_line_breaks_change(tiny):
    ids = []
    for text in ("> One. Two.", "> One.\n> Two.", "> One. Three."):
        tiny.write_text(GOOD.replace("# Tiny", f"# Tiny\n\n{text}"))
        ids.append([cell.id for cell in solved_notebook(tiny).cells])
    assert ids[0] == ids[1]
    assert ids[0][0] != ids[2][0]
    assert ids[0][1:] == ids[2][1:]
    assert ids[0][1] == "predict_twice"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("    ### END SOLUTION\n", "", ":9: solution delimiters come in pairs"),
        ("    ### BEGIN SOLUTION\n", "    # BEGIN SOLUTION\n", ":9: solution delimiters come in pairs"),
        (
            '\n# %%\ncheck("double", double)',
            '\ncheck("double", double)',
            ":9: this cell has a solution delimiter and a check",
        ),
        (
            'check("double", double)',
            'check("double", 2)',
            ':15: put a check in a cell of its own: `check("double", double)`',
        ),
        ('check("double", double)', 'check("double", double)\nprint(1)', ":15: put a check in a cell of its own"),
        ('check("double"', 'check("doble"', ":15: check(\"doble\", …) has no exercise 'doble'"),
        (
            'check("double", double)',
            "double(2)",
            ":1: exercise 'double' of coursekit/exercises (line 7) is never checked",
        ),
        ('quiz("which", which)', 'check("which", which)', ":23: 'which' is a quiz, not an exercise"),
        (
            'quiz("which", which)',
            'quiz("which", which)\ncheck("double", double)',
            ":23: put each check in a cell of its own",
        ),
        (
            'quiz("which", which)',
            'quiz("which", which)\n\n# %%\nquiz("which", which)',
            ":26: 'which' is checked twice",
        ),
        ("def double(x)", "def triple(x)", ":9: this answer cell defines ['triple']"),
        ('which = "b"', "print(1)", ":18: this answer cell defines nothing"),
        ("# %%\ncheck", '# %% tags=["dmeo"]\ncheck', ":15: unknown tag ['dmeo']"),
        ("# %%\ncheck", '# %% tags=["notes"]\ncheck', ":15: speaker notes are Markdown"),
        ("# %%\ncheck", '# %% tags=["demo"]\ncheck', ':15: the tag "demo" is for cells that only show something'),
        ("# %%\ndef double", '# %% tags=["demo"]\ndef double', ':9: the tag "demo"'),
        ("return 2 * x", "return 2 *", ":9: this cell is not valid Python"),
        ('", ...', '", "two"', ":6: put a prediction in a cell of its own, not filled in"),
        ('predict("twice"', 'print()\npredict("twice"', ":6: put a prediction in a cell of its own"),
        ("# %%\ndef", '# %%\npredict("twice", ...)\n\n# %%\ndef', ":9: 'twice' is predicted twice"),
        (
            'measured("twice"',
            'print("twice"',
            ':6: nothing is compared with this prediction: call `measured("twice", …)`',
        ),
        ("# %% [markdown]\n", "import os\n\n# %% [markdown]\n", ":1: every cell begins with"),
    ],
)
def test_a_mistake_stops_the_build_with_file_and_line(tiny, old, new, message):
    assert old in GOOD
    tiny.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(AuthorError) as error:
        build(tiny.parents[1])
    assert f"chapters/ch98_tiny.py{message}" in str(error.value)


def test_a_check_above_its_answer_stops_the_build(tiny):
    cells = GOOD.split("# %%")
    tiny.write_text("# %%".join([*cells[:3], cells[4], cells[3], *cells[5:]]))
    with pytest.raises(AuthorError, match=r":9: no answer cell above defines 'double'"):
        build(tiny.parents[1])


def test_all_mistakes_are_listed_at_once(tiny):
    tiny.write_text(GOOD.replace('check("double"', 'check("doble"').replace('quiz("which"', 'quiz("wich"'))
    with pytest.raises(AuthorError) as error:
        build(tiny.parents[1])
    assert len(str(error.value).splitlines()) == 2


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "@exercise(points=1, minutes=1, hints=[])\ndef one(answer, rng): ...\n" * 2,
            r"ch98_bad\.py:\d+: 'one' is already defined at line \d+",
        ),
        ('question("q", "*a) x\\n    y\\nb) x\\n    y")', r"ch98_bad\.py:\d+: 'q': a quiz needs a question"),
        ('question("q", "Q?\\na) x\\n    y\\nb) x\\n    y")', r"ch98_bad\.py:\d+: 'q': .* star"),
        ('question("q", "Q?\\n*a) x\\nb) x\\n    y")', r"ch98_bad\.py:\d+: 'q': option a has no feedback"),
    ],
)
def test_a_mistake_in_the_exercises_stops_the_build_with_file_and_line(body, message):
    source = f"from coursekit.judging.exercise import exercise, question\n{body}\n"
    names = {"__name__": "coursekit.exercises.ch98_bad"}
    with pytest.raises(AuthorError, match=message):
        exec(compile(source, "coursekit/exercises/ch98_bad.py", "exec"), names)
    exercise.REGISTRY.pop("ch98_bad", None)


def test_stale_names_changed_missing_and_orphaned_notebooks_and_write_fixes_them(tmp_path):
    wanted = {tmp_path / "notebooks" / name: "new" for name in ("changed.ipynb", "missing.ipynb", "same.ipynb")}
    (tmp_path / "notebooks").mkdir()
    for name, text in {"changed": "old", "same": "new", "orphan": "x"}.items():
        (tmp_path / "notebooks" / f"{name}.ipynb").write_text(text)
    assert [path.stem for path in stale(wanted, tmp_path)] == ["changed", "missing", "orphan"]
    write(wanted, tmp_path)
    assert stale(wanted, tmp_path) == []
