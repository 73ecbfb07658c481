"""What an instructor hands out: a ready nbgrader course, and a zip for learners without solutions."""

import base64
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from coursekit.course import CommandError, chapter_names
from coursekit.paths import ROOT, SOLUTIONS, path_with_scripts

PICTURE = re.compile(r"\]\(\.\./img/([\w.-]+)\)")
FOR_LEARNERS = {
    ".devcontainer",
    ".gitignore",
    "CHANGELOG.md",
    "LICENSE",
    "LICENSE-TEXT",
    "Makefile",
    "README.md",
    "constraints.txt",
    "coursekit",
    "docs",
    "environment.yml",
    "img",
    "notebooks",
    "pyproject.toml",
    "scripts",
}
CONFIG = """
# The course's own settings go below; nbgrader's manual lists them.
config.CourseDirectory.course_id = "ray_rl"
"""


def release(folder: Path) -> list[Path]:
    """Write an nbgrader course into an empty folder, one assignment a chapter, and the learners' zip; return what was written."""
    if folder.exists() and any(folder.iterdir()):
        raise CommandError(f"{folder} is not empty. Name a folder that does not exist yet: coursekit release course")
    folder.mkdir(parents=True, exist_ok=True)
    archive = write_zip(folder / "learners.zip")
    config = (ROOT / "coursekit/author/nbgrader_config.py").read_text(encoding="utf-8")
    (folder / "nbgrader_config.py").write_text(
        config + "    " + CONFIG.strip().replace("\n", "\n    ") + "\n", encoding="utf-8"
    )
    written = [folder / "nbgrader_config.py"]
    for chapter in chapter_names():
        target = folder / "source" / chapter / f"{chapter}.ipynb"
        target.parent.mkdir(parents=True)
        target.write_text(nbformat.writes(with_pictures(SOLUTIONS / f"{chapter}.ipynb")), encoding="utf-8")
        _nbgrader(folder, "generate_assignment", chapter)
        written += [target, folder / "release" / chapter / target.name]
    (folder / "submitted").mkdir()
    return [*written, folder / "gradebook.db", archive]


def with_pictures(path: Path) -> NotebookNode:
    """Return a notebook whose pictures lie inside it, so that it can be handed out alone."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        names = PICTURE.findall(cell.source) if cell.cell_type == "markdown" else []
        if names:
            cell.source = PICTURE.sub(r"](attachment:\1)", cell.source)
            cell.attachments = {name: {"image/svg+xml": _base64(ROOT / "img" / name)} for name in names}
    return notebook


def write_zip(path: Path) -> Path:
    """Write the project as learners get it: all that `make lab` needs, no solutions, no answers, no attacks."""
    names = _tracked() if (ROOT / ".git").exists() else _found()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(names):
            if name.split("/")[0] in FOR_LEARNERS and (ROOT / name).is_file():
                archive.write(ROOT / name, f"ray-rl-course/{name}")
    return path


def _tracked() -> list[str]:
    """Return the files of the project as git knows them; raises CommandError where git does not say."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
        reason = "" if listed.stdout else listed.stderr.strip() or "it knows no file there"
    except OSError as error:
        reason = f"git cannot be started: {error.strerror}"
    if reason:
        raise CommandError(
            f"The learners' zip needs git to tell which files of {ROOT} belong to the project, and git fails:\n{reason}\n"
            "Put that right; then the same command again."
        )
    return listed.stdout.split("\0")


def _found() -> list[str]:
    """Return the files that may be for learners, where the project is no git checkout."""
    files = [file for top in FOR_LEARNERS for file in [ROOT / top, *(ROOT / top).rglob("*")]]
    names = [file.relative_to(ROOT) for file in files]
    return [str(name) for name in names if not any(part.startswith((".", "__pycache__")) for part in name.parts[1:])]


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def _nbgrader(folder: Path, *arguments: str) -> None:
    env = os.environ | {"PATH": path_with_scripts()}
    command = [sys.executable, "-m", "nbgrader", *arguments]
    run = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    if run.returncode:
        shutil.rmtree(folder / "release", ignore_errors=True)
        raise CommandError(f"nbgrader {' '.join(arguments)} failed in {folder}:\n{run.stderr[-2000:]}")
