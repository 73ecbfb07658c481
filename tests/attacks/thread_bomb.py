"""Starts threads without end."""

SCORE = 2
REASON = "can't start new thread"
CELLS = {
    "first": """
import threading, time

while True:
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
"""
}
