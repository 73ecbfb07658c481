"""The nursery: a clean process that has imported once what submissions need, and forks a sandbox whenever the grader asks.

`python -m coursekit.grading.nursery FD`, where FD is its end of a socket pair. It lives in the jail itself, knows
nothing of seeds, expected values or submissions, and ends when the grader does.
"""

import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from coursekit.grading import init, inside, jail, namespaces, workers

_FURNISHED = namespaces.NEWNS | namespaces.NEWNET | namespaces.NEWIPC | namespaces.NEWUTS | namespaces.NEWCGROUP
MESSAGE_BYTES = 65_536


class Nursery:
    """Forks sandboxes and ends them, one request at a time."""

    def __init__(self, control: socket.socket, shell: Any, isolated: bool):
        self.control, self.shell, self.isolated = control, shell, isolated
        self.own_processes = os.open("/proc/self/ns/pid", os.O_RDONLY) if isolated else -1
        self.running: set[int] = set()  # process ids of the first processes of the sandboxes

    def serve(self) -> None:
        """Answer the grader's requests until it has gone."""
        while True:
            data, descriptors, _, _ = socket.recv_fds(self.control, MESSAGE_BYTES, 4)
            if not data:
                return
            request = json.loads(data)
            for descriptor in descriptors:
                os.set_inheritable(descriptor, False)
            try:
                reply = self.fork(request, descriptors) if request["op"] == "fork" else self.end(request["pid"])
            except OSError as error:
                reply = {"error": str(error)}
            for descriptor in descriptors:
                os.close(descriptor)
            self.control.sendall(json.dumps(reply).encode())

    def fork(self, request: dict, descriptors: list[int]) -> dict:
        """Start a sandbox with its three descriptors (messages, the line to its first process, output)."""
        if self.isolated:
            namespaces.unshare(namespaces.NEWPID)  # for the next child, which becomes the first of its namespace
        try:
            first = os.fork()
            if first == 0:
                _close_all_but(descriptors)
                _first(self.shell, request, descriptors, self.isolated)
        finally:
            if self.isolated:
                namespaces.enter(self.own_processes, namespaces.NEWPID)
        self.running.add(first)
        return {"pid": first}

    def end(self, pid: int) -> dict:
        """End a sandbox; return, once none of its processes is left, what they used."""
        if pid not in self.running:
            return {"error": f"there is no sandbox {pid}"}
        if self.isolated:
            os.kill(pid, signal.SIGKILL)  # the kernel ends all others of its PID namespace before this one is gone
        _, _, usage = os.wait4(pid, 0)
        self.running.discard(pid)
        return {"cpu_seconds": usage.ru_utime + usage.ru_stime, "largest_mb": usage.ru_maxrss / 1024}

    def end_all(self) -> None:
        """End every sandbox."""
        for pid in list(self.running):
            self.end(pid)


def _first(shell: Any, request: dict, descriptors: list[int], isolated: bool) -> NoReturn:
    """Be the first process of a sandbox: furnish it, wait for the grader's go, start the learner's process, watch it."""
    messages, grader, output = (
        socket.socket(fileno=descriptors[0]),
        socket.socket(fileno=descriptors[1]),
        descriptors[2],
    )
    listener = None
    try:
        init.ignore_signals()
        inside.limit(request["rlimits"])
        if isolated:
            _seclude(request)
            listener = workers.listen()
        else:
            os.setsid()
            namespaces.adopt_orphans()
        grader.sendall(json.dumps({"ready": os.getpid()}).encode() + b"\n")
        if grader.recv(1) != b"g":
            os._exit(0)
        learner = os.fork()
    except BaseException as error:
        grader.sendall(json.dumps({"error": str(error)}).encode() + b"\n")
        os._exit(1)
    if learner == 0:
        grader.close()
        if listener:
            listener.close()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if isolated:
            namespaces.hide_memory(False)  # tools look into their own process
        try:
            inside.live(shell, messages, output, request)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(70)
    messages.close()
    os.close(output)
    init.supervise(grader, learner, listener, (lambda: None) if isolated else init.end_descendants)


def _seclude(request: dict) -> None:
    """Put this process into namespaces of its own, as a user who owns nothing outside and has no privileges."""
    namespaces.become(request["user"])
    namespaces.unshare(_FURNISHED)
    jail.make_private(request["disk_mb"], request["shm_mb"])
    namespaces.hide_memory(False)  # changing the user has hidden it, and then /proc/self cannot be written
    namespaces.unshare(namespaces.NEWUSER)
    namespaces.map_ids("self", jail.USER, (request["user"], request["user"]))
    jail.forbid_namespaces()
    namespaces.drop_privileges()
    namespaces.hide_memory(True)


def _close_all_but(kept: list[int]) -> None:
    """Close every descriptor that a sandbox has no business with; 0, 1 and 2 are nothing here."""
    low = 3
    for descriptor in [*sorted(kept), os.sysconf("SC_OPEN_MAX")]:
        os.closerange(low, descriptor)
        low = descriptor + 1


def _in_namespaces(user: int, count: int) -> None:
    """Go on as the first process of new namespaces; the process that called waits outside until this one has ended."""
    map_users = _mapper(os.getpid(), user, count) if os.getuid() == 0 else None
    own = os.getuid(), os.getgid()
    namespaces.unshare(namespaces.NEWUSER | namespaces.NEWNS | namespaces.NEWPID)
    if map_users:
        map_users()
        os.setgroups([])
    else:
        namespaces.map_ids("self", user, own)
    inner = os.fork()
    if inner:
        _close_all_but([])
        _end_with_parent()
        os.waitpid(inner, 0)
        os._exit(0)


def _mapper(process: int, user: int, count: int) -> Callable[[], None]:
    """Return a function that has the user ids of `process` mapped by a helper, which stays outside to be allowed to."""
    ours, theirs = socket.socketpair()
    helper = os.fork()
    if helper == 0:
        theirs.recv(1)
        try:
            namespaces.map_ids(process, user, (user, user), count, groups=True)
        finally:
            os._exit(0)

    def map_now() -> None:
        with ours, theirs:
            ours.sendall(b"g")
            os.waitpid(helper, 0)

    return map_now


def _end_with_parent() -> None:
    """End at once when the parent has ended, even if another process holds a copy of its end of the line."""
    parent = os.getppid()

    def stop(*_: object) -> None:
        if os.getppid() != parent:  # the end of the thread that started this process sends the signal too
            os._exit(0)

    signal.signal(signal.SIGTERM, stop)
    namespaces.signal_when_parent_ends(signal.SIGTERM)
    stop()


def main(descriptor: int) -> None:
    """Enter the jail, import, serve."""
    control = socket.socket(fileno=descriptor)
    os.set_inheritable(descriptor, False)
    os.environ.pop("GLIBC_TUNABLES", None)  # meant for this process alone
    settings = json.loads(control.recv(MESSAGE_BYTES))
    try:
        if settings["isolated"]:
            _in_namespaces(settings["user"], settings["count"])
            jail.enter(settings["user"], settings["hidden"])
            namespaces.signal_when_parent_ends(signal.SIGKILL)
        else:
            _end_with_parent()
        shell = inside.prepare() if settings["imports"] else None
    except BaseException as error:
        control.sendall(json.dumps({"error": f"{type(error).__name__}: {error}"}).encode())
        return
    sys.stdout.flush()
    control.sendall(b'{"ready": true}')
    nursery = Nursery(control, shell, settings["isolated"])
    try:
        nursery.serve()
    finally:
        nursery.end_all()


if __name__ == "__main__":
    main(int(sys.argv[1]))
