"""Forking: the requests of the grader to its nursery, and what a new process does until it is a sandbox."""

import json
import os
import signal
import socket
import time
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from coursekit.sandbox import evidence, jail, learner_process, limits, namespaces, ray_workers, supervisor, system_calls

_FURNISHED = namespaces.NEWNS | namespaces.NEWNET | namespaces.NEWIPC | namespaces.NEWUTS | namespaces.NEWCGROUP
MESSAGE_BYTES = 65_536


class Forker:
    """Forks sandboxes and ends them, one request at a time."""

    def __init__(self, control: socket.socket, shell: Any, isolated: bool):
        self.control, self.shell, self.isolated = control, shell, isolated
        self.running: set[int] = set()  # process ids of the first processes of the sandboxes
        self.readers: set[int] = set()

    def serve(self) -> None:
        """Answer the grader's requests until it has gone."""
        while True:
            data, descriptors, _, _ = socket.recv_fds(self.control, MESSAGE_BYTES, 8)
            if not data:
                return
            request = json.loads(data)
            for descriptor in descriptors:
                os.set_inheritable(descriptor, False)
            try:
                reply = self._answer(request, descriptors)
            except OSError as error:
                reply = {"error": str(error)}
            for descriptor in descriptors:
                os.close(descriptor)
            self.control.sendall(json.dumps(reply).encode())

    def _answer(self, request: dict, descriptors: list[int]) -> dict:
        if request["op"] == "fork":
            return self.fork(request, descriptors)
        if request["op"] == "read":
            return self.read(request, descriptors)
        return self.end(request["pid"])

    def fork(self, request: dict, descriptors: list[int]) -> dict:
        """Start a sandbox with its three descriptors (messages, the line to its first process, output)."""
        first = _fork_into(lambda: namespaces.unshare(namespaces.NEWPID)) if self.isolated else os.fork()
        if first == 0:
            namespaces.close_all_but(descriptors)
            _first(self.shell, request, descriptors, self.isolated)
        self.running.add(first)
        return {"pid": first}

    def read(self, request: dict, descriptors: list[int]) -> dict:
        """Start a reader of Ray's records in a sandbox, given its namespaces; it replies to the grader itself."""
        grader, processes, *others = descriptors
        reader = _fork_into(lambda: namespaces.enter(processes, namespaces.NEWPID))
        if reader == 0:
            namespaces.close_all_but(descriptors)
            evidence.read(others, request, socket.socket(fileno=grader))
        self.readers.add(reader)
        return {"pid": reader}

    def end(self, pid: int) -> dict:
        """End a sandbox; return, once none of its processes is left, what they used."""
        if pid not in self.running:
            return {"error": f"there is no sandbox {pid}"}
        if self.isolated:
            os.kill(pid, signal.SIGKILL)  # the kernel ends all others of its PID namespace before this one is gone
        done = 0
        while not done:
            # A sandbox is gone when its readers are, too.
            self.readers -= {reader for reader in self.readers if os.waitpid(reader, os.WNOHANG)[0]}
            done, _, usage = os.wait4(pid, os.WNOHANG)
            time.sleep(0 if done else 0.001)
        self.running.discard(pid)
        return {"cpu_seconds": usage.ru_utime + usage.ru_stime, "largest_mb": usage.ru_maxrss / 1024}

    def end_all(self) -> None:
        """End every sandbox."""
        for pid in list(self.running):
            self.end(pid)


def _fork_into(enter: Callable[[], None]) -> int:
    """Fork, as `os.fork` does, into the PID namespace that `enter` enters.

    A copy of this process enters it, forks there and ends, which leaves its child to this process, the first of its own namespace.
    The nursery and the first process of a sandbox both have the number 1; if one forked the other, libraries that know a copy by its
    new number would take them for one process (filelock would refuse all further forks).
    """
    reading, writing = os.pipe()
    copy = os.fork()
    if copy == 0:
        return _fork_between(enter, writing)
    os.close(writing)
    os.waitpid(copy, 0)
    with open(reading, encoding="utf-8") as pipe:
        reply = json.loads(pipe.readline())
    if "error" in reply:
        raise OSError(reply["error"])
    return int(reply["pid"])


def _fork_between(enter: Callable[[], None], writing: int) -> int:
    """Be the copy: return 0 in its child; the copy itself says how it went, and ends."""
    try:
        enter()
        reply: dict = {"pid": os.fork()}
    except BaseException as error:
        reply = {"error": str(error)}
    if reply.get("pid") == 0:
        return 0
    os.write(writing, json.dumps(reply).encode() + b"\n")
    os._exit(0)


def _first(shell: Any, request: dict, descriptors: list[int], isolated: bool) -> NoReturn:
    """Be the first process of a sandbox: furnish it, wait for the grader's go, start the learner's process, watch it."""
    *lines, output = descriptors
    messages, grader = (socket.socket(fileno=line) for line in lines)
    listener, opened = None, list[int]()
    try:
        supervisor.ignore_signals()
        limits.impose(request["rlimits"])
        if isolated:
            opened = _seclude(request)
            listener = ray_workers.listen()
        else:
            os.setsid()
            namespaces.adopt_orphans()
        socket.send_fds(grader, [json.dumps({"ready": os.getpid()}).encode() + b"\n"], opened)
        for namespace in opened:
            os.close(namespace)
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
        for number in {signal.SIGCHLD, *supervisor.IGNORED} - {signal.SIGPIPE}:  # Python ignores that one everywhere
            signal.signal(number, signal.SIG_DFL)
        if isolated:
            namespaces.hide_memory(False)  # tools look into their own process
        try:
            learner_process.live(shell, messages, output, request)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(70)
    messages.close()
    os.close(output)
    supervisor.supervise(grader, learner, listener, (lambda: None) if isolated else supervisor.end_descendants)


def _seclude(request: dict) -> list[int]:
    """Put this process into namespaces of its own, as a user who owns nothing outside and has no privileges; return them."""
    namespaces.become(request["user"])
    namespaces.unshare(_FURNISHED)
    jail.make_private(request["disk_mb"], request["shm_mb"])
    namespaces.hide_memory(False)  # changing the user has hidden it, and then /proc/self cannot be written
    namespaces.unshare(namespaces.NEWUSER)
    namespaces.map_ids("self", jail.USER, (request["user"], request["user"]))
    jail.forbid_namespaces()
    namespaces.drop_privileges()
    system_calls.restrict()
    opened = namespaces.open_own()
    namespaces.hide_memory(True)
    return opened
