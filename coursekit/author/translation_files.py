"""The files of translations, `locale/de/*.po`: brought up to the English, counted, and checked."""

from collections.abc import Callable, Iterator
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import polib

from coursekit.author.translatable import Text, names, texts
from coursekit.basics.errors import CommandError
from coursekit.basics.files import write_whole
from coursekit.basics.markdown_blocks import CODE, code_spans, formulas, link_targets, placeholders
from coursekit.basics.paths import ROOT
from coursekit.basics.translations import INTERFACE, SOURCE, languages

if TYPE_CHECKING:
    from rich.table import Table

SIMILAR = 0.5  # of the words: from here on, a translation is offered for a changed text
HEAD = {"MIME-Version": "1.0", "Content-Type": "text/plain; charset=UTF-8", "Content-Transfer-Encoding": "8bit"}
VALUES_IN = ("message", "site", "exercises/")  # what has `{placeholders}`: contexts, and a file


def update(language: str, wanted: list[str], root: Path = ROOT) -> list[Path]:
    """Bring these files of a language up to the English, without names those that it has, and return which changed."""
    if not (len(language) == 2 and language.isascii() and language.islower()) or language == SOURCE:
        raise CommandError(
            f"Name the language by its two letters, not {language!r}. For German: coursekit translate de"
        )
    wanted = wanted or [name for name in names(root) if (root / f"locale/{language}/{name}.po").exists()]
    if not wanted:
        raise CommandError(f"Name what to begin with: coursekit translate {language} {INTERFACE} {names(root)[0]}")
    changed = []
    for name, entries in [(name, texts(name, root)) for name in wanted]:
        path = root / f"locale/{language}/{name}.po"
        text = f"{merged(_read(path), entries, language)}\n"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, text)
            changed.append(path)
    return changed


def _read(path: Path) -> polib.POFile:
    return polib.pofile(str(path), wrapwidth=0, encoding="utf-8") if path.exists() else polib.POFile(wrapwidth=0)


def merged(old: polib.POFile, entries: list[Text], language: str) -> polib.POFile:
    """Return the file for these texts: what `old` has translated stays, and what no text needs any more is obsolete."""
    new = polib.POFile(wrapwidth=0)
    new.header, new.metadata = old.header, old.metadata or {**HEAD, "Language": language}
    known = {(each.msgctxt, each.msgid): each for each in old}
    current = {(text.context, text.source) for text in entries}
    left = {key: each for key, each in known.items() if each.msgstr and key not in current}
    for text in entries:
        entry = known.get((text.context, text.source)) or _of_changed(text, left, known)
        entry.comment, entry.obsolete = text.note, False
        new.append(entry)
    for entry in left.values():
        entry.obsolete, entry.comment = True, ""
        new.append(entry)
    return new


_Entries = dict[tuple[str, str], polib.POEntry]


def _of_changed(text: Text, left: _Entries, known: _Entries) -> polib.POEntry:
    """Return the entry of a text that is new here: translated where the text only moved, fuzzy where one like it was translated."""
    entry = polib.POEntry(msgctxt=text.context, msgid=text.source)
    if moved := next((each for each in known.values() if each.msgstr and text.source == each.msgid), None):
        entry.msgstr, entry.flags, entry.previous_msgid = moved.msgstr, moved.flags, moved.previous_msgid
        left.pop((moved.msgctxt, moved.msgid), None)
    elif near := _nearest(text, list(left.values())):
        was = near.previous_msgid if near.fuzzy else near.msgid  # what its msgstr translates
        entry.msgstr, entry.tcomment = near.msgstr, near.tcomment
        if was != text.source:
            entry.flags, entry.previous_msgid = ["fuzzy"], was
        del left[near.msgctxt, near.msgid]
    return entry


def _nearest(text: Text, left: list[polib.POEntry]) -> polib.POEntry | None:
    """Return the entry most like a text, of the same kind; one of the same exercise goes before the others."""
    kind, matcher = text.context.split()[0], SequenceMatcher(autojunk=False)
    matcher.set_seq2(text.source.split())
    found: list[tuple[bool, float, polib.POEntry]] = []
    for entry in left:
        matcher.set_seq1((entry.previous_msgid or entry.msgid).split())
        if entry.msgctxt.split()[0] == kind and matcher.quick_ratio() >= SIMILAR and matcher.ratio() >= SIMILAR:
            found.append((entry.msgctxt == text.context, matcher.ratio(), entry))
    return max(found, key=lambda each: each[:2], default=(False, 0, None))[2]


class State(NamedTuple):
    """How much of a chapter is translated, and how many of its texts have changed since they were."""

    percent: int
    stale: int


def status(root: Path = ROOT) -> "Table":
    """Return the states as a table for the terminal."""
    from rich.table import Table

    table = Table("")
    for language in languages(root):
        table.add_column(language, justify="right")
    for name, found in states(root).items():
        table.add_row(name, *(said(state, "{percent}%, {stale} stale") for state in found))
    return table


def states(root: Path = ROOT) -> dict[str, list[State | None]]:
    """Return the state of each chapter, of the interface and of the pages in each language; None where nobody has begun."""
    found = {}
    for name in names(root):
        entries = texts(name, root)
        found[name] = [state(root / f"locale/{language}/{name}.po", entries) for language in languages(root)]
    return found


def state(path: Path, entries: list[Text]) -> State | None:
    """Return the state of one file of translations, None if there is none."""
    if not path.exists():
        return None
    new = [entry for entry in merged(_read(path), entries, path.parent.name) if not entry.obsolete]
    percent = 100 * sum(entry.translated() for entry in new) // max(1, len(new))
    return State(percent, sum(entry.fuzzy for entry in new))


def said(found: State | None, with_stale: str) -> str:
    """Return a state in words, without the part on stale blocks, which follows the percent sign, where none is stale."""
    if found is None:
        return "–"
    words = with_stale if found.stale else with_stale[: with_stale.index("%") + 1]
    return words.format_map(found._asdict())


def problems(path: Path) -> list[str]:
    """Return what is broken in a file of translations, a line each; what is untranslated or fuzzy breaks nothing."""
    shown = "/".join(path.parts[-3:])
    return [
        f"{shown}:{entry.linenum}: {problem}."
        for entry in _read(path)
        if entry.translated()
        for problem in _broken(entry, path.stem)
    ]


def _broken(entry: polib.POEntry, name: str) -> Iterator[str]:
    """Yield what a translation has lost of its English, or added to it."""
    said: list[tuple[str, Callable[[str], set[str]], bool]] = [
        ("code", code_spans, False),
        ("link", link_targets, False),
        ("formula", formulas, True),
    ]
    if name == INTERFACE or entry.msgctxt.startswith(VALUES_IN):
        said.append(("placeholder", placeholders, True))
    for what, of, both_ways in said:
        english, other = of(entry.msgid), of(entry.msgstr)
        yield from (f"the {what} {each!r} is missing" for each in sorted(english - other))
        yield from (f"the {what} {each!r} is not in the English" for each in sorted(other - english) if both_ways)
    if entry.msgctxt == "row" or entry.msgid.startswith("|"):
        columns = [CODE.sub("", text).replace(r"\|", "").count("|") for text in (entry.msgid, entry.msgstr)]
        if columns[0] != columns[1]:
            yield f"the row has {columns[1]} bars instead of {columns[0]}"
    if "\n\n" in entry.msgstr and "\n\n" not in entry.msgid:
        yield "an empty line would end the block"
