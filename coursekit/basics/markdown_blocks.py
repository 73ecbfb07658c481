"""Markdown as the blocks that are translated one by one: headings, paragraphs, items of lists, rows of tables.

Code, displayed formulas and HTML are blocks that stay as they are, a line each. The blocks, joined, are the text again.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

_LINE = re.compile(r"(?P<before>[ >]*)(?P<mark>#{1,6} +|[-*+] +|\d{1,3}[.)] +)?(?P<text>.*)")
_OPENS = re.compile(r"(`{3,}|~{3,}|<!--|\$\$)(.*)")  # and reaches to a line with the same, or `-->`
_STAYS = re.compile(r"[|:\- ]*|<.*>|\$\$.*\$\$")  # a line that nobody translates
CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_FORMULA = re.compile(r"\$\$.+?\$\$|(?<![\\$\w])\$(?![ $])[^$\n]+?(?<! )\$(?!\d)")
_LINK = re.compile(r"(?<=\]\()[^()\s]+(?:\([^()\s]*\)[^()\s]*)*|(?<=<)https?://[^>\s]+")
_WORD = re.compile(r"[^\W\d_]{2}")
_TAG = re.compile(r"</?[a-z]+>")
PLACEHOLDER = re.compile(r"\{[^{}]+\}")


@dataclass(frozen=True)
class Block:
    """A block: `first` stands before its first line, `later` before each other one; no `kind` means that it stays as it is."""

    kind: str
    first: str
    text: str
    later: str = ""

    def with_text(self, text: str) -> str:
        """Return the block's lines with another text."""
        return self.first + text.replace("\n", f"\n{self.later}")


def blocks(markdown: str) -> list[Block]:
    """Return the blocks of a text, in order."""
    found: list[Block] = []
    for block in _lines(markdown):
        if found and _continues(found[-1], block):
            found[-1] = replace(found[-1], text=f"{found[-1].text}\n{block.text}", later=block.first)
        else:
            found.append(block)
    return [block if has_words(block.text) else replace(block, kind="") for block in found]


def rebuilt(markdown: str, say: Callable[[Block], str]) -> str:
    """Return a text in which `say` gives each block that is translated its text."""
    return "\n".join(block.with_text(say(block) if block.kind else block.text) for block in blocks(markdown))


def slugs(markdown: str) -> list[str]:
    """Return the names by which a link reaches the headings of a text, as MyST and GitHub make them."""
    headings = [re.sub(r"<[^>]+>", "", each.text).lower() for each in blocks(markdown) if each.first.startswith("#")]
    names = [re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings]
    return [f"{name}-{times}" if (times := names[:place].count(name)) else name for place, name in enumerate(names)]


def _lines(markdown: str) -> Iterator[Block]:
    """Yield a block for each line."""
    ends = ""
    for line in markdown.split("\n"):
        before, mark, text = re.fullmatch(_LINE, line).group("before", "mark", "text")  # type: ignore[union-attr]
        opens = _OPENS.match(text)
        if ends or opens or _STAYS.fullmatch(text):
            yield Block("", "", line)
            if ends:
                ends = "" if text.rstrip().endswith(ends) else ends
            elif opens:
                closing = opens[1].replace("<!--", "-->")
                ends = "" if opens[2].rstrip().endswith(closing) else closing
        elif mark:
            yield Block("heading" if mark.startswith("#") else "item", before + mark, text)
        else:
            yield Block("row" if text.startswith("|") else "paragraph", before, text)


def _continues(block: Block, line: Block) -> bool:
    """Return whether a line belongs to the block above it."""
    is_open = block.kind in ("paragraph", "item") and line.kind == "paragraph"
    return is_open and ("\n" not in block.text or block.later == line.first)


def has_words(text: str) -> bool:
    """Return whether there is something to translate beside code, formulas, addresses, tags and values."""
    for known in (CODE, _FORMULA, _LINK, _TAG, PLACEHOLDER):
        text = known.sub("0", text)
    return _WORD.search(text) is not None


def code_spans(text: str) -> set[str]:
    """Return what stands between backticks."""
    return {span[2] for span in CODE.finditer(text)}


def formulas(text: str) -> set[str]:
    """Return what is LaTeX, dollars included."""
    return set(_FORMULA.findall(CODE.sub("", text)))


def link_targets(text: str) -> set[str]:
    """Return the addresses to which links and pictures lead."""
    return set(_LINK.findall(CODE.sub("", text)))


def placeholders(text: str) -> set[str]:
    """Return what stands for a value, braces included."""
    return set(PLACEHOLDER.findall(text))
