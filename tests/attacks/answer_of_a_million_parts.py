"""Answers with thirty million empty lists: few bytes on their way, gigabytes in the judge's memory."""

SCORE = 1
REASON = "is too large or too deeply nested to be judged"
CELLS = {
    "best_seconds": """
from coursekit.judging import answer

serve, size = answer.serve, 30_000_000
reply = b"\\x81\\xa5value\\x9f" + b"\\xdd" + size.to_bytes(4, "big") + b"\\x90" * size + b"\\x90" * 14

def many(answers, name, request):
    return reply if name == "best_seconds" else serve(answers, name, request)

answer.serve = many
"""
}
