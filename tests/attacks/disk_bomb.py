"""Fills its disk."""

SCORE = 2
REASON = "No space left on device"
CELLS = {
    "first": """
import os

for number in range(10_000):
    with open(f"{('/tmp', '/home/learner')[number % 2]}/left by an attack {number}", "wb") as file:
        file.write(bytes(10_000_000))
"""
}
