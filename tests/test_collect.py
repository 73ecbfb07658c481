"""`coursekit collect`: whose a notebook is and what it is come from the platform's naming and from its cells, never from luck."""

import json
import shutil
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from coursekit.basics.errors import CommandError
from coursekit.basics.paths import NOTEBOOKS, SOLUTIONS
from coursekit.basics.tables import write_table
from coursekit.cli import app
from coursekit.grading import submission
from coursekit.grading.desk import arrivals
from coursekit.grading.desk.collect import Collected, collect
from coursekit.grading.desk.people import same_name
from tests.attacks import code_cell, grade_id, notebook

pytestmark = pytest.mark.slow

START = "ch00_start"
SOLVED = json.dumps(notebook())
EMPTY = (NOTEBOOKS / f"{START}.ipynb").read_text(encoding="utf-8")
TASKS = json.dumps({"cells": [code_cell('begin("ch01_tasks")'), code_cell("x = 1")], "metadata": {}})
PACKED = (2026, 10, 20, 9, 0, 0)
ROSTER = """
[[students]]
id = "ada"
name = "Ada Lovelace"
email = "ada@example.org"
group = "Blue"
[[students]]
id = "alan"
name = "Alan Turing"
email = "alan@example.org"
group = "Blue"
"""


@pytest.fixture
def course(tmp_path) -> Path:
    folder = tmp_path / "course"
    for name in (START, "ch01_tasks"):
        for place, origin in (("source", SOLUTIONS), ("release", NOTEBOOKS)):
            (folder / place / name).mkdir(parents=True)
            shutil.copy(origin / f"{name}.ipynb", folder / place / name)
    return folder


def packed(folder: Path, files: dict, **dates: tuple) -> Path:
    """Write a zip: the content of each file by its path, and the date where it is not that of the download."""
    path = folder / "handed_in.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, dates.get(name.split("_")[0], PACKED)), content)
    return path


def in_course(course: Path) -> list[str]:
    """Return the files below submitted/."""
    root = course / "submitted"
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def moodle(name: str, number: int, file: str = f"{START}.ipynb") -> str:
    return f"{name}_{number}_assignsubmission_file/{file}"


def reasons(result: Collected) -> dict[str, str]:
    return dict(result.left)


# The two layouts


def test_what_moodle_packs_lies_by_student_and_assignment(course):
    files = {
        moodle("Ada Lovelace", 101): SOLVED,
        moodle("Ada Lovelace", 101, "helpers.py"): "x = 1",
        "Alan Turing_102_assignsubmission_file_/my homework.ipynb": SOLVED,  # with a line at the end, before Moodle 4
        "Grace Hopper_103_assignsubmission_file_ch01.ipynb": TASKS,  # without folders
        "Grace Hopper_103_assignsubmission_onlinetext/onlinetext.html": "<p>see file</p>",
        "Edsger Dijkstra_104_assignsubmission_file/notes.txt": "no notebook",
        "readme.txt": "?",
    }
    result = collect(packed(course.parent, files), course)
    assert result.layout == "moodle"
    assert in_course(course) == [
        f"Ada Lovelace/{START}/{START}.ipynb",
        f"Ada Lovelace/{START}/helpers.py",
        f"Alan Turing/{START}/{START}.ipynb",
        f"Edsger Dijkstra/{START}/notes.txt",  # what most of the download is
        "Grace Hopper/ch01_tasks/ch01_tasks.ipynb",
        "Grace Hopper/ch01_tasks/onlinetext.html",
    ]
    assert reasons(result) == {"readme.txt": "neither its name nor its folder's says whose it is"}
    assert result.unreadable == [("Edsger Dijkstra_104_assignsubmission_file/notes.txt", "it is not a notebook")]


def test_what_canvas_packs_lies_by_student_and_assignment(course):
    files = {
        f"lovelaceada_11_501_{START}.ipynb": SOLVED,
        "turingalan_LATE_12_502_homework-2.ipynb": SOLVED,
        "LATE_anon_Ab3dE_503_x.ipynb": TASKS,
        "hoppergrace_13_text.html": "<p>done</p>",
    }
    result = collect(packed(course.parent, files), course)
    assert result.layout == "canvas"
    assert in_course(course) == [
        "anon_Ab3dE/ch01_tasks/ch01_tasks.ipynb",
        "anon_Ab3dE/ch01_tasks/timestamp.txt",
        f"lovelaceada_11/{START}/{START}.ipynb",
        f"turingalan_12/{START}/{START}.ipynb",
        f"turingalan_12/{START}/timestamp.txt",
    ]
    assert "hoppergrace_13_text.html" in reasons(result)
    assert sum("is LATE" in note for note in result.notes) == 2


def test_a_time_that_was_put_right_stays_when_the_same_zip_comes_again(course):
    (course / "class.toml").write_text('zone = "Europe/Berlin"\n' + ROSTER)
    path = packed(course.parent, {f"lovelaceada_LATE_11_501_{START}.ipynb": SOLVED})
    stamp = course / f"submitted/ada/{START}/timestamp.txt"
    (note,) = collect(path, course).notes
    assert note.endswith(f"Write the right one into {stamp}, as 2026-10-19 18:30:00 Europe/Berlin.")
    stamp.write_text("2026-10-19 18:30:00 Europe/Berlin")
    again = collect(path, course)
    assert (again.notes, again.placed) == ([], [])
    assert stamp.read_text() == "2026-10-19 16:30:00.000000 UTC"
    newer = packed(course.parent, {f"lovelaceada_LATE_11_502_{START}-1.ipynb": other(2)})
    assert len(collect(newer, course).notes) == 1
    assert stamp.read_text() == "2026-10-20 07:00:00.000000 UTC"


def test_a_folder_of_students_is_taken_as_it_is(course, tmp_path):
    for path, content in {
        "ada/a/b/x.ipynb": SOLVED,
        "alan/x.ipynb": TASKS,
        "ada/.DS_Store": "",
        "lost.ipynb": SOLVED,
    }.items():
        (tmp_path / "all" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "all" / path).write_text(content)
    (tmp_path / "all/ada/link.ipynb").symlink_to("/etc/passwd")
    (tmp_path / "all/linked").symlink_to(course)
    result = collect(tmp_path / "all", course)
    assert in_course(course) == [f"ada/{START}/{START}.ipynb", "alan/ch01_tasks/ch01_tasks.ipynb"]
    assert set(reasons(result)) == {"ada/link.ipynb", "linked", "lost.ipynb"}


# Which assignment, and which of several


def test_the_cells_say_the_assignment_where_nothing_is_begun(course):
    document = notebook()
    document["cells"] = [cell for cell in document["cells"] if "begin(" not in "".join(cell["source"])]
    for cell in document["cells"]:
        cell["metadata"] = {"id": cell.pop("id", "")} if not grade_id(cell) else {}  # as Colab keeps them
    collect(packed(course.parent, {moodle("Ada", 1, "ch01_tasks.ipynb"): json.dumps(document)}), course)
    assert in_course(course) == [f"Ada/{START}/{START}.ipynb"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (json.dumps({"cells": [code_cell("1 + 1")]}), f"the assignments are {START}, ch01_tasks"),
        (
            json.dumps({"cells": [code_cell('begin("ch44_other")')]}),
            "begins ch44_other, which is not an assignment of this course",
        ),
    ],
)
def test_what_is_no_assignment_is_left_with_the_reason(course, content, reason):
    result = collect(packed(course.parent, {moodle("Ada", 1): content}), course)
    assert in_course(course) == []
    assert reason in reasons(result)[moodle("Ada", 1)]


def test_the_answered_copy_counts_beside_an_empty_one(course):
    files = {
        moodle("Ada", 1, f"{START} (1).ipynb"): SOLVED,
        moodle("Ada", 1): EMPTY,
        moodle("Ada", 1, "ch00 (2).ipynb"): EMPTY,
    }
    result = collect(packed(course.parent, files), course)
    assert (course / f"submitted/Ada/{START}/{START}.ipynb").read_text() == SOLVED
    assert len(result.left) == 2
    assert f"nothing is answered in it, unlike in {START} (1).ipynb" in reasons(result)[moodle("Ada", 1)]


def other(number: int) -> str:
    return json.dumps(notebook(last=f"version = {number}"))


@pytest.mark.parametrize(
    "files",
    [
        {moodle("Ada", 1): other(1), moodle("Ada", 1, f"{START} (1).ipynb"): other(2)},
        {f"a_1_70_{START}-2.ipynb": other(1), f"a_1_71_{START}.ipynb": other(2)},
    ],
)
def test_the_newest_of_several_counts(course, files):
    collect(packed(course.parent, files), course)
    (path,) = course.glob("submitted/*/*/*.ipynb")
    assert "version = 2" in path.read_text()


# Times


def test_the_time_of_packing_makes_nobody_late(course):
    result = collect(packed(course.parent, {moodle("Ada", 1): SOLVED, moodle("Alan", 2): SOLVED}), course)
    assert not list(course.rglob("timestamp.txt"))
    assert "no hand-in counts as late" in str(result)


def test_dates_that_spread_are_those_of_handing_in_in_the_zone_of_the_class(course):
    (course / "class.toml").write_text('zone = "Europe/Berlin"')
    files = {moodle("Ada", 1): SOLVED, moodle("Alan", 2): SOLVED}
    collect(packed(course.parent, files, Ada=(2026, 10, 19, 23, 58, 0)), course)
    assert (course / f"submitted/Ada/{START}/timestamp.txt").read_text() == "2026-10-19 21:58:00.000000 UTC"


WORKSHEET = """Identifier,Full name,Email address,Status,Grade,Maximum Grade,Last modified (submission),Last modified (grade)
Participant 1,Ada Lovelace,ada@example.org,Submitted for grading,,5.00,"Monday, 19 October 2026, 11:58 PM",-
Participant 2,Ada Lovelace,other@example.org,Submitted for grading,,5.00,"Tuesday, 20 October 2026, 8:00 AM",-
"""


def test_moodles_worksheet_tells_namesakes_apart_and_when_they_handed_in(course, tmp_path):
    (course / "class.toml").write_text('zone = "Europe/Berlin"')
    (tmp_path / "worksheet.csv").write_text("\ufeff" + WORKSHEET)
    files = {moodle("Ada Lovelace", 1): SOLVED, moodle("Ada Lovelace", 2): SOLVED}
    collect(packed(tmp_path, files), course, tmp_path / "worksheet.csv")
    assert (course / f"submitted/ada@example.org/{START}/timestamp.txt").read_text() == "2026-10-19 21:58:00.000000 UTC"
    assert (course / f"submitted/other@example.org/{START}/timestamp.txt").exists()


GERMAN = "Montag, 19. Oktober 2026, 23:58"


def in_table(course: Path, *said: str, column: str = "Last modified (submission)") -> Path:
    """Write a worksheet with what it says of each of Ada and Alan."""
    table = course.parent / "worksheet.csv"
    rows = [["Identifier", "Full name", "Email address", column]]
    rows += [
        [f"Participant {n}", name, "", text]
        for n, (name, text) in enumerate(zip(("Ada", "Alan"), said, strict=False), 1)
    ]
    write_table(table, rows)
    return table


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (GERMAN, "is not a date in numbers or in English"),
        ("05.11.2026 18:30", "does not say which number is the day and which the month"),
        ("-", "names no time"),
    ],
)
def test_a_time_of_the_worksheet_that_cannot_be_read_is_named_with_the_way_out(course, said, reason):
    (course / "class.toml").write_text('zone = "Europe/Berlin"')
    zip = packed(course.parent, {moodle("Ada", 1): SOLVED, moodle("Alan", 2): SOLVED})
    result = collect(zip, course, table := in_table(course, said, "Monday, 19 October 2026, 11:58 PM"))
    stamp = course / f"submitted/Ada/{START}/timestamp.txt"
    assert stamp.read_text(encoding="utf-8") == said  # which `grade` names too
    assert (course / f"submitted/Alan/{START}/timestamp.txt").read_text() == "2026-10-19 21:58:00.000000 UTC"
    note, zone, way_out = result.notes
    assert note == f"{table}, line 2: Last modified (submission) {said!r} {reason}, so Ada counts as on time."
    assert zone == "Its times name no zone, so they were read in the class's zone: Europe/Berlin."
    assert way_out.endswith(
        "write the time into timestamp.txt beside the notebook, as 2026-10-19 18:30:00 Europe/Berlin."
    )
    assert collect(zip, course, table).notes == result.notes
    collect(zip, course, in_table(course, *["Monday, 19 October 2026, 11:58 PM"] * 2))
    assert stamp.read_text(encoding="utf-8") == "2026-10-19 21:58:00.000000 UTC"


def test_a_worksheet_in_another_language_is_said_once_with_the_way_out(course):
    table = in_table(course, GERMAN, GERMAN, column="Zuletzt geändert (Abgabe)")
    result = collect(packed(course.parent, {moodle("Ada", 1): SOLVED, moodle("Alan", 2): SOLVED}), course, table)
    (said,) = [note for note in result.notes if str(table) in note]
    assert "has no column Last modified (submission), so no hand-in counts as late. If it was exported" in said
    stamp = course / f"submitted/Ada/{START}/timestamp.txt"
    assert stamp.read_text(encoding="utf-8") == "worksheet.csv has no column Last modified (submission)"


def test_a_canvas_gradebook_in_another_language_is_said(course):
    table = in_table(course, "11")
    result = collect(packed(course.parent, {f"lovelaceada_11_501_{START}.ipynb": SOLVED}), course, table)
    assert [note.partition(", so ")[0] for note in result.notes] == [
        f"{table} lacks the columns Student, ID, and Section"
    ]


def test_a_time_that_was_written_by_hand_and_cannot_be_read_stays_and_is_named(course):
    path = packed(course.parent, {moodle("Ada", 1): SOLVED})
    collect(path, course)
    stamp = course / f"submitted/Ada/{START}/timestamp.txt"
    stamp.write_text("05.11.2026 18:30")
    notes = collect(path, course).notes
    assert stamp.read_text() == "05.11.2026 18:30"
    assert any(f"submitted/Ada/{START}/timestamp.txt: '05.11.2026 18:30' does not say" in note for note in notes)


def test_a_time_that_cannot_be_read_does_not_keep_a_newer_notebook_away(course):
    collect(packed(course.parent, {moodle("Ada", 1): other(1)}), course)
    (course / f"submitted/Ada/{START}/timestamp.txt").write_text("2026-11-05 18:30 MESZ")
    result = collect(packed(course.parent, {moodle("Ada", 1): other(2)}), course)
    assert "version = 2" in (course / f"submitted/Ada/{START}/{START}.ipynb").read_text()
    assert any("names the zone 'MESZ', which is not known" in note for note in result.notes)


def test_an_older_zip_replaces_nothing(course):
    late, early = (2026, 10, 19, 12, 0, 0), (2026, 10, 18, 12, 0, 0)
    for when, number in ((late, 2), (early, 1)):
        files = {moodle("Ada", 1): other(number), moodle("Alan", 2): SOLVED}
        result = collect(packed(course.parent, files, Ada=when), course)
    assert "version = 2" in (course / f"submitted/Ada/{START}/{START}.ipynb").read_text()
    assert "holds a newer one" in reasons(result)[moodle("Ada", 1)]


def test_the_same_zip_again_changes_nothing(course):
    path = packed(course.parent, {moodle("Ada", 1): SOLVED, moodle("Alan", 2): SOLVED}, Ada=(2026, 10, 19, 12, 0, 0))
    collect(path, course)
    before = {file: file.read_bytes() for file in course.rglob("*") if file.is_file()}
    collect(path, course)
    collect(packed(course.parent, {moodle("Ada", 1): SOLVED}), course)  # and one whose dates say nothing
    assert {file: file.read_bytes() for file in course.rglob("*") if file.is_file()} == before


# Whose


@pytest.mark.parametrize(
    ("roster", "spelled", "same"),
    [
        ("Ada Lovelace", "Lovelace, Ada", True),
        ("Ada King Lovelace", "lovelaceadaking", True),
        ("Jean-Luc O'Brien", "Jean-Luc OBrien", True),
        ("Zoë Müller", "Zoe Muller", True),
        ("Ada Lovelace", "Ada Byron", False),
        ("", "", False),
    ],
)
def test_a_name_is_known_however_the_platform_spells_it(roster, spelled, same):
    assert same_name(roster, spelled) is same


def test_the_roster_names_the_folders_and_says_who_is_missing(course):
    (course / "class.toml").write_text(ROSTER)
    result = collect(
        packed(course.parent, {"lovelaceada_11_5_x.ipynb": SOLVED, "byronada_12_6_x.ipynb": SOLVED}), course
    )
    assert in_course(course) == [f"ada/{START}/{START}.ipynb"]
    assert reasons(result) == {"byronada_12_6_x.ipynb": "no student on the roster is called byronada"}
    assert result.missing == ["alan"]


def test_names_in_utf_8_that_the_zip_does_not_call_so_are_read_as_what_they_are(course, tmp_path):
    class Unsaid(zipfile.ZipInfo):
        def _encodeFilenameFlags(self):
            return self.filename.encode(), self.flag_bits & ~0x800

    with zipfile.ZipFile(tmp_path / "plain.zip", "w") as archive:
        archive.writestr(Unsaid("müllerzoë_11_5_x.ipynb"), SOLVED)
    (course / "class.toml").write_text('students = [{id = "zoe", name = "Zoë Müller"}]')
    collect(tmp_path / "plain.zip", course)
    assert in_course(course) == [f"zoe/{START}/{START}.ipynb"]


NAMES = ["Zoë Müller", "Jörg Groß", "José Núñez", "Łukasz Żak", "Иван Петров", "山田 Taro", "Ada O’Hara"]


@pytest.mark.parametrize(
    ("name", "encoding"),
    [
        *((name, "utf-8") for name in NAMES),
        *((name, encoding) for name in NAMES[:3] for encoding in ("cp1252", "cp850")),
        ("Łukasz Żak", "cp1250"),
        ("Иван Петров", "cp1251"),
        ("Иван Петров", "cp866"),
    ],
)
def test_a_name_that_decodes_to_improbable_letters_is_noted(course, tmp_path, name, encoding):
    class Unsaid(zipfile.ZipInfo):
        def _encodeFilenameFlags(self):
            return self.filename.encode(encoding), self.flag_bits & ~0x800

    with zipfile.ZipFile(tmp_path / "zip.zip", "w") as archive:
        archive.writestr(Unsaid(moodle(name, 1)), SOLVED)
        archive.writestr(zipfile.ZipInfo(moodle("Ada Lovelace", 2)), SOLVED)
    notes = [note for note in collect(tmp_path / "zip.zip", course).notes if "characters that no name has" in note]
    (student,) = {path.name for path in (course / "submitted").iterdir()} - {"Ada Lovelace"}
    assert len(notes) == (student != name)


def test_where_moodle_hides_all_names_the_reason_says_what_to_do(course):
    (course / "class.toml").write_text(ROSTER)
    hidden = {moodle("Participant", number): other(number) for number in (1, 2)}
    said = reasons(collect(packed(course.parent, hidden), course))
    assert all("2 students are called Participant, and none on the roster" in reason for reason in said.values())
    assert len(said) == 2


def test_a_teams_notebook_is_that_of_each_member(course):
    (course / "class.toml").write_text(ROSTER)
    collect(packed(course.parent, {moodle("Blue", 7): SOLVED}), course)
    assert in_course(course) == [f"ada/{START}/{START}.ipynb", f"alan/{START}/{START}.ipynb"]


def test_twenty_students_of_one_name_stay_twenty(course):
    collect(packed(course.parent, {moodle("Ada Lovelace", number): other(number) for number in range(1, 21)}), course)
    found = {path.parts[-3]: path.read_text() for path in course.glob("submitted/*/*/*.ipynb")}
    assert len(found) == 20
    assert all(f"version = {name.rpartition('_')[2]}" in text for name, text in found.items())


def test_namesakes_in_the_roster_are_never_guessed(course):
    (course / "class.toml").write_text(
        '[[students]]\nid="a1"\nname="Ada L"\n[[students]]\nid="a2"\nname="Ada L"\ncanvas="12"'
    )
    result = collect(packed(course.parent, {"lada_11_1_x.ipynb": SOLVED, "lada_12_2_x.ipynb": TASKS}), course)
    assert in_course(course) == ["a2/ch01_tasks/ch01_tasks.ipynb"]
    assert "2 students are called lada" in reasons(result)["lada_11_1_x.ipynb"]


# Who calls themselves like another


def test_two_accounts_of_one_name_on_the_roster_are_never_guessed(course):
    (course / "class.toml").write_text(ROSTER)
    result = collect(
        packed(course.parent, {moodle("Ada Lovelace", 1): SOLVED, moodle("Ada Lovelace", 2): EMPTY}), course
    )
    assert in_course(course) == []
    assert {reason[:35] for _, reason in result.left} == {"2 students are called Ada Lovelace:"}


def test_one_name_in_the_downloads_of_two_assignments_is_one_student(course, tmp_path):
    (course / "class.toml").write_text(ROSTER)
    for path, content in {
        f"all/a/{moodle('Ada Lovelace', 1)}": SOLVED,
        f"all/b/{moodle('Ada Lovelace', 2)}": TASKS,
    }.items():
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(content)
    collect(tmp_path / "all", course)
    assert in_course(course) == [f"ada/{START}/{START}.ipynb", "ada/ch01_tasks/ch01_tasks.ipynb"]


def test_a_name_that_ends_like_another_students_number_is_not_read_as_theirs(course):
    result = collect(
        packed(
            course.parent, {"eve_11_12_501_x.ipynb": SOLVED, "lovelaceada_11_5_x.ipynb": TASKS, "b_1_2_x.ipynb": TASKS}
        ),
        course,
    )
    assert "eve_11_12_501_x.ipynb" in reasons(result)
    assert not list(course.glob(f"submitted/*/{START}"))


def test_on_canvas_the_number_counts_before_the_name(course):
    (course / "class.toml").write_text('students = [{id = "alan", name = "Alan Turing", canvas = "12"}]')
    result = collect(packed(course.parent, {"turingalan_13_5_x.ipynb": SOLVED}), course)
    assert in_course(course) == []
    assert "no student on the roster is called turingalan with the number 13" in reasons(result).values()


def test_one_students_folder_does_not_turn_the_others_into_moodles(course, tmp_path):
    for path in (f"ada/{moodle('Alan', 2)}", "alan/x.ipynb", "grace/x.ipynb"):
        (tmp_path / "all" / path).parent.mkdir(parents=True)
        (tmp_path / "all" / path).write_text(SOLVED)
    assert collect(tmp_path / "all", course).layout == "folder"
    assert [name.split("/")[0] for name in in_course(course)] == ["ada", "alan", "grace"]


# What a zip may try


@pytest.mark.parametrize(
    "name", ["../../evil_1_2_x.ipynb", "/evil_1_2_x.ipynb", "a/../../evil_1_2_x.ipynb", "..\\..\\evil_1_2_x.ipynb"]
)
def test_a_path_that_leaves_the_folder_is_left_aside(course, name):
    before = sorted(course.parent.rglob("*"))
    result = collect(packed(course.parent, {name: SOLVED}), course)
    assert [reason for _, reason in result.left] == ["its path leaves the folder"]
    assert set(course.parent.rglob("*")) - set(before) <= {course.parent / "handed_in.zip"}


@pytest.mark.parametrize("name", ["..", ".git", "__init__", "a" * 129])
def test_a_student_of_an_impossible_name_is_left_aside(course, name):
    result = collect(packed(course.parent, {moodle(name, 1): SOLVED}), course)
    assert in_course(course) == []
    assert len(result.left) == 1


def test_a_files_own_path_stays_beside_its_notebook(course):
    names = ["data/a.csv", "../up.csv", "timestamp.txt", "x/../../y.csv"]
    files = {moodle("Ada", 1): SOLVED} | {moodle("Ada", 1, name): "1970-01-01 00:00:00 UTC" for name in names}
    collect(packed(course.parent, files), course)
    assert in_course(course) == [f"Ada/{START}/{START}.ipynb", f"Ada/{START}/data/a.csv"]


def test_a_link_in_a_zip_is_left_aside(course, tmp_path):
    link = zipfile.ZipInfo(moodle("Ada", 1))
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "links.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    assert reasons(collect(tmp_path / "links.zip", course)) == {moodle("Ada", 1): "it is a link"}


def test_nothing_is_written_through_a_link(course, tmp_path):
    (course / "submitted/Ada").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (course / f"submitted/Ada/{START}").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CommandError, match="is a link"):
        collect(packed(tmp_path, {moodle("Ada", 1): SOLVED}), course)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_zip_bomb_costs_its_owner_alone(course, monkeypatch):
    monkeypatch.setattr(arrivals, "MAX_BYTES", 2**20)
    monkeypatch.setattr(submission, "MAX_BYTES", 2**20)
    bombs = {moodle("Eve", 1, f"{number}.ipynb"): b"0" * 2**22 for number in range(3)}
    result = collect(packed(course.parent, bombs | {moodle("Ada", 2): SOLVED}), course)
    assert in_course(course) == [f"{name}/{START}/{START}.ipynb" for name in ("Ada", "Eve")]
    assert (course / f"submitted/Eve/{START}/{START}.ipynb").stat().st_size == 2**20 + 1
    said = "the notebook is too large: 1 MB is the limit, so clear its outputs, in JupyterLab with Edit → Clear Outputs of All Cells"
    assert [reason for _, reason in result.unreadable] == [said]
    assert {reason for _, reason in result.left} == {"a newer one counts 2.ipynb"}


def test_many_files_of_one_student_are_no_more_than_one_student_may_hand_in(course, monkeypatch):
    monkeypatch.setattr("coursekit.grading.desk.collect.MAX_STUDENT", 2**20)
    files = {moodle("Eve", 1, f"{number}.bin"): b"0" * 2**19 for number in range(5)}
    result = collect(packed(course.parent, files | {moodle("Ada", 2): SOLVED}), course)
    assert in_course(course) == [f"Ada/{START}/{START}.ipynb", f"Eve/{START}/0.bin"]
    assert sum("handed in more than 1 MB" in reason for _, reason in result.left) >= 3


def test_a_zip_that_unpacks_without_end_is_refused(course, monkeypatch):
    monkeypatch.setattr(arrivals, "MAX_ALL", 2**20)
    with pytest.raises(CommandError, match="Nothing more was read"):
        collect(packed(course.parent, {moodle(f"Eve {n}", n): b"0" * 2**19 for n in range(4)}), course)


def test_what_is_no_zip_and_what_is_not_there_are_said(course, tmp_path):
    (tmp_path / "x.zip").write_text("hello")
    with pytest.raises(CommandError, match="is neither a zip nor a folder"):
        collect(tmp_path / "x.zip", course)
    with pytest.raises(CommandError, match="There is no"):
        collect(tmp_path / "y.zip", course)


def test_the_command_says_what_came_of_it(course):
    path = packed(course.parent, {moodle("Ada", 1): SOLVED, "x.txt": "?"})
    shown = CliRunner().invoke(app, ["collect", str(path), str(course)])
    assert shown.exit_code == 0, shown.output
    assert f"New in submitted/: 1 of {START}." in shown.output
    assert "x.txt: neither its name" in shown.output
    assert f"Next: coursekit grade {course / 'submitted'}" in shown.output.replace("\n", "")
    again = CliRunner().invoke(app, ["collect", str(path), str(course)]).output
    assert "New in submitted/: nothing." in again
    assert "Unchanged, and placed before: 1 notebook." in again
    assert "Next:" not in again


def test_the_source_notebooks_may_lie_in_another_folder(course):
    (course / "source").rename(course / "src")
    (course / "release").rename(course / "out")
    (course / "nbgrader_config.py").write_text(
        'c = get_config()\nc.CourseDirectory.source_directory = "src"\nc.CourseDirectory.release_directory = "out"\n'
    )
    shutil.move(course / f"src/{START}", course / "src/week1")
    shutil.move(course / f"out/{START}", course / "out/week1")
    (course / "class.toml").write_text('zone = "UTC"\n[due]\nweek1 = 2026-10-19\n')
    files = {moodle("Ada", 1): EMPTY, moodle("Ada", 1, "old.ipynb"): SOLVED}
    result = collect(packed(course.parent, files), course)
    assert result.placed == [f"Ada/week1/{START}.ipynb"]
    assert reasons(result) == {moodle("Ada", 1): "nothing is answered in it, unlike in old.ipynb"}


def test_a_link_in_an_earlier_hand_in_is_not_copied_as_what_it_leads_to(course, tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    (course / f"submitted/Ada/{START}").mkdir(parents=True)
    (course / f"submitted/Ada/{START}/notes.txt").symlink_to(tmp_path / "secret.txt")
    (course / f"submitted/Ada/{START}/data.csv").write_text("1")
    collect(packed(tmp_path, {moodle("Ada", 1): SOLVED}), course)
    assert in_course(course) == [f"Ada/{START}/{START}.ipynb", f"Ada/{START}/data.csv"]


def test_a_folder_that_was_handed_in_is_no_course(course):
    (course.parent / "submitted/eve").mkdir(parents=True)
    course = course.rename(course.parent / "submitted/eve/hw1")
    (course / "nbgrader_config.py").write_text("raise SystemExit('ran')")
    with pytest.raises(CommandError, match="so everything around it was handed in"):
        collect(packed(course.parent, {moodle("Ada", 1): SOLVED}), course)
