"""The canary's table says of each chapter how many tests passed on another Ray or Python, and what broke first."""

import pytest

from tests.canary import Case, cases, kept, table, usual_ray, with_ray

REPORT = """<testsuites><testsuite>
<testcase name="test_solved_notebook_earns_every_point[ch02_objects]"/>
<testcase name="test_check_tells_right_from_wrong[ch01_tasks-as_task-named]"/>
<testcase name="test_check_tells_right_from_wrong[ch01_tasks-as_task-lambda]"><failure message="{message}">{text}</failure></testcase>
</testsuite></testsuites>"""
PAGE = "# Title\n\n<!-- table: one -->\n\nold\n\n<!-- end of table: one -->\nby hand\n"


def report(tmp_path, message="broke", text=""):
    path = tmp_path / "report.xml"
    path.write_text(REPORT.format(message=message, text=text))
    return cases(path)


def test_each_test_belongs_to_the_chapter_in_its_name(tmp_path):
    assert [case.row for case in report(tmp_path)] == ["ch02_objects", "ch01_tasks", "ch01_tasks"]


@pytest.mark.parametrize(
    ("message", "text", "reason"),
    [
        ("AssertionError: assert {'as_task': 'two'} == {}", "", "{'as_task': 'two'} == {}"),
        (
            "nbclient.CellExecutionError: failed",
            "x\n#x1B[31mAttributeError#x1B[39m: no 'tune.run'\n",
            "AttributeError: no 'tune.run'",
        ),
        (
            "AssertionError: assert ('wrong', 'No.') == ('passed', '')&#10;  At index 0",
            "",
            "('wrong', 'No.') == ('passed', '')",
        ),
        ("AssertionError: &#10;&#10;assert 5 == 0&#10; +  where 5 = it", "", "5 == 0"),
    ],
)
def test_what_broke_is_the_first_error_of_python_or_what_differs_first(tmp_path, message, text, reason):
    assert report(tmp_path, message, text)[-1].failure == reason


def test_the_table_counts_and_names_each_reason_once():
    found = [Case("ch01_tasks", ""), Case("ch01_tasks", "E: no"), Case("ch01_tasks", "E: no"), Case("ch02_objects", "")]
    assert table(found).splitlines()[2:] == ["| ch01_tasks | 1 of 3 | `E: no` |", "| ch02_objects | 1 of 1 | – |"]


def test_chapters_in_which_all_passed_share_one_row():
    found = [*map(Case, ("ch00_start", "ch01_tasks", "ch01_tasks"), ("", "E: no", ""))]
    found += [Case("ch02_objects", ""), Case("ch02_objects", ""), Case("sandbox", "")]
    rows = ["| 2 chapters | 3 of 3 | – |", "| ch01_tasks | 1 of 2 | `E: no` |", "| sandbox | 1 of 1 | – |"]
    assert table(found).splitlines()[2:] == rows


def test_a_new_table_takes_the_place_of_the_old_one_and_nothing_else():
    assert kept(PAGE, "one", "new") == PAGE.replace("old", "new")


def test_a_first_table_comes_last_and_is_replaced_later():
    once = kept(PAGE, "two", "first")
    assert once == PAGE + "\n<!-- table: two -->\n\nfirst\n\n<!-- end of table: two -->\n"
    assert kept(once, "two", "second") == once.replace("first", "second")


def test_another_ray_keeps_the_extras_that_the_course_declares():
    assert with_ray("2.59.0") == "ray[default,rllib,tune,train,data,serve]==2.59.0"


def test_the_usual_ray_is_the_one_of_the_constraints():
    assert usual_ray() == "2.60.0"
