# %% [markdown] you_learn_to="bring up a cluster in a cloud, on your own machines, or on Kubernetes, and know its ports and costs"
r"""
# Chapter 24 · Deploying clusters

Write the cluster down, and check it before you pay for it.

*About 115 minutes · builds on [Chapter 6](ch06_cluster.ipynb); [Chapters 4](ch04_scheduling.ipynb) and [19](ch19_operate.ipynb) help*

You need neither a cloud account nor Kubernetes.

**What you will be able to do**

- write a `cluster.yaml` for a cloud or for your own machines, and validate it before it costs money;
- read the commands that `ray up` runs on a machine, and find out why a node doesn't join;
- list the ports that a firewall must open, and let Prometheus find the cluster's metrics;
- write a manifest for Kubernetes, and find its wrong fields;
- estimate what an idle node costs, and choose an idle timeout.
"""

# %%
import time

import matplotlib.pyplot as plt
import pandas
import ray
import requests
import yaml

from coursekit import begin, check, explain, hint, measured, passed, predict, puzzle, quiz, review, solution
from coursekit.given import ch24_deploy as given
from coursekit.given import machines
from coursekit.given.kuberay import check_fields
from coursekit.given.own_cluster import OwnCluster

begin("ch24_deploy")

# %% [markdown] tags=["notes"]
r"""
The chapter takes 115 minutes with all four exercises; if you have ninety, leave `rayjob` to the people who use Kubernetes.
Start with two questions: who pays for the cluster that you use, and who could shut it down?
If your machine runs Linux and you have root, `sshd`, and `rsync`, run the section with two machines before the session.
"""

# %% [markdown]
r"""
## Ray validates a cluster.yaml before it rents any machines

The [cluster launcher](../docs/glossary.md#cluster-launcher) rents machines, installs your software, and runs `ray start` on each machine over SSH:

| command | what it does |
|---|---|
| `ray up cluster.yaml` | rents the [head node](../docs/glossary.md#head-node) and sets it up; the [autoscaler](../docs/glossary.md#autoscaler) there rents workers when there is demand |
| `ray attach cluster.yaml` | opens a shell on the head; with `--port-forward 8888`, you reach a JupyterLab there |
| `ray exec cluster.yaml "…"` | runs a command on the head |
| `ray rsync-up cluster.yaml here there` | copies files to the head |
| `ray dashboard cluster.yaml` | forwards the dashboard to your machine |
| `ray down cluster.yaml` | shuts the cluster down |

By default, `ray down` only *stops* Azure machines and on-demand AWS machines, and their disks still cost money.
With `cache_stopped_nodes: False`, it deletes the machines; check the cloud's console afterward.

Ray has a schema for `cluster.yaml`, and defaults for the sections that you leave out.
`given.validated` fills in the defaults and validates the result, as `ray up` does first.
The file below has six sections.
"""

# %% tags=["demo"]
example = """
cluster_name: example
max_workers: 2                      # in addition to the head
provider: {type: aws, region: us-west-2, cache_stopped_nodes: False}  # False: `ray down` deletes the machines
auth: {ssh_user: ubuntu}
head_node_type: head                # one of the node types below
available_node_types:
  head:
    resources: {}                   # empty: Ray looks up the CPUs of the machine type
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
The last command is the `ray start --head` that you know, with the file itself as `--autoscaling-config`.
This tells the autoscaler which [node types](../docs/glossary.md#node-type) it may rent.
The `ray stop` before it does no harm here, because nothing else runs on a rented machine.
If a machine has no Ray, the default `setup_commands` install a nightly build, so write your own, with the version that you use.

**Predict:** how many of these five mistakes does the validation catch?

- `head_node_type: haed`, which isn't a node type in the file
- `max_workers: two`
- `instance_type: m5.large` at the top level, which isn't a field
- `m5.gigantic`, which isn't a machine type
- `min_workers: 2` at the top level
"""

# %% tags=["demo"]
predict("mistakes_refused", ...)  # of the five mistakes

# %% tags=["demo"]
mistakes = {
    "head_node_type: haed": ("head_node_type: head ", "head_node_type: haed "),
    "max_workers: two": ("max_workers: 2 ", "max_workers: two "),
    "instance_type at the top": ("auth:", "instance_type: m5.large\nauth:"),
    "InstanceType: m5.gigantic": ("m5.xlarge", "m5.gigantic"),
    "min_workers at the top": ("auth:", "min_workers: 2\nauth:"),
}
outcomes = {}
for mistake, (right, wrong) in mistakes.items():
    try:
        given.validated(example.replace(right, wrong))
        outcomes[mistake] = "accepted"
    except Exception as error:
        outcomes[mistake] = f"{type(error).__name__}: {str(error).splitlines()[0][:90]}"
    print(f"{mistake:26} {outcomes[mistake]}")
measured("mistakes_refused", sum(outcome != "accepted" for outcome in outcomes.values()))

# %% [markdown]
r"""
It catches three: those with a wrong name or a wrong type in the general fields.
Everything under `node_config` goes to the cloud unchecked.
`ray up` does look up the machine type at AWS, but only warns if AWS doesn't have it.
The top-level `min_workers`, which older versions used, is silently dropped, so set it per node type.

Write `cluster_yaml`, which returns the text of a file that you could use.
Its small head runs the [GCS](../docs/glossary.md#gcs), but no tasks.
To keep tasks off a node, put `CPU: 0` in the `resources` of its type; by default, Ray uses the machine's own number of CPUs.
"""

# %%
def cluster_yaml(name, region, worker, least, most):
    """Return the text of a cluster.yaml for AWS: an m5.large head that runs no tasks, and one type of worker.

    The cluster is called `name` and runs in `region`. Its workers are machines of type `worker`, and there are
    between `least` and `most` of them. Both the node type and the cluster as a whole allow `most` workers.
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
Without a top-level `max_workers`, the default of two applies to the whole cluster, even if a node type allows twelve.
If your cluster doesn't scale, look there first.
It's safer to write such a file with `yaml.safe_dump` than with an f-string, because `safe_dump` adds quotes where YAML needs them.
"""

# %% [markdown]
r"""
### AWS, GCP, and Azure use different names for the same fields

Machine type, spot instances, and disks are set in a type's `node_config`:

| | AWS | GCP | Azure |
|---|---|---|---|
| location | `provider.region`, `availability_zone` | the same, and `project_id` | `location`, `resource_group`, `availability_zone` |
| machine type | `InstanceType` | `machineType` | `azure_arm_parameters.vmSize` |
| [spot instance](../docs/glossary.md#spot-instance): cheaper, but can be taken away | `InstanceMarketOptions` | `scheduling: [{preemptible: true}]` | `azure_arm_parameters.priority: Spot` |
| CPUs of a node type | looked up; leave `resources: {}` | write `{CPU: 2}` | write `{CPU: 2}` |
| disk size | `BlockDeviceMappings` | `disks` | `azure_arm_parameters.osDiskSize` |
| needed on your machine | `boto3`, credentials | `google-api-python-client`, credentials | the `azure-…` packages, `az login` |

Old blog posts list Aliyun, too, but Ray 2.60 lacks its defaults, so it can't read such a file.
"""

# %% [markdown]
r"""
## `ray up` runs a list of commands on the head over SSH

The launcher doesn't need a cloud.
With `provider: local`, it logs in to machines that already exist:

    provider: {type: local, head_ip: 10.0.0.1, worker_ips: [10.0.0.2, 10.0.0.3]}

Everything that it does there goes through two programs, `ssh` and `rsync`.
`given.dry_run` replaces them with programs that only record how they were called, so you can see every command.

![Your laptop sends commands to the head over ssh: the token, the configuration, the setup, ray start; the autoscaler on the head then does the same for each worker](../img/ch24_launcher.svg)

**Predict:** the file below has one head, one worker, and one setup command.
How many commands does `ray up` send to the *worker*?
"""

# %% tags=["demo"]
predict("commands_for_the_worker", ...)  # commands

# %% tags=["demo"]
own_machines = """
cluster_name: mine
provider: {type: local, head_ip: 10.0.0.1, worker_ips: [10.0.0.2]}
auth: {ssh_user: ann, ssh_private_key: ~/.ssh/id_ed25519}
setup_commands: [pip install -r requirements.txt]
"""
seen = given.dry_run(own_machines.replace(", ssh_private_key: ~/.ssh/id_ed25519", ""))  # you may not have this key
pandas.set_option("display.max_colwidth", 140)
display(pandas.DataFrame(seen["commands"], columns=["machine", "command"]))
measured("commands_for_the_worker", sum(machine == "10.0.0.2" for machine, _ in seen["commands"]))

# %% [markdown]
r"""
The worker gets none, because `ray up` contacts only the head.
First, `uptime` tests whether the machine responds.
Then come the files, your setup, `ray stop`, and `ray start`.
Each command runs in a new login shell, so a variable that one command exports isn't set in the next.

The head has received the configuration as a file.
Its autoscaler repeats these steps on each worker, and ends with two commands:
"""

# %% tags=["demo"]
print("files for the head:")
for machine, _, to in seen["sent"]:
    print("  ", machine, to)
print("the last commands for a worker, sent by the head:")
for command in given.commands_for_a_worker(seen["bootstrap"]):
    print("  ", command)

# %% [markdown]
r"""
So if the head can't log in to a worker, the worker doesn't join, even if *you* can log in to it.
That's why `ray up` also sends the head the private key that the file names.

Nothing above enables [tokens](../docs/glossary.md#token-authentication), so anyone who can reach this cluster can run code on it.
You need two changes:

- Send the token to every node.
  `file_mounts` maps a path on the nodes to a file on your machine, and Ray looks for the token in `~/.ray/auth_token`.
- Set `RAY_AUTH_MODE=token` in the command that starts a worker.
  A head that finds a token enables tokens by itself, but a node that joins doesn't.

Your start commands replace the defaults, so write them in full:

    head_start_ray_commands:
      - ray stop
      - ray start --head --port=6379 --autoscaling-config=~/ray_bootstrap_config.yaml
    worker_start_ray_commands:
      - ray stop
      - ray start --address=$RAY_HEAD_IP:6379

The launcher sets `RAY_HEAD_IP`; without `--autoscaling-config`, the head starts no workers.

Write `bring_up`, which returns the text of a `cluster.yaml` for existing machines, with tokens on all nodes.
The check reads the commands that a dry run records.
"""


# %%
def bring_up(name, head, workers, user, token_file):
    """Return the text of a cluster.yaml for machines that exist: a head, workers, and tokens on all of them.

    The cluster is called `name`. `head` is an address and `workers` a list of addresses; all of the workers may join.
    The launcher logs in as `user`. `token_file` is the path of the token on the machine that runs `ray up`.
    """
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
The line `echo "export RAY_AUTH_MODE=token" >> ~/.bashrc` in `setup_commands` works, too, because every login reads that file, but the line is added again whenever the setup commands run again.
The head passes the `file_mounts` on, so the workers get the token from the head, not from you.
The head's own `ray start` would find the token without the variable, but with it, the command fails if the file is missing.
"""

# %%
### BEGIN SOLUTION
exported_in_setup = "b"
### END SOLUTION

# %%
quiz("exported_in_setup", exported_in_setup)

# %% [markdown]
r"""
## Try the launcher on two machines made of Linux namespaces

Trying `ray up` on your own machine is risky, because it calls `ray stop`, which kills every Ray process that your login is allowed to kill.
So the next cell makes two machines out of *Linux namespaces*, the mechanism behind containers: each has its own processes, `/tmp`, and home directory, and neither can see what runs outside.
This takes about a minute and requires Linux, root, `sshd`, and `rsync`.
If something is missing, the cell names it.
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
        print(f"the worker {'is up ' if up else 'is not there '}after {time.perf_counter() - began:.0f} s")
        print(given.own_lines(laptop.run(given.WHERE)))  # ray rsync-up, ray exec
        laptop.run("ray down --yes cluster.yaml")

# %% [markdown]
r"""
The cell can't use `ray attach`, which is `ray exec` with the command `$SHELL` and waits for you to type.
Three things to know about Ray 2.60:

- `ray up` enables version 2 of the autoscaler, which starts no workers on your own machines.
  `RAY_UP_enable_autoscaler_v2=0 ray up …` selects version 1, as our cells do.
- With `provider: local`, `ray down` runs `ray stop` only on the head.
  The workers' raylets exit after about a minute without the GCS.
- `ray exec --stop` and `ray submit --stop` also run `sudo shutdown -h now` on the head.

On **Slurm**, your batch script starts Ray on the machines that Slurm assigns.
On each of them, it runs `ray symmetric-run`, which starts the head at the address that you pass, lets the others join, runs your program on the head, and calls `ray stop` at the end:

    #SBATCH --nodes=4 --ntasks-per-node=1 --cpus-per-task=8 --exclusive
    export RAY_AUTH_MODE=token    # all nodes share ~/.ray/auth_token
    head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
    srun --cpus-per-task=8 ray symmetric-run --address="$head:6379" --min-nodes=4 --num-cpus=8 -- python train.py
"""

# %% [markdown]
r"""
## A firewall needs fixed ports, but Ray picks most of them at random

A cloud's firewall blocks every connection that no rule allows.
If a rule is missing, nodes fail late, with an error message that doesn't mention the firewall.
To see which ports a cluster needs, start a head and list the ports on which its processes listen.
"""

# %%
ray.shutdown()  # stops a Ray instance that's already running here: its references and actors are gone
cluster = OwnCluster(metrics=True)
given.use(cluster)  # the check below reads this head's ports, too
began = time.perf_counter()
cluster.start(given.head_command(cluster))
cluster.export()
start_seconds = time.perf_counter() - began
with ray.init(cluster.address, log_to_driver=False):
    ray.get(ray.remote(lambda: "done").remote())
print(f"ready after {start_seconds:.0f} s")
print(given.head_command(cluster).replace(cluster.folder, "…"))

# %% [markdown]
r"""
**Predict:** the command above sets three ports (0 means any free port).
On how many ports does the head listen?
"""

# %% tags=["demo"]
predict("ports_of_a_head", ...)  # ports

# %% tags=["demo"]
listening = pandas.DataFrame(given.sockets(cluster))
display(listening)
measured("ports_of_a_head", listening.port.nunique())

# %% [markdown]
r"""
Ray picks most of the others at random, so they change with every start.
A rule needs a number, so set them with these options of `ray start`:

| process | option of `ray start`, and its default | who connects |
|---|---|---|
| `gcs` | `--port`: 6379 | nodes |
| `raylet`, on two ports | `--node-manager-port`, `--object-manager-port` | nodes |
| `dashboard agent` | `--dashboard-agent-listen-port`: 52365, `--dashboard-agent-grpc-port`, `--metrics-export-port` | nodes, and Prometheus to the last one |
| `runtime env agent` | `--runtime-env-agent-port` | nodes |
| `worker` | `--min-worker-port`: 10002, `--max-worker-port`: 19999 | nodes |
| `dashboard` | `--dashboard-port`: 8265 | you |
| `client server` | `--ray-client-server-port`: 10001 | you |
| `metrics` of the head | no option; 44217 and 44227 | Prometheus |

The address says which machines can reach a port.
Ports on `127.…` and `::1` accept connections only from their own machine, so they need no rule.
Ports on `0.0.0.0` and `::` accept them from every network that the machine is on.

Write `firewall`, which takes the sockets of one node and the range of worker ports, and returns the ports to open to the other nodes and to you.
Tomorrow's workers will listen on other ports in the range, so open all of it.
Open no port for `metrics`, the topic of the next section, or for `other`, which isn't part of Ray.
"""


# %%
def firewall(sockets, lowest, highest):
    """Return {"nodes": ports, "you": ports}: lists of the ports to open to the other nodes and to you, in any order.

    Each socket is a dictionary with "process", "address", and "port". Workers use the ports from `lowest` to
    `highest`, both included. Leave out ports that only their own machine can reach.
    """
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
A process that listens on `127.0.0.1` and on the node's own address has two rows, but its port needs one rule.
In practice, most people open everything *between* the nodes, with one rule for their security group, and only SSH from outside: you then reach the dashboard through `ssh -L`.
"""

# %% tags=["demo"]
if passed("firewall"):
    rules = firewall(given.sockets(cluster), 10002, 19999)
    print("for you:", rules["you"])
    print("for nodes, besides the workers' range:", [port for port in rules["nodes"] if not 10002 <= port <= 19999])

# %% [markdown]
r"""
The dashboard isn't in your list, because it listens only on `127.0.0.1` by default.
`--dashboard-host=0.0.0.0` opens it to every network, so never set that without a token.
The launcher's default commands for AWS, GCP, and Azure do set it, as you saw in the first section.
"""

# %%
### BEGIN SOLUTION
open_dashboard = "c"
### END SOLUTION

# %%
quiz("open_dashboard", open_dashboard)

# %% [markdown]
r"""
## Prometheus gets its list of targets from the head

Every node serves its metrics over HTTP (Chapter 19), by default on a random port.
Prometheus, which collects them, needs the current list of addresses.
For [service discovery](../docs/glossary.md#service-discovery), the head writes this list to `prom_metrics_service_discovery.json` in the session's folder and serves it over HTTP:
"""

# %% tags=["demo"]
reply = given.scrape_targets(cluster)  # GET /api/prometheus/sd; the head updates the list every five seconds
print(reply.text)
pages = given.scraped(reply.json()[0]["targets"])
for target, page in pages.items():
    families = {line.split()[2] for line in page.splitlines() if line.startswith("# TYPE")}
    print(f"{target}: {len(families)} metrics, such as {sorted(families)[len(families) // 2]}")

# %% [markdown]
r"""
The first target is the node's dashboard agent; the others are the autoscaler, on port 44217, and the dashboard, on 44227.
A second head on the same machine can't have these two ports, so its list leads to the first head's metrics.

This entry in Prometheus' configuration works if Prometheus runs on the head, because the dashboard listens only there:

    scrape_configs:
      - job_name: ray
        http_sd_configs:
          - url: http://localhost:8265/api/prometheus/sd
            authorization: {credentials_file: /etc/prometheus/ray_token}

**Predict:** what HTTP status do the metrics themselves return without a token, 200 (OK) or 401 (unauthorized)?
"""

# %% tags=["demo"]
predict("metrics_without_a_token", ..., ["200", "401"])

# %% tags=["demo"]
print("the list, without a token:", requests.get(f"{cluster.dashboard}/api/prometheus/sd").status_code)
status = requests.get(f"http://{next(iter(pages))}/metrics").status_code
print("the metrics, without a token:", status)
measured("metrics_without_a_token", str(status))

# %% [markdown]
r"""
The list requires the token, but the metrics don't, so open their ports only to Prometheus.
"""

# %%
cluster.stop()

# %% [markdown]
r"""
## On Kubernetes, you describe the cluster and KubeRay maintains it

An administrator of the Kubernetes cluster installs the [KubeRay](../docs/glossary.md#kuberay) operator once, for example with the package manager Helm:

    helm repo add kuberay https://ray-project.github.io/kuberay-helm/
    helm install kuberay-operator kuberay/kuberay-operator

This adds new kinds of objects to Kubernetes.
You describe one in a [manifest](../docs/glossary.md#manifest) and submit it with `kubectl apply -f`.
The operator then starts, replaces, and removes [pods](../docs/glossary.md#pod), one per Ray node, for objects such as these:

- A **RayCluster** is a head and groups of workers.
- A **RayJob** is a RayCluster and a job that runs on it.

`check_fields` finds mistakes: it compares a manifest with the API reference of KubeRay 1.6.2, and the inside of the pods with Kubernetes' most common fields.
In the `type` column, `=` lists the allowed values, brackets mean a list, and a capitalized name is an object with its own fields.
"""

# %% tags=["demo"]
ray_cluster = yaml.safe_load("""
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: course}
spec:
  rayVersion: "2.60.0"
  authOptions: {mode: token}            # the operator generates the token and passes it to every pod
  enableInTreeAutoscaling: true         # the autoscaler runs beside the head and requests pods
  headGroupSpec:
    rayStartParams: {num-cpus: "0"}     # options of `ray start`, as strings
    template: {spec: {containers: [{name: ray-head, image: "rayproject/ray:2.60.0",
      resources: {limits: {cpu: 2, memory: 8Gi}, requests: {cpu: 2, memory: 8Gi}}}]}}
  workerGroupSpecs:
  - groupName: samplers
    minReplicas: 0
    maxReplicas: 8
    rayStartParams: {}
    template: {spec: {containers: [{name: ray-worker, image: "rayproject/ray:2.60.0",
      resources: {limits: {cpu: 4, memory: 8Gi}, requests: {cpu: 4, memory: 8Gi}}}]}}
""")

# %% tags=["demo"]
fields = pandas.DataFrame(check_fields(ray_cluster))
print(len(fields), "fields,", (fields.finding != "").sum(), "findings; here are all fields except those inside the pods:")
fields[~fields.field.str.contains(r"\.template\.")].reset_index(drop=True)

# %% [markdown]
r"""
The last column is empty, because all fields exist and have allowed values.
The options of `ray start` appear here as `rayStartParams`; the operator adds the address and the token.
Ray takes a node's CPUs from the pod's `resources`.
Set `limits` and `requests` to the same amounts.

A RayJob adds the fields of a job, such as its `entrypoint`.
The second job below has three mistakes: can you find them before `check_fields` does?
"""

# %% tags=["demo"]
job_spec = {
    "entrypoint": "python squares.py",
    "runtimeEnvYAML": "env_vars: {GREETING: hello}\nworking_dir: https://example.org/project.zip\n",
    "shutdownAfterJobFinishes": True,  # otherwise the cluster keeps running, and you keep paying
    "ttlSecondsAfterFinished": 300,  # time to read the logs
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
On a real cluster, `kubectl apply --dry-run=server -f job.yaml` finds such mistakes, too.

| | `ray start` by hand | cluster launcher | KubeRay |
|---|---|---|---|
| a node is | any machine | a machine rented from a cloud | a pod |
| you write | a command per node | a `cluster.yaml` | a manifest |
| nodes are added by | you | the autoscaler | the operator, when the autoscaler requests pods |
| use it for | two machines under a desk, Slurm, tests | a cloud account without Kubernetes | everything, if you have Kubernetes |

Write `rayjob`, which returns the manifest of a job with its own cluster.
The head runs no tasks: it has `num-cpus: "0"`.
All containers use the image `rayproject/ray:VERSION`, `rayVersion` names the same version, and tokens are enabled.
Workers start only when there is demand, and the cluster is deleted when the job ends.
A job that hangs has to end, too: `activeDeadlineSeconds` limits its time, which includes the start of its cluster.
"""


# %%
def rayjob(name, entrypoint, version, most, hours):
    """Return the manifest of a RayJob called `name`, as a dictionary: it runs `entrypoint` for at most `hours` hours.

    Its head runs no tasks. One group has 0 to `most` workers with 4 CPUs each, as both limit and request.
    `version` is the version of Ray.
    """
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
With equal limits and requests, a pod gets exactly the CPUs that Ray counts on.
With a smaller request, Kubernetes may place more pods on a machine than it has CPUs for, and Ray, which reads the limit, doesn't notice.
"""

# %% [markdown] tags=["notes"]
r"""
If somebody has a Kubernetes cluster with KubeRay, `kubectl explain rayjob.spec --recursive` prints the fields of the version installed there.
"""

# %% [markdown]
r"""
### RayService upgrades without downtime, and GCS fault tolerance protects against a head failure

A **RayService** is a RayCluster with Serve applications on it (Chapter 18).
If you change an application, the operator updates it in place.
If you change the cluster, for example its image, the operator by default starts a second cluster, waits until the applications are healthy there, moves the traffic, and deletes the first cluster.

By default, the GCS keeps its tables in memory (Chapter 5).
If the head pod dies, the new one doesn't know the old workers and terminates them, and your actors with them.
With `gcsFaultToleranceOptions: {redisAddress: "redis:6379"}` in the RayCluster's `spec`, the GCS keeps its tables in a Redis instance that you run.
[Detached actors](../docs/glossary.md#detached-actor) on the workers then survive, but a driver on the head is still lost, and its other actors end with it.
"""

# %% [markdown]
r"""
## A container image gives every node the same software

All nodes need the same versions of Ray and Python, and the packages that your program imports.
`setup_commands` that install packages run on every new node, can take minutes, and may install a newer version tomorrow.
A [container image](../docs/glossary.md#container-image) is built once and is the same everywhere:

    FROM rayproject/ray:2.60.0-py311
    COPY requirements.txt .
    RUN pip install -r requirements.txt

KubeRay always uses images.
The launcher uses one if the file has a `docker` section; setup and start commands then run in the container.
Ray validates this section, too:
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
With a tag such as `:latest`, two nodes that start an hour apart can get two different images, so use a version number.
"""

# %% [markdown]
r"""
## An idle node costs as much as a busy one

The autoscaler rents a node when work is pending, and returns it after the [idle timeout](../docs/glossary.md#idle-timeout): by default, five minutes with the launcher (`idle_timeout_minutes`) and one minute with KubeRay (`idleTimeoutSeconds`).
A short timeout saves money, but more jobs have to wait for a new node.

`given.cost_of_a_day` simulates forty jobs of about four minutes at random times over ten hours, with one job per node at a time.
A new node takes a minute to boot, plus the time that your head took to start above.
You pay 0.40 per hour for a node, from the moment it's rented until it's returned.

**Predict:** how many times as much does the day cost with an idle timeout of 60 minutes as with one of 1 minute?
"""

# %% tags=["demo"]
predict("cost_of_60_idle_minutes", ...)  # times the cost with 1 minute

# %% tags=["demo"]
timeouts = [1, 2, 5, 10, 20, 60]
rows = [given.cost_of_a_day(idle_timeout, new_node=1 + start_seconds / 60) for idle_timeout in timeouts]
costs, waits = zip(*rows, strict=True)
figure, axes = plt.subplots(figsize=(7, 3), constrained_layout=True)
axes.plot(waits, costs, "o-", color="#64748b")
for idle_timeout, wait, cost in zip(timeouts, waits, costs, strict=True):
    axes.annotate(f"{idle_timeout} min", (wait, cost), xytext=(5, -14 if idle_timeout == 1 else 5), textcoords="offset points")
axes.margins(x=0.12)
axes.set(xlabel="mean minutes that a job waits for a node", ylabel="cost of the day", ylim=(0, 1.2 * costs[-1]))
axes.set_title("A longer idle timeout costs more and saves waiting time")
measured("cost_of_60_idle_minutes", costs[-1] / costs[0])

# %% [markdown]
r"""
The factor is far below 60: while a node waits, you pay until its next job arrives, and for no longer than the timeout.
Which point on the curve is best depends on what your waiting time is worth.

The plot leaves out other things that affect the cost:

- The head runs all day, and disks and network traffic are billed separately.
- Spot instances cost less, but only workers whose tasks can be retried (Chapter 5) should run on them.
- A loop that submits too much work can fill the cluster up to `max_workers`, so choose a number that you can afford.
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

- You can write a `cluster.yaml`, validate it, and say what validation doesn't find.
- You can say which commands `ray up` and the autoscaler run on which machine.
- You can open the ports that a cluster needs, and let Prometheus find its metrics.
- You can write a RayCluster and a RayJob, and find their wrong fields.
- You can weigh the cost of an idle node against the wait for a new one.

## Traps

- **The top of a cloud's `cluster.yaml`:** `max_workers` is 2 by default, and `min_workers` is dropped.
- **`export` in a setup command:** the variable isn't set in the next command.
- **`ray up` on a shared machine:** `ray stop` can kill other people's Ray processes, too.
- **Random ports:** no firewall rule fits them, so set every port on every node.

## Read on

- Ray's documentation: [cluster.yaml](https://docs.ray.io/en/latest/cluster/vms/references/ray-cluster-configuration.html), [your own machines](https://docs.ray.io/en/latest/cluster/vms/user-guides/launching-clusters/on-premises.html), [Slurm](https://docs.ray.io/en/latest/cluster/vms/user-guides/community/slurm.html), [ports](https://docs.ray.io/en/latest/ray-core/configure.html#ports-configurations), [metrics](https://docs.ray.io/en/latest/cluster/metrics.html), [token authentication](https://docs.ray.io/en/latest/ray-security/token-auth.html).
- Ray's [issue 57153](https://github.com/ray-project/ray/issues/57153): version 2 of the autoscaler and `provider: local`.
- KubeRay's [API reference](https://github.com/ray-project/kuberay/blob/v1.6.2/docs/reference/api.md) for release 1.6.2, which our table of fields comes from, and its guides to [RayJob](https://docs.ray.io/en/latest/cluster/kubernetes/getting-started/rayjob-quick-start.html), [RayService](https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/rayservice.html), and [GCS fault tolerance](https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/kuberay-gcs-ft.html).
- [Old names](../docs/old_names.md).
"""
