"""What a chapter's modules import in a process that has imported nothing else, tried for many chapters in few processes.

A copy of this process imports the modules until they ask for a package that takes seconds. It ends there, and goes on in a copy of
a process that has imported this package too: so nothing is there that the modules have not asked for, and each package is
imported once.
"""

import os
import sys
import traceback
from collections.abc import Callable, Iterable
from importlib import import_module

LONG = [
    "numpy",
    "pandas",
    "scipy.stats",
    "sklearn.datasets",
    "matplotlib.pyplot",
    "torch",
    "gymnasium",
    "ray",
    "ray.data",
    "ray.serve",
    "ray.train",
    "ray.tune",
    "ray.rllib",
    "ray.rllib.algorithms",
    "ray.rllib.algorithms.ppo",
]
LONG = LONG if sys.platform == "linux" else []  # elsewhere what has imported them may not be copied


class Asks:
    """Ends the process at the first import of a package that takes long, and says which it is."""

    def __init__(self, say: Callable[[str], None]):
        self._say = say

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname in LONG:
            self._say(fullname)
            os._exit(0)


def errors(chapters: Iterable[str]) -> dict[str, str]:
    """Return what went wrong where each chapter's modules were imported, "" where nothing did."""
    found, asked = dict[str, str](), dict[str, list[str]]()
    for chapter in chapters:
        kind, _, text = in_a_copy(lambda say, chapter=chapter: attempt(chapter, say)).partition(" ")
        if kind == "asks":
            asked.setdefault(text, []).append(chapter)
        else:
            found[chapter] = text if kind == "ended" else f"The process ended before its imports did. {kind} {text}"
    for package, those in asked.items():
        for line in in_a_copy(lambda say, package=package, those=those: go_on(package, those, say)).splitlines():
            chapter, _, text = line.partition(" ")
            found[chapter] = text.replace("\v", "\n")
    return found


def attempt(chapter: str, say: Callable[[str], None]) -> None:
    sys.meta_path.insert(0, Asks(lambda package: say(f"asks {package}")))  # type: ignore[arg-type]
    try:
        for side in ("given", "exercises"):
            import_module(f"coursekit.{side}.{chapter}")
        say("ended ")
    except Exception:
        say(f"ended {traceback.format_exc()}")


def go_on(package: str, chapters: list[str], say: Callable[[str], None]) -> None:
    import_module(package)
    for chapter, text in errors(chapters).items():
        say(f"{chapter} {text}".replace("\n", "\v") + "\n")


def in_a_copy(work: Callable[[Callable[[str], None]], None]) -> str:
    """Return what a piece of work says that runs in a copy of this process."""
    ours, theirs = os.pipe()
    if not (copy := os.fork()):
        os.close(ours)
        with open(theirs, "w", buffering=1) as pipe:
            work(lambda text: print(text, end="", file=pipe, flush=True))
        os._exit(0)
    os.close(theirs)
    with open(ours) as pipe:
        said = pipe.read()
    os.waitpid(copy, 0)
    return said


if __name__ == "__main__":
    for chapter, text in errors(sys.argv[1:]).items():
        print(chapter, text.replace("\n", "\v"))
