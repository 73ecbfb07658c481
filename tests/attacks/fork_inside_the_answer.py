"""Forks inside the answer, so that two processes answer the same question."""

SCORE = 2
REASON = ""
CELLS = {
    "best_seconds": """
import os

def best_seconds(tasks, seconds_each, workers):
    os.fork()
    return -(-tasks // workers) * seconds_each
"""
}
