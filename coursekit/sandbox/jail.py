"""What a sandbox sees of the machine: the system and Python, read-only, and private folders; nothing else is there.

The nursery enters the jail once (`enter`); each sandbox then adds what is its own (`make_private`).
"""

import os
import socket
import sys
from collections.abc import Iterable
from pathlib import Path

import coursekit
from coursekit.sandbox import namespaces
from coursekit.sandbox.ray_workers import STARTER, starter

USER = 1000  # the learner's user id, as seen inside
HOME = "/home/learner"
HOSTNAME = "sandbox"
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = [
    "alternatives",
    "fonts",
    "host.conf",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "locale.alias",
    "mime.types",
    "protocols",
    "services",
    "ssl/certs",
    "ssl/openssl.cnf",
    "timezone",
]
_DEVICES = ("null", "zero", "full", "random", "urandom")
_PROCESSORS = "/sys/devices/system/cpu"  # libraries count them there
_OWN_ETC = {
    "passwd": f"root:x:0:0::/:/usr/sbin/nologin\nlearner:x:{USER}:{USER}::{HOME}:/bin/sh\n",
    "group": f"root:x:0:\nlearner:x:{USER}:\n",
    "hosts": f"127.0.0.1 localhost {HOSTNAME}\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",  # nobody to ask for names
    "hostname": f"{HOSTNAME}\n",
}
_LINKS = {
    "/dev/fd": "/proc/self/fd",
    "/dev/stdin": "/proc/self/fd/0",
    "/dev/stdout": "/proc/self/fd/1",
    "/dev/stderr": "/proc/self/fd/2",
    "/dev/ptmx": "pts/ptmx",
    "/etc/mtab": "/proc/self/mounts",
}
_PRIVATE = ("/tmp", HOME)
# The folders of coursekit that a sandbox may read.
_OPEN = ("basics", "given", "judging", "learner", "ray_bridge", "__pycache__")
_ROOT = "/tmp"  # where the jail is put together, in a mount namespace of its own


def python_folders() -> list[str]:
    """Return the folders of Python, its virtual environment and coursekit, by every name under which they are used."""
    used = [sys.base_prefix, sys.base_exec_prefix, sys.prefix, str(Path(coursekit.__file__).parent)]
    return list(dict.fromkeys(used + [os.path.realpath(folder) for folder in used]))


def _masks() -> list[str]:
    """Return what the jail shows of coursekit's folder and no sandbox may read: every folder, also one that is added later."""
    package = Path(coursekit.__file__).parent
    bases = [str(base) for base in {package, package.resolve()}]
    return [f"{base}/{name}" for base in bases for name in os.listdir(_ROOT + base) if name not in _OPEN]


def enter(user: int, hidden: Iterable[str]) -> None:
    """Make this process live in the jail, as `user`; where a `hidden` folder would be seen, an empty one is.

    The process is the first of its own user, mount and PID namespaces, with `user` mapped. It may be root until here, so folders
    are opened before the change of user: Python may lie where only its owner may look.
    """
    namespaces.make_mounts_private()
    links = {path: os.readlink(path) for path in _SYSTEM if os.path.islink(path)}
    system = [*_SYSTEM, *(f"/etc/{name}" for name in _ETC), *(f"/dev/{name}" for name in _DEVICES), _PROCESSORS]
    opened = {
        path: os.open(path, os.O_PATH)
        for path in [*system, *python_folders()]
        if os.path.exists(path) and path not in links
    }
    namespaces.become(user)
    namespaces.mount_tmpfs(_ROOT, 16)
    os.mkdir(f"{_ROOT}/proc")
    namespaces.mount_proc(f"{_ROOT}/proc")
    for path in _PRIVATE:  # for the nursery itself; each sandbox gets its own
        os.makedirs(_ROOT + path)
        namespaces.mount_tmpfs(_ROOT + path, 64)
    _show(opened, system)
    for path, target in (links | _LINKS).items():
        os.symlink(target, _ROOT + path)
    os.mkdir(f"{_ROOT}/run")
    Path(_ROOT + STARTER).write_text(starter(), encoding="utf-8")
    for name, text in _OWN_ETC.items():
        Path(f"{_ROOT}/etc/{name}").write_text(text, encoding="utf-8")
    emptied = [path for path in map(os.path.realpath, hidden) if _empty(_ROOT + path)]
    _show(opened, python_folders())  # also where it lies in a hidden folder
    emptied += [path for path in _masks() if _empty(_ROOT + path)]
    for path in emptied:
        namespaces.make_top_read_only(_ROOT + path)
    for path in ("/mnt", "/dev/shm", "/dev/pts"):
        os.makedirs(_ROOT + path, exist_ok=True)
    namespaces.pivot_root(_ROOT)
    namespaces.make_top_read_only("/")
    namespaces.hide_memory(False)  # changing the user has hidden it: the owner of its /proc would be another


def _show(opened: dict[str, int], paths: Iterable[str]) -> None:
    """Bind opened folders and files at their places in the jail, read-only; devices as they are."""
    for path in paths:
        if path not in opened:
            continue
        place, source = _ROOT + path, f"/proc/self/fd/{opened.pop(path)}"
        if os.path.isdir(source):
            os.makedirs(place, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            Path(place).touch()
        namespaces.bind(source, place)
        os.close(int(source.rpartition("/")[2]))
        if not path.startswith("/dev/"):
            namespaces.make_read_only(place)


def _empty(folder: str) -> bool:
    """Return whether there is such a folder; if so, an empty one is mounted over it."""
    if not os.path.isdir(folder):
        return False
    namespaces.mount_tmpfs(folder, 1)
    return True


def make_private(disk_mb: float, shm_mb: float) -> None:
    """Give this process, the first of its namespaces, folders, processes, terminals and a loopback of its own.

    `disk_mb` is what the home and /tmp hold together.
    """
    namespaces.make_mounts_private()
    covered = [path for path in python_folders() if path.startswith(tuple(f"{private}/" for private in _PRIVATE))]
    opened = {path: os.open(path, os.O_PATH) for path in covered}
    namespaces.mount_tmpfs("/mnt", disk_mb)
    for path in _PRIVATE:
        os.mkdir(f"/mnt/{os.path.basename(path)}")
        namespaces.bind(f"/mnt/{os.path.basename(path)}", path)
    os.chmod("/tmp", 0o1777)
    namespaces.unmount("/mnt")
    for path, descriptor in opened.items():
        os.makedirs(path, exist_ok=True)
        namespaces.bind(f"/proc/self/fd/{descriptor}", path)
        os.close(descriptor)
    namespaces.mount_tmpfs("/dev/shm", shm_mb, mode="1777")
    namespaces.mount_terminals("/dev/pts")
    namespaces.mount_proc("/proc")
    namespaces.raise_loopback()
    socket.sethostname(HOSTNAME)


def forbid_namespaces() -> None:
    """Leave no way to capabilities by a user namespace further in."""
    Path("/proc/sys/user/max_user_namespaces").write_text("0", encoding="utf-8")
