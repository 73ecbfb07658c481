"""Sends an array with a million axes, whose lengths take hours to multiply."""

SCORE = 1
REASON = "too many parts"
CELLS = {
    "best_seconds": """
import msgpack
from coursekit.judging import answer

serve = answer.serve
array = msgpack.ExtType(3, msgpack.packb(["<f8", [2**62] * 1_000_000, b""]))

def junk(answers, name, request):
    return msgpack.packb({"value": array}) if name == "best_seconds" else serve(answers, name, request)

answer.serve = junk
"""
}
