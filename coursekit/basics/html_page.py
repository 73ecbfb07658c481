"""A page of HTML that is one file: what it looks like, in the reader's light or dark, is written into it."""

import html

from coursekit.basics.paths import STATIC

PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
{styles}</style>
{body}
"""


def html_page(title: str, body: str, style: str) -> str:
    """Return a whole page with this title, which is plain text, and body, which is HTML; `style` names its own file in static/pages/."""
    styles = "".join((STATIC / "pages" / f"{name}.css").read_text(encoding="utf-8") for name in ("page", style))
    return PAGE.format(title=html.escape(title), styles=styles, body=body)
