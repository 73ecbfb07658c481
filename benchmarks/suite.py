"""How long the tests take: a target of the Makefile, on a machine that does nothing else.

python benchmarks/suite.py test
python benchmarks/suite.py test name=ch05_faults
"""

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
OUTER = ("name", "MAKEFLAGS", "MFLAGS", "MAKELEVEL")  # what `make benchmarks name=suite` hands on to any make below it


def main() -> dict[str, str]:
    """Run make with the arguments, and return its seconds; raises SystemExit where it fails, since its time then says nothing."""
    command, began = ["make", *sys.argv[1:]], time.perf_counter()
    environment = {key: value for key, value in os.environ.items() if key not in OUTER}
    if subprocess.run(command, cwd=ROOT, env=environment).returncode:
        sys.exit(f"`{' '.join(command)}` failed, so there is no figure. Make it pass, and then run this again.")
    return {f"run `{' '.join(command)}`": f"{time.perf_counter() - began:.0f} s"}


if __name__ == "__main__":
    for claim, figure in main().items():
        print(f"| {claim} | {figure} |")
