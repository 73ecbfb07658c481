"""Has forty processes compute while others are graded, each in a session of its own, so that nobody else gets a CPU."""

SCORE = 2
REASON = ""
CELLS = {
    "first": """
import os, time

os.nice(15)  # this machine has other work, too
for _ in range(40):
    if os.fork() == 0:
        os.setsid()
        end = time.monotonic() + 5
        while time.monotonic() < end:
            pass
        os._exit(0)
"""
}
