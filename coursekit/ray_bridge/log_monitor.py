"""Ray's log monitor, made to read whole lines and reports: `python whole_lines.py …/log_monitor.py` and the arguments of that.

The log monitor brings what workers print to the driver. A worker's line may cross from one page of its file (4096 bytes) to the
next, and the file grows page by page: in between, the log monitor reads the first half as a line, and then the other. Where that
befalls `:task_name:square`, by which a worker says what it does now, the halves appear among the learner's own lines.
"""

import io
import os
import runpy
import sys
import time

UNFINISHED_SECONDS = 1.0  # after which a line without an end is shown, as of `print("…", end="")`
REPORT = b"*** SIG"  # begins the report of a crash, which is written line by line: `quiet` has to see it as a whole


class WholeLines(io.BufferedReader):
    """A log file whose last line is read once it is whole, or has been unfinished for long; a report, after that time."""

    _since: float | None = None

    def readline(self, size: int | None = -1) -> bytes:
        """Return the next line, and an empty one where it is not whole yet."""
        line = super().readline(size)
        if line and (line.startswith(REPORT) or not line.endswith(b"\n")):
            self._since = self._since or time.monotonic()
            if time.monotonic() - self._since < UNFINISHED_SECONDS:
                self.seek(-len(line), io.SEEK_CUR)
                return b""
        self._since = None
        return line


if __name__ == "__main__":
    sys.argv.pop(0)
    sys.path[0] = os.path.dirname(sys.argv[0])
    runpy.run_path(sys.argv[0], {"open": lambda path, mode: WholeLines(io.FileIO(path, mode))}, "__main__")
