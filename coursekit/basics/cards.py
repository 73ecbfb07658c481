"""What the course says to a reader: text in a terminal, and a box of HTML in a notebook or on a page."""

import html
import re
from dataclasses import dataclass

from coursekit.basics.readers_language import told


def plural(number: int | float, noun: str) -> str:
    """Return a number with its noun: `1 point`, `2 points`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


_LETTERS, _JOINED = r"[^\W\d_]+", r"[^\W一-鿿]"  # Chinese has no blanks around a word
_EMPHASIS = re.compile(rf"(?<!{_JOINED})(?<!\*)\*({_LETTERS}(?: {_LETTERS})*)\*(?!{_JOINED}|\*)")


def prose(text: str) -> str:
    """Return plain text as HTML: escaped, `code` between backticks, *emphasis* between stars, lines kept."""
    parts = html.escape(text).replace("\n", "<br>").split("`")
    return "".join(
        f"<code>{part}</code>" if i % 2 else _EMPHASIS.sub(r"<em>\1</em>", part) for i, part in enumerate(parts)
    )


def link(text: str, address: str) -> str:
    """Return plain text as HTML, as a link where it has an address."""
    return f"<a href='{html.escape(address)}'>{prose(text)}</a>" if address else prose(text)


def card(title: str, body: str, colour: str) -> str:
    """Return a box of HTML that reads on a light and on a dark page: the title is nearer to the page's ink than `colour`."""
    ink = f"color:{colour};color:color-mix(in srgb,{colour} 55%,currentColor)"
    return (
        f"<div style='border-left:4px solid {colour};background:{colour}1a;padding:8px 12px;margin:4px 0;"
        f"border-radius:4px;font-family:system-ui,sans-serif;line-height:1.45'>"
        f"<div style='font-weight:600;{ink}'>{html.escape(title)}</div>{body}</div>"
    )


@dataclass(frozen=True)
class Note:
    """A message to the reader, with code or a link below it where there is one: a box in a notebook, text in a terminal."""

    title: str
    text: str
    colour: str = "#2563eb"
    code: str = ""
    link: tuple[str, str] = ("", "")  # its text and its address

    def __str__(self) -> str:
        return "\n".join(filter(None, [told(self.title), told(self.text), self.code, self.link[0]]))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        code = f"<pre>{html.escape(self.code)}</pre>" if self.code else ""
        return card(told(self.title), f"<div>{prose(told(self.text))}</div>{code}{link(*self.link)}", self.colour)
