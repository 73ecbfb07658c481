"""Linux's namespaces, mounts and privileges, called by ctypes; each error says in words which call failed and why."""

import contextlib
import ctypes
import errno
import fcntl
import os
import socket
import struct
import sys
from pathlib import Path

NEWNS, NEWCGROUP, NEWUTS, NEWIPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000
KINDS = {"pid": NEWPID, "mnt": NEWNS, "net": NEWNET, "ipc": NEWIPC, "uts": NEWUTS, "cgroup": NEWCGROUP, "user": NEWUSER}

_RDONLY, _NOSUID, _NODEV, _REMOUNT, _BIND, _REC, _PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
_DETACH, _AT_RECURSIVE, _AT_FDCWD = 2, 0x8000, -100
_PIVOT_ROOT, _CAPSET, _KEYCTL, _SECCOMP, _MOUNT_SETATTR = 155, 126, 250, 317, 442  # of system calls on x86-64
if os.uname().machine == "aarch64":
    _PIVOT_ROOT, _CAPSET, _KEYCTL, _SECCOMP, _MOUNT_SETATTR = 41, 91, 219, 277, 442
_SET_PDEATHSIG, _SET_DUMPABLE, _CAPBSET_DROP = 1, 4, 24
_SET_CHILD_SUBREAPER, _SET_NO_NEW_PRIVS, _CAP_AMBIENT = 36, 38, 47
_SIOCSIFFLAGS, _IFF_UP_RUNNING = 0x8914, 0x41

_REASONS = {
    errno.EPERM: "the system forbids it",
    errno.EACCES: "the system forbids it",
    errno.EINVAL: "the system refuses these arguments",
    errno.ENOSYS: "this kernel is too old",
    errno.ENOSPC: "a limit of the system is reached",
    errno.EUSERS: "too many user namespaces lie within each other",
}


class Refused(OSError):
    """The system refused a call; the message says which, and why."""

    def __str__(self) -> str:
        return str(self.strerror)


_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def _call(what: str, name: str, *args: object) -> None:
    """Call a function of the C library; raises Refused where it fails."""
    if _libc is None:
        raise Refused(errno.ENOSYS, f"{what}: only Linux can")
    if getattr(_libc, name)(*args) < 0:
        number = ctypes.get_errno()
        reason = _REASONS.get(number, "it failed")
        raise Refused(number, f"{what}: {reason} ({os.strerror(number)})")


def _system_call(what: str, number: int, *args: object) -> None:
    _call(what, "syscall", ctypes.c_long(number), *args)


def unshare(flags: int) -> None:
    """Put this process into new namespaces (its children, for NEWPID)."""
    _call("new namespaces", "unshare", flags)


def enter(namespace: int, kind: int) -> None:
    """Put this process into an open namespace (its children, for NEWPID)."""
    _call("entering a namespace", "setns", namespace, kind)


def open_own() -> list[int]:
    """Return this process's namespaces, open, in the order of KINDS."""
    return [os.open(f"/proc/self/ns/{name}", os.O_RDONLY) for name in KINDS]


def _mount(what: str, source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    kind_bytes = kind.encode() if kind else None
    flags_long = ctypes.c_ulong(flags)
    _call(what, "mount", os.fsencode(source), os.fsencode(target), kind_bytes, flags_long, data.encode() or None)


def make_mounts_private() -> None:
    """Keep what is mounted from now on out of every other mount namespace."""
    _mount("private mounts", "none", "/", None, _REC | _PRIVATE)


def mount_tmpfs(target: str, megabytes: float, mode: str = "755", inodes: int = 500_000) -> None:
    """Mount an empty folder in memory with a limit on its size."""
    size = f"mode={mode},size={int(megabytes * 1024)}k,nr_inodes={inodes}"
    _mount(f"tmpfs on {target}", "tmpfs", target, "tmpfs", _NOSUID | _NODEV, size)


def mount_proc(target: str) -> None:
    """Mount the list of processes of this process's own PID namespace."""
    _mount(f"proc on {target}", "proc", target, "proc", _NOSUID | _NODEV | 8)


def mount_terminals(target: str) -> None:
    """Mount a set of pseudo-terminals of its own."""
    _mount(f"devpts on {target}", "devpts", target, "devpts", _NOSUID | 8, "newinstance,ptmxmode=0666,mode=620")


def bind(source: str, target: str) -> None:
    """Show a folder or file, with all that is mounted in it, at a second place."""
    _mount(f"{source} at {target}", source, target, None, _BIND | _REC)


def make_read_only(target: str) -> None:
    """Make a mount, with all that is mounted in it, read-only, without devices and set-user-id programs."""
    attributes = struct.pack("=QQQQ", _RDONLY | _NOSUID | _NODEV, 0, 0, 0)
    arguments = (_AT_FDCWD, os.fsencode(target), _AT_RECURSIVE, attributes, ctypes.c_size_t(len(attributes)))
    _system_call(f"making {target} read-only (Linux 5.12 or newer)", _MOUNT_SETATTR, *arguments)


def make_top_read_only(target: str) -> None:
    """Make one mount read-only, and nothing that is mounted in it."""
    flags = _REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV
    _mount(f"making {target} read-only", "none", target, None, flags)


def pivot_root(new_root: str) -> None:
    """Make a mounted folder the root of this mount namespace and let go of the old one."""
    old = os.path.join(new_root, ".old")
    os.mkdir(old, 0o700)
    _system_call("pivot_root", _PIVOT_ROOT, os.fsencode(new_root), os.fsencode(old))
    os.chdir("/")
    unmount("/.old")
    os.rmdir("/.old")


def unmount(target: str) -> None:
    """Take a mount away, with all that is mounted in it, as soon as no process uses it."""
    _call(f"unmounting {target}", "umount2", os.fsencode(target), _DETACH)


def raise_loopback() -> None:
    """Switch on the loopback interface of a new network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP_RUNNING))


def map_ids(process: int | str, inside: int, outside: tuple[int, int], count: int = 1, groups: bool = False) -> None:
    """Write which user and group ids a new user namespace has: `inside` … are `outside` (user, group) … of its parent."""
    folder = Path(f"/proc/{process}")
    if not groups:
        (folder / "setgroups").write_text("deny")
    (folder / "gid_map").write_text(f"{inside} {outside[1]} {count}")
    (folder / "uid_map").write_text(f"{inside} {outside[0]} {count}")


def become(user: int) -> None:
    """Change to a user and group id of this user namespace, for good."""
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def drop_privileges() -> None:
    """Give up every capability, also of programs started later, and the ways to get one."""
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text(encoding="utf-8"))
    for capability in range(last + 1):
        _prctl("dropping a capability", _CAPBSET_DROP, capability)
    _prctl("dropping ambient capabilities", _CAP_AMBIENT, 4)
    _prctl("no new privileges", _SET_NO_NEW_PRIVS, 1)
    header, nothing = struct.pack("=Ii", 0x20080522, 0), bytes(24)
    _system_call("dropping capabilities", _CAPSET, header, nothing)


def forget_keys() -> None:
    """Leave the grader's keyring behind; a kernel without keyrings has nothing to leave."""
    with contextlib.suppress(Refused):
        _system_call("a keyring of its own", _KEYCTL, 1, None)


def filter_calls(program: bytes) -> None:
    """Have the kernel ask a filter about each call of this process and of all that it starts, after `drop_privileges`."""
    lines = ctypes.create_string_buffer(program)
    header = struct.pack("=H6xQ", len(program) // 8, ctypes.addressof(lines))
    set_filter, as_fast_as_before = ctypes.c_ulong(1), ctypes.c_ulong(4)
    _system_call("a filter for system calls", _SECCOMP, set_filter, as_fast_as_before, header)


def hide_memory(hidden: bool) -> None:
    """Let no process of the same user look into this one, or change it (ptrace, /proc/PID/mem)."""
    _prctl("hiding memory", _SET_DUMPABLE, 0 if hidden else 1)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends (Linux)."""
    if _libc is not None:
        _prctl("adopting orphans", _SET_CHILD_SUBREAPER, 1)


def signal_when_parent_ends(number: int) -> None:
    """Have the kernel send this process a signal when the thread that started it ends (Linux)."""
    if _libc is not None:
        _prctl("a signal at the parent's end", _SET_PDEATHSIG, number)


def close_all_but(kept: list[int]) -> None:
    """Close every descriptor but these and 0, 1 and 2."""
    low = 3
    for descriptor in [*sorted(kept), os.sysconf("SC_OPEN_MAX")]:
        os.closerange(low, descriptor)
        low = descriptor + 1


def _prctl(what: str, option: int, value: int) -> None:
    zero = ctypes.c_ulong(0)
    _call(what, "prctl", option, ctypes.c_ulong(value), zero, zero, zero)
