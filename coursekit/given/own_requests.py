"""The requests that a check itself makes, to programs of this machine."""

import contextlib
from collections.abc import Iterator

from coursekit.judging.answer import OwnRequestFailed


@contextlib.contextmanager
def own_request(url: str) -> Iterator[None]:
    """Raise OwnRequestFailed where the block's request gets no answer: that must mark no learner's answer wrong."""
    import requests

    try:
        yield
    except (ConnectionError, requests.ConnectionError) as error:
        raise OwnRequestFailed(f"{url}: {type(error).__name__}: {error}") from error
