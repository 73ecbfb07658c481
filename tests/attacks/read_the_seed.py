"""Reads the seed of the run and the outcomes of others from the course folder, or through the folders of other processes."""

SCORE = 1
REASON = ""
CELLS = {
    "best_seconds": """
import glob, os

found = []
for name in (".coursekit-run.json", "results.jsonl", "grades.csv", "gradebook.db"):
    for root in ("", "/proc/1/root", "/proc/self/root", *glob.glob("/proc/[0-9]*/root"), *glob.glob("/proc/[0-9]*/cwd")):
        path = f"{root}COURSE_FOLDER/{name}"
        try:
            found.append(open(path, "rb").read())
        except OSError:
            pass

def best_seconds(tasks, seconds_each, workers):
    return -(-tasks // workers) * seconds_each if found else 0
"""
}
