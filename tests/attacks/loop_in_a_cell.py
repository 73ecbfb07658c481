"""Loops forever in a cell of its own."""

SCORE = 2
REASON = "stopped after"
CELLS = {"first": "import time\nwhile True:\n    time.sleep(0.01)"}
