"""The result of one check: text in a terminal, HTML in a notebook, and JSON for programs."""

from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from coursekit.basics.cards import card, plural, prose
from coursekit.basics.readers_language import told, told_message
from coursekit.judging.message_ids import NOTHING_SAID, Said, framework_template

MIME = "application/vnd.coursekit+json"
SIGNS = {"passed": "✔", "wrong": "✘", "crashed": "⚡", "todo": "…", "unjudged": "?"}
# As people read them, in the order in which a summary names them.
WORDS = {status: status for status in SIGNS} | {"todo": "not attempted", "unjudged": "not judged"}
COLOURS = {"passed": "#16a34a", "wrong": "#dc2626", "todo": "#64748b", "crashed": "#d97706", "unjudged": "#7c3aed"}
NOT_COUNTED, OR = "not counted", "or"
INTERRUPTED = "interrupted"  # the one status that is never recorded, so no summary has it
NOTHING = "Nothing came back: either a `return` is missing, or your code ended without reaching one."


class Curve(NamedTuple):
    """The learning curve of a check's training: points (x, mean return), in order; `over` says what x counts."""

    over: str
    points: list[tuple[float, float]]


@dataclass(frozen=True)
class Result:
    """What came of one check: `status` is passed, wrong, todo, crashed, interrupted or unjudged; `earned` of `points`.

    `message_id` is that of the message's template, and `values` what its placeholders stood for: programs go by these.
    """

    chapter: str
    name: str
    kind: str
    status: str
    points: int | float
    message: str = ""
    message_id: str = ""  # see `coursekit.judging.message_ids`
    values: dict[str, str] = field(default_factory=dict)
    tried: str = ""
    got: str = ""
    where: str = ""
    seconds: float = 0.0
    share: float = 1.0  # the fraction of the points, where a test gives partial credit
    ran_tasks: bool = False  # whether `explain` can draw what ran
    curve: Curve | None = None  # what `explain` draws after a training run; it is written nowhere

    @classmethod
    def of(cls, item: Any, status: str, said: Said = NOTHING_SAID, **more: Any) -> "Result":
        """Return the result of an exercise or a quiz."""
        more["ran_tasks"] = getattr(item, "launches", False)
        return cls(item.chapter, item.name, item.kind, status, item.points, said.text, said.id, said.values, **more)

    @property
    def earned(self) -> int | float:
        """Return the points that this result is worth."""
        if self.status != "passed":
            return 0
        return self.points if self.share == 1 else round(self.points * self.share, 6)

    @property
    def headline(self) -> str:
        """Return one line: the sign, the name, the points."""
        return self.headline_with(self.earned)

    def headline_with(self, earned: int | float) -> str:
        """Return the line where a person may have given other points."""
        if self.status == INTERRUPTED:
            return f"■ {self.name}: {told(INTERRUPTED)}"
        points = f"{earned} of {plural(self.points, 'point')}" if self.points or earned else NOT_COUNTED
        return f"{SIGNS[self.status]} {self.name}: {told(WORDS[self.status])}, {told(points)}"

    def as_dict(self) -> dict:
        """Return the result as plain data."""
        kept = asdict(self) | {"earned": self.earned}
        del kept["curve"]
        return kept

    def details(self) -> list[tuple[str, str]]:
        """Return what to show below the message: label and code."""
        got = told("Your answer") if self.kind == "quiz" else told("Came back")
        rows = [(told("Tried"), told(self.tried)), (got, self.got), (told("Look at"), told(self.where))]
        return [(label, text) for label, text in rows if text]

    def shown_message(self) -> str:
        """Return the message in the reader's language."""
        english = framework_template(self.message_id)
        return told_message((self.chapter, self.name), self.message_id, self.values, self.message, english)

    def __str__(self) -> str:
        lines = [self.headline, *(f"  {line}" for line in self.shown_message().splitlines())]
        lines += [f"  {told(NOTHING)}"] if self._came_back_empty() else []
        lines += [f"  {label}: {text}" for label, text in self.details()]
        ask = f" {told(OR)} ".join(self._help())
        lines += [f"  {told('Stuck?')} {ask}"] if ask else []
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return card(self.headline, self.body(), COLOURS.get(self.status, COLOURS["todo"]))

    def body(self) -> str:
        """Return as HTML what stands below the headline."""
        body = f"<div>{prose(self.shown_message())}</div>" if self.message else ""
        body += f"<div>{prose(told(NOTHING))}</div>" if self._came_back_empty() else ""
        for label, text in self.details():
            body += f"<div style='margin-top:4px'><span style='opacity:.7'>{label}</span> {prose(_code(text))}</div>"
        if self._help():
            asked = f" {told(OR)} ".join(map(_code, self._help()))
            ask = told(f"Stuck? Type {asked} in a cell of your own.")
            body += f"<div style='margin-top:4px;opacity:.7'>{prose(ask)}</div>"
        return body

    def _help(self) -> list[str]:
        """Return the calls that help with a wrong answer: `explain` where tasks ran or something was learned, and nothing else went wrong."""
        if self.kind != "exercise" or self.status not in ("wrong", "crashed"):
            return []
        drawn = self.status == "wrong" and (self.ran_tasks or self.curve)
        calls = ["hint", "explain"] if drawn else ["hint"]
        return [f'{call}("{self.name}")' for call in calls]

    def _came_back_empty(self) -> bool:
        return self.status == "wrong" and self.got == "None"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict:
        return {"text/plain": str(self), "text/html": self._repr_html_(), MIME: self.as_dict()}


def _code(text: str) -> str:
    return text if "`" in text else f"`{text}`"
