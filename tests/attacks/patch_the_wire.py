"""Replaces the learner's end of the wire by one that answers every question with a claim of points."""

SCORE = 0
REASON = ""
CELLS = {
    "best_seconds": """
import msgpack
from coursekit.judging import answer

claim = msgpack.packb({"value": True, "status": "passed", "points": 1, "earned": 1, "passed": True})
answer.serve = lambda *args: claim
""",
}
