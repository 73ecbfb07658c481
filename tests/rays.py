"""A Ray of a test module's own."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def a_ray(**settings: Any) -> Iterator[Any]:
    """Yield Ray, started with these settings and quiet; it ends with the block."""
    import ray

    from coursekit.ray_bridge.quiet import quiet

    quiet()
    ray.init(include_dashboard=False, log_to_driver=False, **settings)
    try:
        yield ray
    finally:
        ray.shutdown()
