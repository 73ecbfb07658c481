"""A page of HTML that is one file: what it looks like, in the reader's light or dark, is written into it."""

import html
import re

from coursekit.basics.paths import STATIC
from coursekit.basics.translations import SOURCE

PAGE = """<!doctype html>
<html lang="{language}"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
{styles}</style>
{body}
"""


# The words of a page that is written by hand: in its HTML, and where its script asks `say` for them.
WORDS = re.compile(r'(?<=aria-label=")[^"]+|(?<=>)[^<>]+(?=<)')
SAID = re.compile(r'\bsay\("([^"]+)"')


def html_page(title: str, body: str, style: str, language: str = SOURCE) -> str:
    """Return a whole page with this title, which is plain text, and body, which is HTML; `style` names its own file in static/pages/."""
    files = (STATIC / "look.css", STATIC / "pages/page.css", STATIC / f"pages/{style}.css")
    styles = "".join(file.read_text(encoding="utf-8") for file in files)
    return PAGE.format(language=language, title=html.escape(title), styles=styles, body=body)
