"""What travels between a check and an answer arrives as it was; what must not travel does not."""

import enum
import itertools
import math
import subprocess
import time
import tracemalloc

import msgpack
import numpy as np
import pandas as pd
import pytest
import torch

from coursekit.given import ch01_tasks
from coursekit.judging import wire
from coursekit.judging.expect import agree
from coursekit.sandbox import replies
from coursekit.sandbox.limits import SandboxDied


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
        {"a": 1, 2: [3], 1.5: {4}, None: b""},
    ],
    ids=repr,
)
def test_plain_data_arrives_as_it_was(value):
    copy = wire.copy(value)
    assert copy == value
    assert type(copy) is type(value)


@pytest.mark.parametrize(
    "array", [np.arange(6.0).reshape(2, 3), np.zeros((0, 3), np.int8), np.array([True]), np.array(["x"])]
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
    [object(), len, CYCLE, np.array([object()]), {"deep": [lambda: 1]}, [10**400]]
    + [1j, np.complex64(1j), torch.ones(2).to_sparse(), pd.DataFrame({"x": [1]}), pd.Timestamp(0)],
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
    assert wire.decode(nested(8)) != 1.5
    with pytest.raises(ValueError, match="not a message"):
        wire.decode(nested(5000))


def test_few_bytes_cannot_stand_for_gigabytes():
    with pytest.raises(ValueError, match="parts"):
        wire.decode(msgpack.packb([[[]] * 1000] * 3000))


def extension(code: int, value: object) -> msgpack.ExtType:
    return msgpack.ExtType(code, msgpack.packb(value))


def a_dict(keys: list) -> bytes:
    return msgpack.Packer().pack_map_header(len(keys)) + b"".join(msgpack.packb(key) + b"\xc0" for key in keys)


def colliding_pairs(count: int) -> list[list[int]]:
    """Return pairs of numbers whose tuples have one hash."""
    p1, p2, p5, all_of_them = 11400714785074694791, 14029467366897019727, 2870177450012600261, 2**64
    pairs: list[list[int]] = []
    for first in itertools.count(1):
        state = (p5 + first * p2) % all_of_them
        last = -((state << 31 | state >> 33) * p1) * pow(p2, -1, all_of_them) % all_of_them
        if last < 2**61 - 1:
            pairs.append([first, last])
        if len(pairs) == count:
            break
    assert len({hash(tuple(pair)) for pair in pairs}) == 1
    return pairs


NUMBERS = [msgpack.ExtType(wire.LONG, hex(number * (2**61 - 1)).encode()) for number in range(1, 10_000)]
TUPLES = [extension(wire.TUPLE, pair) for pair in colliding_pairs(1000)]
ROWS_OF_NOTHING = extension(wire.ARRAY, ["<f8", [10**9, 0], b""])
EXPENSIVE = {
    "numbers that collide as keys": a_dict(NUMBERS),
    "numbers that collide in a set": msgpack.packb(extension(wire.SET, NUMBERS)),
    "tuples that collide as keys": a_dict(TUPLES),
    "tuples that collide in a set": msgpack.packb(extension(wire.SET, TUPLES)),
    "more text than a list needs": msgpack.packb(["x" * 10_000] * 600),
    "axes without end": msgpack.packb(extension(wire.ARRAY, ["<f8", [2**63] * 100_000, b""])),
    "an axis that is text": msgpack.packb(extension(wire.ARRAY, ["<U500000000", ["x" * 100], b""])),
    "rows without a byte": msgpack.packb(ROWS_OF_NOTHING),
    "rows without a byte in a tuple": msgpack.packb(extension(wire.TUPLE, ROWS_OF_NOTHING)),
    "rows of one byte": wire.encode(np.zeros((400_000, 1), np.uint8)),
    "more numbers than a list needs": wire.encode(np.zeros(2_000_000, bool)),
    "arrays of more numbers than a list needs": wire.encode([np.zeros((20, 20_000), bool)] * 4),
    "a type of 5,000 characters": msgpack.packb(extension(wire.ARRAY, ["f8" + "," * 5_000, [1], bytes(8)])),
    "bytes as a tuple": msgpack.packb(extension(wire.TUPLE, bytes(10_000_000))),
    "a whole number that no float holds": msgpack.packb(msgpack.ExtType(wire.LONG, hex(10**400).encode())),
    "a type that is code": msgpack.packb(extension(wire.ARRAY, ["(,)f8", [1], bytes(8)])),
}


@pytest.mark.parametrize("message", EXPENSIVE.values(), ids=list(EXPENSIVE))
def test_what_would_cost_its_reader_minutes_or_gigabytes_is_refused_at_once(message):
    start = time.process_time()
    with pytest.raises(ValueError, match="not a message"):
        wire.decode(message)
    assert time.process_time() - start < 5


def test_an_array_of_a_million_numbers_travels():
    assert wire.copy(np.zeros((2_000, 500))).shape == (2_000, 500)


def test_the_judge_may_send_more_numbers_than_may_come_back():
    data = wire.encode(np.zeros(2_000_000))
    assert wire.decode(data, functions=True).shape == (2_000_000,)
    with pytest.raises(ValueError, match="parts"):
        wire.decode(data)


FORGED_PLACES = {
    "bytes by their number": {"address": "127.0.0.1:1", "job": 2**31, "task": b"", "moment": 1},
    "a moment without end": {"address": "127.0.0.1:1", "job": b"", "task": b"", "moment": float("inf")},
    "a moment of text": {"address": "127.0.0.1:1", "job": b"", "task": b"", "moment": "9" * 5_000},
    "an id of megabytes": {"address": "127.0.0.1:1", "job": bytes(10**6), "task": b"", "moment": 1},
    "an address that is a list": {"address": ["x" * 10**6], "job": b"", "task": b"", "moment": 1},
    "nothing of it": 7,
}


@pytest.mark.parametrize("place", FORGED_PLACES.values(), ids=list(FORGED_PLACES))
def test_a_place_of_ray_that_cannot_be_true_ends_the_sandbox_and_takes_no_memory(place):
    message = wire.encode(place)
    tracemalloc.start()
    with pytest.raises(SandboxDied, match="not an answer"):
        replies.place(message)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**25


def test_a_place_of_ray_is_taken_over():
    place = {"address": "127.0.0.1:6379", "job": b"\1\0", "task": b"\xff", "moment": 12}
    assert replies.place(wire.encode(place)) == place | {"job": "0100", "task": "ff"}
    assert replies.place(wire.encode({})) == {}


@pytest.mark.parametrize("told", [{"error": {"kind": ["x"], "message": "", "where": "", "todo": False}}, {}, [1], None])
def test_an_error_that_is_none_ends_the_sandbox(told):
    with pytest.raises(SandboxDied, match="not an answer"):
        replies.error(wire.encode(told))


ALIKE = [1 + times * (2**61 - 1) for times in range(8)]  # numbers of one hash
LARGEST = {
    "pairs": colliding_pairs(4_900),
    "numbers behind a text": [["x" * 200, *numbers] for numbers in itertools.product(*[ALIKE] * 4)][:2_500],
}


@pytest.mark.parametrize("lists", LARGEST.values(), ids=list(LARGEST))
def test_a_check_may_put_into_a_set_whatever_was_read(lists):
    assert len({hash(tuple(each)) for each in lists}) == 1
    start = time.process_time()
    assert len(set(map(tuple, wire.copy(lists)))) == len(lists)
    assert time.process_time() - start < 5
    with pytest.raises(ValueError, match="parts"):
        wire.copy(lists + lists[:500])
