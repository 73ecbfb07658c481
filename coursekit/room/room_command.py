"""`coursekit room`: both servers in one process, until Ctrl-C."""

import asyncio
import contextlib
import platform
import signal
import socket
import threading
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import psutil
import uvicorn
from filelock import FileLock, Timeout
from rich.console import Console

from coursekit.basics.cards import plural
from coursekit.basics.errors import CommandError, chapter_names
from coursekit.learner.progress import home
from coursekit.room.live_board import minutes_of
from coursekit.room.server import SLIDES, Room, private, public
from coursekit.room.store import Store

VIRTUAL = ("docker", "br-", "veth", "virbr", "vmnet", "vboxnet", "tun", "tap", "utun")
WSL = """\
This is WSL2, which other machines cannot reach by default. In PowerShell as administrator, run once:
  netsh interface portproxy add v4tov4 listenport={port} listenaddress=0.0.0.0 connectport={port} connectaddress={address}
  New-NetFirewallRule -DisplayName "coursekit room" -Direction Inbound -Action Allow -Protocol TCP -LocalPort {port}
Then open the room with --address and the address of Windows, which ipconfig shows."""


def open_room(port: int, board: int, keep: Path | None, handins: Path | None, address: str) -> None:
    """Serve a room until Ctrl-C; raises CommandError."""
    console = Console()
    path = keep or home() / "room.db"
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(f"{path}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise CommandError(
            f"A room with {path} is already open. Close it, or give this one a file of its own: --keep"
        ) from None
    room = Room(
        Store(path),
        on_code=lambda code: console.print(f"There were many wrong codes, so the code is now [bold]{code}[/bold]"),
        submitted=handins,
        on_doubt=lambda said: console.print(said, markup=False),
    )
    room.address = address or addresses()[0]
    serving = Serving(room, port, board)
    if room.continued:
        here = plural(len(room.board.people), "nickname")
        console.print(f"This is the room in {path}, which was kept, or was not closed: {here} on its board.")
    threading.Thread(target=_load_chapters, daemon=True).start()
    console.print("Learners type this line into a cell of any notebook (the board shows it, too):")
    console.print(f"  {room.line}", style="bold", markup=False, highlight=False, soft_wrap=True)
    if others := ", ".join(each for each in addresses() if each != room.address):
        console.print(
            f"This machine also has {others}. If your learners are in such a network, open the room with --address and that one"
        )
    if "microsoft" in platform.release().lower():
        console.print(WSL.format(port=port, address=addresses()[0]), markup=False)
    console.print(f"The board, for your browser: http://127.0.0.1:{board}/?key={room.secret}")
    console.print(f"For a projector, without names: http://127.0.0.1:{board}/projector")
    for slides in sorted(SLIDES.glob("*.slides.html")):
        name = slides.name.partition(".")[0]
        console.print(f"Your slides, with the room's votes: http://127.0.0.1:{board}/slides/{name}")
    if handins:
        console.print(f"Hand-ins go to {handins}, with a folder for each student.")
    deleted = "Everything that it received is then deleted; the board has links to save it first."
    console.print(f"Ctrl-C closes the room. {f'Everything that it received stays in {keep}.' if keep else deleted}")
    try:
        asyncio.run(serving.run())
    finally:
        room.store.close(keep is not None)
        lock.release()
        Path(lock.lock_file).unlink(missing_ok=True)


def _load_chapters() -> None:
    """Load what the board knows of each chapter, before a learner has to wait for it."""
    for chapter in chapter_names():
        minutes_of(chapter)


class _Server(uvicorn.Server):
    """A server that leaves signals to the one who started it: two of them run side by side."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave them as they are."""
        yield


class Serving:
    """Both servers of a room in one loop."""

    def __init__(self, room: Room, port: int, board: int):
        self._room = room
        options: dict[str, Any] = {"log_level": "warning", "access_log": False, "lifespan": "off"}
        options |= {"timeout_graceful_shutdown": 1}
        context = room.certificate.context()
        self._sockets = [_listen("0.0.0.0", port, "--port"), _listen("127.0.0.1", board, "--board")]
        self.port, self.board = (each.getsockname()[1] for each in self._sockets)
        room.port = self.port
        learners = uvicorn.Config(public(room), ssl_context_factory=lambda *_: context, **options)
        self._servers = [_Server(learners), _Server(uvicorn.Config(private(room), **options))]

    async def run(self) -> None:
        """Serve until `stop` is called, or Ctrl-C pressed."""
        self._loop = asyncio.get_running_loop()
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._loop.add_signal_handler(number, self.stop)
        pairs = zip(self._servers, self._sockets, strict=True)
        await asyncio.gather(*(server.serve([listener]) for server, listener in pairs))

    def stop(self) -> None:
        """End both; may be called from another thread."""
        self._loop.call_soon_threadsafe(self._room.close)  # who watches the board hears of it
        for server in self._servers:
            server.should_exit = True


def addresses() -> list[str]:
    """Return this machine's addresses in its networks, the likeliest first."""
    up = {name for name, stats in psutil.net_if_stats().items() if stats.isup}
    found = [
        (name.startswith(VIRTUAL), not ip_address(entry.address).is_private, entry.address)
        for name, entries in psutil.net_if_addrs().items()
        for entry in entries
        if entry.family == socket.AF_INET and name in up and not ip_address(entry.address).is_loopback
    ]
    return [address for *_, address in sorted(found)] or ["127.0.0.1"]


def _listen(host: str, port: int, option: str) -> socket.socket:
    """Return a socket that listens; raises CommandError where the port cannot be had."""
    try:
        return socket.create_server((host, port), backlog=1024)
    except OSError as error:
        reason = f"Port {port} cannot be used ({error.strerror})."
        raise CommandError(f"{reason} Choose another: {option} {port + 10}") from None
