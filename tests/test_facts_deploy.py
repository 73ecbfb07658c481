"""What chapter 24 says about the pinned Ray, where no cell of its own shows it."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from coursekit.given import ch24_deploy as given
from coursekit.given.kuberay import check_fields

AUTOSCALER = Path(find_spec("ray").origin).parent / "autoscaler"


@pytest.mark.parametrize("cloud", ["aws", "gcp", "azure"])
def test_the_defaults_of_a_cloud_install_a_nightly_build_and_open_the_dashboard(cloud):
    filled = given.validated(f"cluster_name: try\nprovider: {{type: {cloud}}}")
    assert "latest/ray-3.0.0.dev0" in " ".join(filled["setup_commands"])
    assert "--dashboard-host=0.0.0.0" in " ".join(filled["head_start_ray_commands"])
    assert (filled["max_workers"], filled["idle_timeout_minutes"]) == (2, 5)


def test_ray_has_no_defaults_for_aliyun():
    with pytest.raises(FileNotFoundError):
        given.validated("cluster_name: try\nprovider: {type: aliyun}")


def test_the_disk_of_an_azure_machine_is_a_parameter_of_the_template():
    template = json.loads((AUTOSCALER / "_private/_azure/azure-vm-template.json").read_text())
    assert template["parameters"]["osDiskSize"]["metadata"]["description"] == "Size of the OS disk in GB"
    assert "parameters('osDiskSize')" in json.dumps(template["resources"])


@pytest.mark.parametrize(("cloud", "stops"), [("aws", True), ("_azure", True), ("gcp", False)])
def test_aws_and_azure_stop_machines_by_default_and_gcp_deletes_them(cloud, stops):
    source = (AUTOSCALER / f"_private/{cloud}/node_provider.py").read_text()
    assert f'provider_config.get("cache_stopped_nodes", {stops})' in source
    assert ("cannot stop spot instances" in source) == (cloud == "aws")


def test_attach_runs_the_shell_as_exec_does(monkeypatch):
    from ray.autoscaler._private import commands

    ran = {}
    monkeypatch.setattr(commands, "exec_cluster", lambda *args, **kwargs: ran.update(kwargs))
    commands.attach_cluster("cluster.yaml", start=False, use_screen=False, use_tmux=False, override_cluster_name=None)
    assert ran["cmd"] == "$SHELL"


def test_symmetric_run_takes_options_of_ray_start_except_four():
    from ray.scripts import scripts, symmetric_run

    assert "symmetric-run" in scripts.cli.commands
    words = ["--address=head:6379", "--min-nodes=4", "--num-cpus=8"]
    assert symmetric_run.curate_and_validate_ray_start_args(words) == ["--num-cpus=8"]
    with pytest.raises(Exception, match="Cannot use --block"):
        symmetric_run.curate_and_validate_ray_start_args([*words, "--block"])


def test_the_defaults_of_the_ports_are_those_in_the_chapters_table():
    from ray.autoscaler._private.constants import AUTOSCALER_METRIC_PORT
    from ray.dashboard.consts import DASHBOARD_METRIC_PORT
    from ray.scripts import scripts

    default = {option.name: option.default for option in scripts.start.params}
    names = ("min_worker_port", "max_worker_port", "dashboard_port", "dashboard_agent_listen_port")
    assert [default[name] for name in names] == [10002, 19999, 8265, 52365]
    assert default["dashboard_host"] == "127.0.0.1"
    assert (AUTOSCALER_METRIC_PORT, DASHBOARD_METRIC_PORT) == (44217, 44227)


def test_rays_autoscaler_reads_a_pods_limit_before_its_request_and_the_start_parameter_before_both():
    from ray.autoscaler._private.kuberay.autoscaling_config import _get_num_cpus

    amounts = {"limits": {"cpu": "4"}, "requests": {"cpu": "1"}}
    assert _get_num_cpus({}, {}, amounts, "workers") == 4
    assert _get_num_cpus({}, {"num-cpus": "0"}, amounts, "workers") == 0


def test_kuberay_has_a_field_for_the_address_of_redis():
    text = """
    apiVersion: ray.io/v1
    kind: RayCluster
    metadata: {name: course}
    spec:
      gcsFaultToleranceOptions: {redisAddress: "redis:6379"}
      headGroupSpec: {template: {spec: {containers: [{name: head}]}}}
    """
    assert [row for row in check_fields(yaml.safe_load(text)) if row["finding"]] == []


def test_a_longer_idle_timeout_costs_more_and_saves_waiting_time_but_a_gap_costs_no_more_than_its_length():
    costs, waits = zip(*[given.cost_of_a_day(idle, new_node=1.2) for idle in (0, 1, 10, 60, 1000, 2000)], strict=True)
    assert sorted(costs) == list(costs)
    assert sorted(waits, reverse=True) == list(waits)
    assert costs[3] < 5 * costs[1]
