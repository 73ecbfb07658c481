"""A class that is graded without a sandbox, as if every cell ran without an error, and the smallest notebook to grade."""

import functools
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_notebook
from nbgrader import api

from coursekit.sandbox.sandbox import CellOutcome, SandboxDied
from tests.nbgrader_cells import KERNEL, answer, locked

VERSION = functools.cache(api.get_alembic_version)  # a program starts for it, which takes a second


def cells(points: int = 2) -> nbformat.NotebookNode:
    """Return an instructor's notebook: an answer, and a test of it."""
    return new_notebook(
        cells=[answer("x = 1", "answer_x"), locked("x", "assert x == 1", points=points)],
        metadata={"kernelspec": KERNEL},
    )


def write(path: Path, document: nbformat.NotebookNode | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(nbformat.writes(document or cells()))
    return path


class Box:
    """Takes the place of a sandbox: every cell runs without an error; one with `lost` in it ends with the nursery, `left` times."""

    left = 10**6

    def run(self, source: str, seconds: float | None = None) -> CellOutcome:
        if "lost" in source and Box.left:
            Box.left -= 1
            raise SandboxDied("was ended")
        return CellOutcome("ok", None, "", 0.0)

    lost = lambda self: True  # noqa: E731
    files = lambda self: dict[str, bytes]()  # noqa: E731
    usage = lambda self: dict[str, float]()  # noqa: E731
    __enter__ = lambda self: self  # noqa: E731
    __exit__ = lambda self, *error: None  # noqa: E731


@pytest.fixture(autouse=True)
def no_sandbox(monkeypatch) -> None:
    class Nursery:
        def __init__(self, *limits: Any, **settings: Any):
            self.sandbox = lambda cpus: Box()

        bring = lambda self, imports: None  # noqa: E731
        refusal = lambda self: ""  # noqa: E731
        __enter__ = lambda self: self  # noqa: E731
        __exit__ = lambda self, *error: None  # noqa: E731

    monkeypatch.setattr("coursekit.grading.course_folders.Nursery", Nursery)
    monkeypatch.setattr(api, "get_alembic_version", VERSION)
    monkeypatch.setattr(Box, "left", 10**6)
