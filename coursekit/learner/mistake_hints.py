"""A hint of its own for a mistake: its effect, and the smallest example that shows it, measured when the hint is read.

They stand in `coursekit/exercises/hints/CHAPTER.md`, each under `## exercise: how the message begins`, with one block of Python.
"""

import io
import re
import time
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache

from coursekit.basics.paths import PACKAGE
from coursekit.basics.readers_language import told
from coursekit.judging import message_ids
from coursekit.judging.exercise import AuthorError, load

NOT_RUN, PRINTS = "not run: it needs a Ray with two free CPUs", "prints here, just now:"
EXERCISES = PACKAGE / "exercises"


@dataclass(frozen=True)
class MistakeHint:
    """What to say at one message of an exercise, and an example that prints what it measured."""

    text: str
    code: str

    def shown(self) -> str:
        """Return the example and what it has just printed; without a Ray that has room for its tasks, the example alone."""
        if "import ray" in self.code and not _has_room():
            return f"{self.code}\n# {told(NOT_RUN)}"
        return f"{self.code}\n# {told(PRINTS)}\n{printed(self.code)}"


def _has_room() -> bool:
    """Return whether a Ray runs with two free CPUs; what has just ended may hold them for a moment longer."""
    import ray

    until = time.monotonic() + 5
    while ray.is_initialized() and time.monotonic() < until:
        if ray.available_resources().get("CPU", 0) >= 2:
            return True
        time.sleep(0.2)
    return False


def printed(code: str) -> str:
    """Run an example and return the lines that it printed, as comments."""
    out = io.StringIO()
    with redirect_stdout(out):
        exec(compile(code, "<example>", "exec"), {"__name__": "__main__"})  # so that Ray sends its functions along
    return "".join(f"#   {line}\n" for line in out.getvalue().splitlines())


@cache
def mistake_hints(chapter: str) -> dict[tuple[str, str], MistakeHint]:
    """Return a chapter's hints by exercise and message id; raises AuthorError where a heading is not of one message."""
    path = EXERCISES / f"hints/{chapter}.md"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    found = {
        (entry["exercise"], _message_id(chapter, entry["exercise"], entry["begins"])): MistakeHint(
            entry["text"].strip(), entry["code"]
        )
        for entry in message_ids.MISTAKE_HINT.finditer(text)
    }
    if len(found) != len(re.findall(r"^## ", text, re.MULTILINE)):
        raise AuthorError(
            f"{path.name} has a heading `## …` twice, or one without a text and one block of Python below it."
        )
    return found


def _message_id(chapter: str, name: str, begins: str) -> str:
    if name not in load(chapter):
        raise AuthorError(f"hints/{chapter}.md: there is no exercise {name!r}.")
    if {begins, begins.partition("-")[0]} & message_ids.FRAMEWORK.keys():
        return begins
    files = (EXERCISES / f"{chapter}.py", *sorted(EXERCISES.glob("_*.py")))
    known = {each: text for file in files for each, text in message_ids.templates(str(file)).items()}
    ids = [each for each, text in known.items() if text == begins]
    ids = ids or [each for each, text in known.items() if text.startswith(begins)]
    if len(ids) != 1:
        raise AuthorError(f"hints/{chapter}.md: {len(ids)} messages begin with {begins!r}; there must be one.")
    return ids[0]
