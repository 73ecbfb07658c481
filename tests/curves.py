"""Record the learning curves of our solutions in their checks: `make curves`, or `make curves name=ch10_actor_learner`.

`explain` draws them beside a learner's. A chapter's solved notebook runs, without demonstrations, and says what its checks kept.
"""

import json
import os
import sys
import tempfile
from datetime import date
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell

from coursekit.author.recordings import machine
from coursekit.basics.paths import ROOT
from coursekit.learner.learning_curves import RECORDED, recorded
from tests.chapters import CHAPTERS, run

SAY = """import json
from coursekit.learner.session import current
print(json.dumps({name: result.curve for name, result in current().results.items() if result.curve}))"""
KEEPING = [
    name for name in CHAPTERS if "keep_curve(" in (ROOT / f"coursekit/exercises/{name}.py").read_text(encoding="utf-8")
]


def main(names: list[str]) -> None:
    """Record some chapters, or all that keep a curve."""
    for chapter in names or KEEPING:
        notebook = nbformat.read(ROOT / f"solutions/{chapter}.ipynb", as_version=4)
        cells = [cell for cell in notebook.cells if "demo" not in cell.metadata.get("tags", [])]
        notebook.cells = [*cells, new_code_cell(SAY)]
        with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as folder:  # a socket's path must be short
            os.environ["RAY_TMPDIR"] = folder
            path = Path(folder, f"{chapter}.ipynb")
            nbformat.write(notebook, path)
            curves = json.loads(run(path, Path(folder)).printed().splitlines()[-1])
        about = {"machine": machine(), "date": str(date.today())}
        kept = recorded() if RECORDED.exists() else {}
        for name, (over, points) in curves.items():
            points = [[round(x, 3), round(y, 3)] for x, y in points]
            kept[f"{chapter}/{name}"] = {**about, "over": over, "points": points}
            print(f"{chapter}/{name}: {len(points)} points, the last {points[-1]}")
        lines = [f"{json.dumps(name)}: {json.dumps(kept[name])}" for name in sorted(kept)]
        RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
