"""Ray's records of a sandbox, read by a process that never ran a line of the submission.

The nursery forks the reader; it enters the sandbox's namespaces as the learner's user, connects to the control store with the
sandbox's token, and reads protobuf messages: no `ray.init`, nothing unpickled. All that it reads belongs to the submission, and
so may refuse points, but not be the only reason to give them.
"""

import os
import signal
import socket
from typing import Any, NoReturn

from coursekit.judging import wire
from coursekit.judging.failure import describe
from coursekit.ray_bridge import private
from coursekit.sandbox import jail, limits, namespaces, system_calls

SECONDS = 40  # a reader that takes longer is ended
_LIMITS = {"RLIMIT_CORE": 0, "RLIMIT_NOFILE": 4096, "RLIMIT_CPU": SECONDS, "RLIMIT_DATA": 4 * 2**30}


def place() -> dict:
    """Return, in the learner's process, where its Ray is, and a stamp on what it has launched so far; {} without a Ray."""
    import ray

    from coursekit.ray_bridge import records

    if not ray.is_initialized():
        return {}
    return {"address": private.global_worker.gcs_client.address, **records.Launched.so_far()._asdict()}


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
    system_calls.restrict()  # what it reads comes from the submission
    namespaces.hide_memory(True)
    limits.impose(_LIMITS)


def _records(request: dict) -> list[dict]:
    """Return what the function of `coursekit.ray_bridge.records` returns that has the operation's name."""
    from coursekit.ray_bridge import records

    os.environ.update(request["environment"])
    place, arguments = request["place"], request["window"]
    if place:
        records.connect(place["address"])
    if place and request["operation"] == "tasks":
        job, task = bytes.fromhex(place["job"]), bytes.fromhex(place["task"])
        arguments["launched"] = records.Launched(job, task, place["moment"])
    function: Any = getattr(records, request["operation"])
    found: list[dict] = function(**arguments)
    return found
