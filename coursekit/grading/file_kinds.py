"""What a file that was handed in is, by its content, and why it is no notebook, in words for its student. Its name says nothing."""

import json
import re
from fnmatch import fnmatch
from pathlib import PurePath

TOOL_FOLDERS = (".ipynb_checkpoints", "__pycache__", "__MACOSX")
TOOL_FILES = (".DS_Store", "._*", "Thumbs.db", "desktop.ini")
_KINDS = {
    b"PK": "a zip archive or an Office document. Unpack it, and hand in the notebook itself",
    b"\x1f\x8b": "a compressed archive. Unpack it, and hand in the notebook itself",
    b"Rar!": "a compressed archive. Unpack it, and hand in the notebook itself",
    b"7z\xbc\xaf": "a compressed archive. Unpack it, and hand in the notebook itself",
    b"%PDF": "a PDF. Hand in the notebook that it was made from",
    b"<": "a web page. Download the notebook itself, on GitHub with Download raw file",
}
_CONFLICT = re.compile(r"^[ \t]*(?:<{7}|>{7}) ", re.MULTILINE)


def is_a_tools(path: PurePath) -> bool:
    """Return whether a program wrote a file for itself, and no student: by its name, or that of a folder on the way to it."""
    folders = any(part in TOOL_FOLDERS for part in path.parts)
    return folders or any(fnmatch(path.name, pattern) for pattern in TOOL_FILES)


def is_a_notebooks(content: bytes) -> bool:
    """Return whether the beginning of a file is a notebook's, whatever the file is called."""
    begins = content.lstrip(b"\xef\xbb\xbf \r\n\t").startswith(b"{")
    return begins and b'"cell_type"' in content and (b'"cells"' in content or b'"worksheets"' in content)


def kind_of(content: bytes) -> str:
    """Return what a file is that is no notebook, and what to do, "" where that cannot be told."""
    if not content.strip(b"\0 \r\n\t"):
        return "empty. Save the notebook, and hand it in again"
    return next((kind for begin, kind in _KINDS.items() if content.lstrip().startswith(begin)), "")


def why_unreadable(content: bytes, error: Exception) -> str:
    """Return why the JSON of a notebook cannot be read; `error` is the parser's."""
    text = content.decode("utf-8-sig", "replace")
    if found := _CONFLICT.search(text):
        line = text.count("\n", 0, found.start()) + 1
        return f"git left conflict markers in it, the first in line {line}. Keep one version of each place, and remove the markers"
    if kind := kind_of(content):
        return f"it is {kind}"
    if isinstance(error, UnicodeDecodeError):
        return "it is not saved in UTF-8, as Jupyter saves notebooks, but in another encoding"
    if isinstance(error, json.JSONDecodeError):
        rest = text[error.pos :].strip()
        ends = any(word.startswith(rest) for word in ("true", "false", "null", "-")) or "Unterminated" in error.msg
        if ends and text.startswith("{"):
            return "it is cut off, and its end is missing"
        return f"line {error.lineno} is not what Jupyter writes ({error.msg})"
    return "its parts are nested too deeply, or hold a number that is too long"
