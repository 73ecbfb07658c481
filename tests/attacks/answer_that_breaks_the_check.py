"""Returns numbers that no check has thought of: not a number, infinity, complex ones, a thousand digits, an empty array."""

SCORE = 1
REASON = ""
CELLS = {
    "best_seconds": """
import numpy as np

values = iter([1.5, 10**1000, float("nan"), float("inf"), np.zeros((0, 3)), 1j])

def best_seconds(tasks, seconds_each, workers):
    return next(values)
"""
}
