"""The course's web site as `make site` builds it, and a browser for those who look at several of its pages."""

import functools
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from coursekit.author import site
from coursekit.basics.paths import ROOT
from tests.browser import chromium

REPOSITORY = "https://github.com/owner/course"


@functools.cache
def make_site() -> tuple[Path, float]:
    """Return the folder of the site and the CPU seconds of `make site`, for a repository whose address is known."""
    env = os.environ | {"SOLUTIONS": "1", "REPOSITORY": REPOSITORY}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(["make", "site"], cwd=ROOT, env=env, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return site.BUILT, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.fixture(name="built", scope="module")
def built_site() -> Path:
    return make_site()[0]


@pytest.fixture(name="browser", scope="module")
def a_browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found
