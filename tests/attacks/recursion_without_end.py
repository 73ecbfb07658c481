"""Calls itself forever with the recursion limit lifted, which fills the memory instead of the stack."""

SCORE = 1
REASON = "MB of memory"
CELLS = {
    "best_seconds": """
import sys

sys.setrecursionlimit(2**31 - 1)

def best_seconds(tasks, seconds_each, workers):
    ballast = bytearray(b"x") * 300_000
    return best_seconds(tasks, seconds_each, workers) + len(ballast)
"""
}
