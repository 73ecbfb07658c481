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
    expect(short, "The file has more than 10,000 characters or 20 references (`*name`): it is not read.")
    try:
        written = yaml.safe_load(text)
        return written, given.validated(text)
    except Exception as error:
        reason = str(getattr(error, "message", None) or error or type(error).__name__)[:400]
        expect(
            "global `max_workers`" not in reason or "max_workers" in written,
            f"Ray does not accept this file: {reason} (`max_workers` at the top is left out, so it is 2.)",
        )
        raise Wrong(f"Ray does not accept this file: {reason}") from None


@exercise(
    points=2,
    minutes=15,
    hints=[
        "Begin with the example above: which of its values are arguments of your function now?",
        "There are two `max_workers`: that of the node type, and that of the whole cluster. `min_workers` belongs to a node type.",
        "Tasks need a CPU, so they stay away from a node that says it has none: `resources: {CPU: 0}`.",
    ],
    returns=str,
)
def cluster_yaml(answer: Answer, rng: Generator) -> None:
    """A file says which kinds of nodes there are, how many of each, and which of them is the head; Ray fills in the rest."""
    # Long: Ray fills in a cluster.yaml, and each of its settings that costs money has its own message.
    least = int(rng.integers(2, 5))
    most, name = least + int(rng.integers(3, 9)), f"course-{rng.integers(100, 999)}"
    worker = f"{rng.choice(['c5', 'c6i', 'm6i'])}.{rng.choice(['xlarge', '2xlarge', '4xlarge'])}"
    region = str(rng.choice(["eu-central-1", "us-east-1", "ap-northeast-1"]))
    written, config = _filled(answer(name, region, worker, least, most))
    _judge_provider(config, name, region)
    head, workers = _two_types(config)
    machines = [kind["node_config"].get("InstanceType") for kind in (head, workers)]
    expect_equal(machines, ["m5.large", worker], f"Head and workers are of the types {machines}.")
    _judge_numbers(workers, written, least, most)
    _judge_limit(config["max_workers"], written, most)
    _judge_slots(head, workers)


def _judge_provider(config: dict, name: str, region: str) -> None:
    expect_equal(config["cluster_name"], name, f"The cluster is called {config['cluster_name']!r}.")
    where = [config["provider"].get("type"), config["provider"].get("region")]
    expect_equal(where, ["aws", region], f"The provider's type and region are {where}.")


def _two_types(config: dict) -> tuple[dict, dict]:
    """Return the node types of the head and of the workers."""
    others = dict(config["available_node_types"])
    head = others.pop(config["head_node_type"])
    listed = sorted(others)
    expect(len(listed) == 1, f"Besides the head's there must be one node type, for workers; there are {listed}.")
    return head, next(iter(others.values()))


def _judge_numbers(workers: dict, written: dict, least: int, most: int) -> None:
    numbers = [workers.get("min_workers"), workers.get("max_workers")]
    right = numbers == [least, most]
    expect(
        right or "min_workers" not in written,
        f"From {least} to {most} workers were asked for; the node type says {numbers}. `min_workers` at the top is dropped.",
    )
    expect(right, f"From {least} to {most} workers were asked for; the node type says {numbers}.")


def _judge_limit(limit: int, written: dict, most: int) -> None:
    expect(
        limit == most or "max_workers" in written,
        f"The cluster as a whole may grow to {limit} workers, which is what it is when left out; the node type to {most}.",
    )
    expect(limit == most, f"The cluster as a whole may grow to {limit} workers, the node type to {most}.")


def _judge_slots(head: dict, workers: dict) -> None:
    more = [head.get("min_workers"), head.get("max_workers")]
    none = more == [0, 0]
    expect(none, f"The head's node type says from {more[0]} to {more[1]}: those are workers besides the head.")
    slots = head["resources"].get("CPU")
    expect(
        slots is not None,
        "The head's `resources` say nothing of CPU: Ray finds out the machine's own, and tasks run there.",
    )
    expect(slots == 0, f"The head offers CPU: {slots}, so tasks run there.")
    expect(workers["resources"].get("CPU") != 0, "The workers offer CPU: 0, so no task would run anywhere.")


@exercise(
    points=3,
    minutes=20,
    hints=[
        "Begin with the four lines of the example. Which field sends a file to every node, and what is its left side?",
        "Each command is a login of its own, so the variable belongs in the same command: `export RAY_AUTH_MODE=token; ray start …`, on the head and on the workers.",
        "Copy both lists of start commands from above, with `--autoscaling-config` for the head and `$RAY_HEAD_IP` for the workers, and add the variable.",
    ],
)
def bring_up(answer: Answer, rng: Generator) -> None:
    """Machines, a login, the token's file on every node, and the variable in the very command that starts Ray."""
    # Long: it reads what reaches three machines: files, the head's command, and the one that the head hands on.
    name, user = f"lab-{rng.integers(100, 999)}", str(rng.choice(["ann", "ubuntu", "ray"]))
    head, *workers = [f"10.{rng.integers(1, 200)}.0.{host}" for host in rng.permutation(range(2, 200))[:3].tolist()]
    token = "".join(rng.choice(list("0123456789abcdef"), 64).tolist())
    with answer.case(f"a head at {head}, workers at {' and '.join(workers)}, the login {user}"):
        seen = answer.probe(given.brought_up, name, head, workers, user, token)
        expect(seen["kind"] == "str", f"`bring_up` returned a {seen['kind']}, not the text of a file.")
        expect(not seen["failed"], f"`ray up` gave up: {seen['failed']}")
        _judge_machines(seen, name, head, workers, user)
        _judge_head(seen, head)
        _judge_workers(seen["to_a_worker"])


def _judge_machines(seen: given.BroughtUp, name: str, head: str, workers: list[str], user: str) -> None:
    expect_equal(seen["name"], name, f"The cluster is called {seen['name']!r}.")
    expect_equal(seen["head"], head, f"The head is at {seen['head']!r}.")
    expect_equal(sorted(seen["workers"]), sorted(workers), f"The workers are at {seen['workers']}.")
    due = len(workers)
    expect_equal(
        seen["max_workers"], due, f"Workers are at {due} addresses, and at most {seen['max_workers']} may join."
    )
    expect_equal(seen["login"], user, f"The launcher logs in as {seen['login']!r}.")


def _judge_head(seen: given.BroughtUp, head: str) -> None:
    commands = [command for machine, command in seen["commands"] if machine == head]
    starts = [command for command in commands if "ray start" in command]
    started = len(starts)
    expect(started == 1, f"Commands for the head that start Ray: {started}. One is due.")
    start = starts[0].partition("ray start")[2]
    expect("--head" in start, f"On the head runs `ray start{start:.80}`, which starts no head.")
    expect(
        "autoscaling-config" in start and "ray_bootstrap_config.yaml" in start,
        "The head's `ray start` does not name the configuration that it received, so its monitor knows of no workers.",
    )
    homes = ("~/.ray/auth_token", f"/home/{seen['login']}/.ray/auth_token")
    arrived = [to for machine, what, to in seen["sent"] if what == "the token" and machine == head]
    expect(arrived, "The token's file was not sent to the head.")
    elsewhere = _token_path(commands)
    there = any(to in (*homes, elsewhere) for to in arrived)
    expect(there, f"The token's file arrived at {arrived[0]}, where Ray does not look for it.")


def _token_path(commands: list[str]) -> str:
    """Return where RAY_AUTH_TOKEN_PATH leads, and nothing where it is not set."""
    found = re.search(r"RAY_AUTH_TOKEN_PATH=([^\s;&\"']+)", "\n".join(commands))
    return found[1].replace("$HOME", "~") if found else ""


def _judge_workers(commands: list[str]) -> None:
    starts = [command for command in commands if "ray start" in command]
    started = len(starts)
    expect(started == 1, f"Commands for a worker that start Ray: {started}. One is due.")
    before, _, start = starts[0].partition("ray start")
    expect("--head" not in start, "The workers start heads of their own.")
    expect("--address" in start, f"On a worker runs `ray start{start:.80}`: which cluster shall it join?")
    expect(
        _switched_on(before) or any(_kept(command) for command in commands),
        "RAY_AUTH_MODE=token is not set in the login that runs a worker's `ray start`: the head will refuse it.",
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
        "Which two kinds of process do *you* talk to? All others of Ray's talk to each other.",
        "A row whose address begins with `127.`, or is `::1`, needs no rule at all.",
        "`range(lowest, highest + 1)` belongs to the nodes, whatever ports the workers of today have.",
    ],
    returns=dict[str, list[int] | set[int]],
)
def firewall(answer: Answer, rng: Generator) -> None:
    """Dashboard and client server are for you, the workers' whole range and the rest of Ray's ports for nodes, and what is local is for nobody."""
    # Long: a real head is asked for its ports, which are then told apart by name, and rows like its own are drawn.
    lowest = int(rng.integers(10_000, 12_000))
    highest = lowest + int(rng.integers(5, 30))
    own = f"10.0.{rng.integers(1, 200)}.{rng.integers(2, 200)}"
    for local in (True, False):
        rows = _rows(rng, own, lowest, local)
        with answer.case(f"a node with {len(rows)} sockets, workers from {lowest} to {highest}"):
            _judge_rules(answer(rows, lowest, highest), rows, lowest, highest)
    with answer.case("your own head"):
        rows, rules = answer.probe(given.firewall_here, lowest, highest)
        _judge_rules(rules, rows, lowest, highest)


def _rows(rng: Generator, own: str, lowest: int, local: bool) -> list[given.Socket]:
    """Return the sockets of a node, in random order; `local` says whether its dashboard is for this machine alone."""
    every = ["gcs", "raylet", "raylet", "dashboard agent", "dashboard agent", "runtime env agent"]
    ports = iter((rng.permutation(9000)[:40] + 20_000).tolist())
    rows: list[given.Socket] = [
        {"process": name, "address": str(rng.choice(["::", "0.0.0.0", own])), "port": next(ports)} for name in every
    ]
    both = next(ports)
    rows += [{"process": "client server", "address": address, "port": both} for address in ("127.0.0.1", own)]
    rows += [{"process": "dashboard", "address": "127.0.0.1" if local else "0.0.0.0", "port": next(ports)}]
    rows += [{"process": "worker", "address": "::", "port": lowest + step} for step in (1, 4)]
    rows += [{"process": "dashboard agent", "address": "127.0.0.1", "port": next(ports)}]
    rows += [{"process": "raylet", "address": "::1", "port": next(ports)}]
    rows += [{"process": "other", "address": "0.0.0.0", "port": port} for port in (22, next(ports))]
    rows += [{"process": "metrics", "address": "::", "port": next(ports)}]
    return [rows[place] for place in rng.permutation(len(rows))]


def _judge_rules(rules: given.Rules, rows: list[given.Socket], lowest: int, highest: int) -> None:
    expect(set(rules) == {"nodes", "you"}, 'The rules are a dictionary with two names, "nodes" and "you".')
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
        expect(not nobody, f"Port {nobody} has a rule, and it can be reached from its own machine only.")
        listens = what.get(extra[0], "nobody") if extra else ""
        expect(not extra, f"Opened for {name}: {extra}. There listens: {listens}.")
        free = sorted(port for port in want[name] - got if lowest <= port <= highest and port not in what)[:1]
        expect(not free, f"A worker of tomorrow may listen at {free}, and finds it closed.")
        listens = what[missing[0]] if missing else ""
        expect(not missing, f"Closed for {name}: {missing}. There listens: {listens}.")


@exercise(
    points=3,
    minutes=20,
    hints=[
        "Begin with the RayCluster above, and put its `spec` under `rayClusterSpec` of a RayJob. What is too much, what is missing?",
        'Four fields say what becomes of it: `entrypoint`, `shutdownAfterJobFinishes`, `activeDeadlineSeconds` (hours are not seconds), and `authOptions: {"mode": "token"}`.',
        "`check_fields(manifest)` has a row for every field; those with a `finding` are wrong. Numbers in `rayStartParams` are text.",
    ],
)
def rayjob(answer: Answer, rng: Generator) -> None:
    """A RayJob is a RayCluster, an entrypoint, and what happens at the end: a job that hangs must not cost forever."""
    # Long: the table of fields finds what is misspelt; the rest are values that cost money or leave the door open.
    name, version = f"train-{rng.integers(100, 999)}", f"2.60.{rng.integers(0, 5)}"
    entrypoint, most, hours = (
        f"python train.py --seed {rng.integers(1000)}",
        int(rng.integers(2, 20)),
        int(rng.integers(2, 24)),
    )
    with answer.case(f"at most {most} workers and {hours} hours, Ray {version}"):
        manifest = _manifest(answer(name, entrypoint, version, most, hours))
        _expect_known_fields(manifest)
        expect(manifest["kind"] == "RayJob", f"The manifest's kind is {manifest['kind']}.")
        called, spec = manifest["metadata"]["name"], manifest["spec"]
        expect_equal(called, name, f"The job is called {called!r}.")
        program = spec.get("entrypoint")
        expect_equal(program, entrypoint, f"The job runs {program!r}.")
        _judge_end(spec, hours)
        _judge_cluster(spec.get("rayClusterSpec") or {}, version, most)


def _manifest(got: Any) -> dict:
    """Return a manifest; text is read as YAML."""
    if isinstance(got, str) and len(got) < 20_000 and got.count("*") < 20:
        import yaml

        try:
            got = yaml.safe_load(got)
        except (yaml.YAMLError, ValueError) as error:  # a ValueError for a date that does not exist
            reason = str(error)[:200]
            raise Wrong(f"The text is no YAML: {reason}") from None
    kind = type(got).__name__
    expect(isinstance(got, dict), f"`rayjob` returned a {kind}, not a dictionary.")
    return got


def _expect_known_fields(manifest: dict) -> None:
    found = [row for row in check_fields(manifest) if row["finding"]]
    first = found[0] if found else {"field": "", "finding": ""}
    expect(not found, f"`check_fields` says of {first['field']}: {first['finding']}.")


def _judge_end(spec: dict, hours: int) -> None:
    expect(spec.get("shutdownAfterJobFinishes") is True, "When the job has ended, its cluster stays, and costs.")
    limit = spec.get("activeDeadlineSeconds")
    expect(limit is not None, "A job that hangs has no end here: no field limits its time.")
    expect_equal(limit, hours * 3600, f"The job may run for {limit} seconds.")


def _judge_cluster(cluster: dict, version: str, most: int) -> None:
    mode = (cluster.get("authOptions") or {}).get("mode")
    expect(mode == "token", "Tokens are not switched on, so the head runs what any stranger sends it.")
    expect(
        cluster.get("enableInTreeAutoscaling") is True, "No workers are there at first, and no autoscaler asks for any."
    )
    groups = cluster.get("workerGroupSpecs") or []
    listed = len(groups)
    expect(listed == 1, f"Groups of workers: {listed}. One is due.")
    head, workers = cluster["headGroupSpec"], groups[0]
    slots = (head.get("rayStartParams") or {}).get("num-cpus")
    expect(slots == "0", f"The head's `num-cpus` is {slots!r}, so tasks run beside the GCS.")
    numbers = [workers.get("minReplicas", 0), workers.get("maxReplicas"), workers.get("replicas", 0)]
    expect_equal(numbers[:2], [0, most], f"The workers are from {numbers[0]} to {numbers[1]}.")
    expect(numbers[2] == 0, f"The group begins with {numbers[2]} workers, before there is any demand.")
    for name, group in (("head", head), ("workers", workers)):
        _judge_pod(name, group["template"]["spec"]["containers"][0], version)
    stated = cluster.get("rayVersion")
    expect_equal(stated, version, f"`rayVersion` is {stated!r}, and the images have {version}.")
    amounts = workers["template"]["spec"]["containers"][0].get("resources") or {}
    amounts = {"requests": amounts.get("limits"), **amounts}  # Kubernetes requests the limits if nothing else is said
    cpus = [str((amounts.get(kind) or {}).get("cpu")) for kind in ("limits", "requests")]
    expect(cpus == ["4", "4"], f"A worker's `cpu` is {cpus[0]} in its limits and {cpus[1]} in its requests.")


def _judge_pod(name: str, container: dict, version: str) -> None:
    image = str(container.get("image"))
    right = re.fullmatch(rf"rayproject/ray:{re.escape(version)}(-[\w.-]+)?", image)
    expect(right, f"The image of the {name} is {image}.")


question(
    "exported_in_setup",
    """
    A file has `setup_commands: [export RAY_AUTH_MODE=token]` and the default start commands, and no machine has a token. What happens?

    a) All nodes use tokens.
        The variable must be there when `ray start` runs. Is that the same login?
    *b) Nothing: the cluster is open to all.
        Right: each command is a login of its own, and what it exports ends with it. Ray does not complain; the head only warns.
    c) The workers are refused, since only the head has the variable.
        The head does not have it either.
    """,
)

question(
    "open_dashboard",
    """
    You want to look at the dashboard of a head in a cloud, from home. What do you do?

    a) Open port 8265 to everyone: the page only shows things.
        It also takes jobs, and a job is any program.
    b) Open port 8265 to everyone, and switch tokens on.
        Better. But the token then travels over the internet unencrypted, with every request.
    *c) Open no port: `ray dashboard cluster.yaml`, or `ssh -L 8265:localhost:8265 head`.
        Right: ssh says who you are and encrypts, and the port stays closed.
    """,
)

question(
    "idle_for_longer",
    """
    Your jobs arrive all day, one after another, and a node is hardly ever idle for a minute. You raise the idle time from 1 to 10 minutes. What will it cost?

    *a) Hardly more: the nodes work nearly all the time anyway.
        Right: you pay for idle time only in gaps. It costs most when gaps are a little shorter than it.
    b) Ten times as much.
        Only idle minutes increase, and here there are few.
    c) Less, since nodes start less often.
        A little less for starting, and a little more at the end of the day: that is not the reason to do it.
    """,
)
