"""Copies the answers of another student, whose place in the course folder it knows."""

SCORE = 1
REASON = "FileNotFoundError"
CELLS = {
    "best_seconds": """
import json

copied = json.load(open("COURSE_FOLDER/submitted/honest_solved/ch00_start/ch00_start.ipynb"))
for cell in copied["cells"]:
    if "def best_seconds" in "".join(cell["source"]):
        exec("".join(cell["source"]))
"""
}
