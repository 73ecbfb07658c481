# %% [markdown] you_learn_to="start a cluster by hand, submit jobs, and name each process"
r"""
# Chapter 6 · Clusters and jobs

A cluster is a head node together with the nodes that join it, and a job is a program that runs on the cluster without you.

*About 100 minutes · builds on [Chapters 1](ch01_tasks.ipynb) and [3](ch03_actors.ipynb); [Chapters 4](ch04_scheduling.ipynb) and [5](ch05_faults.ipynb) help*

The next chapter doesn't depend on this one; for clouds and Kubernetes, see [Chapter 24](ch24_deploy.ipynb).

**What you will be able to do**

- start a head node, and let other nodes join it with a token;
- name every process of a Ray cluster, and find the one that a broken node lacks;
- submit a job from the shell, from Python, and over HTTP, and find out how it ended;
- give each job its own packages, and explain what they cost at the first start;
- choose between a task, a job, and Ray Client.
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

from coursekit import begin, budget, check, explain, hint, measured, passed, predict, puzzle, quiz, review, solution
from coursekit.given import ch06_cluster as given
from coursekit.given.own_cluster import OwnCluster

begin("ch06_cluster")

# %% [markdown] tags=["notes"]
r"""
The run sheet allots a hundred minutes, with `submit_rest` as homework.
Have everyone run the head's cell at once: it takes ten to fifteen seconds on a small laptop and a minute on a busy one.
You don't need a cloud account.
Say early why this chapter never runs `ray stop`: it would stop every Ray instance that your account may stop, including your neighbors' on a server where the class shares one account.
"""

# %% [markdown]
r"""
## `ray start --head` starts the head node

So far, `ray.init()` has started Ray, and Ray has stopped with the notebook.
A real cluster outlives the programs that use it, so you start it with a command.
The first machine of a cluster is the [head node](../docs/glossary.md#head-node), and you start it like this:

    ray start --head

By default, this command uses the ports 6379, 8265, 10001, and 52365 and the folder `/tmp/ray`, so it can collide with another Ray instance on your machine.
The next cell therefore passes a separate folder and other ports, where 0 means any free port.
`OwnCluster` chooses them, and it creates a *token*, a secret that the next section explains.
It stops what it started, and nothing else, when you call `stop`, when this notebook exits, or when the notebook's kernel is killed.
`--block` keeps the command in the foreground, as the parent of the processes that it starts.

Starting takes 5 to 60 seconds.

**Predict:** how many processes does this one command start?
"""

# %% tags=["demo"]
predict("head_processes", ...)  # processes, counting the command itself

# %%
ray.shutdown()  # stops a Ray instance that's already running here: its references and actors are gone
cluster = OwnCluster()
given.use(cluster)  # the checks below use this cluster, too
given.small_environment(cluster)  # gives it a Python environment; a later section explains why
began = time.perf_counter()
head = cluster.start(  # what ray.init() has done for you so far
    f"ray start --head --block --num-cpus=2 --port={cluster.port} --dashboard-port={cluster.dashboard_port} "
    f"--ray-client-server-port={cluster.client_port} --dashboard-agent-listen-port=0 "
    f"--temp-dir={cluster.folder}"
)
cluster.export()  # the token, for this notebook: like `export RAY_AUTH_MODE=token …` in a shell
print(f"process {head.pid}, ready after {time.perf_counter() - began:.1f} s; address {cluster.address}")

# %% tags=["demo"]
lines = given.command_lines(cluster)  # of each running process, as `ps` shows them
for pid, words in lines.items():
    print(f"{pid:7} {given.brief(words)}")  # without folders, at most 100 characters
measured("head_processes", len(lines))

# %% [markdown]
r"""
That's probably more than you expected.
About half of these processes are the dashboard's helpers, which share the dashboard's box in this picture:

![The processes of a head node and of a worker node, what each one does, and what is lost when it dies](../img/ch06_anatomy.svg)

When a cluster misbehaves, first ask which box is missing.

Every node runs what's in the lower half: a raylet (which manages the node), two **agents**, a [log monitor](../docs/glossary.md#log-monitor), and the workers.
Only the head node runs what a cluster needs only once: the GCS, the [dashboard](../docs/glossary.md#dashboard), the **monitor** (the autoscaler from Chapter 4), and the **client server**.

The next cell shows what each process does, how much memory it uses, and which process started it.
It runs a task first, so that there is a worker.
"""

# %% tags=["demo"]
pandas.set_option("display.max_colwidth", 100)
ray.shutdown()
with ray.init(cluster.address, log_to_driver=False):
    ray.get(ray.remote(lambda: "done").remote())  # its worker keeps running, and waits for another task
    processes = given.anatomy(cluster)  # one row for each kind of process
print(processes.MB.sum(), "MB, with shared memory counted more than once")
processes

# %% [markdown]
r"""
The raylet started the agents and the workers.
If the raylet dies, they exit, too, and if an agent dies, the raylet exits.

`ray start --block` started the others, except for the dashboard's helpers, and it watches the processes that it started.
If one of them crashes or is killed with SIGKILL, the command stops the whole node, and systemd or Kubernetes can start a fresh one.
If one of them exits after a SIGTERM, that doesn't count as a crash: the command keeps running, and you have a broken node.
"""

# %%
### BEGIN SOLUTION
who_must_not_die = "c"
### END SOLUTION

# %%
quiz("who_must_not_die", who_must_not_die)

# %% [markdown]
r"""
### Find the processes that a broken node lacks

In the output of `ps`, you can tell the processes apart by these signs:

| part | sign |
|---|---|
| on the head node: | |
| `"gcs"` | the program `gcs_server` |
| `"dashboard"` | Python with the script `dashboard.py` |
| `"monitor"` | Python with the script `monitor.py` |
| `"client server"` | Python with the module `ray.util.client.server` |
| on every node: | |
| `"raylet"` | the program `raylet` |
| `"log monitor"` | Python with the script `log_monitor.py` |
| `"dashboard agent"` | the title `ray::DashboardAgent` |
| `"runtime env agent"` | the title `ray::RuntimeEnvAgent` |

A command line is a list of words: the program with its folder, and then the arguments.
If a process has set a *title*, `ps` shows only that.
Here are a monitor and an agent:

    ["/usr/bin/python3", "-u", "/…/ray/autoscaler/_private/monitor.py", "--gcs-address=10.0.0.7:6379", …]
    ["ray::DashboardAgent"]

Ignore all other processes: workers (with other titles that begin with `ray::`), the dashboard's helpers (`ray-dashboard-…`), `ray start` itself, and whatever else runs on the machine, such as an editor.
Don't search for parts of words: most command lines contain `--gcs-address=…`, for example.

Write `what_is_missing`, which takes the command lines of one node and returns the parts of the table that the node should have but lacks.
Your function has to find out by itself whether the node is the head node.
"""


# %%
def what_is_missing(processes):
    """Return a list of the parts of the table that this node should have but lacks, in any order.

    `processes` is a list of command lines, each a list of words. A node that has at least one of the
    parts that only a head node has is the head node.
    """
    ### BEGIN SOLUTION
    scripts = {"dashboard.py": "dashboard", "monitor.py": "monitor", "log_monitor.py": "log monitor"}
    scripts["ray.util.client.server"] = "client server"
    programs = {"gcs_server": "gcs", "raylet": "raylet"}
    titles = {"ray::DashboardAgent": "dashboard agent", "ray::RuntimeEnvAgent": "runtime env agent"}
    found = set()
    for words in processes:
        names = [word.rpartition("/")[2] for word in words]
        found.add(titles.get(words[0]) or programs.get(names[0]))
        if names[0].startswith("python"):
            found.update(scripts[name] for name in names[1:] if name in scripts)
    every, head = {"raylet", "log monitor", *titles.values()}, {"gcs", "dashboard", "monitor", "client server"}
    return sorted((every | head if found & head else every) - found)
    ### END SOLUTION


# %%
check("what_is_missing", what_is_missing)

# %% [markdown] tags=["solution"]
r"""
Comparing whole names is a habit that you also need in a terminal.
`pkill -f` looks for a *part* of the command line, so `pkill -f monitor.py` kills the log monitor as well, and it does so in every cluster whose processes you may stop.
"""

# %% [markdown]
r"""
## A token keeps strangers out of the cluster

A head node listens on several ports and runs whatever program it receives.
With [token authentication](../docs/glossary.md#token-authentication), it accepts only requests that carry the *token*, a secret that all parts of the cluster share.
So far, `ray.init()` has turned this on, and if there was no token in `~/.ray/auth_token`, it has created one.
If that token exists, `ray start --head` uses it; otherwise, it only prints a warning and starts a cluster that is open to everyone who can reach it.
`ray start --address`, which adds a node, never turns token authentication on by itself.
So set two variables in every shell, before any `ray` command:

    export RAY_AUTH_MODE=token
    export RAY_AUTH_TOKEN_PATH=/path/to/the/token      # without it: ~/.ray/auth_token

`ray get-auth-token --generate` prints your token, and creates one first if there is none.
If `RAY_AUTH_TOKEN` holds a token, that one takes precedence over the file.
In an HTTP request, the token is part of a header: `Authorization: Bearer …`.

Ask the dashboard for its version, first without the token, and then with it:
"""

# %% tags=["demo"]
address = f"{cluster.dashboard}/api/version"
for headers in ({}, {"Authorization": f"Bearer {cluster.token}"}):
    reply = requests.get(address, headers=headers)
    print(reply.status_code, reply.reason, "|", reply.text.splitlines()[0][:80])

# %% [markdown]
r"""
The status 401 says that the request has no token; with a wrong token, you get 403.
A token decides *who* may send requests, but it encrypts nothing, so keep the cluster on a private network or behind an SSH tunnel, too.
"""

# %%
### BEGIN SOLUTION
what_a_token_is_for = "b"
### END SOLUTION

# %%
quiz("what_a_token_is_for", what_a_token_is_for)

# %% [markdown]
r"""
## A second node joins with the head's address and the token

On the second machine, you also run `ray start`, but with `--address` and the head's address in place of `--head`.
`--num-cpus`, and `--resources` with a JSON object, say what the node offers.
You can practice this on a single machine, because Ray counts raylets, not computers.

Write `join_node`, which returns what you would type on the second machine: the command, as a list of strings, and a dictionary with the environment variables that it needs.

- Include `--block`, so that the command stays in the foreground.
- No shell reads the list, so the JSON needs no quotes around it.
- `token_file` is a path on *that* machine, so pass it on without reading the file.

The check also runs your command, waits for the node, and stops it again.

On macOS and Windows, a cluster can have several nodes only if you set `RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=1`, as `OwnCluster` does.
"""


# %%
def join_node(address, token_file, cpus, resources):
    """Return (command, variables) for a node that joins the cluster at `address` and stays in the foreground.

    The command is a list of strings, and the variables are a dict. The node offers `cpus` CPUs and
    `resources`, a dict of names and amounts.
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
Without the variables, `ray start --address` tries for about twenty seconds and then fails with `InvalidAuthToken`; by then, most people suspect the firewall.
All nodes need the same versions of Python and Ray, and each needs a copy of the token.
"""

# %% [markdown]
r"""
Now start a node with your command, or with a plain one until yours has passed:
"""

# %% tags=["demo"]
if passed("join_node"):
    command, variables = join_node(cluster.address, cluster.token_file, 1, {"robot": 2})
else:
    command, variables = given.plain_node(cluster)  # one CPU and nothing else
if budget(full=True, quick=not passed("join_node")):  # in quick mode, the check's node is enough
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
The new node runs the command itself and, as in the lower half of the picture, a raylet, two agents, and a log monitor; its workers start when there are tasks for them.
A node that's listed as `DEAD` is one that was stopped before, for example by the check; the GCS keeps its record.
Only the head node has the resource `node:__internal_head__`.

> **`ray stop` stops every Ray instance that your account may stop** on the machine: your other clusters, those of colleagues who share the account, and, if you're root, all of them.
> On a shared machine, stop the command that you started, as the cell did.
"""

# %% [markdown] tags=["notes"]
r"""
This is the halfway point.
Ask the room which boxes of the picture should get a machine to themselves.
With more than a few nodes, the answer is everything that only the head node has: start the head node with `--num-cpus=0`, so that no ordinary task can starve the GCS.
"""

# %% [markdown]
r"""
## A job runs your program on the cluster, even if your laptop is off

A task needs a driver, and so far, the driver has been your notebook.
A [job](../docs/glossary.md#job) is a whole program: you submit a shell command, its [entrypoint](../docs/glossary.md#entrypoint), and the cluster runs the driver for you.
The cluster also keeps the driver's output and records how the job ended.

![Your request goes over HTTP to the dashboard, then to the agent on the head node, which starts a supervisor actor; the supervisor runs the entrypoint, which is the driver](../img/ch06_job.svg)

The program runs on another machine, so it needs its files and settings there.
Its [runtime environment](../docs/glossary.md#runtime-environment) describes them.
The field `working_dir` names a folder that Ray packs, uploads, and unpacks, and `env_vars` sets environment variables.
With `pip` and `py_modules`, the program gets packages.
Here is a small project:
"""

# %%
project = Path(cluster.folder, "project")
project.mkdir(exist_ok=True)
(project / "squares.py").write_text("""
import json, os, time
import ray

ray.init()  # inside a job, RAY_ADDRESS is the cluster's address
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
### Submit a job from the shell

`ray job submit` uploads the folder, submits the job, prints the job's output as it appears, and waits for the end.
With `--no-wait`, it returns as soon as Ray has accepted the job.
You tell it where the dashboard is with `--address` or, as here, with `RAY_ADDRESS`, which takes precedence.
`cluster.shell` runs a command as a shell would, with the token's two variables set.

**Predict:** the program itself works for a fraction of a second.
How many seconds does the whole command take?
"""

# %% tags=["demo"]
predict("shell_command", ...)  # seconds

# %% tags=["demo"]
began = time.perf_counter()
output = cluster.shell(
    f"env RAY_ADDRESS={cluster.dashboard} ray job submit --working-dir {project} "
    """--runtime-env-json '{"env_vars": {"GREETING": "from the shell:"}}' -- python squares.py"""
)
shell_seconds = time.perf_counter() - began
submitted, _, log = output.partition("Tailing logs")
task_calls = yaml.safe_load(next(line for line in log.splitlines() if line.startswith("[")))  # the times, for later
hidden = ("[", "WebSocket")  # that list, and how the connection was closed
print("\n".join(line[:100] for line in log.splitlines()[1:] if line.strip() and not line.startswith(hidden)))
measured("shell_command", shell_seconds)

# %% [markdown]
r"""
The whole command takes many times longer than the program's own work: it has to start Python and import Ray before the job even starts, and then the job does the same on the cluster.

Once the job has ended, the command exits with 1 if it failed and with 0 otherwise, *even if somebody stopped it*.

What your tasks print also ends up in the job's output, with a prefix such as `(square pid=4711, ip=10.0.0.8)`.
By default, if several workers print lines that differ only in words that contain digits, you see one of them, and later `[repeated 9x across cluster]`.
`RAY_DEDUP_LOGS=0` turns that off, as this course does.
"""

# %% [markdown]
r"""
### Submit a job from Python

`JobSubmissionClient` does the same without the shell.
The job below fails on purpose: its program exits with code 3.

**Predict:** does `submit_job` raise an exception for this job, or does it return?
"""

# %% tags=["demo"]
predict("submit_a_failing_job", ..., ["raises", "returns"])

# %% tags=["demo"]
client = JobSubmissionClient(cluster.dashboard)
job = client.submit_job(entrypoint="""python -c 'print("step 1 of 3"); raise SystemExit(3)'""")
print(job, client.get_job_status(job))
measured("submit_a_failing_job", "returns")  # if it raised, the cell would end with its exception

# %% tags=["demo"]
given.end_of(client, job)  # waits until the job has ended
print(client.get_job_status(job), "|", client.get_job_info(job).message.splitlines()[0])
print("the last line of its log:", client.get_job_logs(job).splitlines()[-1])

# %% [markdown]
r"""
`submit_job` returned an ID, because submitting worked.
A job is `PENDING` at first and then `RUNNING`; its final status is `SUCCEEDED`, `FAILED`, or, if somebody called `stop_job`, `STOPPED`.
So if you need the result, poll the status, with pauses, until it's final, and then check *which* status it is.

Write `submit_and_wait`, which returns what a job printed, but only if the job succeeded.
The check passes your function a fake client, once for each final status, and then it runs a real job on your cluster.
"""


# %%
def submit_and_wait(client, entrypoint, runtime_env):
    """Submit one job, wait for it to end, and, if it succeeded, return everything that it printed.

    Raise RuntimeError if the job ended in any other way; the error's message holds what the job printed.
    Pause between two polls.
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
You can compare `status` with `"SUCCEEDED"` because a `JobStatus` is also a string.
There are three classic mistakes.
`while status == "RUNNING"` stops at once, because the job is still `PENDING`.
A loop that waits only for `SUCCEEDED` never stops if the job fails.
And a program that doesn't check the final status treats a failed job as a success.
"""

# %% [markdown]
r"""
### Submit a job over HTTP

The command and the Python client both send HTTP requests to the dashboard, so a program in any language can do the same:

| | request | reply |
|---|---|---|
| submit | `POST /api/jobs/` with JSON: `entrypoint`, and optionally `runtime_env`, `submission_id`, `metadata` | `submission_id` |
| status | `GET /api/jobs/ID` | `status`, `message`, … |
| log | `GET /api/jobs/ID/logs` | `logs` |
| all jobs | `GET /api/jobs/` | a list |
| stop | `POST /api/jobs/ID/stop` | `stopped` |

Don't forget the slash at the end of `/api/jobs/`.

You can choose the [submission ID](../docs/glossary.md#submission-id) yourself.
Then, if a shaky network or an impatient user sends the same request twice, the job runs only once: Ray refuses the second request with status 500.
Use the `submission_id` field: an ID in `metadata` is only a note that Ray keeps with the job.

Write `submit_rest`, which submits one job.
"""


# %%
def submit_rest(url, token, submission_id, entrypoint, runtime_env):
    """Submit a job to the dashboard at `url` (http://host:port) over HTTP, and return the submission ID.

    Raise an exception if the dashboard refuses the request.
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
`json=` turns the dictionary into JSON and sets the content type; `data=` would send a form, as a web page does, and Ray refuses that.
Without `raise_for_status`, a refusal surfaces as an error about JSON, which hides the reason.
"""

# %% [markdown]
r"""
## A runtime environment brings modules and packages to the workers

A module that your driver can import may be missing where a task runs.
Then the task raises `ModuleNotFoundError`.
Runtime environments aren't only for jobs: `ray.init(runtime_env=...)` sets one for all of your driver's tasks and actors.
`.options(runtime_env=...)` sets one for a single task or actor, but there, `working_dir` and `py_modules` must be URIs, not local folders.

The task below imports a module of the project, first without a runtime environment and then with one:
"""


# %% tags=["demo"]
def bonus():
    """Return a number from a module of the project."""
    import shaping

    return shaping.BONUS


(project / "shaping.py").write_text("BONUS = 0.5\n")
ray.shutdown()  # if a run of this cell was interrupted, it may still be connected
for runtime_env in budget(full=[None, {"working_dir": str(project)}], quick=[None]):
    with ray.init(cluster.address, runtime_env=runtime_env, log_to_driver=False):
        try:
            print("the task returned", ray.get(ray.remote(bonus).remote()))
        except ModuleNotFoundError as error:
            print("ModuleNotFoundError:", error.cause)

# %% [markdown]
r"""
If your job needs packages that the nodes lack, or other versions than the nodes have, the `pip` field installs them for this job alone.
The next cell makes two versions of a package, as [wheels](../docs/glossary.md#wheel), so that you need no network:
"""

# %%
wheels = Path(cluster.folder, "wheels")
for version in ("1.0", "2.0"):
    print(given.wheel(wheels, "greeter", version).name)

# %% [markdown]
r"""
For packages from the internet, a list is enough: `{"pip": ["greeter==1.0"]}`.
If pip needs options, use a dictionary, `{"pip": {"packages": [...], "pip_install_options": [...]}}`, with each word of the options as a separate string.
`--find-links FOLDER` makes pip look in a folder, too, and `--no-index` makes it ignore the package index on the internet.
On a real cluster, `FOLDER` must exist on every node, or be a URL.

Write `pip_environment`, which takes the name and version of a package and the folder with its wheels.
The check asks `pip` what it would install.
"""


# %%
def pip_environment(package, version, folder):
    """Return a runtime environment whose `pip` field installs this version of a package.

    It takes the package from the wheels in a folder and never from the internet.
    """
    ### BEGIN SOLUTION
    return {"pip": {"packages": [f"{package}=={version}"], "pip_install_options": ["--no-index", "--find-links", folder]}}
    ### END SOLUTION


# %%
check("pip_environment", pip_environment)

# %% [markdown] tags=["solution"]
r"""
Ray writes the packages to a requirements file, which may contain the same options, so `{"pip": ["--no-index", "--find-links FOLDER", "greeter==1.0"]}` works, too.
With an exact version, tomorrow's job installs the same package as today's.
"""

# %% [markdown]
r"""
Now run a job with each version, both at the same time on the same node, and then run the first one again (all of this may take half a minute).
Compare the first start with the second one:
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
At the first start, the node creates a virtual environment, and pip fills it.
The node keeps this environment for the next job that requests exactly the same one.
If you change a single version in the list, you wait again.

If Ray itself runs in a virtual environment, it first *copies* that whole environment.
That's why this chapter's cluster has a small one, which only borrows the course's packages.
Compare what a job would have to copy:
"""

# %% tags=["demo"]
print(f"this cluster's environment: {1e6 * given.size(Path(cluster.scripts).parent):.0f} kB")
print(f"the course's environment: {given.size(sys.prefix):.1f} GB")

# %% [markdown]
r"""
So on a cluster, put the packages that all jobs need into the nodes' image, and use `pip` for those that differ between jobs.
`py_modules` uploads a package from your machine without installing it; the last section uses it.
`uv`, `conda`, and `image_uri` are alternatives to `pip`.
"""

# %% [markdown]
r"""
## Ray Client runs your notebook's driver on the head node

To try things out from outside the cluster, use [Ray Client](../docs/glossary.md#ray-client): pass `ray.init` an address that begins with `ray://`.
Your notebook then looks like a driver, but the real driver is a process on the head node that the client server starts for you.
Every call travels from the notebook to that process, and every result travels back.

**Predict:** from a driver on the cluster, a task call takes a few milliseconds; `squares.py` has timed 100 of them.
How many milliseconds does a call take over Ray Client?
"""

# %% tags=["demo"]
predict("client_call", ...)  # milliseconds

# %% tags=["demo"]
# with_patience: Ray Client gives up after 30 s, which may be too soon on a very busy machine; then it tries again
ray.shutdown()  # if a run of this cell was interrupted, it may still be connected
given.with_patience(lambda: ray.init(cluster.client_address, log_to_driver=False))
square = ray.remote(lambda x: x * x)
client_calls = []
for x in range(30):
    start = time.perf_counter()
    ray.get(square.remote(x))
    client_calls.append(time.perf_counter() - start)
ray.shutdown()
client_calls = client_calls[5:]  # the first call also started a worker
print(f"{1000 * median(task_calls[10:]):.1f} ms per call from a driver on the cluster (squares.py)")
print(f"{1000 * median(client_calls):.1f} ms per call over Ray Client")
measured("client_call", 1000 * median(client_calls))

# %% [markdown]
r"""
Compare the two numbers: over Ray Client, each call also pays for the round trip, which takes even longer on a real network.
Ray must have the same version on both sides, and Python the same minor version, such as 3.11.
And the driver depends on your connection: if that's lost for more than 30 seconds, the driver exits, and its tasks and actors stop, except for detached actors.

| | where the driver runs | keeps running when you close your laptop | good for |
|---|---|---|---|
| `ray.init()` on a node | on that node | yes | JupyterLab on the head node |
| `ray.init("ray://…")` | on the head node | no | trying things out from a laptop |
| a job | on the head node, unless it requests resources, for example with `entrypoint_num_cpus` | yes | everything that matters |
"""

# %%
### BEGIN SOLUTION
laptop_closed = "b"
### END SOLUTION

# %%
quiz("laptop_closed", laptop_closed)

# %% [markdown]
r"""
## A job takes much longer to start than a task

`submit_job` and `.remote()` look alike: both return immediately, one with an ID and the other with a reference.
So it's tempting to submit a job where a task would do.

The next cell submits jobs that do nothing, and it records when Ray replies and when each job has ended.

**Predict:** how many task calls, one after the other, take as long as one job that does nothing?
"""

# %% tags=["demo"]
predict("task_calls_per_job", ...)  # task calls

# %% tags=["demo"]
rounds = budget(5, 1)
idle = [given.seconds_of_job(client, "true") for _ in range(rounds)]
squares = next(job for job in client.list_jobs() if job.entrypoint == "python squares.py")  # the one from the shell

costs = {
    "task call, on the cluster": task_calls[10:],
    "task call, over Ray Client": client_calls,
    "submitting a job, until the reply": [each["accepted"] for each in idle],
    "job that does nothing, until its end": [each["end"] for each in idle],
    "job that uses Ray, until its end": [(squares.end_time - squares.start_time) / 1000],
    "the same job, from the shell": [shell_seconds],
}
calls = median(costs["job that does nothing, until its end"]) / median(costs["task call, on the cluster"])
measured("task_calls_per_job", calls)

# %% tags=["demo"]
figure, axes = plt.subplots(figsize=(9, 3.2), constrained_layout=True)
for row, seconds in enumerate(costs.values()):
    middle = median(seconds)
    axes.plot(seconds, [row] * len(seconds), "o", color="#2563eb" if row < 2 else "#d97706", alpha=0.4)
    text = f"{middle:.1f} s" if middle >= 1 else f"{1000 * middle:.1f} ms"
    axes.annotate(text, (middle, row), xytext=(0, 7), textcoords="offset points", ha="center")
axes.set_yticks(range(len(costs)), costs)
axes.set(xscale="log", xlabel="seconds (log scale)", ylim=(len(costs) - 0.5, -0.8))
axes.margins(x=0.1)
axes.set_title(f"A job that does nothing takes as long as {calls:,.0f} task calls");

# %% [markdown]
r"""
One job takes as long as hundreds or even thousands of task calls.
The reply comes within tens or hundreds of milliseconds, but it only says that Ray has accepted the job.
The job itself takes seconds, because it starts processes: a supervisor actor, a shell, and, if the job uses Ray, a Python process that imports Ray, plus its workers.
From the shell, the `ray` command itself takes seconds, too.

So use a job for *work that you wait for as a whole*, such as a training run or a nightly evaluation; inside the job, tasks and actors do the parallel work.
"""

# %%
### BEGIN SOLUTION
job_or_task = "b"
### END SOLUTION

# %%
quiz("job_or_task", job_or_task)

# %% [markdown]
r"""
## The dashboard and the state API show what the cluster is doing

Open the dashboard in a browser; the next cell prints its address and the token.
*Jobs* lists the jobs with their logs, and *Cluster* shows nodes, workers, memory, and load.
If the cluster is far away, forward the dashboard's port: `ssh -L 8265:localhost:8265 head`.

The [state API](../docs/glossary.md#state-api) answers the same questions in the shell and in Python:

| | shell | Python (`ray.util.state`) |
|---|---|---|
| nodes, alive and dead | `ray list nodes` | `list_nodes()` |
| jobs | `ray list jobs` | `list_jobs()` |
| actors and tasks | `ray list actors`, `ray list tasks` | `list_actors()`, `list_tasks()` |
| the log of a process | `ray logs worker-…` | `get_log()` |
| resources in use, pending demand | `ray status` | – |

Here are all jobs that you and the checks have submitted:
"""

# %% tags=["demo"]
print(cluster.dashboard, "| token:", cluster.token)  # harmless: the token is useless once this cluster has stopped
jobs = pandas.DataFrame([vars(job) for job in list_jobs(address=cluster.dashboard)])
jobs[["submission_id", "type", "status", "entrypoint"]].fillna("")

# %% [markdown]
r"""
To Ray, each driver is a job, so the drivers of Ray Client and of this notebook have rows, too, without a submission ID.
The lists stop at 100 rows unless you pass `limit=`, and they need a running dashboard.
"""

# %% [markdown]
r"""
## Run this course on a cluster

`ray.init()` without an address joins the cluster that `RAY_ADDRESS` names; in a job, Ray has already set this variable.
So most chapters of this course run on a cluster if you

- set `RAY_ADDRESS=auto` in JupyterLab on the head node (Chapter 24), or run the code as a job;
- have `coursekit` on all nodes, through `py_modules` or `pip install`;
- change `ray.init(num_cpus=4, …)` to `ray.init()`, because a program can't set the size of a cluster that's already running.

Chapters 2, 4, 5, 6, 16, 19, 21, 22, and 24 start a Ray instance of a special kind, so run them on your own machine.

The next cell uses your `submit_and_wait` to run a function from Chapter 1 on the cluster; the job brings `coursekit` along.
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
print("RAY_ADDRESS is set:", "RAY_ADDRESS" in os.environ)
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
        "py_modules": [str(Path(coursekit.__file__).parent)],  # packed, uploaded, and found before any other copy
        "excludes": ["static", "__pycache__"],
    }
    print(given.own_lines(submit_and_wait(client, "python chapter1.py", runtime_env)))

# %% [markdown]
r"""
Do the exercises on your own machine, because their checks need a Ray instance of a known size.

Now stop what this notebook has started:
"""

# %%
before = cluster.processes()
cluster.stop()
print(f"{sum(process.is_running() for process in before)} of {len(before)} processes are still running")

# %% [markdown]
r"""
## What you can do now

- You can start a cluster with a token, name its processes, and stop exactly what you started.
- You can submit jobs in three ways, check how they ended, and give each one its own packages.
- You know that a job takes seconds and a task call a few milliseconds.

## Traps

- **In a shell without `RAY_AUTH_MODE=token`**, `ray start --address` fails after about twenty seconds, and `ray list nodes` fails at once.
- **A job that has ended hasn't necessarily succeeded**, and `ray job submit` exits with 0 even if the job was stopped.
- **`PENDING` isn't `RUNNING`**, so a loop `while status == "RUNNING"` stops before the job has started.
- **`RAY_ADDRESS` takes precedence over `--address`** in `ray job`, so an old value sends your job to another cluster.
- **`python` in an entrypoint** is the cluster's Python, and it sees the files of `working_dir`, not those on your machine.
- **A large virtual environment around Ray** is copied for every new `pip` environment.
- **A long `--temp-dir`** fails, because the path of a Unix socket has room for only about 100 characters.

## Read on

- [Chapter 24](ch24_deploy.ipynb): clusters in clouds, on Kubernetes, and on machines of your own.
- Ray's documentation: [jobs](https://docs.ray.io/en/latest/cluster/running-applications/job-submission/index.html) and their [REST API](https://docs.ray.io/en/latest/cluster/running-applications/job-submission/rest.html), [runtime environments](https://docs.ray.io/en/latest/ray-core/handling-dependencies.html), [token authentication](https://docs.ray.io/en/latest/ray-security/token-auth.html), [worker output and its deduplication](https://docs.ray.io/en/latest/ray-observability/user-guides/configure-logging.html).
- [Old names](../docs/old_names.md): the ID in `metadata`, and other names that you may meet in older texts.
"""
