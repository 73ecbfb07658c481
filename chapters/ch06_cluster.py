# %% [markdown] you_learn_to="start a cluster by hand, submit jobs, know each process"
r"""
# Chapter 6 · A cluster is a head that others join, and a job is what you leave there

*About 110 minutes · builds on [Chapters 1](ch01_tasks.ipynb) and [3](ch03_actors.ipynb); [Chapters 4](ch04_scheduling.ipynb) and [5](ch05_faults.ipynb) help*

The next chapter doesn't need this one, and the sections on clouds and Kubernetes can wait until you have either.

**What you will be able to do**

- name every process of a Ray cluster, say what it is for, and see which one a broken node lacks;
- start a head and let other machines join it, with a token that keeps strangers out;
- submit a job from the shell, from Python and over HTTP, and know for sure how it ended;
- say what a job costs, and when to use a job, a task or Ray Client;
- write a `cluster.yaml` for a cloud and a manifest for Kubernetes, and have both checked before they cost money.
"""

# %%
import time
from pathlib import Path
from statistics import median

import matplotlib.pyplot as plt
import pandas
import ray
import requests
import yaml
from ray.job_submission import JobSubmissionClient
from ray.util.state import list_jobs, list_nodes

from coursekit import begin, budget, check, hint, passed, quiz, solution
from coursekit.given import ch06_cluster as given
from coursekit.given.kuberay import check_fields
from coursekit.given.own_cluster import OwnCluster

begin("ch06_cluster")

# %% [markdown] tags=["notes"]
r"""
The run sheet plans a hundred and ten minutes, with `submit_rest`, `cluster_yaml` and Kubernetes as homework.
Let all run the next cell at once: a head takes ten to fifteen seconds on a small laptop, a minute on a busy one.
You need no cloud account.
Say early that this chapter never runs `ray stop`, and why: it would end every Ray on the machine, including a neighbour's on a shared server.
"""

# %% [markdown]
r"""
## One command starts the head

So far `ray.init()` started Ray, and when the notebook ended, Ray ended too.
A cluster outlives the programs that use it, so a command of its own starts it.
The first machine is the **head**:

    ray start --head

That alone would take the standard ports (6379, 8265, 10001, 52365) and the folder `/tmp/ray`, and collide with any other Ray on this machine.
So here the command names free ports (0: any that is free) and a folder of its own.
`OwnCluster` chose them; it also wrote a **token**, a secret that a section below explains.
It stops what it started and nothing else: when you say so, when this notebook ends, and even when its kernel is killed.
`--block` keeps the command in the foreground, as the parent of everything that it starts.

The head takes five to sixty seconds.

**Predict:** how many processes will this one command start?
"""

# %%
cluster = OwnCluster()
given.use(cluster)  # the checks below look at this cluster, too
began = time.perf_counter()
head = cluster.start(  # what ray.init() did for you until now
    f"ray start --head --block --num-cpus=2 --port={cluster.port} --dashboard-port={cluster.dashboard_port} "
    f"--ray-client-server-port={cluster.client_port} --dashboard-agent-listen-port=0 "
    f"--temp-dir={cluster.folder}"
)
cluster.export()  # the token, for this notebook: as `export RAY_AUTH_MODE=token …` in a shell
print(f"process {head.pid}, ready after {time.perf_counter() - began:.1f} s; address {cluster.address}")

# %% tags=["demo"]
lines = given.command_lines(cluster)  # of each living process, as `ps` shows them
print(f"{len(lines)} processes")
for pid, words in lines.items():
    print(f"{pid:7} {given.brief(words)}")  # without folders, 100 letters at most

# %% [markdown]
r"""
Most people guess three or four.
Here is the whole family, on a head and on a worker node.
About half of what you counted are helpers of the dashboard, in one box; each other kind has its own.
Keep this picture: when a cluster misbehaves, first ask which box is missing.

![Head node: GCS, dashboard with its API helpers, monitor, client server, and what every node has; worker node: raylet with object store, two agents, log monitor, workers; with what each does and what is lost when it dies](../img/ch06_anatomy.svg)

Every node has the lower half: a **raylet** that manages it, two **agents**, a **log monitor** and **workers**.
The head also has what the cluster needs only once: the **GCS** (global control service), the **dashboard**, the **monitor** (the autoscaler of Chapter 4) and the **client server**.
`ps` shows them all under long command lines.
These signs tell them apart:

| part | sign | where |
|---|---|---|
| `"gcs"` | the program is `gcs_server` | head |
| `"dashboard"` | Python runs the script `dashboard.py` | head |
| `"monitor"` | Python runs the script `monitor.py` | head |
| `"client server"` | Python runs the module `ray.util.client.server` | head |
| `"raylet"` | the program is `raylet` | every node |
| `"log monitor"` | Python runs the script `log_monitor.py` | every node |
| `"dashboard agent"` | the title `ray::DashboardAgent` | every node |
| `"runtime env agent"` | the title `ray::RuntimeEnvAgent` | every node |

A command line comes as a list of words: the program with its folder, then its arguments.
A process that gave itself a *title* has just that one word.
Here are a monitor and an agent:

    ["/usr/bin/python3", "-u", "/…/ray/autoscaler/_private/monitor.py", "--gcs-address=10.0.0.7:6379", …]
    ["ray::DashboardAgent"]

Everything else comes and goes or only helps: workers, under other titles that begin with `ray::`; the dashboard's helpers (`ray-dashboard-…`); the command `ray start` itself.
Careful: the arguments of nearly every process mention the raylet and the GCS.

Some nodes are ill, and you have a list of the processes on each.
Which parts does a node lack?
You are not told whether it is the head; what would a healthy worker node never have?
"""


# %%
def what_is_missing(processes):
    """Return the parts of the table that this node should have and lacks, as a sorted list of their names.

    `processes` is a list of command lines, each a list of words. A node is the head if it has anything that only a head has.
    """
    ### BEGIN SOLUTION
    scripts = {"dashboard.py": "dashboard", "monitor.py": "monitor", "log_monitor.py": "log monitor"}
    programs = {"gcs_server": "gcs", "raylet": "raylet"}
    titles = {"ray::DashboardAgent": "dashboard agent", "ray::RuntimeEnvAgent": "runtime env agent"}
    found = set()
    for words in processes:
        names = [word.rpartition("/")[2] for word in words]
        found.add(titles.get(words[0]) or programs.get(names[0]))
        found.update(scripts[name] for name in names[1:] if name in scripts)
        if "ray.util.client.server" in words:
            found.add("client server")
    every, head = {"raylet", "log monitor", *titles.values()}, {"gcs", "dashboard", "monitor", "client server"}
    return sorted((every | head if found & head else every) - found)
    ### END SOLUTION


# %%
check("what_is_missing", what_is_missing)

# %% [markdown] tags=["solution"]
r"""
The habit behind it is worth more than the function: compare whole names.
`pkill -f raylet` looks for a *part* of a command line; it also ends every worker and agent whose arguments mention the raylet, including those of other people's clusters.
And a node without a GCS is ill only if it is the head: know what belongs where before you look for what is missing.
"""

# %% [markdown]
r"""
Here is what each process does, and which one started it.
The cell joins the cluster for a moment and runs a task, so that there is a worker among them.
"""

# %% tags=["demo"]
pandas.set_option("display.max_colwidth", 100)
with ray.init(cluster.address, log_to_driver=False):
    ray.get(ray.remote(lambda: "done").remote())  # its worker stays, and waits for another task
    processes = given.anatomy(cluster)  # one row for each kind of process
print(processes.MB.sum(), "MB, counting what they share more than once")
processes

# %% [markdown]
r"""
The agents and the workers are children of the raylet: a raylet that dies takes them along, and it ends itself when an agent dies.
The rest are children of `ray start --block`, which watches them: when one crashes or is killed with SIGKILL, it ends the whole node, so that systemd or Kubernetes can start a fresh one.
One that was ended politely, with SIGTERM, is not missed: the node lives on without it, like the ill ones above.
A worker is there because a driver had a task for it, and Ray may have started a second one ahead of need.
The parts written in Python weigh more than the GCS and the raylet, which are written in C++.
"""

# %%
### BEGIN SOLUTION
who_must_not_die = "c"
### END SOLUTION

# %%
quiz("who_must_not_die", who_must_not_die)

# %% [markdown]
r"""
## A token keeps strangers out

A head listens on ports, and runs the programs that it is asked to run.
A **token** keeps strangers out: one secret that all parts of the cluster share.
With `ray.init()` you never noticed: it made one, wrote it to `~/.ray/auth_token`, and switched tokens on.
`ray start --head` takes a token that is there; without one it only warns, and starts a cluster open to all.
And `ray start --address` never switches tokens on by itself.
So set two variables, in every shell, before every `ray` command:

    export RAY_AUTH_MODE=token
    export RAY_AUTH_TOKEN_PATH=/path/to/the/token      # without it: ~/.ray/auth_token

`RAY_AUTH_TOKEN`, with the secret itself, takes precedence over the file.
`ray get-auth-token --generate` makes a first token.
Over HTTP the token travels in a header, `Authorization: Bearer …`.

Ask the dashboard for something, first without the token, then with it:
"""

# %% tags=["demo"]
address = f"{cluster.dashboard}/api/version"
for headers in ({}, {"Authorization": f"Bearer {cluster.token}"}):
    reply = requests.get(address, headers=headers)
    print(reply.status_code, reply.reason, "|", reply.text.splitlines()[0][:80])

# %% [markdown]
r"""
401: who are you?
A wrong token gets 403: not you.
The token says *who may ask*; it does not hide what is said.
It encrypts nothing, so keep a cluster in a network of its own, or behind an SSH tunnel, even with a token.
"""

# %%
### BEGIN SOLUTION
what_a_token_is_for = "b"
### END SOLUTION

# %%
quiz("what_a_token_is_for", what_a_token_is_for)

# %% [markdown]
r"""
## A second node needs an address and the token

On a second machine the command is `ray start` as well, without `--head`, but with the head's address.
Two options say what the node offers: `--num-cpus` and `--resources`, the latter as JSON.
Nothing stops you from starting that "second machine" on the same one: Ray counts raylets, not computers.
That is how you can practise here.

`join_node` returns what you would type there: the command as a list of words, and the environment variables that it needs as a dictionary.
No shell reads a list of words, so JSON keeps its own quotes and needs no others around it.
And `token_file` is a path on *that* machine: pass it on, do not read the file.
The check first reads both, then really runs them, waits for the node, and stops it again.

On macOS and Windows Ray refuses to build clusters of several nodes unless `RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=1` is set; `OwnCluster` has set it.
"""


# %%
def join_node(address, token_file, cpus, resources):
    """Return (command, variables) for a node that joins the cluster at `address` and stays in the foreground.

    The command is a list of words; the node offers `cpus` CPUs and `resources`, a dict of names and amounts.
    """
    ### BEGIN SOLUTION
    import json

    command = ["ray", "start", "--block", f"--address={address}", f"--num-cpus={cpus}"]
    command.append(f"--resources={json.dumps(resources)}")
    return command, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": token_file}
    ### END SOLUTION

# %%
check("join_node", join_node)

# %% [markdown] tags=["solution"]
r"""
Without the variables `ray start --address` tries for some twenty seconds and ends with `InvalidAuthToken`; the usual next step is to blame the firewall.
All nodes need the same versions of Python and Ray, and the token's file must exist on each.
"""

# %% [markdown]
r"""
Let one stay for a moment: yours, or a plain one until yours has passed.
Which processes does a node bring that joins, and what does the head know of it?
"""

# %% tags=["demo"]
if passed("join_node"):
    command, variables = join_node(cluster.address, cluster.token_file, 1, {"robot": 2})
else:
    command, variables = given.plain_node(cluster)  # one CPU and nothing else
second = cluster.start(command, variables)
try:
    joined = given.anatomy(second)
    known = pandas.DataFrame([vars(node) for node in list_nodes(address=cluster.dashboard)])
finally:
    second.stop()
display(joined)
known["offers"] = known.resources_total.map(given.without_memory)  # CPUs and the like
known.assign(node_id=known.node_id.str[:8])[["node_id", "is_head_node", "state", "offers"]]

# %% [markdown]
r"""
The command, a raylet, its agents and a log monitor: the lower half of the picture, and nothing of the upper.
Workers come with work, as on the head.
A node that is `DEAD` was the check's: the GCS remembers it.
Only the head has the resource `node:__internal_head__`.
The new node was stopped with `SIGTERM` to its own `ray start --block`, so it had time to say goodbye; Chapter 5 shows what happens when a node dies without a word.

> **`ray stop` ends every Ray on the machine**, no matter who started it.
> On a machine of your own that is fine.
> On a shared one, end the command that you started.
"""

# %% [markdown] tags=["notes"]
r"""
Half-time.
A good question for the room: which of the boxes would you put on a machine of its own?
(The head, on a cluster of more than a few nodes: `--num-cpus=0`, so that no task can starve the GCS.
The exercise with cluster.yaml does that.)
"""

# %% [markdown]
r"""
## A job is a program that runs there, without you

A task needs a driver, and so far the driver was your notebook.
A **job** is a whole program, handed over as a shell command, the *entrypoint*.
The cluster runs the driver itself, keeps its output, and remembers how it ended.
Your laptop may sleep meanwhile.

![Your request goes over HTTP to the dashboard, to the agent on the head, which starts a supervisor actor; the supervisor runs the entrypoint as a process: the driver, which asks raylets for workers; status and log go back](../img/ch06_job.svg)

The program runs elsewhere, so it needs its files and settings there: the **runtime environment**.
`working_dir` is a folder that Ray packs, sends and unpacks; `env_vars` are variables; `pip` and `py_modules` bring packages.
Here is a small project for it:
"""

# %%
project = Path(cluster.folder, "project")
project.mkdir(exist_ok=True)
(project / "squares.py").write_text("""
import json, os, time
import ray

ray.init()  # inside a job, RAY_ADDRESS leads to the cluster
square = ray.remote(lambda x: x * x)
print(os.environ["GREETING"], sum(ray.get([square.remote(x) for x in range(10)])))
calls = []
for x in range(100):
    start = time.perf_counter()
    ray.get(square.remote(x))
    calls.append(time.perf_counter() - start)
print(json.dumps(calls))
""");

# %% [markdown]
r"""
### From the shell

`ray job submit` sends the folder, submits, shows the output as it comes, and waits for the end; its exit code says whether the job succeeded.
With `--no-wait` it returns at once.
`cluster.shell` runs the command as a shell would, with the two variables set.

**Predict:** the program needs a fraction of a second.
How long will the command take?
"""

# %% tags=["demo"]
began = time.perf_counter()
output = cluster.shell(
    f"ray job submit --address {cluster.dashboard} --working-dir {project} "
    """--runtime-env-json '{"env_vars": {"GREETING": "from the shell:"}}' -- python squares.py"""
)
shell_seconds = time.perf_counter() - began
submitted, _, log = output.partition("Tailing logs")
task_calls = yaml.safe_load(next(line for line in log.splitlines() if line.startswith("[")))  # the times, for later
hidden = ("[", "WebSocket")  # that list, and how the connection ended
print("\n".join(line[:100] for line in log.splitlines()[1:] if line.strip() and not line.startswith(hidden)))
print(f"\n{shell_seconds:.1f} s")

# %% [markdown]
r"""
A long time for a fraction of a second's work: the command itself has to start a Python and import Ray; then the job starts.

### From Python

`JobSubmissionClient` does the same without the shell.
The job below fails on purpose.

**Predict:** does `submit_job` raise, since the job fails?
"""

# %% tags=["demo"]
client = JobSubmissionClient(cluster.dashboard)
job = client.submit_job(entrypoint="""python -c 'print("step 1 of 3"); raise SystemExit(3)'""")
print(job, client.get_job_status(job))

# %% tags=["demo"]
given.end_of(client, job)  # waits until the job has ended
print(client.get_job_status(job), "|", client.get_job_info(job).message.splitlines()[0])
print("the last line of its log:", client.get_job_logs(job).splitlines()[-1])

# %% [markdown]
r"""
Submitting worked, so nothing is raised: you get the *id* of a job that is `PENDING`.
Then it is `RUNNING`, and at last it has one of three final statuses: `SUCCEEDED`, `FAILED`, or `STOPPED` after a call of `stop_job`.
If you want the result, you have to keep asking, and then look at *which* end it was.
That deserves a function: it takes a client, and returns what the job printed, but only when the job succeeded.

The check first hands you a client that only pretends, once for each way to end; then it runs a real job on your cluster.
"""


# %%
def submit_and_wait(client, entrypoint, runtime_env):
    """Return everything that the job has printed, once it has succeeded.

    Raises RuntimeError when the job ended in any other way; the error's message holds what the job printed.
    """
    ### BEGIN SOLUTION
    job = client.submit_job(entrypoint=entrypoint, runtime_env=runtime_env)
    while not (status := client.get_job_status(job)).is_terminal():
        time.sleep(0.1)
    log = client.get_job_logs(job)
    if status != "SUCCEEDED":
        raise RuntimeError(f"{job} ended as {status}. It printed:\n{log}")
    return log
    ### END SOLUTION

# %%
check("submit_and_wait", submit_and_wait)

# %% [markdown] tags=["solution"]
r"""
`status != "SUCCEEDED"` works because a status is text as well.
Three classic mistakes: waiting `while status == "RUNNING"`, which ends at once because the job is still `PENDING`; waiting for `SUCCEEDED` alone, which never ends when the job fails; and taking the end for success.
"""

# %% [markdown]
r"""
### Over HTTP

Shell and Python both send HTTP requests to the dashboard, so any program in any language can do the same:

| | request | answers with |
|---|---|---|
| submit | `POST /api/jobs/` with JSON: `entrypoint`, and if you like `runtime_env`, `submission_id`, `metadata` | `submission_id` |
| status | `GET /api/jobs/ID` | `status`, `message`, … |
| log | `GET /api/jobs/ID/logs` | `logs` |
| all jobs | `GET /api/jobs/` | a list |
| stop | `POST /api/jobs/ID/stop` | `stopped` |

The final slash of `/api/jobs/` counts.
Choose a `submission_id` of your own.
Ray refuses a second request with the same id, with a status of 500, so a request that is sent twice (a shaky network, an impatient user) does not run the job twice.
The id is a field of its own: `metadata` is a note that travels with the job, and an id in there is not the job's.
"""


# %%
def submit_rest(url, token, submission_id, entrypoint, runtime_env):
    """Return the submission id with which the dashboard at `url` (http://host:port) answers; uses HTTP and nothing of Ray.

    Raises an exception when the request is refused.
    """
    ### BEGIN SOLUTION
    reply = requests.post(
        f"{url}/api/jobs/",
        json={"entrypoint": entrypoint, "submission_id": submission_id, "runtime_env": runtime_env},
        headers={"Authorization": f"Bearer {token}"},
    )
    reply.raise_for_status()
    return reply.json()["submission_id"]
    ### END SOLUTION

# %%
check("submit_rest", submit_rest)

# %% [markdown] tags=["solution"]
r"""
`json=` makes JSON of the dictionary and sets the content type; `data=` would send a form, as a web page does, and Ray refuses it.
Without `raise_for_status` a refusal looks like a reply without an id.
"""

# %% [markdown]
r"""
## Ray Client lends you a driver over there

There is a third way to use a cluster from outside, made for trying things out: an address that begins with `ray://`.
Your notebook then looks like a driver, but the real one is a process that the **client server** starts on the head for you.
Every call travels there and back.

**Predict:** a task call from a driver within the cluster takes a few milliseconds; `squares.py` has timed 100 of them.
How long does it take over Ray Client?
"""

# %% tags=["demo"]
# with_patience: Ray Client gives up after 30 s, which a very busy machine can need; then it tries again
given.with_patience(lambda: ray.init(cluster.client_address, log_to_driver=False))
square = ray.remote(lambda x: x * x)
client_calls = []
for x in range(30):
    start = time.perf_counter()
    ray.get(square.remote(x))
    client_calls.append(time.perf_counter() - start)
ray.shutdown()
client_calls = client_calls[5:]  # the first also started a worker
print(f"{1000 * median(task_calls[10:]):.1f} ms for a call from within the cluster (squares.py)")
print(f"{1000 * median(client_calls):.1f} ms for a call over Ray Client")

# %% [markdown]
r"""
Ray Client is handy, and it has limits.
The versions of Ray and Python must match on both sides.
A loop of many small calls pays the way each time, and more on a real network than here.
And the driver lives only as long as your connection: once that has been gone for more than 30 seconds, Ray ends everything it started.
So play with Ray Client, and run what matters as a job.

| | where the driver runs | survives your laptop | good for |
|---|---|---|---|
| `ray.init()` on a node of the cluster | on that node | if the node does | working on the head, JupyterLab included |
| `ray.init("ray://…")` | lent to you, on the head | no | trying things out from a laptop |
| a job | on the head (or wherever `entrypoint_num_cpus` and the like lead) | yes | everything that matters |
"""

# %%
### BEGIN SOLUTION
laptop_closed = "b"
### END SOLUTION

# %%
quiz("laptop_closed", laptop_closed)

# %% [markdown]
r"""
## Submitting a job is not calling a task

`submit_job` and `.remote()` look alike: both return at once with a receipt.
So people submit a job where they should call a task.
What does each cost?

The next cell submits jobs that do nothing, and notes when Ray answered the request and when the job had ended.
You have measured the rest already.

**Predict** three of them: a task call, the answer to a submission, and a whole job that does nothing.
"""

# %% tags=["demo"]
rounds = budget(5, 2)
idle = [given.seconds_of_job(client, "true") for _ in range(rounds)]
squares = next(job for job in client.list_jobs() if job.entrypoint == "python squares.py")  # the one from the shell

costs = {
    "task call, in the cluster": task_calls[10:],
    "task call, over Ray Client": client_calls,
    "submission answered": [each["accepted"] for each in idle],
    "job that does nothing, to its end": [each["end"] for each in idle],
    "job that uses Ray, to its end": [(squares.end_time - squares.start_time) / 1000],
    "the same, from the shell": [shell_seconds],
}

# %% tags=["demo"]
figure, axes = plt.subplots(figsize=(9, 3.2), constrained_layout=True)
for row, seconds in enumerate(costs.values()):
    middle = median(seconds)
    axes.plot(seconds, [row] * len(seconds), "o", color="#2563eb" if row < 2 else "#d97706", alpha=0.4)
    text = f"{middle:.1f} s" if middle >= 1 else f"{1000 * middle:.1f} ms"
    axes.annotate(text, (middle, row), xytext=(0, 7), textcoords="offset points", ha="center")
axes.set_yticks(range(len(costs)), costs)
axes.set(xscale="log", xlabel="seconds (each mark is ten times the one before)", ylim=(len(costs) - 0.5, -0.8))
axes.margins(x=0.1)
calls = median(costs["job that does nothing, to its end"]) / median(costs["task call, in the cluster"])
axes.set_title(f"A job that does nothing costs as much as {calls:,.0f} task calls");

# %% [markdown]
r"""
The answer to a submission comes soon, after hundredths or tenths of a second, and that misleads: the receipt is not the work.
The job itself takes seconds, hundreds to thousands of times a task call, because it starts processes: a supervisor (a Ray actor, a Python with Ray in it), a shell, and for a job that uses Ray one more Python that imports it, plus workers of its own.
From the shell, the command `ray` comes on top.

So use a job for *a piece of work that you wait for as a whole*, a training or a nightly evaluation; within it, tasks and actors do the parallel work.
"""

# %%
### BEGIN SOLUTION
job_or_task = "b"
### END SOLUTION

# %%
quiz("job_or_task", job_or_task)

# %% [markdown]
r"""
## The dashboard shows it, the state API lets you ask

Open the dashboard in a browser: the next cell prints its address and the token that it will ask for.
*Jobs* lists what you have submitted, with logs; *Cluster* shows nodes, workers, memory and load.
If the cluster is far away, bring the dashboard to your machine through a tunnel: `ssh -L 8265:localhost:8265 head`, or `ray dashboard cluster.yaml`.

Behind the page is the **state API**, which answers the same questions in the shell and in Python:

| | shell | Python (`ray.util.state`) |
|---|---|---|
| which nodes, alive and dead | `ray list nodes` | `list_nodes()` |
| which jobs | `ray list jobs`, or `ray job list` | `list_jobs()` |
| which actors, which tasks | `ray list actors`, `ray list tasks` | `list_actors()`, `list_tasks()` |
| how many tasks of each function | `ray summary tasks` | `summarize_tasks()` |
| a process's log | `ray logs worker-…` | `get_log()` |
| slots, demand, autoscaler | `ray status` | – |

You submitted some jobs, and so did the checks.
Here they all are, with their statuses.
(The cell prints the token in clear text, which is harmless here: it dies with this cluster.)
"""

# %% tags=["demo"]
print(cluster.dashboard, "| the token that it asks for:", cluster.token)
jobs = pandas.DataFrame([vars(job) for job in list_jobs(address=cluster.dashboard)])
jobs[["submission_id", "type", "status", "entrypoint"]].fillna("")

# %% [markdown]
r"""
Each driver is a job to Ray, so Ray Client and this notebook have a row as well, without a submission id.
The lists stop at 100 rows unless you say `limit=`, and they need a dashboard that runs.
"""

# %% [markdown]
r"""
## A cloud needs a cluster.yaml, and Ray checks it before you pay

You don't type `ray start` on fifty machines.
The **cluster launcher** rents machines, installs what you say, and runs `ray start` on each, by SSH:

| command | what it does |
|---|---|
| `ray up cluster.yaml` | rents the head, sets it up; the head's monitor rents workers when there is demand |
| `ray attach cluster.yaml` | opens a shell on the head; `--port-forward 8888` brings a port of it to your machine |
| `ray exec cluster.yaml "…"` | runs a command there |
| `ray rsync-up cluster.yaml here there` | copies files to the head |
| `ray dashboard cluster.yaml` | brings the dashboard to your machine |
| `ray down cluster.yaml` | ends the cluster |

`ray down` need not stop the bill.
On AWS and Azure it only *stops* the machines that you rent by the hour, and their disks still cost, unless the file says `cache_stopped_nodes: False`; look into the cloud's console afterwards.

The file says what to rent.
Ray brings a schema for it, and defaults for what is left out; both work offline.
`given.validated` calls what `ray up` calls first, except that it does not ask AWS for the machines' CPUs.

This file has 6 sections; see how many there are once the defaults are filled in.
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
At the end stands the command that you know: `ray start --head`, with the file itself as `--autoscaling-config`.
That is how the monitor learns what it may rent.
(The `ray stop` before it is harmless there: the machine is the cluster's own.)
Look into `filled["setup_commands"]` before you use it for real: where the machine has no Ray, the defaults install a nightly build.
Write your own, with the version that you have.

The schema knows the names and types of the general fields.
What stands under `node_config` goes to the cloud as it is.
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
And a `min_workers` at the top, which meant something in older versions, is dropped without a word: your cluster starts without workers.
It belongs in a node type.

Now one that you could use: the head is small, and is there for the GCS, not for tasks.
Tasks stay away from a node whose type says `CPU: 0` in its `resources`.
A type that says nothing gets the CPUs that its machine has.
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
Without `max_workers` at the top the default counts: two, and a node type that may grow to twelve stops there.
Forgetting it is the usual reason for "my cluster does not scale".
`yaml.safe_dump` of a dictionary is a safer way to write such a file than an f-string.
"""

# %% [markdown]
r"""
### AWS, GCP and Azure, field by field

The general part is the same for all; the rest goes by other names:

| | AWS | GCP | Azure |
|---|---|---|---|
| where | `provider.region`, `availability_zone` | the same names, and a `project_id` | `location`, `resource_group`, `availability_zone` |
| machine type | `InstanceType` | `machineType` | `azure_arm_parameters.vmSize` |
| spot: cheap, may be taken away | `InstanceMarketOptions` | `scheduling: [{preemptible: true}]` | `azure_arm_parameters.priority: Spot` |
| CPUs of a type | found out; leave `resources: {}` | write `{CPU: 2}` | write `{CPU: 2}` |
| disk | `BlockDeviceMappings` | `disks` | in the image's template |
| you need on your machine | `boto3`, credentials | `google-api-python-client`, credentials | the `azure-…` packages, `az login` |

Old blog posts have a fourth, Aliyun.
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
Take Kubernetes there, or `provider: {type: local, head_ip: …, worker_ips: […]}`, which logs in to machines that exist already.
"""

# %% [markdown]
r"""
## On Kubernetes you describe the cluster, and KubeRay keeps it so

Where there is a Kubernetes cluster, its administrator installs the **KubeRay operator** once, for example with Helm:

    helm repo add kuberay https://ray-project.github.io/kuberay-helm/
    helm install kuberay-operator kuberay/kuberay-operator

From then on there are new kinds of objects.
You write down what you want in a manifest, `kubectl apply -f` hands it over, and the operator starts, replaces and removes *pods*, one for each node:

- **RayCluster**: a head, groups of workers, and how many of each;
- **RayJob**: a RayCluster, a job for it, and whether the cluster goes away when the job has ended.

KubeRay's own chart `kuberay/ray-cluster` makes a RayCluster from a file of values.

A manifest has many fields, and a misspelt one is the usual mistake.
`check_fields` compares a manifest with a table made from the reference of KubeRay 1.6.2: the fields of its own types, and the common ones of pods.
(In the column `type`, `=` lists the values allowed, brackets mean a list, and a name with a capital letter is an object with fields of its own.)
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
What you wrote as options of `ray start` above returns as `rayStartParams`; the address and the token are the operator's business.
A node's CPUs come from the pod's `resources`.

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
A cluster would tell you too: `kubectl apply --dry-run=server -f job.yaml` compares with the definitions that are installed there.
That is the better judge, since it knows its own version of KubeRay; the table here serves where there is no cluster.

| | `ray start` by hand | cluster launcher | KubeRay |
|---|---|---|---|
| a node is | any machine | a machine rented from a cloud | a pod |
| you write | a command for each | `cluster.yaml` | a manifest |
| who adds nodes | you | the monitor on the head | the monitor asks, the operator adds |
| a node dies | you notice | another is rented | another pod starts |
| choose it for | two machines under the desk, Slurm, tests | a cloud account and no Kubernetes | everything where Kubernetes is at hand |
"""

# %% [markdown] tags=["notes"]
r"""
Ten minutes for this section, no exercise.
If anyone in the room has a Kubernetes cluster at hand, `kubectl explain rayjob.spec --recursive` is the table, live.
"""

# %% [markdown]
r"""
## This course moves to a cluster with one variable and one change

`RAY_ADDRESS` says to every program where its cluster is, and `ray.init()` without an address obeys it.
In a job it is set already.
So most chapters of this course run on a cluster with

- `RAY_ADDRESS=auto` on a node of the cluster (say, JupyterLab on the head, through `ray attach --port-forward 8888`), or as a job;
- `coursekit` on all nodes: as `py_modules`, or `pip install`ed on each;
- one change in each notebook: `ray.init(num_cpus=4, …)` becomes `ray.init()`, because a program cannot tell a cluster how large it is.

Chapters 2, 4, 5 and 6 bring a Ray of their own: leave them at home.
The job below takes a function of Chapter 1 there, by your own `submit_and_wait`, and tries `num_cpus=4` first.
It ships the package itself, so the nodes need not have it.
"""


# %%
(project / "chapter1.py").write_text("""
import os, ray, coursekit
from coursekit.given.ch01_tasks import points_inside
try:
    ray.init(num_cpus=4)
except ValueError as error:
    print("with num_cpus:", error)
ray.init()
print("RAY_ADDRESS leads to", os.environ["RAY_ADDRESS"] and "the cluster")
print("coursekit came with the job:", "runtime_resources" in coursekit.__file__)
points = ray.remote(points_inside)
inside = sum(ray.get([points.remote(500_000, seed) for seed in range(4)]))
print("pi is about", 4 * inside / 2_000_000)
""");

# %% tags=["demo"]
if passed("submit_and_wait"):
    import coursekit

    runtime_env = {
        "working_dir": str(project),
        "py_modules": [str(Path(coursekit.__file__).parent)],  # packed, sent, and found before any other copy
        "excludes": ["static", "__pycache__"],
    }
    print(given.own_lines(submit_and_wait(client, "python chapter1.py", runtime_env)))

# %% [markdown]
r"""
Do the exercises at home: their checks want a cluster whose size they know.
Take a long training to the cluster, as a job that saves its checkpoints where you can reach them.

Now stop what this notebook started: the head, and everything below it.
"""

# %%
before = cluster.processes()
cluster.stop()
print(f"{sum(process.is_running() for process in before)} of {len(before)} processes are left")

# %% [markdown]
r"""
## What you can do now

- You know the processes of head and worker, what each is for, and which one a broken node lacks.
- You start a head, let nodes join it with address and token, and stop exactly what you started.
- You submit jobs from the shell, from Python and over HTTP, wait for their end, and look at which end it was.
- You know that a job costs seconds and a task call a few milliseconds, and which of the two you need.
- You write a `cluster.yaml`, have it checked by Ray's schema, and know what the schema does not see; you read a RayCluster and a RayJob field by field.

## Traps

- **A shell without `RAY_AUTH_MODE=token`**: `ray start --address` fails after some twenty seconds, `ray list nodes` at once; and `ray start --head`, where there is no token yet, starts a cluster open to all.
- **`ray stop` on a shared machine** ends the clusters of others.
- **Done is not succeeded.** `FAILED` and `STOPPED` are ends, too; `submit_job` never raises for them.
- **`PENDING` is not `RUNNING`**: a loop `while status == "RUNNING"` ends before the job has begun.
- **`python` in an entrypoint** is the one on the cluster, and the files there are those of `working_dir`.
- **`max_workers` at the top** of a `cluster.yaml` is 2 unless you say otherwise, and `min_workers` at the top is dropped.
- **A long `--temp-dir`**: the path of Ray's sockets must stay below about 100 letters, and macOS's own temporary folders are long.

## Read on

- [Chapter 19](ch19_operate.ipynb): operating what you have trained.
- Ray's documentation: [jobs](https://docs.ray.io/en/latest/cluster/running-applications/job-submission/index.html) and their [REST API](https://docs.ray.io/en/latest/cluster/running-applications/job-submission/rest.html), [cluster.yaml](https://docs.ray.io/en/latest/cluster/vms/references/ray-cluster-configuration.html), [token authentication](https://docs.ray.io/en/latest/ray-security/token-auth.html).
- KubeRay's [API reference](https://github.com/ray-project/kuberay/blob/v1.6.2/docs/reference/api.md) of release 1.6.2, from which the table of fields was made.
- [Old names](../docs/old_names.md): the id in `metadata`, the Helm chart in Ray's repository, and others that you may meet in older texts.
"""
