"""Ray's own reports about deaths, kept in a list instead of printed: for chapters that kill processes on purpose."""

import os
import re
import time
from typing import Any

from coursekit.ray_bridge import private


class News(list):
    """What Ray has said about deaths, newest last."""

    def wait(self, seconds: float = 10) -> str:
        """Return the last report of a dead worker; waits for the first one, at most this many seconds."""
        end = time.monotonic() + seconds
        while not any(_DEATH.search(line) for line in self) and time.monotonic() < end:
            time.sleep(0.05)
        return next((line for line in reversed(self) if _DEATH.search(line)), "Ray has reported no death yet.")


_DEATH = re.compile(r"A worker died or was killed")
_NEWS = re.compile(
    r"A worker died or was killed|Task \S+ failed\. There are|Raylet is terminated|marked dead because|"
    r"actor that was unreachable|was killed due to|PYTHON worker processes have been started"
)


def keep_news_of_deaths() -> News:
    """Return the list in which Ray's own reports about deaths are kept from now on, instead of being printed."""
    worker = private.worker

    os.environ["RAY_IGNORE_UNHANDLED_ERRORS"] = "1"  # else an error that nobody fetched is printed, in some later cell
    news, original = News(), worker.print_to_stdstream

    def print_lines(data: dict[str, Any], ignore_prefix: bool) -> None:
        news.extend(line for line in data["lines"] if _NEWS.search(line))
        original({**data, "lines": [line for line in data["lines"] if not _NEWS.search(line)]}, ignore_prefix)

    worker.print_to_stdstream = print_lines
    return news
