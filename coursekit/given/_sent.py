"""What actors are sent while an answer of chapter 10 or 20 learns: whose weights, and whether they were new."""

import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from coursekit.ray_bridge import patches, private


@contextmanager
def sent_to_actors() -> Iterator[list[tuple[str, list[int]]]]:
    """Yield a list that has (actor, marks), once the block has ended, for each call with arrays in its arguments.

    Equal arrays have equal marks. A reference stands for what it refers to.
    """
    sent: list[tuple[str, list[int]]] = []
    with patches.noted_actor_calls(lambda actor, _, arguments: (private.actor_id(actor), _marks(arguments))) as calls:
        yield sent
    told = [(actor, [mark for part in arguments for mark in _arrived(part)]) for actor, arguments in calls]
    sent += [(actor, marks) for actor, marks in told if marks]


def _marks(value: Any) -> list:
    """Return a number for each array in a nest of dicts and lists, by which it is known again; references stay."""
    import ray
    import torch

    if isinstance(value, torch.nn.Module):
        value = value.state_dict()
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [mark for part in value for mark in _marks(part)]
    if isinstance(value, ray.ObjectRef):
        return [value]  # what it refers to may not exist yet: no need to wait for it here
    array = value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else value
    return [zlib.crc32(array.tobytes())] if isinstance(array, np.ndarray) else []


def _arrived(mark: Any) -> list[int]:
    """Return a mark as it is, or those of what a reference refers to; none where that is lost."""
    import ray

    if isinstance(mark, int):
        return [mark]
    try:
        return [part for each in _marks(ray.get(mark, timeout=10)) for part in _arrived(each)]
    except ray.exceptions.RayError:
        return []
