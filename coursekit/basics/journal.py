"""A file that grows by a line for each outcome, of a class or of the capstone, and that a crash cannot spoil."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from coursekit.basics.files import write_whole


class Journal:
    """`results.jsonl`: one line for each outcome, written in full or not at all. It is what a resumed run trusts."""

    def __init__(self, path: Path):
        self.path = path

    def lines(self) -> Iterator[dict]:
        """Yield the recorded outcomes; a line that was cut off by a crash is not one."""
        if not self.path.exists():
            return
        with self.path.open(encoding="utf-8") as file:
            for line in file:
                try:
                    yield json.loads(line)
                except ValueError:
                    continue

    def start_again(self, without: set[str]) -> None:
        """Forget the outcomes of some submissions; the file with all is kept beside it under another name."""
        if not self.path.exists():
            return
        old = [self.path.with_stem(f"{self.path.stem}-{number}") for number in range(1, 1000)]
        shutil.copy(self.path, next(path for path in old if not path.exists()))
        lines = (json.dumps(line) + "\n" for line in self.lines() if line["key"] not in without)
        write_whole(self.path, "".join(lines))

    def add(self, line: dict) -> None:
        """Append an outcome, and make sure that it is on the disk."""
        with self.path.open("a+b") as file:
            file.seek(0, os.SEEK_END)
            if file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":  # the line before was cut off by a crash
                    file.write(b"\n")
            file.write(json.dumps(line, allow_nan=False, default=str).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
