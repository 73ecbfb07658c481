"""A nursery's process: clean, it has imported once what submissions need, and forks a sandbox whenever the grader asks.

`python -m coursekit.sandbox.fork_server FD`, where FD is its end of a socket pair. It lives in the jail itself, knows
nothing of seeds, expected values or submissions, and ends when the grader does.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from importlib import import_module

from coursekit.sandbox import jail, namespaces


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
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        _end_with_parent()
        os.waitpid(inner, 0)
        os._exit(0)


def _mapper(process: int, user: int, count: int) -> Callable[[], None]:
    """Return a function that has the user ids of `process` mapped by a helper, which stays outside to be allowed to."""
    ours, theirs = socket.socketpair()
    helper = os.fork()
    if helper == 0:
        ours.close()  # so that the end of its parent ends the wait, too
        try:
            if theirs.recv(1):
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
    line, _, known = control.recv(65_536).partition(b"\n")
    settings = json.loads(line)
    try:
        if settings["isolated"]:
            namespaces.forget_keys()
            _in_namespaces(settings["user"], settings["count"])
        # These start threads, and then nobody may make namespaces.
        from coursekit.sandbox import forks, learner_process, ray_workers

        kernel = [] if settings["imports"] == "none" else ["coursekit.sandbox.kernel_shell"]
        for module in [*learner_process.PUBLIC, *kernel, *settings["modules"]]:  # before the jail hides them
            import_module(module)
        if settings["isolated"]:
            jail.enter(settings["user"], settings["hidden"])
            namespaces.signal_when_parent_ends(signal.SIGKILL)
        else:
            _end_with_parent()
        imports = settings["imports"]
        if imports == "later":
            learner_process.begin()
            imports = (known or control.recv(64)).decode()
        if imports in ("ray", "all"):
            ray_workers.draw_own_ids()
        shell = learner_process.prepare(imports)
        for name in settings["at_start"]:  # meant for this process alone
            os.environ.pop(name, None)
    except BaseException as error:
        reason = str(error) if isinstance(error, namespaces.Refused) else f"{type(error).__name__}: {error}"
        control.sendall(json.dumps({"error": reason}).encode())
        return
    sys.stdout.flush()
    control.sendall(b'{"ready": true}')
    forker = forks.Forker(control, shell, settings["isolated"])
    try:
        forker.serve()
    finally:
        forker.end_all()
        os._exit(0)  # whatever the imported libraries would still like to do


if __name__ == "__main__":
    main(int(sys.argv[1]))
