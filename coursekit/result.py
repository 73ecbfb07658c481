"""The result of one check: text in a terminal, HTML in a notebook, and a JSON record for programs."""

import html
import re
from dataclasses import asdict, dataclass, field
from typing import Any

from coursekit.messages import NOTHING_SAID, Said

MIME = "application/vnd.coursekit+json"
MARKS = {"passed": "✔", "wrong": "✘", "todo": "…", "crashed": "⚡", "unjudged": "?"}
WORDS = {  # as people read them
    **{"passed": "passed", "wrong": "wrong", "crashed": "crashed", "todo": "not attempted"},
    "unjudged": "not judged",
}
COLOURS = {"passed": "#16a34a", "wrong": "#dc2626", "todo": "#64748b", "crashed": "#d97706", "unjudged": "#7c3aed"}
NOTHING = "Nothing came back: is a `return` missing?"


@dataclass(frozen=True)
class Result:
    """What came of one check: `status` is passed, wrong, todo, crashed or unjudged; `earned` of `points`.

    `message_id` is that of the message's template, and `values` what its placeholders stood for: programs go by these.
    """

    chapter: str
    name: str
    kind: str
    status: str
    points: int | float
    message: str = ""
    message_id: str = ""  # see `coursekit.messages`
    values: dict[str, str] = field(default_factory=dict)
    tried: str = ""
    got: str = ""
    where: str = ""
    seconds: float = 0.0
    share: float = 1.0  # of the points, where a test gives partial credit

    @classmethod
    def of(cls, item: Any, status: str, said: Said = NOTHING_SAID, **more: Any) -> "Result":
        """Return the result of an exercise or a quiz."""
        return cls(item.chapter, item.name, item.kind, status, item.points, said.text, said.id, said.values, **more)

    @property
    def earned(self) -> int | float:
        """Return the points that this result is worth."""
        if self.status != "passed":
            return 0
        return self.points if self.share == 1 else round(self.points * self.share, 6)

    @property
    def headline(self) -> str:
        """Return one line: the mark, the name, the points."""
        return self.headline_with(self.earned)

    def headline_with(self, earned: int | float) -> str:
        """Return the line where a person may have given other points."""
        points = f"{earned} of {plural(self.points, 'point')}" if self.points or earned else "not counted"
        return f"{MARKS[self.status]} {self.name}: {WORDS[self.status]}, {points}"

    def record(self) -> dict:
        """Return the result as plain data."""
        return asdict(self) | {"earned": self.earned}

    def details(self) -> list[tuple[str, str]]:
        """Return what to show below the message: label and code."""
        rows = [("Tried", self.tried), ("Came back", self.got), ("Look at", self.where)]
        return [(label, text) for label, text in rows if text]

    def __str__(self) -> str:
        lines = [self.headline, *(f"  {line}" for line in self.message.splitlines())]
        lines += [f"  {NOTHING}"] if self._came_back_empty() else []
        lines += [f"  {label}: {text}" for label, text in self.details()]
        if self.status in ("wrong", "crashed") and self.kind == "exercise":
            lines.append(f'  Stuck? hint("{self.name}")')
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return card(self.headline, self.body(), COLOURS[self.status])

    def body(self) -> str:
        """Return as HTML what stands below the headline."""
        body = f"<div>{prose(self.message)}</div>" if self.message else ""
        body += f"<div>{prose(NOTHING)}</div>" if self._came_back_empty() else ""
        for label, text in self.details():
            body += f"<div style='margin-top:4px'><span style='opacity:.7'>{label}</span> {prose(_code(text))}</div>"
        if self.status in ("wrong", "crashed") and self.kind == "exercise":
            ask = f'hint("{self.name}")'
            body += (
                f"<div style='margin-top:4px;opacity:.7'>Stuck? Type {prose(_code(ask))} in a cell of your own.</div>"
            )
        return body

    def _came_back_empty(self) -> bool:
        return self.status == "wrong" and self.got == "None"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict:
        return {"text/plain": str(self), "text/html": self._repr_html_(), MIME: self.record()}


def _code(text: str) -> str:
    return text if "`" in text else f"`{text}`"


def plural(number: int | float, noun: str) -> str:
    """Return a number with its noun: `1 point`, `2 points`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


_EMPHASIS = re.compile(r"(?<![\w*])\*([A-Za-z]+(?: [A-Za-z]+)*)\*(?![\w*])")


def prose(text: str) -> str:
    """Return plain text as HTML: escaped, `code` between backticks, *emphasis* between stars, lines kept."""
    parts = html.escape(text).replace("\n", "<br>").split("`")
    return "".join(
        f"<code>{part}</code>" if i % 2 else _EMPHASIS.sub(r"<em>\1</em>", part) for i, part in enumerate(parts)
    )


def card(title: str, body: str, colour: str) -> str:
    """Return a box of HTML that reads on a light and on a dark page."""
    return (
        f"<div style='border-left:4px solid {colour};background:{colour}1a;padding:8px 12px;margin:4px 0;"
        f"border-radius:4px;font-family:system-ui,sans-serif;line-height:1.45'>"
        f"<div style='font-weight:600;color:{colour}'>{html.escape(title)}</div>{body}</div>"
    )


@dataclass(frozen=True)
class Note:
    """A message to the reader, with code below it where there is some: a box in a notebook, text in a terminal."""

    title: str
    text: str
    colour: str = "#2563eb"
    code: str = ""

    def __str__(self) -> str:
        return "\n".join(filter(None, [self.title, self.text, self.code]))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        code = f"<pre>{html.escape(self.code)}</pre>" if self.code else ""
        return card(self.title, f"<div>{prose(self.text)}</div>{code}", self.colour)
