"""What a cell defines and checks is read from its source by one rule, whether it is Python or not."""

import gc
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from coursekit.basics.cells import defined_names, judged_by


@pytest.mark.parametrize("rest", ["", "%matplotlib inline", "def cut_short(a, b"])
def test_what_is_no_python_still_defines_what_begins_its_lines(rest):
    source = f"def one(x):\n    inner = x\n    return inner\nasync def two(): ...\nclass Three: ...\nfour = one(1)\nfour == 5\n{rest}"
    assert defined_names(source)[:4] == ["one", "two", "Three", "four"]
    assert not {"inner", "x"} & set(defined_names(source))


def test_an_assignment_defines_its_names_and_not_what_it_changes():
    assert defined_names("a, (b, *c) = 1, (2, 3)\nd: int = 4\nfound[e] = best.f = 5") == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("source", "call"),
    [
        ('check("one", one)', ("check", "one")),
        ("# Is it right?\nquiz('one', one)\n", ("quiz", "one")),
        ('check("one", two)', None),
        ('check("one", one, 3)', None),
        ('check("one", one)\ncheck("two", two)', None),
        ('result = check("one", one)', None),
        ('%time check("one", one)', None),
        ("", None),
    ],
)
def test_a_check_cell_holds_one_check_by_its_name_and_nothing_else(source, call):
    assert judged_by(source) == call


@pytest.mark.slow
def test_cells_are_read_in_several_threads_at_once():
    """Where a finalizer runs while Python 3.11 builds the syntax tree, another thread has its turn, and the parser failed."""
    flat, deep = "a\n" * 5_000, "def f(x):\n    return [x for x in (1, (2, (3, 4)))]\n" * 500

    def yields(*_: object) -> None:
        time.sleep(0)

    gc.callbacks.append(yields)
    try:
        with ThreadPoolExecutor(4) as pool:
            names = list(pool.map(defined_names, [flat, deep] * 40))
    finally:
        gc.callbacks.remove(yields)
    assert names == [[], ["f"] * 500] * 40
