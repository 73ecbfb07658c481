"""Ends its process with success while the judge waits for the answer."""

SCORE = 1
REASON = "ended its own process (exit code 0)"
CELLS = {
    "best_seconds": """
import os

def best_seconds(tasks, seconds_each, workers):
    os._exit(0)
"""
}
