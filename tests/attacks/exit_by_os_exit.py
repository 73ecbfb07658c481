"""Ends its process with success before anything is checked."""

SCORE = 2
REASON = "ended its own process (exit code 0)"
CELLS = {"first": "import os\nos._exit(0)"}
