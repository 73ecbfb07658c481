"""The manifests of chapter 24 against KubeRay's reference, and the checker against each kind of mistake."""

import copy
import re

import pandas
import pytest
import yaml

from coursekit.basics.paths import ROOT
from coursekit.given.kuberay import FIELDS, RELEASE, check_fields

CHAPTER = (ROOT / "chapters/ch24_deploy.py").read_text()


@pytest.fixture(scope="module")
def manifests() -> dict:
    """Return what the chapter's own cells define: `ray_cluster`, `ray_job`, and the `findings` in the careless one."""
    names = {"yaml": yaml, "pandas": pandas, "check_fields": check_fields}
    for start in ("ray_cluster = yaml", "job_spec = {"):
        (cell,) = [cell for cell in CHAPTER.split("\n# %%") if f"\n{start}" in cell]
        exec(cell.partition("\n")[2], names)
    return names


def found(manifest: dict) -> list[tuple[str, str]]:
    return [(row["field"], row["finding"]) for row in check_fields(manifest) if row["finding"]]


def test_the_chapters_manifests_hold_no_mistake(manifests):
    assert found(manifests["ray_cluster"]) == []
    assert found(manifests["ray_job"]) == []


def test_the_careless_job_holds_three(manifests):
    findings = manifests["findings"]
    wrong = findings[findings.finding != ""].field.tolist()
    assert wrong == ["spec.ttlSecondsAfterFinished", "spec.rayClusterSpec.workerGroupSpec", "spec.runtimeEnv"]


GROUP = "spec.workerGroupSpecs.0"


@pytest.mark.parametrize(
    ("path", "value", "finding"),
    [
        ("kind", "RayKluster", "there is no kind 'RayKluster' in the table"),
        ("apiVersion", "v1", "must be ray.io/v1"),
        ("spec.rayVerson", "2.60.0", "RayClusterSpec has no such field"),
        ("spec.headGroupSpec", None, "missing, and required"),
        ("spec.headGroupSpec", [], "must be an object with fields of its own"),
        ("spec.rayVersion", 2.6, "must be of type string, not float"),
        ("spec.enableInTreeAutoscaling", "true", "must be of type boolean, not str"),
        ("spec.authOptions.mode", "tokens", "must be token or disabled"),
        ("spec.headGroupSpec.rayStartParams", {"num-cpus": 0}, "must map names to strings: put quotes around numbers"),
        ("spec.workerGroupSpecs", {"groupName": "players"}, "must be a list"),
        (f"{GROUP}.minReplicas", True, "must be of type integer, not bool"),
        (f"{GROUP}.groupName", None, "missing, and required"),
        (f"{GROUP}.template.spec.containers.0.imagePullPolicy", "Sometimes", "must be Always or IfNotPresent or Never"),
        (
            f"{GROUP}.template.spec.containers.0.resources.limits",
            {"cpu": 0.5},
            'must map names to amounts such as 4 or "8Gi"',
        ),
    ],
)
def test_each_kind_of_mistake_is_found_at_its_place(manifests, path, value, finding):
    manifest = copy.deepcopy(manifests["ray_cluster"])
    part: dict | list = manifest
    *way, last = [int(name) if name.isdigit() else name for name in path.split(".")]
    for name in way:
        part = part[name]
    if value is None:
        del part[last]
    else:
        part[last] = value
    assert found(manifest) == [(path.replace(".0", "[0]"), finding)]


def test_fields_of_newer_releases_are_known(manifests):
    cluster, job = copy.deepcopy((manifests["ray_cluster"], manifests["ray_job"]))
    cluster["spec"] |= {"autoscalerOptions": {"version": "v2"}, "upgradeStrategy": {"type": "Recreate"}}
    cluster["spec"]["workerGroupSpecs"][0] |= {"labels": {"zone": "west"}, "resources": {"robot": "2"}}
    rule = {"policy": "DeleteWorkers", "condition": {"jobStatus": "FAILED", "ttlSeconds": 60}}
    job["spec"] |= {"submissionMode": "SidecarMode", "deletionStrategy": {"deletionRules": [rule]}}
    assert found(cluster) == []
    assert found(job) == []


def test_every_type_in_the_table_is_one_that_the_checker_knows():
    plain = {"string", "boolean", "integer", "number", "object", "map", "amounts"}
    kinds = {kind.rstrip("!").strip("[]") for fields in FIELDS.values() for kind in fields.values()}
    assert {kind for kind in kinds if not kind.startswith("=")} <= plain | FIELDS.keys()


def test_the_chapter_names_the_release_of_the_table():
    assert f"KubeRay {RELEASE}" in CHAPTER
    assert f"kuberay/blob/v{RELEASE}/" in CHAPTER


def test_every_helm_chart_comes_from_a_repository_that_the_chapter_adds():
    added = set(re.findall(r"helm repo add (\S+) https://", CHAPTER))
    assert set(re.findall(r"helm install \S+ (\w+)/", CHAPTER)) == added == {"kuberay"}
