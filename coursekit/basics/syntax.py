"""The syntax tree of Python source, for one thread at a time."""

import ast
import threading

_PARSER = threading.Lock()  # Python 3.11 may raise SystemError where two threads parse (python/cpython#106905)


def parse(source: str) -> ast.Module:
    """Return the tree of a module; raises what `ast.parse` raises."""
    with _PARSER:
        return ast.parse(source)
