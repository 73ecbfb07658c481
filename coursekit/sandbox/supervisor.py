"""The first process of a sandbox: it starts the learner's process and watches it; when it ends, the kernel ends all others."""

import contextlib
import json
import os
import select
import signal
import socket
from collections.abc import Callable
from typing import Any, NoReturn

from coursekit.sandbox import ray_workers

IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE, signal.SIGUSR1, signal.SIGUSR2)


def supervise(
    grader: socket.socket, learner: int, listener: socket.socket | None, clean_up: Callable[[], None]
) -> NoReturn:
    """Return never: tell the grader how the learner's process ended, or stop when the grader has closed the line."""
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    watched: list[Any] = [grader, woken, *([listener] if listener else [])]
    ended = _reap(learner)  # it may have ended before the handler stood
    while not ended:
        ready, _, _ = select.select(watched, [], [])
        if woken in ready:
            os.read(woken, 4096)
            ended = _reap(learner)
        if listener and listener in ready:
            ray_workers.accept(listener)
        if grader in ready and not ended:
            order = grader.recv(1)
            if order != b"i":
                break
            os.kill(learner, signal.SIGINT)
    if ended:
        with contextlib.suppress(OSError):  # the learner's process may have ended because the grader closed the line
            grader.sendall(json.dumps(ended).encode() + b"\n")
    clean_up()
    os._exit(0)


def end_descendants() -> None:
    """End all that the learner's process started, where no PID namespace does it."""
    import psutil

    while children := psutil.Process().children(recursive=True):
        for child in children:
            with contextlib.suppress(psutil.Error):
                child.kill()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, 0):
                pass


def ignore_signals() -> None:
    """Let no signal from inside end or stop this process (the kernel itself keeps SIGKILL and SIGSTOP from the first one)."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)


def _reap(learner: int) -> dict:
    """Collect every ended process; return how the learner's ended or stopped, {} while it runs."""
    ended, pid = {}, -1
    with contextlib.suppress(ChildProcessError):  # none is left
        while pid:
            pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            if pid == learner:
                ended = _words(status)
    return ended


def _words(status: int) -> dict:
    if os.WIFSTOPPED(status):
        return {"stopped": os.WSTOPSIG(status)}
    if os.WIFSIGNALED(status):
        return {"signal": os.WTERMSIG(status)}
    return {"exit": os.WEXITSTATUS(status)}
