"""A class's entries, one after the other in the same world and the same episodes: one leaderboard, with a film of each."""

import base64
import html
import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from coursekit.basics.errors import CommandError
from coursekit.capstone import referee
from coursekit.capstone.entry import EntryFailed, read_entry
from coursekit.capstone.entry_run import Ran, run
from coursekit.capstone.lead_chart import chart
from coursekit.capstone.leaderboard_page import page
from coursekit.capstone.rules import Rules
from coursekit.given.pictures import film
from coursekit.given.warehouse import Warehouse, World, draw_world


def run_class(folder: Path, rules: Rules, say: Callable[[str], object]) -> Path:
    """Run each entry of a folder, and return the page with all of them; `say` is told of each as it is done."""
    paths = sorted(folder.glob("*.py"))
    if not paths:
        raise CommandError(f"There is no entry in {folder}. Put each student's file there: ada.py, bob.py.")
    seed = secrets.randbits(60)  # one for all, and a secret
    done, failed = [], []
    for path in paths:
        try:
            ran = run(read_entry(path), replace(rules, seed=seed))
        except EntryFailed as problem:
            failed.append(str(problem))
            say(str(problem))
        else:
            done.append(ran._replace(row=replace(ran.row, chosen=False)))
            say(f"{ran.row.name}: {ran.row.lead.signed()}")
    below = ["<p>All of these entries trained in the same world, and their policies ran in the same episodes.</p>"]
    world = draw_world(referee.drawn(seed, "world"))
    below += [_card(ran, world) for ran in sorted(done, key=lambda ran: -ran.row.lead.mean)]
    below += [f'<p class="small">No score. {html.escape(problem)}</p>' for problem in failed]
    path = folder / "board.html"
    path.write_text(page([ran.row for ran in done], "\n".join(below)), encoding="utf-8")
    return path


def _card(ran: Ran, world: World) -> str:
    """Return an entry's own curve and the film of its best episode."""
    gif = base64.b64encode(film(pictures(world, *ran.best), seconds_each=0.12).gif).decode()
    name = html.escape(ran.row.name)
    return (
        f'<h2>{name}</h2>\n<div class="wide">{chart([ran.row])}</div>\n'
        f'<img alt="The best episode of {name}" src="data:image/gif;base64,{gif}">'
    )


def pictures(world: World, seed: int, actions: np.ndarray) -> list[np.ndarray]:
    """Return the pictures of an episode that was played with these actions."""
    env = Warehouse(world, render_mode="rgb_array")
    env.reset(seed=seed)
    shown = [env.render()]
    for action in actions:
        env.step(action)
        shown.append(env.render())
    return shown
