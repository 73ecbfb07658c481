"""What a check says of a reply: it holds, or the answer is wrong, with a message for the learner."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from coursekit.judging.form import WrongType, conform


class Wrong(Exception):
    """The answer is not right yet; the message says what to look at. `mistake` is its place among an `expect`'s mistakes."""

    def __init__(self, message: str, mistake: int | None = None):
        super().__init__(message)
        self.mistake = mistake


def expect(condition: object, message: str) -> None:
    """Fail the check with a message for the learner unless the condition holds."""
    if not condition:
        raise Wrong(message)


def expect_equal(got: object, want: object, message: str) -> None:
    """Fail the check unless both are equal; a list, a tuple and an array of equal items count as equal."""
    expect(agree(got, want), message)


def expect_close(
    got: object,
    want: object,
    message: str,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    mistakes: Mapping[str, object] | None = None,
) -> None:
    """Fail the check unless both agree within `atol + rtol * |want|`, number by number.

    `mistakes` maps a message to what comes out of that mistake: where `got` is that, the learner gets that message.
    """
    if agree(got, want, rtol, atol):
        return
    for place, (text, value) in enumerate((mistakes or {}).items()):
        if agree(got, value, rtol, atol):
            raise Wrong(text, place)
    raise Wrong(message)


def expect_type(got: object, wanted: Any, what: str) -> Any:
    """Return a value of a reply in the form of an annotation, as `list[int]`; fail the check, naming `what`, where it has another."""
    try:
        return conform(got, wanted)
    except WrongType as wrong:
        raise WrongType(wrong.wanted, wrong.got, f"{what}{wrong.place}") from None


def best_of(train: Callable[[int], float], rng: np.random.Generator, target: float, tries: int = 3) -> list[float]:
    """Return what `train(seed)` reached with the judge's seeds, one after the other; the first that reaches the target is the last.

    Learning depends on luck, so a check asks whether the largest of these reaches the target.
    """
    reached: list[float] = []
    for seed in rng.integers(1, 10**6, size=tries).tolist():
        reached.append(train(seed))
        if reached[-1] >= target:
            break
    return reached


def agree(got: object, want: object, rtol: float = 0.0, atol: float = 0.0) -> bool:
    """Return whether two plain values are the same, shapes included, numbers within a tolerance."""
    got, want = (
        value.item() if isinstance(value, np.generic | np.ndarray) and value.ndim == 0 else value
        for value in (got, want)
    )
    if isinstance(want, dict):
        return (
            isinstance(got, dict)
            and got.keys() == want.keys()
            and all(agree(got[key], want[key], rtol, atol) for key in want)
        )
    if isinstance(got, np.ndarray) and isinstance(want, np.ndarray) and got.dtype.kind in "biufc":
        return got.shape == want.shape and bool(np.allclose(got, want, rtol, atol, equal_nan=True))
    sequence = (list, tuple, np.ndarray)
    if isinstance(got, sequence) or isinstance(want, sequence):
        if not (isinstance(got, sequence) and isinstance(want, sequence) and len(got) == len(want)):
            return False
        return all(agree(g, w, rtol, atol) for g, w in zip(got, want, strict=True))
    numbers = (int, float)
    if isinstance(got, numbers) and isinstance(want, numbers) and (rtol or atol):
        # As floats: NumPy takes no int beyond 64 bits.
        return bool(np.isclose(float(got), float(want), rtol, atol, equal_nan=True))
    try:
        return bool(got == want)
    except ValueError:  # an array, compared with what is none
        return False
