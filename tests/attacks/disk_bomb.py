"""Fills its disk."""

SCORE = 2
REASON = "No space left on device"
CELLS = {
    "first": """
import os

if os.path.isdir("/home/learner"):
    for folder in ("/tmp", "/home/learner"):
        with open(f"{folder}/left by an attack", "wb") as file:
            while True:
                file.write(bytes(10_000_000))
"""
}
