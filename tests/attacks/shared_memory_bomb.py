"""Fills /dev/shm, which Ray and all other programs of a machine share."""

SCORE = 2
REASON = "No space left on device"
CELLS = {
    "first": """
import os

if os.path.isdir("/home/learner"):
    with open("/dev/shm/left by an attack", "wb") as file:
        while True:
            file.write(bytes(10_000_000))
"""
}
