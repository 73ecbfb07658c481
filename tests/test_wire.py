"""What travels between a check and an answer arrives as it was; what must not travel does not."""

import enum
import math
import subprocess
import time

import msgpack
import numpy as np
import pytest
import torch

from coursekit import wire
from coursekit.exercise import agree
from coursekit.given import ch01_tasks


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        2**80,
        -(2**80),
        2.5,
        -math.inf,
        "é",
        b"\x00",
        [1, [2]],
        (1, (2, 3)),
        {1, 2},
        {"a": 1, (1, 2): [3]},
    ],
    ids=repr,
)
def test_plain_data_arrives_as_it_was(value):
    copy = wire.copy(value)
    assert copy == value
    assert type(copy) is type(value)


@pytest.mark.parametrize(
    "array", [np.arange(6.0).reshape(2, 3), np.zeros((0, 3), np.int8), np.array([True]), np.array("x")]
)
def test_arrays_keep_type_and_shape(array):
    copy = wire.copy(array)
    assert (copy.dtype, copy.shape) == (array.dtype, array.shape)
    assert np.array_equal(copy, array)
    assert copy.flags.writeable


def test_what_arrives_is_a_copy():
    original = [[1], np.zeros(2)]
    copy = wire.copy(original)
    copy[0].append(2)
    copy[1][0] = 1
    assert original[0] == [1]
    assert original[1][0] == 0


class LyingInt(int):
    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


class LyingList(list):
    def __iter__(self):
        return iter([42])


class Colour(enum.IntEnum):
    RED = 1


class LyingArray(np.ndarray):
    def __eq__(self, other):
        return np.array(True)


def test_subclasses_arrive_as_plain_data_without_their_methods():
    lies = [
        LyingInt(3),
        LyingList([1, 2]),
        Colour.RED,
        np.float32(1.5),
        np.zeros(2).view(LyingArray),
        torch.ones(2),
    ]
    plain = wire.copy(lies)
    assert [type(value) for value in plain] == [int, list, int, float, np.ndarray, np.ndarray]
    assert plain[:4] == [3, [1, 2], 1, 1.5]


CYCLE: list = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    "value",
    [object(), len, CYCLE, np.array([object()]), {"deep": [lambda: 1]}],
    ids=lambda v: type(v).__name__,
)
def test_everything_else_is_refused_by_name(value):
    with pytest.raises(wire.NotPlain, match=r"\w"):
        wire.encode(value)


def test_a_given_function_travels_as_its_name_and_only_to_the_learner():
    data = wire.encode([ch01_tasks.square])
    assert wire.decode(data, functions=True) == [ch01_tasks.square]
    with pytest.raises(ValueError, match="not a message"):
        wire.decode(data)


@pytest.mark.parametrize("name", ["os:system", "ch01_tasks:nothing", "../x:y", "ch01_tasks:np.load"])
def test_no_other_function_can_be_named(name):
    data = msgpack.packb(msgpack.ExtType(wire.FUNCTION, name.encode()))
    with pytest.raises((ValueError, ModuleNotFoundError)):
        wire.decode(data, functions=True)


def test_a_lying_class_module_does_not_make_a_function_given():
    def run(*args):
        return subprocess.run(*args)

    run.__module__, run.__qualname__ = "coursekit.given.ch01_tasks", "square"
    with pytest.raises(wire.NotPlain):
        wire.encode(run)


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x93\x01", msgpack.packb(msgpack.ExtType(99, b"")), b"\x91" * 5000])
def test_bytes_that_nobody_encoded_raise_value_error(data):
    with pytest.raises(ValueError, match="not a message"):
        wire.decode(data)


@pytest.mark.parametrize("header", [["<f8", [2], b"1234"], ["O", [1], b"12345678"], ["<f8", [-1], b""], [3, [1], b""]])
def test_arrays_that_do_not_fit_their_bytes_raise_value_error(header):
    data = msgpack.packb(msgpack.ExtType(wire.ARRAY, msgpack.packb(header)))
    with pytest.raises(ValueError, match="not a message"):
        wire.decode(data)


@pytest.mark.parametrize(
    ("got", "want", "same"),
    [
        ([1, 2], (1, 2), True),
        (np.array([1, 2]), [1, 2], True),
        ([1, 2], [1, 2, 3], False),
        ([1.0000001], [1.0], True),
        ([1.1], [1.0], False),
        (None, 1.0, False),
        (math.nan, math.nan, True),
        ({"a": [1]}, {"a": (1,)}, True),
        ({"a": 1}, {"b": 1}, False),
        (np.array(3.0), 3.0, True),
        ("a", ["a"], False),
        (np.zeros((2, 1)), np.zeros((1, 2)), False),
    ],
)
def test_agree_compares_values_and_shapes(got, want, same):
    assert agree(got, want, rtol=1e-5) is same


def nested(depth: int) -> bytes:
    """Return a message of tuples within each other, as `encode` would write them."""
    message = msgpack.packb(1.5)
    for _ in range(depth):
        message = msgpack.packb(msgpack.ExtType(wire.TUPLE, msgpack.packb([0]).replace(b"\x00", message)))
    return message


def test_tuples_within_each_other_end_at_a_limit_and_not_the_program():
    assert wire.decode(nested(20)) != 1.5
    with pytest.raises(ValueError, match="not a message"):
        wire.decode(nested(5000))


def test_few_bytes_cannot_stand_for_gigabytes():
    with pytest.raises(ValueError, match="parts"):
        wire.decode(msgpack.packb([[[]] * 1000] * 3000))


@pytest.mark.parametrize("code", [None, wire.SET], ids=["dict", "set"])
def test_numbers_that_were_chosen_to_collide_take_no_time(code):
    numbers = [msgpack.ExtType(wire.LONG, hex(number * (2**61 - 1)).encode()) for number in range(1, 50_000)]
    message = (
        msgpack.packb(dict.fromkeys(numbers))
        if code is None
        else msgpack.packb(msgpack.ExtType(code, msgpack.packb(numbers)))
    )
    start = time.perf_counter()
    with pytest.raises(ValueError, match="keys are not strings"):
        wire.decode(message)
    assert time.perf_counter() - start < 5
