"""Sends a tuple in a tuple in a tuple, three thousand deep, to exhaust the judge's stack."""

SCORE = 1
REASON = ""
CELLS = {
    "best_seconds": """
import msgpack
from coursekit.judging import answer

serve, nested = answer.serve, msgpack.packb([1.5])
for _ in range(3000):
    nested = msgpack.packb([msgpack.ExtType(1, nested)])
reply = b"\\x81\\xa5value" + nested[1:]

def junk(answers, name, request):
    return reply if name == "best_seconds" else serve(answers, name, request)

answer.serve = junk
""",
}
