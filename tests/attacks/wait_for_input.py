"""Waits for somebody to type."""

SCORE = 2
REASON = "a cell ended with"
CELLS = {"first": "name = input('Who grades this? ')"}
