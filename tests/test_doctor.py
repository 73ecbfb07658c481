"""The preflight's judgement, on facts made up for the test."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from coursekit.basics import cpus
from coursekit.basics.cpus import cgroups
from coursekit.machine import facts as machine_facts
from coursekit.machine.doctor import Report, examine
from coursekit.machine.facts import Facts, gather, ray_temp_folder
from coursekit.machine.preflight import SOCKET, Finding

GIB = 2**30
OK, NOTE, PROBLEM = (Finding("x", status, "found") for status in ("ok", "note", "problem"))


def finding(name: str, **facts) -> Finding:
    return next(one for one in examine(Facts(**facts)).findings if one.name == name)


def test_a_usual_laptop_is_ready():
    report = examine(Facts())
    assert (report.ready, report.verdict) == (True, "Ready.")


@pytest.mark.parametrize(
    ("findings", "ready", "verdict"),
    [
        ((OK,), True, "Ready."),
        ((OK, NOTE), True, "Ready, with notes."),
        ((NOTE, PROBLEM), False, "Not ready: fix the 1 problem above."),
        ((PROBLEM, OK, PROBLEM), False, "Not ready: fix the 2 problems above."),
    ],
)
def test_the_verdict_follows_the_worst_finding(findings, ready, verdict):
    report = Report(findings)
    assert (report.ready, report.verdict) == (ready, verdict)
    assert str(report).endswith(verdict)


@pytest.mark.parametrize(
    ("name", "status", "facts", "fix"),
    [
        ("Python", "problem", {"python": (3, 10, 12)}, "PYTHON="),
        ("Python", "problem", {"python": (3, 14, 0)}, "3.11, 3.12, or 3.13"),
        ("Python", "ok", {"python": (3, 13, 4)}, ""),
        ("System", "problem", {"system": "Windows"}, "wsl --install"),
        ("System", "problem", {"system": "Darwin", "machine": "x86_64"}, "Linux"),
        ("System", "note", {"system": "Darwin", "machine": "arm64"}, "connections"),
        ("System", "ok", {"wsl": True}, ""),
        ("Packages", "problem", {"versions": (("ray", "", ">=2.60,<2.61"),)}, "make setup"),
        ("Packages", "problem", {"versions": (("ray", "2.61.0", ">=2.60,<2.61"),)}, "make setup"),
        ("Packages", "problem", {"versions": (("torch", "2.9.1", ">=2.13,<3"),)}, "make setup"),
        ("Packages", "ok", {"versions": (("torch", "2.13.0+cpu", ">=2.13,<3"),)}, ""),
        ("Cores", "note", {"cores": 1.0}, "two cores"),
        ("Cores", "ok", {"cores": 2.0}, ""),
        ("Memory", "problem", {"memory_free": 1 * GIB}, "Close other programs"),
        ("Memory", "problem", {"memory": 2 * GIB, "memory_free": 1 * GIB}, "8 GB"),
        ("Memory", "note", {"memory_free": 3 * GIB}, "one chapter"),
        ("Shared memory", "note", {"shm": 64 * 2**20, "container": "Docker"}, "--shm-size"),
        ("Shared memory", "note", {"shm": 64 * 2**20}, "remount"),
        ("Shared memory", "ok", {"shm": None}, ""),
        ("Disk", "problem", {"disk_free": GIB // 2}, "RAY_TMPDIR"),
        ("Disk", "note", {"disk_used": 0.97}, "RAY_TMPDIR"),
        ("Temp path", "problem", {"temp": "/home/" + "x" * 80}, "RAY_TMPDIR"),
        ("Ports", "note", {"busy_ports": (8265,)}, "next free port"),
        (
            "Folders",
            "problem",
            {"unwritable": (("RAY_TMPDIR", "/tmp/ray", "Permission denied"),)},
            "export RAY_TMPDIR=",
        ),
        ("Folders", "problem", {"unwritable": (("HOME", "~/.ray", "Read-only file system"),)}, "export HOME="),
        (
            "Folders",
            "problem",
            {"unwritable": (("COURSEKIT_HOME", "/x", "Not a directory"),)},
            "export COURSEKIT_HOME=",
        ),
        ("Proxy", "ok", {"proxies": ("http_proxy",)}, ""),
        ("Ray", "problem", {"ray_address": "10.0.0.1:6379"}, "unset RAY_ADDRESS"),
        ("Ray", "note", {"rays": 2}, "cores"),
    ],
)
def test_each_finding_has_its_status_and_names_the_fix(name, status, facts, fix):
    found = finding(name, **facts)
    assert found.status == status
    assert fix in found.fix
    assert bool(found.fix) == (status != "ok")


def test_wsl_and_a_container_are_said():
    assert finding("System", wsl=True, container="Docker").found == "Linux, WSL, Docker container"


def test_the_temp_path_may_be_as_long_as_rays_sockets_allow_and_no_longer():
    longest = "/" + "t" * (107 - len(SOCKET) - 1)
    assert finding("Temp path", temp=longest).status == "ok"
    assert finding("Temp path", temp=longest + "t").status == "problem"
    assert finding("Temp path", temp=longest, system="Darwin").status == "problem"


def test_the_short_form_leaves_out_what_is_ok():
    assert examine(Facts()).text(only_what_matters=True) == "Ready."
    short = examine(Facts(memory_free=GIB)).text(only_what_matters=True)
    assert short.splitlines()[0].startswith("✘ Memory")
    assert "Python" not in short


def test_a_notebook_shows_every_finding_and_escapes_what_it_found():
    page = examine(Facts(ray_address="<b>"))._repr_html_()
    assert page.count("<tr>") == len(examine(Facts()).findings)
    assert "RAY_ADDRESS=&lt;b&gt;" in page


@pytest.fixture
def file(tmp_path):
    """A file, which is no folder: nobody can write into it, root included."""
    (tmp_path / "file").touch()
    return tmp_path / "file"


@pytest.mark.parametrize(
    ("variable", "folder"), [("RAY_TMPDIR", "{}/ray"), ("HOME", "~/.ray"), ("COURSEKIT_HOME", "{}")]
)
def test_a_folder_that_cannot_be_written_into_is_found_by_trying(variable, folder, file, monkeypatch):
    monkeypatch.setenv(variable, str(file))
    assert gather().unwritable == ((variable, folder.format(file), "Not a directory"),)
    assert not examine().ready


def test_trying_to_write_leaves_nothing_behind(tmp_path, monkeypatch):
    for variable in ("RAY_TMPDIR", "HOME", "COURSEKIT_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    assert gather().unwritable == ()
    assert list(tmp_path.iterdir()) == []


def limits(folder: Path, files: dict[str, str], own: str) -> Callable:
    """Return `cgroups` for a process whose /proc/self/cgroup says `own`, where these files are."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "self").write_text(own)
    return partial(cgroups, root=str(folder), own=str(folder / "self"))


V2 = {
    "job/memory.max": "max", "job/step/memory.max": str(3 * GIB), "job/step/memory.current": str(2 * GIB),
    "job/step/memory.stat": f"inactive_file {GIB}", "job/cpu.max": "50000 100000", "job/step/cpu.max": "max 100000",
}  # fmt: skip
V1 = {
    "memory/job/memory.limit_in_bytes": str(3 * GIB), "memory/job/memory.usage_in_bytes": str(2 * GIB),
    "memory/memory.limit_in_bytes": str(2**63 - 4096), "memory/job/memory.stat": f"total_inactive_file {GIB}",
    "cpu/job/cpu.cfs_quota_us": "50000", "cpu/job/cpu.cfs_period_us": "100000",
}  # fmt: skip
# A container that sees its own folder as the root, and in /proc its path on the host.
IN_A_CONTAINER = {"memory.max": str(3 * GIB), "memory.current": str(GIB), "cpu.max": "50000 100000"}


@pytest.mark.parametrize(
    ("files", "own"),
    [
        (V2, "0::/job/step\n"),
        (V1, "4:memory:/job/step\n1:cpu,cpuacct:/job\n0::/\n"),
        (IN_A_CONTAINER, "0::/docker/abc\n"),
    ],
)
def test_the_limits_are_those_of_the_cgroup_that_the_process_is_in(files, own, tmp_path, monkeypatch):
    found = limits(tmp_path, files, own)
    monkeypatch.setattr(cpus, "cgroups", found)
    monkeypatch.setattr(machine_facts, "cgroups", found)
    facts = gather()
    assert (facts.cores, facts.memory, facts.memory_free <= 2 * GIB) == (0.5, 3 * GIB, True)


def test_the_limits_of_a_hub_count(monkeypatch):
    monkeypatch.setenv("MEM_LIMIT", str(GIB))
    monkeypatch.setenv("CPU_LIMIT", "0.5")
    facts = gather()
    assert (facts.memory, facts.memory_free <= GIB, facts.cores) == (GIB, True, 0.5)


def test_this_machine_is_seen_as_it_is():
    facts = gather()
    assert 0 < facts.cores <= (os.cpu_count() or 1)
    assert 0 < facts.memory_free <= facts.memory
    assert dict.fromkeys(name for name, version, _ in facts.versions if not version) == {}


def test_the_tested_ranges_come_from_the_installed_course():
    assert {name: tested for name, _, tested in gather().versions}["ray"] == "<2.61,>=2.60"


def test_the_temp_folder_is_the_one_ray_takes():
    from ray._common.utils import get_default_system_temp_dir

    assert ray_temp_folder() == get_default_system_temp_dir()
