"""Ray's records of a sandbox, read by a process that never ran a line of the submission.

The nursery forks the reader; it enters the sandbox's namespaces as the learner's user, connects to the control store with the
sandbox's token, and reads protobuf messages: no `ray.init`, nothing unpickled. All that it reads belongs to the submission, and
so may refuse points, but not be the only reason to give them.
"""

import os
import signal
import socket
import time
from typing import Any, NoReturn

from coursekit import wire
from coursekit.failure import describe
from coursekit.sandbox import jail, limits, namespaces

OPERATIONS = ("tasks", "objects", "actors", "nodes", "stores")
SECONDS = 40  # a reader that takes longer is ended
_LIMITS = {"RLIMIT_CORE": 0, "RLIMIT_NOFILE": 4096, "RLIMIT_CPU": SECONDS, "RLIMIT_DATA": 4 * 2**30}


def place() -> dict:
    """Return, in the learner's process, where its Ray is, and a mark on what it has launched so far; {} without a Ray."""
    import ray
    from ray._private.worker import global_worker

    from coursekit import records

    if not ray.is_initialized():
        return {}
    launched = records._Launched()
    mark = {"job": launched.job, "task": launched._own_task, "marked": launched._marked}
    return {"address": global_worker.gcs_client.address, **mark}


def read(opened: list[int], request: dict, reply: socket.socket) -> NoReturn:
    """Be the reader: enter a sandbox's namespaces, answer one request, and end."""
    try:
        _enter(opened, request["user"])
        data = wire.encode({"value": _records(request)})
    except BaseException as error:
        data = wire.encode({"raised": describe(error)})
    reply.sendall(data)
    os._exit(0)


def _enter(opened: list[int], user: int) -> None:
    """Become a process of the sandbox (of its PID namespace by birth), with no more rights than the learner's."""
    *shared, of_users = zip(opened, list(namespaces.KINDS.values())[1:], strict=True)
    signal.alarm(SECONDS)
    for namespace, kind in shared:
        namespaces.enter(namespace, kind)
    namespaces.become(user)
    namespaces.enter(*of_users)
    namespaces.become(jail.USER)
    namespaces.drop_privileges()
    namespaces.hide_memory(True)
    limits.impose(_LIMITS)


def _records(request: dict) -> list[dict]:
    """Return what the function of `coursekit.records` returns that has the operation's name."""
    from ray._private.state import state
    from ray._raylet import Config, GcsClientOptions  # type: ignore[attr-defined]

    from coursekit import records

    if not request["place"]:
        raise RuntimeError("Ray is not running in this process, so there are no records: call `ray.init()` first.")
    os.environ.update(request["environment"])
    Config.initialize("")
    address = str(request["place"]["address"])
    options = GcsClientOptions.create(address, None, allow_cluster_id_nil=True, fetch_cluster_id_if_nil=False)
    state._initialize_global_state(options)
    launched = _told(request["place"])
    records._Launched = lambda: launched  # type: ignore[assignment, misc]
    function: Any = getattr(records, request["operation"])
    found: list[dict] = function(**request["window"])
    return found


def _told(told: dict) -> Any:
    """Return what `records` wants to know of what was launched, as the learner's process told it."""
    from coursekit import records

    launched = object.__new__(records._Launched)
    launched.job, launched._own_task = bytes.fromhex(told["job"]), bytes.fromhex(told["task"])
    launched._marked = told["marked"]
    launched._count, launched._last_news, launched._done = 0, time.monotonic(), False
    launched._set_mark = lambda: None  # type: ignore[method-assign]  # only the learner's process can set one
    return launched
