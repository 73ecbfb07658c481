"""The language that the learner has chosen for the course's text: work/.course/language names it."""

from pathlib import Path

from coursekit.basics.files import write_whole
from coursekit.basics.translations import SOURCE, languages


def chosen(root: Path) -> str:
    """Return the language of the learner's copies, English where none was chosen or its translations are gone."""
    path = _remembered(root)
    language = path.read_text(encoding="utf-8").strip() if path.exists() else SOURCE
    return language if language in languages(root) else SOURCE


def choose(root: Path, language: str) -> None:
    """Remember the language for all copies."""
    write_whole(_remembered(root), f"{language}\n")


def _remembered(root: Path) -> Path:
    return root / "work" / ".course" / "language"
