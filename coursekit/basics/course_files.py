"""What a learner gets of the course, in one place for all ways to it: a folder beside work/, the learners' zip, and the wheel.

setup.py imports this module before any package is installed.
"""

import re
from collections.abc import Iterable
from pathlib import Path

BESIDE_WORK = ("CHANGELOG.md", "README.md", "docs", "img", "locale", "notebooks", "pyproject.toml")
IN_WHEEL = (*BESIDE_WORK, "solutions")
IN_ZIP = {
    *BESIDE_WORK,
    ".devcontainer",
    ".gitignore",
    "LICENSE",
    "LICENSE-TEXT",
    "Makefile",
    "constraints.txt",
    "coursekit",
    "environment.yml",
    "scripts",
    "setup.py",
}
_NOT_IN_ZIP = re.compile(
    rb"^[^\n]*not in the learners' zip: begin.*?not in the learners' zip: end[^\n]*\n", re.DOTALL | re.MULTILINE
)


def found(root: Path, tops: Iterable[str]) -> list[str]:
    """Return the names of all files in these folders of the course, and of these files, without hidden ones and caches."""
    files = [file for top in tops for file in [root / top, *(root / top).rglob("*")] if file.is_file()]
    names = [file.relative_to(root) for file in files]
    return [str(name) for name in names if not any(part.startswith((".", "__pycache__")) for part in name.parts[1:])]


def for_learners(root: Path, name: str) -> bytes:
    """Return a file's content, README.md and the Makefile without what they say of other files than learners get."""
    content = (root / name).read_bytes()
    return _NOT_IN_ZIP.sub(b"", content) if name in ("README.md", "Makefile") else content
