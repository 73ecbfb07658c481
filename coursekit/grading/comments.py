"""Comments on answers, in Markdown. Those that are for all whose answers end at the same message stand in comments.toml.

    [ch01_tasks.parallel_map]
    x4k2ab = "Start all tasks first: the first `ray.get` comes when all are on their way."

The ids of messages stand in class.html. What a person wrote in formgrader on one answer comes before it.
"""

import tomllib
from functools import cache
from pathlib import Path

from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbconvert.preprocessors.sanitize import SanitizeHTML

from coursekit.basics.errors import CommandError

FILE = "comments.toml"
TAGS = "a blockquote br code dd del div dl dt em h1 h2 h3 h4 h5 h6 hr input li ol p pre span strong table tbody td th thead tr ul"
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
                        f"{path}: {chapter}.{exercise}.{message} must be text in quotes, not {type(text).__name__}."
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


class _Renderer(IPythonRenderer):
    """Shows HTML as text, and a picture as a link to it: a student's page is one file."""

    def image(self, text: str, url: str, title: str | None = None) -> str:
        return str(self.link(text or url, url, title))


@cache
def as_html(comment: str) -> str:
    """Return a comment's Markdown as HTML that shows it and does nothing else: it may quote what a student wrote."""
    made = MarkdownWithMath(renderer=_Renderer(exclude_anchor_links=True)).render(comment)
    attributes = {"a": _leads_to_a_page, "input": ["type", "checked", "disabled"]}  # the latter of a list of tasks
    return str(SanitizeHTML(tags=TAGS.split(), attributes=attributes).sanitize_html_tags(made)).strip()


def _leads_to_a_page(tag: str, attribute: str, value: str) -> bool:
    return attribute == "href" and value.startswith(("https://", "http://", "mailto:"))
