"""Sends a dict and a set of a hundred thousand numbers that were chosen to collide, which takes its reader a minute."""

SCORE = 1
REASON = "parts"
CELLS = {
    "best_seconds": """
import msgpack
from coursekit.judging import answer

serve, prime = answer.serve, 2**61 - 1
numbers = [msgpack.packb(msgpack.ExtType(5, hex(number * prime).encode())) for number in range(1, 100_000)]
collide = b"\\x81\\xa5value\\xdf" + len(numbers).to_bytes(4, "big") + b"".join(number + b"\\x01" for number in numbers)

def junk(answers, name, request):
    return collide if name == "best_seconds" else serve(answers, name, request)

answer.serve = junk
"""
}
