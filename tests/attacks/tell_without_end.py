"""Answers right, and then makes the judge wait forever when it tells the notebook the result."""

SCORE = 2
REASON = ""
CELLS = {
    "best_seconds": """
import os, sys

class Trap(dict):
    def __setitem__(self, name, value):
        os._exit(9)

sys.modules["coursekit.sandbox.learner_process"]._passed = Trap()

def best_seconds(tasks, seconds_each, workers):
    return -(-tasks // workers) * seconds_each
"""
}
