"""A quiz as its author writes it: the question, then options, each with what it answers back indented below it.

    Which way?

    a) Left.
        The river is there.
    *b) Right.
        Yes, to the bridge.

The star shows the key. Lines of one text are joined; in the question they stay as they are.
"""

import ast
import inspect
import re
from pathlib import Path

from coursekit.basics.syntax import parse as parse_source

Question = tuple[str, dict[str, tuple[str, str]], str]
_OPTION = re.compile(r"(\*?)([a-z])\) +(.+)")


def parse(text: str) -> Question:
    """Return the question, the options (what is shown, and what it answers back) and the key; raises ValueError for what is missing."""
    question: list[str] = []
    options: dict[str, tuple[list[str], list[str]]] = {}
    keys = []
    for line in inspect.cleandoc(text).splitlines():
        if match := _OPTION.fullmatch(line):
            star, letter, shown = match.groups()
            options[letter] = [shown], []
            keys += [letter] if star else []
        elif not options:
            question.append(line)
        elif line.strip():
            options[letter][line.startswith("  ")].append(line.strip())
    if not any(question) or len(options) < 2 or len(keys) != 1:
        raise ValueError(
            "a quiz needs a question, two options (`a) …`) or more, and a star before the one that is right"
        )
    if dumb := [letter for letter, (_, feedback) in options.items() if not feedback]:
        raise ValueError(f"option {dumb[0]} has no feedback: write it below the option, indented")
    joined = {letter: (" ".join(shown), " ".join(feedback)) for letter, (shown, feedback) in options.items()}
    return "\n".join(question).strip(), joined, keys[0]


def read(checks: Path) -> dict[str, Question]:
    """Return the questions of a chapter by name: text, options, key. They are read, not imported: a chapter's checks need Ray."""
    module = parse_source(checks.read_text(encoding="utf-8"))
    calls = [node.value for node in module.body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)]
    arguments = [map(ast.literal_eval, call.args) for call in calls if ast.unparse(call.func) == "question"]
    return {quiz: parse(text) for quiz, text in arguments}
