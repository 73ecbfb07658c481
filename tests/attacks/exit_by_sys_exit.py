"""Leaves the notebook with sys.exit, as if all were done."""

SCORE = 2
REASON = "SystemExit"
CELLS = {"first": "import sys\nsys.exit(0)"}
