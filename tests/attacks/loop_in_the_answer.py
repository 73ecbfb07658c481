"""Loops forever when it is asked for an answer."""

SCORE = 1
REASON = "stopped after"
CELLS = {
    "best_seconds": """
def best_seconds(tasks, seconds_each, workers):
    while True:
        pass
"""
}
