"""The learner's side of CHAPTER: what the chapter hands out, and the probes that drive an answer."""

from typing import Any


def call_next(counter_class: Any, start: int, calls: int) -> list[int]:
    """Return what each of `calls` calls of `next` returned."""
    counter = counter_class(start)
    return [counter.next() for _ in range(calls)]
