"""Ray's messages about tasks, actors, nodes and objects, turned into plain dicts (what `coursekit.ray_bridge.records` returns)."""

import re
from typing import Any

from coursekit.ray_bridge import private

_KINDS = ("task", "actor_creation", "actor_call")  # by Ray's number of the type of a task
_DRIVER = private.common_pb2.TaskType.Value("DRIVER_TASK")
_STATES = ("PENDING_ARGS_AVAIL", "SUBMITTED_TO_WORKER", "RUNNING", "FINISHED", "FAILED")
_CREATED, _SUBMITTED, _RUNNING, _FINISHED, _FAILED = map(private.common_pb2.TaskStatus.Value, _STATES)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def created(event: Any) -> float:
    """Return when the task was created, 0.0 where its creation is not on record (or it is the driver)."""
    return event.state_updates.state_ts_ns.get(_CREATED, 0) / 1e9


def lacks_creation(event: Any, since: float) -> bool:
    """Return whether a worker has reported a task that ran after `since`, and its creator has not."""
    times = event.state_updates.state_ts_ns
    if _CREATED in times or not times or event.task_info.type == _DRIVER:
        return False
    return min(times.values()) / 1e9 >= since


def has_ended(event: Any) -> bool:
    """Return whether the creator has reported the end of the task."""
    times = event.state_updates.state_ts_ns
    return _FINISHED in times or _FAILED in times


def ran_to_its_end(event: Any) -> bool:
    """Return whether a worker ran the function until it returned or raised."""
    if _FINISHED in event.state_updates.state_ts_ns:
        return True
    return event.state_updates.error_info.error_type == private.common_pb2.TASK_EXECUTION_EXCEPTION


def span(event: Any) -> tuple[float | None, float | None]:
    """Return when the worker had the arguments and began, and when the result was stored, each by the worker's own clock.

    Not `task:execute`: in an async actor Ray files those events under another call.
    """
    times = {
        each.event_name: each.end_time / 1e9 for each in event.profile_events.events if each.event_name[:4] == "task"
    }
    running = event.state_updates.state_ts_ns.get(_RUNNING, 0) / 1e9
    ended = next((end for name, end in times.items() if name.startswith("task::")), None)
    return times.get("task:deserialize_arguments") or running or None, ended


def task(event: Any, workers: dict[bytes, dict]) -> dict:
    """Return the dict that `coursekit.ray_bridge.records.tasks` describes."""
    info, seen = event.task_info, event.state_updates
    worker_id = seen.worker_id or (event.profile_events.component_id if info.type != _DRIVER else b"")
    worker = workers.get(worker_id, {})
    started, reported_end = span(event)
    last = max(_FINISHED, _FAILED, key=lambda status: seen.state_ts_ns.get(status, 0))
    ended = (reported_end or seen.state_ts_ns[last] / 1e9) if has_ended(event) else None
    status = last if has_ended(event) else max(seen.state_ts_ns, key=seen.state_ts_ns.get)
    failed = seen.HasField("error_info")
    return {
        "name": info.func_or_class_name,
        "kind": _KINDS[info.type],
        "task_id": event.task_id.hex(),
        "attempt": event.attempt_number,
        "parent_task_id": info.parent_task_id.hex() or None,
        "actor_id": info.actor_id.hex() or None,
        "job_id": event.job_id.hex(),
        "node_id": seen.node_id.hex() or worker.get("node_id"),
        "worker_id": worker_id.hex() or None,
        "worker_pid": seen.worker_pid or worker.get("pid"),
        "state": private.common_pb2.TaskStatus.Name(status),
        "created": created(event),
        "submitted": seen.state_ts_ns.get(_SUBMITTED, 0) / 1e9 or None,
        "started": started,
        "ended": ended,
        "error": private.common_pb2.ErrorType.Name(seen.error_info.error_type) if failed else None,
        "error_message": _COLOUR.sub("", seen.error_info.error_message) if failed else None,
        "resources": dict(info.required_resources),
        "placement_group": info.placement_group_id.hex() or None,
    }


def actor(row: Any) -> dict:
    """Return the dict that `coursekit.ray_bridge.records.actors` describes."""
    return {
        "actor_id": row.actor_id.hex(),
        "class_name": row.class_name,
        "name": row.name or None,
        "namespace": row.ray_namespace or None,
        "state": private.gcs_pb2.ActorTableData.ActorState.Name(row.state),
        "pid": row.pid or None,
        "node_id": row.address.node_id.hex() or row.node_id.hex() or None,
        "worker_id": row.address.worker_id.hex() or None,
        "restarts": row.num_restarts,
        "max_restarts": row.max_restarts,
        "detached": row.is_detached,
        "resources": dict(row.required_resources),
        "placement_group": row.placement_group_id.hex() or None,
        "job_id": row.job_id.hex(),
        "started": row.start_time / 1e3 or None,
        "ended": row.end_time / 1e3 or None,
        "death": _death(row.death_cause),
    }


def _death(cause: Any) -> str | None:
    """Return Ray's sentence on why an actor died, or the text of the exception in its `__init__`."""
    kind = cause.WhichOneof("context")
    if kind is None:
        return None
    context = getattr(cause, kind)
    text = context.formatted_exception_string if kind == "creation_task_failure_context" else context.error_message
    return _COLOUR.sub("", text)


def node(row: dict) -> dict:
    """Return the dict that `coursekit.ray_bridge.records.nodes` describes."""
    return {
        "node_id": row["NodeID"],
        "alive": row["Alive"],
        "state": "ALIVE" if row["Alive"] else "DEAD",
        "head": "node:__internal_head__" in row["Resources"],
        "name": row["NodeName"],
        "address": row["NodeManagerAddress"],
        "resources": dict(row["Resources"]),
        "labels": dict(row["Labels"]),
        "death": row["DeathReasonMessage"] or None,
    }


def worker(row: Any, living_nodes: set[str]) -> dict:
    """Return `pid`, `node_id` and `alive` of a worker process."""
    node_id = row.worker_address.node_id.hex()
    return {"pid": row.pid, "node_id": node_id, "alive": row.is_alive and node_id in living_nodes}


def reference(node_id: str, process: Any, row: Any) -> dict:
    """Return the dict that `coursekit.ray_bridge.records.objects` describes."""
    return {
        "object_id": row.object_id.hex(),
        "size": row.object_size if row.object_size >= 0 else None,
        "kind": _kind_of_reference(row),
        "node_id": node_id,
        "worker_id": process.worker_id.hex(),
        "pid": process.pid,
        "role": private.common_pb2.WorkerType.Name(process.worker_type).lower(),
    }


def _kind_of_reference(row: Any) -> str:
    if row.pinned_in_memory:
        return "pinned"
    if row.submitted_task_ref_count:
        return "used_by_task"
    return "local" if row.local_ref_count else "captured"


def store(node_id: str, stats: Any) -> dict:
    """Return the dict that `coursekit.ray_bridge.records.stores` describes."""
    return {
        "node_id": node_id,
        "objects": stats.num_local_objects,
        "bytes": stats.object_store_bytes_used,
        "capacity": stats.object_store_bytes_avail,
        "created_objects": stats.cumulative_created_objects,
        "created_bytes": stats.cumulative_created_bytes,
        "spilled_objects": stats.spilled_objects_total,
        "spilled_bytes": stats.spilled_bytes_total,
        "restored_objects": stats.restored_objects_total,
    }
