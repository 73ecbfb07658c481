"""Whether a value has the form that an annotation names, in words that a learner understands."""

import types
from collections.abc import Callable, Sequence
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

import numpy as np

# What counts as a type (what NumPy, PyTorch and plain Python return for it), and how people call one and several of it.
TYPES: dict[type, tuple[tuple[type, ...], str, str]] = {
    list: ((list, tuple, np.ndarray), "a list", "lists"),
    tuple: ((tuple, list, np.ndarray), "a tuple", "tuples"),
    set: ((set,), "a set", "sets"),
    dict: ((dict,), "a dict", "dicts"),
    np.ndarray: ((np.ndarray, list, tuple), "an array", "arrays"),
    str: ((str,), "a string", "strings"),
    bytes: ((bytes,), "bytes", "bytes"),
    bool: ((bool,), "True or False", "True or False"),
    int: ((int,), "a whole number", "whole numbers"),
    float: ((float, int), "a number", "numbers"),
    type(None): ((type(None),), "None", "None"),
}


class WrongType(Exception):
    """A value of another form than the check needs: `wanted`, `place` within the value ("" for all of it), `got`."""

    def __init__(self, wanted: str, got: str, place: str = ""):
        super().__init__(f"{wanted}{place}: {got}")
        self.wanted, self.got, self.place = wanted, got, place


def conform(value: Any, wanted: Any, place: str = "") -> Any:
    """Return a plain value in the form that an annotation names, a tuple where a list is wanted as a list; raises `WrongType`.

    `list[int]`, `tuple[str, float]`, `dict[str, list]`, `int | None` and a TypedDict are looked into; `Any` is everything.
    """
    if wanted in (Any, object):
        return value
    if is_typeddict(wanted):
        return _of_keys(value, wanted, place)
    origin, parts = get_origin(wanted) or wanted, get_args(wanted)
    if origin in (Union, types.UnionType):
        return _of_one(value, parts, place)
    kind: Any = type(None) if origin is None else origin
    fitting: Any = TYPES[kind][0]
    if not isinstance(value, fitting) or (isinstance(value, bool) and kind is not bool):
        raise WrongType(called(wanted), _called_value(value), place)
    if kind is np.ndarray:
        return _as_array(value, place)
    if isinstance(value, np.ndarray) and value.ndim == 0:
        raise WrongType(called(wanted), "an array without dimensions", place)
    if kind is dict and parts:
        return {conform(key, parts[0], place): conform(value[key], parts[1], _at(place, key)) for key in value}
    if kind not in (list, tuple, set):
        return value
    items: Any = value.tolist() if isinstance(value, np.ndarray) else list(value)
    if parts and kind is tuple and parts[-1] is not ...:
        if len(items) != len(parts):
            raise WrongType(called(wanted), f"{len(items)} values", place)
        return tuple(
            conform(item, part, _at(place, i)) for i, (item, part) in enumerate(zip(items, parts, strict=True))
        )
    return kind(conform(item, parts[0], _at(place, i)) if parts else item for i, item in enumerate(items))


def at(place: str) -> str:
    """Return where in a value something is, in words."""
    return f" at `{place}`" if place else ""


def returned(function: Callable) -> Any:
    """Return the annotation of what a function returns."""
    note = function.__annotations__.get("return", Any)
    return eval(note, function.__globals__) if isinstance(note, str) else note


def called(wanted: Any, many: bool = False) -> str:
    """Return how people call an annotation: "a list of whole numbers"."""
    if wanted in (Any, object):
        return "values" if many else "a value"
    if is_typeddict(wanted):
        return "dicts" if many else "a dict"
    origin, parts = get_origin(wanted) or wanted, [part for part in get_args(wanted) if part is not ...]
    if origin in (Union, types.UnionType):
        return _one_of(parts, many)
    _, one, several = TYPES[type(None) if origin is None else origin]
    name = several if many else one
    if not parts or origin not in (list, set, tuple):
        return name
    items = called(parts[0], many=True)
    if origin is list:
        return f"lists of {items}" if many else f"a list of {items}"
    if origin is set:
        return f"sets of {items}" if many else f"a set of {items}"
    if ... in get_args(wanted):
        return f"tuples of {items}" if many else f"a tuple of {items}"
    return f"tuples of {len(parts)} values" if many else f"a tuple of {len(parts)} values"


def _one_of(parts: Sequence[Any], many: bool = False) -> str:
    *first, last = [called(part, many) for part in parts]
    return f"{' or '.join(first)} or None" if first and last == "None" else " or ".join([*first, last])


def _of_keys(value: Any, wanted: Any, place: str) -> dict:
    if not isinstance(value, dict):
        raise WrongType("a dict", _called_value(value), place)
    if missing := sorted(wanted.__required_keys__ - value.keys()):
        raise WrongType(f"a dict with {missing[0]!r}", "a dict without it", place)
    hints = get_type_hints(wanted)
    return {key: conform(item, hints[key], _at(place, key)) if key in hints else item for key, item in value.items()}


def _of_one(value: Any, parts: tuple, place: str) -> Any:
    for part in parts:
        try:
            return conform(value, part, place)
        except WrongType:
            continue
    raise WrongType(_one_of(parts), _called_value(value), place)


def _as_array(value: Any, place: str) -> np.ndarray:
    try:
        array = np.asarray(value)
    except ValueError:
        raise WrongType("an array", "rows that differ in length", place) from None
    beyond_64_bits = array.dtype == object and all(type(item) in (int, float) for item in array.flat)
    return array.astype(float) if beyond_64_bits else array


def _at(place: str, key: object) -> str:
    return f"{place}[{key!r}]"


def _called_value(value: object) -> str:
    if value is None:
        return "nothing (None)"
    return TYPES[type(value)][1] if type(value) in TYPES else type(value).__name__
