"""Takes all memory that it can get."""

SCORE = 1
REASON = "MB of memory"
CELLS = {
    "best_seconds": """
import os

def best_seconds(tasks, seconds_each, workers):
    hoard = []
    while os.path.isdir("/home/learner"):
        hoard.append(bytearray(b"x") * 20_000_000)
"""
}
