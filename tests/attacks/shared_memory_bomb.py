"""Fills /dev/shm, which Ray and all other programs of a machine share."""

SCORE = 2
REASON = "No space left on device"
CELLS = {
    "first": """
import os

for number in range(10_000):
    with open(f"/dev/shm/left by an attack {number}", "wb") as file:
        file.write(bytes(10_000_000))
"""
}
