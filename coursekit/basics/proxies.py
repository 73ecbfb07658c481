"""A proxy leads out of this machine: what runs on it is reached directly, whatever variables a process inherits."""

import os
import socket

NAMES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")


def proxy_variables() -> list[str]:
    """Return the variables that name a proxy, as they are spelled here."""
    return [name for each in NAMES for name in (each, each.upper()) if os.environ.get(name)]


def reach_own_addresses_directly() -> None:
    """Where a proxy is set, add this machine's own names and addresses to `no_proxy`, also for processes that start later."""
    if not proxy_variables():
        return
    import psutil

    said = ",".join(os.environ.get(name, "") for name in ("no_proxy", "NO_PROXY")).split(",")
    kept = [entry.strip() for entry in said if entry.strip()]
    found = [each.address for of in psutil.net_if_addrs().values() for each in of if each.family == socket.AF_INET]
    own = ["localhost", "127.0.0.1", "::1", socket.gethostname(), *found]
    value = "*" if "*" in kept else ",".join(dict.fromkeys([*kept, *own]))  # a star counts only when it stands alone
    os.environ.update(no_proxy=value, NO_PROXY=value)
