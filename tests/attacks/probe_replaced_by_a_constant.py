"""Replaces the probes of chapter 1, which run in its own process, by functions that return what once passed."""

import json

from tests.attacks import code_cell

CHAPTER = "ch01_tasks"
SCORE = 1
REASON = "was missing"
PATCH = """
from coursekit.given import ch01_tasks as given

given.launch = lambda *args: {"reference": True, "value": 1764, "released": True, "pids": [1, 2]}
given.finish_in_order = lambda *args: {"results": [3, 2], "overlapped": True, "left_running": True}
given.sum_of_tree = lambda *args: {"type": "ObjectRef", "total": 0, "depth": 1, "returned_first": True}
given.square = given.meets = lambda *args: True
as_task = parallel_map = first_k = batched = tree_sum = bounded_map = lambda function, *args: True
"""


def make(path, notebook):
    cells = [code_cell(PATCH), code_cell('when_remote_returns = "b"')]
    path.write_text(json.dumps(notebook | {"cells": cells}))
