import shlex
import signal
import subprocess
import sys

import nbformat
import pytest
import ray
from nbclient import NotebookClient

from coursekit.given.ch06_cluster import own_lines
from coursekit.given.own_cluster import OwnCluster
from coursekit.judging.answer import Raised
from coursekit.judging.failure import STUB_TEXT
from coursekit.learner.checks import local
from coursekit.ray_bridge import log_monitor, private
from coursekit.ray_bridge.patches import patient
from coursekit.ray_bridge.quiet import NOISE, _printer, _without_stubs
from tests import kernels
from tests.waiting import until

TALK = """
import logging, sys, time, warnings
import numpy as np

@ray.remote
def talk(i):
    print(f"printed by {i}")
    print(f"written to stderr by {i}", file=sys.stderr)
    warnings.warn(f"warned by {i}")

ray.get([talk.remote(i) for i in range(2)])
time.sleep(3)
"""
FAIL = """
@ray.remote
class Fails:
    def fail(self):
        raise ValueError("nobody asked for this")
    def succeed(self):
        return "after it"

actor = Fails.remote()
ref = actor.fail.remote()
ray.get(actor.succeed.remote())  # comes after it; waiting for `ref` would be looking at it
del ref
"""
LARGE = """
@ray.remote(max_restarts=1)
class Large:
    def __init__(self, array):
        self.size = array.size
    def get(self):
        return self.size

large = Large.remote(np.zeros(1_000_000))  # Ray's C++ core complains of this on the stderr of the process
print(ray.get(large.get.remote()))
"""
# gRPC, within Ray, complains of this on the stderr of each process.
GRPC = "import os\nos.environ['GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS'] = '-1'"
MONITOR = """
[monitor] = ray._private.worker._global_node.all_processes["log_monitor"]
print([word.rpartition("/")[2] for word in monitor.process.args[:4]])
"""
READER = """
import pathlib, sys, time

path = pathlib.Path(sys.argv[1])
reads, writes = open(path, "rb"), path.open("ab", 0)
writes.write(b"one\\n:task_n")
print(reads.readline(), reads.readline())
writes.write(b"ame:square\\n")
print(reads.readline(), reads.readline())
writes.write(b"no end")
while not (line := reads.readline()):
    time.sleep(0.1)
print(line, reads.readline())
writes.write(b"\\n*** SIGSEGV received\\n")
print(reads.readline(), reads.readline())
writes.write(b"PC: @\\n")
while not (line := reads.readline()):
    time.sleep(0.1)
print(line, reads.readline())
"""


@pytest.fixture(autouse=True)
def no_chapter_ran_before(monkeypatch):
    """What a chapter that kills processes sets for a whole process, as another test may have done in this one."""
    monkeypatch.delenv("RAY_IGNORE_UNHANDLED_ERRORS", raising=False)


def streams(cells: list[str]) -> dict[str, str]:
    """Run a notebook and return everything that it wrote, by stream."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=300, kernel_name="python3", config=kernels.config()).execute(
        env=kernels.environment()
    )
    outputs = [output for cell in notebook.cells for output in cell.outputs if output.output_type == "stream"]
    return {name: "".join(output.text for output in outputs if output.name == name) for name in ("stdout", "stderr")}


@pytest.mark.slow
@pytest.mark.parametrize(
    "start",
    [
        ["from coursekit.ray_bridge.quiet import quiet\nquiet()\nquiet()", "import ray\nray.init(num_cpus=4);"],
        [
            "import ray\nfrom coursekit.ray_bridge.quiet import quiet\nquiet()",
            "ray.init(num_cpus=4, include_dashboard=False);",
        ],
    ],
    ids=["before Ray is imported", "after, without the dashboard"],
)
def test_nothing_reaches_stderr_and_what_the_learner_wrote_is_all_there(start):
    wrote = streams([GRPC, *start, TALK, FAIL, LARGE, MONITOR, "ray.shutdown()"])
    assert wrote["stderr"] == ""
    for i in range(2):
        for line in (f"printed by {i}", f"written to stderr by {i}", f"warned by {i}"):
            assert line in wrote["stdout"]
    assert "nobody asked for this" in wrote["stdout"]  # an exception that nobody fetched is the learner's own
    assert "1000000" in wrote["stdout"]
    assert not NOISE.search(wrote["stdout"])
    assert "log_monitor.py', 'log_monitor.py'" in wrote["stdout"]


ENDED = """
import os, signal, time
from coursekit.ray_bridge.quiet import quiet
quiet()
import ray
ray.init(num_cpus=1, include_dashboard=False)
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
"""


@pytest.mark.slow
def test_a_notebooks_process_that_is_ended_says_nothing():
    ended = subprocess.run([sys.executable, "-c", ENDED], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (-signal.SIGTERM, "")


@pytest.mark.slow
def test_other_libraries_log_where_they_always_did():
    code = (
        "import logging, sys\nfrom coursekit.ray_bridge.quiet import quiet\nquiet()\nlogging.basicConfig()\n"
        "logging.getLogger('learner').warning('mine')\nlogging.getLogger('raymond').warning('not Ray')\n"
        "logging.getLogger('ray.rllib').warning('from RLlib')\nlogging.getLogger('ray').info('of no interest')"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stderr == "WARNING:learner:mine\nWARNING:raymond:not Ray\n"
    assert "from RLlib" in ran.stdout
    assert "of no interest" not in ran.stdout


COPY = """
import os, sys
from types import SimpleNamespace
from coursekit.ray_bridge.quiet import quiet
quiet()
from fsspec.implementations.local import LocalFileSystem
from pyarrow.fs import FSSpecHandler, PyFileSystem
from ray.train._internal.storage import _FilesystemSyncer
from ray.tune.execution.experiment_state import _ExperimentCheckpointManager

class Renames(LocalFileSystem):
    # Between the look at what there is to copy and the copying, a file gets its name.
    def mkdir(self, path, **options):
        super().mkdir(path, **options)
        if path.endswith("/trial"):
            os.rename(file, f"{staging}/renamed")

for name in (".7-tmp-searcher-state.pkl", "searcher-state.pkl"):
    staging = f"{sys.argv[1]}/{name}/staging"
    file = f"{staging}/{name}"
    os.makedirs(f"{staging}/trial")
    open(file, "w").close()
    syncer = _FilesystemSyncer(PyFileSystem(FSSpecHandler(Renames())))
    storage = SimpleNamespace(
        syncer=syncer, experiment_driver_staging_path=staging, experiment_fs_path=f"{sys.argv[1]}/{name}/copy"
    )
    manager = _ExperimentCheckpointManager(storage=storage, checkpoint_period=10)
    manager.sync_up_experiment_state(lambda: None, force=True)
    manager.sync_up_experiment_state(lambda: None, force=True, wait=True)
"""


@pytest.mark.slow
def test_a_file_of_tunes_that_was_renamed_while_it_was_copied_is_no_news_and_one_that_is_missing_is(tmp_path):
    ran = subprocess.run([sys.executable, "-c", COPY, tmp_path], capture_output=True, text=True, check=True)
    assert ran.stderr == ""
    assert ran.stdout.count("Saving experiment state to storage") == 1
    assert "staging/searcher-state.pkl" in ran.stdout
    assert "-tmp-" not in ran.stdout


@pytest.mark.slow
def test_of_tasks_that_all_raise_the_card_tells_and_ray_reports_none(monkeypatch):
    reported = []
    monkeypatch.setattr(private.worker, "_unhandled_error_handler", lambda error: reported.append(str(error)))

    def raises(text: str) -> None:
        raise ValueError(text)

    def answer() -> list:
        refs = [ray.remote(raises).remote(f"number {number}") for number in range(8)]
        return ray.get(refs)

    with ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False):
        with pytest.raises(Raised, match="number"):
            local("answer", answer)()
        ray.remote(raises).remote("nobody asked for this")  # so that there is a report to wait for
        until(lambda: "nobody" in "".join(reported))
    assert [report.splitlines()[-1] for report in reported] == ["ValueError: nobody asked for this"]


def test_quiet_leaves_the_loggers_of_this_process_alone_until_it_is_called():
    code = "import logging, coursekit.ray_bridge.quiet; print(logging.StreamHandler.emit.__module__)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "logging\n"


def test_an_actor_that_is_not_written_yet_is_no_news_and_one_that_fails_is():
    report = ["Exception raised in creation task: The actor died", "  File ...", "NotImplementedError: {}"]
    stub, other = ([line.format(text) for line in report] for text in (STUB_TEXT, "not for this shape"))
    assert _without_stubs(["printed before", *stub]) == ["printed before"]
    assert _without_stubs(["printed before", *other]) == ["printed before", *other]


def test_an_actor_that_ended_before_it_was_killed_is_no_news():
    failed = "Failed to kill actor 85d9, return status: Invalid: KillActor RPC failed for actor 85d9: RpcError: Socket closed"
    assert NOISE.search(f"[2026-11-29 13:40:08,433 E 29391 29391] (gcs_server) gcs_actor_scheduler.cc:538: {failed}")


def test_a_worker_that_aborts_on_its_way_out_is_no_news_and_one_that_aborts_in_its_work_is():
    printed = []
    show = _printer(lambda data, ignore_prefix: printed.extend((data["pid"], line) for line in data["lines"]))

    def write(pid: int, *lines: str) -> None:
        show({"ip": "127.0.0.1", "pid": pid, "lines": list(lines), "is_err": True}, False)

    abort = ["*** SIGABRT received at time=1795556456 on cpu 1 ***", "Fatal Python error: Aborted"]
    corrupt = (
        "[mutex.cc : 1954] RAW: Check (v & 9) failed: Lock: Mutex corrupt: both reader and writer lock held: 0x6970"
    )
    write(1, "its last result", corrupt, abort[0])
    write(1, abort[1])
    write(2, *abort)
    cut_off = [
        "*** SIGSEGV received at time=1795727418 on cpu 0 ***",
        "PC: @ 0x7fc2  (unknown)  absl::lts_20230802::Enqueue()",
    ]
    harvester = "    @     0x7fc2c3fc2022        144  opencensus::stats::DeltaProducer::RunHarvesterLoop()"
    fault = [*cut_off, "Fatal Python error: Segmentation fault"]
    write(3, "its last result", *cut_off, harvester, fault[-1])
    write(3, "Extension modules: numpy")
    write(4, *fault)
    write(5, *cut_off)
    show({"pid": "raylet", "lines": ["of no process"], "is_err": True}, False)  # Ray's own lines name no machine
    news = {2: abort, 3: ["its last result"], 4: fault, "raylet": ["of no process"]}
    assert printed == [(1, "its last result"), *((pid, line) for pid, lines in news.items() for line in lines)]


def test_a_worker_without_a_job_that_aborts_on_its_way_out_is_no_news_in_a_jobs_log():
    answer, other, own = "9", "\x1b[36m(pid=7)\x1b[0m *** SIGABRT received", "\x1b[36m(square pid=8)\x1b[0m printed"
    log = f"{answer}\n{other}\n{own}"
    assert own_lines(log) == f"{answer}\n{own}"
    assert OwnCluster().shell(shlex.join(["echo", log])) == "9\n(square pid=8) printed\n"


def test_half_a_line_waits_for_its_other_half_and_is_shown_when_none_comes(tmp_path):
    (tmp_path / "log_monitor.py").write_text(READER)
    command = [sys.executable, log_monitor.__file__, tmp_path / "log_monitor.py", tmp_path / "worker.out"]
    (tmp_path / "worker.out").touch()
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [r"b'one\n' b''", r"b':task_name:square\n' b''", "b'no end' b''"]
    report = [r"b'\n' b''", r"b'*** SIGSEGV received\n' b'PC: @\n'"]
    assert ran.stdout.splitlines() == lines + report


def test_a_node_that_starts_slowly_is_waited_for_and_one_that_never_starts_is_not_forever(monkeypatch):
    asked = []

    def get_node(address: str, identity: str) -> str:
        asked.append((address, identity))
        if len(asked) < 4:
            raise RuntimeError("no such node")
        return "the node"

    assert patient(get_node)("here", "7") == "the node"
    assert asked == [("here", "7")] * 4
    monkeypatch.setattr("coursekit.ray_bridge.patches.START_SECONDS", 0)
    asked.clear()
    with pytest.raises(RuntimeError, match="no such node"):
        patient(get_node)("here", "7")
