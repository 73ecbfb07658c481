"""Forks without end, and so does every copy."""

SCORE = 2
REASON = "a cell was left out"
CELLS = {
    "first": """
import os, time

while True:
    try:
        os.fork()
    except OSError:
        time.sleep(0.5)
"""
}
