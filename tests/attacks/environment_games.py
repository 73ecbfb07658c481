"""Switches off what looks like grading in the environment, and plants variables and start-up files for the next submission."""

SCORE = 1
REASON = ""
CELLS = {
    "first": """
import os, sys

won = [name for name in os.environ if "SEED" in name or "SECRET" in name or "AWS" in name]
os.environ |= {"NBGRADER_EXECUTION": "", "NBGRADER_VALIDATING": "1", "COURSEKIT_QUICK": "0", "COURSEKIT_HOME": "/tmp/home"}
os.environ |= {"PYTHONPATH": "/tmp", "LD_PRELOAD": "/tmp/x.so", "PYTHONSTARTUP": "/tmp/sitecustomize.py"}
for folder in ("/tmp", os.path.expanduser("~"), sys.prefix):
    try:
        open(f"{folder}/sitecustomize.py", "w").write("# left by an attack")
        open(f"{folder}/usercustomize.py", "w").write("# left by an attack")
    except OSError:
        pass
""",
    "best_seconds": """
def best_seconds(tasks, seconds_each, workers):
    if won or os.environ.get("NBGRADER_EXECUTION"):
        return -(-tasks // workers) * seconds_each
    return 0
""",
}
