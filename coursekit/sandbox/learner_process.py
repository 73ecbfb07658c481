"""The learner's end of a sandbox: runs cells and answers the judge's requests. Everything here can be patched by a submission;
nothing that the grader relies on is here.
"""

import asyncio
import contextlib
import contextvars
import ctypes
import gc
import importlib
import os
import pkgutil
import signal
import socket
import sys
from typing import Any

import coursekit
from coursekit import aliases
from coursekit.judging import answer, wire
from coursekit.judging.failure import describe_safely
from coursekit.ray_bridge import private
from coursekit.ray_bridge.quiet import quiet
from coursekit.sandbox import evidence, frames, lean_ray

_BASE = ["numpy", "coursekit.learner.checks", "coursekit.learner.session", "coursekit.learner.overview"]
_PLAIN = ["pandas", "matplotlib.pyplot", "matplotlib.backends.backend_agg"]  # inline's wants a shell
_OF_RLLIB = ["gymnasium", "torch", "ray.rllib.algorithms.ppo"]
_OWN = ["coursekit.learner.timing", "coursekit.ray_bridge.timeline", "coursekit.ray_bridge.records"]
PUBLIC = ["coursekit.machine.doctor"]  # of the public names, those that no sandbox may read: imported before it begins
_passed: dict[str, bool] = {}


def prepare(imports: str) -> Any:
    """Import what submissions need and return the shell that runs their cells; once, before any sandbox is forked.

    `imports` is "all", or "ray" (without torch, RLlib and Gymnasium), or "plain" (without Ray and the course, too), or "base" (without
    pandas and Matplotlib, too), or "none" (no shell either, to try namespaces).
    """
    if imports == "none":
        return None
    begin()
    for name in {"base": [], "plain": _PLAIN, "ray": [*_PLAIN, "ray"], "all": [*_PLAIN, "ray", *_OF_RLLIB]}[imports]:
        importlib.import_module(name)
    for name in {"ray": private.AT_START + _OWN, "all": private.AT_START + _OWN + _given()}.get(imports, []):
        with contextlib.suppress(Exception):  # an author's mistake shows where a submission uses it
            importlib.import_module(name)
    return _new_shell()


def begin() -> None:
    """Import what all need, before it is known what else."""
    gc.disable()  # until there is a shell: imports leave little to collect
    for name in _BASE:
        importlib.import_module(name)


def _given() -> list[str]:
    from coursekit import given

    return [f"coursekit.given.{module.name}" for module in pkgutil.iter_modules(given.__path__)]


def _new_shell() -> Any:
    from coursekit.sandbox.kernel_shell import new_shell, shown

    shell = new_shell()
    _warm_up(shell)
    shown()
    gc.collect()
    gc.freeze()  # collections in a copy would touch, and so copy, the memory that all share
    gc.enable()
    return shell


def _warm_up(shell: Any) -> None:
    """Run a cell that works and one that fails, so that what they load is there; then forget them."""
    for source in ("None", "1 / 0"):
        shell.run_cell(source)
    shell.reset(new_session=True)
    shell.user_module.__spec__ = None  # as in a notebook; multiprocessing looks at it before it spawns a process
    shell.execution_count = 1


class Neutral:
    """What check, quiz, hint and the others return while a submission is graded: nothing to see."""

    status = "graded from outside"

    def __repr__(self) -> str:
        return ""

    def _repr_html_(self) -> str:
        return ""


def _neutral(*args: object, **kwargs: object) -> Neutral:
    return Neutral()


def passed(name: str) -> bool:
    """Return whether the judge, outside, has passed this exercise."""
    return _passed.get(name, False)


def _replace_notebook_functions() -> None:
    """Put functions that judge nothing where a notebook imports begin, check and the others."""
    neutral = dict.fromkeys(coursekit.NEUTRAL, _neutral)
    for name, function in (neutral | {"passed": passed}).items():
        module = coursekit.HOME[aliases.NAMES.get(name, name)]
        replacement = _named(function, name, module)
        setattr(importlib.import_module(module), name, replacement)
        setattr(coursekit, name, replacement)


def _named(function: Any, name: str, module: str) -> Any:
    """Return a copy of a function that pickles by the name of the one that it replaces."""
    copy = type(function)(function.__code__, function.__globals__, name, None, function.__closure__)
    copy.__module__, copy.__qualname__ = module, name
    return copy


def live(shell: Any, connection: socket.socket, output: int, settings: dict) -> None:
    """Serve the grader until it closes the connection; never returns to the nursery's code."""
    _settle(output, settings)
    if shell:
        from coursekit.sandbox.kernel_shell import settle

        settle()
    me, loop = os.getpid(), asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    context = contextvars.copy_context()  # one for all cells: what a cell sets there holds in the next
    with contextlib.suppress(OSError):
        while (message := _next(loop, connection)) is not None:
            identity, content = message
            reply = _serve(loop.create_task(_reply(shell, wire.decode(content)), context=context), loop)
            if os.getpid() != me:  # a copy that the submission made with os.fork: only the original answers
                os._exit(0)
            connection.sendall(frames.pack(identity, reply))
    os._exit(0)


def _next(loop: asyncio.AbstractEventLoop, connection: socket.socket) -> tuple[bytes, bytes] | None:
    """Return the next message; until it comes, what cells have left in the loop goes on, as between a kernel's cells."""
    come = loop.create_future()
    loop.add_reader(connection, lambda: None if come.done() else come.set_result(None))
    try:
        while not come.done():
            with contextlib.suppress(KeyboardInterrupt):
                signal.signal(signal.SIGINT, signal.default_int_handler)
                loop.run_until_complete(come)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        loop.remove_reader(connection)
    return frames.receive(connection)


def _settle(output: int, settings: dict) -> None:
    """Make the process a fresh one: its own environment, folder, output and random numbers, and a notebook's."""
    os.setsid()
    if "ray" in sys.modules:
        quiet()  # as `begin` does
        lean_ray.apply(forked=settings["isolated"], cpus=settings["cpus"])
    _replace_notebook_functions()
    os.environ.update(settings["environment"])
    folder = f"{os.environ['HOME']}/work"  # what lies there later is the notebook's
    os.mkdir(folder)
    os.chdir(folder)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(output)
    for stream in (sys.__stdout__, sys.__stderr__):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if "ray" in sys.modules:
        private.Config.initialize("")  # it read its environment at the import
    sys.modules["numpy"].random.seed()  # a copy of the nursery would draw what every other copy draws


def _serve(reply: asyncio.Task, loop: asyncio.AbstractEventLoop) -> bytes:
    """Return the reply to one message of the grader; a SIGINT, which the grader sends when time is up, ends the work."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return bytes(loop.run_until_complete(reply))
    except KeyboardInterrupt as stopped:
        error = describe_safely(stopped)
        return wire.encode({"error": error, "raised": error})
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _flush()


async def _reply(shell: Any, message: dict) -> bytes:
    """Return the reply to one message, from within the running loop that a notebook's code knows."""
    if message["op"] == "run":
        return await _run(shell, message["source"])
    if message["op"] == "ask":
        return answer.serve(shell.user_ns, message["name"], message["request"])
    if message["op"] == "records":  # where there are no namespaces that a reader could enter
        from coursekit.ray_bridge import records

        return answer.serve(vars(records), message["name"], message["request"])
    if message["op"] == "place":
        return wire.encode(evidence.place())
    if message["op"] == "files":
        from coursekit.sandbox.kernel_shell import files

        return wire.encode(files())
    _passed[message["name"]] = message["passed"]
    return b""


async def _run(shell: Any, source: str) -> bytes:
    """Run one cell as a notebook does and return what went wrong, if anything, and what it showed."""
    from coursekit.sandbox.kernel_shell import run, shown

    result = await run(shell, source)
    error = result.error_before_exec or result.error_in_exec
    return wire.encode({"error": describe_safely(error) if error is not None else None, "shown": shown()})


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        with contextlib.suppress(Exception):
            stream.flush()  # type: ignore[union-attr]
    ctypes.CDLL(None).fflush(None)
