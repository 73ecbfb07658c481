"""Comments that an instructor writes once, for all students whose answers end at the same message: comments.toml, beside the gradebook.

    [ch01_tasks.parallel_map]
    x4k2ab = "Start all tasks first: the first `ray.get` comes when all are on their way."

The ids of messages stand in class.html. What a person wrote in formgrader on one answer comes before it.
"""

import tomllib
from pathlib import Path

from coursekit.basics.errors import CommandError

FILE = "comments.toml"
Comments = dict[tuple[str, str, str], str]  # by chapter, exercise and message id


def load(folder: Path) -> Comments:
    """Return a course's comments, none where it has no such file; raises CommandError that names the entry."""
    path = folder / FILE
    try:
        chapters = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except (OSError, ValueError) as error:
        raise CommandError(f"{path} cannot be read: {error}") from None
    found: Comments = {}
    for chapter, exercises in chapters.items():
        for exercise, texts in _table(path, chapter, exercises).items():
            for message, text in _table(path, f"{chapter}.{exercise}", texts).items():
                if not isinstance(text, str):
                    raise CommandError(
                        f"{path}: {chapter}.{exercise}.{message} must be a text in quotes, not {type(text).__name__}."
                    )
                found[chapter, exercise, message] = text
    return found


def _table(path: Path, name: str, value: object) -> dict:
    if not isinstance(value, dict):
        raise CommandError(
            f'{path}: {name} must be a table: [chapter.exercise], and below it lines of the form id = "text".'
        )
    return value


def fitting(comments: Comments, line: dict) -> dict[str, str]:
    """Return the comments for what came of a notebook, by the id of the answer's cell."""
    found = {}
    for name, result in line["results"].items():
        if text := comments.get((result["chapter"], result["name"], result["message_id"])):
            found[f"answer_{name}"] = text
    return found
