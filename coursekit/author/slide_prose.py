"""What a text cell becomes on slides: a slide shows a claim, a picture, a table, a formula, or a question, and the speaker says the rest."""

import re
from dataclasses import dataclass, field

_BLOCK = re.compile(r"^```[\s\S]*?^```|(?:.+(?:\n|$))+", re.MULTILINE)
_HEADING = re.compile(r"#+ ")
_PREDICT = r"\*\*(?:Predict|Sag vorher|预测)\b"  # in each language
_WRITE = re.compile(r"\b(?:[Ww]rite|[Ss]chreib(?:st)?)\b|编写")
_FIGURE = re.compile(rf"!\[|\||\$\$|```|<|{_PREDICT}")
_LIST = re.compile(r"[-*] |\d+\. ")
_LABEL = re.compile(r"\*\*[^*]+\*\*")  # bold words alone, above a list
# What the builder writes above an answer, in each language.
TASK = re.compile(r"\*\*(?:\w+ `(\w+)`\*\* · |(?:Quiz|小测) ·)")
_UNSPOKEN = re.compile(r"#+ |!\[")
_LEADS_ON = (":", "：")


@dataclass
class Part:
    """What one slide has of a text cell: the blocks that it shows, and those for its notes."""

    shown: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)


def parts(source: str, caption: str = "") -> list[Part]:
    """Return the slides that a text cell becomes, in order.

    A heading has a picture, a table, or a question below it, or else the first sentence of its text. With the caption that stands at
    the output above, the first of them is that output's slide.
    """
    found, before = [Part([caption] if caption else [])], ""
    for block in blocks(source):
        part = found[-1]
        begins = _HEADING.match(block) or (_FIGURE.match(block) and not _is_only_headings(part))
        if begins and (part.shown or part.said):
            _claim(part)
            found.append(part := Part())
        if _needs(block, before):
            part.shown.append(before.splitlines()[-1])
        if _HEADING.match(block) or _FIGURE.match(block):
            part.shown.append(block)
        elif _LABEL.fullmatch(block) or (_LIST.match(block) and (_LABEL.fullmatch(before) or _HEADING.match(before))):
            _claim(part)
            part.shown.append(_first_lines(block))
        if not _UNSPOKEN.match(block):
            part.said.append(block)
        before = block
    _claim(found[-1])
    return found


def blocks(source: str) -> list[str]:
    """Return the paragraphs, lists, tables and listings of a text."""
    return [block.strip() for block in _BLOCK.findall(source)]


def caption(source: str) -> str:
    """Return the first sentence of a text that follows an output, "" if it begins with something else."""
    first = source.partition("\n")[0]
    other = any(kind.match(first) for kind in (_HEADING, _FIGURE, _LIST, TASK)) or first.endswith(_LEADS_ON)
    return "" if other else first


def lead(source: str) -> str:
    """Return the last sentence of a text if it leads to the code below, else ""."""
    last = source.splitlines()[-1] if source else ""
    return last if last.endswith(_LEADS_ON) and not _HEADING.match(last) else ""


def task(source: str, name: str) -> str:
    """Return the sentence of a text that says what to write as `name`, "" if the answer's own docstring has to say it."""
    asked = [line for line in source.splitlines() if _WRITE.search(line)]
    return next((line for line in asked if f"`{name}`" in line), asked[-1] if asked else "")


def _needs(block: str, before: str) -> bool:
    """Return whether the sentence before a block is shown with it: it leads there, or it describes what a short question is about."""
    if re.match(_PREDICT, block):
        return "\n" not in block and caption(before) != ""
    return bool(_FIGURE.match(block)) and before.endswith(_LEADS_ON)


def _is_only_headings(part: Part) -> bool:
    return all(_HEADING.match(block) for block in part.shown)


def _claim(part: Part) -> None:
    """Show the first sentence of what is said where nothing else is shown, unless it only leads to something else."""
    first = part.said[0].splitlines()[0] if part.said else ""
    if _is_only_headings(part) and first and not first.endswith(_LEADS_ON) and not _LABEL.fullmatch(first):
        part.shown.append(first)


def _first_lines(block: str) -> str:
    """Return a list with the first sentence of each item; of other blocks, all."""
    lines = block.splitlines()
    return "\n".join(line for line in lines if _LIST.match(line)) if _LIST.match(block) else block
