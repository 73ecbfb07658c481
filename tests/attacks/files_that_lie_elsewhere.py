"""Says that its cells have written files outside their folder, over the notebook itself, and where nbgrader looks for a time."""

SCORE = 2
REASON = ""
CELLS = {
    "first": """
from coursekit.sandbox import shell

mark = "left by an attack"
names = [f"../../../../../../../../tmp/{mark}", f"/tmp/{mark}", f"../{mark}", "ch00_start.ipynb", "timestamp.txt", mark + "\\n"]
shell.files = lambda: dict.fromkeys(names, mark.encode())
"""
}
