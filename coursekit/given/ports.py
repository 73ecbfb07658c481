"""Ports for servers that are started a little later."""

import contextlib
import random
import socket

# Below the ports that systems hand out by themselves: no program gets one of these by chance before the server is up.
_RANGE = range(20_000, 32_000)


def free_ports(count: int) -> list[int]:
    """Return different ports on which no program listens now."""
    found: list[int] = []
    for port in random.SystemRandom().sample(_RANGE, len(_RANGE)):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            break
    return found
