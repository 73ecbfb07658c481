"""Claims that its answer raised an error whose parts are lists, numbers and ten megabytes of text."""

SCORE = 1
REASON = ""
CELLS = {
    "best_seconds": """
import msgpack
from coursekit.judging import answer

serve = answer.serve
odd = {"kind": ["passed"], "message": "passed " * 1_500_000, "where": {"line": [1]}}

def junk(answers, name, request):
    return msgpack.packb({"raised": odd}) if name == "best_seconds" else serve(answers, name, request)

answer.serve = junk
""",
}
