"""Kernels that tests reach over socket files.

Jupyter chooses a kernel's TCP ports before the kernel takes them, and a Ray or a kernel that starts in between may have
taken one: "Kernel died before replying to kernel_info".
"""

import itertools
import os

from traitlets.config import Config

_numbers = itertools.count()


def sockets() -> dict[str, str]:
    """Return the settings of a KernelManager whose kernels listen at socket files in the folder of this process's Rays."""
    return {"transport": "ipc", "ip": f"{os.environ['RAY_TMPDIR']}/kernel{next(_numbers)}"}


def config() -> Config:
    """Return the same as the configuration of a notebook's client."""
    return Config(KernelManager=sockets())


def environment() -> dict[str, str]:
    """Return this process's environment without what tells ipykernel of pytest: it would not show what C++ writes to stderr."""
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
