"""Pictures of the course's environments, as Gymnasium's `rgb_array` gives them, and rows of such pictures.

Gymnasium draws with pygame, which is not a part of this course; a few rectangles and lines are enough.
"""

import base64
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL.ImageDraw import ImageDraw

FINE = 3  # drawn this many times larger and then shrunk: smooth edges
INK, AGENT, GOAL, HOLE, ICE, PALE = "#64748b", "#db2777", "#059669", "#475569", "#dbeafe", "#f1f5f9"


class Drawn(gymnasium.Wrapper):
    """An environment with `render()`, which returns a picture of shape [height, width, 3]: a corridor, FrozenLake or CartPole."""

    def __init__(self, env: gymnasium.Env):
        super().__init__(env)
        name = type(env.unwrapped).__name__
        painters = {"SimpleCorridor": draw_corridor, "FrozenLakeEnv": draw_lake, "CartPoleEnv": draw_cartpole}
        if name not in painters:
            raise ValueError(f"There is no picture of a {name}; choose one of {', '.join(painters)}.")
        self._paint = painters[name]

    @property
    def render_mode(self) -> str:  # type: ignore[override]
        """Return the kind of picture, for wrappers that ask."""
        return "rgb_array"

    def render(self) -> np.ndarray:  # type: ignore[override]
        """Return a picture of the environment as it is now."""
        return self._paint(self.unwrapped)


def draw_corridor(env: Any) -> np.ndarray:
    """Return a picture of a corridor: `env.length` squares, the exit in green, the agent on `env.position`."""
    size = 40
    picture, pen = _paper(size * env.length, size)
    for square in range(env.length):
        _square(pen, square, 0, size, GOAL if square == env.length - 1 else PALE)
    _agent(pen, env.position, 0, size)
    return _pixels(picture)


def draw_lake(env: Any) -> np.ndarray:
    """Return a picture of FrozenLake: ice, dark holes, the goal in green, the agent."""
    size = 40
    rows, columns = env.desc.shape
    picture, pen = _paper(size * columns, size * rows)
    for row, column in np.ndindex(rows, columns):
        _square(pen, column, row, size, {b"H": HOLE, b"G": GOAL}.get(env.desc[row, column], ICE))
    _agent(pen, env.s % columns, env.s // columns, size)
    return _pixels(picture)


def draw_cartpole(env: Any) -> np.ndarray:
    """Return a picture of CartPole: the cart on its track, between the two ends at which an episode stops, and the pole."""
    width, height, axle, pole = 240, 140, 110, 85
    picture, pen = _paper(width, height)
    position, _, angle, _ = env.state
    x = width / 2 + position / env.x_threshold * (width / 2 - 20)
    for end in (20, width - 20):
        _line(pen, (end, axle + 2), (end, axle + 14), 2, AGENT)
    _line(pen, (0, axle + 8), (width, axle + 8), 2, INK)
    pen.rectangle([FINE * (x - 20), FINE * (axle - 8), FINE * (x + 20), FINE * (axle + 8)], fill=INK)
    _line(pen, (x, axle), (x + pole * math.sin(angle), axle - pole * math.cos(angle)), 7, AGENT)
    return _pixels(picture)


def strip(frames: Sequence[np.ndarray], titles: Sequence[str], columns: int = 6) -> "Figure":
    """Return a figure with the pictures side by side, `columns` in a row, each below its title."""
    import matplotlib.pyplot as plt

    rows, (height, width) = -(-len(frames) // columns), frames[0].shape[:2]
    wide = 10 / columns
    figure, grid = plt.subplots(rows, columns, figsize=(10, rows * (wide * height / width + 0.35)), squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
    for axes, frame, title in zip(grid.flat, frames, titles, strict=False):
        axes.imshow(frame)
        axes.set_title(title, fontsize=9)
    figure.tight_layout(pad=0.4)
    return figure


@dataclass(frozen=True)
class Film:
    """An animation that plays in a notebook, over and over; `gif` are its bytes."""

    gif: bytes
    frames: int

    def __repr__(self) -> str:
        return f"film of {self.frames} pictures"

    def _repr_html_(self) -> str:
        data = base64.b64encode(self.gif).decode()
        return f"<img src='data:image/gif;base64,{data}' alt='{self!r}'/>"


def film(frames: Sequence[np.ndarray], seconds_each: float = 0.04) -> Film:
    """Return an animation of the pictures, each shown for this many seconds."""
    from PIL import Image

    first, *others = [Image.fromarray(frame).quantize(64) for frame in frames]
    with io.BytesIO() as file:
        first.save(file, "GIF", save_all=True, append_images=others, duration=1000 * seconds_each, loop=0)
        return Film(file.getvalue(), len(frames))


def _paper(width: int, height: int) -> tuple[Any, "ImageDraw"]:
    from PIL import Image, ImageDraw

    picture = Image.new("RGB", (FINE * width, FINE * height), "white")
    return picture, ImageDraw.Draw(picture)


def _pixels(picture: Any) -> np.ndarray:
    return np.asarray(picture.reduce(FINE))


def _square(pen: "ImageDraw", column: int, row: int, size: int, colour: str) -> None:
    left, top = FINE * size * column, FINE * size * row
    side = FINE * size - 1
    pen.rectangle([left, top, left + side, top + side], fill=colour, outline="white", width=2 * FINE)


def _agent(pen: "ImageDraw", column: int, row: int, size: int) -> None:
    x, y, radius = size * (column + 0.5), size * (row + 0.5), size * 0.28
    pen.ellipse([FINE * (x - radius), FINE * (y - radius), FINE * (x + radius), FINE * (y + radius)], fill=AGENT)


def _line(pen: "ImageDraw", begin: tuple, end: tuple, width: int, colour: str) -> None:
    pen.line([FINE * begin[0], FINE * begin[1], FINE * end[0], FINE * end[1]], fill=colour, width=FINE * width)
