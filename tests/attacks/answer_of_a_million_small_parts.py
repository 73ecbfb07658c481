"""Answers with three million empty lists in lists of a thousand, none of which looks large."""

SCORE = 1
REASON = "parts"
CELLS = {
    "best_seconds": """
def best_seconds(tasks, seconds_each, workers):
    return [[[]] * 1000] * 3000
"""
}
