"""The private names of Ray that the course uses exist, and stand in one table."""

import ast
import re

import pytest

from coursekit.basics.paths import ROOT
from coursekit.ray_bridge import private
from tests.prose import files

PRIVATE = re.compile(r"ray\.(.*\.)?(_\w+|internal_kv|generated)\b")


@pytest.mark.parametrize("name", private.NAMES)
def test_a_private_name_of_ray_exists(name):
    assert getattr(private, name) is not None or name == "global_node"  # there is none before a Ray has started


def test_a_name_that_is_not_in_the_table_is_refused():
    with pytest.raises(AttributeError, match="none of the private names"):
        private.not_there  # noqa: B018


def test_no_other_module_names_what_is_private_to_ray():
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} {name}"
        for path in files("coursekit", ".py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in names(node)
        if PRIVATE.match(name)
    ]
    assert found == []


def names(node: ast.AST) -> list[str]:
    """Return what an import or an attribute names, in full."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return [ast.unparse(node)] if isinstance(node, ast.Attribute) else []
