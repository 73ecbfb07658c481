"""What a chapter's exercises declare. It's read, not imported: a chapter's checks need Ray."""

import ast
from pathlib import Path
from typing import NamedTuple

from coursekit.basics.syntax import parse


class Declared(NamedTuple):
    """What stands in an exercise's decorator."""

    minutes: int
    needs: dict[str, int]


def declared(checks: Path) -> dict[str, Declared]:
    """Return what each exercise of a chapter declares, by name, in the order written."""
    found = {}
    body = parse(checks.read_text(encoding="utf-8")).body
    for function in [node for node in body if isinstance(node, ast.FunctionDef)]:
        for call in function.decorator_list:
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "exercise":
                said = {each.arg: each.value for each in call.keywords}
                needs = ast.literal_eval(said["needs"]) if "needs" in said else {}
                found[function.name] = Declared(ast.literal_eval(said["minutes"]), needs)
    return found
