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

from coursekit.grading import init, inside, jail, namespaces

_ALL = (
    namespaces.NEWUSER
    | namespaces.NEWNS
    | namespaces.NEWPID
    | namespaces.NEWNET
    | namespaces.NEWIPC
    | namespaces.NEWUTS
    | namespaces.NEWCGROUP
)
MESSAGE_BYTES = 65_536
_UNSHARED = b"unshared"


class Nursery:
    """Forks sandboxes and ends them, one request at a time."""

    def __init__(self, control: socket.socket, isolated: bool):
        self.control, self.isolated = control, isolated
        self.shell: Any = None
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
        ours, theirs = socket.socketpair()
        between = os.fork()
        if between == 0:
            _close_all_but([theirs.fileno(), *descriptors])
            _in_between(self.shell, theirs, request, descriptors, self.isolated)
        theirs.close()
        with ours:
            answer = ours.recv(MESSAGE_BYTES)
            if answer == _UNSHARED:  # who it is in its namespaces, only its parent may say
                namespaces.map_ids(between, jail.USER, (request["user"], request["user"]))
                ours.sendall(b"g")
                answer = ours.recv(MESSAGE_BYTES)
        os.waitpid(between, 0)
        reply: dict = json.loads(answer or b'{"error": "its process ended at the start"}')
        if "pid" in reply:
            self.running.add(reply["pid"])
        return reply

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


def _in_between(shell: Any, nursery: socket.socket, request: dict, descriptors: list[int], isolated: bool) -> NoReturn:
    """Make the namespaces, start the first process in them and leave: only a child is inside a new PID namespace."""
    try:
        if isolated:
            namespaces.unshare(_ALL)
            nursery.sendall(_UNSHARED)
            nursery.recv(1)
        first = os.fork()
        if first == 0:
            nursery.close()
            _first(shell, request, descriptors, isolated)
        nursery.sendall(json.dumps({"pid": first}).encode())
    except BaseException as error:
        nursery.sendall(json.dumps({"error": str(error)}).encode())
    os._exit(0)


def _first(shell: Any, request: dict, descriptors: list[int], isolated: bool) -> NoReturn:
    """Be the first process of a sandbox: furnish it, wait for the grader's go, start the learner's process, watch it."""
    messages, grader, output = socket.socket(fileno=descriptors[0]), socket.socket(fileno=descriptors[1]), descriptors[2]
    try:
        init.ignore_signals()
        if isolated:
            namespaces.become(jail.USER)
            jail.make_private(request["disk_mb"], request["shm_mb"])
            namespaces.drop_privileges()
            namespaces.hide_memory(True)
        else:
            os.setsid()
            namespaces.adopt_orphans()
        grader.sendall(b'{"ready": true}\n')
        if grader.recv(1) != b"g":
            os._exit(0)
        learner = os.fork()
    except BaseException as error:
        grader.sendall(json.dumps({"error": str(error)}).encode() + b"\n")
        os._exit(1)
    if learner == 0:
        grader.close()
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
    init.supervise(grader, learner, (lambda: None) if isolated else init.end_descendants)


def _close_all_but(kept: list[int]) -> None:
    """Close every descriptor that a sandbox has no business with; 0, 1 and 2 are nothing here."""
    low = 3
    for descriptor in [*sorted(kept), os.sysconf("SC_OPEN_MAX")]:
        os.closerange(low, descriptor)
        low = descriptor + 1


def _enter_jail(user: int, count: int, hidden: list[str]) -> None:
    """Move this process into namespaces and a root of its own, as a user who owns nothing outside (root) or as itself."""
    helper = None
    if os.getuid() == 0:
        helper = _mapper(os.getpid(), user, count)
    namespaces.unshare(namespaces.NEWUSER | namespaces.NEWNS)
    if helper is None:
        namespaces.map_ids("self", user, (os.getuid(), os.getgid()))
    else:
        helper()
        os.setgroups([])
    jail.enter(user, hidden)
    namespaces.hide_memory(False)  # changing the user has hidden it, and then nobody may map users of a child
    os.chdir("/")


def _mapper(process: int, user: int, count: int) -> Callable[[], None]:
    """Return a function that has user ids of `process` mapped by a helper, which stays root outside to be allowed to."""
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


def _end_with_the_grader() -> None:
    """Stop when the grader has gone, even if another process holds a copy of its end of the line."""
    grader = os.getppid()

    def stop(*_: object) -> None:
        if os.getppid() != grader:  # a thread that ends sends the signal too
            raise SystemExit

    signal.signal(signal.SIGTERM, stop)
    namespaces.signal_when_parent_ends(signal.SIGTERM)
    stop()


def main(descriptor: int) -> None:
    """Enter the jail, import, serve."""
    control = socket.socket(fileno=descriptor)
    os.set_inheritable(descriptor, False)
    settings = json.loads(control.recv(MESSAGE_BYTES))
    nursery = Nursery(control, settings["isolated"])
    try:
        if nursery.isolated:
            _enter_jail(settings["user"], settings["count"], settings["hidden"])
        namespaces.adopt_orphans()
        nursery.shell = inside.prepare() if settings["imports"] else None
    except BaseException as error:
        control.sendall(json.dumps({"error": f"{type(error).__name__}: {error}"}).encode())
        return
    control.sendall(b'{"ready": true}')
    _end_with_the_grader()
    try:
        nursery.serve()
    finally:
        nursery.end_all()


if __name__ == "__main__":
    main(int(sys.argv[1]))
