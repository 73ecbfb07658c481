"""What the course says to its reader, in the language that they chose: `work/.course/language` names it.

A notebook's session and the commands for learners take it up, and what shows a text asks `told`. An instructor's room and pages
speak the language that they were given. Everything else keeps the English: results, marks, tables, the journal.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TypeVar

from coursekit.basics.files import write_whole
from coursekit.basics.paths import ROOT
from coursekit.basics.translations import SOURCE, Translations, existing_language, languages, translated

_WORK = "work"
_HANZI = re.compile("[一-鿿]")
# Those of Linux, macOS and Windows; Matplotlib's own font has no Chinese letters.
_CHINESE_FONTS = ["Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "Noto Sans CJK JP", "WenQuanYi Micro Hei"]
_CHINESE_FONTS += ["WenQuanYi Zen Hei", "Droid Sans Fallback", "PingFang SC", "Hiragino Sans GB", "Heiti TC", "STHeiti"]
_CHINESE_FONTS += ["Arial Unicode MS", "Microsoft YaHei", "SimHei"]
E = TypeVar("E", bound=Exception)
_reader: tuple[str, str, Path] = (SOURCE, "", ROOT)  # language, chapter, and the folder with locale/


def chosen(root: Path, course: Path | None = None) -> str:
    """Return the language of the learner's copies, English where none was chosen or its translations are gone.

    The translations are those of the learner's folder, or of a course that lies elsewhere.
    """
    language = SOURCE
    with suppress(OSError, UnicodeDecodeError):  # where there is none, or none that can be read
        language = _remembered(root).read_text(encoding="utf-8").strip()
    return language if language in languages(course or root) else SOURCE


def choose(root: Path, language: str) -> None:
    """Remember the language for all copies."""
    write_whole(_remembered(root), f"{language}\n")


def take_up(root: Path | None, chapter: str = "", course: Path | None = None) -> None:
    """Speak from now on as the copies in a learner's folder do, English without one."""
    global _reader
    _reader = (chosen(root, course), chapter, course or root) if root else (SOURCE, chapter, ROOT)


def take_up_in_notebook(chapter: str) -> None:
    """Speak as the learner's copy in which this runs: of another notebook, and where it is graded, English."""
    is_copy = Path.cwd().name == _WORK and "NBGRADER_EXECUTION" not in os.environ
    take_up(Path.cwd().parent if is_copy else None, chapter)
    if _reader[0] == "zh":
        _draw_chinese()  # before there are axes, which keep the fonts that they found


@contextmanager
def taken_up(root: Path, course: Path | None = None) -> Iterator[None]:
    """Speak for a while as the copies in a learner's folder do, in a course's own words."""
    with speaking(chosen(root, course), course or root):
        yield


@contextmanager
def speaking(language: str, root: Path = ROOT) -> Iterator[None]:
    """Speak a language for a while; raises CommandError for one that the course does not have."""
    global _reader
    before, _reader = _reader, (existing_language(language, root), "", root)
    try:
        yield
    finally:
        _reader = before


def spoken() -> str:
    """Return the language that the course speaks now."""
    return _reader[0]


def told(text: str, chapter: str = "") -> str:
    """Return what the course says to the reader, found by its English: of the chapter that has begun, or of another."""
    return text if _reader[0] == SOURCE else _translations(chapter).told(text)


def stays_english(chapter: str) -> bool:
    """Return whether the reader has another language, into which nothing of a chapter is translated."""
    return _reader[0] != SOURCE and not _translations(chapter).has_begun


def with_translation(error: E) -> E:
    """Return an exception, whose text stays English for results, with the reader's language in a note below it."""
    if (said := told(str(error))) != str(error):
        error.add_note(said)
    return error


def told_in_plot(text: str) -> str:
    """Return what a plot says to the reader: English where no font of this machine has the letters."""
    said = told(text)
    return text if _HANZI.search(said) and not _draw_chinese() else said


@cache
def _draw_chinese() -> bool:
    """Have Matplotlib draw Chinese letters with a font of this machine, and return whether there is one."""
    try:
        from matplotlib import font_manager, rcParams
    except ImportError:
        return False
    found = [font for font in _CHINESE_FONTS if font in font_manager.get_font_names()][:1]
    rcParams["font.family"] = [*rcParams["font.family"], *found]
    return bool(found)


def told_message(of: tuple[str, str], message_id: str, values: Mapping[str, str], text: str, english: str = "") -> str:
    """Return the message of a check; `of` are its chapter and its exercise, and `english` as in `Translations.message`."""
    if _reader[0] == SOURCE:
        return text
    say, letter = _translations(of[0]), message_id.partition("quiz-")[2]
    return (
        say(f"quiz {of[1]} {letter} reply", text) if letter else say.message(message_id, values, text, english)
    ).text


def told_markdown(text: str, chapter: str, place: str = "") -> str:
    """Return a text of a chapter; `place` is where it stands, such as "hint parallel_map"."""
    return text if _reader[0] == SOURCE else _translations(chapter).markdown(text, place)


def all_told(context: str) -> dict[str, str]:
    """Return the texts of the interface that stand in a context, with their translations; none in English."""
    return {} if _reader[0] == SOURCE else _translations("").of_context(context)


def _translations(chapter: str) -> Translations:
    language, begun, root = _reader
    return translated(chapter or begun, language, root)


def _remembered(root: Path) -> Path:
    return root / _WORK / ".course" / "language"
