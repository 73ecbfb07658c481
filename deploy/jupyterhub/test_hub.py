"""The hub for real, as root: two learners in one room, each with their own server, kernel, Ray and files.

`test.sh` installs the course and the hub in a folder that learners can read, then runs this there.
"""

import asyncio
import json
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import requests
import websocket

HERE = Path(__file__).resolve().parent
COURSE = HERE.parents[1]
CONFIG = """
load_subconfig({config!r})
c.JupyterHub.bind_url, c.JupyterHub.hub_port = "http://127.0.0.1:{port}", {hub_port}
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{proxy_port}"
c.JupyterHub.last_activity_interval = 2
c.Spawner.environment |= {{"JUPYTERHUB_ACTIVITY_INTERVAL": "2", "COURSEKIT_LOOK": "1"}}
c.JupyterHub.services[1] |= {{"url": "http://127.0.0.1:{room_port}", "environment": {{"ROOM_PORT": "{join_port}"}}}}
c.JupyterHub.services.append({{"name": "test", "api_token": {token!r}}})
c.JupyterHub.load_roles.append({{"name": "test", "scopes": c.JupyterHub.load_roles[0]["scopes"], "services": ["test"]}})
"""
SOLUTION = """
from coursekit import begin, check, warm_up
begin("ch01_tasks")
import os, ray
started = ray.init(num_cpus=4, include_dashboard=False)
warm_up(4)
"""
CHECK = """
def as_task(function, x):
    return ray.remote(function).remote(x)
result = check("as_task", as_task)
print(result)
"""


@dataclass
class Learner:
    name: str
    password: str
    base: str
    session: requests.Session = field(default_factory=requests.Session)
    token: str = ""

    def __post_init__(self) -> None:
        self.uid = pwd.getpwnam(self.name).pw_uid
        self.home = Path(pwd.getpwnam(self.name).pw_dir)

    def sign_in(self) -> None:
        page = f"{self.base}/hub/login"
        self.session.get(page, timeout=30)
        form = {"username": self.name, "password": self.password, "_xsrf": self.session.cookies["_xsrf"]}
        self.session.post(page, form, allow_redirects=False, timeout=60).raise_for_status()
        answer = self.hub("POST", f"users/{self.name}/tokens", json={"note": "test"})
        self.token = answer.json()["token"]

    def hub(self, method: str, path: str, **more: Any) -> requests.Response:
        """Return what the hub's API answers to this learner's browser."""
        cookies = {cookie.path: cookie.value for cookie in self.session.cookies if cookie.name == "_xsrf"}
        headers = {"X-XSRFToken": cookies["/hub/"], "Referer": f"{self.base}/hub/home"}
        answer = self.session.request(method, f"{self.base}/hub/api/{path}", headers=headers, timeout=60, **more)
        answer.raise_for_status()
        return answer

    def start(self) -> None:
        self.hub("POST", f"users/{self.name}/server")
        wait_until(lambda: self.serving(), 180)

    def serving(self) -> bool:
        servers = self.hub("GET", f"users/{self.name}").json()["servers"]
        return bool(servers) and servers[""]["ready"]

    def ask(self, method: str, path: str, of: str = "", **more: Any) -> requests.Response:
        """Return what a learner's server answers, by default one's own."""
        headers = {"Authorization": f"token {self.token}"}
        return requests.request(
            method, f"{self.base}/user/{of or self.name}/api/{path}", headers=headers, timeout=60, **more
        )

    def processes(self) -> list[psutil.Process]:
        found = psutil.process_iter(["uids"])
        return [each for each in found if each.info["uids"] and each.info["uids"].real == self.uid]


def memory(processes: list[psutil.Process]) -> str:
    """Return the megabytes of some processes: what several share in parts (PSS), and what is theirs alone."""
    total: Counter[str] = Counter()
    for process in processes:
        with suppress(OSError):  # it has ended
            for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()[1:]:
                name, kilobytes = line.split()[:2]
                total[name] += int(kilobytes)
    alone = total["Private_Clean:"] + total["Private_Dirty:"]
    return f"{total['Pss:'] / 1000:5.0f} ({alone / 1000:.0f})"


class Kernel:
    """A kernel in a learner's server, as a browser uses it."""

    def __init__(self, learner: Learner):
        self.learner = learner
        self.id = learner.ask("POST", "kernels", json={"path": "work"}).json()["id"]
        self._open()

    def _open(self) -> None:
        address = f"{self.learner.base}/user/{self.learner.name}/api/kernels/{self.id}/channels".replace(
            "http", "ws", 1
        )
        self.socket = websocket.create_connection(
            address, timeout=300, header=[f"Authorization: token {self.learner.token}"]
        )

    def send(self, code: str) -> str:
        id = secrets.token_hex(8)
        header = {"msg_id": id, "msg_type": "execute_request", "username": "", "session": "s", "version": "5.3"}
        content = {"code": code, "silent": False, "store_history": False, "allow_stdin": False, "stop_on_error": True}
        message = {"channel": "shell", "header": header, "parent_header": {}, "metadata": {}, "content": content}
        self.socket.send(json.dumps(message))
        return id

    def run(self, code: str) -> str:
        """Return what a cell prints; its error fails the test."""
        id, said = self.send(code), ""
        while True:
            message = json.loads(self.socket.recv())
            if message["parent_header"].get("msg_id") != id:
                continue
            content = message["content"]
            if message["msg_type"] == "stream":
                said += content["text"]
            elif message["msg_type"] == "error":
                raise AssertionError(said + "\n".join(content["traceback"]))
            elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                return said


@dataclass
class Hub:
    base: str
    token: str
    api: str
    join_port: int
    ada: Learner
    grace: Learner
    lovelace: Learner
    kernels: dict[str, Kernel] = field(default_factory=dict)

    @property
    def both(self) -> list[Learner]:
        return [self.ada, self.grace]


def wait_until(condition: Callable[[], Any], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.5)


def free_ports(number: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def at_once(function: Callable, *arguments: list) -> list:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(function, *arguments))


@pytest.fixture(scope="module")
def accounts() -> Iterator[dict[str, str]]:
    """Accounts of this machine for two learners and an instructor; they are gone afterwards, with all that is theirs."""
    names = [f"{name}{os.getpid()}" for name in ("ada", "grace", "lovelace")]
    made = ""
    for arguments in (names[:2], ["--instructor", names[2]]):
        command = ["bash", HERE / "accounts.sh", *arguments]
        made += subprocess.run(command, check=True, capture_output=True, text=True).stdout
    uids = [pwd.getpwnam(name).pw_uid for name in names]
    yield dict(line.split() for line in made.splitlines())
    for process in psutil.process_iter(["uids"]):
        if process.info["uids"] and process.info["uids"].real in uids:
            process.kill()
    for name, uid in zip(names, uids, strict=True):
        subprocess.run(["userdel", "--remove", "--force", name], check=True, capture_output=True)
        for folder in Path("/var/tmp").glob(f"ray-{uid}-*"):
            shutil.rmtree(folder)


@pytest.fixture(scope="module")
def hub(
    accounts: dict[str, str], tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Hub]:
    folder, token = tmp_path_factory.mktemp("hub"), secrets.token_hex(16)
    names = ["port", "hub_port", "proxy_port", "room_port", "join_port"]
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    config = folder / "config.py"
    config.write_text(CONFIG.format(config=str(HERE / "jupyterhub_config.py"), token=token, **ports))
    base = f"http://127.0.0.1:{ports['port']}"
    of_the_hub: list[psutil.Process] = []
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyterhub", "-f", config], cwd=folder, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        wait_until(lambda: process.poll() is not None or answers(f"{base}/hub/health"), 120)
        learners = [Learner(name, password, base) for name, password in accounts.items()]
        for learner in learners:
            learner.sign_in()
        of_the_hub = psutil.Process(process.pid).children(recursive=True)  # before it starts learners' servers
        at_once(Learner.start, learners[:2])
        found = Hub(base, token, f"http://127.0.0.1:{ports['hub_port']}/hub/api", ports["join_port"], *learners)
        print("memory in MB: PSS (private)")
        print(f"{'the hub, its proxy and services':36}{memory([psutil.Process(process.pid), *of_the_hub])}")
        print("two learners")
        say_memory(found, "the server alone")
        found.kernels = dict(zip(accounts, at_once(Kernel, found.both), strict=False))
        yield found
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        finally:
            process.kill()
            _, left = psutil.wait_procs(of_the_hub, timeout=20)
            for each in left:
                each.kill()
            if request.session.testsfailed:
                print((folder / "log").read_text()[-20_000:])
    assert left == [], "the hub has ended, and these have not"


def answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=5).ok
    except requests.ConnectionError:
        return False


def say_memory(hub: Hub, when: str) -> None:
    print(f"{when:36}{'   '.join(memory(learner.processes()) for learner in hub.both)}")


def kernels(hub: Hub) -> list[Kernel]:
    return [hub.kernels[learner.name] for learner in hub.both]


def test_each_passes_a_check_of_chapter_1_with_a_ray_of_their_own(hub: Hub) -> None:
    at_once(Kernel.run, kernels(hub), ["from coursekit import check"] * 2)
    say_memory(hub, "… and a kernel")
    at_once(Kernel.run, kernels(hub), [SOLUTION] * 2)
    say_memory(hub, "… and an idle Ray with 4 workers")
    said = at_once(Kernel.run, kernels(hub), [CHECK] * 2)
    say_memory(hub, "… after a check of chapter 1")
    assert all("passed" in each.lower() for each in said), said
    folders = at_once(Kernel.run, kernels(hub), ["print(ray._private.worker._global_node.get_session_dir_path())"] * 2)
    for folder, learner in zip(folders, hub.both, strict=True):
        assert folder.startswith(f"/var/tmp/ray-{learner.uid}-")


def test_one_cannot_read_the_others_files(hub: Hub) -> None:
    server = next(
        process for process in hub.grace.processes() if "jupyterhub.singleuser" in " ".join(process.cmdline())
    )
    tries = [
        f"os.listdir({str(hub.grace.home)!r})",
        f"open({str(hub.grace.home / 'course/work/ch01_tasks.ipynb')!r})",
        f"open({str(hub.grace.home / '.ray/auth_token')!r})",
        f"os.listdir({str(next(Path('/var/tmp').glob(f'ray-{hub.grace.uid}-*')))!r})",
        f"open('/proc/{server.pid}/environ')",
        "os.listdir('/var/lib/ray-course-hub')",
    ]
    assert refused(hub, hub.ada, tries) == ["PermissionError"] * len(tries)
    assert hub.ada.ask("GET", "contents", of=hub.grace.name).status_code == 403
    assert hub.ada.ask("GET", "contents").ok


def test_the_course_is_the_same_for_all_and_nobody_changes_it(hub: Hub) -> None:
    tries = [f"open('{COURSE}/coursekit/__init__.py', 'a')", f"open('{COURSE}/notebooks/x', 'w')"]
    tries += [f"os.listdir('{COURSE}/{folder}')" for folder in ("solutions", "tests", "chapters")]
    assert refused(hub, hub.ada, tries) == ["PermissionError"] * len(tries)
    names = {path.name for path in (COURSE / "notebooks").glob("ch*.ipynb")}
    for learner in hub.both:
        assert names == {path.name for path in (learner.home / "course/work").glob("ch*.ipynb")}


def refused(hub: Hub, learner: Learner, tries: list[str]) -> list[str]:
    """Return what each of these expressions raises in a learner's kernel, "" for one that works."""
    code = f"""
import os
for expression in {tries!r}:
    try:
        eval(expression)
        print()
    except Exception as error:
        print(type(error).__name__)
"""
    return hub.kernels[learner.name].run(code).splitlines()


def test_one_cannot_reach_the_others_ray(hub: Hub) -> None:
    ada, grace = kernels(hub)
    address = grace.run("print(ray.get_runtime_context().gcs_address)").strip()
    store = grace.run("print(ray._private.worker._global_node.plasma_store_socket_name)").strip()
    knock = f"import socket; socket.socket(socket.AF_UNIX).connect({store!r}); print('in')"
    enter = f"import ray; ray.init({address!r}); print('in' if ray.cluster_resources() else '')"
    said = {}
    for name, code in {"store": knock, "ray": enter}.items():
        cell = f"""
import subprocess, sys
print(subprocess.run([sys.executable, "-c", {code!r}], capture_output=True, text=True, timeout=200))
"""
        said[name] = at_once(Kernel.run, [ada, grace], [cell] * 2)
    for of_ada, of_grace in said.values():
        assert "stdout='in" in of_grace, of_grace  # the way is there, for its owner
        assert "stdout='in" not in of_ada, of_ada
    assert "PermissionError" in said["store"][0]
    assert "InvalidAuthToken" in said["ray"][0] or "AuthenticationError" in said["ray"][0], said["ray"][0]


def test_one_cannot_listen_to_the_others_kernel(hub: Hub) -> None:
    ada, grace = kernels(hub)
    port = grace.run(
        "from ipykernel.connect import get_connection_info as i; print(i(unpack=True)['iopub_port'])"
    ).strip()
    listen = f"""
import zmq
ear = zmq.Context().socket(zmq.SUB)
ear.connect("tcp://127.0.0.1:{port}")
ear.subscribe(b"")
print("heard" if ear.poll(8000) else "nothing")
"""
    talk = "import time\nfor _ in range(9):\n    print('secret', flush=True)\n    time.sleep(1)"
    assert at_once(Kernel.run, [ada, grace], [listen, talk])[0] == "nothing\n"


def test_instructors_see_the_board_by_the_hubs_sign_in_and_learners_do_not(hub: Hub) -> None:
    board = f"{hub.base}/services/room/"
    assert "/hub/login" in requests.get(board, timeout=30).url
    assert hub.ada.session.get(board, timeout=30).status_code == 403
    page = hub.lovelace.session.get(board, timeout=30)
    assert (page.status_code, page.url) == (200, board), page.text
    line = seen(hub)["line"]
    hub.kernels[hub.ada.name].run(line.replace('")', '", "Ada")'))
    hub.kernels[hub.ada.name].run(CHECK)
    wait_until(lambda: [each for each in seen(hub)["people"] if "as_task" in each["cells"]], 60)
    (person,) = seen(hub)["people"]
    assert person["nickname"] == "Ada"
    assert person["cells"]["as_task"]["outcome"] == "passed"


def seen(hub: Hub) -> dict[str, Any]:
    """Return what the instructor's board shows now."""
    with hub.lovelace.session.get(f"{hub.base}/services/room/events", stream=True, timeout=30) as events:
        line = next(line for line in events.iter_lines() if line.startswith(b"data: "))
    return json.loads(line.removeprefix(b"data: "))


def test_an_idle_server_ends_and_one_in_a_silent_training_does_not(hub: Hub) -> None:
    grace = hub.kernels[hub.grace.name]
    grace.send("import time; time.sleep(900)")  # nothing goes over the network meanwhile
    for kernel in kernels(hub):
        kernel.socket.close()
    culler = [*configured()["JupyterHub"]["services"][0]["command"][:-1], "--timeout=20", "--cull-every=2"]
    environment = os.environ | {"JUPYTERHUB_API_TOKEN": hub.token, "JUPYTERHUB_API_URL": hub.api}
    process = subprocess.Popen(culler, env=environment, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: not hub.ada.serving(), 120)
        wait_until(lambda: not alive(hub.ada), 60)  # her Ray is gone with her server
        time.sleep(10)  # five more looks
        assert hub.grace.serving()
        assert hub.grace.ask("POST", f"kernels/{grace.id}/interrupt").ok
        wait_until(lambda: not hub.grace.serving(), 120)
        wait_until(lambda: not alive(hub.grace), 60)
    finally:
        process.kill()
    assert (hub.ada.home / "course/work/ch01_tasks.ipynb").exists()


def alive(learner: Learner) -> list[int]:
    found = []
    for process in learner.processes():
        with suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def test_systemd_would_hold_each_server_to_its_memory_and_its_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not run here: this is what it would be told."""
    from systemdspawner import SystemdSpawner, systemd

    told: dict[str, Any] = {}

    async def note(name: str, **unit: Any) -> None:
        told.update(unit)

    async def is_running(name: str) -> bool:
        return bool(told)

    async def has_failed(name: str) -> bool:
        return False

    monkeypatch.setattr(systemd, "start_transient_service", note)
    monkeypatch.setattr(systemd, "service_running", is_running)
    monkeypatch.setattr(systemd, "service_failed", has_failed)
    monkeypatch.setattr(SystemdSpawner, "get_env", lambda spawner: {})
    monkeypatch.setattr(SystemdSpawner, "get_args", lambda spawner: [])
    settings = configured()
    user = SimpleNamespace(name="nobody", id=1, url="/user/nobody/", settings={}, admin=False)
    asyncio.run(SystemdSpawner(config=settings, user=user, _mock=True).start())
    assert told["cmd"] == settings["Spawner"]["cmd"]
    wanted = {"MemoryMax": 4 * 2**30, "CPUQuota": "200%", "PrivateTmp": "yes", "NoNewPrivileges": "yes"}
    assert wanted.items() <= told["properties"].items()


def configured() -> dict[str, Any]:
    """Return the settings of the configuration that is shipped."""
    from traitlets.config.loader import PyFileConfigLoader

    return PyFileConfigLoader(str(HERE / "jupyterhub_config.py")).load_config()
