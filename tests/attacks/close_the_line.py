"""Closes every descriptor that it did not open itself, the line to the grader among them."""

SCORE = 2
REASON = "ended its own process"
CELLS = {"first": "import os\nos.closerange(3, 4096)"}
