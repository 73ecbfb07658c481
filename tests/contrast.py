"""How well the text of a page reads: its contrast with what lies below it (WCAG 2.2)."""

import re

import numpy as np
from playwright.sync_api import Page

LEAST = 4.5  # WCAG 2.2, success criterion 1.4.3
# Of each text in an element: its own words, its colour, and the ground that all boxes below it make together.
TEXTS = """root => {
    const layers = element => {
        const found = [];
        for (let each = element; each; each = each.parentElement) found.unshift(getComputedStyle(each).backgroundColor);
        return found;
    };
    const faint = element => element ? getComputedStyle(element).opacity * faint(element.parentElement) : 1;
    return [...root.querySelectorAll(':not(style)')].map(element => ({
        words: [...element.childNodes].filter(node => node.nodeType === 3).map(node => node.textContent.trim()).join(' ').trim(),
        ink: getComputedStyle(element).color, grounds: layers(element), opacity: faint(element),
    })).filter(each => each.words);
}"""


def luminance(rgb: np.ndarray) -> np.ndarray:
    """Return the relative luminance of colours in 0 to 1 (WCAG 2.2), shape [..., 3] to [...]."""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return np.asarray(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one: np.ndarray, other: np.ndarray) -> float:
    low, high = sorted([float(luminance(one)), float(luminance(other))])
    return (high + 0.05) / (low + 0.05)


def rgba(css: str) -> np.ndarray:
    """Return a computed colour, `rgb(…)`, `rgba(…)` or `color(srgb …)`, as four numbers in 0 to 1."""
    numbers = [float(number) for number in re.findall(r"[\d.]+(?:e-?\d+)?", css.replace("srgb", ""))]
    scale = 1 if css.startswith("color(") else 255
    return np.array([*(number / scale for number in numbers[:3]), *(numbers[3:] or [1.0])])


def over(ground: np.ndarray, colour: np.ndarray) -> np.ndarray:
    """Return what a colour that may be transparent shows on a ground."""
    return ground * (1 - colour[3]) + colour[:3] * colour[3]


def too_faint(page: Page, selector: str) -> list[tuple[str, float]]:
    """Return the texts of a page, below a selector, whose contrast is less than it must be, with it."""
    found = []
    for root in page.query_selector_all(selector):
        for text in root.evaluate(TEXTS):
            ground = np.ones(3)
            for layer in text["grounds"]:
                ground = over(ground, rgba(layer))
            ink = rgba(text["ink"]) * [1, 1, 1, text["opacity"]]
            found.append((text["words"], round(contrast(over(ground, ink), ground), 2)))
    assert len(found) > 20
    return [each for each in found if each[1] < LEAST]
