"""What chapter 24 hands out, and the probes that drive its answers.

`ray up` runs here with an `ssh` and an `rsync` of ours, which record how the launcher calls them and run nothing.
"""

import contextlib
import io
import json
import logging
import os
import re
import shlex
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict
from unittest import mock

import numpy as np

from coursekit.given.folders import wait_until
from coursekit.given.machines import HEAD, WORKER, Laptop, why_not
from coursekit.given.own_cluster import OwnCluster, cluster_here
from coursekit.given.own_cluster import head_command as head_command  # for the chapter
from coursekit.given.own_cluster import stop as stop
from coursekit.given.own_cluster import use as use
from coursekit.learner.timing import budget
from coursekit.ray_bridge import private

if TYPE_CHECKING:
    import requests

NOTED = "\037", "\036"  # what ends a word, and what ends a command, in the notes of our `ssh`
OUR_OWN = """#!/bin/sh
# Stands in for `{name}`: notes how it was called, keeps a copy of the file that it should send, and runs nothing.
{{ printf '%s\\037' {name} "$@"; printf '\\036'; }} >> "{folder}/noted"
"""
KEEP = """
for word in "$@"; do before=$source source=$target target=$word; done
[ -f "$source" ] && cp "$source" "{folder}/sent-$(ls "{folder}" | wc -l)"
exit 0
"""
DASHBOARDS_PAGE = 44227  # where the dashboard shows its own metrics
HOURLY_RATE = 0.40  # of a node, in whatever you pay with
SIGNS = {  # the word that shows what a process is, in the order in which they are looked for
    "gcs_server": "gcs",
    "raylet": "raylet",
    "dashboard.py": "dashboard",
    "log_monitor.py": "log monitor",
    "monitor.py": "monitor",
    "ray.util.client.server": "client server",
    "ray::DashboardAgent": "dashboard agent",
    "ray::RuntimeEnvAgent": "runtime env agent",
}


def validated(text: str) -> dict:
    """Return a cluster.yaml with Ray's defaults filled in; raises what Ray raises if it doesn't fit Ray's schema.

    `ray up` also asks AWS for the CPUs of each machine type; this doesn't.
    """
    import yaml  # type: ignore[import-untyped]

    prepare_config = private.autoscaler_util.prepare_config
    validate_config = private.autoscaler_util.validate_config

    logging.getLogger("ray.autoscaler").setLevel(logging.ERROR)  # it reports each default that it fills in
    config = yaml.safe_load(text)
    if not isinstance(config, dict):
        raise ValueError(f"a cluster.yaml is a mapping of names to values, not {type(config).__name__}")
    with contextlib.redirect_stdout(io.StringIO()):
        filled = prepare_config(config)
        if filled["provider"]["type"] == "aws":  # here `ray up` asks AWS for each machine's CPUs
            for kind in filled["available_node_types"].values():
                if isinstance(kind, dict):
                    kind.setdefault("resources", {})
        validate_config(filled)
    return filled


# What `ray up` does, without a machine.


def dry_run(text: str) -> dict:
    """Return what `ray up` passes to `ssh` and `rsync` for a cluster.yaml, without running it: `commands`, `sent`, and `bootstrap`.

    `commands` is a list of (machine, command) and `sent` one of (machine, from, to), both in order. `bootstrap` is the
    configuration that the head receives. If the launcher fails, `failed` says why.
    """
    import yaml

    kind = yaml.safe_load(text)["provider"]["type"]
    if kind != "local":
        raise ValueError(f"provider.type is {kind!r}: only `local` needs no cloud")
    with tempfile.TemporaryDirectory(prefix="up-") as folder, _our_own_ssh(Path(folder)):
        Path(folder, "cluster.yaml").write_text(text, encoding="utf-8")
        failed = _up(f"{folder}/cluster.yaml")
        noted = _noted(Path(folder))
        sent = [(words[-1].rpartition("@")[2], words[-2]) for words in noted if words[0] == "rsync"]
        files = [path.read_text(errors="replace") for path in Path(folder).glob("sent-*")]
    bootstrap: dict = next((json.loads(each) for each in files if '"head_start_ray_commands"' in each), {})
    return {
        "commands": [_command(words) for words in noted if words[0] == "ssh"],
        "sent": [(target.partition(":")[0], source, target.partition(":")[2]) for target, source in sent],
        "bootstrap": bootstrap,
        "failed": failed,
    }


def commands_for_a_worker(bootstrap: dict) -> list[str]:
    """Return the commands with which the autoscaler on the head will start Ray on each worker, over SSH."""
    with_head_node_ip = private.autoscaler_util.with_head_node_ip

    return with_head_node_ip(bootstrap["worker_start_ray_commands"], bootstrap["provider"]["head_ip"])


@contextlib.contextmanager
def _our_own_ssh(folder: Path) -> Iterator[None]:
    """Put an `ssh` and an `rsync` on PATH that write to the folder; everything that the launcher keeps goes there, too."""
    for name, more in (("ssh", ""), ("rsync", KEEP)):
        (folder / "bin").mkdir(exist_ok=True)
        script = folder / "bin" / name
        script.write_text((OUR_OWN + more).format(name=name, folder=folder))
        script.chmod(0o755)
    variables = {
        "PATH": f"{folder}/bin{os.pathsep}{os.environ['PATH']}",
        "RAY_TMPDIR": str(folder),
        "RAY_UP_enable_autoscaler_v2": "0",  # in 2.60 the new one starts no workers on machines of one's own
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    with mock.patch.dict(os.environ, variables):
        yield


def _up(path: str) -> str:
    """Run what `ray up --yes` runs; return why it gave up, and nothing where it did not."""
    commands = private.autoscaler_commands

    logging.getLogger("ray.autoscaler").setLevel(logging.ERROR)
    with (
        Path(f"{path}.printed").open("w", encoding="utf-8") as printed,
        _quiet_launcher(),
    ):  # `ssh` inherits it, so it must be a file
        try:
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                commands.create_or_update_cluster(path, None, None, False, False, yes=True, no_config_cache=True)
        except (Exception, SystemExit) as error:
            return (str(getattr(error, "message", None) or error) or type(error).__name__)[:400]
    return ""


@contextlib.contextmanager
def _quiet_launcher() -> Iterator[None]:
    """Let the launcher keep its report to itself, put its last words into an exception, and not wait for a machine."""
    updater = private.updater
    cli_logger = private.cli_logger
    SSHCommandRunner = private.SSHCommandRunner

    def abort(message: object = "it gave up", *args: object, **kwargs: object) -> None:
        raise RuntimeError(str(message).format(*args))

    with (
        mock.patch.object(cli_logger, "_print", return_value=None),
        mock.patch.object(cli_logger, "abort", abort),
        mock.patch.object(SSHCommandRunner, "_ensure_ssh_control_path", create=True),  # new in Ray 2.60
        mock.patch.object(updater, "AUTOSCALER_NODE_START_WAIT_S", 20),  # our `ssh` is there, or never
    ):
        yield


def _noted(folder: Path) -> list[list[str]]:
    """Return every command that our `ssh` and `rsync` were called with, as lists of words."""
    word, command = NOTED
    notes = folder / "noted"
    text = notes.read_text(errors="replace") if notes.exists() else ""
    return [part.split(word)[:-1] for part in text.split(command)[:-1]]


def _command(words: list[str]) -> tuple[str, str]:
    """Return the machine and the command of a call of `ssh`, without the shell that the launcher wraps around it."""
    machine = next(word for word in words if "@" in word).rpartition("@")[2]
    inner = shlex.split(words[-1])[0]
    return machine, inner.partition("&& (")[2].rpartition(")")[0]


# A real head, and where it listens.


class Socket(TypedDict):
    """Where a process listens."""

    process: str
    address: str
    port: int


Rules = dict[str, list[int] | set[int]]  # what `firewall` returns: the ports that are open for each


def sockets(cluster: OwnCluster) -> list[Socket]:
    """Return where the processes of a cluster listen: `process`, `address`, and `port` of each socket.

    The sockets on which the autoscaler and the dashboard serve their metrics have the process `metrics`.
    """
    rows: list[Socket] = []
    for process in cluster.processes():
        with contextlib.suppress(Exception):  # it has ended meanwhile
            name = _part([word.strip() for word in process.cmdline() if word.strip()])
            listening = [each.laddr for each in process.net_connections("inet") if each.status == "LISTEN"]
            found = {(place.ip.removeprefix("::ffff:"), place.port) for place in listening}
            page = {port: "metrics" for _, port in found if name == "monitor" or port == DASHBOARDS_PAGE}
            rows += [{"process": page.get(port, name), "address": address, "port": port} for address, port in found]
    return sorted(rows, key=lambda row: (row["process"], row["port"], row["address"]))


def _part(words: list[str]) -> str:
    """Return what a process is, by its command line."""
    names = [word if "::" in word else Path(word).name for word in words[:4]]
    found = next((part for sign, part in SIGNS.items() if sign in names), "")
    return found or ("worker" if words and words[0].startswith("ray::") else "other")


def scrape_targets(cluster: OwnCluster, seconds: float = 60) -> "requests.Response":
    """Return the head's reply with its list of targets, once all three are in it; raises TimeoutError after some seconds."""
    import requests

    def reply() -> requests.Response:
        return requests.get(f"{cluster.dashboard}/api/prometheus/sd", headers=cluster.bearer, timeout=10)

    def complete() -> bool:
        listed = reply().json()
        return bool(listed) and len(listed[0]["targets"]) == 3  # the agent's, the autoscaler's and the dashboard's

    if not wait_until(complete, seconds):
        raise TimeoutError(
            f"After {seconds:.0f} s, the head's list of targets was {reply().text}, but there should be three."
        )
    return reply()


def scraped(targets: list[str], seconds: float = 30) -> dict[str, str]:
    """Return the metrics of each target that serves them within some seconds, as text."""
    import requests

    pages: dict[str, str] = {}

    def all_there() -> bool:
        for target in targets:
            with contextlib.suppress(requests.RequestException):
                if target not in pages:
                    pages[target] = requests.get(f"http://{target}/metrics", timeout=10).text
        return len(pages) == len(targets)

    wait_until(all_there, seconds)
    return pages


# Probes: each drives a learner's object with the judge's inputs, and returns raw results.


class BroughtUp(TypedDict):
    """What `ray up` does with the text that `bring_up` returned: what it sends where, and what the head then knows."""

    kind: str  # "str" if it was a text
    failed: str  # why the launcher gave up, and nothing where it did not
    commands: list[tuple[str, str]]  # (machine, command)
    sent: list[tuple[str, str, str]]  # (machine, from, to)
    to_a_worker: list[str]  # the setup commands, and then those that start Ray
    name: Any
    head: Any
    workers: list[str]
    max_workers: Any
    login: Any


def brought_up(bring_up: Callable, name: str, head: str, workers: list[str], user: str, token: str) -> BroughtUp:
    """Return what `ray up` does with the text that `bring_up` wrote for these machines."""
    with tempfile.TemporaryDirectory(prefix="token-") as folder:
        token_file = Path(folder) / "auth_token"
        token_file.write_text(token)
        text = bring_up(name, head, list(workers), user, str(token_file))
        seen = _launched(text) if isinstance(text, str) else _given_up("there is no text")
        bootstrap = seen["bootstrap"]
        provider, auth = bootstrap.get("provider", {}), bootstrap.get("auth", {})
        return {
            "kind": "str" if isinstance(text, str) else type(text).__name__,
            "failed": seen["failed"],
            "commands": seen["commands"],
            "sent": [  # the token's file goes by a name, for its folder is another each time
                (machine, "the token" if source == str(token_file) else source, to)
                for machine, source, to in seen["sent"]
            ],
            "to_a_worker": _all_for_a_worker(bootstrap) if bootstrap else [],
            "name": bootstrap.get("cluster_name"),
            "head": provider.get("head_ip"),
            "workers": provider.get("worker_ips") or [],
            "max_workers": bootstrap.get("max_workers"),
            "login": auth.get("ssh_user"),
        }


def _all_for_a_worker(bootstrap: dict) -> list[str]:
    """Return every command of the file that the head will run on each worker, in order."""
    before = [bootstrap.get(name, []) for name in ("initialization_commands", "worker_setup_commands")]
    return [*before[0], *before[1], *commands_for_a_worker(bootstrap)]


def _launched(text: str) -> dict:
    """Return what `dry_run` does, and why it could not be tried where that is so."""
    if len(text) > 10_000 or text.count("*") > 20:
        return _given_up("the file has more than 10,000 characters or 20 references (`*name`)")
    try:
        return dry_run(text)
    except Exception as error:
        return _given_up(str(error)[:400] or type(error).__name__)


def _given_up(reason: str) -> dict:
    return {"commands": [], "sent": [], "bootstrap": {}, "failed": reason}


def firewall_here(firewall: Callable, lowest: int, highest: int) -> tuple[list[Socket], Rules]:
    """Return where the real head listens, and the rules that `firewall` makes of it."""
    rows = sockets(cluster_here())
    return rows, firewall([dict(row) for row in rows], lowest, highest)


# A working day, simulated.


def cost_of_a_day(idle_timeout: float, new_node: float) -> tuple[float, float]:
    """Return what a day costs and how many minutes a job waits on average, if idle nodes are kept for `idle_timeout` minutes.

    A new node starts within `new_node` minutes, and is paid for meanwhile.
    """
    rng = np.random.default_rng(24)
    arrivals, works = np.sort(rng.uniform(0, 600, 40)), rng.exponential(4, 40)  # minutes
    free: list[float] = []  # since when each node that is still rented has been idle; in the future if it's busy
    paid, waits = 0.0, []
    for arrival, work in zip(arrivals, works, strict=True):
        paid += sum(idle_timeout for since in free if since + idle_timeout < arrival)  # returned before this job
        free = [since for since in free if since + idle_timeout >= arrival]
        idle = [since for since in free if since <= arrival]
        waits.append(0.0 if idle else new_node)
        paid += work + waits[-1]
        if idle:
            free.remove(max(idle))
            paid += arrival - max(idle)
        free.append(arrival + waits[-1] + work)
    return HOURLY_RATE * (paid + idle_timeout * len(free)) / 60, float(np.mean(waits))


# Two machines in this one: see `machines`, where it says why they see no other Ray.

SHELL = "export RAY_AUTH_MODE=token"
STATUS = f"ray exec cluster.yaml '{SHELL}; ray status'"
TASKS = """
import ray, time

ray.init(logging_level="ERROR")

@ray.remote
def where():
    time.sleep(1)
    return ray.util.get_node_ip_address()

print(*sorted({f"ran on {node}" for node in ray.get([where.remote() for _ in range(4)])}), sep="\\n")
"""
WHERE = f"ray rsync-up cluster.yaml /tmp/tasks.py '~/tasks.py' && ray exec cluster.yaml '{SHELL}; python ~/tasks.py'"
MACHINES = f"""
cluster_name: two
provider: {{type: local, head_ip: {HEAD}, worker_ips: [{WORKER}]}}
auth: {{ssh_user: root, ssh_private_key: /tmp/key}}
file_mounts: {{~/.ray/auth_token: /tmp/home/.ray/auth_token}}
head_start_ray_commands:
- ray stop
- {SHELL}; ray start --head --port=6379 --num-cpus=1 --node-ip-address={HEAD} --autoscaling-config=~/ray_bootstrap_config.yaml
worker_start_ray_commands:
- ray stop
- {SHELL}; ray start --address=$RAY_HEAD_IP:6379 --num-cpus=1 --node-ip-address=$(echo $SSH_CONNECTION | cut -d" " -f3)
"""


def why_not_here() -> str:
    """Return why the chapter brings up no machines here; in quick mode `.ci/run` tries it, beside the tests."""
    return budget("", "this is quick mode") or why_not()


def on_two_machines(laptop: Laptop) -> None:
    """Write cluster.yaml and a small program on the laptop, and run `ray up` there."""
    (laptop.folder / "cluster.yaml").write_text(MACHINES)
    (laptop.folder / "tasks.py").write_text(TASKS)
    laptop.run("ray up --yes cluster.yaml")


def nodes_up(laptop: Laptop, count: int, seconds: float = 240) -> bool:
    """Return whether `ray status` on the head showed this many nodes within some seconds."""
    wanted = re.compile(rf"^ {count} local\.cluster\.node", re.MULTILINE)
    return wait_until(lambda: wanted.search(laptop.run(STATUS)), seconds)


def own_lines(text: str) -> str:
    """Return what the program on the machines printed, without the lines of the launcher and of `ssh`."""
    return "\n".join(line.strip() for line in text.splitlines() if line.startswith("ran on"))
