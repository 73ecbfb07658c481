"""The judge's side of chapter 6."""

import uuid
from typing import Any

from numpy.random import Generator

from coursekit.given import ch06_cluster as given
from coursekit.judging.answer import Answer
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import Wrong, agree, expect, expect_equal

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
    decoy = _short(node.get(RESEMBLES[lost[0]], [])) if lost else ""
    expect(not decoy, f"A part is missing that is not on your list. Did you take this process for it: {decoy}")
    listed = sorted(names)
    expect(not lost, f"Your list is {listed}, and this node lacks more than that.")


def _names(got: object) -> list[str]:
    """Return the names of parts that came back."""
    names = list(got) if isinstance(got, list | tuple | set | frozenset) else [None]
    known, table = [name for name in names if isinstance(name, str) and name in SIGNS], ", ".join(SIGNS)
    expect(len(known) == len(names), f"The list must hold names of the table: {table}.")
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
        "Start from the head's command above. Which options belong to a head alone, and what does a node need instead to find it?",
        "`--address=` takes host and port, as they come in `address`. `json.dumps` writes the resources as JSON.",
        "The environment has two variables: one switches token authentication on, one says where the token lies.",
    ],
)
def join_node(answer: Answer, rng: Generator) -> None:
    """Everything a new node needs is the address of the GCS and the token: the GCS tells it the rest."""
    cpus, amount = int(rng.integers(1, 4)), int(rng.integers(2, 60))
    resources = {f"robot_{rng.integers(100, 999)}": amount, "camera": int(rng.integers(1, 9))}
    made = answer.probe(given.joining_command, "10.0.0.7:6379", "/etc/ray/token", cpus, resources)
    expect(made, "`join_node` read the file: `token_file` is a path on that machine. Pass the path on, do not read it.")
    command, variables = made or ([], {})
    _judge_command(command)
    _judge_variables(variables)
    seen = answer.probe(given.join, cpus, resources)
    with answer.case(f"your command with cpus={cpus} and resources={resources}, run for real"):
        _judge_joined(seen, {"CPU": cpus, **resources})


def _judge_command(command: list[str]) -> None:
    begin = command[:2]
    expect(
        begin == ["ray", "start"], f"The list should begin with the words 'ray' and 'start'; yours begins with {begin}."
    )
    expect("--head" not in command, "With --head the machine starts a cluster of its own. It should join yours.")
    expect(
        "--block" in command, "Without --block the command ends at once, and leaves its processes in the background."
    )
    quoted = [word for word in command if word.startswith("'") or "='" in word][:1]
    expect(not quoted, f"A list of words has no shell: leave out the quotes around the JSON in {quoted}.")


def _judge_variables(variables: dict[str, str]) -> None:
    expect(
        variables.get("RAY_AUTH_MODE") == "token",
        "RAY_AUTH_MODE does not say that tokens are in use: the head will refuse a node that shows none.",
    )
    file = variables.get("RAY_AUTH_TOKEN_PATH", "")
    expect(file == "/etc/ray/token", f"The token lies in /etc/ray/token; your environment says {variables}.")


def _judge_joined(seen: given.Joined, wanted: dict[str, float]) -> None:
    """Judge what Ray says of the nodes that joined."""
    expect(not seen["failed"], f"No node joined:\n{seen['failed']}")
    joined = len(seen["joined"])
    expect(joined == 1, f"New nodes in your cluster: {joined}.")
    state, is_head, got = seen["joined"][0]
    expect(seen["running"], "The command ended by itself, and its node with it.")
    expect(not is_head, "The new node is the head of a cluster.")
    expect(state == "ALIVE", f"The new node is {state}.")
    offered = {name: got.get(name) for name in wanted}
    expect_equal(offered, wanted, f"The new node offers {offered}.")


def _stand_in(answer: Answer, rng: Generator, ends_as: str) -> tuple[given.Rehearsed, str]:
    """Return what came of a job that a stand-in for the client took, and what it printed."""
    number, log = int(rng.integers(1000, 9999)), f"loss {rng.integers(100, 999)}\nstep {rng.integers(1000, 9999)}\n"
    job = f"python train.py --seed {number}", {"env_vars": {"SEED": str(number)}}
    seen = answer.probe(given.submit_to_a_stand_in, ends_as, *job, log)
    _judge_submitted(seen["submitted"], *job)
    expect(
        not seen["still_asking"],
        f"The job had ended as {ends_as}, and `submit_and_wait` kept asking. Which statuses end a job?",
    )
    return seen, log


def _judge_submitted(submitted: list[tuple[Any, Any]], entrypoint: str, runtime_env: dict) -> None:
    """Judge what arrived at the client that only pretends."""
    jobs = len(submitted)
    expect(jobs == 1, f"You should submit one job; you submitted {jobs}.")
    expect_equal(submitted[0][0], entrypoint, "The entrypoint that arrived at the client is another one.")
    expect_equal(submitted[0][1], runtime_env, "The runtime environment did not arrive at the client.")


@exercise(
    points=3,
    minutes=15,
    hints=[
        "`client.submit_job(entrypoint=…, runtime_env=…)` returns an id; `client.get_job_status(id)` says how far the job is.",
        "Which of PENDING, RUNNING, STOPPED, SUCCEEDED and FAILED are final? `status.is_terminal()` knows. Pause between two questions.",
        "After the loop, ask how the job ended. `client.get_job_logs(id)` has what it printed, for the return value and for the error's message.",
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


def _judge_success(seen: given.Rehearsed, log: str) -> None:
    expect(seen["raised"] is None, f"`submit_and_wait` raised: {seen['raised']}")
    nothing = seen["returned"] is None or agree(seen["returned"], "")
    expect(not nothing, f"`submit_and_wait` returned {seen['returned']!r}: did it wait for the end?")
    expect_equal(seen["returned"], log, f"It printed {log!r}, and `submit_and_wait` returned {seen['returned']!r}.")
    expect(
        seen["polls"] <= 200,
        f"You asked for the status {seen['polls']} times in half a second. Each is a request to the head: pause in between.",
    )


def _judge_failure(seen: given.Rehearsed, log: str) -> None:
    expect(seen["raised"] is not None, f"`submit_and_wait` returned {seen['returned']!r} as if all were well.")
    text = seen["raised"] or ""
    expect(
        log.strip() in text,
        f"The message of your RuntimeError is {text!r}: its reader will want to see what the job printed.",
    )


def _judge_real_job(answer: Answer, rng: Generator) -> None:
    """Judge a job of which Ray says how it ended."""
    number = int(rng.integers(1000, 9999))
    fresh = uuid.uuid4().hex  # the head remembers the jobs of earlier checks
    entrypoint = f'python -c \'import os; print("square", int(os.environ["NUMBER"]) ** 2, "{fresh}")\''
    real = answer.probe(given.run_a_job, entrypoint, {"env_vars": {"NUMBER": str(number)}})
    expect(real["known"] == ["SUCCEEDED"], f"On your cluster, the jobs with this entrypoint are: {real['known']}.")
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
    number = int(rng.integers(1000, 9999))
    name = f"course-{rng.integers(10**9)}-{uuid.uuid4().hex[:8]}"  # fresh, for the head remembers the ids of earlier checks
    runtime_env = {"env_vars": {"NUMBER": str(number)}}
    entrypoint = 'python -c \'import os; print("cube", int(os.environ["NUMBER"]) ** 3)\''
    seen = answer.probe(given.send, name, entrypoint, runtime_env)
    expect(
        seen["noticed"],
        f"With a wrong token Ray answers 403, and no job runs; `submit_rest` returned {seen['refused']!r}.",
    )
    expect(not seen["failed"], f"The dashboard did not take the job. {seen['failed']}")
    if seen["job"] is None:
        raise Wrong(
            f"Your cluster knows no job with the submission id {name!r}; `submit_rest` returned {seen['returned']!r}."
        )
    expect_equal(
        seen["returned"], name, f"The job's submission id is {name!r}; `submit_rest` returned {seen['returned']!r}."
    )
    _expect_as_sent(seen["job"], entrypoint, runtime_env)
    _expect_cube(seen["job"], seen["log"], number)


def _expect_as_sent(job: given.Job, entrypoint: str, runtime_env: dict) -> None:
    expect_equal(job["entrypoint"], entrypoint, f"The job's entrypoint arrived as {job['entrypoint']!r}.")
    expect_equal(
        (job["runtime_env"] or {}).get("env_vars"),
        runtime_env["env_vars"],
        f"The job's runtime environment arrived as {job['runtime_env']!r}, not as {runtime_env!r}.",
    )


def _expect_cube(job: given.Job, log: str, number: int) -> None:
    expect(job["status"] == "SUCCEEDED", f"The job ended as {job['status']}; it printed {log!r}.")
    expect(f"cube {number**3}" in log, f"The job printed {log!r}.")


@exercise(
    points=2,
    minutes=10,
    hints=[
        "A runtime environment is a dictionary. Its field `pip` is a list of packages, or a dictionary with `packages` and `pip_install_options`.",
        '`"name==1.2"` asks for one version. On a command line you would write `--no-index --find-links FOLDER`: each word is one of the options.',
    ],
)
def pip_environment(answer: Answer, rng: Generator) -> None:
    """One version, from one folder and nowhere else: then every node installs the same, today and tomorrow."""
    package = f"robot{rng.integers(100, 999)}"
    first = int(rng.integers(1, 5))
    versions = [f"{first}.{minor}" for minor in (0, 1)] + [f"{first + 1}.0"]
    wanted = versions[int(rng.integers(0, 2))]
    with answer.case(f"{package} {wanted}, where the folder has {', '.join(versions)}"):
        seen = answer.probe(given.installed, package, wanted, versions)
        expect(seen["kind"] == "dict", f"A runtime environment is a dictionary; you returned a {seen['kind']}.")
        expect(not seen["refused"], f"It cannot be installed. {seen['refused']}")
        got, names = [each[1:] for each in seen["found"] if each[0] == package], [each[0] for each in seen["found"]]
        expect(got, f"pip would not install {package}; it would install {names}.")
        version, inside = got[0]
        expect_equal(version, wanted, f"pip would install version {version}.")
        expect(
            inside, "pip would take the package from the internet, if that has a later build. Keep it to the folder."
        )


question(
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

question(
    "what_a_token_is_for",
    """
    Your head listens on a port of a machine in a university network, without a token. What can others do?

    a) Look at the dashboard, nothing more.
        A page that submits jobs is more than a page to look at. What is a job?
    *b) Run any program on your nodes, as you.
        Right: a job's entrypoint is a shell command. Ray runs the programs it is asked to run; the token says who may ask.
    c) Nothing, as long as they do not know the job ids.
        You need no id to submit a job of your own.
    """,
)

question(
    "job_or_task",
    """
    You have 500 pictures, each takes 50 ms. You submit a job for each picture. What will happen?

    a) They run in parallel on all slots, as 500 tasks would.
        They would run, but what does each cost before it begins? You have just measured it.
    *b) Nearly all the time goes into starting processes.
        Right: each job starts a supervisor and a driver of its own. One job with 500 tasks is the way.
    c) The dashboard merges them into one job.
        It does what it is asked to: 500 submissions are 500 jobs.
    """,
)

question(
    "laptop_closed",
    """
    A training run takes ten hours on a cluster. You start it from your laptop at work, and go home with the laptop. Which way survives?

    a) A notebook with `ray.init("ray://head:10001")`.
        The driver is your notebook. When the connection has been gone for 30 seconds, Ray ends everything it started.
    *b) `ray job submit` with `--no-wait`.
        Right: the driver runs in the cluster. Ask for its status and its log tomorrow, from anywhere.
    c) A script with `RAY_ADDRESS` set, run on the laptop.
        That is a driver on your laptop again. And it would need to be part of the cluster's network.
    """,
)
