"""What gets installed: environment.yml, constraints.txt and pyproject.toml agree."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
NAMED = {"jupyterlab", "ray", "gymnasium", "torch", "matplotlib", "nbgrader", "pytest"}
PYTHONS = ["3.11.2", "3.11.7", "3.12.1", "3.13.0"]  # 3.11.2 is Debian 12's
CONSTRAINTS = (ROOT / "constraints.txt").read_text().splitlines()


def exact_versions(python: str) -> dict[str, str]:
    """The version of each package on a Python, which has one at most."""
    versions: dict[str, str] = {}
    for one in (Requirement(line) for line in CONSTRAINTS if not line.startswith("#")):
        name, marker = canonicalize_name(one.name), one.marker
        if not marker or marker.evaluate({"python_full_version": python}):
            assert name not in versions
            versions[name] = str(one.specifier).removeprefix("==")
    return versions


def conda_dependencies() -> list:
    return yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]


def pip_lines() -> list[str]:
    return next(item["pip"] for item in conda_dependencies() if isinstance(item, dict))


def conda_requirements() -> dict[str, Requirement]:
    requirements = [Requirement(line) for line in pip_lines() if not line.startswith("-")]
    return {canonicalize_name(one.name): one for one in requirements}


def declared() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return project["dependencies"] + project["optional-dependencies"]["dev"]


def test_conda_names_the_seven_packages():
    assert set(conda_requirements()) == NAMED


def test_conda_asks_for_rllib():
    assert "rllib" in conda_requirements()["ray"].extras


def test_conda_versions_equal_the_tested_ones():
    asked = {name: str(requirement.specifier) for name, requirement in conda_requirements().items()}
    tested = exact_versions("3.11.7")
    assert asked == {name: f"=={tested[name]}" for name in NAMED}


def test_conda_installs_the_course_under_the_exact_versions_and_a_tested_python():
    assert {"-e .", "-c constraints.txt"} <= set(pip_lines())
    assert "python=3.11" in conda_dependencies()


@pytest.mark.parametrize("python", PYTHONS)
def test_the_declared_ranges_admit_the_exact_versions_on_every_python(python):
    versions = exact_versions(python)
    requirements = [Requirement(line) for line in declared()]
    assert [one for one in requirements if not one.specifier.contains(versions[canonicalize_name(one.name)])] == []


def test_every_constraint_is_one_exact_public_version():
    lines = [line for line in CONSTRAINTS if not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+( ; .+)?", line)] == []


def test_the_constraints_say_the_command_that_made_them_and_name_no_host():
    command = CONSTRAINTS[1].removeprefix("#    uv ")
    assert command.startswith("pip compile --universal")
    made = (ROOT / "Makefile").read_text().replace(" --quiet", "").replace(" $(ARGS)", "")
    assert command in made
    assert [line for line in CONSTRAINTS if "://" in line] == []


def test_the_devcontainer_sets_up_the_course_and_names_its_ports():
    text = (ROOT / ".devcontainer" / "devcontainer.json").read_text()
    container = yaml.safe_load(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
    assert container["postCreateCommand"] == "make update"
    assert set(map(str, container["forwardPorts"])) == set(container["portsAttributes"]) == {"8888", "8265"}


def test_the_extra_for_learners_has_all_exact_versions_but_those_for_authors_and_for_gpus():
    """What the course's own packages need, is in it; what PyTorch's build for GPUs brings, PyTorch pins itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    tested = project["optional-dependencies"]["tested"]
    assert set(tested) < set(CONSTRAINTS)
    pinned = {canonicalize_name(Requirement(line).name) for line in tested}
    every = {canonicalize_name(Requirement(line).name) for line in CONSTRAINTS if not line.startswith("#")}
    of_authors = needed(project["optional-dependencies"]["dev"]) - needed(project["dependencies"])
    left_out = {name for name in every - pinned if not name.startswith(("nvidia-", "cuda-", "triton"))}
    assert left_out == of_authors & every


def needed(lines: list[str]) -> set[str]:
    """Return the packages that requirements bring along in this environment, by what their own metadata says."""
    found: dict[tuple[str, frozenset[str]], None] = {}
    todo = [Requirement(line) for line in lines]
    while todo:
        one = todo.pop()
        if (key := (canonicalize_name(one.name), frozenset(one.extras))) not in found:
            found[key] = None
            theirs = map(Requirement, metadata.requires(one.name) or [])
            extras = one.extras or {""}
            todo += [
                each for each in theirs if not each.marker or any(each.marker.evaluate({"extra": e}) for e in extras)
            ]
    return {name for name, _ in found}
