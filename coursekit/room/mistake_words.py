"""What the id of a message stands for, in words: the usual mistake, or the message itself without its values, which are never sent."""

import json
from functools import cache

from coursekit.basics.paths import PACKAGE
from coursekit.basics.readers_language import spoken, told, told_message
from coursekit.basics.translations import SOURCE
from coursekit.judging import exercise, message_ids

EXERCISES = PACKAGE / "exercises"
# Of the messages that every exercise has.
COMMON = {
    "crashed": "the code raised {kind}",
    "not-plain": "what came back is not plain data",
    "not-callable": "what was handed over cannot be called",
    "returns": "something else came back than the check needs",
    "missing": "the notebook has no answer by this name",
    "broken-cell": "the cell with the answer ended with an error",
    "quiz": "the answer is not a letter",
    "no-option": "the letter is not one of the options",
}
AN_EXCEPTION = "an exception"
UNKNOWN = "a message that this copy of the course does not have ({id})"


def words(chapter: str, name: str, message_id: str) -> str:
    """Return what the board says of a message at which somebody is: in another language the message itself, since mistakes have English names."""
    kind, _, more = message_id.partition("-")
    if kind == "quiz" and more:
        return f"{more}) {told(_options(chapter, name).get(more, ''), chapter)}".rstrip()
    common = told(COMMON.get("crashed" if kind == "crashed" else message_id, ""))
    common = common.format(kind=more or told(AN_EXCEPTION))
    if spoken() != SOURCE and (known := common or _told(chapter, name, message_id)):
        return known
    mistakes = _mistakes().get(chapter, {}).get(name, {}).get(message_id, [])
    usual = ", or ".join(mistake.replace("_", " ") for mistake in mistakes[:2])
    if common and usual:
        return common + f" (for example: {usual})"
    text, _ = _message(chapter, message_id)
    return common or usual or (f"“{text}”" if text else told(UNKNOWN).format(id=message_id))


def _told(chapter: str, name: str, message_id: str) -> str:
    """Return the translation of a message of a chapter's checks, "" where there is none."""
    text, values = _message(chapter, message_id)
    said = told_message((chapter, name), message_id, values, text).replace("….", "…")
    return said if said != text else ""


@cache
def _message(chapter: str, message_id: str) -> tuple[str, dict[str, str]]:
    """Return a message of a chapter's checks, and what it shows for its values; "" where it has none by this id."""
    for path in (EXERCISES / f"{chapter}.py", *sorted(EXERCISES.glob("_*.py"))):
        for literal in (each for found in message_ids.literals_of(str(path)).values() for each in found):
            if message_ids.id_of(literal.template) == message_id:
                text = literal.template
                for placeholder in literal.placeholders:
                    text = text.replace(f"{{{placeholder}}}", "…")
                return text.replace("….", "…"), dict.fromkeys(literal.placeholders, "…")
    return "", {}


def _options(chapter: str, name: str) -> dict[str, str]:
    try:
        item = exercise.load(chapter).get(name)
    except exercise.UnknownName:
        return {}
    return {letter: text for letter, (text, _) in item.options.items()} if isinstance(item, exercise.Quiz) else {}


@cache
def _mistakes() -> dict[str, dict[str, dict[str, list[str]]]]:
    """Return the names of the mistakes that end at each message, by chapter, exercise and id."""
    return dict(json.loads((EXERCISES / "mistakes.json").read_text(encoding="utf-8")))
