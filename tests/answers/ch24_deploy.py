"""Right and wrong answers of chapter 24."""

import copy
import json

import yaml

from coursekit.given import ch24_deploy as given
from tests.answers import accepts, rejects

STOP = given.stop  # ends the cluster that the checks of this chapter have started


def _yaml(name, region, worker, least, most, **changes):
    config = {
        "cluster_name": name,
        "max_workers": most,
        "provider": {"type": "aws", "region": region},
        "auth": {"ssh_user": "ubuntu"},
        "head_node_type": "head",
        "available_node_types": {
            "head": {"resources": {"CPU": 0}, "node_config": {"InstanceType": "m5.large"}},
            "workers": {
                "min_workers": least,
                "max_workers": most,
                "resources": {},
                "node_config": {"InstanceType": worker},
            },
        },
    }
    return config | changes


@accepts("cluster_yaml")
def writes_json_which_is_yaml_too(name, region, worker, least, most):
    return json.dumps(_yaml(name, region, worker, least, most))


@accepts("cluster_yaml")
def workers_say_nothing_of_resources(name, region, worker, least, most):
    config = _yaml(name, region, worker, least, most)
    del config["available_node_types"]["workers"]["resources"]
    return json.dumps(config)


@accepts("cluster_yaml")
def the_limit_of_the_cluster_is_the_limit_of_the_type(name, region, worker, least, most):
    config = _yaml(name, region, worker, least, most)
    del config["available_node_types"]["workers"]["max_workers"]
    return json.dumps(config)


@rejects("cluster_yaml", says="it should be 'course-")
def keeps_the_name_of_an_example(name, region, worker, least, most):
    return json.dumps(_yaml("example", region, worker, least, most))


@rejects("cluster_yaml", says="they should be aws and ")
def keeps_the_region_of_an_example(name, region, worker, least, most):
    return json.dumps(_yaml(name, "us-west-2", worker, least, most))


@rejects("cluster_yaml", says="should run no tasks, but its `resources` say")
def head_has_the_cpus_of_an_m5_large(name, region, worker, least, most):
    config = _yaml(name, region, worker, least, most)
    config["available_node_types"]["head"]["resources"] = {"CPU": 2}
    return json.dumps(config)


@rejects("cluster_yaml", says="should run no tasks, but its `resources` don't mention CPU")
def head_says_nothing_of_resources(name, region, worker, least, most):
    config = _yaml(name, region, worker, least, most)
    del config["available_node_types"]["head"]["resources"]
    return json.dumps(config)


@rejects("cluster_yaml")
def returns_a_dict(name, region, worker, least, most):
    return _yaml(name, region, worker, least, most)


@rejects("cluster_yaml")
def forgets_the_limit_of_the_cluster(name, region, worker, least, most):
    config = _yaml(name, region, worker, least, most)
    del config["max_workers"]
    return json.dumps(config)


@rejects("cluster_yaml")
def workers_at_the_top_as_it_once_was(name, region, worker, least, most):
    config = _yaml(name, region, worker, least, most, min_workers=least)
    del config["available_node_types"]["workers"]["min_workers"]
    return json.dumps(config)


@rejects("cluster_yaml", says="InstanceType")
def machine_types_outside_of_node_config(name, region, worker, least, most):
    config = _yaml(name, region, worker, least, most)
    for kind in config["available_node_types"].values():
        kind["node_config"] = {"instance_type": kind["node_config"]["InstanceType"]}
    return json.dumps(config)


@rejects("cluster_yaml", says="The cluster as a whole allows")
def counts_the_head_among_the_workers_of_the_cluster(name, region, worker, least, most):
    return json.dumps(_yaml(name, region, worker, least, most, max_workers=most + 1))


@rejects("cluster_yaml")
def limit_below_the_minimum(name, region, worker, least, most):
    return json.dumps(_yaml(name, region, worker, least, most, max_workers=least - 1))


@rejects("cluster_yaml")
def workers_run_no_tasks_either(name, region, worker, least, most):
    config = _yaml(name, region, worker, least, most)
    config["available_node_types"]["workers"]["resources"] = {"CPU": 0}
    return json.dumps(config)


@rejects("cluster_yaml", says="it should allow none")
def counts_the_head_as_a_worker_of_its_type(name, region, worker, least, most):
    config = _yaml(name, region, worker, least, most)
    config["available_node_types"]["head"] |= {"min_workers": 1, "max_workers": 1}
    return json.dumps(config)


@rejects("cluster_yaml")
def a_field_that_does_not_exist(name, region, worker, least, most):
    config = _yaml(name, region, worker, least, most)
    config["available_node_types"]["workers"]["instance_type"] = worker
    return json.dumps(config)


@rejects("cluster_yaml")
def head_is_as_large_as_the_workers(name, region, worker, least, most):
    config = _yaml(name, region, worker, least, most)
    config["available_node_types"]["head"]["node_config"]["InstanceType"] = worker
    return json.dumps(config)


HEAD = "ray start --head --port=6379 --autoscaling-config=~/ray_bootstrap_config.yaml"
WORKER = "ray start --address=$RAY_HEAD_IP:6379"
TOKEN = "export RAY_AUTH_MODE=token; "


def _machines(name, head, workers, user, token_file, **changes):
    config = {
        "cluster_name": name,
        "provider": {"type": "local", "head_ip": head, "worker_ips": workers},
        "auth": {"ssh_user": user},
        "file_mounts": {"~/.ray/auth_token": token_file},
        "head_start_ray_commands": ["ray stop", TOKEN + HEAD],
        "worker_start_ray_commands": ["ray stop", TOKEN + WORKER],
    }
    return yaml.safe_dump(config | changes)


@accepts("bring_up")
def the_variable_stands_before_the_command(*args):
    starts = [f"RAY_AUTH_MODE=token {each}" for each in (HEAD, WORKER)]
    return _machines(*args, head_start_ray_commands=starts[:1], worker_start_ray_commands=starts[1:])


@accepts("bring_up")
def keeps_the_variable_in_bashrc(*args):
    keep = ["echo 'export RAY_AUTH_MODE=token' >> ~/.bashrc"]
    return _machines(
        *args,
        initialization_commands=keep,
        head_start_ray_commands=["ray stop", HEAD],
        worker_start_ray_commands=[*keep, WORKER],
    )


@accepts("bring_up")
def keeps_the_variable_in_bashrc_by_a_setup_command(*args):
    keep = ["echo 'export RAY_AUTH_MODE=token' >> ~/.bashrc"]
    starts = {"head_start_ray_commands": ["ray stop", HEAD], "worker_start_ray_commands": ["ray stop", WORKER]}
    return _machines(*args, setup_commands=keep, **starts)


@accepts("bring_up")
def the_head_finds_the_file_by_itself(*args):
    return _machines(*args, head_start_ray_commands=[HEAD], min_workers=0, max_workers=len(args[2]))


@accepts("bring_up")
def writes_json(*args):
    return json.dumps(yaml.safe_load(_machines(*args)))


@rejects("bring_up", says="a worker's `ray start`")
def exports_it_in_a_setup_command(*args):
    starts = {"head_start_ray_commands": [HEAD], "worker_start_ray_commands": [WORKER]}
    return _machines(*args, setup_commands=["export RAY_AUTH_MODE=token"], **starts)


@accepts("bring_up")
def another_port_and_the_heads_own_address(name, head, *args):
    starts = [HEAD.replace("6379", "6400"), f'ray start --address "{head}:6400"']
    start = {"head_start_ray_commands": [TOKEN + starts[0]], "worker_start_ray_commands": [TOKEN + starts[1]]}
    return _machines(name, head, *args, **start)


@rejects("bring_up", says="joins the cluster at")
def workers_join_at_a_port_where_no_head_listens(*args):
    return _machines(*args, head_start_ray_commands=[TOKEN + HEAD.replace("6379", "6400")])


@rejects("bring_up", says="joins the cluster at")
def workers_join_the_head_of_the_example(*args):
    return _machines(*args, worker_start_ray_commands=["ray stop", TOKEN + "ray start --address=10.0.0.1:6379"])


@rejects("bring_up", says="which cluster to join")
def workers_do_not_say_where_the_head_is(*args):
    return _machines(*args, worker_start_ray_commands=[TOKEN + "ray start"])


@rejects("bring_up", says="wasn't sent")
def sends_no_token(*args):
    return _machines(*args, file_mounts={})


@rejects("bring_up", says="doesn't look for it")
def sends_the_token_to_another_place(*args):
    return _machines(*args, file_mounts={"~/auth_token": args[4]})


@rejects("bring_up", says="doesn't know any workers")
def forgets_the_autoscaling_config(*args):
    return _machines(*args, head_start_ray_commands=["ray stop", TOKEN + "ray start --head --port=6379"])


@rejects("bring_up", says="ray up")
def the_head_is_one_of_the_workers_only(name, head, workers, user, token_file):
    return _machines(name, head, workers, user, token_file, provider={"type": "local", "worker_ips": [head, *workers]})


@rejects("bring_up", says="The head's address is")
def takes_the_first_worker_for_the_head(name, head, workers, user, token_file):
    return _machines(name, workers[0], [head, *workers[1:]], user, token_file)


@rejects("bring_up")
def types_of_nodes_as_in_a_cloud(*args):
    types = {"head": {"resources": {}, "node_config": {}}}
    return _machines(*args, available_node_types=types, head_node_type="head")


@rejects("bring_up", says="not a string")
def returns_the_dictionary(*args):
    return yaml.safe_load(_machines(*args))


@rejects("bring_up", says="`max_workers` is 1")
def fewer_workers_than_addresses(*args):
    return _machines(*args, min_workers=1, max_workers=1)


def _local(row):
    return row["address"].startswith("127.") or row["address"] == "::1"


def _rules(
    sockets, lowest, highest, local=_local, mine=("dashboard", "client server"), skip=("other", "worker", "metrics")
):
    rules = {"nodes": list(range(lowest, highest + 1)), "you": []}
    for row in sockets:
        if not local(row) and row["process"] not in skip:
            rules["you" if row["process"] in mine else "nodes"].append(row["port"])
    return rules


@accepts("firewall")
def lists_in_any_order_with_a_port_twice(sockets, lowest, highest):
    return _rules(sockets, lowest, highest)


@accepts("firewall")
def in_sets(sockets, lowest, highest):
    return {name: set(ports) for name, ports in _rules(sockets[::-1], lowest, highest).items()}


@rejects("firewall", says="only from its own machine")
def opens_what_is_local(sockets, lowest, highest):
    return _rules(sockets, lowest, highest, local=lambda row: False)


@rejects("firewall", says="only from its own machine")
def knows_local_addresses_of_one_kind_only(sockets, lowest, highest):
    return _rules(sockets, lowest, highest, local=lambda row: row["address"].startswith("127."))


@rejects("firewall", says="only from its own machine")
def takes_127_0_0_1_for_all_local_addresses(sockets, lowest, highest):
    return _rules(sockets, lowest, highest, local=lambda row: row["address"] in ("127.0.0.1", "::1"))


@rejects("firewall", says="A new worker may listen")
def knows_the_workers_of_today_only(sockets, lowest, highest):
    rules = _rules(sockets, lowest, highest, skip=("other", "metrics"))
    return rules | {"nodes": [port for port in rules["nodes"] if port in {row["port"] for row in sockets}]}


@rejects("firewall", says="A new worker may listen")
def forgets_the_last_port_of_the_range(sockets, lowest, highest):
    return _rules(sockets, lowest, highest - 1)


@rejects("firewall", says="other at")
def opens_ports_of_others(sockets, lowest, highest):
    return _rules(sockets, lowest, highest, skip=("worker", "metrics"))


@rejects("firewall", says="client server at")
def the_dashboard_is_all_that_you_need(sockets, lowest, highest):
    return _rules(sockets, lowest, highest, mine=("dashboard",))


@rejects("firewall", says="to nodes")
def nodes_need_the_gcs_only(sockets, lowest, highest):
    others = ("raylet", "dashboard agent", "runtime env agent")
    return _rules(sockets, lowest, highest, skip=("other", "worker", "metrics", *others))


@rejects("firewall", says="metrics at")
def opens_the_pages_of_metrics(sockets, lowest, highest):
    return _rules(sockets, lowest, highest, skip=("other", "worker"))


def _pod(name, version, cpus, requests=None):
    amounts = {"cpu": cpus, "memory": "8Gi"}
    container = {"name": name, "image": f"rayproject/ray:{version}"}
    return {"spec": {"containers": [container | {"resources": {"limits": amounts, "requests": requests or amounts}}]}}


def _job(name, entrypoint, version, most, hours):
    head = {"rayStartParams": {"num-cpus": "0"}, "template": _pod("head", version, 2)}
    workers = {"groupName": "w", "minReplicas": 0, "maxReplicas": most, "template": _pod("worker", version, 4)}
    cluster = {
        "rayVersion": version,
        "enableInTreeAutoscaling": True,
        "authOptions": {"mode": "token"},
        "headGroupSpec": head,
        "workerGroupSpecs": [workers],
    }
    ends = {"shutdownAfterJobFinishes": True, "activeDeadlineSeconds": hours * 3600}
    spec = {"entrypoint": entrypoint, "rayClusterSpec": cluster, **ends}
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": name}, "spec": spec}


def _changed(job, path, value=None):
    job = copy.deepcopy(job)
    part = job
    *way, last = path
    for step in way:
        part = part[step]
    if value is None:
        del part[last]
    else:
        part[last] = value
    return job


CLUSTER = ("spec", "rayClusterSpec")
WORKERS = (*CLUSTER, "workerGroupSpecs", 0)


@accepts("rayjob")
def as_text(*args):
    return yaml.safe_dump(_job(*args))


@accepts("rayjob")
def with_more_fields(*args):
    job = _changed(_job(*args), ("spec", "ttlSecondsAfterFinished"), 600)
    return _changed(_changed(job, (*WORKERS, "replicas"), 0), (*CLUSTER, "autoscalerOptions"), {"version": "v2"})


@accepts("rayjob")
def limits_alone(*args):
    resources = (*WORKERS, "template", "spec", "containers", 0, "resources")
    return _changed(_job(*args), (*resources, "requests"))


@rejects("rayjob", says="keeps running")
def the_cluster_stays(*args):
    return _changed(_job(*args), ("spec", "shutdownAfterJobFinishes"))


@rejects("rayjob", says="may run for")
def hours_for_seconds(*args):
    return _changed(_job(*args), ("spec", "activeDeadlineSeconds"), args[4])


@rejects("rayjob", says="limits how long the job may run")
def a_time_to_live_for_a_deadline(*args):
    job = _changed(_job(*args), ("spec", "activeDeadlineSeconds"))
    return _changed(job, ("spec", "ttlSecondsAfterFinished"), args[4] * 3600)


@rejects("rayjob", says="quotes around numbers")
def a_number_among_the_start_parameters(*args):
    return _changed(_job(*args), (*CLUSTER, "headGroupSpec", "rayStartParams"), {"num-cpus": 0})


@rejects("rayjob", says="no such field")
def a_group_in_the_singular(*args):
    job = _job(*args)
    cluster = job["spec"]["rayClusterSpec"]
    cluster["workerGroupSpec"] = cluster.pop("workerGroupSpecs")
    return job


@rejects("rayjob", says="The image of the workers")
def the_newest_image(*args):
    path = (*WORKERS, "template", "spec", "containers", 0, "image")
    return _changed(_job(*args), path, "rayproject/ray:latest")


@rejects("rayjob", says="Tokens aren't enabled")
def without_tokens(*args):
    return _changed(_job(*args), (*CLUSTER, "authOptions"))


@rejects("rayjob", says="num-cpus")
def the_head_runs_tasks(*args):
    return _changed(_job(*args), (*CLUSTER, "headGroupSpec", "rayStartParams"), {})


@rejects("rayjob", says="no autoscaler")
def nobody_asks_for_workers(*args):
    return _changed(_job(*args), (*CLUSTER, "enableInTreeAutoscaling"))


@rejects("rayjob", says="kind is RayCluster")
def a_cluster_without_a_job(*args):
    job = _job(*args)
    return job | {"kind": "RayCluster", "spec": job["spec"]["rayClusterSpec"]}


@rejects("rayjob", says="in its requests")
def asks_for_less_than_its_limit(*args):
    return _changed(_job(*args), (*WORKERS, "template"), _pod("worker", args[2], 4, {"cpu": 1, "memory": "8Gi"}))


@accepts("rayjob")
def cpus_as_text_and_an_image_for_one_python(*args):
    job = _changed(_job(*args), (*WORKERS, "template"), _pod("worker", f"{args[2]}-py311", "4"))
    return _changed(job, (*WORKERS, "rayStartParams"), {"num-cpus": "4"})


@rejects("rayjob", says="`num-cpus: 0`")
def the_workers_run_no_tasks_either(*args):
    return _changed(_job(*args), (*WORKERS, "rayStartParams"), {"num-cpus": "0"})


@rejects("rayjob", says="no `rayClusterSpec`")
def a_job_without_a_cluster(*args):
    job = _changed(_job(*args), ("spec", "rayClusterSpec"))
    return _changed(job, ("spec", "clusterSelector"), {"ray.io/cluster": "course"})


@rejects("rayjob", says="starts with")
def starts_with_all_workers(*args):
    return _changed(_job(*args), (*WORKERS, "replicas"), args[3])
