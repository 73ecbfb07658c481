"""Grading on a Ray cluster: each submission is a task on some node, which has a nursery and sandboxes of its own.

The driver, which is `coursekit grade`, reads what was handed in and keeps every outcome; a node gets a notebook and gives back
what came of it. So a node that is lost takes no outcome with it: what was under way there is graded again, on another.
"""

import contextlib
import re
import socket
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from coursekit.basics.errors import CommandError
from coursekit.grading.outcome import Options, Outcome, grader_failed, master_of
from coursekit.grading.submission import NotGradable, Submission, read
from coursekit.grading.submission_grader import ENDED
from coursekit.grading.worker_node import NodeGrader, Setup, fingerprint_of_coursekit
from coursekit.judging.exercise import load
from coursekit.ray_bridge.quiet import quiet
from coursekit.sandbox.nursery import NurseryFailed

ANSWER_SECONDS = 60.0  # for a cluster to answer; a busy machine takes half of it to import Ray
START_SECONDS = 300.0  # for a first node to be ready: it may have to start Python, and import Ray and torch
STARTS = 3  # of the grader of a node, without grading anything; then it is left alone, the last one if it cannot start
LOST = 3  # times that a submission is graded again because its node was lost
CONNECT = """import sys, ray
try:
    ray.init(address=sys.argv[1], log_to_driver=False)
except Exception as error:
    sys.exit(f"\\n{type(error).__name__}: {' '.join(str(error).split())}")
"""


def outcomes(todo: list[Submission], setup: Setup, options: Options) -> Iterator[Outcome]:
    """Yield the outcomes as the cluster finishes them; raises CommandError where no node can grade."""
    with _connected(options.address):
        yield from _Crew(setup, options, _needs_to_be_alone(todo, setup)).outcomes(todo)


@dataclass(eq=False)
class _Node:
    """A node of the cluster as the driver sees it."""

    id: str
    address: str
    cpus: int
    grader: Any = None  # its NodeGrader
    free: int = 0  # submissions that it can take now
    starts: int = 0  # of its grader, since it last graded something
    proven: bool = False  # it has been ready to grade


class _Crew:
    """The nodes that grade for one run, and which submission is under way on which."""

    def __init__(self, setup: Setup, options: Options, alone: bool):
        import ray

        self.ray, self.setup, self.options, self.alone = ray, setup, options, alone
        self.shared = ray.put(setup)
        self.fingerprint = fingerprint_of_coursekit()
        self.starting: dict[Any, tuple[_Node, Any]] = {}
        self.grading: dict[Any, tuple[_Node, Any, Submission]] = {}
        self.waiting: deque[Submission] = deque()
        self.losses: Counter[str] = Counter()
        self.reason = "none of its nodes has a CPU"
        self.nodes = [_Node(row["NodeID"], row["NodeManagerAddress"], cpus) for row, cpus in self._alive()]
        for node in list(self.nodes):
            self._start(node)

    def _alive(self) -> Iterator[tuple[dict, int]]:
        """Yield the nodes that can take work now, with their CPUs."""
        for row in self.ray.nodes():
            cpus = int(row["Resources"].get("CPU", 0)) if row["Alive"] else 0
            if cpus:
                yield row, cpus

    def outcomes(self, todo: list[Submission]) -> Iterator[Outcome]:
        """Yield every outcome; never more is under way, and in memory, than the nodes can run."""
        self.waiting.extend(todo)
        while self.waiting or self.grading:
            while self._may_go() and (node := next((node for node in self.nodes if node.free), None)):
                yield from self._send(self.waiting.popleft(), node)
            yield from self._next() if self.waiting or self.grading else ()

    def _may_go(self) -> bool:
        """Return whether one may be graded now; one that lost its node twice goes alone, because another may have been the cause."""
        together = [*list(self.waiting)[:1], *(item for *_, item in self.grading.values())]
        return bool(self.waiting) and (not self.grading or all(self.losses[item.key] < 2 for item in together))

    def _start(self, node: _Node) -> None:
        """Start a node's grader; one that failed too often to do anything is left alone."""
        if node.starts >= STARTS:
            self.nodes.remove(node)
            return
        place = self.ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node.id, soft=False)
        slots = min(self.options.jobs, node.cpus)
        maker = self.ray.remote(
            num_cpus=node.cpus if self.alone else slots, max_concurrency=slots, scheduling_strategy=place
        )
        node.grader, node.free, node.starts = maker(NodeGrader).remote(self.shared), 0, node.starts + 1
        self.starting[node.grader.start.remote(self.fingerprint)] = node, node.grader

    def _send(self, item: Submission, node: _Node) -> Iterator[Outcome]:
        """Have a node grade a submission; yield its outcome where there is nothing to grade."""
        try:
            master_of(item, self.setup.masters)
            work = node.grader.grade.remote((item.assignment, item.notebook), read(item.path), item.files())
        except NotGradable as reason:
            yield Outcome(item, None, str(reason))
        except Exception as error:  # one student's loss must never be another's
            yield Outcome(item, None, grader_failed(error))
        else:
            node.free -= 1
            self.grading[work] = node, node.grader, item

    def _next(self) -> Iterator[Outcome]:
        """Wait until a node is ready or has graded something; yield the outcome, if that is one."""
        if not self.nodes and not self.grading:
            raise NurseryFailed(f"The cluster at {self.options.address} has no nodes left: {self.reason}.")
        refs = [*self.starting, *self.grading]
        ready, _ = self.ray.wait(refs, num_returns=1, timeout=None if self.grading else START_SECONDS)
        if not ready:
            raise NurseryFailed(
                f"No node of the cluster was ready within {START_SECONDS:.0f} s. Are other programs using its CPUs? "
                f"`ray status --address {self.options.address}` shows that."
            )
        if ready[0] in self.starting:
            self._started(ready[0])
        else:
            yield from self._graded(ready[0])

    def _started(self, ref: Any) -> None:
        """Count on a node that is ready; raises CommandError where one cannot grade at all, which only a person can fix."""
        node, grader = self.starting.pop(ref)
        try:
            reason = self.ray.get(ref)
        except self.ray.exceptions.RayError as error:
            failed = isinstance(error, self.ray.exceptions.RayTaskError) or getattr(error, "actor_init_failed", False)
            if not failed:
                self._lost(node, grader, error)
                return
            reason = _why_it_failed(str(error))
        if reason and not node.proven:
            raise CommandError(f"The cluster's node {node.address} cannot grade: {reason}.")
        if reason:
            self.reason = f"{node.address}: {reason}"
            self.nodes.remove(node)
        else:
            node.proven, node.free = True, min(self.options.jobs, node.cpus)

    def _graded(self, ref: Any) -> Iterator[Outcome]:
        """Yield the outcome of a submission; where its node was lost it waits again, behind all others."""
        node, grader, item = self.grading.pop(ref)
        try:
            outcome = Outcome(item, self.ray.get(ref))
        except self.ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None)  # what the grader itself raised
            if cause is None or isinstance(cause, NurseryFailed):
                if cause is None and self.nodes == [node]:  # who is lost on the last node comes nearer to an outcome
                    node.starts = 0
                self._lost(node, grader, cause or error)
                yield from self._again(item)
                return
            outcome = Outcome(item, None, str(cause) if isinstance(cause, NotGradable) else grader_failed(cause))
        if node.grader is grader:
            node.free, node.starts = node.free + 1, 0
        if outcome.reason == ENDED and self.losses[item.key] < 2:  # as on one machine: another may have ended it
            self.losses[item.key] = 2
            self.waiting.append(item)
        else:
            yield outcome

    def _again(self, item: Submission) -> Iterator[Outcome]:
        """Have a submission wait behind all others, or yield that it was lost too often."""
        self.losses[item.key] += 1
        if self.losses[item.key] <= LOST:
            self.waiting.append(item)
        else:
            yield Outcome(
                item, None, f"the nodes that graded it were lost {LOST + 1} times: grade it again with --again"
            )

    def _lost(self, node: _Node, grader: Any, error: BaseException) -> None:
        """Go on without a node, or with a new grader on it where the node itself lives."""
        if node.grader is not grader or node not in self.nodes:
            return  # known already
        self.reason = f"{node.address}: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
        print(
            f"The node {node.address} was lost; what it was grading will be graded again ({type(error).__name__})",
            file=sys.stderr,
        )
        self.ray.kill(grader)  # should it live, nobody waits for it any more
        node.free = 0
        if node.id in {row["NodeID"] for row, _ in self._alive()}:
            self._start(node)
        else:
            self.nodes.remove(node)


def _why_it_failed(text: str) -> str:
    """Return in words why a node could not even load the grader, from Ray's long account of it."""
    if missing := re.search(r"No module named '([\w.]+)'", text):
        return f"{missing[1]} is not installed there: install the same coursekit as here, with all of its dependencies"
    return f"{text.strip().splitlines()[-1]} (is its coursekit the same as here?)"


def _needs_to_be_alone(todo: list[Submission], setup: Setup) -> bool:
    """Return whether a chapter that is graded measures time: then no other program may use the CPUs of a node."""
    wanted = {item.assignment for item in todo}
    chapters = {master.chapter for (assignment, _), master in setup.masters.items() if assignment in wanted}
    items = [item for chapter in chapters if chapter for item in load(chapter).values()]
    return any(getattr(item, "alone", False) for item in items)


@contextlib.contextmanager
def _connected(address: str) -> Iterator[None]:
    """Be a driver of the cluster; raises CommandError where there is none.

    Python and Ray's workers look for modules where the driver is, which may be a folder that was handed in.
    """
    with contextlib.chdir("/"):
        _find(address)
        quiet()
        import ray

        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    try:
        yield
    finally:
        ray.shutdown()


def _find(address: str) -> None:
    """Raise CommandError unless a cluster answers; another process asks it, because Ray itself does not stop trying."""
    reason = ""
    try:
        if ":" in address:
            host, _, port = address.rpartition("/")[2].rpartition(":")
            socket.create_connection((host, int(port)), ANSWER_SECONDS / 3).close()
        ask = [sys.executable, "-c", CONNECT, address]
        asked = subprocess.run(ask, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False)
        reason = asked.stderr.strip().rpartition("\n")[2] if asked.returncode else ""
    except (OSError, ValueError, OverflowError) as error:
        reason = str(error)
    except subprocess.TimeoutExpired:
        reason = f"no reply within {ANSWER_SECONDS:.0f} s"
    if reason:
        raise CommandError(
            f"No Ray cluster can be used at {address} ({reason}). Give --address the host:port that `ray start --head` "
            f"printed, and run this on one of the cluster's machines."
        )
