"""Calls itself for ever with the recursion limit lifted, which fills the memory instead of the stack."""

SCORE = 1
REASON = "MB of memory"
CELLS = {
    "best_seconds": """
import os, sys

sys.setrecursionlimit(2**31 - 1)

def best_seconds(tasks, seconds_each, workers):
    ballast = bytearray(b"x") * 20_000 if os.path.isdir("/home/learner") else 1 / 0
    return best_seconds(tasks, seconds_each, workers) + len(ballast)
"""
}
