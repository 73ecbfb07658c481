"""What chapter 20 hands out, and the probes that drive its answers."""

import contextlib
import linecache
import math
import types
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict
from unittest import mock

import numpy as np

from coursekit.basics.progress_bar import progress_bar
from coursekit.given._sent import sent_to_actors
from coursekit.given.warehouse import EPISODE_STEPS, Warehouses, World, make_envs
from coursekit.learner.progress import home

if TYPE_CHECKING:
    from coursekit.given.cpu_budget import Budget

IMPORTS = '''"""An entry for the capstone. Change it, and run it with `coursekit capstone run`."""

from contextlib import contextmanager
from functools import partial

import numpy as np
import ray
import torch
from scipy.special import log_softmax
from torch import nn

from coursekit.given.warehouse import NUMBERS, VIEWS, baseline, evaluate

torch.set_num_threads(1)
'''


@contextlib.contextmanager
def bar_of(seconds: float) -> Iterator["Budget"]:
    """Yield a budget of these CPU seconds, and show with each reported point how many of them are spent."""
    from coursekit.given.cpu_budget import Budget

    total = math.ceil(seconds)
    with progress_bar(total, "CPU seconds") as step:
        shown = 0

        def tell(spent: float, mean_return: float) -> None:
            nonlocal shown
            while shown < min(spent, total):
                step()
                shown += 1

        yield Budget(seconds, tell=tell)


def write_entry(train: Callable, *needs: Any, name: str = "my_entry.py") -> Path:
    """Write an entry's file: the cells in which `needs` and `train` were defined, and `train` under its proper name."""
    cells = dict.fromkeys(_cell(part) for part in (*needs, train))
    alias = "" if train.__name__ == "train" else f"train = {train.__name__}\n"
    path = home() / "capstone" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join([IMPORTS, *cells, alias]), encoding="utf-8")
    return path


def side_by_side(pictures: dict[str, np.ndarray]) -> np.ndarray:
    """Return one picture of several that are equally large, from left to right, each below its name."""
    from PIL import Image, ImageDraw, ImageFont

    gap, line, font = 12, 22, ImageFont.load_default(size=15)
    height, width = next(iter(pictures.values())).shape[:2]
    paper = Image.new("RGB", (len(pictures) * (width + gap) - gap, height + line), "white")
    pen = ImageDraw.Draw(paper)
    for number, (name, picture) in enumerate(pictures.items()):
        left = number * (width + gap)
        pen.text((left + width / 2, line / 2), name, fill="#334155", font=font, anchor="mm")
        paper.paste(Image.fromarray(picture), (left, line))
    return np.asarray(paper)


def _cell(part: Any) -> str:
    """Return the source of the cell in which a function or a class was defined; what defined it before does not count."""
    methods = [value for value in vars(part).values() if isinstance(value, types.FunctionType)]
    function = part if isinstance(part, types.FunctionType) else methods[0]
    function = getattr(function, "__wrapped__", function)  # below a decorator
    lines = linecache.getlines(function.__code__.co_filename)
    return "".join(line for line in lines if not line.strip().startswith("###")).strip() + "\n"


# Probes: they have an entry learn, keep its policy here, and ask it what to do. The judge owns the episodes.

_learned: dict[str, Callable] = {}


class Told(TypedDict):
    """What an entry returned (its kind), the CPU seconds it spent, what it sent to which actor, its curve, and the episodes played here."""

    returned: str
    spent: float
    sent: list[tuple[str, list[int]]]
    curve: list[tuple[float, float]]
    episodes: float


def have_it_learn(entry: Callable, world: list, seconds: float, seed: int, goal: float | None = None) -> Told:
    """Return what is told of an entry that has learned, perhaps up to a goal; its policy stays here."""
    import torch

    from coursekit.given.cpu_budget import Budget

    torch.set_num_threads(1)  # also where the notebook's own line was not run: more threads cost many times as much
    torch.manual_seed(seed)
    np.random.seed(seed)
    _learned.clear()
    budget, goals = Budget(seconds), {} if goal is None else {"goal": goal}
    with sent_to_actors() as sent, steps_counted() as steps:
        policy = entry(partial(make_envs, world=World(*map(tuple, world))), budget, **goals)
        spent = budget.spent()
    kind = "a function" if callable(policy) else type(policy).__name__
    if callable(policy):
        _learned["policy"] = policy
    return {
        "returned": kind,
        "spent": spent,
        "sent": [(actor, marks) for actor, marks in sent],
        "curve": budget.curve,
        "episodes": sum(steps) / EPISODE_STEPS,
    }


@contextlib.contextmanager
def steps_counted() -> Iterator[list[int]]:
    """Yield a list that gets the number of warehouses of each step that is taken here meanwhile."""
    counts: list[int] = []
    step = Warehouses.step

    def counted(envs: Warehouses, actions: Any) -> tuple:
        counts.append(envs.num_envs)
        return step(envs, actions)

    with mock.patch.object(Warehouses, "step", counted):
        yield counts


def ask_it(entry: Callable, observations: np.ndarray) -> Any:
    """Return what the policy that was learned last does with these observations, [N, 55]."""
    return _learned["policy"](observations)
