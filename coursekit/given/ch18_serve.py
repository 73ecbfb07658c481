"""What chapter 18 hands out, and the probes that drive its answers."""

import asyncio
import contextlib
import http.server
import itertools
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypedDict
from unittest import mock

import numpy as np

from coursekit.given.own_requests import own_request
from coursekit.given.ports import free_ports
from coursekit.judging.answer import OwnRequestFailed
from coursekit.ray_bridge import private, records, rendezvous

if TYPE_CHECKING:
    from pandas import DataFrame

LONGEST = 60.0  # seconds after which a deployment is taken for stuck, if a rendezvous of this Ray is not more patient
SWITCHED = 1.0  # seconds in which a model would have been asked, if it were to be asked at once

# Trained with the PPO of chapter 11 (one hidden layer of 8, learning rate 0.01): after 2 and after 18 iterations of 2,000 steps.
POLICIES: dict[int, list] = {  # by version: [matrix, vector] of the hidden layer, then of the scores
    1: [
        [
            [
                [-0.19, 0.2, 0.27, -0.16],
                [-0.15, 0.09, -0.4, 0.37],
                [0.45, 0.42, -1.24, -0.64],
                [-0.41, -0.2, 0.1, -0.03],
                [0.02, 0.23, 0.25, -0.04],
                [0.06, 0.43, 0.64, 0.54],
                [0.54, 0.41, -0.76, -1.14],
                [0.02, 0.37, -0.05, 0.03],
            ],
            [-0.31, -0.27, -0.25, -0.45, -0.23, 0.39, -0.02, 0.01],
        ],
        [
            [
                [-0.28, 0.21, 0.36, -0.16, 0.1, -0.1, 0.15, -0.22],
                [0.09, -0.11, 0.04, -0.01, 0.22, 0.17, -0.56, -0.17],
            ],
            [0.19, 0.06],
        ],
    ],
    2: [
        [
            [
                [-0.51, 0.5, 1.11, -0.36],
                [0.3, 0.43, -1.08, 0.04],
                [0.93, 0.41, -2.53, -1.14],
                [-0.37, 0.21, 0.73, -0.2],
                [-0.1, 0.19, 0.21, -0.09],
                [1.25, 0.3, 2.83, 1.88],
                [-0.09, -0.89, -3.39, -1.51],
                [-0.2, 0.52, 0.22, -0.19],
            ],
            [-0.45, -0.36, -0.12, -0.47, -0.07, 0.0, 0.15, 0.04],
        ],
        [
            [
                [-0.46, 0.35, 0.84, -0.23, 0.15, -0.73, 0.71, -0.2],
                [0.26, -0.25, -0.44, 0.05, 0.17, 0.8, -1.12, -0.19],
            ],
            [-0.01, 0.26],
        ],
    ],
}


class Policy:
    """A trained policy for CartPole, with its `version`, its `layers` (plain arrays), and `actions(observations)`."""

    def __init__(self, version: int = 2, layers: list | None = None):
        self.version = version
        self.layers = [[np.array(part) for part in layer] for layer in layers or POLICIES[version]]

    def actions(self, observations: Any) -> list[int]:
        """Return the action with the largest score for each observation; takes an array of shape [observations, 4]."""
        *hidden, (last, bias) = self.layers
        x = np.asarray(observations)
        for matrix, offset in hidden:
            x = np.tanh(x @ matrix.T + offset)
        return (x @ last.T + bias).argmax(axis=1).tolist()


def layers_of(network: Any) -> list:
    """Return [matrix, vector] of each layer from the observation to the scores, of the network that RLlib's PPO has trained."""
    from torch import nn

    shared = network.encoder.config.shared  # then actor and critic have one encoder
    parts = [network.encoder.encoder if shared else network.encoder.actor_encoder, network.pi]
    linear = [each for part in parts for each in part.modules() if isinstance(each, nn.Linear)]
    return [[each.weight.detach().numpy(), each.bias.detach().numpy()] for each in linear]


def policy_in(folder: str | Path, version: int) -> Policy:
    """Return the policy in the folder that Chapter 11's `algo.save_to_path(folder)` has written; hidden layers have tanh."""
    from ray.rllib.core.rl_module.rl_module import RLModule

    network = RLModule.from_checkpoint(Path(folder) / "learner_group" / "learner" / "rl_module" / "default_policy")
    return Policy(version, layers_of(network))


class Large(Policy):
    """The same policy as if its network were large: it sleeps 20 ms per call, plus 1 ms for every observation in it."""

    def actions(self, observations: Any) -> list[int]:
        """Return the actions, after a sleep that stands for the work of a large network."""
        time.sleep(0.020 + 0.001 * len(observations))
        return super().actions(observations)


class Stumbling(Policy):
    """The same policy, which stalls for half a second every 100 calls, as programs do that collect garbage or load something."""

    def __init__(self, version: int = 2):
        super().__init__(version)
        self.calls = 0

    def actions(self, observations: Any) -> list[int]:
        """Return the actions; every 100th call stalls first."""
        self.calls += 1
        time.sleep(0.5 if self.calls % 100 == 50 else 0.003)
        return super().actions(observations)


def free_port() -> int:
    """Return a port of this machine that is free now."""
    return free_ports(1)[0]


def who_serves() -> "DataFrame":
    """Return a table of Serve's live actors: what each one is, its process, and the CPUs that it requests."""
    from pandas import DataFrame

    rows = [
        {"actor": _kind(each["class_name"]), "pid": each["pid"], "requests CPUs": each["resources"].get("CPU", 0)}
        for each in records.actors()
        if each["state"] == "ALIVE" and each["namespace"] == "serve"
    ]
    return DataFrame(rows)


def _kind(name: str) -> str:
    kinds = {"ServeController": "controller", "ProxyActor": "proxy"}
    return kinds.get(name, name.replace("ServeReplica:", "replica of ").replace(":", ", "))


def replica_pids(app: str) -> list[int]:
    """Return the processes of an application's live replicas."""
    alive = [each for each in records.actors() if each["state"] == "ALIVE"]
    return [each["pid"] for each in alive if each["class_name"].startswith(f"ServeReplica:{app}:")]


def kill_replica(app: str) -> int:
    """Kill the process of an application's first replica, as the operating system would; return its ID."""
    from coursekit.given.deaths import keep_news_of_deaths

    keep_news_of_deaths()
    pid = replica_pids(app)[0]
    os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))
    return pid


def states(app: str) -> dict[str, int]:
    """Return how many replicas of an application are in each state, as `serve.status()` reports it; nothing if it doesn't exist."""
    from ray import serve

    found = serve.status().applications.get(app)
    return dict(next(iter(found.deployments.values())).replica_states) if found and found.deployments else {}


def wait_for_message(app: str, longest: float = 30) -> None:
    """Return once Serve has a message about an application's deployments, or after `longest` seconds."""
    from ray import serve

    end = time.monotonic() + longest
    while time.monotonic() < end:
        found = serve.status().applications.get(app)
        if found and any(each.message for each in found.deployments.values()):
            return
        time.sleep(0.2)


def watch_replicas(app: str, load: Any, most: int, longest: float = 90) -> "DataFrame":
    """Return a table of the running replicas, about five times per second: until there are `most`, then until one is left."""
    from pandas import DataFrame

    start, rows, enough = time.perf_counter(), [], 0
    while time.perf_counter() - start < longest:
        busy, running = load.running, states(app).get("RUNNING", 0)
        rows.append((time.perf_counter() - start, running, busy))
        enough += running >= most
        if enough == 5:  # a second after the last one has begun
            load.finish()
        if not busy and running <= 1:
            break
        time.sleep(0.2)
    return DataFrame(rows, columns=["seconds", "replicas", "load"])


def replaced(app: str, killed: int) -> bool:
    """Return whether all replicas of the application are running again, without the process that was killed."""
    return killed not in replica_pids(app) and set(states(app)) == {"RUNNING"}


# Probes: each drives a learner's object with the judge's inputs, and returns raw results.


class Noted(Policy):
    """A policy that writes down each call: in which process it was, and how many observations came."""

    def __init__(self, layers: list, version: int, point: str):
        super().__init__(version, layers)
        self.point, self.calls = point, 0

    def actions(self, observations: Any) -> list[int]:
        """Return the actions, and leave a signal with the facts."""
        found = super().actions(observations)
        rendezvous.signal(self.point, f"call-{self.calls:04}-{os.getpid()}-{len(found)}")
        self.calls += 1
        return found


def calls_in(point: str) -> list[list[int]]:
    """Return [number, process, observations] of each call that a `Noted` of this room has had, in their order."""
    _internal_kv_list = private.kv_list

    names = _internal_kv_list(f"{point}/call-", namespace="coursekit")
    return sorted([int(part) for part in name.decode().split("call-")[1].split("-")] for name in names)


def serving() -> str:
    """Return the address of this Ray's Serve; where there is none, start one on a free port of this machine alone."""
    from ray import serve

    _get_global_client = private.get_global_client

    client = _get_global_client(raise_if_no_controller_running=False)
    if client is None:
        serve.start(http_options={"host": "127.0.0.1", "port": free_port()}, logging_config={"log_level": "ERROR"})
        client = _get_global_client()
    return f"http://127.0.0.1:{client.http_config.port}"


class Settings(TypedDict):
    """What an application says about its replicas; nothing where `returned` says that it is none."""

    returned: str
    replicas: Any
    cpus: Any
    at_once: int


class Alone(Settings):
    """And what it answered in this process, with the sizes of the batches in which its model was asked."""

    answers: list[Any]
    sizes: list[int]


class Served(TypedDict):
    """Why a deployment is stuck, if it is; the status and the answer of each request, and the processes in which the model was asked."""

    stuck: str
    answers: list[tuple[int, Any]]
    pids: list[int]


class ServedBatches(TypedDict):
    """Why a deployment is stuck, if it is; the status and the answer of each request, and the sizes of the batches."""

    stuck: str
    answers: list[tuple[int, Any]]
    sizes: list[int]


class Talk(TypedDict):
    """What a client returned, or raised; the bodies that it sent, and its pauses: before, between and after its tries."""

    returned: Any
    raised: str
    bodies: list[Any]
    before: float
    pauses: list[float]
    after: float


def deployment_settings(app: Any) -> Settings:
    """Return what an application says about its replicas, without running it."""
    from ray.serve import Application

    if not isinstance(app, Application):
        return {"returned": type(app).__name__, "replicas": None, "cpus": None, "at_once": 0}
    deployment = app._bound_deployment
    return {
        "returned": "an application",
        "replicas": deployment.num_replicas,
        "cpus": (deployment.ray_actor_options or {}).get("num_cpus", 1),
        "at_once": deployment.max_ongoing_requests,
    }


@contextlib.contextmanager
def _here(app: Any) -> Iterator[Callable]:
    """Yield a function that hands a body to one replica of an application, in this process; it returns what will be the answer."""
    from ray import serve

    limit = SimpleNamespace(_deployment_config=SimpleNamespace(max_ongoing_requests=1000))
    with mock.patch("ray.serve.get_replica_context", return_value=limit):  # `serve.batch` asks for it
        handle = serve.run(app, name=rendezvous.new_point(), _local_testing_mode=True)
        ask = _Asgi if _has_routes(app) else _posted
        if ask is _Asgi:  # FastAPI asks for the object whose methods it calls
            limit.servable_object = handle._create_router(
                "", handle.deployment_id, None
            )._user_callable_wrapper._callable
        yield lambda body: ask(handle, body)


def _has_routes(app: Any) -> bool:
    """Return whether an application begins with a class below `@serve.ingress`, whose methods have paths of their own."""
    ASGIAppReplicaWrapper = private.ASGIAppReplicaWrapper

    first = app._bound_deployment.func_or_class
    return isinstance(first, type) and issubclass(first, ASGIAppReplicaWrapper)


def _posted(handle: Any, body: dict) -> Any:
    """Return what will be the answer when a client posts this body."""
    from starlette.requests import Request

    return handle.remote(Request(*_message(body)))


def _message(body: dict) -> tuple[dict, Callable]:
    """Return what a server hands to a Python program when a client posts this body: where it goes, and what brings it."""

    async def receive() -> dict:
        loop = asyncio.get_running_loop()  # the replica's own: a batch that it still waits for is no news when it ends
        loop.set_exception_handler(lambda *_: None)
        return {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}

    scope = {"type": "http", "http_version": "1.1", "method": "POST", "path": "/", "root_path": "", "query_string": b""}
    return scope | {"headers": [(b"content-type", b"application/json")]}, receive


class _Asgi:
    """A body that is posted to a class below `@serve.ingress`; `result` waits for the answer, a sentence if its status is not 200."""

    told: dict[str, list[dict]] = {}  # by conversation: a replica gets copies of what it is handed

    def __init__(self, handle: Any, body: dict):
        self._room = rendezvous.new_point()
        self._pending = handle.remote(*_message(body), _Told(self._room))

    def result(self, timeout_s: float) -> Any:
        """Return the answer."""
        self._pending.result(timeout_s=timeout_s)
        told = _Asgi.told.pop(self._room, [])
        status = next((each["status"] for each in told if "status" in each), 500)
        body = b"".join(each.get("body", b"") for each in told).decode()
        return json.loads(body) if status == 200 else f"status {status} for a POST to the path /, {body[:300]}"


class _Told:
    """Notes what a program sends to the client of a conversation."""

    def __init__(self, point: str):
        self._room = point

    async def __call__(self, message: dict) -> None:
        """Note one message."""
        _Asgi.told.setdefault(self._room, []).append(message)


def _in_a_thread(function: Callable[[], Any]) -> Any:
    """Return what a function returns in another thread: a notebook's own has an event loop, in which Serve does not wait."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


def _answer(pending: Any) -> Any:
    value = pending.result(timeout_s=max(LONGEST, rendezvous.patience()))
    return json.loads(value.body) if hasattr(value, "body") else value


def service_alone(
    policy_service: Callable, layers: list, version: int, replicas: int, cpus: float, observations: list
) -> Alone:
    """Return the settings of the application, and what a replica of it answers in this process."""
    rendezvous.expect_ray()
    point = rendezvous.new_point()
    app = policy_service(Noted(layers, version, point), replicas, cpus)

    def run(ask: Callable) -> list:
        return [_answer(ask({"obs": obs})) for obs in observations]

    return _alone(app, run, point)


def _alone(app: Any, run: Callable[[Callable], list], point: str) -> Alone:
    """Return the settings of what should be an application, and its answers, where it is one."""
    facts, answers = deployment_settings(app), []

    def run_here() -> list:
        with _here(app) as ask:
            return run(ask)

    if facts["returned"] == "an application":
        answers = _in_a_thread(run_here)
    return {**facts, "answers": answers, "sizes": [count for _, _, count in calls_in(point)]}


def serve_and_ask(
    policy_service: Callable, layers: list, version: int, replicas: int, cpus: float, observations: list
) -> Served:
    """Return the answers over HTTP, and the processes in which the model was asked.

    Sends the observations round and round, until as many processes have answered as there should be replicas, or 100 times.
    """
    point = rendezvous.new_point()
    with deployed(policy_service(Noted(layers, version, point), replicas, cpus)) as (url, stuck):
        answers: list[tuple[int, Any]] = []
        while not stuck and (len(answers) < len(observations) or (_too_few(answers, replicas) and len(answers) < 100)):
            answers.append(_post(url, {"obs": observations[len(answers) % len(observations)]}))
        return {"stuck": stuck, "answers": answers, "pids": sorted({pid for _, pid, _ in calls_in(point)})}


def _too_few(answers: list[tuple[int, Any]], replicas: int) -> bool:
    return len({answer["pid"] for _, answer in answers if isinstance(answer, dict) and "pid" in answer}) < replicas


def _post(url: str, body: dict) -> tuple[int, Any]:
    import requests

    with own_request(url):
        reply = requests.post(url, json=body, timeout=max(LONGEST, rendezvous.patience()))
    return reply.status_code, reply.json() if reply.ok else reply.text[:300]


@contextlib.contextmanager
def deployed(app: Any) -> Iterator[tuple[str, str]]:
    """Yield the address of an application that is deployed while the block runs, and why it is stuck, if it is."""
    from ray import serve

    root, name = serving(), f"check-{rendezvous.new_point()}"
    target = serve.RunTarget(app, name=name, route_prefix=f"/{name}", logging_config={"log_level": "ERROR"})
    serve.run_many([target], wait_for_applications_running=False)
    try:
        end, stuck = time.monotonic() + max(LONGEST, rendezvous.patience()), ""
        while not stuck and serve.status().applications[name].status != "RUNNING":
            found = serve.status().applications[name]
            stuck = found.message or str(found.status) if "FAILED" in found.status or time.monotonic() > end else ""
            time.sleep(0.1)
        while not stuck and not _answers(root, f"/{name}"):
            if time.monotonic() > end:
                raise OwnRequestFailed(f"{root}: Serve's proxy does not answer for an application that is running.")
            time.sleep(0.05)
        yield f"{root}/{name}", stuck
    finally:
        serve.delete(name, _blocking=False)


def _answers(root: str, path: str) -> bool:
    """Return whether Serve's proxy knows a path: it hears of new ones a moment later, and one that Serve has replaced has to start first."""
    import requests

    try:
        return path in requests.get(f"{root}/-/routes", timeout=LONGEST).text
    except requests.RequestException:
        return False


def batches_alone(
    batched_service: Callable, layers: list, size: int, wait: float, observations: list, pause_after: int
) -> Alone:
    """Return the settings, the answers and the sizes of the batches, in this process.

    All observations arrive at once, except that there is a pause after the first few, until the model is asked or 1 s is over.
    """
    rendezvous.expect_ray()
    point = rendezvous.new_point()
    app = batched_service(Noted(layers, 1, point), size, wait, 1)

    def run(ask: Callable) -> list:
        pending = [ask({"obs": obs}) for obs in observations[:pause_after]]
        end = time.monotonic() + SWITCHED
        while pause_after and not calls_in(point) and time.monotonic() < end:
            time.sleep(0.05)
        pending += [ask({"obs": obs}) for obs in observations[pause_after:]]
        return [_answer(each) for each in pending]

    return _alone(app, run, point)


def serve_batches(batched_service: Callable, layers: list, size: int, observations: list) -> ServedBatches:
    """Return the answers and the sizes of the batches, when all observations are posted at once."""
    point = rendezvous.new_point()
    app = batched_service(Noted(layers, 1, point), size, rendezvous.patience(), 1)
    with deployed(app) as (url, stuck), ThreadPoolExecutor(len(observations)) as pool:
        answers = [] if stuck else list(pool.map(lambda obs: _post(url, {"obs": obs}), observations))
        return {"stuck": stuck, "answers": answers, "sizes": [count for _, _, count in calls_in(point)]}


def batched_settings(batched_service: Callable, layers: list, size: int, wait: float, replicas: int) -> Settings:
    """Return what the application says about its replicas."""
    return deployment_settings(batched_service(Policy(1, layers), size, wait, replicas))


STALL = 5.0  # seconds for which a scripted service keeps a client waiting: far more than the time limit that the client is given
HELD = 2.0  # seconds for which it holds back an answer, unless another request comes: far less than the time limit then


class Script(http.server.ThreadingHTTPServer):
    """A service that follows a script: a status, "stall", "hold", "drop" (no answer), or "cut" (half an answer); then it answers."""

    daemon_threads = True

    def __init__(self, script: list, reply: dict):
        super().__init__(("127.0.0.1", 0), _Scripted)
        self.script, self.reply = list(script), reply
        self.arrived: list[dict] = []
        self.over, self.another = threading.Event(), threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that has given up is part of the play."""


class _Scripted(http.server.BaseHTTPRequestHandler):
    server: Script

    def do_POST(self) -> None:
        """Note the request, and do what is next in the script."""
        arrived = {"began": time.perf_counter(), "body": None}
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with contextlib.suppress(ValueError):
            arrived["body"] = json.loads(body)
        number = len(self.server.arrived)
        self.server.arrived.append(arrived)
        if number:
            self.server.another.set()
        act = self.server.script[number] if number < len(self.server.script) else 200
        arrived["ended"] = (
            time.perf_counter()
        )  # of a stall, the start: what passes until the next try is time limit and pause
        if act == "stall":
            self.server.over.wait(STALL)
        elif act == "hold":
            self.server.another.wait(HELD)
        elif act == "drop":
            self.close_connection = True
            return
        status = act if isinstance(act, int) else 200
        data = json.dumps(self.server.reply if status == 200 else {"error": status}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: len(data) // 2] if act == "cut" else data)
        self.close_connection = act == "cut"

    do_GET = do_POST

    def log_message(self, *args: object) -> None:
        """Write no log."""


def talk(client: Callable, script: list, obs: list, reply: dict, timeout: float, tries: int, pause: float) -> Talk:
    """Return what a client gives back or raises, when it talks to a service with this script, and what the service saw of it."""
    returned, raised = None, ""
    with Script(script, reply) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        url, start = f"http://127.0.0.1:{server.server_address[1]}/", time.perf_counter()
        try:
            returned = client(url, obs, timeout, tries, pause)
        except Exception as error:
            raised = f"{type(error).__name__}: {error}"[:300]
        over, arrived = time.perf_counter(), list(server.arrived)
        server.over.set()
        server.shutdown()
    return {
        "returned": returned,
        "raised": raised,
        "bodies": [each["body"] for each in arrived],
        "before": arrived[0]["began"] - start if arrived else 0.0,
        "pauses": [b["began"] - a.get("ended", b["began"]) for a, b in itertools.pairwise(arrived)],
        "after": over - arrived[-1].get("ended", over) if arrived else 0.0,
    }
