"""Loops forever inside one instruction, where Python cannot be interrupted."""

SCORE = 1
REASON = "ran longer than"
CELLS = {
    "best_seconds": """
def best_seconds(tasks, seconds_each, workers):
    return max(iter(int, 1))
"""
}
