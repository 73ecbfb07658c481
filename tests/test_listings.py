"""What pages say of all chapters is what the chapters say of themselves, and the map has a box and arrows for each."""

import re
from pathlib import Path

import pytest

from coursekit.author import listings
from coursekit.author.build import build, stale, write
from coursekit.author.listings import PATHS, all_before, openings, pages, probed
from coursekit.basics.paths import ROOT
from coursekit.judging.exercise import AuthorError

OPENING = """# %% [markdown] you_learn_to="{learn}"
r\"\"\"
# Chapter {number} · {title}

It is so.

*About {minutes} minutes · builds on {needs}*
\"\"\"
"""
ZERO, ONE = "[Chapter 0](ch00_start.ipynb)", "[Chapter 1](ch01_tasks.ipynb)"
TABLE = """<!-- begin chapters: written -->

| chapter | you learn to | needs | minutes |
|---|---|---|---|
| [0 · Begin](notebooks/ch00_start.ipynb) | start | – | 30 |
| [1 · Launch](notebooks/ch01_tasks.ipynb) | launch | 0 | 60 |
| [2 · Share](notebooks/ch02_objects.ipynb) | share, and let go | 1 | 90 |

<!-- end chapters -->
"""
DRAWN = """<svg>
  <g id="ch00" fill="#fff">
    <rect x="6" y="200" width="96" height="47"/>
  </g>
  <!-- begin map: drawn -->
  <!-- end map -->
</svg>
"""


def opens(root: Path, name: str, **says: object) -> None:
    (root / f"chapters/{name}.py").write_text(OPENING.format(number=int(name[2:4]), **says))


@pytest.fixture
def course(tmp_path):
    for folder in ("chapters", "docs", "img"):
        (tmp_path / folder).mkdir()
    opens(tmp_path, "ch00_start", learn="start", title="Begin", minutes=30, needs="nothing but Python")
    opens(tmp_path, "ch01_tasks", learn="launch", title="Launch", minutes=60, needs=ZERO)
    opens(tmp_path, "ch02_objects", learn="share, and let go", title="Share", minutes=90, needs=f"{ZERO} and {ONE}")
    return tmp_path


def test_seven_pages_and_the_projects_own_file_have_lists_that_are_built():
    assert {path.relative_to(ROOT).as_posix() for path in pages()} == {
        "README.md",
        "docs/help.md",
        "docs/old_names.md",
        "docs/ten_questions.md",
        "docs/what_grading_proves.md",
        "docs/workshop.md",
        "img/learners_map.svg",
        "pyproject.toml",
    }


def test_the_table_has_a_row_for_each_chapter_and_what_it_needs_directly(course):
    (course / "README.md").write_text(f"Above\n{TABLE.replace('30', '45').replace('share', 'take')}Below\n")
    assert pages(course) == {course / "README.md": f"Above\n{TABLE}Below\n"}


def test_a_path_shows_its_chapters_as_spans_and_its_hours(course, monkeypatch):
    marks = "<!-- begin paths: -->\n", "<!-- end paths -->\n"
    monkeypatch.setattr(listings, "PATHS", {"Short": ("You hurry.", [0, 2]), "Long": ("You don't.", [0, 1, 2])})
    (course / "README.md").write_text("".join(marks))
    filled = pages(course)[course / "README.md"]
    assert "| **Short** | You hurry. | 0, 2 | 2 |\n| **Long** | You don't. | 0–2 | 3 |" in filled
    assert "All 3 chapters take about 3 hours" in filled


def test_a_path_has_what_its_chapters_need_but_where_it_says_that_you_know_it():
    before = all_before(openings())
    missing = {name: {need for n in way for need in before[n]} - set(way) for name, (_, way) in PATHS.items()}
    assert {name for name, needs in missing.items() if needs} == {"From training to production"}
    assert missing["From training to production"] == {7, 8, 10}


def test_a_page_that_lags_behind_is_stale_until_it_is_built(course, monkeypatch):
    monkeypatch.setattr("coursekit.judging.exercise.load", lambda chapter: {})
    (course / "README.md").write_text(TABLE.replace("30", "45"))
    write(build(course), course)
    assert stale(build(course), course) == []
    opens(course, "ch00_start", learn="start", title="Begin", minutes=31, needs="nothing but Python")
    assert [path.name for path in stale(build(course), course)] == ["README.md", "ch00_start.ipynb", "ch00_start.ipynb"]


def test_the_map_gets_the_boxes_and_arrows_that_are_missing(course):
    (course / "img/map.svg").write_text(DRAWN)
    drawn = pages(course)[course / "img/map.svg"]
    assert re.findall(r'id="([\w-]+)"', drawn) == ["ch00", "ch01", "ch00-ch01", "ch02", "ch01-ch02"]
    columns = [int(x) for x in re.findall(r'<rect x="(\d+)"', drawn)]
    assert columns == sorted(set(columns))


def test_what_a_person_has_drawn_is_not_drawn_again(course):
    by_hand = '<g id="ch01"><rect x="300" y="4"/></g><path id="ch00-ch01"/>\n  <!-- begin map'
    (course / "img/map.svg").write_text(DRAWN.replace("<!-- begin map", by_hand))
    drawn = pages(course)[course / "img/map.svg"]
    assert re.findall(r'id="([\w-]+)"', drawn) == ["ch00", "ch01", "ch00-ch01", "ch02", "ch01-ch02"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (' you_learn_to="launch"', "", ':1: the first cell begins with `# %% [markdown] you_learn_to="…"`'),
        ("# Chapter 1 ·", "# Chapter 2 ·", "`# Chapter 1 · …`"),
        ("About 60 minutes", "An hour", "`*About 90 minutes · builds on …*`"),
        ("ch00_start", "ch02_objects", ":7: a chapter builds on earlier ones, and ch02_objects is not one of them."),
    ],
)
def test_a_first_cell_that_cannot_be_read_is_named_with_file_and_line(course, old, new, message):
    (course / "README.md").write_text(TABLE)
    path = course / "chapters/ch01_tasks.py"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(AuthorError) as error:
        pages(course)
    assert "chapters/ch01_tasks.py" in str(error.value)
    assert message in str(error.value)


def test_an_exercise_is_seen_by_a_probe_only_unless_its_check_calls_the_answer(tmp_path):
    (tmp_path / "ch01.py").write_text("""
@exercise(points=1)
def called(answer, rng): expect(answer(1))
@exercise(points=1)
def read(answer, rng): expect(answer.value())
@exercise(points=1)
def called_by_a_helper(answer, rng): helper(answer)
@exercise(points=1)
def driven(answer, rng): expect(answer.probe(given.launch))
@exercise(points=1, message="Not that.")
def a_table(rng): return [((1,), 2)]
def helper(answer): answer(2)
""")
    assert probed(tmp_path / "ch01.py") == ["driven"]
