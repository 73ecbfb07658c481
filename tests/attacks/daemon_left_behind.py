"""Leaves a process behind that ignores signals and belongs to no parent."""

SCORE = 2
REASON = ""
CELLS = {
    "first": """
import os, signal, subprocess, sys

program = "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]; time.sleep(STAY_SECONDS)"
if os.fork() == 0:
    os.setsid()
    subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
    os._exit(0)
"""
}
