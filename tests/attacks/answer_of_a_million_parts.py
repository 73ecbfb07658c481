"""Answers with millions of empty lists: few bytes on their way, gigabytes in the judge's memory."""

SCORE = 1
REASON = ""
CELLS = {
    "best_seconds": """
from coursekit import wire

def best_seconds(tasks, seconds_each, workers):
    return 0

size = 30_000_000
wire.encode = lambda value: b"\\x81\\xa5value\\xdd" + size.to_bytes(4, "big") + b"\\x90" * size
""",
    "what_distribution_costs": """
import importlib

importlib.reload(wire)
what_distribution_costs = "c"
""",
}
