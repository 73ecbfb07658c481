"""What chapters share about files: folders that go when they should, what a program does to them, and a wait with an end."""

import atexit
import os
import shutil
import tempfile
import time
from collections.abc import Callable

_FOLDERS: list[str] = []


def new_folder(prefix: str = "coursekit-") -> str:
    """Return the path of a new folder, which goes when this process ends."""
    path = tempfile.mkdtemp(prefix=prefix)
    _FOLDERS.append(path)
    return path


def remove_folders() -> None:
    """Remove every folder that `new_folder` made."""
    while _FOLDERS:
        shutil.rmtree(_FOLDERS.pop(), ignore_errors=True)


atexit.register(remove_folders)


def wait_until(condition: Callable[[], object], seconds: float = 30) -> bool:
    """Return whether the condition came true within some seconds."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return bool(condition())


def done_to_a_file(event: str, args: tuple, folder: str) -> str:
    """Return what is about to be done to a file of the folder, by Python's audit event; nothing for reading."""
    if event not in ("open", "os.remove", "os.rename") or not str(args[0]).startswith(folder):
        return ""
    if event == "open" and not args[2] & (os.O_WRONLY | os.O_RDWR):
        return ""
    name = os.path.basename(str(args[0]))
    return {"open": f"opened {name} to write", "os.remove": f"removed {name}", "os.rename": f"renamed {name}"}[event]
