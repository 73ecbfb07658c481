"""Reads address 0, which ends Python without a traceback."""

SCORE = 1
REASON = "SIGSEGV"
CELLS = {
    "best_seconds": """
import ctypes

def best_seconds(tasks, seconds_each, workers):
    return ctypes.string_at(0)
"""
}
