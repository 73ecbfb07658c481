"""Sends every signal there is to process 1 of its namespace, which watches it."""

SCORE = 2
REASON = ""
CELLS = {
    "first": """
import os

for number in range(1, 65):
    try:
        os.kill(1, number)
    except OSError:
        pass
"""
}
