"""What chapter 9 says of Python's processes and of CartPole, held against what is installed; the name of each test is the sentence."""

import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.managers import BaseManager

import gymnasium
import pytest

from coursekit.given.ch09_dqn import LockingManager, run_then_put_none

pytestmark = pytest.mark.slow
SPAWN = multiprocessing.get_context("spawn")


class Meeting:
    """Says whether two calls were inside it at once."""

    def __init__(self, seconds: float):
        self.barrier = threading.Barrier(2, timeout=seconds)

    def meet(self) -> bool:
        try:
            self.barrier.wait()
        except threading.BrokenBarrierError:
            return False
        return True


class PlainManager(BaseManager):
    make: Callable


PlainManager.register("make", Meeting)


def both_calls(meeting: Meeting) -> list[bool]:
    with ThreadPoolExecutor(2) as pool:
        return [call.result() for call in [pool.submit(meeting.meet) for _ in range(2)]]


def test_a_manager_serves_two_callers_at_once_in_the_same_object():
    with PlainManager(ctx=SPAWN) as manager:
        assert both_calls(manager.make(20)) == [True, True]


def test_the_locks_of_the_chapters_manager_let_one_call_into_an_object_at_a_time():
    with LockingManager(ctx=SPAWN) as manager:
        assert both_calls(manager.keep(Meeting, 0.5)) == [False, False]


def test_none_is_put_even_if_the_worker_raises():
    results: queue.Queue = queue.Queue()
    with pytest.raises(ZeroDivisionError):
        run_then_put_none(lambda make_sampler, results: 1 / 0, None, results)
    assert results.get_nowait() is None


def test_a_killed_process_has_a_negative_exit_code():
    process = SPAWN.Process(target=signal.pause)
    process.start()
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL


def test_a_process_pool_notices_a_dead_worker_and_is_unusable_afterward():
    with ProcessPoolExecutor(1, mp_context=SPAWN) as pool:
        with pytest.raises(BrokenProcessPool):
            pool.submit(os._exit, 1).result()
        with pytest.raises(BrokenProcessPool):
            pool.submit(os.getpid)


def test_the_first_version_of_cartpole_counts_as_solved_at_195():
    assert gymnasium.spec("CartPole-v0").reward_threshold == 195
