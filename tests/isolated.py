"""A learner's process as grading knows it: `coursekit.exercises` does not exist there, and only bytes go in and out."""

import multiprocessing
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.abc import MetaPathFinder
from multiprocessing.connection import Connection

from coursekit.author.definitions import defining_parts
from coursekit.basics.paths import ROOT, SOLUTIONS
from coursekit.judging.answer import Answer
from tests import forked

CHECK = re.compile(r'check\("(\w+)"')
NODES = re.compile(r"\bray\.init\(|^(add|remove)_nodes\(", re.MULTILINE)


class NoExercises(MetaPathFinder):
    """Makes the judge's side impossible to import."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname.startswith("coursekit.exercises"):
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def checks_of(chapter: str, names: dict) -> Iterator[str]:
    """Run a solved notebook up to each of its checks, and yield whose it is: imports, Ray with its nodes, and answers are run."""
    import nbformat

    import coursekit

    coursekit.begin = coursekit.passed = lambda name: False  # type: ignore[assignment]
    for cell in nbformat.read(SOLUTIONS / f"{chapter}.ipynb", as_version=4).cells:
        if check := CHECK.match(cell.source):
            yield check[1]
        is_answer = cell.metadata.get("nbgrader", {}).get("solution")
        if cell.cell_type != "code" or "demo" in cell.metadata.get("tags", []):
            continue
        needed = is_answer or cell.source.startswith(("import ", "from ")) or NODES.search(cell.source)
        if needed or defining_parts(cell.source):
            exec(compile(cell.source, "<answer>", "exec"), names)


def learner(chapter: str, pipe: Connection) -> None:
    """Answer requests, about answers and about functions of a module, whose names have a dot, until there is one about none."""
    sys.meta_path.insert(0, NoExercises())
    from coursekit.judging.answer import serve

    names: dict = {"__name__": "__main__"}
    checks = checks_of(chapter, names)
    reached = {next(checks)}
    pipe.send_bytes(b"ready")
    while path := pipe.recv_bytes().decode():
        module, _, name = path.rpartition(".")
        while not module and name not in reached:
            reached.add(next(checks))  # what comes after a check has not happened yet
        pipe.send_bytes(serve(vars(import_module(module)) if module else names, name, pipe.recv_bytes()))
    assert not any(module.startswith("coursekit.exercises") for module in sys.modules)
    if "ray" in names:
        names["ray"].shutdown()
    pipe.send_bytes(b"done")


@contextmanager
def learner_process(chapter: str) -> Iterator[Connection]:
    """Yield the judge's end of the pipe to a process with a chapter's solved answers."""
    ours, theirs = multiprocessing.Pipe()
    command, env = [sys.executable, __file__, chapter], os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(forked.command(command), stdin=theirs.fileno(), env=env)
    theirs.close()
    try:
        assert ours.recv_bytes() == b"ready"
        yield ours
        ours.send_bytes(b"")
        assert ours.recv_bytes() == b"done"
        process.wait(60)
    finally:
        ours.close()
        process.kill()
        process.wait()


def answer_of(ask: Callable[[str, bytes], bytes], name: str) -> Answer:
    """Return the answer `name` of the learner who is asked by `ask`; Ray's records are asked for as one more answer is."""

    def records(operation: str, **window: object) -> object:
        return answer_of(ask, f"coursekit.ray_bridge.records.{operation}")(**window)

    return Answer(name, partial(ask, name), records)


if __name__ == "__main__":
    judge, nothing = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # what the learner starts must not read the judge's requests
    learner(sys.argv[1], Connection(judge))
