"""The judge's side of chapter 6."""

import json
import uuid

from numpy.random import Generator

from coursekit.answer import Answer
from coursekit.exercise import Wrong, exercise, expect, expect_equal, quiz
from coursekit.given import ch06_cluster as given

EVERY_NODE = ("raylet", "log monitor", "dashboard agent", "runtime env agent")
HEAD_ONLY = ("gcs", "dashboard", "monitor", "client server")
SIGNS = {
    "gcs": "gcs_server",
    "dashboard": "dashboard.py",
    "monitor": "monitor.py",
    "client server": "ray.util.client.server",
    "raylet": "raylet",
    "log monitor": "log_monitor.py",
    "dashboard agent": "ray::DashboardAgent",
    "runtime env agent": "ray::RuntimeEnvAgent",
}
RESEMBLES = {  # what a part is easily taken for, and found although it is gone
    "gcs": "raylet",
    "dashboard": "helper",
    "monitor": "log monitor",
    "client server": "start",
    "raylet": "log monitor",
    "log monitor": "driver",
    "dashboard agent": "runtime env agent",
    "runtime env agent": "dashboard agent",
}


def _command_lines(rng: Generator) -> dict[str, list[str]]:
    """Return a command line of each part as Ray 2.60 writes it, and of processes that are no part."""
    home = f"/home/{rng.choice(['ann', 'raylet', 'monitor'])}/env"  # users have names too
    ray, port = f"{home}/lib/python3.11/site-packages/ray", int(rng.integers(20_000, 60_000))
    python, session = f"{home}/bin/python3", f"/tmp/ray-{rng.integers(1000, 9999)}/session"
    gcs, raylet = f"--gcs-address=10.0.0.7:{port}", f"--raylet-name={session}/sockets/raylet"
    return {
        "gcs": [f"{ray}/core/src/ray/gcs/gcs_server", f"--log_dir={session}/logs", f"--gcs_server_port={port}"],
        "raylet": [f"{ray}/core/src/ray/raylet/raylet", f"--raylet_socket_name={session}/sockets/raylet", gcs],
        "dashboard": [python, f"{ray}/dashboard/dashboard.py", "--host=127.0.0.1", gcs],
        "monitor": [python, "-u", f"{ray}/autoscaler/_private/monitor.py", gcs, f"--logs-dir={session}"],
        "log monitor": [python, "-u", f"{ray}/_private/log_monitor.py", f"--session-dir={session}", gcs, raylet],
        "client server": [python, "-m", "ray.util.client.server", f"--address=10.0.0.7:{port}", "--mode=proxy"],
        "dashboard agent": ["ray::DashboardAgent"],
        "runtime env agent": ["ray::RuntimeEnvAgent"],
        "helper": [f'ray-dashboard-JobHead-0 ({python} -B -c "from multiprocessing.forkserver")'],
        "start": [python, f"{home}/bin/ray", "start", "--block", f"--port={port}", "--ray-client-server-port=10001"],
        "idle": ["ray::IDLE"],
        "task": [f"ray::{rng.choice(['square', 'monitor.py', 'gcs_server', 'log_monitor'])}"],
        "driver": [python, f"{home}/train.py", raylet, f"--logs={session}/logs/log_monitor.log"],
    }


def _ill_nodes(rng: Generator) -> list[tuple[bool, list[str]]]:
    """Return nodes, each as whether it is a head, and what it lacks; in random order."""
    two = rng.choice(HEAD_ONLY, size=2, replace=False).tolist()
    lacks = [(True, [part]) for part in (*HEAD_ONLY, *EVERY_NODE)] + [(False, [part]) for part in EVERY_NODE]
    nodes = [*lacks, (True, two), (True, []), (False, []), (False, list(EVERY_NODE))]
    return [nodes[place] for place in rng.permutation(len(nodes))]


def _missing(processes: list[list[str]]) -> list[str]:
    """Return what a node lacks, by the judge's own reading of its command lines."""
    names = {word if "::" in word else word.rpartition("/")[2] for line in processes for word in given.leading(line)}
    there = {part for part, sign in SIGNS.items() if sign in names}
    wanted = EVERY_NODE + HEAD_ONLY if there & set(HEAD_ONLY) else EVERY_NODE
    return sorted(set(wanted) - there)


def _short(words: list[str]) -> str:
    text = " ".join(words)
    return text if len(text) < 160 else f"{text[:100]} … {text[-40:]}"


@exercise(
    points=2,
    minutes=15,
    hints=[
        "First collect the parts that *are* there. Which one word of a command line says what the process is?",
        '`word.rpartition("/")[2]` is the last part of a path. Compare it with `==`: "monitor.py" is part of "log_monitor.py".',
        "A set of what a node should have, minus the set of what it has. The first set depends on whether it is a head: "
        "does it have any of the four parts that only a head has?",
    ],
)
def what_is_missing(answer: Answer, rng: Generator) -> None:
    """Compare whole names, collect what is there, and subtract it from what this kind of node should have."""
    # Long: nodes that lack something, as Ray writes their command lines, and the cluster that runs here.
    lines = _command_lines(rng)
    others = ["start", "idle", "task", "driver"]
    for head, lacks in _ill_nodes(rng):
        parts = EVERY_NODE + (*HEAD_ONLY, "helper") if head else EVERY_NODE
        there = [name for name in (*parts, *others) if name not in lacks]
        node = {there[place]: lines[there[place]] for place in rng.permutation(len(there))}
        with answer.case(f"a node with {len(node)} processes"):
            _judge_node(answer(list(node.values())), lacks, node)
    _judge_here(answer, rng)


def _judge_node(got: object, lacks: list[str], node: dict[str, list[str]]) -> None:
    """Judge what an answer says of a node, of which the judge knows what it lacks."""
    names = _names(got)
    alive = [part for part in names if part in node]
    shown = _short(node[alive[0]]) if alive else ""
    expect(not alive, f"Your list names {alive}, and this process is there: {shown}")
    extra = sorted(set(names) - set(lacks))
    expect(
        not extra,
        f"This node has nothing that only a head has, and your list names {extra}: do all nodes need these?",
    )
    lost = [part for part in lacks if part not in names]
    decoy = node.get(RESEMBLES[lost[0]], []) if lost else []
    expect(
        not decoy,
        f"A part is missing that is not on your list. Did you take this process for it: {_short(decoy)}",
    )
    expect(not lost, f"Your list is {sorted(names)}, and this node lacks more than that.")


def _names(got: object) -> list[str]:
    """Return the names of parts that came back."""
    names = list(got) if isinstance(got, list | tuple | set | frozenset) else [None]
    known = [name for name in names if isinstance(name, str) and name in SIGNS]
    expect(known == names, f"The list must hold names of the table: {', '.join(SIGNS)}.")
    return known


def _judge_here(answer: Answer, rng: Generator) -> None:
    """Judge what an answer says of the reader's own head, whole and with a part left out."""
    left_out = str(rng.choice(list(SIGNS)))
    for part, processes, got in answer.probe(given.what_is_missing_here, [["", ""], [left_out, SIGNS[left_out]]]):
        names = sorted(set(_names(got)))
        with answer.case(
            f"the processes of your own head, without its {part}" if part else "the processes of your own head"
        ):
            expect_equal(names, _missing(processes), f"Your list for your own head is {names}.")


@exercise(
    points=3,
    minutes=15,
    hints=[
        "The command for the head is above. What may a second node not say, and what must it say instead?",
        "`--address=` takes the address of the GCS: host and port, nothing before them. `json.dumps` writes resources as JSON.",
        "The environment has two variables: one switches token authentication on, one says where the token lies.",
    ],
)
def join_node(answer: Answer, rng: Generator) -> None:
    """Everything a new node needs is the address of the GCS and the token: the GCS tells it the rest."""
    # Long: reads the command, then runs it: a node joins, and is ended.
    cpus, amount = int(rng.integers(1, 4)), int(rng.integers(2, 60))
    resources = {f"robot_{rng.integers(100, 999)}": amount, "camera": int(rng.integers(1, 9))}
    made = answer.probe(given.joining_command, "10.0.0.7:6379", "/etc/ray/token", cpus, resources)
    expect(made, "`join_node` read the file: `token_file` is a path on that machine. Pass the path on, do not read it.")
    command, variables = made
    _judge_command(command)
    _judge_variables(variables)
    _expect_no_quotes(command)
    seen = answer.probe(given.join, cpus, resources)
    with answer.case(f"your command with cpus={cpus} and resources={resources}, run for real"):
        _judge_joined(seen, {"CPU": cpus, **resources})


def _judge_command(command: list[str]) -> None:
    expect(command[:2] == ["ray", "start"], f"The command begins with {command[:2]}, not with ray, start.")
    expect("--head" not in command, "With --head the machine starts a cluster of its own. It should join yours.")
    expect(
        "--block" in command, "Without --block the command ends at once, and leaves its processes in the background."
    )


def _judge_variables(variables: dict[str, str]) -> None:
    expect(
        variables.get("RAY_AUTH_MODE") == "token",
        "RAY_AUTH_MODE does not say that tokens are in use: the head will refuse a node that shows none.",
    )
    file = variables.get("RAY_AUTH_TOKEN_PATH", "")
    expect(file == "/etc/ray/token", f"The token lies in /etc/ray/token; your environment says {variables}.")


def _expect_no_quotes(command: list[str]) -> None:
    quoted = [word for word in command if word.startswith("'") or "='" in word]
    expect(not quoted, f"A list of words has no shell: leave out the quotes around the JSON in {quoted[:1]}.")


def _judge_joined(seen: dict, wanted: dict[str, float]) -> None:
    """Judge what Ray says of the nodes that joined."""
    expect("failed" not in seen, f"It did not get a node to join:\n{seen.get('failed')}")
    expect(len(seen["joined"]) == 1, f"New nodes in your cluster: {len(seen['joined'])}.")
    state, is_head, got = seen["joined"][0]
    expect(seen["running"], "The command ended by itself.")
    expect(not is_head, "The new node is the head of a cluster.")
    expect(state == "ALIVE", f"The new node is {state}.")
    offered = {name: got.get(name) for name in wanted}
    expect_equal(offered, wanted, f"The new node offers {offered}.")


def _stand_in(answer: Answer, rng: Generator, ends_as: str) -> tuple[dict, str]:
    """Return what came of a job that a stand-in for the client took, and what it printed."""
    number, log = int(rng.integers(1000, 9999)), f"loss {rng.integers(100, 999)}\nstep {rng.integers(1000, 9999)}\n"
    job = f"python train.py --seed {number}", {"env_vars": {"SEED": str(number)}}
    seen = answer.probe(given.submit_to_a_stand_in, ends_as, *job, log)
    _judge_submitted(seen, *job)
    expect(
        "still_asking" not in seen,
        f"The job had ended as {ends_as}, and `submit_and_wait` kept asking. Which statuses end a job?",
    )
    return seen, log


def _judge_submitted(seen: dict, entrypoint: str, runtime_env: dict) -> None:
    """Judge what arrived at the client that only pretends."""
    submitted = seen["submitted"]
    expect(len(submitted) == 1, f"One job was asked for; {len(seen['submitted'])} were submitted.")
    expect_equal(submitted[0][0], entrypoint, "The entrypoint that arrived at the client is another one.")
    expect_equal(submitted[0][1], runtime_env, "The runtime environment did not arrive at the client.")


@exercise(
    points=3,
    minutes=15,
    hints=[
        "`client.submit_job(entrypoint=…, runtime_env=…)` returns an id; `client.get_job_status(id)` says how far the job is.",
        "Which of PENDING, RUNNING, STOPPED, SUCCEEDED and FAILED are final? A status knows: `status.is_terminal()`.",
        "After the loop there is still a question: how did it end? Only then `client.get_job_logs(id)`.",
    ],
)
def submit_and_wait(answer: Answer, rng: Generator) -> None:
    """Ask until the status is final, with pauses; then look at which one it is: done is not the same as succeeded."""
    # Long: a client that only pretends, for every end of a job, and then a real job.
    with answer.case("a job that was PENDING, then RUNNING, then SUCCEEDED"):
        _judge_success(*_stand_in(answer, rng, "SUCCEEDED"))
    for ends_as in ("FAILED", "STOPPED"):
        with answer.case(f"a job that ended as {ends_as}"):
            _judge_failure(*_stand_in(answer, rng, ends_as))
    _judge_real_job(answer, rng)


def _judge_success(seen: dict, log: str) -> None:
    expect("raised" not in seen, f"`submit_and_wait` raised: {seen.get('raised')}")
    expect(seen["returned"], f"`submit_and_wait` returned {seen['returned']!r}: did it wait for the end?")
    expect_equal(seen["returned"], log, f"It printed {log!r}, and `submit_and_wait` returned {seen['returned']!r}.")
    expect(
        seen["polls"] <= 200,
        f"You asked for the status {seen['polls']} times in half a second. Each is a request to the head: pause in between.",
    )


def _judge_failure(seen: dict, log: str) -> None:
    expect("raised" in seen, f"`submit_and_wait` returned {seen.get('returned')!r} as if all were well.")
    expect(
        log.strip() in seen["raised"],
        f"The message of your RuntimeError is {seen['raised']!r}: its reader will want to see what the job printed.",
    )


def _judge_real_job(answer: Answer, rng: Generator) -> None:
    """Judge a job of which Ray says how it ended."""
    number = int(rng.integers(1000, 9999))
    fresh = uuid.uuid4().hex  # the head remembers the jobs of earlier checks
    entrypoint = f'python -c \'import os; print("square", int(os.environ["NUMBER"]) ** 2, "{fresh}")\''
    real = answer.probe(given.run_a_job, entrypoint, {"env_vars": {"NUMBER": str(number)}})
    known = [status for status, _ in real["known"]]
    expect(known == ["SUCCEEDED"], f"On your cluster, the jobs with this entrypoint are: {known}.")
    printed = f"square {number**2} " in str(real["returned"])
    expect(printed, f"A real job printed the square of {number}; you returned {real['returned']!r}.")


@exercise(
    points=2,
    minutes=10,
    hints=[
        "`requests.post(url, json=…, headers=…)` sends a dict as JSON. The path is `/api/jobs/`.",
        'The header is called `Authorization`; its value is the word "Bearer", a space, and the token.',
        "`reply.raise_for_status()` turns a refusal into an exception; `reply.json()` holds the id.",
    ],
)
def submit_rest(answer: Answer, rng: Generator) -> None:
    """POST JSON to /api/jobs/ with the token in the header; and notice when the answer is no."""
    # Long: sends the request to a real head, with the right token and with a wrong one.
    number = int(rng.integers(1000, 9999))
    name = f"course-{rng.integers(10**9)}-{uuid.uuid4().hex[:8]}"  # fresh, for the head remembers the ids of earlier checks
    runtime_env = {"env_vars": {"NUMBER": str(number)}}
    entrypoint = 'python -c \'import os; print("cube", int(os.environ["NUMBER"]) ** 3)\''
    seen = answer.probe(given.send, name, entrypoint, runtime_env)
    _expect_refused(seen["refused"])
    _expect_taken(seen, name)
    _expect_as_sent(seen["job"], entrypoint, runtime_env)
    _expect_cube(seen, number)


def _expect_refused(refused: dict) -> None:
    expect(
        "raised" in refused,
        f"With a wrong token Ray answers 403, and no job runs; `submit_rest` returned {refused.get('returned')!r}.",
    )


def _expect_taken(seen: dict, name: str) -> None:
    expect("failed" not in seen, f"The dashboard did not take the job. {seen.get('failed')}")
    expect(
        seen["job"],
        f"Your cluster knows no job with the submission id {name!r}; `submit_rest` returned {seen['returned']!r}.",
    )
    expect_equal(
        seen["returned"], name, f"The job's submission id is {name!r}; `submit_rest` returned {seen['returned']!r}."
    )


def _expect_as_sent(job: dict, entrypoint: str, runtime_env: dict) -> None:
    expect_equal(job["entrypoint"], entrypoint, f"The job's entrypoint arrived as {job['entrypoint']!r}.")
    expect(
        (job["runtime_env"] or {}).get("env_vars", {}).get("NUMBER") == runtime_env["env_vars"]["NUMBER"],
        f"The job's runtime environment arrived as {job['runtime_env']!r}, not as {runtime_env!r}.",
    )


def _expect_cube(seen: dict, number: int) -> None:
    job = seen["job"]
    expect(job["status"] == "SUCCEEDED", f"The job ended as {job['status']}; it printed {seen['log']!r}.")
    expect(f"cube {number**3}" in seen["log"], f"The job printed {seen['log']!r}.")


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
        reason = getattr(error, "message", None) or str(error) or type(error).__name__
        expect(
            "global `max_workers`" not in reason or "max_workers" in written,
            f"Ray does not accept this file: {reason[:400]} (`max_workers` at the top is left out, so it is 2.)",
        )
        raise Wrong(f"Ray does not accept this file: {reason[:400]}") from None


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
    one = len(others) == 1
    expect(one, f"Besides the head's there must be one node type, for workers; there are {sorted(others)}.")
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
    expect(slots == 0, f"The head offers CPU: {json.dumps(slots)}, so tasks run there.")
    expect(workers["resources"].get("CPU") != 0, "The workers offer CPU: 0, so no task would run anywhere.")


quiz(
    "who_must_not_die",
    """
    A cluster was started without `--block`, so no command watches. One process is killed, and a minute later the whole cluster is gone. Which was it?

    a) A worker.
        Its raylet starts another, and the task runs again (chapter 5).
    b) The raylet of a worker node.
        That node is lost, with its workers and objects. The others keep working.
    *c) The GCS on the head.
        Right: the raylets wait a minute for it, then end. Only with its tables kept outside (a Redis, or RocksDB on a disk that lasts) can a new one come back and remember.
    d) The log monitor.
        Then you no longer see what workers print. They keep working.
    """,
)

quiz(
    "what_a_token_is_for",
    """
    Your head listens on a port of a machine in the network of a university, without a token. What can others do?

    a) Look at the dashboard, nothing more.
        A page that submits jobs is more than a page to look at. What is a job?
    *b) Run any program on your nodes, as you.
        Right: a job's entrypoint is a shell command. Ray runs the programs that it is asked to run; the token says who may ask.
    c) Nothing, as long as they do not know the job ids.
        You need no id to submit a job of your own.
    """,
)

quiz(
    "job_or_task",
    """
    You have 500 pictures, each takes 50 ms. You submit a job for each picture. What will happen?

    a) They run in parallel on all slots, as 500 tasks would.
        They would run, but what does each of them cost before it begins? You have just measured it.
    *b) Nearly all the time goes into starting processes.
        Right: each job starts a supervisor and a driver of its own. One job with 500 tasks is the way.
    c) The dashboard merges them into one job.
        It does what it is asked to: 500 submissions are 500 jobs.
    """,
)

quiz(
    "laptop_closed",
    """
    A training takes ten hours on a cluster. You start it from your laptop at work, and go home with the laptop. Which way survives?

    a) A notebook with `ray.init("ray://head:10001")`.
        The driver is your notebook. When the connection has been gone for 30 seconds, Ray ends all that it started.
    *b) `ray job submit` with `--no-wait`.
        Right: the driver runs in the cluster. Ask for its status and its log tomorrow, from anywhere.
    c) A script with `RAY_ADDRESS` set, run on the laptop.
        That is a driver on your laptop again. And it would need to be part of the cluster's network.
    """,
)
