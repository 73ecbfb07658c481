"""What the object store of this node holds, and what goes into it while a block runs."""

import contextlib
from collections.abc import Iterator

MB = 2**20  # bytes


def store() -> dict:
    """Return what Ray says of the object store of this node (see `coursekit.ray_bridge.records.stores`)."""
    from coursekit.ray_bridge import records

    return records.stores()[0]


class Made:
    """What was put into the store in a block: number of objects, and megabytes."""

    objects = megabytes = 0.0

    def __str__(self) -> str:
        return f"{self.objects:.0f} object{'s' * (self.objects != 1)}, {self.megabytes:.0f} MB"


@contextlib.contextmanager
def made() -> Iterator[Made]:
    """Count what goes into the store while the block runs: `with made() as copies: ...`, then `print(copies)`."""
    before, counted = store(), Made()
    yield counted
    after = store()
    counted.objects = after["created_objects"] - before["created_objects"]
    counted.megabytes = (after["created_bytes"] - before["created_bytes"]) / MB
