"""Loops forever with the signal of the stop button ignored."""

SCORE = 1
REASON = "ran longer than"
CELLS = {
    "best_seconds": """
import signal, time

def best_seconds(tasks, seconds_each, workers):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        time.sleep(0.01)
"""
}
