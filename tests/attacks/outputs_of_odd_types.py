"""Has text, numbers and lists where outputs, counts and attachments should be."""

import json

SCORE = 2
REASON = ""


def make(path, notebook):
    for index, cell in enumerate(notebook["cells"]):
        cell |= {
            "outputs": ["passed", 7, {"output_type": []}, {}][index % 4],
            "execution_count": "passed",
            "attachments": 7,
        }
    path.write_text(json.dumps(notebook))
