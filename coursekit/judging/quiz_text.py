"""A quiz as its author writes it: the question, then options, each with what it answers back indented below it.

    Which way?

    a) Left.
        The river is there.
    *b) Right.
        Yes, to the bridge.

The star shows the key. Lines of one text are joined; in the question they stay as they are.
"""

import inspect
import re

_OPTION = re.compile(r"(\*?)([a-z])\) +(.+)")


def parse(text: str) -> tuple[str, dict[str, tuple[str, str]], str]:
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
