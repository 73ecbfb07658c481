"""What another Ray or another Python breaks: `make canary RAY=2.59.0`, `make canary PYTHON=3.13`, or both.

The environment in .canary/ is kept and used again; the tables are kept in docs/ray_versions.md.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from coursekit.basics.paths import ROOT

PAGE = ROOT / "docs/ray_versions.md"
CANARY = ["-m", "canary", "tests/test_notebooks.py", "tests/test_answers.py"]  # the solved notebooks, the right answers
COMPILE = [
    "pip",
    "compile",
    "--quiet",
    "--universal",
    "--python-version",
    "3.11",
    "--extra",
    "dev",
    "--no-annotate",
    "pyproject.toml",
    "-o",
]
COLOUR = re.compile(r"(?:#x1B|\x1b)\[[\d;]*m")  # as a JUnit report writes it
OF_A_PYTHON = {"fast tests": ["-m", "fast"], "sandbox": ["tests/test_sandbox.py"]}


@dataclass(frozen=True)
class Environment:
    """One Ray on one Python, in a folder of its own."""

    python: str
    ray: str

    def __str__(self) -> str:
        return f"Ray {self.ray}, Python {self.python}"

    @property
    def folder(self) -> Path:
        return ROOT / ".canary" / f"ray{self.ray}-python{self.python}"

    def make(self) -> None:
        """Install everything into the folder; where it is in place, this does nothing."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "ray.txt").write_text(with_ray(self.ray) + "\n")
        here = self.folder.relative_to(ROOT)
        settings = {"UV_OVERRIDE": f"{here}/ray.txt", "VENV": f"{here}/venv", "CONSTRAINTS": f"{here}/constraints.txt"}
        environment = os.environ | settings | {"PYTHON": self.python}
        self._resolve(environment)
        subprocess.run(["bash", "scripts/setup.sh"], cwd=ROOT, env=environment, check=True)

    def _resolve(self, environment: dict[str, str]) -> None:
        """Write the exact versions: those of constraints.txt, except where this Ray asks for others."""
        usual, own, new = ROOT / "constraints.txt", self.folder / "constraints.txt", self.folder / "constraints.new"
        if own.exists() and own.stat().st_mtime > usual.stat().st_mtime:
            return
        shutil.copy(usual, new)
        command = ["bash", "scripts/uv.sh", sys.executable, *COMPILE, str(new)]
        subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
        new.replace(own)


def declared_ray() -> str:
    """Return the course's line for Ray, with its extras and its range."""
    lines = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    return next(line for line in lines if line.startswith("ray["))


def with_ray(version: str) -> str:
    """Return the line that puts this Ray in the place of the declared range."""
    return declared_ray().partition("]")[0] + f"]=={version}"


def usual_ray() -> str:
    """Return the exact version that the course is tested with."""
    found = re.search(r"^ray==(\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert found
    return found[1]


@dataclass(frozen=True)
class Case:
    """One test: the row it belongs to, and why it failed, "" where it passed."""

    row: str
    failure: str


def cases(report: Path, row: str = "") -> list[Case]:
    """Return the tests of a JUnit report; without a row, each belongs to the chapter in its name."""
    found = []
    for test in ET.parse(report).iter("testcase"):
        chapter = re.search(r"ch\d\d_[a-z_]+", test.get("name", ""))
        trouble = next((child for child in test if child.tag in ("failure", "error")), None)
        found.append(Case(row or (chapter[0] if chapter else "all"), "" if trouble is None else reason(trouble)))
    return found


def reason(trouble: ET.Element) -> str:
    """Return the first error of Python in what a test says of its failure, or else the line with which that begins."""
    said = COLOUR.sub("", "\n".join([trouble.get("message", ""), trouble.text or ""]))
    error = re.search(r"\b(?!Assertion|CellExecution)\w*(?:Error|Exception|Warning)\b: [^\n]+", said)
    line = error[0] if error else re.sub(r"^(AssertionError:|assert\b|\s)+", "", said).partition("\n")[0]
    return re.sub(r"\\n.*", "", line)[:160].replace("|", "\\|").replace("`", "'")


def table(found: Iterable[Case]) -> str:
    """Return how many tests passed and what broke: chapters in which all passed share the first row."""
    rows: dict[str, list[str]] = {}
    for case in found:
        rows.setdefault(case.row, []).append(case.failure)
    whole = [row for row, failures in rows.items() if row.startswith("ch") and not any(failures)]
    if len(whole) > 1:
        rows = {f"{len(whole)} chapters": [failure for row in whole for failure in rows.pop(row)]} | rows
    lines = [
        f"| {row} | {failures.count('')} of {len(failures)} | {broken(failures)} |" for row, failures in rows.items()
    ]
    return "\n".join(["| what ran | passed | what broke |", "|---|---|---|", *lines])


def broken(failures: list[str]) -> str:
    """Return each reason once, as code."""
    return "; ".join(f"`{failure}`" for failure in dict.fromkeys(filter(None, failures))) or "–"


def kept(page: str, title: str, text: str) -> str:
    """Return the page with the text between the two marks of this title, which come last where the page lacks them."""
    begin, end = f"<!-- table: {title} -->", f"<!-- end of table: {title} -->"
    before, found, rest = page.partition(begin)
    after = rest.partition(end)[2] if found else "\n"
    return f"{before if found else page.rstrip() + chr(10) * 2}{begin}\n\n{text}\n\n{end}{after}"


def outcome(environment: Environment, row: str, selection: list[str]) -> list[Case]:
    """Run tests in an environment and return what came of them."""
    report = environment.folder / f"{row or 'chapters'}.xml"
    report.unlink(missing_ok=True)
    command = [environment.folder / "venv/bin/python", "-m", "pytest", "-n", "2", "--no-loadscope-reorder", "-q"]
    subprocess.run([*command, f"--junitxml={report}", *selection], cwd=ROOT, env=os.environ | {"COURSEKIT_QUICK": "1"})
    return cases(report, row)


def main() -> None:
    """Run what was asked for, print the table, and keep that of a whole run."""
    parser = argparse.ArgumentParser(prog="make canary", description=__doc__)
    for option in ("ray", "python", "name"):
        parser.add_argument(f"--{option}", default="")
    asked = parser.parse_args()
    running = "{}.{}".format(*sys.version_info)
    environment = Environment(asked.python or running, asked.ray or usual_ray())
    environment.make()
    found = sorted(outcome(environment, "", CANARY + ["-k", asked.name] * bool(asked.name)), key=lambda case: case.row)
    for row, selection in OF_A_PYTHON.items() if asked.python and not asked.name else []:
        found += outcome(environment, row, selection)
    text = f"### {environment}: {date.today()}\n\n{table(found)}"
    print(f"\n{text}")
    if not asked.name:
        PAGE.write_text(kept(PAGE.read_text(), str(environment), text))


if __name__ == "__main__":
    main()
