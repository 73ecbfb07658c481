"""Chapters, docs and messages use the words that a native writer uses: few patterns, of whole words."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from coursekit.basics.paths import ROOT

# What is refused, and what to write instead. The rest is for an editor's eye: no sentence is bent to please a pattern.
REFUSED = {
    r"\banew\b": '"again" or "from scratch"',
    r"\bwhoever\b": "who does it: a worker, a sampler, you",
    r"\bfor ever\b": '"forever"',
    r"\bmend(s|ed|ing)?\b": '"fix"',
    r"\bbelong(s|ed)? into\b": '"belong in"',
    r"\bso many\b(?!.*\bthat\b)": '"N of them", or the number',
}
FILES = [
    *sorted((ROOT / "chapters").glob("*.py")),
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "coursekit").rglob("*.py")),
]
SENTENCE = re.compile(r"(?<=[.?!:])\s+|\n\s*\n|\n(?=\s*[-|#>*])")


def said(path: Path) -> Iterator[tuple[int, str]]:
    """Yield each sentence that a reader can meet in a file, with its line."""
    for first, text in _texts(path):
        start = 0
        for end in [*(match.end() for match in SENTENCE.finditer(text)), len(text)]:
            sentence, lead = text[start:end].strip(), len(text[start:end]) - len(text[start:end].lstrip())
            yield first + text.count("\n", 0, start + lead), " ".join(sentence.split())
            start = end


def _texts(path: Path) -> list[tuple[int, str]]:
    """Return the text of a page, or the strings of a program: where each begins, and what it says."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return [(1, text)]
    parts = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.JoinedStr | ast.Constant)]
    inside = {id(child) for node in parts if isinstance(node, ast.JoinedStr) for child in node.values}
    return [(node.lineno, _said_by(node)) for node in parts if id(node) not in inside]


def _said_by(node: ast.JoinedStr | ast.Constant) -> str:
    """Return the words of a string; a placeholder is a dot-free word of its own."""
    values = node.values if isinstance(node, ast.JoinedStr) else [node]
    return "".join(str(each.value) if isinstance(each, ast.Constant) else "…" for each in values)


def refused(path: Path) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{line}: {sentence!r}: write {instead} instead of {found[0]!r}"
        for line, sentence in said(path)
        for pattern, instead in REFUSED.items()
        if (found := re.search(pattern, sentence, re.IGNORECASE))
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_sentence_uses_a_native_writers_words(path):
    assert not (found := refused(path)), "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        (
            "First.\n\nIt starts anew. And on.",
            "3: 'It starts anew.': write \"again\" or \"from scratch\" instead of 'anew'",
        ),
        ("There are so many workers.", "1: 'There are so many workers.': write \"N of them\""),
        ("There are so many\nthat they wait.", ""),
        ("An amendment that recommends: forever.", ""),
        ("- Whoever waits\n- belongs\n  into a queue", "1: '- Whoever waits': write who does it"),
    ],
)
def test_a_remark_names_line_sentence_and_what_to_write(text, remark, tmp_path, monkeypatch):
    monkeypatch.setattr("tests.rules.test_voice.ROOT", tmp_path)
    (tmp_path / "page.md").write_text(text)
    found = refused(tmp_path / "page.md")
    assert found[0].startswith(f"page.md:{remark}") if remark else not found


def test_the_strings_of_a_program_are_read_and_its_code_is_not(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.rules.test_voice.ROOT", tmp_path)
    (tmp_path / "code.py").write_text('anew = 1  # whoever\n\nprint(f"{anew} is "\n    "mended")\n')
    [remark] = refused(tmp_path / "code.py")
    assert remark.startswith("code.py:3: '… is mended': write \"fix\"")
