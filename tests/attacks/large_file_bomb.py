"""Makes a single file of more than its disk holds, with a hole in it that takes no space."""

SCORE = 2
REASON = "File too large"
CELLS = {
    "first": """
import os

with open("/tmp/left by an attack", "wb") as file:
    os.truncate(file.fileno(), 2**40)
"""
}
