"""What a run on this machine begins with: its nursery, which imports while the grader does."""

import signal
from pathlib import Path

from coursekit.grading.course_folders import Place
from coursekit.sandbox.limits import Limits
from coursekit.sandbox.nursery import Nursery


def heed_ctrl_c() -> None:
    """Have Ctrl-C end the program: a script starts its background jobs with the signal ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def nursery_for(submitted: Path, limits: Limits, isolated: bool) -> Nursery:
    """Return a nursery that waits to be told what it has to import; `submitted` as `coursekit grade` is given it."""
    return Nursery(limits, isolated=isolated, hidden=[str(Place(submitted).folder)], imports="later")
