"""The entry's end of a run: it loads the entry, has it learn and asks its policy. An entry can patch all of this and is judged
by its actions all the same.
"""

import difflib
import inspect
import linecache
import os
import re
import sys
import traceback
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

from coursekit.capstone.entry import FORM
from coursekit.given.cpu_budget import Budget, ClockBudget
from coursekit.judging.failure import describe

BEGIN, END = "\x1e", "\x1f"  # around a reported point among what an entry prints
MODULE = "capstone_entry"

given: dict[str, Any] = {}  # what `prepare` was given
outcome: dict[str, str] = {"failed": "it ended before `train` was called"}
policy: Callable[[Any], Any]


class Unusable(Exception):
    """Why an entry cannot be used: the reason, and the next step."""


def prepare(source: str, file: str, seconds: float, world: int, by_clock: bool = False) -> None:
    """Take the entry and the seed of its world, and import what every entry is handed: that costs it nothing."""
    from coursekit.given.warehouse import draw_world, make_envs

    os.environ.pop("COURSEKIT_QUICK", None)  # no quick mode: a budget is spent in full
    envs = partial(make_envs, world=draw_world(world), slow=by_clock)
    given.update(source=source, file=file, seconds=seconds, make_envs=envs, by_clock=by_clock)


def learn() -> None:
    """Load the entry and have it learn within its budget; `result` says what came of it."""
    global policy
    if given["by_clock"]:
        budget: Budget = ClockBudget(given["seconds"], tell=_tell)
    else:
        budget = Budget(given["seconds"], root=os.getppid(), tell=_tell)
    outcome.clear()
    try:
        policy = _trained(_load(given["source"], given["file"]), budget)
    except Unusable as problem:
        outcome["failed"] = str(problem)


def result() -> dict[str, str]:
    """Return {} after a policy was returned, else `failed`: why there is none."""
    return outcome


def decide(observations: Any) -> dict[str, Any]:
    """Return the `actions` of the policy, or `failed`: why there are none."""
    try:
        return {"actions": policy(observations)}
    except (Exception, SystemExit) as error:
        return {"failed": f"its policy ended with {_described(error)}"}


def _tell(seconds: float, mean_return: float) -> None:
    """Tell a point at once: an entry that is stopped cannot tell any more."""
    os.write(1, f"{BEGIN}{seconds:.6g} {mean_return:.6g}{END}\n".encode())


def _load(source: str, file: str) -> Callable:
    """Return the function `train` of an entry's source; raises Unusable."""
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    module = sys.modules[MODULE] = ModuleType(MODULE)
    try:
        code = compile(source, file, "exec")
        _send_by_value(module)
        exec(code, module.__dict__)
        _send_by_value(module)  # it may have imported Ray
    except SyntaxError as error:
        line = f"line {error.lineno}: {error.msg}: `{(error.text or '').strip()}`"
        raise Unusable(f"it is not valid Python, {line}. Fix that line and run it again") from None
    except ModuleNotFoundError as error:
        hint = "An entry is one file, and imports only what the course installs"
        raise Unusable(f"it ended with {_described(error)} while it was loaded. {hint}") from None
    except (Exception, SystemExit) as error:
        raise Unusable(f"it ended with {_described(error)} while it was loaded") from None
    return _function(module.__dict__)


def _send_by_value(module: ModuleType) -> None:
    """Have Ray send what the entry defines to its workers, which cannot import it."""
    if "ray" in sys.modules:
        sys.modules["ray.cloudpickle"].register_pickle_by_value(module)


def _function(names: dict[str, Any]) -> Callable:
    """Return `train`, looked at: there, a function, of two arguments; raises Unusable."""
    train = names.get("train")
    if train is None:
        near = difflib.get_close_matches("train", [name for name in names if callable(names[name])], n=1)
        there = f"rename `{near[0]}` to `train`" if near else f"write {FORM}"
        raise Unusable(f"it has no function `train`: {there}")
    if not callable(train):
        raise Unusable(f"its `train` is {_a(train)}, not a function: write {FORM}")
    try:
        inspect.signature(train).bind(None, None)
    except TypeError as error:
        raise Unusable(f"its `train` cannot be called with two arguments ({error}): write {FORM}") from None
    except ValueError:  # a function written in C tells no signature
        pass
    return train


def _trained(train: Callable, budget: Budget) -> Callable:
    """Return the policy that `train` returns; raises Unusable."""
    try:
        found = train(given["make_envs"], budget)
    except (Exception, SystemExit) as error:
        raise Unusable(f"its `train` ended with {_described(error)}") from None
    if found is None:
        raise Unusable(
            "its `train` returned None: end it with `return policy`, a function from observations to actions"
        )
    if not callable(found):
        raise Unusable(f"its `train` returned {_a(found)}, not a function from observations to actions")
    return found


def _a(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _described(error: BaseException) -> str:
    """Return an exception in words, with the last line of the entry that it came by."""
    told = describe(error)
    place = _line(error) or _remote_line(str(error))
    return f"{told['kind']}{': ' if told['message'] else ''}{told['message']}{place and f', in {place}'}"


def _line(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == given.get("file")]
    if not frames:
        return ""
    code = f": `{frames[-1].line.strip()}`" if frames[-1].line else ""
    return f"line {frames[-1].lineno} (`{frames[-1].name}`){code}"


def _remote_line(text: str) -> str:
    """Return the line in the traceback that Ray brought back as text."""
    found = re.findall(rf'File "{re.escape(given.get("file", ""))}", line (\d+), in (\S+)', text)
    return f"line {found[-1][0]} (`{found[-1][1]}`)" if found else ""
