"""Ray's own records of tasks, actors, nodes and objects, as plain data.

They are read from Ray's control store (GCS) over its GlobalStateAccessor: no dashboard is needed, and no limit of 100 rows
applies. The store keeps the last 100,000 tasks.

**When are the records of a window complete?** Each process sends its part at intervals (Ray's default: one second): the
process that launched a task says that it was created and that it ended, the worker says when it ran. `tasks` polls until

1. what this process launched is on record: it adds a stamp to its own events, which are sent in order, and waits for it;
2. every task of the window has ended;
3. the worker of every task that ran to its end has said so; what that task launched in turn was sent before.

So the children of every task on record are on record too. A worker that died sends nothing more: `tasks` does not wait for it. A
thread that Ray does not know cannot set a stamp: there, 1 becomes `QUIET` seconds without news.
"""

import contextlib
import time
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

from coursekit.ray_bridge import private, record_rows

QUIET = 2.5  # two and a half of Ray's default report intervals
FULL_REPORT = 5_000  # a report carries at most 10,000 events; after one that may have been full, more can follow
_STAMP = "coursekit:stamp"


def connect(address: str) -> None:
    """Have this process, which takes no part in a Ray, read the records of the one at this address."""
    private.Config.initialize("")  # it read the environment, which holds the token, at the import
    options = private.GcsClientOptions.create(address, None, allow_cluster_id_nil=True, fetch_cluster_id_if_nil=False)
    private.state._initialize_global_state(options)


class Window:
    """The time in which a `with window()` block runs, and Ray's records of it."""

    def __init__(self) -> None:
        self.since = time.time()
        self.until: float | None = None

    def tasks(self, wait: float = 15.0) -> list[dict]:
        """Return one dict for each task attempt that was created in the window (see `tasks`)."""
        return tasks(self.since, self.until, wait)


@contextlib.contextmanager
def window() -> Iterator[Window]:
    """Watch what Ray records while the block runs: `with window() as seen: ...`, then `seen.tasks()`."""
    seen = Window()
    try:
        yield seen
    finally:
        seen.until = time.time()


class Launched(NamedTuple):
    """What a process has launched: all of it is on record as soon as the stamp is that the process set after it."""

    job: bytes
    task: bytes  # the one that the process itself runs, whose events hold the stamp
    moment: int  # when the stamp was set, in nanoseconds

    @classmethod
    def so_far(cls) -> Self:
        """Return what this process has launched until now, with a stamp set."""
        moment, own = time.time_ns(), private.global_worker
        with own.core_worker.profile_event(_STAMP.encode()):
            pass
        return cls(own.current_job_id.binary(), own.current_task_id.binary(), moment)

    def has_arrived(self, own: list) -> bool:
        """Return whether the stamp is in these records of the process's own task."""
        events = (event for record in own for event in record.profile_events.events)
        return any(event.event_name == _STAMP and event.start_time >= self.moment for event in events)


def tasks(
    since: float | None = None, until: float | None = None, wait: float = 15.0, launched: Launched | None = None
) -> list[dict]:
    """Return one dict for each attempt of a task or actor call that this program created from `since` to `until`.

    Keys: `name` (the function; `Class.method` for an actor), `kind` ("task", "actor_creation" or "actor_call"), `task_id`, `attempt`
    (the first is 0), `parent_task_id`, `actor_id`, `job_id`, `node_id`, `worker_id`, `worker_pid`, `state` ("FINISHED",
    "FAILED", "RUNNING", "PENDING_…"), `created`, `submitted`, `started`, `ended`, `error` (Ray's name of the kind of error),
    `error_message`, `resources`, `placement_group`. Times are seconds since the epoch; from `started` to `ended` the worker
    ran the function and stored its result. Where the worker died before it said so, `ended` is when the caller's Ray noted it,
    a moment before or after the caller had the result. What is not known is None. Order: by creation. Waits, at most `wait`
    seconds, until the records are complete. A process that reads the records of another program is told what that one `launched`.
    """
    since, until, deadline = since or 0.0, until or time.time(), time.monotonic() + wait
    ray_state = _connected()
    news = _News(launched)
    while True:
        events = [event for event in ray_state._get_all_task_events() if event.job_id == news.launched.job]
        found = [event for event in events if since <= record_rows.created(event) <= until]
        workers = _workers(ray_state)
        complete = (
            news.complete(events)
            and not any(record_rows.lacks_creation(event, since) for event in events)
            and not any(_unsettled(event, workers) for event in found)
        )
        if complete or time.monotonic() >= deadline:
            return [record_rows.task(event, workers) for event in sorted(found, key=record_rows.created)]
        time.sleep(0.05)


def actors() -> list[dict]:
    """Return one dict for each actor that Ray knows of, dead ones too, in the order of their start.

    Keys: `actor_id`, `class_name`, `name`, `namespace`, `state` ("PENDING_CREATION", "ALIVE", "RESTARTING", "DEAD", …), `pid`,
    `node_id`, `worker_id`, `restarts`, `max_restarts` (-1: no limit), `detached`, `resources`, `placement_group`, `job_id`,
    `started`, `ended` (seconds since the epoch), `death` (why it died). What is not known is None.
    """
    table = _connected()._connect_and_get_accessor().get_actor_table(None, None)
    found = [record_rows.actor(private.gcs_pb2.ActorTableData.FromString(row)) for row in table]
    return sorted(found, key=lambda actor: actor["started"] or float("inf"))


def nodes() -> list[dict]:
    """Return one dict for each node of the cluster, dead ones too.

    Keys: `node_id`, `alive`, `state` ("ALIVE" or "DEAD"), `head`, `name`, `address`, `resources` (in all), `labels`, `death`.
    """
    return [record_rows.node(row) for row in _connected().node_table()]


def objects() -> list[dict]:
    """Return one dict for each reference that a process of the cluster holds to an object.

    Keys: `object_id`, `size` (bytes; None where unknown), `kind` ("pinned": the process works on the value where it lies in the
    store; "used_by_task": a task it launched takes it; "local": it holds the reference; "captured": another object holds
    it), `node_id`, `worker_id`, `pid`, `role` ("driver" or "worker"). To count copies, see `stores`.
    """
    return [
        record_rows.reference(node_id, worker, reference)
        for node_id, stats in _node_stats(include_references=True)
        for worker in stats.core_workers_stats
        for reference in worker.object_refs
    ]


def stores() -> list[dict]:
    """Return one dict for the object store of each living node.

    Keys: `node_id`, `objects` and `bytes` (now), `capacity` (bytes), `created_objects` and `created_bytes` (since its start: the
    difference of two readings counts the copies that were made), `spilled_objects`, `spilled_bytes`, `restored_objects`.
    """
    return [record_rows.store(node_id, stats.store_stats) for node_id, stats in _node_stats(include_references=False)]


class _News:
    """What each reading of the records adds, until all that was launched is on record."""

    def __init__(self, launched: Launched | None):
        self.launched, self._by_us = launched or Launched.so_far(), launched is None
        self._count, self._last_news, self._done = 0, time.monotonic(), False

    def complete(self, events: list) -> bool:
        """Return whether this reading, or one before it, had all."""
        count = sum(len(event.state_updates.state_ts_ns) for event in events)
        fresh, self._count = count - self._count, count
        if fresh:
            self._last_news = time.monotonic()
        own = [event for event in events if event.task_id == self.launched.task]
        if not own:
            return time.monotonic() - self._last_news > QUIET
        if self.launched.has_arrived(own):
            self._done = self._done or fresh < FULL_REPORT
            if self._by_us:
                self.launched = Launched.so_far()
        return self._done


def _unsettled(event: Any, workers: dict[bytes, dict]) -> bool:
    """Return whether more will come: the task has not ended, or a living worker has not yet said that it ran it."""
    if not record_rows.has_ended(event):
        return True
    return record_rows.ran_to_its_end(event) and not record_rows.span(event)[1] and _worker_lives(event, workers)


def _worker_lives(event: Any, workers: dict[bytes, dict]) -> bool:
    if event.state_updates.worker_id:
        return workers.get(event.state_updates.worker_id, {}).get("alive", False)
    actor_id = event.task_info.actor_id.hex()  # only a worker's own report on an actor's creation names the worker
    return any(each["actor_id"] == actor_id and each["state"] == "ALIVE" and not each["restarts"] for each in actors())


def _connected() -> Any:
    if private.state.gcs_options is None:
        raise RuntimeError("Ray is not running in this process, so there are no records: call `ray.init()` first.")
    return private.state


def _workers(ray_state: Any) -> dict[bytes, dict]:
    """Return `pid`, `node_id` and `alive` of every worker process by its id."""
    living = {node["NodeID"] for node in ray_state.node_table() if node["Alive"]}
    table = map(private.gcs_pb2.WorkerTableData.FromString, ray_state._connect_and_get_accessor().get_worker_table())
    return {row.worker_address.worker_id: record_rows.worker(row, living) for row in table}


def _node_stats(include_references: bool) -> Iterator[tuple[str, Any]]:
    """Return what each living node says of its own processes and store."""
    for node in _connected().node_table():
        if node["Alive"]:
            address, port = node["NodeManagerAddress"], node["NodeManagerPort"]
            yield node["NodeID"], private.node_stats(address, port, include_memory_info=include_references)
