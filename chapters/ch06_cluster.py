# %% [markdown] you_learn_to="start a cluster by hand, submit jobs, know each process"
r"""
# Chapter 6 · Clusters and jobs

A cluster is a head node that other nodes join, and a job is a program that you leave there.

*About 100 minutes · builds on [Chapters 1](ch01_tasks.ipynb) and [3](ch03_actors.ipynb); [Chapters 4](ch04_scheduling.ipynb) and [5](ch05_faults.ipynb) help*

The next chapter doesn't need this one.
Clouds, Kubernetes and the cluster launcher have a chapter of their own, [24](ch24_deploy.ipynb).

**What you will be able to do**

- name every process of a Ray cluster, say what it is for, and see which a broken node lacks;
- start a head and let other machines join it, with a token that keeps strangers out;
- submit a job from the shell, from Python and over HTTP, and know for sure how it ended;
- give each job the packages it needs, in its own versions, and know what that costs at the first start;
- say what a job costs, and when to use a job, a task or Ray Client.
"""

# %%
import sys
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
from coursekit.given.own_cluster import OwnCluster

begin("ch06_cluster")

# %% [markdown] tags=["notes"]
r"""
The run sheet plans a hundred minutes, with `submit_rest` as homework.
Let everyone run the next cell at once: a head takes ten to fifteen seconds on a small laptop, a minute on a busy one.
You need no cloud account.
Say early why this chapter never runs `ray stop`: it would end every Ray that your account may end, including the neighbours' on a server where the class shares one account.
"""

# %% [markdown]
r"""
## One command starts the head

So far `ray.init()` started Ray, and Ray ended with the notebook.
A cluster outlives the programs that use it, so a separate command starts it.
The first machine is the **head**:

    ray start --head

On its own, that command takes Ray's standard ports, 6379, 8265, 10001 and 52365, and the folder `/tmp/ray`, and so collides with any other Ray on this machine.
So the command below names free ports, where 0 means any free one, and a folder of its own.
`OwnCluster` chooses them, and writes a **token**, a secret explained below.
It stops only what it started: when you say so, when this notebook ends, and even when its kernel is killed.
`--block` keeps the command in the foreground, as the parent of everything it starts.

The head takes five to sixty seconds.

**Predict:** how many processes will this one command start?
"""

# %%
ray.shutdown()  # ends a Ray that already runs here: its references and actors are gone
cluster = OwnCluster()
given.use(cluster)  # the checks below look at this cluster, too
given.small_environment(cluster)  # its Python: a section below says why it has one of its own
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
About half of what you counted are the dashboard's helpers, in one box; each other kind has its own.
Keep this picture: when a cluster misbehaves, first ask which box is missing.

![Head node: GCS, dashboard with its API helpers, monitor, client server, and what every node has; worker node: raylet with object store, two agents, log monitor, workers; with what each does and what is lost when it dies](../img/ch06_anatomy.svg)

Every node has the lower half: a **raylet** that manages it, two **agents**, a **log monitor** and **workers**.
The head also has what the cluster needs only once: the **GCS** (global control service), the **dashboard**, the **monitor** (the autoscaler of Chapter 4) and the **client server**.
`ps` shows them all under long command lines, told apart by these signs:

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

You get the processes of one node, which may be ill.
Which parts does it lack?
Find out whether it is the head: what would a healthy worker node never have?
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
The habit is worth more than the function: compare whole names.
`pkill -f raylet` looks for a *part* of a command line; it also ends every worker and agent whose arguments mention the raylet, even in other people's clusters.
And a node without a GCS is ill only if it is the head: know what belongs where before you look for what is missing.
"""

# %% [markdown]
r"""
Here is what each process does, and which one started it.
The cell joins the cluster for a moment and runs a task, so there is a worker among them.
"""

# %% tags=["demo"]
pandas.set_option("display.max_colwidth", 100)
ray.shutdown()
with ray.init(cluster.address, log_to_driver=False):
    ray.get(ray.remote(lambda: "done").remote())  # its worker stays, and waits for another task
    processes = given.anatomy(cluster)  # one row for each kind of process
print(processes.MB.sum(), "MB, counting what they share more than once")
processes

# %% [markdown]
r"""
The agents and the workers are children of the raylet: a raylet that dies takes them along, and it ends itself when an agent dies.
The rest are children of `ray start --block`, which watches them: if one crashes or is killed with SIGKILL, it ends the whole node, so systemd or Kubernetes can start a fresh one.
One that ends after a polite SIGTERM raises no alarm: the command keeps running without it, and you have an ill node like those above.
A worker is there because a driver had a task for it, and Ray may have started a second ahead of need.
The Python parts weigh more than the GCS and the raylet, which are C++.
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

A head listens on ports, and runs any program it receives.
A **token** keeps strangers out: one secret that all parts of the cluster share.
So far `ray.init()` made a token, wrote it to `~/.ray/auth_token`, and switched tokens on.
`ray start --head` uses that token if it exists; otherwise it only warns, and starts a cluster open to all.
`ray start --address` never switches tokens on by itself.
So set two variables in every shell, before every `ray` command:

    export RAY_AUTH_MODE=token
    export RAY_AUTH_TOKEN_PATH=/path/to/the/token      # without it: ~/.ray/auth_token

`RAY_AUTH_TOKEN`, with the secret itself, takes precedence over the file.
`ray get-auth-token --generate` prints your token, and makes one first if there is none.
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
The token says *who may ask*, but encrypts nothing, so even with a token keep a cluster in its own network or behind an SSH tunnel.
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

On a second machine you also run `ray start`, with `--address` and the head's address instead of `--head`.
Two options say what the node offers: `--num-cpus`, and `--resources` as JSON.
You can practise here, with that "second machine" on the same one: Ray counts raylets, not computers.

`join_node` returns what you would type there: the command as a list of words, and the environment variables it needs as a dictionary.
Include `--block`, so the command stays in the foreground.
No shell reads a list of words, so JSON needs no quotes around its own.
`token_file` is a path on *that* machine: pass it on, do not read the file.
The check first reads what you return, then runs the command, waits for the node, and stops it again.

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
Without the variables, `ray start --address` tries for some twenty seconds and then fails with `InvalidAuthToken`, when most people already suspect the firewall.
All nodes need the same versions of Python and Ray, and the token's file must exist on each.
"""

# %% [markdown]
r"""
Now start one and look at it: yours, or a plain one until yours has passed.
Which processes does a new node bring, and what does the head know about it?
"""

# %% tags=["demo"]
if passed("join_node"):
    command, variables = join_node(cluster.address, cluster.token_file, 1, {"robot": 2})
else:
    command, variables = given.plain_node(cluster)  # one CPU and nothing else
if budget(full=True, quick=not passed("join_node")):  # in quick mode the check's node is enough
    second = cluster.start(command, variables)
    try:
        joined = given.anatomy(second)
        known = pandas.DataFrame([vars(node) for node in list_nodes(address=cluster.dashboard)])
    finally:
        second.stop()
    known["offers"] = known.resources_total.map(given.without_memory)  # CPUs and the like
    columns = ["node_id", "is_head_node", "state", "offers"]
    display(joined, known.assign(node_id=known.node_id.str[:8])[columns])

# %% [markdown]
r"""
The command, a raylet, its agents and a log monitor: just the lower half of the picture.
Workers come with work, as on the head.
A `DEAD` node is the one the check started and stopped: the GCS remembers it.
Only the head has the resource `node:__internal_head__`.
The cell stopped the new node with a `SIGTERM` to its own `ray start --block`, so the node could say goodbye; Chapter 5 shows what happens when a node dies without a word.

> **`ray stop` ends every Ray on the machine** that your account may end: your other clusters, those of colleagues who share the account, and as root all of them.
> On your own machine that is fine.
> On a shared one, end the command you started.
"""

# %% [markdown] tags=["notes"]
r"""
Half-time.
Ask the room which boxes they would put on a machine of their own.
With more than a few nodes, all that only the head has: give the head `--num-cpus=0`, so no ordinary task can starve the GCS.
"""

# %% [markdown]
r"""
## A job is a program that runs there, without you

A task needs a driver, and so far the driver was your notebook.
A **job** is a whole program, handed over as a shell command, the *entrypoint*.
The cluster runs the driver itself, keeps its output, and remembers how it ended.
Meanwhile your laptop may sleep.

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

`ray job submit` sends the folder, submits the job, shows its output as it comes, and waits for the end; the exit code says whether the job succeeded.
With `--no-wait` it returns at once.
`cluster.shell` runs the command as a shell would, with the two variables set.

**Predict:** the program needs a fraction of a second; how long will the command take?
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
That is long for a fraction of a second's work: the command must start a Python and import Ray before the job starts.

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
Submitting worked, so it raises nothing: you get the *id* of a job that is `PENDING`.
Next it is `RUNNING`, and in the end it has one of three final statuses: `SUCCEEDED`, `FAILED`, or `STOPPED` after a call of `stop_job`.
For the result, keep asking, with pauses, and then look at *which* end it was.
That deserves a function: it takes a client, and returns what the job printed, but only if the job succeeded.

The check first hands your function a pretend client, once for each way to end; then it runs a real job on your cluster.
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
Three classic mistakes: waiting `while status == "RUNNING"`, which ends at once because the job is still `PENDING`; waiting only for `SUCCEEDED`, which never ends if the job fails; and taking the end for success.
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
If you choose the `submission_id`, Ray refuses a second request with the same id and answers with status 500.
So if a shaky network or an impatient user sends a request twice, the job still runs once.
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
## Two jobs, two versions of a package

If your job needs packages that the nodes lack, or other versions, `pip` in the runtime environment installs them for this job alone.
The next cell makes a package in two versions, as *wheels*, so you need no network:
"""

# %%
wheels = Path(cluster.folder, "wheels")
for version in ("1.0", "2.0"):
    print(given.wheel(wheels, "greeter", version).name)

# %% [markdown]
r"""
For packages from the internet, a list is enough: `{"pip": ["greeter==1.0"]}`.
With options you need a dictionary, `{"pip": {"packages": [...], "pip_install_options": [...]}}`, and each word of pip's command line is an element of its own.
`--find-links FOLDER` makes pip look in a folder too, and `--no-index` keeps it off the internet.
On a real cluster the folder must exist on every node, or be the address of a server.

Write `pip_environment`.
The check asks `pip` what it would install.
"""


# %%
def pip_environment(package, version, folder):
    """Return a runtime environment that installs this version of a package from the wheels in a folder, without a network."""
    ### BEGIN SOLUTION
    return {"pip": {"packages": [f"{package}=={version}"], "pip_install_options": ["--no-index", "--find-links", folder]}}
    ### END SOLUTION


# %%
check("pip_environment", pip_environment)

# %% [markdown] tags=["solution"]
r"""
Ray writes the packages into a requirements file, which takes the same options, so `{"pip": ["--no-index", "--find-links FOLDER", "greeter==1.0"]}` works too.
An exact version saves you a surprise: tomorrow's newest may be another one.
"""

# %% [markdown]
r"""
Now both versions at the same time, on the same node, and then the first one again.

**Predict:** how long does the first start take, and how long the second?
"""

# %% tags=["demo"]
if passed("pip_environment"):
    entrypoint = 'python -c "import greeter; print(greeter.VERSION)"'
    versions = budget(full=["1.0", "2.0"], quick=["1.0"])
    both = [pip_environment("greeter", version, str(wheels)) for version in versions]
    for start, envs in {"first": both, "second": both[: budget(full=1, quick=0)]}.items():
        for run in given.what_runs(client, entrypoint, envs):
            print(f"{start} start: version {run['log']} after {run['end']:.1f} s")

# %% [markdown]
r"""
At the first start a node makes a virtual environment and `pip` fills it; then it stays for the next job that asks for exactly the same.
Change one version in the list, and you wait again.

If Ray itself runs in a virtual environment, it *copies* that with everything in it.
So this cluster has a small one, which only borrows the course's packages.
Compare what a job would have to copy:
"""

# %% tags=["demo"]
print(f"this cluster's environment: {1e6 * given.size(Path(cluster.scripts).parent):.0f} kB")
print(f"the course's own: {given.size(sys.prefix):.1f} GB")

# %% [markdown]
r"""
On a cluster, put what all jobs need into the nodes' image, and use `pip` for what differs between jobs.
`py_modules` sends a package of your own without installing it, as the last section does.
`uv`, `conda` and `image_uri` are other fields of a runtime environment, for other tools.
"""

# %% [markdown]
r"""
## Ray Client lends you a driver over there

To try things out from outside there is one more way: an address that begins with `ray://`.
Your notebook then looks like a driver, but the real one is a process that the **client server** starts on the head for you.
Every call travels there and back.

**Predict:** a task call from a driver within the cluster takes a few milliseconds; `squares.py` has timed 100 of them.
How long does it take over Ray Client?
"""

# %% tags=["demo"]
# with_patience: Ray Client gives up after 30 s, which a very busy machine can need; then it tries again
ray.shutdown()  # a run of this cell that was interrupted may still be connected
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
Ray Client is handy, but it has limits.
The versions of Ray and Python must match on both sides.
In a loop of small calls, each call pays for the round trip, and more on a real network than here.
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
So it is easy to submit a job where a task would do.
To see what each costs, the next cell submits jobs that do nothing, and notes when Ray answers the request and when the job ends.
You have already measured the rest.

**Predict** three of them: a task call, the answer to a submission, and a whole job that does nothing.
"""

# %% tags=["demo"]
rounds = budget(5, 1)
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
The answer to a submission comes within hundredths or tenths of a second, but the receipt is not the work.
The job itself takes seconds, hundreds to thousands of times a task call, because it starts processes: a supervisor (a Ray actor, a Python with Ray in it), a shell, and for a job that uses Ray one more Python that imports it, plus its own workers.
From the shell, the command `ray` comes on top.

So use a job for *work that you wait for as a whole*, such as a training run or a nightly evaluation; within it, tasks and actors do the parallel work.
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

Open the dashboard in a browser: the next cell prints its address and the token it asks for.
*Jobs* lists what you have submitted, with logs; *Cluster* shows nodes, workers, memory and load.
If the cluster is far away, bring the dashboard to your machine through a tunnel: `ssh -L 8265:localhost:8265 head`, or chapter 24's `ray dashboard cluster.yaml`.

Behind the page is the **state API**, which answers the same questions in the shell and in Python:

| | shell | Python (`ray.util.state`) |
|---|---|---|
| which nodes, alive and dead | `ray list nodes` | `list_nodes()` |
| which jobs | `ray list jobs`, or `ray job list` | `list_jobs()` |
| which actors, which tasks | `ray list actors`, `ray list tasks` | `list_actors()`, `list_tasks()` |
| how many tasks of each function | `ray summary tasks` | `summarize_tasks()` |
| a process's log | `ray logs worker-…` | `get_log()` |
| slots, demand, autoscaler | `ray status` | – |

Here are all jobs that you and the checks submitted, with their statuses.
Printing the token is harmless here: it dies with this cluster.
"""

# %% tags=["demo"]
print(cluster.dashboard, "| the token that it asks for:", cluster.token)
jobs = pandas.DataFrame([vars(job) for job in list_jobs(address=cluster.dashboard)])
jobs[["submission_id", "type", "status", "entrypoint"]].fillna("")

# %% [markdown]
r"""
Each driver is a job to Ray, so Ray Client and this notebook have a row as well, without a submission id.
The lists stop at 100 rows unless you pass `limit=`, and they need a running dashboard.
"""

# %% [markdown]
r"""
## This course moves to a cluster with one variable and one change

`RAY_ADDRESS` tells a program where its cluster is, and `ray.init()` without an address obeys it.
In a job it is already set.
So most of this course's chapters run on a cluster with

- `RAY_ADDRESS=auto` on a node of the cluster (say, JupyterLab on the head, through `ray attach --port-forward 8888`, chapter 24), or as a job;
- `coursekit` on all nodes: as `py_modules`, or `pip install`ed on each;
- one change in each notebook: `ray.init(num_cpus=4, …)` becomes `ray.init()`, because a program cannot tell a cluster how large it is.

Chapters 2, 4, 5 and 6 start a Ray of their own, so leave them at home.
The job below uses your `submit_and_wait` to run a function from Chapter 1 over there, and tries `num_cpus=4` first.
It brings `coursekit` along, so the nodes need not have it.
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
if passed("submit_and_wait") and budget(full=True, quick=False):
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
Long training belongs on the cluster, as a job that saves its checkpoints where you can reach them.

Now stop what this notebook started: the head, and everything below it.
"""

# %%
before = cluster.processes()
cluster.stop()
print(f"{sum(process.is_running() for process in before)} of {len(before)} processes are left")

# %% [markdown]
r"""
## What you can do now

- You know the processes of head and worker, what each is for, and which a broken node lacks.
- You start a head, let nodes join it with address and token, and stop exactly what you started.
- You submit jobs from the shell, from Python and over HTTP, wait for them to end, and check how they ended.
- You know that a job costs seconds and a task call a few milliseconds, and which you need.
- You give two jobs two versions of a package, and know what the first start copies and installs.

## Traps

- **A shell without `RAY_AUTH_MODE=token`**: `ray start --address` fails after some twenty seconds, and `ray list nodes` at once; `ray start --head` starts a cluster open to all if there is no token yet.
- **`ray stop` on a shared account** ends the clusters of others, too.
- **Done is not succeeded.** `FAILED` and `STOPPED` are ends, too; `submit_job` never raises for them.
- **`PENDING` is not `RUNNING`**: a loop `while status == "RUNNING"` ends before the job has begun.
- **`python` in an entrypoint** is the one on the cluster, and the files there are those of `working_dir`.
- **`pip` without a version** may install another one tomorrow, and every change to the list means another first start.
- **Ray in a large virtual environment** copies all of it for every `pip` environment.
- **A long `--temp-dir`**: the path of Ray's sockets must stay below about 100 letters, and macOS's own temporary folders are long.

## Read on

- [Chapter 24](ch24_deploy.ipynb): clusters in clouds, on Kubernetes, and on machines of your own.
- [Chapter 19](ch19_operate.ipynb): operating what you have trained.
- Ray's documentation: [jobs](https://docs.ray.io/en/latest/cluster/running-applications/job-submission/index.html) and their [REST API](https://docs.ray.io/en/latest/cluster/running-applications/job-submission/rest.html), [runtime environments](https://docs.ray.io/en/latest/ray-core/handling-dependencies.html), [token authentication](https://docs.ray.io/en/latest/ray-security/token-auth.html).
- [Old names](../docs/old_names.md): the id in `metadata`, and others you may meet in older texts.
"""
