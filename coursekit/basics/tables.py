"""Tables for people and their spreadsheets."""

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

from coursekit.basics.files import write_whole

_FORMULA = re.compile(r"[\s\"\u200b-\u200f\u2060\ufeff]*[=+\-@]\s*\S", re.DOTALL)
_NUMBER = re.compile(r"[+-]?\d+([.,]\d+)?%?")


def harmless(value: object) -> object:
    """Return what a spreadsheet shows as it stands: a text that begins like a formula would be computed there.

    A tab, a line's end, a space or a quote before the sign, and its full-width form, count as well. A number stays a number,
    and a text with the apostrophe in front stays as this function made it.
    """
    if not isinstance(value, str) or value.startswith("'") or _NUMBER.fullmatch(value):
        return value
    begins = _FORMULA.match(unicodedata.normalize("NFKC", value)) or value[:1] in ("\t", "\r", "\n")
    return f"'{value}" if begins else value


def write_table(path: Path, rows: Iterable[Sequence[object]], separator: str = ",", encoding: str = "utf-8") -> None:
    """Write a CSV file, in full or not at all."""
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=separator).writerows([harmless(cell) for cell in row] for row in rows)
    write_whole(path, file.getvalue().encode(encoding))
