"""Several Ray nodes on one machine: started small, shown as tables, grown by Ray's own autoscaler, stopped to the last process."""

import contextlib
import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from unittest import mock

import psutil
import ray
import yaml  # type: ignore[import-untyped]
from ray.cluster_utils import Cluster

from coursekit.given.own_cluster import MARK, end_all, guarded_folder
from coursekit.ray_bridge import private, record_rows, records

if TYPE_CHECKING:
    from pandas import DataFrame

STORE = 100 * 2**20  # bytes of each node's object store
_WITHOUT = ("memory", "object_store_memory")  # every node here claims the whole machine's memory
_here: list[Cluster] = []


def small_cluster(**head: Any) -> Cluster:
    """Return a `Cluster` with a head node and nothing else; the one before it is ended.

    Unlike `Cluster(...)` it leaves no address behind: elsewhere on the machine, a plain `ray.init()` would join this cluster.
    """
    stop()
    with _environment(AUTOSCALER_UPDATE_INTERVAL_S="1"), mock.patch.object(private.utils, "write_ray_address"):
        options = {"node_name": "head", "include_dashboard": False, "object_store_memory": STORE}
        options["dashboard_port"] = None  # any: even without its page, the dashboard wants a port of its own
        cluster = Cluster(initialize_head=True, head_node_args=options | head)
    _here.append(cluster)
    return cluster


def stop() -> None:
    """Leave Ray, and end every process of the cluster that `small_cluster` has started."""
    ray.shutdown()
    while _here:
        _here.pop().shutdown()


def add_nodes(cluster: Cluster, **nodes: dict) -> None:
    """Add nodes by name, `add_nodes(cluster, west={"num_cpus": 2})`, and return once they are there; living ones stay."""
    living = {node["name"] for node in records.nodes() if node["alive"]}
    for name, options in nodes.items():
        if name not in living:
            cluster.add_node(wait=False, node_name=name, object_store_memory=STORE, **options)
    cluster.wait_for_nodes(60)


def remove_nodes(cluster: Cluster) -> None:
    """End every node that `add_nodes` has added."""
    for node in list(cluster.worker_nodes):
        cluster.remove_node(node)
    cluster.wait_for_nodes(60)


def kill(name: str) -> None:
    """Kill all processes of a node that `add_nodes` has added, without a warning."""
    (cluster,) = _here
    (gone,) = [node["node_id"] for node in records.nodes() if node["name"] == name and node["alive"]]
    (node,) = [node for node in cluster.worker_nodes if node.node_id == gone]
    (raylet,) = [psutil.Process(info.process.pid) for info in node.all_processes["raylet"]]
    raylet.suspend()  # it would notice that its agents are gone
    for process in raylet.children(recursive=True):
        process.kill()  # before the raylet: an agent that outlives it reports an error to every driver
    cluster.remove_node(node, allow_graceful=False)


def node_resources() -> "DataFrame":
    """Return a table of the live nodes: their labels, and how much of each resource is free."""
    from pandas import DataFrame

    time.sleep(0.5)  # a node reports what is free ten times a second
    free, table = private.state.available_resources_per_node(), {}
    for node in sorted(records.nodes(), key=lambda node: (not node["head"], node["name"])):
        if node["alive"]:
            labels = {name: value for name, value in node["labels"].items() if not name.startswith("ray.io/")}
            had = free.get(node["node_id"], {})
            table[node["name"]] = {"labels": _text(labels)} | {
                name: f"{had.get(name, 0):g} of {total:g}"
                for name, total in sorted(node["resources"].items())
                if name not in _WITHOUT and not name.startswith("node:") and "_group_" not in name
            }
    return DataFrame(table).T.fillna("–")


ledger = node_resources  # its name in notebooks of version 0.2


def unfinished(since: float = 0.0) -> list[dict]:
    """Return the tasks and actor calls of this program that were created after `since` and have not ended (see `records.tasks`)."""
    job = ray.get_runtime_context().get_job_id()
    events = [event for event in private.state._get_all_task_events() if event.job_id.hex() == job]
    open_ones = [
        record_rows.task(event, {})
        for event in events
        if record_rows.created(event) > since and not record_rows.has_ended(event)
    ]
    return sorted(open_ones, key=lambda task: task["created"])


def waiting(running: int = 0, seconds: float = 15) -> "DataFrame":
    """Return a table of the tasks that have not ended: the state of each, what it requests, and where it runs.

    With `running`, it first waits until this many of them run.
    """
    from pandas import DataFrame

    end = time.monotonic() + seconds
    time.sleep(1)  # processes report the states of tasks at intervals
    while sum(task["state"] == "RUNNING" for task in unfinished()) < running and time.monotonic() < end:
        time.sleep(0.2)
    names = {node["node_id"]: node["name"] for node in records.nodes()}
    columns = ["task", "state", "requests", "node"]
    lines = [
        (task["name"], task["state"], _text(task["resources"]), names.get(task["node_id"] or "", "–"))
        for task in unfinished()
    ]
    return DataFrame(lines, columns=columns)


def ray_status(until: str = "", seconds: float = 15) -> str:
    """Return what `ray status` prints in a terminal; waits, where told so, until a text is in it."""
    debug_status = private.autoscaler_commands.debug_status
    _internal_kv_get = private.kv_get

    end = time.monotonic() + seconds
    while True:
        parts = private.ray_constants.DEBUG_AUTOSCALING_STATUS, private.ray_constants.DEBUG_AUTOSCALING_ERROR
        text: str = debug_status(*map(_internal_kv_get, parts))
        if until in text or time.monotonic() > end:
            return text
        time.sleep(0.2)


@contextlib.contextmanager
def autoscaler(cluster: Cluster, settings: str) -> Iterator["Decisions"]:
    """Run Ray's autoscaler on the head node with these settings (YAML) while the block runs; end it and its nodes after.

    Ray's fake provider starts a raylet on this machine where a cloud's provider would rent a machine. These raylets
    outlive the process that started them: if this one is killed, the guard of the folder ends them.
    """
    config = _complete(cluster, yaml.safe_load(settings))
    with guarded_folder("autoscaler-") as folder:
        path, out, err = (os.path.join(folder, name) for name in ("cluster.yaml", "out.log", "err.log"))
        with open(path, "w", encoding="utf-8") as file:
            yaml.safe_dump(config, file)
        head = cluster.head_node
        with contextlib.suppress(KeyError):
            head.kill_monitor(check_alive=False)  # it has no settings: it only watches
        variables = {"RAY_FAKE_CLUSTER": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1"}
        with _environment(**variables, **{MARK: folder}):
            started = private.services.start_monitor(
                cluster.address, folder, out, err, autoscaling_config=path, fate_share=head.kernel_fate_share
            )
        try:
            yield Decisions(folder)
        finally:
            _end(started.process)
            with _environment(**variables), contextlib.suppress(AssertionError):
                head.start_monitor()


class Decisions:
    """What an autoscaler has decided so far, in its own words."""

    def __init__(self, folder: str):
        self._log = os.path.join(folder, "monitor.log")

    def lines(self) -> list[str]:
        """Return one line for each decision."""
        mark = private.ray_constants.LOG_PREFIX_EVENT_SUMMARY
        with open(self._log, encoding="utf-8", errors="replace") as file:
            return [line.partition(mark)[2].strip() for line in file if mark in line]


def follow(refs: list, launched: float, seconds: float = 240) -> "DataFrame":
    """Return a table of pending tasks, running tasks and extra nodes, five times a second, until tasks and nodes are gone.

    Its seconds count from `launched`, a reading of `time.monotonic()`. Raises TimeoutError when some are not gone after `seconds`.
    """
    from pandas import DataFrame

    table: list[tuple] = []
    start, left = time.monotonic(), [None]
    since = time.time() - 60
    nodes = 0
    while left or nodes:
        if time.monotonic() - start > seconds:
            raise TimeoutError(_waited(seconds, len(left), nodes, max((row[-1] for row in table), default=0)))
        _, left = ray.wait(refs, num_returns=len(refs), timeout=0.2)
        running = min(len(left), sum(task["state"] == "RUNNING" for task in unfinished(since)))
        nodes = sum(node["alive"] and not node["head"] for node in records.nodes())
        moment = time.monotonic() - launched
        table.append((moment, len(left) - running, running, nodes))
        time.sleep(0 if left else 0.2)
    return DataFrame(table, columns=["seconds", "pending tasks", "running tasks", "extra nodes"])


def _waited(seconds: float, tasks: int, nodes: int, most: int) -> str:
    came = f"{most} extra node{'s' * (most != 1)} came" if most else "No extra node came"
    return (
        f"{came} in {seconds:.0f} s; {tasks} of the tasks have not ended, and {nodes} extra nodes are still there. "
        f"Compare what the tasks ask for with the types of nodes in the autoscaler's settings. `ray status` says:\n{ray_status()}"
    )


@contextlib.contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Set variables for the processes that the block starts; what Ray sets meanwhile stays."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _complete(cluster: Cluster, settings: dict) -> dict:
    """Return settings with all that Ray's autoscaler asks for besides."""
    BASE_READONLY_CONFIG = private.BASE_READONLY_CONFIG

    (head,) = [node for node in records.nodes() if node["head"] and node["alive"]]
    provider = {
        "type": "fake_multinode",
        "gcs_address": cluster.address,
        "head_node_id": head["node_id"],
        "launch_multiple": True,
        "foreground_node_launch": True,  # else it counts before the launch is over, and launches one node too many
        "use_node_id_as_ip": True,  # all nodes share one address here
        "disable_node_updaters": True,  # nothing to install on a machine that is this one
        "disable_launch_config_check": True,
    }
    head_type = {"resources": {"CPU": head["resources"]["CPU"]}, "node_config": {}, "max_workers": 0}
    types = {"ray.head.default": head_type}
    for name, each in settings["available_node_types"].items():
        resources = {"object_store_memory": STORE} | each["resources"]
        types[name] = {"node_config": {}, "min_workers": 0} | each | {"resources": resources}
    usual = BASE_READONLY_CONFIG | {"idle_timeout_minutes": 5}  # with its 0 even a busy node is ended now and then
    return usual | settings | {"provider": provider, "available_node_types": types}


def _end(process: Any) -> None:
    """End an autoscaler and every node that it has started."""
    monitor = psutil.Process(process.pid)
    monitor.suspend()  # it starts no more nodes
    nodes = monitor.children(recursive=True)
    monitor.kill()  # a polite end would tell every driver that the autoscaler has failed
    process.wait()
    end_all(nodes)


def _text(values: dict) -> str:
    parts = (f"{name}: {value:g}" if isinstance(value, float) else f"{name}: {value}" for name, value in values.items())
    return ", ".join(parts) or "–"
