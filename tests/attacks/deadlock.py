"""Waits for a lock that it holds itself."""

SCORE = 1
REASON = "stopped after"
CELLS = {
    "best_seconds": """
import threading

lock = threading.Lock()

def best_seconds(tasks, seconds_each, workers):
    with lock, lock:
        return 0
"""
}
