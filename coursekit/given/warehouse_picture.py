"""Pictures of the capstone's warehouse, as Gymnasium's `rgb_array` gives them."""

from typing import Any

import numpy as np

from coursekit.given.pictures import FINE

SIZE, HEAD = 34, 26  # pixels of a square, and of the line above the map
KINDS = ("#d97706", "#dc2626", "#2563eb", "#0d9488")  # the four kinds of parcels, in the order of the prices
FLOOR, RACK, INK, ROBOT, TABLE, STATION = "#eef2f6", "#94a3b8", "#334155", "#7c3aed", "#a7f3d0", "#fde68a"


def draw_warehouse(env: Any, longest_wait: int, full_battery: int) -> np.ndarray:
    """Return a picture of a `Warehouse`: shelves with their parcels, the robot and its load, the battery, what it has earned."""
    from PIL import Image, ImageDraw

    plan = env.world.plan
    rows, columns = len(plan), len(plan[0])
    picture = Image.new("RGB", (FINE * SIZE * columns, FINE * (SIZE * rows + HEAD)), "white")
    pen = ImageDraw.Draw(picture)
    pen.rectangle([0, FINE * HEAD, *(FINE * n for n in (SIZE * columns, SIZE * rows + HEAD))], fill=FLOOR)
    for row, line in enumerate(plan):
        for column, mark in enumerate(line):
            _square(pen, column, row, mark)
    for square, kind, wait in zip(env.goals, env.kind, env.patience, strict=False):
        if kind >= 0:
            _order(pen, *_corner(square - columns, columns), kind, env.world.prices[kind], wait / longest_wait)
    _robot(pen, env, *_corner(env.square, columns))
    _head(pen, env, SIZE * columns, env.battery / full_battery)
    return np.asarray(picture.reduce(FINE))


def _box(left: float, top: float, width: float, height: float) -> list[float]:
    return [FINE * left, FINE * top, FINE * (left + width) - 1, FINE * (top + height) - 1]


def _corner(square: int, columns: int) -> tuple[int, int]:
    """Return the left upper corner of a square, in pixels."""
    row, column = divmod(int(square), columns)
    return SIZE * column, HEAD + SIZE * row


def _text(pen: Any, x: float, y: float, text: str, size: int = 13, colour: str = "white", anchor: str = "mm") -> None:
    from PIL import ImageFont

    font = ImageFont.load_default(size=FINE * size)
    pen.text((FINE * x, FINE * y), text, fill=colour, font=font, anchor=anchor)


def _square(pen: Any, column: int, row: int, mark: str) -> None:
    left, top = SIZE * column, HEAD + SIZE * row
    if mark in "=+":
        colour = TABLE if mark == "=" else STATION
        pen.rounded_rectangle(_box(left + 1, top + 1, SIZE - 2, SIZE - 2), 4 * FINE, fill=colour)
        if mark == "=":  # a counter
            pen.rectangle(_box(left + 5, top + SIZE - 9, SIZE - 10, 4), fill="#059669")
        else:  # a battery
            pen.rectangle(_box(left + 11, top + SIZE - 10, SIZE - 22, 6), fill=STATION, outline=INK, width=FINE)
            pen.rectangle(_box(left + SIZE - 11, top + SIZE - 8, 2, 2), fill=INK)
    elif mark != ".":
        pen.rectangle(_box(left, top + 2, SIZE, SIZE - 4), fill=RACK)
        for line in (6, SIZE - 8):
            pen.rectangle(_box(left, top + line, SIZE, 2), fill="#cbd5e1")
        if mark != "#":  # a shelf that is served
            pen.rounded_rectangle(_box(left + 4, top + 2, SIZE - 8, SIZE - 10), 2 * FINE, fill=FLOOR)
    else:
        pen.rectangle(_box(left, top, SIZE, SIZE), outline="#e2e8f0", width=FINE // 2)


def _parcel(pen: Any, left: float, top: float, side: float, kind: int) -> None:
    pen.rounded_rectangle(_box(left, top, side, side), 2 * FINE, fill=KINDS[kind])


def _order(pen: Any, left: int, top: int, kind: int, price: float, share: float) -> None:
    """Draw a parcel on its shelf, with its price, and below it the share of the longest wait that it has left."""
    _parcel(pen, left + 5, top + 3, SIZE - 10, kind)
    _text(pen, left + SIZE / 2, top + SIZE / 2 - 2, f"{price:g}")
    pen.rectangle(_box(left + 3, top + SIZE - 5, SIZE - 6, 4), fill="white")
    pen.rectangle(_box(left + 3, top + SIZE - 5, max((SIZE - 6) * share, 1), 4), fill=INK)


def _robot(pen: Any, env: Any, left: int, top: int) -> None:
    """Draw the robot with what it carries; pale when its battery is empty."""
    colour = ROBOT if env.battery > 0 else "#c4b5fd"
    pen.rounded_rectangle(_box(left + 2, top + 8, SIZE - 4, SIZE - 12), 5 * FINE, fill=colour)
    for wheel in (left + 9, left + SIZE - 9):
        pen.ellipse(_box(wheel - 4, top + SIZE - 9, 8, 8), fill=INK)
    for number, kind in enumerate(env.load):
        _parcel(pen, left + 4 + 9 * number, top + 3, 8, kind)


def _head(pen: Any, env: Any, width: float, share: float) -> None:
    """Draw the line above the map: steps, the share of the battery that is left, earnings."""
    middle = HEAD / 2
    _text(pen, 6, middle, f"step {env.steps}", colour=INK, anchor="lm")
    _text(pen, width / 2 - 38, middle, "battery", colour=INK, anchor="rm")
    pen.rectangle(_box(width / 2 - 32, middle - 6, 64, 12), fill="#e2e8f0")
    colour = "#059669" if share > 0.25 else "#dc2626"
    pen.rectangle(_box(width / 2 - 32, middle - 6, max(64 * share, 1), 12), fill=colour)
    _text(pen, width - 6, middle, f"earned {env.earned:g}", colour=INK, anchor="rm")
