"""What chapter 6 hands out, and the probes that drive its answers."""

import contextlib
import json
import logging
import os
import re
import site
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypedDict

import pandas

from coursekit.given.folders import wait_until
from coursekit.given.own_cluster import CommandFailed, OwnCluster, Started, cluster_here
from coursekit.given.own_cluster import stop as stop  # for the tests
from coursekit.given.own_cluster import use as use  # for the chapter
from coursekit.given.own_requests import own_request

LONGEST_WAIT = 60.0  # seconds, for a request to the head or for what it was asked to do
PURPOSE = {
    "gcs_server": "GCS: keeps the cluster's records of nodes, actors, and jobs",
    "raylet": "raylet: manages its node: starts workers, assigns tasks, holds the object store",
    "dashboard.py": "dashboard: serves the web page and the REST API, and accepts jobs",
    "ray-dashboard-": "dashboard: its helpers, one process for each part of the API",
    "log_monitor.py": "log monitor: sends what workers print to the driver",
    "monitor.py": "monitor: the autoscaler, which adds nodes when work is pending",
    "ray.util.client.server": "client server: starts drivers for Ray Client (ray://)",
    "ray::DashboardAgent": "agent: reports the node's load, and starts jobs on the head node",
    "ray::RuntimeEnvAgent": "agent: prepares runtime environments on this node",
    "ray::": "worker: runs tasks and actors",
    "agent.py": "agent: reports the node's load, and starts jobs on the head node",  # these three have no title yet
    "main.py": "agent: prepares runtime environments on this node",
    "default_worker.py": "worker: runs tasks and actors",
    "start": "ray start: the command itself, which starts other processes and watches them",
}
OTHER = "other: Python's own helpers, which start those of the dashboard"


def command_lines(cluster: OwnCluster | Started) -> dict[int, list[str]]:
    """Return the command line of each living process of a cluster or a command, as a list of words, by process id."""
    lines = {}
    for process in cluster.processes():
        with contextlib.suppress(Exception):  # it has ended meanwhile
            lines[process.pid] = [word for word in (part.strip() for part in process.cmdline()) if word]
    return {pid: words for pid, words in lines.items() if words}


def brief(words: list[str]) -> str:
    """Return a command line without folders, shortened to 100 characters."""
    text = " ".join(word if "::" in word or "(" in word else _without_folder(word) for word in words)
    return text if len(text) <= 100 else f"{text[:97]}…"


def _without_folder(word: str) -> str:
    option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    return f"{option}{equals}{Path(value).name}"


def without_memory(resources: dict[str, float]) -> str:
    """Return what a node offers besides memory, as text: `CPU: 1, robot: 2`."""
    return ", ".join(f"{name}: {amount:g}" for name, amount in sorted(resources.items()) if "memory" not in name)


def plain_node(cluster: OwnCluster) -> tuple[str, dict[str, str]]:
    """Return the command and the variables of a node that joins a cluster with one CPU and nothing else."""
    return f"ray start --block --address={cluster.address} --num-cpus=1", cluster.token_variables


def anatomy(cluster: OwnCluster | Started) -> pandas.DataFrame:
    """Return what each kind of process of a cluster or a command does, how many run, what started them, and their memory in MB."""
    processes = {process.pid: process for process in cluster.processes()}
    purposes = {pid: _purpose(words) for pid, words in command_lines(cluster).items()}
    rows = []
    for pid, purpose in purposes.items():
        with contextlib.suppress(Exception):  # it has ended meanwhile
            parent = processes[pid].ppid()
            if purposes.get(parent) == OTHER:  # it starts processes for its own parent
                parent = processes[parent].ppid()
            starter = purposes.get(parent, "you").partition(":")[0]
            rows.append((purpose, starter, round(processes[pid].memory_info().rss / 2**20)))
    table = pandas.DataFrame(rows, columns=["process", "started by", "MB"])
    return table.groupby(["started by", "process"])["MB"].agg(running="count", MB="sum").reset_index()


def _purpose(words: list[str]) -> str:
    names = [Path(word).name for word in words[:4]]
    found = (text for sign, text in PURPOSE.items() if any(_shows(name, sign) for name in names))
    return next(found, OTHER)


def _shows(name: str, sign: str) -> bool:
    return name.startswith(sign) if sign.endswith((":", "-")) else name == sign


def nodes(cluster: OwnCluster) -> list[dict]:
    """Return what the state API says of each node: `node_id`, `is_head_node`, `state`, `resources_total`."""
    import requests

    url = f"{cluster.dashboard}/api/v0/nodes?detail=true"
    with own_request(url):
        reply = requests.get(url, headers=cluster.bearer, timeout=LONGEST_WAIT)
    reply.raise_for_status()
    return reply.json()["data"]["result"]["result"]


def with_patience(connect: Callable[[], Any], tries: int = 4) -> Any:
    """Return what `connect` returns; Ray Client gives up after 30 s, which a very busy machine can need: then again."""
    logging.getLogger("ray.util.client.logsclient").disabled = True  # what the server logs about itself
    for attempt in range(tries):
        try:
            return connect()
        except ConnectionError:
            if attempt == tries - 1:
                raise
    return None


def end_of(client: Any, job: str) -> str:
    """Return the status with which a job ended, once it has."""
    while not (status := client.get_job_status(job)).is_terminal():
        time.sleep(0.1)
    return str(status)


def own_lines(log: str) -> str:
    """Return what a job's own program has printed: its log without the lines of Ray."""
    of_ray = re.compile(r"\d{4}-\d\d-\d\d |Running entrypoint|(?:\x1b\[\d+m)?\(pid=\d+")
    return "\n".join(line for line in log.splitlines() if not of_ray.match(line))


def seconds_of_job(client: Any, entrypoint: str, runtime_env: dict | None = None) -> dict:
    """Return the seconds until a job was `accepted`, until it was `running` and until its `end`, with its id."""
    start = time.perf_counter()
    job = client.submit_job(entrypoint=entrypoint, runtime_env=runtime_env)
    seen = {"job": job, "accepted": time.perf_counter() - start}
    while not (status := client.get_job_status(job)).is_terminal():
        if status == "RUNNING":
            seen.setdefault("running", time.perf_counter() - start)
        time.sleep(0.05)
    return seen | {"end": time.perf_counter() - start, "status": str(status)}


class RehearsedClient:
    """A JobSubmissionClient without a cluster: its job is PENDING, then RUNNING, and then has the final status it was given."""

    def __init__(self, ends_as: str, log: str):
        self._ends_as, self._log = ends_as, log
        self.calls: list[list] = []
        self._submitted, self._polls, self._polls_after_end = 0.0, 0, 0

    def submit_job(self, *, entrypoint: str, runtime_env: dict | None = None, **more: Any) -> str:
        """Record what was submitted; the job is PENDING for the first two polls, and for 0.2 s at least."""
        self.calls.append(["submit", entrypoint, runtime_env])
        self._submitted = time.monotonic()
        return "raysubmit_rehearsal"

    def get_job_status(self, job_id: str) -> Any:
        """Return the status of the moment; raises StillAsking after too many polls after the end."""
        from ray.job_submission import JobStatus

        passed = time.monotonic() - self._submitted
        self._polls += 1
        pending, running = self._polls <= 2 or passed < 0.2, self._polls <= 4 or passed < 0.4
        status = "PENDING" if pending else "RUNNING" if running else self._ends_as
        self.calls.append(["status", status, job_id])
        self._polls_after_end += status == self._ends_as
        if self._polls_after_end > 8:
            raise StillAsking
        return JobStatus(status)

    def get_job_info(self, job_id: str) -> Any:
        """Return an object with the status of the moment."""
        from ray.job_submission import JobDetails, JobType

        status = self.get_job_status(job_id)
        return JobDetails(type=JobType.SUBMISSION, submission_id=job_id, status=status, entrypoint="", message="")

    def get_job_logs(self, job_id: str) -> str:
        """Return what the job has printed until now: nothing until its end has been seen."""
        self.calls.append(["logs", self._polls_after_end, job_id])
        return self._log if self._polls_after_end else ""


class StillAsking(BaseException):
    """An answer asks for the status of a job again and again after its end."""


def small_environment(cluster: OwnCluster) -> None:
    """Let a cluster run in a virtual environment of its own, with nothing in it: it borrows the packages of this one.

    For `pip` in a runtime environment Ray copies the virtual environment that it runs in, and the course's has gigabytes.
    """
    folder = Path(cluster.folder, "environment")
    venv.create(folder, symlinks=True, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    lines = [f"import site; site.addsitedir({each!r})" for each in site.getsitepackages()]
    (packages / "borrowed.pth").write_text("\n".join(lines) + "\n")
    script = folder / "bin" / "ray"
    script.write_text(f"#!{folder}/bin/python\nfrom ray.scripts.scripts import main\nmain()\n")
    script.chmod(0o755)
    cluster.scripts = str(folder / "bin")


def wheel(folder: str | Path, package: str, version: str) -> Path:
    """Write a wheel of one module that knows its version, into the folder; return its path."""
    Path(folder).mkdir(exist_ok=True)
    path, about = Path(folder, f"{package}-{version}-py3-none-any.whl"), f"{package}-{version}.dist-info"
    files = {
        f"{package}.py": f'VERSION = "{version}"\n',
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: by hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{about}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{about}/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def size(folder: str | Path) -> float:
    """Return the gigabytes of a folder."""
    return sum(os.lstat(f"{path}/{name}").st_size for path, _, names in os.walk(folder) for name in names) / 1e9


def what_runs(client: Any, entrypoint: str, runtime_envs: list[dict]) -> list[dict]:
    """Return of jobs that are submitted together what each printed (`log`), and the seconds until its `end`."""
    began = time.perf_counter()
    ids = [client.submit_job(entrypoint=entrypoint, runtime_env=each) for each in runtime_envs]
    ends: dict[str, float] = {}
    while len(ends) < len(ids):
        for job in ids:
            if job not in ends and client.get_job_status(job).is_terminal():
                ends[job] = time.perf_counter() - began
        time.sleep(0.1)
    return [{"log": own_lines(client.get_job_logs(job)), "end": ends[job]} for job in ids]


# Probes: each drives a learner's object with the judge's inputs, and returns raw results.


def what_is_missing_here(
    what_is_missing: Callable, left_out: list[list[str]]
) -> list[tuple[str, list[list[str]], Any]]:
    """Return for each [part, sign] the part, the cluster's command lines without those that show the sign, and what is missing then."""
    cluster = cluster_here()
    titles = (["ray::DashboardAgent"], ["ray::RuntimeEnvAgent"])
    wait_until(lambda: all(title in command_lines(cluster).values() for title in titles), LONGEST_WAIT)
    seen: list[tuple[str, list[list[str]], Any]] = []
    for part, sign in left_out:
        lines = [
            [word[:200] for word in words[:60]]
            for words in command_lines(cluster).values()
            if not any(sign and sign in (word, Path(word).name) for word in leading(words))
        ]
        seen.append((part, lines, what_is_missing([list(words) for words in lines])))
    return seen


def leading(words: list[str]) -> list[str]:
    """Return the words of a command line that can say what runs: the first few, without options."""
    return [str(word) for word in words[:4] if not str(word).startswith("-")]


class Rehearsed(TypedDict):
    """What came of a job that a stand-in took (`raised` is None where nothing was), and each (entrypoint, runtime_env) submitted."""

    returned: Any
    raised: str | None
    kind: str  # the type of what was raised
    still_asking: bool
    submitted: list[tuple[Any, Any]]
    polls: int


def submit_to_a_stand_in(
    submit_and_wait: Callable, ends_as: str, entrypoint: str, runtime_env: dict, log: str
) -> Rehearsed:
    """Return what came of a job that ends in a given way, what was submitted, and how often its status was asked for."""
    client = RehearsedClient(ends_as, log)
    returned, raised, kind, still_asking = None, None, "", False
    try:
        returned = submit_and_wait(client, entrypoint, runtime_env)
    except StillAsking:
        still_asking = True
    except NotImplementedError:
        raise
    except Exception as error:
        raised, kind = str(error), "RuntimeError" if isinstance(error, RuntimeError) else type(error).__name__
        if kind != "RuntimeError" and log.strip() not in raised:  # an accident, not what the job's end led to
            raise
    return {
        "returned": returned,
        "raised": raised,
        "kind": kind,
        "still_asking": still_asking,
        "submitted": [(call[1], call[2]) for call in client.calls if call[0] == "submit"],
        "polls": sum(call[0] == "status" for call in client.calls),
    }


class Run(TypedDict):
    """What came of a real job, and the statuses of the jobs with its entrypoint."""

    returned: Any
    known: list[str]


def run_a_job(submit_and_wait: Callable, entrypoint: str, runtime_env: dict) -> Run:
    """Return what came of a real job, and the jobs with this entrypoint that the cluster has on record."""
    from ray.job_submission import JobSubmissionClient

    cluster = cluster_here()
    with own_request(cluster.dashboard):
        client = JobSubmissionClient(cluster.dashboard, headers=cluster.bearer)
    returned = submit_and_wait(client, entrypoint, runtime_env)
    known = [str(job.status) for job in client.list_jobs() if job.entrypoint == entrypoint]
    return {"returned": returned, "known": known}


class Job(TypedDict):
    """What the dashboard says of a job."""

    entrypoint: str
    status: str
    runtime_env: dict[str, Any] | None


class Sent(TypedDict):
    """What came of a job sent by HTTP with a wrong token (`noticed` where that raised), then with the right one.

    `failed` says how the dashboard refused the right one, "" where it did not; `job` is None where the cluster has none of this id.
    """

    noticed: bool
    refused: Any
    failed: str
    returned: Any
    job: Job | None
    log: str


def send(submit_rest: Callable, submission_id: str, entrypoint: str, runtime_env: dict) -> Sent:
    """Return what came of a job sent by HTTP with a wrong token, then with the right one."""
    cluster = cluster_here()
    seen: Sent = {"noticed": False, "refused": None, "failed": "", "returned": None, "job": None, "log": ""}
    url = cluster.dashboard
    try:
        seen["refused"] = submit_rest(url, "0" * 64, f"{submission_id}-refused", entrypoint, runtime_env)
    except NotImplementedError:
        raise
    except Exception:
        seen["noticed"] = True
    with _replies() as replies:
        try:
            seen["returned"] = submit_rest(url, cluster.token, submission_id, entrypoint, runtime_env)
        except Exception as error:
            if not replies or replies[-1].ok:
                raise
            said = f"It replied {replies[-1].status_code} {replies[-1].reason}: {_gist(replies[-1].text)}"
            seen["failed"] = f"{said}\n`submit_rest` raised {type(error).__name__}."
            return seen
    with own_request(url):
        seen["job"], seen["log"] = _job_once_over(cluster, submission_id)
    return seen


def _job_once_over(cluster: OwnCluster, submission_id: str) -> tuple[Job | None, str]:
    """Return what the dashboard says of a job that has ended, None where there is none, and what the job printed."""
    import requests

    url, end = f"{cluster.dashboard}/api/jobs/{submission_id}", time.monotonic() + LONGEST_WAIT
    while (reply := requests.get(url, headers=cluster.bearer, timeout=LONGEST_WAIT)).ok:
        job = reply.json()
        if job["status"] not in ("PENDING", "RUNNING") or time.monotonic() > end:
            logs = requests.get(f"{url}/logs", headers=cluster.bearer, timeout=LONGEST_WAIT).json().get("logs", "")
            return {"entrypoint": job["entrypoint"], "status": job["status"], "runtime_env": job["runtime_env"]}, logs
        time.sleep(0.1)
    return None, ""


@contextlib.contextmanager
def _replies() -> Iterator[list]:
    """Yield a list of all replies that `requests` gets while the block runs."""
    from unittest import mock

    import requests

    replies: list = []
    send = requests.Session.send

    def noted(*args: Any, **kwargs: Any) -> Any:
        replies.append(send(*args, **kwargs))
        return replies[-1]

    with mock.patch.object(requests.Session, "send", noted):
        yield replies


def _gist(text: str) -> str:
    """Return the first line of a text, or the last one of a traceback, which names the cause."""
    lines = [line.strip()[:200] for line in text.splitlines() if line.strip()] or ["(nothing)"]
    return lines[-1] if lines[0].startswith("Traceback") else lines[0]


class Joined(TypedDict):
    """Each new node as (state, is a head, resources), and whether its command still ran; or how the command `failed`."""

    failed: str
    joined: list[tuple[str, bool, dict[str, float]]]
    running: bool


def join(join_node: Callable, cpus: int, resources: dict) -> Joined:
    """Return which nodes the cluster had more while the command ran."""
    cluster = cluster_here()
    command, variables = join_node(cluster.address, cluster.token_file, cpus, resources)
    before = {node["node_id"] for node in nodes(cluster)}
    try:
        started = cluster.start([str(word) for word in command], dict(variables), seconds=LONGEST_WAIT)
    except CommandFailed as error:
        return {"failed": str(error)[-600:], "joined": [], "running": False}
    try:
        end = time.monotonic() + LONGEST_WAIT
        while (
            not (new := [node for node in nodes(cluster) if node["node_id"] not in before]) and time.monotonic() < end
        ):
            time.sleep(0.1)
        running = started.exit_code() is None
    finally:
        started.stop()
    return {
        "failed": "",
        "joined": [(node["state"], node["is_head_node"], node["resources_total"]) for node in new],
        "running": running,
    }


class Made(TypedDict):
    """What `join_node` returned, and whether it tried to read the token's file."""

    returned: Any
    read: bool


def joining_command(join_node: Callable, address: str, token_file: str, cpus: int, resources: dict) -> Made:
    """Return the command and the environment of `join_node`, without running it."""
    try:
        return {"returned": join_node(address, token_file, cpus, resources), "read": False}
    except FileNotFoundError as error:
        if str(error.filename) != token_file:
            raise
        return {"returned": None, "read": True}


class Planned(TypedDict):
    """Each package that `pip` would install as (name, version, whether from the folder), or what Ray or pip said instead.

    `kind` is the type of what came back.
    """

    kind: str
    refused: str
    found: list[tuple[str, str, bool]]


def installed(pip_environment: Callable, package: str, version: str, versions: list[str]) -> Planned:
    """Return what `pip` would install for the runtime environment, from a folder of wheels and without a network."""
    from ray.runtime_env import RuntimeEnv

    with tempfile.TemporaryDirectory(prefix="wheels-") as parent:
        folder, index = f"{parent}/wheels", f"{parent}/index"
        for each in versions:
            _offer(index, wheel(folder, package, each))
        made = pip_environment(package, version, folder)
        if not isinstance(made, dict):
            return {"kind": type(made).__name__, "refused": "", "found": []}
        try:
            config = RuntimeEnv(**made).pip_config()
        except Exception as error:
            return _refused(f"Ray said: {error}"[:400])
        if not config:
            return _refused("Ray finds no `pip` in it.")
        return _dry_run(config, folder, index)


def _refused(text: str) -> Planned:
    return {"kind": "dict", "refused": text, "found": []}


def _offer(index: str, path: Path) -> None:
    """Put a later build of a wheel into an index, which stands for the internet: pip prefers it wherever it may look there."""
    package, version, *tags = path.name.split("-")
    page = Path(index, package, "index.html")
    page.parent.mkdir(parents=True, exist_ok=True)
    later = page.with_name("-".join([package, version, "1", *tags]))
    later.write_bytes(path.read_bytes())
    with page.open("a", encoding="utf-8") as links:
        links.write(f'<a href="{later.name}">{later.name}</a>\n')


def _dry_run(config: dict, folder: str, index: str) -> Planned:
    """Return what `pip install` would do with the packages and options that Ray passes on, where only `index` is the internet."""
    requirements = Path(folder, "requirements.txt")
    requirements.write_text("\n".join(config["packages"]) + "\n", encoding="utf-8")
    options = config.get("pip_install_options", ["--disable-pip-version-check", "--no-cache-dir"])
    no_network = ["--index-url", Path(index).as_uri(), "--retries", "0", "--timeout", "2"]
    plan = ["--dry-run", "--quiet", "--no-color", "--report", f"{folder}/report.json"]
    command = ["install", *plan, *no_network, "-r", str(requirements), *options]
    done = subprocess.run([sys.executable, "-m", "pip", *command], capture_output=True, text=True, timeout=120)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        said = [line for line in lines if line.startswith("ERROR")] or lines[-1:]
        return _refused("pip said: " + " ".join(said)[:400].replace(folder, "…"))
    plans = json.loads(Path(folder, "report.json").read_text(encoding="utf-8"))["install"]
    found = [(each["metadata"], each["download_info"]["url"]) for each in plans]
    listed = [(about["name"], about["version"], folder in url) for about, url in found]
    return {"kind": "dict", "refused": "", "found": listed}
