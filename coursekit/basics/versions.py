"""Which versions of its packages the course was tested with, as its own metadata says it."""

import platform
import re
from importlib import metadata

from coursekit.basics.paths import FROM_WHEEL

DISTRIBUTION = "ray-rl-course"


def installed(name: str) -> str:
    """Return the version of a package that is installed, "" for none."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def in_words() -> str:
    """Return what a report of a mistake has to say of the versions, in a line."""
    named = {"Ray": installed("ray"), "Python": platform.python_version()}
    others = ", ".join(f"{name} {version}" for name, version in named.items())
    return f"The course {installed(DISTRIBUTION) or '(not installed)'}, {others}, {platform.system()}"


def install_tested() -> str:
    """Return the command that installs exactly the tested versions."""
    if not FROM_WHEEL:
        return "make setup"
    return f'uvx --torch-backend auto --from "ray_rl_course-{installed(DISTRIBUTION)}-py3-none-any.whl[tested]" ray-rl-course'


def others_than_tested() -> str:
    """Return a line on the packages that came with a wheel in other versions than the tested ones, "" for none."""
    if not FROM_WHEEL:
        return ""
    from packaging.requirements import Requirement

    lines = [Requirement(line) for line in metadata.requires(DISTRIBUTION) or [] if "extra ==" in line]
    here = [(one, installed(one.name)) for one in lines if one.marker and one.marker.evaluate({"extra": "tested"})]
    others = [
        f"{one.name} {version} (tested: {str(one.specifier).removeprefix('==')})"
        for one, version in here
        if version and version not in one.specifier
    ]
    if not others:
        return ""
    return (
        f"These packages are not in the versions that the course was tested with: {', '.join(others)}. "
        f"If something fails, take the tested versions: {install_tested()}"
    )


def tested_ranges() -> dict[str, str]:
    """Return the tested range of each package that the course needs, such as `>=2.60,<2.61`."""
    try:
        lines = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return {}
    matches = (re.match(r"([\w.-]+)(?:\[[^]]*])?\s*([^;]*)", line) for line in lines if "extra ==" not in line)
    return {match[1].lower(): match[2].strip() for match in matches if match}


def within(version: str, tested: str) -> bool:
    """Return whether a version lies in a range of `>=` and `<`, such as `>=2.60,<2.61`."""
    release = _release(version)
    bounds = [bound for bound in tested.split(",") if bound]
    return all((release < _release(b)) if b.startswith("<") else (release >= _release(b)) for b in bounds)


def untested_ray() -> str:
    """Return a line about the installed Ray where the course was tested with another, "" otherwise."""
    version, tested = installed("ray"), tested_ranges().get("ray", "")
    series = re.search(r">=([\d.]+)", tested)
    if not version or not series or within(version, tested):
        return ""
    return f"This is Ray {version}; the course was tested with {series[1]}, so a name or a result may differ."


def _release(text: str) -> tuple[int, ...]:
    """Return the numbers of `2.13.0+cpu` or `>=2.13` as (2, 13), so that 2.13 equals 2.13.0."""
    parts = text.lstrip("<>= ").split("+")[0].split(".")
    numbers = [int(part) for part in parts if part.isdigit()]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
