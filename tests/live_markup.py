"""What a page would do more than show: scripts, frames, links that run."""

import re
from html.parser import HTMLParser

from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

SHOWS = {"p", "a", "em", "strong", "code", "pre", "br", "h1", "ul", "ol", "li", "img", "table", "thead", "tbody", "tr"}
SHOWS |= {"th", "td", "blockquote", "hr", "div", "span", "h2", "h3", "h4", "h5", "h6", "del", "input", "dl", "dt", "dd"}
SCHEMES = ("http:", "https:", "mailto:", "data:image/")


class Live(HTMLParser):
    """Collects what a page would do more than show."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attributes: list) -> None:
        if tag not in SHOWS:
            self.found.append(tag)
        for name, value in attributes:
            url = str(value).lower().strip() if name in ("href", "src") else ""
            runs = re.match(r"[^/#]*:", url) and not url.startswith(SCHEMES)
            if runs or name.startswith("on") or name in ("style", "srcdoc", "action", "formaction"):
                self.found.append(f"{name}={value}")


def live_in(text: str, attachments: dict | None = None) -> list[str]:
    """Return what is live in the page that nbconvert makes of a text cell."""
    renderer = IPythonRenderer(escape=False, attachments=attachments)
    return live_in_page(MarkdownWithMath(renderer=renderer).render(text))


def live_in_page(text: str) -> list[str]:
    """Return what is live in a page."""
    page = Live()
    page.feed(text)
    return page.found
