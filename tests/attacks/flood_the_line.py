"""Sends the head of a message of four gigabytes to the grader, and then bytes without end."""

SCORE = 1
REASON = "not an answer"
CELLS = {
    "best_seconds": """
import os, socket

def best_seconds(tasks, seconds_each, workers):
    sockets = [int(name) for name in os.listdir("/proc/self/fd") if "socket" in link(name)]
    while True:
        for number in sockets:
            os.write(number, b"\\xff" * 1_000_000)

def link(name):
    try:
        return os.readlink(f"/proc/self/fd/{name}")
    except OSError:
        return ""
"""
}
