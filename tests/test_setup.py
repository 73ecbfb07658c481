"""`make setup` on made-up machines: a fake Python and a fake uv note what they are asked to install."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # each runs scripts
ROOT = Path(__file__).parents[1]
FAKE_PYTHON = """#!/bin/sh
case "$*" in
    --version) echo "Python $FAKE_VERSION" ;;
    *version_info\\[:2\\]*) [ "$FAKE_VERSION" = 3.11.7 ] ;;
    *ensurepip*) [ "$FAKE_VENV" = yes ] ;;
    *urlopen*) [ "$FAKE_CPU_INDEX" = yes ] ;;
    *"-m venv"*)
        mkdir -p .venv/bin && cp "$0" .venv/bin/python && echo "#!$PWD/.venv/bin/python" >.venv/bin/pip ;;
    *"pip config list"*) cat pip-settings 2>/dev/null ;;
    *"pip install"*" uv") [ "$FAKE_UV_ON_PYPI" = yes ] && cp fake-uv .venv/bin/uv ;;
    *"-m pip"*) echo "pip: $*" >>log && case "$*" in *"$FAKE_FAILURE"*) exit 1 ;; esac ;;
esac
"""
FAKE_UV = """#!/bin/sh
case "$*" in
    *"pip install"*) echo "uv: $*" >>log && env | grep -E "^(UV_|SSL_)" >uv-settings
        case "$*" in *"$FAKE_FAILURE"*) exit 1 ;; esac ;;
esac
"""
USUAL = {
    "VERSION": "3.11.7",
    "VENV": "yes",
    "CPU_INDEX": "yes",
    "GPU": "no",
    "UV_ON_PYPI": "yes",
    "FAILURE": "nothing fails",
}
TOOLS = ["bash", "sh", "dirname", "pwd", "cat", "cksum", "head", "grep", "timeout", "df", "awk", "make", "mkdir", "cp"]
TOOLS += ["sed", "tr", "env"]
BY_UV = "uv: -e .[dev]"
FITTING = "uv: --torch-backend auto -e .[dev]"
CPU_BUILD = "pip: --extra-index-url https://download.pytorch.org/whl/cpu torch"


@pytest.fixture
def machine(tmp_path):
    """A folder with the course's installer, and a PATH whose Python, uv and nvidia-smi are fakes."""
    for name in ["scripts", "Makefile", "pyproject.toml", "constraints.txt"]:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in TOOLS:
        (tools / tool).symlink_to(shutil.which(tool))
    write_tool(tools / "python3", FAKE_PYTHON)
    write_tool(tools / "uv", FAKE_UV)
    write_tool(tmp_path / "fake-uv", FAKE_UV)
    write_tool(tools / "nvidia-smi", '#!/bin/sh\n[ "$FAKE_GPU" = yes ] && echo "GPU 0: a GPU"\n')
    write_tool(tools / "uname", "#!/bin/sh\necho Linux\n")
    return tmp_path


@pytest.fixture
def without_uv(machine):
    (machine / "bin" / "uv").unlink()
    return machine


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
    """Who installed and with which arguments, without what is common to all."""
    log = machine / "log"
    lines = log.read_text().splitlines() if log.exists() else []
    return [line.partition(":")[0] + ": " + line.partition("-c constraints.txt ")[2] for line in lines]


def handed_on(machine: Path) -> dict[str, str]:
    """What uv was told in its environment."""
    return dict(line.split("=", 1) for line in (machine / "uv-settings").read_text().splitlines())


def test_uv_installs_the_build_of_pytorch_that_fits_the_machine(machine):
    assert setup(machine).returncode == 0
    assert installed(machine) == [FITTING]


def test_uv_installs_into_the_environment_of_the_course_and_compiles_once_for_all(machine):
    setup(machine)
    assert "pip install --python .venv/bin/python --compile-bytecode" in (machine / "log").read_text()


def test_a_machine_without_uv_gets_one_in_its_environment(without_uv):
    assert setup(without_uv).returncode == 0
    assert (without_uv / ".venv/bin/uv").exists()
    assert installed(without_uv) == [FITTING]


def test_where_the_index_of_pytorch_does_not_answer_uv_takes_the_usual_build(machine):
    setup(machine, CPU_INDEX="no")
    assert installed(machine) == [BY_UV]


def test_where_the_fitting_build_does_not_arrive_uv_takes_the_usual_build(machine):
    assert setup(machine, FAILURE="--torch-backend").returncode == 0
    assert installed(machine) == [FITTING, BY_UV]


def test_on_a_mac_uv_takes_the_usual_build(machine):
    write_tool(machine / "bin" / "uname", "#!/bin/sh\necho Darwin\n")
    setup(machine)
    assert installed(machine) == [BY_UV]


def test_uv_is_told_what_pip_is_told(machine):
    (machine / "pip-settings").write_text(
        "global.cert='/etc/ca.crt'\nglobal.extra-index-url='\\nhttps://one/simple\\nhttps://two/simple'\n"
        "global.find-links='/wheels /more'\nglobal.index-url='https://mirror/simple'\n"
    )
    setup(machine)
    assert handed_on(machine) == {
        "SSL_CERT_FILE": "/etc/ca.crt",
        "UV_DEFAULT_INDEX": "https://mirror/simple",
        "UV_FIND_LINKS": "/wheels,/more",
        "UV_INDEX": "https://one/simple https://two/simple",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }


def test_of_the_settings_of_pip_the_nearest_counts(machine):
    levels = ["global.find-links='/far'", "install.find-links='/nearer'", ":env:.find-links='/nearest'"]
    for number, nearest in enumerate(["/far", "/nearer", "/nearest"], start=1):
        (machine / "pip-settings").write_text("\n".join(levels[:number]))
        (machine / ".venv" / ".installed").unlink(missing_ok=True)
        setup(machine)
        assert handed_on(machine) == {"UV_FIND_LINKS": nearest}


def test_without_settings_of_pip_uv_keeps_its_own(machine):
    setup(machine)
    assert handed_on(machine) == {}


def test_where_uv_cannot_be_had_pip_installs_the_cpu_build(without_uv):
    assert setup(without_uv, UV_ON_PYPI="no").returncode == 0
    assert installed(without_uv) == [CPU_BUILD, "pip: -e .[dev]"]


def test_pip_installs_where_it_is_asked_for(machine):
    assert make(machine, "setup", "INSTALLER=pip").returncode == 0
    assert installed(machine) == [CPU_BUILD, "pip: -e .[dev]"]


@pytest.mark.parametrize("fakes", [{"GPU": "yes"}, {"CPU_INDEX": "no"}])
def test_with_a_gpu_or_without_the_cpu_index_pip_takes_the_usual_build(without_uv, fakes):
    setup(without_uv, UV_ON_PYPI="no", **fakes)
    assert installed(without_uv) == ["pip: torch", "pip: -e .[dev]"]


def test_where_the_cpu_build_does_not_arrive_pip_takes_the_usual_build(without_uv):
    assert setup(without_uv, UV_ON_PYPI="no", FAILURE="--extra-index-url").returncode == 0
    assert installed(without_uv) == [CPU_BUILD, "pip: torch", "pip: -e .[dev]"]


def test_only_a_setup_by_itself_names_the_next_command(machine):
    assert " s. Next: make lab\n" in setup(machine).stdout
    shutil.rmtree(machine / ".venv")
    assert "Next:" not in make(machine, "update").stdout


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
    assert installed(machine) == [FITTING] * 2


def test_a_moved_folder_gets_a_new_environment(machine):
    setup(machine)
    moved = machine.with_name(f"{machine.name}-moved")
    os.rename(machine, moved)
    assert "Making .venv" in setup(moved).stdout


def test_a_failed_download_says_what_to_do_and_the_next_call_goes_on(machine):
    failed = setup(machine, FAILURE="-e .[dev]")
    assert failed.returncode != 0
    steps = ["same command again", "HTTPS_PROXY", "disk is full", "make setup INSTALLER=pip"]
    assert [step for step in steps if step not in failed.stderr] == []
    again = setup(machine)
    assert again.returncode == 0
    assert "Making .venv" not in again.stdout


def test_an_unsuitable_python_is_named_with_the_next_step(machine):
    failed = setup(machine, VERSION="3.9.2")
    assert failed.returncode != 0
    assert "needs Python 3.11, 3.12 or 3.13, and python3 is Python 3.9.2" in failed.stderr
    assert "make setup PYTHON=/path" in failed.stderr
    assert "with uv (untested): uv python install 3.13" in failed.stderr
    assert installed(machine) == []


def test_without_python_the_next_step_is_said(machine):
    (machine / "bin" / "python3").unlink()
    assert "python3 is not there. Install one of them:" in setup(machine).stderr


def test_a_python_is_chosen_by_its_version(machine):
    (machine / "bin" / "python3").rename(machine / "bin" / "python3.12")
    assert make(machine, "setup", "PYTHON=3.12").returncode == 0
    assert installed(machine) == [FITTING]


def test_a_missing_venv_module_names_its_package(machine):
    failed = setup(machine, VENV="no")
    assert failed.returncode != 0
    assert "sudo apt-get install python3.11-venv" in failed.stderr


def test_every_target_has_a_line_of_help():
    lines = subprocess.check_output(["make", "--no-print-directory"], cwd=ROOT, text=True).splitlines()
    listed = [line.split()[1] for line in lines]
    wanted = "help setup lab update doctor progress review build check test test-fast test-rest test-all mistakes curves canary chapter benchmarks constraints slides record site clean"
    assert listed == wanted.split()


@pytest.mark.parametrize("target", ["chapter", "slides"])
def test_a_target_without_its_name_says_how_to_give_it_before_it_does_anything(machine, target):
    assert f"make {target} name=ch" in make(machine, target).stderr
    assert installed(machine) == []
