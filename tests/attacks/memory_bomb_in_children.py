"""Takes the memory in many small processes, so that none of them looks large."""

SCORE = 1
REASON = "MB of memory"
CELLS = {
    "best_seconds": """
import os, time

def best_seconds(tasks, seconds_each, workers):
    for _ in range(60):
        if os.fork() == 0:
            hoard = bytearray(b"x") * 40_000_000
            time.sleep(100)
            os._exit(0)
    time.sleep(100)
"""
}
