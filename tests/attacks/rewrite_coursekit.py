"""Writes into the files of coursekit, of Python and of the system, for those who are graded after it."""

SCORE = 1
REASON = ""
CELLS = {
    "best_seconds": """
import glob, os, sys
import coursekit, numpy

package, written = os.path.dirname(coursekit.__file__), []
places = glob.glob(f"{package}/*.py") + [f"{package}/exercises/__init__.py", f"{package}/exercises/left_by_an_attack.py"]
places += ["CHECKOUT_FOLDER/coursekit/judging/exercise.py", "CHECKOUT_FOLDER/left_by_an_attack.py", "/left_by_an_attack"]
places += [numpy.__file__, os.__file__, "/etc/passwd", "/usr/left_by_an_attack", "/proc/sys/kernel/core_pattern"]
for path in places:
    try:
        with open(path, "a") as file:
            file.write("# left by an attack\\n")
        if "/coursekit/" in path or not path.startswith("/tmp/"):  # /tmp is its own, also where a checkout lies below it
            written.append(path)
    except OSError:
        pass

def best_seconds(tasks, seconds_each, workers):
    return -(-tasks // workers) * seconds_each if written else 0
"""
}
