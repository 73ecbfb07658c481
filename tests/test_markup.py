"""A student's text in the pages of nbgrader: it is shown, and does nothing."""

import base64

import pytest

from coursekit.grading.comments import as_html
from coursekit.grading.markup import inert, pictures, without_dead_pictures
from coursekit.grading.submission import text_of
from tests.live_markup import live_in, live_in_page

LIVE = [
    "<script>alert(1)</script>",
    "hello <img src=x onerror=alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<base href='https://example.org/'>",
    "<meta http-equiv=refresh content='0;url=https://example.org'>",
    "text <svg onload=alert(1)>",
    "<a href='javascript:alert(1)'>marks</a>",
    "[marks](javascript:alert(1))",
    "[marks]( javascript:alert(1))",
    "[marks](<javascript:alert(1)>)",
    "[marks](< java\tscript:alert(1)>)",
    "[marks](&#106;avascript&colon;alert(1))",
    "[marks](java\\script\\:alert(1))",
    "[marks](JAVASCRIPT:alert(1) 'a title')",
    "[marks][1]\n\n[1]: javascript:alert(1)",
    "[marks]\n\n[marks]:\n  vbscript:alert(1)",
    "> [marks][1]\n>\n> [1]: javascript:alert(1)",
    "<javascript:alert(1)>",
    "[marks](data:text/html;base64,PHNjcmlwdD4=)",
    "```mermaid\n<img src=x onerror=alert(1)>\n```",
    "    </code></pre><script>alert(1)</script>\n\n<?php ?> <!-- --> <script>",
    "# <b onclick=alert(1)>x</b>",
    "| a |\n|---|\n| <style>*{display:none}</style> |",
]


@pytest.mark.parametrize("text", LIVE)
def test_a_text_is_shown_and_does_nothing(text):
    assert live_in(text) != []
    assert live_in(inert(text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "I think that $a < b$, and `x <= 3` in **most** cases: see [Ray](https://ray.io), [there](ch01_tasks.ipynb#top) or ![it](attachment:image.png).",
        "```python\nif a < 3 and b[0] < 4:\n    run(b[1])\n```",
        "- one\n- two [section](#results)\n\n[docs]: https://docs.ray.io\n\n| a | b |\n|---|---|\n| 1 | 2 |",
    ],
)
def test_a_text_without_markup_stays_as_it_is(text):
    assert inert(text) == text


def test_pictures_are_of_known_kinds_and_base64():
    data = base64.b64encode(b"picture").decode()
    attachments = {
        "a.png": {"image/png": data, "image/x' onerror='alert(1)": data},
        "b.svg": {"image/svg+xml": [data]},
        "c.png": {"image/png": "x' onerror='alert(1)"},
        "d.png": {"text/html": data},
        'e" x="': {"image/png": data},
        "\ud800": {"image/png": data},
        "f.png": "text",
    }
    found = pictures(attachments)
    assert found == {"a.png": {"image/png": data}, "b.svg": {"image/svg+xml": data}}
    text = without_dead_pictures("![a](attachment:a.png) ![c](attachment:c.png)", found)
    assert text == "![a](attachment:a.png) ![c](c.png)"
    assert live_in(text, found) == []


def test_a_folders_name_is_no_markup():
    assert text_of("<img src=x>").startswith("\\x3cimg src=x\\x3e~")
    assert text_of("Zoë O'Neill & Söhne") == "Zoë O'Neill & Söhne"


# Comments, which may quote a student


@pytest.mark.parametrize("text", LIVE)
def test_a_comment_that_quotes_what_is_live_shows_it(text):
    assert live_in_page(as_html(text)) == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "Use `x < y`, **not** `x > y`.",
            "<p>Use <code>x &lt; y</code>, <strong>not</strong> <code>x &gt; y</code>.</p>",
        ),
        ("You wrote <class 'int'>.", "<p>You wrote &lt;class 'int'&gt;.</p>"),
        ("- one\n- two", "<ul>\n<li>one</li>\n<li>two</li>\n</ul>"),
        ("See [the docs](https://docs.ray.io).", '<p>See <a href="https://docs.ray.io">the docs</a>.</p>'),
        ("![a plot](https://example.org/a.png)", '<p><a href="https://example.org/a.png">a plot</a></p>'),
        ("![a plot](attachment:a.png)", "<p><a>a plot</a></p>"),
        ("```python\nreturn x\n```", "<div><pre><span></span><span>return</span> <span>x</span>\n</pre></div>"),
    ],
)
def test_a_comments_markdown_is_shown_as_such(text, shown):
    assert as_html(text) == shown
