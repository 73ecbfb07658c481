"""Answers with more bytes than fit in a message."""

SCORE = 1
REASON = ""
CELLS = {
    "best_seconds": """
def best_seconds(tasks, seconds_each, workers):
    return "x" * 100_000_000
"""
}
