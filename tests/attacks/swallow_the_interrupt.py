"""Catches the KeyboardInterrupt of the stop button and goes on."""

SCORE = 1
REASON = "ran longer than"
CELLS = {
    "best_seconds": """
import time

def best_seconds(tasks, seconds_each, workers):
    while True:
        try:
            time.sleep(1000)
        except BaseException:
            pass
"""
}
