"""Puts the course into the wheel: coursekit/course/ gets what lies beside the package in a checkout. pyproject.toml has the rest."""

import shutil
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

from coursekit.basics.course_files import IN_WHEEL, for_learners, found  # noqa: E402


class WithCourse(build_py):
    """Builds the package, and copies the course into it; an editable installation uses the checkout as it is."""

    def run(self) -> None:
        """Build into an empty folder, so that nothing of an earlier build gets into the wheel."""
        if self.editable_mode:
            super().run()
            return
        if not (ROOT / "notebooks").is_dir():
            raise SystemExit("There are no notebooks here. Build the wheel in a checkout: uv build --wheel")
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        for name in found(ROOT, IN_WHEEL):
            copy = Path(self.build_lib, "coursekit/course", name)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(for_learners(ROOT, name))


setup(cmdclass={"build_py": WithCourse})
