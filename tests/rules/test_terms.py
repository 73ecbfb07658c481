"""A translation says a term in one way: `locale/de/terms.toml` holds which, and what no translation says."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import polib
import pytest

from coursekit.basics.markdown_blocks import CODE, PLACEHOLDER, formulas, link_targets
from coursekit.basics.paths import ROOT

FILES = sorted(path for terms in ROOT.glob("locale/*/terms.toml") for path in terms.parent.glob("*.po"))
ITALIC = re.compile(r"(?<!\*)\*(?!\*)[^*]+\*(?!\*)")


def without_terms(entry: polib.POEntry, terms: dict[str, str], refused: dict[str, str]) -> Iterator[str]:
    """Yield the English terms that a translation says in another way, and the words that it should not have."""
    kept = [text for text in ITALIC.findall(entry.msgid) if text in entry.msgstr]  # a title, or a menu's entry
    english, translation = words(entry.msgid, kept).lower(), words(entry.msgstr, kept)
    plurals = {form: term for term in terms for form in (f"{term}s", f"{term}es", f"{term.removesuffix('y')}ies")}
    forms = {form.lower(): term for form, term in (plurals | dict(zip(terms, terms, strict=True))).items()}
    any_form = "|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True))  # the longest goes first
    for form in sorted(set(re.findall(rf"(?<![\w./-])(?:{any_form})(?![\w/-]|\.\w)", english))):
        if not re.search(terms[forms[form]], translation, re.IGNORECASE):
            yield f"{form!r} is {terms[forms[form]]!r}"
    for pattern, instead in refused.items():
        if found := re.search(pattern, translation):
            yield f"{found[0]!r} should be {instead!r}"


def words(text: str, kept: list[str]) -> str:
    """Return a text in one line, without its code, placeholders, formulas, and addresses, and without these parts."""
    for part in (*kept, *formulas(text), *link_targets(text)):
        text = text.replace(part, " ")
    return " ".join(PLACEHOLDER.sub(" ", CODE.sub(" ", text)).split())


def of_file(path: Path) -> list[str]:
    """Return what is wrong in a file of translations, a line each."""
    rules = tomllib.loads((path.parent / "terms.toml").read_text(encoding="utf-8"))
    return [
        f"{'/'.join(path.parts[-3:])}:{entry.linenum}: {wrong}."
        for entry in polib.pofile(str(path), encoding="utf-8")
        if entry.translated()
        for wrong in without_terms(entry, rules["terms"], rules["refused"])
    ]


RULES = """
[terms]
task = 'Task'
"task asks" = 'Aufgabe'
worker = 'Worker'
"worker process" = 'Workerproze'
policy = 'Polic'
[refused]
'Maschine(?!ll)' = 'Rechner'
"""
SAID = [
    ("Each task waits.", "Jeder Task wartet.", ""),
    ("Each task waits.", "Jede Aufgabe wartet.", "'task' is 'Task'"),
    ("What the task asks for", "Was die Aufgabe verlangt", ""),
    ("Two worker\nprocesses", "Zwei Worker", "'worker processes' is 'Workerproze'"),
    ("Policies, and `task`", "Regeln und `Task`", "'policies' is 'Polic'"),
    ("A task: `f`", "Aufgabe: `Task`", "'task' is 'Task'"),
    ("[It](task.md), *Run Task*, {task}, tasks/", "[Das](task.md), *Run Task*, {task}, tasks/", ""),
    ("On one computer", "Auf einer Maschine", "'Maschine' should be 'Rechner'"),
    ("Machine learning", "Maschinelles Lernen", ""),
]


@pytest.mark.parametrize(("english", "translation", "said"), SAID)
def test_a_term_that_is_said_in_another_way_is_named_with_its_line(tmp_path, english, translation, said):
    found = of_file(written(tmp_path, english, translation))
    assert found == ([f"locale/de/a.po:5: {said}."] if said else [])


@pytest.mark.parametrize(("english", "translation", "said"), SAID)
def test_a_translation_that_is_no_longer_shown_may_say_anything(tmp_path, english, translation, said):
    assert of_file(written(tmp_path, english, translation, flags=["fuzzy"])) == []
    assert of_file(written(tmp_path, english, translation, obsolete=True)) == []


def written(folder: Path, english: str, translation: str, **more) -> Path:
    """Return a file of translations beside the rules, with one entry."""
    (path := folder / "locale/de/a.po").parent.mkdir(parents=True, exist_ok=True)
    (path.parent / "terms.toml").write_text(RULES, encoding="utf-8")
    file = polib.POFile(wrapwidth=0)
    file.append(polib.POEntry(msgctxt="paragraph", msgid=english, msgstr=translation, **more))
    file.save(str(path))
    return path


@pytest.mark.parametrize("file", FILES, ids=lambda path: "/".join(path.parts[-2:]))
def test_a_translation_says_a_term_in_one_way(file):
    assert of_file(file) == []
