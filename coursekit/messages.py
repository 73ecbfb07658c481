"""Every message of a check has an id, by which results, reports, help for a mistake and translations go.

A check's message is written once, as a literal at its `expect`: its template, placeholders and all. The id is made from the
template, so it survives a change of lines, and a reworded message gets a new one. What the framework says itself has an id
by its kind:

- `todo`: the answer is not written yet; `crashed`, `crashed-KeyError`: it raised; `quiz`, `quiz-b`: what was chosen
- `not-plain`, `returns`, `form`: what came back cannot travel, is of another type, or not as the check expects
- `broken-cell`: the cell that defines the answer ended with an error, so nothing was judged
- `stopped`, `not-reached`: in grading, the answer ended its sandbox, or the notebook did before its check
- `check-failed`: in grading, what came back made the check itself fail; `own-test`: an instructor's own test failed
"""

import ast
import base64
import builtins
import hashlib
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

# Where a call has its message, by the name of what is called.
PLACES = {"expect": 1, "expect_equal": 2, "expect_close": 2, "Wrong": 0}
_OF_RAY = (
    "ActorDiedError",
    "GetTimeoutError",
    "ObjectLostError",
    "OutOfMemoryError",
    "RayTaskError",
    "TaskCancelledError",
    "WorkerCrashedError",
)
Span = tuple[int | None, int | None, int | None, int | None]  # first and last line, first and last column


def id_of(template: str) -> str:
    """Return the id of a template: six letters and digits."""
    return base64.b32encode(hashlib.sha256(template.encode()).digest())[:6].decode().lower()


def id_of_crash(kind: str) -> str:
    """Return the id of an exception by its class; a class of the learner's own is not named."""
    known = kind in _OF_RAY or isinstance(getattr(builtins, kind, None), type)
    return f"crashed-{kind}" if known else "crashed"


def id_at(trace: TracebackType | None, mistake: int | None = None) -> str:
    """Return the id of the message with which a check failed, "" where it is no literal.

    In the traceback, the innermost call with a literal counts; `mistake` is the place among its `mistakes`.
    """
    found = ""
    while trace is not None:
        code = trace.tb_frame.f_code
        texts = literals(code.co_filename).get(_span(trace), [])
        found = id_of(texts[0 if mistake is None else mistake + 1]) if texts else found
        trace = trace.tb_next
    return found


def templates(file: str) -> dict[str, str]:
    """Return all templates of a source file by their ids."""
    return {id_of(text): text for texts in literals(file).values() for text in texts}


@cache
def literals(file: str) -> dict[Span, list[str]]:
    """Return the literal templates of each call with a message, its message first and then its `mistakes`, by where it stands."""
    if not Path(file).is_file():  # a cell of a notebook
        return {}
    found: dict[Span, list[str]] = {}
    for node in ast.walk(ast.parse(Path(file).read_text(encoding="utf-8"))):
        call = node.exc if isinstance(node, ast.Raise) else node
        literal = [template_of(message) for message in messages_of(call)] if isinstance(call, ast.Call) else []
        if texts := [text for text in literal if text]:
            found[_place(node)] = texts
    return found


def messages_of(call: ast.Call) -> list[ast.expr | None]:
    """Return what a call has for the learner: its message, then its `mistakes`; nothing where it is no `expect` or its like."""
    name, named = getattr(call.func, "id", ""), {each.arg: each.value for each in call.keywords}
    if name == "exercise":  # of a table of cases
        return [named["message"]] if "message" in named else []
    if name not in PLACES:
        return []
    mistakes = named.get("mistakes")
    message = call.args[PLACES[name]] if len(call.args) > PLACES[name] else named.get("message")
    return [message, *(mistakes.keys if isinstance(mistakes, ast.Dict) else [])]


def template_of(node: ast.expr | None) -> str | None:
    """Return a literal as it is, an f-string with its placeholders as written, and None for all else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if not isinstance(node, ast.JoinedStr):
        return None
    parts = (str(part.value) if isinstance(part, ast.Constant) else _placeholder(part) for part in node.values)
    return "".join(parts)


def _placeholder(part: ast.expr) -> str:
    return ast.unparse(ast.JoinedStr([part]))[2:-1]


def _place(node: Any) -> Span:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def _span(trace: TracebackType) -> Span:
    return list(trace.tb_frame.f_code.co_positions())[trace.tb_lasti // 2]
