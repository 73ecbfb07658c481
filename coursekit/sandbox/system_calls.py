"""Which calls a sandbox may not make: those that lead past its namespaces, as a filter of the kernel's (seccomp).

A network namespace knows nothing of some kinds of sockets (AF_VSOCK leads to the host of a virtual machine), and some parts of
the kernel, which no chapter needs, are where most holes were found. What is refused looks like a kernel that lacks it.
"""

import errno
import os
import socket
import struct

from coursekit.sandbox import namespaces

FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, getattr(socket, "AF_NETLINK", 16))
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # of the filter's little machine
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16  # where a filter finds them
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_X32 = 0x40000000  # from here on x86-64 has a second set of numbers
_NAMES = ("add_key", "request_key", "keyctl", "perf_event_open", "bpf", "userfaultfd")
_CALLS = {"x86_64": (248, 249, 250, 298, 321, 323), "aarch64": (217, 218, 219, 241, 280, 282)}
_EVERYWHERE = {"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427}
_SOCKET_CALLS = {"x86_64": (41, 53), "aarch64": (198, 199)}  # socket, socketpair
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


def refused() -> dict[str, int]:
    """Return the numbers of the calls that no program in a sandbox can make, {} on a kind of machine that is not known."""
    calls = _CALLS.get(os.uname().machine)
    return dict(zip(_NAMES, calls, strict=True)) | _EVERYWHERE if calls else {}


def restrict() -> None:
    """Refuse them to this process and all that it starts, for good; a kernel without filters refuses nothing."""
    if not refused():
        return
    try:
        namespaces.filter_calls(_program(os.uname().machine))
    except namespaces.Refused as error:
        if error.errno not in (errno.ENOSYS, errno.EINVAL):
            raise


def _program(machine: str) -> bytes:
    """Return the filter: each test is followed by what is returned where it holds."""
    missing = _FAIL | errno.ENOSYS
    lines = [(_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, _ARCHITECTURES[machine]), (_RETURN, 0, 0, missing)]
    lines += [(_LOAD, 0, 0, _NUMBER)]
    lines += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, missing)]
    for number in refused().values():
        lines += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, missing)]
    for number, behind in zip(_SOCKET_CALLS[machine], (2, 1), strict=True):
        lines += [(_EQUAL, behind, 0, number)]
    lines += [(_RETURN, 0, 0, _ALLOW), (_LOAD, 0, 0, _FIRST_ARGUMENT)]
    for family in FAMILIES:
        lines += [(_EQUAL, 0, 1, int(family)), (_RETURN, 0, 0, _ALLOW)]
    lines += [(_RETURN, 0, 0, _FAIL | errno.EAFNOSUPPORT)]
    return b"".join(struct.pack("=HBBI", *line) for line in lines)
