"""`make setup` on made-up machines: a fake Python notes what it is asked to install."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FAKE_PYTHON = """#!/bin/sh
case "$*" in
    --version) echo "Python $FAKE_VERSION" ;;
    *version_info\\[:2\\]*) [ "$FAKE_VERSION" = 3.11.7 ] ;;
    *ensurepip*) [ "$FAKE_VENV" = yes ] ;;
    *urlopen*) [ "$FAKE_CPU_INDEX" = yes ] ;;
    *"-m venv"*)
        mkdir -p .venv/bin && cp "$0" .venv/bin/python && echo "#!$PWD/.venv/bin/python" >.venv/bin/pip ;;
    *"-m pip"*) echo "$*" >>pip.log && case "$*" in *"$FAKE_FAILURE"*) exit 1 ;; esac ;;
esac
"""
USUAL = {"VERSION": "3.11.7", "VENV": "yes", "CPU_INDEX": "yes", "GPU": "no", "FAILURE": "nothing fails"}
TOOLS = ["bash", "sh", "dirname", "pwd", "cat", "cksum", "head", "grep", "timeout", "df", "awk", "make", "mkdir", "cp"]
CPU_BUILD = "--extra-index-url https://download.pytorch.org/whl/cpu torch"


@pytest.fixture
def machine(tmp_path):
    """A folder with the course's installer, and a PATH whose Python and nvidia-smi are fakes."""
    for name in ["scripts", "Makefile", "pyproject.toml", "constraints.txt"]:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in TOOLS:
        (tools / tool).symlink_to(shutil.which(tool))
    write_tool(tools / "python3", FAKE_PYTHON)
    write_tool(tools / "nvidia-smi", '#!/bin/sh\n[ "$FAKE_GPU" = yes ] && echo "GPU 0: a GPU"\n')
    write_tool(tools / "uname", "#!/bin/sh\necho Linux\n")
    return tmp_path


def write_tool(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def make(machine: Path, *arguments: str, **fakes: str) -> subprocess.CompletedProcess:
    facts = {f"FAKE_{name}": value for name, value in (USUAL | fakes).items()}
    environment = {"PATH": str(machine / "bin"), "HOME": str(machine)} | facts
    return subprocess.run(["make", *arguments], cwd=machine, env=environment, capture_output=True, text=True)


def setup(machine: Path, **fakes: str) -> subprocess.CompletedProcess:
    return make(machine, "setup", **fakes)


def installed(machine: Path) -> list[str]:
    """The arguments of each `pip install`, without what is common to all."""
    log = machine / "pip.log"
    lines = log.read_text().splitlines() if log.exists() else []
    return [line.partition("-c constraints.txt ")[2] for line in lines]


def test_a_machine_without_a_gpu_gets_the_cpu_build(machine):
    assert setup(machine).returncode == 0
    assert installed(machine) == [CPU_BUILD, "-e .[dev]"]


def test_a_machine_with_a_gpu_gets_the_usual_build(machine):
    setup(machine, GPU="yes")
    assert installed(machine) == ["torch", "-e .[dev]"]


def test_where_the_cpu_index_does_not_answer_the_usual_build_is_taken(machine):
    setup(machine, CPU_INDEX="no")
    assert installed(machine) == ["torch", "-e .[dev]"]


def test_where_the_cpu_build_does_not_arrive_the_usual_build_is_taken(machine):
    assert setup(machine, FAILURE="--extra-index-url").returncode == 0
    assert installed(machine) == [CPU_BUILD, "torch", "-e .[dev]"]


def test_a_second_call_installs_and_says_nothing(machine):
    setup(machine)
    before = installed(machine)
    again = setup(machine)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    assert installed(machine) == before


@pytest.mark.parametrize("file", ["constraints.txt", "pyproject.toml"])
def test_changed_versions_are_installed(machine, file):
    setup(machine)
    with (machine / file).open("a") as text:
        text.write("# changed\n")
    setup(machine)
    assert installed(machine) == [CPU_BUILD, "-e .[dev]"] * 2


def test_a_moved_folder_gets_a_new_environment(machine):
    setup(machine)
    moved = machine.with_name(f"{machine.name}-moved")
    os.rename(machine, moved)
    assert "Making .venv" in setup(moved).stdout


def test_a_failed_download_says_what_to_do_and_the_next_call_goes_on(machine):
    failed = setup(machine, FAILURE="-e .[dev]")
    assert failed.returncode != 0
    assert [word for word in ("same command again", "HTTPS_PROXY", "Disk full") if word not in failed.stderr] == []
    again = setup(machine)
    assert again.returncode == 0
    assert "Making .venv" not in again.stdout


def test_an_unsuitable_python_is_named_with_the_next_step(machine):
    failed = setup(machine, VERSION="3.9.2")
    assert failed.returncode != 0
    assert "needs Python 3.11, 3.12 or 3.13, and python3 is Python 3.9.2" in failed.stderr
    assert "make setup PYTHON=" in failed.stderr
    assert installed(machine) == []


def test_without_python_the_next_step_is_said(machine):
    (machine / "bin" / "python3").unlink()
    assert "python3 is not there. Install one of them:" in setup(machine).stderr


def test_a_missing_venv_module_names_its_package(machine):
    failed = setup(machine, VENV="no")
    assert failed.returncode != 0
    assert "sudo apt-get install python3.11-venv" in failed.stderr


def test_every_target_has_a_line_of_help():
    lines = subprocess.check_output(["make", "--no-print-directory"], cwd=ROOT, text=True).splitlines()
    listed = [line.split()[1] for line in lines]
    wanted = "help setup lab update build check test test-fast test-all mistakes chapter slides clean"
    assert listed == wanted.split()


@pytest.mark.parametrize("target", ["chapter", "slides"])
def test_a_target_without_its_name_says_how_to_give_it_before_it_does_anything(machine, target):
    assert f"make {target} name=ch" in make(machine, target).stderr
    assert installed(machine) == []
