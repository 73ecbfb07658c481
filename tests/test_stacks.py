"""Stacks of a process are sampled from outside, with py-spy where the system allows it and by a signal where it does not."""

import contextlib
import os
import subprocess
import sys

import psutil
import pytest

from coursekit.basics.paths import ROOT
from coursekit.given import ch19_operate as given
from tests.answers.ch19_operate import along_the_chain

OWN = ["handed_over.py"]
HANDED_OVER = """
import contextlib, faulthandler, signal, sys
from coursekit.given.handed_over import Saver, Shelf
stacks = open(sys.argv[2], "w")
faulthandler.register(signal.SIGUSR1, file=stacks)
shelf, saver = Shelf(), Saver()
shelf.kept *= 20  # or it is elsewhere in one sample of thirty: too often for a verdict from three
with contextlib.suppress(OSError):
    saver.save("/no/such/folder/1.json", [0.1])
print("ready", flush=True)
if sys.argv[1] == "shelf":
    shelf.fill(600)
saver.save("/dev/null", [0.1])
"""


def diagnosis(samples):
    return along_the_chain({"it": samples}, {}, OWN)["it"]


def in_its_program(sample):
    return any(frame["file"] in OWN for frame in sample["frames"])


@contextlib.contextmanager
def running(name, stacks):
    """One of the colleague's programs, with the lowest priority, once it is in its own code."""
    command = ["nice", "-n", "19", sys.executable, "-c", HANDED_OVER, name, stacks]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            process.stdout.readline()
            assert given.wait_until(lambda: in_its_program(given.sample_stacks(process.pid, stacks, 1)[0]))
            yield process.pid
        finally:
            process.kill()


@contextlib.contextmanager
def busy_machine():
    """No CPU is free: a program of the lowest priority gets one time in seventy."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def refused(pid, *options):
    return "py-spy was refused: not here"


PROGRAMS = pytest.mark.parametrize(
    ("name", "verdict"), [("shelf", ("slow", "_is_known")), ("saver", ("waiting", "save"))]
)
WAYS = pytest.mark.parametrize("py_spy", [given.py_spy, refused], ids=["as the system allows", "refused"])


@pytest.mark.slow
@WAYS
@PROGRAMS
def test_samples_tell_the_slow_program_from_the_waiting_one(name, verdict, py_spy, tmp_path, monkeypatch):
    stacks = str(tmp_path / name)
    monkeypatch.setattr(given, "py_spy", py_spy)
    with running(name, stacks) as pid:
        assert diagnosis(given.sample_stacks(pid, stacks, 6)) == verdict


@pytest.mark.slow
@pytest.mark.skipif(not psutil.LINUX, reason="only Linux tells whether a thread waits for a CPU or for something else")
@WAYS
@PROGRAMS
def test_on_a_busy_machine_a_program_is_active_once_it_had_its_turn(name, verdict, py_spy, tmp_path, monkeypatch):
    stacks = str(tmp_path / name)
    monkeypatch.setattr(given, "py_spy", py_spy)
    with running(name, stacks) as pid, busy_machine():
        samples = given.sample_stacks(pid, stacks, 3)
    assert {sample["active"] for sample in samples} == {verdict[0] == "slow"}
    assert diagnosis(samples) == verdict


def test_py_spy_says_why_it_was_refused():
    assert given.py_spy(0x7FFFFFFF).startswith("py-spy was refused: ")
