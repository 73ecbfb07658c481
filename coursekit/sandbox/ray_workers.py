"""Ray's workers as copies of a process that has imported everything: 0.03 s of work instead of one second, or five with RLlib.

A raylet starts `STARTER` where it would start Python. That small program sends its command, environment and descriptors to
the first process of the sandbox, which forks a copy of itself that becomes the worker; the starter stays until the worker has
ended, and the worker ends with it.
"""

import array
import builtins
import contextlib
import fcntl
import itertools
import json
import os
import runpy
import signal
import socket
import sys
import traceback
from typing import NoReturn

from coursekit.ray_bridge import private
from coursekit.sandbox import namespaces

ADDRESS = "\0coursekit-workers"  # abstract: it exists in the sandbox's own network namespace alone
STARTER = "/run/start_worker.py"
_SOURCE = """
import _socket, os, struct, sys
command = sys.argv[1:]
line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
try:
    line.connect(ADDRESS)
except OSError:
    os.execv(command[0], command)
parts = [os.getcwd(), str(len(command)), *command, *(f"{k}={v}" for k, v in os.environ.items())]
data = "\\0".join(parts).encode("utf-8", "surrogateescape")
line.sendmsg([struct.pack("I", len(data))], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("3i", 0, 1, 2))])
line.sendall(data)
for descriptor in (0, 1, 2):
    os.close(descriptor)
line.settimeout(1)
parent, code = os.getppid(), b""
while os.getppid() == parent:
    try:
        code = line.recv(1)
        break
    except TimeoutError:
        pass
os._exit(code[0] if code else 1)
"""
# Ray reads these two once, when it is imported. The first job of a cluster has this number, and a worker asks its starter
# whether the raylet lives; it looks itself at process 1, which does.
AT_IMPORT = {"RAY_JOB_ID": "01000000", "RAY_RAYLET_PID": "1"}
_F_SETSIG = 10


def starter(address: str = ADDRESS) -> str:
    """Return the source of the program that asks for a copy at this address."""
    return _SOURCE.replace("ADDRESS", repr(address), 1)


def draw_own_ids() -> None:
    """Leave Ray's random numbers untouched by imports: its generator, once begun, goes on in every fork with the same numbers.

    Each `@ray.remote` above a class draws an id, so Ray's own modules do when they are imported. Forks would then give the
    same ids to what they make, and two workers that begin at one moment would both make the same object, of which one dies.
    """
    from ray import actor

    kind = actor.ActorClassID

    class Drawn:
        from_random = staticmethod(lambda: kind(os.urandom(kind.size())))

    actor.ActorClassID = Drawn


def listen(address: str = ADDRESS) -> socket.socket:
    """Return the socket at which starters ask for a worker."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(address)
    listener.listen(64)
    listener.setblocking(False)
    return listener


def accept(listener: socket.socket) -> None:
    """Fork a copy for the next starter; all that a stranger sends is read there."""
    with contextlib.suppress(OSError):
        connection, _ = listener.accept()
        with connection:
            if os.fork() == 0:
                namespaces.close_all_but([connection.fileno()])
                _run(connection)


def _run(connection: socket.socket) -> NoReturn:
    """Be the program that the starter was told to start."""
    code = 1
    try:
        folder, command, environment, descriptors = _receive(connection)
        _take_over(folder, environment, descriptors)
        _end_with(connection)
        if environment.get("RAY_JOB_ID", AT_IMPORT["RAY_JOB_ID"]) != AT_IMPORT["RAY_JOB_ID"]:
            os.execv(command[0], command)
        _run_script(list(itertools.dropwhile(lambda word: word.startswith("-"), command[1:])))
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        with contextlib.suppress(OSError):
            connection.send(bytes([code & 255]))
        os._exit(code)


def _receive(connection: socket.socket) -> tuple[str, list[str], dict[str, str], list[int]]:
    connection.settimeout(30)
    header, ancillary, _, _ = connection.recvmsg(4, socket.CMSG_SPACE(12))
    descriptors = array.array("i", ancillary[0][2])
    data, size = b"", int.from_bytes(header, sys.byteorder)
    while len(data) < size:
        data += connection.recv(size - len(data)) or sys.exit()
    folder, count, *parts = data.decode("utf-8", "surrogateescape").split("\0")
    variables = dict(part.split("=", 1) for part in parts[int(count) :])
    return folder, parts[: int(count)], variables, list(descriptors)


def _take_over(folder: str, environment: dict[str, str], descriptors: list[int]) -> None:
    """Become what a new process would be: the starter's folder, environment, output; no traces of the notebook's shell."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with contextlib.suppress(OSError):
            signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # as Python does at its start: a closed socket is an error, no end
        signal.signal(number, signal.SIG_IGN)
    os.setsid()
    namespaces.hide_memory(False)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for target, descriptor in enumerate(descriptors):
        os.dup2(descriptor, target)
        os.close(descriptor)
    private.Config.initialize("")  # read the environment again, as an import would
    _forget_shell()
    sys.modules["numpy"].random.seed()


def _forget_shell() -> None:
    from IPython.core.interactiveshell import InteractiveShell

    if InteractiveShell.initialized():
        type(InteractiveShell.instance()).clear_instance()
    for name in ("__IPYTHON__", "display", "get_ipython"):
        builtins.__dict__.pop(name, None)
    sys.displayhook, sys.excepthook = sys.__displayhook__, sys.__excepthook__


def _end_with(connection: socket.socket) -> None:
    """Have the kernel end this process when the starter has ended: what ends a worker from outside ends its starter."""
    connection.setblocking(True)
    descriptor = os.dup(connection.fileno())
    fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(descriptor, _F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_ASYNC)


def _run_script(arguments: list[str]) -> None:
    """Run a script of Ray's as `python SCRIPT ARGUMENTS` would."""
    if os.path.basename(arguments[0]) == "setup_worker.py":
        arguments = _set_up(arguments)
    _keep_to_cpus()
    sys.argv = arguments
    sys.path.insert(0, os.path.dirname(arguments[0]))
    runpy.run_path(arguments[0], run_name="__main__")


def _set_up(arguments: list[str]) -> list[str]:
    """Return what remains when Ray's setup of a worker is done; with a runtime environment, a new Python does it."""
    own = ("--serialized-runtime-env-context=", "--language=")
    context = next((part.removeprefix(own[0]) for part in arguments if part.startswith(own[0])), "{}")
    if any(json.loads(context or "{}").values()):
        os.execv(sys.executable, [sys.executable, *arguments])
    return [part for part in arguments[1:] if not part.startswith(own)]


def _keep_to_cpus() -> None:
    """Have a worker use as many threads as its task has CPUs; Ray sets a variable for that, which is read at the import."""
    original = private.utils.set_omp_num_threads_if_unset

    def set_threads() -> bool:
        done = original()
        if done and (torch := sys.modules.get("torch")):  # else it reads the variable when a task imports it
            torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        return bool(done)

    private.utils.set_omp_num_threads_if_unset = set_threads
