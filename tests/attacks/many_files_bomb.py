"""Makes a hundred thousand empty files, which take no space and all entries."""

SCORE = 2
REASON = ""
CELLS = {
    "first": """
import os

for number in range(10**5):
    os.mknod(f"/tmp/left by an attack {number}")
"""
}
