"""Opens files until no more can be opened, and keeps them open."""

SCORE = 2
REASON = "Too many open files"
CELLS = {
    "first": """
import os

hoard = []
while True:
    hoard.append(os.open("/dev/null", os.O_RDONLY))
""",
    "best_seconds": """
for descriptor in hoard[:100]:
    os.close(descriptor)

def best_seconds(tasks, seconds_each, workers):
    return -(-tasks // workers) * seconds_each
""",
}
