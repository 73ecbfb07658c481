"""Takes all memory that it can get."""

SCORE = 1
REASON = "MB of memory"
CELLS = {
    "best_seconds": """
def best_seconds(tasks, seconds_each, workers):
    hoard = []
    while True:
        hoard.append(bytearray(b"x") * 20_000_000)
"""
}
