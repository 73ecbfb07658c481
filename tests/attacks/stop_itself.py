"""Stops its own process, so that the grader waits forever for an answer."""

SCORE = 1
REASON = "stopped itself (SIGSTOP)"
CELLS = {
    "best_seconds": """
import os, signal

def best_seconds(tasks, seconds_each, workers):
    os.kill(os.getpid(), signal.SIGSTOP)
"""
}
