"""Returns an object that is no number and claims to be every number."""

SCORE = 1
REASON = "not plain data"
CELLS = {
    "best_seconds": """
class Liar:
    __eq__ = __lt__ = __gt__ = __le__ = __ge__ = lambda self, other: True
    __float__ = lambda self: 1.5
    __instancecheck__ = __subclasscheck__ = lambda *args: True
    __module__ = "coursekit.given.ch00_start"

def best_seconds(tasks, seconds_each, workers):
    return Liar()
"""
}
