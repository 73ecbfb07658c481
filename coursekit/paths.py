"""Where the course lies: the folder that holds chapters/, notebooks/, solutions/ and img/."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"
SOLUTIONS = ROOT / "solutions"
