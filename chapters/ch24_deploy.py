# %% [markdown] you_learn_to="bring clusters up: launcher, clouds, Kubernetes, firewall, costs"
r"""
# Chapter 24 · Deploying clusters

A cluster is written down before it runs.

*About 115 minutes · builds on [Chapter 6](ch06_cluster.ipynb); [Chapters 4](ch04_scheduling.ipynb) and [19](ch19_operate.ipynb) help*

You need no cloud account and no Kubernetes.

**What you will be able to do**

- write a `cluster.yaml` for a cloud or for your own machines, and have it checked before it costs money;
- read what `ray up` does on a machine, command by command, and see why a node does not join;
- give a firewall the ports of a cluster, and Prometheus the addresses of its pages;
- write a manifest for Kubernetes, field by field;
- say what a waiting node costs, and choose how long it may wait.
"""

# %%
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas
import ray
import requests
import yaml

from coursekit import begin, check, hint, passed, quiz, solution
from coursekit.given import ch24_deploy as given
from coursekit.given import machines
from coursekit.given.kuberay import check_fields
from coursekit.given.own_cluster import OwnCluster

begin("ch24_deploy")

# %% [markdown] tags=["notes"]
r"""
A hundred and fifteen minutes with all four exercises; with ninety, leave Kubernetes to those who have it.
Ask first who pays for the cluster they use, and who could end it.
On your machine, as root on Linux with sshd and rsync, run the section with two machines before the room comes.
"""

# %% [markdown]
r"""
## A cloud needs a cluster.yaml, and Ray checks it before you pay

You don't type `ray start` on fifty machines.
The **cluster launcher** rents machines, installs what you say, and runs `ray start` on each over SSH:

| command | what it does |
|---|---|
| `ray up cluster.yaml` | rents the head, sets it up; the head's monitor rents workers when there is demand |
| `ray attach cluster.yaml` | opens a shell on the head; `--port-forward 8888` brings a port of it to your machine |
| `ray exec cluster.yaml "…"` | runs a command there |
| `ray rsync-up cluster.yaml here there` | copies files to the head |
| `ray dashboard cluster.yaml` | brings the dashboard to your machine |
| `ray down cluster.yaml` | ends the cluster |

`ray down` need not stop the bill.
On AWS and Azure it only *stops* the machines you rent by the hour, and their disks still cost, unless the file says `cache_stopped_nodes: False`; check the cloud's console afterwards.

The file says what to rent.
Ray brings a schema for it, and defaults for what you leave out; both work offline.
`given.validated` calls what `ray up` calls first, but does not ask AWS how many CPUs a machine has.

This file has 6 sections; see how many it has with the defaults filled in.
"""

# %% tags=["demo"]
example = """
cluster_name: example
max_workers: 2                      # besides the head
provider: {type: aws, region: us-west-2, cache_stopped_nodes: False}  # False: `ray down` ends machines, disks and all
auth: {ssh_user: ubuntu}
head_node_type: head                # one of those below
available_node_types:
  head:
    resources: {}                   # {}: found out from the machine type
    node_config: {InstanceType: m5.xlarge}
  worker:
    min_workers: 0
    max_workers: 2
    resources: {}
    node_config: {InstanceType: m5.large, InstanceMarketOptions: {MarketType: spot}}
"""

# %% tags=["demo"]
filled = given.validated(example)
print(len(filled), "sections:", ", ".join(filled))
print("on the head:", *filled["head_start_ray_commands"], sep="\n   ")

# %% [markdown]
r"""
At the end comes the command you know: `ray start --head`, with the file itself as `--autoscaling-config`.
That is how the monitor learns what it may rent.
The `ray stop` before it is harmless there: the machine is the cluster's own.
Look into `filled["setup_commands"]` before you use it for real: where the machine has no Ray, the defaults install a nightly build.
Write your own, with the version that you have.

The schema knows the names and types of the general fields.
Everything under `node_config` goes to the cloud as it is.
Which of these slips get past it?
"""

# %% tags=["demo"]
slips = {
    "head_node_type: haed": ("head_node_type: head ", "head_node_type: haed "),
    "max_workers: two": ("max_workers: 2 ", "max_workers: two "),
    "a field that does not exist": ("auth:", "instance_type: m5.large\nauth:"),
    "no such machine type": ("m5.xlarge", "m5.gigantic"),
    "min_workers for the whole cluster": ("auth:", "min_workers: 2\nauth:"),
}
for slip, (right, wrong) in slips.items():
    try:
        given.validated(example.replace(right, wrong))
        print(f"{slip:34} accepted")
    except Exception as error:
        print(f"{slip:34} {type(error).__name__}: {str(error).splitlines()[0][:90]}")

# %% [markdown]
r"""
Ray catches wrong names and types, but not a machine type that does not exist.
And it silently drops a `min_workers` at the top, which meant something in older versions, so your cluster starts without workers; it belongs in a node type.

Now write one you could use: the head is small, and serves the GCS, not tasks.
Tasks stay away from a node whose type says `CPU: 0` in its `resources`.
A type that says nothing gets the CPUs its machine has.
"""

# %%
def cluster_yaml(name, region, worker, least, most):
    """Return the text of a cluster.yaml for AWS: a head of type m5.large that runs no tasks, and workers of type `worker`.

    There are at least `least` workers, and at most `most`, in the node type and in the cluster as a whole.
    """
    ### BEGIN SOLUTION
    return f"""
cluster_name: {name}
max_workers: {most}
provider: {{type: aws, region: {region}, cache_stopped_nodes: False}}
auth: {{ssh_user: ubuntu}}
head_node_type: head
available_node_types:
  head:
    resources: {{CPU: 0}}
    node_config: {{InstanceType: m5.large}}
  worker:
    min_workers: {least}
    max_workers: {most}
    resources: {{}}
    node_config: {{InstanceType: {worker}}}
"""
    ### END SOLUTION

# %%
check("cluster_yaml", cluster_yaml)

# %% [markdown] tags=["solution"]
r"""
Without `max_workers` at the top the default of two counts, and a node type that may grow to twelve stops there.
Forgetting it is the usual reason for "my cluster does not scale".
`yaml.safe_dump` of a dictionary is a safer way to write such a file than an f-string.
"""

# %% [markdown]
r"""
### AWS, GCP and Azure, field by field

The general part is the same for all three; the rest goes by different names:

| | AWS | GCP | Azure |
|---|---|---|---|
| where | `provider.region`, `availability_zone` | the same names, and a `project_id` | `location`, `resource_group`, `availability_zone` |
| machine type | `InstanceType` | `machineType` | `azure_arm_parameters.vmSize` |
| spot: cheap, may be taken away | `InstanceMarketOptions` | `scheduling: [{preemptible: true}]` | `azure_arm_parameters.priority: Spot` |
| CPUs of a type | found out; leave `resources: {}` | write `{CPU: 2}` | write `{CPU: 2}` |
| disk | `BlockDeviceMappings` | `disks` | in the image's template |
| you need on your machine | `boto3`, credentials | `google-api-python-client`, credentials | the `azure-…` packages, `az login` |

Old blog posts name a fourth, Aliyun.
Does Ray accept its own defaults for each?
"""

# %% tags=["demo"]
for cloud in ("aws", "gcp", "azure", "aliyun"):
    try:
        print(cloud, len(given.validated(f"cluster_name: try\nprovider: {{type: {cloud}}}")), "sections")
    except FileNotFoundError as error:
        print(cloud, "no file", "/".join(Path(error.filename).parts[-3:]))

# %% [markdown]
r"""
Aliyun's defaults are missing from the package, so no `cluster.yaml` of that type gets further.
Use Kubernetes there, or `provider: local`, as in the next section.
"""

# %% [markdown]
r"""
## `ray up` hands a list of commands to ssh

The launcher needs no cloud.
With `provider: local` it logs in to machines that exist already:

    provider: {type: local, head_ip: 10.0.0.1, worker_ips: [10.0.0.2, 10.0.0.3]}

Everything it does on a machine goes through the programs `ssh` and `rsync`.
So put an `ssh` of your own first on the PATH, one that notes how it was called and runs nothing, and you see it all.
`given.handed_over` does so.

![Your laptop hands commands to ssh for the head: the token, the configuration, the setup, ray start; the monitor on the head then does the same for each worker](../img/ch24_launcher.svg)

**Predict:** the file below has one setup command.
How many commands will the head get, and how many will the worker get?
"""

# %% tags=["demo"]
own_machines = """
cluster_name: mine
provider: {type: local, head_ip: 10.0.0.1, worker_ips: [10.0.0.2]}
auth: {ssh_user: ann, ssh_private_key: ~/.ssh/id_ed25519}
setup_commands: [pip install -r requirements.txt]
"""
seen = given.handed_over(own_machines.replace(", ssh_private_key: ~/.ssh/id_ed25519", ""))  # you may have no key
pandas.set_option("display.max_colwidth", 140)
pandas.DataFrame(seen["commands"], columns=["machine", "command"])

# %% [markdown]
r"""
Only the head gets any.
`uptime` asks whether the machine answers; then come files, your setup, `ray stop`, and `ray start`.
Each command is a login of its own: a variable that one exports is gone in the next.

The workers are the head's business.
It received the configuration as a file, and its monitor logs in to each of them and does the same, with these as the last two:
"""

# %% tags=["demo"]
print("files for the head:")
for machine, _, to in seen["sent"]:
    print("  ", machine, to)
print("what the head will hand to ssh for a worker:")
for command in given.to_a_worker(seen["bootstrap"]):
    print("  ", command)

# %% [markdown]
r"""
So a head that cannot log in to its workers gets none, even if *you* can.
That is why the key named in the file travels with the configuration.

One thing is missing, chapter 6's token: nothing above switches tokens on, so anyone who can reach this cluster could use it.
Every node needs its file, `~/.ray/auth_token`.
A head that finds it there switches tokens on; a node that joins never does by itself, so its `ray start` needs `RAY_AUTH_MODE=token`, and so does every `ray` command that asks the cluster, on the head too.
`file_mounts` sends files from your machine to each node; its left side is the path on the node.
The fields `head_start_ray_commands` and `worker_start_ray_commands` replace the defaults:

    head_start_ray_commands:
      - ray stop
      - ray start --head --port=6379 --autoscaling-config=~/ray_bootstrap_config.yaml
    worker_start_ray_commands:
      - ray stop
      - ray start --address=$RAY_HEAD_IP:6379

Without `--autoscaling-config` the monitor knows of no workers.

Write `bring_up`: the text of a `cluster.yaml` for machines that exist, with tokens.
The check gives it to `ray up` with an `ssh` that runs nothing, and reads what arrives there.
"""


# %%
def bring_up(name, head, workers, user, token_file):
    """Return the text of a cluster.yaml: machines at `head` and `workers` (a list), a login, and a token from `token_file` here."""
    ### BEGIN SOLUTION
    return f"""
cluster_name: {name}
provider: {{type: local, head_ip: {head}, worker_ips: [{", ".join(workers)}]}}
auth: {{ssh_user: {user}}}
file_mounts: {{~/.ray/auth_token: {token_file}}}
head_start_ray_commands:
- ray stop
- export RAY_AUTH_MODE=token; ray start --head --port=6379 --autoscaling-config=~/ray_bootstrap_config.yaml
worker_start_ray_commands:
- ray stop
- export RAY_AUTH_MODE=token; ray start --address=$RAY_HEAD_IP:6379
"""
    ### END SOLUTION


# %%
check("bring_up", bring_up)

# %% [markdown] tags=["solution"]
r"""
A line `echo "export RAY_AUTH_MODE=token" >> ~/.bashrc` in `setup_commands` works as well, since every login reads that file, but a second `ray up` adds the line again.
The head passes `file_mounts` on, so the workers get the token from it, not from you.
For the head's own `ray start` the file would do; the variable says what you mean, and makes the command fail if the file is missing.
"""

# %%
### BEGIN SOLUTION
exported_in_setup = "b"
### END SOLUTION

# %%
quiz("exported_in_setup", exported_in_setup)

# %% [markdown]
r"""
## Two machines of your own, in this one

Now for real, with an `sshd`, there is a danger: `ray up` and `ray down` run `ray stop` on the machine, which ends every Ray it can see.
So the cell below makes two machines out of *namespaces*, the part of Linux that containers are made of: each has processes, a `/tmp` and a home of its own, and neither sees what runs outside.
That takes Linux, root, `sshd` and `rsync`.
If something is missing, the cell says what, and you miss little: it runs the commands you have just seen.

**Predict:** how long will it take for both nodes to come up?
"""

# %% tags=["demo"]
reason = given.why_not_here()
if reason:
    print(f"Not run here: {reason}.")
else:
    with machines.two_machines(token="ab" * 32) as laptop:
        began = time.perf_counter()
        given.on_two_machines(laptop)  # ray up
        print(f"the head is up after {time.perf_counter() - began:.0f} s")
        up = given.nodes_up(laptop, 2)  # ray exec cluster.yaml "ray status"
        print(f"the worker {'' if up else 'is not there '}after {time.perf_counter() - began:.0f} s")
        print(given.own_lines(laptop.run(given.WHERE)))  # ray rsync-up, ray exec
        laptop.run("ray down --yes cluster.yaml")

# %% [markdown]
r"""
Two remarks, both tried with Ray 2.60.

- Since 2.50, `ray up` starts a new autoscaler, version 2, and with `provider: local` it starts no workers.
  `RAY_UP_enable_autoscaler_v2=0 ray up …` takes version 1, as the cell does.
- `ray down` runs `ray stop` on the head only.
  The workers' raylets notice within a minute or so that their GCS is gone, and end.

And a warning: `ray exec --stop` and `ray submit --stop` do not stop just Ray.
They run `sudo shutdown -h now` on the head.
"""

# %% [markdown]
r"""
## A firewall must know the ports before Ray picks them

In a cloud, a firewall surrounds every machine and lets through only what a rule allows.
A node that cannot reach the others fails late, with a message about something else.
To see which ports a cluster needs, start a head, as in chapter 6, and ask the system where its processes listen.

**Predict:** how many ports, and how many of them did the command name?
"""

# %%
ray.shutdown()  # ends a Ray that already runs here: its references and actors are gone
cluster = OwnCluster(metrics=True)
given.use(cluster)  # the check below looks at this head, too
began = time.perf_counter()
cluster.start(given.head_command(cluster))
cluster.export()
start_seconds = time.perf_counter() - began
with ray.init(cluster.address, log_to_driver=False):
    ray.get(ray.remote(lambda: "done").remote())  # so that there is a worker
print(f"ready after {start_seconds:.0f} s")

# %% tags=["demo"]
print(given.head_command(cluster).replace(cluster.folder, "…"))
listening = pandas.DataFrame(given.sockets(cluster))
print(f"{listening.port.nunique()} ports")
listening

# %% [markdown]
r"""
Ray picks most ports at random, and they change with every start.
A rule needs a number, so each has an option of `ray start`:

| who listens | option of `ray start` | who must get through |
|---|---|---|
| `gcs` | `--port`: 6379 | nodes |
| `raylet`, two of them | `--node-manager-port`, `--object-manager-port` | nodes |
| `dashboard agent` | `--dashboard-agent-listen-port`, `--dashboard-agent-grpc-port`, `--metrics-export-port` | nodes; the last one for Prometheus |
| `runtime env agent` | `--runtime-env-agent-port` | nodes |
| `worker`s, tens of them; yours ended with its program | `--min-worker-port` and `--max-worker-port`: 10002 to 19999 | nodes |
| `dashboard` | `--dashboard-port`: 8265 | you |
| `client server` | `--ray-client-server-port`: 10001 | you |
| `metrics`: pages of the head's own | none: 44217 and 44227 | Prometheus |

An address says where a port can be reached from.
`127.…` and `::1` mean this machine alone: no rule opens it to others, and none is needed.
`0.0.0.0` and `::` mean every network the machine is in.

Write `firewall`, which gets the sockets of one node, as dictionaries with `process`, `address` and `port`, and the range of the workers' ports.
It returns `{"nodes": [...], "you": [...]}`: the ports to open to the other nodes of the cluster, and to you.
Tomorrow's workers will listen on different ports within the range.
Leave out `metrics`, which the next section opens, and `other`, which are not Ray's programs.
"""


# %%
def firewall(sockets, lowest, highest):
    """Return {"nodes": ports, "you": ports} to open, each a sorted list of numbers; workers use `lowest` to `highest`."""
    ### BEGIN SOLUTION
    for_whom = {"dashboard": "you", "client server": "you", "other": "nobody", "metrics": "nobody"}
    ports = {"nodes": set(range(lowest, highest + 1)), "you": set(), "nobody": set()}
    for each in sockets:
        local = each["address"].startswith("127.") or each["address"] == "::1"
        if each["process"] != "worker" and not local:
            ports[for_whom.get(each["process"], "nodes")].add(each["port"])
    return {name: sorted(ports[name]) for name in ("nodes", "you")}
    ### END SOLUTION


# %%
check("firewall", firewall)

# %% [markdown] tags=["solution"]
r"""
A port that listens on `127.0.0.1` and on the node's own address has two rows, and one rule.
People who write firewalls by hand usually open everything *between* the nodes, with one rule for their group, and only `ssh` from outside: you come in through `ssh -L`.
"""

# %% tags=["demo"]
if passed("firewall"):
    rules = firewall(given.sockets(cluster), 10002, 19999)
    print("for you:", rules["you"])
    print("for nodes, besides the workers' range:", [port for port in rules["nodes"] if not 10002 <= port <= 19999])

# %% [markdown]
r"""
The dashboard listens on `127.0.0.1` only, so no rule would help: that is the default of `ray start`, and a good one.
`--dashboard-host=0.0.0.0` opens it to every network: never do that without a token.
The launcher's default commands for AWS, GCP and Azure contain it, as you saw at the beginning.
"""

# %%
### BEGIN SOLUTION
open_dashboard = "c"
### END SOLUTION

# %%
quiz("open_dashboard", open_dashboard)

# %% [markdown]
r"""
## Prometheus asks the head where the pages are

Every node has a page of metrics (chapter 19), at a port that may be random.
Prometheus, which collects them, needs a list that changes as nodes come and go.
The head has one, in the format of Prometheus' *service discovery*: in a file, `prom_metrics_service_discovery.json` in the folder of the session, and over HTTP.
"""

# %% tags=["demo"]
reply = given.list_of_pages(cluster)  # GET /api/prometheus/sd; the head writes the list every five seconds
print(reply.text)
pages = given.scraped(reply.json()[0]["targets"])
for target, page in pages.items():
    families = {line.split()[2] for line in page.splitlines() if line.startswith("# TYPE")}
    print(f"{target}: {len(families)} families, among them {sorted(families)[len(families) // 2]}")

# %% [markdown]
r"""
The first is the node's agent; the others are the autoscaler, at port 44217, and the dashboard, at 44227.
A second head on the same machine finds those two taken, and its list leads to the first one's pages.

In Prometheus' configuration the list is one entry, and it needs the token:

    scrape_configs:
      - job_name: ray
        http_sd_configs:
          - url: http://head:8265/api/prometheus/sd
            authorization: {credentials_file: /etc/prometheus/ray_token}

The pages themselves need no token, so keep their ports inside your network.
"""

# %% tags=["demo"]
print("without the token:", requests.get(f"{cluster.dashboard}/api/prometheus/sd").status_code)
print("a page of metrics, without it:", requests.get(f"http://{next(iter(pages))}/metrics").status_code)

# %%
cluster.stop()

# %% [markdown]
r"""
## On Kubernetes you describe the cluster, and KubeRay keeps it so

Where there is a Kubernetes cluster, its administrator installs the **KubeRay operator** once, for example with Helm, which installs programs there:

    helm repo add kuberay https://ray-project.github.io/kuberay-helm/
    helm install kuberay-operator kuberay/kuberay-operator

From then on there are new kinds of objects.
You write what you want in a manifest, `kubectl apply -f` hands it over, and the operator starts, replaces and removes *pods*, one for each node:

- **RayCluster**: a head, groups of workers, and how many of each;
- **RayJob**: a RayCluster, a job for it, and whether the cluster goes away when the job ends.

KubeRay's own chart `kuberay/ray-cluster` makes a RayCluster from a file of values.

A manifest has many fields, and a misspelt one is the usual mistake.
`check_fields` compares a manifest with a table made from the reference of KubeRay 1.6.2: the fields of its own types, and the common ones of pods.
In the column `type`, `=` lists the values allowed, brackets mean a list, and a name with a capital letter is an object with fields of its own.
"""

# %% tags=["demo"]
ray_cluster = yaml.safe_load("""
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: course}
spec:
  rayVersion: "2.60.0"
  authOptions: {mode: token}            # the operator makes the token, and gives it to every pod
  enableInTreeAutoscaling: true         # the monitor runs beside the head, and asks for pods
  headGroupSpec:
    rayStartParams: {num-cpus: "0"}     # options of `ray start`, as text
    template: {spec: {containers: [{name: ray-head, image: "rayproject/ray:2.60.0",
      resources: {limits: {cpu: 2, memory: 8Gi}, requests: {cpu: 2, memory: 8Gi}}}]}}
  workerGroupSpecs:
  - groupName: players
    minReplicas: 0
    maxReplicas: 8
    rayStartParams: {}
    template: {spec: {containers: [{name: ray-worker, image: "rayproject/ray:2.60.0",
      resources: {limits: {cpu: 4, memory: 8Gi}, requests: {cpu: 4, memory: 8Gi}}}]}}
""")

# %% tags=["demo"]
fields = pandas.DataFrame(check_fields(ray_cluster))
print(len(fields), "fields,", (fields.finding != "").sum(), "findings; all but the inside of the pods:")
fields[~fields.field.str.contains(r"\.template\.")].reset_index(drop=True)

# %% [markdown]
r"""
Every field is in the table, so the last column is empty.
The options of `ray start` above return as `rayStartParams`; the operator sees to the address and the token.
A node's CPUs come from the pod's `resources`: give the same in `limits` and `requests`.

A RayJob wraps this.
Its fields are the job's: `entrypoint`, and the runtime environment as YAML within the YAML.
Three fields of the second one are wrong: which?
"""

# %% tags=["demo"]
job_spec = {
    "entrypoint": "python squares.py",
    "runtimeEnvYAML": "env_vars: {GREETING: hello}\nworking_dir: https://example.org/project.zip\n",
    "shutdownAfterJobFinishes": True,  # otherwise the cluster stays, and costs
    "ttlSecondsAfterFinished": 300,  # time to read the log
    "rayClusterSpec": ray_cluster["spec"],
}
ray_job = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "squares"}, "spec": job_spec}
print("findings in the first:", [row for row in check_fields(ray_job) if row["finding"]])

careless = dict(job_spec, runtimeEnv=job_spec["runtimeEnvYAML"], ttlSecondsAfterFinished="5 minutes")
careless["rayClusterSpec"] = {**ray_cluster["spec"], "workerGroupSpec": ray_cluster["spec"]["workerGroupSpecs"]}
findings = pandas.DataFrame(check_fields(dict(ray_job, spec=careless)))
findings[findings.finding != ""].reset_index(drop=True)

# %% [markdown]
r"""
A cluster would tell you too: `kubectl apply --dry-run=server -f job.yaml` compares the manifest with the definitions installed there.
It is the better judge, since it knows its own KubeRay; the table serves when you have no cluster.

| | `ray start` by hand | cluster launcher | KubeRay |
|---|---|---|---|
| a node is | any machine | a machine rented from a cloud | a pod |
| you write | a command for each | `cluster.yaml` | a manifest |
| who adds nodes | you | the monitor on the head | the monitor asks, the operator adds |
| a node dies | you notice | another is rented | another pod starts |
| choose it for | two machines under the desk, Slurm, tests | a cloud account and no Kubernetes | everything, if Kubernetes is at hand |
"""

# %% [markdown]
r"""
Now write one you could use.
The head is for the GCS alone, so tell it `num-cpus: "0"`.
Head and workers take the same image, `rayproject/ray:VERSION`.
Tokens are on.
Workers come only with demand, and never more than `most`.
When the job has ended, the cluster goes; and a job that hangs ends after `hours`: `activeDeadlineSeconds` counts from its start, including the start of its cluster.
"""


# %%
def rayjob(name, entrypoint, version, most, hours):
    """Return a RayJob manifest, as a dictionary: a head that runs no tasks, one group of 0 to `most` workers with 4 CPUs each."""
    ### BEGIN SOLUTION
    def pod(container, cpus):
        amounts = {"cpu": cpus, "memory": "8Gi"}
        container = {"name": container, "image": f"rayproject/ray:{version}"}
        return {"spec": {"containers": [container | {"resources": {"limits": amounts, "requests": amounts}}]}}

    workers = {"groupName": "workers", "minReplicas": 0, "maxReplicas": most, "template": pod("ray-worker", 4)}
    cluster = {
        "rayVersion": version,
        "authOptions": {"mode": "token"},
        "enableInTreeAutoscaling": True,
        "headGroupSpec": {"rayStartParams": {"num-cpus": "0"}, "template": pod("ray-head", 2)},
        "workerGroupSpecs": [workers],
    }
    ends = {"shutdownAfterJobFinishes": True, "activeDeadlineSeconds": hours * 3600}
    spec = {"entrypoint": entrypoint, "rayClusterSpec": cluster, **ends}
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": name}, "spec": spec}
    ### END SOLUTION


# %%
check("rayjob", rayjob)

# %% [markdown] tags=["solution"]
r"""
Equal limits and requests give a pod exactly what Ray believes it has.
With a smaller request, Kubernetes may put more pods on a machine than it can feed, and Ray, which reads the limit, doesn't know.
"""

# %% [markdown] tags=["notes"]
r"""
If somebody has a Kubernetes cluster at hand, `kubectl explain rayjob.spec --recursive` is the table, live.
"""

# %% [markdown]
r"""
## An image makes nodes alike

All nodes of a cluster need the same Ray and the same Python, and your program needs the same packages on each.
`setup_commands` that install packages run on every new node, take minutes each time, and may install a newer version tomorrow.
An **image** is built once and is the same everywhere:

    FROM rayproject/ray:2.60.0-py311
    COPY requirements.txt .
    RUN pip install -r requirements.txt

KubeRay always works with images.
The launcher does when the file says so; it then runs your commands in the container, with `docker exec`.
Ray checks these fields, too:
"""

# %% tags=["demo"]
in_docker = example + "docker: {image: registry.example.org/course:7, container_name: ray, pull_before_run: True}\n"
print(given.validated(in_docker)["docker"])
try:
    given.validated(in_docker.replace("container_name", "name"))
except Exception as error:
    print(type(error).__name__, str(error).splitlines()[0])

# %% [markdown]
r"""
For packages that change with every experiment an image is too slow; a runtime environment brings them (chapter 6).
A tag such as `:latest` may give two nodes that start an hour apart two different images: write a number.

## A node that waits costs as much as one that works

The autoscaler rents a node when something is pending, and returns it after five idle minutes (`idle_timeout_minutes` in a `cluster.yaml`) or one (KubeRay's `idleTimeoutSeconds: 60`).
A short time saves money, but makes the next job wait for a machine.

Try it on a day of work: forty jobs of about four minutes, at random times in ten hours, each on a node of its own.
A new node takes as long as your head took above, plus a minute for the machine to boot.
An hour costs 0.40 of whatever you pay with; a node is billed from rent to return.

**Predict:** will an idle time of 60 minutes cost twice as much as one of 1 minute, or more?
"""

# %%
rng = np.random.default_rng(24)
arrivals, works = np.sort(rng.uniform(0, 600, 40)), rng.exponential(4, 40)  # minutes
new_node = 1 + start_seconds / 60


def day(idle):
    """Return what the day costs, and the mean minutes that a job waits, when nodes may be idle for `idle` minutes."""
    free, paid, waits = [], 0.0, []  # free: when each node that we still have began to be idle
    for arrival, work in zip(arrivals, works, strict=True):
        paid += sum(idle for since in free if since + idle < arrival)  # returned meanwhile
        free = [since for since in free if since + idle >= arrival]
        idle_now = [since for since in free if since <= arrival]
        waits.append(0.0 if idle_now else new_node)
        paid += work + waits[-1]
        if idle_now:
            free.remove(max(idle_now))
            paid += arrival - max(idle_now)
        free.append(arrival + waits[-1] + work)
    return 0.40 * (paid + idle * len(free)) / 60, np.mean(waits)


# %% tags=["demo"]
times = [1, 2, 5, 10, 20, 60]
costs, waits = zip(*[day(idle) for idle in times], strict=True)
figure, axes = plt.subplots(figsize=(7, 3), constrained_layout=True)
axes.plot(waits, costs, "o-", color="#64748b")
for idle, wait, cost in zip(times, waits, costs, strict=True):
    axes.annotate(f"{idle:g} min", (wait, cost), xytext=(5, 5), textcoords="offset points")
axes.margins(x=0.12)
axes.set(xlabel="minutes that a job waits for a node, mean", ylabel="cost of the day", ylim=(0, 1.2 * costs[-1]))
axes.set_title("Each point is an idle time")
print(f"60 minutes cost {costs[-1] / costs[0]:.1f} times as much as one; the work alone: {0.40 * works.sum() / 60:.2f}");

# %% [markdown]
r"""
Money buys waiting time, and no point of the curve is the best: it depends on what your time is worth.
What the plot leaves out matters as much.

- A head runs all day, whether there are jobs or not, and it is on the bill as well.
- Spot machines cost a fraction, and may be taken away: for workers whose tasks can run again (chapter 5), never for a head.
- Disks, addresses and traffic between zones are billed apart.
- `max_workers` is the only limit on the bill that Ray has.
  A loop that submits too much reaches it, so choose what you can afford to lose.
"""

# %%
### BEGIN SOLUTION
idle_for_longer = "a"
### END SOLUTION

# %%
quiz("idle_for_longer", idle_for_longer)

# %% [markdown]
r"""
## What you can do now

- You write a `cluster.yaml`, have it checked by Ray's schema, and know what the schema does not see.
- You know every command that `ray up` hands to `ssh`, and what the head's monitor hands on to the workers.
- You open the ports a cluster needs, to those who need them, and no others.
- You let Prometheus find all pages of a cluster that grows and shrinks.
- You write a RayCluster and a RayJob field by field, and find a wrong one.
- You weigh the cost of a waiting node against the cost of waiting for one.

## Traps

- **`max_workers` at the top** of a `cluster.yaml` for a cloud is 2 unless you say otherwise, and `min_workers` at the top is dropped.
  For machines of your own, both count the addresses unless you say otherwise.
- **`export` in a setup command** is gone with that login.
- **No `--autoscaling-config`** in a `ray start --head` of your own: the cluster stays a head.
- **`ray up` on a machine that others use** runs `ray stop` there and ends their Rays too.
- **`--stop`** shuts the machine down.
- **`ray down` on AWS and Azure** only stops the machines unless `cache_stopped_nodes` is `False`.
- **A random port** cannot have a rule; name all of them, on every node.
- **`:latest`** is another image tomorrow.

## Read on

- Ray's documentation: [cluster.yaml](https://docs.ray.io/en/latest/cluster/vms/references/ray-cluster-configuration.html), [machines of your own](https://docs.ray.io/en/latest/cluster/vms/user-guides/launching-clusters/on-premises.html), [ports](https://docs.ray.io/en/latest/ray-core/configure.html#ports-configurations), [metrics](https://docs.ray.io/en/latest/cluster/metrics.html), [token authentication](https://docs.ray.io/en/latest/ray-security/token-auth.html).
- Ray's [issue 57153](https://github.com/ray-project/ray/issues/57153): the new autoscaler and `provider: local`.
- KubeRay's [API reference](https://github.com/ray-project/kuberay/blob/v1.6.2/docs/reference/api.md) of release 1.6.2, from which the table of fields was made, and its guide to [RayJob](https://docs.ray.io/en/latest/cluster/kubernetes/getting-started/rayjob-quick-start.html).
- [Old names](../docs/old_names.md): the Helm chart in Ray's repository, and others you may meet in older texts.
"""
