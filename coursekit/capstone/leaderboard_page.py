"""The leaderboard as one HTML file that needs nothing else, in the reader's light or dark."""

import html
from pathlib import Path

from coursekit.capstone import leaderboard
from coursekit.capstone.lead_chart import SHOWN, chart
from coursekit.capstone.leaderboard import Row
from coursekit.capstone.referee import EPISODES

LIGHT = ("#2a78d6", "#008300", "#d6568c", "#b97a00", "#12885f", "#d3541f")
DARK = ("#5a9ff0", "#3fae4a", "#ee86b3", "#e0a52e", "#35bd8c", "#f0825a")
PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Capstone leaderboard</title>
<style>
:root {{ color-scheme: light dark; --ground: #fcfcfb; --ink: #1c1c1a; --soft: #5c5b57; --line: #dddcd6; {light} }}
@media (prefers-color-scheme: dark) {{ :root {{ --ground: #1a1a19; --ink: #f1f0ea; --soft: #b4b2a9; --line: #3b3a37; {dark} }} }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 66rem; margin: 2rem auto; padding: 0 1rem;
  background: var(--ground); color: var(--ink) }}
h1 {{ font-size: 1.5rem; margin-bottom: 0 }} h2 {{ font-size: 1.1rem; margin: 2rem 0 .2rem }}
.small {{ color: var(--soft); font-size: .9rem }}
.wide {{ overflow-x: auto }} svg {{ width: 100%; min-width: 40rem; height: auto; font: 12px system-ui, sans-serif }}
svg text {{ fill: var(--soft) }} svg .head {{ fill: var(--ink); font-weight: 600 }}
.grid, .axis, .reference {{ fill: none; stroke: var(--line) }} .axis, .reference {{ stroke: var(--soft) }}
.reference {{ stroke-dasharray: 5 4 }}
.curve {{ fill: none; stroke-width: 2; stroke-linejoin: round; stroke: var(--line) }} .curve circle {{ stroke: none }}
.curve.others {{ stroke: var(--soft); opacity: .4 }} .others circle {{ fill: var(--soft) }}
.score {{ stroke-width: 2 }} .score circle {{ stroke: none }} .score path {{ fill: none }}
{colours}
table {{ border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .95rem }}
th, td {{ padding: .3rem .6rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap }}
th {{ color: var(--soft); font-weight: 500 }} .left {{ text-align: left; white-space: normal; overflow-wrap: anywhere; min-width: 9rem }}
img {{ max-width: 100% }} .swatch {{ display: inline-block; width: .7rem; height: .7rem; border-radius: 50%; margin-right: .4rem }}
</style>
<h1>Capstone leaderboard</h1>
<p class="small">Each run has a world of its own: prices, customers, map. What ranks is the lead over the baseline in the same {episodes} episodes,
which the entry has not seen, with its 95 % interval. Where the intervals of two leads overlap, the entries share a rank.
By the clock, the baseline is docs/example_entry.py, which learns before and after each entry on the same machine; the judge kills one actor of each.
A learning curve is what the entry said of itself, less what the baseline earns in its world.</p>
{leagues}
{below}
"""
EMPTY = "<p>No entry has been judged yet. Run one: <code>coursekit capstone run my_entry.py</code></p>"
HEADS = ("rank", "entry", "lead", "score", "baseline", "prices known", "CPU s", "clock s", "judged", "remarks")


def write_leaderboard() -> Path:
    """Write the leaderboard's page and return where it is."""
    path = leaderboard.folder() / "board.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(leaderboard.rows()), encoding="utf-8")
    return path


def page(rows: list[Row], below: str = "") -> str:
    """Return the page with a section for each league, and `below` them what else is to be shown, as HTML."""
    sections = [_section(league, ranked) for league, ranked in leaderboard.leagues(rows).items()]
    return PAGE.format(
        light=_variables(LIGHT),
        dark=_variables(DARK),
        colours="\n".join(
            f".curve.c{place} {{ stroke: var(--c{place}) }} .score.c{place} {{ stroke: var(--c{place}) }} "
            f".c{place} circle, .swatch.c{place} {{ fill: var(--c{place}); background: var(--c{place}) }}"
            for place in range(1, SHOWN + 1)
        ),
        episodes=EPISODES,
        leagues="\n".join(sections) or EMPTY,
        below=below,
    )


def _variables(colours: tuple[str, ...]) -> str:
    return " ".join(f"--c{place}: {colour};" for place, colour in enumerate(colours, 1))


def _section(league: leaderboard.League, ranked: list[Row]) -> str:
    version, by_clock, seconds = league
    name = f"{seconds:g} seconds by the clock, on a slow simulator" if by_clock else f"{seconds:g} CPU seconds"
    heads = "".join(f"<th{' class=left' if head in ('entry', 'remarks') else ''}>{head}</th>" for head in HEADS)
    ranks = leaderboard.ranks(ranked)
    lines = [
        _row(row, leaderboard.spoken(rank, ranks), place)
        for place, (row, rank) in enumerate(zip(ranked, ranks, strict=True), 1)
    ]
    return (
        f"<h2>{name}, version {version} of the warehouse</h2>\n"
        f'<div class="wide">{chart(ranked)}</div>\n<div class="wide"><table>\n<tr>{heads}</tr>\n{"".join(lines)}</table></div>'
    )


def _row(row: Row, rank: str, place: int) -> str:
    swatch = f'<span class="swatch c{place}"></span>' if place <= SHOWN else ""
    cells = [
        f"{swatch}{rank}",
        f"<b>{html.escape(row.name)}</b>",
        f"<b>{row.lead.mean:+.1f}</b> ± {(row.lead.high - row.lead.low) / 2:.1f}",
        *(f"{score.mean:.1f}" for score in (row.score, row.baseline, row.informed)),
        f"{row.cpu:.1f}",
        f"{row.wall:.1f}",
        html.escape(row.when[:10]),
        html.escape(remarks(row)),
    ]
    left = {1, len(cells) - 1}
    row_of = "".join(f"<td{' class=left' if i in left else ''}>{cell}</td>" for i, cell in enumerate(cells))
    return f"<tr>{row_of}</tr>\n"


def remarks(row: Row) -> str:
    """Return what a reader has to know of a row beside its numbers."""
    lived = "an actor was killed" if row.killed else "no actor to kill: not ranked"
    by_clock = [lived, row.machine, f"the baseline's two runs {row.spread:.1f} apart"]
    notes = [
        f"{row.file} {row.fingerprint}",
        *(["seed chosen: not ranked"] if row.chosen else []),
        *(by_clock if row.by_clock else []),
        *([] if row.sandboxed else ["without a sandbox"]),
        *(["CPU by process times"] if row.measured == "processes" else []),
        *([] if row.curve else ["no curve reported"]),
    ]
    return ", ".join(notes)
