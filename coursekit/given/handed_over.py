"""Two programs that a colleague hands over in chapter 19: one is slow, one hangs. Find the line before you read on here."""

import json
import threading
import time


class Shelf:
    """Keeps fragments of experience, each of them once."""

    def __init__(self) -> None:
        self.kept = [self._play(number) for number in range(-3000, 0)]  # what there was last week
        self.reward = 0.0

    def fill(self, seconds: float) -> int:
        """Take fragments for as long as this, and return how many there are."""
        end, number = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            number += 1
            self.add(self._play(number))
        return len(self.kept)

    def add(self, fragment: list[float]) -> None:
        """Keep a fragment that is not there yet."""
        if not self._is_known(fragment):
            self.kept.append(fragment)
            self._learn(fragment)

    def _play(self, number: int) -> list[float]:
        return [float(number + step) for step in range(50)]

    def _is_known(self, fragment: list[float]) -> bool:
        known = False
        for other in self.kept:  # all of them, each time: the program takes fewer and fewer fragments a second
            known = known or other == fragment
        return known

    def _learn(self, fragment: list[float]) -> None:
        self.reward = 0.9 * self.reward + 0.1 * sum(fragment)


class Saver:
    """Writes weights into a file, one call at a time."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def save(self, path: str, weights: list[float]) -> int:
        """Return the number of weights in the file."""
        self.lock.acquire()  # noqa: SIM115  that is the fault: an exception in the next line leaves it locked
        self._write(path, weights)
        self.lock.release()
        return len(weights)

    def _write(self, path: str, weights: list[float]) -> None:
        with open(path, "w") as file:
            json.dump(weights, file)
