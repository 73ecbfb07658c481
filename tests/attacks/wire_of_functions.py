"""Sends extension types in place of values: functions by name, nested tuples without end, a number of a million digits."""

SCORE = 1
REASON = ""
CELLS = {
    "best_seconds": """
import msgpack
from coursekit.judging import answer

serve, turn = answer.serve, iter(range(100))
nested = b""
for _ in range(3000):
    nested = msgpack.packb(msgpack.ExtType(1, nested))
values = [
    msgpack.ExtType(4, b"ch00_start:os.system"),
    msgpack.ExtType(5, b"f" * 1_000_000),
    msgpack.ExtType(3, msgpack.packb(["O", [1], bytes(8)])),
]

def junk(answers, name, request):
    if name != "best_seconds":
        return serve(answers, name, request)
    return msgpack.packb({"value": values[next(turn) % 3]})

answer.serve = junk
""",
}
