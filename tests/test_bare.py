"""What backs a chapter imports by itself all that it needs."""

import subprocess
import sys

import pytest

from coursekit.basics.paths import ROOT
from tests.chapters import CHAPTERS


@pytest.fixture(scope="module")
def errors(request: pytest.FixtureRequest) -> dict[str, str]:
    """Return what went wrong where the modules of each chapter that is tested were imported in a bare process."""
    tests = [item for item in request.session.items if item.name.startswith("test_what_backs_a_chapter")]
    chapters = [item.callspec.params["chapter"] for item in tests]  # type: ignore[attr-defined]
    said = subprocess.check_output([sys.executable, "-m", "tests.bare", *chapters], cwd=ROOT, text=True)
    return {chapter: text for chapter, _, text in (line.partition(" ") for line in said.splitlines())}


@pytest.mark.slow
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_what_backs_a_chapter_imports_all_that_it_needs(chapter, errors):
    """In bare processes: the copies of one that has imported everything, which other tests use, would not miss an import."""
    assert errors[chapter] == ""
