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

    read = ["no_proxy", "NO_PROXY", *(["no_grpc_proxy"] if "no_grpc_proxy" in os.environ else [])]
    said = ",".join(os.environ.get(name, "") for name in read).split(",")
    kept = [entry.strip() for entry in said if entry.strip()]
    if "*" in kept:  # nothing goes through a proxy, as long as the star stands alone
        os.environ.update(dict.fromkeys(read, "*"))
        return
    interfaces = psutil.net_if_addrs().values()
    addresses = [each.address for given in interfaces for each in given if each.family == socket.AF_INET]
    own = ["localhost", "127.0.0.1", "::1", socket.gethostname(), *addresses]
    os.environ.update(dict.fromkeys(read, ",".join(dict.fromkeys([*kept, *own]))))
