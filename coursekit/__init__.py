"""Exercises with instant feedback, measurements and plots for a course on distributed reinforcement learning with Ray.

The names are loaded when first used: a Ray worker that imports a function of `coursekit.given` pays for no more.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from coursekit import aliases
from coursekit.basics import proxies

if TYPE_CHECKING:
    from coursekit.basics.progress_bar import track
    from coursekit.given.environments import SlowSimulator
    from coursekit.given.pictures import Drawn, film, strip
    from coursekit.learner.checks import check, hint, passed, quiz, solution
    from coursekit.learner.explain import explain
    from coursekit.learner.overview import progress
    from coursekit.learner.predictions import measured, predict, share
    from coursekit.learner.puzzles import puzzle
    from coursekit.learner.reviews import review
    from coursekit.learner.session import begin
    from coursekit.learner.timing import budget, compare_times
    from coursekit.learner.workshop.attendance import join, leave, stuck
    from coursekit.learner.workshop.catch_up import catch_up
    from coursekit.learner.workshop.hand_in import hand_in
    from coursekit.learner.workshop.ten_questions import ten_questions
    from coursekit.machine.doctor import examine
    from coursekit.ray_bridge.records import actors, objects, stores
    from coursekit.ray_bridge.rendezvous import meets, new_point, warm_up
    from coursekit.ray_bridge.timeline import recorded, timeline

# What a notebook imports: the names, and the module that has them.
_MODULES = {
    "basics.progress_bar": ("track",),
    "given.environments": ("SlowSimulator",),
    "given.pictures": ("Drawn", "film", "strip"),
    "learner.checks": ("check", "hint", "passed", "quiz", "solution"),
    "learner.explain": ("explain",),
    "learner.predictions": ("measured", "predict", "share"),
    "learner.overview": ("progress",),
    "learner.puzzles": ("puzzle",),
    "learner.reviews": ("review",),
    "learner.session": ("begin",),
    "learner.timing": ("budget", "compare_times"),
    "learner.workshop.attendance": ("join", "leave", "stuck"),
    "learner.workshop.catch_up": ("catch_up",),
    "learner.workshop.hand_in": ("hand_in",),
    "learner.workshop.ten_questions": ("ten_questions",),
    "machine.doctor": ("examine",),
    "ray_bridge.records": ("actors", "objects", "stores"),
    "ray_bridge.rendezvous": ("meets", "new_point", "warm_up"),
    "ray_bridge.timeline": ("recorded", "timeline"),
}
HOME = {name: f"coursekit.{module}" for module, names in _MODULES.items() for name in names}
# Those that judge, count or send something: while a submission is graded, they do nothing and return something with nothing to see.
NEUTRAL = (
    *("begin", "catch_up", "check", "explain", "hand_in", "handin", "hint", "join", "leave"),
    *("measured", "predict", "progress", "puzzle", "quiz", "review", "share", "solution", "stuck", "ten_questions"),
)
__all__ = list(HOME)
aliases.install()
proxies.reach_own_addresses_directly()  # before Ray starts, whose processes inherit the environment


def __getattr__(name: str) -> Any:
    known = aliases.NAMES.get(name, name)
    if known not in HOME:
        raise AttributeError(f"coursekit has no {name!r}; it has {', '.join(HOME)}.")
    found = globals()[name] = getattr(import_module(HOME[known]), known)
    return found
