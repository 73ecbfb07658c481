"""Two machines in this one, for the cluster launcher: each has processes, a /tmp, a home and an `sshd` of its own.

`ray up` and `ray down` call `ray stop`, which ends every Ray that it can see. So machines, and the laptop that logs in to them, live
in namespaces for processes, mounts and the network: what runs outside is not there for them. `tests/launcher.py` tries it.
"""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from coursekit.basics.paths import path_with_scripts
from coursekit.given.folders import wait_until
from coursekit.given.own_cluster import guarded_folder

HEAD, WORKER = "127.0.0.1", "127.0.0.2"  # addresses of the network within
NEEDED = {
    "sshd": "/usr/sbin/sshd",
    "ssh": "",
    "ssh-keygen": "",
    "rsync": "",
    "unshare": "",
    "nsenter": "",
    "ip": "/usr/sbin/ip",
}
OUTER = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
INNER = "unshare --mount --pid --fork --kill-child --mount-proc"
LAPTOP = f"""
mount --bind "$1" /tmp && ip link set lo up || exit 1
for address in {HEAD} {WORKER}; do {INNER} sh /tmp/machine.sh $address 2>/tmp/$address/sshd.log & done
cat
"""
MACHINE = """
mount --bind /tmp/$1/passwd /etc/passwd && mount -t tmpfs none /run && mkdir -p /run/sshd || exit 1
mount --bind /tmp/$1 /tmp && exec /usr/sbin/sshd -D -e -f /tmp/sshd_config
"""
SSHD = """
Port 22
ListenAddress {address}
HostKey /tmp/hostkey
AuthorizedKeysFile /tmp/authorized
PidFile none
UsePAM no
StrictModes no
PermitRootLogin yes
PasswordAuthentication no
"""


def why_not() -> str:
    """Return why two machines cannot be made here; nothing where they can."""
    if not sys.platform.startswith("linux"):
        return "it takes Linux"
    if os.geteuid() != 0:
        return "it takes root"
    missing = [name for name, place in NEEDED.items() if not (shutil.which(name) or Path(place or "/none").exists())]
    if missing:
        return f"this machine has no {', '.join(missing)}"
    if sys.prefix.startswith("/tmp/"):
        return "Python lies in /tmp, and each machine has a /tmp of its own"
    alone = subprocess.run([*OUTER, "ps", "-e", "-o", "pid="], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    inside = alone.stdout.split()
    return "" if inside[:1] == [b"1"] and len(inside) <= 2 else "this machine allows no namespaces"


class Laptop:
    """A place from which two machines can be reached by `ssh`; `folder` is its /tmp, with a key and a token."""

    def __init__(self, folder: Path, process: int):
        self.folder, self.process = folder, process

    def run(self, command: str, seconds: float = 300) -> str:
        """Return what a command printed that runs on the laptop; raises RuntimeError with it when the command fails."""
        inside = ["nsenter", f"--target={self.process}", "--mount", "--pid", "--net"]
        done = subprocess.run(
            [*inside, "sh", "-c", f"cd /tmp && {command}"],
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
        )
        if done.returncode:
            raise RuntimeError(f"`{command}` ended with exit code {done.returncode}:\n{done.stdout[-2000:]}")
        return done.stdout


@contextlib.contextmanager
def two_machines(token: str) -> Iterator[Laptop]:
    """Yield a laptop and two machines, and end all that runs on them with the block."""
    with guarded_folder("machines-") as folder:
        inside = _filled(Path(folder), token)
        world = subprocess.Popen([*OUTER, "sh", "-c", LAPTOP, "laptop", str(inside)], stdin=subprocess.PIPE)
        try:
            logs = [inside / address / "sshd.log" for address in (HEAD, WORKER)]
            ready = wait_until(lambda: all(log.exists() and "listening" in log.read_text() for log in logs), 30)
            if not ready:
                raise RuntimeError(
                    "The machines did not start: " + " ".join(log.read_text() for log in logs if log.exists())
                )
            (process,) = Path(f"/proc/{world.pid}/task/{world.pid}/children").read_text(encoding="utf-8").split()
            yield Laptop(inside, int(process))
        finally:
            world.communicate()  # its input ends, as it does when this process is killed, and with it all that runs there


def _filled(folder: Path, token: str) -> Path:
    """Return the laptop's /tmp, with its key and its token, and a folder for each machine in it."""
    inside = folder / "tmp"
    (inside / "home/.ray").mkdir(parents=True)
    (inside / "home/.ray/auth_token").write_text(token)
    (inside / "machine.sh").write_text(MACHINE)
    _key(inside / "key")
    for address in (HEAD, WORKER):
        machine = inside / address
        (machine / "home").mkdir(parents=True)
        _key(machine / "hostkey")
        shutil.copy(inside / "key.pub", machine / "authorized")
        (machine / "sshd_config").write_text(SSHD.format(address=address))
        (machine / "passwd").write_text("root:x:0:0:root:/tmp/home:/bin/bash\nsshd:x:100:65534::/run/sshd:/bin/false\n")
        (machine / "home/.bashrc").write_text(f"export PATH={path_with_scripts()}\n")  # the image has Ray already
    return inside


def _key(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "TMPDIR", "COURSEKIT"))}
    own = {"HOME": "/tmp/home", "PATH": path_with_scripts(), "RAY_USAGE_STATS_ENABLED": "0"}
    return kept | own | {"RAY_UP_enable_autoscaler_v2": "0"}  # in 2.60 the new one starts no workers here
