"""A sandbox keeps in what a submission does, says how it ended, and leaves nothing; as root and as an ordinary user."""

import contextlib
import errno
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from coursekit.basics.paths import ROOT
from coursekit.judging import wire
from coursekit.judging.answer import Answer, Raised
from coursekit.sandbox import accounts, lean_ray, namespaces, nursery_process, system_calls
from coursekit.sandbox.nursery import Nursery, available
from coursekit.sandbox.sandbox import CellOutcome, Limits, Sandbox, SandboxDied
from tests.prose import files

WAY = list(ROOT.parts[2:3]) if ROOT.parts[1] == "tmp" else []  # a sandbox shows the course where it lies, be it in /tmp
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(available()), reason=available())]
SMALL = Limits(
    cell_seconds=20, total_seconds=300, memory_mb=600, processes=100, disk_mb=40, shm_mb=30, output_bytes=10_000
)


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery(SMALL, imports="plain") as nursery:
        yield nursery


@pytest.fixture
def sandbox(nursery: Nursery) -> Iterator[Sandbox]:
    with nursery.sandbox() as sandbox:
        yield sandbox


def ran(sandbox: Sandbox, source: str, seconds: float | None = None) -> CellOutcome:
    return sandbox.run(textwrap.dedent(source), seconds)


def value(sandbox: Sandbox, source: str) -> object:
    """Return the value that the last line of a cell assigns to `found`."""
    outcome = ran(sandbox, source)
    assert outcome.status == "ok", outcome
    return answer_of(sandbox, "found").value()


def answer_of(sandbox: Sandbox, name: str) -> Answer:
    return Answer(name, partial(sandbox.ask, name), sandbox.evidence)


def processes(sandbox: Sandbox) -> list[psutil.Process]:
    first = psutil.Process(sandbox.pid)
    return [first, *first.children(recursive=True)]


def test_a_cell_runs_and_its_names_can_be_asked_for(sandbox):
    outcome = ran(sandbox, "def double(x):\n    return 2 * x\nprint('hello')")
    double = answer_of(sandbox, "double")
    assert (outcome.status, outcome.output) == ("ok", "hello\n")
    assert double(21) == 42
    with pytest.raises(Raised, match="TypeError"):
        double(None)


def test_cells_are_a_notebooks_cells(sandbox):
    ran(sandbox, "import asyncio\nawait asyncio.sleep(0)\nx = 1")
    assert [each.text for each in ran(sandbox, "%time x + 1").shown] == ["2"]
    assert "from a shell" in ran(sandbox, "!echo from a shell").output
    assert "line 2" in ran(sandbox, "y = 0\n1 / y").error["where"]
    assert ran(sandbox, "def f(:").error["kind"] == "SyntaxError"
    assert (
        "[7]"
        in ran(sandbox, "from multiprocessing import get_context as c\nprint(c('spawn').Pool(1).map(abs, [-7]))").output
    )


def test_a_notebooks_checks_judge_nothing_and_passed_says_what_the_judge_said(sandbox):
    ran(sandbox, "from coursekit import begin, check, hint, passed, progress, quiz, solution; begin('ch01_tasks')")
    assert ran(sandbox, "check('a', 1), quiz('b', 2), hint('a'), solution('a'), progress()").status == "ok"
    assert value(sandbox, "found = passed('a')") is False
    sandbox.tell("a", True)
    assert value(sandbox, "found = passed('a'), passed('b')") == (True, False)


def test_the_environment_is_clean_and_says_quick(nursery, monkeypatch):
    monkeypatch.setenv("GRADER_SECRET", "the-seed-is-7")
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    with nursery.sandbox() as sandbox:
        everything = value(sandbox, "found = open('/proc/self/environ').read() + str(dict(__import__('os').environ))")
    assert "COURSEKIT_QUICK" in everything
    assert "the-seed-is-7" not in everything
    assert everything.count("NBGRADER") == 1  # what nbgrader sets itself, whatever the grader has


ASKS_FOR_SOCKETS = """
import errno, socket
def asked(make, family, kind):
    try:
        pair = make(family, kind)
    except OSError as error:
        return errno.errorcode[error.errno]
    for each in pair if isinstance(pair, tuple) else [pair]:
        each.close()
    return "made"
"""


def test_sockets_are_made_of_four_families_and_no_others(sandbox):
    ran(sandbox, ASKS_FOR_SOCKETS)
    families = [socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK]
    made = value(sandbox, f"found = [asked(socket.socket, f, socket.SOCK_DGRAM) for f in {[int(f) for f in families]}]")
    assert made == ["made"] * 4
    assert value(sandbox, "found = asked(socket.socketpair, socket.AF_UNIX, socket.SOCK_STREAM)") == "made"
    others = sorted(set(range(1, 50)) - set(families))
    kinds = "[socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET, socket.SOCK_RAW]"
    source = f"found = sorted({{asked(make, family, kind) for make in (socket.socket, socket.socketpair) for family in {others} for kind in {kinds}}})"
    assert value(sandbox, source) == ["EAFNOSUPPORT"]


CALLS = """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
def call(number):
    ctypes.set_errno(0)
    return "made" if libc.syscall(ctypes.c_long(number), 0, 0, 0, 0, 0) >= 0 else errno.errorcode[ctypes.get_errno()]
"""


def test_calls_that_no_chapter_needs_are_not_there(sandbox):
    ran(sandbox, CALLS)
    assert len(system_calls.refused()) == 9
    assert (
        value(sandbox, f"found = [call(number) for number in {list(system_calls.refused().values())}]")
        == ["ENOSYS"] * 9
    )
    assert value(sandbox, "import os; found = call(39 if os.uname().machine == 'x86_64' else 172)") == "made"


OLD_CALL = """
import ctypes, mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex("b814000000cd80c3"))  # mov eax, 20 (getpid); int 0x80; ret
found = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="only this machine has calls of another kind")
def test_calls_of_another_architecture_are_not_there(sandbox):
    assert value(sandbox, OLD_CALL) == -errno.ENOSYS
    ran(sandbox, CALLS)
    assert value(sandbox, "found = call(0x40000000 + 39)") == "ENOSYS"


def test_a_kernel_without_filters_refuses_nothing_and_any_other_failure_is_said(monkeypatch):
    def fails(number: int) -> None:
        def filter_calls(program: bytes) -> None:
            raise namespaces.Refused(number, "no")

        monkeypatch.setattr(namespaces, "filter_calls", filter_calls)

    fails(errno.EINVAL)
    system_calls.restrict()
    fails(errno.EACCES)
    with pytest.raises(namespaces.Refused):
        system_calls.restrict()


def test_there_is_no_network_but_its_own_loopback(sandbox):
    source = """
        import socket
        server = socket.create_server(("127.0.0.1", 0))
        socket.create_connection(server.getsockname(), 5).close()
        def outcome(address):
            try:
                return str(socket.create_connection(address, 5))
            except OSError as error:
                return error.strerror
        found = [name for _, name in socket.if_nameindex()], outcome(("1.1.1.1", 53))
    """
    interfaces, refused = value(sandbox, source)
    assert "lo" in interfaces
    assert refused == "Network is unreachable"


def test_the_system_and_the_course_are_read_only(sandbox):
    import coursekit

    places = [
        "/",
        "/usr",
        "/etc",
        "/usr/bin",
        sys.prefix,
        sys.base_prefix,
        str(Path(coursekit.__file__).parent),
        "/run",
    ]
    source = f"""
        found = []
        for place in {places}:
            try:
                open(place + "/written-by-a-submission", "w")
                found.append(place)
            except OSError:
                pass
    """
    assert value(sandbox, source) == []


def test_home_and_tmp_are_its_own(sandbox, tmp_path):
    (tmp_path / "seen").write_text("from outside")
    mark = f"coursekit-test-{os.getpid()}"
    source = f"""
        import os, tempfile
        from pathlib import Path
        Path("here").write_text("x"); Path("/tmp/{mark}").write_text("x")
        found = os.path.exists({str(tmp_path)!r}), sorted(os.listdir("/tmp")), os.getcwd() == os.path.expanduser("~/work")
    """
    assert value(sandbox, source) == (False, sorted([mark, *WAY]), True)
    assert not Path("/tmp", mark).exists()


def test_expected_values_solutions_tests_and_grader_do_not_exist_inside(sandbox):
    source = f"""
        import importlib, os, sys
        found = [name for name in sys.modules if "coursekit.exercises" in name or "tests.answers" in name]
        for name in ("coursekit.exercises.ch01_tasks", "tests.answers.ch01_tasks", "chapters.ch01_tasks"):
            try:
                importlib.import_module(name); found.append(name)
            except ImportError:
                pass
        for folder in ("solutions", "tests", "chapters", "notebooks", ".git", "submitted"):
            if os.path.exists(os.path.join({str(ROOT)!r}, folder)): found.append(folder)
    """
    assert value(sandbox, source) == []


MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): str(path)
    for path in files("coursekit", ".py")
}
OPEN = {"coursekit", "basics", "judging", "ray_bridge", "learner", "workshop", "given"}
VISIBLE = {name for name, path in MODULES.items() if Path(path).parent.name in OPEN}
BROUGHT_ALONG = {
    *["coursekit.machine", *(f"coursekit.machine.{name}" for name in ("doctor", "facts", "preflight"))],
    "coursekit.sandbox",
    *(
        f"coursekit.sandbox.{name}"
        for name in ("evidence", "forks", "frames", "jail", "kernel_shell", "lean_ray", "learner_process")
    ),
    *(f"coursekit.sandbox.{name}" for name in ("limits", "namespaces", "ray_workers", "supervisor", "system_calls")),
}


def test_a_submission_can_open_the_framework_and_what_is_given_but_no_room(sandbox):
    source = f"""
        import os
        opened = [name for name, path in {MODULES}.items() if os.access(path, os.R_OK)]
        folders = [folder for folder, _, files in os.walk({str(ROOT / "coursekit")!r}) if files]
        found = opened, sorted(map(os.path.basename, folders))
    """
    opened, folders = value(sandbox, source)
    assert set(opened) == VISIBLE
    assert set(folders) <= OPEN | {"__pycache__"}


def test_a_submission_can_import_no_more_than_it_can_open_and_what_its_nursery_brought_along(sandbox):
    fresh = f"""
from importlib.util import find_spec
def is_there(name):
    try:
        return (spec := find_spec(name)) and spec.origin
    except ModuleNotFoundError:  # the folder above it is empty
        return False
print([name for name in {list(MODULES)} if is_there(name)])
"""
    source = f"""
        import subprocess, sys
        fresh = subprocess.run([sys.executable, "-c", {fresh!r}], capture_output=True, text=True).stdout
        loaded = [name for name in sys.modules if name.startswith("coursekit.")]
        found = eval(fresh), loaded, "polib" in sys.modules
    """
    importable, loaded, translates = value(sandbox, source)
    assert not translates
    assert set(importable) == VISIBLE
    assert set(loaded) - VISIBLE == BROUGHT_ALONG


def test_every_public_name_can_be_imported_inside(ray_nursery):
    import coursekit

    with ray_nursery.sandbox() as sandbox:
        outcome = ran(sandbox, f"from coursekit import {', '.join(coursekit.__all__)}\nprint(examine())")
    assert outcome.status == "ok", outcome
    assert "Python" in outcome.output


def test_a_hidden_folder_is_empty_even_inside_the_system():
    with Nursery(SMALL, imports="base", hidden=["/usr/share/doc"]) as nursery, nursery.sandbox() as sandbox:
        assert value(sandbox, "import os; found = os.listdir('/usr/share/doc')") == []


def test_it_sees_none_of_the_machines_secrets_and_processes(sandbox):
    source = """
        import os
        secrets = ["/etc/shadow", "/root/.ssh", "/etc/ssh", "/var/log", "/run/secrets", "/sys/fs/cgroup"]
        found = [path for path in secrets if os.path.exists(path)], [int(p) for p in os.listdir("/proc") if p.isdigit()]
    """
    assert value(sandbox, source) == ([], [1, 2])


def test_it_holds_no_descriptor_but_its_own(sandbox):
    source = """
        import os
        links = [f"/proc/self/fd/{n}" for n in os.listdir("/proc/self/fd")]
        found = [os.readlink(link) for link in links if os.path.lexists(link)]
    """
    kinds = value(sandbox, source)
    loop = ["anon_inode", "socket", "socket"]  # the running loop's own
    assert sorted(kind.split(":")[0] for kind in kinds) == sorted(["/dev/null", "pipe", "pipe", "socket", *loop])


def test_it_has_no_privileges(sandbox):
    status = value(sandbox, "import os; found = open('/proc/self/status').read() + open('/proc/1/status').read()")
    lines = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert all(int(lines[f"Cap{kind}"], 16) == 0 for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb"))
    assert lines["NoNewPrivs"] == "1"
    assert "0" not in lines["Uid"].split()


def test_its_user_owns_nothing_outside(sandbox):
    ran(sandbox, "1")
    users = {process.uids().real for process in processes(sandbox)}
    assert len(users) == 1
    assert not users & ({0} if os.getuid() else set(range(100_000)))


@pytest.mark.parametrize(
    "attempt",
    [
        "libc.mount(b'none', b'/', None, 32 | 4096, None)",
        "libc.mount(b'none', b'/usr', None, 32 | 4096, None)",
        "libc.mount(b'tmpfs', b'/tmp', b'tmpfs', 0, None)",
        "libc.umount2(b'/proc', 2)",
        "libc.umount2(b'/tmp', 2)",
        "libc.unshare(0x10000000)",
        "libc.unshare(0x20000)",
        "libc.chroot(b'/tmp')",
        "libc.setns(os.open('/proc/self/ns/mnt', 0), 0)",
        "libc.mknod(b'/tmp/disk', 0o60666, os.makedev(254, 0))",
        "libc.setuid(0)",
        "libc.ptrace(16, 1, None, None)",
        "libc.sethostname(b'other', 5)",
        "libc.setpriority(0, 0, -5)",
    ],
)
def test_the_kernel_refuses(sandbox, attempt):
    source = f"import ctypes, os; libc = ctypes.CDLL(None, use_errno=True); found = {attempt}, ctypes.get_errno()"
    returned, number = value(sandbox, source)
    assert returned == -1
    assert number


def test_the_first_process_can_be_neither_killed_nor_read(sandbox):
    source = """
        import os
        for number in range(1, 65):
            try: os.kill(1, number)
            except OSError: pass
        found = []
        for name in ("mem", "environ", "fd", "root", "ns/mnt"):
            try:
                os.listdir("/proc/1/fd") if name == "fd" else open("/proc/1/" + name, "rb").read(1)
                found.append(name)
            except OSError: pass
    """
    assert value(sandbox, source) == []
    assert sandbox.alive()


def test_what_takes_too_long_is_interrupted_and_the_notebook_goes_on(sandbox):
    ran(sandbox, "x = 1")  # to interrupt a program, it must have begun
    outcome = ran(sandbox, "while True: pass", 0.3)
    assert (outcome.error["kind"], outcome.error["message"]) == ("TimeoutError", "stopped after 0.3 s")
    ran(sandbox, "def endless():\n    import time\n    time.sleep(1000)")
    reply = wire.decode(sandbox.ask("endless", wire.encode({"op": "call", "args": []}), 0.3))
    assert reply["raised"]["message"] == "stopped after 0.3 s"
    assert value(sandbox, "found = x") == 1


def test_what_will_not_be_interrupted_is_ended(sandbox):
    with pytest.raises(SandboxDied, match=r"ran longer than 0\.5 s"):
        ran(sandbox, "import signal; signal.signal(2, signal.SIG_IGN)\nwhile True: pass", 0.5)
    assert not sandbox.alive()
    with pytest.raises(SandboxDied, match="ran longer"):
        ran(sandbox, "1")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import os; os._exit(3)", r"ended its own process \(exit code 3\)"),
        ("import os; os.kill(os.getpid(), 9)", r"was killed by signal 9 \(SIGKILL\)"),
        ("import os; os.kill(os.getpid(), 19)", r"stopped itself \(SIGSTOP\)"),
        ("import os; os.abort()", "SIGABRT"),
        ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
        ("import os; os.closerange(0, 100)", "ended|closed"),
        ("import os; os.execv('/bin/true', ['true'])", "exit code 0"),
    ],
)
def test_an_end_is_noticed_and_put_into_words(sandbox, source, words):
    start = time.monotonic()
    with pytest.raises(SandboxDied, match=words):
        ran(sandbox, source)
    assert time.monotonic() - start < SMALL.cell_seconds


@pytest.mark.parametrize(
    "source", ["import sys; sys.exit(3)", "exit()", "import os; os.kill(1, 9); os.kill(1, 15); os.kill(-1, 9)"]
)
def test_what_ends_no_notebook_ends_no_sandbox(sandbox, source):
    ran(sandbox, source)
    assert value(sandbox, "found = 1") == 1


MEMORY_BOMBS = {
    "one array": "import numpy\nx = [numpy.ones(10**7) for _ in range(1000)]",
    "many processes": """
        import os, time
        for _ in range(20):
            if os.fork() == 0:
                x = b"x" * (100 * 2**20); time.sleep(60)
        time.sleep(60)
    """,
    "recursion": "import sys\nsys.setrecursionlimit(10**9)\ndef f(x): return f([x])\nf(0)",
}


@pytest.mark.parametrize("source", MEMORY_BOMBS.values(), ids=list(MEMORY_BOMBS))
@pytest.mark.parametrize("account", ["cgroup", "looked"])
def test_memory_of_all_processes_together_is_limited(nursery, monkeypatch, account, source):
    if account == "looked":
        monkeypatch.setattr(accounts, "_homes", lambda controller: [])
    with nursery.sandbox() as sandbox:
        if account == "cgroup" and not isinstance(sandbox._account, accounts.Cgroup):
            pytest.skip("no cgroup can be made here")
        with pytest.raises(SandboxDied, match="used more than 600 MB of memory"):
            ran(sandbox, source)
        if account == "cgroup":  # who looks five times a second sees how much it was by then
            assert sandbox.usage()["peak_mb"] < 1500


LEFT_BEHIND = """
import os, time
if os.fork() == 0:
    while not os.path.exists("/tmp/now"): time.sleep(0.5)
    x = b"x" * (700 * 2**20); time.sleep(60)
"""


def test_memory_is_looked_at_while_nobody_asks_the_sandbox_anything(nursery, monkeypatch):
    monkeypatch.setattr(accounts, "_homes", lambda controller: [])
    with nursery.sandbox() as sandbox:
        ran(sandbox, LEFT_BEHIND)
        started = processes(sandbox)[1:]
        with contextlib.suppress(SandboxDied):  # a slow machine may not get to the reply
            ran(sandbox, "open('/tmp/now', 'w').close()")
        gone, left = psutil.wait_procs(started, timeout=60)
        assert (len(gone), left) == (2, [])
        with pytest.raises(SandboxDied, match="used more than 600 MB of memory"):
            ran(sandbox, "1")


BUSY = """
import os, time
os.nice(15)
for _ in range(30):
    if os.fork() == 0:
        os.setsid()  # a desktop's kernel shares CPUs among sessions
        end = time.monotonic() + 3
        while time.monotonic() < end: pass
        os._exit(0)
"""


def test_one_program_has_as_much_of_the_cpus_as_one_with_many_processes(nursery):
    with nursery.sandbox() as crowd, nursery.sandbox() as alone:
        if not isinstance(crowd._account, accounts.Cgroup) or not accounts._homes("cpu"):
            pytest.skip("no cgroup for CPUs can be made here")
        ran(crowd, BUSY)
        before = crowd.usage()["cpu_seconds"], alone.usage()["cpu_seconds"]
        ran(alone, "import os, time\nos.nice(15)\nend = time.monotonic() + 2\nwhile time.monotonic() < end: pass")
        after = crowd.usage()["cpu_seconds"], alone.usage()["cpu_seconds"]
    used = [late - early for early, late in zip(before, after, strict=True)]
    assert used[1] > used[0] / 4  # of the processes' number it would have a fifteenth


def test_processes_are_limited(sandbox):
    source = """
        import os, time
        found = 0
        while found < 1000:
            try:
                if os.fork() == 0: time.sleep(60); os._exit(0)
                found += 1
            except OSError:
                break
    """
    assert 50 < value(sandbox, source) <= 100


def test_a_fork_bomb_ends_with_its_sandbox(nursery):
    with nursery.sandbox() as sandbox:
        with contextlib.suppress(SandboxDied):
            ran(sandbox, "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", 1)
        bomb = processes(sandbox)
    assert len(bomb) > 50
    assert not any(process.is_running() for process in bomb)


@pytest.mark.parametrize(("folder", "most"), [("/tmp", 40), ("~", 40), ("/dev/shm", 30)])
def test_disk_is_limited(sandbox, folder, most):
    source = f"""
        import os
        found = 0
        try:
            with open(os.path.expanduser("{folder}/big"), "wb", buffering=0) as file:
                for found in range(1000): file.write(bytes(2**20)) == 2**20 or file.write(b"x")
        except OSError as error:
            pass
    """
    assert most - 2 <= value(sandbox, source) <= most


def test_output_is_limited_and_counted(sandbox):
    outcome = ran(sandbox, "print('x' * 50_000); import sys; print('y' * 50_000, file=sys.stderr)")
    assert len(outcome.output) < 10_100
    assert outcome.output.endswith("… and 90002 bytes more.")
    assert ran(sandbox, "print('the next cell')").output == "the next cell\n"


def test_a_flood_of_output_is_stopped(sandbox):
    with pytest.raises(SandboxDied, match="printed more than 2 MB"):
        ran(sandbox, "while True: print('x' * 100_000)")


def test_nothing_outlives_a_sandbox(nursery):
    daemon = """
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork(): os._exit(0)
            for n in range(3): os.close(n)
            while True: time.sleep(60)
        import subprocess; subprocess.Popen(["nohup", "sleep", "1000"], start_new_session=True)
        time.sleep(0.3)
    """
    with nursery.sandbox() as sandbox:
        ran(sandbox, daemon)
        started = processes(sandbox)
        folders = getattr(sandbox._account, "_folders", [])
        assert len([process for process in started if process.status() != psutil.STATUS_ZOMBIE]) >= 4
    assert not any(process.is_running() for process in started)
    assert not any(folder.exists() for folder in folders)


def test_two_sandboxes_share_nothing(nursery):
    with nursery.sandbox() as one, nursery.sandbox() as other:
        ran(
            one,
            "import os, builtins; open('/tmp/mark', 'w'); open('/dev/shm/mark', 'w'); os.environ['MARK'] = builtins.MARK = 'x'",
        )
        ran(one, "import socket; s = socket.socket(socket.AF_UNIX); s.bind('\\0mark'); s.listen()")
        source = """
            import os, builtins, socket
            found = os.listdir('/tmp') + os.listdir('/dev/shm') + [n for n in ('MARK',) if n in os.environ or hasattr(builtins, n)]
            try: socket.socket(socket.AF_UNIX).connect('\\0mark'); found.append('socket')
            except OSError: pass
        """
        assert value(other, source) == WAY
        assert value(one, "import numpy; found = numpy.random.rand()") != value(
            other, "import numpy; found = numpy.random.rand()"
        )


FIND_THE_LINE = """
import os, struct
numbers = [n for n in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{n}")]
line = next(int(n) for n in numbers if os.readlink(f"/proc/self/fd/{n}").startswith("socket"))
"""


def test_forged_messages_are_nobodys(sandbox):
    send = "def send(content, identity): os.write(line, struct.pack('>I16s', len(content), identity) + content)\n"
    forge = "for _ in range(100): send(b'\\x81\\xa5value\\xc3', bytes(16))\n"
    assert value(sandbox, FIND_THE_LINE + send + forge + "found = 'honest'") == "honest"
    with pytest.raises(SandboxDied, match="sent something that is not an answer"):
        ran(sandbox, "os.write(line, b'\\xff' * 1000)")


def test_who_floods_the_line_is_stopped(sandbox):
    with pytest.raises(SandboxDied, match="sent something that is not an answer"):
        ran(sandbox, FIND_THE_LINE + "while True: os.write(line, bytes(20) * 1000)")


def test_a_copy_made_by_fork_does_not_answer(sandbox):
    assert value(sandbox, "import os; pid = os.fork(); found = 'child' if pid == 0 else 'original'") == "original"
    assert value(sandbox, "found = 'child' if pid == 0 else 'original'") == "original"


AT_EACH_FORK = """
import os
numbers = [os.getpid()]
os.register_at_fork(after_in_child=lambda: numbers.append(os.getpid()))
"""


def test_no_process_on_the_way_to_a_sandbox_has_the_number_of_the_one_that_forked_it(monkeypatch, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(AT_EACH_FORK)
    monkeypatch.setitem(nursery_process.AT_START, "PYTHONPATH", f"{tmp_path}:{ROOT}")
    with Nursery(SMALL, imports="base") as nursery, nursery.sandbox() as sandbox:
        numbers = value(sandbox, "import sitecustomize; found = sitecustomize.numbers")
    assert numbers[-2:] == [1, 2]
    assert all(parent != child for parent, child in pairwise(numbers)), numbers


NO_LEARNER = """
import os
os.register_at_fork(after_in_child=lambda: os._exit(3) if os.getpid() == 2 else None)
"""


def test_where_no_learners_process_can_start_available_says_so(monkeypatch, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(NO_LEARNER)
    monkeypatch.setitem(nursery_process.AT_START, "PYTHONPATH", f"{tmp_path}:{ROOT}")
    assert available.__wrapped__() == "The sandbox ended: the program ended its own process (exit code 3)."


def test_a_nursery_that_started_early_imports_what_it_is_told_also_when_it_is_replaced():
    with Nursery(SMALL, imports="later") as nursery:
        nursery.bring("base")
        for _ in range(2):
            with nursery.sandbox() as sandbox:
                names = value(
                    sandbox, "import sys; found = [n for n in ('numpy', 'pandas', 'ray') if n in sys.modules]"
                )
            assert names == ["numpy"]
            nursery._process.kill()
            nursery._process.wait()


def test_a_nursery_that_is_closed_before_it_is_told_leaves_nothing():
    nursery = Nursery(SMALL, imports="later")
    outer = psutil.Process(nursery._process.pid)
    deadline = time.monotonic() + 60
    while not (inner := outer.children(recursive=True)) and time.monotonic() < deadline:
        time.sleep(0.01)
    nursery.close()
    assert inner
    assert not psutil.wait_procs([outer, *inner], timeout=60)[1]


def test_usage_counts_the_whole_tree(nursery):
    with nursery.sandbox() as sandbox:
        ran(
            sandbox,
            "import os\nfor _ in range(2):\n    if os.fork() == 0:\n        sum(range(3 * 10**7)); os._exit(0)\nos.wait(); os.wait()",
        )
        before = sandbox.usage()["cpu_seconds"]
    assert before > 0.2
    assert sandbox.usage()["cpu_seconds"] >= before


def test_a_nursery_that_dies_is_replaced(nursery):
    with nursery.sandbox() as sandbox:
        nursery._process.kill()
        nursery._process.wait()
        with pytest.raises(SandboxDied):
            ran(sandbox, "import time; time.sleep(20)")
    with nursery.sandbox() as sandbox:
        assert value(sandbox, "found = 1") == 1


GRADER = """
import os, sys, time
from coursekit.sandbox.nursery import Nursery
from coursekit.sandbox.sandbox import Limits
nursery = Nursery(Limits(), imports="base")
sandbox = nursery.sandbox()
sandbox.run("import subprocess; subprocess.Popen(['sleep', '1000'], start_new_session=True)")
print(nursery._process.pid, sandbox.pid, flush=True)
time.sleep(100)
"""


def test_all_ends_with_a_killed_grader():
    with subprocess.Popen(
        [sys.executable, "-c", GRADER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as grader:
        roots = [psutil.Process(int(pid)) for pid in grader.stdout.readline().split()]
        started = [process for root in roots for process in [root, *root.children(recursive=True)]]
        os.kill(grader.pid, signal.SIGKILL)
    _, alive = psutil.wait_procs(started, timeout=60)
    assert len(started) >= 4
    assert not alive


@pytest.mark.parametrize(
    "source", ["found = 1 + 1", "import os; found = 2 if os.getcwd() == os.path.expanduser('~/work') else 0"]
)
def test_without_a_sandbox_the_same_handle_works(source):
    with Nursery(SMALL, imports="base", isolated=False) as nursery, nursery.sandbox() as sandbox:
        assert value(sandbox, source) == 2
        ran(sandbox, "import subprocess; subprocess.Popen(['sleep', '1000'], start_new_session=True)")
        started, folder = processes(sandbox), sandbox._folder
        sandbox.close()
        assert not any(process.is_running() for process in started)
        assert not os.path.exists(folder)


def test_without_a_sandbox_nothing_is_left_when_the_learners_process_ends_before_its_supervisor_looks():
    with Nursery(SMALL, imports="base", isolated=False) as nursery, nursery.sandbox() as sandbox:
        ran(sandbox, "import subprocess; subprocess.Popen(['sleep', '1000'], start_new_session=True)")
        first, learner, *others = processes(sandbox)
        first.suspend()
        closing = threading.Thread(target=sandbox.close)
        closing.start()
        deadline = time.monotonic() + 60
        while learner.status() != psutil.STATUS_ZOMBIE and time.monotonic() < deadline:
            time.sleep(0.01)
        first.resume()
        closing.join(60)
        assert others
        assert not any(process.is_running() for process in [first, learner, *others])


WITH_RAY = """
import os, time
import ray
ray.init(num_cpus=4, include_dashboard=False)
"""
RAY = {
    "tasks": "found = ray.get([ray.remote(lambda x: x * x).remote(x) for x in range(8)])",
    "a crash": """
        @ray.remote(max_retries=0)
        def crash(): os._exit(1)
        try: ray.get(crash.remote())
        except ray.exceptions.WorkerCrashedError: found = "crashed"
    """,
    "actors": """
        @ray.remote(max_restarts=1, max_task_retries=1)
        class Counter:
            def __init__(self): self.n = 0
            def next(self): self.n += 1; return self.n
            def pid(self): return os.getpid()
        counter = Counter.remote()
        before, first = ray.get(counter.pid.remote()), ray.get(counter.next.remote())
        os.kill(before, 9)
        found = [first, ray.get(counter.next.remote()), ray.get(counter.pid.remote()) != before]
        ray.kill(counter)
    """,
    "an async actor": """
        import asyncio
        @ray.remote
        class Meeting:
            def __init__(self): self.event = asyncio.Event()
            async def wait(self): await self.event.wait(); return "met"
            async def come(self): self.event.set()
        meeting = Meeting.remote()
        waiting = meeting.wait.remote(); meeting.come.remote()
        found = ray.get(waiting)
    """,
    "an environment": """
        @ray.remote(runtime_env={"env_vars": {"MARK": "x", "OMP_NUM_THREADS": "3"}})
        def mark():
            return [os.environ["MARK"], os.environ["OMP_NUM_THREADS"]]
        found = ray.get(mark.remote())
    """,
    "a plain process": """
        @ray.remote
        def look():
            import builtins, sys, torch
            from IPython.core.getipython import get_ipython
            shell = get_ipython() is None and not hasattr(builtins, "display")
            return [shell, torch.get_num_threads(), os.nice(0), sys.executable, os.environ["HOME"]]
        found = ray.get(look.remote())
    """,
    "cancelling": """
        @ray.remote
        def forever(): time.sleep(1000)
        ref = forever.remote(); time.sleep(0.5); ray.cancel(ref, force=True)
        try: ray.get(ref)
        except (ray.exceptions.TaskCancelledError, ray.exceptions.WorkerCrashedError): found = "cancelled"
    """,
    "different random numbers": """
        import numpy
        @ray.remote
        class Dice:
            def roll(self): return numpy.random.randint(10**9)
        found = len({ray.get(Dice.options(num_cpus=0).remote().roll.remote()) for _ in range(3)})
    """,
    "different ids": """
        draw = lambda: {ray.ObjectRef.from_random().hex() for _ in range(100)}
        @ray.remote
        class Drawer:
            def draw(self): return draw()
        drawers = [Drawer.options(num_cpus=0).remote() for _ in range(2)]
        found = len(set.union(draw(), *ray.get([drawer.draw.remote() for drawer in drawers])))
    """,
    "another Ray": """
        ray.shutdown(); ray.init(num_cpus=1, include_dashboard=False)
        found = ray.get(ray.remote(lambda: 7).remote())
    """,
    "no worker left": """
        import psutil
        ray.shutdown(); time.sleep(3)
        found = [p.info["name"] for p in psutil.process_iter(["name"]) if "ray" in p.info["name"]]
    """,
}
WANTED = {
    "tasks": [x * x for x in range(8)],
    "a crash": "crashed",
    "actors": [1, 1, True],
    "an async actor": "met",
    "an environment": ["x", "3"],
    "a plain process": [True, 1, min(19, os.nice(0) + 15), sys.executable, "/home/learner"],
    "cancelling": "cancelled",
    "different random numbers": 3,
    "different ids": 300,
    "another Ray": 7,
    "no worker left": [],
}
SQUARE = "def square(xs): return ray.get([ray.remote(lambda x: x * x).remote(x) for x in xs])"
PPO = """
from ray.rllib.algorithms.ppo import PPOConfig
config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=1)
algo = config.training(train_batch_size_per_learner=200, minibatch_size=50, num_epochs=1).build_algo()
found = algo.train()["env_runners"]["episode_return_mean"] > 1
algo.stop()
"""


@pytest.fixture(scope="module")
def ray_nursery() -> Iterator[Nursery]:
    with Nursery(Limits()) as nursery:
        yield nursery


def test_the_ports_that_a_raylet_waits_for_are_in_their_files_as_soon_as_these_are_there(tmp_path):
    files = [tmp_path / f"{name}_7" for name in lean_ray._PORTS]
    earlier = []
    for file in files:
        file.touch()
        earlier.append(file.open())
    command = lean_ray._stand_in(["python", "agent.py", f"--session-dir={tmp_path}", "--node-id=7"])
    with subprocess.Popen(shlex.split(command)) as agent:
        deadline = time.monotonic() + 60
        while not all(file.read_text() for file in files) and time.monotonic() < deadline:
            time.sleep(0.01)
        agent.kill()
    assert [file.read_text() for file in files] == [str(lean_ray._NOBODY)] * 3
    assert [file.read() for file in earlier] == [""] * 3  # nothing was written into a file that a raylet could see
    assert sorted(tmp_path.iterdir()) == sorted(files)


def test_ray_and_rllib_are_in_a_sandbox_what_they_are_outside(ray_nursery):
    with ray_nursery.sandbox() as sandbox:
        ran(sandbox, WITH_RAY)
        assert {name: value(sandbox, source) for name, source in RAY.items()} == WANTED
        assert value(sandbox, PPO) is True
        started = processes(sandbox)
    assert not any(process.is_running() for process in started)


def test_each_ray_has_at_least_the_cpus_that_the_chapter_asks_for(ray_nursery):
    source = """
        import ray
        found = []
        for asked in ({}, {"num_cpus": 1}, {"num_cpus": 12}):
            ray.init(include_dashboard=False, **asked)
            found.append(ray.cluster_resources()["CPU"])
            ray.shutdown()
    """
    with ray_nursery.sandbox(cpus=9) as sandbox:
        assert value(sandbox, source) == [9, 9, 12]


def test_evidence_is_read_by_a_process_that_the_submission_cannot_patch(ray_nursery):
    with ray_nursery.sandbox() as sandbox:
        with pytest.raises(Raised, match="Ray is not running"):
            sandbox.evidence("nodes")
        ran(
            sandbox,
            WITH_RAY + "from coursekit.ray_bridge import records\nrecords.tasks = records.nodes = lambda **window: []",
        )
        answer = answer_of(sandbox, "square")
        ran(sandbox, SQUARE)
        with answer.watch() as seen:
            assert answer([1, 2, 3]) == [1, 4, 9]
        assert [task["state"] for task in seen.tasks()] == ["FINISHED"] * 3
        assert [node["alive"] for node in seen.nodes()] == [True]
        assert not sandbox.evidence("actors")


def test_without_a_sandbox_the_learners_process_reads_the_records():
    with Nursery(Limits(), isolated=False) as nursery, nursery.sandbox() as sandbox:
        with pytest.raises(Raised, match="Ray is not running"):
            sandbox.evidence("nodes")
        ran(sandbox, WITH_RAY + SQUARE)
        answer = answer_of(sandbox, "square")
        with answer.watch() as seen:
            assert answer([1, 2, 3]) == [1, 4, 9]
        assert [task["state"] for task in seen.tasks()] == ["FINISHED"] * 3
        assert [node["alive"] for node in seen.nodes()] == [True]


def test_a_sandbox_with_everything_imported_is_ready_at_once(ray_nursery):
    names = ["ray", "torch", "ray.rllib.algorithms.ppo"]
    with ray_nursery.sandbox() as sandbox:
        assert value(sandbox, f"import sys; found = [name for name in {names} if name not in sys.modules]") == []
        ran(sandbox, f"import {', '.join(names)}")
        assert sandbox.usage()["cpu_seconds"] < 1  # importing takes five


THREADS_IN_A_TASK = """
@ray.remote
def threads():
    import torch
    return torch.get_num_threads()
found = ["torch" in before, ray.get(threads.remote())]
"""


def test_a_nursery_without_torch_has_imported_all_that_a_ray_imports_when_it_starts():
    new = "sorted(set(sys.modules) - before)"
    with Nursery(Limits(), imports="ray") as nursery, nursery.sandbox() as sandbox:
        ran(sandbox, "import sys; before = set(sys.modules)")
        ran(sandbox, WITH_RAY)
        assert value(sandbox, f"found = [{new}, ray.get(ray.remote(lambda: {new}).remote())]") == [[], []]
        assert value(sandbox, THREADS_IN_A_TASK) == [False, 1]


def test_a_driver_goes_on_as_soon_as_its_node_is_there(monkeypatch):
    rows = [[], [{"NodeID": "other"}], [{"NodeID": "7"}]]

    class Cluster:
        def _initialize_global_state(self, options: object) -> None:
            assert options

        def node_table(self) -> list:
            return rows.pop(0)

    monkeypatch.setattr("ray._private.state.state", Cluster())
    get_node = lean_ray._at_once(lambda address, node_id: (address, node_id, len(rows)))
    assert get_node("127.0.0.1:1", "7") == ("127.0.0.1:1", "7", 0)


@pytest.mark.skipif(not shutil.which("unshare"), reason="unshare, of util-linux, is not installed")
def test_where_namespaces_are_forbidden_available_says_so():
    ask = "from coursekit.sandbox.nursery import available; print(available())"
    forbid = f"echo 0 > /proc/sys/user/max_user_namespaces; exec {sys.executable} -c {shlex.quote(ask)}"
    said = subprocess.run(["unshare", "-Ur", "sh", "-c", forbid], capture_output=True, text=True)
    assert said.stdout == "new namespaces: a limit of the system is reached (No space left on device)\n"


AS_ORDINARY_USER = """
import os, sys
from coursekit.sandbox import jail, namespaces
namespaces.unshare(namespaces.NEWNS)
namespaces.make_mounts_private()
folders = {folder: os.open(folder, os.O_PATH) for folder in jail.python_folders()}
for folder, opened in folders.items():  # Python may lie where only root may look
    parts = folder.split("/")
    above = ["/".join(parts[:n]) for n in range(2, len(parts))]
    closed = next((path for path in above if not os.stat(path).st_mode & 1), None)
    if closed:
        namespaces.mount_tmpfs(closed, 1)
    if not os.path.exists(folder):
        os.makedirs(folder)
        namespaces.bind(f"/proc/self/fd/{opened}", folder)
os.setgroups([])
os.setresgid(54321, 54321, 54321)
os.setresuid(54321, 54321, 54321)
os.execv(sys.executable, [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *sys.argv[1:]])
"""
# What takes long and is the same for all users, or needs root.
NOT_AGAIN = (
    "every_public_name or not_be_interrupted or memory_of_all or one_program or they_are_outside or ready_at_once"
)


@pytest.mark.skipif(os.getuid() != 0, reason="all the other tests have run as an ordinary user")
def test_all_this_holds_for_an_ordinary_user():
    environment = {**os.environ, "HOME": "/nonexistent"}
    folder = f"/tmp/coursekit-test-{os.getpid()}"
    command = [
        sys.executable,
        "-c",
        AS_ORDINARY_USER,
        __file__,
        "-k",
        f"not (ordinary_user or {NOT_AGAIN})",
        "--basetemp",
        folder,
    ]
    try:
        finished = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=400)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    assert finished.returncode == 0, finished.stdout[-5000:] + finished.stderr[-2000:]
    assert " passed" in finished.stdout
    assert "skipped" not in finished.stdout


def test_a_room_hears_nothing_from_a_sandbox(sandbox):
    source = """
        from coursekit.learner.workshop import connection
        from coursekit.learner.progress import home

        home().mkdir(parents=True, exist_ok=True)
        (home() / "room.json").write_text("{}")
        found = connection.joined()
    """
    assert value(sandbox, source) is False
