"""The cluster launcher for real, on two machines within this one: it takes Linux, root, sshd and rsync, so `.ci/run` runs it.

python -m tests.launcher: a Ray runs outside; `ray up` brings two nodes up, a job's tasks run on both, `ray down` ends the head, and the
Ray outside has not noticed.
"""

import re
import sys
import time

import psutil

from coursekit.given import ch24_deploy as given
from coursekit.given import machines
from coursekit.given.own_cluster import OwnCluster


def said(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", flush=True)


def main() -> None:
    reason = machines.why_not()
    assert reason == "", f"Two machines cannot be made here: {reason}."
    outside = OwnCluster()
    try:
        outside.start(given.head_command(outside))
        before = {process.pid for process in outside.processes() if process.name() in ("raylet", "gcs_server")}
        assert len(before) == 2
        with machines.two_machines("ab" * 32) as laptop:
            _try(laptop)
        said("the machines are gone")
        after = {process.pid for process in outside.processes() if process.name() in ("raylet", "gcs_server")}
        assert after == before, "The Ray outside has lost processes."
        assert outside.alive()
        assert not psutil.pid_exists(laptop.process), "The machines are left."
        said("the Ray outside runs as before")
    finally:
        outside.stop()


def _try(laptop: machines.Laptop) -> None:
    inside = laptop.run("ps -e -o args=")
    assert "raylet" not in inside, "The laptop sees a Ray: nothing that calls `ray stop` may run there."
    given.on_two_machines(laptop)
    assert given.nodes_up(laptop, 2), laptop.run(given.STATUS)
    said("ray up: two nodes")
    hosts = set(re.findall(r"ran on (\S+)", laptop.run(given.WHERE)))
    assert hosts == {machines.HEAD, machines.WORKER}, hosts
    said("tasks ran on both")
    laptop.run("ray down --yes cluster.yaml")
    left = laptop.run(
        f"ssh -q -i key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null root@{machines.HEAD} ps -e -o comm="
    )
    assert "gcs_server" not in left
    said("ray down: the head has ended")


if __name__ == "__main__":
    sys.exit(main())
