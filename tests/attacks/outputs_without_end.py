"""Carries two hundred thousand outputs that claim points, each of which would be checked against the format."""

import json

SCORE = 2
REASON = ""


def make(path, notebook):
    record = {"application/vnd.coursekit+json": {"status": "passed", "earned": 100}}
    output = {"output_type": "display_data", "metadata": {}, "data": record}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = [output] * 9_000
    path.write_text(json.dumps(notebook))
