"""Prints without end."""

SCORE = 1
REASON = "printed more than"
CELLS = {
    "best_seconds": """
def best_seconds(tasks, seconds_each, workers):
    while True:
        print("passed " * 100_000)
"""
}
