"""Sphinx's settings. Everything that a page loads lies beside it: the site also opens from a folder, without a network."""

import json
import os
import re
from html import escape
from pathlib import Path

from babel import Locale
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.search.zh import SearchChinese

HERE = Path(__file__).parent
TEXTS = json.loads((HERE / "texts.json").read_text(encoding="utf-8"))
LANGUAGES = sorted(folder.name for folder in HERE.parent.iterdir())  # all of them, in folders side by side
REPOSITORY = os.environ.get("REPOSITORY", "").rstrip("/")  # https://github.com/OWNER/NAME

project = html_title = TEXTS["title"]
language = {"zh": "zh_CN"}.get(TEXTS["language"], TEXTS["language"])  # as Sphinx calls it
extensions = ["myst_nb"]
exclude_patterns = ["README.md", "*_list.md", "docs/**/_*"]
nb_execution_mode = "off"
myst_enable_extensions = ["alert", "dollarmath", "amsmath"]
myst_heading_anchors = 4
myst_url_schemes = ["http", "https", "mailto", "en"]  # en: an English page, from one in another language
html_theme = "sphinx_book_theme"
html_static_path = ["static"]
templates_path = ["templates"]
html_css_files = ["katex/katex.min.css", "site.css"]
html_js_files = [("katex/katex.min.js", {"defer": "defer"}), ("site.js", {"defer": "defer"})]
html_math_renderer = "katex"
html_use_index = False
html_copy_source = True
html_sourcelink_suffix = ""
html_context = {"default_mode": "auto"}
html_theme_options = {
    "use_download_button": True,
    "use_fullscreen_button": False,
    "navbar_persistent": [],
    "article_header_end": ["languages.html", "article-header-buttons.html"],
    "footer_content_items": ["extra-footer.html"],
    "extra_footer": TEXTS["license"],
    "search_bar_text": TEXTS["search"],
}
if REPOSITORY:
    html_theme_options |= {
        "repository_url": REPOSITORY,
        "use_repository_button": True,
        "repository_branch": "main",
        "launch_buttons": {"binderhub_url": "https://mybinder.org", "notebook_interface": "jupyterlab"},
        "icon_links": [
            {
                "name": TEXTS["codespaces"],
                "url": REPOSITORY.replace("https://github.com/", "https://codespaces.new/"),
                "icon": "fa-solid fa-laptop-code",
            }
        ],
    }


def inline_math(translator: nodes.NodeVisitor, node: nodes.math) -> None:
    """Write a formula for site.js to render."""
    translator.body.append(f'<span class="math">{escape(node.astext())}</span>')
    raise nodes.SkipNode


def displayed_math(translator: nodes.NodeVisitor, node: nodes.math_block) -> None:
    """Write a formula on lines of its own for site.js to render."""
    translator.body.append(f'<div class="math">{escape(node.astext())}</div>')
    raise nodes.SkipNode


def text_of(node: nodes.Node) -> str:
    """Return the words below a node, in HTML that has nothing but the sections, for the search to show an excerpt of."""
    if isinstance(node, nodes.Text):
        return escape(node.astext())
    words = "".join(text_of(child) for child in node.children if not isinstance(child, nodes.raw | nodes.comment))
    if isinstance(node, nodes.section):
        return f'<section id="{node["ids"][0]}">{words}</section>'
    return f"{words}\n" if isinstance(node, nodes.Element) and not isinstance(node, nodes.Inline) else words


def write_texts(app: Sphinx, error: Exception | None) -> None:
    """Write the texts of all pages as a script: a page that was opened from a folder may load it, but cannot fetch another page."""
    if error is None:
        texts = {name: text_of(app.env.get_doctree(name)) for name in sorted(app.env.found_docs)}
        (app.outdir / "_static/texts.js").write_text(f"const TEXTS = {json.dumps(texts)}\n", encoding="utf-8")


class PairsOfCharacters(SearchChinese):
    """Search Chinese without a dictionary of its words: what is searched for is split into pairs of characters, as the pages are."""

    language_name = "English"  # of the stemmer, which is for the Latin words

    js_splitter_code = """
    const pairs = (part) => /[一-鿿]/.test(part) ? [...part].slice(1).map((next, i) => part[i] + next) : [part];
    var splitQuery = (query) => query.split(/[^\\p{Letter}\\p{Number}_]+|([一-鿿]+)/u).filter(Boolean).flatMap(pairs);
    """

    def split(self, text: str) -> list[str]:
        """Return the Latin words and the pairs."""
        found = re.findall("[一-鿿]+", text)
        pairs = [run[place : place + 2] for run in found for place in range(len(run) - 1)]
        return self.latin1_letters.findall(text) + pairs


def add_languages(
    app: Sphinx, page: str, template: str, context: dict[str, object], doctree: nodes.document | None
) -> None:
    """Tell languages.html where the page is in each other language; one that lacks it has its home there."""
    up, found = "../" * (page.count("/") + (language != "en")), []
    for other in LANGUAGES:
        folder = HERE.parent / other
        has_page = page == "search" or any((folder / f"{page}{suffix}").exists() for suffix in (".md", ".ipynb"))
        address = f"{up}{'' if other == 'en' else f'{other}/'}{page if has_page else 'index'}.html"
        if other != TEXTS["language"]:
            found.append((other, Locale(other).display_name, address))
    context["other_languages"] = found


def setup(app: Sphinx) -> None:
    """Have KaTeX, which the course ships, show the formulas, and the search show excerpts without a server."""
    app.add_search_language(PairsOfCharacters)
    app.connect("html-page-context", add_languages)
    app.add_html_math_renderer("katex", (inline_math, None), (displayed_math, None))
    app.connect("build-finished", write_texts)
