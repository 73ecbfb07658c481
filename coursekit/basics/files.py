"""A file is written in full or not at all: however a program ends, the old one stands there or the new one."""

import os
import secrets
from pathlib import Path

MAX_BYTES = 20 * 2**20  # of a file that is handed in
CLEAR = "clear its outputs, in JupyterLab with Edit → Clear Outputs of All Cells"  # what makes a notebook smaller
PARTIAL = ".partial"  # ends the name of a file that is still being written


def write_whole(path: Path, content: bytes | str, private: bool = False) -> None:
    """Write a file in one step, and make sure that it is on the disk; a `private` one is for its owner only."""
    partial = path.with_name(f".{path.name[:100]}-{secrets.token_hex(4)}{PARTIAL}")
    number = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
