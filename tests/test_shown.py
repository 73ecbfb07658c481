"""What a sandbox says that its cells have shown and written is believed only as far as it is pictures, texts and files."""

import base64

import pytest
from nbgrader.utils import get_partial_grade

from coursekit.grading.cell_outputs import credit_of
from coursekit.judging import wire
from coursekit.sandbox.limits import SandboxDied
from coursekit.sandbox.replies import Shown, files_in, shown_in

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n and so on").decode()


def row(**parts: str) -> dict[str, str]:
    return {"kind": "display_data", "text": "a text", "mime": "", "picture": ""} | parts


def test_a_picture_is_shown_and_what_is_none_is_left_out():
    rows = [row(mime="image/png", picture=PNG)]
    rows += [row(mime=mime, picture=data) for mime, data in [("image/png", '"><b>'), ("image/jpeg", PNG)]]
    rows += [row(mime="text/html", picture=PNG), row(mime="image/svg+xml", picture=PNG)]
    whole, *others = shown_in(wire.encode({"error": None, "shown": rows}))
    assert whole == Shown("display_data", "a text", "image/png", PNG)
    assert others == [Shown("display_data", "a text")] * 4


@pytest.mark.parametrize("reply", [{"shown": 5}, {"shown": [5]}, {"shown": [{}]}, {"shown": [row(kind="error")]}, 5])
def test_what_is_no_report_ends_the_sandbox(reply):
    with pytest.raises(SandboxDied, match="not an answer"):
        shown_in(wire.encode(reply))


def test_files_lie_below_their_folder_and_are_none_that_nbgraders_tools_read():
    good = {"x.csv": b"1", "a/b/c.txt": b"", ".hidden": b"2"}
    names = ["../x", "/x", "a/../../x", "", ".", "a//b", "x\ny", "l" * 201, "/".join("abcdefghi"), "timestamp.txt"]
    names += ["other.ipynb", "hw.ipynb/x", "hw.partial", "__pycache__/x", "a/.ipynb_checkpoints/x"]
    assert files_in(wire.encode(good | dict.fromkeys(names, b"bad") | {"text": "no bytes", 5: b"no name"})) == good
    assert files_in(b"\xc1") == files_in(wire.encode([1])) == {}


@pytest.mark.parametrize(
    "text", ["1", "0", "0.5", "1e-3", " 1 ", "1_0e-1", "nan", "-1", "-0.0", "True", "'1'", "<P.half: 1>", "[1]", "None"]
)
def test_a_value_that_is_shown_gives_the_points_that_nbgrader_gives(text):
    assert credit_of([Shown("execute_result", text)], 2) == get_partial_grade({"data": {"text/plain": text}}, 2)


def test_only_the_first_value_of_a_cell_counts_and_what_is_displayed_does_not():
    shown = [Shown("display_data", "0.5"), Shown("execute_result", "1"), Shown("execute_result", "2")]
    assert (credit_of(shown, 2), credit_of(shown[:1], 2), credit_of([], 2)) == (1, 2, 2)


def test_numpys_numbers_count_and_credit_above_the_points_is_all_of_them():
    assert [credit_of([Shown("execute_result", text)], 2) for text in ("np.float64(0.5)", "np.int64(1)")] == [0.5, 1]
    assert get_partial_grade({"data": {"text/plain": "np.float64(0.5)"}}, 2) == 2
    assert credit_of([Shown("execute_result", "3")], 2) == credit_of([Shown("execute_result", "inf")], 2) == 2
    with pytest.raises(ValueError, match="greater than maximum"):
        get_partial_grade({"data": {"text/plain": "3"}}, 2)


def test_no_more_files_are_kept_than_fit():
    many = {f"{number}": b"x" for number in range(300)}
    large = {f"{number}": bytes(4_000_000) for number in range(5)}
    assert len(files_in(wire.encode(many))) == 200
    assert len(files_in(wire.encode(large))) == 2
