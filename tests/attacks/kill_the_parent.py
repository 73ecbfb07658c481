"""Sends every deadly signal to its parent process."""

SCORE = 2
REASON = ""
CELLS = {
    "first": """
import os, signal

for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGSTOP, signal.SIGKILL):
    try:
        os.kill(os.getppid(), number)
    except OSError:
        pass
"""
}
