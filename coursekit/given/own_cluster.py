"""A Ray cluster that `ray start` started, with ports, a folder and a token of its own, and that is stopped to its last process.

`ray stop` ends every Ray on the machine, so nothing here calls it. Each command runs below a guard: a small process that ends
the command, and all that it started, when the notebook's process stops it, ends, or is killed.
"""

import atexit
import contextlib
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from coursekit.basics.paths import path_with_scripts
from coursekit.given.ports import free_ports
from coursekit.ray_bridge import private
from coursekit.ray_bridge.quiet import METRICS

HEALTH_TIMEOUTS = {  # a laptop that is busy with something else is slow, not dead
    "RAY_health_check_timeout_ms": "60000",
    "RAY_health_check_failure_threshold": "20",
    "RAY_agent_register_timeout_ms": "300000",
}
MARK = "COURSEKIT_CLUSTER"  # in the environment of every process that belongs to a cluster
GUARD = """
import os, signal, subprocess, sys, threading
def guard():
    sys.stdin.read()  # ends when its parent closes the pipe, or dies
    if child.poll() is None:
        child.terminate()  # `ray start --block` then ends what it started
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            pass
    os.killpg(0, signal.SIGKILL)
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
watch = threading.Thread(target=guard)
watch.start()
print(f"ended with exit code {child.wait()}", flush=True)
watch.join()
"""
SWEEPER = """
import sys
if not sys.stdin.read():  # ends when its parent closes the pipe, or dies
    from coursekit.given.own_cluster import sweep
    sweep(sys.argv[1])
"""
ENDED = re.compile(r"^ended with exit code (-?\d+)$", re.MULTILINE)
LEFT_OUT = re.compile(rf"{ENDED.pattern}|.*Valid values look like this: `")  # Ray's examples are quoted for a shell
PREFIX = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\s+[A-Z]+ \S+ -- ", re.MULTILINE)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# What a worker without a job says: every driver prints it, and it may abort on its way out (coursekit.ray_bridge.quiet says why).
OF_NO_JOB = re.compile(r"^\(pid=\d+.*\n", re.MULTILINE)


class CommandFailed(RuntimeError):
    """A command that should start Ray ended, or took too long; the message holds the last lines of its output."""


class Started:
    """One running command: `pid` of its process, `output()` so far."""

    def __init__(self, words: list[str], environment: dict[str, str], log: Path):
        self.words, self._log = words, log
        with log.open("w", encoding="utf-8") as output:
            self._guard = subprocess.Popen(
                [sys.executable, "-S", "-c", GUARD, *words],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ray's own clean-up may end a whole process group: not the notebook's
            )

    @property
    def pid(self) -> int:
        """Return the process id of the command, 0 once it has ended."""
        with contextlib.suppress(psutil.Error, IndexError):
            return self._guarded()[0].pid
        return 0

    def _guarded(self, recursive: bool = False) -> list[psutil.Process]:
        """Return the living processes below the guard; none once it has ended, for its number may be another's by then."""
        return psutil.Process(self._guard.pid).children(recursive) if self._guard.poll() is None else []

    def output(self) -> str:
        """Return what the command has printed until now, without colours."""
        return COLOUR.sub("", self._log.read_text(errors="replace"))

    def exit_code(self) -> int | None:
        """Return the command's exit code, None while it runs."""
        found = ENDED.search(self.output())
        return int(found[1]) if found else None

    def wait_for(self, text: str, seconds: float) -> None:
        """Return once the command has printed `text`; raises CommandFailed when it ends before, or takes too long."""
        end = time.monotonic() + seconds
        while text not in self.output():
            if (code := self.exit_code()) is not None:
                raise CommandFailed(f"`{self._short()}` ended with exit code {code}:\n{self._last_lines()}")
            if time.monotonic() > end:
                raise CommandFailed(f"`{self._short()}` was not ready after {seconds:.0f} s:\n{self._last_lines()}")
            time.sleep(0.1)

    def processes(self) -> list[psutil.Process]:
        """Return the living processes of the command: its own and all below it."""
        with contextlib.suppress(psutil.Error):
            return self._guarded(recursive=True)
        return []

    def stop(self) -> None:
        """End the command and everything that it started."""
        everything = self.processes()
        if self._guard.stdin and not self._guard.stdin.closed:
            with contextlib.suppress(OSError):  # the guard has ended
                self._guard.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._guard.wait(15)
        end_all([*everything, *self.processes()])
        self._guard.kill()  # nothing, where it has ended
        self._guard.wait()

    def _short(self) -> str:
        return " ".join(self.words[:3])

    def _last_lines(self) -> str:
        lines = [
            line for line in PREFIX.sub("", self.output()).splitlines() if line.strip() and not LEFT_OUT.match(line)
        ]
        return "\n".join(lines[-4:])


class OwnCluster:
    """Ports, a folder and a token for one cluster, and the commands that run in it; `stop` ends all and removes the folder.

    With `metrics`, its processes report metrics, as Ray's do by default.
    """

    def __init__(self, metrics: bool = False) -> None:
        self._metrics = dict.fromkeys(METRICS, "1") if metrics else {}
        short = "/tmp" if sys.platform == "darwin" else None  # a socket's path has room for about 100 letters
        self._kept = contextlib.ExitStack()  # what is left of it goes also when this process is killed
        self.folder = self._kept.enter_context(guarded_folder("ray-", short))
        self.token = os.environ.get("RAY_AUTH_TOKEN") or secrets.token_hex(32)  # a variable comes before a file
        self.token_file = f"{self.folder}/token"
        Path(self.token_file).touch(mode=0o600)
        Path(self.token_file).write_text(self.token, encoding="utf-8")
        self.port, self.dashboard_port, self.client_port = free_ports(3)
        self.scripts = ""  # a folder whose `ray` and `python` come before all others
        self._started: list[Started] = []
        atexit.register(self.stop)

    @property
    def token_variables(self) -> dict[str, str]:
        """Return the two variables that every shell needs before a `ray` command."""
        return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": self.token_file}

    @property
    def bearer(self) -> dict[str, str]:
        """Return the header that every HTTP request needs."""
        return {"Authorization": f"Bearer {self.token}"}

    @property
    def address(self) -> str:
        """Return where other nodes and drivers find the head: host and port of its GCS."""
        found = re.search(r"ray start --address='([^']+)'", self._started[0].output()) if self._started else None
        return found[1] if found else f"127.0.0.1:{self.port}"

    @property
    def dashboard(self) -> str:
        """Return the address of the dashboard and of the REST API."""
        return f"http://127.0.0.1:{self.dashboard_port}"

    @property
    def client_address(self) -> str:
        """Return the address of the Ray Client server."""
        return f"ray://{self.address.rpartition(':')[0]}:{self.client_port}"

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment for a command of this cluster: no token in it unless `more` brings one."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_AUTH", "RAY_ADDRESS"))}
        path = f"{self.scripts}{os.pathsep}{path_with_scripts()}" if self.scripts else path_with_scripts()
        own = {"PATH": path, MARK: self.folder, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "1"}
        return kept | own | HEALTH_TIMEOUTS | {"RAY_USAGE_STATS_ENABLED": "0"} | self._metrics | more

    def start(
        self, command: str | list[str], environment: dict[str, str] | None = None, seconds: float = 120
    ) -> Started:
        """Run a `ray start --block` and return once Ray runs; raises CommandFailed with the end of its output."""
        words = shlex.split(command) if isinstance(command, str) else list(command)
        variables = self.token_variables if environment is None else environment
        for attempt in range(3):  # Ray itself gives up after 30 s, which a very busy machine can need
            log = Path(self.folder) / f"start-{time.monotonic_ns()}.log"
            started = Started(words, self.environment(**variables), log)
            self._started.append(started)
            try:
                started.wait_for("Ray runtime started", seconds)
                break
            except BaseException as error:
                self._started.remove(started)
                started.stop()
                if "timed out during startup" not in str(error) or attempt == 2:
                    raise
        return started

    def shell(self, command: str, seconds: float = 300) -> str:
        """Return what a command printed, with the two variables of the token set; without times, levels and lines of other workers."""
        done = subprocess.run(
            shlex.split(command),
            env=self.environment(**self.token_variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
        )
        return OF_NO_JOB.sub("", PREFIX.sub("", COLOUR.sub("", done.stdout)))

    def export(self) -> None:
        """Set the token's two variables for this process too, as `export` does in a shell; Ray may have been imported."""
        tokens = private.tokens

        os.environ.update(self.token_variables)
        tokens.Config.initialize("")  # Ray read the variables when it was imported: let it look again
        tokens.AuthenticationTokenLoader.instance().reset_cache()

    def processes(self) -> list[psutil.Process]:
        """Return the living Ray processes of this cluster, on all its nodes of this machine."""
        return [process for started in self._started for process in started.processes()]

    def alive(self) -> bool:
        """Return whether the head runs."""
        return bool(self._started) and self._started[0].exit_code() is None and bool(self._started[0].pid)

    def stop(self) -> None:
        """End every process of this cluster, and nothing else; remove its folder. Twice does no harm."""
        for started in reversed(self._started):
            started.stop()
        self._started.clear()
        self._kept.close()
        atexit.unregister(self.stop)


_in_use: OwnCluster | None = None  # the one that the checks of this notebook look at


def cluster_here() -> OwnCluster:
    """Return the cluster that the notebook has started; starts one where there is none, as in a test."""
    global _in_use
    if _in_use is None or not _in_use.alive():
        _in_use = OwnCluster()
        _in_use.start(head_command(_in_use))
    return _in_use


def use(cluster: OwnCluster) -> None:
    """Let the checks of this notebook use this cluster; one that was used before is stopped."""
    global _in_use
    if _in_use is not None and _in_use is not cluster:
        _in_use.stop()
    _in_use = cluster


def stop() -> None:
    """Stop the cluster that the checks use, if there is one."""
    global _in_use
    if _in_use is not None:
        _in_use.stop()
    _in_use = None


def head_command(cluster: OwnCluster) -> str:
    """Return the command that starts the head of a cluster, on its own ports and in its own folder."""
    return (
        f"ray start --head --block --num-cpus=1 --port={cluster.port} --dashboard-port={cluster.dashboard_port} "
        f"--ray-client-server-port={cluster.client_port} --dashboard-agent-listen-port=0 --temp-dir={cluster.folder}"
    )


def end_all(processes: list[psutil.Process], patience: float = 5) -> None:
    """End processes and all below them: politely first, then for good."""
    with_children = list(processes)
    for process in processes:
        with contextlib.suppress(psutil.Error):
            with_children += process.children(recursive=True)
    _, alive = psutil.wait_procs(with_children, timeout=0)
    for act in ("terminate", "kill"):
        for process in alive:
            with contextlib.suppress(psutil.Error):
                getattr(process, act)()
        _, alive = psutil.wait_procs(alive, timeout=patience)


@contextlib.contextmanager
def guarded_folder(prefix: str, place: str | None = None) -> Iterator[str]:
    """Yield a new folder; at the end remove it and end the processes marked with it, also where this process is killed before.

    A process belongs to the folder when it, or what started it, got the folder as the variable `MARK`.
    """
    folder = tempfile.mkdtemp(prefix=prefix, dir=place)
    sweeper = subprocess.Popen(
        [sys.executable, "-c", SWEEPER, folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # what ends the notebook's process group must not end this
    )
    try:
        yield folder
    finally:
        end_all(_marked(folder))  # whatever the block could not end
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(subprocess.TimeoutExpired):  # the last step: this process may be killed before it
            sweeper.communicate(b"stopped", timeout=15)
        sweeper.kill()  # nothing, where it has ended
        sweeper.wait()


def sweep(folder: str) -> None:
    """End every process that carries this folder's mark, and remove the folder; once the process that started them is dead."""
    while found := _marked(folder):
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(found, timeout=5)
    shutil.rmtree(folder, ignore_errors=True)


def _marked(folder: str) -> list[psutil.Process]:
    """Return processes that carry this cluster's mark: those that a command left running in the background."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == folder:
                found.append(process)
    return found
