"""Calls itself for ever with the recursion limit lifted, which fills the memory instead of the stack."""

SCORE = 1
REASON = "MB of memory"
CELLS = {
    "best_seconds": """
import os, sys

def best_seconds(tasks, seconds_each, workers):
    sys.setrecursionlimit(2**31 - 1)
    return best_seconds(tasks, seconds_each, workers) + 1 if os.path.isdir("/home/learner") else 0
"""
}
