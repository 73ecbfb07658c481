"""The judge's side of chapter 24."""

import re
from typing import Any

from numpy.random import Generator

from coursekit.given import ch24_deploy as given
from coursekit.given.kuberay import check_fields
from coursekit.judging.answer import Answer
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import Wrong, expect, expect_equal


def _filled(text: str) -> tuple[dict, dict]:
    """Return the configuration as written and with Ray's defaults; what Ray refuses is the learner's to read."""
    import yaml  # type: ignore[import-untyped]

    written = {}
    short = len(text) <= 10_000 and text.count("*") <= 20  # nine references to nine references, and so on: days
    expect(
        short,
        "The file has more than 10,000 characters or 20 references (`*name`), so it is not read.",
    )
    try:
        written = yaml.safe_load(text)
        return written, given.validated(text)
    except Exception as error:
        reason = str(getattr(error, "message", None) or error or type(error).__name__)[:400]
        expect(
            "global `max_workers`" not in reason or "max_workers" in written,
            f"Ray doesn't accept this file: {reason} (The file has no top-level `max_workers`, so the default of 2 applies.)",
        )
        raise Wrong(f"Ray doesn't accept this file: {reason}") from None


@exercise(
    points=2,
    minutes=15,
    hints=[
        "Start from the example above: which of its values are arguments of your function?",
        "There are two `max_workers`, one for the node type and one at the top level for the whole cluster. `min_workers` belongs in the node type.",
        "By default, a task needs a CPU, so tasks don't run on a node whose `resources` say `CPU: 0`.",
    ],
    returns=str,
)
def cluster_yaml(answer: Answer, rng: Generator) -> None:
    """The file lists the node types, how many nodes of each there may be, and which one is the head; Ray fills in the rest."""
    # Long: Ray fills in a cluster.yaml, and each of its settings that costs money has its own message.
    least = int(rng.integers(2, 5))
    most, name = least + int(rng.integers(3, 9)), f"course-{rng.integers(100, 999)}"
    worker = f"{rng.choice(['c5', 'c6i', 'm6i'])}.{rng.choice(['xlarge', '2xlarge', '4xlarge'])}"
    region = str(rng.choice(["eu-central-1", "us-east-1", "ap-northeast-1"]))
    written, config = _filled(answer(name, region, worker, least, most))
    _judge_provider(config, name, region)
    head, workers = _two_types(config)
    machines = [kind["node_config"].get("InstanceType") for kind in (head, workers)]
    expect_equal(
        machines,
        ["m5.large", worker],
        f"In `node_config`, the `InstanceType` of the head and that of the workers are {machines}; they should be m5.large and {worker}.",
    )
    _judge_numbers(workers, written, least, most)
    _judge_limit(config["max_workers"], written, most)
    _judge_cpus(head, workers)


def _judge_provider(config: dict, name: str, region: str) -> None:
    expect_equal(
        config["cluster_name"], name, f"The cluster's name is {config['cluster_name']!r}; it should be {name!r}."
    )
    where = [config["provider"].get("type"), config["provider"].get("region")]
    expect_equal(
        where, ["aws", region], f"The provider's type and region are {where}; they should be aws and {region}."
    )


def _two_types(config: dict) -> tuple[dict, dict]:
    """Return the node types of the head and of the workers."""
    others = dict(config["available_node_types"])
    head = others.pop(config["head_node_type"])
    listed = sorted(others)
    expect(
        len(listed) == 1, f"Besides the head's node type, there should be one for workers, but the file has {listed}."
    )
    return head, next(iter(others.values()))


def _judge_numbers(workers: dict, written: dict, least: int, most: int) -> None:
    numbers = [workers.get("min_workers"), workers.get("max_workers")]
    right = numbers == [least, most]
    expect(
        right or "min_workers" not in written,
        f"The node type allows from {numbers[0]} to {numbers[1]} workers, instead of from {least} to {most}. Ray drops a top-level `min_workers`.",
    )
    expect(right, f"The node type allows from {numbers[0]} to {numbers[1]} workers, instead of from {least} to {most}.")


def _judge_limit(limit: int, written: dict, most: int) -> None:
    expect(
        limit == most or "max_workers" in written,
        f"The node type allows {most} workers, but the cluster as a whole only {limit}: that's the default if the file has no top-level `max_workers`.",
    )
    expect(
        limit == most,
        f"The cluster as a whole allows {limit} workers, but it should allow {most}, as the node type does.",
    )


def _judge_cpus(head: dict, workers: dict) -> None:
    more = [head.get("min_workers"), head.get("max_workers")]
    none = more == [0, 0]
    expect(
        none,
        f"The head's node type allows from {more[0]} to {more[1]} workers, but it should allow none: these would be machines of that type in addition to the head.",
    )
    own = head["resources"].get("CPU")
    expect(
        own is not None,
        "The head should run no tasks, but its `resources` don't mention CPU, so Ray uses the CPUs that the machine has.",
    )
    expect(own == 0, f"The head should run no tasks, but its `resources` say `CPU: {own}`.")
    expect(workers["resources"].get("CPU") != 0, "The workers' `resources` say `CPU: 0`, so no task runs anywhere.")


@exercise(
    points=3,
    minutes=20,
    hints=[
        "Start from the four lines of the example. Which field sends a file to every node, and which path is its key?",
        "Each command runs in its own login shell, so set the variable in the command that needs it: `export RAY_AUTH_MODE=token; ray start …`, on the head and on the workers.",
        "Copy both lists of start commands from the text above, and set the variable in the two `ray start` lines.",
    ],
)
def bring_up(answer: Answer, rng: Generator) -> None:
    """The file names the machines and the login, sends the token to every node, and sets the variable in the command that starts Ray."""
    # Long: it reads what reaches the machines: files, the head's command, and the one that the head runs on its workers.
    name, user = f"lab-{rng.integers(100, 999)}", str(rng.choice(["ann", "ubuntu", "ray"]))
    head, *workers = [f"10.{rng.integers(1, 200)}.0.{host}" for host in rng.permutation(range(2, 200))[:4].tolist()]
    token = "".join(rng.choice(list("0123456789abcdef"), 64).tolist())
    with answer.case(f"a head at {head}, workers at {' and '.join(workers)}, login {user}"):
        seen = answer.probe(given.brought_up, name, head, workers, user, token)
        expect(seen["kind"] == "str", f"`bring_up` returned an object of type {seen['kind']}, not a string.")
        expect(not seen["failed"], f"`ray up` failed: {seen['failed']}")
        _judge_machines(seen, name, head, workers, user)
        _judge_head(seen, head)
        _judge_workers(seen["to_a_worker"], head, _port(seen["commands"]))


def _judge_machines(seen: given.BroughtUp, name: str, head: str, workers: list[str], user: str) -> None:
    expect_equal(seen["name"], name, f"The cluster's name is {seen['name']!r}; it should be {name!r}.")
    expect_equal(seen["head"], head, f"The head's address is {seen['head']!r}; it should be {head!r}.")
    expect_equal(
        sorted(seen["workers"]),
        sorted(workers),
        f"The workers' addresses are {seen['workers']}; they should be {workers}.",
    )
    due = len(workers)
    expect_equal(
        seen["max_workers"],
        due,
        f"There are {due} worker addresses, and all of these machines should be able to join, but `max_workers` is {seen['max_workers']}.",
    )
    expect_equal(seen["login"], user, f"The launcher logs in as {seen['login']!r}; it should log in as {user!r}.")


def _judge_head(seen: given.BroughtUp, head: str) -> None:
    commands = [command for machine, command in seen["commands"] if machine == head]
    starts = [command for command in commands if "ray start" in command]
    started = len(starts)
    expect(started == 1, f"Commands for the head with `ray start`: {started}. There should be one.")
    start = starts[0].partition("ray start")[2]
    expect("--head" in start, f"The head runs `ray start{start:.80}`, which doesn't start a head.")
    expect(
        "autoscaling-config" in start and "ray_bootstrap_config.yaml" in start,
        "The head's `ray start` doesn't get the configuration file that was sent to the head, so its autoscaler doesn't know any workers.",
    )
    homes = ("~/.ray/auth_token", f"/home/{seen['login']}/.ray/auth_token")
    arrived = [to for machine, what, to in seen["sent"] if what == "the token" and machine == head]
    expect(arrived, "The token file wasn't sent to the head.")
    elsewhere = _token_path(commands)
    there = any(to in (*homes, elsewhere) for to in arrived)
    expect(there, f"The token file was sent to {arrived[0]}, where Ray doesn't look for it.")


def _token_path(commands: list[str]) -> str:
    """Return where RAY_AUTH_TOKEN_PATH leads, and nothing where it is not set."""
    found = re.search(r"RAY_AUTH_TOKEN_PATH=([^\s;&\"']+)", "\n".join(commands))
    return found[1].replace("$HOME", "~") if found else ""


def _port(commands: list[tuple[str, str]]) -> str:
    """Return the port on which the head's `ray start` listens."""
    found = re.search(r"ray start.*--port[= ](\d+)", "\n".join(command for _, command in commands))
    return found[1] if found else "6379"


def _judge_workers(commands: list[str], head: str, port: str) -> None:
    starts = [command for command in commands if "ray start" in command]
    started = len(starts)
    expect(started == 1, f"Commands for a worker with `ray start`: {started}. There should be one.")
    before, _, start = starts[0].partition("ray start")
    expect("--head" not in start, "Each worker starts a head.")
    joins = re.search(r"--address[= ][\"']?([^\s\"';]+)", start)
    expect(joins, f"A worker runs `ray start{start:.80}`, which doesn't say which cluster to join.")
    address = joins[1] if joins else ""
    expect(
        re.sub(r"\$\{?RAY_HEAD_IP\b\}?", head, address) == f"{head}:{port}",
        f"A worker joins the cluster at {address}, but this head is at {head}:{port}.",
    )
    expect(
        _switched_on(before) or any(_kept(command) for command in commands),
        "RAY_AUTH_MODE=token isn't set in the shell that runs a worker's `ray start`, so the head will refuse the worker.",
    )


def _switched_on(text: str) -> bool:
    """Return whether a part of a command sets the variable for what follows."""
    return bool(re.search(r"RAY_AUTH_MODE=[\"']?token", text))


def _kept(command: str) -> bool:
    """Return whether a command writes the variable to a file that every login reads."""
    return _switched_on(command) and bool(re.search(r">.*(bashrc|profile|environment)", command))


@exercise(
    points=2,
    minutes=15,
    hints=[
        "Which two kinds of process do *you* connect to? The table has them. Ray's other processes connect to each other.",
        "Skip a row whose address starts with `127.` or is `::1`: its port needs no rule.",
        "Every port in `range(lowest, highest + 1)` has to be open to the nodes, whichever ports today's workers have.",
    ],
    returns=dict[str, list[int] | set[int]],
    spare=['    ports = {"nodes": set(range(lowest, highest)), "you": set(), "nobody": set()}'],
)
def firewall(answer: Answer, rng: Generator) -> None:
    """You connect to the dashboard and the client server, nodes to the whole range of worker ports and to Ray's other ports; local ports need no rule."""
    # Long: it reads a real head's ports, tells them apart by process, and makes up rows like them.
    lowest = int(rng.integers(10_000, 12_000))
    highest = lowest + int(rng.integers(5, 30))
    own = f"10.0.{rng.integers(1, 200)}.{rng.integers(2, 200)}"
    for local in (True, False):
        rows = _rows(rng, own, lowest, local)
        with answer.case(f"a node with {len(rows)} sockets, worker ports from {lowest} to {highest}"):
            _judge_rules(answer(rows, lowest, highest), rows, lowest, highest)
    with answer.case("your own head"):
        rows, rules = answer.probe(given.firewall_here, lowest, highest)
        _judge_rules(rules, rows, lowest, highest)


def _rows(rng: Generator, own: str, lowest: int, local: bool) -> list[given.Socket]:
    """Return the sockets of a node, in random order; `local` says whether its dashboard listens on this machine only."""
    every = ["gcs", "raylet", "raylet", "dashboard agent", "dashboard agent", "runtime env agent"]
    ports = iter((rng.permutation(9000)[:40] + 20_000).tolist())
    rows: list[given.Socket] = [
        {"process": name, "address": str(rng.choice(["::", "0.0.0.0", own])), "port": next(ports)} for name in every
    ]
    both = next(ports)
    rows += [{"process": "client server", "address": address, "port": both} for address in ("127.0.0.1", own)]
    rows += [{"process": "dashboard", "address": "127.0.0.1" if local else "0.0.0.0", "port": next(ports)}]
    rows += [{"process": "worker", "address": "::", "port": lowest + step} for step in (1, 4)]
    twice = next(ports)
    rows += [{"process": "gcs", "address": address, "port": twice} for address in ("0.0.0.0", "::")]
    rows += [{"process": "dashboard agent", "address": "127.0.1.1", "port": next(ports)}]
    rows += [{"process": "raylet", "address": "::1", "port": next(ports)}]
    rows += [{"process": "other", "address": "0.0.0.0", "port": port} for port in (22, next(ports))]
    rows += [{"process": "metrics", "address": "::", "port": next(ports)}]
    return [rows[place] for place in rng.permutation(len(rows))]


def _judge_rules(rules: given.Rules, rows: list[given.Socket], lowest: int, highest: int) -> None:
    expect(set(rules) == {"nodes", "you"}, 'The dictionary should have exactly two keys, "nodes" and "you".')
    want: dict[str, set[int]] = {"nodes": set(range(lowest, highest + 1)), "you": set()}
    local, what = set(), {}  # ports that no other machine can reach; who listens at the others
    for row in rows:
        if row["address"].startswith("127.") or row["address"] == "::1":
            local.add(row["port"])
            continue
        what[row["port"]] = f"{row['process']} at {row['address']}"
        if row["process"] not in ("worker", "other", "metrics"):
            want["you" if row["process"] in ("dashboard", "client server") else "nodes"].add(row["port"])
    for name in ("nodes", "you"):
        got = set(rules[name])
        extra, missing = sorted(got - want[name])[:3], sorted(want[name] - got)[:3]
        nobody = sorted((got - want[name]) & local - set(what))[:1]
        expect(
            not nobody, f"You opened {nobody} to {name}, but this port accepts connections only from its own machine."
        )
        first = next(iter(extra or missing), 0)
        listens = what.get(first, "no process")
        expect(not extra, f"You opened {extra} to {name}. Process on port {first}: {listens}.")
        free = sorted(port for port in want[name] - got if lowest <= port <= highest and port not in what)[:1]
        expect(not free, f"A new worker may listen on {free}, which isn't open to the nodes.")
        expect(not missing, f"You didn't open {missing} to {name}. Process on port {first}: {listens}.")


@exercise(
    points=3,
    minutes=20,
    hints=[
        "Start from the RayCluster above, and put its `spec` under `rayClusterSpec` in the `spec` of a RayJob.",
        "A RayJob's own fields are `entrypoint`, `shutdownAfterJobFinishes`, and `activeDeadlineSeconds`, which counts seconds, not hours.",
        "`check_fields(manifest)` returns a row for every field, and the wrong ones have a `finding`. Numbers in `rayStartParams` are strings.",
    ],
    spare=['    ends = {"shutdownAfterJobFinishes": True, "activeDeadlineSeconds": hours}'],
)
def rayjob(answer: Answer, rng: Generator) -> None:
    """A RayJob is a RayCluster, an entrypoint, and limits, so that neither a finished job nor one that hangs keeps costing money."""
    # Long: the table of fields finds what is misspelled; the rest are values that cost money or let strangers in.
    name, version = f"train-{rng.integers(100, 999)}", f"2.60.{rng.integers(0, 5)}"
    entrypoint, most, hours = (
        f"python train.py --seed {rng.integers(1000)}",
        int(rng.integers(2, 20)),
        int(rng.integers(2, 24)),
    )
    with answer.case(f"at most {most} workers, at most {hours} hours, Ray {version}"):
        manifest = _manifest(answer(name, entrypoint, version, most, hours))
        _expect_known_fields(manifest)
        expect(manifest["kind"] == "RayJob", f"The manifest's kind is {manifest['kind']}; it should be RayJob.")
        called, spec = manifest["metadata"]["name"], manifest["spec"]
        expect_equal(called, name, f"The job's name is {called!r}; it should be {name!r}.")
        program = spec.get("entrypoint")
        expect_equal(program, entrypoint, f"The job runs {program!r}; it should run {entrypoint!r}.")
        _judge_end(spec, hours)
        expect(
            "rayClusterSpec" in spec, "The job's `spec` has no `rayClusterSpec`, so the job has no cluster of its own."
        )
        _judge_cluster(spec["rayClusterSpec"], version, most)


def _manifest(got: Any) -> dict:
    """Return a manifest; text is read as YAML."""
    if isinstance(got, str) and len(got) < 20_000 and got.count("*") < 20:
        import yaml

        try:
            got = yaml.safe_load(got)
        except (yaml.YAMLError, ValueError) as error:  # a ValueError for a date that does not exist
            reason = str(error)[:200]
            raise Wrong(f"The text isn't valid YAML: {reason}") from None
    kind = type(got).__name__
    expect(isinstance(got, dict), f"`rayjob` returned an object of type {kind}, not a dictionary.")
    return got


def _expect_known_fields(manifest: dict) -> None:
    found = [row for row in check_fields(manifest) if row["finding"]]
    first = found[0] if found else {"field": "", "finding": ""}
    expect(not found, f"`check_fields` has a finding for {first['field']}: {first['finding']}.")


def _judge_end(spec: dict, hours: int) -> None:
    expect(
        spec.get("shutdownAfterJobFinishes") is True,
        "When the job has ended, its cluster keeps running and costing money. The cluster should be deleted.",
    )
    limit, due = spec.get("activeDeadlineSeconds"), hours * 3600
    expect(limit is not None, "A job that hangs never ends here, because no field limits how long the job may run.")
    expect_equal(limit, due, f"The job may run for {limit} seconds, but {hours} hours are {due} seconds.")


def _judge_cluster(cluster: dict, version: str, most: int) -> None:
    mode = (cluster.get("authOptions") or {}).get("mode")
    expect(mode == "token", "Tokens aren't enabled, so the head runs whatever anyone sends it.")
    expect(
        cluster.get("enableInTreeAutoscaling") is True,
        "`enableInTreeAutoscaling` isn't true, so no autoscaler adds workers when there is demand.",
    )
    groups = cluster.get("workerGroupSpecs") or []
    listed = len(groups)
    expect(listed == 1, f"Groups of workers: {listed}. There should be one.")
    head, workers = cluster["headGroupSpec"], groups[0]
    own = (head.get("rayStartParams") or {}).get("num-cpus")
    expect(own == "0", f"The head's `num-cpus` is {own!r}, so tasks run on the head. It should be '0'.")
    numbers = [workers.get("minReplicas", 0), workers.get("maxReplicas"), workers.get("replicas", 0)]
    expect_equal(
        numbers[:2], [0, most], f"The group has from {numbers[0]} to {numbers[1]} workers, instead of from 0 to {most}."
    )
    expect(
        numbers[2] == 0,
        f"The group starts with {numbers[2]} workers, before there is any demand. It should start with none.",
    )
    for name, group in (("head", head), ("workers", workers)):
        _judge_pod(name, group["template"]["spec"]["containers"][0], version)
    stated = cluster.get("rayVersion")
    expect_equal(stated, version, f"`rayVersion` is {stated!r}, but the images have {version}.")
    amounts = workers["template"]["spec"]["containers"][0].get("resources") or {}
    amounts = {"requests": amounts.get("limits"), **amounts}  # Kubernetes requests the limits if nothing else is said
    cpus = [str((amounts.get(kind) or {}).get("cpu")) for kind in ("limits", "requests")]
    expect(
        cpus == ["4", "4"],
        f"A worker's `cpu` is {cpus[0]} in its limits and {cpus[1]} in its requests; both should be 4.",
    )
    told = (workers.get("rayStartParams") or {}).get("num-cpus", "4")
    expect(
        told == "4",
        f"The workers' `rayStartParams` say `num-cpus: {told}`, and Ray uses this number instead of the pod's 4 CPUs.",
    )


def _judge_pod(name: str, container: dict, version: str) -> None:
    image = str(container.get("image"))
    right = re.fullmatch(rf"rayproject/ray:{re.escape(version)}(-[\w.-]+)?", image)
    expect(right, f"The image of the {name} is {image}, but it should be rayproject/ray:{version}.")


question(
    "exported_in_setup",
    """
    A `cluster.yaml` has `setup_commands: [export RAY_AUTH_MODE=token]` and the default start commands, and no machine has a token. What happens?

    a) All nodes use tokens.
        The variable has to be set when `ray start` runs. Does that command run in the same shell?
    *b) Nothing changes: the cluster is open to anyone who can reach it.
        Right: each command runs in its own login shell, so what one exports isn't set in the next. There's no error, only a warning on the head.
    c) The head rejects the workers, because only the head has the variable.
        The head's `ray start` doesn't have the variable either.
    """,
)

question(
    "open_dashboard",
    """
    You're at home and want to see the dashboard of a head in a cloud. What do you do?

    a) Open port 8265 to everyone, because the page only shows information.
        It also accepts jobs, and a job can be any program.
    b) Open port 8265 to everyone, and enable tokens.
        That's better, but then the token goes over the internet unencrypted with every request.
    *c) Open no port; run `ray dashboard cluster.yaml` or `ssh -L 8265:localhost:8265 head`.
        Right: SSH authenticates you and encrypts the connection, and the port stays closed.
    """,
)

question(
    "idle_for_longer",
    """
    Your jobs arrive all day, one after another, and a node is hardly ever idle for a minute. You raise the idle timeout from 1 to 10 minutes. What happens to the cost?

    *a) It hardly changes, because the nodes work nearly all the time.
        Right: you pay for idle time only in gaps, and for each gap at most the timeout. The worst gaps are slightly longer than the timeout: you pay for the whole timeout and still wait for a new node.
    b) It's ten times as high.
        Only the idle time can grow, and there's little of it here.
    c) It falls, because new nodes start less often.
        You save a few starts, but pay for up to nine more idle minutes at the end of the day. Lower cost isn't the reason to raise the timeout.
    """,
)
