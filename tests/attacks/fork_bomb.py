"""Forks without end, and so does every copy."""

SCORE = 2
REASON = "(the cell that begins with 'import os, time')"
CELLS = {
    "first": """
import os, time

while os.path.isdir("/home/learner"):
    try:
        os.fork()
    except OSError:
        time.sleep(0.5)
"""
}
