"""Grading on a Ray cluster: each submission is a task on some node, which has sandboxes of its own."""

import os
from collections.abc import Iterator
from typing import Any

from nbformat import NotebookNode

from coursekit.exercise import load
from coursekit.grading.grade import Graded, Grader
from coursekit.grading.plan import Master
from coursekit.grading.run import Options, Outcome, master_of
from coursekit.grading.sandbox import Nursery, NurseryFailed
from coursekit.grading.submission import NotGradable, Submission, files_beside, read

RETRIES = 5  # a task whose node is lost runs again elsewhere
_nursery: Nursery | None = None  # one for each worker process, started by its first submission


def outcomes(todo: list[Submission], masters: dict, seed: int, options: Options) -> Iterator[Outcome]:
    """Yield the outcomes as the cluster finishes them; never more under way than twice what it can run."""
    import ray

    ray.init(address=options.address, log_to_driver=False, ignore_reinit_error=True)
    limit = 2 * int(ray.cluster_resources().get("CPU", 1))
    grade = ray.remote(max_retries=RETRIES, scheduling_strategy="SPREAD")(_grade_here)
    pending: dict[Any, Submission] = {}
    for item in todo:
        try:
            master = master_of(item, masters)
            notebook = read(item.path)
        except NotGradable as reason:
            yield Outcome(item, None, str(reason))
            continue
        if len(pending) >= limit:
            yield _next(pending)
        cpus = _whole_node() if _needs_to_be_alone(master) else 1
        pending[grade.options(num_cpus=cpus).remote(notebook, master, files_beside(item.path), seed, options)] = item
    while pending:
        yield _next(pending)


def _next(pending: dict[Any, Submission]) -> Outcome:
    """Return the outcome of whichever submission ends first."""
    import ray

    (ready,), _ = ray.wait(list(pending), num_returns=1)
    item = pending.pop(ready)
    try:
        return Outcome(item, ray.get(ready))
    except Exception as error:  # the reason is recorded; the other submissions go on
        return Outcome(item, None, f"no node could grade it ({type(error).__name__}: {str(error)[:300]})")


def _grade_here(notebook: NotebookNode, master: Master, files: dict[str, bytes], seed: int, options: Options) -> Graded:
    """Grade one submission on the node where this runs."""
    global _nursery
    if _nursery is None:
        os.environ.pop("RAY_ADDRESS", None)
        _nursery = Nursery(options.limits, isolated=options.sandbox).__enter__()
    try:
        return Grader(_nursery, options.limits, seed, options.all_cells).grade(notebook, master, files)
    except NurseryFailed:
        _nursery.__exit__(None, None, None)
        _nursery = None
        raise


def _needs_to_be_alone(master: Master) -> bool:
    """Return whether a chapter measures time: its submissions then get a node to themselves."""
    items = load(master.chapter).values() if master.chapter else []
    return any(getattr(item, "alone", False) for item in items)


def _whole_node() -> int:
    import ray

    return int(min(node["Resources"].get("CPU", 1) for node in ray.nodes() if node["Alive"]))
