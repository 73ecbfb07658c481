"""Imports the judge's side of the chapter, the sample answers and the grader from coursekit."""

SCORE = 0
REASON = "ModuleNotFoundError"
CELLS = {
    "best_seconds": """
import importlib

def best_seconds(tasks, seconds_each, workers):
    importlib.import_module("coursekit.exercises.ch00_start")
    return -(-tasks // workers) * seconds_each
""",
    "what_distribution_costs": """
import importlib, sys

what_distribution_costs = "a"
sys.path[:0] = ["CHECKOUT_FOLDER", "COURSE_FOLDER"]
for name in ("coursekit.exercises.ch00_start", "tests.answers.ch00_start", "coursekit.grading.submission_grader"):
    try:
        importlib.import_module(name)
        what_distribution_costs = "c"
    except ImportError:
        pass
from coursekit.judging.exercise import load
what_distribution_costs = load("ch00_start")["what_distribution_costs"].key
""",
}
