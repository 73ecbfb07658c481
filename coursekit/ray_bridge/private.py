"""Every private name of Ray that the course uses, in one table, looked up when it is used: who moves to another Ray looks here.

`private.global_worker` is what `ray._private.worker.global_worker` is at that moment. A test looks up all of them.
"""

from importlib import import_module
from typing import Any

NAMES = {
    "ActorHandle": "ray.actor.ActorHandle",  # for its `_actor_method_call`
    "ASGIAppReplicaWrapper": "ray.serve._private.http_util.ASGIAppReplicaWrapper",
    "BASE_READONLY_CONFIG": "ray.autoscaler._private.monitor.BASE_READONLY_CONFIG",
    "Config": "ray._raylet.Config",
    "ENABLE_RAY_CLUSTERS_ENV_VAR": "ray._private.ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR",
    "GcsClientOptions": "ray._raylet.GcsClientOptions",
    "SSHCommandRunner": "ray.autoscaler._private.command_runner.SSHCommandRunner",
    "StorageContext": "ray.train._internal.storage.StorageContext",
    "TrainingResult": "ray.train._internal.session._TrainingResult",
    "autoscaler_commands": "ray.autoscaler._private.commands",
    "autoscaler_util": "ray.autoscaler._private.util",
    "cli_logger": "ray.autoscaler._private.cli_logger.cli_logger",
    "common_pb2": "ray.core.generated.common_pb2",
    "gcs_pb2": "ray.core.generated.gcs_pb2",
    "get_global_client": "ray.serve.context._get_global_client",
    "global_node": "ray._private.worker._global_node",
    "global_worker": "ray._private.worker.global_worker",
    "kv_get": "ray.experimental.internal_kv._internal_kv_get",
    "kv_list": "ray.experimental.internal_kv._internal_kv_list",
    "kv_put": "ray.experimental.internal_kv._internal_kv_put",
    "node": "ray._private.node",
    "node_stats": "ray._private.internal_api.node_stats",
    "ray_constants": "ray._private.ray_constants",
    "ray_logging": "ray._private.ray_logging",
    "services": "ray._private.services",
    "state": "ray._private.state.state",
    "tokens": "ray._private.authentication.authentication_token_setup",
    "train_fn_utils": "ray.train.v2._internal.execution.train_fn_utils",
    "updater": "ray.autoscaler._private.updater",
    "utils": "ray._private.utils",
    "worker": "ray._private.worker",
}
# The modules that a Ray imports when it starts: its driver, its agent for runtime environments, and each of its workers again.
AT_START = [
    "pyarrow.json",
    "pydantic.v1.main",
    "ray._common.pydantic_compat",
    "ray._common.usage.usage_lib",
    "ray._private.arrow_serialization",
    "ray._private.runtime_env.agent.runtime_env_agent",
    "ray._private.runtime_env.uv_runtime_env_hook",
    "ray._private.thirdparty.pynvml",
    "ray.dashboard.optional_deps",
    "starlette.datastructures",
]


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"{name!r} is none of the private names of Ray that stand in this module's table.")
    owner, _, last = NAMES[name].rpartition(".")
    found = import_module(owner)
    return getattr(found, last) if hasattr(found, last) else import_module(NAMES[name])


def actor_id(actor: Any) -> str:
    """Return the id of an actor, as Ray's records have it."""
    found: str = actor._actor_id.hex()
    return found
