"""Stacks of a process are sampled from outside, with py-spy where the system allows it and by a signal where it does not."""

import subprocess
import sys

import pytest

from coursekit.given import ch19_operate as given
from coursekit.paths import ROOT
from tests.answers.ch19_operate import with_the_first_sample

OWN = ["handed_over.py"]
HANDED_OVER = """
import contextlib, faulthandler, signal, sys
from coursekit.given.handed_over import Saver, Shelf
stacks = open(sys.argv[2], "w")
faulthandler.register(signal.SIGUSR1, file=stacks)
print("ready", flush=True)
if sys.argv[1] == "shelf":
    Shelf().fill(600)
saver = Saver()
with contextlib.suppress(OSError):
    saver.save("/no/such/folder/1.json", [0.1])
saver.save("/dev/null", [0.1])
"""


def in_its_program(sample):
    return any(frame["file"] in OWN for frame in sample["frames"])


@pytest.mark.slow
@pytest.mark.parametrize("allowed", [True, False], ids=["as the system allows", "refused"])
@pytest.mark.parametrize(("name", "verdict"), [("shelf", ("slow", "_is_known")), ("saver", ("hung", "save"))])
def test_samples_tell_the_slow_program_from_the_hung_one(name, verdict, allowed, tmp_path, monkeypatch):
    stacks = str(tmp_path / name)
    command = [sys.executable, "-c", HANDED_OVER, name, stacks]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            process.stdout.readline()
            assert given.wait_until(lambda: in_its_program(given.sample_stacks(process.pid, stacks, 1)[0]))
            if not allowed:
                monkeypatch.setattr(given, "py_spy", lambda pid, *options: "py-spy was refused: not here")
            assert with_the_first_sample(given.sample_stacks(process.pid, stacks, 6), OWN) == verdict
        finally:
            process.kill()


def test_py_spy_says_why_it_was_refused():
    assert given.py_spy(0x7FFFFFFF).startswith("py-spy was refused: ")
