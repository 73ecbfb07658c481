"""Exercises with instant feedback, measurements and plots for a course on distributed reinforcement learning with Ray.

The names are loaded when first used: a Ray worker that imports a function of `coursekit.given` pays for no more.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coursekit.check import begin, check, hint, passed, quiz, solution
    from coursekit.doctor import examine
    from coursekit.progress import progress
    from coursekit.timeline import recorded, timeline
    from coursekit.timing import budget, compare_times

_HOME = {
    "begin": "check",
    "budget": "timing",
    "check": "check",
    "compare_times": "timing",
    "examine": "doctor",
    "hint": "check",
    "passed": "check",
    "progress": "progress",
    "quiz": "check",
    "recorded": "timeline",
    "solution": "check",
    "timeline": "timeline",
}
__all__ = list(_HOME)


class _Names(ModuleType):
    """Keeps `coursekit.check` the function: Python would replace it by the module of that name when it is imported."""

    def __getattr__(self, name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"coursekit has no {name!r}; it has {', '.join(_HOME)}.")
        found = getattr(import_module(f"coursekit.{_HOME[name]}"), name)
        super().__setattr__(name, found)
        return found

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Names
