"""Returns a NumPy array of a subclass that decides itself what it is equal to."""

SCORE = 1
REASON = ""
CELLS = {
    "best_seconds": """
import numpy as np

class Liar(np.ndarray):
    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return True
    def __array_function__(self, function, types, args, kwargs):
        return True
    __eq__ = lambda self, other: True
    __bool__ = lambda self: True
    item = lambda self, *args: Number(0)

class Number(float):
    __eq__ = lambda self, other: True
    __hash__ = float.__hash__

def best_seconds(tasks, seconds_each, workers):
    return np.zeros(()).view(Liar)
"""
}
