"""Cards and plots read well on a light and on a dark page: a contrast of 4.5 at least, measured in Chromium."""

import ast
import base64
import io
from collections.abc import Iterator

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from nbconvert import HTMLExporter
from nbformat.v4 import new_code_cell, new_notebook, new_output
from PIL import Image
from playwright.sync_api import Page

from coursekit.basics.cards import Note
from coursekit.basics.html_page import html_page
from coursekit.basics.paths import ROOT
from coursekit.judging.result import COLOURS, Curve, Result
from coursekit.learner.learning_curves import LearningCurves
from coursekit.learner.overview import Contents, progress
from coursekit.learner.timing import Comparison
from coursekit.ray_bridge.timeline import timeline
from tests.browser import chromium
from tests.contrast import LEAST, contrast, rgba, too_faint
from tests.prose import files


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with chromium() as browser:
        yield browser.new_page(viewport={"width": 1400, "height": 1400})


def notebook_in(theme: str, *bundles: dict) -> str:
    """Return a page of outputs as JupyterLab shows them: nbconvert takes its themes and the classes of its elements."""
    cells = [new_code_cell("", outputs=[new_output("display_data", bundle)]) for bundle in bundles]
    exporter = HTMLExporter(theme=theme, mathjax_url="", require_js_url="", jquery_url="", mermaid_js_url="")
    return str(exporter.from_notebook_node(new_notebook(cells=cells))[0])


def cards() -> list[str]:
    results = [
        Result("ch01_tasks", "as_task", "exercise", status, 2, "Look at `x`.", tried="f(1)", got="None", where="line 2")
        for status in COLOURS
    ]
    notes = [
        Note("Title", "Its text, with `code`.", colour, "x = 1", ("Next", "x.ipynb"))
        for colour in ("#2563eb", "#16a34a")
    ]
    contents = Contents([("✔", "as_task", 1, 5)], "A note.", {"as_task": "x.ipynb"})
    times = Comparison({"loop": [1.0, 1.1, 1.0, 1.2, 1.1], "tasks": [0.5, 0.6, 0.5, 0.6, 0.5]})
    return [each._repr_html_() for each in (*results, *notes, contents, times, progress())]


def plots() -> list[Figure]:
    matplotlib.use("agg")
    times = Comparison({"loop": [1.0, 1.1, 1.0], "tasks": [0.5, 0.6, 0.5]}).plot()
    tasks = [{"name": f"task{n}", "worker_pid": n, "started": n + 1.0, "ended": n + 3.0} for n in range(8)]
    curve = Curve("steps", [(0.0, 20.0), (2000.0, 90.0)])
    curves = LearningCurves("solve_cartpole", curve, curve, "Ours was recorded on 2 cores.")
    return [times.figure, timeline(tasks).figure, curves.plot(Figure(layout="constrained").subplots()).figure]


def png(figure: Figure) -> tuple[str, dict[str, tuple[int, ...]]]:
    """Return a plot as a notebook holds it, and of each text that it shows the pixels: left, top, right, bottom."""
    with io.BytesIO() as file:
        figure.savefig(file, format="png", dpi=figure.dpi)
        pixels, data = np.asarray(Image.open(file).convert("L")), base64.b64encode(file.getvalue()).decode()
    places = {}
    for text in figure.findobj(Text):
        left, bottom, right, top = text.get_window_extent().extents.round().astype(int)
        box = left, len(pixels) - top, right, len(pixels) - bottom
        if (
            text.get_text() and np.unique(pixels[box[1] : box[3], box[0] : box[2]]).size > 1
        ):  # else it is empty, or a tick's beyond the axis
            places[text.get_text()] = box
    return data, places


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_text_of_every_card_reads_well_in_jupyterlab(page, theme):
    page.set_content(notebook_in(theme, *({"text/html": card} for card in cards())), wait_until="domcontentloaded")
    assert too_faint(page, ".jp-RenderedHTML") == []


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_text_of_every_card_reads_well_on_a_page_of_the_course(page, theme):
    page.emulate_media(color_scheme=theme)
    page.set_content(html_page("A student", "".join(cards()), "student"))
    assert too_faint(page, "body") == []
    page.emulate_media(color_scheme="light")


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_labels_of_a_plot_read_well_in_jupyterlab_and_the_ground_is_like_the_pages(page, theme):
    style = {"text/html": Contents([])._repr_html_()}  # of the cell with `begin`
    for figure in plots():
        data, places = png(figure)
        page.set_content(notebook_in(theme, style, {"image/png": data}), wait_until="domcontentloaded")
        image = page.wait_for_selector(".jp-RenderedImage img")
        image.evaluate("image => { image.style.maxWidth = 'none'; return image.decode() }")
        shot = Image.open(io.BytesIO(image.screenshot())).convert("RGB")
        pixels = np.asarray(shot) / 255
        ground = np.median(pixels.reshape(-1, 3), axis=0)
        body = rgba(page.evaluate("getComputedStyle(document.body).backgroundColor"))[:3]
        assert contrast(ground, body) < 1.1
        assert len(places) > 5
        for words, (left, top, right, bottom) in places.items():
            letters = pixels[top:bottom, left:right].reshape(-1, 3)
            assert max(contrast(letter, ground) for letter in np.unique(letters, axis=0)) >= LEAST, words


LABELS = ("text", "annotate", "set_title", "set_xlabel", "set_ylabel", "suptitle")


def test_the_words_in_every_chapters_plots_read_well_on_white():
    """In white is what stands on something dark. On a dark page the lightness is reversed, and so is white."""
    faint = []
    for path in [*ROOT.glob("chapters/*.py"), *files("coursekit", ".py")]:
        calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
        for call in (call for call in calls if getattr(call.func, "attr", "") in LABELS):
            named = [
                word.value.value
                for word in call.keywords
                if word.arg == "color" and isinstance(word.value, ast.Constant)
            ]
            faint += [
                f"{path.name}:{call.lineno} {colour}"
                for colour in named
                if colour != "white" and contrast(np.array(to_rgb(colour)), np.ones(3)) < LEAST
            ]
    assert faint == []
