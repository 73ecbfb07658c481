"""Answers with sys.exit("all points"), in the hope that an exit is taken for a pass."""

SCORE = 1
REASON = "SystemExit"
CELLS = {
    "best_seconds": """
import sys

def best_seconds(tasks, seconds_each, workers):
    sys.exit("passed: 1 of 1 point")
"""
}
