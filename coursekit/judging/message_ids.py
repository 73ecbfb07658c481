"""Every message of a check has an id, by which results, reports, help for a mistake and translations go.

A check's message is written once, as a literal at its `expect`: its template, placeholders and all. The id is made from the
template, so it survives a change of lines, and a reworded message gets a new one. What the framework says itself has an id
by its kind, and its template stands in `FRAMEWORK`; `quiz-b` is what an option of a quiz answers back.
"""

import ast
import base64
import builtins
import hashlib
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType, TracebackType

from coursekit.basics.syntax import parse

# An entry of hints/CHAPTER.md: what helps with a mistake, by its exercise and how its message begins.
MISTAKE_HINT = re.compile(
    r"^## (?P<exercise>\w+): (?P<begins>.+)\n(?P<text>((?!^##? )(.|\n))+?)```python\n(?P<code>(.|\n)+?)^```$",
    re.MULTILINE,
)
# Where a call has its message, by the name of what is called.
PLACES = {"expect": 1, "expect_equal": 2, "expect_close": 2, "Wrong": 0}
FRAMEWORK = {
    "todo": "Write your answer in the cell above, run that cell, then run this one again.",
    # Said before a check runs, in the notebook: what is missing would make it blame the answer.
    "no-ray": "This check needs a Ray with {needs}, and none is running. Run the chapter's cell with `ray.init`, then check again.",
    "small-ray": "This check needs a Ray with {needs}, and yours has {has}. Run the chapter's cell with `ray.init`, then check again.",
    "few-nodes": "This check needs a Ray with {needs}, and yours has {has}. Run the chapter's cells with `ray.init` and `add_nodes`, then check again.",
    "crashed": "Your code raised {error}",  # crashed-KeyError: with the class of an exception that everybody has
    "not-plain": "{problem}",
    "not-callable": "You handed over {value}. The check calls your answer, so hand over the function or class itself, by its name and without parentheses: `check({name!r}, {name})`.",
    "missing": "`{name}` does not exist here: its cell is missing, comes later, or ended with an error.",
    "returns": "The check needs {wanted}{place}, but it got {got}.",
    "unjudged": "The check itself failed, so your answer was not judged. That is the course's fault and not yours: please report it with these two lines.\n{check}: {error}\n{versions}",
    "own-request": "The check's own request failed, so your answer was not judged. Check again; if it stays so, report it with this line.\n{error}",
    "quiz": "Answer with one of the letters {letters}, in quotes.",
    "no-option": "There is no option {chosen}. Choose one of {letters}.",
    "interrupted": "Interrupted: your code was still in {where}. Nothing was recorded.",
    "interrupted-elsewhere": "Interrupted: the check was waiting for what your code had started, or comparing what came back. Nothing was recorded.",
    "broken-cell": "The cell that defines `{name}` ended with {error} when it last ran, so `{name}` may be an older version. Fix the cell, run it, and check again.",
    # In grading:
    "cell-failed": "The cell with `{name}` ended with {error}.",
    "cell-no-python": "The cell with `{name}` is not Python yet ({error}), so none of it ran.",
    "stopped": "Your code {reason}.",  # it ended its sandbox
    "not-reached": "{reason}",  # the notebook ended its sandbox before this check
    "own-test": "{error}",  # an instructor's own test failed
}
_OF_RAY = (
    "ActorDiedError",
    "GetTimeoutError",
    "ObjectLostError",
    "OutOfMemoryError",
    "RayTaskError",
    "TaskCancelledError",
    "WorkerCrashedError",
)


@dataclass(frozen=True)
class Said:
    """A message as it reached the learner: its words, the id of its template, and what the placeholders stood for."""

    text: str = ""
    id: str = ""
    values: dict[str, str] = field(default_factory=dict)


NOTHING_SAID = Said()


@dataclass(frozen=True)
class Literal:
    """A message in the source: its template, and the expression of each placeholder as the template names it."""

    template: str
    placeholders: dict[str, ast.FormattedValue]


def said(key: str, kind: str = "", **values: object) -> Said:
    """Return a message of the framework; `kind` is the class of the exception for "crashed"."""
    known = kind in _OF_RAY or isinstance(getattr(builtins, kind, None), type)
    name = f"{key}-{kind}" if known else key
    return Said(FRAMEWORK[key].format(**values), name, {each: str(value) for each, value in values.items()})


def framework_template(message_id: str) -> str:
    """Return the template of what the framework says, "" for a check's own message."""
    return FRAMEWORK.get(message_id) or (FRAMEWORK["crashed"] if message_id.startswith("crashed-") else "")


def id_of(template: str) -> str:
    """Return the id of a template: six letters and digits."""
    return base64.b32encode(hashlib.sha256(template.encode()).digest())[:6].decode().lower()


def at(trace: TracebackType | None, text: str, mistake: int | None = None) -> Said:
    """Return the message with which a check failed; without an id where it is no literal.

    In the traceback, the innermost call with a literal counts; `mistake` is the place among its `mistakes`.
    """
    found = Said(text)
    while trace is not None:
        literals = literals_of(trace.tb_frame.f_code.co_filename).get(trace.tb_lineno, [])
        if literals:
            found = _filled(literals[0 if mistake is None else mistake + 1], text, trace.tb_frame)
        trace = trace.tb_next
    return found


def _filled(literal: Literal, text: str, frame: FrameType) -> Said:
    values = {}
    for name, part in literal.placeholders.items():
        code = compile(ast.Expression(ast.JoinedStr([part], lineno=1, col_offset=0)), "<message>", "eval")
        values[name] = eval(code, frame.f_globals, frame.f_locals)
    return Said(text, id_of(literal.template), values)


def templates(file: str) -> dict[str, str]:
    """Return all templates of a source file by their ids."""
    return {id_of(each.template): each.template for found in literals_of(file).values() for each in found}


@cache
def literals_of(file: str) -> dict[int, list[Literal]]:
    """Return the messages of each call that has some, its message first and then its `mistakes`, by the line where it begins.

    Raises SyntaxError where two such calls begin on one line: nobody could tell whose message was shown.
    """
    if not Path(file).is_file():  # a cell of a notebook
        return {}
    found: dict[int, list[Literal]] = {}
    nodes = ast.walk(parse(Path(file).read_text(encoding="utf-8")))
    for node in (node for node in nodes if isinstance(node, ast.Call)):
        if here := [literal for message in messages_of(node) if (literal := literal_of(message))]:
            if node.lineno in found:
                raise SyntaxError(f"{file}:{node.lineno}: two calls with a message on one line: give each its own.")
            found[node.lineno] = here
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


def literal_of(node: ast.expr | None) -> Literal | None:
    """Return a string as it is, an f-string with its placeholders as written, and None for all else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return Literal(node.value, {})
    if not isinstance(node, ast.JoinedStr):
        return None
    parts = [part for part in node.values if isinstance(part, ast.FormattedValue)]
    texts = (str(part.value) if isinstance(part, ast.Constant) else _placeholder(part) for part in node.values)
    return Literal("".join(texts), {_placeholder(part)[1:-1]: part for part in parts})


def _placeholder(part: ast.expr) -> str:
    return ast.unparse(ast.JoinedStr([part]))[2:-1]
