"""Raises an exception outside Exception that ends the process when it is asked for its text."""

SCORE = 1
REASON = ""
CELLS = {
    "best_seconds": """
class Ghost(BaseException):
    def __str__(self):
        raise SystemExit("passed")
    __repr__ = __str__

def best_seconds(tasks, seconds_each, workers):
    raise Ghost
"""
}
