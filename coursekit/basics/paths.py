"""Where the course lies: the folder that holds chapters/, notebooks/, solutions/ and img/, and the learner's own work/."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"
SOLUTIONS = ROOT / "solutions"
STATIC = ROOT / "coursekit" / "static"


def path_with_scripts() -> str:
    """Return PATH with this Python's own commands first: nbgrader calls `alembic`, also where no environment is active."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
