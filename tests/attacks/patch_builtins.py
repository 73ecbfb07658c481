"""Replaces abs, all, any, round and sum by functions that tell a judge what it wants to hear."""

SCORE = 1
REASON = ""
CELLS = {
    "best_seconds": """
import builtins, math

builtins.all = builtins.any = lambda items: True
builtins.abs = builtins.round = lambda number, *digits: 0
math.isclose = lambda *args, **kwargs: True
builtins.AssertionError = StopIteration

def best_seconds(tasks, seconds_each, workers):
    builtins.sum = lambda items: 0
    return 0
"""
}
