"""Forks in place of starts: kernels, learners' processes and Ray's own as copies of one process that has imported everything.

It takes Linux; elsewhere the same commands start ordinary processes.
"""

import asyncio
import contextlib
import functools
import gc
import json
import os
import pkgutil
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import ipykernel_launcher

from coursekit.sandbox import learner_process, ray_workers

AVAILABLE = sys.platform == "linux"
RAYS = ["ray.data", "ray.serve", "ray.train.torch", "ray.tune", "ray.util.state", "ray.rllib.utils.replay_buffers"]
RAYS += [f"ray.rllib.algorithms.{name}" for name in ("appo", "bc", "cql", "dqn", "impala", "marwil", "ppo", "sac")]
RAYS += ["ray.dashboard.dashboard", "ray.dashboard.head", "ray.dashboard.agent", "ray._private.runtime_env.agent.main"]
OTHERS = ["ipykernel.kernelapp", "scipy.stats", "sklearn.datasets", "nbgrader.apps"]
OF_PYTHON = ("--python_worker_command", "--dashboard_agent_command", "--runtime_env_agent_command")


def command(arguments: list[str]) -> list[str]:
    """Return the command that runs a Python script, given as Python's own command, in a copy; the very command elsewhere."""
    return [*_starter(os.getpid()), *arguments] if AVAILABLE else arguments


def kernels() -> dict[str, str]:
    """Return the environment in which Jupyter's programs start their kernels as copies."""
    if not AVAILABLE:
        return {}
    argv = command([sys.executable, ipykernel_launcher.__file__, "-f", "{connection_file}"])
    home = Path(argv[3]).parent
    spec = home / "kernels/python3/kernel.json"
    spec.parent.mkdir(parents=True, exist_ok=True)
    spec.write_text(json.dumps({"argv": argv, "display_name": "Python 3", "language": "python"}))
    return {"JUPYTER_PATH": str(home)}


def fork_rays() -> None:
    """Let `ray.init` in this process start all that is Python as copies."""
    from ray._private import services

    if AVAILABLE and not hasattr(services, "starts_copies"):
        services.starts_copies = True
        services.start_ray_process = _copying(services.start_ray_process, _starter(os.getpid()))


@functools.cache
def _starter(user: int) -> list[str]:
    """Return the beginning of a command that runs in a copy, once the process to be copied is ready; one for each process of tests."""
    folder = tempfile.mkdtemp(prefix="coursekit-test-forks-")
    starter = Path(folder, "starter.py")
    mother = subprocess.Popen(
        [sys.executable, "-m", "tests.forked", str(starter)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert mother.stdout
    assert b"ready\n" in iter(mother.stdout.readline, b"")  # what libraries print at their import comes before
    return [sys.executable, "-I", "-S", str(starter)]


def _copying(original: Callable, starter: list[str]) -> Callable:
    """Return Ray's function that starts one of its processes, with those of Python as copies."""

    def start_ray_process(command: list[str], process_type: str, *args: Any, **kwargs: Any) -> Any:
        if command[0] == sys.executable:
            command = [*starter, *command]
        return original([_option(*part.partition("="), starter) for part in command], process_type, *args, **kwargs)

    return start_ray_process


def _option(name: str, sign: str, value: str, starter: list[str]) -> str:
    if name == "--num_prestart_python_workers":
        value = "0"  # they begin before they know their job, and so as new processes
    return f"{name}={shlex.join(starter)} {value}" if name in OF_PYTHON else name + sign + value


def main(starter: Path) -> NoReturn:
    """Import everything, then fork whenever a starter asks, until the process of the tests has ended."""
    os.environ.update(
        ray_workers.AT_IMPORT | {"JPY_PARENT_PID": str(os.getpid())}
    )  # a kernel wants to know who started it
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"  # as a kernel does before it imports pyplot
    address = f"\0{starter.parent.name}"
    gc.disable()  # until `inside.prepare` is done
    ray_workers.draw_own_ids()
    for name in [*RAYS, *OTHERS, *_modules("ray.dashboard.modules")]:
        with contextlib.suppress(ImportError):
            import_module(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it makes an environment, about which Gymnasium warns
        import_module("ray.rllib.algorithms.dreamerv3")  # Tune imports all algorithms when it looks for one by name
    learner_process.prepare("all")  # after the others: it would forget which warnings they want to be ignored
    from ray._private import process_watcher, services

    services.start_ray_process = _copying(services.start_ray_process, [sys.executable, "-I", "-S", str(starter)])
    process_watcher._check_parent = lambda *_: asyncio.sleep(10**6)  # a copy ends with its starter
    for name in ray_workers.AT_IMPORT:
        os.environ.pop(name)
    starter.write_text(ray_workers.starter(address))
    listener = ray_workers.listen(address)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("ready", flush=True)
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            shutil.rmtree(starter.parent, ignore_errors=True)
            os._exit(0)
        ray_workers.accept(listener)


def _modules(package: str) -> list[str]:
    path = import_module(package).__path__
    return [module.name for module in pkgutil.walk_packages(path, f"{package}.") if "test" not in module.name]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
