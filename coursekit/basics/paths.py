"""Where the course lies: the folder that holds notebooks/, solutions/ and img/, in a checkout chapters/ and the learner's work/ too.

In a checkout it is the folder above the package. A wheel carries it in the package: setup.py puts it there.
"""

import os
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
CARRIED = PACKAGE / "course"  # hidden in a sandbox, like each folder of the package that sandbox/jail.py does not open
FROM_WHEEL = CARRIED.is_dir()
ROOT = CARRIED if FROM_WHEEL else PACKAGE.parent
NOTEBOOKS = ROOT / "notebooks"
SOLUTIONS = ROOT / "solutions"
STATIC = PACKAGE / "static"


def typed(name: str) -> str:
    """Return what a learner types for a command of the course: `make lab`, or `ray-rl-course lab` where a wheel carries it."""
    return f"{'ray-rl-course' if FROM_WHEEL else 'make'} {name}"


def path_with_scripts() -> str:
    """Return PATH with this Python's own commands first: nbgrader calls `alembic`, also where no environment is active."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
