"""What users of NumPy, PyTorch and pandas return naturally is judged as the plain value that it holds."""

from collections import OrderedDict, deque, namedtuple
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from coursekit.judging import wire
from coursekit.judging.exercise import Exercise, judge
from coursekit.judging.expect import agree, expect, expect_close, expect_equal
from coursekit.judging.form import conform
from coursekit.learner.checks import local

Pair = namedtuple("Pair", "first second")
NATURAL = {  # what is returned, and what arrives
    "np.bool_": (np.bool_(True), True),
    "np.int64": (np.int64(3), 3),
    "np.uint8": (np.uint8(3), 3),
    "np.float32": (np.float32(0.5), 0.5),
    "np.float64": (np.float64(0.5), 0.5),
    "np.str_": (np.str_("b"), "b"),
    "a 0-d array": (np.array(1), 1),
    "a 0-d array of bool": (np.array(True), True),
    "a 0-d array of text": (np.array("b"), "b"),
    "a 0-d tensor": (torch.tensor(1), 1),
    "a 0-d tensor of bool": (torch.tensor([1, 2]).sum() > 2, True),
    "a loss with its graph": (torch.ones(2, requires_grad=True).mean(), 1.0),
    "a 0-d tensor of bfloat16": (torch.tensor(0.5, dtype=torch.bfloat16), 0.5),
    "a 0-d array in a list": ([np.array(1), torch.tensor(2)], [1, 2]),
    "a 0-d tensor in a dict": ({"loss": torch.tensor(0.5)}, {"loss": 0.5}),
    "a tensor": (torch.tensor([1.0, 2.0]), np.array([1.0, 2.0])),
    "a tensor of bfloat16": (torch.ones(2, dtype=torch.bfloat16), np.ones(2)),
    "a tensor seen conjugated": (torch.ones(2, dtype=torch.complex64).conj(), np.ones(2, complex)),
    "a parameter": (torch.nn.Parameter(torch.ones(2)), np.ones(2)),
    "a tensor's shape": (torch.ones(2, 3).shape, (2, 3)),
    "a Series": (pd.Series([1.0, 2.0]), np.array([1.0, 2.0])),
    "a Series of text": (pd.Series(["a", "b"]), ["a", "b"]),
    "a Series of whole numbers that may be missing": (pd.Series([1, 2], dtype="Int64"), np.array([1, 2])),
    "an Index": (pd.Index([3, 4]), np.array([3, 4])),
    "a column of a table": (pd.DataFrame({"x": [1, 2]})["x"].values, np.array([1, 2])),
    "an array of objects": (np.array([[1, 2], [3]], dtype=object), [[1, 2], [3]]),
    "an array of bytes": (np.array([b"a"]), [b"a"]),
    "np.int64 as keys": ({np.int64(1): 2}, {1: 2}),
    "a set of np.int64": ({np.int64(1)}, {1}),
    "a frozenset": (frozenset({1}), {1}),
    "a named tuple": (Pair(1, 2), (1, 2)),
    "an OrderedDict": (OrderedDict(a=1), {"a": 1}),
    "a range": (range(3), [0, 1, 2]),
    "a deque": (deque([1, 2], maxlen=2), [1, 2]),
    "a dict's values": ({"a": 1}.values(), [1]),
}
SEQUENCES = [[1, 2], (1, 2), np.array([1, 2]), torch.tensor([1, 2]), pd.Series([1, 2]), range(1, 3), deque([1, 2])]


@pytest.mark.parametrize(("natural", "plain"), NATURAL.values(), ids=NATURAL)
def test_a_natural_type_arrives_as_what_it_holds(natural, plain):
    arrived = wire.copy(natural)
    assert type(arrived) is type(plain)
    assert agree(arrived, plain)


def judged(value, check, returns=Any):
    """Return how a check ends for an answer that returns this value."""
    return judge(
        Exercise("ch00_start", "given", 1, 1, (), "", check, 1, returns=returns), local("given", lambda: value)
    )


@pytest.mark.parametrize("returns", [list, tuple, np.ndarray])
@pytest.mark.parametrize("value", SEQUENCES, ids=type)
def test_a_sequence_becomes_the_one_that_the_exercise_asks_for(value, returns):
    def check(answer, rng):
        got = answer()
        expect(type(got) is returns, f"A {type(got)} arrived.")
        expect_equal(got, [1, 2], "Other items arrived.")

    assert judged(value, check, returns).status == "passed"


@pytest.mark.parametrize("wanted", [[1, 2], (1, 2), np.array([1, 2])], ids=type)
@pytest.mark.parametrize("value", SEQUENCES, ids=type)
def test_equal_items_are_equal_in_every_sequence(value, wanted):
    assert judged(value, lambda answer, rng: expect_equal(answer(), wanted, "They differ.")).status == "passed"


@pytest.mark.parametrize("kind", [float, np.float32, np.array, torch.tensor])
@pytest.mark.parametrize("wanted", [0.1, np.float32(0.1), np.array(0.1), [0.1], np.array([0.1], np.float32)], ids=repr)
def test_numbers_agree_within_the_tolerance_whatever_holds_them(kind, wanted):
    value = [kind(0.1000004)] if np.ndim(wanted) else kind(0.1000004)
    assert judged(value, lambda answer, rng: expect_close(answer(), wanted, "They differ.")).status == "passed"
    assert judged(value, lambda answer, rng: expect_equal(answer(), wanted, "They differ.")).status == "wrong"


@pytest.mark.parametrize(
    ("value", "returns"),
    [(np.bool_(True), bool), (np.array(True), bool), (torch.tensor(2), int), (np.int8(2), int), (np.array(2.5), float)],
    ids=repr,
)
def test_a_number_of_numpy_or_torch_is_the_number_that_the_exercise_asks_for(value, returns):
    assert (
        judged(value, lambda answer, rng: expect(answer() == value.item(), "It differs."), returns).status == "passed"
    )


@pytest.mark.parametrize(
    ("value", "returns", "needs"),
    [
        (None, list, "a list, but it got nothing (None)"),
        (np.array(1), list, "a list, but it got a whole number"),
        (True, int, "a whole number, but it got True or False"),
        ([1], int, "a whole number, but it got a list"),
        ([[1, 2], [3]], np.ndarray, "an array, but it got rows that differ in length"),
    ],
)
def test_another_type_is_wrong_and_the_message_says_what_is_needed(value, returns, needs):
    result = judged(value, lambda answer, rng: answer(), returns)
    assert (result.status, result.message.partition("\n")[0]) == ("wrong", f"The check needs {needs}.")


def test_whole_numbers_beyond_64_bits_are_numbers_in_an_array_too():
    assert conform([2**70, 1], np.ndarray).tolist() == [2.0**70, 1.0]
