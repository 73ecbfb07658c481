"""Grading on this machine: one nursery, and some submissions at a time, each in sandboxes of its own."""

import contextlib
from collections.abc import Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, as_completed, wait

from coursekit.grading.grading_plan import Master
from coursekit.grading.outcome import Options, Outcome, grader_failed, master_of
from coursekit.grading.submission import NotGradable, Submission, read
from coursekit.grading.submission_grader import ENDED, Grader
from coursekit.grading.worker_node import Setup
from coursekit.sandbox.nursery import Nursery, NurseryFailed


def outcomes(todo: list[Submission], setup: Setup, options: Options, nursery: Nursery) -> Iterator[Outcome]:
    """Yield the outcomes as they come, `jobs` submissions at a time; never more than a few wait in memory."""
    nursery.limits = setup.limits
    grader, ended = setup.grader(nursery), []
    with contextlib.closing(_side_by_side(todo, setup.masters, grader, options.jobs)) as coming:
        for outcome in coming:
            if outcome.reason == ENDED:
                ended.append(outcome.submission)
            else:
                yield outcome
    # one at a time: another may have ended it
    yield from (outcome_of(item, setup.masters, grader) for item in ended)


def _side_by_side(
    todo: list[Submission], masters: dict[tuple[str, str], Master], grader: Grader, jobs: int
) -> Generator[Outcome]:
    pool = ThreadPoolExecutor(jobs)
    waiting: set[Future[Outcome]] = set()
    try:
        for item in todo:
            waiting.add(pool.submit(outcome_of, item, masters, grader))
            if len(waiting) >= 2 * jobs:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        yield from (future.result() for future in as_completed(waiting))
    finally:  # also when the run is interrupted: what is under way will be graded by the next
        pool.shutdown(wait=False, cancel_futures=True)


def outcome_of(item: Submission, masters: dict[tuple[str, str], Master], grader: Grader) -> Outcome:
    """Return the outcome of one submission; whatever goes wrong is a reason, not an exception."""
    try:
        master = master_of(item, masters)
        return Outcome(item, grader.grade(read(item.path), master, item.files()))
    except NotGradable as reason:
        return Outcome(item, None, str(reason))
    except NurseryFailed:  # this machine's fault: the run stops, and can be continued
        raise
    except Exception as error:  # one student's loss must never be another's
        return Outcome(item, None, grader_failed(error))
