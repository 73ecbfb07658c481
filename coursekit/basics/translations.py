"""What translators wrote, in `locale/de/ch01_tasks.po`: for each text its translation, or the English where none fits."""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import polib

from coursekit.basics.errors import CommandError
from coursekit.basics.markdown_blocks import Block, rebuilt
from coursekit.basics.paths import ROOT

SOURCE = "en"
INTERFACE = "interface"  # the file of what several chapters say, and the course itself
_PLACE = re.compile(r"\{(([^{}!:]+)(!r)?[^{}]*)\}")


class Shown(NamedTuple):
    """A text to show; `stale` where it is the English, because nobody has translated it as it is now."""

    text: str
    stale: bool


class Translations:
    """The texts of one language: `lookup(context, source)`."""

    def __init__(self, language: str, entries: Iterable[polib.POEntry]):
        self._is_source = language == SOURCE
        self._texts = {(each.msgctxt, each.msgid): each.msgstr for each in entries if each.translated()}
        self._by_context = {context: text for (context, _), text in self._texts.items()}

    def __call__(self, context: str, source: str) -> Shown:
        """Return the translation of a text that stands in this context."""
        translation = self._texts.get((context, source))
        return Shown(translation or source, translation is None and not self._is_source)

    def block(self, block: Block, place: str = "") -> Shown:
        """Return the translation of a block of Markdown; `place` as in `context_of`."""
        return self(context_of(block, place), block.text)

    def markdown(self, source: str, place: str = "", mark: str = "") -> str:
        """Return a whole Markdown text, block by block, each stale one with `mark` behind it."""

        def say(block: Block) -> str:
            text, stale = self.block(block, place)
            end = len(text) - text.endswith("|")  # a row's last bar stays its last
            return text[:end] + mark + text[end:] if stale else text

        return rebuilt(source, say)

    def made(self, context: str, text: str, say: Callable[[str, str], str]) -> str | None:
        """Return the translation of a text that a program made from a template of this context; None where none is translated.

        `say` gives each value its text, by what stands in the template's braces. Of several templates, the one that explains most fits.
        """
        found = [
            (values, translation)
            for (where, template), translation in self._texts.items()
            if where == context and (values := _values(template, text)) is not None
        ]
        if not found:
            return None
        values, translation = min(found, key=lambda each: sum(map(len, each[0].values())))
        return _PLACE.sub(lambda place: say(place[1], values.get(place[1], place[0])), translation)

    def message(self, message_id: str, values: Mapping[str, str], text: str) -> Shown:
        """Return a check's message, of which `text` is the English, with the values of its placeholders."""
        template = self._by_context.get(f"message {message_id}")
        template = template or self._by_context.get(f"message {message_id.rpartition('-')[0]}")  # crashed-KeyError
        if template is None:
            return Shown(text, not self._is_source)

        def value(place: re.Match[str]) -> str:
            written, name, as_code = place.groups()
            plain = values.get(name, place[0])
            return values.get(written, repr(plain) if as_code else plain)

        return Shown(_PLACE.sub(value, template), False)


def _values(template: str, text: str) -> dict[str, str] | None:
    """Return which values make this text of a template, by what stands in its braces; None where none do."""
    names = list(dict.fromkeys(place[1] for place in _PLACE.finditer(template)))
    pattern = re.escape(template)
    for number, name in enumerate(names):
        place = re.escape(f"{{{name}}}")
        pattern = pattern.replace(place, f"(?P<v{number}>.+?)", 1).replace(place, f"(?P=v{number})")
    found = re.fullmatch(pattern, text, re.DOTALL)
    return dict(zip(names, found.groups(), strict=True)) if found else None


def context_of(block: Block, place: str = "") -> str:
    """Return where a block of Markdown stands: in `place`, such as "hint parallel_map", or as its kind in the text itself."""
    return place or block.kind


def place_of(tags: list[str]) -> str:
    """Return in which place the blocks of a cell stand: "notes", "solution", or "", the text itself."""
    return next((tag for tag in tags if tag in ("notes", "solution")), "")


@cache
def translated(chapter: str, language: str, root: Path = ROOT) -> Translations:
    """Return the lookup for a chapter's texts and those of the interface; raises CommandError for an unknown language."""
    existing_language(language, root)
    files = [root / f"locale/{language}/{name}.po" for name in (INTERFACE, chapter)]
    return Translations(language, [entry for file in files if file.exists() for entry in polib.pofile(str(file))])


def existing_language(language: str, root: Path = ROOT) -> str:
    """Return a language that the course has; raises CommandError for another."""
    if language not in (known := [SOURCE, *languages(root)]):
        raise CommandError(f"There is no translation into {language!r}. There are: {', '.join(known)}.")
    return language


def languages(root: Path = ROOT) -> list[str]:
    """Return the languages that have a folder in locale/."""
    return sorted({path.parent.name for path in root.glob("locale/*/*.po")})
