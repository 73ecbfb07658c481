"""The functions of Ray that the course replaces: each in this module alone, and once, however often it is asked for."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from coursekit.ray_bridge import private

START_SECONDS = 120  # for a node of a cluster; Ray itself gives up after 30
# The command of a process of Ray's, what kind it is → the changed command.
Change = Callable[[list[str], str], list[str]]
_changes: dict[str, Change] = {}


def replace(owner: Any, name: str, make: Callable[[Callable], Callable]) -> None:
    """Replace a function of Ray's by what `make` returns for the original; what stands there already stays."""
    original = getattr(owner, name)
    if getattr(original, "_made_by", None) == make.__qualname__:
        return
    replacement = make(original)
    replacement._made_by = make.__qualname__  # type: ignore[attr-defined]
    setattr(owner, name, replacement)


def change_commands(by: str, change: Change) -> None:
    """Have each command with which this process starts one of Ray's own go through `change`; one change for each name `by`."""
    _changes[by] = change
    replace(private.services, "start_ray_process", _changed)


def _changed(original: Callable) -> Callable:
    def start_ray_process(command: list[str], process_type: str, *args: Any, **kwargs: Any) -> Any:
        for change in _changes.values():
            command = change(command, process_type)
        return original(command, process_type, *args, **kwargs)

    return start_ray_process


def silent(original: Callable) -> Callable:
    """Return Ray's function that connects to a cluster, with a silent C++ core.

    The core writes its errors to the process's stderr, past Python: one for every algorithm of RLlib ("constructor arguments
    in the object store"). What goes wrong for the reader comes as an exception. It also writes its stack when a SIGTERM ends the
    process, as JupyterLab does with a kernel that takes long to stop: that signal gets its usual effect back.
    """

    def connect(*args: Any, **kwargs: Any) -> Any:
        if "RAY_BACKEND_LOG_LEVEL" in os.environ:
            return original(*args, **kwargs)
        stderr, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)  # the core announces its level there
        os.environ["RAY_BACKEND_LOG_LEVEL"] = "fatal"  # the cluster's own processes have started: they log as ever
        try:
            return original(*args, **kwargs)
        finally:
            del os.environ["RAY_BACKEND_LOG_LEVEL"]
            os.dup2(stderr, 2)
            os.close(stderr)
            os.close(nowhere)
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, signal.SIG_DFL)

    return connect


def patient(original: Callable) -> Callable:
    """Return Ray's function that waits for a node of a cluster that starts, and waits longer."""

    def get_node(*args: Any) -> Any:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                return original(*args)
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.1)

    return get_node


@contextmanager
def noted_actor_calls(what: Callable[[Any, str, list], Any]) -> Iterator[list]:
    """Yield a list that grows by `what(actor, method, arguments)`, at the moment of the call, for each call of an actor in the block."""
    calls: list[Any] = []
    original = private.ActorHandle._actor_method_call

    def note(handle: Any, method: str, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        calls.append(what(handle, method, [*(args or []), *(kwargs or {}).values()]))
        return original(handle, method, args, kwargs, **options)

    private.ActorHandle._actor_method_call = note
    try:
        yield calls
    finally:
        private.ActorHandle._actor_method_call = original
