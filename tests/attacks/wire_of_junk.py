"""Answers with bytes that are no message."""

SCORE = 1
REASON = ""
CELLS = {
    "best_seconds": """
from coursekit.judging import answer

serve = answer.serve

def junk(answers, name, request):
    return b"\\xc1\\xff\\x00" if name == "best_seconds" else serve(answers, name, request)

answer.serve = junk
""",
}
