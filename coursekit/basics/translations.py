"""What translators wrote, in `locale/de/ch01_tasks.po`: for each text its translation, or the English where none fits."""

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from coursekit.basics.errors import CommandError
from coursekit.basics.markdown_blocks import Block, rebuilt
from coursekit.basics.paths import ROOT

if TYPE_CHECKING:
    from polib import POEntry

SOURCE = "en"
INTERFACE = "interface"  # the file of what several chapters say, and the course itself
PAGES = "pages"  # that of the learners' pages and of the run sheets for days
NOUN = "noun"  # the context of what is counted
BOARD = "board"  # that of the words of the room's page, which asks for them by themselves
_PLACE = re.compile(r"\{(([^{}!:]+)(!r)?[^{}]*)\}")
_COUNTED = re.compile(r"plural\(.+, '(.+)'\)")
_IS_NUMBER = re.compile(r"(?:len|int|sum|max|min|round|_of|_shown)\(")
_NUMBER = re.compile(r"([\d.,]+) (.+)")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")  # 1,480, which elsewhere is less than two
_ENDS = re.compile(r"(\n(?: *[a-z]\) )?|(?<=[.!?]) +)")  # of sentences and lines; a line may be an option of a question
# A template that neither begins nor ends with so many letters, or has fewer in all, takes only values without blanks, or in backticks.
_AT_AN_END, _IN_ALL = 3, 6
_AFTER_WIDE = re.compile(r"(?<=[。！？：]) +")  # Chinese has no blanks between sentences
_END_OF_LINE = re.compile(r"(?<=[、，。：；！？）”])\n")
_MOST = 8  # sentences that stand in one entry


class Shown(NamedTuple):
    """A text to show; `stale` where it is the English, because nobody has translated it as it is now."""

    text: str
    stale: bool


class Translations:
    """The texts of one language: `lookup(context, source)`; beside its own those of `common`, such as the interface's."""

    def __init__(self, language: str, entries: Iterable["POEntry"], common: "Translations | None" = None):
        self.language = language
        own = {(each.msgctxt, each.msgid): each.msgstr for each in entries if each.translated()}
        self.has_begun = bool(own)
        self._texts: dict[tuple[str, str], str] = {**(common._texts if common else {}), **own}
        self._by_context = {context: text for (context, _), text in self._texts.items()}
        self._told: dict[str, str] = {}

    def __call__(self, context: str, source: str) -> Shown:
        """Return the translation of a text that stands in this context."""
        translation = self._texts.get((context, source))
        return Shown(translation or source, translation is None and self.language != SOURCE)

    def knows(self, context: str) -> bool:
        """Return whether anything that stands in this context is translated."""
        return context in self._by_context

    def of_context(self, context: str) -> dict[str, str]:
        """Return all that is translated of this context."""
        return {text: said for (where, text), said in self._texts.items() if where == context}

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
        return _made([each for each in self._templates if each.context == context], text, say)

    def message(self, message_id: str, values: Mapping[str, str], text: str, english: str = "") -> Shown:
        """Return a check's message, of which `text` is the English, with the values of its placeholders.

        `english` is the template where the id isn't made from it, but names what the framework says, such as crashed-KeyError.
        """
        context = "message crashed" if message_id.startswith("crashed-") else f"message {message_id}"
        template = self._texts.get((context, english)) if english else self._by_context.get(context)
        if template is None:
            said = self._whole(text)
            return Shown(said or text, said is None and self.language != SOURCE)

        def value(place: re.Match[str]) -> str:
            written, name, as_code = place.groups()
            plain = values.get(name, place[0])
            said = values.get(written, repr(plain) if as_code else plain)
            is_code = place.string[: place.start()].endswith("`")
            return said if is_code else self._whole(said) or self._raised(said)

        return Shown(_PLACE.sub(value, template), False)

    def _raised(self, text: str) -> str:
        """Return what an exception says, in translation where it comes from the course, behind the name of its class."""
        kind, colon, said = text.partition(": ")
        return f"{kind}{colon}{self._whole(said) or said}" if kind.isidentifier() else text

    def told(self, text: str) -> str:
        """Return what the course itself says, found by its look: whole, or block by block and sentence by sentence, as far as it is translated."""
        if text not in self._told:
            said = self._whole(text) or "\n\n".join(map(self._by_block, text.split("\n\n")))
            self._told[text] = _AFTER_WIDE.sub("", said)
        return self._told[text]

    def _by_block(self, text: str) -> str:
        return self._whole(text) or rebuilt(text, lambda block: self._by_sentences(block.text))

    def _by_sentences(self, text: str) -> str:
        """Return a text with each longest run of sentences that is translated in its translation."""
        parts, said = _ENDS.split(text), []
        while parts:
            ends = range(min(len(parts), 2 * _MOST - 1), 0, -2)
            end, found = next(((end, it) for end in ends if (it := self._whole("".join(parts[:end])))), (1, parts[0]))
            said += [found, *parts[end : end + 1]]
            del parts[: end + 1]
        return "".join(said)

    def _whole(self, text: str) -> str | None:
        """Return the translation of a text as one entry has it, with or without values; the blanks around it stay."""
        core = text.strip()
        said = self._exact.get(core) or self._counted(core) or _made(self._templates, core, self._value)
        return text.replace(core, said, 1) if core and said else None

    def _value(self, _: str, text: str) -> str:
        if _GROUPED.fullmatch(text):  # in Chinese as in English
            return text if self.language == "zh" else text.replace(",", "\N{NARROW NO-BREAK SPACE}")
        return self.told(text)

    def _counted(self, text: str) -> str | None:
        """Return the translation of a number with what is counted, None for all else."""
        found = _NUMBER.fullmatch(text)
        noun = self._texts.get((NOUN, found[2])) if found else None
        return f"{found[1]} {noun}" if found and noun else None

    @cached_property
    def _exact(self) -> dict[str, str]:
        texts = reversed(self._texts.items())  # of equal ones, the first counts
        return {
            text.strip(): said.strip()
            for (where, text), said in texts
            if where not in (NOUN, BOARD)
            and not where.startswith("picture ")  # a diagram may have the name of an exercise
        }

    @cached_property
    def _templates(self) -> list["_Template"]:
        programs = (
            (where, text, said) for (where, text), said in self._texts.items() if "/" in where or where == "cli"
        )
        return [_Template(*each) for each in programs if _PLACE.search(each[1])]


class _Template:
    """A sentence of a program with places for values, and its translation."""

    def __init__(self, context: str, source: str, translation: str):
        self.context, self._source, self.translation = context, source.strip(), translation.strip()
        self._literals = re.split(_PLACE.pattern.replace("(", "(?:"), self._source)

    def values(self, text: str) -> dict[str, str] | None:
        """Return which values make this text, by what stands in the braces; None where none do."""
        if not (text.startswith(self._literals[0]) and text.endswith(self._literals[-1])):
            return None
        if not all(literal in text for literal in self._literals):
            return None
        names, pattern = self._pattern
        found = pattern.fullmatch(text)
        return dict(zip(names, found.groups(), strict=True)) if found else None

    @cached_property
    def _pattern(self) -> tuple[list[str], re.Pattern[str]]:
        letters = [sum(map(str.isalpha, literal)) for literal in self._literals]
        few = max(letters[0], letters[-1]) < _AT_AN_END and sum(letters) < _IN_ALL
        names = list(dict.fromkeys(place[1] for place in _PLACE.finditer(self._source)))
        pattern = re.escape(self._source)
        for number, name in enumerate(names):
            counted = _COUNTED.fullmatch(name)
            value = (
                (r"[^`]+?" if f"`{{{name}}}`" in self._source else r"\S+?")
                if few
                else r"-?[\d.,]+(?:e[+-]\d+)?|“.+?”"
                if _IS_NUMBER.match(name)
                else ".*?"
            )
            value = rf"\S+ {re.escape(counted[1])}s?" if counted else value
            place = re.escape(f"{{{name}}}")
            pattern = pattern.replace(place, f"(?P<v{number}>{value})", 1).replace(place, f"(?P=v{number})")
        return names, re.compile(pattern, re.DOTALL)


def _made(templates: Iterable[_Template], text: str, say: Callable[[str, str], str]) -> str | None:
    """Return the translation of a text with the template of which it has most, None where it has none."""
    found = [(values, each.translation) for each in templates if (values := each.values(text)) is not None]
    if not found:
        return None
    values, translation = min(found, key=lambda each: sum(map(len, each[0].values())))

    def value(place: re.Match[str]) -> str:
        plain = values.get(place[1], place[0])
        return plain if translation.startswith("(", place.end()) else say(place[1], plain)  # what is called is code

    return _PLACE.sub(value, translation)


def flowing(markdown: str) -> str:
    """Return a text in which Chinese sentences don't stand on a line each: a page shows the end of a line as a blank."""
    return rebuilt(markdown, lambda block: _END_OF_LINE.sub("", block.text))


def context_of(block: Block, place: str = "") -> str:
    """Return where a block of Markdown stands: in `place`, such as "hint parallel_map", or as its kind in the text itself."""
    return place or block.kind


def place_of(tags: list[str]) -> str:
    """Return in which place the blocks of a cell stand: "notes", "solution", or "", the text itself."""
    return next((tag for tag in tags if tag in ("notes", "solution")), "")


@cache
def translated(chapter: str, language: str, root: Path = ROOT) -> Translations:
    """Return the lookup for a chapter's texts and those of the interface; raises CommandError for an unknown language."""
    if not chapter:
        return translated(INTERFACE, language, root)
    existing_language(language, root)
    file = root / f"locale/{language}/{chapter}.po"
    common = translated(INTERFACE, language, root) if chapter != INTERFACE else None
    return Translations(language, _entries(file) if file.exists() else [], common)


def _entries(file: Path) -> list["POEntry"]:
    """Return what a file holds; nothing, and say so, where it is broken: the reader then sees English."""
    import polib  # not where nothing is translated

    try:
        return list(polib.pofile(str(file)))
    except (OSError, ValueError) as error:
        print(f"The translations in {file} can't be read, so you see English: {error}", file=sys.stderr)
        return []


def existing_language(language: str, root: Path = ROOT) -> str:
    """Return a language that the course has; raises CommandError for another."""
    if language not in (known := [SOURCE, *languages(root)]):
        raise CommandError(f"There is no translation into {language!r}. There are: {', '.join(known)}.")
    return language


def languages(root: Path = ROOT) -> list[str]:
    """Return the languages that have a folder in locale/."""
    return sorted({path.parent.name for path in root.glob("locale/*/*.po")})
