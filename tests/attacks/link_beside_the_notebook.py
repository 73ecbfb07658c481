"""Puts links to secret files, a pipe and a terabyte of nothing beside the notebook, to have them copied or read."""

import json
import os

SCORE = 2
REASON = ""


def make(path, notebook):
    path.write_text(json.dumps(notebook))
    (path.parent / "data.csv").symlink_to("/etc/shadow")
    (path.parent / "more").symlink_to("/root")
    os.mkfifo(path.parent / "pipe")
    (path.parent / "big.bin").touch()
    os.truncate(path.parent / "big.bin", 2**40)
