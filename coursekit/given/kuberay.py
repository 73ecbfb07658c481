"""KubeRay's RayCluster and RayJob, field by field: a table of what exists, and a check of a manifest against it.

The table holds every field of RayCluster and RayJob in KubeRay's API reference for `ray.io/v1`, as of one release
(https://github.com/ray-project/kuberay/blob/v1.6.2/docs/reference/api.md; what is required, and the conditions of a deletion rule,
as in ray-operator/apis/ray/v1/ there). Of Kubernetes' own types, pods and containers, only the common fields are here
(https://kubernetes.io/docs/reference/generated/kubernetes-api/v1.28/). Another release of KubeRay may know other fields.
"""

from collections.abc import Iterator
from typing import Any

RELEASE = "1.6.2"  # of KubeRay

# Type of a field: a JSON type, "map" (names to strings), the name of another table, or one of these in a list: "[Container]".
# A "!" marks a field without which the object is refused; "=a|b" lists the values allowed.
FIELDS: dict[str, dict[str, str]] = {
    "RayCluster": {
        "apiVersion": "=ray.io/v1!",
        "kind": "=RayCluster!",
        "metadata": "ObjectMeta!",
        "spec": "RayClusterSpec!",
    },
    "RayJob": {"apiVersion": "=ray.io/v1!", "kind": "=RayJob!", "metadata": "ObjectMeta!", "spec": "RayJobSpec!"},
    "RayClusterSpec": {
        "headGroupSpec": "HeadGroupSpec!",
        "workerGroupSpecs": "[WorkerGroupSpec]",
        "rayVersion": "string",
        "enableInTreeAutoscaling": "boolean",
        "autoscalerOptions": "AutoscalerOptions",
        "authOptions": "AuthOptions",
        "upgradeStrategy": "RayClusterUpgradeStrategy",
        "gcsFaultToleranceOptions": "GcsFaultToleranceOptions",
        "headServiceAnnotations": "map",
        "managedBy": "=ray.io/kuberay-operator|kueue.x-k8s.io/multikueue",
        "suspend": "boolean",
    },
    "HeadGroupSpec": {
        "template": "PodTemplateSpec!",
        "rayStartParams": "map",
        "serviceType": "=ClusterIP|NodePort|LoadBalancer",
        "headService": "object",
        "enableIngress": "boolean",
        "labels": "map",
        "resources": "map",
    },
    "WorkerGroupSpec": {
        "groupName": "string!",
        "template": "PodTemplateSpec!",
        "replicas": "integer",
        "minReplicas": "integer",
        "maxReplicas": "integer",
        "numOfHosts": "integer",
        "idleTimeoutSeconds": "integer",
        "labels": "map",
        "resources": "map",
        "rayStartParams": "map",
        "scaleStrategy": "ScaleStrategy",
        "suspend": "boolean",
    },
    "ScaleStrategy": {"workersToDelete": "[string]"},
    "AutoscalerOptions": {
        "idleTimeoutSeconds": "integer",
        "upscalingMode": "=Default|Aggressive|Conservative",
        "version": "=v1|v2",
        "resources": "ResourceRequirements",
        "image": "string",
        "imagePullPolicy": "=Always|IfNotPresent|Never",
        "env": "[object]",
        "envFrom": "[object]",
        "volumeMounts": "[object]",
        "securityContext": "object",
    },
    "AuthOptions": {"mode": "=token|disabled", "secretName": "string", "enableK8sTokenAuth": "boolean"},
    "RayClusterUpgradeStrategy": {"type": "=Recreate|None"},
    "GcsFaultToleranceOptions": {
        "redisAddress": "string!",
        "redisUsername": "RedisCredential",
        "redisPassword": "RedisCredential",
        "externalStorageNamespace": "string",
    },
    "RedisCredential": {"value": "string", "valueFrom": "object"},
    "RayJobSpec": {
        "entrypoint": "string",
        "runtimeEnvYAML": "string",
        "rayClusterSpec": "RayClusterSpec",
        "clusterSelector": "map",
        "submissionMode": "=K8sJobMode|HTTPMode|InteractiveMode|SidecarMode",
        "shutdownAfterJobFinishes": "boolean",
        "ttlSecondsAfterFinished": "integer",
        "deletionStrategy": "DeletionStrategy",
        "activeDeadlineSeconds": "integer",
        "preRunningDeadlineSeconds": "integer",
        "backoffLimit": "integer",
        "entrypointNumCpus": "number",
        "entrypointNumGpus": "number",
        "entrypointResources": "string",
        "jobId": "string",
        "metadata": "map",
        "submitterPodTemplate": "PodTemplateSpec",
        "submitterConfig": "SubmitterConfig",
        "managedBy": "=ray.io/kuberay-operator|kueue.x-k8s.io/multikueue",
        "suspend": "boolean",
    },
    "SubmitterConfig": {"backoffLimit": "integer"},
    "DeletionStrategy": {
        "deletionRules": "[DeletionRule]",
        "onSuccess": "DeletionPolicy",  # the older way, as is the next
        "onFailure": "DeletionPolicy",
    },
    "DeletionRule": {
        "policy": "=DeleteCluster|DeleteWorkers|DeleteSelf|DeleteNone!",
        "condition": "DeletionCondition!",
    },
    "DeletionCondition": {
        "jobStatus": "=SUCCEEDED|FAILED",
        "jobDeploymentStatus": "=Failed",
        "ttlSeconds": "integer",
    },
    "DeletionPolicy": {"policy": "=DeleteCluster|DeleteWorkers|DeleteSelf|DeleteNone"},
    "ObjectMeta": {"name": "string!", "namespace": "string", "labels": "map", "annotations": "map"},
    "PodTemplateSpec": {"metadata": "object", "spec": "PodSpec!"},
    "PodSpec": {
        "containers": "[Container]!",
        "initContainers": "[Container]",
        "volumes": "[object]",
        "nodeSelector": "map",
        "tolerations": "[object]",
        "affinity": "object",
        "serviceAccountName": "string",
        "restartPolicy": "=Always|OnFailure|Never",
    },
    "Container": {
        "name": "string!",
        "image": "string",
        "imagePullPolicy": "=Always|IfNotPresent|Never",
        "command": "[string]",
        "args": "[string]",
        "ports": "[ContainerPort]",
        "env": "[object]",
        "envFrom": "[object]",
        "resources": "ResourceRequirements",
        "volumeMounts": "[object]",
        "lifecycle": "object",
        "securityContext": "object",
    },
    "ContainerPort": {
        "containerPort": "integer!",
        "name": "string",
        "protocol": "=TCP|UDP|SCTP",
        "hostPort": "integer",
    },
    "ResourceRequirements": {"limits": "amounts", "requests": "amounts"},
}
_PYTHON = {"string": str, "boolean": bool, "integer": int, "number": int | float, "object": dict}


def check_fields(manifest: dict) -> list[dict]:
    """Return one row for each field of a manifest: `field` (its path), `type`, and `finding` ("" where all is well)."""
    kind = str(manifest.get("kind"))
    if kind not in ("RayCluster", "RayJob"):
        return [{"field": "kind", "type": "=RayCluster|RayJob", "finding": f"there is no kind {kind!r} in the table"}]
    return list(_rows(manifest, kind, ""))


def _rows(value: dict, table: str, path: str) -> Iterator[dict]:
    for name, part in value.items():
        if name not in FIELDS[table]:
            yield {"field": f"{path}{name}", "type": "", "finding": f"{table} has no such field"}
            continue
        kind = FIELDS[table][name].rstrip("!")
        yield {"field": path + name, "type": kind, "finding": _finding(part, kind)}
        inner = kind.strip("[]")
        if inner in FIELDS:
            for place, each in _parts(part, kind):
                yield from _rows(each, inner, f"{path}{name}{place}.")
    for name, kind in FIELDS[table].items():
        empty = value.get(name) == [] and not _finding([], kind.rstrip("!"))
        if kind.endswith("!") and (name not in value or empty):
            yield {"field": path + name, "type": kind.rstrip("!"), "finding": "missing, and required"}


def _parts(value: Any, kind: str) -> list[tuple[str, dict]]:
    """Return the objects within a field, each with its place in the list."""
    if kind.startswith("["):
        items = enumerate(value) if isinstance(value, list) else ()
        return [(f"[{place}]", each) for place, each in items if isinstance(each, dict)]
    return [("", value)] if isinstance(value, dict) else []


def _finding(value: Any, kind: str) -> str:
    if kind.startswith("["):
        if not isinstance(value, list):
            return "must be a list"
        found = [_finding(each, kind.strip("[]")) for each in value]
        return next(filter(None, found), "")
    if kind in FIELDS:
        return "" if isinstance(value, dict) else "must be an object with fields of its own"
    if kind == "map":
        fine = isinstance(value, dict) and all(isinstance(each, str) for each in value.values())
        return "" if fine else "must map names to strings: put quotes around numbers"
    if kind == "amounts":
        fine = isinstance(value, dict) and all(type(each) in (str, int) for each in value.values())
        return "" if fine else 'must map names to amounts such as 4 or "8Gi"'
    if kind in _PYTHON:
        right = isinstance(value, _PYTHON[kind]) and (kind == "boolean" or not isinstance(value, bool))
        return "" if right else f"must be of type {kind}, not {type(value).__name__}"
    allowed = kind.lstrip("=").split("|")
    return "" if isinstance(value, str) and value in allowed else f"must be {' or '.join(allowed)}"
