"""Stops the clock, so that no time limit is ever reached, and loops."""

SCORE = 1
REASON = "stopped after"
CELLS = {
    "best_seconds": """
import time

nap = time.sleep
time.time = time.monotonic = time.perf_counter = lambda: 0.0

def best_seconds(tasks, seconds_each, workers):
    while time.monotonic() < 1:
        nap(0.01)
"""
}
