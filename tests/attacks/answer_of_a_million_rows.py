"""Returns an array of a million rows of one byte each: as a list, or in a message, they would take a hundred times as much."""

SCORE = 1
REASON = "too many parts"
CELLS = {
    "best_seconds": """
import numpy as np

def best_seconds(tasks, seconds_each, workers):
    return np.zeros((1_000_000, 1), np.uint8)
"""
}
