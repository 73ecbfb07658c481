"""What a check sees of an answer: calls go in as plain data, plain data comes back.

In a notebook both ends are in one process; in grading the learner's end is in a sandbox. Every request and reply is the
same bytes in both places, so types, copies and mutation behave alike.
"""

import contextlib
import inspect
import reprlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import numpy as np

from coursekit.judging import form, wire
from coursekit.judging.failure import STUB_TEXT, describe, read_the_rest
from coursekit.judging.result import Curve

T = TypeVar("T")
P = ParamSpec("P")
Ask = Callable[[bytes], bytes]
# `records("tasks", since=0.0)` returns what `coursekit.ray_bridge.records.tasks(since=0.0)` does.
Records = Callable[..., Any]
NOT_PLAIN = "NotPlain"  # the kind of `Raised` that says: what came back cannot travel
NOT_CALLABLE = "NotCallable"  # and the one that says: what was handed over is no function and no class
NOT_THERE = "NotThere"  # and the one that says: there is no answer of this name


class _Short(reprlib.Repr):
    """Writes values on one line: of long ones, the beginning and the end."""

    def repr_ndarray(self, array: np.ndarray, level: int) -> str:
        """Return the numbers where a line can hold them, with the shape where it does not show."""
        if array.ndim > 2:
            return f"array of {array.dtype}, shape {array.shape}"
        numbers = np.array2string(array, threshold=8, edgeitems=3, precision=4, separator=", ")
        shape = f", shape {array.shape}" if "..." in numbers else ""
        return f"array({' '.join(numbers.split())}{shape})"


_SHORT = _Short()
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = _SHORT.maxset = 8
_SHORT.maxstring = _SHORT.maxother = 120


class Raised(Exception):
    """The answer raised: `kind` is the name of its exception, `where` the place in the learner's code."""

    def __init__(self, kind: str, message: str, where: str = "", todo: bool = False):
        super().__init__(f"{kind}: {message}" if message else kind)
        self.kind, self.message, self.where, self.todo = kind, message, where, todo


class OwnRequestFailed(Exception):
    """A request that a check itself made got no answer, which says nothing about the learner's."""


class Unreachable(Exception):
    """The learner's end is gone, so the answer cannot be asked. The caller decides what that means, and not the check."""


class Answer:
    """A learner's answer, as a check uses it: `answer(...)`, `answer.probe(...)`, `answer.value()`, `answer.watch()`."""

    returns: Any = Any  # the form of what a call must return; an exercise says so
    curve: Curve | None = None  # of the first training run of the check, for `explain`
    in_notebook = False  # elsewhere an exception's name proves nothing: a submission may raise what it likes

    def __init__(self, name: str, ask: Ask, records: Records):
        self.name, self._ask, self._records = name, ask, records
        self.tried = self.got = self._case = ""  # the last call and what came back, for the learner to read

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Return what the answer returns for copies of these arguments; raises `Raised` if the answer raises."""
        self.tried, self.got = self._case or _call_text(self.name, args, kwargs), ""
        result = self._request(op="call", args=args, kwargs=kwargs)
        self.got = _SHORT.repr(result)
        return form.conform(result, self.returns)

    def probe(self, probe: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the raw results of a probe of `coursekit.given`, which drives the learner's object.

        They have the form of the probe's return annotation: what came back in another form is a wrong answer.
        """
        self.tried, self.got = self._case, ""
        results = self._request(op="probe", probe=wire.name_of(probe), args=args, kwargs=kwargs)
        return cast(T, form.conform(results, form.returned(probe)))

    def value(self) -> Any:
        """Return the answer itself, which is plain data."""
        self.tried, self.got = self._case, ""
        value = self._request(op="value")
        self.got = f"{self.name} = {_SHORT.repr(value)}"
        return form.conform(value, self.returns)

    @contextlib.contextmanager
    def case(self, text: str) -> Iterator[None]:
        """Show the learner `text` as what was tried in this block, whatever is called: `with answer.case("6 inputs, limit 2"):`."""
        before, self._case = self._case, text
        self.tried, self.got = text, ""
        yield
        self._case = self.tried = before  # not where the check failed: the result shows the case

    def keep_curve(self, over: str, points: Iterable[tuple[Any, Any]]) -> None:
        """Keep the learning curve of a check's first training run for `explain`, without the points that are no numbers."""
        found = [(float(x), float(y)) for x, y in points if _is_finite(x) and _is_finite(y)]
        if found and not self.curve:
            self.curve = Curve(over, sorted(found))

    @contextlib.contextmanager
    def watch(self) -> Iterator["Watched"]:
        """Watch what Ray records while the block runs: `with answer.watch() as seen: ...`, then `seen.tasks()`."""
        watched = Watched(self._records)
        yield watched
        watched.until = time.time()

    def _request(self, **request: object) -> Any:
        return opened(self._ask(wire.encode(request)))


def opened(reply: bytes) -> Any:
    """Return the value that a reply holds; raises `Raised` where it holds an exception, or cannot be read."""
    try:
        content = wire.decode(reply)
    except ValueError as error:
        reason = str(error).removeprefix(f"{wire.NO_MESSAGE}: ")
        raise Raised(NOT_PLAIN, f"What came back is too large or too deeply nested to be judged: {reason}.") from None
    match content:
        case {"value": value}:
            return value
        case {"raised": {"kind": str(kind), "message": str(message), **more}}:
            raise Raised(kind[:100], message[:2000], str(more.get("where", ""))[:500], more.get("todo") is True)
    raise Raised(NOT_PLAIN, "What came back is not an answer.")


class Watched:
    """Ray's records of the time in which an answer ran."""

    def __init__(self, records: Records):
        self._records = records
        self.since = time.time()
        self.until: float | None = None

    def tasks(self) -> list[dict]:
        """Return one dict for each task attempt of the window (see `coursekit.ray_bridge.records.tasks`)."""
        return self._records("tasks", since=self.since, until=self.until)

    def objects(self) -> list[dict]:
        """Return what the object store holds now (see `coursekit.ray_bridge.records.objects`)."""
        return self._records("objects")

    def stores(self) -> list[dict]:
        """Return the object store of each node (see `coursekit.ray_bridge.records.stores`): two readings count what was put in between."""
        return self._records("stores")

    def actors(self) -> list[dict]:
        """Return every actor that Ray knows of (see `coursekit.ray_bridge.records.actors`)."""
        return self._records("actors")

    def nodes(self) -> list[dict]:
        """Return every node of the cluster (see `coursekit.ray_bridge.records.nodes`)."""
        return self._records("nodes")


def serve(answers: Mapping[str, object], name: str, request: bytes) -> bytes:
    """Return the reply to one request about the answer `name`: the learner's end of the wire."""
    if name not in answers:
        return wire.encode({"raised": {"kind": NOT_THERE, "message": name}})
    try:
        value = _perform(answers[name], **wire.decode(request, functions=True))
        return wire.encode({"value": value})
    except wire.NotPlain as error:
        text = f"What came back is or holds {error}, which is not plain data: return numbers, strings, lists, dicts or arrays."
        if isinstance(error, wire.TooLarge):
            text = f"What came back is too large to be judged: {error}."
        if "ObjectRef" in text:
            text = "An ObjectRef came back, which is a reference. The check needs the value: `ray.get` it."
        if error.args == ("coroutine",):
            text = "A call of an `async def` returns a coroutine, and the check needs the value: write `def` instead of `async def`."
        return wire.encode({"raised": {"kind": NOT_PLAIN, "message": text}})
    except HandedOver as error:
        return wire.encode({"raised": {"kind": NOT_CALLABLE, "message": str(error)}})
    except (Exception, SystemExit) as error:  # the learner's code may raise whatever it likes
        read_the_rest(error)
        return wire.encode({"raised": describe(error)})


def _perform(learner: Any, op: str, args: tuple = (), kwargs: dict | None = None, probe: str = "") -> object:
    """Return the result of one request: the only things that a check can ask of the learner's process."""
    if _is_stub(learner):
        raise NotImplementedError(STUB_TEXT)
    if op != "value" and not callable(learner):
        raise HandedOver(learner)
    if op != "value" and inspect.iscoroutinefunction(learner):
        raise wire.NotPlain("coroutine")  # before a call makes one, which would warn that nobody awaits it
    if op == "call":
        return learner(*args, **(kwargs or {}))
    if op == "probe":
        return wire.function_named(probe)(learner, *args, **(kwargs or {}))
    if op == "value":
        return learner
    raise ValueError(f"There is no request {op!r}.")


class HandedOver(Exception):
    """What was handed over to a check that calls it is no function and no class."""

    def __init__(self, value: object):
        kind = "nothing (`None`)" if value is None else f"{_SHORT.repr(value)}, which is `{type(value).__name__}`"
        super().__init__(kind)


def _is_stub(learner: Any) -> bool:
    """Return whether nothing is written yet: `...`, a function that does no more than raise the stub's error, or a class with one."""
    if isinstance(learner, type):
        return any(_is_stub(each) for each in vars(learner).values() if hasattr(each, "__code__"))
    code = getattr(learner, "__code__", None)
    return learner is ... or (
        code is not None and code.co_names == ("NotImplementedError",) and STUB_TEXT in code.co_consts
    )


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and -1e300 < value < 1e300


def _call_text(name: str, args: tuple, kwargs: dict) -> str:
    """Return a call as a learner would type it, long values shortened: `first_k(slow_square, [3, 1, ...], 2)`."""
    parts = [getattr(value, "__name__", None) or _SHORT.repr(value) for value in args]
    parts += [f"{key}={getattr(value, '__name__', None) or _SHORT.repr(value)}" for key, value in kwargs.items()]
    return f"{name}({', '.join(parts)})"
