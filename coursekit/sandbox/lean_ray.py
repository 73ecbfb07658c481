"""A Ray that starts with little: what no program of a learner and no check can see is left out, workers are forked.

`ray.init` starts nine Python processes; each imports for about a second. Here

- the autoscaler's monitor, the log monitor (it brings the output of workers to the driver), and, with
  `include_dashboard=False`, the dashboard's server and its agent are left out;
- workers and the agent for runtime environments are copies of a process that has imported all that they need (`workers`);
- workers are started when they are needed, not before;
- the driver looks for its node every hundredth of a second. Ray itself looks once, and then after a second again.
"""

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from coursekit.ray_bridge import patches, private
from coursekit.sandbox.ray_workers import STARTER

_PORTS = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port")
_NO_DASHBOARD = "COURSEKIT_NO_DASHBOARD"
_NOBODY = 9  # a port where nobody answers: Ray goes without metrics then


def apply(forked: bool, cpus: int) -> None:
    """Change how this process starts a Ray: with `cpus` CPUs or more, and `forked` if the sandbox's first process can fork workers."""
    import ray

    patches.replace(ray, "init", _with_cpus(cpus))
    node = private.node.Node
    # There is no other network to ask.
    private.services.node_ip_address_from_perspective = lambda address=None: "127.0.0.1"
    node.start_monitor = node.start_log_monitor = lambda self: None
    patches.replace(node, "start_api_server", _api_server)
    patches.replace(private.services, "get_node", _at_once)
    patches.change_commands("lean", _lean_raylet(forked))


def _with_cpus(cpus: int) -> Callable[[Callable], Callable]:
    """Return what makes of `ray.init` one whose Ray has the CPUs that the chapter asks for, whatever a cell or the machine says."""

    def make(original: Callable) -> Callable:
        def init(address: str | None = None, *, num_cpus: int | None = None, **more: Any) -> Any:
            if cpus and (address == "local" or (address is None and "RAY_ADDRESS" not in os.environ)):
                num_cpus = max(num_cpus or 0, cpus)
            return original(address, num_cpus=num_cpus, **more)

        return init

    return make


def _at_once(original: Callable) -> Callable:
    """Return Ray's function that waits for a node, which looks for it more often."""

    def get_node(address: str, node_id: str) -> Any:
        cluster, deadline = type(private.state)(), time.monotonic() + patches.START_SECONDS
        cluster._initialize_global_state(private.services._get_gcs_client_options(address))
        while all(row["NodeID"] != node_id for row in cluster.node_table()) and time.monotonic() < deadline:
            time.sleep(0.01)
        return original(address, node_id)

    return get_node


def _api_server(original: Callable) -> Callable:
    """Return Ray's method that starts the dashboard's server, which starts none where no dashboard is wanted."""

    def start_api_server(self: Any, *, include_dashboard: bool | None, raise_on_failure: bool) -> None:
        if include_dashboard is False:
            self._webui_url = ""
            os.environ[_NO_DASHBOARD] = "1"  # for the raylet, which is started next
        else:
            os.environ.pop(_NO_DASHBOARD, None)
            original(self, include_dashboard=include_dashboard, raise_on_failure=raise_on_failure)

    return start_api_server


def _lean_raylet(forked: bool) -> patches.Change:
    """Return what changes the command of a raylet, where it says what to start in turn."""

    def change(command: list[str], kind: str) -> list[str]:
        return [_option(*part.partition("="), forked) for part in command] if kind == "raylet" else command

    return change


def _option(name: str, sign: str, value: str, forked: bool) -> str:
    """Return one option of the raylet, changed where it says what to start."""
    if name == "--num_prestart_python_workers":
        value = "0"
    elif name == "--dashboard_agent_command" and _NO_DASHBOARD in os.environ:
        value = _stand_in(shlex.split(value))
    elif forked and name in ("--python_worker_command", "--runtime_env_agent_command"):
        value = f"{shlex.join([sys.executable, '-I', '-S', STARTER])} {value}"
    return name + sign + value


def _stand_in(command: list[str]) -> str:
    """Return the command of a process that is there in place of the dashboard's agent, with the ports that Ray waits for."""
    options = dict(part.split("=", 1) for part in command if part.startswith("--") and "=" in part)
    files = " ".join(f"{options['--session-dir']}/{name}_{options['--node-id']}" for name in _PORTS)
    write = f"printf {_NOBODY} > $file.new; mv $file.new $file"  # a raylet that finds an empty file ends itself
    script = f"for file in {files}; do {write}; done; exec sleep infinity"
    return subprocess.list2cmdline(["/bin/sh", "-c", script])
