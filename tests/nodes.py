"""A Ray cluster of three nodes on one machine, for the tests and benchmarks that grade on a cluster."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

CPUS = (1, 2, 2)  # of the head and the two other nodes


@contextlib.contextmanager
def three_nodes() -> Iterator[Any]:
    """Yield a cluster of its own, which no other program on this machine finds by itself."""
    import ray._private.utils
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ray._private.utils, "write_ray_address", lambda *_: None)
        patch.setenv("RAY_raylet_start_wait_time_s", "120")  # a busy machine needs more than Ray's 30
        three = Cluster(initialize_head=True, head_node_args={"num_cpus": CPUS[0], "include_dashboard": False})
        try:
            for cpus in CPUS[1:]:
                three.add_node(num_cpus=cpus)
            yield three
        finally:
            three.shutdown()
