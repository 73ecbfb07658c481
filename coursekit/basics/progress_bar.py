"""A progress bar that leaves nothing behind: not on stderr, not in a saved notebook, not in a log."""

import html
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeVar

T = TypeVar("T")


def track(items: Collection[T], label: str) -> Iterator[T]:
    """Yield the items, and show above a cell's outputs how many of them are done: for a loop that takes more than 20 s."""
    with progress_bar(len(items), label) as step:
        for item in items:
            yield item
            step()


def progress_bar(total: int, label: str, visible: bool = True) -> AbstractContextManager[Callable[[], None]]:
    """Return, for a `with`, a function that moves the bar on by one; the bar shows in a notebook or on a terminal, and goes at the end."""
    if visible and in_notebook():
        return _notebook_bar(total, label)
    if visible and sys.stdout.isatty():
        return _terminal_bar(total, label)
    return nullcontext(lambda: None)


def in_notebook() -> bool:
    """Return whether this process is a notebook's kernel."""
    if "IPython" not in sys.modules:
        return False
    from IPython.core.getipython import get_ipython

    return hasattr(get_ipython(), "kernel")


@contextmanager
def _notebook_bar(total: int, label: str) -> Iterator[Callable[[], None]]:
    from IPython.display import display

    done = 0
    handle = display({"text/plain": ""}, raw=True, display_id=True)

    def step() -> None:
        nonlocal done
        done += 1
        bar = f"<progress value='{done}' max='{total}' style='width:14em'></progress>"
        handle.update({"text/html": f"{bar} {html.escape(label)}", "text/plain": label}, raw=True)

    try:
        yield step
    finally:
        handle.update({"text/html": "", "text/plain": ""}, raw=True)


@contextmanager
def _terminal_bar(total: int, label: str) -> Iterator[Callable[[], None]]:
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(file=sys.stdout), transient=True) as progress:
        task = progress.add_task(label, total=total)
        yield lambda: progress.advance(task)
