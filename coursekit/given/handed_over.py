"""Three programs that a colleague leaves you in Chapter 19. Find the lines where they are before you read on here."""

import json
import threading
import time
from typing import Any


class Shelf:
    """Stores fragments of experience, each of them once."""

    def __init__(self) -> None:
        self.kept = [self._play(number) for number in range(-3000, 0)]  # the fragments of last week
        self.reward = 0.0

    def fill(self, seconds: float) -> int:
        """Collect fragments for this many seconds, and return how many there are."""
        end, number = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            number += 1
            self.add(self._play(number))
        return len(self.kept)

    def count(self) -> int:
        """Return how many fragments there are."""
        return len(self.kept)

    def add(self, fragment: list[float]) -> None:
        """Store a fragment, unless it's already there."""
        if not self._is_known(fragment):
            self.kept.append(fragment)
            self._learn(fragment)

    def _play(self, number: int) -> list[float]:
        return [float(number + step) for step in range(50)]

    def _is_known(self, fragment: list[float]) -> bool:
        known = False
        for other in self.kept:  # all of them, each time, so the program adds fewer and fewer fragments per second
            known = known or other == fragment
        return known

    def _learn(self, fragment: list[float]) -> None:
        self.reward = 0.9 * self.reward + 0.1 * sum(fragment)


class Saver:
    """Writes weights to a file, one call at a time."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def save(self, path: str, weights: list[float]) -> int:
        """Return the number of weights in the file."""
        self.lock.acquire()  # noqa: SIM115  the bug: after an exception in the next line, it stays locked
        self._write(path, weights)
        self.lock.release()
        return len(weights)

    def _write(self, path: str, weights: list[float]) -> None:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(weights, file)


class Report:
    """Reports how many fragments a shelf has."""

    def write(self, shelf: Any) -> str:
        """Return a line about the shelf."""
        import ray

        return f"The shelf has {ray.get(shelf.count.remote())} fragments."
