"""The `coursekit` command: help with examples, and errors that name the next step."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from coursekit.author.scaffold import FOLDERS, new_chapter
from coursekit.basics.errors import CommandError, existing_chapter
from coursekit.cli import app
from coursekit.machine import copies, lab
from coursekit.machine.facts import Facts, port_is_free

ROOT = Path(__file__).parents[1]
COMMANDS = ["build", "lab", "update", "doctor", "progress", "chapter", "slides", "grade", "report", "class", "release"]
COMMANDS += ["collect", "grades", "similar", "translate"]

pytestmark = pytest.mark.slow  # most start the command line as a user does


def coursekit(*arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess:
    """Return what the command did in a folder: `returncode`, `stdout`, `stderr`."""
    command = [sys.executable, "-m", "coursekit.cli", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL)


@pytest.fixture
def course(tmp_path):
    """A course without chapters: the package and the templates."""
    shutil.copytree(ROOT / "coursekit", tmp_path / "coursekit", ignore=shutil.ignore_patterns("__pycache__", "ch*.py"))
    for folder, ending in FOLDERS.items():
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / folder / f"_template{ending}", tmp_path / folder)
    return tmp_path


@pytest.mark.parametrize("command", [*COMMANDS, "capstone run", "capstone board", "capstone class"])
def test_every_help_shows_an_example(command):
    shown = CliRunner().invoke(app, [*command.split(), "--help"])
    assert shown.exit_code == 0
    assert f"Example: coursekit {command}" in shown.output


def test_the_help_lists_every_command():
    output = CliRunner().invoke(app, ["--help"]).output
    assert [command for command in COMMANDS if f" {command} " not in output] == []


ASCII = {"PYTHONIOENCODING": "ascii"}
LATIN_1 = {"PYTHONIOENCODING": "latin-1"}
C = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}  # of which Python makes UTF-8 by default


@pytest.mark.parametrize(
    ("encoding", "command", "shown"),
    [(LATIN_1, "doctor", "+ Python "), (ASCII, "progress", "Chapter 0 - "), (C, "grade --help", "Grade a class")],
)
def test_a_terminal_of_any_encoding_shows_the_nearest_characters(encoding, command, shown, tmp_path):
    (tmp_path / "notebooks").symlink_to(ROOT / "notebooks")
    (tmp_path / "work/.course").mkdir(parents=True)  # where no language is chosen
    line = [sys.executable, "-m", "coursekit.cli", *command.split()]
    environment = os.environ | encoding | {"PYTHONPATH": str(ROOT)}
    said = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, encoding="latin-1")
    assert shown in said.stdout
    assert said.stderr == ""


@pytest.mark.parametrize("command", ["lab", "update", "progress"])
def test_installed_without_its_folder_it_says_where_to_go(course, command):
    said = coursekit(command, folder=course)
    assert (said.returncode, said.stderr.count("\n")) == (1, 1)
    assert f"no notebooks in {course / 'notebooks'}: coursekit works from the course's own folder" in said.stderr
    assert "`make lab`" in said.stderr


def test_an_unknown_command_names_the_near_one():
    result = coursekit("docter")
    assert result.returncode == 2
    assert "doctor" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_new_chapter_is_written_then_stale_then_built_then_fresh(course):
    written = coursekit("chapter", "ch42_topic", folder=course)
    assert written.returncode == 0
    assert all((course / folder / f"ch42_topic{ending}").exists() for folder, ending in FOLDERS.items())
    assert "CHAPTER" not in (course / "chapters" / "ch42_topic.py").read_text()
    stale = coursekit("build", "--check", folder=course)
    assert stale.returncode == 1
    assert "notebooks/ch42_topic.ipynb" in stale.stdout
    assert "Run `make build`" in stale.stderr
    assert coursekit("build", folder=course).returncode == 0
    assert coursekit("build", "--check", folder=course).returncode == 0


@pytest.mark.parametrize("name", ["ch1_topic", "topic", "ch01-topic", "ch01_Topic", "../ch01_topic", "ch01_"])
def test_a_bad_chapter_name_is_refused_with_a_good_one(course, name):
    with pytest.raises(CommandError, match=r"ch00_topic$"):
        new_chapter(name, course)


def test_a_chapter_is_never_overwritten(course):
    new_chapter("ch42_topic", course)
    (course / "chapters" / "ch42_topic.py").write_text("mine")
    with pytest.raises(CommandError, match="ch42 is taken by ch42_topic. The next free name: ch43_topic"):
        new_chapter("ch42_topic", course)
    assert (course / "chapters" / "ch42_topic.py").read_text() == "mine"


def test_nothing_is_written_when_one_of_the_files_exists(course):
    (course / "img" / "ch42_topic.svg").write_text("mine")
    with pytest.raises(CommandError, match=r"img/ch42_topic.svg already exists"):
        new_chapter("ch42_topic", course)
    assert not (course / "chapters" / "ch42_topic.py").exists()


def test_an_unknown_chapter_names_the_near_ones(course):
    new_chapter("ch42_topic", course)
    new_chapter("ch43_other", course)
    for name in ["ch42", "ch42_topics"]:
        with pytest.raises(CommandError, match=rf"no chapter '{name}'. Did you mean ch42_topic\?"):
            existing_chapter(name, course)
    with pytest.raises(CommandError, match="There are: ch42_topic, ch43_other"):
        existing_chapter("zzz", course)


def test_slides_of_an_unknown_chapter_end_without_a_traceback():
    result = coursekit("slides", "ch00_strat")
    assert result.returncode == 1
    assert "Did you mean ch00_start" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_mistake_in_a_chapter_is_said_with_file_and_line(course):
    new_chapter("ch42_topic", course)
    chapter = course / "chapters" / "ch42_topic.py"
    chapter.write_text(chapter.read_text().replace("### END SOLUTION", "", 1))
    result = coursekit("build", folder=course)
    assert result.returncode == 1
    assert "chapters/ch42_topic.py:" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_busy_port_is_refused_with_the_next_step():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        with pytest.raises(CommandError, match=f"Port {port} is in use.*make lab PORT={port + 1}"):
            lab.choose_port(port)


def test_without_a_wish_the_port_is_the_first_free_one():
    assert port_is_free(lab.choose_port(None))


def test_a_container_opens_no_browser_and_extra_arguments_come_last():
    assert lab.why_no_browser(Facts(container="Docker")) == "inside a Docker container"
    command = lab.jupyter_command(8890, Facts(container="Docker"), ["--ip=::1"])
    assert "--no-browser" in command
    assert "--ServerApp.port=8890" in command
    assert [argument for argument in command if "ip=" in argument] == command[-1:] == ["--ip=::1"]


@pytest.mark.parametrize(
    ("line", "port", "extra"),
    [
        ("--port 8890 --ip=0.0.0.0", 8890, ["--ip=0.0.0.0"]),
        ("--port 8890 --port 8899 --no-browser", 8899, ["--no-browser"]),  # make lab PORT=8890 ARGS="--port 8899 …"
        ("-- --LabApp.watch=True", None, ["--LabApp.watch=True"]),
    ],
)
def test_lab_takes_jupyterlabs_options_and_the_last_port(monkeypatch, line, port, extra):
    started = []
    monkeypatch.setattr(lab, "start", lambda facts, *how: started.append(how))
    monkeypatch.setattr(copies, "fill", lambda root: [])
    assert CliRunner().invoke(app, ["lab", *line.split()]).exit_code == 0
    assert started == [(port, extra, ROOT)]
