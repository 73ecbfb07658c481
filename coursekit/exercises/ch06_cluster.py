"""The judge's side of chapter 6."""

import os
import uuid
from typing import Any

from numpy.random import Generator

from coursekit.basics.cpus import cores
from coursekit.given import ch06_cluster as given
from coursekit.judging.answer import Answer
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import Wrong, expect, expect_equal

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
RESEMBLES = {  # what a part is easily taken for, and found although it is missing
    "gcs": "raylet",
    "dashboard": "helper",
    "monitor": "log monitor",
    "client server": "start",
    "raylet": "driver",
    "log monitor": "editor",
    "dashboard agent": "runtime env agent",
    "runtime env agent": "dashboard agent",
}


def _command_lines(rng: Generator) -> dict[str, list[str]]:
    """Return a command line of each part as Ray 2.60 writes it, and of processes that are no part."""
    home = f"/home/{rng.choice(['ann', 'raylet', 'monitor'])}/env"  # a user's name may be anything
    ray, port = f"{home}/lib/python3.11/site-packages/ray", int(rng.integers(20_000, 60_000))
    python, session = f"{home}/bin/python3", f"/tmp/ray-{rng.integers(1000, 9999)}/session"
    gcs, logs = f"--gcs-address=10.0.0.7:{port}", f"--logs-dir={session}/logs"
    agents = [
        f"--dashboard_agent_command={python} {ray}/dashboard/agent.py --raylet-name={session}/sockets/raylet {gcs}"
    ]
    agents.append(f"--runtime_env_agent_command={python} {ray}/_private/runtime_env/agent/main.py {gcs}")
    return {
        "gcs": [f"{ray}/core/src/ray/gcs/gcs_server", f"--log_dir={session}/logs", f"--gcs_server_port={port}"],
        "raylet": [f"{ray}/core/src/ray/raylet/raylet", f"--raylet_socket_name={session}/sockets/raylet", gcs, *agents],
        "dashboard": [python, f"{ray}/dashboard/dashboard.py", "--host=127.0.0.1", gcs],
        "monitor": [python, "-u", f"{ray}/autoscaler/_private/monitor.py", logs, gcs],
        "log monitor": [python, "-u", f"{ray}/_private/log_monitor.py", f"--session-dir={session}", logs, gcs],
        "client server": [python, "-m", "ray.util.client.server", f"--address=10.0.0.7:{port}", "--mode=proxy"],
        "dashboard agent": ["ray::DashboardAgent"],
        "runtime env agent": ["ray::RuntimeEnvAgent"],
        "helper": [f'ray-dashboard-JobHead-0 ({python} -B -c "from multiprocessing.forkserver")'],
        "start": [python, f"{home}/bin/ray", "start", "--block", f"--port={port}", "--ray-client-server-port=10001"],
        "idle": ["ray::IDLE"],
        "task": [f"ray::{rng.choice(['square', 'monitor.py', 'gcs_server', 'log_monitor'])}"],
        "driver": [python, f"{home}/train.py", f"--watch={session}/logs/raylet.out,{session}/logs/log_monitor.log"],
        "editor": ["/usr/bin/vim", f"{ray}/_private/log_monitor.py"],
    }


def _broken_nodes(rng: Generator) -> list[tuple[bool, list[str]]]:
    """Return nodes, each as whether it is a head, and what it lacks; in random order, after heads with one sign of a head left."""
    heads = [(True, [part for part in HEAD_ONLY if part != left]) for left in HEAD_ONLY]
    nodes = [(True, [part]) for part in (*HEAD_ONLY, *EVERY_NODE)] + [(False, [part]) for part in EVERY_NODE]
    nodes += [(True, []), (False, []), (False, list(EVERY_NODE))]
    return [some[place] for some in (heads, nodes) for place in rng.permutation(len(some))]


def _missing(processes: list[list[str]]) -> list[str]:
    """Return what a node lacks, by the judge's own reading of its command lines."""
    names = {word if "::" in word else word.rpartition("/")[2] for line in processes for word in given.leading(line)}
    there = {part for part, sign in SIGNS.items() if sign in names}
    wanted = EVERY_NODE + HEAD_ONLY if there & set(HEAD_ONLY) else EVERY_NODE
    return sorted(set(wanted) - there)


def _short(words: list[str]) -> str:
    text = " ".join(words)
    return text if len(text) < 180 else f"{text[:120]} … {text[-40:]}"


@exercise(
    points=2,
    minutes=15,
    hints=[
        "First collect the parts that are running. The first word is the program or the title; if the program is Python, which word tells you what it runs?",
        '`word.rpartition("/")[2]` is the last part of a path. Compare it with `==`, because "log_monitor.py" contains "monitor.py".',
        "Take the set of parts that the node should have, minus the set of parts that it has. The first set depends on "
        "whether the node has any of the four parts that only a head node has.",
    ],
    spare=["    return sorted((every | head) - found)"],
)
def what_is_missing(answer: Answer, rng: Generator) -> None:
    """Compare whole names, collect the parts that are running, and subtract them from those that this kind of node should have."""
    # Long: nodes that lack something, as Ray writes their command lines, and the cluster that runs here.
    lines = _command_lines(rng)
    others = ["start", "idle", "task", "driver", "editor"]
    for head, lacks in _broken_nodes(rng):
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
    expect(not alive, f"Your list names {alive}, but the node runs this process: {shown}")
    extra = sorted(set(names) - set(lacks))
    expect(
        not extra,
        f"The node has none of the parts that only a head node has, but your list names {extra}.",
    )
    lost, listed = [part for part in lacks if part not in names], sorted(names)
    sign = next((_short(node[part]) for part in HEAD_ONLY if part in node), "")
    decoy = next((_short(node[RESEMBLES[part]]) for part in lost if RESEMBLES[part] in node), "")
    heads = set(lacks) & set(HEAD_ONLY)
    expect(
        len(heads) < 2 or heads & set(names),
        f"Your list is {listed}, which leaves out parts that the node lacks. It's a head node, because it runs this process: {sign}",
    )
    expect(
        not decoy,
        f"Your list is {listed}, which leaves out a part that the node lacks. This process isn't that part: {decoy}",
    )
    expect(not lost, f"Your list is {listed}, which leaves out a part that the node lacks.")


def _names(got: object) -> list[str]:
    """Return the names of parts that came back."""
    names, kind = list(got) if isinstance(got, list | tuple | set | frozenset) else None, type(got).__name__
    if names is None:
        raise Wrong(f"`what_is_missing` should return a list of names, even if it's empty, but it returned a {kind}.")
    known, table = [name for name in names if isinstance(name, str) and name in SIGNS], ", ".join(SIGNS)
    expect(len(known) == len(names), f"The list must hold names from the table: {table}.")
    return known


def _judge_here(answer: Answer, rng: Generator) -> None:
    """Judge what an answer says of the reader's own head, whole and with a part left out."""
    left_out = str(rng.choice(list(SIGNS)))
    for part, processes, got in answer.probe(given.what_is_missing_here, [["", ""], [left_out, SIGNS[left_out]]]):
        names = sorted(set(_names(got)))
        with answer.case(
            f"the processes of your head node, without its {part}" if part else "the processes of your head node"
        ):
            expect_equal(names, _missing(processes), f"For your own head node, your list is {names}.")


@exercise(
    points=3,
    minutes=15,
    hints=[
        "Start from the command for the head node. Which of its options does only a head node need, and what does another node need to find it?",
        "`--address=` takes `address` as it is. `json.dumps` writes the resources as JSON.",
        "There are two variables: one turns token authentication on, and the other says where the token is.",
    ],
)
def join_node(answer: Answer, rng: Generator) -> None:
    """A new node needs only the GCS's address and the token; the GCS tells it the rest."""
    # Long: what comes back is read first, so that only a command that can join is run, and then the node that joined.
    default = {os.cpu_count(), int(cores())}  # what the node would offer without --num-cpus
    cpus, amount = int(rng.choice([count for count in (1, 2, 3) if count not in default])), int(rng.integers(2, 60))
    resources = {f"robot_{rng.integers(100, 999)}": amount, "camera": int(rng.integers(1, 9))}
    made = answer.probe(given.joining_command, "10.0.0.7:6379", "/etc/ray/token", cpus, resources)
    expect(
        not made["read"],
        "`join_node` looked for the token's file on this machine, but `token_file` is a path on the other one. Pass the path on.",
    )
    _judge_pair(made["returned"])
    command, variables = made["returned"]
    expect(
        not isinstance(command, str),
        f"The command should be a list with a string for each word, but it's a single string: {command!r:.80}",
    )
    _judge_command(list(command))
    _judge_variables({str(name): str(value) for name, value in variables.items()})
    seen = answer.probe(given.join, cpus, resources)
    with answer.case(f"your command with cpus={cpus} and resources={resources}, run for real"):
        _judge_joined(seen, {"CPU": cpus, **resources})


def _judge_pair(returned: Any) -> None:
    listed = isinstance(returned, list) and len(returned) == 2 and isinstance(returned[1], dict)
    parts: Any = returned if listed or isinstance(returned, tuple) else (returned,)
    pair = len(parts) == 2 and isinstance(parts[0], str | list | tuple) and isinstance(parts[1], dict)
    shape = ", ".join(type(part).__name__ for part in parts)
    expect(pair, f"`join_node` should return two things, a list of strings and a dictionary; it returned: {shape}.")


def _judge_command(command: list[Any]) -> None:
    begin = command[:2]
    expect(
        begin == ["ray", "start"],
        f"The list should begin with the strings 'ray' and 'start', but it begins with {begin}.",
    )
    others = [word for word in command if not isinstance(word, str)]
    expect(not others, f"The command should be a list of strings, but it holds {others}.")
    expect("--head" not in command, "With --head, the machine starts another cluster instead of joining yours.")
    expect(
        "--block" in command,
        "Without --block, the command exits at once and leaves its processes in the background.",
    )
    quoted = [word for word in command if word.startswith("'") or "='" in word][:1]
    expect(not quoted, f"No shell will read this list and remove the quotes around the JSON in {quoted}.")


def _judge_variables(variables: dict[str, str]) -> None:
    own = {name: value for name, value in variables.items() if name.startswith("RAY_AUTH")}
    expect(
        own.get("RAY_AUTH_MODE") == "token",
        f"The variables don't turn token authentication on, so the node would send no token. Those about authentication are {own}.",
    )
    expect(
        own.get("RAY_AUTH_TOKEN_PATH") == "/etc/ray/token",
        f"The token is in the file /etc/ray/token, but your variables about authentication are {own}.",
    )


def _judge_joined(seen: given.Joined, wanted: dict[str, float]) -> None:
    """Judge what Ray says of the nodes that joined."""
    expect(not seen["failed"], f"No node joined:\n{seen['failed']}")
    joined = len(seen["joined"])
    expect(joined == 1, f"Your command should add one node to the cluster, but it added {joined}.")
    state, is_head, got = seen["joined"][0]
    expect(seen["running"], "The command exited by itself, and its node with it.")
    expect(not is_head, "The new node is a head node.")
    expect(state == "ALIVE", f"The new node is {state}.")
    cpus, due = got.get("CPU"), wanted["CPU"]
    expect_equal(cpus, due, f"The new node offers {cpus} CPUs, and `cpus` is {due}.")
    offered = {name: got.get(name) for name in wanted}
    expect_equal(offered, wanted, f"The new node offers {offered}, and it should offer {wanted}.")


def _stand_in(answer: Answer, rng: Generator, ends_as: str) -> tuple[given.Rehearsed, str]:
    """Return what came of a job that a fake client took, and what it printed."""
    number, log = int(rng.integers(1000, 9999)), f"loss {rng.integers(100, 999)}\nstep {rng.integers(1000, 9999)}\n"
    job = f"python train.py --seed {number}", {"env_vars": {"SEED": str(number)}}
    seen = answer.probe(given.submit_to_a_stand_in, ends_as, *job, log)
    _judge_submitted(seen["submitted"], *job)
    expect(
        not seen["still_asking"],
        f"The job had ended with the status {ends_as}, but `submit_and_wait` kept polling its status.",
    )
    return seen, log


def _judge_submitted(submitted: list[tuple[Any, Any]], entrypoint: str, runtime_env: dict) -> None:
    """Judge what arrived at the fake client."""
    jobs = len(submitted)
    expect(jobs == 1, f"`submit_and_wait` should submit one job, but it submitted {jobs}.")
    got, env = submitted[0]
    expect_equal(got, entrypoint, f"The entrypoint is {entrypoint!r}, but the client got {got!r}.")
    expect_equal(env, runtime_env, f"The runtime environment is {runtime_env!r}, but the client got {env!r}.")


@exercise(
    points=3,
    minutes=15,
    hints=[
        "`client.submit_job(entrypoint=…, runtime_env=…)` returns an ID, and `client.get_job_status(id)` returns the job's status.",
        "Which of PENDING, RUNNING, STOPPED, SUCCEEDED, and FAILED are final? `status.is_terminal()` tells you. Sleep between two polls.",
        "After the loop, find out how the job ended. `client.get_job_logs(id)` returns what it printed, for the result or the error's message.",
    ],
    spare=['    while (status := client.get_job_status(job)) == "RUNNING":'],
)
def submit_and_wait(answer: Answer, rng: Generator) -> None:
    """Poll the status, with pauses, until it's final, and then check which one it is: a job that has ended may have failed."""
    # Long: a fake client for every way in which a job ends, and then a real job.
    with answer.case("a job that was PENDING, then RUNNING, then SUCCEEDED"):
        _judge_success(*_stand_in(answer, rng, "SUCCEEDED"))
    for ends_as in ("FAILED", "STOPPED"):
        with answer.case(f"a job that ended with the status {ends_as}"):
            _judge_failure(*_stand_in(answer, rng, ends_as))
    _judge_real_job(answer, rng)


def _judge_success(seen: given.Rehearsed, log: str) -> None:
    expect(seen["raised"] is None, f"The job succeeded, but `submit_and_wait` raised {seen['kind']}: {seen['raised']}")
    expect_equal(
        seen["returned"], log, f"The job printed {log!r} by its end; `submit_and_wait` returned {seen['returned']!r}."
    )
    expect(
        seen["polls"] <= 200,
        f"`submit_and_wait` polled the status {seen['polls']} times in half a second, and each poll is a request to the head node. "
        "Pause between two polls.",
    )


def _judge_failure(seen: given.Rehearsed, log: str) -> None:
    expect(
        seen["raised"] is not None,
        f"`submit_and_wait` returned {seen['returned']!r}, although the job didn't succeed.",
    )
    text = seen["raised"] or ""
    expect(
        seen["kind"] == "RuntimeError",
        f"`submit_and_wait` should raise RuntimeError if the job didn't succeed, but it raised {seen['kind']}.",
    )
    expect(
        log.strip() in text,
        f"The job printed {log!r}, but the message of your RuntimeError is {text!r}.",
    )


def _judge_real_job(answer: Answer, rng: Generator) -> None:
    """Judge a job of which Ray says how it ended."""
    number = int(rng.integers(1000, 9999))
    fresh = uuid.uuid4().hex  # the head node keeps the records of earlier checks' jobs
    entrypoint = f'python -c \'import os; print("square", int(os.environ["NUMBER"]) ** 2, "{fresh}")\''
    real = answer.probe(given.run_a_job, entrypoint, {"env_vars": {"NUMBER": str(number)}})
    expect(
        real["known"] == ["SUCCEEDED"],
        f"Your cluster should have one job with this entrypoint, with the status SUCCEEDED; the jobs with this entrypoint have the statuses {real['known']}.",
    )
    printed = f"square {number**2} " in str(real["returned"])
    expect(printed, f"A real job printed the square of {number}; `submit_and_wait` returned {real['returned']!r}.")


@exercise(
    points=2,
    minutes=10,
    hints=[
        "`requests.post(url, json=…, headers=…)` sends a dict as JSON. The path is `/api/jobs/`.",
        'The header is called `Authorization`, and its value is the word "Bearer", a space, and the token.',
        "`reply.raise_for_status()` turns a refusal into an exception, and `reply.json()` holds the ID.",
    ],
)
def submit_rest(answer: Answer, rng: Generator) -> None:
    """POST JSON to /api/jobs/ with the token in a header, and raise an error if the reply is a refusal."""
    number = int(rng.integers(1000, 9999))
    name = f"course-{rng.integers(10**9)}-{uuid.uuid4().hex[:8]}"  # new, because Ray refuses an ID of an earlier check
    runtime_env = {"env_vars": {"NUMBER": str(number)}}
    entrypoint = 'python -c \'import os; print("cube", int(os.environ["NUMBER"]) ** 3)\''
    seen = answer.probe(given.send, name, entrypoint, runtime_env)
    expect(
        seen["noticed"],
        f"With a wrong token, the dashboard replies 403, and no job runs, but `submit_rest` returned {seen['refused']!r}.",
    )
    expect(not seen["failed"], f"The dashboard refused the job. {seen['failed']}")
    if seen["job"] is None:
        raise Wrong(
            f"Your cluster has no job with the submission ID {name!r}; `submit_rest` returned {seen['returned']!r}."
        )
    expect_equal(
        seen["returned"], name, f"The job's submission ID is {name!r}; `submit_rest` returned {seen['returned']!r}."
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
    expect(job["status"] == "SUCCEEDED", f"The job ended with the status {job['status']}; it printed {log!r}.")
    expect(f"cube {number**3}" in log, f"The job printed {log!r}.")


@exercise(
    points=2,
    minutes=10,
    hints=[
        "A runtime environment is a dictionary. Its `pip` field is a list of packages, or a dictionary with `packages` and `pip_install_options`.",
        '`"name==1.2"` requests one version. On a command line, you would write `--no-index --find-links FOLDER`; here, each of these words is a string of its own.',
    ],
)
def pip_environment(answer: Answer, rng: Generator) -> None:
    """Request one version from one folder, and every node installs the same package, today and tomorrow."""
    package = f"robot{rng.integers(100, 999)}"
    first = int(rng.integers(1, 5))
    versions = [f"{first}.{minor}" for minor in (0, 1, 2)] + [f"{first + 1}.0"]
    wanted = versions[int(rng.integers(0, 2))]
    with answer.case(f"{package} {wanted}, where the folder has {', '.join(versions)}"):
        seen = answer.probe(given.installed, package, wanted, versions)
        expect(seen["kind"] == "dict", f"A runtime environment is a dictionary, but you returned a {seen['kind']}.")
        expect(not seen["refused"], f"With this runtime environment, pip would install nothing. {seen['refused']}")
        got, names = [each[1:] for each in seen["found"] if each[0] == package], [each[0] for each in seen["found"]]
        expect(got, f"pip would not install {package}; it would install {names}.")
        version, inside = got[0]
        expect_equal(version, wanted, f"pip would install version {version}.")
        expect(inside, "pip would take this version from the internet if there were a newer build of it there.")


question(
    "who_must_not_die",
    """
    A cluster was started without `--block`, so no command watches its processes. One of them is killed, and soon the whole cluster has stopped. Which one was it?

    a) A worker.
        Its raylet starts another one, and Ray runs the task again (Chapter 5).
    b) The raylet of a worker node.
        Then that node is lost, with its workers and objects, but the other nodes keep working.
    *c) The GCS on the head node.
        Right: the raylets try to reach it for a minute, and then they exit. A new GCS can take over only if the tables are kept outside the process, in Redis or in a RocksDB database on a disk that outlives the node.
    d) The log monitor.
        Then you no longer see what the workers of that node print, but they keep working.
    """,
)

question(
    "what_a_token_is_for",
    """
    Your head node has no token, and all of its ports, the dashboard's included, are open to a university network. What can others on that network do?

    a) They can look at the dashboard, but nothing else.
        You can submit jobs to the dashboard, so it does more than show things. What is a job?
    *b) They can run any program on your nodes, as you.
        Right: a job's entrypoint is a shell command. Ray runs the programs that it is sent; the token decides who may send them.
    c) They can do nothing unless they know the IDs of your jobs.
        Nobody needs an ID to submit a new job.
    """,
)

question(
    "job_or_task",
    """
    You have 500 images, each of which takes 50 ms to process, and you submit one job per image. What happens?

    a) They run in parallel on all CPUs, as 500 tasks would.
        They do run, but how long does each job take before its program starts? You have just measured it.
    *b) Nearly all of the time is spent starting processes.
        Right: each job starts a supervisor and a driver. Submit one job that launches 500 tasks.
    c) The dashboard merges them into one job.
        It doesn't: 500 submissions are 500 jobs.
    """,
)

question(
    "laptop_closed",
    """
    From your laptop at work, you start a ten-hour training run on a cluster, and then you take the laptop home. Which way of starting the run survives that?

    a) A notebook with `ray.init("ray://head:10001")`.
        The driver depends on your connection. Once that has been lost for 30 seconds, the driver exits, and your training run stops.
    *b) `ray job submit` with `--no-wait`.
        Right: the driver runs on the cluster. Tomorrow, you can ask for its status and its log, from any machine that can reach the dashboard.
    c) A script with `RAY_ADDRESS=head:6379`, run on the laptop.
        Then the driver runs on your laptop, which would also have to be a node of the cluster.
    """,
)
