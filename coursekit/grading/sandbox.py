"""The grader's handle on sandboxes: run a cell, ask for an answer, and end it, whatever is inside.

    with Nursery(Limits()) as nursery, nursery.sandbox() as sandbox:
        sandbox.run("def double(x): return 2 * x")
        answer = Answer("double", lambda request: sandbox.ask("double", request))
"""

import contextlib
import json
import os
import secrets
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from coursekit import wire
from coursekit.grading import cgroups, frames
from coursekit.grading.setup import available, environment, settings

__all__ = ["CellOutcome", "Limits", "Nursery", "NurseryFailed", "Sandbox", "SandboxDied", "available"]
