"""Kills every process that it may signal, the grader among them if it can."""

SCORE = 2
REASON = ""
CELLS = {
    "first": """
import os, signal

for number in range(2, 32768):
    if number != os.getpid():
        try:
            os.kill(number, signal.SIGKILL)
        except OSError:
            pass
os.kill(-1, signal.SIGTERM)
"""
}
