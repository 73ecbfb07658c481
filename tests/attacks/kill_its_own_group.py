"""Ends its whole process group with SIGTERM from inside the answer."""

SCORE = 1
REASON = "SIGTERM"
CELLS = {
    "best_seconds": """
import os, signal

def best_seconds(tasks, seconds_each, workers):
    os.killpg(os.getpgrp(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)
"""
}
