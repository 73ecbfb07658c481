"""Plain data on its way between a check and an answer: msgpack, never pickle.

Numbers, strings, bytes, None, lists, tuples, sets, dicts and arrays travel; a function of `coursekit.given` travels as
its name. A subclass arrives as its plain base class, so nothing that comes back brings methods of its own. What NumPy,
PyTorch and pandas return arrives as what it holds: a 0-d array or tensor as a number, a Series as an array, a range,
a deque or a dict's values as a list.
"""

import math
import re
import sys
from collections.abc import Callable, Sequence, ValuesView
from importlib import import_module
from typing import Any

import msgpack
import numpy as np

GIVEN = "coursekit.given."
LIMIT = 256 * 1024 * 1024  # bytes of one message
DEPTH = 10  # tuples and sets within each other: each is a copy of all that it holds
PARTS = 300_000  # of one message: a key of a dict is one, a row of an array is one
ITEM = 15  # parts of an item of a list, tuple or set: a check may put all items into a set, where some collide
NUMBERS = 4  # of an array that are one part: as a list, or written into a message, each takes a hundred bytes
TEXT = 16  # bytes or characters of an item that are one part more
LONGEST = 10**307  # below it, a whole number is a float as well, and a message can show it
SCALARS = (str, bytes, int, float, type(None))  # what keys of dicts and members of sets are
TUPLE, SET, ARRAY, FUNCTION, LONG = range(1, 6)
NO_MESSAGE = "These bytes are not a message"
TOO_MANY = f"it has too many parts, and a check reads up to {PARTS // ITEM:,} items of lists or {PARTS * NUMBERS:,} numbers of arrays"


class NotPlain(TypeError):
    """A value that cannot travel, because it is not plain data."""


class TooLarge(NotPlain):
    """A value of more bytes than a message may have."""


def encode(value: object) -> bytes:
    """Return `value` as bytes; raises `NotPlain`, which names the type that cannot travel."""
    try:
        data: bytes = msgpack.packb(value, default=_encode_other, strict_types=True)
    except NotPlain:
        raise
    except (ValueError, TypeError, RecursionError) as error:
        raise NotPlain(f"a value that cannot be copied ({error})") from None
    _expect_to_fit(len(data))
    return data


def _expect_to_fit(size: int) -> None:
    if size > LIMIT:
        raise TooLarge(f"it takes {size // 2**20} MB, and a check reads up to {LIMIT // 2**20} MB")


def _expect_short(number: int) -> int:
    if abs(number) >= LONGEST:
        digits = int(math.log10(abs(number))) + 1
        raise TooLarge(f"it has a whole number of {digits:,} digits, and a check reads up to 307")
    return number


def decode(data: bytes, functions: bool = False) -> Any:
    """Return the value that `data` encodes; functions of `coursekit.given` only where `functions` allows them.

    Raises ValueError for bytes that `encode` cannot have written, and for a value that would cost the reader too much.
    """
    try:
        return _Reader(functions).read(data)
    except (msgpack.UnpackException, ValueError, TypeError, RecursionError, MemoryError) as error:
        text = TOO_MANY if " exceeds max_" in str(error) else error  # msgpack's own limits
        raise ValueError(f"{NO_MESSAGE}: {text}"[:200]) from None


def copy(value: object) -> Any:
    """Return a copy of `value` as it would arrive at the other side."""
    return decode(encode(value))


def _encode_other(value: Any) -> Any:
    if isinstance(value, np.generic):
        return float(value) if isinstance(value, np.floating) else value.item()
    if isinstance(value, np.ndarray):
        return _encode_array(value)
    if "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor):
        tensor = value.float() if value.dtype is sys.modules["torch"].bfloat16 else value  # NumPy has no bfloat16
        return _encode_array(tensor.numpy(force=True))
    if isinstance(value, tuple):
        return msgpack.ExtType(TUPLE, encode(list(tuple.__iter__(value))))
    if isinstance(value, set | frozenset):
        return msgpack.ExtType(SET, encode(list(value)))
    if type(value) is int:  # beyond 64 bits
        return msgpack.ExtType(LONG, hex(_expect_short(value)).encode())
    if callable(value) and str(getattr(value, "__module__", "")).startswith(GIVEN):
        return msgpack.ExtType(FUNCTION, name_of(value).encode())
    return _base(value)


_PLAIN: dict[type, Callable[[Any], Any]] = {
    int: int.__index__,
    float: float.__float__,
    str: str.__str__,
    bytes: lambda data: bytes(memoryview(data)),
    list: lambda items: list(list.__iter__(items)),
    dict: lambda items: dict(dict.items(items)),
}


def _base(value: Any) -> Any:
    """Return an instance of a subclass as its plain base class, a Series as an array, another sequence as a list."""
    for base, plain in _PLAIN.items():
        if isinstance(value, base):
            return plain(value)
    if hasattr(type(value), "__array__") and not hasattr(type(value), "columns"):  # a table's names would be lost
        return _encode_array(np.array(value))
    if isinstance(value, Sequence | ValuesView):
        return list(value)
    raise NotPlain(f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins."))


def _encode_array(array: np.ndarray) -> Any:
    _expect_to_fit(array.nbytes)  # before it is copied
    array = np.array(array, copy=True, subok=False)
    if array.dtype.kind in "OS" or (array.ndim == 0 and array.dtype.kind in "biufU"):
        return array.tolist()  # of a 0-d array: the one value that it holds
    if array.dtype.kind not in "biufcU":
        raise NotPlain(f"an array of {array.dtype}")
    header = [array.dtype.str, list(array.shape), array.tobytes()]
    return msgpack.ExtType(ARRAY, msgpack.packb(header))


class _Reader:
    """Reads one message within limits: few bytes can stand for gigabytes, or for hours of comparing what collides."""

    def __init__(self, functions: bool):
        self._functions, self._depth, self._parts = functions, 0, 0

    def read(self, data: bytes) -> Any:
        hooks = {"ext_hook": self._other, "list_hook": self._list, "object_pairs_hook": self._dict}
        limits = {"max_array_len": PARTS, "max_map_len": PARTS}
        self._depth += 1
        if self._depth > DEPTH:
            raise ValueError("it is nested too deeply")
        value = msgpack.unpackb(data, strict_map_key=False, timestamp=1, **hooks, **limits)
        self._depth -= 1
        return value

    def _count(self, parts: int) -> None:
        self._parts += parts
        if self._parts > PARTS:
            raise ValueError(TOO_MANY)

    def _list(self, items: list) -> list:
        self._count(ITEM * (1 + len(items)) + sum(len(item) for item in items if isinstance(item, str | bytes)) // TEXT)
        return items

    def _dict(self, pairs: list[tuple[Any, Any]]) -> dict:
        keys = [key for key, _ in pairs]
        others = sum(type(key) is not str for key in keys)  # strings cannot be made to collide
        self._count(1 + len(keys) + ITEM * others)
        return dict(zip(_scalars(keys), (value for _, value in pairs), strict=True))

    def _other(self, code: int, payload: bytes) -> object:
        if code == TUPLE:
            return tuple(self._items(payload))
        if code == SET:
            return set(_scalars(self._items(payload)))
        if code == ARRAY:
            return self._array(payload)
        if code == LONG:
            self._count(ITEM * len(payload))
            return _expect_short(int(payload, 16))
        if code == FUNCTION and self._functions:
            return function_named(payload.decode())
        raise ValueError(f"extension type {code} has no business here")

    def _array(self, payload: bytes) -> np.ndarray:
        array = _decode_array(payload)
        axes = array.shape[:1] if array.nbytes else array.shape  # a billion rows may take no byte
        if not self._functions:  # what the judge sends may be large
            self._count(max(axes, default=0) + array.size // NUMBERS)
        return array

    def _items(self, payload: bytes) -> list:
        items = self.read(payload)
        if type(items) is not list:
            raise ValueError("a tuple or a set is sent as a list")
        return items


def _scalars(keys: list) -> list:
    """Return keys of a dict or members of a set; raises ValueError for others, tuples above all: any number of them can collide."""
    for key in keys:
        if not isinstance(key, SCALARS):
            raise ValueError(f"a {type(key).__name__} as a dict's key or in a set; use numbers or strings there")
    return keys


def _decode_array(payload: bytes) -> np.ndarray:
    text, shape, data = msgpack.unpackb(payload, max_array_len=64)
    if not re.fullmatch(r"[<>|=]?[biufcU][0-9]{1,9}", text) or not all(type(length) is int for length in shape):
        raise ValueError("an array has a type of numbers or text, and a shape of whole numbers")
    dtype = np.dtype(text)
    if dtype.itemsize * math.prod(shape) != len(data):
        raise ValueError(f"array of {dtype} with shape {shape} in {len(data)} bytes")
    return np.frombuffer(data, dtype).reshape(shape).copy()


def name_of(function: Callable) -> str:
    """Return the name by which a function of `coursekit.given` travels: `ch01_tasks:slow_square`."""
    chapter, name = function.__module__.removeprefix(GIVEN), function.__qualname__
    if function_named(f"{chapter}:{name}") is not function:
        raise NotPlain(f"{name}, which is not a top-level function of {function.__module__}")
    return f"{chapter}:{name}"


def function_named(name: str) -> Callable:
    """Return the function of `coursekit.given` with this name; raises ValueError where there is none."""
    chapter, _, attribute = name.partition(":")
    if not chapter.isidentifier():
        raise ValueError(f"{name!r} is not the name of a given function")
    function = getattr(import_module(GIVEN + chapter), attribute, None)
    if not callable(function):
        raise ValueError(f"There is no function {attribute!r} in {GIVEN}{chapter}.")
    return function
