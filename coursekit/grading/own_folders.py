"""Which folders this user's own runs have begun in: the state of a run carries a token that takes the user's key to make."""

import hmac
import json
import secrets
import stat
from itertools import chain
from pathlib import Path

from coursekit.basics.files import write_whole
from coursekit.learner.progress import home


def token(folder: Path, seed: int) -> str:
    """Return what shows that this user began a run with a seed in a folder; raises OSError where no key can be kept."""
    return hmac.digest(_key(), f"{seed} {folder}".encode("utf-8", "surrogateescape"), "sha256").hex()


def is_ours(state: Path) -> bool:
    """Return whether this user's own run wrote the state that lies in a folder; one that was handed in has no such token."""
    try:
        if not stat.S_ISREG(state.lstat().st_mode):
            return False
        run = json.loads(state.read_text(encoding="utf-8"))
        return hmac.compare_digest(run["token"], token(state.parent, run["seed"]))
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return False


def is_plain(folder: Path) -> bool:
    """Return whether there are only folders and files, nothing that leads elsewhere: links are never written through."""
    kinds = (stat.S_IFMT(path.lstat().st_mode) for path in chain([folder], folder.rglob("*")))
    return all(kind in (stat.S_IFDIR, stat.S_IFREG) for kind in kinds)


def _key() -> bytes:
    """Return the user's key, which is made when it is first needed."""
    path = home() / "grading.key"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, secrets.token_bytes(32), private=True)
    return path.read_bytes()
